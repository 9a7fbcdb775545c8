"""The fixes of what converts to something else: the same outputs and gradients in PyTorch, and a program that agrees."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint.results.diagnostic import Diagnostic
from modellint.rule import Page
from modellint.rule_index import load_rules
from modellint.source.check import check_source
from modellint.source.fix import fix_text
from modellint.source.project.index import Project
from modellint.source.syntax.source_text import SourceText

RULES = load_rules()
pytestmark = pytest.mark.filterwarnings("ignore")


def with_fix(text: str, code: str, folder: Path) -> str:
    """The text with the fixes of one rule, also of one that is off by default."""

    def look(source: SourceText) -> tuple[Diagnostic, ...]:
        path = folder / "model.py"
        return check_source(source, path, path.name, None, Project(folder), {code: RULES[code]}).diagnostics

    done = fix_text(SourceText(text), look, unsafe=True)
    assert done.problem is None
    assert done.text != text
    return done.text


@contextmanager
def made(text: str, folder: Path, name: str) -> Iterator[tuple[nn.Module, tuple[Any, ...]]]:
    """The last module class of a block, built with the same weights each time, and its inputs."""
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    full = f"{folder.name.replace('-', '_')}_{name}"
    spec = importlib.util.spec_from_file_location(full, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    torch.manual_seed(0)
    try:
        spec.loader.exec_module(module)
        classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == full]
        torch.manual_seed(0)
        yield classes[-1]().eval(), module.inputs
    finally:
        del sys.modules[full]


def results(model: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """The output on random numbers of the inputs' shapes, and the gradients of the inputs where there are any."""
    chance = torch.Generator().manual_seed(1)
    given = [
        torch.randn(one.shape, generator=chance).requires_grad_() if one.is_floating_point() else one.clone()
        for one in inputs
    ]
    # A leaf that asks for gradients cannot be written to.
    output = model(*(one * 1 for one in given))
    found = [output.detach()]
    if output.requires_grad:
        output.double().pow(2).sum().backward()
        found += [one.grad for one in given if one.grad is not None]
    return found


@pytest.mark.parametrize("code", ["MUT001", "MUT002", "MUT003", "MUT004", "MUT007", "OPS006", "OPS007"])
def test_fix_keeps_the_model_and_mends_the_program(code: str, tmp_path: Path) -> None:
    text = Page.of(type(RULES[code])).example("Bad")
    fixed = with_fix(text, code, tmp_path)
    with made(text, tmp_path, "bad") as (model, inputs):
        before = results(model, inputs)
    with made(fixed, tmp_path, "fixed") as (model, inputs):
        for one, other in zip(before, results(model, inputs), strict=True):
            torch.testing.assert_close(other, one, rtol=0, atol=1e-6, equal_nan=True)
        for route in ("trace", "export"):
            found = modellint.verify(model, inputs, frontend=route, precision="fp32")
            assert found.ok, f"{route}: {found}"


@pytest.mark.parametrize("code", ["MUT001", "MUT002", "OPS006"])
def test_without_the_fix_the_program_differs(code: str, tmp_path: Path) -> None:
    with made(Page.of(type(RULES[code])).example("Bad"), tmp_path, "bad") as (model, inputs):
        assert not modellint.verify(model, inputs, frontend="trace", precision="fp32").ok

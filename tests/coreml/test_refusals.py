"""Every use that source checks call refused is converted; what is accepted beside it, too."""

from __future__ import annotations

import contextlib
import linecache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint.authoring import coreml
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint_rules.operators.refusals.conditions import Refusal
from modellint_rules.operators.refusals.table import refusals

pytestmark = pytest.mark.filterwarnings("ignore")

TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, {names}):
        return {expression}
"""


def text_of(shapes: str, expression: str, layer: str) -> str:
    names = ", ".join("xyz"[: len(shapes.split())])
    return TEXT.format(layer=layer or "nn.Identity()", names=names, expression=expression)


def tensor(word: str) -> torch.Tensor:
    torch.manual_seed(0)
    shape = [int(size) for size in word.removesuffix("i").split("x")]
    return torch.randint(0, 3, shape) if word.endswith("i") else torch.rand(shape)


def built(text: str, name: str) -> nn.Module:
    path = f"<{name}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    scope: dict[str, Any] = {"__name__": "use"}
    exec(compile(text, path, "exec"), scope)
    model: nn.Module = scope["Net"]().eval()
    return model


def converts(program: Any, types: list[Any] | None) -> bool:
    options = {} if types is None else {"inputs": types}
    with silence(), contextlib.suppress(Exception):
        ct.convert(program, skip_model_load=True, **options)
        return True
    return False


def converts_traced(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> bool:
    try:
        with torch.no_grad():
            program = torch.jit.trace(model, inputs, check_trace=False)
    except RuntimeError:
        # Nothing is captured where torch has no operator for it.
        return False
    kinds = [int if value.dtype is torch.int64 else float for value in inputs]
    import numpy as np

    types = [
        ct.TensorType(shape=value.shape, dtype=np.int32 if kind is int else np.float32)
        for value, kind in zip(inputs, kinds, strict=True)
    ]
    return converts(program, types)


def converts_exported(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], tables: tuple[dict[Any, Any] | None, ...] = ({}, None)
) -> bool:
    for table in tables:
        with contextlib.suppress(Exception), torch.no_grad():
            if converts(torch.export.export(model, inputs).run_decompositions(table), None):
                return True
    return False


@pytest.mark.parametrize("use", refusals(), ids=lambda use: use.shown)
def test_refused(use: Refusal, tmp_path: Path) -> None:
    shapes, expression, layer = use.example
    text = text_of(shapes, expression, layer)
    model, inputs = built(text, use.shown), tuple(map(tensor, shapes.split()))
    (tmp_path / "modellint.toml").write_text(f'coreml-version = "{coreml.here()}"\n', "utf-8")
    found = modellint.check_source(text, str(tmp_path / "model.py")).diagnostics
    findings = [one for one in found if one.code == "OPS002"]
    if use.lifted is not None and coreml.is_at_least(coreml.here(), use.lifted):
        assert converts_traced(model, inputs)
        assert converts_exported(model, inputs)
        assert not findings
        return
    assert converts_traced(model, inputs) == use.trace
    assert converts_exported(model, inputs) == use.export
    assert (use.export and not converts_exported(model, inputs, ({},))) == use.core_only
    (finding,) = findings
    assert finding.severity.label == ("warning" if use.trace or use.export else "error")
    assert finding.span is not None
    assert text.splitlines()[finding.span.row - 1].lstrip().startswith("return")

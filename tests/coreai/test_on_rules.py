"""For which destinations rules hold: what they call wrong is right for Core AI where they are not asked about it."""

from __future__ import annotations

import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from judging import judged
from torch import Tensor, nn
from torch.nn import functional

import modellint
from modellint.destinations.coreai.converter_process import ConverterProcess
from modellint.results.verification import AGREES
from modellint.rule_index import load_rules
from modellint_rules.operators.refusals.conditions import Refusal
from modellint_rules.operators.refusals.table import converted_otherwise

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

BAD = re.compile(r"## Bad\n```python\n(.*?)```", re.DOTALL)
OF_DEVICES = {"NUM005"}
"""What Core ML's devices were reported for: Core AI has faults of its own (its `log1p` is a logarithm of `1 + x`)."""
ELSEWHERE = {
    code: match[1]
    for code, rule in load_rules().items()
    if not rule.holds_for("coreai")
    and code not in OF_DEVICES
    and (match := BAD.search(inspect.cleandoc(type(rule).__doc__ or "")))
    and "\ninputs = " in match[1]
}


def test_rules_about_coremltools_alone_are_few() -> None:
    assert 10 < len(ELSEWHERE) < 25


@pytest.mark.parametrize("code", ELSEWHERE)
def test_bad_is_right_for_core_ai(code: str, process: ConverterProcess, tmp_path: Path) -> None:
    file = tmp_path / f"bad_{code.lower()}.py"
    file.write_text(ELSEWHERE[code], "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == file.stem]
        model = [value for value in own if inspect.isclass(value) and issubclass(value, nn.Module)][-1]()
        verification, _ = judged(process, model, module.inputs, tmp_path)
    finally:
        del sys.modules[file.stem]
    assert verification.verdict == AGREES


class Use(nn.Module):
    """One use of an operator."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


MAP = torch.randn(1, 2, 12, 12)
USES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "a third": (lambda x: functional.interpolate(x, size=(4, 4)), MAP),
    "a quarter": (lambda x: functional.interpolate(x, scale_factor=0.25), MAP),
    "a half": (lambda x: functional.interpolate(x, scale_factor=0.5), MAP),
    "twice": (lambda x: functional.interpolate(x, scale_factor=2.0), MAP),
    "three times": (lambda x: functional.interpolate(x, size=(36, 36)), MAP),
    "a third and twice": (lambda x: functional.interpolate(x, size=(4, 24)), MAP),
    "padding does not count": (lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), MAP),
    "padding counts": (lambda x: functional.avg_pool2d(x, 3, 2, 1), MAP),
    "rounded up for nothing": (
        lambda x: functional.avg_pool2d(x[:, :, 1:, 1:], 3, 2, 1, ceil_mode=True, count_include_pad=False),
        MAP,
    ),
    "indices of one axis": (
        lambda x: functional.max_pool1d(x.flatten(2), 2, return_indices=True)[1].float(),
        MAP,
    ),
    "no padding": (lambda x: functional.avg_pool2d(x, 2, 2, count_include_pad=False), MAP),
    "a maximum": (lambda x: functional.max_pool2d(x, 2), MAP),
    "indices": (lambda x: functional.max_pool2d(x, 2, return_indices=True)[1].float(), MAP),
    "there and back": (lambda x: (x * 9).int().float(), MAP),
    "there": (lambda x: (x * 9).int(), MAP),
    "whole numbers": (lambda x: (x * 9).int() + 2, MAP),
    "with a float": (lambda x: torch.arange(1, 3000) * 0.1 + x[0, 0, 0, 0], MAP),
    "truths and numbers": (lambda x: (x > 0) * x, MAP),
    "truths": (lambda x: ((x > 0) * (x < 1)).float(), MAP),
    "rows by truths": (lambda x: x[:, [True, False]], MAP),
    "elements by truths": (lambda x: x.flatten()[x.flatten() > 0], MAP),
    "rows by numbers": (lambda x: x[:, [1, 0]], MAP),
    "a small number": (lambda x: 1 / torch.where(x > 0, x, 1e-5), MAP),
    "a small number assigned": (lambda x: x.masked_fill(x > 0, 1e-7).abs().amin().log(), MAP),
    "a number of float16": (lambda x: torch.where(x > 0, 0.5, x), MAP),
    "a large number": (lambda x: x.masked_fill(x > 0, -1e9), MAP),
    "zero": (lambda x: x.masked_fill(x > 0, 0.0), MAP),
    "a rounded number": (lambda x: torch.where(x > 0, 0.1, x), MAP),
    "a rounded step": (lambda x: torch.arange(0.0, 1.2, 0.1) + x, MAP),
    "a step of float16": (lambda x: torch.arange(0.0, 6.0, 0.5) + x, MAP),
    "numbers in line": (lambda x: torch.linspace(0.0, 1.1, 12) + x, MAP),
    "sixteen bits": (lambda x: (x * 90000).to(torch.int32).to(torch.int16), MAP),
    "eight bits": (lambda x: (x * 900).to(torch.int32).to(torch.int8), MAP),
    "bits enough": (lambda x: (x * 9).to(torch.int16).to(torch.int32), MAP),
    "a map of a number": (lambda x: torch.full_like(x, 0.1), MAP),
}


@pytest.mark.parametrize("name", USES)
def test_uses_that_are_called_wrong_are_wrong(name: str) -> None:
    function, x = USES[name]
    model = Use(function).eval()
    found = modellint.check_model(model, (x,), destination="coreai", select="OPS011,OPS002").diagnostics
    assert bool(found) == (modellint.verify(model, (x,), destination="coreai").verdict != AGREES)


def _masked(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(4, 4, dtype=torch.bool).tril(-1))


@pytest.mark.parametrize(
    ("function", "x", "operator"),
    [
        (_masked, torch.randn(1, 1, 4, 8), "aten::scaled_dot_product_attention"),
        (lambda x: torch.remainder(x, 1 / x.relu()) + 1, torch.tensor([1.0, -2.0, 3.0]), "aten::remainder"),
        (lambda x: torch.floor(x) * 2, torch.tensor([1.5, math.inf]), "aten::floor"),
    ],
    ids=["a row that is masked whole", "a remainder by infinity", "infinity rounded"],
)
def test_what_depends_on_values_shows_on_the_example(
    function: Callable[[Tensor], Tensor], x: Tensor, operator: str
) -> None:
    report = modellint.check_model(Use(function).eval(), (x,), destination="coreai")
    (finding,) = (each for each in report.diagnostics if each.code == "OPS011")
    assert finding.operator == operator
    assert finding.span is not None
    assert "computes something else" in report.verdict


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.remainder(x, 0.7) + 1,
        lambda x: {"parts": (x.exp(), None), "first": x[0]},
        lambda x: torch.argsort(x, stable=True),
        lambda x: x + torch.rand_like(x),
        lambda x: (x * 4.5).round().clamp(-2, 2).int().float(),
        lambda x: (x // 2.0).int().float() + (x > 0).float().int().float(),
    ],
    ids=["like it", "other than tensors", "places", "random", "whole", "whole besides"],
)
def test_nothing_is_said_of_what_is_right_or_cannot_be_compared(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5, generator=torch.Generator().manual_seed(0))
    assert not modellint.check_model(Use(function).eval(), (x,), destination="coreai", select="OPS011").diagnostics


def test_of_a_random_model_nothing_is_called_near() -> None:
    model = nn.Sequential(nn.Linear(5, 5), Use(lambda x: x + torch.bernoulli(torch.full((5,), 0.5)))).eval()
    verdict = modellint.check_model(model, (torch.randn(2, 5),), destination="coreai").verdict
    assert "near PyTorch" not in verdict


def test_an_export_is_told_of_a_model_that_returns_more_than_tensors() -> None:
    model = Use(lambda x: (functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False), None))
    verdict = modellint.check_model(model.eval(), (MAP,), destination="coreai").verdict
    assert "converts with modellint export" in verdict


def test_the_verdict_says_that_it_computes_something_else() -> None:
    function, x = USES["rows by truths"]
    line = str(modellint.check_model(Use(function).eval(), (x,), destination="coreai"))
    assert "Core AI: converts, and computes something else: OPS011" in line


TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}

    def forward(self, x):
        return {expression}
"""


@pytest.mark.parametrize("use", converted_otherwise(), ids=lambda use: use.shown)
def test_uses_that_literals_show_are_wrong_and_found_in_source(use: Refusal, tmp_path: Path) -> None:
    shape, expression, layer = use.example
    file = tmp_path / "model.py"
    file.write_text(TEXT.format(layer=layer or "nn.Identity()", expression=expression), "utf-8")
    (tmp_path / "modellint.toml").write_text('destination = "coreai"\nselect = ["OPS011"]\n', "utf-8")
    (finding,) = modellint.check_source(file.read_text("utf-8"), str(file)).diagnostics
    assert finding.span is not None
    assert finding.span.row == 12
    spec = importlib.util.spec_from_file_location("wrong_for_core_ai", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.randn([int(size) for size in shape.split("x")], generator=torch.Generator().manual_seed(0))
    assert modellint.verify(module.Net().eval(), (x,), destination="coreai").verdict == "differs"


def _found_in_source(expression: str, folder: Path) -> Sequence[Any]:
    file = folder / "model.py"
    (folder / "modellint.toml").write_text('destination = "coreai"\nselect = ["OPS011"]\n', "utf-8")
    return modellint.check_source(TEXT.format(layer="nn.Identity()", expression=expression), str(file)).diagnostics


@pytest.mark.parametrize(
    "expression",
    [
        "F.avg_pool2d(x, 3, 1, 1)",
        "F.avg_pool2d(x, 2, 2, count_include_pad=False)",
        "F.interpolate(x, scale_factor=0.5)",
        "F.interpolate(x, scale_factor=2.0)",
        'F.interpolate(x, scale_factor=0.25, mode="bilinear")',
        "F.max_pool2d(x, 2)",
        "x.sigmoid().round().int().float()",
        "(x > 0).int().float()",
        "torch.where(x > 0, x, 0.25)",
        "x.masked_fill(x < 0, 1e5)",
        "x.logit(0.125)",
        "x + torch.arange(0.0, 1.0, 0.25)",
    ],
)
def test_uses_beside_them_are_right(expression: str, tmp_path: Path) -> None:
    assert not _found_in_source(expression, tmp_path)


@pytest.mark.parametrize(
    "expression",
    [
        "(x * 2.0).round().clamp(-8, 8).int().float()",
        "(x.long() * 2.0).long().float()",
        "(x > 0.5).float().long().float()",
        "(x.argmax(-1, keepdim=True) * 1.0).int().float()",
        "(x // 2.0).int().float()",
        "(x * 1.5).floor_().long().float()",
        "torch.zeros(3).int().float()",
        "torch.where(x > 0, 0.1, x.half())",
        "x.half().masked_fill(x > 0, 0.1)",
        "torch.zeros(3, dtype=torch.long).index_fill(0, x.long(), 0.1)",
        "torch.arange(0.0, 3.0, 0.3, dtype=torch.float16)",
    ],
)
def test_what_has_no_fractions_to_lose_is_not_found_in_source(expression: str, tmp_path: Path) -> None:
    assert not _found_in_source(expression, tmp_path)

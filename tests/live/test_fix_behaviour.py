"""What fixes promise, with torch: no output changes, no gradient, and no key of ``state_dict`` goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.rule import Page
from modellint.rule_index import load_rules
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = {code: rule for code, rule in load_rules().items() if rule.fixable}
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
SHAPES = ((2, 8), (2, 4), (2, 8, 4), (2, 4, 8), (2, 3, 8, 8), (2, 4, 8, 8), (2, 16, 8), (2, 8, 16))
"""Inputs to try: the first that the right model accepts is the one that both get."""


@dataclass(frozen=True)
class Seen:
    """What one model shows of itself: keys, outputs, and gradients by what they belong to."""

    keys: frozenset[str]
    outputs: tuple[torch.Tensor, ...]
    gradients: dict[str, torch.Tensor]


def model_in(text: str) -> type[nn.Module]:
    made: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made.py", "exec"), made)
    return [value for value in made.values() if isinstance(value, type) and value.__module__ == "made"][-1]


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    match value:
        case torch.Tensor():
            yield value
        case dict():
            for part in value.values():
                yield from tensors_in(part)
        case list() | tuple():
            for part in value:
                yield from tensors_in(part)


def seen(text: str, shape: tuple[int, ...]) -> Seen:
    torch.manual_seed(0)
    model = model_in(text)()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), requires_grad=True)
    outputs = tuple(tensors_in(model(x)))
    assert outputs
    total = sum((output.sum() for output in outputs), torch.zeros(()))
    values = {"the input": x, **dict(model.named_parameters())}
    gradients = torch.autograd.grad(total, list(values.values()), allow_unused=True)
    known = {name: value for name, value in zip(values, gradients, strict=True) if value is not None}
    return Seen(frozenset(model.state_dict()), outputs, known)


def input_for(text: str) -> tuple[int, ...]:
    for shape in SHAPES:
        try:
            seen(text, shape)
        except (RuntimeError, ValueError, IndexError):
            continue
        return shape
    pytest.fail("none of the inputs fits the model; add one to SHAPES")


def runs(text: str, shape: tuple[int, ...]) -> bool:
    try:
        seen(text, shape)
    except Exception:
        return False
    return True


def assert_same(one: Seen, other: Seen) -> None:
    """Equal outputs, and equal gradients of all that both know by name."""
    assert len(one.outputs) == len(other.outputs)
    for left, right in zip(one.outputs, other.outputs, strict=True):
        assert torch.equal(left, right)
    for name in one.gradients.keys() & other.gradients.keys():
        assert torch.equal(one.gradients[name], other.gradients[name]), name


def fixed_by_safe_fixes(text: str) -> str:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return modellint.check_source(source.text).diagnostics

    done = fix_text(SourceText(text), check)
    assert done.problem is None
    assert done.text != text
    return done.text


def is_safe(code: str) -> bool:
    findings = modellint.check_source(Page.of(type(RULES[code])).example("Bad")).diagnostics
    safe = (finding.fix is not None and finding.fix.applicability is Applicability.SAFE for finding in findings)
    return bool(findings) and all(safe)


def compare(bad: str, fixed: str, good: str) -> None:
    shape = input_for(good)
    after, right = seen(fixed, shape), seen(good, shape)
    assert after.keys == right.keys
    assert_same(after, right)
    if runs(bad, shape):
        before = seen(bad, shape)
        assert before.keys <= after.keys
        assert_same(before, after)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", [code for code in RULES if is_safe(code)])
def test_page(code: str) -> None:
    page = Page.of(type(RULES[code]))
    bad = page.example("Bad")
    compare(bad, fixed_by_safe_fixes(bad), page.example("Good"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    bad = (ROOT / "examples" / name).read_text("utf-8")
    compare(bad, fixed_by_safe_fixes(bad), (ROOT / "examples" / "fixed" / name).read_text("utf-8"))


@pytest.mark.parametrize("code", ["REG003", "REG008"])
def test_bad_of_these_does_not_run(code: str) -> None:
    """So the comparison is with Good alone, as their pages say."""
    page = Page.of(type(RULES[code]))
    assert not runs(page.example("Bad"), input_for(page.example("Good")))


@pytest.mark.parametrize("code", ["REG001", "REG002", "REG004", "REG005"])
def test_bad_of_these_runs_and_hides_state(code: str) -> None:
    page = Page.of(type(RULES[code]))
    shape = input_for(page.example("Good"))
    assert seen(page.example("Bad"), shape).keys < seen(page.example("Good"), shape).keys

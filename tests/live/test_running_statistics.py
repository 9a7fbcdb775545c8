"""What the fixes for running statistics do to gradients, to memory and to evaluation."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import modellint
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

TEXT = """\
import torch
from torch import nn


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 1.5))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        x = x * self.scale
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return (x - self.mean).square()
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(text: str) -> nn.Module:
    names: dict[str, type[nn.Module]] = {}
    exec(compile(text, "made.py", "exec"), names)
    return names["Centred"]()


@pytest.fixture
def fixed() -> str:
    done = fix_text(SourceText(TEXT), lambda source: modellint.check_source(source.text).diagnostics)
    assert done.problem is None
    assert done.remaining == ()
    return done.text


def step(model: nn.Module, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of one step, and the gradient of its input."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    output = model(x)
    (gradient,) = torch.autograd.grad(output.sum(), [x], retain_graph=True)
    return output.detach(), gradient


def test_values_and_gradients_of_each_step_stay(fixed: str) -> None:
    before, after = made(TEXT), made(fixed)
    for seed in range(3):
        for one, other in zip(step(before, seed), step(after, seed), strict=True):
            assert torch.equal(one, other)
    assert torch.equal(before.state_dict()["mean"], after.state_dict()["mean"])


def test_gradient_of_the_parameter_in_the_first_step_stays(fixed: str) -> None:
    gradients = []
    for model in (made(TEXT), made(fixed)):
        model(torch.arange(12.0).reshape(3, 4)).sum().backward()
        gradients.append(model.get_parameter("scale").grad)
    assert gradients[0] is not None
    assert gradients[1] is not None
    assert torch.equal(gradients[0], gradients[1])


def keeps_first_input(text: str) -> bool:
    model = made(text)
    first = torch.randn(3, 4, requires_grad=True)
    seen = weakref.ref(first)
    model(first)
    del first
    model(torch.randn(3, 4))
    gc.collect()
    return seen() is not None


def test_graph_of_the_step_before_is_free(fixed: str) -> None:
    assert keeps_first_input(TEXT)
    assert not keeps_first_input(fixed)


def test_second_backward_works(fixed: str) -> None:
    model = made(TEXT)
    model(torch.randn(3, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        model(torch.randn(3, 4)).sum().backward()
    model = made(fixed)
    model(torch.randn(3, 4)).sum().backward()
    model(torch.randn(3, 4)).sum().backward()


def test_evaluation_leaves_the_statistic_alone(fixed: str) -> None:
    model = made(fixed)
    model(torch.randn(3, 4))
    before = model.state_dict()["mean"].clone()
    model.eval()
    model(torch.randn(3, 4))
    assert torch.equal(before, model.state_dict()["mean"])

"""Random numbers that a model draws: inputs of a package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.nn import functional

import modellint
from modellint.cli import cli

X = torch.linspace(-1, 1, 16).reshape(2, 8)
N = 4000
"""Numbers that are drawn to compare a distribution."""


class Drawing(nn.Module):
    """A model that adds what a function draws."""

    def __init__(self, draws: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self._draws = draws

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        y = self.layer(x)
        drawn = self._draws(y)
        y = y if scale is None else y * scale
        return torch.cat((y.flatten(), drawn.flatten().to(y.dtype)))


def gaussian(h: Tensor) -> Tensor:
    return torch.distributions.Normal(h, h.exp(), validate_args=False).rsample()


DRAWS: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "randn": (lambda h: torch.randn(h.shape[0], 3), ["random_normal"]),
    "randn_like": (torch.randn_like, ["random_normal"]),
    "rand": (lambda h: torch.rand((2, 3)), ["random_uniform"]),
    "rand_like": (lambda h: torch.rand_like(input=h).argsort(-1), ["random_uniform"]),
    "randint": (lambda h: torch.randint(2, 5, (2, 3)) + 1, ["random_integers"]),
    "randint_like": (lambda h: torch.randint_like(h, 7) + 1, ["random_integers"]),
    "randperm": (lambda h: h[:, torch.randperm(8)], ["random_uniform"]),
    "normal": (lambda h: torch.normal(h, h.exp()), ["random_normal"]),
    "normal of sizes": (lambda h: torch.normal(1.0, 2.0, (3,)), ["random_normal"]),
    "bernoulli": (lambda h: h.sigmoid().bernoulli(), ["random_uniform"]),
    "multinomial": (lambda h: torch.multinomial(h.softmax(-1), 2), ["random_uniform"]),
    "multinomial with replacement": (
        lambda h: torch.multinomial(h.softmax(-1), 3, replacement=True),
        ["random_uniform"],
    ),
    "gumbel": (lambda h: functional.gumbel_softmax(h, hard=True), ["random_uniform"]),
    "distribution": (gaussian, ["random_normal"]),
    "normal_": (lambda h: torch.empty_like(h).normal_(1, 2), ["random_normal"]),
    "uniform_": (lambda h: torch.empty_like(h).uniform_(-1, to=3), ["random_uniform"]),
    "bernoulli_": (lambda h: torch.empty_like(h).bernoulli_(0.25), ["random_uniform"]),
    "exponential_": (lambda h: torch.empty_like(h).exponential_(2.0), ["random_uniform"]),
    "two": (
        lambda h: torch.randn_like(h) + torch.rand_like(h) + torch.randn_like(h),
        ["random_normal", "random_uniform", "random_normal_2"],
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_they_are_exported_and_agree(name: str) -> None:
    draws, names = DRAWS[name]
    model, inputs = modellint.with_random_inputs(Drawing(draws).eval(), (X,))
    result = modellint.export(model, inputs, precision="fp32")
    assert result.verification.ok
    assert [feature.name for feature in result.summary.inputs] == ["x", *names]
    told = [change.what for change in result.summary.changes if change.what.startswith("random numbers")]
    assert told == [f"random numbers are the input {each}" for each in names]


WEIGHTS = torch.tensor([0.1, 0.2, 0.7]).expand(N, 3)


@pytest.mark.parametrize(
    "draws",
    [
        lambda: torch.normal(torch.full((N,), 2.0), 3.0),
        lambda: torch.empty(N).uniform_(-1, 3),
        lambda: torch.empty(N).exponential_(2.0),
        lambda: torch.bernoulli(torch.full((N,), 0.3)),
        lambda: torch.randint(2, 5, (N,)),
        lambda: torch.multinomial(WEIGHTS, 1),
        lambda: torch.multinomial(WEIGHTS, 2)[:, 1],
        lambda: torch.multinomial(WEIGHTS[0], N, replacement=True),
        lambda: functional.gumbel_softmax(WEIGHTS.log(), hard=True).argmax(-1),
        lambda: functional.gumbel_softmax(WEIGHTS.log(), tau=0.5)[:, 2],
        lambda: torch.randperm(N) % 7,
    ],
)
def test_their_distribution_is_the_same(draws: Callable[[], Tensor]) -> None:
    class Sampled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + draws()

    torch.manual_seed(1)
    own = Sampled()(torch.zeros(1)).flatten().double()
    model, inputs = modellint.with_random_inputs(Sampled().eval(), (torch.zeros(1),))
    given = model(*inputs.args).flatten().double()
    assert torch.equal(model(*inputs.args).flatten().double(), given)
    deviation = max(float(own.std()), 0.01)
    assert abs(float(own.mean() - given.mean())) < 5 * deviation / N**0.5 * 2**0.5
    assert abs(float(own.std() - given.std())) < 0.1 * deviation


def test_arguments_may_have_names() -> None:
    example = {"x": X, "scale": torch.ones(1, 8)}
    model = Drawing(torch.randn_like).eval()
    drawn, inputs = modellint.with_random_inputs(model, example)
    assert [*inputs.kwargs] == ["x", "scale", "random_normal"]
    assert modellint.export(drawn, inputs).verification.ok
    # The model is as it was.
    assert "forward" not in vars(model)


def test_arguments_may_have_no_names() -> None:
    class Sum(nn.Module):
        def forward(self, *parts: Tensor, random_normal: float = 2.0) -> Tensor:
            return parts[0] + random_normal * torch.randn_like(parts[1])

    model, inputs = modellint.with_random_inputs(Sum().eval(), (X, X))
    result = modellint.export(model, inputs)
    assert result.verification.ok
    assert [feature.name for feature in result.summary.inputs] == ["parts_0", "parts_1", "random_normal_2"]


def test_constants_go_with_them() -> None:
    model, inputs = modellint.with_constants(Drawing(torch.randn_like).eval(), (X, torch.full((1, 8), 2.0)), "scale")
    drawn, inputs = modellint.with_random_inputs(model, inputs)
    result = modellint.export(drawn, inputs)
    assert [feature.name for feature in result.summary.inputs] == ["x", "random_normal"]
    assert result.verification.ok


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(8, 8), "draws no random numbers"),
        (nn.Dropout(), "draws no random numbers"),
        (torch.jit.script(nn.Linear(8, 8)), "is compiled"),
    ],
)
def test_models_without_them_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        modellint.with_random_inputs(model, (X,))


def test_sizes_that_may_vary_are_refused() -> None:
    with pytest.raises(ValueError, match="sizes that may vary"):
        modellint.with_random_inputs(Drawing(torch.randn_like), modellint.Input([(1, 8), 8]))


def test_numbers_whose_number_is_a_value_are_told() -> None:
    class Long(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.randn(int(x.abs().sum())).sum() + x

    model, inputs = modellint.with_random_inputs(Long().eval(), (X,))
    with pytest.raises(RuntimeError, match="what it draws cannot be inputs"):
        model(X * 2, inputs.args[1])


NOISY = """
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        return y + torch.randn_like(y)


def make():
    return Noisy().eval(), (torch.ones(2, 4),)


def plain():
    return nn.Linear(4, 4).eval(), (torch.ones(2, 4),)
"""


def run(folder: Path, *words: str) -> tuple[int, str]:
    (folder / "net.py").write_text(NOISY)
    result = CliRunner().invoke(cli, [words[0], f"{folder / 'net.py'}:{words[1]}", *words[2:]])
    return result.exit_code, result.output


def test_an_export_that_fails_for_them_says_so(tmp_path: Path) -> None:
    status, told = run(tmp_path, "export", "make", "-o", str(tmp_path / "net.mlpackage"))
    assert status == 1
    assert "go on with --random-inputs, if the caller can draw them: tried, it agrees" in told
    assert not (tmp_path / "net.mlpackage").exists()


def test_the_command_makes_them_inputs(tmp_path: Path) -> None:
    status, told = run(tmp_path, "export", "make", "-o", str(tmp_path / "net.mlpackage"), "--random-inputs")
    assert status == 0, told
    assert "random numbers are the input random_normal (normal, of mean 0 and deviation 1)" in told
    assert (tmp_path / "net.mlpackage").is_dir()


def test_verify_takes_the_option(tmp_path: Path) -> None:
    assert run(tmp_path, "verify", "make")[0] == 1
    status, told = run(tmp_path, "verify", "make", "--random-inputs")
    assert status == 0, told


def test_the_command_refuses_models_without_them(tmp_path: Path) -> None:
    status, told = run(tmp_path, "export", "plain", "-o", str(tmp_path / "net.mlpackage"), "--random-inputs")
    assert (status, "--random-inputs: Linear draws no random numbers" in told) == (2, True)


FATAL = """
import os

import torch
from torch import nn


class Fatal(nn.Module):
    def forward(self, x, noise=None):
        if "_random_inputs" in vars(self):
            # As it is tried with random inputs.
            os._exit(3)
        return x + torch.randn_like(x)


def make():
    return Fatal().eval(), (torch.ones(2, 4),)
"""


def test_what_is_tried_takes_nothing_from_the_answer(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FATAL)
    output = tmp_path / "net.mlpackage"
    result = CliRunner().invoke(cli, ["export", f"{tmp_path / 'net.py'}:make", "-o", str(output)])
    assert result.exit_code == 1
    assert "the model draws random numbers in evaluation mode" in result.output
    assert "was not tried to the end: trying it ended the process with exit status 3" in result.output
    assert "LNT003" not in result.output
    assert not output.exists()

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
    "multinomial": (lambda h: torch.multinomial(h.softmax(-1), 2), ["random_exponential"]),
    "multinomial with replacement": (
        lambda h: torch.multinomial(h.softmax(-1), 3, replacement=True),
        ["random_exponential"],
    ),
    "gumbel": (lambda h: functional.gumbel_softmax(h, hard=True), ["random_exponential"]),
    "a number": (lambda h: torch.rand(()) + h, ["random_uniform"]),
    "randint of named bounds": (lambda h: torch.randint(1, high=5, size=(2, 3)) + 1, ["random_integers"]),
    "randint of a size": (lambda h: torch.randint(0, h.shape[1], (2, 3)) + 1, ["random_integers"]),
    "distribution": (gaussian, ["random_normal"]),
    "normal_": (lambda h: torch.empty_like(h).normal_(1, 2), ["random_normal"]),
    "uniform_": (lambda h: torch.empty_like(h).uniform_(-1, to=3), ["random_uniform"]),
    "bernoulli_": (lambda h: torch.empty_like(h).bernoulli_(0.25), ["random_uniform"]),
    "exponential_": (lambda h: torch.empty_like(h).exponential_(2.0), ["random_exponential"]),
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
        lambda: torch.randint(1, high=5, size=(N,)),
        lambda: torch.randint_like(torch.ones(N), 1, high=5),
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


class Seeded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + torch.randn_like(x)


class Generated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn(2, 8, generator=torch.Generator().manual_seed(1))


class Complex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(2, 8, dtype=torch.complex64).angle()


class Initialized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.init.normal_(torch.empty_like(x)) + torch.randn_like(x)


def hooked() -> nn.Module:
    model = Drawing(torch.randn_like)
    model.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(8, 8), "draws no random numbers"),
        (nn.Dropout(), "draws no random numbers"),
        (torch.jit.script(nn.Linear(8, 8)), "is compiled"),
        (Seeded(), "does not depend on the numbers"),
        (Generated(), "draws no random numbers"),
        (Complex(), "draws no random numbers"),
        (Initialized(), "by other functions too"),
        (hooked(), "does not run with its numbers as inputs"),
    ],
)
def test_models_of_which_they_are_none_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        modellint.with_random_inputs(model, (X,))


class Rare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.bernoulli(torch.full((1,), 0.4))


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix: Tensor
        self.register_buffer("matrix", torch.eye(2).to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        return self.matrix @ x + torch.randn_like(x)


@pytest.mark.parametrize("model", [Rare(), Sparse()])
def test_samples_that_are_often_the_same_are_inputs(model: nn.Module) -> None:
    assert len(modellint.with_random_inputs(model, (X,))[1].args) == 2


def test_sizes_that_may_vary_are_refused() -> None:
    with pytest.raises(ValueError, match="sizes that may vary"):
        modellint.with_random_inputs(Drawing(torch.randn_like), modellint.Input([(1, 8), 8]))


class Long(nn.Module):
    """Draws as many numbers as a value says."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.randn(int(x.abs().sum())).sum() + x


class Truncated(nn.Module):
    """Draws again until all numbers are small."""

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn_like(x)
        while bool((noise.abs() > 2.5).any()):
            noise = torch.randn_like(x)
        return x + noise


class Bounded(nn.Module):
    """Draws integers up to what a value says."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randint(0, 2 + int(x.abs().sum()), (2, 8))


@pytest.mark.parametrize("model", [Long(), Truncated(), Bounded()])
def test_other_draws_than_the_example_s_are_not_passed(model: nn.Module) -> None:
    drawn, inputs = modellint.with_random_inputs(model.eval(), (X,))
    with pytest.raises(modellint.ExportError, match="what it draws cannot be inputs"):
        modellint.export(drawn, inputs)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count: Tensor
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x.mul_(2) + torch.randn_like(x)


def test_model_and_example_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    for small in (2**28, -1):
        monkeypatch.setattr("modellint.live.inputs.random_numbers.SMALL", small)
        model, x = Counting().train(), torch.ones(2, 8)
        state = torch.get_rng_state()
        modellint.with_random_inputs(model, (x,))
        assert model.training
        assert float(model.count) == 0
        assert torch.equal(x, torch.ones(2, 8))
        assert torch.equal(torch.get_rng_state(), state)


def test_keywords_of_other_functions_stay_where_they_are() -> None:
    class Sorted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.searchsorted(x.cumsum(-1), input=x) + torch.where(x > 0, input=x, other=-x) * torch.rand_like(
                x
            )

    model, inputs = modellint.with_random_inputs(Sorted().eval(), (X,))
    expected = torch.searchsorted(X.cumsum(-1), X) + X.abs() * inputs.args[1]
    assert torch.equal(model(*inputs.args), expected)


def test_a_forward_of_another_object_stays_its_own() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2

        def run(self, x: Tensor) -> Tensor:
            return self.factor * x + torch.randn_like(x)

    outer = Inner()
    outer.inner = Inner()
    outer.factor = 7
    outer.forward = outer.inner.run
    model, inputs = modellint.with_random_inputs(outer.eval(), (X,))
    assert torch.equal(model(*inputs.args), 2 * X + inputs.args[1])


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


def misfit():
    return nn.Sequential(Noisy(), nn.Linear(5, 4)).eval(), (torch.ones(2, 4),)
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


def test_a_check_of_models_without_them_says_so(tmp_path: Path) -> None:
    told = run(tmp_path, "check", "plain", "--random-inputs")[1]
    assert "--random-inputs: Linear draws no random numbers" in told


def test_what_the_model_raises_is_told_at_its_line(tmp_path: Path) -> None:
    status, told = run(tmp_path, "check", "misfit", "--random-inputs")
    assert status == 1
    assert "modellint itself" not in told
    assert "SHP008" in told or "LNT003" in told


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

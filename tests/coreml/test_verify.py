"""What `modellint.verify` says of conversions that are right, wrong, and neither."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import Averaging, Counting, marked, verified
from torch import nn
from torch.nn import functional

import modellint
from modellint.destinations.coreml.verify.model import verify
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.verification import Verification
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__)

torch.manual_seed(0)
X = torch.randn(2, 4)
IMAGES = torch.randn(2, 3, 5, 5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.project = nn.Linear(8, 24)
        self.conv = nn.Conv1d(5, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        query, key, value = self.project(self.norm(x)).chunk(3, -1)
        y = functional.scaled_dot_product_attention(query, key, value)
        return functional.gelu(self.conv(x + y)), y.argmax(-1)


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Block, (torch.randn(2, 5, 8),)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.AvgPool2d(2)), (IMAGES,)),
        (lambda: nn.Embedding(7, 3), (torch.tensor([[0, 6, 3]]),)),
        (lambda: nn.Sequential(nn.Dropout(), nn.Linear(4, 2), nn.Softmax(-1)), (X,)),
    ],
)
def test_right_conversion_agrees(route: str, model: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    found = verified(model().eval(), *inputs, frontend=route)
    assert found.ok, repr(found)
    assert found.first_difference is None
    assert all(one.max_abs_error <= 1e-5 * max(one.scale, 1) for one in found.outputs if one.dtype == "float32")


def test_rounding_that_a_model_magnifies_is_no_difference() -> None:
    class Magnifying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            return torch.sin(1e5 * y) + (y - y.mean() + 1000) - 1000

    assert verified(Magnifying(), torch.randn(2, 64)).verdict == "agrees"


def test_what_is_not_finite_has_to_be_so_in_the_program() -> None:
    class Infinite(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0, x, torch.full_like(x, -torch.inf))

    class Hidden(Infinite):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(torch.cat((super().forward(x), x), -1), -1)

    found = verified(Infinite(), X)
    assert found.verdict == "differs"
    assert found.outputs[0].non_finite[0] > 0 == found.outputs[0].non_finite[1]
    assert verified(Hidden(), X).verdict == "agrees"


def test_random_model_is_not_decided() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x)

    found = verified(Noisy(), X)
    assert found.verdict == "undecided"
    assert not found.ok
    assert "random" in found.reason


def test_state_is_compared_over_several_predictions() -> None:
    found = verified(Averaging(), X, frontend="export", deployment_target="iOS18")
    assert found.verdict == "agrees"
    predictions = sum("prediction" in case.label for case in found.cases)
    # Two rows of three, and further ones as long as there is time.
    assert predictions >= 6
    assert predictions % 3 == 0
    assert any("zero" in note for note in found.notes)


def test_state_in_single_precision_is_compared_as_closely_as_all_else() -> None:
    found = verified(Averaging(), X, frontend="export", deployment_target="iOS18", precision="fp32")
    assert found.ok
    assert all(one.error <= 1e-5 for one in found.outputs)
    assert all(one.snr >= 30 for one in found.half)
    assert found.half


def test_other_lengths_are_compared() -> None:
    found = verified(nn.Linear(4, 3), torch.randn(2, 4), flexible={0: {0: (1, 9)}})
    assert found.ok
    assert {"1x4", "9x4", "5x4"} <= {one.label for one in found.cases if one.error is not None}


def test_length_that_the_trace_holds_is_caught() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0) / len(x)

    found = verified(Fixed(), torch.randn(2, 4), flexible={0: {0: (1, 9)}})
    assert found.verdict == "differs"


def test_inputs_that_the_model_refuses_are_left_out() -> None:
    class Choosy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.jit.is_tracing() and bool((x == 0).all()):
                raise ValueError("nothing there")
            return x + 1

    found = verified(Choosy(), X)
    assert found.ok
    assert [one.note for one in found.cases if one.error is None] == ["ValueError: nothing there"]


def test_model_that_does_not_convert() -> None:
    class Unsupported(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(x)

    found = verified(Unsupported(), X, frontend="auto")
    assert found.verdict == "not converted"
    assert "trace: " in found.reason
    assert "export: " in found.reason
    assert "bessel" in found.reason


@pytest.mark.parametrize("route", ["trace", "export"])
def test_second_conversion_is_of_the_model_too(route: str) -> None:
    # The first one negates the statistics that it fuses into the bias.
    model = nn.Sequential(nn.Conv1d(5, 4, 1), nn.BatchNorm1d(4, affine=False)).eval()
    mean = model.get_buffer("1.running_mean").fill_(1.5)
    found = verified(model, torch.randn(2, 5, 6), frontend=route, precision="fp16")
    assert (found.ok, found.half_ok) == (True, True)
    assert mean.eq(1.5).all()


def test_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), Counting(), nn.Dropout())
    model.train()
    model[2].count = torch.zeros(3)
    images = torch.randn(1, 3, 5, 5)
    kept, state = copy.deepcopy(images), copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    verified(model, images)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("wrong", [nn.Linear, "model", None])
def test_what_is_no_model_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        modellint.verify(wrong, (X,))
    with pytest.raises(TypeError):
        modellint.verify(nn.ReLU(), None)
    with pytest.raises(ValueError, match="precision"):
        modellint.verify(nn.ReLU(), (X,), precision="fp8")


class Returning(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"logits": x * 2, "parts": (x.sigmoid(), torch.ones(2), x * 0)}


def test_outputs_are_told_by_their_place_in_what_the_model_returns() -> None:
    found = verified(Returning(), X, frontend="export")
    assert [one.path for one in found.outputs] == ["['logits']", "['parts'][0]", "['parts'][1]", "['parts'][2]"]
    assert [one.path for one in verified(nn.ReLU(), X).outputs] == [""]
    # The ones are a constant, and compared whole.
    (note,) = found.notes
    assert "['parts'][2] is the same on all inputs" in note


class Flag(nn.Module):
    """A truth value that is no other on any usual input, and integers that no input changes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x.tanh(), (x > -1e30).all(), torch.arange(x.shape[1])


def test_truth_value_that_is_the_same_on_many_inputs_is_told() -> None:
    found = verified(Flag(), X, precision="fp32")
    assert found.ok and len(found.cases) >= 40
    (note,) = found.notes
    assert "the output [1] is the same on all inputs" in note


class Branching(nn.Module):
    """A constant that is chosen by the input."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, torch.ones(2).int() if bool((x < 1e30).all()) else torch.zeros(2).int()


def test_constant_that_a_branch_chooses_depends_on_the_input() -> None:
    (note,) = verified(Branching(), X, precision="fp32", frontend="trace").notes
    assert "the output [1] is the same on all inputs" in note


class Halving(nn.Module):
    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        return x * (count // 2)


def test_integer_by_itself_is_no_mask() -> None:
    found = verified(Halving(), X, torch.tensor([1]), precision="fp32")
    labels = [case.label for case in found.cases]
    assert "integers in turn 3" in labels and "integers beyond the example's" in labels
    many = verified(Halving(), X, torch.tensor([1, 0, 1, 1]), precision="fp32")
    assert not any(case.label.startswith("integers") for case in many.cases)


class Greatest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).max()


def test_output_of_one_element_is_compared_on_more_inputs() -> None:
    one, many = verified(Greatest(), X, precision="fp32"), verified(nn.Linear(4, 80), X, precision="fp32")
    assert one.ok and many.ok
    assert len(one.cases) >= 40 > 20 > len(many.cases)


def test_error_that_the_model_magnifies_is_told() -> None:
    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # One convolution in the program.
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
            self.layers[1].running_var.uniform_(0.5, 2.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(1e4 * self.layers(x))

    torch.manual_seed(0)
    found = verified(Choosing().eval(), IMAGES)
    assert found.ok
    assert found.outputs[0].error > 1e-4
    assert any("rounding" in note for note in found.notes)


def test_what_there_is_no_time_for_is_left_out() -> None:
    known: list[Verification] = []
    found = verify(
        nn.Linear(4, 3).eval(), Inputs.of((X,)), Destination(), Project(HERE.parent), limit=0.0, partly=known.append
    )
    assert (found.verdict, found.single) == ("undecided", "agrees")
    assert len(found.cases) == 1
    assert found.half_ok is None
    assert "float16 was not compared for want of time" in found.reason
    assert any("only one set of inputs" in note for note in found.notes)
    assert [(one.verdict, len(one.cases)) for one in known] == [("undecided", 1)]


# float16.


class Overflowing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 300
        y = y * y  # Overflowing
        return y.mean(-1).sqrt()


class SmallEpsilon(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1e-5
        return y / ((y * y).mean(-1, keepdim=True) + 1e-12).sqrt()  # SmallEpsilon


@pytest.mark.parametrize("model", [Overflowing, SmallEpsilon])
def test_float16_is_judged_apart(model: type[nn.Module]) -> None:
    found = verified(model(), X, precision="fp16")
    assert (found.verdict, found.single) == ("differs", "agrees")
    assert found.half_ok is False
    assert not found.ok
    assert found.first_difference is not None
    assert found.first_difference.kind == "precision"
    assert marked(found) == model.__name__


def test_float16_is_not_asked_of_float32_programs() -> None:
    found = verified(Overflowing(), X)
    assert found.ok
    assert found.half == ()


def test_with_untrained_weights_float16_is_undecided() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), Overflowing()).eval()
    found = verified(model, torch.randn(2, 16), precision="fp16")
    assert found.half_ok is None
    assert (found.verdict, found.single, found.ok) == ("undecided", "agrees", False)
    assert "untrained" in found.reason
    with torch.no_grad():
        for one in model.parameters():
            one += 0.3 * torch.randn_like(one)
    assert verified(model, torch.randn(2, 16), precision="fp16").half_ok is False


def test_overflow_is_a_finding_where_it_is_asked_for() -> None:
    report = modellint.check_model(Overflowing(), (X,), select="NUM004", root=HERE.parent)
    assert [(one.code, one.operator) for one in report.diagnostics] == [("NUM004", "aten::mul")]
    assert "NUM004" not in {
        one.code for one in modellint.check_model(Overflowing(), (X,), root=HERE.parent).diagnostics
    }
    single = modellint.check_model(Overflowing(), (X,), select="NUM004", root=HERE.parent, precision="fp32")
    assert single.diagnostics == ()


class OnlyThree(nn.Module):
    """A model that takes one value of an input, and raises on all others."""

    def forward(self, x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        if size.tolist() != [3] * len(size):
            raise ValueError("three, please")
        return x * size.tolist()[0]


class Placed(nn.Module):
    """A model that takes certain tokens, in any order, of which two stand for something else; a trace keeps where they are."""

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        places = [at for at, each in enumerate(ids.tolist()) if each == 9]
        if sorted(ids.tolist()) != [1, 3, 4, 8, 9, 9]:
            raise ValueError("these, please")
        return x * sum(places)


def test_an_input_without_other_values_is_undecided() -> None:
    why = "size is the example's in all that was compared, as the model raises on others"
    found = modellint.verify(OnlyThree(), (torch.randn(4), torch.tensor([3, 3])), frontend="trace")
    assert found.verdict == "undecided"
    assert why in found.reason
    # Of one number there may be no other.
    lone = modellint.verify(OnlyThree(), (torch.randn(4), torch.tensor([3])), frontend="trace")
    assert lone.verdict == "agrees"
    assert any(why in note for note in lone.notes)


def test_an_input_is_given_other_values_that_the_model_takes() -> None:
    found = modellint.verify(Placed(), (torch.randn(4), torch.tensor([1, 9, 4, 9, 3, 8])), frontend="trace")
    assert found.verdict == "differs"
    assert any("the example with ids" in case.label for case in found.cases)

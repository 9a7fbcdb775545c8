"""What a comparison may say: agrees, differs, undecided."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from known_faults import shows
from torch import nn
from torch.nn import functional

import modellint

HERE = Path(__file__).parent


class Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def verified(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> Any:
    return modellint.verify(model.eval(), inputs, root=HERE.parent, **{"precision": "fp32"} | options)


def exported(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> Any:
    """The result, or what the refusal says."""
    try:
        return modellint.export(model.eval(), inputs, root=HERE.parent, **{"precision": "fp32"} | options)
    except modellint.ExportError as error:
        return error


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# Which precision.


class Gathering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keep = mask.bool()[torch.arange(2)[:, None], torch.arange(4)[None]]
        y = self.norm(x)
        y[:, 0].mul_(2)
        return torch.where(keep, torch.tanh(y), torch.zeros(()))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_truth_values_that_are_gathered_in_float16_make_no_float16_program(precision: str) -> None:
    mask = torch.ones(2, 4, dtype=torch.int64)
    found = exported(Gathering(), randn(2, 4), mask, precision=precision, frontend="trace")
    assert isinstance(found, modellint.ExportError)
    assert found.verification is not None
    assert found.verification.verdict == "differs"
    assert found.verification.outputs


def test_package_with_other_weights_differs(tmp_path: Path) -> None:
    def made(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)).eval()

    path = tmp_path / "net.mlpackage"
    modellint.export(made(0), (randn(2, 8),), output=path, root=HERE.parent)
    from modellint.destinations.coreml.verify.package import verify_package
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

    def compared(seed: int) -> Any:
        return verify_package(made(seed), Inputs.of((randn(2, 8),)), str(path), Project(HERE.parent))

    assert (compared(1).verdict, compared(1).single) == ("differs", "differs")
    own = compared(0)
    assert own.single == "agrees"
    assert any("computes in float16" in note for note in own.notes)


def test_compressed_weights_are_compared_with_the_decompressed_ones(tmp_path: Path) -> None:
    import coremltools as ct
    import coremltools.optimize.coreml as cto

    from modellint.destinations.coreml.verify.package import verify_package
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
    result = modellint.export(model, (randn(2, 64),), root=HERE.parent, precision="fp32", deployment_target="iOS16")
    config = cto.OptimizationConfig(global_config=cto.OpPalettizerConfig(mode="uniform", nbits=2, weight_threshold=64))
    cto.palettize_weights(result.mlmodel, config).save(str(tmp_path / "small.mlpackage"))
    assert ct.utils.load_spec(str(tmp_path / "small.mlpackage")) is not None

    def compared(seed: int) -> Any:
        torch.manual_seed(seed)
        other = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).eval()
        package = str(tmp_path / "small.mlpackage")
        return verify_package(other, Inputs.of((randn(2, 64),)), package, Project(HERE.parent))

    found = compared(0)
    assert found.verdict == "agrees", found
    assert any("compression itself loses" in note for note in found.notes)
    assert compared(1).verdict != "agrees"


# Casts.


def test_casts_beyond_the_range_of_integers_are_undefined() -> None:
    found = verified(Of(lambda x: (x * 1e9).int()), torch.tensor([1.0, 20.0, 100.0]), frontend="trace")
    assert found.verdict == "undecided"
    assert "undefined elements: 2 of 3, made by casting numbers beyond the range" in found.reason


def test_undefined_casts_give_numbers_of_their_type() -> None:
    found = verified(Of(lambda x: (x * 100).to(torch.int8)), torch.tensor([1.0, 20.0, 100.0]), frontend="trace")
    assert found.verdict == "differs"


def test_casts_beyond_the_range_that_nothing_depends_on_are_no_doubt() -> None:
    # Defined ones stay below 2^24; of others NUM005 says what devices do.
    function = lambda x: torch.where(x.abs() < 1, (x * 1e7).int(), 0)  # noqa: E731
    assert verified(Of(function), torch.tensor([0.5, 500.0, 1000.0]), frontend="trace").verdict == "agrees"


def test_other_differences_count_beside_undefined_elements() -> None:
    function = lambda x: torch.where(x > 10, (x * 1e9).int(), x.var(correction=0).int() + x.var().int())  # noqa: E731
    assert verified(Of(function), torch.tensor([1.0, 20.0, 100.0]), frontend="trace").verdict == "differs"


# The order of equal elements.


def test_which_of_equal_elements_come_first_is_open() -> None:
    most = lambda x: torch.topk((x > 0).int(), 3).indices  # noqa: E731
    found = verified(Of(most), randn(2, 8))
    assert found.verdict == "undecided"
    assert "of 6, which depend on an order that `topk` or `sort` leaves open" in found.reason
    # What is computed of them is as open.
    assert verified(Of(lambda x: most(x) * x.sum(-1, keepdim=True)), randn(2, 8)).verdict == "undecided"
    # An order that PyTorch gives is no excuse.
    stable = lambda x: torch.sort((x > 0).int(), stable=True).indices  # noqa: E731
    assert verified(Of(stable), randn(2, 8)).verdict != "undecided"


def test_equal_elements_that_nothing_depends_on_are_no_doubt() -> None:
    assert verified(Of(lambda x: torch.topk((x > 0).int(), 3).values * x[:, :3]), randn(2, 8)).verdict == "agrees"


def test_other_differences_count_beside_elements_in_an_open_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        equal = torch.topk((x > 0).int(), 3).indices
        wrong = x[0].var(correction=0) + x[0].var()
        return torch.cat([equal * x.sum(-1, keepdim=True), wrong.expand(2, 1)], 1)

    found = verified(Of(function), randn(2, 8), frontend="trace")
    assert found.verdict == "differs", found


def test_an_order_that_changes_rounding_alone_excuses_nothing() -> None:
    class Ranked(nn.Module):
        """A mean over rows in the order of their scores, of which many are equal, and a branch that a trace loses."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            order = torch.topk(x[..., 0].relu(), x.shape[1]).indices
            rows = self.first(x.gather(1, order.unsqueeze(-1).expand_as(x)))
            out = self.last(functional.layer_norm(rows.mean(1), (32,)))
            return out * 5 if x.max() < 0 else out

    found = verified(Ranked(), randn(1, 301, 8), frontend="trace")
    assert found.verdict == "differs", found


# Infinity and NaN.


def test_numbers_in_the_place_of_zeros_are_not_called_infinite() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(1, 3).scatter_add(1, torch.tensor([[0, 0]]), torch.tensor([[1.0, -1.0]]))

    found = verified(Of(function), torch.full((1, 3), 3.0), frontend="trace")
    assert found.first_difference.message == "`add`, made of aten::scatter_add, gives up to 1 where PyTorch gives zeros"


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (lambda x: torch.where(x > 0, x, float("-inf")), "differs"),
        (lambda x: torch.rsqrt(torch.relu(x)), "differs"),
        (lambda x: torch.softmax(x.masked_fill(x < 0.5, float("-inf")), -1), "differs"),
        (lambda x: torch.softmax(torch.cat((x, x.masked_fill(x < 0, float("-inf"))), -1), -1), "agrees"),
    ],
    ids=["infinite", "a pole", "rows without a number", "a mask"],
)
def test_what_is_infinite_or_nan_is_so_in_the_program(function: Any, verdict: str) -> None:
    assert verified(Of(function), randn(3, 8), frontend="trace").verdict == verdict


def test_relu_is_no_model_that_gives_nan_alone(tmp_path: Path) -> None:
    from modellint.destinations.coreml.verify.package import verify_package
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

    path = tmp_path / "relu.mlpackage"
    modellint.export(nn.ReLU(), (randn(2, 3),), output=path, precision="fp32", root=HERE.parent)
    model = Of(lambda x: x * float("nan"))
    found = verify_package(model, Inputs.of((randn(2, 3),)), str(path), Project(HERE.parent))
    assert found.verdict == "differs"


def test_nan_of_the_model_on_inputs_that_are_drawn_says_nothing() -> None:
    def attention(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = (x @ x.transpose(-1, -2)).masked_fill(mask[:, None, :] == 0, float("-inf"))
        return torch.softmax(scores, -1) @ x

    found = verified(Of(attention), randn(2, 3, 4), torch.ones(2, 3, dtype=torch.int64))
    assert found.verdict == "agrees"
    assert any("PyTorch itself gives nan" in note for note in found.notes)
    assert all(math.isfinite(output.error) for output in found.outputs)


# Integers and truth values.


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, y: x // y, (torch.full((4, 3), 2**30 - 5), torch.tensor([[3, 7, 1]]).expand(4, 3).contiguous())),
        (lambda x: functional.pad(x, (1, 1), value=2**25 + 1), (torch.arange(8).reshape(2, 4),)),
    ],
    ids=["quotient", "padding"],
)
def test_integers_are_equal_or_wrong(function: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    found = exported(Of(function), *inputs)
    if isinstance(found, modellint.ExportError):
        assert found.verification is not None
        assert found.verification.verdict == "differs"
        assert found.verification.outputs[0].wrong


class Tied(nn.Module):
    """An argmax over products that are equal but for rounding."""

    def __init__(self) -> None:
        super().__init__()
        weight = randn(8, 64)
        self.linear = nn.Linear(64, 8)
        with torch.no_grad():
            self.linear.weight.copy_(torch.cat((weight[:1], weight[:1].flip(1)) * 4))
            self.linear.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x + x.flip(-1)).argmax(-1)


def test_what_rounding_decides_is_no_evidence_against_a_program() -> None:
    found = verified(Tied(), randn(64, 64))
    assert found.verdict in ("agrees", "undecided")
    assert found.verdict == "agrees" or "rounding decides" in found.reason


# Element by element.


def test_large_elements_hide_no_small_ones() -> None:
    model = Of(lambda x: torch.cat([x[:, :4] * 640000, x[:, 4:].var(1, correction=2, keepdim=True)], 1))
    found = verified(model, randn(3, 9))
    assert found.verdict == "differs"
    assert found.outputs[0].wrong


def test_rounding_is_measured_in_the_model() -> None:
    class Cancelling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            return (y - y.mean() + 1000) - 1000

    assert verified(Cancelling(), randn(2, 64)).verdict == "agrees"


def test_what_depends_on_the_type_is_no_rounding() -> None:
    """The model in float64 is another function there: its distance is no tolerance."""

    class OfType(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x.relu() + torch.finfo(x.dtype).eps) + self.far(x)

        def far(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 0
            y[:, 0].add_(1)
            return y

    assert verified(OfType(), randn(4, 4), frontend="trace").verdict == "differs"


def test_model_without_float64_is_held_against_the_scale_of_rows() -> None:
    class Narrow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype is not torch.float32:
                raise ValueError("float32 only")
            return torch.softmax(x, -1)

    found = verified(Narrow(), randn(4, 16))
    assert found.verdict == "agrees"


# Inputs and sizes.


@pytest.mark.parametrize(
    ("function", "shape", "bounds"),
    [
        (lambda x: x.sum(0) if x.shape[0] % 3 == 0 else x.sum(0) * 2, (4, 4), {0: (1, 8)}),
        (lambda x: x * 2 if x.shape[1] > 100 else x, (1, 10, 4), {1: (1, 512)}),
    ],
    ids=["a residue", "a bound"],
)
def test_branches_on_sizes_are_seen(function: Any, shape: tuple[int, ...], bounds: Any) -> None:
    found = exported(Of(function), randn(*shape), flexible={0: bounds})
    assert isinstance(found, modellint.ExportError)


def test_size_that_the_model_refuses_leaves_it_undecided() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(randn(64, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.p[: x.shape[1]]

    found = exported(Table(), randn(1, 10, 4), flexible={0: {1: (1, 512)}})
    assert isinstance(found, modellint.ExportError)
    assert found.verification is not None
    assert found.verification.verdict == "undecided"
    assert "give sizes that it takes" in found.verification.reason
    assert not isinstance(exported(Table(), randn(1, 10, 4), flexible={0: {1: (1, 64)}}), modellint.ExportError)


def test_what_is_too_large_to_run_is_named() -> None:
    found = verified(nn.AvgPool2d(2), randn(1, 3, 16, 16), flexible={0: {2: (16, 65536), 3: (16, 65536)}})
    assert found.verdict == "agrees"
    assert any("65536" in note and "too large" in note for note in found.notes)


def test_values_stay_in_their_ranges() -> None:
    class Watching(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            if not torch.jit.is_tracing() and (x.min() < 0 or x.max() > 1.001 or i.min() < 5 or i.max() > 8):
                raise ValueError("out of range")
            return torch.log(x + 0.5) + i

    x, i = torch.rand(2, 3), torch.randint(5, 9, (2, 3))
    found = verified(Watching(), x, i, ranges={0: (0, 1), 1: (5, 9)}, frontend="trace")
    assert found.verdict == "agrees"
    assert len(found.cases) > 8
    assert all(one.error is not None for one in found.cases)
    assert any("out of range" in one.note for one in verified(Watching(), x, i, frontend="trace").cases)
    with pytest.raises(ValueError, match="values outside of"):
        verified(Watching(), x, i, ranges={1: (0, 3)})
    with pytest.raises(ValueError, match="no argument 'ids'"):
        verified(Watching(), x, i, ranges={"ids": (0, 3)})


# States.


def test_state_that_is_rewritten_with_the_same_numbers_is_one() -> None:
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(8, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache[2:3] = x
            return self.cache.sum(0, keepdim=True) + x

    model, x = Cache().eval(), randn(1, 4)
    with torch.no_grad():
        model(x)
    found = modellint.export(model, (x,), states=True, deployment_target="iOS18", root=HERE.parent)
    assert [one.name for one in found.summary.states] == ["cache"]


# How to go on.


def test_refusal_names_what_was_tried() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            return self.total * 2

    class Overflowing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ((x * 300) ** 2).mean(-1).sqrt()

    said = str(exported(Counting(), randn(4)))
    assert "go on with --state --deployment-target iOS18: tried, it agrees" in said
    said = str(exported(Overflowing(), randn(2, 4), precision="fp16"))
    assert "go on with --precision fp32" in said


def test_route_that_cannot_be_saved_is_not_the_last() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(5, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    found = exported(Recurrent(), randn(2, 3, 5), frontend="export")
    assert not isinstance(found, modellint.ExportError) or found.summary.attempts


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_attention_with_a_mask_of_truth_values_is_right_at_every_size(precision: str) -> None:
    """A query that no key is left for gives zeros, and scores of any size are masked."""
    model = Of(lambda x: functional.scaled_dot_product_attention(x, x, x + 1, attn_mask=(x @ x.mT) > 0))
    found = exported(model, randn(2, 3, 4, 5), flexible={0: {0: (1, 4)}}, precision=precision)
    assert not isinstance(found, modellint.ExportError)
    assert found.verification.single == "agrees"


def negative_places(x: torch.Tensor) -> torch.Tensor:
    even = torch.index_select(x * 2, 1, torch.tensor([0, 2]))
    return (x + 1)[torch.remainder(even, 1) - 1]


def negative_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    even = torch.index_select(x * 2, 1, torch.tensor([0, 2]))
    return even, (x - 9)[torch.remainder(x, 1)]


@pytest.mark.parametrize("function", [negative_places, negative_rows])
def test_integers_that_float16_makes_unsigned_differ(function: Any) -> None:
    # coremltools 9.0 takes the type of constant indices for the integers that follow.
    rows = torch.tensor([[7, 5, 3]], dtype=torch.int32)
    plain = verified(Of(function), rows, precision="fp16", deployment_target="iOS17")
    assert (plain.verdict, plain.single) == ("differs" if shows("unsigned-gather") else "agrees", "agrees")
    for precision in ("fp16", "fp32"):
        written = exported(Of(function), rows, precision=precision, deployment_target="iOS17")
        assert written.verification.ok


def test_scalar_is_not_reversed() -> None:
    model = Of(lambda x: torch.stack([x[0].flip(0), x[1]]))
    assert verified(model, randn(2), frontend="export").verdict == "differs"
    assert exported(model, randn(2)).verification.ok


@pytest.mark.parametrize("function", [torch.asinh, lambda x: torch.fmod(x, 2.0)], ids=["asinh", "fmod"])
def test_zero_keeps_its_sign(function: Any) -> None:
    model = Of(lambda x: torch.atan2(function(x), torch.full_like(x, -1.0)))
    assert exported(model, torch.tensor([0.0, -0.0, 0.5, -0.5])).verification.ok


class Largest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("largest", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.largest = torch.maximum(self.largest, x)
        # Large enough for no example to reach.
        return self.total + (self.largest > 1e6).float()


def test_write_to_a_state_is_not_lost() -> None:
    options = {"deployment_target": "iOS18", "states": True}
    lost = exported(Largest(), randn(3), frontend="trace", **options)
    assert isinstance(lost, modellint.ExportError)
    assert lost.verification.verdict == "differs"
    assert "largest" in lost.verification.reason
    written = exported(Largest(), randn(3), **options)
    assert written.verification.ok
    assert written.frontend != "trace"


# What a comparison may miss.


def _lost(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0].exp_()
    # True whatever is written.
    return (y > -1e9).all(-1)


def test_lost_write_that_no_comparison_shows() -> None:
    assert exported(Of(_lost), randn(1, 2, 2)).frontend == "export"
    refused = exported(Of(_lost), randn(1, 2, 2), frontend="trace")
    assert "MUT001 at line" in str(refused)
    assert "--frontend auto: tried, it agrees" in str(refused)
    found = verified(Of(_lost), randn(1, 2, 2), frontend="trace")
    assert (found.verdict, found.single) == ("undecided", "undecided")
    assert verified(Of(_lost), randn(1, 2, 2), frontend="export").verdict == "agrees"

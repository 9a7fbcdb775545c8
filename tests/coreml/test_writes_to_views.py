"""Writes in place to views whose elements lie in another order: new values in an export, where nothing else reads that memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture import constant_scalars, in_place_writes
from modellint.live.inputs.model_inputs import Inputs

pytestmark = pytest.mark.filterwarnings("ignore")
BATCH, LENGTH, HEADS, SIZE = 2, 6, 2, 4
LINEAR = nn.Linear(8, HEADS * SIZE)
ALL = nn.Linear(8, 3 * HEADS * SIZE)


def heads(x: Tensor) -> Tensor:
    return x.reshape(BATCH, LENGTH, HEADS, SIZE).permute(0, 2, 1, 3)


def left_out(mask: Tensor) -> Tensor:
    return ~mask[:, None, :, None]


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.linear, self.all = LINEAR, ALL
        self.function = function

    def forward(self, x: Tensor, mask: Tensor) -> object:
        return self.function(x, mask)


def filled(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(LINEAR(x))
    v.masked_fill_(left_out(mask), 0.0)
    return torch.softmax(v @ v.mT, -1) @ v


def filled_twice_and_given_out(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(LINEAR(x))
    v.masked_fill_(left_out(mask), 0.5)
    v.mul_(2.0).add_(1.0)
    return v


def of_three(x: Tensor, mask: Tensor) -> Tensor:
    q, k, v = map(heads, ALL(x).chunk(3, -1))
    v.masked_fill_(left_out(mask), 0.0)
    return torch.softmax(q @ k.mT, -1) @ v


def read_through_a_later_view(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(LINEAR(x))
    v.masked_fill_(left_out(mask), 0.0)
    return v[:, 1] + v.transpose(2, 3).sum()


def read_before(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(LINEAR(x))
    total = v.sum(1)
    v.masked_fill_(left_out(mask), 0.0)
    return v.sum(1) - total


ALONE = [filled, filled_twice_and_given_out, of_three, read_through_a_later_view, read_before]


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, LENGTH, 8, generator=generator), torch.rand(BATCH, LENGTH, generator=generator) < 0.6


@pytest.mark.parametrize("function", ALONE, ids=lambda function: function.__name__)
def test_a_write_that_nothing_else_sees_is_a_new_value(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    model, given = Model(function).eval(), inputs()
    with torch.no_grad():
        program, _ = constant_scalars.exported(model, Inputs(given))
        assert not any(map(in_place_writes.writes_a_turned_view, program.graph.nodes))
        program = program.run_decompositions({})
        for seed in range(3):
            x, mask = torch.randn(BATCH, LENGTH, 8), torch.rand(BATCH, LENGTH) < 0.5
            torch.testing.assert_close(program.module()(x, mask), model(x, mask), msg=f"{seed}")


def also_read_as_it_was_made(x: Tensor, mask: Tensor) -> Tensor:
    flat = LINEAR(x)
    heads(flat).masked_fill_(left_out(mask), 0.0)
    return flat * 2


def also_read_by_an_earlier_view(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(LINEAR(x))
    first = v[:, 0]
    v.masked_fill_(left_out(mask), 0.0)
    return v.sum(1) + first


def of_an_input(x: Tensor, mask: Tensor) -> Tensor:
    v = heads(x)
    v.masked_fill_(left_out(mask), 0.0)
    return v * 2


def of_what_is_there_once(x: Tensor, mask: Tensor) -> Tensor:
    v = LINEAR(x)[:, None].expand(BATCH, 2, LENGTH, HEADS * SIZE)
    v.masked_fill_((v > 1e6) & torch.tensor([True, False])[:, None, None], 0.0)
    return v * 2


def of_one_of_equal_parts(x: Tensor, mask: Tensor) -> Tensor:
    parts = LINEAR(x)[None].expand(2, BATCH, LENGTH, HEADS * SIZE).unbind(0)
    v = parts[0].transpose(1, 2)
    v.masked_fill_(v > 1e6, 0.0)
    return v.mT + parts[1]


def of_what_a_program_within_gives(x: Tensor, mask: Tensor) -> Tensor:
    flat = LINEAR(x)
    with torch.enable_grad():
        v = flat.transpose(1, 2)
    v.masked_fill_(v > 1e6, 0.0)
    return flat * 2 + v.sum()


def of_what_may_be_its_operand(x: Tensor, mask: Tensor) -> Tensor:
    flat = LINEAR(x)
    v = heads(nn.functional.dropout(flat, 0.1, False))
    v.masked_fill_(left_out(mask), 0.0)
    return v.sum(1).mean() + flat


def of_what_gave_its_operand(x: Tensor, mask: Tensor) -> Tensor:
    flat = LINEAR(x)
    same = nn.functional.dropout(flat, 0.1, False)
    v = heads(flat)
    v.masked_fill_(left_out(mask), 0.0)
    return v.sum(1).mean() + same


@pytest.mark.parametrize(
    "function",
    [
        *(also_read_as_it_was_made, also_read_by_an_earlier_view, of_an_input, of_what_is_there_once),
        *(of_one_of_equal_parts, of_what_a_program_within_gives, of_what_may_be_its_operand, of_what_gave_its_operand),
    ],
    ids=lambda function: function.__name__,
)
def test_a_write_that_something_else_sees_stays(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    model, given = Model(function).eval(), inputs()
    with torch.no_grad():
        program, _ = constant_scalars.exported(model, Inputs(given))
        assert sum(map(in_place_writes.writes_a_turned_view, program.graph.nodes)) == 1


def test_a_write_to_rows_whose_number_is_a_value_stays() -> None:
    def chosen(x: Tensor, mask: Tensor) -> Tensor:
        rows = LINEAR(x)[mask].t()
        rows.mul_(2.0)
        return rows.sum(1)

    with torch.no_grad():
        program, _ = constant_scalars.exported(Model(chosen).eval(), Inputs(inputs()))
    assert any(node.target is torch.ops.aten.mul_.Tensor for node in program.graph.nodes)


def test_writes_to_several_tensors_at_once_stay() -> None:
    def several(x: Tensor, mask: Tensor) -> Tensor:
        first, second = LINEAR(x), LINEAR(x) + 1
        torch._foreach_mul_([first, second], 2.0)
        return first + second

    with torch.no_grad():
        program, _ = constant_scalars.exported(Model(several).eval(), Inputs(inputs()))
    assert any(node.target is torch.ops.aten._foreach_mul_.Scalar for node in program.graph.nodes)


def test_attention_that_fills_its_values_in_place_is_exported() -> None:
    """By this route alone: a trace does it another way."""
    result = modellint.export(Model(of_three).eval(), inputs(), frontend="export", precision="fp32")
    assert result.verification.ok

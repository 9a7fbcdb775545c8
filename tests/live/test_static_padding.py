"""Static padding: a program of rows that a mask chooses gives what the model gives, for every mask, with sizes that are no values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modellint.destinations.capture.static_padding.program import NOTE, padded
from modellint.destinations.capture.static_padding.sizes import is_of_values

ROWS, WIDTH = 6, 4
X = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
LINEAR = nn.Linear(WIDTH, WIDTH)
NORM = nn.LayerNorm(WIDTH)
CONV = nn.Conv1d(WIDTH, 3, 3, padding=1)
TABLE = nn.Embedding(9, WIDTH)


class Model(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        return self.function(x, mask)


def masks(*shape: int) -> Iterator[Tensor]:
    """None, all, the first, the last, and some at random."""
    yield torch.zeros(shape, dtype=torch.bool)
    yield torch.ones(shape, dtype=torch.bool)
    for at in (0, -1):
        mask = torch.zeros(shape, dtype=torch.bool)
        mask.view(-1)[at] = True
        yield mask
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        yield torch.rand(shape, generator=generator) < 0.5


def put_back(x: Tensor, mask: Tensor) -> Tensor:
    y = x.clone()
    y[mask] = torch.relu(NORM(LINEAR(x[mask]))) + 1
    return y


def scattered(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_scatter(mask.unsqueeze(-1).expand_as(x), LINEAR(x.flip(0))[mask.flip(0)])


def scattered_by_elements(x: Tensor, mask: Tensor) -> Tensor:
    chosen = torch.masked_select(x, x > 0)
    return torch.zeros_like(x).masked_scatter(x > 0, chosen * 2)


def in_columns(x: Tensor, mask: Tensor) -> Tensor:
    y = x.t().clone()
    return y.index_add(1, torch.where(mask)[0], torch.sin(x.t()[:, mask]))


def heads(x: Tensor, mask: Tensor) -> Tensor:
    rows = LINEAR(x[mask])
    split = rows.reshape(rows.shape[0], 2, 2).transpose(1, 2).contiguous().flatten(1)
    return torch.zeros_like(x).masked_scatter(mask.unsqueeze(-1), split)


def pooled(x: Tensor, mask: Tensor) -> Tensor:
    return LINEAR(x[mask].sum(0))


def least_and_most(x: Tensor, mask: Tensor) -> Tensor:
    rows = torch.cat([x[mask], x[:1]])
    return torch.stack([rows.amin(0), rows.amax(0)])


def mean_with_one(x: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x[mask], x[:1]]).mean(0)


def attended(x: Tensor, mask: Tensor) -> Tensor:
    rows = torch.cat([x[:1], x[mask]])
    return torch.softmax(x @ rows.t(), -1) @ rows


def of_queries(x: Tensor, mask: Tensor) -> Tensor:
    q = x[mask].unsqueeze(0)
    out = nn.functional.scaled_dot_product_attention(q, x.unsqueeze(0), x.unsqueeze(0)).squeeze(0)
    return torch.zeros_like(x).masked_scatter(mask.unsqueeze(-1), out)


def expert(x: Tensor, mask: Tensor) -> Tensor:
    (rows,) = torch.where(mask)
    return torch.zeros_like(x).index_add(0, rows, LINEAR(x[rows]) * x[rows, 0].unsqueeze(-1))


def at_places(x: Tensor, mask: Tensor) -> Tensor:
    places = torch.nonzero(mask)[:, 0]
    y = x.clone()
    y[places] = LINEAR(x[places])
    return y


def in_a_grid(x: Tensor, mask: Tensor) -> Tensor:
    at = torch.nonzero(x > 0.5)
    y = torch.zeros_like(x)
    y[at[:, 0], at[:, 1]] = x[at[:, 0], at[:, 1]] * 3
    return y


def twice_chosen(x: Tensor, mask: Tensor) -> Tensor:
    first = x[mask]
    return (first[first[:, 0] > 0]).sum(0)


def looked_up(x: Tensor, mask: Tensor) -> Tensor:
    ids = torch.where(mask, torch.arange(ROWS), -100)
    return TABLE(ids[mask]).sum(0)


def convolved(x: Tensor, mask: Tensor) -> Tensor:
    images = x.unsqueeze(-1).expand(ROWS, WIDTH, 5)
    return CONV(images[mask]).mean(-1).sum(0)


def squares(x: Tensor, mask: Tensor) -> Tensor:
    rows = x[mask]
    return rows.t() @ rows


def counted(x: Tensor, mask: Tensor) -> Tensor:
    rows = x[mask]
    return torch.stack([(rows > 0).all(0), (rows > 1).any(0)])


def grouped(x: Tensor, mask: Tensor) -> Tensor:
    order = torch.sort(mask.long(), stable=True)[1]
    parts = x[order].split(torch.stack([(~mask).sum(), mask.sum()]).tolist())
    both = torch.cat([LINEAR(parts[0]), parts[1] * 2])
    gates, values = both.chunk(2, dim=-1)
    again = (torch.relu(gates) * values).split(torch.stack([(~mask).sum(), mask.sum()]).tolist(), 0)
    return torch.zeros(ROWS, WIDTH // 2).index_add(0, order, torch.cat([again[0] + 1, again[1]]))


def parted(x: Tensor, mask: Tensor) -> Tensor:
    parts = LINEAR(x[mask]).split(torch.stack([mask[:2].sum(), mask[2:].sum()]).tolist())
    return x.masked_scatter(mask.unsqueeze(-1), torch.cat([parts[0] + 1, parts[1] * 2]))


def counted_off(x: Tensor, mask: Tensor) -> Tensor:
    rows = x[mask]
    above = torch.bucketize(rows, torch.tensor([-0.5, 0.5])) > 0
    kept = above[torch.arange(rows.shape[0])[:, None], torch.arange(WIDTH)[None]] & (rows < 1)
    return x.masked_scatter(mask.unsqueeze(-1), torch.concat([torch.where(kept, rows, 0.0)]))


USES = [
    *(grouped, parted, counted_off),
    *(put_back, scattered, scattered_by_elements, in_columns, heads, pooled, least_and_most, mean_with_one, attended),
    *(of_queries, expert, at_places, in_a_grid, twice_chosen, looked_up, convolved, counted, squares),
]


def exported(function: Callable[..., Any], mask: Tensor) -> tuple[Model, Any]:
    model = Model(function).eval()
    with torch.no_grad():
        return model, torch.export.export(model, (X, mask))


@pytest.mark.parametrize("function", USES, ids=lambda function: function.__name__)
def test_every_mask_gives_what_the_model_gives(function: Callable[..., Any]) -> None:
    model, program = exported(function, torch.tensor([True, False, True, True, False, False]))
    static, notes = padded(program)
    assert notes == (NOTE,)
    assert not any(is_of_values(node.meta.get("val")) for node in static.graph.nodes)
    run = static.module()
    for at, mask in enumerate(masks(ROWS)):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(at))
        with torch.no_grad():
            expected, found = model(x, mask), run(x, mask)
        torch.testing.assert_close(found, expected, equal_nan=True)


def a_number(x: Tensor, mask: Tensor) -> Tensor:
    return x * x[mask].shape[0]


def from_behind(x: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x[mask], x[:1]])[-1]


def filled_with_the_count(x: Tensor, mask: Tensor) -> Tensor:
    return torch.full((3,), x[mask].shape[0])


def given_out(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask] + 1


def in_other_order(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask].flip(0)[0]


def all_elements_in_a_row(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask].t().reshape(-1).cumsum(0).sum()


def filled_up(x: Tensor, mask: Tensor) -> Tensor:
    rows = x[mask]
    return torch.cat([rows, torch.ones(8 - rows.shape[0], WIDTH)]).sum(0)


def of_all_parts_before_their_split(x: Tensor, mask: Tensor) -> Tensor:
    few, many = torch.stack([(~mask).sum(), mask.sum()]).tolist()
    ones = torch.ones(few + many, WIDTH)
    parts = x.split([few, many])
    return parts[0].sum(0) + 2 * parts[1].sum(0) + ones.sum(0)


def counted_off_by_others(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask][torch.arange(x[~mask].shape[0])].sum(0)


def between_themselves(x: Tensor, mask: Tensor) -> Tensor:
    at = mask.nonzero().squeeze(1)
    return torch.zeros(ROWS, dtype=torch.long).index_add(0, at, torch.bucketize(at, at) + 1)


@pytest.mark.parametrize(
    "function",
    [
        between_themselves,
        counted_off_by_others,
        of_all_parts_before_their_split,
        filled_up,
        a_number,
        from_behind,
        filled_with_the_count,
        given_out,
        in_other_order,
        all_elements_in_a_row,
    ],
    ids=lambda function: function.__name__,
)
def test_what_padding_would_change_stays_as_it_is(function: Callable[..., Any]) -> None:
    _, program = exported(function, torch.tensor([True, False, True, True, False, False]))
    same, notes = padded(program)
    assert same is program
    assert notes == ()


def test_a_program_of_static_sizes_is_the_one_that_is_given() -> None:
    _, program = exported(
        lambda x, mask: torch.where(mask.unsqueeze(-1), LINEAR(x), x), torch.ones(ROWS, dtype=torch.bool)
    )
    same, notes = padded(program)
    assert same is program
    assert notes == ()

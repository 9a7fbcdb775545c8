"""Inputs of some twenty kinds for a model whose arguments are known, to find where a program departs from it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from random_sources import Argument, Model, usual

KINDS = 20
STEPS = 3
"""Predictions in a row, of a model with states."""
LARGE = 1e4

Change = Callable[[Argument, Tensor, torch.Generator], Tensor]


class Further(NamedTuple):
    """Inputs of one kind, for one prediction or for several in a row."""

    kind: str
    steps: tuple[tuple[Tensor, ...], ...]
    is_exact: bool
    """Whether the floats are so few and so round that computing with them often rounds nothing."""


def _floats(change: Callable[[Tensor, torch.Generator], Tensor]) -> Change:
    return lambda one, value, draw: change(value, draw) if value.is_floating_point() else value


def _ties(value: Tensor, draw: torch.Generator) -> Tensor:
    return torch.randint(-2, 3, value.shape, generator=draw) * 0.5


def _repeated(value: Tensor, draw: torch.Generator) -> Tensor:
    return value[:1].expand_as(value).clone() if value.dim() else value


def _sparse(value: Tensor, draw: torch.Generator) -> Tensor:
    return value * (torch.rand(value.shape, generator=draw) < 0.5)


def _spread(value: Tensor, draw: torch.Generator) -> Tensor:
    return value * 10.0 ** torch.randint(-4, 4, value.shape, generator=draw)


FLOATS: list[tuple[str, Change, bool]] = [
    ("x 5", _floats(lambda x, draw: x * 5), False),
    ("x 1e-2", _floats(lambda x, draw: x * 1e-2), False),
    ("x 1e-4", _floats(lambda x, draw: x * 1e-4), False),
    ("x 1e-6", _floats(lambda x, draw: x * 1e-6), False),
    ("x 1e-9", _floats(lambda x, draw: x * 1e-9), False),
    ("zeros", _floats(lambda x, draw: torch.zeros_like(x)), True),
    ("ones", _floats(lambda x, draw: torch.ones_like(x)), True),
    ("negative", _floats(lambda x, draw: -x.abs()), False),
    ("positive", _floats(lambda x, draw: x.abs()), False),
    ("ties", _floats(_ties), True),
    ("repeated rows", _floats(_repeated), True),
    ("large", _floats(lambda x, draw: x * LARGE), False),
    ("half zeros", _floats(_sparse), True),
    ("of all magnitudes", _floats(_spread), False),
]


def _integers(change: Callable[[Argument, Tensor], Tensor]) -> Change:
    return lambda one, value, draw: change(one, value) if one.dtype.startswith("int") else value


def _masks(change: Callable[[Tensor], Tensor]) -> Change:
    return lambda one, value, draw: change(value) if one.dtype == "bool" else value


def _one_true(value: Tensor) -> Tensor:
    found = torch.zeros_like(value)
    found.view(-1)[-1] = True
    return found


def _alternating(value: Tensor) -> Tensor:
    return (torch.arange(value.numel()) % 2 == 0).view(value.shape)


INTEGERS: list[tuple[str, Change, bool]] = [
    ("lowest integers", _integers(lambda one, x: torch.full_like(x, one.low)), False),
    ("highest integers", _integers(lambda one, x: torch.full_like(x, one.high - 1)), False),
    ("integers all equal", _integers(lambda one, x: torch.full_like(x, (one.low + one.high) // 2)), False),
    ("integers 0", _integers(lambda one, x: torch.full_like(x, max(one.low, 0))), False),
]
MASKS: list[tuple[str, Change, bool]] = [
    ("masks all true", _masks(torch.ones_like), False),
    ("masks of one true", _masks(_one_true), False),
    ("masks alternating", _masks(_alternating), False),
    ("masks all false", _masks(torch.zeros_like), False),
]


def further(model: Model, draws: int = 1) -> Iterator[Further]:
    """Inputs of as many kinds as there are for a model's arguments, and then more of the usual kind; all that so many times."""
    for at in range(draws):
        yield from _once(model, torch.Generator().manual_seed(model.seed + 7919 + 104729 * at))


def _once(model: Model, draw: torch.Generator) -> Iterator[Further]:
    kinds: list[tuple[str, Change, bool]] = [("normal", lambda one, value, draw: value, False)]
    dtypes = {one.dtype for one in model.arguments}
    if "float32" in dtypes:
        kinds += FLOATS
        floats = [at for at, one in enumerate(model.arguments) if one.dtype == "float32"]
        if len(floats) > 1:
            kinds += [
                (f"zeros in {model.arguments[at].name}", _zeros_in(model.arguments[at].name), False) for at in floats
            ]
    if dtypes & {"int32", "int64"}:
        kinds += INTEGERS
    if "bool" in dtypes:
        kinds += MASKS
    for kind, change, is_exact in kinds:
        yield Further(kind, tuple(_drawn(model, draw, change, {}) for _ in _steps(model)), is_exact)
    count = len(kinds)
    for size in _sizes(model):
        shown = f"size {size}"
        for kind, change, is_exact in kinds[:1] + [one for one in kinds if one[0] == "ties"]:
            steps = tuple(_drawn(model, draw, change, {0: size}) for _ in _steps(model))
            yield Further(f"{shown}, {kind}", steps, is_exact)
            count += 1
    for at in itertools.count(2):
        if count >= KINDS:
            return
        count += 1
        steps = tuple(_drawn(model, draw, kinds[0][1], {}) for _ in _steps(model))
        yield Further(f"normal {at}", steps, False)


def _zeros_in(name: str) -> Change:
    return lambda one, value, draw: torch.zeros_like(value) if one.name == name else value


def _steps(model: Model) -> range:
    return range(STEPS if model.states else 1)


def _sizes(model: Model) -> list[int]:
    bounds = next((one.bounds for one in model.arguments if one.bounds), ())
    return list(range(bounds[0][1], bounds[0][2] + 1)) if bounds else []


def _drawn(model: Model, draw: torch.Generator, change: Change, sizes: dict[int, int]) -> tuple[Tensor, ...]:
    found = []
    for one in model.arguments:
        shape = list(one.shape)
        for group, (dim, _low, _high) in enumerate(one.bounds):
            shape[dim] = sizes.get(group, shape[dim])
        value = (
            _any_integers(one, tuple(shape), draw) if one.dtype.startswith("int") else usual(one, tuple(shape), draw)
        )
        found.append(change(one, value, draw).contiguous())
    return tuple(found)


def _any_integers(one: Argument, shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    return torch.randint(one.low, one.high, shape, generator=draw).to(getattr(torch, one.dtype))

"""Axis patterns of `einops.rearrange`: the sizes of what one gives, by the names that it binds (<https://einops.rocks/api/rearrange/>)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout, product
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Const

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modellint.source.engine.arguments import Arguments


def rearranged(arguments: Arguments) -> Layout | None:
    """The sizes of a rearranged tensor, with strides that are not known; None where the pattern is not understood."""
    tensor, pattern = arguments.get(0, "tensor"), arguments.get(1, "pattern")
    if not isinstance(tensor, Tensor) or not isinstance(pattern, Const) or not isinstance(pattern.value, str):
        return None
    left, _, right = pattern.value.partition("->")
    before, after = _axes(left), _axes(right)
    if before is None or not after:
        return None
    sizes = {name: dim for name, value in arguments.keywords.items() if name and (dim := dim_of(value)) is not None}
    taken = tensor.layout.with_rank(len(before)) if tensor.layout is not None else None
    for names, axis in zip(before, taken.axes if taken is not None else (), strict=False):
        _learn(sizes, names, axis.size)
    return Layout([Axis(product([_size(sizes, name) for name in names]), None) for names in after])


def _axes(side: str) -> Sequence[Sequence[str]] | None:
    """The names of each axis of one side; None of a side that leaves axes out: `...`."""
    if not re.fullmatch(r"[\w\s()]*", side):
        return None
    return [group[1:-1].split() if group[0] == "(" else [group] for group in re.findall(r"\([^()]*\)|\w+", side)]


def _learn(sizes: dict[str, Dim], names: Sequence[str], size: Dim) -> None:
    """Note the size of the one name of an axis that is not bound."""
    unbound = [name for name in names if name not in sizes and not name.isdigit()]
    if len(unbound) == 1:
        sizes[unbound[0]] = size / product([_size(sizes, name) for name in names if name != unbound[0]])


def _size(sizes: dict[str, Dim], name: str) -> Dim:
    if name.isdigit():
        return ONE if name == "1" else Dim.of(int(name))
    return sizes.setdefault(name, Dim.symbol())

"""Assignments to parts of tensors of truth values, which coremltools refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Container, Drawn, Number, Tensor, alternatives, called_name, is_mask

if TYPE_CHECKING:
    from modellint.authoring import Code, Value, Write

_CONVERTS_FROM = 18
"""The first iOS for which truths are assigned, by ``slice_update``."""
_ONES_CONVERT_FROM = 16
"""The same of `torch.ones_like(x, dtype=torch.bool)`, which coremltools makes of floats from then on."""


def truth_writes(code: Code) -> Iterator[tuple[Write, int, bool, bool]]:
    """An assignment to slices or places of each variable of `forward` that certainly holds truth values.

    With the first iOS for which it converts, whether it converts from `torch.export` all the same, and whether only training or a flag
    gets there. Measured with coremltools 9.0, for targets before iOS 18: a trace is refused whatever is assigned to; an export is
    refused where a slice with a bound of a tensor that depends on the input is assigned to, and converts a constant, the whole
    (`m[:] = True`) or, with core ATen decompositions, a place. What `torch.ones_like` makes converts by both routes from iOS 16 on.
    """
    if code.is_never_exported or code.destination.ios >= _CONVERTS_FROM:
        return
    worst: dict[tuple[ast.AST | None, str], tuple[Write, int, bool, bool]] = {}
    for readings in code.writes:
        write = readings[0]
        place = write.node
        if write.how != "item" or not isinstance(place, ast.Subscript) or write.function not in code.in_forward:
            continue
        captured = [reading for reading in readings if reading.exported]
        if not captured or not all(map(_is_of_truths, captured)) or not all(map(_is_plain, captured)):
            continue
        if code.is_for_capture_only(write.node, write.function):
            continue
        first = _ONES_CONVERT_FROM if all(map(_is_made_of_ones, captured)) else _CONVERTS_FROM
        if code.destination.ios >= first:
            continue
        variable = write.function, ast.unparse(place.value)
        parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
        bounded = any(
            isinstance(part, ast.Slice) and (part.lower is not None or part.upper is not None or part.step is not None)
            for part in parts
        )
        data = all(any(map(_is_data, alternatives(reading.target))) for reading in captured)
        converts = not (bounded and data)
        if variable not in worst or (worst[variable][2] and not converts):
            worst[variable] = write, first, converts, all(reading.training or reading.unusual for reading in captured)
    yield from worst.values()


def _is_of_truths(write: Write) -> bool:
    parts = alternatives(write.target)
    return all(isinstance(part, Tensor) and not part.registered and _holds_truths(part) for part in parts)


def _is_made_of_ones(write: Write) -> bool:
    nodes = [part.root.node for part in alternatives(write.target) if isinstance(part, Tensor)]
    return bool(nodes) and all(isinstance(node, ast.Call) and called_name(node) == "ones_like" for node in nodes)


def _holds_truths(tensor: Tensor) -> bool:
    """Whether a tensor certainly holds truths: `a & b` and `~a` may be whole numbers."""
    part: Tensor | None = tensor
    while part is not None:
        if isinstance(part.node, (ast.BinOp, ast.UnaryOp)) or part.made_by == "gather":
            return False
        part = part.base
    return is_mask(tensor)


def _is_plain(write: Write) -> bool:
    """Whether all that stands in the brackets are slices and numbers."""
    return all(
        value is None
        or all(isinstance(part, (Const, Number)) and not _is_special(part) for part in alternatives(value))
        for value in write.index
    )


def _is_special(value: Value) -> bool:
    # A number that Python takes out of a tensor is another rule's.
    return isinstance(value, (Container, Drawn)) or (isinstance(value, Const) and type(value.value) is not int)


def _is_data(value: Value) -> bool:
    return isinstance(value, Tensor) and value.batch is not None

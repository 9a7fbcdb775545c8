"""Aliases: which tensors share memory, and whether another sees a write to one; what the rules about writes share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Const,
    Number,
    Tensor,
    Value,
    alternatives,
    is_mask,
    of_kind,
    once,
    operators,
    parents_in,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Write

_NO_CHANGE = operators.in_place_layout | {
    "requires_grad_",
    "retain_grad_",
    "share_memory_",
    "detach_",
    "pin_memory_",
    "_",
}

_FACTORIES = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "eye", "arange", "linspace"}
    | {"new_zeros", "new_ones", "new_empty", "new_full"}
)
"""What makes a tensor from sizes, one element after the other."""
_MOVES = frozenset({"to", "cuda", "cpu", "float", "double", "half", "data", "detach", "requires_grad_"})
"""What leaves the order of the elements in memory as it is."""


def bases(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and those whose memory it shares, down to the first."""
    part: Tensor | None = tensor
    while part is not None:
        yield part
        part = part.base


def copying(tensor: Tensor) -> Iterator[Tensor]:
    """The bases of a tensor that may be copies, such as results of `reshape`."""
    for part in bases(tensor):
        if part.kind != "tensor":
            # What the module owns is what it is, whatever it was made of.
            return
        if _is_copy(part):
            yield part


def may_be_copy(tensor: Tensor) -> bool:
    """Whether a tensor may be a copy of the one at the bottom of its views."""
    return _any_base(tensor, "copy", _is_copy, owned=False) or _any_base(tensor, "cast", _is_cast, owned=True)


def _is_copy(tensor: Tensor) -> bool:
    return tensor.made_by in operators.copying and tensor.base is not None and not _is_view(tensor, tensor.base)


def _is_cast(tensor: Tensor) -> bool:
    return tensor.made_by in operators.casts and tensor.base is not None


def _any_base(tensor: Tensor, name: str, holds: Callable[[Tensor], bool], owned: bool) -> bool:
    """Whether a predicate holds for one of ``bases``; without ``owned`` only for those before the module's own tensors."""
    above: list[Tensor] = []
    holds_here = False
    for part in bases(tensor):
        if not owned and part.kind != "tensor":
            break
        if part.told is not None and name in part.told:
            holds_here = part.told[name]
            break
        above.append(part)
        holds_here = holds(part)
        if holds_here:
            break
    # A chain of views is gone down once, not from each of them.
    for part in above:
        if part.told is None:
            part.told = {}
        part.told[name] = holds_here
    return holds_here


def changes(write: Write) -> bool:
    """Whether a write changes what a tensor holds, where a model that was exported runs it."""
    if write.training or not write.exported or write.how in ("attribute", "data"):
        return False
    return write.how != "method" or getattr(getattr(write.node, "func", None), "attr", "") not in _NO_CHANGE


def _is_view(result: Tensor, source: Tensor) -> bool:
    """Whether an operator that may copy certainly gives a view, or is not known to merge dimensions: splitting never copies."""
    if result.made_by in ("reshape", "reshape_as"):
        before, after = (part.layout.rank if part.layout is not None else None for part in (source, result))
        if before is None or after is None or after >= before:
            return True
    if _is_made_in_order(source):
        return True
    if source.layout is None or result.layout is None or source.assumed or source.root.origin == "argument":
        return False
    # What is contiguous though its source is not has been copied.
    known = all(axis.stride is not None for axis in (*source.layout.axes, *result.layout.axes))
    return source.layout.is_contiguous or (known and not result.layout.is_contiguous)


def _is_made_in_order(tensor: Tensor) -> bool:
    """Whether a tensor is contiguous whatever its rank, as a function made it from sizes, and it is only moved since."""
    root = tensor.root
    parts = [*bases(tensor)]
    return (
        root.made_by in _FACTORIES
        and all(part is root or part.made_by in _MOVES for part in parts)
        and not any(word.arg == "memory_format" for part in parts for word in getattr(part.node, "keywords", ()))
    )


def is_filled_once(code: Code, write: Write | Call, name: str) -> bool:
    """Whether what a module keeps gets its value at the first call only: `if self.b.numel() == 0:`, `if not self.initialized:`."""
    return any(
        re.search(_ONCE, text) or f"{name}.numel()" in text
        for text in (once(test, "_text", ast.unparse) for test in code.conditions(write.node, write.function))
    )


_ONCE = r"\binit(?:ed|ialized|ted)?\b|_init(?:ed|ialized|ted)?\b|\bfitted\b"


def item_of(write: Write) -> ast.Subscript | None:
    """The `x[i]` that a write assigns to, by `=` or `+=`."""
    place = write.node.target if isinstance(write.node, ast.AugAssign) else write.node
    return place if isinstance(place, ast.Subscript) else None


def item_writes(
    code: Code, wrong: Callable[[Write, ast.Subscript], bool]
) -> Iterator[tuple[ast.Subscript, Write, list[Write]]]:
    """The assignments to items that are ``wrong`` in every reading that changes the tensor.

    With the place that is assigned to, the first such reading, and all readings.
    """
    if code.is_never_exported:
        return
    for readings in code.writes:
        place = item_of(readings[0])
        # What training runs too is read once more.
        changing = [reading for reading in readings if changes(reading)]
        if place is None or not changing or not all(wrong(reading, place) for reading in changing):
            continue
        write = changing[0]
        if not code.is_for_capture_only(write.node, write.function):
            yield place, write, list(readings)


def indices(place: ast.Subscript) -> list[ast.expr]:
    """What stands in the brackets of a subscript."""
    return place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]


def consequence(write: Write, place: ast.Subscript, by: str) -> str:
    """What coremltools 9.0 makes of an assignment by a tensor next to another index, as it was measured."""
    if are_broadcast(write):
        aside = any(value is None or not _is_many(value) for value in write.index)
        return refused_shapes(not aside or _is_computed_with(write, place))
    tensors = [at for at, value in enumerate(write.index) if value is not None and _is_many(value)]
    before = write.index[: tensors[-1]] if tensors else ()
    behind = "a slice"
    if any(map(is_ellipsis, before)):
        others = [value for value in write.index if value is None or not (_is_many(value) or is_ellipsis(value))]
        if not others:
            return told(by, "an ellipsis")
        behind = BESIDE_ANOTHER
    elif not any(value is None or (isinstance(value, Const) and value.value is None) for value in before):
        return told(by)
    if len(tensors) == 1 and is_single(indices(place)[tensors[0]]):
        return told(by)
    return told(by, behind, _is_computed_with(write, place))


def are_broadcast(write: Write) -> bool:
    """Whether tensors among the indices are certainly of different shapes: `y[rows[:, None], columns[None, :]]`."""
    tensors = [
        [part for part in alternatives(value) if isinstance(part, Tensor) and part.is_tensor and not is_mask(part)]
        for value in write.index
        if value is not None and _is_many(value)
    ]
    known = [parts[0] for parts in tensors if len(parts) == 1]
    return any(first.differs_in_shape(second) for at, first in enumerate(known) for second in known[:at])


BESIDE_ANOTHER = "an ellipsis and beside another index"
"""What stands around the tensor in `y[..., 1, i] = v`."""


def told(by: str, behind: str = "", is_computed_with: bool = False) -> str:
    """What is said of an assignment behind ``a slice``, an ellipsis or nothing; with the tensor something may be computed."""
    if not behind:
        return (
            f"An assignment by {by} next to another index is dropped without a word when a traced model is converted; "
            "`torch.export` keeps it"
        )
    return _refused(f"An assignment by {by} behind {behind} is", is_computed_with or behind == "an ellipsis")


def refused_shapes(on_both: bool = False) -> str:
    """What is said of an assignment by tensors that are broadcast: beside a slice or a number it may be dropped."""
    return _refused("An assignment by tensors of indices of different shapes is", on_both)


def _refused(what: str, on_both: bool) -> str:
    if on_both:
        return f"{what} refused by coremltools, on both routes"
    return (
        f"{what} refused by coremltools; where a traced model computes nothing behind it, it is dropped without a word"
    )


def is_ellipsis(value: Value | None) -> bool:
    """Whether an index is `...`."""
    return isinstance(value, Const) and value.value is ...


def is_single(index: ast.expr) -> bool:
    """Whether an index is a list of one number."""
    return (
        isinstance(index, ast.List) and len(index.elts) == 1 and isinstance(index.elts[0], (ast.Constant, ast.UnaryOp))
    )


def _is_many(value: Value) -> bool:
    """Whether an index is a tensor or a list: what is not understood and called a mask counts as one."""
    return not any(isinstance(part, (Const, Number)) for part in alternatives(value))


def _is_computed_with(write: Write, place: ast.Subscript) -> bool:
    """Whether the function computes with what is written to, behind the assignment, other than by returning or renaming it."""
    name, function, end = place.value, write.function, write.statement.end_lineno
    if not isinstance(name, ast.Name) or function is None or end is None or not write.is_read_later(name.id):
        return False
    parents = parents_in(function)
    later = (use for use in of_kind(function, ast.Name) if use.id == name.id and use.lineno > end)
    first = min((use for use in later if isinstance(use.ctx, ast.Load)), key=lambda use: use.lineno, default=None)
    above = parents.get(first) if first is not None else None
    while isinstance(above, (ast.Tuple, ast.List)):
        above = parents.get(above)
    return above is not None and not isinstance(above, (ast.Return, ast.Assign, ast.AnnAssign))


def is_called_mask(write: Write, value: Value, node: ast.expr) -> bool:
    """Whether an index of a write certainly holds truths, or is a tensor that is called so or used as such."""
    parts = alternatives(value)
    if all(map(is_mask, parts)) or _compares(node):
        return True
    if not write.names_mask(node):
        return False
    if any(isinstance(part, Tensor) and any(base.made_by in _PLACES for base in bases(part)) for part in parts):
        return False
    # What is not understood and called a mask is one where a tensor is assigned to by nothing else.
    place = item_of(write)
    alone = place is not None and len(indices(place)) == 1
    unseen = alone and all(part.is_tensor for part in alternatives(write.target))
    return all(
        isinstance(part, Tensor) or (isinstance(part, Const) and part.value is None) or (unseen and part.is_unseen)
        for part in parts
    )


def _compares(node: ast.expr) -> bool:
    """Whether an index is made of comparisons by `&` and `|`: no number is."""
    match node:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return any(isinstance(part, ast.Compare) or _compares(part) for part in (left, right))
    return False


_PLACES = frozenset({"nonzero", "argmax", "argmin", "argsort", "topk", "sort", "arange", "randperm", "argwhere"})
"""Operators that give places."""

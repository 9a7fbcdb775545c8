"""Which tensors share memory, and whether a change of one is seen by another: what the rules about writes share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from modellint.source.domains.tensors import IN_PLACE_LAYOUT, MAKERS, Opaque, Tensor
from modellint.source.engine.abstract_values import Const, Instance, Value, alternatives
from modellint.source.syntax import live_variables as later
from modellint.source.syntax.ast_walk import of_kind, once
from modellint.source.triggers.patterns.copying_operators import EITHER
from modellint_rules.training_only import is_for_capture_only, is_for_training

if TYPE_CHECKING:
    from modellint.source.engine.code_facts import Code
    from modellint.source.engine.recorded_operations import Write

CASTS = frozenset({"to", "type", "cuda", "cpu", "float"})
"""Operators that give the same tensor where nothing has to change, else a copy."""
_NO_CHANGE = IN_PLACE_LAYOUT | {"requires_grad_", "retain_grad_", "share_memory_", "detach_", "pin_memory_", "_"}


def bases(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and those whose memory it shares, down to the first."""
    part: Tensor | None = tensor
    while part is not None:
        yield part
        part = part.base


def copying(tensor: Tensor) -> Iterator[Tensor]:
    """Those of them that may be copies, as `reshape` gives them."""
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
    return tensor.made_by in EITHER and tensor.base is not None and not _is_view(tensor, tensor.base)


def _is_cast(tensor: Tensor) -> bool:
    return tensor.made_by in CASTS and tensor.base is not None


def _any_base(tensor: Tensor, name: str, holds: Callable[[Tensor], bool], owned: bool) -> bool:
    """Whether something holds of one of ``bases``; without ``owned`` down to what the module owns, and not of that."""
    above: list[Tensor] = []
    found = False
    for part in bases(tensor):
        if not owned and part.kind != "tensor":
            break
        if part.told is not None and name in part.told:
            found = part.told[name]
            break
        above.append(part)
        found = holds(part)
        if found:
            break
    # A chain of views is gone down once, not from each of them.
    for part in above:
        if part.told is None:
            part.told = {}
        part.told[name] = found
    return found


def changes(write: Write) -> bool:
    """Whether a write changes what a tensor holds, where a model that was exported runs it."""
    if write.training or not write.exported or write.how in ("attribute", "data"):
        return False
    return write.how != "method" or getattr(getattr(write.node, "func", None), "attr", "") not in _NO_CHANGE


def is_tensor(value: object) -> bool:
    """Whether a value certainly is a tensor."""
    return isinstance(value, Tensor) and (value.certain or value.shown)


def _is_view(made: Tensor, source: Tensor) -> bool:
    """Whether an operator that may copy certainly does not, or is not known to merge dimensions: splitting them never copies."""
    if made.made_by in ("reshape", "reshape_as"):
        before, after = (part.layout.rank if part.layout is not None else None for part in (source, made))
        if before is None or after is None or after >= before:
            return True
    if source.layout is None or made.layout is None or source.assumed or source.root.origin == "argument":
        return False
    # What is contiguous though its source is not has been copied.
    known = all(axis.stride is not None for axis in (*source.layout.axes, *made.layout.axes))
    return source.layout.is_contiguous or (known and not made.layout.is_contiguous)


def is_read_later(write: Write, name: str) -> bool:
    """Whether what a local variable holds is read behind a write before it is bound anew; its shape alone is not."""
    return write.function is not None and later.is_read_later(write.statement, write.function, name)


def is_filled_once(code: Code, write: Write, name: str) -> bool:
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
    if is_for_training(code):
        return
    for readings in code.writes:
        place = item_of(readings[0])
        # What training runs too is read once more.
        changing = [one for one in readings if changes(one)]
        if place is None or not changing or not all(wrong(one, place) for one in changing):
            continue
        write = changing[0]
        if not is_for_capture_only(code, write.node, write.function):
            yield place, write, list(readings)


def indices(place: ast.Subscript) -> list[ast.expr]:
    """What stands in the brackets of a subscript."""
    return place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]


def is_used_as_mask(function: ast.AST | None, name: str) -> bool:
    """Whether a function uses a variable as truths: in `torch.where`, `masked_fill`, `~m` or `m & n`."""
    if function is None:
        return False
    for call in of_kind(function, ast.Call):
        method = getattr(call.func, "attr", "")
        if method in ("where", "masked_fill", "masked_fill_", "masked_select") and call.args:
            given = call.args[0] if method != "where" or len(call.args) == 3 else call.args[-1]
            if isinstance(given, ast.Name) and given.id == name:
                return True
    inverted = (node.operand for node in of_kind(function, ast.UnaryOp) if isinstance(node.op, ast.Invert))
    both = (
        part
        for node in of_kind(function, ast.BinOp)
        if isinstance(node.op, (ast.BitAnd, ast.BitOr))
        for part in (node.left, node.right)
    )
    return any(isinstance(part, ast.Name) and part.id == name for part in (*inverted, *both))


def is_called_mask(write: Write, value: Value, node: ast.expr) -> bool:
    """Whether an index of a write certainly holds truths, or is a tensor that is called so or used as such."""
    parts = alternatives(value)
    if all(map(is_mask, parts)) or _compares(node):
        return True
    name = _root(node)
    if not (_is_name_of_mask(name) or (name and is_used_as_mask(write.function, name))):
        return False
    if any(isinstance(part, Tensor) and any(one.made_by in _PLACES for one in bases(part)) for part in parts):
        return False
    # What is not understood and called a mask is one where a tensor is assigned to by nothing else.
    place = item_of(write)
    alone = place is not None and len(indices(place)) == 1
    unseen = alone and all(map(is_tensor, alternatives(write.target)))
    return all(
        isinstance(part, Tensor) or (isinstance(part, Const) and part.value is None) or (unseen and is_unseen(part))
        for part in parts
    )


def is_unseen(value: Value) -> bool:
    """Whether nothing is known of a value."""
    return type(value) in (Value, Opaque, Instance) and getattr(value, "kind", "unresolved") == "unresolved"


def _root(node: ast.expr) -> str:
    """The variable of which an index is a part or a view: `mask[:, 0]`, `mask.squeeze(-1)`."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Attribute)
            or node.func.attr in ("nonzero", "argmax", "argwhere", "long", "int")
        ):
            break
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _compares(node: ast.expr) -> bool:
    """Whether an index is made of comparisons by `&` and `|`: no number is."""
    match node:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return any(isinstance(part, ast.Compare) or _compares(part) for part in (left, right))
    return False


def _is_name_of_mask(name: str) -> bool:
    return re.search(_MASKS, name) is not None and (name.endswith(("mask", "masks")) or not re.search(_INDICES, name))


_MASKS = r"(?i)mask|valid|bool|^is_"
"""Names of truths."""
_INDICES = r"(?i)(?:^|_)i?(?:idx|idcs?|ind|inds|index|indexes|indices|ids?)(?:_|\d|$)"
"""Names of indices: `masked_indices`, `mask_idx`."""
_PLACES = frozenset({"nonzero", "argmax", "argmin", "argsort", "topk", "sort", "arange", "randperm", "argwhere"})
"""Operators that give places."""


def is_mask(value: object) -> bool:
    """Whether a tensor certainly holds truths."""
    if not isinstance(value, Tensor):
        return False
    if value.made_by in _TRUTHS:
        return True
    match value.node:
        case ast.Call(func=ast.Name() | ast.Attribute(), args=arguments, keywords=keywords):
            if value.made_by in MAKERS and _says_bool([one.value for one in keywords if one.arg == "dtype"]):
                return True
            if value.made_by in ("to", "type") and _says_bool([*arguments, *(one.value for one in keywords)]):
                return True
            if value.made_by in ("tensor", "as_tensor") and not keywords:
                return isinstance(arguments[0], ast.Compare) if arguments else False
            if value.made_by == "gather" and len(arguments) == 3:
                # `torch.gather(mask.flatten(1), 1, order)`
                return _is_name_of_mask(_root(arguments[0]))
        case ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
            return True
    return value.base is not None and value.made_by not in CASTS and is_mask(value.base)


def _says_bool(types: list[ast.expr]) -> bool:
    """Whether a type that is written down is that of truths."""
    return any(ast.unparse(one) in ("torch.bool", "bool", "th.bool") for one in types)


_TRUTHS = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isnan",
        "isinf",
        "isfinite",
        "bool",
        "logical_and",
        "logical_or",
        "logical_not",
    }
    | {"logical_xor", "isclose", "isin", "signbit", "any", "all"}
)
"""Operators that give truths."""

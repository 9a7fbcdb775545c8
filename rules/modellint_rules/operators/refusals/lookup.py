"""Whether coremltools refuses a use of PyTorch's API for its arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from modellint.authoring import Const, Instance, Tensor, Value, alternatives, coreml, holds_floats
from modellint_rules.operators.refusals.conditions import ABSENT, Literal, Refusal
from modellint_rules.operators.refusals.table import converted_otherwise, refusals, wrong_conversions

if TYPE_CHECKING:
    from modellint_rules.operators.api_calls import Use


def refusal(use: Use, version: str | None, ios: int = 15) -> Refusal | None:
    """Why coremltools refuses a use for the iOS of a year, where it certainly does."""
    for entry in _by_name().get(coreml.public_name(use.name), ()):
        converts = entry.lifted is not None and coreml.is_at_least(version, entry.lifted)
        converts = converts or (entry.ios is not None and ios >= entry.ios)
        if not converts and _holds(entry, use):
            return _of_rank(entry, use)
    return None


def converted_to_another(use: Use) -> Refusal | None:
    """Why coreai-torch converts a use to something else, where it certainly does."""
    found = _by_name(converted_otherwise).get(coreml.public_name(use.name), ())
    return next((_of_rank(entry, use) for entry in found if _holds(entry, use)), None)


def wrong_by_coremltools(use: Use) -> Refusal | None:
    """What coremltools converts a use to, where that certainly is something else."""
    found = _by_name(wrong_conversions).get(coreml.public_name(use.name), ())
    return next((_of_rank(entry, use) for entry in found if _holds(entry, use)), None)


def _of_rank(entry: Refusal, use: Use) -> Refusal:
    rank = use.name[-2:-1]
    return entry._replace(kind=entry.kind.format(rank=rank), shown=entry.shown.replace("{rank}", rank))


@cache
def _by_name(entries: Callable[[], Sequence[Refusal]] = refusals) -> dict[str, tuple[Refusal, ...]]:
    by_name: dict[str, tuple[Refusal, ...]] = {}
    for entry in entries():
        for name in entry.names:
            by_name[name] = (*by_name.get(name, ()), entry)
    return by_name


def _holds(entry: Refusal, use: Use) -> bool:
    arguments = use.arguments
    if arguments.spread or None in arguments.keywords or (entry.of_input and not _depends_on_input(use)):
        return False
    # A tensor's method has its tensor before the dot.
    shift = int(use.name.startswith("torch.Tensor."))
    for literal in entry.literals:
        at = literal.at - shift
        value = arguments.get(at, literal.keyword) if at >= 0 else None
        if literal.form == "rank":
            # Of a layer it is what that is called with.
            argument = _rank(value if literal.at else use.source, use.beside)
        elif literal.form in _TYPES:
            argument = _TYPES[literal.form](value if literal.at else use.source)
        elif value is None:
            argument = literal.default
        elif literal.form == "literal":
            argument = _literal(value, use, literal, shift)
        else:
            argument = _FORMS[literal.form](value)
        if argument is ABSENT or not literal.is_refused(argument):
            return False
    return True


def _depends_on_input(use: Use) -> bool:
    """Whether the tensor that is used is computed from what the caller of `forward` gives."""
    source = use.source or use.arguments.get(0, "A")
    parts = alternatives(source) if source is not None else ()
    return bool(parts) and all(isinstance(part, Tensor) and part.batch is not None for part in parts)


def _name(value: Value) -> object:
    """The name of torch's that an argument is."""
    return ABSENT if value.external_name is None else value.external_name


def _tensor(value: Value) -> object:
    """Something where an argument certainly is a tensor."""
    parts = alternatives(value)
    return True if all(isinstance(part, Tensor) and part.certain for part in parts) else ABSENT


def _rank(value: Value | None, beside: Sequence[Value]) -> object:
    """The number of dimensions of a tensor, where it or the layers in a row with the one that takes it tell."""
    ranks = {part.rank if isinstance(part, Tensor) else None for part in alternatives(value)} if value else set()
    for layer in beside:
        name = layer.name.rpartition(".")[2] if isinstance(layer, Instance) else ""
        if name.endswith(("1d", "2d", "3d")):
            ranks.add(int(name[-2]) + 2)
        elif name in ("", "Flatten", "Unflatten"):
            return ABSENT
    rank = ranks.pop() if ranks else None
    return ABSENT if rank is None or ranks else rank


def _real(value: Value | None) -> object:
    """Something where a tensor certainly holds floating-point numbers."""
    parts = alternatives(value) if value is not None else ()
    return True if parts and all(isinstance(part, Tensor) and part.is_float for part in parts) else ABSENT


def _counted(value: Value | None) -> object:
    """Something where coremltools certainly holds the floats of a tensor as integers."""
    parts = alternatives(value) if value is not None else ()
    return True if parts and all(isinstance(part, Tensor) and part.is_counted for part in parts) else ABSENT


def _cut(value: Value | None) -> object:
    """Something where a tensor certainly holds the integers that a cast made of floating-point numbers."""
    parts = alternatives(value) if value is not None else ()
    return True if parts and all(isinstance(part, Tensor) and part.is_cut for part in parts) else ABSENT


def _single(value: Value | None) -> object:
    """Something unless a tensor is known to be of another type than single precision."""
    parts = alternatives(value) if value is not None else ()
    return ABSENT if not parts or any(isinstance(part, Tensor) and _is_of_other_type(part) for part in parts) else True


def _is_of_other_type(tensor: Tensor) -> bool:
    if tensor.made_by in _OTHER_TYPES:
        return True
    call = tensor.node
    if not isinstance(call, ast.Call) or tensor.made_by not in ("to", "type", *_FACTORIES):
        return False
    # A device may stand there, too: of what is not known nothing is said.
    written = [*(call.args[:1] if tensor.made_by in ("to", "type") else ()), *(word.value for word in call.keywords)]
    return any(ast.unparse(each) not in ("torch.float32", "torch.float") for each in written)


_OTHER_TYPES = frozenset(
    {"half", "bfloat16", "double", "long", "int", "short", "byte", "char", "bool", "argmax", "argmin"}
)
_FACTORIES = ("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "arange", "tensor", "randint")
_TYPES: dict[str, Callable[[Value | None], object]] = {
    "real": _real,
    "counted": _counted,
    "cut": _cut,
    "single": _single,
}


def _floats(value: Value) -> object:
    """Something where coremltools certainly holds whole numbers as floats."""
    return True if all(map(holds_floats, alternatives(value))) else ABSENT


_FORMS: dict[str, Callable[[Value], object]] = {"name": _name, "tensor": _tensor, "floats": _floats}


def _literal(value: Value, use: Use, literal: Literal, shift: int) -> object:
    """The value of an argument that the call spells out, that is the same in all that is read, or that a constructor has by default."""
    call, at = use.node, literal.at - shift
    nodes = (
        [call.args[at]]
        if at < len(call.args)
        else [keyword.value for keyword in call.keywords if keyword.arg == literal.keyword]
    )
    try:
        written = ast.literal_eval(nodes[0])
    except (ValueError, TypeError, IndexError):
        # An attribute that is a number may stand for a state: where it is an argument of the constructor it is not changed.
        known = (str, int, float) if use.by_default else str
        return value.value if isinstance(value, Const) and isinstance(value.value, known) else ABSENT
    return written if not isinstance(value, Const) or value.value == written else ABSENT

"""coremltools' private names for the programs it makes: types of variables, and programs read from packages."""

from __future__ import annotations

from typing import Any

from coremltools.converters.mil.mil import types


def dtype_name(variable: Any) -> str:
    """The name of a variable's element type, as MIL prints it: ``"fp16"``, ``"int32"``, ``"bool"``, ``"str"``.

    A state's is that of the tensor it wraps; what has no element type (a list) gives ``""``.
    """
    kind = variable.sym_type
    if types.is_state(kind):
        kind = kind.wrapped_type()
    if types.is_list(kind):
        return ""
    if types.is_tensor(kind):
        kind = kind.get_primitive()
    try:
        return str(types.builtin_to_string(kind))
    except KeyError:
        return ""


def is_state(variable: Any) -> bool:
    """Whether a variable is a state, that keeps its value from one prediction to the next."""
    return bool(types.is_state(variable.sym_type))


def declared_shape(variable: Any) -> tuple[int | None, ...] | None:
    """A variable's sizes as its program declares them, ``None`` for a size that is not known before a run.

    ``None`` for what is no tensor.
    """
    kind = variable.sym_type
    if types.is_state(kind):
        kind = kind.wrapped_type()
    if types.is_list(kind):
        return None
    sizes = kind.get_shape() if types.is_tensor(kind) else ()
    return tuple(None if types.symbolic.is_symbolic(size) else int(size) for size in sizes)

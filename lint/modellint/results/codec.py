"""The codec of frozen data: to plain JSON values and back, as the type hints of the fields say.

A record (a named tuple or a frozen dataclass) is the list of its fields, a record in a union of several an object whose one key is
its class. What is read may come from a hostile process: every value is checked against its hint, and nothing is converted but
whole numbers where a hint says ``float``.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


class Malformed(ValueError):
    """Values that are not what the codec of a type writes; the message shows the part that is not."""


class Codec(Generic[Value]):
    """What turns values of one type into JSON's own types, and back; compiled from the type's hints at its first use.

    Types may be made of records, enumerations, ``Path``, ``Literal``, ``str``, ``bool``, ``int``, ``float``, ``None``, unions of
    these, ``tuple``, ``Sequence`` (read as a tuple), ``frozenset``, ``Mapping`` with ``str`` keys, and ``Any`` for JSON's own types.
    """

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def to_json(self, value: Value) -> Any:
        """A value as JSON's own types; numbers that are not finite are the texts ``inf``, ``-inf`` and ``nan``."""
        return _compiled(self._hint).encode(value)

    def from_json(self, values: Any) -> Value:
        """The value that ``to_json`` wrote. Raises ``Malformed`` for anything else."""
        value: Value = _compiled(self._hint).decode(values)
        return value


class _Converter(NamedTuple):
    """Both directions for one type."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


@cache
def _compiled(hint: Any) -> _Converter:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return _Converter(_same, _same)
    if hint in (str, bool, int, type(None)):
        return _Converter(_same, _scalar(hint))
    if hint is float:
        return _Converter(_float_to_json, _float_from_json)
    if hint is Path:
        text = _scalar(str)
        return _Converter(str, lambda value: Path(text(value)))
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _Converter(_same, _one_of({value: value for value in arguments}))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _positional(list, tuple, tuple(map(_compiled, arguments)))
    if origin in (tuple, Sequence):
        return _items(_compiled(arguments[0]), tuple, list)
    if origin is frozenset:
        return _items(_compiled(arguments[0]), frozenset, sorted)
    if origin is Mapping and arguments[0] is str:
        return _mapping(_compiled(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Converter(lambda member: member.value, _one_of({member.value: member for member in hint}))
    if _is_record(hint):
        return _record(hint)
    raise TypeError(f"no codec for {hint!r}")


def _same(value: Any) -> Any:
    return value


def _rejected(value: Any, wanted: str) -> Malformed:
    return Malformed(f"{repr(value)[:80]} is not {wanted}")


def _scalar(*kinds: type) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        # A truth value is an `int` to `isinstance`.
        if type(value) not in kinds:
            raise _rejected(value, " or ".join(kind.__name__ for kind in kinds))
        return value

    return decode


def _float_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _float_from_json(value: Any) -> float:
    if type(value) in (float, int) or value in ("inf", "-inf", "nan"):
        try:
            return float(value)
        except OverflowError:
            pass
    raise _rejected(value, "float")


def _one_of(members: Mapping[Any, Any]) -> Callable[[Any], Any]:
    known = {(type(value), value): member for value, member in members.items()}

    def decode(value: Any) -> Any:
        try:
            return known[type(value), value]
        except (KeyError, TypeError):
            raise _rejected(value, f"one of {', '.join(map(repr, members))}") from None

    return decode


def _items(item: _Converter, collect: Callable[[Any], Any], ordered: Callable[[Any], list[Any]]) -> _Converter:
    def decode(values: Any) -> Any:
        if type(values) is not list:
            raise _rejected(values, "a list")
        return collect(map(item.decode, values))

    return _Converter(lambda values: ordered(map(item.encode, values)), decode)


def _mapping(item: _Converter) -> _Converter:
    def encode(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: item.encode(value) for key, value in values.items()}

    def decode(values: Any) -> dict[str, Any]:
        if type(values) is not dict:
            raise _rejected(values, "an object")
        return {key: item.decode(value) for key, value in values.items()}

    return _Converter(encode, decode)


def _positional(
    fields: Callable[[Any], Sequence[Any]], build: Callable[[Any], Any], converters: Sequence[_Converter]
) -> _Converter:
    """A list of so many values, each of its own type."""
    encoders, decoders = zip(*converters, strict=True) if converters else ((), ())

    def encode(value: Any) -> list[Any]:
        return [encode(field) for encode, field in zip(encoders, fields(value), strict=True)]

    def decode(values: Any) -> Any:
        if type(values) is not list or len(values) != len(decoders):
            raise _rejected(values, f"a list of {len(decoders)}")
        return build([decode(field) for decode, field in zip(decoders, values, strict=True)])

    return _Converter(encode, decode)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "_fields") or hasattr(kind, "__dataclass_fields__"))


def _record(kind: Any) -> _Converter:
    names = tuple(getattr(kind, "_fields", ()) or getattr(kind, "__dataclass_fields__", ()))
    hints = get_type_hints(kind)

    def fields(value: Any) -> list[Any]:
        return [getattr(value, name) for name in names]

    build = getattr(kind, "_make", None) or (lambda values: kind(*values))
    return _positional(fields, build, [_compiled(hints[name]) for name in names])


def _union(members: Sequence[Any]) -> _Converter:
    """None or one type, several records, which an object with the class's name as its one key tells apart, or several scalars."""
    kinds = [member for member in members if member is not type(None)]
    if len(kinds) == 1:
        converter = _compiled(kinds[0])
    elif all(map(_is_record, kinds)):
        converter = _tagged({kind.__name__: _compiled(kind) for kind in kinds})
    elif set(kinds) <= {str, bool, int}:
        converter = _Converter(_same, _scalar(*kinds))
    else:
        raise TypeError(f"no codec for a union of {members!r}")
    return converter if len(kinds) == len(members) else _optional(converter)


def _optional(converter: _Converter) -> _Converter:
    encode, decode = converter
    return _Converter(
        lambda value: None if value is None else encode(value), lambda value: None if value is None else decode(value)
    )


def _tagged(records: Mapping[str, _Converter]) -> _Converter:
    def encode(value: Any) -> dict[str, Any]:
        name = type(value).__name__
        return {name: records[name].encode(value)}

    def decode(value: Any) -> Any:
        if type(value) is dict and len(value) == 1:
            ((name, fields),) = value.items()
            if name in records:
                return records[name].decode(fields)
        raise _rejected(value, f"an object with one of {', '.join(records)}")

    return _Converter(encode, decode)

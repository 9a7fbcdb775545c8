"""Operator support: which operators, functions, methods and layers coreai-torch converts, as it was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from modellint.data.coreai_operators import converts_since, known_version, missing, table, versions
from modellint.destinations.destination import UnknownOperator
from modellint.destinations.operator_names import long_name, operator_kind, unknown_operator
from modellint.results.operator_support import Hint, Route, Support

HintsOf = Callable[[str], Iterable[Hint]]
"""What rules know of an operator."""
_SYSTEM = 27
"""The iOS that brought Core AI."""
_NO_ROUTE = Route(None)
_BY_EXPORT = "modellint export decomposes it"


def support(name: str, version: str | None = None) -> Support:
    """What is known of a name: an operator, or a function, method or layer. Raises ``UnknownOperator``."""
    text = long_name(name)
    known, lacks = table(), missing(version)
    ours = (Hint("rewrite", _BY_EXPORT),) if text in known.supplied else ()
    if text in lacks:
        lacking = _lacking(lacks[text], version)
        return lacking._replace(hints=(*lacking.hints, *ours))
    if text in known.refused:
        return _with_converter(text, (text,), f"every use that was tried is refused: {known.refused[text]}", False)
    if text in known.fails:
        return _with_converter(
            text, (text,), f"it converts, and Core AI's interpreter cannot run it: {known.fails[text]}", False
        )
    if text in known.wrong:
        return _with_converter(
            text, (text,), "it converts, and computes something else in every use that was tried", False
        )
    if text in known.converts:
        return _with_converter(text, (text,), None, True)
    since, by_kind = _converters(version), _by_missing(version)
    kind = operator_kind(text, {*since, *by_kind})
    if kind in since:
        return _of_converter(kind, since[kind])
    if kind in by_kind:
        return _lacking((f"aten.{kind}",), version)
    raise UnknownOperator(unknown_operator(name, {*since, *by_kind, *lacks, *known.converts}))


def everything(version: str | None = None) -> Iterator[Support]:
    """All operators with a converter, and those that something of PyTorch's API lacks, by name."""
    since, lacks = _converters(version), _by_missing(version)
    for kind in sorted({*since, *lacks}):
        yield _of_converter(kind, since[kind]) if kind in since else _lacking((f"aten.{kind}",), version)


@lru_cache
def _converters(asked: str | None) -> Mapping[str, str]:
    """Each operator of which some overload has a converter beside a version, with the first that has one."""
    known = versions()
    known = known[: known.index(known_version(asked)) + 1]
    first: dict[str, str] = {}
    for name, version in table().since.items():
        kind = name.partition(".")[0]
        if version in known:
            first[kind] = min(first.get(kind, version), version)
    return first


@lru_cache
def _by_missing(version: str | None) -> Mapping[str, tuple[str, ...]]:
    """Each operator that is lacking, with the names of PyTorch's API that run it."""
    names: dict[str, tuple[str, ...]] = {}
    for name, operators in missing(version).items():
        for operator in operators:
            kind = _kind(operator)
            names[kind] = (*names.get(kind, ()), name)
    return names


def _kind(operator: str) -> str:
    return operator.removeprefix("aten.").partition(".")[0]


def _lacking(operators: tuple[str, ...], version: str | None) -> Support:
    kind = _kind(operators[0])
    also = [f"aten::{_kind(operator)}" for operator in operators[1:]]
    hints = (Hint("missing", f"and no converter for {', '.join(also)}"),) if also else ()
    return Support(f"aten::{kind}", _by_missing(version).get(kind, ()), False, _NO_ROUTE, _NO_ROUTE, _SYSTEM, hints)


def _of_converter(kind: str, since: str) -> Support:
    return Support(f"aten::{kind}", (), True, _NO_ROUTE, Route(since, False, True), _SYSTEM)


def _with_converter(name: str, names: tuple[str, ...], limit: str | None, converts: bool) -> Support:
    hints = () if limit is None else (Hint("refused", limit),)
    if name in table().supplied:
        hints = (*hints, Hint("rewrite", _BY_EXPORT))
    route = Route(converts_since(name), False, True) if converts else _NO_ROUTE
    return Support(name, names, True, _NO_ROUTE, route, _SYSTEM, hints)

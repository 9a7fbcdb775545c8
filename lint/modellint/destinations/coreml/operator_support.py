"""Operator support: the converters, routes, versions and targets of the operators that a name stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources

from modellint.data.coreml_operators import EXPORT_SINCE, OPERATORS, SINCE, VERSIONS
from modellint.data.operator_conversion import table_version
from modellint.data.supplied_converters import exactness
from modellint.destinations.destination import UnknownOperator
from modellint.destinations.operator_names import long_name, operator_kind, snake_case, unknown_operator
from modellint.results.operator_support import Hint, Route, Support

HintsOf = Callable[[str], Iterable[Hint]]
"""What rules know of an operator."""


def support(name: str, version: str | None, hints_of: HintsOf) -> Support:
    """What is known of a name: an operator, or a function, method or layer. Raises ``UnknownOperator``."""
    text = long_name(name)
    kind = _kind(text)
    rows = [text] if text in OPERATORS else _rows_of(kind)
    if rows:
        result = _of_rows(rows, version)
    elif kind in _converters()[0]:
        result = _of_converter(kind, version)
    elif any(hints_of(text)):
        # Some uses are refused, so others convert.
        result = Support(text, (), True, _route(0, version), _route(EXPORT_SINCE, version), 15)
    else:
        raise UnknownOperator(_unknown(name))
    named = () if text == result.operator else hints_of(text)
    hints = tuple(dict.fromkeys((*hints_of(result.operator), *named)))
    return result._replace(hints=hints, exactness=exactness(result.operator))


def everything(version: str | None, hints_of: HintsOf) -> Iterator[Support]:
    """All operators that there is something to say about, by name."""
    for kind in sorted({*_by_kind(), *_converters()[0]}):
        rows = _rows_of(kind)
        known = _of_rows(rows, version) if rows else _of_converter(kind, version)
        yield known._replace(hints=tuple(hints_of(known.operator)), exactness=exactness(known.operator))


@lru_cache
def _converters() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Each name of a converter with the first version that has it, and with the first that lost it."""
    data = json.loads(resources.files("modellint.data").joinpath("coreml_converters.json").read_text("utf-8"))
    return data["since"], data["until"]


@lru_cache
def _by_kind() -> Mapping[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for name, kind in sorted(OPERATORS.items()):
        names[kind] = (*names.get(kind, ()), name)
    return names


def _rows_of(kind: str) -> Sequence[str]:
    """The names that run an operator; where it has a converter, those that run little else."""
    names = _by_kind().get(kind, ())
    if kind not in _converters()[0]:
        return names
    return [name for name in names if snake_case(name).rstrip("_") in (kind, kind.removeprefix("linalg_"))]


def _of_rows(names: Sequence[str], version: str | None) -> Support:
    """The best support among the names of one operator."""
    kind = OPERATORS[names[0]]
    rows = [SINCE[name] for name in names]
    plain = max(min(since.export for since in rows), EXPORT_SINCE)
    decomposed = max(min(since.core for since in rows), EXPORT_SINCE)
    return Support(
        "aten::" + kind,
        tuple(names),
        has_converter(kind, version),
        _route(min(since.trace for since in rows), version),
        _route(min(plain, decomposed), version, decomposed < plain),
        min(since.ios for since in rows),
    )


def _of_converter(kind: str, version: str | None) -> Support:
    since, until = _converters()
    first = VERSIONS.index(since[kind])
    gone = kind in until and table_version(version) >= VERSIONS.index(until[kind])
    trace, export = (None, None) if gone else (first, max(first, EXPORT_SINCE))
    return Support(
        "aten::" + kind, (), has_converter(kind, version), _route(trace, version), _route(export, version), 15
    )


def has_converter(kind: str, version: str | None) -> bool:
    """Whether a version has a converter under a name."""
    since, until = _converters()
    at = table_version(version)
    if kind not in since or VERSIONS.index(since[kind]) > at:
        return False
    return not (kind in until and VERSIONS.index(until[kind]) <= at)


def _route(since: int | None, version: str | None, decomposed: bool = False) -> Route:
    """A route that converts since the version at a place of the table, as it stands at another version."""
    if since is None or since >= len(VERSIONS):
        return Route(None, decomposed)
    return Route(VERSIONS[since], decomposed, since <= table_version(version))


def _kind(name: str) -> str:
    return operator_kind(name, {*_by_kind(), *_converters()[0]})


def _unknown(name: str) -> str:
    return unknown_operator(name, {*_by_kind(), *_converters()[0], *OPERATORS})

"""Frozen data is the same after a way through JSON, and nothing else passes for it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from modellint.results.codec import Codec, Malformed
from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Nothing(NamedTuple):
    pass


@dataclass(frozen=True)
class Record:
    point: Point | None
    shape: Point | Nothing | None
    level: Severity
    word: Literal["a", "b"]
    path: Path
    rows: frozenset[int]
    pair: tuple[str, bool]
    several: tuple[Point, ...]
    names: Sequence[str]
    table: Mapping[str, frozenset[str]]
    key: str | int
    other: Any


RECORD = Record(
    Point(3, math.inf),
    Nothing(),
    Severity.ERROR,
    "b",
    Path("a/b"),
    frozenset({3, 1}),
    ("x", True),
    (Point(1, -math.inf), Point(2)),
    ("one", "two"),
    {"k": frozenset({"v"})},
    4,
    {"free": [1, None]},
)


def through_json(codec: Codec[Any], value: Any) -> Any:
    return codec.from_json(json.loads(json.dumps(codec.to_json(value), allow_nan=False)))


def test_every_kind_of_field_comes_back() -> None:
    assert through_json(Codec(Record), RECORD) == RECORD
    assert math.isnan(through_json(Codec(Point), Point(1, math.nan)).y)


def test_a_finding_comes_back() -> None:
    fix = Fix("Wrap", (Edit(Span(1, 2, 3, 4), "\ud800"),), Applicability.UNSAFE)
    finding = Diagnostic("REG001", "a", Severity.INFO, "m", "p.py", Span(1, 2, 3, 4), fix, modules=("a", "b"))
    assert through_json(Codec(Diagnostic), finding) == finding


def test_whole_numbers_are_read_as_floats_where_these_are_wanted() -> None:
    assert repr(Codec(Point).from_json([1, 2])) == "Point(x=1, y=2.0)"


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Point, [1]),
        (Point, [1, 2.0, 3]),
        (Point, {"x": 1, "y": 2.0}),
        (Point, ["1", 2.0]),
        (Point, [True, 2.0]),
        (Point, [1.0, 2.0]),
        (Point, [1, "2.0"]),
        (Point, [1, 10**400]),
        (Severity, 7),
        (Severity, True),
        (Applicability, ["safe"]),
        (Literal["a", "b"], "c"),
        (Path, 3),
        (Path, None),
        (tuple[int, ...], "12"),
        (tuple[int, str], [1]),
        (frozenset[int], {"1": 2}),
        (frozenset[int], [[1]]),
        (Mapping[str, int], [["a", 1]]),
        (Mapping[str, int], {"a": None}),
        (str | int, 1.5),
        (Point | Nothing, [1, 2.0]),
        (Point | Nothing, {"Span": [1, 2, 3, 4]}),
        (Point | Nothing, {"Point": [1, 2.0], "Nothing": []}),
        (type(None), 0),
    ],
)
def test_anything_else_is_refused(hint: Any, values: Any) -> None:
    with pytest.raises(Malformed):
        Codec(hint).from_json(values)

"""Exceptions that end a run, classified: shapes that do not fit, values that fake tensors do not have, and all else."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from math import prod
from types import CodeType
from typing import Any, NamedTuple

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from modellint.live.capture.records import Failure, TensorFact
from modellint.live.code.places import Project, is_machinery, is_torch, statement_at
from modellint.results.diagnostic import Place


class Raised(NamedTuple):
    """An exception where it was first seen."""

    error: BaseException
    module: str
    identity: int | None
    operator: str | None
    function: str | None
    arguments: tuple[Any, ...]
    place: Place | None


_NO_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

_NEEDS_VALUES = re.compile(
    r"FakeTensor|[Mm]eta tensor|'Meta' backend|data-dependent|data pointer|numpy\(\)|tensor subclass|fake tensor"
)

_SHAPES = re.compile(
    r"""
    shapes?\ cannot\ be\ multiplied | same\ reduction\ dim | size\ mismatch | [Ss]izes?\ of\ tensors?\ (a|must)
    | [Ee]xpected\ (input\b|weight\ to\ be|hidden|\d[DH-]|.*\dD\b|.*\bto\ have\ \d+\ channels|.*\bsize\b|number\ of\ channels)
    | is\ invalid\ for\ input\ of\ size | [Cc]annot\ view\ a | view\ size\ is\ not\ compatible | broadcast
    | same\ number\ of\ dim | (equal|same|matching)\ (size|shape)s? | [Ii]ncompatible\ (shape|size)s?
    | [Kk]ernel\ size\ can't | output\ size\ is\ too\ small | Given\ (groups|normalized_shape|transposed|input\ size)
    | (size|shape|dim\w*|length)\b[^,.;_]*\b(must|should|does\ not|doesn't|do\ not|don't)\b[^,.;]*\b(match|equal|be|have)
    | (must|should|does\ not|doesn't)\ match\b.*\b(size|shape|dim) | should\ contain\ \d+\ elements | inconsistent\ \w*size
    | [Dd]imension\ out\ of\ range | out\ of\ range\ for\ tensor | split_sizes | [Uu]nflatten | too\ many\ indices
    | number\ of\ (dims|dimensions|sizes|subscripts) | [Pp]adding\ size | [Nn]egative\ (dimension|output)
    | expecting\ embedding\ dim | \d-?D\ (or|input|tensor) | a\ \d-?D | tensors?\ expected | exceeds\ dimension
    | out\ of\ bounds\ for\ dimension | number\ of\ (columns|rows|spatial) | [Mm]ismatch | expects\ a\ tensor\ with
    | [Ii]nvalid\ input\ shape | maximum\ size\ for\ tensor | to\ be\ divisible\ by | divisible\ by\ (square|the\ product)
    """,
    re.VERBOSE,
)
"""What PyTorch says of operands that do not fit, in its kernels, its meta kernels and its layers."""

_UNPACKED = re.compile(r"(too many|not enough) values to unpack")


def is_refused_view(fact: TensorFact, shape: Sequence[Any]) -> bool:
    """Whether a view with as many elements fails for the strides alone, as PyTorch's kernel decides; fake kernels let some pass."""
    count = prod(fact.shape)
    known = prod(size for size in shape if size != -1)
    wanted = [size if size != -1 else count // known if known else 0 for size in shape]
    if not fact.shape or not count or prod(wanted) != count or len(fact.strides) != fact.rank:
        return False
    step, run, covered = fact.strides[-1], 1, 1
    for dimension in range(fact.rank - 1, -1, -1):
        run *= fact.shape[dimension]
        outer = dimension - 1
        if outer >= 0 and (fact.shape[outer] == 1 or fact.strides[outer] == run * step):
            continue
        # The end of a stretch that lies in order: new dimensions must end there too.
        while wanted and (covered < run or wanted[-1] == 1):
            covered *= wanted.pop()
        if covered != run:
            return True
        if outer >= 0:
            step, run, covered = fact.strides[outer], 1, 1
    return bool(wanted)


def failure_of(error: BaseException, seen: Sequence[Raised], project: Project, base: CodeType) -> Failure:
    """The failure that an exception from the model's call amounts to. ``base`` is the code that called the model."""
    raised = next((exception for link in _chain(error) for exception in seen if exception.error is link), None)
    cause = raised.error if raised is not None else error
    trace = _rows(error, base)
    rows = [row for row in trace if not is_machinery(row[0])]
    own = [row for row in rows if project.owns(row[0])] or rows
    place = raised.place if raised is not None and raised.place is not None else None
    if place is None and own:
        place = statement_at(*own[-1][:2])
    by_torch = raised is not None and (raised.operator or raised.function) is not None
    by_torch |= bool(trace) and is_torch(trace[-1][0])
    return Failure(
        kind=_kind(error, cause, by_torch, trace),
        error=type(error).__name__,
        message=_message_of(error),
        module="" if raised is None else raised.module,
        place=place,
        operator=None if raised is None else raised.operator,
        arguments=() if raised is None else raised.arguments,
        frames=tuple(own),
        function=None if raised is None else raised.function,
        identity=None if raised is None else raised.identity,
    )


def _message_of(error: BaseException) -> str:
    """An exception's message, without the C++ stack that torch appends to some; what ``__str__`` raises does not get out."""
    try:
        return str(error).partition("\nException raised from ")[0]
    except Exception:
        return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        yield link
        seen.add(id(link))
        link = link.__cause__ or link.__context__


def _rows(error: BaseException, base: CodeType) -> list[tuple[str, int, str]]:
    rows: list[tuple[str, int, str]] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code is base:
            rows.clear()
        else:
            rows.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return rows


def _kind(error: BaseException, cause: BaseException, by_torch: bool, rows: Sequence[tuple[str, int, str]]) -> str:
    if isinstance(cause, _NO_VALUES) or "GuardOnDataDependent" in type(cause).__name__:
        return "data"
    message = _message_of(error)
    if _NEEDS_VALUES.search(message):
        return "data"
    if isinstance(error, (RuntimeError, ValueError, IndexError, AssertionError)):
        if by_torch and _SHAPES.search(message):
            return "shape"
        if _UNPACKED.search(message) and rows:
            line = linecache.getline(*rows[-1][:2])
            if ".shape" in line or ".size()" in line:
                return "shape"
    return "error"

"""Prefilter for refused uses: whether code may hold one, by the text of its calls, before it is read in full."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from modellint.authoring import called_name, mentioned_in, of_kind
from modellint_rules.operators.refusal_conditions import ABSENT, Literal, Refusal
from modellint_rules.operators.refusal_table import REFUSALS


def may_be_refused(nodes: Sequence[ast.stmt], bound: Mapping[str, Sequence[object]]) -> bool:
    """Whether a call spells out what is refused, or a function is named that is refused without."""
    known, anyhow = _by_name(), _anyhow()
    for node in nodes:
        if not anyhow.isdisjoint(mentioned_in(node)):
            return True
        for call in of_kind(node, ast.Call):
            if any(word.arg is None for word in call.keywords):
                continue
            names = [name for name in _names(bound, called_name(call)) if name in known]
            if not anyhow.isdisjoint(names) or any(_holds(entry, call) for name in names for entry in known[name]):
                return True
            if not names and call.keywords and _is_of_unknown_name(call) and any(map(_is_refused_alone, call.keywords)):
                return True
    return False


def _names(bound: Mapping[str, Sequence[object]], name: str) -> Iterator[str]:
    """A name, and those of what the file imports or binds under it."""
    yield name
    for binding in bound.get(name, ()):
        yield str(getattr(binding, "name", None) or getattr(binding, "attr", ""))


@cache
def _by_name() -> dict[str, list[Refusal]]:
    """The refusals by the last parts of their names."""
    by_name: dict[str, list[Refusal]] = {}
    for entry in REFUSALS:
        for name in {name.rpartition(".")[2] for name in entry.names}:
            by_name.setdefault(name, []).append(entry)
    return by_name


@cache
def _anyhow() -> frozenset[str]:
    """The names of what is refused without any argument."""
    return frozenset(
        name
        for name, refusals in _by_name().items()
        if any(all(literal.default is not ABSENT for literal in entry.literals) for entry in refusals)
    )


@cache
def _by_keyword() -> dict[str, list[Literal]]:
    by_keyword: dict[str, list[Literal]] = {}
    for entry in REFUSALS:
        for literal in entry.literals:
            if literal.form == "literal":
                by_keyword.setdefault(literal.keyword, []).append(literal)
    return by_keyword


def _is_of_unknown_name(call: ast.Call) -> bool:
    """Whether what is called may be a function or layer of torch by another name."""
    return isinstance(call.func, ast.Name) or getattr(getattr(call.func, "value", None), "id", "") == "self"


def _is_refused_alone(word: ast.keyword) -> bool:
    """Whether a keyword says what some use is refused for."""
    return any(_may_be(word.value, literal) for literal in _by_keyword().get(word.arg or "", ()))


def _holds(entry: Refusal, call: ast.Call) -> bool:
    if len(call.args) > 1 and called_name(call) == "view":
        # Sizes; a type stands alone.
        return False
    # A tensor's method has its tensor before the dot.
    shifts = {int(name.startswith("torch.Tensor.")) for name in entry.names}
    if isinstance(call.func, ast.Name):
        shifts.discard(1)
    return bool(shifts) and all(
        any(_may_be(value, literal) for shift in shifts for value in _given(call, literal, shift))
        or (literal.default is not ABSENT and literal.is_refused(literal.default))
        for literal in entry.literals
    )


def _given(call: ast.Call, literal: Literal, shift: int) -> Iterator[ast.expr]:
    yield from call.args[literal.at - shift : literal.at - shift + 1]
    yield from (word.value for word in call.keywords if word.arg == literal.keyword)


def _may_be(value: ast.expr, literal: Literal) -> bool:
    """Whether an argument may be one that is refused."""
    if literal.form == "literal":
        try:
            return literal.is_refused(ast.literal_eval(value))
        except (ValueError, TypeError):
            return False
    match value:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if literal.form == "name" and owner != "self":
            return literal.is_refused(f"torch.{name}")
        case ast.Name(id=name) if literal.form == "name":
            return not name.endswith(("shape", "size"))
        case ast.Attribute(value=ast.Name(id="self")):
            return True
    return literal.form == "tensor" and not isinstance(value, ast.Constant)

"""Which methods of a class are run when it is read: what the others do binds nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.project import external_name_facts
from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, given_to, is_property, of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import ClassRef, IndexedFile

_KEEPING_TO_THEMSELVES = frozenset(
    {"getattr", "setattr", "hasattr", "delattr", "isinstance", "issubclass", "super", "type", "id", "callable", "repr"}
    | {"str"}
)
"""Functions that are given the object and call no method of it by themselves."""


class Entered(NamedTuple):
    """The methods that may run."""

    own: list[Function]
    """Those that stand in the class's file."""
    named_abroad: frozenset[str]
    """Names that those mention which stand in other files."""


class _Mentions(NamedTuple):
    """Names of what a method may run."""

    every: frozenset[str]
    given: frozenset[str]
    """Those that are not only called, with nothing but constants."""
    anything: bool
    """Whether it may run what it does not name, too."""


def changes_attributes(function: Function) -> bool:
    """Whether a method may bind an attribute of ``self``, or put something into one."""
    self_name = _self_name(function)
    if not self_name:
        return False
    for node in of_kind(function, ast.Attribute):
        changes = not isinstance(node.ctx, ast.Load) or node.attr in external_name_facts.CHANGERS
        if changes and _roots_at(node.value, self_name):
            return True
    for item in of_kind(function, ast.Subscript):
        if isinstance(item.ctx, ast.Store) and _roots_at(item.value, self_name):
            return True
    return any(name.id == "setattr" for name in of_kind(function, ast.Name))


def _self_name(function: Function) -> str:
    parameters = [*function.args.posonlyargs, *function.args.args]
    return parameters[0].arg if parameters else ""


def _roots_at(node: ast.expr, name: str) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "super"
    return isinstance(node, ast.Name) and node.id == name


def entered(lineage: Sequence[ClassRef], file: IndexedFile) -> Entered:
    """The methods that may run when a class of a file is read; ``lineage`` holds its bases, too."""
    run: list[Function] = []
    named: set[str] = set()
    given: set[str] = set()
    named_abroad: set[str] = set()
    pending: list[tuple[Function, IndexedFile]] = []
    for one in lineage:
        pending += ((function, one.file) for function in _methods(one.node).get("__init__", ()))
        if one.file is file:
            # `build = _build`
            named |= _named_in_body(one.node)
            given |= named
            changing = (function for function in functions_in([one.node]) if changes_attributes(function))
            pending += ((function, file) for function in changing if function.name != "__init__")
    seen = {function for function, _ in pending}
    new_named, new_given = {*named}, {*given}
    while pending:
        for function, place in pending:
            mentions = _mentions(function, place)
            if mentions.anything:
                here = functions_in([one.node for one in lineage if one.file is file])
                return Entered(here, frozenset(function.name for function in here))
            new_named |= mentions.every - named
            if place is file:
                run.append(function)
                new_given |= mentions.every - given
            else:
                named_abroad |= mentions.every
                new_given |= mentions.given - given
        named |= new_named
        given |= new_given
        pending = []
        for one in lineage:
            methods = _methods(one.node)
            # A method abroad that is called from there is followed only if it is given something.
            for name in methods.keys() & (new_named if one.file is file else new_given):
                pending += ((function, one.file) for function in methods[name] if function not in seen)
        seen.update(function for function, _ in pending)
        new_named, new_given = set(), set()
    return Entered(run, frozenset(named_abroad))


def _methods(node: ast.ClassDef) -> dict[str, list[Function]]:
    """The methods of a class that run when they are called, by name."""
    kept: dict[str, list[Function]] | None = vars(node).get("_methods")
    if kept is None:
        kept = vars(node)["_methods"] = {}
        for function in functions_in([node]):
            if not is_property(function):
                kept.setdefault(function.name, []).append(function)
    return kept


def _named_in_body(node: ast.ClassDef) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Expr)
    statements = [part for part in node.body if not isinstance(part, kinds)]
    return {one.id for part in statements for one in walk(part) if isinstance(one, ast.Name)}


def _mentions(function: Function, file: IndexedFile) -> _Mentions:
    kept: _Mentions | None = vars(function).get("_mentions")
    if kept is None:
        kept = vars(function)["_mentions"] = _find_mentions(function, file)
    return kept


def _find_mentions(function: Function, file: IndexedFile) -> _Mentions:
    self_name = _self_name(function)
    names = of_kind(function, ast.Name)
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound.update(node.arg for node in of_kind(function, ast.arg))
    calls = of_kind(function, ast.Call)
    given_nothing = {call.func for call in calls if all(isinstance(part, ast.Constant) for part in given_to(call))}
    attributes = of_kind(function, ast.Attribute)
    # `torch.cuda`
    elsewhere = {
        node
        for node in attributes
        if isinstance(node.value, ast.Name) and node.value.id not in bound and _is_imported(node.value.id, file)
    }
    every = {node.attr for node in attributes if node not in elsewhere}
    given = {node.attr for node in attributes if node not in elsewhere and node not in given_nothing}
    anything = False
    for call in calls:
        if called_name(call) == "getattr" and call.args and _is_named(call.args[0], self_name):
            match call.args:
                case [_, ast.Constant(value=str() as name), *_]:
                    every.add(name)
                    given.add(name)
                case _:
                    anything = True
    if not anything:
        alone = {node for node in names if node.id == self_name}
        alone.difference_update(node.value for node in attributes)
        anything = bool(alone) and not alone.issubset(_kept_to_themselves(function))
    return _Mentions(frozenset(every), frozenset(given), anything)


def _kept_to_themselves(function: Function) -> Iterator[ast.expr]:
    """Expressions that are handed to nobody who may call their methods."""
    for call in of_kind(function, ast.Call):
        # `Base.__init__(self)` is looked at anyway.
        plain = isinstance(call.func, ast.Name) and call.func.id in _KEEPING_TO_THEMSELVES
        if plain or called_name(call) == "__init__":
            yield from call.args
    for comparison in of_kind(function, ast.Compare):
        yield comparison.left
        yield from comparison.comparators
    for item in of_kind(function, ast.Subscript):
        yield item.slice


def _is_imported(name: str, file: IndexedFile) -> bool:
    bindings = file.names.get(name)
    return bindings is not None and all(isinstance(binding, Imported) for binding in bindings)


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name

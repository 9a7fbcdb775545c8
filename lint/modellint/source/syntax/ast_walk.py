"""Going through the nodes of a syntax tree, once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar, cast

_Node = TypeVar("_Node", bound=ast.AST)
_Made = TypeVar("_Made")
_LEAVES = (ast.Name, ast.Constant, ast.alias, ast.Global, ast.Nonlocal, ast.MatchSingleton)
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = dict.fromkeys(_LEAVES, ())
_NO_NODES = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module", "name"}
    | {"rest", "simple", "type_comment", "type_ignores"}
)
"""Fields that hold strings, numbers or a context."""
_WITH_GAPS = ("keys", "kw_defaults")
"""Lists that hold ``None``, too."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ByKind = dict[type[ast.AST], list[ast.AST]]


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below it but for ``Load``, ``Store`` and ``Del``: in the order of ``ast.walk``, statement by statement in a class.

    What is below functions and classes is looked for once, as every rule goes through them.
    """
    if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
        return _below(node)
    kept: list[ast.AST] | None = vars(node).get("_walked")
    if kept is None:
        # Without the node itself: a cycle would outlive its file, as nothing collects them.
        kept = vars(node)["_walked"] = (
            _below(node)[1:] if isinstance(node, _FUNCTIONS) else [one for part in _parts(node) for one in walk(part)]
        )
    return [node, *kept]


def of_kind(node: ast.AST, kind: type[_Node]) -> list[_Node]:
    """The nodes of one class below a function or class, in the order of ``walk``."""
    found: _ByKind = node.__dict__.get("_by_kind") or _by_kind(node)
    return cast("list[_Node]", found.get(kind, []))


def _by_kind(node: ast.AST) -> _ByKind:
    found: _ByKind = vars(node).setdefault("_by_kind", {})
    if not found and isinstance(node, (ast.ClassDef, ast.Module)):
        for part in _parts(node):
            if not isinstance(part, (*_FUNCTIONS, ast.ClassDef)):
                _sort_in(_below(part), found)
                continue
            _sort_in([part], found)
            for kind, several in _by_kind(part).items():
                if kind in found:
                    found[kind] += several
                else:
                    found[kind] = [*several]
    elif not found:
        _sort_in(walk(node)[1:], found)
    return found


def _sort_in(nodes: list[ast.AST], found: _ByKind) -> None:
    for node in nodes:
        if node.__class__ in found:
            found[node.__class__].append(node)
        else:
            found[node.__class__] = [node]


def once(node: _Node, name: str, make: Callable[[_Node], _Made]) -> _Made:
    """What ``make`` says of a node, worked out when it is first asked for under a name and kept with the node.

    It may name what stands in the node, and not the node: a cycle would outlive its file, as nothing collects them.
    """
    kept = vars(node)
    if name not in kept:
        kept[name] = make(node)
    made: _Made = kept[name]
    return made


def holds(place: ast.AST, node: ast.AST) -> bool:
    """Whether a node is a function or class, or stands in it."""
    return node is place or node in once(place, "_held", lambda place: frozenset(walk(place)[1:]))


def parents_in(function: ast.AST) -> dict[ast.AST, ast.AST]:
    """What every node in a function stands in; nothing for what stands in the function itself."""
    found: dict[ast.AST, ast.AST] | None = vars(function).get("_parents")
    if found is None:
        found = vars(function)["_parents"] = {
            child: parent for parent in walk(function)[1:] for child in children(parent)
        }
    return found


def always_run(function: Function, *, to_yield: bool = False) -> list[ast.stmt]:
    """The statements of a function's own block, up to and with the first that may leave it, or with ``to_yield`` suspend it."""
    if to_yield:
        return once(
            function, "_run_to_yield", lambda node: _up_to(node, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
        )
    return once(function, "_always_run", lambda node: _up_to(node, ast.Return, ast.Raise))


def _up_to(function: Function, *kinds: type[ast.stmt | ast.expr]) -> list[ast.stmt]:
    """The statements up to and with the first that holds a node of some kind."""
    first = min(((part.lineno, part.col_offset) for kind in kinds for part in of_kind(function, kind)), default=None)
    for number, statement in enumerate(function.body, 1):
        if first is not None and first < (statement.end_lineno or 0, statement.end_col_offset or 0):
            return function.body[:number]
    return [*function.body]


def statement_around(node: ast.AST, function: ast.AST | None) -> ast.stmt | None:
    """The statement of a function that a node stands in."""
    parents = parents_in(function) if function is not None else {}
    found: ast.AST | None = node
    while found is not None and not isinstance(found, ast.stmt):
        found = parents.get(found)
    return found


def conditions_around(node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
    """The conditions around a node in a function, innermost first."""
    parents = parents_in(function) if function is not None else {}
    child: ast.AST = node
    while (parent := parents.get(child)) is not None:
        if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
            yield parent.test
        child = parent


def functions_in(nodes: Sequence[ast.stmt]) -> list[Function]:
    """The functions among nodes, and the methods of the classes among them."""
    found: list[Function] = []
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            found += once(node, "_members", _functions_of)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node)
    return found


def _functions_of(node: ast.ClassDef) -> list[Function]:
    return [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]


def mentioned_in(node: ast.stmt) -> frozenset[str]:
    """The names and attributes that stand in a function or class."""
    found: frozenset[str] | None = vars(node).get("_mentioned")
    if found is None:
        names = {one.id for one in of_kind(node, ast.Name)}
        names.update(one.attr for one in of_kind(node, ast.Attribute))
        found = vars(node)["_mentioned"] = frozenset(names)
    return found


def reached_from(started: Sequence[Function], functions: Sequence[Function]) -> list[Function]:
    """Functions, and those of others that they mention, and so on."""
    found = [*started]
    left = [function for function in functions if function not in found]
    for function in found:
        if not left:
            break
        names = mentioned_in(function)
        found += (other for other in left if other.name in names)
        left = [other for other in left if other.name not in names]
    return found


def parameters_of(function: Function) -> set[str]:
    """The names of a function's parameters but for the object itself."""
    arguments = function.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}


def called_name(call: ast.Call) -> str:
    """The last part of the name of what is called; empty where it has none."""
    name: str = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    return name


def is_property(node: ast.AST) -> bool:
    """Whether a function is the getter or setter of a property."""
    for decorator in getattr(node, "decorator_list", ()):
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if "property" in name or name in ("setter", "getter"):
            return True
    return False


def given_to(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _parts(node: ast.ClassDef | ast.Module) -> list[ast.AST]:
    """What stands immediately below a class or a file: its methods are gone through by themselves, too."""
    if isinstance(node, ast.Module):
        return [*node.body]
    return [*node.decorator_list, *node.bases, *node.keywords, *node.body]


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes immediately below one, as ``ast.iter_child_nodes`` has them, but for ``Load``, ``Store`` and ``Del``."""
    found: list[ast.AST] = []
    for name in _fields_of(node.__class__):
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [item for item in value if item is not None] if name in _WITH_GAPS else value
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _NO_NODES)
    return names


def _below(node: ast.AST) -> list[ast.AST]:
    # The loop of `children`, as a call for each node would cost as much again.
    found = [node]
    fields = _FIELDS
    for one in found:
        kind = one.__class__
        names = fields.get(kind)
        for name in _fields_of(kind) if names is None else names:
            value = getattr(one, name, None)
            if value.__class__ is list:
                found += [item for item in value if item is not None] if name in _WITH_GAPS else value
            elif isinstance(value, ast.AST):
                found.append(value)
    return found

"""Signs of writes that others may see: through views, to arguments, to items, to attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.tensors import VIEWS
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, given_to, of_kind, parameters_of

if TYPE_CHECKING:
    pass

_VIEWING = VIEWS | frozenset({"to", "type", "cuda", "cpu", "float", "select", "split_with_sizes", "hsplit", "vsplit"})
_LOOSE = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter"})
_QUIET = frozenset({"requires_grad_", "share_memory_", "retain_grad_", "detach_", "_"})
_GENERIC = frozenset({"tuple", "dict", "list", "Tuple", "Dict", "List", "Callable", "Union", "Literal"})
"""Names behind which brackets hold types."""
_Edge = tuple[int, frozenset[str], frozenset[str], bool]
"""A row, names that are bound there, names whose memory they may share, and whether as views of it."""


def shares(nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether what is written to may be held in two ways, one of which does not see it; or stands behind an ellipsis."""
    functions = functions_in(run)
    changing = _changing(functions)
    if not changing:
        return False
    names = {function.name for function in functions}
    passing = _passing(nodes)
    for function in functions:
        writes = list(_writes(function, changing))
        if not writes:
            continue
        for _, target in writes:
            if isinstance(target, ast.Subscript) and any(map(_is_ellipsis, _indices(target))):
                return True
            # Of `x[0] = v` it is `x` that is written to.
            stored = isinstance(target, ast.Subscript) and not isinstance(target.ctx, ast.Load)
            if _is_view(target.value if stored and isinstance(target, ast.Subscript) else target):
                return True
        groups = _groups(_edges(function, names, passing))
        for _, target in writes:
            for root in _roots(target, names, passing):
                group = groups.get(root)
                # `x = x[1:]; x[0] = v` needs no second name.
                if group is not None and group.viewed and (group.size > 1 or isinstance(target, ast.Subscript)):
                    return True
    return False


def changes_input(nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether ``forward`` may write to one of its arguments, itself or by what it hands them to."""
    functions = functions_in(run)
    changing = _changing(functions)
    if not changing:
        return False
    names = {function.name for function in functions}
    passing = _passing(nodes)
    for function in functions:
        if function.name != "forward":
            continue
        writes = list(_writes(function, changing))
        if not writes:
            continue
        hold = _Holding(function, names, passing, writes)
        if any(map(hold.is_written, parameters_of(function))):
            return True
    return False


class _Holding:
    """Which variables of a function may hold memory of one of its parameters, and whether they are written to."""

    def __init__(
        self, function: Function, names: set[str], passing: frozenset[str], writes: Sequence[tuple[int, ast.expr]]
    ) -> None:
        self.edges: dict[str, list[tuple[int, frozenset[str]]]] = {}
        """What is bound to each variable, and where."""
        back: dict[str, set[str]] = {}
        for row, bound, sources, _ in _edges(function, names, passing):
            for source in sources:
                self.edges.setdefault(source, []).append((row, bound))
                for name in bound:
                    back.setdefault(name, set()).add(source)
        self.written: dict[str, int] = {}
        """The variables that are written to, and the first row."""
        for row, target in writes:
            for root in _roots(target, names, passing):
                self.written[root] = min(row, self.written.get(root, row))
        self.leading = _reached(self.written, back)
        """The variables that may be held by what is written to."""
        self.rebound = _rebound(function, names, passing)

    def is_written(self, name: str) -> bool:
        """Whether a parameter is written to, itself or under another name."""
        last = self.rebound.get(name, 1 << 30)
        if self.written.get(name, last + 1) <= last:
            return True
        held = {one for row, bound in self.edges.get(name, ()) if row <= last for one in bound} - {name}
        if held.isdisjoint(self.leading):
            return False
        pending = [*held]
        while pending:
            one = pending.pop()
            if one in self.written:
                return True
            more = {other for _, bound in self.edges.get(one, ()) for other in bound} - held - {name}
            held |= more
            pending += more
        return False


def _reached(started: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    found = set(started)
    pending = [*found]
    while pending:
        more = set(edges.get(pending.pop(), ())) - found
        found |= more
        pending += more
    return found


def indexes(run: Sequence[ast.stmt]) -> bool:
    """Whether an item is assigned to, by more than constants and slices."""
    for function in functions_in(run):
        counted = {name for loop in of_kind(function, ast.For) if _is_range(loop.iter) for name in _stored(loop.target)}
        for target in _items(function):
            for index in _indices(target):
                if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)) and not _is_inverted(index):
                    continue
                if not (isinstance(index, ast.Name) and index.id in counted):
                    return True
    return False


def mixes(run: Sequence[ast.stmt]) -> bool:
    """Whether something is indexed by two values at once that are neither constants nor slices."""
    for function in functions_in(run):
        for node in of_kind(function, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and isinstance(node.ctx, ast.Load) else []
            if getattr(node.value, "id", "") in _GENERIC:
                continue
            if sum(not isinstance(part, (ast.Slice, ast.Constant)) for part in parts) > 1:
                return True
    return False


def assigns_items(run: Sequence[ast.stmt]) -> bool:
    """Whether an item is assigned to."""
    return any(True for function in functions_in(run) for _ in _items(function))


def assigns_attributes(run: Sequence[ast.stmt]) -> bool:
    """Whether an attribute of the object is set."""
    for function in functions_in(run):
        for node in of_kind(function, ast.Attribute):
            if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name) and node.value.id == "self":
                return True
        if any(called_name(call) in ("setattr", "__setattr__") for call in of_kind(function, ast.Call)):
            return True
    return False


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called_name(node) == "range"


def _is_inverted(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant)


def _items(function: Function) -> Iterator[ast.Subscript]:
    for node in of_kind(function, ast.Subscript):
        if isinstance(node.ctx, ast.Store):
            yield node


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _passing(nodes: Sequence[ast.stmt]) -> frozenset[str]:
    """Attributes of the object that may be modules which give back what they are given."""
    found: set[str] = set()
    for node in nodes:
        if not any(map(_is_identity, of_kind(node, ast.Call))):
            continue
        for assignment in of_kind(node, ast.Assign):
            names = [target.attr for target in assignment.targets if isinstance(target, ast.Attribute)]
            if names and any(_is_identity(call) for call in _calls_in(assignment.value)):
                found.update(names)
    return frozenset(found)


def _calls_in(node: ast.expr) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def _is_identity(call: ast.Call) -> bool:
    name = called_name(call)
    return name == "Identity" or (name == "Sequential" and not call.args)


def _writes(function: Function, changing: Mapping[str, Sequence[Function]]) -> Iterator[tuple[int, ast.expr]]:
    """What a function changes in place, itself or by a function that it hands it to."""
    for augmented in of_kind(function, ast.AugAssign):
        yield augmented.lineno, augmented.target
    for item in _items(function):
        yield item.lineno, item
    for call in of_kind(function, ast.Call):
        name = called_name(call)
        if (
            isinstance(call.func, ast.Attribute)
            and name.endswith("_")
            and not name.endswith("__")
            and name not in _QUIET
        ):
            yield call.lineno, call.func.value
        if any(one is not function for one in changing.get(name, ())):
            for given in given_to(call):
                yield call.lineno, given


def _changing(functions: Sequence[Function]) -> dict[str, list[Function]]:
    """Those that change something in place, themselves or by others of them that they call, by their names."""
    found = list(filter(_changes_something, functions))
    named: dict[str, list[Function]] = {}
    if not found:
        return named
    callers: dict[str, list[Function]] = {}
    for function in functions:
        for name in {called_name(call) for call in of_kind(function, ast.Call)}:
            callers.setdefault(name, []).append(function)
    seen = set(found)
    for function in found:
        if function.name not in named:
            for caller in callers.get(function.name, ()):
                if caller not in seen:
                    seen.add(caller)
                    found.append(caller)
        named.setdefault(function.name, []).append(function)
    return named


def _changes_something(function: Function) -> bool:
    return (
        bool(of_kind(function, ast.AugAssign))
        or any(True for _ in _items(function))
        or any(called_name(call).endswith("_") for call in of_kind(function, ast.Call))
    )


def _edges(function: Function, names: set[str], passing: frozenset[str]) -> Iterator[_Edge]:
    for assignment in of_kind(function, ast.Assign):
        sources = _roots(assignment.value, names, passing)
        if sources:
            bound = frozenset(name for target in assignment.targets for name in _stored(target))
            yield assignment.lineno, bound, sources, _is_view(assignment.value)
    turns = [(loop.target, loop.iter) for loop in of_kind(function, ast.For)]
    turns += ((one.target, one.iter) for one in of_kind(function, ast.comprehension))
    for target, iterable in turns:
        sources = _roots(iterable, names, passing)
        if sources:
            yield target.lineno, frozenset(_stored(target)), sources, True
    for walrus in of_kind(function, ast.NamedExpr):
        yield (
            walrus.lineno,
            frozenset(_stored(walrus.target)),
            _roots(walrus.value, names, passing),
            _is_view(walrus.value),
        )


def _stored(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _stored(element)
        case ast.Starred(value=inner):
            yield from _stored(inner)


def _roots(node: ast.expr, names: set[str], passing: frozenset[str]) -> frozenset[str]:
    """The variables whose memory an expression may share."""
    found: set[str] = set()
    pending: list[ast.expr] = [node]
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.Attribute(value=inner):
                pending.append(inner)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
                pending += parts
            case ast.IfExp(body=body, orelse=other):
                pending += (body, other)
            case ast.NamedExpr(value=inner):
                pending.append(inner)
            case ast.Call() as call:
                name = called_name(call)
                if isinstance(call.func, ast.Attribute):
                    if name in _VIEWING or name.endswith("_"):
                        pending.append(call.func.value)
                    if name in passing or name in names or name in _VIEWING:
                        pending += given_to(call)
                elif name in names or name in _LOOSE:
                    pending += given_to(call)
            case _:
                pass
    found.discard("self")
    return frozenset(found)


def _is_view(node: ast.expr) -> bool:
    """Whether an expression may give a view."""
    match node:
        case ast.Name():
            return False
        case ast.Subscript():
            return True
        case ast.Attribute(value=inner, attr=name):
            return name in _VIEWING or _is_view(inner)
        case ast.IfExp(body=body, orelse=other):
            return _is_view(body) or _is_view(other)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
            return any(map(_is_view, parts))
        case ast.Call():
            return True
    return False


class _Group:
    """Names that may share memory: how many, and whether one is a view of another."""

    __slots__ = ("above", "size", "viewed")

    def __init__(self) -> None:
        self.above: _Group | None = None
        self.size = 1
        self.viewed = False

    @property
    def whole(self) -> _Group:
        """The group that it was joined into in the end."""
        found = self
        while found.above is not None:
            if found.above.above is not None:
                found.above = found.above.above
            found = found.above
        return found


def _groups(edges: Iterable[_Edge]) -> dict[str, _Group]:
    """The group of each name."""
    groups: dict[str, _Group] = {}
    for _, bound, sources, is_view in edges:
        joined: _Group | None = None
        for name in bound | sources:
            group = groups.setdefault(name, _Group()).whole
            if joined is None:
                joined = group
            elif group is not joined:
                small, large = sorted((group, joined), key=lambda one: one.size)
                small.above = joined = large
                large.size += small.size
                large.viewed |= small.viewed
        if joined is not None:
            joined.viewed |= is_view
    return {name: group.whole for name, group in groups.items()}


def _rebound(function: Function, names: set[str], passing: frozenset[str]) -> dict[str, int]:
    """The rows from which on names certainly stand for something else than the parameters that were called so."""
    found: dict[str, int] = {}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in found:
                if name not in _roots(value, names, passing):
                    found[name] = statement.end_lineno or statement.lineno
            case _:
                pass
    return found

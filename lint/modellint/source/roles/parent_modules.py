"""Holders: the module classes of a project that build an object of a class for an attribute of theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, dotted_name
from modellint.source.roles.training_parts import methods_run_by
from modellint.source.syntax.ast_walk import functions_in, of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_Maker: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""Files that are looked at for who builds an object."""
_MOST_HOLDERS = 16
_DEEPEST = 2
"""Functions that build an object for each other, and classes that derive from each other."""


class Holder(NamedTuple):
    """A class that may hold an object of another, told by its place: a syntax tree that it held on to would stay in memory."""

    path: str
    line: int
    column: int
    attribute: str | None
    """What it keeps the object in, where one statement both builds and keeps it."""

    def owner(self, project: Project) -> ClassRef | None:
        """The class; None where its file cannot be read any more."""
        file = project.file(self.path)
        if file is None:
            return None
        place = self.line, self.column
        classes = (node for node in of_kind(file.tree, ast.ClassDef) if (node.lineno, node.col_offset) == place)
        return next((ClassRef(file, node) for node in classes), None)


def holders_of(project: Project, ref: ClassRef) -> list[Holder]:
    """The module classes of which a method builds an object of a class, or of one that derives from it, or has a function build one."""
    return project.remembered(("holders", *ref.key), lambda: [*_find(project, ref)][:_MOST_HOLDERS])


def runs_in_evaluation(project: Project, ref: ClassRef) -> bool:
    """Whether the `forward` of another module is seen to call an object of a class that it holds, not in training only."""
    return any(
        owner is not None and holder.attribute in _called_by_forward(project, owner)
        for holder in holders_of(project, ref)
        if holder.attribute is not None
        for owner in (holder.owner(project),)
    )


def _called_by_forward(project: Project, ref: ClassRef) -> set[str]:
    """What the `forward` of a class, and the methods that it runs, call on `self` in evaluation."""
    functions = {
        function.name: function for owner in reversed(project.lineage(ref)) for function in functions_in([owner.node])
    }
    return methods_run_by("forward", functions, inside=False)


def is_called_where_it_is_built(project: Project, ref: ClassRef, attribute: str) -> bool:
    """Whether all that a project does with the objects of a class is to call them in the function that builds them.

    So nobody moves, saves or holds one, and its constructor takes an attribute to the device that each of these functions gives.
    """
    key = ("called where built", *ref.key, attribute)
    return project.remembered(key, lambda: _is_called_where_built(project, ref, attribute))


def _is_called_where_built(project: Project, ref: ClassRef, attribute: str) -> bool:
    project.touch_tree()
    init = next((part for part in functions_in([ref.node]) if part.name == "__init__"), None)
    devices = _devices_of(init, attribute) if init is not None else set()
    paths = project.mentions.naming(ref.node.name)
    if (
        not devices
        or not project.mentions.is_whole
        or len(paths) > _MOST_FILES
        or ref.within
        or ref.node.decorator_list
    ):
        return False
    if init is None or project.mentions.is_in_configuration(ref.node.name):
        return False
    placed = [argument.arg for argument in (*init.args.posonlyargs, *init.args.args)][1:]
    is_built = False
    for path in paths:
        place = None if path.endswith(".ipynb") else project.file(path)
        if place is None or any(
            alias.name == ref.node.name and alias.asname is not None for alias in of_kind(place.tree, ast.alias)
        ):
            return False
        for mention in mentions_in(place, ref.node.name):
            if any(part.lineno == ref.node.lineno and isinstance(part, ast.ClassDef) for part in mention.around):
                continue
            if not _is_called_in_its_function(mention, devices, placed):
                return False
            is_built = True
    return is_built


def _devices_of(init: ast.AST, attribute: str) -> set[str]:
    """The arguments of a constructor that say where an attribute lies: ``self.table = self.table.to(device)``."""
    devices: set[str] = set()
    for statement in of_kind(init, ast.Assign):
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]) if name == attribute:
                for call in (part for part in walk(statement.value) if isinstance(part, ast.Call)):
                    is_move = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
                    given = [
                        *(call.args[:1] if is_move else ()),
                        *(w.value for w in call.keywords if w.arg == "device"),
                    ]
                    devices.update(part.id for part in given if isinstance(part, ast.Name))
    return devices - {part.id for part in of_kind(init, ast.Name) if isinstance(part.ctx, ast.Store)}


def _is_called_in_its_function(mention: Mention, devices: set[str], placed: list[str]) -> bool:
    """Whether a mention builds an object for a variable of a function that does nothing but call it, and gives it a device."""
    function = mention.function
    match mention.statement:
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=called) as call) if called is mention.node:
            given = {*placed[: len(call.args)], *(word.arg for word in call.keywords)}
        case _:
            return False
    if function is None or devices.isdisjoint(given) or any(isinstance(part, ast.Starred) for part in call.args):
        return False
    elsewhere: list[ast.Global | ast.Nonlocal] = [*of_kind(function, ast.Global), *of_kind(function, ast.Nonlocal)]
    if any(variable in part.names for part in elsewhere):
        return False
    called_names = {part.func for part in of_kind(function, ast.Call)}
    uses = [part for part in of_kind(function, ast.Name) if part.id == variable and isinstance(part.ctx, ast.Load)]
    return all(part in called_names for part in uses)


def _find(project: Project, ref: ClassRef) -> Iterator[Holder]:
    pending: list[tuple[_Maker, IndexedFile, int]] = [(ref.node, ref.file, 0)]
    seen: set[ast.AST] = {ref.node}
    holders: set[Holder] = set()
    for node, file, depth in pending:
        for mention, place in _mentions_of(project, node, file):
            cls, function = mention.cls, mention.function
            maker: _Maker | None = None
            if isinstance(mention.statement, ast.ClassDef) and mention.node in mention.statement.bases:
                maker = mention.statement
            elif cls is not None and mention.around[0] is cls:
                owner = ClassRef(place, cls)
                holder = Holder(*owner.key, _attribute(mention))
                if holder not in holders and project.is_module(owner):
                    holders.add(holder)
                    yield holder
            elif cls is None and function is not None and function in place.tree.body:
                maker = function
            if maker is not None and maker not in seen and depth < _DEEPEST:
                seen.add(maker)
                pending.append((maker, place, depth + 1))


def _attribute(mention: Mention) -> str | None:
    """The attribute of `self` that is bound to what is built: ``self.head = Head()``."""
    match mention.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call(func=called)):
            return name if called is mention.node else None
    return None


def _mentions_in(place: IndexedFile, name: str) -> Iterator[Mention]:
    """Where a file names something, by another name too that an import gives it there: ``from .parts import Net as Backbone``."""
    yield from mentions_in(place, name)
    imports = of_kind(place.tree, ast.alias) if f"{name} as " in place.source.text else []
    for other in dict.fromkeys(
        part.asname for part in imports if part.name == name and part.asname not in (None, name)
    ):
        yield from mentions_in(place, other)


def _mentions_of(project: Project, node: _Maker, file: IndexedFile) -> Iterator[tuple[Mention, IndexedFile]]:
    """Where the project names a class or function, but for tests and what shows how it works."""
    project.touch_tree()
    for path in dict.fromkeys([file.path, *project.mentions.naming(node.name)[:_MOST_FILES]]):
        place = file if path == file.path else None if path.endswith(".ipynb") else project.file(path)
        for mention in _mentions_in(place, node.name) if place is not None else ():
            if node in mention.around or mention.is_in_test or mention.is_demonstration:
                continue
            dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
            symbol = project.resolve(place, dotted) if place is not None and dotted is not None else None
            is_other = isinstance(symbol, (ClassRef, FunctionRef)) and symbol.node.lineno != node.lineno
            if place is not None and not is_other:
                yield mention, place

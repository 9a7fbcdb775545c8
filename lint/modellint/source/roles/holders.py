"""Holders: the module classes of a project that build an object of a class for an attribute of theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, dotted_name
from modellint.source.roles.training_parts import methods_run_by
from modellint.source.syntax.ast_walk import functions_in, of_kind

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


def _mentions_of(project: Project, node: _Maker, file: IndexedFile) -> Iterator[tuple[Mention, IndexedFile]]:
    """Where the project names a class or function, but for tests and what shows how it works."""
    project.touch_tree()
    for path in dict.fromkeys([file.path, *project.mentions.naming(node.name)[:_MOST_FILES]]):
        place = file if path == file.path else None if path.endswith(".ipynb") else project.file(path)
        for mention in mentions_in(place, node.name) if place is not None else ():
            if node in mention.around or mention.is_in_test or mention.is_demonstration:
                continue
            dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
            symbol = project.resolve(place, dotted) if place is not None and dotted is not None else None
            is_other = isinstance(symbol, (ClassRef, FunctionRef)) and symbol.node.lineno != node.lineno
            if place is not None and not is_other:
                yield mention, place

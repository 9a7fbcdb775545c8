"""What a name may mean in a file of the project, and the files as they are indexed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.syntax.source_text import SourceText

if TYPE_CHECKING:
    from modellint.source.project.container_attribute_uses import ClassUses
    from modellint.source.syntax.function_bindings import FunctionBindings


class External:
    """A name outside the project, by its full dotted path: ``torch.nn.Linear``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class FileRef:
    """A file of the project as a namespace."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class ClassRef:
    """A class defined in a file of the project. ``within``: the functions and classes around it, outermost first."""

    __slots__ = ("file", "node", "within")

    def __init__(self, file: IndexedFile, node: ast.ClassDef, within: tuple[ast.AST, ...] = ()) -> None:
        self.file = file
        self.node = node
        self.within = within

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells the class from every other, across re-reading of its file."""
        return self.file.path, self.node.lineno, self.node.col_offset


class FunctionRef:
    """A function defined at the top of a file of the project."""

    __slots__ = ("file", "node")

    def __init__(self, file: IndexedFile, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.file = file
        self.node = node


class ValueRef:
    """A name that is assigned at the top of a file of the project."""

    __slots__ = ("file", "node")

    def __init__(self, file: IndexedFile, node: ast.expr) -> None:
        self.file = file
        self.node = node


Symbol: TypeAlias = External | FileRef | ClassRef | FunctionRef | ValueRef


class Imported(NamedTuple):
    """``import module`` (``name`` is None) or ``from module import name``; ``level`` counts the leading dots."""

    module: str
    name: str | None
    level: int


Binding: TypeAlias = Imported | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr


class IndexedFile:
    """A parsed file and the names bound at its top, each with everything that is ever bound to it."""

    __slots__ = (
        "_bound",
        "_calls",
        "_inside",
        "_members",
        "_uses",
        "functions",
        "names",
        "patched",
        "path",
        "source",
        "stars",
        "tree",
    )

    def __init__(self, path: str, source: SourceText, tree: ast.Module) -> None:
        self.path = path
        self.source = source
        self.tree = tree
        self.names: dict[str, list[Binding]] = {}
        self.stars: list[Imported] = []
        self.functions = {
            node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        """The functions that stand in no class, by name."""
        self._inside: dict[ast.AST, dict[str, list[Binding]]] = {}
        self._members: dict[ast.ClassDef, dict[str, ast.stmt]] = {}
        self._calls: dict[ast.AST, frozenset[str] | None] = {}
        self._uses: dict[ast.ClassDef, ClassUses] = {}
        self._bound: dict[ast.AST, FunctionBindings] = {}
        collect_names(tree.body, self.names, self.stars)
        self.patched: frozenset[str] = frozenset()
        """The classes of a notebook that statements outside of them put methods on."""

    def names_inside(self, scope: ast.AST) -> dict[str, list[Binding]]:
        """What the statements of a function or class of this file bind."""
        found = self._inside.get(scope)
        if found is None:
            found = self._inside[scope] = {}
            body = getattr(scope, "body", None)
            if isinstance(body, list):
                collect_names(body, found, [])
        return found

    def bound_in(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> FunctionBindings:
        """What a function of this file binds."""
        found = self._bound.get(function)
        if found is None:
            from modellint.source.syntax.function_bindings import FunctionBindings

            found = self._bound[function] = FunctionBindings(function)
        return found

    def uses(self, cls: ast.ClassDef) -> ClassUses:
        """How the methods of a class of this file use its attributes."""
        found = self._uses.get(cls)
        if found is None:
            from modellint.source.project.container_attribute_uses import ClassUses

            found = self._uses[cls] = ClassUses(cls)
        return found

    def members(self, cls: ast.ClassDef) -> dict[str, ast.stmt]:
        """The statements of a class of this file that define its attributes, by name; the last one counts."""
        found = self._members.get(cls)
        if found is None:
            found = self._members[cls] = {}
            for node in cls.body:
                match node:
                    case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                        found[node.name] = node
                    case ast.Assign(targets=[ast.Name(id=name)]):
                        found[name] = node
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                        found[name] = node
                    case _:
                        pass
        return found

    def calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str] | None:
        """Dotted names of what a function calls; None if it binds attributes, or calls what has no such name."""
        if function not in self._calls:
            self._calls[function] = _calls_of(function)
        return self._calls[function]


def _calls_of(function: ast.AST) -> frozenset[str] | None:
    names: set[str] = set()
    pending: list[ast.AST] = [function]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                return None
        elif isinstance(node, ast.Call):
            dotted = dotted_name(node.func)
            if dotted is None and not isinstance(node.func, ast.Attribute):
                return None
            names.add(dotted if dotted is not None else "?." + getattr(node.func, "attr", ""))
        for field in node._fields:
            value = getattr(node, field, None)
            if value.__class__ is list:
                pending.extend(item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                pending.append(value)
    return frozenset(names)


def collect_names(body: list[ast.stmt], names: dict[str, list[Binding]], stars: list[Imported]) -> None:
    """What a block of statements binds, blocks inside it included, functions and classes not entered."""
    for node in body:
        match node:
            case ast.ImportFrom():
                for alias in node.names:
                    imported = Imported(node.module or "", alias.name, node.level)
                    if alias.name == "*":
                        stars.append(Imported(node.module or "", None, node.level))
                    else:
                        names.setdefault(alias.asname or alias.name, []).append(imported)
            case ast.Import():
                for alias in node.names:
                    if alias.asname:
                        names.setdefault(alias.asname, []).append(Imported(alias.name, None, 0))
                    else:
                        root = alias.name.partition(".")[0]
                        names.setdefault(root, []).append(Imported(root, None, 0))
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.setdefault(node.name, []).append(node)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        names.setdefault(target.id, []).append(value)
                    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        for name, part in zip(target.elts, value.elts, strict=False):
                            if isinstance(name, ast.Name):
                                names.setdefault(name.id, []).append(part)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names.setdefault(name, []).append(value)
            case ast.If() | ast.For() | ast.While():
                collect_names(node.body, names, stars)
                collect_names(node.orelse, names, stars)
            case ast.With():
                collect_names(node.body, names, stars)
            case ast.Try():
                for block in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                    collect_names(block, names, stars)
            case _:
                pass


def dotted_name(node: ast.expr) -> str | None:
    """``a.b.c`` as a string, or None when the expression is not of that form."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))

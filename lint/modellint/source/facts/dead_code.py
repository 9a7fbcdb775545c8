"""Dead code: classes and functions of a project's shared files that nothing in the project names, but for what is dead itself."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.mentions import Mention, blocks, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.syntax.ast_walk import once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

Named: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""What more files than these name is in use."""
_LOOKED_UP = re.compile(r"(?<![.\w])(?:globals|locals|vars|eval|exec)\(|\bsys\.modules\b|\w\.__dict__\[")
"""What finds names by strings."""
_ASKED = re.compile(r"(?<![.\w])getattr\(")
"""What finds names of a file that is bound as a whole."""


class Uses:
    """What of a project is in use: told only of files that the rest of the project imports."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def is_unused(self, file: IndexedFile, node: ast.stmt) -> bool:
        """Whether nothing in use names a class or function at the top of a file, while the project has others to use of it."""
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        known: bool | None = vars(node).get("_unused")
        if known is None:
            vars(node)["_unused"] = False
            known = self._looks_unused(file, node)
            vars(node)["_unused"] = known
        if vars(node).get("_by_tree"):
            self.project.touch_tree()
        return known

    def _looks_unused(self, file: IndexedFile, node: Named) -> bool:
        if (
            node.name.startswith(("test_", "Test"))
            or node.decorator_list
            or node not in file.tree.body
            or file.path.endswith("__init__.py")
        ):
            return False
        if any(self._is_use(mention, file, node) for mention in mentions_in(file, node.name)):
            return False
        if file.names.get("__all__") and node.name in _exported(file):
            return False
        vars(node)["_by_tree"] = True
        self.project.touch_tree()
        mentions = self.project.mentions
        if not mentions.is_whole:
            return False
        paths = [path for path in mentions.naming(node.name) if path != file.path]
        if len(paths) > _MOST_FILES or any(path.endswith(".ipynb") for path in paths):
            return False
        if any(self._names(path, file, node) for path in paths):
            return False
        if not self._is_shared(file, node) or (vars(file.tree).get("_is_namespace") and self._is_variant(file, node)):
            return False
        return not mentions.is_in_configuration(node.name)

    def _names(self, path: str, file: IndexedFile, node: Named) -> bool:
        """Whether a file uses, exports or hands on what stands in another."""
        other = self.project.file(path)
        if other is None:
            return not self.project.mentions.has_its_own(path, node.name)
        if os.path.basename(path) in ("__init__.py", "hubconf.py"):  # noqa: PTH119
            symbol = self.project.resolve(other, node.name)
            if symbol is None or _is_the_same(symbol, file, node):
                return True
        if any(alias.name == node.name and alias.asname not in (None, node.name) for alias in _aliases(other)):
            return True
        return any(
            not self._is_of_another(mention, other, file, node) and self._is_use(mention, other, node)
            for mention in mentions_in(other, node.name)
        )

    def _is_use(self, mention: Mention, file: IndexedFile, node: Named) -> bool:
        if node in mention.around or mention.statement is node:
            return False
        if mention.is_demonstration and isinstance(node, ast.ClassDef) and node in file.tree.body:
            # A file that others import shows how its parts work; a script is run.
            return self.project.is_module(ClassRef(file, node)) is not True or not self._is_imported(file)
        return not (mention.around and self.is_unused(file, mention.around[0]))

    def _is_of_another(self, mention: Mention, place: IndexedFile, file: IndexedFile, node: Named) -> bool:
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        if len(place.names.get(node.name, ())) > 1:
            return False
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        return isinstance(symbol, (ClassRef, FunctionRef)) and not _is_the_same(symbol, file, node)

    def _is_shared(self, file: IndexedFile, node: Named) -> bool:
        """Whether what of a file is not named, nobody uses: it is a program, or others import it, or one that it is a copy of, by names."""
        if self._is_imported(file) or once(file.tree, "_is_program", lambda _: self._looks_run(file)):
            return True
        name = os.path.basename(file.path)  # noqa: PTH119
        copies = [path for path in self.project.mentions.naming(node.name) if os.path.basename(path) == name]  # noqa: PTH119
        others = (self.project.file(path) for path in copies if path != file.path)
        return any(other is not None and node.name in other.names and self._is_imported(other) for other in others)

    def _is_variant(self, file: IndexedFile, node: Named) -> bool:
        """Whether a class shares a base with others of its project, so that it may be taken instead of them."""
        return isinstance(node, ast.ClassDef) and len(self.project.lineage(ClassRef(file, node))) > 1

    def _is_imported(self, file: IndexedFile) -> bool:
        self.project.touch_tree()
        return once(file.tree, "_is_imported", lambda _: self._looks_imported(file))

    def _looks_imported(self, file: IndexedFile) -> bool:
        if _LOOKED_UP.search(file.source.text):
            return False
        stem = os.path.splitext(os.path.basename(file.path))[0]  # noqa: PTH122, PTH119
        is_imported = False
        for path in self.project.mentions.naming(stem):
            if path == file.path or path.endswith(".ipynb"):
                continue
            other = self.project.file(path)
            if other is None:
                return False
            for node in _imports_in(other):
                if self._is_namespace(node, other, file):
                    if _LOOKED_UP.search(other.source.text) or _ASKED.search(other.source.text):
                        return False
                    vars(file.tree)["_is_namespace"] = is_imported = True
                stars = self._stars_of(node, other, file)
                if stars is None:
                    continue
                if (
                    stars
                    and not file.names.get("__all__")
                    and (path.endswith("__init__.py") or _LOOKED_UP.search(other.source.text))
                ):
                    return False
                is_imported = True
        return is_imported

    def _looks_run(self, file: IndexedFile) -> bool:
        """Whether a file is a program, which no other imports."""
        if not _reads_command_line(file):
            return False
        stem = os.path.splitext(os.path.basename(file.path))[0]  # noqa: PTH122, PTH119
        others = [self.project.file(path) for path in self.project.mentions.naming(stem) if path != file.path]
        return all(
            other is not None
            and not any(
                self._is_namespace(node, other, file) or self._stars_of(node, other, file) is not None
                for node in _imports_in(other)
            )
            for other in others
        )

    def _stars_of(self, node: ast.Import | ast.ImportFrom, place: IndexedFile, file: IndexedFile) -> bool | None:
        """Whether an import takes all names of a file; None where it imports another file."""
        if isinstance(node, ast.Import):
            return None
        if self.project.find(node.module or "", node.level, place.path) != file.path:
            return None
        return any(alias.name == "*" for alias in node.names)

    def _is_namespace(self, node: ast.Import | ast.ImportFrom, place: IndexedFile, file: IndexedFile) -> bool:
        """Whether an import binds a file as a whole, to be asked for any name."""
        prefix, level = ("", 0) if isinstance(node, ast.Import) else (f"{node.module or ''}.".lstrip("."), node.level)
        return any(self.project.find(prefix + alias.name, level, place.path) == file.path for alias in node.names)


def _reads_command_line(file: IndexedFile) -> bool:
    """Whether a file reads the command line in none of its functions, and looks nothing up by a string."""
    text = file.source.text
    if ("sys.argv" not in text and ".parse_args(" not in text) or _LOOKED_UP.search(text):
        return False
    pending: list[ast.stmt | ast.Module] = [file.tree]
    for node in pending:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inner = [part for block in blocks(node) for part in block]
        pending += inner
        if not inner and any(
            part.attr in ("argv", "parse_args") for part in ast.walk(node) if isinstance(part, ast.Attribute)
        ):
            return True
    return False


def _imports_in(file: IndexedFile) -> list[ast.Import | ast.ImportFrom]:
    """All imports of a file, those in functions too."""
    return once(file.tree, "_imports", _imports)


def _imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    imports: list[ast.Import | ast.ImportFrom] = []
    pending: list[ast.stmt | ast.Module] = [tree]
    # Statements alone: of the nodes of a file that is a tenth.
    for node in pending:
        for block in blocks(node):
            imports += (part for part in block if isinstance(part, (ast.Import, ast.ImportFrom)))
            pending += block
    return imports


def _aliases(file: IndexedFile) -> Iterator[ast.alias]:
    return (alias for part in _imports_in(file) for alias in part.names)


def _exported(file: IndexedFile) -> set[str]:
    """The names in ``__all__``."""
    return {
        part.value
        for binding in file.names.get("__all__", ())
        if isinstance(binding, ast.expr)
        for part in ast.walk(binding)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def _is_the_same(symbol: object, file: IndexedFile, node: Named) -> bool:
    return isinstance(symbol, (ClassRef, FunctionRef)) and (symbol.file.path, symbol.node.lineno) == (
        file.path,
        node.lineno,
    )

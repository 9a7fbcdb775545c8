"""Unused definitions: classes and functions of shared files that nothing in the project names but what is unused itself."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.mentions import Mention, blocks, import_name, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.dead_code.dynamic_lookup import (
    ASKED,
    builds_by_dotted_names,
    called_of,
    finds_by_strings,
    is_of_onnx,
    is_only_a_word,
)
from modellint.source.roles.eval_callees import LOOKED_UP, asked_calls, evaluated_calls, may_be_called
from modellint.source.roles.files.application_reachability import is_of_application, may_be_asked_for
from modellint.source.roles.files.program_files import PACKAGING, is_script, is_superseded, reads_command_line
from modellint.source.roles.files.unreferenced_files import holds_a_module, is_unreferenced
from modellint.source.syntax.ast_walk import mentioned_in, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

Named: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""What more files than these name is in use."""
_MOST_BESIDE = 60
"""More files in a folder are a collection, of which one is taken as another."""


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
            known = self._looks_unused(file, node) or self.is_left_behind(file, node)
            vars(node)["_unused"] = known
        if vars(node).get("_by_tree"):
            self.project.touch_tree()
        return known

    def is_left_behind(self, file: IndexedFile, node: ast.stmt) -> bool:
        """Whether an application, as which nothing installs it, leads nowhere to the file of a class or function, or does not name it.

        It may say so of a file that programs import: that its package hands it on, or that ``__all__`` lists it, is no use of it.
        """
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or node not in file.tree.body:
            return False
        vars(node)["_by_tree"] = True
        key = "left behind", file.path, node.lineno, node.name
        return self.project.remembered(
            key, lambda: is_unreferenced(self.project, file) or self._is_left_over(file, node)
        )

    def _is_left_over(self, file: IndexedFile, node: Named) -> bool:
        if node.name.startswith(("test_", "Test")) or node.decorator_list:
            return False
        if any(self._is_use(mention, file, node) for mention in mentions_in(file, node.name)):
            return False
        self.project.touch_tree()
        mentions = self.project.mentions
        if not mentions.is_whole or not is_of_application(self.project, file):
            return False
        paths = [path for path in mentions.naming(node.name) if path != file.path]
        if len(paths) > _MOST_FILES or any(path.endswith((".ipynb", "hubconf.py")) for path in paths):
            return False
        if any(self._names(path, file, node, by_packages=False) for path in paths):
            return False
        if may_be_asked_for(self.project, file) or mentions.is_in_configuration(node.name):
            return False
        return not self._is_alternative(file, node)

    def _is_alternative(self, file: IndexedFile, node: Named) -> bool:
        """Whether a model may be built instead of another, which is built elsewhere and not as a part of a class, or imported for that.

        The other stands in its file, or beside it where their package hands on the names of the file.
        """
        offers = once(file.tree, "_offers", lambda _: self._offers(file))
        if node.name not in offers:
            return False
        if self._offers_what_is_taken(file.path):
            return True
        folder = os.path.dirname(file.path)  # noqa: PTH120
        package = self.project.file(os.path.join(folder, "__init__.py"))  # noqa: PTH118
        if package is None or all(self._stars_of(part, package, file) is None for part in _imports_in(package)):
            return False
        names = self.project.mentions.names_in(folder)
        return len(names) > _MOST_BESIDE or any(
            self._offers_what_is_taken(os.path.join(folder, name))  # noqa: PTH118
            for name in names
        )

    def _offers_what_is_taken(self, path: str) -> bool:
        return self.project.remembered(("built by itself", path), lambda: self._look_for_taken(path))

    def _look_for_taken(self, path: str) -> bool:
        self.project.touch_tree()
        file = None if path.endswith(".ipynb") else self.project.file(path)
        if file is None:
            return False
        return any(
            self._is_taken(file, file.names[name][-1], name)
            for name in sorted(once(file.tree, "_offers", lambda _: self._offers(file)))
        )

    def _offers(self, file: IndexedFile) -> frozenset[str]:
        """The modules at the top of a file, and the functions that name them."""
        parts = [part for part in file.tree.body if isinstance(part, (ast.ClassDef, ast.FunctionDef))]
        modules = {
            part.name
            for part in parts
            if isinstance(part, ast.ClassDef) and self.project.is_module(ClassRef(file, part)) is not False
        }
        makers = {part.name for part in parts if isinstance(part, ast.FunctionDef) and modules & mentioned_in(part)}
        return frozenset(modules | makers)

    def _is_taken(self, file: IndexedFile, node: object, name: str) -> bool:
        """Whether a file without modules imports what stands in a file, or any names it, and not in a class."""
        paths = [path for path in self.project.mentions.naming(name) if path != file.path]
        if len(paths) > _MOST_FILES or not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            return True
        for path in paths:
            other = None if path.endswith(".ipynb") else self.project.file(path)
            if other is None:
                return True
            if any(
                mention.cls is None and not self._is_of_another(mention, other, file, node)
                for mention in mentions_in(other, name)
            ):
                return True
            if path.endswith("__init__.py") or not any(alias.name == name for alias in _aliases(other)):
                continue
            symbol = self.project.resolve(other, name)
            is_another = isinstance(symbol, (ClassRef, FunctionRef)) and not _is_the_same(symbol, file, node)
            if not is_another and not holds_a_module(self.project, other):
                return True
        return False

    def may_be_installed(self) -> bool:
        """Whether a project says how it is installed, so that others may use what it does not use itself."""
        places = (os.path.join(self.project.root, name) for name in sorted(PACKAGING))  # noqa: PTH118
        return any(self.project.data(path) is not None for path in places)

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
        if any(may_be_called(node, call) for call in vars(file.tree).get("_evaluated", ())):
            return False
        if isinstance(node, ast.ClassDef) and builds_by_dotted_names(self.project, file.path):
            return False
        return not mentions.is_in_configuration(node.name)

    def _names(self, path: str, file: IndexedFile, node: Named, *, by_packages: bool = True) -> bool:
        """Whether a file uses, exports or hands on what stands in another; that a package does so may not count."""
        other = self.project.file(path)
        if other is None:
            return not self.project.mentions.has_its_own(path, node.name)
        if by_packages and os.path.basename(path) in ("__init__.py", "hubconf.py"):  # noqa: PTH119
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
        if isinstance(mention.node, ast.Constant) and is_of_onnx(self.project, mention, file):
            return False
        if mention.is_demonstration and isinstance(node, ast.ClassDef) and node in file.tree.body:
            # A file that others import shows how its parts work; a script is run.
            return self.project.is_module(ClassRef(file, node)) is not True or not self._is_imported(file)
        return not self.is_in_unused(mention, file)

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
        if once(file.tree, "_is_plugged", lambda _: self._looks_plugged(file)):
            return True
        if isinstance(node, ast.ClassDef):
            if is_superseded(self.project, file, node) and not self._may_be_imported(file):
                return True
        elif once(file.tree, "_is_script", lambda _: self._looks_like_script(file)):
            return True
        name = os.path.basename(file.path)  # noqa: PTH119
        copies = [path for path in self.project.mentions.naming(node.name) if os.path.basename(path) == name]  # noqa: PTH119
        others = (self.project.file(path) for path in copies if path != file.path)
        return any(other is not None and node.name in other.names and self._is_imported(other) for other in others)

    def _is_variant(self, file: IndexedFile, node: Named) -> bool:
        """Whether a class shares a base with others of its project, so that it may be taken instead of them."""
        return isinstance(node, ast.ClassDef) and len(self.project.lineage(ClassRef(file, node))) > 1

    def is_in_unused(self, mention: Mention, file: IndexedFile) -> bool:
        """Whether a mention stands in a class or function that nothing in use names, or is a base of such a class."""
        statement = mention.statement
        if mention.around:
            return self.is_unused(file, mention.around[0])
        return (
            isinstance(statement, ast.ClassDef) and mention.node in statement.bases and self.is_unused(file, statement)
        )

    def is_shown(self, mention: Mention, file: IndexedFile) -> bool:
        """Whether a mention shows how a class works, in a file that others import: `if __name__ == "__main__":`."""
        return mention.is_demonstration and self._is_imported(file)

    def is_only_a_word(self, mention: Mention, file: IndexedFile) -> bool:
        """Whether a mention is a string by which a table keeps something else, or ONNX, in a file that finds nothing by strings."""
        return is_only_a_word(self.project, mention, file)

    def _is_imported(self, file: IndexedFile) -> bool:
        self.project.touch_tree()
        return once(file.tree, "_is_imported", lambda _: self._looks_imported(file))

    def _looks_imported(self, file: IndexedFile) -> bool:
        if LOOKED_UP.search(file.source.text):
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
                    if LOOKED_UP.search(other.source.text) or ASKED.search(other.source.text):
                        return False
                    vars(file.tree)["_is_namespace"] = is_imported = True
                stars = self._stars_of(node, other, file)
                if stars is None:
                    continue
                if stars and not file.names.get("__all__"):
                    calls = None if path.endswith("__init__.py") else self._calls_of_all_names(other)
                    if calls is None:
                        return False
                    vars(file.tree).setdefault("_evaluated", []).extend(calls)
                is_imported = True
        return is_imported

    def _calls_of_all_names(self, file: IndexedFile) -> list[ast.Call] | None:
        """The calls of what a file that took all names of another is asked for by a string, itself or through others; or None."""
        if "_calls_of_all" not in vars(file.tree):
            vars(file.tree)["_calls_of_all"] = []
            vars(file.tree)["_calls_of_all"] = self._look_for_calls(file)
        calls: list[ast.Call] | None = vars(file.tree)["_calls_of_all"]
        return calls

    def _look_for_calls(self, file: IndexedFile) -> list[ast.Call] | None:
        found = evaluated_calls(file)
        if found is None:
            return None
        calls = [*found]
        for path in self.project.mentions.naming(import_name(file.path)):
            other = None if path == file.path or path.endswith(".ipynb") else self.project.file(path)
            for node in _imports_in(other) if other is not None else ():
                assert other is not None
                more: list[ast.Call] | None = []
                if self._is_namespace(node, other, file) and finds_by_strings(other.source.text):
                    more = self._calls_of_module(node, other, file)
                elif self._stars_of(node, other, file):
                    more = None if path.endswith("__init__.py") else self._calls_of_all_names(other)
                if more is None:
                    return None
                calls += more
        return calls

    def _calls_of_module(
        self, node: ast.Import | ast.ImportFrom, place: IndexedFile, file: IndexedFile
    ) -> list[ast.Call] | None:
        """The calls of what a file is asked for by a string in a place that binds it as a whole; None where that is not told."""
        if LOOKED_UP.search(place.source.text):
            return None
        prefix, level = ("", 0) if isinstance(node, ast.Import) else (f"{node.module or ''}.".lstrip("."), node.level)
        calls: list[ast.Call] = []
        for alias in node.names:
            if self.project.find(prefix + alias.name, level, place.path) != file.path:
                continue
            bound = alias.asname or alias.name
            found = None if "." in bound or len(place.names.get(bound, ())) != 1 else asked_calls(place, bound)
            if found is None:
                return None
            calls += found
        return calls

    def _looks_run(self, file: IndexedFile) -> bool:
        """Whether a file is a program, which no other imports."""
        if LOOKED_UP.search(file.source.text):
            return False
        return reads_command_line(self.project, file) and not self._may_be_imported(file)

    def _looks_like_script(self, file: IndexedFile) -> bool:
        """Whether a file is run to call functions of its own, and no other imports it."""
        if finds_by_strings(file.source.text) or not is_script(self.project, file):
            return False
        return not self._may_be_imported(file)

    def _may_be_imported(self, file: IndexedFile) -> bool:
        """Whether another file imports a file, or cannot be asked."""
        stem = os.path.splitext(os.path.basename(file.path))[0]  # noqa: PTH122, PTH119
        others = [self.project.file(path) for path in self.project.mentions.naming(stem) if path != file.path]
        return any(
            other is None
            or any(
                self._is_namespace(node, other, file) or self._stars_of(node, other, file) is not None
                for node in _imports_in(other)
            )
            for other in others
        )

    def _looks_plugged(self, file: IndexedFile) -> bool:
        """Whether a file is one of those that others import by a computed name, to call one function or class by its own.

        ``import_module(f"models.{name}").get_model(args)``: what the rest of such a file does not use, nobody does.
        """
        if LOOKED_UP.search(file.source.text):
            return False
        own = [node.name for node in file.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        for name in own:
            for path in [path for path in self.project.mentions.naming(name) if path != file.path][:_MOST_FILES]:
                other = None if path.endswith(".ipynb") else self.project.file(path)
                if other is None or "import_module(" not in other.source.text or name not in called_of(other):
                    continue
                # What is asked for by a string may be anything in the file.
                return not finds_by_strings(other.source.text)
        return False

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

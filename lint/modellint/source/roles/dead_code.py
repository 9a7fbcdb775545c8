"""Dead code: classes and functions of shared files that nothing in the project names but what is dead itself, or that cannot be run."""

from __future__ import annotations

import ast
import builtins
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.external_name_facts import MODULE_ATTRIBUTES, MODULE_CLASSES
from modellint.source.project.mentions import Mention, blocks, import_name, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.eval_callees import LOOKED_UP, asked_calls, evaluated_calls, may_be_called
from modellint.source.roles.files.application_reachability import is_of_application, may_be_asked_for
from modellint.source.roles.files.failing_imports import cannot_be_imported
from modellint.source.roles.files.program_files import PACKAGING, is_script, is_superseded, reads_command_line
from modellint.source.roles.files.unreferenced_files import holds_a_module, is_unreferenced
from modellint.source.roles.training_parts import methods_of_forward
from modellint.source.syntax.ast_walk import called_name, functions_in, given_to, mentioned_in, of_kind, once
from modellint.source.syntax.call_signature_mismatch import misfits

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Named: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""What more files than these name is in use."""
_MOST_BESIDE = 60
"""More files in a folder are a collection, of which one is taken as another."""
_DEEPEST_DECORATOR = 2
"""How many functions hand a class on to each other."""
_ASK = frozenset({"isinstance", "issubclass", "type", "super", "hasattr", "getattr", "callable"})
"""Builtins that keep nothing of what they are given."""
_GONE = frozenset(
    {"apply", "basestring", "cmp", "coerce", "execfile", "file", "intern", "long", "raw_input", "reduce", "reload"}
    | {"unichr", "unicode", "xrange"}
)
"""Builtins of Python 2 that Python 3 has not."""
_PUT_IN = frozenset({"_", "profile", "display", "get_ipython", "reveal_type"})
"""Names that tools put among the builtins."""
_DEEPEST_METHOD = 3
"""How many methods call each other."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp)
"""Expressions of which a part may not be run."""
_HEADS = ("value", "test", "iter", "exc")
"""What a statement runs before its blocks."""
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
        if isinstance(mention.node, ast.Constant) and _is_of_onnx(self.project, mention, file):
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
                    if LOOKED_UP.search(other.source.text) or _ASKED.search(other.source.text):
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
                if self._is_namespace(node, other, file) and _finds_by_strings(other.source.text):
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
        if _finds_by_strings(file.source.text) or not is_script(self.project, file):
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
                if other is None or "import_module(" not in other.source.text or name not in _called_of(other):
                    continue
                # What is asked for by a string may be anything in the file.
                return not _finds_by_strings(other.source.text)
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


def is_only_a_word(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether a mention is a string by which a table, or a graph of ONNX, has something else, in a file that finds nothing by strings."""
    if not isinstance(mention.node, ast.Constant):
        return False
    if _is_of_onnx(project, mention, file):
        return True
    return mention.node in once(mention.statement, "_words_of_table", _words_of_table) and not once(
        file.tree, "_finds_by_strings", lambda _: _finds_by_strings(file.source.text)
    )


def _is_of_onnx(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether a mention is a string that ONNX is given to call a graph, an operator or a value by."""
    if "onnx" not in file.source.text:
        return False
    for call in ast.walk(mention.statement):
        if isinstance(call, ast.Call) and mention.node in given_to(call):
            dotted = dotted_name(call.func)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            return isinstance(symbol, External) and symbol.name.startswith("onnx.helper.")
    return False


def builds_by_dotted_names(project: Project, path: str) -> bool:
    """Whether modules in the package of a file build what they are told of by a dotted name: ``getattr(import_module(path), name)``.

    What they are told stands in a configuration, which need not be here. The package is the folder of the function that does.
    """
    folders = project.remembered(("builds by dotted names",), lambda: frozenset(_building_folders(project)))
    return any(path.startswith(folder + os.sep) for folder in folders)


def _building_folders(project: Project) -> Iterator[str]:
    """The folders of functions that take what a dotted name means, and that a module below has do so."""
    project.touch_tree()
    for path in project.mentions.naming("import_module"):
        file = None if path.endswith(".ipynb") or is_path_of_tests(project, path) else project.file(path)
        if file is None or "getattr" not in file.source.text:
            continue
        folder = os.path.dirname(path)  # noqa: PTH120
        functions = [*file.functions.values()]
        first = [function for function in functions if _gets_from_import(function)]
        names = {function.name for function in first}
        builders = [*first, *(part for part in functions if part not in first and names & mentioned_in(part))]
        if any(_is_asked_by_a_module(project, builder.name, folder) for builder in builders):
            yield folder


def _is_asked_by_a_module(project: Project, name: str, folder: str) -> bool:
    """Whether a module class below a folder names a function."""
    for path in project.mentions.naming(name)[:_MOST_FILES]:
        file = project.file(path) if path.startswith(folder + os.sep) and not path.endswith(".ipynb") else None
        for mention in mentions_in(file, name) if file is not None else ():
            owner = mention.cls
            is_outermost = owner is not None and owner is mention.around[0]
            if file is not None and owner is not None and is_outermost and project.is_module(ClassRef(file, owner)):
                return True
    return False


def _gets_from_import(function: _Function) -> bool:
    """Whether a function imports a file by a name that is handed to it as a whole, and takes from it what another names."""
    imports = [
        call
        for call in of_kind(function, ast.Call)
        if called_name(call) == "import_module" and call.args and isinstance(call.args[0], (ast.Name, ast.Attribute))
    ]
    names = {
        target.id
        for part in of_kind(function, ast.Assign)
        if part.value in imports
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    for call in of_kind(function, ast.Call):
        match call:
            case ast.Call(
                func=ast.Name(id="getattr"), args=[place, ast.Name() | ast.Attribute() | ast.Subscript(), *_]
            ):
                if place in imports or (isinstance(place, ast.Name) and place.id in names):
                    return True
    return False


def _called_of(file: IndexedFile) -> frozenset[str]:
    """The attributes that a file calls of plain variables that hold modules it imported by a computed name."""
    modules = {
        target.id
        for part in of_kind(file.tree, ast.Assign)
        if isinstance(part.value, ast.Call) and called_name(part.value) == "import_module"
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    return frozenset(
        call.func.attr
        for call in of_kind(file.tree, ast.Call)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in modules
    )


def _words_of_table(statement: ast.stmt) -> frozenset[ast.expr | None]:
    """The keys by which a statement puts something in a dict, or takes it out, but for what it calls at once: `losses["Far"]`."""
    nodes = [*ast.walk(statement)]
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    keys = {key for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    return frozenset(keys | {node.slice for node in nodes if isinstance(node, ast.Subscript) and node not in called})


def _finds_by_strings(text: str) -> bool:
    return LOOKED_UP.search(text) is not None or _ASKED.search(text) is not None


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


def may_be_looked_up(project: Project, ref: ClassRef) -> bool:
    """Whether a decorator of a class may keep it under a name; one that only wraps it, or puts it in a set, does not."""
    for decorator in ref.node.decorator_list:
        dotted = dotted_name(decorator)
        symbol = project.resolve(ref.file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, 0):
            return True
    return False


def _keeps_first(project: Project, function: FunctionRef, depth: int) -> bool:
    """Whether a function may keep its first argument, or a class that it derives from that."""
    return once(function.node, "_keeps_first", lambda node: _looks_keeping(project, function.file, node, depth))


def _looks_keeping(project: Project, file: IndexedFile, function: _Function, depth: int) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    if len(arguments) != 1 or depth > _DEEPEST_DECORATOR or function.decorator_list:
        return True
    names = {arguments[0].arg, *(part.name for part in of_kind(function, ast.ClassDef))}
    for part in of_kind(function, ast.Assign):
        if isinstance(part.value, ast.Name) and part.value.id in names:
            return True
    for call in of_kind(function, ast.Call):
        if not any(isinstance(part, ast.Name) and part.id in names for part in given_to(call)):
            continue
        match call.func:
            case ast.Name(id=name) if name in _ASK and name not in file.names:
                continue
            case ast.Attribute(attr="add"):
                continue
        dotted = dotted_name(call.func)
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, depth + 1):
            return True
    return False


def cannot_be_run(project: Project, ref: ClassRef) -> bool:
    """Whether the own constructor or `forward` of a class always fails, or the import of its file.

    It asks for `xrange`, a `NameError` where the file binds that nowhere, for `range(n / 2)`, a `TypeError`, or, in a project that is
    read as a whole, for another name that nothing binds; or it builds a class of the project with arguments that this does not take.
    """
    if cannot_be_imported(project, ref.file):
        return True
    if vars(ref.node).get("_fails_by_tree"):
        project.touch_tree()
    return once(ref.node, "_cannot_be_run", lambda _: _fails(project, ref))


def _fails(project: Project, ref: ClassRef) -> bool:
    methods = {function.name: function for function in functions_in([ref.node])}
    run = [methods[name] for name in ("__init__", "forward") if name in methods]
    if not run or ref.within or any(alias.name == "*" for alias in of_kind(ref.file.tree, ast.alias)):
        return False
    place = _Place(project, ref, methods)
    if any(_always_asks(function, place, 0) for function in run):
        return True
    init = methods.get("__init__")
    return init is not None and _asks_itself_in_vain(project, ref, init)


def _asks_itself_in_vain(project: Project, ref: ClassRef, init: _Function) -> bool:
    """Whether a constructor always asks its object for an attribute that nothing sets: an `AttributeError`.

    The class is a part of a project of which nothing derives from it, and has no base but `nn.Module`.
    """
    asked = {
        part.attr
        for expression in _always_run(init.body)
        for part in _always_run_parts(expression)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and _is_self(part.value, init)
    }
    unset = {name for name in asked - MODULE_ATTRIBUTES if not name.startswith("_")}
    unset -= once(ref.node, "_set_here", _set_here) if unset else frozenset()
    if not unset or init.decorator_list or ref.node.decorator_list or ref.node.keywords:
        return False
    bases = project.bases(ref)
    if len(bases) != 1 or not isinstance(bases[0], External) or bases[0].name not in MODULE_CLASSES:
        return False
    if any(word in part.attr for part in of_kind(ref.node, ast.Attribute) for word in ("__dict__", "__setattr__")):
        return False
    if any(part.id in ("setattr", "vars", "locals") for part in of_kind(ref.node, ast.Name)):
        return False
    if not _MAKES_ATTRIBUTES.isdisjoint(once(ref.node, "_set_here", _set_here)):
        return False
    vars(ref.node)["_fails_by_tree"] = True
    project.touch_tree()
    mentions = project.mentions
    others = mentions.naming("import")
    if not mentions.is_whole or ref.file.path not in others or len(others) <= 1 or _is_derived_from(project, ref):
        return False
    return any(not _is_set_outside(project, ref, name) for name in sorted(unset))


_MAKES_ATTRIBUTES = frozenset({"__getattr__", "__getattribute__", "__new__", "__init_subclass__"})
"""What a class may have attributes by that nothing sets."""


def _is_self(node: ast.expr, function: _Function) -> bool:
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return isinstance(node, ast.Name) and [part.arg for part in first] == [node.id]


def _set_here(node: ast.ClassDef) -> frozenset[str]:
    """What a class binds anywhere, as an attribute or in its body, or says in a string."""
    names = {part.attr for part in of_kind(node, ast.Attribute) if not isinstance(part.ctx, ast.Load)}
    names |= {part.id for part in of_kind(node, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names |= {
        part.name for part in node.body if isinstance(part, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    names |= {(alias.asname or alias.name).partition(".")[0] for alias in of_kind(node, ast.alias)}
    names |= {part.value for part in of_kind(node, ast.Constant) if isinstance(part.value, str)}
    return frozenset(names)


def _is_set_outside(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether code outside a class may set an attribute of it: `Net.width = 8`."""
    sets = re.compile(rb"(?<!\bself)(?<!\bcls)\." + re.escape(name.encode()) + rb"\s*=(?!=)|\bsetattr\(")
    return any(project.mentions.matches(path, sets) for path in project.mentions.naming(ref.node.name))


def fails_before(project: Project, ref: ClassRef, function: _Function) -> bool:
    """Whether a `forward` always calls a method of its own class with arguments that this does not take, and nothing else runs a method.

    ``def encode(self, x, scale)`` and ``self.encode(x)``, a `TypeError`, unless a class that derives from it may have another method.
    """
    methods = {method.name: method for method in functions_in([ref.node])}
    forward = methods.get("forward")
    if forward is None or ref.within or not once(forward, "_misfits", lambda _: _calls_wrongly(forward, methods)):
        return False
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or _is_derived_from(project, ref):
        return False
    if function is forward:
        return True
    return function.name in methods_of_forward(_Method(method) for method in methods.values()) and set(
        mentions.naming(function.name)
    ) <= {ref.file.path}


class _Method(NamedTuple):
    node: _Function


def _calls_wrongly(forward: _Function, methods: dict[str, _Function]) -> bool:
    bound = {
        part.attr
        for method in methods.values()
        for part in of_kind(method, ast.Attribute)
        if not isinstance(part.ctx, ast.Load)
    }
    for expression in _always_run(forward.body):
        for part in _always_run_parts(expression):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name not in bound:
                    called = methods.get(name)
                    if called is not None and not called.decorator_list and misfits(called, part):
                        return True
    return False


def _is_derived_from(project: Project, ref: ClassRef) -> bool:
    """Whether a class of the project may derive from another."""
    name = ref.node.name
    for path in dict.fromkeys((ref.file.path, *project.mentions.naming(name))):
        file = ref.file if path == ref.file.path else None if path.endswith(".ipynb") else project.file(path)
        if file is None or any(
            isinstance(mention.statement, ast.ClassDef) and mention.node in mention.statement.bases
            for mention in mentions_in(file, name)
        ):
            return True
    return False


class _Place(NamedTuple):
    """A class, and its methods by name."""

    project: Project
    ref: ClassRef
    methods: dict[str, _Function]


def _always_asks(function: _Function, place: _Place, depth: int) -> bool:
    """Whether all that runs a function asks for a name that nothing binds, or for what always raises."""
    file, methods = place.ref.file, place.methods
    for expression in _always_run(function.body):
        for part in _always_run_parts(expression):
            match part:
                case ast.Name(id=name, ctx=ast.Load()):
                    if name not in once(file.tree, "_bound_names", _bound_names):
                        vars(place.ref.node)["_fails_by_tree"] = True
                        if _is_unbound(place.project, file, name):
                            return True
                case ast.Call(func=ast.Name(id="range"), args=arguments) if any(map(_is_quotient, arguments)):
                    if "range" not in once(file.tree, "_bound_names", _bound_names):
                        return True
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if depth < _DEEPEST_METHOD:
                    called = methods.get(name)
                    if (
                        isinstance(called, ast.FunctionDef)
                        and not called.decorator_list
                        and called is not function
                        and _always_asks(called, place, depth + 1)
                    ):
                        return True
                case ast.Call(func=ast.Name(id=name)) if name in file.names and _builds_wrongly(function, place, part):
                    return True
    return False


def _is_unbound(project: Project, file: IndexedFile, name: str) -> bool:
    """Whether a name that a file does not bind is bound nowhere: the file is part of a project, and no text that is run as it is."""
    if name in _GONE:
        return True
    if hasattr(builtins, name) or name in _PUT_IN or name.startswith("__"):
        return False
    if once(file.tree, "_may_bind_unseen", lambda _: _may_bind_unseen(file)):
        return False
    project.touch_tree()
    # A text alone may be a part of one that binds the name.
    mentions = project.mentions
    others = mentions.naming("import")
    if not mentions.is_whole or file.path not in others or len(others) <= 1:
        return False
    sets = re.compile(rb"(?<!\bself)(?<!\bcls)\." + re.escape(name.encode()) + rb"\s*=(?!=)")
    return not any(mentions.matches(path, sets) for path in mentions.naming(name) if path != file.path)


def asks_in_vain_before(project: Project, file: IndexedFile, function: _Function, row: int) -> bool:
    """Whether all that leads to a row of a function asks for a name before that nothing binds, so that the row is never run."""
    unknown = once(file.tree, "_unknown_names", _unknown_names)
    if not unknown:
        return False
    key = "never run", file.path, function.lineno, function.col_offset
    never = project.remembered(key, lambda: sorted(_never_run(project, file, function.body)))
    at = bisect_right(never, (row, _ENDLESS))
    return at > 0 and row <= never[at - 1][1]


def _unknown_names(tree: ast.Module) -> frozenset[str]:
    """The names that a file asks for, and neither it nor Python binds."""
    if any(alias.name == "*" for alias in of_kind(tree, ast.alias)):
        return frozenset()
    asked = {part.id for part in of_kind(tree, ast.Name) if isinstance(part.ctx, ast.Load)}
    return frozenset(name for name in asked - once(tree, "_bound_names", _bound_names) if not hasattr(builtins, name))


def _never_run(project: Project, file: IndexedFile, body: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """The first and last of the rows that stand, in a block, behind a statement that asks for a name which nothing binds."""
    for statement in body:
        inner = [block for block in blocks(statement) if block]
        heads = (getattr(statement, field, None) for field in _HEADS) if isinstance(statement, _PLAIN) else ()
        if any(_asks_in_vain(project, file, head) for head in heads if isinstance(head, ast.expr)):
            last = inner[0][0].lineno - 1 if inner else statement.end_lineno or statement.lineno
            yield last + 1, body[-1].end_lineno or last
            return
        for block in inner:
            yield from _never_run(project, file, block)


_PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.While)
"""Statements that run their heads first."""
_ENDLESS = 1 << 40
"""More rows than a file has."""


def _asks_in_vain(project: Project, file: IndexedFile, expression: ast.expr) -> bool:
    unknown = once(file.tree, "_unknown_names", _unknown_names)
    names = {part.id for part in _always_run_parts(expression) if isinstance(part, ast.Name) and part.id in unknown}
    return any(
        project.remembered(("unbound", file.path, name), partial(_is_unbound, project, file, name))
        for name in sorted(names)
    )


def _may_bind_unseen(file: IndexedFile) -> bool:
    """Whether a file may bind names by strings, or is a notebook, whose names others bind."""
    text = file.source.text
    return bool(file.path.endswith(".ipynb") or "setattr(" in text or "builtins" in text or LOOKED_UP.search(text))


def _builds_wrongly(function: _Function, place: _Place, call: ast.Call) -> bool:
    """Whether a call builds a class of the project with arguments that its constructor does not take."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    project, file = place.project, place.ref.file
    if len(file.names[name]) != 1 or any(part.arg == name for part in of_kind(function, ast.arg)):
        return False
    if any(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(function, ast.Name)):
        return False
    symbol = project.resolve(file, name)
    if not isinstance(symbol, ClassRef) or project.is_module(symbol) is not True:
        return False
    init: _Function | None = None
    for ref in project.lineage(symbol):
        members = {member.name: member for member in functions_in([ref.node])}
        if "__new__" in members or ref.node.decorator_list or ref.node.keywords or len(ref.node.bases) != 1:
            return False
        init = init or members.get("__init__")
    return init is not None and not init.decorator_list and misfits(init, call)


def _is_quotient(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _always_run(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """The expressions that a function runs whenever it is called."""
    for statement in body:
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.For, ast.If)):
            yield from (part for field in _HEADS if isinstance(part := getattr(statement, field, None), ast.expr))
        elif not isinstance(statement, (ast.Assert, ast.Pass, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return
        if any(isinstance(part, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) for part in ast.walk(statement)):
            return


def _always_run_parts(expression: ast.expr) -> Iterator[ast.expr]:
    """An expression and what it always runs, in no order."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        if not isinstance(part, _LATER):
            children = (
                child.value if isinstance(child, ast.keyword) else child for child in ast.iter_child_nodes(part)
            )
            pending += (child for child in children if isinstance(child, ast.expr))


def _bound_names(tree: ast.Module) -> set[str]:
    """All names that a file binds somewhere, in whatever scope, but for those that only a pattern binds."""
    names = {part.id for part in of_kind(tree, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names |= {part.arg for part in of_kind(tree, ast.arg)}
    names |= {(alias.asname or alias.name).partition(".")[0] for alias in of_kind(tree, ast.alias)}
    names |= {part.name for part in of_kind(tree, ast.FunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.AsyncFunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.ExceptHandler) if part.name is not None}
    return names | {part.name for part in of_kind(tree, ast.ClassDef)}

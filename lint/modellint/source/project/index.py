"""The project's files as a lazily built index: what a dotted name means, whether a class is an ``nn.Module``.

No file is executed or imported; each is read and parsed when a name first leads to it. Imports of what is not
in the project end in an ``External`` name.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union, cast

from modellint.source.project import external_name_facts
from modellint.source.project.names_by_text import Outline
from modellint.source.project.symbols import (
    Binding,
    ClassRef,
    External,
    FileRef,
    FunctionRef,
    Imported,
    IndexedFile,
    Symbol,
    ValueRef,
    collect_names,
    dotted_name,
)
from modellint.source.syntax.parse import Unparsable, parse
from modellint.source.syntax.source_text import SourceText, Undecodable, Unreadable, read_bytes

if TYPE_CHECKING:
    from modellint.source.project.mentions import Mentions

_KEPT_TREES = 128
_KEPT_CHECKED = 64
"""Files that were checked and that no other file has asked for yet: most are never asked for."""
_DEEPEST = 16
_BUILTIN_CLASSES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
_Answer = TypeVar("_Answer")
_Touched: TypeAlias = Union[str, "frozenset[_Touched]"]
"""A file that was asked for, or what a remembered answer had asked for: nested, because large sets cost when merged."""


class Project:
    """The index of one project.

    ``root`` is the root of the run; ``module_bases`` are names of further classes to be taken for ``nn.Module``,
    by their last part or their full dotted path; ``prelu_import`` is the module that has ``CustomPReLU``, if one does.
    """

    def __init__(self, root: Path, module_bases: tuple[str, ...] = (), prelu_import: str | None = None) -> None:
        self.root = str(root)
        self.prelu_import = prelu_import
        self.module_bases = frozenset(module_bases)
        self.digesting = True
        """Whether anyone, such as a cache, wants to know what the files held."""
        self.is_stopped = False
        """Whether nobody wants the findings any longer; another thread may say so."""
        self._files: OrderedDict[str, IndexedFile | None] = OrderedDict()
        self._checked: OrderedDict[str, IndexedFile] = OrderedDict()
        self._digests: dict[str, str | None] = {}
        self._is_module: dict[tuple[str, int, int], tuple[bool | None, frozenset[_Touched]]] = {}
        self._makes: dict[tuple[str, int, tuple[str, int, int]], tuple[bool, frozenset[_Touched]]] = {}
        self._exports: dict[tuple[str, str], tuple[bool, frozenset[_Touched]]] = {}
        self._not_exported: dict[tuple[str, str], frozenset[_Touched]] = {}
        self._outlines: dict[str, Outline] = {}
        self._found: dict[tuple[str, str], tuple[str | None, frozenset[_Touched]]] = {}
        self._package_parents: dict[str, str] = {}
        self._resolved: dict[str, dict[str, tuple[Symbol | None, frozenset[_Touched]]]] = {}
        """What names mean, by the file that they stand in."""
        self._leading_to: dict[str, set[tuple[str, str]]] = {}
        """Those of them, in other files, that lead to what stands in a file."""
        self._mentions: Mentions | None = None
        self._remembered: dict[Hashable, tuple[object, frozenset[_Touched]]] = {}
        self.touched: set[_Touched] = set()

    # Files

    @property
    def mentions(self) -> Mentions:
        """The text of all files below the root, read when it is first asked for."""
        if self._mentions is None:
            from modellint.source.project.mentions import TREE, Mentions

            self._mentions = Mentions(self.root)
            self._digests[self.root + TREE] = self._mentions.digest
        return self._mentions

    def remembered(self, key: Hashable, find: Callable[[], _Answer]) -> _Answer:
        """An answer that is found once, and what it rests on whenever it is asked for."""
        if key not in self._remembered:
            outer, self.touched = self.touched, set()
            try:
                self._remembered[key] = find(), frozenset(self.touched)
            finally:
                self.touched = outer
        known_answer, asked = self._remembered[key]
        self.touched.add(asked)
        return cast("_Answer", known_answer)

    def touch_tree(self) -> None:
        """Take note that an answer rests on all files below the root."""
        from modellint.source.project.mentions import TREE

        self.touched.add(self.root + TREE)

    def consulted(self) -> dict[str, str | None]:
        """Digest of every file asked for since ``touched`` was last emptied; None where there is no such file."""
        if not self.digesting:
            return {}
        paths: set[str] = set()
        seen: set[int] = set()
        pending: list[_Touched] = list(self.touched)
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                paths.add(one)
            elif id(one) not in seen:
                seen.add(id(one))
                pending.extend(one)
        return {path: self._digests.get(path) for path in sorted(paths)}

    def adopt(self, path: str, source: SourceText) -> IndexedFile:
        """The parsed file of this text, which counts from now on, whatever the disk says. Raises ``Unparsable``."""
        known_file = self._files.get(path) or self._checked.get(path)
        if known_file is not None and known_file.source.text == source.text:
            return known_file
        file = IndexedFile(path, source, parse(source.text))
        if source.cells and not source.is_history:
            from modellint.source.project.notebook_names import patched_classes, without_rebound

            file.names = without_rebound(file.names, file.tree, source.cells)
            file.patched = patched_classes(file.tree)
        if path in self._files or path in self._checked:
            self._resolved.clear()
            self._leading_to.clear()
        self._forget(path)
        if path in self._files:
            self._files[path] = file
        else:
            self._checked[path] = file
            if len(self._checked) > _KEPT_CHECKED:
                self._forget(self._checked.popitem(last=False)[0])
        return file

    def file(self, path: str) -> IndexedFile | None:
        """The parsed file, or None when it cannot be read or parsed."""
        self.touched.add(path)
        if path in self._files:
            self._files.move_to_end(path)
            return self._files[path]
        indexed = self._checked.pop(path, None)
        data = self.data(path) if indexed is None or self.digesting else None
        if indexed is None and data is not None:
            self._forget(path)
            try:
                source = SourceText.decode(data)
                indexed = IndexedFile(path, source, parse(source.text))
            except (Undecodable, Unparsable):
                pass
        self._files[path] = indexed
        if len(self._files) > _KEPT_TREES:
            self._forget(self._files.popitem(last=False)[0])
        return indexed

    def data(self, path: str) -> bytes | None:
        """The bytes of a file, or None when it cannot be read."""
        self.touched.add(path)
        try:
            data = read_bytes(path)
        except Unreadable:
            self._digests[path] = None
            return None
        if self.digesting:
            from hashlib import sha256

            self._digests[path] = sha256(data).hexdigest()
        else:
            self._digests[path] = ""
        return data

    def _forget(self, path: str) -> None:
        """Drop the answers that hold on to the tree of a file."""
        self._resolved.pop(path, None)
        for other, dotted in self._leading_to.pop(path, ()):
            self._resolved.get(other, {}).pop(dotted, None)

    # Imports

    def _exists(self, path: str) -> bool:
        if path not in self._digests:
            self._digests[path] = "" if os.path.isfile(path) else None  # noqa: PTH113
        if self._digests[path] is None:
            self.touched.add(path)
            return False
        return True

    def _in_folder(self, folder: str, parts: list[str]) -> str | None:
        base = os.path.join(folder, *parts)  # noqa: PTH118
        for path in (base + ".py", os.path.join(base, "__init__.py")):  # noqa: PTH118
            if self._exists(path):
                return path
        return None

    def find(self, module: str, level: int, importer: str) -> str | None:
        """The file that ``import module`` (with ``level`` leading dots) in ``importer`` means, or None."""
        folder = os.path.dirname(importer)  # noqa: PTH120
        parts = module.split(".") if module else []
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)  # noqa: PTH120
            if not parts:
                path = os.path.join(folder, "__init__.py")  # noqa: PTH118
                return path if self._exists(path) else None
            return self._in_folder(folder, parts)
        if not parts or parts[0] in external_name_facts.NEVER_IN_PROJECT:
            return None
        key = (folder, module)
        if key not in self._found:
            outer, self.touched = self.touched, set()
            places = dict.fromkeys(
                (self.root, os.path.join(self.root, "src"), self._package_parent(folder), folder)  # noqa: PTH118
            )
            places_found = (self._in_folder(place, parts) for place in places)
            found = next((one for one in places_found if one is not None), None)
            self._found[key] = found, frozenset(self.touched)
            self.touched = outer
        answer, missed = self._found[key]
        self.touched.add(missed)
        return answer

    def _package_parent(self, folder: str) -> str:
        if folder not in self._package_parents:
            top = folder
            # A folder without __init__.py inside a package is a part of it too.
            while any(self._exists(os.path.join(place, "__init__.py")) for place in (top, os.path.dirname(top))):  # noqa: PTH118, PTH120
                parent = os.path.dirname(top)  # noqa: PTH120
                if parent == top:
                    break
                top = parent
            self._package_parents[folder] = top
        return self._package_parents[folder]

    # Names

    def resolve(
        self, file: IndexedFile, dotted: str, within: tuple[ast.AST, ...] = (), depth: int = 0
    ) -> Symbol | None:
        """What a dotted name means in a file; None when it is bound nowhere."""
        if within or depth:
            return self._resolve(file, dotted, within, depth)
        answers = self._resolved.setdefault(file.path, {})
        known_answer = answers.get(dotted)
        if known_answer is None:
            outer, self.touched = self.touched, set()
            symbol = self._resolve(file, dotted, within, depth)
            known_answer = answers[dotted] = symbol, frozenset(self.touched)
            self.touched = outer
            if isinstance(symbol, (ClassRef, FunctionRef, ValueRef)) and symbol.file is not file:
                self._leading_to.setdefault(symbol.file.path, set()).add((file.path, dotted))
        elif known_answer[1] and (symbol := known_answer[0]).__class__ in (ClassRef, FunctionRef):
            # An answer goes with the tree that it leads to, so to ask for it is to use that tree.
            path = cast("ClassRef", symbol).file.path
            if path in self._files:
                self._files.move_to_end(path)
        if known_answer[1]:
            self.touched.add(known_answer[1])
        return known_answer[0]

    def _resolve(self, file: IndexedFile, dotted: str, within: tuple[ast.AST, ...], depth: int) -> Symbol | None:
        first, *rest = dotted.split(".")
        symbol = self._resolve_first(file, first, within, depth)
        for part in rest:
            if symbol is None:
                return None
            symbol = self.attribute(symbol, part, depth)
        return symbol

    def _resolve_first(self, file: IndexedFile, name: str, within: tuple[ast.AST, ...], depth: int) -> Symbol | None:
        if depth > _DEEPEST:
            return None
        for position in range(len(within) - 1, -1, -1):
            scope = within[position]
            if position == len(within) - 1 or not isinstance(scope, ast.ClassDef):
                found = file.names_inside(scope).get(name, ())
                bindings: list[Binding] = [one for one in found if not isinstance(one, ast.expr)]
                if bindings:
                    return self._best(file, bindings, within[: position + 1], depth)
        if name in file.names:
            return self._best(file, file.names[name], (), depth)
        for star in file.stars:
            symbol = self._from_star(file, star, name, depth)
            if symbol is not None:
                return symbol
        if name in ("nn", "torch") and self._may_come_from_star(file):
            return External("torch" if name == "torch" else "torch.nn")
        return None

    def _may_come_from_star(self, file: IndexedFile) -> bool:
        # `from library import *` of a library that is not here usually brings torch's own names with it.
        return any(self.find(star.module, star.level, file.path) is None for star in file.stars)

    def _from_star(self, file: IndexedFile, star: Imported, name: str, depth: int) -> Symbol | None:
        path = self.find(star.module, star.level, file.path)
        if path is None:
            if star.level == 0 and external_name_facts.exports(star.module, name):
                return External(f"{star.module}.{name}")
            return None
        if path == file.path or name.startswith("_") or not self._may_export(path, name, depth):
            return None
        key = (path, name)
        missing = self._not_exported.get(key)
        if missing is not None:
            self.touched.add(missing)
            return None
        other = self.file(path)
        return self._in_file(other, name, depth) if other is not None else None

    def _in_file(self, file: IndexedFile, name: str, depth: int) -> Symbol | None:
        """What a name means at the top of another file; that it means nothing is kept: a package may bring in a thousand files."""
        key = (file.path, name)
        missing = self._not_exported.get(key)
        if missing is not None:
            self.touched.add(missing)
            return None
        outer, self.touched = self.touched, {file.path}
        symbol = self._resolve_first(file, name, (), depth + 1)
        asked = frozenset(self.touched)
        self.touched = outer
        self.touched.add(asked)
        if symbol is None:
            self._not_exported[key] = asked
        return symbol

    def _may_export(self, path: str, name: str, depth: int) -> bool:
        """Whether a file so much as binds a name, or brings in others that may: packages of a thousand files do."""
        key = (path, name)
        cached = self._exports.get(key)
        if cached is None:
            outer, self.touched = self.touched, set()
            answer = self._look_for(path, name, depth)
            cached = self._exports[key] = (answer, frozenset(self.touched))
            self.touched = outer
        self.touched.add(cached[1])
        return cached[0]

    def _look_for(self, path: str, name: str, depth: int) -> bool:
        if depth > _DEEPEST:
            return False
        self._exports[(path, name)] = (False, frozenset())
        outline = self._outline(path, name)
        if outline.names is not None and name in outline.names:
            return True
        for dots, module in outline.stars:
            target = self.find(module, dots, path)
            if target is not None and target != path and self._may_export(target, name, depth + 1):
                return True
        return False

    def _outline(self, path: str, name: str) -> Outline:
        """What a file may bind, by its text; its names are read where it holds this one."""
        self.touched.add(path)
        outline = self._outlines.get(path)
        if outline is None or outline.names is None:
            text = (self.data(path) or b"").decode("utf-8", "ignore")
            is_new = outline is None
            outline = outline or Outline(text)
            if not is_new or name in text:
                outline.read_names(text)
            self._outlines[path] = outline
        return outline

    def _best(
        self, file: IndexedFile, bindings: list[Binding], within: tuple[ast.AST, ...], depth: int
    ) -> Symbol | None:
        symbols = [self._bound(file, binding, within, depth) for binding in bindings[-4:]]
        found = [symbol for symbol in symbols if symbol is not None]
        if len(found) > 1:
            # `try: from fast import Norm; except ImportError: Norm = nn.LayerNorm`: what can be looked into says more.
            for symbol in reversed(found):
                if not isinstance(symbol, (External, ValueRef)) or (
                    isinstance(symbol, External) and symbol.name.startswith("torch.")
                ):
                    return symbol
        return found[-1] if found else None

    def _bound(self, file: IndexedFile, binding: Binding, within: tuple[ast.AST, ...], depth: int) -> Symbol | None:
        if isinstance(binding, Imported):
            return self._imported(file, binding, depth)
        if isinstance(binding, ast.ClassDef):
            return ClassRef(file, binding, within)
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return FunctionRef(file, binding)
        dotted = dotted_name(binding)
        if dotted is not None and depth < _DEEPEST:
            symbol = self.resolve(file, dotted, (), depth + 1)
            if symbol is not None:
                return symbol
        return ValueRef(file, binding)

    def meanings(self, file: IndexedFile, dotted: str, depth: int = 0) -> Iterator[Symbol]:
        """All that a dotted name may mean in a file: `if`, `try` and `a if b else c` bind several, of which ``resolve`` gives one."""
        for binding in file.names.get(dotted, ()) if depth < _DEEPEST else ():
            nodes = [binding.body, binding.orelse] if isinstance(binding, ast.IfExp) else [binding]
            for node in nodes:
                path = (
                    self.find(node.module, node.level, file.path) if isinstance(node, Imported) and node.name else None
                )
                other = self.file(path) if path is not None and path != file.path else None
                if other is not None and isinstance(node, Imported) and node.name in other.names:
                    yield from self.meanings(other, node.name, depth + 1)
                elif (symbol := self._bound(file, node, (), depth)) is not None:
                    yield symbol
        if dotted not in file.names and (symbol := self.resolve(file, dotted)) is not None:
            yield symbol

    def is_function_elsewhere(self, file: IndexedFile, name: str) -> bool:
        """Whether a name comes from another file of the project and, by its spelling, is a function: no file is read for the answer."""
        bindings = file.names.get(name, ()) if name.islower() else ()
        for binding in bindings:
            if not isinstance(binding, Imported) or binding.name is None:
                return False
            path = self.find(binding.module, binding.level, file.path)
            inner = self.find(f"{binding.module}.{binding.name}".lstrip("."), binding.level, file.path)
            if path is None or path == file.path or inner is not None:
                return False
        return bool(bindings)

    def imported(self, file: IndexedFile, node: ast.Import | ast.ImportFrom) -> dict[str, Symbol | None]:
        """What an import statement inside a function binds."""
        names: dict[str, list[Binding]] = {}
        collect_names([node], names, [])
        return {name: self._bound(file, bindings[-1], (), 0) for name, bindings in names.items()}

    def _imported(self, file: IndexedFile, imported: Imported, depth: int) -> Symbol | None:
        path = self.find(imported.module, imported.level, file.path)
        if imported.name is None:
            return FileRef(path) if path is not None else External(imported.module)
        if path is None:
            prefix = "." * imported.level + imported.module
            namespace = self.find(f"{imported.module}.{imported.name}".lstrip("."), imported.level, file.path)
            if namespace is not None:
                return FileRef(namespace)
            return External(f"{prefix}.{imported.name}" if imported.module else f"{prefix}{imported.name}")
        if path == file.path:
            return None
        return self.attribute(FileRef(path), imported.name, depth + 1)

    def attribute(self, symbol: Symbol, name: str, depth: int = 0) -> Symbol | None:
        """What ``symbol.name`` means."""
        match symbol:
            case External():
                return External(f"{symbol.name}.{name}")
            case FileRef():
                return self._file_attribute(symbol, name, depth)
            case ClassRef():
                node = symbol.file.members(symbol.node).get(name)
                if isinstance(node, ast.ClassDef):
                    return ClassRef(symbol.file, node, (*symbol.within, symbol.node))
        return None

    def _file_attribute(self, ref: FileRef, name: str, depth: int) -> Symbol | None:
        other = self.file(ref.path)
        if other is None:
            return None
        is_package = os.path.basename(ref.path) == "__init__.py"  # noqa: PTH119
        path = self._in_folder(os.path.dirname(ref.path), [name]) if is_package else None  # noqa: PTH120
        if path is not None and name not in other.names and not self._is_in_a_star(other, name):
            # What comes through several `import *` is not looked for: a package of a thousand files would be looked through.
            self.touched.add(other.path)
            return FileRef(path)
        symbol = self._in_file(other, name, depth)
        if symbol is not None:
            return symbol
        return FileRef(path) if path is not None else External(f"{ref.path}:{name}")

    def _is_in_a_star(self, file: IndexedFile, name: str) -> bool:
        """Whether a file that another brings in by a star itself binds a name: `from .alexnet import *`, with a function of that name."""
        for star in file.stars:
            path = self.find(star.module, star.level, file.path)
            if path is not None and path != file.path:
                outline = self._outline(path, name)
                if outline.names is not None and name in outline.names:
                    return True
        return False

    # Functions

    def makes_objects(
        self, file: IndexedFile, node: ast.FunctionDef | ast.AsyncFunctionDef, lineage: list[ClassRef]
    ) -> bool:
        """Whether a function may make an object of some class, bind an attribute or fill a container, itself or by its calls.

        Most functions of a library only compute; following each call of those would cost more than all the rest.
        """
        key = (file.path, node.lineno, lineage[0].key)
        known_answer = self._makes.get(key)
        if known_answer is not None:
            self.touched.add(known_answer[1])
            return known_answer[0]
        self._makes[key] = (False, frozenset())
        outer, self.touched = self.touched, {file.path}
        calls = file.calls(node)
        answer = calls is None or any(self._makes_here(dotted, file, lineage) for dotted in calls)
        asked = frozenset(self.touched)
        self._makes[key] = (answer, asked)
        self.touched = outer
        self.touched.add(asked)
        return answer

    def _makes_here(self, dotted: str, file: IndexedFile, lineage: list[ClassRef]) -> bool:
        first, _, rest = dotted.partition(".")
        last = dotted.rpartition(".")[2]
        if last in external_name_facts.CHANGERS:
            return True
        if last[:1].isupper():
            return not last.isupper() and not last.endswith(("Error", "Exception", "Warning", "Tensor", "Size"))
        if first in ("self", "cls"):
            owner = next((ref for ref in lineage if rest in ref.file.members(ref.node)), None)
            method = owner.file.members(owner.node)[rest] if owner is not None else None
            if owner is None or not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return False
            return self.makes_objects(owner.file, method, lineage)
        if first not in file.names:
            return False
        symbol = self.resolve(file, dotted)
        match symbol:
            case FunctionRef():
                return self.makes_objects(symbol.file, symbol.node, lineage)
            case ClassRef() | ValueRef():
                return True
            case External(name=name):
                return name.startswith(external_name_facts.MODULE_FACTORIES) or last.startswith(
                    ("build", "make", "create", "get_")
                )
        return False

    # Classes

    def bases(self, ref: ClassRef) -> list[Symbol | None]:
        """What each base of a class is; None for one that is not understood."""
        found: list[Symbol | None] = []
        for base in ref.node.bases:
            node = base.value if isinstance(base, ast.Subscript) else base
            dotted = dotted_name(node)
            if dotted is None or dotted == ref.node.name:
                found.append(None)
                continue
            symbol = self.resolve(ref.file, dotted, ref.within)
            if isinstance(symbol, ClassRef) and symbol.node is ref.node:
                symbol = None
            elif symbol is None and dotted in _BUILTIN_CLASSES and not ref.file.stars:
                symbol = External(f"builtins.{dotted}")
            found.append(symbol)
        return found

    def is_module(self, symbol: Symbol | None) -> bool | None:
        """Whether a class derives from ``torch.nn.Module``; None when that cannot be told."""
        if isinstance(symbol, External):
            return self._external_is_module(symbol.name)
        if not isinstance(symbol, ClassRef):
            return None
        known_answer = self._is_module.get(symbol.key)
        if known_answer is not None:
            self.touched.add(known_answer[1])
            return known_answer[0]
        outer, self.touched = self.touched, {symbol.file.path}
        self._is_module[symbol.key] = (None, frozenset())
        answer: bool | None = False
        if symbol.node.name in self.module_bases:
            answer = True
        else:
            for base in self.bases(symbol):
                below = self.is_module(base)
                if below:
                    answer = True
                    break
                if below is None:
                    answer = None
        asked = frozenset(self.touched)
        self._is_module[symbol.key] = (answer, asked)
        self.touched = outer
        self.touched.add(asked)
        return answer

    def _external_is_module(self, name: str) -> bool | None:
        if name in self.module_bases or name.rpartition(".")[2] in self.module_bases:
            return True
        return external_name_facts.is_module(name)

    def lineage(self, ref: ClassRef) -> list[ClassRef]:
        """The class and those of its bases that are in the project, in the order of attribute look-up (roughly)."""
        order: list[ClassRef] = []
        seen: set[tuple[str, int, int]] = set()
        # No function that calls itself: such a closure is a cycle, which would keep the files' trees in memory.
        pending = [(ref, 0)]
        while pending:
            one, depth = pending.pop()
            if one.key in seen or depth > _DEEPEST:
                continue
            seen.add(one.key)
            order.append(one)
            bases = [base for base in self.bases(one) if isinstance(base, ClassRef)]
            pending.extend((base, depth + 1) for base in reversed(bases))
        return order

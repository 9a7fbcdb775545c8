"""Which classes of a source tree are ``nn.Module`` classes: names followed through imports, nothing executed.

Written apart from the linter on purpose: a benchmark that asked the linter what a module is would not see
the classes that the linter overlooks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from modellint.source.syntax.source_text import SourceText, Undecodable

NOT_MODULES = {"Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "ParameterMeta"}
"""Capitalised names of ``torch.nn`` that are no modules."""

SETTING_UP = {"__init__", "__repr__", "__str__", "extra_repr", "_init_weights", "init_weights", "reset_parameters"}
"""Methods that do not compute with what an object holds."""

FOREIGN_MODULES = {"LightningModule", "ScriptModule"}
"""Last parts of names from other packages that are modules wherever they come from."""


@dataclass(slots=True)
class ClassFacts:
    """One class statement: its name, its row, and its bases as dotted names (``None`` where not a name)."""

    name: str
    row: int
    bases: tuple[str | None, ...]


@dataclass(slots=True)
class FileFacts:
    """What one file says about names."""

    path: Path
    module: str
    is_package: bool
    names: dict[str, str] = field(default_factory=dict)
    """Local name to the dotted name it stands for; relative imports are made absolute from the tree's root."""
    stars: list[str] = field(default_factory=list)
    classes: list[ClassFacts] = field(default_factory=list)
    reads: set[tuple[str, str]] = field(default_factory=set)
    """Attributes that are read, with the class whose ``self`` they are read from; of another object without one."""
    buffers: set[str] = field(default_factory=set)
    """Names under which buffers are registered."""


def read_source(path: Path) -> SourceText | None:
    """The decoded file, or ``None`` when it is not text."""
    try:
        return SourceText.decode(path.read_bytes())
    except (Undecodable, OSError):
        return None


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or ``None`` when the running Python cannot read the text."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` for a name or a chain of attributes; looks through subscripts such as ``Generic[T]``."""
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def read_facts(path: Path, root: Path) -> FileFacts | None:
    """Imports, aliases and classes of one file; ``None`` when it cannot be read or parsed."""
    source = read_source(path)
    tree = parse(source.text) if source else None
    if tree is None:
        return None
    parts = path.relative_to(root).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    facts = FileFacts(path, ".".join(parts[:-1] if is_package else parts), is_package)
    collect_names(tree, facts)
    facts.buffers = set(_buffers(tree))
    for node in tree.body:
        facts.reads.update(_reads(node, "", facts))
    return facts


def _buffers(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Assign(
                targets=[ast.Attribute(attr=name)],
                value=ast.Call(func=ast.Attribute(attr="Buffer") | ast.Name("Buffer")),
            ):
                yield name


def _reads(node: ast.AST, owner: str, facts: FileFacts) -> Iterator[tuple[str, str]]:
    """What a statement reads of objects, but for functions that set an object up or print it."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in SETTING_UP:
            return
        case ast.ClassDef(name=name):
            owner = name
        case ast.Attribute(value=ast.Name(id=base), attr=name, ctx=ast.Load()):
            if base == "self" or base not in facts.names:
                yield owner if base == "self" else "", name
        case ast.Attribute(attr=name, ctx=ast.Load()):
            yield "", name
        case ast.AugAssign(target=ast.Attribute(attr=name)):
            yield "", name
        case ast.Call(func=ast.Name("getattr" | "attrgetter"), args=[*_, ast.Constant(value=str(name))]):
            yield "", name
        case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(value=str(name)), _]):
            yield "", name
    for child in ast.iter_child_nodes(node):
        yield from _reads(child, owner, facts)


def collect_names(tree: ast.Module, facts: FileFacts) -> None:
    """Fill in the names of a file; imports count wherever they stand, in functions and branches too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                facts.names[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            base = _import_base(node, facts)
            for alias in node.names:
                if alias.name == "*":
                    facts.stars.append(base)
                else:
                    facts.names[alias.asname or alias.name] = f"{base.rstrip('.')}.{alias.name}"
        elif isinstance(node, ast.ClassDef):
            facts.classes.append(ClassFacts(node.name, node.lineno, tuple(dotted(base) for base in node.bases)))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], dotted(statement.value)
            if isinstance(target, ast.Name) and value and not isinstance(statement.value, ast.Subscript):
                facts.names.setdefault(target.id, f"{facts.module}:{value}")


def _import_base(node: ast.ImportFrom, facts: FileFacts) -> str:
    if not node.level:
        return node.module or ""
    parts = facts.module.split(".") if facts.module else []
    drop = node.level - 1 if facts.is_package else node.level
    kept = parts[: len(parts) - drop] if drop else parts
    # A leading dot marks a name that is already complete: it must not be looked for in other folders.
    return "." + ".".join([*kept, *([node.module] if node.module else [])])


class Tree:
    """All files of a source tree, and the question whether a class is a module."""

    def __init__(self, facts: list[FileFacts]) -> None:
        self.files = {file.module: file for file in facts}
        self._module_names: dict[tuple[str, str], bool] = {}
        self._resolved: dict[tuple[str, str], str] = {}
        wanted = {name for file in facts for name in file.buffers}
        self._readers: dict[str, list[tuple[FileFacts, str]]] = {}
        """For each name of a buffer the classes that read an attribute of ``self`` by it; without one, of another object."""
        for file in facts:
            for owner, name in file.reads:
                if name in wanted:
                    self._readers.setdefault(name, []).append((file, owner))
            file.reads = set()

    def is_read(self, file: FileFacts, cls: str, attribute: str) -> bool:
        """Whether anything in the tree may read an attribute of an object of a class."""
        own = self._ancestors(file, cls)
        for reader, owner in self._readers.get(attribute, ()):
            if not owner or f"{reader.module}:{owner}" in own:
                return True
            if f"{file.module}:{cls}" in self._ancestors(reader, owner):
                return True
        return False

    def _ancestors(self, file: FileFacts, cls: str) -> set[str]:
        """A class and its bases in the tree, as ``module:Class``."""
        found: set[str] = set()
        pending = [(file, cls)]
        while pending:
            home, name = pending.pop()
            key = f"{home.module}:{name}"
            if key in found:
                continue
            found.add(key)
            bases = [base for one in home.classes if one.name == name for base in one.bases if base]
            for full in (self.resolve(home, base) for base in bases):
                module, _, last = full.rpartition(":")
                if module in self.files:
                    pending.append((self.files[module], last.rpartition(".")[2]))
        return found

    def module_rows(self, file: FileFacts) -> set[int]:
        """The rows of the class statements of ``file`` that define modules."""
        return {cls.row for cls in file.classes if any(self._is_module(file, base) for base in cls.bases if base)}

    def resolve(self, file: FileFacts, name: str, depth: int = 0) -> str:
        """The full dotted name that ``name`` stands for in ``file``; a class of the tree is ``module:Class``."""
        key = (file.module, name)
        if key not in self._resolved:
            self._resolved[key] = name
            self._resolved[key] = self._resolve(file, name, depth)
        return self._resolved[key]

    def _resolve(self, file: FileFacts, name: str, depth: int) -> str:
        if depth > 12:
            return name
        head, _, rest = name.partition(".")
        if any(cls.name == head for cls in file.classes):
            return f"{file.module}:{name}"
        if head in file.names:
            target = file.names[head]
            if ":" in target:
                alias = target.split(":", 1)[1]
                target = self.resolve(file, alias, depth + 1) if alias.split(".")[0] != head else alias
                return target + (f".{rest}" if rest else "")
            return self._follow(file, f"{target}.{rest}" if rest else target, depth)
        for star in file.stars:
            if star.startswith("torch"):
                if head[:1].isupper() or head in ("nn", "Tensor"):
                    return f"{star}.{name}"
                continue
            other = self._file(file, star)
            if other is not None and other is not file and (found := self._exported(other, name, depth)):
                return found
        return name

    def _exported(self, file: FileFacts, name: str, depth: int) -> str | None:
        head = name.split(".")[0]
        if head in file.names or any(cls.name == head for cls in file.classes) or file.stars:
            found = self.resolve(file, name, depth + 1)
            return found if found != name else None
        return None

    def _follow(self, file: FileFacts, full: str, depth: int) -> str:
        """Through the file of the tree that ``full`` begins with, if there is one."""
        if full.startswith("torch."):
            return full
        parts = full.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            other = self._file(file, ".".join(parts[:cut]))
            if other is not None:
                return self.resolve(other, ".".join(parts[cut:]), depth + 1)
        return full.removeprefix(".")

    def _file(self, file: FileFacts, module: str) -> FileFacts | None:
        if module.startswith("."):
            return self.files.get(module[1:])
        for prefix in _prefixes(file):
            if found := self.files.get(prefix + module):
                return found
        return None

    def _is_module(self, file: FileFacts, name: str) -> bool:
        full = self.resolve(file, name)
        module, _, cls = full.rpartition(":")
        if not cls or ":" not in full:
            return is_module_name(full)
        key = (module, cls)
        if key not in self._module_names:
            self._module_names[key] = False
            home = self.files.get(module, file)
            self._module_names[key] = any(
                self._is_module(home, base)
                for candidate in home.classes
                if candidate.name == cls.split(".")[-1]
                for base in candidate.bases
                if base and not (base == cls and home.module == module)
            )
        return self._module_names[key]


def _prefixes(file: FileFacts) -> Iterator[str]:
    """Where an absolute import is looked for: the root, ``src``, then the folders above the file."""
    yield ""
    yield "src."
    parts = file.module.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        yield ".".join(parts[:cut]) + "."


def is_module_name(full: str) -> bool:
    """Whether a dotted name from outside the tree is a module class."""
    last = full.rpartition(".")[2]
    if last in FOREIGN_MODULES:
        return True
    return full.startswith("torch.nn.") and last[:1].isupper() and last not in NOT_MODULES

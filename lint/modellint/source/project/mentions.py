"""Mentions: which files of a project name a thing, found in their text, and where in such a file it is named."""

from __future__ import annotations

import ast
import os
import re
import stat
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.syntax.ast_walk import once

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

TREE = os.sep + "\0tree"
"""What stands behind a folder's path where an answer rests on all the files in it."""
_FEW = 32
"""Names that a text, or all of them, is searched for one by one, before its words are kept."""
_MOST_FILES = 20_000
_MOST_BYTES = 64_000_000
"""Of text that is kept between questions."""
_CODE = (".py", ".pyw", ".ipynb")
_CONFIGURATION = (".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".gin", ".md", ".rst", ".sh")
"""What may name a class that a program is told to build, or that a library's readers are."""
_ABOUT_THE_WORK = r"(?i)(?:changelog|changes|history|contributing|agents|claude)\.(?:md|rst)$"
_LARGEST_CONFIGURATION = 200_000
"""Bytes of a file above which it is data."""


def files_below(root: str) -> list[tuple[str, int, int]] | None:
    """The files of code and configuration below a folder, each with its size and its time in nanoseconds; None where they are too many."""
    from modellint.discover import SKIPPED

    files: list[tuple[str, int, int]] = []
    pending = [root]
    folders = 0
    while pending:
        folders += 1
        try:
            entries = sorted(os.scandir(pending.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    pending.append(entry.path)
            elif entry.name.endswith((*_CODE, *_CONFIGURATION)):
                try:
                    status = entry.stat()
                except OSError:
                    continue
                if not stat.S_ISREG(status.st_mode):
                    # Reading a pipe would wait for somebody to write.
                    continue
                if entry.name.endswith(_CODE) or status.st_size <= _LARGEST_CONFIGURATION:
                    files.append((entry.path, status.st_size, status.st_mtime_ns))
        if len(files) > _MOST_FILES or folders > _MOST_FILES:
            return None
    return files


def _is_about_the_work(path: str) -> bool:
    """Whether a file tells what has changed, or how to work on the project: it names a class to nobody who builds one."""
    return re.match(_ABOUT_THE_WORK, path.rpartition(os.sep)[2]) is not None


def digest_of_tree(root: str) -> str:
    """What changes as soon as a file of code below a folder does."""
    return _digest(files_below(root))


def _digest(files: list[tuple[str, int, int]] | None) -> str:
    return sha256(repr(sorted(files or ())).encode("utf-8", "surrogatepass")).hexdigest()


class Mentions:
    """The text of all files below a root, to be asked for names."""

    def __init__(self, root: str) -> None:
        files = files_below(root)
        self.is_whole = files is not None
        """Whether all files were looked at: a root may be a home, or a disk."""
        self.digest = _digest(files)
        self._paths = [path for path, _, _ in files or () if path.endswith(_CODE)]
        self._configuration = [
            path for path, _, _ in files or () if not path.endswith(_CODE) and not _is_about_the_work(path)
        ]
        self._texts: dict[str, bytes] = {}
        self._left = _MOST_BYTES
        self._naming: dict[str, list[str]] = {}
        self._kinds: dict[str, list[str]] = {}
        self._asked: Counter[str] = Counter()
        self._words: dict[str, frozenset[bytes]] = {}
        self._using: dict[str, frozenset[str]] = {}
        self._sayings: dict[str, frozenset[str]] = {}
        self._holding: dict[bytes, frozenset[str]] = {}
        self._folders: dict[frozenset[str], frozenset[str]] = {}
        self._names_in: dict[str, list[str]] | None = None

    def naming(self, name: str) -> list[str]:
        """The files that hold a name, in code or elsewhere."""
        if name not in self._naming:
            word = _encoded(name)
            if len(self._naming) >= _FEW and name.isidentifier() and name.isascii():
                self._naming[name] = [self._paths[number] for number in self._inverted.get(word, ())]
            else:
                pattern = _alone(word)
                texts = ((path, self._text(path)) for path in self._paths)
                self._naming[name] = [path for path, text in texts if word in text and pattern.search(text)]
        return self._naming[name]

    @cached_property
    def _inverted(self) -> dict[bytes, array[int]]:
        """The inverted index of all code: the files that hold each word, by their numbers."""
        index: dict[bytes, array[int]] = {}
        for number, path in enumerate(self._paths):
            for word in {*re.findall(rb"\w+", self._text(path))}:
                if word in index:
                    index[word].append(number)
                else:
                    index[word] = array("H", (number,))
        return index

    def code_files(self, kind: str, is_of_it: Callable[[str], bool]) -> list[str]:
        """The files of code of a kind, which their paths tell; looked for once."""
        if kind not in self._kinds:
            self._kinds[kind] = [path for path in self._paths if is_of_it(path)]
        return self._kinds[kind]

    def holds(self, path: str, name: str) -> bool:
        """Whether a file holds a name."""
        word = _encoded(name)
        text = self._text(path)
        self._asked[path] += 1
        if self._asked[path] > _FEW and name.isidentifier() and name.isascii():
            if path not in self._words:
                self._words[path] = frozenset(re.findall(rb"\w+", text))
            return word in self._words[path]
        return word in text and _alone(word).search(text) is not None

    def has_its_own(self, path: str, name: str) -> bool:
        """Whether a file, which need not be read as Python, defines a name and imports none like it."""
        word = _encoded(name)
        text = self._text(path)
        own = re.search(rb"(?m)^(?:class|def) +" + re.escape(word) + rb"(?!\w)", text)
        return own is not None and word not in _imported(text) and b"*" not in _imported(text)

    def importing(self, path: str) -> list[str]:
        """The files that may import a file, by its name."""
        name = import_name(path)
        word = _encoded(name)
        return [other for other in self.naming(name) if other != path and word in _imported(self._text(other))]

    def matches(self, path: str, pattern: re.Pattern[bytes], literal: bytes = b"") -> bool:
        """Whether a pattern is found in a file. A ``literal`` that is a part of it spares most files the search."""
        text = self._text(path)
        return literal in text and pattern.search(text) is not None

    def is_alike(self, path: str, other: str) -> bool:
        """Whether two files have the same text."""
        return self._text(path) == self._text(other) != b""

    def importers(self, path: str, name: str) -> list[str]:
        """The files that may import a function of a file and have it run behind a `forward`, directly or through another file."""
        stem, parent = import_name(path), os.path.basename(os.path.dirname(path))  # noqa: PTH119, PTH120
        if name not in self._using:
            self._using[name] = frozenset(self._bringing_in(_encoded(name)))
        places = {*self._using[name]}
        if stem != parent:
            # `import helpers`, which then says `helpers.count`.
            attribute, saying = b"." + _encoded(name), self._saying(name)
            places.update(
                other
                for other in self._importing.get(_encoded(stem), ())
                if other in saying and attribute in self._text(other)
            )
        places.discard(path)
        parts = _encoded(stem), _encoded(parent)
        if len(self._using) < _FEW:
            return sorted(other for other in places if any(part in self._text(other) for part in parts))
        return sorted(places & (self._with(parts[0]) | self._with(parts[1])))

    def _saying(self, name: str) -> frozenset[str]:
        """The files that hold a name."""
        if name not in self._sayings:
            self._sayings[name] = frozenset(self.naming(name))
        return self._sayings[name]

    def _with(self, part: bytes) -> frozenset[str]:
        """The files of code whose text has a part, be it of a word."""
        if part not in self._holding:
            if part.isascii() and part.decode().isidentifier():
                # It stands in a word, wherever it stands.
                blob, numbers, at = self._vocabulary, set[int](), -1
                while (at := blob.find(part, at + 1)) != -1:
                    start, end = blob.rfind(b"\n", 0, at) + 1, blob.find(b"\n", at)
                    numbers.update(self._inverted[blob[start:end]])
                    at = end
                paths = (self._paths[number] for number in numbers)
            else:
                paths = (path for path in self._paths if part in self._text(path))
            self._holding[part] = frozenset(paths)
        return self._holding[part]

    @cached_property
    def _vocabulary(self) -> bytes:
        return b"\n".join((*self._inverted, b""))

    def _bringing_in(self, word: bytes) -> Iterator[str]:
        """The files that bring in a name, and say it again where they use it, or bring it in by another."""
        renamed = word + b" as "
        for other in self._importing.get(word, ()):
            text = self._text(other)
            if text.count(word) > 1 or renamed in text:
                yield other
        yield from (other for other in self._importing.get(b"*", ()) if word in self._text(other))

    @cached_property
    def _importing(self) -> dict[bytes, list[str]]:
        """The files that bring in a name, or a file of that name; not notebooks, and nothing that leads to no `forward`."""
        words: dict[str, set[bytes]] = {}
        near: set[str] = set()
        for path in self._paths:
            text = self._text(path)
            if path.endswith(".ipynb") or b"import" not in text:
                continue
            words[path] = {*_imported(text)}
            if b"def forward" in text:
                near.update(word.decode("utf-8", "surrogateescape") for word in words[path])
                if b"from ." in text:
                    near.add(os.path.basename(os.path.dirname(path)))  # noqa: PTH119, PTH120
        importing: dict[bytes, list[str]] = {}
        for path, several in words.items():
            text = self._text(path)
            if b"def forward" in text or (b"def " in text and import_name(path) in near):
                for word in several:
                    importing.setdefault(word, []).append(path)
        return importing

    @cached_property
    def called_on_parts(self) -> frozenset[bytes]:
        """The methods that files with a `forward` call on what `self` holds, by name: `self.encoder.encode(x)`."""
        texts = (self._text(path) for path in self._paths if not path.endswith(".ipynb"))
        return frozenset(name for text in texts if b"def forward" in text for name in _CALLED_ON_PART.findall(text))

    def is_called_on_parts(self, name: str) -> bool:
        """Whether a file with a `forward` calls a method of that name on what `self` holds."""
        return _encoded(name) in self.called_on_parts

    def is_in_configuration(self, name: str) -> bool:
        """Whether a file that a program or its reader is told by holds a name."""
        pattern = _alone(_encoded(name))
        return any(pattern.search(self._text(path)) for path in self._configuration)

    def is_configured(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether a pattern is found in a file that a program or its reader is told by."""
        return any(pattern.search(self._text(path)) for path in self._configuration)

    def names_in(self, folder: str) -> list[str]:
        """The names of the files of code in a folder, which is looked for once."""
        if self._names_in is None:
            self._names_in = {}
            for path in self._paths:
                place, name = os.path.split(path)
                self._names_in.setdefault(place, []).append(name)
        return self._names_in.get(folder, [])

    def has_one_module(self, module: str) -> bool:
        """Whether one file alone of the project may be a module of a dotted name, so that no package of that name is likely installed."""
        ends = tuple(os.sep + module.replace(".", os.sep) + end for end in (".py", f"{os.sep}__init__.py"))
        return self.is_whole and len(self.code_files(f"module {module}", lambda path: path.endswith(ends))) == 1

    def has_above(self, path: str, names: frozenset[str]) -> bool:
        """Whether a file of one of some names lies beside a file or in a folder above it, below the root."""
        if names not in self._folders:
            files = (os.path.split(other) for other in (*self._paths, *self._configuration))
            self._folders[names] = frozenset(folder for folder, name in files if name in names)
        folder = os.path.dirname(path)  # noqa: PTH120
        while folder not in self._folders[names]:
            parent = os.path.dirname(folder)  # noqa: PTH120
            if parent == folder:
                return False
            folder = parent
        return True

    def _text(self, path: str) -> bytes:
        text = self._texts.get(path)
        if text is None:
            try:
                with open(path, "rb") as stream:  # noqa: PTH123
                    text = stream.read()
            except OSError:
                text = b""
            if len(text) <= self._left:
                self._left -= len(text)
                self._texts[path] = text
        return text


_CALLED_ON_PART = re.compile(rb"self\.\w+(?:\[[^\]\n]*\])?\.(\w+)\(")
_IMPORT = re.compile(rb"import(?=[ \t(\\])((?:\s*\((?:[^)#]|#[^\n]*\n)*\))|(?:[^\n\\]|\\\r?\n)+)")
# A comment is matched up to its end or not at all: if it could end anywhere, there would be two ways to match each.
_IMPORTED = re.compile(rb"\w+|\*")


def _imported(text: bytes) -> Iterator[bytes]:
    """The words of the imports in a text, or of what looks like them."""
    for match in _IMPORT.finditer(text):
        yield from _IMPORTED.findall(match[1])
        before = text[text.rfind(b"\n", 0, match.start()) + 1 : match.start()]
        if before.lstrip().startswith(b"from"):
            yield from _IMPORTED.findall(before)


def import_name(path: str) -> str:
    """The last part of the name by which a file is imported."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == "__init__.py" else name.partition(".")[0]  # noqa: PTH119


def _encoded(name: str) -> bytes:
    """A name as files hold it: that of a file need not be text."""
    return name.encode("utf-8", "surrogateescape")


def _alone(word: bytes) -> re.Pattern[bytes]:
    """A word that is no part of another."""
    return re.compile(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)")


class Mention(NamedTuple):
    """One place where a file names something: not in an import, an annotation, a test of a class, a comment or ``__all__``."""

    node: ast.AST
    statement: ast.stmt
    around: tuple[ast.stmt, ...]
    """The statements around it, outermost first."""

    @property
    def cls(self) -> ast.ClassDef | None:
        """The innermost class around it."""
        return next((part for part in reversed(self.around) if isinstance(part, ast.ClassDef)), None)

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function around it that stands in no other."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next((part for part in self.around if isinstance(part, kinds)), None)

    @property
    def is_in_test(self) -> bool:
        """Whether it stands in a test."""
        return any(
            isinstance(part, (ast.FunctionDef, ast.ClassDef)) and re.match(r"test_|Test", part.name) is not None
            for part in self.around
        )

    @property
    def is_demonstration(self) -> bool:
        """Whether it stands behind `if __name__ == "__main__"`."""
        return any(isinstance(part, ast.If) and "__name__" in ast.unparse(part.test) for part in self.around)


def mentions_in(file: IndexedFile, name: str) -> list[Mention]:
    """The mentions of a name in a file."""
    text = file.source.text
    starts = once(file.tree, "_words", lambda _: _Words(text)).places(name)
    if not starts:
        return []
    lines = once(file.tree, "_line_starts", lambda _: [0, *(match.end() for match in re.finditer("\n", text))])
    found: list[Mention] = []
    for row in dict.fromkeys(bisect_right(lines, start) for start in starts):
        found += _in_row(file.tree.body, row, name)
    return found


class _Words:
    """Where a text has a word of its own. A text that is asked often is read once for all words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._asked = 0
        self._starts: dict[str, list[int]] | None = None

    def places(self, name: str) -> Sequence[int]:
        """The places of a name."""
        self._asked += 1
        if self._asked <= _FEW or not name.isidentifier():
            return [*_places(name, self._text)]
        if self._starts is None:
            self._starts = {}
            for match in re.finditer(r"\w+", self._text):
                self._starts.setdefault(match[0], []).append(match.start())
        return self._starts.get(name, ())


def _places(name: str, text: str) -> Iterator[int]:
    """Where a text has a name as a word of its own: several times as fast as an expression that looks behind."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not any(part.isalnum() or part == "_" for part in (text[max(start - 1, 0) : start], text[end : end + 1])):
            yield start
        start = text.find(name, end)


def _in_row(body: list[ast.stmt], row: int, name: str) -> Iterator[Mention]:
    around: list[ast.stmt] = []
    pending = body
    while pending:
        at = bisect_right(pending, row, key=_first_row)
        statement = pending[at - 1] if at else None
        # Of several in one row, the first.
        while at > 1 and (pending[at - 2].end_lineno or 0) >= row:
            at -= 1
            statement = pending[at - 1]
        if statement is None or (statement.end_lineno or 0) < row:
            return
        pending = [
            part for block in blocks(statement) for part in block if _first_row(part) <= row <= (part.end_lineno or 0)
        ]
        if pending:
            around.append(statement)
        else:
            for expression in _own_expressions(statement):
                for node in _naming(expression, name):
                    yield Mention(node, statement, tuple(around))


def _first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] | None = getattr(statement, "decorator_list", None)
    return min(statement.lineno, *(part.lineno for part in decorators)) if decorators else statement.lineno


def blocks(statement: ast.stmt | ast.Module) -> Iterator[list[ast.stmt]]:
    """The blocks of statements in a statement, or in a file."""
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for field in ("handlers", "cases"):
        for part in getattr(statement, field, ()):
            yield part.body


def _own_expressions(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement that stand in none of its blocks, without annotations."""
    match statement:
        case ast.ClassDef():
            return [*statement.bases, *statement.decorator_list, *(part.value for part in statement.keywords)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [*statement.args.defaults, *statement.args.kw_defaults]
            return [*statement.decorator_list, *(part for part in defaults if part is not None)]
        case ast.AnnAssign(value=value):
            return [value] if value is not None else []
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return []
        case ast.With() | ast.AsyncWith():
            return [item.context_expr for item in statement.items]
    return [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr)]


def _naming(expression: ast.expr, name: str) -> Iterator[ast.AST]:
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[first, *_]):
                pending.append(first)
                continue
            case ast.Name(id=other) if other == name:
                yield node
            case ast.Attribute(value=owner, attr=other) if other == name:
                if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                    yield node
            case ast.Constant(value=str() as said) if said == name or said.endswith((f".{name}", f":{name}")):
                yield node
            case _:
                pass
        pending.extend(ast.iter_child_nodes(node))

"""Which words stand in a file, in its module classes and outside of them: what rules about code are woken by."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from modellint.rule import Trigger
from modellint.source.project.symbols import ClassRef, Imported
from modellint.source.syntax.ast_walk import Function, functions_in, of_kind, once, reached_from
from modellint.source.triggers.patterns import OF_FORWARD, SIGNS, shows

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.settings import Destination
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

# Twice as fast as `\w`; whatever is not ASCII may be a letter. Told by what it is not: `re` takes 7 ms to compile a range up to
# the last character there is.
_CHAIN = re.compile(r"[^\x00-\x2d/-@\[-^`{-\x7f][^\x00-\x2d/:-@\[-^`{-\x7f]*")
_ANNOTATION_OR_CHOICE = r"(?!\s*(?:None|str|int|float|bool|list|tuple|dict|set|torch\.[A-Z]|[\"'A-Z]))"
_INTEGER = r"(?:negative_slope=|alpha=)?-?\d+\s*[,)]"
_KEPT_DROPOUT = re.compile(r" = [\w.]*Dropout\w*\(")
_LOCAL_TARGET = re.compile(r"[ \t]\w+$")


def _any_of(*patterns: str) -> Callable[[str], bool]:
    """A search for several patterns, one after another: in alternatives `re` cannot look for the plain characters at the start of each."""
    searches = [re.compile(pattern).search for pattern in patterns]
    return lambda text: any(search(text) for search in searches)


_CALLED_DROPOUT = _any_of(r"Dropout\w*\([^()]*\)\(")


def _has_local_dropout(text: str) -> bool:
    """Whether a dropout is called where it is built, or kept by a local variable."""
    return _CALLED_DROPOUT(text) or any(
        _LOCAL_TARGET.search(text, text.rfind("\n", 0, kept.start()) + 1, kept.start())
        for kept in _KEPT_DROPOUT.finditer(text)
    )


# Each starts with plain characters, for which `re` looks fast, if it can.
_SHAPES: dict[str, Callable[[str], object]] = {
    Trigger.SLICE_STEP: re.compile(r"\[[^\]]*:[^\],:]*:").search,
    Trigger.PARTIAL_INDEX: re.compile(r"\[[^\[\]]*(?::[^\[\]]*,|\.\.\.)").search,
    # The first of those behind a bracket, a comma or an indentation counts.
    Trigger.NONE_INDEX: re.compile(r"None(?:(?<=[\[,(]None)|(?<=[\[,(]\sNone)|(?<=\s\sNone))\s*[\],)]").search,
    # Annotations are full of unions; `(x is None) ^ (y is None)` asks for one of two arguments.
    Trigger.BIT_OPERATOR: re.compile(rf"\|{_ANNOTATION_OR_CHOICE}|\^(?<!is None\) \^)|<<|>>(?<!>>>)(?!>)|&=").search,
    # Not `sizes: list[int] = (1, 2)`.
    Trigger.ITEM_WRITE: re.compile(r"^[ \t]*[\w.]+\[[^\n=]*\] ?=(?!=)", re.MULTILINE).search,
    Trigger.DIVIDES_BY_ONE: re.compile(r"(?:%|//)=?\s*\(?1(?:\.0*)?(?![\w.])").search,
    # Sizes and numbers of Python are inverted everywhere: `1 / math.sqrt(d)`.
    Trigger.INVERTS: re.compile(
        r"/(?:(?<=\d/)|(?<=\d /)|(?<=\d\./)|(?<=\d\. /))(?![/=]|\s*(?:math\.|np\.|numpy\.|len\(|float\(|[\d\"']))"
    ).search,
    Trigger.LOCAL_DROPOUT: _has_local_dropout,
    Trigger.ARANGE_OF_FLOATS: re.compile(
        r"arange\((?:[^()]|\([^()]*\))*\bdtype\s*=\s*(?:[\w.]*(?:float|half|double)|[\w.]+\.dtype\b)"
    ).search,
    Trigger.INTEGER_SLOPE: _any_of(
        rf"LU\((?:(?<=eakyReLU\()|(?<=ELU\()){_INTEGER}", rf"lu(?:(?<=leaky_relu)|(?<=\belu))_?\([^\n]*,\s*{_INTEGER}"
    ),
    Trigger.OVERRIDES_MODE: re.compile(r"def (?:train|eval)\(").search,
    # Sizes may be held by a variable, too.
    Trigger.VIEW_AS_DTYPE: re.compile(
        r"view\(\s*(?:dtype\b|torch\b|(?![\w.]*(?:shape|size)\b)[^\W\d][\w.]*\s*,?\s*\))"
    ).search,
}


class Wanted(NamedTuple):
    """What code must hold for a rule to be asked about it."""

    rule: Rule
    words: tuple[frozenset[str], ...]
    """One of each set has to stand there."""
    building: tuple[frozenset[str], ...]
    """Those of them that count wherever they stand in a class."""
    signs: tuple[str, ...]
    spelled: tuple[frozenset[str], ...]
    """The same without marks, but for sets that a shape of the text satisfies."""


def wanted_by(rule: Rule, goal: Destination) -> Wanted:
    """What a rule about ``Code`` needs where the model goes there."""
    needs = [frozenset({need}) if isinstance(need, str) else frozenset(need) for need in rule.needs_for(goal)]
    words = tuple(need for need in needs if not need <= SIGNS)
    building = tuple(frozenset(filter(_matters_in_init, need)) for need in words)
    signs = tuple(sign for need in needs if need <= SIGNS for sign in need)
    spelled = tuple(frozenset(word.lstrip(".~") for word in need) for need in words if need.isdisjoint(_SHAPES))
    return Wanted(rule, words, building, signs, spelled)


def _matters_in_init(word: str) -> bool:
    """Whether a word is one that matters where the object is built: a class, or what registers state."""
    name = word.lstrip(".~")
    return name[:1].isupper() or name in ("register_buffer", "register_parameter", "forward")


class _Place:
    """Classes and functions that may run each other, with the words that they hold and the signs that they show."""

    __slots__ = ("kept", "nodes", "signs", "words")

    def __init__(self, nodes: list[ast.stmt], words: Iterable[frozenset[str]]) -> None:
        self.nodes = nodes
        self.words = frozenset[str]().union(*words)
        self.signs: dict[str, bool] = {}
        self.kept: frozenset[str] | None = None
        """What its constructors mention without calling it, told when it is first asked for."""


class _Chains(dict[str, tuple[str, ...]]):
    """The words of each dotted name, split when it is first met."""

    def __init__(self, file: IndexedFile) -> None:
        super().__init__()
        self.names = file.names

    def __missing__(self, chain: str) -> tuple[str, ...]:
        root, *names = chain.split(".")
        found = [root]
        for binding in self.names.get(root, ()):
            if isinstance(binding, Imported) and binding.name is not None:
                found += (binding.name, "~" + binding.name)
            elif isinstance(binding, ast.Attribute):
                # `_r2c = torch.view_as_complex`
                found += (binding.attr, "." + binding.attr, "~" + binding.attr)
        for name in names:
            if name:
                found += (name, "." + name)
                if root not in ("self", "cls"):
                    found.append("~" + name)
        self[chain] = words = tuple(found)
        return words


class Words:
    """The words of one file, by where they stand.

    ``name``: anywhere; ``.name``: behind a dot; ``~name``: behind a dot but not as an attribute of ``self``, or imported.
    """

    def __init__(self, file: IndexedFile, project: Project, wanted: Iterable[Wanted]) -> None:
        self.file = file
        self.project = project
        self._text = file.source.text
        self._everywhere = {Trigger.NO_FORWARD} if _any_without_forward(file.tree) else set()
        self._chains = _Chains(file)
        self._of: dict[ast.AST, frozenset[str]] = {}
        self._spelled = set(_CHAIN.findall(self._text))
        self._parts = {part for chain in self._spelled for part in chain.split(".")} | self._everywhere
        self._all_wanted = [*wanted]
        self._wanted = [one for one in self._all_wanted if not any(map(self._parts.isdisjoint, one.spelled))]
        """By the rules of which the file holds all words, wherever that is."""

    def asked_in(self, ref: ClassRef) -> list[Rule]:
        """The rules of which a class, its bases in the file or the functions that it may call hold the words and show the signs.

        Of a rule that only asks for what ``forward`` runs, what is called in lower case counts only there.
        """
        if not self._wanted:
            return []
        place = self._place(self._reachable(ref))
        run: _Place | None = None
        found: list[Rule] = []
        for wanted in self._wanted:
            if any(map(place.words.isdisjoint, wanted.words)):
                continue
            of = place
            if wanted.rule.only_forward:
                if run is None:
                    run = self._place(self._run_by_forward(place.nodes))
                if not run.nodes or not self._runs(wanted, run, place):
                    continue
                of = run
            if self._shows_all(wanted, place, of):
                found.append(wanted.rule)
        return found

    def asked_outside(self) -> list[Rule]:
        """The rules of which the functions and classes that are no modules hold the words and show the signs."""
        wanted = [one for one in self._wanted if not one.rule.only_modules]
        if not wanted:
            return []
        nodes: list[ast.stmt] = [
            node
            for node in self.file.tree.body
            if isinstance(node, ast.ClassDef) and not self.project.is_module(ClassRef(self.file, node, ()))
        ]
        place = self._place([*nodes, *self._functions])
        return [
            one.rule
            for one in wanted
            if not any(map(place.words.isdisjoint, one.words)) and self._shows_all(one, place, place)
        ]

    def asked_abroad(self, may_be_run: Callable[[Function], bool]) -> dict[Function, list[Rule]]:
        """The functions of which modules of other files, if they may have them run, have rules ask, with these rules.

        That is those about what ``forward`` runs of which the function, or what it names in its file, holds the words and shows the
        signs. A function that a class of the file names is read with it.
        """
        wanted = [_abroad(one) for one in self._all_wanted if one.rule.only_inference] if self.file.functions else []
        wanted = [one for one in wanted if not any(map(self._parts.isdisjoint, one.spelled))]
        functions = [*self.file.functions.values()] if wanted else []
        everywhere = self._place([*functions]).words
        wanted = [one for one in wanted if not any(map(everywhere.isdisjoint, one.words))]
        asked: dict[Function, list[Rule]] = {}
        for function in filter(may_be_run, functions if wanted else ()):
            place = self._place(self._named_by(function))
            rules = [
                one.rule
                for one in wanted
                if not any(map(place.words.isdisjoint, one.words)) and self._shows_all(one, place, place)
            ]
            if rules:
                asked[function] = rules
        return asked

    def asked_of_entries(self, ref: ClassRef, may_be_run: Callable[[str], bool]) -> dict[Function, list[Rule]]:
        """The methods of a class by which other modules may enter it beside its `forward`, with the rules that ask about them.

        What `forward` itself runs is read with it.
        """
        own = [function for function in functions_in([ref.node]) if not function.name.startswith("__")]
        own = [function for function in own if function.name != "forward"]
        if not own:
            return {}
        wanted = [_abroad(one) for one in self._all_wanted if one.rule.only_inference]
        wanted = [one for one in wanted if not any(map(self._parts.isdisjoint, one.spelled))]
        if not wanted:
            return {}
        nodes = self._reachable(ref)
        place = self._place(nodes)
        wanted = [one for one in wanted if not any(map(place.words.isdisjoint, one.words))]
        run = {*self._run_by_forward(nodes)} if wanted else set()
        own = [function for function in own if function not in run]
        if not wanted or len(own) > _MOST_ENTRIES:
            return {}
        asked: dict[Function, list[Rule]] = {}
        functions = functions_in(nodes)
        for function in own:
            reached = self._place([*reached_from([function], functions)])
            rules = [
                one.rule for one in wanted if self._runs(one, reached, place) and self._shows_all(one, place, reached)
            ]
            # Who is asked last: the answer rests on all files.
            if rules and may_be_run(function.name):
                asked[function] = rules
        return asked

    def is_named_by_classes(self, name: str) -> bool:
        """Whether a class of the file names a function."""
        return any(name in self._in(node) for node in self.file.tree.body if isinstance(node, ast.ClassDef))

    def _named_by(self, function: Function) -> list[ast.stmt]:
        """A function, and those of the file that it names, and so on."""
        nodes: list[ast.stmt] = [function]
        for node in nodes:
            nodes += (
                other
                for name in _in_both(self.file.functions, self._in(node))
                if (other := self.file.functions[name]) not in nodes
            )
        return nodes

    def asked_anywhere(self) -> list[Rule]:
        """The rules of which the file holds the words, wherever that is."""
        words = self._words(self._text) | self._everywhere if self._wanted else frozenset()
        return [wanted.rule for wanted in self._wanted if not any(map(words.isdisjoint, wanted.words))]

    def _shows_all(self, wanted: Wanted, place: _Place, run: _Place) -> bool:
        return all(self._shows(sign, place, run) for sign in wanted.signs)

    def _shows(self, sign: str, place: _Place, run: _Place) -> bool:
        """Whether all that may run each other, of which ``forward`` runs a part, shows a sign."""
        known = run.signs if sign in OF_FORWARD else place.signs
        if sign not in known:
            known[sign] = shows(sign, self.file, place.nodes, run.nodes)
        return known[sign]

    def _place(self, nodes: list[ast.stmt]) -> _Place:
        return _Place(nodes, map(self._in, nodes))

    def _run_by_forward(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """The functions that ``forward`` may run, by the names that they hold; none without a ``forward``."""
        left = functions_in(nodes)
        found = [function for function in left if function.name == "forward"]
        left = [function for function in left if function.name != "forward"]
        kept = {name for function in left if function.name == "__init__" for name in self._kept_by(function, left)}
        if found and kept:
            # `self.pick = pick`: what building keeps, `forward` may call.
            found.extend(function for function in left if function.name in kept)
            left = [function for function in left if function.name not in kept]
        named: dict[str, list[Function]] = {}
        for function in left:
            named.setdefault(function.name, []).append(function)
        order = {function: at for at, function in enumerate(left)}
        for function in found:
            more = [other for name in _in_both(named, self._in(function)) for other in named.pop(name)]
            found.extend(sorted(more, key=order.__getitem__))
        return [*found]

    def _runs(self, wanted: Wanted, run: _Place, place: _Place) -> bool:
        """Whether what ``forward`` runs holds the words, or the class those that count wherever they stand."""
        return all(
            not run.words.isdisjoint(words) or not place.words.isdisjoint(building) or self._keeps(words, place)
            for words, building in zip(wanted.words, wanted.building, strict=True)
        )

    def _keeps(self, words: frozenset[str], place: _Place) -> bool:
        """Whether a constructor may keep one of some words for ``forward``: `self.act = F.celu`, `mode="bicubic"`."""
        present = words & place.words
        if not present or present <= _SHAPES.keys():
            return False
        if place.kept is None:
            inits = [function for function in functions_in(place.nodes) if function.name == "__init__"]
            place.kept = frozenset[str]().union(*(once(init, "_kept_words", _mentions) for init in inits))
        return any(word.lstrip(".~") in place.kept for word in present)

    def _kept_by(self, init: ast.stmt, functions: Sequence[Function]) -> set[str]:
        """The functions that ``__init__`` mentions without calling them."""
        names = {function.name for function in functions} & self._in(init)
        if not names:
            return names
        called = {call.func for call in of_kind(init, ast.Call)}
        mentioned = {node.id for node in of_kind(init, ast.Name) if node not in called}
        mentioned.update(node.attr for node in of_kind(init, ast.Attribute) if node not in called)
        return mentioned & names

    def _reachable(self, ref: ClassRef) -> list[ast.stmt]:
        """A class, its bases in the file, and the functions that they name, and so on."""
        found: list[ast.stmt] = [one.node for one in self.project.lineage(ref) if one.file is self.file]
        left = {node.name: node for node in self._functions}
        order = {name: at for at, name in enumerate(left)}
        for node in found:
            found.extend(left.pop(name) for name in sorted(_in_both(left, self._in(node)), key=order.__getitem__))
        return found

    @cached_property
    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Those at the top of the file, also in `if` and `try`, and the methods that are called by their class's name."""
        found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        classes: dict[str, ast.ClassDef] = {}
        for node in _at_top(self.file.tree.body):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(node)
        for chain in self._spelled:
            owner, _, name = chain.partition(".")
            if name and owner in classes:
                found.extend(one for one in functions_in([classes[owner]]) if one.name == name.partition(".")[0])
        return found

    def _in(self, node: ast.stmt) -> frozenset[str]:
        found = self._of.get(node)
        if found is None:
            methods = functions_in([node]) if isinstance(node, ast.ClassDef) else []
            if not any(method.name == "forward" for method in methods):
                # Only of a class that runs is it asked what stands in each of its methods.
                methods = []
            own = self._words(self._text_of(node, methods))
            found = self._of[node] = own.union(self._everywhere, *map(self._in, methods))
        return found

    def _text_of(self, node: ast.stmt, without: Sequence[ast.stmt]) -> str:
        """The lines of a node but for its docstring and some of the statements in it."""
        starts = self.file.source.line_starts
        skipped = [part for part in (_docstring(node, self._text, starts),) if part is not None]
        skipped += without
        found, row = [], node.lineno
        for part in skipped:
            found.append(self._text[starts[row - 1] : starts[part.lineno - 1]])
            row = (part.end_lineno or part.lineno) + 1
        end = node.end_lineno or node.lineno
        if row <= end:
            found.append(self._text[starts[row - 1] : starts[end] if end < len(starts) else None])
        return "".join(found)

    @cached_property
    def _shapes(self) -> list[tuple[str, Callable[[str], object]]]:
        """The shapes that the file has somewhere."""
        return [(shape, has) for shape, has in _SHAPES.items() if has(self._text)]

    def _words(self, text: str) -> frozenset[str]:
        chains = set(_CHAIN.findall(text))
        found = {shape for shape, has in self._shapes if has(text)}
        found.update(*map(self._chains.__getitem__, chains))
        if self.file.stars or "import" in chains:
            for chain in chains:
                root, dot, _ = chain.partition(".")
                if not dot or root in ("self", "cls"):
                    found.add("~" + root)
        return frozenset(found)


def _abroad(wanted: Wanted) -> Wanted:
    """The same for functions that a ``forward`` of another file runs: the word itself stands there."""
    of_forward = frozenset({"forward"})
    kept = [need != of_forward for need in wanted.words]
    words = tuple(compress(wanted.words, kept))
    building = tuple(compress(wanted.building, kept))
    return wanted._replace(
        words=words, building=building, spelled=tuple(need for need in wanted.spelled if need != of_forward)
    )


def _at_top(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those that stand in blocks of them."""
    for node in nodes:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _at_top(part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt))
            for handler in getattr(node, "handlers", ()):
                yield from _at_top(handler.body)


def _mentions(init: Function) -> frozenset[str]:
    """What a constructor names without calling it, and the words of its strings."""
    called = {call.func for call in of_kind(init, ast.Call)}
    names = {node.attr for node in of_kind(init, ast.Attribute) if node not in called}
    names.update(node.id for node in of_kind(init, ast.Name) if node not in called)
    texts = (part.value for part in of_kind(init, ast.Constant) if isinstance(part.value, str))
    return frozenset(names.union(*(re.findall(r"\w+", text) for text in texts if len(text) < _LONGEST)))


_MOST_ENTRIES = 64
"""Methods that `forward` does not run: of a class with more none is read as others may enter it, for the time that this takes."""
_LONGEST = 40
"""A longer string is no name of a mode."""


def _docstring(node: ast.stmt, text: str, starts: list[int]) -> ast.stmt | None:
    """The docstring of a function or class, where it has its lines to itself."""
    match getattr(node, "body", ()):
        case [ast.Expr(value=ast.Constant(value=str())) as first, *rest]:
            start = starts[first.lineno - 1]
            alone = not rest or rest[0].lineno > (first.end_lineno or first.lineno)
            return first if alone and not text[start : start + first.col_offset].strip() else None
    return None


def _any_without_forward(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_last(base) == "Module" for base in node.bases):
            names = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if not names & {"forward", "__call__", "__new__"}:
                return True
    return False


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _in_both(one: Collection[str], other: Collection[str]) -> list[str]:
    """What two collections share, in the time that the smaller takes."""
    small, large = sorted((one, other), key=len)
    return [name for name in small if name in large]

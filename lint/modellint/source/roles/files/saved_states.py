"""Saved states: what the files of a project save with `torch.save`, under which names, and what of it lies on the CPU by then."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import blocks
from modellint.source.project.symbols import ClassRef, External, FunctionRef, dotted_name
from modellint.source.roles.files.file_name_templates import HOLE, has_words, is_alike, may_be_one, names_of, values_of
from modellint.source.syntax.ast_walk import called_name, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Maker: TypeAlias = tuple[str, int]
"""Where a class or function of the project stands."""
_MOST_FILES = 100
"""In more files than these nobody looks for what they save."""
_MOST_SAVES = 200
_SAVE = re.compile(rb"(?<![\w.])(?:\w+\.)?save\(")
_TO_CPU = re.compile(rb"\.cpu\(\)|['\"]cpu['\"]")
_OTHER_SAVERS = re.compile(rb"(?i)ModelCheckpoint|lightning|accelerat|deepspeed|save_pretrained|keras")
"""Words of those who save checkpoints themselves."""
_MOST_CALLERS = 24
"""In more files than these nobody looks for who calls a function."""
_ON_ITSELF = frozenset({"eval", "train", "requires_grad_"})
"""Methods of a module that return it, where it is."""


class Save(NamedTuple):
    """One call that saves something."""

    names: frozenset[str]
    """How the file is called, with holes."""
    is_on_cpu: bool
    """Whether it is the state of a module that is on the CPU by then."""
    maker: _Maker | None
    """What made the module."""


class SavedStates:
    """What a project saves, as one of its files sees it: that file may hold another text than the disk."""

    def __init__(self, saves: Iterable[Save]) -> None:
        self._saves = [*dict.fromkeys(saves)]
        self._on_cpu = [save for save in self._saves if save.is_on_cpu]
        self._others = [save for save in self._saves if not save.is_on_cpu]
        self._known: dict[frozenset[str], bool] = {}

    def have_names_on_cpu(self, names: frozenset[str]) -> bool:
        """Whether something is saved from the CPU under names that are built like these, and nothing else under any that may be one."""
        if len(self._saves) > _MOST_SAVES:
            return False
        if names not in self._known:
            self._known[names] = self._look_for(names)
        return self._known[names]

    def _look_for(self, names: frozenset[str]) -> bool:
        own = frozenset(name for save in self._on_cpu for name in save.names)
        others = frozenset(name for save in self._others for name in save.names)
        return all(any(is_alike(name, other) for other in own) for name in names) and not any(
            may_be_one(name, other) for other in others for name in names
        )

    def have_makers_on_cpu(self, makers: set[_Maker | None]) -> bool:
        """Whether the state of modules that are made alike is saved from the CPU, and never from elsewhere."""
        on_cpu = {save.maker for save in self._on_cpu}
        if not makers or None in makers or not on_cpu or not (None in on_cpu or makers <= on_cpu):
            return False
        return all(save.maker is not None and save.maker not in makers for save in self._others)

    def are_all_on_cpu(self, names: frozenset[str], makers: set[_Maker | None]) -> bool:
        """Whether all that is saved is saved from the CPU, and may be what is loaded, as far as names and makers tell."""
        on_cpu = {save.maker for save in self._on_cpu}
        if not self._on_cpu or self._others or not (None in on_cpu or makers - {None} <= on_cpu):
            return False
        own = {name for save in self._on_cpu for name in save.names}
        return all(not has_words(name) or any(is_alike(name, other) for other in own) for name in names)


def is_saved_on_cpu(
    project: Project, file: IndexedFile, path: ast.expr, function: ast.AST | None, takers: Iterable[ast.expr]
) -> bool:
    """Whether every place of a project that may save what a function loads from a path moves it to the CPU before.

    There is such a place: it saves under a name that is built alike, or, where the names tell nothing, the state of modules that
    are made like the ``takers`` of what is loaded. Where the path may lead anywhere, it may be any place of the project.
    """
    elsewhere = _saves_elsewhere(project, file)
    around = function if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    states = once(file.tree, "_saved_states", lambda _: SavedStates((*_own_saves(project, file), *elsewhere)))
    names = frozenset(names_of(path, around, file))
    if states.have_names_on_cpu(names):
        return True
    makers = {_maker_of(project, file, taker, around) for taker in takers}
    if states.have_makers_on_cpu(makers):
        return True
    if not states.are_all_on_cpu(names, makers) or _may_save_otherwise(project):
        return False
    if around is None:
        return True
    given = _names_given(project, around)
    return given is not None and all(states.are_all_on_cpu(names, makers) for names in given)


def _may_save_otherwise(project: Project) -> bool:
    """Whether a file of a project names somebody who saves checkpoints without `torch.save`."""
    return project.remembered(("other savers",), lambda: _find_other_savers(project))


def _find_other_savers(project: Project) -> bool:
    project.touch_tree()
    mentions = project.mentions
    return not mentions.is_whole or any(mentions.matches(path, _OTHER_SAVERS) for path in mentions.naming("torch"))


def _names_given(project: Project, function: _Function) -> list[frozenset[str]] | None:
    """How the files may be called that calls of a function give it, in whatever argument; None where not all calls are seen."""
    return project.remembered(("names given", function.name), lambda: _find_names_given(project, function.name))


def _find_names_given(project: Project, name: str) -> list[frozenset[str]] | None:
    project.touch_tree()
    paths = project.mentions.naming(name)
    if len(paths) > _MOST_CALLERS:
        return None
    given: list[frozenset[str]] = []
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None:
            return None
        for call in of_kind(file.tree, ast.Call):
            if called_name(call) == name:
                values = (*call.args, *(word.value for word in call.keywords))
                given += (frozenset(names_of(value, None, file)) for value in values)
    return given


def _saves_elsewhere(project: Project, file: IndexedFile) -> Iterator[Save]:
    """What other files of a project save."""
    saves = project.remembered(("saved states",), lambda: _find_saves(project))
    return (save for path, several in saves if path != file.path for save in several)


def _find_saves(project: Project) -> list[tuple[str, list[Save]]]:
    """What each file of a project saves; nothing where none of those that save moves anything to the CPU."""
    project.touch_tree()
    mentions = project.mentions
    paths = (
        [path for path in mentions.naming("torch") if mentions.matches(path, _SAVE, b"save(")]
        if mentions.is_whole
        else []
    )
    if not any(mentions.matches(path, _TO_CPU) for path in paths):
        return [(path, [_UNKNOWN]) for path in paths]
    if len(paths) > _MOST_FILES:
        return [("", [_UNKNOWN])]
    saves: list[tuple[str, list[Save]]] = []
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        # Nobody knows what the cells of a notebook, and files that Python does not read, save.
        saves.append((path, _own_saves(project, file) if file is not None else [_UNKNOWN]))
    return saves


_UNKNOWN = Save(frozenset({HOLE}), False, None)


def _own_saves(project: Project, file: IndexedFile) -> list[Save]:
    return once(file.tree, "_own_saves", lambda _: [*_saves_in(project, file)])


def _saves_in(project: Project, file: IndexedFile) -> Iterator[Save]:
    calls = [part for part in of_kind(file.tree, ast.Call) if called_name(part) == "save"]
    if len(calls) > _MOST_SAVES:
        yield _UNKNOWN
        return
    places: dict[ast.Call, _Function] = {}
    functions: list[_Function] = [*of_kind(file.tree, ast.FunctionDef), *of_kind(file.tree, ast.AsyncFunctionDef)]
    for part in functions if calls else ():
        # Of functions that stand in each other the inner one comes last.
        places.update(dict.fromkeys(of_kind(part, ast.Call), part))
    for call in calls:
        state, path = _arguments(call)
        if state is None or path is None or not _saves_state(project, file, call, state):
            continue
        function = places.get(call)
        place = _Place(file, function)
        owner = _owner_of(state, place)
        yield Save(
            frozenset(names_of(path, function, file)),
            place.is_on_cpu(state, place.statement_of(call)),
            _maker_of(project, file, owner, function) if owner is not None else None,
        )


def _arguments(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """What a call saves, and where."""
    words = {word.arg: word.value for word in call.keywords}
    first = call.args[0] if call.args else words.get("obj")
    second = call.args[1] if len(call.args) > 1 else words.get("f")
    return first, second


def _saves_state(project: Project, file: IndexedFile, call: ast.Call, state: ast.expr) -> bool:
    """Whether a call is `torch.save`, or another that saves the state of a module."""
    dotted = dotted_name(call.func)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    if isinstance(symbol, External) and symbol.name == "torch.save":
        return True
    return any(isinstance(part, ast.Attribute) and part.attr == "state_dict" for part in walk(state))


def _owner_of(state: ast.expr, place: _Place) -> ast.expr | None:
    """The one module whose state an expression is or holds."""
    if isinstance(state, ast.Name):
        state = place.value_of(state.id)[0] or state
    owners = [
        part.func.value
        for part in walk(state)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "state_dict"
    ]
    return owners[0] if len(owners) == 1 else None


class _Place:
    """A function, or the top of a file, in which modules are moved."""

    def __init__(self, file: IndexedFile, function: _Function | None) -> None:
        self.file = file
        self.function = function
        self._scope: _Function | ast.Module = function if function is not None else file.tree

    @property
    def _statements(self) -> dict[ast.stmt, tuple[ast.stmt, ...]]:
        """The statements of the place, in the order of the text, each with those around it."""
        return once(self._scope, "_statements_within", lambda scope: dict(_statements(scope.body, ())))

    @property
    def _moves(self) -> dict[str, list[tuple[ast.stmt, bool]]]:
        """The statements of the place that move a module, or bind another, by its name, and whether they move it to the CPU."""
        return once(self._scope, "_moves_of_modules", lambda _: self._find_moves())

    def _find_moves(self) -> dict[str, list[tuple[ast.stmt, bool]]]:
        moves: dict[str, list[tuple[ast.stmt, bool]]] = {}
        for statement in self._statements:
            for name, is_to_cpu in _moved_by(statement):
                moves.setdefault(name, []).append((statement, is_to_cpu))
        return moves

    def statement_of(self, node: ast.expr) -> ast.stmt | None:
        """The statement of the place that an expression stands in."""
        statements = once(self._scope, "_rows_of_statements", lambda _: [*self._statements])
        at = bisect_right(statements, node.lineno, key=lambda statement: statement.lineno)
        return statements[at - 1] if at else None

    def value_of(self, name: str) -> tuple[ast.expr | None, ast.stmt | None]:
        """What a variable is bound to, once, and by which statement of the place."""
        local = self.file.bound_in(self.function) if self.function is not None else None
        if local is not None and name in local.parameters:
            return None, None
        is_local = local is not None and name in local.locals
        values: Sequence[object] = (
            local.locals[name] if local is not None and is_local else self.file.names.get(name, ())
        )
        if len(values) != 1 or not isinstance(values[0], ast.expr):
            return None, None
        return values[0], self.statement_of(values[0]) if is_local or local is None else None

    def is_on_cpu(self, state: ast.expr, at: ast.stmt | None) -> bool:
        """Whether what a statement saves is the state of a module that is on the CPU, or a module that is."""
        match state:
            case ast.Call(func=ast.Attribute(value=owner, attr="state_dict")):
                return self._holds_cpu(owner, at)
            case ast.DictComp(value=part):
                return _is_to_cpu(part) is True
            case ast.Call(args=[ast.GeneratorExp(elt=pair) | ast.ListComp(elt=pair)]):
                return isinstance(pair, ast.Tuple) and len(pair.elts) == 2 and _is_to_cpu(pair.elts[1]) is True
            case ast.Dict(values=values):
                parts = [part for part in values if not isinstance(part, ast.Constant)]
                return bool(parts) and all(self.is_on_cpu(part, at) for part in parts)
            case ast.Name(id=name):
                value, statement = self.value_of(name)
                is_before = statement is not None and at is not None and statement.lineno < at.lineno
                if value is not None and is_before and self.is_on_cpu(value, statement):
                    return True
                return self._is_moved_by_loop(name, at) or self._holds_cpu(state, at)
        return self._holds_cpu(state, at)

    def _is_moved_by_loop(self, name: str, at: ast.stmt | None) -> bool:
        """Whether a loop before a statement moves all that a dict holds: ``for key in state: state[key] = state[key].cpu()``."""
        for loop in self._statements:
            if loop is at:
                return False
            match loop:
                case ast.For(body=[ast.Assign(targets=[ast.Subscript(value=ast.Name(id=target))], value=value)]):
                    if target == name and _is_to_cpu(value) is True and _is_over(loop.iter, name):
                        return self._comes_before(loop, at)
        return False

    def _holds_cpu(self, owner: ast.expr, at: ast.stmt | None) -> bool:
        """Whether a module is moved to the CPU in an expression, or by a statement that always comes before another."""
        names: list[str] = []
        while True:
            names.append(ast.unparse(owner))
            match owner:
                case ast.Call(func=ast.Attribute(value=inner, attr=method)):
                    moved = _is_to_cpu(owner)
                    if moved is not None:
                        return moved
                    if method not in _ON_ITSELF:
                        return False
                    owner = inner
                case ast.Attribute(value=inner, attr="module"):
                    owner = inner
                case _:
                    break
        order = once(
            self._scope, "_order_of_statements", lambda _: {part: i for i, part in enumerate(self._statements)}
        )
        if at not in order:
            return False
        moves = [move for name in names for move in self._moves.get(name, ()) if order[move[0]] < order[at]]
        is_on_cpu = False
        for statement, is_to_cpu in sorted(moves, key=lambda move: order[move[0]]):
            is_on_cpu = is_to_cpu and (is_on_cpu or self._comes_before(statement, at))
        return is_on_cpu

    def _comes_before(self, statement: ast.stmt, at: ast.stmt | None) -> bool:
        """Whether a statement has been run when another is, unless there is no GPU."""
        if at is None:
            return False
        places = {at, *self._statements[at]}
        while True:
            around = self._statements[statement]
            block = _block_of(statement, around[-1] if around else self._scope)
            if not places.isdisjoint(block):
                return True
            if not around or not self._is_run_with_a_gpu(statement, around[-1]):
                return False
            statement = around[-1]

    def _is_run_with_a_gpu(self, statement: ast.stmt, around: ast.stmt) -> bool:
        """Whether a statement is run together with the one around it, at least where there is a GPU."""
        match around:
            case ast.With():
                return True
            case ast.If(test=ast.Name(id=name), body=body):
                test = self.value_of(name)[0]
            case ast.If(test=test, body=body):
                pass
            case _:
                return False
        is_asked = isinstance(test, ast.Call) and not test.args and ast.unparse(test.func).endswith("cuda.is_available")
        return is_asked and statement in body


def _statements(body: list[ast.stmt], around: tuple[ast.stmt, ...]) -> Iterator[tuple[ast.stmt, tuple[ast.stmt, ...]]]:
    """The statements of a block, in the order of the text, but for those of functions and classes in it."""
    for statement in body:
        yield statement, around
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in blocks(statement):
                yield from _statements(block, (*around, statement))


def _block_of(statement: ast.stmt, around: ast.stmt | ast.Module) -> list[ast.stmt]:
    return next((block for block in blocks(around) if statement in block), [])


def _moved_by(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    """The modules that a statement moves, or binds, and whether it moves them to the CPU."""
    match statement:
        case ast.Expr(value=value):
            names: list[ast.expr] = []
        case ast.Assign(targets=names, value=value):
            pass
        case _:
            return
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _ON_ITSELF:
        value = value.func.value
    is_to_cpu = _is_to_cpu(value)
    if is_to_cpu is not None and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        # A module is moved in its place.
        names = [*names, value.func.value]
    for name in names:
        if not isinstance(name, (ast.Name, ast.Attribute)):
            continue
        yield ast.unparse(name), is_to_cpu is True
        if isinstance(name, ast.Attribute) and name.attr == "module":
            yield ast.unparse(name.value), is_to_cpu is True


def _is_to_cpu(value: ast.expr) -> bool | None:
    """Whether a call moves what it is a method of to the CPU; None where it does not move it."""
    match value:
        case ast.Call(func=ast.Attribute(attr="cpu")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[device, *_]):
            return _is_cpu(device)
        case ast.Call(func=ast.Attribute(attr="to"), keywords=[ast.keyword(arg="device", value=device)]):
            return _is_cpu(device)
        case ast.Call(func=ast.Attribute(attr="to" | "cuda" | "xpu" | "ipu")):
            return False
    return None


def _is_cpu(device: ast.expr) -> bool:
    match device:
        case ast.Constant(value="cpu"):
            return True
        case ast.Call(args=[ast.Constant(value="cpu")]):
            return called_name(device) == "device"
    return False


def _is_over(iterated: ast.expr, name: str) -> bool:
    """Whether a loop goes through a dict: itself, its keys or its items."""
    match iterated:
        case ast.Name(id=other):
            return other == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr="keys" | "items"), args=[]):
            return other == name
        case ast.Call(func=ast.Name(id="list"), args=[inner]):
            return _is_over(inner, name)
    return False


def _maker_of(project: Project, file: IndexedFile, module: ast.expr, function: _Function | None) -> _Maker | None:
    """What of the project makes the module that an expression stands for, by def-use in its file."""
    module = _moved_module(module)
    name = ast.unparse(module)
    values = [
        _moved_module(value) if isinstance(value, ast.expr) else None for value in values_of(module, function, file)
    ]
    makers: set[_Maker | None] = set()
    for value in values:
        dotted = dotted_name(value.func) if isinstance(value, ast.Call) else None
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if isinstance(symbol, (ClassRef, FunctionRef)):
            makers.add((symbol.file.path, symbol.node.lineno))
        elif value is None or ast.unparse(value) != name:
            makers.add(None)
    return makers.pop() if len(makers) == 1 else None


def _moved_module(module: ast.expr) -> ast.expr:
    """The module that an expression moves, or the one that a `DataParallel` holds; else what it is given."""
    while True:
        match module:
            case ast.Attribute(value=inner, attr="module"):
                module = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if (
                method in _ON_ITSELF or _is_to_cpu(module) is not None
            ):
                module = inner
            case _:
                return module

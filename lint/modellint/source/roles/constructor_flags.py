"""Constructor flags: branches of a module that stand under an argument of its constructor which everyone in the project leaves out.

An argument is followed from the attribute that it is bound to (``self.measure = measure``) through what subclasses hand on to all
constructions of the class; an attribute that is bound to one constant (``self.mode = "bilinear"``), and to nothing else in the project,
is that. Nothing is told where one of these is not understood, or where nobody in the project builds the class.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests, is_path_of_tests
from modellint.source.roles.constructor_fallback_ranks import asked_rank, filled_rank, substitute
from modellint.source.roles.dead_code.dynamic_lookup import is_only_a_word
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 6
"""How many constructors hand an argument on to each other."""
_MOST_FILES = 40
"""What more files than these name is not followed."""
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OF_TORCH = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:BatchNorm[123]d|SyncBatchNorm|_BatchNorm)")


class _Untold:
    """What stands for an argument of which nothing is known, or that is left out."""


_UNKNOWN: Final = _Untold()
_LEFT_OUT: Final = _Untold()
_WRITTEN: Final = _Untold()
"""What stands for a list, tuple, dict or set that a call writes down: it is not None, and may be empty."""
_Told: TypeAlias = object


class _Insisted(NamedTuple):
    """What stands for an argument without which a constructor raises: `if not deep: raise NotImplementedError`."""

    on: bool


class _Parameter(NamedTuple):
    """An argument of a constructor: its name, its place among those that are given by place, and its default."""

    name: str
    place: int | None
    default: _Told

    @property
    def is_flag(self) -> bool:
        """Whether it is True, False or None where it is left out."""
        return self.default is None or isinstance(self.default, bool)


_TRACKS = _Parameter("track_running_stats", 4, True)
"""Of PyTorch's batch normalization, which has no other switch that a branch asks for."""


def is_switched_off(project: Project, ref: ClassRef, function: ast.AST | None, row: int) -> bool:
    """Whether a row of a method is reached in training only, or with a flag only that no construction in the project switches on."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    flags = _Flags(project, ref)
    if any(flags.truth(test) is (not holds) for test, holds in conditions_at(function.body, row)):
        return True
    project.touch_tree()
    return once(function, "_is_called_when_off", lambda _: _is_called_when_off(flags, function))


def _is_called_when_off(flags: _Flags, function: _Function) -> bool:
    """Whether a method is only called by others of its class, where that is switched off: `if self.mode == "mask": self.up(x)`."""
    ref, name = flags.ref, function.name
    if name.startswith("__") or name == "forward":
        return False
    calls = [
        (caller, call)
        for caller in functions_in([ref.node])
        for call in of_kind(caller, ast.Call)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "self"
    ]
    named = sum(part.attr == name for part in of_kind(ref.file.tree, ast.Attribute))
    if not calls or named > len(calls) or any(caller is function for caller, _ in calls):
        return False
    if not all(
        any(flags.truth(test) is (not holds) for test, holds in conditions_at(caller.body, call.lineno))
        for caller, call in calls
    ):
        return False
    mentions = flags.project.mentions
    return mentions.is_whole and set(mentions.naming(name)) <= {ref.file.path}


def flag_truth(project: Project, ref: ClassRef, test: ast.expr) -> bool | None:
    """What a condition on flags of the constructor is while the model does not train, in all the project; None where that is not known."""
    return _Flags(project, ref).truth(test)


def is_never_built(project: Project, ref: ClassRef, function: ast.AST | None, row: int) -> bool:
    """Whether a row of a constructor is reached with an argument only that no construction in the project gives, or without one only."""
    if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
        return False
    flags = _Flags(project, ref, function)
    return any(flags.truth(test) is (not holds) for test, holds in conditions_at(function.body, row))


def keeps_default(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether an argument of a constructor has a default that everyone in the project who builds the class leaves as it is."""
    known: dict[str, bool] = once(ref.node, "_keeps_default", lambda _: {})
    if name not in known:
        init = _own_init(ref)
        parameter = _parameter(init, name, computed=True) if init is not None else None
        known[name] = (
            parameter is not None
            and init is not None
            and not _rebinds(init, name)
            and _Flags(project, ref).keeps(parameter, init)
        )
    project.touch_tree()
    return known[name]


def is_left_none(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether an argument of a constructor is None in all the project, where somebody builds the class."""
    return _Flags(project, ref, _own_init(ref)).argument(name) is None


def _is_same(one: _Told, other: _Told) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, (str, int, float)) and one == other)


def _ends(body: Sequence[ast.stmt]) -> list[tuple[int, ast.expr, bool]]:
    """The branches that end before what follows: their last row, what they ask, and whether that holds behind them."""
    ends: list[tuple[int, ast.expr, bool]] = []
    for statement in body:
        if isinstance(statement, ast.If):
            leaves = [bool(block) and isinstance(block[-1], _EXITS) for block in (statement.body, statement.orelse)]
            if leaves[0] is not leaves[1]:
                ends.append((statement.end_lineno or 0, statement.test, leaves[1]))
    return ends


def conditions_at(body: Sequence[ast.stmt], row: int) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions that hold, or do not, where a row of statements is reached; those of branches that end before it too."""
    if not body:
        return
    for end, test, holds in once(body[0], "_ends_before", lambda _: _ends(body)):
        if end >= row:
            break
        yield test, holds
    # Only one statement holds the row: a long body is not gone through for each.
    at = bisect_right(body, row, key=lambda statement: statement.lineno)
    for statement in body[max(at - 1, 0) : at]:
        if (statement.end_lineno or 0) < row:
            continue
        if isinstance(statement, ast.If):
            if (statement.test.end_lineno or 0) < row:
                holds = row <= (statement.body[-1].end_lineno or 0)
                yield statement.test, holds
                yield from conditions_at(statement.body if holds else statement.orelse, row)
            return
        for field in ("body", "orelse", "finalbody"):
            yield from conditions_at(getattr(statement, field, ()), row)
        for field in ("handlers", "cases"):
            for part in getattr(statement, field, ()):
                yield from conditions_at(part.body, row)
        return


class _Flags:
    """The flags of one class: attributes of its objects that are one constant in all the project."""

    def __init__(self, project: Project, ref: ClassRef, init: _Function | None = None) -> None:
        self.project = project
        self.ref = ref
        self.init = init
        """The constructor whose arguments are asked for by their names, if it is one that runs."""

    def truth(self, test: ast.expr) -> bool | None:
        """What a condition is while the model does not train; None where that depends on more than flags."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                ends = isinstance(op, ast.Or)
                truths = [self.truth(value) for value in values]
                return ends if ends in truths else None if None in truths else not ends
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id="self"), attr=name),
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None | bool() | str() as wanted)],
            ):
                value = self.value(name)
                return None if value is _UNKNOWN else _is_same(value, wanted) is isinstance(op, (ast.Is, ast.Eq))
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None | bool() as wanted)],
            ):
                value = self.argument(name)
                return None if value is _UNKNOWN else (value is wanted) is isinstance(op, (ast.Is, ast.Eq))
            case ast.Name(id=name):
                value = self.argument(name)
                return None if value is _UNKNOWN or value is _WRITTEN else bool(value)
            case ast.Attribute(value=ast.Name(id="self"), attr="training"):
                return False
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                value = self.value(name)
                return None if value is _UNKNOWN else bool(value)
        asked = asked_rank(test)
        rank = self.rank(asked.attribute) if asked is not None else None
        return asked.holds(rank) if asked is not None and rank is not None else None

    def rank(self, attribute: str) -> int | None:
        """The number of dimensions of what an attribute is where an argument is None, as it is in all the project; None if not known."""
        ranks: dict[str, int | None] = once(self.ref.node, "_default_ranks", lambda _: {})
        if attribute not in ranks:
            ranks[attribute] = None
            ranks[attribute] = self._look_up_rank(attribute)
        self.project.touch_tree()
        return ranks[attribute]

    def _look_up_rank(self, attribute: str) -> int | None:
        lineage = self.project.lineage(self.ref)
        binding = [at for at, ref in enumerate(lineage) if next(_bound(ref.node, attribute), _UNKNOWN) is not _UNKNOWN]
        if len(binding) != 1 or any(len(ref.node.bases) > 1 for ref in lineage):
            return None
        end = binding[0]
        init = _own_init(lineage[end])
        bound = substitute(init, attribute) if init is not None else None
        parameter = _parameter(init, bound.argument) if init is not None and bound is not None else None
        if init is None or bound is None or parameter is None or parameter.default is not None:
            return None
        rank = filled_rank(self.project, lineage[end].file, bound.instead)
        if rank is None or _rebinds(init, bound.argument):
            return None
        value = self._argument(lineage[:end], lineage[end], parameter, 0)
        if value is not None and value is not _LEFT_OUT:
            return None
        # What the constructor binds it to is known; a method that binds it anew is no constructor.
        own = [function for function in functions_in([lineage[end].node]) if function is not init]
        rebound = any(
            part.attr == attribute and not isinstance(part.ctx, ast.Load)
            for function in own
            for part in of_kind(function, ast.Attribute)
        )
        return None if rebound or self._is_written(attribute, lineage) else rank

    def value(self, attribute: str) -> _Told:
        """The constant that an attribute is in all the project; of an argument True, False or None."""
        flags: dict[str, _Told] = once(self.ref.node, "_flags", lambda _: {})
        if attribute not in flags:
            flags[attribute] = _UNKNOWN
            value = self._look_up(attribute)
            if value is _UNKNOWN and _is_handed_down(self.project, self.ref, attribute):
                value = False
            flags[attribute] = value
        self.project.touch_tree()
        return flags[attribute]

    def argument(self, name: str) -> _Told:
        """True, False or None, or something that is written down, where an argument of the constructor is that in all the project."""
        init = self.init
        if init is None or init is not _own_init(self.ref):
            return _UNKNOWN
        told: dict[str, _Told] = once(init, "_arguments", lambda _: {})
        if name not in told:
            parameter = _parameter(init, name)
            told[name] = _UNKNOWN
            if parameter is not None and parameter.is_flag and not _rebinds(init, name):
                value = self._built(self.ref, parameter, 0, needed=True)
                told[name] = value if value is parameter.default or value is _WRITTEN else _UNKNOWN
        self.project.touch_tree()
        return told[name]

    def keeps(self, parameter: _Parameter, init: _Function) -> bool:
        """Whether no construction of the class gives an argument another value than its default, and nothing writes what is bound to it."""
        if not _is_same(self._built(self.ref, parameter, 0, needed=False), parameter.default):
            return False
        lineage = self.project.lineage(self.ref)
        bound = [
            target.attr
            for assign in of_kind(init, ast.Assign)
            if isinstance(assign.value, ast.Name) and assign.value.id == parameter.name
            for target in assign.targets
            if isinstance(target, ast.Attribute)
        ]
        return not any(
            self._is_written(attribute, lineage) or sum(1 for ref in lineage for _ in _bound(ref.node, attribute)) > 1
            for attribute in bound
        )

    def _look_up(self, attribute: str) -> _Told:
        lineage = self.project.lineage(self.ref)
        if any(len(ref.node.bases) > 1 or attribute in ref.file.members(ref.node) for ref in lineage):
            return _UNKNOWN
        binders = [(at, bound) for at, ref in enumerate(lineage) for bound in _bound(ref.node, attribute)]
        if not binders and any(_is_zero_buffer(ref.node, attribute) for ref in lineage):
            return False if self._is_only_asked(attribute) else _UNKNOWN
        if not binders:
            base = self.project.bases(lineage[-1])
            if attribute != _TRACKS.name or not (
                len(base) == 1 and isinstance(base[0], External) and _OF_TORCH.fullmatch(base[0].name)
            ):
                return _UNKNOWN
            parameter, end = _TRACKS, len(lineage)
        else:
            end, bound = binders[0]
            init = _own_init(lineage[end])
            if len(binders) == 1 and isinstance(bound, ast.Constant) and isinstance(bound.value, (bool, str)):
                return _UNKNOWN if self._is_written(attribute, lineage) else bound.value
            if len(binders) > 1 or init is None or not isinstance(bound, ast.Name):
                return _UNKNOWN
            known = _parameter(init, bound.id)
            if known is None or _rebinds(init, bound.id):
                return _UNKNOWN
            parameter = known
        if not parameter.is_flag:
            return _UNKNOWN
        value = self._argument(lineage[:end], lineage[end] if binders else None, parameter, 0)
        if isinstance(value, _Insisted):
            value = value.on
        elif value is _LEFT_OUT or value is parameter.default:
            value = parameter.default
        else:
            return _UNKNOWN
        return _UNKNOWN if self._is_written(attribute, lineage) else value

    def _argument(self, subclasses: list[ClassRef], owner: ClassRef | None, parameter: _Parameter, depth: int) -> _Told:
        """What a constructor is given for an argument by all that make an object of the first of its subclasses, or of it."""
        if depth > _DEEPEST:
            return _UNKNOWN
        for at in range(len(subclasses) - 1, -1, -1):
            init = _own_init(subclasses[at])
            if init is None:
                continue
            calls = [call for call in of_kind(init, ast.Call) if _is_super_init(call)]
            if len(calls) != 1:
                return _UNKNOWN
            value = _passed(calls[0], parameter, init)
            if not isinstance(value, _Parameter):
                return value
            return _or_default(self._argument(subclasses[:at], subclasses[at], value, depth + 1), value)
        first = subclasses[0] if subclasses else owner
        return self._built(first, parameter, depth, needed=True) if first is not None else _UNKNOWN

    def _built(self, ref: ClassRef, parameter: _Parameter, depth: int, *, needed: bool) -> _Told:
        """What all constructions of a class and of its subclasses give for an argument, if that is one thing."""
        if depth > _DEEPEST or ref.within or ref.node.decorator_list or _makes_itself(ref.node):
            return _UNKNOWN
        mentions = self._mentions(ref)
        if mentions is None:
            return _UNKNOWN
        if self.project.mentions.is_in_configuration(ref.node.name) and self.project.mentions.is_in_configuration(
            parameter.name
        ):
            return _UNKNOWN
        values: list[_Told] = []
        is_built = not needed
        for mention, file in mentions:
            # What a test switches on is no part of what is exported.
            if _is_name_for_super(mention) or mention.is_in_test or is_in_tests(self.project, file):
                continue
            value = _or_default(self._of_mention(mention, file, ref, parameter, depth), parameter)
            if value is _UNKNOWN or any(not _is_same(value, other) for other in values):
                return _UNKNOWN
            values.append(value)
            is_built = is_built or not (mention.is_demonstration or isinstance(mention.statement, ast.ClassDef))
        if values and not is_built:
            is_built = any(
                self._of_mention(mention, file, ref, parameter, depth, needed=True) is not _UNKNOWN
                for mention, file in mentions
                if isinstance(mention.statement, ast.ClassDef) and not _is_name_for_super(mention)
            )
        return (values[0] if values else parameter.default) if is_built else _UNKNOWN

    def _of_mention(
        self,
        mention: Mention,
        file: IndexedFile,
        ref: ClassRef,
        parameter: _Parameter,
        depth: int,
        *,
        needed: bool = False,
    ) -> _Told:
        """What a mention gives for an argument; of a class that derives from it, if that is built where it is ``needed``."""
        statement = mention.statement
        if isinstance(statement, ast.ClassDef):
            if mention.node not in statement.bases or statement not in file.tree.body:
                return _UNKNOWN
            sub = ClassRef(file, statement)
            init = _own_init(sub)
            if len(statement.bases) > 1:
                return _UNKNOWN
            if init is None:
                return self._built(sub, parameter, depth + 1, needed=needed)
            calls = [call for call in of_kind(init, ast.Call) if _is_super_init(call)]
            value = _passed(calls[0], parameter, init) if len(calls) == 1 else _UNKNOWN
            if not isinstance(value, _Parameter):
                # Who builds it gives no such argument.
                return _UNKNOWN if needed and self._built(sub, parameter, depth + 1, needed=True) is _UNKNOWN else value
            return _or_default(self._built(sub, value, depth + 1, needed=needed), value)
        call = next(
            (part for part in ast.walk(statement) if isinstance(part, ast.Call) and part.func is mention.node), None
        )
        if call is None:
            return _UNKNOWN
        function = mention.function
        if sum(isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) for part in mention.around) > 1:
            function = None
        owner = mention.cls
        value = _passed(call, parameter, function)
        if not isinstance(value, _Parameter):
            return value
        if owner is None or function is None or function.name != "__init__" or owner not in file.tree.body:
            return _UNKNOWN
        if owner is ref.node:
            return _UNKNOWN
        insisted = once(function, "_insisted", _insisted).get(value.name)
        if insisted is not None:
            return _Insisted(insisted)
        return _or_default(self._built(ClassRef(file, owner), value, depth + 1, needed=False), value)

    def _mentions(self, ref: ClassRef) -> list[tuple[Mention, IndexedFile]] | None:
        """Where the project names a class; None where a file is not read, or binds it to another name."""
        self.project.touch_tree()
        whole = self.project.mentions
        paths = [path for path in whole.naming(ref.node.name) if not is_path_of_tests(self.project, path)]
        if not whole.is_whole or len(paths) > _MOST_FILES:
            return None
        mentions: list[tuple[Mention, IndexedFile]] = []
        for path in dict.fromkeys((ref.file.path, *paths)):
            file = (
                ref.file if path == ref.file.path else self.project.file(path) if not path.endswith(".ipynb") else None
            )
            if file is None or _renames(file, ref.node.name):
                return None
            mentions += (
                (mention, file)
                for mention in mentions_in(file, ref.node.name)
                if not self._is_of_another(mention, file, ref) and not is_only_a_word(self.project, mention, file)
            )
        return mentions

    def _is_of_another(self, mention: Mention, place: IndexedFile, ref: ClassRef) -> bool:
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        if not isinstance(symbol, (ClassRef, FunctionRef)):
            return False
        return (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)

    def _is_written(self, attribute: str, lineage: list[ClassRef]) -> bool:
        """Whether something in the project but the constructor may write an attribute of an object."""
        self.project.touch_tree()
        paths = self.project.mentions.naming(attribute)
        if not self.project.mentions.is_whole or len(paths) > _MOST_FILES:
            return True
        keys = {ref.key for ref in lineage}
        own = self.ref.file
        for path in dict.fromkeys((own.path, *paths)):
            file = own if path == own.path else self.project.file(path) if not path.endswith(".ipynb") else None
            if file is None:
                return True
            if any(self._may_be_of(owner, file, keys) for owner in _writers(file, attribute)):
                return True
        return False

    def _is_only_asked(self, attribute: str) -> bool:
        """Whether all that the project does with attributes of a name is to ask whether they are true."""
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = mentions.naming(attribute)
        if not mentions.is_whole or len(paths) > _MOST_FILES or mentions.is_in_configuration(attribute):
            return False
        files = [None if path.endswith(".ipynb") else self.project.file(path) for path in paths]
        return all(file is not None and _only_asks(file, attribute) for file in files)

    def _may_be_of(self, owner: ast.ClassDef | None, file: IndexedFile, keys: set[tuple[str, int, int]]) -> bool:
        """Whether what a class writes to `self` may be written to an object of another: a subclass of it, as the rest is known."""
        if owner is None:
            return True
        ref = ClassRef(file, owner)
        return ref.key not in keys and self.ref.key in {other.key for other in self.project.lineage(ref)}


class _Places(NamedTuple):
    """Of one name in a file: the constructors that it is a switch of, with its place, and whether another's attribute is set."""

    switches: list[tuple[ast.ClassDef | None, _Function, int | None]]
    is_put_on_another: bool


def _is_handed_down(project: Project, ref: ClassRef, attribute: str) -> bool:
    """Whether an attribute is False in all the project but its tests: its name is given nothing but its default, and itself.

    That holds by induction where one module hands it to another: ``self.model.slow = self.slow``, and ``self.slow = slow`` of an
    argument that is False by default, which all who build that module leave out.
    """
    init = _own_init(ref)
    if init is None or not any(_is_off(ref.file, value, attribute) for value in _bound(ref.node, attribute)):
        return False
    project.touch_tree()
    mentions = project.mentions
    paths = [path for path in mentions.naming(attribute) if not is_path_of_tests(project, path)]
    if not mentions.is_whole or len(paths) > _MOST_FILES or mentions.is_in_configuration(attribute):
        return False
    switches: list[tuple[IndexedFile, ast.ClassDef | None, _Function, int | None]] = []
    is_put_on_another = False
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        places = _places_in(file, attribute) if file is not None else None
        if file is None or places is None:
            return False
        switches += [(file, *switch) for switch in places.switches]
        is_put_on_another = is_put_on_another or places.is_put_on_another
    return is_put_on_another and bool(switches) and all(_is_left_out_of(project, *switch) for switch in switches)


def _is_off(file: IndexedFile, value: ast.expr | None, name: str) -> bool:
    """Whether a value is False where whatever has a name is: ``name or NEVER``."""
    match value:
        case ast.Constant(value=False):
            return True
        case ast.Name(id=other) | ast.Attribute(attr=other) if other == name:
            return True
        case ast.Name(id=other):
            bindings = file.names.get(other, ())
            return len(bindings) == 1 and isinstance(bindings[0], ast.Constant) and bindings[0].value is False
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.Or) else any)(_is_off(file, part, name) for part in values)
    return False


def _places_in(file: IndexedFile, name: str) -> _Places | None:
    return once(file.tree, f"_handed_{name}", lambda _: _places(file, name))


def _places(file: IndexedFile, name: str) -> _Places | None:
    """Where a file has a name for a switch; None where it gives it anything but False, or what has its name."""
    tree = file.tree
    if any(part.value == name for part in of_kind(tree, ast.Constant)):
        return None
    if any(part.arg == name and not _is_off(file, part.value, name) for part in of_kind(tree, ast.keyword)):
        return None
    plain: set[ast.expr] = set()
    put = False
    for part in of_kind(tree, ast.Assign):
        for target in part.targets:
            if isinstance(target, ast.Attribute) and target.attr == name:
                if not _is_off(file, part.value, name):
                    return None
                plain.add(target)
                put = put or not (isinstance(target.value, ast.Name) and target.value.id == "self")
    stores = [part for part in of_kind(tree, ast.Attribute) if part.attr == name and not isinstance(part.ctx, ast.Load)]
    names = [part for part in of_kind(tree, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Load)]
    if names or any(part not in plain for part in stores):
        return None
    owners = {function: cls for cls in of_kind(tree, ast.ClassDef) for function in functions_in([cls])}
    switches: list[tuple[ast.ClassDef | None, _Function, int | None]] = []
    functions: list[_Function] = [*of_kind(tree, ast.FunctionDef), *of_kind(tree, ast.AsyncFunctionDef)]
    for function in functions:
        if _takes(function, name):
            parameter = _parameter(function, name)
            if parameter is None or parameter.default is not False:
                return None
            switches.append((owners.get(function), function, parameter.place))
    return _Places(switches, put)


def _is_left_out_of(
    project: Project, file: IndexedFile, owner: ast.ClassDef | None, function: _Function, place: int | None
) -> bool:
    """Whether some who are no tests build the class of a constructor, and none gives it the argument at a place but False."""
    if owner is None or function.name != "__init__" or owner not in file.tree.body:
        return False
    mentions = project.mentions
    paths = [path for path in mentions.naming(owner.name) if not is_path_of_tests(project, path)]
    if len(paths) > _MOST_FILES:
        return False
    is_built = False
    for path in paths:
        other = None if path.endswith(".ipynb") else project.file(path)
        if other is None or _renames(other, owner.name):
            return False
        for call in of_kind(other.tree, ast.Call):
            name = called_name(call)
            if name not in (owner.name, "__init__", "cls", "super"):
                continue
            placed = call.args[place : place + 1] if place is not None else []
            spread = any(isinstance(part, ast.Starred) for part in call.args) or any(
                word.arg is None for word in call.keywords
            )
            if name == owner.name and spread:
                return False
            if any(not (isinstance(part, ast.Constant) and part.value is False) for part in placed):
                return False
            is_built = is_built or name == owner.name
    return is_built


def _writers(file: IndexedFile, attribute: str) -> Iterator[ast.ClassDef | None]:
    """The classes that write an attribute of `self`; None where it is written to something else."""
    owners = {id(node): cls for cls in of_kind(file.tree, ast.ClassDef) for node in of_kind(cls, ast.Attribute)}
    for node in of_kind(file.tree, ast.Attribute):
        if node.attr == attribute and not isinstance(node.ctx, ast.Load):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield owners.get(id(node)) if is_own else None
    for call in of_kind(file.tree, ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=name), _]) if name == attribute:
                yield None


def _bound(node: ast.ClassDef, attribute: str) -> Iterator[ast.expr | None]:
    """What a class binds an attribute of its objects to; None where that is no plain assignment in its constructor."""
    for function in functions_in([node]):
        for part in of_kind(function, ast.Attribute):
            if part.attr != attribute or isinstance(part.ctx, ast.Load):
                continue
            plain = (
                *(each.value for each in of_kind(function, ast.Assign) if each.targets == [part]),
                *(each.value for each in of_kind(function, ast.AnnAssign) if each.target is part),
            )
            yield plain[0] if plain and function.name == "__init__" else None


def _insisted(init: _Function) -> dict[str, bool]:
    """The arguments without which, or with which, a constructor always raises, and whether it has to be given them."""
    insisted: dict[str, bool] = {}
    for statement in init.body:
        match statement:
            case ast.Assert(test=test):
                on = True
            case ast.If(test=test, body=[*_, ast.Raise()]):
                on = False
            case ast.If(test=test, orelse=[*_, ast.Raise()]):
                on = True
            case _:
                continue
        match test:
            case ast.Name(id=name):
                insisted[name] = on
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                insisted[name] = not on
    return {name: on for name, on in insisted.items() if _takes(init, name) and not _rebinds(init, name)}


def _is_zero_buffer(node: ast.ClassDef, name: str) -> bool:
    """Whether a class registers a buffer of zeros: ``self.register_buffer("learn", torch.zeros(1))``."""
    return any(
        called_name(call) == "register_buffer"
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == name
        and isinstance(call.args[1], ast.Call)
        and dotted_name(call.args[1].func) == "torch.zeros"
        for call in of_kind(node, ast.Call)
        if len(call.args) > 1
    )


def _only_asks(file: IndexedFile, attribute: str) -> bool:
    """Whether a file asks attributes of a name for their truth alone, and has the name in no strings but for the buffers themselves."""
    named = sum(part.value == attribute for part in of_kind(file.tree, ast.Constant))
    tests = [part.test for part in of_kind(file.tree, ast.If)] + [part.test for part in of_kind(file.tree, ast.IfExp)]
    asked = {id(part) for test in tests for part in _parts_of(test)}
    return named == sum(_is_zero_buffer(cls, attribute) for cls in of_kind(file.tree, ast.ClassDef)) and all(
        id(part) in asked for part in of_kind(file.tree, ast.Attribute) if part.attr == attribute
    )


def _parts_of(test: ast.expr) -> Iterator[ast.expr]:
    """A condition, and what it joins or turns round."""
    yield test
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts_of(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts_of(operand)


def _own_init(ref: ClassRef) -> _Function | None:
    return next((function for function in functions_in([ref.node]) if function.name == "__init__"), None)


def _parameter(function: _Function, name: str, *, computed: bool = False) -> _Parameter | None:
    """An argument of a constructor that has a constant for its default, or any; the object itself does not count."""
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = [*([None] * (len(placed) - len(arguments.defaults))), *arguments.defaults]
    for at, (argument, default) in enumerate(zip(placed, defaults, strict=True)):
        if argument.arg == name and default is not None and (computed or isinstance(default, ast.Constant)):
            return _Parameter(name, at - 1, _default(default))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name and default is not None and (computed or isinstance(default, ast.Constant)):
            return _Parameter(name, None, _default(default))
    return None


def _default(node: ast.expr) -> _Told:
    """A default: what a constant is, and the expression itself where it is computed."""
    return node.value if isinstance(node, ast.Constant) else node


def _passed(call: ast.Call, parameter: _Parameter, function: _Function | None) -> _Told:
    """What a call gives for an argument: a constant, an argument of the function around it, or that it is left out."""
    value: ast.expr | None = None
    if parameter.place is not None:
        before = call.args[: parameter.place + 1]
        if any(isinstance(part, ast.Starred) for part in before):
            return _UNKNOWN
        value = before[parameter.place] if len(before) > parameter.place else None
    spread: ast.expr | None = None
    for keyword in call.keywords:
        if keyword.arg is None:
            spread = keyword.value
        elif keyword.arg == parameter.name:
            value = keyword.value
    match value:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name) if function is not None and not _rebinds(function, name):
            outer = _parameter(function, name)
            return outer if outer is not None else _UNKNOWN
        case ast.List() | ast.Tuple() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return _WRITTEN
        case ast.expr():
            return _UNKNOWN
    if spread is None:
        return _LEFT_OUT
    rest = function.args.kwarg if function is not None else None
    if function is None or rest is None or not isinstance(spread, ast.Name) or spread.id != rest.arg:
        return _UNKNOWN
    names = [part for part in of_kind(function, ast.Name) if part.id == rest.arg]
    if len(names) > 1 or _takes(function, parameter.name):
        # What is taken out of it, or put into it, is not followed.
        return _LEFT_OUT if _takes(function, parameter.name) and len(names) == 1 else _UNKNOWN
    return _Parameter(parameter.name, None, parameter.default)


def _takes(function: _Function, name: str) -> bool:
    arguments = function.args
    return name in {part.arg for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _or_default(value: _Told, parameter: _Parameter) -> _Told:
    return parameter.default if value is _LEFT_OUT else value


def _rebinds(function: _Function, name: str) -> bool:
    return any(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(function, ast.Name))


def _is_super_init(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
    return False


def _is_name_for_super(mention: Mention) -> bool:
    """Whether a class is named only to ask for its base: `super(Net, self)`."""
    return any(
        isinstance(part, ast.Call) and called_name(part) == "super" and mention.node in part.args
        for part in ast.walk(mention.statement)
    )


def _makes_itself(node: ast.ClassDef) -> bool:
    """Whether a class makes objects of itself without its name: `cls(x)`, `type(self)(x)`."""
    return any(
        (isinstance(call.func, ast.Name) and call.func.id == "cls")
        or (isinstance(call.func, ast.Attribute) and call.func.attr == "__class__")
        or (isinstance(call.func, ast.Call) and called_name(call.func) == "type")
        for call in of_kind(node, ast.Call)
    )


def _renames(file: IndexedFile, name: str) -> bool:
    """Whether a file imports a class by another name."""
    aliases = of_kind(file.tree, ast.alias)
    return any(alias.name == name and alias.asname not in (None, name) for alias in aliases)

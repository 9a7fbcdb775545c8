"""Values of constructor arguments: what all constructions of a class and of its subclasses in the project give for one of them.

An argument is followed through what subclasses hand on to all constructions of the class. Nothing is told where one of these is not
understood, or where nobody in the project builds the class.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests, is_path_of_tests
from modellint.source.roles.dead_code.dynamic_lookup import is_only_a_word
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 6
"""How many constructors hand an argument on to each other."""
MOST_FILES = 40
"""What more files than these name is not followed."""


class _Untold:
    """What stands for an argument of which nothing is known, or that is left out."""


UNKNOWN: Final = _Untold()
"""What stands for an argument of which nothing is known."""
LEFT_OUT: Final = _Untold()
"""What stands for an argument that a call leaves out."""
WRITTEN: Final = _Untold()
"""What stands for a list, tuple, dict or set that a call writes down: it is not None, and may be empty."""
Told: TypeAlias = object
"""A constant, an argument of the function around, or one of these."""


class Insisted(NamedTuple):
    """What stands for an argument without which a constructor raises: `if not deep: raise NotImplementedError`."""

    on: bool


class Parameter(NamedTuple):
    """An argument of a constructor: its name, its place among those that are given by place, and its default."""

    name: str
    place: int | None
    default: Told

    @property
    def is_flag(self) -> bool:
        """Whether it is True, False or None where it is left out."""
        return self.default is None or isinstance(self.default, bool)


def is_same(one: Told, other: Told) -> bool:
    """Whether two values are the same constant."""
    return one is other or (type(one) is type(other) and isinstance(one, (str, int, float)) and one == other)


def value_from_subclasses(
    project: Project, subclasses: list[ClassRef], owner: ClassRef | None, parameter: Parameter, depth: int
) -> Told:
    """What a constructor is given for an argument by all that make an object of the first of its subclasses, or of it."""
    if depth > _DEEPEST:
        return UNKNOWN
    for at in range(len(subclasses) - 1, -1, -1):
        init = own_init(subclasses[at])
        if init is None:
            continue
        calls = [call for call in of_kind(init, ast.Call) if _is_super_init(call)]
        if len(calls) != 1:
            return UNKNOWN
        value = _passed(calls[0], parameter, init)
        if not isinstance(value, Parameter):
            return value
        return _or_default(value_from_subclasses(project, subclasses[:at], subclasses[at], value, depth + 1), value)
    first = subclasses[0] if subclasses else owner
    return value_in_constructions(project, first, parameter, depth, needed=True) if first is not None else UNKNOWN


def value_in_constructions(project: Project, ref: ClassRef, parameter: Parameter, depth: int, *, needed: bool) -> Told:
    """What all constructions of a class and of its subclasses give for an argument, if that is one thing."""
    if depth > _DEEPEST or ref.within or ref.node.decorator_list or _makes_itself(ref.node):
        return UNKNOWN
    mentions = _mentions(project, ref)
    if mentions is None:
        return UNKNOWN
    if project.mentions.is_in_configuration(ref.node.name) and project.mentions.is_in_configuration(parameter.name):
        return UNKNOWN
    values: list[Told] = []
    is_built = not needed
    for mention, file in mentions:
        # What a test switches on is no part of what is exported.
        if _is_name_for_super(mention) or mention.is_in_test or is_in_tests(project, file):
            continue
        value = _or_default(_of_mention(project, mention, file, ref, parameter, depth), parameter)
        if value is UNKNOWN or any(not is_same(value, other) for other in values):
            return UNKNOWN
        values.append(value)
        is_built = is_built or not (mention.is_demonstration or isinstance(mention.statement, ast.ClassDef))
    if values and not is_built:
        is_built = any(
            _of_mention(project, mention, file, ref, parameter, depth, needed=True) is not UNKNOWN
            for mention, file in mentions
            if isinstance(mention.statement, ast.ClassDef) and not _is_name_for_super(mention)
        )
    return (values[0] if values else parameter.default) if is_built else UNKNOWN


def _of_mention(
    project: Project,
    mention: Mention,
    file: IndexedFile,
    ref: ClassRef,
    parameter: Parameter,
    depth: int,
    *,
    needed: bool = False,
) -> Told:
    """What a mention gives for an argument; of a class that derives from it, if that is built where it is ``needed``."""
    statement = mention.statement
    if isinstance(statement, ast.ClassDef):
        if mention.node not in statement.bases or statement not in file.tree.body:
            return UNKNOWN
        sub = ClassRef(file, statement)
        init = own_init(sub)
        if len(statement.bases) > 1:
            return UNKNOWN
        if init is None:
            return value_in_constructions(project, sub, parameter, depth + 1, needed=needed)
        calls = [call for call in of_kind(init, ast.Call) if _is_super_init(call)]
        value = _passed(calls[0], parameter, init) if len(calls) == 1 else UNKNOWN
        if not isinstance(value, Parameter):
            # Who builds it gives no such argument.
            return (
                UNKNOWN
                if needed and value_in_constructions(project, sub, parameter, depth + 1, needed=True) is UNKNOWN
                else value
            )
        return _or_default(value_in_constructions(project, sub, value, depth + 1, needed=needed), value)
    call = next(
        (part for part in ast.walk(statement) if isinstance(part, ast.Call) and part.func is mention.node), None
    )
    if call is None:
        return UNKNOWN
    function = mention.function
    if sum(isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) for part in mention.around) > 1:
        function = None
    owner = mention.cls
    value = _passed(call, parameter, function)
    if not isinstance(value, Parameter):
        return value
    if owner is None or function is None or function.name != "__init__" or owner not in file.tree.body:
        return UNKNOWN
    if owner is ref.node:
        return UNKNOWN
    insisted = once(function, "_insisted", _insisted).get(value.name)
    if insisted is not None:
        return Insisted(insisted)
    return _or_default(value_in_constructions(project, ClassRef(file, owner), value, depth + 1, needed=False), value)


def _mentions(project: Project, ref: ClassRef) -> list[tuple[Mention, IndexedFile]] | None:
    """Where the project names a class; None where a file is not read, or binds it to another name."""
    project.touch_tree()
    whole = project.mentions
    paths = [path for path in whole.naming(ref.node.name) if not is_path_of_tests(project, path)]
    if not whole.is_whole or len(paths) > MOST_FILES:
        return None
    mentions: list[tuple[Mention, IndexedFile]] = []
    for path in dict.fromkeys((ref.file.path, *paths)):
        file = ref.file if path == ref.file.path else project.file(path) if not path.endswith(".ipynb") else None
        if file is None or renames(file, ref.node.name):
            return None
        mentions += (
            (mention, file)
            for mention in mentions_in(file, ref.node.name)
            if not _is_of_another(project, mention, file, ref) and not is_only_a_word(project, mention, file)
        )
    return mentions


def _is_of_another(project: Project, mention: Mention, place: IndexedFile, ref: ClassRef) -> bool:
    dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
    symbol = project.resolve(place, dotted) if dotted is not None else None
    if not isinstance(symbol, (ClassRef, FunctionRef)):
        return False
    return (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)


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
    return {name: on for name, on in insisted.items() if takes(init, name) and not rebinds(init, name)}


def own_init(ref: ClassRef) -> _Function | None:
    """The constructor that a class itself defines."""
    return next((function for function in functions_in([ref.node]) if function.name == "__init__"), None)


def parameter_of(function: _Function, name: str, *, computed: bool = False) -> Parameter | None:
    """An argument of a constructor that has a constant for its default, or any; the object itself does not count."""
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = [*([None] * (len(placed) - len(arguments.defaults))), *arguments.defaults]
    for at, (argument, default) in enumerate(zip(placed, defaults, strict=True)):
        if argument.arg == name and default is not None and (computed or isinstance(default, ast.Constant)):
            return Parameter(name, at - 1, _default(default))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name and default is not None and (computed or isinstance(default, ast.Constant)):
            return Parameter(name, None, _default(default))
    return None


def _default(node: ast.expr) -> Told:
    """A default: what a constant is, and the expression itself where it is computed."""
    return node.value if isinstance(node, ast.Constant) else node


def _passed(call: ast.Call, parameter: Parameter, function: _Function | None) -> Told:
    """What a call gives for an argument: a constant, an argument of the function around it, or that it is left out."""
    value: ast.expr | None = None
    if parameter.place is not None:
        before = call.args[: parameter.place + 1]
        if any(isinstance(part, ast.Starred) for part in before):
            return UNKNOWN
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
        case ast.Name(id=name) if function is not None and not rebinds(function, name):
            outer = parameter_of(function, name)
            return outer if outer is not None else UNKNOWN
        case ast.List() | ast.Tuple() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return WRITTEN
        case ast.expr():
            return UNKNOWN
    if spread is None:
        return LEFT_OUT
    rest = function.args.kwarg if function is not None else None
    if function is None or rest is None or not isinstance(spread, ast.Name) or spread.id != rest.arg:
        return UNKNOWN
    names = [part for part in of_kind(function, ast.Name) if part.id == rest.arg]
    if len(names) > 1 or takes(function, parameter.name):
        # What is taken out of it, or put into it, is not followed.
        return LEFT_OUT if takes(function, parameter.name) and len(names) == 1 else UNKNOWN
    return Parameter(parameter.name, None, parameter.default)


def takes(function: _Function, name: str) -> bool:
    """Whether a function has an argument of a name."""
    arguments = function.args
    return name in {part.arg for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _or_default(value: Told, parameter: Parameter) -> Told:
    return parameter.default if value is LEFT_OUT else value


def rebinds(function: _Function, name: str) -> bool:
    """Whether a function binds a name anew."""
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


def renames(file: IndexedFile, name: str) -> bool:
    """Whether a file imports a class by another name."""
    aliases = of_kind(file.tree, ast.alias)
    return any(alias.name == name and alias.asname not in (None, name) for alias in aliases)

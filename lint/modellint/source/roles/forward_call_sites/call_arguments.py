"""Arguments of calls: what all call sites in the project give for an argument of a `forward`, a method or a function, or that none does.

An argument that such a call hands on is followed to the calls around it. Nothing is told where nobody in the project calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import mentions_in
from modellint.source.project.symbols import ClassRef, External, IndexedFile, dotted_name
from modellint.source.roles.forward_call_sites.call_sites import MOST_FILES, Calls, Site
from modellint.source.roles.training_code import infers_elsewhere, is_told_answers
from modellint.source.roles.training_parts import is_training_hook, methods_of_forward
from modellint.source.roles.uninterpreted_class import UnreadClass
from modellint.source.syntax.ast_walk import of_kind, once
from modellint.source.syntax.path_conditions import conditions_at

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 4
"""How many calls hand an argument on to each other."""
_GRADIENT_MODES = frozenset({"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.autograd.no_grad"})


def is_left_out(project: Project, ref: ClassRef, function: _Function, row: int) -> bool:
    """Whether a row of a method is reached only with an argument that is None or False by default, and that no call gives."""
    if function.name != "forward" and (function.name.startswith("__") or function.decorator_list):
        return False
    calls = Calls(project)
    return any(_is_left_at_default(calls, ref, function, name, 0) for name in _switches(ref.file, function, row))


def leaves_out(project: Project, ref: ClassRef, function: _Function, test: ast.expr) -> bool:
    """Whether a condition holds only with an argument of `forward` that is None or False by default, and that no call gives."""
    if function.name != "forward" or function.decorator_list:
        return False
    optional = once(function, "_optional", _optional)
    bound = once(function, "_bound_names", _bound_names)
    calls = Calls(project)
    return any(
        name in optional
        and not is_given(optional[name].default)
        and name not in bound
        and _is_left_at_default(calls, ref, function, name, 0)
        for name, is_given in _given(ref.file, test, True)
    )


def is_never_switched_on(
    project: Project, ref: ClassRef, function: _Function, row: int, besides: Collection[str] = ()
) -> bool:
    """Whether a row of a method is reached only with an argument that is None or False by default, and that nobody names to change it.

    ``besides``: arguments that are not asked for.
    """
    return any(
        _is_handed_on_only(project, name, _optional(function)[name])
        for name in _switches(ref.file, function, row)
        if name not in besides
    )


def _switches(file: IndexedFile, function: _Function, row: int) -> Iterator[str]:
    """The arguments whose defaults keep a row of a function from being reached."""
    optional: dict[str, _Optional] | None = None
    for test, holds in conditions_at(function.body, row):
        for name, is_given in _given(file, test, holds):
            optional = _optional(function) if optional is None else optional
            if (
                name in optional
                and not is_given(optional[name].default)
                and not _is_bound_before(function, name, test.lineno)
            ):
                yield name


def _is_handed_on_only(project: Project, name: str, argument: _Optional) -> bool:
    """Whether all that the project gives for arguments of a name is their default, or the argument of that name around."""
    project.touch_tree()
    mentions = project.mentions
    paths = mentions.naming(name)
    if not mentions.is_whole or len(paths) > MOST_FILES or mentions.is_in_configuration(name):
        return False
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None:
            return False
        if not once(file.tree, f"_hands_on_{name}_{argument}", lambda tree: _hands_on_only(tree, name, argument)):
            return False
    return True


def _hands_on_only(tree: ast.Module, name: str, argument: _Optional) -> bool:
    if any(part.value == name for part in of_kind(tree, ast.Constant)):
        return False
    if any(
        part.arg == name and not _is_default(part.value, name, argument.default) for part in of_kind(tree, ast.keyword)
    ):
        return False
    return not _is_placed(tree, argument)


def _is_placed(tree: ast.Module, argument: _Optional) -> bool:
    """Whether a call in a file gives, in the place of an argument, the opposite of its default."""
    place = argument.place
    if place is None:
        return False
    placed = (call.args[place] for call in of_kind(tree, ast.Call) if len(call.args) > place)
    return any(isinstance(part, ast.Constant) and part.value is (not argument.default) for part in placed)


def flag_given(project: Project, ref: ClassRef, function: _Function, name: str) -> bool | None:
    """What all calls of a `forward` in the project give for a flag, True or False; None where that is not known, or not one of both.

    Where an object goes is not always seen: what is True or False by default is so if nobody names the argument to change it.
    """
    key = "flag given", *ref.key, name
    return project.remembered(key, lambda: _flag_given(Calls(project), ref, function, name, 0))


def _flag_given(calls: Calls, ref: ClassRef, function: _Function, name: str, depth: int) -> bool | None:
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    place = placed.index(name) - 1 if name in placed else None
    if function.name != "forward" or function.decorator_list or depth > _DEEPEST:
        return None
    if place is None and all(argument.arg != name for argument in function.args.kwonlyargs):
        return None
    default = _default_of(function, name)
    sites = None if ref.within or ref.node.decorator_list else calls.sites(ref)
    if not sites:
        match default:
            case ast.Constant(value=bool() as flag):
                return flag if _is_left_as_it_is(calls.project, ref, name, _Optional(place, flag)) else None
        return None
    given: set[bool | None] = set()
    for site in sites:
        if _is_for_training(calls.project, site):
            continue
        value = None if _is_spread(site.call) else _value_of(site.call, name, place) or default
        match value:
            case ast.Constant(value=bool() as constant):
                given.add(constant)
            case ast.Name(id=passed) if site.owner is not None and site.function is not None:
                is_bound = _is_bound_before(site.function, passed, site.call.lineno)
                given.add(None if is_bound else _flag_given(calls, site.owner, site.function, passed, depth + 1))
            case _:
                return None
    return given.pop() if len(given) == 1 else None


def _is_left_as_it_is(project: Project, ref: ClassRef, name: str, argument: _Optional) -> bool:
    """Whether nobody gives another value for an argument, by its name, or by its place where the class or what holds it is named."""
    if not _is_handed_on_only(project, name, argument):
        return False
    words = [ref.node.name]
    paths: dict[str, None] = {}
    for word in words:
        paths |= dict.fromkeys(project.mentions.naming(word))
        if len(paths) > MOST_FILES:
            return False
        files = [project.file(path) for path in paths if not path.endswith(".ipynb")]
        if len(files) < len(paths):
            return False
        for file in files if word is ref.node.name else ():
            words += _attributes_made_by(file, word) if file is not None else ()
    return not any(file is None or _is_placed(file.tree, argument) for file in map(project.file, paths))


def _attributes_made_by(file: IndexedFile, name: str) -> Iterator[str]:
    """The attributes that statements of a file bind to what is made with a name."""
    for mention in mentions_in(file, name):
        if isinstance(mention.statement, ast.Assign):
            yield from (target.attr for target in mention.statement.targets if isinstance(target, ast.Attribute))


def _is_default(value: ast.expr, name: str, default: bool | None) -> bool:
    match value:
        case ast.Name(id=passed):
            return passed == name
        case ast.Constant(value=constant):
            return constant is default
    return False


def given_for(
    project: Project, file: IndexedFile, ref: ClassRef | None, function: _Function, name: str
) -> list[tuple[ast.expr, _Function | None]] | None:
    """What all calls in the project but those for training give for an argument, each with the function around it; None if not known.

    A default counts, as one of the function itself. A function has to stand at the top of its file, and to be called by methods alone; a
    method has to be called on `self` alone.
    """
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    place = next((at for at, argument in enumerate(placed) if argument.arg == name), None)
    calls = Calls(project)
    if place is None and all(name != argument.arg for argument in arguments.kwonlyargs):
        return None
    if not all(_hands_on(project, file, decorator) for decorator in function.decorator_list):
        return None
    if ref is None:
        sites = calls.of_function(file, function)
    else:
        place = place - 1 if place is not None else None
        if function.name == "forward":
            sites = None if ref.within or ref.node.decorator_list else calls.sites(ref)
        else:
            sites = None if function.name.startswith("__") else calls.on_self(function.name)
    values: list[tuple[ast.expr, _Function | None]] = []
    for site in sites or ():
        if _is_for_training(calls.project, site):
            continue
        value = _value_of(site.call, name, place)
        if value is not None:
            values.append((value, site.function))
            continue
        default = _default_of(function, name)
        if default is None or _is_spread(site.call):
            return None
        values.append((default, function))
    return values or None


def _is_for_training(project: Project, site: Site) -> bool:
    """Whether a call stands in a hook of a trainer, or in what only the `forward` of a class runs which answers by another method."""
    if site.function is None:
        return False
    if is_training_hook(site.function):
        return True
    if site.owner is None:
        return False
    cls = UnreadClass(project, site.owner)
    trains = once(site.owner.node, "_infers_elsewhere", lambda _: infers_elsewhere(cls) or is_told_answers(cls))
    return trains and site.function.name in methods_of_forward(cls.methods)


def _hands_on(project: Project, file: IndexedFile, decorator: ast.expr) -> bool:
    """Whether a decorator calls a function with what it is called with itself: `@torch.no_grad()`."""
    dotted = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and symbol.name in _GRADIENT_MODES


def _value_of(call: ast.Call, name: str, place: int | None) -> ast.expr | None:
    if _is_spread(call):
        return None
    word = next((word.value for word in call.keywords if word.arg == name), None)
    return call.args[place] if word is None and place is not None and len(call.args) > place else word


def _is_spread(call: ast.Call) -> bool:
    return any(isinstance(part, ast.Starred) for part in call.args) or any(word.arg is None for word in call.keywords)


def _default_of(function: _Function, name: str) -> ast.expr | None:
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip((part.arg for part in reversed(placed)), reversed(arguments.defaults), strict=False))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return defaults.get(name) or next((value for part, value in named if part.arg == name), None)


def is_given_lists(project: Project, ref: ClassRef, function: _Function, name: str) -> bool:
    """Whether all calls of a `forward` in the project give a list for an argument, as it is written there."""
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.name != "forward" or name not in placed[1:]:
        return False
    sites = Calls(project).sites(ref)
    return bool(sites) and all(_gives_a_list(site, name, placed.index(name) - 1) for site in sites or ())


def is_given_one_for(project: Project, ref: ClassRef, function: _Function, names: Sequence[str], row: int) -> bool:
    """Whether all calls of a `forward` in the project give one variable for several arguments: `self.attend(x, x, x)`."""
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.name != "forward" or not set(names) <= set(placed[1:]):
        return False
    if any(_is_bound_before(function, name, row) for name in names):
        return False
    sites = Calls(project).sites(ref)
    given = [{_variable_for(site.call, name, placed.index(name) - 1) for name in names} for site in sites or ()]
    return bool(given) and all(len(variables) == 1 and None not in variables for variables in given)


def _variable_for(call: ast.Call, name: str, place: int) -> str | None:
    value = _argument_of(call, name, place)
    return value.id if isinstance(value, ast.Name) else None


def _argument_of(call: ast.Call, name: str, place: int) -> ast.expr | None:
    """What a call gives for an argument; None where it does not, or where a star may."""
    if any(isinstance(part, ast.Starred) for part in call.args):
        return None
    value = next((word.value for word in call.keywords if word.arg == name), None)
    return call.args[place] if value is None and len(call.args) > place else value


def _gives_a_list(site: Site, name: str, place: int) -> bool:
    value = _argument_of(site.call, name, place)
    if isinstance(value, ast.Name) and site.function is not None:
        variable, function = value.id, site.function
        stores = [
            part for part in of_kind(function, ast.Name) if part.id == variable and isinstance(part.ctx, ast.Store)
        ]
        values = [part.value for part in of_kind(function, ast.Assign) for target in part.targets if target in stores]
        return bool(values) and len(values) == len(stores) and all(map(_is_list, values))
    return value is not None and _is_list(value)


def _is_list(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list")):
            return True
    return False


class _Optional(NamedTuple):
    """An argument that is None or False by default: its place behind `self`, if it is given by place, and its default."""

    place: int | None
    default: bool | None


def _optional(function: _Function) -> dict[str, _Optional]:
    """The arguments that are None or False by default."""
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    first = len(placed) - len(arguments.defaults)
    optional: dict[str, _Optional] = {}
    for at, value in enumerate(arguments.defaults):
        match value:
            case ast.Constant(value=None | False as default):
                optional[placed[first + at].arg] = _Optional(first + at - 1, default)
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        match keyword_default:
            case ast.Constant(value=None | False as default):
                optional[argument.arg] = _Optional(None, default)
    return optional


def _is_some(value: bool | None) -> bool:
    return value is not None


def _given(file: IndexedFile, test: ast.expr, holds: bool) -> Iterator[tuple[str, Callable[[bool | None], bool]]]:
    """The variables that are true, or not None, where a condition holds, or does not; each with which of both."""
    match test:
        case ast.Name(id=name) if holds:
            yield name, bool
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _given(file, operand, not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is holds:
            for value in values:
                yield from _given(file, value, holds)
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            if isinstance(op, ast.IsNot) is holds:
                yield name, _is_some
        case ast.Call(func=ast.Name(id=asks), args=[ast.Name(id=name)], keywords=[]) if holds:
            if (function := file.functions.get(asks)) is not None and _asks_for_some(function):
                yield name, _is_some


def _asks_for_some(function: _Function) -> bool:
    """Whether a function only says whether what it is given is not None."""
    match function:
        case ast.FunctionDef(
            args=ast.arguments(args=[ast.arg(arg=name)]),
            body=[
                ast.Return(
                    value=ast.Compare(
                        left=ast.Name(id=asked), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
                    )
                )
            ],
        ):
            return name == asked
    return False


def _is_bound_before(function: _Function, name: str, row: int) -> bool:
    return any(
        part.id == name and not isinstance(part.ctx, ast.Load) and part.lineno <= row
        for part in of_kind(function, ast.Name)
    )


def _bound_names(function: _Function) -> frozenset[str]:
    return frozenset(part.id for part in of_kind(function, ast.Name) if not isinstance(part.ctx, ast.Load))


def _is_left_at_default(calls: Calls, ref: ClassRef, method: _Function, name: str, depth: int) -> bool:
    """Whether all calls of a method that are not for training leave an argument out, or give its default, and some do."""
    known: dict[str, bool] = once(method, "_default_arguments", lambda _: {})
    if name not in known:
        known[name] = False
        known[name] = _do_all_leave_out(calls, ref, method, name, depth)
    calls.project.touch_tree()
    return known[name]


def _do_all_leave_out(calls: Calls, ref: ClassRef, method: _Function, name: str, depth: int) -> bool:
    argument = _optional(method).get(name)
    if argument is None or depth > _DEEPEST or ref.within or ref.node.decorator_list:
        return False
    sites = calls.sites(ref) if method.name == "forward" else calls.on_self(method.name)
    if not sites:
        return False
    is_called = False
    for site in sites:
        if _is_for_training(calls.project, site):
            continue
        if not _site_leaves_out(calls, site, name, argument, depth):
            return False
        is_called = True
    return is_called


def _site_leaves_out(calls: Calls, site: Site, name: str, argument: _Optional, depth: int) -> bool:
    call = site.call
    if any(isinstance(part, ast.Starred) for part in call.args) or any(word.arg is None for word in call.keywords):
        return False
    value = next((word.value for word in call.keywords if word.arg == name), None)
    if value is None and argument.place is not None and len(call.args) > argument.place:
        value = call.args[argument.place]
    match value:
        case None:
            return True
        case ast.Constant(value=constant):
            return constant is argument.default
        case ast.Name(id=passed):
            function, owner = site.function, site.owner
            outer = _optional(function).get(passed) if function is not None else None
            if function is None or owner is None or outer is None or outer.default is not argument.default:
                return False
            return not _is_bound_before(function, passed, call.lineno) and _is_left_at_default(
                calls, owner, function, passed, depth + 1
            )
    return False

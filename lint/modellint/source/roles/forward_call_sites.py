"""Calls of modules: arguments of a `forward` that no call in the project gives, or that are lists, and results that no caller reads.

A class is followed to the attributes that modules keep its objects in, and from these to their calls; an argument that such a call hands
on is followed to the calls around it. Nothing is told where an object goes elsewhere, or where nobody in the project calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests
from modellint.source.roles.training_parts import is_training_hook
from modellint.source.syntax.ast_walk import functions_in, of_kind, once, parents_in, walk
from modellint.source.syntax.path_conditions import conditions_at

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 4
"""How many calls hand an argument on to each other."""
_MOST_FILES = 24
"""What more files than these name is not followed."""
_GRADIENT_MODES = frozenset({"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.autograd.no_grad"})


class _Site(NamedTuple):
    """A call of a `forward`, and what is around it."""

    call: ast.Call
    function: _Function | None
    owner: ClassRef | None


def is_left_out(project: Project, ref: ClassRef, function: _Function, row: int) -> bool:
    """Whether a row of a method is reached only with an argument that is None or False by default, and that no call gives."""
    if function.name != "forward" and (function.name.startswith("__") or function.decorator_list):
        return False
    calls = _Calls(project)
    return any(calls.is_default(ref, function, name, 0) for name in _switches(ref.file, function, row))


def leaves_out(project: Project, ref: ClassRef, function: _Function, test: ast.expr) -> bool:
    """Whether a condition holds only with an argument of `forward` that is None or False by default, and that no call gives."""
    if function.name != "forward" or function.decorator_list:
        return False
    optional = once(function, "_optional", _optional)
    bound = once(function, "_bound_names", _bound_names)
    calls = _Calls(project)
    return any(
        name in optional
        and not is_given(optional[name].default)
        and name not in bound
        and calls.is_default(ref, function, name, 0)
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
    if not mentions.is_whole or len(paths) > _MOST_FILES or mentions.is_in_configuration(name):
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
    return project.remembered(key, lambda: _flag_given(_Calls(project), ref, function, name, 0))


def _flag_given(calls: _Calls, ref: ClassRef, function: _Function, name: str, depth: int) -> bool | None:
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
        if site.function is not None and is_training_hook(site.function):
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
        if len(paths) > _MOST_FILES:
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
    calls = _Calls(project)
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
        if site.function is not None and is_training_hook(site.function):
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
    sites = _Calls(project).sites(ref)
    return bool(sites) and all(_gives_a_list(site, name, placed.index(name) - 1) for site in sites or ())


def is_given_one_for(project: Project, ref: ClassRef, function: _Function, names: Sequence[str], row: int) -> bool:
    """Whether all calls of a `forward` in the project give one variable for several arguments: `self.attend(x, x, x)`."""
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.name != "forward" or not set(names) <= set(placed[1:]):
        return False
    if any(_is_bound_before(function, name, row) for name in names):
        return False
    sites = _Calls(project).sites(ref)
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


def _gives_a_list(site: _Site, name: str, place: int) -> bool:
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


class Place(NamedTuple):
    """An element of a tuple that a `forward` gives back: where it stands, and how many there are."""

    at: int
    width: int


def is_discarded(project: Project, ref: ClassRef, places: frozenset[Place]) -> bool:
    """Whether other modules alone call a `forward`, certainly all of them known, and none reads any of these elements."""
    if ref.within or ref.node.decorator_list:
        return False
    sites = _Calls(project).sites(ref)
    return bool(sites) and all(
        site.owner is not None
        and site.function is not None
        and project.is_module(site.owner) is True
        and all(_discards(site.call, site.function, place) for place in places)
        for site in sites or ()
    )


def _discards(node: ast.expr, function: _Function, place: Place, depth: int = 0) -> bool:
    """Whether what an expression gives, a tuple, is taken apart where it stands, and an element of it is bound to what nobody reads."""
    around = parents_in(function).get(node)
    match around:
        case ast.Expr():
            return True
        case ast.Subscript(slice=ast.Constant(value=int(at)), ctx=ast.Load()) if around.value is node:
            return at % place.width != place.at
        case ast.Assign(targets=[ast.Tuple(elts=elts) | ast.List(elts=elts)]):
            target = _target_of(elts, place)
            return isinstance(target, ast.Name) and _reads(function, target.id) == []
        case ast.Assign(targets=[ast.Name(id=name)]) if depth == 0:
            reads = _reads(function, name)
            return reads is not None and all(_discards(read, function, place, 1) for read in reads)
    return False


def _target_of(targets: list[ast.expr], place: Place) -> ast.expr | None:
    """What an element of a tuple is bound to; the list that a star makes of several is one variable."""
    starred = next((at for at, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if starred is None:
        return targets[place.at] if len(targets) == place.width else None
    behind = len(targets) - starred - 1
    if place.at < starred:
        return targets[place.at]
    if place.at >= place.width - behind:
        return targets[place.at - place.width]
    star = targets[starred]
    return star.value if isinstance(star, ast.Starred) else None


def _reads(function: _Function, name: str) -> list[ast.Name] | None:
    """Where a variable of a function is read; None where it is also one of the file's."""
    outer = [part.names for part in of_kind(function, ast.Global)]
    outer += [part.names for part in of_kind(function, ast.Nonlocal)]
    if any(name in names for names in outer):
        return None
    return [part for part in of_kind(function, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Store)]


def is_only_trained(project: Project, ref: ClassRef) -> bool:
    """Whether the project gives the objects of a class to a trainer, and nothing calls their `forward`: neither a hook nor anyone else."""
    methods = functions_in([ref.node])
    if ref.within or ref.node.decorator_list or not any(map(is_training_hook, methods)):
        return False
    calls = _Calls(project)
    return calls.sites(ref) == [] and calls.is_built(ref)


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


class _Calls:
    """The calls of modules in a project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def is_default(self, ref: ClassRef, method: _Function, name: str, depth: int) -> bool:
        """Whether all calls of a method that are not for training leave an argument out, or give its default, and some do."""
        known: dict[str, bool] = once(method, "_default_arguments", lambda _: {})
        if name not in known:
            known[name] = False
            known[name] = self._look_up(ref, method, name, depth)
        self.project.touch_tree()
        return known[name]

    def _look_up(self, ref: ClassRef, method: _Function, name: str, depth: int) -> bool:
        argument = _optional(method).get(name)
        if argument is None or depth > _DEEPEST or ref.within or ref.node.decorator_list:
            return False
        sites = self.sites(ref) if method.name == "forward" else self.on_self(method.name)
        if not sites:
            return False
        is_called = False
        for site in sites:
            if site.function is not None and is_training_hook(site.function):
                continue
            if not self._leaves_out(site, name, argument, depth):
                return False
            is_called = True
        return is_called

    def _leaves_out(self, site: _Site, name: str, argument: _Optional, depth: int) -> bool:
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
                return not _is_bound_before(function, passed, call.lineno) and self.is_default(
                    owner, function, passed, depth + 1
                )
        return False

    def on_self(self, name: str) -> list[_Site] | None:
        """The calls of all methods of a name; None where not all are calls of one's own: `self.encode(x)`."""
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = mentions.naming(name)
        if not mentions.is_whole or len(paths) > _MOST_FILES or mentions.is_in_configuration(name):
            return None
        sites: list[_Site] = []
        for path in paths:
            file = None if path.endswith(".ipynb") else self.project.file(path)
            if file is None or any(part.value == name for part in of_kind(file.tree, ast.Constant)):
                return None
            own = [
                _Site(call, function, ClassRef(file, cls))
                for cls in file.tree.body
                if isinstance(cls, ast.ClassDef)
                for function in functions_in([cls])
                for call in of_kind(function, ast.Call)
                if isinstance(call.func, ast.Attribute) and call.func.attr == name and _is_of_self(call.func)
            ]
            # It may be called from outside, or by another name.
            if sum(part.attr == name for part in of_kind(file.tree, ast.Attribute)) != len(own):
                return None
            sites += own
        return sites

    def of_function(self, file: IndexedFile, function: _Function) -> list[_Site] | None:
        """The calls of a function at the top of a file that are in no test; None where others than methods may call it."""
        self.project.touch_tree()
        mentions = self.project.mentions
        name = function.name
        paths = dict.fromkeys((file.path, *mentions.naming(name)))
        if (
            function not in file.tree.body
            or len(file.names.get(name, ())) > 1
            or not mentions.is_whole
            or len(paths) > _MOST_FILES
            or mentions.is_in_configuration(name)
        ):
            return None
        sites: list[_Site] = []
        for path in paths:
            other = file if path == file.path else None if path.endswith(".ipynb") else self.project.file(path)
            if other is None or any(
                alias.name == name and alias.asname not in (None, name) for alias in of_kind(other.tree, ast.alias)
            ):
                return None
            if is_in_tests(self.project, other):
                continue
            for mention in mentions_in(other, name):
                if (
                    mention.is_in_test
                    or mention.is_demonstration
                    or self._is_another_function(mention, other, function)
                ):
                    continue
                called = (call for call in of_kind(mention.statement, ast.Call) if call.func is mention.node)
                call = next(called, None)
                if call is None or mention.cls is None:
                    return None
                sites.append(_Site(call, mention.function, None))
        return sites

    def _is_another_function(self, mention: Mention, place: IndexedFile, function: _Function) -> bool:
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        return isinstance(symbol, (ClassRef, FunctionRef)) and symbol.node is not function

    def sites(self, ref: ClassRef) -> list[_Site] | None:
        """The calls of the objects of a class; None where not all are known."""
        self.project.touch_tree()
        mentions = self.project.mentions
        paths = dict.fromkeys((ref.file.path, *mentions.naming(ref.node.name)))
        if not mentions.is_whole or len(paths) > _MOST_FILES or mentions.is_in_configuration(ref.node.name):
            return None
        own = [_own_calls(ref, function) for function in functions_in([ref.node])]
        sites = [site for calls in own if calls is not None for site in calls]
        if None in own:
            return None
        for path in paths:
            file = ref.file if path == ref.file.path else None if path.endswith(".ipynb") else self.project.file(path)
            if file is None or any(
                alias.name == ref.node.name and alias.asname not in (None, alias.name)
                for alias in of_kind(file.tree, ast.alias)
            ):
                return None
            if is_in_tests(self.project, file):
                continue
            for mention in mentions_in(file, ref.node.name):
                if mention.is_in_test or mention.is_demonstration or self._is_of_another(mention.node, file, ref):
                    continue
                match mention.statement:
                    case ast.Assign(
                        targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                        value=ast.Call(func=maker),
                    ) if maker is mention.node and mention.cls is not None and mention.cls in file.tree.body:
                        calls = self._calls_of(ClassRef(file, mention.cls), attribute)
                        if calls is None:
                            return None
                        sites += calls
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=maker)) if _makes(
                        maker, mention.node
                    ):
                        scope = mention.function or file.tree
                        local = _calls_of_variable(scope, name, mention.statement) if mention.cls is None else None
                        if local is None:
                            return None
                        sites += local
                    case _ if _is_name_for_super(mention.node, mention.statement):
                        pass
                    case _ if _is_compared_with(mention.node, mention.statement):
                        pass
                    case _:
                        return None
        return sites

    def is_built(self, ref: ClassRef) -> bool:
        """Whether a variable holds an object of a class somewhere outside of tests."""
        paths = dict.fromkeys((ref.file.path, *self.project.mentions.naming(ref.node.name)))
        files = [self.project.file(path) for path in paths if not path.endswith(".ipynb")]
        return any(
            isinstance(mention.statement, ast.Assign) and not mention.is_in_test
            for file in files
            if file is not None and not is_in_tests(self.project, file)
            for mention in mentions_in(file, ref.node.name)
            if not self._is_of_another(mention.node, file, ref)
        )

    def _calls_of(self, owner: ClassRef, attribute: str) -> list[_Site] | None:
        """The calls of what an attribute of a class holds; None where it is used in another way, or outside of the class."""
        paths = self.project.mentions.naming(attribute)
        if len(paths) > _MOST_FILES:
            return None
        sites: list[_Site] = []
        for path in paths:
            file = (
                owner.file if path == owner.file.path else None if path.endswith(".ipynb") else self.project.file(path)
            )
            if file is None:
                return None
            if file is not owner.file and is_in_tests(self.project, file):
                continue
            for cls in file.tree.body:
                if not isinstance(cls, ast.ClassDef) or cls is owner.node:
                    continue
                if owner.key in {part.key for part in self.project.lineage(ClassRef(file, cls))} and any(
                    part.attr == attribute for part in of_kind(cls, ast.Attribute)
                ):
                    return None
            inside = {id(part) for part in of_kind(owner.node, ast.Attribute)} if file is owner.file else set()
            if any(
                part.attr == attribute and id(part) not in inside and not _is_of_self(part)
                for part in of_kind(file.tree, ast.Attribute)
            ):
                return None
        for function in functions_in([owner.node]):
            parents = parents_in(function)
            for part in of_kind(function, ast.Attribute):
                if part.attr != attribute or not isinstance(part.ctx, ast.Load):
                    continue
                around = parents.get(part)
                if _is_of_self(part) and isinstance(around, ast.Attribute) and around.attr not in _RUNNING:
                    # What its own methods run, they are asked for.
                    continue
                if not (_is_of_self(part) and isinstance(around, ast.Call) and around.func is part):
                    return None
                sites.append(_Site(around, function, owner))
        return sites

    def _is_of_another(self, node: ast.AST, place: IndexedFile, ref: ClassRef) -> bool:
        dotted = dotted_name(node) if isinstance(node, ast.expr) else None
        symbol = self.project.resolve(place, dotted) if dotted is not None else None
        if not isinstance(symbol, (ClassRef, FunctionRef)):
            return False
        return (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)


def _own_calls(ref: ClassRef, function: _Function) -> list[_Site] | None:
    """The calls by which an object calls itself; None where its `forward` is used in another way."""
    parents = parents_in(function)
    sites = [
        _Site(call, function, ref)
        for call in of_kind(function, ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id == "self"
    ]
    for part in of_kind(function, ast.Attribute):
        if part.attr == "forward" and _is_of_self(part):
            around = parents.get(part)
            if not (isinstance(around, ast.Call) and around.func is part):
                return None
            sites.append(_Site(around, function, ref))
    return sites


def _makes(maker: ast.expr, node: ast.AST) -> bool:
    """Whether what is called makes an object of the class that is named: `Net(…)`, `Net.load_from_checkpoint(…)`."""
    if isinstance(maker, ast.Attribute) and maker.attr in ("load_from_checkpoint", "from_pretrained"):
        return maker.value is node
    return maker is node


def _calls_of_variable(scope: _Function | ast.Module, name: str, statement: ast.stmt) -> list[_Site] | None:
    """The calls of the module that a variable holds; None where it goes elsewhere than to a trainer, which calls the hooks for training."""
    function = scope if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    parents = parents_in(scope)
    sites: list[_Site] = []
    for part in of_kind(scope, ast.Name):
        if part.id != name:
            continue
        around = parents.get(part)
        match around:
            case ast.Assign() if part in around.targets:
                if around is not statement and not _is_method_of(around.value, name):
                    return None
            case ast.Call(func=called) if called is part:
                sites.append(_Site(around, function, None))
            case ast.Call() if part in around.args and _is_trained(around):
                pass
            case ast.keyword(arg="model") if _is_trained(parents.get(around)):
                pass
            case ast.Attribute(attr=attribute) if attribute not in _RUNNING:
                pass
            case _:
                return None
    return sites


_RUNNING = frozenset({"forward", "__call__", "to_onnx", "to_torchscript", "predict"})
"""Methods that run the `forward` of a module."""


def _is_trained(node: ast.AST | None) -> bool:
    """Whether a node is a call of a trainer: `trainer.fit(model=net)`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("fit", "validate", "test")
    )


def _is_method_of(value: ast.expr, name: str) -> bool:
    """Whether a value is what a method of a variable gives: `model.to(device)`."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))):
            return owner == name
    return False


def _is_name_for_super(node: ast.AST, statement: ast.stmt) -> bool:
    return any(
        isinstance(part.func, ast.Name) and part.func.id == "super" and node in part.args
        for part in of_kind(statement, ast.Call)
    )


def _is_compared_with(node: ast.AST, statement: ast.stmt) -> bool:
    """Whether a name is a string that a condition compares another with: `if kind == "Attention":`."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(statement, ast.If)
        and any(isinstance(part, ast.Compare) and node in part.comparators for part in walk(statement.test))
    )


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"

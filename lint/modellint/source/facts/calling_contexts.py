"""Calling context: with what the modules of a project call the functions of its other files, on the path of inference.

A function of another file is on that path only where a module's `forward`, or what it runs, is seen to call it: the import resolves, and
nothing on the way is for training alone. What is known of the arguments there is told without the values themselves, so that
nothing of the file that calls is kept.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.domains.memory_layout import Dim, Layout
from modellint.source.domains.parameter_kinds import shown_tensors
from modellint.source.domains.symbolic_numbers import Size
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import (
    NUMBER,
    UNKNOWN,
    Const,
    Container,
    Function,
    Instance,
    Method,
    Number,
    Partial,
    Value,
    alternatives,
    union,
)
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.class_state import TooLarge
from modellint.source.engine.mode_conditions import is_quiet
from modellint.source.facts.class_analysis import Reading
from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, Imported, IndexedFile
from modellint.source.roles.code_roles import stands_beside_models
from modellint.source.roles.inference_path.reachability import is_off_path
from modellint.source.syntax.ast_walk import functions_in, is_property, of_kind

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 2
"""Functions that call each other from file to file, behind a `forward`."""
_MOST_FILES = 24
"""Files that are looked at for calls of a function."""
_MOST_CONTEXTS = 8
"""Ways to call a function that are told from each other."""
_NOT_EXPORTED = re.compile(r"Evaluat|Augment|Random[A-Z]|Jitter|Erasing|Elastic|^AutoShape$|NMS|PostProc")
"""Names of modules that judge a model, vary what it is trained with, or are put around an exported one."""
_INFERENCE = frozenset({"infer", "inference"})
"""Methods beside which `forward` is for training."""
_BUILDING = re.compile(
    r"checkpoint.|.checkpoint|state_dict|filter_fn|divisible|pretrained|weights|(?:^|_)(?:init|cfgs?|config|module|model|hook)(?:_|$)"
    r"|^_?(?:build|create|load|save|convert|register|resize_rel|resample|adapt|parse|round_channels|collate|plot|download|freeze|"
    r"unfreeze|named)|_$|(?:^|_)(?:nms|non_max_suppression)(?:_|$)|^(?:scale|clip)_(?:boxes|coords|segments)"
)
"""Names of functions that build, load, save, show or come after a model: what calls them is not looked for, as that takes time."""
_MOST_PARTS = 16
"""Parts of an argument."""


class _TensorFacts(NamedTuple):
    """What is known of a tensor that is an argument."""

    rank: int | None
    is_contiguous: bool
    origin: str
    kind: str
    certain: bool
    shown: bool
    assumed: bool
    grad: bool | None
    batch: bool | None


class _Fact:
    """What is known of one argument. ``key`` tells it from others; ``layout`` is that of a tensor, or none."""

    __slots__ = ("constant", "key", "kind", "layouts", "parts", "tensor")

    def __init__(
        self, kind: str, parts: tuple[_Fact, ...] = (), constant: object = None, tensor: _TensorFacts | None = None
    ) -> None:
        self.kind = kind
        self.parts = parts
        self.constant = constant
        self.tensor = tensor
        self.layouts: list[Layout] = []
        self.key: Hashable = kind, tuple(part.key for part in parts), repr(constant), tensor

    def value(self, parameter: ast.AST, name: str, is_shown: bool) -> Value:
        """The argument as the function that is called sees it."""
        match self.kind:
            case "constant":
                return Const(self.constant)
            case "number":
                return NUMBER
            case "either":
                return union([part.value(parameter, name, is_shown) for part in self.parts])
            case "list" | "tuple":
                return Container(
                    self.kind, parameter, [part.value(parameter, name, False) for part in self.parts], True
                )
        facts = self.tensor
        if facts is None:
            return UNKNOWN
        tensor = Tensor(
            parameter,
            self.layouts[0] if self.layouts else None,
            facts.origin,
            kind=facts.kind,
            name=name,
            certain=facts.certain,
            assumed=facts.assumed,
            grad=facts.grad,
            batch=facts.batch,
            shown=facts.shown or is_shown,
        )
        if facts.origin == "argument":
            tensor.dim = Dim.symbol()
        return tensor


_NOTHING = _Fact("unknown")


class CallFacts(NamedTuple):
    """What is known of a call of a function that stands in another file."""

    path: str
    name: str
    positional: tuple[_Fact, ...]
    keywords: tuple[tuple[str, _Fact], ...]
    is_open: bool
    """Whether more arguments stand behind a star."""
    module: str
    """The class of the `forward` that leads to it, and its file, for people."""

    @property
    def key(self) -> Hashable:
        """What tells it from others."""
        named = tuple((name, fact.key) for name, fact in self.keywords)
        return self.path, self.name, tuple(fact.key for fact in self.positional), named


class Context(NamedTuple):
    """A function, and one way to call it."""

    function: _Function
    arguments: Arguments
    module: str = ""
    """The class of the `forward` that leads to it, and its file, for people."""


def may_have_contexts(function: _Function) -> bool:
    """Whether a function may be followed from another file: nobody knows what a decorator makes of one, but those for gradients."""
    return (
        isinstance(function, ast.FunctionDef)
        and all(map(is_quiet, function.decorator_list))
        and _BUILDING.search(function.name) is None
    )


def hopeful_contexts(functions: Iterable[_Function]) -> list[Context]:
    """As if each function were given tensors, wherever it may be."""
    contexts: list[Context] = []
    for function in functions:
        parameters = [*function.args.posonlyargs, *function.args.args]
        required = len(parameters) - len(function.args.defaults)
        positional: list[Value] = [_any_tensor(parameter) for parameter in parameters[:required]]
        optional = [*zip(parameters[required:], function.args.defaults, strict=True)]
        optional += [
            (parameter, default)
            for parameter, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is not None
        ]
        # A number or a text stays what it is by default.
        keywords: dict[str | None, Value] = {
            parameter.arg: _any_tensor(parameter) if default.value is None else UNKNOWN
            for parameter, default in optional
            if isinstance(default, ast.Constant) and isinstance(default.value, bool | None)
        }
        keywords |= {
            parameter.arg: _any_tensor(parameter)
            for parameter, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is None
        }
        contexts.append(Context(function, Arguments(positional, [], keywords)))
    return contexts


def _any_tensor(parameter: ast.arg) -> Tensor:
    tensor = Tensor(parameter, Layout.unranked(), "computed", name=parameter.arg, grad=True, batch=True, shown=True)
    tensor.dim = Dim.symbol()
    return tensor


def contexts_of(project: Project, file: IndexedFile, functions: Iterable[_Function]) -> list[Context]:
    """The ways in which modules of other files are seen to have functions of a file run, on the path of inference."""
    return [
        Context(function, arguments_of(function, call), call.module)
        for function in functions
        for call in _calls_of(project, file, function, _DEEPEST)
    ]


def that_lead_to(file: IndexedFile, functions: Iterable[_Function], rows: Iterable[int]) -> list[_Function]:
    """Those of some functions of a file that have what stands in some lines run."""
    wanted = [*rows]
    inside = [
        function
        for function in file.functions.values()
        if any(function.lineno <= row <= (function.end_lineno or 0) for row in wanted)
    ]
    leading = _all_that_call(file, inside)
    return [function for function in functions if function in leading]


def module_that_runs(contexts: Iterable[Context], file: IndexedFile, row: int) -> str:
    """The module that has the function around a line of a file run; empty where none of these contexts says so."""
    for context in contexts:
        every = [context.function]
        for function in every:
            if function.lineno <= row <= (function.end_lineno or 0):
                return context.module
            named = {node.id for node in of_kind(function, ast.Name)}
            every += (other for name, other in file.functions.items() if name in named and other not in every)
    return ""


def arguments_of(function: _Function, call: CallFacts, bound: int = 0) -> Arguments:
    """The arguments of a call as the function sees them that is called; some parameters in front may be ``bound`` already."""
    shown = shown_tensors(function)
    parameters = [*function.args.posonlyargs, *function.args.args][bound:]
    named = {parameter.arg: parameter for parameter in (*parameters, *function.args.kwonlyargs)}
    positional = [
        fact.value(parameters[at], parameters[at].arg, parameters[at].arg in shown)
        if at < len(parameters)
        else fact.value(function, "", False)
        for at, fact in enumerate(call.positional)
    ]
    keywords: dict[str | None, Value] = {
        name: fact.value(named[name], name, name in shown) for name, fact in call.keywords if name in named
    }
    return Arguments(positional, [UNKNOWN] if call.is_open else [], keywords)


def _calls_of(project: Project, file: IndexedFile, function: _Function, depth: int) -> list[CallFacts]:
    if depth == 0 or not may_have_contexts(function) or file.functions.get(function.name) is not function:
        return []
    key = "calls of", file.path, function.name, depth
    return project.remembered(key, lambda: _find_calls(project, file, function, depth))


def _find_calls(project: Project, file: IndexedFile, function: _Function, depth: int) -> list[CallFacts]:
    calls: dict[Hashable, CallFacts] = {}
    for other in _importing(project, file, function):
        for call in _calls_from(project, other, function.name, depth):
            if (call.path, call.name) == (file.path, function.name):
                calls.setdefault(call.key, call)
        if len(calls) >= _MOST_CONTEXTS:
            break
    return [*calls.values()][:_MOST_CONTEXTS]


def may_be_run_elsewhere(project: Project, file: IndexedFile, function: _Function, depth: int = _DEEPEST) -> bool:
    """Whether a `forward` may have a function of another file run, by the names that are written on the way."""
    if depth == 0 or not may_have_contexts(function) or file.functions.get(function.name) is not function:
        return False
    key = "may be run", file.path, function.name, depth
    return project.remembered(key, lambda: any(_may_lead_to(project, file, function, depth)))


def _may_lead_to(project: Project, file: IndexedFile, function: _Function, depth: int) -> Iterator[bool]:
    for other in _importing(project, file, function):
        users = _users_in(project, other, function.name)
        yield any(not is_off_inference(project, ref) for ref in users.classes)
        yield any(may_be_run_elsewhere(project, other, caller, depth - 1) for caller in users.functions)


def _importing(project: Project, file: IndexedFile, function: _Function) -> Iterator[IndexedFile]:
    """The files that may import a function and have it run."""
    project.touch_tree()
    for path in project.mentions.importers(file.path, function.name)[:_MOST_FILES]:
        other = project.file(path)
        if other is not None and not stands_beside_models(project, other):
            yield other


class _Users(NamedTuple):
    """What names a function in another file."""

    classes: list[ClassRef]
    """Modules of which the `forward` may run it."""
    functions: list[_Function]
    """Functions that call it."""


def _users_in(project: Project, file: IndexedFile, name: str) -> _Users:
    """Who may run what a file imports by a name."""
    classes: dict[ast.ClassDef, None] = {}
    functions: dict[_Function, None] = {}
    places: set[str] = set()
    aliases = [
        alias
        for alias, bindings in file.names.items()
        if alias == name or any(isinstance(binding, Imported) and binding.name == name for binding in bindings)
    ]
    for mention in [mention for alias in dict.fromkeys((name, *aliases)) for mention in mentions_in(file, alias)]:
        cls, function = mention.cls, mention.function
        if function is None or (function.name == "__init__" and _is_called(mention)):
            continue
        places.add(function.name)
        if cls is None and may_have_contexts(function):
            functions[function] = None
        elif cls is not None and mention.around[0] is cls:
            classes[cls] = None
    callers = _all_that_call(file, functions) if functions else []
    # Which of the classes run those is seen when they are read.
    for caller in callers:
        classes.update(
            (m.cls, None) for m in mentions_in(file, caller.name) if m.cls is not None and m.around[0] is m.cls
        )
    users = [ClassRef(file, user) for user in with_derived(file, classes)]
    users = [ref for ref in users if ref.node.bases and project.is_module(ref) and _may_run(project, ref, places)]
    return _Users(users, [caller for caller in callers if caller in file.tree.body])


def _calls_from(project: Project, file: IndexedFile, name: str, depth: int) -> Iterator[CallFacts]:
    """What a file calls in others where it names a function."""
    users = _users_in(project, file, name)
    for ref in users.classes:
        yield from calls_of_forward(project, ref)
    for caller in users.functions:
        yield from _calls_of_function(project, file, caller, depth - 1)


def _is_called(mention: Mention) -> bool:
    """Whether what is named is called there, and not kept."""
    return any(
        isinstance(node, ast.Call) and (node.func is mention.node or getattr(node.func, "value", None) is mention.node)
        for node in ast.walk(mention.statement)
    )


def _may_run(project: Project, ref: ClassRef, names: set[str]) -> bool:
    """Whether the `forward` of a class may run a function of one of these names, by the names that it and what it runs hold."""
    if "__init__" in names:
        return True
    members = [owner.file.members(owner.node) for owner in reversed(project.lineage(ref)) if owner.file is ref.file]
    places: dict[str, ast.AST] = {**ref.file.functions}
    for part in members:
        places |= part
    reached = ["forward"] if "forward" in places else []
    for name in reached:
        place = places[name]
        held = {node.id for node in of_kind(place, ast.Name)} | {node.attr for node in of_kind(place, ast.Attribute)}
        reached += (other for other in places if other in held and other not in reached)
    return not names.isdisjoint(reached)


def _all_that_call(file: IndexedFile, functions: Iterable[_Function]) -> list[_Function]:
    """Functions of a file, and those of its others that name them, and so on."""
    every = [*functions]
    for function in every:
        for mention in mentions_in(file, function.name):
            other = mention.function
            if (
                mention.cls is None
                and other is not None
                and other not in every
                and file.functions.get(other.name) is other
                and may_have_contexts(other)
            ):
                every.append(other)
    return every


def with_derived(file: IndexedFile, classes: Iterable[ast.ClassDef]) -> list[ast.ClassDef]:
    """Classes of a file, and those of the file that derive from them."""
    every = [*classes]
    for cls in every:
        every += (
            other
            for other in file.tree.body
            if isinstance(other, ast.ClassDef)
            and other not in every
            and any(isinstance(base, ast.Name) and base.id == cls.name for base in other.bases)
        )
    return every


def calls_of_forward(project: Project, ref: ClassRef) -> list[CallFacts]:
    """The calls that the `forward` of a class makes of functions in other files, and of methods of what it holds."""
    return project.remembered(("calls of a forward", *ref.key), lambda: _read_forward(project, ref))


def _read_forward(project: Project, ref: ClassRef) -> list[CallFacts]:
    here = [owner for owner in project.lineage(ref) if owner.file is ref.file]
    forward = next(
        (
            Function(function, ref.file, None, owner)
            for owner in here
            for function in functions_in([owner.node])
            if function.name == "forward" and not is_property(function)
        ),
        None,
    )
    if forward is None or is_off_inference(project, ref):
        return []
    reading = Reading(project, ref, ref.file)
    reading.interpreter.resolves_abroad = True
    reading.interpreter.modes.decides_flags = True
    try:
        reading.build()
        reading.read_methods([forward])
        place = os.path.relpath(ref.file.path, project.root).replace(os.sep, "/")
        return [*calls_abroad(reading, ref.file, f"`{ref.node.name}` in {place}")]
    except TooLarge:
        return []
    finally:
        reading.close()


def is_off_inference(project: Project, ref: ClassRef) -> bool:
    """Whether no finding elsewhere may rest on what a class runs."""
    key = "is off", *ref.key
    return project.remembered(
        key,
        lambda: (
            any(_is_for_training(owner) for owner in project.lineage(ref) if owner.file is ref.file)
            or is_off_path(project, ref)
        ),
    )


def _is_for_training(ref: ClassRef) -> bool:
    """Whether the `forward` of a class is probably none that is exported, so that no finding elsewhere may rest on it."""
    return _NOT_EXPORTED.search(ref.node.name) is not None or not _INFERENCE.isdisjoint(ref.file.members(ref.node))


def _calls_of_function(project: Project, file: IndexedFile, function: _Function, depth: int) -> list[CallFacts]:
    """The calls of functions in other files that a function makes as modules of other files have it run."""
    key = "calls of a function", file.path, function.name, depth
    return project.remembered(key, lambda: _read_function(project, file, function, depth))


def _read_function(project: Project, file: IndexedFile, function: _Function, depth: int) -> list[CallFacts]:
    calls = _calls_of(project, file, function, depth)
    if not calls:
        return []
    onward: list[CallFacts] = []
    for call in calls:
        reading = Reading(project, None, file)
        reading.interpreter.resolves_abroad = True
        try:
            reading.read_calls([(Function(function, file), arguments_of(function, call))])
            onward += calls_abroad(reading, file, call.module)
        except TooLarge:
            pass
        finally:
            reading.close()
    return onward


def calls_abroad(reading: Reading, file: IndexedFile, module: str) -> Iterator[CallFacts]:
    """The calls of functions in other files, and of methods of modules that the object holds, that inference makes."""
    for readings in reading.kept.calls.values():
        for call in readings:
            if call.training or call.unusual or call.building or not call.exported:
                continue
            for callee in alternatives(call.callee):
                arguments = call.arguments
                while isinstance(callee, Partial):
                    arguments = Arguments(
                        [*callee.arguments, *arguments.positional],
                        arguments.spread,
                        {**callee.keywords, **arguments.keywords},
                    )
                    callee = callee.function
                if (
                    isinstance(callee, Function)
                    and callee.file is not file
                    and isinstance(callee.node, ast.FunctionDef)
                ):
                    yield call_facts(callee.file.path, callee.node.name, arguments, module)
                elif isinstance(callee, Method):
                    for part in alternatives(callee.receiver):
                        owner = _owner_of(reading, part, callee.name)
                        if owner is not None:
                            yield call_facts(owner.file.path, name_of_method(owner, callee.name), arguments, module)


def _owner_of(reading: Reading, receiver: Value, method: str) -> ClassRef | None:
    """The class that defines a method of a module of the project."""
    if not isinstance(receiver, Instance) or receiver.kind != "module" or not isinstance(receiver.callee, ClassRef):
        return None
    lineage = reading.interpreter.project.lineage(receiver.callee)
    return next((owner for owner in lineage if method in owner.file.members(owner.node)), None)


def name_of_method(owner: ClassRef, method: str) -> str:
    """How facts of calls name a method: unlike any function, and by the place of its class."""
    return f"{owner.node.name}@{owner.node.lineno}.{method}"


def call_facts(path: str, name: str, arguments: Arguments, module: str = "") -> CallFacts:
    """What is known of a call, without its values."""
    named = {keyword: value for keyword, value in arguments.keywords.items() if keyword is not None}
    return CallFacts(
        path,
        name,
        tuple(map(_fact, arguments.positional)),
        tuple((keyword, _fact(value)) for keyword, value in named.items()),
        bool(arguments.spread) or len(named) < len(arguments.keywords),
        module,
    )


def _fact(value: Value, depth: int = 0) -> _Fact:
    parts = alternatives(value)
    if depth > _DEEPEST + 1 or len(parts) > _MOST_PARTS:
        return _NOTHING
    if len(parts) > 1:
        return _Fact("either", tuple(_fact(part, depth + 1) for part in parts))
    match value:
        case Tensor():
            layout = value.layout
            registered = value.registered
            fact = _Fact(
                "tensor",
                tensor=_TensorFacts(
                    value.rank,
                    layout is not None and layout.is_contiguous,
                    value.origin,
                    value.root.kind if registered else "tensor",
                    value.certain,
                    value.shown,
                    value.assumed,
                    value.grad,
                    value.batch,
                ),
            )
            fact.layouts = [layout] if layout is not None else []
            return fact
        case Const(value=None | bool() | int() | float() | str()):
            return _Fact("constant", constant=value.value)
        case Size() if value.integer is not None:
            return _Fact("constant", constant=value.integer)
        case Number() | Size():
            return _Fact("number")
        case Container(kind="list" | "tuple", exact=True) if len(value.items) <= _MOST_PARTS:
            return _Fact(value.kind, tuple(_fact(item, depth + 1) for item in value.items))
    return _NOTHING

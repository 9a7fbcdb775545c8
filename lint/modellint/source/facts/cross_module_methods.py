"""Entered method: one that the `forward` of another module runs beside the class's own: `self.encoder.encode(x)`.

It is on the path of inference where the constructor of that module is seen to build the object, and nothing on the way is for training
alone. What is known of the arguments is told without the values themselves, as of functions of other files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import SELF, Function
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.class_state import TooLarge
from modellint.source.facts.calling_contexts import (
    CallFacts,
    Context,
    arguments_of,
    calls_abroad,
    calls_of_forward,
    hopeful_contexts,
    is_off_inference,
    may_have_contexts,
    name_of_method,
    with_derived,
)
from modellint.source.facts.class_analysis import Reading
from modellint.source.project.symbols import ClassRef
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.parent_modules import holders_of
from modellint.source.roles.training_code import is_loss_function
from modellint.source.roles.training_parts import is_training_hook
from modellint.source.syntax.ast_walk import functions_in, reached_from

if TYPE_CHECKING:
    from collections.abc import Hashable

    from modellint.source.project.index import Project
    from modellint.source.syntax.ast_walk import Function as Statement

_DEEPEST = 2
"""Methods that enter each other from class to class, behind a `forward`."""
_MOST_CONTEXTS = 8
"""Ways to enter a method that are told from each other."""


def may_be_entered(function: Statement) -> bool:
    """Whether a method may be followed from another class: it has no decorators, and is not for training by its name."""
    return may_have_contexts(function) and not is_training_hook(function) and not is_loss_function(function)


def hopeful_entries(functions: Iterable[Statement]) -> list[Context]:
    """As if each method were given tensors."""
    return [
        context._replace(
            arguments=context.arguments._replace(positional=[SELF, *context.arguments.positional[1:]]),
        )
        for context in hopeful_contexts(functions)
    ]


def entries_of(project: Project, ref: ClassRef, functions: Iterable[Statement]) -> list[Context]:
    """The ways in which other modules are seen to run methods of a class, on the path of inference."""
    return [
        Context(function, _with_self(function, call), call.module)
        for function in functions
        for call in _calls_of(project, ref, function, _DEEPEST)
    ]


def module_that_enters(contexts: Iterable[Context], ref: ClassRef, row: int) -> str | None:
    """The module that has the method around a line run; None where none of these contexts says so."""
    methods = functions_in([ref.node])
    for context in contexts:
        for function in reached_from([context.function], methods):
            if function.lineno <= row <= (function.end_lineno or 0):
                return context.module
    return None


def _with_self(function: Statement, call: CallFacts) -> Arguments:
    arguments = arguments_of(function, call, 1)
    return arguments._replace(positional=[SELF, *arguments.positional])


def _calls_of(project: Project, ref: ClassRef, function: Statement, depth: int) -> list[CallFacts]:
    if depth == 0 or ref.within or not may_be_entered(function):
        return []
    key = "calls of a method", *ref.key, function.name, depth
    return project.remembered(key, lambda: _find_calls(project, ref, function, depth))


def _find_calls(project: Project, ref: ClassRef, function: Statement, depth: int) -> list[CallFacts]:
    wanted = ref.file.path, name_of_method(ref, function.name)
    calls: dict[Hashable, CallFacts] = {}
    holders = [
        holder
        for holder in holders_of(project, ref)
        if not is_path_of_tests(project, holder.path) and project.mentions.holds(holder.path, function.name)
    ]
    owners = [owner for owner in (holder.owner(project) for holder in holders) if owner is not None]
    for holder in _with_derived(owners):
        every = [*calls_of_forward(project, holder), *_calls_of_entries(project, holder, function.name, depth - 1)]
        for call in every:
            if (call.path, call.name) == wanted:
                calls.setdefault(call.key, call)
        if len(calls) >= _MOST_CONTEXTS:
            break
    return [*calls.values()][:_MOST_CONTEXTS]


def _with_derived(owners: Iterable[ClassRef]) -> list[ClassRef]:
    """Classes, and those of their files that derive from them."""
    every = [ClassRef(owner.file, node) for owner in owners for node in with_derived(owner.file, [owner.node])]
    return [*{ref.key: ref for ref in every}.values()]


def _calls_of_entries(project: Project, ref: ClassRef, name: str, depth: int) -> Iterator[CallFacts]:
    """The calls that a class makes in methods by which others enter it, where these name a method."""
    if depth == 0:
        return
    for function in functions_in([ref.node]):
        if (
            function.name != "forward"
            and project.mentions.is_called_on_parts(function.name)
            and any(part.attr == name for part in ast.walk(function) if isinstance(part, ast.Attribute))
        ):
            yield from _calls_of_entry(project, ref, function, depth)


def _calls_of_entry(project: Project, ref: ClassRef, function: Statement, depth: int) -> list[CallFacts]:
    key = "calls of an entry", *ref.key, function.name, depth
    return project.remembered(key, lambda: _read_entry(project, ref, function, depth))


def _read_entry(project: Project, ref: ClassRef, function: Statement, depth: int) -> list[CallFacts]:
    calls = _calls_of(project, ref, function, depth)
    if not calls or is_off_inference(project, ref):
        return []
    onward: list[CallFacts] = []
    for call in calls:
        reading = Reading(project, ref, ref.file)
        reading.interpreter.resolves_abroad = True
        try:
            reading.build()
            reading.read_entries([(Function(function, ref.file, None, ref), _with_self(function, call))])
            onward += calls_abroad(reading, ref.file, call.module)
        except TooLarge:
            pass
        finally:
            reading.close()
    return onward

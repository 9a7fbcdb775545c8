"""Effects: the arguments that a function of another file changes in place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains.derived_tensors import tensors_in
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Function, Value, alternatives
from modellint.source.engine.class_state import TooLarge
from modellint.source.facts.calling_contexts import CallFacts, arguments_of, call_facts, may_have_contexts
from modellint.source.facts.class_analysis import Reading
from modellint.source.project.symbols import FunctionRef, dotted_name

if TYPE_CHECKING:
    from modellint.source.facts.recorded_operations import Call, Write
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_NO_CHANGE = frozenset({"requires_grad_", "detach_", "share_memory_", "zero_", "fill_"})
"""Methods that change no tensor, or leave a constant in it."""


def changed_arguments(project: Project, file: IndexedFile, call: Call) -> list[Value]:
    """The arguments that a call changes in place by what they were, or by other tensors, where a function of another file is called."""
    dotted = dotted_name(call.node.func)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    if not isinstance(symbol, FunctionRef) or symbol.file is file or not may_have_contexts(symbol.node):
        return []
    facts = call_facts(symbol.file.path, symbol.node.name, call.arguments)
    names = project.remembered(("changes", facts.key), lambda: _changed(project, symbol, facts))
    parameters = [*symbol.node.args.posonlyargs, *symbol.node.args.args]
    by_position = zip(parameters, call.arguments.positional, strict=False)
    return [value for parameter, value in by_position if parameter.arg in names] + [
        value for name, value in call.arguments.keywords.items() if name in names
    ]


def _changed(project: Project, ref: FunctionRef, facts: CallFacts) -> frozenset[str]:
    """The parameters of a function that it changes when it is called so."""
    reading = Reading(project, None, ref.file)
    try:
        reading.read_calls([(Function(ref.node, ref.file), arguments_of(ref.node, facts))])
    except TooLarge:
        return frozenset()
    finally:
        reading.close()
    return frozenset(
        parameter.arg
        for readings in reading.kept.writes.values()
        if all(map(_counts, readings))
        for parameter in _parameters(readings[0])
    )


def _counts(write: Write) -> bool:
    if write.training or write.switched or not write.exported:
        return False
    match write.how:
        case "augmented":
            return True
        case "item":
            return bool(tensors_in([write.value]))
        case "method":
            name = getattr(getattr(write.node, "func", None), "attr", "")
            return name not in _NO_CHANGE and bool(getattr(write.node, "args", ()))
    return False


def _parameters(write: Write) -> list[ast.arg]:
    parts = alternatives(write.target)
    roots = [part.root.node for part in parts if isinstance(part, Tensor)]
    return [root for root in roots if isinstance(root, ast.arg)] if len(roots) == len(parts) else []

"""The API for rules: the facts that a rule asks, the values and syntax that these are made of, and what it answers with.

Rules import this module, their own family and nothing else of the machine. Every name is defined and documented where ``_HOMES``
says, and loaded from there when it is first asked for: a check of source never loads what only live rules need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.data import operator_conversion
    from modellint.destinations.coreml.version_facts import coreml
    from modellint.live.attribute_contents import HeldAttribute
    from modellint.live.capture import records
    from modellint.live.capture.data_dependence import Reach, facts_in
    from modellint.live.capture.records import Failure, Operator, Run, TensorFact
    from modellint.live.capture.scalar_operands import ScalarOperand
    from modellint.live.checkpoint_comparison import Comparison, Renaming, Shape
    from modellint.live.model_facts import LiveModel
    from modellint.live.subject import Entry, State
    from modellint.live.unregistered_state import Held
    from modellint.results.conversion_verdict import Blocker
    from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Place, Severity
    from modellint.results.operator_support import Hint
    from modellint.rule import Feature, Rule, Trigger
    from modellint.settings import Destination
    from modellint.source.cst_facts import CstFile
    from modellint.source.domains.derived_tensors import tensors_in
    from modellint.source.domains.masks import holds_floats, is_mask
    from modellint.source.domains.operator_sets import operators
    from modellint.source.domains.symbolic_numbers import Drawn
    from modellint.source.domains.tensors import Tensor
    from modellint.source.engine.abstract_values import (
        UNKNOWN,
        Argument,
        ClassValue,
        Const,
        Container,
        Instance,
        Method,
        Number,
        Text,
        Value,
        alternatives,
    )
    from modellint.source.engine.arguments import Arguments
    from modellint.source.engine.class_state import Binding
    from modellint.source.facts.class_facts import Attribute, Hidden, ModuleClass
    from modellint.source.facts.device_mixing import meets_tensors
    from modellint.source.facts.function_facts import Code
    from modellint.source.facts.recorded_operations import Call, Loop, Operation, Question, Write
    from modellint.source.project.symbols import ClassRef, External, Imported, dotted_name
    from modellint.source.syntax.ast_walk import called_name, mentioned_in, of_kind, once, parents_in, walk

    OperatorSupport = operator_conversion.Operator
    LiveCall = records.Call

__all__ = [  # noqa: RUF022
    # What a rule is, what wakes it, and what it answers with.
    "Applicability",
    "Destination",
    "Diagnostic",
    "Edit",
    "Feature",
    "Fix",
    "Hint",
    "Place",
    "Rule",
    "Severity",
    "Trigger",
    # A class as it is built: its attributes, what stands in them, and where.
    "Attribute",
    "Binding",
    "Hidden",
    "ModuleClass",
    # Code as it runs: what is called, written, computed, asked and looped over.
    "Arguments",
    "Call",
    "Code",
    "Loop",
    "Operation",
    "Question",
    "Write",
    # The abstract values of both.
    "Argument",
    "ClassValue",
    "Const",
    "Container",
    "Drawn",
    "Instance",
    "Method",
    "Number",
    "Tensor",
    "Text",
    "UNKNOWN",
    "Value",
    "alternatives",
    "holds_floats",
    "is_mask",
    "meets_tensors",
    "tensors_in",
    # Names and files of the project.
    "ClassRef",
    "External",
    "Imported",
    "dotted_name",
    # Syntax trees, and edits of text.
    "CstFile",
    "called_name",
    "mentioned_in",
    "of_kind",
    "once",
    "parents_in",
    "walk",
    # What is known of torch, of number types and of Core ML.
    "OperatorSupport",
    "coreml",
    "operators",
    # A live model, and what a run of it showed.
    "Blocker",
    "Comparison",
    "Entry",
    "Failure",
    "Held",
    "HeldAttribute",
    "LiveCall",
    "LiveModel",
    "Operator",
    "Reach",
    "Renaming",
    "Run",
    "ScalarOperand",
    "Shape",
    "State",
    "TensorFact",
    "facts_in",
]
_HOMES = {
    "rule": "Feature Rule Trigger",
    "results.operator_support": "Hint",
    "results.diagnostic": "Applicability Diagnostic Edit Fix Place Severity",
    "settings": "Destination",
    "source.facts.class_facts": "Attribute Hidden ModuleClass",
    "source.engine.class_state": "Binding",
    "source.facts.function_facts": "Code",
    "source.engine.arguments": "Arguments",
    "source.facts.recorded_operations": "Call Loop Operation Question Write",
    "source.engine.abstract_values": "Argument ClassValue Const Container Instance Method Number Text UNKNOWN Value alternatives",
    "source.domains.symbolic_numbers": "Drawn",
    "source.domains.tensors": "Tensor",
    "source.domains.derived_tensors": "tensors_in",
    "source.facts.device_mixing": "meets_tensors",
    "source.domains.masks": "holds_floats is_mask",
    "source.project.symbols": "ClassRef External Imported dotted_name",
    "source.cst_facts": "CstFile",
    "source.syntax.ast_walk": "called_name mentioned_in of_kind once parents_in walk",
    "source.domains.operator_sets": "operators",
    "destinations.coreml.version_facts": "coreml",
    "data.operator_conversion": "Operator=OperatorSupport",
    "live.model_facts": "LiveModel",
    "live.subject": "Entry State",
    "live.attribute_contents": "HeldAttribute",
    "live.unregistered_state": "Held",
    "live.capture.records": "Call=LiveCall Failure Operator Run TensorFact",
    "live.capture.data_dependence": "Reach facts_in",
    "live.capture.scalar_operands": "ScalarOperand",
    "live.checkpoint_comparison": "Comparison Renaming Shape",
    "results.conversion_verdict": "Blocker",
}
"""The module of the machine that defines each name; ``name=alias`` is called ``alias`` here."""
_FOUND_IN = {
    alias or name: (f"modellint.{module}", name)
    for module, names in _HOMES.items()
    for name, _, alias in (spelled.partition("=") for spelled in names.split())
}


def __getattr__(name: str) -> object:
    if name not in _FOUND_IN:
        raise AttributeError(f"modellint.authoring has no {name!r}; it has {', '.join(__all__)}")
    module, spelled = _FOUND_IN[name]
    globals()[name] = value = getattr(import_module(module), spelled)
    return value

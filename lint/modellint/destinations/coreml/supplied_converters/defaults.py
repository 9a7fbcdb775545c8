"""Default arguments filled in for coremltools' own converters that want every argument; exported programs leave defaults out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import TABLE, Converter
from modellint.destinations.decompositions.table import BIT_EQUAL, within


def _filled(overload: Any) -> Callable[[Call], Any]:
    positional = [argument for argument in overload._schema.arguments if not argument.kwarg_only]
    name = operator_tables.looked_up(overload)

    def make(call: Call) -> Any:
        count = len(call.node.inputs)
        rest = positional[count:]
        has_defaults = bool(rest) and all(argument.has_default_value() for argument in rest)
        if not has_defaults or not operator_tables.is_export(call.context):
            return NotImplemented
        inputs = [*call.node.inputs, *(argument.default_value for argument in rest)]
        kwinputs = dict(call.node.kwinputs or {}) or None
        results = operator_tables.converted_as(call.context, call.node, name, inputs, 1, kwinputs)
        return results[0]

    return make


_OPERATORS = {
    "max_pool1d max_pool2d max_pool3d": BIT_EQUAL,
    "cosine_similarity": within(16),
}
for _operators, _exactness in _OPERATORS.items():
    for _operator in _operators.split():
        for _overload in getattr(torch.ops.aten, _operator).overloads():
            _target = getattr(getattr(torch.ops.aten, _operator), _overload)
            _name = operator_tables.looked_up(_target)
            if "out" not in _overload and operator_tables.has_own_converter(_name):
                TABLE.setdefault(_name, []).append(
                    Converter(f"aten::{_operator}", (_name,), _exactness, _filled(_target), "call")
                )

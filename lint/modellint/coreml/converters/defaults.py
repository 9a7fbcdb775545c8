"""Operators whose converters want every argument, where an exported program leaves out those that have their default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from modellint.coreml import private_converters as private
from modellint.coreml.converters.registration import BIT_EQUAL, TABLE, Call, Converter

_OUTPUTS = {"_unique2": 3}


def _filled(operator: str, overload: Any) -> Callable[[Call], Any]:
    given = [one for one in overload._schema.arguments if not one.kwarg_only]
    name = private.looked_up(overload)

    def make(call: Call) -> Any:
        count = len(call.node.inputs)
        rest = given[count:]
        if not private.is_export(call.context) or not rest or not all(one.has_default_value() for one in rest):
            return NotImplemented
        inputs = [*call.node.inputs, *(one.default_value for one in rest)]
        kwinputs = dict(call.node.kwinputs or {}) or None
        made = private.converted_as(call.context, call.node, name, inputs, _OUTPUTS.get(operator, 1), kwinputs)
        return made[0] if len(made) == 1 else tuple(made)

    return make


_OPERATORS = """
max_pool1d max_pool2d max_pool3d cosine_similarity linalg_matrix_norm _unique2
fft_fft fft_ifft fft_rfft fft_irfft fft_fftn fft_ifftn fft_rfftn fft_irfftn
"""
for _operator in _OPERATORS.split():
    for _overload in getattr(torch.ops.aten, _operator).overloads():
        _target = getattr(getattr(torch.ops.aten, _operator), _overload)
        _name = private.looked_up(_target)
        if "out" not in _overload and private.has_own_converter(_name):
            TABLE.setdefault(_name, []).append(
                Converter(f"aten::{_operator}", (_name,), BIT_EQUAL, _filled(_operator, _target), "call")
            )

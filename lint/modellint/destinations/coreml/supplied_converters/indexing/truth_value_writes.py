"""Writes to parts of tensors of truth values, which coremltools refuses for targets before iOS 18."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import cast_to, is_boolean, mb
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import rescues


def _in_integers(name: str, call: Call) -> Any:
    """The same write to a tensor of zeros and ones."""
    x, value = call.args[:2]
    where = call.node.inputs[2:]
    if not is_boolean(x):
        return NotImplemented
    # What is written is a truth value first: 0.5 is true.
    if isinstance(value, operator_tables.Var):
        value = cast_to(value if is_boolean(value) else cast_to(value, torch.bool), torch.int32)
    else:
        value = int(bool(value))
    written = operator_tables.converted_as(call.context, call.node, name, [cast_to(x, torch.int32), value, *where])
    return mb.cast(x=written[0], dtype="bool")


for _operator, _name in {
    "slice_scatter": "slice_scatter",
    "select_scatter": "select_scatter",
    # What coremltools makes of writes in a trace.
    "copy_": "_internal_op_tensor_inplace_copy",
    "fill_": "_internal_op_tensor_inplace_fill",
}.items():
    rescues(_operator, _name)(partial(_in_integers, _name))

"""Recurrent layers of exported programs, which coremltools converts of traced models only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import adapts
from modellint.destinations.decompositions.table import within

_OUTPUTS = {"lstm": 3, "gru": 2, "rnn_tanh": 2, "rnn_relu": 2}


def _as_traced(name: str, outputs: int) -> Callable[[Call], Any]:
    def layers(call: Call) -> Any:
        """Recurrent layers by the converter of traced models."""
        if not operator_tables.is_export(call.context):
            return NotImplemented
        return tuple(operator_tables.converted_as(call.context, call.node, name, call.node.inputs, outputs))

    return layers


for _name, _outputs in _OUTPUTS.items():
    adapts(_name, ".input", exactness=within(16))(_as_traced(_name, _outputs))

"""Recurrent layers, which coremltools converts of traced models only."""

from __future__ import annotations

from typing import Any

from modellint.destinations.coreml.converters.arguments import Call
from modellint.destinations.coreml.converters.registration import adapts, within
from modellint.destinations.coreml.private import operator_tables as private


def _layer(call: Call, name: str, outputs: int) -> Any:
    if not private.is_export(call.context):
        return NotImplemented
    return tuple(private.converted_as(call.context, call.node, name, call.node.inputs, outputs))


@adapts("lstm", ".input", exactness=within(16))
def lstm(call: Call) -> Any:
    """Layers of long short-term memory: the converter of traced models."""
    return _layer(call, "lstm", 3)


@adapts("gru", ".input", exactness=within(16))
def gru(call: Call) -> Any:
    """Layers of gated recurrent units: the converter of traced models."""
    return _layer(call, "gru", 2)


@adapts("rnn_tanh", ".input", exactness=within(16))
def rnn_tanh(call: Call) -> Any:
    """Elman layers: the converter of traced models."""
    return _layer(call, "rnn_tanh", 2)


@adapts("rnn_relu", ".input", exactness=within(16))
def rnn_relu(call: Call) -> Any:
    """Elman layers with ReLU: the converter of traced models."""
    return _layer(call, "rnn_relu", 2)

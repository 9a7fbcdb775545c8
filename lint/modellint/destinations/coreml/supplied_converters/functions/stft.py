"""Fourier transforms that coremltools has under another name, or with complex results only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import adapts
from modellint.destinations.decompositions.table import within

EXACTNESS = within(64)


def _over_two_axes(name: str) -> Callable[[Call], Any]:
    def transform(call: Call) -> Any:
        """Fourier transform over the last two axes, if no others are named."""
        arguments = dict(zip(("s", "dim", "norm"), call.args[1:], strict=False)) | call.kwargs
        inputs = [call.args[0], arguments.get("s"), arguments.get("dim", [-2, -1]), arguments.get("norm")]
        return operator_tables.converted_as(call.context, call.node, name, inputs)[0]

    return transform


for _kind in ("fft", "ifft", "rfft", "irfft"):
    adapts(f"fft_{_kind}2", exactness=EXACTNESS)(_over_two_axes(f"fft_{_kind}n"))


@adapts("stft", exactness=EXACTNESS)
def stft(call: Call) -> Any:
    """Short-time Fourier transform, with real and imaginary parts along a last axis where that is asked for."""
    whole = call.args[7] if len(call.args) > 7 else call.kwargs.get("return_complex")
    if whole is None or bool(getattr(whole, "val", whole)):
        return NotImplemented
    kwinputs = dict(call.node.kwinputs or {}) or None
    spectrum = operator_tables.converted_as(call.context, call.node, "stft", call.node.inputs, 1, kwinputs)[0]
    return mb.stack(values=[mb.complex_real(data=spectrum), mb.complex_imag(data=spectrum)], axis=-1)

"""Fourier transforms that coremltools has under another name, or as complex numbers only."""

from __future__ import annotations

from typing import Any

from modellint.destinations.coreml.converters.arguments import Call
from modellint.destinations.coreml.converters.registration import adapts, within
from modellint.destinations.coreml.private import operator_tables as private
from modellint.destinations.coreml.private.operator_tables import mb

EXACTNESS = within(64)


def _in_two(call: Call, name: str) -> Any:
    """Over the last two axes, if no others are named."""
    given = dict(zip(("s", "dim", "norm"), call.args[1:], strict=False)) | call.kwargs
    inputs = [call.args[0], given.get("s"), given.get("dim", [-2, -1]), given.get("norm")]
    return private.converted_as(call.context, call.node, name, inputs)[0]


@adapts("fft_fft2", exactness=EXACTNESS)
def fft_fft2(call: Call) -> Any:
    """Over two axes."""
    return _in_two(call, "fft_fftn")


@adapts("fft_ifft2", exactness=EXACTNESS)
def fft_ifft2(call: Call) -> Any:
    """Back, over two axes."""
    return _in_two(call, "fft_ifftn")


@adapts("fft_rfft2", exactness=EXACTNESS)
def fft_rfft2(call: Call) -> Any:
    """Of real numbers, over two axes."""
    return _in_two(call, "fft_rfftn")


@adapts("fft_irfft2", exactness=EXACTNESS)
def fft_irfft2(call: Call) -> Any:
    """Back to real numbers, over two axes."""
    return _in_two(call, "fft_irfftn")


@adapts("stft", exactness=EXACTNESS)
def stft(call: Call) -> Any:
    """Of windows, with the two parts of each number along a last axis where that is asked for."""
    whole = call.args[7] if len(call.args) > 7 else call.kwargs.get("return_complex")
    if whole is None or bool(getattr(whole, "val", whole)):
        return NotImplemented
    kwinputs = dict(call.node.kwinputs or {}) or None
    found = private.converted_as(call.context, call.node, "stft", call.node.inputs, 1, kwinputs)[0]
    return mb.stack(values=[mb.complex_real(data=found), mb.complex_imag(data=found)], axis=-1)

"""Missing converters: what the rules about operators without one share."""

from __future__ import annotations

from modellint.authoring import coreml

FAST_PATH = frozenset({"aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"})
"""Fused kernels of torch's attention layers, which only inference runs."""
PYTHON = "prim::PythonOp"
"""What a trace makes of a `torch.autograd.Function`."""


def coremltools() -> str:
    """The installed coremltools, with its version."""
    return f"coremltools {coreml.installed('coremltools')}"

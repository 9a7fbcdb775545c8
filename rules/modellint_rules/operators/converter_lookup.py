"""Missing converters: what the rules about operators without one share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.authoring import coreml

if TYPE_CHECKING:
    from modellint.authoring import Destination

FAST_PATH = frozenset({"aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd"})
"""Fused kernels of torch's attention layers, which only inference runs."""
OTHER_FORM = "Write it in operators that convert: a check of the model tells whether one does"
"""Advice for a destination whose operators no table knows."""
PYTHON = "prim::PythonOp"
"""What a trace makes of a `torch.autograd.Function`."""

OF_PACKAGES = {
    **{f"torchvision.ops.{name}": f"torchvision::{name}" for name in ("deform_conv2d", "roi_align", "roi_pool")},
    **{f"torchvision.ops.{name}": f"torchvision::{name}" for name in ("ps_roi_align", "ps_roi_pool")},
    "torchvision.ops.DeformConv2d": "torchvision::deform_conv2d",
    "torchvision.ops.RoIAlign": "torchvision::roi_align",
    "torchvision.ops.MultiScaleRoIAlign": "torchvision::roi_align",
    "torchvision.ops.RoIPool": "torchvision::roi_pool",
    "torchvision.ops.PSRoIAlign": "torchvision::ps_roi_align",
    "torchvision.ops.PSRoIPool": "torchvision::ps_roi_pool",
}
"""Functions and layers of other packages that run an operator of their own, for which coremltools 9.0 has no converter by any route:
converted with it and torchvision 0.28. Of torchvision's operators it has `nms` alone; later ones stand in its table by these names."""
OF_TORCH = {
    "torch.nn.attention.flex_attention.flex_attention": "flex_attention",
    "torch.nn.attention.flex_attention.create_block_mask": "flex_attention",
}
"""Functions of torch that no table has, and the operator that they are for: with coremltools 9.0 and torch 2.13
a trace refuses each of them, and an export gives operators without a converter, also with core ATen decompositions."""

OF_INITIALISERS = {
    **{f"torch.nn.init.{name}normal_": "torch.Tensor.normal_" for name in ("", "trunc_", "xavier_", "kaiming_")},
    **{f"torch.nn.init.{name}uniform_": "torch.Tensor.uniform_" for name in ("", "xavier_", "kaiming_")},
}
"""Functions that fill a tensor with random numbers, by the method that they call: with coremltools 9.0 and torch 2.13 neither a trace nor
an export of any of them converts."""


def of_package(name: str) -> str | None:
    """The operator without a converter that a function or layer of another package, or a function of torch's that no table has, runs."""
    if name in OF_TORCH:
        return OF_TORCH[name]
    package, _, last = name.rpartition(".")
    # `torchvision.ops.deform_conv.deform_conv2d` is the same.
    return OF_PACKAGES.get(f"torchvision.ops.{last}") if package.startswith("torchvision.ops") else None


def converter(destination: Destination) -> str:
    """The installed converter for a destination, with its version."""
    name = "coremltools" if destination.name == "coreml" else "coreai-torch"
    return f"{name} {coreml.installed(name)}"

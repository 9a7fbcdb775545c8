"""Untrained weights: whether a model's weights look as its constructors left them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

_ENOUGH = 64


def untrained(model: nn.Module) -> str:
    """What makes the weights look untrained; empty where they look trained, or there is nothing to go by."""
    norms = [norm for norm in model.modules() if isinstance(norm, _BatchNorm) and norm.running_mean is not None]
    if norms and all(_is_fresh(norm) for norm in norms):
        return "running averages have never been updated"
    scaled = [
        norm for norm in model.modules() if isinstance(norm, (nn.LayerNorm, nn.GroupNorm)) and norm.weight is not None
    ]
    if scaled and all(_is(norm.weight, 1.0) and _is(norm.bias, 0.0) for norm in scaled):
        return "the scales of all normalizations are 1"
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, (nn.Linear, _ConvNd)) and layer.weight.numel() >= _ENOUGH and not layer.weight.is_meta
    ]
    drawn = [layer for layer in layers if _is_drawn(layer.weight)]
    if layers and len(drawn) > len(layers) / 2:
        return "linear and convolutional weights are distributed as PyTorch draws them"
    return ""


def _is_fresh(norm: _BatchNorm) -> bool:
    return _is(norm.running_mean, 0.0) and _is(norm.running_var, 1.0)


def _is(tensor: Tensor | None, value: float) -> bool:
    return tensor is None or bool((tensor == value).all())


def _is_drawn(weight: Tensor) -> bool:
    """Whether values fill the uniform distribution of ``reset_parameters``, of which trained ones leave the bounds."""
    with torch.no_grad():
        bound = 1 / math.sqrt(weight[0].numel())
        largest, deviation = float(weight.abs().max()), float(weight.std())
    return 0.9 * bound <= largest <= bound * (1 + 1e-5) and abs(deviation * math.sqrt(3) / bound - 1) < 0.15

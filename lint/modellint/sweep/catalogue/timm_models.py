"""Catalogue of timm: the smallest entry of each modelling file, with a picture of the size that it asks for, or a smaller one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from modellint.data import smallest_models

_SIDE = 96
"""Pixels, where a model takes any number."""


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Tensor]]]]:
    """A model of each modelling file, by its name."""
    import timm

    chosen = smallest_models.known("timm")
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            name = smallest_models.choose(chosen.get(module), names)
            yield name, partial(build, name)


def build(name: str) -> tuple[nn.Module, Tensor]:
    """The model of a name with drawn weights, in eval mode, and a picture."""
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name).eval()
    settings = model.pretrained_cfg
    channels, height, width = settings["input_size"]
    draw = torch.Generator().manual_seed(0)
    if not settings.get("fixed_input_size", False):
        small = torch.randn(1, channels, min(height, _SIDE), min(width, _SIDE), generator=draw)
        try:
            with torch.no_grad():
                model(small)
        except (AssertionError, RuntimeError, ValueError):
            # It says of no size that it is fixed, and takes its own alone.
            pass
        else:
            return model, small
    return model, torch.randn(1, channels, height, width, generator=draw)

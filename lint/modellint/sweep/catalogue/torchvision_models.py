"""Catalogue of torchvision: the smallest entry of each modelling file, with a picture or a clip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from modellint.data import smallest_models

_FIXED = ("swin", "vit", "maxvit", "inception_v3", "mvit")
"""Beginnings of names of models that take one size alone, 299 for Inception, else 224."""


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Any]]]]:
    """A model of each modelling file, by its name."""
    import torchvision

    chosen = smallest_models.known("torchvision")
    files: dict[str, list[str]] = {}
    for name in torchvision.models.list_models():
        if not name.startswith("quantized_"):
            module = torchvision.models.get_model_builder(name).__module__
            files.setdefault(module.partition(".models.")[2], []).append(name)
    for module, names in sorted(files.items()):
        name = smallest_models.choose(chosen.get(module), names)
        yield name, partial(build, name)


def build(name: str) -> tuple[nn.Module, Any]:
    """The model of a name with drawn weights, in eval mode, and what it takes."""
    import torchvision

    torch.manual_seed(0)
    options = {} if name.startswith(("mvit", "swin3d")) else {"weights": None}
    module = torchvision.models.get_model_builder(name).__module__
    if "detection" in module or "segmentation" in module:
        options["weights_backbone"] = None
    model = torchvision.models.get_model(name, **options).eval()
    return model, _inputs(name, module)


def _inputs(name: str, module: str) -> Any:
    draw = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(1, *shape, generator=draw)

    if "detection" in module:
        return ([drawn(3, 96, 96)[0]],)
    if "optical_flow" in module:
        return drawn(3, 128, 128), drawn(3, 128, 128)
    if ".video" in module:
        return drawn(3, 16, 224, 224) if name.startswith(("mvit", "swin3d", "s3d")) else drawn(3, 8, 64, 64)
    side = 299 if name.startswith("inception") else 224 if name.startswith(_FIXED) else 96
    return drawn(3, side, side)

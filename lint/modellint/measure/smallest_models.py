"""Counts the parameters of the models of installed packages, and writes the table that catalogues choose the smallest from.

``python -m modellint.measure.smallest_models`` writes ``data/smallest_models.json`` anew, for timm and torchvision, in minutes.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import torch
from torch import nn

from modellint.data import smallest_models

Entry = tuple[str, str, Callable[[], nn.Module]]
"""A modelling file, the name of a model, and the function that builds it."""


def of_timm() -> Iterator[Entry]:
    """All models of timm."""
    import timm

    for module in timm.list_modules():
        for name in timm.list_models(module=module):
            yield module, name, lambda name=name: timm.create_model(name)  # type: ignore[misc]


def of_torchvision() -> Iterator[Entry]:
    """All models of torchvision but those that are quantised."""
    import torchvision

    for name in torchvision.models.list_models():
        if not name.startswith("quantized_"):
            builder = torchvision.models.get_model_builder(name)
            options = {"weights": None}
            if "detection" in builder.__module__ or "segmentation" in builder.__module__:
                options["weights_backbone"] = None
            file = builder.__module__.partition(".models.")[2]
            yield file, name, lambda builder=builder, options=options: builder(**options)  # type: ignore[misc]


def smallest(entries: Iterator[Entry]) -> dict[str, str]:
    """For each modelling file the model with the fewest parameters; what cannot be built on the meta device is left out."""
    best: dict[str, tuple[int, str]] = {}
    for file, name, build in entries:
        try:
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in build().parameters())
        except Exception:
            continue
        best[file] = min(best.get(file, (count, name)), (count, name))
    return {file: name for file, (_, name) in sorted(best.items())}


def main() -> None:
    """Write the table."""
    table = {
        package: {"version": importlib.metadata.version(package), "models": smallest(entries())}
        for package, entries in (("timm", of_timm), ("torchvision", of_torchvision))
    }
    place = Path(str(resources.files("modellint.data").joinpath(smallest_models.FILE)))
    place.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

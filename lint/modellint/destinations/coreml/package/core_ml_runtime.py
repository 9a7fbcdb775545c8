"""Apple's own runtime, where there is one: predictions of a converted model on macOS."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modellint.destinations.coreml.private.entry_points import ct, silence


def is_available() -> bool:
    """Whether converted models can be run here."""
    return sys.platform == "darwin"


def predicted(mlmodel: Any, inputs: Mapping[str, Tensor], names: Sequence[str]) -> list[Tensor]:
    """What Core ML gives for inputs by name, on the CPU; outputs in the order of ``names``.

    Raises what coremltools raises where the model cannot be loaded or run.
    """
    arrays = {name: value.detach().numpy() for name, value in inputs.items()}
    with silence(), tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.mlpackage"))
        mlmodel.save(path)
        results = ct.models.MLModel(path, compute_units=ct.ComputeUnit.CPU_ONLY).predict(arrays)
    return [torch.as_tensor(results[name]) for name in names]

"""A classifier's outputs, of `coremltools.converters.mil.mil.ops.defs.iOS15.classify`."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from modellint.destinations.coreml.mil.operation_registry import operation

Label = str | int


@operation()
def classify(probabilities: Tensor, classes: Sequence[Label]) -> tuple[Label, dict[Label, float]]:
    """The label of the greatest probability, and the probability of each label."""
    flat = probabilities.reshape(-1)
    labels = list(classes)
    return labels[int(flat.argmax())], dict(zip(labels, flat.tolist(), strict=True))

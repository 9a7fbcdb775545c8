"""A classifier's outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.entry_points import ct, silence


@pytest.mark.parametrize("labels", [["cat", "dog", "bird"], [10, 20, 30]])
def test_classify(labels: list[str] | list[int]) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1)).eval()
    x = torch.randn(1, 4)
    with silence(), torch.no_grad():
        converted = ct.convert(
            torch.jit.trace(model, x),
            inputs=[ct.TensorType(name="x", shape=x.shape)],
            classifier_config=ct.ClassifierConfig(labels),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )
        expected = model(x)[0]
        label, probabilities = Executor(converted._mil_program)({"x": x}).values()
    assert label == labels[int(expected.argmax())]
    assert list(probabilities) == labels
    np.testing.assert_allclose(list(probabilities.values()), expected, rtol=1e-5)

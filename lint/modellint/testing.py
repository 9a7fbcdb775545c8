"""Assertions for tests of models: that a model stays fit for export.

import torch
from modellint.testing import assert_exportable

def test_net_stays_exportable():
    assert_exportable(Net().eval(), torch.randn(1, 3, 32, 32))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modellint.api import Report, check_model

if TYPE_CHECKING:
    from torch import nn


def assert_exportable(
    model: nn.Module, example_inputs: Any = None, *, level: str = "warning", **options: Any
) -> Report:
    """Check a model as ``modellint.check_model`` does, with its options, and fail with the report.

    Raises ``modellint.CheckFailed``, an ``AssertionError``, if there is a finding at or above ``level``: ``info``, ``warning``
    or ``error``. Returns the report otherwise.
    """
    # pytest then shows the line of the test, not this one.
    __tracebackhide__ = True
    report = check_model(model, example_inputs, **options)
    report.raise_if_failed(level)
    return report

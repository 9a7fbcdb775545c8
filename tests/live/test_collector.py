"""What the garbage collector goes through while a model is checked, and that it is left as it was."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import modellint


class Watched(nn.Module):
    """Notes how many objects the collector leaves alone during its run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen.append(gc.get_freeze_count())
        return x * 2


seen: list[int] = []


@pytest.fixture(autouse=True)
def _thawed() -> None:
    gc.unfreeze()
    seen.clear()


def test_what_was_there_before_is_left_alone_meanwhile() -> None:
    was_enabled = gc.isenabled()
    modellint.check_model(Watched(), torch.ones(2))
    modellint.shapes(Watched(), torch.ones(2))
    assert all(seen)
    assert gc.get_freeze_count() == 0
    assert gc.isenabled() is was_enabled


def test_what_the_caller_has_frozen_stays_so() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    modellint.check_model(Watched(), torch.ones(2))
    assert gc.get_freeze_count() > before // 2

"""Attention by a mask of truth values: written otherwise, but where it is known that every query sees every key."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import modellint

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")


class Attending(nn.Module):
    """Attention of a sequence to itself, by a mask that its length decides, or that is given, too."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first
        self.register_buffer("offset", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        places = torch.arange(x.shape[-2]) + self.offset
        seen = (places[:, None] - self.first >= places)[None]
        return nn.functional.scaled_dot_product_attention(x, x, x, seen if mask is None else seen & mask)


@pytest.mark.parametrize(
    ("first", "is_given", "is_mended"),
    [(-6, False, False), (0, False, True), (1, False, True), (-6, True, True)],
    ids=str,
)
def test_a_mask_is_written_otherwise_where_it_may_hide_keys(
    tmp_path: Path, first: int, is_given: bool, is_mended: bool
) -> None:
    inputs = (torch.randn(1, 2, 6, 4), *([torch.rand(1, 6, 6) > 0.5] if is_given else []))
    exported = modellint.export(Attending(first).eval(), inputs, destination="coreai", output=tmp_path / "net.aimodel")
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    mended = [change.what for change in exported.summary.changes if change.kind == "mended"]
    assert mended == (["aten::scaled_dot_product_attention"] if is_mended else [])


class Written(Attending):
    """The same by a place that every run moves on."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        attended = super().forward(x, mask)
        self.offset += 1
        return attended


def test_a_mask_by_a_state_is_not_known(tmp_path: Path) -> None:
    exported = modellint.export(
        Written(-6).eval(), (torch.randn(1, 2, 6, 4),), destination="coreai", output=tmp_path / "net.aimodel"
    )
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    assert [change.what for change in exported.summary.changes if change.kind == "mended"]

"""Flexible attention: exports compute it by products, and agree with PyTorch, which runs it eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint

flexible = pytest.importorskip("torch.nn.attention.flex_attention", reason="PyTorch has it since 2.5")


class Attention(nn.Module):
    def __init__(
        self, score_mod: Callable[..., Tensor] | None, mask_mod: Callable[..., Tensor] | None, groups: int
    ) -> None:
        super().__init__()
        self.queries, self.keys = nn.Linear(8, 16), nn.Linear(8, 16 // groups)
        self.score_mod, self.groups = score_mod, groups
        self.mask = (
            flexible.create_block_mask(mask_mod, None, None, 6, 6, device="cpu") if mask_mod is not None else None
        )

    def forward(self, x: Tensor) -> Any:
        q, k = (part(x).unflatten(-1, (-1, 4)).transpose(1, 2) for part in (self.queries, self.keys))
        attended = flexible.flex_attention(
            q, k, k, score_mod=self.score_mod, block_mask=self.mask, enable_gqa=self.groups > 1
        )
        return attended.transpose(1, 2).flatten(2)


BIAS = torch.randn(4, generator=torch.Generator().manual_seed(1))
PARTS = torch.tensor([0, 0, 1, 1, 1, 2])


@pytest.mark.parametrize(
    ("score_mod", "mask_mod", "groups"),
    [
        (None, None, 1),
        (lambda score, b, h, q, k: score + BIAS[h] * (q - k), None, 1),
        (None, lambda b, h, q, k: q >= k, 1),
        (None, lambda b, h, q, k: PARTS[q] == PARTS[k], 2),
        (lambda score, b, h, q, k: score * 2, lambda b, h, q, k: (q > 2) & (k <= q), 1),
    ],
    ids=["plain", "a bias by heads", "causal", "parts of a row", "rows of which nothing is left"],
)
@pytest.mark.parametrize("route", ["trace", "export"])
def test_an_export_agrees(
    score_mod: Callable[..., Tensor] | None, mask_mod: Callable[..., Tensor] | None, groups: int, route: str
) -> None:
    torch.manual_seed(0)
    model = Attention(score_mod, mask_mod, groups).eval()
    exported = modellint.export(model, (torch.randn(2, 6, 8),), frontend=route, precision="fp32")
    assert exported.verification is not None and exported.verification.verdict == "agrees"

"""Attention against its formula, and against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agree, mb

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("lead", [(2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "shared"])
def test_scaled_dot_product_attention(lead: tuple[int, ...], kind: str) -> None:
    query, key, value = normal(*lead, 4, 8), normal(*lead, 5, 8), normal(*lead, 5, 3)
    match kind:
        case "none":
            options = {}
        case "bool":
            mask = RNG.random((*lead, 4, 5)) < 0.6
            mask[..., 0] = True
            options = {"attn_mask": mask}
        case "float":
            options = {"attn_mask": normal(*lead, 4, 5)}
        case _:
            options = {"attn_mask": normal(5)}

    agree(
        lambda query, key, value: mb.scaled_dot_product_attention(query=query, key=key, value=value, **options),
        18,
        query=query,
        key=key,
        value=value,
    )

"""Attention with a mask of truth values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


@decomposes("scaled_dot_product_attention", exactness=within(16))
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention that a mask keeps from keys, however large their scores; a query without any gives zeros.

    coremltools adds -30000 to the scores of other keys, so that larger ones outweigh it, and gives such a query the mean.
    """
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    elif attn_mask is None or attn_mask.dtype is not torch.bool:
        return NotImplemented
    else:
        mask = attn_mask
    # Tensors both, as a choice between two numbers has no size of its own where sizes are flexible.
    kept = mask.float() * 0.0
    attention = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, torch.where(mask, kept, kept - 3e38), dropout_p, False, scale=scale, enable_gqa=enable_gqa
    )
    return attention if is_causal else torch.where(torch.amax(mask.float(), -1, keepdim=True) > 0, attention, 0.0)

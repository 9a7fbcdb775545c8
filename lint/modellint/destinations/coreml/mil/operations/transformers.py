"""Attention, of `coremltools.converters.mil.mil.ops.defs.iOS18.transformers`."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import operation


@operation()
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """``softmax(query @ key.T / sqrt(E) + attn_mask) @ value``; a bool mask says which elements take part."""
    if attn_mask is not None and attn_mask.dim() == 1:
        attn_mask = attn_mask[None]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask)

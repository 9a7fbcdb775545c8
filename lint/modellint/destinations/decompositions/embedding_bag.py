"""Embedding bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


@decomposes("_embedding_bag", "_embedding_bag_forward_only", exactness=within(8))
@decomposes("embedding_bag", ".padding_idx", exactness=within(8))
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sum, mean or maximum of the embeddings of each bag."""
    count = int(indices.shape[0])
    bags = int(offsets.shape[0]) - include_last_offset
    at = torch.arange(count)
    begin = offsets[:bags].unsqueeze(-1)
    end = offsets[1:] if include_last_offset else torch.cat([offsets[1:], torch.full([1], count)])
    mine = torch.logical_and(at >= begin, at < end.unsqueeze(-1))
    bag = (mine.long() * torch.arange(bags).unsqueeze(-1)).sum(0)
    if padding_idx is not None and padding_idx != -1:
        mine = torch.logical_and(mine, indices != padding_idx % int(weight.shape[0]))
    rows = torch.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    sizes = mine.long().sum(-1)
    empty = (sizes == 0).unsqueeze(-1)
    if mode == 2:
        largest = torch.where(mine.unsqueeze(-1), rows, -torch.inf).amax(1)
        return torch.where(empty, 0.0, largest), bag, sizes, sizes
    totals = torch.where(mine.unsqueeze(-1), rows, 0.0).sum(1)
    if mode == 1:
        totals = totals / torch.where(empty, 1, sizes.unsqueeze(-1)).to(rows.dtype)
    return totals, bag, sizes, sizes

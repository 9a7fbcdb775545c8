"""Loss functions with a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor

_EPSILON = float(torch.tensor(1e-12))
"""What PyTorch adds to the squares of lengths (`EPSILON` in its Loss.cpp), in single precision."""


def _reduced(losses: Any, reduction: int) -> Any:
    """Reduction of losses: none, mean or sum."""
    match reduction:
        case 1:
            return losses.mean()
        case 2:
            return losses.sum()
    return losses


@decomposes("hinge_embedding_loss", exactness=within(8))
def hinge_embedding_loss(x: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Any:
    """Hinge embedding loss."""
    near = torch.where(target == -1, 0.0, x)
    far = torch.where(target == 1, 0.0, torch.clamp_min(margin - x, 0.0))
    return _reduced(near + far, reduction)


@decomposes("cosine_embedding_loss", exactness=within(8))
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Any:
    """Cosine embedding loss."""
    axis = max(input1.dim(), input2.dim()) - 1
    lengths = [(rows * rows).sum(axis) + _EPSILON for rows in (input1, input2)]
    cosine = (input1 * input2).sum(axis) / torch.sqrt(lengths[0] * lengths[1])
    near = torch.where(target == 1, 1 - cosine, 0.0)
    far = torch.where(target == -1, torch.clamp_min(cosine - margin, 0.0), 0.0)
    return _reduced(near + far, reduction)


@decomposes("margin_ranking_loss", exactness=within(8))
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Any:
    """Margin ranking loss."""
    return _reduced(torch.clamp_min(-target * (input1 - input2) + margin, 0.0), reduction)


@decomposes("triplet_margin_loss", exactness=within(16))
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Any:
    """Triplet margin loss."""
    near = torch.nn.functional.pairwise_distance(anchor, positive, p, eps)
    far = torch.nn.functional.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, torch.nn.functional.pairwise_distance(positive, negative, p, eps))
    return _reduced(torch.clamp_min(margin + near - far, 0.0), reduction)

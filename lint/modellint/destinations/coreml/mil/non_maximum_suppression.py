"""Non-maximum suppression: which boxes are kept where they overlap."""

from __future__ import annotations

import torch
from torch import Tensor


def kept_boxes(boxes: Tensor, scores: Tensor, iou_threshold: float, score_threshold: float, per_class: bool) -> Tensor:
    """Indices of the boxes that are left, best first; at least one.

    Args:
        boxes: (boxes, 4): x and y of the centre, width, height.
        scores: (boxes, classes). A box counts by its best class.
        iou_threshold: A box that overlaps a better one by more, as intersection over union, falls away.
        score_threshold: So does one that does not score more.
        per_class: Only boxes of the same best class suppress each other.
    """
    best, label = scores.max(dim=1)
    centre, size = boxes[:, :2], boxes[:, 2:]
    low, high = centre - size / 2, centre + size / 2
    area = size.prod(dim=1)
    alive = best > score_threshold
    kept = []
    for index in torch.argsort(best, descending=True, stable=True).tolist():
        if not alive[index]:
            continue
        kept.append(index)
        both = (torch.minimum(high[index], high) - torch.maximum(low[index], low)).clamp(min=0).prod(dim=1)
        overlapping = both / (area[index] + area - both) > iou_threshold
        alive &= ~(overlapping & (label == label[index])) if per_class else ~overlapping
    return torch.tensor(kept or [int(best.argmax())])

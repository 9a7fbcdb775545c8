"""Flexible attention: `flex_attention` as the products and the softmax that it stands for, which destinations have operators for.

PyTorch compiles it by Dynamo even where it runs eagerly, which neither a trace nor the modes of an export see through. What it computes
eagerly is all scores, changed by ``score_mod`` and left out by ``mask_mod``, whichever blocks a `BlockMask` lists.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_MODULE = "torch.nn.attention.flex_attention"
_OPERATOR, _UNCOMPILED = "flex_attention_hop", "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
_EMPTY = "_create_empty_block_mask"


@contextmanager
def as_products() -> Iterator[list[None]]:
    """Scope in which flexible attention is computed by ordinary operators. Yields a list that has an item for each call of it."""
    calls: list[None] = []
    module = sys.modules.get(_MODULE)
    if module is None or not (hasattr(module, _OPERATOR) and hasattr(module, _UNCOMPILED)):
        yield calls
        return
    place: Any = module
    names = [name for name in (_OPERATOR, _UNCOMPILED, _EMPTY) if hasattr(module, name)]
    before = {name: getattr(module, name) for name in names}

    def attended(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        calls.append(None)
        return _attended(*args, **kwargs)

    def empty(*args: Any, **kwargs: Any) -> Any:
        # It rests on sizes alone, and is made by `vmap`, which a trace cannot follow.
        internal: Any = torch._C
        tracing = internal._get_tracing_state()
        internal._set_tracing_state(None)
        try:
            return before[_EMPTY](*args, **kwargs)
        finally:
            internal._set_tracing_state(tracing)

    ours = {_OPERATOR: attended, _UNCOMPILED: True, _EMPTY: empty}
    try:
        for name in names:
            setattr(place, name, ours[name])
        yield calls
    finally:
        for name in names:
            setattr(place, name, before[name])


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: Mapping[str, Any],
    score_mod_other_buffers: tuple[Any, ...] = (),
    mask_mod_other_buffers: tuple[Any, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The attention of (B, H, L, E) over (B or 1, H / G, S, E), the logarithm to the base 2 of each row's sum, and its largest score.

    ``score_mod`` and ``mask_mod`` are written for one score, and are given all of them with indices that broadcast. A row of which
    nothing is left gives zeros.
    """
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    places = [
        torch.arange(size, device=scores.device).reshape([-1 if at == axis else 1 for at in range(4)])
        for axis, size in enumerate(scores.shape)
    ]
    scores = score_mod(scores, *places, *score_mod_other_buffers)
    mask_mod = block_mask[-1]
    if getattr(mask_mod, "__name__", "") == "noop_mask":
        weights = scores.softmax(-1)
    else:
        kept = mask_mod(*places, *mask_mod_other_buffers).expand(scores.shape)
        none_left = ~kept.any(-1, keepdim=True)
        scores = scores.masked_fill(~kept, -math.inf)
        weights = scores.masked_fill(none_left, 0.0).softmax(-1).masked_fill(none_left, 0.0)
    sums, largest = scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)
    return (weights.to(query.dtype) @ value.to(query.dtype)), sums, largest

"""Unstable order: which of equal elements `topk` and `sort` give first, which PyTorch leaves open, told from what it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_UNSTABLE = ("topk", "sort", "kthvalue")
"""Operators that leave open which of equal elements come first: https://docs.pytorch.org/docs/stable/generated/torch.sort.html."""


class OtherOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Equal elements come in another order than PyTorch's kernels give them on this machine: what depends on it changes.

    Args:
        seed: Of the order: with 0 the last of them comes first, with another they come in one that is drawn.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draw = torch.Generator().manual_seed(seed) if seed else None
        self.met = False
        """Whether there were any."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, on its operand in another order where that may decide between equal elements."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        name = func._schema.name.removeprefix("aten::")
        if name not in _UNSTABLE or given.get("stable") or "out" in given or not given["self"].dim():
            return result
        operand, dimension = given["self"], given.get("dim", -1)
        size = operand.shape[dimension]
        order = torch.arange(size).flip(0) if self._draw is None else torch.randperm(size, generator=self._draw)
        moved = operand.index_select(dimension, order)
        values, indices = func(moved, *args[1:], **kwargs) if args else func(**{**kwargs, "self": moved})
        indices = order[indices]
        if bool(torch.equal(indices, result[1])):
            return result
        self.met = True
        return values, indices

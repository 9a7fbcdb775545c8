"""Unstable order: which of equal elements `topk` and `sort` give first, and all of `topk(sorted=False)`, which PyTorch leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_UNSTABLE = ("topk", "sort")
"""Operators that leave open which of equal elements come first: https://docs.pytorch.org/docs/stable/generated/torch.sort.html."""


class InOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Equal elements come by their places, and all are sorted, whatever PyTorch's kernels do on this machine.

    Args:
        last_first: Whether the last of them comes first.
    """

    def __init__(self, last_first: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._last_first = last_first
        self.met = False
        """Whether there were any that came in another order."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, by a stable sort where its order is open."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        given = {argument.name: argument.default_value for argument in func._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        name = func._schema.name.removeprefix("aten::")
        if name not in _UNSTABLE or func._schema.is_mutable or given.get("stable"):
            return result
        operand, dimension = given["self"], given["dim"]
        if not operand.dim():
            return result
        descending = given["largest"] if name == "topk" else given["descending"]
        taken = operand.flip(dimension) if self._last_first else operand
        values, indices = torch.sort(taken, dim=dimension, descending=bool(descending), stable=True)
        if self._last_first:
            indices = operand.shape[dimension] - 1 - indices
        count = result[0].shape[dimension]
        values, indices = (part.narrow(dimension, 0, count).contiguous() for part in (values, indices))
        if bool(torch.equal(indices, result[1])):
            return result
        self.met = True
        return values, indices

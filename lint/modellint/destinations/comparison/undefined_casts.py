"""Undefined casts: numbers beyond an integer's range, whose conversion C and PyTorch leave open, told from what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_SOURCE = {"_to_copy": 0, "copy_": 1}
"""Where operators that cast have what they cast, among their arguments."""


def beyond(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Which floats an integer type does not hold, NaN among them; a cast takes the whole part of the others."""
    limits = torch.iinfo(dtype)
    whole = values.detach().to(torch.float64).trunc()
    return ~((whole >= limits.min) & (whole < float(limits.max) + (1.0 if limits.bits < 64 else 0.0)))


class OtherCasts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Undefined casts give another integer than PyTorch's kernels do on this machine: what depends on them changes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.met = False
        """Whether there was any."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, and change what it casts beyond the range."""
        result = func(*args, **(kwargs or {}))
        at = _SOURCE.get(func._schema.name.removeprefix("aten::"))
        if at is None or not _is_integral(result) or not args[at].is_floating_point():
            return result
        lost = beyond(args[at], result.dtype)
        if not bool(lost.any()):
            return result
        self.met = True
        limits = torch.iinfo(result.dtype)
        changed = torch.where(lost, torch.where(result == limits.max, limits.min, limits.max), result).to(result.dtype)
        return result.copy_(changed) if func._schema.is_mutable else changed


def _is_integral(value: Any) -> bool:
    return isinstance(value, Tensor) and not (
        value.is_floating_point() or value.is_complex() or value.dtype is torch.bool
    )

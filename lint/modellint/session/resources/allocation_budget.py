"""A limit on the memory that building a model may ask for, before any of it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class OverBudget(BaseException):
    """More was asked for than the budget holds. No ``Exception``: code that expects trouble must not swallow it."""


class Budget(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are made, those let go again too; raises ``OverBudget`` before the limit is passed."""

    def __init__(self, limit: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = limit

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Let an operator run if what it makes still fits."""
        keywords: Mapping[str, Any] = kwargs or {}
        self._left -= _made(func, args, keywords)
        if self._left < 0:
            raise OverBudget
        return func(*args, **keywords)


def _made(func: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> int:
    name = func.overloadpacket.__name__
    first = args[0] if args else None
    if isinstance(first, Tensor):
        is_copy = name == "clone" or name.endswith("_like")
        return first.numel() * first.element_size() if is_copy else 0
    if "device" not in keywords or keywords.get("layout") not in (None, torch.strided):
        return 0
    try:
        result = func(*args, **{**keywords, "device": torch.device("meta"), "pin_memory": None})
    except Exception:
        # What it cannot do there, it will say itself.
        return 0
    return result.numel() * result.element_size() if isinstance(result, Tensor) else 0

"""Rows that a mask finds: a capture cannot branch by whether there are any, as most experts ask who are sent no token."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NOTE = "where it asks whether a mask found rows, it is taken that it did"
FINDING = (torch.nonzero, torch.Tensor.nonzero, torch.where, torch.Tensor.where)


class FindingSome(TorchFunctionMode):
    """Mode in which a search for what is true finds something, as far as a capture asks. What comes of it has to be compared."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        if function in FINDING and len(args) == 1:
            rows = found[0] if isinstance(found, tuple) else found
            if isinstance(rows.shape[0], torch.SymInt):
                torch._check(rows.shape[0] != 0)  # type: ignore[no-untyped-call]
        return found

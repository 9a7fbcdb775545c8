"""Constants by operators: tensors of known numbers made by `arange`, `full` and `cat`.

What `torch.tensor` makes while a program is decomposed is a constant that the exported program does not list (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MOST = 512
"""Of how many pieces a constant may be made."""


class ConstantsByOperators(TorchFunctionMode):
    """The scope in which `torch.tensor` makes constants by operators. Raises ``NotImplementedError`` for one of too many pieces."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of PyTorch, or what stands for it."""
        if func is torch.tensor and isinstance(args[0], (bool, int, float, list, tuple)):
            return _made(args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _made(data: Any, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    shape, row = [], data
    while isinstance(row, (list, tuple)):
        shape.append(len(row))
        row = row[0] if row else 0.0
    numbers = list(_flat(data))
    dtype = dtype or _type(numbers)
    if not numbers:
        return torch.zeros(shape, dtype=dtype)
    pieces = [
        torch.full((count,), first, dtype=dtype) if not step else torch.arange(count, dtype=dtype) * step + first
        for first, step, count in _progressions(numbers, dtype)
    ]
    if len(pieces) > _MOST:
        raise NotImplementedError("a constant of too many numbers")
    return (pieces[0] if len(pieces) == 1 else torch.cat(pieces)).reshape(shape)


def _type(numbers: Sequence[Any]) -> torch.dtype:
    """The type that PyTorch gives to a tensor of these numbers."""
    if not numbers or any(isinstance(number, float) for number in numbers):
        return torch.get_default_dtype()
    return torch.bool if all(isinstance(number, bool) for number in numbers) else torch.int64


def _flat(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from _flat(part)
    else:
        yield data


def _progressions(numbers: Iterable[Any], dtype: torch.dtype) -> Iterator[tuple[Any, Any, int]]:
    """Arithmetic progressions that follow each other: first number, step, count. Of floats and truth values only constant ones."""
    has_steps = not dtype.is_floating_point and dtype is not torch.bool
    first, step, count = None, 0, 0
    for number in numbers:
        if count and (number - first == step * count if count > 1 else number == first or has_steps):
            step, count = (number - first if count == 1 else step), count + 1
            continue
        if count:
            yield first, step, count
        first, step, count = number, 0, 1
    if count:
        yield first, step, count

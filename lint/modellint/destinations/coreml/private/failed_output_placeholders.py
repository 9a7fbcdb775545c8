"""Placeholders for values that coremltools' converters did not make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from modellint.destinations.coreml.private.entry_points import front_end_parts, unlink_half_built

_LONGEST = 64
"""Up to so many numbers in a row may be a list that an operator takes, as sizes are."""


class Like(NamedTuple):
    """What PyTorch knows of a tensor that no converter made."""

    shape: tuple[Any, ...]
    """Integers, and for flexible dimensions names of symbols, None where there is none."""
    dtype: Any
    """A dtype of torch; for a plain number, which has no shape, `bool`, `int` or `float` itself."""


Likes = Any
"""A ``Like``, a list of such for a list of tensors, or None for what is not known."""


@cache
def _stand_in_base() -> Any:
    """Placeholder operation: its result has a type and no definition; what it uses stays alive."""
    api = front_end_parts()

    def type_inference(self: Any) -> Any:
        return self.value_type

    spec = api.InputSpec(uses=api.TupleInputType(optional=True))
    return type("modellint_stand_in", (api.Operation,), {"input_spec": spec, "type_inference": type_inference})


class StandIns:
    """Values of the shape and type that PyTorch knows, in the program that is being made."""

    def __init__(self) -> None:
        self._api = front_end_parts()
        self._symbols: dict[str, Any] = {}

    def name(self, size: str, symbol: Any) -> None:
        """Let a flexible size go by a symbol of coremltools'."""
        self._symbols.setdefault(size, symbol)

    def value_of(self, value: Any, like: Likes) -> Any:
        """What coremltools holds as PyTorch would have it; on the meta device what is no constant.

        Raises ``LookupError`` where that is not known.
        """
        if isinstance(value, (list, tuple)):
            likes = like if isinstance(like, list) else [None] * len(value)
            return [self.value_of(part, part_like) for part, part_like in zip(value, likes, strict=True)]
        known = value.val if isinstance(value, self._api.Var) else value
        if isinstance(known, str) or (known is None and not isinstance(value, self._api.Var)):
            return known
        if known is not None:
            if isinstance(like, Like) and like.dtype in (bool, int, float):
                return like.dtype(known)
            if isinstance(like, Like):
                return torch.as_tensor(known).to(like.dtype)
            if getattr(known, "size", 0) > _LONGEST or getattr(known, "ndim", 0) > 1:
                # No list of sizes but numbers, such as weights that a fused operator takes.
                return torch.as_tensor(known)
            return known.tolist() if hasattr(known, "tolist") else known
        if not isinstance(like, Like) or like.dtype in (bool, int, float) or None in like.shape:
            raise LookupError
        return torch.empty(like.shape, dtype=like.dtype, device="meta")

    def constant(self, value: Any) -> Any:
        """A constant of PyTorch's, or a list of such; None for one that coremltools cannot hold."""
        if isinstance(value, (list, tuple)):
            constants = [self.constant(part) for part in value]
            return None if any(part is None for part in constants) else constants
        try:
            if isinstance(value, torch.Tensor):
                narrow = {torch.int64: torch.int32, torch.float64: torch.float32, torch.bfloat16: torch.float32}
                value = value.to(narrow.get(value.dtype, value.dtype)).detach().numpy()
            return self._api.Builder.const(val=value)
        except Exception:
            unlink_half_built()
            return None

    def placeholder(self, like: Likes, uses: Sequence[Any]) -> Any:
        """A placeholder: a variable with a type and no known value; or a list of placeholders."""
        api = self._api
        if isinstance(like, list):
            parts = [self.placeholder(part, uses) for part in like]
            return None if any(part is None for part in parts) else parts
        if like is None:
            return None
        kind = self._type(like.dtype, uses)
        shape = [self._size(size) for size in like.shape]
        value_type = api.types.tensor(kind, shape) if shape else kind
        stand_in = type("modellint_stand_in", (_stand_in_base(),), {"value_type": value_type})
        return api.Builder._add_op(stand_in, **({"uses": tuple(uses)} if uses else {}))

    def _size(self, size: Any) -> Any:
        if isinstance(size, int):
            return size
        if not isinstance(size, str):
            # A symbol of coremltools' own.
            return self._api.new_symbol() if size is None else size
        if size not in self._symbols:
            self._symbols[size] = self._api.new_symbol()
        return self._symbols[size]

    def _type(self, dtype: Any, uses: Sequence[Any]) -> Any:
        types = self._api.types
        if dtype is torch.float16 and any(use.dtype == types.fp32 for use in uses):
            # What a traced model takes in half is widened first.
            return types.fp32
        if dtype in (bool, torch.bool):
            return types.bool
        if dtype is torch.float16:
            return types.fp16
        if dtype in (torch.complex64, torch.complex128):
            return types.complex64
        return types.fp32 if dtype is float or getattr(dtype, "is_floating_point", False) else types.int32


def variables(value: Any, api: SimpleNamespace) -> Iterator[Any]:
    """The variables in a value, or in a list of them."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from variables(part, api)
    elif isinstance(value, api.Var) and not isinstance(value, api.ListVar):
        yield value


def is_number_like(like: Likes) -> bool:
    """Whether a converter may want to know the value: a number, or a few integers such as a shape."""
    match like:
        case Like(shape, dtype):
            return dtype in (bool, int, float) or not shape or (len(shape) == 1 and not dtype.is_floating_point)
        case list():
            return any(map(is_number_like, like))
    return True

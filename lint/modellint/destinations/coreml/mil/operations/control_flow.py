"""Choice, lists and states, of `coremltools.converters.mil.mil.ops.defs.iOS15.control_flow` and `iOS18.states`.

Branches and loops are the executor's. A list grows where it is written beyond its end, and what was never written is zeros:
coremltools' `TestList`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.element_types import DTYPES
from modellint.destinations.coreml.mil.operation_registry import Declared, Refusal, operation


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors, all of one shape (``None``: not known before the first is written) and type."""

    length: int
    shape: tuple[int, ...] | None
    dtype: torch.dtype
    written: Mapping[int, Tensor] = field(default_factory=dict)

    def at(self, index: int) -> Tensor:
        """The element at ``index``."""
        if not 0 <= index < self.length:
            raise Refusal(f"element {index} of a list of {self.length}")
        if index in self.written:
            return self.written[index]
        shape = next((element.shape for element in self.written.values()), self.shape)
        if shape is None:
            raise Refusal("an element that was never written, in a list whose elements have no known shape")
        return torch.zeros(shape, dtype=self.dtype)

    def with_elements(self, elements: Mapping[int, Tensor]) -> TensorList:
        """The list after ``elements`` were written at their indices."""
        if any(index < 0 for index in elements):
            raise Refusal(f"a write to element {min(elements)} of a list")
        length = max(self.length, *(index + 1 for index in elements))
        return replace(self, length=length, written={**self.written, **elements})


@operation(moves=True)
def select(cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` where ``cond`` is true, ``b`` elsewhere."""
    return torch.where(cond, a, b)


@operation()
def make_list(
    elem_shape: Sequence[int | str], init_length: int = 1, dynamic_length: bool = True, dtype: str = "fp32"
) -> TensorList:
    """A list of ``init_length`` tensors of zeros; a size that is a name is known once an element is written."""
    sizes = tuple(size for size in elem_shape if isinstance(size, int))
    return TensorList(init_length, sizes if len(sizes) == len(elem_shape) else None, DTYPES[dtype])


@operation()
def list_length(ls: TensorList) -> Tensor:
    """The number of elements."""
    return torch.tensor(ls.length, dtype=torch.int32)


@operation()
def list_write(ls: TensorList, index: int, value: Tensor) -> TensorList:
    """The list with one element replaced."""
    return ls.with_elements({index: value})


@operation(moves=True)
def list_read(ls: TensorList, index: int) -> Tensor:
    """One element."""
    return ls.at(index)


@operation(moves=True)
def list_gather(ls: TensorList, indices: Sequence[int], declared: tuple[Declared, ...]) -> Tensor:
    """Elements, stacked."""
    if not indices:
        return torch.zeros([0, *(ls.shape or ())], dtype=ls.dtype)
    return torch.stack([ls.at(index) for index in indices])


@operation()
def list_scatter(ls: TensorList, indices: Sequence[int], value: Tensor) -> TensorList:
    """The list with elements replaced by those of ``value``."""
    return ls.with_elements(dict(zip(indices, value, strict=True)))


@operation(moves=True)
def read_state(input: Tensor) -> Tensor:  # noqa: A002
    """The state's present value. Nothing here writes into a tensor, so that it need not be copied."""
    return input

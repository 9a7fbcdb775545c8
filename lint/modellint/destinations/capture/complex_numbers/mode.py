"""Capture without complex numbers: while a model runs, complex tensors are pairs of real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.destinations.capture.complex_numbers import fourier_transforms
from modellint.destinations.capture.complex_numbers.pair import HANDLERS, MAKE_OF_A_TYPE, Pair, is_complex, pair_of

NOTE = "complex numbers are computed as pairs of real ones"
_MAKING = {torch.complex, torch.polar, torch.view_as_complex} | fourier_transforms.NEED_FIXED_SIZES
_TAKE_A_TYPE = {torch.Tensor.to, torch.Tensor.type, torch.Tensor.type_as} | MAKE_OF_A_TYPE


class ComplexAsPairs(TorchFunctionMode):
    """Mode in which functions that take or give complex tensors take or give ``Pair``. ``fixed``: no size of an input may vary."""

    def __init__(self, fixed: bool) -> None:
        super().__init__()
        self.fixed = fixed
        self.was_used = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._is_complex(function, args, kwargs):
            return function(*args, **kwargs)
        self.was_used = True
        if function in fourier_transforms.NEED_FIXED_SIZES and not self.fixed:
            raise NotImplementedError("a Fourier transform where a size is flexible")
        return Pair.__torch_function__(function, types, args, kwargs)

    def _is_complex(self, function: Any, args: Any, kwargs: Any) -> bool:
        if function in _MAKING:
            return True
        if function not in HANDLERS:
            # A constructor, or what asks for nothing but the type.
            return any(isinstance(leaf, Pair) for leaf in pytree.tree_leaves((args, kwargs)))
        leaves = pytree.tree_leaves((args, kwargs))
        if any(map(is_complex, leaves)):
            return True
        return function in _TAKE_A_TYPE and any(isinstance(leaf, torch.dtype) and leaf.is_complex for leaf in leaves)


@contextmanager
def without_complex_tensors(model: nn.Module) -> Iterator[list[Pair]]:
    """Scope in which a pair stands in the place of each complex parameter, buffer and attribute of a model; these pairs."""
    held = []
    with ExitStack() as stack:
        for module in model.modules():
            own = vars(module)
            for table in (own["_parameters"], own["_buffers"], own):
                complexes = {name: value for name, value in table.items() if _is_plain(value)}
                if complexes:
                    stack.callback(_restore, table, dict(table), own, [*complexes])
                    for name, value in complexes.items():
                        del table[name]
                        own[name] = pair_of(value)
                        held.append(own[name])
        yield held


def is_written(pair: Pair) -> bool:
    """Whether an attribute was written in place, which is a state that no pair keeps."""
    return bool(pair.re._version or pair.im._version)


def _restore(table: dict[str, Any], before: dict[str, Any], own: dict[str, Any], names: list[str]) -> None:
    for name in names:
        own.pop(name, None)
    if table is own:
        own.update({name: before[name] for name in names})
        return
    # A model's parameters have an order.
    table.clear()
    table.update(before)


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_complex(value) and not isinstance(value, Pair)

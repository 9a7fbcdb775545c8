"""Constant scalars: truth values and numbers that code takes out of tensors which no input reaches, the same in every run.

`torch.export` runs a model on tensors without values, and refuses a branch on the value of a buffer. A program holds buffers as
constants: so the branch is the one that a run takes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from modellint.destinations.capture import torch_export
from modellint.live.capture.data_dependence import tells_shape_only
from modellint.live.capture.jit_trace import TAKING

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs

NOTE = "what the model asks of its own weights and buffers is answered once"
_TAKING = {
    getattr(torch.Tensor, name)
    for name in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "is_nonzero")
} | {torch.is_nonzero}
_TORCH = os.path.dirname(torch.__file__) + os.sep  # noqa: PTH120


class _Visit(NamedTuple):
    """One of the times that a line takes a scalar."""

    path: str
    row: int
    function: str
    number: int


class _Provenance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that follows which tensors the values of inputs, or random numbers, reach."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # A weak reference holds an address: no other storage has it later.
        self._reached = {reference.cdata: reference for reference in map(_storage, tensors) if reference is not None}
        self.has_left = False
        """Whether such a value, or a size that depends on one, was handed to Python, which nothing follows."""

    def reaches(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor may hold such a value."""
        reference = _storage(tensor)
        return reference is None or reference.cdata in self._reached

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        taken = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        is_random = torch.Tag.nondeterministic_seeded in getattr(function, "tags", ())
        name = getattr(function, "_schema", None)
        hands_on = name is None or not tells_shape_only(name.name)
        if is_random or (hands_on and any(map(self.reaches, taken))):
            self.has_left |= torch.Tag.dynamic_output_shape in getattr(function, "tags", ())
            written = taken if name is None or name.is_mutable else []
            for leaf in (*pytree.tree_leaves(result), *written):
                reference = _storage(leaf) if isinstance(leaf, torch.Tensor) else None
                if reference is not None:
                    self._reached[reference.cdata] = reference
        return result


def _storage(tensor: torch.Tensor) -> StorageWeakRef | None:
    """The storage of a tensor; None of one that has none."""
    try:
        return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
    except (NotImplementedError, RuntimeError):
        return None


class _Visits(TorchFunctionMode):
    """Mode that counts, by line, the times that a scalar is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int, str], int] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function not in _TAKING:
            return function(*args, **kwargs)
        key = (*_line(sys._getframe(1)), function.__name__)
        self._seen[key] = self._seen.get(key, 0) + 1
        return self.taken(_Visit(*key, self._seen[key]), function, args, kwargs)

    def taken(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        """What the code is given."""
        raise NotImplementedError


def _line(frame: FrameType) -> tuple[str, int]:
    """The line that a call comes from, beyond PyTorch's own and those of here: a capture has modes between."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith((_TORCH, __file__)):
        outer = outer.f_back
    found = outer or frame
    return found.f_code.co_filename, found.f_lineno


class _Looking(_Visits):
    def __init__(self, provenance: _Provenance) -> None:
        super().__init__()
        self._provenance = provenance
        self.constants: dict[_Visit, tuple[torch.Size, Any]] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in TAKING:
            tensors = (leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
            self._provenance.has_left |= any(map(self._provenance.reaches, tensors))
        return super().__torch_function__(function, types, args, kwargs)

    def taken(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        # What Python does with a value of an input is not followed: nothing is a constant behind that.
        if not self._provenance.has_left:
            self.constants[visit] = args[0].shape, value
        return value


class _Answering(_Visits):
    def __init__(self, constants: dict[_Visit, tuple[torch.Size, Any]]) -> None:
        super().__init__()
        self._constants = constants

    def taken(self, visit: _Visit, function: Any, args: Any, kwargs: Any) -> Any:
        known = self._constants.get(visit)
        if known is None or known[0] != args[0].shape:
            return function(*args, **kwargs)
        return known[1]


@contextmanager
def answered(model: nn.Module, inputs: Inputs) -> Iterator[bool]:
    """Scope in which code that takes a scalar out of what no input reaches is given the one of a run; whether there is any.

    None is given where the run writes a parameter or buffer: what is read of these then is another value in the next run.
    Raises what the model raises.
    """
    given = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, torch.Tensor)]
    state = [*model.parameters(), *model.buffers()]
    before = [tensor._version for tensor in state]
    with torch.no_grad(), _Provenance(given) as provenance, _Looking(provenance) as looking:
        model(*inputs.args, **inputs.kwargs)
    if not looking.constants or [tensor._version for tensor in state] != before:
        yield False
        return
    with _Answering(looking.constants):
        yield True


def exported(model: nn.Module, inputs: Inputs) -> tuple[Any, tuple[str, ...]]:
    """An export, and what was done for it: where it stops at a branch on a scalar, those of constants are answered.

    They may depend on a size: none is answered where a size is flexible. Raises whatever ``torch.export`` raises.
    """
    try:
        return torch_export.exported(model, inputs), ()
    except GuardOnDataDependentSymNode:
        if inputs.flexible:
            raise
        with answered(model, inputs) as is_any:
            if not is_any:
                raise
            return torch_export.exported(model, inputs), (NOTE,)

"""Data dependence: which outputs of a run depend on the values of its inputs, and not on their sizes alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_OF_SIZES = ("_like", "new_empty", "new_full", "new_ones", "new_zeros")
"""Operators, by the ends of their names, that take of a tensor its size and type alone."""


class InputDependence(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Data dependence, followed by storage: what an operator makes or writes depends on inputs where any of its operands does.

    Where a number leaves a tensor (``item``, a branch), all that comes after depends on it.

    Args:
        own: The model's own tensors; all other tensors that no operator made are inputs.
    """

    def __init__(self, own: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._depends: dict[int, bool] = {}
        self._kept: list[Tensor] = []
        """What was made, so that no other gets its storage."""
        self._branched = False
        for tensor in own:
            self._mark(tensor, False)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        depends = self._branched or (any(map(self.depends, operands)) and not name.endswith(_OF_SIZES))
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if depends and not outputs and not func._schema.is_mutable:
            self._branched = True
        written = operands if func._schema.is_mutable else []
        for tensor in (*outputs, *written):
            # A view has the storage of what it is of, of which another part may depend on inputs.
            self._mark(tensor, depends or (self._key(tensor) in self._depends and self.depends(tensor)))
        return result

    def depends(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the inputs."""
        return self._depends.get(self._key(tensor), True)

    def _mark(self, tensor: Tensor, depends: bool) -> None:
        key = self._key(tensor)
        if key not in self._depends:
            self._kept.append(tensor)
        self._depends[key] = depends

    @staticmethod
    def _key(tensor: Tensor) -> int:
        return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)

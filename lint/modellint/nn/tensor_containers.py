"""Lists and dicts of tensors as modules, so that ``.to()`` moves what they hold."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

import torch
from torch import nn


class BufferList(nn.Module):
    """Tensors in a row, each a buffer that is not saved. To be read by index, slice or iteration, as a list is."""

    def __init__(self, values: Iterable[torch.Tensor]) -> None:
        super().__init__()
        for at, value in enumerate(values):
            self.register_buffer(str(at), value, persistent=False)

    def __len__(self) -> int:
        return len(self._buffers)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(list(self._buffers.values()))  # type: ignore[arg-type]

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """One tensor, or a list of those that a slice takes."""
        return list(self)[index if isinstance(index, slice) else operator.index(index)]


class BufferDict(nn.Module):
    """Tensors by key, each a buffer that is not saved. To be read as a dict is."""

    def __init__(self, values: Mapping[Hashable, torch.Tensor]) -> None:
        super().__init__()
        self._names = {key: str(at) for at, key in enumerate(values)}
        for name, value in zip(self._names.values(), values.values(), strict=True):
            self.register_buffer(name, value, persistent=False)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __getitem__(self, key: Hashable) -> torch.Tensor:
        value = self._buffers[self._names[key]]
        assert value is not None
        return value

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The tensor of a key, or the default."""
        return self[key] if key in self._names else default

    def keys(self) -> Iterable[Hashable]:
        """The keys, in order."""
        return self._names.keys()

    def values(self) -> Iterable[torch.Tensor]:
        """The tensors, in order."""
        return [self[key] for key in self._names]

    def items(self) -> Iterable[tuple[Hashable, torch.Tensor]]:
        """Keys and tensors, in order."""
        return [(key, self[key]) for key in self._names]

"""Tensor facts: shapes, types, strides and identities in the place of a run's tensors, and the fake tensors behind them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from modellint.live.capture.records import Record, TensorFact

if TYPE_CHECKING:
    from modellint.live.inputs.flexible_dimensions import Symbols

_DEPTH = 6
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


def tensors_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors that containers and objects hold."""
    if isinstance(value, Tensor):
        yield value
    elif depth < _DEPTH and not isinstance(value, _PLAIN):
        for part in _parts(value):
            yield from tensors_in(part, depth + 1)


def _parts(value: Any) -> Iterator[Any]:
    match value:
        case Mapping():
            yield from value.values()
        case list() | tuple() | set() | frozenset():
            yield from value
        case _ if is_dataclass(value) and not isinstance(value, type):
            yield from (getattr(value, field.name, None) for field in fields(value))
        case _ if not isinstance(value, (nn.Module, type)):
            yield from getattr(value, "__dict__", {}).values()


class Facts:
    """The facts of one run, by which its tensors are known: each has a number, a fake and, of the model or its inputs, a name."""

    def __init__(self, mode: FakeTensorMode | None, symbols: Symbols | None, names: dict[int, str]) -> None:
        self._mode = mode
        self._symbols = symbols
        self.names = names
        """By the identity of a tensor that lives as long as the run."""
        self._numbers = _Numbers()
        self._fakes: dict[int, tuple[Tensor, Tensor]] = {}

    def faked(self, tensor: Tensor) -> Tensor:
        """The fake that stands for a tensor in this run, always the same one."""
        if self._mode is None or isinstance(tensor, FakeTensor):
            return tensor
        known = self._fakes.get(id(tensor))
        if known is not None:
            return known[1]
        with _disable_current_modes():
            if tensor.is_meta:
                # Of a model without values all tensors stand on the CPU, as those do that its code makes.
                converter = self._mode.fake_tensor_converter
                fake: Tensor = converter.from_meta_and_device(self._mode, tensor.detach(), torch.device("cpu"))
            else:
                fake = self._mode.from_tensor(tensor, static_shapes=True)
        self._fakes[id(tensor)] = tensor, fake
        if id(tensor) in self.names:
            self.names[id(fake)] = self.names[id(tensor)]
        return fake

    def of(self, value: Any, depth: int = 0) -> Any:
        """A value with facts in the place of tensors."""
        if isinstance(value, Tensor):
            return self._fact(value)
        if isinstance(value, _PLAIN):
            return value
        if depth > _DEPTH:
            return Record(type(value).__qualname__, {})
        match value:
            case torch.SymInt():
                return self._size(value)
            case torch.SymFloat() | torch.SymBool():
                return str(value)
            case list():
                return [self.of(part, depth + 1) for part in value]
            case tuple():
                return tuple(self.of(part, depth + 1) for part in value)
            case set() | frozenset():
                return tuple(self.of(part, depth + 1) for part in value)
            case dict() if type(value).__module__ in ("builtins", "collections"):
                return {key: self.of(part, depth + 1) for key, part in value.items()}
            case slice() | range() | type() if not isinstance(value, slice):
                return value
            case slice():
                return slice(*(self.of(part, depth + 1) for part in (value.start, value.stop, value.step)))
            case Mapping():
                parts = {str(key): self.of(part, depth + 1) for key, part in value.items()}
                return Record(type(value).__qualname__, parts, is_mapping=True, is_node=_is_node(value))
            case _ if value is Ellipsis:
                return value
            case nn.Module():
                return Record(type(value).__qualname__, {})
            case _ if is_dataclass(value):
                parts = {field.name: self.of(getattr(value, field.name, None), depth + 1) for field in fields(value)}
                return Record(type(value).__qualname__, parts, is_node=_is_node(value))
            case _:
                own = getattr(value, "__dict__", {})
                parts = {key: self.of(part, depth + 1) for key, part in own.items() if isinstance(part, Tensor)}
                return Record(type(value).__qualname__, parts, is_node=_is_node(value))

    def _fact(self, tensor: Tensor) -> TensorFact:
        fake = self.faked(tensor)
        name = self.names.get(id(tensor))
        shape: tuple[Any, ...] = ()
        strides: tuple[Any, ...] = ()
        offset: Any = 0
        storage = -1
        try:
            shape = tuple(map(self._size, Tensor.size(fake)))
            strides = tuple(map(self._size, fake.stride()))
            offset = self._size(fake.storage_offset())
            storage = self._numbers.of_storage(fake.untyped_storage())
        except (RuntimeError, NotImplementedError, ValueError):
            # Sparse tensors are no strided memory, nested ones have no shape, lazy parameters neither.
            pass
        return TensorFact(
            shape,
            str(fake.dtype).removeprefix("torch."),
            strides,
            offset,
            str(fake.device),
            self._numbers.of_tensor(fake),
            storage,
            name,
        )

    def _size(self, value: Any) -> Any:
        return value if type(value) is int or self._symbols is None else self._symbols.size(value)


class _Numbers:
    """Numbers for tensors and storages that stay theirs as long as they live."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self._last = 0

    def of_tensor(self, tensor: Tensor) -> int:
        """The number of a tensor."""
        known = self._tensors.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        self._last += 1
        self._tensors[id(tensor)] = weakref.ref(tensor), self._last
        return self._last

    def of_storage(self, storage: torch.UntypedStorage) -> int:
        """The number of what a tensor's elements are kept in."""
        known = self._storages.get(storage._cdata)
        if known is not None:
            return known[1]
        self._last += 1
        # The weak reference keeps the address from being given to another storage.
        self._storages[storage._cdata] = StorageWeakRef(storage), self._last  # type: ignore[no-untyped-call]
        return self._last


def _is_node(value: Any) -> bool:
    return type(value) in torch.utils._pytree.SUPPORTED_NODES

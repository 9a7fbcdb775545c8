"""Deep copy of a model that shares nothing with it: what ``copy.deepcopy`` does, for models that it refuses too.

It also keeps what ``deepcopy`` loses: tensors lie in memory as they did, expanded and overlapping ones too; weak references and
functions that close over a part of the model lead to the copy of that part.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copyreg
import functools
import gc
import logging
import multiprocessing.process
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_ATOMS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented), property,
        torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, types.CodeType, object,
    }
)  # fmt: skip
_SHARED: tuple[type, ...] = (
    type,
    types.ModuleType,
    types.FrameType,
    types.GeneratorType,
    types.CoroutineType,
    threading.Thread,
    concurrent.futures.Executor,
    multiprocessing.process.BaseProcess,
    logging.Logger,
    logging.Handler,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
    torch.utils.data.Sampler,
)
"""What a copy of a model has in common with it: what runs, what cannot be copied, and what belongs to training."""
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())
_WEAK = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_WRITTEN_IN_PYTHON = 1 << 9
_FEW = 1_000_000
_STACK = 512 << 20


class Uncopied(TypeError):
    """A module cannot be copied; the message says why."""


def copied(copier: Copier, value: Any) -> Any:
    """The copy of a value, however deep it is nested. Raises ``Uncopied``."""
    try:
        return copier.copy(value)
    except RecursionError:
        copier.memo.clear()
        copier.shared.clear()
    copies: list[Any] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            copies.append(copier.copy(value))
        except (RecursionError, Uncopied) as error:
            failed.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    thread = threading.Thread(target=work)
    try:
        sys.setrecursionlimit(_STACK >> 12)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    if failed:
        raise failed[0]
    return copies[0]


class Copier:
    """One copy in the making; ``memo`` is what ``__deepcopy__`` takes."""

    def __init__(self, root: object, replaced: Callable[[nn.Module], object] = lambda module: module) -> None:
        """``replaced`` says what is to be copied in the place of a module."""
        self._root = root
        self._replaced = replaced
        self.memo: dict[int, Any] = {}
        self.shared: list[object] = []
        """What could not be copied, so that the copy has it in common with the model."""
        # An id must not be taken by another object before the copy is done.
        self._alive: list[object] = []
        self._storages: dict[int, torch.UntypedStorage] = {}

    def copy(self, value: Any) -> Any:
        """The copy of a value, the same for every place that holds it."""
        kind = type(value)
        if kind in _ATOMS or issubclass(kind, _SHARED):
            return value
        key = id(value)
        if key in self.memo:
            return self.memo[key]
        duplicate = self._made(value, kind)
        self.memo.setdefault(key, duplicate)
        self._alive.append(value)
        return self.memo[key]

    def _made(self, value: Any, kind: type) -> Any:
        for known, make in self._ways:
            if issubclass(kind, known):
                return make(self, value)
        if kind in _EXACT:
            return _EXACT[kind](self, value)
        if issubclass(kind, nn.Module):
            replacement = self._replaced(value)
            if replacement is not value:
                return self.copy(replacement)
        return self._object(value, kind)

    # Containers

    def _list(self, value: list[Any]) -> list[Any]:
        duplicate: list[Any] = []
        self.memo[id(value)] = duplicate
        duplicate.extend(map(self.copy, value))
        return duplicate

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        duplicate: dict[Any, Any] = {}
        self.memo[id(value)] = duplicate
        for key, part in list(value.items()):
            duplicate[self.copy(key)] = self.copy(part)
        return duplicate

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        duplicate = tuple(map(self.copy, value))
        # A tuple in a circle has been copied meanwhile.
        return self.memo.get(id(value), value if _same(duplicate, value) else duplicate)  # type: ignore[no-any-return]

    def _set(self, value: set[Any]) -> set[Any]:
        duplicate: set[Any] = set()
        self.memo[id(value)] = duplicate
        duplicate.update(map(self.copy, list(value)))
        return duplicate

    # Functions

    def _function(self, value: types.FunctionType) -> Any:
        eager = vars(value).get("_torchdynamo_orig_callable")
        if eager is not None:
            return self.copy(eager)
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if not value.__closure__ and all(type(part) in _ATOMS for part in defaults):
            return value
        # It may lead back to itself, so that its cells are filled afterwards.
        cells = tuple(self.memo.setdefault(id(cell), types.CellType()) for cell in value.__closure__ or ())
        duplicate = types.FunctionType(value.__code__, value.__globals__, value.__name__, None, cells or None)
        self.memo[id(value)] = duplicate
        for cell in value.__closure__ or ():
            self._alive.append(cell)
            with contextlib.suppress(ValueError):
                self.memo[id(cell)].cell_contents = self.copy(cell.cell_contents)
        duplicate.__defaults__ = self.copy(value.__defaults__)
        duplicate.__kwdefaults__ = self.copy(value.__kwdefaults__)
        for name in ("__qualname__", "__module__", "__doc__", "__annotations__"):
            setattr(duplicate, name, getattr(value, name))
        duplicate.__dict__.update((name, self.copy(part)) for name, part in vars(value).items())
        return duplicate

    def _method(self, value: types.MethodType) -> Any:
        owner, function = self.copy(value.__self__), self.copy(value.__func__)
        return value if owner is value.__self__ and function is value.__func__ else types.MethodType(function, owner)

    def _builtin(self, value: types.BuiltinFunctionType) -> Any:
        owner = value.__self__
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return value
        copied = self.copy(owner)
        return value if copied is owner else getattr(copied, value.__name__)

    def _cached(self, value: Any) -> Any:
        function = self.copy(value.__wrapped__)
        return value if function is value.__wrapped__ else functools.lru_cache(**value.cache_parameters())(function)

    # What refers weakly

    @functools.cached_property
    def _reached(self) -> set[int]:
        """All that the root holds on to: of this there will be a copy that lives."""
        reached: dict[int, object] = {}
        pending: list[Any] = [self._root]
        while pending and len(reached) < _FEW:
            value = pending.pop()
            if id(value) in reached or issubclass(type(value), (_SHARED, str)):
                continue
            reached[id(value)] = value
            if type(value) is types.FunctionType:
                # Not its globals.
                pending.extend((value.__closure__, value.__defaults__, value.__kwdefaults__, vars(value)))
            else:
                pending.extend(gc.get_referents(value))
        return set(reached)

    def _lives(self, value: object) -> bool:
        return id(value) in self.memo or id(value) in self._reached

    def _reference(self, value: Any) -> Any:
        target = value()
        owner = target.__self__ if type(target) is types.MethodType else target
        if target is None or not self._lives(owner):
            return value
        copied = self.copy(target)
        if type(value) is weakref.ref:
            return weakref.ref(copied, self.copy(value.__callback__))
        return type(value)(copied)

    def _proxy(self, value: Any) -> Any:
        try:
            target = value.__init__.__self__
        except ReferenceError:
            return value
        return weakref.proxy(self.copy(target)) if self._lives(target) else value

    def _weak_container(self, value: Any) -> Any:
        duplicate = type(value)()
        self.memo[id(value)] = duplicate
        if isinstance(value, weakref.WeakSet):
            for part in list(value):
                duplicate.add(self.copy(part) if self._lives(part) else part)
            return duplicate
        weak_keys = isinstance(value, weakref.WeakKeyDictionary)
        for key, part in list(value.items()):
            weak = key if weak_keys else part
            if self._lives(weak):
                duplicate[self.copy(key)] = self.copy(part)
            else:
                duplicate[key] = part
        return duplicate

    # State

    def _tensor(self, value: Tensor) -> Tensor:
        with torch.no_grad(), torch.inference_mode(False):
            duplicate = self._like(value)
        self.memo[id(value)] = duplicate
        own = getattr(value, "__dict__", None)
        if own and isinstance(getattr(duplicate, "__dict__", None), dict):
            duplicate.__dict__.update(self.copy(dict(own)))
        if value.is_leaf and duplicate.requires_grad:
            for hook in list((value._backward_hooks or {}).values()):
                duplicate.register_hook(self.copy(hook))  # type: ignore[no-untyped-call]
        return duplicate

    def _like(self, value: Tensor) -> Tensor:
        """The same numbers in the same order in memory; tensors that shared memory share it again."""
        kind = type(value)
        if (
            is_lazy(value)
            or value.layout is not torch.strided
            or value.is_quantized
            or value.is_conj()
            or value.is_neg()
            or is_traceable_wrapper_subclass(value)
        ):
            return self._by_itself(value)
        try:
            storage = value.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return self._by_itself(value)
        data: Tensor
        if value.is_meta:
            data = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
        else:
            data = torch.empty(0, dtype=value.dtype, device=value.device)
            data.set_(self._storage(storage), value.storage_offset(), value.size(), value.stride())
        needs_grad = value.requires_grad and value.is_leaf
        if kind is Tensor:
            return data.requires_grad_(needs_grad) if needs_grad else data
        duplicate: Tensor = Tensor._make_subclass(kind, data, needs_grad)
        return duplicate

    def _by_itself(self, value: Tensor) -> Tensor:
        if value.is_leaf:
            duplicate = type(value).__deepcopy__(value, self.memo)  # type: ignore[no-untyped-call]
            return duplicate if isinstance(duplicate, Tensor) else value
        return value.detach().clone()

    def _storage(self, value: torch.UntypedStorage) -> torch.UntypedStorage:
        if value._cdata not in self._storages:
            self._storages[value._cdata] = value.clone()  # type: ignore[no-untyped-call]
            self._alive.append(value)
        return self._storages[value._cdata]

    def _generator(self, value: torch.Generator) -> torch.Generator:
        if value is torch.default_generator or value in torch.cuda.default_generators:
            return value
        duplicate = torch.Generator(device=value.device)
        duplicate.set_state(value.get_state())
        return duplicate

    # Everything else

    def _object(self, value: Any, kind: type) -> Any:
        """As ``copy.deepcopy`` does it; by its attributes where that fails, and else the object itself."""
        known = len(self.memo)
        failure: Exception | None = None
        for way in (self._own_way, self._reduced, self._by_attributes):
            try:
                return way(value, kind)
            except (RecursionError, Uncopied):
                raise
            except Exception as error:
                failure = error
                # What leads to the half of a copy is forgotten.
                for key in list(self.memo)[known:]:
                    del self.memo[key]
        if issubclass(kind, nn.Module):
            raise Uncopied(f"{kind.__name__} cannot be copied: {failure}")
        self.shared.append(value)
        return value

    def _own_way(self, value: Any, kind: type) -> Any:
        if issubclass(kind, nn.Module) and parametrize.is_parametrized(value):
            # Its class has a way of its own, which goes through the attributes by `copy.deepcopy`.
            return self._by_attributes(value, kind)
        own = getattr(kind, "__deepcopy__", None)
        return self._reduced(value, kind) if own is None else own(value, self.memo)

    def _reduced(self, value: Any, kind: type) -> Any:
        reduce = copyreg.dispatch_table.get(kind)
        parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(parts, str):
            return value
        make, arguments, state, items, entries = (*parts, None, None, None)[:5]
        duplicate = make(*map(self.copy, arguments))
        self.memo[id(value)] = duplicate
        if state is not None:
            self._filled(duplicate, self.copy(state))
        for part in items or ():
            duplicate.append(self.copy(part))
        for key, part in entries or ():
            duplicate[self.copy(key)] = self.copy(part)
        return duplicate

    def _filled(self, duplicate: Any, state: Any) -> None:
        # Asked of the class: `__getattr__` of a proxy that holds nothing yet asks for what it is a proxy of, without end.
        if hasattr(type(duplicate), "__setstate__"):
            duplicate.__setstate__(state)
            return
        own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if own:
            duplicate.__dict__.update(own)
        for name, part in (slots or {}).items():
            setattr(duplicate, name, part)

    def _by_attributes(self, value: Any, kind: Any) -> Any:
        # By the base's own ways: those of a class of the user's may do anything.
        base: Any = next(
            (container for container in (OrderedDict, dict, list, set) if issubclass(kind, container)), object
        )
        if kind.__new__ is not base.__new__ or not kind.__flags__ & _WRITTEN_IN_PYTHON:
            raise TypeError(f"{kind.__name__} cannot be copied")
        duplicate: Any = base.__new__(kind)
        self.memo[id(value)] = duplicate
        if issubclass(base, dict):
            for key, part in list(base.items(value)):
                base.__setitem__(duplicate, self.copy(key), self.copy(part))
        elif base is not object:
            add = list.append if base is list else set.add
            for part in list(base.__iter__(value)):
                add(duplicate, self.copy(part))
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return duplicate
        for name, part in list(own.items()):
            duplicate.__dict__[name] = self.copy(part)
        return duplicate

    _ways: tuple[tuple[type | tuple[type, ...], Callable[[Copier, Any], Any]], ...] = (
        (Tensor, _tensor),
        (torch.UntypedStorage, _storage),
        (torch.Generator, _generator),
        (weakref.ref, _reference),
        (_PROXIES, _proxy),
        (_WEAK, _weak_container),
    )


_EXACT: dict[type, Callable[[Copier, Any], Any]] = {
    list: Copier._list,
    dict: Copier._dict,
    tuple: Copier._tuple,
    set: Copier._set,
    frozenset: lambda copier, value: frozenset(map(copier.copy, value)),
    types.FunctionType: Copier._function,
    types.MethodType: Copier._method,
    types.BuiltinFunctionType: Copier._builtin,
    functools._lru_cache_wrapper: Copier._cached,
    types.MappingProxyType: lambda copier, value: types.MappingProxyType(copier.copy(dict(value))),
    _LOCK: lambda copier, value: threading.Lock(),
    _RLOCK: lambda copier, value: threading.RLock(),
}


def _same(first: Iterable[Any], second: Iterable[Any]) -> bool:
    return all(left is right for left, right in zip(first, second, strict=True))

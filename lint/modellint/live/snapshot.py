"""Snapshots: a model, what it holds, and torch's global state are left bit for bit as they were before a run."""

from __future__ import annotations

import functools
import inspect
import random
import sys
import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

_Undo = Callable[[], object]

_ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    range,
    slice,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
    types.TracebackType,
)
_PLAIN = frozenset(_ATOMS)
_BARE = frozenset({list, dict, OrderedDict, set, tuple, frozenset})
"""Containers without attributes of their own."""
_SWITCHES = ("cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "mkldnn_enabled")
_SDP = ("flash", "mem_efficient", "math", "cudnn")


@contextmanager
def unchanged(*roots: object, values: bool = True) -> Iterator[None]:
    """Restore on exit what code inside the block changes of ``roots`` and of the process's numeric state.

    Of the roots that is everything reachable through modules, plain objects, containers, closures and the classes of modules:
    attributes and their order, items of containers, random generators, arrays, tensors with their gradients and flags. What
    `functools.lru_cache` has kept of calls is forgotten, if there were new ones. The
    numbers in tensors are kept only with ``values``, which takes as much memory again as they do. Global are the states of the
    random generators, modes, default type and device, autocast, threads and the switches of the backends. What an iterator or
    a module's global variables lose is not brought back.
    """
    with Snapshot(*roots, values=values).restored():
        yield


def remembered(*roots: object) -> Callable[[], None]:
    """How to give all that the roots lead to its form of now again: attributes, items, classes, the memory of tensors.

    The numbers in that memory are not kept.
    """
    snapshot = Snapshot(*roots, values=False)

    def restore() -> None:
        failed = snapshot.restore()
        if failed is not None:
            raise failed

    return restore


class Snapshot:
    """What objects held, and how to make them hold it again, as often as one likes.

    Args:
        roots: Where to begin.
        values: Whether the numbers in tensors are kept too.
    """

    def __init__(self, *roots: object, values: bool) -> None:
        self._values = values
        self._undos: list[_Undo] = []
        # Objects are kept, so that no other can take an id.
        self._seen: dict[int, object] = {}
        self._storages: set[int] = set()
        self._walks: tuple[tuple[type, Callable[[Any], Iterable[object]]], ...] = (
            (list, functools.partial(self._items, restore=_restore_list)),
            (dict, self._dict),
            (deque, functools.partial(self._items, restore=_restore_deque)),
            (set, functools.partial(self._items, restore=_restore_set)),
            (bytearray, self._bytes),
            (tuple, tuple.__iter__),
            (frozenset, frozenset.__iter__),
            (types.FunctionType, self._function),
            (types.MethodType, lambda method: (method.__self__, method.__func__)),
            (staticmethod, lambda method: (method.__func__,)),
            (classmethod, lambda method: (method.__func__,)),
            (types.MappingProxyType, lambda proxy: (proxy.copy(),)),
            (functools.partial, lambda partial: (partial.func, partial.args, partial.keywords)),
            (functools._lru_cache_wrapper, self._cache),
            (torch.Generator, self._generator),
            (random.Random, self._random),
        )
        with torch._C.DisableTorchFunction():
            self._take(*roots)

    def restore(self) -> Exception | None:
        """Do all that undoes, also where a part of it fails; the first failure is returned."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return _undo(self._undos)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore on exit what the roots held, and the process's numeric state of now. What fails is a ``RuntimeWarning``."""
        process = list(_process())
        try:
            yield
        finally:
            failed = self.restore()
            # Outside of the blocks, as they restore modes of their own on leaving.
            failed = failed or _undo(process)
            if failed is not None:
                warnings.warn(f"not everything could be restored: {failed}", RuntimeWarning, stacklevel=4)

    def _take(self, *roots: object) -> None:
        """Walk through all that the roots lead to, without recursion."""
        waiting: list[object] = list(roots)
        while waiting:
            value = waiting.pop()
            cls = type(value)
            if cls in _PLAIN or id(value) in self._seen or issubclass(cls, _ATOMS):
                continue
            self._seen[id(value)] = value
            # By far the most: the books that every module keeps.
            waiting.extend(self._dict(value) if cls is dict or cls is OrderedDict else self._parts(value))  # type: ignore[arg-type]

    def _parts(self, value: Any) -> Iterator[object]:
        """What a value leads to; how to restore the value itself is noted on the way."""
        # By the type alone: `isinstance` would ask a stand-in for its `__class__`, and so run its code.
        cls = type(value)
        if issubclass(cls, Tensor):
            yield from self._tensor(value)
            return
        if issubclass(cls, type):
            yield from self._class(value)
            return
        walk = next((walk for kind, walk in self._walks if issubclass(cls, kind)), None)
        yield from self._numpy(value) if walk is None else walk(value)
        if cls not in _BARE:
            yield from self._object(value)

    def _items(self, value: Any, restore: Callable[[Any, Any], None]) -> Iterator[object]:
        # The base class's own way through it: a subclass may count its readers.
        base = next(kind for kind in (list, deque, set) if issubclass(type(value), kind))
        saved = tuple(base.__iter__(value))
        self._undos.append(functools.partial(restore, value, saved))
        yield from saved

    def _dict(self, value: dict[Any, Any]) -> list[object]:
        kind: Any = OrderedDict if issubclass(type(value), OrderedDict) else dict
        keys, values = tuple(kind.keys(value)), tuple(kind.values(value))
        self._undos.append(functools.partial(_restore_dict, value, keys, values))
        return [part for part in (*keys, *values) if type(part) not in _PLAIN]

    def _bytes(self, value: bytearray) -> Iterator[object]:
        self._undos.append(functools.partial(_restore_bytes, value, bytes(value)))
        yield from ()

    def _generator(self, value: torch.Generator) -> Iterator[object]:
        self._undos.append(functools.partial(value.set_state, value.get_state()))
        yield from ()

    def _random(self, value: random.Random) -> Iterator[object]:
        self._undos.append(functools.partial(value.setstate, value.getstate()))
        yield from ()

    def _cache(self, cached: functools._lru_cache_wrapper[Any]) -> Iterator[object]:
        # What it was filled with may be tensors of a run that holds no numbers.
        self._undos.append(functools.partial(_restore_cache, cached, cached.cache_info().misses))
        yield cached.__wrapped__

    def _function(self, function: types.FunctionType) -> Iterator[object]:
        yield function.__defaults__
        yield function.__kwdefaults__
        for name in function.__code__.co_names:
            yield from _caches(function.__globals__.get(name))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self._undos.append(functools.partial(_restore_cell, cell, content))
            yield content

    def _object(self, value: Any) -> Iterator[object]:
        """The attributes of an object, in ``__dict__`` and in slots."""
        cls: Any = type(value)
        own = _dict_of(value)
        if own is not None:
            yield from self._dict(own)
            if issubclass(cls, nn.Module):
                self._undos.append(functools.partial(_restore_class, value, cls))
                yield cls
        elif cls.__module__ == "builtins":
            return
        if issubclass(cls, torch.jit.ScriptModule):
            yield from self._scripted(value)
        for name, slot in _slots(cls):
            try:
                content = slot.__get__(value, cls)
            except AttributeError:
                content = _NOTHING
            self._undos.append(functools.partial(_restore_slot, value, slot, content))
            if content is not _NOTHING and name != "__weakref__":
                yield content

    def _class(self, cls: type) -> Iterator[object]:
        """The attributes of a module's class and its bases: counters and caches live there too."""
        if not issubclass(cls, nn.Module):
            return
        for base in cls.__mro__:
            if base.__module__.partition(".")[0] in ("torch", "builtins", "abc", "typing"):
                continue
            saved = {name: value for name, value in vars(base).items() if name not in ("__dict__", "__weakref__")}
            self._undos.append(functools.partial(_restore_attributes, base, saved))
            yield from (value for value in saved.values() if not isinstance(value, (*_ATOMS, type, property)))

    def _scripted(self, module: Any) -> Iterator[object]:
        """State that TorchScript keeps in C++."""
        self._undos.append(functools.partial(_restore_training, module, module.training))
        yield from module._parameters.values() if hasattr(module._parameters, "values") else ()
        yield from (tensor for _, tensor in module.named_parameters(recurse=False))
        yield from (tensor for _, tensor in module.named_buffers(recurse=False))
        yield from (child for _, child in module.named_children())

    def _numpy(self, value: Any) -> Iterator[object]:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return
        if issubclass(type(value), numpy.ndarray):
            if value.dtype.hasobject:
                yield from value.flat
            elif value.flags.writeable:
                self._undos.append(functools.partial(_restore_array, value, value.copy()))
        elif issubclass(type(value), numpy.random.Generator):
            bits = value.bit_generator
            self._undos.append(functools.partial(setattr, bits, "state", bits.state))
        elif issubclass(type(value), numpy.random.RandomState):
            self._undos.append(functools.partial(value.set_state, value.get_state(legacy=False)))

    def _tensor(self, tensor: Tensor) -> Iterator[object]:
        self._undos.append(_tensor_undo(tensor))
        own = _dict_of(tensor)
        if own:
            yield own
        if tensor.is_leaf and tensor.grad is not None:
            yield tensor.grad
        if not self._values or tensor.is_meta:
            return
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            # Sparse tensors keep their numbers in tensors of their own.
            return
        if storage._cdata in self._storages or storage.device.type == "meta":
            return
        self._storages.add(storage._cdata)
        self._undos.append(_StorageUndo(storage))


def _undo(undos: Sequence[_Undo]) -> Exception | None:
    """Run all of the undo functions, also where one fails; the first failure is returned."""
    failed: Exception | None = None
    for undo in undos:
        try:
            undo()
        except Exception as error:
            failed = failed or error
    return failed


_NOTHING = object()


def _dict_of(value: object) -> dict[str, Any] | None:
    """The real ``__dict__`` of an object, whatever its class says."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if isinstance(attributes, dict) else None


def _caches(known: object) -> Iterator[object]:
    """What `functools.lru_cache` keeps for a function that is called by its name, also behind a decorator of another's (transformers)."""
    if type(known) is functools._lru_cache_wrapper:
        yield known
    elif type(known) is types.FunctionType and "__wrapped__" in vars(known):
        for cell in known.__closure__ or ():
            with suppress(ValueError):
                if type(cell.cell_contents) is functools._lru_cache_wrapper:
                    yield cell.cell_contents


@functools.lru_cache(maxsize=1024)
def _slots(cls: type) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, member)
        for base in cls.__mro__
        for name, member in vars(base).items()
        if inspect.ismemberdescriptor(member) and base.__module__ != "builtins" and "__slots__" in vars(base)
    )


def _same(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(first is second for first, second in zip(left, right, strict=True))


def _restore_list(value: list[Any], saved: tuple[Any, ...]) -> None:
    if not _same(tuple(list.__iter__(value)), saved):
        list.__setitem__(value, slice(None), saved)


def _restore_deque(value: deque[Any], saved: tuple[Any, ...]) -> None:
    if not _same(tuple(deque.__iter__(value)), saved):
        deque.clear(value)
        deque.extend(value, saved)


def _restore_set(value: set[Any], saved: tuple[Any, ...]) -> None:
    if not _same(tuple(set.__iter__(value)), saved):
        set.clear(value)
        set.update(value, saved)


def _restore_bytes(value: bytearray, saved: bytes) -> None:
    if value != saved:
        value[:] = saved


def _restore_dict(value: dict[Any, Any], keys: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    # A model has thousands, nearly all as they were.
    kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    if dict.__len__(value) == len(keys) and (
        not keys or (all(map(is_, kind.values(value), values)) and all(map(is_, kind.keys(value), keys)))
    ):
        return
    kind.clear(value)
    for key, item in zip(keys, values, strict=True):
        kind.__setitem__(value, key, item)


def _restore_cache(cached: functools._lru_cache_wrapper[Any], misses: int) -> None:
    if cached.cache_info().misses != misses:
        cached.cache_clear()


def _restore_cell(cell: types.CellType, content: object) -> None:
    cell.cell_contents = content


def _restore_class(value: object, cls: type) -> None:
    # Lazy modules become others in their first run.
    if type(value) is not cls:
        object.__setattr__(value, "__class__", cls)


def _restore_slot(value: object, slot: Any, content: object) -> None:
    try:
        if content is not _NOTHING:
            slot.__set__(value, content)
        else:
            slot.__delete__(value)
    except (AttributeError, TypeError):
        # Read-only, or not there now either.
        return


def _restore_attributes(cls: type, saved: dict[str, Any]) -> None:
    now = vars(cls)
    for name in [name for name in now if name not in saved and name not in ("__dict__", "__weakref__")]:
        type.__delattr__(cls, name)
    for name, value in saved.items():
        if vars(cls).get(name, _NOTHING) is not value:
            type.__setattr__(cls, name, value)


def _restore_training(module: nn.Module, training: bool) -> None:
    if module.training != training:
        module.train(training)


def _restore_array(array: Any, saved: Any) -> None:
    if array.tobytes() != saved.tobytes():
        array[...] = saved


class _StorageUndo:
    """How to give a storage its bytes back."""

    __slots__ = ("_saved", "_size", "_storage", "_views")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self._saved: torch.UntypedStorage = storage.clone()  # type: ignore[no-untyped-call]
        self._size = storage.nbytes()
        self._views: tuple[Tensor, Tensor] | None = None
        """What is there, and what was, as tensors; made once, as there may be thousands to look at after each run."""

    def __call__(self) -> None:
        if self._storage.nbytes() != self._size:
            self._storage.resize_(self._size)
        if self._views is None or self._views[0].data_ptr() != self._storage.data_ptr():
            # Words compare several times as fast as bytes.
            whole = self._size % 8 == 0 and self._storage.data_ptr() % 8 == 0
            dtype = torch.int64 if whole else torch.uint8
            now, before = (
                torch.empty(0, dtype=dtype, device=memory.device).set_(memory)
                for memory in (self._storage, self._saved)
            )
            self._views = now, before
        now, before = self._views
        if not torch.equal(now, before):
            now.copy_(before)


def _tensor_undo(tensor: Tensor) -> _Undo:
    """How to give a tensor its memory, form, class, flags and gradient back."""
    cls = type(tensor)
    needs_grad = tensor.requires_grad
    is_leaf = tensor.is_leaf
    grad = tensor.grad if is_leaf else None
    # A gradient is taken back in its own type only.
    restore_grad = None if grad is None else _tensor_undo(grad)
    # Tensors of inference mode count none.
    version = None if tensor.is_inference() else tensor._version
    alias = tensor.detach()
    try:
        form: Any = _form(alias)
    except (RuntimeError, NotImplementedError, ValueError):
        form = None

    def undo() -> None:
        if form is not None and _form(tensor) != form:
            # An alias taken before shares what in-place changes of form did not touch.
            tensor.data = alias
        if type(tensor) is not cls:
            tensor.__class__ = cls
        if is_leaf and tensor.is_leaf:
            if tensor.requires_grad != needs_grad:
                tensor.requires_grad_(needs_grad)
            if tensor.grad is not grad:
                if restore_grad is not None:
                    restore_grad()
                tensor.grad = grad
        if version is not None and tensor._version != version:
            _set_version(tensor, version)

    return undo


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        # A parameter of a lazy module has a `shape` that raises.
        tuple(Tensor.size(tensor)),
        tensor.stride(),
        tensor.dtype,
        tensor.device,
    )


def _set_version(tensor: Tensor, version: int) -> None:
    """Set a tensor's version counter back: a graph made before the run would refuse a tensor that seems changed since."""
    setter: Any = getattr(torch._C._autograd, "_unsafe_set_version_counter", None)
    if setter is None:
        return
    try:
        setter((tensor,), (version,))
    except TypeError:
        setter(tensor, version)


def _process() -> Iterator[_Undo]:
    """How to restore the global state of the process: random generators, modes of torch, threads."""
    yield functools.partial(torch.set_rng_state, torch.get_rng_state())
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield functools.partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
    yield functools.partial(random.setstate, random.getstate())
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        yield functools.partial(numpy.random.set_state, numpy.random.get_state())
    yield functools.partial(torch.set_grad_enabled, torch.is_grad_enabled())
    yield functools.partial(torch.set_default_dtype, torch.get_default_dtype())
    yield functools.partial(_restore_threads, torch.get_num_threads())
    yield functools.partial(torch.set_anomaly_enabled, torch.is_anomaly_enabled())
    yield functools.partial(
        torch.use_deterministic_algorithms,
        torch.are_deterministic_algorithms_enabled(),
        warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    yield functools.partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    for device in ("cpu", "cuda"):
        yield functools.partial(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
        yield functools.partial(torch.set_autocast_dtype, device, torch.get_autocast_dtype(device))
    yield functools.partial(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
    yield from _backends()
    yield functools.partial(_restore_default_device, torch.get_default_device())


def _restore_threads(number: int) -> None:
    if torch.get_num_threads() != number:
        torch.set_num_threads(number)


def _restore_default_device(device: torch.device) -> None:
    if torch.get_default_device() != device:
        # None takes away what the model's code has put on the stack of modes.
        torch.set_default_device(None if device.type == "cpu" else device)


def _backends() -> Iterator[_Undo]:
    # Not through `torch.backends`, which refuses after `disable_global_flags`.
    for switch in _SWITCHES:
        read, write = getattr(torch._C, f"_get_{switch}", None), getattr(torch._C, f"_set_{switch}", None)
        if read is not None and write is not None:
            yield functools.partial(write, read())
    mha = torch.backends.mha
    yield functools.partial(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
    cuda = torch.backends.cuda
    for kernel in _SDP:
        enabled = getattr(cuda, f"{kernel}_sdp_enabled", None)
        if enabled is not None:
            yield functools.partial(getattr(cuda, f"enable_{kernel}_sdp"), enabled())

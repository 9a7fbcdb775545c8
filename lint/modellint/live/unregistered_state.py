"""Unregistered state: modules, parameters and tensors that attributes hold and PyTorch does not know of.

The walk goes by breadth, so that of several ways to a value the shortest is the one that is told. It runs none of the
user's code: no property, no ``__getattr__``, no ``__iter__`` or ``items`` of a class of theirs.
"""

from __future__ import annotations

import enum
import functools
import logging
import sys
import threading
import types
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from modellint.live.analysis_cache import analysis
from modellint.live.subject import Subject


class Held(NamedTuple):
    """One module, parameter or tensor that an attribute holds and PyTorch does not register."""

    value: nn.Module | torch.Tensor
    kind: str
    """``module``, ``parameter`` or ``tensor``; ``alias`` is a tensor that shares all its memory with registered state, or is it."""
    owner: nn.Module
    """The module whose attribute leads there; it may itself be hidden."""
    paths: tuple[str, ...]
    """Every path of the owner."""
    attribute: str
    route: str
    """How to get there from the owner: ``layers[0]``, ``parts["a"].inner``."""
    container: str
    """What the attribute itself is: ``list``, ``dict``, ``tuple``, ``set``, the name of another class, or empty where the
    attribute is the value."""
    others: tuple[Held, ...] = ()
    """The other attributes that hold the same value."""
    on_class: bool = False
    """Whether the attribute is the class's, not the object's."""

    @property
    def places(self) -> tuple[str, ...]:
        """Every path from the model to the value."""
        return tuple(_joined(path, self.route) for path in self.paths)


@analysis
def reachable_state(subject: Subject) -> tuple[Held, ...]:
    """Everything that attributes lead to and that is not registered there: what is hidden, and the aliases of registered state."""
    return tuple(_Walk(subject).values())


@analysis
def unregistered_state(subject: Subject) -> tuple[Held, ...]:
    """Every hidden module, parameter and tensor once, in the order of modules and attributes."""
    return tuple(state for state in reachable_state(subject) if state.kind != "alias")


_DEPTH = 40
"""How many containers deep the walk goes."""
_BUDGET = 2_000_000
"""How many values it looks at; what a vocabulary or a data set of millions holds is no state of a model."""

BOOKKEEPING = frozenset(vars(nn.Module())) | {
    "_is_full_backward_hook",
    "_compiled_call_impl",
    "_flat_weights",
    "_flat_weight_refs",
    # What accelerate, lightning, FSDP and torch.compile hang onto modules.
    "_hf_hook",
    "_old_forward",
    "_trainer",
    "_fabric",
    "_handle",
    "_flat_param",
    "_fsdp_wrapped_module",
    "_all_handles",
    "_exec_order_data",
    "_orig_mod",
    "dynamo_ctx",
}
"""Attributes of modules that belong to frameworks."""

_ATOMS = frozenset(
    {
        type(None), bool, int, float, complex, str, bytes, bytearray, slice, range, type, type(...), type(NotImplemented),
        types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.GeneratorType, types.FrameType,
        property, staticmethod, classmethod, object, torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
    }
)  # fmt: skip
"""Types of values that hold nothing."""

_CLOSED: tuple[type, ...] = (
    type,
    types.ModuleType,
    enum.Enum,
    logging.Logger,
    logging.Handler,
    threading.Thread,
    BaseException,
    weakref.ReferenceType,
    weakref.ProxyType,
    weakref.CallableProxyType,
    weakref.WeakSet,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
    torch.utils.data.Sampler,
)
"""Types of values that are not looked into: they hold nothing, hold it weakly, or belong to training."""

_FRAMEWORKS = frozenset(
    {"torch", "numpy", "lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "deepspeed"}
)
_OPEN_TORCH = ("torch.nn.modules", "torch.nn.utils.parametrize")
"""Modules of torch whose plain attributes users may fill; others (DDP, FSDP, scripted ones) keep books of their own there."""


class _Owner(NamedTuple):
    module: nn.Module
    paths: tuple[str, ...]
    order: int


class _Step(NamedTuple):
    value: Any
    owner: _Owner
    attribute: str
    order: int
    route: str
    container: str
    depth: int
    on_class: bool


class _Walk:
    """One walk through a model; its tables are by identity."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.modules = {id(entry.module) for entry in subject.modules}
        self.state = {id(state.tensor) for state in subject.state}
        self.pending: deque[_Step] = deque()
        self.owners = 0
        self.classes: dict[type, tuple[tuple[str, Any], ...]] = {}
        self.budget = _BUDGET
        self.seen: set[int] = set()
        self.hits: dict[int, list[tuple[_Step, str]]] = {}
        self.inner: set[int] = set()
        """Modules and state registered in a hidden module, that module itself excepted."""

    def values(self) -> list[Held]:
        for entry in self.subject.modules:
            self._open(entry.module, entry.paths, 0)
        while self.pending and self.budget > 0:
            self._look(self.pending.popleft())
        hits = [
            (step, kind, steps[1:])
            for key, steps in self.hits.items()
            if key not in self.inner
            for step, kind in steps[:1]
        ]
        hits.sort(key=lambda hit: (hit[0].owner.order, hit[0].order))
        return [
            _value_of(step, kind)._replace(others=tuple(_value_of(further, kind) for further, _ in others))
            for step, kind, others in hits
        ]

    def _open(self, module: nn.Module, paths: tuple[str, ...], depth: int) -> None:
        """Look at a module's attributes, and those of its class, later on."""
        kind = type(module)
        if _is_machinery(kind):
            return
        owner = _Owner(module, paths, self.owners)
        self.owners += 1
        names = vars(module)
        for order, (name, value) in enumerate(names.items()):
            if type(value) not in _ATOMS and name not in BOOKKEEPING and not _is_computed(module, name):
                container = "" if _is_state(type(value)) else _kind(type(value))
                self.pending.append(_Step(value, owner, name, order, name, container, depth, False))
        if kind not in self.classes:
            self.classes[kind] = _class_attributes(kind)
        for name, value in self.classes[kind]:
            if name not in names:
                container = "" if _is_state(type(value)) else _kind(type(value))
                self.pending.append(_Step(value, owner, name, len(names), name, container, depth, True))

    def _look(self, step: _Step) -> None:
        value = step.value
        kind = type(value)
        self.budget -= 1
        if issubclass(kind, nn.Module):
            self._meet(step)
            return
        if issubclass(kind, torch.Tensor):
            tensor_kind = self._kind_of(value)
            if tensor_kind:
                self._note(step, tensor_kind)
            return
        if id(value) in self.seen or step.depth >= _DEPTH:
            return
        self.seen.add(id(value))
        for ending, part in _parts(value):
            self.budget -= 1
            if type(part) not in _ATOMS:
                self.pending.append(step._replace(value=part, route=step.route + ending, depth=step.depth + 1))

    def _kind_of(self, tensor: torch.Tensor) -> str:
        if id(tensor) in self.state:
            # A parameter keeps its identity when the model is moved: a second reference is harmless.
            return "" if _is_parameter(tensor) else "alias"
        if _is_parameter(tensor):
            return "parameter"
        memory = memory_of(tensor)
        return "alias" if memory is not None and memory in self._memories else "tensor"

    @functools.cached_property
    def _memories(self) -> set[tuple[int, int, int]]:
        memories = (memory_of(state.tensor) for state in self.subject.state)
        return {memory for memory in memories if memory is not None}

    def _note(self, step: _Step, kind: str) -> None:
        self.hits.setdefault(id(step.value), []).append((step, kind))

    def _meet(self, step: _Step) -> None:
        """A module: registered, met before, a reference to what is around the owner, or hidden."""
        module: nn.Module = step.value
        if id(module) in self.modules:
            return
        if id(module) in self.hits or id(module) in self.inner:
            self._note(step, "module")
            return
        parts = _named_modules(module)
        identities = {id(part) for _, part in parts}
        if id(step.owner.module) in identities or id(self.subject.model) in identities:
            return
        leaves = [part for _, part in parts if not part.__dict__.get("_modules")]
        if leaves and all(id(leaf) in self.modules for leaf in leaves):
            # `[nn.Sequential(self.a, self.b)]`: another way to call what is registered.
            return
        if _is_lone(step) and any(identity in self.modules for identity in identities):
            # `[parent]` keeps a module from being registered twice on purpose.
            return
        if step.on_class and not has_state(module):
            return
        self._note(step, "module")
        routes = tuple(_joined(path, step.route) for path in step.owner.paths)
        for name, part in parts:
            if part is not module:
                self.inner.add(id(part))
            for tensors in (part.__dict__.get("_parameters"), part.__dict__.get("_buffers")):
                self.inner.update(id(tensor) for tensor in (tensors or {}).values() if tensor is not None)
            if id(part) not in self.modules:
                self._open(part, tuple(_joined(route, name) for route in routes), step.depth + 1)


_ON_CLASSES = frozenset({list, tuple, set, dict, nn.Parameter, torch.Tensor})


def _value_of(step: _Step, kind: str) -> Held:
    return Held(
        step.value,
        kind,
        step.owner.module,
        step.owner.paths,
        step.attribute,
        step.route,
        step.container,
        (),
        step.on_class,
    )


def _joined(path: str, route: str) -> str:
    return f"{path}.{route}" if path and route else path or route


def _class_attributes(kind: type) -> tuple[tuple[str, Any], ...]:
    """What the user's classes hold themselves and every object shares."""
    attributes: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "torch":
            break
        for name, value in vars(base).items():
            attributes.setdefault(name, value)
    return tuple(
        (name, value)
        for name, value in attributes.items()
        if name[:2] != "__" and (type(value) in _ON_CLASSES or issubclass(type(value), nn.Module))
    )


def _is_state(kind: type) -> bool:
    return issubclass(kind, (nn.Module, torch.Tensor))


def _is_lone(step: _Step) -> bool:
    """Whether it is all that a list or tuple holds."""
    box: Any = vars(step.owner.module).get(step.attribute)
    return issubclass(type(box), (list, tuple)) and len(box) == 1 and box[0] is step.value


def memory_of(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Key of a tensor's elements in memory: equal keys are the same elements of one storage; None without a storage."""
    try:
        return tensor.untyped_storage()._cdata, int(tensor.storage_offset()), tensor.numel()
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        # Sparse and packed tensors, and parameters that a lazy module has not made yet.
        return None


def _is_parameter(value: torch.Tensor) -> bool:
    return bool(getattr(value, "_is_param", False)) or issubclass(type(value), nn.Parameter)


def _is_machinery(kind: type) -> bool:
    if kind.__module__.partition(".")[0] != "torch":
        return issubclass(kind, torch.jit.ScriptModule)
    return not kind.__module__.startswith(_OPEN_TORCH)


def _is_computed(module: nn.Module, name: str) -> bool:
    """Whether torch's own hooks (weight and spectral norm, pruning) put the attribute there on every run."""
    parameters = vars(module).get("_parameters") or {}
    return any(name + ending in parameters for ending in ("_orig", "_v", "_g"))


def _named_modules(module: nn.Module) -> list[tuple[str, nn.Module]]:
    try:
        return list(module.named_modules())
    except AttributeError:
        # A class that forgot `super().__init__()`.
        return [("", module)]


def has_state(module: nn.Module) -> bool:
    """Whether parameters, buffers, or behaviour that depends on the mode stand in a module or the modules in it."""
    return any(_has_own_state(part) for _, part in _named_modules(module))


def _has_own_state(module: nn.Module) -> bool:
    names = vars(module)
    if any(tensor is not None for kept in ("_parameters", "_buffers") for tensor in names.get(kept, {}).values()):
        return True
    return _depends_on_mode(type(module))


def _depends_on_mode(kind: type) -> bool:
    for base in kind.__mro__:
        if base is nn.Module:
            return False
        for value in vars(base).values():
            if isinstance(value, types.FunctionType) and "training" in value.__code__.co_names:
                return True
    return False


def _kind(kind: type) -> str:
    """What a container is called in a message."""
    if issubclass(kind, (types.FunctionType, types.MethodType)):
        return "function"
    return kind.__name__


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, each with what its path ends in; nothing for what is not looked into."""
    # By its type and never by `isinstance`, which asks a proxy for the class it stands for.
    kind = type(value)
    if issubclass(kind, _CLOSED):
        return
    for types_, parts, is_all in _CONTAINERS:
        if issubclass(kind, types_):
            yield from parts(value)
            if is_all:
                return
            break
    else:
        if _is_foreign(kind):
            return
    yield from _attributes(value)


def _items(values: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"[{index}]", part) for index, part in enumerate(values) if type(part) not in _ATOMS)


def _entries(pairs: Any) -> Iterator[tuple[str, Any]]:
    for key, part in pairs:
        if type(part) not in _ATOMS:
            yield f"[{_key(key)}]", part


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    names = getattr(type(value), "_fields", None)
    if isinstance(names, tuple) and len(names) == tuple.__len__(value):
        return ((f".{name}", part) for name, part in zip(names, tuple.__iter__(value), strict=True))
    return _items(tuple.__iter__(value))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    members = set.__iter__(value) if issubclass(type(value), set) else frozenset.__iter__(value)
    return ((f"{{{index}}}", part) for index, part in enumerate(members))


def _bound(value: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    yield ".func", value.func
    yield from ((f".args{ending}", part) for ending, part in _items(iter(value.args)))
    yield from ((f".keywords{ending}", part) for ending, part in _entries(value.keywords.items()))


def _key(key: object) -> str:
    if type(key) is str:
        return f'"{key}"' if key.isprintable() and '"' not in key else repr(key)
    if type(key) in (int, bool, float, bytes, type(None)):
        return repr(key)
    if type(key) is tuple:
        return ", ".join(map(_key, key)) + ("," if len(key) == 1 else "")
    return f"<{type(key).__name__}>"


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if _is_state(type(value)) or type(value) in (list, tuple, dict):
            yield f".{name}", value


_CONTAINERS: tuple[tuple[Any, Callable[[Any], Iterator[tuple[str, Any]]], bool], ...] = (
    (dict, lambda value: _entries(dict.items(value)), False),
    (list, lambda value: _items(list.__iter__(value)), False),
    (tuple, _fields, False),
    ((set, frozenset), _members, False),
    (deque, lambda value: _items(deque.__iter__(value)), False),
    (UserDict, lambda value: _parts(value.data), True),
    (UserList, lambda value: _parts(value.data), True),
    (types.MappingProxyType, lambda value: _entries(value.items()), True),
    (ChainMap, lambda value: (part for mapping in value.maps for part in _parts(mapping)), True),
    (functools.partial, _bound, True),
    (types.MethodType, lambda value: iter(((".__self__", value.__self__),)), True),
    (types.FunctionType, lambda value: _closure(value), True),
    (types.SimpleNamespace, lambda value: iter(()), False),
)
"""Types of containers to what they hold, and whether that is all: their subclasses may have attributes beside."""


def _is_foreign(kind: type) -> bool:
    """Whether a class is Python's or a framework's own: what such objects hold is no state of a model."""
    package = kind.__module__.partition(".")[0]
    if package in _FRAMEWORKS:
        return True
    # `dataclasses.make_dataclass` and `types.new_class` make classes that claim to be of `types`.
    defined = getattr(sys.modules.get(kind.__module__), kind.__qualname__.partition(".")[0], None)
    return package in sys.stdlib_module_names and defined is not None


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        names = object.__getattribute__(value, "__dict__")
    except AttributeError:
        names = None
    if type(names) is dict:
        for name, part in list(names.items()):
            if type(part) not in _ATOMS:
                yield f".{name}", part
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            mangled = f"_{base.__name__.lstrip('_')}{name}" if name[:2] == "__" and name[-2:] != "__" else name
            descriptor = base.__dict__.get(mangled)
            if not isinstance(descriptor, types.MemberDescriptorType):
                continue
            try:
                part = descriptor.__get__(value)
            except AttributeError:
                continue
            if type(part) not in _ATOMS:
                yield f".{mangled}", part

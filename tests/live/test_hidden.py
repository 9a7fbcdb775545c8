"""Hidden modules, parameters and tensors are found wherever they are put, with the way there, and nothing else is."""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from modellint.live.subject import Subject
from modellint.live.unregistered_state import Held, reachable_state, unregistered_state
from modellint.settings import Destination


def subject_of(model: nn.Module) -> Subject:
    return Subject(model, None, Path.cwd(), Destination())


def places(model: nn.Module) -> list[tuple[str, str]]:
    """Kind and first place of all that is hidden."""
    return [(held.kind, held.places[0]) for held in unregistered_state(subject_of(model))]


# Random models.


class Block(nn.Module):
    """A module with parameters, a buffer, and attributes that hold no state."""

    names = ("a", "b")
    kinds: ClassVar = {"linear": nn.Linear}

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(2))
        self.sizes = [1, 2, 3]
        self.options = {"bias": True, "norm": nn.LayerNorm, "name": "block"}
        self.dtype = torch.float32

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@dataclasses.dataclass
class Record:
    kept: Any
    size: int = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    size: int
    kept: Any = None


Pair = namedtuple("Pair", ["size", "kept"])


class Plain:
    def __init__(self, kept: Any) -> None:
        self.size = 3
        self.kept = kept

    def call(self) -> None: ...


class Slotted:
    __slots__ = ("__own", "kept", "unset")

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.__own = 3


class Names(dict[str, Any]):
    """A dict that gives its items as attributes, as many configurations do."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def items(self) -> Any:
        raise AssertionError("the walk runs no code of the user's")


def _with_default(kept: Any, noise: list[Any]) -> Any:
    found: defaultdict[Any, Any] = defaultdict(list, enumerate(noise))
    found[("kept", 1)] = kept
    return found


def _closing_over(kept: Any) -> Callable[[], Any]:
    return lambda: kept


CONTAINERS: dict[str, tuple[Callable[[Any, list[Any]], Any], Callable[[int], str]]] = {
    "list": (lambda kept, noise: [*noise, kept], lambda size: f"[{size}]"),
    "tuple": (lambda kept, noise: (kept, *noise), lambda size: "[0]"),
    "dict": (lambda kept, noise: {**dict(enumerate(noise)), "kept": kept}, lambda size: '["kept"]'),
    "set": (lambda kept, noise: {kept}, lambda size: "{0}"),
    "frozenset": (lambda kept, noise: frozenset({kept}), lambda size: "{0}"),
    "deque": (lambda kept, noise: deque([kept, *noise], maxlen=9), lambda size: "[0]"),
    "defaultdict": (_with_default, lambda size: '["kept", 1]'),
    "OrderedDict": (lambda kept, noise: OrderedDict([(7, kept)]), lambda size: "[7]"),
    "UserDict": (lambda kept, noise: UserDict({"a.b": kept}), lambda size: '["a.b"]'),
    "mappingproxy": (lambda kept, noise: types.MappingProxyType({None: kept}), lambda size: "[None]"),
    "dict with attributes": (lambda kept, noise: Names(kept=kept), lambda size: '["kept"]'),
    "dataclass": (lambda kept, noise: Record(kept), lambda size: ".kept"),
    "slotted dataclass": (lambda kept, noise: Frozen(2, kept), lambda size: ".kept"),
    "namedtuple": (lambda kept, noise: Pair(noise, kept), lambda size: ".kept"),
    "partial": (lambda kept, noise: functools.partial(print, *noise, end=kept), lambda size: '.keywords["end"]'),
    "object": (lambda kept, noise: Plain(kept), lambda size: ".kept"),
    "slots": (lambda kept, noise: Slotted(kept), lambda size: ".kept"),
    "namespace": (lambda kept, noise: types.SimpleNamespace(kept=kept, more=noise), lambda size: ".kept"),
    "bound method": (lambda kept, noise: Plain(kept).call, lambda size: ".__self__.kept"),
}


class Planted(NamedTuple):
    """One random model, what is hidden in it, and in which kinds of container."""

    model: nn.Module
    hidden: set[tuple[str, str]]
    containers: tuple[str, ...]
    depth: int


@st.composite
def models(draw: st.DrawFn, *, planted: bool = True) -> Planted:
    """Random trees of registered modules; their attributes hold everything that is no hidden state, and maybe what is."""
    registered = _tree(draw)
    model = registered[0][1]
    used: list[str] = []
    for path, module in registered:
        for index in range(draw(st.integers(0, 2))):
            kinds = draw(st.lists(st.sampled_from(sorted(CONTAINERS)), min_size=1, max_size=4))
            value = draw(st.sampled_from(_noise(registered, path)))
            setattr(module, f"clean{index}", _packed(value, kinds, _noise(registered, path)[:3])[0])
            used.extend(kinds if not planted else ())
    hidden: set[tuple[str, str]] = set()
    deepest = 0
    for index in range(draw(st.integers(1, 3)) if planted else 0):
        path, module = draw(st.sampled_from(registered))
        value, kind = draw(st.sampled_from(_STATE))()
        kinds = draw(st.lists(st.sampled_from(sorted(CONTAINERS)), min_size=1, max_size=7))
        noise = draw(st.lists(st.sampled_from(_noise(registered, path)), max_size=3))
        box, route, kinds = _packed(value, kinds, noise)
        setattr(module, f"hidden{index}", box)
        place = f"{path}.hidden{index}{route}" if path else f"hidden{index}{route}"
        hidden.add((kind, place))
        used.extend(kinds)
        deepest = max(deepest, len(kinds))
        if kind == "module" and draw(st.booleans()):
            # A hidden module inside a hidden module's own containers.
            inner, name = draw(st.sampled_from([(value, ""), (value.linear, ".linear")]))
            more = draw(st.lists(st.sampled_from(sorted(CONTAINERS)), min_size=1, max_size=3))
            box, route, more = _packed(nn.Linear(1, 1), more, [value, model])
            inner.inside = box
            hidden.add(("module", f"{place}{name}.inside{route}"))
            used.extend(more)
    return Planted(model, hidden, tuple(used), deepest)


def _tree(draw: st.DrawFn) -> list[tuple[str, nn.Module]]:
    model = Block()
    owners: list[nn.Module] = [model]
    for index in range(draw(st.integers(0, 5))):
        parent = draw(st.sampled_from(owners))
        child = Block()
        match draw(st.sampled_from(["attribute", "list", "dict", "sequential"])):
            case "attribute":
                setattr(parent, f"child{index}", child)
            case "list":
                setattr(parent, f"child{index}", nn.ModuleList([nn.ReLU(), child]))
            case "dict":
                setattr(parent, f"child{index}", nn.ModuleDict({"first": child}))
            case _:
                setattr(parent, f"child{index}", nn.Sequential(child, nn.Dropout()))
        owners.append(child)
    return [(path, module) for path, module in model.named_modules() if isinstance(module, Block)]


_STATE: list[Callable[[], tuple[Any, str]]] = [
    lambda: (Block(), "module"),
    lambda: (Block(), "module"),
    lambda: (nn.Parameter(torch.ones(2)), "parameter"),
    lambda: (torch.ones(2), "tensor"),
]


def _noise(registered: list[tuple[str, nn.Module]], path: str) -> list[Any]:
    """What is no hidden state: values, classes, what is registered elsewhere, what is held weakly, and what leads back."""
    modules = [module for _, module in registered]
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    some: Any = modules[len(path) % len(modules)]
    return [
        3, "text", None, nn.Linear, torch.float16, 2.5, print, weakref.ref(nn.Linear(1, 1)), weakref.ref(some), cycle,
        *modules, some.linear, some.linear.weight, some.linear.forward, range(3), Path("a"), nn.functional.relu,
        functools.partial(nn.Linear, 2, bias=False), weakref.WeakSet(modules), torch.device("cpu"), (), {}, b"x",
    ]  # fmt: skip


def _packed(value: Any, kinds: list[str], noise: list[Any]) -> tuple[Any, str, list[str]]:
    """A value inside of containers, the first kind outermost, and the way from the outermost to it."""
    route = ""
    used: list[str] = []
    for kind in reversed(kinds):
        if kind in ("set", "frozenset") and not _is_hashable(value):
            kind = "list"
        make, ending = CONTAINERS[kind]
        value = make(value, noise)
        route = ending(len(noise)) + route
        used.append(kind)
    return value, route, used


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


QUICK = settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(models())
def test_everything_planted_is_found_with_its_path(planted: Planted) -> None:
    found = places(planted.model)
    assert set(found) == planted.hidden
    assert len(found) == len(planted.hidden)


@QUICK
@given(models(planted=False))
def test_nothing_is_found_in_clean_models(planted: Planted) -> None:
    assert places(planted.model) == []


# What is hidden state and what is not.


def test_a_module_past_setattr() -> None:
    model = Block()
    object.__setattr__(model, "first", nn.Linear(1, 1))
    model.__dict__["second"] = nn.Parameter(torch.ones(1))
    assert places(model) == [("module", "first"), ("parameter", "second")]
    assert [held.container for held in unregistered_state(subject_of(model))] == ["", ""]


def test_a_function_that_closes_over_a_module() -> None:
    model = Block()
    model.act = _closing_over(nn.Linear(1, 1))
    assert places(model) == [("module", "act.kept")]


def test_containers_that_the_class_holds() -> None:
    class Shared(Block):
        layers: ClassVar = [nn.Linear(1, 1)]
        acts: ClassVar = [nn.ReLU()]

    (held,) = unregistered_state(subject_of(nn.Sequential(Shared())))
    assert (held.places, held.on_class) == (("0.layers[0]",), True)


def test_each_value_once_with_the_other_ways_to_it() -> None:
    model = Block()
    layer = nn.Linear(1, 1)
    model.once = {"deep": [layer]}
    model.again = [layer]
    (held,) = unregistered_state(subject_of(model))
    # The shortest way is told first.
    assert held.places == ("again[0]",)
    assert [other.places for other in held.others] == [('once["deep"][0]',)]


def test_the_parts_of_a_hidden_module_are_not_hidden_themselves() -> None:
    model = Block()
    inner = Block()
    model.parts = [inner.linear, inner.linear.weight]
    model.whole = (1, inner)
    assert places(model) == [("module", "whole[1]")]


def test_a_shared_owner_has_all_its_paths() -> None:
    owner = Block()
    owner.layers = [nn.Linear(1, 1)]
    model = nn.ModuleList([owner, nn.Sequential(owner)])
    (held,) = unregistered_state(subject_of(model))
    assert held.places == ("0.layers[0]", "1.0.layers[0]")


def test_another_way_to_call_what_is_registered() -> None:
    model = Block()
    model.path = [nn.Sequential(model.linear, model.linear)]
    assert places(model) == []


def test_a_parent_that_is_not_part_of_the_model() -> None:
    outer = nn.Sequential(Block(), Block())
    model = outer[0]
    model.parent = [outer]
    assert places(model) == []


def test_buffers_that_are_held_twice_are_aliases() -> None:
    model = Block()
    model.both = [model.count, model.count.detach(), model.count[:1], model.linear.weight]
    kinds = [(held.kind, held.route) for held in reachable_state(subject_of(model))]
    assert kinds == [("alias", "both[0]"), ("alias", "both[1]"), ("tensor", "both[2]")]
    assert places(model) == [("tensor", "both[2]")]


def test_training_is_no_state() -> None:
    model = Block()
    model.optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    model.optimizer.step()
    model.schedule = [torch.optim.lr_scheduler.ConstantLR(model.optimizer)]
    model.data = torch.utils.data.TensorDataset(torch.ones(3))
    model.hooks = [model.register_forward_hook(lambda *_: None)]
    assert places(model) == []


class WithoutInit(nn.Module):
    def __init__(self) -> None:
        self.__dict__["layers"] = [nn.Linear(1, 1)]


def test_a_module_that_was_never_initialised() -> None:
    model = Block()
    model.odd = [WithoutInit()]
    assert places(model) == [("module", "odd[0]"), ("module", "odd[0].layers[0]")]


def test_a_proxy_is_asked_nothing() -> None:
    class Proxy:
        @property
        def __class__(self) -> Any:
            raise AssertionError("the walk runs no code of the user's")

    model = Block()
    model.__dict__["lazy"] = [Proxy()]
    model.__dict__["weak"] = weakref.proxy(model)
    assert places(model) == []


def test_a_million_numbers_and_a_deep_nest() -> None:
    model = Block()
    model.numbers = list(range(1_000_000))
    deep: list[Any] = [nn.Linear(1, 1)]
    for _ in range(5000):
        deep = [deep]
    model.deep = deep
    assert places(model) == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.LSTM(2, 2, 2, bidirectional=True),
        lambda: nn.utils.weight_norm(nn.Linear(2, 2)),
        lambda: nn.utils.spectral_norm(nn.Linear(2, 2)),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 0.5),
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 2, enable_nested_tensor=False),
        lambda: nn.DataParallel(nn.Linear(2, 2)),
        lambda: nn.LazyLinear(2),
        lambda: nn.ParameterList([nn.Parameter(torch.ones(2)), torch.ones(2)]),
        lambda: nn.ParameterDict({"a": torch.ones(2)}),
        lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))),
        lambda: torch.jit.trace(nn.Linear(2, 2), torch.ones(2)),
        lambda: torch.ao.quantization.QuantStub(),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 3]),
        lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=3),
    ],
)
def test_torch_keeps_its_own_books(build: Callable[[], nn.Module]) -> None:
    assert places(nn.Sequential(build())) == []


def test_the_walk_changes_nothing() -> None:
    model = Block()
    model.kept = defaultdict(list, a=[nn.Linear(1, 1)])
    before = {name: id(value) for name, value in vars(model).items()}
    held: tuple[Held, ...] = reachable_state(subject_of(model))
    assert held
    assert {name: id(value) for name, value in vars(model).items()} == before
    assert list(model.kept) == ["a"]

"""A run leaves a model, its inputs and torch's global state bit for bit as they were."""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

import modellint
from modellint.live.snapshot import unchanged


@dataclass
class Notes:
    seen: list[int] = field(default_factory=list)
    last: Any = None


class Slotted:
    __slots__ = ("count", "later")

    def __init__(self) -> None:
        self.count = 0


class Net(nn.Module):
    """Holds one of everything that code can change."""

    calls = 0
    shared: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("steps", torch.zeros(2))
        self.register_buffer("maybe", None)
        self.plain = torch.arange(4.0)
        self.count = 0
        self.list = [1, [2, 3]]
        self.dict = {"a": 1, "b": {"c": [4]}}
        self.ordered = OrderedDict([("x", 1), ("y", 2)])
        self.default: defaultdict[str, list[int]] = defaultdict(list)
        self.counter = Counter("aab")
        self.deque: deque[int] = deque([1, 2], maxlen=3)
        self.set = {1, 2}
        self.tuple = ([1],)
        self.bytes = bytearray(b"ab")
        self.array = numpy.arange(3)
        self.notes = Notes()
        self.space = SimpleNamespace(value=1)
        self.slotted = Slotted()
        self.partial = functools.partial(max, 1, key=Notes([1]).seen.index)
        self.random = random.Random(1)
        self.generator = torch.Generator().manual_seed(1)
        self.numpy_random = numpy.random.default_rng(1)
        self.legacy_random = numpy.random.RandomState(1)
        self.weak: Any = None
        self.hidden = [nn.Linear(2, 2), nn.Dropout()]
        held: list[int] = []
        self.callback = lambda: held
        self.linear.register_forward_hook(lambda *_: held.append(1))
        self.linear.weight.tag = ["note"]  # type: ignore[attr-defined]
        self.linear.weight.grad = torch.ones(3, 3)
        self.cycle = self.list
        self.list.append(self.list)


ACTIONS: dict[str, Callable[[Net, Tensor], Any]] = {
    "a counter": lambda net, x: setattr(net, "count", net.count + 1),
    "a new attribute": lambda net, x: setattr(net, "output", x * 2),
    "a deleted attribute": lambda net, x: delattr(net, "count"),
    "the order of attributes": lambda net, x: vars(net).update(count=vars(net).pop("count")),
    "an appended item": lambda net, x: net.list.append(x),
    "an inner list": lambda net, x: net.list[1].clear(),
    "a sorted list": lambda net, x: net.notes.seen.extend([3, 1]) or net.list[1].reverse(),
    "a cached item": lambda net, x: net.dict.update(key=x),
    "an inner dict": lambda net, x: net.dict["b"]["c"].append(5),
    "an ordered dict": lambda net, x: net.ordered.move_to_end("x"),
    "a default dict": lambda net, x: net.default["new"].append(1),
    "a Counter": lambda net, x: net.counter.update("ab"),
    "a deque": lambda net, x: net.deque.extend([8, 9]),
    "a set": lambda net, x: net.set.add(3),
    "a list in a tuple": lambda net, x: net.tuple[0].append(2),
    "a bytearray": lambda net, x: net.bytes.extend(b"c"),
    "an array": lambda net, x: net.array.__setitem__(0, 7),
    "a dataclass": lambda net, x: setattr(net.notes, "last", x),
    "a list in a dataclass": lambda net, x: net.notes.seen.append(1),
    "a namespace": lambda net, x: vars(net.space).clear(),
    "a slot": lambda net, x: setattr(net.slotted, "count", 5),
    "an empty slot": lambda net, x: setattr(net.slotted, "later", 5),
    "a closure": lambda net, x: net.callback().append(1),
    "a hook's closure": lambda net, x: net.linear(x),
    "a class's counter": lambda net, x: setattr(Net, "calls", 1),
    "a class's list": lambda net, x: Net.shared.append(1),
    "a class's new attribute": lambda net, x: setattr(Net, "cache", x),
    "a class's method": lambda net, x: setattr(Net, "forward", lambda self, x: x),
    "a buffer in place": lambda net, x: net.steps.add_(1),
    "a buffer bound anew": lambda net, x: setattr(net, "steps", net.steps + 1),
    "a new buffer": lambda net, x: net.register_buffer("extra", x),
    "a buffer that was None": lambda net, x: setattr(net, "maybe", x),
    "a deleted buffer": lambda net, x: delattr(net, "steps"),
    "a buffer's persistence": lambda net, x: net._non_persistent_buffers_set.add("steps"),
    "a buffer's form": lambda net, x: net.steps.unsqueeze_(0),
    "a resized buffer": lambda net, x: net.steps.resize_(5).fill_(3),
    "a plain tensor": lambda net, x: net.plain.mul_(3),
    "a part of a plain tensor": lambda net, x: net.plain[1:3].zero_(),
    "a tensor through numpy": lambda net, x: net.plain.numpy().__setitem__(0, 9.0),
    "a weight in place": lambda net, x: net.linear.weight.data.clamp_(0, 0.1),
    "a weight's data": lambda net, x: setattr(net.linear.weight, "data", torch.zeros(2, 2)),
    "a weight's type": lambda net, x: net.half(),
    "a weight bound anew": lambda net, x: setattr(net.linear, "weight", nn.Parameter(torch.zeros(3, 3))),
    "a weight's flag": lambda net, x: net.linear.weight.requires_grad_(False),
    "a frozen weight": lambda net, x: net.frozen.requires_grad_(True),
    "a weight's attribute": lambda net, x: net.linear.weight.tag.append("more"),  # type: ignore[attr-defined]
    "a gradient": lambda net, x: net.linear.weight.grad.zero_(),  # type: ignore[union-attr]
    "no gradient": lambda net, x: net.zero_grad(),
    "a new gradient": lambda net, x: setattr(net.linear.bias, "grad", torch.ones(3)),
    "a backward pass": lambda net, x: net.linear(x).sum().backward(),
    "running statistics": lambda net, x: net.norm(x),
    "a new layer": lambda net, x: setattr(net, "lazy", nn.Linear(3, 3)),
    "another layer": lambda net, x: setattr(net, "linear", nn.Linear(3, 3)),
    "a removed layer": lambda net, x: delattr(net, "norm"),
    "a layer's class": lambda net, x: setattr(net.norm, "__class__", nn.BatchNorm2d),
    "the mode": lambda net, x: net.eval(),
    "a hidden layer's mode": lambda net, x: net.hidden[0].eval(),
    "a hidden layer's weight": lambda net, x: net.hidden[0].weight.data.zero_(),
    "a hook": lambda net, x: net.register_forward_hook(lambda *_: None),
    "a removed hook": lambda net, x: net.linear._forward_hooks.clear(),
    "a parametrization": lambda net, x: nn.utils.parametrizations.weight_norm(net.linear),
    "the input": lambda net, x: x.mul_(0),
    "torch's seed": lambda net, x: torch.manual_seed(5),
    "torch's random numbers": lambda net, x: functional.dropout(x),
    "Python's random numbers": lambda net, x: random.random(),
    "numpy's random numbers": lambda net, x: numpy.random.rand(2),
    "an own random.Random": lambda net, x: net.random.random(),
    "an own torch.Generator": lambda net, x: torch.rand(2, generator=net.generator),
    "an own numpy Generator": lambda net, x: net.numpy_random.random(),
    "an own RandomState": lambda net, x: net.legacy_random.rand(),
    "the gradient mode": lambda net, x: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "the default type": lambda net, x: torch.set_default_dtype(torch.float64),
    "the default device": lambda net, x: torch.set_default_device("meta"),
    "the threads": lambda net, x: torch.set_num_threads(torch.get_num_threads() + 1),
    "autocast": lambda net, x: torch.set_autocast_enabled("cpu", True),
    "deterministic algorithms": lambda net, x: torch.use_deterministic_algorithms(True, warn_only=True),
    "the fast path": lambda net, x: torch.backends.mha.set_fastpath_enabled(
        not torch.backends.mha.get_fastpath_enabled()
    ),
    "cudnn": lambda net, x: torch._C._set_cudnn_benchmark(True),
    "mkldnn": lambda net, x: torch._C._set_mkldnn_enabled(False),
    "the precision": lambda net, x: torch.set_float32_matmul_precision("medium"),
}


def numbers(value: Any) -> bytes:
    """The bits of a tensor's elements, of an array's, of a generator's state."""
    match value:
        case Tensor():
            return value.detach().clone().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        case numpy.ndarray():
            return value.tobytes()
        case torch.Generator():
            return value.get_state().numpy().tobytes()
        case _:
            return repr(value).encode()


def picture(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Everything that a value leads to, with identities, as something to compare."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return ("seen", seen[id(value)])
    if isinstance(value, (int, float, str, bytes, type(None), torch.dtype)):
        return value
    seen[id(value)] = len(seen)
    parts: list[Any] = [type(value), id(value)]
    match value:
        case Tensor():
            parts += [
                tuple(value.shape),
                value.stride(),
                value.dtype,
                value.requires_grad,
                value._version,
                numbers(value),
            ]
            parts += [picture(value.grad if value.is_leaf else None, seen)]
        case dict():
            parts += [(picture(key, seen), picture(item, seen)) for key, item in value.items()]
        case list() | tuple() | deque() | set():
            parts += [picture(item, seen) for item in value]
        case bytearray():
            parts.append(bytes(value))
        case numpy.ndarray() | torch.Generator():
            parts.append(numbers(value))
        case random.Random():
            parts.append(value.getstate())
        case numpy.random.Generator():
            parts.append(repr(value.bit_generator.state))
        case numpy.random.RandomState():
            parts.append(repr(value.get_state()))
        case Slotted():
            parts += [value.count, getattr(value, "later", None)]
        case _ if callable(value) and getattr(value, "__closure__", None):
            parts += [picture(cell.cell_contents, seen) for cell in value.__closure__]
    if isinstance(value, nn.Module):
        parts.append({name: id(held) for name, held in vars(type(value)).items()})
        parts.append(picture(getattr(type(value), "shared", None), seen))
    if hasattr(value, "__dict__") and not callable(value):
        parts.append(picture(vars(value), seen))
    elif isinstance(value, nn.Module):
        parts.append([(name, picture(held, seen)) for name, held in vars(value).items()])
    return parts


def process() -> list[Any]:
    return [
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        repr(numpy.random.get_state()),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.mkldnn.enabled,
        torch.get_float32_matmul_precision(),
    ]


@pytest.mark.parametrize("action", list(ACTIONS))
def test_restored(action: str) -> None:
    net, x = Net(), torch.randn(4, 3)
    before = picture(net), picture(x), process()
    with unchanged(net, x):
        ACTIONS[action](net, x)
        assert (picture(net), picture(x), process()) != before
    assert (picture(net), picture(x), process()) == before


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(list(ACTIONS)), min_size=2, max_size=8))
def test_many_at_once(actions: list[str]) -> None:
    net, x = Net(), torch.randn(4, 3)
    before = picture(net), picture(x), process()
    with unchanged(net, x):
        for action in actions:
            try:
                ACTIONS[action](net, x)
            except (RuntimeError, AttributeError, ValueError, TypeError, KeyError):
                # One may have taken away what another works on.
                continue
    assert (picture(net), picture(x), process()) == before


@functools.lru_cache(maxsize=4)
def _halves(count: int) -> torch.Tensor:
    return torch.full((count,), 0.5)


def _except_while_compiling(function):
    """A decorator as transformers has it: the cached function is in the closure of another."""
    cached = functools.lru_cache(maxsize=4)(function)

    @functools.wraps(function)
    def called(*args):
        return cached(*args)

    return called


@_except_while_compiling
def _quarters(count: int) -> torch.Tensor:
    return torch.full((count,), 0.25)


class Cached(nn.Module):
    @functools.lru_cache(maxsize=4)  # noqa: B019
    def own(self, count: int) -> torch.Tensor:
        return torch.arange(count)

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def twos(count: int) -> torch.Tensor:
        return torch.full((count,), 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.size(-1)
        return x * self.own(count) * self.twos(count) + _halves(count) - _quarters(count)


def test_what_a_run_without_numbers_has_cached_is_forgotten() -> None:
    net, x = Cached(), torch.ones(2, 3)
    modellint.check_model(net, example_inputs=(x,))
    assert type(net(x)) is torch.Tensor
    assert net(x).tolist() == [[0.25, 2.25, 4.25]] * 2
    kept = net.twos(3)
    with unchanged(net):
        net(x)
    assert net.twos(3) is kept


def test_restored_after_an_exception() -> None:
    net = Net()
    before = picture(net)
    with pytest.raises(KeyError), unchanged(net):
        net.count = 5
        net.steps.add_(1)
        raise KeyError
    assert picture(net) == before


def test_a_graph_made_before_stays_usable() -> None:
    net = nn.Linear(3, 3)
    x = torch.randn(2, 3)
    loss = net(x).square().sum()
    with unchanged(net), torch.no_grad():
        net.weight.mul_(2)
    loss.backward()
    assert net.weight.grad is not None


def test_numbers_are_left_out_on_request() -> None:
    net = nn.Linear(3, 3)
    with unchanged(net, values=False), torch.no_grad():
        net.weight.zero_()
        net.training = False
    assert net.training
    assert not net.weight.any()


def test_shared_and_overlapping_memory() -> None:
    net = nn.Module()
    base = torch.arange(6.0)
    net.register_buffer("one", base[:4])
    net.register_buffer("two", base[2:])
    before = copy.deepcopy(net.state_dict())
    with unchanged(net):
        net.one.zero_()  # type: ignore[operator, union-attr]
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert net.one.untyped_storage().data_ptr() == net.two.untyped_storage().data_ptr()  # type: ignore[operator, union-attr]


def test_nan_and_signed_zero_are_kept() -> None:
    net = nn.Module()
    net.register_buffer("odd", torch.tensor([float("nan"), -0.0]))
    with unchanged(net):
        net.odd.zero_()  # type: ignore[operator, union-attr]
    assert net.odd[0].isnan()  # type: ignore[index, operator, union-attr]
    assert torch.signbit(net.odd[1])  # type: ignore[index, arg-type]


def test_lazy_layers_stay_lazy() -> None:
    net = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    kinds = [type(module) for module in net.modules()], [type(state) for state in net.parameters()]
    with unchanged(net):
        net(torch.zeros(2, 5))
        assert type(net[0]) is nn.Linear
    assert ([type(module) for module in net.modules()], [type(state) for state in net.parameters()]) == kinds
    assert net(torch.zeros(2, 7)).shape == (2, 3)


def test_long_chains_do_not_overflow() -> None:
    net = nn.Module()
    link: list[Any] = []
    net.chain = link
    for _ in itertools.repeat(None, 5000):
        link.append([])
        link = link[0]
    with unchanged(net):
        link.append(1)
    assert link == []


def test_no_code_of_the_model_is_run() -> None:
    class Touchy:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = object.__hash__

    net = nn.Module()
    net.touchy = [Touchy()]
    with unchanged(net):
        net.touchy.append(1)
    assert len(net.touchy) == 1

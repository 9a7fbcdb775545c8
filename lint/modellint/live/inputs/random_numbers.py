"""Random numbers that a model draws in `forward`, as inputs: sampled outside, so that a program can be compared with the model."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, count
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.live.inputs.constant_arguments import function_of, twin_of
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.snapshot import unchanged

if TYPE_CHECKING:
    from torch import nn

_NORMAL, _UNIFORM, _EXPONENTIAL, _INTEGERS = "normal", "uniform", "exponential", "integers"
_DESCRIPTIONS = "_random_inputs"
"""The attribute of a twin that says of each input which numbers it takes."""
_SEED = 0x5EED
"""Added to the process's seed: what is drawn is nothing that the example was drawn as."""
_LEAST, _MOST = 2.0**-24, 17.0
"""Between these are nearly all exponential numbers that float32 draws; of 0 a logarithm is infinite."""
_SEEDS = 20
"""Seeds, at most, of runs that are to tell whether what a model gives depends on them."""
SMALL = 256 * 1024**2
"""Bytes of parameters up to which their numbers are restored after the runs that record."""


class NoRandomInputs(ValueError):
    """A model whose random numbers cannot be inputs; the message says why."""


class DrawsOtherwise(RuntimeError):
    """A run that draws other numbers than that on the example did."""


class Draw(NamedTuple):
    """What is asked of a generator of random numbers at once."""

    kind: str
    shape: tuple[int, ...]
    low: int = 0
    high: int = 0
    """Of integers: above the largest."""

    def sample(self, generator: torch.Generator) -> Tensor:
        """Numbers that are drawn, float32 or int64."""
        if self.kind == _NORMAL:
            return torch.randn(self.shape, generator=generator, dtype=torch.float32)
        if self.kind == _INTEGERS:
            return torch.randint(self.low, self.high, self.shape, generator=generator, dtype=torch.int64)
        value = torch.rand(self.shape, generator=generator, dtype=torch.float32)
        return value if self.kind == _UNIFORM else -value.clamp_min(_LEAST).log().clamp_max(-_LEAST)

    @property
    def description(self) -> str:
        """The distribution, in words."""
        match self.kind:
            case "normal":
                return "normal, of mean 0 and deviation 1"
            case "uniform":
                return "uniform, from 0 up to 1"
            case "exponential":
                return "exponential, of rate 1: -log of uniform ones"
        return f"integers from {self.low} up to {self.high - 1}"

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds of what is drawn, the upper one excluded; None for normal numbers."""
        match self.kind:
            case "normal":
                return None
            case "uniform":
                return 0.0, 1.0
            case "exponential":
                return _LEAST, _MOST
        return self.low, self.high


class _Generator(TorchFunctionMode):
    """Mode in which random functions of PyTorch compute with numbers that ``drawn`` gives."""

    def drawn(self, kind: str, sizes: Sequence[Any], low: Any = 0, high: Any = 0) -> Tensor:
        """Numbers of a kind; a number without axes is drawn as a row of one, as inputs have axes."""
        raise NotImplementedError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        function = _FUNCTIONS.get(func)
        if function is None or any(kwargs.get(name) is not None for name in ("out", "generator")):
            # A generator of the model's own is none that the caller's numbers stand for.
            return func(*args, **kwargs)
        given = dict(kwargs)
        first = (given.pop("input"),) if "input" in given else ()
        if _is_complex(given.get("dtype"), *first, *args[:1]):
            return func(*args, **kwargs)
        return function(self.drawn, *first, *args, **given)


def _is_complex(dtype: Any, *tensors: Any) -> bool:
    dtypes = [dtype, *(tensor.dtype for tensor in tensors if isinstance(tensor, Tensor))]
    return any(isinstance(each, torch.dtype) and each.is_complex for each in dtypes)


class _Recorder(_Generator):
    """Mode that keeps what is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[tuple[Draw, Tensor]] = []
        self._numbers = torch.Generator().manual_seed((torch.initial_seed() + _SEED) % 2**63)

    def drawn(self, kind: str, sizes: Sequence[Any], low: Any = 0, high: Any = 0) -> Tensor:
        draw = Draw(kind, tuple(map(int, sizes)) or (1,), int(low), int(high))
        value = draw.sample(self._numbers)
        self.draws.append((draw, value))
        return value if sizes else value.reshape(())


class _Player(_Generator):
    """Mode that gives numbers which were drawn before, one tensor for each draw of a recorded run."""

    def __init__(self, draws: Sequence[Draw], values: Sequence[Tensor]) -> None:
        super().__init__()
        self._left = deque(zip(draws, values, strict=True))

    def drawn(self, kind: str, sizes: Sequence[Any], low: Any = 0, high: Any = 0) -> Tensor:
        known, value = self._left.popleft() if self._left else (None, None)
        # Of a trace sizes are tensors, and it keeps what is asked of them.
        traced = bool(torch._C._get_tracing_state())
        asked = None if traced else Draw(kind, tuple(map(int, sizes)) or (1,), int(low), int(high))
        if known is None or value is None or known.kind != kind or asked not in (None, known):
            told = f"{kind} numbers" if asked is None else _told(asked)
            raise DrawsOtherwise(
                f"the model draws {told} where it drew {_told(known)} on the example, so that what it draws cannot be inputs"
            )
        return value if sizes else value.reshape(())

    def end(self) -> None:
        """Raises ``DrawsOtherwise`` where numbers are left."""
        if self._left:
            raise DrawsOtherwise(
                f"the model draws no numbers where it drew {_told(self._left[0][0])} on the example, so that what it draws cannot be inputs"
            )


def _told(draw: Draw | None) -> str:
    if draw is None:
        return "no numbers"
    bounds = f" from {draw.low} up to {draw.high - 1}" if draw.kind == _INTEGERS else ""
    return f"{draw.kind} numbers{bounds} of shape {draw.shape}"


def with_random_inputs(model: nn.Module, inputs: Inputs) -> tuple[nn.Module, Inputs]:
    """A module of the same state whose ``forward`` takes the random numbers that the model draws, and the inputs with such numbers.

    The numbers are standard ones, which the model's own means, deviations, bounds and probabilities are applied to; what it draws
    in evaluation mode counts. All but normal ones have their ranges. The model is run a few times, and restored.

    Raises ``NoRandomInputs`` for a compiled module, for sizes that may vary, for a model that draws none, or the same at every run, and
    for one that is not a function of them; and what the model itself raises.
    """
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise NoRandomInputs(f"{name} is compiled, and draws its numbers itself")
    if inputs.flexible:
        raise NoRandomInputs("sizes that may vary do not go with them: of what sizes they would be is not known")
    recorder = _Recorder()
    recorded = _returned(model, inputs, recorder, seed=2)
    draws = recorder.draws
    if not draws:
        raise NoRandomInputs(f"{name} draws no random numbers in evaluation mode, by functions that are known")
    if not _varies(model, inputs):
        raise NoRandomInputs(f"what {name} gives does not depend on the numbers that it draws")
    names = _names([draw.kind for draw, _ in draws], model, inputs)
    named: dict[str, tuple[Draw, Tensor]] = dict(zip(names, draws, strict=True))
    twin = twin_of(model)
    vars(twin)["forward"] = MethodType(_playing(model, inputs, {name: draw for name, (draw, _) in named.items()}), twin)
    vars(twin)[_DESCRIPTIONS] = {name: draw.description for name, (draw, _) in named.items()}
    given = _with_numbers(inputs, named)
    try:
        played = _returned(twin, given, seed=3)
    except Exception as error:
        raise NoRandomInputs(
            f"{name} does not run with its numbers as inputs: {type(error).__name__}: {error}"
        ) from error
    if not _are_same(recorded, played):
        raise NoRandomInputs(f"{name} draws numbers by other functions too, or in hooks of its own")
    return twin, given


def _with_numbers(inputs: Inputs, named: Mapping[str, tuple[Draw, Tensor]]) -> Inputs:
    """The inputs with numbers behind them, which have positions where all others do."""
    values = {name: value for name, (_, value) in named.items()}
    in_order = not inputs.kwargs
    keys: Sequence[str | int] = range(len(inputs.args), len(inputs.args) + len(values)) if in_order else [*values]
    spans = zip(keys, (draw.range for draw, _ in named.values()), strict=True)
    ranges: dict[str | int, tuple[float, float]] = {**inputs.ranges}
    ranges.update((key, span) for key, span in spans if span is not None)
    if in_order:
        return inputs._replace(args=(*inputs.args, *values.values()), ranges=ranges)
    return inputs._replace(kwargs={**inputs.kwargs, **values}, ranges=ranges)


def random_inputs_of(model: nn.Module) -> Mapping[str, str]:
    """The inputs that are random numbers, and what numbers each takes; none of a model that draws its own."""
    found: Mapping[str, str] = vars(model).get(_DESCRIPTIONS, {})
    return found


def _returned(
    model: nn.Module, inputs: Inputs, scope: AbstractContextManager[Any] | None = None, seed: int | None = None
) -> list[Tensor]:
    """The tensors that a run in evaluation mode returns, which changes nothing; ``scope`` is around it."""
    is_small = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) <= SMALL
    leaves = [] if is_small else pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    copies = [(tensor, tensor.detach().clone()) for tensor in ((*model.buffers(), *given) if not is_small else ())]
    try:
        with unchanged(model, inputs, values=is_small), torch.no_grad():
            for module in model.modules():
                # An overridden `train` may do anything.
                vars(module)["training"] = False
            with scope or nullcontext():
                if seed is not None:
                    torch.manual_seed(seed)
                returned = model(*inputs.args, **inputs.kwargs)
            return [leaf.detach().clone() for leaf in pytree.tree_leaves(returned) if isinstance(leaf, Tensor)]
    finally:
        for tensor, value in copies:
            # What cannot be compared or written to, sparse or expanded, no run has written to either.
            with torch.no_grad(), suppress(RuntimeError):
                if not torch.equal(tensor, value):
                    tensor.copy_(value)


def _varies(model: nn.Module, inputs: Inputs) -> bool:
    """Whether what a model gives depends on the seed: of few seeds, as samples of few kinds are often the same."""
    first = _returned(model, inputs, seed=0)
    return not all(_are_same(first, _returned(model, inputs, seed=seed), 0, 0) for seed in range(1, _SEEDS))


def _are_same(first: Sequence[Tensor], second: Sequence[Tensor], part: float = 1e-4, least: float = 1e-6) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.allclose(_wide(a), _wide(b), part, least, equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to_dense().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _names(kinds: Sequence[str], model: nn.Module, inputs: Inputs) -> Iterator[str]:
    """``random_normal``, ``random_uniform_2``: none that an argument has."""
    taken = {*inspect.signature(model.forward).parameters, *inputs.kwargs}
    for kind in kinds:
        yield _free(f"random_{kind}", taken, 2)


def _free(name: str, taken: set[str], start: int) -> str:
    """The name, or with the first number behind it that makes it another than those taken; it is taken then."""
    numbered = (f"{name}_{number}" for number in count(start))
    found = next(each for each in chain((name,), numbered) if each not in taken)
    taken.add(found)
    return found


def _positional(model: nn.Module, inputs: Inputs) -> list[str]:
    """Names of the arguments that have positions; those of ``*args`` are ``args_0``, ``args_1``."""
    parameters = inspect.signature(model.forward).parameters
    taken = {*parameters}
    names: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names.extend(_free(f"{name}_{at}", taken, 0) for at in range(len(inputs.args) - len(names)))
        names.append(name)
    return names[: len(inputs.args)]


def _playing(model: nn.Module, inputs: Inputs, draws: Mapping[str, Draw]) -> Callable[..., Any]:
    """A ``forward`` that takes the arguments of the example and the numbers, and draws none."""
    base = function_of(model)
    positional = _positional(model, inputs)
    # A trace binds keywords to parameters that have positions too.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    taken = inspect.Signature([inspect.Parameter(name, kind) for name in (*positional, *inputs.kwargs, *draws)])

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        bound = taken.bind(*args, **kwargs)
        first = [bound.arguments[name] for name in positional]
        rest = {name: bound.arguments[name] for name in inputs.kwargs}
        with _Player([*draws.values()], [bound.arguments[name] for name in draws]) as player:
            returned = base(self, *first, **rest)
        player.end()
        return returned

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = taken.replace(parameters=[own, *taken.parameters.values()])  # type: ignore[attr-defined]
    return forward


# Random functions of PyTorch by draws of standard numbers.

_Drawn = Callable[..., Tensor]


def _sizes(sizes: Any) -> Sequence[Any]:
    """The sizes that a factory is given, each by itself or in one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, torch.Size)):
        return tuple(sizes[0])
    return tuple(sizes)


def _cast(value: Tensor, dtype: Any, device: Any = None) -> Tensor:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return value.to(dtype) if device is None else value.to(device, dtype)


def _of_sizes(kind: str) -> Callable[..., Any]:
    def function(drawn: _Drawn, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, **_: Any) -> Any:
        return _cast(drawn(kind, _sizes(sizes if size is None else (size,))), dtype, device)

    return function


def _like(kind: str) -> Callable[..., Any]:
    def function(drawn: _Drawn, tensor: Tensor, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
        return _cast(drawn(kind, tensor.shape), dtype or tensor.dtype, device or tensor.device)

    return function


def _randint(drawn: _Drawn, *given: Any, size: Any = None, dtype: Any = None, device: Any = None, **bounds: Any) -> Any:
    first = list(given)
    sizes = first.pop() if size is None else size
    return _integers(drawn, first, bounds, _sizes((sizes,)), dtype or torch.int64, device)


def _randint_like(
    drawn: _Drawn, tensor: Tensor, *given: Any, dtype: Any = None, device: Any = None, **bounds: Any
) -> Any:
    return _integers(drawn, list(given), bounds, tensor.shape, dtype or tensor.dtype, device or tensor.device)


def _integers(
    drawn: _Drawn, given: list[Any], named: Mapping[str, Any], sizes: Sequence[Any], dtype: Any, device: Any
) -> Any:
    """Integers of bounds that are given as ``high``, as ``low, high``, or by these names."""
    high = named["high"] if "high" in named else given.pop()
    low = given[0] if given else named.get("low", 0)
    return _cast(drawn(_INTEGERS, sizes, low, high), dtype, device)


def _randperm(drawn: _Drawn, n: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    return _cast(drawn(_UNIFORM, (n,)).argsort(), dtype or torch.int64, device)


def _normal(drawn: _Drawn, mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, dtype: Any = None, **_: Any) -> Any:
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    sizes = (tensors[0] + tensors[-1]).shape if size is None else _sizes((size,))
    return _cast(drawn(_NORMAL, sizes), tensors[0].dtype if tensors else dtype) * std + mean


def _bernoulli(drawn: _Drawn, tensor: Tensor, p: Any = None, **_: Any) -> Any:
    return (drawn(_UNIFORM, tensor.shape) < (tensor if p is None else p)).to(tensor.dtype)


def _multinomial(drawn: _Drawn, tensor: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Any:
    """The largest of weights divided by exponential numbers, as PyTorch has it without replacement."""
    if not replacement or num_samples == 1:
        value = drawn(_EXPONENTIAL, tensor.shape)
        return (tensor / value.to(tensor.dtype)).topk(num_samples, dim=-1).indices
    value = drawn(_EXPONENTIAL, (*tensor.shape[:-1], num_samples, tensor.shape[-1]))
    return (tensor.unsqueeze(-2) / value.to(tensor.dtype)).argmax(-1)


def _normal_(drawn: _Drawn, tensor: Tensor, mean: Any = 0.0, std: Any = 1.0, **_: Any) -> Any:
    return tensor.copy_(drawn(_NORMAL, tensor.shape) * std + mean)


def _uniform_(drawn: _Drawn, tensor: Tensor, *bounds: Any, to: Any = 1.0, **others: Any) -> Any:
    low, high = (*bounds, *(others.get("from", 0.0), to)[len(bounds) :])
    return tensor.copy_(drawn(_UNIFORM, tensor.shape) * (high - low) + low)


def _bernoulli_(drawn: _Drawn, tensor: Tensor, p: Any = 0.5, **_: Any) -> Any:
    return tensor.copy_(drawn(_UNIFORM, tensor.shape) < p)


def _exponential_(drawn: _Drawn, tensor: Tensor, lambd: Any = 1.0, **_: Any) -> Any:
    return tensor.copy_(drawn(_EXPONENTIAL, tensor.shape) / lambd)


def _gumbel_softmax(
    drawn: _Drawn, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    noise = -drawn(_EXPONENTIAL, logits.shape).log().to(logits.dtype)
    soft = ((logits + noise) / tau).softmax(dim)
    return functional.one_hot(soft.argmax(dim), logits.shape[dim]).movedim(-1, dim).to(soft.dtype) if hard else soft


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.randn: _of_sizes(_NORMAL),
    torch.rand: _of_sizes(_UNIFORM),
    torch.randn_like: _like(_NORMAL),
    torch.rand_like: _like(_UNIFORM),
    torch.randint: _randint,
    torch.randint_like: _randint_like,
    torch.randperm: _randperm,
    torch.normal: _normal,
    torch.bernoulli: _bernoulli,
    Tensor.bernoulli: _bernoulli,
    torch.multinomial: _multinomial,
    Tensor.multinomial: _multinomial,
    Tensor.normal_: _normal_,
    Tensor.uniform_: _uniform_,
    Tensor.bernoulli_: _bernoulli_,
    Tensor.exponential_: _exponential_,
    functional.gumbel_softmax: _gumbel_softmax,
}
"""How each is computed with numbers that are drawn."""

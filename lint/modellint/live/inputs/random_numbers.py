"""Random numbers that a model draws in `forward`, as inputs: sampled outside, so that a program can be compared with the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from modellint.live.inputs.constant_arguments import function_of, twin_of
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.snapshot import unchanged

if TYPE_CHECKING:
    from torch import nn

_NORMAL, _UNIFORM, _INTEGERS = "normal", "uniform", "integers"
_DESCRIPTIONS = "_random_inputs"
"""The attribute of a twin that says of each input which numbers it takes."""
SMALL = 256 * 1024**2
"""Bytes of parameters up to which their numbers are restored after the run that records."""


class Draw(NamedTuple):
    """What is asked of a generator of random numbers at once."""

    kind: str
    shape: tuple[int, ...]
    low: int = 0
    high: int = 0
    """Of integers: above the largest."""

    def sample(self) -> Tensor:
        """Numbers of the process's generator, float32 or int64."""
        if self.kind == _NORMAL:
            return torch.randn(self.shape, dtype=torch.float32)
        if self.kind == _UNIFORM:
            return torch.rand(self.shape, dtype=torch.float32)
        return torch.randint(self.low, self.high, self.shape, dtype=torch.int64)

    @property
    def description(self) -> str:
        """The distribution, in words."""
        if self.kind == _NORMAL:
            return "normal, of mean 0 and deviation 1"
        if self.kind == _UNIFORM:
            return "uniform, from 0 up to 1"
        return f"integers from {self.low} up to {self.high - 1}"

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds of what is drawn, the upper one excluded; None for normal numbers."""
        if self.kind == _NORMAL:
            return None
        return (0.0, 1.0) if self.kind == _UNIFORM else (self.low, self.high)


class _Generator(TorchFunctionMode):
    """Mode in which random functions of PyTorch compute with numbers that ``drawn`` gives."""

    def drawn(self, draw: Draw) -> Tensor:
        raise NotImplementedError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if "input" in given:
            args = (given.pop("input"), *args)
        function = _FUNCTIONS.get(func)
        if function is None or given.get("out") is not None:
            return func(*args, **given)
        value = function(self.drawn, *args, **given)
        return func(*args, **given) if value is NotImplemented else value


class _Recorder(_Generator):
    """Mode that keeps what is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[tuple[Draw, Tensor]] = []

    def drawn(self, draw: Draw) -> Tensor:
        value = draw.sample()
        self.draws.append((draw, value))
        return value


class _Player(_Generator):
    """Mode that gives numbers which were drawn before, one tensor for each draw of a recorded run."""

    def __init__(self, draws: Sequence[Draw], values: Sequence[Tensor]) -> None:
        super().__init__()
        self._left = zip(draws, values, strict=True)

    def drawn(self, draw: Draw) -> Tensor:
        known, value = next(self._left, (None, None))
        if known != draw or value is None:
            raise RuntimeError(
                f"the model draws {draw.kind} numbers of shape {draw.shape}, and drew {_told(known)} on the example: "
                "what it draws cannot be inputs"
            )
        return value


def _told(draw: Draw | None) -> str:
    return "no more" if draw is None else f"{draw.kind} ones of shape {draw.shape}"


def with_random_inputs(model: nn.Module, inputs: Inputs) -> tuple[nn.Module, Inputs]:
    """A module of the same state whose ``forward`` takes the random numbers that the model draws, and the inputs with such numbers.

    The numbers are standard ones, which the model's own means, deviations, bounds and probabilities are applied to; what it draws
    in evaluation mode counts. Uniform numbers and integers have their ranges. The model is run once, and restored.

    Raises:
        ValueError: For a compiled module, for sizes that may vary, and for a model that draws none.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"{type(model).__name__} is compiled, and draws its numbers itself")
    if inputs.flexible:
        raise ValueError("sizes that may vary do not go with them: of what sizes they would be is not known")
    draws = _recorded(model, inputs)
    if not draws:
        raise ValueError(
            f"{type(model).__name__} draws no random numbers in evaluation mode, by functions that are known"
        )
    names = _names([draw.kind for draw, _ in draws], model, inputs)
    named: dict[str, tuple[Draw, Tensor]] = dict(zip(names, draws, strict=True))
    twin = twin_of(model)
    vars(twin)["forward"] = MethodType(_playing(model, inputs, {name: draw for name, (draw, _) in named.items()}), twin)
    vars(twin)[_DESCRIPTIONS] = {name: draw.description for name, (draw, _) in named.items()}
    values = {name: value for name, (_, value) in named.items()}
    # Behind arguments that all have positions, numbers have positions too.
    in_order = not inputs.kwargs
    keys: Sequence[str | int] = range(len(inputs.args), len(inputs.args) + len(values)) if in_order else [*values]
    spans = zip(keys, (draw.range for draw, _ in named.values()), strict=True)
    ranges: dict[str | int, tuple[float, float]] = {**inputs.ranges}
    ranges.update((key, span) for key, span in spans if span is not None)
    if in_order:
        return twin, inputs._replace(args=(*inputs.args, *values.values()), ranges=ranges)
    return twin, inputs._replace(kwargs={**inputs.kwargs, **values}, ranges=ranges)


def random_inputs_of(model: nn.Module) -> Mapping[str, str]:
    """The inputs that are random numbers, and what numbers each takes; none of a model that draws its own."""
    found: Mapping[str, str] = vars(model).get(_DESCRIPTIONS, {})
    return found


def _recorded(model: nn.Module, inputs: Inputs) -> list[tuple[Draw, Tensor]]:
    """What a run in evaluation mode draws."""
    weight = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    recorder = _Recorder()
    with unchanged(model, inputs, values=weight <= SMALL), torch.no_grad():
        for module in model.modules():
            # An overridden `train` may do anything.
            vars(module)["training"] = False
        with recorder:
            model(*inputs.args, **inputs.kwargs)
    return recorder.draws


def _names(kinds: Sequence[str], model: nn.Module, inputs: Inputs) -> Iterator[str]:
    """``random_normal``, ``random_uniform_2``: none that an argument has."""
    taken = {*inspect.signature(model.forward).parameters, *inputs.kwargs}
    for kind in kinds:
        numbers = count(2)
        name = f"random_{kind}"
        while name in taken:
            name = f"random_{kind}_{next(numbers)}"
        taken.add(name)
        yield name


def _positional(model: nn.Module, inputs: Inputs) -> list[str]:
    """Names of the arguments that have positions; those of ``*args`` are ``args_0``, ``args_1``."""
    names: list[str] = []
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names.extend(f"{name}_{at}" for at in range(len(inputs.args) - len(names)))
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
        values = [bound.arguments.pop(name) for name in draws]
        with _Player([*draws.values()], values):
            first = [bound.arguments[name] for name in positional]
            return base(self, *first, **{name: bound.arguments[name] for name in inputs.kwargs})

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = taken.replace(parameters=[own, *taken.parameters.values()])  # type: ignore[attr-defined]
    return forward


# Random functions of PyTorch by draws of standard numbers.

_Drawn = Callable[[Draw], Tensor]


def _shape(sizes: Any) -> tuple[int, ...]:
    """The sizes that a factory is given, each by itself or in one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, torch.Size)):
        sizes = sizes[0]
    return tuple(map(int, sizes))


def _cast(value: Tensor, dtype: Any, device: Any = None) -> Tensor:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return value.to(dtype) if device is None else value.to(device, dtype)


def _of_sizes(kind: str) -> Callable[..., Any]:
    def function(drawn: _Drawn, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, **_: Any) -> Any:
        return _cast(drawn(Draw(kind, _shape(sizes if size is None else (size,)))), dtype, device)

    return function


def _like(kind: str) -> Callable[..., Any]:
    def function(drawn: _Drawn, tensor: Tensor, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
        return _cast(drawn(Draw(kind, _shape((tensor.shape,)))), dtype or tensor.dtype, device or tensor.device)

    return function


def _randint(
    drawn: _Drawn,
    *given: Any,
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    **_: Any,
) -> Any:
    bounds = list(given)
    if size is None:
        size = bounds.pop()
    if len(bounds) == 2:
        low, high = bounds
    elif bounds:
        (high,) = bounds
    return _integers(drawn, low, high, (size,), dtype, device)


def _randint_like(
    drawn: _Drawn,
    tensor: Tensor,
    *bounds: Any,
    low: Any = 0,
    high: Any = None,
    dtype: Any = None,
    device: Any = None,
    **_: Any,
) -> Any:
    if len(bounds) == 2:
        low, high = bounds
    elif bounds:
        (high,) = bounds
    return _integers(drawn, low, high, (tensor.shape,), dtype or tensor.dtype, device or tensor.device)


def _integers(drawn: _Drawn, low: Any, high: Any, sizes: Any, dtype: Any, device: Any) -> Any:
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return NotImplemented
    return _cast(drawn(Draw(_INTEGERS, _shape(sizes), low, high)), dtype or torch.int64, device)


def _randperm(drawn: _Drawn, n: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    return _cast(drawn(Draw(_UNIFORM, (int(n),))).argsort(), dtype or torch.int64, device)


def _normal(drawn: _Drawn, mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, dtype: Any = None, **_: Any) -> Any:
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    if size is None:
        size = tuple((tensors[0] + tensors[-1]).shape)
    value = _cast(drawn(Draw(_NORMAL, _shape((size,)))), tensors[0].dtype if tensors else dtype)
    return value * std + mean


def _bernoulli(drawn: _Drawn, tensor: Tensor, p: Any = None, **_: Any) -> Any:
    value = drawn(Draw(_UNIFORM, _shape((tensor.shape,))))
    return (value < (tensor if p is None else p)).to(tensor.dtype)


_LEAST = 2.0**-24
"""The least of uniform numbers in float32 that is not 0, of which a logarithm is infinite."""


def _exponential(value: Tensor) -> Tensor:
    """Exponentially distributed numbers of rate 1, by uniform ones."""
    return -value.clamp_min(_LEAST).log()


def _multinomial(drawn: _Drawn, tensor: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Any:
    """The smallest of exponential numbers divided by the weights, as PyTorch has it without replacement."""
    if not replacement or num_samples == 1:
        value = drawn(Draw(_UNIFORM, _shape((tensor.shape,))))
        return (tensor / _exponential(value).to(tensor.dtype)).topk(num_samples, dim=-1).indices
    value = drawn(Draw(_UNIFORM, (*_shape((tensor.shape[:-1],)), num_samples, int(tensor.shape[-1]))))
    return (tensor.unsqueeze(-2) / _exponential(value).to(tensor.dtype)).argmax(-1)


def _normal_(drawn: _Drawn, tensor: Tensor, mean: Any = 0.0, std: Any = 1.0, **_: Any) -> Any:
    return tensor.copy_(drawn(Draw(_NORMAL, _shape((tensor.shape,)))) * std + mean)


def _uniform_(drawn: _Drawn, tensor: Tensor, *bounds: Any, to: Any = 1.0, **others: Any) -> Any:
    low, high = (*bounds, *(others.get("from", 0.0), to)[len(bounds) :])
    return tensor.copy_(drawn(Draw(_UNIFORM, _shape((tensor.shape,)))) * (high - low) + low)


def _bernoulli_(drawn: _Drawn, tensor: Tensor, p: Any = 0.5, **_: Any) -> Any:
    return tensor.copy_(drawn(Draw(_UNIFORM, _shape((tensor.shape,)))) < p)


def _exponential_(drawn: _Drawn, tensor: Tensor, lambd: Any = 1.0, **_: Any) -> Any:
    return tensor.copy_(_exponential(drawn(Draw(_UNIFORM, _shape((tensor.shape,))))) / lambd)


def _gumbel_softmax(
    drawn: _Drawn, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    noise = -_exponential(drawn(Draw(_UNIFORM, _shape((logits.shape,))))).log().to(logits.dtype)
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

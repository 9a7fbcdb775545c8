"""Chain: a function that calls the stages of a pipeline, as a module of its own that can be compared like any other."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.reference_runs import Reference, Row, copied_inputs, mapped
from modellint.destinations.comparison.rounding_tolerance import UNSURE
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.comparison.tensor_difference import error_over_scale
from modellint.live.inputs.model_inputs import Inputs

_OF_DATA = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "state_dict"})
"""Methods of a module that compute nothing, by which a chain may ask for types and devices."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

StageFunction: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
"""What runs a stage, with positional and keyword arguments."""


class ChainError(Exception):
    """A chain that cannot be compared; the message says why."""


class Call(NamedTuple):
    """A call of a stage, and what came of it."""

    stage: str
    inputs: Inputs
    outputs: list[Tensor]
    """Flat."""
    leaves: list[Any]
    """What was returned, flat, with all that is no tensor."""
    structure: Any
    """How `pytree` puts that together."""

    def returning(self, tensors: Sequence[Tensor]) -> Any:
        """The same structure with other tensors, each of the type and the rank that this call's has."""
        values = iter(tensors)
        leaves = [_like(next(values), leaf) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        return pytree.tree_unflatten(leaves, self.structure)


class StageProxy:
    """A stage as a chain sees it: it is called, and its plain attributes are the module's.

    Methods of the module are refused, as they would run PyTorch where a package is meant.

    Args:
        name: Of the stage.
        module: Whose attributes it has.
        call: What a call runs, with the positional and the keyword arguments.
    """

    def __init__(self, name: str, module: nn.Module, call: StageFunction) -> None:
        self._name = name
        self._module = module
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the stage returns."""
        return self._call(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name in ("eval", "train", "to"):
            return lambda *args, **kwargs: self
        if callable(value) and name not in _OF_DATA:
            raise ChainError(
                f"the chain asks for {self._name}.{name}, which is not what is exported: call {self._name}(…), and make what else it "
                "calls a stage of its own"
            )
        return value


class Chain(nn.Module):
    """A function of stages, with the modules as what it calls.

    Args:
        function: Takes stages by the names of its parameters, in ``**`` all that it does not name, and returns tensors.
        stages: The modules, by name.
        inputs: What it is called with beside them; only which there are counts here.
        seed: Where random numbers start that it draws.

    Raises:
        ChainError: Where its parameters are no stages, and nothing else is given for them.
    """

    def __init__(
        self, function: Callable[..., Any], stages: Mapping[str, nn.Module], inputs: Inputs, seed: int = 0
    ) -> None:
        super().__init__()
        self.function = function
        self.name = getattr(function, "__name__", "") or type(function).__name__
        self.seed = seed
        self._names = tuple(stages)
        for name, module in stages.items():
            # A module list has attributes of its own, which a stage may be called like.
            self.add_module(f"stage_{name}", module)
        self.taken = taken_stages(function, self._names, inputs)

    @property
    def stages(self) -> dict[str, nn.Module]:
        """The modules, by name."""
        modules = dict(self.named_children())
        return {name: modules[f"stage_{name}"] for name in self._names}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns with PyTorch's modules."""
        calls = {name: partial(_of_module, module) for name, module in self.stages.items()}
        return self.called(calls, Inputs(args, kwargs))

    def called(self, calls: Mapping[str, StageFunction], inputs: Inputs) -> Any:
        """What the function returns with these calls in the place of the stages. Raises whatever it raises, and ``ChainError``."""
        stages = self.stages
        proxies = {name: StageProxy(name, stages[name], calls[name]) for name in self.taken}
        with sown(self.seed):
            returned = self.function(*inputs.args, **proxies, **inputs.kwargs)
        if not any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(returned)):
            raise ChainError(f"{self.name} returns no tensor: return what is to be compared")
        return returned


def _of_module(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return module(*args, **kwargs)


def taken_stages(function: Callable[..., Any], stages: Sequence[str], inputs: Inputs) -> tuple[str, ...]:
    """The stages that a function takes. Raises ``ChainError`` for parameters that nothing is given for."""
    name = getattr(function, "__name__", "the chain")
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise ChainError(f"the parameters of {name} are not known: let it be a function of Python") from None
    kinds = {parameter.kind for parameter in parameters.values()}
    taken = [
        stage
        for stage in stages
        if inspect.Parameter.VAR_KEYWORD in kinds or (stage in parameters and parameters[stage].kind in _NAMED)
    ]
    known = ", ".join(stages)
    if not taken:
        raise ChainError(f"{name} takes none of the stages: let its parameters be called like them ({known})")
    if set(taken) & set(inputs.kwargs):
        raise ChainError(f"an input is called like a stage: {', '.join(sorted(set(taken) & set(inputs.kwargs)))}")
    positional = [
        key
        for key, parameter in parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ][: len(inputs.args)]
    if set(positional) & set(taken):
        raise ChainError(f"{name} takes stages before its inputs: give its inputs by name")
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and key not in (*taken, *positional, *inputs.kwargs)
    ]
    if missing:
        raise ChainError(
            f"{name} takes {missing[0]!r}, which is no stage ({known}), and no input is given for it: --input {missing[0]}=SPEC"
        )
    unknown = [key for key in inputs.kwargs if key not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds]
    if unknown:
        raise ChainError(f"{name} takes no {unknown[0]!r}, but {', '.join(parameters)}")
    return tuple(taken)


class ChainReference(Reference):
    """A chain in PyTorch, whose runs in double precision count only where they draw the same random numbers."""

    def in_double(self, inputs: Inputs | Row, count: int = 1) -> list[Tensor] | None:
        """The outputs in double precision; None where the chain does not run so, or draws other numbers."""
        outputs = super().in_double(inputs, count)
        if outputs is None:
            return None
        right = self.steps(inputs, count)[-1]
        if len(outputs) != len(right) or any(
            error_over_scale(output, expected) > UNSURE
            for output, expected in zip(outputs, right, strict=True)
            if expected.is_floating_point()
        ):
            return None
        return outputs


def recorded(chain: Chain, inputs: Inputs) -> tuple[list[Call], list[Tensor]]:
    """The calls of a chain with PyTorch's modules, in their order, and the tensors that it returns, flat.

    The modules are left as they were. Raises whatever the function raises, and ``ChainError``.
    """
    calls: list[Call] = []

    def noting(name: str, module: nn.Module) -> StageFunction:
        def called(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            # A package knows no strides, and coremltools takes none but the usual.
            args_passed, kwargs_passed = mapped((args, dict(kwargs)), lambda leaf: leaf.detach().clone().contiguous())
            passed = Inputs(args_passed, kwargs_passed)
            returned = module(*args, **kwargs)
            leaves, structure = pytree.tree_flatten(returned)
            outputs = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, Tensor)]
            if not outputs:
                raise ChainError(f"{name} returns no tensor that is seen, but {type(returned).__name__}")
            calls.append(Call(name, passed, outputs, leaves, structure))
            return returned

        return called

    with at_rest(chain, inputs):
        returned = chain.called(
            {name: noting(name, module) for name, module in chain.stages.items()}, copied_inputs(inputs)
        )
        leaves = [leaf.detach().clone() for leaf in pytree.tree_leaves(returned) if isinstance(leaf, Tensor)]
    if not calls:
        raise ChainError(f"{chain.name} calls none of its stages")
    return calls, leaves


@contextmanager
def sown(seed: int) -> Iterator[None]:
    """Random numbers of torch, Python and numpy from a seed on; those of the caller go on afterwards as if none were drawn."""
    numpy = sys.modules.get("numpy")
    before = random.getstate(), None if numpy is None else numpy.random.get_state()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(before[0])
            if numpy is not None:
                numpy.random.set_state(before[1])


def _like(value: Tensor, right: Tensor) -> Tensor:
    """A package's tensor as a chain gets it in the place of PyTorch's."""
    shaped = value.reshape(right.shape) if value.numel() == right.numel() == 1 else value
    return shaped.to(right.dtype)

"""PyTorch's side of a comparison: a model run again and again from the same state."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.coreml.dryrun import at_rest

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.subject import Inputs

STEPS = 3
"""Predictions in a row on which a model with a state is compared."""
NUDGE = 3e-7
"""How much rounding changes a number of float32, relative to it."""
_DROPOUT = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_dropout",
    "feature_alpha_dropout",
)


class Raised(Exception):
    """The model raises on these inputs; the message is its own."""


class Changed(NamedTuple):
    """A piece of state that a run changed."""

    module: str
    attribute: str


class Reference:
    """A model in evaluation mode that every run finds as it was, down to running averages and random generators."""

    def __init__(self, model: nn.Module, seed: int = 0) -> None:
        self.model = model
        self.seed = seed
        self.drops = True
        """Whether dropout that is on in evaluation mode drops."""
        self.paths: tuple[str, ...] = ()
        """Where each output was in what the last run returned."""

    def __call__(self, inputs: Inputs, seed: int = 0) -> list[Tensor]:
        """The outputs of one run, flat. Raises ``Raised``."""
        return self.steps(inputs, 1, seed)[0]

    def steps(self, inputs: Inputs, count: int, seed: int = 0) -> list[list[Tensor]]:
        """The outputs of several runs in a row, each of which finds what the one before left. Raises ``Raised``."""
        found: list[list[Tensor]] = []
        with self.restored(inputs), _Without() if not self.drops else _nothing():
            self._sow(seed)
            found.extend(self._run(inputs) for _ in range(count))
        return found

    @contextmanager
    def restored(self, inputs: Inputs) -> Iterator[None]:
        """The model in evaluation mode; on leaving it is as it was."""
        with at_rest(self.model, inputs):
            yield

    def _sow(self, seed: int) -> None:
        torch.manual_seed(self.seed + seed)
        random.seed(self.seed + seed)

    def _run(self, inputs: Inputs) -> list[Tensor]:
        args, kwargs = copied((inputs.args, dict(inputs.kwargs)))
        try:
            made = self.model(*args, **kwargs)
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            raise Raised(f"{type(error).__name__}: {text}" if text else type(error).__name__) from error
        found = [(path, leaf) for path, leaf in pytree.tree_leaves_with_path(made) if isinstance(leaf, Tensor)]
        self.paths = tuple(pytree.keystr(path) for path, _ in found)
        # What is returned may be a buffer that the next run writes to.
        return [leaf.detach().clone() for _, leaf in found]

    def changed(self, inputs: Inputs) -> list[Changed]:
        """The attributes, of registered modules, that a run leaves other than it found them. Raises ``Raised``."""
        found = []
        with self.restored(inputs):
            before = {
                (path, name): (value, value.clone() if isinstance(value, Tensor) else None)
                for path, module in self.model.named_modules()
                for name, value in _attributes(module)
            }
            self._sow(0)
            self._run(inputs)
            for path, module in self.model.named_modules():
                for name, value in _attributes(module):
                    known, kept = before.get((path, name), (None, None))
                    if isinstance(value, Tensor) and kept is not None:
                        if value.shape != kept.shape or not torch.equal(value, kept):
                            found.append(Changed(path, name))
                    elif type(value) is not type(known) or value != known:
                        found.append(Changed(path, name))
        return found

    def noise(
        self, inputs: Inputs, outputs: Sequence[Tensor], count: int = 1, draws: int = 1, size: float = NUDGE
    ) -> list[float]:
        """For each output of the last of ``count`` runs how far float32 itself is from the truth.

        That is its largest change in ``draws`` runs whose inputs change by about ``size`` of their numbers, and its distance
        from the model in float64, where that can be run.
        """
        found = [0.0] * len(outputs)
        for draw in range(draws + 1):
            try:
                others = self._in_double(inputs, count) if draw == draws else self._nudged(inputs, count, draw, size)
            except Exception:
                continue
            if len(others) == len(outputs):
                for at, (one, other) in enumerate(zip(outputs, others, strict=True)):
                    if one.shape == other.shape and one.numel():
                        both = one.isfinite() & other.isfinite()
                        errors = (one.to(torch.float64) - other.to(torch.float64)).abs()[both]
                        found[at] = max(found[at], float(errors.max()) if errors.numel() else 0.0)
        return found

    def _nudged(self, inputs: Inputs, count: int, draw: int, size: float) -> list[Tensor]:
        return self.steps(nudged(inputs, draw, size), count)[-1]

    def _in_double(self, inputs: Inputs, count: int) -> list[Tensor]:
        if count > 1:
            # What is written to the state would be lost.
            return []
        state = {
            name: tensor.double() if tensor.is_floating_point() else tensor.clone()
            for name, tensor in (*self.model.named_parameters(), *self.model.named_buffers())
        }
        args, kwargs = mapped(
            (inputs.args, dict(inputs.kwargs)), lambda leaf: leaf.double() if leaf.is_floating_point() else leaf.clone()
        )
        with self.restored(inputs), _Without() if not self.drops else _nothing():
            self._sow(0)
            made = torch.func.functional_call(self.model, state, args, kwargs)
            return [leaf.detach().clone() for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]


def nudged(inputs: Inputs, seed: int = 0, size: float = NUDGE) -> Inputs:
    """The inputs with floats changed by about the rounding of float32, or another share of them."""
    draw = torch.Generator().manual_seed(seed)

    def nudge(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        return leaf * (1 + size * torch.randn(leaf.shape, generator=draw)).to(leaf.dtype)

    args, kwargs = mapped((inputs.args, dict(inputs.kwargs)), nudge)
    return inputs._replace(args=args, kwargs=kwargs)


def mapped(held: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nest with other tensors."""
    return pytree.tree_map(lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf, held)


def copied(held: Any) -> Any:
    """The same nest with copies of its tensors: a model may write to its inputs."""
    return mapped(held, lambda leaf: leaf.detach().clone())


def copied_inputs(inputs: Inputs) -> Inputs:
    """Inputs that may be written to."""
    args, kwargs = copied((inputs.args, dict(inputs.kwargs)))
    return inputs._replace(args=args, kwargs=kwargs)


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
        if name != "training" and isinstance(value, (Tensor, int, float, str, bool)):
            yield name, value


@contextmanager
def _nothing() -> Iterator[None]:
    yield


class _Without(TorchFunctionMode):
    """Dropout does nothing, as in what coremltools makes of it."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").rstrip("_") in _DROPOUT:
            return args[0] if args else (kwargs or {})["input"]
        return function(*args, **(kwargs or {}))

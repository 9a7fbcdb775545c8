"""Tracing by `torch.jit.trace`: where Python asks tensors for numbers then, and whether the trace holds on other inputs."""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.live.analysis_cache import analysis
from modellint.live.capture.fake_tensor_run import REAL_LIMIT
from modellint.live.capture.recording import weight_of
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.inputs.variants import variants
from modellint.live.snapshot import unchanged
from modellint.live.subject import Subject
from modellint.results.diagnostic import Place

TAKING = frozenset(
    {
        *("__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "item", "tolist", "numpy"),
        *("__array__", "equal", "allclose", "is_nonzero"),
    }
)
"""Functions and methods of torch that give Python or NumPy what a tensor holds."""
_CLOSE = 1e-4


class Traced(NamedTuple):
    """What one trace of a model showed."""

    calls: frozenset[tuple[str, Place | None]]
    """The functions of ``TAKING`` that were called, and the user's statements that did."""
    differs_on: str | None
    """Inputs on which the trace gives something else than the model, as ``variants`` calls them; None where none was found."""


def is_affordable(subject: Subject) -> bool:
    """Whether the model may be run on real tensors, more than once."""
    weight = weight_of(subject)
    return weight is not None and weight <= REAL_LIMIT


@contextmanager
def in_evaluation(subject: Subject) -> Iterator[None]:
    """The real model in evaluation mode without gradients and without a word; on leaving everything is as it was."""
    with (
        warnings.catch_warnings(),
        torch.no_grad(),
        unchanged(subject.model, subject.inputs, values=True),
    ):
        warnings.simplefilter("ignore")
        for module in subject.model.modules():
            # An overridden `train` may do anything.
            vars(module)["training"] = False
        yield


def outputs_of(model: Callable[..., Any], inputs: Inputs, seed: int = 0) -> list[Tensor]:
    """The tensors that a model returns, flat, each a copy."""
    torch.manual_seed(seed)
    random.seed(seed)
    args, kwargs = pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf,
        (tuple(inputs.args), {**inputs.kwargs}),
    )
    outputs = model(*args, **kwargs)
    return [leaf.detach().clone() for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]


def agree(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Whether two lists of outputs are the same but for rounding."""
    return len(first) == len(second) and all(map(_agree, first, second))


def _agree(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not first.is_floating_point() or not first.numel():
        return torch.equal(first, second)
    finite = first[first.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(first, second, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True)


@analysis
def traced(subject: Subject) -> Traced | None:
    """What a trace of the model shows; None where there can be none."""
    if subject.inputs is None or not is_affordable(subject):
        return None
    inputs = subject.inputs
    leaves, tree = pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))
    flat = _Flat(subject.model, leaves, tree)
    watch = _Watch(subject)
    with in_evaluation(subject):
        try:
            torch.manual_seed(0)
            trace: Any = torch.jit.trace
            with watch:
                program = trace(flat, tuple(flat.tensors), check_trace=False, strict=False)
        except (Exception, SystemExit):
            return None
    return Traced(frozenset(watch.calls), _departing(subject, flat, program))


def _departing(subject: Subject, flat: _Flat, program: Any) -> str | None:
    inputs = subject.inputs
    assert inputs is not None
    for case in list(variants(inputs))[1:]:
        leaves = pytree.tree_leaves((tuple(case.inputs.args), dict(case.inputs.kwargs)))
        with in_evaluation(subject):
            try:
                wanted = outputs_of(subject.model, case.inputs)
            except (Exception, SystemExit):
                continue
        with in_evaluation(subject):
            try:
                torch.manual_seed(0)
                tensors = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, Tensor)]
                if not agree(wanted, [output.detach().clone() for output in program(*tensors)]):
                    return case.label
            except (Exception, SystemExit):
                return case.label
    return None


class _Flat(nn.Module):
    """A model that takes and returns tensors only, whatever its own arguments and results are."""

    def __init__(self, model: nn.Module, leaves: list[Any], tree: Any) -> None:
        super().__init__()
        self.model = model
        self.leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self.places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.tree = tree
        vars(self)["training"] = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Call the model as its example is given."""
        leaves = list(self.leaves)
        for at, tensor in zip(self.places, tensors, strict=True):
            leaves[at] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        outputs = self.model(*args, **kwargs)
        return tuple(leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor))


class _Watch(TorchFunctionMode):
    """Notes where Python takes something out of a tensor."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self._project = subject.project
        self._thread = threading.get_ident()
        self.calls: set[tuple[str, Place | None]] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in TAKING and threading.get_ident() == self._thread:
            self.calls.add((name, self._project.place_of(sys._getframe(1))))
        return func(*args, **(kwargs or {}))

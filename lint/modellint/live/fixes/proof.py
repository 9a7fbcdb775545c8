"""Proof of a fix: equal outputs and gradients of the changed model, on the sample and on other inputs."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from modellint.live.capture.recording import eager
from modellint.live.fixes.candidate_fix import BIT_EQUAL
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.inputs.variants import Case, variants
from modellint.live.snapshot import unchanged

SMALL = 256 * 1024**2
"""Bytes of state up to which the numbers are kept and restored, where a run may write to them."""
MOST_ULPS = 256
"""How far rounding may take results apart, in units in the last place of the output's largest magnitude."""
_MARGIN = 4
"""How many times further than what was seen another input may be off."""
_WITH_GRADIENTS = 2
"""How many of the inputs gradients are compared on."""
_FAST, _SLOW = 0.2, 2.0
"""Seconds of a run up to which it is run on all inputs, and up to which on three."""


class Observed(NamedTuple):
    """What one run shows."""

    outputs: tuple[Any, ...]
    form: Any
    """How the outputs are nested."""
    error: str = ""
    """Why there are none."""
    gradients: Mapping[object, Tensor | None] = {}
    """Of some outputs' sum those by the inputs, by position, and by parameters, by identity."""


class Proof:
    """What a model shows on several inputs, to be compared with what it shows once it is changed."""

    def __init__(self, model: nn.Module, inputs: Inputs, parameters: Iterable[Tensor]) -> None:
        self._parameters = tuple(parameter for parameter in parameters if parameter.requires_grad)
        began = time.perf_counter()
        run(model, inputs)
        taken = time.perf_counter() - began
        count = None if taken < _FAST else 3 if taken < _SLOW else 2
        self._cases: list[Case] = list(itertools.islice(_cases(inputs), count))
        self.reference = self._observed(model)

    def _observed(self, model: nn.Module) -> list[Observed]:
        return [
            run(model, case.inputs, self._parameters if at < _WITH_GRADIENTS else None)
            for at, case in enumerate(self._cases)
        ]

    def exactness(self, model: nn.Module, *, rounds: bool = False) -> tuple[str, str]:
        """How equal the model is to what it was, or else an empty word, and why it is not."""
        farthest = 0.0
        present = {id(parameter) for parameter in model.parameters()}
        for at, (case, before) in enumerate(zip(self._cases, self.reference, strict=True)):
            after = run(model, case.inputs, self._parameters if at < _WITH_GRADIENTS else None)
            difference = _difference(before, after)
            if difference is None:
                return "", after.error or f"other outputs on {case.label}"
            if not rounds and difference:
                return "", f"the outputs differ on {case.label}"
            farthest = max(farthest, difference)
            named = _other_gradient(before.gradients, after.gradients, present)
            if named:
                return "", f"the gradient of {named} differs on {case.label}"
        if not farthest:
            return BIT_EQUAL, ""
        if farthest > MOST_ULPS:
            return "", f"the outputs differ by {farthest:.3g} units in the last place"
        return f"≤ {_MARGIN * 2 ** math.ceil(math.log2(max(farthest, 1)))} ulps", ""


def _cases(inputs: Inputs) -> Iterator[Case]:
    """The example, and other inputs as far as they can be made of it."""
    with contextlib.suppress(RuntimeError, TypeError, ValueError, NotImplementedError):
        yield from variants(inputs)


def run(model: nn.Module, inputs: Inputs, parameters: Sequence[Tensor] | None = None) -> Observed:
    """One run from a fixed random state, which leaves the model as it was; with ``parameters`` the gradients too."""
    args, kwargs = _own((inputs.args, dict(inputs.kwargs)), parameters is not None)
    with at_rest(model):
        torch.manual_seed(0)
        random.seed(0)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(0)
        try:
            with torch.set_grad_enabled(parameters is not None):
                leaves, form = pytree.tree_flatten(model(*args, **kwargs))
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            return Observed((), None, f"{type(error).__name__}: {text}" if text else type(error).__name__)
        gradients = {} if parameters is None else _gradients(leaves, (args, kwargs), parameters)
        # What is returned may be state that the next run writes to.
        outputs = tuple(leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves)
    return Observed(outputs, form, "", gradients)


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Restore on leaving what a run changes; what `torch.compile` has wrapped runs as it was written."""
    parameters = [tensor for tensor in model.parameters() if not is_lazy(tensor)]
    small = sum(tensor.numel() * tensor.element_size() for tensor in parameters) <= SMALL
    kept = [] if small else [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not is_lazy(buffer)]
    with unchanged(model, values=small), eager():
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in kept:
                    if not torch.equal(tensor, value):
                        tensor.copy_(value)


def _own(inputs: Any, needs_grad: bool) -> Any:
    """The same inputs in memory of their own."""

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        duplicate = leaf.detach().clone()
        return duplicate.requires_grad_() if needs_grad and duplicate.is_floating_point() else duplicate

    return pytree.tree_map(own, inputs)


def _gradients(outputs: Sequence[Any], arguments: Any, parameters: Sequence[Tensor]) -> dict[object, Tensor | None]:
    """Empty where the outputs have none."""
    draw = torch.Generator().manual_seed(0)
    total: Tensor | None = None
    for leaf in outputs:
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_floating_point():
            part = (leaf * torch.randn(leaf.shape, generator=draw).to(leaf)).sum()
            total = part if total is None else total + part.to(total)
    if total is None:
        return {}
    sources: dict[object, Tensor] = {id(parameter): parameter for parameter in parameters}
    inputs = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor) and leaf.requires_grad]
    sources.update((f"input {at}", leaf) for at, leaf in enumerate(inputs))
    try:
        gradients = torch.autograd.grad(total, list(sources.values()), allow_unused=True)
    except RuntimeError:
        return {}
    return dict(zip(sources, gradients, strict=True))


def is_same(first: Observed, second: Observed) -> bool:
    """Whether two runs gave equal outputs, to the bit."""
    return _difference(first, second) == 0.0


def _difference(before: Observed, after: Observed) -> float | None:
    """How far outputs are apart, in units in the last place of their largest magnitude; None where they are other ones."""
    if before.error or after.error:
        return 0.0 if before.error and after.error else None
    if before.form != after.form:
        return None
    farthest = 0.0
    for expected, actual in zip(before.outputs, after.outputs, strict=True):
        if not isinstance(expected, Tensor) or not isinstance(actual, Tensor):
            if isinstance(expected, Tensor) or isinstance(actual, Tensor):
                return None
            continue
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            return None
        if not same_bits(expected, actual):
            farthest = max(farthest, _ulps(expected, actual))
    return farthest


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors of one type and shape are equal to the bit, any NaN being any other."""
    if first.is_meta or first.layout is not torch.strided:
        return first.is_meta or torch.equal(first.to_dense(), second.to_dense())
    if first.is_complex():
        return same_bits(torch.view_as_real(first.resolve_conj()), torch.view_as_real(second.resolve_conj()))
    if not first.is_floating_point():
        return torch.equal(first, second)
    differ = first != second
    if bool((differ & ~(first.isnan() & second.isnan())).any()):
        return False
    return bool((first.signbit() == second.signbit())[~first.isnan()].all())


def _ulps(first: Tensor, second: Tensor) -> float:
    if first.is_complex():
        first, second = torch.view_as_real(first.resolve_conj()), torch.view_as_real(second.resolve_conj())
    if not first.is_floating_point() or bool((first.isfinite() != second.isfinite()).any()):
        return math.inf
    finite = first.isfinite()
    if not torch.equal(first[~finite].nan_to_num(0.0), second[~finite].nan_to_num(0.0)):
        return math.inf
    scale = float(first[finite].abs().max()) if bool(finite.any()) else 0.0
    apart = float((first[finite].double() - second[finite].double()).abs().max()) if bool(finite.any()) else 0.0
    info = torch.finfo(first.dtype)
    # Zeros of another sign are other bits.
    return max(apart / (info.eps * max(scale, info.smallest_normal)), 0.5)


def _other_gradient(
    before: Mapping[object, Tensor | None], after: Mapping[object, Tensor | None], present: set[int]
) -> str:
    """Which gradient has become another, beyond the rounding of its sum; those of parameters that are gone do not count."""
    for key, gradient in before.items():
        gradient_after = after.get(key)
        name = key if isinstance(key, str) else "a parameter"
        if gradient is None or (gradient_after is None and name != key and key not in present):
            continue
        if gradient_after is None or gradient.shape != gradient_after.shape:
            return name
        if gradient.layout is not torch.strided or not gradient.numel():
            continue
        finite = gradient.isfinite() & gradient_after.isfinite()
        largest = float(gradient[finite].abs().max()) if bool(finite.any()) else 0.0
        limit = math.sqrt(torch.finfo(gradient.dtype).eps) * largest
        if bool(((gradient - gradient_after).abs() > limit)[finite].any()):
            return name
    return ""

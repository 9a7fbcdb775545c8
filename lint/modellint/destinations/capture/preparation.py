"""Preparation of a model for capture: no fast path of attention, and outputs that are tensors."""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.distributions import Distribution
from torch.utils import _pytree as pytree

from modellint.destinations.capture import flexible_attention, packed_sequences
from modellint.destinations.capture.autograd_functions import forward_alone
from modellint.destinations.capture.complex_numbers.mode import (
    NOTE,
    ComplexAsPairs,
    is_written,
    without_complex_tensors,
)
from modellint.destinations.capture.complex_numbers.pair import is_complex
from modellint.destinations.capture.replaced_functions import Substituting, normalizing_in_operators, staying_in_place
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.live.capture.outputs import leaves_with_paths

if TYPE_CHECKING:
    from modellint.live.inputs.model_inputs import Inputs


class Prepared(NamedTuple):
    """How a model was prepared."""

    outputs: tuple[str, ...] = ()
    """The names of its outputs, where it returns them by name."""
    notes: tuple[str, ...] = ()
    """What the program does otherwise than the model."""
    is_idle: bool = False
    """Whether an export without it gives the same program, but for the form of outputs: there is nothing to prepare. A trace does too,
    if it has no fast path.
    """
    is_plain: bool = False
    """Whether the model returns tensors in the form that they are captured in."""
    has_fast_path: bool = False
    """Whether a trace without it may take the fast path of attention."""


_FAST = (nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""Layers with a fast path. `nn.MultiheadAttention` has one as well, and does not take it while `torch.export` runs it."""


@contextmanager
def prepared(
    model: nn.Module, inputs: Inputs, has_converter: Callable[[str], bool] = lambda name: False
) -> Iterator[Prepared]:
    """Turn off the fast path of attention, and let a model that returns anything but tensors return a tuple of them.

    ``has_converter`` says of operators that others registered which stay as they are.
    """
    with ExitStack() as stack:
        stack.enter_context(_without_fast_path())
        met = stack.enter_context(_without_idle_autocast())
        distributions = stack.enter_context(_without_validation())
        normalizing = stack.enter_context(normalizing_in_operators(model))
        moved = stack.enter_context(staying_in_place(model))
        functions = stack.enter_context(forward_alone(model))
        flexible = stack.enter_context(flexible_attention.as_products())
        outputs, done, substitutes = _run(model, inputs, stack, has_converter)
        is_fast = any(isinstance(layer, _FAST) for layer in model.modules())
        has_fast_path = is_fast or any(isinstance(layer, nn.MultiheadAttention) for layer in model.modules())
        is_idle = not (
            met or distributions or normalizing or moved or functions or flexible or done or substitutes or is_fast
        )
        if _is_plain(outputs):
            yield Prepared((), done, is_idle, True, has_fast_path)
            return
        leaves = leaves_with_paths(outputs)
        kept = [at for at, (_, value) in enumerate(leaves) if isinstance(value, torch.Tensor)]
        lost = [_name(path) for path, value in leaves if not isinstance(value, torch.Tensor) and value is not None]
        names = _distinct([_name(leaves[at][0]) for at in kept])
        notes = (*done, *(f"the output {name} is no tensor, and is left out" for name in lost))
        stack.enter_context(_returning(model, kept))
        by_name = not isinstance(outputs, (list, tuple)) or hasattr(outputs, "_fields")
        given = {id(leaf) for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))}
        is_idle &= len(leaves) == len({id(value) for _, value in leaves} - given) == len(kept)
        yield Prepared(tuple(names) if by_name else (), notes, is_idle, False, has_fast_path)


def _run(
    model: nn.Module, inputs: Inputs, stack: ExitStack, has_converter: Callable[[str], bool]
) -> tuple[Any, tuple[str, ...], bool]:
    """The outputs of a model, notes of what is substituted in it, and whether anything is: ``stack`` is left with that.

    Complex numbers are pairs of real ones, if the model gives none and all that is done to them is known.
    """
    substituting, pairs = Substituting(not inputs.flexible, has_converter), ComplexAsPairs(not inputs.flexible)

    def run(holds_pairs: bool = False) -> Any:
        # A capture is to begin where this did: what a first call keeps (rotary angles), it would take for constants. Pairs
        # cannot be copied.
        with nullcontext() if holds_pairs else at_rest(model, inputs):
            return model(*inputs.args, **inputs.kwargs)

    def alike(holds_pairs: bool = False) -> Any:
        try:
            return _with_loops_over_all(substituting, lambda: run(holds_pairs))
        except packed_sequences.Unknown:
            substituting.leave_packed()
            return _with_loops_over_all(substituting, lambda: run(holds_pairs))

    with ExitStack() as real:
        held = real.enter_context(without_complex_tensors(model))
        try:
            with pairs, substituting:
                outputs = alike(bool(held))
            is_done = not any(map(is_complex, pytree.tree_leaves(outputs))) and not any(map(is_written, held))
        except NotImplementedError:
            is_done = False
        in_pairs = is_done and pairs.was_used
        if in_pairs:
            stack.enter_context(real.pop_all())
            stack.enter_context(pairs)
            substituting.notes[NOTE] = None
    if not is_done:
        with substituting:
            outputs = alike()
    if substituting.was_used:
        stack.enter_context(substituting)
    return outputs, (*substituting.notes, *substituting.told_of_loops()), in_pairs or substituting.was_used


def _with_loops_over_all(substituting: Substituting, run: Callable[[], Any]) -> Any:
    """The outputs of a model whose loops over found places go over all of them, if it gives the same so; else as it is."""
    for substituting.spared in (0, 1):
        substituting.over_all = True
        try:
            outputs = run()
        except IndexError:
            # One class more than there are experts: the place of padding. Or the loop does something for all that it goes over.
            if not substituting.met_loops:
                raise
            continue
        if not substituting.met_loops:
            return outputs
        substituting.over_all = False
        own = run()
        substituting.over_all = _same(outputs, own)
        return own
    substituting.over_all = False
    return run()


def _same(left: Any, right: Any) -> bool:
    tensors = [[leaf for leaf in pytree.tree_leaves(side) if isinstance(leaf, torch.Tensor)] for side in (left, right)]
    return len(tensors[0]) == len(tensors[1]) and all(
        a.shape == b.shape and (torch.allclose(a, b, equal_nan=True) if a.is_floating_point() else torch.equal(a, b))
        for a, b in zip(*tensors, strict=True)
    )


@contextmanager
def _without_fast_path() -> Iterator[None]:
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)


@contextmanager
def _without_validation() -> Iterator[list[type]]:
    """Scope in which distributions do not ask whether their parameters and values are valid: no program asks, and a capture stops there.

    Yields the classes of those that would have.
    """
    made: list[type] = []
    with _VALIDATION:
        if not _SILENT:
            _ASKING.extend((Distribution.__init__, Distribution._validate_sample))
            Distribution.__init__, Distribution._validate_sample = _made, _valid  # type: ignore[method-assign]
        _SILENT.append(made)
    try:
        yield made
    finally:
        with _VALIDATION:
            _SILENT[:] = [each for each in _SILENT if each is not made]
            if not _SILENT:
                Distribution.__init__, Distribution._validate_sample = _ASKING  # type: ignore[method-assign]
                _ASKING.clear()


_VALIDATION = threading.Lock()
_SILENT: list[list[type]] = []
"""What each such scope has met, while there are any."""
_ASKING: list[Callable[..., Any]] = []
"""The functions of PyTorch that ask."""


def _made(self: Any, *shapes: Any, **named: Any) -> None:
    for met in _SILENT:
        met.append(type(self))
    _ASKING[0](self, *shapes[:2], **{**named, "validate_args": False})


def _valid(self: Any, value: Any) -> None:
    for met in _SILENT:
        met.append(type(self))


@contextmanager
def _without_idle_autocast() -> Iterator[list[str]]:
    """Scope in which autocast that changes nothing is not entered: it is off, or is another device's than the CPU's.

    Yields the devices of those that were met.

    `torch.export` makes a program of its own of what runs under it, and what that writes to buffers has no functional form.
    """
    kind = torch.amp.autocast_mode.autocast
    enter: Callable[..., Any] = kind.__enter__
    leave: Callable[..., Any] = kind.__exit__
    scopes = threading.local()
    met: list[str] = []

    def entering(self: Any) -> Any:
        is_idle = self.device != "cpu" or not (self._enabled or torch.is_autocast_enabled("cpu"))
        scopes.idle = [*getattr(scopes, "idle", ()), is_idle]
        met.extend([self.device] if is_idle else [])
        return self if is_idle else enter(self)

    def leaving(self: Any, *raised: Any) -> Any:
        # Another thread may have entered before this scope began.
        *scopes.idle, is_idle = getattr(scopes, "idle", None) or [False]
        return False if is_idle else leave(self, *raised)

    kind.__enter__, kind.__exit__ = entering, leaving  # type: ignore[method-assign]
    try:
        yield met
    finally:
        kind.__enter__, kind.__exit__ = enter, leave  # type: ignore[method-assign]


def _is_plain(outputs: Any) -> bool:
    if isinstance(outputs, torch.Tensor):
        return True
    return type(outputs) in (tuple, list) and bool(outputs) and all(isinstance(leaf, torch.Tensor) for leaf in outputs)


@contextmanager
def _returning(model: nn.Module, kept: list[int]) -> Iterator[None]:
    """Scope in which ``forward`` returns a tuple of tensors: those at the places ``kept`` of what it returns otherwise."""
    forward: Callable[..., Any] = model.forward
    own = "forward" in vars(model)

    @functools.wraps(forward)
    def flat(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        leaves = pytree.tree_leaves(forward(*args, **kwargs), is_leaf=_is_absent)
        given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs))}
        returned = []
        for leaf in (leaves[at] for at in kept):
            # An input that is returned as it is gets a name of its own as an output only behind an operation; so does an output
            # that is returned twice.
            returned.append(leaf.reshape(leaf.shape) if id(leaf) in given else leaf)
            given.add(id(leaf))
        return tuple(returned)

    # That of a method which stands in the class's place holds the model itself, too.
    flat.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    vars(model)["forward"] = flat
    try:
        yield
    finally:
        if own:
            vars(model)["forward"] = forward
        else:
            del vars(model)["forward"]


def _is_absent(value: Any) -> bool:
    return value is None


def _name(path: Any) -> str:
    text = "_".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path)
    text = re.sub(r"\W", "_", text) or "output"
    return f"output_{text}" if text[0].isdigit() else text


def apart(names: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Names of outputs that no input has (diffusers' `sample`): none may be called as one."""
    used, found = set(taken), []
    for name in names:
        while name in used:
            name += "_output"
        used.add(name)
        found.append(name)
    return tuple(found)


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct

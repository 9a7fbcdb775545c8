"""What has to be set aside while a model is captured, so that it is captured as something that converts."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from modellint.live.subject import Inputs


class Prepared(NamedTuple):
    """How a model was prepared."""

    outputs: tuple[str, ...] = ()
    """The names of its outputs, where it returns them by name."""
    notes: tuple[str, ...] = ()


@contextmanager
def prepared(model: nn.Module, inputs: Inputs) -> Iterator[Prepared]:
    """Turn off the fast path of attention, and let a model that returns anything but tensors return a tuple of them."""
    with ExitStack() as stack:
        stack.enter_context(_without_fast_path())
        with _Placed() as placed:
            given = model(*inputs.args, **inputs.kwargs)
        attends = any(isinstance(one, (nn.MultiheadAttention, nn.TransformerEncoderLayer)) for one in model.modules())
        fast = ("the fast path of attention is off",) if attends else ()
        if placed.count and not inputs.flexible:
            stack.enter_context(placed)
            fast = (*fast, "as_strided takes the elements by their places")
        if _is_plain(given):
            yield Prepared((), fast)
            return
        leaves = pytree.tree_flatten_with_path(given)[0]
        kept = [at for at, (_, value) in enumerate(leaves) if isinstance(value, torch.Tensor)]
        lost = [_name(path) for path, value in leaves if not isinstance(value, torch.Tensor) and value is not None]
        names = _distinct([_name(leaves[at][0]) for at in kept])
        notes = (
            *fast,
            "the outputs are a tuple of tensors",
            *(f"the output {name} is no tensor: left out" for name in lost),
        )
        stack.enter_context(_returning(model, kept))
        by_name = not isinstance(given, (list, tuple)) or hasattr(given, "_fields")
        yield Prepared(tuple(names) if by_name else (), notes)


class _Placed(TorchFunctionMode):
    """With ``as_strided`` as a selection of elements by their places.

    Where they lie in memory only the tensors themselves know: what is captured has their elements in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function not in (torch.as_strided, torch.Tensor.as_strided):
            return function(*args, **(kwargs or {}))
        self.count += 1
        return _at_places(*args, **(kwargs or {}))


def _at_places(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:  # noqa: A002
    """What ``as_strided`` gives. Raises ``NotImplementedError`` for elements that are not the tensor's own."""
    steps = [int(one) for one in input.stride()]
    begin = int(input.storage_offset())
    places = [0 if storage_offset is None else int(storage_offset) - begin]
    for length, step in zip(size, stride, strict=True):
        places = [place + at * int(step) for place in places for at in range(int(length))]
    # Outermost in memory first: of a tensor without gaps, the elements are then in the order of memory.
    axes = sorted((axis for axis in range(input.dim()) if input.shape[axis] != 1), key=lambda axis: -steps[axis])
    room = 1
    for axis in reversed(axes):
        if steps[axis] != room:
            raise NotImplementedError("as_strided of a tensor whose elements do not lie side by side")
        room *= int(input.shape[axis])
    if places and not 0 <= min(places) <= max(places) < room:
        raise NotImplementedError("as_strided reaches elements beyond its tensor")
    rest = [axis for axis in range(input.dim()) if axis not in axes]
    flat = input.permute([*rest, *axes]).reshape(-1)
    return flat.index_select(0, torch.tensor(places)).reshape([int(one) for one in size])


@contextmanager
def _without_fast_path() -> Iterator[None]:
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)


def _is_plain(given: Any) -> bool:
    if isinstance(given, torch.Tensor):
        return True
    return type(given) in (tuple, list) and bool(given) and all(isinstance(one, torch.Tensor) for one in given)


@contextmanager
def _returning(model: nn.Module, kept: list[int]) -> Iterator[None]:
    """With a ``forward`` that returns the tensors at these places of what it returned before, as a tuple."""
    forward: Callable[..., Any] = model.forward
    own = "forward" in vars(model)

    @functools.wraps(forward)
    def flat(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        leaves = pytree.tree_leaves(forward(*args, **kwargs), is_leaf=_is_absent)
        return tuple(leaves[at] for at in kept)

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


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found

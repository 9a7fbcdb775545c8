"""Substitution of functions that work in memory, in place or in Python, while a model is captured."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.destinations.capture import packed_sequences


class Substituting(TorchFunctionMode):
    """Mode in which functions that are captured as something else are replaced by equal ones that are not.

    Where elements lie in memory only the tensors themselves know, and what is captured has their elements in order: ``as_strided``
    and ``as_strided_scatter`` are taken for selections of elements by their places, where sizes are ``fixed``. An embedding that
    makes the rows that it reads as short as a limit, in place, is taken for one that gives such rows. A truth value given where
    a number is wanted, as in ``mask.scatter(1, places, False)``, is that number: a trace of it does not hold. Truth values in a list,
    as in ``x[:, [True, False]]``, are the places of those that are true: coreai-torch takes them for 1 and 0. An assignment behind an
    ellipsis names every dimension. Parts of no length are not joined to others. Packed
    sequences are padded rows. `.data` is a detached tensor. An operator that ``torch.library.custom_op`` made of a
    function in Python, for which there is no converter, is that function. A loop over the places that ``nonzero`` finds along one axis
    (the experts that some token is sent to) goes over all there are, while ``over_all`` says so: that what it does for the others is
    nothing, the example shows, and the comparison with the model on further inputs.
    """

    def __init__(self, fixed: bool, has_converter: Callable[[str], bool] = lambda name: False) -> None:
        super().__init__()
        self.fixed = fixed
        self._has_converter = has_converter
        self._written: dict[str, Callable[..., Any] | None] = {}
        """By the name of an operator the function that it is in Python; None where it stays."""
        self.notes: dict[str, None] = {}
        """What was done so far."""
        self.was_used = False
        """Whether anything was, noted or not."""
        self._packed = packed_sequences.PackedSequences()
        self._found: dict[int, tuple[Any, int]] = {}
        self._rows: dict[int, Any] = {}
        """What is found from such a loop on: the rows of one place."""
        self._takes_some = False
        """Whether the model asks how many of these there are."""
        self.over_all = True
        """Whether loops over found places go over all."""
        self.met_loops = False
        """Whether there was such a loop."""
        self.spared = 0
        """How many places at the end such a loop leaves out, as it raises there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.fixed and (computed := self._packed.called(function, args, kwargs)) is not NotImplemented:
            self.was_used = True
            self.notes[packed_sequences.NOTE] = None
            return computed
        if isinstance(function, _OPERATORS) and (written := self._in_python(function, args, kwargs)) is not None:
            self.was_used = True
            with self:
                return written(*args, **kwargs)
        if function in _NUMBERED and any(type(value) is bool for value in (*args[1:], kwargs.get(_NUMBERED[function]))):
            self.was_used = True
            args, kwargs = _numbered(function, args, kwargs)
        if function in _INDEXING and _is_chosen_by_list(args[1]):
            self.was_used = True
            args = (args[0], _by_places(args[1]), *args[2:])
        if function is torch.Tensor.__setitem__ and (spelled := _spelled_out(args[0], args[1])) is not None:
            self.was_used = True
            args = (args[0], spelled, *args[2:])
        if function in _JOINING and self.fixed and (left := _without_empty(*args, **kwargs)):
            self.was_used = True
            args = (left, *args[1:])
            kwargs = {name: value for name, value in kwargs.items() if name != "tensors"}
        if function == _DATA:
            # `weight.data[:, :n]`: an export loses where it comes from.
            self.was_used = True
            return args[0].detach()
        if function in _SELECTING and len(args) == 3 and args[2].dim() == 0:
            self.was_used = True
            args = (*args[:2], args[2].reshape(1))
        if function in _PLACED and self.fixed:
            self.was_used = True
            self.notes["as_strided takes the elements by their places"] = None
            return _PLACED[function](*args, **kwargs)
        if function is functional.embedding:
            limit, *rest = _limits(*args, **kwargs)
            if limit is not None:
                self.was_used = True
                self.notes["an embedding shortens the rows that it gives, and its weights stay as they are"] = None
                return _shortened(function(*args[:2]), limit, *rest)
        if function is torch.Tensor.__format__ and isinstance(args[0], FakeTensor) and args[0].constant is not None:
            # A module's name, as `self[f"expert_{index}"]`: what stands for a tensor in an export is written as no number.
            return format(args[0].constant, *args[1:])
        if function in _FINDING and self.fixed and not any(kwargs.values()) and args[0].dim() == 1:
            places = function(*args, **kwargs)
            # Kept with its address, which stands for it.
            self._found[id(places)] = places, int(args[0].shape[0])
            return places
        if function in _ROWS and self.met_loops and self.over_all and len(args) == 1:
            rows = function(*args, **kwargs)
            self._rows.update((id(part), part) for part in (rows if isinstance(rows, tuple) else (rows,)))
            return rows
        if function is torch.Tensor.numel and id(args[0]) in self._rows:
            self._takes_some = True
            return _some(function(*args))
        if (
            function is torch.Tensor.unbind
            and id(args[0]) in self._found
            and (*args[1:], *kwargs.values()) in ((), (0,))
        ):
            self.was_used = self.met_loops = True
            if self.over_all:
                # As constants, whose values a capture knows.
                return tuple(torch.tensor([place]) for place in range(self._found[id(args[0])][1] - self.spared))
        return function(*args, **kwargs)

    def _in_python(self, operator: Any, args: Any, kwargs: Any) -> Callable[..., Any] | None:
        """The function that an operator was made of, if that can be captured."""
        name = getattr(operator, "_qualified_op_name", None) or operator._schema.name
        if name not in self._written:
            # The first run is of tensors with values.
            function = None if self._has_converter(name) else _of_custom(name)
            is_captured = function is not None and _takes_fake_tensors(function, args, kwargs)
            self._written[name] = function if is_captured else None
            if is_captured:
                self.notes[f"{name} is what its function in Python computes"] = None
        return self._written[name]

    def leave_packed(self) -> None:
        """Leave packed sequences to PyTorch."""
        self._packed.is_left = True
        self.notes.pop(packed_sequences.NOTE, None)

    def told_of_loops(self) -> tuple[str, ...]:
        """A note of loops that go over all places."""
        if not (self.met_loops and self.over_all):
            return ()
        but = " but the last, at which it raises" if self.spared else ""
        told = (f"a loop over the places that nonzero finds goes over all places{but}",)
        return (
            (*told, "where it asks whether a mask found rows (`numel()`), it is taken that it did")
            if self._takes_some
            else told
        )


_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def _of_custom(name: str) -> Callable[..., Any] | None:
    """The function that `custom_op` was given for an operator on the CPU."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return None
    functions = getattr(OPDEFS.get(name), "_backend_fns", {})
    found: Callable[..., Any] | None = functions.get("cpu", functions.get(None))
    return found


def _takes_fake_tensors(function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a function calls PyTorch alone: what leaves it (NumPy, a compiled kernel) has no tensors without values."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _disable_current_modes

    def like(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)

    try:
        # A capture that is under way does not see it.
        with _disable_current_modes(), FakeTensorMode(), torch.no_grad():
            function(
                *pytree.tree_map_only(torch.Tensor, like, args), **pytree.tree_map_only(torch.Tensor, like, kwargs)
            )
    except Exception:
        return False
    return True


def _at_places(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:  # noqa: A002
    """as_strided by index. Raises ``NotImplementedError`` for elements that are not the tensor's own."""
    places, order = _places(input, size, stride, storage_offset)
    flat = input.permute(order).reshape(-1)
    return flat.index_select(0, torch.tensor(places)).reshape([int(length) for length in size])


def _put_at_places(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:  # noqa: A002
    """as_strided_scatter by index. Raises ``NotImplementedError`` for elements that are not the tensor's own."""
    places, order = _places(input, size, stride, storage_offset)
    if len(set(places)) < len(places):
        raise NotImplementedError("as_strided_scatter reaches an element twice")
    permuted = input.permute(order)
    flat = permuted.reshape(-1).scatter(0, torch.tensor(places), src.reshape(-1))
    return flat.reshape(permuted.shape).permute([order.index(axis) for axis in range(len(order))])


_PLACED: dict[Any, Callable[..., Any]] = {
    torch.as_strided: _at_places,
    torch.Tensor.as_strided: _at_places,
    torch.as_strided_scatter: _put_at_places,
    torch.Tensor.as_strided_scatter: _put_at_places,
}


_INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


def _is_chosen_by_list(index: Any) -> bool:
    """Whether an index has a list of truth values in it."""
    return any(_is_list_of_truths(part) for part in (index if isinstance(index, tuple) else (index,)))


def _is_list_of_truths(index: Any) -> bool:
    return isinstance(index, list) and bool(index) and all(type(value) is bool for value in index)


def _by_places(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_by_places, index))
    return [at for at, value in enumerate(index) if value] if _is_list_of_truths(index) else index


def _spelled_out(tensor: Any, index: Any) -> Any:
    """An index with a slice for each dimension that its ellipsis stands for; None without one, or with tensors or truth values in it.

    coremltools counts the dimensions of what a trace assigns to from the first that the index names.
    """
    parts = index if isinstance(index, tuple) else (index,)
    others = [part for part in parts if part is not ...]
    if len(others) != len(parts) - 1 or any(
        isinstance(part, bool) or not isinstance(part, (int, slice, type(None))) for part in others
    ):
        return None
    at = next(place for place, part in enumerate(parts) if part is ...)
    stands_for = tensor.dim() - sum(part is not None for part in others)
    return (*parts[:at], *[slice(None)] * stands_for, *parts[at + 1 :])


_JOINING = (torch.cat, torch.concat, torch.concatenate)


def _is_none(size: Any) -> bool:
    """Whether a size is 0 for certain; one that values decide is not asked, as no capture can tell."""
    return not isinstance(size, torch.SymInt) and bool(size == 0)


def _without_empty(tensors: Any, dim: Any = 0, *, axis: Any = None, **_: Any) -> list[Any]:
    """What is joined without the parts of no length, which no destination takes (`x.repeat(1, 0)`, as of a kernel of one); nothing where
    there are none, or no others.

    PyTorch joins `torch.tensor([])` to tensors of any rank, as the empty caches of transformers are.
    """
    dim = dim if axis is None else axis
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(part, torch.Tensor) for part in tensors):
        return []
    filled = [part for part in tensors if part.dim() != 1 or not _is_none(part.shape[0])]
    # Parts of no length have a say in the type of the result, and mistakes are PyTorch's to tell.
    if (
        len({part.dim() for part in filled}) != 1
        or len({part.dtype for part in tensors}) != 1
        or not isinstance(dim, int)
    ):
        return []
    if not -filled[0].dim() <= dim < filled[0].dim():
        return []
    left = [part for part in filled if not _is_none(part.shape[dim])]
    return left if 0 < len(left) < len(tensors) else []


_SELECTING = (torch.index_select, torch.Tensor.index_select)
"""coremltools gives a tensor of one axis less where their index has none."""
_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]
_FINDING = (torch.nonzero, torch.Tensor.nonzero)
_ROWS = (*_FINDING, torch.where)


def _some(count: Any) -> Any:
    """How many rows a place has: some, where a capture decides by it (`if rows.numel() == 0: continue`), as no number is known."""
    if isinstance(count, torch.SymInt):
        torch._check(count != 0)  # type: ignore[no-untyped-call]
        return count
    return 1 if torch._C._get_tracing_state() is not None and int(count) == 0 else count


_NUMBERED: dict[Any, str] = {
    getattr(owner, name + ending): keyword
    for keyword, names in {
        "value": "scatter masked_fill index_fill fill",
        "other": "eq ne __eq__ __ne__",
        "fill_value": "full full_like new_full",
    }.items()
    for name in names.split()
    for owner in (torch, torch.Tensor)
    for ending in ("", "_")
    if hasattr(owner, name + ending)
}
"""Functions of a number that the tensor's own type takes, or that is compared with it, and how it is called."""


def _numbered(function: Any, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """The arguments with 0 and 1 for truth values."""
    keyword = _NUMBERED[function]
    values = [int(value) if type(value) is bool else value for value in args]
    named = {**kwargs, keyword: int(kwargs[keyword])} if type(kwargs.get(keyword)) is bool else dict(kwargs)
    if function is torch.full and named.get("dtype") is None and named.get("out") is None:
        named["dtype"] = torch.bool
    return values, named


def _places(tensor: Any, size: Any, stride: Any, storage_offset: int | None) -> tuple[list[int], list[int]]:
    """Indices of the elements that sizes and strides name, in the order of memory, and that order of the axes."""
    steps = [int(step) for step in tensor.stride()]
    begin = int(tensor.storage_offset())
    places = [0 if storage_offset is None else int(storage_offset) - begin]
    for length, step in zip(size, stride, strict=True):
        places = [place + at * int(step) for place in places for at in range(int(length))]
    # Outermost in memory first: of a tensor without gaps, the elements are then in the order of memory.
    axes = sorted((axis for axis in range(tensor.dim()) if tensor.shape[axis] != 1), key=lambda axis: -steps[axis])
    room = 1
    for axis in reversed(axes):
        if steps[axis] != room:
            raise NotImplementedError("as_strided of a tensor whose elements do not lie side by side")
        room *= int(tensor.shape[axis])
    if places and not 0 <= min(places) <= max(places) < room:
        raise NotImplementedError("as_strided reaches elements beyond its tensor")
    return places, [*(axis for axis in range(tensor.dim()) if axis not in axes), *axes]


def _limits(
    input: Any,  # noqa: A002
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    *_: Any,
    **__: Any,
) -> tuple[float | None, float]:
    return max_norm, norm_type


def _shortened(rows: Any, limit: float, power: float) -> Any:
    length = torch.linalg.vector_norm(rows, power, -1, keepdim=True)
    return rows * torch.where(length > limit, limit / (length + 1e-7), torch.ones_like(length))


@contextmanager
def normalizing_in_operators(model: nn.Module) -> Iterator[Sequence[nn.Module]]:
    """Local response normalization across channels by a matrix product: PyTorch computes it in Python, out of the tracer's sight.

    Yields the layers.
    """
    layers = [layer for layer in model.modules() if type(layer) is nn.CrossMapLRN2d and "forward" not in vars(layer)]
    for layer in layers:
        vars(layer)["forward"] = partial(_across, layer)
    try:
        yield layers
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


@contextmanager
def staying_in_place(model: nn.Module) -> Iterator[array[int]]:
    """Layers that ``forward`` moves to where they are, and as they are: an export takes their parameters for others all the same.

    Yields a number for each that it has moved so far.
    """
    # A list that the model leads to would be as it was after each run.
    moved = array("b")
    layers = [layer for layer in model.modules() if type(layer).to is nn.Module.to and "to" not in vars(layer)]
    for layer in layers:
        vars(layer)["to"] = partial(_moved, layer, moved)
    try:
        yield moved
    finally:
        for layer in layers:
            vars(layer).pop("to", None)


def _moved(module: nn.Module, moved: array[int], *args: Any, **kwargs: Any) -> nn.Module:
    moved.append(1)
    device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    stays = memory_format is None and all(
        tensor.device == (device or tensor.device) and tensor.dtype == (dtype or tensor.dtype)
        for tensor in (*module.parameters(), *module.buffers())
    )
    return module if stays else nn.Module.to(module, *args, **kwargs)


def _across(module: Any, x: Any) -> Any:
    count = x.shape[1]
    reach = int((module.size - 1) / 2 + 1)
    at = torch.arange(count)
    off = at.unsqueeze(0) - at.unsqueeze(1)
    # PyTorch never takes the first channel out of its running sum again.
    near = torch.logical_and(off < reach, torch.logical_or(off > -reach, at == 0)).to(x.dtype)
    total = torch.matmul(near, (x * x).flatten(2)).reshape(x.shape)
    return x * torch.pow(total * (module.alpha / module.size) + module.k, -module.beta)

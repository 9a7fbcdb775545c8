"""More inputs like an example: other values, masks and lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.live.subject import Inputs

if TYPE_CHECKING:
    from modellint.live.inputs import InputSpec

LARGE = 100.0
"""How much larger than the example's the floats of the case ``large`` are."""
SEEDS = 3


class Case(NamedTuple):
    """Inputs to compare on."""

    label: str
    inputs: Inputs
    usual: bool
    """Whether values are of the example's kind, so that float16 may be judged on them."""


def variants(inputs: Inputs, specs: Sequence[InputSpec] = (), seed: int = 0) -> Iterator[Case]:
    """The example itself, then others of its shapes, then other lengths of flexible dimensions.

    Floats are drawn anew with the example's mean and deviation, are zero, negative, and large; integers come from the range
    that ``--input`` gives, or else from that of the example; truth values are drawn with several densities.
    """
    yield Case("the example", inputs, True)
    leaves, tree = _flat(inputs)
    ranges = _ranges(inputs, specs)
    draw = torch.Generator().manual_seed(seed + 1)

    def case(label: str, usual: bool, change: Callable[[Tensor, Any], Tensor]) -> Case:
        changed = [change(leaf, ranges.get(at)) if isinstance(leaf, Tensor) else leaf for at, leaf in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(changed, tree)
        return Case(label, Inputs(args, kwargs, inputs.flexible), usual)

    for count in range(1, SEEDS + 1):
        density = (0.5, 0.2, 0.8)[(count - 1) % 3]
        yield case(f"random {count}", True, lambda leaf, bounds, density=density: _drawn(leaf, bounds, draw, density))  # type: ignore[misc]
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if any(leaf.is_floating_point() for leaf in tensors):
        yield case("zeros", False, lambda leaf, bounds: torch.zeros_like(leaf) if leaf.is_floating_point() else leaf)
        yield case("negative", False, lambda leaf, bounds: -leaf.abs() if leaf.is_floating_point() else leaf)
        yield case("large", False, lambda leaf, bounds: leaf * LARGE if leaf.is_floating_point() else leaf)
    if any(not leaf.is_floating_point() and not leaf.is_complex() for leaf in tensors):
        yield case("lowest integers, false", False, lambda leaf, bounds: _end(leaf, bounds, 0))
        yield case("highest integers, true", False, lambda leaf, bounds: _end(leaf, bounds, 1))
    yield from _lengths(inputs, ranges, draw)


def lengths(inputs: Inputs, seed: int = 0) -> Iterator[Case]:
    """Other lengths of the flexible dimensions only, at their bounds and between."""
    return _lengths(inputs, {}, torch.Generator().manual_seed(seed))


def _flat(inputs: Inputs) -> tuple[list[Any], Any]:
    return pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))


def _ranges(inputs: Inputs, specs: Sequence[InputSpec]) -> dict[int, tuple[float, float]]:
    """Of the flat inputs those whose range was given, the end excluded."""
    leaves, _ = _flat(inputs)
    by_identity = {id(leaf): at for at, leaf in enumerate(leaves)}
    found: dict[int, tuple[float, float]] = {}
    position = 0
    for spec in specs:
        value = None
        if spec.name is not None:
            value = inputs.kwargs.get(spec.name)
        elif position < len(inputs.args):
            value, position = inputs.args[position], position + 1
        at = by_identity.get(id(value))
        if at is not None and spec.range is not None:
            found[at] = spec.range
    return found


def _drawn(leaf: Tensor, bounds: tuple[float, float] | None, draw: torch.Generator, density: float) -> Tensor:
    shape = tuple(leaf.shape)
    if leaf.dtype is torch.bool:
        return (torch.rand(shape, generator=draw) < density).to(leaf.device)
    if leaf.is_complex() or not leaf.numel():
        return leaf
    if not leaf.is_floating_point():
        low, high = _bounds(leaf, bounds)
        return torch.randint(low, high + 1, shape, generator=draw, dtype=torch.int64).to(leaf.dtype).to(leaf.device)
    if bounds is not None:
        low_float, high_float = bounds
        made = torch.rand(shape, generator=draw, dtype=torch.float64) * (high_float - low_float) + low_float
        return made.to(leaf.dtype).to(leaf.device)
    finite = leaf.detach().to(torch.float64)
    finite = finite[finite.isfinite()]
    mean = float(finite.mean()) if finite.numel() else 0.0
    deviation = float(finite.std()) if finite.numel() > 1 else 1.0
    made = torch.randn(shape, generator=draw, dtype=torch.float64) * (deviation or 1.0) + mean
    return made.to(leaf.dtype).to(leaf.device)


def _bounds(leaf: Tensor, bounds: tuple[float, float] | None) -> tuple[int, int]:
    """The lowest and the highest value that an integer input takes."""
    if bounds is not None:
        return int(bounds[0]), int(bounds[1]) - 1
    low, high = int(leaf.min()), int(leaf.max())
    return min(low, 0), max(high, 1)


def _end(leaf: Tensor, bounds: tuple[float, float] | None, end: int) -> Tensor:
    if leaf.dtype is torch.bool:
        return torch.full_like(leaf, bool(end))
    if leaf.is_floating_point() or leaf.is_complex() or not leaf.numel():
        return leaf
    return torch.full_like(leaf, _bounds(leaf, bounds)[end])


def _lengths(inputs: Inputs, ranges: Mapping[int, tuple[float, float]], draw: torch.Generator) -> Iterator[Case]:
    """Flexible dimensions at their bounds and between, all at once."""
    if not inputs.flexible:
        return
    leaves, _ = _flat(inputs)
    places = {id(leaf): at for at, leaf in enumerate(leaves)}
    seen = set()
    for part in (0.0, 1.0, 0.5):
        label: list[str] = []

        def resized(key: str | int, value: Any, part: float = part, label: list[str] = label) -> Any:
            bounds = inputs.flexible.get(key) or inputs.flexible.get(str(key))
            if not bounds or not isinstance(value, Tensor):
                return value
            shape = list(value.shape)
            for at, (low, high) in bounds.items():
                shape[at] = round(low + (min(high, max(4 * shape[at], 16, low)) - low) * part)
            label.append("x".join(map(str, shape)))
            like = value.new_zeros(shape)
            given = ranges.get(places.get(id(value), -1))
            if value.is_floating_point():
                return _drawn(like, given, draw, 0.5)
            if value.dtype is torch.bool:
                return _drawn(like, None, draw, 0.5)
            low, high = _bounds(value, given)
            return torch.randint(low, high + 1, shape, generator=draw, dtype=torch.int64).to(value.dtype)

        args = tuple(resized(at, value) for at, value in enumerate(inputs.args))
        kwargs = {name: resized(name, value) for name, value in inputs.kwargs.items()}
        text = ", ".join(label)
        if text and text not in seen:
            seen.add(text)
            yield Case(text, Inputs(args, kwargs, inputs.flexible), True)

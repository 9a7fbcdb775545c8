"""Input variants: more inputs like an example, with other values, masks and lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.live.inputs.model_inputs import Listed

if TYPE_CHECKING:
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs

LARGE = 100.0
"""How much larger than the example's the floats of the case ``large`` are."""
SEEDS = 3


_MOST_ARGUMENTS = 3
_WIDE = (torch.int32, torch.int64)
_LARGEST = 2**24
"""The largest integer that is drawn: above, float32 has not all of them."""
_ENOUGH = 4
"""Integers beyond the example's, at least, in all cases together."""
_IN_TURN = 8
"""Integers from the lowest on, of which each is given once: programs compare with small ones."""
_MOST_CHANGED = 8
"""Sets of inputs, at most, in which one element of the example's is another one."""
_MOST_FURTHER = 64
"""Sets of inputs, at most, of which there are more where an output tells little."""
_MASK = 8
"""Elements, at least, of a tensor of floats that is taken for a mask."""
_SMALL = (1e-4, 1e-9)
"""The largest magnitudes of floats in the cases of small numbers."""


class Case(NamedTuple):
    """Inputs to compare on."""

    label: str
    inputs: Inputs
    usual: bool
    """Whether values are of the example's kind, so that float16 may be judged on them."""
    masks: bool = False
    """Whether integers or truth values are others than the example's."""
    resized: bool = False
    """Whether flexible dimensions have other sizes than the example's."""


def variants(inputs: Inputs, specs: Sequence[InputSpec] = (), seed: int = 0, wide: bool = False) -> Iterator[Case]:
    """The example itself, then others of its shapes.

    Floats are drawn anew with the example's mean and deviation; they are zero, negative, and large. Integers come from the
    range that was given, or else from that of the example, and are at its ends; truth values, and integers that are 0 and 1,
    are drawn with several densities, and are all true and all false; so are floats of which each is 0 or 1, both of them being among
    them. Whatever was given a range stays in it. Other sizes of
    flexible dimensions come last: their bounds, and one between.

    ``wide`` adds zeros in one argument only, small floats, few values, the same rows, masks that are true once in each row, the
    first integers in turn, and those beyond the example's where no range was given, and leaves the sizes to ``lengths``.
    """
    yield Case("the example", inputs, True)
    leaves, tree = _flat(inputs)
    ranges = _ranges(inputs, specs)
    draw = torch.Generator().manual_seed(seed + 1)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    whole = any(not leaf.is_floating_point() and not leaf.is_complex() for leaf in tensors)
    whole |= bool(float_masks(inputs, specs))
    floats = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.is_floating_point()]

    def case(label: str, usual: bool, masks: bool, change: Callable[[Tensor, Any, int], Tensor]) -> Case:
        changed = [
            change(leaf, ranges.get(at), at) if isinstance(leaf, Tensor) else leaf for at, leaf in enumerate(leaves)
        ]
        args, kwargs = pytree.tree_unflatten(changed, tree)
        return Case(label, inputs._replace(args=args, kwargs=kwargs), usual, masks)

    def of_floats(label: str, change: Callable[[Tensor], Tensor], only: int | None = None) -> Iterator[Case]:
        def changed(leaf: Tensor, bounds: tuple[float, float] | None, at: int) -> Tensor:
            if not leaf.is_floating_point() or (only is not None and at != only) or _is_float_mask(leaf, bounds):
                return leaf
            result = change(leaf)
            return result if bounds is None else result.clamp(bounds[0], _below(bounds[1], leaf.dtype))

        variant = case(label, False, False, changed)
        if any(leaf is not original for leaf, original in zip(_flat(variant.inputs)[0], leaves, strict=True)):
            yield variant

    for count in range(1, SEEDS + 1):
        density = (0.5, 0.2, 0.8)[(count - 1) % 3]

        def drawn(leaf: Tensor, bounds: tuple[float, float] | None, at: int, density: float = density) -> Tensor:
            return _drawn(leaf, bounds, draw, density)

        yield case(f"random {count}", True, whole, drawn)
    if floats:
        yield from of_floats("zeros", torch.zeros_like)
        if wide and len(floats) > 1:
            for number, at in enumerate(floats[:_MOST_ARGUMENTS], 1):
                yield from of_floats(f"zeros in float argument {number} alone", torch.zeros_like, at)
        yield from of_floats("negative", lambda leaf: -leaf.abs())
        if wide:
            yield from of_floats("positive", torch.abs)
        yield from of_floats("large", lambda leaf: leaf * LARGE)
        if wide:
            yield from of_floats("larger", lambda leaf: leaf * LARGE**2)
        for size in _SMALL if wide else ():
            yield from of_floats(f"{size:g}", lambda leaf, size=size: leaf * (size / _largest(leaf)))  # type: ignore[misc]
        if wide:
            yield from of_floats("few values", _coarse)
            yield from of_floats("the same rows", _repeated)
    if whole:
        yield case("lowest integers, false", False, True, lambda leaf, bounds, at: _end(leaf, bounds, 0))
        yield case("highest integers, true", False, True, lambda leaf, bounds, at: _end(leaf, bounds, 1))
        given = [(leaf, ranges.get(at)) for at, leaf in enumerate(leaves)]
        if wide and any(_is_mask(leaf, bounds) or _is_float_mask(leaf, bounds) for leaf, bounds in given):
            yield case("one true in each row", False, True, lambda leaf, bounds, at: _one(leaf, bounds))
        counted = [leaf.numel() for at, leaf in enumerate(leaves) if wide and _counts(leaf, ranges.get(at))]
        for count in range(min(-(-_IN_TURN // min(counted)), _ENOUGH) if counted else 0):
            label = "integers in turn" + (f" {count + 1}" if count else "")

            def turned(leaf: Tensor, bounds: tuple[float, float] | None, at: int, count: int = count) -> Tensor:
                return _in_turn(leaf, bounds, count)

            yield case(label, False, True, turned)
        unbounded = [leaf.numel() for at, leaf in enumerate(leaves) if wide and _is_open(leaf, ranges.get(at))]
        for count in range(-(-_ENOUGH // min(unbounded)) if unbounded else 0):
            label = "integers beyond the example's" + (f" {count + 1}" if count else "")
            yield case(label, False, True, lambda leaf, bounds, at: _beyond(leaf, bounds, draw))
    if not wide:
        yield from lengths(inputs, specs, seed)


def may_vary(inputs: Inputs, specs: Sequence[InputSpec] = ()) -> list[int]:
    """The places, among all leaves, of tensors whose values may be others than the example's."""
    leaves, ranges = _flat(inputs)[0], _ranges(inputs, specs)

    def is_free(at: int) -> bool:
        low, high = ranges.get(at, (0.0, math.inf))
        return high - low > 1 or leaves[at].is_floating_point()

    return [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.numel() and is_free(at)]


def float_masks(inputs: Inputs, specs: Sequence[InputSpec] = ()) -> list[int]:
    """The places, among all leaves, of tensors of floats that are given 0 and 1 alone, as the example holds nothing else."""
    leaves, ranges = _flat(inputs)[0], _ranges(inputs, specs)
    return [at for at, leaf in enumerate(leaves) if _is_float_mask(leaf, ranges.get(at))]


def of_one_input(inputs: Inputs, at: int, specs: Sequence[InputSpec] = (), seed: int = 0) -> Iterator[Case]:
    """The example with the tensor at that place changed alone: drawn anew, in another order, one of its elements another one.

    So it goes where a model raises on inputs that do not fit each other, such as tokens that stand for the patches of a picture.
    """
    leaves, tree = _flat(inputs)
    leaf, bounds = leaves[at], _ranges(inputs, specs).get(at)
    draw = torch.Generator().manual_seed(seed + 4)

    def case(label: str, changed: Tensor) -> Case:
        args, kwargs = pytree.tree_unflatten([*leaves[:at], changed, *leaves[at + 1 :]], tree)
        return Case(label, inputs._replace(args=args, kwargs=kwargs), False, not leaf.is_floating_point())

    yield case("drawn anew", _drawn(leaf, bounds, draw, 0.5))
    flat = leaf.reshape(-1)
    for count in range(2):
        order = torch.randperm(len(flat), generator=draw).to(leaf.device)
        yield case("in another order" + (f" {count + 1}" if count else ""), flat[order].reshape(leaf.shape))
    if leaf.is_complex():
        return
    values = flat.unique()
    for count in range(_MOST_CHANGED):
        place = int(torch.randint(len(flat), (), generator=draw))
        others = values[values != flat[place]]
        changed = flat.clone()
        if leaf.dtype is torch.bool:
            changed[place] = ~changed[place]
        elif _is_float_mask(leaf, bounds):
            changed[place] = 1 - changed[place]
        elif len(others) and count % 2 == 0:
            changed[place] = others[int(torch.randint(len(others), (), generator=draw))]
        else:
            step = 1 if bounds is None or flat[place] + 1 < bounds[1] else -1
            changed[place] += step if count % 4 == 1 or bounds is not None else -step
        yield case("with another element" + (f" {count + 1}" if count else ""), changed.reshape(leaf.shape))


def further(inputs: Inputs, specs: Sequence[InputSpec] = (), seed: int = 0) -> Iterator[Case]:
    """Random inputs of the kinds of ``_KINDS``, in turn. Whatever was given a range stays in it."""
    leaves, tree = _flat(inputs)
    ranges = _ranges(inputs, specs)
    draw = torch.Generator().manual_seed(seed + 3)
    masks = any(isinstance(leaf, Tensor) and not (leaf.is_floating_point() or leaf.is_complex()) for leaf in leaves)
    for number in range(_MOST_FURTHER):
        change, scales = _KINDS[number % len(_KINDS)]
        changed = []
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                bounds = ranges.get(at)
                leaf = _drawn(leaf, bounds, draw, (0.5, 0.2, 0.8)[number % 3])
                if (
                    leaf.is_floating_point()
                    and bounds is None
                    and leaf.numel()
                    and not _is_float_mask(leaves[at], None)
                ):
                    leaf = change(leaf * scales[(at + number) % len(scales)], draw)
                elif change in _ZEROING and leaf.dtype in _WIDE and (bounds is None or bounds[0] <= 0 < bounds[1]):
                    leaf = change(leaf, draw)
            changed.append(leaf)
        args, kwargs = pytree.tree_unflatten(changed, tree)
        yield Case(f"further {number + 1}", inputs._replace(args=args, kwargs=kwargs), False, masks)


def scaled(inputs: Inputs, scale: float, specs: Sequence[InputSpec] = ()) -> Inputs:
    """Inputs whose floats are multiplied by a number, but for those with a range."""
    leaves, tree = _flat(inputs)
    ranges = _ranges(inputs, specs)
    changed = [
        leaf * scale
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and at not in ranges and not _is_float_mask(leaf, None)
        else leaf
        for at, leaf in enumerate(leaves)
    ]
    args, kwargs = pytree.tree_unflatten(changed, tree)
    return inputs._replace(args=args, kwargs=kwargs)


def _as_drawn(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return leaf


def _with_zeros(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return leaf * _drawn(torch.ones_like(leaf, dtype=torch.bool), None, draw, 0.5)


def _sparse(leaf: Tensor, draw: torch.Generator) -> Tensor:
    """Zero but for a few elements, so that whole rows are zero beside others that are not."""
    return leaf * _drawn(torch.ones_like(leaf, dtype=torch.bool), None, draw, 0.2)


def _centred(leaf: Tensor, draw: torch.Generator) -> Tensor:
    """Floats less their mean, so that sums by which a program decides are about zero."""
    return leaf - leaf.mean() if leaf.numel() > 1 else leaf


def _of_small_sum(leaf: Tensor, draw: torch.Generator) -> Tensor:
    """Floats shifted so that their sum is about one, of either sign."""
    wanted = float(torch.randn((), generator=draw, dtype=torch.float64)) * 1.5
    return _centred(leaf, draw) + wanted / leaf.numel()


def _of_both_signs(leaf: Tensor, draw: torch.Generator) -> Tensor:
    """Floats with random signs: half of the elements are negated, so that nothing is left of the example's mean."""
    return torch.where(_drawn(torch.ones_like(leaf, dtype=torch.bool), None, draw, 0.5), leaf, -leaf)


def _positive(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return leaf.abs()


def _negative(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return -leaf.abs()


def _of_all_magnitudes(leaf: Tensor, draw: torch.Generator) -> Tensor:
    """Floats of many magnitudes: each element is multiplied by a random factor between 1 and 0.00001."""
    powers = torch.rand(tuple(leaf.shape), generator=draw, dtype=torch.float64) * -5
    return leaf * (10**powers).to(leaf.dtype).to(leaf.device)


def _of_few_values(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return _coarse(leaf)


def _of_the_same_rows(leaf: Tensor, draw: torch.Generator) -> Tensor:
    return _repeated(leaf)


_KINDS: tuple[tuple[Callable[[Tensor, torch.Generator], Tensor], tuple[float, ...]], ...] = (
    (_as_drawn, (1.0,)),
    (_sparse, (1.0,)),
    (_with_zeros, (5.0,)),
    (_as_drawn, (0.3,)),
    (_with_zeros, (25.0,)),
    (_centred, (1.0,)),
    (_of_all_magnitudes, (2.0,)),
    (_of_small_sum, (0.3,)),
    (_of_both_signs, (0.05,)),
    (_of_few_values, (1.0,)),
    (_positive, (1.0, 0.3)),
    (_of_both_signs, (1.0, 0.1, 5.0)),
    (_with_zeros, (0.01, 1.0)),
    (_negative, (0.5, 3.0)),
    (_of_the_same_rows, (1.0,)),
    (_of_both_signs, (0.1, 2.0, 0.01)),
    (_with_zeros, (1.0,)),
)
"""Kinds of floats on which programs differ that agree on most, and by what they are multiplied, one argument after another."""
_ZEROING = (_sparse, _with_zeros)
"""Those of them that hold for integers, too."""


def _coarse(leaf: Tensor) -> Tensor:
    """Floats rounded to halves, which programs compare with, or to half of the largest where it exceeds 4; a third is zero."""
    largest = _largest(leaf)
    step = 0.5 if largest <= 4 else largest / 2
    values = (leaf / step).round() * step
    values.reshape(-1)[1::3] = 0
    return values


def _below(high: float, dtype: torch.dtype) -> float:
    """The largest number of a type under the end of a range."""
    return float(torch.nextafter(torch.tensor(high, dtype=torch.float32), torch.tensor(-math.inf)).to(dtype))


def _largest(leaf: Tensor) -> float:
    finite = leaf.detach().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) or 1.0 if finite.numel() else 1.0


def _repeated(leaf: Tensor) -> Tensor:
    """The first row in the place of every row."""
    if leaf.dim() < 2:
        return leaf[:1].expand_as(leaf).clone() if leaf.dim() else leaf
    return leaf[..., :1, :].expand_as(leaf).clone()


def _is_mask(leaf: Any, bounds: tuple[float, float] | None) -> bool:
    """Whether a tensor holds truth values, or integers that are 0 and 1 only."""
    if (
        not isinstance(leaf, Tensor)
        or leaf.is_floating_point()
        or leaf.is_complex()
        or not leaf.numel()
        or not leaf.dim()
    ):
        return False
    if leaf.dtype is torch.bool:
        return True
    # An integer by itself is a place or a number, whatever it is in the example.
    may_be = leaf.numel() > 1 if bounds is None else bounds == (0, 2)
    return may_be and int(leaf.min()) >= 0 and int(leaf.max()) <= 1


def _is_float_mask(leaf: Any, bounds: tuple[float, float] | None) -> bool:
    """Whether a tensor holds floats of which each is 0 or 1, and some are the one and some the other."""
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or bounds is not None or leaf.numel() < _MASK:
        return False
    ones = leaf == 1
    return bool((ones | (leaf == 0)).all()) and bool(ones.any()) and not bool(ones.all())


def _is_open(leaf: Any, bounds: tuple[float, float] | None) -> bool:
    """Whether a tensor holds integers, more than truth values, of which nobody said where they end."""
    return (
        isinstance(leaf, Tensor)
        and bounds is None
        and leaf.dtype in _WIDE
        and bool(leaf.numel())
        and not (leaf.numel() > 1 and int(leaf.min()) >= 0 and int(leaf.max()) <= 1)
    )


def _counts(leaf: Any, bounds: tuple[float, float] | None) -> bool:
    """Whether a tensor holds integers, more than truth values."""
    return (
        isinstance(leaf, Tensor)
        and leaf.dtype in _WIDE
        and bool(leaf.numel())
        and not _is_mask(leaf, bounds)
        and (leaf.dim() > 0 or bounds is None or bounds[1] - bounds[0] > 2)
    )


def _in_turn(leaf: Tensor, bounds: tuple[float, float] | None, count: int) -> Tensor:
    """Consecutive integers, from 0 or the lower end of a range that was given, begun again where they end."""
    if not _counts(leaf, bounds):
        return leaf
    low, span = (0, _IN_TURN) if bounds is None else (int(bounds[0]), min(_IN_TURN, max(int(bounds[1] - bounds[0]), 1)))
    values = low + (torch.arange(leaf.numel()) + count * leaf.numel()) % span
    return values.reshape(leaf.shape).to(leaf.dtype).to(leaf.device)


def _beyond(leaf: Tensor, bounds: tuple[float, float] | None, draw: torch.Generator) -> Tensor:
    """Integers of twice the example's magnitude, of both signs; where that is an index out of range, the model raises itself."""
    if not _is_open(leaf, bounds):
        return leaf
    most = min(2 * max(abs(int(leaf.min())), abs(int(leaf.max())), 4), _LARGEST)
    values = torch.randint(-most, most + 1, tuple(leaf.shape), generator=draw, dtype=torch.int64)
    return values.to(leaf.dtype).to(leaf.device)


def _one(leaf: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """One-hot mask: true once in each row, one place further in the next."""
    if not (_is_mask(leaf, bounds) or _is_float_mask(leaf, bounds)):
        return leaf
    mask = torch.zeros_like(leaf)
    rows = mask.reshape(-1, leaf.shape[-1])
    places = torch.arange(rows.shape[0], device=leaf.device)
    rows[places, places % leaf.shape[-1]] = 1
    return rows.reshape(leaf.shape)


def _flat(inputs: Inputs) -> tuple[list[Any], Any]:
    return pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))


def _ranges(inputs: Inputs, specs: Sequence[InputSpec]) -> dict[int, tuple[float, float]]:
    """Of the flat inputs those whose range was given, the end excluded."""
    leaves, _ = _flat(inputs)
    by_identity = {id(leaf): at for at, leaf in enumerate(leaves)}
    ranges: dict[int, tuple[float, float]] = {}
    for key, value in _keyed(inputs):
        bounds = inputs.ranges.get(key)
        if bounds is not None and id(value) in by_identity:
            ranges[by_identity[id(value)]] = bounds
    position = 0
    for spec in specs:
        value = None
        if spec.name is not None:
            value = inputs.kwargs.get(spec.name)
        elif position < len(inputs.args):
            value, position = inputs.args[position], position + 1
        at = by_identity.get(id(value))
        if at is not None and spec.range is not None:
            ranges[at] = spec.range
    return ranges


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
        values = torch.rand(shape, generator=draw, dtype=torch.float64) * (high_float - low_float) + low_float
        return values.to(leaf.dtype).to(leaf.device)
    if _is_float_mask(leaf, bounds):
        return (torch.rand(shape, generator=draw) < density).to(leaf.dtype).to(leaf.device)
    finite = leaf.detach().to(torch.float64)
    finite = finite[finite.isfinite()]
    mean = float(finite.mean()) if finite.numel() else 0.0
    deviation = float(finite.std()) if finite.numel() > 1 else 1.0
    values = torch.randn(shape, generator=draw, dtype=torch.float64) * (deviation or 1.0) + mean
    return values.to(leaf.dtype).to(leaf.device)


def _bounds(leaf: Tensor, bounds: tuple[float, float] | None) -> tuple[int, int]:
    """The lowest and the highest value that an integer input takes."""
    if bounds is not None:
        return int(bounds[0]), int(bounds[1]) - 1
    low, high = int(leaf.min()), int(leaf.max())
    return min(low, 0), max(high, 1)


def _end(leaf: Tensor, bounds: tuple[float, float] | None, end: int) -> Tensor:
    if leaf.dtype is torch.bool or _is_float_mask(leaf, bounds):
        return torch.full_like(leaf, bool(end))
    if leaf.is_floating_point() or leaf.is_complex() or not leaf.numel():
        return leaf
    return torch.full_like(leaf, _bounds(leaf, bounds)[end])


def lengths(
    inputs: Inputs,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    plan: Callable[[int, int], Sequence[int]] = lambda low, high: (low, high, (low + high) // 2),
    left: list[str] | None = None,
) -> Iterator[Case]:
    """Other sizes of the flexible dimensions: those that are listed, or that ``plan`` names for the bounds of each, at the same time.

    Dimensions of the same bounds have the same size, as they mostly are one. What is too large to be run gets the largest size
    that is not, unless sizes are listed, and is named in ``left``.
    """
    if not inputs.flexible:
        return
    ranges = _ranges(inputs, specs)
    draw = torch.Generator().manual_seed(seed + 2)
    leaves, _ = _flat(inputs)
    places = {id(leaf): at for at, leaf in enumerate(leaves)}
    limits = {_limit(bounds) for dimensions in inputs.flexible.values() for bounds in dimensions.values()}
    plans = {bounds: _planned(bounds, plan) for bounds in sorted(limits, key=repr)}
    seen = set()
    for number in range(max(map(len, plans.values()), default=0)):
        sizes = {bounds: each[number % len(each)] for bounds, each in plans.items()}
        share = _share(inputs, sizes)
        if share < 1:
            if left is not None:
                left.append(_named(inputs, sizes))
            if any(isinstance(bounds, Listed) for bounds in sizes):
                continue
            sizes = {bounds: max(bounds[0], int(size * share)) for bounds, size in sizes.items()}
        text = _named(inputs, sizes)
        if not text or text in seen:
            continue
        seen.add(text)

        def resized(key: str | int, value: Any, sizes: Mapping[Any, int] = sizes) -> Any:
            shape = _resized(inputs, key, value, sizes)
            if shape is None:
                return value
            like = value.new_zeros(shape)
            interval = ranges.get(places.get(id(value), -1))
            if _is_float_mask(value, interval):
                return _drawn(like.to(torch.bool), None, draw, 0.5).to(value.dtype)
            if value.is_floating_point():
                return _drawn(like, interval, draw, 0.5)
            if value.dtype is torch.bool:
                return _drawn(like, None, draw, 0.5)
            low, high = _bounds(value, interval)
            return torch.randint(low, high + 1, shape, generator=draw, dtype=torch.int64).to(value.dtype)

        args = tuple(resized(at, value) for at, value in enumerate(inputs.args))
        kwargs = {name: resized(name, value) for name, value in inputs.kwargs.items()}
        masks = any(isinstance(leaf, Tensor) and not leaf.is_floating_point() for leaf in leaves)
        yield Case(text, inputs._replace(args=args, kwargs=kwargs), True, masks, True)


def _limit(bounds: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a dimension, or its listed sizes, as a key."""
    return bounds if isinstance(bounds, Listed) else (bounds[0], bounds[1])


def _planned(bounds: tuple[int, int], plan: Callable[[int, int], Sequence[int]]) -> Sequence[int]:
    return bounds.sizes if isinstance(bounds, Listed) else plan(*bounds)


_MOST_ELEMENTS = 2**21
_MOST_LISTED = 2**24
"""Elements of an input of a listed size, which somebody wants to be compared."""
_MOST_GROWTH = 64


def _share(inputs: Inputs, sizes: Mapping[Any, int]) -> float:
    """By how much sizes have to shrink so that no input is much larger than the example, 1 where they need not."""
    share = 1.0
    for key, value in _keyed(inputs):
        shape = _resized(inputs, key, value, sizes)
        if shape is not None:
            elements, most = math.prod(shape), max(_MOST_ELEMENTS, 4 * value.numel())
            most = min(most, max(_MOST_GROWTH * value.numel(), 2**12))
            if any(isinstance(bounds, Listed) for bounds in sizes):
                most = max(most, _MOST_LISTED)
            changing = sum(a != b for a, b in zip(shape, value.shape, strict=True)) or 1
            if elements > most:
                share = min(share, (most / elements) ** (1 / changing))
    return share


def _keyed(inputs: Inputs) -> Iterator[tuple[str | int, Any]]:
    yield from enumerate(inputs.args)
    yield from inputs.kwargs.items()


def _resized(inputs: Inputs, key: str | int, value: Any, sizes: Mapping[Any, int]) -> list[int] | None:
    """The shape of an argument whose flexible dimensions have those sizes, by bounds; None where it has none."""
    bounds = inputs.flexible.get(key) or inputs.flexible.get(str(key))
    if not bounds or not isinstance(value, Tensor):
        return None
    shape = list(value.shape)
    for at, limits in bounds.items():
        shape[at] = sizes[_limit(limits)]
    return shape


def _named(inputs: Inputs, sizes: Mapping[Any, int]) -> str:
    shapes = [_resized(inputs, key, value, sizes) for key, value in _keyed(inputs)]
    return ", ".join("x".join(map(str, shape)) for shape in shapes if shape is not None)

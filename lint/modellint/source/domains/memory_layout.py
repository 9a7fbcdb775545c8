"""How a tensor lies in memory, with sizes and strides as products of symbols.

A tensor is a row of axes, each with a size and a stride. `view` may join two neighbouring axes exactly where the stride of
the first is the size times the stride of the second; everything said here about views follows from that one rule
(<https://pytorch.org/docs/stable/generated/torch.Tensor.view.html>). Sizes that are not known are symbols, so what holds, holds for
sizes in general: an axis may still turn out to have size 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_fresh = count()
BY_DEFAULT = 1
"""Ends the symbol of a size that is 1 unless a caller says otherwise: `def __init__(self, heads=1)`."""
MOST_DIMENSIONS = 64
"""PyTorch computes with no tensor that has more: "tensor has too many (>64) dims"."""

_LARGEST = 1 << 512
_MOST_SYMBOLS = 512
"""A product that is written with larger numbers, or with more symbols, is not followed: it gets a name of its own."""


class Dim:
    """A product of symbols with a rational factor: ``2*h*w``, ``c/4``. A division is taken to leave no remainder."""

    __slots__ = ("factor", "powers")

    def __init__(self, factor: int | Fraction, powers: frozenset[tuple[object, int]] = frozenset()) -> None:
        self.factor = factor
        self.powers = powers

    @staticmethod
    def of(value: int) -> Dim:
        """A size that is known."""
        return Dim(value)

    @staticmethod
    def symbol(name: object = None) -> Dim:
        """A size that is not known: the same for the same name, a new one without."""
        return Dim(1, frozenset({(next(_fresh) if name is None else name, 1)}))

    def __mul__(self, other: Dim) -> Dim:
        return self._combined(other, 1)

    def __truediv__(self, other: Dim) -> Dim:
        return self._combined(other, -1)

    def _combined(self, other: Dim, sign: int) -> Dim:
        if sign < 0 and not other.factor:
            return Dim.symbol()
        if sign > 0 and self.factor == 1 and not self.powers:
            return other
        factor = self.factor * other.factor if sign > 0 else _divided(self.factor, other.factor)
        if max(abs(factor.numerator), factor.denominator) >= _LARGEST:
            return Dim.symbol()
        if not other.powers:
            return Dim(factor, self.powers)
        powers = dict(self.powers)
        for symbol, power in other.powers:
            powers[symbol] = powers.get(symbol, 0) + sign * power
        if len(powers) > _MOST_SYMBOLS or any(abs(power) > _MOST_SYMBOLS for power in powers.values()):
            return Dim.symbol()
        return Dim(factor, frozenset((symbol, power) for symbol, power in powers.items() if power))

    def replaced(self, symbol: object, by: Dim) -> Dim:
        """With ``by`` in the place of a symbol."""
        for name, power in self.powers:
            if name == symbol:
                rest = Dim(self.factor, self.powers - {(name, power)})
                for _ in range(abs(power)):
                    rest = rest * by if power > 0 else rest / by
                return rest
        return self

    @property
    def by_default(self) -> Dim:
        """With 1 in the place of what is 1 by default."""
        left = frozenset(part for part in self.powers if not _is_one_by_default(part[0]))
        return self if len(left) == len(self.powers) else Dim(self.factor, left)

    @property
    def value(self) -> int | None:
        """The number, where it is one."""
        if self.powers or self.factor.denominator != 1:
            return None
        return self.factor.numerator

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.factor == other.factor and self.powers == other.powers

    def __hash__(self) -> int:
        return hash((self.factor, self.powers))

    def __repr__(self) -> str:
        return "*".join([str(self.factor), *(f"{symbol}^{power}" for symbol, power in sorted(self.powers, key=str))])


def _is_one_by_default(symbol: object) -> bool:
    return isinstance(symbol, tuple) and symbol[2:] == (BY_DEFAULT,)


def _divided(one: int | Fraction, other: int | Fraction) -> int | Fraction:
    """Ints stay ints where they can: a Fraction is ten times slower."""
    if other == 1:
        return one
    from fractions import Fraction

    found = Fraction(one) / other
    return found.numerator if found.denominator == 1 else found


ONE = Dim.of(1)
ZERO = Dim.of(0)


def product(sizes: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    result = ONE
    for size in sizes:
        result = result * size
    return result


def is_fixed(size: Dim | None) -> bool:
    """Whether a size is made of numbers that the code knows, or that the object or its caller is given as numbers."""
    return size is not None and all(isinstance(symbol, tuple) for symbol, _ in size.powers)


class Axis:
    """One axis. ``block`` stands for any number of axes, none included, that lie as a contiguous tensor's do."""

    __slots__ = ("block", "size", "stride")

    def __init__(self, size: Dim, stride: Dim | None, block: bool = False) -> None:
        self.size = size
        self.stride = stride
        """None where it is not known."""
        self.block = block

    @property
    def is_one(self) -> bool:
        """Whether its size is 1, whatever the input."""
        return self.size == ONE


class Layout:
    """The axes of a tensor, in the order of its dimensions; at most one is a block, where the rank is not known."""

    __slots__ = ("axes",)

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)

    @staticmethod
    def contiguous(sizes: Sequence[Dim]) -> Layout:
        """A contiguous tensor of known rank."""
        axes: list[Axis] = []
        stride = ONE
        for size in reversed(sizes):
            axes.append(Axis(size, stride))
            stride = stride * size
        return Layout(axes[::-1])

    @staticmethod
    def unranked() -> Layout:
        """A contiguous tensor of any rank."""
        return Layout((Axis(Dim.symbol(), ONE, block=True),))

    @property
    def rank(self) -> int | None:
        """The number of dimensions, where it is known."""
        return None if any(axis.block for axis in self.axes) else len(self.axes)

    @property
    def least_rank(self) -> int:
        """So many dimensions there are at least."""
        return sum(not axis.block for axis in self.axes)

    @property
    def sizes(self) -> list[Dim] | None:
        """The sizes, where the rank is known."""
        return [axis.size for axis in self.axes] if self.rank is not None else None

    def differs_in_shape(self, other: Layout) -> bool:
        """Whether two shapes certainly are different: of other ranks, of other numbers, or each with a 1 where the other has none."""
        left, right = self.sizes, other.sizes
        if left is None or right is None:
            return False
        if len(left) != len(right):
            return True
        pairs = [(first, second) for first, second in zip(left, right, strict=True) if first != second]
        if any(not first.powers and not second.powers for first, second in pairs):
            return True
        return any(first == ONE for first, _ in pairs) and any(second == ONE for _, second in pairs)

    @property
    def is_contiguous(self) -> bool:
        """Whether the tensor is contiguous, whatever the sizes."""
        stride = ONE
        for axis in reversed(self.axes):
            if axis.size == ONE:
                continue
            if axis.stride != stride:
                return False
            stride = stride * axis.size
        return True

    def position(self, dim: int) -> tuple[Layout, int] | None:
        """The layout with dimension ``dim`` told apart, and where it is; None where there is no such dimension."""
        rank = self.rank
        if rank is not None:
            at = dim if dim >= 0 else rank + dim
            return (self, at) if 0 <= at < rank else None
        if not -MOST_DIMENSIONS <= dim < MOST_DIMENSIONS:
            return None
        at = next(index for index, axis in enumerate(self.axes) if axis.block)
        if dim >= 0:
            if dim >= at and at < len(self.axes) - 1:
                # It may be one of those that were told apart from the end.
                return None
            wanted, layout = dim - at, self
            for _ in range(wanted + 1):
                layout = layout._taken(front=True)
            return layout, dim
        layout = self
        behind = len(self.axes) - 1 - at
        for _ in range(-dim - behind):
            layout = layout._taken(front=False)
        return layout, len(layout.axes) + dim

    def _with_both(self, one: int, other: int) -> Layout | None:
        """With two dimensions told apart, first the one that is counted from the front."""
        layout: Layout | None = self
        for dim in sorted((one, other), key=lambda dim: dim < 0):
            found = layout.position(dim) if layout is not None else None
            layout = found[0] if found is not None else None
        return layout

    def _taken(self, front: bool) -> Layout:
        """With one more axis told apart from the block."""
        at = next(index for index, axis in enumerate(self.axes) if axis.block)
        block = self.axes[at]
        (symbol, _), *_ = block.size.powers
        first, rest = Dim.symbol(), Dim.symbol()
        axes = [
            Axis(axis.size, axis.stride and axis.stride.replaced(symbol, first * rest), axis.block)
            for axis in self.axes
        ]
        stride = axes[at].stride
        outer = Axis(first, stride and stride * rest) if front else Axis(rest, stride and stride * first, True)
        inner = Axis(rest, stride, True) if front else Axis(first, stride)
        axes[at : at + 1] = [outer, inner]
        return Layout(axes)

    def with_rank(self, rank: int) -> Layout | None:
        """The same tensor, its rank known; None where it cannot be that."""
        if self.rank is not None:
            return self if self.rank == rank else None
        if rank > MOST_DIMENSIONS:
            return None
        layout = self
        while layout.least_rank < rank:
            layout = layout._taken(front=True)
        if layout.least_rank > rank:
            return None
        block = next(axis for axis in layout.axes if axis.block)
        (symbol, _), *_ = block.size.powers
        return Layout(
            [
                Axis(axis.size, axis.stride and axis.stride.replaced(symbol, ONE))
                for axis in layout.axes
                if not axis.block
            ]
        )

    def size(self, dim: int) -> tuple[Layout, Dim] | None:
        """The size of one dimension, and the layout with it told apart."""
        found = self.position(dim)
        return (found[0], found[0].axes[found[1]].size) if found is not None else None

    # What keeps the memory

    def transposed(self, first: int, second: int) -> Layout | None:
        """`transpose`, `swapaxes`."""
        layout = self._with_both(first, second)
        if layout is None:
            return None
        one, two = layout.position(first), layout.position(second)
        if one is None or two is None:
            return None
        axes = list(layout.axes)
        axes[one[1]], axes[two[1]] = axes[two[1]], axes[one[1]]
        return Layout(axes)

    def permuted(self, order: Sequence[int]) -> Layout | None:
        """`permute`."""
        layout = self.with_rank(len(order))
        places = [dim if dim >= 0 else len(order) + dim for dim in order]
        if layout is None or sorted(places) != list(range(len(order))):
            return None
        return Layout([layout.axes[place] for place in places])

    def moved(self, source: int, target: int) -> Layout | None:
        """`movedim` of one dimension."""
        layout = self._with_both(source, target)
        if layout is None:
            return None
        one, two = layout.position(source), layout.position(target)
        if one is None or two is None:
            return None
        axes = list(layout.axes)
        axes.insert(two[1], axes.pop(one[1]))
        return Layout(axes)

    def unsqueezed(self, dim: int) -> Layout | None:
        """`unsqueeze`."""
        if dim == 0:
            return Layout((Axis(ONE, ONE), *self.axes))
        if dim == -1:
            return Layout((*self.axes, Axis(ONE, ONE)))
        found = self.position(dim - 1 if dim > 0 else dim + 1)
        if found is None:
            return None
        layout, at = found
        return (
            Layout((*layout.axes[: at + 1], Axis(ONE, ONE), *layout.axes[at + 1 :]))
            if dim > 0
            else Layout((*layout.axes[:at], Axis(ONE, ONE), *layout.axes[at:]))
        )

    def squeezed(self, dim: int) -> Layout | None:
        """`squeeze` of one dimension, taken to have size 1."""
        found = self.position(dim)
        if found is None:
            return None
        layout, at = found
        return Layout(layout.axes[:at] + layout.axes[at + 1 :])

    def selected(self, dim: int) -> Layout | None:
        """`select`, or an index: the dimension is gone, its neighbours keep their strides."""
        return self.squeezed(dim)

    def narrowed(self, dim: int, size: Dim | None = None, step: Dim = ONE) -> Layout | None:
        """`narrow`, or a slice."""
        found = self.position(dim)
        if found is None:
            return None
        layout, at = found
        axis = layout.axes[at]
        axes = list(layout.axes)
        axes[at] = Axis(Dim.symbol() if size is None else size, axis.stride and axis.stride * step)
        return Layout(axes)

    def expanded(self, sizes: Sequence[Dim | None]) -> Layout | None:
        """`expand`; None for a size that is kept. An axis that may have had size 1 gets an unknown stride."""
        layout: Layout | None = self
        if self.rank is None:
            layout = self.with_rank(len(sizes))
        if layout is None or len(layout.axes) > len(sizes):
            return None
        new = len(sizes) - len(layout.axes)
        axes: list[Axis] = [Axis(size or Dim.symbol(), ZERO) for size in sizes[:new]]
        for axis, size in zip(layout.axes, sizes[new:], strict=True):
            if size is None or size == axis.size:
                axes.append(axis)
            elif axis.size == ONE:
                axes.append(Axis(size, ZERO))
            else:
                axes.append(Axis(size, None))
        return Layout(axes)

    # Views

    def runs(self) -> list[list[Axis]] | None:
        """Neighbouring axes that a view may join, together; None where a stride is not known."""
        found: list[list[Axis]] = []
        for axis in self.axes:
            if axis.size == ONE:
                continue
            if axis.stride is None:
                return None
            if found and found[-1][-1].stride == axis.size * axis.stride:
                found[-1].append(axis)
            else:
                found.append([axis])
        return found

    def refuses(self, sizes: Sequence[Dim | None]) -> bool:
        """Whether `view` to ``sizes`` raises for sizes in general; None stands for -1, or a size that is not understood.

        ``False`` where that cannot be told.
        """
        if self.is_contiguous:
            return False
        if self.rank is None:
            # The block may hold axes, or be empty.
            (block,) = [axis for axis in self.axes if axis.block]
            (symbol, _), *_ = block.size.powers
            without = Layout(
                [Axis(a.size, a.stride and a.stride.replaced(symbol, ONE)) for a in self.axes if not a.block]
            )
            return without._refuses(sizes) and self._refuses(sizes)
        return self._refuses(sizes) and self._refuses_by_default(sizes)

    def _refuses_by_default(self, sizes: Sequence[Dim | None]) -> bool:
        """Whether it raises with 1 for the sizes that are 1 unless a caller says otherwise."""
        axes = [Axis(a.size.by_default, a.stride and a.stride.by_default) for a in self.axes]
        return Layout(axes)._refuses([size and size.by_default for size in sizes])

    def _refuses(self, sizes: Sequence[Dim | None]) -> bool:
        targets = [size for size in sizes if size != ONE]
        axes = [axis for axis in self.axes if axis.size != ONE]
        # A size that is kept at either end asks for nothing; what is between has to fit by itself.
        while axes and targets and axes[0].size == targets[0]:
            axes, targets = axes[1:], targets[1:]
        while axes and targets and axes[-1].size == targets[-1]:
            axes, targets = axes[:-1], targets[:-1]
        if _may_change_nothing(axes, targets):
            return False
        inner = Layout(axes)
        runs = inner.runs()
        if runs is None or len(runs) < 2:
            return False
        if _may_keep_last(axes, targets) and not Layout(axes[:-1])._refuses(targets[:-1]):
            return False
        return len(targets) < len(runs) or inner._misaligned(runs, targets)

    def _misaligned(self, runs: list[list[Axis]], targets: Sequence[Dim | None]) -> bool:
        """Whether some run must end inside a target, all sizes being understood."""
        ends: list[Dim] = []
        end = ONE
        for run in runs[:-1]:
            end = end * product(axis.size for axis in run)
            ends.append(end)
        total = end * product(axis.size for axis in runs[-1])
        own = {symbol for axis in self.axes for symbol, _ in axis.size.powers}
        targets = [size if size is not None and _understood(size, own) else None for size in targets]
        if sum(size is None for size in targets) > 1:
            return False
        known = product(size for size in targets if size is not None)
        full = [total / known if size is None else size for size in targets]
        if product(full) != total:
            return False
        reached = {ONE}
        end = ONE
        for size in full:
            end = end * size
            reached.add(end)
        return any(end not in reached for end in ends)


def _may_change_nothing(axes: Sequence[Axis], targets: Sequence[Dim | None]) -> bool:
    """Whether a view may give each axis the size that it has: a number, or what comes from elsewhere, stands for one that is not known."""
    own = {symbol for axis in axes for symbol, _ in axis.size.powers}
    return len(axes) == len(targets) and all(
        target is None
        or axis.size == target
        or (
            axis.size.value is None
            and (target.value is not None or own.isdisjoint(symbol for symbol, _ in target.powers))
        )
        for axis, target in zip(axes, targets, strict=True)
    )


def _may_keep_last(axes: Sequence[Axis], targets: Sequence[Dim | None]) -> bool:
    """Whether a number that is written down may stand for the last size, which is not known, and a -1 for what is before."""
    last = targets[-1] if targets else None
    return last is not None and last.value is not None and axes[-1].size.value is None and None in targets[:-1]


def _understood(size: Dim, own: Set[object]) -> bool:
    """Whether a size is made of the symbols of the tensor's own sizes; it may be divided by others."""
    return size.factor > 0 and all(power < 0 or symbol in own for symbol, power in size.powers)

"""Transfer functions of layouts, as PyTorch's meta functions are: sizes and strides of a result, from those of what it is made of.

Which operators keep strides, make a new contiguous tensor or a view is in PyTorch's documentation of tensor views
(<https://pytorch.org/docs/stable/tensor_view.html>); where it is silent, tests run the operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout, product


def like(layout: Layout | None) -> Layout | None:
    """A tensor of the same shape: contiguous if the other is."""
    if layout is None or layout.is_contiguous:
        return layout
    return forgotten(layout)


def forgotten(layout: Layout | None) -> Layout | None:
    """The same sizes, with strides that are not known."""
    if layout is None:
        return None
    return Layout([Axis(axis.size, None, axis.block) for axis in layout.axes])


def packed(layout: Layout | None) -> Layout | None:
    """The same sizes, contiguous."""
    if layout is None:
        return None
    axes: list[Axis] = []
    stride = ONE
    for axis in reversed(layout.axes):
        axes.append(Axis(axis.size, stride, axis.block))
        stride = stride * axis.size
    return Layout(axes[::-1])


def viewed(layout: Layout | None, sizes: Sequence[Dim | None] | None) -> Layout | None:
    """The layout of a view that is legal; None where it is not understood."""
    if layout is None or sizes is None:
        return None
    if layout.is_contiguous:
        return Layout.contiguous(filled(layout, sizes))
    runs = layout.runs() if layout.rank is not None else None
    full = filled(layout, sizes)
    if runs is None:
        return forgotten(Layout.contiguous(full))
    axes: list[Axis] = []
    pending = list(full)
    for run in runs:
        left = product(axis.size for axis in run)
        taken: list[Dim] = []
        while pending and (left != ONE or pending[0] == ONE):
            size = pending.pop(0)
            taken.append(size)
            left = left / size
        if left != ONE:
            return forgotten(Layout.contiguous(full))
        stride = run[-1].stride
        part: list[Axis] = []
        for size in reversed(taken):
            part.append(Axis(size, stride))
            stride = stride and stride * size
        axes.extend(reversed(part))
    if any(size != ONE for size in pending):
        return forgotten(Layout.contiguous(full))
    axes.extend(Axis(ONE, ONE) for _ in pending)
    return Layout(axes)


def filled(layout: Layout, sizes: Sequence[Dim | None]) -> list[Dim]:
    """Target sizes with the one that is left out, if it is one, filled in."""
    if sum(size is None for size in sizes) == 1:
        total = product(axis.size for axis in layout.axes)
        known = product(size for size in sizes if size is not None)
        rest = total / known if known.factor else Dim.symbol()
        # What is a fraction in symbols is a whole number where the view is possible at all.
        return [rest if size is None else size for size in sizes]
    return [Dim.symbol() if size is None else size for size in sizes]


def reduced(layout: Layout | None, dims: Sequence[int] | None, keep: bool) -> Layout | None:
    """What is left of the axes of a tensor after a reduction."""
    if layout is None:
        return None
    if dims is None:
        return Layout(())
    rank = layout.rank
    found: Layout | None = layout
    if rank is None:
        for dim in dims:
            place = found.position(dim) if found is not None else None
            found = place[0] if place is not None else None
    if found is None:
        return None
    gone = set()
    for dim in dims:
        place = found.position(dim)
        if place is None:
            return None
        gone.add(place[1])
    axes = [Axis(ONE, ONE) if at in gone else axis for at, axis in enumerate(found.axes) if keep or at not in gone]
    result = packed(Layout(axes))
    return result if layout.is_contiguous else forgotten(result)


def broadcast(layouts: Sequence[Layout | None]) -> Layout | None:
    """The result of an operator that broadcasts, as far as that can be told from its operands."""
    if not layouts or any(layout is None for layout in layouts):
        return None
    known = [layout for layout in layouts if layout is not None]
    if len(known) == 1:
        return like(known[0])
    ranks = [layout.rank for layout in known]
    if None in ranks:
        shapes = {tuple((axis.size, axis.block) for axis in layout.axes) for layout in known}
        if len(shapes) == 1 and all(layout.is_contiguous for layout in known):
            return known[0]
        scalars = [layout for layout in known if layout.rank != 0]
        return like(scalars[0]) if len(scalars) == 1 else None
    widest = max(known, key=lambda layout: layout.rank or 0)
    sizes: list[Dim] = []
    for at in range(1, (widest.rank or 0) + 1):
        here = [layout.axes[-at].size for layout in known if (layout.rank or 0) >= at]
        others = {size for size in here if size != ONE}
        # A size that is a number is that of the result: the others are the same, or 1.
        number = next((size for size in here if size.value is not None and size != ONE), here[0])
        sizes.insert(0, ONE if not others else next(iter(others)) if len(others) == 1 else number)
    result = Layout.contiguous(sizes)
    return result if all(layout.is_contiguous for layout in known) else forgotten(result)


def multiplied(left: Layout | None, right: Layout | None) -> Layout | None:
    """`matmul`: a new contiguous tensor, whatever it is given."""
    if left is None or right is None or left.rank is None or right.rank is None:
        # A stack of matrices is taken to be multiplied by one like it.
        rank = next((layout.rank for layout in (left, right) if layout is not None and layout.rank), 0)
        return Layout.contiguous([Dim.symbol() for _ in range(rank)]) if rank > 2 else Layout.unranked()
    if left.rank == 1 or right.rank == 1:
        return Layout.contiguous([Dim.symbol() for _ in range(max(left.rank, right.rank) - 1)])
    wide = left if left.rank >= right.rank else right
    sizes = [axis.size for axis in wide.axes[:-2]]
    return Layout.contiguous([*sizes, left.axes[-2].size, right.axes[-1].size])


def contracted(equation: str, layouts: Sequence[Layout | None]) -> Layout | None:
    """`einsum`: where two tensors are multiplied as matrices, the result lies in the order batch, left, right."""
    before, arrow, out = equation.replace(" ", "").partition("->")
    labels = before.split(",")
    if not arrow or "." in equation or len(labels) != len(layouts):
        return None
    sizes: dict[str, Dim] = {}
    for names, layout in zip(labels, layouts, strict=True):
        ranked = layout.with_rank(len(names)) if layout is not None else None
        for name, axis in zip(names, ranked.axes if ranked is not None else (), strict=False):
            sizes.setdefault(name, axis.size)
    made = Layout.contiguous([sizes.get(name) or Dim.symbol() for name in out])
    if len(labels) != 2 or any(len(set(names)) != len(names) for names in labels):
        return forgotten(made)
    left, right = map(set, labels)
    kinds = [0 if name in left and name in right else 1 if name in left else 2 for name in out]
    of_one = [kind for kind in kinds if kind]
    if not (left & right) - set(out) or of_one != sorted(of_one):
        return forgotten(made)
    order = sorted(range(len(out)), key=lambda at: kinds[at])
    ordered = Layout.contiguous([made.axes[at].size for at in order])
    return Layout([ordered.axes[order.index(at)] for at in range(len(out))])

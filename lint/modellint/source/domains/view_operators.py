"""The operators whose result shares memory with the tensor that they are given."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.derived_tensors import derived, view_of
from modellint.source.domains.dimension_arguments import dim_of, ints_of, sizes_of
from modellint.source.domains.layout_transfer import filled, forgotten, packed, viewed
from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout, product
from modellint.source.domains.symbolic_numbers import int_of
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Container, Named, Value

if TYPE_CHECKING:
    from modellint.source.engine.arguments import Arguments


def apply_view(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value:
    """The result of an operator that shares memory with its tensor."""
    layout = tensor.layout
    values = arguments.positional
    known = layout is not None and not arguments.spread
    match name:
        case "detach" | "data":
            made = view_of(node, layout, name, tensor)
            made.grad = False
            return made
        case "contiguous":
            if layout is not None and layout.is_contiguous:
                return tensor
            made = derived(node, packed(layout), name, [tensor], quiet)
            made.base = tensor
            return made
        case "view" | "reshape" | "view_as" | "reshape_as":
            return _viewed(name, tensor, arguments, node, quiet)
        case "flatten" | "ravel":
            return _flattened(tensor, arguments, node, quiet)
        case "unflatten":
            return view_of(node, _unflattened(layout, arguments), name, tensor)
        case "chunk" | "split" | "unbind" | "tensor_split" | "unsafe_chunk":
            return _parts(name, tensor, arguments, node)
        case "index_select":
            return derived(node, None, name, [tensor], quiet)
    made_layout: Layout | None = None
    if known and layout is not None:
        made_layout = _moved(name, layout, values, arguments)
    elif name == "permute" and not arguments.spread:
        order = ints_of([arguments.keywords["dims"]] if "dims" in arguments.keywords else values)
        # Its rank shows, if nothing else.
        made_layout = forgotten(Layout.contiguous([Dim.symbol() for _ in order])) if order else None
    made = view_of(node, made_layout, name, tensor)
    return made.unbatched() if name in ("select", "squeeze") and int_of(arguments.get(0, "dim")) == 0 else made


def _moved(name: str, layout: Layout, values: Sequence[Value], arguments: Arguments) -> Layout | None:
    match name:
        case "transpose" | "swapaxes" | "swapdims":
            first = int_of(arguments.get(0, "dim0") or arguments.keywords.get("axis0"))
            second = int_of(arguments.get(1, "dim1") or arguments.keywords.get("axis1"))
            return layout.transposed(first, second) if first is not None and second is not None else None
        case "t":
            return layout if layout.rank == 1 else _swapped_matrix(layout)
        case "T" | "H":
            if layout.rank is None:
                return _swapped_matrix(layout)
            return Layout(layout.axes[::-1])
        case "mT" | "adjoint" | "mH":
            return layout.transposed(-2, -1)
        case "permute":
            dims = arguments.keywords.get("dims")
            order = ints_of([dims] if dims is not None else values)
            return layout.permuted(order) if order is not None else None
        case "movedim" | "moveaxis":
            source, target = int_of(arguments.get(0, "source")), int_of(arguments.get(1, "destination"))
            return layout.moved(source, target) if source is not None and target is not None else None
        case "expand":
            sizes = values
            if len(values) == 1 and isinstance(values[0], Container):
                if not values[0].exact:
                    return None
                sizes = values[0].items
            return layout.expanded([None if int_of(value) == -1 else dim_of(value) or Dim.symbol() for value in sizes])
        case "unsqueeze":
            dim = int_of(arguments.get(0, "dim"))
            return layout.unsqueezed(dim) if dim is not None else None
        case "squeeze":
            dim = int_of(arguments.get(0, "dim"))
            # A dimension that has another size stays.
            made = layout.squeezed(dim) if dim is not None else None
            found = layout.position(dim) if dim is not None else None
            return made if found is not None and found[0].axes[found[1]].size == ONE else None
        case "select":
            dim = int_of(arguments.get(0, "dim"))
            return layout.selected(dim) if dim is not None else None
        case "narrow":
            dim = int_of(arguments.get(0, "dim"))
            return layout.narrowed(dim, dim_of(arguments.get(2, "length"))) if dim is not None else None
        case "unfold":
            dim = int_of(arguments.get(0, "dimension"))
            found = layout.position(dim) if dim is not None else None
            if found is None:
                return None
            axis = found[0].axes[found[1]]
            step = dim_of(arguments.get(2, "step"))
            axes = list(found[0].axes)
            axes[found[1]] = Axis(Dim.symbol(), axis.stride * step if axis.stride and step else None)
            window = dim_of(arguments.get(1, "size")) or Dim.symbol()
            return Layout([*axes, Axis(window, axis.stride)])
        case "alias" | "real" if name == "alias":
            return layout
    return None


def _swapped_matrix(layout: Layout) -> Layout | None:
    """A matrix whose dimensions change places. What nobody knows to have two may be a row, which stays as it lies in memory."""
    swapped = _swapped(layout.with_rank(2))
    return swapped if swapped is None or layout.least_rank >= 2 else forgotten(swapped)


def _swapped(layout: Layout | None) -> Layout | None:
    return layout.transposed(0, 1) if layout is not None else None


def _target(name: str, arguments: Arguments) -> list[Dim | None] | None:
    if name.endswith("_as"):
        other = arguments.get(0)
        layout = other.layout if isinstance(other, Tensor) else None
        return list(layout.sizes) if layout is not None and layout.sizes is not None else None
    given = arguments.keywords.get("shape") or arguments.keywords.get("size")
    return sizes_of([given] if given is not None else arguments.positional, arguments.spread)


def is_reinterpreted(arguments: Arguments) -> bool:
    """Whether a `view` is of the bits, `view(dtype)`, not of the shape."""
    return any(isinstance(value, Named) for value in arguments.positional) or "dtype" in arguments.keywords


def _viewed(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value:
    layout = tensor.layout
    if name == "view" and is_reinterpreted(arguments):
        return view_of(node, None, name, tensor)
    sizes = _target(name, arguments)
    refuses = layout is not None and sizes is not None and layout.refuses(sizes)
    if name.startswith("view"):
        if layout is not None and layout.is_contiguous and sizes is not None:
            made = view_of(node, viewed(layout, sizes), name, tensor)
        elif layout is not None and layout.is_contiguous:
            made = view_of(node, Layout.unranked(), name, tensor)
        elif refuses or layout is None:
            made = view_of(node, None, name, tensor)
        else:
            made = view_of(node, viewed(layout, sizes), name, tensor)
        made.refused = refuses
        return made
    if layout is not None and sizes is not None and (layout.is_contiguous or refuses):
        target = Layout.contiguous(filled(layout, sizes))
        if refuses:
            made = derived(node, target, name, [tensor], quiet)
            made.base = tensor
            return made
        return view_of(node, target, name, tensor)
    made_layout = viewed(layout, sizes)
    if sizes is None and layout is not None and layout.is_contiguous:
        made_layout = Layout.unranked()
    if made_layout is None and sizes is not None:
        made_layout = forgotten(Layout.contiguous([Dim.symbol() if size is None else size for size in sizes]))
    return view_of(node, made_layout, name, tensor)


def _flattened(tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value:
    layout = tensor.layout
    start = 0 if arguments.get(0, "start_dim") is None else int_of(arguments.get(0, "start_dim"))
    end = -1 if arguments.get(1, "end_dim") is None else int_of(arguments.get(1, "end_dim"))
    if layout is None or start is None or end is None:
        return view_of(node, None, "flatten", tensor)
    if layout.rank is None and end == -1 and start >= 0:
        found: Layout | None = layout
        if start:
            place = layout.position(start - 1)
            found = place[0] if place is not None else None
        if found is None or not found.is_contiguous:
            return view_of(node, None, "flatten", tensor)
        kept = [axis.size for axis in found.axes[:start]]
        return view_of(node, Layout.contiguous([*kept, Dim.symbol()]), "flatten", tensor)
    if layout.rank is None or layout.rank == 0:
        return view_of(node, None, "flatten", tensor)
    first, last = start % layout.rank, end % layout.rank
    sizes = [axis.size for axis in layout.axes]
    target = [*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]]
    if layout.is_contiguous:
        return view_of(node, Layout.contiguous(target), "flatten", tensor)
    if layout.refuses(list(target)):
        made = derived(node, Layout.contiguous(target), "flatten", [tensor], quiet)
        made.base = tensor
        return made
    return view_of(node, viewed(layout, list(target)), "flatten", tensor)


def _unflattened(layout: Layout | None, arguments: Arguments) -> Layout | None:
    dim = int_of(arguments.get(0, "dim"))
    given = arguments.get(1, "sizes")
    sizes = sizes_of([given], []) if given is not None else None
    if layout is None or dim is None or sizes is None:
        return None
    found = layout.position(dim)
    if found is None:
        return None
    axis = found[0].axes[found[1]]
    whole = Layout((Axis(axis.size, axis.stride),))
    inner = viewed(whole, sizes) if axis.stride is not None else None
    if inner is None:
        split = Layout.contiguous([part or Dim.symbol() for part in sizes]).axes
        return forgotten(Layout((*found[0].axes[: found[1]], *split, *found[0].axes[found[1] + 1 :])))
    axes = [Axis(part.size, part.stride and axis.stride and part.stride) for part in _scaled(inner, axis)]
    return Layout([*found[0].axes[: found[1]], *axes, *found[0].axes[found[1] + 1 :]])


def _scaled(inner: Layout, axis: Axis) -> Sequence[Axis]:
    """The axes that one axis is split into, with its stride."""
    made: list[Axis] = []
    stride = axis.stride
    for part in reversed(inner.axes):
        made.append(Axis(part.size, stride))
        stride = stride and stride * part.size
    return made[::-1]


def _parts(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None) -> Value:
    layout = tensor.layout
    at = 0 if name == "unbind" else 1
    given = arguments.get(at, "dim")
    dim = 0 if given is None else int_of(given)
    part: Layout | None = None
    if layout is not None and dim is not None and not arguments.spread:
        if name == "unbind":
            part = layout.selected(dim)
        else:
            # A part may turn out to have size 1, as each half of a pair has: then its neighbours nest.
            size = dim_of(arguments.get(0)) if name == "split" else None
            part = layout.narrowed(dim, size)
            if size is None and dim != 0:
                part = forgotten(part)
    made = view_of(node, part, name, tensor)
    if name == "unbind" and dim == 0:
        made.unbatched()
    count = int_of(arguments.get(0, "chunks")) if name in ("chunk", "unsafe_chunk") else None
    if count is not None and 0 < count <= 16:
        return Container("tuple", node, [made] * count, exact=True)
    return Container("tuple", node, [made])

"""What each of torch's operators makes of the tensors that it is given."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source import tensors
from modellint.source.layout import ONE, Axis, Dim, Layout, product
from modellint.source.tensors import Opaque, OpaqueNumber, Shape, Size, Tensor, int_of, like
from modellint.source.values import (
    NUMBER,
    UNKNOWN,
    Argument,
    Const,
    Container,
    Instance,
    Method,
    Named,
    Number,
    Union,
    Value,
    alternatives,
    union,
)

if TYPE_CHECKING:
    from modellint.source.calls import Arguments


def dim_of(value: Value | None) -> Dim | None:
    """A value as a size; None where it is not understood."""
    match value:
        case Union():
            # `def __init__(self, heads=1)`: whatever the caller says.
            parts = [part for part in value.values if not isinstance(part, Const)]
            dims = {dim_of(part) for part in parts}
            return dims.pop() if len(dims) == 1 else None
        case Const(value=bool()):
            return None
        case Const(value=int() as number):
            return Dim.of(number) if number >= 0 else None
        case Size() | OpaqueNumber() | Opaque():
            return value.dim
        case Tensor():
            return None if value.certain else value.dim
        case Instance(kind="unresolved"):
            return Dim.symbol(("made", id(value)))
        case Argument() if not isinstance(value, Tensor):
            return Dim.symbol(("argument", id(value)))
        case Method(receiver=Argument() as receiver, name=name):
            return Dim.symbol(("attribute", id(receiver), name))
    return None


def sizes_of(values: Sequence[Value], spread: Sequence[Value]) -> list[Dim | None] | None:
    """The sizes that an operator is given, one by one or in one tuple; None where not even their number is known."""
    if spread:
        return None
    if len(values) == 1:
        only = values[0]
        if isinstance(only, Container):
            if not only.exact:
                return None
            values = only.items
        elif isinstance(only, Shape):
            layout = only.tensor.layout
            return None if layout is None or layout.sizes is None else list(layout.sizes)
        elif isinstance(only, Union):
            if not _is_count(only):
                return _in_common(only)
        elif not isinstance(only, (Const, Size, Argument, Method, Number)):
            return None
    if any(isinstance(value, (Shape, Container)) for value in values):
        return None
    return [dim_of(value) for value in values]


def _in_common(value: Union) -> list[Dim | None] | None:
    """What several tuples of one length agree on."""
    rows = [part.items for part in value.values if isinstance(part, Container) and part.exact]
    if len(rows) != len(value.values) or len({len(row) for row in rows}) != 1:
        return None
    columns = [{dim_of(item) for item in column} for column in zip(*rows, strict=True)]
    return [column.pop() if len(column) == 1 else None for column in columns]


def _is_count(value: Union) -> bool:
    """Whether a value is a number, or whatever the caller says in the place of one."""
    numbers = [part for part in value.values if isinstance(part, Const) and type(part.value) is int]
    others = [part for part in value.values if isinstance(part, (Size, Argument, Number))]
    return bool(numbers) and len(numbers) + len(others) == len(value.values)


def ints_of(values: Sequence[Value]) -> list[int] | None:
    """Dimension numbers, one by one or in one tuple; None where they are not known."""
    if len(values) == 1 and isinstance(values[0], Container):
        if not values[0].exact:
            return None
        values = values[0].items
    found = [int_of(value) for value in values]
    return None if not found or None in found else [number for number in found if number is not None]


def tensors_in(values: Sequence[Value]) -> list[Tensor]:
    """The tensors among values, those in containers too."""
    found: list[Tensor] = []
    for value in values:
        for part in alternatives(value):
            if isinstance(part, Tensor):
                found.append(part)
            elif isinstance(part, Container) and part.kind != "dict":
                found.extend(tensors_in(part.items))
    return found


def size(tensor: Tensor, dim: int) -> Value:
    """`tensor.size(dim)`."""
    if tensor.layout is None:
        return NUMBER
    found = tensor.layout.size(dim)
    if found is None:
        return NUMBER
    # Telling a dimension apart assumes nothing but that there is one.
    tensor.layout = found[0]
    return Size(found[1])


_PERMUTING = frozenset(
    {"einsum", "rearrange", "meshgrid", "broadcast_tensors", "fold", "topk", "sort", "argsort", "stft", "istft"}
)
"""Operators whose results may be strided whatever they are given."""


def derived(node: ast.AST | None, layout: Layout | None, name: str, parts: Sequence[Tensor], quiet: bool) -> Tensor:
    """A new tensor that an operator computes from others; ``quiet`` under `no_grad`."""
    grad = False if quiet else tensors.carries_graph(name, [part.grad for part in parts])
    assumed = any(part.assumed for part in parts)
    if (
        layout is None
        and name not in _PERMUTING
        and all(p.layout is not None and p.layout.is_contiguous for p in parts)
    ):
        layout, assumed = Layout.unranked(), True
    return Tensor(
        node,
        layout,
        certain=any(part.certain for part in parts),
        assumed=assumed,
        grad=grad,
        made_by=name,
        batch=tensors.batch_of(parts),
        shown=any(part.shown for part in parts),
    )


def view_of(node: ast.AST | None, layout: Layout | None, name: str, tensor: Tensor) -> Tensor:
    """A tensor that shares another's memory."""
    return Tensor(
        node,
        layout,
        certain=tensor.certain,
        assumed=tensor.assumed,
        grad=tensor.grad,
        base=tensor,
        made_by=name,
        batch=tensor.batch,
        shown=tensor.shown,
    )


def apply_operator(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value | None:
    """The result of the operator ``name`` on ``tensor``, the other arguments behind it; None where it is not known."""
    if name in tensors.VIEWS:
        return _view(name, tensor, arguments, node, quiet)
    layout = tensor.layout
    parts = [tensor, *tensors_in(arguments.everything())]
    if name == "type" and not arguments.everything():
        return UNKNOWN
    if name in tensors.IN_PLACE_LAYOUT:
        tensor.layout = None
        return tensor
    if name in ("softmax", "log_softmax", "layer_norm", "tril", "triu", "flip", "roll", "group_norm", "batch_norm"):
        return derived(node, tensors.packed(layout), name, parts, quiet)
    if name == "linear":
        return derived(node, with_last(layout, Dim.symbol()), name, parts, quiet)
    if name.endswith("_") and not name.endswith("__"):
        return tensor
    if name in tensors.SAME:
        if name in ("to", "type", "type_as"):
            # The other tensor only says of what type.
            parts = [tensor]
        if name in ("to", "type", "cuda", "cpu", "float") and not quiet:
            made = derived(node, like(layout), name, [tensor], quiet)
            # It is the same tensor where nothing has to change.
            made.base = tensor
            return made
        return derived(node, like(layout), name, parts, quiet)
    if name in tensors.BINARY:
        others = [part for part in arguments.positional if isinstance(part, Tensor)]
        unknown = any(not isinstance(part, (Tensor, Const, Size)) for part in arguments.positional)
        made_layout = None if unknown else tensors.broadcast([layout, *(part.layout for part in others)])
        return derived(node, made_layout, name, parts, quiet)
    if name in tensors.REDUCTIONS:
        return _reduction(name, tensor, arguments, node, quiet, parts)
    if name in ("matmul", "bmm", "mm", "baddbmm", "addmm"):
        others = [part for part in arguments.positional if isinstance(part, Tensor)]
        other = others[0].layout if others and name in ("matmul", "bmm", "mm") else None
        if name in ("bmm", "baddbmm", "mm", "addmm"):
            rank = 3 if "bmm" in name else 2
            # What is added is broadcast to the product.
            layout = layout.with_rank(rank) if layout is not None and name in ("bmm", "mm") else None
            other = other.with_rank(rank) if other is not None else None
            sizes = (
                [axis.size for axis in layout.axes[:-1]]
                if layout is not None
                else [Dim.symbol() for _ in range(rank - 1)]
            )
            sizes.append(other.axes[-1].size if other is not None else Dim.symbol())
            return derived(node, Layout.contiguous(sizes), name, parts, quiet)
        return derived(node, tensors.multiplied(layout, other), name, parts, quiet)
    if name in tensors.LIKE:
        grad_free = Tensor(node, like(layout) if name.endswith("_like") else None, "constant", made_by=name)
        if name in ("new_zeros", "new_ones", "new_full", "new_empty"):
            grad_free.layout = made_of_sizes(name, arguments)
        return grad_free
    if name in ("size", "shape"):
        dim = int_of(arguments.get(0, "dim"))
        return size(tensor, dim) if dim is not None else Shape(tensor) if not arguments.everything() else NUMBER
    if name in ("dim", "ndim", "ndimension"):
        return Const(tensor.rank) if tensor.rank is not None else NUMBER
    if name in (
        "numel",
        "item",
        "tolist",
        "stride",
        "nelement",
        "element_size",
        "is_contiguous",
        "data_ptr",
        "__len__",
    ):
        return NUMBER if name != "tolist" else UNKNOWN
    if name in ("numpy", "is_floating_point", "get_device", "backward", "register_hook", "storage", "apply_"):
        return UNKNOWN
    if name in ("topk", "sort", "kthvalue", "mode", "cummax", "cummin"):
        values = derived(node, tensors.forgotten(layout), name, parts, quiet)
        return Container(
            "tuple", node, [values, derived(node, tensors.forgotten(layout), "argsort", parts, quiet)], True
        )
    if name == "clone":
        dense = layout is not None and layout.is_contiguous
        with_format = "memory_format" in arguments.keywords
        kept = tensors.packed(layout) if dense or with_format else tensors.forgotten(layout)
        return derived(node, kept, name, [tensor], quiet)
    if name in ("repeat", "tile"):
        return derived(node, _repeated(layout, arguments), name, parts, quiet)
    if name in ("repeat_interleave", "gather", "index_select", "take_along_dim"):
        ranked = tensors.packed(layout)
        made_layout = None
        if ranked is not None and ranked.rank is not None:
            made_layout = Layout.contiguous([Dim.symbol() for _ in range(ranked.rank)])
        return derived(node, made_layout, name, parts, quiet)
    if name == "pad" and layout is not None and layout.rank is not None:
        return derived(node, Layout.contiguous([Dim.symbol() for _ in range(layout.rank)]), name, parts, quiet)
    if name in ("interpolate", "upsample", "max_pool2d", "avg_pool2d", "max_pool1d", "avg_pool1d", "max_pool3d"):
        return derived(node, pooled(layout), name, parts, quiet)
    if name.startswith("adaptive_") and _is_one(arguments.get(0, "output_size")):
        return derived(node, pooled_to_one(layout, int(name[-2])), name, parts, quiet)
    if name.startswith(("conv1d", "conv2d", "conv3d", "conv_transpose", "adaptive_")):
        return derived(node, pooled(layout), name, parts, quiet)
    return None


def made_of_sizes(name: str, arguments: Arguments) -> Layout | None:
    """The layout of what a factory makes."""
    if name in ("arange", "linspace", "logspace", "randperm", "range") or name.endswith("_window"):
        return Layout.contiguous([Dim.symbol()])
    if name in ("tril_indices", "triu_indices"):
        return Layout.contiguous([Dim.of(2), Dim.symbol()])
    if name == "eye":
        first = dim_of(arguments.get(0, "n")) or Dim.symbol()
        second = dim_of(arguments.get(1, "m")) if len(arguments.positional) > 1 else first
        return Layout.contiguous([first, second or Dim.symbol()])
    if name in ("tensor", "as_tensor"):
        return tensors.depth_of(arguments.get(0))
    if name in ("from_numpy", "normal", "bernoulli", "complex", "polar") or (name.endswith("Tensor")):
        return tensors.depth_of(arguments.get(0)) if isinstance(arguments.get(0), Container) else None
    if name in ("full", "new_full"):
        values = arguments.positional[:1]
    elif name == "randint":
        values = list[Value](value for value in arguments.positional if isinstance(value, Container))[:1]
    else:
        values = arguments.positional
    size_argument = arguments.keywords.get("size")
    if size_argument is not None:
        values = [size_argument]
    if not values:
        return None
    found = sizes_of(values, arguments.spread)
    return None if found is None else Layout.contiguous([Dim.symbol() if dim is None else dim for dim in found])


def with_last(layout: Layout | None, last: Dim) -> Layout | None:
    """A new contiguous tensor of the same shape but for its last dimension."""
    if layout is None:
        return None
    found = layout.position(-1)
    if found is None:
        return None
    axes = list(found[0].axes)
    axes[found[1]] = Axis(last, ONE)
    return tensors.packed(Layout(axes))


def pooled(layout: Layout | None) -> Layout | None:
    """A new tensor of the same rank and batch size, its other sizes not known."""
    if layout is None or layout.rank is None:
        return None
    made = Layout.contiguous([layout.axes[0].size, *(Dim.symbol() for _ in layout.axes[1:])])
    return made if layout.is_contiguous else tensors.forgotten(made)


def _is_one(value: Value | None) -> bool:
    items = value.items if isinstance(value, Container) and value.exact else [value]
    return bool(items) and all(int_of(item) == 1 for item in items)


def pooled_to_one(layout: Layout | None, count: int) -> Layout | None:
    """What is left of a tensor when its last dimensions are pooled to size 1."""
    found = layout.position(-count) if layout is not None else None
    if layout is None or found is None:
        return None
    kept = found[0].axes[: len(found[0].axes) - count]
    made = tensors.packed(Layout([*kept, *(Axis(ONE, ONE) for _ in range(count))]))
    return made if layout.is_contiguous else tensors.forgotten(made)


def _repeated(layout: Layout | None, arguments: Arguments) -> Layout | None:
    counts = sizes_of(arguments.positional, arguments.spread)
    if counts is None:
        return None
    if layout is None or layout.rank is None or layout.rank > len(counts):
        return Layout.contiguous([Dim.symbol() for _ in counts])
    sizes = [ONE] * (len(counts) - layout.rank) + [axis.size for axis in layout.axes]
    return Layout.contiguous(
        [Dim.symbol() if many is None else one * many for one, many in zip(sizes, counts, strict=True)]
    )


def _reduction(
    name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool, parts: Sequence[Tensor]
) -> Value:
    at = 1 if name == "norm" else 0
    given = arguments.get(at, "dim") or arguments.keywords.get("axis")
    if isinstance(given, Tensor):
        # `torch.max(x, y)` compares two tensors.
        return derived(node, tensors.broadcast([tensor.layout, given.layout]), name, parts, quiet)
    if given is None or (isinstance(given, Const) and given.value is None):
        return derived(node, Layout(()) if not arguments.spread else None, name, parts, quiet).unbatched()
    dims = ints_of([given])
    keep = arguments.get(at + 1, "keepdim")
    if dims is None or not (keep is None or isinstance(keep, Const)):
        layout = None
    else:
        layout = tensors.reduced(tensor.layout, dims, isinstance(keep, Const) and bool(keep.value))
    made = derived(node, layout, name, parts, quiet)
    if dims is not None and 0 in dims:
        made.unbatched()
    if name in ("max", "min", "median"):
        return Container("tuple", node, [made, derived(node, layout, "argmax", parts, quiet)], True)
    return made


def _view(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value:
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
            made = derived(node, tensors.packed(layout), name, [tensor], quiet)
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
        made_layout = tensors.forgotten(Layout.contiguous([Dim.symbol() for _ in order])) if order else None
    made = view_of(node, made_layout, name, tensor)
    return made.unbatched() if name in ("select", "squeeze") and int_of(arguments.get(0, "dim")) == 0 else made


def _moved(name: str, layout: Layout, values: Sequence[Value], arguments: Arguments) -> Layout | None:
    match name:
        case "transpose" | "swapaxes" | "swapdims":
            first = int_of(arguments.get(0, "dim0") or arguments.keywords.get("axis0"))
            second = int_of(arguments.get(1, "dim1") or arguments.keywords.get("axis1"))
            return layout.transposed(first, second) if first is not None and second is not None else None
        case "t":
            return layout if layout.rank == 1 else _swapped(layout.with_rank(2))
        case "T" | "H":
            if layout.rank is None:
                return _swapped(layout.with_rank(2))
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
            made = view_of(node, tensors.viewed(layout, sizes), name, tensor)
        elif layout is not None and layout.is_contiguous:
            made = view_of(node, Layout.unranked(), name, tensor)
        elif refuses or layout is None:
            made = view_of(node, None, name, tensor)
        else:
            made = view_of(node, tensors.viewed(layout, sizes), name, tensor)
        made.refused = refuses
        return made
    if layout is not None and sizes is not None and (layout.is_contiguous or refuses):
        target = Layout.contiguous(tensors.filled(layout, sizes))
        if refuses:
            made = derived(node, target, name, [tensor], quiet)
            made.base = tensor
            return made
        return view_of(node, target, name, tensor)
    made_layout = tensors.viewed(layout, sizes)
    if sizes is None and layout is not None and layout.is_contiguous:
        made_layout = Layout.unranked()
    if made_layout is None and sizes is not None:
        made_layout = tensors.forgotten(Layout.contiguous([Dim.symbol() if size is None else size for size in sizes]))
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
    return view_of(node, tensors.viewed(layout, list(target)), "flatten", tensor)


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
    inner = tensors.viewed(whole, sizes) if axis.stride is not None else None
    if inner is None:
        split = Layout.contiguous([part or Dim.symbol() for part in sizes]).axes
        return tensors.forgotten(Layout((*found[0].axes[: found[1]], *split, *found[0].axes[found[1] + 1 :])))
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
                part = tensors.forgotten(part)
    made = view_of(node, part, name, tensor)
    if name == "unbind" and dim == 0:
        made.unbatched()
    count = int_of(arguments.get(0, "chunks")) if name in ("chunk", "unsafe_chunk") else None
    if count is not None and 0 < count <= 16:
        return Container("tuple", node, [made] * count, exact=True)
    return Container("tuple", node, [made])


def module_output(module: Instance, given: Value | None, node: ast.AST, quiet: bool) -> Value:
    """What calling a module gives, as far as its class tells."""
    if not isinstance(given, Tensor):
        parts = tensors_in([given]) if given is not None else []
        made_of = tensors.batch_of(parts)
        return Tensor(
            node, Layout.unranked(), "unseen", certain=False, grad=_graph(parts, quiet), assumed=True, batch=made_of
        )
    path, _, name = module.name.rpartition(".")
    layout = given.layout
    if not path.startswith("torch.nn"):
        return Tensor(
            node,
            Layout.unranked(),
            "unseen",
            certain=False,
            grad=_graph([given], quiet),
            assumed=True,
            batch=given.batch,
        )
    grad = _graph([given], quiet)

    def made(result: Layout | None, certain: bool = True) -> Tensor:
        assumed = given.assumed
        return Tensor(node, result, certain=certain, assumed=assumed, grad=grad, made_by=name, batch=given.batch)

    if name == "Identity":
        return given
    if name == "Sequential":
        value: Value = given
        for held in module.held:
            if not isinstance(held, Instance) or held.kind != "module" or not held.name.startswith("torch.nn."):
                return Tensor(
                    node, Layout.unranked(), "unseen", certain=False, grad=grad, assumed=True, batch=given.batch
                )
            value = module_output(held, value, node, quiet)
        is_empty = isinstance(module.node, ast.Call) and not module.node.args
        return value if module.held or is_empty else made(None)
    if name == "Linear":
        features = _literal(module, 1, "out_features")
        return made(with_last(layout, Dim.symbol(("features", id(module))) if features is None else Dim.of(features)))
    if name in tensors.CONVOLUTIONS:
        ranked = layout.with_rank(int(name[-2]) + 2) if layout is not None else None
        result = pooled(ranked)
        if result is None:
            result = tensors.forgotten(Layout.contiguous([Dim.symbol() for _ in range(int(name[-2]) + 2)]))
        return made(result)
    if name in tensors.ACTIVATIONS:
        return made(tensors.packed(layout) if name.endswith("oftmax") else like(layout))
    if name.startswith(("LayerNorm", "GroupNorm", "BatchNorm")):
        return made(tensors.packed(layout))
    if name.startswith(tensors.NORMS):
        return made(like(layout))
    if name.startswith("Adaptive") and _literal(module, 0, "output_size") == 1:
        return made(pooled_to_one(layout, int(name[-2])))
    if name.startswith(tensors.POOLS):
        return made(pooled(layout))
    if name == "Embedding":
        if layout is None or layout.rank is None:
            return made(None)
        return made(Layout.contiguous([*(axis.size for axis in layout.axes), Dim.symbol()]))
    if name == "Flatten":
        return made(None)
    return made(None, certain=False)


def _literal(module: Instance, index: int, keyword: str) -> int | None:
    """An argument that a module of torch is made with, where it is written as a number, or as a tuple of equal numbers."""
    if not isinstance(module.node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in module.node.args):
        return None
    given = next((word.value for word in module.node.keywords if word.arg == keyword), None)
    if given is None and index < len(module.node.args):
        given = module.node.args[index]
    numbers = {
        part.value if isinstance(part, ast.Constant) and type(part.value) is int else None
        for part in (given.elts if isinstance(given, ast.Tuple) else [given])
    }
    return numbers.pop() if len(numbers) == 1 else None


def _graph(parts: Sequence[Tensor], quiet: bool) -> bool | None:
    if quiet:
        return False
    return True if any(part.grad for part in parts) or not parts else None


def _keeps_order(tensor: Tensor) -> bool:
    """Whether a tensor is contiguous, or a part of one that is: what is joined of such is contiguous."""
    while tensor.made_by in ("chunk", "split", "index", "select", "narrow", "unbind") and tensor.base is not None:
        tensor = tensor.base
    return tensor.layout is not None and tensor.layout.is_contiguous


def joined(name: str, arguments: Arguments, node: ast.AST, quiet: bool) -> Tensor:
    """`cat` and `stack`: a new tensor, contiguous where all its parts are."""
    parts = tensors_in(arguments.everything())
    first = arguments.get(0, "tensors")
    exact = isinstance(first, Container) and all(
        isinstance(part, Tensor) for item in first.items for part in alternatives(item)
    )
    layout = None
    if exact and parts and all(part.layout is not None for part in parts):
        ranks = {part.rank for part in parts}
        if len(ranks) == 1 and None not in ranks:
            rank = (next(iter(ranks)) or 0) + (name == "stack")
            layout = Layout.contiguous([Dim.symbol() for _ in range(rank)])
            if not all(map(_keeps_order, parts)):
                layout = tensors.forgotten(layout)
        elif None in ranks and all(map(_keeps_order, parts)):
            layout = Layout.unranked()
    made = derived(node, layout, name, parts, quiet)
    made.certain = True
    return made


def either(values: Sequence[Value]) -> Value:
    """One of several values."""
    return union(values)

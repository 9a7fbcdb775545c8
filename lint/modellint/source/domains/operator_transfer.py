"""What each of torch's operators makes of the tensors that it is given."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.derived_tensors import derived, tensors_in
from modellint.source.domains.dimension_arguments import dim_of, ints_of, size, sizes_of
from modellint.source.domains.layer_transfer import pooled, pooled_to_one, size_of_weight, with_channels, with_last
from modellint.source.domains.layout_transfer import broadcast, forgotten, like, multiplied, packed, reduced
from modellint.source.domains.memory_layout import ONE, Dim, Layout
from modellint.source.domains.operator_sets import BINARY, IN_PLACE_LAYOUT, LIKE, REDUCTIONS, SAME, VIEWS
from modellint.source.domains.symbolic_numbers import Shape, Size, int_of
from modellint.source.domains.tensors import Tensor
from modellint.source.domains.view_operators import apply_view
from modellint.source.engine.abstract_values import NUMBER, UNKNOWN, Const, Container, Value, alternatives, union

if TYPE_CHECKING:
    from modellint.source.engine.arguments import Arguments


def apply_operator(name: str, tensor: Tensor, arguments: Arguments, node: ast.AST | None, quiet: bool) -> Value | None:
    """The result of the operator ``name`` on ``tensor``, the other arguments behind it; None where it is not known."""
    if name in VIEWS:
        return apply_view(name, tensor, arguments, node, quiet)
    layout = tensor.layout
    parts = [tensor, *tensors_in(arguments.everything())]
    if name == "type" and not arguments.everything():
        return UNKNOWN
    if name in IN_PLACE_LAYOUT:
        tensor.layout = None
        return tensor
    if name in ("softmax", "log_softmax", "layer_norm", "tril", "triu", "flip", "roll", "group_norm", "batch_norm"):
        return derived(node, packed(layout), name, parts, quiet)
    if name == "linear":
        features = size_of_weight(arguments.get(0, "weight"), 0)
        return derived(node, with_last(layout, features or Dim.symbol()), name, parts, quiet)
    if name.endswith("_") and not name.endswith("__"):
        return tensor
    if name in SAME:
        if name in ("to", "type", "type_as"):
            # The other tensor only says of what type.
            parts = [tensor]
        if name in ("to", "type", "cuda", "cpu", "float") and not quiet:
            made = derived(node, like(layout), name, [tensor], quiet)
            # It is the same tensor where nothing has to change.
            made.base = tensor
            return made
        return derived(node, like(layout), name, parts, quiet)
    if name in BINARY:
        others = [part for part in arguments.positional if isinstance(part, Tensor)]
        unknown = any(not isinstance(part, (Tensor, Const, Size)) for part in arguments.positional)
        made_layout = None if unknown else broadcast([layout, *(part.layout for part in others)])
        return derived(node, made_layout, name, parts, quiet)
    if name in REDUCTIONS:
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
        return derived(node, multiplied(layout, other), name, parts, quiet)
    if name in LIKE:
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
        values = derived(node, forgotten(layout), name, parts, quiet)
        return Container("tuple", node, [values, derived(node, forgotten(layout), "argsort", parts, quiet)], True)
    if name == "clone":
        dense = layout is not None and layout.is_contiguous
        with_format = "memory_format" in arguments.keywords
        kept = packed(layout) if dense or with_format else forgotten(layout)
        return derived(node, kept, name, [tensor], quiet)
    if name in ("repeat", "tile"):
        return derived(node, _repeated(layout, arguments), name, parts, quiet)
    if name in ("repeat_interleave", "gather", "index_select", "take_along_dim"):
        ranked = packed(layout)
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
    if name in ("conv1d", "conv2d", "conv3d"):
        channels = size_of_weight(arguments.get(0, "weight"), 0)
        ranked = layout.with_rank(int(name[-2]) + 2) if layout is not None else None
        return derived(node, with_channels(pooled(ranked or layout), channels), name, parts, quiet)
    if name.startswith(("conv_transpose", "adaptive_")):
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
        return _depth_of(arguments.get(0))
    if name in ("from_numpy", "normal", "bernoulli", "complex", "polar") or (name.endswith("Tensor")):
        return _depth_of(arguments.get(0)) if isinstance(arguments.get(0), Container) else None
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


def _depth_of(value: Value | None) -> Layout | None:
    """The layout of `torch.tensor(value)`."""
    rank = 0
    while isinstance(value, Container):
        rank += 1
        if not value.items or not value.exact:
            return None
        value = alternatives(value.items[0])[0]
    if isinstance(value, Const):
        return Layout.contiguous([Dim.symbol() for _ in range(rank)])
    return None


def _is_one(value: Value | None) -> bool:
    items = value.items if isinstance(value, Container) and value.exact else [value]
    return bool(items) and all(int_of(item) == 1 for item in items)


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
        return derived(node, broadcast([tensor.layout, given.layout]), name, parts, quiet)
    if given is None or (isinstance(given, Const) and given.value is None):
        return derived(node, Layout(()) if not arguments.spread else None, name, parts, quiet).unbatched()
    dims = ints_of([given])
    keep = arguments.get(at + 1, "keepdim")
    if dims is None or not (keep is None or isinstance(keep, Const)):
        layout = None
    else:
        layout = reduced(tensor.layout, dims, isinstance(keep, Const) and bool(keep.value))
    made = derived(node, layout, name, parts, quiet)
    if dims is not None and 0 in dims:
        made.unbatched()
    if name in ("max", "min", "median"):
        return Container("tuple", node, [made, derived(node, layout, "argmax", parts, quiet)], True)
    return made


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
            sizes = _stacked(parts[0], first, arguments) if name == "stack" and isinstance(first, Container) else None
            layout = Layout.contiguous(sizes or [Dim.symbol() for _ in range(rank)])
            if not all(map(_keeps_order, parts)):
                layout = forgotten(layout)
        elif None in ranks and all(map(_keeps_order, parts)):
            layout = Layout.unranked()
            if name == "stack" and (at := _place(arguments)) is not None and (told := layout.size(at)) is not None:
                layout = told[0]
    made = derived(node, layout, name, parts, quiet)
    made.certain = True
    return made


def _place(arguments: Arguments) -> int | None:
    """The dimension that tensors are joined along, where it is known."""
    dim = arguments.get(1, "dim")
    return 0 if dim is None else dim.integer


def _stacked(part: Tensor, tensors: Container, arguments: Arguments) -> list[Dim] | None:
    """The sizes of tensors like one, stacked; None where their number or the new dimension's place is not known."""
    sizes = part.layout.sizes if part.layout is not None and tensors.exact else None
    dim = arguments.get(1, "dim")
    at = 0 if dim is None else dim.value if isinstance(dim, Const) else None
    if sizes is None or not isinstance(at, int) or not -len(sizes) - 1 <= at <= len(sizes):
        return None
    at %= len(sizes) + 1
    return [*sizes[:at], Dim.of(len(tensors.items)), *sizes[at:]]


def either(values: Sequence[Value]) -> Value:
    """One of several values."""
    return union(values)

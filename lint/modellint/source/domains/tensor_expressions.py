"""What attributes, subscripts, operators and assignments make of tensors and of their shapes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains import data_dependent_sizes, dimension_arguments, float_tensors_as_ints, masks
from modellint.source.domains.derived_tensors import derived, tensors_in, view_of
from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.layout_transfer import broadcast, forgotten, like, multiplied
from modellint.source.domains.memory_layout import MOST_DIMENSIONS, Dim, Layout
from modellint.source.domains.symbolic_numbers import (
    Drawn,
    Length,
    Limit,
    Limits,
    Opaque,
    OpaqueNumber,
    Shape,
    Size,
    int_of,
)
from modellint.source.domains.tensor_calls import operator_result
from modellint.source.domains.tensors import DEVICE, Tensor
from modellint.source.engine.abstract_values import (
    NUMBER,
    UNKNOWN,
    Argument,
    Const,
    Container,
    Instance,
    Method,
    Number,
    Union,
    Value,
    alternatives,
    union,
    without_none,
)
from modellint.source.engine.arguments import NO_ARGUMENTS
from modellint.source.project.annotations import holds_row_of_tensors, holds_tensors

if TYPE_CHECKING:
    from modellint.source.engine.class_state import Frame
    from modellint.source.engine.domain import Reader


def attribute_of(receiver: Value, name: str, quiet: bool) -> Value | None:
    """The value of ``receiver.name``, of a tensor or of the limits of a type."""
    if isinstance(receiver, Tensor):
        if name == "shape":
            return Shape(receiver)
        if name in ("T", "mT", "H", "mH", "data", "real", "imag", "ndim"):
            return operator_result(name, receiver, NO_ARGUMENTS, ast.Constant(None), quiet)
        if name == "device" and receiver.is_tensor:
            return DEVICE
        if name in ("dtype", "device", "requires_grad", "grad", "is_cuda", "itemsize", "layout"):
            return UNKNOWN
        return Method(receiver, name)
    if name in _FIELDS and isinstance(receiver, Container) and receiver.kind == "tuple" and len(receiver.items) == 2:
        # `x.max(dim=-1).values`
        field = receiver.items[_FIELDS.index(name)]
        made = receiver.items[0]
        return field if isinstance(made, Tensor) and made.made_by in _PAIRS else None
    if isinstance(receiver, Limits):
        return Limit.of(receiver, name) or NUMBER
    return None


_FIELDS = ("values", "indices")
_PAIRS = frozenset({"max", "min", "median", "topk", "sort", "kthvalue", "mode", "cummax", "cummin"})
"""Operators that give two tensors by these names."""


def _refine(reader: Reader, old: Tensor, layout: Layout, frame: Frame) -> Tensor:
    """The same tensor, its rank now known, under every local name that it has."""
    new = Tensor(
        old.node, layout, old.origin, kind=old.kind, name=old.name, certain=True, assumed=old.assumed, grad=old.grad,
        base=old.base, made_by=old.made_by, batch=old.batch, shown=True,
    )  # fmt: skip
    new.told = old.told
    old.refined = new
    for name, value in frame.locals.items():
        if value is old:
            _name(reader, name, new, frame)
        elif isinstance(value, Shape) and value.tensor is old:
            frame.locals[name] = Shape(new)
    return new


def _name(reader: Reader, name: str, value: Value, frame: Frame) -> None:
    if reader.reading:
        reader.recorder.named(name, value, frame)
    frame.locals[name] = value


def unpack(reader: Reader, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> bool:
    """Bind the sizes of a shape, or the elements of a tensor; whether the value is one of these."""
    if isinstance(value, Shape):
        _unpack_shape(reader, target, value, frame)
        return True
    if type(value) is Union and not any(isinstance(element, ast.Starred) for element in target.elts):
        joined = _joined_shape(reader, value, len(target.elts), frame)
        if joined is not None:
            for at, element in enumerate(target.elts):
                reader.bind(element, dimension_arguments.size(joined, at), frame)
            return True
    if isinstance(value, Tensor):
        # One for all of them, as they share no memory with each other. What stands in an element of what the caller gives, as
        # in `x, (height, width) = x[0], x[1]`, need not be tensors.
        part: Value = UNKNOWN if _is_of_an_argument(value) else element_of(value, target)
        is_mixed = (
            isinstance(part, Tensor) and value.origin == "argument" and value.base is None and not value.is_tensor
        )
        for element in target.elts:
            if is_mixed:
                # Of what the caller gives together, one may be a tensor and another a list.
                part = element_of(value, target)
            reader.bind(element.value if isinstance(element, ast.Starred) else element, part, frame)
        return True
    return False


def _is_of_an_argument(value: Tensor) -> bool:
    """Whether a value is an element, by a number, of an argument that need not be a tensor."""
    match value.node:
        case ast.Subscript(slice=ast.Constant(value=int())):
            base = value.base
            return base is not None and base.base is None and base.origin == "argument" and not base.certain
    return False


def _unpack_shape(reader: Reader, target: ast.Tuple | ast.List, value: Shape, frame: Frame) -> None:
    if reader.reading and frame.file is reader.file:
        reader.recorder.unpacked(target, value)
    starred = [at for at, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
    tensor = value.tensor
    count = len(target.elts)
    if not starred and tensor.layout is not None:
        ranked = tensor.layout.with_rank(count)
        if ranked is not None:
            tensor = _refine(reader, tensor, ranked, frame) if tensor.rank is None else tensor
    for at, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            reader.bind(element.value, Container("list", element, [NUMBER]), frame)
        else:
            behind = bool(starred) and at > starred[0]
            reader.bind(element, dimension_arguments.size(tensor, at - count if behind else at), frame)


def _joined_shape(reader: Reader, value: Union, count: int, frame: Frame) -> Tensor | None:
    """One tensor in the place of several that are contiguous, of whose shape ``count`` sizes are taken, under all its names."""
    parts = [part.tensor for part in value.values if isinstance(part, Shape)]
    layouts = [part.layout.with_rank(count) for part in parts if part.layout is not None]
    ranked = [layout for layout in layouts if layout is not None and layout.is_contiguous]
    if len(ranked) != len(value.values) or any(part.kind != "tensor" for part in parts):
        return None
    rows = zip(*([axis.size for axis in layout.axes] for layout in ranked), strict=True)
    sizes = [row[0] if len(set(row)) == 1 else Dim.symbol() for row in rows]
    made = derived(parts[0].node, Layout.contiguous(sizes), parts[0].made_by, parts, reader.modes.quiet > 0)
    made.certain = True
    if all(map(data_dependent_sizes.is_of_values, parts)):
        data_dependent_sizes.note(made)
    wanted = {id(part) for part in parts}
    for name, held in frame.locals.items():
        if {id(part) for part in alternatives(held)} == wanted:
            _name(reader, name, made, frame)
    return made


def element_of(tensor: Tensor, node: ast.AST) -> Tensor:
    """An element of a tensor, or of a container of tensors that was taken for one."""
    layout = tensor.layout.selected(0) if tensor.layout is not None else None
    if not tensor.certain:
        layout = Layout.unranked() if tensor.layout is not None and tensor.rank is None else layout
    made = view_of(node, layout, "select", tensor).unbatched()
    made.dim = tensor.dim
    data_dependent_sizes.tell_element(made, tensor)
    return made


def is_row_of_tensors(reader: Reader, value: Argument) -> bool:
    """Whether an argument is a list of tensors, as its annotation says."""
    return reader.reading and not value.element and holds_row_of_tensors(value.annotation)


def element_of_row(value: Argument, node: ast.AST) -> Tensor:
    """An element of an argument that is a list of tensors."""
    return Tensor(node, Layout.unranked(), "unseen", name=value.name, grad=None, assumed=True, batch=True)


def subscript(reader: Reader, node: ast.Subscript, receiver: Value, frame: Frame) -> Value | None:
    """The value of ``receiver[…]``, of a tensor, a shape, or what an annotation calls several tensors."""
    if isinstance(receiver, Argument) and reader.reading and holds_tensors(receiver.annotation):
        return Tensor(node, Layout.unranked(), "unseen", grad=None, assumed=True, batch=True)
    if isinstance(receiver, Argument) and is_row_of_tensors(reader, receiver):
        return receiver if isinstance(node.slice, ast.Slice) else element_of_row(receiver, node)
    if not any(isinstance(part, (Tensor, Shape)) for part in alternatives(receiver)):
        return None
    made = union([_subscripted(reader, part, node, frame) for part in alternatives(receiver)])
    if frame.file is reader.file:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        wanted = [part for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]
        # One that is computed in the brackets is found by its own node, without computing it again.
        kept = len(wanted) > 1 or (len(wanted) == 1 and isinstance(wanted[0], ast.Name))
        index = tuple(reader.value(part, frame) for part in wanted) if kept else ()
        reader.recorder.operated(reader, node, (receiver,), made, index)
    return made


def _subscripted(reader: Reader, receiver: Value, node: ast.Subscript, frame: Frame) -> Value:
    if isinstance(receiver, Shape):
        return _of_shape(reader, receiver, node.slice, frame)
    if not isinstance(receiver, Tensor):
        if isinstance(node.slice, ast.Slice):
            return reader.sliced(receiver, node)
        return reader.indexed(receiver, reader.value(node.slice, frame))
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    layout: Layout | None = receiver.layout
    at = 0
    for index, part in enumerate(parts):
        if isinstance(part, ast.Slice):
            layout, at = _slice(reader, layout, at, part, frame), at + 1
            continue
        value = reader.value(part, frame)
        if isinstance(value, Const) and value.value is None:
            layout, at = layout and layout.unsqueezed(at), at + 1
        elif isinstance(value, Const) and value.value is ...:
            at = (
                -(len(parts) - index - 1)
                if layout is None or layout.rank is None
                else layout.rank
                - sum(not (isinstance(p, ast.Constant) and p.value is None) for p in parts[index + 1 :])
            )
            if layout is not None and layout.rank is None:
                layout = None
        elif isinstance(value, Const) and isinstance(value.value, str):
            # A dictionary, whatever it is said to be.
            held = derived(node, None, "index", [receiver], reader.modes.quiet > 0)
            held.certain = held.shown = False
            return held
        elif _is_index(value):
            layout = layout and layout.selected(at)
        else:
            picked = derived(node, None, "index", [receiver, *tensors_in([value])], reader.modes.quiet > 0)
            if data_dependent_sizes.picks(value) and all(map(_is_number, parts[:index])):
                data_dependent_sizes.note(picked)
            return picked
    made = view_of(node, layout, "index", receiver)
    if receiver.told is not None and parts and data_dependent_sizes.is_of_values(receiver) and _keeps_length(parts[0]):
        data_dependent_sizes.note(made)
    if parts and not isinstance(parts[0], ast.Slice) and _is_index(reader.value(parts[0], frame)):
        made.unbatched()
    if not receiver.certain and len(parts) == 1 and not isinstance(parts[0], ast.Slice):
        return element_of(receiver, node)
    if len(parts) == 1 and _is_number(parts[0]):
        data_dependent_sizes.tell_element(made, receiver)
    return made


def _slice(reader: Reader, layout: Layout | None, at: int, part: ast.Slice, frame: Frame) -> Layout | None:
    lower, upper, step = (
        reader.value(bound, frame) if bound is not None else None for bound in (part.lower, part.upper, part.step)
    )
    if layout is None or (lower is None and upper is None and step is None):
        found = layout.position(at) if layout is not None else None
        return found[0] if found is not None else None
    if step is not None:
        stride = dim_of(step)
        return layout.narrowed(at, None, stride) if stride is not None else None
    start, stop = int_of(lower) if lower is not None else 0, int_of(upper)
    if start is not None and stop is not None and 0 <= start < stop:
        return layout.narrowed(at, Dim.of(stop - start))
    size = layout.size(at)
    whole = size[1].value if size is not None else None
    if whole is not None and start is not None and (upper is None or stop is not None):
        length = len(range(whole)[start:stop])
        if length > 1:
            return layout.narrowed(at, Dim.of(length))
    # Whatever is left may have size 1: then its neighbours nest.
    return layout.narrowed(at) if at == 0 else forgotten(layout.narrowed(at))


def _of_shape(reader: Reader, shape: Shape, index: ast.expr, frame: Frame) -> Value:
    tensor = shape.tensor
    if isinstance(index, ast.Slice):
        lower = int_of(reader.value(index.lower, frame)) if index.lower is not None else 0
        upper = int_of(reader.value(index.upper, frame)) if index.upper is not None else None
        rank = tensor.rank
        if index.step is not None or lower is None or (index.upper is not None and upper is None):
            return UNKNOWN
        if rank is not None:
            dims = range(rank)[lower:upper]
        elif upper is not None and lower >= 0 and upper > 0:
            dims = range(lower, upper)
        elif upper is None and lower < 0:
            dims = range(lower, 0)
        else:
            return UNKNOWN
        if len(dims) > MOST_DIMENSIONS:
            return UNKNOWN
        return Container("tuple", index, [dimension_arguments.size(tensor, dim) for dim in dims], exact=True)
    dim = int_of(reader.value(index, frame))
    return dimension_arguments.size(tensor, dim) if dim is not None else NUMBER


def combined(reader: Reader, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value | None:
    """The value of a binary operation on tensors, or on sizes and other numbers; with None there is none."""
    left, right = without_none(left), without_none(right)
    lefts, rights = alternatives(left), alternatives(right)
    if any(isinstance(part, Tensor) for part in (*lefts, *rights)):
        if len(lefts) * len(rights) > 16:
            return derived(node, None, "add", tensors_in([left, right]), reader.modes.quiet > 0)
        made = union([_computed(node, one, two, reader.modes.quiet > 0) for one in lefts for two in rights])
        reader.recorder.operated(reader, node, (left, right), made)
        return made
    drawn = next((part for part in (left, right) if isinstance(part, Drawn)), None)
    if drawn is not None and not any(isinstance(part, Container) for part in (*lefts, *rights)):
        return Length(drawn.tensor, _of_sizes(node, left, right)) if isinstance(drawn, Length) else drawn
    boxes = all(isinstance(part, Container) for part in (*lefts, *rights))
    if isinstance(node.op, ast.Add) and boxes and len(lefts) * len(rights) <= 16:
        return union([_appended(node, one, two) for one in lefts for two in rights])
    dim = _of_sizes(node, left, right)
    if dim is not None:
        return Size(dim)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        first, second = int_of(left), int_of(right)
        if first is not None and second is not None:
            return Const(first + second if isinstance(node.op, ast.Add) else first - second)
    folded = _folded(node.op, left, right)
    if folded is not None:
        return folded
    if any(isinstance(part, Size) for part in (left, right)) and not any(
        isinstance(part, Container) for part in (*lefts, *rights)
    ):
        return NUMBER
    return None


def _of_sizes(node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Dim | None:
    """The product or quotient of two sizes."""
    one, two = dim_of(left), dim_of(right)
    unseen = any(type(part) in (Instance, Opaque) for part in (left, right))
    sized = any(type(part) in (Size, Length) for part in (left, right))
    if one is None or two is None or (unseen and not isinstance(node.op, ast.FloorDiv) and not sized):
        # Whatever it is, it need not be a number.
        return None
    if isinstance(node.op, ast.Mult):
        return one * two
    return one / two if isinstance(node.op, (ast.FloorDiv, ast.Div)) and two.factor else None


def _computed(node: ast.BinOp | ast.AugAssign, left: Value, right: Value, quiet: bool) -> Value:
    parts = [part for part in (left, right) if isinstance(part, Tensor)]
    if not parts:
        return UNKNOWN
    if isinstance(node.op, ast.MatMult):
        both = isinstance(left, Tensor) and isinstance(right, Tensor)
        layout = multiplied(parts[0].layout, parts[1].layout) if both else None
        return derived(node, layout, "matmul", parts, quiet)
    others = [part for part in (left, right) if not isinstance(part, Tensor)]
    scalar = all(isinstance(part, (Const, Number, Size, Argument, Method)) for part in others)
    layout = broadcast([part.layout for part in parts]) if scalar else None
    if isinstance(node, ast.AugAssign) and isinstance(left, Tensor) and left.certain:
        # It is written where the left one is.
        layout = left.layout
    made = derived(node, layout, "add", parts, quiet)
    if not isinstance(node.op, ast.Div) and any(map(masks.holds_floats, parts)):
        made.told = {masks.FLOATS: True}
    if float_tensors_as_ints.keeps(node.op):
        float_tensors_as_ints.tell(made, (left, right))
    if all(map(data_dependent_sizes.is_of_values, parts)):
        data_dependent_sizes.note(made)
    one, two = dim_of(left), dim_of(right)
    if one is not None and two is not None:
        if isinstance(node.op, ast.Mult):
            made.dim = one * two
        elif isinstance(node.op, (ast.FloorDiv, ast.Div)) and two.factor:
            made.dim = one / two
    return made


def compared(node: ast.Compare, parts: list[Value], quiet: bool) -> Value | None:
    """The value of a comparison with tensors, or with numbers out of them."""
    if any(isinstance(part, Const) and (part.value is None or isinstance(part.value, str)) for part in parts):
        # `x == None` is no tensor, whatever x is.
        return None
    found = tensors_in(parts)
    if found and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        layout = broadcast([part.layout for part in found])
        made = derived(node, layout, "eq", found, quiet)
        if all(map(data_dependent_sizes.is_of_values, found)):
            data_dependent_sizes.note(made)
        if any(all(isinstance(p, Tensor) for p in alternatives(without_none(value))) for value in parts):
            return made
        return union([made, NUMBER])
    drawn = [part for value in parts for part in alternatives(value) if isinstance(part, Drawn)]
    if drawn and not any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        return drawn[0]
    held = parts[0] if isinstance(parts[0], Tensor) else parts[-1]
    if isinstance(node.ops[0], (ast.In, ast.NotIn)) and held.is_data and isinstance(held, Tensor):
        return Drawn(held, node)
    return None


def unary(node: ast.UnaryOp, operand: Value, quiet: bool) -> Value | None:
    """The value of an operation on a tensor, or on a number that is known."""
    if isinstance(node.op, ast.USub) and isinstance(operand, Limit):
        return operand.negated()
    if isinstance(operand, Tensor):
        made = derived(node, like(operand.layout), "neg", [operand], quiet)
        if data_dependent_sizes.is_of_values(operand):
            data_dependent_sizes.note(made)
        if isinstance(node.op, ast.USub):
            float_tensors_as_ints.tell(made, [operand])
        return made
    if isinstance(node.op, ast.USub) and isinstance(operand, Const) and type(operand.value) in (int, float):
        return Const(-operand.value)  # type: ignore[operator]
    return None


def told_apart(value: Value) -> Value:
    """A number, or something that is not known, once a name tells it from others."""
    if value is UNKNOWN:
        return Opaque()
    numbers = [type(part) is Number or isinstance(part, (Size, OpaqueNumber)) or int_of(part) is not None
               for part in alternatives(value)]  # fmt: skip
    if value is NUMBER or (type(value) is Union and all(numbers)):
        return OpaqueNumber()
    return value


_LARGEST = 1 << 256
"""Numbers that are larger are not computed with: a few lines can double their digits as often as they like."""


def _folded(op: ast.operator, left: Value, right: Value) -> Value | None:
    """What two numbers that are written down give: their product, quotient or power, or one shifted by the other."""
    one, two = left.number, right.number
    if one is None or two is None or any(isinstance(part, int) and abs(part) >= _LARGEST for part in (one, two)):
        return None
    try:
        match op:
            case ast.Mult():
                return Const(one * two)
            case ast.Div() if two:
                return Const(one / two)
            case ast.Pow() if abs(two) <= 128 and abs(one) <= 1 << 16:
                return Const(one**two)
            case ast.LShift() if isinstance(one, int) and isinstance(two, int) and 0 <= two <= 128:
                return Const(one << two)
    except ArithmeticError:
        pass
    return None


def _appended(node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    if not isinstance(left, Container) or not isinstance(right, Container):
        return UNKNOWN
    return left.joined(right, node)


def _is_number(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and type(index.value) is int


def _keeps_length(index: ast.expr) -> bool:
    """Whether a slice leaves a length that values decide to them: it ends at no number that is written down."""
    return isinstance(index, ast.Slice) and not isinstance(index.upper, (ast.Constant, ast.UnaryOp))


def _is_index(value: Value) -> bool:
    """Whether a subscript is one number."""
    return isinstance(value, (Number, Size)) or (
        isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)
    )

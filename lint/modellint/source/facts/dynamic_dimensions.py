"""Dynamic dimensions: the tensors whose sizes code reads, and dimensions that are static after all, as weights say how large they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.memory_layout import is_fixed
from modellint.source.domains.operator_sets import CONVOLUTIONS
from modellint.source.domains.symbolic_numbers import Shape, Size
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Instance, Number, alternatives
from modellint.source.engine.asserted_conditions import tested_classes
from modellint.source.engine.mode_conditions import is_tensor_class
from modellint.source.syntax.ast_walk import of_kind, once, walk

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Value
    from modellint.source.facts.recorded_operations import Call, Recorder

_DIMS_OF_WEIGHTS: dict[str, frozenset[int]] = {
    **{f"torch.nn.{name}": frozenset({1, -int(name[-2]) - 1}) for name in CONVOLUTIONS},
    **{f"torch.nn.BatchNorm{rank}d": frozenset({1, -rank - 1}) for rank in (2, 3)},
    "torch.nn.Linear": frozenset({-1}),
}
"""Layers of torch whose weights say how large a dimension of their input, which is a batch, is."""
_OF_MATRICES = frozenset({"mm", "spmm"})
_PRODUCTS = _OF_MATRICES | {"matmul"}
"""Operators that take the last dimension of one tensor to be as large as one of the other."""


def tensors_sized_by(node: ast.expr, flow: Recorder) -> list[Tensor]:
    """The tensors of which an expression is the shape or a size, or whose sizes are unpacked into it; not those that are fixed."""
    found: list[Tensor] = []
    for operation in flow.operations.get(node, ()):
        if _is_open(operation.result):
            found += (part.tensor for part in alternatives(operation.operands[0]) if isinstance(part, Shape))
    for value in flow.unpackings.get(node, ()):
        found += (part.tensor for part in alternatives(value) if isinstance(part, Shape))
    for call in flow.calls.get(node, ()):
        if call.method in ("size", "len") and _is_open(call.result):
            of = call.receiver if call.method == "size" else call.arguments.get(0)
            parts = alternatives(of) if of is not None else ()
            if parts and call.method == "len" and _is_of_another_class(call):
                continue
            # How many parts `unbind` and `chunk` give, the code says as a rule.
            found += (part for part in parts if isinstance(part, Tensor) and part.made_by not in ("unbind", "chunk"))
    return found


def dims_of_weights(flow: Recorder) -> dict[ast.AST | None, set[int]]:
    """By where tensors are made, the dimensions that are channels of a convolution which takes them, or features of a linear layer.

    So is the last dimension of what is multiplied by a matrix that does not depend on what the caller gives.
    """
    dims: dict[ast.AST | None, set[int]] = {}
    for tensor, last in _times_weights(flow):
        dims.setdefault(tensor.node, set()).update(last)
    for readings in flow.calls.values():
        for call in readings:
            for part, taken in _given_to_weights(call):
                dims.setdefault(part.node, set()).update(taken)
                if part.node is None or part.base is None or part.base.made_by != "stack":
                    continue
                if _merges_second(part.node):
                    # With the channels of each part, these say how many parts there are.
                    dims.setdefault(part.base.node, set()).update(taken)
    return dims


def _given_to_weights(call: Call) -> Iterator[tuple[Tensor, frozenset[int]]]:
    """The tensors that a layer with weights takes, and the dimensions whose sizes these say."""
    layers = [part for part in alternatives(call.callee) if isinstance(part, Instance) and part.kind == "module"]
    taken = frozenset[int]().union(*(_DIMS_OF_WEIGHTS.get(part.name, frozenset()) for part in layers))
    given = call.arguments.get(0, "input") if taken else None
    for part in alternatives(given) if given is not None else ():
        if isinstance(part, Tensor) and part.node is not None:
            yield part, taken


def symbols_of_weights(flow: Recorder) -> frozenset[object]:
    """The symbols of sizes that layers' weights fix, as `forward` always runs them: by themselves, or times others that are fixed.

    `aligned.view(b, -1, h, w)` before a convolution says how many frames times channels there are, and another one how many channels.
    """
    products: list[frozenset[object]] = []
    for readings in flow.calls.values():
        for call in readings:
            if call.training or call.unusual or not _is_always_run(call.node, call.function):
                continue
            for part, dims in _given_to_weights(call):
                sizes = [part.layout.size(dim) for dim in dims] if part.layout is not None else []
                products += [frozenset(symbol for symbol, _ in size[1].powers) for size in sizes if size is not None]
    fixed: set[object] = set()
    while added := {symbol for product in products if len(product - fixed) == 1 for symbol in product - fixed}:
        fixed |= added
    return frozenset(fixed)


def is_sized_by_operands(tensor: Tensor, dim: int, flow: Recorder) -> bool:
    """Whether a sum or product is computed of a batch of known rank, of a dimension of which the code says the size."""
    if tensor.rank is not None or not isinstance(tensor.node, ast.BinOp) or dim == 0:
        return False
    readings = flow.operations.get(tensor.node, ())
    return bool(readings) and all(
        any(all(_tells_size(part, dim) for part in alternatives(operand)) for operand in reading.operands)
        for reading in readings
    )


def symbols_of_operands(flow: Recorder) -> frozenset[object]:
    """The symbols of sizes that a parameter or buffer of another size than 1 fixes, as `forward` always adds it, or multiplies by it."""
    return frozenset(
        symbol
        for node, readings in flow.operations.items()
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ELEMENTWISE)
        for reading in readings
        if not reading.aside and _is_always_run(node, reading.function)
        for symbol in _symbols_beside(*reading.operands[:2])
    )


_ELEMENTWISE = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def _is_always_run(node: ast.expr, function: ast.AST | None) -> bool:
    """Whether `forward` computes an expression wherever it ends."""
    if not isinstance(function, ast.FunctionDef) or function.name != "forward":
        return False
    return node in once(function, "_always_computed", _always_computed)


def _always_computed(function: ast.FunctionDef) -> frozenset[ast.AST]:
    """The sums, products and calls of the statements that nothing goes round, up to one that may leave the function."""
    found: set[ast.AST] = set()
    for statement in function.body:
        if isinstance(statement, (ast.Assign, ast.Return)):
            found.update(_computed_in(statement))
        if any(isinstance(part, (ast.Return, ast.Raise)) for part in walk(statement)):
            break
    return frozenset(found)


def _computed_in(statement: ast.stmt) -> list[ast.expr]:
    if any(isinstance(part, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)) for part in walk(statement)):
        return []
    return [*of_kind(statement, ast.BinOp), *of_kind(statement, ast.Call)]


def _symbols_beside(*operands: Value) -> Iterator[object]:
    """The symbols that are sizes of one operand, a batch, where the other is a parameter or buffer of a fixed size."""
    for value, other in (operands, operands[::-1]) if len(operands) == 2 else ():
        batches, weights = alternatives(value), alternatives(other)
        if len(batches) != 1 or len(weights) != 1:
            continue
        batch, weight = batches[0], weights[0]
        if not isinstance(batch, Tensor) or not isinstance(weight, Tensor) or not batch.is_data or batch.rank is None:
            continue
        if weight.kind not in ("parameter", "buffer") or weight.batch is not None or weight.rank is None:
            continue
        for dim in range(-1, -min(batch.rank, weight.rank) - 1, -1):
            size = batch.layout.size(dim) if batch.layout is not None else None
            if size is None or not weight.has_fixed_size(dim) or weight.has_size_one(dim) or size[1].factor != 1:
                continue
            if len(size[1].powers) == 1:
                yield from (symbol for symbol, power in size[1].powers if power == 1)


def _tells_size(value: Value, dim: int) -> bool:
    """Whether a value is a tensor that may hold the batch, and the code says its rank and that a dimension has several elements."""
    return (
        isinstance(value, Tensor)
        and bool(value.batch)
        and value.rank is not None
        and value.has_fixed_size(dim)
        and not value.has_size_one(dim)
    )


def _times_weights(flow: Recorder) -> Iterator[tuple[Tensor, Sequence[int]]]:
    """The tensors that stand on the left of a product with a matrix of weights, each with its last dimension."""
    for readings in flow.calls.values():
        for call in readings:
            if call.name.rpartition(".")[2] in _PRODUCTS and call.name.startswith("torch."):
                left = call.receiver or call.arguments.get(0, "input")
                right = call.arguments.get(0 if call.receiver is not None else 1, "other")
                if left is not None and right is not None:
                    yield from _multiplied(left, right, call.method in _OF_MATRICES)
    for operations in flow.operations.values():
        for operation in operations:
            if isinstance(operation.node, ast.BinOp) and isinstance(operation.node.op, ast.MatMult):
                yield from _multiplied(operation.operands[0], operation.operands[1], False)


def _is_of_another_class(call: Call) -> bool:
    """Whether `len(x[0])` stands where `isinstance(x[0], tuple)` holds; of variables the domain takes note itself."""
    asked = call.node.args[0] if call.node.args else None
    if asked is None or isinstance(asked, ast.Name) or call.function is None:
        return False
    classes = tested_classes(asked, call.node, call.function)
    return bool(classes) and not any(map(is_tensor_class, classes))


def _merges_second(node: ast.AST) -> bool:
    """Whether a view joins the second dimension with those behind it: `x.view(b, -1, h, w)`."""
    match node:
        case ast.Call(args=[_, ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), _, *_]):
            return True
    return False


def _multiplied(left: Value, right: Value, of_matrices: bool) -> Iterator[tuple[Tensor, Sequence[int]]]:
    weights = alternatives(right)
    if not all(isinstance(part, Tensor) and part.is_made and part.batch is None for part in weights):
        return
    for part in alternatives(left):
        if isinstance(part, Tensor) and part.node is not None:
            rank = 2 if of_matrices else part.rank
            yield part, (-1,) if rank is None else (-1, rank - 1)


def _is_open(size: Value) -> bool:
    """Whether a size may be another for another input."""
    return isinstance(size, Number) or (isinstance(size, Size) and not is_fixed(size.dim))

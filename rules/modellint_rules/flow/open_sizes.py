"""Open sizes: those of tensors, among what a number is computed from, that depend on what the caller gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import called_name, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Code, Tensor


def holds_size(code: Code, expression: ast.expr, function: ast.AST | None, depth: int = 0) -> bool:
    """Whether a number depends on a size of a tensor that depends on what the caller gives."""
    return any(True for _ in open_sizes(code, expression, function, depth))


def open_sizes(
    code: Code, expression: ast.expr, function: ast.AST | None, depth: int = 0
) -> Iterator[tuple[Tensor, int | None]]:
    """The sizes that a number depends on and that depend on what the caller gives: tensors with dimensions, None where it is not told."""
    # What `x.dim()` and `x.ndim` are asked of is no number.
    owners = {id(node.value) for node in walk(expression) if isinstance(node, ast.Attribute)}
    # Of `len(x)` the size counts, and not what `x` was computed with.
    lengths = [node for node in walk(expression) if isinstance(node, ast.Call) and called_name(node) == "len"]
    counted = {id(part) for node in lengths for part in node.args}
    owners.update(id(part) for node in lengths for argument in node.args for part in walk(argument)[1:])
    ratios = [node for node in walk(expression) if isinstance(node, ast.BinOp) and _is_ratio(code, node)]
    of_ratios = {id(part) for ratio in ratios for part in walk(ratio)}
    # Nothing that a tensor of ones or zeros holds depends on how large it is.
    of_ratios.update(id(part) for shape in _shapes_of_made(expression) for part in walk(shape))
    for node in walk(expression):
        if id(node) in of_ratios:
            continue
        if isinstance(node, (ast.Subscript, ast.Call)) and not _is_of_state(node):
            dim = _dimension(node)
            for tensor in code.sizes(node):
                if tensor.is_data and (dim is None or not _has_one_size(code, tensor, dim)):
                    yield tensor, dim
        if id(node) in owners:
            continue
        bound = _bound(function, node.id) if isinstance(node, ast.Name) and function is not None and depth < 4 else ()
        for target, value in bound:
            if id(node) in counted:
                # Of a list the turns count that make it, and of one that is written down nothing.
                if function is not None:
                    yield from _sizes_of_turns(code, value, function, depth)
                continue
            if function is not None:
                yield from _sizes_of_target(code, target, value, getattr(node, "id", ""), function, depth)


def _shapes_of_made(expression: ast.expr) -> Iterator[ast.expr]:
    """What tells factories the shapes of tensors in an expression, where no attribute of these is asked for."""
    asked = {node.value for node in walk(expression) if isinstance(node, ast.Attribute)}
    for node in walk(expression):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="zeros" | "ones"), args=sizes):
                yield from sizes if node not in asked else ()
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="full"), args=[size, *_]):
                if node not in asked:
                    yield size


def _is_of_state(node: ast.expr) -> bool:
    """Whether a size is that of a tensor that the module keeps, which need not hang on what it is given: `self.table.shape[1]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[owner]):
            pass
        case ast.Call(func=ast.Attribute(attr="size", value=owner)) | ast.Attribute(attr="shape", value=owner):
            pass
        case _:
            return False
    return isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "self"


def _is_ratio(code: Code, node: ast.BinOp) -> bool:
    """Whether a quotient is that of one dimension of two tensors which layers made: their strides say it, and no input does."""
    match node:
        case ast.BinOp(left=ast.Subscript() | ast.Call() as over, op=ast.Div() | ast.FloorDiv(), right=under):
            if not isinstance(under, (ast.Subscript, ast.Call)) or _dimension(over) is None:
                return False
            tensors = [code.sizes(over), code.sizes(under)]
            return (
                _dimension(over) == _dimension(under)
                and all(tensors)
                and all(part.root.origin != "argument" for part in (*tensors[0], *tensors[1]))
            )
    return False


def _has_one_size(code: Code, tensor: Tensor, dim: int) -> bool:
    """Whether the code or the weights of a layer that takes the tensor say how large a dimension is."""
    return (
        tensor.has_fixed_size(dim)
        or code.is_fixed_by_weights(tensor, dim)
        or code.is_fixed_by_lists(tensor, dim)
        or code.is_fixed_by_operands(tensor, dim)
    )


def _dimension(node: ast.Subscript | ast.Call) -> int | None:
    """The dimension that `x.shape[1]` or `x.size(1)` asks for, where it is written down."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=int(dim))) | ast.Call(args=[ast.Constant(value=int(dim))]):
            return dim
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(dim)))):
            return -dim
        case ast.Call(args=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(dim)))]):
            return -dim
    return None


def _sizes_of_turns(code: Code, value: ast.expr, function: ast.AST, depth: int) -> Iterator[tuple[Tensor, int | None]]:
    if not isinstance(value, ast.ListComp):
        return
    for generator in value.generators:
        if isinstance(generator.iter, ast.Call) and called_name(generator.iter) == "range":
            for part in generator.iter.args:
                yield from open_sizes(code, part, function, depth + 1)


def _bound(function: ast.AST, name: str) -> Sequence[tuple[ast.expr, ast.expr]]:
    """The targets and values of a function's assignments that bind a variable."""
    return once(function, "_assignments_by_name", _assignments_by_name).get(name, ())


def _assignments_by_name(function: ast.AST) -> dict[str, list[tuple[ast.expr, ast.expr]]]:
    by_name: dict[str, list[tuple[ast.expr, ast.expr]]] = {}
    for assignment in of_kind(function, ast.Assign):
        for target in assignment.targets:
            for name in dict.fromkeys(part.id for part in walk(target) if isinstance(part, ast.Name)):
                by_name.setdefault(name, []).append((target, assignment.value))
    return by_name


def _sizes_of_target(
    code: Code, target: ast.expr, value: ast.expr, name: str, function: ast.AST, depth: int
) -> Iterator[tuple[Tensor, int | None]]:
    if isinstance(target, ast.Name):
        yield from open_sizes(code, value, function, depth + 1)
    elif isinstance(target, ast.Tuple):
        places = [at for at, part in enumerate(target.elts) if isinstance(part, ast.Name) and part.id == name]
        stars = any(isinstance(part, ast.Starred) for part in target.elts)
        for tensor in code.sizes(target) if places and not _is_of_state(value) else ():
            if tensor.is_data and (stars or not _has_one_size(code, tensor, places[0])):
                yield tensor, None if stars else places[0]

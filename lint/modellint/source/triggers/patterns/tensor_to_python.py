"""Patterns of Python that looks into tensors: branches, numbers, loops, and NumPy at work.

Whatever a function binds, but for sizes and flags, may be a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_SIZES = frozenset({"shape", "size", "numel", "len", "nelement"})
_ABOUT = frozenset(
    {"dtype", "device", "ndim", "requires_grad", "is_cuda", "training", "layout", "itemsize", "grad", "is_sparse"}
    | {"dim", "ndimension", "stride", "element_size", "is_contiguous", "data_ptr"}
)
"""Attributes and methods that tell nothing of the values."""
_ASKING = frozenset(
    {"isinstance", "hasattr", "callable", "type", "issubclass", "id", "str", "repr", "is_tensor", "is_tracing"}
)
_PICKING = frozenset(
    {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "where", "nms", "batched_nms"}
)
_FILLING = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft"})


class _Data:
    """What may be a tensor in one of the functions that ``forward`` runs."""

    def __init__(self, function: Function, kept: set[str], methods: set[str]) -> None:
        self.kept = kept
        """Attributes that are set while it runs."""
        self.methods = methods
        """Functions that may give what these hold."""
        self.names = {parameter.arg for parameter in of_kind(function, ast.arg)} - _flags(function)
        sizes = (target for node in of_kind(function, ast.Assign) if _is_size(node.value) for target in node.targets)
        of_sizes = {part for target in sizes for part in walk(target)}
        stored = [name for name in of_kind(function, ast.Name) if isinstance(name.ctx, ast.Store)]
        self.with_sizes = self.names | {name.id for name in stored}
        self.names.update(name.id for name in stored if name not in of_sizes)

    def may_be(self, node: ast.expr, sizes: bool = False) -> bool:
        """Whether an expression may rest on the values of a tensor, or on its ``sizes``."""
        names = self.with_sizes if sizes else self.names
        pending: list[ast.AST] = [node]
        while pending:
            match pending.pop():
                case ast.Name(id=name):
                    if name in names:
                        return True
                case ast.Attribute(value=inner, attr=name):
                    if name in self.kept or (sizes and name in _SIZES):
                        return True
                    if name not in _ABOUT and name not in _SIZES:
                        pending.append(inner)
                case ast.Compare(ops=ops) if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
                    pass
                case ast.Compare(comparators=[ast.Constant(value=str())]):
                    pass
                case ast.Call(func=function) as call:
                    name = called_name(call)
                    if name in self.methods or (sizes and name in _SIZES):
                        return True
                    if name not in _ASKING and name not in _ABOUT and name not in _SIZES:
                        pending += (function, *ast.iter_child_nodes(call))
                case ast.Lambda() | ast.JoinedStr():
                    pass
                case other:
                    pending += ast.iter_child_nodes(other)
        return False


def _changed(function: Function) -> Iterator[str]:
    """The attributes that a function sets, or that it fills: items of them, or by a method."""
    for node in of_kind(function, ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            yield node.attr
    filled: list[ast.expr] = [
        call.func.value
        for call in of_kind(function, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLING
    ]
    filled += (item.value for item in of_kind(function, ast.Subscript) if not isinstance(item.ctx, ast.Load))
    for place in filled:
        yield from (part.attr for part in walk(place) if isinstance(part, ast.Attribute))


def _flags(function: Function) -> set[str]:
    """The parameters of ``forward`` whose defaults say that they are no tensors, and ``self``."""
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args]
    with_default = [
        *zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    plain = {
        one.arg for one, default in with_default if isinstance(default, ast.Constant) and default.value is not None
    }
    return {"self", *plain} if function.name == "forward" else {"self"}


def _is_size(value: ast.expr) -> bool:
    if isinstance(value, ast.Subscript):
        value = value.value
    return (isinstance(value, ast.Attribute) and value.attr == "shape") or (
        isinstance(value, ast.Call) and called_name(value) in _SIZES
    )


def _data_in(run: Sequence[ast.stmt]) -> Iterator[tuple[Function, _Data]]:
    functions = functions_in(run)
    kept = {name for function in functions for name in _changed(function)}
    methods = {function.name for function in functions} if kept else set()
    for function in functions:
        yield function, _Data(function, kept, methods)


def branches(run: Sequence[ast.stmt]) -> bool:
    """Whether a condition may depend on the values of a tensor."""
    pairs = [*_data_in(run)]
    if any(data.may_be(test) for function, data in pairs for test in _tests(function)):
        return True
    asked = any(data.may_be(test, sizes=True) for function, data in pairs for test in _tests(function))
    return asked and any(_picks_rows(function) for function, _ in pairs)


def takes_numbers(run: Sequence[ast.stmt]) -> bool:
    """Whether Python may take a number out of a tensor."""
    counted = False
    for function, data in _data_in(run):
        for call in of_kind(function, ast.Call):
            match call.func:
                case ast.Attribute(attr="item" | "tolist" | "numpy"):
                    return True
                case ast.Name(id="int" | "float" | "bool"):
                    if any(map(data.may_be, call.args)):
                        return True
                case ast.Name(id="len"):
                    counted = True
                case _:
                    pass
    return counted and any(map(_picks_rows, functions_in(run)))


def _picks_rows(function: Function) -> bool:
    """Whether values may decide how long a tensor is: one is indexed by another, or asked where it is not zero."""
    if any(called_name(call) in _PICKING for call in of_kind(function, ast.Call)):
        return True
    bound = {
        target.id for node in of_kind(function, ast.Assign) for target in node.targets if isinstance(target, ast.Name)
    }
    bound |= {parameter.arg for parameter in of_kind(function, ast.arg)}
    for item in of_kind(function, ast.Subscript):
        for part in item.slice.elts if isinstance(item.slice, ast.Tuple) else [item.slice]:
            match part:
                case ast.Compare() | ast.UnaryOp(op=ast.Invert()) | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                    return True
                case ast.Name(id=name) if name in bound:
                    return True
    return False


def uses_numpy(file: IndexedFile, run: Sequence[ast.stmt]) -> bool:
    """Whether NumPy is asked for something."""
    numpy = once(file.tree, "_numpy", lambda _: _numpy_names(file))
    return bool(numpy) and any(
        name.id in numpy for function in functions_in(run) for name in of_kind(function, ast.Name)
    )


def loops(run: Sequence[ast.stmt]) -> bool:
    """Whether a loop may be as long as a tensor."""
    for function, data in _data_in(run):
        through = [loop.iter for loop in of_kind(function, ast.For)]
        through += (one.iter for one in of_kind(function, ast.comprehension))
        through += (loop.test for loop in of_kind(function, ast.While))
        if any(data.may_be(node, sizes=True) for node in through):
            return True
    return False


def _numpy_names(file: IndexedFile) -> frozenset[str]:
    return frozenset(name for name, several in file.names.items() if any(map(_is_numpy, several)))


def _is_numpy(binding: object) -> bool:
    return isinstance(binding, Imported) and binding.module.partition(".")[0] == "numpy"


def _tests(function: Function) -> Iterator[ast.expr]:
    """What is asked for its truth."""
    yield from (branch.test for branch in of_kind(function, ast.If))
    yield from (loop.test for loop in of_kind(function, ast.While))
    yield from (choice.test for choice in of_kind(function, ast.IfExp))
    for one in of_kind(function, ast.comprehension):
        yield from one.ifs
    yield from of_kind(function, ast.BoolOp)
    yield from (node.operand for node in of_kind(function, ast.UnaryOp) if isinstance(node.op, ast.Not))
    for call in of_kind(function, ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in ("min", "max") and len(call.args) > 1:
            yield from call.args

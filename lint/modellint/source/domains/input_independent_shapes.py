"""Static sizes: tensors of one function whose sizes are the same whatever the input, by the definitions that reach them.

What a reshaping to numbers gives is static, as are parameters, buffers and what factories make of numbers; so is what an
operator or a layer computes of nothing but static tensors. Where values decide sizes (`nonzero`, a mask), and in what is not
understood, nothing is static.
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.mentions import blocks
from modellint.source.syntax.ast_walk import given_to, of_kind, parents_in
from modellint.source.syntax.function_bindings import FunctionBindings

if TYPE_CHECKING:
    from modellint.source.syntax.ast_walk import Function

_Definition: TypeAlias = tuple[str, int, int]
"""A variable, a block, and how many statements of the block itself have bound it before."""
_NOT, _BEHIND_CHANNELS, _WHOLE = range(3)
"""Whether the sizes of a tensor are static: not, all but the first two, or all."""
_BY_VALUES = frozenset(
    {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "nms", "batched_nms", "bincount"}
    | {"item", "tolist", "numpy", "repeat_interleave", "eval", "getattr", "input", "next"}
)
"""What gives sizes, or numbers, that values decide."""
_MOVING = frozenset(
    {"permute", "transpose", "t", "T", "mT", "movedim", "moveaxis", "swapaxes", "swapdims", "flatten", "unflatten"}
    | {"einsum", "rearrange", "repeat", "reduce", "stack", "matmul", "bmm", "unfold", "fold", "pixel_shuffle", "roll"}
    | {"squeeze", "unsqueeze", "expand", "view", "reshape", "concat", "cat", "concatenate", "tile", "diagonal"}
)
"""Operators that put the first dimensions elsewhere, or others before them."""
_RESHAPING = frozenset({"view", "reshape"})
_RESIZING = frozenset({"interpolate", "upsample", "adaptive_avg_pool2d", "adaptive_max_pool2d"})
_JOINING = frozenset({"cat", "concat", "concatenate"})
_BEHIND = 2
"""So many dimensions, batch and channels, no resampling asks for."""


class _Definitions:
    """Reaching definitions: those of a variable that come behind the last assignment of a block that every way to a place goes through."""

    def __init__(self, function: Function) -> None:
        self._parents = parents_in(function)
        self._places: dict[ast.AST, tuple[int, int, ast.stmt | None]] = {}
        """Of each statement its block, where it stands there, and the statement around the block."""
        self._starts: dict[tuple[int, str], list[int]] = {}
        pending: list[tuple[list[ast.stmt], ast.stmt | None]] = [(function.body, None)]
        for block, (statements, around) in enumerate(pending):
            for at, statement in enumerate(statements):
                self._places[statement] = block, at, around
                match statement:
                    case ast.Assign(targets=[ast.Name(id=name)]):
                        self._starts.setdefault((block, name), []).append(at)
                    case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                        continue
                pending += ((inner, statement) for inner in blocks(statement))

    def _around(self, node: ast.AST) -> Iterator[tuple[int, int]]:
        """The places of the statements around a node, innermost first."""
        part: ast.AST | None = node
        while part is not None and part not in self._places:
            part = self._parents.get(part)
        while part is not None:
            block, at, part = self._places[part]
            yield block, at

    def read(self, name: ast.Name) -> _Definition:
        """What a variable is where it is read."""
        for block, at in self._around(name):
            count = bisect_left(self._starts.get((block, name.id), ()), at)
            if count:
                return name.id, block, count
        return self.given(name.id)

    def bound(self, name: str, value: ast.expr) -> Iterator[_Definition]:
        """All that a value is a definition of."""
        statement = self._parents.get(value)
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                is_start = statement in self._places
            case _:
                is_start = False
        for block, at in self._around(value):
            yield name, block, bisect_left(self._starts.get((block, name), ()), at) + is_start
            is_start = False

    @staticmethod
    def given(name: str) -> _Definition:
        """What a variable is before any block binds it."""
        return name, 0, 0


class StaticSizes:
    """Of each definition of a local variable how far its sizes are static: the greatest solution.

    ``is_constant`` tells of an attribute of ``self`` whether only building the object binds it; ``names`` are those of the file.
    """

    def __init__(self, function: Function, is_constant: Callable[[str], bool], names: Container[str]) -> None:
        self._is_constant = is_constant
        self._names = names
        bindings = FunctionBindings(function)
        self._self_name = bindings.self_name
        self._known: dict[int, int] = {}
        self._arguments = {part.arg for part in of_kind(function, ast.arg)}
        self._locals = {*bindings.locals, *self._arguments}
        self._counters = _counters(function)
        self._definitions = _Definitions(function)
        self._levels: dict[_Definition, int] = {}
        self._solve(bindings)

    def _solve(self, bindings: FunctionBindings) -> None:
        pending: list[tuple[_Definition, ast.expr]] = []
        readers: dict[_Definition, list[tuple[_Definition, ast.expr]]] = {}
        opaque: set[str] = set()
        for name, values in bindings.locals.items():
            for value in values:
                if value is None:
                    opaque.add(name)
                    continue
                reads = {self._definitions.read(read) for read in of_kind(value, ast.Name)}
                for definition in self._definitions.bound(name, value):
                    pending.append((definition, value))
                    for read in reads:
                        readers.setdefault(read, []).append(pending[-1])
        self._levels = {definition: _NOT if definition[0] in opaque else _WHOLE for definition, _ in pending}
        for name in self._arguments:
            self._levels[self._definitions.given(name)] = _NOT
        while pending:
            lowered: list[tuple[_Definition, ast.expr]] = []
            for definition, value in pending:
                level = self.of(value)
                if level < self._levels[definition]:
                    self._levels[definition] = level
                    lowered += readers.get(definition, ())
            pending = lowered

    def of(self, node: ast.expr) -> int:
        """How far the sizes of a tensor are static; of a number whether it is one."""
        self._known = {}
        return self._of(node)

    def _of(self, node: ast.expr) -> int:
        level = self._known.get(id(node))
        if level is None:
            level = self._known[id(node)] = self._looked_up(node)
        return level

    def _looked_up(self, node: ast.expr) -> int:
        match node:
            case ast.Constant():
                return _WHOLE
            case ast.Name(id=name):
                return self._of_name(node, name)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == self._self_name:
                return _WHOLE if self._is_constant(attribute) else _NOT
            case ast.Attribute(value=value, attr=attribute):
                level = self._of(value)
                return level if attribute not in _MOVING and attribute != "shape" else _if_whole(level)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._least(parts)
            case ast.BinOp(left=left, right=right):
                level = self._least((left, right))
                return _if_whole(level) if isinstance(node.op, ast.MatMult) else level
            case ast.UnaryOp(operand=operand):
                return self._of(operand)
            case ast.IfExp(body=body, orelse=other):
                return self._least((body, other))
            case ast.ListComp(elt=element):
                return self._of(element)
            case ast.Subscript():
                return self._of_subscript(node)
            case ast.Call():
                return self._of_call(node)
        return _NOT

    def _of_name(self, node: ast.Name, name: str) -> int:
        if name in self._counters or name == self._self_name:
            return _NOT
        if name in self._locals:
            return self._levels.get(self._definitions.read(node), _NOT)
        return _WHOLE if name in self._names or hasattr(builtins, name) else _NOT

    def _least(self, parts: Iterable[ast.expr]) -> int:
        return min((self._of(part.value if isinstance(part, ast.Starred) else part) for part in parts), default=_WHOLE)

    def _of_subscript(self, node: ast.Subscript) -> int:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        match node:
            case ast.Subscript(value=ast.Attribute(value=owner, attr="shape"), slice=index) if _is_behind(index):
                return _WHOLE if self._of(owner) else _NOT
        if len(parts) > _BEHIND and all(map(self._cuts, parts[_BEHIND:])) and all(map(_is_slice, parts)):
            # `x[:, :, :8, :8]`
            return max(_BEHIND_CHANNELS, self._of_parts(node.value, parts))
        return self._of_parts(node.value, parts)

    def _of_parts(self, value: ast.expr, parts: list[ast.expr]) -> int:
        for part in parts:
            bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else (part,)
            for bound in bounds:
                if bound is None or (isinstance(bound, ast.Name) and bound.id in self._counters):
                    continue
                if self._of(bound) < _WHOLE or (not isinstance(part, ast.Slice) and not _is_number(bound)):
                    return _NOT
        return self._of(value)

    def _cuts(self, part: ast.expr) -> bool:
        """Whether a slice takes so many rows as are written down."""
        match part:
            case ast.Slice(lower=None | ast.Constant(value=0), upper=ast.expr() as upper, step=None):
                return not isinstance(upper, ast.UnaryOp) and self._of(upper) == _WHOLE
        return False

    def _of_call(self, node: ast.Call) -> int:
        parts = given_to(node)
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _BY_VALUES or (name == "where" and len(parts) == 1):
            return _NOT
        if isinstance(function, ast.Name) and name in ("int", "float", "bool"):
            return self._least(parts) if not any(of_kind(part, ast.Call) for part in parts) else _NOT
        is_of_self = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == self._self_name
        if is_of_self and not parts:
            return _NOT
        is_method = isinstance(function, ast.Attribute) and not is_of_self and not self._is_namespace(function.value)
        if name in _RESHAPING and is_method and isinstance(function, ast.Attribute):
            return self._reshaped(function.value, parts)
        if name in _RESHAPING and not is_of_self and parts:
            return self._reshaped(parts[0], parts[1:])
        if name in _RESIZING and not is_method:
            size = next((word.value for word in node.keywords if word.arg in ("size", "output_size")), None)
            size = node.args[1] if size is None and len(node.args) > 1 else size
            if size is not None and not _is_none(size) and self._of(size) == _WHOLE:
                return _BEHIND_CHANNELS
        if name in _JOINING and _dim_of(node) == 1:
            # The parts have the same sizes in all other dimensions.
            joined = parts[0].elts if parts and isinstance(parts[0], (ast.List, ast.Tuple)) else parts[:1]
            levels = [self._of(part) for part in joined]
            return min(levels) if _NOT not in levels else min(max(levels), _BEHIND_CHANNELS)
        if (
            name == "size"
            and is_method
            and len(parts) == 1
            and _is_behind(parts[0])
            and isinstance(function, ast.Attribute)
        ):
            return _WHOLE if self._of(function.value) else _NOT
        level = self._least(parts)
        if is_method and isinstance(function, ast.Attribute):
            level = min(level, self._of(function.value))
        elif isinstance(function, ast.Subscript):
            # `self.layers[i](x)`
            level = min(level, self._of(function))
        return _if_whole(level) if name in _MOVING or name in ("size", "len") else level

    def _is_namespace(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in self._locals and node.id in self._names

    def _reshaped(self, tensor: ast.expr, shape: list[ast.expr]) -> int:
        if len(shape) == 1 and isinstance(shape[0], (ast.Tuple, ast.List)):
            shape = shape[0].elts
        if len(shape) > _BEHIND and not any(map(_is_open, shape[_BEHIND:])) and self._least(shape[_BEHIND:]) == _WHOLE:
            is_whole = not any(map(_is_open, shape)) and self._least(shape) == _WHOLE
            return _WHOLE if is_whole else _BEHIND_CHANNELS
        return _if_whole(min(self._of(tensor), self._least(shape)))


def _if_whole(level: int) -> int:
    return level if level == _WHOLE else _NOT


def _is_open(size: ast.expr) -> bool:
    """Whether a size is left out: `-1`; or a number of sizes that is not told."""
    return isinstance(size, (ast.UnaryOp, ast.Starred)) or not isinstance(
        size, (ast.Constant, ast.Name, ast.Attribute, ast.BinOp)
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_slice(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice)


def _is_number(index: ast.expr) -> bool:
    return isinstance(index, (ast.Constant, ast.UnaryOp))


def _is_behind(index: ast.expr) -> bool:
    """Whether an index of a shape asks for none of its first two sizes."""
    match index:
        case ast.Constant(value=int(dim)):
            return dim >= _BEHIND
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(dim))):
            return dim <= _BEHIND
        case ast.Slice(lower=ast.expr() as lower):
            return _is_behind(lower)
    return False


def _dim_of(call: ast.Call) -> int | None:
    dim = next((word.value for word in call.keywords if word.arg in ("dim", "axis")), None)
    dim = call.args[1] if dim is None and len(call.args) > 1 else dim
    return dim.value if isinstance(dim, ast.Constant) and isinstance(dim.value, int) else None


def _counters(function: Function) -> frozenset[str]:
    """The variables that count turns of loops."""
    counters: set[str] = set()
    for loop in (*of_kind(function, ast.For), *of_kind(function, ast.comprehension)):
        match loop:
            case (
                ast.For(target=target, iter=ast.Call(func=ast.Name(id=name)))
                | ast.comprehension(target=target, iter=ast.Call(func=ast.Name(id=name)))
            ):
                if name == "range" and isinstance(target, ast.Name):
                    counters.add(target.id)
                elif name == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
                    counters.add(target.elts[0].id)
    stored = Counter(part.id for part in of_kind(function, ast.Name) if isinstance(part.ctx, ast.Store))
    targets = [loop.target for loop in of_kind(function, ast.For)]
    targets += [loop.target for loop in of_kind(function, ast.comprehension)]
    bound = Counter(part.id for target in targets for part in of_kind(target, ast.Name))
    return frozenset(name for name in counters if stored[name] == bound[name])

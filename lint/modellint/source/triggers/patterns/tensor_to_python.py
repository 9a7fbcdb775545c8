"""Signs of Python that looks into tensors: branches, numbers, loops, and NumPy at work on what ``forward`` is given.

What an expression may be is told in levels: nothing of the data, something that the caller gives and that may be no tensor, or a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.parameter_kinds import shown_tensors
from modellint.source.domains.tensors import SHOWING
from modellint.source.project.annotations import holds_tensors, says_scalar, says_tensor
from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind, once, parameters_of, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

NOTHING, GIVEN, TENSOR = 0, 1, 2
_ABOUT = frozenset(
    {
        "shape",
        "dtype",
        "device",
        "ndim",
        "requires_grad",
        "is_cuda",
        "training",
        "layout",
        "itemsize",
        "grad",
        "is_sparse",
    }
)
"""Attributes that tell nothing of the values."""
_SIZES = frozenset(
    {"size", "dim", "numel", "ndimension", "stride", "nelement", "element_size", "is_contiguous", "data_ptr"}
)
_ASKING = frozenset(
    {"isinstance", "hasattr", "callable", "len", "type", "issubclass", "id", "str", "repr", "is_tensor", "is_tracing"}
)
_FILLING = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft"})
_PLAIN = frozenset({"self", "torch", "nn", "F", "math", "np", "os", "len", "isinstance", "True", "False"})


class Taint:
    """Which variables of the functions that ``forward`` runs may hold what."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.names = frozenset(function.name for function in functions)
        self.kept = frozenset(_attributes_set(functions))
        """Attributes of the object that are set while it runs."""
        # A function's tree holds this: to hold the function in turn would be a cycle, which nothing collects.
        self._levels: dict[int, dict[str, int]] = {}
        self._sizes: dict[tuple[int, str, int], bool] = {}

    def levels(self, function: Function) -> dict[str, int]:
        """What the variables of a function may hold."""
        found = self._levels.get(id(function))
        if found is None:
            found = self._levels[id(function)] = self._given(function)
            bound = list(_bindings(function))
            changed = True
            while changed:
                changed = False
                for names, value in bound:
                    level = self.of(value, found)
                    for name in names if level else ():
                        if found.get(name, NOTHING) < level:
                            found[name] = level
                            changed = True
        return found

    def _given(self, function: Function) -> dict[str, int]:
        """What the parameters of a function may be, and those of the functions in it."""
        inner = [one.args for one in of_kind(function, ast.Lambda)]
        inner += (one.args for one in of_kind(function, ast.FunctionDef))
        found = {one.arg: TENSOR for part in inner for one in (*part.args, *part.kwonlyargs)}
        if function.name != "forward":
            scalars = {parameter.arg for parameter, _ in _parameters(function) if says_scalar(parameter.annotation)}
            return {**found, **dict.fromkeys(parameters_of(function) - scalars, TENSOR)}
        shown = shown_tensors(function)
        for parameter, default in _parameters(function):
            annotated = says_tensor(parameter.annotation)
            if holds_tensors(parameter.annotation):
                found[parameter.arg] = TENSOR
                continue
            if annotated is False or (isinstance(default, ast.Constant) and default.value is not None):
                continue
            found[parameter.arg] = TENSOR if annotated or parameter.arg in shown else GIVEN
        found.pop("self", None)
        return found

    def of(self, node: ast.expr, levels: dict[str, int]) -> int:
        """What an expression may be."""
        match node:
            case ast.Name(id=name):
                return levels.get(name, NOTHING)
            case ast.Constant() | ast.JoinedStr() | ast.Lambda():
                return NOTHING
            case ast.Attribute(value=inner, attr=name):
                if name in _ABOUT:
                    return NOTHING
                if name in self.kept:
                    return TENSOR
                return self.of(inner, levels)
            case ast.Compare(ops=ops) if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
                return NOTHING
            case ast.Call():
                return self._of_call(node, levels)
        return max(
            (self.of(part, levels) for part in _parts(node)),
            default=NOTHING,
        )

    def _of_call(self, node: ast.Call, levels: dict[str, int]) -> int:
        name = called_name(node)
        if name in _ASKING or (name in _SIZES and isinstance(node.func, ast.Attribute)):
            return NOTHING
        given = max((self.of(part, levels) for part in _given_to(node)), default=NOTHING)
        owner = self.of(node.func.value, levels) if isinstance(node.func, ast.Attribute) else self.of(node.func, levels)
        if given:
            return TENSOR
        if owner:
            return TENSOR if name in SHOWING else owner
        return TENSOR if self.kept and name in self.names else NOTHING

    def is_size(self, node: ast.expr, function: Function, depth: int = 0) -> bool:
        """Whether an expression may hold a size of what the caller gives."""
        levels = self.levels(function)
        for part in walk(node):
            match part:
                case ast.Attribute(value=inner, attr="shape"):
                    if self.of(inner, levels):
                        return True
                case (
                    ast.Call(func=ast.Attribute(value=inner, attr="size"))
                    | ast.Call(func=ast.Name(id="len"), args=[inner])
                ):
                    if self.of(inner, levels):
                        return True
                case ast.Name(id=name) if depth < 4:
                    if self._holds_size(name, function, depth + 1):
                        return True
        return False

    def _holds_size(self, name: str, function: Function, depth: int) -> bool:
        key = (id(function), name, depth)
        if key not in self._sizes:
            values = once(function, "_bound_values", _values).get(name, ())
            self._sizes[key] = any(self.is_size(value, function, depth) for value in values)
        return self._sizes[key]


def _attributes_set(functions: Sequence[Function]) -> Iterator[str]:
    for function in functions:
        for node in of_kind(function, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                yield node.attr
        for call in of_kind(function, ast.Call):
            # `self.cache.append(x)`
            if called_name(call) in _FILLING and isinstance(call.func, ast.Attribute):
                yield from (node.attr for node in walk(call.func.value) if isinstance(node, ast.Attribute))
        for item in of_kind(function, ast.Subscript):
            if not isinstance(item.ctx, ast.Load):
                yield from (part.attr for part in walk(item.value) if isinstance(part, ast.Attribute))


def taint_of(functions: Sequence[ast.stmt]) -> Taint:
    """What is known of the functions that a ``forward`` runs, found once."""
    first = functions[0]
    key = tuple(map(id, functions))
    kept: tuple[tuple[int, ...], Taint] | None = vars(first).get("_taint")
    if kept is None or kept[0] != key:
        kept = vars(first)["_taint"] = (key, Taint(functions_in(functions)))
    return kept[1]


def branches(functions: Sequence[ast.stmt]) -> bool:
    """Whether a condition may depend on the values of a tensor."""
    taint = taint_of(functions)
    for function in functions_in(functions):
        for test in _tests(function):
            if _is_worth_a_look(test) and taint.of(test, taint.levels(function)) == TENSOR:
                return True
    return False


def takes_numbers(functions: Sequence[ast.stmt]) -> bool:
    """Whether Python may take a number out of a tensor."""
    taint = taint_of(functions)
    for function in functions_in(functions):
        for call in of_kind(function, ast.Call):
            match call:
                case ast.Call(func=ast.Attribute(value=inner, attr="item" | "tolist" | "numpy")):
                    if taint.of(inner, taint.levels(function)):
                        return True
                case ast.Call(func=ast.Name(id="int" | "float" | "bool"), args=[inner]):
                    if _is_worth_a_look(inner) and taint.of(inner, taint.levels(function)) == TENSOR:
                        return True
                case _:
                    pass
    return False


def uses_numpy(file: IndexedFile, functions: Sequence[ast.stmt]) -> bool:
    """Whether NumPy may work on what the caller gives, or draw numbers."""
    numpy = once(file.tree, "_numpy", lambda _: _numpy_names(file))
    if not numpy:
        return False
    taint = taint_of(functions)
    for function in functions_in(functions):
        for call in of_kind(function, ast.Call):
            root: ast.expr = call.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in numpy:
                levels = taint.levels(function)
                if "random" in ast.unparse(call.func) or any(taint.of(part, levels) for part in _given_to(call)):
                    return True
                if isinstance(root, ast.Name) and root is call.func:
                    return True
    return False


def loops(functions: Sequence[ast.stmt]) -> bool:
    """Whether a loop may be as long as a tensor."""
    taint = taint_of(functions)
    for function in functions_in(functions):
        through = [loop.iter for loop in of_kind(function, ast.For)]
        through += (one.iter for one in of_kind(function, ast.comprehension))
        for node in through:
            if not _is_worth_a_look(node):
                continue
            if taint.of(node, taint.levels(function)) == TENSOR or taint.is_size(node, function):
                return True
        for loop in of_kind(function, ast.While):
            if isinstance(loop.test, ast.Compare) and taint.is_size(loop.test, function):
                return True
    return False


def _numpy_names(file: IndexedFile) -> frozenset[str]:
    return frozenset(name for name, several in file.names.items() if any(map(_is_numpy, several)))


def _is_numpy(binding: object) -> bool:
    return isinstance(binding, Imported) and binding.module.partition(".")[0] == "numpy"


def _tests(function: Function) -> Iterator[ast.expr]:
    """What is asked for its truth."""
    for branch in of_kind(function, ast.If):
        yield from _leaves(branch.test)
    for loop in of_kind(function, ast.While):
        yield from _leaves(loop.test)
    for choice in of_kind(function, ast.IfExp):
        yield from _leaves(choice.test)
    for one in of_kind(function, ast.comprehension):
        for condition in one.ifs:
            yield from _leaves(condition)
    for both in of_kind(function, ast.BoolOp):
        yield from _leaves(both)
    for negation in of_kind(function, ast.UnaryOp):
        if isinstance(negation.op, ast.Not):
            yield from _leaves(negation)
    for call in of_kind(function, ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in ("min", "max") and len(call.args) > 1:
            yield from call.args


def _leaves(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _leaves(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _leaves(test.operand)
    elif not isinstance(test, ast.Name) or not test.id.startswith(("return_", "output_", "use_")):
        yield test


def _is_worth_a_look(node: ast.expr) -> bool:
    """Whether an expression names a variable, or asks a method for something: what is only about flags and sizes does not."""
    match node:
        case ast.Constant():
            return False
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name != "training"
        case ast.Compare(ops=ops) if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
            return False
        case ast.Compare(comparators=[ast.Constant(value=str())]):
            return False
        case ast.Call(func=ast.Name(id=name)) if name in _ASKING:
            return False
    return True


def _parameters(function: Function) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(names) - len(arguments.defaults))
    yield from zip(names, [*defaults, *arguments.defaults], strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _given_to(call: ast.Call) -> Iterator[ast.expr]:
    for part in call.args:
        yield part.value if isinstance(part, ast.Starred) else part
    for keyword in call.keywords:
        yield keyword.value


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            yield part
        elif isinstance(part, ast.comprehension):
            yield part.iter


def _bindings(function: Function) -> list[tuple[frozenset[str], ast.expr]]:
    """The variables of a function, with what they are bound to."""
    kept: list[tuple[frozenset[str], ast.expr]] | None = vars(function).get("_bindings")
    if kept is None:
        kept = vars(function)["_bindings"] = list(_find_bindings(function))
    return kept


def _values(function: Function) -> dict[str, list[ast.expr]]:
    """What each variable of a function is bound to."""
    found: dict[str, list[ast.expr]] = {}
    for names, value in _bindings(function):
        for name in names:
            found.setdefault(name, []).append(value)
    return found


def _find_bindings(function: Function) -> Iterator[tuple[frozenset[str], ast.expr]]:
    for node in of_kind(function, ast.Assign):
        for target in node.targets:
            yield _names(target), node.value
    for augmented in of_kind(function, ast.AugAssign):
        yield _names(augmented.target), augmented.value
    for walrus in of_kind(function, ast.NamedExpr):
        yield _names(walrus.target), walrus.value
    for annotated in of_kind(function, ast.AnnAssign):
        if annotated.value is not None:
            yield _names(annotated.target), annotated.value
    for loop in of_kind(function, ast.For):
        yield _names(loop.target), loop.iter
    for turn in of_kind(function, ast.comprehension):
        yield _names(turn.target), turn.iter
    for item in of_kind(function, ast.withitem):
        if item.optional_vars is not None:
            yield _names(item.optional_vars), item.context_expr
    for call in of_kind(function, ast.Call):
        if called_name(call) in _FILLING and isinstance(call.func, ast.Attribute):
            names = _names(call.func.value)
            for given in _given_to(call):
                yield names, given


def _names(target: ast.AST) -> frozenset[str]:
    if isinstance(target, ast.Name):
        return frozenset({target.id})
    return frozenset(part.id for part in walk(target) if isinstance(part, ast.Name))

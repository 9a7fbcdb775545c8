"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.nodes import of_kind, walk
from modellint.source.project import Imported
from modellint.source.torch_names import STATELESS

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile

MAKES = "<makes tensors>"
"""What builds the object may make a tensor."""
WIDE = "<wide>"
"""A tensor may get six dimensions."""
THROUGH = "<writes through>"
"""What may be a copy, of `reshape` and its kin, may be written to."""
BUILDS = "<builds>"
"""A function other than ``__init__`` may build a module with state."""
DROPS = "<drops>"
"""A functional dropout may be on whatever the mode."""
FORWARDS = "<forwards>"
"""The `forward` of another object may be called by name."""
MOVES = "<moves>"
"""A `view` may be asked of what a permutation gave."""
SIGNS = frozenset({MAKES, WIDE, THROUGH, BUILDS, DROPS, FORWARDS, MOVES})

PERMUTING = frozenset(
    [
        "transpose",
        "permute",
        "t",
        "adjoint",
        "swapaxes",
        "swapdims",
        "movedim",
        "moveaxis",
        "expand",
        "unfold",
        "expand_as",
        "einsum",
        "select",
        "narrow",
        "unbind",
        "split",
        "diagonal",
    ]
)
"""Operators whose result seldom lies in memory as a contiguous tensor does."""
MOVING = PERMUTING | {
    "chunk",
    "tensor_split",
    "split_with_sizes",
    "as_strided",
    "hsplit",
    "vsplit",
    "dsplit",
    "broadcast_to",
    "scaled_dot_product_attention",
    "rearrange",
    "repeat",
    "flip",
    "real",
    "imag",
}
"""Those, and others whose result may not."""

ON_BY_DEFAULT = {"dropout": 2, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
"""Functions whose ``training`` is True unless told otherwise, and the place of that argument."""

OFF_BY_DEFAULT = {"alpha_dropout": 2, "feature_alpha_dropout": 2, "batch_norm": 5, "rrelu": 3}
"""Those whose ``training`` is False unless told otherwise."""
_DROPOUTS = frozenset({*ON_BY_DEFAULT, *OFF_BY_DEFAULT})

EITHER = frozenset({"reshape", "reshape_as", "flatten", "ravel", "contiguous"})
"""Operators that give a view where they can, and a copy where they cannot."""

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Functions = list[_Function]
_OTHERS = (
    "Error",
    "Exception",
    "Warning",
    "Output",
    "OutputWithPast",
    "Config",
    "Tensor",
    "Generator",
    "Cache",
    "Parameter",
)
_NO_TENSOR = frozenset(
    {"device", "no_grad", "enable_grad", "inference_mode", "is_tensor", "save", "load", "compile", "finfo", "iinfo"}
    | {"get_default_dtype", "manual_seed", "set_grad_enabled", "is_grad_enabled", "is_floating_point", "autocast"}
)
_SHAPED = frozenset(
    {
        "view",
        "reshape",
        "view_as",
        "reshape_as",
        "permute",
        "expand",
        "expand_as",
        "repeat",
        "tile",
        "zeros",
        "ones",
        "empty",
    }
    | {
        "full",
        "rand",
        "randn",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "broadcast_to",
        "as_strided",
        "unflatten",
    }
)
_GROWING = frozenset(
    {"unsqueeze", "stack", "unfold", "unflatten", "diag_embed", "one_hot", "view_as_real", "as_strided"}
)
_MOST = 5
_OF_RANK_THREE = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention", "bmm", "baddbmm", "TransformerEncoderLayer"})
_RANKS = {"1d": 3, "2d": 4, "3d": 5}
"""Ranks of what layers take, by the ends of their names."""


def shows(sign: str, file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether classes and functions of a file, which may run each other, show a sign."""
    if sign == MAKES:
        return _makes_tensors(file, nodes)
    if sign == BUILDS:
        return _builds(nodes)
    if sign == MOVES:
        return _may_move(nodes)
    if sign == DROPS:
        return _drops(file, nodes)
    if sign == FORWARDS:
        return any(_calls_forward(call) for node in nodes for call in of_kind(node, ast.Call))
    return _gets_wide(nodes) if sign == WIDE else _writes_through(nodes)


def may_build(name: str) -> bool:
    """Whether a name may be that of a module class with state."""
    return name[:1].isupper() and name not in STATELESS and not name.endswith(_OTHERS) and "ModelOutput" not in name


def _drops(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    calls = [call for node in nodes for call in of_kind(node, ast.Call)]
    if any(map(_may_drop, calls)):
        return True
    # Handed on: `drop = F.dropout`.
    called = {call.func for call in calls}
    return any(
        part not in called and _is_dropout(file, part)
        for node in nodes
        for parts in (of_kind(node, ast.Attribute), of_kind(node, ast.Name))
        for part in parts
    )


def _is_dropout(file: IndexedFile, node: ast.expr) -> bool:
    """Whether an expression is a functional dropout, by torch's module or by an import of its own."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr=module), attr=name):
            return name in _DROPOUTS and module == "functional"
        case ast.Attribute(value=ast.Name(id=root), attr=name) if name in _DROPOUTS:
            return any(
                isinstance(one, Imported) and (one.module.endswith("functional") or one.name == "functional")
                for one in file.names.get(root, ())
            )
        case ast.Name(id=name):
            return any(
                isinstance(one, Imported) and one.name in _DROPOUTS and one.module.endswith("functional")
                for one in file.names.get(name, ())
            )
    return False


def _may_drop(call: ast.Call) -> bool:
    name = _called(call)
    mode = [word.value for word in call.keywords if word.arg == "training"]
    anything = any(word.arg is None for word in call.keywords)
    if name in ON_BY_DEFAULT:
        return not mode and not anything and len(call.args) <= ON_BY_DEFAULT[name]
    if name in OFF_BY_DEFAULT:
        mode += call.args[OFF_BY_DEFAULT[name] : OFF_BY_DEFAULT[name] + 1]
        return any(not (isinstance(one, ast.Attribute) and one.attr == "training") for one in mode)
    return False


def _calls_forward(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "forward"
        and not (isinstance(node.func.value, ast.Call) and getattr(node.func.value.func, "id", "") == "super")
    )


def _builds(nodes: Sequence[ast.stmt]) -> bool:
    running: list[ast.AST] = []
    for function in functions_in(nodes):
        if function.name != "__init__":
            running.append(function)
        else:
            running += (*of_kind(function, ast.FunctionDef), *of_kind(function, ast.Lambda))
    return any(_builds_here(call) for function in running for call in of_kind(function, ast.Call))


def _builds_here(call: ast.Call) -> bool:
    name = _called(call)
    return may_build(name) and bool(call.args or call.keywords or not name.endswith("Loss"))


def functions_in(nodes: Sequence[ast.stmt]) -> _Functions:
    """The functions among nodes, and the methods of the classes among them."""
    found: _Functions = []
    for node in nodes:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        found.extend(part for part in members if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return found


def _makes_tensors(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    if file.stars:
        return True
    functions = functions_in(nodes)
    pending = [function for function in functions if function.name == "__init__"] or list(functions)
    left = [function for function in functions if function not in pending]
    while pending:
        function = pending.pop()
        if any(_may_make(file, call.func) for call in of_kind(function, ast.Call)):
            return True
        for node in of_kind(function, ast.AnnAssign):
            if node.value is not None and "Tensor" in ast.unparse(node.annotation):
                return True
        if left:
            names = {node.attr for node in of_kind(function, ast.Attribute)}
            names.update(node.id for node in of_kind(function, ast.Name))
            pending.extend(function for function in left if function.name in names)
            left = [function for function in left if function.name not in names]
    return False


def _may_make(file: IndexedFile, called: ast.expr) -> bool:
    """Whether a function may be one of torch's that gives a tensor, whatever it is given."""
    path: list[str] = []
    while isinstance(called, ast.Attribute):
        path.append(called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return False
    last = path[0] if path else called.id
    if last.endswith("Tensor") or last == "Variable":
        return True
    if last[:1].isupper() or last in _NO_TENSOR:
        return False
    bindings = file.names.get(called.id)
    if bindings is None:
        return False
    for binding in bindings:
        if isinstance(binding, Imported):
            whole = [binding.module, *([binding.name] if binding.name else []), *reversed(path)]
            name = ".".join(whole)
            if name.startswith("torch.") and not name.startswith(
                ("torch.nn.", "torch.jit.", "torch.utils.", "torch.distributed")
            ):
                return True
        elif called.id not in ("self", "cls") and path:
            return True
    return False


def _gets_wide(nodes: Sequence[ast.stmt]) -> bool:
    widest = max([2, *map(_widest_of_layers, nodes)])
    grown = 0
    rows: list[tuple[int, int]] = []
    """Of shapes that are written in part: how many sizes are, and how many stretches of unknown length stand between."""
    repeated: set[ast.expr] = set()
    for outer in nodes:
        for call in of_kind(outer, ast.Call):
            name = _called(call)
            if name in _SHAPED:
                rows.append(_row(call.args))
                rows.extend(_row(one.elts) for one in call.args if isinstance(one, (ast.Tuple, ast.List)))
                if name == "expand" and isinstance(call.func, ast.Attribute):
                    # `x[:, :, None].expand(b, h, n, t, d)`: what is added counts among what is written.
                    repeated.add(call.func.value)
            elif name == "einsum":
                widest = max(widest, _letters(call.args))
            if name in _GROWING:
                grown += 1 if isinstance(outer, ast.ClassDef) else 2
        for items in of_kind(outer, ast.Tuple):
            if isinstance(items.ctx, ast.Store):
                widest = max(widest, len(items.elts))
        values = (assignment.value for assignment in of_kind(outer, ast.Assign))
        rows.extend(_row(value.elts) for value in values if isinstance(value, (ast.Tuple, ast.List)))
        sums = (node for node in of_kind(outer, ast.BinOp) if isinstance(node.op, ast.Add))
        rows.extend(_row_of(node) for node in sums if _is_row(node.left) or _is_row(node.right))
        for part in of_kind(outer, ast.Subscript):
            if part not in repeated or not isinstance(part.slice, ast.Tuple):
                grown += _added(part)
    widest = max([widest, *(written for written, unknown in rows if not unknown)])
    widest = max([widest, *(written + unknown * (widest - 1) for written, unknown in rows if unknown)])
    if grown and any(_grows(part) for outer in nodes for loop in _loops(outer) for part in walk(loop)):
        grown += 2
    return widest > _MOST or (grown > 0 and widest + grown > _MOST)


def _widest_of_layers(node: ast.stmt) -> int:
    """The largest rank that the layers and functions take which a class or function names."""
    names = {part.attr for part in of_kind(node, ast.Attribute)}
    names.update(part.id for part in of_kind(node, ast.Name))
    found = [_RANKS.get(name[-2:].lower(), 0) for name in names if name[-1:] in "dD"]
    return max([0 if names.isdisjoint(_OF_RANK_THREE) else 3, *found])


def _loops(node: ast.stmt) -> Iterator[ast.AST]:
    for kind in (ast.For, ast.While, ast.ListComp, ast.GeneratorExp):
        yield from of_kind(node, kind)


def _added(node: ast.Subscript) -> int:
    """How many dimensions a subscript adds."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return sum(isinstance(item, ast.Constant) and item.value is None for item in items)


def _grows(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _GROWING
        case ast.Subscript():
            return _added(node) > 0
    return False


def _row(given: Sequence[ast.expr]) -> tuple[int, int]:
    unknown = sum(isinstance(one, ast.Starred) for one in given)
    return len(given) - unknown, unknown


def _row_of(node: ast.expr) -> tuple[int, int]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return _row(node.elts)
    if isinstance(node, ast.BinOp):
        one, other = _row_of(node.left), _row_of(node.right)
        return one[0] + other[0], one[1] + other[1]
    return 0, 1


def _letters(given: Sequence[ast.expr]) -> int:
    """How many dimensions the longest term of an equation has; more than there may be where it is not written out."""
    equation = given[0].value if given and isinstance(given[0], ast.Constant) else None
    if not isinstance(equation, str) or "." in equation:
        return _MOST + 1
    return max(len(term.strip()) for term in equation.replace("->", ",").split(","))


def _is_row(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Attribute) and node.attr == "shape")


_ANYTHING = "*"
"""Stands among the names that a value rests on, where the value itself does what is asked for."""


class _Step:
    """What one place of a function does with names: in the order of the text."""

    __slots__ = ("_rests_on", "asks", "called", "certain", "names", "row", "values")

    def __init__(
        self,
        row: int,
        values: Sequence[ast.expr],
        names: frozenset[str] = frozenset(),
        certain: bool = False,
        called: str = "",
        asks: bool = False,
    ) -> None:
        self.row = row
        self.values = values
        self.names = names
        """What it binds to them."""
        self.certain = certain
        """It runs whenever the function does, so that what it binds is no longer what it was."""
        self.called = called
        """The function that gets the values, where it is a call."""
        self.asks = asks
        """The values are asked for a view."""
        self._rests_on: frozenset[str] | None = None

    @property
    def rests_on(self) -> frozenset[str]:
        """Names of which one must be moved for the values to be."""
        if self._rests_on is None:
            self._rests_on = _rests_on(self.values)
        return self._rests_on


def _may_move(nodes: Sequence[ast.stmt]) -> bool:
    """Whether the receiver of a `view` may be what a permutation, or a part of a tensor, gave."""
    functions = functions_in(nodes)
    if not any(_asks_for_view(call) for function in functions for call in of_kind(function, ast.Call)):
        return False
    names = {function.name for function in functions}
    steps = [(function, [step for step in _steps(function) if not step.called or step.called in names])
             for function in functions]  # fmt: skip
    everywhere = {_ANYTHING}
    given: dict[str, set[str]] = {name: set() for name in names}
    size = -1
    while size < len(everywhere) + sum(map(len, given.values())):
        size = len(everywhere) + sum(map(len, given.values()))
        for function, several in steps:
            moved = given[function.name] | everywhere
            for _ in range(2):
                for step in several:
                    if step.rests_on.isdisjoint(moved):
                        if step.certain:
                            moved -= step.names - everywhere
                    elif step.asks:
                        return True
                    elif step.called:
                        for other in functions:
                            if other.name == step.called:
                                given[other.name] |= _parameters(other)
                    else:
                        moved |= step.names
                        everywhere |= {name for name in step.names if name.startswith(".") or name == function.name}
    return False


def _asks_for_view(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("view", "view_as")


_STEPPING = frozenset(
    {ast.Assign, ast.NamedExpr, ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension, ast.Return, ast.Call}
)


def _steps(function: _Function) -> list[_Step]:
    """What a function does with names, in the order of the rows."""
    kept: list[_Step] | None = vars(function).get("_steps")
    if kept is None:
        kept = vars(function)["_steps"] = sorted(_find_steps(function), key=lambda step: step.row)
    return kept


def _find_steps(function: _Function) -> Iterator[_Step]:
    outermost = set(function.body)
    for node in walk(function):
        if node.__class__ not in _STEPPING:
            continue
        row = getattr(node, "lineno", 0)
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield _Step(row, _given(node), called=name)
                if _asks_for_view(node) and isinstance(node.func, ast.Attribute):
                    yield _Step(row, [node.func.value], asks=True)
            case ast.Assign(targets=targets, value=value):
                # What a statement binds holds behind all that its value does.
                bound = frozenset(name for target in targets for name in _bound_names(target))
                whole = all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
                yield _Step(node.end_lineno or row, [value], bound, certain=whole and node in outermost)
            case ast.NamedExpr(target=target, value=value) | ast.AugAssign(target=target, value=value):
                yield _Step(row, [value], _bound_names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _Step(row, [value], _bound_names(target))
            case ast.For(target=target, iter=value):
                yield _Step(row, [value], _bound_names(target))
            case ast.comprehension(target=target, iter=value):
                yield _Step(target.lineno, [value], _bound_names(target))
            case ast.Return(value=ast.expr() as value):
                yield _Step(row, [value], frozenset({function.name}))
            case _:
                pass


def _bound_names(target: ast.expr) -> frozenset[str]:
    """Names that a target binds; `.x` for an attribute, which other methods see too."""
    if isinstance(target, ast.Name):
        return frozenset({target.id})
    parts = walk(target)
    attributes = {"." + part.attr for part in parts if isinstance(part, ast.Attribute)}
    return frozenset(attributes or {part.id for part in parts if isinstance(part, ast.Name)})


def _rests_on(values: Sequence[ast.expr]) -> frozenset[str]:
    """Names of which one must be moved for one of the values to be; ``_ANYTHING`` among them where it moves by itself."""
    found: set[str] = set()
    pending: list[ast.AST] = [*values]
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.Constant() | ast.Lambda():
                pass
            case ast.Attribute(value=inner, attr=name):
                found.add(_ANYTHING if name in ("T", "mT", "H", "mH") else "." + name)
                if name not in ("shape", "device", "dtype", "ndim"):
                    pending.append(inner)
            case ast.Subscript(value=inner, slice=index):
                if not isinstance(index, ast.Constant):
                    found.add(_ANYTHING)
                pending.append(inner)
            case ast.Call(func=function) as call:
                name = getattr(function, "attr", "") or getattr(function, "id", "")
                found.add(_ANYTHING if name in MOVING else name)
                if name not in ("contiguous", "size", "dim", "numel", "len", "int"):
                    pending += _given(call)
                    if isinstance(function, ast.Attribute):
                        pending.append(function.value)
            case other:
                pending += (part for part in ast.iter_child_nodes(other) if isinstance(part, ast.expr))
    return frozenset(found)


def _writes_through(nodes: Sequence[ast.stmt]) -> bool:
    functions = functions_in(nodes)
    copying = [function for function in functions if any(map(_copies, of_kind(function, ast.Call)))]
    if not copying:
        return False
    changing = {one.name for one in functions if _written(one) & _parameters(one)}
    for function in copying:
        written = _written(function)
        calls = [call for call in of_kind(function, ast.Call) if _called(call) in changing]
        if not written and not calls:
            continue
        derived = _derived(function)
        if derived & written:
            return True
        if any(_may_copy(given, derived) for call in calls for given in _given(call)):
            return True
        if any(_may_copy(target, derived) for target in _changed(function)):
            return True
    return False


def _called(call: ast.Call) -> str:
    name: str = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    return name


def _copies(call: ast.Call) -> bool:
    return _called(call) in EITHER


def _derived(function: _Function) -> set[str]:
    """Names of a function that may hold what an operator gave that copies or does not."""
    bound: list[tuple[ast.expr, ast.expr]] = []
    for assignment in of_kind(function, ast.Assign):
        bound += ((target, assignment.value) for target in assignment.targets)
    bound += ((node.target, node.value) for node in of_kind(function, ast.NamedExpr))
    bound += ((node.target, node.value) for node in of_kind(function, ast.AnnAssign) if node.value is not None)
    bound += ((node.target, node.iter) for node in of_kind(function, ast.For))
    bound += ((node.target, node.iter) for node in of_kind(function, ast.comprehension))
    derived: set[str] = set()
    left = [(_names(target), value) for target, value in bound]
    size = len(left) + 1
    while len(left) < size:
        size = len(left)
        rest: list[tuple[set[str], ast.expr]] = []
        for names, value in left:
            if _may_copy(value, derived):
                derived |= names
            else:
                rest.append((names, value))
        left = rest
    return derived


def _changed(function: _Function) -> Iterator[ast.expr]:
    """What a function writes to by a method of its own or by an index."""
    for call in of_kind(function, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr[-1:] == "_":
            yield call.func.value
    for node in of_kind(function, ast.Subscript):
        if not isinstance(node.ctx, ast.Load):
            yield node.value


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _may_copy(value: ast.expr, derived: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in derived
    for node in walk(value):
        if isinstance(node, ast.Call):
            if _copies(node):
                return True
        elif isinstance(node, ast.Name) and node.id in derived:
            return True
    return False


def _names(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    parts = walk(target)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}


def _parameters(function: _Function) -> set[str]:
    arguments = function.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}


def _written(function: _Function) -> set[str]:
    """Names at the root of what a function changes in place, or may change so."""
    if any(word.arg in ("out", "inplace") for word in of_kind(function, ast.keyword)):
        return {part.id for part in of_kind(function, ast.Name)}
    found: set[str] = set()
    for target in (*(node.target for node in of_kind(function, ast.AugAssign)), *_changed(function)):
        found |= _names(target)
    return found

"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.nodes import walk
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

_Functions = list[ast.FunctionDef | ast.AsyncFunctionDef]
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
        return any(_calls_forward(node) for outer in nodes for node in walk(outer))
    return _gets_wide(nodes) if sign == WIDE else _writes_through(file, nodes)


def may_build(name: str) -> bool:
    """Whether a name may be that of a module class with state."""
    return name[:1].isupper() and name not in STATELESS and not name.endswith(_OTHERS) and "ModelOutput" not in name


def _drops(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    called: set[int] = set()
    for outer in nodes:
        for node in walk(outer):
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                if _may_drop(node):
                    return True
            elif isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in called and _is_dropout(file, node):
                # Handed on: `drop = F.dropout`.
                return True
    return False


def _is_dropout(file: IndexedFile, node: ast.Attribute | ast.Name) -> bool:
    """Whether an expression is a functional dropout, by torch's module or by an import of its own."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        return name in _DROPOUTS and node.value.attr == "functional"
    if isinstance(node, ast.Attribute) and (name not in _DROPOUTS or not isinstance(node.value, ast.Name)):
        return False
    root = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else name
    imported = [one for one in file.names.get(root, ()) if isinstance(one, Imported)]
    if isinstance(node, ast.Attribute):
        return any(one.module.endswith("functional") or one.name == "functional" for one in imported)
    return any(one.name in _DROPOUTS and one.module.endswith("functional") for one in imported)


def _may_drop(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    mode = [word.value for word in call.keywords if word.arg == "training"]
    anything = any(word.arg is None for word in call.keywords)
    if name in ON_BY_DEFAULT:
        return not mode and not anything and len(call.args) <= ON_BY_DEFAULT[name]
    if name in OFF_BY_DEFAULT:
        mode += call.args[OFF_BY_DEFAULT[name] : OFF_BY_DEFAULT[name] + 1]
        return any(not (isinstance(one, ast.Attribute) and one.attr == "training") for one in mode)
    return False


def _calls_forward(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "forward"
        and not (isinstance(node.func.value, ast.Call) and getattr(node.func.value.func, "id", "") == "super")
    )


def _builds(nodes: Sequence[ast.stmt]) -> bool:
    functions = functions_in(nodes)
    inner = (
        part
        for function in functions
        if function.name == "__init__"
        for part in walk(function)
        if part is not function and isinstance(part, (ast.FunctionDef, ast.Lambda))
    )
    return any(
        isinstance(node, ast.Call)
        and may_build(name := getattr(node.func, "attr", "") or getattr(node.func, "id", ""))
        and (node.args or node.keywords or not name.endswith("Loss"))
        for function in (*(function for function in functions if function.name != "__init__"), *inner)
        for node in walk(function)
    )


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
        names: set[str] = set()
        for node in walk(pending.pop()):
            if isinstance(node, ast.Call) and _may_make(file, node.func):
                return True
            if isinstance(node, ast.AnnAssign) and node.value is not None and "Tensor" in ast.unparse(node.annotation):
                return True
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Name):
                names.add(node.id)
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


_TELLING: frozenset[type[ast.AST]] = frozenset(
    {ast.Call, ast.Tuple, ast.Assign, ast.BinOp, ast.Subscript, ast.For, ast.While, ast.ListComp, ast.GeneratorExp}
)


def _gets_wide(nodes: Sequence[ast.stmt]) -> bool:
    widest, grown = 2, 0
    loops: list[ast.AST] = []
    rows: list[tuple[int, int]] = []
    """Of shapes that are written in part: how many sizes are, and how many stretches of unknown length stand between."""
    repeated: set[int] = set()
    for outer in nodes:
        for node in walk(outer):
            kind = node.__class__
            if kind is ast.Attribute or kind is ast.Name:
                name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
                if name[-1:] in "dD":
                    widest = max(widest, _RANKS.get(name[-2:].lower(), 0))
                elif widest < 3 and name in _OF_RANK_THREE:
                    widest = 3
            elif kind in _TELLING:
                match node:
                    case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=given):
                        if name in _SHAPED:
                            rows.append(_row(given))
                            rows.extend(_row(one.elts) for one in given if isinstance(one, (ast.Tuple, ast.List)))
                            if name == "expand" and isinstance(node.func, ast.Attribute):
                                # `x[:, :, None].expand(b, h, n, t, d)`: what is added counts among what is written.
                                repeated.add(id(node.func.value))
                        elif name == "einsum":
                            widest = max(widest, _letters(given))
                        if name in _GROWING:
                            grown += 1 if isinstance(outer, ast.ClassDef) else 2
                    case ast.Tuple(elts=items, ctx=ast.Store()):
                        widest = max(widest, len(items))
                    case ast.Assign(value=ast.Tuple(elts=items) | ast.List(elts=items)):
                        rows.append(_row(items))
                    case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_row(left) or _is_row(right):
                        one, other = _row_of(left), _row_of(right)
                        rows.append((one[0] + other[0], one[1] + other[1]))
                    case ast.Subscript(slice=ast.Tuple(elts=items)) if id(node) not in repeated:
                        grown += sum(isinstance(item, ast.Constant) and item.value is None for item in items)
                    case ast.Subscript(slice=ast.Constant(value=None)):
                        grown += 1
                    case ast.For() | ast.While() | ast.ListComp() | ast.GeneratorExp():
                        loops.append(node)
                    case _:
                        pass
    widest = max([widest, *(written for written, unknown in rows if not unknown)])
    widest = max([widest, *(written + unknown * (widest - 1) for written, unknown in rows if unknown)])
    if grown and any(_grows(part) for loop in loops for part in walk(loop)):
        grown += 2
    return widest > _MOST or (grown > 0 and widest + grown > _MOST)


def _grows(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _GROWING
        case ast.Subscript(slice=ast.Tuple(elts=items)):
            return any(isinstance(item, ast.Constant) and item.value is None for item in items)
        case ast.Subscript(slice=ast.Constant(value=None)):
            return True
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


class _Step(NamedTuple):
    """What one place of a function does with names: in the order of the text."""

    row: int
    certain: bool
    """It runs whenever the function does, so that what it binds is no longer what it was."""
    names: frozenset[str]
    values: list[ast.expr]
    called: str
    """The function that gets the values, where it is a call."""
    asks: bool
    """The values are asked for a view."""


def _may_move(nodes: Sequence[ast.stmt]) -> bool:
    """Whether the receiver of a `view` may be what a permutation, or a part of a tensor, gave."""
    functions = functions_in(nodes)
    names = {function.name for function in functions}
    steps = [(function, sorted(_steps(function, names), key=lambda step: step.row)) for function in functions]
    if not any(step.asks for _, several in steps for step in several):
        return False
    everywhere: set[str] = set()
    given: dict[str, set[str]] = {name: set() for name in names}
    size = -1
    while size < len(everywhere) + sum(map(len, given.values())):
        size = len(everywhere) + sum(map(len, given.values()))
        for function, several in steps:
            moved = given[function.name] | everywhere
            for _ in range(2):
                for step in several:
                    if not any(_is_moved(value, moved) for value in step.values):
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


def _steps(function: ast.FunctionDef | ast.AsyncFunctionDef, names: set[str]) -> Iterator[_Step]:
    outermost = {id(statement) for statement in function.body}
    for node in walk(function):
        row = getattr(node, "lineno", 0)
        match node:
            case ast.Assign(targets=targets, value=value):
                # What a statement binds holds behind all that its value does.
                bound = frozenset(name for target in targets for name in _bound_names(target))
                whole = all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
                yield _Step(node.end_lineno or row, whole and id(node) in outermost, bound, [value], "", False)
            case ast.NamedExpr(target=target, value=value) | ast.AugAssign(target=target, value=value):
                yield _Step(row, False, _bound_names(target), [value], "", False)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _Step(row, False, _bound_names(target), [value], "", False)
            case ast.For(target=target, iter=value):
                yield _Step(row, False, _bound_names(target), [value], "", False)
            case ast.comprehension(target=target, iter=value):
                yield _Step(target.lineno, False, _bound_names(target), [value], "", False)
            case ast.Return(value=ast.expr() as value):
                yield _Step(row, False, frozenset({function.name}), [value], "", False)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                if name in names:
                    yield _Step(row, False, frozenset(), _given(node), name, False)
                if name in ("view", "view_as") and isinstance(node.func, ast.Attribute):
                    yield _Step(row, False, frozenset(), [node.func.value], "", True)
            case _:
                pass


def _bound_names(target: ast.expr) -> frozenset[str]:
    """Names that a target binds; `.x` for an attribute, which other methods see too."""
    parts = walk(target)
    attributes = {"." + part.attr for part in parts if isinstance(part, ast.Attribute)}
    return frozenset(attributes or {part.id for part in parts if isinstance(part, ast.Name)})


def _is_moved(value: ast.expr, moved: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in moved
        case ast.Constant() | ast.Lambda():
            return False
        case ast.Attribute(value=inner, attr=name):
            if name in ("T", "mT", "H", "mH") or "." + name in moved:
                return True
            return name not in ("shape", "device", "dtype", "ndim") and _is_moved(inner, moved)
        case ast.Subscript(value=inner, slice=index):
            return not isinstance(index, ast.Constant) or _is_moved(inner, moved)
        case ast.Call(func=function):
            name = getattr(function, "attr", "") or getattr(function, "id", "")
            if name in MOVING or name in moved:
                return True
            if name in ("contiguous", "size", "dim", "numel", "len", "int"):
                return False
            if isinstance(function, ast.Attribute) and _is_moved(function.value, moved):
                return True
            return any(_is_moved(one, moved) for one in _given(value))
    return any(_is_moved(part, moved) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)) or (
        isinstance(value, (ast.ListComp, ast.GeneratorExp)) and _is_moved(value.elt, moved)
    )


def _writes_through(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    functions = functions_in(nodes)
    names = {function.name for function in functions}
    changing: set[str] | None = None
    for function in functions:
        if not _COPYING.search(_text(file, function)):
            continue
        derived: set[str] = set()
        size = -1
        while len(derived) > size:
            size = len(derived)
            for node in walk(function):
                match node:
                    case (
                        ast.Assign(value=value) | ast.NamedExpr(value=value) | ast.AnnAssign(value=ast.expr() as value)
                    ):
                        if _may_copy(value, derived):
                            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                            derived.update(name for target in targets for name in _names(target))
                    case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                        if _may_copy(value, derived):
                            derived.update(_names(target))
                    case _:
                        pass
        if derived & _written(function):
            return True
        for node in walk(function):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
                changed = [node.func.value] if isinstance(node.func, ast.Attribute) and name[-1:] == "_" else []
                if any(_may_copy(one, derived) for one in changed):
                    return True
                if name in names and any(_may_copy(given, derived) for given in _given(node)):
                    if changing is None:
                        changing = {one.name for one in functions if _written(one) & _parameters(one)}
                    if name in changing:
                        return True
            elif (
                isinstance(node, ast.Subscript)
                and not isinstance(node.ctx, ast.Load)
                and _may_copy(node.value, derived)
            ):
                return True
    return False


_COPYING = re.compile(r"\b(?:" + "|".join(sorted(EITHER)) + r")\b")


def _text(file: IndexedFile, node: ast.stmt) -> str:
    starts = file.source.line_starts
    end = node.end_lineno or node.lineno
    return file.source.text[starts[node.lineno - 1] : starts[end] if end < len(starts) else None]


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _may_copy(value: ast.expr, derived: set[str]) -> bool:
    for node in walk(value):
        if isinstance(node, ast.Call):
            if (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in EITHER:
                return True
        elif isinstance(node, ast.Name) and node.id in derived:
            return True
    return False


def _names(target: ast.expr) -> set[str]:
    parts = walk(target)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self", "cls"}


def _written(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names at the root of what a function changes in place, or may change so."""
    found: set[str] = set()
    for node in walk(function):
        target: ast.expr | None = None
        if isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr[-1:] == "_":
            target = node.func.value
        elif isinstance(node, ast.keyword) and node.arg in ("out", "inplace"):
            return {part.id for part in walk(function) if isinstance(part, ast.Name)}
        if target is not None:
            found |= _names(target)
    return found

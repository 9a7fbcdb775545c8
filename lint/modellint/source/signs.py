"""What a glance at the syntax of a class shows before it is read in earnest: the second gate of the rules that words wake too often.

Each sign answers "may there be such a thing?": no means no.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
SIGNS = frozenset({MAKES, WIDE, THROUGH, BUILDS})

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
_RANKS = {"1d": 3, "2d": 4, "3d": 5}
"""Ranks of what layers take, by the ends of their names."""


def shows(sign: str, file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether classes and functions of a file, which may run each other, show a sign."""
    if sign == MAKES:
        return _makes_tensors(file, nodes)
    if sign == BUILDS:
        return _builds(nodes)
    return _gets_wide(nodes) if sign == WIDE else _writes_through(file, nodes)


def may_build(name: str) -> bool:
    """Whether a name may be that of a module class with state."""
    return name[:1].isupper() and name not in STATELESS and not name.endswith(_OTHERS)


def _builds(nodes: Sequence[ast.stmt]) -> bool:
    functions = _functions_in(nodes)
    inner = (
        part
        for function in functions
        if function.name == "__init__"
        for part in walk(function)
        if part is not function and isinstance(part, (ast.FunctionDef, ast.Lambda))
    )
    return any(
        isinstance(node, ast.Call) and may_build(getattr(node.func, "attr", "") or getattr(node.func, "id", ""))
        for function in (*(function for function in functions if function.name != "__init__"), *inner)
        for node in walk(function)
    )


def _functions_in(nodes: Sequence[ast.stmt]) -> _Functions:
    found: _Functions = []
    for node in nodes:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        found.extend(part for part in members if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return found


def _makes_tensors(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    if file.stars:
        return True
    functions = _functions_in(nodes)
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


def _gets_wide(nodes: Sequence[ast.stmt]) -> bool:
    widest = grown = loops = 0
    for outer in nodes:
        for node in walk(outer):
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=given):
                    if name in _SHAPED:
                        widest = max(
                            widest,
                            _items(given),
                            *(_items(one.elts) for one in given if isinstance(one, ast.Tuple | ast.List)),
                        )
                    elif name == "einsum":
                        return True
                    if name in _GROWING:
                        grown += 1 if isinstance(outer, ast.ClassDef) else 2
                case ast.Tuple(elts=items, ctx=ast.Store()):
                    widest = max(widest, len(items))
                case ast.Assign(value=ast.Tuple(elts=items) | ast.List(elts=items)):
                    widest = max(widest, _items(items))
                case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_row(left) or _is_row(right):
                    return True
                case ast.Subscript(slice=ast.Tuple(elts=items)):
                    grown += sum(isinstance(item, ast.Constant) and item.value is None for item in items)
                case ast.Subscript(slice=ast.Constant(value=None)):
                    grown += 1
                case ast.For() | ast.While() | ast.comprehension():
                    loops += 1
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    widest = max(widest, _RANKS.get(name[-2:].lower(), 0))
                case _:
                    pass
    grown += 2 if grown and loops else 0
    return widest > _MOST or (grown > 0 and widest + grown > _MOST)


def _items(given: Sequence[ast.expr]) -> int:
    """How many dimensions a row of sizes may stand for; `*x.shape[:-1]` for three at most."""
    return sum(3 if isinstance(one, ast.Starred) else 1 for one in given)


def _is_row(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Attribute) and node.attr == "shape")


def _writes_through(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    if not any(_WRITING.search(_text(file, node)) for node in nodes):
        return False
    functions = _functions_in(nodes)
    changing: set[str] | None = None
    for function in functions:
        if not _COPYING.search(_text(file, function)):
            continue
        if changing is None:
            changing = {one.name for one in functions if _written(one) & _parameters(one)}
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
                if (name in changing or name == "") and any(_may_copy(given, derived) for given in _given(node)):
                    return True
            elif (
                isinstance(node, ast.Subscript)
                and not isinstance(node.ctx, ast.Load)
                and _may_copy(node.value, derived)
            ):
                return True
    return False


_COPYING = re.compile(r"\b(?:" + "|".join(sorted(EITHER)) + r")\b")
_WRITING = re.compile(r"[^\W_]_\s*\(|\]\s*=(?!=)|[-+*/@|&^]=|\b(?:out|inplace)\s*=")


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

"""Version conditions: what a test of PyTorch's version, or of a name of its, is in every torch that modules are exported with.

That is torch 2.0 and what came after: `torch.__version__ < "1.9"` is false, and `hasattr(F, "scaled_dot_product_attention")` is true.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.engine.asserted_conditions import connected
from modellint.source.project.symbols import External, ValueRef, dotted_name
from modellint.source.syntax.ast_walk import once

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_LEAST = (2, 0)
"""No torch is older."""
_NAMES = frozenset(
    {
        f"torch.nn.functional.{name}"
        for name in ("scaled_dot_product_attention", "one_hot", "mish", "silu", "hardswish", "pixel_unshuffle")
    }
    | {
        f"torch.{name}"
        for name in ("compile", "inference_mode", "fft", "linalg", "vmap", "func", "amp", "nan_to_num", "true_divide")
    }
    | {
        f"torch.nn.{name}"
        for name in ("SiLU", "GELU", "Hardswish", "Mish", "MultiheadAttention", "Identity", "SyncBatchNorm")
    }
    | {
        f"torch.fft.{name}"
        for name in ("rfft", "irfft", "rfft2", "irfft2", "fft", "ifft", "fft2", "ifft2", "rfftn", "irfftn")
    }
    | {f"torch.linalg.{name}" for name in ("norm", "inv", "solve", "svd", "qr", "eigh", "vector_norm", "cross")}
)
"""What torch 2.0.1 has, by the sources in its wheel."""
_PARSING = frozenset(
    {"LooseVersion", "StrictVersion", "Version", "TorchVersion", "parse", "parse_version", "digit_version"}
)
_MAKING = frozenset({"tuple", "list", "int", "float", "str"})
"""What makes numbers of a version that is written."""
_DEEPEST = 4


def version_truth(test: ast.expr, project: Project, file: IndexedFile, depth: int = 0) -> bool | None:
    """What a condition is in every torch that modules are exported with, as far as it asks for nothing else; else None."""
    if not once(file.tree, "_asks_for_versions", lambda _: _may_ask(file)):
        return None
    return connected(test, lambda part: _truth(part, project, file, depth))


def _may_ask(file: IndexedFile) -> bool:
    text = file.source.text
    return "hasattr(" in text or "version" in text or "VERSION" in text or "TORCH" in text


def _truth(test: ast.expr, project: Project, file: IndexedFile, depth: int) -> bool | None:
    match test:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str() as name)]):
            dotted = dotted_name(owner)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            known = isinstance(symbol, External) and f"{symbol.name}.{name}" in _NAMES
            return True if known else None
        case ast.Call(func=ast.Attribute(value=version, attr="startswith"), args=[ast.Constant(value=str() as start)]):
            older = _numbers(start)
            is_old = older is not None and older[0] < _LEAST[0] and start[-1:] == "."
            return False if is_old and _is_version(version, project, file, 0) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if _is_version(left, project, file, 0):
                return _compared(op, _written(right))
            if _is_version(right, project, file, 0):
                mirrored = _MIRRORED.get(type(op))
                return _compared(mirrored(), _written(left)) if mirrored is not None else None
        case ast.Name() | ast.Attribute() if depth < _DEEPEST:
            bound = _bound(test, project, file)
            return version_truth(bound[0], project, bound[1], depth + 1) if bound is not None else None
    return None


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip


def _compared(op: ast.cmpop, written: tuple[int, ...] | None) -> bool | None:
    """What a comparison of torch's version with one that is written down always is."""
    if written is None:
        return None
    longest = max(len(written), len(_LEAST))
    least, other = (part + (0,) * (longest - len(part)) for part in (_LEAST, written))
    if other < least:
        return isinstance(op, (ast.Gt, ast.GtE, ast.NotEq)) if type(op) in _MIRRORED else None
    if other == least and len(written) > 1:
        return True if isinstance(op, ast.GtE) else False if isinstance(op, ast.Lt) else None
    if written == _LEAST[:1]:
        # `int(torch.__version__.split(".")[0]) >= 2`
        return True if isinstance(op, ast.GtE) else False if isinstance(op, ast.Lt) else None
    return None


def _written(node: ast.expr) -> tuple[int, ...] | None:
    """A version that is written down: `"1.13.0"`, `(1, 13)`, `1`, `1.9`, `Version("1.9")`."""
    match node:
        case ast.Constant(value=str() as text):
            return _numbers(text)
        case ast.Constant(value=float() as number):
            return _numbers(str(number))
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return (number,)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            numbers = tuple(value for value in values if isinstance(value, int))
            return numbers if numbers and len(numbers) == len(values) else None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner], keywords=[]) if name in _PARSING:
            return _written(inner)
    return None


def _numbers(text: str) -> tuple[int, ...] | None:
    numbers: list[int] = []
    for part in text.strip().rstrip(".").split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part))
    return tuple(numbers) or None


def _is_version(node: ast.expr, project: Project, file: IndexedFile, depth: int) -> bool:
    """Whether an expression is torch's version, or its first numbers: `Version(torch.__version__)`, `torch.__version__.split(".")[0]`."""
    match node:
        case ast.Name() | ast.Attribute():
            dotted = dotted_name(node)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            if isinstance(symbol, External) and symbol.name in ("torch.__version__", "torch.version.__version__"):
                return True
            bound = _bound(node, project, file) if depth < _DEEPEST else None
            return bound is not None and _is_version(bound[0], project, bound[1], depth + 1)
        case ast.Call(
            func=ast.Attribute(value=version, attr="split"), args=[ast.Constant(value="." | "+")], keywords=[]
        ):
            return _is_version(version, project, file, depth)
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="int"), version], keywords=[]):
            return _is_version(version, project, file, depth)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[version], keywords=[]):
            return name in _PARSING | _MAKING and _is_version(version, project, file, depth)
        case ast.Subscript(
            value=version, slice=ast.Constant(value=0) | ast.Slice(lower=None | ast.Constant(value=0), step=None)
        ):
            return _is_version(version, project, file, depth)
        case ast.ListComp(
            elt=ast.Call(func=ast.Name(id="int"), args=[ast.Name(id=name)]),
            generators=[ast.comprehension(target=ast.Name(id=target), iter=version, ifs=[])],
        ):
            return name == target and _is_version(version, project, file, depth)
    return False


def _bound(node: ast.expr, project: Project, file: IndexedFile) -> tuple[ast.expr, IndexedFile] | None:
    """What a name of a file is bound to, by one statement at its top."""
    dotted = dotted_name(node)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    if not isinstance(symbol, ValueRef):
        return None
    bindings = [several for several in symbol.file.names.values() if any(part is symbol.node for part in several)]
    return (symbol.node, symbol.file) if len(bindings) == 1 and len(bindings[0]) == 1 else None

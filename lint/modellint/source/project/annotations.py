"""What the annotation of an argument says of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.project.symbols import dotted_name
from modellint.source.syntax.ast_walk import walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile


def is_annotated_module(project: Project, file: IndexedFile, annotation: ast.expr | None, element: bool) -> bool:
    """Whether the annotation of an argument says that it, or an ``element`` of it, is a module."""
    annotation = _unquoted(annotation)
    if element and annotation is not None:
        annotation = _element_type(annotation)
    return annotation is not None and _is_module(project, file, annotation)


_TENSORS = frozenset(
    {"Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "BoolTensor"}
    | {"ByteTensor", "CharTensor", "ShortTensor", "IntTensor", "LongTensor"}
)
"""What torch calls its tensors: others' tensors, such as torch_complex's, have methods of their own."""


def says_tensor(annotation: ast.expr | None) -> bool | None:
    """Whether an annotation says that a parameter is a tensor, or else None; None without an annotation."""
    annotation = _unquoted(annotation)
    if annotation is None:
        return None
    names = set()
    for node in walk(annotation):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
    names -= {"torch", "cuda", "typing", "t", "th", "Optional", "Union", "None"}
    return not names.isdisjoint(_TENSORS) and all(name.endswith("Tensor") for name in names)


_NUMBERS = frozenset(
    {"int", "float", "bool", "str", "tuple", "list", "Tuple", "List", "Sequence", "Size", "SymInt", "number"}
)

_SCALARS = frozenset({"int", "float", "bool", "str"})


def says_number(annotation: ast.expr) -> bool:
    """Whether an annotation says that a parameter is numbers or strings, or several of them."""
    names = {getattr(node, "attr", getattr(node, "id", "")) for node in walk(_unquoted(annotation) or annotation)}
    return names - {"", "torch", "typing", "t", "th", "Optional", "Union", "None"} <= _NUMBERS


def says_scalar(annotation: ast.expr | None) -> bool:
    """Whether an annotation says that a parameter is one number, flag, string or configuration: what holds no tensor."""
    if annotation is None:
        return False
    names = {getattr(node, "attr", getattr(node, "id", "")) for node in walk(_unquoted(annotation) or annotation)}
    names -= {"", "Optional", "Union", "None"}
    return bool(names) and all(name in _SCALARS or name.endswith("Config") for name in names)


def holds_tensors(annotation: ast.expr | None) -> bool:
    """Whether an annotation says that a parameter is a dictionary of tensors: `dict[str, Tensor]`."""
    annotation = _unquoted(annotation)
    if annotation is None:
        return False
    names = {getattr(node, "attr", getattr(node, "id", "")) for node in walk(annotation)}
    return (
        bool(names & {"Dict", "dict", "Mapping"})
        and "Tensor" in names
        and not names & {"Any", "List", "list", "Tuple", "tuple"}
    )


_ROWS = frozenset({"list", "List", "Sequence", "Iterable", "Collection"})


def holds_row_of_tensors(annotation: ast.expr | None) -> bool:
    """Whether an annotation says that a parameter is a list of tensors, or None: `list[Tensor]`, `tuple[Tensor, ...]`."""
    annotation = _unquoted(annotation)
    parts = _parts(annotation) if annotation is not None else []
    return bool(parts) and all(map(_is_row_of_tensors, parts))


def _is_row_of_tensors(part: ast.expr) -> bool:
    if not isinstance(part, ast.Subscript):
        return False
    name = (dotted_name(part.value) or "").rpartition(".")[2]
    match part.slice:
        case ast.Tuple(elts=[element, ast.Constant(value=filler)]) if filler is ...:
            return name in ("tuple", "Tuple") and says_tensor(element) is True
        case ast.Tuple():
            return False
    return name in _ROWS and says_tensor(part.slice) is True and not _is_optional(part.slice)


def _is_optional(annotation: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Constant) or getattr(part, "id", getattr(part, "attr", "")) == "Optional"
        for part in walk(annotation)
    )


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    return annotation


def _parts(annotation: ast.expr) -> list[ast.expr]:
    """The members of `A | B`, `Union[A, B]` and `Optional[A]`, `None` left out."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_parts(annotation.left), *_parts(annotation.right)]
    if isinstance(annotation, ast.Subscript):
        name = (dotted_name(annotation.value) or "").rpartition(".")[2]
        inner = annotation.slice
        if name in ("Union", "Optional"):
            return [p for part in (inner.elts if isinstance(inner, ast.Tuple) else [inner]) for p in _parts(part)]
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return []
    return [annotation]


def _element_type(annotation: ast.expr) -> ast.expr | None:
    for part in _parts(annotation):
        if isinstance(part, ast.Subscript):
            inner = part.slice
            if not isinstance(inner, ast.Tuple):
                return inner
            name = (dotted_name(part.value) or "").rpartition(".")[2].lower()
            return inner.elts[-1] if name in ("dict", "mapping", "ordereddict") else inner.elts[0]
    return None


def _is_module(project: Project, file: IndexedFile, annotation: ast.expr) -> bool:
    parts = _parts(annotation)
    for part in parts:
        dotted = dotted_name(_unquoted(part) or part)
        if dotted is None or not project.is_module(project.resolve(file, dotted)):
            return False
    return bool(parts)

"""Opaque calls: what a function runs that is neither PyTorch nor Python of the project: a compiled extension, a Triton kernel."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.source.project.symbols import External, FunctionRef, Imported, dotted_name
from modellint.source.syntax.ast_walk import of_kind

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import Binding, ClassRef, IndexedFile

_DEEPEST = 3
_KNOWN = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "einops", "builtins"}


def opaque_call(project: Project, ref: ClassRef, method: str) -> str | None:
    """The first call of a method of a class that leads to what cannot be looked into, as it is written; None where there is none."""
    for cls in project.lineage(ref):
        node = cls.file.members(cls.node).get(method)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return next(_opaque(project, cls.file, node, set()), None)
    return None


def _opaque(project: Project, file: IndexedFile, function: ast.AST, seen: set[ast.AST]) -> Iterator[str]:
    seen.add(function)
    for call in of_kind(function, ast.Call):
        launched = isinstance(call.func, ast.Subscript)
        dotted = dotted_name(call.func.value if isinstance(call.func, ast.Subscript) else call.func)
        if dotted is None:
            continue
        first = dotted.partition(".")[0]
        bound = file.names.get(first, ())
        here = any(_is_loaded(project, file, part) for part in bound)
        if here or _is_extension_elsewhere(project, file, function, first):
            yield dotted
        elif dotted in file.functions or any(isinstance(part, Imported) for part in bound):
            match project.resolve(file, dotted):
                case None:
                    yield dotted
                case External(name=name) if name.lstrip(".").partition(".")[0] not in _KNOWN:
                    yield dotted
                case FunctionRef(file=other, node=node) if launched and _is_kernel(project, other, node):
                    yield dotted
                case FunctionRef(file=other, node=node) if node not in seen and len(seen) <= _DEEPEST:
                    if any(True for _ in _opaque(project, other, node, seen)):
                        yield dotted
                case _:
                    pass


def _is_extension_elsewhere(project: Project, file: IndexedFile, function: ast.AST, name: str) -> bool:
    """Whether a function imports a name that another file binds to an extension, which it compiles at once or when it is asked for."""
    for statement in of_kind(function, ast.ImportFrom):
        for alias in statement.names:
            if (alias.asname or alias.name) != name:
                continue
            path = project.find(statement.module or "", statement.level, file.path)
            other = project.file(path) if path is not None else None
            bindings = other.names.get(alias.name, ()) if other is not None else ()
            if other is None or not bindings:
                return False
            compiled = [
                part.value
                for part in of_kind(other.tree, ast.Assign)
                if any(isinstance(target, ast.Name) and target.id == alias.name for target in part.targets)
            ]
            # It is None until a function there compiles it.
            later = all(isinstance(part, ast.Constant) and part.value is None for part in bindings)
            return any(_is_loaded(project, other, part) for part in (compiled if later else bindings))
    return False


_LOADERS = frozenset(f"torch.utils.cpp_extension.{name}" for name in ("load", "load_inline"))
"""What compiles an extension, and gives the module of it."""


def _is_loaded(project: Project, file: IndexedFile, bound: Binding) -> bool:
    """Whether a name of a file is bound to an extension that is compiled as the file is imported."""
    if not isinstance(bound, ast.Call):
        return False
    dotted = dotted_name(bound.func)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and symbol.name in _LOADERS


def _is_kernel(project: Project, file: IndexedFile, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is compiled by Triton, by a decorator of its own."""
    for decorator in node.decorator_list:
        dotted = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if isinstance(symbol, External) and symbol.name.startswith("triton."):
            return True
    return False

"""The fix that puts ``CustomPReLU`` in the place of ``nn.PReLU``: its class is written below the imports, or imported."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Edit, Fix, Imported, coreml, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modellint.authoring import Call, Code


NAME = "CustomPReLU"


def custom_prelu(code: Code, call: Call, applicability: Applicability) -> Fix | None:
    """Call ``CustomPReLU`` with the same arguments; None where the file has no place for the name."""
    rewriter, module = code.rewriter, code.project.prelu_import
    home = code.project.find(module, 0, code.file.path) if module is not None else None
    if home == code.file.path:
        # A file cannot import from itself.
        module = None
    title = f"Replace by `{NAME}`"
    bindings = rewriter.file.names.get(NAME, [])
    edits: list[Edit] = []
    if bindings:
        if len(bindings) > 1 or not _is_ours(bindings[0], code, home):
            return None
    elif _mentions(rewriter.file.tree, NAME):
        return None
    else:
        content = _imported(module) if module is not None else _written(code)
        place = _below_imports(code, blanks=0 if module is not None else 2)
        if content is None or place is None:
            return None
        offset, after = place
        edits.append(rewriter.insert(offset, content + after))
        title += f", imported from `{module}`" if module is not None else ", written below the imports"
    if bindings and call.function is not None and _binds(call.function, NAME):
        return None
    return Fix(title, (*edits, rewriter.replace(call.node.func, NAME)), applicability)


def _imported(module: str) -> str:
    return f"from {module} import {NAME}\n"


def _written(code: Code) -> str | None:
    names = _torch_names(code)
    if names is None:
        return None
    nn, torch, missing = names
    return f"{missing}\n\n{coreml.custom_prelu_text(nn, torch)}"


def _is_ours(binding: object, code: Code, home: str | None) -> bool:
    """Whether ``CustomPReLU`` is the class that fixes write, or the one that the setting names, whose file is ``home``."""
    match binding:
        case ast.ClassDef():
            names = _torch_names(code)
            if home == code.file.path or names is None:
                return home == code.file.path
            (ours,) = ast.parse(coreml.custom_prelu_text(*names[:2])).body
            return ast.dump(binding) == ast.dump(ours)
        case Imported(name=name, module=module, level=level):
            if name != NAME:
                return False
            if level == 0 and module in ("modellint.nn", code.project.prelu_import):
                return True
            return home is not None and code.project.find(module, level, code.file.path) == home
    return False


def _torch_names(code: Code) -> tuple[str, str, str] | None:
    """What ``torch.nn`` and ``torch`` are called below the imports, and the import that is missing for that."""
    names: dict[str, str] = {}
    for node in _head(code.file.tree):
        for name, dotted in _imports(node):
            bindings = code.file.names.get(name, [])
            if dotted in ("torch", "torch.nn") and all(binding == bindings[0] for binding in bindings):
                names.setdefault(dotted, name)
    torch, missing = names.get("torch"), ""
    if torch is None:
        if "torch" in code.file.names or _mentions(code.file.tree, "torch"):
            return None
        torch, missing = "torch", "import torch\n"
    return names.get("torch.nn", f"{torch}.nn"), torch, missing


def _imports(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import():
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, alias.name if alias.asname else name
        case ast.ImportFrom(level=0):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        case _:
            pass


def _head(tree: ast.Module) -> list[ast.stmt]:
    """The statements before the first function or class."""
    return list(
        takewhile(lambda node: not _holds(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)), tree.body)
    )


def _below_imports(code: Code, blanks: int) -> tuple[int, str] | None:
    """Where a statement goes that stands below the imports, and what follows it to leave so many empty lines."""
    tree = code.file.tree
    head = _head(tree)
    last = max((at for at, node in enumerate(head) if _holds(node, (ast.Import, ast.ImportFrom))), default=None)
    if last is None or last + 1 == len(tree.body):
        return None
    row = head[last].end_lineno or head[last].lineno
    following = tree.body[last + 1]
    if following.lineno <= row:
        return None
    source = code.file.source
    empty = 0
    while empty < blanks and not source.line(row + 1 + empty).strip():
        empty += 1
    return source.line_starts[row], "\n" * (blanks - empty)


def _holds(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(part, kinds) for part in walk(node))


def _mentions(tree: ast.AST, name: str) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.arg) and node.arg == name)
        for node in walk(tree)
    )


def _binds(function: ast.AST, name: str) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
        for node in walk(function)
    )

"""Going through the nodes of a syntax tree, once."""

from __future__ import annotations

import ast

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Name: (), ast.Constant: (), ast.alias: ()}
_KEPT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module, ast.Lambda)


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all below it, in the order of ``ast.walk``, but for ``Load``, ``Store`` and ``Del``.

    What is below functions and classes is looked for once, as every rule goes through them.
    """
    if isinstance(node, _KEPT):
        kept: list[ast.AST] | None = vars(node).get("_walked")
        if kept is None:
            # Without the node itself: a cycle would outlive its file, as nothing collects them.
            kept = vars(node)["_walked"] = _below(node)[1:]
        return [node, *kept]
    return _below(node)


def _below(node: ast.AST) -> list[ast.AST]:
    found = [node]
    fields = _FIELDS
    for one in found:
        kind = one.__class__
        names = fields.get(kind)
        if names is None:
            names = fields[kind] = tuple(
                name for name in kind._fields if name not in ("ctx", "type_comment", "type_ignores")
            )
        for name in names:
            value = getattr(one, name, None)
            if value.__class__ is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found

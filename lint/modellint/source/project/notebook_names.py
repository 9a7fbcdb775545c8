"""Names at the top of a notebook's program, whose cells may run in any order, and more than once.

What a name is bound to in several cells is not known where it is used, unless the cells agree; nor what a class does whose methods
are put on from outside.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from modellint.source.project.symbols import Binding, Imported, collect_names


def without_rebound(
    names: dict[str, list[Binding]], tree: ast.Module, cells: Sequence[int]
) -> dict[str, list[Binding]]:
    """The names of a notebook; those that several cells bind to different things are bound to what nobody knows."""
    by_cell: dict[str, dict[int, list[Binding]]] = {}
    for node in tree.body:
        bound: dict[str, list[Binding]] = {}
        collect_names([node], bound, [])
        for name, bindings in bound.items():
            by_cell.setdefault(name, {}).setdefault(bisect_right(cells, node.lineno), []).extend(bindings)
    return {
        name: [_unknown(tree)] if _disagree(by_cell.get(name, {})) else bindings for name, bindings in names.items()
    }


def _disagree(bindings: dict[int, list[Binding]]) -> bool:
    if len(bindings) < 2:
        return False
    every = [binding for of_cell in bindings.values() for binding in of_cell]
    return not all(isinstance(binding, Imported) and binding == every[0] for binding in every)


def _unknown(tree: ast.Module) -> ast.expr:
    """A call of a name that is bound nowhere."""
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name("_", ast.Load()), tree.body[0]), [], []), tree.body[0])


def patched_classes(tree: ast.Module) -> frozenset[str]:
    """The classes that statements outside of them put methods on: ``Net.forward = …``, ``setattr(Net, …)``, a decorator's."""
    return frozenset(name for node in tree.body for name in _patched_by(node))


def _patched_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    yield target.value.id
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), *_])):
            yield name
        case ast.FunctionDef(
            decorator_list=[_, *_] as decorators, args=ast.arguments(args=[ast.arg(arg="self") as first, *_])
        ):
            # `@add_to_class(Net)`, and fastcore's `@patch` with `self: Net`.
            words = [*(word for each in decorators for word in getattr(each, "args", ())), first.annotation]
            yield from (word.id for word in words if isinstance(word, ast.Name))
        case _:
            pass

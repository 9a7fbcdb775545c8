"""Evaluated names: what `eval` in a file may call, told by the arguments that it is called with."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from modellint.source.syntax.ast_walk import functions_in, of_kind, parents_in
from modellint.source.syntax.call_signature_mismatch import misfits

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

LOOKED_UP = re.compile(
    r"(?<![.\w])(?<!def )(?:globals|locals|eval|exec)\("
    r"|(?<![.\w])vars\((?!(?:self|args|opts?|options|cfg|config|flags|hparams)\))"
    r"|\bsys\.modules\b|\w\.__dict__\["
)
"""What finds names by strings: neither a function that is called `eval` itself, nor the words of a command line."""


def evaluated_calls(file: IndexedFile) -> list[ast.Call] | None:
    """The calls of what `eval` finds by a name that is not known; None where a file may find names by strings in another way.

    `eval(kind)(width, depth)` calls something that takes two arguments, and `eval(f"self.block_{i}")` no name of a file.
    """
    ways = len(LOOKED_UP.findall(file.source.text))
    if ways == 0:
        return []
    evaluations = [call for call in of_kind(file.tree, ast.Call) if _is_evaluation(call)]
    calls = [
        call for call in of_kind(file.tree, ast.Call) if isinstance(call.func, ast.Call) and call.func in evaluations
    ]
    called = [call.func for call in calls]
    if ways > len(evaluations):
        return None
    if not all(evaluation in called or _is_of_self(evaluation.args) for evaluation in evaluations):
        return None
    return [call for call in calls if isinstance(call.func, ast.Call) and not _is_of_self(call.func.args)]


def asked_calls(file: IndexedFile, module: str) -> list[ast.Call] | None:
    """The calls of what a file asks a module of a name for by a string; None where it may do something else with it.

    `getattr(models, kind)(width, depth)` calls something that takes two arguments.
    """
    parents = parents_in(file.tree)
    calls: list[ast.Call] = []
    for part in of_kind(file.tree, ast.Name):
        if part.id != module or not isinstance(part.ctx, ast.Load):
            continue
        around = parents.get(part)
        match around:
            case ast.Attribute():
                continue
            case ast.Call(func=ast.Name(id="getattr"), args=[first, wanted, *_]) if first is part:
                pass
            case _:
                return None
        call = parents.get(around)
        if isinstance(call, ast.Call) and call.func is around:
            calls.append(call)
        elif not isinstance(wanted, ast.Constant):
            return None
    return calls


def may_be_called(node: ast.stmt, call: ast.Call) -> bool:
    """Whether a class or function takes the arguments of a call; where that is not told by its own `__init__`, it may."""
    if not isinstance(node, ast.ClassDef):
        return True
    init = next((function for function in functions_in([node]) if function.name == "__init__"), None)
    return init is None or bool(init.decorator_list) or not misfits(init, call)


def _is_evaluation(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "eval"


def _is_of_self(arguments: list[ast.expr]) -> bool:
    """Whether the text that is evaluated begins with `self.`."""
    return len(arguments) == 1 and _beginning(arguments[0]).startswith("self.")


def _beginning(text: ast.expr) -> str:
    match text:
        case ast.Constant(value=str() as written):
            return written
        case ast.JoinedStr(values=[first, *_]):
            return _beginning(first)
        case ast.Call(func=ast.Attribute(value=inner, attr="format")):
            return _beginning(inner)
        case ast.BinOp(left=left):
            return _beginning(left)
    return ""

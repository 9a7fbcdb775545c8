"""The precision in which a file itself converts its models: what the rules about float16 share."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.authoring import ClassRef, External, called_name, dotted_name, of_kind, walk

if TYPE_CHECKING:
    from modellint.authoring import Code

_DEEPEST = 8
_ON_THE_MODEL = frozenset({"eval", "train", "float", "cpu", "to", "requires_grad_", "run_decompositions"})
"""Methods that give a model, or an exported program, back."""


def is_converted_in_float32(code: Code) -> bool:
    """Whether each conversion in the file that may be of the class is told to compute in float32, and there is one."""
    conversions = [call for call in of_kind(code.file.tree, ast.Call) if _converts(call, code)]
    others = [call for call in conversions if not _is_in_float32(call)]
    if len(others) == len(conversions):
        return False
    if not others:
        return True
    name = code.name
    own = [call for call in conversions if call not in others]
    return (
        name is not None
        and any(_may_be_of(call, name, code) is True for call in own)
        and all(_may_be_of(call, name, code) is False for call in others)
    )


def _converts(call: ast.Call, code: Code) -> bool:
    dotted = dotted_name(call.func) if called_name(call) == "convert" else None
    if dotted is None:
        return False
    symbol = code.project.resolve(code.file, dotted)
    # An import inside a function is not resolved.
    return (isinstance(symbol, External) and symbol.name == "coremltools.convert") or dotted == "ct.convert"


def _is_in_float32(call: ast.Call) -> bool:
    return any(
        word.arg == "compute_precision" and isinstance(word.value, ast.Attribute) and word.value.attr == "FLOAT32"
        for word in call.keywords
    )


def _may_be_of(call: ast.Call, name: str, code: Code) -> bool | None:
    """Whether a conversion is given an object of a class, by def-use in its function; None where that cannot be told."""
    around = [
        node
        for node in of_kind(code.file.tree, ast.FunctionDef)
        if any(part is call for part in of_kind(node, ast.Call))
    ]
    model = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "model"), None)
    return _is_built_of(model, name, around[-1] if around else code.file.tree, code, 0)


def _is_built_of(node: ast.expr | None, name: str, scope: ast.AST, code: Code, depth: int) -> bool | None:
    """Whether an expression is an object of a class, or of one that is given or builds such; None where it is not understood."""
    match node:
        case ast.Name(id=variable) if depth < _DEEPEST:
            answers = {
                _is_built_of(assignment.value, name, scope, code, depth + 1)
                for assignment in of_kind(scope, ast.Assign)
                if any(isinstance(target, ast.Name) and target.id == variable for target in assignment.targets)
            }
            return True if True in answers else False if answers == {False} else None
        case ast.Call(func=ast.Attribute(value=receiver, attr=method)) if method in _ON_THE_MODEL:
            return _is_built_of(receiver, name, scope, code, depth + 1)
        case ast.Call(func=func, args=arguments):
            dotted = dotted_name(func)
            symbol = code.project.resolve(code.file, dotted) if dotted is not None else None
            if isinstance(symbol, ClassRef):
                every = [*arguments, *(word.value for word in node.keywords)]
                inside = any(isinstance(part, ast.Name) and part.id == name for part in walk(symbol.node))
                return (
                    symbol.node.name == name
                    or inside
                    or any(_is_built_of(part, name, scope, code, depth + 1) is True for part in every)
                )
            if isinstance(symbol, External) or (dotted or "").startswith("torch."):
                # `torch.jit.trace(model, inputs)`: the model comes first.
                return _is_built_of(arguments[0] if arguments else None, name, scope, code, depth + 1)
    return None

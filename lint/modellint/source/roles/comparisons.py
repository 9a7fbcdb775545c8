"""Comparisons: code that measures a prediction by the truth, or a model by another, as its calls tell."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.training_parts import runs_in_evaluation
from modellint.source.syntax.ast_walk import called_name, given_to, of_kind, once, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.mentions import Mention

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_PREDICTED = re.compile(r"pred(?:icted|ictions?|s)?_(\w+)")
_TRUE = re.compile(r"(?:true|gt|ground_truth|targets?)_(\w+)")
_PREDICTION = re.compile(r"pred(?:icted|ictions?|s)?")
_TRUTH = re.compile(r"labels?|targets?|gts?|truth|ground_truths?")
_DEEPEST = 3
"""How many functions hand an object on to each other."""
_COMPARISONS = frozenset(
    {"allclose", "assert_close", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal"}
)
_RUNS = frozenset({"cpu", "cuda", "double", "eval", "float", "forward", "generate", "half", "to"})
"""Methods of a module that keep nothing of it: it is run, or made ready for that."""


def compares_with_truth(function: _Function) -> bool:
    """Whether a function has to be given a prediction and the truth of one thing: `pred_boxes, true_boxes`; a helper, `pred, label`."""
    return once(function, "_compares_with_truth", _compares_with_truth)


def _compares_with_truth(function: _Function) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = [part.arg for part in arguments[: len(arguments) - len(function.args.defaults)]]
    predicted, true = (
        {match[1] for name in required if (match := pattern.fullmatch(name))} for pattern in (_PREDICTED, _TRUE)
    )
    if predicted & true:
        return True
    # What a `forward` takes besides may be there for training alone.
    bare = [name for name in required if name != "self"] if function.name != "forward" else []
    return len(bare) == 2 and any(map(_PREDICTION.fullmatch, bare)) and any(map(_TRUTH.fullmatch, bare))


def gives_nothing_in_evaluation(forward: _Function) -> bool:
    """Whether a `forward` gives something back in training, and nothing otherwise: it prints or keeps what it has found."""
    returns = [part for part in of_kind(forward, ast.Return) if not _is_none(part.value)]
    return bool(returns) and not any(part in returns for part in runs_in_evaluation(forward))


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def is_only_compared(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether what a mention builds goes to functions alone that run it and compare what it gives: ``verify(Wrapper(net), other)``."""
    function = mention.function
    if function is None or mention.cls is not None:
        return False
    parents = parents_in(function)
    built = parents.get(mention.node)
    if not isinstance(built, ast.Call) or built.func is not mention.node:
        return False
    match mention.statement:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is built:
            return _compares(project, file, function, name, target, 0) is True
    return _is_handed_to_comparison(project, file, built, parents, 0) is True


def _compares(
    project: Project, file: IndexedFile, function: _Function, name: str, bound: ast.Name | None, depth: int
) -> bool | None:
    """Whether what a variable holds is compared, or run only; None where something else is done with it."""
    parents = parents_in(function)
    # What builds a model hands it on; a function that takes it may compare by itself.
    is_compared = bound is None and any(called_name(call) in _COMPARISONS for call in of_kind(function, ast.Call))
    for part in of_kind(function, ast.Name):
        if part.id != name or part is bound:
            continue
        around = parents.get(part)
        match around:
            case ast.Call(func=called) if called is part:
                pass
            case ast.Attribute(attr=attribute) if attribute in _RUNS:
                pass
            case ast.Call() | ast.keyword():
                taken = _is_handed_to_comparison(project, file, part, parents, depth)
                if taken is None:
                    return None
                is_compared = is_compared or taken
            case _:
                return None
    return is_compared


def _is_handed_to_comparison(
    project: Project, file: IndexedFile, value: ast.expr, parents: dict[ast.AST, ast.AST], depth: int
) -> bool | None:
    """Whether a function of the project that takes a value compares what that gives, or runs it only; None where it is not known to."""
    around = parents.get(value)
    word = around.arg if isinstance(around, ast.keyword) else None
    call = parents.get(around) if isinstance(around, ast.keyword) else around
    if not isinstance(call, ast.Call) or value not in given_to(call) or depth > _DEEPEST:
        return None
    dotted = dotted_name(call.func)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    if not isinstance(symbol, FunctionRef):
        return None
    name = word if word is not None else _parameter_at(symbol.node, call, value)
    if name is None or name not in _parameters(symbol.node):
        return None
    known: dict[str, bool | None] = once(symbol.node, "_compares", lambda _: {})
    if name not in known:
        known[name] = None
        known[name] = _compares(project, symbol.file, symbol.node, name, None, depth + 1)
    return known[name]


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    return [part.arg for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _parameter_at(function: _Function, call: ast.Call, value: ast.expr) -> str | None:
    """The parameter that an argument is given for by its place."""
    if any(isinstance(part, ast.Starred) for part in call.args):
        return None
    placed = [*function.args.posonlyargs, *function.args.args]
    return next((parameter.arg for part, parameter in zip(call.args, placed, strict=False) if part is value), None)

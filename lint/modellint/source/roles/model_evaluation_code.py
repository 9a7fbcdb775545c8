"""Evaluation code: code that measures a prediction by the truth, or a model by another, or that only runs one, as its calls tell."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.training_parts import runs_in_evaluation
from modellint.source.syntax.ast_walk import called_name, given_to, of_kind, once, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.mentions import Mention
    from modellint.source.roles.uninterpreted_class import UnreadClass

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
_READIES = _RUNS - {"forward", "generate"}
"""Methods of a module that give it back."""


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


def counts_up(cls: UnreadClass) -> bool:
    """Whether a class is a metric: a buffer that `forward` adds to is set to zero by a method that is called `clear` or `reset`."""
    methods = {method.node.name: method.node for method in reversed(cls.methods)}
    forward = methods.get("forward")
    cleared = {
        call.func.value.attr
        for name in ("clear", "reset")
        for call in (of_kind(methods[name], ast.Call) if name in methods else ())
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("zero_", "fill_")
        and isinstance(call.func.value, ast.Attribute)
    }
    return forward is not None and any(
        isinstance(part.op, ast.Add) and isinstance(part.target, ast.Attribute) and part.target.attr in cleared
        for part in of_kind(forward, ast.AugAssign)
    )


def is_only_compared(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether what a mention builds goes to functions alone that run it and compare what it gives: ``verify(Wrapper(net), other)``."""
    return _is_compared(project, mention, file, as_it_is=True) is True


def is_only_run(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether what a mention builds is run, by the function that it stands in or by others, and nothing else is done with it.

    ``sampler = Sampler()`` and ``return sampler(logits)``: nobody keeps it, gives it back, or hands it to what may export it.
    """
    return _is_compared(project, mention, file) is not None


def _is_compared(project: Project, mention: Mention, file: IndexedFile, *, as_it_is: bool = False) -> bool | None:
    """Whether what a mention builds is compared, or run only; None where something else is done with it, or made of it first."""
    function = mention.function
    if function is None or mention.cls is not None:
        return None
    parents = parents_in(function)
    built = parents.get(mention.node)
    if not isinstance(built, ast.Call) or built.func is not mention.node:
        return None
    built = built if as_it_is else _as_it_is_run(project, file, built, parents)
    match mention.statement:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is built:
            return _compares(project, file, function, name, target, 0)
    around = parents.get(built)
    if isinstance(around, ast.Call) and around.func is built:
        return False
    return _is_handed_to_comparison(project, file, built, parents, 0)


def _as_it_is_run(project: Project, file: IndexedFile, built: ast.Call, parents: dict[ast.AST, ast.AST]) -> ast.Call:
    """What is made of a new object before it is bound or run: ``nn.Sequential(Jitter())``, ``Jitter().to(device)``."""
    while True:
        around = parents.get(built)
        outer = parents.get(around) if isinstance(around, ast.Attribute) and around.attr in _READIES else around
        if not isinstance(outer, ast.Call) or (outer is around and built not in outer.args):
            return built
        if outer is around:
            dotted = dotted_name(outer.func)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            if not isinstance(symbol, External) or symbol.name != "torch.nn.Sequential":
                return built
        built = outer


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
            case ast.Attribute(attr=attribute) if attribute in _RUNS and _stays(around, name, parents):
                pass
            case ast.Assign(targets=[target], value=value) if target is part and _is_made_ready(value, name):
                pass
            case ast.Call() | ast.keyword():
                taken = _is_handed_to_comparison(project, file, part, parents, depth)
                if taken is None:
                    return None
                is_compared = is_compared or taken
            case _:
                return None
    return is_compared


def _is_made_ready(value: ast.expr, name: str) -> bool:
    """Whether a value is a variable by methods that give the module back: `net.to(device).eval()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _READIES:
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name


def _stays(method: ast.Attribute, name: str, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether what a method gives that makes a module ready is dropped, run, or bound to the same name: ``net = net.to(device)``."""
    call = parents.get(method)
    if method.attr not in _READIES:
        return True
    while isinstance(call, ast.Call):
        around = parents.get(call)
        match around:
            case ast.Expr():
                return True
            case ast.Call(func=called) if called is call:
                return True
            case ast.Assign(targets=[ast.Name(id=bound)]):
                return bound == name
            case ast.Attribute(attr=attribute) if attribute in _RUNS:
                if attribute not in _READIES:
                    return True
                call = parents.get(around)
            case _:
                return False
    return False


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

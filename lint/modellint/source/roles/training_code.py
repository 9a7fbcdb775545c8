"""Training code: functions, classes and files that compute losses, go back through them, step optimizers or are given the answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import dotted_name
from modellint.source.roles.training_parts import methods_run_by
from modellint.source.syntax.ast_walk import given_to, of_kind, once

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic
    from modellint.source.project.symbols import IndexedFile
    from modellint.source.roles.uninterpreted_class import UnreadClass

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ANSWERS = re.compile(r"(?:\w+_)?(?:labels?|targets?|gts?|ground_truths?)|gt_\w+|targets?_\w+s")
"""Names of what a model should answer."""
_LOSS_OPERATORS = re.compile(r"(?:\w+_)?loss(?:_\w+)?|cross_entropy\w*|binary_cross_entropy\w*|kl_div")
_LOSS_FUNCTIONS = re.compile(r"(?:^|_)(?:loss(?:es)?|(?:ms_?s)?ssim|psnr|lpips)(?:_|$)")
_LOSS_CALLS = re.compile(r"\b(?:F|functional|nn|torch)\.(?:\w+_loss|\w*cross_entropy\w*|kl_div|\w+Loss)\b")
_FORCED = re.compile(r"(?:use_)?teacher_forc\w*|tfr?|tf_ratio")
_DECODES = re.compile(r"forward_test|inference|infer|generate|sample|greedy\w*|decode_step|predict")
"""Methods by which a model answers that `forward` trains."""
_INFERS = frozenset({"infer", "inference"})
_TRAINING_SCRIPT = re.compile(r"(?:^|[/_])train(?:er|ing)?(?:_\w*)?\.py$")


def is_about_a_loss(finding: Diagnostic, file: IndexedFile) -> bool:
    """Whether a finding is about one of PyTorch's losses: these compare with what a model should answer, which no exported one is told."""
    if not finding.code.startswith("OPS"):
        return False
    if finding.operator is not None and _LOSS_OPERATORS.fullmatch(finding.operator.rpartition("::")[2]):
        return True
    return (
        re.match(r"`(?:F|nn|torch)\.", finding.message) is not None and _LOSS_CALLS.search(finding.message) is not None
    )


def is_told_answers(cls: UnreadClass) -> bool:
    """Whether `forward` is told the answers step by step, to be trained, and another method has to do without them."""
    forward = cls.method("forward")
    if forward is None or not asks_for_answers(forward):
        return False
    if any(_FORCED.fullmatch(argument.arg) for argument in (*forward.args.args, *forward.args.kwonlyargs)):
        return True
    return any(
        _DECODES.fullmatch(method.node.name)
        and not {"forward"} & {part.attr for part in of_kind(method.node, ast.Attribute)}
        for method in cls.methods
    )


def infers_elsewhere(cls: UnreadClass) -> bool:
    """Whether a class answers by a method called `infer`, which has nothing of `forward` run, nor is run by it: `forward` trains."""
    infers = [method.node for method in cls.methods if method.node.name in _INFERS]
    if not infers or cls.method("forward") is None:
        return False
    read = {
        part.attr
        for method in cls.methods
        if method.node not in infers
        for part in of_kind(method.node, ast.Attribute)
        if isinstance(part.value, ast.Name) and part.value.id == "self"
    }
    return any(
        method.name not in read
        and not any(_is_own_forward(part) for part in of_kind(method, ast.Call))
        and any(_is_own_part(part) for part in of_kind(method, ast.Call))
        for method in infers
    )


def _is_own_forward(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="self") | ast.Attribute(attr="forward"):
            return True
        case ast.Call(func=ast.Name(id="super")):
            return True
    return False


def _is_own_part(call: ast.Call) -> bool:
    """Whether a call runs what `self` holds: `self.net(x)`, `self.nets[0](x)`."""
    called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self"


def is_loss_function(function: _Function) -> bool:
    """Whether a function computes a loss or a measure of quality, by its name."""
    return _LOSS_FUNCTIONS.search(function.name) is not None


def is_for_training(function: _Function) -> bool:
    """Whether a function computes a loss, or trains."""
    return is_loss_function(function) or trains(function)


def asks_for_answers(forward: _Function) -> bool:
    """Whether a `forward` has to be given what the model should answer."""
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    required = arguments[1 : len(arguments) - len(forward.args.defaults)]
    return len(required) > 1 and any(_ANSWERS.fullmatch(one.arg) for one in required)


def changes_data(statement: ast.stmt) -> bool:
    """Whether a statement writes the data of a tensor past autograd, as an optimization does: `image.data = blur(image)`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="data")]):
            return True
    return False


def trains(function: _Function) -> bool:
    """Whether a function goes back through what was computed, or makes an optimizer."""
    return once(function, "trains", _goes_back)


def trains_as_script(file: IndexedFile) -> bool:
    """Whether the statements of a file that stand in no function go back through a loss, or make an optimizer."""
    return once(file.tree, "_trains_as_script", lambda tree: any(map(_is_of_training, _run_by_import(tree))))


def _run_by_import(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of a file that stand in no function or class."""
    pending: list[ast.AST] = [*tree.body]
    for node in pending:
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def follows_gradients(function: _Function) -> bool:
    """Whether a function asks for the gradients of a loss with respect to its inputs: what it computes besides is to guide a model."""
    return any(
        dotted_name(call.func) in ("torch.autograd.grad", "autograd.grad") for call in of_kind(function, ast.Call)
    )


def runs_to_train(cls: UnreadClass) -> set[str]:
    """The names of `forward` and the methods that it runs, where one of them goes back through a loss: it is the loop of a trainer."""
    functions: dict[str, _Function] = {}
    for method in cls.methods:
        functions.setdefault(method.node.name, method.node)
    run = methods_run_by("forward", functions)
    return run if any(trains(functions[name]) for name in run) else set()


def is_training_script(file: IndexedFile) -> bool:
    """Whether a file is a script that trains, by its name and by what it does: what it loads is gone on with."""
    return (
        _TRAINING_SCRIPT.search(file.path) is not None
        and re.search(r"\.(?:manual_)?backward\(|\boptim\.", file.source.text) is not None
    )


def _goes_back(function: _Function) -> bool:
    return any(map(_is_of_training, of_kind(function, ast.Call))) and not any(
        one.arg == "ctx" for one in function.args.args
    )


def _is_of_training(call: ast.Call) -> bool:
    """Whether a call goes back through a loss, or makes an optimizer."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "manual_backward"):
        return True
    return re.match(r"(?:torch\.)?optim\.[A-Z]", dotted_name(call.func) or "") is not None


def optimizes_by_hand(node: ast.ClassDef) -> bool:
    """Whether a class itself goes back through a loss and steps an optimizer that it gives tensors of its own, as a search does."""
    calls = of_kind(node, ast.Call)
    makers = [call for call in calls if re.match(r"(?:torch\.)?optim\.[A-Z]", dotted_name(call.func) or "")]
    return (
        bool(makers)
        and all("parameters()" not in ast.unparse(given) for call in makers for given in given_to(call))
        and any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls)
    )

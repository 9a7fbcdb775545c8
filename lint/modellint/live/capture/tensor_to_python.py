"""Concretization: Python values that a run takes out of tensors, which a trace keeps as they are for the example."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from modellint.live.analysis_cache import analysis
from modellint.live.capture.data_dependence import Reach, facts_in
from modellint.live.capture.fake_tensor_run import captured_run
from modellint.live.capture.jit_trace import TAKING, traced
from modellint.live.capture.records import Call, Operator, Run
from modellint.live.code.anchor_statements import node_at
from modellint.live.subject import Subject

_TRUTHS = frozenset({"__bool__", "__contains__", "equal", "allclose", "is_nonzero"})
_NUMBERS = frozenset({"item", "tolist", "__int__", "__float__", "__index__", "__complex__", "numpy"})


class Concretization(NamedTuple):
    """One call that takes something out of a tensor which depends on the values of the inputs."""

    call: Call
    method: str
    """As in ``item``, or ``__bool__``."""
    kind: str
    """``branch``, ``number``, ``length`` of what has as many rows as values tell, or ``array`` for what NumPy then computes."""


@analysis
def concretizations(subject: Subject) -> tuple[Concretization, ...]:
    """Where the run takes out of tensors what Python then computes with, as far as a trace of the model does so too."""
    run = captured_run(subject)
    return () if run is None else tuple(_concretizations(subject, run))


def _concretizations(subject: Subject, run: Run) -> Iterator[Concretization]:
    calls = [call for call in (*run.calls, *_refused(run)) if _method(call) in (*TAKING, "__len__")]
    if not calls:
        return
    data = Reach.of_values(run)
    yield from _lengths([call for call in calls if _method(call) == "__len__"], run, data)
    calls = [call for call in calls if _method(call) != "__len__"]
    calls = [call for call in calls if any(fact in data for fact in facts_in((call.arguments, call.keywords)))]
    if not calls:
        return
    trace = traced(subject)
    listed = set()
    for call in calls:
        method = _method(call)
        if trace is not None and method == "item" and ("tolist", call.place) in trace.calls:
            # Tensors without values ask each of their elements instead.
            if call.place in listed:
                continue
            listed.add(call.place)
            method = "tolist"
        if trace is not None and (method, call.place) not in trace.calls:
            # Code that asks whether it is traced does something else then.
            continue
        node = None if call.place is None else node_at(call.place)
        kind = _kind(method, node)
        if kind is not None:
            yield Concretization(call, method, kind)


def _lengths(calls: list[Call], run: Run, data: Reach) -> Iterator[Concretization]:
    """The lengths that are asked for of tensors which have as many rows as values of inputs tell."""
    if not calls:
        return
    sized = {fact.storage for operator in run.operators if _is_sized_by_values(operator) for fact in operator.outputs}
    for call in calls:
        (fact, *_) = [*facts_in(call.arguments), None]
        node = None if call.place is None else node_at(call.place)
        loops = isinstance(node, (ast.For, ast.While))
        if fact is not None and fact.storage in sized and fact in data and not loops:
            yield Concretization(call, "__len__", "length")


def _is_sized_by_values(operator: Operator) -> bool:
    name = operator.name.rpartition("::")[2]
    if name in ("index", "repeat_interleave"):
        # Positions give as many rows as there are of them, and so does a number of repetitions.
        return any(fact.dtype == "bool" for fact in facts_in(operator.arguments[1:]))
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(
        torch.Tag.dynamic_output_shape in getattr(packet, overload).tags for overload in packet.overloads()
    )


def _refused(run: Run) -> Iterator[Call]:
    """The call that ended a run on tensors without values."""
    failure = run.failure
    if failure is not None and failure.kind == "data" and failure.function is not None:
        yield Call(failure.function, failure.arguments, {}, (), failure.module, failure.place)


def _method(call: Call) -> str:
    return call.name.rpartition(".")[2]


def _kind(method: str, node: ast.stmt | None) -> str | None:
    if node is not None and is_only_said(node):
        return None
    if method == "__array__":
        return "array"
    if node is not None and _decides(node, method):
        return None if _only_checks(node) else "branch"
    if method in _TRUTHS:
        return "number" if node is not None and _calls(node, "bool") else "branch"
    return "number"


def _decides(node: ast.stmt, method: str) -> bool:
    """Whether a statement asks at once what is taken out there for its truth."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            return method in _TRUTHS or bool(_spelled(test, method))
        case ast.Assert():
            return True
    tests = [part.test for part in ast.walk(node) if isinstance(part, ast.IfExp)]
    if method in _TRUTHS:
        return bool(tests) and not _calls(node, "bool")
    return any(_spelled(test, method) for test in tests)


_SPELLED = {"__int__": "int", "__float__": "float", "__complex__": "complex", "__bool__": "bool"}


def _spelled(node: ast.AST, method: str) -> bool:
    """Whether a call that takes a value out by this method stands below a node."""
    return _calls(node, _SPELLED.get(method, method))


def _calls(node: ast.AST, name: str) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called == name:
                return True
    return False


_TALK = frozenset(
    {"warn", "warning", "info", "debug", "error", "print", "log", "exception", "warning_once", "warn_once"}
)


def is_only_said(node: ast.stmt) -> bool:
    """Whether a statement only prints, logs or raises."""
    match node:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in _TALK
    return False


def _only_checks(node: ast.stmt) -> bool:
    """Whether a branch does nothing but raise, warn or print: tracing drops a check, and no result."""
    match node:
        case ast.Assert():
            return True
        case ast.If(body=body, orelse=[]):
            return all(map(_is_check, body))
    return False


def _is_check(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Assert() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If():
            return all(map(_is_check, (*node.body, *node.orelse)))
        case ast.Assign(value=ast.Constant(value=str()) | ast.JoinedStr()):
            return True
    return is_only_said(node)

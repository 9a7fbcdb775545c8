"""MOD002: a functional dropout that does not ask whether the model is in training mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Const,
    Diagnostic,
    Fix,
    Instance,
    Rule,
    Severity,
    Trigger,
    alternatives,
    called_name,
    operators,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Value


_SAMPLED = r"(?:^|_)MC(?=[A-Z_]|$)|Monte_?Carlo|Bayes"
"""Names of classes that drop in evaluation on purpose, for several answers to one input."""
_PLACES = {**operators.training_by_default, **operators.evaluating_by_default}
"""Functions with an argument ``training``, and its place."""
_LAYERS = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})


class DropoutAlwaysOn(Rule):
    """A functional dropout, or its like, that is on in evaluation mode too.

    ## What it does
    Finds `F.dropout`, `F.dropout1d`, `F.dropout2d` and `F.dropout3d` without `training`, and `F.alpha_dropout`,
    `F.feature_alpha_dropout`, `F.batch_norm` and `F.rrelu` with a literal `training=True`.
    So is a layer that `forward` builds itself, `nn.Dropout(0.3)(x)`: a new module is in training mode.
    A warning is `F.dropout` that is told `training=True`: whoever wrote it may want the noise, as for an estimate of uncertainty,
    and the converted model has none of it.

    ## Why
    `training` is True by default in the functional dropouts: `model.eval()` does not reach them. The model is random in
    evaluation, and the Core ML converter drops the operator, so that the converted model differs from the one that was measured.

    ## Bad
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return self.linear(F.dropout(x, 0.5))


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return self.linear(F.dropout(x, 0.5, training=self.training))


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    The fix is safe: in training mode nothing changes. In evaluation mode the dropout stops, which is what is reported, and outputs change;
    its title says so.

    ## Known limits
    Classes called after Monte Carlo or Bayes drop in evaluation on purpose, and are left alone.
    Under `if self.training` the call is left alone, and so is one whose `training` is anything but a literal, or whose rate
    is a local name where `training` is left out, unless every call gives it a number above 0, written out or by default of the
    constructor: whoever set it may have asked for the mode. Only modules, and the functions that they call, are asked.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html>
    """

    code = "MOD002"
    name = "dropout-always-on"
    severity = Severity.ERROR
    silent = ("trace", "export")
    live_needs = "run"
    needs = (frozenset({*("~" + name for name in _PLACES), Trigger.LOCAL_DROPOUT}),)
    fixable = "`training=self.training`"
    advice = "Give it `training=self.training`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every functional dropout for its mode."""
        if code.ref is None or any(re.search(_SAMPLED, ref.node.name) for ref in code.lineage):
            return
        for call, finding in self._findings(code):
            if not code.is_switched_off(call.node, call.function):
                yield finding

    def _findings(self, code: Code) -> Iterator[tuple[Call, Diagnostic]]:
        for readings in code.calls:
            call = readings[0]
            if call.name.startswith("torch.nn.functional.") and all(_always_on(code, reading) for reading in readings):
                yield (
                    call,
                    code.finding(
                        self,
                        call.node,
                        f"`{call.method}` is on in evaluation mode too: `model.eval()` does not reach it",
                        fix=_fix(code, call),
                        statement=call.statement,
                    ),
                )
            elif all(_is_told(code, reading) for reading in readings):
                yield (
                    call,
                    code.finding(
                        self,
                        call.node,
                        "This dropout is on in evaluation mode too; the converted model has none",
                        severity=code.severity_at(Severity.WARNING, call.node, call.function),
                        statement=call.statement,
                    ),
                )
            elif all(_is_built_here(code, reading) for reading in readings):
                yield (
                    call,
                    code.finding(
                        self,
                        call.node,
                        "`forward` builds this dropout, so it is in training mode always: `model.eval()` does not reach it",
                        severity=code.severity_at(self.severity, call.node, call.function),
                        statement=call.statement,
                        advice="Build it in `__init__`, or write `F.dropout(x, p, training=self.training)`",
                    ),
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every functional dropout of a run in evaluation mode for its mode."""
        run = subject.run
        if run is None:
            return
        # A layer in training mode is MOD001's, but for one that the run built.
        registered = {id(entry.module) for entry in subject.modules}
        registered.update(
            id(part) for state in subject.unregistered_state for part in getattr(state.value, "modules", tuple)()
        )
        layers = {call.place for call in run.modules if "Dropout" in call.type and call.identity in registered}
        for call in run.calls:
            owner, _, name = call.name.rpartition(".")
            if owner != "torch.nn.functional" or name not in operators.training_by_default or call.place in layers:
                continue
            place = operators.training_by_default[name]
            is_on = call.arguments[place] if len(call.arguments) > place else call.keywords.get("training", True)
            rate = call.arguments[1] if len(call.arguments) > 1 else call.keywords.get("p", 0.5)
            if is_on and rate:
                yield subject.finding(
                    self,
                    f"`{name}` is on in evaluation mode too: `model.eval()` does not reach it",
                    at=call.place,
                    modules=[call.module],
                )


def _is_told(code: Code, call: Call) -> bool:
    """Whether a dropout that `forward` runs is told to be on: `F.dropout(x, p, training=True)`."""
    if call.name != "torch.nn.functional.dropout" or call.training or not call.exported or call.switched:
        return False
    told = _is(call.arguments.get(operators.training_by_default["dropout"], "training"), True)
    return told and call.function in code.in_forward and not _is(call.arguments.get(1, "p"), 0)


def _is_built_here(code: Code, call: Call) -> bool:
    """Whether it calls a dropout layer that `forward` has built and that nothing else is done with."""
    if call.training or not call.exported or call.switched or call.function not in code.in_forward:
        return False
    for part in alternatives(call.callee):
        if not isinstance(part, Instance) or part.kind != "module" or part.node is None or part.escaped:
            return False
        builds = code.flow.calls.get(part.node, ())
        if not builds or part.name.rpartition(".")[2] not in _LAYERS:
            return False
        if not all(build.name == f"torch.nn.{build.method}" and not _may_rest(build) for build in builds):
            return False
        if any(build.function is not call.function for build in builds):
            return False
    function = call.node.func
    if not isinstance(function, ast.Name):
        return _is_bare(function)
    # `drop.eval()` ends the training mode.
    return not any(
        isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == function.id
        for node in walk(call.function or call.node)
    ) and all(_is_bare(value) for value in _bound_to(function.id, call.function))


def _is_bare(node: ast.expr) -> bool:
    """Whether an expression builds a layer, and does nothing to it: no `nn.Dropout(0.3).eval()`."""
    return isinstance(node, ast.Call) and called_name(node) in _LAYERS


def _bound_to(name: str, function: ast.AST | None) -> list[ast.expr]:
    return [
        node.value
        for node in walk(function or ast.Pass())
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == name for target in node.targets)
    ]


def _may_rest(build: Call) -> bool:
    """Whether a layer may be built with a rate of 0, as for evaluation."""
    rate = build.arguments.get(0, "p")
    if rate is not None and any(_is(part, 0) for part in alternatives(rate)):
        return True
    return any(getattr(node, "attr", getattr(node, "id", "")) == "training" for node in walk(build.node))


def _always_on(code: Code, call: Call) -> bool:
    if call.training:
        return False
    if call.method in operators.training_by_default:
        rate = call.arguments.get(1, "p")
        if call.has(operators.training_by_default[call.method], "training") or _is(rate, 0):
            return False
        # A rate that the function is handed is 0 in evaluation mode where its caller minds, as for torch's own attention.
        return not _is_parameter(call) or _is_some_rate(code, rate)
    if call.method not in operators.evaluating_by_default:
        return False
    if call.method == "batch_norm" and _is(call.arguments.get(1, "running_mean"), None):
        # Without running statistics there is no other mode; weights are standardised so.
        return False
    return (
        _is(call.arguments.get(operators.evaluating_by_default[call.method], "training"), True)
        and not call.arguments.spread
    )


def _is_some_rate(code: Code, rate: Value | None) -> bool:
    """Whether a rate that a function is handed is a number above 0, or an argument of the constructor that is one by default."""
    parts = alternatives(code.by_default(rate)[0]) if rate is not None else ()
    return bool(parts) and all(part.number for part in parts)


def _is_parameter(call: Call) -> bool:
    rate = next((word.value for word in call.node.keywords if word.arg == "p"), None)
    if rate is None:
        rate = call.node.args[1] if len(call.node.args) > 1 else None
    return isinstance(rate, ast.Name) and isinstance(call.function, (ast.FunctionDef, ast.AsyncFunctionDef))


def _is(value: Value | None, wanted: object) -> bool:
    return isinstance(value, Const) and value.value == wanted and (wanted is not True or value.value is True)


def _fix(code: Code, call: Call) -> Fix | None:
    name = code.self_name(call.function)
    if name is None:
        return None
    place = _PLACES[call.method]
    argument = next((word.value for word in call.node.keywords if word.arg == "training"), None)
    if argument is None and place < len(call.node.args):
        argument = call.node.args[place]
    if argument is not None:
        if not isinstance(argument, ast.Constant):
            return None
        edit = code.rewriter.replace(argument, f"{name}.training")
    else:
        edit = code.rewriter.add_argument(call.node, f"training={name}.training")
    return Fix("Obey the module's mode; outputs in evaluation change, as nothing is dropped there any more", (edit,))

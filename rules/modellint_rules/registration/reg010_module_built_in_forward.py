"""REG010: a module with weights that each run of forward builds anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    ClassRef,
    Const,
    Container,
    Diagnostic,
    External,
    Instance,
    Rule,
    Severity,
    Trigger,
    Value,
    alternatives,
    dotted_name,
    operators,
    walk,
)
from modellint_rules.registration.stateful_layers import PLACES, SWITCHES, WITH_WEIGHTS

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel

_HARMLESS = ("staticmethod", "classmethod")
_MESSAGE = "this module is built anew in each call: its weights are never trained or saved, and conversion mostly stops at what fills them"
_MOVES = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "type", "forward", "__call__"}
)
_GIVEN_WEIGHTS = frozenset(
    {"load_state_dict", "from_pretrained", "pretrained", "weights", "data", "copy_", "requires_grad", "requires_grad_"}
)
"""Words of a class that gets its weights from elsewhere, or keeps them as they are."""


class ModuleBuiltInForward(Rule):
    """A module with weights or buffers that `forward` builds anew and calls.

    ## What it does
    Finds modules with parameters or buffers that are built and called in what `forward` runs, and are kept nowhere.

    ## Why
    Each call starts with new weights. No optimizer trains them, no checkpoint holds them, and `.to()` does not move them. Both
    routes see how they are filled, at every call: coremltools has no converter for `uniform_` and `normal_` (`nn.Linear`,
    `nn.Conv2d`, `nn.Embedding`), and refuses to fill what is empty (norms). Of seven kinds of layers one is converted:
    `nn.PReLU`, by `torch.export`.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return nn.Linear(8, 8)(x)


    inputs = (torch.ones(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x)


    inputs = (torch.ones(2, 8),)
    ```

    ## Fix safety
    There is no fix: the arguments may not be known before `forward` runs.

    ## Known limits
    A module whose weights something else reads, sets or loads, that is handed to other code, or that is returned, is left alone,
    and so is one whose class is not seen to make parameters. A live check reports what a run built, called and let go.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "REG010"
    name = "module-built-in-forward"
    severity = Severity.ERROR
    advice = "Build it in `__init__`, and call it in `forward`"
    supersedes = ("OPS001",)
    withdraws = True
    live_needs = "run"
    needs = (Trigger.BUILDS_MODULE,)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every module that forward calls where it was built."""
        if not code.in_forward:
            return
        calls = list(code.calls)
        kept: set[int] | None = None
        reported: set[ast.AST] = set()
        for readings in calls:
            called = [part for reading in readings for part in alternatives(_called(reading))]
            if not all(
                isinstance(part, Instance) and part.kind == "module" and part.node in code.flow.calls for part in called
            ):
                continue
            if kept is None:
                kept = _kept(code)
            built = [_built(code, part, kept) for part in called]
            for build in built if all(built) else ():
                if build is None or (build.function is not readings[0].function and _is_remembered(build.function)):
                    continue
                if build.node not in reported:
                    reported.add(build.node)
                    yield code.finding(
                        self,
                        build.node,
                        _MESSAGE,
                        statement=build.statement,
                    )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the modules that the run built, called and let go."""
        run = subject.run
        for call in run.modules if run is not None else ():
            if call.is_fresh:
                place = call.built_at or call.place
                yield subject.finding(
                    self,
                    _MESSAGE,
                    at=place,
                    modules=(call.path.rpartition(".<")[0] if "<" in call.path else call.path,),
                )


def _called(call: Call) -> Value:
    """The module that is called, for `module(x)` and `module.forward(x)`."""
    return call.receiver if call.method == "forward" and call.receiver is not None else call.callee


def _built(code: Code, module: Value, kept: set[int]) -> Call | None:
    """The call that builds a module in `forward`; None where it has no weights of its own or is kept."""
    if not isinstance(module, Instance) or id(module) in kept or module.escaped or module.node is None:
        return None
    builds = code.flow.calls.get(module.node)
    if not builds:
        return None
    build = builds[0]
    func = build.node.func
    spelled = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if build.function not in code.in_forward or not operators.may_have_state(spelled):
        return None
    if _is_used_otherwise(build):
        return None
    if module.name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        inner = [_built(code, part, kept) for item in module.held for part in item.leaves()]
        return build if any(inner) else None
    if isinstance(module.callee, ClassRef):
        if any(
            isinstance(part, Instance) and part.kind != "module"
            for value in build.arguments.everything()
            for part in value.leaves()
        ):
            return None
        return build if _makes_parameters(code, module.callee, 0) else None
    if build.name != module.name:
        return None
    return build if _has_state(module.name, build) else None


def _has_state(name: str, build: Call) -> bool:
    last = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or any(word in build.arguments.keywords for word in ("_weight", None)):
        return False
    switches = SWITCHES.get(last, {}) if not build.arguments.spread else {}
    return last in WITH_WEIGHTS or any(_is_on(build, word, default) for word, default in switches.items())


def _is_on(build: Call, word: str, default: bool) -> bool:
    argument = build.arguments.get(PLACES[word], word)
    if argument is None:
        return default
    return isinstance(argument, Const) and bool(argument.value)


def _kept(code: Code) -> set[int]:
    """Identity of everything that `self` holds, that `forward` returns, or that other code gets or looks into."""
    pending: list[Value] = [binding.value for binding in code.bindings]
    pending.extend(value for _, value in code.flow.returns)
    for readings in code.calls:
        for reading in readings:
            receiver = reading.receiver
            if isinstance(receiver, Instance) and receiver.kind == "module" and reading.method not in _MOVES:
                pending.append(receiver)
            if not reading.name.startswith(("torch.nn.", "builtins.")) and reading.method not in ("append", "extend"):
                pending.extend(reading.arguments.everything())
    seen: set[int] = set()
    while pending:
        for part in alternatives(pending.pop()):
            if id(part) not in seen:
                seen.add(id(part))
                pending.extend(part.items if isinstance(part, Container) else getattr(part, "held", ()))
    return seen


def _is_remembered(function: ast.AST | None) -> bool:
    """Whether a decorator that is not understood may keep what a function gives."""
    return any(not isinstance(d, ast.Name) or d.id not in _HARMLESS for d in getattr(function, "decorator_list", ()))


def _is_used_otherwise(build: Call) -> bool:
    """Whether the function reads or sets what the module holds: its weights, above all."""
    names: set[str] = set()
    function = build.function
    for node in walk(function) if function is not None else ():
        match node:
            case ast.Assign(targets=targets, value=value) if _moved(value) is build.node:
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case _:
                pass
    for node in walk(function) if names and function is not None else ():
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names and attribute not in _MOVES:
                return True
            case _:
                pass
    return False


def _moved(node: ast.expr) -> ast.expr:
    """`module` in `module.to(...)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
        node = node.func.value
    return node


def _makes_parameters(code: Code, ref: ClassRef, depth: int) -> bool:
    """Whether a class of the project gives each of its objects parameters that start anew."""
    is_stateful = False
    for cls in code.project.lineage(ref):
        for node in walk(cls.node):
            match node:
                case ast.Attribute(attr=word) | ast.Name(id=word) | ast.keyword(arg=word) if word in _GIVEN_WEIGHTS:
                    return False
                case ast.Call(func=func) if not is_stateful:
                    is_stateful = _is_stateful(code, cls, func, depth)
                case _:
                    pass
    return is_stateful


def _is_stateful(code: Code, ref: ClassRef, func: ast.expr, depth: int) -> bool:
    dotted = dotted_name(func)
    symbol = code.project.resolve(ref.file, dotted, ref.within) if dotted is not None else None
    match symbol:
        case External(name="torch.nn.Parameter" | "torch.nn.parameter.Parameter"):
            return True
        case External(name=name) if name.startswith("torch.nn."):
            return name.rpartition(".")[2] in WITH_WEIGHTS
        case ClassRef() if depth < 4 and symbol.node is not ref.node and code.project.is_module(symbol):
            return _makes_parameters(code, symbol, depth + 1)
    return False

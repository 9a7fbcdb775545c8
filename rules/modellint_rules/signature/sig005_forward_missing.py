"""SIG005: a module that is called and has no forward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import ClassRef, Diagnostic, External, Instance, Rule, Severity, Trigger, alternatives, walk

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Code, LiveModel

_ROOT = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
_OTHER_WAYS = frozenset({"forward", "__call__", "__getattr__", "__getattribute__", "__new__"})
_MISSING = r'Module \[(\w+)\] is missing the required "forward" function'
_PLAIN = frozenset({"object", "abc.ABC", "builtins.object", "typing.Generic"})


class ForwardMissing(Rule):
    """A module that is called and has no `forward`.

    ## What it does
    Finds calls of a submodule whose class, all of whose bases are known, defines neither `forward` nor `__call__`. In a live
    run, finds the call that ended it so; without one, a model that itself has no `forward`.

    ## Why
    The call raises `NotImplementedError: Module is missing the required "forward" function`. Most often the name is misspelt.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def foward(self, x):
            return self.linear(x)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(x)


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(x)


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    In source, only classes at the top of the same file are asked, and only those all of whose bases are known. A live submodule
    without `forward` is not reported unless it is called: it may only hold others.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "SIG005"
    name = "forward-missing"
    severity = Severity.ERROR
    advice = "Define `forward`"
    only_inference = True
    supersedes = ("LNT003", "SHP008")
    needs = (Trigger.NO_FORWARD,)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every module that is called for its `forward`."""
        for readings in code.calls:
            call = readings[0]
            for part in alternatives(call.callee):
                if not isinstance(part, Instance) or part.kind != "module" or not isinstance(part.callee, ClassRef):
                    continue
                if part.callee.file is not code.file or part.callee.within:
                    continue
                missing = _missing(part.callee, code)
                if missing is not None and len(alternatives(call.callee)) == 1:
                    yield code.finding(
                        self,
                        call.node,
                        f"`{part.callee.node.name}` is called and has no `forward`{_hint(missing)}",
                        statement=call.statement,
                    )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the model for its `forward`, and the run whether it ended for want of one."""
        if not _has_forward(subject.model):
            if subject.own_class is not None:
                name = type(subject.model).__name__
                yield subject.finding(
                    self,
                    f"`{name}` has no `forward`{_hint(_methods(subject.model))}",
                    at=subject.class_place(subject.model),
                )
            return
        run = subject.run
        failure = run.failure if run is not None else None
        if failure is None or failure.error != "NotImplementedError":
            return
        match = re.match(_MISSING, failure.message)
        if match is None:
            return
        named = {type(entry.module).__name__: entry for entry in subject.modules if not _has_forward(entry.module)}
        entry = named.get(match[1])
        yield subject.finding(
            self,
            f"`{match[1]}` is called and has no `forward`{_hint(_methods(entry.module)) if entry is not None else ''}",
            at=failure.place,
            modules=entry.paths if entry is not None else [failure.module],
        )


def _hint(methods: set[str]) -> str:
    """Words about a method whose name is near."""
    import difflib

    near = difflib.get_close_matches("forward", methods, 1, 0.75)
    return f"; did you mean `{near[0]}` to be it?" if near else ""


def _has_forward(module: nn.Module) -> bool:
    from torch import nn

    return getattr(module.forward, "__func__", None) is not nn.Module.forward


def _methods(module: nn.Module) -> set[str]:
    from torch import nn

    return {name for name in dir(type(module)) if not hasattr(nn.Module, name)}


def _missing(ref: ClassRef, code: Code) -> set[str] | None:
    """The methods of a class that surely has no `forward`; None for any other."""
    names: set[str] = set()
    for cls in code.project.lineage(ref):
        if cls.file is not ref.file:
            return None
        members = cls.file.members(cls.node)
        if not _OTHER_WAYS.isdisjoint(members):
            return None
        if cls.node.decorator_list or cls.node.keywords:
            return None
        for node in walk(cls.node):
            # `self.forward = …`, `setattr(self, "forward", …)`, `self.__class__ = …`
            if isinstance(node, ast.Attribute) and node.attr in ("forward", "__class__"):
                return None
            if isinstance(node, ast.Constant) and node.value == "forward":
                return None
        for base in code.project.bases(cls):
            known = isinstance(base, ClassRef) or (isinstance(base, External) and base.name in _ROOT | _PLAIN)
            if not known:
                return None
        names.update(name for name, node in members.items() if isinstance(node, ast.FunctionDef))
    return names

"""SIG005: a module that is called and has no forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule
from modellint.source.nodes import walk
from modellint.source.project import ClassRef, External
from modellint.source.values import Instance, alternatives
from modellint.source.words import NO_FORWARD

if TYPE_CHECKING:
    from modellint.source.code import Code
    from modellint.source.project import Project

_ROOT = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
_OTHER_WAYS = frozenset({"forward", "__call__", "__getattr__", "__getattribute__", "__new__"})
_PLAIN = frozenset({"object", "abc.ABC", "builtins.object", "typing.Generic"})


class ForwardMissing(Rule):
    """A module that is called and has no `forward`.

    ## What it does
    Finds calls of a submodule whose class, all of whose bases are known, defines neither `forward` nor `__call__`.

    ## Why
    The call raises `NotImplementedError: Module is missing the required "forward" function`. Most often the name is misspelt.

    ## Bad
    ```python
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
    ```

    ## Good
    ```python
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
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    Only classes at the top of the same file are asked, and only those all of whose bases are known.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "SIG005"
    name = "forward-missing"
    severity = Severity.ERROR
    needs = (frozenset({NO_FORWARD}),)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every module that is called for its `forward`."""
        for readings in code.calls:
            call = readings[0]
            for part in alternatives(call.callee):
                if not isinstance(part, Instance) or part.kind != "module" or not isinstance(part.callee, ClassRef):
                    continue
                if part.callee.file is not code.file or part.callee.within:
                    continue
                missing = _missing(part.callee, code.project)
                if missing is not None and len(alternatives(call.callee)) == 1:
                    import difflib

                    near = difflib.get_close_matches("forward", missing, 1, 0.75)
                    hint = f"; did you mean `{near[0]}` to be it?" if near else ""
                    yield code.finding(
                        self,
                        call.node,
                        f"`{part.callee.node.name}` is called and has no `forward`{hint}",
                        statement=call.statement,
                    )


def _missing(ref: ClassRef, project: Project) -> set[str] | None:
    """The methods of a class that surely has no `forward`; None for any other."""
    names: set[str] = set()
    for one in project.lineage(ref):
        if one.file is not ref.file:
            return None
        members = one.file.members(one.node)
        if not _OTHER_WAYS.isdisjoint(members):
            return None
        if one.node.decorator_list or one.node.keywords:
            return None
        for node in walk(one.node):
            # `self.forward = …`, `setattr(self, "forward", …)`, `self.__class__ = …`
            if isinstance(node, ast.Attribute) and node.attr in ("forward", "__class__"):
                return None
            if isinstance(node, ast.Constant) and node.value == "forward":
                return None
        for base in project.bases(one):
            known = isinstance(base, ClassRef) or (isinstance(base, External) and base.name in _ROOT | _PLAIN)
            if not known:
                return None
        names.update(name for name, node in members.items() if isinstance(node, ast.FunctionDef))
    return names

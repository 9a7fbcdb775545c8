"""REG008: a module whose __init__ never calls its base's, or sets state before it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Edit, Feature, Fix, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import ModuleClass


class SuperInit(Rule):
    """A module whose `__init__` never calls its base's, or sets state before it does.

    ## What it does
    Finds an `__init__` of a module class that calls no base class's `__init__` on any path, and one that sets a module,
    parameter or buffer before it does.

    ## Why
    `nn.Module.__init__` makes the tables in which submodules, parameters and buffers are registered. Assigning one before
    that raises "cannot assign module before Module.__init__() call"; a module without them fails at its first call, in
    `state_dict()`, or in `repr`. Plain values set before it do no harm.

    ## Bad
    ```python
    from torch import nn


    class Projection(nn.Module):
        def __init__(self, width=8):
            self.width = width
            self.linear = nn.Linear(width, width)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Projection(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.width = width
            self.linear = nn.Linear(width, width)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Fix safety
    The fix is safe: without it the class cannot be built, or cannot be called. It is offered only where `nn.Module` itself is the
    one base, since another base's `__init__` may need arguments.

    ## Known limits
    Any call of some `__init__` counts as the base's. An `__init__` that only returns or raises is left alone, and so is a class
    whose metaclass is not understood.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "REG008"
    name = "super-init-missing-or-late"
    severity = Severity.ERROR
    wakes_on = Feature.INIT_WITHOUT_BASE
    fixable = "insert or move `super().__init__()`"
    advice = "Call `super().__init__()` first"

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask how `__init__` goes about calling the base's."""
        init = cls.init
        if init is None or cls.has_own_metaclass:
            return
        state = cls.initialisation
        if not state.called:
            if cls.may_initialise_itself:
                return
            place = state.first_state if cls.is_inside(state.first_state, init) else None
            yield cls.finding(
                self,
                place or init,
                f"`{cls.name}.__init__` never calls `super().__init__()`: modules, parameters and buffers cannot be registered",
                attribute="__init__",
                fix=self._insert(cls, init),
            )
        elif state.early and state.first_state is not None and cls.is_inside(state.first_state, init):
            yield cls.finding(
                self,
                state.first_state,
                "a module, parameter or buffer is set before `super().__init__()` has run: that raises",
                attribute="__init__",
                fix=self._move(cls, init, state.first_state),
            )

    def _insert(self, cls: ModuleClass, init: ast.FunctionDef) -> Fix | None:
        if not cls.derives_directly:
            return None
        edit = cls.rewriter.first_in_body(init, "super().__init__()")
        return Fix("Call `super().__init__()` first", (edit,)) if edit is not None else None

    def _move(self, cls: ModuleClass, init: ast.FunctionDef, early: ast.stmt) -> Fix | None:
        if not cls.derives_directly:
            return None
        for statement in init.body:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"), args=[], keywords=[])):
                    lines = cls.rewriter.alone_on_its_lines(statement)
                    if lines is None:
                        return None
                    # With the comment behind it.
                    first = cls.rewriter.first_in_body(init, cls.rewriter.text[slice(*lines)].strip())
                    if first is None:
                        return None
                    removed: Edit = cls.rewriter.remove(*lines)
                    return Fix("Move `super().__init__()` to the top", (first, removed))
                case _:
                    pass
        return None

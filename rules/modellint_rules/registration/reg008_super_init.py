"""REG008: a module whose __init__ never calls its base's, or sets state before it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Edit, Feature, Fix, Rule, Severity, called_name, of_kind

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
    A class without `forward` that only registers a hook and keeps what that is given works without the base's `__init__`, as long
    as nobody takes it for a module: the finding is information. Any call of some `__init__` counts as the base's. An `__init__`
    that only returns or raises is left alone, and so is a class whose metaclass is not understood.

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
            is_hook = state.first_state is None and cls.derives_directly and _only_keeps_outputs(cls)
            what = (
                "it can keep what its hook is given, but calling it, `.to()` and `state_dict()` raise"
                if is_hook
                else "modules, parameters and buffers cannot be registered"
            )
            yield cls.finding(
                self,
                place or init,
                f"`{cls.name}.__init__` never calls `super().__init__()`: {what}",
                attribute="__init__",
                severity=Severity.INFO if is_hook else None,
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


def _only_keeps_outputs(cls: ModuleClass) -> bool:
    """Whether all that a class without `forward` binds is a hook that it registers, constants, and the output that this is given."""
    methods = {part.name: part for part in cls.node.body if isinstance(part, ast.FunctionDef)}
    hooks: set[str] = set()
    if "forward" in methods or "__call__" in methods:
        return False
    for call in of_kind(cls.node, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr=name), args=[ast.Attribute(value=ast.Name(id="self"), attr=hook)]):
                hooks |= {hook} if name in _HOOKS else set()
            case _:
                pass
    return bool(hooks) and all(_keeps_no_module(method, name in hooks) for name, method in methods.items())


_HOOKS = frozenset({"register_forward_hook", "register_full_backward_hook", "register_backward_hook"})
"""Methods that give a handle, and later call what they are given with a module, its inputs and its outputs."""


def _keeps_no_module(method: ast.FunctionDef, is_hook: bool) -> bool:
    """Whether a method binds nothing to attributes but the handle of a hook, constants, and the output that a hook is given."""
    output = method.args.args[3].arg if is_hook and len(method.args.args) == 4 else None
    targets = [part for part in of_kind(method, ast.Attribute) if isinstance(part.ctx, ast.Store)]
    for assign in of_kind(method, ast.Assign):
        value = assign.value
        is_handle = isinstance(value, ast.Call) and called_name(value) in _HOOKS
        while isinstance(value, (ast.Attribute, ast.Subscript, ast.Call)):
            value = value.func if isinstance(value, ast.Call) else value.value
        is_output = isinstance(value, ast.Name) and value.id == output
        if is_handle or is_output or isinstance(value, ast.Constant):
            targets = [target for target in targets if target not in assign.targets]
    return not targets and not any(called_name(call) in ("setattr", "add_module") for call in of_kind(method, ast.Call))

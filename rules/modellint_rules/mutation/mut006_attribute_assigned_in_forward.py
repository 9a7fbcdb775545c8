"""MUT006: an attribute that `forward` sets, and that outlives the call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Diagnostic,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    of_kind,
    parents_in,
    tensors_in,
    walk,
)
from modellint_rules.mutation.shared_memory import is_filled_once

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class AttributeAssignedInForward(Rule):
    """An attribute that `forward` sets to what it computed, and that is read in another call.

    ## What it does
    Finds `self.h = …` in `forward`, or in what it runs, where the value depends on the data or on the attribute's old
    value, and `forward` reads the attribute before it sets it. Where only a method reads it that `forward` does not run,
    where it is a counter that decides a branch at most, and where every module of the project that runs the object has it set
    the attribute anew before (`self.cell.clear()`), the finding is for information.

    ## Why
    Tracing records operators, not attributes: the converted model has no `self.h`, and each call starts from the value that
    tracing found. A recurrent state stays at its beginning, a counter at its number, and nobody says so.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None

        def forward(self, x):
            y = x * 2 if self.last is None else x + self.last
            self.last = y.detach()
            return y


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x, last):
            y = x + last
            return y, y.detach()


    inputs = (torch.randn(2, 8), torch.randn(2, 8))
    ```

    ## Fix safety
    There is no fix. Hand the state in and out, as above, or keep it in a buffer that is updated in place, and give
    `ct.convert` a `ct.StateType` (iOS 18).

    ## Known limits
    What is set before it is read is left alone, and so is what nothing in the class reads, or what does not depend on the
    data, such as a table that is made anew for another size; and what a flag switches on, or a loss reads; and a state that an
    argument of `forward` sets anew (`if self.h is None or fresh:`), where all calls in the project give it so, or leave a default
    that does. Buffers are MUT005's.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/stateful-models.html>
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    """

    code = "MUT006"
    name = "attribute-assigned-in-forward"
    severity = Severity.WARNING
    advice = "Take the value as an argument of `forward`, and return it"
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.SETS_ATTRIBUTES)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every attribute that is set whether it is read in another call."""
        if code.is_never_exported:
            return
        reported: set[str] = set()
        for readings in code.writes:
            write = readings[0]
            name = _attribute(write)
            if name is None or name in reported or write.function not in code.in_forward:
                continue
            weight = _weight(code, write, name) if all(_lasts(reading, name) for reading in readings) else None
            if weight is None:
                continue
            reported.add(name)
            yield code.finding(
                self,
                write.statement,
                f"`self.{name}` is read in another call than it is set in: a converted model starts each from the value of the capture",
                attribute=name,
                severity=code.severity_at(weight, write.node, write.function),
                statement=write.statement,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask later runs whether what a run leaves in attributes matters."""
        for change in subject.state_changes:
            if change.kind == "attribute" and (change.matters or (change.matters is None and change.of_old)):
                yield subject.finding(
                    self,
                    f"`self.{change.attribute}` is set while the model runs and read in another call: a converted model does not "
                    "keep it",
                    at=change.place,
                    modules=change.paths,
                    class_name=subject.class_of(change.module, change.attribute),
                    attribute=change.attribute,
                )


def _attribute(write: Write) -> str | None:
    if write.how == "attribute":
        return write.attribute
    if isinstance(write.node, ast.AugAssign) and isinstance(write.node.target, ast.Attribute):
        owner = write.node.target.value
        return write.node.target.attr if isinstance(owner, ast.Name) and owner.id == "self" else None
    return None


def _lasts(write: Write, name: str) -> bool:
    """Whether the new value depends on the data or on the old one."""
    if write.training or not write.exported or write.switched or name == "training":
        return False
    if any(isinstance(part, Tensor) and part.kind != "tensor" for part in alternatives(write.target)):
        return False
    if any((part.certain or part.shown) and part.batch is not None for part in tensors_in([write.value])):
        return True
    statement = write.statement
    if isinstance(statement, ast.AugAssign):
        return True
    return (
        isinstance(statement, ast.Assign)
        and any(_is_read(node, name) for node in walk(statement.value))
        and any(isinstance(node, ast.BinOp) for node in walk(statement.value))
    )


def _weight(code: Code, write: Write, name: str) -> Severity | None:
    """Severity of an attribute that is set; None where nothing reads it in another call."""
    if code.is_read_first(name):
        counts = not tensors_in([write.value, write.target])
        used = any(_uses(code, function, name, write.statement, counts) for function in code.in_forward)
        kept = used and not re.search(_LOGGED, name) and not is_filled_once(code, write, name)
        # Where a module around it has it set anew before each run, one capture holds both.
        return Severity.WARNING if kept and not code.is_reset_by_holders(name) else Severity.INFO
    others = (reader for reader in code.readers(name) if reader not in code.in_forward)
    # Where a module around it calls both, one capture holds both.
    return (
        Severity.INFO if any(_FOR_TRAINING.search(getattr(reader, "name", "")) is None for reader in others) else None
    )


def _uses(code: Code, function: ast.AST, name: str, update: ast.stmt, counts: bool) -> bool:
    """Whether a function reads an attribute but where it is updated; of a counter, whether `forward` computes with it."""
    if counts and getattr(function, "name", "") != "forward":
        return False
    parents = parents_in(function)
    own = {part for part in walk(update) if not counts or not isinstance(part, (ast.If, ast.For))}
    return any(
        _is_read(node, name) and node not in own and not (counts and _only_asks(code, node, parents))
        for node in (*of_kind(function, ast.Attribute), *of_kind(function, ast.Call))
    )


def _only_asks(code: Code, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a value is only asked for, said, or needed in training."""
    child = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                if test is child or "training" in ast.unparse(test):
                    return True
            case ast.Raise():
                return True
            case ast.Expr(value=ast.Call()) if code.only_reports([parent]):
                return True
            case _:
                pass
        child = parent
    return False


_LOGGED = r"loss|metric|perplex|accura|debug|(?:^|_)(?:n|num)_(?:steps?|calls?|passes|samples)(?:_|$)"
"""Names of attributes that no output hangs on."""
_FOR_TRAINING = re.compile(r"loss|regulari|metric|penalty|plot|visuali")
"""Names of methods that no exported model runs."""


def _is_read(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        is_getattr = isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1
        return is_getattr and isinstance(node.args[1], ast.Constant) and node.args[1].value == name
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)

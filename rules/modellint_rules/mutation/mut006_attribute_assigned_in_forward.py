"""MUT006: an attribute that `forward` sets, and that outlives the call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule
from modellint.source.apply import tensors_in
from modellint.source.nodes import walk
from modellint.source.signs import ASSIGNS
from modellint.source.tensors import Tensor
from modellint.source.values import alternatives
from modellint_rules.flow.training_only import is_for_training

if TYPE_CHECKING:
    from modellint.source.code import Code
    from modellint.source.records import Write


class AttributeAssignedInForward(Rule):
    """An attribute that `forward` sets to what it computed, and that is read in another call.

    ## What it does
    Finds `self.h = …` in `forward`, or in what it runs, where the value depends on the data or on the attribute's old
    value, and the attribute is read before it is set again, or by a method that `forward` does not run.

    ## Why
    Tracing records operators, not attributes: the converted model has no `self.h`, and each call starts from the value that
    tracing found. A recurrent state stays at its beginning, a counter at its number, and nobody says so.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None

        def forward(self, x):
            y = x if self.last is None else x + self.last
            self.last = y.detach()
            return y
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def forward(self, x, last):
            y = x + last
            return y, y.detach()
    ```

    ## Fix safety
    There is no fix. Hand the state in and out, as above, or keep it in a buffer that is updated in place, and give
    `ct.convert` a `ct.StateType` (iOS 18).

    ## Known limits
    What is set and read in the same call only is left alone, and so is what nothing in the class reads, or what does not
    depend on the data, such as a table that is made anew for another size; and what a flag switches on, or a loss reads.
    Buffers are MUT005's.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/stateful-models.html>
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    """

    code = "MUT006"
    name = "attribute-assigned-in-forward"
    severity = Severity.WARNING
    needs = (frozenset({"forward"}), frozenset({ASSIGNS}))
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every attribute that is set whether it is read in another call."""
        if is_for_training(code):
            return
        said: set[str] = set()
        for readings in code.writes:
            write = readings[0]
            name = _attribute(write)
            if name is None or name in said or write.function not in code.in_forward:
                continue
            if not all(_lasts(one, name) for one in readings) or not _outlives(code, write, name):
                continue
            said.add(name)
            yield code.finding(
                self,
                write.statement,
                f"`self.{name}` is set while the model runs and read in another call: a converted model does not keep it",
                attribute=name,
                statement=write.statement,
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


def _outlives(code: Code, write: Write, name: str) -> bool:
    if isinstance(write.statement, ast.AugAssign) or code.is_read_before_set(name, write.function):
        return True
    others = (reader for reader in code.readers(name) if reader not in code.in_forward)
    return any(_FOR_TRAINING.search(getattr(reader, "name", "")) is None for reader in others)


_FOR_TRAINING = re.compile(r"loss|regulari|metric|penalty|plot|visuali")
"""Names of methods that no exported model runs."""


def _is_read(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)

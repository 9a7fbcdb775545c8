"""MUT008: a running statistic that still moves in evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, Trigger, walk
from modellint_rules.mutation.running_statistics import Update, updates

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class BufferUpdatedInEval(Rule):
    """A running statistic in a buffer that `forward` updates in evaluation too.

    ## What it does
    Finds buffers that `forward` updates from their old value and from its data, as a running average is, without asking
    `self.training`.

    ## Why
    After `model.eval()` the statistic goes on moving: the outputs depend on what was evaluated before. Tracing bakes in the
    values after its own calls, and `torch.export` makes the buffer a state that the converted model must keep.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
            return x - self.mean


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            if self.training:
                self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
            return x - self.mean


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    The fix is safe: in training nothing changes. In evaluation the statistic stays as it is, which is what was reported, and
    outputs that depend on it change; its title says so. There is
    no fix outside of methods, nor where a line holds more than the update.

    ## Known limits
    Counters, caches and recurrent state are left alone, and so is an update that depends on a flag. Buffers that a
    base class in another file registers are not known.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html>
    - <https://github.com/apple/coremltools/issues/1726>
    """

    code = "MUT008"
    name = "buffer-updated-in-eval"
    severity = Severity.WARNING
    live_needs = "run"
    needs = (frozenset({"register_buffer", "Buffer"}), "forward", Trigger.CHANGES_STATE)
    only_modules = True
    only_forward = True
    fixable = "`if self.training:`"
    advice = "Update it under `if self.training:`"
    supersedes = ("MUT005",)
    at_statements = True
    silent = ("trace",)

    def silent_by(self, finding: Diagnostic) -> tuple[str, ...]:
        """By tracing, if a run of the model showed it."""
        return () if finding.evidence == "source" else self.silent

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every update of a running statistic whether it is for training only."""
        statistics = [*updates(code)]
        read = _read_buffers(code, statistics) if statistics else frozenset()
        for update in statistics:
            if any(reading.training or reading.switched for reading in update.readings):
                continue
            is_read = update.attribute in read
            severity = code.severity_at(self.severity, update.write.node, update.write.function)
            effect = "outputs depend on the calls before" if is_read else "nothing in the class reads it"
            yield code.finding(
                self,
                update.write.statement,
                f"`self.{update.attribute}` is a running statistic and moves in evaluation too: {effect}",
                attribute=update.attribute,
                severity=severity if is_read else Severity.INFO,
                fix=_fix(code, update.write),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run which buffers it changes, and of what it computes their values."""
        for change in subject.state_changes:
            if change.kind == "buffer" and change.of_data and change.of_old and change.is_statistic:
                yield subject.finding(
                    self,
                    f"`self.{change.attribute}` is a running statistic and moves in evaluation too: outputs depend on the calls before",
                    at=change.place,
                    modules=change.paths,
                    class_name=subject.class_of(change.module, change.attribute),
                    attribute=change.attribute,
                )


def _read_buffers(code: Code, own: Sequence[Update]) -> frozenset[str]:
    """The attributes that the class reads, but for statements that update a buffer or set it anew (`self.x.zero_()`)."""
    updating = {update.write.statement: update.attribute for update in own}
    aside: set[ast.AST] = {
        part
        for statement, attribute in updating.items()
        # `self.x = y = …` gives the new value on.
        if not isinstance(statement, ast.Assign)
        or all(isinstance(target, ast.Attribute) and target.attr == attribute for target in statement.targets)
        for part in walk(statement)
        if isinstance(part, ast.Attribute) and part.attr == attribute
    }
    read: set[str] = set()
    for method in code.methods:
        module = code.self_name(method.node)
        for part in walk(method.node):
            match part:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name))) if name.endswith("_"):
                    aside.add(target)
                case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Load()) if owner == module:
                    if part not in aside:
                        read.add(name)
                case _:
                    pass
    return frozenset(read)


def _fix(code: Code, write: Write) -> Fix | None:
    statement = write.statement
    module = code.self_name(write.function)
    indent = code.rewriter.indentation(statement)
    if module is None or indent is None or code.rewriter.alone_on_its_lines(statement) is None:
        return None
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) or _binds_a_variable(statement):
        return None
    step = "\t" if indent.endswith("\t") else "    "
    start = code.rewriter.insert(code.rewriter.start(statement), f"if {module}.training:\n{indent}{step}")
    edits = (start, *code.rewriter.indented(statement, step))
    title = f"Update it under `if {module}.training:`; outputs in evaluation change, as it stays as training left it"
    return Fix(title, edits)


def _binds_a_variable(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) for node in walk(statement))

"""MUT004: an assignment to a part of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Const,
    Container,
    Diagnostic,
    Fix,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
)
from modellint_rules.mutation.shared_memory import changes, indices, item_of

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class SliceAssign(Rule):
    """An assignment to a part of a tensor, by slices and numbers.

    ## What it does
    Finds `y[:, 1:] = v` and `y[0] = v`, with nothing but slices and numbers in the brackets.

    ## Why
    With constant bounds this converts. With bounds that depend on the input it is refused in some forms, and each
    assignment copies the whole tensor. The rule is off by default; select it to look for what a flexible model may stumble
    over.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            y[:, 1:] = x[:, :-1]
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            y = y.slice_scatter(x[:, :-1], 1, 1)
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix writes `slice_scatter`, where one slice with a start is assigned a tensor of the same size. It is unsafe: the
    variable gets a new tensor, and an assignment broadcasts, which `slice_scatter` does not.

    ## Known limits
    Writes to buffers are MUT005's, and those behind an ellipsis MUT001's.

    ## References
    - <https://github.com/apple/coremltools/issues/1422>
    - <https://github.com/apple/coremltools/issues/1522>
    - <https://github.com/apple/coremltools/issues/1065>
    - <https://github.com/apple/coremltools/issues/1182>
    """

    code = "MUT004"
    name = "slice-assign"
    severity = Severity.INFO
    only_for = ("coreml",)
    only_inference = True
    live_needs = "run"
    default = False
    needs = ("forward", Trigger.WRITES_ITEMS)
    only_modules = True
    only_forward = True
    fixable = "`slice_scatter`"
    advice = "Put the tensor together with `torch.cat`, or choose with `torch.where`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every assignment to an item for its indices."""
        for readings in code.writes:
            write = readings[0]
            place = item_of(write)
            if place is not None and all(changes(reading) and _is_plain(reading) for reading in readings):
                yield code.finding(
                    self,
                    write.statement,
                    "An assignment to a part of a tensor copies it whole, and converts with constant bounds only",
                    statement=write.statement,
                    fix=_fix(code, write, place),
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every assignment of the run for its indices."""
        run = subject.run
        for item in () if run is None else subject.item_assignments:
            if not item.masks and not item.tensors and not item.is_behind_dots:
                yield subject.finding(
                    self,
                    "An assignment to a part of a tensor copies it whole, and converts with constant bounds only",
                    at=item.call.place,
                    modules=[item.call.module],
                )


def _is_plain(write: Write) -> bool:
    targets = [part for part in alternatives(write.target) if not (isinstance(part, Const) and part.value is None)]
    several = len(write.index) > 1
    if not targets or not all(
        (several or part.is_tensor) and isinstance(part, Tensor) and not part.registered for part in targets
    ):
        return False
    indices_of = [part for value in write.index if value is not None for part in alternatives(value)]
    return not any(
        isinstance(part, (Tensor, Container)) or (isinstance(part, Const) and part.value is ...) for part in indices_of
    )


def _fix(code: Code, write: Write, place: ast.Subscript) -> Fix | None:
    """`y = y.slice_scatter(v, 1, 1)` for `y[:, 1:] = v`."""
    statement, parts = write.statement, indices(place)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(place.value, ast.Name):
        return None
    if not all(isinstance(part, ast.Slice) and part.step is None for part in parts):
        return None
    bounded = [
        (at, part)
        for at, part in enumerate(parts)
        if isinstance(part, ast.Slice) and (part.lower is not None or part.upper)
    ]
    if len(bounded) != 1 or not all(part.is_tensor for part in alternatives(write.value)):
        return None
    at, part = bounded[0]
    name, value = place.value.id, code.rewriter.of(statement.value)
    start = code.rewriter.of(part.lower) if part.lower is not None else "0"
    end = f", {code.rewriter.of(part.upper)}" if part.upper is not None else ""
    edits = (
        code.rewriter.replace(place, name),
        code.rewriter.replace(statement.value, f"{name}.slice_scatter({value}, {at}, {start}{end})"),
    )
    return Fix("Write it as `slice_scatter`", edits, Applicability.UNSAFE)

"""SHP004: a tensor that is given sizes which are all written down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, Tensor, Trigger, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class HardCodedSize(Rule):
    """A tensor of the batch that is reshaped to sizes which are all written down.

    ## What it does
    Finds `view`, `reshape` and `expand` in what `forward` runs, of tensors that still have their batch, to sizes that are numbers
    without exception.

    ## Why
    Such a model takes one batch size and one size of image only. With a flexible input (`ct.RangeDim`, `ct.EnumeratedShapes`)
    it converts without a word, and the program then fails for every other size than this one.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 4, stride=4)

        def forward(self, x):
            return self.conv(x).reshape(1, 8, 196)


    inputs = (torch.randn(1, 3, 56, 56),)
    flexible = {0: {0: (1, 4)}}
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 4, stride=4)

        def forward(self, x):
            return self.conv(x).reshape(-1, 8, 196)


    inputs = (torch.randn(1, 3, 56, 56),)
    flexible = {0: {0: (1, 4)}}
    ```

    ## Fix safety
    The fix leaves the first size open. It is unsafe: a wrong size of another dimension is then taken for a batch.

    ## Known limits
    Only where every size is a number it is sure that the sizes of the input are pinned: `x.view(-1, 512)` may fit a layer that
    wants 512 numbers. A row of numbers that `style.view(1, 3, 1, 1)` lines up with channels has as many by its meaning.
    Tensors that lost their batch, parameters and constants are left alone, and so is what a convolution takes for its weight
    (`F.conv2d(x, self.make(y).reshape(8, 3, 3, 3))`): its sizes are those of a layer.

    ## References
    - <https://github.com/apple/coremltools/issues/914>
    - <https://github.com/apple/coremltools/issues/1642>
    - <https://apple.github.io/coremltools/docs-guides/source/flexible-inputs.html>
    """

    code = "SHP004"
    name = "hard-coded-size"
    severity = Severity.WARNING
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.LITERAL_SIZES)
    only_modules = True
    only_forward = True
    fixable = "`-1`"
    advice = "Leave one size open with -1, or take sizes from `x.shape`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every reshaping that `forward` runs for its sizes."""
        if code.is_never_exported:
            return
        weights: set[int] | None = None
        for readings in code.calls:
            call = readings[0]
            sizes = call.literal_sizes
            # `p.view(1, 1, 1, 1)`: what has one element keeps it.
            if not sizes or all(map(_is_one, sizes)) or _is_vector(sizes):
                continue
            if call.function is None or call.function not in code.in_forward:
                continue
            if not all(map(_pins_batch, readings)) or code.is_for_loss_only(call.node, call.function):
                continue
            weights = _convolution_weights(code) if weights is None else weights
            if all(id(part) in weights for reading in readings for part in alternatives(reading.result)):
                continue
            edit = code.rewriter.replace(sizes[0], "-1")
            yield code.finding(
                self,
                call.node,
                f"`{call.method}` to sizes that are all written down: a model converted with a flexible input fails for other sizes",
                statement=call.statement,
                fix=Fix("Leave the first size open", (edit,), Applicability.UNSAFE),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Run the model at the bounds of its flexible sizes."""
        said = set()
        for failure in subject.resized_failures:
            method = (failure.function or failure.operator or "").replace("::", ".").rpartition(".")[2]
            sizes = failure.arguments[1:]
            if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
                sizes = tuple(sizes[0])
            if method not in ("view", "reshape", "expand") or not _is_written_out(sizes) or failure.place in said:
                continue
            said.add(failure.place)
            yield subject.finding(
                self,
                f"`{method}` to sizes that are all written down: a model converted with a flexible input fails for other sizes",
                at=failure.place,
                modules=[failure.module],
            )


def _convolution_weights(code: Code) -> set[int]:
    """Identity of the tensors that a convolution takes for its weight: their sizes are those of a layer, whatever they are made of."""
    given = (
        reading.arguments.get(1, "weight")
        for readings in code.calls
        for reading in readings
        if _CONVOLUTION.fullmatch(reading.name)
    )
    return {id(part) for value in given if value is not None for part in alternatives(value)}


_CONVOLUTION = re.compile(r"torch\.(?:nn\.functional\.)?conv(?:_transpose)?[123]d")


def _is_one(size: ast.expr) -> bool:
    return isinstance(size, ast.Constant) and size.value == 1


def _is_vector(sizes: list[ast.expr]) -> bool:
    """Whether one row of numbers is only lined up with a dimension of something else: `style.view(1, 3, 1, 1)`."""
    ones = [*map(_is_one, sizes)]
    return len(ones) > 2 and ones.count(False) == 1 and ones[0] and ones[-1]


def _pins_batch(call: Call) -> bool:
    if call.training or not call.exported or call.building or not call.name.startswith("torch."):
        return False
    tensor = call.receiver if call.receiver is not None else call.arguments.get(0, "input")
    parts = alternatives(tensor) if tensor is not None else ()
    return tensor is not None and all(
        isinstance(part, Tensor) and (part.certain or part.shown) and part.batch is True for part in parts
    )


def _is_written_out(value: Any) -> bool:
    """Whether sizes are numbers without exception, none of them left open."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return bool(parts) and all(type(part) is int and part >= 0 for part in parts)

"""NUM001: a number beyond float16 that meets a tensor."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, Tensor, Trigger, coreml, walk
from modellint_rules.numerics.conversion_precision import is_converted_in_float32
from modellint_rules.numerics.number_literals import (
    FACTOR,
    FILL,
    TERM,
    depends_on_data,
    is_float,
    name_of_number,
    number_uses,
)

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel
    from modellint_rules.numerics.number_literals import NumberUse


class Fp16OverflowLiteral(Rule):
    """A finite number beyond ±65504 that meets a tensor in `forward`.

    ## What it does
    Finds such numbers — `-1e9`, `torch.finfo(torch.float32).min`, `torch.finfo(x.dtype).min` — where tensors are filled with
    them (`masked_fill`, `where`, `full`, `-1e9 * ones_like(x)`, `x[mask] = …`), and where they are added to, subtracted from or
    multiplied by a tensor that depends on what the caller gives.

    ## Why
    A model is converted to float16 unless `--precision fp32` is set, and float16 ends at 65504. coremltools keeps the one
    operation that holds the number in float32, and casts its result: `-1e9` becomes minus infinity there. A row of
    attention scores that is masked as a whole then gives NaN from `softmax`, where PyTorch gives equal weights. From
    9.1.dev1 on, coremltools makes the largest float16 of numbers beyond 1e38, such as `torch.finfo(torch.float32).min`: with such a
    version (`coreml-version`; live checks ask the installed one) they are no finding.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Attention(nn.Module):
        def forward(self, scores, mask):
            scores = scores.masked_fill(mask == 0, -1e9)
            return scores.softmax(-1)


    inputs = (torch.randn(2, 4, 4), torch.ones(4, 4))
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Attention(nn.Module):
        def forward(self, scores, mask):
            scores = scores.masked_fill(mask == 0, -1e4)
            return scores.softmax(-1)


    inputs = (torch.randn(2, 4, 4), torch.ones(4, 4))
    ```

    ## Fix safety
    The fix writes 1e4 with the same sign where a mask is filled with the number, or multiplied by it. It is unsafe: the
    outputs change where scores are as large as that. Elsewhere there is no fix.

    ## Known limits
    `float("-inf")` is infinite on purpose and left alone, as are numbers that are compared with, divided by or clamped to, whole
    numbers that may meet whole numbers, and what the caller of the constructor may set, and so is a filled tensor that is only compared.
    With `--precision fp32` nothing is said, and what the file itself converts with `compute_precision=ct.precision.FLOAT32` is
    information.

    ## References
    - <https://github.com/apple/coremltools/issues/2669>
    - <https://github.com/apple/coremltools/issues/2506>
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    """

    code = "NUM001"
    name = "fp16-overflow-literal"
    severity = Severity.WARNING
    only_for = ("coreml",)
    only_inference = True
    live_needs = "run"
    needs = (Trigger.ABOVE_FLOAT16,)
    only_modules = True
    fixable = "a number that fits"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every number that meets a tensor for its size."""
        if code.destination.precision == "fp32" or code.is_training_only or not code.shows(Trigger.ABOVE_FLOAT16):
            return
        said: set[object] = set()
        for use in number_uses(code):
            numbers = use.known() or []
            if use.node in said or not _overflows(use, numbers) or _is_only_compared(code, use):
                continue
            if all(map(_is_lowest, numbers)) and not coreml.has_fault(_FAULT, code.destination.coremltools):
                continue
            name = name_of_number(code, use)
            if name is not None and name in said:
                continue
            said.update((use.node, name))
            shown = " ".join(code.rewriter.of(use.written).split()) if use.written is not None else f"{numbers[0]:g}"
            taken = (
                isinstance(use.node, ast.BinOp) and isinstance(use.node.op, ast.Sub) and use.written is use.node.right
            )
            becomes = "-inf" if (numbers[0] < 0) is not taken else "inf"
            in_float32 = is_converted_in_float32(code)
            yield code.finding(
                self,
                use.node,
                f"`{shown}` is beyond float16, which ends at 65504: what it makes of a tensor becomes {becomes} in Core ML",
                statement=use.statement,
                severity=Severity.INFO if in_float32 else None,
                fix=None if in_float32 else _fix(code, use, numbers),
                advice="Use a number within ±65504, or convert with `--precision fp32`",
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every number that meets a tensor in the run for its size."""
        from modellint.authoring import Reach

        run = subject.run
        if run is None or subject.destination.precision == "fp32":
            return
        data = Reach.of_values(run)
        for met in subject.scalar_operands:
            if (
                met.how not in (FILL, TERM, FACTOR)
                or not coreml.float16.largest < abs(met.number) < math.inf
                or "float" not in met.dtype
            ):
                continue
            if met.how == TERM and not subject.depends_on(met, data):
                continue
            if _is_lowest(met.number) and not coreml.has_fault(_FAULT, coreml.here()):
                continue
            becomes = "-inf" if met.number < 0 else "inf"
            yield subject.finding(
                self,
                f"{met.number:g} is beyond float16, which ends at 65504: what it makes of a tensor becomes {becomes} in Core ML",
                at=met.call.place,
                modules=[met.call.module],
                advice="Use a number within ±65504, or convert with `--precision fp32`",
            )


_FAULT = "lowest-mask"


def _is_lowest(number: float) -> bool:
    """Whether a number is of the size of float32's largest: coremltools makes float16's largest of it from 9.1.dev1 on."""
    return abs(number) >= 1e38


def _is_only_compared(code: Code, use: NumberUse) -> bool:
    """Whether a tensor that is filled with the number is only compared, with what float16 holds: infinity compares as it does."""
    compared = code.compared_with(use.node) if use.how == FILL and isinstance(use.node, ast.expr) else []
    return bool(compared) and not any(map(_is_large, compared))


def _is_large(node: ast.expr) -> bool:
    """Whether a number is written in an expression that is beyond float16, or that a type tells."""
    return any(
        (
            isinstance(part, ast.Constant)
            and isinstance(part.value, (int, float))
            and abs(part.value) > coreml.float16.largest
        )
        or (isinstance(part, ast.Attribute) and part.attr in ("min", "max"))
        for part in walk(node)
    )


def _overflows(use: NumberUse, numbers: list[int | float]) -> bool:
    if not all(coreml.float16.largest < abs(number) < math.inf for number in numbers):
        return False
    met = list(use.met())
    whole = any(type(number) is int for number in numbers)
    if use.how == FILL:
        return not whole or any(map(is_float, met))
    if use.how not in (TERM, FACTOR):
        return False
    others = [value for value in met if value not in use.numbers]
    if (
        others
        and not whole
        and all(isinstance(value, Tensor) and value.made_by in _FILLED[use.how] for value in others)
    ):
        # `-9e15 * torch.ones_like(x)` is a tensor full of it.
        return True
    return any(map(depends_on_data, others)) and (not whole or any(map(is_float, others)))


_FILLED = {
    FACTOR: frozenset({"ones", "ones_like", "new_ones"}),
    TERM: frozenset({"zeros", "zeros_like", "new_zeros"}),
}
"""What makes a tensor of the numbers that leave another as it is."""


def _fix(code: Code, use: NumberUse, numbers: list[int | float]) -> Fix | None:
    written = use.written
    negative = all(number < 0 for number in numbers)
    if use.how == TERM or (use.how == FACTOR and not negative) or not _is_literal(written) or written is None:
        return None
    edit = code.rewriter.replace(written, "-1e4" if negative else "1e4")
    title = "Write a number that float16 holds; outputs change where other numbers are as large as that"
    return Fix(title, (edit,), Applicability.UNSAFE)


def _is_literal(node: ast.expr | None) -> bool:
    """Whether an expression is a number as it is written, or asked of a type."""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_literal(inner)
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="finfo") | ast.Name(id="finfo"))):
            return True
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _is_literal(inner)
    return False

"""NUM006: a whole number outside of int32 that meets a tensor of whole numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity, Tensor, Trigger, alternatives, called_name, coreml
from modellint_rules.numerics.number_literals import FACTOR, FILL, FLOOR, TERM, depends_on_data, number_uses

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel
    from modellint_rules.numerics.number_literals import NumberUse


class IntOutsideInt32(Rule):
    """A whole number outside of int32 that meets a tensor of whole numbers in `forward`.

    ## What it does
    Finds whole numbers below -2147483648 or above 2147483647, and the limits of int64, with which tensors of whole numbers are
    filled, or which are added to, subtracted from or multiplied by such a tensor.

    ## Why
    Core ML has no int64: coremltools converts the model without a word and writes 2147483647 in the number's place.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Hash(nn.Module):
        def forward(self, ids):
            return ids.long() * 2654435761


    inputs = (torch.arange(4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Hash(nn.Module):
        def forward(self, ids):
            return ids.long() * 40503


    inputs = (torch.arange(4),)
    ```

    ## Fix safety
    There is no fix: what the number is for has to be done in another way.

    ## Known limits
    Whether a tensor holds whole numbers is told by what made it: `long()`, `argmax`, `arange` and the like, or a `dtype` that is
    written down. Numbers that are compared with are left alone: every int32 is on the same side of them.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    """

    code = "NUM006"
    name = "int-outside-int32"
    severity = Severity.ERROR
    advice = "Use a number that int32 holds"
    only_inference = True
    silent = ("trace", "export")
    live_needs = "run"
    needs = ("forward", Trigger.OUTSIDE_INT32)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every whole number that meets a tensor for its size."""
        if code.is_training_only or not code.shows(Trigger.OUTSIDE_INT32):
            return
        reported: set[ast.AST] = set()
        for use in number_uses(code):
            numbers = use.known() or []
            outside = all(
                type(number) is int and not coreml.int32.smallest <= number <= coreml.int32.largest
                for number in numbers
            )
            if outside and use.node not in reported and _is_whole(use):
                reported.add(use.node)
                yield code.finding(
                    self,
                    use.node,
                    f"{numbers[0]} is outside of int32: it becomes {_narrowed(numbers[0])} in Core ML, without a word",
                    statement=use.statement,
                    advice=_ADVICE,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every whole number that meets a tensor in the run for its size, and those that buffers hold."""
        run = subject.run
        if run is None:
            return
        for met in subject.scalar_operands:
            number = met.number
            if (
                met.how in (FILL, TERM, FACTOR)
                and type(number) is int
                and not coreml.int32.smallest <= number <= coreml.int32.largest
                and "int" in met.dtype
            ):
                yield subject.finding(
                    self,
                    f"{number} is outside of int32: it becomes {_narrowed(number)} in Core ML, without a word",
                    at=met.call.place,
                    modules=[met.call.module],
                    advice=_ADVICE,
                )
        read = subject.state_read if subject.has_values else frozenset()
        for state in subject.state:
            if str(state.tensor.dtype) != "torch.int64" or read.isdisjoint(state.names) or not state.tensor.numel():
                continue
            low, high = (int(end) for end in state.tensor.aminmax())
            if low < coreml.int32.smallest or high > coreml.int32.largest:
                number = high if high > coreml.int32.largest else low
                yield subject.finding(
                    self,
                    f"the {state.kind} `{state.attribute}` holds {number}, which is outside of int32: Core ML narrows it without a word",
                    modules=[name.rpartition(".")[0] for name in state.names],
                    **subject.binding(state.name).keywords(),
                )


def _narrowed(number: float) -> float:
    """What Core ML makes of a number outside of int32."""
    return coreml.int32.largest if number > 0 else coreml.int32.smallest


_ADVICE = "Write a number that int32 holds: where only the remainder of a division counts, the remainder of the number does too"


def _is_whole(use: NumberUse) -> bool:
    if use.how == FILL and isinstance(use.node, ast.Call):
        kind = next((word.value for word in use.node.keywords if word.arg == "dtype"), None)
        if kind is not None:
            return getattr(kind, "attr", "") in ("int64", "long")
        if called_name(use.node) in ("tensor", "full"):
            # Of a whole number they make whole numbers.
            return True
    met = [value for value in use.met() if value not in use.numbers]
    if use.how in (TERM, FACTOR, FLOOR) and not any(map(depends_on_data, met)):
        return False
    limits = [part for value in use.numbers for part in alternatives(value) if part.is_told_by_type]
    return bool(limits) or any(isinstance(part, Tensor) and _holds_ints(part) for part in met)


def _holds_ints(tensor: Tensor) -> bool:
    part: Tensor | None = tensor
    while part is not None:
        if part.made_by in _OF_INTS:
            return True
        if part.made_by in ("to", "type") and isinstance(part.node, ast.Call):
            arguments = [*part.node.args, *(word.value for word in part.node.keywords)]
            return any(getattr(argument, "attr", "") in ("int64", "long", "int32") for argument in arguments)
        if part.made_by in ("float", "half", "double"):
            return False
        part = part.base
    return False


_OF_INTS = frozenset(
    {"long", "int", "argmax", "argmin", "argsort", "nonzero", "bincount", "searchsorted", "bucketize", "count_nonzero"}
)

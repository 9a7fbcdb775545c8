"""SHP009: a squeeze that takes the batch away when it holds one sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Diagnostic,
    Fix,
    Instance,
    Rule,
    Severity,
    Tensor,
    alternatives,
    tensors_in,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class SqueezeWithoutDim(Rule):
    """A `squeeze` without a dimension, of a tensor that has a batch.

    ## What it does
    Finds `x.squeeze()` and `torch.squeeze(x)` where `forward` runs, for tensors that are made of its input. In a live run, those
    that dropped the batch of one sample, or more than one dimension.

    ## Why
    Without a dimension every dimension of size 1 goes. For a batch of one sample, which is what most models are traced and
    shipped with, the batch goes too, and what follows sees a tensor of another rank.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Score(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 1)

        def forward(self, x):
            return self.linear(x).squeeze()


    inputs = (torch.randn(1, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Score(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 1)

        def forward(self, x):
            return self.linear(x).squeeze(-1)


    inputs = (torch.randn(1, 8),)
    ```

    ## Fix safety
    The fix is unsafe: it names the dimensions that the class shows to have size 1, and another that happens to have size 1 stays
    then, the batch among them. Where none is shown there is no fix.

    ## Known limits
    A tensor whose first dimension was indexed or reduced before is left alone, and so is one that is handed to a loss, and code
    that runs in training only. Parameters, buffers and constants have no batch.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.squeeze.html>
    """

    code = "SHP009"
    name = "squeeze-without-dim"
    severity = Severity.INFO
    only_inference = True
    only_modules = True
    only_forward = True
    needs = (frozenset({".squeeze", "~squeeze"}),)
    fixable = "name the dimension"
    advice = "Name the dimension: `squeeze(-1)`"
    live_needs = "run"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every squeeze for its dimension."""
        for_losses: set[int] | None = None
        for readings in code.calls:
            call = readings[0]
            if call.method != "squeeze" or call.function not in code.in_forward:
                continue
            if not all(map(_drops_batch, readings)):
                continue
            if for_losses is None:
                for_losses = _for_losses(code)
            if not any(id(part) in for_losses for part in tensors_in([reading.result for reading in readings])):
                yield code.finding(
                    self,
                    call.node,
                    "`squeeze()` drops the batch, too, when it holds one sample: what follows gets a tensor of another rank",
                    fix=_fix(code, readings),
                    statement=call.statement,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every squeeze of the run what it dropped."""
        from modellint.authoring import Reach

        run = subject.run
        if run is None:
            return
        reach = Reach.of_inputs(run)
        single = any(fact.rank > 1 and fact.shape[0] == 1 for fact in subject.input_facts)
        for call in run.calls:
            if call.name not in ("torch.Tensor.squeeze", "torch.squeeze") or len(call.arguments) != 1 or call.keywords:
                continue
            tensor = call.arguments[0]
            if tensor not in reach:
                continue
            dropped = [dim for dim, size in enumerate(tensor.shape) if size == 1]
            message = None
            if single and dropped[:1] == [0] and tensor.rank > 1:
                message = "`squeeze()` drops the batch, too, when it holds one sample: what follows gets a tensor of another rank"
            elif len(dropped) > 1:
                message = f"`squeeze()` drops {len(dropped)} dimensions at once: whichever has size 1"
            if message is not None:
                yield subject.finding(self, message, at=call.place, modules=[call.module])


def _subject(call: Call) -> tuple[Tensor, ...]:
    """The tensor that is squeezed, whatever its size, as each of the values that it may be."""
    arguments = call.arguments
    if arguments.spread or arguments.keywords:
        return ()
    match call.name, arguments.positional:
        case "torch.Tensor.squeeze", []:
            value = call.receiver
        case "torch.squeeze", [value]:
            pass
        case _:
            return ()
    parts = alternatives(value) if value is not None else ()
    known = tuple(part for part in parts if isinstance(part, Tensor))
    return known if len(known) == len(parts) else ()


def _drops_batch(call: Call) -> bool:
    tensors = _subject(call)
    return bool(tensors) and not call.training and all(tensor.batch and _may_be_one(tensor) for tensor in tensors)


def _may_be_one(tensor: Tensor) -> bool:
    """Whether there is a first dimension, and its size is not known."""
    if tensor.made_by in ("nonzero", "argwhere"):
        return False
    return tensor.layout is None or (bool(tensor.layout.axes) and tensor.layout.axes[0].size.value in (None, 1))


def _for_losses(code: Code) -> set[int]:
    """Tensors that a loss is given: of one sample it is the same either way."""
    identities: set[int] = set()
    for readings in code.calls:
        for call in readings:
            for callee in alternatives(call.callee):
                name = callee.name if isinstance(callee, Instance) else call.name or call.method
                if "loss" in name.lower() or name.endswith("cross_entropy"):
                    identities.update(id(tensor) for tensor in tensors_in(call.arguments.everything()))
    return identities


def _fix(code: Code, readings: list[Call]) -> Fix | None:
    """Name the dimensions that are sure to have size 1, where it is the same ones in every reading."""
    call = readings[0]
    dims_of_readings = {tuple(_ones(tensor)) for reading in readings for tensor in _subject(reading)}
    dims = next(iter(dims_of_readings)) if len(dims_of_readings) == 1 else ()
    if not dims or (call.receiver is None and len(dims) > 1):
        return None
    first, *others = dims
    edits = [code.rewriter.add_argument(call.node, str(first))]
    if others:
        rest = "".join(f".squeeze({dim})" for dim in others)
        edits.append(code.rewriter.insert(code.rewriter.end(call.node), rest))
    title = "Name the dimensions that have size 1; outputs change where another has that size, which stays then"
    return Fix(title, tuple(edits), Applicability.UNSAFE)


def _ones(tensor: Tensor) -> Iterator[int]:
    """The dimensions behind the first that are sure to have size 1, from the front, counted from the end."""
    layout = tensor.layout
    if layout is None:
        return
    for dim in range(1 - len(layout.axes), 0):
        if any(axis.block for axis in layout.axes[dim:]):
            continue
        if layout.axes[dim].is_one:
            yield dim

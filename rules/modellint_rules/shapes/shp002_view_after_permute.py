"""SHP002: a view that merges dimensions which do not lie behind each other in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, Trigger, operators

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveCall, LiveModel, TensorFact

_MOVING_ATTRIBUTES = (".T", ".mT", ".H", ".mH")
_COPYING = frozenset(
    {"torch.Tensor.contiguous", "torch.Tensor.reshape", "torch.reshape", "torch.Tensor.flatten", "torch.flatten"}
)


class ViewAfterPermute(Rule):
    """A `view` of a permuted or expanded tensor that merges dimensions which do not lie behind each other in memory.

    ## What it does
    Finds `.view(...)` on the result of `transpose`, `permute`, `t`, `T`, `mT`, `swapaxes`, `movedim`, `expand`,
    `Tensor.unfold`, `einsum`, an index or a slice, through local variables too, where the new shape merges dimensions whose
    strides do not nest. A live run finds the views that are refused; those that are legal only because a dimension of size 1 lies
    between are an info then.

    ## Why
    Such a view raises "view size is not compatible with input tensor's size and stride", or does so as soon as a dimension that
    happened to be 1 has another size. A view that only splits a dimension, or merges dimensions that are still adjacent, is legal
    and is not reported.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Heads(nn.Module):
        def forward(self, x):
            batch, heads, length, width = x.shape
            return x.transpose(1, 2).view(batch, length, heads * width)


    inputs = (torch.randn(2, 3, 4, 5),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Heads(nn.Module):
        def forward(self, x):
            batch, heads, length, width = x.shape
            return x.transpose(1, 2).reshape(batch, length, heads * width)


    inputs = (torch.randn(2, 3, 4, 5),)
    ```

    ## Fix safety
    The fix is safe: `reshape` gives what `view` gives wherever `view` does not raise.

    ## Known limits
    Arguments, and what a call returns that is not followed, are taken to be contiguous. What operators of unknown layout return is
    not judged. Nor is a view that is legal with an argument of the constructor at its default of 1, `heads=1`, whoever gives another.
    A live run takes back what was found in source where the statement ran and every view there was legal, whatever the sizes.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.view.html>
    """

    code = "SHP002"
    name = "view-after-permute"
    severity = Severity.WARNING
    only_inference = True
    needs = (
        frozenset({".view", ".view_as"}),
        frozenset(
            {
                *("." + name for name in operators.permuting),
                *("~" + name for name in operators.permuting),
                *_MOVING_ATTRIBUTES,
                Trigger.SLICE_STEP,
                Trigger.PARTIAL_INDEX,
            }
        ),
    )
    fixable = "`reshape`"
    advice = "Use `reshape`, which copies where it has to"
    live_needs = "run"
    withdraws = True
    supersedes = ("LNT003", "SHP008")

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every view whether it raises."""
        for readings in code.calls:
            call = readings[0]
            if call.method not in ("view", "view_as") or call.receiver is None:
                continue
            if any(reading.refused for reading in readings):
                edit = code.rewriter.rename_method(call.node, {"view": "reshape", "view_as": "reshape_as"}[call.method])
                yield code.finding(
                    self,
                    call.node,
                    "the view merges dimensions that a permutation has taken apart in memory: it raises",
                    fix=Fix("Use `reshape`, which copies where it has to", (edit,)),
                    statement=call.statement,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every view of the run whether it was refused, or only just legal."""
        run = subject.run
        if run is None:
            return
        # What `contiguous()` returns has any order where all but one dimension have size 1: it would copy for other sizes.
        ordered = {call.outputs[0].tensor for call in run.calls if call.outputs and call.name in _COPYING}
        for call in run.calls:
            if call.refused is not None:
                message = "the view merges dimensions that a permutation has taken apart in memory: it raises"
                yield subject.finding(self, message, at=call.place, modules=[call.module])
            elif _is_lucky(call) and call.arguments[0].tensor not in ordered:
                yield subject.finding(
                    self,
                    "the view raises as soon as a dimension that has size 1 here has another size",
                    at=call.place,
                    severity=Severity.INFO,
                    modules=[call.module],
                )
        # A run on real tensors ends at the first view that is refused.
        failure = run.failure
        if failure is not None and failure.message.startswith("view size is not compatible"):
            message = "the view merges dimensions that a permutation has taken apart in memory: it raises"
            yield subject.finding(self, message, at=failure.place, modules=[failure.module])


def _is_lucky(call: LiveCall) -> bool:
    """Whether a view of permuted memory is legal only because a dimension that it merges has size 1."""
    if call.name not in ("torch.Tensor.view", "torch.Tensor.view_as") or not call.arguments or not call.outputs:
        return False
    source, result = call.arguments[0], call.outputs[0]
    if not hasattr(source, "strides") or len(source.strides) != source.rank:
        return False
    strides = [stride for stride in source.strides if stride]
    if 1 not in source.shape or strides == sorted(strides, reverse=True):
        return False
    return any(_does_not_nest(source, group) for group in _merged(source.shape, result.shape))


def _does_not_nest(source: TensorFact, group: range) -> bool:
    return any(source.strides[dim] != source.shape[dim + 1] * source.strides[dim + 1] for dim in group[:-1])


def _merged(old: Sequence[int], new: Sequence[int]) -> Iterator[range]:
    """The runs of dimensions of the old shape that the new one merges or splits together."""
    start = first = 0
    while start < len(old) and first < len(new):
        end, last = start + 1, first + 1
        left, right = old[start], new[first]
        while left != right:
            if left < right and end < len(old):
                left *= old[end]
                end += 1
            elif right < left and last < len(new):
                right *= new[last]
                last += 1
            else:
                return
        if last == len(new) and all(size == 1 for size in old[end:]):
            end = len(old)
        yield range(start, end)
        start, first = end, last

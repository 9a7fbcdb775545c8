"""MUT009: a running statistic that keeps the graph of every step alive."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, Tensor, Trigger, Value, alternatives, walk
from modellint_rules.mutation.running_statistics import is_first_value, updates

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write
    from modellint_rules.mutation.running_statistics import Update


class BufferKeepsGraph(Rule):
    """A running statistic in a buffer that keeps the graph of every step alive.

    ## What it does
    Finds buffers that `forward` updates from their old value and from tensors that carry a graph, with neither `torch.no_grad()`
    nor `.detach()`.

    ## Why
    The new value hangs on the graph of this step, and through the old value on those of all steps before: memory grows with each
    step, or `backward()` raises "Trying to backward through the graph a second time". `copy.deepcopy` of the module raises too.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            if self.training:
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
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
                self.mean = 0.9 * self.mean.detach() + 0.1 * x.mean(0)
            return x - self.mean


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    The fix is safe: values stay, and so does the gradient of the step, which may be meant; the graphs of earlier steps are let
    go. There is no fix for updates in place: put a new tensor in the place of the old one, or detach what is added.

    ## Known limits
    What a call returns that is not followed is not known to carry a graph; buffers that a base class in another file registers
    are not known. An element that is set anew where a comparison of its old value says so (`if self.scale[0] < 0:`) is left alone, as
    that may hold once only. A cache that evaluation writes to as well is MUT005's.

    ## References
    - <https://pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory>
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.detach.html>
    """

    code = "MUT009"
    name = "buffer-keeps-graph"
    severity = Severity.WARNING
    live_needs = "values run"
    needs = (frozenset({"register_buffer", "Buffer"}), "forward", Trigger.CHANGES_STATE)
    only_modules = True
    only_forward = True
    fixable = "detach the old value"
    advice = "Detach the old value on the right-hand side"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every update of a running statistic what its new value hangs on."""
        for update in updates(code):
            if not all(_keeps_graph(reading) for reading in update.readings):
                continue
            if is_first_value(code, update):
                continue
            if not update.in_place and all(_is_let_go(code, update, old) for old in update.old):
                continue
            yield code.finding(
                self,
                update.write.statement,
                f"`self.{update.attribute}` is updated from tensors that need gradients: it keeps the graph of every step alive",
                attribute=update.attribute,
                fix=_fix(code, update),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Run the model in training mode, and look at what its buffers hold then; a cache is MUT005's."""
        others = {
            (path, change.attribute)
            for change in subject.state_changes
            if change.in_place and not (change.of_data and change.of_old and change.is_statistic)
            for path in change.paths
        }
        for kept in subject.kept_graphs:
            if any((path, kept.attribute) in others for path in kept.entry.paths):
                continue
            yield subject.finding(
                self,
                f"`self.{kept.attribute}` is updated from tensors that need gradients: it keeps the graph of every step alive",
                at=kept.place,
                modules=kept.entry.paths,
                class_name=subject.class_of(kept.entry.path, kept.attribute),
                attribute=kept.attribute,
            )


def _keeps_graph(write: Write) -> bool:
    if write.quiet or write.how == "data" or any(_is_detached(part) for part in alternatives(write.target)):
        return False
    tensors = [part for part in alternatives(write.value) if isinstance(part, Tensor)]
    return bool(tensors) and all(part.grad is True for part in tensors)


def _is_detached(value: Value) -> bool:
    part: Value | None = value
    while isinstance(part, Tensor):
        if part.made_by in ("data", "detach"):
            return True
        part = part.base
    return False


def _is_let_go(code: Code, update: Update, old: ast.Attribute) -> bool:
    """Whether the old value is read as `self.b.detach()`."""
    return any(
        isinstance(node, ast.Attribute) and node.value is old and node.attr in ("detach", "data", "clone")
        for node in walk(update.value)
    )


def _fix(code: Code, update: Update) -> Fix | None:
    if update.in_place or not update.old:
        return None
    edits = tuple(
        code.rewriter.insert(code.rewriter.end(old), ".detach()")
        for old in update.old
        if not _is_let_go(code, update, old)
    )
    return Fix("Detach the old value", edits)

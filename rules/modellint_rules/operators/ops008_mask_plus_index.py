"""OPS008: a mask and a tensor of indices in one pair of brackets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Container, Diagnostic, Rule, Severity, Tensor, Trigger, Value, alternatives, is_mask

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Operator


class MaskPlusIndex(Rule):
    """Indexing with a Boolean mask and a tensor of indices at once, `x[mask, j]`.

    ## What it does
    Finds indexing, in the run and in what `forward` runs in source, in which one index is a Boolean (or uint8) tensor and another
    a tensor or list of integers.

    ## Why
    coremltools converts a traced `x[mask, j]` without a word into `x[mask]`. `torch.export` cannot capture it.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Pick(nn.Module):
        def forward(self, x, j):
            return x[x[:, 0] > 0, j]


    inputs = (torch.ones(2, 4), torch.tensor([0, 3]))
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Pick(nn.Module):
        def forward(self, x, j):
            return x[(x[:, 0] > 0).nonzero()[:, 0], j]


    inputs = (torch.ones(2, 4), torch.tensor([0, 3]))
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    In source both have to be told for what they are, by what made them, an annotation, or the name of a mask. A mask with
    numbers and slices (`x[mask, 0]`, `x[mask, 1:]`) and several masks convert as they should; assignment to `x[mask, j]` is
    refused, which is another rule's business.

    ## References
    - <https://github.com/apple/coremltools/issues/2141>
    - <https://pytorch.org/docs/stable/tensor_view.html>
    """

    code = "OPS008"
    name = "mask-plus-index"
    severity = Severity.ERROR
    only_inference = True
    silent = ("trace", "export")
    live_needs = "run"
    needs = ("forward", Trigger.SEVERAL_INDICES)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask everything that `forward` indexes for the types of its indices."""
        if code.is_never_exported:
            return
        for readings in code.operations:
            node, function = readings[0].node, readings[0].function
            if not isinstance(node, ast.Subscript) or function not in code.in_forward:
                continue
            if all(not each.aside and _is_given(each.operands[0]) and _mixes(each.index) for each in readings):
                yield code.finding(
                    self,
                    node,
                    "a mask and a tensor of indices at once: the converted program leaves the indices out",
                    statement=code.statement_of(node, function),
                    advice="Write `x[mask.nonzero()[:, 0], j]`",
                    operator="aten::index",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask everything that is indexed for the types of its indices."""
        run = subject.run
        for operator in () if run is None else run.operators:
            if operator.name == "aten::index" and _is_mixed(operator):
                yield subject.finding(
                    self,
                    "a mask and a tensor of indices at once: the converted program leaves the indices out",
                    at=operator.place,
                    modules=[operator.module],
                    operator=operator.name,
                    advice="Write `x[mask.nonzero()[:, 0], j]`",
                )


def _is_mixed(operator: Operator) -> bool:
    indices = [index for index in operator.arguments[1] if index is not None]
    masks = [index for index in indices if index.dtype in ("bool", "uint8")]
    return bool(masks) and any(index.rank for index in indices if index not in masks)


_MASK = r"(?:^|_)masks?(?:_|$)|^(?:is|has|valid|keep)(?:_|$)|valid$|keep$"


def _mixes(index: tuple[Value, ...]) -> bool:
    masks = [value for value in index if all(map(_is_mask, alternatives(value)))]
    others = [value for value in index if value not in masks]
    return bool(masks) and any(all(map(_is_indices, alternatives(value))) for value in others)


def _is_mask(value: Value) -> bool:
    if is_mask(value):
        return True
    return (
        _is_given(value) and isinstance(value, Tensor) and value.name != "" and re.search(_MASK, value.name) is not None
    )


def _is_given(value: Value) -> bool:
    """Whether it is a tensor, or what the caller has to give."""
    return value.is_tensor or (isinstance(value, Tensor) and value.origin == "argument")


def _is_indices(value: Value) -> bool:
    if isinstance(value, Container):
        return value.kind == "list" and bool(value.items)
    if not isinstance(value, Tensor) or not _is_given(value) or value.rank == 0 or _is_mask(value):
        return False
    # What is neither computed here nor said to be whole numbers may be a mask by another name.
    return value.made_by in _OF_INTS or (value.origin == "argument" and not re.search(_MASK, value.name))


_OF_INTS = frozenset(
    {"long", "int", "argmax", "argmin", "argsort", "arange", "nonzero", "randperm", "searchsorted", "bucketize"}
)

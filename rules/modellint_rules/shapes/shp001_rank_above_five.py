"""SHP001: a tensor of more than five dimensions, which Core ML does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Diagnostic, Rule, Severity, Tensor, Trigger, operators, tensors_in

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel

_LIMIT = 5
_RESHAPES = frozenset({"view", "reshape", "view_as", "reshape_as", "unflatten"})
_MOVES = frozenset({"permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis"})
_GROWS = frozenset({"unsqueeze", "stack", "unfold", "repeat", "tile", "expand", "expand_as"})
_MAKERS = _RESHAPES | _MOVES | _GROWS | {"einsum"}
_NOTHING = frozenset(
    {"to", "float", "half", "double", "bfloat16", "type", "type_as", "cuda", "cpu", "conj", "requires_grad_"}
    | {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"}
)
"""Operators that a conversion leaves out, or may leave out."""
_STAYS = (
    frozenset(
        {"unsqueeze", "squeeze", "select", "narrow", "unbind", "chunk", "split", "cat", "stack", "matmul", "linear"}
    )
    | (operators.reductions | operators.broadcasting | operators.element_wise) - _NOTHING
)
"""Operators that need their tensor as it is."""


class RankAboveFive(Rule):
    """A tensor of six or more dimensions, made where `forward` runs.

    ## What it does
    Finds `view`, `reshape`, `permute`, `unsqueeze`, `expand`, `stack`, `einsum` and their like, and subscripts with `None`, whose result
    depends on the input and has more than five dimensions.

    ## Why
    A Core ML tensor has at most five dimensions: coremltools 9.0 stops with "Core ML only supports tensors with rank <= 5", by
    `torch.jit.trace` and `torch.export` alike. One shape is rescued: `reshape`, then any number of `permute` and `transpose`,
    then `reshape`, each result used once and every size fixed; coremltools makes such a chain of an `einsum`, too. It
    is an information, not an error: it stops converting as soon as a size is flexible, or one of its tensors is used twice.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Pool(nn.Module):
        def forward(self, x):
            batch, channels, height, width = x.shape
            return x.view(batch, channels, height // 2, 2, width // 2, 2).amax(dim=(3, 5))


    inputs = (torch.randn(1, 3, 8, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Pool(nn.Module):
        def forward(self, x):
            batch, channels, height, width = x.shape
            x = x.reshape(batch * channels, height // 2, 2, width // 2, 2)
            return x.amax(dim=(2, 4)).reshape(batch, channels, height // 2, width // 2)


    inputs = (torch.randn(1, 3, 8, 8),)
    ```

    ## Fix safety
    There is no fix: dimensions that belong together, such as batch and channels, have to be merged by hand.

    ## Known limits
    A tensor whose rank the class does not show is not judged. A chain that leaves the function, or enters a module that is not
    followed, is taken for one that is rescued, and so is one with a tensor that two chains use. Tensors of constants alone are
    computed before the conversion and are free.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/faqs.html>
    - <https://github.com/apple/coremltools/issues/1461>
    - <https://github.com/apple/coremltools/issues/1723>
    """

    code = "SHP001"
    name = "rank-above-five"
    severity = Severity.ERROR
    only_for = ("coreml",)
    advice = "Merge dimensions by `reshape` before, and part them behind"
    only_inference = True
    live_needs = "conversion"
    withdraws = True
    needs = (
        frozenset({*("." + name for name in _MAKERS), *("~" + name for name in _MAKERS), Trigger.NONE_INDEX}),
        Trigger.HIGH_RANK,
    )
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask what is made for its rank, and then what is done with it."""
        makers: dict[ast.expr, list[Tensor]] = {}
        statements: dict[ast.expr, ast.stmt] = {}
        for calls in code.calls:
            results = [wide for call in calls for wide in _wide(tensors_in([call.result]))]
            if calls[0].method in _MAKERS and calls[0].function in code.in_forward and all(map(_makes_wide, calls)):
                if all(map(_is_for_another_rank, calls)):
                    continue
                makers[calls[0].node] = results
                statements[calls[0].node] = calls[0].statement
        for operations in code.operations:
            node = operations[0].node
            wide = [_wide(tensors_in([operation.result])) for operation in operations]
            if isinstance(node, ast.Subscript) and operations[0].function in code.in_forward and all(wide):
                grown = [not _wide(tensors_in(operation.operands)) for operation in operations]
                if all(grown):
                    makers[node] = [tensor for group in wide for tensor in group]
        if not makers:
            return
        stuck = _stuck(code)
        for node, results in makers.items():
            if any(inner is not node and inner in makers for inner in _receivers(node)):
                continue
            rank = min(tensor.rank or 0 for tensor in results)
            if isinstance(node, ast.Subscript) or any(id(_origin(tensor)) in stuck for tensor in results):
                severity, rest = Severity.ERROR, "Core ML has at most five"
            else:
                severity, rest = (
                    Severity.INFO,
                    "Core ML has at most five, and only fixed sizes let the converter merge them",
                )
            yield code.finding(
                self,
                node,
                f"the result has {rank} dimensions: {rest}",
                severity=severity,
                statement=statements.get(node),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the dry run where dimensions begin that coremltools' passes do not merge."""
        for blocker, _ in subject.blockers("rank"):
            yield subject.finding(
                self, blocker.message, at=blocker.place, modules=blocker.modules, operator=blocker.operator
            )


def _is_for_another_rank(call: Call) -> bool:
    """Whether a call stands under a condition that its tensor has another rank than it has: `if x.dim() == 4:`."""
    rank = call.rank_demanded
    return rank is not None and isinstance(call.receiver, Tensor) and call.receiver.rank not in (None, rank)


def _is_wide(tensor: Tensor) -> bool:
    """Whether a tensor that depends on the input has too many dimensions."""
    return tensor.batch is not None and (tensor.rank or 0) > _LIMIT


def _wide(values: list[Tensor]) -> list[Tensor]:
    return [tensor for tensor in values if _is_wide(tensor)]


def _makes_wide(call: Call) -> bool:
    results = tensors_in([call.result])
    return bool(results) and all(map(_is_wide, results))


def _origin(tensor: Tensor) -> Tensor:
    """The tensor at the head of a chain of views of too many dimensions."""
    while tensor.base is not None and _is_wide(tensor.base):
        tensor = tensor.base
    return tensor


def _stuck(code: Code) -> set[int]:
    """Heads of chains of views of which some tensor is used for more than permutes and reshapes."""
    stuck: set[int] = set()
    merged = _merged(code)
    for calls in code.calls:
        if not all(call.name.startswith("torch.") for call in calls):
            continue
        uses = [_wide(_used(call)) for call in calls]
        method = calls[0].method
        if all(uses) and (method in _STAYS or (method in _GROWS and all(_grows(call) for call in calls))):
            stuck.update(id(_origin(tensor)) for group in uses for tensor in group)
        if method in _GROWS and all(_grows(call) for call in calls):
            grown = (tensor for call in calls for tensor in _wide(tensors_in([call.result])))
            stuck.update(id(_origin(tensor)) for tensor in grown if method != "stack" or id(tensor) not in merged)
    for operations in code.operations:
        if isinstance(operations[0].node, ast.Attribute):
            # `x.mT` lays out anew.
            continue
        uses = [_wide(tensors_in(operation.operands)) for operation in operations]
        if all(uses):
            stuck.update(id(_origin(tensor)) for group in uses for tensor in group)
    for value in code.returned:
        stuck.update(id(_origin(tensor)) for tensor in _wide(tensors_in([value])))
    return stuck


def _merged(code: Code) -> set[int]:
    """What is stacked, and reshaped so that the new dimension joins a neighbour: coremltools' `replace_stack_reshape` concatenates it."""
    stacked: dict[int, int] = {}
    for calls in code.calls:
        for call in calls if calls[0].method == "stack" else ():
            dim = call.arguments.get(1, "dim")
            at = 0 if dim is None else dim.value if isinstance(dim, Const) else None
            if isinstance(at, int):
                stacked.update((id(tensor), at % (tensor.rank or 1)) for tensor in _wide(tensors_in([call.result])))
    if not stacked:
        return set()
    return {
        id(receiver)
        for calls in code.calls
        if calls[0].method in ("reshape", "view")
        for call in calls
        for receiver in tensors_in([call.receiver] if call.receiver is not None else [])
        if id(receiver) in stacked
        for result in tensors_in([call.result])
        if _joins(receiver, result, stacked[id(receiver)])
    }


def _joins(tensor: Tensor, result: Tensor, at: int) -> bool:
    """Whether a reshape multiplies the size of one dimension with that of the one before or behind it, and leaves the others."""
    sizes = tensor.layout.sizes if tensor.layout is not None else None
    joined = result.layout.sizes if result.layout is not None else None
    return sizes is not None and any(
        [*sizes[:left], sizes[left] * sizes[left + 1], *sizes[left + 2 :]] == joined
        for left in (at - 1, at)
        if 0 <= left < len(sizes) - 1
    )


def _used(call: Call) -> list[Tensor]:
    return tensors_in([*([] if call.receiver is None else [call.receiver]), *call.arguments.everything()])


def _grows(call: Call) -> bool:
    """Whether a call does more than lay out anew: an `expand` to the sizes that there are does not."""
    return not call.method.startswith("expand") or any(
        axis.stride is not None and axis.stride.value == 0
        for tensor in tensors_in([call.result])
        if tensor.layout is not None
        for axis in tensor.layout.axes
    )


def _receivers(node: ast.expr) -> Iterator[ast.expr]:
    """The calls and subscripts that a call is chained to."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return
        yield node

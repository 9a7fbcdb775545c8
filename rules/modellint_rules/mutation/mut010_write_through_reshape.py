"""MUT010: an in-place write to what may be a copy or may be a view."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Diagnostic,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    called_name,
    of_kind,
    operators,
    walk,
)
from modellint_rules.mutation.shared_memory import bases, copying

if TYPE_CHECKING:
    from modellint.authoring import Code, Write


class WriteThroughReshape(Rule):
    """An in-place write to the result of `reshape`, `flatten` or `contiguous`, which may or may not be a copy.

    ## What it does
    Finds in-place operations on what `reshape`, `flatten`, `ravel` or `contiguous` gave, where the tensor before it is an
    argument, belongs to the module, or is read afterwards.

    ## Why
    These operators return a view where the strides allow one, and a copy where they do not. The write reaches the original or
    is lost, as sizes and memory layout happen to be. A converted model may decide otherwise than PyTorch did.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            z = y.t().reshape(-1)
            z.add_(1)
            return y + z.sum()
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            z = y.t().reshape(-1)
            z = z + 1
            return y + z.sum()
    ```

    ## Fix safety
    There is no fix: whether the original is meant to change is the author's to say. `z = z + 1` leaves it alone;
    `y.view(-1).add_(1)` changes it, or raises.

    ## Known limits
    A tensor whose memory nothing else reads is left alone, as is what is copied but for sizes of 1 (`x[..., :-2].contiguous()`), what
    took the name of the argument before it and is read afterwards (`x = x.flatten(1)`) too, and so are views that are certain. Of
    `reshape`, only what gives fewer dimensions counts: it merges some.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.reshape.html>
    - <https://pytorch.org/docs/stable/tensor_view.html>
    """

    code = "MUT010"
    name = "write-through-reshape"
    severity = Severity.WARNING
    advice = "Write to the tensor itself, or go on with the result that was written to"
    only_inference = True
    needs = (frozenset(mark + name for name in operators.copying for mark in ".~"), Trigger.WRITES_IN_PLACE)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every write in place what it writes to."""
        for readings in code.writes:
            if readings[0].how == "attribute":
                continue
            operators = [self._operator(code, write) for write in readings]
            if all(operators):
                write = readings[0]
                yield code.finding(
                    self,
                    write.statement,
                    f"`{operators[0]}` gives a view or a copy, as the memory layout has it: this write reaches the original, or is lost",
                    statement=write.statement,
                )

    def _operator(self, code: Code, write: Write) -> str:
        """The operator whose result is written to, where it matters whether that is a copy; else nothing."""
        names = {_matters(code, write, part) for part in alternatives(write.target)}
        return names.pop() if len(names) == 1 else ""


def _matters(code: Code, write: Write, target: object) -> str:
    if not isinstance(target, Tensor) or not (target.certain or code.ref is not None):
        return ""
    copy = next(iter(copying(target)), None)
    if copy is None or copy.base is None:
        return ""
    source = copy.base
    if any(part.kind in ("parameter", "buffer") for part in bases(source)):
        return copy.made_by
    results = [part for value in alternatives(write.target) if isinstance(value, Tensor) for part in copying(value)]
    own = {name for name, value in write.sharing if any(part in results for part in bases(value))}
    others = {
        name for name, value in write.sharing if value.root is source.root and not any(map(_is_of_a_cut, bases(value)))
    } - own
    if any(write.is_read_later(name) for name in others):
        return copy.made_by
    if _is_of_a_cut(copy):
        return ""
    if (
        copy.made_by == "contiguous"
        and source.layout is not None
        and source.layout.rank
        and not source.layout.is_contiguous
    ):
        # What a permutation laid out anew is copied, but for sizes of 1.
        return ""
    given = any(part.origin == "argument" for part in bases(source))
    return copy.made_by if given and not _is_renamed(code, write, copy, own) else ""


def _is_of_a_cut(tensor: Tensor) -> bool:
    """Whether `contiguous` copied a tensor: its last dimension was cut (`x[..., :-2]`), and only sizes of 1 before it would hide that."""
    source = tensor.base
    if tensor.made_by != "contiguous" or source is None or not isinstance(source.node, ast.Subscript):
        return False
    index = source.node.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    rank = source.layout.rank if source.layout is not None else None
    if len(parts) < 2 or rank == 1 or not isinstance(last := parts[-1], ast.Slice):
        return False
    is_last = any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in parts) or (
        len(parts) == rank and all(isinstance(part, ast.Slice) for part in parts)
    )
    return is_last and (_counts_back(last.upper) or _counts_back(last.lower) or _is_behind_the_first(last.lower))


def _counts_back(bound: ast.expr | None) -> bool:
    return isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)


def _is_behind_the_first(bound: ast.expr | None) -> bool:
    return isinstance(bound, ast.Constant) and isinstance(bound.value, int) and bound.value > 0


def _is_renamed(code: Code, write: Write, copy: Tensor, own: set[str]) -> bool:
    """Whether the result took the name of what was given (`x = x.flatten(1)`) and is read afterwards, and no caller reads that again."""
    function = write.function
    names = {
        target.id
        for part in (of_kind(function, ast.Assign) if function is not None else ())
        for target in part.targets
        if isinstance(target, ast.Name) and copy.node in walk(part.value) and _names(part.value, target.id)
    }
    if not any(write.is_read_later(name) for name in names & own):
        return False
    name = getattr(function, "name", "")
    calls = (readings[0] for readings in code.calls if called_name(readings[0].node) == name)
    return not any(
        isinstance(part, ast.Name) and call.is_read_later(part.id) for call in calls for part in walk(call.node)
    )


def _names(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in walk(node))

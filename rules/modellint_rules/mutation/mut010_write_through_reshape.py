"""MUT010: an in-place write to what may be a copy or may be a view."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule
from modellint.source.nodes import walk
from modellint.source.signs import THROUGH
from modellint.source.signs.copies import EITHER
from modellint.source.tensors import Tensor
from modellint.source.values import alternatives

if TYPE_CHECKING:
    from modellint.source.code import Code
    from modellint.source.records import Write


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
    A tensor whose memory nothing else reads is left alone, and so are views that are certain. Of `reshape`, only what gives fewer
    dimensions counts: it merges some.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.reshape.html>
    - <https://pytorch.org/docs/stable/tensor_view.html>
    """

    code = "MUT010"
    name = "write-through-reshape"
    severity = Severity.WARNING
    needs = (frozenset("." + name for name in EITHER) | frozenset("~" + name for name in EITHER), frozenset({THROUGH}))

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every write in place what it writes to."""
        for readings in code.writes:
            if readings[0].how == "attribute":
                continue
            found = [self._operator(code, write) for write in readings]
            if all(found):
                write = readings[0]
                yield code.finding(
                    self,
                    write.statement,
                    f"`{found[0]}` gives a view or a copy, as the memory layout has it: this write reaches the original, or is lost",
                    statement=write.statement,
                )

    def _operator(self, code: Code, write: Write) -> str:
        """The operator whose result is written to, where it matters whether that is a copy; else nothing."""
        names = {_matters(code, write, part) for part in alternatives(write.target)}
        return names.pop() if len(names) == 1 else ""


def _matters(code: Code, write: Write, target: object) -> str:
    if not isinstance(target, Tensor) or not (target.certain or code.ref is not None):
        return ""
    made = next(iter(_copying(target)), None)
    if made is None or made.base is None:
        return ""
    source = made.base
    if any(part.origin == "argument" or part.kind in ("parameter", "buffer") for part in _bases(source)):
        return made.made_by
    results = [part for value in alternatives(write.target) if isinstance(value, Tensor) for part in _copying(value)]
    own = {name for name, value in write.sharing if any(part in results for part in _bases(value))}
    others = {name for name, value in write.sharing if value.root is source.root} - own
    return made.made_by if any(_is_read_later(write, name) for name in others) else ""


def _is_view(made: Tensor, source: Tensor) -> bool:
    """Whether an operator that may copy certainly does not, or is not known to merge dimensions: splitting them never copies."""
    if made.made_by in ("reshape", "reshape_as"):
        before, after = (part.layout.rank if part.layout is not None else None for part in (source, made))
        if before is None or after is None or after >= before:
            return True
    if source.layout is None or made.layout is None or source.assumed or source.root.origin == "argument":
        return False
    # What is contiguous though its source is not has been copied.
    known = all(axis.stride is not None for axis in (*source.layout.axes, *made.layout.axes))
    return source.layout.is_contiguous or (known and not made.layout.is_contiguous)


def _bases(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and those whose memory it shares, down to the first."""
    part: Tensor | None = tensor
    while part is not None:
        yield part
        part = part.base


def _copying(tensor: Tensor) -> Iterator[Tensor]:
    """Those of them that may be copies."""
    for part in _bases(tensor):
        if part.kind != "tensor":
            # What the module owns is what it is, whatever it was made of.
            return
        if part.made_by in EITHER and part.base is not None and not _is_view(part, part.base):
            yield part


def _is_read_later(write: Write, name: str) -> bool:
    """Whether a local variable is read behind a write before it is bound anew."""
    function = write.function
    if function is None:
        return False
    here = _place(write.statement, end=True)
    around = [
        node for node in walk(function) if isinstance(node, (ast.For, ast.While)) and _holds(node, write.statement)
    ]
    events = sorted(_events(function, name))
    behind = [loads for place, loads in events if place > here]
    again = [loads for place, loads in events if around and _place(around[0]) < place <= here]
    return next(iter((*behind, *again)), False)


def _events(function: ast.AST, name: str) -> Iterator[tuple[tuple[int, int], bool]]:
    """Every place where a variable is read (True) or bound; a statement binds behind its value."""
    for node in walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if any(
                        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)
                        for part in walk(target)
                    ):
                        yield _place(value, end=True), False
            case ast.Name(id=found, ctx=ast.Load()) if found == name:
                yield _place(node), True
            case ast.For(target=ast.Name(id=found)) if found == name:
                yield _place(node), False
            case _:
                pass


def _place(node: ast.expr | ast.stmt, end: bool = False) -> tuple[int, int]:
    if end:
        return node.end_lineno or node.lineno, node.end_col_offset or 0
    return node.lineno, node.col_offset


def _holds(node: ast.AST, part: ast.AST) -> bool:
    return any(inner is part for inner in walk(node))

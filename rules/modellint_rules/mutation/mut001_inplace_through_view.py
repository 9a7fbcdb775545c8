"""MUT001: an in-place write through a view, of which tracing loses track."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Const,
    Container,
    Diagnostic,
    Edit,
    Fix,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    of_kind,
    once,
    parents_in,
    walk,
)
from modellint_rules.mutation.reads_behind_writes import (
    blocks_of,
    is_elsewhere,
    is_overwritten,
    is_read_elsewhere,
    position,
)
from modellint_rules.mutation.shared_memory import bases, changes, indices, item_of, may_be_copy

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class InplaceThroughView(Rule):
    """An in-place write through a view, where the memory is read afterwards under another name.

    ## What it does
    Finds in-place operations (`add_`, `+=`, `x[i] = v`) on a view of a tensor that is read afterwards, or on a tensor of
    which an older view is; assignments to a part that has a name, `z = y[1:]; z[0] = v`, where that is read afterwards; and
    assignments behind an ellipsis, `x[..., 1] = v`.

    ## Why
    coremltools follows a traced tensor by its name. What is written through `y.view(-1)`, `y.t()` or `y[0]` changes the
    view, and `y` stays as it was: the update is dropped, and nobody says so. `x[..., 1] = v` is taken for `x[1] = v`:
    refused where the shapes differ, else written to the wrong place. `copy_` and `fill_` on a view that no index makes, such
    as `y.t()` or `y.narrow(1, 0, 2)`, are refused. Only `y[0] = v`, `y[:, 1:] += v`, and `copy_` and `fill_` on such a part
    are followed; and where the part has a name, `y` gets the value, and the name keeps the old one.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[0].mul_(3)
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[0] = y[0].mul(3)
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix writes `y[0] = y[0].mul(3)` for `y[0].mul_(3)`, and `x[:, :, 1]` for `x[..., 1]` where the number of dimensions
    is known. It is unsafe as it relies on what is known of the tensors. Elsewhere there is none: `z = z + 1` leaves the
    original alone, if that is what is meant.

    ## Known limits
    Writes to the result of `reshape`, `flatten` and `contiguous`, which may be copies, are MUT010's; those to buffers
    MUT005's. A part that is assigned anew before anything reads the tensor (`h = x[0]; h += 1; x[0] = h % 2`) is left alone.
    What functions of other files do to their arguments is reported there, and not where they are called.

    ## References
    - <https://pytorch.org/docs/stable/tensor_view.html>
    - <https://apple.github.io/coremltools/docs-guides/source/convert-pytorch-workflow.html>
    """

    code = "MUT001"
    name = "inplace-through-view"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    silent = ("trace",)
    hides = True
    live_needs = "run"
    withdraws = True
    needs = ("forward", Trigger.WRITES_IN_PLACE)
    only_modules = True
    only_forward = True
    fixable = "assign to the part"
    advice = "Assign to the part itself, `y[0] = y[0] * 3`, and not through another name"
    supersedes = ("MUT003", "MUT007")

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every write who else holds what it changes."""
        if code.is_never_exported:
            return
        written: dict[int, list[Write]] = {}
        for readings in code.writes:
            write = readings[0]
            if not all(map(changes, readings)) or code.is_for_capture_only(write.node, write.function):
                continue
            severity = code.severity_at(self.severity, write.node, write.function)
            losers = [_loser(reading, written) for reading in readings]
            if all(map(_is_behind_ellipsis, readings)):
                yield code.finding(
                    self,
                    write.statement,
                    _BEHIND_ELLIPSIS,
                    severity=severity,
                    statement=write.statement,
                    # Dimensions alone do not help where another name loses the write as well.
                    fix=None if all(losers) else _spelled_out(code, readings),
                    advice="Write the dimensions out: `x[:, :, 1] = v`",
                )
                continue
            for reading in readings:
                for target in _target(reading) if item_of(reading) is not None else ():
                    written.setdefault(id(target), []).append(reading)
            if all(losers):
                yield code.finding(
                    self,
                    write.statement,
                    _said(readings, losers[0]),
                    severity=severity,
                    statement=write.statement,
                    fix=_assigned(code, write),
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run which writes a traced model loses."""
        run = subject.run
        if run is None or subject.destination.frontend == "export":
            return
        items = list(subject.item_assignments)
        # Those are MUT002's and MUT003's.
        mixed = {item.call.place for item in items if item.is_mixed and (item.tensors or item.masks)}
        for lost in subject.lost_writes:
            if lost.operator.name == "aten::index_put_" and lost.place in mixed:
                continue
            name = lost.operator.name.rpartition("::")[2]
            yield subject.finding(
                self,
                f"`{name}` writes to memory that is read later under another name: in a traced model the update is dropped there",
                at=lost.place,
                modules=[lost.operator.module],
                operator=lost.operator.name,
            )
        for item in items:
            if item.is_behind_dots and not item.tensors and not item.masks:
                yield subject.finding(
                    self,
                    _BEHIND_ELLIPSIS,
                    at=item.call.place,
                    modules=[item.call.module],
                    advice="Write the dimensions out: `x[:, :, 1] = v`",
                )

    def may_hide(self, finding: Diagnostic) -> bool:
        """A write that is lost may not show; one that goes elsewhere does, wherever it makes a difference."""
        return finding.message != _BEHIND_ELLIPSIS


_BEHIND_ELLIPSIS = (
    "An assignment behind an ellipsis goes to other dimensions, or is refused, from a trace; `torch.export` keeps it"
)


def _said(readings: list[Write], name: str) -> str:
    method = getattr(getattr(readings[0].node, "func", None), "attr", "")
    if method in _PUT and all(_is_other_view(target) for reading in readings for target in _target(reading)):
        return f"`{method}` on a view that no index makes is refused from a trace; `torch.export` keeps it"
    targets = {id(target) for reading in readings for target in _target(reading)}
    if any(sharer == name and id(value) in targets for reading in readings for sharer, value in reading.sharing):
        return f"`{name}` is a part of another tensor: in a traced model that gets what is written here, and `{name}` does not"
    return f"This write shares memory with `{name}`, which is read later: in a traced model the update is dropped there"


_PUT = frozenset({"copy_", "fill_"})
"""Operators that conversion hands on to the whole tensor, where they are asked of `x[i]` or `x.select(0, i)`."""


def _is_other_view(tensor: Tensor) -> bool:
    """Whether a tensor is a view that is made by other than an index: coremltools finds no `select` and no `slice`, and says so."""
    return tensor.base is not None and tensor.made_by not in ("index", "select")


def _target(write: Write) -> list[Tensor]:
    """The tensors that a write may change; none where one of the values is none, or is what the module owns."""
    targets: list[Tensor] = []
    for part in alternatives(write.target):
        if isinstance(part, Const) and part.value is None:
            continue
        if not isinstance(part, Tensor) or not part.is_tensor or part.registered or not part.root.is_tensor:
            return []
        if item_of(write) is not None and write.how == "augmented" and part.base is not None:
            part = part.base
        targets.append(part)
    return targets


def _loser(write: Write, written: dict[int, list[Write]]) -> str:
    """The name of an alias that is read later and misses the write in a converted model; empty where there is none."""
    targets = _target(write)
    if not targets or any(map(may_be_copy, targets)):
        return ""
    seen: set[int] = set()
    for target in targets:
        if not _is_put(write):
            seen.add(id(target))
            continue
        named = _is_named_part(target) and _is_bound(target, write)
        is_cut_off = named and _is_indexed_before(write, target)
        if not named or is_cut_off:
            seen.add(id(target))
        if not is_cut_off and (
            not named or not any(_stand_together(write, earlier) for earlier in written.get(id(target), ()))
        ):
            # What is first assigned to a part reaches the tensor, and takes the name of the part away.
            seen.update(id(part) for part in bases(target) if part is not target and _is_followed(write, target))
    by_name: dict[str, list[Tensor]] = {}
    for name, value in write.sharing:
        by_name.setdefault(name, []).append(value)
    for name, values in by_name.items():
        if any(id(value) in seen or may_be_copy(value) or is_elsewhere(value, write) for value in values):
            continue
        if write.is_read_later(name) and not all(is_read_elsewhere(name, value, write) for value in values):
            if is_overwritten(name, targets, write):
                continue
            return name
    return ""


def _is_put(write: Write) -> bool:
    """Whether a write is an assignment by numbers and slices, or `copy_` or `fill_`: conversion hands it on to the whole tensor."""
    if item_of(write) is None:
        return getattr(getattr(write.node, "func", None), "attr", "") in _PUT
    parts = [part for value in write.index if value is not None for part in alternatives(value)]
    return write.how != "augmented" and not any(isinstance(part, (Tensor, Container)) for part in parts)


def _is_named_part(tensor: Tensor) -> bool:
    """Whether a tensor is a named view by an index: conversion hands an assignment to the base, and not to the view."""
    node, base = tensor.node, tensor.base
    if base is None or tensor.made_by not in ("index", "select") or not isinstance(node, ast.Subscript):
        return False
    parts = [part for part in indices(node) if not (isinstance(part, ast.Constant) and part.value is ...)]
    last = parts[-1] if parts else None
    if last is None or (isinstance(last, ast.Constant) and last.value is None):
        return False
    # An element of what the caller gives may be one of a list.
    return base.certain or base.root.origin != "argument" or any(isinstance(part, ast.Slice) for part in parts)


def _is_indexed_before(write: Write, target: Tensor) -> bool:
    """Whether a part was taken out of what is assigned to before it is, as on the right of `x[1:] = x[:-1]`, where that certainly runs.

    Conversion follows the first index of a named part down to its base, and takes the part for a tensor of its own from then on.
    """
    place, function = item_of(write), write.function
    if place is None or not isinstance(place.value, ast.Name) or not isinstance(write.statement, ast.Assign):
        return False
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    name, begins = place.value.id, (write.statement.lineno, write.statement.col_offset)
    stores = once(function, "_stores_by_name", _stores_by_name).get(name, [])
    last = bisect_left(stores, begins, key=position) - 1
    since = 0
    if last >= 0:
        # It is an argument otherwise.
        above = parents_in(function).get(stores[last])
        if not isinstance(above, ast.Assign) or above.value is not target.node or not _runs_before(above, write):
            return False
        since = above.lineno
    ends = (write.statement.end_lineno or begins[0], write.statement.end_col_offset or 0)
    reads = once(function, "_slices_by_name", _slices_by_name).get(name, [])
    behind = bisect_left(reads, ends, key=position)
    nearest = reads[max(0, behind - _MOST_READS) : behind]
    return any(read.lineno > since and _runs_before(read, write) for read in nearest)


_MOST_READS = 16
"""How many reads of a part before a write are looked at."""


def _stores_by_name(function: ast.AST) -> dict[str, list[ast.Name]]:
    """Where the variables of a function are bound or deleted, in the order of the text."""
    stores: dict[str, list[ast.Name]] = {}
    for name in sorted(of_kind(function, ast.Name), key=position):
        if not isinstance(name.ctx, ast.Load):
            stores.setdefault(name.id, []).append(name)
    return stores


def _slices_by_name(function: ast.AST) -> dict[str, list[ast.Subscript]]:
    """Where parts of the variables of a function are read, in the order of the text."""
    reads: dict[str, list[ast.Subscript]] = {}
    for part in sorted(of_kind(function, ast.Subscript), key=position):
        if isinstance(part.ctx, ast.Load) and isinstance(part.value, ast.Name) and _is_slice(part):
            reads.setdefault(part.value.id, []).append(part)
    return reads


def _runs_before(node: ast.AST, write: Write) -> bool:
    """Whether a node of the function stands in a statement that runs before a write whenever that does, or on the right of it."""
    if write.function is None:
        return False
    parents = parents_in(write.function)
    statement: ast.AST | None = node
    while statement is not None and not isinstance(statement, ast.stmt):
        if isinstance(statement, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)):
            return False
        statement = parents.get(statement)
    if statement is None or statement is write.statement:
        return statement is not None
    places = once(write.function, "_places_in_blocks", _places_in_blocks)
    block, at = places.get(statement, (-1, 0))
    around: ast.AST | None = write.statement
    while around is not None and around is not write.function:
        beside, behind = places.get(around, (-2, 0))
        if beside == block:
            return at < behind
        around = parents.get(around)
    return False


def _places_in_blocks(function: ast.AST) -> dict[ast.AST, tuple[int, int]]:
    """For each statement of a function the number of the block that it stands in, and its place there."""
    places: dict[ast.AST, tuple[int, int]] = {}
    for node in walk(function):
        for block in blocks_of(node):
            places.update((statement, (id(block), at)) for at, statement in enumerate(block))
    return places


def _is_slice(part: ast.Subscript) -> bool:
    """Whether an index certainly makes a `select` or a `slice` of a trace, and nothing that stands between them."""
    parts = indices(part)
    plain = all(
        isinstance(each, ast.Slice) or (isinstance(each, ast.Constant) and isinstance(each.value, int))
        for each in parts
    )
    return plain and any(not _is_whole(each) for each in parts)


def _is_bound(tensor: Tensor, write: Write) -> bool:
    """Whether what an index took out was bound as it was; by another function, where that cannot be seen."""
    above = (
        parents_in(write.function).get(tensor.node) if write.function is not None and tensor.node is not None else None
    )
    return above is None or isinstance(above, (ast.Assign, ast.AnnAssign, ast.Tuple))


def _is_followed(write: Write, target: Tensor) -> bool:
    """Whether what is assigned to a part of a tensor reaches the tensor: where single numbers lead to it, as in `y[0][1:] = v`.

    What slices another slice does not, nor does what stands behind an ellipsis.
    """
    links = [part for part in bases(target) if part.base is not None]
    if not all(part.made_by in ("index", "select") and isinstance(part.node, ast.Subscript) for part in links):
        return False
    places = [part.node for part in links if isinstance(part.node, ast.Subscript)]
    if item_of(write) is None:
        return bool(places) and not _has_ellipsis(places[0]) and _lead(places[1:])
    return _lead(places)


def _stand_together(write: Write, earlier: Write) -> bool:
    """Whether two statements stand in one block, so that both run."""
    if write.function is None or write.statement is earlier.statement or item_of(write) is None:
        return False
    parents = parents_in(write.function)
    above = parents.get(write.statement)
    if above is None or parents.get(earlier.statement) is not above:
        return above is parents.get(earlier.statement)
    return any(write.statement in block and earlier.statement in block for block in blocks_of(above))


def _lead(places: list[ast.Subscript]) -> bool:
    """Whether single numbers lead to a part."""
    return not any(isinstance(part, (ast.Slice, ast.Tuple)) for place in places for part in indices(place)) and not any(
        map(_has_ellipsis, places)
    )


def _has_ellipsis(node: ast.AST | None) -> bool:
    parts = indices(node) if isinstance(node, ast.Subscript) else []
    return any(isinstance(part, ast.Constant) and part.value is ... for part in parts)


def _is_behind_ellipsis(write: Write) -> bool:
    place = item_of(write)
    parts = indices(place) if place is not None else []
    at = next((at for at, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is ...), None)
    behind = write.index[at + 1 :] if at is not None else ()
    at_all = any(not _is_whole(part) for part in (parts[at + 1 :] if at is not None else ()))
    # By tensors or lists of indices neither route takes it: that is MUT002's.
    plain = at_all and all(
        value is None or not any(isinstance(part, (Tensor, Container)) for part in alternatives(value))
        for value in behind
    )
    targets = _several_indexed(write) if behind else []
    return (
        bool(behind)
        and plain
        and bool(targets)
        and all(target.rank is None or target.rank > len(behind) for target in targets)
    )


def _several_indexed(write: Write) -> list[Tensor]:
    """The tensors that a write with several indices may change: nothing but a tensor takes them, whoever gave it."""
    parts = [part for part in alternatives(write.target) if not (isinstance(part, Const) and part.value is None)]
    targets = [part for part in parts if isinstance(part, Tensor) and not part.registered]
    return targets if len(targets) == len(parts) else []


def _is_whole(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None


def _assigned(code: Code, write: Write) -> Fix | None:
    """`y[0] = y[0].mul(3)` for `y[0].mul_(3)`."""
    match write.statement:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name()) as part, attr=name)) as call
        ) if call is write.node and not _has_ellipsis(part) and _reaches_all(write, part, is_read=name != "zero_"):
            spelled = code.rewriter.of(part)
            edits: tuple[Edit, ...]
            if name == "zero_":
                edits = (code.rewriter.replace(call, f"{spelled} = 0"),)
            elif name in _FUNCTIONAL:
                front = code.rewriter.insert(code.rewriter.start(part), f"{spelled} = ")
                edits = (front, code.rewriter.rename_method(call, name[:-1]))
                if name not in _LINEAR or not all(isinstance(argument, ast.Constant) for argument in call.args):
                    # What the operator keeps for its gradient must not be the part that is assigned to.
                    edits = (*edits, code.rewriter.insert(code.rewriter.end(part), ".clone()"))
            else:
                return None
            return Fix(f"Assign the result to `{spelled}`", edits, Applicability.UNSAFE)
    return None


def _reaches_all(write: Write, part: ast.Subscript, is_read: bool) -> bool:
    """Whether what is assigned to a part of a variable, converted, reaches every variable that is read later.

    Where the part ``is_read`` on the right, a variable that is itself a part gets it alone: see ``_is_indexed_before``.
    """
    name = ast.unparse(part.value)
    seen: set[int] = set()
    for value in (value for sharer, value in write.sharing if sharer == name):
        links = [view for view in bases(value) if view.base is not None]
        nodes = [view.node for view in links if isinstance(view.node, ast.Subscript)]
        seen.add(id(value))
        if not is_read and len(nodes) == len(links) and _lead(nodes):
            seen.update(map(id, bases(value)))
    return not any(
        id(value) not in seen
        and not may_be_copy(value)
        and not is_elsewhere(value, write)
        and write.is_read_later(sharer)
        for sharer, value in write.sharing
    )


_LINEAR = frozenset({"add_", "sub_", "mul_", "div_", "neg_"})
_FUNCTIONAL = _LINEAR | frozenset(
    {
        "clamp_",
        "clamp_min_",
        "clamp_max_",
        "relu_",
        "abs_",
        "exp_",
        "log_",
        "sqrt_",
        "rsqrt_",
        "square_",
        "sigmoid_",
        "tanh_",
    }
    | {
        "pow_",
        "round_",
        "floor_",
        "ceil_",
        "masked_fill_",
        "masked_scatter_",
        "scatter_",
        "scatter_add_",
        "lerp_",
        "fmod_",
    }
    | {"remainder_", "logical_not_", "index_fill_", "index_add_", "index_copy_", "addcmul_", "addcdiv_", "clip_"}
)
"""Operators in place of which there is one that gives a new tensor."""


def _spelled_out(code: Code, readings: list[Write]) -> Fix | None:
    """`x[:, :, 1] = v` for `x[..., 1] = v`."""
    place = item_of(readings[0])
    ranks = {target.rank for reading in readings for target in _target(reading)}
    rank = ranks.pop() if len(ranks) == 1 else None
    if rank is None or place is None:
        return None
    parts = indices(place)
    if any(isinstance(part, ast.Constant) and part.value is None for part in parts):
        return None
    dots = next(part for part in parts if isinstance(part, ast.Constant) and part.value is ...)
    colons = ", ".join(":" for _ in range(rank - len(parts) + 1))
    edit = code.rewriter.replace(dots, colons)
    return Fix(f"Write `{colons}` for the ellipsis", (edit,), Applicability.UNSAFE)

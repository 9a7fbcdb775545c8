"""MUT002: an assignment to the places that a tensor of indices names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Const,
    Container,
    Diagnostic,
    Fix,
    Rule,
    Severity,
    Tensor,
    Trigger,
    Value,
    alternatives,
    is_mask,
    of_kind,
    once,
    parents_in,
    walk,
)
from modellint_rules.mutation.shared_memory import (
    are_broadcast,
    consequence,
    indices,
    is_called_mask,
    is_ellipsis,
    is_single,
    item_writes,
    refused_shapes,
    told,
)

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class TensorIndexAssign(Rule):
    """An assignment to the places that a tensor of indices names, next to a slice or a number.

    ## What it does
    Finds `y[:, i] = v`, `y[i, 0] = v` and the like, where `i` is a tensor or a list of indices and another index is a slice
    or a number.

    ## Why
    What stands before the tensor decides. Measured with coremltools 9.0, by executing what was converted; `i` holds two indices,
    `v` is a number or a tensor, and from `torch.export` both with and without core ATen decompositions:

    | form | from `torch.jit.trace` | from `torch.export` |
    |---|---|---|
    | `y[0, i] = v`, `y[i, 0] = v`, `y[i, 1:3] = v`, `y[i, :] = v` | dropped, nobody says so | right |
    | `y[:, i] = v`, `y[:, 0, i] = v`, nothing is computed behind it | dropped, nobody says so | refused |
    | `y[:, i] = v`, `y[:, 0, i] = v`, something is computed behind it | refused | refused |
    | `y[:, [3]] = v`, a single index | dropped, nobody says so | right |
    | `y[..., i] = v`, `y[..., i, j] = v` | refused | refused |
    | `y[..., [3]] = v`, a single index | right | right |
    | `y[..., 1, i] = v`, `y[..., i, 1:3] = v`, nothing is computed behind it | dropped, nobody says so | refused |
    | `y[..., 1, i] = v`, `y[..., i, 1:3] = v`, something is computed behind it | refused | refused |
    | `y[i] = v`, `y[i, j] = v`, `y[i, ...] = v`: tensors alone, of one shape | right | right |
    | `y[i[:, None], j[None, :]] = v`: tensors alone, of different shapes | refused | refused |
    | `y[i[:, None], j[None, :], 0] = v`, nothing is computed behind it | dropped, nobody says so | refused |
    | `y[i[:, None], j[None, :], 0] = v`, something is computed behind it | refused | refused |
    | `y[:, k] = v`, `y[0, k] = v`, `k` a number or the variable of a loop over a `range` | right | right |
    | `y[:, k] = v`, `k` a tensor without dimensions, or the variable of a loop over a tensor | right | refused by PyTorch |

    A list, a tuple among several indices, and a `range` are tensors of indices, too: `y[range(n), i] = v` is right.
    Dropped, `y` stays as it was. "Refused" is `Input squeeze_0 has rank 1 != other inputs rank 0`. Behind it something is computed
    where the model goes on in any way, be it with another tensor. An assignment behind an ellipsis by a number or a slice, as in
    `y[..., 1:3] = v`, is MUT001's: it converts from `torch.export`, and from a trace goes to other dimensions, or is refused.

    For Core AI an assignment is right where what is assigned has the shape of the places. One number behind a slice,
    `y[:, i] = 0.0`, ends the process of Apple's interpreter, and a row for several places is put elsewhere (coreai-torch 0.4.3):
    the first is told of in source, both are OPS011's in a run, and `modellint export` mends both.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("hidden", torch.tensor([0, 2]))

        def forward(self, x):
            y = x * 2
            y[:, self.hidden] = 0.0
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("hidden", torch.tensor([0, 2]))

        def forward(self, x):
            y = x * 2
            y = y.transpose(0, 1).index_put((self.hidden,), y.new_tensor(0.0)).transpose(0, 1)
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix brings the indexed dimension to the front, for a number that is assigned. It is unsafe: the variable gets a new
    tensor, so that others that share its memory keep the old values.

    ## Known limits
    Masks are MUT003's, and writes to buffers MUT005's. A tensor of the function's own that is only written to is left
    alone. A tensor of which is not known whether it holds indices or truths counts here where it stands next to a slice or
    a number: both are dropped or refused.

    ## References
    - <https://github.com/apple/coremltools/issues/2188>
    """

    code = "MUT002"
    name = "tensor-index-assign"
    severity = Severity.ERROR
    only_inference = True
    silent = ("trace",)
    hides = True
    live_needs = "run"
    withdraws = True
    needs = ("forward", Trigger.WRITES_BY_INDEX)
    only_modules = True
    only_forward = True
    fixable = "`index_put`"
    advice = "Index by tensors alone, `y[torch.zeros_like(i), i] = v`, or choose with `torch.where`"
    supersedes = ("MUT003", "MUT007")

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every assignment to an item for its indices."""
        for place, write, _ in item_writes(code, _is_dropped):
            if _is_never_read(write, place):
                continue
            if code.destination.name != "coreml" and not _is_number_behind_a_slice(write):
                continue
            yield code.finding(
                self,
                write.statement,
                consequence(write, place, "a tensor of indices") if code.destination.name == "coreml" else _ENDS,
                severity=code.severity_at(self.severity, write.node, write.function),
                statement=write.statement,
                fix=_fix(code, write, place),
                advice=_ONE_SHAPE if are_broadcast(write) else None,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every assignment of the run for its indices."""
        run = subject.run
        if subject.destination.name != "coreml":
            # OPS011 knows the shapes.
            return
        for item in () if run is None or subject.destination.frontend == "export" else subject.item_assignments:
            if item.tensors and not item.masks and item.is_mixed:
                yield subject.finding(
                    self,
                    refused_shapes() if item.are_broadcast else told("a tensor of indices", item.stands_behind),
                    at=item.call.place,
                    modules=[item.call.module],
                    advice=_ONE_SHAPE if item.are_broadcast else None,
                )


_ONE_SHAPE = "Index by tensors alone, and give them one shape: `i, j = torch.broadcast_tensors(i, j)`"


_ENDS = "A number that is assigned by a tensor of indices behind a slice ends the process of Core AI's interpreter"


def _is_number_behind_a_slice(write: Write) -> bool:
    """Whether one number is assigned, and a slice or an ellipsis stands before the first tensor: coreai-torch 0.4.3."""
    tensors = [at for at, value in enumerate(write.index) if value is not None and _is_indices(value)]
    before = write.index[: tensors[0]] if tensors else ()
    is_number = isinstance(write.value, Const) and isinstance(write.value.value, (int, float))
    return is_number and any(value is None or is_ellipsis(value) for value in before)


def _is_dropped(write: Write, place: ast.Subscript) -> bool:
    targets = [part for part in alternatives(write.target) if not (isinstance(part, Const) and part.value is None)]
    if write.how != "augmented" and not all(isinstance(part, Tensor) and not part.registered for part in targets):
        return False
    parts = indices(place)
    if any(
        value is not None and is_called_mask(write, value, part) for value, part in zip(write.index, parts, strict=True)
    ):
        return False
    if are_broadcast(write):
        return True
    are_indices = [value is not None and _is_indices(value) for value in write.index]
    if not isinstance(place.slice, ast.Tuple) and any(part.kind == "tuple" for part in _containers(write.index)):
        # `y[place] = v`, where `place` holds the indices.
        return False
    if not any(are_indices):
        return False
    if len(parts) == 2 and is_ellipsis(write.index[0]) and is_single(parts[1]):
        return False
    # What is not understood, and cast to whole numbers or sliced, is no single number.
    are_indices = [is_index or _is_of_many(part) for is_index, part in zip(are_indices, parts, strict=True)]
    last = len(are_indices) - 1 - are_indices[::-1].index(True)
    # An ellipsis behind the tensors is none: `y[i, ...] = v` is converted.
    others = [
        not are_indices[at] and (value is None or _is_plain(value) or (is_ellipsis(value) and at < last))
        for at, value in enumerate(write.index)
    ]
    return any(others) and all(
        is_index or is_other or (value is not None and _stands_by_indices(value))
        for is_index, is_other, value in zip(are_indices, others, write.index, strict=True)
    )


def _is_never_read(write: Write, place: ast.Subscript) -> bool:
    """Whether nothing reads the tensor that is written to: the function makes it for one variable, and only writes to that."""
    if not isinstance(place.value, ast.Name) or write.function is None:
        return False
    made = once(write.function, "_only_written", _only_written).get(place.value.id)
    parts = alternatives(write.target)
    return made is not None and all(
        isinstance(part, Tensor) and part.root.origin in ("constant", "computed") and part.root.node in made
        for part in parts
    )


def _only_written(function: ast.AST) -> dict[str, set[ast.AST]]:
    """The variables of a function whose items are written and that are not read, with the nodes of what is bound to them."""
    parents = parents_in(function)
    read: set[str] = set()
    written: set[str] = set()
    for part in walk(function):
        match part:
            case ast.Name(id=name, ctx=ast.Load()):
                above = parents.get(part)
                is_place = isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store) and above.value is part
                (written if is_place else read).add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                read.add(name)
            case ast.Nonlocal(names=names) | ast.Global(names=names):
                read.update(names)
    made: dict[str, set[ast.AST]] = {name: set() for name in written - read}
    for assignment in of_kind(function, ast.Assign) if made else ():
        match assignment.targets:
            case [ast.Name(id=name)] if name in made:
                made[name].update(walk(assignment.value))
    return made


def _containers(index: Sequence[Value | None]) -> Iterator[Container]:
    for value in index:
        yield from (part for part in alternatives(value) if isinstance(part, Container)) if value is not None else ()


def _is_of_many(part: ast.expr) -> bool:
    """Whether an index is made of a slice of something that is cast to whole numbers: `boxes[:, 0].long() + 5`."""
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("long", "int")
        and any(isinstance(inner, ast.Slice) for inner in walk(call.func.value))
        for call in walk(part)
    )


def _is_indices(value: Value) -> bool:
    """Whether a value is a tensor or a list of indices; what may be a single one, such as an element of lengths, is none."""
    return all(
        (isinstance(part, Tensor) and part.is_tensor and part.rank != 0 and not is_mask(part) and not _may_be_one(part))
        or (isinstance(part, Container) and part.kind in _OF_INDICES)
        for part in alternatives(value)
    )


_OF_INDICES = frozenset({"list", "tuple", "iterator"})
"""What PyTorch makes a tensor of indices of, where it stands among the indices; a tuple that stands alone is several of them."""


def _stands_by_indices(value: Value) -> bool:
    """Whether a value, next to what certainly holds indices, holds some too: what was cast to whole numbers, and is no element."""
    return all(
        isinstance(part, Tensor) and part.made_by in ("to", "long", "int") and not _may_be_one(part)
        for part in alternatives(value)
    )


def _may_be_one(tensor: Tensor) -> bool:
    """Whether a tensor of unknown rank is an element of another, taken out by a loop or by numbers, or computed from one."""
    if tensor.rank is not None:
        return False
    if tensor.base is not None and tensor.base.made_by in ("nonzero", "where", "topk", "sort"):
        # One of the tensors of indices that it gives.
        return False
    if tensor.made_by == "select":
        return True
    node = tensor.node
    while isinstance(node, ast.BinOp):
        node = node.left if isinstance(node.right, ast.Constant) else node.right
    if not isinstance(node, ast.Subscript) or any(isinstance(part, ast.Slice) for part in indices(node)):
        return False
    return tensor.base is not None or node is not tensor.node


def _is_plain(value: Value) -> bool:
    """Whether an index is a number, or None."""
    return not any(isinstance(part, (Tensor, Container)) for part in alternatives(value)) and not (
        isinstance(value, Const) and value.value is ...
    )


def _fix(code: Code, write: Write, place: ast.Subscript) -> Fix | None:
    """`y = y.transpose(0, d).index_put((i,), v).transpose(0, d)`."""
    statement = write.statement
    parts = indices(place)
    slices = [at for at, part in enumerate(parts) if isinstance(part, ast.Slice)]
    whole = all(
        isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None
        for part in (parts[at] for at in slices)
    )
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(place.value, ast.Name):
        return None
    if not whole or len(slices) != len(parts) - 1 or not _is_number(statement.value):
        return None
    at = next(at for at in range(len(parts)) if at not in slices)
    name, index, value = place.value.id, code.rewriter.of(parts[at]), code.rewriter.of(statement.value)
    if isinstance(parts[at], ast.List):
        index = f"torch.tensor({index})"
    put = f"index_put(({index},), {name}.new_tensor({value}))"
    moved = f"{name}.{put}" if at == 0 else f"{name}.transpose(0, {at}).{put}.transpose(0, {at})"
    edits = (code.rewriter.replace(place, name), code.rewriter.replace(statement.value, moved))
    return Fix("Write it as `index_put`", edits, Applicability.UNSAFE)


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))

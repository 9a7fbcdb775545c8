"""MUT003: an assignment to the places that a mask names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import (
    UNKNOWN,
    Applicability,
    Argument,
    Const,
    Diagnostic,
    Fix,
    Number,
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
from modellint_rules.mutation.shared_memory import consequence, indices, is_called_mask, item_of, item_writes, told

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Value, Write


class MaskAssign(Rule):
    """An assignment to the places of a tensor that a mask names.

    ## What it does
    Finds `y[mask] = v`, where `mask` is the result of a comparison, of `isnan` and the like, or is called one. Next to
    another index, as in `y[:, mask] = v`, it is an error; where the mask also selected the value, as in `y[mask] += v` and
    `y[mask] = x[mask] + 1`, a warning, unless the mask is made of sizes and numbers alone; else it is for information.

    ## Why
    The assignment becomes a search for the places where the mask holds (`non_zero`), whose number only the data says, and a
    scatter to them: some ten operations with coremltools 9.0, where `torch.where` is one. Programs that assign a number so
    computed the right thing when they were executed, at flexible sizes too. Of a value that the mask selected, a trace takes
    the first dimension away where the mask of the sample input holds at one place only: the program fails, or is wrong, for
    other inputs.

    What stands beside the mask decides. Measured with coremltools 9.0, by executing what was converted; `v` is a number, and from
    `torch.export` both with and without core ATen decompositions:

    | form | from `torch.jit.trace` | from `torch.export` |
    |---|---|---|
    | `y[mask] = v`, `y[mask] = x[mask]`, whether `y` is returned or used | right | right |
    | `y[0, mask] = v`, `y[mask, 0] = v`, `y[mask, :] = v` | dropped, nobody says so | right |
    | `y[:, mask] = v`, nothing is computed behind it | dropped, nobody says so | refused |
    | `y[:, mask] = v`, something is computed behind it | refused | refused |
    | `y[..., mask] = v` | refused | refused |

    Dropped, `y` stays as it was. Behind it something is computed where the model goes on in any way, be it with another tensor.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            y[y > 1] = 0.0
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            y = y.masked_fill(y > 1, 0.0)
            return y


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix is safe for a number that is assigned to a tensor which the function has just made, which no other variable
    shares. Elsewhere it is unsafe: others that share the memory keep the old values. There is none where the mask may have fewer
    dimensions than the tensor, which `masked_fill` and `torch.where` align at the other end: where it neither compares the tensor
    itself nor is known to have its rank.

    ## Known limits
    A tensor of which is not known whether it holds truths is left alone. Writes to buffers are MUT005's.

    ## References
    - <https://github.com/apple/coremltools/issues/2141>
    - <https://pytorch.org/docs/stable/generated/torch.where.html>
    """

    code = "MUT003"
    name = "mask-assign"
    severity = Severity.WARNING
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.WRITES_BY_INDEX)
    only_modules = True
    only_forward = True
    fixable = "`masked_fill`, `torch.where`"
    advice = "Choose with `torch.where(mask, v, y)`, with a mask that broadcasts"
    supersedes = ("MUT007",)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every assignment to an item for its indices."""
        for place, write, readings in item_writes(code, _is_masked):
            alone = _is_alone(place)
            selected = alone and _is_selected(write, place) and not all(_is_constant(code, one) for one in readings)
            usual = Severity.ERROR if not alone else Severity.WARNING if selected else Severity.INFO
            yield code.finding(
                self,
                write.statement,
                consequence(write, place, "a mask") if not alone else _SAYS[usual],
                severity=code.severity_at(usual, write.node, write.function),
                statement=write.statement,
                fix=_fix(code, readings, place) if alone else None,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every assignment of the run for its indices."""
        run = subject.run
        for item in () if run is None else subject.item_assignments:
            if not item.masks:
                continue
            alone = not item.is_mixed or subject.destination.frontend == "export"
            yield subject.finding(
                self,
                "An assignment by a mask converts to a search for places and a scatter, some ten operations: `torch.where` is one"
                if alone
                else told("a mask", item.stands_behind),
                at=item.call.place,
                modules=[item.call.module],
                severity=Severity.WARNING if alone else Severity.ERROR,
            )


_SAYS = {
    Severity.WARNING: "An assignment by a mask of what it selects: a trace whose mask is true once fails, or is wrong, for other inputs",
    Severity.INFO: "An assignment by a mask converts to a search for places and a scatter, some ten operations: `torch.where` is one",
}


def _is_alone(place: ast.Subscript) -> bool:
    """Whether a mask has no index beside it but an ellipsis behind."""
    first, *others = indices(place)
    return all(isinstance(part, ast.Constant) and part.value is ... for part in others) and not isinstance(
        first, ast.Constant
    )


def _is_selected(write: Write, place: ast.Subscript) -> bool:
    """Whether the value was taken out by the mask, so that it has as many rows as the mask has places: `y[m] = x[m] + 1`."""
    if write.how == "augmented":
        return True
    value = getattr(write.statement, "value", None)
    wanted = ast.dump(place.slice)
    parts = walk(value) if value is not None else []
    # `y[m] = x[m].mean(0)` has no rows.
    reduces = any(
        isinstance(part, ast.Call) and getattr(part.func, "attr", "") in operators.reductions for part in parts
    )
    return not reduces and any(isinstance(part, ast.Subscript) and ast.dump(part.slice) == wanted for part in parts)


def _is_constant(code: Code, write: Write) -> bool:
    """Whether a mask is the same for all inputs of a shape: it is made of sizes and numbers that are taken out of no tensor."""
    parts = [part for value in write.index if value is not None for part in alternatives(value)]
    place = item_of(write)
    if place is None or write.function is None or not all(_is_of_no_input(part) for part in parts):
        return False
    names = {part.id for part in walk(place.slice) if isinstance(part, ast.Name)}
    pending = [place.slice, *_definitions(code, write.function, names)]
    while pending:
        expression = pending.pop()
        for part in walk(expression):
            if isinstance(part, ast.Call) and _may_vary(code, part):
                return False
        more = {part.id for part in _read(expression)} - names
        names |= more
        pending += _definitions(code, write.function, more)
    return all(
        _is_of_no_input(part)
        for readings in code.writes
        for other in readings
        if other.function is write.function and other.how != "attribute" and _written_name(other) in names
        for part in (
            *alternatives(other.value),
            *(part for value in other.index if value for part in alternatives(value)),
        )
    )


def _may_vary(code: Code, call: ast.Call) -> bool:
    """Whether a call may draw numbers, or take them out of a tensor."""
    if isinstance(call.func, ast.Name) and call.func.id in ("int", "float", "bool"):
        values = [value for reading in code.readings(call) for value in reading.arguments.everything()]
        # What is made whole and is nowhere used as a tensor is a number, whoever gives it.
        return not values or not all(_is_number_of(part) for value in values for part in alternatives(value))
    return re.search(_VARIES, called_name(call) or "") is not None


def _is_number_of(value: Value) -> bool:
    return isinstance(value, (Argument, Const)) or (isinstance(value, Number) and not hasattr(value, "tensor"))


_VARIES = r"^(?:item|tolist|numpy)$|rand|bernoulli|normal|multinomial|uniform|dropout"


def _is_of_no_input(value: Value) -> bool:
    if isinstance(value, Tensor):
        return value.is_tensor and value.batch is None and value.origin in ("constant", "computed")
    return isinstance(value, Const) or (isinstance(value, Number) and not hasattr(value, "tensor"))


def _definitions(code: Code, function: ast.AST, names: set[str]) -> list[ast.expr]:
    """What a function binds variables to, but for training."""
    bound: list[tuple[ast.AST, Sequence[ast.expr], ast.expr]] = [
        *((part, part.targets, part.value) for part in of_kind(function, ast.Assign)),
        *((part, [part.target], part.value) for part in of_kind(function, ast.AugAssign)),
        *((part, [part.target], part.value) for part in of_kind(function, ast.NamedExpr)),
        *((part, [part.target], part.iter) for part in of_kind(function, ast.For)),
        *((part, [part.target], part.iter) for part in of_kind(function, ast.comprehension)),
    ]
    return [
        value
        for node, targets, value in bound
        if any(isinstance(part, ast.Name) and part.id in names for target in targets for part in walk(target))
        and not any(_is_for_training(test) for test in code.conditions(node, function))
    ]


def _is_for_training(test: ast.expr) -> bool:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(isinstance(part, ast.Attribute) and part.attr == "training" for part in parts)


def _read(expression: ast.expr) -> Iterator[ast.Name]:
    """The variables of an expression, but for those of which only the shape, the type or the device counts."""
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        match node:
            case ast.Attribute(attr="shape" | "dtype" | "device" | "ndim"):
                continue
            case ast.Call(func=ast.Attribute(attr="size" | "dim" | "numel"), args=arguments):
                pending += arguments
                continue
            case ast.Call(func=ast.Attribute(attr="type_as", value=owner)):
                pending.append(owner)
                continue
            case ast.Name():
                yield node
            case _:
                pass
        pending += ast.iter_child_nodes(node)


def _written_name(write: Write) -> str:
    """The variable that a write is to, or to a part of."""
    node: ast.AST = write.node.target if isinstance(write.node, ast.AugAssign) else write.node
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_masked(write: Write, place: ast.Subscript) -> bool:
    targets = [part for part in alternatives(write.target) if not (isinstance(part, Const) and part.value is None)]
    if write.how != "augmented" and not all(
        not part.registered if isinstance(part, Tensor) else part.is_unseen for part in targets
    ):
        return False
    return any(
        value is not None and is_called_mask(write, value, part)
        for value, part in zip(write.index, indices(place), strict=True)
    )


def _fix(code: Code, readings: list[Write], place: ast.Subscript) -> Fix | None:
    """`y = y.masked_fill(mask, 0)`, or `y = v.where(mask, y)`."""
    statement = readings[0].statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(place.value, ast.Name):
        return None
    name = place.value.id
    if not (_is_of(place.slice, name) or all(_is_as_wide(reading) for reading in readings)):
        return None
    mask, value = code.rewriter.of(place.slice), code.rewriter.of(statement.value)
    if _is_number(statement.value):
        fresh = all(_is_fresh(reading, name) for reading in readings) and _is_of(place.slice, name)
        edits = (
            code.rewriter.replace(place, name),
            code.rewriter.replace(statement.value, f"{name}.masked_fill({mask}, {value})"),
        )
        return Fix("Write it as `masked_fill`", edits, Applicability.SAFE if fresh else Applicability.UNSAFE)
    match statement.value:
        # `y[mask] = v[mask]`
        case ast.Subscript(value=origin, slice=index) if ast.dump(index) == ast.dump(place.slice):
            source = code.rewriter.of(origin)
            operand = (
                source if isinstance(origin, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({source})"
            )
            text = f"{operand}.where({mask}, {name})"
            edits = (code.rewriter.replace(place, name), code.rewriter.replace(statement.value, text))
            return Fix("Write it as `where`", edits, Applicability.UNSAFE)
    return None


def _is_fresh(write: Write, name: str) -> bool:
    """Whether a tensor was made by the function itself, and is known under one name."""
    targets = alternatives(write.target)
    return {sharer for sharer, _ in write.sharing} == {name} and all(
        isinstance(part, Tensor) and part.base is None and part.origin == "computed" for part in targets
    )


def _is_as_wide(write: Write) -> bool:
    """Whether a mask certainly has as many dimensions as the tensor: `masked_fill` and `where` align fewer at the other end."""
    ranks = {
        part.rank if isinstance(part, Tensor) else None
        for value in (write.target, *write.index)
        for part in (alternatives(value) if value is not None else (UNKNOWN,))
    }
    return len(ranks) == 1 and None not in ranks


def _is_of(mask: ast.expr, name: str) -> bool:
    """Whether a mask compares the tensor of that name, so that it has as many dimensions: more cannot index it."""
    match mask:
        case ast.Compare(left=ast.Name(id=tensor), ops=[_], comparators=[_]):
            return tensor == name
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_of(left, name) or _is_of(right, name)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="isnan" | "isinf"), args=[ast.Name(id=tensor)]
        ):
            return tensor == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="isnan" | "isinf"), args=[]):
            return tensor == name
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_of(operand, name)
    return False


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))

"""SHP007: a per-channel parameter that is reshaped for inputs of one rank only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import (
    Applicability,
    Diagnostic,
    Fix,
    Instance,
    Rule,
    Severity,
    Tensor,
    alternatives,
    operators,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Operator, TensorFact, Value

_RANKED = r"(?:Conv|Pool|BatchNorm|InstanceNorm|Dropout|Pad|conv|_pool|Transpose)\w*([123])d\Z"
_NAMED_AFTER_RANK = r"[123]_?[dD](?![a-z])"


_RESHAPES = frozenset({"aten::view", "aten::_unsafe_view", "aten::_reshape_alias", "aten::reshape"})
_BROADCASTS = frozenset(
    f"aten::{name}{mark}"
    for name in ("add", "sub", "rsub", "mul", "div", "pow", "maximum", "minimum", "where")
    for mark in ("", "_")
)


class _Use(NamedTuple):
    """An operation that broadcasts, with the values of its two operands and how they are written."""

    values: tuple[Value, Value]
    written: tuple[ast.expr, ast.expr] | None


class RankPinnedBroadcast(Rule):
    """A per-channel parameter reshaped to a fixed rank, against an input that may have another.

    ## What it does
    Finds `weight.view(1, -1, 1, 1) * x` and its like, where `weight` is a parameter of one dimension and nothing in the class says
    how many dimensions `x` has. A live run says which rank it has: where that is another, it is a warning.

    ## Why
    Against an input of another rank the parameter broadcasts over other dimensions: the result gets another shape without a
    word, or the operation stops. A layer that is written by hand in the place of one of PyTorch's, `PReLU` for one, takes any
    rank there.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.weight.view(1, -1, 1, 1) * x


    inputs = (torch.randn(1, 4, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.weight.view(1, -1, *([1] * (x.dim() - 2))) * x


    inputs = (torch.randn(1, 4, 8),)
    ```

    ## Fix safety
    The fix is unsafe: for an input of the rank that is written nothing changes, for others the result does.

    ## Known limits
    In source, a class whose name says the rank (`LayerNorm2d`), and a function that asks for the rank itself, are left alone, and
    so is what comes from modules that are not followed. A live run in which the ranks agree takes the finding back. The fix wants
    the other operand to be a name, or an activation of one.

    ## References
    - <https://pytorch.org/docs/stable/notes/broadcasting.html>
    """

    code = "SHP007"
    name = "rank-pinned-broadcast"
    severity = Severity.INFO
    only_inference = True
    only_modules = True
    only_forward = True
    needs = (frozenset({".view", ".reshape", "~reshape"}), frozenset({"Parameter", "register_parameter"}))
    fixable = "a shape of any rank"
    advice = "Give the parameter as many dimensions as the tensor that it meets"
    live_needs = "run"
    withdraws = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every reshaped parameter what it meets."""
        if code.ref is None or re.search(_NAMED_AFTER_RANK, code.name or ""):
            return
        pinned: dict[ast.AST, Call] = {}
        for calls in code.calls:
            call = calls[0]
            if call.method in ("view", "reshape") and call.function in code.in_forward and all(map(_is_pinned, calls)):
                pinned[call.node] = call
        if not pinned:
            return
        ranked = _ranked(code)
        for uses in _uses(code):
            pinned_by = {_met(use, pinned, ranked) for use in uses}
            node = next(iter(pinned_by)) if len(pinned_by) == 1 else None
            if node is None or _asks_for_rank(pinned[node].function):
                continue
            call = pinned.pop(node)
            (result,) = alternatives(call.result)
            rank = result.rank if isinstance(result, Tensor) else None
            yield code.finding(
                self,
                call.node,
                f"the parameter is reshaped for inputs of rank {rank}: it broadcasts to another shape against any other",
                fix=_fix(code, call, uses[0]),
                statement=call.statement,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Follow every reshaped parameter to what it meets."""
        from modellint.authoring import Reach, facts_in

        run = subject.run
        if run is None:
            return
        parameters = {name for state in subject.state if state.kind == "parameter" for name in state.names}
        computed = Reach.of_inputs(run)
        reshaped: dict[tuple[object, ...], Operator] = {}
        for operator in run.operators:
            operands = list(facts_in((operator.arguments, operator.keywords)))
            if (
                operator.name in _RESHAPES
                and operands[0].name in parameters
                and _is_per_channel(operands[0], operator.outputs[0])
            ):
                reshaped[operator.outputs[0].memory] = operator
                continue
            met = [fact for fact in operands if fact.memory in reshaped]
            if not met or not operator.outputs:
                continue
            others = [fact for fact in operands if fact.memory not in reshaped]
            if all(fact.rank == 0 for fact in others):
                # An activation of the parameter, or its sum with a number.
                for output in operator.outputs:
                    if output.shape == met[0].shape:
                        reshaped[output.memory] = reshaped[met[0].memory]
            elif operator.name in _BROADCASTS:
                for operand in others:
                    if operand in computed and operand.rank not in (0, met[0].rank):
                        view = reshaped[met[0].memory]
                        yield subject.finding(
                            self,
                            f"the parameter is reshaped for inputs of rank {met[0].rank} and meets one of rank {operand.rank}: "
                            "it broadcasts over other dimensions",
                            at=view.place,
                            severity=Severity.WARNING,
                            modules=[view.module],
                        )


def _is_per_channel(parameter: TensorFact, result: TensorFact) -> bool:
    """Whether a parameter of one dimension is seen as channels of something with at least one dimension behind them."""
    if parameter.rank != 1 or result.rank < 3 or parameter.shape[0] == 1:
        return False
    return tuple(result.shape) == (1, parameter.shape[0], *([1] * (result.rank - 2)))


def _is_pinned(call: Call) -> bool:
    """Whether a parameter of one dimension gets dimensions of size 1, on both sides, by a number of them that is fixed."""
    result = call.result
    if not isinstance(result, Tensor) or result.layout is None or not result.layout.rank or result.base is None:
        return False
    first, *middle = (axis.is_one for axis in result.layout.axes)
    is_parameter = result.base.rank == 1 and result.root.kind == "parameter"
    return is_parameter and first and len(middle) > 1 and not middle[0] and all(middle[1:])


def _uses(code: Code) -> Iterator[list[_Use]]:
    for operations in code.operations:
        node = operations[0].node
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            written = node.left, node.right
        elif isinstance(node, ast.AugAssign):
            written = node.target, node.value
        else:
            continue
        yield [_Use((left, right), written) for left, right in (o.operands for o in operations if len(o.operands) == 2)]
    for calls in code.calls:
        call = calls[0]
        if (
            call.method.removesuffix("_") not in operators.broadcasting
            or not call.name.startswith("torch.")
            or call.arguments.spread
        ):
            continue
        values = [([] if c.receiver is None else [c.receiver]) + c.arguments.positional for c in calls]
        owner = (
            [call.node.func.value] if isinstance(call.node.func, ast.Attribute) and call.receiver is not None else []
        )
        texts = [*owner, *call.node.args]
        if call.method != "where" and all(len(each) == 2 for each in values) and len(texts) == 2:
            yield [_Use((left, right), (texts[0], texts[1])) for left, right in values]


def _met(use: _Use, pinned: dict[ast.AST, Call], ranked: set[int]) -> ast.AST | None:
    """The reshaping whose result meets a tensor that may have another rank."""
    for value, opposite in (use.values, use.values[::-1]):
        nodes = {_reshaped(part, pinned) for part in alternatives(value)}
        node = nodes.pop() if len(nodes) == 1 else None
        if node is not None and all(_may_differ(part, ranked) for part in alternatives(opposite)):
            return node
    return None


def _reshaped(value: Value, pinned: dict[ast.AST, Call]) -> ast.AST | None:
    while isinstance(value, Tensor):
        if value.node in pinned:
            return value.node
        if value.base is None:
            return None
        value = value.base
    return None


def _may_differ(value: Value, ranked: set[int]) -> bool:
    """Whether it is a tensor that the caller gives, or one computed of it, and nothing says of which rank."""
    if not isinstance(value, Tensor) or value.batch is None or value.assumed or value.layout is None:
        return False
    return value.rank is None and id(value.layout) not in ranked


def _ranked(code: Code) -> set[int]:
    """Layouts of tensors that something in the class takes for tensors of one rank."""
    layouts: set[int] = set()
    for calls in code.calls:
        for call in calls:
            first = call.arguments.get(0)
            names = [part.name for part in alternatives(call.callee) if isinstance(part, Instance)] or [call.name]
            if call.method in ("permute", "view_as") and call.receiver is not None:
                first = call.receiver
            elif not any(re.search(_RANKED, name) for name in names) and call.method not in (
                "permute",
                "pixel_shuffle",
            ):
                continue
            for part in alternatives(first) if first is not None else ():
                if isinstance(part, Tensor):
                    layouts.add(id(part.layout))
    return layouts


def _asks_for_rank(function: ast.AST | None) -> bool:
    """Whether a function looks at the number of dimensions of something."""
    for node in walk(function) if function is not None else ():
        match node:
            case ast.Attribute(attr="dim" | "ndim" | "ndimension"):
                return True
            case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="shape") | ast.Call()]):
                return True
            case _:
                pass
    return False


def _fix(code: Code, call: Call, use: _Use) -> Fix | None:
    """As many dimensions as the other operand has, where that is a name, or an activation of one."""
    if use.written is None or call.node not in use.written:
        return None
    operand = use.written[1 - use.written.index(call.node)]
    name = _name(operand)
    sizes = call.node.args if call.receiver is not None else call.node.args[1:]
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    if name is None or call.node.keywords or len(sizes) < 3:
        return None
    rewriter = code.rewriter
    start, end = rewriter.start(sizes[2]), rewriter.end(sizes[-1])
    edit = rewriter.source.replace(start, end, f"*([1] * ({name}.dim() - 2))")
    title = f"Give the parameter as many dimensions as `{name}` has; outputs of inputs of another rank change"
    return Fix(title, (edit,), Applicability.UNSAFE)


def _name(node: ast.expr) -> str | None:
    """The name of a tensor that an expression has the shape of."""
    match node:
        case ast.Name():
            return node.id
        case ast.UnaryOp(operand=operand):
            return _name(operand)
        case ast.Call(func=ast.Attribute(attr=method, value=owner), args=arguments) if method in operators.element_wise:
            return _name(arguments[0]) if arguments and _is_namespace(owner) else _name(owner)
    return None


def _is_namespace(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "functional", "nn")

"""REG007: an operation on a new parameter that leaves a plain tensor behind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Diagnostic, Fix, Rule, Severity, Trigger, alternatives, operators, walk

if TYPE_CHECKING:
    from modellint.authoring import Binding, Code

_CASTS = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "type_as", "xpu"})
_INTEGERS = frozenset({"long", "int", "short", "bool", "byte", "char"})
_SHAPES = frozenset(
    {"clone", "view", "reshape", "flatten", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand", "repeat"}
)
_ARITHMETIC = frozenset({"mul", "div", "add", "sub", "neg", "pow", "sqrt", "exp", "log", "abs", "sigmoid", "clamp"})
_LOSING = _CASTS | _INTEGERS | _SHAPES | _ARITHMETIC
"""Methods that give another tensor than the one they are called on, at least where there is something to do."""


class ParameterLostByCast(Rule):
    """A new parameter that a cast, a move or arithmetic turns into a plain tensor.

    ## What it does
    Finds `self.w = nn.Parameter(...).to(device)`, and the same with `.cuda()`, `.half()`, `* 0.1` or another operation behind the
    parameter.

    ## Why
    The result is a new tensor, not a parameter: the attribute is not registered, no optimizer trains it, no checkpoint holds it,
    and `.to()` of the module leaves it behind. Where the cast has nothing to do it returns the parameter itself, so that the
    same code works on the CPU.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8)) * 0.1

        def forward(self, x):
            return x * self.weight
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter((torch.ones(8)) * 0.1)

        def forward(self, x):
            return x * self.weight
    ```

    ## Fix safety
    The fix is safe: the values stay. It adds a `state_dict` key, and an optimizer now trains the parameter. There is no fix where
    the attribute is bound or changed elsewhere, nor for casts to integers, which cannot ask for gradients.

    ## Known limits
    A parameter that a variable holds before it is cast is not followed. A cast to float32, and a move to the CPU, counts only
    where the parameter is seen to be of another type, or elsewhere: it gives the parameter itself otherwise. A move
    to the device where the code made the tensor counts no more than these.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html>
    - <https://discuss.pytorch.org/t/why-does-nn-parameter-to-device-not-work/41045>
    """

    code = "REG007"
    name = "parameter-lost-by-cast"
    severity = Severity.WARNING
    fixable = "move the cast inside"
    advice = "Move the operation inside: `nn.Parameter(t.to(d))`"
    needs = ("Parameter", Trigger.CASTS_PARAMETER)
    supersedes = ("REG006", "REG015")
    only_modules = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every attribute whether what it is bound to ends in a parameter."""
        for binding in code.bindings:
            if binding.file is not code.file or binding.form not in ("assign", "annotated", "setattr"):
                continue
            if not _stands(code, binding):
                continue
            for expression in _arms(_expression(code, binding)):
                parameter = _lost(code, expression)
                if parameter is not None and not (binding.method == "forward" and _is_constant(parameter)):
                    yield code.finding(
                        self,
                        binding.statement,
                        f"`self.{binding.attribute}` is a plain tensor, which nothing trains or saves: "
                        "the operation behind `Parameter(...)` gives a new one",
                        attribute=binding.attribute,
                        fix=_fix(code, binding, expression, parameter),
                    )


def _is_constant(parameter: ast.Call) -> bool:
    """Whether nothing is to train what a call makes: `forward` makes it anew each time, and nothing is lost."""
    return any(
        word.arg == "requires_grad" and isinstance(word.value, ast.Constant) and word.value.value is False
        for word in parameter.keywords
    )


def _stands(code: Code, binding: Binding) -> bool:
    """Whether what a statement binds is what the attribute holds in the end."""
    if binding.method == "__init__":
        return binding in code.attributes.get(binding.attribute, ())
    others = [b for b in code.bindings_of(binding.attribute) if b.method == binding.method]
    return all(b.statement is binding.statement for b in others)


def _expression(code: Code, binding: Binding) -> ast.expr | None:
    """What is bound, a variable that is bound once looked through."""
    if not isinstance(binding.expression, ast.Name):
        return binding.expression
    name = binding.expression.id
    for function in code.lineage[0].node.body if code.lineage else ():
        if isinstance(function, ast.FunctionDef) and any(node is binding.statement for node in walk(function)):
            stores = [
                n
                for n in walk(function)
                if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
            ]
            assigns = [n for n in walk(function) if isinstance(n, ast.Assign) and n.targets[0] in stores]
            if len(stores) == len(assigns) == 1:
                return assigns[0].value
    return None


def _arms(expression: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(expression, ast.IfExp):
        yield from _arms(expression.body)
        yield from _arms(expression.orelse)
    elif expression is not None:
        yield expression


def _lost(code: Code, expression: ast.expr) -> ast.Call | None:
    """The call that makes a parameter of which the expression keeps another tensor only."""
    node = expression
    lost = False
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) as call if name in _LOSING:
                node, lost = inner, lost or not _is_idle(call, inner)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name.endswith("_"):
                node = inner
            case ast.Attribute(value=inner, attr="T" | "mT"):
                node, lost = inner, True
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow()):
                node, lost = (right if _is_parameter(code, right) else left), True
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                node, lost = operand, True
            case _:
                return node if lost and isinstance(node, ast.Call) and _is_parameter(code, node) else None


def _is_idle(cast: ast.Call, inner: ast.expr) -> bool:
    """Whether a cast or a move has nothing to do, as far as it is seen, or may have nothing to do: it gives the parameter itself."""
    method = cast.func.attr if isinstance(cast.func, ast.Attribute) else ""
    arguments = _given(cast)
    if method in _MOVES and _is_there(method, arguments, inner):
        return True
    told = arguments if method in ("to", "type") else [method]
    if not told or any(part not in _IDLE for part in told):
        return False
    words = {getattr(part, field, None) for part in walk(inner) for field in ("attr", "id", "arg", "value")}
    return not any(isinstance(word, str) and re.search(_OTHERS, word) for word in words)


def _given(call: ast.Call) -> list[str]:
    return [ast.unparse(part) for part in (*call.args, *(word.value for word in call.keywords))]


def _is_there(method: str, arguments: list[str], inner: ast.expr) -> bool:
    """Whether what is moved was made, or moved, where it goes: `Parameter(torch.zeros(2, device=d)).to(d)`."""
    return any(
        (isinstance(call.func, ast.Attribute) and call.func.attr == method and _given(call) == arguments)
        or any(word.arg == "device" and [ast.unparse(word.value)] == arguments for word in call.keywords)
        for call in walk(inner)
        if isinstance(call, ast.Call)
    )


_MOVES = frozenset({"to", "cuda", "xpu", "type_as"})
_IDLE = frozenset({"float", "cpu", "torch.float32", "torch.float", "torch.FloatTensor", "'cpu'", "torch.device('cpu')"})
"""Casts to what a parameter is as a rule, by their names and by what `to` and `type` are told."""
_OTHERS = r"(?i)half|double|float(?:16|64|_)|int|long|bool|dtype|numpy|cuda|device|type|meta"
"""What shows that a parameter may be of another type, or elsewhere."""


def _is_parameter(code: Code, node: ast.expr) -> bool:
    readings = code.readings(node)
    return bool(readings) and all(reading.name in operators.parameter_classes for reading in readings)


def _fix(code: Code, binding: Binding, expression: ast.expr, parameter: ast.Call) -> Fix | None:
    inside = set(walk(parameter))
    around = [node for node in walk(expression) if node not in inside]
    if not _may_be_parameter(code, binding) or not all(map(_keeps_floats, around)):
        return None
    if len(parameter.args) != 1 or isinstance(parameter.args[0], (ast.Starred, ast.GeneratorExp)):
        return None
    if any(
        call is not parameter and _is_parameter(code, call) for call in walk(expression) if isinstance(call, ast.Call)
    ):
        return None
    rewriter = code.rewriter
    text = rewriter.text
    spelling = rewriter.of(parameter.func)
    opening, closing = text.index("(", rewriter.end(parameter.func)), rewriter.end(parameter) - 1
    rest = ""
    edits = []
    if "," in text[rewriter.end(parameter.args[0]) : closing]:
        comma = text.index(",", rewriter.end(parameter.args[0]))
        if "#" in text[rewriter.end(parameter.args[0]) : closing]:
            return None
        until = closing if parameter.keywords else comma + 1
        rest = text[comma:until] if parameter.keywords else ""
        edits.append(rewriter.remove(comma, until))
    start, first = rewriter.start(expression), rewriter.start(parameter)
    if start == first:
        edits.append(rewriter.source.replace(start, opening + 1, f"{spelling}(("))
    else:
        edits.append(rewriter.insert(start, f"{spelling}("))
        edits.append(rewriter.source.replace(first, opening + 1, "("))
    edits.append(rewriter.insert(rewriter.end(expression), rest + ")"))
    return Fix("Do it before the parameter is made; adds a `state_dict` key", tuple(edits))


def _may_be_parameter(code: Code, binding: Binding) -> bool:
    """Whether nothing binds or changes the attribute in a way that a parameter refuses."""
    name = binding.attribute
    if binding.method != "__init__" or binding.form == "setattr" or code.defines(name):
        return False
    live = code.attributes.get(name, ())
    if any(b not in live and not _is_taken(b) for b in code.bindings_of(name)):
        return False
    return not any(
        not write.quiet and _changes(write.node, name)
        for first in code.part_writes(name)
        for write in code.flow.writes[first.node]
    )


def _is_taken(binding: Binding) -> bool:
    """Whether a registered parameter may be bound to it: to another, or to None."""
    return all(
        getattr(part, "kind", "") == "parameter" or (isinstance(part, Const) and part.value is None)
        for part in alternatives(binding.value)
    )


def _changes(node: ast.AST, attribute: str) -> bool:
    """Whether a write is to the attribute itself or a part of it, seen by autograd: a parameter refuses that."""
    while True:
        match node:
            case ast.Attribute(value=ast.Name(), attr=name):
                return name == attribute
            case ast.Attribute(attr="data" | "detach"):
                return False
            case (
                ast.Attribute(value=inner)
                | ast.Subscript(value=inner)
                | ast.Call(func=inner)
                | ast.AugAssign(target=inner)
            ):
                node = inner
            case _:
                return False


def _keeps_floats(node: ast.AST) -> bool:
    """Whether a part of an expression is no cast to integers, and nothing that only the tensor's history allows."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return (
                name not in _INTEGERS
                and not name.startswith(("int", "uint", "long", "bool"))
                and not name.endswith("_")
            )
        case ast.NamedExpr() | ast.Await() | ast.Yield():
            return False
    return True

"""FLW004: a loop as long as a tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import (
    Diagnostic,
    Instance,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    of_kind,
    tensors_in,
    walk,
)
from modellint_rules.flow.open_sizes import holds_size, open_sizes
from modellint_rules.flow.spatial_shape_tensors import goes_through_sizes
from modellint_rules.flow.weight_sized_loops import Joins, are_counted_by_weights

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Loop, Question


class LoopOverTensorLength(Rule):
    """A loop in `forward` with as many turns as a tensor has elements in a dimension.

    ## What it does
    Finds `for` loops and comprehensions over a tensor, over `range` of one of its sizes, and `while` loops up to one, where
    the size depends on what the caller gives.

    ## Why
    Tracing unrolls the loop for the sample input, and so does `torch.export`: with a flexible dimension the converted model
    computes the sample's number of turns whatever it gets, without a word, or is refused. With a fixed size it is right,
    but every turn is a copy of the body.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            steps = []
            for t in range(x.shape[1]):
                steps.append(x[:, t].cumsum(-1))
            return torch.stack(steps, 1)


    inputs = (torch.randn(2, 5, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return x.cumsum(-1)


    inputs = (torch.randn(2, 5, 4),)
    ```

    ## Fix safety
    There is no fix: operators on the whole tensor have to take the loop's place.

    ## Known limits
    A loop whose number of turns the code fixes, by a constant size, an assertion that nothing goes round
    (`if x.shape[1] != 7: raise`; an operand of unknown rank is taken to widen no sum or product), a list
    (`x = [f(part) for part in x]` too, a tensor made of
    one that a loop of fixed length has filled, and an argument that is one wherever the project calls the class), an axis that
    a pattern of `einops` binds (`rearrange(x, "b (u h) w -> b u h w", u=5)`) or a configuration value, or the weights of the
    layer or the product that takes what the turns make (`torch.cat(parts, 1)` before a convolution), or a parameter that `forward`
    always adds to what it is a size of, is left alone, and so are loops that only look for a number which divides a size,
    loops in training only, in losses, and in functions that TorchScript compiles, which
    a trace keeps (with `--frontend export` they are found). A loop over what is called sources,
    axes, channels, heads, states or features, over the sizes of the parts that each input is cut into, or up to a size that
    only code which cannot be seen tells, or that calls `self.layers[i]` in each turn, is for information: as a rule
    every input has as many.

    ## References
    - <https://github.com/apple/coremltools/issues/1995>
    """

    code = "FLW004"
    name = "loop-over-tensor-length"
    severity = Severity.WARNING
    advice = "Compute all rows at once, or give the input one size"
    only_inference = True
    live_needs = "run"
    needs = (frozenset({"for", "while"}), "forward", Trigger.LOOPS_OVER_DATA)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every loop what it goes through."""
        if code.is_never_exported:
            return
        joins = Joins(code)
        for readings in code.loops:
            if all(not reading.aside and (_is_over(code, reading) or _counts(code, reading)) for reading in readings):
                turns = readings[0]
                loop = turns.statement
                if isinstance(loop, ast.For) and turns.node is loop.iter and code.only_reports(loop.body):
                    continue
                if (
                    _is_a_list(turns)
                    or _goes_through_lists(turns)
                    or _makes_empty_lists(turns)
                    or _is_kept(code, readings)
                    or _is_given_as_a_list(code, turns)
                    or are_counted_by_weights(code, turns, joins)
                ):
                    continue
                yield code.finding(
                    self,
                    turns.node,
                    "This loop runs over a dimension of a tensor: it is unrolled for the sample input, whatever size others have",
                    severity=code.severity_at(
                        Severity.INFO if _is_of_the_model(code, turns) else self.severity,
                        turns.node,
                        turns.function,
                    ),
                    statement=turns.statement,
                )
        for questions in code.questions:
            question = questions[0]
            aside = any(reading.aside for reading in questions)
            if not aside and _runs_up_to_size(code, question) and not _is_kept(code, questions):
                yield code.finding(
                    self,
                    question.test,
                    "This loop runs up to a size of a tensor: it is unrolled for the sample input, whatever size others have",
                    severity=code.severity_at(self.severity, question.test, question.function),
                    statement=question.statement,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Run the model on larger inputs, and look for loops that take more turns."""
        for loop in subject.long_loops:
            yield subject.finding(
                self,
                "This loop runs over a dimension of a tensor: it is unrolled for the sample input, whatever size others have",
                at=loop.place,
                modules=loop.modules,
            )


def _is_kept(code: Code, readings: Sequence[Loop | Question]) -> bool:
    """Whether TorchScript compiles a loop, so that a trace keeps it as a loop."""
    return code.destination.frontend != "export" and code.is_compiled(readings)


def _is_a_list(turns: Loop) -> bool:
    """Whether a variable holds a list before and after: `x = [f(part) for part in x]`."""
    match turns.statement:
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.ListComp(generators=[ast.comprehension(iter=ast.Name(id=source))])
        ):
            return target == source
    return False


def _goes_through_lists(turns: Loop) -> bool:
    """Whether each part is joined as a list of tensors, which a tensor is not: `[torch.stack(row) for row in rows]`."""
    match turns.statement:
        case ast.For(target=ast.Name(id=name), iter=iterated) if iterated is turns.node:
            return _joins_parts_of(turns.statement, name)
    loops = (part for part in walk(turns.statement) if isinstance(part, (ast.ListComp, ast.GeneratorExp)))
    for part in loops:
        generator = part.generators[0]
        if generator.iter is turns.node and isinstance(generator.target, ast.Name):
            return _joins_parts_of(part.elt, generator.target.id)
    return False


def _joins_parts_of(node: ast.AST, name: str) -> bool:
    """Whether what stands in a loop joins its variable, which it binds to nothing else."""
    stores = [part for part in walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)]
    if sum(part.id == name for part in stores) > isinstance(node, ast.For):
        return False
    for call in walk(node):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=function), args=[ast.Name(id=given), *_]):
                if given == name and function in _JOINS:
                    return True
    return False


_JOINS = frozenset({"stack", "cat", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack"})
"""What takes a list or tuple of tensors, and no tensor."""


def _makes_empty_lists(turns: Loop) -> bool:
    """Whether a loop makes a place for each turn, and computes nothing: `[[] for _ in range(n)]`, `rows.append([])`."""
    match turns.statement:
        case ast.For(iter=iterated, body=body) if iterated is turns.node:
            return all(map(_adds_a_place, body))
    return any(
        part.generators[0].iter is turns.node
        and (not isinstance(part, ast.DictComp) or isinstance(part.key, ast.Name) or _is_empty_place(part.key))
        and _is_empty_place(part.value if isinstance(part, ast.DictComp) else part.elt)
        for part in walk(turns.statement)
        if isinstance(part, (ast.ListComp, ast.DictComp))
    )


def _adds_a_place(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr="append"), args=[place], keywords=[])):
            return not isinstance(place, ast.Constant) and _is_empty_place(place)
        case ast.Assign(targets=[ast.Subscript(value=ast.Name())], value=place):
            return not isinstance(place, ast.Constant) and _is_empty_place(place)
    return False


def _is_empty_place(place: ast.expr) -> bool:
    """Whether an expression is a constant, or an empty list, dict or set, or holds nothing but such."""
    match place:
        case ast.Call(func=ast.Name(id="list" | "dict" | "set"), args=[], keywords=[]):
            return True
    return not any(isinstance(inner, (ast.Call, ast.BinOp, ast.Name)) for inner in walk(place))


def _is_given_as_a_list(code: Code, turns: Loop) -> bool:
    """Whether a loop goes through an argument of `forward` that is a list wherever the project calls it: `for x in xs`, `enumerate(xs)`."""
    node = turns.node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        node = node.args[0]
    function = turns.function
    return (
        isinstance(node, ast.Name)
        and isinstance(function, ast.FunctionDef)
        and function.name == "forward"
        and not any(part.id == node.id and isinstance(part.ctx, ast.Store) for part in of_kind(function, ast.Name))
        and code.is_given_lists(node.id)
    )


def _is_of_the_model(code: Code, turns: Loop) -> bool:
    """Whether it is likely that the model, and no input, says how many turns a loop takes."""
    return _is_of_the_architecture(turns) or _is_counted_by_the_unseen(code, turns) or goes_through_sizes(turns)


def _is_of_the_architecture(turns: Loop) -> bool:
    """Whether a loop goes through what every input has as many of: sources, axes, heads by its names, or layers by what it calls."""
    loops = [
        part
        for part in walk(turns.statement)
        if isinstance(part, (ast.For, ast.comprehension)) and part.iter is turns.node
    ]
    targets = [part for loop in loops for part in walk(loop.target)]
    if any(isinstance(part, ast.Name) and re.search(_PARTS, part.id) for part in (*targets, *walk(turns.node))):
        return True
    if isinstance(turns.node, ast.Name) and re.search(_STATES, turns.node.id):
        return True
    counters = {part.id for part in targets if isinstance(part, ast.Name)}
    for part in walk(turns.statement):
        match part:
            # `self.layers[i](x)`: the model has one for each turn.
            case ast.Call(func=ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name(id=name))):
                if name in counters:
                    return True
    return False


_PARTS = (
    r"(?:^|_)n?(?:spks?|speakers?|srcs?|sources?|axis|axes|dims?|channels?|heads?|codebooks?|layers?|levels?|classes|mics?)"
    r"(?:_|$|\d)"
)
_STATES = r"(?<!hidden)(?:^|_)states$"
"""What recurrent layers keep, one for each of their kinds."""


def _runs_up_to_size(code: Code, question: Question) -> bool:
    test = question.test
    counts = isinstance(question.site, ast.While) and isinstance(test, ast.Compare)
    return counts and holds_size(code, test, question.function) and not _looks_for_a_divisor(code, question)


def _looks_for_a_divisor(code: Code, question: Question) -> bool:
    """Whether a loop computes nothing but a number that a size is divided by: `while x.shape[1] % n != 0: n -= 1`."""
    match question.site, question.test:
        case ast.While(body=body), ast.Compare(left=ast.BinOp(op=ast.Mod(), left=size, right=ast.Name(id=divisor))):
            pass
        case _:
            return False
    counts = False
    for statement in body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Sub() | ast.Add(), value=ast.Constant()):
                counts = counts or name == divisor
                if any(isinstance(part, ast.Name) and part.id == name for part in walk(size)):
                    return False
            case _ if not code.only_reports([statement]):
                return False
    return counts


_PASSING = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter", "tqdm"})


def _is_over(code: Code, turns: Loop) -> bool:
    """Whether a loop goes through a tensor, itself or by `enumerate` and the like."""
    parts = alternatives(turns.value)
    if all(part.is_data for part in parts):
        return not all(
            isinstance(part, Tensor) and (part.has_fixed_size(0) or code.is_fixed_by_lists(part, 0)) for part in parts
        )
    match turns.node:
        case ast.Call(func=ast.Name(id=name)) if name in _PASSING:
            calls = code.readings(turns.node)
            return bool(calls) and all(_goes_through_tensors(call, name) for call in calls)
        case ast.Call(func=ast.Attribute(attr="unbind")):
            calls = code.readings(turns.node)
            return bool(calls) and not any(map(_is_unbound_by_the_code, calls))
    return False


def _goes_through_tensors(call: Call, name: str) -> bool:
    """Whether all that `zip`, or the first that `enumerate` and the like are given, are tensors, or parts that `split` gives."""
    if call.arguments.spread:
        parts = tensors_in(call.arguments.spread)
        return bool(parts) and all(part.is_data and part.made_by == "split" for part in parts)
    arguments = call.arguments.positional[: None if name == "zip" else 1]
    return bool(arguments) and all(all(part.is_data for part in alternatives(value)) for value in arguments)


def _goes_through_layers(code: Code, node: ast.Call) -> bool:
    """Whether `zip` is given layers, too: it ends with the last of them."""
    calls = code.readings(node)
    return bool(calls) and all(
        any(
            all(isinstance(part, Instance) and part.kind == "module" for part in alternatives(value))
            for value in call.arguments.positional
        )
        for call in calls
    )


def _is_unbound_by_the_code(call: Call) -> bool:
    """Whether `unbind` takes apart what the code itself put together: a dimension of a size that it knows, or that nothing is known of."""
    tensor = call.receiver
    if not isinstance(tensor, Tensor) or not tensor.is_data:
        return True
    argument = call.arguments.get(0, "dim")
    dim = 0 if not call.has(0, "dim") else None if argument is None else argument.integer
    fixed = dim is not None and tensor.has_fixed_size(dim)
    return fixed or (dim != 0 and tensor.root.origin != "argument")


def _counts(code: Code, turns: Loop) -> bool:
    """Whether a loop counts up to a size."""
    return any(holds_size(code, bound, turns.function) for bound in _bounds(code, turns))


def _bounds(code: Code, turns: Loop) -> Sequence[ast.expr]:
    """The numbers that a loop counts from and up to."""
    match turns.node:
        case ast.Call(func=ast.Name(id="range"), args=arguments):
            return arguments
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _PASSING:
            if name == "zip" and _goes_through_layers(code, turns.node):
                return ()
            return [
                bound
                for part in arguments
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "range"
                for bound in part.args
            ]
    return ()


def _is_counted_by_the_unseen(code: Code, turns: Loop) -> bool:
    """Whether only code that cannot be seen says how many turns there are: a size, not that of the batch, of what it gave."""
    sizes = [size for bound in _bounds(code, turns) for size in open_sizes(code, bound, turns.function)]
    return bool(sizes) and all(
        tensor.root.origin == "unseen" and (dim or tensor.made_by in _RESHAPING) for tensor, dim in sizes
    )


_RESHAPING = frozenset({"view", "reshape"})

"""NUM008: an index that the converted program computes in float16."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Const,
    Diagnostic,
    Instance,
    Rule,
    Severity,
    Tensor,
    TensorFact,
    Value,
    alternatives,
    facts_in,
)
from modellint_rules.numerics.conversion_precision import is_converted_in_float32

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Operator

_EXACT = 2048
"""Float16 holds every whole number up to this one."""


class IndexInFloat16(Rule):
    """An index, of whole numbers, that the converted program computes in float16.

    ## What it does
    Finds `clamp` and `clip` with one bound, and `torch.div` with a `rounding_mode`, of whole numbers whose result `forward` uses as an
    index: in `table[i]`, `gather`, `index_select`, `take_along_dim` and embeddings. In a live model also `sum` of more than 2048 truth
    values, as in `h[rows, (ids != 0).sum(-1) - 1]`.

    ## Why
    In the place of a bound that is missing coremltools writes the largest float, and computes with floats from there on; so it does to
    round a quotient, and to count truth values. By default these are float16, which has no odd numbers above 2048: index 2049 becomes
    2048, 4095 becomes 4096. The converted model reads another row, and nobody says so.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(30000, 8)

        def forward(self, ids):
            return self.embedding(ids.clamp(min=0))


    inputs = (torch.tensor([[1, 5, 2049]]),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(30000, 8)

        def forward(self, ids):
            return self.embedding(ids.clamp(min=0, max=29999))


    inputs = (torch.tensor([[1, 5, 2049]]),)
    ```

    ## Fix safety
    There is no fix: the other bound is the size of what is read.

    ## Known limits
    Indices up to 2048 are right: where an upper bound or the size of an embedding says that there are no others, nothing is reported;
    it is information in source where nothing says how much there is to read, unless an index is divided.
    In source the result has to be the index itself, or a view or cast of it. With `--precision fp32` nothing is lost.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.clamp.html>
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    """

    code = "NUM008"
    name = "index-in-float16"
    severity = Severity.WARNING
    only_inference = True
    silent = ("trace", "export")
    needs = ("forward", frozenset({"~clamp", ".clamp", "~clip", ".clip", ".clamp_", "rounding_mode"}))
    only_modules = True
    only_forward = True
    live_needs = "run"
    only_for = ("coreml",)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every index what computed it."""
        if code.destination.precision == "fp32" or code.is_never_exported:
            return
        reported: set[ast.AST] = set()
        for indices, is_long in _indices(code):
            sources = [_rounded_by(part) for index in indices for part in alternatives(index)]
            node = sources[0] if sources else None
            if node is None or node in reported or any(source is not node for source in sources):
                continue
            readings = code.readings(node)
            if not readings or not all(_rounds(reading) for reading in readings):
                continue
            reported.add(node)
            call = readings[0]
            # What is divided by a number of classes is larger than any of these.
            sure = is_long or call.method == "div"
            yield code.finding(
                self,
                node,
                _message(call.method),
                statement=call.statement,
                severity=None if sure and not is_converted_in_float32(code) else Severity.INFO,
                advice=_advice(call.method),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every index of the run what computed it."""
        run = subject.run
        if run is None or subject.destination.precision == "fp32":
            return
        rounded: dict[int, Operator] = {}
        reported: set[int] = set()
        for operator in run.operators:
            name = operator.name.removeprefix("aten::").removesuffix("_")
            if _rounds_live(name, operator):
                rounded.update((fact.tensor, operator) for fact in operator.outputs)
                continue
            operands = [fact for fact in facts_in(operator.arguments) if fact.tensor in rounded]
            if operands and name in _KEEPING:
                whole = [fact for fact in operator.outputs if "int" in fact.dtype]
                rounded.update((fact.tensor, rounded[operands[0].tensor]) for fact in whole)
            for fact in facts_in(operator.arguments[_READERS[name]]) if operands and name in _READERS else ():
                source = rounded.get(fact.tensor)
                if source is None or id(source) in reported or _is_short(name, operator):
                    continue
                reported.add(id(source))
                method = source.name.removeprefix("aten::").removesuffix("_")
                yield subject.finding(
                    self, _message(method), at=source.place, modules=[source.module], advice=_advice(method)
                )


def _message(method: str) -> str:
    if method == "sum":
        return f"`sum` of truth values makes floats of this index: in float16 an odd one above {_EXACT} becomes another"
    how = "of a quotient that is rounded" if method.startswith("div") else "to one side"
    return f"`{method}` {how} makes floats of this index: in float16 an odd one above {_EXACT} becomes another"


def _advice(method: str) -> str:
    if method.startswith("div"):
        return "Write `x // y`, of whole numbers"
    if method == "sum":
        return "Count whole numbers, as in `mask.int().sum(-1)`"
    return "Give both bounds, as whole numbers: coremltools then computes with whole numbers"


def _rounds_live(name: str, operator: Operator) -> bool:
    """Whether an operator of a run is one that coremltools computes with floats though it was given whole numbers."""
    first = next(facts_in(operator.arguments), None)
    if name == "sum" and first is not None and first.dtype == "bool" and operator.outputs:
        counted, left = (
            math.prod(size for size in fact.shape if isinstance(size, int)) for fact in (first, operator.outputs[0])
        )
        return "int" in operator.outputs[0].dtype and counted > _EXACT * left
    if first is None or "int" not in first.dtype or not all("int" in fact.dtype for fact in operator.outputs):
        return False
    if name == "div":
        return isinstance(operator.keywords.get("rounding_mode"), str)
    if name not in ("clamp", "clip"):
        return False
    bounds = [*operator.arguments[1:3], None, None][:2]
    low, high = (operator.keywords.get(word, bound) for word, bound in zip(("min", "max"), bounds, strict=True))
    return (low is None) is not (high is None) and not (isinstance(high, (int, float)) and high <= _EXACT)


_KEEPING = frozenset(
    {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "slice", "select", "transpose", "permute"}
    | {
        "add",
        "sub",
        "t",
        "clone",
        "contiguous",
        "flatten",
        "_to_copy",
        "to",
        "alias",
        "unflatten",
        "_reshape_alias",
        "detach",
    }
)
"""Operators that give the same numbers, or some of them, or others next to them."""
_READERS = {"index": 1, "gather": 2, "index_select": 2, "embedding": 1, "take_along_dim": 1}
"""Operators that take an index, and where."""


def _is_short(name: str, operator: Operator) -> bool:
    """Whether what an index reads has no more places than float16 counts."""
    read = operator.arguments[0]
    sizes = read.shape if isinstance(read, TensorFact) else ()
    if name in ("gather", "index_select") and isinstance(operator.arguments[1], int):
        sizes = sizes[operator.arguments[1] :][:1] if operator.arguments[1] >= 0 else sizes[operator.arguments[1] :]
    elif name == "embedding":
        sizes = sizes[:1]
    return bool(sizes) and all(isinstance(size, int) and size <= _EXACT for size in sizes)


def _indices(code: Code) -> Iterator[tuple[list[Value], bool]]:
    """Everything that `forward` uses as an index in an exported model, reading by reading, and whether what it reads is surely long."""
    for readings in code.operations:
        node = readings[0].node
        if not isinstance(node, ast.Subscript) or any(each.aside for each in readings):
            continue
        if readings[0].function not in code.in_forward:
            continue
        for place in zip(*(each.index for each in readings), strict=False):
            yield list(place), False
        # One that is computed in the brackets, beside slices at most.
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        computed = [part for part in parts if not isinstance(part, (ast.Slice, ast.Constant))]
        if len(computed) == 1 and isinstance(computed[0], ast.Call):
            yield [call.result for call in code.readings(computed[0])], False
    for calls in code.calls:
        if calls[0].function not in code.in_forward:
            continue
        if any(call.training or not call.exported or call.building for call in calls):
            continue
        given = [index for index in map(_index_of, calls) if index is not None]
        rows = [_rows(code, call) for call in calls]
        is_short = None not in rows and all(number <= _EXACT for number in rows if number is not None)
        if given and len(given) == len(calls) and not (is_short and rows):
            yield given, all(number is not None and number > _EXACT for number in rows)


def _index_of(call: Call) -> Value | None:
    """The index that a call is given."""
    arguments = call.arguments
    if arguments.spread or None in arguments.keywords:
        return None
    if call.name in _PLACES:
        return arguments.get(*_PLACES[call.name])
    layer = call.callee
    is_embedding = isinstance(layer, Instance) and layer.name == "torch.nn.Embedding"
    return arguments.get(0, "input") if is_embedding else None


def _rows(code: Code, call: Call) -> int | float | None:
    """How many rows the embedding has that a call runs, where that is written down or the constructor's default."""
    layer = call.callee
    built = code.readings(layer.node) if isinstance(layer, Instance) else ()
    numbers: set[int | float | None] = set()
    for reading in built:
        rows = reading.arguments.get(0, "num_embeddings")
        value, names = code.by_default(rows) if rows is not None else (None, frozenset[str]())
        known = value is not None and code.keeps_defaults(names)
        numbers.update(part.number for part in alternatives(value)) if value is not None and known else numbers.add(
            None
        )
    return numbers.pop() if len(numbers) == 1 else None


_PLACES = {
    "torch.gather": (2, "index"),
    "torch.Tensor.gather": (1, "index"),
    "torch.index_select": (2, "index"),
    "torch.Tensor.index_select": (1, "index"),
    "torch.take_along_dim": (1, "indices"),
    "torch.nn.functional.embedding": (0, "input"),
}
"""Where functions and methods take an index."""


def _rounded_by(value: Value) -> ast.Call | None:
    """The call that made an index, but for views and casts of it."""
    part = value if isinstance(value, Tensor) else None
    while part is not None:
        if part.made_by in ("clamp", "clip", "clamp_", "clip_", "div"):
            return part.node if isinstance(part.node, ast.Call) else None
        part = part.base
    return None


def _rounds(call: Call) -> bool:
    """Whether coremltools computes with floats what a call makes of whole numbers, and some may be above 2048."""
    arguments = call.arguments
    if arguments.spread or None in arguments.keywords or not call.name.startswith("torch."):
        return False
    shift = 0 if call.name.startswith("torch.Tensor.") else 1
    if call.method == "div":
        mode = arguments.get(2 - (1 - shift), "rounding_mode")
        return isinstance(mode, Const) and isinstance(mode.value, str)
    low, high = arguments.get(shift, "min"), arguments.get(shift + 1, "max")
    absent = [bound is None or (isinstance(bound, Const) and bound.value is None) for bound in (low, high)]
    if absent.count(True) != 1:
        return False
    numbers = [part.number for part in alternatives(high)] if high is not None else [None]
    return any(number is None or number > _EXACT for number in numbers)

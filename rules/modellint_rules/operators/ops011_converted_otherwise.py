"""OPS011: a use of an operator that coreai-torch converts to something else."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Operator, TensorFact


class ConvertedOtherwise(Rule):
    """A use of an operator that coreai-torch converts to something else, or to what Core AI's interpreter cannot run.

    ## What it does
    Asks every operator of the run whether its operands, their types and their sizes are among those that were measured to come out
    wrong: the nearest elements of a map that shrinks, averages that do not count their padding, the indices of a maximum, integers
    with a floating-point number, casts, an index of truth values, numbers that float16 does not hold, a
    value that is broadcast to the places it is assigned to. Where none is known, it
    compares what the interpreter gives on the example with PyTorch's outputs, and names the first operator that departs. In source it
    finds what literals show: averages, indices, factors of a map, numbers that float16 does not hold, and casts to integers and back.

    ## Why
    The conversion succeeds, and the package computes something else. Each is shown with a program, and with what the interpreter
    gives for it, in the list of Core AI's known faults.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Thumbnail(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(x, scale_factor=0.25, mode="nearest")


    inputs = (torch.ones(1, 3, 8, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Thumbnail(nn.Module):
        def forward(self, x):
            return x[:, :, ::4, ::4]


    inputs = (torch.ones(1, 3, 8, 8),)
    ```

    ## Fix safety
    There is no fix of source: `modellint export` puts other operators in their place, and says which.

    ## Known limits
    It knows the uses that can be told by types and sizes. What depends on the values, such as a row of attention that is masked
    whole, infinity, or integers above 2**31, is found if the example has them, and if it is large; `modellint verify` looks on
    more inputs. As many rows as a mask has true values are a size that few operators behind them take: an export tells whether it
    converts. A comparison of integers with a floating-point number is a warning, as it goes wrong above 2048 alone, and so is an
    assignment by a mask, as the process ends where that has no true value, and a number that is rounded to float16, which is off by
    one part in 2000 at most.

    ## References
    - <https://github.com/apple/coreai-torch>
    """

    code = "OPS011"
    name = "converted-otherwise"
    severity = Severity.ERROR
    only_for = ("coreai",)
    silent = ("export",)
    live_needs = "run"
    needs = (
        "forward",
        frozenset({"count_include_pad", "return_indices", "scale_factor", "~arange", "~threshold"})
        | frozenset(mark + name for mark in (".", "~") for name in ("int", "int16", "int32", "int64", "long", "short"))
        | frozenset({"~where", "~masked_fill", "~masked_fill_", "~index_fill", "~index_fill_", "~logit"}),
    )

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Look up the literals of every call that `forward` makes, and those that its layers were built with."""
        from modellint_rules.operators.api_calls import calls_in_forward, found_at
        from modellint_rules.operators.refusals.lookup import converted_to_another

        for call, wrong, aside in calls_in_forward(code, converted_to_another):
            claim = f"`{wrong[0].shown}`: {wrong[0].why}"
            severity = Severity.WARNING if wrong[0].rounds else self.severity
            yield from found_at(self, code, call, claim, Severity.INFO if aside else severity, wrong[0].kind, _ADVICE)

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every operator of the run for what is known to come out wrong."""
        run, is_known = subject.run, False
        if run is None:
            return
        read = _Readers(run.operators, run.output)
        for operator in run.operators:
            is_put = operator.name in _PUTS
            spread = _spread(operator) if is_put else ""
            what = spread or _wrong(operator, read) or _of_small_number(operator)
            rounded = "" if what else _of_rounded_number(operator)
            # A factor OPS007 tells of.
            is_known |= bool(what) or (operator.name in _SCALED and operator.keywords.get("alpha", 1) != 1)
            if what or rounded:
                yield subject.finding(
                    self,
                    f"`{operator.name.rpartition('::')[2]}`: {what or rounded}",
                    at=operator.place,
                    modules=[operator.module],
                    operator=operator.name,
                    advice=_ADVICE,
                    # Integers up to 2048 are compared right, and a mask that chooses something is.
                    severity=Severity.WARNING
                    if rounded or operator.name in _COMPARISONS or (is_put and not spread)
                    else self.severity,
                )
        verdict = None if is_known else subject.verdict
        if verdict is not None and verdict.is_far:
            yield from self._departing(subject)

    def _departing(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """What a comparison on the example finds, if it is no rounding."""
        verification = subject.execution
        if verification is None or verification.verdict != "differs":
            return
        first = verification.first_difference
        where = "which operator departs first is not known" if first is None else first.message
        yield subject.finding(
            self,
            f"the package computes something else on the example: {where}",
            at=None if first is None else first.place,
            modules=() if first is None else [first.module],
            operator=None if first is None else first.operator,
            advice=_COMPARED,
        )


_COMPARED = "`modellint verify` compares on more inputs, and `modellint export` tells whether its package agrees"
_ADVICE = "`modellint export` writes it in other operators, and tells whether they agree"
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8"}
_BITS = {"int8": 8, "uint8": 8, "int16": 16}
_COMPARISONS = {f"aten::{name}" for name in ("gt", "ge", "lt", "le", "eq", "ne")}
_WITH_FLOATS = {"aten::add", "aten::sub", "aten::mul", "aten::div", *_COMPARISONS}
_ROUNDING = {f"aten::{name}" for name in ("round", "floor", "ceil", "trunc", "sign", "floor_divide")}
_KEEPING_WHOLE = {
    f"aten::{name}"
    for name in (
        *("clamp", "clamp_min", "clamp_max", "relu", "hardtanh", "neg", "abs", "add", "sub", "mul", "_to_copy", "to"),
        *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "flatten", "squeeze", "unsqueeze", "expand"),
        *("slice", "select", "clone", "contiguous", "detach", "alias", "zeros", "ones", "eye"),
        *("zeros_like", "ones_like"),
    )
}
"""Operators that give whole numbers of whole numbers."""
_SCALED = {f"aten::{name}" for name in ("add", "add_", "sub", "sub_", "rsub")}
_PUTS = {"aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
_NUMBERS = {
    "aten::scalar_tensor": (0,),
    "aten::masked_fill": (2,),
    "aten::masked_fill_": (2,),
    "aten::threshold": (2,),
    "aten::logit": (1,),
    "aten::index_fill": (3,),
    "aten::index_fill_": (3,),
    "aten::arange": (0, 2),
}
"""By operator which arguments are numbers that are made in float16."""
_LARGEST_HALF, _LEAST_HALF = 65504.0, 2.0**-14
_POOLS = re.compile(r"aten::(?:avg_pool([123])d|max_pool([23])d_with_indices)\Z")
_NEAREST = re.compile(r"aten::upsample_nearest[123]d\Z")


class _Readers:
    """The tensors of a run that something reads, and the operators that read them."""

    def __init__(self, operators: tuple[Operator, ...], output: Any) -> None:
        self._readers: dict[int, list[Operator]] = {}
        self._whole: set[int] = set()
        self._of_whole: set[int] = set()
        for operator in operators:
            if all(map(self._is_whole, _tensors(operator.arguments))):
                self._of_whole.add(id(operator))
            made = {fact.tensor for fact in _tensors(operator.outputs)}
            if self._gives_whole(operator):
                self._whole |= made
            else:
                self._whole -= made
            for fact in _tensors((operator.arguments, operator.keywords)):
                self._readers.setdefault(fact.tensor, []).append(operator)
        self._returned = {fact.tensor for fact in _tensors(output)}

    def of(self, fact: Any) -> list[Operator]:
        return self._readers.get(fact.tensor, [])

    def is_of_whole(self, operator: Operator) -> bool:
        """Whether an operator of the run is given nothing but whole numbers, as those before it show."""
        return id(operator) in self._of_whole

    def _is_whole(self, fact: Any) -> bool:
        return fact.tensor in self._whole or "float" not in fact.dtype

    def _gives_whole(self, operator: Operator) -> bool:
        name = operator.name.removesuffix("_")
        if name in _ROUNDING or (name == "aten::div" and operator.keywords.get("rounding_mode")):
            return True
        numbers = [each for each in (*operator.arguments, *operator.keywords.values()) if isinstance(each, float)]
        return name in _KEEPING_WHOLE and self.is_of_whole(operator) and all(map(float.is_integer, numbers))

    def is_read(self, fact: Any) -> bool:
        return fact.tensor in self._returned or bool(self.of(fact))


def _tensors(value: Any) -> Iterator[TensorFact]:
    from modellint.authoring import TensorFact

    match value:
        case TensorFact():
            yield value
        case Mapping():
            for part in value.values():
                yield from _tensors(part)
        case tuple() | list():
            for part in value:
                yield from _tensors(part)


def _wrong(operator: Operator, read: _Readers) -> str:
    """What is wrong about a use; empty where nothing is known to be."""
    name, arguments = operator.name, operator.arguments
    if not arguments or not hasattr(arguments[0], "dtype") or not operator.outputs:
        return ""
    x, output = arguments[0], operator.outputs[0]
    if name in _WITH_FLOATS and len(arguments) > 1:
        return _with_floats(name, x, arguments[1])
    if name == "aten::_to_copy":
        return _cast(operator, x, output, read)
    if name == "aten::bitwise_not" and x.dtype == "uint8":
        return "the complement of a byte is that of a signed number"
    if _NEAREST.match(name) and any(new % old for new, old in zip(output.shape[2:], x.shape[2:], strict=True)):
        return _of_nearest(x, output)
    if pool := _POOLS.match(name):
        return _pooled(operator, int(pool[1] or pool[2]), read)
    if name == "aten::index" and any(each.dtype == "bool" for each in _tensors(arguments[1])):
        return "an index of truth values is taken for one of the numbers 0 and 1"
    if name in _PUTS and any(each.dtype == "bool" for each in _tensors(arguments[1:2])):
        return "where its index has no true value, the interpreter ends its process"
    if name == "aten::sum" and output.shape and 0 in x.shape and 0 not in output.shape:
        return "a sum over nothing is what lies in memory"
    return ""


def _spread(operator: Operator) -> str:
    """An assignment to places whose value is broadcast to them."""
    from torch import broadcast_shapes

    if len(operator.arguments) < 3 or not hasattr(operator.arguments[2], "shape"):
        return ""
    x, indices, value = operator.arguments[:3]
    named = [at for at, index in enumerate(indices) if index is not None]
    tensors = [indices[at] for at in named]
    if not named or any(index.dtype == "bool" for index in tensors):
        return ""
    shape = [size for at, size in enumerate(x.shape) if at not in named]
    # Indices beside each other stay where the first of them is.
    first = named[0] if named == list(range(named[0], named[-1] + 1)) else 0
    shape[first:first] = broadcast_shapes(*(tuple(index.shape) for index in tensors))  # type: ignore[no-untyped-call]
    is_number = not value.shape and named[0] == 0 and all(len(index.shape) < 2 for index in tensors)
    if is_number or tuple(value.shape) == tuple(shape):
        return ""
    return "what is assigned to several places is put elsewhere, or ends the interpreter's process, as it is broadcast to them"


def _of_small_number(operator: Operator) -> str:
    small = [each for each in _numbers(operator) if abs(each) < _LEAST_HALF]
    return f"{small[0]:g} is made in float16, and little or nothing is left of it" if small else ""


def _of_rounded_number(operator: Operator) -> str:
    for each in _numbers(operator):
        (half,) = struct.unpack("<e", struct.pack("<e", each))
        if half != each:
            return f"{each:g} is rounded to float16, {half:.6g}"
    return ""


def _numbers(operator: Operator) -> list[float]:
    """Numbers that are made in float16 and then taken for float32, but for zero and what float16 does not reach."""
    if operator.name not in _NUMBERS or not operator.outputs or operator.outputs[0].dtype != "float32":
        return []
    given = operator.arguments
    # With one argument that is the end.
    places = [
        at for at in _NUMBERS[operator.name] if at < len(given) and (operator.name != "aten::arange" or len(given) > 1)
    ]
    return [each for at in places if isinstance(each := given[at], float) and 0 < abs(each) <= _LARGEST_HALF]


def _with_floats(name: str, x: Any, y: Any) -> str:
    if isinstance(y, float) and x.dtype in _INTEGERS:
        return "integers with a floating-point number are computed in float16"
    return ""


def _cast(operator: Operator, x: Any, output: Any, read: _Readers) -> str:
    bits = _BITS.get(output.dtype, 64)
    if bits < 32 and x.dtype in _INTEGERS - {output.dtype} and _BITS.get(x.dtype, 32) >= bits:
        return f"integers beyond the range of {output.dtype} are cut off at its ends, and not wrapped"
    back = [each for each in read.of(output) if each.name == "aten::_to_copy" and "float" in each.outputs[0].dtype]
    if "float" in x.dtype and output.dtype in _INTEGERS and back and not read.is_of_whole(operator):
        return "a cast to integers and back is left out: write `trunc`"
    return ""


def _of_nearest(x: Any, output: Any) -> str:
    # Half as large comes out right where nothing is left over.
    halved = all(new % old == 0 or new * 2 == old for new, old in zip(output.shape[2:], x.shape[2:], strict=True))
    return "" if halved else "other elements are taken for the nearest"


def _pooled(operator: Operator, rank: int, read: _Readers) -> str:
    from modellint_rules.operators.refusals.pooling_windows import arguments_of, ends_evenly

    if "max_pool" in operator.name:
        indices = operator.outputs[1] if len(operator.outputs) > 1 else None
        return "its indices are zeros" if indices is not None and read.is_read(indices) else ""
    given = arguments_of("avg", operator.arguments, operator.keywords)
    padding = given.get("padding", 0)
    pads = any(padding) if isinstance(padding, (list, tuple)) else bool(padding)
    is_plain = given.get("divisor") is None and len(given["x"].shape) == rank + 2
    if given.get("ceil") and not ends_evenly(given, rank, operator.outputs[0].shape[2:]):
        return ""
    return "what is padded counts for the average" if pads and not given["counts"] and is_plain else ""

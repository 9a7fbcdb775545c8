"""Uses of operators that coremltools converts to something else, told by the types, sizes and numbers that a run shows.

Each is a fault of ``coreml_faults.json``, whose program was run beside every version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from modellint.authoring import Reach, Severity, TensorFact, facts_in
from modellint_rules.operators.refusals.pooling_windows import arguments_of, drops_windows, ends_evenly

if TYPE_CHECKING:
    from modellint.authoring import LiveCall, LiveModel, Operator, Run

TRACE, EXPORT = ("trace",), ("export",)
BOTH = (*TRACE, *EXPORT)
_ENDS = {TRACE: ", from a trace", EXPORT: ", from `torch.export`", BOTH: ""}


class Fault(NamedTuple):
    """A use that converts to something else."""

    id: str
    """In the list of known faults."""
    what: str
    operator: str
    """As in ``aten::remainder``."""
    routes: tuple[str, ...] = BOTH
    severity: Severity = Severity.ERROR

    @property
    def message(self) -> str:
        """What it does, with the route if it is one only."""
        return f"`{self.operator.rpartition('::')[2]}`: {self.what}{_ENDS[self.routes]}"


class Data:
    """What of a run depends on its inputs, holds infinity, is read, or is returned."""

    def __init__(self, run: Run, subject: LiveModel) -> None:
        self.of_inputs = Reach.of_inputs(run)
        self._read = {fact.tensor for each in run.operators for fact in facts_in((each.arguments, each.keywords))}
        self._returned = {fact.tensor for fact in facts_in(run.output)}
        infinite = {name for state in subject.state if _holds_infinity(state.tensor) for name in state.names}
        self.kept_infinite = Reach(run, lambda fact: fact.name in infinite, _changes)
        filled = {
            fact.tensor
            for each in run.operators
            if any(isinstance(value, float) and math.isinf(value) for value in each.arguments)
            for fact in each.outputs
        }
        self.made_infinite = Reach(run, lambda fact: fact.tensor in filled, _changes)

        self.ones_or_more = {
            fact.tensor
            for each in run.operators
            if each.name == "aten::add"
            and any(isinstance(value, (int, float)) and value >= 1 for value in each.arguments)
            for fact in each.outputs
        }
        """What one or more was added to, so that half precision cannot tell it from what a conversion adds."""

    def is_within(self, fact: TensorFact) -> bool:
        """Whether a tensor is read, and is no output itself."""
        return fact.tensor in self._read and fact.tensor not in self._returned


_KEEPING = frozenset(
    f"aten::{name}"
    for name in (
        *("_to_copy", "alias", "clone", "contiguous", "detach", "expand", "mul", "neg", "repeat", "select", "slice"),
        *("squeeze", "t", "transpose", "unsqueeze", "view"),
    )
)


def _changes(operator: str) -> bool:
    """Whether an operator may give no infinity though it is given some."""
    return operator.removesuffix("_") not in _KEEPING


def _holds_infinity(tensor: Any) -> bool:
    return tensor.is_floating_point() and not tensor.is_meta and bool(tensor.isinf().any())


def of_operator(operator: Operator, data: Data) -> Fault | None:
    """What is known to come out wrong of an operator of a run."""
    name = operator.name.removesuffix("_")
    if name == "aten::reciprocal":
        # Of constants, too, as the value that coremltools computes of them is the same.
        return _inverted(operator, data)
    known = _OF_OPERATORS.get(name)
    operands = operator.arguments
    if known is None or not operator.outputs or not any(fact in data.of_inputs for fact in facts_in(operands)):
        # Of constants coremltools computes the numbers itself.
        return _of_infinity(operator, data)
    return known(operator, data)


def of_call(call: LiveCall, data: Data) -> Fault | None:
    """What is known to come out wrong of a call of torch's API."""
    known = _OF_CALLS.get(call.name)
    if known is None or not any(fact in data.of_inputs for fact in facts_in((call.arguments, call.keywords))):
        return None
    return known(call)


def _is_float(value: Any) -> bool:
    return isinstance(value, TensorFact) and "float" in value.dtype


def _count(fact: TensorFact) -> int:
    return math.prod(fact.shape)


def _quotient(operator: Operator, data: Data) -> Fault | None:
    x, y = operator.arguments[:2]
    if not _is_float(x) or isinstance(y, TensorFact) or y != 1:
        return None
    if operator.name.startswith("aten::remainder"):
        what = "`x % 1` of floats is zero: coremltools leaves the rounding of a quotient by one out"
        return Fault("quotient-of-one", what, "aten::remainder")
    rounds = "floor_divide" in operator.name or operator.keywords.get("rounding_mode") == "floor"
    if not rounds or not data.is_within(operator.outputs[0]):
        return None
    what = "`x // 1` of floats is not rounded: coremltools takes a quotient by one for `x`"
    return Fault("quotient-of-one", what, operator.name)


def _power(operator: Operator, data: Data) -> Fault | None:
    base, exponent = operator.arguments[:2]
    if isinstance(base, TensorFact) or base != 2 or not _is_float(exponent):
        return None
    return Fault("power-of-two", "a power of the constant 2 is the exponent's square on devices", "aten::pow")


def _variance(operator: Operator, data: Data) -> Fault | None:
    x = operator.arguments[0]
    dim = operator.arguments[1] if len(operator.arguments) > 1 else operator.keywords.get("dim")
    if dim is False or dim is True:
        return None
    correction = operator.keywords.get("correction", 1)
    if correction is None:
        correction = 1
    if not dim:
        count = _count(x)
        if correction == 0 or count < 2:
            return None
        what = f"without `dim` it divides by n, here {count}, and not by n - {correction}"
        # Beyond that, half precision is coarser.
        severity = Severity.ERROR if count <= 64 else Severity.WARNING if count <= 2048 else Severity.INFO
        return Fault("var-of-all", what, operator.name, severity=severity)
    if correction not in (0, 1):
        what = f"`correction={correction}` is read as 1"
        return Fault("var-correction", what, operator.name, TRACE)
    return None


def _average(operator: Operator, data: Data) -> Fault | None:
    return _pooled(operator, "avg")


def _maximum(operator: Operator, data: Data) -> Fault | None:
    return _pooled(operator, "max")


def _pooled(operator: Operator, kind: str) -> Fault | None:
    rank = int(operator.name.partition("pool")[2][0])
    given = arguments_of(kind, operator.arguments, operator.keywords)
    sizes = operator.outputs[0].shape
    if not given.get("ceil") or not all(isinstance(size, int) for size in (*sizes, *given["x"].shape)):
        return None
    name = f"aten::{kind}_pool{rank}d"
    if drops_windows(given, rank, sizes):
        what = "`ceil_mode=True` here makes windows that begin behind the input, where PyTorch has none"
        return Fault("max-pool-ceil", what, name)
    divides = kind == "avg" and given["counts"] and given.get("divisor") is None
    if not divides or ends_evenly(given, rank, sizes):
        return None
    what = "`ceil_mode=True` divides the windows at the end by their whole size, and not by what is there"
    return Fault("avg-pool-ceil", what, name)


def _antialiased(operator: Operator, data: Data) -> Fault | None:
    x, output = operator.arguments[0], operator.outputs[0]
    if all(new >= old for new, old in zip(output.shape[2:], x.shape[2:], strict=True)):
        return None
    return Fault("antialias", "`antialias=True` is not read", operator.name)


def _diagonal(operator: Operator, data: Data) -> Fault | None:
    what = "it converts to the matrix with zeros beside its diagonal"
    return Fault("diagonal", what, "aten::diagonal", EXPORT)


def _unique(operator: Operator, data: Data) -> Fault | None:
    x, *options = operator.arguments
    asks = [bool(option) for option in options[1:3]]
    if not _is_float(x) or not any(asks):
        return None
    fault, what = ("unique-inverse", "places") if asks[:1] == [True] else ("unique-counts", "counts")
    return Fault(fault, f"its {what} are those of the floats as integers", operator.name, TRACE)


def _softplus(operator: Operator, data: Data) -> Fault | None:
    given: list[Any] = [*operator.arguments[1:], *(1, 20)[len(operator.arguments) - 1 :]]
    beta, threshold = given
    # From there on half precision rounds away what is added.
    if threshold > 8:
        return None
    what = f"`threshold={threshold:g}` is not read: beyond it {math.log1p(math.exp(-threshold)) / beta:.2g} are added"
    return Fault("softplus-threshold", what, operator.name)


def _filled(operator: Operator, data: Data) -> Fault | None:
    value = operator.arguments[1]
    if not isinstance(value, TensorFact) or value not in data.of_inputs:
        return None
    return Fault("fill-by-a-tensor", "a fill with a value that the run computes is a fill with zeros", "aten::fill")


def _added(operator: Operator, data: Data) -> Fault | None:
    x, output = operator.arguments[0], operator.outputs[0]
    if _is_float(x) and operator.keywords.get("dtype") is not None and not _is_float(output):
        what = "`dtype` is not read: floats are added as they are, and not as integers"
        return Fault("sum-in-integers", what, "aten::sum", severity=Severity.WARNING)
    each = _count(x) // max(1, _count(output)) if all(isinstance(size, int) for size in x.shape) else 0
    if x.dtype != "bool" or each <= 2048:
        return None
    what = f"{each} truth values are counted in half precision, which has no odd number above 2048"
    return Fault("sum-of-truths", what, "aten::sum", severity=Severity.WARNING)


def _averaged(operator: Operator, data: Data) -> Fault | None:
    if not operator.arguments[0].dtype.startswith(("int", "uint")) or operator.keywords.get("dtype") is None:
        return None
    what = "`dtype` is not read: the mean of integers is an integer"
    return Fault("mean-of-integers", what, "aten::mean")


def _asked(operator: Operator, data: Data) -> Fault | None:
    x = operator.arguments[0]
    if operator.name == "aten::all" and isinstance(x, TensorFact) and "int" in x.dtype:
        what = "of integers it asks whether the least is zero, so that a negative number hides a zero"
        return Fault("all-of-integers", what, operator.name, severity=Severity.WARNING)
    if not _is_float(x):
        return None
    what = "floats are cast to integers before they are looked at, so that 0.3 counts as zero"
    return Fault("any-of-floats", what, operator.name, severity=Severity.WARNING)


def _written(operator: Operator, data: Data) -> Fault | None:
    value = operator.arguments[-1]
    if not isinstance(value, float) or value.is_integer() or not operator.outputs[0].dtype.startswith(("int", "uint")):
        return None
    what = f"of integers it is full of {value:g}, with the fraction that PyTorch cuts off"
    return Fault("fraction-filled-in-integers", what, operator.name)


def _nearest(operator: Operator, data: Data) -> Fault | None:
    x, _, *factors = operator.arguments
    sizes = zip(x.shape[2:], operator.outputs[0].shape[2:], factors, strict=False)
    for size, out, factor in sizes:
        if not isinstance(size, int) or not isinstance(out, int) or not isinstance(factor, float):
            continue
        # In single precision, as PyTorch counts.
        step = 1 / torch.tensor(factor)
        places = (torch.arange(out) * step).floor().int().clamp_max(size - 1)
        if places.tolist() != [at * size // out for at in range(out)]:
            what = f"`scale_factor={factor:g}` is not read: elements are those that the sizes {size} and {out} lead to"
            return Fault("nearest-scale", what, operator.name)
    return None


def _flipped(operator: Operator, data: Data) -> Fault | None:
    if operator.arguments[0].shape:
        return None
    return Fault("flip-of-a-scalar", "of a scalar it converts to a program that does not run", operator.name)


def _masked(operator: Operator, data: Data) -> Fault | None:
    x = operator.arguments[0]
    if operator.name.endswith("_") or x.shape == operator.outputs[0].shape:
        return None
    what = "with a mask that is larger than the tensor it converts to a program that is not well formed"
    return Fault("masked-fill-broadcast", what, "aten::masked_fill")


def _angle(operator: Operator, data: Data) -> Fault | None:
    what = "it is 0 for `atan2(0, x)` where x is negative, and off where x is near 0"
    return Fault("atan2-half-turn", what, operator.name, severity=Severity.WARNING)


def _inverted(operator: Operator, data: Data) -> Fault | None:
    x = operator.arguments[0]
    # Integers and complex numbers are refused.
    if not _is_float(x) or x.tensor in data.ones_or_more:
        return None
    what = "1e-4 is added to what is inverted: far off where that is small"
    return Fault("reciprocal", what, operator.name, severity=Severity.WARNING)


def _logcumsumexp(operator: Operator, data: Data) -> Fault | None:
    what = "the exponentials are added as they are: infinite from 88 on, from 11 in half precision"
    return Fault("logcumsumexp", what, operator.name, severity=Severity.WARNING)


def _of_infinity(operator: Operator, data: Data) -> Fault | None:
    if operator.name.removesuffix("_") not in ("aten::triu", "aten::tril"):
        return None
    x = operator.arguments[0]
    what = "what it leaves out of a tensor of infinity is not a number"
    if x in data.kept_infinite:
        return Fault("triangle-of-infinity", what, operator.name)
    if x in data.made_infinite:
        return Fault("triangle-of-infinity", what, operator.name, EXPORT)
    return None


_OF_OPERATORS: dict[str, Callable[[Operator, Data], Fault | None]] = {
    **dict.fromkeys(("aten::remainder", "aten::floor_divide", "aten::div"), _quotient),
    "aten::pow": _power,
    **dict.fromkeys(("aten::var", "aten::std"), _variance),
    **dict.fromkeys(("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d"), _average),
    **dict.fromkeys(("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"), _maximum),
    "aten::_upsample_bilinear2d_aa": _antialiased,
    **dict.fromkeys(("aten::diagonal", "aten::diagonal_copy"), _diagonal),
    "aten::_unique2": _unique,
    "aten::softplus": _softplus,
    "aten::fill": _filled,
    "aten::sum": _added,
    "aten::mean": _averaged,
    **dict.fromkeys(("aten::any", "aten::all"), _asked),
    **dict.fromkeys(("aten::full_like", "aten::new_full"), _written),
    **dict.fromkeys(("aten::upsample_nearest1d", "aten::upsample_nearest2d"), _nearest),
    "aten::flip": _flipped,
    "aten::masked_fill": _masked,
    "aten::atan2": _angle,
    "aten::logcumsumexp": _logcumsumexp,
}


def _normalized(call: LiveCall) -> Fault | None:
    if call.keywords.get("use_input_stats", True) or call.keywords.get("running_mean") is None:
        return None
    what = "`track_running_stats=True`: the converted program takes the statistics of its input, not the running ones"
    return Fault("instance-norm-running-statistics", what, "aten::instance_norm")


def _rms(call: LiveCall) -> Fault | None:
    what = "`eps` is multiplied by the largest square of the input, and zeros give what is not a number"
    return Fault("rms-norm-epsilon", what, "aten::rms_norm", severity=Severity.WARNING)


def _narrowed(call: LiveCall) -> Fault | None:
    start = call.arguments[2] if len(call.arguments) > 2 else call.keywords.get("start")
    length = call.arguments[3] if len(call.arguments) > 3 else call.keywords.get("length")
    if not isinstance(start, int) or not isinstance(length, int) or start >= 0 or start + length:
        return None
    return Fault("narrow-from-the-end", "the last places, counted from the end, are none", "aten::narrow", TRACE)


def _vector(call: LiveCall) -> Fault | None:
    ranks = [fact.rank for fact in facts_in((call.arguments, call.keywords))]
    if len(ranks) != 2 or ranks[0] != 1 or ranks[1] < 3:
        return None
    what = "a vector times a stack of matrices converts to a program that declares the wrong shape"
    return Fault("vector-times-matrices", what, "aten::matmul")


def _crossed(call: LiveCall) -> Fault | None:
    given = list(facts_in((call.arguments, call.keywords)))
    if len(call.arguments) > 2 or call.keywords.get("dim") is not None or len(given) != 2:
        return None
    if any(not fact.shape or fact.shape[0] == 3 for fact in given):
        return None
    what = "without `dim` it is taken along the first dimension, and not along the first of size 3"
    return Fault("cross-without-dim", what, "aten::cross", TRACE)


_OF_CALLS: dict[str, Callable[[LiveCall], Fault | None]] = {
    "torch.nn.functional.instance_norm": _normalized,
    "torch.nn.functional.rms_norm": _rms,
    **dict.fromkeys(("torch.narrow", "torch.Tensor.narrow"), _narrowed),
    **dict.fromkeys(("torch.cross", "torch.Tensor.cross"), _crossed),
    **dict.fromkeys(("torch.matmul", "torch.Tensor.matmul", "torch.Tensor.__matmul__"), _vector),
}


def routes_of(message: str) -> tuple[str, ...]:
    """The routes by which a use converts to something else, by the end of the sentence that tells of it."""
    return next((routes for routes, end in _ENDS.items() if end and message.endswith(end)), BOTH)


def found(subject: LiveModel) -> Iterator[tuple[Operator | LiveCall, Fault]]:
    """Every use in a run that is known to come out wrong."""
    run = subject.run
    if run is None:
        return
    data = Data(run, subject)
    for operator in run.operators:
        fault = of_operator(operator, data)
        if fault is not None:
            yield operator, fault
    for call in run.calls:
        fault = of_call(call, data)
        if fault is not None:
            yield call, fault

"""Scalar operands: Python's numbers that functions and operators of a run take beside tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.live.capture.data_dependence import Reach, facts_in
from modellint.live.capture.records import TensorFact

if TYPE_CHECKING:
    from modellint.live.capture.records import Call, Run

FILL, TERM, FACTOR, FLOOR, EPS = "fill", "term", "factor", "floor", "eps"

_FILLING: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("masked_fill", "index_fill"), (2, ("value", "fill_value"))),
    **dict.fromkeys(("full", "full_like"), (1, ("fill_value",))),
    "new_full": (2, ("fill_value",)),
    "fill": (1, ("value",)),
    "setitem": (2, ()),
    "pad": (3, ("value",)),
    **dict.fromkeys(("tensor", "as_tensor", "scalar_tensor"), (0, ("data",))),
}
"""Functions that write a number, and where it stands."""
_EPS = {
    **dict.fromkeys(("layer_norm", "group_norm"), (4, 1e-5)),
    "instance_norm": (7, 1e-5),
    "rms_norm": (3, None),
    "normalize": (3, 1e-12),
    "cosine_similarity": (3, 1e-8),
}
"""Functions with an epsilon: where it stands, and what it is by default."""
_ADDING = frozenset({"add", "sub", "rsub", "radd", "iadd", "isub", "subtract"})
_SUBTRACTING = frozenset({"sub", "rsub", "isub", "subtract"})
_MULTIPLYING = frozenset({"mul", "rmul", "imul", "multiply"})
_LOGARITHMS = frozenset({"log", "log2", "log10"})
_JUDGING = frozenset(
    {
        "maximum",
        "minimum",
        "max",
        "min",
        "fmax",
        "fmin",
        "clamp",
        "clamp_min",
        "clamp_max",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    }
)
_PASSING = frozenset(
    {
        "lift_fresh",
        "lift_fresh_copy",
        "expand",
        "view",
        "reshape",
        "unsqueeze",
        "squeeze",
        "_to_copy",
        "clone",
        "detach",
    }
    | {"detach_", "alias", "slice", "select", "permute", "transpose", "_unsafe_view"}
)


class ScalarOperand(NamedTuple):
    """A Python number that an operator combines with a tensor."""

    number: int | float
    how: str
    call: Call
    dtype: str
    """Of what comes of it."""
    others: tuple[TensorFact, ...]
    """The tensors that it is combined with."""
    subtracts: bool = False


def scalar_operands(run: Run) -> Iterator[ScalarOperand]:
    """The numbers that calls of a run fill tensors with, add to them, multiply them by, or guard them with."""
    judged: frozenset[int] | None = None
    for call in run.calls:
        method = call.name.rpartition(".")[2].strip("_")
        facts = tuple(facts_in((call.arguments, call.keywords)))
        dtype = (call.outputs or facts or (None,))[0]
        if dtype is None:
            continue
        for number, how in _numbers(method, call):
            if how == FILL and not facts:
                # A constant that something is only compared with.
                judged = _judged(run) if judged is None else judged
                if all(fact.tensor in judged for fact in call.outputs):
                    continue
            yield ScalarOperand(number, how, call, dtype.dtype, facts, method in _SUBTRACTING)


def _numbers(method: str, call: Call) -> Iterator[tuple[int | float, str]]:
    if method in _FILLING:
        at, names = _FILLING[method]
        for value in _given(call, at, *names):
            yield from ((number, FILL) for number in _flat(value))
    elif method == "where":
        for value in call.arguments[1:]:
            yield from ((number, FILL) for number in _flat(value))
    elif method in _ADDING or method in _MULTIPLYING:
        how = TERM if method in _ADDING else FACTOR
        for value in call.arguments[:2]:
            yield from ((number, how) for number in _flat(value))
    elif method in ("clamp", "clip", "clamp_min"):
        for value in _given(call, 1, "min"):
            yield from ((number, FLOOR) for number in _flat(value))
    elif method in _EPS:
        at, default = _EPS[method]
        for value in _given(call, at, "eps"):
            if value != default:
                yield from ((number, EPS) for number in _flat(value))


def _given(call: Call, at: int, *names: str) -> Iterator[Any]:
    if len(call.arguments) > at:
        yield call.arguments[at]
    for name in names:
        if name in call.keywords:
            yield call.keywords[name]


def _flat(value: Any) -> Iterator[int | float]:
    if type(value) in (int, float):
        yield value
    # A fact is a tuple itself.
    elif isinstance(value, (list, tuple)) and not isinstance(value, TensorFact):
        for part in value:
            yield from _flat(part)


def _judged(run: Run) -> frozenset[int]:
    """Tensors that are only compared, and those that nothing uses."""
    used: dict[int, int] = {}
    origins: dict[int, int] = {}
    for operator in run.operators:
        name = operator.name.rpartition("::")[2]
        operands = list(facts_in((operator.arguments, operator.keywords)))
        if name in _PASSING and operands:
            for fact in operator.outputs:
                origins[fact.tensor] = origins.get(operands[0].tensor, operands[0].tensor)
            continue
        for fact in operands:
            origin = origins.get(fact.tensor, fact.tensor)
            used[origin] = used.get(origin, 0) + (name not in _JUDGING)
            used[fact.tensor] = used.get(fact.tensor, 0) + (name not in _JUDGING)
    everything = {fact.tensor for call in run.calls for fact in call.outputs}
    return frozenset(
        tensor for tensor in everything if not used.get(origins.get(tensor, tensor), 0) and not used.get(tensor, 0)
    )


def depends_on_data(met: ScalarOperand, data: Reach) -> bool:
    """Whether a number is combined with a tensor that depends on the values of the inputs."""
    return any(fact in data for fact in met.others)


def is_weighted_logarithm(met: ScalarOperand, run: Run) -> bool:
    """Whether a run only multiplies by a tensor what is the logarithm of it and of a number: ``p * log(p + eps)``.

    A number that is added to the logarithm may come between.
    """
    weights = {fact.tensor for fact in met.others}
    pending = [(fact.tensor, False) for fact in met.call.outputs]
    is_multiplied = False
    for tensor, is_log in pending:
        for call in run.calls:
            facts = {fact.tensor for fact in facts_in((call.arguments, call.keywords))}
            if tensor not in facts or call is met.call:
                continue
            method = call.name.rpartition(".")[2].strip("_")
            shifts = facts == {tensor} and (method in _ADDING or method == "neg")
            if shifts if is_log else method in _LOGARITHMS:
                pending += [(fact.tensor, True) for fact in call.outputs]
            elif is_log and method in _MULTIPLYING and facts - {tensor} <= weights and len(facts) > 1:
                is_multiplied = True
            else:
                return False
    return is_multiplied

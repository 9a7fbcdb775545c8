"""First difference: which operation of a converted program is the first to depart from PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.comparison.tensor_difference import LIMIT
from modellint.destinations.coreml.capture.node_values import (
    Known,
    Places,
    Recorded,
    captured_node,
    error_of,
    plain_name,
    storage_of,
)
from modellint.destinations.coreml.mil.executor import ExecutionError
from modellint.destinations.coreml.private.mil_programs import is_top_level
from modellint.results.verification import FirstDifference, Layer, Lost

if TYPE_CHECKING:
    from modellint.destinations.coreml.capture.routes import Captured as Capture
    from modellint.destinations.coreml.package.emulated_predictor import Predictor

ABOVE_NOISE = 10.0
"""By how much an error has to exceed that of rounding."""
_MOST_LOST = 3
_VISIBLE = 0.03
"""An error over the scale that takes a tensor to the least ratio of signal to noise that is thought to be enough."""


class Departure(NamedTuple):
    """An operation whose value is not PyTorch's."""

    operation: Any
    variable: Any
    known: Known
    """PyTorch's value."""
    value: Tensor
    error: float
    """Over PyTorch's scale."""


class Compared(NamedTuple):
    """The operations of one prediction that have a counterpart, in the order in which they ran."""

    layers: list[Layer]
    first: Departure | None
    """The first whose value departs."""
    failure: ExecutionError | None


def compared(
    predictor: Predictor,
    leaves: Sequence[Any],
    recorded: Recorded,
    places: Places,
    count: int = 1,
    noise: Recorded | None = None,
    limit: float = LIMIT,
) -> Compared:
    """Compare the operations of a prediction with PyTorch's values.

    ``noise`` is the same run on inputs that differ by rounding: an error that is no larger than such a difference is none.
    """
    layers: list[Layer] = []
    unnamed = recorded.unnamed(predictor.program)
    departed: list[Departure] = []
    failure = None

    def observe(operation: Any, variable: Any, value: Any) -> None:
        if not isinstance(value, Tensor) or not is_top_level(operation, predictor.program):
            return
        known = recorded.known(operation, variable) or unnamed.get(variable)
        if known is None:
            return
        error = error_of(value, known.value)
        step = recorded.steps[known.step]
        if error > limit and not departed and recorded.is_fused(known, value):
            return
        place, module = places.of(step.node)
        shape = tuple(known.value.shape)
        largest = _largest(known.value)
        layers.append(
            Layer(variable.name, operation.op_type, step.operator, module, place, shape, error, largest=largest)
        )
        if error > limit and not departed:
            around = 0.0 if noise is None else noise.change(recorded, known)
            if error > ABOVE_NOISE * around:
                departed.append(Departure(operation, variable, known, value, error))

    try:
        predictor(leaves, count, observe)
    except ExecutionError as error:
        failure = error
    return Compared(layers, departed[0] if departed else None, failure)


def _largest(value: Tensor) -> float:
    if not value.is_floating_point() or not value.numel():
        return 0.0
    return float(value.detach().abs().max())


def overflows(
    single: Predictor, half: Predictor, leaves: Sequence[Any], captured: Capture, places: Places
) -> list[Layer]:
    """Operations of the float16 program that give what is not finite, of finite values, where the float32 program's are finite.

    ``largest`` is what the float32 program has there. Raises ``ExecutionError`` where one cannot be run.
    """
    largest: dict[str, float] = {}

    def measure(operation: Any, variable: Any, value: Any) -> None:
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
            low, high = value.aminmax()
            largest[plain_name(variable)] = max(abs(float(low)), abs(float(high)))

    single(leaves, 1, measure)
    lost: set[str] = set()
    spilled: list[Layer] = []

    def look(operation: Any, variable: Any, value: Any) -> None:
        if not (isinstance(value, Tensor) and value.is_floating_point()) or bool(value.isfinite().all()):
            return
        follows = any(operand.name in lost for operand in _inputs_of(operation))
        lost.add(variable.name)
        known = largest.get(plain_name(variable), 0.0)
        if follows or not math.isfinite(known):
            return
        node = captured_node(captured, operation)
        origin = None if node is None else captured.origin(node)
        place, module = (None, "") if node is None else places.of(node)
        operator = "" if origin is None else origin.operator
        shape = tuple(value.shape)
        layer = Layer(variable.name, operation.op_type, operator, module, place, shape, math.inf, math.inf, known)
        spilled.append(layer)

    half(leaves, 1, look)
    return spilled


def _inputs_of(operation: Any) -> Iterator[Any]:
    for argument in operation.inputs.values():
        if isinstance(argument, (list, tuple)):
            yield from argument
        elif argument is not None:
            yield argument


def first_difference(
    seen: Compared, recorded: Recorded, places: Places, predictor: Predictor, case: str, outputs: Sequence[int]
) -> FirstDifference | None:
    """The earliest operation that departs; without one, the writes that an output lacks.

    ``outputs`` are the positions of the outputs that differ.
    """
    if seen.first is not None:
        operation, variable, known, value, error = seen.first
        if (constant := _folded(operation, recorded)) is not None:
            known, value, error = constant
        step = recorded.steps[known.step]
        place, module = places.of(step.node)
        lost = tuple(_lost(recorded, places, {storage_of(tensor) for tensor in step.inputs}, known.step))
        kind = "random" if step.is_random else "operation"
        message = f"`{operation.op_type}`, made of {step.operator}, {_shown(value, known.value, error)}"
        return FirstDifference(
            kind,
            message,
            operation.op_type,
            variable.name,
            step.operator,
            place,
            module,
            error,
            tuple(known.value.shape),
            case,
            lost,
        )
    if seen.failure is not None:
        return _failed(seen.failure, recorded, places, predictor, case)
    return _output(recorded, places, predictor, case, outputs)


def _shown(value: Tensor, right: Tensor, error: float) -> str:
    """How a value departs from PyTorch's, in words."""
    if error < math.inf:
        return f"differs by {error:.2g} of its scale"
    if value.numel() != right.numel():
        return "differs in shape"
    if bool((~value.isfinite() & right.reshape(value.shape).isfinite()).any()):
        return "gives what is not finite"
    return f"gives up to {float(value.abs().max()):.2g} where PyTorch gives zeros"


def _folded(operation: Any, recorded: Recorded) -> tuple[Known, Tensor, float] | None:
    """A constant among an operation's inputs that coremltools has computed itself, and wrongly."""
    for variable in _inputs_of(operation):
        if variable.val is None or getattr(variable.val, "dtype", None) is None:
            continue
        known = recorded.named(variable)
        if known is not None and known.value.numel() == variable.val.size:
            value = torch.as_tensor(variable.val)
            error = error_of(value, known.value)
            if error > LIMIT:
                return known, value, error
    return None


def _lost(recorded: Recorded, places: Places, storages: set[int], step: int) -> Iterator[Lost]:
    seen: set[Lost] = set()
    for at in recorded.writes_before(storages, step):
        writer = recorded.steps[at]
        lost = Lost(writer.operator, *places.of(writer.node))
        if lost not in seen and len(seen) < _MOST_LOST:
            seen.add(lost)
            yield lost


def _failed(
    failure: ExecutionError, recorded: Recorded, places: Places, predictor: Predictor, case: str
) -> FirstDifference:
    operations = _operations(predictor.program.functions["main"])
    operation = next((operation for operation in operations if operation.name == failure.operation), None)
    at = None if operation is None else recorded.step_of(operation)
    place, module, operator = None, "", None
    if at is not None:
        operator = recorded.steps[at].operator
        place, module = places.of(recorded.steps[at].node)
    name = None if operation is None else operation.outputs[0].name
    return FirstDifference(
        "run",
        f"the program cannot be run: {failure}",
        failure.kind,
        name,
        operator,
        place,
        module,
        math.inf,
        (),
        case,
    )


def _operations(block: Any) -> Iterator[Any]:
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from _operations(inner)


def _output(
    recorded: Recorded, places: Places, predictor: Predictor, case: str, outputs: Sequence[int]
) -> FirstDifference | None:
    """All operations agree that could be compared, and an output does not."""
    for at in outputs:
        if at >= len(recorded.outputs):
            continue
        value = recorded.outputs[at]
        last = len(recorded.steps) - 1
        lost = tuple(_lost(recorded, places, {storage_of(value)}, last))
        maker = next(
            (
                step
                for step in range(last, -1, -1)
                if any(known.storage == storage_of(value) for known in recorded.values[step].values())
            ),
            None,
        )
        random = [step for step in recorded.steps if step.is_random]
        name = predictor.output_names[at] if at < len(predictor.output_names) else None
        if lost:
            place, module, operator = lost[0].place, lost[0].module, lost[0].operator
            message = f"the output {name} lacks what {operator} wrote"
            return FirstDifference(
                "output", message, None, name, operator, place, module, 0.0, tuple(value.shape), case, lost
            )
        if random or maker is not None:
            step = random[-1] if random else recorded.steps[maker or 0]
            place, module = places.of(step.node)
            message = (
                f"{step.operator} draws random numbers"
                if random
                else f"the output {name}, made by {step.operator}, differs"
            )
            return FirstDifference(
                "random" if random else "output",
                message,
                None,
                name,
                step.operator,
                place,
                module,
                0.0,
                tuple(value.shape),
                case,
            )
    return None


def of_precision(spilled: Sequence[Layer], layers: Sequence[Layer]) -> FirstDifference | None:
    """The first operation that float16 does not hold, or else the first whose error in float16 can be seen."""
    if spilled:
        layer = spilled[0]
        message = f"`{layer.operation}` gives up to {layer.largest:.4g}, which float16 cannot hold"
    else:
        visible = [layer for layer in layers if layer.half is not None and layer.half > _VISIBLE]
        if not visible:
            return None
        layer = visible[0]
        message = f"`{layer.operation}` differs by {layer.half:.2g} of its scale in float16"
    half = math.inf if layer.half is None else layer.half
    return FirstDifference(
        "precision",
        message,
        layer.operation,
        layer.variable,
        layer.operator,
        layer.place,
        layer.module,
        half,
        layer.shape,
        "the example",
    )

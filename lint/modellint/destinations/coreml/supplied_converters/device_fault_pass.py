"""Graph pass around device faults: what devices are known to compute otherwise, put so that the published fault is not met.

Each form computes the same numbers by the specification. It follows from what was published of the fault in ``data/devices.json``:
how the report got around it, or where it says that the operation is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from modellint.destinations.coreml.mil.device_departures import departures
from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.mil_programs import declared_shape
from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.shapes.rank_folding import rebuilt

NAME = "modellint::avoid_device_faults"
_Form = Callable[[Any], Any]
"""What gives the variable that stands in an operation's place, or None for what it leaves; its operations come before that one."""
_RIGHT_UP_TO = np.float16(10)
"""Up to here the Neural Engine's `softplus` is right, and from here on it is its input in half precision (coremltools #2687)."""
_NORMALIZED_AXES = 4
"""`batch_norm` and `instance_norm` run on so many (coremltools #2572, #2820)."""


def register(note: Callable[[str], None]) -> None:
    """Register the pass; ``note`` is told the name of each departure that it goes around."""

    class AvoidDeviceFaults(operator_tables.AbstractGraphPass):  # type: ignore[misc]
        def apply(self, program: Any) -> None:
            for function in program.functions.values():
                for name in _changed(function):
                    note(name)

    namespace, _, name = NAME.partition("::")
    operator_tables.register_pass(namespace=namespace, name=name)(AvoidDeviceFaults)


def _changed(block: Any) -> list[str]:
    """Change a block and those inside; gives the departures that it met, one for each operation."""
    names: list[str] = []
    operator_tables.in_block(block, partial(_change, names=names))
    return names


def _change(block: Any, names: list[str]) -> bool:
    for operation in list(block.operations):
        for inner in operation.blocks:
            names += _changed(inner)
        for name, form in _forms(operation):
            result = form(operation)
            if result is not None:
                block.replace_uses_of_var_after_op(anchor_op=operation, old_var=operation.outputs[0], new_var=result)
                block.remove_ops([operation])
                names.append(name)
                break
    return bool(names)


def _forms(operation: Any) -> Iterator[tuple[str, _Form]]:
    for departure in departures().get(operation.op_type, ()):
        if departure.name in _AROUND and departure.may_hold(operation):
            yield departure.name, _AROUND[departure.name]


def _parted(operation: Any) -> Any:
    """Softmax of what is split along its axis and put together again, which the GPU does not make one kernel of, as the report says."""
    x, axis = operation.x, operation.axis.val
    size = (declared_shape(x) or ())[axis]
    if size is None or size < 2:
        return None
    parts = mb.split(x=x, split_sizes=[size // 2, size - size // 2], axis=axis, before_op=operation)
    whole = mb.concat(values=parts, axis=axis, before_op=operation)
    return rebuilt(operation, {**operator_tables.inputs_of(operation), "x": whole, "name": operation.outputs[0].name})


def _on_four_axes(operation: Any) -> Any:
    """Normalization by channel, with the axes behind the channels taken together."""
    declared = declared_shape(operation.x) or ()
    shape = [size for size in declared if size is not None]
    if len(shape) < len(declared) or len(shape) <= _NORMALIZED_AXES:
        return None
    together = [*shape[:2], math.prod(shape[2:-1]), shape[-1]]
    flat = mb.reshape(x=operation.x, shape=together, before_op=operation)
    normalized = rebuilt(operation, {**operator_tables.inputs_of(operation), "x": flat})
    return mb.reshape(x=normalized, shape=shape, name=operation.outputs[0].name, before_op=operation)


def _clipped(operation: Any) -> Any:
    """Softplus up to where it is right, and the input itself where that is larger."""
    below = mb.minimum(x=operation.x, y=_RIGHT_UP_TO, before_op=operation)
    soft = mb.softplus(x=below, before_op=operation)
    return mb.maximum(x=operation.x, y=soft, name=operation.outputs[0].name, before_op=operation)


_AROUND: dict[str, _Form] = {
    "attention-of-ten": _parted,
    "instance-norm-3d": _on_four_axes,
    "batch-norm-3d": _on_four_axes,
    "softplus": _clipped,
}
"""By the name of a departure."""

"""Graph pass for broadcasts of what may be empty, of which coremltools makes a division of integers by 0.

It repeats a tensor ``size / own size`` times (`pymil_broadcast_to`). What a mask selects may be nothing: 0 / 0, of which no device
says what it gives. Here 1 is added to both then; any number of repetitions of nothing is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import mb, symbols_of

NAME = "modellint::divide_by_no_empty_size"


def register(note: Callable[[], None]) -> None:
    """Register the pass; ``note`` is called where it changes something."""

    class DivideByNoEmptySize(operator_tables.AbstractGraphPass):  # type: ignore[misc]
        def apply(self, program: Any) -> None:
            for function in program.functions.values():
                known = {symbol for variable in function.inputs.values() for symbol in symbols_of(variable)}
                if operator_tables.in_block(function, partial(_change, known=known)):
                    note()

    namespace, _, name = NAME.partition("::")
    operator_tables.register_pass(namespace=namespace, name=name)(DivideByNoEmptySize)


def _change(block: Any, known: set[Any]) -> bool:
    changed = False
    for operation in list(block.operations):
        for quotient in _quotients(operation, known):
            size = quotient.y
            empty = mb.cast(x=mb.equal(x=size, y=0, before_op=quotient), dtype="int32", before_op=quotient)
            repetitions = mb.real_div(
                x=mb.add(x=quotient.x, y=empty, before_op=quotient),
                y=mb.add(x=size, y=empty, before_op=quotient),
                before_op=quotient,
            )
            block.replace_uses_of_var_after_op(anchor_op=quotient, old_var=quotient.outputs[0], new_var=repetitions)
            changed = True
    return changed


def _quotients(operation: Any, known: set[Any]) -> Iterator[Any]:
    """The division by the size of what a tile repeats, if that depends on more than the sizes of inputs."""
    if operation.op_type != "tile" or operation.reps.val is not None:
        return
    quotient = operation.reps.op
    while quotient is not None and quotient.op_type == "cast":
        quotient = quotient.x.op
    if quotient is None or quotient.op_type != "real_div" or quotient.y.op is None:
        return
    if quotient.y.op.op_type == "shape" and not set(symbols_of(operation.x)) <= known:
        yield quotient

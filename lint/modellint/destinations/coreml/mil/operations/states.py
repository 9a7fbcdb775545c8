"""States, of `coremltools.converters.mil.mil.ops.defs.iOS18.states`."""

from __future__ import annotations

from torch import Tensor

from modellint.destinations.coreml.mil.operation import operation


@operation(moves=True)
def read_state(input: Tensor) -> Tensor:  # noqa: A002
    """The state's present value. Nothing here writes into a tensor, so that it need not be copied."""
    return input

"""Small ML Programs: what the executor gives, and what coremltools computes of constants while it builds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.entry_points import ct, silence

with silence():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import Function, Program, get_new_symbol, types

__all__ = ["Function", "Program", "agree", "executed", "get_new_symbol", "inferred", "mb", "program", "types"]

mb: Any = Builder

Build = Callable[..., Any]


def program(build: Build, opset: int, **inputs: Any) -> Any:
    """A program of what ``build`` makes of inputs like ``inputs``."""
    placeholders = {
        name: mb.placeholder(
            np.shape(value), types.numpy_type_to_builtin_type(np.asarray(value).dtype), allow_rank0_input=True
        )
        for name, value in inputs.items()
    }
    made = Program()
    with silence(), Function(placeholders, opset_version=ct.target[f"iOS{opset}"]) as function:
        outputs = build(**function.inputs)
        function.set_outputs(list(outputs) if isinstance(outputs, (tuple, list)) else [outputs])
    made.add_function("main", function)
    return made


def executed(build: Build, opset: int = 15, **inputs: Any) -> Any:
    """What the executor gives for ``inputs``: an array, or a list of them."""
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in inputs.items()}
    outputs = Executor(program(build, opset, **inputs))(tensors)
    arrays = [value.numpy() if isinstance(value, torch.Tensor) else value for value in outputs.values()]
    return arrays[0] if len(arrays) == 1 else arrays


def inferred(build: Build, opset: int = 15, **inputs: Any) -> Any:
    """What coremltools computes when ``inputs`` are constants: an array, or a list of them."""
    held = []

    def constant() -> Any:
        made = build(**inputs)
        held.extend(made if isinstance(made, (tuple, list)) else [made])
        return made

    with silence(), np.errstate(all="ignore"):
        mb.program(input_specs=[], opset_version=ct.target[f"iOS{opset}"])(constant)
    values = [np.asarray(one.val) for one in held]
    return values[0] if len(values) == 1 else values


def agree(build: Build, opset: int = 15, tolerance: float = 2e-6, **inputs: Any) -> None:
    """Assert that both are equal: numbers within ``tolerance`` of the scale, integers and shapes exactly."""
    ours, theirs = executed(build, opset, **inputs), inferred(build, opset, **inputs)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, list) else [(ours, theirs)]
    for got, wanted in pairs:
        assert got.shape == wanted.shape
        if got.dtype.kind == "f":
            finite = wanted[np.isfinite(wanted)]
            scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(got, wanted)

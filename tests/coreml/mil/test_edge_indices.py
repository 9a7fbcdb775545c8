"""Indices at the edge of what there is: one element, which is a scalar, and none."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from coremltools.converters.mil.mil import Builder, Function, Program, get_new_symbol, types

from modellint.destinations.coreml.mil.executor import Executor


def taken(kind: str, indices: Any) -> torch.Tensor:
    program = Program()
    with Function({"x": Builder.placeholder(shape=(4,), dtype=types.fp32)}) as function:
        function.set_outputs([getattr(Builder, kind)(x=function.inputs["x"], indices=indices)])
    program.add_function("main", function)
    (result,) = Executor(program)({"x": torch.arange(4.0)}).values()
    assert isinstance(result, torch.Tensor)
    return result


def test_gather_by_a_scalar() -> None:
    assert taken("gather", np.int32(2)).shape == ()
    assert taken("gather", np.int32(2)) == 2


def test_gather_nd_by_one_coordinate() -> None:
    assert taken("gather_nd", np.array([3], np.int32)) == 3


def test_nothing_is_scattered() -> None:
    program = Program()
    rows = get_new_symbol()
    given = {
        "data": Builder.placeholder(shape=(2, 3), dtype=types.fp32),
        "indices": Builder.placeholder(shape=(rows, 2), dtype=types.int32),
        "updates": Builder.placeholder(shape=(rows,), dtype=types.fp32),
    }
    with Function(given) as function:
        function.set_outputs([Builder.scatter_nd(**function.inputs, mode="update")])
    program.add_function("main", function)
    data = torch.arange(6.0).reshape(2, 3)
    none = {"indices": torch.zeros(0, 2, dtype=torch.int32), "updates": torch.zeros(0)}
    (result,) = Executor(program)({"data": data, **none}).values()
    assert torch.equal(result, data)

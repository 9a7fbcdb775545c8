"""One element of a vector is a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from coremltools.converters.mil.mil import Builder, Function, Program, types

from modellint.coreml.mil.executor import Executor


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

"""Small models converted, their programs executed, and how far those are from PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import coremltools as ct
import numpy as np
import torch
from torch import Tensor, nn

from modellint.destinations.coreml.mil.executor import Executor

__all__ = ["LIMIT", "Call", "X", "errors", "normal"]

LIMIT = 1e-5
"""Of the error over the largest number of the output: right conversions of small models stay below it."""


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.function(*inputs)
        return result


X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def errors(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    route: str,
    *others: tuple[Tensor, ...],
    precision: str = "FLOAT32",
    target: str = "iOS15",
    reference: nn.Module | None = None,
    core: bool = False,
) -> list[float]:
    """The error of the executed program over the output's scale, on the sample and then on other inputs, one after the other.

    Infinite where the shapes differ or something is no number. ``core`` decomposes an export to core ATen.
    """
    model = model.eval()
    reference = copy.deepcopy(model) if reference is None else reference
    options: dict[str, Any] = {"skip_model_load": True, "minimum_deployment_target": ct.target[target]}
    options["compute_precision"] = ct.precision[precision]
    torch.manual_seed(1)
    with torch.no_grad():
        if route == "trace":
            trace: Any = torch.jit.trace
            captured = trace(model, inputs, check_trace=False)
            kinds = [{torch.float32: np.float32, torch.bool: np.bool_}.get(one.dtype, np.int32) for one in inputs]
            options["inputs"] = [
                ct.TensorType(shape=x.shape, dtype=kind) for x, kind in zip(inputs, kinds, strict=True)
            ]
        else:
            exported = torch.export.export(model, inputs)
            captured = exported.run_decompositions() if core else exported.run_decompositions({})
        execute = Executor(ct.convert(captured, **options)._mil_program)
        found = []
        for given in (inputs, *others):
            wanted = reference(*given)
            (got,) = execute(dict(zip(execute.inputs, given, strict=True))).values()
            if got.shape != wanted.shape:
                found.append(math.inf)
                continue
            error = float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())
            found.append(error if math.isfinite(error) else math.inf)
    return found

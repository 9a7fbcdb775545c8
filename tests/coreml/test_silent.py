"""What coremltools makes without a word of uses that live rules report, by conversion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from known_faults import shows
from torch import nn
from torch.nn import functional

from modellint.authoring import coreml
from modellint.destinations.coreml.private.entry_points import ct, silence

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.randn(2, 4)
X3 = torch.randn(2, 3, 4)
INDICES = torch.tensor([0, 2])


class Computed(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def program(function: Callable[..., Any], *inputs: torch.Tensor, route: str = "trace") -> Any:
    model = Computed(function).eval()
    options: dict[str, Any] = {}
    with silence(), torch.no_grad():
        if route == "trace":
            captured: Any = torch.jit.trace(model, inputs, check_trace=False)
            kinds = [np.float32 if x.is_floating_point() else np.int32 for x in inputs]
            options["inputs"] = [ct.TensorType(shape=x.shape, dtype=k) for x, k in zip(inputs, kinds, strict=True)]
        else:
            captured = torch.export.export(model, inputs).run_decompositions({})
        return ct.convert(captured, convert_to="milinternal", **options).functions["main"]


@pytest.mark.parametrize("route", ["trace", "export"])
def test_argmax_is_over_the_last_dimension(route: str) -> None:
    assert program(lambda x: torch.argmax(x), X, route=route).outputs[0].shape == (2,)


def test_alpha_is_left_out_of_an_export_or_mended() -> None:
    made = program(lambda x, y: torch.add(x, y, alpha=3.0), X, X, route="export")
    kinds = {operation.op_type for operation in made.operations} - {"const", "cast"}
    assert kinds == ({"add"} if shows("add-alpha") else {"add", "mul"})


def test_alpha_is_refused_in_a_trace_or_mended() -> None:
    with pytest.raises(ValueError, match="scale factor") if shows("add-alpha") else contextlib.nullcontext():
        program(lambda x, y: torch.add(x, y, alpha=3.0), X, X)


def test_indices_beside_a_mask_are_left_out() -> None:
    made = program(lambda x, j: x[x[:, 0, 0] > -9, j], X3, INDICES)
    assert not list(made.inputs.values())[1].child_ops
    assert made.outputs[0].rank == 3


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_slopes_need_a_rank(rank: int) -> None:
    x, slopes = torch.randn(2, 3, *[4] * (rank - 2)), torch.tensor([0.1, 0.2, 0.3])
    if rank in coreml.prelu_ranks(coreml.here()):
        assert program(lambda x: functional.prelu(x, slopes), x).outputs
    else:
        with pytest.raises(ValueError, match="values of alpha"):
            program(lambda x: functional.prelu(x, slopes), x)

"""Operators that others register: one made of a function in Python is that function in an export, one of another kind is missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import modellint

pytest.importorskip("coremltools", reason="coremltools is not installed: pip install '.[coreml]'")


@torch.library.custom_op("modellint_tests::bounded", mutates_args=())
def bounded(x: Tensor, limit: float) -> Tensor:
    return (x * 2).clamp(max=limit)


@bounded.register_fake
def _(x: Tensor, limit: float) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("modellint_tests::by_numpy", mutates_args=())
def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.tanh(x.numpy()))


@by_numpy.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


_LIBRARY = torch.library.Library("modellint_tests_made", "DEF")
_LIBRARY.define("half(Tensor x) -> Tensor")
_LIBRARY.impl("half", lambda x: x / 2, "CompositeImplicitAutograd")


class Bounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.modellint_tests.bounded(x, 1.5) + 1


class ByNumPy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return by_numpy(x) + 1


class Half(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.modellint_tests_made.half(x) + 1


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def test_a_function_in_python_is_what_it_computes() -> None:
    found = modellint.export(Bounded().eval(), (X,))
    assert found.verification.ok
    assert "modellint_tests::bounded is what its function in Python computes" in found.summary.notes


def test_what_is_made_of_others_is_decomposed() -> None:
    assert modellint.export(Half().eval(), (X,)).verification.ok


def test_what_leaves_pytorch_is_missing() -> None:
    with pytest.raises(modellint.ExportError, match="modellint_tests::by_numpy"):
        modellint.export(ByNumPy().eval(), (X,))


def test_a_converter_that_is_registered_is_used() -> None:
    from coremltools.converters.mil import Builder, register_torch_op

    @register_torch_op(torch_alias=["modellint_tests::bounded"], override=True)
    def modellint_tests_bounded(context: object, node: object) -> None:
        x, limit = (context[name] for name in node.inputs)  # type: ignore[index, attr-defined]
        context.add(Builder.minimum(x=Builder.mul(x=x, y=2.0), y=limit, name=node.name))  # type: ignore[attr-defined]

    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

    try:
        found = modellint.export(Bounded().eval(), (X,))
        assert found.verification.ok
        assert not found.summary.notes
    finally:
        for name in ("modellint_tests::bounded", "modellint_tests_bounded"):
            _TORCH_OPS_REGISTRY.name_to_func_mapping.pop(name, None)

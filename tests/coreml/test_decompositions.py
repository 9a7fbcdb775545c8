"""Decompositions without their overhead are those of PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from modellint.destinations.capture.decomposition_overhead import decomposed


class Attending(nn.Module):
    """Operators that are kept, that are made of others, and one that is written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4), nn.Hardswish())

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        y: Tensor = self.conv(x)
        y[:, 0] = y[:, 1].logsumexp(-1, keepdim=True)
        return nn.functional.interpolate(y, scale_factor=2.0).addcmul(y.mean(), y.std())


@pytest.mark.parametrize("table", [{}, None])
def test_a_program_is_decomposed_as_pytorch_does(table: dict[object, object] | None) -> None:
    program = torch.export.export(Attending().eval(), (torch.randn(1, 4, 8),))
    own = torch.ops.aten.logsumexp.default
    before = dict(own.py_kernels)
    ours, theirs = decomposed(program, table), program.run_decompositions(table)
    assert ours.graph_module.code == theirs.graph_module.code
    assert str(ours.graph_signature) == str(theirs.graph_signature)
    assert own.py_kernels == before


def test_what_a_table_has_takes_part() -> None:
    hardswish = torch.ops.aten.hardswish.default
    program = torch.export.export(nn.Hardswish().eval(), (torch.randn(3),))
    made = decomposed(program, {hardswish: lambda x: x * torch.relu(x)})
    assert [str(node.target) for node in made.graph.nodes if node.op == "call_function"] == [
        "aten.relu.default",
        "aten.mul.Tensor",
    ]

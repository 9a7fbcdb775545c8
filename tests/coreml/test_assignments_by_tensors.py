"""What coremltools makes of assignments by tensors next to other indices: MUT002 and MUT003 say it in their words."""

from __future__ import annotations

from collections.abc import Callable

import coremltools as ct
import pytest
import torch
from torch import Tensor, nn

import modellint

X = torch.arange(24.0).reshape(2, 4, 3)


class Net(nn.Module):
    """Writes to a copy of its input, and computes with that or returns it."""

    def __init__(self, write: Callable[[Net, Tensor], None], used: bool) -> None:
        super().__init__()
        self.write, self.used = write, used
        self.register_buffer("i", torch.tensor([0, 2]))
        self.register_buffer("j", torch.tensor([0, 1]))
        self.register_buffer("m", torch.tensor([True, False, True, False]))

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        self.write(self, y)
        return y * 2 if self.used else y


def by_slice(net: Net, y: Tensor) -> None:
    y[:, net.i] = 1.0


def by_number(net: Net, y: Tensor) -> None:
    y[0, net.i] = 1.0


def before_slice(net: Net, y: Tensor) -> None:
    y[net.j, 1:3] = 1.0


def by_single_index(net: Net, y: Tensor) -> None:
    y[:, [3]] = 1.0


def by_ellipsis(net: Net, y: Tensor) -> None:
    y[..., net.i] = 1.0


def mask_by_slice(net: Net, y: Tensor) -> None:
    y[:, net.m] = 1.0


def mask_by_number(net: Net, y: Tensor) -> None:
    y[0, net.m] = 1.0


def outcome(net: Net, route: str) -> str:
    """``kept``, ``dropped`` or ``refused``."""
    if route == "trace":
        captured = torch.jit.trace(net, X)
        inputs = {"inputs": [ct.TensorType(shape=tuple(X.shape))]}
    else:
        captured, inputs = torch.export.export(net, (X,)).run_decompositions({}), {}
    try:
        program = ct.convert(captured, convert_to="milinternal", minimum_deployment_target=ct.target.iOS17, **inputs)
    except ValueError:
        return "refused"
    kinds = {operation.op_type for operation in program.functions["main"].operations}
    return "kept" if any("scatter" in kind for kind in kinds) else "dropped"


@pytest.mark.parametrize(
    ("write", "used", "traced", "exported"),
    [
        (by_slice, True, "refused", "refused"),
        (by_slice, False, "dropped", "refused"),
        (by_single_index, True, "dropped", "kept"),
        (by_single_index, False, "dropped", "kept"),
        (by_ellipsis, True, "refused", "refused"),
        (by_ellipsis, False, "refused", "refused"),
        (by_number, True, "dropped", "kept"),
        (by_number, False, "dropped", "kept"),
        (before_slice, True, "dropped", "kept"),
        (mask_by_slice, True, "refused", "refused"),
        (mask_by_slice, False, "dropped", "refused"),
        (mask_by_number, True, "dropped", "kept"),
    ],
)
def test_an_assignment(write: Callable[[Net, Tensor], None], used: bool, traced: str, exported: str) -> None:
    net = Net(write, used).eval()
    assert (outcome(net, "trace"), outcome(net, "export")) == (traced, exported)


@pytest.mark.parametrize("index", ["0, self.i", ":, self.i", "self.i, 1:3"])
def test_the_rule_says_what_a_trace_makes_of_it(index: str) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        '        self.register_buffer("i", torch.tensor([0, 2]))\n\n    def forward(self, x):\n        y = x.clone()\n'
        f"        y[{index}] = 1.0\n        return y * 2\n"
    )
    (finding,) = modellint.check_source(text).diagnostics
    assert ("is refused" in finding.message) == index.startswith(":")

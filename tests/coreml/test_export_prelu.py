"""A PReLU that no fix replaces (a subclass, a call in `forward`, slopes that are computed) is exported all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import modellint
from modellint.authoring import coreml

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__).parent
CHANNELS = 4
SHAPES = {2: (2, CHANNELS), 3: (2, CHANNELS, 5), 4: (2, CHANNELS, 3, 2), 5: (2, CHANNELS, 3, 2, 2)}


class Subclass(nn.PReLU):
    pass


class Shifted(nn.PReLU):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) + 1


class Called(nn.Module):
    def __init__(self, call: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(CHANNELS))
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.rand(CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.slopes)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "subclass": lambda: Subclass(CHANNELS),
    "with a forward of its own": lambda: Shifted(CHANNELS),
    "functional": lambda: Called(functional.prelu),
    "torch.prelu": lambda: Called(torch.prelu),
    "method": lambda: Called(lambda x, slopes: x.prelu(slopes)),
    "computed slopes": lambda: Called(lambda x, slopes: functional.prelu(x, slopes.abs() * 0.5)),
    "buffer": Buffered,
}


class All(nn.Module):
    """An output of each kind, and one whose slopes are an input."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.ModuleList([make() for make in KINDS.values()])
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 1.5)

    def forward(self, x: Tensor, slopes: Tensor) -> tuple[Tensor, ...]:
        return (*(kind(x) for kind in self.kinds), functional.prelu(x, slopes))


@pytest.mark.parametrize("frontend", ["trace", "export"])
@pytest.mark.parametrize("rank", SHAPES)
def test_prelu_of_every_kind_is_exported_and_agrees(rank: int, frontend: str) -> None:
    inputs = torch.randn(SHAPES[rank]), torch.rand(CHANNELS)
    result = modellint.export(All().eval(), inputs, root=HERE, frontend=frontend, precision="fp32")
    assert result.frontend == frontend
    assert len(result.verification.outputs) == len(KINDS) + 1
    assert all(one.error == 0 for one in result.verification.outputs)
    (change,) = result.summary.changes
    # At rank 4 (later versions: 2 to 4) coremltools takes what is constant; slopes that are computed of constants are.
    places = 1 if rank in coreml.prelu_ranks(coreml.here()) else len(KINDS) + 1
    assert (change.kind, change.what.partition(" at ")[0], change.exactness) == ("mended", "aten::prelu", "bit-equal")
    assert (int(change.what.partition(" at ")[2].split()[0]) if " at " in change.what else 1) == places


@pytest.mark.parametrize("kind", KINDS)
def test_fix_model_leaves_them_alone(kind: str) -> None:
    model = KINDS[kind]().eval()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 1.5)
    x = torch.randn(SHAPES[5])
    fixed, report = modellint.fix_model(model, (x,), root=HERE, frontend="trace")
    assert type(fixed) is type(model)
    assert report.fixed == report.undone == ()
    assert "OPS004" in {one.code for one in report.diagnostics}
    assert torch.equal(fixed(x), model(x))

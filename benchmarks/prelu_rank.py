"""Three ways to write a PReLU with a slope for each channel, at every rank: in PyTorch, and converted and executed.

    python benchmarks/prelu_rank.py

The slopes are brought into shape by `w.view(1, -1, 1, 1)`, by `w.reshape(1, -1, 1, 1)`, and by a shape that follows the input's
rank. Each is compared with `nn.PReLU` of the same slopes. docs/prelu-and-rank.md says what the tables show. It exits with 1
where a table is not as that page has it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.destinations.comparison.reference_runs import Reference
from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import ExecutionError
from modellint.destinations.coreml.package.emulated_predictor import Misfit, Predictor
from modellint.live.inputs.model_inputs import Inputs
from modellint.nn import CustomPReLU
from modellint.settings import Destination

CHANNELS = 4
LIMIT = 1e-5
SAME, OTHER_VALUES, OTHER_SHAPE, RAISES, REFUSED = "equal", "other values", "other shape", "raises", "does not convert"


class Form(NamedTuple):
    """A way to bring slopes into shape."""

    name: str
    shaped: Callable[[Tensor, Tensor], Tensor]


FORMS = (
    Form("view", lambda w, x: w.view(1, -1, 1, 1)),
    Form("reshape", lambda w, x: w.reshape(1, -1, 1, 1)),
    Form("rank-aware", lambda w, x: w.view([1, -1] + [1] * (x.dim() - 2))),
)

SHAPES = {
    2: ((1, 4), (4, 4), (3, 4)),
    3: ((1, 4, 6), (4, 4, 6), (3, 4, 6)),
    4: ((1, 4, 6, 6), (4, 4, 6, 6), (3, 4, 6, 6)),
    5: ((2, 4, 1, 6, 6), (2, 4, 4, 6, 6), (2, 4, 3, 6, 6)),
}
"""Inputs by rank. The rank-pinned slopes meet the batch at ranks 2 and 3, the depth at rank 5: it is 1, as many as channels, or neither."""

EXPECTED = {
    2: (OTHER_SHAPE, OTHER_SHAPE, OTHER_SHAPE),
    3: (OTHER_SHAPE, OTHER_SHAPE, RAISES),
    4: (SAME, SAME, SAME),
    5: (OTHER_SHAPE, OTHER_VALUES, RAISES),
}
"""What the rank-pinned forms do, in eager mode and by both routes. The rank-aware one is always equal."""


class Replacement(nn.Module):
    """A PReLU by two rectifications, as it is written where a target refuses the operator."""

    def __init__(self, weight: Tensor, form: Form) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.form = form

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) - self.form.shaped(self.weight, x) * torch.relu(-x)


class Held(nn.Module):
    """The same with the view taken once, when the module is built."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.shaped = self.weight.detach().view(1, -1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) - self.shaped * torch.relu(-x)


class Residual(nn.Module):
    """As in a separation network: a convolution in time, a PReLU, a sum with what went in, a mean over time."""

    def __init__(self, activation: nn.Module, closing: nn.Module | None) -> None:
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1)
        self.activation = activation
        self.closing = closing
        self.last = nn.Linear(CHANNELS, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.activation(self.conv(x))
        if self.closing is not None:
            y = self.closing(y)
        return self.last(y.mean(-1))


class Network(NamedTuple):
    """A network around a PReLU, and what the rank-pinned form does to it."""

    name: str
    build: Callable[[Callable[[], nn.Module]], nn.Module]
    x: Tensor
    wanted: str


NETWORKS = (
    Network(
        "head of a classifier, rank 2",
        lambda act: nn.Sequential(nn.Linear(6, CHANNELS), act(), nn.Linear(CHANNELS, 2)),
        torch.randn(3, 6, generator=torch.Generator().manual_seed(0)),
        OTHER_SHAPE,
    ),
    Network(
        "convolution in time, batch of 1, rank 3",
        lambda act: Residual(act(), None),
        torch.randn(1, CHANNELS, 8, generator=torch.Generator().manual_seed(0)),
        OTHER_SHAPE,
    ),
    Network(
        "the same with a convolution behind it",
        lambda act: Residual(act(), nn.Conv1d(CHANNELS, CHANNELS, 1)),
        torch.randn(1, CHANNELS, 8, generator=torch.Generator().manual_seed(0)),
        RAISES,
    ),
    Network(
        "convolutions in a plane, rank 4",
        lambda act: nn.Sequential(nn.Conv2d(3, CHANNELS, 3), act(), nn.Conv2d(CHANNELS, 2, 1)),
        torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),
        SAME,
    ),
    Network(
        "convolutions in a cube of 4, rank 5",
        lambda act: nn.Sequential(nn.Conv3d(3, CHANNELS, 1), act(), nn.Conv3d(CHANNELS, 2, 1)),
        torch.randn(2, 3, CHANNELS, 6, 6, generator=torch.Generator().manual_seed(0)),
        OTHER_VALUES,
    ),
)


def main() -> int:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    slopes = torch.tensor([-0.5, 0.1, 0.25, 2.0])
    wrong = 0
    print(f"torch {torch.__version__}; against nn.PReLU; slopes {' '.join(f'{one:g}' for one in slopes.tolist())}")
    print(f"{'rank':<5}{'input':<15}{'form':<14}{'eager':<36}{'by trace':<36}by export")
    for rank, shapes in SHAPES.items():
        for at, shape in enumerate(shapes):
            x = torch.randn(shape)
            prelu = reference(slopes)
            right = prelu(x).detach()
            for form in FORMS:
                model = Replacement(slopes, form).eval()
                seen = [eagerly(model, x, right), *(converted(model, x, right, route) for route in ("trace", "export"))]
                print(f"{rank:<5}{shown(shape):<15}{form.name:<14}" + "".join(one.ljust(36) for one in seen).rstrip())
                wanted = SAME if form.name == "rank-aware" else EXPECTED[rank][at]
                wrong += sum(not is_as(one, wanted, by_route=bool(n)) for n, one in enumerate(seen))
            for name, one in (("nn.PReLU", prelu), ("CustomPReLU", custom(slopes))):
                seen = [eagerly(one, x, right), *(converted(one, x, right, route) for route in ("trace", "export"))]
                print(f"{rank:<5}{shown(shape):<15}{name:<14}" + "".join(one.ljust(36) for one in seen).rstrip())
    print("\nview against reshape at rank 4, bit for bit:", "equal" if bitwise(slopes) else "different")
    wrong += not bitwise(slopes)
    print("\nin a network, with the rank-pinned form; against the same network with nn.PReLU:")
    print(f"    {'network':<44}{'eager':<36}{'by trace':<36}by export")
    for name, build, x, wanted in NETWORKS:
        torch.manual_seed(0)
        right = build(lambda: reference(slopes)).eval()(x).detach()
        torch.manual_seed(0)
        network = build(lambda: Replacement(slopes, FORMS[0])).eval()
        seen = [eagerly(network, x, right), *(converted(network, x, right, route) for route in ("trace", "export"))]
        print(f"    {name:<44}" + "".join(one.ljust(36) for one in seen).rstrip())
        wrong += sum(not is_as(one, wanted, by_route=bool(n)) for n, one in enumerate(seen))
    print("\na view that is held since the module was built, at rank 4:")
    for what, said in held(slopes):
        print(f"    {what:<44}{said}")
    return int(bool(wrong))


def reference(slopes: Tensor) -> nn.PReLU:
    prelu = nn.PReLU(len(slopes))
    with torch.no_grad():
        prelu.weight.copy_(slopes)
    return prelu.eval()


def custom(slopes: Tensor) -> nn.Module:
    made = CustomPReLU(len(slopes))
    with torch.no_grad():
        made.weight.copy_(slopes)
    return made.eval()


def eagerly(model: nn.Module, x: Tensor, right: Tensor) -> str:
    try:
        with torch.no_grad():
            return judged(model(x), right)
    except RuntimeError:
        return RAISES


def converted(model: nn.Module, x: Tensor, right: Tensor, route: str) -> str:
    """What the program of a route gives, in float32."""
    inputs, destination = Inputs((x,), {}), Destination(precision="fp32", frontend=route)
    try:
        with Reference(model).restored(inputs), captures(model, inputs, destination, route) as found:
            made = convert(found[0], destination, "fp32")
        ((value,),) = Predictor(made.program)([x])
    except NotConverted as error:
        return RAISES if error.stage == "capture" else REFUSED
    except (ExecutionError, Misfit) as error:
        return f"cannot be run: {error}"
    return judged(value, right)


def judged(value: Tensor, right: Tensor) -> str:
    if value.shape != right.shape:
        return f"{OTHER_SHAPE} {shown(value.shape)}"
    error = float((value - right).abs().max() / right.abs().max())
    return SAME if error <= LIMIT else f"{OTHER_VALUES}, by {error:.2f} of the scale"


def is_as(seen: str, wanted: str, by_route: bool) -> bool:
    return seen.startswith(wanted) or (by_route and wanted == RAISES and seen == REFUSED)


def bitwise(slopes: Tensor) -> bool:
    """Whether a view and a reshape of slopes give the same bits at rank 4, in values and in gradients."""
    found: list[list[Tensor]] = []
    for form in FORMS:
        model = Replacement(slopes, form)
        x = torch.randn(3, CHANNELS, 6, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
        y = model(x)
        y.square().sum().backward()  # type: ignore[no-untyped-call]
        found.append([y.detach(), x.grad, model.weight.grad])  # type: ignore[list-item]
    return all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def held(slopes: Tensor) -> Iterator[tuple[str, str]]:
    """What becomes of a view that is taken once, when the slopes change."""
    x = torch.randn(2, CHANNELS, 6, 6)
    right = reference(slopes)(x).detach()
    fresh: Any = torch.full((CHANNELS,), 0.25)

    def said(model: Held, x: Tensor = x) -> str:
        return judged(model(x).detach(), right.to(x.dtype))

    model = Held(fresh)
    model.load_state_dict({"weight": slopes})
    yield "after load_state_dict", said(model)
    model = Held(fresh)
    model.load_state_dict({"weight": slopes}, assign=True)
    yield "after load_state_dict(assign=True)", said(model)
    model = Held(fresh).double()
    model.load_state_dict({"weight": slopes.double()})
    yield "after .double() and load_state_dict", said(model, x.double())
    model = Held(fresh)
    model.weight = nn.Parameter(slopes.clone())
    yield "after the parameter is bound anew", said(model)


def shown(shape: tuple[int, ...] | torch.Size) -> str:
    return "x".join(map(str, shape))


if __name__ == "__main__":
    sys.exit(main())

"""Trained ``PReLU`` slopes at every rank: what coremltools refuses converts after ``fix_model``, and nothing else is touched."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import coremltools
import pytest
import torch
from torch import nn

import modellint
from modellint.authoring import coreml
from modellint.nn import CustomPReLU


def trained(model: nn.Module) -> nn.Module:
    """With slopes and running averages as training leaves them."""
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.PReLU):
                module.weight.copy_(torch.rand(module.weight.shape, generator=draw) - 0.3)
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.normal_(generator=draw)
                module.running_var.uniform_(0.5, 1.5, generator=draw)
    return model


class Head(nn.Module):
    """Embeddings to classes, rank 2."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.PReLU(12), nn.Linear(12, 8), nn.PReLU(8))
        self.classes = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.body(x))


class Separator(nn.Module):
    """A separator of sources in the time domain as Conv-TasNet is one: dilated depthwise blocks that end in a mask, rank 3."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 12, 8, stride=4, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(12, 16, 1),
                nn.PReLU(16),
                nn.GroupNorm(1, 16),
                nn.Conv1d(16, 16, 3, padding=2**at, dilation=2**at, groups=16),
                nn.PReLU(16),
                nn.GroupNorm(1, 16),
                nn.Conv1d(16, 12, 1),
            )
            for at in range(2)
        )
        self.gate = nn.PReLU(12)
        self.mask = nn.Conv1d(12, 24, 1)
        self.decoder = nn.ConvTranspose1d(12, 1, 8, stride=4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.encoder(x).relu()
        y = seen
        for block in self.blocks:
            y = y + block(y)
        first, second = torch.sigmoid(self.mask(self.gate(y))).chunk(2, 1)
        return torch.cat([self.decoder(seen * first), self.decoder(seen * second)], 1)


class Volume(nn.Module):
    """Patches of a scan, rank 5."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv3d(1, 6, 3, padding=1), nn.PReLU(6), nn.Conv3d(6, 8, 2, stride=2), nn.PReLU(8))
        self.out = nn.Conv3d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.down(x))


class IRSE(nn.Module):
    """A block of a network that recognizes faces: convolutions, slopes, and squeeze and excitation, rank 4."""

    def __init__(self) -> None:
        super().__init__()
        self.shortcut = nn.Sequential(nn.Conv2d(6, 8, 1, 2, bias=False), nn.BatchNorm2d(8))
        self.body = nn.Sequential(
            nn.BatchNorm2d(6),
            nn.Conv2d(6, 8, 3, 1, 1, bias=False),
            nn.PReLU(8),
            nn.Conv2d(8, 8, 3, 2, 1, bias=False),
            nn.BatchNorm2d(8),
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.PReLU(2), nn.Conv2d(2, 8, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y * self.squeeze(y) + self.shortcut(x)


MODELS: dict[int, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    2: (Head, (3, 16)),
    3: (Separator, (1, 1, 64)),
    4: (IRSE, (1, 6, 8, 8)),
    5: (Volume, (1, 1, 4, 6, 6)),
}
ROUTES = ("trace", "export")


def convert(model: nn.Module, x: torch.Tensor, route: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if route == "trace":
            made = torch.jit.trace(model, x, check_trace=False)
            return coremltools.convert(
                made, inputs=[coremltools.TensorType(shape=x.shape)], convert_to="mlprogram", skip_model_load=True
            )
        program = torch.export.export(model, (x,)).run_decompositions({})
        return coremltools.convert(program, convert_to="mlprogram", skip_model_load=True)


def gradients(model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    y = model(x)
    total = (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)).sum()
    sources = {"x": x, **dict(model.named_parameters())}
    return dict(zip(sources, torch.autograd.grad(total, list(sources.values())), strict=True))


@pytest.mark.parametrize("rank", [2, 3, 5])
@pytest.mark.parametrize("route", ROUTES)
def test_refused_before_and_converted_after(rank: int, route: str) -> None:
    make, shape = MODELS[rank]
    torch.manual_seed(0)
    model, x = trained(make()).eval(), torch.randn(shape)
    is_taken = rank in coreml.prelu_ranks(coreml.here())
    with contextlib.nullcontext() if is_taken else pytest.raises(ValueError, match="alpha"):
        convert(model, x, route)

    fixed, report = modellint.fix_model(model, example_inputs=(x,), frontend=route, precision="fp32")

    if is_taken:
        assert report.fixed == report.undone == ()
        return
    assert convert(fixed, x, route) is not None
    assert report.convertible
    assert {(one.code, one.exactness) for one in report.fixed} == {("OPS004", "bit-equal")}
    assert not report.undone
    assert list(fixed.state_dict()) == list(model.state_dict())
    for seed in range(5):
        other = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 10.0**seed
        assert torch.equal(fixed(other), model(other))
    before, after = gradients(model, x), gradients(fixed, x)
    assert before.keys() == after.keys()
    assert all(bool((after[name] == gradient).all()) for name, gradient in before.items())

    found = modellint.verify(fixed, example_inputs=(x,), frontend=route, precision="fp32")
    assert found.ok, found
    assert max(output.error for output in found.outputs) <= 1e-5


@pytest.mark.parametrize("route", ["auto", *ROUTES])
def test_rank_4_is_left_untouched(route: str) -> None:
    make, shape = MODELS[4]
    torch.manual_seed(0)
    model, x = trained(make()).eval(), torch.randn(shape)
    fixed, report = modellint.fix_model(model, example_inputs=(x,), frontend=route)
    assert report.fixed == report.undone == ()
    assert report.convertible
    assert [type(one) for one in fixed.modules()] == [type(one) for one in model.modules()]
    assert torch.equal(fixed(x), model(x))


def test_untrained_slopes_are_left_untouched() -> None:
    fixed, report = modellint.fix_model(Head().eval(), example_inputs=(torch.randn(3, 16),))
    assert report.fixed == ()
    assert not any(isinstance(one, CustomPReLU) for one in fixed.modules())


class Both(nn.Module):
    """One layer at rank 4, one at rank 5, and one that is used at both."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.volume, self.shared = nn.PReLU(3), nn.PReLU(3), nn.PReLU(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = x.flatten(3)
        return self.volume(x).sum() + self.image(image).sum() + self.shared(x).sum() + self.shared(image).sum()


def test_only_what_is_refused_is_replaced() -> None:
    fixed, report = modellint.fix_model(trained(Both()).eval(), example_inputs=(torch.randn(1, 3, 2, 2, 4),))
    assert [type(one) for one in (fixed.image, fixed.volume, fixed.shared)] == [nn.PReLU, CustomPReLU, CustomPReLU]
    assert sorted(path for one in report.fixed for path in one.modules) == ["shared", "volume"]


# What a layer is besides its slopes


def fixed_layer(layer: nn.PReLU) -> nn.Module:
    fixed, report = modellint.fix_model(layer, example_inputs=(torch.randn(2, 3, 4, 2, 2, dtype=layer.weight.dtype),))
    assert [one.code for one in report.fixed if one.code != "MOD001"] == ["OPS004"]
    return fixed


def test_the_root() -> None:
    layer = trained(nn.PReLU(3)).eval()
    fixed = fixed_layer(layer)
    assert type(fixed) is CustomPReLU
    assert type(layer) is nn.PReLU
    assert torch.equal(fixed.weight, layer.weight)
    assert list(fixed.state_dict()) == ["weight"]


def test_frozen_slopes_stay_frozen() -> None:
    layer = trained(nn.PReLU(3)).eval().requires_grad_(False)
    fixed = fixed_layer(layer)
    assert [one.requires_grad for one in fixed.parameters()] == [False]
    assert isinstance(fixed.weight, nn.Parameter)


def test_a_type_of_its_own() -> None:
    assert fixed_layer(trained(nn.PReLU(3, dtype=torch.float16)).eval()).weight.dtype is torch.float16


def test_hooks_and_attributes_stay() -> None:
    layer = trained(nn.PReLU(3)).eval()
    seen: list[int] = []
    layer.register_forward_hook(lambda module, given, output: seen.append(1))
    layer.register_forward_pre_hook(lambda module, given: None)
    layer.note = "mine"
    fixed = fixed_layer(layer)
    assert (len(fixed._forward_hooks), len(fixed._forward_pre_hooks), fixed.note) == (1, 1, "mine")
    assert seen == []


class Twice(nn.Module):
    """One layer under two names, one parameter in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.PReLU(3)
        self.again = self.first
        self.tied = nn.PReLU(3)
        self.tied.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.again(self.first(x)))


def test_sharing_stays() -> None:
    model = trained(Twice()).eval()
    fixed, report = modellint.fix_model(model, example_inputs=(torch.randn(2, 3, 4, 2, 2),))
    assert fixed.first is fixed.again
    assert fixed.first.weight is fixed.tied.weight
    assert type(fixed.first) is type(fixed.tied) is CustomPReLU
    assert list(fixed.state_dict()) == list(model.state_dict())
    assert ("first", "again") in [one.modules for one in report.fixed]


class Own(nn.PReLU):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


def test_a_class_of_the_users_own_is_left_alone() -> None:
    fixed, report = modellint.fix_model(
        trained(Own(3)).eval(), example_inputs=(torch.randn(2, 3, 4, 2, 2),), frontend="trace"
    )
    assert type(fixed) is Own
    assert report.fixed == ()
    assert [finding.code for finding in report.diagnostics if finding.code == "OPS004"] == ["OPS004"]

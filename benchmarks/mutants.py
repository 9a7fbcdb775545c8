"""Small models whose conversions are right, of the layers that real ones are made of, with weights as training leaves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Perceptron(nn.Module):
    def __init__(self, width: int = 12, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


class Convolutional(nn.Module):
    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, groups=2)
        self.head = nn.Linear(channels, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.silu(self.first(x))
        x = functional.gelu(self.second(x))
        return self.head(x.mean((2, 3)))


class Normalized(nn.Module):
    """A batch normalization that no convolution stands before."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        made: dict[str, Callable[[], nn.Module]] = {
            "batch": lambda: nn.BatchNorm2d(6),
            "group": lambda: nn.GroupNorm(2, 6),
            "instance": lambda: nn.InstanceNorm2d(6, affine=True),
            "layer": lambda: nn.LayerNorm((6, 6, 6)),
        }
        self.norm = made[kind]()
        self.conv = nn.Conv2d(6, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(torch.sigmoid(x) * 0.1)
        return x + self.conv(torch.relu(y))


class Attention(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm(x * 0.1)
        query, key, value = self.split(self.query(y)), self.split(self.key(y)), self.split(self.value(y))
        scores = query @ key.transpose(-1, -2) * 0.5
        scores = scores.masked_fill(mask[:, None, None, :], -1e4)
        y = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return x + self.out(y)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.cells = kind(5, 6, **options)
        self.head = nn.Linear(12 if options.get("bidirectional") else 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.cells(x)
        return self.head(y)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = torch.where(mask, self.first(x), self.second(x))
        y = y.masked_fill(~mask, 0.25)
        return torch.where(y > 0, y, y * 0.3) + x


class Transposing(nn.Module):
    """Square matrices, whose transposition no shape betrays."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mix(x.transpose(1, 2))
        y = torch.sigmoid(y.transpose(1, 2))
        z = y.permute(0, 2, 1) * x
        return z.cumsum(1).transpose(1, 2) + 0.5 * x


class Shuffled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        y = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).flatten(1, 2)
        y = self.conv(y)
        y = y.permute(0, 2, 3, 1).softmax(-1).permute(0, 3, 1, 2)
        return y.transpose(2, 3) * x


class Mixer(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = nn.Linear(8, 8), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + torch.relu(self.channels(self.second(x)))


class Upsampling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.up = nn.ConvTranspose2d(6, 3, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(functional.leaky_relu(self.down(x), 0.1) * 0.1)
        return self.up(torch.tanh(y)) + x


class Squeezing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)
        self.gate = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(torch.relu(self.conv(x)))
        return y * torch.sigmoid(self.gate(y.mean(-1)))[..., None]


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.cells = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y, _ = self.cells(self.norm(self.words(ids) * 0.1))
        return self.head(y).log_softmax(-1)


class Gated(nn.Module):
    """Several choices by masks of different origins."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.register_buffer("window", torch.ones(5, 5, dtype=torch.bool).tril())

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = x @ self.first(x).transpose(1, 2)
        scores = torch.where(self.window, scores, -50.0)
        scores = scores.masked_fill(mask[:, None, :], -30.0).softmax(-1)
        y = scores @ x
        y = torch.where(y.abs() > 0.5, y, 2 * y)
        return torch.where(mask[..., None], x, y)


def drawn(model: nn.Module, seed: int) -> nn.Module:
    """The model in evaluation mode, with weights, scales and running averages that are not those of a constructor."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, one in (*model.named_parameters(), *model.named_buffers()):
            if not one.is_floating_point():
                continue
            noise = torch.randn(one.shape, generator=draw)
            if name.endswith("running_var"):
                one.copy_(noise.abs() * 0.01 + 0.004)
            elif "norm" in name and name.endswith("weight"):
                one.copy_(1 + 0.3 * noise)
            else:
                one.copy_(one + 0.2 * noise)
    return model.eval()


def models() -> list[tuple[str, Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]]:
    """Names, what builds the models, and what draws their inputs."""

    def image(channels: int, size: int = 6) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.randn(2, channels, size, size),)

    def sequence(width: int, length: int = 6) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.randn(2, length, width),)

    def masked(width: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.randn(2, 5, width), torch.tensor([[False, False, True, False, True], [False] * 5]))

    found: list[tuple[str, Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = [
        ("perceptron", Perceptron, lambda: (torch.randn(3, 12),)),
        ("deep", lambda: Perceptron(8, 8), lambda: (torch.randn(3, 8),)),
        ("convolutional", Convolutional, image(3, 8)),
        ("attention", Attention, masked(8)),
        ("wide attention", lambda: Attention(12, 3), masked(12)),
        ("gated", Gated, masked(6)),
        ("masked", Masked, lambda: (torch.randn(2, 6), torch.rand(2, 6) > 0.4)),
        ("transposing", Transposing, sequence(6)),
        ("shuffled", Shuffled, image(8)),
        ("mixer", Mixer, sequence(8, 8)),
        ("upsampling", Upsampling, image(3, 8)),
        ("squeezing", Squeezing, lambda: (torch.randn(2, 4, 9),)),
        ("embedded", Embedded, lambda: (torch.randint(0, 20, (2, 7)),)),
    ]
    found += [(kind, lambda kind=kind: Normalized(kind), image(6)) for kind in ("batch", "group", "instance", "layer")]  # type: ignore[misc]
    for kind in (nn.LSTM, nn.GRU):
        found.append((kind.__name__, lambda kind=kind: Recurrent(kind, batch_first=True), sequence(5)))  # type: ignore[misc]
    found += [
        (f"masked {width}", Masked, lambda width=width: (torch.randn(width, 6), torch.rand(width, 6) > 0.6))
        for width in (3, 5)
    ]  # type: ignore[misc]
    found.append(("long GRU", lambda: Recurrent(nn.GRU), sequence(5, 4)))
    found.append(("both ways", lambda: Recurrent(nn.LSTM, bidirectional=True), sequence(5)))
    found.append(("two layers", lambda: Recurrent(nn.LSTM, num_layers=2), sequence(5)))
    return found

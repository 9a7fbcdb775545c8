"""Export of pipelines, like Stable Diffusion and like Whisper: `modellint.export_pipeline`, from end to end.

Usage: python benchmarks/pipelines.py [PIPELINE…] [--precision fp16|fp32] [--steps N] [--tokens N] [--width N]

Weights are random, and scaled so that they do not look as PyTorch draws them. Prints, for each pipeline, seconds, bytes and how far each
stage and the chain are off; the time of the chain is that of one run in PyTorch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import modellint
from modellint.results.exported_pipeline import ExportedPipeline

WORDS, LENGTH, CHANNELS, SIZE, MELS, FRAMES = 200, 16, 4, 16, 16, 64


class TextEncoder(nn.Module):
    """Tokens of 1x16 to 1 x 16 x width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return x


class Block(nn.Module):
    """Residual convolution with an embedding of the time, and attention to the text."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(width, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x: Tensor, when: Tensor, text: Tensor) -> Tensor:
        x = x + self.conv(nn.functional.silu(self.norm(x))) + self.time(when)[:, :, None, None]
        flat = x.flatten(2).transpose(1, 2)
        return (flat + self.attention(flat, text, text)[0]).transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    """A small U-Net of latents, 1x4x16x16, a step of 1000, and a text."""

    times: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        rates = torch.exp(torch.arange(width // 2) * (-9.2 / (width // 2)))
        angles = torch.arange(1000.0).unsqueeze(1) * rates
        self.register_buffer("times", torch.cat([angles.sin(), angles.cos()], 1))
        self.enter = nn.Conv2d(CHANNELS, width, 3, padding=1)
        self.down, self.middle, self.up = Block(width), Block(width), Block(width)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.leave = nn.Conv2d(2 * width, CHANNELS, 3, padding=1)

    def forward(self, latents: Tensor, step: Tensor, text: Tensor) -> Tensor:
        when = self.times[step]
        high = self.down(self.enter(latents), when, text)
        low = self.middle(self.shrink(high), when, text)
        low = self.up(nn.functional.interpolate(low, scale_factor=2.0, mode="nearest"), when, text)
        return self.leave(torch.cat([high, low], 1))


class ImageDecoder(nn.Module):
    """Latents to an image of four times the size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(CHANNELS, width, 3, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        x = nn.functional.interpolate(nn.functional.silu(self.enter(latents)), scale_factor=2.0, mode="nearest")
        x = nn.functional.interpolate(nn.functional.silu(self.middle(x)), scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.leave(x))


class SoundEncoder(nn.Module):
    """Features of 1 x 16 x 64 to 1 x 32 x width, as Whisper's encoder does it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(MELS, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(FRAMES // 2, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)

    def forward(self, features: Tensor) -> Tensor:
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(features)))).transpose(1, 2)
        return self.layer(x + self.places)


class TokenDecoder(nn.Module):
    """The logits behind a token, of 1 x 1 x words; keys and values of earlier ones are kept in buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.width, self.length = width, length
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(length, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.query, self.of_sound = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("keys", torch.zeros(1, 2, length, width // 2))
        self.register_buffer("values", torch.zeros(1, 2, length, width // 2))

    def heads(self, x: Tensor) -> Tensor:
        """Two heads: 1 x 2 x length x size."""
        return x.reshape(1, -1, 2, self.width // 2).transpose(1, 2)

    def forward(self, word: Tensor, position: Tensor, sound: Tensor) -> Tensor:
        places = torch.arange(self.length)
        here = (places == position).reshape(1, 1, self.length, 1)
        mask = (places <= position).reshape(1, 1, 1, self.length)
        x = self.words(word) + self.places(position)
        q, k, v = (self.heads(part) for part in self.qkv(self.norm(x)).chunk(3, -1))
        self.keys.copy_(torch.where(here, k, self.keys))  # modellint: ignore[MUT005]
        self.values.copy_(torch.where(here, v, self.values))  # modellint: ignore[MUT005]
        own = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        x = x + own.transpose(1, 2).reshape(1, 1, self.width)
        k, v = (self.heads(part) for part in self.of_sound(sound).chunk(2, -1))
        heard = nn.functional.scaled_dot_product_attention(self.heads(self.query(x)), k, v)
        x = x + heard.transpose(1, 2).reshape(1, 1, self.width)
        return (self.last(x + self.mix(x)) @ self.words.weight.T) / self.width**0.5


def trained(module: nn.Module) -> nn.Module:
    """The module with weights that do not look as PyTorch draws them."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1 + 0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def diffusion(text_encoder: Any, denoiser: Any, decoder: Any, *, steps: int) -> Tensor:
    """An image of 1x3x64x64, by DDIM."""
    text = text_encoder(torch.arange(LENGTH).unsqueeze(0))
    latents = torch.randn(1, CHANNELS, SIZE, SIZE)
    kept = torch.linspace(0.05, 0.999, steps + 1)
    for at in range(steps):
        step = torch.tensor([999 - 1000 * at // steps], dtype=torch.int32)
        noise = denoiser(latents, step, text)
        image = (latents - (1 - kept[at]).sqrt() * noise) / kept[at].sqrt()
        latents = kept[at + 1].sqrt() * image + (1 - kept[at + 1]).sqrt() * noise
    result: Tensor = decoder(latents)
    return result


def dictation(encoder: Any, decoder: Any, *, tokens: int) -> tuple[Tensor, Tensor]:
    """Tokens that are decoded greedily, and the logits of all."""
    sound = encoder(torch.randn(1, MELS, FRAMES))
    word, text, logits = torch.tensor([[3]], dtype=torch.int32), [], []
    for place in range(tokens):
        logits.append(decoder(word, torch.tensor([place], dtype=torch.int32), sound))
        word = logits[-1].argmax(-1).int()
        text.append(word)
    return torch.cat(text, 1), torch.cat(logits, 1)


class Pipeline(NamedTuple):
    """Modules, and the function that calls them."""

    stages: dict[str, nn.Module]
    chain: Callable[..., Any]
    has_states: bool = False


def built(name: str, options: argparse.Namespace) -> Pipeline:
    """A pipeline by its name."""
    torch.manual_seed(0)
    width = options.width
    if name == "whisper":
        stages = {"encoder": trained(SoundEncoder(width)), "decoder": trained(TokenDecoder(width, options.tokens))}
        return Pipeline(stages, _named(dictation, tokens=options.tokens), True)
    stages = {
        "text_encoder": trained(TextEncoder(width)),
        "denoiser": trained(Denoiser(width)),
        "decoder": trained(ImageDecoder(width)),
    }
    return Pipeline(stages, _named(diffusion, steps=options.steps))


def _named(function: Callable[..., Any], **rest: int) -> Callable[..., Any]:
    chain = partial(function, **rest)
    chain.__name__ = function.__name__  # type: ignore[attr-defined]
    return chain


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Add how long a block takes."""
    began = time.monotonic()
    yield
    seconds.append(time.monotonic() - began)


def show(name: str, pipeline: Pipeline, options: argparse.Namespace) -> bool:
    """Export a pipeline, and print how that went; whether it agrees."""
    seconds: list[float] = []
    modules = pipeline.stages
    buffers = {key: {at: buffer.clone() for at, buffer in module.named_buffers()} for key, module in modules.items()}
    with torch.no_grad(), timed(seconds):
        pipeline.chain(**modules)
        for key, module in modules.items():
            for at, buffer in module.named_buffers():
                buffer.copy_(buffers[key][at])
    summary: ExportedPipeline | None
    with tempfile.TemporaryDirectory() as folder, timed(seconds):
        try:
            summary = modellint.export_pipeline(
                modules,
                Path(folder) / "packages",
                chain=pipeline.chain,
                states=pipeline.has_states,
                deployment_target="iOS18" if pipeline.has_states else None,
                precision=options.precision,
            ).summary
        except modellint.PipelineError as error:
            print(error)
            summary = error.summary
    if summary is None or summary.chain is None:
        return False
    print(
        f"{name}: {summary.verdict}; export {seconds[1]:.1f} s, the chain in PyTorch {seconds[0]:.2f} s; {summary.size / 1000:.0f} kB"
    )
    calls = {each.name: each for each in summary.chain.stages}
    for stage in summary.stages:
        exported, each = stage.exported, calls[stage.name]
        if exported is not None:
            single = max((output.error for output in exported.verification.outputs), default=0.0)
            half = min((output.snr for output in exported.verification.half), default=float("inf"))
            cases = sum(case.error is not None for case in exported.verification.cases)
            print(
                f"  {stage.name:12} {exported.size / 1000:6.0f} kB  float32 {single:.1e} of scale, {half:.0f} dB on {cases} inputs; "
                f"in the chain {each.calls:3} calls, alone {each.alone:4.0f} dB, together {each.together:4.0f} dB"
            )
    for precision, outputs in (
        ("float32", summary.chain.verification.outputs),
        ("float16", summary.chain.verification.half),
    ):
        for output in outputs:
            far = f"{output.error:.1e} of the scale, {output.snr:.0f} dB"
            print(f"  chain, {precision}: {output.path or 'what it returns'} of {output.shape}: {far}")
    return summary.ok


def main() -> None:
    """Print how each pipeline goes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pipelines", nargs="*", metavar="PIPELINE", help="diffusion, whisper (default: both)")
    parser.add_argument("--precision", choices=("fp16", "fp32"), default="fp16")
    parser.add_argument("--steps", type=int, default=10, help="of the diffusion")
    parser.add_argument("--tokens", type=int, default=24, help="that are decoded")
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = options.pipelines or ["diffusion", "whisper"]
    agreeing = sum(show(name, built(name, options), options) for name in names)
    print(f"{agreeing} of {len(names)} agree")


if __name__ == "__main__":
    main()

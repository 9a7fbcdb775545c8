"""Every rewrite is run beside what it stands for, and converted by both routes."""

from __future__ import annotations

import contextlib
import linecache
import math
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional

import modellint
from modellint.cli import cli
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint_rules.operators.rewrites import Rewrite, rewrites

pytestmark = pytest.mark.filterwarnings("ignore")

ALL = tuple(dict.fromkeys(rewrites().values()))
TRIALS = 100
TEXT = """\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def forward(self, {names}):
        return {expression}
"""


def tensor(word: str, generator: torch.Generator) -> torch.Tensor:
    kind = word[-1] if word[-1].isalpha() else ""
    shape = [int(size) for size in word.rstrip("iu").split("x")]
    match kind:
        case "i":
            return torch.randint(0, 2, shape, generator=generator)
        case "u":
            return torch.rand(shape, generator=generator) * 0.8 + 0.1
    return torch.randn(shape, generator=generator)


def drawn(rewrite: Rewrite, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = [tensor(word, generator) for word in rewrite.inputs.split()]
    if "bucketize" in rewrite.operators:
        inputs[1] = inputs[1].sort()[0]
    return inputs


def value(expression: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    names = zip("xyz", (one.clone() for one in inputs), strict=False)
    found: torch.Tensor = eval(expression, {"torch": torch, "F": functional, "math": math, **dict(names)})
    return found


@pytest.mark.parametrize("rewrite", ALL, ids=lambda one: one.operators.split()[0])
def test_gives_the_same(rewrite: Rewrite) -> None:
    for seed in range(TRIALS):
        inputs = drawn(rewrite, seed)
        wanted, given = value(rewrite.original, inputs), value(rewrite.written, inputs)
        assert (given.shape, given.dtype) == (wanted.shape, wanted.dtype)
        if rewrite.ulps == 0:
            assert torch.equal(given, wanted)
        else:
            place = 2.0 ** torch.frexp(wanted.abs().max())[1].item() * torch.finfo(wanted.dtype).eps
            assert (given - wanted).abs().max().item() <= rewrite.ulps * place


def text_of(rewrite: Rewrite, expression: str) -> str:
    return TEXT.format(names=", ".join("xyz"[: len(rewrite.inputs.split())]), expression=expression)


class Several(nn.Module):
    """Modules, each with inputs of its own."""

    def __init__(self, group: tuple[Rewrite, ...]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(map(built, group))
        self.counts = [len(one.inputs.split()) for one in group]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = list(inputs)
        found = []
        for part, count in zip(self.parts, self.counts, strict=True):
            found.append(part(*left[:count]))
            del left[:count]
        return tuple(found)


def built(rewrite: Rewrite) -> nn.Module:
    text, path = text_of(rewrite, rewrite.written), f"<{rewrite.operators}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    scope: dict[str, Any] = {"__name__": "rewrite"}
    exec(compile(text, path, "exec"), scope)
    model: nn.Module = scope["Net"]().eval()
    return model


SIZE = 12
GROUPS = [ALL[start : start + SIZE] for start in range(0, len(ALL), SIZE)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0].operators.split()[0])
@pytest.mark.parametrize("route", ["trace", "export"])
def test_converts(group: tuple[Rewrite, ...], route: str) -> None:
    inputs = tuple(one for rewrite in group for one in drawn(rewrite, 0))
    model = Several(group).eval()
    if route == "trace":
        types = [
            ct.TensorType(shape=one.shape, dtype=np.float32 if one.dtype.is_floating_point else np.int32)
            for one in inputs
        ]
        with torch.no_grad(), silence():
            ct.convert(torch.jit.trace(model, inputs, check_trace=False), inputs=types, skip_model_load=True)
        return
    with torch.no_grad(), silence():
        program = torch.export.export(model, inputs)
        with contextlib.suppress(Exception):
            ct.convert(program.run_decompositions({}), skip_model_load=True)
            return
        ct.convert(program.run_decompositions(), skip_model_load=True)


# Slices, and what converts in some uses or by some versions.
SILENT = {
    "alias",
    "outer",
    "swapaxes",
    "where.ScalarOther",
    "__and__",
    "__lshift__",
    "__rshift__",
    "upsample_nearest3d",
}
FOUND = [one for one in ALL if one.operators.split()[0] not in SILENT | {"_upsample_nearest_exact2d"}]


@pytest.mark.parametrize("rewrite", FOUND, ids=lambda one: one.operators.split()[0])
def test_is_the_help_of_what_is_found(rewrite: Rewrite) -> None:
    helps = [one.help or "" for one in modellint.check_source(text_of(rewrite, rewrite.original)).diagnostics]
    assert any(f"`{rewrite.written}`" in one for one in helps)
    assert not [
        one.message
        for one in modellint.check_source(text_of(rewrite, rewrite.written)).diagnostics
        if one.code.startswith("OPS")
    ]


@pytest.mark.parametrize("operator", ["fmod", "__or__", "alias", "aten::movedim", "torch.celu", "where.ScalarOther"])
def test_is_in_the_table(operator: str) -> None:
    assert "Write `" in CliRunner().invoke(cli, ["ops", operator]).stdout

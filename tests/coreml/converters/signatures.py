"""What each supplied converter is tried on: an expression, and inputs drawn at random.

A line of ``signatures.txt`` is ``operator | inputs | expression``; ``operator/trace`` is tried by that route only. An input is a
shape, one letter for each size that is drawn and digits as they are, and what its elements are: nothing (numbers, infinite ones and
such that are none among them), ``s`` (those but for numbers whose product or quotient is too large), ``p`` (plain numbers), ``r``
(small and large ones), ``u`` (numbers between 0.1 and 0.9), ``i`` (integers), ``w`` (integers of all 32 bits), ``n`` (integers from
0 to 30), ``m`` (from 0 to 15), ``o`` (from 1 to 30), ``b`` (truth values). ``*`` is any shape; ``?`` one that is broadcast with it. In an
expression ``{d}`` is an axis of the first input, counted from either end, and ``{a}``, ``{b}``, … a size.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers.integrations.moe  # noqa: F401, which registers operators
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")


class Line(NamedTuple):
    """One line of the table."""

    operator: str
    inputs: tuple[str, ...]
    expression: str
    routes: tuple[str, ...]


class Case(NamedTuple):
    """A signature with sizes."""

    expression: str
    words: tuple[tuple[tuple[int, ...], str], ...]
    """The shape of each input, and what its elements are."""


def lines() -> list[Line]:
    """All signatures."""
    found = []
    for line in TEXT.strip().splitlines():
        operator, inputs, expression = line.split(" | ", 2)
        operator, _, route = operator.partition("/")
        found.append(Line(operator, tuple(inputs.split()), expression, (route,) if route else ("trace", "export")))
    return found


VARIANTS = {
    "special": {"p": "", "s": "", "r": ""},
    "bounded": {"p": "s", "r": "s"},
    "plain": {"": "p", "s": "p", "r": "p"},
    "half": {"": "p", "s": "p", "r": "p", "n": "m"},
    "large": {"": "r", "s": "r", "p": "r"},
    "integer": {"": "i", "s": "i", "p": "i", "r": "i", "u": "o"},
    "truth": {"": "b", "s": "b", "p": "b", "r": "b", "u": "b"},
}
"""What the elements of inputs are instead, by what the table says of them."""


def varied(line: Line, variant: str) -> Line | None:
    """A signature with other elements; None where they are the same."""
    words = []
    for word in line.inputs:
        text, kind = _parsed(word)
        words.append(f"{text}:{VARIANTS[variant].get(kind, kind)}".removesuffix(":"))
    found = line._replace(inputs=tuple(words))
    return None if [_parsed(word) for word in words] == [_parsed(word) for word in line.inputs] else found


@st.composite
def cases(draw: Any, line: Line, smallest: int = 1) -> Case:
    """A signature with sizes drawn."""
    sizes = {letter: draw(st.integers(smallest, 5)) for letter in "abcd"}
    whole = tuple(draw(st.lists(st.integers(smallest, 4), min_size=1, max_size=4)))
    words = []
    for word in line.inputs:
        text, kind = _parsed(word)
        if text == "*":
            shape = whole
        elif text == "?":
            keep = draw(st.integers(0, len(whole) - 1))
            shape = tuple(1 if draw(st.booleans()) else size for size in whole[keep:])
        else:
            shape = tuple(int(one) if one.isdigit() else sizes[one] for one in text)
        words.append((shape, kind))
    rank = max(1, len(words[0][0]))
    expression = line.expression.replace("{d}", str(draw(st.integers(-rank, rank - 1))))
    for letter, size in sizes.items():
        expression = expression.replace(f"{{{letter}}}", str(size))
    return Case(expression, tuple(words))


def drawn(line: Line, models: int, each: int, seed: int = 0, smallest: int = 1) -> list[list[Case]]:
    """Cases for so many models of ``each`` cases, whose sizes are at least ``smallest``."""
    found: list[list[Case]] = []

    @seeded(seed)
    @settings(
        max_examples=models + 1,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(cases(line, smallest), min_size=each, max_size=each))
    def draw(one: list[Case]) -> None:
        found.append(one)

    draw()
    # The first that hypothesis draws is the simplest one, in which all sizes are one.
    return found[1:] or found


def _parsed(word: str) -> tuple[str, str]:
    text, _, kind = word.partition(":")
    if not kind and len(text) > 1 and text[-1] in "prsu":
        text, kind = text[:-1], text[-1]
    return text, kind


class Several(nn.Module):
    """Some cases of one signature as one model, each with inputs of its own."""

    def __init__(self, found: list[Case]) -> None:
        super().__init__()
        self.counts = [len(case.words) for case in found]
        self.run = []
        self.layers = nn.ModuleList()
        for case in found:
            if case.expression.startswith("nn."):
                self.layers.append(eval(case.expression, {"nn": nn}))
                self.run.append(self.layers[-1])
            else:
                code = compile(f"lambda x, y=None, z=None: {case.expression}", "<case>", "eval")
                self.run.append(eval(code, {"torch": torch, "F": functional, "math": math}))

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        outputs: list[Tensor] = []
        for count, run in zip(self.counts, self.run, strict=True):
            mine, given = given[:count], given[count:]
            result = run(*mine)
            outputs += _tensors(result)
        # What is an input as it is, or a boolean, is no output of a program of any kind.
        return tuple(one + 0 if one.dtype != torch.bool else one.to(torch.int32) for one in outputs)


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [one for part in result for one in _tensors(part)]


_SPECIAL = (3e38, -1e-40, 1e-38, 0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-30, -0.5)
"""Another number times the first one, or over the next two, is too large for single precision.

PyTorch itself does not know then what it gives. Whether it rounds a product before it adds something is up to the processor
(``ATEN_CPU_CAPABILITY=default`` does, ``avx2`` does not), and shows in ``torch.add(-inf, 3e38, alpha=1.7)``; ``torch.fmod(1.5, 1e-40)``
is no number in a long tensor, and 6e-41 in a short one.
"""


_WIDE = (0, 1, -1, 2**24 - 1, 2**24 + 1, -(2**24) - 1, 2**16, -(2**16), 2**31 - 1, -(2**31))


def values(case: Case, chance: torch.Generator) -> list[Tensor]:
    """Inputs of a case."""
    return [_drawn(shape, kind, chance) for shape, kind in case.words]


def _drawn(shape: tuple[int, ...], kind: str, chance: torch.Generator) -> Tensor:
    match kind:
        case "b":
            return torch.randint(0, 2, shape, generator=chance).bool()
        case "w":
            found = torch.randint(-(2**31), 2**31, shape, generator=chance)
            some = torch.rand(shape, generator=chance) < 0.3
            which = torch.randint(0, len(_WIDE), shape, generator=chance)
            return torch.where(some, torch.tensor(_WIDE)[which], found).to(torch.int32)
        case "i":
            return torch.randint(-100, 100, shape, generator=chance, dtype=torch.int32)
        case "n" | "o" | "m":
            return torch.randint(
                int(kind == "o"), 15 if kind == "m" else 30, shape, generator=chance, dtype=torch.int32
            )
        case "u":
            return torch.rand(shape, generator=chance) * 0.8 + 0.1
    found = torch.randn(shape, generator=chance) * 2
    if kind == "r":
        found = found * 10.0 ** int(torch.randint(-2, 4, (), generator=chance))
    if kind in "pr":
        return found
    some = torch.rand(shape, generator=chance) < 0.15
    which = torch.randint(3 * int(kind == "s"), len(_SPECIAL), shape, generator=chance)
    return torch.where(some, torch.tensor(_SPECIAL)[which], found)

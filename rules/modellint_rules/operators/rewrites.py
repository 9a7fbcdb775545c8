"""Rewrites of operators that do not convert, read from ``rewrites.json``.

Tests run every rewrite beside the original on random inputs, and convert it by both routes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Rewrite(NamedTuple):
    """An expression of operators that convert, for one that does not."""

    operators: str
    """Names without a namespace, with spaces between them."""
    original: str
    """How it is called, on ``x``, ``y`` and ``z``."""
    written: str
    inputs: str
    """Shapes of ``x``, ``y`` and ``z``; behind a shape ``i`` for indices, ``b`` for booleans, ``u`` for numbers between 0 and 1."""
    ulps: int = 0
    """How far the two may be apart, in units of the last place of the largest output; 0 where they are equal bit for bit."""
    given: str = ""
    """What must hold for it."""

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        condition = f", given {self.given}" if self.given else ""
        rounds = "" if self.ulps == 0 else "; it may round differently"
        return f"Write `{self.written}` for `{self.original}`{condition}{rounds}"


@cache
def rewrites() -> Mapping[str, Rewrite]:
    """All rewrites, by operator."""
    groups = json.loads(Path(__file__).with_name("rewrites.json").read_bytes())
    known = [Rewrite(**fields) for group in groups for fields in group["rewrites"]]
    return {operator: rewrite for rewrite in known for operator in rewrite.operators.split()}


@cache
def advice(operator: str) -> str | None:
    """What to write in the place of an operator (``aten::fmod``), if anything is known."""
    name = operator.rpartition("::")[2]
    rewrite = rewrites().get(name) or rewrites().get(name.rstrip("_"))
    return None if rewrite is None else rewrite.advice

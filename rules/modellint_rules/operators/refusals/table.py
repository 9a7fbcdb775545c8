"""Uses of PyTorch's API that coremltools refuses for a literal argument, measured with coremltools 9.0 and torch 2.13.

They stand in ``refusals.json``, one in a line: the fields of `Refusal`, with each condition on an argument by its name, or as a name
with the values that it asks about (``{"one_of": ["circular"]}``). Tests convert every example. Those that coreai-torch 0.4.3
converts to something else stand in ``converted_otherwise.json``, and those that coremltools does in ``wrong_conversions.json``, in the
same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.authoring import Trigger

if TYPE_CHECKING:
    from modellint_rules.operators.refusals.conditions import Refusal


@cache
def refusals() -> tuple[Refusal, ...]:
    """The uses, with conditions that can be asked."""
    from modellint_rules.operators.refusals.conditions import read

    return tuple(map(read, _entries()))


@cache
def converted_otherwise() -> tuple[Refusal, ...]:
    """The uses that coreai-torch converts to something else."""
    from modellint_rules.operators.refusals.conditions import read

    return tuple(map(read, json.loads(Path(__file__).with_name("converted_otherwise.json").read_text("utf-8"))))


@cache
def wrong_conversions() -> tuple[Refusal, ...]:
    """The uses that coremltools converts to something else."""
    from modellint_rules.operators.refusals.conditions import read

    return tuple(map(read, json.loads(Path(__file__).with_name("wrong_conversions.json").read_text("utf-8"))))


@cache
def words() -> tuple[frozenset[str], frozenset[str]]:
    """Trigger words: two sets, of each of which code with a refused use holds a word."""
    entries = _entries()
    distinct: frozenset[str] = frozenset().union(*(_marked(entry) for entry in entries if entry.get("distinct", True)))
    others = [entry for entry in entries if not entry.get("distinct", True)]
    keywords = frozenset(literal["keyword"] for entry in others for literal in entry.get("literals", ()))
    alone = distinct | {Trigger.ITEM_WRITE}
    return alone.union(*(_marked(entry) for entry in others)), alone | keywords


@cache
def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(Path(__file__).with_name("refusals.json").read_text("utf-8"))
    return entries


def _marked(entry: Mapping[str, Any]) -> Iterator[str]:
    """The trigger words of a refused use, marked as `needs` takes functions of torch and methods of tensors."""
    functions = {name.rpartition(".")[2] for name in entry["names"] if name.rpartition(".")[2].islower()}
    marks = ".~" if any(name.startswith("torch.Tensor.") for name in entry["names"]) else "~"
    for word in entry.get("words", ()):
        yield from (mark + word for mark in marks) if word in functions else (word,)

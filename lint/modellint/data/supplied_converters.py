"""The operators that an export has converters of ours for, and how exact these are: data, without coremltools or torch.

``python -m modellint.measure.generate_supplied_table`` writes ``coreml_supplied.json`` anew from what the converters declare.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

FILE = "coreml_supplied.json"


def exactness(operator: str) -> str | None:
    """How exact our converter of an operator (``aten::fmod``) is; None where there is none."""
    known = _known()
    return next((known[name] for name in _names(operator) if name in known), None)


def _names(operator: str) -> Iterator[str]:
    """What coremltools may look an operator up by, the most specific first."""
    name = operator.removeprefix("aten::").lower()
    base = name.partition(".")[0]
    for spelling in dict.fromkeys((name, base)):
        yield spelling
        # In place.
        if not spelling.endswith("__"):
            yield spelling.rstrip("_")


@lru_cache
def _known() -> Mapping[str, str]:
    table: dict[str, str] = json.loads(Path(__file__).with_name(FILE).read_text("utf-8"))
    return table

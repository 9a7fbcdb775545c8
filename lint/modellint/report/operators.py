"""Operator support as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modellint.report.style import paint
from modellint.results.operator_support import Route, Support

_HEADS = ("operator", "trace", "export", "target")
_NAMES = 4
"""How many names of the API a line shows."""


def render(operators: Sequence[Support], color: bool = False) -> str:
    """A line for each operator, and what is known beside below it."""
    cells = [(row.operator, _route(row.trace), _route(row.export), _target(row)) for row in operators]
    wide = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    lines = [paint(_line(_HEADS, wide), "bold", color)]
    for operator, texts in zip(operators, cells, strict=True):
        line = _line(texts, wide)
        lines.append(line if _converts(operator) else paint(line, "error", color))
        lines.extend(f"  {text}" for text in _beside(operator))
    return "\n".join(lines) + "\n"


def render_json(operators: Sequence[Support]) -> str:
    """A list with an object for each operator."""
    return json.dumps([_to_json(operator) for operator in operators], indent=2, ensure_ascii=False) + "\n"


def _to_json(operator: Support) -> dict[str, Any]:
    issues = dict.fromkeys(hint.issue for hint in operator.hints if hint.issue is not None)
    return {
        "operator": operator.operator,
        "names": list(operator.names),
        "converter": operator.converter,
        "routes": {
            "trace": {"converts": operator.trace.converts, "since": operator.trace.since},
            "export": {
                "converts": operator.export.converts,
                "since": operator.export.since,
                "decompositions": operator.export.decomposed,
            },
        },
        "supplied": None if operator.converter else operator.exactness,
        "mended": operator.exactness if operator.converter else None,
        "target": f"iOS{operator.target}" if operator.trace.since or operator.export.since else None,
        "rewrite": next((hint.text for hint in operator.hints if hint.kind == "rewrite"), None),
        "refused": [hint.text for hint in operator.hints if hint.kind == "refused"],
        "issues": list(issues),
    }


def _converts(operator: Support) -> bool:
    return operator.trace.converts or operator.export.converts


def _line(texts: Sequence[str], wide: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(texts, wide, strict=True)).rstrip()


def _route(route: Route) -> str:
    if route.since is None:
        return "no converter"
    text = "next coremltools" if route.since.startswith("main") else f"since {route.since}"
    return text + " (core ATen)" if route.decomposed else text


def _target(operator: Support) -> str:
    return f"iOS {operator.target}" if operator.trace.since or operator.export.since else "-"


def _beside(operator: Support) -> list[str]:
    texts = []
    if operator.names:
        more = len(operator.names) - _NAMES
        texts.append(", ".join(operator.names[:_NAMES]) + (f" and {more} more" if more > 0 else ""))
    if operator.exactness is not None:
        does = "has one of its own" if operator.converter else "supplies a converter"
        texts.append(f"modellint export {does} ({operator.exactness})")
    texts.extend(hint.text for hint in operator.hints if hint.text)
    texts.extend(dict.fromkeys(hint.issue for hint in operator.hints if hint.issue is not None))
    return texts

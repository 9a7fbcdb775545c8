"""What is known of operators, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modellint.report.style import paint
from modellint.results.operator_support import Route, Support

_HEADS = ("operator", "trace", "export", "target")
_NAMES = 4
"""How many names of the API a line shows."""


def render(found: Sequence[Support], color: bool = False) -> str:
    """A line for each operator, and what is known beside below it."""
    cells = [(one.operator, _route(one.trace), _route(one.export), _target(one)) for one in found]
    wide = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    lines = [paint(_line(_HEADS, wide), "bold", color)]
    for one, texts in zip(found, cells, strict=True):
        line = _line(texts, wide)
        lines.append(line if _converts(one) else paint(line, "error", color))
        lines.extend(f"  {text}" for text in _beside(one))
    return "\n".join(lines) + "\n"


def render_json(found: Sequence[Support]) -> str:
    """A list with an object for each operator."""
    return json.dumps([_to_json(one) for one in found], indent=2, ensure_ascii=False) + "\n"


def _to_json(one: Support) -> dict[str, Any]:
    issues = dict.fromkeys(hint.issue for hint in one.hints if hint.issue is not None)
    return {
        "operator": one.operator,
        "names": list(one.names),
        "converter": one.converter,
        "routes": {
            "trace": {"converts": one.trace.converts, "since": one.trace.since},
            "export": {
                "converts": one.export.converts,
                "since": one.export.since,
                "decompositions": one.export.decomposed,
            },
        },
        "supplied": None if one.converter else one.exactness,
        "mended": one.exactness if one.converter else None,
        "target": f"iOS{one.target}" if one.trace.since or one.export.since else None,
        "rewrite": next((hint.text for hint in one.hints if hint.kind == "rewrite"), None),
        "refused": [hint.text for hint in one.hints if hint.kind == "refused"],
        "issues": list(issues),
    }


def _converts(one: Support) -> bool:
    return one.trace.converts or one.export.converts


def _line(texts: Sequence[str], wide: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(texts, wide, strict=True)).rstrip()


def _route(route: Route) -> str:
    if route.since is None:
        return "no converter"
    text = "next coremltools" if route.since.startswith("main") else f"since {route.since}"
    return text + " (core ATen)" if route.decomposed else text


def _target(one: Support) -> str:
    return f"iOS {one.target}" if one.trace.since or one.export.since else "-"


def _beside(one: Support) -> list[str]:
    texts = []
    if one.names:
        more = len(one.names) - _NAMES
        texts.append(", ".join(one.names[:_NAMES]) + (f" and {more} more" if more > 0 else ""))
    if one.exactness is not None:
        does = "has one of its own" if one.converter else "supplies a converter"
        texts.append(f"modellint export {does} ({one.exactness})")
    texts.extend(hint.text for hint in one.hints if hint.text)
    texts.extend(dict.fromkeys(hint.issue for hint in one.hints if hint.issue is not None))
    return texts

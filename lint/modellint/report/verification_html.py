"""A verification as one HTML page that needs nothing else: tables, the first difference, and the error of every operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.report.notebook_displays.elements import STYLE, row, table, text
from modellint.report.verification import (
    ROUTES,
    Line,
    Shown,
    by_precision,
    devices,
    judgement,
    location,
    measures,
    missing,
    number,
    reasons,
    sizes,
    source_line,
    title,
)
from modellint.results.diagnostic import Severity

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.verification import FirstDifference, Layer, Output, Verification

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 1000, 260, 56, 12, 24
_LOWEST, _HIGHEST = -9, 1
_SINGLE, _HALF = "single", "half"


def page(
    verification: Verification,
    target: str,
    shown: Shown = str,
    findings: Sequence[Diagnostic] = (),
    line: Line | None = None,
) -> str:
    """A whole file; ``findings`` are those that belong to the verification."""
    title = text(f"{target}: {judgement(verification)[0]}")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"</head>\n<body>\n{fragment(verification, target, shown, findings, line)}\n</body>\n</html>\n"
    )


def fragment(
    verification: Verification,
    target: str = "",
    shown: Shown = str,
    findings: Sequence[Diagnostic] = (),
    line: Line | None = None,
) -> str:
    """What stands on the page, also for a notebook's cell."""
    parts = [f"<style>{STYLE}</style>", _heading(verification, target)]
    if verification.first_difference is not None:
        parts.append(_first(verification.first_difference, shown, line))
    if verification.recorded is not None:
        parts += [f"<p>{text(line)}</p>" for line in devices(verification.recorded)]
    parts += [f"<p>Note: {text(note)}.</p>" for note in verification.notes]
    if findings:
        parts.append(_findings(findings, shown))
    for precision, outputs in by_precision(verification):
        parts.append(_outputs(precision, outputs))
    if verification.layers:
        parts.append(_plot(verification.layers, verification.first_difference))
    parts.append(_cases(verification))
    if verification.overflows:
        parts.append(_layers("Beyond float16", verification.overflows, shown))
    if verification.layers:
        parts.append(_layers("Operations", verification.layers, shown))
    return f'<div class="modellint">{"".join(filter(None, parts))}</div>'


def _heading(verification: Verification, target: str) -> str:
    words, color = judgement(verification)
    look = {"good": "good", "warning": "weak"}.get(color, "bad")
    by = f"<p>Captured by {text(ROUTES[verification.route])}.</p>" if verification.route in ROUTES else ""
    why = reasons(verification.reason) if verification.verdict == "not converted" else [verification.reason]
    reason = "".join(f"<p>{text(line)}</p>" for line in why if line)
    name = f"{text(target)}: " if target else ""
    return f'<h1>{name}<span class="{look}">{text(words)}</span></h1>{reason}{by}'


def _first(first: FirstDifference, shown: Shown, line: Line | None) -> str:
    rows = [("what", first.message), ("where", location(first.place, shown)), ("", source_line(first.place, line))]
    rows += [("module", first.module), ("PyTorch's operator", first.operator or "")]
    rows += [("MIL's operation", first.operation or ""), ("variable", first.variable or "")]
    rows += [("shape", sizes(first.shape) if first.shape else ""), ("on", first.case)]
    for lost in missing(first):
        rows.append(("not in the program", f"{lost.operator} {location(lost.place, shown)}"))
        rows.append(("", source_line(lost.place, line)))
    cells = "".join(
        f'<tr><th scope="row">{text(name)}</th><td class="m">{text(value)}</td></tr>' for name, value in rows if value
    )
    heading = "Where float16 first fails" if first.kind == "precision" else "First difference"
    return f"<h2>{heading}</h2><table>{cells}</table>"


def _findings(findings: Sequence[Diagnostic], shown: Shown) -> str:
    rows = []
    for finding in findings:
        at = "" if finding.path is None or finding.span is None else f"{shown(finding.path)}:{finding.span.row}"
        rows.append(
            row(
                (finding.code, at, finding.message, finding.help or ""),
                "bad" if finding.severity is Severity.ERROR else "",
            )
        )
    return table("Findings", ("rule", "line", "what", ""), rows)


def _outputs(precision: str, outputs: Sequence[Output]) -> str:
    heads = ("output", "shape", "max abs error", "max rel error", "error/scale", "SNR", "cosine", "non-finite", "on")
    rows = []
    for output in outputs:
        case = output.case if output.ok else f"differs on {output.case}"
        rows.append(row((title(output), *measures(output), case), "" if output.ok else "bad", frozenset(range(2, 8))))
    return table(f"Outputs in {precision}", heads, rows)


def _cases(verification: Verification) -> str:
    if not verification.cases:
        return ""
    rows = []
    for case in verification.cases:
        single = "-" if case.error is None else number(case.error)
        half = "-" if case.half is None else number(case.half)
        rows.append(row((case.label, single, half, case.note), "", frozenset({1, 2})))
    return table("Inputs", ("inputs", "float32 error/scale", "float16 error/scale", ""), rows)


def _layers(title: str, layers: Sequence[Layer], shown: Shown) -> str:
    rows = []
    for layer in layers:
        half = "-" if layer.half is None else number(layer.half)
        cells: tuple[str, ...] = (
            layer.variable,
            layer.operation,
            layer.operator,
            layer.module,
            location(layer.place, shown),
            sizes(layer.shape),
        )
        cells += (number(layer.largest), number(layer.error), half)
        rows.append(row(cells, "", frozenset({6, 7, 8})))
    heads = (
        "variable",
        "operation",
        "operator",
        "module",
        "line",
        "shape",
        "largest",
        "float32 error",
        "float16 error",
    )
    return table(title, heads, rows)


def _plot(layers: Sequence[Layer], first: FirstDifference | None) -> str:
    """The errors over the operations in their order, on a logarithmic scale."""
    step = (_WIDTH - _LEFT) / max(len(layers), 1)

    def high(error: float) -> float:
        level = _LOWEST if error <= 0 else math.log10(error) if math.isfinite(error) else _HIGHEST
        share = (min(max(level, _LOWEST), _HIGHEST) - _LOWEST) / (_HIGHEST - _LOWEST)
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share), 1)

    marks = []
    for level in range(_LOWEST, _HIGHEST + 1, 2):
        y = high(10.0**level)
        marks.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">1e{level}</text>'
        )
    for at, layer in enumerate(layers):
        x = round(_LEFT + step * (at + 0.5), 1)
        about = text(f"{layer.variable}: {layer.operation} of {layer.operator} {layer.module}, {sizes(layer.shape)}")
        for error, series in ((layer.half, _HALF), (layer.error, _SINGLE)):
            if error is not None:
                said = f"{about}, {number(error)} of its scale"
                marks.append(
                    f'<circle cx="{x}" cy="{high(error)}" r="2.6" class="{series}"><title>{said}</title></circle>'
                )
        if first is not None and layer.variable == first.variable:
            marks.append(
                f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="var(--bad)" stroke-dasharray="4 3"/>'
            )
    legend = (
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{len(layers)} operations in order; error over the scale of PyTorch’s value: '
        f'<tspan class="{_SINGLE}">float32</tspan>, <tspan class="{_HALF}">float16</tspan></text>'
    )
    return f'<h2>Error by operation</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(marks)}{legend}</svg>'

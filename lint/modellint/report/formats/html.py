"""The findings as one page that needs nothing else: by file with their source, and what is known of each live target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from modellint.report import live_findings, shapes, summary, verification
from modellint.report.formats import CheckResults
from modellint.report.formats.locations import absolute
from modellint.report.frame import framed
from modellint.report.inline_fix_diff import Diffs
from modellint.report.style import visible
from modellint.results.diagnostic import Applicability, Diagnostic, Severity
from modellint.results.model_report import ModelReport
from modellint.results.verification import AGREES
from modellint.rule import Page, RuleError

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.shape_table import Row, Table
    from modellint.results.verification import Output, Verification
    from modellint.source.syntax.source_text import SourceText

_SIGNS = re.compile(r" *[0-9]* +([-+|])( |\Z)")
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_WRAP = re.compile(r"(?<!\n)\n(?![\n\s*|-])")
"""A line end within a paragraph."""
_LOOKS = {"-": "removed", "+": "added", "|": ""}
_CARETS = re.compile(r" *\|[ |_]*\^")
_FIXES = {
    Applicability.SAFE: "safe fix: --fix applies it",
    Applicability.UNSAFE: "unsafe fix: --fix --unsafe-fixes applies it, and it may change what the model computes",
    Applicability.DISPLAY: "this fix is only shown, and never applied",
}
_OUTPUT_HEADS = ("output", "shape", "max abs error", "max rel error", "error/scale", "SNR", "cosine", "non-finite", "")


class Line(NamedTuple):
    """A line of source or of a diff."""

    text: str
    look: str
    """``carets``, ``added``, ``removed`` or nothing."""


class Node(NamedTuple):
    """A call of a module, and the calls within it."""

    row: Row
    name: str
    shapes: str
    place: str
    memory: str
    findings: int
    """How many findings name the module."""
    anchor: str
    """The first of these."""
    children: list[Node]


def render(results: CheckResults) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("modellint.report.formats", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    environment.filters["code_spans"] = _code_spans
    groups = live_findings.by_defect(results.diagnostics)
    entries = [_entry(results, group, f"finding-{number}") for number, group in enumerate(groups, 1)]
    by_file: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_file.setdefault(entry["file"], []).append(entry)
    counts = {severity.label: 0 for severity in reversed(Severity)}
    for entry in entries:
        counts[entry["severity"]] += 1
    codes = {entry["code"]: entry["name"] for entry in entries}
    return environment.get_template("page.html.jinja").render(
        version=results.version,
        title=_title(results),
        ending=summary.render([group[0] for group in groups], fixed=results.fixed).splitlines(),
        counts=counts,
        codes=dict(sorted(codes.items())),
        files=by_file,
        checked=len(results.files),
        problems=[*results.unchecked, *results.unread],
        pages=_pages(results, codes),
        models=[_model(results, target, verdict, entries) for target, verdict in results.targets],
    )


def _shown(value: Any) -> Any:
    """Text as it may be shown: what moves a cursor, or turns the order of characters around, is made visible."""
    if type(value) is str:
        return "\n".join(map(visible, value.split("\n")))
    return value


def _code_spans(text: str) -> Markup:
    """Text with what stands in backticks as code."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(_shown(text)))))


def _title(results: CheckResults) -> str:
    names = [target for target, _ in results.targets] or list(results.files)
    return names[0] if len(names) == 1 else results.root.name or "modellint"


def _entry(results: CheckResults, group: Sequence[Diagnostic], anchor: str) -> dict[str, Any]:
    finding = group[0]
    text = None if finding.path is None else results.text_of(finding.path)
    fix = finding.fix
    return {
        "anchor": anchor,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        "message": finding.message,
        "file": finding.path or finding.target or "the model",
        "place": "" if finding.path is None else finding.place,
        "frame": _frame(text, finding),
        "help": (finding.help or "").splitlines(),
        "fix": "" if fix is None else fix.title,
        "applicability": "" if fix is None else _FIXES[fix.applicability],
        "is_fixable": summary.applicable(finding, unsafe=True),
        "diff": [] if fix is None or text is None else _lines(Diffs().draw_for(text, finding, False)),
        "notes": live_findings.notes(group),
        "modules": frozenset(path for each in group for path in each.modules),
        "targets": frozenset(each.target for each in group if each.target is not None),
        "evidence": finding.evidence,
    }


def _frame(text: SourceText | None, finding: Diagnostic) -> list[Line]:
    frame = framed(text, finding)
    lines = [] if frame is None else frame.draw("error", False)
    return [Line(line, "carets" if _CARETS.match(line) else "") for line in lines if line.strip(" |")]


def _lines(lines: Sequence[str]) -> list[Line]:
    shown = []
    for line in lines:
        sign = _SIGNS.match(line)
        if line.strip(" |"):
            shown.append(Line(line, _LOOKS[sign[1]] if sign else ""))
    return shown


def _pages(results: CheckResults, codes: dict[str, str]) -> dict[str, dict[str, str]]:
    """What each rule that found something says of itself."""
    pages = {}
    for code in codes:
        try:
            page = Page.of(results.rules[code].__class__)
        except (KeyError, RuleError):
            # A rule by somebody else need not have a page.
            continue
        titles = ("What it does", "Why", "Fix safety", "Known limits")
        pages[code] = {title: _WRAP.sub(" ", page.sections[title]) for title in titles}
    return pages


def _model(
    results: CheckResults, target: str, conversion: Conversion | None, entries: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    here = [finding for finding in results.diagnostics if finding.target == target]
    report = next((report for report in results.models if report.target == target), ModelReport(target))
    table, compared = report.table, report.verification

    def named(path: str) -> str:
        return _relative(results, path)

    return {
        "target": target,
        "verdict": live_findings.line_of(conversion, here, is_compared=compared is not None),
        "converts": None if conversion is None else conversion.convertible,
        "findings": sum(target in entry["targets"] for entry in entries),
        "routes": list(_routes(results, conversion)),
        "tree": []
        if table is None
        else _tree(table, [entry for entry in entries if target in entry["targets"]], named),
        "sizes": [] if table is None else _sizes(table),
        "failure": None if table is None else table.failure,
        "operators": [] if compared is None else list(_operators(compared)),
        "comparison": None if compared is None else _comparison(results, compared),
        "note": report.note,
    }


def _relative(results: CheckResults, path: str) -> str:
    """A file as findings name it."""
    place = Path(absolute(results, path))
    return str(place.relative_to(results.folder)) if place.is_relative_to(results.folder) else str(place)


def _routes(results: CheckResults, conversion: Conversion | None) -> Iterator[dict[str, Any]]:
    for verdict in conversion.verdicts if conversion is not None else ():
        said = {True: "converts", False: "does not convert", None: f"not judged: {verdict.reason}"}
        yield {
            "name": verification.ROUTES.get(verdict.route, verdict.route),
            "verdict": said[verdict.convertible],
            "look": {True: "good", False: "error", None: "info"}[verdict.convertible],
            "blockers": [
                {
                    "operator": blocker.operator or "",
                    "kind": blocker.kind,
                    "message": blocker.message,
                    "place": verification.location(blocker.place, lambda path: _relative(results, path)),
                    "modules": ", ".join(filter(None, blocker.modules)),
                    "count": blocker.count,
                }
                for blocker in verdict.blockers
            ],
        }


def _tree(table: Table, entries: Sequence[dict[str, Any]], named: verification.Shown) -> list[Node]:
    """The calls as they lie within one another."""
    roots: list[Node] = []
    around: list[Node] = []
    for row in table.rows:
        about = [entry for entry in entries if row.path in entry["modules"]] if row.path else []
        node = Node(
            row,
            row.name or table.model,
            f"{shapes.shapes(row.inputs)} → {'failed' if row.failed else shapes.shapes(row.outputs)}",
            verification.location(row.place, named),
            shapes.size(row.memory) if row.memory else "",
            len(about),
            about[0]["anchor"] if about else "",
            [],
        )
        del around[row.depth :]
        (around[-1].children if around else roots).append(node)
        around.append(node)
    return roots


def _sizes(table: Table) -> list[tuple[str, str]]:
    bound = " (at the lower bounds of the flexible dimensions)" if table.is_flexible else ""
    return [
        ("parameters", f"{table.parameters:,}"),
        ("of these trainable", f"{table.trainable:,}"),
        ("memory of parameters and buffers", shapes.size(table.parameter_memory)),
        ("memory of inputs", shapes.size(table.input_memory) + bound),
        ("memory of all activations", shapes.size(table.activation_memory) + bound),
    ]


def _operators(compared: Verification) -> Iterator[tuple[str, ...]]:
    """For each operator of PyTorch what it became, how often, and its largest error."""
    by_operator: dict[str, list[Any]] = {}
    for layer in compared.layers:
        by_operator.setdefault(layer.operator, []).append(layer)
    for operator, layers in sorted(by_operator.items()):
        halves = [layer.half for layer in layers if layer.half is not None]
        yield (
            operator,
            ", ".join(sorted({layer.operation for layer in layers})),
            str(len(layers)),
            verification.number(max(layer.error for layer in layers)),
            verification.number(max(halves)) if halves else "-",
        )


def _comparison(results: CheckResults, compared: Verification) -> dict[str, Any]:
    words, look = verification.judgement(compared)
    first = compared.first_difference

    def named(path: str) -> str:
        return _relative(results, path)

    difference = []
    if first is not None:
        difference = [
            ("what", first.message),
            ("where", verification.location(first.place, named)),
            ("module", first.module),
            ("operator of PyTorch", first.operator or ""),
            ("operation of Core ML", first.operation or ""),
            ("on", first.case),
        ]
        difference += [
            ("not in the program", f"{lost.operator} {verification.location(lost.place, named)}")
            for lost in verification.missing(first)
        ]
    return {
        "words": words,
        "look": look,
        "reasons": verification.reasons(compared.reason) if compared.verdict != AGREES and compared.reason else [],
        "heads": _OUTPUT_HEADS,
        "outputs": [
            (precision, [_cells(output) for output in outputs])
            for precision, outputs in (
                ("float32", compared.outputs),
                ("float16", compared.half),
                ("Core ML itself", compared.runtime),
            )
            if outputs
        ],
        "first": [(name, text) for name, text in difference if text],
        "notes": compared.notes,
    }


def _cells(output: Output) -> tuple[tuple[str, ...], bool]:
    return verification.cells(output), output.ok

"""A sweep as a static site: coverage, what stands in the way, a page for each model, plots, a CSV file and a badge."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from modellint.report.sweep import summary
from modellint.report.sweep.changes import Changes
from modellint.results.sweep_row import REACHED, STATUSES, SweepRow
from modellint.settings import RUNTIMES

MARK = ".modellint-report"
"""A file that says that a folder is such a site, and may be replaced by one."""
_LOOKS = ("good", "good", "good", "warning", "warning", "weak", "error", "error", "weak", "weak")
"""How statuses look, in their order."""
_BAR = 240
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Bar(NamedTuple):
    """A part of a plot."""

    x: float
    width: float
    look: str
    label: str


class Model(NamedTuple):
    """One model, and its page."""

    target: str
    name: str
    library: str
    family: str
    page: str
    rows: tuple[SweepRow, ...]
    statuses: tuple[tuple[str, str], ...]
    """For each column the best status with its look, empty where the model was not asked."""


def files(
    rows: Sequence[SweepRow], title: str, version: str, compared: Changes | None = None, earlier: str = ""
) -> Iterator[tuple[str, bytes]]:
    """The files of the site, by their paths in it, for rows of one sweep and its changes since an ``earlier`` one."""
    columns = summary.columns_of(rows)
    models = _models(rows, columns)
    pages = {model.target: model.page for model in models}
    shared = {
        "title": title,
        "version": version,
        "columns": columns,
        "has_changes": compared is not None,
        "earlier": earlier,
        "runtimes": RUNTIMES,
        "pages": pages,
    }
    environment = Environment(
        loader=PackageLoader("modellint.report.sweep", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(look=look, location=_location, bytes=_bytes, ratio=_ratio)

    def page(name: str, up: str = "", **values: Any) -> bytes:
        text = environment.get_template(f"{name}.html.jinja").render(**shared, up=up, **values)
        return text.encode("utf-8", "backslashreplace")

    libraries = summary.coverage(rows, columns, "library")
    yield (
        "index.html",
        page(
            "index",
            groups=[(group, _bars(group)) for group in summary.by_route(rows)],
            libraries=libraries,
            families=[
                (entry.name, summary.coverage([row for row in rows if row.library == entry.name], columns, "family"))
                for entry in libraries
            ],
            models=models,
            total=_total(rows, columns),
        ),
    )
    actions = list(dict.fromkeys(row.action for row in rows))
    listed = [(action, summary.obstacles(rows, action), _rules(rows, action)) for action in actions]
    yield "obstacles.html", page("obstacles", listed=listed)
    if compared is not None:
        yield "changes.html", page("changes", compared=compared)
    for model in models:
        yield model.page, page("model", "../", model=model)
    yield "rows.csv", _csv(rows)
    if columns:
        yield "badge.svg", page("badge", **_badge(rows, columns))
    yield MARK, f"modellint {version}\n".encode()


def look(status: str) -> str:
    """The name of the style of a status."""
    return _LOOKS[STATUSES.index(status)]


def _models(rows: Sequence[SweepRow], columns: Sequence[str]) -> list[Model]:
    by_target: dict[str, list[SweepRow]] = {}
    for row in rows:
        by_target.setdefault(row.target, []).append(row)
    taken: set[str] = set()
    models = []
    for target, own in by_target.items():
        best = {summary.column_of(row): row.status for row in summary.decisive(own)}
        statuses = tuple((best.get(column, ""), look(best[column]) if column in best else "") for column in columns)
        named = max(own, key=lambda row: bool(row.model))
        models.append(
            Model(target, named.name, named.library, named.family, _page(target, taken), tuple(own), statuses)
        )
    return sorted(models, key=lambda model: (model.library, model.family, model.name))


def _page(target: str, taken: set[str]) -> str:
    """A path for a model's page that no other has, also where the case of letters does not count."""
    name = base = _NAME.sub("-", target).strip("-.")[-100:] or "model"
    number = 1
    while name.lower() in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name.lower())
    return f"models/{name}.html"


def _bars(group: summary.Group) -> list[Bar]:
    bars, x = [], 0.0
    for status, count in group.counts:
        width = _BAR * count / group.total
        bars.append(Bar(round(x, 2), round(width, 2), look(status), f"{status}: {count}"))
        x += width
    return bars


def _total(rows: Sequence[SweepRow], columns: Sequence[str]) -> summary.Coverage:
    """The coverage of all models together."""
    return summary.coverage([row._replace(library="all") for row in rows], columns, "library")[0]


def _rules(rows: Sequence[SweepRow], action: str) -> list[tuple[str, list[str]]]:
    """The rules that found an error in models that an action does not bring where they are to come, from the most frequent."""
    by_code: dict[str, dict[str, None]] = {}
    for row in summary.decisive(rows):
        if row.action == action and row.status not in REACHED:
            for finding in row.findings:
                if finding.severity == "error":
                    by_code.setdefault(finding.code, {})[row.target] = None
    return sorted(
        ((code, list(models)) for code, models in by_code.items()), key=lambda entry: (-len(entry[1]), entry[0])
    )


def _badge(rows: Sequence[SweepRow], columns: Sequence[str]) -> dict[str, Any]:
    """The share of models that run which the last action brought where they were to come."""
    total = _total(rows, columns)
    name, reached = total.reached[-1]
    text = f"{reached} of {total.runs}"
    label = f"{name.partition(',')[0]} · {name.partition(', ')[2]}"
    share = reached / total.runs if total.runs else 0.0
    color = "#176d2f" if share >= 0.85 else "#8a5300" if share >= 0.5 else "#b42318"
    left, right = 7 * len(label) + 12, 7 * len(text) + 12
    return {"label": label, "text": text, "color": color, "left": left, "right": right}


def _csv(rows: Sequence[SweepRow]) -> bytes:
    """The rows without what is nested, with the numbers of blockers and findings."""
    nested = ("blockers", "findings", "changes", "files", "versions")
    names = [name for name in SweepRow._fields if name not in nested]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, "blockers", "errors", "warnings"])
    for row in rows:
        severities = [finding.severity for finding in row.findings]
        blockers = "; ".join(dict.fromkeys(blocker.operator or blocker.kind for blocker in row.blockers))
        cells = [_cell(getattr(row, name)) for name in names]
        writer.writerow([*cells, blockers, severities.count("error"), severities.count("warning")])
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: object) -> object:
    # A spreadsheet takes what begins like this for a formula.
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"
    return "" if value is None else value


def _location(path: str | None, row: int) -> str:
    """A place as people read it: of a package the part below where packages are installed."""
    if path is None:
        return ""
    parts = Path(path).parts
    shown = path
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            shown = "/".join(parts[parts.index(folder) + 1 :])
    return f"{shown}:{row}" if row else shown


def _bytes(count: int) -> str:
    if not count:
        return ""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"

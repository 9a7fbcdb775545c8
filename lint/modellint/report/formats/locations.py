"""Where findings are for programs: files relative to a repository, columns in UTF-16, and fingerprints that lines may move under."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from modellint.report.live_findings import by_defect
from modellint.source.syntax.suppressions import last_row

if TYPE_CHECKING:
    from modellint.report.formats import CheckResults
    from modellint.results.diagnostic import Diagnostic, Span
    from modellint.source.syntax.source_text import SourceText

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Variables in which GitHub's and GitLab's runners say where the repository is."""


def absolute(results: CheckResults, shown: str) -> str:
    """The path of a file as machines read it; standard input keeps its name."""
    return shown if shown == "-" else os.path.normpath(results.folder / shown)


def repository(results: CheckResults) -> Path:
    """The folder that a code host names files relative to: a runner's checkout, else the git repository, else the root."""
    for variable in _CHECKOUTS:
        checkout = os.environ.get(variable)
        if checkout and results.folder.resolve().is_relative_to(Path(checkout).resolve()):
            return Path(checkout).resolve()
    for place in (results.folder, *results.folder.parents):
        if (place / ".git").exists():
            return place
    return results.root


def relative(results: CheckResults, shown: str, base: Path) -> str:
    """A file relative to ``base`` with slashes; absolute where it is not in there."""
    if shown == "-":
        return shown
    path = Path(absolute(results, shown))
    for named in (path, path.parent.resolve() / path.name):
        if named.is_relative_to(base):
            return named.relative_to(base).as_posix()
    return path.as_posix()


def uri_path(path: str) -> str:
    """A path with slashes as it stands in a URI, whatever bytes it is of."""
    return quote(os.fsencode(path), safe="/")


def file_of(results: CheckResults, finding: Diagnostic) -> str | None:
    """The file that a finding is shown in: its own, else that of its live target."""
    return finding.path or results.target_files.get(finding.target or "")


def last_place(span: Span, text: SourceText | None) -> tuple[int, int]:
    """Row and column where a span ends (exclusive); one that takes its line end along ends in the row before."""
    row = last_row(span)
    if row == span.end_row or text is None:
        return span.end_row, span.end_column
    return row, len(text.line(row)) + 1


def utf16_column(text: SourceText, row: int, column: int) -> int:
    """A column in UTF-16 code units, from 1."""
    before = text.line(row)[: column - 1]
    # A line may have changed, or end with the span in the next.
    beyond = column - 1 - len(before)
    return len(before.encode("utf-16-le", "surrogatepass")) // 2 + beyond + 1


def defects(results: CheckResults) -> Iterator[tuple[Sequence[Diagnostic], str]]:
    """Every defect once, with a fingerprint that stays when lines move, and that no other defect has.

    It is made of the rule, the file, the text of the line, and what the finding is about; of several that are alike in all
    of this, of their order.
    """
    base = repository(results)
    seen: Counter[str] = Counter()
    for group in by_defect(results.diagnostics):
        finding = group[0]
        shown = file_of(results, finding)
        text = None if finding.path is None else results.text_of(finding.path)
        line = "" if text is None or finding.span is None else " ".join(text.line(finding.span.row).split())
        parts = (
            finding.code,
            (finding.target or "") if shown is None else relative(results, shown, base),
            finding.class_name or "",
            finding.attribute or "",
            finding.operator or "",
            line or finding.message,
        )
        key = "\0".join(parts)
        seen[key] += 1
        data = f"{key}\0{seen[key]}".encode("utf-8", "surrogatepass")
        yield group, sha256(data).hexdigest()[:32]


def described(finding: Diagnostic) -> str:
    """The message of a finding, and below it what helps."""
    return f"{finding.message}\n{finding.help}" if finding.help else finding.message

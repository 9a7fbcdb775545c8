"""The formats that people read in a terminal, each with a summary and a line for every live target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.report import summary
from modellint.report.formats import CheckResults

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic


def full(results: CheckResults) -> str:
    """Findings with their source."""
    if not results.diagnostics:
        # The common case is not worth importing the frames for.
        return _nothing_found(results)
    from modellint.report import findings_with_source as frames

    return _with_verdicts(
        results,
        frames.render(_told(results), results.text_of, results.color, unsafe=results.unsafe, fixed=results.fixed),
    )


def concise(results: CheckResults) -> str:
    """A line for each finding."""
    if not results.diagnostics:
        return _nothing_found(results)
    from modellint.report import concise as lines

    return _with_verdicts(
        results, lines.render(_told(results), results.color, unsafe=results.unsafe, fixed=results.fixed)
    )


def grouped(results: CheckResults) -> str:
    """A line for each finding, below the name of its file."""
    if not results.diagnostics:
        return _nothing_found(results)
    from modellint.report import grouped as lines

    return _with_verdicts(
        results, lines.render(_told(results), results.color, unsafe=results.unsafe, fixed=results.fixed)
    )


def _told(results: CheckResults) -> Sequence[Diagnostic]:
    """The findings, those about what is installed once."""
    if not results.targets:
        return results.diagnostics
    from modellint.report.live_findings import environment_once

    return environment_once(results.diagnostics, results.rules)


def _nothing_found(results: CheckResults) -> str:
    if not results.fixed and (results.unchecked or results.unread):
        nobody_read = len(results.unread) == len(results.files)
        text = "" if nobody_read else "Nothing found in what was checked.\n"
    else:
        text = summary.render((), results.color, results.unsafe, results.fixed)
    return _with_verdicts(results, text)


def _with_verdicts(results: CheckResults, text: str) -> str:
    """A text and, below all findings, a line for each live target."""
    if results.quiet:
        return text if results.diagnostics else ""
    if not results.targets:
        return text
    from modellint.report import live_findings

    lines = []
    is_one = len({target for target, _ in results.targets}) == 1
    for target, verdict in results.targets:
        here = [finding for finding in results.diagnostics if finding.target == target]
        lines.append(live_findings.line_of(verdict, here, None if is_one else target))
    return text + "".join(f"{line}\n" for line in lines if line)

"""Live checks of the targets that settings list, which run the user's code, and so only when the user asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from modellint.report import live_findings
from modellint.results.diagnostic import Diagnostic
from modellint.run import Checker, UsageError
from modellint.server.document_checks import BrokenSettings, ProjectChecks
from modellint.session import request_dispatch
from modellint.session.merge import LiveResult, about, miscompilations, settled
from modellint.session.messages import Limits, Request
from modellint.settings import SettingsError
from modellint.source.syntax.source_text import SourceText, Undecodable

COMMAND = "modellint.checkLive"


class Cancelled(Exception):
    """The user wants no more of it."""


class LiveFindings(NamedTuple):
    """What a check of live targets shows."""

    by_file: dict[Path, tuple[str, tuple[Diagnostic, ...]]]
    """For each file its text as the targets ran it, and all findings, those of source among them."""
    targets: list[dict[str, Any]]
    """For each target what programs want to know of it."""
    lines: list[str]
    """What people do."""


def requests(checks: ProjectChecks, path: Path, chosen: Sequence[str]) -> list[Request]:
    """The targets that the settings of a file list, or those of them that are chosen; nothing is run.

    Raises ``UsageError`` where there are none, and ``BrokenSettings``.
    """
    settings = checks.settings(path)
    models = [model for model in settings.models if not chosen or model.target in chosen]
    file = settings.config or checks.job.root
    if unknown := [target for target in chosen if all(target != model.target for model in settings.models)]:
        raise UsageError(f"{file} lists no live target {', '.join(unknown)} in [[tool.modellint.models]]")
    if not models:
        raise UsageError(f"{file} lists no [[tool.modellint.models]] to check")
    config = Path(settings.origins["models"])
    return request_dispatch.requests_of_settings(checks.job, models, config)


def run(
    checks: ProjectChecks, asked: Sequence[Request], cancelled: Event, progress: Callable[[str, str, float], None]
) -> tuple[list[LiveResult], dict[Path, str]]:
    """Run targets, one after another, each in a process of its own; and the texts of the files that are theirs.

    Raises ``Cancelled``, and ``UsageError`` where the packages that it needs are missing.
    """

    def report(target: str, stage: str, seconds: float) -> None:
        if cancelled.is_set():
            raise Cancelled
        progress(target, stage, seconds)

    texts = {request.location.file: _text(request.location.file) for request in asked if request.location.file}
    results = [checked.result for checked in request_dispatch.check(checks.job, asked, Limits(), report)]
    return results, {path: text for path, text in texts.items() if text is not None}


def merged(
    checks: ProjectChecks, asked: Sequence[Request], results: Sequence[LiveResult], texts: dict[Path, str]
) -> LiveFindings:
    """The findings of live targets and of the source of all files that they stand in, as one."""
    job = checks.job
    files = {
        (job.folder / finding.path): None
        for result in results
        for finding in result.diagnostics
        if finding.path is not None and (job.folder / finding.path).is_relative_to(job.root)
    }
    files.update(dict.fromkeys(texts))
    known = {path: text for path in files if (text := texts.get(path) or _text(path)) is not None}
    try:
        checker = Checker(job)
        source = [finding for path in known for finding in checker.check(path)]
        findings = settled(checker, list(known), source, results)
        if job.baseline is not None:
            sources = {job.shown(path): SourceText(text) for path, text in known.items()}
            old = job.baseline.is_known(findings, sources.get)
            findings = [finding for finding, is_old in zip(findings, old, strict=True) if not is_old]
    except SettingsError as error:
        raise BrokenSettings(None, 1, str(error)) from None
    homes = {request.target.text: request.location.file for request in asked}
    by_file: dict[Path, list[Diagnostic]] = {path: [] for path in known}
    lines = []
    for finding in live_findings.environment_once(findings, job.rules):
        place = homes.get(finding.target or "") if finding.path is None else job.folder / finding.path
        if place in by_file and not checks.excludes(place):
            by_file[place].append(finding if finding.path is not None else finding._replace(span=None))
        elif finding.path is None:
            lines.append(f"{finding.code} {finding.message}")
    targets = []
    for result in results:
        conversion = result.conversion
        if conversion is not None:
            wrong = miscompilations(about(findings, result), job.rules, conversion.destination)
            conversion = conversion._replace(miscompilations=wrong)
        here = [finding for finding in findings if finding.target == result.target]
        targets.append({**live_findings.verdict_of(result.target, conversion, here), "findings": len(here)})
        line = live_findings.line_of(conversion, here, result.target)
        failure = result.diagnostics[0].message if result.failed and result.diagnostics else "nothing was tried"
        lines.append(line or f"{result.target}: {failure}")
    return LiveFindings({path: (known[path], tuple(each)) for path, each in by_file.items()}, targets, lines)


def _text(path: Path) -> str | None:
    try:
        return SourceText.decode(path.read_bytes()).text
    except (OSError, Undecodable):
        return None

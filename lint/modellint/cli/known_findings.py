"""``--baseline``, ``--write-baseline`` and ``--add-ignore``: what is done about the findings of old code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.adoption.baseline import Baseline, listed
from modellint.run import Checker, Outcome, UsageError, changes_to, source_of
from modellint.settings import ALWAYS

if TYPE_CHECKING:
    from modellint.adoption.baseline import Identity, Known, Texts
    from modellint.results.diagnostic import Diagnostic
    from modellint.run import Job
    from modellint.settings import Settings
    from modellint.source.syntax.source_text import SourceText

_MOST = 5
"""How many known findings that are gone are written out."""


def baseline_of(top: Settings, folder: Path, write: bool) -> Baseline:
    """The baseline that the settings or ``--baseline`` name; with ``write`` it need not be there yet. Raises ``SettingsError``."""
    assert top.baseline is not None
    file = Path(os.path.normpath(top.base_of("baseline") / top.baseline))
    if write and not file.exists():
        if not file.parent.is_dir():
            raise UsageError(f"{file}: there is no folder {file.parent}")
        return Baseline(file, folder)
    return Baseline.read(file, folder)


def apply(
    job: Job, baseline: Baseline, files: Sequence[Path], outcome: Outcome, options: Mapping[str, Any], texts: Texts
) -> None:
    """Take the known findings out of an outcome, and tell of those that are gone; or write what is there now."""
    is_asked = _asked(job, baseline, files, outcome)
    if options["write_baseline"]:
        _write(baseline, baseline.updated(outcome.diagnostics, texts, is_asked), job)
        outcome.diagnostics = [finding for finding in outcome.diagnostics if finding.code in ALWAYS]
        return
    findings = outcome.diagnostics
    known = baseline.is_known(findings, texts)
    outcome.diagnostics = [finding for finding, old in zip(findings, known, strict=True) if not old]
    if options["quiet"]:
        return
    shown = job.shown(baseline.file)
    if number := sum(known):
        told = "1 finding that stands" if number == 1 else f"{number} findings that stand"
        click.echo(f"note: not shown: {told} in {shown}", err=True)
    gone = baseline.stale(findings, texts, is_asked)
    if gone:
        number = sum(count for _, count in gone)
        told = "1 finding is" if number == 1 else f"{number} findings are"
        click.echo(f"warning: {shown}: {told} no longer there; --write-baseline takes out:", err=True)
        for line in listed(gone, _MOST):
            click.echo(f"  {line}", err=True)


def _asked(job: Job, baseline: Baseline, files: Sequence[Path], outcome: Outcome) -> Callable[[Identity, Known], bool]:
    """Whether this run would have shown a known finding if it were there."""
    checked = {path.resolve() for path in files}
    failed = {finding.target for finding in outcome.diagnostics if finding.code in ALWAYS}
    unread = {finding.path for finding in outcome.diagnostics if finding.code in ALWAYS}
    ran = {target for target, _ in outcome.targets} - failed

    def is_asked(identity: Identity, known: Known) -> bool:
        path = baseline.path_of(identity)
        if path is not None and not path.exists():
            return True
        if known.target is not None:
            return known.target in ran
        if path is None or path.resolve() not in checked or job.shown(path.resolve()) in unread:
            return False
        return identity.code in job.rules_for(path, job.resolver.of_folder(path.parent))

    return is_asked


def _write(old: Baseline, new: Baseline, job: Job) -> None:
    from modellint.atomic_write import ReplaceError, create_file, replace_file

    counts = {identity: known.times for identity, known in old.known.items()}
    now = {identity: known.times for identity, known in new.known.items()}
    added = sum(max(0, count - counts.get(identity, 0)) for identity, count in now.items())
    gone = sum(max(0, count - now.get(identity, 0)) for identity, count in counts.items())
    data = new.text().encode("utf-8", "surrogatepass")
    try:
        if old.file.exists():
            replace_file(old.file, old.file.read_bytes(), data)
        else:
            create_file(old.file, data)
    except ReplaceError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{old.file}: cannot be written: {error.strerror}") from None
    from modellint.report.summary import counted

    total = sum(now.values())
    click.echo(
        f"{job.shown(old.file)}: {counted(total, 'finding')}, {added} new, {gone} no longer there",
        err=True,
    )


def add_ignores(job: Job, outcome: Outcome, options: Mapping[str, Any]) -> None:
    """Write a comment for each finding that is shown, file by file; with ``--diff`` show what would be written."""
    checker = Checker(job)
    by_path: dict[str, list[Diagnostic]] = {}
    for finding in outcome.diagnostics:
        if finding.path is not None:
            by_path.setdefault(finding.path, []).append(finding)
    left = [finding for finding in outcome.diagnostics if finding.path is None]
    written, files = 0, 0
    for shown, findings in by_path.items():
        suppressed = _comment(checker, shown, findings, outcome, bool(options["show_diff"]))
        written += len(suppressed)
        files += bool(suppressed)
        left.extend(finding for finding in findings if finding not in suppressed)
    outcome.diagnostics = left
    if not options["quiet"]:
        from modellint.report.summary import counted

        told = "Would suppress" if options["show_diff"] else "Suppressed"
        click.echo(f"{told} {counted(written, 'finding')} in {counted(files, 'file')}.", err=True)


def _comment(
    checker: Checker, shown: str, findings: Sequence[Diagnostic], outcome: Outcome, is_diff: bool
) -> Sequence[Diagnostic]:
    """The findings of a file that are suppressed now, or would be."""
    from modellint.adoption.ignore_comments import UNUSED, with_needed_comments
    from modellint.atomic_write import ReplaceError, replace_file
    from modellint.source.syntax.parse import Unparsable
    from modellint.source.syntax.source_text import Undecodable

    path = checker.job.folder / shown
    if all(finding.code in (*ALWAYS, UNUSED) for finding in findings):
        return ()
    if not checker.may_change(path):
        outcome.problems.append(f"{shown}: no comment written: outside the project root, or in site-packages")
        return ()
    try:
        data = path.read_bytes()
        source = source_of(path, data)
        commented = with_needed_comments(source, findings, lambda text: _found(checker, path, shown, text))
        if commented is None:
            outcome.problems.append(f"{shown}: no comment written: the file would have other findings")
            return ()
        if commented.text == source.text:
            return ()
        if is_diff:
            outcome.changes.extend(changes_to(shown, source, commented.text))
        else:
            replace_file(path, data, source.encode(commented.text))
    except (Unparsable, Undecodable, ReplaceError, OSError) as error:
        outcome.problems.append(f"{shown}: no comment written: {error}")
        return ()
    return commented.suppressed


def _found(checker: Checker, path: Path, shown: str, source: SourceText) -> list[Diagnostic]:
    settings = checker.job.resolver.of_folder(path.parent)
    rules = checker.job.rules_for(path, settings)
    return checker.kept(checker.check_text(source, path, shown, rules, settings).diagnostics, rules)

"""Live targets on the command line: run, merged with source findings, and their proven fixes written to source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.atomic_write import ReplaceError, replace_file
from modellint.cli.options import limits
from modellint.cli.output import Texts, Waiting
from modellint.results.diagnostic import Applicability
from modellint.results.model_report import ModelReport
from modellint.run import Checker, Outcome, UsageError
from modellint.session import request_dispatch
from modellint.session.merge import about, miscompilations, settled
from modellint.session.messages import Shapes, Verify

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.diagnostic import Diagnostic
    from modellint.run import Job
    from modellint.session.answer_cache import AnswerCache
    from modellint.session.merge import LiveResult
    from modellint.session.messages import Answer, Request

_UNJUDGED = "whether the model converts was not judged"
_FAILED = ("LNT002", "LNT003", "LNT004", "SHP008")
"""Codes of the findings that stand for a target that does not run, or a file that cannot be read."""
_ROUNDS = 5
"""How often what live checks prove is written to source and checked again."""


def answered(job: Job, request: Request, options: Mapping[str, Any]) -> Answer:
    """The worker's answer to a request, waited for on the terminal, with its notes printed."""
    waiting = Waiting()
    try:
        answer = request_dispatch.answer(job, request, limits(options), waiting)
    finally:
        waiting.close()
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    return answer


def check(job: Job, files: list[Path], live: list[Request], outcome: Outcome, options: Mapping[str, Any]) -> None:
    """Run the live targets, and merge their findings with those of source."""
    waiting = Waiting(options["verbose"])
    results = []
    proves_fixes = bool(options["fix"] or options["show_diff"])
    answers = _answers(job, options)
    for checked in request_dispatch.check(
        job, live, limits(options), waiting, proves_fixes=proves_fixes, answers=answers
    ):
        waiting.close()
        for note in checked.notes:
            click.echo(f"note: {note}", err=True)
        if options["verbose"]:
            head = f"{checked.result.target}: {checked.seconds:.1f} s; it printed"
            click.echo(f"{head}\n{checked.output}" if checked.output else f"{head} nothing", err=True)
        if checked.result.failed and not job.resolver.top.enables("LNT003"):
            click.echo(
                f"warning: {checked.result.target} was not checked: {checked.result.diagnostics[0].message}", err=True
            )
        results.append(checked.result)
    outcome.diagnostics = settled(Checker(job), files, outcome.diagnostics, results)
    if job.baseline is not None:
        outcome.diagnostics = job.baseline.without_fixes(outcome.diagnostics, Texts(job.folder, None))
    outcome.targets = [(result.target, _conversion(job, result, outcome.diagnostics)) for result in results]


def _answers(job: Job, options: Mapping[str, Any]) -> AnswerCache | None:
    """The answers of earlier runs, where they are wanted and there is a place for them."""
    if not options["cache_live"] or job.cache is None:
        return None
    from modellint.session.answer_cache import AnswerCache

    return AnswerCache(job.cache.store)


def _conversion(job: Job, result: LiveResult, findings: Sequence[Diagnostic]) -> Conversion | None:
    """What is said of a target's conversion, with the findings by which it converts to something else."""
    if result.conversion is None:
        return None
    own = about(findings, result)
    wrong = miscompilations(own, job.rules, result.conversion.destination)
    return result.conversion._replace(miscompilations=wrong)


def fix_proven(job: Job, files: list[Path], live: list[Request], outcome: Outcome, options: Mapping[str, Any]) -> bool:
    """Write the fixes that live checks proved, and check again, as long as there are any; whether one was written."""
    rounds = 0
    while rounds < _ROUNDS and _fix_once(job, files, live, outcome, options):
        rounds += 1
    return rounds > 0


def _fix_once(job: Job, files: list[Path], live: list[Request], outcome: Outcome, options: Mapping[str, Any]) -> bool:
    """One round; False where nothing was written, or was taken back as the targets no longer run."""
    checker = Checker(job)
    fixed = Outcome(files=len(files))
    before: dict[Path, bytes] = {}
    for path in files:
        shown = job.shown(path)
        here = [finding for finding in _each_once(outcome.diagnostics) if finding.path == shown]
        findings = [finding for finding in here if finding.evidence != "source"]
        if any(finding.fix is not None for finding in findings):
            data = path.read_bytes()
            if checker.fix_proven(path, findings, fixed):
                before[path] = data
    if not before:
        return False
    checker = Checker(job)
    fixed.diagnostics = [finding for path in files for finding in checker.check(path)]
    check(job, files, live, fixed, options)
    if _failures(fixed) > _failures(outcome):
        click.echo("warning: what a live check proved is taken back: the target no longer runs", err=True)
        for path, data in before.items():
            try:
                replace_file(path, path.read_bytes(), data)
            except (ReplaceError, OSError) as error:
                click.echo(f"warning: {job.shown(path)}: not taken back: {error}", err=True)
        return False
    fixed.fixed.update(outcome.fixed)
    outcome.diagnostics, outcome.fixed, outcome.targets = fixed.diagnostics, fixed.fixed, fixed.targets
    outcome.problems.extend(fixed.problems)
    return True


def show_fixes(job: Job, files: list[Path], outcome: Outcome, unsafe: bool) -> None:
    """Put into ``outcome`` the changes that fixes of its findings would make, those that live checks proved among them."""
    checker = Checker(job)
    findings = _each_once(outcome.diagnostics)
    for finding in findings:
        if finding.target is not None and finding.code in _FAILED:
            reason = f"which does not run: {finding.message}"
            click.echo(f"warning: nothing is proven on {finding.target}, {reason}", err=True)
    outcome.diagnostics = []
    for path in files:
        shown = job.shown(path)
        checker.fix(path, unsafe, False, outcome, [finding for finding in findings if finding.path == shown])


def model_reports(job: Job, live: Sequence[Request], outcome: Outcome, options: Mapping[str, Any]) -> list[ModelReport]:
    """The modules and sizes of live targets and, where they convert, the comparison of the converted model; each in a run of its own."""
    conversions: dict[str, Conversion | None] = {}
    for target, conversion in outcome.targets:
        conversions.setdefault(target, conversion)
    return [_model_report(job, request, conversions.get(request.target.text), options) for request in live]


def _model_report(job: Job, request: Request, conversion: Conversion | None, options: Mapping[str, Any]) -> ModelReport:
    waiting = Waiting(options["verbose"])
    report = ModelReport(request.target.text)
    try:
        shapes = request_dispatch.answer(job, request._replace(action=Shapes()), limits(options), waiting)
        report = report._replace(table=shapes.table)
        if conversion is None or conversion.convertible is None:
            return report._replace(note=_UNJUDGED)
        if not conversion.convertible:
            return report._replace(note="the model does not convert by itself")
        compared = request_dispatch.answer(job, request._replace(action=Verify("layers")), limits(options), waiting)
        note = "" if compared.verification else "the comparison ended early"
        if compared.verification is None and compared.diagnostics:
            note = compared.diagnostics[0].message
        return report._replace(verification=compared.verification, note=note)
    except UsageError as error:
        return report._replace(note=str(error))
    finally:
        waiting.close()


def _each_once(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Findings stand once for each target; what one of these does not prove is not proven."""
    kept: dict[tuple[object, ...], Diagnostic] = {}
    for finding in findings:
        key = (finding.code, finding.path, finding.span, finding.class_name, finding.attribute)
        known = kept.setdefault(key, finding)
        if known.fix is not None and (finding.fix is None or finding.fix.applicability is not Applicability.SAFE):
            kept[key] = finding
    return list(kept.values())


def _failures(outcome: Outcome) -> int:
    return sum(finding.code in _FAILED for finding in outcome.diagnostics)

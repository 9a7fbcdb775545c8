"""Rows of one task: from a worker's answer to a status, a reason, errors and costs for each route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.results import sweep_row as status
from modellint.results import verification as verdicts
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.results.sweep_row import Noted, SweepRow
from modellint.results.swept_model_facts import TargetFacts
from modellint.session.target_facts import digest_of, versions_of

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Blocker, Conversion, Verdict
    from modellint.results.exported import Exported
    from modellint.results.verification import Verification
    from modellint.session.messages import Answer
    from modellint.sweep.task import Task

_CANNOT_RUN = ("LNT003", "SHP008")
"""Codes of findings that say why a target does not run."""
_VERDICTS = {
    verdicts.AGREES: status.AGREES,
    verdicts.DIFFERS: status.DIFFERS,
    verdicts.UNDECIDED: status.UNDECIDED,
    verdicts.NOT_CONVERTED: status.REFUSED,
}
_LONGEST = 300
"""Characters of a reason, at most."""


def rows_of(task: Task, answer: Answer, seconds: float) -> tuple[SweepRow, ...]:
    """A row for each route that an answer tells of; one row without a route where it comes to none."""
    base = _base(task, answer.facts, seconds)._replace(findings=tuple(map(_noted, _worth(answer.diagnostics))))
    if answer.exported is not None and task.action != status.CHECK:
        row = _of_export(base, answer.exported, answer.conversion)
        if answer.unfinished:
            # With more time another way may lead to a package.
            reason = f"{row.status}; trying what else may lead to a package {answer.unfinished}; {row.reason}"
            row = row._replace(status=status.NOT_RUN, reason=_line(reason))
        return (row,)
    stopped = next((finding for finding in answer.diagnostics if finding.code in _CANNOT_RUN), None)
    if answer.verification is not None and answer.facts is not None and (answer.verification.cases or stopped is None):
        asked = base.frontend if base.frontend != "auto" and base.destination == "coreml" else ""
        return (_of_verification(base, answer.verification, answer.verification.route or asked),)
    if stopped is not None and (answer.facts is None or answer.failed or not _was_judged(answer.conversion)):
        ended = status.NOT_RUN if answer.facts is None else status.FAILS
        return (base._replace(status=ended, reason=_line(stopped.message)),)
    if answer.conversion is None or task.action != status.CHECK:
        return (base._replace(reason="nothing came of it"),)
    return tuple(_of_verdict(base, verdict, answer.conversion) for verdict in answer.conversion.verdicts)


def tells_of_check(answer: Answer) -> bool:
    """Whether the answer to an export says all that a check of the same target would."""
    if answer.facts is None:
        return False
    return answer.exported is not None or any(finding.code in _CANNOT_RUN for finding in answer.diagnostics)


def row_without_answer(task: Task, reason: str, seconds: float) -> SweepRow:
    """The row of a task that no worker could serve."""
    return _base(task, None, seconds)._replace(status=status.FAILS, reason=_line(reason))


def row_of_lost(task: Task, times: int) -> SweepRow:
    """The row of a task whose process was lost again and again."""
    reason = f"the process that ran it was lost {times} times"
    return _base(task, None, 0.0)._replace(status=status.NOT_RUN, reason=reason)


def _base(task: Task, facts: TargetFacts | None, seconds: float) -> SweepRow:
    known = facts or _facts_from_outside(task)
    library, family = _library_and_family(task, known)
    destination = task.request.destination
    return SweepRow(
        task.request.target.text,
        task.name,
        library,
        family,
        task.action,
        destination.name,
        "",
        destination.frontend,
        status.NOT_JUDGED,
        seconds=seconds,
        cpu=known.cpu,
        memory=known.memory,
        parameters=known.parameters,
        size=known.size,
        model=known.model,
        configuration=task.configuration,
        timeout=task.limits.timeout,
        files=known.files,
        versions=known.versions,
    )


def _facts_from_outside(task: Task) -> TargetFacts:
    """What is known of a target whose worker did not come to its end: its own file, and what decides on any model."""
    file = task.request.location.file
    digest = None if file is None else digest_of(str(file))
    files = {} if file is None or digest is None else {str(file): digest}
    return TargetFacts(
        files=files, versions=versions_of(("modellint", "torch", "coremltools", "coreai-torch", "numpy"))
    )


def _library_and_family(task: Task, facts: TargetFacts) -> tuple[str, str]:
    """The package of a model's class, and the file within it; without a model, what the target's own place says."""
    if not facts.model:
        place = task.request.location.module
        return ("project" if task.request.location.is_script else place.partition(".")[0]), place.rpartition(".")[2]
    module = facts.model.rpartition(".")[0]
    if not facts.library:
        return "project", module.rpartition(".")[2] or module
    parts = module.split(".")[1:]
    if parts[:1] == ["models"]:
        del parts[0]
    if len(parts) > 1 and parts[-1].startswith("modeling_"):
        del parts[-1]
    return facts.library, ".".join(parts) or facts.library


def _of_verdict(base: SweepRow, verdict: Verdict, conversion: Conversion) -> SweepRow:
    """What a check says of one route."""
    row = base._replace(route=verdict.route, blockers=verdict.blockers)
    if verdict.convertible is None:
        return row._replace(status=status.NOT_JUDGED, reason=_line(verdict.reason))
    if not verdict.convertible:
        return row._replace(status=status.REFUSED, reason=_first(verdict.blockers))
    wrong = ", ".join(dict.fromkeys(finding.code for finding in conversion.miscompiled_by(verdict.route)))
    if wrong:
        return row._replace(status=status.MISCONVERTS, reason=wrong)
    return row._replace(status=status.CONVERTS)


def _of_verification(base: SweepRow, verification: Verification, route: str) -> SweepRow:
    """What a comparison says; float32 that agrees beside an open float16 has a status of its own."""
    is_open = verification.is_half_open and not verification.is_open_on_devices
    told = status.AGREES_SINGLE if is_open else _VERDICTS[verification.verdict]
    reason = verification.reason
    if not reason and verification.first_difference is not None and told != status.AGREES:
        reason = verification.first_difference.message
    return base._replace(
        route=route,
        status=told,
        reason="" if told == status.AGREES else _line(reason),
        error=verdicts.worst(verification.outputs) if verification.outputs else None,
        half_error=verdicts.worst(verification.half) if verification.half else None,
        cases=sum(case.error is not None for case in verification.cases),
    )


def _of_export(base: SweepRow, exported: Exported, conversion: Conversion | None) -> SweepRow:
    """What an export wrote, or would have written, and why it came to nothing."""
    row = _of_verification(base, exported.verification, exported.route)
    changes = tuple(f"{change.kind} {change.what}" for change in exported.changes)
    row = row._replace(changes=changes, package=exported.size)
    if exported.converts:
        return row._replace(reason=_advised(exported, row.reason))
    chosen = None if conversion is None else conversion.chosen
    attempts = "; ".join(f"{attempt.route}, {attempt.stage}: {attempt.reason}" for attempt in exported.attempts)
    blockers = () if chosen is None else chosen.blockers
    return row._replace(status=status.REFUSED, blockers=blockers, reason=_advised(exported, attempts or row.reason))


def _advised(exported: Exported, reason: str) -> str:
    """A reason behind the options that lead to a package, where one was tried that does."""
    return _line("; ".join(filter(None, (*(f"go on with {way}" for way in exported.advice), reason))))


def _was_judged(conversion: Conversion | None) -> bool:
    return conversion is not None and conversion.convertible is not None


def _first(blockers: tuple[Blocker, ...]) -> str:
    """The blockers in a line: the first, and how many more there are."""
    if not blockers:
        return ""
    operator = f"{blockers[0].operator}: " if blockers[0].operator else ""
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 else ""
    return _line(f"{operator}{blockers[0].message}") + more


def _worth(findings: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    worth = (finding for finding in findings if finding.severity >= Severity.WARNING)
    return sorted(worth, key=lambda finding: finding.sort_key)


def _noted(finding: Diagnostic) -> Noted:
    row = finding.span.row if finding.span is not None else 0
    return Noted(finding.code, finding.severity.label, finding.path, row, _line(finding.message))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"

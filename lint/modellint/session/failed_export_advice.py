"""Advice on an export that leads to no package: fixes of the source, each tried before it is advised."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modellint.results.diagnostic import Severity
from modellint.run import Checker, Job, UsageError
from modellint.session import request_dispatch

if TYPE_CHECKING:
    from modellint.session.messages import Answer, Export, Limits, Request


class Refused(NamedTuple):
    """An export that leads to no package: what was asked for, and the answer."""

    job: Job
    request: Request
    action: Export
    limits: Limits
    answer: Answer
    seconds: float
    """The time that it took."""


def ways_on(refused: Refused, folder: Path, progress: Callable[[str, str, float], None] | None = None) -> Iterator[str]:
    """Advice in lines: commands that lead to a package, or what is left to be written in another way.

    ``folder`` is where packages may be made; what is in it afterwards is of no use.
    """
    exported = refused.answer.exported
    if exported is None or exported.writable or exported.advice:
        return
    if (way := _fixed_in_source(refused, folder, progress)) is not None:
        yield way
    elif left := _left(refused):
        yield left


def _fixed_in_source(refused: Refused, folder: Path, progress: Callable[[str, str, float], None] | None) -> str | None:
    """The command that fixes the target's file so that the same export writes a package; None where none does."""
    file = refused.request.location.file
    if file is None:
        return None
    began = time.monotonic()
    here = {finding.code for finding in refused.answer.diagnostics}
    done = ""
    for count, (flags, unsafe) in enumerate((("--fix", False), ("--fix --unsafe-fixes", True))):
        fixed = Checker(refused.job).tried(file, unsafe)
        rest = refused.limits.timeout - refused.seconds - (time.monotonic() - began)
        if fixed is None or fixed.text == done or here.isdisjoint(fixed.applied) or rest < refused.seconds:
            continue
        rules = refused.job.rules
        left = [finding for finding in fixed.remaining if finding.code in here and finding.code in rules]
        if any(rules[finding.code].silent_by(finding) for finding in left):
            # It would still be converted to something else.
            continue
        done = fixed.text
        package = folder / f"fixed{count}" / "model.mlpackage"
        package.parent.mkdir()
        action = refused.action._replace(package=package)
        command = f"modellint check {flags} {shlex.quote(refused.job.shown(file))}"
        try:
            answer = request_dispatch.answer(
                refused.job,
                refused.request._replace(action=action, texts={str(file): fixed.text}),
                refused.limits._replace(timeout=rest),
                progress,
            )
        except UsageError:
            continue
        if answer.exported is not None and answer.exported.writable:
            outcome = "it agrees" if answer.exported.ok else "it agrees in float32, and is undecided in float16"
            codes = ", ".join(sorted(fixed.applied))
            return f"{command} ({codes}), then export again: tried, {outcome}"
    return None


def _left(refused: Refused) -> str:
    """What no fix and no option answers: the errors of the model, or else what first computes something else."""
    exported = refused.answer.exported
    fixed = {change.code for change in exported.changes if change.kind == "fixed"} if exported else set()
    left = [finding for finding in refused.answer.diagnostics if finding.code not in fixed]
    errors = [finding for finding in left if finding.severity is Severity.ERROR]
    if not errors:
        first = exported.verification.first_difference if exported else None
        if first is None or first.place is None:
            return ""
        at = f"{refused.job.shown(Path(first.place.path))}:{first.place.span.row}"
        return f"another way to write {at}, as no option that was tried leads to a package that agrees"
    places = [
        error.code
        + (f" at {error.path}:{error.span.row}" if error.path and error.span else "")
        + (f" ({error.library[0]})" if error.library else "")
        for error in errors
    ]
    rules = " · ".join(f"modellint rule {code}" for code in dict.fromkeys(finding.code for finding in errors))
    return f"another way to write it, as no fix and no option answers {', '.join(places)}: {rules}"

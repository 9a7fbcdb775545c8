"""Verdicts on a model's conversion by each route, as far as the environment allows a dry run."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from modellint.destinations.coreml import installed_versions
from modellint.results.conversion_verdict import ROUTES, Verdict

if TYPE_CHECKING:
    from modellint.live.subject import Subject


def judge(subject: Subject) -> tuple[Verdict, ...]:
    """Try the routes that the destination asks for, until one converts.

    Of two routes the one that is not asked for is tried too where the other fails: it may be the way out.
    """
    if subject.inputs is None or not subject.has_values:
        return ()
    if importlib.util.find_spec("coremltools") is None:
        return (Verdict(ROUTES[0], None, reason="coremltools is not installed: pip install 'modellint[coreml]'"),)
    try:
        from modellint.destinations.coreml.capture.shared_captures import shared_captures
        from modellint.destinations.coreml.dry_run.dry_run import dry_run
    except Exception as error:
        # One that does not go together with what else is installed breaks in many ways.
        message = " ".join(str(error).split())[:200]
        reason = f"coremltools {installed_versions.version('coremltools') or ''} cannot be imported: {type(error).__name__}: {message}"
        return (Verdict(ROUTES[0], None, reason=" ".join(reason.split())),)

    verdicts: list[Verdict] = []
    frontend = subject.destination.frontend
    for route in sorted(ROUTES, key=lambda route: route != frontend) if frontend != "auto" else ROUTES:
        captures = shared_captures(subject)
        verdicts.append(dry_run(subject.model, subject.inputs, route, subject.destination, subject.project, captures))
        if verdicts[-1].convertible:
            break
    return tuple(verdicts)

"""A live model to the verdicts on its conversion, as far as the environment allows one."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from modellint.coreml import installed
from modellint.coreml.verdict import ROUTES, Verdict

if TYPE_CHECKING:
    from modellint.coreml.verification import Verification
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
        from modellint.coreml.dryrun import dry_run
    except Exception as error:
        # One that does not go together with what else is installed breaks in many ways.
        said = " ".join(str(error).split())[:200]
        reason = (
            f"coremltools {installed.version('coremltools') or ''} cannot be imported: {type(error).__name__}: {said}"
        )
        return (Verdict(ROUTES[0], None, reason=" ".join(reason.split())),)

    found: list[Verdict] = []
    asked = subject.destination.frontend
    for route in sorted(ROUTES, key=lambda route: route != asked) if asked != "auto" else ROUTES:
        found.append(dry_run(subject.model, subject.inputs, route, subject.destination, subject.project))
        if found[-1].convertible:
            break
    return tuple(found)


def execute(subject: Subject) -> Verification:
    """Convert and execute a model on its example inputs alone, for rules that ask about that."""
    from modellint.coreml.verification import NOT_CONVERTED, Verification

    assert subject.inputs is not None
    if importlib.util.find_spec("coremltools") is None:
        return Verification(NOT_CONVERTED, "coremltools is not installed: pip install 'modellint[coreml]'")
    from modellint.coreml.verify import verify

    return verify(subject.model, subject.inputs, subject.destination, subject.project, budget=0.0)

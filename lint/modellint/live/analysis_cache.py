"""Analysis: a question about a subject that is answered once for each subject, as the passes of a compiler share theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, TypeVar

from modellint.live.subject import Subject

Result = TypeVar("Result")


class Analysis(Generic[Result]):
    """A function of a subject whose result is kept with the subject; ``analysis`` is the decorator that makes one."""

    def __init__(self, compute: Callable[[Subject], Result]) -> None:
        self._compute = compute
        update_wrapper(self, compute)

    def __call__(self, subject: Subject) -> Result:
        """The result, computed when it is first asked for."""
        if self not in subject.results:
            self.supply(subject, self._compute(subject))
        result: Result = subject.results[self]
        return result

    def supply(self, subject: Subject, result: Result) -> None:
        """Keep a result that is known already, so that it is not computed."""
        subject.results[self] = result


analysis = Analysis

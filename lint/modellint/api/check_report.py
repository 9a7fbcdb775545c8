"""Reports: what a check finds, as a Python program gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modellint.results.applied_fix import Applied
from modellint.results.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion


class CheckFailed(AssertionError):
    """A check found something at or above the level asked for. The message is the report; ``report`` holds it."""

    __module__ = "modellint"

    def __init__(self, report: Report) -> None:
        super().__init__(repr(report))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The findings of one check, sorted. In a notebook it shows as a table."""

    diagnostics: tuple[Diagnostic, ...]
    convertible: bool | None = None
    """Whether coremltools converts the model; None when that was not tried, as in every check of source."""
    verdict: str = ""
    """The same in a line, with how much is in the way and by which route it converts."""
    fixed: tuple[Applied, ...] = ()
    """What ``fix_model`` or ``export`` did to its copy. The findings are those left in that of ``fix_model``."""
    undone: tuple[Applied, ...] = ()
    """What was tried and taken back, or could not be proven, each with why in its ``note``."""

    @property
    def ok(self) -> bool:
        """Whether nothing at the level of a warning or an error was found."""
        return all(finding.severity < Severity.WARNING for finding in self.diagnostics)

    def raise_if_failed(self, level: str = "warning") -> None:
        """Raise ``CheckFailed`` if there is a finding at or above a level: ``info``, ``warning`` or ``error``.

        Raises ``ValueError`` for another level.
        """
        # pytest then shows the caller's line.
        __tracebackhide__ = True
        levels = {severity.label: severity for severity in Severity}
        if level not in levels:
            raise ValueError(f"level must be one of {', '.join(levels)}, not {level!r}")
        if any(finding.severity >= levels[level] for finding in self.diagnostics):
            raise CheckFailed(self)

    def __repr__(self) -> str:
        from modellint.report import concise

        text = concise.render(self.diagnostics).rstrip("\n")
        fixes = [f"fixed: {fix}" for fix in self.fixed] + [f"not fixed: {fix}" for fix in self.undone]
        return "\n".join([*fixes, text, *([self.verdict] if self.verdict else [])])

    def _repr_html_(self) -> str:
        from modellint.report.notebook_displays import findings

        return findings.fragment(self.diagnostics, self.verdict, self.fixed, self.undone)


def report_of(diagnostics: Sequence[Diagnostic], conversion: Conversion | None) -> Report:
    """The findings, and whether coremltools converts the model."""
    if conversion is None:
        return Report(tuple(diagnostics))
    from modellint.report import live_findings

    return Report(tuple(diagnostics), conversion.withheld(diagnostics), live_findings.line_of(conversion, diagnostics))

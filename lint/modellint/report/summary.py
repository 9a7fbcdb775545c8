"""Summary at the end of a report: how many findings, and how many of them can be fixed."""

from __future__ import annotations

from collections.abc import Sequence

from modellint.report.style import paint
from modellint.results.diagnostic import Applicability, Diagnostic, Severity

_NOUNS = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.INFO: ("info", "info"),
}


def applicable(diagnostic: Diagnostic, unsafe: bool = False) -> bool:
    """Whether ``--fix`` would apply the finding's fix, with or without ``--unsafe-fixes``."""
    fix = diagnostic.fix
    return fix is not None and (
        fix.applicability is Applicability.SAFE or (unsafe and fix.applicability is Applicability.UNSAFE)
    )


def mark(diagnostic: Diagnostic, unsafe: bool, color: bool) -> str:
    """``[*] `` where the finding can be fixed, else nothing."""
    return f"[{paint('*', 'mark', color)}] " if applicable(diagnostic, unsafe) else ""


def render(diagnostics: Sequence[Diagnostic], color: bool = False, unsafe: bool = False, fixed: int = 0) -> str:
    """The lines that end a report, with a line end. ``fixed`` is how many findings this run fixed."""
    if not diagnostics and not fixed:
        return paint("All checks passed!", "good", color) + "\n"
    counts = _counts(diagnostics)
    if fixed:
        total = len(diagnostics) + fixed
        rest = f"{len(diagnostics)} remaining" + (f": {counts}" if counts else "")
        lines = [f"Found {counted(total, 'problem')} ({fixed} fixed, {rest})."]
    else:
        lines = [f"Found {counts}."]
    now = sum(applicable(diagnostic, unsafe) for diagnostic in diagnostics)
    hidden = sum(applicable(diagnostic, True) for diagnostic in diagnostics) - now
    fixes = counted(hidden, "hidden fix", "hidden fixes")
    if now:
        more = f" ({fixes} can be enabled with `--unsafe-fixes`)" if hidden else ""
        lines.append(f"[{paint('*', 'mark', color)}] {now} fixable with the `--fix` option{more}.")
    elif hidden:
        lines.append(f"No fixes available ({fixes} can be enabled with `--unsafe-fixes`).")
    return "\n".join(lines) + "\n"


def _counts(diagnostics: Sequence[Diagnostic]) -> str:
    parts = []
    for severity, nouns in _NOUNS.items():
        if number := sum(diagnostic.severity is severity for diagnostic in diagnostics):
            parts.append(counted(number, *nouns))
    return ", ".join(parts)


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun, in the plural but for 1; without ``plural`` that is the noun with an `s`."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"

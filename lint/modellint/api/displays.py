"""Displays of results at a prompt and in a notebook; the results themselves are data."""

from __future__ import annotations

from modellint.results.applied_fix import Applied
from modellint.results.shape_table import Table
from modellint.results.verification import Verification


def register() -> None:
    """Register displays of results: at a prompt the command's text, in a notebook tables; the results themselves are data."""

    def table_text(table: Table) -> str:
        from modellint.report import shapes

        return shapes.render(table).rstrip("\n")

    def table_html(table: Table) -> str:
        from modellint.report.notebook_displays import shapes

        return shapes.fragment(table)

    def verification_text(verification: Verification) -> str:
        from modellint.report import verification as report

        return report.render(verification).rstrip("\n")

    def verification_html(verification: Verification) -> str:
        from modellint.report import verification_html as report

        return report.fragment(verification)

    def fix_text(fix: Applied) -> str:
        from modellint.report import live_findings

        return live_findings.fix_of_model(fix)

    for kind, method, display in (
        (Table, "__repr__", table_text),
        (Table, "_repr_html_", table_html),
        (Verification, "__repr__", verification_text),
        (Verification, "_repr_html_", verification_html),
        (Applied, "__str__", fix_text),
    ):
        setattr(kind, method, display)

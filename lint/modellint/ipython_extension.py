"""Extension of IPython: ``%load_ext modellint`` brings ``%%modellint``, which checks a cell, and ``%modellint``, which checks a model.

A cell is read with the cells that ran before it, in the order in which they ran.
"""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from modellint.results.diagnostic import Diagnostic, Severity, Span
from modellint.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modellint.api import Report

_LEVELS = tuple(severity.label for severity in Severity)


class _Parser(argparse.ArgumentParser):
    """The options of the magic; what is wrong with them is one line, and no end of the kernel."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> _Parser:
    parser = _Parser("%%modellint", description="Check this cell, show what is found, and run it.", add_help=False)
    parser.add_argument("--select", metavar="CODES", help="Codes or their beginnings, separated by commas.")
    parser.add_argument("--ignore", metavar="CODES", help="Codes to leave out.")
    parser.add_argument("--no-run", action="store_true", help="Check only.")
    parser.add_argument(
        "--stop", choices=_LEVELS, metavar="LEVEL", help="Do not run a cell with a finding of this level."
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="Show nothing where nothing is found.")
    return parser


def load(shell: Any) -> None:
    """Register the magics with a shell of IPython."""
    shell.register_magic_function(lambda line, cell: _check_and_run(shell, line, cell), "cell", "modellint")
    shell.register_magic_function(lambda line: _check_model(shell, line), "line", "modellint")


def unload(shell: Any) -> None:
    """Take the magics away again."""
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("modellint", None)


def _usage_error(message: str) -> Exception:
    from IPython.core.error import UsageError

    error: Exception = UsageError(message)
    return error


def _check_and_run(shell: Any, line: str, cell: str) -> None:
    from IPython.display import display

    parser = _parser()
    try:
        options = parser.parse_args(shlex.split(line))
        report = check_cell(_earlier(shell, line, cell), f"%%modellint {line}\n{cell}", options.select, options.ignore)
    except (ValueError, SettingsError) as error:
        raise _usage_error(f"%%modellint: {error}\n{parser.format_usage().rstrip()}") from None
    if report.diagnostics or not options.quiet:
        display(report)
    stops = options.stop is not None and any(
        finding.severity >= _LEVELS.index(options.stop) for finding in report.diagnostics
    )
    if options.no_run or stops:
        return
    result = shell.run_cell(cell, store_history=False)
    if not result.success:
        raised = result.error_before_exec or result.error_in_exec
        # It has been shown; the cell must fail all the same.
        raised._render_traceback_ = list
        raise raised


def _check_model(shell: Any, line: str) -> Report:
    """``%modellint model`` or ``%modellint model, example_inputs``."""
    from modellint import api

    if not line.strip():
        raise _usage_error("%modellint: name a model, or a model and what it is called with: %modellint net, x")
    value = shell.ev(line)
    model, inputs = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    return api.check_model(model, inputs)


def _earlier(shell: Any, line: str, cell: str) -> list[str]:
    """The cells that ran before, in their order; of a cell that ran several times the last time counts."""
    ran = [text for text in shell.history_manager.input_hist_raw if text.strip()]
    body = cell.strip()
    latest = dict.fromkeys(text for text in reversed(ran) if not text.strip().endswith(body))
    return list(reversed(latest))


def check_cell(earlier: Sequence[str], cell: str, select: str | None = None, ignore: str | None = None) -> Report:
    """The findings of a cell that is run after others."""
    from modellint import api
    from modellint.source.syntax.notebook import NotebookText

    source = NotebookText.of_cells([*earlier, cell])
    source.is_history = True
    overrides = {key: value for key, value in (("select", select), ("ignore", ignore)) if value is not None}
    report = api.check_program(source, "cell.ipynb", overrides)
    number = len(earlier) + 1
    return api.Report(tuple(_alone(finding, number) for finding in report.diagnostics if finding.cell == number))


def _alone(finding: Diagnostic, number: int) -> Diagnostic:
    """A finding of one cell, with rows of that, and its fix as far as it lies there."""
    assert finding.span is not None

    def here(span: Span) -> Span:
        return finding.in_cell(span)

    fix = finding.fix
    if fix is not None:
        inside = all(finding._replace(span=edit.span).cell == number for edit in fix.edits)
        edits = tuple(edit._replace(span=here(edit.span)) for edit in fix.edits)
        fix = fix._replace(edits=edits) if inside else None
    return finding._replace(path="cell", span=here(finding.span), fix=fix, cells=())

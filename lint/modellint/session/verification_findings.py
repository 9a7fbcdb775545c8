"""Confirmed findings of a verification: those that the executed program bears out, and those that keep a model from converting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from modellint.live.check import examine, live_rules
from modellint.live.conversion_analyses import is_confirmed
from modellint.results.diagnostic import Place, Severity
from modellint.results.verification import NOT_CONVERTED, UNDECIDED

if TYPE_CHECKING:
    from modellint.live.subject import Subject
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.verification import Verification
    from modellint.rule import Rule

CONFIRMED = "confirmed by execution"
_FRONTENDS = {"decomposed": "export"}
"""What `--frontend` calls a route, where that is another word."""


def findings(subject: Subject, rules: Mapping[str, Rule], verification: Verification) -> list[Diagnostic]:
    """The findings that a verification shows: of rules about the execution, of rules by which its route miscompiles the model, and of
    all others those at the statement where the program first departs.

    For a model that does not convert or run these are the errors, which say why.
    """
    about = {rule.code for rule in live_rules(rules) if "execution" in rule.live_needs.split()}
    refused = verification.verdict == NOT_CONVERTED or (verification.verdict == UNDECIDED and not verification.cases)
    route = _FRONTENDS.get(verification.route, verification.route)
    silent = {code for code, rule in rules.items() if route in rule.silent}
    departs = refused or verification.first_difference is not None
    wanted = rules if departs else {code: rule for code, rule in rules.items() if code in about | silent}
    shown = []
    for finding in examine(subject, wanted).diagnostics:
        at = None if finding.path is None or finding.span is None else Place(finding.path, finding.span)
        if finding.code in about or (refused and finding.severity is Severity.ERROR):
            shown.append(finding)
        elif is_confirmed(subject, at):
            shown.append(finding._replace(help=f"{finding.help}\n{CONFIRMED}" if finding.help else CONFIRMED))
        elif finding.code in rules and route in rules[finding.code].silent_by(finding):
            shown.append(finding)
    return shown

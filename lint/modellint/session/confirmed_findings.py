"""Findings of rules that belong to a verification: what the executed program confirms, and what keeps a model from converting."""

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


def findings(subject: Subject, rules: Mapping[str, Rule], found: Verification) -> list[Diagnostic]:
    """What rules about the execution find, what says that the route taken leads to something else, and of the others what stands where
    the program first departs.

    Of a model that does not convert, or does not run, it is the errors, which say why.
    """
    about = {rule.code for rule in live_rules(rules) if "execution" in rule.live_needs.split()}
    refused = found.verdict == NOT_CONVERTED or (found.verdict == UNDECIDED and not found.cases)
    route = _FRONTENDS.get(found.route, found.route)
    silent = {code for code, rule in rules.items() if route in rule.silent}
    departs = refused or found.first_difference is not None
    wanted = rules if departs else {code: rule for code, rule in rules.items() if code in about | silent}
    shown = []
    for one in examine(subject, wanted).diagnostics:
        at = None if one.path is None or one.span is None else Place(one.path, one.span)
        if one.code in about or (refused and one.severity is Severity.ERROR):
            shown.append(one)
        elif is_confirmed(subject, at):
            shown.append(one._replace(help=f"{one.help}\n{CONFIRMED}" if one.help else CONFIRMED))
        elif one.code in rules and route in rules[one.code].silent_by(one):
            shown.append(one)
    return shown

"""The rules: a line each, as JSON, and their pages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modellint.report.style import paint
from modellint.rule import Page
from modellint.settings import RUNTIMES

if TYPE_CHECKING:
    from modellint.rule import Rule

_NARROWEST = 100


def render(rules: Sequence[Rule], color: bool = False) -> str:
    """Code, name, severity, whether there is a fix, and what the rule finds; on a terminal cut to its width."""
    wide = max(len(rule.name) for rule in rules)
    # Who reads from a pipe wants all of it.
    most = max(shutil.get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else sys.maxsize
    lines = []
    for rule in rules:
        label = rule.severity.label
        mark = "[*]" if rule.fixable else "   "
        head = f"{rule.code}  {rule.name:<{wide}}  {label:<7}  {mark}  "
        summary = " ".join(Page.as_written(rule.__class__).summary.partition("\n\n")[0].split())
        if len(head) + len(summary) > most:
            summary = summary[: most - len(head) - 1] + "…"
        colored = head.replace(rule.code, paint(rule.code, label, color), 1)
        lines.append(colored + summary + "\n")
    fixable = sum(bool(rule.fixable) for rule in rules)
    return "".join(lines) + f"{len(rules)} rules, {fixable} with a fix [*]; modellint rule CODE explains one.\n"


def page(rule: Rule) -> str:
    """The page of a rule, as Markdown."""
    told = Page.as_written(rule.__class__)
    origin = f", from the plug-in {rule.plugin}" if rule.plugin else ""
    scope = f", {rule.scope}" if rule.scope else ""
    parts = [f"# {rule.name} ({rule.code}, {rule.severity.label}{scope}{origin})", told.summary]
    parts.extend(f"## {title}\n{body}" for title, body in told.sections.items())
    return "\n\n".join(parts) + "\n"


def render_json(rules: Sequence[Rule], color: bool = False) -> str:
    """The rules without their pages."""
    return dump(entries(rules, with_sections=False))


def entries(rules: Sequence[Rule], *, with_sections: bool) -> list[dict[str, Any]]:
    """The rules as plain dictionaries."""
    pages = [(rule, Page.as_written(rule.__class__)) for rule in rules]
    return [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity.label,
            "summary": page.summary,
            "fix": rule.fixable or None,
            "plugin": rule.plugin or None,
            "destinations": list(rule.only_for or RUNTIMES),
            **({"sections": page.sections} if with_sections else {}),
        }
        for rule, page in pages
    ]


def dump(value: Any) -> str:
    """JSON as it is printed."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)

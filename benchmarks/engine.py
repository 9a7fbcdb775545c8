"""The linter as ``modellint check --isolated ROOT`` sets it up, for texts instead of files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from modellint.results.diagnostic import Diagnostic
from modellint.run import Checker, Job, all_rules
from modellint.settings import Resolver
from modellint.source.syntax.source_text import SourceText


@cache
def _checker(root: Path) -> Checker:
    """One for each root and process, so that the project index is shared; ``modellint.check_source`` makes one a call."""
    rules = all_rules()
    return Checker(Job(root, Resolver(root, None, True, {}, set(rules)), rules, None, root))


def check(root: Path, path: Path, source: SourceText) -> tuple[Diagnostic, ...]:
    """The findings of a text that stands, or would stand, at ``path``."""
    checker = _checker(root)
    settings = checker.job.resolver.of_folder(path.parent)
    rules = checker.job.rules_for(path, settings)
    found = checker.check_text(source, path, str(path), rules, settings).diagnostics
    return tuple(finding for finding in found if finding.code in rules)

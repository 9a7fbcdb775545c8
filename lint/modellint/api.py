"""What Python programs call: the same checks, in the caller's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modellint.diagnostic import Diagnostic, Severity


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The findings of one check, sorted."""

    diagnostics: tuple[Diagnostic, ...]
    convertible: bool | None = None
    """Whether coremltools converts the model; None when that was not tried, as in every check of source."""

    @property
    def ok(self) -> bool:
        """Whether nothing at the level of a warning or an error was found."""
        return all(finding.severity < Severity.WARNING for finding in self.diagnostics)

    def __repr__(self) -> str:
        from modellint.report import concise

        return concise.render(self.diagnostics).rstrip("\n")


def check_source(text: str, filename: str = "model.py") -> Report:
    """Check the text of a file.

    ``filename`` says where it stands: imports are followed from there, and the settings of its project hold. The
    file itself is not read, and need not exist. Raises ``modellint.settings.SettingsError`` for unusable settings.
    """
    from modellint.run import Checker, Job, all_rules, load_plugins
    from modellint.settings import Resolver, find_root
    from modellint.source.text import SourceText

    path = Path(filename).absolute()
    root = find_root(path)
    resolver = Resolver(root, None, False, {}, None)
    rules = all_rules(load_plugins(resolver.top.plugins, root))
    resolver.use_codes(rules)
    settings = resolver.of_folder(path.parent)
    checker = Checker(Job(root, resolver, rules, None, Path.cwd()))
    enabled = checker.job.rules_for(path, settings)
    checked = checker.check_text(SourceText(text.removeprefix("\ufeff")), path, filename, enabled, settings)
    return Report(tuple(finding for finding in checked.diagnostics if finding.code in enabled))

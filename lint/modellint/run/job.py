"""The job of a run: root, settings, rules, cache and plug-ins, which processes hand to each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.rule import Rule
from modellint.rule_index import shipped_rules
from modellint.settings import user_file

if TYPE_CHECKING:
    from modellint.adoption.baseline import Baseline
    from modellint.cache import Cache
    from modellint.plugins import Plugin
    from modellint.settings import Resolver, Settings


def all_rules(plugins: Sequence[Plugin] = ()) -> dict[str, Rule]:
    """Every rule there is: the knowledge's, the plug-ins', and the machine's own. Raises ``RuleError``."""
    if plugins:
        from modellint.plugins import rules

        return rules(plugins)
    from modellint.tool_diagnostics import machine_rules

    return dict(sorted({**shipped_rules(), **machine_rules()}.items()))


class Job(NamedTuple):
    """Everything that checking needs besides the file; cheap to hand to another process."""

    root: Path
    resolver: Resolver
    rules: Mapping[str, Rule]
    cache: Cache | None
    folder: Path
    baseline: Baseline | None = None
    """Known findings, which are not fixed either."""
    plugins: tuple[Plugin, ...] = ()
    """The plug-ins whose rules are among ``rules``."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that is not a copy of this one cannot import a plug-in by a name: it loads all of them again.
        return _received, (*self._replace(rules={}),)

    def shown(self, path: Path) -> str:
        """How findings name a file: relative to the working folder where it is below that."""
        # By text, as thousands are asked for.
        return str(path).removeprefix(os.path.join(self.folder, ""))  # noqa: PTH118

    def rules_for(self, path: Path, settings: Settings) -> dict[str, Rule]:
        """The rules that read a file."""
        return {
            code: rule
            for code, rule in self.reporting_on(path, settings).items()
            if any(rule.reads_for(goal.name) for goal in settings.goals)
        }

    def reporting_on(self, path: Path, settings: Settings) -> dict[str, Rule]:
        """The rules whose findings are wanted in a file: of those that read it, and of those that see what a model does there."""
        ignored = settings.ignored_in(path)
        return {
            code: rule
            for code, rule in self.rules.items()
            if settings.enables(code, rule.default)
            and any(rule.holds_for(goal.name) for goal in settings.goals)
            and not any(s == "ALL" or code.startswith(s) for s in ignored)
        }


def job_for(
    resolver: Resolver,
    tell: Callable[[str], None] = warnings.warn,
    *,
    named: Sequence[str] = (),
    trusts: bool = False,
    isolated: bool = False,
) -> Job:
    """A job under the settings of a root, with the rules of the plug-ins that may run; what is said of others is told.

    These are the user's own and, on the command line, those ``named`` there; those that the root's settings name only where
    the user trusts them. Codes in the settings are not checked yet. Raises ``RuleError`` and ``SettingsError``.
    """
    plugins: tuple[Plugin, ...] = ()
    file = None if isolated else user_file()
    # Few have any, and all would wait for this.
    if named or resolver.top.plugins or (file is not None and os.path.isfile(file)):  # noqa: PTH113
        from modellint.plugins import choose

        chosen = choose(resolver.top, resolver.root, named, trusts=trusts, isolated=isolated)
        for warning in chosen.warnings:
            tell(warning)
        resolver.tolerant = bool(chosen.left_out)
        plugins = chosen.plugins
    return Job(resolver.root, resolver, all_rules(plugins), None, Path.cwd(), plugins=plugins)


def _received(*parts: Any) -> Job:
    """A job in another process."""
    job = Job(*parts)
    return job._replace(rules=all_rules(job.plugins))

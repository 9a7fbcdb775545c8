"""pytest items: a test for each file that ``modellint check`` would check, and for each live target in the settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from modellint.cache import FOLDER, Cache, rules_digest
from modellint.cli.output import Texts
from modellint.discover import Exclusion, find_files
from modellint.plugins import files as plugin_files
from modellint.rule import RuleError
from modellint.run import Checker, UsageError, job_for
from modellint.session.target import parse
from modellint.settings import LEVELS, Resolver, SettingsError, find_root

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.diagnostic import Diagnostic
    from modellint.settings import Model

_NAME = "modellint"


class Failure(Exception):
    """What a check found; the message is what ``modellint check`` prints."""


def _spelled(text: str) -> str:
    """What the user is told, with the option as pytest has it."""
    return text.replace("--trust-plugins", "--modellint-trust-plugins")


class Checks:
    """The checks of one pytest run: the job that they share, and what of it pytest has collected."""

    def __init__(self, config: pytest.Config) -> None:
        root = find_root(config.rootpath)
        # Each worker of pytest-xdist would say the same.
        is_first = not hasattr(config, "workerinput")
        try:
            resolver = Resolver(root, None, False, {}, None)
            self.job = job_for(
                resolver,
                lambda text: (
                    config.issue_config_time_warning(pytest.PytestConfigWarning(f"modellint: {_spelled(text)}"), 2)
                    if is_first
                    else None
                ),
                named=config.getoption("modellint_plugin"),
                trusts=config.getoption("modellint_trust_plugins"),
            )
            resolver.use_codes(self.job.rules)
            top = resolver.top
            discovered = find_files([root], Exclusion(top.base_of("exclude"), top.exclude))
        except (SettingsError, RuleError) as error:
            raise pytest.UsageError(f"modellint: {error}") from None
        if os.access(root, os.W_OK):
            digest = rules_digest(plugin_files(self.job.plugins))
            self.job = self.job._replace(cache=Cache(root / FOLDER, digest))
        if top.baseline is not None:
            self.job = self.job._replace(
                baseline=self._baseline(Path(os.path.normpath(top.base_of("baseline") / top.baseline)))
            )
        self.files = {*discovered.files}
        self.problems = discovered.problems
        self.models = self._placed(top.models)

    def _baseline(self, file: Path) -> Any:
        from modellint.adoption.baseline import Baseline

        try:
            return Baseline.read(file, self.job.folder)
        except SettingsError as error:
            raise pytest.UsageError(f"modellint: {error}") from None

    def _placed(self, models: Iterable[Model]) -> dict[Path, list[Model]]:
        """The models of the settings by their files; those whose file is not found by the settings themselves."""
        placed: dict[Path, list[Model]] = {}
        for model in models:
            place = self.config_file
            target = parse(model.target)
            if target is not None:
                with suppress(UsageError):
                    place = self.request(model).location.file or place
            placed.setdefault(place, []).append(model)
        return placed

    @cached_property
    def config_file(self) -> Path:
        """The settings file that lists the models."""
        return Path(self.job.resolver.top.origins.get("models", self.job.root / "pyproject.toml"))

    def request(self, model: Model) -> Any:
        """What is asked about a model. Raises ``UsageError``."""
        from modellint.session import request_dispatch

        return request_dispatch.requests_of_settings(self.job, [model], self.config_file)[0]

    @cached_property
    def checker(self) -> Checker:
        """One index of the project for all files."""
        return Checker(self.job)

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> File | None:
        """A collector for a file that pytest comes upon, beside those of others."""
        if file_path not in self.files and file_path not in self.models:
            return None
        return File.from_parent(parent, path=file_path, checks=self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Add what pytest did not come upon, where no path is given: the project has more files than those of tests."""
        source = config.args_source
        if source is pytest.Config.ArgsSource.ARGS:
            return
        here = config.rootpath if source is pytest.Config.ArgsSource.TESTPATHS else config.invocation_params.dir
        collected = {item.path for item in items if isinstance(item, _Check)}
        for path in sorted({*self.files, *self.models} - collected):
            if not path.is_relative_to(here):
                continue
            items.extend(session.genitems(File.from_parent(session, path=path, checks=self)))
        if self.problems and self.job.root.is_relative_to(here):
            node = File.from_parent(session, path=self.job.root, checks=self)
            items.append(Unchecked.from_parent(node, name=_NAME, problems=self.problems))

    def judged(
        self,
        findings: Sequence[Diagnostic],
        files: Sequence[str],
        targets: Sequence[tuple[str, Conversion | None]] = (),
    ) -> tuple[str, bool]:
        """The findings as ``modellint check`` prints them, without those of the baseline, and whether they fail."""
        from modellint.report import formats

        top = self.job.resolver.top
        texts = Texts(self.job.folder, None)
        if self.job.baseline is not None:
            known = self.job.baseline.is_known(findings, texts)
            findings = [finding for finding, old in zip(findings, known, strict=True) if not old]
        level = LEVELS.index(top.fail_level)
        results = formats.CheckResults(
            sorted(findings, key=lambda finding: finding.sort_key),
            self.job.root,
            self.job.folder,
            texts,
            self.job.rules,
            files=files,
            targets=targets,
            failing=level,
        )
        return formats.render("full", results), any(finding.severity >= level for finding in findings)


class File(pytest.File):
    """The checks of one file: of its source, and of the models that the settings list in it."""

    def __init__(self, *, checks: Checks, **options: Any) -> None:
        super().__init__(**options)
        self.checks = checks

    def collect(self) -> Iterator[pytest.Item]:
        """An item for the source, and one for each model."""
        if self.path in self.checks.files:
            yield Source.from_parent(self, name=_NAME)
        models = self.checks.models.get(self.path, [])
        names = [model.target.rpartition(":")[2] for model in models]
        for model, name in zip(models, names, strict=True):
            # The same model may be listed with several inputs.
            inputs = f"-{','.join(model.inputs)}" if names.count(name) > 1 else ""
            yield Target.from_parent(self, name=f"{_NAME}[{name}{inputs}]", model=model)


class _Check(pytest.Item):
    """One check, which fails as ``modellint check`` does."""

    parent: File

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_marker(_NAME)

    @property
    def checks(self) -> Checks:
        return self.parent.checks

    def judge(self, findings: Sequence[Diagnostic], targets: Sequence[tuple[str, Conversion | None]] = ()) -> None:
        """Fail with the findings, if one is grave enough; else keep them for those who want to see them."""
        text, fails = self.checks.judged(findings, [self.checks.job.shown(self.path)], targets)
        if fails:
            raise Failure(text)
        if findings or targets:
            self.add_report_section("call", _NAME, text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """What is found, and no stack: nothing is wrong with the program."""
        if isinstance(excinfo.value, (Failure, UsageError, SettingsError, RuleError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the check stands, and what it is called."""
        return self.path, None, self.name


class Source(_Check):
    """The check of a file's source; no code of it runs."""

    def runtest(self) -> None:
        """Check the file."""
        checker = self.checks.checker
        checker.unread.clear()
        findings = checker.check(self.path)
        if checker.unread:
            pytest.skip(f"not checked, though LNT002 is ignored: {checker.unread[0]}")
        self.judge(findings)


class Target(_Check):
    """The check of a live target, in a process of its own."""

    def __init__(self, *, model: Model, **options: Any) -> None:
        super().__init__(**options)
        self.model = model

    def runtest(self) -> None:
        """Build the model, and run it."""
        from modellint.session import request_dispatch
        from modellint.session.merge import about, miscompilations, settled
        from modellint.session.messages import Limits

        checks = self.checks
        request = checks.request(self.model)
        (checked,) = request_dispatch.check(checks.job, [request], Limits())
        result = checked.result
        for note in checked.notes:
            self.add_report_section("call", "notes", note)
        if checked.output:
            self.add_report_section("call", "output of the model", checked.output)
        if result.failed and not checks.job.resolver.top.enables("LNT003"):
            pytest.skip(f"not checked, though LNT003 is ignored: {result.diagnostics[0].message}")
        files = [] if request.location.file is None else [request.location.file]
        guesses = [finding for path in files for finding in checks.checker.check(path)]
        findings = settled(checks.checker, files, guesses, [result])
        conversion = result.conversion
        if conversion is not None:
            wrong = miscompilations(about(findings, result), checks.job.rules, conversion.destination)
            conversion = conversion._replace(miscompilations=wrong)
        # What source alone shows is the matter of the file's own test.
        self.judge([finding for finding in findings if finding.evidence != "source"], [(result.target, conversion)])


class Unchecked(_Check):
    """What of the project cannot be checked."""

    def __init__(self, *, problems: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.problems = problems

    def runtest(self) -> None:
        """Fail: nobody looked."""
        raise Failure("\n".join(self.problems))

"""Assertions for tests: that a model stays fit for export, and that the page of a rule of one's own is true.

import torch
from modellint.testing import assert_exportable, assert_page

def test_net_stays_exportable():
    assert_exportable(Net().eval(), torch.randn(1, 3, 32, 32))

def test_page_of_my_rule():
    assert_page("my_rules", "XYZ001")
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

from modellint.api import Report, check_model
from modellint.rule import Page, Rule, RuleError, registration_of

if TYPE_CHECKING:
    from torch import nn


def assert_exportable(
    model: nn.Module, example_inputs: Any = None, *, level: str = "warning", **options: Any
) -> Report:
    """Check a model as ``modellint.check_model`` does, with its options, and fail with the report.

    Raises ``modellint.CheckFailed``, an ``AssertionError``, if there is a finding at or above ``level``: ``info``, ``warning``
    or ``error``. Returns the report otherwise.
    """
    # pytest then shows the line of the test, not this one.
    __tracebackhide__ = True
    report = check_model(model, example_inputs, **options)
    report.raise_if_failed(level)
    return report


def rule_codes(plugin: str | Path) -> list[str]:
    """The codes of a plug-in's rules, for ``pytest.mark.parametrize``.

    A plug-in is named as behind ``--plugin``: an entry point, an installed module, a folder or a file. Its code runs.
    """
    return [code for code, rule in _rules(plugin).items() if rule.plugin]


def assert_page(plugin: str | Path, code: str) -> None:
    """Fail unless the page of a plug-in's rule is complete and true, as those of modellint's own rules are.

    Its sections are there and in order; Bad gives exactly this code, also beside the other rules of the plug-in, and Good
    nothing; the fix of Bad, if there is one, makes Good of it. Of a rule with a live side the examples are executed, which
    takes PyTorch.
    """
    __tracebackhide__ = True
    rules = _rules(plugin)
    _expect(code in rules, f"{plugin} has no rule {code}; it has {', '.join(rule_codes(plugin)) or 'none'}")
    rule = rules[code]
    try:
        page = Page.of(rule.__class__)
    except RuleError as error:
        raise AssertionError(str(error)) from None
    _expect(page.summary.endswith("."), f"{code}: the first paragraph of the page must end with a full stop")
    _expect("https://" in page.sections["References"], f"{code}: References must name a page, with https://")
    if registration_of(rule).fact:
        _assert_source_examples(rule, page, rules)
    if hasattr(rule, "live"):
        _expect(
            find_spec("torch"), f"{code}: the examples of a live rule are run, which takes PyTorch: pip install torch"
        )
        codes = _of_requirements if rule.live_needs == "environment" else _of_model
        _assert_codes(rule, page, lambda title: codes(rule, page, title, rules))


def _rules(plugin: str | Path) -> dict[str, Rule]:
    from modellint import plugins
    from modellint.settings import Settings

    folder = Path.cwd()
    return plugins.rules(plugins.choose(Settings(folder), folder, [str(plugin)], isolated=True).plugins)


def _expect(is_so: object, message: str) -> None:
    __tracebackhide__ = True
    if not is_so:
        raise AssertionError(message)


def _assert_codes(rule: Rule, page: Page, codes: Callable[[str], set[str]]) -> None:
    __tracebackhide__ = True
    bad, good = codes("Bad"), codes("Good")
    hint = "" if rule.code in bad else ": does it hold what `needs` or `wakes_on` ask for?"
    _expect(bad == {rule.code}, f"{rule.code}: Bad must give {rule.code} alone, and gives {_listed(bad)}{hint}")
    _expect(not good, f"{rule.code}: Good must give nothing, and gives {_listed(good)}")


def _listed(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "nothing"


def _assert_source_examples(rule: Rule, page: Page, rules: Mapping[str, Rule]) -> None:
    __tracebackhide__ = True
    from modellint.run import Checker, Job
    from modellint.settings import Resolver
    from modellint.source.fix import fix_text
    from modellint.source.syntax.source_text import SourceText

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        resolver = Resolver(folder, None, True, {"extend-select": ((rule.code,), "the test")}, None)
        checker = Checker(Job(folder, resolver, dict(rules), None, folder))
        path = folder / "model.py"
        enabled = checker.job.rules_for(path, resolver.top)

        def check(source: SourceText) -> tuple[Any, ...]:
            findings = checker.check_text(source, path, path.name, enabled, resolver.top).diagnostics
            return tuple(checker.kept(findings, enabled))

        bad, good = (SourceText(page.example(title)) for title in ("Bad", "Good"))
        findings = check(bad)
        for finding in findings:
            _expect(finding.code != "LNT004" or rule.code == "LNT004", f"{rule.code}: Bad: {finding.message}")
        _assert_codes(rule, page, lambda title: {each.code for each in (findings if title == "Bad" else check(good))})
        has_fix = any(finding.fix is not None for finding in findings)
        _expect(
            has_fix == bool(rule.fixable),
            f"{rule.code}: `fixable` must say what the fix of Bad puts in, if there is one",
        )
        if has_fix:
            fixed = fix_text(bad, check, unsafe=True)
            _expect(fixed.problem is None, f"{rule.code}: the fix of Bad: {fixed.problem}")
            _expect(
                fixed.text == good.text, f"{rule.code}: the fix makes something else of Bad than Good:\n{fixed.text}"
            )


def _of_requirements(rule: Rule, page: Page, title: str, rules: Mapping[str, Rule]) -> set[str]:
    """The findings about the environment if what the section lists were installed."""
    from torch import nn

    from modellint.destinations.coreml import installed_versions
    from modellint.live.check import check_subject
    from modellint.live.subject import Subject
    from modellint.settings import Destination

    listed = dict(re.findall(r"^([\w-]+)==(\S+)$", page.sections[title], re.MULTILINE))
    _expect(listed, f"{rule.code}: {title} must list requirements, name==version")
    with mock.patch.object(installed_versions, "version", listed.get):
        subject = Subject(nn.Identity(), None, Path.cwd(), Destination())
        return {finding.code for finding in check_subject(subject, {rule.code: rule})}


def _of_model(rule: Rule, page: Page, title: str, rules: Mapping[str, Rule]) -> set[str]:
    """The findings about the model that an example builds, by this rule and those of ours that ask no more of a model."""
    from modellint.live.check import check_subject, live_rules

    needs = {"structure", "values", "run", "checkpoint", *rule.live_needs.split()}
    asked = {
        each.code: each
        for each in live_rules(rules)
        if each is rule or (each.default and not each.plugin and needs.issuperset(each.live_needs.split()))
    }
    with tempfile.TemporaryDirectory() as folder, _executed(page.example(title), Path(folder)) as names:
        subject = _subject(names, Path(folder), executes="execution" in needs)
        return {finding.code for finding in check_subject(subject, asked)}


@contextmanager
def _executed(text: str, folder: Path) -> Iterator[dict[str, Any]]:
    """What a block of Python binds, run as a file that findings can point into."""
    path = folder / "block.py"
    path.write_text(text, "utf-8")
    module = ModuleType("modellint_page_block")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, str(path), "exec"), vars(module))
            yield vars(module)
    finally:
        del sys.modules[module.__name__]


def _subject(names: dict[str, Any], folder: Path, *, executes: bool) -> Any:
    """The ``model`` that the block binds, or else what its last module class builds, in evaluation mode."""
    from torch import nn

    from modellint.live.inputs.declared_inputs import inputs_of
    from modellint.live.subject import Subject
    from modellint.session.destination_verdicts import execute, judge
    from modellint.settings import Destination

    model = names.get("model")
    if model is None:
        classes = [value for value in names.values() if isinstance(value, type) and issubclass(value, nn.Module)]
        own = [cls for cls in classes if cls.__module__ == names["__name__"]]
        _expect(own, "the example must bind `model`, or define a class of module")
        model = own[-1]().eval()
    inputs = names.get("inputs")
    example = None if inputs is None else inputs_of(inputs)._replace(flexible=names.get("flexible", {}))
    return Subject(
        model,
        example,
        folder,
        Destination(frontend=names.get("frontend", "auto")),
        checkpoint=names.get("checkpoint"),
        judge=judge,
        execute=execute if executes else None,
    )

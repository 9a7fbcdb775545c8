"""Every rule's page is complete, and its examples do what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import modellint
from modellint.diagnostic import Diagnostic
from modellint.rule import Page, Rule, load_rules
from modellint.run import all_rules
from modellint.source.fix import fix_text
from modellint.source.text import SourceText

RULES = all_rules()
ABOUT_SOURCE = load_rules()
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(params=list(RULES))
def rule(request: pytest.FixtureRequest) -> Rule:
    return RULES[request.param]


@pytest.fixture(params=list(ABOUT_SOURCE))
def source_rule(request: pytest.FixtureRequest) -> Rule:
    return ABOUT_SOURCE[request.param]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def codes(text: str) -> set[str]:
    return {finding.code for finding in modellint.check_source(text).diagnostics}


def test_page_is_complete(rule: Rule) -> None:
    page = Page.of(type(rule))
    assert page.summary.endswith(".")
    assert re.search(r"https://", page.sections["References"])


def test_bad_gives_exactly_its_code(source_rule: Rule) -> None:
    assert codes(Page.of(type(source_rule)).example("Bad")) == {source_rule.code}


def test_good_gives_nothing(source_rule: Rule) -> None:
    assert codes(Page.of(type(source_rule)).example("Good")) == set()


def test_fix_of_bad_leaves_nothing(source_rule: Rule) -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return modellint.check_source(source.text).diagnostics

    page = Page.of(type(source_rule))
    if not source_rule.fixable:
        assert all(finding.fix is None for finding in check(SourceText(page.example("Bad"))))
        return
    fixed = fix_text(SourceText(page.example("Bad")), check)
    assert fixed.problem is None
    assert fixed.remaining == ()
    assert fixed.text == page.example("Good")


def test_unused_suppression_page() -> None:
    page = Page.of(type(RULES["LNT001"]))
    assert codes(page.example("Bad")) == {"LNT001"}
    assert codes(page.example("Good")) == set()


def test_unparsable_page() -> None:
    assert codes(Page.of(type(RULES["LNT002"])).example("Bad")) == {"LNT002"}


def _rule_in_guide() -> Iterator[str]:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    match = re.search(r"````python\n(.*?)````", guide, re.DOTALL)
    assert match is not None
    yield match[1]


def test_rule_of_the_contributing_guide_works(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from modellint.cli import cli

    (text,) = _rule_in_guide()
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "reg900.py").write_text(text, "utf-8")
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.todo = 1\n",
        "utf-8",
    )
    done = CliRunner().invoke(cli, ["check", "--plugin", "rules", "--output-format", "concise", "net.py"])
    assert "net.py:7:9: REG900 `self.todo` is unfinished" in done.output
    assert done.exit_code == 1

"""Every rule's page is complete, and its examples do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import modellint
from modellint.cli import cli
from modellint.results.diagnostic import Diagnostic
from modellint.rule import FAMILIES, Page, Rule, registration_of
from modellint.rule_index import load_rules
from modellint.run import all_rules
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

RULES = all_rules()
ABOUT_SOURCE = {code: rule for code, rule in load_rules().items() if registration_of(rule).fact}
ROOT = Path(__file__).resolve().parent.parent.parent
NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.todo = 1
"""


@pytest.fixture(params=list(RULES))
def rule(request: pytest.FixtureRequest) -> Rule:
    return RULES[request.param]


def test_file_is_called_after_the_code(rule: Rule) -> None:
    file = type(rule).__module__.rpartition(".")[2]
    assert file.startswith(f"{rule.code.lower()}_") or file == "tool_diagnostics"


def test_file_is_in_the_folder_of_its_family(rule: Rule) -> None:
    folder = type(rule).__module__.split(".")[-2]
    assert folder in (FAMILIES.get(rule.code[:3]), "modellint")


def test_no_other_file_holds_a_rule() -> None:
    """Only files that are called after a code are searched for rules."""
    files = (ROOT / "rules" / "modellint_rules").rglob("*.py")
    others = [file for file in files if not re.match(r"[a-z]{3}[0-9]{3}_", file.name)]
    assert [
        file.name for file in others if re.search(r"^class .*\(Rule\):", file.read_text("utf-8"), re.MULTILINE)
    ] == []


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=list(ABOUT_SOURCE))
def source_rule(request: pytest.FixtureRequest, _elsewhere: None) -> Rule:
    rule = ABOUT_SOURCE[request.param]
    settings = [] if rule.default else [f'extend-select = ["{rule.code}"]']
    if not rule.holds_for("coreml"):
        settings.append(f'destination = "{rule.only_for[0]}"')
    Path("modellint.toml").write_text("\n".join(settings))
    return rule


def codes(text: str) -> set[str]:
    return {finding.code for finding in modellint.check_source(text).diagnostics}


def test_page_is_complete(rule: Rule) -> None:
    page = Page.of(rule.__class__)
    assert page.summary.endswith(".")
    assert re.search(r"https://", page.sections["References"])


def test_a_finding_says_what_to_write_and_fills_no_more_than_two_lines(source_rule: Rule) -> None:
    bad = Page.of(source_rule.__class__).example("Bad")
    findings = [part for part in modellint.check_source(bad).diagnostics if part.code == source_rule.code]
    assert findings
    for finding in findings:
        assert finding.fix is not None or finding.help
        assert "\n" not in finding.message + (finding.help or "")
        assert not finding.message.endswith(".")


def test_bad_gives_exactly_its_code(source_rule: Rule) -> None:
    found = codes(Page.of(source_rule.__class__).example("Bad"))
    assert source_rule.code in found, (
        f"Bad does not give {source_rule.code}: does it hold what `needs` or `wakes_on` ask for?"
    )
    assert found == {source_rule.code}


def test_good_gives_nothing(source_rule: Rule) -> None:
    assert codes(Page.of(source_rule.__class__).example("Good")) == set()


def test_fix_of_bad_leaves_nothing(source_rule: Rule) -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return modellint.check_source(source.text).diagnostics

    page = Page.of(source_rule.__class__)
    if not source_rule.fixable:
        assert all(finding.fix is None for finding in check(SourceText(page.example("Bad"))))
        return
    fixed = fix_text(SourceText(page.example("Bad")), check, unsafe=True)
    assert fixed.problem is None
    assert fixed.remaining == ()
    assert fixed.text == page.example("Good"), "the fix makes something else of Bad than what is in Good"


def test_unused_suppression_page() -> None:
    page = Page.of(type(RULES["LNT001"]))
    assert codes(page.example("Bad")) == {"LNT001"}
    assert codes(page.example("Good")) == set()
    fixed = fix_text(
        SourceText(page.example("Bad")), lambda source: modellint.check_source(source.text).diagnostics, unsafe=False
    )
    assert fixed.text == page.example("Good"), "the fix makes something else of Bad than what is in Good"


def test_unparsable_page() -> None:
    page = Page.of(type(RULES["LNT002"]))
    assert codes(page.example("Bad")) == {"LNT002"}
    assert codes(page.example("Good")) == set()


def with_plugin(text: str, *options: str) -> Result:
    """A check of ``net.py``, in the current folder, by the one rule in ``text``, XYZ001."""
    Path("rules").mkdir(exist_ok=True)
    Path("rules", "xyz001.py").write_text(text, "utf-8")
    command = ["check", "--plugin", "rules", "--select", "XYZ,LNT", "--output-format", "concise", "--no-cache"]
    return CliRunner().invoke(cli, [*command, *options, "net.py"])


def test_failing_rule_page() -> None:
    page = Page.of(type(RULES["LNT004"]))
    assert codes(page.example("Bad")) == set()
    Path("net.py").write_text(NET, "utf-8")
    failed = with_plugin(page.example("Bad"))
    assert failed.exit_code == 1
    assert failed.output.count("LNT004") == 1
    assert "xyz001.py" in failed.output
    assert with_plugin(page.example("Good")).exit_code == 0


GUIDE = re.findall(r"````python\n(.*?)````", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
"""The rules of the contributing guide: about a class, about code, with libcst, live."""


def in_guide(code: str) -> tuple[str, Page]:
    """A rule of the guide, under a code of no family, so that it may stand where the guide says at the same time, and its page."""
    (text,) = (text for text in GUIDE if code in text)
    text = text.replace(code, "XYZ001")
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(text, "xyz001.py", "exec"), names)
    (rule,) = (
        kind for kind in names.values() if isinstance(kind, type) and issubclass(kind, Rule) and kind is not Rule
    )
    return text, Page.of(rule)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("REG900", "net.py:8:9: XYZ001 `self.todo` is unfinished"),
        ("FLW900", "net.py:7:20: XYZ001 `torch.empty` holds whatever stood in memory"),
        ("OPS900", "net.py:5:12: XYZ001 `torch.concat` is `torch.cat`"),
    ],
)
def test_rule_of_the_contributing_guide_works(code: str, said: str) -> None:
    text, page = in_guide(code)
    Path("net.py").write_text(page.example("Bad"), "utf-8")
    done = with_plugin(text, "--extend-select", "ALL", "--fail-level", "info")
    assert said in done.output.replace("[*] ", "")
    assert done.output.count("net.py:") == 1
    assert done.exit_code == 1
    fixed = with_plugin(text, "--fix", "--unsafe-fixes", "--fail-level", "info")
    assert fixed.exit_code == 0, fixed.output
    assert Path("net.py").read_text("utf-8") == page.example("Good")


def test_contributing_guide_has_a_rule_of_every_kind() -> None:
    assert [re.search(r'"""(\w+):', text)[1] for text in GUIDE] == ["REG900", "FLW900", "OPS900", "NUM900"]  # type: ignore[index]


def test_paths_in_the_contributing_guide_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = set(
        re.findall(r"`((?:source|live|destinations|data|measure|report|results|session)[\w/.]*(?:/|\.py))`", text)
    )
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / "lint" / "modellint" / path).exists()] == []

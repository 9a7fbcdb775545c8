"""A rule that nothing would be asked of is refused when it loads, with its file and what its annotation may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import modellint_rules
from modellint.cli import cli
from modellint.rule import Rule, registration_of
from modellint.rule_index import SleepingRule, load_rules, shipped_rules, woken, written
from modellint.settings import Destination

RULE = """\
{imports}

from modellint.results.diagnostic import Severity
from modellint.rule import Rule


class Odd(Rule):
    code, name, severity = "XYZ001", "odd", Severity.INFO

    def {signature}:
        return iter(())
"""
FUTURE = "from __future__ import annotations"
INDEX = Path(modellint_rules.__path__[0], "index.json")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("import torch\n", "utf-8")


def check(signature: str, imports: str = FUTURE) -> Result:
    Path("odd.py").write_text(RULE.format(signature=signature, imports=imports), "utf-8")
    command = ["check", "--plugin", "odd.py", "--select", "XYZ", "--no-cache", "net.py"]
    return CliRunner().invoke(cli, command)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("source(self, cls: facts.ModuleClass)", "it is `facts.ModuleClass`"),
        ("source(self, code: Cod)", "it is `Cod`"),
        ("source(self, code)", "`code` has no annotation"),
        ("source(self)", "it takes none"),
        ("source(self, code: Code, file: CstFile)", "it is handed one argument, and takes 2"),
        ("source(self, model: LiveModel)", "it is `LiveModel`"),
        ("source(self, node: cst.Cal, file: CstFile)", "libcst has no node `Cal`"),
        ("source(self, node: cst.Call)", "with a node it is handed `file: CstFile`, too"),
        ("source(self, node: cst.Call | Code, file: CstFile)", "it is `cst.Call | Code`"),
        ("source(self, node: ast.Call, file: CstFile)", "it is `ast.Call`"),
        ("live(self, subject: Code)", "it is `Code`"),
    ],
)
def test_misread_annotation_is_an_error(signature: str, said: str) -> None:
    done = check(signature)
    assert done.exit_code == 2
    assert "odd.py:10: XYZ001 (Odd) would never be asked" in done.output
    assert said in done.output
    method, fact = (
        ("`live`", "`LiveModel`") if signature.startswith("live") else ("`source`", "`ModuleClass` or `Code`")
    )
    assert f"the argument of {method} must be annotated with {fact} of modellint.authoring" in done.output


@pytest.mark.parametrize(
    ("signature", "imports"),
    [
        ("source(self, cls: ModuleClass)", FUTURE),
        ("source(self, code: authoring.Code)", FUTURE),
        ("source(self, code: 'Code')", FUTURE),
        ("source(self, code: Code)", "from modellint.source.facts.function_facts import Code"),
        ("source(self, node: cst.Call, file: CstFile)", FUTURE),
        ("source(self, node: cst.Call | cst.Attribute, file: CstFile)", FUTURE),
        ("source(self, node: Union[cst.Call, cst.Name], file: CstFile)", FUTURE),
        ("source(self, node: Call, file: CstFile)", FUTURE + "\nfrom libcst import Call"),
        ("source(self, node: cst.Call | cst.Name, file: object)", "import libcst as cst"),
        ("live(self, subject: LiveModel)", FUTURE),
    ],
)
def test_facts_and_nodes_are_understood(signature: str, imports: str) -> None:
    done = check(signature, imports)
    assert done.exit_code == 0, done.output


def test_words_say_nothing_of_module_classes() -> None:
    rule = RULE.format(signature="source(self, cls: ModuleClass)", imports=FUTURE)
    Path("odd.py").write_text(rule.replace("    code, name", "    needs = ('x',)\n    code, name"), "utf-8")
    done = CliRunner().invoke(cli, ["check", "--plugin", "odd.py", "--select", "XYZ", "--no-cache", "net.py"])
    assert done.exit_code == 2
    assert "odd.py:7: XYZ001 (Odd)" in done.output
    assert "`wakes_on` does" in done.output


def test_index_says_what_the_rules_say() -> None:
    rules = load_rules()
    assert INDEX.read_text("utf-8") == written(rules.values()), "write it anew: python -m modellint.rule_index"
    asleep = shipped_rules.__wrapped__()
    assert asleep.keys() == rules.keys()
    for code, rule in asleep.items():
        assert type(rule) is SleepingRule
        told = {**rule.__dict__}
        assert type(woken(rule)) is type(rules[code]) is rule.__class__
        assert told.pop("registration") == registration_of(rules[code])
        assert (told.pop("module"), told.pop("kind")) == (rule.__class__.__module__, rule.__class__.__name__)
        assert told == {name: getattr(rules[code], name) for name in told}
        assert "needs" in told or rule.__class__.needs_for is not Rule.needs_for


def test_rule_wakes_for_what_the_index_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    asleep, rules = shipped_rules.__wrapped__(), load_rules()
    for name in ("advice", "silent", "live_needs", "hides", "twin", "__class__", "source", "live", "hints"):
        for code, rule in shipped_rules.__wrapped__().items():
            assert hasattr(rule, name) == hasattr(rules[code], name)
            assert name in ("source", "live", "hints") or getattr(rule, name) == getattr(rules[code], name)
            assert type(rule) is type(rules[code])
    goal = Destination()
    assert {code: rule.needs_for(goal) for code, rule in asleep.items()} == {
        code: rule.needs_for(goal) for code, rule in rules.items()
    }
    monkeypatch.setattr("modellint.rule_index._read", dict)
    assert not any(type(rule) is SleepingRule for rule in shipped_rules.__wrapped__().values())

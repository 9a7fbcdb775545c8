"""A rule that nothing would be asked of is refused when it loads, with its file and what its annotation may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

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

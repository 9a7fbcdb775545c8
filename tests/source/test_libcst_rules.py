"""Rules about nodes of libcst: where they are found, what suppresses them, their fixes, and which files are read for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

RULE = """\
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Rule, Severity

if TYPE_CHECKING:
    import libcst as cst

    from modellint.authoring import CstFile


class Spelled(Rule):
    code, name, severity = "XYZ001", "spelled", Severity.WARNING
    needs = {needs}

    def source(self, node: {nodes}, file: CstFile) -> Iterator[Diagnostic]:
        import libcst as cst
        import libcst.matchers as m

{body}
"""
CALLS = """\
        if "torch.clip" in file.names(node):
            new = node.with_changes(func=m.replace(node.func, m.Name("clip"), cst.Name("clamp")))
            yield file.finding(self, node, "`clip` is `clamp`", replacement=new, applicability=Applicability.{how})
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("modellint.toml").write_text('plugins = ["spelled.py"]\nselect = ["XYZ", "LNT"]\n', "utf-8")


def write_rule(body: str, nodes: str = "cst.Call", needs: str = '(".clip",)') -> None:
    Path("spelled.py").write_text(RULE.format(needs=needs, nodes=nodes, body=body), "utf-8")


def check(text: str, *options: str) -> Result:
    with Path("net.py").open("w", encoding="utf-8", newline="") as file:
        file.write(text)
    return CliRunner().invoke(
        cli, ["check", "--trust-plugins", "--no-cache", "--output-format", "concise", *options, "net.py"]
    )


def fixed(text: str, *options: str) -> str:
    check(text, "--fix", *options)
    with Path("net.py").open(encoding="utf-8", newline="") as file:
        return file.read()


TEXT = """\
import torch


def f(é, x):
    return é, torch.clip(
        x,  # kept
        min=0,
    )
"""


def test_finding_stands_at_the_node() -> None:
    write_rule(CALLS.format(how="SAFE"))
    done = check(TEXT)
    assert "net.py:5:15: XYZ001 [*] `clip` is `clamp`" in done.output
    assert done.exit_code == 1


@pytest.mark.parametrize("row", [5, 8])
def test_comment_suppresses_it(row: int) -> None:
    write_rule(CALLS.format(how="SAFE"))
    lines = TEXT.splitlines()
    lines[row - 1] += "  # noqa: XYZ001"
    done = check("\n".join(lines) + "\n")
    assert done.exit_code == 0, done.output


def test_suppression_without_a_finding_is_told() -> None:
    write_rule(CALLS.format(how="SAFE"))
    assert "LNT001" in check("import torch\n\ny = torch.clamp(1)  # noqa: XYZ001\n").output


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_safe_fix_changes_the_smallest_text(newline: str) -> None:
    write_rule(CALLS.format(how="SAFE"))
    text = TEXT.replace("\n", newline)
    assert fixed(text) == text.replace("clip", "clamp")


def test_unsafe_fix_waits_for_leave() -> None:
    write_rule(CALLS.format(how="UNSAFE"))
    assert fixed(TEXT) == TEXT
    assert fixed(TEXT, "--unsafe-fixes") == TEXT.replace("clip", "clamp")


STATEMENTS = """\
        if m.matches(node, m.SimpleStatementLine(body=[m.Expr(value=m.Call(func=m.Name("say")))])):
            yield file.finding(self, node, "said", replacement={replacement}, applicability=Applicability.SAFE)
"""
NESTED = """\
def f(x):
    if x:
        # why
        say(x)
        return 1
    return 2
"""


def test_statement_is_removed() -> None:
    write_rule(STATEMENTS.format(replacement="cst.RemoveFromParent()"), "cst.SimpleStatementLine", '("say",)')
    assert fixed(NESTED) == NESTED.replace("        say(x)\n", "")


CALLED = """\
        if m.matches(node, m.Call(func=m.Name("say"))):
            yield file.finding(self, node, "said", replacement=cst.RemoveFromParent(), applicability=Applicability.SAFE)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\n\n# why\nsay(a)\n", "a = 1\n\n# why\n"),
        ("if a:\n    b()\n    say(a)  # tail\nc()\n", "if a:\n    b()\n    # tail\nc()\n"),
        ("a = b; say(a)  # tail\n", "a = b  # tail\n"),
        ("say(a); b()  # tail\n", "b()  # tail\n"),
        ("say(a);  # tail\nb()\n", "# tail\nb()\n"),
        ("if a:\n    # why\n    say(a)  # tail\n", "if a:\n    # why\n    pass  # tail\n"),
        ("if a: say(a)  # tail\n", "if a: pass  # tail\n"),
        ("b()\nsay(a)", "b()\n"),
        ("if a:\n    say(a)\n    say(b)\n", "if a:\n    pass\n"),
        ("say(a); say(b)\n", ""),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_removal_of_a_statement_keeps_what_stands_around_it(before: str, after: str, newline: str) -> None:
    write_rule(CALLED, needs='("say",)')
    assert fixed(before.replace("\n", newline)) == after.replace("\n", newline)


@pytest.mark.parametrize(
    "body",
    [
        CALLED,
        CALLED.replace("cst.RemoveFromParent()", "cst.parse_expression('other()')"),
    ],
)
def test_a_fix_that_deletes_a_comment_waits_for_leave(body: str) -> None:
    write_rule(body, needs='("say",)')
    text = "b()\nsay(\n    a,  # why\n)\n"
    assert fixed(text) == text
    assert "#" not in fixed(text, "--unsafe-fixes")


def test_removal_of_what_something_needs_says_what_to_do() -> None:
    write_rule(CALLED, needs='("say",)')
    said = check("a = say(1)\n").output
    assert "`say(1)` cannot be taken out of `a = say(1)`; hand `finding` the statement that is to go" in said


def test_statement_is_replaced_with_its_indentation() -> None:
    several = "cst.FlattenSentinel([cst.parse_statement('one()'), cst.parse_statement('two()')])"
    write_rule(STATEMENTS.format(replacement=several), "cst.SimpleStatementLine", '("say",)')
    assert fixed(NESTED) == NESTED.replace("        say(x)\n", "        one()\n        two()\n")
    tail = "say(x)  # tail\n"
    assert fixed(tail) == "one()\ntwo()  # tail\n"


def test_several_kinds_of_node() -> None:
    write_rule("        yield file.finding(self, node, type(node).__name__)", "cst.Lambda | cst.Pass", '("pass",)')
    output = check("f = lambda: 1\n\n\ndef g():\n    pass\n").output
    assert "net.py:1:5: XYZ001 Lambda" in output
    assert "net.py:5:5: XYZ001 Pass" in output


def test_only_files_with_the_words_are_read() -> None:
    write_rule('        yield file.finding(self, node, "read")', "cst.Module", '(".clip", {"torch", "th"})')
    Path("awake.py").write_text("import torch as th\n\ny = th.clip(1)\n", "utf-8")
    Path("other.py").write_text("import torch as th\n\ny = th.clamp(1)  # clip\n", "utf-8")
    done = CliRunner().invoke(
        cli, ["check", "--trust-plugins", "--no-cache", "--output-format", "concise", "awake.py", "other.py"]
    )
    assert "awake.py:1:1: XYZ001 read" in done.output
    assert "other.py" not in done.output


def test_rule_that_raises_is_told_once() -> None:
    write_rule("        yield node.nothing", needs='("print",)')
    done = check("print(1)\nprint(2)\n")
    assert done.output.count("LNT004") == 1
    assert "XYZ001" in done.output


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("(Trigger.USES_NUMPY,)", "is woken by the words of the file"),
        ('(".clip")', "it must be a tuple"),
        ('({"clip", Trigger.USES_NUMPY},)', "stands alone"),
        ('(".clip",)\n    only_forward = True', "say nothing of nodes of libcst"),
    ],
)
def test_what_could_not_wake_it_is_refused(needs: str, said: str) -> None:
    write_rule("        yield from ()", needs=needs)
    text = Path("spelled.py").read_text("utf-8").replace("Severity\n", "Severity, Trigger\n", 1)
    Path("spelled.py").write_text(text, "utf-8")
    done = check("x.clip\n")
    assert done.exit_code == 2
    assert "spelled.py:14: XYZ001 (Spelled): " in done.output
    assert said in done.output

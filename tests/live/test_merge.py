"""What source says and what live targets show, as one list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli
from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span
from modellint.rule import Rule
from modellint.session.merge import LiveResult, merge

FIX = Fix("Wrap it", (Edit(Span(3, 1, 3, 1), "ModuleList"),))


class Exact(Rule):
    code, name, severity, withdraws = "XYZ001", "exact", Severity.ERROR, True


class Vague(Rule):
    code, name, severity = "XYZ002", "vague", Severity.WARNING


class Special(Rule):
    code, name, severity, supersedes, withdraws = "XYZ003", "special", Severity.ERROR, ("XYZ001",), True


RULES: dict[str, Rule] = {rule.code: rule() for rule in (Exact, Vague, Special)}


def guess(row: int = 3, end_row: int = 0, code: str = "XYZ001", **changes: Any) -> Diagnostic:
    rule = RULES[code]
    made = Diagnostic(
        code, rule.name, rule.severity, "source says so", "net.py", Span(row, 9, end_row or row, 20), FIX, "help"
    )
    return made._replace(**changes)


def seen(row: int = 3, end_row: int = 0, code: str = "XYZ001", **changes: Any) -> Diagnostic:
    changes = {"modules": ("a", "b"), "message": "the run shows it", **changes}
    return guess(row, end_row, code, evidence="live", fix=None, help=None, **changes)


def result(*found: Diagnostic, target: str = "net.py:Net", ran: tuple[int, int] = (1, 9), **changes: Any) -> LiveResult:
    rows = frozenset(range(ran[0], ran[1] + 1))
    return LiveResult(target, found, {"net.py": rows}, asked=frozenset(RULES))._replace(**changes)


def merged(source: list[Diagnostic], *live: LiveResult) -> list[Diagnostic]:
    return merge(source, live, RULES)


def test_a_run_confirms_the_worst_of_several_guesses_about_a_statement() -> None:
    beside = guess(span=Span(3, 30, 3, 40), severity=Severity.INFO, message="where sizes vary")
    (one,) = merged([guess(), beside], result(seen()))
    assert (one.severity, one.evidence, one.span) == (Severity.ERROR, "both", Span(3, 9, 3, 20))


def test_attribute_is_the_same_wherever_it_is_bound() -> None:
    about = {"class_name": "Net", "attribute": "layers"}
    (one,) = merged([guess(3, **about)], result(seen(7, **about)))
    assert one == guess(3, **about)._replace(evidence="both", modules=("a", "b"), target="net.py:Net")


@pytest.mark.parametrize(
    "other",
    [
        {"class_name": "Net", "attribute": "heads"},
        {"class_name": "Net", "attribute": "layers", "path": "other.py"},
        {"class_name": "Other", "attribute": "layers", "span": Span(7, 1, 7, 9)},
        {"class_name": "Net", "attribute": "layers", "code": "XYZ002"},
    ],
)
def test_attributes_that_differ(other: dict[str, Any]) -> None:
    found = merged([guess(3, class_name="Net", attribute="layers")], result(seen(3)._replace(**other), ran=(20, 21)))
    assert sorted(one.evidence for one in found) == ["live", "source"]


def test_inherited_attribute_is_the_same_at_one_statement() -> None:
    (one,) = merged([guess(3, class_name="Child", attribute="x")], result(seen(3, class_name="Base", attribute="x")))
    assert (one.evidence, one.class_name) == ("both", "Child")


def test_attribute_without_a_place() -> None:
    nowhere = seen(class_name="Net", attribute="x", path=None, span=None)
    (one,) = merged([guess(3, class_name="Net", attribute="x")], result(nowhere))
    assert (one.evidence, one.path) == ("both", "net.py")


def test_a_call_is_the_same_as_its_statement() -> None:
    (one,) = merged([guess(4)], result(seen(3, 5)))
    assert one.span == guess(4).span
    assert one.evidence == "both"


def test_operators_that_differ_are_two() -> None:
    source = [guess(3, operator="aten::fmod"), guess(3, operator="aten::hypot")]
    found = merged(source, result(seen(3, operator="aten::fmod"), ran=(20, 21)))
    assert {(one.operator, one.evidence) for one in found} == {("aten::fmod", "both"), ("aten::hypot", "source")}


def test_severity_is_the_run_s_where_that_is_exact() -> None:
    (one,) = merged([guess()], result(seen(severity=Severity.WARNING)))
    assert (one.severity, one.message) == (Severity.WARNING, "the run shows it")
    (one,) = merged([guess(code="XYZ002")], result(seen(code="XYZ002", severity=Severity.INFO)))
    assert (one.severity, one.message) == (Severity.WARNING, "source says so")
    (one,) = merged([guess(code="XYZ002")], result(seen(code="XYZ002", severity=Severity.ERROR)))
    assert (one.severity, one.message) == (Severity.ERROR, "the run shows it")


def test_withdrawal() -> None:
    assert merged([guess()], result()) == []
    assert merged([guess()], result(ran=(3, 3))) == []
    kept = [guess()]
    assert merged(kept, result(ran=(4, 9))) == kept
    assert merged(kept, result(asked=frozenset({"XYZ002"}))) == kept
    assert merged(kept, result(executed={"other.py": frozenset(range(9))})) == kept
    assert merged(kept, result(failed=True)) == kept
    assert merged(kept) == kept
    assert merged([guess(code="XYZ002")], result()) == [guess(code="XYZ002")]


def test_one_target_confirms_what_another_would_withdraw() -> None:
    (one,) = merged([guess()], result(target="a"), result(seen(), target="b"))
    assert (one.evidence, one.target) == ("both", "b")


def test_a_finding_stands_once_for_each_target() -> None:
    found = merged([], result(seen(), target="a"), result(seen(modules=("c",)), target="b"))
    assert [(one.target, one.modules) for one in found] == [("a", ("a", "b")), ("b", ("c",))]


def test_the_more_specific_side_wins() -> None:
    about = {"class_name": "Net", "attribute": "x"}
    (one,) = merged([guess(code="XYZ003", **about)], result(seen(**about)))
    assert (one.code, one.evidence) == ("XYZ003", "both")
    (one,) = merged([guess(**about)], result(seen(code="XYZ003", **about), ran=(20, 21)))
    assert (one.code, one.evidence) == ("XYZ003", "live")


BLOCKS = """\
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Linear(8, 8)]

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Net(nn.Module):
    def __init__(self, depth=12):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])

    def forward(self, x):
        return self.blocks(x)


class Small(Net):
    def __init__(self):
        super().__init__(2)


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8)]

    def forward(self, x):
        return self.layers[0](x)


def late():
    model = Late()
    model.stack = nn.Sequential(*model.layers)
    return model.eval()
"""

COMMENTED = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = eval("[nn.Linear(8, 8)]"){comment}
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return self.fc(self.layers[0](x))


class Idle(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)  # noqa: REG013
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("modellint.toml").write_text("", "utf-8")


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", *arguments])


def found(*arguments: str) -> list[dict[str, Any]]:
    done = check("--output-format", "json", *arguments)
    assert done.exit_code in (0, 1), done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_layer_of_twelve_blocks_is_one_finding_with_twelve_paths() -> None:
    Path("net.py").write_text(BLOCKS, "utf-8")
    rows = [row for row in found("net.py:Net", "--input", "1x8", "--ignore", "ENV") if row["location"]["row"] < 20]
    (row,) = rows
    assert (row["code"], row["evidence"], row["target"]) == ("REG001", "both", "net.py:Net")
    assert row["modules"] == [f"blocks.{index}" for index in range(12)]
    assert row["location"] == {"row": 7, "column": 9}
    assert row["fix"]["applicability"] == "safe"


def test_several_targets_with_one_defect() -> None:
    Path("net.py").write_text(BLOCKS, "utf-8")
    shown = check("net.py:Net", "net.py:Small", "--select", "REG001").output
    assert shown.count("--> net.py:7:9") == 1
    assert "  = confirmed by: net.py:Net\n  = modules: blocks.0, blocks.1, blocks.2 … and 9 more\n" in shown
    assert "  = confirmed by: net.py:Small\n  = modules: blocks.0, blocks.1\n" in shown
    # That of `Late`, which no target builds, is the other.
    assert "Found 2 errors." in shown


def test_a_guess_that_the_run_disproves_is_gone() -> None:
    Path("net.py").write_text(BLOCKS, "utf-8")
    assert {row["location"]["row"] for row in found("net.py", "--select", "REG")} == {7, 32}
    (row,) = found("net.py:late", "--input", "1x8", "--select", "REG")
    assert (row["location"]["row"], row["evidence"]) == (7, "source")


def test_report_names_the_targets() -> None:
    Path("net.py").write_text(BLOCKS, "utf-8")
    done = check("--output-format", "report", "--select", "REG001", "net.py:Small")
    (target,) = json.loads(done.stdout)["targets"]
    nothing = {
        "convertible": None,
        "frontend": None,
        "routes": {},
        "supplied": [],
        "wrong": [],
        "converts_with": [],
    }
    assert target == {"target": "net.py:Small"} | nothing


def test_comments_hold_for_live_findings_too() -> None:
    Path("net.py").write_text(COMMENTED.format(comment=""), "utf-8")
    (row,) = found("net.py:Net", "--select", "REG001")
    assert (row["evidence"], row["location"]["row"], row["fix"]) == ("live", 7, None)
    Path("net.py").write_text(COMMENTED.format(comment="  # noqa: REG001"), "utf-8")
    assert found("net.py:Net", "--select", "REG001,LNT001") == []


def test_settings_of_the_file_hold_for_live_findings_too() -> None:
    Path("net.py").write_text(COMMENTED.format(comment=""), "utf-8")
    Path("modellint.toml").write_text('per-file-ignores = { "net.py" = ["REG"] }', "utf-8")
    assert found("net.py:Net", "--select", "REG001") == []


def test_comment_that_only_a_live_run_can_judge() -> None:
    Path("net.py").write_text(COMMENTED.format(comment="  # noqa: REG013"), "utf-8")
    assert found("net.py", "--select", "REG013,LNT001") == []
    assert found("net.py:Net", "--select", "REG013,LNT001") == []
    import torch

    torch.save({"fc.weight": torch.zeros(8, 8), "fc.bias": torch.zeros(8)}, "net.pt")
    (row,) = found("net.py:Net", "--select", "REG013,LNT001", "--checkpoint", "net.pt")
    # The class that no instance was built of is not judged.
    assert (row["code"], row["location"]["row"]) == ("LNT001", 7)


def test_withdrawal_takes_an_instance_that_shows_it() -> None:
    about = guess(class_name="Net", attribute="layers")
    assert merged([about], result(undecided={"Net": frozenset()})) == []
    assert merged([about], result(undecided={"Net": frozenset({"layers"})})) == [about]
    assert merged([about], result(undecided={"Base": frozenset()})) == [about]
    decided, not_decided = result(undecided={"Net": frozenset()}), result(undecided={"Net": frozenset({"layers"})})
    assert merged([about], not_decided, decided) == []


POOLS = """\
import torch
from torch import nn


class Pools(nn.Module):
    def __init__(self, pools=1, fields=(), classes=None):
        super().__init__()
        self.layers = []
        for _ in range(pools):
            self.layer = nn.Linear(8, 8)
            self.layers.append(self.layer)
        self.tables = {}
        for field in fields:
            self.tables[field] = nn.Embedding(4, 8)
        self.kept = None if classes is None else torch.tensor(classes)
        self.table = torch.zeros(0, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for table in self.tables.values():
            x = x + table.weight[0]
        if self.kept is not None:
            x = x * self.kept
        if self.table.shape[0] < x.shape[0]:
            self.table = torch.ones(x.shape[0], 8).to(x)
        return x + self.table[: x.shape[0]]


def full():
    return Pools(2, ("a",), (1.0,)).eval()
"""


@pytest.mark.parametrize("inputs", [(), ("--input", "2x8")], ids=["built", "run"])
def test_a_model_that_is_too_small_to_show_a_defect_disproves_none(inputs: tuple[str, ...]) -> None:
    Path("net.py").write_text(POOLS, "utf-8")

    def evidence(*targets: str) -> dict[str, str]:
        rows = found(*targets, "--select", "REG")
        return {row["message"].split("`")[1].removeprefix("self."): row["evidence"] for row in rows}

    guessed = evidence("net.py")
    assert set(guessed) == {"layers", "tables", "kept", "table"}
    assert evidence("net.py:Pools", *inputs) == guessed
    assert evidence("net.py:full", *inputs) == guessed | {"layers": "both", "tables": "both", "kept": "both"}


UNSAFE = FIX._replace(applicability=Applicability.UNSAFE)
PROVEN = Fix("Proven on the model", ())


def test_a_fix_that_every_run_proves_is_safe() -> None:
    about = {"class_name": "Net", "attribute": "layers"}
    held_back = guess(3, **about).with_fix(UNSAFE)
    proven, unproven = seen(3, **about).with_fix(PROVEN), seen(3, **about)
    (one,) = merged([held_back], result(proven))
    assert one.fix == FIX
    (one,) = merged([held_back], result(unproven))
    assert one.fix == UNSAFE


def test_a_proof_alone_is_no_fix() -> None:
    (one,) = merged([], result(seen(3).with_fix(PROVEN)))
    assert one.fix is None
    (one,) = merged([], result(seen(3).with_fix(FIX)))
    assert one.fix == FIX


def test_a_guess_without_a_fix_gets_that_of_the_run() -> None:
    (one,) = merged([guess(3).with_fix(None)], result(seen(3).with_fix(FIX)))
    assert (one.evidence, one.fix) == ("both", FIX)

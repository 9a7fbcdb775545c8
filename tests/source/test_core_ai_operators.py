"""Core AI's operators in source: what is said of calls that coreai-torch has no converter for, and by `modellint ops`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli
from modellint.data.coreai_operators import table

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = torch.cumprod(x, 1)
        z = torch.fmod(x, 2.0)
        return torch.add(y, z, alpha=2)
"""
CUMPROD = "`torch.cumprod` does not convert: coreai-torch 0.4.3 has no converter for `aten.cumprod.default`; "


def found(folder: Path, destination: str, text: str = NET) -> list[tuple[int, str, str]]:
    """Row, code and message of all findings."""
    (folder / "net.py").write_text(text, "utf-8")
    words = ["check", str(folder / "net.py"), "--destination", destination, "--output-format", "json", "--no-cache"]
    done = CliRunner().invoke(cli, words)
    return [(one["location"]["row"], one["code"], one["message"]) for one in json.loads(done.stdout)]


def rows(folder: Path, destination: str, text: str = NET) -> list[tuple[int, str]]:
    return [(row, code) for row, code, _ in found(folder, destination, text)]


def test_each_destination_has_its_own(tmp_path: Path) -> None:
    assert rows(tmp_path, "coreml") == [(8, "OPS001"), (9, "OPS007")]
    assert rows(tmp_path, "coreai") == [(7, "OPS001"), (9, "OPS007")]
    assert any(
        (row, code) == (7, "OPS001") and message.startswith(CUMPROD) for row, code, message in found(tmp_path, "coreai")
    )


def test_both_say_what_holds_for_both_once(tmp_path: Path) -> None:
    assert rows(tmp_path, "all") == [(7, "OPS001"), (8, "OPS001"), (9, "OPS007")]


def test_one_line_may_lack_a_converter_for_each(tmp_path: Path) -> None:
    text = NET.replace("torch.cumprod(x, 1)", "torch.i0(x)")
    assert [message.partition(": ")[2].split()[0] for row, _, message in found(tmp_path, "all", text) if row == 7] == [
        "coreai-torch",
        "coremltools",
    ]


@pytest.mark.parametrize(
    ("size", "is_found"), [("1", False), ("(1, 1, 1)", False), ("n", False), ("2", True), ("(1, 2, 1)", True)]
)
def test_an_average_that_leaves_one_element_is_a_mean(tmp_path: Path, size: str, is_found: bool) -> None:
    init = (
        f"def __init__(self, n):\n        super().__init__()\n        self.pool = nn.AdaptiveAvgPool3d({size})\n\n    "
    )
    text = NET.replace("def forward", init + "def forward").replace("torch.cumprod(x, 1)", "self.pool(x)")
    assert ((11, "OPS001") in rows(tmp_path, "coreai", text)) == is_found


def test_the_cache_tells_destinations_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(NET, "utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.modellint]\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    told = []
    for destination in ("coreml", "coreai", "coreml", "all"):
        words = ["check", "net.py", "--destination", destination, "--output-format", "concise"]
        told.append(CliRunner().invoke(cli, words).stdout.count("OPS001"))
    assert told == [1, 1, 1, 2]


@pytest.mark.parametrize("name", ["cumprod", "aten::cumprod", "torch.cumprod", "Tensor.cumprod_"])
def test_ops_tells_what_is_lacking(name: str) -> None:
    done = CliRunner().invoke(cli, ["ops", "--destination", "coreai", name, "--output-format", "json"])
    (row,) = json.loads(done.stdout)
    assert row["operator"] == "aten::cumprod"
    assert row["converter"] is False
    assert row["routes"]["export"]["converts"] is row["routes"]["trace"]["converts"] is False


@pytest.mark.parametrize("name", ["add", "torch.add", "nn.Linear", "F.gelu"])
def test_ops_tells_what_converts(name: str) -> None:
    done = CliRunner().invoke(cli, ["ops", "--destination", "coreai", name, "--output-format", "json"])
    (row,) = json.loads(done.stdout)
    assert row["converter"] is row["routes"]["export"]["converts"] is True
    assert row["target"] == "iOS27"


@pytest.mark.parametrize(("version", "lacks"), [("0.4.0", True), ("0.4.1", True), ("0.4.2", False), ("0.4.3", False)])
def test_an_older_converter_lacks_more(tmp_path: Path, version: str, lacks: bool) -> None:
    text = NET.replace("torch.cumprod(x, 1)", "torch.atan2(x, x + 1)")
    (tmp_path / "net.py").write_text(text, "utf-8")
    words = ["check", str(tmp_path / "net.py"), "--destination", "coreai", "--coreai-version", version, "--no-cache"]
    done = CliRunner().invoke(cli, [*words, "--output-format", "concise"])
    assert (f"coreai-torch {version} has no converter for `aten.atan2.default`" in done.stdout) == lacks
    asked = ["ops", "--destination", "coreai", "torch.atan2", "--coreai-version", version, "--output-format", "json"]
    (row,) = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert row["converter"] is not lacks
    assert row["routes"]["export"]["since"] == (None if lacks else "0.4.2")


def test_a_version_is_of_its_own_destination(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, "utf-8")
    for words in (["--coreai-version", "0.4.1"], ["--destination", "coreai", "--coreai-version", "9.0"]):
        for command in (["check", str(tmp_path / "net.py")], ["ops", "torch.add"]):
            done = CliRunner().invoke(cli, [*command, *words])
            assert done.exit_code == 2
            assert "--coreai-version" in done.stderr
    (tmp_path / "modellint.toml").write_text("destination = 'coreai'\ncoreai-version = '0.3'\n", "utf-8")
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "net.py")])
    assert done.exit_code == 2
    assert "it knows 0.4.0, 0.4.1, 0.4.2, 0.4.3" in done.stderr


def test_ops_names_the_nearest(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["ops", "--destination", "coreai", "torch.cumpord"])
    assert done.exit_code == 2
    assert "did you mean torch.cumprod" in done.stderr


def test_no_name_is_both() -> None:
    known = table()
    groups = [set(known.converts), set(known.missing), set(known.refused), set(known.fails), set(known.wrong)]
    assert sum(map(len, groups)) == len(set().union(*groups)) > 1000

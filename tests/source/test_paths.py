"""Paths as they are on other systems: names that differ in case, backslashes, drives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
"""


def check(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", "--output-format", "concise", *words], input=text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("module", "findings"), [("layers", 1), ("Layers", 0)])
def test_modules_whose_names_differ_in_case_are_two(module: str, findings: int, folder: Path) -> None:
    (folder / "layers.py").write_text("from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n", "utf-8")
    (folder / "Layers.py").write_text("class Base:\n    pass\n", "utf-8")
    text = BAD.replace("nn.Module", "Base").replace("import nn", f"import nn\nfrom {module} import Base")
    (folder / "net.py").write_text(text, "utf-8")
    assert check("net.py").stdout.count("REG001") == findings


def test_files_whose_names_differ_in_case_are_two(folder: Path) -> None:
    for name in ("net.py", "Net.py", "NET.py"):
        (folder / name).write_text(BAD, "utf-8")
    (folder / "modellint.toml").write_text('exclude = ["NET.py"]\n', "utf-8")
    assert [line.partition(":")[0] for line in check(".").stdout.splitlines() if "REG001" in line] == [
        "Net.py",
        "net.py",
    ]


@pytest.mark.parametrize("name", [r"src\net.py", r"C:\models\net.py"])
def test_stdin_filename_with_backslashes(name: str) -> None:
    assert check("--stdin-filename", name, "-", text=BAD).stdout.startswith(f"{name}:7:9: REG001")


@pytest.mark.parametrize("target", [r"C:\models\net.py:Net", r"models\net.py:Net.small"])
def test_live_target_with_backslashes_is_split_at_its_name(target: str) -> None:
    done = check(target)
    assert done.exit_code == 2
    assert f"no such file: {target.rpartition(':')[0]}" in done.output


@pytest.mark.parametrize(
    ("setting", "right"),
    [
        (r"exclude = ['third_party\lib']", "third_party/lib"),
        (r"per-file-ignores = { 'tests\**' = ['REG'], 'a\b.py' = ['REG'] }", "a/b.py"),
    ],
)
def test_backslash_between_folders_of_a_pattern_is_an_error(setting: str, right: str, folder: Path) -> None:
    (folder / "net.py").write_text(BAD, "utf-8")
    (folder / "modellint.toml").write_text(setting + "\n", "utf-8")
    done = check("net.py")
    assert done.exit_code == 2
    assert "modellint.toml" in done.output
    assert f"write '{right}'" in done.output


def test_backslash_in_the_option_is_an_error_too(folder: Path) -> None:
    (folder / "net.py").write_text(BAD, "utf-8")
    done = check("--exclude", r"third_party\lib", ".")
    assert done.exit_code == 2
    assert "write 'third_party/lib'" in done.output


def test_backslash_that_takes_a_meaning_is_a_pattern(folder: Path) -> None:
    (folder / "#net.py").write_text(BAD, "utf-8")
    (folder / "net.py").write_text(BAD, "utf-8")
    (folder / "modellint.toml").write_text(r"exclude = ['\#net.py']", "utf-8")
    assert check(".").stdout.count("REG001") == 1


def test_folders_between_which_no_path_leads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where they are on two drives."""

    def relpath(path: str | os.PathLike[str], start: str | os.PathLike[str] = os.curdir) -> str:
        raise ValueError(f"path is on mount 'D:', start on mount 'C:': {path}, {start}")

    (folder / "net.py").write_text(BAD, "utf-8")
    (folder / ".gitignore").write_text("other\n", "utf-8")
    monkeypatch.setattr(os.path, "relpath", relpath)
    assert check("--exclude", "build", ".").stdout.count("REG001") == 1
    assert check("--baseline", "baseline.json", "--write-baseline", ".").exit_code == 0
    assert check("--baseline", "baseline.json", ".").exit_code == 0

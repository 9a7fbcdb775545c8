"""What is asked for and not checked is told, and is no success."""

from __future__ import annotations

import json
import os
import shlex
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)
CLEAN = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n"
NOTEBOOK = {
    "cells": [{"cell_type": "code", "source": ["x <- c(1)"]}],
    "metadata": {"kernelspec": {"language": "R"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "clean.py").write_text(CLEAN, "utf-8")
    (tmp_path / "book.ipynb").write_text(json.dumps(NOTEBOOK), "utf-8")
    return tmp_path


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def is_refused(done: Result, told: str) -> bool:
    return done.exit_code == 2 and told in done.stderr and "passed" not in done.stdout


def test_what_else_is_named_is_checked_all_the_same(project: Path) -> None:
    (project / "net.py").write_text(BAD, "utf-8")
    done = run("check", "net.py", "book.ipynb", "nowhere.py", "--output-format", "json")
    assert [one["code"] for one in json.loads(done.stdout)] == ["REG001"]
    assert is_refused(done, "nowhere.py: no such file")
    assert is_refused(
        run("check", "clean.py", "book.ipynb"), "book.ipynb: not checked: the cells of this notebook are in R"
    )


def test_a_notebook_that_is_found(project: Path) -> None:
    assert run("check").stderr == ""
    (project / "pyproject.toml").write_text("[tool.modellint]\nexclude = ['*.ipynb']\n", "utf-8")
    assert run("check").stderr == ""
    (project / "clean.py").unlink()
    assert is_refused(run("check"), "nothing was checked")


@pytest.mark.parametrize("name", ["model.txt", "settings.toml", "weights.pt", "script"])
def test_no_python_by_its_name(name: str, project: Path) -> None:
    (project / name).write_text(BAD, "utf-8")
    done = run("check", name)
    assert is_refused(done, f"{name}: not checked")
    # The way out that is told is one.
    command = shlex.split(done.stderr.rpartition("modellint ")[2].partition("<")[0])
    assert "REG001" in run(*command, stdin=BAD).stdout


@pytest.mark.parametrize(
    "name, first",
    [
        ("stub.pyi", ""),
        ("window.pyw", ""),
        ("tool", "#!/usr/bin/env python3\n"),
        ("tool.in", "#! /opt/python3.12 -I\n"),
    ],
)
def test_python_by_its_name_or_first_line(name: str, first: str, project: Path) -> None:
    (project / name).write_text(first + BAD, "utf-8")
    done = run("check", name)
    assert (done.exit_code, "REG001" in done.stdout, done.stderr) == (1, True, "")


def test_a_saved_model_leads_to_verify(project: Path) -> None:
    (project / "Net.mlpackage").mkdir()
    assert is_refused(run("check", "Net.mlpackage"), "modellint verify Net.mlpackage --reference")


def test_what_is_no_regular_file(project: Path) -> None:
    os.mkfifo("pipe.py")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.py")
    for name in ("pipe.py", "socket.py", "/dev/zero", "/dev/null"):
        assert is_refused(run("check", name), f"{name}: not checked: it is no regular file")
    assert run("check").exit_code == 0


def test_links_that_lead_nowhere(project: Path) -> None:
    (project / "itself.py").symlink_to("itself.py")
    (project / "lost.py").symlink_to("nowhere.py")
    (project / "folder").symlink_to("folder")
    (project / "again").symlink_to(".")
    assert run("check").exit_code == 0
    assert is_refused(run("check", "itself.py"), "itself.py: cannot be read")
    assert is_refused(run("check", "lost.py"), "lost.py: a symbolic link to nowhere.py, which is not there")
    assert is_refused(run("check", "folder"), "folder: cannot be read")


def test_a_folder_that_cannot_be_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dark = project / "dark"
    dark.mkdir()
    listed = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == dark:
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert is_refused(run("check"), "dark: cannot be read: Permission denied")
    assert is_refused(run("check", "dark"), "dark: cannot be read: Permission denied")


def test_an_unreadable_file_is_told_though_its_finding_is_ignored(project: Path) -> None:
    (project / "latin.py").write_bytes(b'x = "\xe9"\n')
    assert run("check", "--select", "REG").exit_code == 1
    done = run("check", "--ignore", "LNT002")
    assert done.exit_code == 0
    assert "latin.py: not valid utf-8" in done.stderr
    assert "All checks passed!" not in done.stdout
    for options in (("latin.py",), ("latin.py", "--diff"), ("-",)):
        assert is_refused(run("check", *options, "--ignore", "LNT002", stdin=b"\xe9"), "nothing was checked")


def test_the_same_in_several_processes(project: Path) -> None:
    for number in range(60):
        (project / f"m{number}.py").write_bytes(b"\xe9" if number % 2 else b"")
    done = run("check", "--ignore", "LNT002", "--jobs", "2", "--no-cache")
    assert (done.exit_code, done.stderr.count("not checked, though")) == (0, 30)


def test_a_folder_that_is_named_is_walked_though_it_is_excluded(project: Path) -> None:
    for folder in ("made", "made/inner", "made/kept"):
        (project / folder).mkdir()
        (project / folder / "net.py").write_text(BAD, "utf-8")
    for patterns in (["made"], ["made/"], ["made/*"], ["made/**"], ["/made"]):
        (project / "modellint.toml").write_text(f"exclude = {patterns}\n", "utf-8")
        assert run("check").exit_code == 0
        assert run("check", "made", "-q").stdout.count("REG001") == 3
        assert run("check", "made/inner", "-q").stdout.count("REG001") == 1
        done = run("check", "--force-exclude", "made/inner")
        assert (done.exit_code, done.stdout) == (0, "")
        assert "nothing was checked" in done.stderr
    (project / "modellint.toml").write_text("exclude = ['made', 'inner']\n", "utf-8")
    assert run("check", "made", "-q").stdout.count("REG001") == 2
    assert is_refused(run("check", "made", "--isolated", "--select", ""), "no rule")
    (project / "modellint.toml").write_text("", "utf-8")
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("made/\n!\n", "utf-8")
    assert run("check").exit_code == 0
    assert run("check", "made", "-q").stdout.count("REG001") == 3


def test_nothing_to_check(project: Path) -> None:
    (project / "empty").mkdir()
    (project / "empty" / "notes.txt").write_text("", "utf-8")
    for options in ((), ("--force-exclude",), ("--output-format", "json"), ("--diff",)):
        assert is_refused(
            run("check", "empty", *options), "nothing was checked: there are no Python files or notebooks in empty"
        )
    (project / "modellint.toml").write_text("exclude = ['clean.py', 'book.ipynb']\n", "utf-8")
    assert is_refused(run("check"), "`exclude`")
    done = run("check", "--force-exclude", "clean.py", "--output-format", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    done = run("check", "--force-exclude", "-", "--stdin-filename", "clean.py", "--fix", stdin=BAD)
    assert (done.exit_code, done.stdout) == (0, BAD)
    assert "nothing was checked" in done.stderr


def test_names_that_are_no_text(project: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.py")
    (project / name).write_text(BAD, "utf-8")
    (project / "a\nb.py").write_text(BAD, "utf-8")
    for _ in range(2):
        found = json.loads(run("check", "--output-format", "json").stdout)
        assert sorted(one["filename"] for one in found) == [str(project / "a\nb.py"), str(project / name)]
    assert run("check", "--fix").exit_code == 0
    assert "ModuleList" in (project / name).read_text("utf-8")


def test_a_file_that_is_too_large(project: Path) -> None:
    with (project / "large.py").open("wb") as file:
        file.truncate(300 * 1024**2)
    done = run("check", "large.py")
    assert (done.exit_code, "LNT002 not read: it holds 314.6 MB" in done.stdout) == (1, True)


def test_requests_that_mean_nothing(project: Path) -> None:
    for arguments, told in (
        (["check", ""], "a target is empty"),
        (["check", "clean.py", ""], "a target is empty"),
        (["check", "clean.py", "--stdin-filename", "x.py"], "--stdin-filename needs"),
        (["check", "clean.py", "--output-file", "clean.py"], "is one of the files that are checked"),
        (["check", "clean.py:Net", "--timeout", "nan"], "nan is no time"),
        (["check", "clean.py:Net", "--seed", "9" * 30], "not in the range"),
        (["check", "clean.py:Net", "--memory", "9" * 30], "not in the range"),
        (["check", "clean.py:Net", "--input", "9" * 30 + "x4"], "no tensor is as large as that"),
        (["check", "clean.py", "--cache-dir", ""], "an empty name"),
        (["check", "clean.py", "--output-file", ""], "an empty name"),
        (["check", "clean.py", "--output-file", "none/found.txt"], "there is no folder"),
        (["check", "clean.py", "--output-file", "."], "is a folder"),
        (["check", "clean.py", "--plugin", ""], "a plug-in without a name"),
        (["check", "-", "--stdin-filename", ""], "an empty name"),
        (["config", ""], "an empty name"),
        (["check", "a" * 5000], "cannot be read: File name too long"),
        (["export", "clean.py:Net", "-o", "Net.mlpackage", "--labels", "/dev/zero"], "no regular file"),
    ):
        assert is_refused(run(*arguments), told)
    assert (project / "clean.py").read_text("utf-8") == CLEAN


def test_pipes_in_the_place_of_files_that_are_looked_for(project: Path) -> None:
    for name in (".gitignore", "base.py", "modellint.toml"):
        os.mkfifo(name)
    (project / "net.py").write_text("from base import Base\n\n\nclass Net(Base):\n    pass\n", "utf-8")
    assert run("check").exit_code == 0


def test_a_pipe_beside_a_finding_whose_users_are_looked_for(project: Path) -> None:
    os.mkfifo("pipe.py")
    os.mkfifo("pipe.toml")
    (project / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        if x.sum() > 0:\n            return x\n        return -x\n",
        "utf-8",
    )
    done = run("check", "net.py")
    assert (done.exit_code, "FLW001" in done.stdout) == (1, True)


def test_a_folder_that_holds_something_is_no_cache(project: Path) -> None:
    assert run("check", "--cache-dir", ".").exit_code == 0
    assert not (project / ".gitignore").exists()
    assert run("check", "--cache-dir", "cache").exit_code == 0
    assert (project / "cache" / ".gitignore").read_text("utf-8") == "*\n"


@pytest.mark.parametrize(
    "files, severity",
    [
        (
            {
                "net.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
            },
            "info",
        ),
        ({"net.py": "import old\n\n\nclass Net:\n    def forward(self, x):\n        return x\n"}, "error"),
        (
            {"net.py": "from .tools import f\n\n\ndef forward(x):\n    return x\n", "tools.py": "from .old import f\n"},
            "error",
        ),
        ({"net.py": "def forward(x):\n    return x\n", "tools.py": "from .old import f\n"}, "info"),
        ({"net.py": "x = 1\n"}, "error"),
    ],
)
def test_a_file_that_is_no_python_and_that_no_model_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], severity: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "old.py").write_text("import torch\n\nprint torch.ones(1).cuda(async=True)\n", "utf-8")
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    (finding,) = json.loads(run("check", "--output-format", "json", "old.py").stdout)
    assert (finding["code"], finding["severity"]) == ("LNT002", severity)
    assert finding["message"].endswith("no file with a model imports this one") is (severity == "info")


def test_a_model_that_is_no_python_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name in ("old", "new"):
        line = "print x" if name == "old" else "print(x)"
        text = f"from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        {line}\n"
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    (finding,) = json.loads(run("check", "--output-format", "json", "--select", "LNT", "old.py").stdout)
    assert (finding["code"], finding["severity"]) == ("LNT002", "error")

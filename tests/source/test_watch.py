"""``check --watch``, with a stand-in for what tells of changes: what is checked when, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text("import torch\n", "utf-8")
    return tmp_path


def watch(monkeypatch: pytest.MonkeyPatch, edits: list[Callable[[], Path]], *arguments: str) -> Result:
    """A run during which files are edited, one after another, and which is interrupted then."""

    def changes(
        *folders: Path, watch_filter: Callable[[object, str], bool], **_: Any
    ) -> Iterator[set[tuple[int, str]]]:
        yield set()
        yield set()
        for edit in edits:
            path = str(edit())
            assert any(Path(path).is_relative_to(folder) for folder in folders)
            yield {(1, path)} if watch_filter(1, path) else set()
        raise KeyboardInterrupt

    module = ModuleType("watchfiles")
    module.watch = changes  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "watchfiles", module)
    return CliRunner().invoke(cli, ["check", "--watch", "--no-cache", "--output-format", "concise", *arguments])


def write(path: Path, text: str) -> Callable[[], Path]:
    def edit() -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return edit


def test_a_change_is_checked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = watch(
        monkeypatch,
        [
            write(project / "net.py", BAD),
            write(project / "notes.txt", "of no matter"),
            write(project / ".modellint_cache" / "net.py", BAD),
            write(project / "modellint.toml", 'ignore = ["REG001"]'),
            write(project / "modellint.toml", "unknown = 1"),
            write(project / "modellint.toml", ""),
        ],
    )
    assert done.exit_code == 130
    runs = [line.split(":")[0] for line in done.stdout.splitlines() if "REG001" in line or "passed" in line]
    assert runs == ["All checks passed!", "net.py", "All checks passed!", "net.py"]
    assert done.stderr.count("watching for changes") == 5
    assert done.stderr.count("unknown key 'unknown'") == 1
    # Nothing is cleared in a pipe.
    assert "\x1b" not in done.output


def test_a_file_is_watched_for_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = watch(monkeypatch, [write(project / "other.py", BAD), write(project / "net.py", BAD)], "net.py", "-q")
    assert done.exit_code == 130
    assert done.stdout.count("REG001") == 1
    assert done.stderr == "interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone"], "no such file or folder"),
        (["--select", "XYZ"], "unknown rule code"),
        (["--fix"], "--watch and --fix do not go together"),
        (["-"], "--watch does not go with standard input"),
    ],
)
def test_a_wrong_request_ends_it_at_once(monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    done = watch(monkeypatch, [], *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_what_it_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    done = CliRunner().invoke(cli, ["check", "--watch"])
    assert done.exit_code == 2
    assert "pip install 'modellint[watch]'" in done.stderr

"""``check --cache-live``: a live target is not run again while all that its result was made from is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from modellint.cli import cli

MODEL = """\
from pathlib import Path

import torch
from torch import nn

try:
    from fast import twice
except ImportError:
    from slow import twice


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        with (Path(__file__).parent / "built.txt").open("a") as stream:
            stream.write("x")
        self.layers = [nn.Linear(3, 3)]

    def forward(self, x):
        return twice(self.layers[0](x))
"""
EARLIER = "the result of an earlier run (--cache-live)"


def is_run(folder: Path, *words: str) -> bool:
    """Whether a check builds the model; what it prints is the same as without the cache."""
    command = ["check", "net.py:Net", "--output-format", "concise", *(words or ("--input", "2x3"))]
    built = folder / "built.txt"
    before = built.stat().st_size if built.exists() else 0
    done = CliRunner().invoke(cli, [*command, "--cache-live"])
    was_built = (built.stat().st_size if built.exists() else 0) > before
    assert (EARLIER in done.stderr) is not was_built, done.output
    assert done.stdout == CliRunner().invoke(cli, [*command, "--no-cache"]).stdout
    return was_built


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL, "utf-8")
    (tmp_path / "slow.py").write_text("def twice(x):\n    return x + x\n", "utf-8")
    assert is_run(tmp_path)
    assert not is_run(tmp_path)
    return tmp_path


def test_code_that_is_imported_is_asked_for(project: Path) -> None:
    (project / "notes.txt").write_text("nothing of this is imported", "utf-8")
    assert not is_run(project)
    (project / "slow.py").write_text("def twice(x):\n    return x.permute(1, 0).view(-1)\n", "utf-8")
    assert is_run(project)
    # A module that was not there comes first where it is.
    (project / "fast.py").write_text("def twice(x):\n    return 2 * x\n", "utf-8")
    assert is_run(project)
    assert not is_run(project)


def test_inputs_and_settings_are_asked_for(project: Path) -> None:
    assert is_run(project, "--input", "4x3")
    assert is_run(project, "--input", "2x3", "--seed", "1")
    np.save(project / "x.npy", np.ones((2, 3), np.float32))
    assert is_run(project, "--input", "x=@x.npy")
    np.save(project / "x.npy", np.ones((5, 3), np.float32))
    assert is_run(project, "--input", "x=@x.npy")


def test_what_came_to_no_end_is_not_kept(project: Path) -> None:
    waits = MODEL.replace("super().__init__()", "super().__init__(); import time; time.sleep(60)")
    (project / "net.py").write_text(waits, "utf-8")
    for _ in range(2):
        done = CliRunner().invoke(cli, ["check", "net.py:Net", "--input", "2x3", "--timeout", "4", "--cache-live"])
        assert "LNT003" in done.output
        assert EARLIER not in done.output


def test_it_needs_a_live_target_and_a_cache() -> None:
    for words, reason in (
        (["--cache-live"], "--cache-live needs a live target (FILE:NAME)"),
        (["net.py:Net", "--cache-live", "--no-cache"], "--cache-live and --no-cache do not go together"),
    ):
        done = CliRunner().invoke(cli, ["check", *words])
        assert (done.exit_code, reason in done.output) == (2, True), done.output

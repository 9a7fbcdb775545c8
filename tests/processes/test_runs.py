"""Runs of the command line in processes of their own, beside each other and to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    return tmp_path


def test_same_bytes_for_any_run(project: Path) -> None:
    for number in range(40):
        (project / f"part{number:02}.py").write_text(BAD.replace("Net", f"Net{number}"), "utf-8")
    outputs = set()
    for jobs, seed, locale, cache in (("1", "0", "C", []), ("4", "7", "C.UTF-8", []), ("3", "1", "C", ["--no-cache"])):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale}
        done = subprocess.run(
            [sys.executable, "-m", "modellint", "check", "--output-format", "json", "--jobs", jobs, *cache],
            capture_output=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 1, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_what_is_to_run_at_the_end_runs(project: Path) -> None:
    code = "import atexit, sys\nfrom modellint.cli import main\natexit.register(print, 'ended')\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code, "check", "--no-cache"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.endswith("the `--fix` option.\nended\n")

"""`modellint export` where nothing is written: how to go on, tried before it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODELS = """
import torch
import torch.nn.functional as F
from torch import nn


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return F.dropout(self.fc(x), 0.5)
"""
COUNTING = """
import torch
from torch import nn


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = self.fc(x)
        self.mean = 0.9 * self.mean + 0.1 * y.mean(0)
        return y - self.mean
"""
SCALING = """
from torch import nn


class Scaling(nn.Module):
    def forward(self, x):
        scale = x.abs().max().item()
        return x / scale if x.sum() > 0 else x - scale
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modellint", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("name", "source", "codes"), [("Dropping", MODELS, "MOD002"), ("Counting", COUNTING, "MUT008, MUT009")]
)
def test_fix_in_source_is_tried_and_holds(name: str, source: str, codes: str, tmp_path: Path) -> None:
    """The file stays as it is; whoever does what the last line says gets a package."""
    (tmp_path / "net.py").write_text(source)
    words = ("export", f"net.py:{name}", "--input", "2x4", "-o", "Net.mlpackage")
    refused = run(tmp_path, *words)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    way = f"go on with modellint check --fix net.py ({codes}), then export again: tried, it agrees"
    assert refused.stdout.splitlines()[-1] == way
    assert (tmp_path / "net.py").read_text() == source
    assert {one.name for one in tmp_path.iterdir()} - {"__pycache__"} == {"net.py"}
    # What check says is what export says: the same place, and the same fix.
    assert "help: " in refused.stdout
    run(tmp_path, "check", "--fix", "net.py")
    written = run(tmp_path, *words)
    assert written.returncode == 0, written.stdout + written.stderr
    assert (tmp_path / "Net.mlpackage").is_dir()


def test_what_no_fix_answers_names_its_page(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCALING)
    refused = run(tmp_path, "export", "net.py:Scaling", "--input", "2x4", "-o", "Net.mlpackage")
    assert refused.returncode == 1
    last = refused.stdout.splitlines()[-1]
    assert last.startswith("go on with another way to write it")
    assert "FLW001 at net.py:8" in last
    assert "modellint rule FLW002" in last
    assert "help: Where the number only meets tensors, leave the call out" in refused.stdout


def test_running_statistic_is_no_bare_success(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(COUNTING)
    done = run(tmp_path, "check", "net.py:Counting", "--input", "2x4")
    assert "Core ML: converts, and computes something else: MUT008 at net.py:14" in done.stdout

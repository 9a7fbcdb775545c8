"""``pytest --modellint`` makes tests of the models that the settings list."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.fmod(x, 2.0)


class Clean(nn.Module):
    def forward(self, x):
        return x + 1
"""
SETTINGS = """\
select = ["OPS", "SHP", "LNT"]

[[models]]
target = "net.py:Net"
inputs = ["1x4"]

[[models]]
target = "net.py:Clean"
inputs = ["1x4"]

[[models]]
target = "net.py:Clean"
inputs = ["2x4"]
"""


def test_models_are_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    Path("net.py").write_text(NET, "utf-8")
    Path("modellint.toml").write_text(SETTINGS, "utf-8")
    is_installed = any(entry.name == "modellint" for entry in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if is_installed else ["-p", "modellint.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-v", "--modellint"]
    done = subprocess.run([*command, "-k", "2x4 or not Clean"], capture_output=True, text=True)
    assert "net.py::modellint[Net] FAILED" in done.stdout, done.stdout + done.stderr
    assert "net.py::modellint[Clean-2x4] PASSED" in done.stdout
    assert "Clean-1x4" not in done.stdout
    assert "confirmed by: net.py:Net" in done.stdout
    assert "Core ML: converts with modellint export" in done.stdout

"""What is checked, and what is said, where what is installed does not go together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8)]

    def forward(self, x):
        return {"y": torch.fmod(self.layers[0](x), 0.5)}
"""
ABSENT = """\
import importlib.metadata
import importlib.machinery

find, version = importlib.machinery.PathFinder.find_spec, importlib.metadata.version


def find_spec(name, path=None, target=None):
    return None if name == "coremltools" else find(name, path, target)


def installed(name):
    if name == "coremltools":
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)


importlib.machinery.PathFinder.find_spec = find_spec
importlib.metadata.version = installed
"""
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
ENVIRONMENTS = {
    "absent": (
        {"sitecustomize.py": ABSENT},
        "Core ML: not tried · coremltools is not installed: pip install 'modellint[coreml]'",
    ),
    "broken": (
        {"coremltools/__init__.py": "raise AttributeError('module numpy has no attribute bool8')"},
        "Core ML: not tried · coremltools 9.0 cannot be imported: AttributeError: module numpy has no attribute bool8",
    ),
    "unknown": (
        {
            "coremltools/__init__.py": "__version__ = '99.1'",
            "coremltools-99.1.dist-info/METADATA": METADATA.format("coremltools", "99.1"),
        },
        "Core ML: not tried · coremltools 99.1 cannot be imported: AttributeError: module 'coremltools' has no attribute 'converters'",
    ),
    "new numpy": (
        {"numpy-2.4.1.dist-info/METADATA": METADATA.format("numpy", "2.4.1")},
        "Core ML: converts with modellint export (supplies aten::fmod",
    ),
}


@pytest.fixture(params=list(ENVIRONMENTS))
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, str]:
    """Files that stand before what is installed, and the line that is wanted."""
    files, line = ENVIRONMENTS[request.param]
    for name, text in files.items():
        path = tmp_path / "first" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "modellint.toml").write_text("")
    (tmp_path / "project" / "model.py").write_text(MODEL)
    return request.param, tmp_path, line


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    before = [str(folder / "first"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "modellint", *arguments],
        cwd=folder / "project",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(before)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_what_needs_no_coremltools_works(environment: tuple[str, Path, str]) -> None:
    name, folder, line = environment
    check = ["check", "--no-cache", "model.py:Net", "--input", "2x8"]
    done = run(folder, *check, "--output-format", "concise")
    assert done.returncode == 1, done.stderr
    assert line in done.stdout.splitlines()[-1]
    report = json.loads(run(folder, *check, "--output-format", "report").stdout)
    codes = [one["code"] for one in report["diagnostics"]]
    assert {"REG001", "SIG001", "OPS001"} <= set(codes)
    assert report["targets"][0]["convertible"] is (False if name == "new numpy" else None)
    assert (codes[0] == "ENV001") == (name == "new numpy")


def test_tables_need_no_coremltools(environment: tuple[str, Path, str]) -> None:
    _, folder, _ = environment
    assert "no converter" in run(folder, "ops", "fmod").stdout
    shapes = run(folder, "shapes", "model.py:Net", "--input", "2x8")
    assert shapes.returncode == 0
    assert "layers[0]" in shapes.stdout

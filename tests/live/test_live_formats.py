"""Live targets in every format: findings with the modules that show them, the verdict, and on the page what is known of the model."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from modellint.cli import cli

MODEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout()

    def forward(self, x):
        return self.fc(x) + self.drop(x)


def make():
    model = nn.Sequential(Block(), Block())
    model[1].register_buffer("bad", torch.full((3,), float("nan")))
    return model, (torch.ones(1, 4),)
"""
PLUGIN = """\
from modellint.authoring import LiveModel, Rule, Severity


class NonFinite(Rule):
    code, name, severity, live_needs = "XYZ001", "non-finite", Severity.WARNING, "values"

    def live(self, subject: LiveModel):
        for state in subject.state:
            if not state.tensor.isfinite().all():
                yield subject.finding(self, "100% of it, is NaN", at=None, modules=["1"])
"""


def test_live_findings_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    (tmp_path / "model.py").write_text(MODEL, "utf-8")
    (tmp_path / "plugin.py").write_text(PLUGIN, "utf-8")
    files = ["json-lines", "github", "gitlab", "junit", "sarif", "pylint", "grouped", "html"]
    outputs = [option for name in files for option in ("--output-format", f"{name}=out.{name}")]
    command = ["check", "--no-cache", "model.py:make", "--plugin", "plugin.py", "--select", "XYZ,OPS", *outputs]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1, done.output
    text = {name: (tmp_path / f"out.{name}").read_text("utf-8") for name in files}

    entry = json.loads(text["json-lines"])
    assert (entry["code"], entry["target"], entry["modules"], entry["filename"]) == (
        "XYZ001", "model.py:make", ["1"], None,
    )  # fmt: skip
    # Without a line of its own a finding stands in the target's file.
    assert text["github"] == (
        "::warning title=modellint XYZ001 (non-finite),file=model.py::100%25 of it, is NaN%0A(model.py:make, 1)\n"
    )
    (issue,) = json.loads(text["gitlab"])
    assert issue["location"] == {"path": "model.py", "lines": {"begin": 1}}
    assert text["pylint"] == "model.py:1:0: XYZ001: 100% of it, is NaN (non-finite)\n"
    assert text["grouped"].startswith("model.py:make:\n    XYZ001 100% of it, is NaN\n")
    assert "Core ML: will convert" in text["grouped"]

    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(text["junit"])}
    assert suites["model.py"].get("failures") == "0"
    assert suites["model.py:make"].get("failures") == "1"
    assert "Core ML: will convert" in (suites["model.py:make"].findtext("system-out") or "")

    (run,) = json.loads(text["sarif"])["runs"]
    (result,) = run["results"]
    assert result["properties"] == {
        "evidence": "live",
        "modules": ["1"],
        "operator": None,
        "targets": ["model.py:make"],
    }
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "model.py"
    assert place["logicalLocations"] == [{"fullyQualifiedName": "1", "kind": "module"}]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("Core ML, model.py:make: will convert")

    page = text["html"]
    for part in ("aten::linear", "Outputs in float32", "agrees with PyTorch", "memory of parameters and buffers"):
        assert part in page, part
    assert page.count("<code>fc</code>") == 2
    assert '<a href="#finding-1">1 finding</a>' in page
    assert "will convert · --frontend trace</p>" in page

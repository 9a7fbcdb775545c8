"""What runs in CI, run as its runner would: the steps of the action by the shell, with the runner's variables; the job for GitLab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

ROOT = Path(__file__).resolve().parent.parent.parent
BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
"""
CLEAN = BAD.replace("[nn.Linear(4, 4)]", "nn.ModuleList([nn.Linear(4, 4)])")


class Runner:
    """A runner of GitHub's, as far as a composite action needs one: expressions, steps, and the files that steps write to."""

    def __init__(self, folder: Path) -> None:
        self.action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
        self.workspace = folder / "workspace"
        self.summary = folder / "summary"
        self.output = folder / "output"
        self.temporary = folder / "temporary"
        for place in (self.workspace, self.temporary):
            place.mkdir()
        (self.workspace / "net.py").write_text(BAD, "utf-8")
        self.outputs: dict[str, dict[str, str]] = {}
        self.log = ""

    def run(self, **inputs: str) -> int:
        """Run the steps, and say with which status the first that fails ends."""
        self.log = ""
        self.summary.write_text("", "utf-8")
        values = {name: spec["default"] for name, spec in self.action["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        for step in self.action["runs"]["steps"]:
            if "if" in step and not self.holds(step["if"], values):
                continue
            status = self.step(step, values)
            if status:
                return status
        return 0

    def holds(self, condition: str, inputs: dict[str, str]) -> bool:
        match = re.fullmatch(r"inputs\.([\w-]+) == '(\w+)'", condition)
        assert match is not None, condition
        return inputs[match[1]] == match[2]

    def evaluated(self, text: str, inputs: dict[str, str]) -> str:
        def value(match: re.Match[str]) -> str:
            for part in match[1].split("||"):
                words = part.strip().split(".")
                match words:
                    case ["inputs", name]:
                        found = inputs[name]
                    case ["steps", step, "outputs", name]:
                        found = self.outputs.get(step, {}).get(name, "")
                    case _:
                        found = part.strip().strip("'")
                if found:
                    return found
            return ""

        return re.sub(r"\$\{\{ (.+?) \}\}", value, text)

    def step(self, step: dict[str, Any], inputs: dict[str, str]) -> int:
        assert step["shell"] == "bash"
        script = self.temporary / "step.sh"
        script.write_text(step["run"], "utf-8")
        self.output.write_text("", "utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI_"))}
        environment |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        }
        environment |= {name: self.evaluated(value, inputs) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.workspace / self.evaluated(step.get("working-directory", "."), inputs),
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.log += done.stdout
        lines = self.output.read_text("utf-8").splitlines()
        self.outputs[step["id"]] = dict(line.split("=", 1) for line in lines)
        return done.returncode

    @property
    def annotations(self) -> list[str]:
        """The commands that the runner obeys: those outside of what is stopped."""
        found, token = [], None
        for line in self.log.splitlines():
            if token is not None:
                token = None if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.startswith("::"):
                found.append(line)
        assert token is None
        return found


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_action_annotates_and_writes_sarif(runner: Runner) -> None:
    inner = runner.workspace / "inner"
    inner.mkdir()
    (runner.workspace / "net.py").rename(inner / "net.py")
    assert runner.run(install="false", working_directory="inner", sarif_file="found.sarif") == 1, runner.log
    (annotation,) = runner.annotations
    assert annotation.startswith("::error title=modellint REG001 (module-in-list),file=inner/net.py,line=7,")
    assert "--> net.py:7:9 (error)" in runner.log
    assert "net.py:7:9: REG001" in runner.summary.read_text("utf-8")
    assert runner.outputs["check"] == {"exit-code": "1", "sarif-file": "found.sarif"}
    log = json.loads((inner / "found.sarif").read_text("utf-8"))
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "inner/net.py"


def test_action_passes_and_fails_as_it_is_told(runner: Runner) -> None:
    assert runner.run(install="false", fail="false") == 0
    assert runner.outputs["check"]["exit-code"] == "1"
    assert runner.run(install="false", fail="false", targets="net.py\nnowhere.py\n") == 2
    assert any("not checked" in line for line in runner.annotations)
    options = {"arguments": "--ignore\nREG", "annotations": "false", "summary": "false"}
    assert runner.run(install="false", **options) == 0, runner.log
    assert (runner.annotations, runner.summary.read_text("utf-8")) == ([], "")


def test_action_obeys_nothing_that_is_checked(runner: Runner) -> None:
    (runner.workspace / "net.py").write_text(BAD.replace("nn.Linear", "\n::error::hello\n    # nn.Linear"), "utf-8")
    (runner.workspace / "$(touch here) `touch here`.py").write_text(BAD, "utf-8")
    assert runner.run(install="false", targets=".\n$(touch here) `touch here`.py") == 1, runner.log
    assert not any("hello" in line.partition("::error ")[0] for line in runner.annotations)
    assert all(line.startswith("::error title=modellint ") for line in runner.annotations)
    assert not (runner.workspace / "here").exists()


def test_action_installs_itself(runner: Runner) -> None:
    assert runner.run() == 1, runner.log
    program = Path(runner.outputs["install"]["program"])
    assert program.is_relative_to(runner.temporary)
    assert len(runner.annotations) == 1
    # Nothing but what the base of it needs comes along.
    assert not list(program.parent.parent.glob("lib/python*/site-packages/torch"))


def test_gitlab_job(tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text("utf-8"))["modellint"]
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI_"))}
    environment |= {**job["variables"], "CI_PROJECT_DIR": str(tmp_path)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", "\n".join(job["script"])],
            cwd=tmp_path,
            env=environment | variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    unset = run()
    assert unset.returncode != 0
    assert "say in MODELLINT_PACKAGE what pip is to install" in unset.stdout
    done = run(MODELLINT_PACKAGE=str(ROOT))
    assert done.returncode == 1, done.stdout
    assert "--> net.py:7:9 (error)" in done.stdout
    reports = job["artifacts"]["reports"]
    (entry,) = json.loads((tmp_path / reports["codequality"]).read_text("utf-8"))
    assert entry["location"] == {"path": "net.py", "lines": {"begin": 7, "end": 7}}
    assert JUnitXml.fromfile(str(tmp_path / reports["junit"])).failures == 1
    (tmp_path / "net.py").write_text(CLEAN, "utf-8")
    assert run(MODELLINT_PACKAGE=str(ROOT)).returncode == 0
    assert json.loads((tmp_path / reports["codequality"]).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", "action.yml"),
        ("gitlab-ci", "ci/gitlab.yml"),
        ("github-workflows", ".github/workflows/ci.yml"),
        ("github-workflows", ".github/workflows/macos.yml"),
    ],
)
def test_files_keep_to_the_schemas_of_who_reads_them(schema: str, file: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(ROOT / file)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout

"""The README's commands are what continuous integration runs, and the files beside it are in order."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from modellint.cli import cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def test_opens_with_title_and_two_commands() -> None:
    assert README.startswith("# modellint\n")
    first, second, *_ = COMMANDS
    assert first.count("\n") == second.count("\n") == 1
    assert "pip install . " in first
    assert "modellint check examples" in first
    assert "pip install -e '.[dev]'" in second
    assert "pytest" in second


def test_ci_runs_the_test_command_to_the_letter(tmp_path: Path) -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    (line,) = [line for line in script.splitlines() if line.startswith("sed ")]
    assert "source test-command.sh" in script
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    assert (tmp_path / "test-command.sh").read_text("utf-8") == COMMANDS[1]


def test_hooks_are_valid() -> None:
    hooks = loaded(".pre-commit-hooks.yaml")
    assert [hook["id"] for hook in hooks] == ["modellint", "modellint-fix"]
    for hook in hooks:
        assert hook["language"] == "python"
        assert hook["types_or"] == ["python", "jupyter"]
        assert hook["require_serial"] is True
        program, command, *options = hook["entry"].split()
        assert (program, command) == ("modellint", "check")
        assert "--force-exclude" in options
        assert ("--fix" in options) == (hook["id"] == "modellint-fix")
        check = cli.get_command(click.Context(cli), "check")
        assert check is not None
        known = {name for parameter in check.params for name in parameter.opts}
        assert set(options) <= known


def test_settings_of_the_documentation_are_accepted(tmp_path: Path) -> None:
    settings, ruff = re.findall(r"^```toml\n(.*?)^```$", SETTINGS, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings + "\n" + ruff, "utf-8")
    (tmp_path / "net.py").write_text("", "utf-8")
    done = CliRunner().invoke(cli, ["check", "--write-baseline", str(tmp_path)])
    assert done.exit_code == 0, done.output

    ours = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert tomllib.loads(ruff)["tool"]["ruff"]["lint"]["external"] == ours["tool"]["ruff"]["lint"]["external"]


def test_matrix_is_what_the_package_declares() -> None:
    matrix = loaded(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert matrix["python"] == declared


def test_own_configuration_is_valid() -> None:
    (local,) = loaded(".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff", "ruff-format", "mypy", "modellint"]

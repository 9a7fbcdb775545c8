"""What the repository says of itself is true: the README's table, the examples' fixed twins, the hooks."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def test_readme_table_is_current() -> None:
    make = runpy.run_path(str(ROOT / "docs" / "make.py"))
    assert make["readme"]() == (ROOT / "README.md").read_text("utf-8")


def test_readme_screen_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(cli, ["check", "--no-cache", "examples/stack.py", "examples/comma.py"])
    assert done.output.rstrip() in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", EXAMPLES)
def test_fixed_twin(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    shutil.copy(ROOT / "examples" / name, copy)
    runner = CliRunner()
    found = runner.invoke(cli, ["check", "--isolated", "--no-cache", str(copy)])
    assert found.exit_code == 1
    runner.invoke(cli, ["check", "--isolated", "--no-cache", "--fix", str(copy)])
    assert copy.read_bytes() == (ROOT / "examples" / "fixed" / name).read_bytes()
    clean = runner.invoke(cli, ["check", "--isolated", "--no-cache", str(copy)])
    assert clean.exit_code == 0


@pytest.mark.parametrize(
    ("options", "left"), [((), {"safe"}), (("--unsafe-fixes",), {"safe", "unsafe"})], ids=["safe", "unsafe"]
)
def test_nothing_that_can_be_fixed_is_left_in_the_examples(
    options: tuple[str, ...], left: set[str], tmp_path: Path
) -> None:
    copy = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    runner = CliRunner()
    common = ["check", "--isolated", "--no-cache", str(copy)]
    runner.invoke(cli, [*common, "--fix", *options])
    found = json.loads(runner.invoke(cli, [*common, "--output-format", "json"]).stdout)
    assert [one for one in found if one["fix"] and one["fix"]["applicability"] in left] == []
    assert runner.invoke(cli, [*common, "--diff", *options]).stdout == ""


def test_hooks_are_declared() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    assert re.findall(r"^- id: (\S+)$", text, re.MULTILINE) == ["modellint", "modellint-fix"]

"""What the repository says of itself is true: the examples' fixed twins, the hooks."""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


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


def modules() -> dict[str, Path]:
    """The files of the machine and of the rules, by the names that they are imported under."""
    files = {}
    for top in ("lint", "rules"):
        for path in (ROOT / top).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT / top).with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
    return files


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that a file imports, at any place and for whatever purpose."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_circle_of_imports() -> None:
    known = modules()
    graph = {name: {other for other in imported(path, known) if other in known} for name, path in known.items()}
    # A `CycleError` names the modules of a circle.
    TopologicalSorter(graph).prepare()


def test_no_folder_of_many_modules() -> None:
    counts: dict[Path, int] = {}
    for path in modules().values():
        if path.name != "__init__.py":
            counts[path.parent] = counts.get(path.parent, 0) + 1
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > 20} == {}

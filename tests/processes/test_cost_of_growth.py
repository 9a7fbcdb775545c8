"""The benchmark of how cost grows, on little work, writes its figures, its pictures and its page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "cost_of_growth.py"


@pytest.mark.skipif(sys.platform == "win32", reason="it counts the CPU time of children")
def test_figures_of_little_work(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("before\n<!-- generated -->\nold\n<!-- /generated -->\nbehind\n", "utf-8")
    command = [sys.executable, str(BENCHMARK), "files-again", "classes", "--part", "50", "--rounds", "1"]
    written = ["--json", "figures.json", "--plots", "plots", "--page", "page.md"]
    done = subprocess.run([*command, *written], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    again, classes = json.loads((tmp_path / "figures.json").read_text("utf-8"))["rows"]
    assert (again["name"], again["sizes"]) == ("files-again", [1, 2, 4, 8])
    assert (classes["name"], classes["sizes"]) == ("classes", [2, 4, 8, 16])
    assert min(*again["seconds"], *classes["seconds"]) > 0
    assert sorted(file.name for file in (tmp_path / "plots").iterdir()) == ["cost-classes.svg", "cost-files.svg"]
    page = (tmp_path / "page.md").read_text("utf-8")
    assert page.startswith("before\n<!-- generated -->\nTaken on ")
    assert done.stdout in page
    assert "](pictures/cost-classes.svg)\n" in page
    assert page.endswith("<!-- /generated -->\nbehind\n")


def test_rows_that_are_none_are_refused() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK), "lines"], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 2
    assert "no such rows: lines" in done.stderr

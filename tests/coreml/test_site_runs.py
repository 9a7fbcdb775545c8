"""The tutorial and the how-to pages, followed to the end in an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import ROOT, Block, blocks, follow, matches

from modellint.cli import cli

LAST_OF_TUTORIAL = "python -m pytest -q test_net.py"


@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("tutorial.md", 7),
        ("image-classifier.md", 2),
        ("language-model.md", 3),
        ("whisper.md", 1),
        ("stable-diffusion.md", 1),
        ("flexible-sizes.md", 4),
        ("without-a-mac.md", 5),
        ("sweep.md", 2),
    ],
)
def test_page_runs_as_it_says(page: str, commands: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow([block for block in blocks(page) if not block.text.startswith(f"$ {LAST_OF_TUTORIAL}")]) == commands


def test_test_of_the_tutorial_passes(tmp_path: Path) -> None:
    page = blocks("tutorial.md")
    assert [block for block in page if block.text.startswith(f"$ {LAST_OF_TUTORIAL}")]
    for block in page:
        if block.title:
            (tmp_path / block.title).write_text(block.text, "utf-8")
    fix = ["check", "--isolated", "--fix", "--unsafe-fixes", str(tmp_path / "net.py")]
    assert CliRunner().invoke(cli, fix).exit_code == 0
    done = subprocess.run([sys.executable, *LAST_OF_TUTORIAL.split()[1:]], cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout


def test_screen_of_the_readme_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text("utf-8")
    ((command, screen),) = re.findall(r"^```console\n\$ modellint (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    done = CliRunner().invoke(cli, command.split())
    assert matches(done.output, screen), done.output


def test_what_is_left_out_matches() -> None:
    assert matches("a\nb 1.5e-03\nc\n", "a\n…\nc\n")
    assert matches("a 1.25\n", "a 1.26\n")
    assert not matches("a\nb\n", "a\nc\n")
    assert Block("console", "", "$ modellint verify a.py:Net\nx\n").is_live

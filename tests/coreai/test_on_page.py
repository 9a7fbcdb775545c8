"""The page of Core AI, followed to the end in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks, follow

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")


def test_page_runs_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(blocks("coreai.md")) == 3

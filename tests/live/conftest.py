"""What several tests of live models ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from written import Load, written


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Import text as a module from a file in an empty project."""
    (tmp_path / "modellint.toml").write_text("")
    with written(tmp_path) as loaded:
        yield loaded

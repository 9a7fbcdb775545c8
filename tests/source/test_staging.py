"""What is made beside a target is there as a whole or not at all, and nothing else stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modellint import atomic_output as staging


def package(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "0").write_text(text)
    return path


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def test_what_is_made_is_moved(tmp_path: Path) -> None:
    target = tmp_path / "Net.mlpackage"
    with staging.staged(target) as folder:
        assert folder.parent == tmp_path
        staging.place(package(folder / "made", "new"), target, replace=False)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "new"


def test_nothing_stays_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), staging.staged(tmp_path / "Net.mlpackage") as folder:
        package(folder / "made", "new")
        _ = 1 / 0
    assert not names(tmp_path)


def test_what_is_there_is_kept_without_leave(tmp_path: Path) -> None:
    target = package(tmp_path / "Net.mlpackage", "old")
    with staging.staged(target) as folder, pytest.raises(staging.NotPlaced, match=r"Net\.mlpackage: cannot be written"):
        staging.place(package(folder / "made", "new"), target, replace=False)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "old"


@pytest.mark.parametrize("is_file", [False, True])
def test_what_is_there_is_replaced(tmp_path: Path, is_file: bool) -> None:
    target = tmp_path / "Net.mlpackage"
    if is_file:
        target.write_text("a file")
    else:
        package(target, "old")
    with staging.staged(target) as folder:
        staging.place(package(folder / "made", "new"), target, replace=True)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "new"


def test_a_replacement_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_exchanged", lambda one, other: False)
    target = package(tmp_path / "Net.mlpackage", "old")
    with staging.staged(target) as folder, pytest.raises(staging.NotPlaced):
        staging.place(folder / "not there", target, replace=True)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "old"


def test_systems_that_cannot_exchange_replace_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_exchanged", lambda one, other: False)
    target = package(tmp_path / "Net.mlpackage", "old")
    with staging.staged(target) as folder:
        staging.place(package(folder / "made", "new"), target, replace=True)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "new"


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "Net.mlpackage"
    with staging.staged(target) as folder:
        os.utime(folder / "lock", (0, 0))
        with staging.staged(target) as other:
            assert folder.is_dir()
            assert other != folder
    assert not names(tmp_path)


def test_what_was_taken_away_comes_back(tmp_path: Path) -> None:
    """Killed between the two steps of a replacement, where the system cannot exchange."""
    target = package(tmp_path / "Net.mlpackage", "old")
    folder = tmp_path / ".modellint-0"
    folder.mkdir()
    (folder / "target").write_text("Net.mlpackage")
    (folder / "lock").touch()
    target.rename(folder / "old")
    os.utime(folder / "lock", (0, 0))
    staging.clear(tmp_path)
    assert names(tmp_path) == {"Net.mlpackage"}
    assert (target / "0").read_text() == "old"

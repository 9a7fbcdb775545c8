"""What is made beside a target is there as a whole or not at all, and nothing else stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modellint import atomic_output as staging

WORK = """
import sys, time
from pathlib import Path
from modellint.atomic_output import place, staged

target = Path(sys.argv[1])
with staged(target) as folder:
    print("began", flush=True)
    made = folder / target.name
    made.mkdir()
    for count in range(30):
        (made / str(count)).write_text("new")
        time.sleep(0.01)
    place(made, target, replace=True)
    print("placed", flush=True)
    time.sleep(0.2)
"""


def package(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "0").write_text(text)
    return path


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def becomes(folder: Path, wanted: set[str]) -> bool:
    """Whether a folder holds this alone, before long."""
    for _ in range(200):
        if names(folder) == wanted:
            return True
        time.sleep(0.05)
    return False


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


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_leaves_the_old_or_the_new(tmp_path: Path, seed: int) -> None:
    target = package(tmp_path / "Net.mlpackage", "old")
    process = subprocess.Popen([sys.executable, "-c", WORK, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    time.sleep(random.Random(seed).uniform(0, 0.5))
    process.kill()
    process.communicate()
    assert becomes(tmp_path, {"Net.mlpackage"})
    held = {one.name: one.read_text() for one in target.iterdir()}
    assert held in ({"0": "old"}, {str(count): "new" for count in range(30)})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the one that waits in /proc")
def test_the_next_run_clears_up_what_nobody_did(tmp_path: Path) -> None:
    """Also where the one that waits is killed with it."""
    target = tmp_path / "Net.mlpackage"
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(target)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    (folder,) = tmp_path.iterdir()
    waiting = [
        int(pid.name)
        for pid in Path("/proc").iterdir()
        if pid.name.isdigit() and str(folder).encode() in _command_line(pid).split(b"\0")
    ]
    for pid in (*waiting, process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    assert names(tmp_path) == {folder.name} or not waiting
    os.utime(folder / "lock", (0, 0))
    staging.clear(tmp_path)
    assert not names(tmp_path)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


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

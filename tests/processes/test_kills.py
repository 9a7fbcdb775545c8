"""Files and packages whose writer is killed, or that several runs write at once: whole, the old or the new."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modellint import atomic_output
from modellint.atomic_write import replace_file

OLD, NEW = b"old\r\n" * 3, b"new\n" * 5
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def package(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "0").write_text(text)
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


WRITER = """
import sys
from pathlib import Path
from modellint.atomic_write import replace_file
folder, size = Path(sys.argv[1]), int(sys.argv[2])
paths = sorted(folder.glob("*.py"))
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    for path in paths:
        old = path.read_bytes()
        replace_file(path, old, (b"%08d\\n" % turn) * size)
"""


@posix
def test_a_run_killed_at_any_moment_leaves_every_file_whole(tmp_path: Path) -> None:
    size, kills = 3000, 20
    paths = [tmp_path / f"net{number}.py" for number in range(3)]
    for path in paths:
        path.write_bytes(b"00000000\n" * size)
    chance = random.Random(20)
    before = ""
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(size)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "ready\n"
            time.sleep(chance.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
        for path in paths:
            lines = path.read_bytes().splitlines()
            assert len(lines) == size
            assert len(set(lines)) == 1
        before += str(len(list(tmp_path.glob(".modellint-*"))))
    # The next run takes away what the killed ones left.
    assert set(before) <= {"0", "1"}
    replace_file(paths[0], paths[0].read_bytes(), NEW)
    assert sorted(tmp_path.iterdir()) == paths


@posix
def test_several_runs_at_once_do_not_take_each_others_files(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"net{number}.py").write_bytes(OLD)
    code = (
        "import sys\nfrom pathlib import Path\nfrom modellint.atomic_write import replace_file\n"
        "path = Path(sys.argv[1])\n"
        "for turn in range(150):\n"
        "    replace_file(path, path.read_bytes(), b'%d' % turn)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / f"net{number}.py")]) for number in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"149"] * 3


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


def becomes(folder: Path, wanted: set[str]) -> bool:
    """Whether a folder holds this alone, before long."""
    for _ in range(200):
        if names(folder) == wanted:
            return True
        time.sleep(0.05)
    return False


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
    content = {path.name: path.read_text() for path in target.iterdir()}
    assert content in ({"0": "old"}, {str(count): "new" for count in range(30)})


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
    atomic_output.clear(tmp_path)
    assert not names(tmp_path)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""

"""A run that is ended from outside, or cannot say what it found: nothing is left, and the exit status tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n\n    def forward(self, x):\n        return x.view(-1)\n"
)
COMMANDS = (
    ["check", "net.py"],
    ["check", "net.py", "--output-format", "json"],
    ["check", "net.py", "--diff"],
    ["check", "-", "--fix"],
    ["rule", "REG001"],
    ["ops", "fmod"],
    ["config"],
    ["--help"],
    ["check", "--help"],
    ["--version"],
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    return tmp_path


def shell(folder: Path, *arguments: str, after: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a shell, with redirections behind it."""
    command = [sys.executable, "-m", "modellint", *arguments]
    return subprocess.run(
        ["bash", "-c", f'"$@" {after}', "bash", *command],
        cwd=folder,
        input=BAD,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written(arguments: list[str], project: Path) -> None:
    for after in (">/dev/full", ">&-"):
        done = shell(project, *arguments, after=after)
        assert done.returncode == 2
        assert done.stderr.startswith("error: the output cannot be written: ")
        assert done.stderr.count("\n") == 1
    assert shell(project, *arguments, after=">/dev/full 2>/dev/full").returncode == 2
    assert shell(project, *arguments, after=">&- 2>&- <&-").returncode == 2


def test_nothing_is_lost_where_nothing_is_printed(project: Path) -> None:
    assert shell(project, "check", "net.py", "-q", "--output-file", "found.txt", after=">&-").returncode == 1
    assert "REG001" in (project / "found.txt").read_text("utf-8")
    assert shell(project, "check", "net.py", after="2>&-").returncode == 1
    done = shell(project, "check", "-", after="<&-")
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "error")


@pytest.mark.parametrize("arguments", [["rule", "--all"], ["config"], ["check", "."]], ids=" ".join)
def test_a_reader_that_has_seen_enough(arguments: list[str], project: Path) -> None:
    for number in range(40):
        (project / f"m{number}.py").write_text(BAD * 20, "utf-8")
    done = shell(project, *arguments, after='| head -c 1; exit "${PIPESTATUS[0]}"')
    # All may be written before the reader ends.
    assert done.returncode in (141, 1 if arguments[0] == "check" else 0)
    assert done.stderr == ""
    done = shell(project, *arguments, after='| true; exit "${PIPESTATUS[0]}"')
    assert (done.returncode, done.stderr) == (141, "")


def begun(folder: Path, *arguments: str, ignoring: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """The command line, in a group of its own, which obeys signals whatever the tests were started with."""

    def settle() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "modellint", *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=settle,
    )


def is_empty(group: int) -> bool:
    """Whether no process of a group is left, before long."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def wait_for(one: Path) -> None:
    for _ in range(1000):
        if one.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{one} does not come")


@pytest.mark.parametrize("number, status", [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129), ("SIGKILL", -9)])
def test_workers_end_with_the_run(number: str, status: int, project: Path) -> None:
    for count in range(60):
        # Large enough to be at it still.
        (project / f"m{count}.py").write_text(BAD * 60, "utf-8")
    run = begun(project, "check", "--jobs", "2")
    wait_for(project / ".modellint_cache")
    os.kill(run.pid, getattr(signal, number))
    _, told = run.communicate(timeout=60)
    assert run.returncode == status
    assert told in (b"", b"interrupted\n")
    assert is_empty(run.pid)
    assert not list((project / ".modellint_cache").rglob("tmp*"))


def test_what_is_ignored_stays_ignored(project: Path) -> None:
    run = begun(project, "check", "-", ignoring=(signal.SIGHUP,))
    for _ in range(10):
        os.kill(run.pid, signal.SIGHUP)
        time.sleep(0.05)
    found, _ = run.communicate(BAD.encode(), timeout=60)
    assert (run.returncode, b"REG001" in found) == (1, True)


def test_a_defect_of_ours_is_one_line(project: Path) -> None:
    code = (
        "import modellint.run, modellint.cli\n"
        "def fail(*_): raise KeyError('lost')\n"
        "modellint.run.check_files = fail\n"
        "modellint.cli.main(['check', 'net.py'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: modellint itself failed: KeyError: 'lost' (")
    assert done.stderr.count("\n") == 1


def test_the_folder_is_gone(project: Path) -> None:
    done = shell(project, "check", after='; mkdir gone; cd gone; rmdir ../gone; "$@"')
    assert (done.returncode, done.stderr) == (2, "error: the folder that you are in is gone\n")

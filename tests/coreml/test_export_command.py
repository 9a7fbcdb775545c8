"""`modellint export`: what it says, how it exits, and what a kill leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch import nn

from modellint.cli import cli
from modellint.destinations.coreml.private.entry_points import ct

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).resolve().parent.parent.parent

MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(4, 3)

    def forward(self, image):
        return self.linear(self.conv(image).relu().mean((2, 3))).softmax(-1)


class Eigenvalues(nn.Module):
    def forward(self, x):
        return x + torch.linalg.eigvals(x @ x.mT).abs().sum()


class Branching(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


class Adding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


class Raising(nn.Module):
    def forward(self, x):
        raise RuntimeError("on purpose")
"""


EIGENVALUES = "        return x + torch.linalg.eigvals(x @ x.mT).abs().sum()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODELS)
    (tmp_path / "classes.txt").write_text("ant\nbee\ncat\n")
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modellint", "export", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def left(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()} - {"net.py", "classes.txt", "__pycache__"}


@pytest.mark.parametrize("name", ["README.md", "docs/export.md"])
def test_screen_is_real(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for numbers that depend on the machine."""
    text = (ROOT / name).read_text("utf-8")
    ((words, screen),) = re.findall(r"^```\n\$ modellint export (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    command = words.replace("Gate.mlpackage", str(folder / "Gate.mlpackage"))
    done = CliRunner().invoke(cli, ["export", *command.split()])
    assert done.exit_code == 0, done.output
    shown = [
        re.sub(r"\d+(\.\d+)?(e-\d+)?( dB| kB)", "N", line.replace(f"{folder}/", "")) for line in lines(done.stdout)
    ]
    assert shown == [re.sub(r"\d+(\.\d+)?(e-\d+)?( dB| kB)", "N", line) for line in lines(screen)]


def lines(screen: str) -> list[str]:
    return [re.sub(r"\d\.\de-\d\d", "N", line) for line in screen.splitlines()]


def test_snippets_of_the_documentation_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "export.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"model": nn.Conv2d(3, 2, 3), "folder": tmp_path / "packages"}
    for block in blocks:
        exec(block, names)
    assert names["result"].verification.ok


def test_summary(folder: Path) -> None:
    done = run(
        folder,
        "net.py:Net",
        *("--input", "1x3x8..16x8", "-o", "Net.mlpackage", "--deployment-target", "iOS16"),
        *("--image", "image:rgb,scale=1/255,bias=-0.4,-0.5,-0.6", "--labels", "classes.txt", "--author", "A. Uthor"),
        *("--input-description", "image=A photo", "--description", "Animals", "--model-version", "3"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Nothing that moves in a pipe.
    assert done.stderr == ""
    first, *rest = done.stdout.splitlines()
    assert first == "Net.mlpackage: exported, and agrees with PyTorch"
    rows = [line.split(maxsplit=1) for line in rest]
    assert ["route", "torch.jit.trace"] in rows
    assert ["target", "iOS16, computes in float16"] in rows
    assert ["input", "image  RGB  8..16x8  image  A photo"] in rows
    assert any(words[0] == "verified" and "float32" in words[1] and "float16" in words[1] for words in rows)
    assert any(words[0] == "size" for words in rows)
    assert left(folder) == {"Net.mlpackage"}
    loaded = ct.models.MLModel(str(folder / "Net.mlpackage"), skip_model_load=True)
    assert (loaded.author, loaded.short_description, loaded.version) == ("A. Uthor", "Animals", "3")
    again = run(folder, "net.py:Net", "--input", "1x3x8x8", "-o", "Net.mlpackage")
    assert again.returncode == 2
    assert "--force replaces it" in again.stderr


def test_states(folder: Path) -> None:
    words = ("net.py:Adding", "--input", "1x4", "-o", "Net.mlpackage", "--state")
    refused = run(folder, *words)
    assert refused.returncode == 2
    assert "states need iOS18, macOS15, watchOS11 or tvOS18, and the deployment target is iOS15" in refused.stderr
    done = run(folder, *words, "--deployment-target", "macOS15")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "state     total  float16  1x4" in done.stdout


def test_model_that_does_not_convert(folder: Path) -> None:
    done = run(folder, "net.py:Eigenvalues", "--input", "2x4", "-o", "Net.mlpackage", "--force")
    assert done.returncode == 1
    assert "OPS001" in done.stdout
    assert f"net.py:{MODELS.splitlines().index(EIGENVALUES) + 1}" in done.stdout
    assert "Net.mlpackage: the model does not convert" in done.stdout
    assert not left(folder)


def test_model_that_does_not_agree(folder: Path) -> None:
    words = ("net.py:Branching", "--input", "2x4:float32[0,1)", "-o", "Net.mlpackage", "--precision", "fp32")
    done = run(folder, *words)
    assert done.returncode == 1
    assert "Net.mlpackage: not exported: it differs from PyTorch (--force writes it)" in done.stdout
    assert not left(folder)
    forced = run(folder, *words, "--force")
    assert forced.returncode == 1
    assert "exported by force, though it differs from PyTorch" in forced.stdout
    assert left(folder) == {"Net.mlpackage"}


def test_model_that_does_not_run(folder: Path) -> None:
    done = run(folder, "net.py:Raising", "--input", "2x4", "-o", "Net.mlpackage")
    assert done.returncode == 1
    assert "LNT003" in done.stdout
    assert "on purpose" in done.stdout
    assert not left(folder)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("net.py:Net", "-o", "Net.mlpackage"), "give its inputs"),
        (("net.py:Net", "--input", "1x3x8x8"), "--output"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "Net.mlmodel"), "ends in .mlpackage"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "nowhere/Net.mlpackage"), "there is no folder"),
        (("net.py", "--input", "1x3x8x8", "-o", "Net.mlpackage"), "not a live target"),
        (("net.py:Nut", "--input", "1x3x8x8", "-o", "Net.mlpackage"), "Nut"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--labels", "none.txt"), "cannot be read"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--image", "x"), "the model's arguments are image"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--image", "image:cmyk"), "unknown layout 'cmyk'"),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--image", "image,scale=1/0"), "is no number"),
        (
            ("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--image", "image,scale=1,2,3"),
            "one scale for all",
        ),
        (("net.py:Net", "--input", "1x3x8x8", "-o", "N.mlpackage", "--input-description", "image"), "NAME=TEXT"),
    ],
)
def test_wrong_requests(folder: Path, words: tuple[str, ...], told: str) -> None:
    done = run(folder, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert not left(folder)


def started(folder: Path) -> subprocess.Popen[str]:
    """An export that is in full swing, over a package that is there."""
    package = folder / "Net.mlpackage"
    package.mkdir()
    (package / "old").touch()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "modellint", "export", "net.py:Net", "--input", "1x3x8x8"),
            "-o",
            package.name,
            "--force",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert seen(lambda: len(left(folder)) == 2)
    return process


def seen(what: object) -> bool:
    for _ in range(400):
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def is_whole(package: Path) -> bool:
    """Whether a package is the old one, or a new one."""
    if (package / "old").exists():
        return True
    return "image" in {one.name for one in ct.utils.load_spec(str(package)).description.input}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "after"),
    [(signal.SIGKILL, 0.5), (signal.SIGKILL, 3), (signal.SIGINT, 2), (signal.SIGTERM, 4)],
)
def test_killed_export_leaves_nothing(folder: Path, number: signal.Signals, after: float) -> None:
    process = started(folder)
    time.sleep(after)
    process.send_signal(number)
    process.communicate()
    assert seen(lambda: left(folder) == {"Net.mlpackage"}), left(folder)
    assert is_whole(folder / "Net.mlpackage")
    if process.returncode != 0:
        assert (
            process.returncode in {signal.SIGKILL: (-9,), signal.SIGINT: (130, -2), signal.SIGTERM: (143, -15)}[number]
        )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the worker in /proc")
def test_killed_worker_leaves_nothing(folder: Path) -> None:
    process = started(folder)

    def workers() -> list[int]:
        found = []
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    if (one / "stat").read_text().rpartition(")")[2].split()[1] == str(
                        process.pid
                    ) and b"session.worker" in (one / "cmdline").read_bytes():
                        found.append(int(one.name))
                except OSError:
                    continue
        return found

    assert seen(workers)
    time.sleep(1)
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "was killed by SIGKILL" in output
    assert left(folder) == {"Net.mlpackage"}
    assert (folder / "Net.mlpackage" / "old").exists()

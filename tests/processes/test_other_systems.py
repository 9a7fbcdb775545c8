"""What differs on macOS and Windows, as far as Linux can try it: encodings, how processes start, what a live target prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = '''\
# -*- coding: cp949 -*-
from torch import nn


class Net(nn.Module):
    """한글 설명."""

    def __init__(self):
        super().__init__()
        print("모델을 만듭니다")
        self.layers = [nn.Linear(4, 4)]  # 가나다
'''
LOCALES = {
    "korean code page": {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp949"},
    "no locale": {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
}
SPAWNED = """\
import multiprocessing
import sys

from modellint.cli import main

get_context = multiprocessing.get_context
multiprocessing.get_context = lambda method=None: get_context("spawn")
if __name__ == "__main__":
    main(sys.argv[1:])
"""


def run(folder: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "modellint", *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True)


@pytest.mark.parametrize("locale", LOCALES)
def test_files_in_cp949_are_shown_in_utf_8_and_fixed_in_cp949(locale: str, tmp_path: Path) -> None:
    for name, end in (("net.py", "\n"), ("windows.py", "\r\n")):
        (tmp_path / name).write_bytes(SOURCE.replace("\n", end).encode("cp949"))
    command = ("check", "--isolated", "--no-cache")
    shown = run(tmp_path, *command, "net.py", environment=LOCALES[locale])
    assert shown.returncode == 1
    assert "# 가나다" in shown.stdout.decode("utf-8")
    assert run(tmp_path, *command, "--fix", ".", environment=LOCALES[locale]).returncode == 0
    fixed = SOURCE.replace("[nn.Linear(4, 4)]", "nn.ModuleList([nn.Linear(4, 4)])")
    assert (tmp_path / "net.py").read_bytes() == fixed.encode("cp949")
    assert (tmp_path / "windows.py").read_bytes() == fixed.replace("\n", "\r\n").encode("cp949")


@pytest.mark.parametrize("locale", LOCALES)
def test_what_a_live_target_prints_is_read_whatever_the_locale(locale: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_bytes(SOURCE.encode("cp949"))
    done = run(tmp_path, "check", "--isolated", "--no-cache", "-v", "net.py:Net", environment=LOCALES[locale])
    assert "모델을 만듭니다" in done.stderr.decode("utf-8")
    assert "REG001" in done.stdout.decode("utf-8")
    assert "LNT003" not in done.stdout.decode("utf-8")


def test_korean_file_names(tmp_path: Path) -> None:
    folder = tmp_path / "모델"
    folder.mkdir()
    (folder / "신경망.py").write_text(SOURCE.replace("cp949", "utf-8"), "utf-8")
    done = run(tmp_path, "check", "--no-cache", "--isolated", "--output-format", "concise", ".")
    assert done.stdout.decode("utf-8").startswith("모델/신경망.py:11:9: REG001")


def test_spawned_processes_find_the_same(tmp_path: Path) -> None:
    (tmp_path / "spawned.py").write_text(SPAWNED, "utf-8")
    (tmp_path / "nets").mkdir()
    for number in range(40):
        (tmp_path / "nets" / f"net{number}.py").write_bytes(SOURCE.encode("cp949"))
    words = ["check", "--isolated", "--no-cache", "--output-format", "concise", "nets", "--jobs"]
    alone = run(tmp_path, *words, "1")
    done = subprocess.run([sys.executable, "spawned.py", *words, "2"], cwd=tmp_path, capture_output=True)
    assert done.stdout == alone.stdout
    assert done.stdout.count(b"REG001") == 40

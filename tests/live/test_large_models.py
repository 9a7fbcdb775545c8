"""A model of 7 billion parameters is checked without their memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DECODER = (Path(__file__).resolve().parent.parent.parent / "benchmarks" / "decoder.py").read_text("utf-8")
HIDDEN = DECODER.replace(
    "nn.ModuleList([Block(width, heads, inner) for _ in range(depth)])",
    "[Block(width, heads, inner) for _ in range(depth)]",
)

VALUES = '''\
"""XYZ001: every model that has values."""

from modellint.results.diagnostic import Severity
from modellint.rule import Rule


class HasValues(Rule):
    """A model with values."""

    code, name, severity, live_needs = "XYZ001", "has-values", Severity.INFO, "values"

    def live(self, subject):
        """Report the model."""
        yield subject.finding(self, "the model has values", at=None)
'''


@pytest.mark.parametrize("text", [DECODER, HIDDEN], ids=["registered", "hidden"])
def test_decoder(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "decoder.py").write_text(text, "utf-8")
    (tmp_path / "values.py").write_text(VALUES, "utf-8")
    command = [sys.executable, "-m", "modellint", "check", "decoder.py:Decoder", "--input", "ids=1x128:int64[0,32000)"]
    command += ["--select", "REG,SHP,LNT,XYZ", "--plugin", "values.py", "--output-format", "concise", "--no-cache"]
    with (tmp_path / "out").open("w+") as out:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        out.seek(0)
        printed = out.read()
    assert os.waitstatus_to_exitcode(status) == int(text is HIDDEN), printed
    assert ("REG001" in printed) == (text is HIDDEN)
    assert "LNT" not in printed
    assert "XYZ001" not in printed
    assert "note: decoder.py:Decoder: the parameters take 27.0 GB; they stay on the meta device" in printed
    # The most of any of its processes: kilobytes on Linux, bytes elsewhere.
    assert used.ru_maxrss * (1024 if sys.platform.startswith("linux") else 1) < 2e9


def test_a_small_model_gets_values(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "decoder.py").write_text(DECODER + "\n\ndef tiny():\n    return Decoder(8, 2, 16, 2, 32)\n", "utf-8")
    (tmp_path / "values.py").write_text(VALUES, "utf-8")
    command = [
        sys.executable,
        "-m",
        "modellint",
        "check",
        "decoder.py:tiny",
        "--plugin",
        "values.py",
        "--select",
        "XYZ",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "the model has values" in done.stdout, done.stderr

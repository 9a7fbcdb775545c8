"""What the command `modellint verify` prints and writes, and how it compares saved packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint.destinations.coreml.private.entry_points import ct, silence

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parent.parent.parent

MODEL = """\
import os

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).softmax(-1)


class Wrong(Net):
    def forward(self, x):
        y = self.linear(x)
        y[:, 0].mul_(2)
        return y.softmax(-1)


class Slow(nn.Module):
    def forward(self, x):
        while True:
            pass


class Flat(nn.Module):
    def forward(self, x):
        return torch.argmax(x * 2)


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("nothing there")


class Leaving(Net):
    def forward(self, x):
        if not torch.jit.is_tracing() and not x.any():
            os._exit(3)
        return super().forward(x)
"""


def row_of(word: str) -> int:
    return next(row for row, line in enumerate(MODEL.splitlines(), 1) if word in line)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modellint", "verify", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL, "utf-8")
    return tmp_path


def test_text_report(folder: Path) -> None:
    right = run(folder, "model.py:Net", "--input", "2x4")
    assert (right.returncode, right.stderr) == (0, "")
    assert "agrees with PyTorch" in right.stdout
    assert "float16" in right.stdout
    wrong = run(folder, "model.py:Wrong", "--input", "2x4", "--precision", "fp32")
    assert wrong.returncode == 1
    assert f"not in the program: aten::mul_ at model.py:{row_of('mul_')}" in wrong.stdout
    assert "differs from PyTorch" in wrong.stdout


def test_findings_that_execution_confirms(folder: Path) -> None:
    done = run(folder, "model.py:Flat", "--input", "2x4", "--precision", "fp32")
    assert done.returncode == 1
    assert "OPS006" in done.stdout
    assert "confirmed by execution" in done.stdout


def test_what_keeps_a_model_from_converting(folder: Path) -> None:
    done = run(folder, "model.py:Bessel", "--input", "2x4")
    assert done.returncode == 1
    assert "OPS001" in done.stdout
    assert f"model.py:{row_of('bessel')}:" in done.stdout
    assert "does not convert\n  torch.jit.trace: " in done.stdout
    page = run(folder, "model.py:Bessel", "--input", "2x4", "--output-format", "html").stdout
    assert "does not convert" in page
    assert "OPS001" in page


def test_model_that_does_not_run(folder: Path) -> None:
    done = run(folder, "model.py:Raising", "--input", "2x4")
    assert done.returncode == 1
    assert f"model.py:{row_of('raise ValueError')}:" in done.stdout
    assert "undecided (the model does not run: ValueError: nothing there)" in done.stdout


def test_what_is_known_when_the_process_ends_is_told(folder: Path) -> None:
    done = run(folder, "model.py:Leaving", "--input", "2x4", "--precision", "fp32", "--output-format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["verdict"] == "undecided"
    assert [one["label"] for one in found["cases"]] == ["the example", "random 1", "random 2", "random 3"]
    assert [one["code"] for one in found["diagnostics"]] == ["LNT003"]


def test_json_report(folder: Path) -> None:
    done = run(folder, "model.py:Wrong", "--input", "2x4", "--output-format", "json", "-o", "found.json")
    assert (done.returncode, done.stdout) == (1, "")
    found = json.loads((folder / "found.json").read_text("utf-8"))
    assert found["ok"] is False
    assert found["target"] == "model.py:Wrong"
    assert found["first_difference"]["lost"][0]["place"]["location"]["row"] == row_of("mul_")
    assert {"variable", "error", "half", "shape"} <= set(found["layers"][0])


def test_html_report_needs_nothing_else(folder: Path) -> None:
    done = run(folder, "model.py:Wrong", "--input", "2x4", "--output-format", "html", "-o", "found.html")
    assert done.returncode == 1
    page = (folder / "found.html").read_text("utf-8")
    assert "<svg" in page
    assert "<circle" in page
    assert f"model.py:{row_of('mul_')}" in page
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("model.py:Nope", "--input", "2x4"), "no 'Nope'"),
        (("model.py:Net",), "give its inputs"),
        (("model.py", "--input", "2x4"), "not a live target"),
        (("none.mlpackage", "--reference", "model.py:Net", "--input", "2x4"), "no such package"),
        (("model.py:Net", "--input", "2xx"), "no dimension"),
        (("model.py:Net", "--input", "2x4", "--checkpoint", "none.pt"), "no such checkpoint"),
    ],
)
def test_usage_errors(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_time_out_is_a_finding(folder: Path) -> None:
    done = run(folder, "model.py:Slow", "--input", "2x4", "--timeout", "6")
    assert done.returncode == 1
    assert "time-out of 6 s" in done.stdout
    assert "--timeout" in done.stdout


def test_checkpoint_is_loaded(folder: Path) -> None:
    torch.save({"linear.weight": torch.full((4, 4), torch.nan), "linear.bias": torch.zeros(4)}, folder / "nan.pt")
    done = run(folder, "model.py:Net", "--input", "2x4", "--checkpoint", "nan.pt", "--output-format", "json")
    assert json.loads(done.stdout)["outputs"][0]["non_finite"][0] == 8
    torch.save({"other": torch.zeros(4)}, folder / "other.pt")
    assert run(folder, "model.py:Net", "--input", "2x4", "--checkpoint", "other.pt").returncode == 2


def test_page_of_the_documentation() -> None:
    page = (ROOT / "docs" / "verify.md").read_text("utf-8")
    screen = re.search(r"^```\n\$ modellint verify (.*?)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert screen is not None
    done = run(ROOT, *screen[1].split())
    # The last digits of errors depend on the processor.
    assert re.sub(r"[\d.]+e-\d+|\d+ dB|0\.\d{4,}", "#", done.stdout) == re.sub(
        r"[\d.]+e-\d+|\d+ dB|0\.\d{4,}", "#", screen[2]
    )
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"model": nn.Conv2d(3, 4, 3).eval()}
    exec(block, names)
    assert names["result"].ok


@pytest.fixture
def package(folder: Path) -> Path:
    scope: dict[str, Any] = {}
    exec(MODEL, scope)
    with silence(), torch.no_grad():
        traced = torch.jit.trace(scope["Net"]().eval(), torch.randn(2, 4))
        made = ct.convert(
            traced,
            inputs=[ct.TensorType(shape=(2, 4))],
            compute_precision=ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS16,
            skip_model_load=True,
        )
        made.save(str(folder / "net.mlpackage"))
    return folder


def test_saved_package(package: Path) -> None:
    right = run(package, "net.mlpackage", "--reference", "model.py:Net", "--input", "2x4")
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = run(package, "net.mlpackage", "--reference", "model.py:Wrong", "--input", "2x4")
    assert wrong.returncode == 1
    assert "the package computes something else" in wrong.stdout
    assert run(package, "net.mlpackage", "--input", "2x4").returncode == 2
    assert run(package, "net.mlpackage", "--reference", "model.py:Net", "--precision", "fp32").returncode == 2


KEEPING = """\
import torch
from torch import nn


class Net(nn.Module):
    decay = 0.9

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((1, 4), 1 / 3))

    def forward(self, x):
        self.mean.mul_(self.decay).add_(x)
        return self.mean * 2


class Wrong(Net):
    decay = 0.9001
"""


def test_saved_package_with_a_state_is_compared_as_if_the_state_were_single(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(KEEPING, "utf-8")
    scope: dict[str, Any] = {}
    exec(KEEPING, scope)
    options: dict[str, Any] = {"states": True, "deployment_target": "iOS18", "precision": "fp32", "root": tmp_path}
    modellint.export(scope["Net"](), (torch.rand(1, 4),), output=tmp_path / "net.mlpackage", **options)
    right = run(tmp_path, "net.mlpackage", "--reference", "model.py:Net", "--input", "1x4")
    assert right.returncode == 0, right.stdout + right.stderr
    # That far off is not to be seen in float16.
    wrong = run(tmp_path, "net.mlpackage", "--reference", "model.py:Wrong", "--input", "1x4")
    assert wrong.returncode == 1
    assert "the package computes something else" in wrong.stdout


IMAGES = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).relu().mean((2, 3))


class Other(Net):
    def forward(self, x):
        return super().forward(x + 0.01)


class Scaling(Net):
    def forward(self, x):
        return super().forward(x.flip(1) * 4 - torch.tensor([0.5, 0.4, 0.3])[:, None, None])
"""


@pytest.fixture
def of_images(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(IMAGES, "utf-8")
    scope: dict[str, Any] = {}
    exec(IMAGES, scope)
    image = ct.ImageType(
        name="x", shape=(1, 3, 8, 8), scale=4 / 255, bias=[-0.5, -0.4, -0.3], color_layout=ct.colorlayout.BGR
    )
    with silence(), torch.no_grad():
        traced = torch.jit.trace(scope["Net"]().eval(), torch.rand(1, 3, 8, 8))
        made = ct.convert(traced, inputs=[image], compute_precision=ct.precision.FLOAT32, skip_model_load=True)
        made.save(str(tmp_path / "net.mlpackage"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("Net", 0, "with what the package makes of the pixels, -0.5 to 3.7"),
        ("Scaling", 0, "with 0 to 1, as a decoded photo is"),
        ("Other", 1, "the package computes something else"),
    ],
)
def test_saved_package_that_takes_images(of_images: Path, name: str, status: int, said: str) -> None:
    done = run(of_images, "net.mlpackage", "--reference", f"model.py:{name}", "--input", "1x3x8x8")
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout
    assert "image (BGR)" in done.stdout


def test_image_of_another_size_is_no_input_of_the_package(of_images: Path) -> None:
    done = run(of_images, "net.mlpackage", "--reference", "model.py:Net", "--input", "1x1x8x8")
    assert done.returncode == 1
    assert "undecided (the input x is an image of 3 channels, and not 1x1x8x8)" in done.stdout

"""Eighteen export defects, one per file: what the source check says of each, and what a live target adds."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from click.testing import CliRunner

import modellint
from modellint.cli import cli

pytestmark = pytest.mark.filterwarnings("ignore")


class Defect(NamedTuple):
    """A file; the line with the defect ends in `# here`. ``inputs`` are what `Net()` is called with."""

    code: str
    text: str
    inputs: tuple[Any, ...]
    is_built: bool = True


def net(init: str, forward: str, arguments: str = "x") -> str:
    def block(text: str) -> str:
        return "".join(f"        {line}\n" for line in text.splitlines())

    start = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    return f"{start}{block(init)}\n    def forward(self, {arguments}):\n{block(forward)}"


X = torch.linspace(-1, 2, 8).reshape(2, 4)
IMAGE = torch.linspace(-1, 1, 2 * 3 * 4 * 4).reshape(2, 3, 4, 4)

DEFECTS = {
    "hidden list of modules": Defect(
        "REG001",
        net(
            "self.layers = [nn.Linear(4, 4) for _ in range(3)]  # here",
            "for layer in self.layers:\n    x = layer(x)\nreturn x",
        ),
        (X,),
    ),
    "dict of parameters": Defect(
        "REG005",
        net('self.scales = {"a": nn.Parameter(torch.ones(4))}  # here', 'return x * self.scales["a"]'),
        (X,),
    ),
    "tensor that should be a buffer": Defect(
        "REG006", net("self.offset = torch.ones(4)  # here", "return x + self.offset"), (X,)
    ),
    "PReLU with different slopes at rank 2": Defect(
        "OPS004",
        net(
            "self.fc = nn.Linear(4, 4)\nself.act = nn.PReLU(4)  # here\nself.act.weight.data = torch.tensor([0.1, 0.2, 0.3, 0.4])",
            "return self.act(self.fc(x))",
        ),
        (X,),
    ),
    "unsupported operator": Defect("OPS001", net("pass", "return torch.special.i0(x)  # here"), (X,)),
    "in-place through a view": Defect(
        "MUT001", net("pass", "y = x * 1\ny.view(-1).add_(1)  # here\nreturn y * 2"), (X,)
    ),
    "tensor-index assignment": Defect(
        "MUT002",
        net('self.register_buffer("i", torch.tensor([1]))', "y = x * 1\ny[:, self.i] = 0.0  # here\nreturn y"),
        (X,),
    ),
    "dict output": Defect("SIG001", net("pass", 'return {"twice": x * 2}  # here'), (X,)),
    "branch on a tensor": Defect(
        "FLW001", net("pass", "if x.sum() > 0:  # here\n    return x * 2\nreturn x - 1"), (X,)
    ),
    "rank 6": Defect(
        "SHP001",
        net("pass", "y = x.view(2, 3, 2, 2, 2, 2)  # here\nreturn y.permute(0, 1, 2, 4, 3, 5) * 2"),
        (IMAGE,),
    ),
    "hard-coded device": Defect("DEV001", net("pass", 'return x + torch.ones(4, device="cuda")  # here'), (X,)),
    "int64 literal": Defect("NUM006", net("pass", "return x.long() + 2**40  # here"), (X,)),
    "flattened argmax": Defect("OPS006", net("pass", "return torch.argmax(x)  # here"), (X,)),
    "mutated buffer": Defect(
        "MUT005", net('self.register_buffer("a", torch.zeros(4))', "self.a.add_(1)  # here\nreturn x + self.a"), (X,)
    ),
    "stray tuple": Defect("REG003", net("self.conv = (nn.Conv2d(3, 4, 1),)  # here", "return self.conv(x)"), (IMAGE,)),
    "view after permute": Defect(
        "SHP002", net("pass", "y = x.permute(0, 2, 3, 1)\nreturn y.view(2, -1)  # here"), (IMAGE,)
    ),
    "no super().__init__()": Defect(
        "REG008",
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(4, 4)  # here\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n",
        (X,),
        is_built=False,
    ),
    "lowest number as a mask": Defect(
        "NUM001",
        net("pass", "y = x.masked_fill(m, torch.finfo(x.dtype).min)  # here\nreturn y.softmax(-1)", "x, m"),
        (X, X > 0),
    ),
}


def line_of(text: str) -> int:
    (row,) = (row for row, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    return row


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_there_are_eighteen() -> None:
    assert len(DEFECTS) == 18


@pytest.mark.parametrize("name", list(DEFECTS))
def test_source_alone(name: str) -> None:
    defect = DEFECTS[name]
    found = [
        (one.code, one.span.row) for one in modellint.check_source(defect.text).diagnostics if one.span is not None
    ]
    assert (defect.code, line_of(defect.text)) in found


@pytest.mark.parametrize("name", [name for name, one in DEFECTS.items() if one.is_built])
def test_a_live_model(name: str, tmp_path: Path) -> None:
    defect = DEFECTS[name]
    path = tmp_path / "seeded_net.py"
    path.write_text(defect.text, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        report = modellint.check_model(
            module.Net().eval(), example_inputs=defect.inputs, root=tmp_path, frontend="trace"
        )
    finally:
        del sys.modules[path.stem]
    found = [(one.code, one.span.row) for one in report.diagnostics if one.span is not None]
    assert (defect.code, line_of(defect.text)) in found


@pytest.mark.parametrize("name", [name for name, one in DEFECTS.items() if not one.is_built])
def test_a_live_target_that_cannot_be_built(name: str) -> None:
    defect = DEFECTS[name]
    Path("seeded_net.py").write_text(defect.text, "utf-8")
    command = ["check", "seeded_net.py", "seeded_net.py:Net", "--input", "2x4", "--isolated", "--no-cache"]
    result = CliRunner().invoke(cli, [*command, "--output-format", "json"])
    rows = {one["code"]: one["location"]["row"] for one in json.loads(result.stdout)}
    assert rows[defect.code] == line_of(defect.text)
    assert "LNT003" in rows

"""Live rules about writes, state, Python and numbers: what they say, and what they leave alone."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from modellint.live.check import check_subject, live_rules
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.rule_index import load_rules
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")

FAMILIES = ("MUT", "FLW", "NUM", "MOD002", "SHP004", "SHP005", "SHP006")
RULES = {
    rule.code: rule
    for rule in live_rules(load_rules())
    if rule.code.startswith(FAMILIES) and rule.default and "execution" not in rule.live_needs
}
X = torch.tensor([[0.5, -1.5, 2.0, 0.3], [-0.2, 1.0, 0.1, 3.0]])
IMAGE = torch.ones(1, 3, 8, 8)
BOUNDS = {0: {2: (8, 32), 3: (8, 32)}}


def found(
    folder: Path, forward: str, init: str = "pass", *inputs: torch.Tensor, flexible: Any = None, **destination: str
) -> list[tuple[str, int]]:
    """Codes and lines, the first line of `forward` counted as 1."""
    head = (
        "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{textwrap.indent(init, ' ' * 8)}\n\n    def forward(self, x):\n"
    )
    path = folder / "ruled_net.py"
    path.write_text(head + textwrap.indent(forward, " " * 8) + "\n", "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        example = Inputs(inputs or (X,), flexible=flexible or {})
        subject = Subject(module.Net().eval(), example, folder, Destination(**destination))
        first = head.count("\n")
        return [(one.code, one.span.row - first) for one in check_subject(subject, RULES) if one.span is not None]
    finally:
        del sys.modules[path.stem]


@pytest.mark.parametrize(
    "forward",
    [
        # Nobody reads the memory under another name.
        "y = x * 1\ny.add_(1)\nreturn y",
        "y = (x * 1).view(-1)\ny.add_(1)\nreturn y",
        "y = x * 1\na, b = y.chunk(2, 1)\na.add_(1)\nreturn a + b",
        "y = x * 1\ny[:, 1:] += 1\nreturn y",
        "y = x * 1\ny[0] = y[0].mul(3)\nreturn y",
        "y = x.clone()\nreturn F.relu(y, inplace=True)",
        # Conditions that the values do not decide.
        "return x * 2 if x.shape[0] > 1 else x - 1",
        "return x * 2 if self.training else x - 1",
        "if not bool((x == x).all()):\n    raise ValueError\nreturn x * 2",
        "assert x.max() < 100\nreturn x * 2",
        "return x * int(x.shape[0])",
        "return x * torch.zeros_like(x).sum().item()",
        "print(x.max().item())\nreturn x * 2",
        "if not torch.jit.is_tracing() and x.sum() > 0:\n    return x * 2\nreturn x * 3",
        "for layer in [1, 2, 3]:\n    x = x * layer\nreturn x",
        # State that later calls do not depend on.
        "self.shown = x.detach()\nreturn x * 2",
        "if self.training:\n    self.seen = x.mean()\nreturn x * 2",
        # Numbers that fit, and infinity, which is meant.
        "return x.masked_fill(x > 0, float('-inf')) + 1e-6",
        "return (x - 1e4).clamp(-1e9, 1e9)",
        # An entropy, whose epsilon is multiplied by 0.
        "return -(x * ((x + 1e-10).log() + 2)).sum(-1)",
        "return F.normalize(x) + F.dropout(x, 0.5, self.training)",
    ],
)
def test_nothing_is_wrong(forward: str, tmp_path: Path) -> None:
    assert found(tmp_path, forward) == []


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("y = x * 1\nz = y.detach()\nz.add_(1)\nreturn y", ("MUT001", 3)),
        ("y = x * 1\nz = y.view(-1)\ny.add_(1)\nreturn z", ("MUT001", 3)),
        ("y = x * 1\ny[..., 1] = 0.0\nreturn y", ("MUT001", 2)),
        ("y = x * 1\ny[y[:, 0] > 0, 1:] = 0.0\nreturn y", ("MUT003", 2)),
        ("x.clamp_(0, 1)\nreturn x * 2", ("MUT007", 1)),
        ("return x * 2 if x.sum() > 0 else x - 1", ("FLW001", 1)),
        ("if x.max().item() > 0:\n    x = x + 1\nreturn x * 2", ("FLW001", 1)),
        ("if torch.equal(x, x + 0):\n    x = x + 1\nreturn x * 2", ("FLW001", 1)),
        ("return x * float(x.max())", ("FLW002", 1)),
        ("return x[:, : x.argmax().tolist() % 2 + 1]", ("FLW002", 1)),
        ("return x + torch.from_numpy(np.abs(x))", ("FLW003", 1)),
        ("y = 0\nfor row in x:\n    y = y + row\nreturn y", ("FLW004", 2)),
        ("return torch.stack([x[:, t] for t in range(x.shape[1])])", ("FLW004", 1)),
        ("return torch.where(x > 0, x, -1e9)", ("NUM001", 1)),
        ("return x + torch.full((4,), -1e9)", ("NUM001", 1)),
        ("return (x + 1e-10).log()", ("NUM002", 1)),
        ("return (x.tanh() * (x + 1e-10).log()).sum()", ("NUM002", 1)),
        ("return F.normalize(x, eps=1e-9)", ("NUM002", 1)),
        ("return F.dropout(x)", ("MOD002", 1)),
        ("return nn.Dropout(0.5)(x) * 2", ("MOD002", 1)),
    ],
)
def test_one_thing_is_wrong(forward: str, expected: tuple[str, int], tmp_path: Path) -> None:
    assert found(tmp_path, forward) == [expected]


@pytest.mark.parametrize(
    ("init", "forward", "expected"),
    [
        ("self.h = None", "y = x if self.h is None else x + self.h\nself.h = y * 1\nreturn y * 2", [("MUT006", 2)]),
        ("self.calls = 0", "self.calls += 1\nreturn x * self.calls", [("MUT006", 1)]),
        ("self.seen = []", "self.seen.append(x)\nreturn x * len(self.seen)", [("MUT006", 1)]),
        ('self.register_buffer("n", torch.zeros(()))', "self.n += 1\nreturn x * self.n", [("MUT005", 1)]),
        (
            'self.register_buffer("m", torch.zeros(4))',
            "self.m.mul_(0.9).add_(0.1 * x.detach().mean(0))\nreturn x - self.m",
            [("MUT008", 1)],
        ),
        (
            'self.register_buffer("k", torch.zeros(2, 4))\nself.lin = nn.Linear(4, 4)',
            "self.k.copy_(torch.cat([self.k[1:], self.lin(x)[:1]]))\nreturn x * self.k",
            [("MUT005", 1)],
        ),
        ('self.register_buffer("big", torch.tensor([2**40]))', "return x.long() * self.big", [("NUM006", -2)]),
    ],
)
def test_state(init: str, forward: str, expected: list[tuple[str, int]], tmp_path: Path) -> None:
    assert found(tmp_path, forward, init) == expected


def test_flexible_sizes(tmp_path: Path) -> None:
    init = "self.pool = nn.AdaptiveAvgPool2d(2)"
    forward = "y = F.interpolate(x, size=(16, 16))\nz = self.pool(x)\nreturn y.mean() + z"
    assert found(tmp_path, forward, init, IMAGE, flexible=BOUNDS) == [("SHP006", 1), ("SHP005", 2)]
    assert found(tmp_path, forward, init, IMAGE) == []
    assert found(tmp_path, "return x.view(1, 192)", "pass", IMAGE, flexible=BOUNDS) == [("SHP004", 1)]
    assert found(tmp_path, "return x.view(1, -1)", "pass", IMAGE, flexible=BOUNDS) == []


def test_the_destination_counts(tmp_path: Path) -> None:
    lost = "y = x * 1\ny.view(-1).add_(1)\nreturn y"
    assert found(tmp_path, lost, frontend="trace") == [("MUT001", 2)]
    assert found(tmp_path, lost, frontend="export") == []
    assert found(tmp_path, "return torch.where(x > 0, x, -1e9)", precision="fp32") == []

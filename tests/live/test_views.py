"""What SHP002 says of a view is what torch does with it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import modellint

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, heads=2, window=2):
        super().__init__()
        self.heads = heads
        self.window = window
        self.size = (window, window)
        self.all = 24
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
"""

HELPERS = {
    "partition": """\
def partition(x, window):
    b, h, w, c = x.shape
    x = x.view(b, h // window, window, w // window, window, c)
    return x.permute(0, 1, 3, 2, 4, 5).view(-1, window, window, c)
""",
    "pair_partition": """\
def pair_partition(x, window):
    b, h, w, c = x.shape
    x = x.view(b, h // window[0], window[0], w // window[1], window[1], c)
    return x.permute(0, 1, 3, 2, 4, 5).view(-1, window[0], window[1], c)
""",
    "reverse": """\
def reverse(windows, window, size):
    h, w = size
    c = windows.shape[-1]
    x = windows.view(-1, h // window[0], w // window[1], window[0], window[1], c)
    return x.permute(0, 1, 3, 2, 4, 5).view(-1, h, w, c)
""",
}

RAISES = {
    "transposed": "return x.transpose(1, 2).view(x.size(0), -1)",
    "t": """
        b, n, t, c = x.shape
        return x[0, 0].t().view(-1)""",
    "shape of a product": """
        y = torch.matmul(x, x.transpose(-1, -2)).permute(0, 2, 1, 3)
        return y.view(y.size()[:-2] + (y.size(2) * y.size(3),))""",
    "unknown width": """
        y = torch.matmul(x, x.transpose(-1, -2)).permute(0, 2, 1, 3)
        shape = y.size()[:-2] + (self.all,)
        return y.view(*shape)""",
    "heads": """
        b, n, t, c = x.shape
        q = self.fc(x).view(b, n * t, self.heads, c // self.heads).transpose(1, 2)
        y = torch.matmul(torch.softmax(q @ q.transpose(-2, -1), -1), q)
        return y.transpose(1, 2).view(b, n * t, c)""",
    "einsum": """
        y = torch.einsum("bhqk,bkhd->bqhd", x, x.transpose(1, 2).transpose(2, 1).permute(0, 3, 1, 2))
        return y.view(y.size(0), y.size(1), -1)""",
    "einsum alone": """
        y = torch.einsum("bhqk,bhnk->bqhn", x, x)
        return y.view(y.size(0), y.size(1), -1)""",
    "index": """
        b, n, t, c = x.shape
        return x[:, 0].view(-1)""",
    "windows": "return partition(x, 2)",
    "windows of self": "return partition(x, self.window)",
    "windows of a pair": "return pair_partition(x, self.size)",
    "back": """
        b, h, w, c = x.shape
        y = x.reshape(-1, self.size[0], self.size[1], c)
        return reverse(y, self.size, (h, w))""",
    "padded": """
        if x.size(1) % self.window:
            x = F.pad(x, (0, 0, 0, 0, 0, 1))
        return partition(x, self.window)""",
    "kept at both ends": """
        b, n, t, c = x.shape
        return x.permute(0, 2, 1, 3).view(b, self.all, c)""",
    "expanded": """
        y = x.unsqueeze(2).expand(-1, -1, 3, -1, -1)
        return y.view(y.size()[:1] + (self.all // 2,) + y.size()[3:])""",
    "what is left over": """
        b, c, h, w = x.shape
        y = x.view(b, -1, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3)
        return y.view(b, -1, h * 2, w * 2)""",
}

RUNS = {
    "first index": "return x[0].view(-1)",
    "last index": "return x[..., 0].view(-1)",
    "splits": """
        b, n, t, c = x.shape
        return x.transpose(1, 2).view(b, t, n, 2, c // 2)""",
    "merges what nests": "return x.permute(2, 3, 0, 1).view(x.size(2), x.size(3), -1)",
    "contiguous": "return x.transpose(1, 2).contiguous().view(x.size(0), -1)",
    "reshape": "return x.transpose(1, 2).reshape(x.size(0), -1)",
    "product": "return (x.transpose(1, 2) @ x.permute(0, 2, 3, 1)).view(x.size(0), -1)",
    "einsum in order": """
        y = torch.einsum("bhqd,bhkd->bhqk", x, x)
        return y.view(y.size(0) * y.size(1), y.size(2), -1)""",
    "einsum to heads": """
        y = torch.einsum("bhqk,bhkd->bqhd", x, x.transpose(2, 3))
        return y.permute(0, 2, 1, 3).view(y.size(0) * y.size(2), y.size(1), -1)""",
    "windows in order": """
        b, h, w, c = x.shape
        return x.view(b, h // 2, 2, w // 2, 2, c).view(-1, w // 2, 2, c)""",
    "same axis under another name": """
        b, n, t, c = x.shape
        side = int(t**0.5)
        return x.transpose(2, 3).view(b, n, c, t)""",
    "t of a row": "return x[0, 0, 0].t().view(-1)",
    "sum of sizes": """
        b, n, t, c = x.shape
        both = n + n
        return torch.cat([x, x], 1).view(b, both * t, c)""",
}


def case(body: str) -> str:
    helpers = "".join("\n\n" + text for name, text in HELPERS.items() if f" {name}(" in body)
    return HEAD + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n" + helpers


def run(text: str) -> Any:
    made: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made.py", "exec"), made)
    with torch.no_grad():
        return made["Net"]()(torch.randn(3, 4, 6, 8))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_reported(text: str) -> bool:
    return "SHP002" in {finding.code for finding in modellint.check_source(text).diagnostics}


@pytest.mark.parametrize("name", RAISES)
def test_reported_view_raises(name: str) -> None:
    text = case(RAISES[name])
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        run(text)
    assert is_reported(text)


@pytest.mark.parametrize("name", RUNS)
def test_view_that_runs_is_clean(name: str) -> None:
    text = case(RUNS[name])
    run(text)
    assert not is_reported(text)

"""What the README and the documentation show of live checks is real."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from torch import nn

from modellint.cli import cli

ROOT = Path(__file__).resolve().parent.parent.parent


def test_screen_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "live.md").read_text("utf-8")
    (screen,) = re.findall(r"^```\n\$ modellint check (.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    done = CliRunner().invoke(cli, ["check", "--no-cache", "--ignore", "ENV", *screen[0].split()])
    assert done.stdout == screen[1]
    assert done.exit_code == 1


class Net(nn.Conv2d):
    def __init__(self) -> None:
        super().__init__(3, 2, 3)


@pytest.mark.parametrize(
    ("name", "model"), [("README.md", nn.Linear(64, 2)), ("docs/live.md", Net()), ("docs/fix.md", nn.Linear(64, 2))]
)
def test_snippets_run(name: str, model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("net")
    vars(module)["Net"] = Net
    monkeypatch.setitem(sys.modules, "net", module)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"model": model.eval()}
    for block in blocks:
        exec(block, names)
    for test in [value for key, value in names.items() if key.startswith("test_")]:
        test()

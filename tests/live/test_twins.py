"""What a run of the model proves is written to the source that it comes from, by ``check --fix`` on a live target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli

HEAD = """
import torch
from torch import nn


def made(count, of=(4, 4)):
    # What the list holds only a run tells.
    return [getattr(nn, "Linear")(*of) for _ in range(count)]


"""

LISTS = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = globals()["made"](2)
        self.others = globals()["made"](2)
        self.table = dict(zip("ab", globals()["made"](2)))
        self.nested = [globals()["made"](1)]
        self.scale = getattr(torch, "ones")(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.table["a"](x) + self.table["b"](x) + self.nested[0][0](x)
        return x * self.scale + self.others.index(self.others[1])


def make():
    return Net().eval(), (torch.randn(2, 4),)
"""

SLOPES = """class Net(nn.Module):
    def __init__(self, rank=3):
        super().__init__()
        self.act = nn.PReLU(4)
        nn.init.uniform_(self.act.weight)

    def forward(self, x):
        return self.act(x)


def rows():
    return Net().eval(), (torch.randn(2, 4, 3),)


def images():
    return Net().eval(), (torch.randn(2, 4, 3, 3),)
"""

LATER = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = globals()["made"](1)
        self.layers = layers
        layers.extend(globals()["made"](1))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def make():
    return Net().eval(), (torch.randn(2, 4),)
"""


ASKED = """def position(layers):
    return layers.index(layers[-1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = globals()["made"](2)
        self.last = position(self.layers)

    def forward(self, x):
        return self.layers[self.last](self.layers[0](x))


def make():
    return Net().eval(), (torch.randn(2, 4),)
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)


def write(body: str) -> Path:
    path = Path("net.py")
    path.write_text(HEAD + body, "utf-8")
    return path


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", *arguments])


def found(*arguments: str) -> list[dict[str, Any]]:
    diagnostics: list[dict[str, Any]] = json.loads(check("--output-format", "json", *arguments).stdout)
    return diagnostics


def test_containers_that_only_a_run_knows() -> None:
    path = write(LISTS)
    done = check("--fix", "net.py:make")
    text = path.read_text("utf-8")
    assert 'self.layers = nn.ModuleList(globals()["made"](2))' in text
    assert 'self.table = nn.ModuleDict(dict(zip("ab", globals()["made"](2))))' in text
    assert 'self.register_buffer("scale", getattr(torch, "ones")(4), persistent=False)' in text
    # A list that is asked for an index stays one, and what is nested nobody can wrap at one place.
    assert 'self.others = globals()["made"](2)' in text
    assert 'self.nested = [globals()["made"](1)]' in text
    assert "3 fixed" in done.stdout
    left = [one for one in found("net.py:make") if one["code"].startswith("REG")]
    assert sorted(one["message"].split("`")[1] for one in left) == ["self.nested", "self.others"]
    assert not any(one["fix"] for one in left)
    # And a second time there is nothing to do.
    check("--fix", "net.py:make")
    assert path.read_text("utf-8") == text


def test_without_fix_nothing_is_written_nor_promised() -> None:
    path = write(LISTS)
    assert not any(
        one["fix"] for one in found("net.py:make") if one["code"].startswith("REG00") and "layers" in one["message"]
    )
    assert path.read_text("utf-8") == HEAD + LISTS


def test_slopes_that_are_refused_make_the_fix_safe() -> None:
    path = write(SLOPES)
    assert [
        one["fix"]["applicability"] for one in found("net.py:rows", "--frontend", "trace") if one["code"] == "OPS004"
    ] == ["unsafe"]
    check("--fix", "net.py:rows", "--frontend", "trace")
    text = path.read_text("utf-8")
    assert "self.act = CustomPReLU(4)" in text
    assert [one["code"] for one in found("net.py:rows", "--frontend", "trace") if one["code"] == "OPS004"] == []


def test_slopes_that_convert_are_left_alone() -> None:
    path = write(SLOPES)
    check("--fix", "net.py:images", "--frontend", "trace")
    assert path.read_text("utf-8") == HEAD + SLOPES


def test_what_a_local_is_given_later_is_left_alone() -> None:
    path = write(LATER)
    check("--fix", "net.py:make")
    assert "self.layers = layers\n" in path.read_text("utf-8")


def test_what_the_constructor_needs_is_put_back() -> None:
    """The run proves it on what was built, and cannot know how it is built."""
    path = write(ASKED)
    done = check("--fix", "net.py:make")
    assert "taken back: the target no longer runs" in done.stderr
    assert path.read_text("utf-8") == HEAD + ASKED
    assert "REG001" in [one["code"] for one in found("net.py:make")]


def test_a_diff_shows_what_a_run_proves_and_writes_nothing() -> None:
    path = write(LISTS)
    done = check("--diff", "net.py:make")
    assert done.exit_code == 1
    assert path.read_text("utf-8") == HEAD + LISTS
    added = [line[1:].strip() for line in done.stdout.splitlines() if line.startswith("+") and "self." in line]
    assert added == [
        'self.layers = nn.ModuleList(globals()["made"](2))',
        'self.table = nn.ModuleDict(dict(zip("ab", globals()["made"](2))))',
        'self.register_buffer("scale", getattr(torch, "ones")(4), persistent=False)',
    ]
    assert "Would fix 3 findings in 1 file." in done.stderr


def test_a_diff_holds_what_source_shows_too() -> None:
    path = write(LISTS.replace('self.nested = [globals()["made"](1)]', "self.nested = [[nn.Linear(4, 4)]]"))
    shown = check("--diff", "net.py:make").stdout
    check("--fix", "net.py:make")
    added = [line[1:] for line in shown.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert "        self.nested = nn.ModuleList([nn.ModuleList([nn.Linear(4, 4)])])" in added
    assert all(line in path.read_text("utf-8").splitlines() for line in added)


def test_a_diff_without_a_run_says_so() -> None:
    write(LISTS.replace("(2, 4),)", "(2, 5),)"))
    done = check("--diff", "net.py:make")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "warning: nothing is proven on net.py:make, which does not run: " in done.stderr


def test_what_one_target_does_not_prove_is_not_written() -> None:
    path = write(LISTS + "\n\ndef other():\n    return Net().eval(), (torch.randn(2, 5),)\n")
    check("--fix", "net.py:make", "net.py:other")
    assert 'self.layers = globals()["made"](2)' in path.read_text("utf-8")

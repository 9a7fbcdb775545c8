"""Entered methods: what the `forward` of another module runs beside a class's own `forward`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

HEAD = "import torch\nfrom torch import nn\n"
HEAD_OF_NET = """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)

    def decode(self, x, count):
        if x.sum() > 0:
            x = x + 1
        if count > 3:
            x = x * 2
        return self.scaled(x)

    def scaled(self, x):
        return torch.fmod(x, 3.0)
"""
FOUND = ["FLW001 13", "OPS001 20"]
CALL = "self.head.decode(self.head(x), x.shape[-1])"


def net(run: str = f"return {CALL}", make: str = "Head()", name: str = "Net", forward: str = "forward") -> str:
    body = textwrap.indent(run, " " * 8)
    init = f"    def __init__(self):\n        super().__init__()\n        self.head = {make}\n\n"
    return f"\nclass {name}(nn.Module):\n{init}    def {forward}(self, x):\n{body}\n"


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> list[str]:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text if text.startswith("import torch") else HEAD + text, "utf-8")
    monkeypatch.chdir(folder)
    told = json.loads(CliRunner().invoke(cli, ["check", "--output-format", "json", "head.py"]).stdout)
    return [f"{one['code']} {one['location']['row']}" for one in told if one["severity"] != "info"]


IMPORT = "import torch\nfrom torch import nn\nfrom head import Head\n"
USERS = {
    "nobody": ("", []),
    "a model": (net(), FOUND),
    "one without its class": (net(make="object()"), []),
    "in training only": (net(f"if self.training:\n    return {CALL}\nreturn x"), []),
    "a loss": (net(name="NetLoss"), []),
    "a method that nobody enters": (net(forward="sample") + "    def forward(self, x):\n        return x\n", []),
    "behind a hook": (net(forward="training_step") + "    def forward(self, x):\n        return x\n", []),
    "a helper": (net("return self.run(x)") + f"\n    def run(self, x):\n        return {CALL}\n", FOUND),
    "a function that builds it": ("\ndef build():\n    return Head()\n" + net(make="build()"), FOUND),
    "one that derives from it": ("\nclass Wide(Head):\n    pass\n" + net(make="Wide()"), FOUND),
    "one with another": (
        "\nclass Wide(Head):\n    def decode(self, x, count):\n        return x\n" + net(make="Wide()"),
        [],
    ),
    "the derived class of a model": (
        net("return x") + f"\nclass Deep(Net):\n    def forward(self, x):\n        return {CALL}\n",
        FOUND,
    ),
    "two steps": (
        net(forward="run")
        + net("return self.inner.run(x)", name="Outer").replace("self.head = Head()", "self.inner = Net()"),
        FOUND,
    ),
    "a test": ("\nclass TestNet:\n    pass\n" + net(name="TestedNet").replace("class Tested", "class Test"), []),
}


@pytest.mark.parametrize("user", USERS)
def test_a_method_counts_where_a_forward_enters_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    text, expected = USERS[user]
    assert checked(tmp_path, monkeypatch, head=HEAD_OF_NET, net=IMPORT + text) == expected


def test_a_class_of_the_same_file_enters_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(tmp_path, monkeypatch, head=HEAD_OF_NET + net()) == FOUND


def test_what_is_handed_over_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = "self.head.decode(self.head(x), x.sum())"
    assert checked(tmp_path, monkeypatch, head=HEAD_OF_NET + net(f"return {call}")) == [
        "FLW001 13",
        "FLW001 15",
        "OPS001 20",
    ]
    numbers = "self.head.decode(3, 4)"
    assert checked(tmp_path, monkeypatch, head=HEAD_OF_NET + net(f"return x * {numbers}")) == ["OPS001 20"]


def test_it_is_said_who_enters_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked(tmp_path, monkeypatch, head=HEAD_OF_NET, models__net=IMPORT + net())
    output = CliRunner().invoke(cli, ["check", "head.py"]).stdout
    assert "`forward` of `Net` in models/net.py runs this" in output


def test_a_cached_answer_rests_on_who_enters_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(tmp_path, monkeypatch, head=HEAD_OF_NET, net=IMPORT) == []
    assert checked(tmp_path, monkeypatch, net=IMPORT + net()) == FOUND
    assert checked(tmp_path, monkeypatch, net=IMPORT + net("return x")) == []


BEHIND = """
class PostProcessor(nn.Module):
    def forward(self, x):
        return torch.fmod(x, 3.0)


def make_processor():
    processor = PostProcessor()
    return processor
"""


@pytest.mark.parametrize(
    ("user", "is_found"),
    [
        ("", False),
        (net("return x", make="make_processor()"), False),
        (net("return self.head(x)", make="make_processor()"), True),
        (net("return self.head(x)", make="PostProcessor()"), True),
        (net("if self.training:\n    return self.head(x)\nreturn x", make="PostProcessor()"), False),
        ("\ndef evaluate(x):\n    processor = PostProcessor()\n    return processor(x)\n", False),
    ],
)
def test_what_works_on_the_answers_of_a_model_may_be_a_part_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, is_found: bool
) -> None:
    assert checked(tmp_path, monkeypatch, head=BEHIND + user) == ["OPS001 6"] * is_found


UNUSED = """
class Old(nn.Module):
    def forward(self, x):
        return torch.fmod(x, 3.0)


class New(nn.Module):
    def forward(self, x):
        return x
"""
BY_NAME = """
import importlib


def build(config):
    path, name = config["target"].rsplit(".", 1)
    return getattr(importlib.import_module(path), name)(**config["arguments"])
"""


ASKING = "\nCONFIG = {}\n" + net(make="build(CONFIG)")


@pytest.mark.parametrize(
    ("build", "user", "is_found"),
    [
        (BY_NAME, ASKING, True),
        (BY_NAME.replace("build", "taken") + "\n\ndef build(config):\n    return taken(config)\n", ASKING, True),
        (BY_NAME, "", False),
        (BY_NAME, "\nNAMED = build\n", False),
        (BY_NAME.replace("import_module(path)", "import_module('head')"), ASKING, False),
        (BY_NAME.replace("import_module(path)", "import_module(f'data.{path}')"), ASKING, False),
        (BY_NAME.replace("module(path), name)", "module(path), 'build')"), ASKING, False),
    ],
)
def test_a_class_may_be_named_where_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str, user: str, is_found: bool
) -> None:
    plain = IMPORT.replace("Head", "New") + net(make="New()", name="Plain")
    user = "import torch\nfrom build import build\nfrom torch import nn\n" + user
    assert checked(tmp_path, monkeypatch, head=UNUSED, plain=plain, build=build, user=user) == ["OPS001 6"] * is_found

"""OPS004, and the class that its fix writes, on the situations that they must tell apart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import modellint
from modellint.cli import cli
from modellint.nn.custom_prelu_source import custom_prelu_text
from modellint.results.diagnostic import Applicability, Diagnostic, Severity
from modellint.source.fix import Fixed, fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nfrom torch import nn\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(init: str, forward: str = "return x", arguments: str = "", head: str = HEAD, base: str = "nn.Module") -> str:
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        f"{head}class Net({base}):\n    def __init__(self{arguments}):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, x):\n{body}\n"
    )


def found(text: str) -> list[Diagnostic]:
    return [finding for finding in modellint.check_source(text).diagnostics if finding.code == "OPS004"]


def fixed(text: str, unsafe: bool = False) -> Fixed:
    done = fix_text(SourceText(text), lambda source: tuple(found(source.text)), unsafe)
    assert done.problem is None
    return done


def severities(text: str) -> list[Severity]:
    for finding in found(text):
        safe = Applicability.SAFE if finding.severity is Severity.ERROR else Applicability.UNSAFE
        assert finding.fix is None or finding.fix.applicability is safe
    return [finding.severity for finding in found(text)]


ERRORS = {
    "Linear": "self.net = nn.Sequential(nn.Linear(8, 64), nn.PReLU(64))",
    "Conv1d": "self.net = nn.Sequential(nn.Conv1d(8, 64, 3), nn.PReLU(64))",
    "ConvTranspose3d": "self.net = nn.Sequential(nn.ConvTranspose3d(8, 64, 3), nn.PReLU(num_parameters=64))",
    "BatchNorm1d": "self.net = nn.Sequential(nn.BatchNorm1d(64), nn.PReLU(64))",
    "Conv3d": "self.net = nn.Sequential(nn.Conv3d(8, 64, 3), nn.PReLU(64))",
    "through layers that keep the rank": "self.net = nn.Sequential(nn.Conv1d(8, 64, 3), nn.Dropout(), nn.GELU(), nn.PReLU(64))",
    "before Linear": "self.net = nn.Sequential(nn.PReLU(64), nn.Linear(64, 8))",
    "the layer behind, where the one before says nothing": (
        "self.net = nn.Sequential(make(), nn.PReLU(64), nn.Conv1d(64, 8, 1))"
    ),
    "names": "self.net = nn.Sequential(OrderedDict([('a', nn.Linear(8, 64)), ('b', nn.PReLU(64))]))",
    "a list": "layers = [nn.Linear(8, 64), nn.PReLU(64)]\nself.net = nn.Sequential(*layers)",
    "a list that goes on": (
        "layers = []\nfor _ in range(2):\n    layers += [nn.Conv1d(8, 8, 1), nn.PReLU(8)]\nself.net = nn.Sequential(*layers)"
    ),
    "appended": "xs = []\nxs.append(nn.Conv1d(8, 8, 1))\nxs.append(nn.PReLU(8))\nself.net = nn.Sequential(*xs)",
    "added": "self.net = nn.Sequential()\nself.net.add_module('a', nn.Linear(8, 8))\nself.net.add_module('b', nn.PReLU(8))",
    "weight_norm": "self.net = nn.Sequential(nn.utils.weight_norm(nn.Conv1d(8, 8, 1)), nn.PReLU(8))",
    "an argument": "self.net = nn.Sequential(nn.Linear(8, width), nn.PReLU(width))",
}


@pytest.mark.parametrize("name", ERRORS)
def test_rank_is_known_by_the_layers_beside_it(name: str) -> None:
    assert severities(net(ERRORS[name], arguments=", width, make")) == [Severity.ERROR]


FORWARDS = {
    "Linear": ("self.fc = nn.Linear(8, 64)", "return self.act(self.fc(x))"),
    "BatchNorm1d": ("self.bn = nn.BatchNorm1d(64)", "x = self.bn(x)\nreturn self.act(x)"),
    "Conv1d": ("self.conv = nn.Conv1d(8, 64, 1)", "return self.act(torch.relu(self.conv(x)))"),
    "unpacked": ("self.n = 2", "b, c, t = x.shape\nreturn self.act(x)"),
    "reshaped": ("self.n = 2", "b, c, h, w = x.shape\nreturn self.act(x.flatten(2))"),
    "both branches": ("self.n = 2", "b, c, t = x.shape\nif self.n:\n    return self.act(x)\nreturn self.act(x.flatten(1))"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARDS)
def test_rank_is_known_by_what_forward_gives_it(name: str) -> None:
    init, forward = FORWARDS[name]
    assert severities(net(f"{init}\nself.act = nn.PReLU(64)", forward)) == [Severity.ERROR]


REMARKS = {
    "Conv2d": ("self.net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.PReLU(64))", "return self.net(x)"),
    "between Conv2d and Flatten": (
        "self.net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.PReLU(64), nn.Flatten(), nn.Linear(64, 2))",
        "return self.net(x)",
    ),
    "rank 4 in forward": ("self.act = nn.PReLU(64)", "b, c, h, w = x.shape\nreturn self.act(x)"),
    "two ranks": ("self.act = nn.PReLU(64)", "b, c, h, w = x.shape\nreturn self.act(x).flatten(2) + self.act(x.flatten(2))"),
    "not known": ("self.act = nn.PReLU(64)", "return self.act(x)"),
    "not called": ("self.act = nn.PReLU(64)", "return x"),
    "given to another": ("self.block = make(nn.PReLU(64))", "return self.block(x)"),
    "an own layer before it": ("self.net = nn.Sequential(make(8), nn.PReLU(64))", "return self.net(x)"),
    "a choice": ("self.acts = nn.ModuleList([nn.Linear(8, 8), nn.PReLU(8)])", "return self.acts[1](x)"),
    "one way or the other": (
        "layer = nn.Conv1d(8, 8, 1) if width else nn.Conv2d(8, 8, 1)\nself.net = nn.Sequential(layer, nn.PReLU(8))",
        "return self.net(x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMARKS)
def test_rank_is_four_or_not_known(name: str) -> None:
    init, forward = REMARKS[name]
    assert severities(net(init, forward, ", width, make")) == [Severity.INFO]


CLEAN = {
    "one slope": "self.act = nn.PReLU()",
    "one slope, said": "self.act = nn.PReLU(1)",
    "one slope by name": "self.act = nn.PReLU(num_parameters=1, init=0.1)",
    "only its start": "self.act = nn.PReLU(init=0.1)",
    "one slope unless asked": "self.act = nn.PReLU(count)",
    "one slope in a variable": "n = 1\nself.net = nn.Sequential(nn.Linear(2, 2), nn.PReLU(n))",
    "any arguments": "self.act = nn.PReLU(*args)",
    "another class": "self.act = PReLU(64)",
    "another library": "self.act = paddle.nn.PReLU(64)",
    "the class, not a layer": "self.kind = nn.PReLU",
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    head = "import paddle\nimport torch\nfrom mine import PReLU\nfrom torch import nn\n\n\n"
    assert found(net(CLEAN[name], arguments=", args, count=1", head=head)) == []


def test_a_class_of_its_own_is_clean() -> None:
    text = net("self.weight = nn.Parameter(torch.ones(4))").replace("class Net(", "class PReLU(")
    assert found(text + "\n\n" + net("self.act = PReLU(4)", head="")) == []


def test_a_helper_that_many_use_is_judged_by_itself() -> None:
    helper = "def act(n):\n    return nn.PReLU(n)\n\n\n"
    text = net("self.fc = nn.Linear(4, 4)\nself.act = act(4)", "return self.act(self.fc(x))", head=HEAD + helper)
    assert severities(text) == [Severity.INFO]
    assert severities(text.replace("act(4)", "act(1)").replace("n)", "1)")) == []


def test_a_helper_that_builds_the_row() -> None:
    text = HEAD + "def block(n):\n    return nn.Sequential(nn.Conv1d(n, n, 1), nn.PReLU(n))\n"
    assert severities(text) == [Severity.ERROR]


# The fix


def test_only_what_is_needed_is_fixed_unless_asked() -> None:
    text = net(
        "self.a = nn.Sequential(make(8), nn.PReLU(8))\nself.b = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))",
        arguments=", make",
    )
    safe = fixed(text)
    assert safe.applied == {"OPS004": 1}
    assert "make(8), nn.PReLU(8)" in safe.text
    assert "Linear(8, 8), CustomPReLU(8)" in safe.text
    # The class that is there already is used.
    assert fixed(safe.text, unsafe=True).text == fixed(text, unsafe=True).text
    assert found(fixed(text, unsafe=True).text) == []


def test_the_class_is_written_once_and_fires_nothing() -> None:
    rows = "\n".join(f"self.a{i} = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8, init={i}))" for i in range(5))
    done = fixed(net(rows))
    assert done.rounds == 1
    assert done.text == net(rows.replace("nn.PReLU", "CustomPReLU"), head=HEAD + custom_prelu_text() + "\n\n")
    assert modellint.check_source(done.text).diagnostics == ()


HEADS: dict[str, tuple[str, str, str, Sequence[str]]] = {
    "torch.nn as nn": ("import torch\nimport torch.nn as nn\n", "nn.Module", "nn", ("nn", "torch")),
    "torch only": ("import torch\n", "torch.nn.Module", "torch.nn", ("torch.nn", "torch")),
    "other names": ("import torch as th\nfrom torch import nn as n\n", "n.Module", "n", ("n", "th")),
    "nn only": ("from torch import nn\n", "nn.Module", "nn", ("nn", "torch")),
    "a docstring and the future": (
        '"""Doc."""\nfrom __future__ import annotations\n\nimport torch\nfrom torch import nn\n', "nn.Module", "nn", ("nn", "torch"),
    ),
    "imports on conditions between": (
        "try:\n    import apex\nexcept ImportError:\n    apex = None\nimport torch; from torch import nn\n",
        "nn.Module", "nn", ("nn", "torch"),
    ),
    "imported twice": ("import torch\nfrom torch import nn\nimport torch\n", "nn.Module", "nn", ("nn", "torch")),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("gap", ["", "\n\n", "\nN = 8\n\n\n"])
def test_the_class_stands_below_the_imports(name: str, gap: str) -> None:
    head, base, nn, names = HEADS[name]
    text = net(f"self.a = {nn}.Sequential({nn}.Linear(8, 8), {nn}.PReLU(8))", head=head + gap, base=base)
    missing = "" if "import torch" in head else "import torch\n"
    start = head + missing + "\n\n" + custom_prelu_text(*names) + "\n\n"
    assert fixed(text).text == start + text.replace(f"{nn}.PReLU", "CustomPReLU")[len(head) :].lstrip("\n")


def test_imported_names() -> None:
    head = "import torch\nfrom torch.nn import Linear, Module, PReLU as P, Sequential\n\n\n"
    text = net("self.a = Sequential(Linear(8, 8), P(8))", head=head, base="Module")
    start = head + custom_prelu_text("torch.nn") + "\n\n"
    assert fixed(text).text == start + text.replace("P(8)", "CustomPReLU(8)")[len(head) :]


def test_line_ends_are_kept() -> None:
    text = net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))").replace("\n", "\r\n")
    done = fixed(text).text
    assert done.count("\n") == done.count("\r\n") > text.count("\r\n")


UNFIXABLE = {
    "the name is taken": HEAD + "class CustomPReLU(nn.Module):\n    pass\n\n\n",
    "the name may come from anywhere": "from layers import *\n"
    + HEAD
    + "def other():\n    return CustomPReLU(3)\n\n\n",
    "torch on a condition": "try:\n    import torch\nexcept ImportError:\n    torch = None\nfrom torch import nn\n\n\n",
    "torch imported later": "from torch import nn\n\n\ndef f():\n    pass\n\n\nimport torch\n\n\n",
}


@pytest.mark.parametrize("name", UNFIXABLE)
def test_no_fix(name: str) -> None:
    text = net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))", head=UNFIXABLE[name])
    (finding,) = found(text)
    assert finding.fix is None


def test_a_class_imported_from_modellint_is_used() -> None:
    head = "from modellint.nn import CustomPReLU\n" + HEAD
    text = net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))", head=head)
    assert fixed(text).text == text.replace("nn.PReLU", "CustomPReLU")


# The setting


def run(*options: str) -> Result:
    return CliRunner().invoke(cli, ["check", "--select", "OPS004", *options, "net.py"])


def test_prelu_import() -> None:
    text = net(
        "self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))\nself.b = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))"
    )
    Path("net.py").write_text(text, "utf-8")
    # With a cache of another setting's findings.
    assert run().exit_code == 1
    Path("modellint.toml").write_text('prelu-import = "modellint.nn"\n', "utf-8")
    assert run("--fix").exit_code == 0
    head = HEAD.replace("import nn\n", "import nn\nfrom modellint.nn import CustomPReLU\n")
    assert Path("net.py").read_text("utf-8") == head + text.replace("nn.PReLU", "CustomPReLU")[len(HEAD) :]


def test_prelu_import_of_its_own_project() -> None:
    Path("modellint.toml").write_text('prelu-import = "mine.layers"\n', "utf-8")
    Path("net.py").write_text(net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))"), "utf-8")
    assert "from mine.layers import CustomPReLU\n" in run("--diff").output


def test_prelu_import_in_the_file_that_it_names() -> None:
    Path("modellint.toml").write_text('prelu-import = "net"\n', "utf-8")
    text = net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))")
    Path("net.py").write_text(text, "utf-8")
    assert run("--fix").exit_code == 0
    start = HEAD + custom_prelu_text() + "\n\n"
    assert Path("net.py").read_text("utf-8") == start + text.replace("nn.PReLU", "CustomPReLU")[len(HEAD) :]


def test_prelu_import_that_stands_there_by_a_relative_name() -> None:
    Path("modellint.toml").write_text('prelu-import = "layers"\n', "utf-8")
    Path("layers.py").write_text("class CustomPReLU:\n    pass\n", "utf-8")
    text = net("self.a = nn.Sequential(nn.Linear(8, 8), nn.PReLU(8))", head="from .layers import CustomPReLU\n" + HEAD)
    Path("net.py").write_text(text, "utf-8")
    assert run("--fix").exit_code == 0
    assert Path("net.py").read_text("utf-8") == text.replace("nn.PReLU", "CustomPReLU")


@pytest.mark.parametrize("value", ['""', '"a b"', '"mine/layers.py"', '"a..b"', '"a.class"', "1"])
def test_prelu_import_must_be_a_module(value: str) -> None:
    Path("modellint.toml").write_text(f"prelu-import = {value}\n", "utf-8")
    Path("net.py").write_text("", "utf-8")
    done = run()
    assert done.exit_code == 2
    assert "prelu-import" in done.output


def test_no_fix_where_the_rank_always_is_four() -> None:
    init, forward = REMARKS["Conv2d"]
    assert [one.fix for one in modellint.check_source(net(init, forward)).diagnostics if one.code == "OPS004"] == [None]
    init, forward = REMARKS["not known"]
    assert all(one.fix for one in modellint.check_source(net(init, forward)).diagnostics if one.code == "OPS004")


def test_no_fix_in_a_class_of_images() -> None:
    init = "self.body = nn.ModuleList([nn.Conv2d(3, 8, 3)])\nif n > 3:\n    activation = nn.PReLU(8)\nself.body.append(activation)"
    findings = [
        part for part in modellint.check_source(net(init, arguments=", n=4")).diagnostics if part.code == "OPS004"
    ]
    assert [(part.severity, part.fix) for part in findings] == [(Severity.INFO, None)]


@pytest.mark.parametrize(
    ("version", "severity"), [("9.0", Severity.ERROR), ("9.1.dev1", Severity.ERROR), ("main-e0e2f42", None)]
)
def test_ranks_follow_the_version(version: str, severity: Severity | None) -> None:
    Path("modellint.toml").write_text(f"coreml-version = '{version}'\n", "utf-8")
    findings = found(net("self.layers = nn.Sequential(nn.Conv1d(8, 16, 1), nn.PReLU(16))", "return self.layers(x)"))
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])
    (wide,) = found(net("self.layers = nn.Sequential(nn.Conv3d(8, 16, 1), nn.PReLU(16))", "return self.layers(x)"))
    assert wide.severity is Severity.ERROR

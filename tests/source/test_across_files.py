"""Functions of other files: what a module's `forward` has them do is a finding where they stand."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
HELPERS = """
def count(x, n=3):
    if n > 2:
        return int(x.max())
    return n
"""
NET = """
class Net(nn.Module):
    def forward(self, x):
        {}
"""


def project(folder: Path, **files: str) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(HEAD + textwrap.dedent(text), "utf-8")


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The findings as file, row behind the head, and code."""
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, ["check", "--output-format", "json", *arguments])
    return [
        f"{Path(finding['filename']).name}:{finding['location']['row'] - HEAD.count(chr(10))} {finding['code']}"
        for finding in json.loads(result.stdout)
    ]


CALLED = {
    "by its name": ("from helpers import count", "return x * count(x)"),
    "by another name": ("from helpers import count as number", "return x * number(x)"),
    "as an attribute of its file": ("import helpers", "return x * helpers.count(x)"),
    "from an import in the method": ("", "from helpers import count\n        return x * count(x)"),
    "by partial": ("from functools import partial\nfrom helpers import count", "return x * partial(count, x)(n=4)"),
    "through a function of the file": (
        "from helpers import count\n\ndef through(y):\n    return count(y.abs())\n",
        "return x * through(x)",
    ),
    "through another file": ("from middle import through", "return x * through(x)"),
}


@pytest.mark.parametrize("case", CALLED)
@pytest.mark.parametrize("target", ["helpers.py", "."])
def test_what_forward_calls_elsewhere_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, target: str
) -> None:
    head, body = CALLED[case]
    middle = "from helpers import count\n\ndef through(y):\n    return count(torch.relu(y))\n"
    project(tmp_path, helpers=HELPERS, middle=middle, net=head + NET.format(body))
    assert checked(tmp_path, monkeypatch, target) == ["helpers.py:4 FLW002"]


def test_an_import_in_a_text_that_is_never_closed_is_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With two ways to match each comment this takes longer than anybody waits.
    text = '"""import (\n' + "# one of many, and no bracket\n" * 60 + '"""\n'
    project(tmp_path, helpers=HELPERS, net="from helpers import count\n" + NET.format("return x * count(x)"), text=text)
    assert checked(tmp_path, monkeypatch, "helpers.py") == ["helpers.py:4 FLW002"]


NOT_CALLED = {
    "nobody": ("", "return x"),
    "in training only": (
        "from helpers import count",
        "if self.training:\n            x = x * count(x)\n        return x",
    ),
    "with a number": ("from helpers import count", "return x * count(4)"),
    "so that it does not get there": ("from helpers import count", "return x * count(x, 1)"),
    "a function of the same name": ("def count(x):\n    return x\n", "return x * count(x)"),
}


@pytest.mark.parametrize("case", NOT_CALLED)
def test_what_forward_does_not_have_run_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    head, body = NOT_CALLED[case]
    project(tmp_path, helpers=HELPERS, net=head + NET.format(body))
    assert checked(tmp_path, monkeypatch, ".") == []


CALLERS = {
    "loss": NET.replace("Net", "CountLoss"),
    "tests__test_net": NET,
    "train": "def step(x):\n    {}\n",
    "augment": NET.replace("Net", "RandomCount"),
    "synthesizer": NET + "\n    def infer(self, x):\n        return x\n",
}


@pytest.mark.parametrize("file", CALLERS)
def test_who_is_not_exported_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    caller = "from helpers import count\n" + CALLERS[file].format("return x * count(x)")
    project(tmp_path, helpers=HELPERS, **{file: caller})
    assert checked(tmp_path, monkeypatch, ".") == []


def test_the_path_is_followed_by_rules_of_every_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = """
    def change(x, mask):
        y = torch.zeros_like(x)
        y[..., 0] = 3
        z = torch.linalg.eigvals(y)
        for row in x:
            z = z + row
        return z + torch.rand(4)

    @torch.jit.script
    def scripted(x):
        return x.sum().item()
    """
    net = "from helpers import change, scripted" + NET.format("return change(x, x > 0) + scripted(x)")
    project(tmp_path, helpers=helpers, net=net)
    assert checked(tmp_path, monkeypatch, "helpers.py") == [
        "helpers.py:4 MUT001",
        "helpers.py:5 OPS001",
        "helpers.py:6 FLW004",
        "helpers.py:8 OPS010",
    ]


def test_a_fix_rests_on_no_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = "\ndef fill(x):\n    x = x * 2\n    x[..., 0] = 3\n    return x\n"
    init = "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.conv = nn.Conv2d(3, 3, 3)\n\n"
    forward = "    def forward(self, x):\n        return fill(self.conv(x))\n"
    project(tmp_path, helpers=helpers, net="from helpers import fill\n" + init + forward)
    monkeypatch.chdir(tmp_path)
    output = CliRunner().invoke(cli, ["check", "--unsafe-fixes", "helpers.py"]).stdout
    assert "MUT001" in output
    assert ":, :" not in output.replace("`x[:, :, 1] = v`", "")


def test_it_is_said_who_has_it_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, helpers=HELPERS, models__net="from helpers import count" + NET.format("return x * count(x)"))
    monkeypatch.chdir(tmp_path)
    output = CliRunner().invoke(cli, ["check", "helpers.py"]).stdout
    assert "`forward` of `Net` in models/net.py runs this" in output


STEPS: list[dict[str, str]] = [
    {"net": "from helpers import count" + NET.format("return x * count(x)")},
    {"net": "from helpers import count" + NET.format("return x * count(x, 1)")},
    {"helpers": HELPERS.replace("n > 2", "n > 0")},
    {"helpers": HELPERS.replace("int(x.max())", "x.max()")},
    {"helpers": HELPERS, "middle": "from helpers import count\n\ndef through(y):\n    return count(y)\n"},
    {"net": "from middle import through" + NET.format("return x * through(x)")},
    {"middle": "def through(y):\n    return y\n"},
]


def test_findings_are_the_same_with_and_without_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, helpers=HELPERS, net=NET.format("return x"))
    counts = [len(checked(tmp_path, monkeypatch, "helpers.py"))]
    for step in STEPS:
        project(tmp_path, **step)
        for target in ("helpers.py", "."):
            cached = checked(tmp_path, monkeypatch, target)
            assert cached == checked(tmp_path, monkeypatch, target)
            assert cached == checked(tmp_path, monkeypatch, "--no-cache", target)
        counts.append(len(cached))
    assert counts == [0, 1, 0, 1, 0, 0, 1, 0]


BUFFERS = """
def update(buffer, value, rate=0.1, keep=False):
    if not keep:
        buffer.mul_(1 - rate).add_(value * rate)


def reset(buffer):
    buffer.zero_()


def scaled(buffer, value):
    return buffer * value
"""
SMOOTHED = """
class Smoothed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x):
        {}
        return (x - self.mean) / self.var
"""
CHANGES = {
    "each of two buffers": ("update(self.mean, x.mean(0))\n        update(value=x.var(0), buffer=self.var)", [10, 11]),
    "no buffer": ("update(x.clone(), x.mean(0))", []),
    "none, as it is told": ("update(self.mean, x.mean(0), keep=True)", []),
    "to a constant": ("reset(self.mean)", []),
    "nothing in place": ("x = scaled(self.mean, x)", []),
    "in training only": ("if self.training:\n            update(self.mean, x.mean(0))", []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_buffer_that_a_function_elsewhere_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    body, rows = CHANGES[case]
    project(tmp_path, buffers=BUFFERS, net="from buffers import reset, scaled, update" + SMOOTHED.format(body))
    monkeypatch.chdir(tmp_path)
    expected = [f"net.py:{row - 1} MUT005" for row in rows]
    assert checked(tmp_path, monkeypatch, "--select", "MUT005", "net.py") == expected
    # What the function does is looked up again as soon as it does something else.
    project(tmp_path, buffers=BUFFERS.replace("buffer.mul_", "buffer.mul"))
    assert checked(tmp_path, monkeypatch, "--select", "MUT005", "net.py") == []


@pytest.mark.parametrize(
    "call", ["self.net(x)", "self.net.forward(x)", "self.net.features(x)", "self.net.features(x)[-1]"]
)
def test_what_a_module_of_another_file_gives_is_written_to(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return self.lin(x)

        def features(self, x):
            return [self.lin(x)]
    """
    user = f"""
    from net import Net


    class Wrap(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def forward(self, x):
            y = {call}
            at = torch.arange(y.size(1))
            y[0, at] = 1.0
            return y
    """
    project(tmp_path, net=net, user=user)
    assert checked(tmp_path, monkeypatch, "--select", "MUT002", ".") == ["user.py:13 MUT002"]


@pytest.mark.parametrize(
    ("guard", "found"),
    [("if is_tensor(low):\n        low = low.detach()", []), ("low = low.detach()", ["bins.py:6 FLW003"])],
)
def test_what_may_be_a_tensor_may_be_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guard: str, found: list[str]
) -> None:
    bins = f"import numpy as np\nfrom kinds import is_tensor\n\ndef bins(low, n):\n    {guard}\n"
    bins += "    return torch.as_tensor(np.log(low * 2) * n)\n"
    net = "from bins import bins\n\nclass Net(nn.Module):\n    def forward(self, x, low=None):\n        return x + bins(low, 4)\n"
    kinds = "def is_tensor(data):\n    return type(data) == torch.Tensor\n"
    project(tmp_path, bins=bins, net=net, kinds=kinds)
    assert checked(tmp_path, monkeypatch, "--select", "FLW003", "bins.py") == found


SOURCE = """
class Source(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            loud = 0.1 * torch.randn_like(x)
        noise = torch.cat([loud, x.to(loud)]) / 3
        return self.mix(x), noise, x > 0
"""
VOCODER = """
from source import Source

class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = Source()

    def forward(self, x):
        {}
"""
DISCARDING = {
    "unpacked": ("y, _, _ = self.source(x)\n        return y * 2", True),
    "in brackets": ("[y, _, voiced] = self.source(x)\n        return y * voiced", True),
    "with a star": ("y, *rest = self.source(x)\n        return y * 2", True),
    "with a star in front": ("*_, voiced = self.source(x)\n        return voiced", True),
    "by a number": ("return self.source(x)[2]", True),
    "by numbers of a variable": ("parts = self.source(x)\n        return parts[0] * parts[2]", True),
    "read": ("y, noise, _ = self.source(x)\n        return y + noise", False),
    "read under the same name": ("_, _, voiced = self.source(x)\n        return _ * voiced", False),
    "star that is read": ("y, *rest = self.source(x)\n        return y + rest[0]", False),
    "taken by a number": ("return self.source(x)[1]", False),
    "whole": ("parts = self.source(x)\n        return parts[0] * len(parts)", False),
    "given back": ("return self.source(x)", False),
    "another width": ("y, _ = self.source(x)\n        return y", False),
    "not called": ("return x", False),
}


@pytest.mark.parametrize("case", DISCARDING)
def test_random_numbers_that_no_caller_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    # Conversion drops them.
    body, dropped = DISCARDING[case]
    project(tmp_path, source=SOURCE, vocoder=VOCODER.format(body))
    assert [line for line in checked(tmp_path, monkeypatch, ".") if "OPS010" in line] == (
        [] if dropped else ["source.py:9 OPS010"]
    )


ALSO_USED = {
    "another reads it": VOCODER.format("y, noise, _ = self.source(x)\n        return y + noise"),
    "a script exports it": "from source import Source\nnet = Source()\ntorch.jit.trace(net, torch.rand(2, 4))\n",
    "a function calls it": "from source import Source\ndef run(x):\n    net = Source()\n    y, _, _ = net(x)\n    return y\n",
    "a class derives from it": "from source import Source\nclass Other(Source):\n    pass\n",
    "a list holds it": "from source import Source\nsources = [Source()]\n",
}


@pytest.mark.parametrize("case", ALSO_USED)
def test_random_numbers_that_someone_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    first = VOCODER.format("y, _, _ = self.source(x)\n        return y * 2")
    project(tmp_path, source=SOURCE, vocoder=first, other=ALSO_USED[case])
    assert "source.py:9 OPS010" in checked(tmp_path, monkeypatch, ".")


KEPT = {
    "by an argument": "noise = self.mix(torch.randn_like(x))\n        self.last = noise\n        return x, noise, x",
    "in two places": "noise = torch.randn_like(x)\n        return noise + x, noise, x",
    "in place": "noise = torch.randn_like(x)\n        x += noise\n        return x, noise, x",
    "in the only value": "return x + torch.randn_like(x)",
    "by an operator that does not convert": "noise = torch.randperm(4)\n        return x, noise, x",
}


@pytest.mark.parametrize("case", KEPT)
def test_random_numbers_that_go_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    head = SOURCE[: SOURCE.index("with torch")]
    project(tmp_path, source=head + KEPT[case], vocoder=VOCODER.format("y, _, _ = self.source(x)\n        return y"))
    assert any("OPS010" in line for line in checked(tmp_path, monkeypatch, "."))

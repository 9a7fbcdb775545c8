"""Rules about state: parameters that are lost, buffers that go stale, statistics that move, writes to what may be a copy."""

from __future__ import annotations

import textwrap
from pathlib import Path

import nets
import pytest

import modellint
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
OURS = {"REG007", "REG009", "REG010", "MUT008", "MUT009", "MUT010"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(init: str, forward: str = "return x", arguments: str = "", extra: str = "") -> str:
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, x):\n{body}\n{extra}"
    )


def codes(text: str, *wanted: str) -> list[str]:
    return nets.codes(text, *wanted or OURS)


def fixed(text: str) -> str:
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics)
    assert done.problem is None
    return done.text


# REG010

BUILT = {
    "called at once": "return nn.Linear(2, 2)(x)",
    "moved": "return nn.Linear(2, 2).to(x.device)(x)",
    "variable": "conv = nn.Conv2d(3, 3, 1)\nreturn conv(x)",
    "moved later": "norm = nn.BatchNorm1d(3)\nif x.is_cuda:\n    norm = norm.cuda()\nreturn norm(x)",
    "sequence": "return nn.Sequential(nn.Linear(2, 2), nn.ReLU())(x)",
    "list": "parts = [nn.Linear(2, 2) for _ in range(3)]\nfor part in parts:\n    x = part(x)\nreturn x",
    "norm that learns": "return nn.LayerNorm(4)(x)",
    "forward of it": "return nn.Linear(2, 2).forward(x)",
    "helper": "return self._last(x)",
    "function": "return last(x)",
    "class of the project": "return Scale(3)(x)",
}
HELPERS = (
    "\n    def _last(self, x):\n        linear = nn.Linear(2, 2)\n        return linear(x)\n\n\n"
    "class Scale(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
    "        self.weight = nn.Parameter(torch.randn(width))\n\n    def forward(self, x):\n        return x * self.weight\n\n\n"
    "class Blur(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.register_buffer('kernel', torch.ones(3))\n\n    def forward(self, x):\n        return x * self.kernel\n\n\n"
    "def last(x):\n    return nn.Linear(2, 2)(x)\n"
)


@pytest.mark.parametrize("name", BUILT)
def test_built_in_forward(name: str) -> None:
    assert codes(net("self.n = 1", BUILT[name], extra=HELPERS)) == ["REG010"]


@pytest.mark.parametrize(
    "body",
    [
        "return nn.ReLU()(x)",
        "return nn.Softmax(dim=1)(x)",
        "return nn.CrossEntropyLoss()(x, x)",
        "return nn.CrossEntropyLoss(weight=x[0])(x, x)",
        "return nn.LayerNorm(4, elementwise_affine=False)(x)",
        "return nn.InstanceNorm2d(3)(x)",
        "return nn.Embedding.from_pretrained(x)(x)",
        "return nn.Sequential(self.conv, nn.ReLU())(x)",
        "if self.last is None:\n    self.last = nn.Linear(2, 2)\nreturn self.last(x)",
        "last = nn.Linear(2, 2)\nself.parts['a'] = last\nreturn last(x)",
        "last = nn.Linear(2, 2)\nlast.load_state_dict(torch.load('w.pt', map_location='cpu'))\nreturn last(x)",
        "blur = nn.Conv2d(1, 1, 3)\nblur.weight.data = x\nreturn blur(x)",
        "last = nn.Linear(2, 2)\nreturn last",
        "last = nn.Linear(2, 2)\nadapt(last)\nreturn last(x)",
        "return Blur()(x)",
        "import copy\nreturn copy.deepcopy(self.conv)(x)",
    ],
)
def test_not_built_in_forward(body: str) -> None:
    init = "self.last = None\nself.conv = nn.Conv2d(1, 1, 1)\nself.parts = nn.ModuleDict()"
    assert codes(net(init, body, extra=HELPERS), "REG010") == []


def test_a_cached_module_is_kept() -> None:
    extra = "\n    @once\n    def _last(self):\n        return nn.Linear(2, 2)\n"
    assert codes(net("self.n = 1", "return self._last()(x)", extra=extra), "REG010") == []


def test_a_decorated_forward_keeps_nothing() -> None:
    text = net("self.n = 1", "return nn.Linear(2, 2)(x)").replace(
        "    def forward", "    @torch.no_grad()\n    def forward"
    )
    assert codes(text) == ["REG010"]


def test_built_outside_of_forward() -> None:
    extra = "\n    def probe(self, x):\n        return nn.Linear(2, 2)(x)\n"
    assert codes(net("self.n = 1", extra=extra), "REG010") == []


# REG007


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        ("nn.Parameter(t).to(d)", "nn.Parameter((t).to(d))"),
        ("nn.Parameter(t, requires_grad=False).cuda()", "nn.Parameter((t).cuda(), requires_grad=False)"),
        ("nn.Parameter(torch.ones(3)).half()", "nn.Parameter((torch.ones(3)).half())"),
        ("nn.Parameter(t) * 0.1", "nn.Parameter((t) * 0.1)"),
        ("0.1 * nn.Parameter((t + 1))", "nn.Parameter(0.1 * ((t + 1)))"),
        ("(nn.Parameter(t) * 0.1).half()", "nn.Parameter(((t) * 0.1).half())"),
        ("-nn.Parameter(t)", "nn.Parameter(-(t))"),
        ("nn.Parameter(t).cuda() if d else None", "nn.Parameter((t).cuda()) if d else None"),
        ("nn.Parameter(\n    t\n).cuda()", "nn.Parameter((\n            t\n        ).cuda())"),
        ("nn.Parameter(t,).cuda()", "nn.Parameter((t).cuda())"),
    ],
)
def test_cast_of_a_parameter(lost: str, kept: str) -> None:
    text = net("self.w = " + lost, "return x * self.w", ", t, d")
    assert codes(text) == ["REG007"]
    assert "self.w = " + kept + "\n" in fixed(text)
    assert codes(fixed(text), "REG007") == []


@pytest.mark.parametrize(("flag", "found"), [(", requires_grad=False", []), ("", ["REG007"])])
def test_a_constant_that_forward_makes_each_time_is_not_lost(flag: str, found: list[str]) -> None:
    text = net("self.t = None", f"self.w = nn.Parameter(x.new_ones(3){flag}).to(x.device)\nreturn x * self.w")
    assert codes(text, "REG007") == found


@pytest.mark.parametrize(
    "init",
    [
        "self.w = nn.Parameter(t.to(d))",
        "self.w = nn.Parameter(torch.ones(3).to(d), requires_grad=True).to(d)",
        "self.w = nn.Parameter(torch.ones(3, device=d)).to(d)",
        "self.w = nn.Parameter(t).requires_grad_(False)",
        "self.w = nn.Parameter(t).detach()",
        "self.w = nn.Parameter(t).to(d)\nself.w = nn.Parameter(self.w)",
        "p = nn.Parameter(t)\nself.register_parameter('p', p)\nself.w = p * 2",
    ],
)
def test_parameter_that_stays(init: str) -> None:
    assert codes(net(init, "return x * self.w", ", t, d"), "REG007") == []


@pytest.mark.parametrize(
    "lost", ["nn.Parameter(t).long()", "nn.Parameter(t).to(torch.int8)", "nn.Parameter(*t).cuda()"]
)
def test_cast_without_a_fix(lost: str) -> None:
    text = net("self.w = " + lost, "return x * self.w", ", t")
    assert [(f.code, f.fix) for f in modellint.check_source(text).diagnostics if f.code in OURS] == [("REG007", None)]


def test_no_fix_where_the_attribute_changes() -> None:
    text = net("self.w = nn.Parameter(t).to(d)", "self.w += 1\nreturn x * self.w", ", t, d")
    assert [f.fix for f in modellint.check_source(text).diagnostics if f.code == "REG007"] == [None]


# REG009

BUFFERS = "self.register_buffer('a', torch.ones(3))\nself.register_buffer('b', torch.ones(3))\n"


@pytest.mark.parametrize(
    "init",
    [
        BUFFERS + "self.xs = [self.a, self.b]",
        BUFFERS + "self.xs = {'a': self.a}",
        BUFFERS + "self.xs = [self.a[0], self.a[1]]",
        "self.c = nn.Buffer(torch.ones(3))\nself.xs = [self.c]",
        "self.xs = []\nfor i in range(3):\n    t = torch.ones(i)\n    self.register_buffer(f't{i}', t)\n    self.xs.append(t)",
    ],
)
def test_container_of_buffers(init: str) -> None:
    text = net(init, "return x * self.xs[0]")
    assert [f.code for f in modellint.check_source(text).diagnostics if f.code in OURS | {"REG006"}] == ["REG009"]


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        (BUFFERS + "self.xs = [self.a, self.b]", "return x"),
        (BUFFERS + "self.xs = ['a', 'b']", "return x * getattr(self, self.xs[0])"),
        (BUFFERS + "self.xs = []", "self.xs = [self.a, self.b]\nreturn x * self.xs[0]"),
        ("self.p = nn.Parameter(torch.ones(3))\nself.xs = [self.p]", "return x * self.xs[0]"),
    ],
)
def test_container_that_stays_fresh(init: str, forward: str) -> None:
    assert codes(net(init, forward), "REG009") == []


# MUT010


@pytest.mark.parametrize(
    "body",
    [
        "z = x.t().reshape(6)\nz.add_(1)\nreturn z",
        "y = self.f(x)\nz = y.t().reshape(-1)\nz += 1\nreturn y, z",
        "y = x * 2\nz = y.permute(1, 0).flatten()\nz[0] = 1\nreturn y + z.sum()",
        "y = x * 2\nz = y.t().contiguous()\nz.mul_(2)\nreturn y, z",
        "y = x * 2\ny.t().reshape(-1)[0] = 1\nreturn y",
        "self.a.t().reshape(-1).zero_()\nreturn x",
        "y = x\nx = x.t().reshape(-1)\nx.add_(1)\nreturn x.sum() + y",
        "x = x.t().reshape(6)\nx.add_(1)",
        "a = self.a\na = a.t().reshape(6)\na.add_(1)\nreturn a",
        "y = x * 2\nfor i in range(3):\n    z = y.t().reshape(-1)\n    z[i] = 1\nreturn x",
    ],
)
def test_write_through_reshape(body: str) -> None:
    init = "self.f = nn.Linear(2, 2)\nself.register_buffer('a', torch.ones(2, 3))"
    assert codes(net(init, body)) == ["MUT010"]


@pytest.mark.parametrize(
    "body",
    [
        "z = torch.zeros(2, 3)\nz.reshape(-1)[2] = 1\nreturn x + z",
        "y = self.f(x)\ny = y.t().reshape(-1)\ny[0] = 1\nreturn y",
        "z = self.f(x).t().reshape(-1)\nz += 1\nreturn z",
        "y = x * 2\nz = y.t().reshape(-1)\nz += 1\ny = x\nreturn y, z",
        "y = x * 2\nz = y.t().reshape(-1)\nz = z + 1\nreturn y, z",
        "y = x * 2\ny.view(-1)[0] = 1\nreturn y",
        "self.a.reshape(-1)[0] = 1\nreturn x",
        "x = x.t().reshape(6)\nx.add_(1)\nreturn x.view(2, 3)",
        "for y in x:\n    y = y.t().reshape(-1)\n    y[:2].sigmoid_()\n    self.f(y)\nreturn x.shape",
    ],
)
def test_write_that_is_certain(body: str) -> None:
    init = "self.f = nn.Linear(2, 2)\nself.register_buffer('a', torch.ones(2, 3))"
    assert codes(net(init, body), "MUT010") == []


@pytest.mark.parametrize(("end", "expected"), [("y", []), ("y + x", ["MUT010"])])
def test_a_caller_that_reads_what_a_method_wrote_to(end: str, expected: list[str]) -> None:
    method = "\n    def flat(self, x):\n        x = x.t().reshape(-1)\n        x.add_(1)\n        return x\n"
    body = f"y = self.flat(x)\nreturn {end}"
    assert codes(net("pass", body) + method, "MUT010") == expected


# MUT008 and MUT009

MEAN = "self.register_buffer('mean', torch.zeros(3))"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.mean = 0.9 * self.mean + 0.1 * x.mean(0)", ["MUT008", "MUT009"]),
        ("self.mean = self.mean * .6 + x * .4", ["MUT008", "MUT009"]),
        ("self.mean = (1 - self.m) * self.mean + self.m * x.mean(0)", ["MUT008", "MUT009"]),
        ("with torch.no_grad():\n    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)", ["MUT008"]),
        ("self.mean = self.mean.detach() * .6 + x * .4", ["MUT008"]),
        ("self.mean = (self.mean * .6 + x * .4).detach()", ["MUT008"]),
        ("self.mean.data = 0.9 * self.mean.data + 0.1 * x.mean(0)", ["MUT008"]),
        ("self.mean.data.mul_(0.9).add_(0.1 * x.mean(0))", ["MUT008"]),
        ("self.mean.mul_(0.9).add_(0.1 * x.mean(0))", ["MUT008", "MUT009"]),
        ("new = 0.9 * self.mean + 0.1 * x.mean(0)\nself.mean.copy_(new)", ["MUT008", "MUT009"]),
        ("self.mean += 0.1 * (x.mean(0) - self.mean).detach()", ["MUT008"]),
        ("if self.training:\n    self.mean = self.mean * .6 + x * .4", ["MUT009"]),
        ("if x.size(0) > 1:\n    self.mean.lerp_(x.detach().mean(0), 0.1)", ["MUT008"]),
        ("self._update(x.detach())", ["MUT008"]),
    ],
)
def test_running_statistic(body: str, expected: list[str]) -> None:
    extra = "\n    def _update(self, x):\n        self.mean.lerp_(x.mean(0), 0.1)\n"
    assert codes(net(MEAN + "\nself.m = 0.1", body + "\nreturn x - self.mean", extra=extra)) == expected


@pytest.mark.parametrize(
    "body",
    [
        "if self.training:\n    with torch.no_grad():\n        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)",
        "if self.training and x.size(0) > 1:\n    self.mean.lerp_(x.detach().mean(0), 0.1)",
        "if not self.training:\n    return x - self.mean\nself.mean.lerp_(x.detach().mean(0), 0.1)",
        "if self.track:\n    self.mean.lerp_(x.detach().mean(0), 0.1)",
        "if not self.training:\n    self.mean.lerp_(x.detach().mean(0), 0.1)",
        "self.mean += 1",
        "self.mean = self.mean.to(x.device)",
        "self.mean = torch.cat([self.mean, x.detach().mean(0)])",
        "self.mean[0] = x.detach().mean()",
        "self.state = self.state * 0.9 + x.detach()",
        "self.mean = x.detach().mean(0)",
        "mean = self.mean.to(x.dtype)\nmean += x.detach().mean(0)",
    ],
)
def test_no_running_statistic_or_guarded(body: str) -> None:
    init = MEAN + "\nself.register_buffer('state', torch.zeros(3))\nself.track = True"
    assert codes(net(init, body + "\nreturn x - self.mean"), "MUT008", "MUT009") == []


@pytest.mark.parametrize(
    ("test", "value", "found"),
    [
        ("self.mean[2] < 0", "(x / self.mean[1]).mean() * 2", False),
        ("old < 0", "(x / self.mean[1]).mean() * 2", False),
        ("self.mean[1] < 0", "(x / self.mean[1]).mean() * 2", True),
        ("old < 0 or self.training", "(x / self.mean[1]).mean() * 2", True),
        ("self.training", "(x / self.mean[1]).mean() * 2", True),
        ("old < 9", "self.mean[2] * 0.9 + x.mean() * 0.1", True),
    ],
)
def test_element_that_is_set_where_its_old_value_says_so(test: str, value: str, found: bool) -> None:
    body = f"old = self.mean[2].item()\nif {test}:\n    self.mean[2] = {value}\nreturn x - self.mean"
    assert ("MUT009" in codes(net(MEAN, body))) is found


def test_statistic_that_only_other_methods_update() -> None:
    extra = "\n    def fit(self, x):\n        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)\n"
    assert codes(net(MEAN, "return x - self.mean", extra=extra), "MUT008", "MUT009") == []


def test_both_are_fixed_in_one_statement() -> None:
    text = net(MEAN, "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)\nreturn x - self.mean")
    expected = (
        "        if self.training:\n            self.mean = 0.9 * self.mean.detach() + 0.1 * x.mean(0)\n"
        "        return x - self.mean\n"
    )
    assert fixed(text).endswith(expected)


def test_fix_leaves_one_line_bodies_alone() -> None:
    text = net(MEAN, "if x.size(0) > 1: self.mean.lerp_(x.detach().mean(0), 0.1)\nreturn x - self.mean")
    assert [f.fix for f in modellint.check_source(text).diagnostics if f.code == "MUT008"] == [None]


@pytest.mark.parametrize(
    ("value", "is_lost"),
    [
        ("nn.Parameter(torch.ones(3)).float()", False),
        ("nn.Parameter(torch.ones(3)).to(torch.float32)", False),
        ("nn.Parameter(torch.ones(3)).cpu()", False),
        ("nn.Parameter(torch.ones(3).half()).float()", True),
        ("nn.Parameter(torch.ones(3, dtype=d)).float()", True),
        ("nn.Parameter(torch.ones(3)).float() * 2", True),
        ("nn.Parameter(torch.ones(3)).to(d)", True),
    ],
)
def test_a_cast_with_nothing_to_do_gives_the_parameter(value: str, is_lost: bool) -> None:
    assert codes(net("self.w = " + value, "return x * self.w", ", d"), "REG007") == ["REG007"] * is_lost

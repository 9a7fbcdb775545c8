"""Rules about operators that convert to something else, and about devices: source side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from nets import fixed, net, said

import modellint
from modellint.cli import cli


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# OPS006


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return torch.argmax(x)", "return x.reshape(-1).argmax(0)"),
        ("return x.argmin()", "return x.reshape(-1).argmin(0)"),
        ("return x.argmax(dim=None)", "return x.reshape(-1).argmax(0)"),
        ("return self.fc(x).softmax(-1).argmax()", "self.fc(x).softmax(-1).reshape(-1).argmax(0)"),
        ("return torch.argmax(x.view(4, 4))", "x.view(4, 4).reshape(-1).argmax(0)"),
        ("return x.argmax(keepdim=True)", "x.argmax(keepdim=True)"),
    ],
)
def test_argmax_over_all_dimensions(body: str, after: str) -> None:
    text = net(body, "self.fc = nn.Linear(4, 4)")
    assert said(text, "OPS006") == ["E1"]
    assert after in fixed(text, "OPS006")


@pytest.mark.parametrize(
    "body",
    [
        "return x.argmax(1)",
        "return torch.argmax(x, dim=-1)",
        "return x.reshape(-1).argmax()",
        "return x.flatten().argmax()",
        "return x[0].argmax()",
        "return x.sum(1).argmax()",
        "return x.argmax().item()",
        "return torch.arange(4).argmax() + x",
        "return self.other.argmax(x)",
    ],
)
def test_argmax_over_one_dimension(body: str) -> None:
    assert said(net(body), "OPS006") == []


# OPS012


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return x % 1", "return x - x.floor()"),
        ("return (x / 3) % 1.0", "return (x / 3) % 1.0"),
        ("y = x * 2\nreturn y // 1 + x", "return y.floor() + x"),
        ("return torch.sin(x % 1)", "torch.sin(x - x.floor())"),
        ("return 2 * (x % 1)", "x - x.floor()"),
        ("return self.fc(x) % 1", "return self.fc(x) % 1"),
    ],
)
def test_a_rounded_quotient_by_one(body: str, after: str) -> None:
    text = net(body, "self.fc = nn.Linear(4, 4)")
    assert said(text, "OPS012") == ["E1"] if "\n" not in body else len(said(text, "OPS012")) == 1
    assert after in fixed(text, "OPS012")


@pytest.mark.parametrize(
    "body",
    [
        "return x % 2",
        "return x // 10",
        "return x % 1.5",
        "return x // 1",
        "return x * (x.shape[0] % 1 + 1)",
        "return x.long() % 1 + x",
        "return x * (self.n % 1)",
        "return x + torch.arange(4) % 1",
        "return x[(x % 1).sum().item():] if False else x",
    ],
)
def test_other_quotients(body: str) -> None:
    assert said(net(body, "self.n = n"), "OPS012") == []


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return x * (1.0 / x.abs())", "return x * torch.div(1.0, x.abs())"),
        ("return (1 / (x.abs() + 1e-6))", "return torch.div(1, x.abs() + 1e-6)"),
        ("return (\n    2 / x.abs()\n)", "return torch.div(2, x.abs())"),
        ("return -1 / x.abs() / 3", "return torch.div(-1, x.abs()) / 3"),
        ("return x.exp().reciprocal()", "x.exp().reciprocal()"),
        ("return torch.reciprocal(x.abs())", "torch.reciprocal(x.abs())"),
        ("return F.relu(0.5 / self.fc(x)) + 1", "return F.relu(torch.div(0.5, self.fc(x))) + 1"),
        ("return x[(1 / x.abs()).argmax()]", "return x[torch.div(1, x.abs()).argmax()]"),
        ("return x * (1 / self.scale)", "return x * torch.div(1, self.scale)"),
        ("return x * (1.0 / (100 ** torch.arange(4.0)))", "return x * torch.div(1.0, 100 ** torch.arange(4.0))"),
    ],
)
def test_a_number_over_a_tensor(body: str, after: str) -> None:
    text = net(body, "self.fc = nn.Linear(4, 4)\nself.scale = nn.Parameter(torch.ones(4))")
    assert len(said(text, "OPS012")) == 1
    assert after in fixed(text, "OPS012")


@pytest.mark.parametrize(
    "body",
    [
        "return x / 2",
        "return x / x.abs()",
        "return 1 / (1 + x.exp())",
        "return 1 / (x.square() + 1.0)",
        "return x * (1 / x.shape[-1])",
        "return x * (1 / self.n)",
        "return x * (1 / self.made)",
        "return 2**31 / x.abs()",
        "return 0 / x.abs()",
        "return x * (1 / torch.arange(1, 5))",
        "return 1 / x.long()",
        "return F.interpolate(x, scale_factor=1 / k)",
        "return torch.div(1, x)",
        "y = 1 / x\nreturn x if self.training else x * 2",
        "if self.training:\n    x = 1 / x\nreturn x",
    ],
)
def test_other_divisions(body: str) -> None:
    init = "self.n = n\nself.made = 1 / torch.arange(1, n).sum().item()"
    assert [one for one in said(net(body, init), "OPS012") if not one.startswith("I")] == []


@pytest.mark.parametrize(
    "imported",
    [
        "",
        "import torch as th\n",
        "from compat import torch\n",
        "import torch\n\ntorch = torch.nn\n",
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n",
    ],
)
def test_a_fix_needs_the_name_of_torch(imported: str) -> None:
    text = net("return 1 / x.abs()").replace("import torch\n", imported)
    assert len(said(text, "OPS012")) == 1
    assert "return 1 / x.abs()" in fixed(text, "OPS012")


def test_a_number_that_callers_give(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        net("return x * (1 / scale)", arguments="x, scale", name="Scaled")
        + "\n\n"
        + net("return self.scaled(x, 2.0)", "self.scaled = Scaled()").partition("\n\n\n")[2]
    )
    arguments = ["check", "--output-format", "json", "--isolated", "--no-cache", "--select", "OPS012", str(tmp_path)]
    assert json.loads(CliRunner().invoke(cli, arguments).stdout) == []


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        ("nn.InstanceNorm2d(3, track_running_stats=True)", 1),
        ("nn.InstanceNorm2d(3, track_running_stats=False)", 0),
        ("nn.InstanceNorm2d(3)", 0),
        ("nn.BatchNorm2d(3, track_running_stats=True)", 0),
    ],
)
def test_statistics_of_an_instance_norm(layer: str, count: int) -> None:
    assert len(said(net("return self.norm(x)", f"self.norm = {layer}"), "OPS012")) == count


# OPS007


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return torch.add(x, y, alpha=3.0)", "return x + 3.0 * y"),
        ("return torch.sub(x, y + 1, alpha=2)", "return x - 2 * (y + 1)"),
        ("return x.add(y, alpha=-1)", "return x - y"),
        ("return x.sub(y, alpha=-1) * 2", "return (x + y) * 2"),
        ("return torch.rsub(x, y, alpha=2)", "return y - 2 * x"),
        ("return F.relu(torch.add(x * 2, y, alpha=3))", "return F.relu(x * 2 + 3 * y)"),
        ("return torch.add(x, x * y, alpha=3).mean()", "return (x + 3 * (x * y)).mean()"),
        ("z = x * 1\nz.add_(y, alpha=2)\nreturn z", "z.add_(y, alpha=2)"),
    ],
)
def test_alpha(body: str, after: str) -> None:
    text = net(body, arguments="x, y")
    assert len(said(text, "OPS007")) == 1
    assert after in fixed(text, "OPS007")


@pytest.mark.parametrize(
    "body",
    [
        "return torch.add(x, y)",
        "return torch.add(x, y, alpha=1)",
        "return x.add(y, alpha=self.n)",
        "return torch.addmm(x, x, y, alpha=2)",
        "if self.training:\n    return torch.add(x, y, alpha=3)\nreturn x",
    ],
)
def test_no_alpha(body: str) -> None:
    assert said(net(body, "self.n = n", arguments="x, y"), "OPS007") == []


# OPS008


@pytest.mark.parametrize(
    "body",
    [
        "return x[x[:, 0] > 0, j]",
        "return x[mask, j]",
        "return x[mask, x.argmax(1)]",
        "keep = ~mask\nreturn x[keep, j]",
        "return x[x[:, 0] > 0, [0, 1]]",
        "return x[x > 0, k]",
    ],
)
def test_mask_and_indices(body: str) -> None:
    text = net(body, arguments="x: torch.Tensor, j: torch.Tensor, mask: torch.Tensor, k")
    assert said(text, "OPS008") == [f"E{1 + body.count(chr(10))}"]


@pytest.mark.parametrize(
    "body",
    [
        "return x[mask]",
        "return x[mask, 0]",
        "return x[mask, :2]",
        "return x[mask, mask]",
        "return x[j, j]",
        "return x[mask.nonzero()[:, 0], j]",
        "x[mask, j] = 0\nreturn x",
        "return x[mask, n]",
    ],
)
def test_mask_or_indices(body: str) -> None:
    arguments = "x: torch.Tensor, j: torch.Tensor, mask: torch.Tensor, n: int"
    assert said(net(body, arguments=arguments), "OPS008") == []


# OPS009

DOUBLE = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


double = Double.apply
"""


@pytest.mark.parametrize("body", ["return Double.apply(x)", "return double(x) + 1"])
@pytest.mark.parametrize(("frontend", "expected"), [("auto", "W"), ("trace", "E"), ("export", "")])
def test_autograd_function(body: str, frontend: str, expected: str) -> None:
    Path("modellint.toml").write_text(f'frontend = "{frontend}"\n')
    found = modellint.check_source(net(body, head=DOUBLE)).diagnostics
    assert [one.severity.name[0] for one in found if one.code == "OPS009"] == list(expected)


@pytest.mark.parametrize(
    "body",
    ["return self.fn.apply(x)", "return x.apply(abs)", "if self.training:\n    x = Double.apply(x)\nreturn x"],
)
def test_other_apply(body: str) -> None:
    text = net(body, head=DOUBLE)
    assert "OPS009" not in {one.code for one in modellint.check_source(text).diagnostics}


@pytest.mark.parametrize(
    ("parameters", "given", "runs"),
    [
        ("ctx, x", "x, self.n", False),
        ("ctx, x, n", "x", False),
        ("ctx, x, n", "x, self.n", True),
        ("ctx, x, n=2", "x", True),
        ("ctx, x, *rest", "x, self.n", True),
        ("ctx, x", "*self.n", True),
    ],
)
def test_an_autograd_function_that_is_given_other_arguments_raises(parameters: str, given: str, runs: bool) -> None:
    head = (
        "\nclass Double(torch.autograd.Function):\n    @staticmethod\n"
        f"    def forward({parameters}):\n        return x * 2\n"
    )
    assert bool(said(net(f"return Double.apply({given})", "self.n = n", head=head), "OPS009")) is runs


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        ("y = x * 2", False),
        ("return", False),
        ("return None", False),
        ("if x.dim() > 1:\n            return x\n        return None", True),
    ],
)
def test_an_autograd_function_that_gives_none_is_a_stub(body: str, runs: bool) -> None:
    head = f"\nclass Stub(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        {body}\n"
    assert bool(said(net("return Stub.apply(x)", head=head), "OPS009")) is runs


COMPILED = """
import triton

from .kernels import scaled
from extension import fast, _C


@triton.jit
def kernel(x, y):
    pass


def helper(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y)
    return y


class Ours(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {}

    @staticmethod
    def backward(ctx, y):
        return _C.backward(y)
"""


@pytest.mark.parametrize(
    ("body", "opaque"),
    [
        ("return _C.run(x, 2)", "_C.run"),
        ("return fast(x)", "fast"),
        ("return scaled(x)", "scaled"),
        ("return helper(x)", "helper"),
        ("kernel[(1,)](x, x)\n        return x", "kernel"),
        ("return torch.relu(x)", None),
        ("return double(x.size(0)) * x", None),
        ("table = {1: abs}\n        return table[1](x)", None),
    ],
)
def test_autograd_function_of_compiled_code(body: str, opaque: str | None) -> None:
    head = COMPILED.format(body) + "\n\ndef double(n):\n    return max(n, 2)\n"
    (finding,) = modellint.check_source(net("return Ours.apply(x)", head=head)).diagnostics
    assert finding.code == "OPS009"
    assert (f"calls `{opaque}`" in finding.message) is (opaque is not None)
    assert ("takes what PyTorch itself computes" in finding.message) is (opaque is None)


@pytest.mark.parametrize(
    ("bound", "is_opaque"),
    [
        ("load('ext', sources=['a.cpp'])", True),
        ("cpp_extension.load_inline('ext', 'int f();')", True),
        ("torch.utils.cpp_extension.load('ext', ['a.cpp'])", True),
        ("make('ext')", False),
        ("torch.load('ext')", False),
    ],
)
def test_autograd_function_of_an_extension_that_the_file_compiles(bound: str, is_opaque: bool) -> None:
    head = f"from torch.utils import cpp_extension\nfrom torch.utils.cpp_extension import load\n\next = {bound}\n"
    head += COMPILED.format("return ext.run(x)")
    (finding,) = (
        one
        for one in modellint.check_source(net("return Ours.apply(x)", head=head)).diagnostics
        if one.code == "OPS009"
    )
    assert ("calls `ext.run`" in finding.message) is is_opaque


@pytest.mark.parametrize(
    ("bound", "is_opaque"),
    [
        ("ext = None\n\n\ndef compiled():\n    global ext\n    ext = load('ext', sources=['a.cpp'])\n", True),
        ("ext = load('ext', sources=['a.cpp'])\n", True),
        ("ext = print\n", False),
        ("ext = None\n", False),
        ("ext = ', '\n", False),
        ("class ext:\n    run = abs\n", False),
    ],
)
def test_autograd_function_that_imports_an_extension_as_it_runs(tmp_path: Path, bound: str, is_opaque: bool) -> None:
    (tmp_path / "parts.py").write_text("from torch.utils.cpp_extension import load\n\n" + bound)
    head = COMPILED.format("from parts import ext\n\n        return ext.run(x)")
    (tmp_path / "net.py").write_text(net("return Ours.apply(x)", head=head))
    arguments = ["check", "--output-format", "json", "--isolated", "--no-cache", "--select", "OPS009", str(tmp_path)]
    (finding,) = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert ("calls `ext.run`" in finding["message"]) is is_opaque


# OPS010


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.randn_like(x)",
        "noise = torch.randn(x.shape[0], 4)\nreturn x + noise",
        "return torch.bernoulli(x.sigmoid())",
        "return x * torch.empty(4).uniform_(0, 1)",
        "return self.sample(x)",
    ],
)
def test_random_numbers(body: str) -> None:
    text = net(body) + "\n    def sample(self, x):\n        return x + torch.rand(4)\n"
    assert len(said(text, "OPS010")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "if self.training:\n    x = x + torch.randn_like(x)\nreturn x",
        "if not self.training:\n    return x\nreturn x + torch.randn_like(x)",
        "return self.drop(x)",
        "loss = (x - torch.randn_like(x)).mean()\nreturn loss",
        "if random.random() < self.p:\n    return x\nreturn x * 2",
    ],
)
def test_random_numbers_of_training_losses_and_branches(body: str) -> None:
    text = "import random\n" + net(body, "self.drop = nn.Dropout()\nself.p = n", arguments="x, noise=None")
    assert said(text, "OPS010") == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for i in range(n):\n    for j in range(m):\n        y[i][j] = x[i][j] * 2", 0),
        ("for i in range(n):\n    row = x[i]\n    for j in range(m):\n        y[i, j, :] = row[j]", 0),
        ("for i in range(n):\n    y[i] = x[i]", 0),
        ("for i in range(n):\n    for j in range(m):\n        y[j][i] = x[i][j]", 1),
        ("for i in range(n):\n    if i:\n        y[i] = x[i]", 1),
        ("for i in range(1, n):\n    y[i] = x[i]", 1),
        ("for i in range(m):\n    y[i] = x[i]", 1),
        ("for i in range(n):\n    y[i] = x[i] + y[0]", 1),
        ("for i in range(n):\n    if x[i].dim() > 3:\n        break\n    y[i] = x[i]", 1),
        ("for i in range(n):\n    y[i] += x[i]", 1),
        ("for i in range(n):\n    y[i, 0] = x[i, 0]", 1),
        ("z = y * 2\nfor i in range(n):\n    y[i] = x[i]\ny = y + z", 1),
        ("n = 2\nfor i in range(n):\n    y[i] = x[i]", 1),
        ("if n > 2:\n    for i in range(n):\n        y[i] = x[i]", 1),
    ],
)
def test_random_numbers_that_are_overwritten(body: str, count: int) -> None:
    sizes = "n, m = x.shape[0], x.shape[1]\nplace = x.device\n"
    text = net(f"{sizes}y = torch.rand(n, m, 4).to(place)\n{body}\nreturn y")
    assert len(said(text, "OPS010")) == count


@pytest.mark.parametrize(
    "body",
    [
        "if noise is None:\n    noise = torch.randn_like(x)\nreturn x + noise",
        "if self.p == 0:\n    return x\nreturn x + torch.randn_like(x)",
        "return x + (torch.randn_like(x) if noise is None else noise)",
        "if noise is None:\n    noise = random.randint(1, 3)\nreturn x * noise",
    ],
)
def test_random_numbers_on_demand_are_for_information(body: str) -> None:
    text = "import random\n" + net(body, "self.p = n", arguments="x, noise=None")
    assert [one[0] for one in said(text, "OPS010")] == ["I"]


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        ("if reverse:\n    y = torch.rand(4)\nelse:\n    y = torch.randn(4)\nreturn x + y", "IW"),
        ("if reverse:\n    return x + torch.rand(4)\nelse:\n    y = torch.randn(4)\nreturn x + y", "IW"),
        (
            "if reverse:\n    y = 0\nelif x is None:\n    y = torch.rand(4)\nelse:\n    y = torch.randn(4)\nreturn x + y",
            "II",
        ),
        ("if reverse:\n    y = torch.rand(4) if self.p else 0\nelse:\n    y = torch.randn(4)\nreturn x + y", "II"),
        (
            "if self.p == 0:\n    return x\nif reverse:\n    y = torch.rand(4)\nelse:\n    y = torch.randn(4)\nreturn x + y",
            "II",
        ),
    ],
)
def test_random_numbers_in_both_branches_are_drawn_in_any_case(body: str, severities: str) -> None:
    text = net(body, "self.p = n", arguments="x, reverse=False")
    assert [one[0] for one in said(text, "OPS010")] == [*severities]


@pytest.mark.parametrize(
    ("caller", "count"),
    [
        ("device = x.device\nreturn x + self.bases(device=device)", 1),
        ("return x + self.bases(x.device)", 1),
        ("return x + self.bases(where)", 2),
    ],
)
@pytest.mark.parametrize("test", ["device", "device is not None"])
def test_a_device_that_every_caller_gives_is_true(caller: str, count: int, test: str) -> None:
    method = (
        f"\n    def bases(self, device=None):\n        if {test}:\n            y = torch.randn(4).to(device)\n"
        "        else:\n            y = torch.rand(4)\n        return y\n"
    )
    assert len(said(net(caller, arguments="x, where=None") + method, "OPS010")) == count


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("OLD", False),
        ("not OLD", True),
        ("torch.__version__ < '1.9'", False),
        ("Version(torch.__version__) == Version('1.13.0')", False),
        ("Version(torch.__version__) >= Version('2.0.0')", True),
        ("int(torch.__version__.split('.')[0]) < 2", False),
        ("tuple(map(int, torch.__version__.split('.')[:2])) < (1, 8)", False),
        ("(1, 8) <= tuple(int(n) for n in torch.__version__.split('.')[:2])", True),
        ("float(torch.__version__[:3]) < 1.6", False),
        ("torch.__version__.startswith('1.')", False),
        ("self.slow", False),
        ("not hasattr(F, 'scaled_dot_product_attention')", False),
        ("OLD and x.shape[0] > 2", False),
        ("int(torch.__version__.split('.')[1]) < 2", True),
        ("torch.__version__ < '2.5'", True),
        ("torch.__version__ >= '2.5'", True),
        ("Version(other.__version__) < Version('1.9')", True),
        ("not hasattr(F, 'future')", True),
        ("not hasattr(x, 'scaled_dot_product_attention')", True),
        ("not hasattr(x.relu(), 'scatter_reduce')", True),
        ("not hasattr(y, 'scatter_reduce')", False),
        ("not hasattr(y, 'future')", True),
        ("not hasattr(self, 'scatter_reduce')", True),
    ],
)
def test_what_only_older_versions_of_torch_run_is_not_told(condition: str, runs: bool) -> None:
    head = "import other\nimport torch\nfrom packaging.version import Version\n\nOLD = Version(torch.__version__) < Version('1.9')\n"
    init = "self.slow = not hasattr(torch.nn.functional, 'scaled_dot_product_attention')"
    text = head + net(f"y = x.relu()\nif {condition}:\n    x = x + torch.randn_like(x)\nreturn x", init)
    assert bool(said(text, "OPS010")) is runs


def test_modules_that_are_random_on_purpose() -> None:
    assert said(net("return x + torch.randn_like(x)", name="RandomNoise"), "OPS010") == []


# DEV001


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return x + torch.ones(4).cuda()", "torch.ones(4).to(x.device)"),
        ("return x + (torch.ones(4) + 1).cuda()", "(torch.ones(4) + 1).to(x.device)"),
        ('return x + torch.ones(4, device="cuda:0")', "torch.ones(4, device=x.device)"),
        ('return x + torch.ones(4).to("cuda")', "torch.ones(4).to(x.device)"),
        ('return x + torch.ones(4).to(torch.device("cuda"))', "torch.ones(4).to(x.device)"),
        ("x = x.cuda()\nreturn x * 2", "(self, x):\n        return x * 2"),
        ("return x.cuda(0) * 2", "return x * 2"),
        ("return x + torch.cuda.FloatTensor(4)", "torch.cuda.FloatTensor(4)"),
        ("return self.shift(x)", "torch.zeros(4).to(x.device)"),
    ],
)
def test_device_that_is_written_down(body: str, after: str) -> None:
    text = net(body) + "\n    def shift(self, x):\n        return x.abs() + torch.zeros(4).cuda()\n"
    assert len(said(text, "DEV001")) == 1
    assert after in fixed(text, "DEV001")


def test_a_wrapper_that_moves_its_inputs_is_not_robbed_of_that() -> None:
    text = net("return self.module(x.cuda(non_blocking=True))", "self.module = n")
    assert len(said(text, "DEV001")) == 1
    assert fixed(text, "DEV001") == text


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.ones(4, device=x.device)",
        "return x + torch.ones(4).to(x)",
        "return x + torch.ones(4).cuda(x.device)",
        "if x.is_cuda:\n    x = x + torch.ones(4).cuda()\nreturn x",
        "if torch.cuda.is_available():\n    x = x.cuda()\nreturn x",
        "return x.cpu()",
        'return x.to("cpu")',
        "torch.cuda.synchronize()\nreturn x",
        "if self.training:\n    x = x.cuda()\nreturn x",
    ],
)
def test_device_of_the_input(body: str) -> None:
    assert said(net(body), "DEV001") == []


@pytest.mark.parametrize(
    "init",
    [
        "self.fc = nn.Linear(n, 4).cuda()",
        "self.fc = nn.Sequential(*[nn.Linear(n, 4).cuda() for _ in range(n)])",
        "self.scale = nn.Parameter(torch.zeros(n).cuda())",
        'self.scale = nn.Parameter(torch.zeros(n, device="cuda"))',
    ],
)
def test_devices_that_a_model_is_built_on(init: str) -> None:
    assert len(said(net("return x", init), "DEV001")) == 1


@pytest.mark.parametrize(
    "init",
    [
        "self.fc = nn.Linear(n, 4)\nif n > 4:\n    self.fc = self.fc.cuda()",
        "self.fc = nn.Linear(n, 4).cuda() if torch.cuda.is_available() else nn.Linear(n, 4)",
        "self.fc = nn.Linear(n, 4).to('cpu')",
    ],
)
def test_devices_that_a_flag_chooses_or_the_cpu(init: str) -> None:
    assert said(net("return x", init), "DEV001") == []


def test_devices_outside_of_forward_are_clean() -> None:
    text = net("return x") + '\n    def predict(self, x):\n        return self.to("cuda")(x.cuda())\n'
    assert said(text, "DEV001") == []

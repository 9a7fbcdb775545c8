"""Rules about what tracing bakes in: branches, numbers and loops that depend on tensors."""

from __future__ import annotations

import textwrap
from pathlib import Path

import nets
import pytest

import modellint
from modellint.results.diagnostic import Severity

HEAD = "import numpy as np\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(forward: str, arguments: str = "x", init: str = "self.fc = nn.Linear(3, 3)", extra: str = "") -> str:
    def indented(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text).strip(), " " * 8)

    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, k=3, flag=False):\n        super().__init__()\n{indented(init)}\n\n"
        f"    def forward(self, {arguments}):\n{indented(forward)}\n{textwrap.indent(textwrap.dedent(extra), ' ' * 4)}"
    )


def codes(text: str, *wanted: str) -> list[str]:
    return nets.codes(text, *wanted or ["FLW", "MUT"])


@pytest.mark.parametrize(
    "forward",
    [
        "if x.sum() > 0:\n    x = x + 1\nreturn x",
        "if (x > 0).any():\n    x = x + 1\nreturn x",
        "return x * 2 if x.mean() > 0 else x",
        "while x.norm() > 1:\n    x = x / 2\nreturn x",
        "if not torch.isfinite(x).all():\n    x = x * 0\nreturn x",
        "if self.k > 1 and x.max() > 3:\n    x = x / 3\nreturn x",
        "y = self.fc(x)\nif y[0, 0] > 0:\n    y = y + 1\nreturn y",
        "if torch.equal(x, x.abs()):\n    x = x + 1\nreturn x",
        "if torch.allclose(x, x.abs()):\n    x = x + 1\nreturn x",
        "if x.sum().item() > 0:\n    x = x + 1\nreturn x",
        "if bool((x > 0).all()):\n    x = x + 1\nreturn x",
        "flag = not x.any()\nreturn x",
        "return x / max(x.abs().max(), 1.0)",
        "with torch.no_grad():\n    if F.relu(x).sum() > 0:\n        x = x + 1\nreturn x",
        "if self.training:\n    pass\nelif x.sum() > 0:\n    x = x + 1\nreturn x",
        "return [t for t in (x, x + 1) if t.sum() > 0]",
        "y = sum(t * 2 for t in (x, x + 1))\nif y.sum() > 0:\n    x = x + y\nreturn x",
        "y = sum([x, x.abs()], 0.0)\nif y.any():\n    x = x + y\nreturn x",
        "parts = []\nfor i in range(3):\n    parts.append(x[i])\nif parts[k].sum() > 0:\n    return x\nreturn -x",
    ],
)
def test_a_branch_on_a_tensor_is_found(forward: str) -> None:
    assert codes(net(forward, init="self.k = k\nself.fc = nn.Linear(3, 3)")) == ["FLW001"]


@pytest.mark.parametrize(
    "forward",
    [
        "if x.shape[0] > 1 and x.dim() == 2 and x.size(1) != 3 and x.numel() > 0 and len(x) > 1:\n    x = x + 1\nreturn x",
        "if x.dtype == torch.float32 and x.is_cuda and x.requires_grad:\n    x = x + 1\nreturn x",
        "if isinstance(x, torch.Tensor) and x is not None:\n    x = x.sum(0)\nreturn x",
        "y = torch.relu(x)\nif y != None:\n    x = x + y\nreturn x",
        "if self.training and x.sum() > 0:\n    x = x + 1\nreturn x",
        "if not self.training:\n    return x.relu()\nif x.sum() > 0:\n    x = x + 1\nreturn x",
        "if not torch.jit.is_tracing() and x.sum() > 0:\n    x = x + 1\nreturn x",
        "if torch.jit.is_tracing():\n    return x.abs()\nif x.sum() > 0:\n    x = x + 1\nreturn x",
        "if torch.jit.is_scripting():\n    if x.sum() > 0:\n        x = x + 1\nreturn x",
        "assert (x >= 0).all()\nreturn x",
        "assert x.min() >= 0 and (x.max() < 1 or not x.any())\nreturn x",
        "if self.fc.weight.sum() > 0:\n    x = x.abs()\nreturn x",
        "y = torch.arange(x.shape[0])\nif y.max() > 3:\n    x = x.abs()\nreturn x",
        "if self.k > 2 or self.flag:\n    x = x.abs()\nreturn x",
        "return torch.where(x.sum() > 0, x, -x)",
        "if x.type() == 'torch.FloatTensor':\n    x = x.abs()\nreturn x",
        "if sum(t.numel() for t in (x, x + 1)) > sum(x.shape):\n    x = x.abs()\nreturn x",
        "if sum([[x], [x]], []):\n    x = x.abs()\nreturn x",
        "parts = []\nfor i in range(3):\n    parts.append(x[i])\nif parts[k, :] > 0:\n    return x\nreturn -x",
    ],
)
def test_a_branch_on_what_tracing_knows_is_clean(forward: str) -> None:
    assert codes(net(forward, init="self.k, self.flag = k, flag\nself.fc = nn.Linear(3, 3)"), "FLW001") == []


@pytest.mark.parametrize(
    ("frontend", "severity"), [("auto", [Severity.WARNING]), ("trace", []), ("export", [Severity.ERROR])]
)
def test_a_check_of_values_is_refused_by_an_export_alone(frontend: str, severity: list[Severity]) -> None:
    Path("modellint.toml").write_text(f'frontend = "{frontend}"\n')
    text = net("if (x < 0).any():\n    raise ValueError('negative')\nreturn x")
    assert [one.severity for one in modellint.check_source(text).diagnostics if one.code == "FLW001"] == severity


@pytest.mark.parametrize(
    "forward",
    [
        "if not torch.compiler.is_compiling() and (x < 0).any():\n    raise ValueError('negative')\nreturn x",
        "if self.training and x.isnan().any():\n    print('diverged')\nreturn x",
        "if labels is not None:\n    if (x < 0).any():\n        raise ValueError('negative')\nreturn x",
    ],
)
def test_a_check_that_no_export_runs_is_clean(forward: str) -> None:
    assert codes(net(forward, "x, labels=None"), "FLW001") == []


def test_a_parameter_is_a_tensor_only_where_its_uses_say_so() -> None:
    assert codes(net("if scale > 1:\n    x = x.abs()\nreturn x * scale", "x, scale"), "FLW001") == []
    assert codes(net("if scale > 1:\n    x = x.abs()\nreturn x * scale.view(-1)", "x, scale")) == ["FLW001"]
    assert codes(net("if scale > 1:\n    x = x.abs()\nreturn x * scale", "x, scale: torch.Tensor")) == ["FLW001"]
    assert codes(net("if scale > 1:\n    x = x.abs()\nreturn x * scale", "x, scale: float"), "FLW001") == []
    assert codes(net("if scale > 1:\n    x = x.abs()\nreturn x * scale", "x, scale=1.0"), "FLW001") == []


def test_what_is_given_by_name_and_parts_of_outputs_are_data() -> None:
    other = "from elsewhere import Encoder\n\n\n"
    init = "self.encoder = Encoder()\nself.fc = nn.Linear(3, 3)"

    def asks(made: str) -> list[str]:
        return codes(other + net(f"y = {made}\nif y.sum() > 0:\n    y = y + 1\nreturn y", init=init))

    assert asks("self.encoder(pixels=x)") == ["FLW001"]
    assert asks("self.encoder(x).last_hidden_state") == ["FLW001"]
    assert asks("self.encoder(x).hidden_states[-1]") == ["FLW001"]
    assert asks("self.fc(self.encoder(pixels=x).pooled)") == ["FLW001"]
    assert asks("self.encoder(steps=4)") == asks("self.encoder(steps=4).table") == []
    flag = "out = self.encoder(x)\nif out.is_done or out.config or out.get_length() > 2:\n    x = x + 1\nreturn x"
    assert codes(other + net(flag, init=init), "FLW001") == []


def test_types_of_tensors_on_the_gpu_are_tensors() -> None:
    assert codes(net("if x > 1:\n    x = x.abs()\nreturn x", "x: torch.cuda.FloatTensor")) == ["FLW001"]


def test_only_what_forward_reaches_counts() -> None:
    helper = "\ndef pick(self, x):\n    return x if x.sum() > 0 else -x\n"
    assert codes(net("return self.pick(x.abs())", extra=helper)) == ["FLW001"]
    assert codes(net("return x.abs()", extra=helper), "FLW001") == []


def test_a_loss_is_left_alone() -> None:
    text = net("if x.sum() > 0:\n    x = x + 1\nreturn x.sum().item()").replace("class Net", "class FocalLoss")
    assert codes(text, "FLW001", "FLW002") == []


def test_tests_are_left_alone() -> None:
    text = net("if x.sum() > 0:\n    x = x + 1\nreturn x")
    Path("tests").mkdir()
    assert not modellint.check_source(text, "tests/test_net.py").diagnostics
    assert not modellint.check_source(text, "test.py").diagnostics
    assert modellint.check_source(text, "net.py").diagnostics


BRANCH = "if x.sum() > 0:\n    x = x + 1\n"


@pytest.mark.parametrize(
    "text",
    [
        net(f"{BRANCH}loss = x.mean()\nreturn loss, x"),
        net(f"if self.fc is None:\n    return x\n{BRANCH}return F.mse_loss(x, x * 2)"),
        net(f"{BRANCH}return self.loss.mean()", init="self.loss = None"),
        net(f"{BRANCH}return x", "x, labels"),
        net(f'"""Compute the loss of a batch."""\n{BRANCH}return x'),
        net(f"{BRANCH}return x").replace("class Net", "class PretrainWrapper"),
        net(f"{BRANCH}return x").replace("class Net", "class ScaleDiscriminator"),
        net(
            "return self.beam_search(x)",
            extra=f"\ndef beam_search(self, x):\n    {BRANCH.replace(chr(10), chr(10) + '    ')}return x\n",
        ),
        net("if self.debug:\n    x = x * x.sum().item()\nreturn x", init="self.debug = flag"),
        net("if x.dtype == torch.float16 and x.isinf().any():\n    x = x.clamp(-1, 1)\nreturn x"),
        net("return [part for spk in range(x.shape[1]) for part in x[:, spk].chunk(2)]"),
    ],
)
def test_what_is_trained_searched_or_said_is_for_information(text: str) -> None:
    said = modellint.check_source(text).diagnostics
    assert {one.severity for one in said if one.code.startswith("FLW")} == {Severity.INFO}


@pytest.mark.parametrize(
    "text",
    [
        net(f"{BRANCH}return x, loss", "x, loss=None"),
        net(f"{BRANCH}return x", "x, labels=None"),
        net(f'"""Classify.\n\n    labels: for the loss.\n    """\n{BRANCH}return x'),
        net("if torch.log(x.sum()) > 0:\n    x = x * x.sum().item()\nreturn x"),
    ],
)
def test_what_may_be_given_a_loss_is_as_usual(text: str) -> None:
    said = modellint.check_source(text).diagnostics
    assert {one.severity for one in said if one.code.startswith("FLW")} == {Severity.ERROR}


@pytest.mark.parametrize(
    "forward",
    [
        "return x * x.sum().item()",
        "n = int(x.max())\nreturn x[:n]",
        "return x / float(x.abs().max())",
        "return x * x.mean(0).tolist()[0]",
        "return x + torch.from_numpy(x.abs().numpy())",
        "n = x.long().max().item() + 1\nif n > 3:\n    x = x * 2\nreturn x",
    ],
)
def test_a_number_out_of_a_tensor_is_found(forward: str) -> None:
    assert codes(net(forward)) == ["FLW002"]


@pytest.mark.parametrize(
    "forward",
    [
        "return x * int(x.shape[0]) * float(x.size(1)) * len(x)",
        "return x.abs() * self.fc.weight.max().item()",
        "print(x.sum().item())\nreturn x",
        "loss = x.sum()\nstats = {'loss': loss.item()}\nreturn x",
        "if self.training:\n    self.fc(x * x.sum().item())\nreturn x",
    ],
)
def test_numbers_of_shapes_of_parameters_and_in_print_are_clean(forward: str) -> None:
    assert codes(net(forward), "FLW002") == []


def test_numpy_on_tensors_and_its_random_numbers_are_found() -> None:
    assert codes(net("return torch.tensor(np.abs(x.detach()))")) == ["FLW003"]
    assert codes(net("return x.abs() * np.random.rand()")) == ["FLW003"]
    assert codes(net("p = np.random.rand()\nif self.training and p < 0.1:\n    return x\nreturn x * 2"), "FLW003") == []
    assert codes(net("return x.abs() * np.sqrt(x.shape[-1])"), "FLW003") == []
    assert codes(net("if self.training:\n    x = x.abs() * np.random.rand()\nreturn x"), "FLW003") == []
    assert codes(net("self.seed = int(np.random.randint(9))\nreturn x.abs()"), "FLW003") == []
    assert codes(net("return x.abs() * int(np.random.randint(9))"), "FLW003") == ["FLW003"]


@pytest.mark.parametrize(
    "forward",
    [
        "y = x.abs()\nfor i in range(x.shape[0]):\n    y = y + i\nreturn y",
        "b, n = x.shape\nfor i in range(1, n):\n    x = x + i\nreturn x",
        "return torch.stack([t for t in x.abs()])",
        "for i, t in enumerate(x.abs()):\n    x = x + i\nreturn x",
        "for t in x.unbind(0):\n    x = x + 1\nreturn x.abs()",
        "i = 0\nwhile i < x.size(0):\n    i = i + 1\nreturn x",
        "for i in range(len(x.abs())):\n    x = x + i\nreturn x",
        "y = x.max(dim=-1).values\nfor i in range(y.shape[0]):\n    x = x + i\nreturn x",
        "parts = [t.split(2) for t in (x.abs(), x * 2)]\nfor left, right in zip(*parts):\n    x = x + 1\nreturn x",
        "for i, t in zip(range(x.size(1)), x.abs()):\n    x = x + i\nreturn x",
        "return torch.stack([torch.stack([t, t]) for t in x.abs()])",
        "return torch.stack([torch.stack([torch.cat(t) for t in (x, x)]) for t in x.abs()])",
        "y = []\nfor row in x.abs():\n    row = row.split(2, dim=-1)\n    y.append(torch.cat(row))\nreturn y[0]",
    ],
)
def test_a_loop_as_long_as_a_tensor_is_found(forward: str) -> None:
    assert codes(net(forward)) == ["FLW004"]


@pytest.mark.parametrize(
    "forward",
    [
        "for i in range(self.k):\n    x = x + i\nreturn x.abs()",
        "x = torch.stack([torch.stack(row, dim=0) for row in x], dim=0)\nreturn x * x[:, 0]",
        "parts = []\nfor row in x:\n    parts.append(torch.cat(row))\nreturn parts[0].abs()",
        "for layer in self.layers:\n    x = layer(x)\nreturn x",
        "for i in range(x.dim()):\n    x = x + i\nreturn x",
        "for i in range(len(x.shape)):\n    x = x + i\nreturn x",
        "for w in self.fc.weight:\n    x = x * w\nreturn x",
        "y = x.view(-1, 3, 4)\nfor i in range(y.shape[1]):\n    x = x + i\nreturn x",
        "for part in x.chunk(2):\n    x = x + 1\nreturn x",
        "y = x.reshape(x.shape[0], self.k, -1)\nfor i in range(y.size(1)):\n    x = x + i\nreturn x",
        "y = x.reshape(x.shape[0], self.k, -1)\nb, k, n = y.shape\nfor i in range(k):\n    x = x + i\nreturn x",
        "y = x.reshape(x.shape[0], self.k, -1)\nfor part in y.unbind(dim=1):\n    x = x + 1\nreturn x",
        "y = x.view(x.size(0), -1)\nfor _ in range(y.dim() - 1):\n    x = x + 1\nreturn x",
        "y = x.view(x.size(0), -1)\nwhile y.ndim > 2:\n    y = y[0]\nreturn y",
        "for t in x.abs():\n    print(t.shape)\nreturn x",
        "b = x.size(0)\ny = x.view(b, -1).chunk(2, 1)\nfor i in range(len(y)):\n    x = x + i\nreturn x",
        "pairs = [(x, x * 2), (x + 1, x)]\nfor left in zip(*pairs):\n    x = x + 1\nreturn x.abs()",
        "for layer, i in zip(self.layers, range(x.size(1))):\n    x = layer(x[:, i])\nreturn x",
        "return torch.cat([f(x[..., i]) for f, i in zip(self.layers, range(x.size(-1)))], -1)",
    ],
)
def test_a_loop_of_a_fixed_number_of_turns_is_clean(forward: str) -> None:
    init = "self.k = k\nself.fc = nn.Linear(3, 3)\nself.layers = nn.ModuleList([nn.Linear(3, 3)])"
    assert codes(net(forward, init=init), "FLW004") == []


def test_a_size_that_a_layer_of_torch_was_built_with_is_fixed() -> None:
    text = (
        f"{HEAD}class Norm(nn.GroupNorm):\n    def forward(self, x):\n        n, c, d = x.shape\n"
        "        y = x.view(n, self.num_groups, c // self.num_groups, d)\n        for i in range(y.size(1)):\n"
        "            x = x + i\n        return x\n"
    )
    assert codes(text, "FLW004") == []


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        ("for state in states:\n    x = x + 1\nreturn x", Severity.INFO),
        ("final_states = x.abs()\nfor state in final_states:\n    x = x + state\nreturn x", Severity.INFO),
        ("hidden_states = x.abs()\nfor state in hidden_states:\n    x = x + state\nreturn x", Severity.WARNING),
        ("for i in range(x.shape[1]):\n    x = self.beam_search(x)\nreturn x", Severity.INFO),
    ],
)
def test_loops_over_states_and_of_a_search_are_for_information(forward: str, severity: Severity) -> None:
    text = net(forward, arguments="x, states: torch.Tensor", init="self.beam_search = nn.Linear(3, 3)")
    found = [one for one in modellint.check_source(text).diagnostics if one.code == "FLW004"]
    assert [one.severity for one in found] == [severity]


def test_an_assertion_says_that_an_argument_is_no_tensor() -> None:
    loop = "{guard}y = [part * 2 for part in x]\nreturn torch.stack(y) + x.mean()"
    assert codes(net(loop.format(guard="")), "FLW004") == ["FLW004"]
    assert codes(net(loop.format(guard="assert isinstance(x, dict)\n")), "FLW004") == []


COMPILED = """
class Net(nn.Module):
    def forward(self, x):
        return scaled(x.relu())


{decorator}
def scaled(x):
    rows = []
    for i in range(x.shape[1]):
        rows.append(x[:, i].cumsum(-1))
    if x.sum() > 0:
        x = x + 1
    return part(x) + torch.stack(rows)


def part(x):
    return x * x.max().item()
"""


@pytest.mark.parametrize(
    ("head", "decorator"),
    [
        ("", "@torch.jit.script"),
        ("", "@torch.jit.script_if_tracing"),
        ("", "@torch.jit._script_if_tracing"),
        ("compiled = torch.jit.script_if_tracing", "@compiled"),
        ("from torch.jit import script as compiled", "@compiled"),
        (
            "try:\n    compiled = torch.jit.script\nexcept AttributeError:\n    def compiled(f):\n        return f",
            "@compiled",
        ),
        ("compiled = torch.jit.script if nn else (lambda f: f)", "@compiled\n@torch.no_grad()"),
    ],
)
def test_a_trace_keeps_what_torchscript_compiles(head: str, decorator: str) -> None:
    text = f"{HEAD}{head}\n{COMPILED.format(decorator=decorator)}"
    assert codes(text) == []
    Path("modellint.toml").write_text('frontend = "export"\n')
    findings = [finding for finding in modellint.check_source(text).diagnostics if finding.code.startswith("FLW")]
    assert [finding.code for finding in findings] == ["FLW004", "FLW001", "FLW002"]
    assert not any("tracing" in finding.message for finding in findings)


def test_what_is_given_to_torchscript_is_compiled() -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        return {}(x)\n\n\ndef fast(x):\n    return x * x.max().item()\n\n\n"
    assert codes(HEAD + net.format("compiled") + "compiled = torch.jit.script(fast)\n") == []
    assert codes(HEAD + net.format("fast") + "compiled = torch.jit.script(fast)\n") == ["FLW002"]


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@torch.jit.ignore", "@compiled"])
def test_other_decorators_compile_nothing(decorator: str) -> None:
    text = f"{HEAD}def compiled(f):\n    return f\n\n\n{COMPILED.format(decorator=decorator)}"
    assert sorted(codes(text)) == ["FLW001", "FLW002", "FLW004"]


def test_a_compiled_check_converts_by_no_route() -> None:
    text = f"{HEAD}class Net(nn.Module):\n    def forward(self, x):\n        return checked(x)\n\n\n"
    text += "@torch.jit.script\ndef checked(x):\n    if (x > 9).any():\n        raise ValueError('x')\n    return x\n"
    assert [finding.message for finding in modellint.check_source(text).diagnostics] == [
        "`torch.export` refuses a check of the values of a tensor, and coremltools what TorchScript compiles of one"
    ]


def test_a_decorator_of_another_file_may_compile(tmp_path: Path) -> None:
    (tmp_path / "compat.py").write_text(
        "import torch\nif torch:\n    script = torch.jit.script\nelse:\n    script = torch.jit.script_if_tracing\n"
    )
    file = tmp_path / "model.py"
    file.write_text(f"{HEAD}from compat import script\n{COMPILED.format(decorator='@script')}")
    assert nets.codes(file.read_text(), "FLW", filename=str(file)) == []


@pytest.mark.parametrize(
    ("made", "dim", "count"),
    [
        ("F.conv1d(x, self.kernel)", 1, 0),
        ("torch.log(F.conv1d(x.pow(2), self.kernel) + self.guard)", 1, 0),
        ("F.conv1d(x, self.kernel)", 2, 1),
        ("F.conv1d(x, x.abs())", 1, 1),
        ("F.linear(x, self.kernel)", -1, 0),
        ("F.linear(x, self.kernel)", 0, 1),
        ("F.embedding(x, self.kernel)", -1, 0),
        ("self.conv(x)", 1, 0),
        ("self.conv(x)", 2, 1),
        ("self.table(x)", -1, 0),
        ("self.table(x)", 0, 1),
    ],
)
def test_a_size_that_weights_decide_is_fixed(made: str, dim: int, count: int) -> None:
    init = (
        "self.register_buffer('kernel', n.squeeze(0))\nself.guard = float(n)\n"
        "self.conv = nn.Conv1d(3, 8, 1)\nself.table = nn.Embedding(9, 4)"
    )
    forward = f"y = {made}\nfor i in range(y.shape[{dim}]):\n    x = x + i\nreturn x"
    assert len(codes(net(forward, init=init), "FLW004")) == count


@pytest.mark.parametrize(
    ("added", "count"),
    [
        ("y = x + self.table", 0),
        ("y = self.fc(x.reshape(-1, w)).reshape(b, c, h, w) * self.table", 0),
        ("y = x.transpose(1, 2) + self.table", 1),
        ("y = x + self.row", 1),
        ("y = x + n", 1),
        ("y = x\nif n:\n    y = x + self.table", 1),
        ("if n:\n    return x\ny = x + self.table", 1),
        ("y = x + self.table if n else x", 1),
    ],
)
def test_a_size_that_a_parameter_fixes_which_is_always_added(added: str, count: int) -> None:
    init = (
        "self.fc = nn.Linear(n, n)\nself.table = nn.Parameter(torch.randn(1, 1, 49, n) * 0.1)\n"
        "self.row = nn.Parameter(torch.randn(1, 1, 1, n))"
    )
    forward = f"b, c, h, w = x.shape\n{added}\nfor i in range(h):\n    y = y + i\nreturn y"
    assert len(codes(net(forward, "x, n=2", init=init), "FLW004")) == count


@pytest.mark.parametrize(
    ("test", "body", "count"),
    [
        ("n > 1 and x.shape[1] % n != 0", "n -= 1", 0),
        ("size % n", "n -= 1", 0),
        ("size % n != 0", "print(n)\n    n += 1", 0),
        ("size % n != 0", "x = F.pad(x, (0, 1))\n    n -= 1", 1),
        ("size % 8 != 0", "size += 1", 1),
        ("size % n != 0", "size += 1\n    n -= 1", 1),
        ("n < size", "n += 1", 1),
    ],
)
def test_a_loop_that_looks_for_a_divisor(test: str, body: str, count: int) -> None:
    forward = f"size = x.size(1)\nn = self.parts\nwhile {test}:\n    {body}\nreturn x.unflatten(1, (n, size // n))"
    assert len(codes(net(forward, init="self.parts = n"), "FLW004")) == count


@pytest.mark.parametrize(
    ("guard", "count"),
    [
        ("assert not self.crop", 0),
        ("assert n > 1 and not (self.crop or n)", 0),
        ("if self.crop:\n    raise NotImplementedError", 0),
        ("with torch.no_grad():\n    assert not self.crop", 1),
        ("assert not self.crop or n", 1),
        ("assert self.crop", 1),
        ("assert not self.changed", 1),
        ("assert not rows\nrows.append(x)", 1),
        ("assert not n\nn = len(x)", 1),
        ("if n:\n    assert not self.crop", 1),
    ],
)
def test_what_an_assertion_in_front_excludes_is_not_run(guard: str, count: int) -> None:
    tests = {"changed": "self.changed", "rows": "rows", "not n\n": "n"}
    test = next((test for part, test in tests.items() if part in guard), "self.crop")
    forward = f"rows = []\n{guard}\nif {test}:\n    for i in range(x.size(0)):\n        x = x + i\nreturn x"
    extra = "\ndef change(self):\n    self.changed = True\n"
    init = "self.crop = flag\nself.changed = flag"
    assert len(codes(net(forward, "x, n=2", init=init, extra=extra), "FLW004")) == count


def test_an_assertion_behind_a_condition_excludes_nothing() -> None:
    forward = "if n:\n    for i in range(x.size(0)):\n        x = x + i\nassert not n\nreturn x"
    assert codes(net(forward, "x, n=2"), "FLW004") == ["FLW004"]
    forward = "if mask is not None:\n    raise ValueError\nif mask is {}None:\n    for i in range(x.size(0)):\n        x = x + i\nreturn x"
    assert codes(net(forward.format("not "), "x, mask"), "FLW004") == []
    assert codes(net(forward.format(""), "x, mask"), "FLW004") == ["FLW004"]


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("k = math.gcd(int(old), int(new))", 0),
        ("k = int(old) // int(new)\nassert min(old, new) > 0", 0),
        ("k = 2 * old", 1),
        ("k = int(old) + int(new)\nx = x * old.abs()", 2),
        ("k = int(old) + int(new)\nx = x + torch.relu(old)", 2),
        ("k = int(old[0]) + int(new)", 1),
    ],
)
def test_a_parameter_that_is_made_whole_is_a_number(use: str, count: int) -> None:
    forward = f"{use}\nat = torch.floor(torch.arange(0, 8) * old / new)\nreturn x[: at.max().item()]"
    assert len(codes(net(forward, "x, old, new"), "FLW002")) == count


@pytest.mark.parametrize(
    ("use", "severity"),
    [
        ("rows.tofile('rows.raw')", Severity.INFO),
        ("np.save('rows.npy', rows)", Severity.INFO),
        ("np.savetxt('rows.txt', X=rows)", Severity.INFO),
        ("rows.tofile('rows.raw')\nx = x * rows[0]", Severity.ERROR),
        ("x.tofile(rows)", Severity.ERROR),
        ("self.save('rows.npy', rows)", Severity.ERROR),
    ],
)
def test_an_array_that_is_only_written_to_a_file(use: str, severity: Severity) -> None:
    text = "import numpy as np\n" + net(f"x = x.relu()\nrows = x.detach().numpy()\n{use}\nreturn x")
    found = [finding for finding in modellint.check_source(text).diagnostics if finding.code == "FLW002"]
    assert [finding.severity for finding in found] == [severity]


@pytest.mark.parametrize(
    ("guard", "count"),
    [
        ("isinstance(outs[0], tuple)", 0),
        ("isinstance(outs[0], (tuple, list)) and x.dim() == 3", 0),
        ("isinstance(outs[0], torch.Tensor)", 1),
        ("isinstance(outs[1], tuple)", 1),
        ("not isinstance(outs[0], tuple)", 1),
        ("isinstance(outs[0], tuple) or x.dim() == 3", 1),
    ],
)
def test_the_length_of_what_is_shown_to_be_a_tuple_is_no_size(guard: str, count: int) -> None:
    forward = f"outs = [self.fc(x), x * 2]\nif {guard}:\n    for i in range(len(outs[0])):\n        x = x + outs[0][i]\nreturn x"
    assert len(codes(net(forward), "FLW004")) == count


def test_the_length_of_an_element_is_not_that_of_the_list() -> None:
    forward = "outs = [self.fc(x[:, i]) for i in {}]\nn = len(outs[0])\nfor i in range(n):\n    x = x + i\nreturn x"
    init = "self.fc = self.build()"
    assert codes(net(forward.format("range(0, 3)"), init=init), "FLW004") == []
    assert codes(net(forward.format("range(0, x.shape[1])"), init=init), "FLW004") == ["FLW004"]


@pytest.mark.parametrize(
    ("guard", "count"),
    [
        ("if isinstance(x, (list, tuple)) and len(x) > 1:\n        return True", 0),
        ("if isinstance(x, list):\n        return True\n    return False", 0),
        ("return isinstance(x, (list, tuple)) and len(x) == 2", 0),
        ("return isinstance(x, (list, torch.Tensor))", 1),
        ("return len(x) > 1 or isinstance(x, list)", 1),
        ("if isinstance(x, list):\n        return True\n    return len(x) > 1", 1),
        ("return not isinstance(x, list)", 1),
    ],
)
def test_a_type_guard_says_that_an_argument_is_no_tensor(guard: str, count: int) -> None:
    guarding = f"\n\ndef is_pair(x):\n    {guard}\n"
    forward = "if is_pair(x):\n    for i in range(len(x)):\n        y = x[i] * 2\nreturn x.abs()"
    assert len(codes(net(forward) + guarding, "FLW004")) == count


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("self.seen.append((x.mean().item(), 1))\n        return x", "info"),
        ("self.seen.append(x.mean().item())\n        return x * self.seen[-1]", "error"),
        ("most = x.amax().item()\n        return x", "info"),
        ("most = x.amax().item()\n        return x * most", "error"),
        (
            "most = 1.0\n        for row in range(3):\n            x = x * most\n            most = x.amax().item()\n        return x",
            "error",
        ),
        (
            "for most in (x, x + 1):\n            y = most * 2\n            most = most.amax().item()\n        return y",
            "info",
        ),
        (
            "def scaled():\n            return x * most\n        most = x.amax().item()\n        return scaled()",
            "error",
        ),
    ],
)
def test_a_number_that_nothing_reads_is_information(body: str, severity: str) -> None:
    text = (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.seen = []\n\n"
    )
    text += f"    def forward(self, x):\n        {body}\n"
    findings = [finding for finding in modellint.check_source(text).diagnostics if finding.code == "FLW002"]
    assert [finding.severity.name.lower() for finding in findings] == [severity]


@pytest.mark.parametrize(
    ("constant", "test", "count"),
    [
        ("FAST = True", "FAST", 1),
        ("FAST = False", "FAST", 0),
        ("FAST: bool = False", "FAST and x is not None", 0),
        ("FAST = False", "not FAST", 1),
        ("FAST = bool(1)", "not FAST", 1),
        ("FAST = True\nFAST = bool(0)", "not FAST", 1),
        ("FAST = True\n\n\ndef slow():\n    global FAST\n    FAST = False", "not FAST", 1),
    ],
)
def test_a_constant_of_the_file_decides_a_branch(constant: str, test: str, count: int) -> None:
    net = f"class Net(nn.Module):\n    def forward(self, x):\n        if {test}:\n            return x * x.max().item()\n        return x\n"
    assert codes(f"{HEAD}{constant}\n\n\n{net}").count("FLW002") == count


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("type(x) == torch.Tensor", 0),
        ("type(x) is not np.ndarray", 0),
        ("type(x) is np.ndarray", 1),
        ("type(x) != torch.Tensor", 1),
    ],
)
def test_a_comparison_of_types_says_what_is_no_tensor(test: str, count: int) -> None:
    net = f"import numpy as np\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        x = x.relu()\n        if {test}:\n"
    net += "            return x\n"
    net += "        return np.moveaxis(x, 0, 1)\n"
    assert codes(HEAD + net).count("FLW003") == count


LENGTHS = [
    "picked = x[x.abs() > 1]",
    "picked = x.view(-1)[x.flatten() > 1] * 2",
    "picked = x[(x.abs() > 1) & ~(x.abs() > 2)]",
    "rows = (x.sum(1) > 0).nonzero().squeeze(1)\npicked = x[rows, :2]",
    "picked = torch.where(x.sum(1) > 0)[0]",
    "(picked,) = torch.nonzero(x.sum(1), as_tuple=True)",
    "picked = x.long().unique().float()",
    "picked = x.masked_select(x > 0).clone()",
    "_, order = x.sum(1).sort()\npicked = order[order > 2]\nif self.flag:\n    picked = picked[1:]",
]


@pytest.mark.parametrize("made", LENGTHS)
def test_the_length_of_what_values_pick_is_a_number_of_them(made: str) -> None:
    assert codes(net(f"{made}\nreturn torch.zeros(len(picked))", init="self.flag = flag"), "FLW") == ["FLW002"]
    assert codes(net(f"{made}\nreturn torch.zeros(picked.shape[0])", init="self.flag = flag"), "FLW") == []


@pytest.mark.parametrize(
    "test", ["len(picked) > 0", "picked.size(0) < self.k", "not picked.numel()", "picked.shape[0]"]
)
@pytest.mark.parametrize("made", LENGTHS[:4])
def test_a_branch_on_the_length_of_what_values_pick_is_found(made: str, test: str) -> None:
    text = net(f"{made}\nif {test}:\n    x = x + 1\nreturn x", init="self.k = k")
    assert codes(text, "FLW") == ["FLW001"]


def test_a_loop_over_the_length_of_what_values_pick_is_told_once() -> None:
    head = "picked = x[x.abs() > 1]\n"
    assert codes(net(f"{head}for i in range(len(picked)):\n    x = x + i\nreturn x"), "FLW") == ["FLW004"]
    assert codes(net(f"{head}while picked.size(0) > 3:\n    picked = picked[1:]\nreturn x"), "FLW") == ["FLW004"]


@pytest.mark.parametrize(
    "made",
    [
        "picked = x.abs()[:, x[0].abs() > 1]",
        "picked = x.abs()[rows]",
        "picked = x[x.abs() > 1][:1]",
        "picked = x.abs()[x.long() & 3]",
        "picked = x.abs()[(x.long() ^ x.long().abs()) & (self.fc.in_features - 1)]",
        "picked = torch.where(x > 0)",
        "picked = torch.nonzero(x, as_tuple=True)",
        "picked = torch.where(x > 0, x, x + 1)",
        "picked = x[x.abs() > 1].view(3, -1)",
        "picked = x[x.abs() > 1].sum(0)",
        "values, picked = x.unique(return_inverse=True)",
        "picked = x.abs().sort()[1]",
    ],
)
def test_other_lengths_are_sizes(made: str) -> None:
    text = f"{made}\nif len(picked) > 2:\n    x = x + 1\nreturn x * len(picked)"
    assert codes(net(text, arguments="x, rows"), "FLW") == []


def test_numbers_that_a_loop_goes_through_are_taken_out() -> None:
    assert codes(net("for row in x.long().flatten().tolist():\n    x = x + row\nreturn x"), "FLW002") == ["FLW002"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x[i] = self.rows[i](x[i])", []),
        ("x[i] = torch.cat((self.rows[i](x[i]), self.others[i](x[i])), 1)", []),
        ("x[i] = x[i] * 2", ["MUT007", "FLW004"]),
        ("x[i] = self.rows[0](x[i])", ["MUT007", "FLW004"]),
    ],
)
def test_an_argument_with_an_element_for_each_layer_is_a_list(body: str, found: list[str]) -> None:
    init = "self.rows = nn.ModuleList(nn.Conv2d(c, 4, 1) for c in (2, 4))\nself.others = nn.ModuleList(nn.Conv2d(c, 4, 1) for c in (2, 4))"
    text = net(
        f"for i in range(2):\n    {body}\nsize = x.shape\nreturn torch.cat([part.flatten(2) for part in x], 2)",
        init=init,
    )
    assert nets.codes(text, "MUT007", "FLW004") == found


def test_a_comprehension_has_variables_of_its_own() -> None:
    text = "rows = [part.flatten(2) for part in x]\n{}\nreturn torch.cat(rows, 2)"
    assert codes(net(text.format("first, last = (x.transpose(0, 1) for x in self.make(rows))")), "FLW004") == []
    assert (
        codes(net(text.format("first, last = (y.transpose(0, 1) for y in x.transpose(0, 1))")), "FLW004")
        == ["FLW004"] * 2
    )


def test_what_is_joined_is_no_tensor() -> None:
    text = "size = x.shape\nrows = [part * 2 for part in x]\n{}return torch.cat(x, 1), rows"
    assert codes(net(text.format("")), "FLW004") == []
    assert codes(net(text.format("x = [*rows]\n")), "FLW004") == ["FLW004"]


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("x * 2 if type(x) == torch.Tensor else np.moveaxis(x, 0, 1)", []),
        ("np.moveaxis(x, 0, 1) if isinstance(x, np.ndarray) else x * 2", []),
        ("np.moveaxis(x, 0, 1) if type(x) == torch.Tensor else x * 2", ["FLW003"]),
        ("(x if isinstance(x, np.ndarray) else x * 2) + np.moveaxis(x, 0, 1)", ["FLW003"]),
    ],
)
def test_a_conditional_expression_narrows_what_it_asks_for(choice: str, found: list[str]) -> None:
    assert codes(net(f"x = x.relu()\nreturn {choice}"), "FLW003") == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return Image.fromarray(rows).convert('RGB')", []),
        ("rows = Image.fromarray(rows.clip(0, 1))\nreturn rows", []),
        ("if n:\n    return Image.fromarray(rows)\nreturn Image.open(n)", []),
        ("rows = Image.fromarray(rows)\nrows = torch.tensor(n)\nreturn rows", ["FLW003"]),
        ("if n:\n    return x\nreturn Image.fromarray(rows)", ["FLW003"]),
        ("return torch.tensor(rows), Image.fromarray(rows)", ["FLW003"]),
        ("return np.fromarray(rows)", ["FLW003"]),
    ],
)
def test_what_gives_images_is_not_exported(body: str, found: list[str]) -> None:
    head = "import numpy as np\nfrom PIL import Image\n"
    text = head + net(f"x = x.relu()\nrows = np.moveaxis(x, 0, 1)\n{body}", "x, n=0")
    assert codes(text, "FLW003") == found


@pytest.mark.parametrize(("element", "expected"), [("[]", []), ("x * 2", ["FLW004"])])
def test_places_made_for_each_row_are_no_loop_over_them(element: str, expected: list[str]) -> None:
    text = net(f"rows = [{element} for _ in range(x.shape[0])]\nreturn rows[0], x")
    assert codes(text, "FLW004") == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("rows = {i: [] for i in range(x.shape[0])}", []),
        ("rows = [dict() for _ in range(x.shape[0])]", []),
        ("rows = []\nfor _ in range(x.shape[0]):\n    rows.append({})", []),
        ("rows = {}\nfor i in range(x.shape[0]):\n    rows[i] = set()", []),
        ("rows = []\nfor _ in range(x.shape[0]):\n    rows.append(x)", ["FLW004"]),
        ("rows = []\nfor i in range(x.shape[0]):\n    rows.append([x[i]])", ["FLW004"]),
        ("rows = {i: x[i] for i in range(x.shape[0])}", ["FLW004"]),
    ],
)
def test_a_loop_that_touches_no_tensor_is_unrolled_into_nothing(loop: str, expected: list[str]) -> None:
    assert codes(net(f"{loop}\nreturn x.relu(), rows"), "FLW004") == expected


@pytest.mark.parametrize(
    ("rest", "severity"),
    [
        ("if n > self.k:\n    print(f'{n} of {self.k}')\nreturn x", Severity.INFO),
        ("if n > self.k:\n    raise ValueError(n)\nreturn x", Severity.INFO),
        ("warnings.warn(f'{n}')\nreturn x", Severity.INFO),
        ("if n > self.k:\n    print(n)\n    x = x * 2\nreturn x", Severity.ERROR),
        ("if n > self.k:\n    print(n)\nreturn x * n", Severity.ERROR),
        ("x = x[:n]\nprint(n)\nreturn x", Severity.ERROR),
    ],
)
def test_a_number_that_only_a_message_reads_is_for_information(rest: str, severity: Severity) -> None:
    text = "import warnings\n" + net(f"n = x.sum(-1).max().item()\n{rest}", init="self.k = k")
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "FLW002"]
    assert [one.severity for one in findings] == [severity]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("n = x.sum() if self.k else 3\nreturn x * np.log(n)", []),
        ("n = x.sum() if self.k else None\nreturn x * np.log(n)", ["FLW003"]),
        ("n = x.sum()\nif is_tensor(n):\n    return x * 2\nreturn x * np.log(n)", []),
        ("n = x.sum()\nif is_tensor(n):\n    return x * np.log(n)\nreturn x", ["FLW003"]),
    ],
)
@pytest.mark.parametrize("told", ["type(one) == torch.Tensor", "torch.is_tensor(one)", "isinstance(one, torch.Tensor)"])
def test_numpy_at_work_on_what_may_be_a_number(body: str, found: list[str], told: str) -> None:
    text = net(body, init="self.k = k") + f"\n\ndef is_tensor(one):\n    return {told}\n"
    assert codes(text, "FLW003") == found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b, c, h, w = x.shape\nfor i in range(c):\n    x = x + i\nreturn x", ["FLW004"]),
        ("b, c, h, w = x.shape\ny = self.conv(x)\nfor i in range(c):\n    y = y + x[:, i].sum()\nreturn y", []),
        ("y = self.conv(x)\nfor i in range(x.size(1)):\n    y = y + x[:, i].sum()\nreturn y", []),
        ("y = self.fc(x)\nfor i in range(x.shape[-1]):\n    y = y + x[..., i].sum()\nreturn y", []),
        ("y = self.fc(x)\nfor i in range(x.shape[1]):\n    y = y + x[:, i].sum()\nreturn y", ["FLW004"]),
        ("y = self.conv(x)\nfor i in range(x.size(2)):\n    y = y + x[:, :, i].sum()\nreturn y", ["FLW004"]),
        ("y = self.pool(x)\nfor i in range(x.size(1)):\n    y = y + x[:, i].sum()\nreturn y", ["FLW004"]),
    ],
)
def test_the_channels_of_what_a_convolution_takes_are_as_many_as_its_weights_say(
    body: str, expected: list[str]
) -> None:
    init = "self.conv = nn.Conv2d(3, 8, 1)\nself.fc = nn.Linear(3, 3)\nself.pool = nn.AvgPool2d(3)"
    assert codes(net(body, init=init), "FLW004") == expected


@pytest.mark.parametrize(
    ("loop", "joined", "count"),
    [
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.cat(parts, 1)", 0),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.cat(parts, dim=0)", 1),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.stack(parts, 1).view(b, -1, h, w)", 0),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.stack(parts, 2).view(b, -1, h, w)", 1),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.stack(parts, 1).view(-1, c, h, w)", 1),
        ("for i in range(n):\n    if i:\n        parts.append(x[:, i])", "torch.cat(parts, 1)", 1),
        ("for i in range(n):\n    if i > 2:\n        break\n    parts.append(x[:, i])", "torch.cat(parts, 1)", 1),
        ("parts = [x[:, i] for i in range(n)]", "torch.cat(parts, 1)", 0),
        ("parts = [x[:, i] for i in range(n) if i]", "torch.cat(parts, 1)", 1),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.cat((torch.cat(parts, 1), x[:, 0]), 1)", 0),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.cat((torch.cat(parts, 2), x[:, 0]), 1)", 1),
        ("for i in range(n):\n    parts.append(x[:, i])\nfor i in range(n):\n    x = x * i", "torch.cat(parts, 1)", 0),
        ("for i in range(n):\n    parts.append(x[:, i])\nfor i in range(h):\n    x = x * i", "torch.cat(parts, 1)", 1),
    ],
)
def test_turns_that_are_channels_of_a_convolution_are_counted_by_its_weights(
    loop: str, joined: str, count: int
) -> None:
    forward = f"b, n, c, h, w = x.shape\nparts = []\n{loop}\ny = {joined}\nreturn self.conv(y)"
    assert len(codes(net(forward, init="self.conv = nn.Conv2d(12, 8, 3)"), "FLW004")) == count


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("wide.shape[-1] // narrow.shape[-1]", 0),
        ("wide.size(2) / narrow.size(2)", 0),
        ("wide.shape[-1] // narrow.shape[-2]", 1),
        ("wide.shape[-1] // x.shape[-1]", 1),
        ("wide.shape[-1] // 2", 1),
    ],
)
def test_a_ratio_of_sizes_is_no_size(size: str, count: int) -> None:
    forward = (
        f"wide, narrow = self.deep(x)\nk = {size}\nfor i in range(int(48 / k)):\n    x = x + i\nreturn x * wide.mean()"
    )
    init = "self.deep = nn.Conv2d(3, 8, 3)"
    forward = forward.replace("wide, narrow = self.deep(x)", "wide = self.deep(x)\nnarrow = self.deep(wide)")
    assert len(codes(net(forward, init=init), "FLW004")) == count


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("keep = nms(x, y, 0.5)\nreturn torch.full((len(keep),), 1)", "FLW002"),
        (
            "keep = torchvision.ops.batched_nms(x, y, y, 0.5)\nif x[keep].shape[0] > 9:\n    return x\nreturn x[keep]",
            "FLW001",
        ),
    ],
)
def test_how_many_boxes_a_suppression_keeps(body: str, code: str) -> None:
    text = nets.net(body, arguments="x, y", head="import torchvision\nfrom torchvision.ops import nms")
    assert nets.codes(text, "FLW00") == [code]


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("flag = False", False),
        ("flag = True", True),
        ("flag = False\nflag = y.dim() > 2", True),
        ("flag = False\nfor flag in (True, False):\n    pass", True),
    ],
)
def test_branch_under_a_flag_of_the_function(flag: str, found: bool) -> None:
    body = f"{flag}\nif flag and x.dim():\n    y = y * x.max().item()\nreturn y"
    assert nets.said(nets.net(body, arguments="x, y"), "FLW002") == [f"E{flag.count(chr(10)) + 3}"] * found


@pytest.mark.parametrize(
    ("pattern", "dim", "count"),
    [
        ("'b c (u h) (v w) -> (b c) u v h w', u=self.k, v=self.k", 1, 0),
        ("'b c (u h) (v w) -> (b c) u v h w', u=self.k, v=self.k", 3, 1),
        ("'b (u c) h w -> b u c h w', c=3", 1, 1),
        ("'b c h w -> b 1 (h w) c'", 1, 0),
        ("'b ... -> b (...)'", 1, 1),
    ],
)
def test_an_axis_that_a_pattern_binds_is_fixed(pattern: str, dim: int, count: int) -> None:
    forward = f"y = rearrange(x, {pattern})\nfor i in range(y.shape[{dim}]):\n    x = x + i\nreturn x"
    text = "from einops import rearrange\n" + net(forward, "x: torch.Tensor", init="self.k = k")
    assert len(codes(text, "FLW004")) == count


@pytest.mark.parametrize(
    ("filled", "made", "count"),
    [
        ("for i in range(self.k):\n    parts.append(x[:, i])", "torch.stack(parts)", 0),
        ("for i in range(self.k):\n    for j in range(2):\n        parts.append(x[:, i + j])", "torch.stack(parts)", 0),
        ("for i, m in enumerate(self.layers):\n    parts.append(m(x[:, i]))", "torch.stack(parts)", 0),
        ("for i in range(self.k):\n    parts.append(x[:, i])", "torch.stack(parts).relu().double()", 0),
        ("for i in range(self.k):\n    parts.append(x.reshape(-1)[:1].reshape(1))", "torch.cat(parts)", 0),
        ("for i in range(self.k):\n    parts.append((x.shape[2], i))", "torch.as_tensor(parts)", 0),
        # What is joined is as long as the input itself, or the list is.
        ("for i in range(self.k):\n    parts.append(x.reshape(-1))", "torch.cat(parts)", 1),
        ("for i in range(self.k):\n    parts.append(x[:, i])\nparts += [x[:, 0]] * len(x)", "torch.stack(parts)", 1),
        ("for i in range(self.k):\n    parts.append(x[:, i])\nfill(parts)", "torch.stack(parts)", 1),
        ("for i in range(n):\n    parts.append(x[:, i])", "torch.stack(parts)", 0),
        ("for i in range(self.k):\n    if i > n:\n        break\n    parts.append(x[:, i])", "torch.stack(parts)", 1),
    ],
)
def test_a_tensor_of_a_list_of_fixed_length_is_as_long(filled: str, made: str, count: int) -> None:
    init = "self.k = k\nself.layers = nn.ModuleList([nn.Linear(3, 3)])"
    forward = f"parts = []\n{filled}\ny = {made}\nfor row in y:\n    x = x + row.sum()\nreturn x"
    assert len(codes(net(forward, "x: torch.Tensor, n: int = 2", init=init), "FLW004")) == count


def test_a_list_with_a_part_for_each_row_is_as_long_as_the_input() -> None:
    forward = "parts = []\nfor i in range(len(x)):\n    parts.append(x[i])\ny = torch.stack(parts)\n"
    forward += "for row in y:\n    x = x + row\nreturn x"
    assert codes(net(forward, "x: torch.Tensor"), "FLW004") == ["FLW004", "FLW004"]


@pytest.mark.parametrize(
    ("product", "count"),
    [
        ("torch.spmm(y, self.weight)", 0),
        ("torch.matmul(y, self.weight.reshape(2, 3).t())", 0),
        ("y @ self.weight", 0),
        ("y @ x", 1),
        ("torch.matmul(self.weight, y)", 1),
    ],
)
def test_turns_that_are_multiplied_by_weights_are_fixed(product: str, count: int) -> None:
    init = "self.weight = nn.Parameter(torch.zeros(6, 3))\nself.flag = flag"
    forward = "rows = []\nfor part in parts:\n    if self.flag:\n        rows.append(part * 2)\n    else:\n        rows.append(part)\n"
    forward += f"y = torch.cat(rows, -1)\nreturn {product}"
    assert len(codes(net(forward, "x, parts: torch.Tensor", init=init), "FLW004")) == count


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ("torch.full((len(x),), 20)", 0),
        ("torch.ones(len(x), dtype=torch.long) * 20", 0),
        ("torch.full((2,), x.shape[1])", 1),
        ("torch.arange(x.shape[1])", 1),
    ],
)
def test_the_shape_of_a_tensor_says_nothing_of_what_it_holds(lengths: str, count: int) -> None:
    forward = f"lengths = {lengths}\nfor t in range(max(lengths)):\n    x = x + t\nreturn x.relu()"
    assert len(codes(net(forward, "x: torch.Tensor"), "FLW004")) == count


@pytest.mark.parametrize(
    ("size", "severity"),
    [
        ("parts.shape[1]", Severity.INFO),
        ("points.shape[1]", Severity.INFO),
        ("points.shape[0]", Severity.WARNING),
        ("self.fc(x).shape[1]", Severity.WARNING),
    ],
)
def test_a_size_that_only_unseen_code_tells_is_for_information(size: str, severity: Severity) -> None:
    forward = "points = final_points(x)\nparts = points.view(len(x), -1, 2)\nx = x + points.transpose(1, 2)\n"
    forward += f"for k in range({size}):\n    x = x + k\nreturn x"
    text = "from heads import final_points\n" + net(forward, "x: torch.Tensor")
    found = [finding for finding in modellint.check_source(text).diagnostics if finding.code == "FLW004"]
    assert [finding.severity for finding in found] == [severity]


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        (
            "for i, (h, w) in enumerate(table):\n    y = y + x[:, at : at + h * w].view(1, h, w).sum()\n    at = at + h * w\nreturn y",
            Severity.INFO,
        ),
        (
            "for i, (h, w) in enumerate(table):\n    y = y + torch.ones(1).expand(h, w).sum() * x[:, None, i]\nreturn y",
            Severity.INFO,
        ),
        ("return sum(p.mean() for p in x.split([h * w for h, w in table], dim=1))", Severity.INFO),
        # Parts of the batch: images of their own sizes, one behind the other.
        (
            "for h, w in table:\n    y = y + x[at : at + h * w].view(1, h, w).sum()\n    at = at + h * w\nreturn y",
            Severity.WARNING,
        ),
        ("return sum(p.mean() for p in x.split([h * w for h, w in table], dim=0))", Severity.WARNING),
        ("for a, b in table:\n    y = y + x[:, 0] * a + b\nreturn y", Severity.WARNING),
    ],
)
def test_a_loop_over_the_sizes_of_levels_is_for_information(forward: str, severity: Severity) -> None:
    text = net(f"y, at = 0, 0\n{forward}", "x: torch.Tensor, table: torch.Tensor")
    found = [finding for finding in modellint.check_source(text).diagnostics if finding.code == "FLW004"]
    assert [finding.severity for finding in found] == [severity]


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("self.attend(x, x)", 0),
        ("self.attend(query=x, key=x)", 0),
        ("self.attend(x, y)", 1),
        ("self.attend(x, *[x])", 1),
        ("self.attend(x, x) + self.attend(x, y)", 1),
    ],
)
def test_arguments_that_are_one_object_are_not_compared(call: str, count: int) -> None:
    text = net("if query is key or torch.equal(query, key):\n    return query * 2\nreturn query + key", "query, key")
    text = text.replace("class Net", "class Attend")
    text += "\n\nclass Outer(nn.Module):\n    def __init__(self, kind):\n        super().__init__()\n"
    text += '        if kind == "Attend":\n            self.attend = Attend()\n\n'
    text += f"    def forward(self, x):\n        y = x.abs()\n        return {call}\n"
    assert len(codes(text, "FLW001")) == count


def test_a_comparison_of_other_values_is_found_where_arguments_are_one_object() -> None:
    text = net(
        "if query is key or torch.equal(query, key.abs()) or query.sum() > 0:\n    return key\nreturn query",
        "query, key",
    )
    text = text.replace("class Net", "class Attend")
    text += "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.attend = Attend()\n\n"
    text += "    def forward(self, x):\n        return self.attend(x, x)\n"
    assert codes(text, "FLW001") == ["FLW001"]


@pytest.mark.parametrize(
    ("size", "is_found"),
    [("x.shape[1]", True), ("self.table.shape[1]", False), ("self.table.size(1)", False), ("len(self.table)", False)],
)
def test_a_loop_over_what_the_module_keeps_need_not_hang_on_its_input(size: str, is_found: bool) -> None:
    loop = "for i in range({size}):\n    x = x + i\nreturn x"
    kept = "self.table = x * 2\n"
    assert codes(net(kept + loop.format(size=size)), "FLW004") == ["FLW004"] * is_found
    unpacked = f"{kept}_, n = {'x' if is_found else 'self.table'}.shape\n" + loop.format(size="n")
    assert codes(net(unpacked), "FLW004") == ["FLW004"] * is_found


@pytest.mark.parametrize(
    ("taken", "count"),
    [
        ("x, (height, width) = pair[0], pair[1]", 0),
        ("x = pair\nheight, width = x.relu()", 1),
    ],
)
def test_what_stands_in_an_element_of_an_argument_need_not_be_tensors(taken: str, count: int) -> None:
    text = net(f"{taken}\nx = x.relu()\nif height > 0:\n    x = x * 2\nreturn x", "pair")
    assert len(codes(text, "FLW001")) == count


@pytest.mark.parametrize(
    "forward",
    [
        "if x.shape[1] != 7:\n    raise ValueError(x.shape)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "assert x.size(1) == 7\nreturn sum(x[:, i] for i in range(x.size(1)))",
        "assert x.shape[1] == self.k\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "b, n, d = x.shape\nassert n == 7 and d > 3\nreturn sum(x[:, i] for i in range(n))",
        "b, n, d = x.shape\nif d < 3 or 7 != n:\n    raise ValueError(n)\nreturn sum(x[:, i] for i in range(n))",
        "if not x.shape[1] == 7:\n    raise ValueError(x.shape)\ny = x[:, 1:]\nreturn sum(y[:, i] for i in range(y.shape[1]))",
        "if len(x.shape) != 3 or x.shape[1] != 7:\n    raise ValueError(x.shape)\ny = (x[:, 1:] - x[:, :-1]) * z\n"
        "return sum(y[:, i] for i in range(y.shape[1]))",
        "self.ask(x)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "assert len(x) == 3\nreturn sum(row * 2 for row in x)",
    ],
)
def test_a_size_that_an_assertion_fixes_is_no_length(forward: str) -> None:
    extra = "\ndef ask(self, x):\n    if x.shape[1] != 7:\n        raise ValueError(x.shape)\n"
    assert codes(net(forward, "x, z", init="self.k = k", extra=extra), "FLW004") == []


@pytest.mark.parametrize(
    "forward",
    [
        "if x.shape[1] == 7:\n    raise ValueError(x.shape)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "if x.shape[1] != 7:\n    print(x.shape)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "if x.shape[1] != 7 and self.k:\n    raise ValueError(x.shape)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "if x.shape[2] != 7:\n    raise ValueError(x.shape)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "if self.k:\n    assert x.shape[1] == 7\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "if self.k:\n    return sum(x[:, i] for i in range(x.shape[1]))\nassert x.shape[1] == 7\nreturn x",
        "y = self.ask(x) if self.k else x\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "for _ in range(self.k):\n    self.ask(x)\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "assert x.shape[1] == z.shape[1]\nreturn sum(x[:, i] for i in range(x.shape[1]))",
        "assert x.shape[1] == 7\nreturn sum(z[:, i] for i in range(z.shape[1]))",
        "try:\n    assert x.shape[1] == 7\nexcept AssertionError:\n    pass\nreturn sum(x[:, i] for i in range(x.shape[1]))",
    ],
)
def test_a_size_that_an_assertion_leaves_open_is_a_length(forward: str) -> None:
    extra = "\ndef ask(self, x):\n    if x.shape[1] != 7:\n        raise ValueError(x.shape)\n    return x\n"
    assert codes(net(forward, "x, z", init="self.k = k", extra=extra), "FLW004") == ["FLW004"]


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("for n in counts:\n    x = x * n", []),
        ("for row in range(len(counts)):\n    for _ in range(len(counts[row])):\n        x = x * 2", []),
        ("total = 0\nfor n in counts:\n    total += n\nif total > 3:\n    x = x * 2", []),
        ("counts = counts.float()\nfor n in counts:\n    x = x * n", ["FLW004"]),
        ("if counts.sum() > 3:\n    x = x * 2", ["FLW001"]),
        ("for row in x:\n    counts.append(row)", ["FLW004"]),
        ("for i in range(x.size(1)):\n    x = x + i", ["FLW004"]),
    ],
)
def test_one_of_what_is_given_together_may_be_a_list(use: str, found: list[str]) -> None:
    assert codes(net(f"x, counts = given\n{use}\nreturn x.relu()", "given"), "FLW001", "FLW004") == found
    handed = f"\ndef run(self, given):\n    (x, counts) = given\n{textwrap.indent(use, '    ')}\n    return x.relu()\n"
    assert codes(net("return self.run(given)", "given", extra=handed), "FLW001", "FLW004") == found


@pytest.mark.parametrize(
    "write",
    ["x.mul_(2)\nreturn y * 2", "x = x.view(-1)\nx.mul_(2)\nreturn y * 2", "x[0].mul_(2)\nreturn y * 2, y.relu()"],
)
def test_what_is_given_together_shares_no_memory(write: str) -> None:
    assert codes(net(f"x, y = given\nx.relu()\ny.relu()\n{write}", "given"), "MUT001") == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("y, options = self.pick(x)\nif options:\n    y = y + 1\nreturn y", 0),
        ("y, several = self.pick(x)\nif several[0]:\n    y = y + 1\nreturn y", 0),
        ("y, options = self.pick(x)\nif (y > 0).all():\n    y = y + 1\nreturn y", 1),
        ("y, w = self.lin(x).chunk(2)\nif w:\n    y = y + 1\nreturn y", 1),
    ],
)
def test_what_is_unpacked_of_what_nobody_sees(body: str, count: int) -> None:
    text = nets.net(body, "self.pick = pick\nself.lin = nn.Linear(4, 4)").replace("n=4", "pick")
    assert codes(text, "FLW001").count("FLW001") == count


@pytest.mark.parametrize(
    ("fuse", "first", "is_found"),
    [
        ("self.fuse(y)", "self.first(x.view(-1, c, h, w))", False),
        ("self.fuse(y) if self.training else y", "self.first(x.view(-1, c, h, w))", True),
        ("y", "self.first(x.view(-1, c, h, w))", True),
        ("self.fuse(y)", "x.view(-1, c, h, w)", True),
        ("self.fuse(y)", "self.first(x.view(-1, t, h, w))", False),
    ],
)
def test_frames_that_are_counted_by_weights(fuse: str, first: str, is_found: bool) -> None:
    body = f"""b, t, c, h, w = x.size()
one = {first}.view(b, t, -1, h, w)
total = 0
for i in range(t):
    total = total + one[:, i].sum()
y = x.view(b, -1, h, w) * torch.sigmoid(total)
return {fuse}"""
    init = "self.first = nn.Conv2d(k, k, 3, padding=1)\nself.fuse = nn.Conv2d(5 * k, k, 1)"
    assert ("FLW004" in codes(net(body, init=init))) is is_found

"""Rules about numbers: what float16 and int32 do not hold, and types that Core ML does not have."""

from __future__ import annotations

from pathlib import Path

import nets
import pytest
from nets import HEAD, fixed, net, said

import modellint


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# NUM001


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return x.masked_fill(m, -1e9)", "x.masked_fill(m, -1e4)"),
        ("return x.masked_fill_(mask=m, value=-1e9)", "value=-1e4)"),
        ("return torch.where(m, x, -1e10)", "torch.where(m, x, -1e4)"),
        ("return x + torch.full((4, 4), 1e6).triu(1)", "torch.full((4, 4), 1e4)"),
        ("return x.masked_fill(m, torch.finfo(torch.float32).min)", "x.masked_fill(m, -1e4)"),
        ("return x.masked_fill(m, torch.finfo(x.dtype).min)", "x.masked_fill(m, -1e4)"),
        ("return x.masked_fill(m, -torch.finfo(x.dtype).max)", "x.masked_fill(m, -1e4)"),
        ("return x + (1.0 - m) * -1e9", "x + (1.0 - m) * -1e4"),
        ("return x * 1e6", "x * 1e6"),
        ("low = -1e9\nreturn x.masked_fill(m, low)", "x.masked_fill(m, low)"),
        ("return x.masked_fill(m, self.low)", "x.masked_fill(m, self.low)"),
        ("return x.masked_fill(m, LOW)", "x.masked_fill(m, LOW)"),
        ("return x.masked_fill(m, torch.finfo(x.dtype).min / 2)", "torch.finfo(x.dtype).min / 2"),
        ("y = x * 1\ny[m] = -1e9\nreturn y", "y[m] = -1e4"),
        ("return (x @ x.T).masked_fill(m, -1000000)", "masked_fill(m, -1e4)"),
        ("return x - 1e9 * m", "x - 1e9 * m"),
        ("low = -9e15 * torch.ones_like(x)\nreturn torch.where(m > 0, x, low)", "-1e4 * torch.ones_like(x)"),
        ("return x + torch.triu(torch.ones(4, 4) * -1e9, 1)", "torch.ones(4, 4) * -1e4"),
        ("return torch.maximum(x, torch.zeros_like(x) - 1e9)", "torch.zeros_like(x) - 1e9"),
    ],
)
def test_number_beyond_float16(body: str, after: str) -> None:
    text = net(body, "self.low = -1e9", arguments="x, m", head="LOW = -3.0e38\n")
    assert len(said(text, "NUM001")) == 1
    assert after in fixed(text, "NUM001")


@pytest.mark.parametrize(
    "body",
    [
        'return x.masked_fill(m, float("-inf"))',
        "return x.masked_fill(m, -torch.inf)",
        "return x.masked_fill(m, -1e4)",
        "return x.masked_fill(m, -65504.0)",
        "return x.masked_fill(m, torch.finfo(torch.float16).min)",
        "return x.clamp(max=1e9)",
        "return torch.where(x < 1e9, x, 0.0)",
        "return x / 1e6",
        "return x.long() + 100000",
        "return x.masked_fill(m, self.low)",
        "if self.training:\n    x = x.masked_fill(m, -1e9)\nreturn x",
        "if x.dtype == torch.float16:\n    x = x.masked_fill(m, -1e9)\nreturn x",
        "if torch.jit.is_scripting():\n    return x * 1e9\nreturn x",
        "base = 1e6 ** 2\nreturn x",
        "return x + 1e5 * 1e-5",
        "return x.long() + torch.ones(4, dtype=torch.long) * 100000",
        "return x + torch.eye(4) * -1e9",
        'return x + torch.ones(4, 4) * float("-inf")',
    ],
)
def test_number_that_float16_holds_or_never_meets(body: str) -> None:
    assert said(net(body, "self.low = -n", arguments="x, m"), "NUM001") == []


def test_float32_holds_it() -> None:
    Path("modellint.toml").write_text('precision = "fp32"\n')
    text = net("return x.masked_fill(x > 0, -1e9) + 1e-12")
    assert said(text, "NUM001") == said(text, "NUM002") == []


def test_losses_are_clean() -> None:
    assert said(net("return x * 1e9", name="FocalLoss"), "NUM001") == []


def test_a_class_without_forward_is_what_others_inherit_from() -> None:
    base = "\nclass Base(nn.Module):\n    def embed(self, x):\n        x = x.view(-1, 4)\n        return x - (1 - x) * 1e9\n"
    assert nets.codes(HEAD + base, "NUM") == ["NUM001"]
    assert nets.codes(HEAD + base.replace("embed", "reset_weights"), "NUM001") == []
    assert nets.codes(HEAD + base + "\n    def forward(self, x):\n        return x\n", "NUM001") == []


# NUM002


def test_the_epsilon_of_a_layer_of_the_project() -> None:
    layer = "class Norm(nn.LayerNorm):\n    pass"
    assert len(said(net("return self.norm(x)", "self.norm = Norm(4, eps=1e-12)", head=layer), "NUM002")) == 1
    other = "class Norm(nn.LayerNorm):\n    def __init__(self, n, eps):\n        super().__init__(n, eps + 1e-5)"
    assert said(net("return self.norm(x)", "self.norm = Norm(4, eps=1e-12)", head=other), "NUM002") == []


@pytest.mark.parametrize(
    "body",
    [
        "return x / (x.norm(dim=-1) + 1e-12)",
        "return x.clamp(min=1e-10).log()",
        "return torch.clamp(x, 1e-9)",
        "return x.clamp_min(1e-8)",
        "return F.normalize(x, eps=1e-12)",
        "return F.layer_norm(x, (4,), eps=1e-10)",
        "return x + self.eps",
    ],
)
def test_epsilon_below_float16(body: str) -> None:
    text = net(body, "self.eps = 1e-12")
    assert said(text, "NUM002") == ["W1"]
    assert "1e-07" in fixed(text, "NUM002") or "self.eps" in body


def test_epsilon_of_a_layer() -> None:
    text = net("return self.norm(x)", "self.norm = nn.LayerNorm(4, eps=1e-12)")
    assert len(said(text, "NUM002")) == 1
    assert "nn.LayerNorm(4, eps=1e-07)" in fixed(text, "NUM002")


@pytest.mark.parametrize(
    "body",
    [
        "return x + 1e-6",
        "return F.normalize(x)",
        "return x * 1e-9",
        "return x - 1e-9",
        "return x.clamp(max=1e-9)",
        "return self.bn(x)",
        "return self.ln(x)",
        "if self.training:\n    return x + 1e-12\nreturn x",
        "return torch.zeros(4) + 1e-12",
    ],
)
def test_epsilon_that_is_none_or_fits(body: str) -> None:
    init = "self.bn = nn.BatchNorm1d(4, eps=1e-12)\nself.ln = nn.LayerNorm(4, eps=n)\nself.eps = 1e-12"
    assert said(net(body, init), "NUM002") == []


@pytest.mark.parametrize(
    "body",
    [
        "return -(x * (x + 1e-10).log()).sum(-1)",
        "return torch.exp(-torch.sum(x * torch.log(x + 1e-10)))",
        "return (x * torch.log2(1e-12 + x)).sum()",
        "return (x * (x.clamp_min(1e-8).log() + 4.0)).sum()",
        "return (-x * torch.log(torch.clamp(x, min=1e-9))).mean()",
        "y = torch.log(x + 1e-10)\nreturn -(x * y).sum(-1)",
        "return 0.5 * x * (x + 1e-10).log()",
    ],
)
def test_the_epsilon_of_an_entropy(body: str) -> None:
    assert said(net(body), "NUM002") == []


@pytest.mark.parametrize(
    "body",
    [
        "return -(x.tanh() * (x + 1e-10).log()).sum(-1)",
        "return x + (x + 1e-10).log()",
        "return x * (x + 1e-10).rsqrt()",
        "y = torch.log(x + 1e-10)\nreturn x * y + y",
        "y = torch.log(x + 1e-10)\nx = x + 1\nreturn x * y",
        "return x * (x / (x + 1e-10)).log()",
    ],
)
def test_an_epsilon_that_the_factor_does_not_hide(body: str) -> None:
    assert said(net(body), "NUM002") == ["W1"]


# NUM006


@pytest.mark.parametrize(
    "body",
    [
        "return x.long() + 2**40",
        "return x.long() * 2654435761",
        "return x.argmax(1) + (1 << 33)",
        "return x.to(torch.int64) - 3000000000",
        "return x.long().masked_fill(x > 0, torch.iinfo(torch.int64).max)",
        "return torch.where(x > 0, x.long(), torch.full((4,), 2**40, dtype=torch.long))",
        "return x.long().masked_fill(x > 0, -(2**40))",
        "return torch.where(x > 0, x.long(), torch.tensor(2**40))",
    ],
)
def test_int_outside_int32(body: str) -> None:
    assert said(net(body), "NUM006") == ["E1"]


@pytest.mark.parametrize(
    "body",
    [
        "return x.long() + 2147483647",
        "return x * 2**40",
        "return x.float() + 2**40",
        "return (x.long() < 2**40).float()",
        "return x.long().masked_fill(x > 0, torch.iinfo(torch.int32).max)",
        "if self.training:\n    return x.long() + 2**40\nreturn x",
    ],
)
def test_int_that_int32_holds(body: str) -> None:
    assert said(net(body), "NUM006") == []


# NUM007


@pytest.mark.parametrize(
    ("made", "letter"),
    [
        ("self.w = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))", "E"),
        ("self.w = nn.Parameter(torch.ones(4).bfloat16())", "E"),
        ('self.register_buffer("w", torch.polar(torch.ones(4), torch.ones(4)))', "E"),
        ('self.register_buffer("w", torch.view_as_complex(torch.ones(4, 2)))', "E"),
        ('self.register_buffer("w", torch.ones(4).double())', "W"),
        ('self.register_buffer("w", torch.arange(4, dtype=torch.float64).unsqueeze(0))', "W"),
        ('t = torch.ones(4, dtype=torch.double)\nself.register_buffer("w", t)', "W"),
    ],
)
def test_type_that_core_ml_does_not_have(made: str, letter: str) -> None:
    text = net("return x * self.w", made)
    found = [one for one in modellint.check_source(text).diagnostics if one.code == "NUM007"]
    assert [one.severity.name[0] for one in found] == [letter]
    assert found[0].attribute == "w"


@pytest.mark.parametrize(
    ("made", "body"),
    [
        ("self.w = nn.Parameter(torch.ones(4))", "return x * self.w"),
        ("self.w = nn.Parameter(torch.ones(4, dtype=torch.bfloat16).float())", "return x * self.w"),
        ("self.w = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))", "return x"),
        ('self.register_buffer("w", torch.ones(4).double())', "return x * self.w.to(x.dtype)"),
        ('self.register_buffer("w", torch.ones(4).double().float())', "return x * self.w"),
    ],
)
def test_type_that_is_cast_or_not_read(made: str, body: str) -> None:
    assert said(net(body, made), "NUM007") == []


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("return x / torch.maximum(x.norm(dim=-1, keepdim=True), torch.tensor(1e-12, device=x.device))", 1),
        ("floor = torch.tensor(1e-12)\nreturn x / torch.maximum(x.abs(), torch.tensor(1e-5))", 0),
        ("return torch.maximum(torch.tensor(1.0), torch.tensor(1e-12)) + x", 0),
    ],
)
def test_a_floor_that_is_a_tensor(forward: str, count: int) -> None:
    assert len(nets.said(nets.net(forward), "NUM002")) == count


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("ends = F.pad(x.float(), (0, 1), value=1e6).to(x.dtype)\nreturn ends < 8", []),
        ("return self.limit > x.masked_fill(m, 1e6)", []),
        ("x = x.masked_fill(m, 1e6)\nnear = x < 8\nfar = x > self.limit\nreturn near, far", []),
        ("x = x.masked_fill(m, 1e6)\nnear = x < 8\nreturn near, x", ["W1"]),
        ("return x.masked_fill(m, 1e6) < 1e5", ["W1"]),
        ("for _ in range(2):\n    x = x.masked_fill(m, 1e6)\n    y = x < 8\nreturn y", ["W2"]),
        ("return x.masked_fill(m, 1e6).softmax(-1) < 1", ["W1"]),
    ],
)
def test_a_filled_tensor_that_is_only_compared(body: str, rows: list[str]) -> None:
    assert said(net(body, "self.limit = n", arguments="x, m"), "NUM001") == rows


CONVERTING = """

import coremltools as ct


class Other(nn.Module):
    def forward(self, x):
        return x * 2


def main(kind):
    net = Net().eval()
    traced = torch.jit.trace(net, (torch.rand(2, 3),))
    other = torch.jit.trace(Other().eval(), (net(torch.rand(2, 3)),))
    ct.convert(traced, inputs=[], compute_precision={first})
    ct.convert({second}, inputs=[], compute_precision={third})
"""


@pytest.mark.parametrize(
    ("first", "second", "third", "severity"),
    [
        ("ct.precision.FLOAT32", "other", "kind", "I"),
        ("ct.precision.FLOAT32", "other", "ct.precision.FLOAT32", "I"),
        ("ct.precision.FLOAT32", "kind", "ct.precision.FLOAT16", "W"),
        ("ct.precision.FLOAT32", "traced", "ct.precision.FLOAT16", "W"),
        ("kind", "other", "ct.precision.FLOAT32", "W"),
    ],
)
def test_what_the_file_converts_in_float32(first: str, second: str, third: str, severity: str) -> None:
    text = net("return (x.masked_fill(x > 0, -1e9) + 1e-12).log()")
    text += CONVERTING.format(first=first, second=second, third=third)
    assert [row[0] for row in said(text, "NUM001") + said(text, "NUM002")] == [severity] * 2


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("eps = 1e-10\nreturn (x.abs() + eps) / (x.exp() + eps)", ["W2"]),
        ("y = (x.abs() + self.eps).log()\nreturn y / (x.exp() + self.eps)", ["W1"]),
        ("y = (x.abs() + 1e-10).log()\nreturn y / (x.exp() + 1e-10)", ["W1", "W2"]),
        ("eps = 1e-10\ny = (x.abs() + eps).log()\neps = 1e-12\nreturn y / (x.exp() + eps)", ["W2", "W4"]),
    ],
)
def test_an_epsilon_with_a_name_is_told_of_once(body: str, rows: list[str]) -> None:
    assert said(net(body, "self.eps = 1e-10"), "NUM002") == rows


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("return self.rows(x.clamp(min=0))", ["W1"]),
        ("i = torch.clamp(x, max=self.last)\nreturn self.rows(i[:, 1:])", ["W1"]),
        ("return y.gather(1, torch.div(x, 2, rounding_mode='floor'))", ["W1"]),
        # Nobody knows how much there is to read.
        ("return self.table[x.clip(0)]", ["I1"]),
        ("i = x.clamp(min=0)\nreturn self.table[i]", ["I1"]),
        ("return F.embedding(x.clamp(min=None, max=5000), self.table)", ["I1"]),
        ("return self.some(x.clamp(min=0))", ["I1"]),
        # Both bounds, or one that float16 counts up to.
        ("return self.rows(x.clamp(0, self.last))", []),
        ("return self.rows(x.clamp(max=2048))", []),
        ("return self.few(x.clamp(min=0))", []),
        ("return self.rows(x.clamp_min(0))", []),
        # No index.
        ("return y / x.clamp(min=1)", []),
        ("return self.rows(x) * y.clamp(min=0)", []),
        ("return y.gather(1, x // 2)", []),
    ],
)
def test_index_computed_in_float16(body: str, rows: list[str]) -> None:
    init = "self.rows = nn.Embedding(30000, 4)\nself.few = nn.Embedding(64, 4)\nself.some = nn.Embedding(size, 4)\nself.last = n\n"
    text = net(body, init + "self.table = nn.Parameter(torch.zeros(30000, 4))", arguments="x, y")
    assert said(text, "NUM008") == rows

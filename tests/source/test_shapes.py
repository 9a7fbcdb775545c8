"""Rules about shapes: rank above five, views of what a permutation took apart, pinned ranks, and squeeze."""

from __future__ import annotations

from pathlib import Path

import pytest
from nets import fixed, net, said

import modellint


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# SHP001

SIX = "b, c, h, w = x.shape\ny = x.view(b, c // 4, 2, 2, h, w)\n"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("return y.permute(0, 1, 4, 2, 5, 3).reshape(b, c // 4, h * 2, w * 2)", ["I2", "I3"]),
        ("y = y.permute(0, 1, 4, 2, 5, 3).contiguous()\nreturn y.view(b, c // 4, h * 2, w * 2)", ["I2", "I3"]),
        ("y = y.transpose(2, 4).transpose(3, 5)\nreturn y.flatten(4, 5).flatten(2, 3)", ["I2", "I3"]),
        ("return y.reshape(b, -1, w)", ["I2"]),
        ("return y.mean((2, 3))", ["E2"]),
        ("return F.relu(y).flatten(1, 3)", ["E2"]),
        ("return (y * 2).flatten(1, 3)", ["E2"]),
        ("return y[:, :, 0]", ["E2"]),
        ("y = y.permute(2, 0, 1, 3, 4, 5)\nreturn y.unbind(0)", ["E2", "E3"]),
        ("return torch.cat([y, y], 2).flatten(1, 3)", ["E2"]),
        ("return y", ["E2"]),
        ("return y.permute(0, 1, 4, 2, 5, 3)", ["E2", "E3"]),
    ],
)
def test_rank_six_is_an_error_where_it_does_not_convert(rest: str, expected: list[str]) -> None:
    assert said(net(SIX + rest), "SHP001") == expected


HALVES = "b, c, h, w = x.shape\ny = x.view(b, 2, 2, h, w)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b, c, h, w = x.shape\nu = x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2)\nreturn u.flatten(3)", ["E2"]),
        ("b, c, h, w = x.shape\nreturn x.view(b, 2, 2, h, w).unsqueeze(2).flatten(1)", ["E2"]),
        ("b, c, h, w = x.shape\ny = x.view(b, 2, 2, h, w)\nreturn torch.stack([y, y], 3).view(b, -1)", ["E3"]),
        (
            "b, c, h, w = x.shape\ny = x.view(b, 2, 2, h, w)\nreturn torch.stack([y, y], 3).view(b, 2, 2, h * 2, w)",
            ["I3"],
        ),
        (
            "b, c, h, w = x.shape\ny = x.view(b, 2, 2, h, w)\nreturn torch.stack([y, y]).reshape(b * 2, 2, 2, h, w)",
            ["I3"],
        ),
        (HALVES + "return torch.stack([y, y], 3).view(b, 4, 2, h, w)", ["E3"]),
        ("return self.halves(x)", []),
    ],
)
def test_rank_six_by_other_means(body: str, expected: list[str]) -> None:
    assert said(net(body), "SHP001") == expected


@pytest.mark.parametrize(
    "body",
    [
        "b, h, w, c = x.shape\ny = x.view(b, h // 2, 2, w, c)\nreturn y.permute(0, 1, 3, 2, 4).reshape(-1, 2, c)",
        "return x + self.table.view(1, 1, 2, 2, 1, 1).sum((0, 1, 2, 3))",
        "return x + torch.ones(1, 1, 1, 1, 1, 4).sum((0, 1, 2, 3))",
        "return F.pad(x, (0, 0, 0, 1, 0, 1))",
        "return x.view(*self.sizes)",
        "return torch.zeros(1, 2, 3).repeat(2, 1, 1)",
    ],
)
def test_five_dimensions_and_constants_are_clean(body: str) -> None:
    text = net(body, "self.table = nn.Parameter(torch.ones(4))\nself.sizes = (1, 2, 3)")
    assert said(text, "SHP001") == []


def test_rank_six_outside_of_forward_is_clean() -> None:
    text = net("return x") + "\n    def export(self, x):\n        return x.view(1, 2, 3, 4, 5, 6)\n"
    assert said(text, "SHP001") == []


# SHP007

PARAMETERS = "self.w = nn.Parameter(torch.ones(n))\nself.conv = nn.Conv2d(3, 4, 1)"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (
            "return F.relu(x) - self.w.view(1, -1, 1, 1) * F.relu(-x)",
            "return F.relu(x) - self.w.view(1, -1, *([1] * (x.dim() - 2))) * F.relu(-x)",
        ),
        (
            "return torch.where(x > 0, x, self.w.reshape((1, -1, 1, 1)) * x)",
            "return torch.where(x > 0, x, self.w.reshape((1, -1, *([1] * (x.dim() - 2)))) * x)",
        ),
        ("return x.mul(self.w.view(1, -1, 1))", "return x.mul(self.w.view(1, -1, *([1] * (x.dim() - 2))))"),
        ("w = self.w.view(1, -1, 1, 1)\nreturn x * w", "w = self.w.view(1, -1, 1, 1)\n"),
        ("x += self.w.view(1, -1, 1, 1)\nreturn x", "x += self.w.view(1, -1, *([1] * (x.dim() - 2)))"),
    ],
)
def test_pinned_rank(body: str, after: str) -> None:
    text = net(body, PARAMETERS)
    assert len(said(text, "SHP007")) == 1
    assert after in fixed(text, "SHP007")


@pytest.mark.parametrize(
    "body",
    [
        "return self.w.view(1, -1, *([1] * (x.dim() - 2))) * x",
        "return self.w.view([1, -1] + [1] * (x.ndim - 2)) * x",
        "x = self.conv(x)\nreturn self.w.view(1, -1, 1, 1) * x",
        "b, c, h, w = x.shape\nreturn self.w.view(1, -1, 1, 1) * x",
        "return self.conv(x) + self.w.view(1, -1, 1, 1) * x",
        "return x.permute(0, 2, 3, 1) * self.w.view(1, 1, 1, -1) + x * self.w.view(1, -1, 1, 1)",
        "if x.dim() == 4:\n    return self.w.view(1, -1, 1, 1) * x\nreturn self.w.view(1, -1, 1) * x",
        "assert len(x.shape) == 4\nreturn self.w.view(1, -1, 1, 1) * x",
        "return self.w.view(1, -1) * x",
        "return self.w * x",
        "return self.head(x) * self.w.view(1, -1, 1, 1)",
        "return self.w.view(1, -1, 1, 1)",
    ],
)
def test_rank_that_is_known_or_asked_for_is_clean(body: str) -> None:
    assert said(net(body, PARAMETERS), "SHP007") == []


def test_class_named_after_its_rank_is_clean() -> None:
    assert said(net("return self.w.view(1, -1, 1, 1) * x", PARAMETERS, name="Scale2d"), "SHP007") == []


def test_a_parameter_without_axes_pins_no_rank() -> None:
    text = net("return self.one.reshape(()) * x", "self.one = nn.Parameter(torch.ones(1))")
    assert not {finding.code for finding in modellint.check_source(text).diagnostics} & {"SHP007", "LNT004"}


# SHP009

LAYERS = "self.fc = nn.Linear(8, 1)\nself.conv = nn.Conv2d(3, n, 1)\nself.pool = nn.AdaptiveAvgPool2d((1, 1))\n"
LAYERS += "self.w = nn.Parameter(torch.ones(1, 1, 4))\nself.loss = nn.MSELoss()"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return self.fc(x).squeeze()", "self.fc(x).squeeze(-1)"),
        ("return torch.squeeze(self.fc(x))", "torch.squeeze(self.fc(x), -1)"),
        ("return self.pool(self.conv(x)).squeeze()", "squeeze(-2).squeeze(-1)"),
        ("return F.adaptive_avg_pool2d(self.conv(x), 1).squeeze()", "squeeze(-2).squeeze(-1)"),
        ("return self.conv(x).mean(2, keepdim=True).squeeze()", "squeeze(-2)"),
        ("return torch.matmul(x, self.w).squeeze()", "torch.matmul(x, self.w).squeeze()"),
        ("return x.squeeze()", "x.squeeze()"),
    ],
)
def test_squeeze_drops_the_batch(body: str, after: str) -> None:
    text = net(body, LAYERS)
    assert said(text, "SHP009") == ["I1"]
    assert after in fixed(text, "SHP009")


@pytest.mark.parametrize(
    "body",
    [
        "return self.fc(x).squeeze(-1)",
        "return torch.squeeze(x, dim=1)",
        "return x * self.w.squeeze()",
        "return self.conv(x)[0].squeeze()",
        "return self.conv(x).sum().squeeze() + self.conv(x).mean(0).squeeze()",
        "return self.loss(self.fc(x).squeeze(), x)",
        "y = self.fc(x).squeeze()\nreturn F.binary_cross_entropy(y, x)",
        "return x + torch.ones(1, 4).squeeze()",
        "if self.training:\n    x = x.squeeze()\nreturn x",
    ],
)
def test_squeeze_without_a_batch_is_clean(body: str) -> None:
    assert said(net(body, LAYERS), "SHP009") == []


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        ('return torch.einsum("abcd,aefg->abcdefg", x, y).reshape(2, -1)', ["I1"]),
        ('return torch.einsum("n c h w, n k i j -> n c h w k i", x, y).sum(-1)', ["E1"]),
        ('z = torch.einsum("nchw,nkij->nchwki", x, y)\nreturn (z * 0.5).reshape(2, -1)', ["E1"]),
        ('return torch.einsum("abcdef,abcdeg->abfg", x, y)', []),
    ],
)
def test_einsum_of_many_letters(body: str, severities: list[str]) -> None:
    assert said(net(body, arguments="x, y"), "SHP001") == severities


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (
            'y = torch.einsum("bhqk,bhkc->bhqc", [x, x])\nb, h, q, c = y.shape\nreturn y.permute(0, 2, 1, 3).view(b, q, h * c)',
            ["W3"],
        ),
        (
            "b, n, t, c = x.shape\ny = torch.cat([x, x], 3)\nfor layer in self.layers:\n    z = y.view(b * n, t, -1)\n"
            "    y = layer(z).view(b, t, n, -1).permute(0, 2, 1, 3)\nreturn y",
            ["W4"],
        ),
        (
            "b, n, t, c = x.shape\ny = torch.cat([x, x], 3)\nfor layer in self.layers:\n    z = y.view(b * n, t, -1)\n"
            "    y = layer(z).view(b, n, t, -1)\nreturn y",
            [],
        ),
    ],
)
def test_a_view_of_what_was_permuted(body: str, rows: list[str]) -> None:
    init = "self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])"
    assert said(net(body, init), "SHP002") == rows


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("part = x[:, 0:3, :].unsqueeze(0)\nreturn part.view(-1, 3, 4)", []),
        ("_, n, h, w = x.unsqueeze(0).shape\nreturn x.transpose(1, 2).view(-1, w, h)", []),
        ("b, n, h, w = x.shape\nreturn x.transpose(1, 2).view(-1, 3, 4)", ["W2"]),
        ("b, h, w = x.shape\nreturn x.transpose(1, 2).view(b, h, w)", ["W2"]),
        ("b, c, h, w = x.shape\nreturn x.permute(0, 2, 3, 1).view(b, -1, 3)", []),
        ("b, h, n, d = x.shape\nreturn x.transpose(1, 2).view(b, -1, 64)", ["W2"]),
        ("b, n, k, c = x.shape\npart = x[0, :, 1, :]\nreturn part.view(len(y), 2, 1)", []),
        ("b, n, k, c = x.shape\npart = x[0, :, 1, :]\nreturn part.view(1, -1, 2)", []),
        ("b, h, w = x.shape\nreturn x.transpose(1, 2).view(b, len(y), self.n)", []),
        ("b, n, k, c = x.shape\nreturn x.transpose(1, 2).view(b, n, k, c)", ["W2"]),
        ("b, n = x.shape\nreturn x.t().view(-1)", ["W2"]),
        ("y = x > 0.5\nreturn y.t().view(-1)", []),
        ("return x.T.view(-1)", []),
    ],
)
def test_a_view_that_may_only_name_the_sizes(body: str, rows: list[str]) -> None:
    assert said(net(body, "self.n = n", arguments="x, y"), "SHP002") == rows


@pytest.mark.parametrize(
    ("heads", "is_found"), [("heads", True), ("heads=8", True), ("heads=1", False), ("heads: int = 1", False)]
)
def test_a_view_that_raises_for_more_than_the_default(heads: str, is_found: bool) -> None:
    text = net(
        "b, n, c = x.shape\ny = x.view(b, n, self.heads, -1).transpose(1, 2)\nreturn y.view(b, -1, c)",
        "self.heads = heads",
    ).replace("def __init__(self, n", f"def __init__(self, {heads}, n")
    assert heads in text
    assert bool([one for one in modellint.check_source(text).diagnostics if one.code == "SHP002"]) is is_found


@pytest.mark.parametrize(
    ("annotation", "is_found"),
    [
        ("list[torch.Tensor]", True),
        ("List[Tensor]", True),
        ("Optional[Sequence[Tensor]]", True),
        ("tuple[Tensor, ...]", True),
        ('"list[Tensor]"', True),
        ("list[list[Tensor]]", False),
        ("list[Optional[Tensor]]", False),
        ("tuple[int, Tensor]", False),
        ("list[int]", False),
        ("Features", False),
    ],
)
@pytest.mark.parametrize("use", ["rows[0]", "next(iter(rows[1:]))", "[row for row in rows][0]"])
def test_an_element_of_what_is_said_to_be_a_list_of_tensors(annotation: str, is_found: bool, use: str) -> None:
    text = (
        "from typing import List, Optional, Sequence\n\nimport torch\nfrom torch import Tensor, nn\n\n\nclass Net(nn.Module):\n"
        f"    def part(self, rows: {annotation}):\n        y = {use}\n        return y.view(y.shape[0], 2, 2, 3, 4, 5).sum(-1)\n\n"
        f"    def forward(self, rows: {annotation}):\n        return self.part(rows)\n"
    )
    found = [one.code for one in modellint.check_source(text).diagnostics if one.code == "SHP001"]
    assert found == ["SHP001"] * is_found


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("len(x.size()) == 4", 0),
        ("x.dim() == 4", 0),
        ("x.ndim == 5", 1),
        ("y.dim() == 4", 1),
        ("x.dim() != 4", 1),
    ],
)
def test_six_dimensions_under_a_condition_of_another_rank(test: str, count: int) -> None:
    body = f"x = x.permute(0, 2, 1, 3, 4)\nif {test}:\n    x = x.unsqueeze(1)\nreturn x.permute(0, 4, 3, 1, 2).contiguous()"
    assert len(said(net(body, arguments="x, y"), "SHP001")) == count


def test_six_dimensions_under_a_condition_of_the_rank_before_a_view() -> None:
    """The condition says nothing of what the variable is bound to behind it."""
    body = "if x.dim() == 4:\n    if flag:\n        x = x.view(2, 3, 4, 5, 6)\n        x = x.unsqueeze(1)\nreturn x.contiguous()"
    assert len(said(net(body, arguments="x, flag"), "SHP001")) == 1


def test_six_dimensions_first_of_all_under_two_conditions() -> None:
    body = "x = x.permute(0, 2, 1, 3, 4)\nif x.dim() == 4:\n    if flag:\n        x = x.unsqueeze(1)\nreturn x.contiguous()"
    assert not said(net(body, arguments="x, flag"), "SHP001")

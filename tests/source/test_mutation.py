"""Rules about writes that tracing loses: through views, by tensors of indices, to buffers, attributes and arguments."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import nets
import pytest
from click.testing import CliRunner

import modellint
from modellint.cli import cli
from modellint.results.diagnostic import Severity
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nimport torch.nn as nn\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(forward: str, arguments: str = "x", init: str = "pass", extra: str = "") -> str:
    def indented(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text).strip(), " " * 8)

    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, flag=False):\n        super().__init__()\n{indented(init)}\n\n"
        f"    def forward(self, {arguments}):\n{indented(forward)}\n{textwrap.indent(textwrap.dedent(extra), ' ' * 4)}"
    )


def found(text: str) -> list[tuple[str, Severity]]:
    said = modellint.check_source(text).diagnostics
    return [(one.code, one.severity) for one in said if one.code.startswith("MUT")]


def codes(text: str, *wanted: str) -> list[str]:
    return nets.codes(text, *wanted or ["MUT"])


def fixed(text: str, *, unsafe: bool = True) -> str:
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics, unsafe=unsafe)
    assert done.problem is None
    return done.text


# Through views


@pytest.mark.parametrize(
    "forward",
    [
        "y = x * 1\nz = y.view(-1)\nz.add_(1)\nreturn y * 2",
        "y = x * 1\nz = y.view(-1)\nz += 1\nreturn y * 2",
        "y = x.clone()\ny[0].mul_(3)\nreturn y",
        "y = x.clone()\ny[:, 1:].masked_fill_(x[:, 1:] > 0, 0.0)\nreturn y",
        "y = x.clone()\ny.t().add_(1)\nreturn y",
        "y = x.clone()\na, b = y.chunk(2, 0)\na.mul_(2)\nreturn y",
        "y = x.clone()\nfor t in y:\n    t.add_(1)\nreturn y",
        "y = x.clone()\ny.data.mul_(2)\nreturn y",
        "y = x.clone()\ny.view(-1)[0] = 1.0\nreturn y",
        "y = x.clone()\nz = y[0]\ny.add_(1)\nreturn z",
        "y = x.clone()\nz = y.t()\ny[0] = 5.0\nreturn z * 2",
        "y = x.clone()\ny[..., 1] = 0.0\nreturn y",
        "y = x.clone()\ny[..., :2] *= 2\nreturn y",
        "y = x.clone()\ny[0][x[1] > 0] = 1.0\nreturn y",
        "y = x.clone()\ny[0][1] += 1.0\nreturn y",
        "y = x.clone()\ny[:, 1:][:, 0] = 5.0\nreturn y",
        "y = x.clone()\nz = y[1:]\nz[0] = 5.0\nreturn y",
        "y = x.clone()\nz = y[1:]\nz[0].fill_(3.0)\nreturn y",
        "y = x.clone()\nz = y[0]\nz[0] = x[1, 1]\nz[1] = x[1, 0]\nreturn y",
        "y = x.clone()\nz = y[1:]\nz[0] = 1.0\nreturn z",
        "y = x.clone()\ny = y[:, 1:]\ny[:, 0] = 1.0\nreturn y",
        "y = x.clone()\nz = y[1:]\nz.copy_(x[1:])\nreturn z",
        "y = x.clone()\nz = y[:, -1:]\nz[z > 0.9] = 1.0\nreturn y[:, :-1] * z + y.sum()",
        "y = x.clone()\nz = y[:, -1:]\nz[z > 0.9] = 1.0\nreturn y[:, 1:] * z",
        "y = x.clone()\nfor i in (0, 1):\n    w = y.sum()\n    z = y[:, -1:]\n    z[z > 0.9] = 1\n    w = w + y[:, :-1]\nreturn w",
        "y = x.clone()\nz = y[:, -n:]\nz -= 1.0\nif flag:\n    y = y[:, :-n]\nreturn y",
        "y = x.clone()\nz = y[:, -n:]\nz -= 1.0\nw = y.sum()\ny = y[:, :-n]\nreturn y + w",
        "y = x.clone()\nz = y[:, -n:]\ntry:\n    z -= 1.0\n    y = y[:, :-n]\nexcept ValueError:\n    pass\nreturn y",
        "y = x.clone()\ndef late():\n    return y\nz = y[:, -n:]\nz -= 1.0\nw = late()\ny = y[:, :-n]\nreturn y + w",
    ],
)
def test_a_write_through_a_view_is_found(forward: str) -> None:
    assert codes(net(forward)) == ["MUT001"]


@pytest.mark.parametrize(
    "forward",
    [
        "y = x * 1\nz = y.view(-1)\nz.add_(1)\nreturn z * 2",
        "y = x * 1\ny = y.view(-1)\ny.add_(1)\nreturn y",
        "y = x * 1\ny = y.view(-1).add_(1)\nreturn y",
        "y = x.clone()\ny[0] *= 3\nreturn y",
        "y = x.clone()\ny[0] = y[0] * 3\nreturn y",
        "y = x.clone()\ny[:, 1].fill_(5)\ny[1:].copy_(x[:3])\nreturn y",
        "y = x.clone()\nz = y[0]\nz[1] = 3.0\nreturn y",
        "y = x.clone()\nz = y\nz.add_(1)\nreturn y",
        "y = x.clone()\nz = y[1:].contiguous()\nz[0] = 1.0\nreturn z",
        "y = x.clone()\nz = y[:, None]\nz[:, 0] = 1.0\nreturn z",
        "y = x.clone()\nz = y[1:]\nz += 1.0\nreturn z",
        "y = x.clone()\nz = y[1:].clone()\nz[0] = 1.0\nreturn z",
        "y = x.clone()\nz = y[1:]\ny[0] = 5.0\nreturn z * 2 + y[1:]",
        "y = x.clone()\ny[0, ...] = 5.0\nreturn y",
        "y = x.clone()\ny[0][1][2:] = 3.0\nreturn y",
        "y = x.clone()\ny[0][1:].copy_(x[0, :2])\nreturn y",
        "y = x.clone()\nz = y[0]\nz[0] = x[1, 1]\nz = y[1]\nz[1] = x[1, 0]\nreturn y",
        "y = x.clone()\nz = y[0]\nif flag:\n    z[0] = 1.0\nelse:\n    z[1] = 1.0\nreturn y",
        "y = x.clone()\nif not torch._dynamo.is_exporting():\n    y = y * 2\nelse:\n    y[..., 0] = 1.0\nreturn y",
        "y = x.clone()\nz = y.view(-1)\ny.add_(1)\nreturn y + z.shape[0]",
        "y = x.clone()\nz = y[:, -1:]\nz[z > 0.9] = 1.0\nz[z < 1.0] = 0.0\nreturn y[:, :-1] * z",
        "if self.training:\n    y = x.clone()\n    y[0].mul_(3)\n    x = y * 1\nreturn x",
        "y = x.clone()\nz = y[:, -n:]\nz -= 1.0\ny = y[:, :-n]\nreturn y + 1",
        "y = x.clone()\nif n:\n    z = y[:, -n:]\n    if flag:\n        z -= 1.0\n    x[:] = z\n    y = y[:, :-n]\nreturn y",
    ],
)
def test_a_write_that_conversion_follows_is_clean(forward: str) -> None:
    assert codes(net(forward), "MUT001") == []


def test_the_fix_assigns_to_the_part() -> None:
    assert "y[0] = y[0].mul(3)\n" in fixed(net("y = x.clone()\ny[0].mul_(3)\nreturn y"))
    spelled = fixed(net("y = torch.zeros(2, 3, 4)\ny[..., 1] = x\nreturn y"))
    assert "y[:, :, 1] = x\n" in spelled


def test_the_fix_is_for_what_it_reaches() -> None:
    assert "part[1] = part[1].mul(3)\n" in fixed(net("y = x.clone()\npart = y[0]\npart[1].mul_(3)\nreturn part"))
    assert "part[1] = 0\n" in fixed(net("y = x.clone()\npart = y[0]\npart[1].zero_()\nreturn y"))
    # `part[1] = part[1].mul(3)` reads a part of the part first: then `y` is left as it was.
    for lines in ("view = y.view(2, -1, 4)\nview[:, 1].mul_(3)", "part = y[0]\npart[1].mul_(3)"):
        text = net(f"y = x.clone()\n{lines}\nreturn y")
        assert [one.fix for one in modellint.check_source(text).diagnostics if one.code == "MUT001"] == [None]


@pytest.mark.parametrize(
    "lines",
    [
        "part[1:] = part[:-1]",
        "first = part[0].sum()\npart[1] = first",
        "if flag:\n    first = part[0]\n    part[1] = first",
        "for _ in range(2):\n    part[1] = part[0] * 2",
    ],
)
def test_what_reads_a_named_part_first_makes_it_a_tensor_of_its_own(lines: str) -> None:
    """Compared on a trace: the name gets what is written, and the tensor that it is a part of does not."""
    assert codes(net(f"y = x.clone()\npart = y[:, 1:3]\n{lines}\nreturn part * 1", "x, flag"), "MUT001") == []
    text = net(f"y = x.clone()\npart = y[:, 1:3]\n{lines}\nreturn part * 1, y", "x, flag")
    (finding,) = (one for one in modellint.check_source(text).diagnostics if one.code == "MUT001")
    assert "shares memory with `y`" in finding.message


@pytest.mark.parametrize(
    "lines",
    [
        "part[1:] = 3.0",
        "if flag:\n    first = part[0]\npart[1] = 3.0",
        "part[1] = part[self.index]",
        "part[1] = part[:, None]",
        "part[1] = part[:, :].sum()",
        "first = part[0] if flag else x[0]\npart[1] = first",
        "first = part[0]\npart = y[:, 2:]\npart[1] = first",
    ],
)
def test_a_named_part_that_nothing_certainly_reads_first_misses_the_write(lines: str) -> None:
    init = "self.register_buffer('index', torch.tensor([0]))"
    text = net(f"y = x.clone()\npart = y[:, 1:3]\n{lines}\nreturn part * 1", "x, flag: bool = False", init)
    (finding,) = (one for one in modellint.check_source(text).diagnostics if one.code == "MUT001")
    assert "is a part of another tensor" in finding.message


def test_no_fix_spells_an_ellipsis_out_where_the_whole_is_read_too() -> None:
    text = net("y = torch.zeros(2, 3, 4)\npart = y[0]\npart[..., 1] = y[1, ..., 1]\nreturn part + y[0]")
    assert [(one.code, one.fix) for one in modellint.check_source(text).diagnostics] == [("MUT001", None)]


@pytest.mark.parametrize("index", ["[0, 2]", "list(range(2)) + [3]", "columns"])
def test_a_list_behind_an_ellipsis_is_refused_on_both_routes(index: str) -> None:
    text = net(f"columns = [0, 1] + [3]\ny = x.clone()\ny[..., {index}] = x[..., {index}] * 2\nreturn y")
    (finding,) = (one for one in modellint.check_source(text).diagnostics if one.code.startswith("MUT"))
    assert (finding.code, finding.message.rpartition(", ")[2]) == ("MUT002", "on both routes")


@pytest.mark.parametrize("index", ["..., 1, [0, 2]", "..., 1:3, (0, 2)", "..., self.i, 0", "..., None, range(2)"])
def test_what_stands_beside_another_index_behind_an_ellipsis_is_dropped_or_refused(index: str) -> None:
    init = "self.register_buffer('i', torch.tensor([0, 2]))"
    for rest, ending in (("return y", "it is dropped without a word"), ("return y.relu() + x", "on both routes")):
        text = net(f"y = x.clone()\ny[{index}] = 0.0\n{rest}", init=init)
        (finding,) = (one for one in modellint.check_source(text).diagnostics if one.code.startswith("MUT"))
        assert (finding.code, finding.message.rpartition(", ")[2]) == ("MUT002", ending)


# By tensors of indices and by masks


@pytest.mark.parametrize(
    "forward",
    [
        "y = x.clone()\ny[:, self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[self.i, 0] = 0.0\nreturn y",
        "y = x.clone()\ny[0, self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[:, [0, 2]] = 0.0\nreturn y",
        "y = x.clone()\ny[torch.arange(3), 1] = 0.0\nreturn y",
        "y = x.clone()\ny[:, x.argmax(0)] += 1.0\nreturn y",
        "y = x.clone()\ny[..., self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[:, range(2)] = 0.0\nreturn y",
        "y = x.clone()\ny[:, (0, 2)] = 0.0\nreturn y",
        "y = x.clone()\ny[range(2), 1] = 0.0\nreturn y",
    ],
)
def test_an_assignment_by_indices_next_to_another_is_found(forward: str) -> None:
    init = "self.register_buffer('i', torch.tensor([0, 2]))"
    assert found(net(forward, init=init)) == [("MUT002", Severity.ERROR)]


@pytest.mark.parametrize(
    "forward",
    [
        "y = x.clone()\ny[self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[self.i, self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[range(len(y)), x[:, 0].long() + 5] = 0.0\nreturn y",
        "y = x.clone()\ny[(0, 1), self.i] = 0.0\nreturn y",
        "y = x.clone()\ny[..., [2]] = 0.0\nreturn y",
        "y = x.clone()\nplace = (0, 1)\ny[place] = 0.0\nreturn y",
        "y = x.clone()\nfor i in range(3):\n    y[:, i] = i\nreturn y",
        "y = x.clone()\ny[self.i, ...] = 0.0\nreturn y",
        "y = x.clone()\nfor i, n in enumerate(x.sum(1)):\n    y[i, n] = 0.0\nreturn y",
        "y = x.clone()\nn = x.argmax(0)\ny[0, n[0] - 2] = 0.0\nreturn y",
        "y = x.clone()\ny[:, 1] = x[:, self.i].sum(1)\nreturn y",
        "rows = [x, x]\nrows[0] = x.abs()\nreturn rows",
    ],
)
def test_other_assignments_to_items_are_clean(forward: str) -> None:
    assert codes(net(forward, init="self.register_buffer('i', torch.tensor([0, 2]))"), "MUT002", "MUT003") == []


def test_an_assignment_by_indices_becomes_index_put() -> None:
    text = fixed(
        net("y = x.clone()\ny[:, self.i] = 0.5\nreturn y", init="self.register_buffer('i', torch.tensor([0, 2]))")
    )
    assert "y = y.transpose(0, 1).index_put((self.i,), y.new_tensor(0.5)).transpose(0, 1)\n" in text


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        ("y = x.clone()\ny[x > 0] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\ny[x > 0] = x[x > 0].mean(0)\nreturn y", Severity.INFO),
        ("y = x.clone()\ny[x > 0, ...] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\ny[x > 0] = x[x > 0] + 1\nreturn y", Severity.WARNING),
        ("y = x.clone()\ny[~torch.isnan(x)] *= 2\nreturn y", Severity.WARNING),
        ("y = x.clone()\ny[mask] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\ny[(x > 0) & (x < 1)] = x[0, 0]\nreturn y", Severity.INFO),
        ("y = x.clone()\ny[:, mask] = 0.0\nreturn y", Severity.ERROR),
        ("y = x.clone()\ny[:, x[0] > 0] = 0.0\nreturn y", Severity.ERROR),
        ("y = x.clone()\ny[x[:, 0] > 0, 1] = 0.0\nreturn y", Severity.ERROR),
        ("y = x.clone()\nm = torch.ones(3, dtype=torch.bool)\ny[m] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nm = x[0].to(torch.bool)\ny[:, m] = 0.0\nreturn y", Severity.ERROR),
        ("y = x.clone()\nm = torch.tensor(self.n == 3)\ny[m] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nm = torch.gather(mask, 1, x.long())\ny[m] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nids_mask = mask.clone()\ny[ids_mask] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nis_first = torch.roll(mask, 1)\ny[is_first] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nkept = self.names['kept']\ny[(kept != 0) & self.names['on']] = 0.0\nreturn y", Severity.INFO),
        ("y = x.clone()\nvalid = self.names['valid']\ny[valid] = 0.0\nreturn y", Severity.INFO),
    ],
)
def test_an_assignment_by_a_mask_is_found(forward: str, severity: Severity) -> None:
    assert found(net(forward, "x, mask")) == [("MUT003", severity)]


@pytest.mark.parametrize(
    "forward",
    [
        "y = x.clone()\nm = torch.ones(3, dtype=torch.long)\ny[m] = 0.0\nreturn y",
        "y = x.clone()\nvalid_ids = self.names['valid']\ny[valid_ids] = 0.0\nreturn y",
        "y = self.names['y']\nvalid = self.names['valid']\ny[0, valid] = 0.0\nreturn y",
        "y = x.clone()\ny[self.n & 1] = 0.0\nreturn y",
    ],
)
def test_what_is_not_shown_to_be_a_mask_is_none(forward: str) -> None:
    assert "MUT003" not in codes(net(forward))


def test_a_mask_that_training_uses_too_is_found() -> None:
    helper = "def put(y, mask):\n    y = y.clone()\n    y[mask] = 0.0\n    return y\n\n\n"
    forward = "if self.training:\n    return put(x, x > 1)\nreturn put(x, x > 2)"
    assert ("MUT003", Severity.INFO) in found(net(forward).replace("class Net", helper + "class Net"))


def test_a_number_into_a_fresh_tensor_is_filled_in_safely() -> None:
    fresh = net("y = x * 2\ny[y > 1] = 0.5\nreturn y")
    assert "y = y.masked_fill(y > 1, 0.5)\n" in fixed(fresh, unsafe=False)
    shared = net("y = x * 2\nz = y\ny[y > 1] = 0.5\nreturn y + z")
    assert fixed(shared, unsafe=False) == shared
    lower = net("y = x * 2\ny[mask] = 0.5\nreturn y", "x, mask")
    assert fixed(lower, unsafe=False) == lower
    both = net("y = x * 2\ny[y > 1] = x[y > 1]\nreturn y")
    assert "y = x.where(y > 1, y)\n" in fixed(both)


@pytest.mark.parametrize(
    ("assigned", "is_fixed"),
    [
        ("y[mask] = 0.5", False),
        ("y[mask] = x[mask]", False),
        ("y[(y > 1) & mask] = 0.5", True),
        ("y[(x > 1).any(-1)] = 0.5", False),
        ("y[y == float('inf')] = 0.5", True),
    ],
)
def test_a_mask_that_may_have_fewer_dimensions_is_left_as_it_is(assigned: str, is_fixed: bool) -> None:
    text = net(f"y = x * 2\n{assigned}\nreturn y", "x, mask")
    assert (fixed(text) != text) == is_fixed


def test_an_assignment_to_a_slice_is_off_by_default() -> None:
    text = net("y = x.clone()\ny[:, 1:] = x[:, :-1]\nreturn y")
    assert codes(text, "MUT004") == []
    Path("modellint.toml").write_text('extend-select = ["MUT004"]\n')
    assert found(text) == [("MUT004", Severity.INFO)]
    assert "y = y.slice_scatter(x[:, :-1], 1, 1)\n" in fixed(text)


# State

BUFFER = "self.register_buffer('last', torch.zeros(3))"


@pytest.mark.parametrize(
    "forward",
    [
        "y = x + self.last\nself.last.copy_(x[0])\nreturn y",
        "self.last += 1\nreturn x + self.last",
        "self.last = torch.roll(self.last, 1) + x[0].abs()\nreturn x + self.last",
        "self.last[0] = x.sum()\nreturn x + self.last",
        "self.last.data.copy_(x[0])\nreturn x + self.last",
        "with torch.no_grad():\n    self.last.view(-1).add_(1)\nreturn x + self.last",
    ],
)
def test_a_buffer_that_changes_is_found(forward: str) -> None:
    assert found(net(forward, init=BUFFER)) == [("MUT005", Severity.ERROR)]


@pytest.mark.parametrize(
    "forward",
    [
        "if self.training:\n    self.last.copy_(x[0])\nreturn x + self.last",
        "if self.training:\n    if x.dim() > 1:\n        with torch.no_grad():\n            self.last += 1\nreturn x + self.last",
        "if not self.training:\n    return x + self.last\nself.last += 1\nreturn x",
        "if not torch.jit.is_tracing():\n    self.last += 1\nreturn x + self.last",
        "self.last = self.last.to(x.device)\nreturn x + self.last",
        "last = self.last.clone()\nlast.add_(x[0])\nreturn x + last",
    ],
)
def test_a_buffer_that_stays_in_evaluation_is_clean(forward: str) -> None:
    assert codes(net(forward, init=BUFFER), "MUT005") == []


@pytest.mark.parametrize(
    ("forward", "rows"),
    [
        ("if self.flag:\n    self.last.copy_(x[0])\nelse:\n    self.last.add_(x[0])\nreturn x + self.last", [2, 4]),
        (
            "put(self.other, x)\nif self.flag:\n    put(self.last, x)\nelse:\n    put(self.last, -x)\nreturn x",
            [1, 3, 5],
        ),
        ("if self.flag:\n    self.last.copy_(x[0])\nself.last.add_(x[0])\nreturn x + self.last", [2]),
        ("if self.flag:\n    self.last.copy_(x[0])\n    self.last.add_(x[0])\nreturn x + self.last", [2]),
    ],
)
def test_of_changes_of_a_buffer_one_is_told_for_each_branch(forward: str, rows: list[int]) -> None:
    text = net(forward, init=f"{BUFFER}\nself.register_buffer('other', torch.zeros(3))\nself.flag = flag")
    text += "\n\ndef put(buffer, value):\n    buffer.copy_(value)\n"
    start = text[: text.index("def forward")].count("\n") + 1
    told = [one for one in modellint.check_source(text).diagnostics if one.code == "MUT005"]
    assert [one.span.row - start for one in told if one.span] == rows


def test_a_running_statistic_is_mut008s_and_other_updates_of_it_are_not() -> None:
    text = net(
        "self.last.mul_(0.9).add_(0.1 * x.detach().mean(0))\nself.last[0] = x.sum()\nreturn x - self.last", init=BUFFER
    )
    assert codes(text) == ["MUT008", "MUT005"]


TABLE = """
self.register_buffer("rates", torch.ones(3))
self.length = 8
self.register_buffer("last", torch.zeros(8, 3))
"""
GROWN = """

    def grow(self, length):
        self.length = length
        rows = torch.arange(length, dtype=torch.float32)
        table = torch.zeros(length, 3)
        table[:, 0::2] = torch.outer(rows, self.rates)[:, :2].cos()
        table[:, 1] = rows * 2
        self.register_buffer("last", table)
"""


@pytest.mark.parametrize(
    "forward",
    [
        "if self.last.shape != x.shape:\n    self.last = torch.ones(x.shape)\nreturn x + self.last",
        "n = x.shape[1]\nif n > self.length:\n    self.grow(2 * n)\nreturn x + self.last[:n]",
        "n = offset + x.size(1)\nif n > self.last.size(0):\n    self.grow(length=n)\nreturn x + self.last[:n]",
        "if len(x) > 8:\n    self.last = torch.stack([self.rates * i for i in range(len(x))]).to(x)\nreturn x + self.last",
        "if x.shape[1] > 8:\n    self.last = x.new_zeros(x.shape[1], 3)\nreturn x + self.last",
    ],
)
def test_a_table_of_sizes_made_anew_is_for_information(forward: str) -> None:
    text = net(forward, arguments="x, offset=0", init=TABLE) + GROWN
    assert found(text) == [("MUT005", Severity.INFO)]


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        ("if x.shape[1] > 8:\n    self.last = x[0] * torch.ones(3)\nreturn x + self.last", "ERROR"),
        ("if x.shape[1] > 8:\n    self.last = torch.cat([self.last, torch.ones(1, 3)])\nreturn x + self.last", "ERROR"),
        ("if x.sum() > 8:\n    self.last = torch.ones(x.shape)\nreturn x + self.last", "WARNING"),
        ("if x.shape[1] > 8:\n    self.grow(int(x.max()))\nreturn x + self.last", "WARNING"),
        ("if x.shape[1] > 8:\n    self.last = torch.rand(x.shape)\nreturn x + self.last", "WARNING"),
        ("if x.shape[1] > 8:\n    self.last = offset\nreturn x + self.last", "WARNING"),
        ("if offset.any():\n    self.grow(x.shape[1])\nreturn x + self.last", "WARNING"),
        ("self.rates.mul_(2)\nif x.shape[1] > 8:\n    self.grow(x.shape[1])\nreturn x + self.last", "WARNING"),
        ("self.length += 1\nself.last = torch.ones(self.length, 3)\nreturn x + self.last[:8]", "WARNING"),
        ("self.last = other(x.shape[1])\nreturn x + self.last", "WARNING"),
    ],
)
def test_a_buffer_that_something_else_goes_into_weighs_more(forward: str, severity: str) -> None:
    text = net(forward, arguments="x, offset", init=TABLE) + GROWN
    told = [one for one in modellint.check_source(text).diagnostics if one.code == "MUT005"]
    assert severity in [one.severity.name for one in told if one.attribute == "last"]


@pytest.mark.parametrize(
    "forward",
    [
        "if not self.inited:\n    self.last.copy_(x[0])\nreturn x + self.last",
        "if self.last.numel() == 0:\n    self.last.copy_(x[0])\nreturn x + self.last",
        "self.last_loss[0] = x.sum()\nreturn x + self.last",
    ],
)
def test_a_buffer_that_is_filled_once_or_keeps_a_loss_is_for_information(forward: str) -> None:
    init = f"{BUFFER}\nself.register_buffer('last_loss', torch.zeros(1))\nself.inited = flag"
    assert found(net(forward, init=init)) == [("MUT005", Severity.INFO)]


@pytest.mark.parametrize(
    "forward",
    [
        "y = x if self.h is None else x + self.h\nself.h = y.detach()\nreturn y",
        "self.n += 1\nreturn x * self.n",
        "self.n = self.n + 1\nreturn x * self.n",
    ],
)
def test_an_attribute_that_outlives_the_call_is_found(forward: str) -> None:
    assert found(net(forward, init="self.h = None\nself.n = 0")) == [("MUT006", Severity.WARNING)]


@pytest.mark.parametrize(
    "forward",
    [
        "self.h = x.abs()\nreturn self.h * 2",
        "self.h = x.abs()\nreturn x",
        "self.h = x.abs()\nself.h += 1\nreturn self.h",
        "self.begin()\nself.h = x if self.h is None else self.h + x.abs()\nreturn self.h",
        "self.n = x.shape[0]\nreturn x * self.n",
        "if self.training:\n    self.n += 1\nreturn x * self.n",
        "if self.keep:\n    self.h = x if self.h is None else self.h + x.abs()\nreturn x",
    ],
)
def test_an_attribute_of_one_call_is_clean(forward: str) -> None:
    begin = "\ndef begin(self, keep=False):\n    if not keep:\n        self.h = None\n"
    assert codes(net(forward, init="self.h = None\nself.n = 0\nself.keep = flag", extra=begin), "MUT006") == []


@pytest.mark.parametrize(
    ("forward", "extra"),
    [
        ("self.mean = x.mean(0)\nreturn x - self.mean", "\ndef inverse(self, y):\n    return y + self.mean\n"),
        ("self.n += 1\nif self.n > 3:\n    print(self.n)\nreturn x", ""),
        ("self.n += len(x)\nreturn x", ""),
    ],
)
def test_what_only_another_method_reads_and_counters_are_for_information(forward: str, extra: str) -> None:
    assert found(net(forward, init="self.mean = None\nself.n = 0", extra=extra)) == [("MUT006", Severity.INFO)]


@pytest.mark.parametrize(
    "forward",
    [
        "self.start(x)\nfor _ in range(3):\n    self.step(x)\nreturn self.h",
        "if self.flag:\n    self.start(x)\nelse:\n    self.h = x.abs()\nself.step(x)\nreturn self.h",
        "with torch.no_grad():\n    self.start(x)\nself.step(x)\nreturn self.h",
    ],
)
def test_a_state_that_each_call_begins_anew_is_clean(forward: str) -> None:
    extra = "\ndef start(self, x):\n    self.h = x * 0\n\ndef step(self, x):\n    self.h = self.h + x.abs()\n"
    assert codes(net(forward, init="self.h = None\nself.flag = flag", extra=extra), "MUT006") == []


@pytest.mark.parametrize(
    "forward",
    [
        "if self.flag:\n    self.start(x)\nself.step(x)\nreturn self.h",
        "self.step(x)\ny = self.h * 2\nself.start(x)\nreturn y",
        "if getattr(self, 'h', None) is not None:\n    x = x + 1\nself.h = x.abs()\nreturn x",
    ],
)
def test_a_state_that_a_call_may_find_is_found(forward: str) -> None:
    extra = "\ndef start(self, x):\n    self.h = x * 0\n\ndef step(self, x):\n    self.h = self.h + x.abs()\n"
    said = found(net(forward, init="self.h = None\nself.flag = flag", extra=extra))
    assert said == [("MUT006", Severity.WARNING)]


STATE = """
class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.state = None

    def clear(self, x):
        self.state = x.new_zeros(1, x.shape[0], x.shape[2])

    def forward(self, x, fresh={default}):
        if {test}:
            self.clear(x)
        y, state = self.rnn(x, self.state)
        self.state = state.detach()
        return y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(8)

    def forget(self, x):
        self.cell.clear(x)

    def forward(self, x{more}):
        return self.cell(x{given})
"""


@pytest.mark.parametrize(
    ("default", "test", "more", "given", "use"),
    [
        ("False", "self.state is None or fresh", ", fresh=True", ", fresh", "net(x, fresh=True)"),
        ("False", "fresh or self.state.shape[1] != len(x)", "", ", fresh=True", "net(x)"),
        ("True", "self.state is None or fresh", "", "", "net(x)"),
        ("False", "not fresh", "", "", "net(x)"),
    ],
)
def test_a_state_that_a_flag_of_all_calls_begins_anew_is_clean(
    default: str, test: str, more: str, given: str, use: str
) -> None:
    assert of_files(STATE.format(default=default, test=test, more=more, given=given), use) == []


@pytest.mark.parametrize(
    ("default", "test", "more", "given", "use"),
    [
        ("False", "self.state is None or fresh", ", fresh=True", ", fresh", "net(x, fresh=first)"),
        ("False", "self.state is None or fresh", ", fresh=True", ", fresh", "net(x, False)"),
        ("False", "self.state is None or fresh", ", fresh=False", ", fresh", "net(x)"),
        ("True", "self.state is None or fresh", "", ", fresh=False", "net(x)"),
        ("True", "self.state is None or fresh", "", ", **self.options", "net(x)"),
        ("True", "self.state is None and fresh", "", "", "net(x)"),
        ("True", "self.state is None or fresh", "", "", "net.cell(x, False)"),
    ],
)
def test_a_state_that_a_call_may_go_on_with_is_found(default: str, test: str, more: str, given: str, use: str) -> None:
    assert of_files(STATE.format(default=default, test=test, more=more, given=given), use) == ["MUT006"]


HELD = """

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forget(self):
        self.last = None

    def forward(self, x):
        y = x * 2 if self.last is None else x + self.last
        self.last = torch.tanh(y)
        return y


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def clear(self):
        self.layer.forget()

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self, deep=True):
        super().__init__()
        self.deep = deep
        self.cell = Cell()

    def begin(self):
        self.cell.clear()

    def forward(self, x):
        if self.deep:
            BODY
        return x
"""


def test_a_state_that_the_module_around_may_not_reset_is_a_warning() -> None:
    text = HELD.replace("BODY", "self.cell.clear(); x = self.cell(x)")
    of_files(
        text.replace("self.layer.forget()", "if self.training:\n            return\n        self.layer.forget()"),
        "net(x)",
    )
    arguments = ["check", "--output-format", "json", "--select", "MUT006", "net.py"]
    found = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert [finding["severity"] for finding in found] == ["warning"]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("self.cell.clear(); x = self.cell(x); x = self.cell(x)", "info"),
        ("self.cell.clear(); x = sum(self.cell(x) for _ in range(3))", "info"),
        ("self.begin(); x = self.cell(x)", "info"),
        ("x = self.cell(x); self.cell.clear()", "warning"),
        ("x = self.cell(x); self.begin()", "warning"),
        ("x = self.cell(self.cell.clear() or x) if x.ndim > 2 else self.cell(x)", "warning"),
        ("x = self.cell(x)", "warning"),
    ],
)
def test_a_state_that_the_module_around_resets_is_for_information(body: str, severity: str) -> None:
    of_files(HELD.replace("BODY", body), "net(x)")
    arguments = ["check", "--output-format", "json", "--select", "MUT006", "net.py"]
    found = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert [finding["severity"] for finding in found] == [severity]


@pytest.mark.parametrize(
    ("flag", "test", "severity"),
    [
        ("self.fresh = True", "if self.fresh:", "info"),
        ("self.fresh = False", "if not self.fresh:", "info"),
        ("self.fresh = False", "if self.fresh:", "warning"),
        ("self.other = True", "if self.fresh:", "warning"),
        ("self.fresh = True", "if self.fresh and x.ndim > 2:", "warning"),
        ("self.fresh = True", "y = y + self.last\n        if self.fresh:", "warning"),
        ("self.fresh = True", "y = y + self.kept()\n        if self.fresh:", "warning"),
        ("self.fresh = True", "if self.fresh:\n            y = y + self.last", "warning"),
    ],
)
def test_a_state_that_a_flag_of_the_module_around_resets(flag: str, test: str, severity: str) -> None:
    of_files(FLAGGED.replace("FLAG", flag).replace("TEST", test), "net(x)")
    arguments = ["check", "--output-format", "json", "--select", "MUT006", "net.py"]
    found = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert [finding["severity"] for finding in found if "self.last" in finding["message"]] == [severity]


FLAGGED = """

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fresh = self.other = True
        self.last = None

    def forget(self):
        FLAG

    def kept(self):
        return self.last

    def forward(self, x):
        y = x * 2
        TEST
            self.last = torch.zeros_like(x)
            self.last.copy_(x)
        y = y + self.last
        self.last = torch.tanh(y)
        return y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        self.begin()
        for _ in range(3):
            x = self.layer(x)
        return x

    def begin(self):
        self.layer.forget()
"""


def of_files(text: str, use: str) -> list[str]:
    (Path.cwd() / ".git").mkdir()
    Path("net.py").write_text(HEAD + text, "utf-8")
    Path("run.py").write_text(
        f"from net import Net\n\n\ndef run(x, first):\n    net = Net().eval()\n    return {use}\n", "utf-8"
    )
    arguments = ["check", "--output-format", "json", "--select", "MUT", "net.py"]
    return [finding["code"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


@pytest.mark.parametrize(
    ("behind", "count"),
    [
        ("part = part % 1\ny[:, 0] = part", 0),
        ("y[:, 0] = part * 2", 0),
        ("y[:, 1] = part * 2", 1),
        ("y[:, 0] = y[:, 0] * 2", 1),
        ("x = x + y.sum()\ny[:, 0] = part", 1),
        ("if x.ndim > 2:\n    y[:, 0] = part", 1),
    ],
)
def test_a_part_that_is_assigned_anew_before_the_whole_is_read(behind: str, count: int) -> None:
    body = f"y = x.clone()\npart = y[:, 0]\npart += 1\n{behind}\nreturn x + y"
    found = [one for one in modellint.check_source(net(body)).diagnostics if one.code == "MUT001"]
    assert len([one for one in found if "`y`" in one.message]) == count
    again = net(body.replace("y = x.clone()\n", "y = x.clone()\nz = y\n") + " + z")
    assert "MUT001" in codes(again)


@pytest.mark.parametrize(
    ("asked", "is_found"),
    [("part is None", True), ("x[1] is None", False), ("x[i] is not None", False)],
)
def test_rows_of_what_is_said_to_be_a_tensor(asked: str, is_found: bool) -> None:
    body = f"for i in range(2):\n    part = x[i]\n    if {asked}:\n        return part\n"
    body += "    x[i] = self.fc(x[i])\n    part += 1\nreturn x[0] * part"
    assert bool(codes(net(body, "x: torch.Tensor", "self.fc = nn.Linear(3, 3)"))) is is_found


# Arguments


@pytest.mark.parametrize(
    "forward",
    [
        "x.clamp_(0, 1)\nreturn x",
        "x[:, 0] = 0.0\nreturn x",
        "x += x.mean()\nreturn x",
        "y = x.view(-1)\ny += 1\nreturn y",
    ],
)
def test_an_argument_that_is_changed_is_found(forward: str) -> None:
    text = net(forward)
    assert codes(text) == ["MUT007"]
    first = "x = x.clamp(0, 1)" if "clamp_" in forward else "x = x.clone()"
    assert f"    def forward(self, x):\n        {first}\n" in fixed(text)


@pytest.mark.parametrize(
    "forward",
    [
        "x = x * 2\nx.clamp_(0, 1)\nreturn x",
        "x = x.clone()\nx[:, 0] = 0.0\nreturn x",
        "count += 1\nreturn x.abs() * count",
        "return x.mul_(2) if self.inplace else x * 2",
        "x.unsqueeze_(0)\nreturn x",
    ],
)
def test_an_argument_that_stays_is_clean(forward: str) -> None:
    assert codes(net(forward, "x, count=0", init="self.inplace = flag"), "MUT007") == []


def test_a_write_through_a_view_of_an_argument_is_mut001s() -> None:
    assert codes(net("y = x.view(-1)\ny += 1\nreturn x * 2")) == ["MUT001"]


DROPPED = "is dropped without a word when a traced model is converted; `torch.export` keeps it"
REFUSED = "is refused by coremltools, on both routes"
EITHER = "is refused by coremltools; where a traced model computes nothing behind it, it is dropped without a word"


@pytest.mark.parametrize(
    ("assigned", "rest", "outcome"),
    [
        ("y[0, self.i]", "return y * 2", DROPPED),
        ("y[self.i, 1:3]", "return y * 2", DROPPED),
        ("y[:, [3]]", "return y * 2", DROPPED),
        ("y[0, m]", "return y * 2", DROPPED),
        ("y[:, self.i]", "return y * 2", REFUSED),
        ("y[:, 0, self.i]", "z = y + 1\nreturn z", REFUSED),
        ("y[:, m]", "return y * 2", REFUSED),
        ("y[:, self.i]", "y[:, 0] = 1.0\nreturn y", REFUSED),
        ("y[..., self.i]", "return y", REFUSED),
        ("y[..., m]", "return y", REFUSED),
        ("y[:, self.i]", "return y", EITHER),
        ("y[:, m]", "return y, x", EITHER),
        ("y[:, self.i]", "z = y\nreturn z", EITHER),
    ],
)
def test_an_assignment_by_tensors_says_what_becomes_of_it(assigned: str, rest: str, outcome: str) -> None:
    forward = f"y = x.clone()\nm = (x > 0).any(0)\n{assigned} = 0.0\n{rest}"
    text = net(forward, init='self.register_buffer("i", torch.tensor([0, 2]))')
    findings = [part for part in modellint.check_source(text).diagnostics if part.code in ("MUT002", "MUT003")]
    assert [part.message.endswith(outcome) for part in findings] == [True], findings
    assert all(part.fix is not None or part.help for part in findings)


@pytest.mark.parametrize("assigned", ["y[:, 1]", "y[0, 1]", "y[self.i]", "y[self.i, self.i]", "y[self.i, ...]"])
def test_assignments_that_convert_on_both_routes_are_clean(assigned: str) -> None:
    text = net(f"y = x.clone()\n{assigned} = 0.0\nreturn y", init='self.register_buffer("i", torch.tensor([0, 2]))')
    assert codes(text, "MUT002") == []


def test_what_only_one_branch_leaves_the_argument_is_not_certainly_changed() -> None:
    forward = "n = x\nif size is not None:\n    n = size.count()\nn.clamp_(max=3)\nreturn n * 2"
    assert codes(net(forward, "x: torch.Tensor, size=None"), "MUT007") == []
    assert codes(net("n = x\nn.clamp_(max=3)\nreturn n * 2", "x: torch.Tensor"), "MUT007") == ["MUT007"]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ("x", ""),
        ("x: torch.Tensor | tuple", ""),
        ("x: torch.Tensor = None", ""),
        ("x", "if isinstance(x, tuple):\n    x = x[0]\n"),
        ("x", "a, b = x\n"),
    ],
)
def test_what_may_be_no_tensor_is_not_copied(arguments: str, start: str) -> None:
    text = net(f"{start}x.clamp_(0, 1)\nreturn x * 2", arguments)
    assert ("x = x.clamp(0, 1)" in fixed(text)) == (arguments == "x" and not start)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = self.layer(x.clone())\ny[..., 2:, :] = x[..., 2:, :]\nreturn y", ["MUT001"]),
        ("y = make()\ny[..., 2:, :] = x[..., 2:, :]\nreturn y", []),
        (
            "for i in range(4):\n    at = y[i, :2, 0].to(torch.int64)\n    x = x * 1\n    x[i, at, torch.arange(2)] = 1.0\nreturn x",
            ["MUT002"],
        ),
    ],
)
def test_several_indices_show_a_tensor(body: str, found: list[str]) -> None:
    init = "self.layer = nn.Linear(4, 4)"
    assert codes(net(body, "x, y", init), "MUT001", "MUT002") == found


@pytest.mark.parametrize(
    ("mask", "severity"),
    [
        ("torch.ones(b, n, device=x.device).type_as(x).reshape(b, n, 1).repeat(1, 1, c)\nm[:, :start] = 0", "I"),
        ("torch.arange(n) < n // 2", "I"),
        ("torch.zeros(b, n, c) > 1\nm[:, 0] = torch.ones(c) > 0", "I"),
        ("x > 0", "W"),
        ("torch.rand(b, n, c) < 0.5", "W"),
        ("torch.arange(n) < x.max().item()", "W"),
        ("torch.ones(b, n, c) > 0\nm[:, 0] = x[:, 0] > 0", "W"),
        ("torch.ones(b, n, c) > 0\nm &= x > 0", "W"),
    ],
)
def test_a_mask_that_no_input_changes(mask: str, severity: str) -> None:
    text = net(f"b, n, c = x.shape\nstart = 2\ny = x * 2\nm = {mask}\ny[m.bool()] = x[m.bool()] + 1\nreturn y")
    assert severity in [said[0] for said in nets.said(text, "MUT003")]


@pytest.mark.parametrize(
    ("index", "expected"), [("range(len(found)), found[:, 0].long() + 5", []), ("range(len(found)), 3", ["MUT002"])]
)
def test_a_slice_that_is_cast_to_whole_numbers_is_no_single_number(index: str, expected: list[str]) -> None:
    forward = f"""
        labels = ()
        for row in range(2):
            found = labels[row]
            y = torch.zeros((len(found), 9))
            y[{index}] = 1.0
            x = torch.cat((x, y), 0)
        return x
    """
    assert codes(net(forward), "MUT002") == expected


@pytest.mark.parametrize(
    ("arguments", "severity"),
    [("x, old, new", Severity.INFO), ("x, old: torch.Tensor, new", Severity.WARNING)],
)
def test_a_mask_of_rates_is_the_same_for_all_inputs(arguments: str, severity: Severity) -> None:
    forward = (
        "n = int(old) // int(new)\nt = torch.arange(0, n) / new - 2 / old\nw = torch.zeros_like(t)\nnear = t.abs().lt(1)\n"
        "w[near] = torch.cos(t[near])\nreturn x * w.sum()"
    )
    findings = [
        one for one in modellint.check_source(net(forward, arguments=arguments)).diagnostics if one.code == "MUT003"
    ]
    assert [one.severity for one in findings] == [severity]


@pytest.mark.parametrize(
    ("made", "behind", "expected"),
    [
        ("torch.zeros(4, 4)", "return x", []),
        ("torch.zeros(4, 4).to(x.device)", "return x", []),
        ("torch.zeros(4, 4)", "return x + y", ["MUT002"]),
        ("torch.zeros(4, 4)", "y += 1\nreturn x", ["MUT002"]),
        ("torch.zeros(4, 4)", "keep = y[:2]\nreturn x", ["MUT002"]),
        ("x * 2", "return x", []),
        ("x.view(4, 4)", "return x", ["MUT002"]),
    ],
)
def test_a_tensor_that_is_only_written_to(made: str, behind: str, expected: list[str]) -> None:
    text = net(f"y = {made}\ny[:, self.i] = x[:, :2]\n{behind}", init="self.register_buffer('i', torch.tensor([0, 2]))")
    assert codes(text, "MUT002") == expected


@pytest.mark.parametrize(
    ("index", "behind", "ending"),
    [
        ("rows[:, None], columns[None, :]", "", "on both routes"),
        ("rows.unsqueeze(1), columns", "", "on both routes"),
        ("rows[:, None], columns[None, :], 0", "", "it is dropped without a word"),
        ("rows[:, None], columns[None, :], 0", " + 1", "on both routes"),
        ("rows[:, None], i", "", None),
        ("rows, rows", "", None),
        ("*torch.broadcast_tensors(rows[:, None], columns), ", "", None),
    ],
)
def test_indices_that_are_broadcast_are_refused(index: str, behind: str, ending: str | None) -> None:
    body = f"""y = x * 1
rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1])
y[{index}] = 0.0
return y{behind}"""
    messages = [part.message for part in modellint.check_source(net(body, "x, i")).diagnostics if part.code == "MUT002"]
    assert [message.rpartition(", ")[2] for message in messages] == ([ending] if ending is not None else [])
    assert all("of different shapes" in message for message in messages)


@pytest.mark.parametrize(
    ("view", "is_refused"),
    [("y.narrow(1, 0, 2)", True), ("y.t()", True), ("y.chunk(2, 1)[0]", True), ("y.view(-1)", True), ("y", False)],
)
def test_to_fill_a_view_that_no_index_makes_is_refused(view: str, is_refused: bool) -> None:
    body = f"y = x.clone()\nz = y.t()\n{view}.fill_(0)\nreturn y * 2 + z.sum()"
    (finding,) = (part for part in modellint.check_source(net(body)).diagnostics if part.code == "MUT001")
    assert ("is refused from a trace" in finding.message) == is_refused


def test_what_a_permutation_laid_out_anew_is_a_copy() -> None:
    body = "self.out = x.reshape(2, 3, 4, 5).permute(0, 2, 3, 1).contiguous()\nself.out[0] = 1.0\nreturn self.out * 2"
    assert codes(net(body), "MUT010") == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = x[..., :-2].contiguous()\nx[..., -1] = 0\nreturn x", []),
        (
            "x = x + self.f(x)\ny = x[..., -2:].contiguous()\nx = x[..., :-2].contiguous()\nx[..., -1] = 0\nreturn x, y",
            [],
        ),
        ("y = x[..., 1:].contiguous()\ny[..., -1] = 0\nreturn y", []),
        ("y = x[..., :-2].contiguous()\ny[..., -1] = 0\nreturn x, y", ["MUT010"]),
        ("y = x[..., :n].contiguous()\ny[..., -1] = 0\nreturn y", ["MUT010"]),
        ("y = x[:-2, ...].contiguous()\ny[..., -1] = 0\nreturn y", ["MUT010"]),
        ("y = x[..., :-2].flatten()\ny[-1] = 0\nreturn y", ["MUT010"]),
    ],
)
def test_a_part_of_the_last_dimension_laid_out_anew_is_a_copy(body: str, expected: list[str]) -> None:
    assert codes(net(body), "MUT010") == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("torch.zeros(*x.shape)", []),
        ("x.new_ones(x.shape).to(x.device)", []),
        ("torch.zeros(*x.shape).to(memory_format=torch.channels_last)", ["MUT010"]),
        ("torch.zeros(3, 4).t()", ["MUT010"]),
        ("torch.zeros_like(x.permute(0, 2, 1)).to(x.device)", ["MUT010"]),
    ],
)
def test_a_reshape_of_what_is_made_in_order_is_a_view(made: str, expected: list[str]) -> None:
    assert codes(net(f"y = {made}\ny.data.flatten()[0] = 1\nreturn x + y.sum()"), "MUT010") == expected

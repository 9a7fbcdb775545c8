"""Programs that coremltools converts without a word into something else: found in source, live, and where they are executed."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import modellint
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.results.verification import Verification
from modellint.rule_index import load_rules
from modellint.session.verification_findings import CONFIRMED, findings
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")

LIVE = {
    code: rule for code, rule in load_rules().items() if hasattr(rule, "live") and "execution" not in rule.live_needs
}


class Row(NamedTuple):
    """One program of the table: the line that is to be reported ends in `# here`."""

    name: str
    forward: str
    inputs: tuple[torch.Tensor, ...]
    source: str = ""
    """The code that the source check gives; empty where the catalogue has none."""
    live: str = ""
    """The code that the live check gives; empty where only an execution shows it."""
    init: str = ""
    route: str = "trace"
    arguments: str = "x"
    precision: str = "fp32"
    """In which the executed program shows it."""
    elsewhere: bool = False
    """Whether an execution shows it at another line, or not at all."""


X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
ROW = torch.tensor([[1.0, 2.0, 3.0, 4.0], [9.0, 8.0, 7.0, 6.0]])
MASK = torch.tensor([[True, False, True], [True, True, True]])
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
BUFFER = 'self.register_buffer("a", torch.zeros(3))'

ROWS = [
    Row("write through a view", "y = x * 1\nz = y.view(-1)\nz.add_(1)  # here\nreturn y * 2", (X,), "MUT001", "MUT001"),
    Row("write to a row", "y = x.clone()\ny[0].mul_(3)  # here\nreturn y", (X,), "MUT001", "MUT001"),
    Row(
        "assignment by indices",
        "y = x * 1\ny[:, i] = 0.0  # here\nreturn y",
        (X, torch.tensor([1])),
        "MUT002",
        "MUT002",
        arguments="x, i: torch.Tensor",
    ),
    Row(
        "alpha",
        "return torch.add(x, y, alpha=3.0)  # here",
        (X, X),
        "OPS007",
        "OPS007",
        route="export",
        arguments="x, y",
    ),
    Row("counter", "self.a.add_(1)  # here\nreturn x + self.a", (X,), "MUT005", "MUT005", BUFFER),
    Row(
        "running average",
        "self.a = 0.9 * self.a + 0.1 * x.mean(0)  # here\nreturn x - self.a",
        (X,),
        "MUT008",
        "MUT008",
        BUFFER,
    ),
    Row("branch", "if x.sum() > 0:  # here\n    return x * 2\nreturn x - 1", (X,), "FLW001", "FLW001"),
    Row("number", "return x * x.max().item()  # here", (X,), "FLW002", "FLW002"),
    Row("argmax", "return torch.argmax(x)  # here", (ROW,), "OPS006", "OPS006"),
    Row(
        "mask and indices",
        "return x[x[:, 0] > 0, j]  # here",
        (torch.ones(2, 4), torch.tensor([0, 3])),
        "OPS008",
        "OPS008",
        arguments="x, j: torch.Tensor",
    ),
    Row("number beyond int32", "return (x.long() + 2**40).float()  # here", (X,), "NUM006", "NUM006"),
    Row(
        "lowest number of float32",
        "y = x.masked_fill(m, torch.finfo(torch.float32).min)  # here\nreturn torch.softmax(y, -1)",
        (X, MASK),
        "NUM001",
        "NUM001",
        arguments="x, m",
        precision="fp16",
    ),
    Row("small epsilon", "return x / (x.abs() + 1e-12)  # here", (X * 1e-7,), "NUM002", "NUM002", precision="fp16"),
    Row(
        "normalization in a list",
        "return self.hidden[0](x)",
        (X,),
        "REG001",
        "REG001",
        "self.hidden = [nn.BatchNorm1d(3, affine=False)]  # here",
    ),
    Row(
        "dropout in a list",
        "return self.hidden[0](x)",
        (X,),
        "REG001",
        "REG001",
        "self.hidden = [nn.Dropout(0.5)]  # here",
        elsewhere=True,
    ),
    Row(
        "modules in a list, exported",
        "return self.hidden[0](x)",
        (X,),
        "REG001",
        "REG001",
        "self.hidden = [nn.Linear(3, 3)]  # here",
        route="export",
        elsewhere=True,
    ),
    Row("dropout as a function", "return F.dropout(x, 0.5)  # here", (X,), "MOD002", "MOD002"),
    Row("variance of all", "return x - x.var()  # here", (X,)),
    Row("deviation of all", "return x - x.std()  # here", (X,), route="export"),
    Row(
        "running statistics",
        "return self.norm(x)  # here",
        (torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0)),),
        init="self.norm = nn.InstanceNorm2d(2, track_running_stats=True)",
    ),
    Row(
        "padding of an encoder",
        "return self.encoder(x, src_key_padding_mask=m)  # here",
        (torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)), PADDING),
        init="layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)\n"
        "self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)",
        route="export",
        arguments="x, m",
    ),
    Row("approximated GELU", 'return F.gelu(x, approximate="tanh")  # here', (X,), route="export"),
    Row(
        "additions to a constant",
        "return x + self.a.scatter_add(1, self.i, self.u)  # here",
        (X,),
        init='self.register_buffer("a", torch.ones(2, 3))\nself.register_buffer("i", torch.tensor([[0, 1, 2], [2, 2, 1]]))\n'
        'self.register_buffer("u", torch.full((2, 3), 0.5))',
    ),
    Row(
        "packed sequences",
        "packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)\n"
        "y = self.lstm(packed)[0]  # here\n"
        "return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]",
        (torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)),),
        init="self.lstm = nn.LSTM(3, 4, batch_first=True)",
    ),
]


def text_of(row: Row) -> str:
    init = textwrap.indent(row.init or "pass", " " * 8)
    body = textwrap.indent(row.forward, " " * 8)
    return (
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{init}\n\n    def forward(self, {row.arguments}):\n{body}\n"
    )


def lines_of(text: str) -> list[int]:
    return [row for row, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]


@contextmanager
def built(text: str, folder: Path) -> Iterator[nn.Module]:
    """A `Net` of a file of its own, in evaluation mode."""
    path = folder / "silent_net.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        torch.manual_seed(0)
        spec.loader.exec_module(module)
        yield module.Net().eval()
    finally:
        del sys.modules[path.stem]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def named(rows: list[Row]) -> list[object]:
    return [pytest.param(row, id=row.name) for row in rows]


@pytest.mark.parametrize("row", named([row for row in ROWS if row.source]))
def test_source_finds_it(row: Row) -> None:
    found = modellint.check_source(text_of(row)).diagnostics
    assert (row.source, lines_of(text_of(row))) in [(one.code, [one.span.row]) for one in found if one.span is not None]


@pytest.mark.parametrize("row", named([row for row in ROWS if row.live]))
def test_a_live_check_finds_it(row: Row, tmp_path: Path) -> None:
    with built(text_of(row), tmp_path) as model:
        found = modellint.check_model(model, example_inputs=row.inputs, root=tmp_path, frontend=row.route).diagnostics
    here = {one.code for one in found if one.span is not None and [one.span.row] == lines_of(text_of(row))}
    assert row.live in here
    # What is found there beside it is about the same thing.
    assert here <= {row.live, "MUT009", "MOD001"}


@pytest.mark.parametrize("row", named([row for row in ROWS if not row.elsewhere]))
def test_an_execution_shows_it_and_confirms_what_was_found(row: Row, tmp_path: Path) -> None:
    with built(text_of(row), tmp_path) as model:
        shown = modellint.verify(model, row.inputs, root=tmp_path, frontend=row.route, precision=row.precision)
        if row.precision == "fp16":
            assert [one.ok for one in shown.outputs] == [True]
            assert [one.ok for one in shown.half] == [False]
            return
        assert shown.verdict == "differs"
        first = shown.first_difference
        assert first is not None
        rows = [one.place.span.row for one in (first, *first.lost) if one.place is not None]
        assert lines_of(text_of(row))[0] in rows
        subject = Subject(
            model, Inputs.of(row.inputs), tmp_path, Destination(frontend=row.route), execute=lambda subject: shown
        )
        confirmed = findings(subject, {row.live: LIVE[row.live]} if row.live else {}, shown)
    assert [CONFIRMED in (one.help or "") for one in confirmed] == [True] * bool(row.live)


def test_what_converts_right_by_now(tmp_path: Path) -> None:
    row = Row("diagonal", 'return torch.einsum("ii->i", x)', (torch.eye(4) + 1,))
    with built(text_of(row), tmp_path) as model:
        shown: Verification = modellint.verify(model, row.inputs, root=tmp_path, frontend="trace", precision="fp32")
    assert shown.verdict == "agrees"

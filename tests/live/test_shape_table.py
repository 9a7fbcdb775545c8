"""`modellint shapes`, its table from Python, and SHP008."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn
from torch.nn import functional

import modellint
from modellint.cli import cli
from modellint.live.check import check_subject
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.results.diagnostic import Diagnostic
from modellint.run import all_rules
from modellint.settings import Destination

MODEL = """\
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 5)
        self.tail = nn.Sequential(nn.Conv2d(6, 6, 1), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.tail(self.conv(x))


class Choosy(Body):
    def forward(self, x):
        return super().forward(x) if x.sum() < 1e9 else x


class Broken(Body):
    def forward(self, x):
        raise ValueError("no")


def pair():
    import torch

    return Body(), (torch.zeros(2, 3, 8, 8),)


net = Net()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "model.py").write_text(MODEL, "utf-8")
    (folder / "modellint.toml").write_text("", "utf-8")
    return folder


@pytest.fixture
def shapes(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(project)
    return lambda *arguments: CliRunner().invoke(cli, ["shapes", *arguments])


def test_the_tutorial_network(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:Net", "--input", "1024x3x32x32")
    assert found.exit_code == 0, found.output
    rows = found.stdout.splitlines()
    assert [row.split()[3] for row in rows[1:8]] == [
        "[1024,6,28,28]",
        "[1024,6,14,14]",
        "[1024,16,10,10]",
        "[1024,16,5,5]",
        "[1024,120]",
        "[1024,84]",
        "[1024,10]",
    ]
    assert rows[1].split() == [
        "conv1",
        "Conv2d",
        "[1024,3,32,32]",
        "[1024,6,28,28]",
        "456",
        "18.4",
        "MiB",
        "model.py:16",
    ]
    assert "parameters: 62,006" in found.stdout


def test_a_failing_layer_is_named_with_what_it_got_and_wants(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:Net", "--input", "4x3x28x28")
    assert found.exit_code == 1
    assert "SHP008 `fc1` (Linear) got [4, 256], and wants a last dimension of 400" in found.stdout
    assert "--> model.py:18:9" in found.stdout
    rows = [line.split()[:4] for line in found.stdout.splitlines()[4:6]]
    assert rows == [["pool", "MaxPool2d", "[4,16,8,8]", "[4,16,4,4]"], ["fc1", "Linear", "[4,256]", "failed"]]


def test_inputs_of_any_size_and_flexible_ones(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:Body", "--input", "1..8x3x65536x32..64", "--depth", "1")
    assert found.exit_code == 0, found.output
    rows = [row.split() for row in found.stdout.splitlines()[1:3]]
    assert [row[:4] for row in rows] == [
        ["conv", "Conv2d", "[N,3,65536,W]", "[N,6,65532,W-4]"],
        ["tail", "Sequential", "[N,6,65532,W-4]", "[N,6,65532,W-4]"],
    ]
    assert "lower bounds" in found.stdout


def test_nested_as_json(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:pair", "--nested", "--output-format", "json")
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["target"] == "model.py:pair"
    assert answer["diagnostics"] == []
    layers = answer["table"]["layers"]
    assert [layer["path"] for layer in layers] == ["", "conv", "tail", "tail.0", "tail.1"]
    assert layers[1]["outputs"] == [[2, 6, 4, 4]]
    assert layers[1]["memory"] == 2 * 6 * 4 * 4 * 4
    # In place: nothing new.
    assert layers[4]["memory"] == 0
    assert layers[1]["row"] == 30
    assert Path(layers[1]["filename"]).name == "model.py"
    assert answer["table"]["activation_memory"] == 2 * 2 * 6 * 4 * 4 * 4
    assert answer["table"]["input_memory"] == 2 * 3 * 8 * 8 * 4


def test_a_model_that_asks_for_values_gets_some(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:Choosy", "--input", "2x3x8x8")
    assert found.exit_code == 0, found.output
    assert "[2,6,4,4]" in found.stdout


def test_another_error_is_told(shapes: Callable[..., Result]) -> None:
    found = shapes("model.py:Broken", "--input", "2x3x8x8")
    assert found.exit_code == 1
    assert "LNT003" in found.stdout
    assert "ValueError: no" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["model.py:Net"], "--input"),
        (["model.py:Nett", "--input", "1x3"], "did you mean 'Net' or 'net'?"),
        (["model.py", "--input", "1x3"], "not a live target"),
        (["model.py:Net", "--input", "1xthree"], "no dimension"),
        (["model.py:Net", "--input", "1x3", "--select", "REG"], "No such option"),
    ],
)
def test_usage_errors(shapes: Callable[..., Result], arguments: list[str], told: str) -> None:
    found = shapes(*arguments)
    assert found.exit_code == 2
    assert told in found.stderr


def test_into_a_file(shapes: Callable[..., Result], tmp_path: Path) -> None:
    target = tmp_path / "table.txt"
    found = shapes("model.py:net", "--input", "1x3x32x32", "-o", str(target))
    assert found.exit_code == 0
    assert found.stdout == ""
    assert "[1,6,28,28]" in target.read_text("utf-8")


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.lstm = nn.LSTM(8, 4, batch_first=True)
        self.hidden = [nn.Linear(4, 2)]

    def forward(self, x: torch.Tensor) -> Any:
        x = self.frozen(self.layer(self.layer(x)))
        y, (h, _) = self.lstm(x)
        return {"y": self.hidden[0](y), "h": h}


def test_from_python() -> None:
    model = Twice().train()
    table = modellint.shapes(model, (torch.zeros(2, 5, 8),))
    assert model.training
    assert [(row.path, row.calls) for row in table.rows][1:5] == [
        ("layer", 0),
        ("layer", 1),
        ("frozen", 0),
        ("lstm", 0),
    ]
    assert table.rows[4].outputs == (("2", "5", "4"), ("1", "2", "4"), ("1", "2", "4"))
    assert table.rows[5].type == "Linear"
    assert table.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert table.trainable == table.parameters - 72
    shown = repr(table)
    assert "(again)" in shown
    assert "72 of them frozen" in shown
    assert repr(modellint.shapes(model, {"x": torch.zeros(2, 5, 8)})) == shown


def test_a_failed_run_from_python() -> None:
    table = modellint.shapes(Twice(), torch.zeros(2, 5, 7))
    assert [row.path for row in table.rows if row.failed] == ["", "layer"]
    assert table.failure is not None
    assert "the run failed" in repr(table)


def test_flexible_dimensions_from_python() -> None:
    table = modellint.shapes(nn.Conv2d(3, 6, 5), torch.zeros(1, 3, 8, 8), flexible={0: {0: (1, 4)}})
    assert table.rows[0].outputs == (("N", "6", "4", "4"),)


def test_what_is_no_model() -> None:
    with pytest.raises(TypeError, match=r"nn\.Module"):
        modellint.shapes(lambda x: x, torch.zeros(1))  # type: ignore[arg-type]


def mismatch(model: nn.Module, *inputs: Any, has_values: bool = True) -> Diagnostic:
    subject = Subject(model, Inputs(inputs), Path(__file__).parent, Destination(), has_values=has_values)
    found = check_subject(subject, {"SHP008": all_rules()["SHP008"]})
    assert len(found) == 1
    return found[0]


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (nn.Linear(400, 10), (zeros(4, 256),), "`Linear` got [4, 256], and wants a last dimension of 400"),
        (nn.Conv2d(3, 4, 3), (zeros(1, 4, 8, 8),), "`Conv2d` got [1, 4, 8, 8], and wants 3 channels in dimension 1"),
        (
            nn.Conv2d(3, 4, 3),
            (zeros(4, 8),),
            "`Conv2d` got [4, 8], and wants 4 dimensions, with 3 channels in dimension 1",
        ),
        (nn.Conv2d(3, 4, 9, padding=1), (zeros(1, 3, 4, 4),), "wants at least 7x7 in the last dimensions"),
        (
            nn.Conv1d(3, 4, 3),
            (zeros(8, 9),),
            "wants 3 channels in dimension 0, or 3 dimensions with 3 channels in dimension 1",
        ),
        (nn.ConvTranspose2d(3, 4, 3), (zeros(1, 4, 8, 8),), "wants 3 channels in dimension 1"),
        (
            nn.BatchNorm2d(3),
            (zeros(1, 4, 8, 8),),
            "`BatchNorm2d` got [1, 4, 8, 8], and wants 3 channels in dimension 1",
        ),
        (nn.BatchNorm2d(3), (zeros(1, 3),), "wants 4 dimensions, with 3 channels in dimension 1"),
        (nn.BatchNorm1d(3), (zeros(1, 3, 2, 2),), "wants 2 or 3 dimensions, with 3 channels in dimension 1"),
        (nn.InstanceNorm2d(3, affine=True), (zeros(1, 4, 8, 8),), "wants 3 channels in dimension 1"),
        (nn.LayerNorm(8), (zeros(2, 7),), "wants a last dimension of 8"),
        (nn.LayerNorm((4, 8)), (zeros(2, 8),), "wants last dimensions of 4, 8"),
        (nn.GroupNorm(2, 4), (zeros(2, 6, 3),), "wants 4 channels in dimension 1"),
        (nn.LSTM(8, 4), (zeros(3, 2, 7),), "`LSTM` got [3, 2, 7], and wants a last dimension of 8"),
        (nn.GRU(8, 4), (zeros(3, 2, 8), zeros(1, 3, 4)), "wants a hidden state of [1, 2, 4]"),
        (nn.GRUCell(8, 4), (zeros(3, 7),), "wants a last dimension of 8"),
        (nn.Bilinear(3, 4, 5), (zeros(2, 3), zeros(2, 5)), "wants last dimensions of 3 and 4, and all others the same"),
        (
            nn.MultiheadAttention(8, 2),
            (zeros(3, 2, 7),) * 3,
            "wants last dimensions of 8, 8, 8 for query, key and value",
        ),
        (nn.MaxPool2d(9), (zeros(1, 3, 4, 4),), "`MaxPool2d` got [1, 3, 4, 4], which it cannot take"),
        (nn.PixelShuffle(2), (zeros(1, 3, 4, 4),), "`PixelShuffle` got [1, 3, 4, 4], which it cannot take"),
    ],
)
def test_what_layers_want(model: nn.Module, inputs: tuple[Any, ...], message: str, has_values: bool) -> None:
    found = mismatch(model, *inputs, has_values=has_values)
    assert message in found.message
    assert found.help is not None
    assert found.help.startswith("PyTorch says: ")
    assert found.evidence == "live"


class Joined(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x[:, :2].reshape(-1, 1)], 1)


class Reshaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x).view(-1, 3)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Joined(), "`torch.cat` in `Joined` got [2, 4] and [4, 1], which do not fit"),
        (Reshaped(), "`torch.Tensor.view` in `Reshaped` got [2, 4] and [-1, 3], which do not fit"),
        (nn.Sequential(Reshaped()), "`torch.Tensor.view` in `0` (Reshaped) got [2, 4] and [-1, 3], which do not fit"),
    ],
)
def test_operators_name_what_they_got(model: nn.Module, message: str) -> None:
    found = mismatch(model, zeros(2, 4))
    assert found.message == message
    assert found.span is not None
    source = Path(__file__).read_text("utf-8").splitlines()
    assert "return" in source[found.span.row - 1]


@pytest.mark.parametrize("model", [nn.Linear(4, 4), nn.Conv2d(3, 4, 3)])
def test_what_runs_or_fails_otherwise_is_no_mismatch(model: nn.Module) -> None:
    good = zeros(2, 4) if isinstance(model, nn.Linear) else zeros(1, 3, 8, 8)
    for x in (good, good.long()):
        subject = Subject(model, Inputs((x,)), Path(), Destination())
        assert check_subject(subject, {"SHP008": all_rules()["SHP008"]}) == []

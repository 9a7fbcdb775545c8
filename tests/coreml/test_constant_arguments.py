"""Arguments that are no tensors: an export makes them constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import modellint
from modellint.cli import cli

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Flagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(
        self, x: torch.Tensor, scale: Any = None, twice: bool = False, mode: str = "sum", **rest: Any
    ) -> dict[str, torch.Tensor] | tuple[torch.Tensor]:
        y = self.layer(x)
        y = y * 2 if twice else y
        y = y * scale if scale is not None else y
        y = y + rest.get("offset", 0)
        y = y.cumsum(0) if mode == "sum" else y
        return {"y": y} if rest.get("return_dict", True) else (y,)


@pytest.mark.parametrize(
    ("example", "constants", "count"),
    [
        ({"x": X, "return_dict": False}, {"return_dict": False}, 1),
        ((X, None, True), {"scale": None, "twice": True}, 1),
        ((X, X + 2, True, "none"), {"twice": True, "mode": "none"}, 2),
        ((X, 3.0), {"scale": 3.0}, 1),
        ({"offset": 4, "x": X, "scale": X + 2}, {"offset": 4}, 2),
    ],
)
def test_they_become_constants(example: Any, constants: dict[str, Any], count: int) -> None:
    model = Flagged().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = modellint.export(model, example)
    assert found.verification.ok
    told = {change.what: change.note for change in found.summary.changes if change.what.startswith("argument")}
    assert told == {f"argument {name}": f"always {value!r}" for name, value in constants.items()}
    assert len(found.summary.inputs) == count
    # The model is as it was.
    assert "forward" not in vars(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_sizes_of_the_other_arguments_may_vary() -> None:
    example = (True, torch.rand(2, 4))

    class Behind(nn.Module):
        def forward(self, twice: bool, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if twice else x

    found = modellint.export(Behind(), example, flexible={1: {0: (1, 8)}})
    assert found.verification.ok
    assert [(feature.name, feature.shape) for feature in found.summary.inputs] == [("x", "1..8x4")]


def test_a_check_says_what_to_do() -> None:
    report = modellint.check_model(Flagged().eval(), {"x": X, "return_dict": False}, ignore=["ENV"])
    assert "converts with modellint export" in report.verdict
    assert any("makes it a constant" in finding.message for finding in report.diagnostics)


def test_what_has_no_name_stays() -> None:
    class Unnamed(nn.Module):
        def forward(self, *args: Any) -> torch.Tensor:
            x, twice = args
            return x * 2 if twice else x

    with pytest.raises(modellint.ExportError, match="does not convert"):
        modellint.export(Unnamed(), (X, True))


class Grid(nn.Module):
    """Values of an input are sizes, and how often a loop goes round."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        rows, columns = grid.tolist()
        for _ in range(rows):
            x = self.layer(x)
        return x.reshape(rows, columns, 4).mean(1) * self.scale


GRID = torch.tensor([2, 3])


def test_an_input_becomes_a_constant() -> None:
    torch.manual_seed(0)
    model = Grid().eval()
    x = torch.randn(6, 4)
    with pytest.raises(
        modellint.ExportError, match=r"--constant grid, if always what the example has there: tried, it agrees"
    ):
        modellint.export(model, (x, GRID))
    fixed, inputs = modellint.with_constants(model, (x, GRID), "grid")
    assert len(inputs) == 1
    assert torch.equal(fixed(*inputs), model(x, GRID))
    exported = modellint.export(fixed, inputs)
    assert exported.verification.verdict == "agrees"
    assert [feature.name for feature in exported.summary.inputs] == ["x"]
    # The model is as it was, and both have the same parameters.
    assert [*model.state_dict()] == [*fixed.state_dict()] == ["scale", "layer.weight", "layer.bias"]
    assert [name for name, _ in model.named_buffers()] == ["scale"]
    assert fixed.layer is model.layer
    assert "forward" not in vars(model)


def test_the_fewest_inputs_are_advised() -> None:
    class Masked(Grid):
        """A branch whose sides are equal asks for another input besides: an export may keep it."""

        def forward(self, x: torch.Tensor, grid: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x = x * mask
            if not mask.all():
                x = x * 1.0
            return super().forward(x, grid)

    with pytest.raises(modellint.ExportError, match=r"go on with --constant grid, if always what .*: tried, it agrees"):
        modellint.export(Masked().eval(), (torch.randn(6, 4), GRID, torch.ones(6, 1, dtype=torch.bool)))


def test_float32_is_advised_with_them() -> None:
    class Wide(Grid):
        """What it computes on the way is beyond float16, or rounded away there."""

        def __init__(self) -> None:
            super().__init__()
            self.seen = nn.Parameter(torch.randn(7))

        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return (super().forward(x, grid) + 30000.0 - 30000.0) * self.seen.sum()

    torch.manual_seed(0)
    inputs = torch.randn(6, 4), GRID
    model = Wide().eval()
    wanted = r"go on with --constant grid --precision fp32, if always what .* there: tried, the float32 package agrees"
    with pytest.raises(modellint.ExportError, match=wanted):
        modellint.export(model, inputs)
    fixed, rest = modellint.with_constants(model, inputs, "grid")
    assert modellint.export(fixed, rest, precision="fp32").verification.ok


def test_constants_of_keyword_arguments() -> None:
    torch.manual_seed(0)
    model = Grid().eval()
    fixed, inputs = modellint.with_constants(model, {"grid": GRID, "x": torch.randn(6, 4)}, "grid")
    assert [*inputs] == ["x"]
    assert modellint.verify(fixed, inputs).ok


def test_constants_that_are_no_inputs() -> None:
    with pytest.raises(ValueError, match="constant: there is no input 'size', but 'x', 'grid'"):
        modellint.with_constants(Grid(), (torch.randn(6, 4), GRID), "size")
    with pytest.raises(TypeError, match=r"names of inputs are strings, not \['grid'\]"):
        modellint.with_constants(Grid(), (torch.randn(6, 4), GRID), ["grid"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nothing is left"):
        modellint.with_constants(Grid(), (torch.randn(6, 4), GRID), "x", "grid")


MODULE = """
import torch
from torch import nn

class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, grid):
        rows, columns = grid.tolist()
        for _ in range(rows):
            x = self.layer(x)
        return x.reshape(rows, columns, 4).mean(1)

def make():
    return Grid().eval(), (torch.randn(6, 4), torch.tensor([2, 3]))
"""


def test_constants_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grid.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    wrong = run.invoke(cli, ["verify", "grid.py:make", "--constant", "size"])
    assert wrong.exit_code == 2
    assert "--constant: there is no input 'size', but 'x', 'grid'" in wrong.output
    assert run.invoke(cli, ["verify", "grid.py:make", "--constant", "grid"]).exit_code == 0
    checked = run.invoke(cli, ["check", "grid.py:make", "--constant", "grid"])
    assert "FLW002" not in checked.output
    exported = run.invoke(cli, ["export", "grid.py:make", "--constant", "grid", "-o", "Grid.mlpackage"])
    assert exported.exit_code == 0, exported.output
    assert "exported, and agrees" in exported.output


def test_ranges_go_with_their_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grid.py").write_text(
        MODULE.replace("forward(self, x, grid)", "forward(self, grid, x, ids)")
        .replace(".mean(1)", ".mean(1) + self.kinds(ids)")
        .replace("self.layer =", "self.kinds = nn.Embedding(9, 4); self.layer ="),
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    inputs = ["--input", "2:int64[2,3)", "--input", "4x4", "--input", "2:int64[0,9)"]
    found = CliRunner().invoke(cli, ["verify", "grid.py:Grid", *inputs, "--constant", "grid"])
    assert found.exit_code == 0, found.output


def test_an_export_that_is_refused_leaves_the_model_as_it_was() -> None:
    class Counted(Grid):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return super().forward(self.norm(x), grid)

    torch.manual_seed(0)
    model = Counted().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(modellint.ExportError, match="--constant grid"):
        modellint.export(model, (torch.randn(6, 4), GRID))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_compiled_module_keeps_its_inputs() -> None:
    compiled = torch.jit.trace(nn.Bilinear(4, 4, 2).eval(), (torch.randn(1, 4), torch.randn(1, 4)))
    with pytest.raises(ValueError, match="is compiled, and keeps its inputs"):
        modellint.with_constants(compiled, (torch.randn(1, 4), torch.randn(1, 4)), "input2")


class Repeated(nn.Module):
    """Writes to what it makes of its grid, whose size is a value: each row counts as often as its first number says."""

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        rows = torch.repeat_interleave(grid, grid[:, 0], dim=0)
        rows[:, 0] = 1
        return torch.stack([x[: int(row[1])].sum(0) * row[0] for row in rows])


def test_constants_that_the_code_writes_to_are_its_own() -> None:
    model, rest = modellint.with_constants(
        Repeated().eval(), (torch.randn(6, 4), torch.tensor([[2, 3], [1, 4]])), "grid"
    )
    result = modellint.export(model, rest, frontend="export")
    assert result.verification.ok
    assert result.summary.outputs[0].shape == "3x4"

"""What an export to Core AI puts in the place of what cannot be captured or converted: complex numbers, places, conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture import selected_places
from modellint.destinations.coreai.converter_process import ConverterProcess

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")
pytestmark = pytest.mark.filterwarnings("ignore")


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()


class Rotary(nn.Module):
    """A rotary embedding by complex numbers; the converter's process ends at one."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(1, 8, 2, 2))
        return torch.view_as_real(pairs * self.turns).flatten(2)


class Switched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("on", torch.tensor([0.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.on[1] > 0 else x * 3


class Assigning(nn.Module):
    """A plain tensor that `forward` assigns again: a state of the program, and no buffer of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.full((1, 3, 1, 1), 0.5)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean.type_as(x)
        return (x - self.mean) * 2


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Spectrum(), (2, 8)), (Rotary(), (1, 8, 4)), (Switched(), (2, 3)), (Assigning(), (1, 3, 4, 4))],
    ids=["fourier", "rotary", "condition", "assignment"],
)
def test_it_is_exported_and_agrees(model: nn.Module, shape: tuple[int, ...], tmp_path: Path) -> None:
    # Of one in forty examples the spectrum is called different: 2e-7 where PyTorch's own sums cancel to nothing at all.
    example = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    exported = modellint.export(model.eval(), (example,), destination="coreai", output=tmp_path / "net.aimodel")
    assert exported.verification.verdict == "agrees"
    assert "note: " in str(exported)


class Bounded(nn.Module):
    """A branch on the values of an input, of which the other side would do the same, or not."""

    def __init__(self, above: float) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.above = above

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if y.abs().max() > self.above:
            return y.clamp(-self.above, self.above)
        return y.clamp(-1.0, 1.0)


def test_a_branch_is_the_one_of_the_example_where_that_agrees(tmp_path: Path) -> None:
    torch.manual_seed(0)
    found = modellint.export(
        Bounded(1.0).eval(), (torch.randn(3, 4),), destination="coreai", output=tmp_path / "net.aimodel"
    )
    assert found.verification.ok
    assert any("the one of the example (FLW001, FLW002)" in note for note in found.summary.notes)


def test_a_branch_that_matters_differs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with pytest.raises(modellint.ExportError, match="differs"):
        modellint.export(
            Bounded(40.0).eval(), (torch.randn(3, 4),), destination="coreai", output=tmp_path / "net.aimodel"
        )


class Mapped(nn.Module):
    """A transform of functions, in which places are tensors, as transformers makes masks."""

    def forward(self, x: Tensor) -> Tensor:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        below = torch.vmap(lambda i, j: x[i] <= x[j], in_dims=(0, None))
        with TransformGetItemToIndex():
            return torch.vmap(below, in_dims=(None, 0))(torch.arange(3), torch.arange(3)).float() * x


def test_a_program_with_a_transform_is_exported(tmp_path: Path) -> None:
    found = modellint.export(Mapped(), (torch.randn(3),), destination="coreai", output=tmp_path / "net.aimodel")
    assert found.verification.ok


@torch.library.custom_op("modellint_tests::limited", mutates_args=())
def limited(x: Tensor, limit: float) -> Tensor:
    return (x * 2).clamp(max=limit)


@limited.register_fake
def _(x: Tensor, limit: float) -> Tensor:
    return torch.empty_like(x)


class Limited(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.modellint_tests.limited(x, 1.5) + 1


def test_an_operator_of_others_is_missing_at_its_line_and_exported_as_its_function(tmp_path: Path) -> None:
    report = modellint.check_model(Limited().eval(), (torch.randn(3),), destination="coreai", select="OPS001")
    (finding,) = report.diagnostics
    assert "`modellint_tests::limited`" in finding.message
    assert finding.span is not None
    assert "converts with modellint export" in str(report)
    found = modellint.export(Limited().eval(), (torch.randn(3),), destination="coreai", output=tmp_path / "net.aimodel")
    assert found.verification.ok


class Scratch(nn.Module):
    """A buffer that is written as a whole before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.ones(4), persistent=False)
        self.register_buffer("short", torch.ones(4))
        self.register_buffer("long", torch.full((4,), 0.5))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        self.frequencies.copy_(torch.where(places.max() > 8, self.long, self.short))
        return x * (places[:, None] * self.frequencies).cos()


def test_a_buffer_that_is_written_before_it_is_read_is_no_state(tmp_path: Path) -> None:
    example = torch.randn(6, 4), torch.arange(6)
    found = modellint.export(Scratch().eval(), example, destination="coreai", output=tmp_path / "net.aimodel")
    assert found.verification.ok
    assert not found.summary.states
    assert "frequencies is written before it is read, and is no state" in found.summary.notes


class Overlapping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.fold(x, (1, 4160), (1, 256), stride=(1, 64))


def test_windows_that_overlap_are_folded(tmp_path: Path) -> None:
    example = torch.randn(1, 256, 62, generator=torch.Generator().manual_seed(0))
    found = modellint.export(Overlapping().eval(), (example,), destination="coreai", output=tmp_path / "net.aimodel")
    assert found.verification.ok


class OnePlace(nn.Module):
    """Places that tensors without axes name, also counted from the end."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        at = y.argmax()
        return x[at], x[..., at] + x[at - 4, ...].sum() + x.index_select(0, at)[:, :4]


def test_one_place_that_a_tensor_names(tmp_path: Path) -> None:
    example = torch.randn(4, 4), torch.randn(4)
    found = modellint.export(OnePlace().eval(), example, destination="coreai", output=tmp_path / "net.aimodel")
    assert found.verification.ok


class WrittenPlace(nn.Module):
    """What is selected is a view, and is written to."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = x * 2
        z[y.argmax()].zero_()
        return z


def test_a_place_that_is_written_to_is_left_as_it_is() -> None:
    program = torch.export.export(WrittenPlace(), (torch.randn(4, 4), torch.randn(4)))
    selected_places.by_tensors(program)
    assert program.graph.find_nodes(op="call_function", target=torch.ops.aten.select.int)


class Twice(nn.Module):
    """Returns a tensor under two names, as classes of outputs do with the last of the hidden states."""

    def forward(self, x: Tensor) -> dict[str, Tensor | tuple[Tensor, ...]]:
        y = x * 2
        return {"last": y, "all": (x + 1, y)}


def test_an_output_that_is_returned_twice_has_both_names(tmp_path: Path) -> None:
    package = tmp_path / "net.aimodel"
    exported = modellint.export(Twice().eval(), (torch.randn(2, 3),), destination="coreai", output=package)
    assert exported.verification.verdict == "agrees"
    assert [output.name for output in exported.summary.outputs] == ["last", "all_0", "all_1"]


class Scaled(nn.Module):
    """Converts, and computes something else: coreai-torch does not read ``alpha``."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, x.abs(), alpha=3)


@pytest.mark.parametrize(
    ("model", "supplied"), [(nn.Linear(3, 3), False), (Scaled(), True)], ids=["as it is", "mended"]
)
def test_what_a_check_converts_an_export_need_not(
    model: nn.Module, supplied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    usual = ConverterProcess._ask

    def ask(self: ConverterProcess, seconds: float, **request: Any) -> Any:
        asked.append(request["do"])
        return usual(self, seconds, **request)

    monkeypatch.setattr(ConverterProcess, "_ask", ask)
    package = tmp_path / "net.aimodel"
    exported = modellint.export(model.eval(), (torch.randn(2, 3),), destination="coreai", output=package)
    assert exported.verification.verdict == "agrees"
    assert asked.count("prepare") == 1
    # What the check says is of the model without help.
    assert ("OPS007" in {finding.code for finding in exported.report.diagnostics}) == supplied
    assert any(change.kind == "mended" for change in exported.summary.changes) == supplied


def test_what_was_converted_ahead_is_converted_anew_where_the_process_has_ended(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(3, 3).eval(), (torch.ones(2, 3),))
    with ConverterProcess() as process:
        assert process.prepare(program, process.new_path("plain.aimodel"), ahead=()).interface is not None
        process._end()
        process.features(process.path("1-plain.aimodel"))
        package = process.new_path("supplied.aimodel")
        assert process.prepare(program, package, supplies=True).interface is not None
        assert Path(package).exists()

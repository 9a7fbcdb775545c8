"""A second destination: what checks, verifications and exports show of one, without a line of it in sessions, rules or reports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint import destinations
from modellint.destinations.destination import Destination, PackageError, UnknownOperator
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.results.conversion_verdict import Blocker, Verdict
from modellint.results.exported import Exported
from modellint.results.operator_support import Hint, Route, Support
from modellint.results.verification import AGREES, DIFFERS, Verification

LAYERS = {nn.Linear: "linear", nn.ReLU: "relu"}


class Layers(Destination):
    """Models that are a sequence of linear layers and ReLU: the program is the list of their tensors."""

    name = "layers"
    converter = "json"
    extra = "layers"

    def version(self) -> str | None:
        return "1.0"

    def operators(
        self, names: Sequence[str], version: str | None, hints_of: Callable[[str], Iterable[Hint]]
    ) -> list[Support]:
        for name in names:
            if name not in LAYERS.values():
                raise UnknownOperator(name)
        since = Route("1.0", converts=True)
        return [Support(name, (), True, Route(None), since, 15) for name in names or LAYERS.values()]

    def dry_run(self, subject: Subject) -> tuple[Verdict, ...]:
        blockers = tuple(
            Blocker("missing", f"layers::{type(entry.module).__name__}", "no converter", None, entry.paths)
            for entry in subject.modules
            if entry.path and type(entry.module) not in LAYERS
        )
        return (Verdict("export", not blockers, blockers),)

    def converted(self, model: nn.Module) -> list[torch.Tensor | None]:
        return [layer.weight.detach() if isinstance(layer, nn.Linear) else None for layer in model.children()]

    def ran(self, program: list[torch.Tensor | None], x: torch.Tensor) -> torch.Tensor:
        for weight in program:
            # The bias is forgotten: a fault to be found.
            x = x.relu() if weight is None else x @ weight.T
        return x

    def _compared(self, model: nn.Module, inputs: Inputs, program: list[torch.Tensor | None]) -> Verification:
        with torch.no_grad():
            expected = model(*inputs.args)
        agrees = bool(torch.allclose(self.ran(program, *inputs.args), expected, atol=1e-5))
        return Verification(AGREES if agrees else DIFFERS, "", "export")

    def verify(self, model: nn.Module, inputs: Inputs, *_: Any, **__: Any) -> Verification:
        return self._compared(model, inputs, self.converted(model))

    def check_package(self, path: str) -> None:
        if not Path(path).is_file():
            raise PackageError(f"{path} is no file")

    def verify_package(self, model: nn.Module, inputs: Inputs, path: str, *_: Any, **__: Any) -> Verification:
        self.check_package(path)
        return self._compared(model, inputs, torch.load(path))

    def check_export(self, *_: Any) -> None:
        pass

    def export(
        self,
        model: nn.Module,
        inputs: Inputs,
        options: Any,
        project: Any,
        wanted: Any,
        folder: Path,
        name: str,
        **_: Any,
    ) -> Exported:
        torch.save(self.converted(model), folder / name)
        found = self.verify_package(model, inputs, str(folder / name))
        return Exported(options.target, options.precision, "export", verification=found, package=name)

    def opened(self, package: Path, *, in_memory: bool) -> Any:
        return torch.load(package)


class InPlaceOfCoreML(Layers):
    """The same, for what asks for the destination that is the default."""

    name = "coreml"


@pytest.fixture
def default() -> Iterator[None]:
    coreml = destinations.named("coreml")
    destinations.register(InPlaceOfCoreML())
    yield
    destinations.register(coreml)


def net(*, bias: bool, end: nn.Module) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(3, 4, bias=bias), nn.ReLU(), nn.Linear(4, 2, bias=bias), end)
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    return model


X = torch.tensor([[1.0, -2.0, 3.0]])


@pytest.mark.usefixtures("default")
def test_a_check_asks_it_for_the_verdict() -> None:
    assert modellint.check_model(net(bias=False, end=nn.ReLU()), X).convertible is True
    report = modellint.check_model(net(bias=False, end=nn.Tanh()), X)
    assert report.convertible is False
    assert "layers::Tanh" in [finding.operator for finding in report.diagnostics]


@pytest.mark.usefixtures("default")
def test_a_verification_executes_what_it_converts() -> None:
    assert modellint.verify(net(bias=False, end=nn.ReLU()), X).verdict == AGREES
    assert modellint.verify(net(bias=True, end=nn.ReLU()), X).verdict == DIFFERS


@pytest.mark.usefixtures("default")
def test_an_export_keeps_what_agrees() -> None:
    program = modellint.export(net(bias=False, end=nn.ReLU()), X).mlmodel
    assert [weight is None for weight in program] == [False, True, False, True]
    with pytest.raises(modellint.ExportError):
        modellint.export(net(bias=True, end=nn.ReLU()), X)


def test_one_is_found_by_the_name_it_is_registered_under() -> None:
    destinations.register(Layers())
    assert [known.operator for known in destinations.named("layers").operators((), None, lambda _: ())] == [
        "linear",
        "relu",
    ]
    with pytest.raises(LookupError, match="no destination 'tin'"):
        destinations.named("tin")


def test_core_ml_is_found_without_its_converter_or_torch() -> None:
    code = (
        "import sys; from modellint import destinations; coreml = destinations.named('coreml'); "
        "assert coreml.operators(['aten::relu'], None, lambda _: ())[0].trace.converts; "
        "assert not {'torch', 'coremltools', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

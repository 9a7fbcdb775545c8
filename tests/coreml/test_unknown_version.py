"""Verdicts beside a coremltools that nobody measured: as far as its inside goes, with every limit named."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import coremltools
import pytest
import torch
from coremltools.converters.mil import Builder
from coremltools.converters.mil.frontend.torch import torch_op_registry
from torch import Tensor, nn

import modellint
from modellint.data.coremltools_version_facts import measured, nearest, order, shipped
from modellint.destinations.coreml.private import probed_names
from modellint.destinations.coreml.private.installed_capabilities import front_end_digest

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-1, 1, 6).reshape(2, 3)
UNKNOWN = "coremltools 99.0 is not known: what is known of 9.1.dev1 stands in"


class Two(nn.Module):
    """Two operators without a converter."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.fmod(x, 0.5)
        return torch.i0(y)


class Plain(nn.Module):
    """What every version converts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).relu()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of the tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def unknown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(coremltools, "__version__", "99.0")


def told(model: nn.Module, **options: str) -> tuple[list[str | None], str]:
    """The operators of the findings, and the line of the verdict."""
    report = modellint.check_model(model, X, select=["OPS"], **options)
    return [finding.operator for finding in report.diagnostics], report.verdict


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_version_whose_inside_is_as_it_was_is_walked(route: str, folder: Path) -> None:
    operators, verdict = told(Two(), frontend=route)
    assert operators == ["aten::fmod", "aten::i0"]
    assert verdict.startswith("Core ML: converts with modellint export (supplies aten::fmod")
    assert verdict.endswith(f" · {UNKNOWN}")
    (memory,) = (folder / "modellint").iterdir()
    before = memory.read_bytes()
    assert told(Plain(), frontend=route)[1].startswith(f"Core ML: will convert · --frontend {route}")
    assert memory.read_bytes() == before


def test_two_names_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from coremltools.converters.mil.frontend.torch import torchscript_utils, utils

    monkeypatch.setattr(coremltools, "__version__", "99.1")
    monkeypatch.delattr(torchscript_utils, "_expand_and_optimize_ir")
    monkeypatch.delattr(utils, "MIL_DTYPE_TO_TORCH_DTYPE")
    without = (
        "_expand_and_optimize_ir is not there: a model is not walked but converted by torch.jit.trace, which ends at the first refusal, "
        "and a difference is not traced to its line · MIL_DTYPE_TO_TORCH_DTYPE is not there: an export supplies no converters"
    )
    operators, verdict = told(Two(), frontend="trace")
    assert operators == ["aten::fmod"]
    assert verdict.startswith("Core ML: will not convert · 1 operator at 1 place")
    assert verdict.endswith(without)
    assert told(Two(), frontend="export")[0] == ["aten::fmod", "aten::i0"]
    assert told(Plain())[1].startswith("Core ML: will convert · --frontend trace")
    result = modellint.verify(Plain(), X)
    assert result.verdict == "agrees"
    with pytest.raises(modellint.ExportError):
        modellint.export(Two(), X, output=None)


@pytest.mark.parametrize("use", ["complex", "types", "packages"])
def test_what_a_missing_name_takes_away_is_told(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coremltools, "__version__", f"99.0+{use}")
    row = ("coremltools.converters.mil.converter", "no_name_of_coremltools", "", use)
    monkeypatch.setattr(probed_names, "TABLE", (*probed_names.TABLE, row))
    operators, verdict = told(Two(), frontend="trace")
    assert operators == ["aten::fmod", "aten::i0"]
    assert " · no_name_of_coremltools is not there: " in verdict


def test_other_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from coremltools.converters.mil.frontend.torch import ops

    monkeypatch.setattr(ops, "convert_single_node", lambda context: None)
    (missing,) = probed_names.lacking()
    assert (missing.name, missing.what, missing.uses) == (
        "convert_single_node",
        "takes other arguments",
        ("trace", "export"),
    )


class Aliased(nn.Module):
    """An operator that coremltools has a converter for since 9.1.dev1."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten.alias(x) * 2


@pytest.mark.parametrize("has_its_own", [False, True])
def test_a_supplied_converter_retires_where_there_is_a_right_one(
    has_its_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = torch_op_registry._TORCH_OPS_REGISTRY.name_to_func_mapping

    def alias(context: Any, node: Any) -> None:
        context.add(Builder.identity(x=context[node.inputs[0]], name=node.name))

    if has_its_own:
        monkeypatch.setitem(table, "alias", alias)
    else:
        monkeypatch.delitem(table, "alias", raising=False)
    result = modellint.export(Aliased(), X, output=None, frontend="trace")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"
    assert ("aten::alias" in [change.what for change in result.summary.changes]) is not has_its_own


def test_facts_by_version() -> None:
    assert [facts.name for facts in shipped()] == ["8.3.0", "9.0", "9.1.dev1", "main-e0e2f42"]
    assert [facts.coremltools for facts in shipped()] == ["8.3.0", "9.0", "9.1.dev1", "9.1.dev1"]
    assert measured(metadata.version("coremltools"), front_end_digest()) is not None
    assert measured("9.1", front_end_digest()) is None
    assert nearest("9.0.1").coremltools == nearest("9.0").coremltools == "9.0"
    assert nearest("9.1").name == nearest("9.1.dev1").name == "9.1.dev1"
    assert nearest("main-e0e2f42").name == "main-e0e2f42"
    assert nearest("6.0").coremltools == "8.3.0"
    assert order("9.1.dev1") < order("9.1b1") < order("9.1") == order("9.1.0") < order("10.0")

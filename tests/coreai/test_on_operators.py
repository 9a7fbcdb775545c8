"""The table of Core AI's operators against the converter that is installed: some names of each group, measured again."""

from __future__ import annotations

from importlib import metadata

import pytest

from modellint.data.coreai_operators import table
from modellint.destinations.coreai.converter_process import ConverterProcess

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")
pytest.importorskip("expecttest", reason="the samples of PyTorch's test-suite need it")

if metadata.version("coreai-torch") != table().version:
    pytest.skip(f"the table is of coreai-torch {table().version}", allow_module_level=True)


@pytest.mark.parametrize("name", [*sorted(table().missing)[::12], *sorted(table().refused)[::4]])
def test_what_lacks_a_converter_is_not_converted(process: ConverterProcess, name: str) -> None:
    from modellint.measure.coreai_operators import measure
    from modellint.measure.operator_probes import apis

    assert {sample["is"] for sample in measure(apis()[name], process)} <= {"missing", "refused", "dies"}


@pytest.mark.parametrize("name", sorted(table().converts)[::60])
def test_what_converts_is_right(process: ConverterProcess, name: str) -> None:
    from modellint.measure.coreai_operators import measure
    from modellint.measure.operator_probes import apis

    assert measure(apis()[name], process)[-1]["is"] == "right"


@pytest.mark.parametrize("name", sorted(table().supplied)[::6])
def test_what_an_export_decomposes_is_right_then(process: ConverterProcess, name: str) -> None:
    from modellint.measure.coreai_operators import measure
    from modellint.measure.operator_probes import apis

    assert measure(apis()[name], process, supplies=True)[-1]["is"] == "right"

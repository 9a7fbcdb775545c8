"""The shipped operator table is what the installed coremltools and torch say.

All of it is made anew by ``python -m modellint.measure.operator_table measure FOLDER``, which takes an hour, and ``… write FOLDER``;
here that is done for some names.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from modellint.data.coreml_operators import OPERATORS, SINCE
from modellint.destinations.coreml.private.entry_points import registered
from modellint.destinations.coreml.private.installed_capabilities import facts
from modellint.measure.operator_probes import apis
from modellint.measure.operator_table import measure_all, names_of, read, rows, table, with_rows

pytestmark = pytest.mark.filterwarnings("ignore")

SOME = (
    "torch.Tensor.trunc_",
    "torch.asinh",
    "torch.bernoulli",
    "torch.nn.Hardshrink",
    "torch.nn.ReLU",
    "torch.nn.functional.celu",
    "torch.nn.functional.grid_sample",
    "torch.nn.functional.pixel_unshuffle",
    "torch.slogdet",
    "torch.trunc",
)


def test_names_of_converters() -> None:
    assert registered() == names_of(facts().name)


def test_rows_are_what_is_measured(tmp_path: Path) -> None:
    known = apis()
    measure_all([known[name] for name in SOME], tmp_path / "measured-0.jsonl", lambda line: None)
    found = rows(read(tmp_path))
    assert found.keys() == set(SOME)
    assert with_rows(found) == {name: (operator, SINCE[name]) for name, operator in OPERATORS.items()}


def test_the_file_is_what_is_written() -> None:
    written = resources.files("modellint.data").joinpath("coreml_operators.json").read_text("utf-8")
    assert written == table({name: (operator, SINCE[name]) for name, operator in OPERATORS.items()})

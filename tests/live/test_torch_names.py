"""The table of torch's names that source checks read is what the installed torch says."""

from __future__ import annotations

from importlib import resources

import pytest

from modellint.measure.torch_class_attributes import table

pytestmark = pytest.mark.filterwarnings("ignore")


def test_table_is_what_torch_says() -> None:
    written = resources.files("modellint.data").joinpath("torch_names.json").read_text("utf-8")
    assert written == table(), "run `python -m modellint.measure.torch_class_attributes`"

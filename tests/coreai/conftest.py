"""Tests of Core AI: but for `test_without.py` they run where coreai-torch is installed, which has wheels for few systems."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def process() -> Iterator[object]:
    """One process of the converter for the tests of a module."""
    from modellint.destinations.coreai.converter_process import ConverterProcess

    with ConverterProcess() as process:
        yield process

"""Operations held against coremltools' registry of what MIL has."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from modellint.destinations.coreml.mil.operation_registry import operations
from modellint.destinations.coreml.private.entry_points import silence

with silence():
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

BY_THE_EXECUTOR = {"const", "cond", "while_loop"}
NEVER_CONVERTED = {"_const_symbolic"}
"""A placeholder for a size while a program is built."""

VERSIONS: dict[str, dict[Any, Any]] = SSAOpRegistry.core_ops


def test_every_operation_is_defined() -> None:
    assert set(VERSIONS) - set(operations()) == BY_THE_EXECUTOR | NEVER_CONVERTED


@pytest.mark.parametrize("name", sorted(set(VERSIONS) & set(operations())))
def test_parameters_are_the_inputs_of_some_version(name: str) -> None:
    parameters = dict(inspect.signature(operations()[name].compute).parameters)
    parameters = {key: one for key, one in parameters.items() if key not in ("opset", "declared", "constants")}
    specifications = [one.input_spec.input_types for one in VERSIONS[name].values()]
    assert set(parameters) == {key for inputs in specifications for key in inputs}
    for inputs in specifications:
        absent = {key for key in parameters if key not in inputs or inputs[key].optional}
        assert all(parameters[key].default is not inspect.Parameter.empty for key in absent)

"""Operator table: since when coremltools converts names of PyTorch's API.

``python -m modellint.measure.operator_table`` measures it, and writes ``coreml_operators.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Since(NamedTuple):
    """The versions, by their place in ``VERSIONS``, since which each route has converters; past the end: none has."""

    trace: int
    """`torch.jit.trace`."""
    export: int
    """`torch.export`."""
    core: int
    """`torch.export` with core ATen decompositions."""
    ios: int
    """The iOS that is needed."""


_TABLE = json.loads(Path(__file__).with_name("coreml_operators.json").read_bytes())
VERSIONS: tuple[str, ...] = tuple(_TABLE["versions"])
EXPORT_SINCE: int = VERSIONS.index(_TABLE["export_since"])
"""The first of them that takes what `torch.export` captures."""
OPERATORS: dict[str, str] = {}
"""By name of PyTorch's API: the operator that the front end looks up."""
SINCE: dict[str, Since] = {}
"""By name of PyTorch's API: since when it converts."""

_PLACES = {version: at for at, version in enumerate((*VERSIONS, None))}
for _group in _TABLE["groups"]:
    _since = Since(_PLACES[_group["trace"]], _PLACES[_group["export"]], _PLACES[_group["core"]], _group["ios"])
    OPERATORS.update(_group["operators"])
    SINCE.update(dict.fromkeys(_group["operators"], _since))

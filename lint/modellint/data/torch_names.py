"""Names of torch that source checks need, from ``torch_names.json``; ``modellint.measure.torch_class_attributes`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

_NAMES = json.loads(Path(__file__).with_name("torch_names.json").read_bytes())
MODULES: frozenset[str] = frozenset(_NAMES["modules"])
"""Every ``nn.Module`` in ``torch.nn``."""
STATELESS: frozenset[str] = frozenset(_NAMES["stateless"])
"""Those without parameters, buffers, or behaviour that depends on the mode."""
MODULE_DICT_ATTRIBUTES: frozenset[str] = frozenset(_NAMES["module_dict_attributes"])
"""Keys that ``nn.ModuleDict`` refuses."""
PARAMETER_DICT_ATTRIBUTES: frozenset[str] = frozenset(_NAMES["parameter_dict_attributes"])
"""Keys that ``nn.ParameterDict`` refuses."""
TENSOR_ATTRIBUTES: frozenset[str] = frozenset(_NAMES["tensor_attributes"])
"""The public attributes of ``torch.Tensor``."""

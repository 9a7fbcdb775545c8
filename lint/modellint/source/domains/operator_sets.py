"""Sets of torch's operators and layers by what they do, to be asked by name."""

from __future__ import annotations

from collections.abc import Mapping

from modellint.source.domains import tensors
from modellint.source.domains.masks import CASTS
from modellint.source.project.external_names import PARAMETER_CLASSES, may_build

EITHER = frozenset({"reshape", "reshape_as", "flatten", "ravel", "contiguous"})
"""Operators that give a view where they can, and a copy where they cannot."""

PERMUTING = frozenset(
    {"transpose", "permute", "t", "adjoint", "swapaxes", "swapdims", "movedim", "moveaxis", "einsum"}
    | {"expand", "expand_as", "unfold", "select", "narrow", "unbind", "split", "diagonal"}
)
"""Operators whose result seldom lies in memory as a contiguous tensor does."""
ON_BY_DEFAULT = {"dropout": 2, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
"""Functions whose ``training`` is True unless told otherwise, and the place of that argument."""
OFF_BY_DEFAULT = {"alpha_dropout": 2, "feature_alpha_dropout": 2, "batch_norm": 5, "rrelu": 3}
"""Those whose ``training`` is False unless told otherwise."""


class Operators:
    """Names of torch's operators and layers without a namespace (``permute``, ``ReLU``), by what they do."""

    activations: frozenset[str] = tensors.ACTIVATIONS
    """Layers that change each element by itself."""
    element_wise: frozenset[str] = tensors.SAME
    """Operators whose result has the shape of their first tensor, and is contiguous where that is."""
    broadcasting: frozenset[str] = tensors.BINARY
    """Operators that broadcast."""
    reductions: frozenset[str] = tensors.REDUCTIONS
    """Operators that take dimensions away by computing one number of many."""
    factories: frozenset[str] = tensors.MAKERS
    """Functions and methods that make a tensor, whatever they are given."""
    casts: frozenset[str] = CASTS
    """Operators that give the same tensor where nothing has to change, else a copy."""
    copying: frozenset[str] = EITHER
    """Operators that give a view where they can, and a copy where they cannot."""
    permuting: frozenset[str] = PERMUTING
    """Operators whose result seldom lies in memory as a contiguous tensor does."""
    in_place_layout: frozenset[str] = tensors.IN_PLACE_LAYOUT
    """Methods that change shape and strides of a tensor in place, and not what it holds."""
    training_by_default: Mapping[str, int] = ON_BY_DEFAULT
    """Functions whose ``training`` is True unless told otherwise, and the place of that argument."""
    evaluating_by_default: Mapping[str, int] = OFF_BY_DEFAULT
    """Those whose ``training`` is False unless told otherwise."""
    parameter_classes: frozenset[str] = PARAMETER_CLASSES
    """The dotted names of `nn.Parameter` and its kin."""

    @staticmethod
    def may_have_state(name: str) -> bool:
        """Whether a name may be that of a module class with state."""
        return may_build(name)

    @staticmethod
    def attributes_of(container: str) -> frozenset[str]:
        """The attributes that `nn.ModuleDict` or `nn.ParameterDict` has, which no key of it may be called."""
        from modellint.data.torch_names import MODULE_DICT_ATTRIBUTES, PARAMETER_DICT_ATTRIBUTES

        return MODULE_DICT_ATTRIBUTES if container == "ModuleDict" else PARAMETER_DICT_ATTRIBUTES


operators = Operators()
"""Sets of torch's operators and layers by what they do: ``operators.reductions``."""

"""What a model has to be called with, as ``--input`` takes it: its arguments' names, and a shape where that is known."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from torch import nn

_FORMS = "SHAPE as in 1x3x224x224 or 1x8:int64[0,100)"
_SIDE = 64
"""The size of dimensions that may have any."""


def wanted(model: nn.Module) -> str:
    """What is to be given, in words: the ``--input`` of each argument that ``forward`` needs."""
    shape = _shape(model)
    if shape is not None:
        return f"give its inputs: --input {shape}, or of another size"
    names = list(_arguments(model))
    if not names:
        return f"give its inputs: --input SHAPE, {_FORMS}"
    return f"give its inputs: {' '.join(f'--input {name}=SHAPE' for name in names)}, {_FORMS}"


def _arguments(model: nn.Module) -> Iterator[str]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in parameters:
        if parameter.kind in named and parameter.default is parameter.empty:
            yield parameter.name


def _shape(model: nn.Module) -> str | None:
    """A shape that the first layer takes, where it is torch's own and certainly the first."""
    first = model
    while type(first) is nn.Sequential and len(first):
        first = first[0]
    match first:
        case nn.Linear() if type(first) is nn.Linear:
            return f"1x{first.in_features}"
        case nn.Embedding() if type(first) is nn.Embedding:
            return f"1x16:int64[0,{first.num_embeddings})"
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d() if type(first) in _CONVOLUTIONS:
            return "x".join(map(str, (1, first.in_channels, *[_SIDE] * _CONVOLUTIONS[type(first)])))
    return None


_CONVOLUTIONS: dict[type, int] = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}

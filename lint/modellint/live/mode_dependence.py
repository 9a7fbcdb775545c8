"""Mode dependence: which modules compute something else in training mode than in evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

_OTHERWISE = frozenset({"train", "eval", "__init__", "extra_repr", "__repr__"})


def depends_on_mode(module: nn.Module) -> bool:
    """Whether a module's own computation depends on its mode; what its submodules do does not count."""
    match module:
        case _DropoutNd():
            return bool(module.p)
        case _BatchNorm() | _InstanceNorm():
            return module.running_mean is not None
        case nn.RNNBase():
            return module.dropout > 0 and module.num_layers > 1
        case nn.MultiheadAttention():
            return bool(module.dropout)
        case nn.RReLU():
            return module.lower != module.upper
    return _reads_training(type(module))


def _reads_training(cls: type[nn.Module]) -> bool:
    """Whether ``forward``, or a method of the class that it names, reads an attribute ``training``."""
    pending, seen = ["forward"], {"forward", *_OTHERWISE}
    while pending:
        method = getattr(cls, pending.pop(), None)
        if not inspect.isfunction(method) or str(method.__module__).partition(".")[0] == "torch":
            continue
        for name in _names(method):
            if name == "training":
                return True
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return False


def _names(function: Callable[..., Any]) -> Iterator[str]:
    pending = [inspect.unwrap(function).__code__]
    while pending:
        code = pending.pop()
        yield from code.co_names
        pending.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))

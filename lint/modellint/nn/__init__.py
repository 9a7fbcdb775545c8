"""Modules that fixes put into models. Using one of them needs torch; importing this package does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["BufferDict", "BufferList", "CustomPReLU"]

if TYPE_CHECKING:
    from modellint.nn.prelu import CustomPReLU as CustomPReLU
    from modellint.nn.tensor_containers import BufferDict as BufferDict
    from modellint.nn.tensor_containers import BufferList as BufferList

_HOMES = {"BufferDict": "buffers", "BufferList": "buffers", "CustomPReLU": "prelu"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"modellint.nn.{name} needs PyTorch, which is not installed: pip install 'modellint[live]'"
        ) from error

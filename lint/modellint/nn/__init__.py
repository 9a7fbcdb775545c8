"""Modules that fixes put into models. Using one of them needs torch; importing this package does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["CustomPReLU"]

if TYPE_CHECKING:
    from modellint.nn.prelu import CustomPReLU as CustomPReLU


def __getattr__(name: str) -> object:
    if name != "CustomPReLU":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from modellint.nn.prelu import CustomPReLU
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"modellint.nn.{name} needs PyTorch, which is not installed: pip install 'modellint[live]'"
        ) from error
    return CustomPReLU

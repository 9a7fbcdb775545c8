"""A pre-export linter and static checker for PyTorch models on their way to Core ML.

Importing this module is cheap: nothing of torch, coremltools or libcst is loaded until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Report", "__version__", "check_source"]

if TYPE_CHECKING:
    from modellint.api import Report as Report
    from modellint.api import check_source as check_source


def __getattr__(name: str) -> object:
    if name in ("Report", "check_source"):
        from modellint import api

        return getattr(api, name)
    if name == "nn":
        from importlib import import_module

        return import_module("modellint.nn")
    raise AttributeError(f"module 'modellint' has no attribute {name!r}")

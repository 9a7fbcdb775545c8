"""Installed versions, and which ones coremltools says it was tested with; imports none of them."""

from __future__ import annotations

import ast
import importlib.util
import re
from importlib import metadata
from pathlib import Path

_LEADING = re.compile(r"\d+(?:\.\d+)*")


def version(name: str) -> str | None:
    """The version of a distribution; None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, without zeros at the end, so that releases compare."""
    match = _LEADING.match(version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def tested_torch() -> str | None:
    """The newest torch that the installed coremltools was tested with, as it warns itself when it is imported."""
    try:
        spec = importlib.util.find_spec("coremltools")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        try:
            tree = ast.parse(Path(folder, "_deps", "__init__.py").read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id="_TORCH_MAX_VERSION")], value=ast.Constant(value=str(newest))):
                    return newest
    return None

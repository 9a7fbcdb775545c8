"""Modules that are written to a file and imported from there, so that what is found has a place."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

HEAD = """\
import collections, dataclasses, functools, types
from typing import Any, NamedTuple
import torch
import torch.nn.functional as F
from torch import nn


"""
Load = Callable[..., ModuleType]


@contextmanager
def written(folder: Path) -> Iterator[Load]:
    """A function that imports text, ``HEAD`` before it, from a file of its own in a folder, `model.py` being the first."""
    names: list[str] = []

    def load(text: str, name: str = "") -> ModuleType:
        path = folder / f"{name or (f'model{len(names)}' if names else 'model')}.py"
        path.write_text(HEAD + textwrap.dedent(text), "utf-8")
        full = f"{folder.name.replace('-', '_')}_{path.stem}"
        spec = importlib.util.spec_from_file_location(full, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        names.append(full)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in names:
        del sys.modules[name]

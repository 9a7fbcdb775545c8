"""Facts about a live target, gathered in its worker: the model's class and size, imported files and packages, and the cost."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.metadata
import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.results.swept_model_facts import TargetFacts

if TYPE_CHECKING:
    from torch import nn

_CHANGED = "changed while it ran"
"""In the place of a digest: it holds for no file."""
_TICK = 0.02
"""Seconds by which the times of files may lag."""
_MODULES = tuple(importlib.machinery.all_suffixes())
_ALWAYS = ("modellint", "torch", "coremltools", "coreai-torch", "coreai-core", "numpy")
"""Distributions that decide on what is said of any model, imported or not yet."""


def facts_of(model: nn.Module | None, since: float) -> TargetFacts:
    """What this process has come to know and to use for a model; None where it was not built.

    Files that were written after ``since``, by ``time.time``, may be others than those that were imported.
    """
    cpu, memory = _used()
    parameters, size = (0, 0) if model is None else _sizes(model)
    name = "" if model is None else f"{type(model).__module__}.{type(model).__qualname__}"
    return TargetFacts(name, _library(model), parameters, size, _files(since), _versions(), cpu, memory)


def _library(model: nn.Module | None) -> str:
    """The installed package that a model's class is from; empty for the user's own."""
    module = "" if model is None else type(model).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return module.partition(".")[0] if isinstance(file, str) and _is_installed(file) else ""


def _sizes(model: nn.Module) -> tuple[int, int]:
    """Elements of parameters, and bytes of parameters and buffers; lazy ones have none yet."""
    from torch.nn.parameter import is_lazy

    parameters = [tensor for tensor in model.parameters() if not is_lazy(tensor)]
    buffers = [tensor for tensor in model.buffers() if not is_lazy(tensor)]
    count = sum(tensor.numel() for tensor in parameters)
    return count, sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *buffers))


def _used() -> tuple[float, int]:
    """Seconds of CPU time and the largest resident size, of this process and of those that it waited for."""
    try:
        import resource
    except ImportError:
        import psutil

        times = psutil.Process().cpu_times()
        return times.user + times.system, psutil.Process().memory_info().rss
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    # Linux counts in units of 1024 bytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    return cpu, max(own.ru_maxrss, others.ru_maxrss) * unit


def _files(since: float) -> dict[str, str]:
    """The files of imported modules that belong to no package and not to Python, and their folders, with their digests."""
    kept: dict[str, str] = {}
    for module in list(sys.modules.values()):
        try:
            file = getattr(module, "__file__", None)
        except Exception:
            # Whatever stands there: a module of the user's that answers for its own attributes.
            continue
        if not isinstance(file, str) or not Path(file).is_absolute() or _is_installed(file):
            continue
        for path in (file, f"{Path(file).parent}{os.sep}"):
            if path not in kept and (digest := digest_of(path)) is not None:
                kept[path] = _CHANGED if _written(path) > since - _TICK else digest
    return kept


def _written(path: str) -> float:
    """When a file was written, by the system's clock; 0 for a folder, whose names alone count."""
    return 0.0 if path.endswith(os.sep) else Path(path).stat().st_mtime


def digest_of(path: str) -> str | None:
    """The SHA-256 of a file, in hexadecimal; None where it cannot be read.

    Of a folder, which ends in a separator, that of the names that can be imported from it: a module that is new may come before another.
    """
    try:
        data = "\n".join(_importable(path)).encode() if path.endswith(os.sep) else Path(path).read_bytes()
    except OSError:
        return None
    return hashlib.sha256(data).hexdigest()


def _importable(folder: str) -> list[str]:
    """The names of modules in a folder, and of folders that hold one: what reports and packages are written into does not count."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(_MODULES) or _holds_modules(entry))


def _holds_modules(entry: os.DirEntry[str]) -> bool:
    if not entry.name.isidentifier() or entry.name == "__pycache__" or not entry.is_dir():
        return False
    with os.scandir(entry) as inside:
        return any(below.name.endswith(_MODULES) for below in inside)


@cache
def _places() -> tuple[str, ...]:
    """The folders of what is installed: Python's own modules, and modellint."""
    paths = sysconfig.get_paths()
    return paths["stdlib"], paths["platstdlib"], str(Path(__file__).parents[1])


def _is_installed(file: str) -> bool:
    parts = Path(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return file.startswith(_places()) or "modellint_rules" in parts


def _versions() -> dict[str, str]:
    """The versions of imported distributions, of those that always count, and of Python."""
    names = {name.partition(".")[0] for name in list(sys.modules)}
    by_module = importlib.metadata.packages_distributions()
    imported = {distribution for name in names for distribution in by_module.get(name, ())}
    return versions_of({*imported, *_ALWAYS})


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """The installed versions of distributions, without those that are not there, and Python's."""
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in sorted(names):
        if name == "modellint":
            versions[name] = _own_version()
        elif name != "python":
            version = _version(name)
            versions |= {} if version is None else {name: version}
    return versions


@cache
def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _own_version() -> str:
    """The version of modellint with a digest of its code: a development version is not always raised."""
    from modellint.cache import rules_digest
    from modellint.version import version

    return f"{version()} ({rules_digest()[:12]})"


def is_current(
    versions: Mapping[str, str], files: Mapping[str, str], digest: Callable[[str], str | None] = digest_of
) -> bool:
    """Whether the versions and the files that a target was made from are those that there are now."""
    return versions_of(versions) == dict(versions) and all(digest(path) == known for path, known in files.items())

"""Files of a saved package, looked at before anything in it is read: all of it is there, and within the package.

An ``.mlpackage`` is a folder with a Manifest.json, which names a model and other items by their paths in ``Data``. A path may lead
anywhere, through ``..`` or a symbolic link, and coremltools goes there; it writes a manifest, too, into a folder that has none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modellint.destinations.destination import PackageError

_LARGEST_MANIFEST = 2**20


def check_layout(path: str | os.PathLike[str]) -> None:
    """Raise ``PackageError`` for what is no saved model, and for one that is not all within itself."""
    package = Path(path)
    try:
        if not package.exists():
            raise PackageError(f"{package} does not exist")
        if not package.is_dir():
            if not package.is_file():
                raise PackageError(f"{package} is no regular file")
            return
        whole = Path(os.path.realpath(package))
        entries = _entries(package)
        for name, item in entries.items():
            _check_item(package, whole, name, item)
        for folder, folders, files in os.walk(package):
            for inside in (*folders, *files):
                _check_file(package, whole, Path(folder, inside))
    except OSError as error:
        raise PackageError(f"{error.filename or package} cannot be read: {error.strerror}") from None


def _entries(package: Path) -> Mapping[str, Any]:
    """What the manifest lists, the model among it."""
    manifest = package / "Manifest.json"
    if not manifest.is_file():
        raise PackageError(f"{package} is no saved Core ML model: it has no file Manifest.json")
    if manifest.stat().st_size > _LARGEST_MANIFEST:
        raise PackageError(f"{manifest} is too large")
    try:
        content = json.loads(manifest.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{manifest} is no JSON: {error}") from None
    entries = content.get("itemInfoEntries") if isinstance(content, dict) else None
    root = content.get("rootModelIdentifier") if isinstance(content, dict) else None
    if not isinstance(entries, dict) or not isinstance(root, str) or root not in entries:
        raise PackageError(f"{manifest} names no model: rootModelIdentifier must be one of itemInfoEntries")
    return entries


def _check_item(package: Path, whole: Path, name: str, item: Any) -> None:
    path = item.get("path") if isinstance(item, dict) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise PackageError(f"{package / 'Manifest.json'}: the item {name!r} has no path")
    if Path(path).is_absolute() or not _is_within(package / "Data" / path, whole):
        raise PackageError(f"{package / 'Manifest.json'}: the path {path!r} leads out of the package")
    if not (package / "Data" / path).exists():
        raise PackageError(f"{package} is not whole: {path!r}, which its manifest names, is not there")


def _check_file(package: Path, whole: Path, inside: Path) -> None:
    if not _is_within(inside, whole):
        raise PackageError(f"{package}: {inside.relative_to(package)} leads out of the package")
    if not (inside.is_dir() or inside.is_file()):
        raise PackageError(f"{package}: {inside.relative_to(package)} is no regular file")


def _is_within(path: Path, whole: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(whole)

"""Memory of probes: what was found out about an installed coremltools that nobody measured, kept in the user's cache folder.

What cannot be read or written there is found out anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from modellint.atomic_write import ReplaceError, write_file
from modellint.destinations.coreml.installed_versions import version
from modellint.destinations.coreml.private.installed_capabilities import fingerprint

_DONE: dict[tuple[str, str], Any] = {}


def remembered(name: str, find_out: Callable[[], Any]) -> Any:
    """What is found out about the installed coremltools under a name: once for each version of it, torch, numpy and modellint.

    It has to be what JSON knows.
    """
    place = _folder() / f"coremltools-{_key(fingerprint())}.json"
    key = name, str(place)
    if key not in _DONE:
        known = _read(place)
        if name not in known:
            known = {**known, name: find_out()}
            with contextlib.suppress(OSError, ReplaceError):
                place.parent.mkdir(parents=True, exist_ok=True)
                write_file(place, json.dumps(known).encode())
        _DONE[key] = known[name]
    return _DONE[key]


def _folder() -> Path:
    """``$XDG_CACHE_HOME/modellint``, on Windows ``%LOCALAPPDATA%\\modellint``."""
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    return Path(base or os.path.expanduser("~/.cache")) / "modellint"  # noqa: PTH111


def _read(place: Path) -> dict[str, Any]:
    try:
        known = json.loads(place.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


@cache
def _key(fingerprint: str) -> str:
    sha = hashlib.sha256(f"{fingerprint} {version('torch')} {version('numpy')}".encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:16]

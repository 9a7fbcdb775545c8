"""Arguments that the functions of the Python API share: how they are checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path


def chosen(
    frontend: str | None, deployment_target: str | None, precision: str | None, destination: str | None = None
) -> dict[str, str]:
    """The settings that arguments stand for. Raises ``ValueError`` for unknown words."""
    from modellint.settings import FRONTENDS, OF_COREML, PRECISIONS, RUNTIMES, TARGETS

    arguments = {
        "frontend": (frontend, FRONTENDS),
        "deployment-target": (deployment_target, tuple(TARGETS)),
        "precision": (precision, PRECISIONS),
        "destination": (destination, tuple(RUNTIMES)),
    }
    for name, (word, words) in arguments.items():
        if word is not None and word not in words:
            raise ValueError(f"{name.replace('-', '_')} must be one of {', '.join(words)}, not {word!r}")
        if destination == "coreai" and word is not None and name in OF_COREML:
            raise ValueError(f"{name.replace('-', '_')} is about Core ML alone: leave it out for Core AI")
    return {name: word for name, (word, _) in arguments.items() if word is not None}


def codes_of(codes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The codes that ``select`` or ``ignore`` names. Raises ``TypeError`` for what is no text."""
    selectors = [codes] if isinstance(codes, str) else codes
    if selectors is None:
        return None
    if not all(isinstance(word, str) for word in selectors):
        raise TypeError(f"select and ignore take codes, such as 'REG001', not {codes!r}")
    return tuple(code for word in selectors for code in word.replace(",", " ").split())


def output_path(output: str | PathLike[str] | None, force: bool) -> Path | None:
    """Where a package goes. Raises ``FileExistsError`` where something is, without ``force``."""
    path = None if output is None else Path(output)
    if path is not None and os.path.lexists(path) and not force:
        raise FileExistsError(f"{path} exists: force=True replaces it")
    return path

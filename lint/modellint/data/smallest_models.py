"""Smallest models: for each modelling file of a package the entry with the fewest parameters, as ``modellint.measure`` counted them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

FILE = "smallest_models.json"


def known(package: str) -> dict[str, str]:
    """The names by their modelling file, of the version of the package that was measured."""
    text = resources.files(__package__).joinpath(FILE).read_text("utf-8")
    names: dict[str, str] = json.loads(text)[package]["models"]
    return names


def choose(name: str | None, names: Sequence[str]) -> str:
    """The measured one where the installed version has it, else the one with the shortest name."""
    return name if name in names and name is not None else min(names, key=lambda each: (len(each), each))

"""Core AI's operators: what coreai-torch has converters for, and which names of PyTorch's API do without none that it lacks.

``python -m modellint.measure.coreai_operators`` measures it, and writes ``coreai_operators.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from modellint.data.operator_conversion import public_name, words_of


class UnknownVersion(Exception):
    """A version of coreai-torch that the table says nothing about; the message names those it knows."""


class Table(NamedTuple):
    """What was measured beside one version of coreai-torch."""

    version: str
    """Of coreai-torch."""
    since: Mapping[str, str]
    """By name of a converter (``add.Tensor``): the first version that has it."""
    missing: Mapping[str, tuple[str, ...]]
    """By name of PyTorch's API that no sample of converts: the operators without a converter, of the sample with the fewest."""
    refused: Mapping[str, str]
    """The same where there are converters, and each sample is refused: what is said."""
    fails: Mapping[str, str]
    """By name of PyTorch's API that converts: what the interpreter says, if it can run no sample."""
    converts: frozenset[str]
    """Names of PyTorch's API of which a sample converts, runs, and is right."""
    supplied: frozenset[str]
    """Names of PyTorch's API of the groups below and above that convert, run and are right by an export, in some sample."""
    before: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By version, and by name of PyTorch's API that converts: the operators without a converter beside all older versions.

    By the names of their converters; they were not run.
    """
    wrong: Mapping[str, float | None]
    """By name of PyTorch's API that converts and runs, to other numbers in every sample: how far off, as a share of the largest."""


@lru_cache
def table() -> Table:
    """The measured table."""
    data = json.loads(Path(__file__).with_name("coreai_operators.json").read_bytes())
    return Table(
        data["version"],
        {name: version for version, names in data["converters"].items() for name in names},
        _by_name(data["missing"]),
        data["refused"],
        data["fails"],
        frozenset(data["converts"]),
        frozenset(data["supplied"]),
        {version: _by_name(groups) for version, groups in data["before"].items()},
        data["wrong"],
    )


def _by_name(groups: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(group["operators"]) for group in groups for name in group["names"]}


def versions() -> tuple[str, ...]:
    """The versions of coreai-torch that are known, the oldest first."""
    return tuple(sorted({*table().since.values(), table().version}, key=_order))


def known_version(version: str | None) -> str:
    """The version that is spoken of, the newest for None. Raises ``UnknownVersion``."""
    if version is None:
        return table().version
    if version not in versions():
        raise UnknownVersion(f"coreai-torch {version} is not in the operator table; it knows {', '.join(versions())}")
    return version


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@lru_cache
def missing(version: str | None = None) -> Mapping[str, tuple[str, ...]]:
    """By name of PyTorch's API: the operators without a converter that each use of it runs, beside a version."""
    asked = _order(known_version(version))
    found = dict(table().missing)
    for later, names in table().before.items():
        if asked < _order(later):
            found.update(names)
    return found


def converts_since(name: str) -> str:
    """The first version that has converters for all that a name of PyTorch's API runs, which converts beside the newest."""
    return next((version for version, names in table().before.items() if name in names), versions()[0])


def missing_operators(name: str, version: str | None = None) -> tuple[str, ...]:
    """The operators that coreai-torch has no converter for, and that each use of a name runs (``aten.cumprod.default``)."""
    return missing(version).get(public_name(name), ())


@lru_cache
def words_of_missing(version: str | None = None) -> frozenset[str]:
    """Trigger words: code that names an operator without a converter holds one of them."""
    return words_of(missing(version))


def refusal(name: str) -> str | None:
    """What coreai-torch says of a name of PyTorch's API that has converters, and was refused in every sample; None of others."""
    return table().refused.get(public_name(name))


@lru_cache
def words_of_refused() -> frozenset[str]:
    """Trigger words: code that names what is refused holds one of them."""
    return words_of(table().refused)


def is_supplied(name: str) -> bool:
    """Whether an export converts some use of a name of PyTorch's API that coreai-torch alone does not."""
    return public_name(name) in table().supplied

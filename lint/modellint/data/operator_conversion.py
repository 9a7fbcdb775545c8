"""Conversion of PyTorch's operators by coremltools: the questions that rules ask the operator table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from modellint.data.coreml_operators import EXPORT_SINCE, OPERATORS, SINCE, VERSIONS
from modellint.data.coremltools_version_facts import is_release, is_version, order

NEWEST = max(at for at, version in enumerate(VERSIONS) if is_release(version))
"""The place in the table of the newest release; behind it stand previews, and states of coremltools' repository, by their commits."""


class UnknownVersion(Exception):
    """A version of coremltools that the table says nothing about; the message names those it knows."""


class Operator(NamedTuple):
    """One name of PyTorch's API, at one version of coremltools.

    ``kind`` is the operator that the front end looks up (``aten::fmod``). ``trace``, ``export`` and ``core``: whether
    coremltools has converters for a capture by `torch.jit.trace`, by `torch.export`, or by that with core ATen decompositions.
    ``coming``: what has the converter that is missing. ``ios``: the iOS whose operations it needs.
    """

    name: str
    kind: str
    trace: bool
    export: bool
    core: bool
    coming: str | None
    ios: int

    @property
    def exported(self) -> bool:
        """Whether coremltools has converters for what `torch.export` captures, decomposed one way or the other."""
        return self.export or self.core

    @property
    def converts(self) -> bool:
        """Whether any route has a converter."""
        return self.trace or self.exported


def version_shown(version: str | None) -> str:
    """A version as people read it."""
    return version or VERSIONS[NEWEST]


def table_version(version: str | None) -> int:
    """The place in the table of a version: the newest entry that is not newer, the newest release for None."""
    if version is None:
        return NEWEST
    if version in VERSIONS:
        return VERSIONS.index(version)
    if not is_version(version):
        raise UnknownVersion(f"{version!r} is not a version such as {VERSIONS[NEWEST]}")
    numbered = [known for known in VERSIONS if is_version(known)]
    wanted, (newest, *_) = order(version), order(numbered[-1])
    older = [known for known in numbered if order(known) <= wanted]
    if not older or wanted[0][: len(newest)] > newest:
        raise UnknownVersion(f"coremltools {version} is not in the operator table; it knows {', '.join(VERSIONS)}")
    return VERSIONS.index(older[-1])


def public_name(name: str) -> str:
    """The name under which the table has a function or class of torch."""
    if name.startswith("torch.nn.modules."):
        return "torch.nn." + name.rpartition(".")[2]
    if name.startswith("torch.functional."):
        return "torch." + name.removeprefix("torch.functional.")
    return name


def operator(name: str, version: str | None = None) -> Operator | None:
    """What the table says of a name; None where it always converted, or nothing is known of it."""
    name = public_name(name)
    since = SINCE.get(name)
    if since is None:
        return None
    at = table_version(version)
    first = min(since.trace, max(min(since.export, since.core), EXPORT_SINCE))
    coming = None
    if at < first < len(VERSIONS):
        coming = f"coremltools {VERSIONS[first]}" if is_version(VERSIONS[first]) else "The next coremltools"
    exports = at >= EXPORT_SINCE
    return Operator(
        name,
        "aten::" + OPERATORS[name],
        since.trace <= at,
        exports and since.export <= at,
        exports and since.core <= at,
        coming,
        since.ios,
    )


@lru_cache
def words_of_missing(version: str | None) -> frozenset[str]:
    """Trigger words: code that names an operator without a converter, by any route, holds one of them."""
    at = table_version(version)
    return words_of(name for name, since in SINCE.items() if since.trace > at or min(since.export, since.core) > at)


@lru_cache
def words_of_newer(ios: int) -> frozenset[str]:
    """Trigger words: code that names an operator which needs a newer system holds one of them."""
    return words_of(name for name, since in SINCE.items() if since.ios > ios)


def words_of(names: Iterable[str]) -> frozenset[str]:
    """Trigger words: the last parts of names, as they stand behind a dot or are imported."""
    last = {name.rpartition(".")[2] for name in names}
    return frozenset(mark + name for name in last for mark in ".~")

"""Limits of the installed coremltools: what is known of exactly this version, and where it is not known, what it lacks.

A version is known where it was measured (``data.coremltools_version_facts``). Of any other one the private names that are used here are
looked up once; what one that is missing takes away is a limit, and all else works.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from modellint.data.coremltools_version_facts import VersionFacts, measured, nearest
from modellint.destinations.coreml.private.entry_points import ct
from modellint.destinations.coreml.private.probed_names import Lacking, lacking

_WITHOUT = {
    "trace": "a model is not walked but converted by torch.jit.trace, which ends at the first refusal",
    "export": "a model is not walked but converted by torch.export, which ends at the first refusal",
    "supplied": "an export supplies no converters",
    "packages": "a saved package is not executed",
    "types": "the types of inputs are not looked at",
    "complex": "what is refused of complex numbers alone is not seen",
    "speed": "conversions take longer",
    "lines": "a difference is not traced to its line",
}
"""What is done without, by what uses a name."""


@lru_cache
def front_end_digest() -> str:
    """A digest of the sources of the installed coremltools' PyTorch front end."""
    folder = Path(ct.__file__).parent / "converters" / "mil" / "frontend" / "torch"
    sha = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        sha.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return sha.hexdigest()


def known() -> VersionFacts | None:
    """The facts of the installed version; None where it was not measured."""
    return measured(ct.__version__, front_end_digest())


def facts() -> VersionFacts:
    """The facts of the installed version, or those that stand in for them."""
    return known() or nearest(ct.__version__)


@lru_cache
def _lacking(version: str) -> tuple[Lacking, ...]:
    return tuple(lacking())


def lacks(use: str) -> tuple[str, ...]:
    """The private names, of those that a use needs, that the installed version does not have as they are used; none where it is known."""
    if known() is not None:
        return ()
    return tuple(f"{name.name} {name.what}" for name in _lacking(ct.__version__) if use in name.uses)


def limits() -> tuple[str, ...]:
    """What is to be said of verdicts on the installed version; nothing where it is known."""
    if known() is not None:
        return ()
    return (
        f"coremltools {ct.__version__} is not known: what is known of {facts().coremltools} stands in",
        *(
            f"{name.name} {name.what}: {', and '.join(_WITHOUT[use] for use in name.uses)}"
            for name in _lacking(ct.__version__)
        ),
    )


def fingerprint() -> str:
    """What tells the installed version, as far as it can be used here, from any other."""
    return " ".join((ct.__version__, front_end_digest(), *limits()))

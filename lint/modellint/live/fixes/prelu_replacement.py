"""PReLU fix: ``nn.PReLU`` becomes ``CustomPReLU`` where coremltools refuses its slopes, and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from modellint.live.fixes.candidate_fix import Change
from modellint.live.subject import Subject
from modellint.nn.prelu import CustomPReLU

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Verdict


def candidates(subject: Subject) -> dict[str, nn.Module]:
    """The layers, by all their paths, whose slopes differ."""
    return {
        path: entry.module
        for entry in subject.modules
        # A class of the user's, or a function in the place of `forward`, is another layer.
        if type(entry.module) is nn.PReLU and "forward" not in vars(entry.module) and _differ(entry.module.weight)
        for path in entry.paths
    }


def _differ(slopes: torch.Tensor) -> bool:
    if slopes.is_meta or slopes.numel() < 2:
        return False
    return bool((slopes != slopes.flatten()[0]).any())


def refused(verdicts: Sequence[Verdict], frontend: str) -> set[str]:
    """The paths of the modules whose slopes coremltools refuses by a route that may be taken."""
    return {
        path
        for verdict in verdicts
        if frontend in ("auto", verdict.route)
        for blocker in (*verdict.blockers, *verdict.undecomposed)
        if blocker.refuses_slopes
        for path in blocker.modules
    }


def changes(subject: Subject, refusals: set[str]) -> Iterator[Change]:
    """The layers at paths that are refused."""
    layers: dict[int, tuple[nn.Module, list[str]]] = {}
    known = candidates(subject)
    for path, module in known.items():
        layers.setdefault(id(module), (module, []))[1].append(path)
    for module, paths in layers.values():
        if not refusals.isdisjoint(paths):
            yield Change(
                "OPS004", "made a `CustomPReLU` of the `PReLU`", tuple(paths), functools.partial(_replace_class, module)
            )


def _replace_class(module: nn.Module) -> None:
    # The same object: whatever refers to it, its state, hooks and mode stay.
    module.__class__ = CustomPReLU

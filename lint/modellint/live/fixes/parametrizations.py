"""Parametrization fix: weights that every call computes anew (weight norm, spectral norm, pruning) become plain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize, remove_spectral_norm, remove_weight_norm
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.prune import remove as remove_pruning
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from modellint.live.fixes.candidate_fix import Change
from modellint.live.subject import Subject


def changes(subject: Subject) -> Iterator[Change]:
    """Every computed tensor of every module."""
    for entry in subject.modules:
        for name, how, fold in _computed(entry.module):
            yield Change(
                "MOD004",
                f"folded {how} into `{name}`",
                entry.paths,
                fold,
                rounds=True,
                keeps_keys=False,
                note="`state_dict` keys change, as by PyTorch's own function for it",
            )


def _computed(module: nn.Module) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Name of a tensor, what computes it, and how to fold that."""
    if parametrize.is_parametrized(module):
        names: Any = module.parametrizations
        for name in list(names):
            kinds = ", ".join(f"`{type(part).__name__.lstrip('_')}`" for part in names[name])
            yield name, f"the parametrization {kinds}", functools.partial(_unparametrized, module, name)
    for hook in list(module._forward_pre_hooks.values()):
        match hook:
            case WeightNorm():
                yield hook.name, "weight norm", functools.partial(_folded, remove_weight_norm, module, hook.name)
            case SpectralNorm():
                yield hook.name, "spectral norm", functools.partial(_folded, remove_spectral_norm, module, hook.name)
            case BasePruningMethod():
                masked = hook._tensor_name
                yield masked, "the pruning mask", functools.partial(_folded, remove_pruning, module, masked)


def _folded(remove: Any, module: nn.Module, name: str) -> None:
    with torch.no_grad():
        remove(module, name)
    _apart(module, name)


def _unparametrized(module: Any, name: str) -> None:
    # The class, from which PyTorch's function takes the weight away, is the original model's too.
    kind = type(module)
    own = {key: value for key, value in vars(kind).items() if key not in ("__dict__", "__weakref__")}
    module.__class__ = type(kind.__name__, kind.__bases__, own)
    # What PyTorch's function writes into must be memory that nothing else refers to: the change may be taken back.
    for part in module.parametrizations[name].parameters():
        part.data = part.data.clone()
    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    _apart(module, name)


def _apart(module: nn.Module, name: str) -> None:
    """Untie the folded weight: it gets memory of its own, as the parameter that it was computed from may be tied to another."""
    weight = module._parameters.get(name)
    if weight is not None:
        setattr(module, name, nn.Parameter(weight.detach().clone(), weight.requires_grad))

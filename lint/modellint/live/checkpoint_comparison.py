"""Comparison of a checkpoint with a model's ``state_dict``, as ``load_state_dict`` makes it."""

from __future__ import annotations

import copy
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from modellint.live.checkpoint_file import WRAPPERS, weights, without_wrappers
from modellint.live.unregistered_state import reachable_state

if TYPE_CHECKING:
    from modellint.live.subject import Subject

Shape = tuple[int, ...]
"""The sizes of a tensor."""


class Renaming(NamedTuple):
    """One change of names that makes a checkpoint's keys the model's."""

    part: str
    """What the keys have more, as in ``module.``."""
    in_model: bool
    """Whether it is the model's keys that have it, not the checkpoint's."""
    keys: int
    """How many keys of the checkpoint it concerns."""


class Comparison(NamedTuple):
    """A model's keys and a checkpoint's, the latter under the model's names where a renaming was found."""

    wanted: Mapping[str, Shape | None]
    """The model's keys; None for what has no shape."""
    saved: Mapping[str, Shape | None]
    """The checkpoint's keys; None for what is no tensor."""
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    misshapen: tuple[str, ...]
    """Keys of both whose shapes differ."""
    renamings: tuple[Renaming, ...]


def compare(subject: Subject) -> Comparison | None:
    """Compare the subject's model with its checkpoint; None without a checkpoint."""
    if subject.checkpoint is None:
        return None
    state = subject.model.state_dict()
    wanted = {key: _shape(value) for key, value in state.items()}
    tensors = weights(subject.checkpoint, wanted)
    saved = {key: _shape(value) for key, value in tensors.items() if isinstance(key, str)}
    names, renamings = _renamed(wanted, saved)
    saved = {names[key]: shape for key, shape in saved.items()}
    missing = [key for key in wanted if key not in saved]
    unexpected = [key for key in saved if key not in wanted]
    misshapen = [key for key in wanted if key in saved and not _fits(wanted[key], saved[key])]
    if (missing or unexpected or misshapen) and _loads_its_own_way(subject.model):
        offered = {names[key]: value for key, value in tensors.items() if key in names}
        seen = _tried(subject, offered, getattr(tensors, "_metadata", None))
        if seen is not None:
            missing, unexpected, misshapen = seen
    return Comparison(wanted, saved, tuple(missing), tuple(unexpected), tuple(misshapen), renamings)


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, torch.Tensor) or is_lazy(value):
        return None
    return tuple(value.shape)


def _fits(wanted: Shape | None, saved: Shape | None) -> bool:
    # load_state_dict takes a tensor of one element for a scalar, as torch before 0.4 saved them.
    return wanted is None or wanted == saved or (wanted == () and saved == (1,))


def _renamed(
    wanted: Mapping[str, Shape | None], saved: Mapping[str, Shape | None]
) -> tuple[dict[str, str], tuple[Renaming, ...]]:
    """The checkpoint's keys to the names that fit the model best, and what was changed."""
    names, renamings = _unwrapped(wanted, saved)
    for in_model in (False, True):
        ours, theirs = set(wanted), set(names.values())
        open_keys = (ours - theirs) if in_model else (theirs - ours)
        for part in _prefixes(open_keys):
            changed = _mapped(names, wanted, part, in_model)
            if changed is not None:
                names, count = changed
                renamings.append(Renaming(part, in_model, count))
                break
    return names, tuple(renamings)


def _unwrapped(
    wanted: Mapping[str, Shape | None], saved: Mapping[str, Shape | None]
) -> tuple[dict[str, str], list[Renaming]]:
    """The checkpoint's keys without what wrappers such as `DataParallel` put into them, where that is a key of the model."""
    bare = {without_wrappers(key): key for key in wanted if key not in saved}
    counts: Counter[tuple[str, bool]] = Counter()
    names: dict[str, str] = {}
    for key in saved:
        name = key if key in wanted else bare.get(without_wrappers(key), key)
        names[key] = name
        for part in WRAPPERS if name != key else ():
            if (part in key) != (part in name):
                counts[part, part in name] += 1
    return names, [Renaming(part, in_model, count) for (part, in_model), count in counts.items()]


def _prefixes(keys: Iterable[str]) -> list[str]:
    """What several keys begin with, the most frequent first."""
    counts: Counter[str] = Counter()
    for key in keys:
        parts = key.split(".")
        counts.update(".".join(parts[:length]) + "." for length in range(1, min(len(parts), 4)))
    return [prefix for prefix, _ in counts.most_common(12)]


def _mapped(
    names: Mapping[str, str], wanted: Mapping[str, Shape | None], part: str, in_model: bool
) -> tuple[dict[str, str], int] | None:
    """The names with a prefix added or removed, and how many changed, if that fits most of what did not fit."""
    current = set(names.values())
    changes: dict[str, str] = {}
    for key, name in names.items():
        mapped = f"{part}{name}" if in_model else name.removeprefix(part)
        if name not in wanted and mapped in wanted and mapped not in current:
            changes[key] = mapped
    lacking = sum(key not in current for key in wanted)
    if not changes or 2 * len(changes) < lacking:
        return None
    return {key: changes.get(key, name) for key, name in names.items()}, len(changes)


def _loads_its_own_way(model: nn.Module) -> bool:
    """Whether any module has a say in how it is loaded."""
    if type(model).load_state_dict is not nn.Module.load_state_dict:
        return True
    return any(
        type(module)._load_from_state_dict is not nn.Module._load_from_state_dict
        or module._load_state_dict_pre_hooks
        or module._load_state_dict_post_hooks
        for module in model.modules()
    )


def _tried(
    subject: Subject, offered: Mapping[str, Any], metadata: Any
) -> tuple[list[str], list[str], list[str]] | None:
    """What a copy of the model on the meta device says when it loads; None where that cannot be known."""
    try:
        # Torch warns that a copy to the meta device copies nothing.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone = copy.deepcopy(subject.model, dict(_stand_ins(subject)))
            return _loaded(clone, {key: _on_meta(value) for key, value in offered.items()}, metadata)
    except Exception:
        return None


def _loaded(clone: nn.Module, entries: dict[str, Any], metadata: Any) -> tuple[list[str], list[str], list[str]] | None:
    misshapen: list[str] = []
    for _ in range(2):
        attempt: Any = _Entries(entries)
        if metadata is not None:
            attempt._metadata = metadata
        try:
            result = clone.load_state_dict(attempt, strict=False)
        except RuntimeError as error:
            misshapen = re.findall(r"size mismatch for (\S+):", str(error))
            if not misshapen:
                return None
            # Once more without them, as torch tells the other keys only where all shapes fit.
            state = clone.state_dict()
            entries.update((key, _on_meta(state[key])) for key in misshapen)
        else:
            return list(result.missing_keys), list(result.unexpected_keys), misshapen
    return None


class _Entries(dict[str, Any]):
    """A dict that takes attributes, as ``state_dict`` returns it."""


def _on_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty(value.shape, dtype=value.dtype, device="meta")


def _stand_ins(subject: Subject) -> Iterator[tuple[int, torch.Tensor]]:
    """For each of the model's tensors, by identity, one on the meta device, so that a copy costs no memory."""
    tensors = [state.tensor for state in subject.state]
    for part in reachable_state(subject):
        if isinstance(part.value, torch.Tensor):
            tensors.append(part.value)
        else:
            tensors += [*part.value.parameters(), *part.value.buffers()]
    for tensor in tensors:
        if is_lazy(tensor):
            continue
        empty = _on_meta(tensor)
        is_parameter = isinstance(tensor, nn.Parameter)
        yield id(tensor), nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty

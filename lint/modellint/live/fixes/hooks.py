"""Hook fix: hooks are removed only where the model cannot be captured with them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from torch import nn

from modellint.live.fixes.candidate_fix import Change
from modellint.live.hooks import STORES, hooks_of
from modellint.live.subject import Subject


def changes(subject: Subject) -> Iterator[Change]:
    """The hooks of the model by kind, those first that tracing refuses."""
    by_kind: dict[str, dict[int, tuple[nn.Module, tuple[str, ...]]]] = {}
    for entry in subject.modules:
        for hook in hooks_of(entry.module):
            by_kind.setdefault(hook.kind, {})[id(entry.module)] = entry.module, entry.paths
    for kind in sorted(by_kind, key=lambda kind: "backward" not in kind):
        holders = list(by_kind[kind].values())
        yield Change(
            "MOD005",
            f"took off {kind}s",
            tuple(path for _, paths in holders for path in paths),
            functools.partial(_without, [module for module, _ in holders], kind),
        )


def _without(modules: list[nn.Module], kind: str) -> None:
    for module in modules:
        gone = {id(hook.function) for hook in hooks_of(module) if hook.kind == kind}
        store = getattr(module, STORES[kind])
        for key in [key for key, function in store.items() if id(function) in gone]:
            del store[key]
            for extra in ("_with_kwargs", "_always_called"):
                getattr(module, f"{STORES[kind]}{extra}", {}).pop(key, None)
        if kind == "backward hook" and not store:
            module._is_full_backward_hook = None

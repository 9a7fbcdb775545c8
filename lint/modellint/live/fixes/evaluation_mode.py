"""Mode fix: evaluation mode, for modules too that ``eval()`` does not reach."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from modellint.live.fixes.candidate_fix import BIT_EQUAL, Applied
from modellint.live.mode_dependence import depends_on_mode
from modellint.live.subject import Subject
from modellint.live.unregistered_state import reachable_state


def evaluating(subject: Subject) -> Iterator[Applied]:
    """Put all modules that a model leads to into evaluation mode; yields those that were training and depend on their mode."""
    model = subject.model
    modules = by_path(subject)
    training = {path: module for path, module in modules.items() if module.training}
    if not training:
        return
    depends = tuple(path for path, module in training.items() if depends_on_mode(module))
    registered = {id(entry.module) for entry in subject.modules}
    for module in (model, *(module for module in modules.values() if id(module) not in registered)):
        # An overridden `train` may do anything, and may be there to keep something as it is.
        with contextlib.suppress(Exception):
            module.eval()
    for module in by_path(subject).values():
        if module.training:
            vars(module)["training"] = False
    hidden = sum(id(module) not in registered for module in training.values())
    beyond = f", {hidden} of which `eval()` does not reach" if hidden else ""
    note = f"{len(training)} modules were in training mode{beyond}; equal to the model in evaluation mode"
    yield Applied("MOD001", "put into evaluation mode", depends or ("",), BIT_EQUAL, note)


def by_path(subject: Subject) -> dict[str, nn.Module]:
    """Every module that a model leads to once, the registered ones and those that attributes hide, by its first path."""
    modules: dict[int, tuple[str, nn.Module]] = {}
    places = [("", subject.model)]
    places += [(part.places[0], part.value) for part in reachable_state(subject) if isinstance(part.value, nn.Module)]
    for place, root in places:
        for name, module in root.named_modules():
            modules.setdefault(id(module), (f"{place}.{name}".strip("."), module))
    return dict(modules.values())

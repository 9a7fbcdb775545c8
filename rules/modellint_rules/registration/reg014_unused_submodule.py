"""REG014: registered modules that a run does not touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Entry, LiveModel


class UnusedSubmodule(Rule):
    """A registered module that the run neither calls nor takes a weight of.

    ## What it does
    Finds modules with parameters or buffers that are registered, and that one run of the model in evaluation mode does not use: it
    calls neither them nor anything in them, and no operator is given one of their tensors.

    ## Why
    They are dead weight: they take room in the checkpoint and in memory, and the exported model does nothing with them. Often
    `forward` calls another attribute by mistake.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = nn.Linear(8, 8)

        def forward(self, x):
            return self.first(self.first(x))


    inputs = (torch.ones(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = nn.Linear(8, 8)

        def forward(self, x):
            return self.second(self.first(x))


    inputs = (torch.ones(2, 8),)
    ```

    ## Fix safety
    There is no fix in source: whether the module is to go or to be called is not known.

    ## Known limits
    It speaks of one run on the inputs given; other inputs may reach more. Modules that `forward` reads below a test of
    `self.training` only (auxiliary heads), and modules without parameters and buffers, are left alone.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    - <https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html>
    """

    code = "REG014"
    name = "unused-submodule"
    severity = Severity.WARNING
    advice = "Call it in `forward`, or leave it out"
    live_needs = "run"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Compare what is registered with what the run took."""
        run = subject.run
        taken = subject.tensors_read
        if taken is None or run is None:
            return
        called = {call.identity for call in run.modules}
        names: dict[int, list[str]] = {}
        for state in subject.state:
            if state.name in taken:
                called.add(id(state.owner))
            for name in state.names:
                names.setdefault(id(subject.model.get_submodule(name.rpartition(".")[0])), []).append(state.name)
        called.update(owner for owner, names_of_owner in names.items() if not taken.isdisjoint(names_of_owner))
        used = {
            id(entry.module) for entry in subject.modules if any(id(part) in called for part in entry.module.modules())
        }
        for entry in subject.modules:
            if id(entry.module) in used or not _has_tensors(entry.module) or not _is_topmost(subject, entry, used):
                continue
            owner, attribute = subject.holder(entry.path)
            if _is_for_training(subject, owner, attribute):
                continue
            class_name, place = subject.attribute_place(owner, attribute)
            yield subject.finding(
                self,
                f"`self.{attribute}` {'is' if _is_direct(owner, entry.module) else 'holds what is'} registered and not used by "
                "the run: dead weight in the export",
                at=place,
                modules=entry.paths,
                class_name=class_name,
                attribute=attribute,
            )


def _has_tensors(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None or next(module.buffers(), None) is not None


def _is_topmost(subject: LiveModel, entry: Entry, used: set[int]) -> bool:
    if not entry.path:
        return False
    return id(subject.model.get_submodule(entry.path.rpartition(".")[0])) in used


def _is_direct(owner: nn.Module, module: nn.Module) -> bool:
    return any(part is module for part in owner._modules.values())


def _is_for_training(subject: LiveModel, owner: nn.Module, attribute: str) -> bool:
    return attribute in subject.usage(type(owner)).forward.in_training

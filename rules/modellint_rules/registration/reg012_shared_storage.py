"""REG012: entries of the state dict that lie in the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel, State


class SharedStorage(Rule):
    """Two entries of the state dict that lie in the same memory.

    ## What it does
    Finds parameters and saved buffers that are different tensors and have elements in common, because one was made from
    the other without a copy: `nn.Parameter(other.weight)`, `register_buffer("first", self.table[:4])`.

    ## Why
    As long as the model stays where it was built, a write to one changes the other. `.to()`, `.half()` and `deepcopy` then give
    each its own memory, and they drift apart without a word. `load_state_dict` writes both into the same place, where the last
    one wins; `safetensors` refuses to save them. Weights that are tied properly, as one `nn.Parameter` under two names, keep
    together, and are reported for information only.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            table = torch.zeros(8, 4)
            self.register_buffer("all", table)
            self.register_buffer("first", table[:4])

        def forward(self, x):
            return x @ self.all + self.first.sum()


    inputs = (torch.ones(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            table = torch.zeros(8, 4)
            self.register_buffer("all", table)
            self.register_buffer("first", table[:4].clone())

        def forward(self, x):
            return x @ self.all + self.first.sum()


    inputs = (torch.ones(2, 8),)
    ```

    ## Fix safety
    There is no fix in source. Put `.clone()` behind the view where the two are to be independent; to tie two weights, assign
    the same `nn.Parameter` to both.

    ## Known limits
    Tied weights are on purpose in most language models. One parameter under several names is reported as information, once for
    each parameter, unless the model itself declares them (`_tied_weights_keys`), or a whole module is registered twice.
    Tensors that share a storage and no element, as the slices of one flat buffer do, are clean.

    ## References
    - <https://pytorch.org/docs/stable/notes/serialization.html>
    - <https://huggingface.co/docs/safetensors/torch_shared_tensors>
    """

    code = "REG012"
    name = "shared-storage"
    severity = Severity.WARNING

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Compare all that is saved by storage."""
        for first, second in subject.overlapping_state:
            yield self._finding(subject, first, second)
        declared = _declared(subject)
        for state in subject.state:
            if state.persistent and not declared and len({name.rpartition(".")[0] for name in state.names}) > 1:
                yield from self._tied(subject, state)

    def _finding(self, subject: LiveModel, first: State, second: State) -> Diagnostic:
        owner, attribute = subject.holder(second.name)
        class_name, place = subject.attribute_place(owner, attribute)
        return subject.finding(
            self,
            f"the {second.kind} `{second.attribute}` lies in the memory of the {first.kind} `{first.attribute}` and is another "
            "tensor: a write to one changes the other, until `.to()` or `.half()` parts them",
            at=place,
            modules=[name.rpartition(".")[0] for name in (*second.names, *first.names)],
            class_name=class_name,
            attribute=attribute,
            advice="Clone one of the two, or register one `nn.Parameter` under both names",
        )

    def _tied(self, subject: LiveModel, state: State) -> Iterator[Diagnostic]:
        owners = [name.rpartition(".")[0] for name in state.names]
        modules = {id(subject.model.get_submodule(path)) for path in owners}
        if len(modules) < 2:
            return
        second = next(
            name for name in state.names if subject.model.get_submodule(name.rpartition(".")[0]) is not state.owner
        )
        owner, attribute = subject.holder(second)
        class_name, place = subject.attribute_place(owner, attribute)
        yield subject.finding(
            self,
            f"the {state.kind} `{state.attribute}` is tied: several modules register it, and `state_dict` holds it once for each",
            at=place,
            modules=owners,
            severity=Severity.INFO,
            class_name=class_name,
            attribute=attribute,
        )


def _declared(subject: LiveModel) -> bool:
    """Whether the model says itself that weights of it are tied."""
    return any(getattr(entry.module, "_tied_weights_keys", None) for entry in subject.modules)

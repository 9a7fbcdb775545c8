"""NUM007: a parameter or buffer of a type that Core ML does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.subject import State, Subject

_SEVERITIES = {
    "bfloat16": Severity.ERROR,
    "complex32": Severity.ERROR,
    "complex64": Severity.ERROR,
    "complex128": Severity.ERROR,
    "float64": Severity.WARNING,
}


class UnsupportedWeightDtype(Rule):
    """A parameter or buffer in bfloat16, a complex type or float64.

    ## What it does
    Looks at the types of all parameters and buffers; a model most of which is of one such type is one finding. With example
    inputs, state that no operator of the run reads is left out.

    ## Why
    Core ML has neither bfloat16 nor complex tensors: the conversion fails. It has no float64 either and narrows it to float32
    or float16 without a word, hence a warning.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))

        def forward(self, x):
            return x * self.weight
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight
    ```

    ## Fix safety
    There is no fix in source: `model.float()` before the export turns bfloat16 and float64 into float32. Complex tensors
    want to be written as two real ones.

    ## Known limits
    Plain tensors on attributes are not looked at.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    """

    code = "NUM007"
    name = "unsupported-weight-dtype"
    severity = Severity.ERROR

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask every tensor of the state for its type."""
        from modellint.live.binding import binding_of
        from modellint.live.reach import state_read

        found: dict[str, list[State]] = {}
        for state in subject.state:
            name = str(state.tensor.dtype).removeprefix("torch.")
            if name in _SEVERITIES:
                found.setdefault(name, []).append(state)
        if not found:
            return
        run = subject.run
        read = state_read(run) if run is not None and run.failure is None else None
        fractional = sum(state.tensor.is_floating_point() or state.tensor.is_complex() for state in subject.state)
        for name, states in found.items():
            used = [state for state in states if read is None or not read.isdisjoint(state.names)]
            if len(used) > 1 and 2 * len(states) > fractional:
                yield subject.finding(
                    self,
                    f"{len(used)} parameters and buffers of the model are {name}, which {_trouble(name)}",
                    at=subject.class_place(subject.model),
                    severity=_SEVERITIES[name],
                    modules=[holder for state in used for holder in _holders(state)],
                    advice=None if name.startswith("complex") else "call `model.float()` before the export",
                )
                continue
            for state in used:
                yield subject.finding(
                    self,
                    f"the {state.kind} `{state.attribute}` is {name}, which {_trouble(name)}",
                    severity=_SEVERITIES[name],
                    modules=_holders(state),
                    **binding_of(subject, state.name).keywords(),
                )


def _holders(state: State) -> Iterator[str]:
    return (name.rpartition(".")[0] for name in state.names)


def _trouble(name: str) -> str:
    return "Core ML narrows without a word" if _SEVERITIES[name] is Severity.WARNING else "Core ML does not have"

"""DEV001: tensors on a device that neither the inputs nor the model are on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.capture import Run
    from modellint.live.subject import Subject

_ABSENT = re.compile(
    r"not compiled with CUDA|not linked with support for (?:cuda|mps|xpu)|No CUDA GPUs|no NVIDIA driver|"
    r"Found no NVIDIA|not compiled with XPU|MPS backend|Cannot access accelerator device"
)


class HardCodedDevice(Rule):
    """A tensor that `forward` puts on a device that it names itself, or a model spread over several devices.

    ## What it does
    Finds calls in the run, such as `.cuda()`, `.to("cuda")` and `torch.zeros(3, device="cuda")`, whose result is on a kind of
    device that neither the inputs nor the model are on, and parameters and buffers that are not on the device of most others.

    ## Why
    A model is captured for Core ML on the CPU. A device that is written down fails there, or on the next machine, and a traced
    program keeps it for good.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Shift(nn.Module):
        def forward(self, x):
            offset = torch.ones(4, device="cuda")
            return x + offset


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Shift(nn.Module):
        def forward(self, x):
            offset = torch.ones(4, device=x.device)
            return x + offset


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    There is no fix in source. Make tensors with `device=x.device`, or register them as buffers, which go where the model goes.

    ## Known limits
    A device that is written down and happens to be the inputs' is not seen in a run. Where the device is missing and the run
    ends at that statement, the finding is an error.

    ## References
    - <https://github.com/apple/coremltools/issues/804>
    - <https://github.com/apple/coremltools/issues/1185>
    """

    code = "DEV001"
    name = "hard-coded-device"
    severity = Severity.WARNING
    supersedes = ("LNT003", "SHP008")

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask the state where it is, and the run where it put tensors."""
        yield from self._spread(subject)
        run = subject.run
        if run is not None:
            yield from self._moved(subject, run)

    def _spread(self, subject: Subject) -> Iterator[Diagnostic]:
        from modellint.live.binding import binding_of

        devices = Counter(str(state.tensor.device) for state in subject.state if not state.tensor.is_meta)
        if len(devices) < 2:
            return
        most = devices.most_common(1)[0][0]
        for state in subject.state:
            device = str(state.tensor.device)
            if device != most and not state.tensor.is_meta:
                yield subject.finding(
                    self,
                    f"the {state.kind} `{state.attribute}` is on {device}, most of the model on {most}",
                    modules=[name.rpartition(".")[0] for name in state.names],
                    **binding_of(subject, state.name).keywords(),
                )

    def _moved(self, subject: Subject, run: Run) -> Iterator[Diagnostic]:
        from modellint.live.reach import facts_in, inputs_of

        usual = {_kind(fact.device) for fact in inputs_of(run)} | {state.tensor.device.type for state in subject.state}
        usual |= {"meta", *({"cpu"} if usual <= {"meta"} else ())}
        for call in run.calls:
            known = usual | {_kind(fact.device) for fact in facts_in((call.arguments, call.keywords))}
            foreign = [fact.device for fact in call.outputs if _kind(fact.device) not in known]
            if foreign and (_kind(foreign[0]) != "cpu" or "device" in call.keywords or call.name == "torch.Tensor.cpu"):
                yield subject.finding(
                    self,
                    f"`{call.name.rpartition('.')[2]}` gives a tensor on {foreign[0]}, where neither inputs nor model are",
                    at=call.place,
                    modules=[call.module],
                )
        failure = run.failure
        if failure is not None and _ABSENT.search(failure.message):
            yield subject.finding(
                self,
                f"the forward pass wants a device that is not here: {failure.message.splitlines()[0].rstrip('.')}",
                at=failure.place,
                severity=Severity.ERROR,
                modules=[failure.module],
            )


def _kind(device: str) -> str:
    return device.partition(":")[0]

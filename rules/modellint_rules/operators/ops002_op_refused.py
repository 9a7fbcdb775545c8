"""OPS002: an operator, an input or an output that coremltools refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.coreml.verdict import Blocker
    from modellint.live.subject import Subject


class OpRefused(Rule):
    """A use of an operator, or of the model, that coremltools refuses.

    ## What it does
    Runs coremltools' own front end on the captured model, and goes on past each failure. It reports what a converter exists for
    and refuses in this use — a padding mode, an argument, a matrix that is no constant — at the statement that asks for it,
    in coremltools' own words. What no other rule names is told here too: inputs and outputs that `ct.convert` refuses, a model
    that cannot be captured, and a converter that crashes.

    ## Why
    The conversion stops there, and names a scope without a line.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="circular")

        def forward(self, x):
            return self.conv(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")

        def forward(self, x):
            return self.conv(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix: what to write instead depends on what is refused.

    ## Known limits
    It is the use with the example inputs that is judged, for the deployment target and by the route that is set.

    ## References
    - <https://github.com/apple/coremltools/issues/1747>
    - <https://github.com/apple/coremltools/issues/2340>
    - <https://github.com/apple/coremltools/issues/2576>
    """

    code = "OPS002"
    name = "op-refused"
    severity = Severity.ERROR
    live_needs = "conversion"
    withdraws = True

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Tell what was refused, in coremltools' words."""
        from modellint.coreml.verdict import blockers
        from modellint.live.returned import parts_of
        from modellint.live.statements import returning

        run = subject.run
        odd = run is not None and any(part.kind == "other" for part in parts_of(run.output))
        for blocker, capture in blockers(subject, "refused", "argument", "output", "crash", "capture"):
            is_output = blocker.kind == "output" and blocker.operator is None
            if is_output and odd:
                # SIG002 says which part of the output is no tensor.
                continue
            yield subject.finding(
                self,
                f"{_said(blocker, capture)}: {blocker.message}",
                at=returning(subject, lambda value: True) if is_output else blocker.place,
                modules=blocker.modules,
                operator=blocker.operator,
            )


def _said(blocker: Blocker, capture: str) -> str:
    operator = blocker.operator
    match blocker.kind:
        case "capture":
            return f"`{capture}` cannot capture the model"
        case "argument":
            return "coremltools refuses an input, parameter or buffer"
        case "output":
            return "coremltools refuses what the model returns"
        case "crash" if operator is None:
            return f"coremltools fails on what `{capture}` captures"
        case "crash":
            return f"coremltools' converter of `{operator}` crashes"
    return f"coremltools refuses this use of `{operator}`"

"""NUM005: an operation that devices are known to compute otherwise than its specification says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class RuntimeDeparts(Rule):
    """Devices are known to compute something else than the specification of this operation, or than each other.

    ## What it does
    Converts the model, executes the program, and reports the operations for which a departure of Core ML's runtime from its own
    specification was published, where the program meets it: by the operation's arguments, or by the numbers that it is given. The
    message names what devices do, which ones as far as that was said, and the first report. `modellint verify` asks this rule, and
    says "undecided" instead of "agrees" then; `check` does where the rule is selected, as a conversion takes time.

    ## Why
    What is executed here is the program by its specification. Where devices are known to do something else for good (`pow` of a
    constant 2, averages in ceil mode), the executor does as they do, and the program differs from PyTorch. Where it depends on the
    device, nobody can say from here.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Gate(nn.Module):
        def forward(self, x):
            return nn.functional.softplus(x) * 0.5


    inputs = (torch.linspace(-20, 20, 16).reshape(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Gate(nn.Module):
        def forward(self, x):
            return (torch.relu(x) + torch.log1p(torch.exp(-torch.abs(x)))) * 0.5


    inputs = (torch.linspace(-20, 20, 16).reshape(2, 8),)
    ```

    ## Fix safety
    There is no fix. The help says what to do: `--precision fp32` for what only float16 shows, other compute units, or another
    form. `modellint verify --record` takes the question to a device of yours.

    ## Known limits
    It knows what was published, and no device was tried for it; what nobody reported is not known. A report holds for the systems
    that it was made on, and a later one may have mended it.

    ## References
    - <https://github.com/apple/coremltools/issues/2687>
    - <https://github.com/apple/coremltools/issues/2726>
    - <https://github.com/apple/coremltools/pull/2844>
    """

    code = "NUM005"
    name = "runtime-departs"
    severity = Severity.WARNING
    only_for = ("coreml",)
    default = False
    live_needs = "run execution"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Report what devices compute otherwise."""
        verification = subject.execution
        for each in () if verification is None else verification.departures:
            what = ", ".join(each.numbers[1:])
            message = each.message + (f", {what}" if what else "")
            operator = each.operator or None
            yield subject.finding(
                self, message, at=each.place, modules=(each.module,), operator=operator, advice=each.instead
            )

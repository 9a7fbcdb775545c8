"""OPS003: an operator that older systems cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity, coreml
from modellint_rules.operators.api_calls import calls_in_forward, shown

if TYPE_CHECKING:
    from modellint.authoring import Code, Destination, LiveModel, OperatorSupport
    from modellint_rules.operators.api_calls import Use


class OpNeedsNewerTarget(Rule):
    """An operator that converts for newer systems only.

    ## What it does
    Finds calls in `forward`, and in what it runs, of functions, methods and layers of PyTorch whose converter asks for a newer
    deployment target than the one that is set (`deployment-target`; by default iOS 15, what `ct.convert` takes by itself).
    In code that runs in training only, or only where a flag has another value than its default, it is for information; in a loss
    nothing is said.

    Of a live model it reports every operator that the installed coremltools converts for a newer target only, and buffers that
    are written to, which it makes states of iOS 18 of what `torch.export` captures.

    ## Why
    The conversion stops with "No available version for … in the … opset".

    ## Bad
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Fold(nn.Module):
        def forward(self, x):
            return F.pixel_unshuffle(x, 2)


    inputs = (torch.randn(1, 1, 4, 4),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Fold(nn.Module):
        def forward(self, x):
            b, c, h, w = x.shape
            x = x.reshape(b * c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3)
            return x.reshape(b, c * 4, h // 2, w // 2)


    inputs = (torch.randn(1, 1, 4, 4),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix: a newer target, in `ct.convert(…, minimum_deployment_target=…)` and in the settings, is the usual answer.

    ## Known limits
    A name is reported only if all samples of PyTorch's own test-suite that convert ask for the newer target.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/new-conversion-options.html>
    """

    code = "OPS003"
    name = "op-needs-newer-target"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    live_needs = "conversion"
    withdraws = True
    only_modules = True
    only_forward = True

    def needs_for(self, destination: Destination) -> tuple[frozenset[str], ...]:
        """Names of what needs a newer system."""
        return (coreml.words_of_newer(destination.ios),)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Look up every call that `forward` makes."""
        goal = code.destination

        def too_new(use: Use) -> OperatorSupport | None:
            row = coreml.operator(use.name, goal.coremltools)
            return row if row is not None and row.converts and row.ios > goal.ios else None

        for call, rows, aside in calls_in_forward(code, too_new):
            row = min(rows, key=lambda candidate: candidate.ios)
            yield code.finding(
                self,
                call.node,
                f"`{shown(row.name)}` converts for iOS {row.ios} and newer; the deployment target is {goal.target}",
                severity=Severity.INFO if aside else None,
                statement=call.statement,
                advice=f"Set `deployment-target` to iOS{row.ios} or its equal on other systems, here and in `ct.convert`",
                operator=row.kind,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the dry run for what a newer target would convert."""
        target = subject.destination.target
        for blocker, _ in subject.blockers("target"):
            yield subject.finding(
                self,
                f"`{blocker.operator}` converts for {_shown(blocker.detail)} and newer; the deployment target is {target}",
                at=blocker.place,
                modules=blocker.modules,
                operator=blocker.operator,
                advice=f"Set `deployment-target` to {blocker.detail} or its equal on other systems, here and in `ct.convert`",
            )


def _shown(target: str) -> str:
    """As people write it: iOS 16."""
    return target.replace("iOS", "iOS ")

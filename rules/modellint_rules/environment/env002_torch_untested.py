"""ENV002: a torch that is newer than coremltools knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity, coreml

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class TorchUntested(Rule):
    """A torch that is newer than the newest that the installed coremltools was tested with.

    ## What it does
    Compares the installed torch with the version that coremltools names when it warns of newer ones.

    ## Why
    Most models convert all the same. What does not may be torch's new way to express it, and then an older torch is worth a
    trial.

    ## Bad
    ```text
    coremltools==9.0
    torch==2.13.0
    ```

    ## Good
    ```text
    coremltools==9.0
    torch==2.7.0
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    Nothing is said where coremltools is not installed.

    ## References
    - <https://github.com/apple/coremltools/releases>
    """

    code = "ENV002"
    name = "torch-untested"
    severity = Severity.INFO
    only_for = ("coreml",)
    advice = "Verify the export with `modellint verify`, or install the tested torch"
    live_needs = "environment"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Compare two versions."""
        torch, coremltools, tested = (
            coreml.installed("torch"),
            coreml.installed("coremltools"),
            coreml.tested_torch(),
        )
        if torch is None or coremltools is None or tested is None:
            return
        if coreml.release(torch) > coreml.release(tested):
            yield subject.finding(
                self,
                f"torch {torch} is newer than {tested}, the newest that coremltools {coremltools} was tested with",
                at=None,
            )

"""ENV001: a numpy that breaks coremltools' front end for traced models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity, coreml

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class NumpyTooNew(Rule):
    """A numpy from 2.4 on, beside a coremltools up to 9.0.

    ## What it does
    Compares the installed versions of numpy and coremltools.

    ## Why
    numpy 2.4 no longer turns an array of one element into a number. coremltools up to 9.0 does that for `aten::Int` in traced
    models: more than a third of vision models and every LSTM and GRU then fail with "only 0-dimensional arrays can be converted
    to Python scalars", through no fault of the model. Models captured by `torch.export` are not concerned.

    ## Bad
    ```text
    coremltools==9.0
    numpy==2.4.0
    ```

    ## Good
    ```text
    coremltools==9.0
    numpy==2.3.5
    ```

    ## Fix safety
    There is no fix: install `numpy<2.4`, or convert what `torch.export` captures.

    ## Known limits
    Only what is installed in the environment of the check is seen.

    ## References
    - <https://github.com/apple/coremltools/issues/2633>
    - <https://github.com/apple/coremltools/issues/2755>
    """

    code = "ENV001"
    name = "numpy-too-new"
    severity = Severity.ERROR
    only_for = ("coreml",)
    live_needs = "environment"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Compare two versions."""
        numpy, coremltools = coreml.installed("numpy"), coreml.installed("coremltools")
        if numpy is None or coremltools is None:
            return
        first = coreml.numpy_below(coremltools)
        if first is not None and coreml.release(numpy) >= coreml.release(first):
            yield subject.finding(
                self,
                f"numpy {numpy} breaks the conversion of many traced models by coremltools {coremltools}",
                at=None,
                advice=f'install "numpy<{first}", or convert what `torch.export` captures',
            )

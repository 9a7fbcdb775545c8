"""MOD003: batch normalization that keeps no running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Diagnostic, Rule, Severity, Tensor, Trigger, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class BatchNormWithoutStats(Rule):
    """Batch normalization that keeps no running statistics and so uses those of the batch in evaluation too.

    ## What it does
    Finds batch normalization layers whose `running_mean` is None, as `track_running_stats=False` leaves it; in source those
    that are made so, and `F.batch_norm` of what the model is given without a mean and a variance.

    ## Why
    What the model says of one sample then depends on the others in its batch, and for a batch of one the layer normalizes
    each channel of the sample by itself. coremltools wants running statistics for its own layer.

    ## Bad
    ```python
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8, track_running_stats=False)

        def forward(self, x):
            return self.norm(self.conv(x))
    ```

    ## Good
    ```python
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x):
            return self.norm(self.conv(x))
    ```

    ## Fix safety
    There is no fix: the statistics that the layer lacks come from training.

    ## Known limits
    In source what the caller of the constructor may set is left alone. Instance normalization, which is meant to use the sample's
    own statistics, is left alone, and so is `F.batch_norm` of a tensor that was reshaped before: that is how instance and group
    normalization are written.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html>
    - <https://github.com/apple/coremltools/issues/784>
    """

    code = "MOD003"
    name = "batchnorm-without-stats"
    severity = Severity.WARNING
    advice = "Keep running statistics, or normalize each sample by itself: `GroupNorm`, `InstanceNorm`"
    only_inference = True
    needs = (
        frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "~batch_norm"}),
        frozenset({"track_running_stats", "False", "~batch_norm"}),
        Trigger.NO_RUNNING_STATISTICS,
    )
    only_modules = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every batch normalization that the object is built with."""
        for readings in code.calls:
            call = readings[0]
            if call.name in _LAYERS and all(map(_keeps_nothing, readings)):
                yield code.finding(
                    self,
                    call.node,
                    f"`{call.method}` keeps no running statistics: outputs depend on the batch in evaluation too",
                    statement=call.statement,
                )
            elif call.name == _FUNCTION and all(_uses_the_batch(code, reading) for reading in readings):
                yield code.finding(
                    self,
                    call.node,
                    "`F.batch_norm` is given no running statistics: it uses those of the batch in evaluation too",
                    severity=code.severity_at(self.severity, call.node, call.function),
                    statement=call.statement,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every batch normalization for its mean."""
        from torch.nn.modules.batchnorm import _BatchNorm

        for entry in subject.modules:
            if isinstance(entry.module, _BatchNorm) and entry.module.running_mean is None:
                yield subject.finding(
                    self,
                    f"`{type(entry.module).__name__}` keeps no running statistics: outputs depend on the batch in evaluation too",
                    modules=entry.paths,
                    **subject.binding(entry.path).keywords(),
                )


_LAYERS = frozenset(f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))


_FUNCTION = "torch.nn.functional.batch_norm"


def _uses_the_batch(code: Code, call: Call) -> bool:
    """Whether it normalizes what the model is given, as it came, by nothing but its own statistics."""
    statistics = [call.arguments.get(at, name) for at, name in ((1, "running_mean"), (2, "running_var"))]
    training = call.arguments.get(5, "training")
    if not all(isinstance(part, Const) and part.value is None for part in statistics):
        return False
    if call.training or not call.exported or call.arguments.spread or call.function not in code.in_forward:
        return False
    if not (isinstance(training, Const) and training.value is True):
        return False
    whole = call.arguments.get(0, "input")
    return whole is not None and all(
        isinstance(part, Tensor) and part.batch is True and part.is_tensor and not _is_reshaped(part)
        for part in alternatives(whole)
    )


def _is_reshaped(tensor: Tensor) -> bool:
    part: Tensor | None = tensor
    while part is not None:
        if part.made_by in _RESHAPING:
            return True
        part = part.base
    return False


_RESHAPING = frozenset({"view", "reshape", "flatten", "unflatten", "rearrange", "permute", "transpose", "view_as"})


def _keeps_nothing(call: Call) -> bool:
    tracks = call.arguments.get(4, "track_running_stats")
    return (
        call.building
        and tracks is not None
        and all(isinstance(part, Const) and part.value is False for part in alternatives(tracks))
    )

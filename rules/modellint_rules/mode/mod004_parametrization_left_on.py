"""MOD004: weight norm, spectral norm or another parametrization that is still there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.subject import Subject


class ParametrizationLeftOn(Rule):
    """A weight that is computed anew in every call, by weight norm, spectral norm or another parametrization.

    ## What it does
    Finds modules with parametrizations (`torch.nn.utils.parametrize`), with the hooks of the older `weight_norm` and
    `spectral_norm`, or with a pruning mask (`torch.nn.utils.prune`).

    ## Why
    The computation of the weight becomes a part of the exported program: converters refuse some of its operators, and cannot
    take the weight for the constant that their optimizations want.

    ## Bad
    ```python
    from torch import nn
    from torch.nn.utils.parametrizations import weight_norm


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = weight_norm(nn.Conv1d(4, 8, 3))

        def forward(self, x):
            return self.conv(x)
    ```

    ## Good
    ```python
    from torch import nn
    from torch.nn.utils.parametrizations import weight_norm
    from torch.nn.utils.parametrize import remove_parametrizations


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = weight_norm(nn.Conv1d(4, 8, 3))

        def forward(self, x):
            return self.conv(x)


    model = Encoder().eval()
    remove_parametrizations(model.conv, "weight")
    ```

    ## Fix safety
    There is no fix in source: the parametrization belongs to training. Before the export, take it off with
    `remove_parametrizations`, `remove_weight_norm`, `remove_spectral_norm` or `prune.remove`; keys of `state_dict` change.

    ## Known limits
    Weights that a module of its own computes in `forward` are not seen.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.remove_parametrizations.html>
    - <https://github.com/apple/coremltools/issues/1347>
    - <https://github.com/apple/coremltools/issues/778>
    """

    code = "MOD004"
    name = "parametrization-left-on"
    severity = Severity.WARNING

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask every module which of its tensors are computed."""
        from modellint.live.binding import binding_of

        for entry in subject.modules:
            for tensor, how, removal in _computed(entry.module):
                yield subject.finding(
                    self,
                    f"`{tensor}` is computed anew in every call, by {how}",
                    modules=entry.paths,
                    advice=f"take it off before the export with `{removal}`",
                    **binding_of(subject, entry.path).keywords(),
                )


def _computed(module: nn.Module) -> Iterator[tuple[str, str, str]]:
    """Name of a tensor, what computes it, and what takes that off."""
    from torch.nn.utils import parametrize
    from torch.nn.utils.prune import BasePruningMethod
    from torch.nn.utils.spectral_norm import SpectralNorm
    from torch.nn.utils.weight_norm import WeightNorm

    if parametrize.is_parametrized(module):
        for name, parts in module.parametrizations.items():  # type: ignore[union-attr, operator]
            kinds = ", ".join(f"`{type(part).__name__.lstrip('_')}`" for part in parts)
            yield name, f"the parametrization {kinds}", "torch.nn.utils.parametrize.remove_parametrizations"
    for hook in module._forward_pre_hooks.values():
        match hook:
            case WeightNorm():
                yield hook.name, "weight norm", "torch.nn.utils.remove_weight_norm"
            case SpectralNorm():
                yield hook.name, "spectral norm", "torch.nn.utils.remove_spectral_norm"
            case BasePruningMethod():
                yield hook._tensor_name, "a pruning mask", "torch.nn.utils.prune.remove"

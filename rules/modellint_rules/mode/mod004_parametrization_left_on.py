"""MOD004: weight norm, spectral norm or another parametrization that is still there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Call, Code, LiveModel


class ParametrizationLeftOn(Rule):
    """A weight that is computed anew in every call, by weight norm, spectral norm or another parametrization.

    ## What it does
    Finds modules with parametrizations (`torch.nn.utils.parametrize`), with the hooks of the older `weight_norm` and
    `spectral_norm`, or with a pruning mask (`torch.nn.utils.prune`). In source it finds what `__init__` puts on layers: a warning
    for what does not convert, and information for weight norm and the older spectral norm, which become a constant in evaluation.

    ## Why
    The computation of the weight becomes a part of the exported program: converters refuse some of its operators, and cannot
    take the weight for the constant that their optimizations want.

    ## Bad
    ```python
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

        def forward(self, x):
            return self.conv(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Linear(4, 4)

        def forward(self, x):
            return self.conv(x)
    ```

    ## Fix safety
    The fix makes the layer without the parametrization. It is unsafe: keys of `state_dict` change, outputs where the
    parametrization changes the weight, as a spectral norm does, and training goes another way.
    There is none in a file that uses what the parametrization adds, such as `weight_g`, nor where the converted weight is a
    constant in any case, so that nothing but checkpoints would change.
    Where the model is trained with it, take it off before the export with `remove_parametrizations`, `remove_weight_norm`,
    `remove_spectral_norm` or `prune.remove`, which keep the weight that was learnt.

    ## Known limits
    Weights that a module of its own computes in `forward` are not seen. In source a file that takes a parametrization off
    anywhere is left alone, and so are discriminators, and what the caller of the constructor may choose.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.remove_parametrizations.html>
    - <https://github.com/apple/coremltools/issues/1347>
    - <https://github.com/apple/coremltools/issues/778>
    """

    code = "MOD004"
    name = "parametrization-left-on"
    severity = Severity.WARNING
    only_inference = True
    needs = (frozenset({"weight_norm", "spectral_norm", "orthogonal", "register_parametrization"}),)
    only_modules = True
    fixable = "leave it out"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every layer that the object is built with what is put on it."""
        judges = any(re.search(_JUDGES, ref.node.name) for ref in code.lineage)
        if judges or code.is_never_exported or re.search(_REMOVED, code.file.source.text):
            return
        for readings in code.calls:
            call = readings[0]
            if not all(reading.building and reading.name in _PUT_ON for reading in readings) or call.switched:
                continue
            outside = call.function in code.top_functions().values()
            if not outside and not any(True for _ in code.conditions(call.node, call.function)):
                folded = "weight_norm" in call.name or call.name in _FOLDED
                there = "converted in evaluation mode it is a constant" if folded else "so does the converted model"
                yield code.finding(
                    self,
                    call.node,
                    f"`{call.method}` computes the weight anew in every call: {there}",
                    severity=Severity.INFO if folded else Severity.WARNING,
                    statement=call.statement,
                    fix=None if folded else _fix(code, call),
                    advice=f"Take it off before the export with `{_PUT_ON[call.name]}`",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every module which of its tensors are computed."""
        for entry in subject.modules:
            for tensor, how, removal in _computed(entry.module):
                yield subject.finding(
                    self,
                    f"`{tensor}` is computed anew in every call, by {how}",
                    modules=entry.paths,
                    advice=f"take it off before the export with `{removal}`",
                    **subject.binding(entry.path).keywords(),
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


_PARAMETRIZE = "torch.nn.utils.parametrize.remove_parametrizations"
_PUT_ON = {
    "torch.nn.utils.weight_norm": "torch.nn.utils.remove_weight_norm",
    "torch.nn.utils.spectral_norm": "torch.nn.utils.remove_spectral_norm",
    "torch.nn.utils.weight_norm.weight_norm": "torch.nn.utils.remove_weight_norm",
    "torch.nn.utils.spectral_norm.spectral_norm": "torch.nn.utils.remove_spectral_norm",
    "torch.nn.utils.parametrizations.weight_norm": _PARAMETRIZE,
    "torch.nn.utils.parametrizations.spectral_norm": _PARAMETRIZE,
    "torch.nn.utils.parametrizations.orthogonal": _PARAMETRIZE,
    "torch.nn.utils.parametrize.register_parametrization": _PARAMETRIZE,
}
"""What puts a parametrization on a layer, and what takes it off."""
_FOLDED = frozenset({"torch.nn.utils.spectral_norm", "torch.nn.utils.spectral_norm.spectral_norm"})
"""What becomes a constant in evaluation, as weight norm does: measured with coremltools 9.0."""
_REMOVED = r"remove_(?:weight_norm|spectral_norm|parametrizations?)|remove_norm"
_PARTS = (
    r"\b(?:weight|bias)_(?:g|v|u|orig|mask)\b|\.original[01]?\b|\.parametrizations\.(?:weight|bias)\b|is_parametrized"
)
"""Names of what a parametrization adds to a layer."""
_JUDGES = r"Discriminator|Critic|Judge"


def _fix(code: Code, call: Call) -> Fix | None:
    """The layer alone, where it is made in the call and the file asks for nothing that the parametrization put there."""
    node = call.node
    if re.search(_PARTS, code.file.source.text):
        return None
    if call.method == "register_parametrization" or not node.args or not isinstance(node.args[0], ast.Call):
        return None
    edit = code.rewriter.replace(node, code.rewriter.of(node.args[0]))
    title = "Make the layer without it; keys of `state_dict` change, and outputs where it changes the weight"
    return Fix(title, (edit,), Applicability.UNSAFE)

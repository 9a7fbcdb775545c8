"""REG005: parameters kept in a plain dict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Feature, Rule, Severity
from modellint_rules.registration.container_fix import hiding, wrapped
from modellint_rules.registration.unregistered_state import hidden_finding

if TYPE_CHECKING:
    from modellint.authoring import LiveModel, ModuleClass


class ParameterInDict(Rule):
    """Parameters kept in a plain dict.

    ## What it does
    Finds an attribute of a module that ends up as a plain `dict` whose values are parameters that nothing else registers, nested
    dicts included.

    ## Why
    A parameter is registered when it is assigned to an attribute itself. Inside a plain dict it is in neither
    `parameters()` nor `state_dict()`: the optimizer never updates it, checkpoints lose it, and it stays on the device and in
    the precision it was made in.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Affine(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = {"scale": nn.Parameter(torch.ones(8)), "shift": nn.Parameter(torch.zeros(8))}

        def forward(self, x):
            return x * self.state["scale"] + self.state["shift"]
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Affine(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = nn.ParameterDict({"scale": nn.Parameter(torch.ones(8)), "shift": nn.Parameter(torch.zeros(8))})

        def forward(self, x):
            return x * self.state["scale"] + self.state["shift"]
    ```

    ## Fix safety
    The fix is safe: outputs do not change, and `state_dict` keys are only added. There is no fix where a key is not surely a
    string that `nn.ParameterDict` accepts, for dicts that hold other things too, nor for nested ones.

    ## Known limits
    As for REG002.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.ParameterDict.html>
    - <https://github.com/pytorch/pytorch/issues/632>
    """

    code = "REG005"
    name = "parameter-in-dict"
    severity = Severity.ERROR
    withdraws = True
    wakes_on = Feature.CONTAINER_ON_SELF
    fixable = "`ParameterDict`"
    advice = "Keep them in an `nn.ParameterDict`"
    twin = "ParameterDict"

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask every attribute what it hides."""
        for attribute, _, place in hiding(cls, "parameter", keyed=True):
            yield cls.finding(
                self,
                place,
                f"`self.{attribute.name}` keeps parameters in a plain dict: `parameters()`, `state_dict()` and `.to()` do not see them",
                attribute=attribute.name,
                fix=wrapped(cls, attribute, "parameter", "ParameterDict", frozenset()),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at what attributes hold by name."""
        for group in subject.held_attributes("parameter"):
            if group.is_keyed:
                yield hidden_finding(subject, self, group, "parameters")

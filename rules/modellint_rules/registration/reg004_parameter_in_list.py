"""REG004: parameters kept in a plain list, tuple or set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Feature, Rule, Severity
from modellint_rules.registration.container_fix import LIST_METHODS, hiding, wrapped
from modellint_rules.registration.unregistered_state import hidden_finding

if TYPE_CHECKING:
    from modellint.authoring import LiveModel, ModuleClass


class ParameterInList(Rule):
    """Parameters kept in a plain list, tuple or set.

    ## What it does
    Finds an attribute of a module that ends up as a plain `list`, `tuple` or `set` of parameters which nothing else registers.

    ## Why
    A parameter is registered when it is assigned to an attribute itself. Inside a plain list it is in neither
    `parameters()` nor `state_dict()`: the optimizer never updates it, checkpoints lose it, and it stays on the device and in
    the precision it was made in.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = [nn.Parameter(torch.ones(8)) for _ in range(2)]

        def forward(self, x):
            for scale in self.scales:
                x = x * scale
            return x
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(8)) for _ in range(2)])

        def forward(self, x):
            for scale in self.scales:
                x = x * scale
            return x
    ```

    ## Fix safety
    The fix is safe: outputs do not change, and `state_dict` keys are only added. There is no fix where the attribute is used as
    only a list can be (the cases of REG001, and `insert` and `pop`, which `nn.ParameterList` lacks).

    ## Known limits
    As for REG001. A parameter that is held twice and registered once is clean: it keeps its identity.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.ParameterList.html>
    - <https://github.com/Lightning-AI/pytorch-lightning/issues/2282>
    """

    code = "REG004"
    name = "parameter-in-list"
    severity = Severity.ERROR
    withdraws = True
    wakes_on = Feature.CONTAINER_ON_SELF
    fixable = "`ParameterList`"
    advice = "Keep them in an `nn.ParameterList`"
    twin = "ParameterList"

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask every attribute what it hides."""
        for attribute, hidden, place in hiding(cls, "parameter", keyed=False):
            yield cls.finding(
                self,
                place,
                f"`self.{attribute.name}` keeps parameters in a plain {hidden.kind}: `parameters()`, `state_dict()` and `.to()` "
                "do not see them",
                attribute=attribute.name,
                fix=wrapped(cls, attribute, "parameter", "ParameterList", LIST_METHODS | {"insert", "pop"}),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at what attributes hold by position."""
        for group in subject.held_attributes("parameter"):
            if not group.is_keyed:
                yield hidden_finding(subject, self, group, "parameters")

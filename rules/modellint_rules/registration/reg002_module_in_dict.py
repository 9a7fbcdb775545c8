"""REG002: submodules kept in a plain dict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Feature, Rule, Severity
from modellint_rules.registration.container_fix import DICT_METHODS, hiding, unseen_by, weight_of, wrapped
from modellint_rules.registration.unregistered_state import hidden_finding, modules_in

if TYPE_CHECKING:
    from modellint.authoring import LiveModel, ModuleClass


class ModuleInDict(Rule):
    """Submodules kept in a plain dict.

    ## What it does
    Finds an attribute of a module that ends up as a plain `dict` whose values are modules that nothing else registers,
    however it is filled: a literal, `dict(…)`, a comprehension, `self.heads[name] = …`, `update`, `setdefault`.

    ## Why
    `nn.Module.__setattr__` registers a module only when it is assigned itself. A module inside a plain dict is in neither
    `parameters()` nor `state_dict()`, and `.to(device)`, `.half()` and `.eval()` pass it by. Where no module in the
    dict has parameters, buffers or a mode, nothing is lost yet and the finding is a warning.

    ## Bad
    ```python
    from torch import nn


    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = {"boxes": nn.Linear(8, 4), "scores": nn.Linear(8, 1)}

        def forward(self, x):
            return self.heads["boxes"](x), self.heads["scores"](x)
    ```

    ## Good
    ```python
    from torch import nn


    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"boxes": nn.Linear(8, 4), "scores": nn.Linear(8, 1)})

        def forward(self, x):
            return self.heads["boxes"](x), self.heads["scores"](x)
    ```

    ## Fix safety
    The fix is safe: outputs do not change, and `state_dict` keys are only added. In evaluation mode outputs change where a member
    drops out or normalises batches: `eval()`, which did not reach it, now does. It is unsafe where the dict is handed to code
    that cannot be seen. There is no fix where a key is not surely a string that `nn.ModuleDict` accepts (no dot, not
    empty, not the name of one of its attributes, such as `type` or `values`), where `get`, `setdefault`, `copy` or
    `popitem` is used, for dicts that hold other things too, nor for nested ones.

    ## Known limits
    A dict that is handed to code outside the project is taken to be registered there. A live check also looks into dataclasses,
    namespaces and other objects; an object of a class of its own, and what a function closes over, are warnings.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html>
    - <https://github.com/pytorch/pytorch/issues/632>
    """

    code = "REG002"
    name = "module-in-dict"
    severity = Severity.ERROR
    withdraws = True
    wakes_on = Feature.CONTAINER_ON_SELF
    fixable = "`ModuleDict`"
    advice = "Keep them in an `nn.ModuleDict`"
    twin = "ModuleDict"

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask every attribute what it hides."""
        for attribute, hidden, place in hiding(cls, "module", keyed=True):
            yield cls.finding(
                self,
                place,
                f"`self.{attribute.name}` keeps modules in a plain dict: {unseen_by(hidden)} do not see them",
                attribute=attribute.name,
                severity=weight_of(cls, hidden),
                fix=wrapped(cls, attribute, "module", "ModuleDict", DICT_METHODS),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at what attributes hold by name."""
        for group, is_harmless in modules_in(subject, keyed=True):
            yield hidden_finding(subject, self, group, "modules", is_harmless=is_harmless)

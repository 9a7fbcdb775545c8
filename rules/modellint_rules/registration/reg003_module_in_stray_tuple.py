"""REG003: a module that a stray trailing comma has turned into a tuple."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Feature, Fix, Rule, Severity
from modellint_rules.registration.unregistered_state import modules_in

if TYPE_CHECKING:
    from modellint.authoring import Hidden, LiveModel, ModuleClass


class ModuleInStrayTuple(Rule):
    """A module that a stray trailing comma has turned into a tuple.

    ## What it does
    Finds `self.conv = nn.Conv1d(…),`: a tuple of one module, bound to an attribute that the class calls and never indexes or goes
    through.

    ## Why
    The comma makes a tuple. The module in it is not registered, and the first call of the attribute raises "'tuple' object
    is not callable". Such lines survive in branches that no test takes.

    ## Bad
    ```python
    from torch import nn


    class Explain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = (nn.Conv1d(4, 8, 3),)

        def forward(self, x):
            return self.conv(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Explain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 8, 3)

        def forward(self, x):
            return self.conv(x)
    ```

    ## Fix safety
    The fix is safe: without it every call of the attribute raises. It adds `state_dict` keys.

    ## Known limits
    Where the attribute is also indexed, or never used, the finding is REG001's.

    ## References
    - <https://docs.python.org/3/reference/expressions.html#expression-lists>
    """

    code = "REG003"
    name = "module-in-stray-tuple"
    severity = Severity.ERROR
    withdraws = True
    wakes_on = Feature.CONTAINER_ON_SELF
    fixable = "drop the comma"
    advice = "Drop the trailing comma"
    supersedes = ("REG001",)

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask the attributes that are called."""
        for attribute in cls.attributes:
            hidden = attribute.hidden("module")
            if hidden is None or hidden.kind != "tuple" or len(hidden.container.items) != 1:
                continue
            uses = attribute.uses
            place = cls.place(hidden)
            if place is None or not uses.called or uses.indexed or uses.iterated:
                continue
            yield cls.finding(
                self,
                place,
                f"`self.{attribute.name}` is a tuple because of the trailing comma, and it is called as a module: that raises",
                attribute=attribute.name,
                fix=self._fix(cls, hidden),
            )

    def _fix(self, cls: ModuleClass, hidden: Hidden) -> Fix | None:
        node = hidden.container.node
        if not isinstance(node, ast.Tuple) or node is not hidden.binding.expression:
            return None
        edits = cls.rewriter.without_tuple(node.elts[0], node)
        return Fix("Drop the trailing comma; adds `state_dict` keys", edits) if edits else None

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the tuples of one module that the class calls."""
        for group, _ in modules_in(subject, keyed=False):
            if type(group.value) is not tuple or len(group.value) != 1:
                continue
            uses = group.usage.everything
            if group.attribute in uses.called and group.attribute not in uses.indexed | uses.otherwise:
                yield subject.finding(
                    self,
                    f"`self.{group.attribute}` is a tuple because of the trailing comma, and it is called as a module: that raises",
                    at=group.place,
                    modules=group.paths,
                    class_name=group.class_name,
                    attribute=group.attribute,
                )

"""REG001: submodules kept in a plain list, tuple or set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, External, Feature, Rule, Severity, dotted_name, walk
from modellint_rules.registration.container_fix import LIST_METHODS, hiding, unseen_by, weight_of, wrapped
from modellint_rules.registration.stateful_layers import has_something_to_lose
from modellint_rules.registration.unregistered_state import hidden_finding, modules_in

if TYPE_CHECKING:
    from modellint.authoring import LiveModel, ModuleClass


class ModuleInList(Rule):
    """Submodules kept in a plain list, tuple or set.

    ## What it does
    Finds an attribute of a module that ends up as a plain `list`, `tuple` or `set` of modules which nothing else registers,
    and a module with weights that the body of a class makes, `layer = nn.Linear(8, 8)`, where the class uses it: all objects share it.
    A module is found, too, that a function closes over (`self.run = lambda x: layer(x)`), or an object of a class that is no module calls.

    ## Why
    `nn.Module.__setattr__` registers a module only when it is assigned itself. A module inside a plain list is in neither
    `parameters()` nor `state_dict()`: the optimizer does not train it, checkpoints lose it, `.to(device)`, `.half()` and
    `.eval()` pass it by. `torch.jit.trace` stops on it with "Cannot insert a Tensor that requires grad as a
    constant"; `torch.export` converts it into constants without a word. Where no module in the list has
    parameters, buffers or a mode, nothing is lost yet and the finding is a warning.

    ## Bad
    ```python
    from torch import nn


    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(8, 8) for _ in range(3)]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    ## Good
    ```python
    from torch import nn


    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    ## Fix safety
    The fix is safe: outputs do not change, and `state_dict` keys are only added. In evaluation mode outputs change where a member
    drops out or normalises batches: `eval()`, which did not reach it, now does. It is unsafe where the list is handed to
    code that cannot be seen, or where a member is a module by its use only. There is no fix where the attribute is
    used as only a list can be (`index`, `count`, `remove`, `copy`, `clear`, `reverse`, `sort`, `*`, slice
    assignment, `list + self.layers`, comparison, `isinstance(…, list)`), for lists that hold other things too,
    nor for sets. A checkpoint saved before the fix lacks the added keys: load it with `strict=False`.

    ## Known limits
    A list that is handed to code outside the project is taken to be registered there. `[module]` around a constructor's
    argument is how one keeps a reference on purpose, and is never reported. A list of a constructor's
    arguments is reported only where their annotation says that they are modules.

    A live check looks through everything that the object's attributes hold: named tuples, deques, arguments of `partial` and what
    is nested in them come in here, what goes by name under REG002. It is a warning only where the author must have seen what
    happens: a module set by `object.__setattr__`, or kept in an object of a class of its own or in a function.
    What is registered elsewhere in the model, holds the model itself, or is held by a weak reference, is clean.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.ModuleList.html>
    - <https://github.com/pytorch-labs/torchfix/issues/31>
    - <https://github.com/pytorch/pytorch/issues/715>
    """

    code = "REG001"
    name = "module-in-list"
    severity = Severity.ERROR
    withdraws = True
    wakes_on = Feature.CONTAINER_ON_SELF
    fixable = "`ModuleList`"
    advice = "Keep them in an `nn.ModuleList`"
    twin = "ModuleList"

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Ask every attribute what it hides."""
        for attribute, hidden, place in hiding(cls, "module", keyed=False):
            yield cls.finding(
                self,
                place,
                f"`self.{attribute.name}` keeps modules in a plain {hidden.kind}: {unseen_by(hidden)} do not see them",
                attribute=attribute.name,
                severity=weight_of(cls, hidden),
                fix=wrapped(cls, attribute, "module", "ModuleList", LIST_METHODS),
            )
        yield from self._held(cls)
        for statement, name in _of_the_class(cls):
            uses = cls.uses_of(name)
            if uses.called or uses.indexed or uses.iterated:
                yield cls.finding(
                    self,
                    statement,
                    f"`{name}` is an attribute of the class that holds modules: `parameters()`, `state_dict()`, `.to()` and "
                    "`.eval()` do not see them",
                    attribute=name,
                )

    def _held(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        """Modules in functions and plain objects."""
        for holder in cls.holders:
            uses = cls.uses_of(holder.attribute)
            if uses.called or uses.methods:
                yield cls.finding(
                    self,
                    holder.statement,
                    f"`self.{holder.attribute}` keeps modules in {holder.kind}: `parameters()`, `state_dict()`, `.to()` and "
                    "`.eval()` do not see them",
                    attribute=holder.attribute,
                    severity=Severity.WARNING,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at what attributes hold by position."""
        for group, is_harmless in modules_in(subject, keyed=False):
            yield hidden_finding(subject, self, group, "modules", is_harmless=is_harmless)


def _of_the_class(cls: ModuleClass) -> Iterator[tuple[ast.stmt, str]]:
    """The statements of the body of a class that bind a module of torch with weights, or a list of some."""
    for statement in cls.node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                pass
            case _:
                continue
        makes = isinstance(value, (ast.List, ast.Tuple, ast.ListComp)) or _torch_layer(cls, value) is not None
        if makes and any(has_something_to_lose(_torch_layer(cls, part) or "") for part in walk(value)):
            yield statement, name


def _torch_layer(cls: ModuleClass, node: ast.AST) -> str | None:
    """The class of `torch.nn` that a call builds."""
    dotted = dotted_name(node.func) if isinstance(node, ast.Call) else None
    symbol = cls.project.resolve(cls.file, dotted) if dotted is not None else None
    return symbol.name if isinstance(symbol, External) and symbol.name.startswith("torch.nn.") else None

"""Attribute bindings: the attribute of the user's class, and its statement, from which a registered module or tensor hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from modellint.live.code.class_source import place_of_attribute, place_of_class
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.live.subject import Subject


class Binding(NamedTuple):
    """What a finding about a part of the model is anchored at; its fields are keywords of ``Subject.finding``."""

    at: Place | None
    """The statement that binds the attribute, or else the `class` line of what holds it."""
    class_name: str | None
    attribute: str | None
    """None where no statement of that name binds it, as with ``add_module``: all that the class holds so is one finding."""

    def keywords(self) -> dict[str, Any]:
        """As ``Subject.finding`` takes them."""
        return self._asdict()


def written_class(module: nn.Module) -> type[nn.Module] | None:
    """The first of a module's classes that is not torch's own."""
    for cls in type(module).__mro__:
        if issubclass(cls, nn.Module) and cls.__module__.partition(".")[0] != "torch":
            return cls
    return None


def binding_of(subject: Subject, path: str) -> Binding:
    """The statement from which a module or tensor hangs that is registered at ``path``.

    Torch's own containers and wrappers on the way are passed over: of ``layers.0.conv`` the answer may be ``layers``.
    """
    module = subject.model
    holders = []
    for name in path.split(".") if path else ():
        holders.append((module, name))
        child = module._modules.get(name)
        if child is None:
            break
        module = child
    for holder, name in reversed(holders):
        cls = written_class(holder)
        if cls is None:
            continue
        bound = place_of_attribute(cls, name)
        if bound is None:
            return Binding(place_of_class(cls), cls.__name__, None)
        return Binding(bound[1], bound[0].__name__, name)
    return Binding(subject.class_place(subject.model), None, None)

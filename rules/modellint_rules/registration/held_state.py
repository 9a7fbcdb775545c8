"""State that live modules hold beside what PyTorch registers: what the rules about plain attributes share."""

from __future__ import annotations

import re
from collections import UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.authoring import Diagnostic, Severity

if TYPE_CHECKING:
    from modellint.authoring import Rule
    from modellint.live.subject import Subject
    from modellint.live.unregistered_state import Held
    from modellint.results.diagnostic import Place

SEQUENCES: tuple[type, ...] = (list, tuple, set, frozenset, deque, UserList)
MAPPINGS: tuple[type, ...] = (Mapping, UserDict)

_PLAIN = r"\w+(\[(\"[^\"]*\"|[^\]\"]*)\])*"


class Group(NamedTuple):
    """What one attribute of one module holds."""

    held: tuple[Held, ...]
    class_name: str
    """The class that binds the attribute."""
    place: Place | None

    @property
    def attribute(self) -> str:
        """The attribute's name."""
        return self.held[0].attribute

    @property
    def owner(self) -> object:
        """The module."""
        return self.held[0].owner

    @property
    def value(self) -> object:
        """What the attribute is."""
        first = self.held[0]
        return getattr(type(first.owner), first.attribute) if first.on_class else vars(first.owner)[first.attribute]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all modules whose attribute of this name holds it."""
        first = self.held[0]
        also = (
            other
            for one in self.held
            for other in one.others
            if other.attribute == first.attribute and type(other.owner) is type(first.owner)
        )
        return tuple(dict.fromkeys(path for one in (first, *also) for path in one.paths))

    @property
    def kind(self) -> str:
        """How a message calls the container; empty where the attribute is the value itself."""
        if not self.held[0].container:
            return ""
        value = self.value
        for kind in (list, tuple, dict, set):
            if type(value) is kind:
                return f"plain {kind.__name__}"
        word = self.held[0].container
        return word if word == "function" else f"`{word}`"

    @property
    def is_keyed(self) -> bool:
        """Whether what holds the values goes by name, like a dict, and not by position, like a list."""
        value = self.value
        if issubclass(type(value), SEQUENCES) or not self.held[0].container:
            return False
        return issubclass(type(value), MAPPINGS) or not self.held[0].route.rstrip("]}")[-1:].isdigit()

    @property
    def is_plain(self) -> bool:
        """Whether the attribute is the value itself, or leads to it through lists, tuples and dicts alone."""
        if self.held[0].container and not issubclass(type(self.value), (list, tuple, dict)):
            return False
        return all(re.fullmatch(_PLAIN, held.route) is not None for held in self.held)

    @property
    def is_on_purpose(self) -> bool:
        """Whether the author must have seen that PyTorch does not: `object.__setattr__`, or an object with a life of its own."""
        value = self.value
        if not self.held[0].container:
            return not self.held[0].on_class
        kind = type(value)
        if issubclass(kind, (*SEQUENCES, *MAPPINGS)) or hasattr(kind, "__dataclass_fields__"):
            return False
        return not (hasattr(kind, "__attrs_attrs__") or kind.__module__ in ("types", "functools"))


def groups(subject: Subject, *kinds: str) -> Iterator[Group]:
    """What attributes hold of some kinds (``module``, ``parameter``, ``tensor``, ``alias``), by attribute."""
    from modellint.live.unregistered_state import reachable_state

    found: dict[tuple[int, str], list[Held]] = {}
    for held in reachable_state(subject):
        if held.kind in kinds:
            found.setdefault((id(held.owner), held.attribute), []).append(held)
    for parts in found.values():
        class_name, place = subject.attribute_place(parts[0].owner, parts[0].attribute)
        yield Group(tuple(parts), class_name, place)


def is_reference(group: Group) -> bool:
    """Whether a list or tuple is there to keep one module from being registered: `self.owner = [owner]`."""
    from modellint.live.code.attribute_usage import is_reference as is_held_aside

    return is_held_aside(group.held[0].owner, group.attribute, group.value)


def hidden_finding(subject: Subject, rule: Rule, group: Group, what: str, *, is_harmless: bool = False) -> Diagnostic:
    """A finding about modules or parameters (``what``) that PyTorch does not see; a warning where nothing is lost, or on purpose."""
    loses = (
        "`parameters()`, `state_dict()`, `.to()` and `.eval()`"
        if what == "modules"
        else "`parameters()`, `state_dict()` and `.to()`"
    )
    if is_harmless:
        loses = "`eval()` and the export"
    kind = group.kind
    if kind:
        article = "an" if kind.strip("`")[:1] in "aeiouAEIOU" else "a"
        message = f"`self.{group.attribute}` keeps {what} in {article} {kind}: {loses} do not see them"
    elif group.held[0].on_class:
        message = f"`{group.attribute}` is an attribute of the class that holds {what}: {loses} do not see them"
    else:
        message = f"`self.{group.attribute}` is set past `nn.Module.__setattr__`: {loses} do not see it"
    return subject.finding(
        rule,
        message,
        at=group.place,
        modules=group.paths,
        severity=Severity.WARNING if is_harmless or group.is_on_purpose else None,
        class_name=group.class_name,
        attribute=group.attribute,
    )


def modules_in(subject: Subject, *, keyed: bool) -> Iterator[tuple[Group, bool]]:
    """The attributes that hide modules, by name or by position, and whether nothing in them has state or a mode to lose."""
    from modellint.live.unregistered_state import has_state

    for group in groups(subject, "module"):
        if group.is_keyed is keyed and not is_reference(group):
            yield group, not any(has_state(held.value) for held in group.held)  # type: ignore[arg-type]


def tensors_in(subject: Subject) -> Iterator[tuple[Group, list[Any]]]:
    """The attributes that hold tensors, or plain containers of them, which `forward` reads and PyTorch does not register.

    What the source of the class shows it to read counts, since a run does not come through every branch, and what a run reads.
    """
    from modellint.live.capture.run import tensors_read
    from modellint.live.code.attribute_usage import reading_of

    for group in groups(subject, "tensor"):
        tensors = [held.value for held in group.held]
        # What is computed from parameters has a graph and comes anew with every call; `torch.tensor([])` stands for none.
        if not group.is_plain or any(tensor.grad_fn is not None or 0 in tensor.shape for tensor in tensors):
            continue
        if group.kind and group.attribute in reading_of(type(group.owner)).forward.stores:
            # `self.anchors = [a.to(x.device) for a in self.anchors]`: moved by hand.
            continue
        places = {f"hidden:{place}" for held in group.held for place in held.places}
        taken = tensors_read(subject)
        if (taken is not None and not places.isdisjoint(taken)) or (
            (taken is None or not group.kind) and _is_read(group)
        ):
            yield group, tensors


def _is_read(group: Group) -> bool:
    from modellint.live.code.attribute_usage import reading_of
    from modellint.live.code.class_source import binders_of, binding_of

    reading = reading_of(type(group.owner))
    forward = reading.forward
    if group.attribute not in forward.reads:
        return False
    if group.attribute not in forward.stores:
        return True
    # What `forward` itself puts there is left over from an earlier call, unless the object was built with it.
    bound = binding_of(type(group.owner), group.attribute, group.value)
    if bound is None:
        return False
    if bound.method == "__init__" or bound.method not in forward.names:
        return True
    return not (binders_of(type(group.owner), group.attribute) & reading.built_by).issubset(forward.names)

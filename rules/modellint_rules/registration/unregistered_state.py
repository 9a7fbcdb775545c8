"""Unregistered state of live modules: what the rules about plain attributes share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import Diagnostic, Severity

if TYPE_CHECKING:
    from modellint.authoring import HeldAttribute, LiveModel, Rule


def hidden_finding(
    subject: LiveModel, rule: Rule, group: HeldAttribute, what: str, *, is_harmless: bool = False
) -> Diagnostic:
    """A finding about modules or parameters (``what``) that PyTorch does not see; a warning where nothing is lost, or on purpose."""
    loses = (
        "`parameters()`, `state_dict()`, `.to()` and `.eval()`"
        if what == "modules"
        else "`parameters()`, `state_dict()` and `.to()`"
    )
    if is_harmless:
        loses = "`children()`, `modules()` and `apply()`"
    kind = group.kind
    if kind:
        article = "an" if kind.strip("`")[:1] in "aeiouAEIOU" else "a"
        message = f"`self.{group.attribute}` keeps {what} in {article} {kind}: {loses} do not see them"
    elif group.parts[0].on_class:
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


def modules_in(subject: LiveModel, *, keyed: bool) -> Iterator[tuple[HeldAttribute, bool]]:
    """The attributes that hide modules, by name or by position, and whether nothing in them has state or a mode to lose."""
    for group in subject.held_attributes("module"):
        if group.is_keyed is keyed and not group.is_reference:
            yield group, not any(subject.has_state(part.value) for part in group.parts)  # type: ignore[arg-type]


def tensors_in(subject: LiveModel) -> Iterator[tuple[HeldAttribute, list[Any]]]:
    """The attributes that hold tensors, or plain containers of them, which `forward` reads and PyTorch does not register.

    What the source of the class shows it to read counts, since a run does not come through every branch, and what a run reads.
    """
    for group in subject.held_attributes("tensor"):
        tensors = [part.value for part in group.parts]
        # What is computed from parameters has a graph and comes anew with every call; `torch.tensor([])` stands for none.
        if not group.is_plain or any(tensor.grad_fn is not None or 0 in tensor.shape for tensor in tensors):
            continue
        if group.kind and group.attribute in group.usage.forward.stores:
            # `self.anchors = [a.to(x.device) for a in self.anchors]`: moved by hand.
            continue
        places = {f"hidden:{place}" for part in group.parts for place in part.places}
        taken = subject.tensors_read
        if (taken is not None and not places.isdisjoint(taken)) or (
            (taken is None or not group.kind) and _is_read(group)
        ):
            yield group, tensors


def _is_read(group: HeldAttribute) -> bool:
    reading = group.usage
    forward = reading.forward
    if group.attribute not in forward.reads:
        return False
    if group.attribute not in forward.stores:
        return True
    # What `forward` itself puts there is left over from an earlier call, unless the object was built with it.
    bound = group.binding
    if bound is None:
        return False
    if bound.method == "__init__" or bound.method not in forward.names:
        return True
    return not (group.binders & reading.built_by).issubset(forward.names)

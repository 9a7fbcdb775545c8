"""REG009: a list or dict of registered buffers, which goes stale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Container, Diagnostic, Instance, Rule, Severity, Trigger, Value, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel

_MOVING = ("_apply", "to", "cuda", "cpu", "half", "float", "__getattr__")


class StaleBufferAlias(Rule):
    """A list or dict of registered buffers that `forward` reads.

    ## What it does
    Finds attributes that keep registered buffers in a plain list, tuple or dict too, and that `forward` reads.

    ## Why
    `.to()`, `.cuda()` and `.half()` put a new tensor in the place of each buffer, and `load_state_dict` with `assign=True` does so
    too. The container goes on holding the old ones: the model computes with tensors on another device, or with old values.
    Parameters keep their identity, and may be listed.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("low", torch.ones(8))
            self.register_buffer("high", torch.zeros(8))
            self.both = [self.low, self.high]

        def forward(self, x):
            return x * self.both[0] + self.both[1]
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("low", torch.ones(8))
            self.register_buffer("high", torch.zeros(8))

        def forward(self, x):
            return x * self.low + self.high
    ```

    ## Fix safety
    There is no fix: what stands for the container depends on how it is used.

    ## Known limits
    In source, buffers that a base class in another file registers are not known. Containers that a method fills again, or that a class
    with a `_apply` or `to` of its own keeps, are left alone.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer>
    - <https://github.com/pytorch/pytorch/issues/43815>
    """

    code = "REG009"
    name = "stale-buffer-alias"
    severity = Severity.WARNING
    advice = "Look the buffers up when they are used: `getattr(self, name)`"
    withdraws = True
    needs = (frozenset({"register_buffer", "Buffer"}), Trigger.KEEPS_CONTAINERS)
    supersedes = ("REG006",)
    only_modules = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every attribute that is a plain container."""
        registered: set[int] | None = None
        for name, bindings in code.attributes.items():
            boxes = [part for b in bindings for part in alternatives(b.value) if isinstance(part, Container)]
            if not boxes or any(code.has_escaped(box) or box.kind not in ("list", "tuple", "dict") for box in boxes):
                continue
            if registered is None:
                registered = _registered(code)
            leaves = [part for box in boxes for part in box.leaves()]
            binding = next((b for b in bindings if b.file is code.file and b.form in ("assign", "annotated")), None)
            if binding is None or not leaves or not all(_is_buffer(part, registered) for part in leaves):
                continue
            if any(map(code.defines, _MOVING)) or _changes_later(code, name) or not code.is_read_in_forward(name):
                continue
            yield code.finding(
                self,
                binding.statement,
                f"`self.{name}` holds registered buffers: after `.to()` or `.half()` the model computes with the old ones",
                attribute=name,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the containers of registered buffers that forward reads."""
        for group in subject.held_attributes("alias"):
            if not group.is_plain or not group.kind or any(map(_has_own(type(group.owner)), _MOVING)):
                continue
            if group.attribute in group.usage.forward.reads:
                yield subject.finding(
                    self,
                    f"`self.{group.attribute}` holds registered buffers: after `.to()` or `.half()` the model computes with the old ones",
                    at=group.place,
                    modules=group.paths,
                    class_name=group.class_name,
                    attribute=group.attribute,
                )


def _has_own(cls: type) -> Callable[[str], bool]:
    """Asks whether a class has a method of its own, which may put the container right."""
    return lambda name: any(
        name in vars(base) for base in cls.__mro__ if base.__module__.partition(".")[0] not in ("torch", "builtins")
    )


def _registered(code: Code) -> set[int]:
    """Identity of the buffers that are registered in the file itself, and of the tensors that they were made of."""
    buffers = {
        id(part)
        for bindings in code.attributes.values()
        for binding in bindings
        for part in alternatives(binding.value)
        if binding.file is code.file and isinstance(part, Instance) and part.kind == "buffer"
    }
    handed_over = {
        id(part)
        for readings in code.calls
        for reading in readings
        if reading.method == "register_buffer" and reading.is_of_self
        for value in reading.arguments.everything()[1:]
        for part in alternatives(value)
        if isinstance(part, Instance)
    }
    return buffers | handed_over


def _is_buffer(value: Value, registered: set[int]) -> bool:
    """Whether a value is a buffer, or a view of one."""
    part: object = value
    while part is not None:
        if id(part) in registered:
            return True
        part = getattr(part, "base", None)
    return False


def _changes_later(code: Code, name: str) -> bool:
    return any(b.method != "__init__" for b in code.bindings_of(name))

"""Subject: one live model under examination, as data: its modules, its state, its inputs, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from modellint.live.code import class_source
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.diagnostic import Place
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Verdict
    from modellint.results.verification import Verification


class Entry(NamedTuple):
    """A module that ``named_modules`` knows, with every path at which it is registered; the model's own path is empty."""

    module: nn.Module
    paths: tuple[str, ...]

    @property
    def path(self) -> str:
        """Its first path."""
        return self.paths[0]


class State(NamedTuple):
    """A parameter or buffer, with all names it is registered under."""

    names: tuple[str, ...]
    tensor: torch.Tensor
    kind: str
    """``parameter`` or ``buffer``."""
    owner: nn.Module
    """The first module that registers it, and under which name."""
    attribute: str
    persistent: bool

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]


class Subject:
    """One model under examination. Nothing here changes it."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs | None,
        root: Path,
        destination: Destination,
        *,
        has_values: bool = True,
        checkpoint: Mapping[str, Any] | None = None,
        judge: Callable[[Subject], tuple[Verdict, ...]] | None = None,
        execute: Callable[[Subject], Verification] | None = None,
        is_exported: bool = False,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.project = Project(root)
        self.destination = destination
        self.has_values = has_values
        """Whether parameters hold numbers; they do not on the meta device."""
        self.checkpoint = checkpoint
        self.judge = judge
        """What the destination answers that is asked whether the model converts."""
        self.execute = execute
        """What it answers that is to convert and execute the model."""
        self.is_exported = is_exported
        """Whether an export of this model on these inputs follows, which may share what is captured and converted."""
        self.results: dict[object, Any] = {}
        """What each analysis found, or was supplied with."""

    @property
    def may_execute(self) -> bool:
        """Whether there is anything to convert and execute."""
        return self.execute is not None and self.inputs is not None and self.has_values

    @property
    def may_convert(self) -> bool:
        """Whether there is anything to ask for a verdict."""
        return self.judge is not None and self.inputs is not None and self.has_values

    @cached_property
    def modules(self) -> tuple[Entry, ...]:
        """Every registered module once, in the order of ``named_modules``."""
        paths: dict[int, list[str]] = {}
        modules: dict[int, nn.Module] = {}
        for path, module in self.model.named_modules(remove_duplicate=False):
            modules.setdefault(id(module), module)
            paths.setdefault(id(module), []).append(path)
        return tuple(Entry(module, tuple(paths[key])) for key, module in modules.items())

    @cached_property
    def _entries(self) -> dict[int, Entry]:
        return {id(entry.module): entry for entry in self.modules}

    def paths_of(self, module: nn.Module) -> tuple[str, ...]:
        """Every path at which a module is registered; empty for a hidden one."""
        entry = self._entries.get(id(module))
        return () if entry is None else entry.paths

    @cached_property
    def state(self) -> tuple[State, ...]:
        """Every parameter and buffer once, with all its names, persistent or not."""
        names: dict[int, list[str]] = {}
        first: dict[int, tuple[torch.Tensor, str, nn.Module, str, bool]] = {}
        for entry in self.modules:
            module = entry.module
            for kind, tensors in (("parameter", module._parameters), ("buffer", module._buffers)):
                for attribute, tensor in tensors.items():
                    if tensor is None:
                        continue
                    saved = attribute not in module._non_persistent_buffers_set
                    first.setdefault(id(tensor), (tensor, kind, module, attribute, saved))
                    known = names.setdefault(id(tensor), [])
                    known.extend(f"{path}.{attribute}" if path else attribute for path in entry.paths)
        return tuple(
            State(tuple(names[key]), tensor, kind, owner, attribute, saved)
            for key, (tensor, kind, owner, attribute, saved) in first.items()
        )

    def attribute_place(self, module: nn.Module, name: str) -> tuple[str, Place | None]:
        """The name of the class whose code binds ``self.name``, and where it does."""
        binding = class_source.place_of_attribute(type(module), name, vars(module).get(name))
        if binding is None:
            return type(module).__name__, self.class_place(module)
        return binding[0].__name__, binding[1]

    def class_of(self, path: str, attribute: str) -> str | None:
        """The name of the class whose code binds an attribute of the module at ``path``; None where no module is there."""
        module = next((entry.module for entry in self.modules if path in entry.paths), None)
        return None if module is None else self.attribute_place(module, attribute)[0]

    def holder(self, path: str) -> tuple[nn.Module, str]:
        """The nearest module around ``path`` that is not torch's own, and its attribute that leads there.

        ``path`` names a registered module, parameter or buffer. Where torch's own modules are all there is, it is the model itself.
        """
        parts = path.split(".")
        modules = [self.model]
        for part in parts[:-1]:
            modules.append(modules[-1]._modules[part])  # type: ignore[arg-type]
        for module, name in zip(reversed(modules), reversed(parts), strict=True):
            if type(module).__module__.partition(".")[0] != "torch":
                return module, name
        return self.model, parts[0]

    def class_place(self, module: nn.Module) -> Place | None:
        """The `class` line of the module's class, unless that is torch's own; there the nearest owner's line serves."""
        if type(module).__module__.partition(".")[0] == "torch":
            return None
        return class_source.place_of_class(type(module))

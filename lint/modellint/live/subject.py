"""One live model as rules see it: its modules, its state, what it hides from PyTorch, and one captured run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from modellint.live import unregistered_state as hidden
from modellint.live.capture.run import Run, TensorFact, capture
from modellint.live.code import class_source
from modellint.live.code.places import Project
from modellint.results.diagnostic import Diagnostic, Place, Severity
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.live.capture.inplace_writes import LostWrite
    from modellint.live.capture.jit_trace import Traced
    from modellint.live.capture.state_changes import Change
    from modellint.live.capture.tensor_to_python import Asked
    from modellint.live.unregistered_state import Held
    from modellint.results.verdict import Verdict
    from modellint.results.verification import Verification
    from modellint.rule import Rule


class Inputs(NamedTuple):
    """What the model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] = {}
    """For arguments by position or name, the dimensions whose size may vary, each with its bounds; both count."""
    ranges: Mapping[str | int, tuple[float, float]] = {}
    """For arguments by position or name, the values that they take, from the first up to the second, which is not among them."""

    @classmethod
    def of(cls, example: Any) -> Inputs:
        """A tuple is positional, a dict keyword arguments; anything else is the one argument."""
        match example:
            case tuple() | list():
                return cls(tuple(example))
            case dict():
                return cls((), dict(example))
            case _:
                return cls((example,))


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
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.project = Project(root)
        self.destination = destination
        self.has_values = has_values
        """Whether parameters hold numbers; they do not on the meta device."""
        self.checkpoint = checkpoint
        self._judge = judge
        self._execute = execute

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether coremltools converts the model, by each route that was tried; empty where that cannot be said."""
        run = self.run
        if self._judge is None or run is None or (run.failure is not None and run.failure.kind != "data"):
            return ()
        return self._judge(self)

    @cached_property
    def execution(self) -> Verification | None:
        """What the converted model computes against PyTorch; None where that cannot be said."""
        return self._execute(self) if self._execute is not None and self.may_execute else None

    @property
    def may_execute(self) -> bool:
        """Whether there is anything to convert and execute."""
        return self._execute is not None and self.inputs is not None and self.has_values

    def is_confirmed(self, at: Place | None) -> bool:
        """Whether the converted model, executed, first departs from PyTorch at a statement, or lacks what it writes."""
        found = None if self.execution is None else self.execution.first_difference
        if found is None or at is None:
            return False
        places = [found.place, *(one.place for one in found.lost)]
        return any(one is not None and (one.path, one.span.row) == (at.path, at.span.row) for one in places)

    @property
    def may_convert(self) -> bool:
        """Whether there is anything to ask for a verdict."""
        return self._judge is not None and self.inputs is not None and self.has_values

    @cached_property
    def modules(self) -> tuple[Entry, ...]:
        """Every registered module once, in the order of ``named_modules``."""
        paths: dict[int, list[str]] = {}
        found: dict[int, nn.Module] = {}
        for path, module in self.model.named_modules(remove_duplicate=False):
            found.setdefault(id(module), module)
            paths.setdefault(id(module), []).append(path)
        return tuple(Entry(module, tuple(paths[key])) for key, module in found.items())

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
            for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
                for attribute, tensor in held.items():
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

    @cached_property
    def reached(self) -> tuple[Held, ...]:
        """What attributes lead to beside what is registered: all that is hidden, and aliases of registered state."""
        return hidden.reached(self)

    @cached_property
    def hidden(self) -> tuple[Held, ...]:
        """Modules, parameters and tensors that attributes hold and PyTorch does not know."""
        return tuple(hidden.held(self))

    @cached_property
    def run(self) -> Run | None:
        """One captured run on the inputs; None without inputs."""
        return None if self.inputs is None else capture(self)

    @cached_property
    def resized_runs(self) -> tuple[Run, ...]:
        """Runs on other sizes of the flexible inputs; empty without such."""
        from modellint.live.inputs.size_trials import resized_runs

        return tuple(resized_runs(self))

    @cached_property
    def traced(self) -> Traced | None:
        """What a trace of the model shows; None where there can be none."""
        from modellint.live.capture.jit_trace import traced

        return traced(self)

    @cached_property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """What the run writes in place and a model converted from a trace does not see; state of the model's own left out."""
        from modellint.live.capture.inplace_writes import lost_writes

        run = self.run
        return () if run is None or run.failure is not None else tuple(lost_writes(run))

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What the run, in evaluation mode, changes of the model's state."""
        from modellint.live.capture.state_changes import changes

        return tuple(changes(self))

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """Where the run takes something out of tensors that Python then computes with."""
        from modellint.live.capture.tensor_to_python import asked_values

        return tuple(asked_values(self))

    @cached_property
    def taken(self) -> frozenset[str] | None:
        """Names (as in ``TensorFact``) of the tensors whose elements the run computed with; None without a run to its end.

        A number taken out of a tensor does not count.
        """
        run = self.run
        if run is None or run.failure is not None:
            return None
        operators = ((one.arguments, one.keywords) for one in run.operators if one.name != "aten::_local_scalar_dense")
        calls = ((one.arguments, one.keywords) for one in run.calls if not one.name.endswith((".item", ".tolist")))
        return frozenset(_names_in([*operators, *calls]))

    def attribute_place(self, module: nn.Module, name: str) -> tuple[str, Place | None]:
        """The name of the class whose code binds ``self.name``, and where it does."""
        found = class_source.place_of_attribute(type(module), name, vars(module).get(name))
        if found is None:
            return type(module).__name__, self.class_place(module)
        return found[0].__name__, found[1]

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

    def finding(
        self,
        rule: Rule,
        message: str,
        *,
        at: Place | None,
        modules: Iterable[str] = (),
        severity: Severity | None = None,
        class_name: str | None = None,
        attribute: str | None = None,
        operator: str | None = None,
        advice: str | None = None,
    ) -> Diagnostic:
        """A finding of ``rule``; ``modules`` are the paths of all instances that show it."""
        found = rule.found(
            message,
            None if at is None else at.span,
            severity=severity,
            class_name=class_name,
            attribute=attribute,
            advice=advice,
            operator=operator,
        )
        path = None if at is None else at.path
        return found._replace(path=path, evidence="live", modules=tuple(dict.fromkeys(modules)))


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, TensorFact):
        if value.name is not None:
            yield value.name
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _names_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _names_in(part)


def owners(subject: Subject) -> Iterator[tuple[Entry, Mapping[str, Any]]]:
    """Every module with its ``__dict__``."""
    for entry in subject.modules:
        yield entry, vars(entry.module)

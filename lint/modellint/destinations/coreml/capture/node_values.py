"""A captured program run in PyTorch: the value of each of its nodes, and where the node stands in the user's source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from modellint.destinations.comparison.tensor_difference import LIMIT, error_over_scale
from modellint.destinations.coreml.capture.graph_interpreter import Step, graph_run, sanitized
from modellint.destinations.coreml.capture.routes import Captured as Capture
from modellint.destinations.coreml.capture.routes import Traced
from modellint.destinations.coreml.private.mil_programs import declared_shape, made_from
from modellint.live.code.class_source import place_of_class
from modellint.results.verification import Layer

if TYPE_CHECKING:
    from modellint.live.code.places import Project
    from modellint.results.diagnostic import Place

_FUSED = 12
"""How many nodes on the value may stand that a fused operation gives under the name of its first node."""


class Known(NamedTuple):
    """A value of the captured program, as PyTorch has it."""

    step: int
    value: Tensor
    storage: int


class Recorded:
    """A captured program run in PyTorch: the values of all its nodes, and what was written to, in order.

    ``count`` runs in a row are made, of which the last is kept. A program from a package does not say what its operations were
    made from; ``by_name`` goes by the names of variables alone. Raises ``NotRun``, and what PyTorch raises.
    """

    def __init__(self, captured: Capture, leaves: Sequence[Any], count: int = 1, by_name: bool = False) -> None:
        self._captured = captured
        self._by_name = by_name
        run = graph_run(captured)
        for _ in range(count):
            self.steps: list[Step] = []
            self.values: list[dict[str, Known]] = []
            self._nodes: dict[str, int] = {}
            for at, step in enumerate(run.steps(leaves)):
                # Copied where a later node may write to it.
                self.values.append(
                    {
                        name: Known(at, value.detach().clone() if run.writes else value, storage_of(value))
                        for name, value in step.values.items()
                    }
                )
                self._nodes[step.node] = at
                self.steps.append(step._replace(values={}))
            self.outputs = [output for output in run.outputs if isinstance(output, Tensor)]

    def known(self, operation: Any, variable: Any) -> Known | None:
        """PyTorch's value of a variable; None where the program has one that the graph has not."""
        if self._by_name:
            known = self.named(variable)
            return known if known is not None and known.value.dim() == variable.rank else None
        at = self.step_of(operation)
        if at is None:
            return None
        values, name = self.values[at], plain_name(variable)
        if name in values:
            return values[name]
        # Operations of several results are named like the node, with positions behind it.
        stem, _, position = name.rpartition("_")
        several = list(values.values())
        if not position.isdecimal() or stem != sanitized(self.steps[at].node) or int(position) >= len(several):
            return None
        known = several[int(position)]
        # Of a recurrent layer's last states there may be others, or they may lie in another order.
        return known if _without_ones(declared_shape(variable)) == _without_ones(known.value.shape) else None

    def unnamed(self, program: Any) -> dict[Any, Known]:
        """For variables that lost their node's name in a fusion, where the last of a node's operations must give its value."""
        if self._by_name:
            return {}
        last: dict[int, Any] = {}
        recognised: set[int] = set()
        for operation in program.functions["main"].operations:
            at = None if operation.op_type == "const" else self.step_of(operation)
            if at is not None:
                last[at] = operation
                if any(self.known(operation, variable) is not None for variable in operation.outputs):
                    recognised.add(at)
        results: dict[Any, Known] = {}
        for at, operation in last.items():
            known = next(iter(self.values[at].values()), None)
            if at not in recognised and known is not None and len(self.values[at]) == len(operation.outputs) == 1:
                variable = operation.outputs[0]
                if declared_shape(variable) == tuple(known.value.shape):
                    results[variable] = known
        return results

    def named(self, variable: Any) -> Known | None:
        """PyTorch's value of a variable, by its name alone."""
        name = plain_name(variable)
        return next((values[name] for values in self.values if name in values), None)

    def step_of(self, operation: Any) -> int | None:
        """The node that an operation was made from."""
        node = captured_node(self._captured, operation)
        return None if node is None else self._nodes.get(node)

    def writes_before(self, storages: set[int], step: int) -> Iterator[int]:
        """Nodes up to one that write to any of the storages, the nearest first."""
        for at in range(step, -1, -1):
            if any(storage_of(tensor) in storages for tensor in self.steps[at].writes):
                yield at

    def change(self, run: Recorded, known: Known) -> float:
        """Relative difference of a value between this run and another."""
        theirs = run.values[known.step]
        name = next((name for name, value in theirs.items() if value is known), None)
        mine = None if name is None or known.step >= len(self.values) else self.values[known.step].get(name)
        return 0.0 if mine is None else error_of(mine.value, known.value)

    def is_fused(self, known: Known, value: Tensor) -> bool:
        """Whether a value is that of a node soon after the one that gives its name to it."""
        for at in range(known.step + 1, min(known.step + 1 + _FUSED, len(self.values))):
            for later in self.values[at].values():
                if later.value.shape == value.shape and error_over_scale(value, later.value) <= LIMIT:
                    return True
        return False


def _without_ones(shape: Sequence[int | None] | None) -> tuple[int | None, ...]:
    return tuple(size for size in shape or () if size != 1)


def storage_of(tensor: Tensor) -> int:
    """Identity of a tensor's storage: equal for tensors that share memory."""
    return tensor.untyped_storage().data_ptr()


class Places:
    """Where nodes of a captured program stand in the user's source."""

    def __init__(self, captured: Capture, project: Project, model: nn.Module) -> None:
        self._captured = captured
        self._project = project
        self._modules = dict(model.named_modules(remove_duplicate=False))

    def of(self, node: str) -> tuple[Place | None, str]:
        """The statement and the module's path."""
        origin = self._captured.origin(node)
        if origin is None:
            return None, ""
        place = self._project.place_of_rows(origin.frames)
        return place or self._nearest_class(origin.module), origin.module

    def _nearest_class(self, path: str) -> Place | None:
        parts = path.split(".") if path else []
        for end in range(len(parts), -1, -1):
            module = self._modules.get(".".join(parts[:end]))
            if module is not None and type(module).__module__.partition(".")[0] != "torch":
                return place_of_class(type(module))
        return None


def plain_name(variable: Any) -> str:
    """The name of a variable, or of a layer's, without what coremltools' passes add to it."""
    name = str(variable.variable if isinstance(variable, Layer) else variable.name)
    for part in ("_cast_fp16", "__pre__output__fp32__cast", "_to_fp16", "_has_output_shape"):
        name = name.replace(part, "")
    return name


def captured_node(captured: Capture, operation: Any) -> str | None:
    """The node of a captured program that an operation was made from."""
    name, number = made_from(operation)
    return name if isinstance(captured, Traced) else captured.name_of(number)


def error_of(value: Tensor, reference: Tensor) -> float:
    """Error relative to the reference's scale; tensors of as many elements may differ in shape."""
    if value.shape != reference.shape and value.numel() == reference.numel():
        value = value.reshape(reference.shape)
    return error_over_scale(value, reference)

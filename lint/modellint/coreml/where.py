"""Which operation of a converted program is the first to depart from PyTorch."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.coreml.capture_routes import Captured as Capture
from modellint.coreml.capture_routes import Traced
from modellint.coreml.graph_run import Step, graph_run, sanitized
from modellint.coreml.mil.compare import LIMIT, error_over_scale
from modellint.coreml.mil.executor import ExecutionError
from modellint.coreml.private_mil import declared_shape, is_top_level, made_from
from modellint.coreml.verification import FirstDifference, Layer, Lost
from modellint.live.mode import depends_on_mode
from modellint.live.place import Place, Project, class_node, place_of_class, span_of, statement_at
from modellint.live.subject import Subject
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.coreml.conversion import TakenNumber
    from modellint.coreml.predictor import Predictor
    from modellint.coreml.reference import Changed
    from modellint.live.subject import Inputs

ABOVE_NOISE = 10.0
"""By how much an error has to exceed that of rounding."""
_MOST_LOST = 3
_VISIBLE = 0.03
"""An error over the scale that takes a tensor to the least ratio of signal to noise that is thought to be enough."""
_FUSED = 12
"""How many nodes on the value may stand that a fused operation gives under the name of its first node."""


class _Known(NamedTuple):
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
            self.values: list[dict[str, _Known]] = []
            self._nodes: dict[str, int] = {}
            for at, step in enumerate(run.steps(leaves)):
                # Copied where a later node may write to it.
                self.values.append(
                    {
                        name: _Known(at, value.detach().clone() if run.writes else value, _storage(value))
                        for name, value in step.values.items()
                    }
                )
                self._nodes[step.node] = at
                self.steps.append(step._replace(values={}))
            self.outputs = [one for one in run.outputs if isinstance(one, Tensor)]

    def known(self, operation: Any, variable: Any) -> _Known | None:
        """PyTorch's value of a variable; None where the program has one that the graph has not."""
        if self._by_name:
            found = self.named(variable)
            return found if found is not None and found.value.dim() == variable.rank else None
        at = self.step_of(operation)
        if at is None:
            return None
        held, name = self.values[at], plain_name(variable)
        if name in held:
            return held[name]
        # Operations of several results are named like the node, with positions behind it.
        stem, _, position = name.rpartition("_")
        several = list(held.values())
        if not position.isdecimal() or stem != sanitized(self.steps[at].node) or int(position) >= len(several):
            return None
        known = several[int(position)]
        # Of a recurrent layer's last states there may be others, or they may lie in another order.
        return known if _without_ones(declared_shape(variable)) == _without_ones(known.value.shape) else None

    def unnamed(self, program: Any) -> dict[Any, _Known]:
        """For variables that lost their node's name in a fusion, where the last of a node's operations must give its value."""
        if self._by_name:
            return {}
        last: dict[int, Any] = {}
        found: set[int] = set()
        for operation in program.functions["main"].operations:
            at = None if operation.op_type == "const" else self.step_of(operation)
            if at is not None:
                last[at] = operation
                if any(self.known(operation, variable) is not None for variable in operation.outputs):
                    found.add(at)
        results: dict[Any, _Known] = {}
        for at, operation in last.items():
            known = next(iter(self.values[at].values()), None)
            if at not in found and known is not None and len(self.values[at]) == len(operation.outputs) == 1:
                variable = operation.outputs[0]
                if declared_shape(variable) == tuple(known.value.shape):
                    results[variable] = known
        return results

    def named(self, variable: Any) -> _Known | None:
        """PyTorch's value of that name, of whatever node."""
        name = plain_name(variable)
        return next((held[name] for held in self.values if name in held), None)

    def step_of(self, operation: Any) -> int | None:
        """The node that an operation was made from."""
        node = captured_node(self._captured, operation)
        return None if node is None else self._nodes.get(node)

    def writes_before(self, storages: set[int], step: int) -> Iterator[int]:
        """Nodes up to one that write to any of the storages, the nearest first."""
        for at in range(step, -1, -1):
            if any(_storage(one) in storages for one in self.steps[at].writes):
                yield at

    def change(self, other: Recorded, known: _Known) -> float:
        """How far a value of another run is from the same of this one, over its scale."""
        held = other.values[known.step]
        name = next((name for name, one in held.items() if one is known), None)
        mine = None if name is None or known.step >= len(self.values) else self.values[known.step].get(name)
        return 0.0 if mine is None else _error(mine.value, known.value)

    def is_fused(self, known: _Known, value: Tensor) -> bool:
        """Whether a value is that of a node soon after the one that gives its name to it."""
        for at in range(known.step + 1, min(known.step + 1 + _FUSED, len(self.values))):
            for other in self.values[at].values():
                if other.value.shape == value.shape and error_over_scale(value, other.value) <= LIMIT:
                    return True
        return False


def _without_ones(shape: Sequence[int | None] | None) -> tuple[int | None, ...]:
    return tuple(size for size in shape or () if size != 1)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class Compared(NamedTuple):
    """The operations of one prediction that have a counterpart, in the order in which they ran."""

    layers: list[Layer]
    first: tuple[Any, Any, _Known, float] | None
    """The first whose value departs: operation, variable, PyTorch's value, error over its scale."""
    failure: ExecutionError | None


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


def compared(
    predictor: Predictor,
    leaves: Sequence[Any],
    recorded: Recorded,
    places: Places,
    count: int = 1,
    noise: Recorded | None = None,
    limit: float = LIMIT,
) -> Compared:
    """Hold the operations of a prediction against PyTorch's values.

    ``noise`` is the same run on inputs that differ by rounding: an error that is no larger than such a difference is none.
    """
    layers: list[Layer] = []
    unnamed = recorded.unnamed(predictor.program)
    departed: list[tuple[Any, Any, _Known, float]] = []
    failure = None

    def observe(operation: Any, variable: Any, value: Any) -> None:
        if not isinstance(value, Tensor) or not is_top_level(operation, predictor.program):
            return
        known = recorded.known(operation, variable) or unnamed.get(variable)
        if known is None:
            return
        error = _error(value, known.value)
        step = recorded.steps[known.step]
        if error > limit and not departed and recorded.is_fused(known, value):
            return
        place, module = places.of(step.node)
        shape = tuple(known.value.shape)
        largest = _largest(known.value)
        layers.append(
            Layer(variable.name, operation.op_type, step.operator, module, place, shape, error, largest=largest)
        )
        if error > limit and not departed:
            around = 0.0 if noise is None else noise.change(recorded, known)
            if error > ABOVE_NOISE * around:
                departed.append((operation, variable, known, error))

    try:
        predictor(leaves, count, observe)
    except ExecutionError as error:
        failure = error
    return Compared(layers, departed[0] if departed else None, failure)


def _error(value: Tensor, reference: Tensor) -> float:
    if value.shape != reference.shape and value.numel() == reference.numel():
        value = value.reshape(reference.shape)
    return error_over_scale(value, reference)


def _largest(value: Tensor) -> float:
    if not value.is_floating_point() or not value.numel():
        return 0.0
    return float(value.detach().abs().max())


def overflows(
    single: Predictor, half: Predictor, leaves: Sequence[Any], captured: Capture, places: Places
) -> list[Layer]:
    """Operations of the float16 program that give what is not finite, of finite values, where the float32 program's are finite.

    ``largest`` is what the float32 program has there. Raises ``ExecutionError`` where one cannot be run.
    """
    largest: dict[str, float] = {}

    def measure(operation: Any, variable: Any, value: Any) -> None:
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
            low, high = value.aminmax()
            largest[plain_name(variable)] = max(abs(float(low)), abs(float(high)))

    single(leaves, 1, measure)
    lost: set[str] = set()
    found: list[Layer] = []

    def look(operation: Any, variable: Any, value: Any) -> None:
        if not (isinstance(value, Tensor) and value.is_floating_point()) or bool(value.isfinite().all()):
            return
        follows = any(one.name in lost for one in _inputs_of(operation))
        lost.add(variable.name)
        known = largest.get(plain_name(variable), 0.0)
        if follows or not math.isfinite(known):
            return
        node = captured_node(captured, operation)
        origin = None if node is None else captured.origin(node)
        place, module = (None, "") if node is None else places.of(node)
        operator = "" if origin is None else origin.operator
        shape = tuple(value.shape)
        found.append(Layer(variable.name, operation.op_type, operator, module, place, shape, math.inf, math.inf, known))

    half(leaves, 1, look)
    return found


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


def _inputs_of(operation: Any) -> Iterator[Any]:
    for held in operation.inputs.values():
        if isinstance(held, (list, tuple)):
            yield from held
        elif held is not None:
            yield held


def first_difference(
    found: Compared, recorded: Recorded, places: Places, predictor: Predictor, case: str, outputs: Sequence[int]
) -> FirstDifference | None:
    """The earliest operation that departs; without one, the writes that an output lacks.

    ``outputs`` are the positions of the outputs that differ.
    """
    if found.first is not None:
        operation, variable, known, error = found.first
        known, error = _folded(operation, recorded) or (known, error)
        step = recorded.steps[known.step]
        place, module = places.of(step.node)
        lost = tuple(_lost(recorded, places, {_storage(one) for one in step.inputs}, known.step))
        kind = "random" if step.is_random else "operation"
        shown = f"differs by {error:.2g} of its scale"
        if error == math.inf:
            count = math.prod(size for size in declared_shape(variable) or () if size is not None)
            shown = "gives what is not finite" if count == known.value.numel() else "differs in shape"
        message = f"`{operation.op_type}`, made of {step.operator}, {shown}"
        return FirstDifference(
            kind,
            message,
            operation.op_type,
            variable.name,
            step.operator,
            place,
            module,
            error,
            tuple(known.value.shape),
            case,
            lost,
        )
    if found.failure is not None:
        return _failed(found.failure, recorded, places, predictor, case)
    return _output(recorded, places, predictor, case, outputs)


def _folded(operation: Any, recorded: Recorded) -> tuple[_Known, float] | None:
    """A constant among an operation's inputs that coremltools has computed itself, and wrongly."""
    for variable in _inputs_of(operation):
        if variable.val is None or getattr(variable.val, "dtype", None) is None:
            continue
        known = recorded.named(variable)
        if known is not None and known.value.numel() == variable.val.size:
            error = _error(torch.as_tensor(variable.val), known.value)
            if error > LIMIT:
                return known, error
    return None


def _lost(recorded: Recorded, places: Places, storages: set[int], step: int) -> Iterator[Lost]:
    seen: set[Lost] = set()
    for at in recorded.writes_before(storages, step):
        one = recorded.steps[at]
        lost = Lost(one.operator, *places.of(one.node))
        if lost not in seen and len(seen) < _MOST_LOST:
            seen.add(lost)
            yield lost


def _failed(
    failure: ExecutionError, recorded: Recorded, places: Places, predictor: Predictor, case: str
) -> FirstDifference:
    operation = next(
        (one for one in _operations(predictor.program.functions["main"]) if one.name == failure.operation), None
    )
    at = None if operation is None else recorded.step_of(operation)
    place, module, operator = None, "", None
    if at is not None:
        operator = recorded.steps[at].operator
        place, module = places.of(recorded.steps[at].node)
    name = None if operation is None else operation.outputs[0].name
    return FirstDifference(
        "run",
        f"the program cannot be run: {failure}",
        failure.kind,
        name,
        operator,
        place,
        module,
        math.inf,
        (),
        case,
    )


def _operations(block: Any) -> Iterator[Any]:
    for one in block.operations:
        yield one
        for inner in one.blocks:
            yield from _operations(inner)


def _output(
    recorded: Recorded, places: Places, predictor: Predictor, case: str, outputs: Sequence[int]
) -> FirstDifference | None:
    """All operations agree that could be compared, and an output does not."""
    for at in outputs:
        if at >= len(recorded.outputs):
            continue
        value = recorded.outputs[at]
        last = len(recorded.steps) - 1
        lost = tuple(_lost(recorded, places, {_storage(value)}, last))
        maker = next(
            (
                step
                for step in range(last, -1, -1)
                if any(known.storage == _storage(value) for known in recorded.values[step].values())
            ),
            None,
        )
        random = [step for step in recorded.steps if step.is_random]
        name = predictor.output_names[at] if at < len(predictor.output_names) else None
        if lost:
            place, module, operator = lost[0].place, lost[0].module, lost[0].operator
            message = f"the output {name} lacks what {operator} wrote"
            return FirstDifference(
                "output", message, None, name, operator, place, module, 0.0, tuple(value.shape), case, lost
            )
        if random or maker is not None:
            step = random[-1] if random else recorded.steps[maker or 0]
            place, module = places.of(step.node)
            message = (
                f"{step.operator} draws random numbers"
                if random
                else f"the output {name}, made by {step.operator}, differs"
            )
            return FirstDifference(
                "random" if random else "output",
                message,
                None,
                name,
                step.operator,
                place,
                module,
                0.0,
                tuple(value.shape),
                case,
            )
    return None


def of_capture(
    changed: Sequence[Changed], taken: Sequence[TakenNumber], model: nn.Module, project: Project, case: str
) -> FirstDifference | None:
    """Why what was captured is another model: state that it does not keep, or numbers and branches of the example's."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for one in changed:
        module = modules.get(one.module)
        place = None if module is None else written_in(type(module), one.attribute)
        name = f"{one.module}.{one.attribute}" if one.module else one.attribute
        message = f"every run changes `{name}`; the program holds the value that it had when it was captured"
        return FirstDifference(
            "capture", message, None, None, None, place, one.module, 0.0, (), case, (Lost("update", place, one.module),)
        )
    own = [one for one in taken if project.owns(one.path)] or list(taken)
    for number in own:
        place = statement_at(number.path, number.row)
        message = "the trace holds the branch or the number that the example's values lead to"
        return FirstDifference("capture", message, None, None, None, place, "", 0.0, (), case)
    return None


def of_precision(spilled: Sequence[Layer], layers: Sequence[Layer]) -> FirstDifference | None:
    """The first operation that float16 does not hold, or else the first whose error in float16 can be seen."""
    if spilled:
        one = spilled[0]
        message = f"`{one.operation}` gives up to {one.largest:.4g}, which float16 cannot hold"
    else:
        found = next((layer for layer in layers if layer.half is not None and layer.half > _VISIBLE), None)
        if found is None:
            return None
        one = found
        message = f"`{one.operation}` differs by {one.half:.2g} of its scale in float16"
    half = math.inf if one.half is None else one.half
    return FirstDifference(
        "precision",
        message,
        one.operation,
        one.variable,
        one.operator,
        one.place,
        one.module,
        half,
        one.shape,
        "the example",
    )


def left_in_training(model: nn.Module, inputs: Inputs, project: Project) -> FirstDifference | None:
    """A module in training mode that ``model.eval()`` does not reach, as PyTorch does not know of it."""
    subject = Subject(model, inputs, project.root, Destination())
    for held in subject.hidden:
        if not isinstance(held.value, nn.Module):
            continue
        if any(one.training and depends_on_mode(one) for one in held.value.modules()):
            path = held.places[0]
            place = subject.attribute_place(held.owner, held.attribute)[1]
            message = f"`{path}` is in training mode, as eval() does not reach it, and so is what is converted"
            return FirstDifference("mode", message, None, None, None, place, path, 0.0, (), "the example")
    return None


def written_in(cls: type, attribute: str) -> Place | None:
    """The first statement of a class's methods, but for its constructor, that writes to ``self.attribute``."""
    for base in cls.__mro__:
        found = class_node(base)
        if found is None:
            continue
        path, node = found
        for method in node.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
                for one in ast.walk(method):
                    if isinstance(one, ast.stmt) and _writes(one, attribute):
                        return Place(path, span_of(path, one))
    return None


def _writes(statement: ast.stmt, attribute: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(_is_part(part, attribute) for target in targets for part in _flat(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _is_part(target, attribute)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=name))):
            return name.endswith("_") and not name.endswith("__") and _is_part(value, attribute)
    return False


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target


def _is_part(node: ast.expr, attribute: str) -> bool:
    """Whether an expression is ``self.attribute``, or a part or a view of it."""
    while True:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name == attribute
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return False

"""Executor of MIL programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from modellint.destinations.comparison.program import RunError
from modellint.destinations.coreml.mil.branch_coverage import BranchCoverage
from modellint.destinations.coreml.mil.device_departures import Departure, departures
from modellint.destinations.coreml.mil.element_types import DTYPES, as_dtype, rounded_to_half, tensor_of
from modellint.destinations.coreml.mil.operation_registry import Declared, Operation, Refusal, operations
from modellint.destinations.coreml.private.mil_programs import declared_shape, dtype_name, function_names, is_state

Observer = Callable[[Any, Any, Any], None]
"""Called after an operation with it, its output variable, and the value."""


class UnknownOperations(Exception):
    """A program has operations that cannot be executed; ``names`` has them, sorted."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"no meaning is known for {', '.join(names)}")
        self.names = tuple(names)


class ExecutionError(RunError):
    """An operation failed, or its result is not what the program declares; ``operation`` and ``kind`` name it."""

    def __init__(self, kind: str, operation: str, message: str) -> None:
        super().__init__(f"{kind} {operation!r}: {message}")
        self.kind = kind
        self.operation = operation


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation, ready to run."""

    operation: Any
    kind: str
    definition: Operation | None
    inputs: dict[str, Any]
    fixed: dict[str, Any]
    """The arguments that are the same at every run."""
    varying: tuple[tuple[str, Any, bool], ...]
    """The others: name, variable or variables, and whether tensors are wanted."""
    outputs: tuple[Any, ...]
    declared: tuple[Declared, ...]
    dead: tuple[Any, ...]
    """Variables that nothing reads after this step."""
    blocks: tuple[_Plan, ...]
    departures: tuple[Departure, ...]
    """What devices may do otherwise, by the numbers that it is given."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A block of operations, ready to run."""

    inputs: tuple[Any, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[Any, ...]


class Executor:
    """A program whose constants are tensors once, to be run with many inputs.

    Args:
        program: A `coremltools` MIL program, of a conversion's result or read from a package.
        function: Which of its functions; default: the one that runs by default.
        rounds: Whether fp16 numbers are rounded to half precision; without it they keep what single precision computes.

    Raises:
        UnknownOperations: For a program with operations that are not known.
        ExecutionError: Where compressed weights cannot be expanded.
        KeyError: For a function that the program does not have; the message names those it has.
    """

    def __init__(self, program: Any, function: str | None = None, *, rounds: bool = True) -> None:
        names = function_names(program)
        if function is not None and function not in names:
            raise KeyError(f"the program has no function {function!r}, but {', '.join(names)}")
        self._function = program.functions[function or names[0]]
        self._rounds = rounds
        self._constants: dict[Any, Any] = {}
        self._fixed: set[Any] = set()
        self.casts_beyond = False
        """Whether a cast of the last predictions met a number that its type of integers does not hold."""
        self.coverage = BranchCoverage()
        """Of all predictions."""
        self.departures: dict[str, Any] = {}
        """The departures of devices that the program has met so far, by name, each with an operation that met it."""
        self.expanded: list[Tensor] = []
        """The decompressed weights."""
        unknown = sorted(set(_unknown(self._function)))
        if unknown:
            raise UnknownOperations(unknown)
        self._plan = self._planned(self._function, tuple(self._function.inputs.values()))
        self.inputs: dict[str, Declared] = {}
        """What a prediction takes, by name."""
        self.states: dict[str, Tensor] = {}
        """The present value of each state, by name; zeros at first, as Core ML's new states are."""
        for name, variable in self._function.inputs.items():
            if is_state(variable):
                self.states[name] = torch.zeros(_sizes(variable), dtype=DTYPES[dtype_name(variable)])
            else:
                self.inputs[name] = _declared(variable)
        self.outputs: dict[str, Declared] = {output.name: _declared(output) for output in self._function.outputs}

    def __call__(self, inputs: Mapping[str, Tensor], observe: Observer | None = None) -> dict[str, Any]:
        """Predict: the outputs by name, for tensors by input name. States keep what is written to them.

        Raises:
            ExecutionError: Where an operation fails, or gives another shape or type than declared.
            KeyError: For an input that is not given.
        """
        values: dict[Any, Any] = {}
        for name, variable in self._function.inputs.items():
            value = self.states[name] if is_state(variable) else _as_declared(inputs[name], dtype_name(variable))
            values[variable] = value
        with torch.no_grad():
            results = self._run(self._plan, values, observe)
        for name, variable in self._function.inputs.items():
            if is_state(variable):
                self.states[name] = values[variable]
        return {variable.name: result for variable, result in zip(self._function.outputs, results, strict=True)}

    def begin(self, states: Mapping[str, Tensor]) -> None:
        """Give states, by name, the values that the next prediction starts with."""
        self.casts_beyond = False
        for name, value in states.items():
            dtype = dtype_name(self._function.inputs[name])
            converted = as_dtype(value, dtype) if self._rounds else value.to(DTYPES[dtype])
            self.states[name] = converted.clone()

    def _planned(self, block: Any, inputs: tuple[Any, ...]) -> _Plan:
        """Constants are found here, compressed weights expanded, and each variable's last reader is found."""
        kept = []
        for operation in block.operations:
            if operation.op_type == "const":
                self._fixed.add(operation.outputs[0])
            elif operation.op_type.startswith("constexpr_"):
                self._expand(operation)
            else:
                kept.append(operation)
        last: dict[Any, int] = {}
        for at, operation in enumerate(kept):
            for variable in _read(operation):
                last[variable] = at
        returned = set(block.outputs)
        dying: dict[int, list[Any]] = {}
        for at, operation in enumerate(kept):
            for variable in operation.outputs:
                if variable not in returned:
                    dying.setdefault(last.get(variable, at), []).append(variable)
        steps = tuple(self._step(operation, tuple(dying.get(at, ()))) for at, operation in enumerate(kept))
        return _Plan(inputs, steps, tuple(block.outputs))

    def _step(self, operation: Any, dead: tuple[Any, ...] = ()) -> _Step:
        definition = operations().get(operation.op_type)
        declared = tuple(_declared(variable) for variable in operation.outputs)
        inputs = {name: argument for name, argument in operation.inputs.items() if argument is not None}
        fixed: dict[str, Any] = {}
        varying = []
        if definition is not None:
            if "opset" in definition.context:
                fixed["opset"] = _opset(operation)
            if "declared" in definition.context:
                fixed["declared"] = declared
            for name, argument in inputs.items():
                wants = name in definition.tensors
                variables = argument if isinstance(argument, (tuple, list)) else (argument,)
                if all(variable in self._fixed for variable in variables):
                    fixed[name] = self._tensors(argument, {}) if wants else self._plain(argument, {})
                else:
                    varying.append((name, argument, wants))
            if "constants" in definition.context:
                fixed["constants"] = frozenset(inputs) - {name for name, _, _ in varying}
        blocks = tuple(self._planned(block, tuple(block.inputs)) for block in operation.blocks)
        outputs = tuple(operation.outputs)
        kind = operation.op_type
        of_numbers = tuple(self._departures(operation)) if varying else ()
        return _Step(
            operation, kind, definition, inputs, fixed, tuple(varying), outputs, declared, dead, blocks, of_numbers
        )

    def _departures(self, operation: Any) -> Iterator[Departure]:
        """The departures that an operation may meet by its numbers; those that it meets as it stands are noted."""
        for departure in departures().get(operation.op_type, ()):
            if departure.may_hold(operation):
                if departure.of_numbers is not None:
                    yield departure
                else:
                    self.departures.setdefault(departure.name, operation)

    def _expand(self, operation: Any) -> None:
        """Compute compressed weights, once; what they are computed from is not kept."""
        before = set(self._constants)
        step = self._step(operation)
        with torch.no_grad():
            for variable, declared, result in zip(
                step.outputs, step.declared, self._results(step, {}, None), strict=True
            ):
                self._constants[variable] = settled = self._settled(step, declared, result)
                self._fixed.add(variable)
                if isinstance(settled, Tensor) and not all(
                    reader.op_type.startswith("constexpr_") for reader in variable.child_ops
                ):
                    self.expanded.append(settled)
        for variable in set(self._constants) - before - set(step.outputs):
            del self._constants[variable]

    def _constant(self, variable: Any) -> Any:
        """A constant's value, a tensor that shares its numbers with the program where their type allows it."""
        if variable not in self._constants:
            # Not only those of const operations: coremltools knows values of operations that a pass removed.
            dtype = dtype_name(variable)
            value = variable.val
            self._constants[variable] = tensor_of(value, dtype) if dtype in DTYPES else _text(value)
        return self._constants[variable]

    def _run(self, plan: _Plan, values: dict[Any, Any], observe: Observer | None) -> list[Any]:
        for step in plan.steps:
            results = self._results(step, values, observe)
            for variable, declared, result in zip(step.outputs, step.declared, results, strict=True):
                values[variable] = settled = self._settled(step, declared, result)
                if observe is not None:
                    observe(step.operation, variable, settled)
            for variable in step.dead:
                values.pop(variable, None)
        return [self._value(variable, values) for variable in plan.outputs]

    def _results(self, step: _Step, values: dict[Any, Any], observe: Observer | None) -> Sequence[Any]:
        match step.kind:
            case "cond":
                chosen = step.blocks[0 if bool(self._value(step.inputs["pred"], values)) else 1]
                return self._run(chosen, values, observe)
            case "while_loop":
                return self._loop(step, values, observe)
            case "coreml_update_state":
                written = self._value(step.inputs["value"], values)
                values[step.inputs["state"]] = written
                return [written]
            case "cast" if step.declared[0].dtype == "fp16" and not self._rounds:
                return [self._value(step.inputs["x"], values).to(DTYPES["fp16"])]
        definition = step.definition
        assert definition is not None
        arguments = dict(step.fixed)
        for name, argument, wants in step.varying:
            arguments[name] = self._tensors(argument, values) if wants else self._plain(argument, values)
        try:
            result = definition.compute(**arguments)
        except Refusal as error:
            raise ExecutionError(step.kind, step.operation.name, str(error)) from None
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            text = str(error).partition("\n")[0]
            raise ExecutionError(step.kind, step.operation.name, f"{type(error).__name__}: {text}") from error
        if step.varying:
            self.coverage.add(step.operation, arguments)
        for departure in step.departures:
            of_numbers = departure.of_numbers
            if (
                departure.name not in self.departures
                and of_numbers is not None
                and of_numbers(step.operation, arguments)
            ):
                self.departures[departure.name] = step.operation
        if step.kind == "cast" and not self.casts_beyond and not result.is_floating_point():
            self.casts_beyond = _is_beyond(self._value(step.inputs["x"], values), step.declared[0].dtype)
        return result if isinstance(result, (tuple, list)) else (result,)

    def _loop(self, step: _Step, values: dict[Any, Any], observe: Observer | None) -> Sequence[Any]:
        condition, body = step.blocks
        carried = [self._value(variable, values) for variable in step.inputs["loop_vars"]]
        while True:
            values.update(zip(condition.inputs, carried, strict=True))
            if not bool(self._run(condition, values, observe)[0]):
                return carried
            values.update(zip(body.inputs, carried, strict=True))
            carried = self._run(body, values, observe)

    def _value(self, variable: Any, values: dict[Any, Any]) -> Any:
        return values[variable] if variable in values else self._constant(variable)

    def _tensors(self, argument: Any, values: dict[Any, Any]) -> Any:
        if isinstance(argument, (tuple, list)):
            return [self._value(variable, values) for variable in argument]
        return self._value(argument, values)

    def _plain(self, argument: Any, values: dict[Any, Any]) -> Any:
        if isinstance(argument, (tuple, list)):
            return [self._plain(variable, values) for variable in argument]
        value = self._value(argument, values)
        return value.tolist() if isinstance(value, Tensor) else value

    def _settled(self, step: _Step, declared: Declared, result: Any) -> Any:
        """A result checked against the declared type and shape, and rounded where the type is fp16."""
        if not isinstance(result, Tensor):
            return result
        if declared.dtype in DTYPES:
            dtype = DTYPES[declared.dtype]
            if result.dtype != dtype:
                if result.is_floating_point() != dtype.is_floating_point:
                    raise ExecutionError(
                        step.kind, step.operation.name, f"gives {result.dtype}, and {declared.dtype} is declared"
                    )
                result = result.to(dtype)
            if declared.dtype == "fp16" and self._rounds and not (step.definition is None or step.definition.moves):
                result = rounded_to_half(result)
        shape = declared.shape
        if shape is not None and (
            len(shape) != result.dim()
            or any(a is not None and a != b for a, b in zip(shape, result.shape, strict=True))
        ):
            expected = "x".join("?" if size is None else str(size) for size in shape) or "a scalar"
            got = "x".join(map(str, result.shape)) or "a scalar"
            raise ExecutionError(step.kind, step.operation.name, f"gives {got}, and {expected} is declared")
        return result


_CONTROL = frozenset({"const", "cond", "while_loop", "coreml_update_state"})


def _unknown(block: Any) -> Iterator[str]:
    known = operations()
    for operation in block.operations:
        if operation.op_type not in known and operation.op_type not in _CONTROL:
            yield operation.op_type
        for inner in operation.blocks:
            yield from _unknown(inner)


def _read(operation: Any) -> Iterator[Any]:
    """The variables that an operation reads, in blocks that it holds too."""
    for argument in operation.inputs.values():
        yield from argument if isinstance(argument, (tuple, list)) else () if argument is None else (argument,)
    for block in operation.blocks:
        for inner in block.operations:
            yield from _read(inner)
        yield from block.outputs


def _declared(variable: Any) -> Declared:
    return Declared(dtype_name(variable), declared_shape(variable))


def _sizes(variable: Any) -> list[int]:
    shape = declared_shape(variable)
    if shape is None or None in shape:
        raise ValueError(f"the state {variable.name} has no fixed shape")
    return [size for size in shape if size is not None]


def _opset(operation: Any) -> int:
    """The iOS version of an operation's definition; 15 where coremltools gives none."""
    version = getattr(operation, "opset_version", None)
    name = getattr(version, "name", "")
    return int(name.removeprefix("iOS")) if name.startswith("iOS") else 15


def _as_declared(value: Tensor, dtype: str) -> Tensor:
    """An input as Core ML takes it: converted to the declared type."""
    return as_dtype(value.detach(), dtype)


def _is_beyond(value: Any, dtype: str) -> bool:
    """Whether a float lies beyond the range of a signed type of integers, or any float below that of an unsigned one."""
    bits = dtype.lstrip("uint")
    if dtype == "bool" or not (isinstance(value, Tensor) and value.is_floating_point() and value.numel()):
        return False
    low, high = (
        (0.0, 2.0 ** int(bits)) if dtype.startswith("u") else (-(2.0 ** (int(bits) - 1)), 2.0 ** (int(bits) - 1))
    )
    least, most = value.trunc().aminmax()
    return not (low <= float(least) and float(most) < high)


def _text(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value

"""Predictor: a converted program that predicts as Core ML would, with inputs and outputs in the order of the model's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from torch import Tensor

from modellint.destinations.comparison.program import Misfit
from modellint.destinations.coreml.capture.graph_interpreter import sanitized
from modellint.destinations.coreml.mil.executor import Executor, Observer
from modellint.destinations.coreml.mil.operation_registry import operations
from modellint.destinations.coreml.package.size_boundary_constants import in_program
from modellint.destinations.coreml.private.mil_programs import dtype_name, is_state, output_names, updated_states
from modellint.live.inputs.branch_boundary_sizes import Thresholds


class Predictor:
    """A program, and the states that it starts with.

    Args:
        program: A MIL program.
        buffers: The model's tensors by name: a state that is called like one starts with its value, others with zeros.
        names: Of the model's arguments; where the program's inputs are called like them, that is their order.
        prepared: What is done to a tensor of the model's before the program's input of that name takes it.
        sizes: For inputs of a package that takes some sizes alone these in words, and whether a shape is among them.
        rounds: Whether fp16 numbers are rounded to half precision.

    Raises:
        UnknownOperations: For a program that cannot be executed.
    """

    def __init__(
        self,
        program: Any,
        buffers: Mapping[str, Tensor] | None = None,
        names: Sequence[str] = (),
        prepared: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
        *,
        sizes: Mapping[str, tuple[str, Callable[[Sequence[int]], bool]]] | None = None,
        rounds: bool = True,
    ) -> None:
        self.program = program
        self.executor = Executor(program, rounds=rounds)
        order = [sanitized(name) for name in names]
        self.input_names = order if set(order) == set(self.executor.inputs) else list(self.executor.inputs)
        """In the order of the model's own."""
        self._prepared = prepared or {}
        self._sizes = sizes or {}
        self.output_names = output_names(program)
        known = {sanitized(name): value.detach().clone() for name, value in (buffers or {}).items()}
        self.buffers = {sanitized(name): name for name in (buffers or {}) if sanitized(name) in self.executor.states}
        """The model's buffer that each state is, by the name of the state."""
        self._initial = {name: known.get(name, state) for name, state in self.executor.states.items()}
        self.is_stateful = bool(self._initial)

    @property
    def initial(self) -> Mapping[str, Tensor]:
        """The states as a prediction finds them that is the first."""
        return self._initial

    @property
    def states(self) -> Mapping[str, Tensor]:
        """The states as the last prediction left them."""
        return self.executor.states

    @property
    def updated(self) -> set[str]:
        """The names of the states that the program writes."""
        return updated_states(self.program)

    adds_in_order = False
    """It adds as PyTorch does."""

    @property
    def casts_beyond(self) -> bool:
        """Whether the last run cast numbers beyond the range of integers."""
        return bool(self.executor.casts_beyond)

    @property
    def unreached(self) -> int:
        """How many sides of bounds, comparisons and choices no input has reached."""
        return self.executor.coverage.unreached

    @property
    def sides(self) -> int:
        """How many sides of bounds, comparisons and choices there are."""
        return self.executor.coverage.sides

    def counted(self, leaves: Sequence[Any]) -> Mapping[Any, tuple[int, ...]]:
        """How many elements are below and above each bound, and each comparison of numbers, by operation."""
        coverage = self.executor.coverage
        counts: dict[Any, tuple[int, ...]] = {}
        coverage.counted = counts
        try:
            self.in_a_row([leaves])
        finally:
            coverage.counted = None
        return counts

    @property
    def thresholds(self) -> Thresholds:
        """The numbers that the program holds sizes against."""
        return in_program(self.program)

    def __call__(self, leaves: Sequence[Any], count: int = 1, observe: Observer | None = None) -> list[list[Tensor]]:
        """The outputs of ``count`` predictions in a row on the same inputs, flat as the model gives them; the last is observed.

        Raises ``Misfit``, and ``ExecutionError`` where the program cannot be run.
        """
        return self.in_a_row([leaves] * count, observe)

    def in_a_row(self, steps: Sequence[Sequence[Any]], observe: Observer | None = None) -> list[list[Tensor]]:
        """The outputs of predictions in a row, each on inputs of its own."""
        self.executor.begin(self._initial)
        predictions = []
        for at, leaves in enumerate(steps, 1):
            results = self.executor(self.named(leaves), observe if at == len(steps) else None)
            predictions.append([results[name] for name in self.output_names])
        return predictions

    def named(self, leaves: Sequence[Any]) -> dict[str, Tensor]:
        """The inputs by the names that the program has for them. Raises ``Misfit``."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if len(tensors) != len(self.executor.inputs):
            raise Misfit(f"the program takes {len(self.executor.inputs)} inputs, the model {len(tensors)}")
        arguments = {}
        for name, tensor in zip(self.input_names, tensors, strict=True):
            declared = self.executor.inputs[name]
            # A number on its own is a tensor of one element to Core ML.
            is_wrapped = not tensor.dim() and declared.shape == (1,)
            arguments[name] = tensor.reshape(1) if is_wrapped else tensor
            shape = declared.shape
            if shape is not None and (
                len(shape) != arguments[name].dim()
                or any(a is not None and a != b for a, b in zip(shape, arguments[name].shape, strict=True))
            ):
                raise Misfit(f"the input {name} is of the shape {_shown(shape)}, and not {_shown(tuple(tensor.shape))}")
            text, takes = self._sizes.get(name, ("", _anything))
            if not takes(arguments[name].shape):
                raise Misfit(f"the package takes {name} of {text}, and not of {_shown(tuple(tensor.shape))}")
            if name in self._prepared:
                arguments[name] = self._prepared[name](arguments[name])
        return arguments

    def decompressed(self) -> list[Tensor]:
        """The decompressed weights."""
        return self.executor.expanded

    def unrounded(self) -> Predictor:
        """The same, with fp16 numbers that are not rounded."""
        twin = copy(self)
        twin.executor = Executor(self.program, rounds=False)
        return twin


def _anything(shape: Sequence[int]) -> bool:
    return True


def keeps_states(program: Any) -> bool:
    """Whether a program has states, which Core ML keeps in float16 whatever the program computes in."""
    return any(is_state(variable) for function in program.functions.values() for variable in function.inputs.values())


def is_compressed(program: Any) -> bool:
    """Whether a program has compressed weights."""
    return any(operation.op_type.startswith("constexpr_") for operation in _operations(program))


def computes_in_half(program: Any) -> bool:
    """Whether a program does arithmetic in float16.

    Operations that move numbers or cast them do none, nor is it rounded where truth values or integers are added up in float16,
    as coremltools has them gathered.
    """
    known = operations()
    exact: set[Any] = set()
    for operation in _operations(program):
        operands = [variable for argument in operation.inputs.values() for variable in _variables(argument)]
        if operation.op_type == "const":
            if _is_whole(operation.outputs[0].val):
                exact.update(operation.outputs)
            continue
        is_exact = all(variable in exact or dtype_name(variable) not in _FLOATS for variable in operands)
        if is_exact:
            exact.update(operation.outputs)
        moves = operation.op_type in _OF_STATES or (operation.op_type in known and known[operation.op_type].moves)
        if not is_exact and not moves and any(dtype_name(variable) == "fp16" for variable in operation.outputs):
            return True
    return False


def _operations(program: Any) -> Iterator[Any]:
    pending = [block for function in program.functions.values() for block in (function,)]
    while pending:
        for operation in pending.pop().operations:
            yield operation
            pending.extend(operation.blocks)


def _variables(argument: Any) -> Iterator[Any]:
    if isinstance(argument, (list, tuple)):
        yield from argument
    elif argument is not None:
        yield argument


def _is_whole(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)) or not np.issubdtype(np.asarray(value).dtype, np.floating):
        return True
    return value.size == 1 and bool(value == np.round(value))


_FLOATS = frozenset({"fp16", "fp32"})
_OF_STATES = frozenset({"const", "cast", "read_state", "coreml_update_state"})


def _shown(shape: Sequence[int | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "a scalar"

"""Provenance of tensors in a run: what was computed from the inputs or from state, and what state was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from modellint.live.capture.records import Run, TensorFact


def facts_in(value: Any) -> Iterator[TensorFact]:
    """The tensors among the arguments or results of a call, also inside lists and dicts."""
    if isinstance(value, TensorFact):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from facts_in(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from facts_in(part)


class Reach:
    """The tensors of a run that were computed from something, and that itself."""

    def __init__(
        self, run: Run, starts: Callable[[TensorFact], bool], without: Callable[[str], bool] = lambda operator: False
    ) -> None:
        """``without`` says of an operator's name whether what it gives does not count."""
        self._starts = starts
        self._tensors: set[int] = set()
        self._storages: set[int] = set()
        for operator in run.operators:
            operands = [*facts_in(operator.arguments), *facts_in(operator.keywords)]
            for fact in operands:
                if starts(fact):
                    self._add(fact)
            if any(fact in self for fact in operands) and not without(operator.name):
                for fact in operator.outputs:
                    self._add(fact)

    @classmethod
    def of_inputs(cls, run: Run) -> Reach:
        """What the run computed from its inputs."""
        return cls(run, is_input)

    @classmethod
    def of_values(cls, run: Run) -> Reach:
        """What depends on the values of the inputs, and not on their shapes only."""
        return cls(run, is_input, tells_shape_only)

    def __contains__(self, fact: object) -> bool:
        # No operator may have taken what it starts from.
        return isinstance(fact, TensorFact) and (
            self._starts(fact) or fact.tensor in self._tensors or fact.storage in self._storages
        )

    def _add(self, fact: TensorFact) -> None:
        self._tensors.add(fact.tensor)
        # A view that an operator returns may reach the next as another object.
        if fact.storage >= 0:
            self._storages.add(fact.storage)


def tells_shape_only(operator: str) -> bool:
    """Whether an operator (``aten::zeros_like``) gives nothing of the values of its operands."""
    name = operator.rpartition("::")[2]
    return name.endswith("_like") or name.startswith("new_") or name in ("_shape_as_tensor", "zero_", "arange", "full")


def is_input(fact: TensorFact) -> bool:
    """Whether a tensor is one that the model was given."""
    return fact.is_input


def state_read(run: Run) -> frozenset[str]:
    """The names of the model's own tensors that an operator took."""
    return frozenset(
        fact.name
        for operator in run.operators
        for fact in (*facts_in(operator.arguments), *facts_in(operator.keywords))
        if fact.name is not None and not is_input(fact)
    )


def inputs_of(run: Run) -> tuple[TensorFact, ...]:
    """The tensors that the model was given and used, each once."""
    inputs: dict[int, TensorFact] = {}
    for operator in run.operators:
        for fact in (*facts_in(operator.arguments), *facts_in(operator.keywords)):
            if is_input(fact):
                inputs.setdefault(fact.tensor, fact)
    return tuple(inputs.values())

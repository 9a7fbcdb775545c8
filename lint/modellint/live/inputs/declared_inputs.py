"""Declared inputs: tensors that a model is called with, given by shape, type and range in place of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modellint.live.inputs import input_spec
from modellint.live.inputs.model_inputs import Inputs, with_lists


@dataclass(frozen=True)
class Input:
    """A tensor that a model is called with, by its shape, as ``--input`` has it: numbers are drawn for it.

    Args:
        shape: Sizes; a tuple is a pair of bounds of a size that may vary, ``(1, 8)``, a list names its sizes, ``[16, 64, 256]``.
        dtype: A type of PyTorch, or its name.
        low: The lowest value. Without a range floats are normally distributed, and integers 0 or 1.
        high: Above the highest value.

    Raises:
        ValueError: Where it is used, for what means nothing.
    """

    shape: Sequence[int | tuple[int, int] | list[int]]
    dtype: Any = "float32"
    low: float | None = None
    high: float | None = None

    def specification(self) -> input_spec.InputSpec:
        """The same as ``--input`` has it."""
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self}: give both low and high, or neither")
        span = "" if self.low is None else f"[{self.low},{self.high})"
        text = f"{'x'.join(map(_size, self.shape))}:{str(self.dtype).removeprefix('torch.')}{span}"
        try:
            return input_spec.parse(text, Path())
        except input_spec.InputError as error:
            raise ValueError(f"{self}: {str(error).partition(': ')[2]}") from None


def _size(size: int | tuple[int, int] | list[int]) -> str:
    if isinstance(size, int):
        return str(size)
    return ("/" if isinstance(size, list) else "..").join(map(str, size))


def inputs_of(declared: Any) -> Inputs:
    """The same as ``Inputs.of``, with a tensor, its flexible dimensions and its range for each ``Input``.

    Raises:
        ValueError: For an ``Input`` that means nothing.
    """
    inputs = Inputs.of(declared)
    named: dict[str | int, Any] = dict(enumerate(inputs.args))
    named.update(inputs.kwargs)
    specs = {key: value.specification() for key, value in named.items() if isinstance(value, Input)}
    if not specs:
        return inputs
    drawn = {key: input_spec.build([spec], seed).args[0] for seed, (key, spec) in enumerate(specs.items())}
    args = tuple(drawn.get(at, value) for at, value in enumerate(inputs.args))
    kwargs = {name: drawn.get(name, value) for name, value in inputs.kwargs.items()}
    limits = {key: bounds["0"] for key, spec in specs.items() if (bounds := input_spec.flexible([spec]))}
    ranges = {key: spec.range for key, spec in specs.items() if spec.range is not None}
    return Inputs(args, kwargs, with_lists(limits), ranges)

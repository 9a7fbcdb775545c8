"""Departures of devices: operations that Core ML's runtime is known to compute otherwise than its specification says, or not to run.

``data/devices.json`` says what was published of each, by its name; a condition here tells where a program meets it, either of the
operation as it stands or of the numbers that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modellint.data.device_results import DEPARTURES, Published
from modellint.destinations.coreml.private.mil_programs import declared_shape, dtype_name

_AsItStands = Callable[[Any], bool]
"""Of an operation of a program."""
_OfNumbers = Callable[[Any, Mapping[str, Any]], bool]
"""Of an operation and its arguments, by name."""

_SOFTPLUS_FROM = 10.4
"""From here on the Neural Engine gives 0 (coremltools #2687)."""
_EXACT = 2**24
"""Up to here float32, in which integers are computed, holds each of them."""
_LARGEST_HALF = 65504.0
_LARGEST_SINGLE = 3.4e38
_MOST_IN_A_BATCH = 9
"""Attention of more is wrong on the GPU (coremltools #2650)."""
_LONG_REFLECTION = 1024


class Departure(NamedTuple):
    """What devices are known to do otherwise, and where that holds."""

    name: str
    published: Published
    as_it_stands: _AsItStands | None
    of_numbers: _OfNumbers | None

    def may_hold(self, operation: Any) -> bool:
        """Whether an operation, as it stands, is one that it is about."""
        half = dtype_name(operation.outputs[0]) == "fp16"
        if self.published.precision == "float16" and not half:
            return False
        return self.as_it_stands is None or self.as_it_stands(operation)


_AS_IT_STANDS: dict[str, _AsItStands] = {}
_OF_NUMBERS: dict[str, _OfNumbers] = {}


@cache
def departures() -> Mapping[str, tuple[Departure, ...]]:
    """All departures, by the operations that they are about."""
    known: dict[str, list[Departure]] = {}
    for name, published in DEPARTURES.items():
        departure = Departure(name, published, _AS_IT_STANDS.get(name), _OF_NUMBERS.get(name))
        for kind in published.operations:
            known.setdefault(kind, []).append(departure)
    return {kind: tuple(each) for kind, each in known.items()}


def _stands(name: str) -> Callable[[_AsItStands], _AsItStands]:
    def register(condition: _AsItStands) -> _AsItStands:
        _AS_IT_STANDS[name] = condition
        return condition

    return register


def _given(name: str) -> Callable[[_OfNumbers], _OfNumbers]:
    def register(condition: _OfNumbers) -> _OfNumbers:
        _OF_NUMBERS[name] = condition
        return condition

    return register


@_given("softplus")
def _beyond_softplus(_: Any, arguments: Mapping[str, Any]) -> bool:
    x = arguments["x"]
    return bool(x.numel()) and float(x.max()) > _SOFTPLUS_FROM


@_given("log-sum-exp")
def _overflows(operation: Any, arguments: Mapping[str, Any]) -> bool:
    """The sum of the exponentials is taken without the largest element having been subtracted."""
    x: Tensor = arguments["x"]
    axes = arguments.get("axes")
    over = tuple(axes) if axes else tuple(range(x.dim()))
    if not x.numel() or not over:
        return False
    # The executor holds fp16 numbers in float32.
    largest = _LARGEST_HALF if dtype_name(operation.outputs[0]) == "fp16" else _LARGEST_SINGLE
    finite = torch.where(x.isfinite(), x, 0.0).double()
    logs = torch.logsumexp(finite, over)
    return bool((logs > math.log(largest)).any() or (finite.amax(over) < -math.log(largest)).any())


@_given("arg-of-nan")
def _has_nan(_: Any, arguments: Mapping[str, Any]) -> bool:
    x = arguments["x"]
    return bool(x.is_floating_point() and x.isnan().any())


@_given("large-integers")
def _beyond_exact(_: Any, arguments: Mapping[str, Any]) -> bool:
    given = [value for value in arguments.values() if isinstance(value, Tensor) and value.dtype == torch.int32]
    if "cond" in arguments and len(given) > 1:
        # What `select` does not take is lost in any case.
        given = [torch.where(arguments["cond"].bool(), arguments["a"], arguments["b"])]
    return any(bool(value.numel()) and int(value.long().abs().max()) > _EXACT for value in given)


@_stands("integer-product")
def _of_integers(operation: Any) -> bool:
    return dtype_name(operation.inputs["x"]).startswith(("int", "uint"))


@_stands("average-of-49")
def _is_average_of_49(operation: Any) -> bool:
    pads = _numbers(operation, "pad")
    return (
        set(_numbers(operation, "kernel_sizes")) == {7}
        and set(_numbers(operation, "strides")) == {4}
        and set(pads) == {3}
    )


@_stands("convolution-3x2")
def _is_convolution_3x2(operation: Any) -> bool:
    weight = declared_shape(operation.inputs["weight"]) or ()
    return (
        weight[2:] == (3, 2)
        and (weight[1] or 0) > 1
        and set(_numbers(operation, "strides")) == {2}
        and set(_numbers(operation, "pad")) == {1}
    )


@_stands("instance-norm-3d")
def _has_five_axes(operation: Any) -> bool:
    shape = declared_shape(operation.inputs["x"])
    return shape is not None and len(shape) == 5


_AS_IT_STANDS["batch-norm-3d"] = _has_five_axes


@_stands("transposed-convolution")
def _is_cut_on_one_side(operation: Any) -> bool:
    pads = _numbers(operation, "pad")
    return operation.inputs.get("output_shape") is not None and pads[::2] != pads[1::2]


@_stands("unnormalized-resample")
def _is_unnormalized(operation: Any) -> bool:
    return bool(operation.inputs["coordinates_mode"].val == "unnormalized")


@_stands("long-reflection")
def _is_long_reflection(operation: Any) -> bool:
    mode = operation.inputs.get("mode")
    return mode is not None and mode.val == "reflect" and max(_numbers(operation, "pad"), default=0) >= _LONG_REFLECTION


@_stands("attention-of-ten")
def _is_attention_of_ten(operation: Any) -> bool:
    """Softmax of a product and a bias, whose result is multiplied."""
    shape = declared_shape(operation.outputs[0]) or ()
    if len(shape) < 3 or (shape[0] or 0) <= _MOST_IN_A_BATCH:
        return False
    added = operation.inputs["x"].op
    if added is None or added.op_type != "add":
        return False
    of_product = any(value.op is not None and value.op.op_type == "matmul" for value in _operands(added, "x", "y"))
    return of_product and any(reader.op_type == "matmul" for reader in operation.outputs[0].child_ops)


def _operands(operation: Any, *names: str) -> Iterator[Any]:
    return (operation.inputs[name] for name in names if operation.inputs.get(name) is not None)


def _numbers(operation: Any, name: str) -> list[int]:
    """A constant input of an operation, as numbers; empty where it has none."""
    value = operation.inputs.get(name)
    known = None if value is None else value.val
    return [] if known is None else [int(number) for number in known]

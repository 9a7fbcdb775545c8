"""Intermediate values: which node of a decomposed program is the first that Apple's interpreter computes otherwise than PyTorch."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.comparison.tensor_difference import LIMIT, error_over_scale, loses_infinity

ABOVE_NOISE = 10.0
"""By how much an error has to exceed that of rounding."""
_AT_ONCE = 200
"""How many values a program gives at once."""
_FIRST = 32
"""With how many nodes the search for one that fails begins."""
_LARGEST = 1 << 22
"""How many elements a value may have that is looked at."""


class Departure(NamedTuple):
    """A node whose value is not PyTorch's, where those before it are."""

    node: Any
    error: float
    """Over PyTorch's scale."""
    shape: tuple[int, ...]


def first_departure(
    exported: Any,
    run: Callable[[Sequence[Any], bool], Mapping[str, Tensor]],
    leaves: Sequence[Tensor],
    nudged: Sequence[Tensor],
) -> Departure | None:
    """The first node in the order of the graph whose value departs; None where none does once it is an output.

    First all values are outputs; where none departs then, as the converter joins operations, one alone, by bisection.

    ``run`` gives the interpreter's values of nodes, by name, as further outputs, or as the only ones. ``nudged`` are the inputs
    changed by rounding: an error that is no larger than what that changes is none.
    """
    wanted = _nodes(exported)
    right, around = _values(exported, leaves, wanted), _values(exported, nudged, wanted)

    def off(node: Any, found: Mapping[str, Tensor]) -> float | None:
        return _error(found[node.name], right[node.name], around[node.name]) if node.name in found else None

    at = _first_of_all(wanted, lambda nodes: run(nodes, False), off)
    if at is None:
        at = _first_alone(wanted, lambda node: off(node, run([node], True)))
    return None if at is None else Departure(wanted[at[0]], at[1], tuple(right[wanted[at[0]].name].shape))


def first_failing(exported: Any, run: Callable[[Sequence[Any]], object]) -> Any:
    """The first node in the order of the graph with which a program is refused, by bisection; None where it is with none.

    ``run`` converts the program with some nodes as its only outputs, or runs it too, and raises where that is refused.
    """
    nodes = computed(exported)

    def fails(end: int) -> bool:
        try:
            run(ends_of(nodes[:end]))
        except Exception:
            return True
        return False

    end = first_that(len(nodes), fails)
    return None if end is None else made(nodes[end - 1])


def computed(exported: Any) -> list[Any]:
    """The nodes of a program that compute a tensor that is used, in the order of the graph."""
    return [
        node
        for node in exported.graph.nodes
        if node.op == "call_function" and node.users and isinstance(node.meta.get("val"), Tensor)
    ]


def ends_of(nodes: Sequence[Any]) -> list[Any]:
    """Of the first nodes of a program those that none of them takes: with those as outputs all are computed."""
    before = set(nodes)
    return [node for node in nodes if not before.intersection(node.users)]


def made(node: Any) -> Any:
    """The node that computes what a node gives: that which gives several, of which it is one."""
    return node.args[0] if node.target is operator.getitem else node


def first_that(count: int, fails: Callable[[int], bool]) -> int | None:
    """The smallest number, up to ``count``, of first nodes with which a program fails, by bisection; None where it does with none."""
    first, last = 0, min(count, _FIRST)
    while last < count and not fails(last):
        # From below: a failure may cost more than a success.
        first, last = last, min(4 * last, count)
    if not count or (last == count and not fails(last)):
        return None
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if fails(middle) else (middle, last)
    return last


def of_one_kind(exported: Any, node: Any) -> list[Any]:
    """A node, and all of its operator that take the same types."""

    def kind(each: Any) -> Any:
        return each.target, [
            value.dtype for of in each.all_input_nodes if isinstance(value := of.meta.get("val"), Tensor)
        ]

    return [each for each in exported.graph.nodes if each.op == "call_function" and kind(each) == kind(node)]


def _first_of_all(
    wanted: Sequence[Any],
    run: Callable[[Sequence[Any]], Mapping[str, Tensor]],
    off: Callable[[Any, Mapping[str, Tensor]], float | None],
) -> tuple[int, float] | None:
    first, last = 0, len(wanted)
    while first < last:
        step = -(-(last - first) // _AT_ONCE)
        places = [*range(first + step - 1, last - 1, step), last - 1]
        found = run([wanted[at] for at in places])
        before = first
        for at in places:
            if (error := off(wanted[at], found)) is not None:
                break
            before = at + 1
        else:
            return None
        if before == at:
            return at, error
        first, last = before, at + 1
    return None


def _first_alone(wanted: Sequence[Any], off: Callable[[Any], float | None]) -> tuple[int, float] | None:
    """By bisection, as if all that come after one that departs did, too."""
    first, last, found = 0, len(wanted), None
    while first < last:
        # The last first: where that does not depart there is nothing to be found.
        at = (first + last) // 2 if found else last - 1
        error = off(wanted[at])
        if error is not None:
            last, found = at, (at, error)
        elif found is None:
            return None
        else:
            first = at + 1
    return found


def _error(value: Tensor, right: Tensor, around: Tensor) -> float | None:
    if loses_infinity(value, right) and not loses_infinity(around, right):
        return math.inf
    error = error_over_scale(value, right)
    return error if error > LIMIT and error > ABOVE_NOISE * error_over_scale(around, right) else None


def _nodes(exported: Any) -> list[Any]:
    """The nodes whose values may be outputs."""
    (output,) = exported.graph.find_nodes(op="output")
    given = {id(node) for node in output.args[0]}
    return [
        node
        for node in exported.graph.nodes
        if node.op == "call_function"
        and id(node) not in given
        and isinstance(value := node.meta.get("val"), Tensor)
        and value.dtype is not torch.bool
        and all(isinstance(size, int) for size in value.shape)
        and 0 < value.numel() <= _LARGEST
    ] + [node for node in dict.fromkeys(output.args[0]) if getattr(node, "op", "") == "call_function"]


def _values(exported: Any, leaves: Sequence[Tensor], wanted: Sequence[Any]) -> dict[str, Tensor]:
    """PyTorch's values of nodes, by name."""
    names = {node.name for node in wanted}
    values: dict[str, Tensor] = {}

    class Recorder(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            # What stands before may give other strides here than where the program was decomposed.
            return super().call_function(
                torch.reshape if target is torch.ops.aten.view.default else target, args, kwargs
            )

        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if n.name in names:
                values[n.name] = value.detach().clone()
            return value

    with torch.no_grad():
        Recorder(exported.graph_module).run(*_arguments(exported, leaves), enable_io_processing=False)
    return values


def _arguments(exported: Any, leaves: Sequence[Tensor]) -> Iterator[Any]:
    """What the graph takes: parameters, buffers, constants, and the inputs in their order."""
    from torch.export.graph_signature import ConstantArgument, InputKind

    remaining = iter(leaves)
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield spec.arg.value if isinstance(spec.arg, ConstantArgument) else next(remaining).clone()
        else:
            held = exported.state_dict if spec.target in exported.state_dict else exported.constants
            yield held[spec.target].clone()


@contextmanager
def with_outputs(exported: Any, nodes: Sequence[Any], alone: bool) -> Iterator[None]:
    """The scope in which a program gives the values of nodes, each by its name, beside its own outputs or ``alone``."""
    from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

    (output,) = exported.graph.find_nodes(op="output")
    args, specs = output.args, exported.graph_signature.output_specs
    before = list(specs)
    kept = [
        (node, spec)
        for node, spec in zip(args[0], before, strict=True)
        if not alone or spec.kind is not OutputKind.USER_OUTPUT
    ]
    given = [node for node, _ in kept]
    added = [
        (node, OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=node.name), None))
        for node in nodes
        if node not in given
    ]
    output.args = (tuple(node for node, _ in kept + added),)
    specs[:] = [spec for _, spec in kept + added]
    try:
        yield
    finally:
        output.args = args
        specs[:] = before

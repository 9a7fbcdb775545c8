"""Scripted branches: what functions that TorchScript compiles ask of ranks and sizes in a traced model, decided for its inputs.

A trace calls what `torch.jit.script` has compiled, branches and loops included. Of inputs of one size they are decided; coremltools
converts both branches, and refuses them where they differ in rank, as of `if x.dim() == 1: x = x.unsqueeze(0)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.jit import _script, _trace

NOTE = "compiled functions take the branches that the inputs' sizes decide"
"""What is said where that was done."""


@contextmanager
def left_to_python() -> Iterator[None]:
    """Let a trace run the functions that it would compile, those of `torch.jit.script_if_tracing`: their branches are taken, not kept."""
    compiles: Any = torch.jit.script

    def script(what: Any, *args: Any, **kwargs: Any) -> Any:
        in_trace = torch._C._get_tracing_state() is not None
        return what if in_trace and inspect.isfunction(what) else compiles(what, *args, **kwargs)

    places: Any = (torch.jit, _script, _trace)
    try:
        for place in places:
            place.script = script
        yield
    finally:
        for place in places:
            place.script = compiles


def are_decided(program: Any) -> bool:
    """Whether a TorchScript module has branches or loops, and the sizes of its inputs decide all of them; those are gone then.

    Not where it takes a number out of what is computed of its inputs, too: Python would keep that of the example.
    """
    if not _places(program.inlined_graph) or not fold(program):
        return False
    graph = program._c._get_method("forward").graph
    given = {value.debugName() for value in list(graph.inputs())[1:]}
    return not any(_rests_on(node, given) for kind in _TAKES_NUMBERS for node in graph.findAllNodes(kind))


def _rests_on(node: Any, given: set[str]) -> bool:
    """Whether values of inputs, and not their sizes alone, decide what a node gives."""
    seen: set[str] = set()
    pending = [*node.inputs()]
    for value in pending:
        if value.debugName() in given:
            return True
        if value.debugName() not in seen and value.node().kind() not in _OF_SIZES:
            seen.add(value.debugName())
            pending += value.node().inputs()
    return False


_TAKES_NUMBERS = (
    *("aten::item", "aten::Int", "aten::Float", "aten::Bool", "prim::tolist"),
    *("aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit", "aten::ComplexImplicit"),
)
"""TorchScript's operators that give a number of Python's for a tensor."""
_OF_SIZES = frozenset({"aten::size", "aten::dim", "aten::len", "aten::numel", "prim::dtype", "prim::device"})
"""What it knows of a tensor without its values."""


def fold(program: Any) -> bool:
    """Fold the branches and loops of a TorchScript module that its inputs' types decide, in place; whether none is left.

    It is left as it is where the types do not tell all sizes. Copies of a module share its graph.
    """
    graph = program._c._get_method("forward").graph
    inputs = [_like(value.type()) for value in list(graph.inputs())[1:]]
    if any(value is None for value in inputs):
        return False
    torch._C._jit_pass_inline(graph)
    passes: Any = torch._C
    left = _places(graph)
    if left and not _counts_from_the_front(graph):
        return False
    count = left + 1
    while left and left < count:
        # What a branch gives has a shape once the branch is gone.
        count = left
        try:
            passes._jit_pass_complete_shape_analysis(graph, (program._c, *inputs), False)
        except (RuntimeError, IndexError):
            # It runs operators on zeros, which an embedding may not take.
            return False
        passes._jit_pass_peephole(graph, False)
        passes._jit_pass_constant_propagation(graph)
        left = _places(graph)
    _spell_out_lists(graph)
    return not left


def _spell_out_lists(graph: Any) -> None:
    """Make lists of numbers of what are constant lists now: coremltools reads the text of these, as in `[1]`."""
    for node in graph.findAllNodes("prim::Constant"):
        kind = node.output().type()
        values = node.output().toIValue() if kind.kind() == "ListType" else None
        if values is None or not all(isinstance(value, (bool, int, float)) for value in values):
            continue
        with graph.insert_point_guard(node):
            parts = [graph.insertConstant(value) for value in values]
            made = graph.insertNode(graph.create("prim::ListConstruct", parts, 1))
        made.output().setType(kind)
        node.output().replaceAllUsesWith(made.output())
        node.destroy()


def _counts_from_the_front(graph: Any) -> bool:
    """Let `chunk` count its dimension from the front; whether that could be told of all.

    PyTorch's shape analysis writes the length of a part beside the sizes where it is negative, and the process ends sooner or later
    (torch 2.13, 2.14: `free(): invalid size`).
    """
    for node in graph.findAllNodes("aten::chunk"):
        operand, _, dimension = node.inputs()
        counted = dimension.toIValue()
        if counted is None:
            return False
        if counted < 0:
            rank = operand.type().dim() if operand.type().kind() == "TensorType" else None
            if rank is None:
                return False
            with graph.insert_point_guard(node):
                node.replaceInput(2, graph.insertConstant(counted + rank))
    return True


def _places(graph: Any) -> int:
    return len(graph.findAllNodes("prim::If")) + len(graph.findAllNodes("prim::Loop"))


def _like(kind: Any) -> torch.Tensor | None:
    """Zeros of a tensor's type; None where it does not tell the sizes."""
    if kind.kind() != "TensorType" or kind.sizes() is None or kind.dtype() is None or None in kind.sizes():
        return None
    return torch.zeros(kind.sizes(), dtype=kind.dtype())

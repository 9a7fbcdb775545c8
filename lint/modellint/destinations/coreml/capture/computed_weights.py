"""Constant folding of convolutions' weights in an exported program: what is computed of constants alone becomes one.

MIL's convolutions ask for weights that are constant, and coremltools folds little by itself: not a kernel that is written into
zeros (`weight[indices, indices] = kernel`). The numbers are those that PyTorch computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

_CONVOLUTIONS = frozenset({"convolution"} | {f"conv{n}d" for n in "123"} | {f"conv_transpose{n}d" for n in "123"})
_FILLED = frozenset({"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"})
"""Operators that ask a tensor for its type and shape, not for its numbers."""


class _Unknown(Exception):
    """A number that is known only when the model runs."""


def fold(program: Any) -> None:
    """Put constants in the place of convolutions' weights that are computed of constants, in the exported program itself."""
    graph = program.graph
    folding = _Folding(program)
    weights = {node.args[1]: None for node in graph.nodes if _name(node) in _CONVOLUTIONS}
    changed = False
    for weight in weights:
        if weight.op == "call_function" and (value := folding.value(weight)) is not None:
            _replace(program, weight, value)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


class _Folding:
    """The numbers of a graph's nodes that depend on no input."""

    def __init__(self, program: Any) -> None:
        self._known: dict[Any, Tensor] = {}
        written = {*program.graph_signature.buffers_to_mutate.values()}
        kept = {**program.state_dict, **program.constants}
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        for node in program.graph.nodes:
            spec = specs.get(node.name) if node.op == "placeholder" else None
            if spec is not None and spec.target not in written and isinstance(kept.get(spec.target), Tensor):
                self._known[node] = kept[spec.target].detach()

    def value(self, node: Any) -> Tensor | None:
        """What a node computes; None where it depends on inputs, on chance, or is no tensor."""
        try:
            with torch.no_grad():
                for step in self._steps(node):
                    self._known[step] = self._computed(step)
        except _Unknown:
            return None
        return self._known[node]

    def _steps(self, node: Any) -> Iterator[Any]:
        """What is to be computed for a node, operands first."""
        pending, seen = [node], set[Any]()
        while pending:
            step = pending[-1]
            if step in self._known:
                pending.pop()
            elif step in seen:
                yield pending.pop()
            else:
                if step.op != "call_function" or not _is_pure(step.target):
                    raise _Unknown
                seen.add(step)
                pending += () if _name(step) in _FILLED else step.all_input_nodes

    def _computed(self, node: Any) -> Tensor:
        operand = _like if _name(node) in _FILLED else self._known.__getitem__
        args, kwargs = pytree.tree_map_only(torch.fx.Node, operand, (node.args, node.kwargs))
        result = node.target(*args, **kwargs)
        if not isinstance(result, Tensor):
            raise _Unknown
        return result


def _like(node: Any) -> Tensor:
    """A tensor of a node's type and shape."""
    shown = node.meta.get("val")
    if not isinstance(shown, Tensor) or not all(isinstance(size, int) for size in shown.shape):
        raise _Unknown
    return torch.zeros((), dtype=shown.dtype).expand(shown.shape)


def _is_pure(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _replace(program: Any, weight: Any, value: Tensor) -> None:
    """Make a value a constant of the program, and give it to convolutions in a node's place."""
    signature, graph = program.graph_signature, program.graph
    kinds = [spec.kind for spec in signature.input_specs]
    at = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
    # Inputs come first, in the order of the signature.
    with graph.inserting_before([*graph.nodes][at]):
        constant = graph.placeholder(f"folded_{weight.name}")
    constant.meta["val"] = weight.meta["val"]
    # The model may return it, too: outputs have the names of their nodes.
    weight.replace_all_uses_with(constant, delete_user_cb=lambda user: _name(user) in _CONVOLUTIONS)
    signature.input_specs.insert(
        at, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), constant.name, None)
    )
    # Other captures may have the same dictionary.
    program._constants = {**program.constants, constant.name: value.contiguous().clone()}


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.removeprefix("aten::") if schema is not None else ""

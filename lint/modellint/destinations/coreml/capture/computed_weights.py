"""Constant folding of convolutions' weights in an exported program: what is computed of constants alone becomes one.

MIL's convolutions ask for weights that are constant, and coremltools folds little by itself: not a kernel that is written into
zeros (`weight[indices, indices] = kernel`). The numbers are those that PyTorch computes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from modellint.destinations.capture.known_values import KnownValues

_CONVOLUTIONS = frozenset({"convolution"} | {f"conv{n}d" for n in "123"} | {f"conv_transpose{n}d" for n in "123"})


def fold(program: Any) -> None:
    """Put constants in the place of convolutions' weights that are computed of constants, in the exported program itself."""
    graph = program.graph
    known = KnownValues(program)
    weights = {node.args[1]: None for node in graph.nodes if _name(node) in _CONVOLUTIONS}
    changed = False
    for weight in weights:
        if weight.op == "call_function" and (value := known.value(weight)) is not None:
            _replace(program, weight, value)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


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

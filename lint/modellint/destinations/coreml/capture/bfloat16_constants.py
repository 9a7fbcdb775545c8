"""Constants of bfloat16, which Core ML does not have, as the float32 numbers that they are."""

from __future__ import annotations

from typing import Any

import torch

_MOVING = frozenset(
    {
        "alias",
        "clone",
        "detach",
        "detach_",
        "expand",
        "lift_fresh",
        "lift_fresh_copy",
        "permute",
        "reshape",
        "select",
        "slice",
    }
    | {"squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view", "contiguous"}
)
"""Operators that give the numbers that they take."""
_ASKING = "_assert_tensor_metadata"


def widen(program: Any) -> bool:
    """Widen an exported program's constants of bfloat16 in place, where all that is computed with them is wider anyhow.

    PyTorch widens a number of bfloat16 before it computes with wider ones, so that results are the same bits. Where a result would
    be rounded to bfloat16, nothing is changed.

    Returns:
        Whether anything was.
    """
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if spec.target is not None}
    narrow: dict[Any, None] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            is_narrow = node.name in specs and _dtype(node) is torch.bfloat16
        else:
            is_narrow = any(operand in narrow for operand in node.all_input_nodes)
            if is_narrow and (node.op == "output" or (_dtype(node) is torch.bfloat16 and _name(node) not in _MOVING)):
                return False
            is_narrow = is_narrow and _dtype(node) is torch.bfloat16
        if is_narrow:
            narrow[node] = None
    if not narrow:
        return False
    # The model has the same tensors, and other captures the same dictionaries.
    program._state_dict = {name: _wide(value) for name, value in program.state_dict.items()}
    program._constants = {name: _wide(value) for name, value in program.constants.items()}
    for node in narrow:
        node.meta["val"] = node.meta["val"].to(torch.float32)
        for user in list(node.users):
            if _name(user) == _ASKING:
                program.graph.erase_node(user)
    program.graph_module.recompile()
    return True


def _dtype(node: Any) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.removeprefix("aten::") if schema is not None else ""


def _wide(value: Any) -> Any:
    is_narrow = isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16
    return value.detach().to(torch.float32) if is_narrow else value

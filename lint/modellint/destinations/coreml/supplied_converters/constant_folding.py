"""Constant folding: an operator on constants that no converter takes is computed by PyTorch, once, while the model is converted."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from modellint.destinations.coreml.private.operator_tables import Builder, Var, torch_type
from modellint.destinations.coreml.supplied_converters.arguments import Call, Unfit, bound


def folded(operator: str, call: Call) -> Any:
    """Constants with the results of ``aten::…`` for a node whose arguments are all known; ``NotImplemented`` where one is not."""
    packet = getattr(torch.ops.aten, operator.removeprefix("aten::"), None)
    if packet is None or not all(map(_is_known, pytree.tree_leaves([call.args, call.kwargs]))):
        return NotImplemented
    for overload in packet.overloads():
        function = getattr(packet, overload)
        if "out" in overload or function.is_view or function._schema.is_mutable:
            continue
        try:
            arguments = bound(function, call.args, call.kwargs, strict=True)
            result = function(**pytree.tree_map(_value, arguments))
        except (Unfit, RuntimeError, TypeError, NotImplementedError):
            continue
        return pytree.tree_map(_constant, result)
    return NotImplemented


def _is_known(leaf: Any) -> bool:
    return not isinstance(leaf, Var) or leaf.val is not None


def _value(leaf: Any) -> Any:
    return torch.as_tensor(leaf.val).to(torch_type(leaf)) if isinstance(leaf, Var) else leaf


def _constant(leaf: Any) -> Any:
    return Builder.const(val=leaf.numpy()) if isinstance(leaf, torch.Tensor) else leaf

"""Gradient scopes in an exported program: what runs under `torch.set_grad_enabled` stands in a graph of its own, and is inlined."""

from __future__ import annotations

import operator
from typing import Any

_SCOPE = "wrap_with_set_grad_enabled"
"""The name of the higher-order operator that `torch.export` makes of such a scope."""


def inline(program: Any) -> None:
    """Put the operators of such scopes in the place of their calls, as a program has no gradients. This is done in the program itself."""
    module = program.graph_module
    calls = [node for node in module.graph.nodes if getattr(node.target, "__name__", "") == _SCOPE]
    for call in calls:
        _, body, *operands = call.args
        _inline(module, call, getattr(module, body.target), operands)
        if not body.users:
            module.graph.erase_node(body)
    if not calls:
        return
    # Outputs are told by the names of what gives them.
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    for spec, given in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        if hasattr(spec.arg, "name") and hasattr(given, "name"):
            spec.arg.name = given.name
    module.recompile()


def _inline(module: Any, call: Any, body: Any, operands: list[Any]) -> None:
    inner = [node for node in body.graph.nodes if node.op == "placeholder"]
    known = dict(zip(inner, operands, strict=True))
    with module.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "get_attr":
                name = f"{call.name}_{node.target}".replace(".", "_")
                setattr(module, name, getattr(body, node.target))
                known[node] = module.graph.get_attr(name)
                known[node].meta.update(node.meta)
        returned = module.graph.graph_copy(body.graph, known)
    values = returned if isinstance(returned, (tuple, list)) else (returned,)
    for user in [*call.users]:
        if user.target is operator.getitem:
            user.replace_all_uses_with(values[user.args[1]])
            module.graph.erase_node(user)
    if not call.users:
        module.graph.erase_node(call)

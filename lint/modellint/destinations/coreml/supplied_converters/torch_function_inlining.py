"""Inlining: a function of PyTorch captured and converted in the place of a single operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.supplied_converters.core_aten_decompositions import decompositions

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.arguments import Call


_DEEPEST = 8
"""Operators that are expressed by others that are expressed by others, and so on."""


def inlined(function: Callable[..., Any], arguments: dict[str, Any], call: Call, done: frozenset[str]) -> Any:
    """The variables of what a function computes, captured with the shapes of the variables among its arguments.

    ``done`` are the names of operators that are decomposed although they have a converter.

    Raises ``NotImplementedError`` for shapes that are not known.
    """
    if call.node.name.count("__in__") > _DEEPEST:
        raise NotImplementedError("an operator is expressed by itself")
    leaves, tree = pytree.tree_flatten(arguments)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, operator_tables.Var)]
    shape: Any = None

    def run(*tensors: torch.Tensor) -> list[Any]:
        nonlocal shape
        values = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            values[at] = tensor
        result = function(**pytree.tree_unflatten(values, tree))
        if result is NotImplemented:
            raise _Left
        parts, shape = pytree.tree_flatten(result)
        # What is given through as it is would be no node of its own.
        return [part if isinstance(part, torch.Tensor) else torch.tensor(part) for part in parts]

    modules = []
    is_flexible = any(operator_tables.is_symbolic(size) for at in places for size in leaves[at].shape)
    for number, example in enumerate(_EXAMPLES):
        with FakeTensorMode(allow_non_fake_inputs=True):
            fakes = [_fake(leaves[at], example) for at in places]
            try:
                modules.append(make_fx(run, decompositions(done))(*fakes))
            except _Left:
                return NotImplemented
            except RuntimeError as error:
                if not is_flexible:
                    raise
                # Two sizes that are not known may have to be equal, or 1.
                raise NotImplementedError("a size is not known before a run") from error
        if number == 0 and not is_flexible:
            break
    if len({_text(module) for module in modules}) > 1:
        raise NotImplementedError("a size is not known before a run")
    module = modules[0]
    _write_nowhere(module.graph)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        node.name = f"{call.node.name}__in__{node.name}"
    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    variables = dict(zip(placeholders, (leaves[at] for at in places), strict=True))
    outputs = operator_tables.inline(call.context, module.graph, module, variables, call.node.meta)
    (output,) = module.graph.find_nodes(op="output")
    return pytree.tree_unflatten([_typed(*pair) for pair in zip(outputs, output.args[0], strict=True)], shape)


def _typed(variable: Any, node: Any) -> Any:
    """Result in the dtype that PyTorch gives it: coremltools counts in single precision, for one."""
    value = getattr(node, "meta", {}).get("val")
    if (
        not isinstance(variable, operator_tables.Var)
        or not isinstance(value, torch.Tensor)
        or operator_tables.is_complex(variable)
    ):
        return variable
    wanted, current = value.dtype, operator_tables.torch_type(variable)
    if wanted.is_complex or wanted.is_floating_point == current.is_floating_point:
        return variable
    return operator_tables.cast_to(variable, torch.float32 if wanted.is_floating_point else wanted)


def _write_nowhere(graph: Any) -> None:
    """Functionalization: in-place operators on what an earlier one has made become functional, as in PyTorch's own kernels.

    Raises ``NotImplementedError`` for what writes into anything else.
    """
    nodes = list(graph.nodes)
    for at, node in enumerate(nodes):
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        name, written = schema.name.removeprefix("aten::").removesuffix("_"), node.args[0]
        viewed = [user for user in written.users if _is_view(user)]
        if (
            name + "_" != schema.name.removeprefix("aten::")
            or written.op != "call_function"
            or _is_view(written)
            or viewed
        ):
            raise NotImplementedError(f"{schema.name} writes into a tensor")
        node.target = getattr(getattr(torch.ops.aten, name), node.target._overloadname)
        before = set(nodes[: at + 1])
        written.replace_all_uses_with(node, lambda user, before=before: user not in before)


def _is_view(node: Any) -> bool:
    """Whether a node gives a tensor that shares memory with another."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return False
    return any(result.alias_info is not None for result in schema.returns)


class _Left(Exception):
    """Arguments declined: the function returned ``NotImplemented`` for them."""


_EXAMPLES = (31, 59)
"""For a size that is not known before a run; what is captured with the one has to be what is captured with the other."""


def _fake(variable: Any, example: int) -> torch.Tensor:
    """A tensor of a variable's shape and type."""
    shape = [example if operator_tables.is_symbolic(size) else int(size) for size in variable.shape]
    return torch.empty(shape, dtype=operator_tables.torch_type(variable))


def _text(module: Any) -> str:
    constants = {
        node.target: getattr(module, node.target).tolist() for node in module.graph.nodes if node.op == "get_attr"
    }
    return f"{module.code}{constants}"

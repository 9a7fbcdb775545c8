"""A function of PyTorch converted in the place of a single operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.utils import _pytree as pytree

from modellint.coreml import private_converters as private
from modellint.coreml.converters.decompositions import decompositions

if TYPE_CHECKING:
    from modellint.coreml.converters.registration import Call


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
    places = [at for at, one in enumerate(leaves) if isinstance(one, private.Var)]
    shape: Any = None

    def run(*tensors: torch.Tensor) -> list[Any]:
        nonlocal shape
        given = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            given[at] = tensor
        result = function(**pytree.tree_unflatten(given, tree))
        if result is NotImplemented:
            raise _Left
        parts, shape = pytree.tree_flatten(result)
        # What is given through as it is would be no node of its own.
        return [one if isinstance(one, torch.Tensor) else torch.tensor(one) for one in parts]

    sizes = _Sizes()
    with FakeTensorMode(shape_env=sizes.environment, allow_non_fake_inputs=True) as mode:
        fakes = [sizes.fake(leaves[at], mode) for at in places]
        try:
            module = make_fx(run, decomposition_table=decompositions(done))(*fakes)
        except _Left:
            return NotImplemented
        except (GuardOnDataDependentSymNode, TypeError, ValueError) as error:
            if not sizes.flexible:
                raise
            raise NotImplementedError(f"a size is not known before a run: {error}") from error
    if any(one.is_number for one in sizes.environment.replacements.values()):
        raise NotImplementedError("a size is not known before a run")
    _write_nowhere(module.graph)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        node.name = f"{call.node.name}__in__{node.name}"
    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    variables = dict(zip(placeholders, (leaves[at] for at in places), strict=True))
    found = private.inline(call.context, module.graph, module, variables, call.node.meta)
    return pytree.tree_unflatten(found, shape)


def _write_nowhere(graph: Any) -> None:
    """Make operators functional that write into what an earlier one has made, as PyTorch's own kernels do with tensors of theirs.

    Raises ``NotImplementedError`` for what writes into anything else.
    """
    nodes = list(graph.nodes)
    for at, node in enumerate(nodes):
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        name, written = schema.name.removeprefix("aten::").removesuffix("_"), node.args[0]
        if name + "_" != schema.name.removeprefix("aten::") or written.op != "call_function":
            raise NotImplementedError(f"{schema.name} writes into a tensor")
        node.target = getattr(getattr(torch.ops.aten, name), node.target._overloadname)
        before = set(nodes[: at + 1])
        written.replace_all_uses_with(node, lambda user, before=before: user not in before)


class _Left(Exception):
    """The function leaves these arguments to another."""


class _Sizes:
    """Stand-ins for variables, with symbols for the sizes that are not known before a run."""

    def __init__(self) -> None:
        self.environment = ShapeEnv()
        self.flexible: dict[str, int] = {}
        """An example for each symbol of MIL; sizes with the same one are one symbol of PyTorch."""

    def fake(self, variable: Any, mode: FakeTensorMode) -> torch.Tensor:
        """A tensor of such a shape, that holds nothing."""
        shape = [self._size(size) for size in variable.shape]
        dtype = private.torch_type(variable)
        free = [private.is_symbolic(size) for size in variable.shape]
        if not any(free):
            return torch.empty(shape, dtype=dtype)
        kinds = [DimDynamic.DUCK if one else DimDynamic.STATIC for one in free]
        context: Any = StatelessSymbolicContext(dynamic_sizes=kinds)
        return mode.from_tensor(torch.empty(shape, dtype=dtype), symbolic_context=context)

    def _size(self, size: Any) -> int:
        if not private.is_symbolic(size):
            return int(size)
        return self.flexible.setdefault(str(size), _EXAMPLES[len(self.flexible) % len(_EXAMPLES)])


_EXAMPLES = (31, 37, 41, 43, 47, 53, 59, 61)

"""coremltools' private names for what converts operators: its tables, and the nodes that converters read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from coremltools.converters.mil import Builder, register_torch_op
from coremltools.converters.mil.frontend.torch.internal_graph import InternalTorchIRNode
from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY
from coremltools.converters.mil.frontend.torch.utils import (
    MIL_DTYPE_TO_TORCH_DTYPE,
    NUM_TO_TORCH_DTYPE,
    TORCH_DTYPE_TO_NUM,
    TORCH_EXPORT_BASED_FRONTENDS,
    TorchFrontend,
    sanitize_op_kind,
)
from coremltools.converters.mil.mil import Var
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.helper import block_context_manager
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY, register_pass
from coremltools.converters.mil.mil.types.symbolic import is_symbolic

__all__ = [
    "AbstractGraphPass",
    "Builder",
    "Var",
    "block_context_manager",
    "is_symbolic",
    "register_pass",
    "register_torch_op",
]

Convert = Callable[[Any, Any], None]
"""A converter as coremltools calls it: with its context, and a node."""


@contextlib.contextmanager
def tables_kept() -> Iterator[None]:
    """Restore coremltools' tables of converters and of passes, order included, whatever happens in between."""
    tables: list[dict[str, Any]] = [_TORCH_OPS_REGISTRY.name_to_func_mapping, PASS_REGISTRY.passes]
    kept = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, before in zip(tables, kept, strict=True):
            table.clear()
            table.update(before)


def converter_of(name: str) -> Convert | None:
    """The converter that is in the table by exactly this name."""
    found: Convert | None = _TORCH_OPS_REGISTRY.name_to_func_mapping.get(name)
    return found


def register(name: str, convert: Convert) -> None:
    """Put a converter in the table by one name; the public way takes none that ends in an underscore, as ``__and__`` does."""
    if name.endswith("_"):
        _TORCH_OPS_REGISTRY.set_func_by_name(convert, name)
        return

    def registered(context: Any, node: Any) -> None:
        convert(context, node)

    registered.__name__ = name
    register_torch_op(registered, override=True)


def looked_up(target: Any) -> str:
    """The name by which coremltools looks for the converter of an operator of an exported program."""
    name = getattr(target, "name", None)
    return str(sanitize_op_kind(name() if callable(name) else target.__name__))


def is_export(context: Any) -> bool:
    """Whether an exported program is being converted."""
    return context.frontend in TORCH_EXPORT_BASED_FRONTENDS


def bindings(context: Any, node: Any) -> tuple[list[Any], dict[str, Any]]:
    """What a node is given: by position, and by name; variables, Python's own values, lists of both."""
    keywords = {name: _bound(context, held)[0] for name, held in (node.kwinputs or {}).items() if held}
    return _bound(context, node.inputs), keywords


def _bound(context: Any, given: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for one in given:
        if isinstance(one, (list, tuple)):
            found.append(_bound(context, one))
        elif isinstance(one, str) and one in context:
            found.append(context[one])
        else:
            found.append(one)
    return found


def torch_dtype(number: int) -> torch.dtype:
    """The dtype that coremltools gives a number."""
    found: torch.dtype = NUM_TO_TORCH_DTYPE[number]
    return found


def number_of(dtype: torch.dtype) -> int:
    """The number that coremltools gives a dtype."""
    return int(TORCH_DTYPE_TO_NUM[dtype])


def inline(context: Any, graph: Any, constants: Any, given: Mapping[str, Any], meta: Any) -> list[Any]:
    """Convert a graph of torch.fx in the middle of another; ``given`` holds its inputs' variables, ``constants`` its tensors.

    Gives the variables of its outputs. Raises whatever a converter raises.
    """
    before = context.frontend
    context.frontend = TorchFrontend.TORCHEXPORT
    context.push(([], []))
    try:
        outputs: list[Any] = []
        for node in graph.nodes:
            if node.op == "placeholder":
                context.add(given[node.name], torch_name=node.name, override=True)
            elif node.op == "get_attr":
                value = getattr(constants, node.target).detach().numpy()
                context.add(Builder.const(val=value), torch_name=node.name, override=True)
            elif node.op == "call_function":
                _inlined(context, node, meta)
            elif node.op == "output":
                outputs = [_value_of(context, one) for one in node.args[0]]
        return outputs
    finally:
        context.pop()
        context.frontend = before


def _inlined(context: Any, node: Any, meta: Any) -> None:
    kind = looked_up(node.target)
    convert = _TORCH_OPS_REGISTRY.get_func(kind)
    if convert is None:
        raise NotImplementedError(f"there is no converter for {kind}")
    made = InternalTorchIRNode.from_exir_node(node=node)
    made.meta = meta
    convert(context, made)


def _value_of(context: Any, one: Any) -> Any:
    return context[one.name] if isinstance(one, torch.fx.Node) else one


def has_no_converter(name: str) -> bool:
    """Whether nothing is found under a name."""
    return _TORCH_OPS_REGISTRY.get_func(name) is None


def torch_type(variable: Any) -> torch.dtype:
    """PyTorch's type of a variable's elements; Core ML's integers stand for int64."""
    found: torch.dtype = MIL_DTYPE_TO_TORCH_DTYPE.get(variable.dtype, torch.int64)
    return torch.int64 if found in (torch.int32, torch.int16) else found

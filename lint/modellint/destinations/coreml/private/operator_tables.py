"""coremltools' private names for what converts operators: its tables, and the nodes that converters read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
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
from coremltools.converters.mil.mil import Var, types
from coremltools.converters.mil.mil.passes.graph_pass import AbstractGraphPass
from coremltools.converters.mil.mil.passes.helper import block_context_manager
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipeline
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY, register_pass
from coremltools.converters.mil.mil.types.symbolic import is_symbolic

from modellint.destinations.coreml.private.entry_points import unlink_half_built

__all__ = [
    "AbstractGraphPass",
    "Builder",
    "Var",
    "block_context_manager",
    "is_symbolic",
    "mb",
    "register_pass",
    "register_torch_op",
]

mb = Builder

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


def is_boolean(variable: Any) -> bool:
    """Whether a variable holds truth values."""
    return bool(types.is_bool(variable.dtype))


def cast_to(variable: Any, dtype: torch.dtype) -> Any:
    """A variable in another type, or itself."""
    return Builder.cast(x=variable, dtype=_BUILDER[dtype])


def full(size: Any, value: float, dtype: torch.dtype | None, like: Any) -> Any:
    """A tensor of one number; ``size`` is a variable, or a list of numbers and variables."""
    if isinstance(size, (list, tuple)):
        parts = [one if isinstance(one, Var) else Builder.const(val=one) for one in size]
        flat = [Builder.reshape(x=Builder.cast(x=one, dtype="int32"), shape=[1]) for one in parts]
        size = Builder.concat(values=flat, axis=0) if flat else np.zeros(0, np.int32)
    if isinstance(size, Var) and size.val is not None:
        size = size.val
    kind = types.nptype_from_builtin(like.dtype) if dtype is None else _NUMPY[dtype]
    if isinstance(size, np.ndarray):
        return Builder.const(val=np.full([int(one) for one in size], value, kind))
    return Builder.fill(shape=size, value=kind(value))


_BUILDER = {
    torch.bool: "bool",
    torch.uint8: "int32",
    torch.int8: "int32",
    torch.int16: "int32",
    torch.int32: "int32",
    torch.int64: "int32",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp32",
}
_NUMPY: dict[torch.dtype, Any] = {
    torch.bool: np.bool_,
    torch.int32: np.int32,
    torch.int64: np.int32,
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.float64: np.float32,
}


def rank_of(variable: Any) -> int:
    """How many axes a variable has; 0 for what is no tensor."""
    found = getattr(variable, "rank", 0)
    return found if isinstance(found, int) else 0


def inputs_of(operation: Any) -> dict[str, Any]:
    """What an operation is given, by name."""
    return {name: held for name, held in operation.inputs.items() if held is not None}


def wide_in(function: Any) -> bool:
    """Whether a function has tensors of more than five axes that are no constants."""
    return any(
        rank_of(one) > 5
        for operation in function.operations
        if operation.op_type != "const"
        for one in operation.outputs
    )


def in_block(block: Any, change: Callable[[Any], bool]) -> bool:
    """Change a block in the way in which operations are added to it."""

    changed: Any = block_context_manager(change)
    return bool(changed(block))


def pipeline_with(name: str, after: str, then: Sequence[str]) -> Any:
    """coremltools' own passes, with one behind another, and some again behind that one."""
    pipeline = PassPipeline()
    at = list(pipeline.passes).index(after)
    for offset, pass_name in enumerate((name, *then), start=1):
        pipeline.insert_pass(at + offset, pass_name)
    return pipeline


def narrow_integers_as_signed() -> None:
    """Narrow integers that are no constants to int16, in the scope of ``tables_kept``.

    coremltools 9.0 (`add_int16_cast`) takes the type of the last constant for what follows: behind a gather at constant places
    integers that may be negative become unsigned, and -1 is 65535.
    """
    name = "common::add_int16_cast"
    if name not in PASS_REGISTRY.passes:
        return
    usual: Any = PASS_REGISTRY.passes[name]

    class SignedNarrowing(usual):  # type: ignore[misc]
        def should_cast_parameter(self, op: Any, param_name: str) -> bool:
            self._target_dtype = "int16"
            return bool(super().should_cast_parameter(op, param_name))

    PASS_REGISTRY.passes[name] = SignedNarrowing


def refused(convert: Convert, context: Any, node: Any) -> Exception | None:
    """Run a converter; what it raises, with what it has half built taken away."""
    try:
        convert(context, node)
    except Exception as error:
        unlink_half_built()
        return error
    return None


def converted_as(
    context: Any, node: Any, name: str, inputs: Sequence[Any], outputs: int = 1, kwinputs: Any = None
) -> list[Any]:
    """What coremltools' own converter of an operator makes of a node with other inputs: variables, constants, names."""
    names = [f"{node.name}_{at}" for at in range(outputs)] if outputs > 1 else [node.name]
    context.push(([], []))
    try:
        given = []
        for at, one in enumerate(inputs):
            if isinstance(one, Var):
                context.add(one, torch_name=f"{node.name}_given_{at}")
                given.append(f"{node.name}_given_{at}")
            else:
                given.append(one)
        made = InternalTorchIRNode(
            kind=name, inputs=given, outputs=names, name=names[0], kwinputs=kwinputs, meta=node.meta
        )
        _OWN[name](context, made)
        if isinstance(context[names[0]], (list, tuple)):
            # Of an export some give all outputs by the node's one name.
            return list(context[names[0]])
        return [context[one] for one in names]
    finally:
        context.pop()


_OWN: dict[str, Convert] = dict(_TORCH_OPS_REGISTRY.name_to_func_mapping)
"""coremltools' own converters."""


def is_integral(variable: Any) -> bool:
    """Whether a variable holds integers or truth values."""
    return not types.is_float(variable.dtype)


def has_own_converter(name: str) -> bool:
    """Whether coremltools itself has a converter by exactly this name."""
    return name in _OWN


def is_complex(variable: Any) -> bool:
    """Whether a variable holds complex numbers, of which MIL knows only the two parts."""
    return bool(types.is_complex(variable.dtype))

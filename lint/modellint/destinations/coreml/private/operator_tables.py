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
    converter: Convert | None = _TORCH_OPS_REGISTRY.name_to_func_mapping.get(name)
    return converter


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
    """Arguments of a node, by position and by name: variables, Python's own values, lists of both."""
    keywords = {name: _bound(context, argument)[0] for name, argument in (node.kwinputs or {}).items() if argument}
    return _bound(context, node.inputs), keywords


def _bound(context: Any, arguments: Sequence[Any]) -> list[Any]:
    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            values.append(_bound(context, argument))
        elif isinstance(argument, str) and argument in context:
            values.append(context[argument])
        else:
            values.append(argument)
    return values


def torch_dtype(number: int) -> torch.dtype:
    """The dtype that coremltools gives a number."""
    dtype: torch.dtype = NUM_TO_TORCH_DTYPE[number]
    return dtype


def number_of(dtype: torch.dtype) -> int:
    """The number that coremltools gives a dtype."""
    return int(TORCH_DTYPE_TO_NUM[dtype])


def inline(context: Any, graph: Any, constants: Any, arguments: Mapping[str, Any], meta: Any) -> list[Any]:
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
                context.add(arguments[node.name], torch_name=node.name, override=True)
            elif node.op == "get_attr":
                value = getattr(constants, node.target).detach().numpy()
                context.add(Builder.const(val=value), torch_name=node.name, override=True)
            elif node.op == "call_function":
                _inlined(context, node, meta)
            elif node.op == "output":
                outputs = [_value_of(context, output) for output in node.args[0]]
        return outputs
    finally:
        context.pop()
        context.frontend = before


def _inlined(context: Any, node: Any, meta: Any) -> None:
    kind = looked_up(node.target)
    convert = _TORCH_OPS_REGISTRY.get_func(kind)
    if convert is None:
        raise NotImplementedError(f"there is no converter for {kind}")
    imported = InternalTorchIRNode.from_exir_node(node=node)
    if meta is not None:
        # Where it comes from is what the whole stands for, what it gives is its own; 9.1 reads types there.
        imported.meta = {**meta, **{key: node.meta[key] for key in ("val", "tensor_meta") if key in node.meta}}
    else:
        imported.meta = None
    convert(context, imported)


def _value_of(context: Any, value: Any) -> Any:
    return context[value.name] if isinstance(value, torch.fx.Node) else value


def has_no_converter(name: str) -> bool:
    """Whether nothing is found under a name."""
    return _TORCH_OPS_REGISTRY.get_func(name) is None


def torch_type(variable: Any) -> torch.dtype:
    """PyTorch's type of a variable's elements; Core ML's integers stand for int64."""
    dtype: torch.dtype = MIL_DTYPE_TO_TORCH_DTYPE.get(variable.dtype, torch.int64)
    return torch.int64 if dtype in (torch.int32, torch.int16) else dtype


def is_boolean(variable: Any) -> bool:
    """Whether a variable holds truth values."""
    return bool(types.is_bool(variable.dtype))


def cast_to(variable: Any, dtype: torch.dtype) -> Any:
    """A variable in another type, or itself."""
    return Builder.cast(x=variable, dtype=_BUILDER[dtype])


def full(size: Any, value: float, dtype: torch.dtype | None, like: Any) -> Any:
    """A tensor of one number; ``size`` is a variable, or a list of numbers and variables."""
    if isinstance(size, (list, tuple)):
        parts = [part if isinstance(part, Var) else Builder.const(val=part) for part in size]
        flat = [Builder.reshape(x=Builder.cast(x=part, dtype="int32"), shape=[1]) for part in parts]
        size = Builder.concat(values=flat, axis=0) if flat else np.zeros(0, np.int32)
    if isinstance(size, Var) and size.val is not None:
        size = size.val
    kind = types.nptype_from_builtin(like.dtype) if dtype is None else _NUMPY[dtype]
    if isinstance(size, np.ndarray):
        return Builder.const(val=np.full([int(length) for length in size], value, kind))
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
    rank = getattr(variable, "rank", 0)
    return rank if isinstance(rank, int) else 0


def symbols_of(variable: Any) -> set[Any]:
    """The sizes in a variable's shape that are not known."""
    shape = variable.shape if rank_of(variable) else ()
    return {symbol for size in shape if is_symbolic(size) for symbol in size.free_symbols}


def inputs_of(operation: Any) -> dict[str, Any]:
    """Arguments of a MIL operation, by name."""
    return {name: value for name, value in operation.inputs.items() if value is not None}


def wide_in(function: Any) -> bool:
    """Whether a function has tensors of more than five axes that are no constants."""
    return any(
        rank_of(output) > 5
        for operation in function.operations
        if operation.op_type != "const"
        for output in operation.outputs
    )


def in_block(block: Any, change: Callable[[Any], bool]) -> bool:
    """Change a block in the way in which operations are added to it."""

    changed: Any = block_context_manager(change)
    return bool(changed(block))


def pipeline_with(name: str, after: str, then: Sequence[str], first: str) -> Any:
    """coremltools' own passes, with one behind another, and some again behind that one, and one before all."""
    pipeline = PassPipeline()
    pipeline.insert_pass(0, first)
    at = list(pipeline.passes).index(after)
    for offset, added in enumerate((name, *then), start=1):
        pipeline.insert_pass(at + offset, added)
    return pipeline


def narrow_integers_as_signed() -> None:
    """Narrow integers that are no constants to int16, in the scope of ``tables_kept``.

    coremltools 9.0 (`add_int16_cast`) takes the type of the last constant for what follows: behind a gather at constant places
    integers that may be negative become unsigned, and -1 is 65535. A pass that has no type to set, as in 9.1, is left as it is.
    """
    name = "common::add_int16_cast"
    usual: Any = PASS_REGISTRY.passes.get(name)
    if getattr(getattr(usual, "target_dtype", None), "fset", None) is None:
        return

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
        names_of_inputs = []
        for at, value in enumerate(inputs):
            if isinstance(value, Var):
                context.add(value, torch_name=f"{node.name}_given_{at}")
                names_of_inputs.append(f"{node.name}_given_{at}")
            else:
                names_of_inputs.append(value)
        substitute = InternalTorchIRNode(
            kind=name, inputs=names_of_inputs, outputs=names, name=names[0], kwinputs=kwinputs, meta=node.meta
        )
        _OWN[name](context, substitute)
        if isinstance(context[names[0]], (list, tuple)):
            # Of an export some give all outputs by the node's one name.
            return list(context[names[0]])
        return [context[output] for output in names]
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

"""A model captured as coremltools takes it: by ``torch.jit.trace``, or by ``torch.export``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from modellint.destinations.capture import decomposition_overhead
from modellint.destinations.capture.torch_export import (
    FILE,
    Origin,
    bounds_of,
    operator_of,
    origin_of,
    until_capture,
    widened,
)
from modellint.destinations.coreml.private.entry_points import ct, refusal_of_types
from modellint.destinations.coreml.private.failed_output_placeholders import Like, Likes
from modellint.live.inputs.model_inputs import Inputs, Listed

_TRACE_FRAME = re.compile(r"^(.*)\((\d+)\): .*$", re.MULTILINE)
_NUMPY = {torch.float16: "fp16", torch.bool: "bool"}


class Refused(Exception):
    """Inputs with which coremltools cannot be asked at all."""


class Traced:
    """A TorchScript module, and what is known of its nodes once coremltools has lowered it."""

    route = "trace"

    def __init__(
        self, program: Any, types: list[Any], problems: list[tuple[str, str]], flexible: Mapping[int, Any]
    ) -> None:
        self.program = program
        self.types = types
        self.problems = problems
        """Inputs that `ct.convert` refuses for their type, with its words."""
        self._flexible = flexible
        self._graph: Any = None

    @property
    def is_flexible(self) -> bool:
        """Whether an input may have other sizes than the example's."""
        return bool(self._flexible)

    def lowered(self, graph: Any) -> None:
        """Take over the names of the graph that coremltools reads."""
        self._graph = graph

    @property
    def graph(self) -> Any:
        """The graph that coremltools reads, once it is known."""
        return self._graph

    @cached_property
    def _nodes(self) -> dict[str, Any]:
        """The nodes by the names of what they give."""
        return {value.debugName(): node for node in nodes_in(self._graph) for value in node.outputs()}

    @cached_property
    def _values(self) -> dict[str, Any]:
        inputs = () if self._graph is None else self._graph.inputs()
        return {value.debugName(): value for value in inputs} | {
            value.debugName(): value for node in nodes_in(self._graph) for value in node.outputs()
        }

    def like(self, name: str) -> Likes:
        """What the trace says of a value: shapes and types are those of the example inputs."""
        value = self._values.get(name)
        return None if value is None else self._like(value)

    def _like(self, value: Any) -> Likes:
        kind = value.type()
        match kind.kind():
            case "TensorType":
                sizes, dtype = kind.sizes(), kind.dtype()
                if sizes is None or dtype is None:
                    return None
                return Like(tuple(self._flexible.get(size, size) for size in sizes), dtype)
            case "IntType" | "NumberType":
                return Like((), int)
            case "FloatType":
                return Like((), float)
            case "BoolType":
                return Like((), bool)
            case "ListType" | "TupleType":
                return self._parts(value)
        return None

    def _parts(self, value: Any) -> Likes:
        """A list's parts have types where they are taken out of it."""
        parts: dict[int, Likes] = {}
        for use in value.uses():
            match use.user.kind():
                case "prim::ListUnpack" | "prim::TupleUnpack":
                    return [self._like(part) for part in use.user.outputs()]
                case "aten::__getitem__":
                    at = list(use.user.inputs())[1].toIValue()
                    if not isinstance(at, int) or at < 0:
                        return None
                    parts[at] = self._like(use.user.output())
        if not parts:
            return None
        default = next(iter(parts.values()))
        return [parts.get(at, default) for at in range(max(parts) + 1)]

    def computed(self, name: str, inputs: Sequence[Any], value_of: Callable[[Any], Any]) -> Any:
        """Run a node's operator on its inputs."""
        node = self._nodes[name]
        values = [value_of(input_) for input_ in inputs]
        schema = torch._C.parse_schema(node.schema())
        run, _ = torch._C._jit_get_operation(node.kind())
        positional = [
            value for argument, value in zip(schema.arguments, values, strict=True) if not argument.kwarg_only
        ]
        keyword = {
            argument.name: value
            for argument, value in zip(schema.arguments, values, strict=True)
            if argument.kwarg_only
        }
        return _fresh(run, positional, keyword)

    def origin(self, name: str) -> Origin | None:
        """The operator, call stack and module of a node."""
        node = self._nodes.get(name)
        if node is None:
            return None
        text = node.sourceRange()
        # What `torch.jit.script` has compiled tells its own line only.
        rows = _TRACE_FRAME.findall(text) or FILE.findall(text)
        frames = tuple((path, int(row)) for path, row in rows)
        module = node.scopeName().rpartition("/")[2].removeprefix("__module").lstrip(".")
        note = node.pyname() if node.kind() == "prim::PythonOp" else ""
        return Origin(node.kind(), until_capture(frames, __file__), module, note)

    def made_by(self, operator: str) -> Origin | None:
        """The first node of an operator, by the name under which coremltools looks for its converter."""
        if self._graph is None:
            self.lowered(self.program.inlined_graph)
        names = (name for name, node in self._nodes.items() if _is_named(node.kind(), operator))
        return next(map(self.origin, names), None)


class Exported:
    """An exported program, and what is known of its nodes."""

    route = "export"
    types = None
    problems: Sequence[tuple[str, str]] = ()

    def __init__(self, program: Any) -> None:
        self.program = program
        self._nodes = {node.name: node for node in program.graph.nodes}
        self._order = list(self._nodes)

    def lowered(self, graph: Any) -> None:
        """Nothing is lowered here."""

    def number_nodes(self) -> None:
        """Give every node its position as the number by which coremltools tells what it has made of it."""
        for at, node in enumerate(self.program.graph.nodes):
            node.meta["debug_handle"] = at

    def name_of(self, number: int | None) -> str | None:
        """The node with such a number."""
        return None if number is None or number >= len(self._order) else self._order[number]

    def like(self, name: str) -> Likes:
        """What the export says of a value."""
        node = self._nodes.get(name)
        return None if node is None else _like_of(node.meta.get("val"))

    def computed(self, name: str, inputs: Sequence[Any], value_of: Callable[[Any], Any]) -> Any:
        """Run a node's operator on its inputs."""
        node = self._nodes[name]

        def known(node: Any) -> Any:
            return value_of(node.name)

        return _fresh(node.target, torch.fx.map_arg(node.args, known), torch.fx.map_arg(node.kwargs, known))

    def origin(self, name: str) -> Origin | None:
        """The operator, call stack and module of a node; where it has no stack, those of its neighbours."""
        node = self._nodes.get(name)
        if node is None:
            return None
        return origin_of(node)

    def made_by(self, operator: str) -> Origin | None:
        """The first node of an operator, by the name under which coremltools looks for its converter."""
        calls = (node for node in self._nodes.values() if node.op == "call_function")
        return next((self.origin(node.name) for node in calls if _is_named(operator_of(node), operator)), None)


Captured = Traced | Exported


def traced(model: nn.Module, inputs: Inputs, target: Any, program: Any = None) -> Traced:
    """Trace a model, unless its trace is given.

    Flexible dimensions of one are traced at two, if that runs: code that asks for a size of one would go its way at every size.
    Raises ``Refused`` for inputs that coremltools has no types for, and whatever tracing raises.
    """
    bounds = bounds_of(inputs)
    order = _by_position(model, inputs)
    if order is None:
        names = list(inspect.signature(model.forward).parameters)
        bounds = {names[key] if isinstance(key, int) else key: limits for key, limits in bounds.items()}
        values = _named(names, inputs)
        types, problems, flexible = _types(values, bounds, target)
    else:
        bounds = {order.index(key): limits for key, limits in bounds.items()}
        args = tuple(_values(order, inputs))
        types, problems, flexible = _types(dict(enumerate(args)), bounds, target)
    return Traced(program or _traced_wide(model, inputs, order), types, problems, flexible)


def _traced_wide(model: nn.Module, inputs: Inputs, order: list[int | str] | None) -> Any:
    """The trace at a size of two of what is flexible and one, or at the sizes of the inputs where that raises."""
    args, kwargs = widened(inputs, bounds_of(inputs))
    if any(value is not inputs.args[at] for at, value in enumerate(args)) or any(
        value is not inputs.kwargs[name] for name, value in kwargs.items()
    ):
        before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        try:
            return _trace(model, Inputs(args, kwargs), order)
        except Exception:
            # The trace that counts is to begin where this one did.
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)
    return _trace(model, inputs, order)


def _trace(model: nn.Module, inputs: Inputs, order: list[int | str] | None) -> Any:
    options: dict[str, Any] = {"check_trace": False, "strict": False}
    trace: Any = torch.jit.trace
    if order is None:
        names = list(inspect.signature(model.forward).parameters)
        return trace(model, example_kwarg_inputs=_named(names, inputs), **options)
    return trace(model, tuple(_values(order, inputs)), **options)


def arguments(model: nn.Module, inputs: Inputs, route: str) -> list[Any]:
    """The inputs, flat, in the order in which a captured program takes them."""
    if route != "trace":
        leaves: list[Any] = pytree.tree_leaves((tuple(inputs.args), dict(inputs.kwargs)))
        return leaves
    order = _by_position(model, inputs)
    if order is None:
        names = list(inspect.signature(model.forward).parameters)
        return pytree.tree_leaves(list(_named(names, inputs).values()))
    return pytree.tree_leaves(_values(order, inputs))


def decomposed(program: Any, core: bool) -> Exported:
    """The program as coremltools wants it, with core ATen decompositions or with none."""
    return Exported(decomposition_overhead.decomposed(program, None if core else {}))


def _by_position(model: nn.Module, inputs: Inputs) -> list[int | str] | None:
    """The inputs' positions and names in the order of `forward`; None where names leave gaps."""
    positions: list[int | str] = [*range(len(inputs.args))]
    if not inputs.kwargs:
        return positions
    names = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    rest = names[len(positions) : len(positions) + len(inputs.kwargs)]
    return [*positions, *rest] if set(rest) == set(inputs.kwargs) else None


def _values(keys: Sequence[int | str], inputs: Inputs) -> list[Any]:
    return [inputs.args[key] if isinstance(key, int) else inputs.kwargs[key] for key in keys]


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, Any]:
    arguments = {**dict(zip(names, inputs.args, strict=False)), **inputs.kwargs}
    # The graph takes them in the order of the signature.
    return {name: arguments[name] for name in [*names, *arguments] if name in arguments}


def _types(
    values: Mapping[Any, Any], bounds: Mapping[Any, Mapping[int, tuple[int, int]]], target: Any
) -> tuple[list[Any], list[tuple[str, str]], dict[int, Any]]:
    problems: list[tuple[str, str]] = []
    symbols: dict[int, Any] = {}

    def type_of(value: Any, name: str, flexible: Mapping[int, tuple[int, int]]) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(type_of(part, f"{name}[{at}]", {}) for at, part in enumerate(value))
        if not isinstance(value, torch.Tensor):
            raise Refused(
                f"the input {name} is a {type(value).__name__}: coremltools takes traced models of tensors only; "
                "`modellint export` makes it a constant"
            )
        shape, of_sizes = flexible_shape(tuple(value.shape), flexible)
        symbols.update(of_sizes)
        tensor_type = ct.TensorType(shape=shape, dtype=_dtype_of(value.dtype))
        problem = refusal_of_types([tensor_type], target)
        if problem is not None:
            problems.append((name, problem))
        return tensor_type

    types = [type_of(value, str(key), bounds.get(key, {})) for key, value in values.items()]
    return types, [*problems, *problems_of_lists(values, bounds, target)], symbols


def problems_of_lists(
    values: Mapping[Any, Any], bounds: Mapping[Any, Mapping[int, tuple[int, int]]], target: Any
) -> Iterator[tuple[str, str]]:
    """What `ct.convert` says of several inputs with listed sizes, which it takes from iOS 18 on: the second one, and why."""
    listed = [key for key, limits in bounds.items() if any(isinstance(each, Listed) for each in limits.values())]
    types = [ct.TensorType(shape=flexible_shape(tuple(values[key].shape), bounds[key])[0]) for key in listed]
    if len(listed) > 1 and (problem := refusal_of_types(types, target)) is not None:
        yield str(listed[1]), problem


def flexible_shape(shape: Sequence[int], flexible: Mapping[int, tuple[int, int]]) -> tuple[Any, dict[int, Any]]:
    """An input's shape as coremltools is told it, ranges or enumerated shapes, and its symbols by the example's sizes."""
    if any(isinstance(limits, Listed) for limits in flexible.values()):
        enumerated = ct.EnumeratedShapes([*listed_shapes(shape, flexible)], default=list(shape))
        return enumerated, {int(shape[at]): enumerated.symbolic_shape[at] for at in flexible}
    sizes: list[Any] = list(shape)
    for at, (low, high) in flexible.items():
        sizes[at] = ct.RangeDim(low, high, default=shape[at])
    return tuple(sizes), {int(shape[at]): sizes[at].symbol for at in flexible}


def listed_shapes(shape: Sequence[int], flexible: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """The shapes that an input's listed sizes stand for, in their order."""
    lists = {at: limits.sizes for at, limits in flexible.items() if isinstance(limits, Listed)}
    for sizes in zip(*lists.values(), strict=True):
        chosen = dict(zip(lists, sizes, strict=True))
        yield tuple(chosen.get(at, size) for at, size in enumerate(shape))


def _dtype_of(dtype: torch.dtype) -> Any:
    """What a user would write; without it coremltools takes single or half precision, as the target has it."""
    import numpy as np

    if dtype is torch.float16:
        return np.float16
    if dtype is torch.bool:
        return np.bool_
    return None if dtype.is_floating_point or dtype.is_complex else np.int32


def nodes_in(graph: Any) -> Iterator[Any]:
    """The nodes of a TorchScript graph, those in blocks behind the ones that hold them."""
    for node in graph.nodes() if graph is not None else ():
        yield node
        for block in node.blocks():
            yield from nodes_in(block)


def _like_of(value: Any) -> Likes:
    if isinstance(value, torch.Tensor):
        return Like(tuple(size if isinstance(size, int) else str(size) for size in value.shape), value.dtype)
    if isinstance(value, (list, tuple)):
        return [_like_of(part) for part in value]
    for kind, symbolic in ((bool, torch.SymBool), (int, torch.SymInt), (float, torch.SymFloat)):
        if isinstance(value, (kind, symbolic)):
            return Like((), kind)
    return None


def _is_named(operator: str, looked_up: str) -> bool:
    """Whether `aten::fmod_` is what coremltools looks up as `fmod` or `fmod.scalar`."""
    return operator.rpartition("::")[2].rstrip("_").lower() == looked_up.rpartition("::")[2].partition(".")[0].rstrip(
        "_"
    )


def _fresh(run: Any, arguments: Any, keywords: Any) -> Any:
    """Run an operator on copies: what it writes to may be a weight."""

    def copied(value: Any) -> Any:
        return value.clone() if isinstance(value, torch.Tensor) else value

    arguments, keywords = pytree.tree_map(copied, (tuple(arguments), dict(keywords)))
    return run(*arguments, **keywords)

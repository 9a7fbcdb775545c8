"""Model captured by ``torch.export``, and where its nodes come from."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from modellint.destinations.capture import gradient_scopes
from modellint.destinations.capture.decomposition_overhead import decomposed
from modellint.destinations.capture.in_place_writes import is_written
from modellint.live.inputs.model_inputs import Inputs

FILE = re.compile(r'^ *File "(.+?)", line (\d+)', re.MULTILINE)
"""A frame in the stack of a node."""


class Origin(NamedTuple):
    """Where a node of a captured program comes from."""

    operator: str
    """As in ``aten::fmod``."""
    frames: tuple[tuple[str, int], ...]
    """Files and rows, innermost first."""
    module: str
    """The path at which its module was called."""
    note: str = ""
    """What else is known of it: the name of an autograd function."""


def exported(model: nn.Module, inputs: Inputs, strict: bool = False) -> Any:
    """Export a model, ``strict`` by Dynamo, which reads Python's bytecode. Raises whatever `torch.export` raises."""
    bounds = bounds_of(inputs)
    args, kwargs = widened(inputs, bounds)
    program = torch.export.export(
        model, args, kwargs, dynamic_shapes=_dynamic_shapes(model, inputs, bounds), strict=strict
    )
    gradient_scopes.inline(program)
    if any(_is_transform(node) or _is_of_others(node) for node in program.graph.nodes):
        # All operators of PyTorch's own stay; of others the table knows those that have no kernel but what they are made of.
        table, others = torch.export.default_decompositions(), filter(_is_of_others, program.graph.nodes)
        program = decomposed(program, {node.target: table[node.target] for node in others if node.target in table})
    _part_shared_buffers(program)
    for node in program.graph.nodes:
        # torch 2.14 forgets readers of what only a size is taken of, and cannot erase them.
        for given in node.all_input_nodes:
            given.users.setdefault(node)
    return program


def asks_for_exact_types(model: nn.Module) -> bool:
    """Whether a module asks for the type of something itself (`type(x) is torch.Tensor`), which is another one while it is exported."""
    return any(map(_asks_for_type, {type(layer) for layer in model.modules()}))


_EXACT_TYPE = re.compile(r"\btype\(\w+\)\s*(?:is\b|==|!=|in\b|not in\b)")


def _asks_for_type(kind: type) -> bool:
    if kind.__module__.partition(".")[0] == torch.__name__:
        return False
    try:
        return _EXACT_TYPE.search(inspect.getsource(kind)) is not None
    except (OSError, TypeError):
        return False


def _part_shared_buffers(program: Any) -> None:
    """Let one of the names of a buffer stand for all: layers that share a module have a name each, and what is written to one of
    them cannot be made functional beside the others.
    """
    names = program.graph_signature.inputs_to_buffers
    first: dict[Any, Any] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        held = program.constants if names.get(node.name) in program.constants else program.state_dict
        value = held.get(names.get(node.name))
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or value.is_meta:
            continue
        if value.layout is not torch.strided or not value.numel():
            continue
        one = first.setdefault((value.data_ptr(), value.shape, value.stride(), value.dtype), node)
        if one is not node and any(map(is_written, (one, node))):
            node.replace_all_uses_with(one)
            kept = {**held, names[node.name]: value.detach().clone()}
            if held is program.constants:
                program._constants = kept
            else:
                program._state_dict = kept


def is_same(program: Any, other: Any) -> bool:
    """Whether two exported programs are the same: their nodes, in names and order, what they take and give, and every weight.

    Not of such as hold others: branches, loops.
    """
    if any(node.op == "get_attr" for node in program.graph.nodes):
        return False
    if program.graph_signature != other.graph_signature or program.range_constraints != other.range_constraints:
        return False
    for held, others in ((program.state_dict, other.state_dict), (program.constants, other.constants)):
        if list(held) != list(others) or not all(_is_equal(held[name], others[name]) for name in held):
            return False
    pairs = zip_longest(program.graph.nodes, other.graph.nodes)
    return all(None not in pair and _written(pair[0]) == _written(pair[1]) for pair in pairs)


def _is_equal(value: Any, other: Any) -> bool:
    if not (isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor)):
        return value is other
    if (value.dtype, value.device, value.layout) != (other.dtype, other.device, other.layout):
        return False
    try:
        return value is other or (value.stride() == other.stride() and torch.equal(value.detach(), other.detach()))
    except (RuntimeError, NotImplementedError):
        # Not of every type.
        return False


def _written(node: Any) -> tuple[str, ...]:
    """A node in words."""
    return node.op, node.name, str(node.target), repr(node.args), repr(node.kwargs), repr(node.meta.get("val"))


def _is_transform(node: Any) -> bool:
    """Whether a node is a part of `vmap`: no destination converts these, and some cannot be saved (batched tensors, `flat_apply`)."""
    space = getattr(node.target, "__module__", None) or ""
    return space.startswith("torch._functorch.") or str(node.target) == "flat_apply"


def _is_of_others(node: Any) -> bool:
    """Whether a node is an operator that neither PyTorch registered, nor a library whose operators destinations know."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in _KNOWN


_KNOWN = ("aten", "prims", "torchvision", "torchaudio")


def bounds_of(inputs: Inputs) -> dict[int | str, dict[int, tuple[int, int]]]:
    """The dimensions that may vary, each counted from the front, of the arguments by position and name that have such."""
    bounds: dict[int | str, dict[int, tuple[int, int]]] = {}
    arguments: list[tuple[int | str, Any]] = [*enumerate(inputs.args), *inputs.kwargs.items()]
    for key, value in arguments:
        # `--input` counts in words, as all that it names.
        limits = inputs.flexible.get(key) or inputs.flexible.get(str(key))
        rank = value.dim() if isinstance(value, torch.Tensor) else 0
        if limits:
            bounds[key] = {which % rank: ends for which, ends in limits.items() if -rank <= which < rank}
    return bounds


def widened(
    inputs: Inputs, bounds: Mapping[int | str, Mapping[int, tuple[int, int]]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs, with flexible dimensions of one repeated.

    `torch.export` takes a size of one for a constant, and code that asks for it goes another way there.
    """

    def wide(key: int | str, value: Any) -> Any:
        for at, (_, high) in bounds.get(key, {}).items():
            if isinstance(value, torch.Tensor) and value.shape[at] == 1 and high > 1:
                value = value.repeat_interleave(2, at)
        return value

    args = tuple(wide(at, value) for at, value in enumerate(inputs.args))
    return args, {name: wide(name, value) for name, value in inputs.kwargs.items()}


def _dynamic_shapes(
    model: nn.Module, inputs: Inputs, bounds: Mapping[int | str, Mapping[int, tuple[int, int]]]
) -> dict[str, Any] | None:
    """Which sizes may vary, in the form of the arguments as `forward` binds them."""
    if not bounds:
        return None

    def shape_of(key: int | str) -> Any:
        return {at: torch.export.Dim.DYNAMIC(min=low, max=high) for at, (low, high) in bounds.get(key, {}).items()}

    args = [shape_of(at) or None for at in range(len(inputs.args))]
    kwargs = {name: shape_of(name) or None for name in inputs.kwargs}
    return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)


def origin_of(node: Any) -> Origin:
    """The operator, call stack and module of a node; where it has no stack, those of its neighbours."""
    near = [node, *node.users, *node.all_input_nodes]
    trace = next((neighbour.meta["stack_trace"] for neighbour in near if neighbour.meta.get("stack_trace")), "")
    frames = [(path, int(row)) for path, row in FILE.findall(trace)][::-1]
    stack = node.meta.get("nn_module_stack") or {}
    path = next((str(path) for path, _ in reversed(list(stack.values()))), "")
    return Origin(operator_of(node), until_capture(tuple(frames)), re.sub(r"@\d+", "", path))


def operator_of(node: Any) -> str:
    """The name of an operator as a trace has it (``aten::add``); of what takes a part, that of what gives the whole."""
    target = node.target
    if target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        # A part of what another operator gives: that one is meant.
        return operator_of(node.args[0])
    name = getattr(target, "name", None)
    if callable(name):
        return str(name()).partition(".")[0]
    module = getattr(target, "__module__", "") or ""
    plain = getattr(target, "__name__", str(target))
    return f"{module.lstrip('_')}.{plain}" if module in ("_operator", "math") else plain


def until_capture(frames: tuple[tuple[str, int], ...], file: str = __file__) -> tuple[tuple[str, int], ...]:
    """Frames without those of whoever asked for the capture, in ``file``."""
    for at, (path, _) in enumerate(frames):
        if path == file:
            return frames[:at]
    return frames


def since_capture(frames: Sequence[tuple[str, int]], *files: str) -> tuple[tuple[str, int], ...]:
    """Of the frames of an exception, outermost first, those within the capture, innermost first."""
    start = max((at for at, (path, _) in enumerate(frames) if path in (__file__, *files)), default=-1)
    return tuple(frames[start + 1 :][::-1])

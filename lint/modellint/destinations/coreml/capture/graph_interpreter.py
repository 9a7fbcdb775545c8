"""Interpreter of captured programs: run node by node in PyTorch, for the values that a converted program is compared with."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.coreml.capture.routes import Captured, Exported, Traced, nodes_in

_RANDOM = re.compile(
    r"^aten::(.*dropout|rand|bernoulli|multinomial|normal|exponential|cauchy|geometric|log_normal|uniform|random)"
)
_IN_PLACE = re.compile(r"[^_]_\Z")
_PLAIN = frozenset(
    {
        "prim::Constant",
        "prim::GetAttr",
        "prim::ListConstruct",
        "prim::TupleConstruct",
        "prim::ListUnpack",
        "prim::TupleUnpack",
    }
)


class NotRun(Exception):
    """A captured program holds what cannot be run node by node; the message names it."""


class Step(NamedTuple):
    """One executed node of a captured program."""

    node: str
    """The name of its first output."""
    operator: str
    """As in ``aten::fmod``."""
    values: Mapping[str, Tensor]
    """Its results, by the names that a converter may give them."""
    inputs: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    """Which tensors it wrote to in place."""
    is_random: bool = False


class GraphRun(Protocol):
    """A captured program that runs with one set of inputs after another; buffers keep what is written to them."""

    def steps(self, leaves: Sequence[Any]) -> Iterator[Step]:
        """Run all nodes in order. Raises ``NotRun``."""

    @property
    def outputs(self) -> Sequence[Any]:
        """What the last run gave, flat."""

    @property
    def writes(self) -> bool:
        """Whether any node writes to a tensor in place."""


def graph_run(captured: Captured) -> GraphRun:
    """The interpreter for a captured program. Raises ``NotRun`` for a trace whose graph coremltools does not show."""
    if isinstance(captured, Traced) and captured.graph is None:
        raise NotRun("coremltools does not show the graph that it reads")
    return _TracedRun(captured) if isinstance(captured, Traced) else _ExportedRun(captured)


def sanitized(name: str) -> str:
    """A name as coremltools writes it in a program."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"var_{plain}" if plain[:1].isdigit() else plain


def values_in(result: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a node's result: under its own name, those of several with their positions behind it.

    Of several the first has the plain name too: converters give that to an operator's main result.
    """
    if isinstance(result, Tensor):
        yield sanitized(name), result
    elif isinstance(result, (list, tuple)):
        if result and isinstance(result[0], Tensor):
            yield sanitized(name), result[0]
        for at, part in enumerate(result):
            if isinstance(part, Tensor):
                yield f"{sanitized(name)}_{at}", part


def _tensors(value: Any) -> tuple[Tensor, ...]:
    return tuple(leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor))


class _TracedRun:
    """The graph of a TorchScript module."""

    def __init__(self, captured: Traced) -> None:
        self._module = captured.program
        self._graph = captured.graph
        self._operators: dict[Any, tuple[Any, tuple[str | None, ...], tuple[int, ...]]] = {}
        self.outputs: Sequence[Any] = ()
        self.writes = any(_IN_PLACE.search(node.kind()) for node in nodes_in(self._graph))

    def steps(self, leaves: Sequence[Any]) -> Iterator[Step]:
        values: dict[str, Any] = {}
        first, *inputs = self._graph.inputs()
        values[first.debugName()] = self._module
        waiting = list(leaves)
        for value in inputs:
            values[value.debugName()] = _packed(value.type(), waiting)
        yield from self._block(self._graph, values)
        self.outputs = pytree.tree_leaves([values[value.debugName()] for value in self._graph.outputs()])

    def _block(self, block: Any, values: dict[str, Any]) -> Iterator[Step]:
        for node in block.nodes():
            kind = node.kind()
            names = [value.debugName() for value in node.outputs()]
            if kind == "prim::If":
                chosen = list(node.blocks())[0 if values[node.input().debugName()] else 1]
                yield from self._block(chosen, values)
                values.update(zip(names, [values[value.debugName()] for value in chosen.outputs()], strict=True))
                continue
            if kind == "prim::Loop":
                yield from self._loop(node, names, values)
                continue
            results, written = self._computed(node, kind, values)
            values.update(zip(names, results, strict=True))
            if kind in _PLAIN:
                if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
                    tensors = {
                        sanitized(name): result
                        for name, result in zip(names, results, strict=True)
                        if isinstance(result, Tensor)
                    }
                    yield Step(names[0], kind, tensors)
                continue
            tensors = {key: value for name in names for key, value in values_in(values[name], name)}
            operands = [values[value.debugName()] for value in node.inputs()]
            name = names[0] if names else kind
            yield Step(name, kind, tensors, _tensors(operands), written, _is_random(kind, operands))

    def _loop(self, node: Any, names: list[str], values: dict[str, Any]) -> Iterator[Step]:
        most, go_on, *carried = (values[value.debugName()] for value in node.inputs())
        (body,) = node.blocks()
        count, *inside = (value.debugName() for value in body.inputs())
        at = 0
        while go_on and at < most:
            values[count] = at
            values.update(zip(inside, carried, strict=True))
            yield from self._block(body, values)
            go_on, *carried = (values[value.debugName()] for value in body.outputs())
            at += 1
        values.update(zip(names, carried, strict=True))

    def _computed(self, node: Any, kind: str, values: Mapping[str, Any]) -> tuple[Sequence[Any], tuple[Tensor, ...]]:
        inputs = [values[value.debugName()] for value in node.inputs()]
        match kind:
            case "prim::Constant":
                return [node.output().toIValue()], ()
            case "prim::GetAttr":
                return [getattr(inputs[0], node.s("name"))], ()
            case "prim::ListConstruct":
                return [inputs], ()
            case "prim::TupleConstruct":
                return [tuple(inputs)], ()
            case "prim::ListUnpack" | "prim::TupleUnpack":
                return list(inputs[0]), ()
            case "prim::NumToTensor":
                return [torch.tensor(inputs[0])], ()
            case "prim::DictConstruct":
                return [dict(zip(inputs[::2], inputs[1::2], strict=True))], ()
            case "prim::device":
                return [inputs[0].device], ()
            case "prim::dtype":
                return [inputs[0].dtype], ()
        run, keywords, writes = self._operator(node)
        plain = [value for value, keyword in zip(inputs, keywords, strict=True) if keyword is None]
        named = {keyword: value for value, keyword in zip(inputs, keywords, strict=True) if keyword is not None}
        result = run(*plain, **named)
        written = tuple(inputs[at] for at in writes if isinstance(inputs[at], Tensor))
        count = len(list(node.outputs()))
        return ([result] if count == 1 else list(result) if count else []), written

    def _operator(self, node: Any) -> tuple[Any, tuple[str | None, ...], tuple[int, ...]]:
        text = node.schema()
        key = node.kind(), text
        if key not in self._operators:
            if text == "(no schema)":
                raise NotRun(node.kind())
            schema = torch._C.parse_schema(text)
            try:
                run, _ = torch._C._jit_get_operation(node.kind())
            except RuntimeError:
                raise NotRun(node.kind()) from None
            keywords = tuple(argument.name if argument.kwarg_only else None for argument in schema.arguments)
            aliases = [argument.alias_info for argument in schema.arguments]
            writes = tuple(at for at, alias in enumerate(aliases) if alias is not None and alias.is_write)
            self._operators[key] = run, keywords, writes
        return self._operators[key]


def _packed(kind: Any, waiting: list[Any]) -> Any:
    """An argument of the graph from the flat inputs."""
    if kind.kind() == "TupleType":
        return tuple(_packed(part, waiting) for part in kind.elements())
    if not waiting:
        raise NotRun("the graph's inputs")
    return waiting.pop(0)


def _is_random(kind: str, inputs: Sequence[Any]) -> bool:
    if not _RANDOM.match(kind):
        return False
    if "dropout" in kind and len(inputs) > 2:
        return bool(inputs[1]) and bool(inputs[2])
    return True


class _ExportedRun:
    """The graph of an exported program."""

    def __init__(self, captured: Exported) -> None:
        self._program = captured.program
        signature = self._program.graph_signature
        state = {**self._program.state_dict, **self._program.constants}
        self._inputs = signature.input_specs
        self._outputs = signature.output_specs
        self._state = (
            {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}
            if signature.buffers_to_mutate
            else state
        )
        self.outputs: Sequence[Any] = ()
        # `run_decompositions` leaves no writes but those to buffers at the end.
        self.writes = False

    def steps(self, leaves: Sequence[Any]) -> Iterator[Step]:
        module = self._program.graph_module
        waiting = list(leaves)
        placeholders = []
        for spec in self._inputs:
            if spec.target is not None:
                if spec.target not in self._state:
                    raise NotRun(str(spec.target))
                placeholders.append(self._state[spec.target])
            elif spec.kind.name == "USER_INPUT" and waiting:
                placeholders.append(waiting.pop(0))
            else:
                raise NotRun("the program's inputs")
        values: dict[Any, Any] = {}
        remaining = iter(placeholders)
        for node in module.graph.nodes:
            match node.op:
                case "placeholder":
                    values[node] = next(remaining)
                case "get_attr":
                    values[node] = getattr(module, node.target)
                case "output":
                    self._settle(torch.fx.map_arg(node.args[0], values.__getitem__))
                case _:
                    arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                    values[node] = result = node.target(*arguments, **keywords)
                    name = getattr(node.target, "name", None)
                    kind = str(name()).partition(".")[0] if callable(name) else getattr(node.target, "__name__", "")
                    random = _is_random(kind, list(arguments))
                    if node.target is not operator.getitem or isinstance(result, Tensor):
                        operands = _tensors([arguments, keywords])
                        yield Step(node.name, kind, dict(values_in(result, node.name)), operands, (), random)

    def _settle(self, results: Sequence[Any]) -> None:
        outputs = []
        for spec, result in zip(self._outputs, results, strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                self._state[spec.target] = result
            elif spec.kind.name == "USER_OUTPUT":
                outputs.append(result)
        self.outputs = outputs

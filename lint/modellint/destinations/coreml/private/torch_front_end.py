"""coremltools' own torch front end, walked node by node."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import torch

from modellint.destinations.coreml.dry_run.rank_limit import live_operations
from modellint.destinations.coreml.private.entry_points import (
    ct,
    front_end_parts,
    replaced,
    unlink_half_built,
    without,
    without_collection,
)
from modellint.destinations.coreml.private.exported_program_cleanup import Tidied
from modellint.destinations.coreml.private.failed_output_placeholders import (
    Like,
    Likes,
    StandIns,
    is_number_like,
    variables,
)
from modellint.destinations.coreml.private.installed_capabilities import facts, lacks
from modellint.destinations.coreml.private.pass_overhead import remembered_types

_NOTHING: Any = object()
_ASSERTED = torch.ops.aten._assert_tensor_metadata.default
_LARGEST = 1 << 22
"""Elements of a constant that is computed by PyTorch."""
_COMPLEX = "MIL doesn't support complex data as model's output, please extract real and imaginary parts explicitly."
_BOTH = "Var names ['{}'] is used both as function's input and output"
_UNBOUND = re.compile(r"Torch var (\S+) not found in context")
_PYTHON = re.compile(r"(not enough|too many) values to unpack")


def _unused(graph: Any) -> frozenset[Any]:
    """Nodes of an exported graph whose results nothing uses, nor what uses them; assertions of types aside, as coremltools has it."""
    users = {node: len(node.users) for node in graph.nodes}
    unused: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not users[node] and node.target is not _ASSERTED:
            unused.add(node)
            for operand in node.all_input_nodes:
                users[operand] -= 1
    return frozenset(unused)


class Guide(Protocol):
    """What the walk over a captured program asks about it."""

    def like(self, name: str) -> Likes:
        """What PyTorch knows of a value."""

    def computed(self, name: str, inputs: Sequence[Any], value_of: Callable[[Any], Any]) -> Any:
        """What a node gives; ``value_of`` tells of each input its value, for a tensor that is no constant one on the meta device.

        Raises any exception where that is not to be had.
        """

    def lowered(self, graph: Any) -> None:
        """Be shown the graph of a TorchScript module whose names are used from then on."""


class Failure(NamedTuple):
    """One thing that coremltools would have stopped at."""

    kind: str
    """As in ``modellint.destinations.coreml.dry_run.dry_run.Blocker``."""
    node: str | None
    """The node of the captured program."""
    message: str
    """coremltools' own, in full."""
    value: str | None = None
    """The input, parameter, buffer or output that it is about."""


class FrontEnd:
    """coremltools' own torch front end, walked node by node.

    It runs as `ct.convert` would run it, with no pass over the result but the one that makes real numbers of complex ones. A
    node that cannot be converted is noted, and its outputs are stood in for by values of the shape and type that PyTorch knows,
    or by PyTorch's own constants, so that the nodes behind it are seen too. What only follows from an earlier failure is not
    noted.
    """

    def __init__(self, program: Any, types: Sequence[Any] | None, guide: Guide, target: Any, fp16_io: bool) -> None:
        self.failures: list[Failure] = []
        self._api = front_end_parts()
        self._program = program
        self._types = types
        self._guide = guide
        self.target = target
        """coremltools' target."""
        self._fp16_io = fp16_io
        self._not_imported: set[str] = set()
        self._lost: set[str] = set()
        self._uncertain: set[str] = set()
        self._newer: dict[tuple[str, str], Any] = {}
        self._stand_ins = StandIns()
        self._makers: dict[str, Any] = {}
        self._renamed: dict[str, str] = {}

    def note(self, kind: str, node: str | None, message: str, value: str | None = None) -> None:
        """Remember what coremltools would have stopped at."""
        self.failures.append(Failure(kind, None if node is None else self._renamed.get(node, node), message, value))

    def run(self) -> Any:
        """The program that the front end makes, with stand-ins for what it could not; None where it did not come to one."""
        api = self._api
        with ExitStack() as stack:
            # It makes types by the thousand, and looking for cycles among them takes a third of the time.
            stack.enter_context(without_collection())
            stack.enter_context(remembered_types())
            stack.callback(api.reset)
            for owner, name, value in self._replacements():
                stack.enter_context(replaced(owner, name, value))
            program = None
            try:
                program = _walking_converter()(
                    self, self._program, self._types, None, None, int(self.target), self._fp16_io, None
                ).convert()
            except Exception as error:
                if not self.failures:
                    self.note("crash", None, _described(error))
            if program is not None:
                self._check_outputs(program)
                self._lower_complex(program)
            return program

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        api = self._api
        yield api.converter, "convert_nodes", self._convert_nodes
        yield api.ops, "convert_nodes", self._convert_nodes
        # The original warns of its own use at every look.
        yield api.Registry, "__contains__", lambda registry, name: name in registry.name_to_func_mapping
        if self._types is None:
            yield api.graph.InternalTorchIRGraph, "from_exir", self._graph_of_export
            yield api.converter, "is_current_opset_version_compatible_with", lambda version: True
        else:
            yield api.graph, "_expand_and_optimize_ir", self._lowered
            assign = api.converter.generate_tensor_assignment_ops
            yield api.converter, "generate_tensor_assignment_ops", lambda graph: self._assign(graph, assign)
            remove = api.converter.remove_getattr_nodes
            yield api.converter, "remove_getattr_nodes", lambda graph: self._forget_weights(graph, remove)

    def _lowered(self, program: Any) -> Any:
        from coremltools.converters.mil.frontend.torch.torchscript_utils import _expand_and_optimize_ir

        graph, parameters, buffers = _expand_and_optimize_ir(program)
        self._guide.lowered(graph)
        return graph, parameters, buffers

    def _assign(self, graph: Any, assign: Any) -> None:
        """Run the pass that turns in-place copies into assignments; what it refuses becomes a node without a converter."""
        names = [node.name for node in graph.nodes]
        while True:
            before = [(node, list(node.inputs)) for node in graph.nodes]
            outputs = list(graph.outputs)
            try:
                assign(graph)
            except ValueError as error:
                # What it has passed already is copied no more.
                refused = next(at for at, node in enumerate(graph.nodes) if node.kind in ("copy_", "fill_"))
                graph.nodes[:] = [node for node, _ in before]
                for node, inputs in before:
                    node.inputs[:] = inputs
                graph.outputs[:] = outputs
                node = graph.nodes[refused]
                self.note("refused", node.name, str(error))
                self._not_imported.add(node.name)
                node.kind = "modellint::refused"
            else:
                break
        self._renamed.update(
            (node.name, name) for node, name in zip(graph.nodes, names, strict=True) if node.name != name
        )

    def _forget_weights(self, graph: Any, remove: Any) -> None:
        """Run the pass that refuses a model that returns a weight as it is; such an output is noted and left out."""
        returned = [node.name for node in graph.nodes if node.kind == "getattr" and node.name in graph.outputs]
        for name in returned:
            self.note("output", None, f"{name} should not be in the graph outputs.", name)
        graph.outputs[:] = [name for name in graph.outputs if name not in returned] or [graph.nodes[-1].name]
        remove(graph)

    def _graph_of_export(self, exir: Any, cut_at_symbols: Any = None) -> Any:
        """coremltools' graph of an exported program, with nodes that it refuses to read left in."""
        api = self._api
        program = Tidied(exir, self)
        inputs, outputs, parameters, buffers, sources, updates = api.exir.extract_io_from_exir_program(program)
        replaced = dict(program.replaced)
        suffix = api.exir.WRAPPED_SCALAR_INPUT_SUFFIX
        by_name = {tensor_type.name.removesuffix(suffix): tensor_type for tensor_type in inputs}
        named = OrderedDict()
        for name in program.inputs:
            tensor_type = replaced[name] if name in replaced else by_name[name]
            named[tensor_type.name] = tensor_type
            value = program.values[name]
            for size, symbol in zip(getattr(value, "shape", ()), tensor_type.shape.symbolic_shape, strict=False):
                if not isinstance(size, int):
                    self._stand_ins.name(str(size), symbol)
        nodes = []
        unused = frozenset() if facts().reads_unused else _unused(exir.graph_module.graph)
        for at, node in enumerate(exir.graph_module.graph.nodes):
            if node in unused:
                continue
            if node.op == "call_function":
                nodes.append(self._imported(node, at))
            elif node.op == "get_attr":
                value = getattr(exir.graph_module, node.target)
                if isinstance(value, torch.Tensor):
                    parameters[node.target] = value
                else:
                    # The operator that takes it is refused as well, and says more.
                    self._lost.add(node.name)
        return api.graph.InternalTorchIRGraph(
            nodes=nodes,
            params=parameters,
            inputs=named,
            outputs=outputs,
            buffers=buffers,
            input_name_to_source_buffer_name=sources,
            output_name_to_target_buffer_name=updates,
        )

    def _imported(self, node: Any, at: int) -> Any:
        api = self._api
        # The number comes back as the scope of what is made of the node.
        meta = {**node.meta, "debug_handle": at}
        try:
            imported = api.graph.InternalTorchIRNode.from_exir_node(node=node)
        except Exception as error:
            kind = api.utils.sanitize_op_kind(_target_name(node.target))
            missing = kind not in api.registry.name_to_func_mapping
            self.note("missing" if missing else "refused", node.name, _described(error))
            self._not_imported.add(node.name)
            names = tuple(operand.name for operand in node.all_input_nodes)
            imported = api.graph.InternalTorchIRNode(kind=kind, inputs=names, outputs=[node.name], name=node.name)
        imported.meta = meta
        return imported

    def _convert_nodes(self, context: Any, graph: Any, early_exit: bool = True) -> None:
        top = isinstance(graph, self._api.graph.InternalTorchIRGraph)
        for node in graph.nodes:
            if len(node.outputs) > 1:
                self._makers.update(dict.fromkeys(node.outputs, node))
            self._convert(context, node)
            if early_exit and all(name in context for name in graph.outputs):
                break
        if top:
            self._settle_outputs(context, graph)

    def _convert(self, context: Any, node: Any) -> None:
        if node.name in self._not_imported:
            self._stand_in(context, node)
            return
        before, depth = len(self.failures), len(context._current_graph)
        try:
            self._api.ops.convert_single_node(context, node)
        except Exception as error:
            del context._current_graph[depth:]
            unlink_half_built()
            if self._api.registry.get_func(node.kind) is None:
                self.note("missing", node.name, str(error))
            elif len(self.failures) == before and not self._is_doubtful(node):
                self._note_refusal(context, node, error)
            self._stand_in(context, node)
        else:
            if (self._uncertain or self._lost) and self._is_doubtful(node):
                self._uncertain.update(name for name in node.outputs if not self._is_constant(context, name))

    def _is_doubtful(self, node: Any) -> bool:
        """Whether a node was given something that only resembles what it would have got."""
        return any(name in self._lost or name in self._uncertain for name in _names(node.inputs))

    def _is_constant(self, context: Any, name: str) -> bool:
        value = context[name] if name in context else None  # noqa: SIM401 - it is no dict
        return isinstance(value, self._api.Var) and value.val is not None

    def _note_refusal(self, context: Any, node: Any, error: Exception) -> None:
        message = _described(error)
        unbound = _UNBOUND.search(message)
        maker = None if unbound is None else self._makers.get(unbound[1])
        if maker is not None:
            self._note_unbound(context, maker)
            return
        key = node.kind, message.replace(node.name, "")
        if key not in self._newer:
            self._newer[key] = self._newer_target(context, node)
        newer = self._newer[key]
        if newer is not None:
            self.note("target", node.name, f"{message} [{newer.name}]")
        else:
            self.note("refused" if _speaks(error) else "crash", node.name, message)

    def _note_unbound(self, context: Any, maker: Any) -> None:
        """Note a converter that bound fewer outputs than its operator has: that operator is to blame, not a user of the others."""
        missing = [name for name in maker.outputs if not (name in context and isinstance(context[name], self._api.Var))]
        absent = [name for name in missing if name not in context] or missing
        ordinals = ", ".join(str(maker.outputs.index(name) + 1) for name in absent)
        self.note("refused", maker.name, f"the converter of {maker.kind} does not make its output {ordinals}")
        for name in missing:
            with self._scope(maker):
                self._put(context, name, _NOTHING, self._guide.like(self._renamed.get(name, name)), ())

    def _newer_target(self, context: Any, node: Any) -> Any:
        """The oldest target, newer than the one that is asked for, for which a node converts."""
        function, block = self._api.blocks.BLOCK_STACK[0], self._api.blocks.curr_block()
        requested = function.opset_version
        for target in sorted({*ct.target}):
            if target <= requested:
                continue
            known = set(map(id, block.operations))
            names = dict(context._current_graph[-1])
            depth, failures = len(context._current_graph), len(self.failures)
            function.opset_version = target
            try:
                self._api.ops.convert_single_node(context, node)
                converts = len(self.failures) == failures
            except Exception:
                converts = False
            finally:
                function.opset_version = requested
                del context._current_graph[depth:]
                del self.failures[failures:]
                context._current_graph[-1].clear()
                context._current_graph[-1].update(names)
                without(block, [op for op in block.operations if id(op) not in known])
            if converts:
                return target
        return None

    def _stand_in(self, context: Any, node: Any) -> None:
        names = list(node.outputs)
        uses = [
            part
            for name in _names(node.inputs)
            if name in context
            for part in variables(context[name], self._api)
            if not self._api.types.is_state(part.sym_type)
        ]
        values = self._computed(context, node)
        with self._scope(node):
            for at, name in enumerate(names):
                value = _NOTHING if values is _NOTHING or len(names) > 1 else values
                if values is not _NOTHING and len(names) > 1:
                    value = values[at]
                self._put(context, name, value, self._guide.like(self._renamed.get(name, name)), uses)

    def replace(self, context: Any, name: str, value: Any) -> None:
        """Stand in for a constant that coremltools cannot hold."""
        like = Like(tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else None
        self._put(context, name, _NOTHING, like, ())

    def _put(self, context: Any, name: str, value: Any, like: Likes, uses: Sequence[Any]) -> None:
        stand_in = None if value is _NOTHING else self._stand_ins.constant(value)
        if stand_in is None:
            stand_in = self._stand_ins.placeholder(like, uses)
            if stand_in is None:
                self._lost.add(name)
                return
            if is_number_like(like):
                self._uncertain.add(name)
        context.add(stand_in, torch_name=name, override=True)

    def _computed(self, context: Any, node: Any) -> Any:
        if node.name in self._lost or any(name in self._lost for name in _names(node.inputs)):
            return _NOTHING
        try:
            name = self._renamed.get(node.name, node.name)
            result = self._guide.computed(name, node.inputs, lambda operand: self._value(context, operand))
        except Exception:
            return _NOTHING
        parts = result if isinstance(result, (list, tuple)) else [result]
        if any(isinstance(part, torch.Tensor) and (part.is_meta or part.numel() > _LARGEST) for part in parts):
            return _NOTHING
        return result

    def _value(self, context: Any, name: Any) -> Any:
        """An input as PyTorch would have it; on the meta device what is no constant."""
        if isinstance(name, (list, tuple)):
            return [self._value(context, part) for part in name]
        if not isinstance(name, str) or name not in context:
            return name
        return self._stand_ins.value_of(context[name], self._guide.like(self._renamed.get(name, name)))

    def _scope(self, node: Any) -> Any:
        api = self._api
        source = api.ScopeSource
        if self._types is None:
            sources = [
                (source.EXIR_STACK_TRACE, [node.meta.get("stack_trace")]),
                (source.EXIR_DEBUG_HANDLE, [node.meta.get("debug_handle")]),
            ]
        else:
            sources = [(source.TORCHSCRIPT_MODULE_TYPE, [node.kind]), (source.TORCHSCRIPT_MODULE_NAME, [node.name])]
        return api.Builder.scope(*(api.ScopeInfo(source=name, data=data) for name, data in sources))

    def _settle_outputs(self, context: Any, graph: Any) -> None:
        """Put something in the place of outputs that coremltools would choke on."""
        for name in graph.outputs:
            output = context[name] if name in context else _NOTHING  # noqa: SIM401 - it is no dict
            if isinstance(output, self._api.Var) or output is None:
                continue
            maker = self._makers.get(name)
            if maker is not None and name not in self._lost:
                self._note_unbound(context, maker)
                if name in context and isinstance(context[name], self._api.Var):
                    continue
            elif name not in self._lost and not self.failures:
                what = "is not there" if output is _NOTHING else f"is a {type(output).__name__}"
                self.note("output", None, f"the output {name} {what}", name)
            stand_in = SimpleNamespace(name=name, kind="output", meta={})
            with self._scope(stand_in):
                context.add(self._stand_ins.placeholder(Like((1,), torch.float32), ()), torch_name=name, override=True)

    def _check_outputs(self, program: Any) -> None:
        for function in program.functions.values():
            given = {id(value) for value in function.inputs.values()}
            for output in function.outputs:
                if self._api.types.is_complex(output.dtype):
                    self.note("output", self.origin(output.op), _COMPLEX, output.name)
                if self._types is None and self._api.types.is_bool(output.dtype) and id(output) in given:
                    # It is cast at the border, to two variables of one name.
                    self.note("output", None, _BOTH.format(output.name), output.name)

    def _lower_complex(self, program: Any) -> None:
        """Do what coremltools' first pass does, which refuses some sizes that the converters let through."""
        if lacks("complex"):
            return
        from coremltools.converters.mil.mil.passes.defs import lower_complex_dialect_ops as lowering

        api = self._api
        for function in program.functions.values():
            live = live_operations(function)
            with function:
                for operation in [operation for operation in function.operations if operation in live]:
                    operands = operation.get_flattened_inputs()
                    # What became of a stand-in, or of what was refused, says nothing.
                    doubtful = any(api.types.is_complex(operand.dtype) and operand.real is None for operand in operands)
                    if doubtful or not lowering.LowerComplex.has_lower_func(operation.op_type):
                        continue
                    try:
                        lowering._match_and_replace_dialect_op(function, operation)
                    except Exception as error:
                        unlink_half_built()
                        self.note("refused" if _speaks(error) else "crash", self.origin(operation), _described(error))

    def origin(self, operation: Any) -> str | None:
        """The node of the captured program that an operation was made of."""
        made_from = _node_of(operation)
        if isinstance(made_from, int):
            return str(next(node.name for at, node in enumerate(self._program.graph.nodes) if at == made_from))
        return None if made_from is None else self._renamed.get(made_from, made_from)


@cache
def _walking_converter() -> Any:
    """coremltools' converter, told by a ``FrontEnd`` what to do where it would stop."""
    api = front_end_parts()

    class Walking(api.converter.TorchConverter):  # type: ignore[misc, name-defined]
        def __init__(self, front_end: FrontEnd, *arguments: Any) -> None:
            self._front_end = front_end
            super().__init__(*arguments)

        def _create_placeholder(self, declared: Any) -> Any:
            try:
                return super()._create_placeholder(declared)
            except ValueError as error:
                if len(declared.shape.symbolic_shape):
                    raise
                self._front_end.note("argument", None, str(error), declared.name)
                return api.Builder.placeholder((), dtype=declared.dtype, allow_rank0_input=True)

        def _add_const(self, name: str, value: Any) -> None:
            try:
                super()._add_const(name, value)
            except Exception as error:
                self._front_end.note("argument", None, _described(error), name)
                self._front_end.replace(self.context, name, value)

    return Walking


def _node_of(operation: Any) -> Any:
    """The name of the node that an operation was made of, for an exported program its number."""
    if operation is None:
        return None
    source = front_end_parts().ScopeSource
    numbers = operation.scopes.get(source.EXIR_DEBUG_HANDLE)
    if numbers:
        return numbers[0]
    names = operation.scopes.get(source.TORCHSCRIPT_MODULE_NAME)
    return names[-1] if names else None


def _names(inputs: Any) -> Iterator[str]:
    for operand in inputs or ():
        if isinstance(operand, str):
            yield operand
        elif isinstance(operand, (list, tuple)):
            yield from _names(operand)


def _target_name(target: Any) -> str:
    name = getattr(target, "name", None)
    if callable(name):
        return str(name())
    return str(target.__name__) if callable(target) else str(target)


def _speaks(error: Exception) -> bool:
    """Whether an exception was raised to say something to the user."""
    kinds = (ValueError, NotImplementedError, RuntimeError, AssertionError)
    text = str(error).strip()
    return isinstance(error, kinds) and bool(text) and _PYTHON.match(text) is None


def _described(error: Exception) -> str:
    text = str(error).strip()
    return text if _speaks(error) else f"{type(error).__name__}: {text}" if text else type(error).__name__

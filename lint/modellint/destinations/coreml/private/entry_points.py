"""Entry points of coremltools and of its PyTorch front end, called so that nothing is printed and nothing half built stays."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from modellint.destinations.comparison import side_effect_free_runs


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Without the collector of reference cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _without_package(name: str) -> Iterator[None]:
    """Without a package that is not imported yet, as if it were not installed."""
    absent = name not in sys.modules
    if absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules[name]


# Nothing that an import makes is garbage, but the collector would look for some again and again. coremltools 9.0 imports
# transformers, if it is there, to note that for its tests: that would take as long as coremltools itself.
with contextlib.redirect_stderr(io.StringIO()), without_collection(), _without_package("transformers"):
    import coremltools

ct = coremltools
"""The public package, imported in silence. One without these raises ``AttributeError``: it was not imported as a whole."""
_PUBLIC = ct.converters, ct.target

_LOG = logging.getLogger("coremltools")


def registered() -> frozenset[str]:
    """The names that the installed coremltools' torch front end has a converter for."""
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

    return frozenset(_TORCH_OPS_REGISTRY.name_to_func_mapping)


def traced_operators(program: Any, inputs: Sequence[Any]) -> frozenset[str]:
    """The names that the front end looks up for a TorchScript module, after its own passes on the graph."""
    from coremltools.converters.mil.frontend.torch.converter import TorchConverter
    from coremltools.converters.mil.frontend.torch.utils import sanitize_op_kind, unify_inplace_and_functional

    graph = TorchConverter(program, list(inputs)).graph

    def kinds(nodes: Any) -> Iterator[str]:
        for node in nodes:
            # `TorchOpsRegistry.get_func` sanitises a name that the graph has sanitised before.
            yield unify_inplace_and_functional(sanitize_op_kind(node.kind))
            for block in node.blocks or ():
                yield from kinds(block.nodes)

    return frozenset(kinds(graph.nodes))


def exported_operators(program: Any) -> frozenset[str]:
    """The names that the front end looks up for an exported program, as they are."""
    from coremltools.converters.mil.frontend.torch.utils import sanitize_op_kind

    names: set[str] = set()
    for node in program.graph_module.graph.nodes:
        if node.op == "call_function":
            name = getattr(node.target, "name", None)
            names.add(sanitize_op_kind(name() if callable(name) else node.target.__name__))
    return frozenset(names)


def lowered_graph(program: Any) -> Any:
    """The graph that the front end reads for a TorchScript module, with its names of values; None where it does not show it."""
    try:
        from coremltools.converters.mil.frontend.torch.torchscript_utils import _expand_and_optimize_ir
    except ImportError:
        return None

    return _expand_and_optimize_ir(program)[0]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep everything from logging, warning, and drawing progress bars; one thread at a time."""
    with side_effect_free_runs.silence():
        level = _LOG.level
        # A level of its own spares the messages' making.
        _LOG.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            _LOG.setLevel(level)


def specification(ios: int) -> Any:
    """coremltools' own target for the iOS of a year."""
    return ct.target[f"iOS{ios}"]


def refusal_of_types(tensor_types: Sequence[Any], target: Any) -> str | None:
    """What `ct.convert` says about the inputs of a model before it looks at the model; None where it cannot be asked."""
    try:
        from coremltools.converters._converters_entry import _validate_conversion_arguments
    except ImportError:
        return None

    try:
        _validate_conversion_arguments(
            None, "milinternal-unchecked", "mlprogram", [*tensor_types], None, None, None, "mlprogram", target
        )
    except (TypeError, ValueError) as error:
        return str(error)
    return None


@cache
def front_end_parts() -> SimpleNamespace:
    """The parts of the front end, by short names."""
    from coremltools.converters.mil import converter as reset
    from coremltools.converters.mil.frontend.torch import converter, exir_utils, internal_graph, ops
    from coremltools.converters.mil.frontend.torch import utils as torch_utils
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY, TorchOpsRegistry
    from coremltools.converters.mil.mil import Builder, Operation, get_new_symbol, types
    from coremltools.converters.mil.mil import block as blocks
    from coremltools.converters.mil.mil.input_type import InputSpec, TupleInputType
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource
    from coremltools.converters.mil.mil.var import ListVar, Var

    return SimpleNamespace(
        Builder=Builder,
        InputSpec=InputSpec,
        ListVar=ListVar,
        Operation=Operation,
        Registry=TorchOpsRegistry,
        ScopeInfo=ScopeInfo,
        ScopeSource=ScopeSource,
        TupleInputType=TupleInputType,
        Var=Var,
        blocks=blocks,
        converter=converter,
        exir=exir_utils,
        graph=internal_graph,
        new_symbol=get_new_symbol,
        ops=ops,
        registry=_TORCH_OPS_REGISTRY,
        reset=reset._reset_conversion_state,
        types=types,
        utils=torch_utils,
    )


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """With another value in the place of an attribute."""
    own = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, own)


def without(block: Any, operations: Sequence[Any]) -> None:
    """Take operations out of a block as if they had never been made."""
    for operation in reversed(operations):
        block.operations.remove(operation)
        operation.enclosing_block = None
        for variable in operation.get_flattened_inputs():
            variable.remove_child_op(operation)
        for variable in operation.internal_inputs.values():
            block._internal_vars.discard(variable)


def unlink_half_built() -> None:
    """Take out of the block what a converter that raised has left without outputs."""
    block = front_end_parts().blocks.curr_block()
    without(block, [op for op in block.operations if op.outputs is None])

"""The one module that touches coremltools' private names."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator, Sequence
from typing import Any

with contextlib.redirect_stderr(io.StringIO()):
    import coremltools

ct = coremltools
"""The public package, imported in silence."""

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

    found: set[str] = set()
    for node in program.graph_module.graph.nodes:
        if node.op == "call_function":
            name = getattr(node.target, "name", None)
            found.add(sanitize_op_kind(name() if callable(name) else node.target.__name__))
    return frozenset(found)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep coremltools from logging and drawing progress bars."""
    level = _LOG.level
    _LOG.setLevel(logging.CRITICAL)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            yield
        finally:
            _LOG.setLevel(level)

"""Output structure: the tensors, dicts and other objects in what a model returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from modellint.live.capture.records import Record, TensorFact


class Part(NamedTuple):
    """One thing in a model's output that is no list and no tuple; of a dict the dict and then what it holds."""

    value: Any
    kind: str
    """``tensor``, ``dict``, or ``other``."""
    type: str
    """The name of its class; of tensors ``Tensor``."""


def parts_of(output: Any) -> Iterator[Part]:
    """Every part of an output, outermost first, in order."""
    match output:
        case TensorFact():
            yield Part(output, "tensor", "Tensor")
        case Record() if output.is_mapping:
            yield Part(output, "dict", output.type)
            for part in output.fields.values():
                yield from parts_of(part)
        case Record() if output.is_node:
            for part in output.fields.values():
                yield from parts_of(part)
        case Record():
            yield Part(output, "other", output.type)
        case Mapping():
            yield Part(output, "dict", type(output).__name__)
            for part in output.values():
                yield from parts_of(part)
        case tuple() | list():
            for part in output:
                yield from parts_of(part)
        case _:
            yield Part(output, "other", "None" if output is None else type(output).__name__)


def leaves_with_paths(output: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves of what a model returned, as ``torch.utils._pytree`` flattens it, each with its path.

    A class that is registered without names for its parts, as diffusers registers its own, gives its keys, or else positions.
    """
    from torch.utils import _pytree as pytree

    try:
        return pytree.tree_leaves_with_path(output)
    except ValueError:
        leaves = pytree.tree_leaves(output)
        if isinstance(output, Mapping):
            named = [
                ((pytree.MappingKey(key), *path), leaf)
                for key, part in output.items()
                for path, leaf in leaves_with_paths(part)
            ]
            if [id(leaf) for _, leaf in named] == [id(leaf) for leaf in leaves]:
                return named
        return [((pytree.SequenceKey(at),), leaf) for at, leaf in enumerate(leaves)]

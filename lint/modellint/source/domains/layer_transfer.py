"""What the layers of torch make of the tensors that they are given."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from modellint.source.domains.derived_tensors import batch_of, tensors_in
from modellint.source.domains.layout_transfer import forgotten, like, packed
from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout, is_fixed
from modellint.source.domains.operator_sets import ACTIVATIONS, CONVOLUTIONS, NORMS, POOLS
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Instance, Value


def with_last(layout: Layout | None, last: Dim) -> Layout | None:
    """A new contiguous tensor of the same shape but for its last dimension."""
    if layout is None:
        return None
    found = layout.position(-1)
    if found is None:
        return None
    axes = list(found[0].axes)
    axes[found[1]] = Axis(last, ONE)
    return packed(Layout(axes))


def pooled(layout: Layout | None) -> Layout | None:
    """A new tensor of the same rank and batch size, its other sizes not known."""
    if layout is None or layout.rank is None:
        return None
    made = Layout.contiguous([layout.axes[0].size, *(Dim.symbol() for _ in layout.axes[1:])])
    return made if layout.is_contiguous else forgotten(made)


def with_channels(layout: Layout | None, channels: Dim | None) -> Layout | None:
    """The same tensor, with so many channels in its second dimension; None where they are not known."""
    if layout is None or channels is None or layout.rank is None or layout.rank < 3:
        return layout
    sizes = [axis.size for axis in layout.axes]
    sizes[1] = channels
    result = Layout.contiguous(sizes)
    return result if layout.is_contiguous else forgotten(result)


def with_features(layout: Layout | None, features: Dim) -> Layout | None:
    """A new contiguous tensor that has so many features for each element of another."""
    return packed(Layout((*layout.axes, Axis(features, ONE)))) if layout is not None else None


def features_of(module: Instance, index: int, keyword: str) -> Dim:
    """How many features a layer gives, whatever it is given: a number that is written down, or one under the layer's name."""
    written = _literal(module, index, keyword)
    return Dim.symbol(("features", id(module))) if written is None else Dim.of(written)


def size_of_weight(weight: Value | None, dim: int) -> Dim | None:
    """The size of a dimension of the weight that a function of torch is given; that of what the module registers no input changes."""
    if not isinstance(weight, Tensor):
        return None
    known = weight.layout.size(dim) if weight.layout is not None else None
    if weight.kind == "tensor" or (known is not None and is_fixed(known[1])):
        return known[1] if known is not None else None
    return Dim.symbol(("weight", id(weight), dim))


def pooled_to_one(layout: Layout | None, count: int) -> Layout | None:
    """What is left of a tensor when its last dimensions are pooled to size 1."""
    found = layout.position(-count) if layout is not None else None
    if layout is None or found is None:
        return None
    kept = found[0].axes[: len(found[0].axes) - count]
    made = packed(Layout([*kept, *(Axis(ONE, ONE) for _ in range(count))]))
    return made if layout.is_contiguous else forgotten(made)


def module_output(module: Instance, given: Value | None, node: ast.AST, quiet: bool) -> Value:
    """What calling a module gives, as far as its class tells."""
    if not isinstance(given, Tensor):
        parts = tensors_in([given]) if given is not None else []
        made_of = batch_of(parts)
        return Tensor(
            node, Layout.unranked(), "unseen", certain=False, grad=_graph(parts, quiet), assumed=True, batch=made_of
        )
    path, _, name = module.name.rpartition(".")
    layout = given.layout
    if not path.startswith("torch.nn"):
        return Tensor(
            node,
            Layout.unranked(),
            "unseen",
            certain=False,
            grad=_graph([given], quiet),
            assumed=True,
            batch=given.batch,
        )
    grad = _graph([given], quiet)

    def made(result: Layout | None, certain: bool = True) -> Tensor:
        assumed = given.assumed
        return Tensor(node, result, certain=certain, assumed=assumed, grad=grad, made_by=name, batch=given.batch)

    if name == "Identity":
        return given
    if name == "Sequential":
        value: Value = given
        for held in module.held:
            if not isinstance(held, Instance) or held.kind != "module" or not held.name.startswith("torch.nn."):
                return Tensor(
                    node, Layout.unranked(), "unseen", certain=False, grad=grad, assumed=True, batch=given.batch
                )
            value = module_output(held, value, node, quiet)
        is_empty = isinstance(module.node, ast.Call) and not module.node.args
        return value if module.held or is_empty else made(None)
    if name == "Linear":
        return made(with_last(layout, features_of(module, 1, "out_features")))
    if name in CONVOLUTIONS:
        ranked = layout.with_rank(int(name[-2]) + 2) if layout is not None else None
        result = pooled(ranked)
        if result is None:
            result = forgotten(Layout.contiguous([Dim.symbol() for _ in range(int(name[-2]) + 2)]))
        return made(with_channels(result, features_of(module, 1, "out_channels")))
    if name in ACTIVATIONS:
        return made(packed(layout) if name.endswith("oftmax") else like(layout))
    if name.startswith(("LayerNorm", "GroupNorm", "BatchNorm")):
        return made(packed(layout))
    if name.startswith(NORMS):
        return made(like(layout))
    if name.startswith("Adaptive") and _literal(module, 0, "output_size") == 1:
        return made(pooled_to_one(layout, int(name[-2])))
    if name.startswith(POOLS):
        return made(pooled(layout))
    if name == "Embedding":
        return made(with_features(layout, features_of(module, 1, "embedding_dim")))
    if name == "Flatten":
        return made(None)
    return made(None, certain=False)


def _literal(module: Instance, index: int, keyword: str) -> int | None:
    """An argument that a module of torch is made with, where it is written as a number, or as a tuple of equal numbers."""
    if not isinstance(module.node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in module.node.args):
        return None
    given = next((word.value for word in module.node.keywords if word.arg == keyword), None)
    if given is None and index < len(module.node.args):
        given = module.node.args[index]
    numbers = {
        part.value if isinstance(part, ast.Constant) and type(part.value) is int else None
        for part in (given.elts if isinstance(given, ast.Tuple) else [given])
    }
    return numbers.pop() if len(numbers) == 1 else None


def _graph(parts: Sequence[Tensor], quiet: bool) -> bool | None:
    if quiet:
        return False
    return True if any(part.grad for part in parts) or not parts else None

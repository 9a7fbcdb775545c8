"""What the layers of torch make of the tensors that they are given."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from modellint.source.domains import tensors
from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout
from modellint.source.domains.result_tensors import tensors_in
from modellint.source.domains.tensors import Tensor, like
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
    return tensors.packed(Layout(axes))


def pooled(layout: Layout | None) -> Layout | None:
    """A new tensor of the same rank and batch size, its other sizes not known."""
    if layout is None or layout.rank is None:
        return None
    made = Layout.contiguous([layout.axes[0].size, *(Dim.symbol() for _ in layout.axes[1:])])
    return made if layout.is_contiguous else tensors.forgotten(made)


def pooled_to_one(layout: Layout | None, count: int) -> Layout | None:
    """What is left of a tensor when its last dimensions are pooled to size 1."""
    found = layout.position(-count) if layout is not None else None
    if layout is None or found is None:
        return None
    kept = found[0].axes[: len(found[0].axes) - count]
    made = tensors.packed(Layout([*kept, *(Axis(ONE, ONE) for _ in range(count))]))
    return made if layout.is_contiguous else tensors.forgotten(made)


def module_output(module: Instance, given: Value | None, node: ast.AST, quiet: bool) -> Value:
    """What calling a module gives, as far as its class tells."""
    if not isinstance(given, Tensor):
        parts = tensors_in([given]) if given is not None else []
        made_of = tensors.batch_of(parts)
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
        features = _literal(module, 1, "out_features")
        return made(with_last(layout, Dim.symbol(("features", id(module))) if features is None else Dim.of(features)))
    if name in tensors.CONVOLUTIONS:
        ranked = layout.with_rank(int(name[-2]) + 2) if layout is not None else None
        result = pooled(ranked)
        if result is None:
            result = tensors.forgotten(Layout.contiguous([Dim.symbol() for _ in range(int(name[-2]) + 2)]))
        return made(result)
    if name in tensors.ACTIVATIONS:
        return made(tensors.packed(layout) if name.endswith("oftmax") else like(layout))
    if name.startswith(("LayerNorm", "GroupNorm", "BatchNorm")):
        return made(tensors.packed(layout))
    if name.startswith(tensors.NORMS):
        return made(like(layout))
    if name.startswith("Adaptive") and _literal(module, 0, "output_size") == 1:
        return made(pooled_to_one(layout, int(name[-2])))
    if name.startswith(tensors.POOLS):
        return made(pooled(layout))
    if name == "Embedding":
        if layout is None or layout.rank is None:
            return made(None)
        return made(Layout.contiguous([*(axis.size for axis in layout.axes), Dim.symbol()]))
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

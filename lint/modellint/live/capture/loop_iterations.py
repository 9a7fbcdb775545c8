"""Loop iterations: loops that take more of them for a larger input, seen by runs on inputs of other sizes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from modellint.live.capture.fake_tensor_run import capture, captured_run
from modellint.live.capture.records import Run
from modellint.live.code.anchor_statements import Loop, function_around, loops_around, node_at
from modellint.live.code.places import span_of
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject

_MOST = 4
"""Larger inputs that are tried."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PASSING = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter", "range", "len", "sorted"})


class LongLoop(NamedTuple):
    """A loop, or a comprehension, that is as long as an input."""

    place: Place
    modules: tuple[str, ...]


def long_loops(subject: Subject) -> Iterator[LongLoop]:
    """The loops of the subject's run that take more turns where a dimension of the inputs is doubled."""
    from modellint.live.subject import Subject as Other

    run = captured_run(subject)
    if run is None or run.failure is not None or subject.inputs is None:
        return
    counts = _counts(run)
    looping = {place: loops for place, count in counts.items() if count > 1 and (loops := _loops(place))}
    if not looping:
        return
    reported: set[Place] = set()
    for inputs in _doubled(subject.inputs):
        larger_run = capture(Other(subject.model, inputs, subject.project.root, subject.destination))
        if larger_run.failure is not None:
            continue
        more = _counts(larger_run)
        for place, loops in looping.items():
            if more[place] <= counts[place]:
                continue
            loop = _grown(place, loops, counts, more)
            if loop is not None and loop not in reported:
                reported.add(loop)
                paths = (call.module for call in run.calls if call.place == place)
                yield LongLoop(loop, tuple(dict.fromkeys(paths)))


def _counts(run: Run) -> Counter[Place]:
    """Executions of each statement: how often it called the function of torch, or the module, that it called most."""
    kinds_at: dict[Place, Counter[Any]] = {}
    for call in run.calls:
        if call.place is not None:
            kinds_at.setdefault(call.place, Counter())[call.name] += 1
    for module in run.modules:
        if module.place is not None:
            kinds_at.setdefault(module.place, Counter())[module.identity] += 1
    return Counter({place: max(kinds.values()) for place, kinds in kinds_at.items()})


def _loops(place: Place) -> list[Place]:
    """What may repeat a statement, and how often its own text does not tell: a comprehension in it, the loops around it."""
    node = node_at(place)
    inner = []
    if node is not None and not hasattr(node, "body"):
        parts = [part for part in ast.walk(node) if isinstance(part, _COMPREHENSIONS)]
        inner = [place] if any(_is_open(generator.iter) for part in parts for generator in part.generators) else []
    around = loops_around(place)
    return inner + [Place(place.path, span_of(place.path, loop)) for loop in around if _is_open(_header(loop))]


def _header(loop: Loop) -> ast.expr:
    return loop.test if isinstance(loop, ast.While) else loop.iter


def _is_open(header: ast.expr) -> bool:
    """Whether the number of turns may depend on anything but the module itself."""
    match header:
        case ast.Constant():
            return False
        case ast.Attribute(value=ast.Name(id="self")):
            return False
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return _is_open(value)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _PASSING:
            return any(map(_is_open, arguments))
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "keys" | "values" | "children"), args=[]):
            return _is_open(value)
        case ast.BinOp(left=left, right=right):
            return _is_open(left) or _is_open(right)
    return True


def _grown(place: Place, loops: list[Place], before: Counter[Place], after: Counter[Place]) -> Place | None:
    """The loop that grew: the innermost around a statement that takes more turns itself; None where there is none."""
    growth = after[place] / before[place]
    beside = [
        neighbour for neighbour in before if neighbour != place and function_around(neighbour) is function_around(place)
    ]
    for loop in loops:
        outside = [after[neighbour] / before[neighbour] for neighbour in beside if loop not in _loops(neighbour)]
        if not outside or max(outside) < growth:
            return loop
    return None


def _doubled(inputs: Inputs) -> Iterator[Inputs]:
    """The inputs, twice as large in one dimension, or in all of an image; all tensors of the same size there are."""
    leaves, tree = pytree.tree_flatten((tuple(inputs.args), dict(inputs.kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    wider: dict[tuple[tuple[int, ...], int], None] = {}
    for tensor in tensors:
        # Channels have a size of their own.
        groups = [(0,), tuple(range(2, tensor.dim()))] if tensor.dim() > 3 else [(at,) for at in range(tensor.dim())]
        wider.update(dict.fromkeys((group, tensor.shape[group[0]]) for group in groups if tensor.numel()))
    for group, size in list(wider)[:_MOST]:
        args, kwargs = pytree.tree_unflatten([_wider(leaf, group, size) for leaf in leaves], tree)
        yield inputs._replace(args=args, kwargs=kwargs)


def _wider(leaf: Any, group: tuple[int, ...], size: int) -> Any:
    if not isinstance(leaf, torch.Tensor) or leaf.dim() <= group[-1] or leaf.shape[group[0]] != size:
        return leaf
    for at in group:
        leaf = torch.cat([leaf, leaf], at)
    return leaf

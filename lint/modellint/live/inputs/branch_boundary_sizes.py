"""Size boundaries: sizes at which the source of a model, or a program made from it, may take another path."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import nn

MOST = 12
"""Sizes of one dimension that are compared."""
_MOST_DIVISORS = 8
_DIVISORS = (2, 3, 4, 5, 7, 8, 16, 32)


class Thresholds(NamedTuple):
    """Numbers that sizes are compared with or divided by."""

    compared: tuple[int, ...] = ()
    """Compared with, or the sizes of tables: at such a number, below and above it, a model may do something else."""
    divisors: tuple[int, ...] = ()
    """Sizes are divided by these."""

    def joined(self, added: Thresholds) -> Thresholds:
        """These numbers, and then the others."""
        return Thresholds(self.compared + added.compared, self.divisors + added.divisors)


_NONE = Thresholds()


def thresholds(model: nn.Module) -> Thresholds:
    """The numbers in the source of a model's classes, outside of PyTorch, and the sizes of its parameters and buffers."""
    compared: dict[int, None] = {}
    divisors: dict[int, None] = {}
    own = {type(module) for module in model.modules() if not type(module).__module__.startswith("torch.")}
    for cls in sorted(own, key=lambda cls: cls.__qualname__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Compare(left=left, comparators=others):
                    compared.update(dict.fromkeys(_numbers([left, *others])))
                case ast.BinOp(op=ast.Mod() | ast.FloorDiv(), right=right):
                    divisors.update(dict.fromkeys(_numbers([right])))
    for module in model.modules():
        if type(module) in own:
            kept = [value for value in vars(module).values() if type(value) is int and value > 1]
            compared.update(dict.fromkeys(kept))
            for tensor in (*module._parameters.values(), *module._buffers.values()):
                if tensor is not None:
                    compared.update(dict.fromkeys(size for size in tensor.shape if size > 1))
    return Thresholds(tuple(compared), tuple(divisor for divisor in divisors if divisor > 1))


def _numbers(nodes: Iterable[ast.expr]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0:
            yield node.value


def sizes(low: int, high: int, known: Thresholds = _NONE, most: int = MOST) -> Sequence[int]:
    """Sizes from ``low`` to ``high`` to run a model at, at most as many as said.

    Both bounds, the numbers that sizes are compared with and their neighbours, residues of the divisors, and one between.
    """
    if high - low < most:
        return [low, *range(high, low, -1)]
    chosen = dict.fromkeys((low, high))

    def take(wanted: Iterable[int]) -> None:
        for size in wanted:
            if len(chosen) < most and low <= size <= high:
                chosen.setdefault(size)

    # The last places are for residues.
    kept, most = most, most - 4
    for number in known.compared:
        take((number, number + 1, number - 1))
    most = kept
    take([(low + high) // 2])
    divisors = list(dict.fromkeys((*known.divisors, *_DIVISORS)))[:_MOST_DIVISORS]
    missing = {(divisor, rest) for divisor in divisors for rest in {0, 1, divisor - 1}}
    missing -= {(divisor, size % divisor) for size in chosen for divisor in divisors}
    near = sorted(range(low, min(high, low + 512) + 1), key=lambda size: abs(size - min((low + high) // 2, low + 24)))
    while missing and len(chosen) < most:
        best = max(near, key=lambda size: sum((divisor, size % divisor) in missing for divisor in divisors))
        gained = {(divisor, best % divisor) for divisor in divisors} & missing
        if not gained:
            break
        chosen.setdefault(best)
        missing -= gained
    return list(chosen)

"""Padding of one program: its nodes written anew with static sizes, and what tells the elements that there are from those behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from modellint.destinations.capture.static_padding import sizes
from modellint.destinations.capture.static_padding.sizes import SYMBOLS, Bounds, UnknownUse

aten = torch.ops.aten


class Padding:
    """The state of the padding of one functional program, and what its nodes are written with.

    Of each tensor with a size that is a value, the elements that there are stand in front along that axis, in their order.
    """

    def __init__(self, program: Any) -> None:
        self.graph = program.graph
        self._was = {node: node.meta.get("val") for node in self.graph.nodes}
        self._mode = next(
            leaf.fake_mode
            for value in self._was.values()
            for leaf in pytree.tree_leaves(value)
            if hasattr(leaf, "fake_mode")
        )
        self._bounds = Bounds()
        self._counts: dict[Any, Any] = {}
        """By symbol the node that holds its value."""
        self._like: Any = None

    def at(self, node: Any) -> Any:
        """Scope in which new nodes stand before this one, and come from where it does."""
        self._like = node
        return self.graph.inserting_before(node)

    # What was, and what is

    def was(self, node: Any) -> Any:
        """What a node gave before; None of a new one."""
        return self._was.get(node)

    def axes(self, node: Any) -> set[int]:
        """The axes of what a node gave whose sizes are values."""
        was: Any = self._was.get(node)
        return {axis for axis in sizes.axes(was) if self.fixed(was.shape[axis]) is None}

    def is_like(self, new: Any, node: Any) -> None:
        """Take down that a new node has the sizes which are values of another."""
        self._was[new] = self.was(node)

    @staticmethod
    def shape(node: Any) -> list[int]:
        """The shape of what a node gives now."""
        return [*node.meta["val"].shape]

    def bound(self, size: Any) -> int:
        """The greatest that a size can be. Raises `UnknownUse`."""
        return self._bounds.of(size)

    def limit(self, size: Any, number: int) -> None:
        """Take down that a size is at most a number in every run, as that of a part of a split is."""
        if isinstance(size, torch.SymInt):
            self._bounds.limit(size, number)

    def name(self, size: Any, count: Any) -> None:
        """Take down that a node holds the value of a size, if that is a symbol."""
        expression = size.node.expr if isinstance(size, torch.SymInt) else None
        if isinstance(expression, sympy.Symbol):
            self._counts.setdefault(expression, count)

    def fix(self, size: Any, number: int) -> None:
        """Take down that a size is one number in every run, as that of all parts of a split is.

        Raises `UnknownUse` where something of that size was padded before.
        """
        if not isinstance(size, torch.SymInt):
            return
        for node in self.graph.nodes:
            was: Any = self._was.get(node)
            for axis in sizes.axes(was):
                length = node.meta["val"].shape[axis]
                if sizes.equal(was.shape[axis], size) and isinstance(length, int) and length != number:
                    raise UnknownUse("what was padded has a size that is known")
        self._bounds.fix(size, number)

    def fixed(self, size: Any) -> int | None:
        """How great a size is in every run; None where that varies."""
        return size if isinstance(size, int) else self._bounds.fixed(size)

    def count(self, size: Any) -> Any:
        """The node that holds how great a size is in a run. Raises `UnknownUse`."""
        if (number := self.fixed(size)) is not None:
            return self.number(number, torch.int64)
        symbol, factor, offset = sizes.linear(size)
        if symbol not in self._counts:
            raise UnknownUse("a size whose value is not known")
        count = self.new(aten._to_copy.default, self._counts[symbol], dtype=torch.int64)
        count = count if factor == 1 else self.new(aten.mul.Tensor, count, factor)
        return count if not offset else self.new(aten.add.Tensor, count, offset)

    def valid(self, size: Any, length: int) -> Any:
        """By place along an axis of this size, which is ``length`` now, whether there is one in a run; shape ``[length]``."""
        places = self.new(aten.arange.default, length, dtype=torch.int64)
        return self.new(aten.lt.Tensor, places, self.count(size))

    def filled(self, node: Any, along: Iterable[int], fill: float) -> Any:
        """A node's value in which what stands behind the last of these axes is a number, or the farthest that the type has."""
        result, value = node, node.meta["val"]
        for axis in sorted(self.axes(node) & set(along)):
            shape = [1] * value.dim()
            shape[axis] = value.shape[axis]
            there = self.new(aten.view.default, self.valid(self.was(node).shape[axis], value.shape[axis]), shape)
            result = self.new(aten.where.self, there, result, self.number(_of_type(fill, value.dtype), value.dtype))
        return result

    # Nodes

    def new(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A new node. Raises `UnknownUse` where its operands do not fit."""
        node = self.graph.call_function(target, args, kwargs)
        meta = self._like.meta
        node.meta = {key: meta[key] for key in ("stack_trace", "nn_module_stack", "torch_fn") if key in meta}
        self._describe(node)
        return node

    def number(self, value: Any, dtype: torch.dtype) -> Any:
        """A node of one number, of shape ``[]``."""
        return self.new(aten.full.default, [], value, dtype=dtype)

    def cut(self, node: Any, axis: int, length: int) -> Any:
        """The first so many places of an axis."""
        if node.meta["val"].shape[axis] == length:
            return node
        part = self.new(aten.slice.Tensor, node, axis, 0, length)
        self.is_like(part, node)
        return part

    def filled_operand(self, node: Any, operand: Any, axis: int) -> None:
        """Let a node read zeros behind the last of an operand's axis."""
        if axis in self.axes(operand):
            filled = self.filled(operand, [axis], 0.0)
            self.is_like(filled, operand)
            node.replace_input_with(operand, filled)

    def align(self, node: Any, operands: Sequence[Any] | None = None) -> None:
        """Cut operands that are broadcast to each other, where one size has several bounds. Raises `UnknownUse`."""
        given = [
            each
            for each in (node.all_input_nodes if operands is None else operands)
            if isinstance(each.meta.get("val"), torch.Tensor)
        ]
        for behind in range(1, max((each.meta["val"].dim() for each in given), default=0) + 1):
            reaching = [each for each in given if each.meta["val"].dim() >= behind]
            lengths = {int(each.meta["val"].shape[-behind]) for each in reaching} - {1}
            if len(lengths) < 2:
                continue
            for at, each in enumerate(given):
                axis = each.meta["val"].dim() - behind
                if axis < 0 or each.meta["val"].shape[axis] in (1, min(lengths)):
                    continue
                if axis not in self.axes(each):
                    raise UnknownUse("operands of different sizes")
                given[at] = self.cut(each, axis, min(lengths))
                node.replace_input_with(each, given[at])

    def again(self, node: Any) -> None:
        """Let a node do the same with what is padded. Raises `UnknownUse`."""

        def number(operand: Any) -> Any:
            was = self.was(operand)
            return self.bound(was) if isinstance(was, SYMBOLS) else operand

        node.args, node.kwargs = pytree.tree_map_only(torch.fx.Node, number, (node.args, node.kwargs))
        self._describe(node)
        was, now = pytree.tree_leaves(self.was(node)), pytree.tree_leaves(node.meta["val"])
        if len(was) != len(now) or not all(map(_is_like, was, now)):
            raise UnknownUse(f"{node.target} gives another shape")

    def replace(self, node: Any, result: Any) -> None:
        """Put another node in the place of one."""
        node.replace_all_uses_with(result)
        self.is_like(result, node)
        self.graph.erase_node(node)
        # Outputs are known by their names.
        result.name = node.name

    def _describe(self, node: Any) -> None:
        """Give a node its value without elements."""
        args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda each: each.meta["val"], (node.args, node.kwargs))
        try:
            with self._mode:
                node.meta["val"] = node.target(*args, **kwargs)
        except Exception as error:
            raise UnknownUse(f"{node.target}: {error}") from error
        node.meta.pop("unbacked_bindings", None)
        node.meta.pop("tensor_meta", None)


def _of_type(number: float, dtype: torch.dtype) -> Any:
    """A number as one of a type; infinity is the farthest integer."""
    if dtype is torch.bool:
        return bool(number)
    if dtype.is_floating_point:
        return number
    limits = torch.iinfo(dtype)
    return int(number) if math.isfinite(number) else limits.max if number > 0 else limits.min


def _is_like(was: Any, now: Any) -> bool:
    """Whether two values have one type, and one shape but for sizes that are values."""
    if not isinstance(was, torch.Tensor) or not isinstance(now, torch.Tensor):
        return type(was) is type(now)
    return was.dtype is now.dtype and was.dim() == now.dim() and all(map(_is_size, was.shape, now.shape))


def _is_size(was: Any, now: Any) -> bool:
    return sizes.is_of_values(was) or was == now


def argument(node: Any, name: str) -> Any:
    """An operand by its name in the operator's schema; what it is by default, where none is given, and None without such a one."""
    for at, declared in enumerate(node.target._schema.arguments):
        if declared.name == name:
            given = node.args[at] if at < len(node.args) else declared.default_value
            return node.kwargs.get(name, given)
    return None

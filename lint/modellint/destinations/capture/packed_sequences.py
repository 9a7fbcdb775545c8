"""Packed sequences: `pack_padded_sequence` and the recurrent layers behind it, computed on padded rows with a mask.

A packed sequence holds as many numbers as the lengths of its rows tell, which are values; no destination has such sizes. In its place
stand the padded rows. A layer that goes backwards is given each row turned round by its own length, and what lies behind the end of a
row is masked where `pad_packed_sequence` unpacks it. An LSTM's last cell states are not known there. Whatever else reads what stands
for a packed sequence, all of them are left to PyTorch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import product
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.modules import rnn
from torch.utils import _pytree as pytree

NOTE = (
    "packed sequences are rows of the input's length, masked behind their own: with `total_length=x.shape[1]` they are unpacked alike "
    "whatever the longest row is"
)
_HERE = os.path.dirname(__file__) + os.sep  # noqa: PTH120
_CELLS: dict[str, Callable[..., Any]] = {
    name: getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}


class _Rows(NamedTuple):
    """Padded rows of a batch that stand for a packed sequence."""

    lengths: Tensor
    """Of the rows, shape (batch,)."""
    steps: int
    batch: int

    def has_step(self) -> Tensor:
        """Which steps a row has: truth values, shape (steps, batch)."""
        return torch.arange(self.steps).unsqueeze(1) < self.lengths.unsqueeze(0)

    def turned(self, x: Tensor) -> Tensor:
        """Each row of ``x``, shape (steps, batch, features), turned round; what is behind its end stays."""
        step = torch.arange(self.steps).unsqueeze(1)
        at = torch.where(self.has_step(), self.lengths.unsqueeze(0) - 1 - step, step)
        return x.gather(0, at.unsqueeze(2).expand(x.shape))

    def last(self, x: Tensor) -> Tensor:
        """The last step of each row of ``x``, shape (batch, features)."""
        at = (self.lengths - 1).reshape(1, -1, 1).expand(1, self.batch, x.shape[2])
        return x.gather(0, at).squeeze(0)


class Unknown(Exception):
    """A use of a packed sequence for which padded rows cannot stand."""


class _Kept(NamedTuple):
    """What stands for a part of a packed sequence."""

    tensor: Any
    kind: str
    """``sizes``, ``data``, or ``cells``: the last cell states, which nothing may read."""
    rows: _Rows


class PackedSequences:
    """The packed sequences of a run, and what is computed of them in place of PyTorch's functions."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self.is_left = False
        """Whether all are left to PyTorch."""

    def called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives for packed sequences that are padded rows; ``NotImplemented`` for what it computes itself.

        Raises ``Unknown``.
        """
        if self.is_left:
            return NotImplemented
        name = getattr(function, "__name__", "")
        if name == "__get__":
            name = getattr(function.__self__, "__name__", "")
        if name == "_pack_padded_sequence":
            return self._packed(*args, **kwargs)
        if not self._kept:
            return NotImplemented
        given = [kept for leaf in pytree.tree_leaves((args, kwargs)) if (kept := self._kept.get(id(leaf))) is not None]
        if not given:
            return NotImplemented
        kinds = [kept.kind for kept in given]
        rows = given[0].rows
        if kinds == ["data", "sizes"] and given[1].rows is rows:
            if name == "_pad_packed_sequence":
                return _unpacked(rows, args[0], *args[2:], **kwargs)
            if name in _CELLS:
                return self._recurrent(rows, name, args[0], *args[2:], **kwargs)
        if kinds == ["sizes"]:
            if name in _OF_ANY or name == "size":
                return NotImplemented
            # The batch, for states that are zeros.
            if name == "__getitem__" and type(args[1]) is int and args[1] == 0 and _asks_a_layer(sys._getframe(2)):
                return rows.batch
        if kinds == ["data"]:
            if name in _OF_ANY or (name == "size" and args[1:] == (-1,)):
                return NotImplemented
            if name in _ROW_BY_ROW:
                return self._keep(function(*args, **kwargs), "data", rows)
        if kinds == ["cells"] and name == "index_select":
            return self._keep(function(*args, **kwargs), "cells", rows)
        raise Unknown(f"{name} of a packed sequence")

    def _keep(self, tensor: Any, kind: str, rows: _Rows) -> Any:
        # Kept with its address, which stands for it.
        self._kept[id(tensor)] = _Kept(tensor, kind, rows)
        return tensor

    def _packed(self, input: Tensor, lengths: Tensor, batch_first: bool) -> Any:  # noqa: A002
        x = input.transpose(0, 1) if batch_first else input
        steps, batch = int(x.shape[0]), int(x.shape[1])
        if lengths.shape != (batch,):
            raise Unknown("lengths that are none of the rows")
        if _has_values(lengths):
            known = lengths.tolist()
            if known != sorted(known, reverse=True) or known[0] != steps or known[-1] < 1:
                raise Unknown("no row is as long as the input, or PyTorch refuses the lengths")
        sizes = torch.full((steps,), batch, dtype=torch.int64)
        rows = _Rows(lengths, steps, batch)
        self._keep(sizes, "sizes", rows)
        return self._keep(x.reshape(steps * batch, *x.shape[2:]), "data", rows), sizes

    def _recurrent(self, rows: _Rows, name: str, *args: Any, **kwargs: Any) -> Any:
        made = _recurrent(rows, name, *args, **kwargs)
        self._keep(made[0], "data", rows)
        if name == "lstm":
            self._keep(made[2], "cells", rows)
        return made


_OF_ANY = frozenset({"device", "dtype", "dim", "ndim", "is_cuda", "is_floating_point", "layout", "requires_grad"})
"""Of what stands for a packed sequence these are as of one."""
_ROW_BY_ROW = frozenset(
    {"linear", "embedding", "layer_norm", "dropout", "relu", "relu_", "leaky_relu", "elu", "gelu", "silu", "tanh"}
    | {"sigmoid", "clone", "contiguous", "detach", "float"}
)
"""Functions that make a row of one row, whatever the others are."""


def _asks_a_layer(frame: FrameType | None) -> bool:
    # Another mode may stand between.
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == rnn.__file__


def _has_values(tensor: Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return not isinstance(tensor, FakeTensor) and torch._C._get_tracing_state() is None


def _unpacked(rows: _Rows, data: Tensor, batch_first: bool, padding_value: float, total_length: int = -1) -> Any:
    """What `pad_packed_sequence` gives: as many steps as the longest row has, or ``total_length``."""
    x = data.reshape(rows.steps, rows.batch, *data.shape[1:])
    mask = rows.has_step().reshape(rows.steps, rows.batch, *[1] * (x.dim() - 2))
    x = torch.where(mask, x, torch.full((), padding_value, dtype=x.dtype))
    if total_length > rows.steps:
        behind = x.new_full((total_length - rows.steps, *x.shape[1:]), padding_value)
        x = torch.cat([x, behind])
    return x.transpose(0, 1) if batch_first else x, rows.lengths


def _recurrent(
    rows: _Rows,
    name: str,
    data: Tensor,
    hidden: Any,
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    """What a recurrent layer gives for packed rows: the outputs, and the last states. Raises ``Unknown`` for one that is not known."""
    each = 4 if has_biases else 2
    directions = 1 + bidirectional
    if (train and dropout) or len(weights) != each * layers * directions:
        raise Unknown("a recurrent layer with dropout or a projection")
    starts = hidden if name == "lstm" else (hidden,)
    x = data.reshape(rows.steps, rows.batch, data.shape[1])
    outputs: list[Tensor] = []
    states = []
    for layer, direction in product(range(layers), range(directions)):
        at = layer * directions + direction
        start = tuple(state[at : at + 1] for state in starts)
        given = rows.turned(x) if direction else x
        own = list(weights[at * each : (at + 1) * each])
        result = _CELLS[name](
            given, start if name == "lstm" else start[0], own, has_biases, 1, 0.0, False, False, False
        )
        states.append(rows.last(result[0]))
        outputs.append(rows.turned(result[0]) if direction else result[0])
        if direction == directions - 1:
            x = outputs[0] if directions == 1 else torch.cat(outputs, 2)
            outputs = []
    last = torch.stack(states)
    made = x.reshape(rows.steps * rows.batch, x.shape[2])
    return (made, last, last * float("nan")) if name == "lstm" else (made, last)

"""Packed sequences: `pack_padded_sequence` and the recurrent layers behind it, computed on padded rows with a mask.

A packed sequence holds as many numbers as the lengths of its rows tell, which are values; no destination has such sizes. In its place
stand the padded rows. A layer that goes backwards is given each row turned round by its own length, and what lies behind the end of a
row is masked where `pad_packed_sequence` unpacks it. An LSTM's last cell states are not known there: they are NaN, so that a model that
reads them is not taken for one that agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

NOTE = (
    "packed sequences are rows of the input's length, masked behind their own: with `total_length=x.shape[1]` they are unpacked alike "
    "whatever the longest row is"
)
_CELLS: dict[str, Callable[..., Any]] = {
    name: getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}


class _Rows(NamedTuple):
    """Padded rows of a batch that stand for a packed sequence."""

    sizes: Tensor
    """What stands for ``PackedSequence.batch_sizes``: the whole batch at each step, shape (steps,)."""
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


class PackedSequences:
    """The packed sequences of a run, and what is computed of them in place of PyTorch's functions."""

    def __init__(self) -> None:
        self._rows: dict[int, _Rows] = {}
        self._is_left = False
        """Whether some are left as they are: the first run, of tensors with values, tells."""

    def called(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives for packed sequences that are padded rows; None for all else."""
        name = getattr(function, "__name__", "")
        if name == "_pack_padded_sequence":
            return self._packed(*args, **kwargs)
        if name == "__getitem__" and id(args[0]) in self._rows and args[1] == 0:
            return self._rows[id(args[0])].batch
        rows = self._rows.get(id(args[1])) if len(args) > 1 else None
        if rows is None:
            return None
        if name == "_pad_packed_sequence":
            return _unpacked(rows, args[0], *args[2:], **kwargs)
        return _recurrent(rows, name, args[0], *args[2:], **kwargs) if name in _CELLS else None

    def _packed(self, input: Tensor, lengths: Tensor, batch_first: bool) -> Any:  # noqa: A002
        x = input.transpose(0, 1) if batch_first else input
        steps, batch = int(x.shape[0]), int(x.shape[1])
        if not self._rows and _has_values(lengths):
            self._is_left = int(lengths.max()) != steps
        if self._is_left:
            return None
        sizes = torch.full((steps,), batch, dtype=torch.int64)
        self._rows[id(sizes)] = _Rows(sizes, lengths, steps, batch)
        return x.reshape(steps * batch, *x.shape[2:]), sizes


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
    """What a recurrent layer gives for packed rows: the outputs, and the last states; None for one that is not known."""
    each = 4 if has_biases else 2
    directions = 1 + bidirectional
    if train or len(weights) != each * layers * directions:
        return None
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

"""Sequences of several lengths that are known before a run: padding, and LSTM layers over packed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


@decomposes("pad_sequence")
def pad_sequence(
    sequences: list[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences padded to one length, and stacked."""
    longest = max(int(sequence.shape[0]) for sequence in sequences)
    padded = []
    for sequence in sequences:
        rest = longest - int(sequence.shape[0])
        ends = [0, rest] if padding_side == "right" else [rest, 0]
        padded.append(torch.nn.functional.pad(sequence, [0, 0] * (sequence.dim() - 1) + ends, value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


@decomposes("_pad_packed_sequence")
def pad_packed_sequence(
    data: Tensor, batch_sizes: list[int], batch_first: bool, padding_value: float, total_length: int
) -> Any:
    """Padded sequences, and the length of each."""
    times = max(total_length, len(batch_sizes))
    begins = np.cumsum([0, *batch_sizes]).tolist()
    sizes = [*batch_sizes, *([0] * (times - len(batch_sizes)))]
    taken = [[at < size for at in range(batch_sizes[0])] for size in sizes]
    places = [[begins[time] + at if known else 0 for at, known in enumerate(row)] for time, row in enumerate(taken)]
    padded = torch.index_select(data, 0, torch.tensor(places).reshape(-1))
    padded = padded.reshape(times, batch_sizes[0], *data.shape[1:])
    known = torch.tensor(taken).reshape(times, batch_sizes[0], *([1] * (data.dim() - 1)))
    padded = torch.where(known, padded, padding_value)
    lengths = [sum(size > at for size in batch_sizes) for at in range(batch_sizes[0])]
    return padded.transpose(0, 1) if batch_first else padded, torch.tensor(lengths) + 0


def _layer(
    x: Any, sizes: list[int], hidden: Any, cell: Any, weights: list[Any], backward: bool
) -> tuple[Any, Any, Any]:
    """One layer in one direction: what it gives at each step, and its last states."""
    projected = torch.nn.functional.linear(x, weights[0], weights[2] if len(weights) > 2 else None)
    begins = np.cumsum([0, *sizes]).tolist()
    times = range(len(sizes))
    now: tuple[Any, Any] = (hidden[: sizes[-1]], cell[: sizes[-1]]) if backward else (hidden, cell)
    outputs, ended = [], []
    for time in reversed(times) if backward else times:
        size, before = sizes[time], int(now[0].shape[0])
        if size < before:
            ended.append(tuple(state[size:] for state in now))
            now = now[0][:size], now[1][:size]
        elif size > before:
            now = torch.cat([now[0], hidden[before:size]]), torch.cat([now[1], cell[before:size]])
        gates = projected[begins[time] : begins[time + 1]]
        gates = gates + torch.nn.functional.linear(now[0], weights[1], weights[3] if len(weights) > 3 else None)
        inward, forget, change, outward = torch.chunk(gates, 4, 1)
        inside = torch.sigmoid(forget) * now[1] + torch.sigmoid(inward) * torch.tanh(change)
        now = torch.sigmoid(outward) * torch.tanh(inside), inside
        outputs.append(now[0])
    parts = [now, *reversed(ended)]
    last = [torch.cat([states[which] for states in parts]) for which in (0, 1)]
    return torch.cat(outputs[::-1] if backward else outputs), last[0], last[1]


@decomposes("lstm", ".data", exactness=within(16))
def packed_lstm(
    data: Tensor,
    batch_sizes: list[int],
    hx: list[Tensor],
    params: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    """LSTM over packed sequences, step by step."""
    if hx[0].shape[-1] != hx[1].shape[-1]:
        raise NotImplementedError("with projections")
    each, directions = 4 if has_biases else 2, 1 + bidirectional
    lasts = []
    for layer in range(num_layers):
        parts = []
        for direction in range(directions):
            at = layer * directions + direction
            output, *last = _layer(
                data, batch_sizes, hx[0][at], hx[1][at], params[at * each : (at + 1) * each], direction == 1
            )
            parts.append(output)
            lasts.append(last)
        data = torch.cat(parts, -1)
    return data, *(torch.stack([states[which] for states in lasts]) for which in (0, 1))

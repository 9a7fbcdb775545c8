"""Recurrent layers, of `coremltools.converters.mil.mil.ops.defs.iOS15.recurrent` and later.

Where the docstrings leave room, `coremltools/converters/mil/mil/ops/tests/iOS14/test_recurrent.py` decides: ``reverse``
gives its outputs in the order in which they are computed, last element first; the reset gate of ``gru`` acts on the
hidden state before its matrix product; ``clip`` bounds the cell state; activations take no parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import Refusal, operation

Activation = Callable[[Tensor], Tensor]


def _hard_sigmoid(x: Tensor) -> Tensor:
    return (0.2 * x + 0.5).clamp(0, 1)


def _linear(x: Tensor) -> Tensor:
    return x


_ACTIVATIONS: dict[str, Activation] = {
    "hard_sigmoid": _hard_sigmoid,
    "linear": _linear,
    "relu": torch.relu,
    "scaled_tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sigmoid_hard": _hard_sigmoid,
    "tanh": torch.tanh,
}


def _activation(name: str) -> Activation:
    if name.lower() not in _ACTIVATIONS:
        raise Refusal(f"the activation {name!r} is not known")
    return _ACTIVATIONS[name.lower()]


@operation()
def rnn(
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    activation: str = "tanh",
) -> tuple[Tensor, Tensor]:
    """``h = activation(weight_ih @ x + weight_hh @ h + bias)`` over ``x`` (s, b, I): all or the last h, and the last h."""
    act = _activation(activation)
    driven = functional.linear(_ordered(x, direction), weight_ih, bias)
    hidden, every = initial_h, []
    for now in driven:
        hidden = act(now + functional.linear(hidden, weight_hh))
        every.append(hidden)
    return _sequence(every, output_sequence), hidden


@operation()
def gru(
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: bool = False,
    input_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit over ``x`` (s, b, I): all or the last h, and the last h. Weights are stacked as r, o, z.

    ``bias`` belongs to the hidden state's products, ``input_bias`` to the input's. With ``reset_after`` the reset gate
    acts on ``W_ho @ h + b_ho``, as in PyTorch (test_pytorch_parity in coremltools' tests of iOS 18).
    """
    gate, act = _activation(recurrent_activation), _activation(activation)
    driven = functional.linear(_ordered(x, direction), weight_ih, input_bias)
    weight_r, weight_o, weight_z = weight_hh.chunk(3)
    bias_r, bias_o, bias_z = (None, None, None) if bias is None else bias.chunk(3)
    hidden, every = initial_h, []
    for now in driven:
        now_r, now_o, now_z = now.chunk(3, -1)
        reset = gate(now_r + functional.linear(hidden, weight_r, bias_r))
        update = gate(now_z + functional.linear(hidden, weight_z, bias_z))
        if reset_after:
            new = act(now_o + reset * functional.linear(hidden, weight_o, bias_o))
        else:
            new = act(now_o + functional.linear(reset * hidden, weight_o, bias_o))
        hidden = (1 - update) * new + update * hidden
        every.append(hidden)
    return _sequence(every, output_sequence), hidden


@operation()
def lstm(
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    peephole: Tensor | None = None,
    weight_ih_back: Tensor | None = None,
    weight_hh_back: Tensor | None = None,
    bias_back: Tensor | None = None,
    peephole_back: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
    clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory over ``x`` (s, b, I): all or the last h, the last h, the last c.

    Weights are stacked as i, f, o, z, those of the peephole as i, f, o. ``bidirectional`` concatenates the forward and
    the backward direction's h and c, whose sequence runs forward in time.
    """
    acts = (_activation(recurrent_activation), _activation(cell_activation), _activation(activation))

    def run(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        w_ih, w_hh, b, p = weights
        assert w_ih is not None
        assert w_hh is not None
        if acts == (torch.sigmoid, torch.tanh, torch.tanh) and p is None and clip is None:
            return _lstm_of_torch(x, h, c, w_ih, w_hh, b)
        return _lstm_by_steps(x, h, c, w_ih, w_hh, b, p, acts, clip)

    ordered = _ordered(x, "forward" if direction == "bidirectional" else direction)
    if direction != "bidirectional":
        every, h, c = run(ordered, initial_h, initial_c, weight_ih, weight_hh, bias, peephole)
        return every if output_sequence else h[None], h, c
    size = weight_hh.shape[1]
    every, h, c = run(x, initial_h[:, :size], initial_c[:, :size], weight_ih, weight_hh, bias, peephole)
    back = (weight_ih_back, weight_hh_back, bias_back, peephole_back)
    every_back, h_back, c_back = run(x.flip(0), initial_h[:, size:], initial_c[:, size:], *back)
    h, c = torch.cat([h, h_back], -1), torch.cat([c, c_back], -1)
    return torch.cat([every, every_back.flip(0)], -1) if output_sequence else h[None], h, c


def _lstm_of_torch(
    x: Tensor, h: Tensor, c: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's own loop, which is several times faster; its gates are stacked as i, f, z, o."""
    # It checks nothing itself, and writes beyond its memory where a program is not well formed.
    size = weight_hh.shape[1]
    fits = x.dim() == 3 and weight_hh.shape == (4 * size, size) and weight_ih.shape == (4 * size, x.shape[-1])
    if not fits or any(state.shape != (x.shape[1], size) for state in (h, c)):
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in (x, h, c, weight_ih, weight_hh))
        raise Refusal(f"the shapes of the input, the states and the weights do not fit: {shapes}")
    weights = [_as_torch(weight_ih), _as_torch(weight_hh)]
    if bias is not None:
        weights += [_as_torch(bias), torch.zeros_like(bias)]
    every, h, c = torch.lstm(x, (h[None], c[None]), weights, bias is not None, 1, 0.0, False, False, False)
    return every, h[0], c[0]


def _as_torch(weight: Tensor) -> Tensor:
    i, f, o, z = weight.chunk(4)
    return torch.cat([i, f, z, o])


def _lstm_by_steps(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    peephole: Tensor | None,
    activations: tuple[Activation, Activation, Activation],
    clip: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    gate, cell, act = activations
    looks_i, looks_f, looks_o = weight_hh.new_zeros(3, 1) if peephole is None else peephole.chunk(3)
    every = []
    for now in functional.linear(x, weight_ih, bias):
        i, f, o, z = (now + functional.linear(h, weight_hh)).chunk(4, -1)
        c = gate(f + looks_f * c) * c + gate(i + looks_i * c) * cell(z)
        if clip is not None:
            c = c.clamp(-clip, clip)
        h = gate(o + looks_o * c) * act(c)
        every.append(h)
    return torch.stack(every), h, c


def _ordered(x: Tensor, direction: str) -> Tensor:
    match direction:
        case "forward":
            return x
        case "reverse":
            return x.flip(0)
        case _:
            raise Refusal(f"the direction {direction!r} is not known")


def _sequence(every: list[Tensor], whole: bool) -> Tensor:
    return torch.stack(every if whole else every[-1:])

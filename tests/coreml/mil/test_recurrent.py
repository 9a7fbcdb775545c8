"""Recurrent layers against the formulas in numpy, and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from programs import executed, mb

Array = NDArray[np.float32]
RNG = np.random.default_rng(0)
STEPS, BATCH, WIDE, HIDDEN = 4, 2, 3, 5
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "scaled_tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
}


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def of_torch(weight: Array, order: str, wanted: str) -> torch.Tensor:
    """Gates in another order."""
    parts = dict(zip(order, np.split(weight, len(order)), strict=True))
    return torch.from_numpy(np.concatenate([parts[gate] for gate in wanted]))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_lstm_is_that_of_pytorch(direction: str, whole: bool, biased: bool) -> None:
    x, h, c = normal(STEPS, BATCH, WIDE), normal(BATCH, HIDDEN), normal(BATCH, HIDDEN)
    w, u, b = normal(4 * HIDDEN, WIDE), normal(4 * HIDDEN, HIDDEN), normal(4 * HIDDEN)
    made = executed(
        lambda x, h, c: mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            weight_ih=w,
            weight_hh=u,
            direction=direction,
            output_sequence=whole,
            **({"bias": b} if biased else {}),
        ),
        x=x,
        h=h,
        c=c,
    )
    reference = torch.nn.LSTM(WIDE, HIDDEN, bias=biased)
    with torch.no_grad():
        reference.weight_ih_l0.copy_(of_torch(w, "ifoz", "ifzo"))
        reference.weight_hh_l0.copy_(of_torch(u, "ifoz", "ifzo"))
        if biased:
            reference.bias_ih_l0.copy_(of_torch(b, "ifoz", "ifzo"))
            reference.bias_hh_l0.zero_()
        # Backwards, outputs come in the order in which they are computed.
        given = torch.from_numpy(x if direction == "forward" else x[::-1].copy())
        every, last = reference(given, (torch.from_numpy(h)[None], torch.from_numpy(c)[None]))
    np.testing.assert_allclose(made[0], (every if whole else every[-1:]).numpy(), atol=1e-6)
    np.testing.assert_allclose(made[1], last[0][0].numpy(), atol=1e-6)
    np.testing.assert_allclose(made[2], last[1][0].numpy(), atol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_both_directions_are_side_by_side_in_time(whole: bool) -> None:
    x, h, c = normal(STEPS, BATCH, WIDE), normal(BATCH, 2 * HIDDEN), normal(BATCH, 2 * HIDDEN)
    weights = {
        "weight_ih": normal(4 * HIDDEN, WIDE),
        "weight_hh": normal(4 * HIDDEN, HIDDEN),
        "bias": normal(4 * HIDDEN),
        "weight_ih_back": normal(4 * HIDDEN, WIDE),
        "weight_hh_back": normal(4 * HIDDEN, HIDDEN),
        "bias_back": normal(4 * HIDDEN),
    }
    made = executed(
        lambda x, h, c: mb.lstm(
            x=x, initial_h=h, initial_c=c, direction="bidirectional", output_sequence=whole, **weights
        ),
        x=x,
        h=h,
        c=c,
    )
    reference = torch.nn.LSTM(WIDE, HIDDEN, bidirectional=True)
    with torch.no_grad():
        for name, weight in weights.items():
            own = name.removesuffix("_back")
            place = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0", "bias": "bias_ih_l0"}[own]
            getattr(reference, place + "_reverse" * (own != name)).copy_(of_torch(weight, "ifoz", "ifzo"))
        reference.bias_hh_l0.zero_()
        reference.bias_hh_l0_reverse.zero_()
        halves = [torch.from_numpy(np.stack(np.split(one, 2, 1))) for one in (h, c)]
        every, last = reference(torch.from_numpy(x), tuple(halves))
    outputs = every.numpy() if whole else np.concatenate([every[-1, :, :HIDDEN], every[0, :, HIDDEN:]], -1)[None]
    np.testing.assert_allclose(made[0], outputs, atol=1e-6)
    for ours, theirs in zip(made[1:], last, strict=True):
        np.testing.assert_allclose(ours, torch.cat(list(theirs), -1).numpy(), atol=1e-6)


@pytest.mark.parametrize("act", ["relu", "scaled_tanh", "hard_sigmoid", "linear", "tanh"])
@pytest.mark.parametrize("looking", [True, False])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_lstm_with_a_peephole_and_a_clip(act: str, looking: bool, clip: float | None) -> None:
    x, h, c = normal(STEPS, BATCH, WIDE), normal(BATCH, HIDDEN), normal(BATCH, HIDDEN)
    w, u, b, p = normal(4 * HIDDEN, WIDE), normal(4 * HIDDEN, HIDDEN), normal(4 * HIDDEN), normal(3 * HIDDEN)
    options = ({"peephole": p} if looking else {}) | ({} if clip is None else {"clip": np.float32(clip)})
    made = executed(
        lambda x, h, c: mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            weight_ih=w,
            weight_hh=u,
            bias=b,
            recurrent_activation="sigmoid",
            cell_activation="hard_sigmoid",
            activation=act,
            output_sequence=True,
            **options,
        ),
        x=x,
        h=h,
        c=c,
    )
    gate, cell = ACTIVATIONS["sigmoid"], ACTIVATIONS["hard_sigmoid"]
    p_i, p_f, p_o = np.split(p, 3) if looking else (0, 0, 0)
    every = []
    for now in x:
        i, f, o, z = np.split(now @ w.T + h @ u.T + b, 4, -1)
        c = gate(f + p_f * c) * c + gate(i + p_i * c) * cell(z)
        c = c if clip is None else np.clip(c, -clip, clip)
        h = gate(o + p_o * c) * ACTIVATIONS[act](c)
        every.append(h)
    for ours, theirs in zip(made, (np.stack(every), h, c), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("acts", [("sigmoid", "tanh"), ("tanh", "sigmoid")])
def test_the_reset_gate_acts_before_the_product(direction: str, whole: bool, acts: tuple[str, str]) -> None:
    x, h = normal(STEPS, BATCH, WIDE), normal(BATCH, HIDDEN)
    w, u, b = normal(3 * HIDDEN, WIDE), normal(3 * HIDDEN, HIDDEN), normal(3 * HIDDEN)
    made = executed(
        lambda x, h: mb.gru(
            x=x,
            initial_h=h,
            weight_ih=w,
            weight_hh=u,
            bias=b,
            direction=direction,
            output_sequence=whole,
            recurrent_activation=acts[0],
            activation=acts[1],
        ),
        x=x,
        h=h,
    )
    gate, act = (ACTIVATIONS[name] for name in acts)
    (u_r, u_o, u_z), (b_r, b_o, b_z) = np.split(u, 3), np.split(b, 3)
    every = []
    for now in x if direction == "forward" else x[::-1]:
        in_r, in_o, in_z = np.split(now @ w.T, 3, -1)
        reset, update = gate(in_r + h @ u_r.T + b_r), gate(in_z + h @ u_z.T + b_z)
        h = (1 - update) * act(in_o + (reset * h) @ u_o.T + b_o) + update * h
        every.append(h)
    np.testing.assert_allclose(made[0], np.stack(every if whole else every[-1:]), atol=2e-6)
    np.testing.assert_allclose(made[1], h, atol=2e-6)


def test_gru_is_that_of_pytorch_where_the_reset_gate_acts_after_the_product() -> None:
    x, h = normal(STEPS, BATCH, WIDE), normal(BATCH, HIDDEN)
    w, u, b, b_in = normal(3 * HIDDEN, WIDE), normal(3 * HIDDEN, HIDDEN), normal(3 * HIDDEN), normal(3 * HIDDEN)
    made = executed(
        lambda x, h: mb.gru(
            x=x,
            initial_h=h,
            weight_ih=w,
            weight_hh=u,
            bias=b,
            input_bias=b_in,
            reset_after=True,
            output_sequence=True,
        ),
        18,
        x=x,
        h=h,
    )
    reference = torch.nn.GRU(WIDE, HIDDEN)
    with torch.no_grad():
        places = {"weight_ih_l0": w, "weight_hh_l0": u, "bias_ih_l0": b_in, "bias_hh_l0": b}
        for name, weight in places.items():
            getattr(reference, name).copy_(of_torch(weight, "roz", "rzo"))
        every, last = reference(torch.from_numpy(x), torch.from_numpy(h)[None])
    np.testing.assert_allclose(made[0], every.numpy(), atol=1e-6)
    np.testing.assert_allclose(made[1], last[0].numpy(), atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("act", ["tanh", "relu", "linear"])
def test_rnn(direction: str, act: str) -> None:
    x, h = normal(STEPS, BATCH, WIDE), normal(BATCH, HIDDEN)
    w, u, b = normal(HIDDEN, WIDE), normal(HIDDEN, HIDDEN) / 3, normal(HIDDEN)
    made = executed(
        lambda x, h: mb.rnn(
            x=x,
            initial_h=h,
            weight_ih=w,
            weight_hh=u,
            bias=b,
            direction=direction,
            output_sequence=True,
            activation=act,
        ),
        x=x,
        h=h,
    )
    every = []
    for now in x if direction == "forward" else x[::-1]:
        h = ACTIVATIONS[act](now @ w.T + h @ u.T + b)
        every.append(h)
    np.testing.assert_allclose(made[0], np.stack(every), atol=1e-5)
    np.testing.assert_allclose(made[1], h, atol=1e-5)

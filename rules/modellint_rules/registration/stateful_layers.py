"""Layers of torch that have weights or buffers: what the rules about unregistered modules share."""

from __future__ import annotations

_STATEFUL = (
    "Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding EmbeddingBag PReLU "
    "RNN LSTM GRU RNNCell LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoder TransformerDecoder "
    "TransformerEncoderLayer TransformerDecoderLayer AdaptiveLogSoftmaxWithLoss LazyLinear LazyConv1d LazyConv2d LazyConv3d "
    "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
)
WITH_WEIGHTS = frozenset(_STATEFUL.split())
"""Modules of torch that have weights."""
SWITCHES: dict[str, dict[str, bool]] = {
    "BatchNorm1d": {"affine": True, "track_running_stats": True},
    "BatchNorm2d": {"affine": True, "track_running_stats": True},
    "BatchNorm3d": {"affine": True, "track_running_stats": True},
    "SyncBatchNorm": {"affine": True, "track_running_stats": True},
    "InstanceNorm1d": {"affine": False, "track_running_stats": False},
    "InstanceNorm2d": {"affine": False, "track_running_stats": False},
    "InstanceNorm3d": {"affine": False, "track_running_stats": False},
    "GroupNorm": {"affine": True},
    "LayerNorm": {"elementwise_affine": True},
    "RMSNorm": {"elementwise_affine": True},
}
"""Modules of torch that have weights or buffers only as some arguments, here with their defaults, say."""
PLACES = {"affine": 3, "track_running_stats": 4, "elementwise_affine": 2}
"""Where these arguments stand."""


def has_something_to_lose(name: str) -> bool:
    """Whether a class of torch's has weights, buffers or a mode, unless its arguments say otherwise."""
    last = name.rpartition(".")[2]
    known = last in WITH_WEIGHTS or last.endswith("Dropout") or last[:-2].endswith("Dropout")
    return name.startswith("torch.nn.") and (known or any(SWITCHES.get(last, {}).values()))

"""Catalogue of diffusers: denoisers, autoencoders and adapters in small configurations, each with what its ``forward`` takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Form(NamedTuple):
    """A small form of a model."""

    options: Mapping[str, Any]
    inputs: Mapping[str, tuple[int, ...]]
    """The shapes of arguments; whole numbers where the name ends in ``timestep`` or ``labels``."""
    fixed: Mapping[str, Any] = {}
    """Arguments that are no tensors, and belong to the model."""


_TIME = (1,)
_TEXT = (1, 8, 32)
_LATENT = (1, 4, 16, 16)
_BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
_DOWN = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": 32,
    "attention_head_dim": 4,
}
_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
FORMS: dict[str, Form] = {
    "AutoencoderDC": Form(
        {
            "latent_channels": 4,
            "attention_head_dim": 2,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "downsample_block_type": "conv",
            "upsample_block_type": "interpolate",
            "decoder_norm_types": "rms_norm",
            "decoder_act_fns": "silu",
        },
        {"sample": (1, 3, 32, 32)},
    ),
    "AutoencoderKL": Form(
        {
            **_BLOCKS,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "latent_channels": 4,
        },
        {"sample": (1, 3, 32, 32)},
    ),
    "AutoencoderTiny": Form(
        {
            "encoder_block_out_channels": (32, 32),
            "decoder_block_out_channels": (32, 32),
            "num_encoder_blocks": (1, 2),
            "num_decoder_blocks": (2, 1),
        },
        {"sample": (1, 3, 32, 32)},
    ),
    "ControlNetModel": Form(
        {**_BLOCKS, **_DOWN, "conditioning_embedding_out_channels": (8, 16)},
        {
            "sample": _LATENT,
            "timestep": _TIME,
            "encoder_hidden_states": _TEXT,
            "controlnet_cond": (1, 3, 32, 32),
        },
    ),
    "DiTTransformer2DModel": Form(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 8,
            "sample_size": 16,
            "norm_num_groups": 8,
            "num_embeds_ada_norm": 100,
        },
        {"hidden_states": _LATENT, "timestep": _TIME, "class_labels": _TIME},
    ),
    "FluxTransformer2DModel": Form(
        {
            "num_attention_heads": 2,
            "attention_head_dim": 16,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 32,
            "axes_dims_rope": (4, 4, 8),
        },
        {
            "hidden_states": (1, 16, 4),
            "encoder_hidden_states": _TEXT,
            "pooled_projections": (1, 32),
            "timestep": _TIME,
            "img_ids": (16, 3),
            "txt_ids": (8, 3),
        },
    ),
    "PixArtTransformer2DModel": Form(
        {
            **_HEADS,
            "sample_size": 16,
            "in_channels": 4,
            "cross_attention_dim": 32,
            "caption_channels": 32,
            "norm_num_groups": 8,
        },
        {"hidden_states": _LATENT, "encoder_hidden_states": _TEXT, "timestep": _TIME},
        {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
    ),
    "PriorTransformer": Form(
        {**_HEADS, "embedding_dim": 32, "num_embeddings": 7, "additional_embeddings": 4},
        {"hidden_states": (1, 32), "timestep": _TIME, "proj_embedding": (1, 32), "encoder_hidden_states": (1, 7, 32)},
    ),
    "SD3Transformer2DModel": Form(
        {
            **_HEADS,
            "sample_size": 16,
            "patch_size": 2,
            "in_channels": 4,
            "out_channels": 4,
            "joint_attention_dim": 32,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 64,
            "pos_embed_max_size": 16,
        },
        {
            "hidden_states": _LATENT,
            "encoder_hidden_states": _TEXT,
            "pooled_projections": (1, 64),
            "timestep": _TIME,
        },
    ),
    "SanaTransformer2DModel": Form(
        {
            **_HEADS,
            "sample_size": 16,
            "in_channels": 4,
            "out_channels": 4,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 16,
            "cross_attention_dim": 32,
            "caption_channels": 32,
        },
        {"hidden_states": _LATENT, "encoder_hidden_states": _TEXT, "timestep": _TIME},
    ),
    "Transformer2DModel": Form(
        {**_HEADS, "in_channels": 32, "cross_attention_dim": 32, "norm_num_groups": 8},
        {"hidden_states": (1, 32, 8, 8), "encoder_hidden_states": _TEXT},
    ),
    "UNet2DConditionModel": Form(
        {**_BLOCKS, **_DOWN, "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "sample_size": 16},
        {"sample": _LATENT, "timestep": _TIME, "encoder_hidden_states": _TEXT},
    ),
    "UNet2DModel": Form(
        {
            **_BLOCKS,
            "sample_size": 32,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            "attention_head_dim": 8,
        },
        {"sample": (1, 3, 32, 32), "timestep": _TIME},
    ),
    "VQModel": Form(
        {
            **_BLOCKS,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "latent_channels": 3,
            "num_vq_embeddings": 32,
        },
        {"sample": (1, 3, 32, 32)},
    ),
}
"""The models that have a form here, by their class."""


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]]]:
    """Each model that the installed version has, by its class."""
    import diffusers

    for name in FORMS:
        if hasattr(diffusers, name):
            yield name, partial(build, name)


def build(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model of a class with drawn weights, in eval mode, and its arguments; it gives tuples."""
    import diffusers

    torch.manual_seed(0)
    form = FORMS[name]
    model: nn.Module = getattr(diffusers, name)(**form.options).eval()
    draw = torch.Generator().manual_seed(0)
    _fix_arguments(model, {**form.fixed, "return_dict": False})
    return model, {argument: _drawn(argument, shape, draw) for argument, shape in form.inputs.items()}


def _fix_arguments(model: nn.Module, fixed: Mapping[str, Any]) -> None:
    """Give a model these arguments at every call: converters take tensors only. It keeps the name of its class."""
    base = type(model)

    @wraps(base.forward)
    def forward(self: nn.Module, *args: Tensor, **kwargs: Tensor) -> Any:
        return base.forward(self, *args, **kwargs, **fixed)

    model.__class__ = type(base.__name__, (base,), {"forward": forward, "__module__": base.__module__})


def _drawn(name: str, shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    if name.endswith(("timestep", "labels")):
        return torch.full(shape, 7)
    return torch.randn(shape, generator=draw)

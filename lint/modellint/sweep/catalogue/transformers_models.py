"""Catalogue of transformers: the base model of each configuration class, shrunk, with inputs that its ``forward`` asks for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from modellint.sweep.catalogue.transformers_overrides import FORMS, LEFT_OUT, Form

_SMALL: dict[str, int] = {
    **dict.fromkeys(
        (
            "hidden_size",
            "d_model",
            "n_embd",
            "dim",
            "embed_dim",
            "hidden_dim",
            "embedding_size",
            "word_embed_proj_dim",
            "emb_dim",
            "attention_hidden_size",
            "projection_dim",
            "feat_extract_dim",
            "decoder_hidden_size",
            "encoder_hidden_size",
            "d_embed",
            "model_dim",
            "width",
            "lru_width",
        ),
        32,
    ),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
            "num_encoder_layers",
            "num_decoder_layers",
            "depth",
            "encoder_num_layers",
            "decoder_num_layers",
            "num_blocks",
            "num_hidden_groups",
            "num_key_value_heads",
            "num_kv_heads",
            "multi_query_group_num",
            "num_experts_per_tok",
            "moe_topk",
            "moe_k",
            "top_k_experts",
            "n_groups",
            "mamba_ngroups",
            "mamba_n_groups",
        ),
        2,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "num_encoder_attention_heads",
            "num_decoder_attention_heads",
            "decoder_num_attention_heads",
            "encoder_num_attention_heads",
            "num_local_experts",
            "n_routed_experts",
            "num_experts",
            "moe_num_experts",
            "n_mamba_heads",
        ),
        4,
    ),
    **dict.fromkeys(
        (
            "head_dim",
            "attention_head_dim",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "v_head_dim",
            "d_kv",
            "key_value_proj_dim",
            "num_queries",
            "mamba_n_heads",
            "mamba_num_heads",
            "mamba_d_head",
            "mamba_head_dim",
            "mamba_headdim",
        ),
        8,
    ),
    **dict.fromkeys(
        (
            "intermediate_size",
            "encoder_ffn_dim",
            "decoder_ffn_dim",
            "ffn_dim",
            "d_ff",
            "n_inner",
            "dim_feedforward",
            "moe_intermediate_size",
            "hidden_dim_ffn",
            "shared_expert_intermediate_size",
            "ffn_hidden_size",
            "mlp_dim",
            "feed_forward_size",
            "max_position_embeddings",
            "n_positions",
            "max_source_positions",
            "max_target_positions",
            "n_ctx",
            "seq_length",
            "image_size",
        ),
        64,
    ),
    "vocab_size": 128,
    "rotary_dim": 4,
    "hidden_size_per_layer_input": 8,
}
"""What attributes of a configuration are set to, where it has them as numbers."""
_TOKENS = 8
"""Tokens of a text."""
_SECONDS = 0.5
"""Of sound, at 16 kHz."""
_PATCHES = 4
"""Of a picture that comes cut into patches, along each side."""


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]]]:
    """The base model of each type of model that transformers has, by the name of the type, but those that are left out."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in sorted(MODEL_MAPPING_NAMES.keys() - LEFT_OUT.keys()):
        yield name, partial(build, name)


def build(kind: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model of a type, in eval mode, and inputs that it runs on.

    Raises what the smallest form raises that transformers builds, where none runs.
    """
    import transformers

    transformers.utils.logging.set_verbosity_error()
    if kind in FORMS:
        return _particular(kind, FORMS[kind])
    failure: Exception | None = None
    for degree, shares, gives_tuples, takes_all in product(_DEGREES, (True, False), (True, False), (False, True)):
        torch.manual_seed(0)
        try:
            config = _configuration(kind, degree, shares, gives_tuples)
            make = partial(transformers.AutoModel.from_config, config, attn_implementation="eager")
            # Its size is known before it takes any memory.
            with torch.device("meta"):
                if sum(parameter.numel() for parameter in make().parameters()) > _LARGEST:
                    continue
            model = make().eval()
            inputs = _inputs(model, config, takes_all)
            with torch.no_grad():
                model(**inputs)
        except Exception as error:
            failure = failure or error
        else:
            return _of_one_grid(model, inputs)
    raise failure or ValueError(f"{kind}: no form has fewer than {_LARGEST:,} parameters")


def _particular(kind: str, form: Form) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model of a type whose sizes and inputs are told, as it first runs: heads share keys or not, parts give tuples or not."""
    import transformers

    failure: Exception | None = None
    for gives_tuples, shares in product((False, True), (True, False)):
        torch.manual_seed(0)
        try:
            config = _configuration(kind, frozenset(), shares, gives_tuples)
            for path, value in form.sizes.items():
                *parts, name = path.split(".")
                setattr(reduce(getattr, parts, config), name, value)
            make = partial(transformers.AutoModel.from_config, config, attn_implementation="eager")
            with torch.device("meta"):
                if sum(parameter.numel() for parameter in make().parameters()) > _LARGEST:
                    continue
            model = make().eval()
            if form.setup:
                form.setup(model)
            inputs = _particular_inputs(model, config, form)
            with torch.no_grad():
                model(**inputs)
        except Exception as error:
            failure = failure or error
        else:
            return _of_one_grid(model, inputs)
    raise failure or ValueError(f"{kind}: no form has fewer than {_LARGEST:,} parameters")


def _particular_inputs(model: nn.Module, config: Any, form: Form) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    inputs = {name: _of_shape(name, shape, draw) for name, shape in form.inputs.items() if shape is not None}
    general = _inputs(model, config, bool(form.inputs))
    if form.inputs:
        general = {name: value for name, value in general.items() if name in form.inputs or _is_needed(model, name)}
    return general | inputs


def _is_needed(model: nn.Module, name: str) -> bool:
    taking = inspect.signature(model.forward).parameters[name]
    return taking.default is taking.empty


def _of_one_grid(model: nn.Module, inputs: dict[str, Tensor]) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model that takes pictures beside the sizes that they have, with its sizes in it."""
    sizes = {name: value for name, value in inputs.items() if name in ("grid_thw", "merge_sizes")}
    if not sizes or len(inputs) != len(sizes) + 1:
        return model, inputs
    [(name, pictures)] = ((name, value) for name, value in inputs.items() if name not in sizes)
    return _OfOneSize(model, name, sizes).eval(), {"pictures": pictures}


def _of_shape(name: str, shape: tuple[int, ...] | list[Any], draw: torch.Generator) -> Tensor:
    """Numbers of a shape: places in a vocabulary, ones of a mask, or what is drawn; or those of a list."""
    if isinstance(shape, list):
        return torch.tensor(shape)
    if "mask" in name:
        return torch.ones(shape, dtype=torch.long)
    if name.endswith(("_ids", "task_inputs")) or name in ("timesteps", "freq"):
        return torch.randint(0, 3, shape, generator=draw)
    if name == "bbox":
        return torch.rand(shape, generator=draw)
    return torch.randn(shape, generator=draw)


class _OfOneSize(nn.Module):
    """A model of pictures for one grid of patches, which decides about sizes inside and is no input of a package."""

    def __init__(self, model: nn.Module, name: str, sizes: dict[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        self.name = name
        self.sizes = tuple(sizes)
        for size, value in sizes.items():
            self.register_buffer(size, value)

    def forward(self, pictures: Tensor) -> Any:
        return self.model(**{self.name: pictures}, **{size: getattr(self, size) for size in self.sizes})


_LARGEST = 50_000_000
_KEYS = ("num_key_value_heads", "num_kv_heads")
_DEGREES: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"image_size"}),
    frozenset({"head_dim", "attention_head_dim", "d_kv"}),
    frozenset({"num_key_value_heads", "num_kv_heads", "head_dim"}),
    frozenset({"image_size", "hidden_size", "embed_dim", "d_model", "dim", "hidden_dim", "projection_dim"}),
    frozenset(_SMALL) - {"num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "n_layer", "depth"},
    frozenset(_SMALL),
    frozenset(_SMALL) | {"stage_num_blocks", "blocks_per_stage", "layers_block_type"},
)
"""What is left as it is, from the smallest form on."""


def _configuration(kind: str, left: frozenset[str], shares: bool, gives_tuples: bool) -> Any:
    """The configuration of a type with small numbers, those of its parts too; some models need their own parts' named outputs.

    Heads share keys and values, or each has its own.
    """
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]()
    _shrink(config, left, shares)
    for name, value in (("return_dict", not gives_tuples), ("use_cache", False)):
        if hasattr(config, name):
            setattr(config, name, value)
    return config


def _shrink(config: Any, left: frozenset[str], shares: bool) -> None:
    # Attention over the states beside what they came from.
    is_doubled = getattr(config, "attention_hidden_size", None) == 2 * getattr(config, "hidden_size", 0)
    if hasattr(config, "embed_dim_per_stage"):
        # The first stage's width is told twice.
        left |= {"hidden_size"}
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict"):
            _shrink(value, left, shares)
        elif (known := _known(name)) in _SMALL and known not in left and type(value) is int:
            small = min(value, _SMALL[known])
            setattr(config, name, small if shares or known not in _KEYS else min(value, _SMALL["num_attention_heads"]))
        elif name == "use_cache":
            setattr(config, name, False)
        elif name == "n_routed_experts" and value is None:
            setattr(config, name, _SMALL[name])
        elif name == "mrope_section" and isinstance(value, list):
            setattr(config, name, [1, 1, 2])
        elif name == "rope_parameters" and isinstance(value, dict) and "rope_theta" in value:
            # Some models have a default of their own for the large form.
            value["mrope_section"] = [1, 1, 2]
        elif isinstance(value, dict) and "mrope_section" in value:
            value["mrope_section"] = [1, 1, 2]
        elif name == "head_dim" and value is None and name not in left:
            setattr(config, name, _SMALL[name])
        elif name in ("expand", "mamba_expand") and type(value) is int and "head_dim" not in left:
            # Heads times their width are so many times the hidden size.
            setattr(config, name, 1)
        elif (
            name in ("depths", "stage_num_blocks", "blocks_per_stage")
            and name not in left
            and isinstance(value, (list, tuple))
        ):
            setattr(config, name, type(value)(1 for _ in value))
        elif name == "image_size" and isinstance(value, (list, tuple)) and min(value) >= 512 and name not in left:
            setattr(config, name, [size // 4 for size in value])
        elif name == "backbone_feature_sizes" and "image_size" not in left:
            setattr(config, name, [[size // 4 for size in sizes] for sizes in value])
        elif (
            name == "layers_block_type"
            and isinstance(value, list)
            and len(value) > 4
            and "layers_block_type" not in left
        ):
            # Two of each kind: what is shared by the second and those behind it is told by their numbers.
            blocks = [*dict.fromkeys(value)] * 2
            vars(config).update(layers_block_type=blocks, num_hidden_layers=len(blocks))
            if hasattr(config, "hybrid_layer_ids"):
                config.hybrid_layer_ids = [at for at, block in enumerate(blocks) if block == "hybrid"]
        elif name == "layer_types" and isinstance(value, list) and len(value) > 2:
            # One of each kind, as far as two layers have them.
            setattr(config, name, [*dict.fromkeys(value), *value][:2])
        elif name in ("pad_token_id", "bos_token_id", "eos_token_id") and type(value) is int and value >= 128:
            setattr(config, name, 0)
    if is_doubled and "hidden_size" not in left:
        config.attention_hidden_size = 2 * _SMALL["hidden_size"]
        config.attention_head_dim = config.attention_hidden_size // _SMALL["num_attention_heads"]


def _known(name: str) -> str:
    """The attribute that one is for a part: `num_hidden_layers` of `encoder_num_hidden_layers`."""
    return name if name in _SMALL else name.removeprefix("encoder_").removeprefix("decoder_")


def _inputs(model: nn.Module, config: Any, takes_all: bool) -> dict[str, Tensor]:
    """Values for the arguments that a ``forward`` takes its data by: text, pictures, sound, numbers over time."""
    taken = inspect.signature(model.forward).parameters
    draw = torch.Generator().manual_seed(0)
    makers: dict[str, Callable[[], Tensor]] = {
        "input_ids": lambda: _tokens(config, draw),
        "pixel_values": lambda: _pictures(config, draw),
        "input_values": lambda: torch.randn(1, int(16_000 * _SECONDS), generator=draw),
        "input_features": lambda: _features(config, draw),
        "qformer_input_ids": lambda: _tokens(config, draw),
        "decoder_input_ids": lambda: _tokens(config, draw),
        "inputs_embeds": lambda: torch.randn(1, _TOKENS, int(_of_part(config, "hidden_size", 32)), generator=draw),
        "hidden_states": lambda: _patches(config, draw),
        "grid_thw": lambda: torch.tensor([[1, _PATCHES, _PATCHES]]),
    }
    main = getattr(model, "main_input_name", "input_ids")
    chosen = (
        [main]
        if isinstance(main, str) and main in taken and main in makers
        else [name for name in makers if name in taken][:1]
    )
    needed = {name for name, taking in taken.items() if taking.default is taking.empty}
    chosen += [name for name in makers if name not in chosen and (name in needed or (takes_all and name in taken))]
    if "input_features_mask" in needed and "input_features" in chosen:
        makers["input_features_mask"] = lambda: torch.ones(1, _features(config, draw).shape[-1], dtype=torch.long)
        chosen.append("input_features_mask")
    if "decoder_input_ids" in taken and getattr(config, "is_encoder_decoder", False):
        chosen.append("decoder_input_ids")
    return {name: makers[name]() for name in dict.fromkeys(chosen)}


def _of_part(config: Any, name: str, usual: Any) -> Any:
    """An attribute of a configuration, or of the part that has it."""
    for holder in (config, *(value for value in vars(config).values() if hasattr(value, "to_dict"))):
        value = getattr(holder, name, None)
        if value is not None:
            return value
    return usual


def _tokens(config: Any, draw: torch.Generator) -> Tensor:
    return torch.randint(3, min(int(_of_part(config, "vocab_size", 128)), 128), (1, _TOKENS), generator=draw)


def _pictures(config: Any, draw: torch.Generator) -> Tensor:
    size = _of_part(config, "image_size", 64)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return torch.randn(1, int(_of_part(config, "num_channels", 3)), height, width, generator=draw)


def _patches(config: Any, draw: torch.Generator) -> Tensor:
    """The pictures of models that take them cut into patches, a row each, beside a grid."""
    patch = int(_of_part(config, "patch_size", 14))
    channels = int(_of_part(config, "in_channels", 0) or _of_part(config, "in_chans", 3))
    width = channels * int(_of_part(config, "temporal_patch_size", 1)) * patch * patch
    return torch.randn(_PATCHES * _PATCHES, width, generator=draw)


def _features(config: Any, draw: torch.Generator) -> Tensor:
    bins = int(_of_part(config, "num_mel_bins", 80))
    frames = getattr(config, "max_source_positions", None)
    if frames is not None:
        return torch.randn(1, bins, 2 * int(frames), generator=draw)
    return torch.randn(1, 64, int(_of_part(config, "feature_size", bins)), generator=draw)

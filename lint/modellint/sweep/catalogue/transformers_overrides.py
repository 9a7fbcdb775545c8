"""Sizes and inputs of those models of transformers that do not run with small numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Form:
    """What one type needs beside small numbers."""

    sizes: dict[str, Any] = field(default_factory=dict)
    """Attributes of the configuration, of a part behind its name and a dot."""
    inputs: dict[str, tuple[int, ...] | list[Any] | None] = field(default_factory=dict)
    """Arguments of ``forward`` with their shapes or, as a list, whole numbers, beside those that it must have; None where the
    configuration tells the shape."""
    setup: Callable[[Any], None] | None = None
    """What is called on the model once it is built."""


_EFFICIENT = {
    "width_coefficient": 0.25,
    "depth_coefficient": 1.0,
    "num_block_repeats": (1,) * 7,
    "hidden_dim": 320,
    "initializer_range": 0.2,
}
_SERIES = Form(
    {"prediction_length": 4, "context_length": 8, "num_time_features": 1, "feature_size": 10},
    {
        "past_values": (1, 15),
        "past_time_features": (1, 15, 1),
        "past_observed_mask": (1, 15),
        "future_values": (1, 4),
        "future_time_features": (1, 4, 1),
    },
)


def _patched(width: int) -> Form:
    """Pictures cut into the patches of a grid, a row each."""
    return Form({}, {"pixel_values": (16, width)})


_TOKENIZER = {"num_filters": 4, "depths": (1,) * 7}
_FRAMES = {
    "vision_config.architecture": "vit_pe_core_tiny_patch16_384",
    "vision_config.model_args": {"img_size": 64, "depth": 2},
}
_STRIPS: dict[str, list[Any]] = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{name}_{ratio}ratio": arguments
        for ratio, size in (("long", 7), ("mid", 5), ("short", 3))
        for name, arguments in (
            ("vertical_long_to_small_conv", [(size, 1), 1, (size // 2, 0)]),
            ("horizontal_small_to_long_conv", [(1, size), 1, (0, size // 2)]),
            ("symmetric_conv_long", [size, 1, size // 2]),
        )
    },
}
"""Arguments of the convolutions of a block that looks along lines of text."""
_GEMMA3N = {
    "num_kv_shared_layers": 0,
    "intermediate_size": [64, 64],
    "vocab_size_per_layer_input": 128,
    "activation_sparsity_pattern": [0.5, 0.0],
    "laurel_rank": 8,
}
_ROTARY = {
    "rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")
    }
}
_INDEXER = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 4,
    "indexer_compress_ratio": 2,
}
_DAC = {"encoder_hidden_size": 8, "decoder_hidden_size": 64, "hidden_size": 128}


def _inside(part: str, sizes: dict[str, Any]) -> dict[str, Any]:
    return {f"{part}.{name}": value for name, value in sizes.items()}


def _all_stages(count: int) -> dict[str, Any]:
    """A backbone that gives the features of every stage."""
    return {
        "backbone_config._out_features": [f"stage{at}" for at in range(1, count + 1)],
        "backbone_config._out_indices": list(range(1, count + 1)),
    }


_LINES = {
    **_all_stages(4),
    "backbone_config.block_configs": [
        [[3, 96, 96, 1, True]],
        [[3, 96, 96, 2, False]],
        [[3, 96, 192, 2, False]],
        [[3, 192, 384, 2, False]],
    ],
    "backbone_config.depths": [1, 1, 1, 1],
}
"""A backbone whose stages each halve a picture, for lines of text."""
FORMS: dict[str, Form] = {
    "align": Form(
        {**_inside("vision_config", _EFFICIENT), "projection_dim": 80}, {"input_ids": None, "pixel_values": None}
    ),
    "audio-spectrogram-transformer": Form({"max_length": 64, "num_mel_bins": 32}, {"input_values": (1, 64, 32)}),
    "audioflamingo3_encoder": Form({}, {"input_features_mask": (1, 128)}),
    "autoformer": Form({**_SERIES.sizes, "label_length": 4}, _SERIES.inputs),
    "time_series_transformer": _SERIES,
    "axk1": Form({"n_group": 2, "topk_group": 1, "qk_head_dim": 16, "head_dim": 8}),
    "blip-2": Form({"num_query_tokens": 4, "image_token_id": 5}, {"input_ids": [[5] * 4 + [7, 8, 9, 10]]}),
    "blip_2_qformer": Form({}, {"query_embeds": (1, 8, 32), "encoder_hidden_states": (1, 8, 32)}),
    "blt": Form(
        {
            "encoder_hash_byte_group_vocab": 64,
            "encoder_config.hidden_size_global": 64,
            "decoder_config.hidden_size_global": 64,
            "global_config.hidden_size": 64,
            "global_config.head_dim": 16,
        }
    ),
    "chameleon": Form(
        {"vocabulary_map": {"<image>": 4, "IMGIMGA": 5}, "vq_config.base_channels": 32, "vq_config.num_res_blocks": 1}
    ),
    "clap": Form(
        {
            "audio_config.patch_embeds_hidden_size": 8,
            "audio_config.hidden_size": 64,
            "audio_config.depths": (1, 1, 1, 1),
            "audio_config.num_attention_heads": (1, 2, 4, 8),
        },
        {"input_ids": None, "input_features": (1, 1, 64, 64)},
    ),
    "cohere_compass": Form(_inside("text_config", _ROTARY)),
    "cohere_compass_text": Form(_ROTARY),
    "decision_transformer": Form(
        {},
        {
            "states": (1, 8, 17),
            "actions": (1, 8, 4),
            "rewards": (1, 8, 1),
            "returns_to_go": (1, 8, 1),
            "timesteps": (1, 8),
            "attention_mask": (1, 8),
        },
    ),
    "deepseek_ocr2": Form({"text_config.mlp_layer_types": ["dense", "sparse"], "text_config.num_experts_per_tok": 2}),
    "depth_pro": Form(
        {
            "patch_size": 32,
            "intermediate_hook_ids": (1, 0),
            "intermediate_feature_dims": (32, 32),
            "scaled_images_feature_dims": (32, 32, 32),
            "fusion_hidden_size": 32,
            **{
                f"{part}.{name}": value
                for part in ("image_model_config", "patch_model_config", "fov_model_config")
                for name, value in (("image_size", 32), ("patch_size", 8))
            },
        },
        {"pixel_values": (1, 3, 128, 128)},
    ),
    "dia": Form(
        {
            "decoder_config.cross_hidden_size": 32,
            "decoder_config.cross_num_attention_heads": 4,
            "decoder_config.cross_num_key_value_heads": 4,
            "decoder_config.cross_head_dim": 8,
        },
        {"input_ids": None, "decoder_input_ids": (1, 8, 9)},
    ),
    "dots1": Form({"n_shared_experts": 1, "num_experts_per_tok": 2}),
    "dots3_note": Form(
        {
            "vision_config.adapter_in_dim": 32,
            "vision_config.adapter_out_dim": 32,
            "audio_config.adapter_input_size": 32,
            "audio_config.adapter_out_dim": 32,
            "audio_config.downsample_hidden_size": 16,
            "audio_config.conv_output_size": 256,
            "text_config.shared_experts_intermediate_size": 64,
            "text_config.index_head_dim": 16,
            "text_config.index_n_heads": 2,
        }
    ),
    "efficientloftr": Form(
        {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 8}, {"pixel_values": (1, 2, 3, 64, 64)}
    ),
    "efficientnet": Form(_EFFICIENT),
    "encodec": Form({"num_filters": 4, "codebook_dim": 32}, {"input_values": (1, 1, 6400)}),
    "gemma3n": Form(
        {
            **_inside("text_config", _GEMMA3N),
            "vision_config.architecture": "mobilenetv3_small_050",
            "vision_config.model_args": None,
        },
        {},
    ),
    "gemma3n_vision": Form(
        {"architecture": "mobilenetv3_small_050", "model_args": None}, {"pixel_values": (1, 3, 64, 64)}
    ),
    "kimi_k25_vision": Form({}, {"pixel_values": (16, 3, 14, 14)}),
    "videomae": Form({"num_frames": 4}, {"pixel_values": (1, 4, 3, 64, 64)}),
    "mimi": Form(
        {
            "upsample_groups": 32,
            "num_filters": 4,
            "codebook_dim": 16,
            "vector_quantization_hidden_dimension": 16,
            "num_quantizers": 4,
        },
        {"input_values": (1, 1, 9600)},
    ),
    "pocket_tts_audio_tokenizer_encoder": Form(
        {"upsample_groups": 32, "num_filters": 4}, {"input_values": (1, 1, 7680)}
    ),
    "voxtral_realtime_encoder": Form({}, {"input_features": (1, 128, 64)}),
    "glmasr_encoder": Form({}, {"input_features": (1, 128, 64)}),
    "siglip2_vision_model": Form(
        {"num_patches": 16}, {"pixel_values": (1, 16, 768), "pixel_attention_mask": (1, 16), "spatial_shapes": [[4, 4]]}
    ),
    "videoprism": Form(
        {"vision_config.num_frames": 2, "vision_config.image_size": 36},
        {"input_ids": None, "pixel_values_videos": (1, 2, 3, 36, 36)},
    ),
    "cosmos3_edge_vision": _patched(768),
    "granite_speech5_ctc": Form({"encoder_config.context_size": 16}, {"input_features": (1, 64, 320)}),
    "informer": _SERIES,
    "patchtst": Form({}, {"past_values": (1, 32, 1)}),
    "patchtsmixer": Form({}, {"past_values": (1, 32, 1)}),
    "esm": Form({"vocab_size": 128, "pad_token_id": 1}),
    "falcon_h1": Form({"mamba_d_ssm": 64}),
    "fast_vlm": Form(
        {
            "vision_config.architecture": "fastvit_t8",
            "vision_config.hidden_size": 768,
            "image_token_index": 5,
            "image_token_id": 5,
        },
        {"input_ids": [[5] * 4 + [7, 8, 9, 10]], "pixel_values": (1, 3, 64, 64)},
    ),
    "fun_asr_nano_encoder": Form({}, {"input_features": (1, 16, 560), "input_features_mask": (1, 16)}),
    "gemma3n_text": Form(_GEMMA3N),
    "gemma4_audio": Form({}, {"input_features": (1, 64, 128)}),
    "gemma4_vision": Form(
        {}, {"pixel_values": (1, 36, 768), "pixel_position_ids": [[[at % 6, at // 6] for at in range(36)]]}
    ),
    "glm4v_moe": Form({"text_config.head_dim": 16, "vision_config.out_hidden_size": 32}),
    "glm4v_moe_text": Form({"head_dim": 16}),
    "granite_speech5_encoder": Form({"context_size": 16}, {"input_features": (1, 64, 320)}),
    "hunyuan_vl_vision": _patched(16 * 16 * 3),
    "hy_v4_vl_vision": _patched(16 * 16 * 3),
    "idefics": Form({}, {"input_ids": None, "pixel_values": (1, 1, 3, 64, 64), "image_attention_mask": (1, 8, 1)}),
    "instructblip": Form({"num_query_tokens": 4, "image_token_id": 5}, {"input_ids": [[5] * 4 + [7, 8, 9, 10]]}),
    "instructblipvideo": Form(
        {"num_query_tokens": 4, "video_token_id": 5},
        {"input_ids": [[5] * 8 + [7, 8, 9, 10]], "pixel_values": (1, 2, 3, 64, 64)},
    ),
    "janus": Form({"vq_config.base_channels": 32}),
    "kosmos-2": Form(
        {
            "latent_query_num": 4,
            "text_config.embed_dim": 32,
            "text_config.layers": 2,
            "text_config.attention_heads": 4,
        },
        {"input_ids": None, "pixel_values": None, "image_embeds_position_mask": [[1, 1, 1, 1, 0, 0, 0, 0]]},
    ),
    "kyutai_speech_to_text": Form(
        {"audio_pad_token_id": 0, "codebook_vocab_size": 64, "num_codebooks": 4}, {"input_ids": (1, 8, 5)}
    ),
    "lfm3_vl_vision": _patched(1536),
    "lightglue": Form(
        {"descriptor_dim": 32, "hidden_size": 32, "intermediate_size": 64}, {"pixel_values": (1, 2, 3, 64, 64)}
    ),
    "longcat_flash": Form({"expert_ffn_hidden_size": 64, "zero_expert_num": 2, "qk_head_dim": 16, "head_dim": 8}),
    "luke": Form({"entity_vocab_size": 128, "entity_emb_size": 16}),
    "mimi_decoder": Form({"upsample_groups": 32, "num_filters": 4}, {"latents": (1, 32, 8)}),
    "mimi_encoder": Form({"num_filters": 4}, {"input_values": (1, 1, 9600)}),
    "minimax_m3_vl": Form(
        {
            "merged_hidden_size": 128,
            "projector_hidden_size": 32,
            "text_config.dense_intermediate_size": 64,
            "text_config.shared_intermediate_size": 64,
            "text_config.index_head_dim": 8,
        }
    ),
    "mistral4": Form({"qk_head_dim": 16, "head_dim": 16}),
    "moonshine_streaming": Form({"num_key_value_heads": 4}),
    "muse_glimmer_assistant": Form({}, {"noise_embeds": (1, 16, 32), "context_hidden_states": (1, 8, 160)}),
    "muse_glimmer_vision": _patched(1176),
    "muse_spark": Form(
        {
            "out_hidden_size": 128,
            "projector_hidden_size": 32,
            "audio_config.hidden_sizes": (8, 16, 32, 64),
            "audio_config.depths": (1, 1, 1, 1),
            "audio_config.out_hidden_size": 32,
            "text_config.moe_hidden_size": 32,
        }
    ),
    "muse_spark_vision": _patched(1176),
    "nemotron": Form({"num_key_value_heads": 4}),
    "neucodec": Form(
        {"quantization_dim": 64, "quantization_levels": (4,) * 4, "encoder_hidden_size": 4},
        {"input_values": (1, 1, 6400), "input_features": (1, 20, 160)},
    ),
    "omniasr_audio": Form({}, {"input_values": (1, 1, 8000)}),
    "omniasr_ctc": Form({}, {"input_values": (1, 1, 8000)}),
    "oneformer": Form(
        {
            "backbone_config.num_heads": (2, 4, 8, 16),
            "backbone_config.window_size": 4,
            "conv_dim": 32,
            "mask_dim": 32,
        },
        {"pixel_values": (1, 3, 64, 64), "task_inputs": (1, 77)},
    ),
    "pe_audio": Form(_inside("audio_config.dac_config", _DAC), {"input_ids": None, "input_values": (1, 1, 7680)}),
    "pe_audio_encoder": Form(_inside("dac_config", _DAC), {"input_values": (1, 1, 7680)}),
    "pe_audio_video": Form(
        {
            **_inside("audio_video_config.audio_config.dac_config", _DAC),
            **_inside("audio_video_config.video_config", _FRAMES),
        },
        {"input_ids": None, "input_values": (1, 1, 7680), "pixel_values_videos": (1, 4, 3, 64, 64)},
    ),
    "pe_audio_video_encoder": Form(
        {**_inside("audio_config.dac_config", _DAC), **_inside("video_config", _FRAMES)},
        {"input_values": (1, 1, 7680), "pixel_values_videos": (1, 4, 3, 64, 64)},
    ),
    "pe_video": Form(_inside("video_config", _FRAMES), {"input_ids": None, "pixel_values_videos": (1, 4, 3, 64, 64)}),
    "pe_video_encoder": Form(_FRAMES, {"pixel_values_videos": (1, 4, 3, 64, 64)}),
    "pi0": Form(
        {"vlm_config.image_token_index": 5, "vlm_config.image_token_id": 5},
        {
            "action_embeds": (1, 8, 32),
            "input_ids": [[5] * 16 + [7, 8, 9]],
            "pixel_values": (1, 1, 3, 64, 64),
            "pixel_attention_mask": (1, 1),
        },
    ),
    "pocket_tts_audio_tokenizer": Form({"upsample_groups": 32, "num_filters": 4}, {"input_values": (1, 1, 7680)}),
    "pocket_tts_audio_tokenizer_decoder": Form({"upsample_groups": 32, "num_filters": 4}, {"latents": (1, 32, 8)}),
    "pp_ocrv5_mobile_rec": Form({}, {"pixel_values": (1, 3, 96, 160)}),
    "pp_ocrv6_medium_det": Form(
        {**_LINES, "intraclass_block_config": _STRIPS, "scale_factor_list": [1, 2, 4, 8]},
        {"pixel_values": (1, 3, 64, 64)},
    ),
    "pp_ocrv6_small_det": Form(
        {**_LINES, "layer_list_out_channels": (96, 96, 192, 384)}, {"pixel_values": (1, 3, 64, 64)}
    ),
    "qwen3_asr_encoder": Form({}, {"input_features": (1, 128, 100), "input_features_mask": (1, 100)}),
    "qwen4_exp": Form(_inside("text_config", _INDEXER)),
    "qwen4_exp_text": Form(_INDEXER),
    "seamless_m4t": Form(
        {
            **dict.fromkeys(("speech_encoder_layers", "t2u_encoder_layers", "t2u_decoder_layers"), 2),
            **dict.fromkeys(
                ("speech_encoder_attention_heads", "t2u_encoder_attention_heads", "t2u_decoder_attention_heads"), 4
            ),
            **dict.fromkeys(
                (
                    "speech_encoder_intermediate_size",
                    "t2u_encoder_ffn_dim",
                    "t2u_decoder_ffn_dim",
                    "upsample_initial_channel",
                ),
                64,
            ),
            **dict.fromkeys(("unit_embed_dim", "lang_embed_dim", "spkr_embed_dim"), 8),
            **dict.fromkeys(("t2u_vocab_size", "unit_hifi_gan_vocab_size"), 128),
        },
        {"input_ids": None, "decoder_input_ids": None},
    ),
    "siglip2": Form(
        {"vision_config.num_patches": 16, "text_config.projection_size": 32},
        {
            "input_ids": None,
            "pixel_values": (1, 16, 768),
            "pixel_attention_mask": (1, 16),
            "spatial_shapes": [[4, 4]],
        },
    ),
    "speech_to_text": Form({"conv_channels": 32}, {"input_features": (1, 64, 80), "decoder_input_ids": None}),
    "speecht5": Form({}, {"input_values": (1, 8, 32), "decoder_input_values": (1, 8, 32)}),
    "t5gemma2_encoder": Form({"text_config.dropout_rate": 0.0}),
    "timesfm": Form(
        {"context_length": 64},
        {"past_values": (1, 64), "past_values_padding": [[0] * 64], "freq": (1, 1)},
    ),
    "timesfm2_5": Form({"context_length": 64}, {"past_values": (1, 64)}),
    "timesformer": Form({"num_frames": 2}, {"pixel_values": (1, 2, 3, 64, 64)}),
    "tvp": Form(
        {"num_frames": 2, "max_img_size": 64, "visual_prompt_size": 8},
        {"input_ids": None, "pixel_values": (1, 2, 3, 64, 64)},
    ),
    "udop": Form({}, {"input_ids": None, "bbox": (1, 8, 4), "pixel_values": None, "decoder_input_ids": None}),
    "uvdoc": Form(_all_stages(6)),
    "vibevoice": Form(
        {
            **_inside("audio_config", _TOKENIZER),
            **_inside("semantic_model_config", _TOKENIZER),
            "audio_bos_token_id": 5,
            "audio_token_id": 6,
            "diffusion_head_config.latent_size": 32,
        }
    ),
    "vibevoice_acoustic_tokenizer": Form(_TOKENIZER, {"input_values": (1, 1, 6400)}),
    "vibevoice_acoustic_tokenizer_decoder": Form(_TOKENIZER, {"hidden_states": (1, 32, 4)}),
    "vibevoice_acoustic_tokenizer_encoder": Form(_TOKENIZER, {"hidden_states": (1, 1, 6400)}),
    "vibevoice_asr": Form(
        {
            **_inside("acoustic_tokenizer_encoder_config", _TOKENIZER),
            **_inside("semantic_tokenizer_encoder_config", _TOKENIZER),
            "audio_token_id": 6,
        }
    ),
    "video_llama_3_vision": Form({}, {"pixel_values": (16, 768), "merge_sizes": [2]}),
    "videoprism_vision_model": Form({"num_frames": 2, "image_size": 36}, {"pixel_values_videos": (1, 2, 3, 36, 36)}),
    "vivit": Form({"num_frames": 4}, {"pixel_values": (1, 4, 3, 64, 64)}),
    "vjepa2": Form(
        {"crop_size": 64, "frames_per_clip": 4, "pred_hidden_size": 36, "pred_num_hidden_layers": 2},
        {"pixel_values_videos": (1, 4, 3, 64, 64)},
    ),
    "wav2vec2-bert": Form({}, {"input_features": (1, 16, 160)}),
    "wavtokenizer": Form({"codebook_dim": 32}, {"input_values": (1, 1, 6000)}),
    "wavtokenizer_encoder": Form({"codebook_dim": 32}, {"input_values": (1, 1, 6000)}),
    "xclip": Form(
        {
            "projection_dim": 32,
            "vision_config.num_frames": 2,
            "vision_config.mit_hidden_size": 32,
            "vision_config.mit_num_attention_heads": 4,
            "vision_config.mit_intermediate_size": 64,
        },
        {"input_ids": None, "pixel_values": (1, 2, 3, 64, 64)},
    ),
    "xcodec": Form({"codebook_dim": 64, "codebook_size": 64}, {"input_values": (1, 1, 8000)}),
    "xcodec2": Form(
        {"quantization_dim": 64, "quantization_levels": (4,) * 4, "encoder_hidden_size": 4},
        {"input_values": (1, 1, 6400), "input_features": (1, 20, 160)},
    ),
    "xlstm": Form({"embedding_dim": 32}),
    "xmod": Form({}, setup=lambda model: model.set_default_language("en_XX")),
}
"""By type of model."""

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        ("edgetam_video", "sam3_tracker_video", "sam3_video"),
        "its forward takes an inference session, which is no tensor",
    ),
    "glm_image_vqmodel": "it has no forward",
    **dict.fromkeys(
        ("musicgen", "musicgen_melody"),
        "its configuration is that of three parts, and its base model takes the decoder's",
    ),
    "voxtral_realtime_text": "transformers does not export its class",
}
"""Why types of models are not in the catalogue."""

"""Export of small language models of transformers, a family each: `modellint.language_model`, and 64 tokens compared.

Usage: python benchmarks/language_models.py [FAMILY…] [--precision fp16|fp32] [--context N] [--prefill N]

Every model is made of its configuration, with random weights that are scaled so that each layer changes the outcome: the
embedding's and head's so that the tokens drawn vary, the layers' so that without one of them other tokens come. Prints a line
for each family, and the share of all that were asked for whose package agrees.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from torch import nn

import modellint

SMALL = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "num_local_experts": 4}
SCAN = {"mamba_d_state": 16, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_chunk_size": 16}
DELTA = {
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}
"""Small layers of recurrences: Mamba's second kind, and gated delta rules."""
OLD = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "vocab_size": 160, "eos_token_id": None}
BEHIND_ENCODER = {
    "vocab_size": 160,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
SOUND = {"num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 256}
UNTIED = {"tie_word_embeddings": False}
"""With the embedding as head Gemma's normalized layers add too little: each token would be followed by itself."""
SLIDING = ["sliding_attention", "full_attention"]

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SMALL),
    "qwen2": ("Qwen2", SMALL),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "gemma": ("Gemma", {**SMALL, **UNTIED, "head_dim": 16}),
    "gemma2": ("Gemma2", {**SMALL, **UNTIED, "head_dim": 16, "sliding_window": 24, "layer_types": SLIDING}),
    "gemma3": ("Gemma3Text", {**SMALL, **UNTIED, "head_dim": 16, "sliding_window": 24, "layer_types": SLIDING}),
    "phi": ("Phi", {**SMALL, "num_key_value_heads": 4}),
    "phi3": ("Phi3", SMALL),
    "mistral": ("Mistral", {**SMALL, "sliding_window": 24}),
    "gpt-neox": ("GPTNeoX", SMALL),
    "falcon": ("Falcon", {**SMALL, "num_kv_heads": 1, "ffn_hidden_size": 128}),
    "olmo": ("Olmo", SMALL),
    "olmo2": ("Olmo2", SMALL),
    "mixtral": ("Mixtral", {**SMALL, **EXPERTS}),
    "qwen2-moe": ("Qwen2Moe", {**SMALL, **EXPERTS, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}),
    "olmoe": ("Olmoe", {**SMALL, **EXPERTS}),
    "gpt2": ("GPT2", OLD),
    "gptj": ("GPTJ", {**OLD, "rotary_dim": 8}),
    "bloom": ("Bloom", {"vocab_size": 160, "hidden_size": 64, "n_layer": 2, "n_head": 4, "eos_token_id": None}),
    "opt": ("OPT", {**SMALL, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "stablelm": ("StableLm", SMALL),
    "starcoder2": ("Starcoder2", {**SMALL, "sliding_window": 24}),
    "mamba": (
        "Mamba",
        {"vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "eos_token_id": None},
    ),
    "mamba2": (
        "Mamba2",
        {
            "vocab_size": 160,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "state_size": 16,
            "num_heads": 8,
            "head_dim": 16,
            "n_groups": 2,
            "chunk_size": 16,
            "eos_token_id": None,
            "pad_token_id": 0,
        },
    ),
    "lfm2": ("Lfm2", {**SMALL, "layer_types": ["conv", "full_attention"]}),
    "jamba": (
        "Jamba",
        {
            **SMALL,
            "mamba_d_state": 8,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 2,
            "use_mamba_kernels": False,
        },
    ),
    "bamba": ("Bamba", {**SMALL, **SCAN, "attn_layer_indices": [1]}),
    "granite-hybrid": (
        "GraniteMoeHybrid",
        {
            **SMALL,
            **SCAN,
            **EXPERTS,
            "layer_types": ["linear_attention", "full_attention"],
            "shared_intermediate_size": 32,
        },
    ),
    "falcon-h1": ("FalconH1", {**SMALL, **SCAN, "mamba_d_ssm": 128}),
    "zamba2": (
        "Zamba2",
        {
            **SMALL,
            "mamba_d_state": 16,
            "n_mamba_heads": 8,
            "mamba_headdim": 16,
            "mamba_ngroups": 1,
            "chunk_size": 16,
            "layers_block_type": ["mamba", "hybrid"],
        },
    ),
    "nemotron-h": (
        "NemotronH",
        {
            **SMALL,
            "head_dim": 16,
            "ssm_state_size": 16,
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "n_groups": 1,
            "chunk_size": 16,
            "layers_block_type": ["mamba", "attention"],
        },
    ),
    "qwen3-next": (
        "Qwen3Next",
        {**SMALL, **DELTA, **EXPERTS, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
    ),
    "qwen3.5": ("Qwen3_5Text", {**SMALL, **DELTA}),
    "olmo-hybrid": ("OlmoHybrid", {**SMALL, **DELTA, "linear_num_value_heads": 2}),
    "t5": ("T5", {"vocab_size": 160, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4}),
    "bart": ("Bart", BEHIND_ENCODER),
    "whisper": (
        "Whisper",
        {**BEHIND_ENCODER, **SOUND, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
    ),
}


def made(family: str) -> nn.Module:
    """The small model of a family, with weights that matter."""
    import transformers

    name, options = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**options)
    ending = (
        "ForConditionalGeneration"
        if family in ("t5", "bart", "whisper")
        else "LMHeadModel"
        if family == "gpt2"
        else "ForCausalLM"
    )
    torch.manual_seed(0)
    model: nn.Module = getattr(transformers, name.removesuffix("Text") + ending)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                # Each layer's outcome is then about as large as what it is added to.
                parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
        if family == "t5":
            # T5 does not divide scores by the root of a head's size: its queries are made that much smaller.
            for name, parameter in model.named_parameters():
                if name.endswith(".q.weight"):
                    parameter.div_(model.config.d_kv**0.5)
    return model


def parts_that_matter(model: nn.Module) -> bool:
    """Whether each block of a model changes the token that comes next at some place of a text."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == 2]
    ids = torch.arange(2, 50).reshape(1, -1)
    given = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        # A sound has two frames for each place of the encoder.
        source = torch.randn(1, 16, 100) if model.main_input_name == "input_features" else ids.flip(1)
        given = {str(model.main_input_name): source, "decoder_input_ids": ids}

    def best() -> torch.Tensor:
        with torch.no_grad():
            return model(**given, use_cache=False).logits.argmax(-1)

    right = best()
    for block in (block for stack in stacks for block in stack):
        kept = {name: value.clone() for name, value in block.state_dict().items()}
        with torch.no_grad():
            for parameter in block.parameters():
                if parameter.dim() > 1:
                    parameter.zero_()
        changed = not torch.equal(best(), right)
        block.load_state_dict(kept)
        if not changed:
            return False
    return bool(stacks)


def row(family: str, options: argparse.Namespace) -> tuple[bool, str]:
    """Whether a family's package agrees, and a line about it."""
    began = time.monotonic()
    try:
        model = made(family)
        matters = "yes" if parts_that_matter(model) else "NO"
        try:
            summary = modellint.language_model(
                model,
                context=options.context,
                prefill=options.prefill,
                precision=options.precision,
            ).summary
        except modellint.LanguageModelError as error:
            summary = error.summary
        done = summary.generation
        tokens = f"{done.equal}/{done.tokens}" if done.tokens else "-"
        ok, verdict, reason = summary.ok, summary.verdict, summary.reason
        if done.first is not None:
            reason += f" (token {done.first.step}: margins {done.first.margin:.3f}, {done.first.margin_got:.3f})"
        if done.tokens:
            reason = f"{reason} {done.logits:.0f} dB".strip()
        for function, each in summary.functions:
            if not each.converts:
                reason += "; ".join(f" {function} by {attempt.route}: {attempt.reason}" for attempt in each.attempts)
    except ValueError as error:
        ok, verdict, tokens, reason, matters = False, "not taken", "-", str(error), "-"
    seconds = time.monotonic() - began
    return ok, f"{family:12} {verdict:14} {tokens:>6} {matters:>7} {seconds:5.0f} s  {reason}"


def main() -> None:
    """Print a line for each family, and the share that agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--precision", choices=("fp16", "fp32"), default="fp16")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--prefill", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    families = options.families or list(FAMILIES)
    print(f"{'family':12} {'verdict':14} {'tokens':>6} {'matter':>7}    time  reason")
    agreeing = 0
    for family in families:
        ok, line = row(family, options)
        agreeing += ok
        print(line, flush=True)
    print(f"{agreeing} of {len(families)} agree: {agreeing / len(families):.2f}")


if __name__ == "__main__":
    main()

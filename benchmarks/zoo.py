"""Real architectures, with random weights, as files of their own: each defines `make()`, which returns a model and its inputs."""

from __future__ import annotations

import warnings
from typing import Any

_HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)


def image(size=224, batch=1, channels=3):
    return (torch.randn(batch, channels, size, size),)


def tokens(length=16, vocabulary=90):
    return torch.randint(0, vocabulary, (1, length))


"""

TIMM = {
    "resnet18": 224,
    "resnext50_32x4d": 224,
    "densenet121": 224,
    "efficientnet_b0": 224,
    "mobilenetv3_large_100": 224,
    "mobilenetv4_conv_small": 224,
    "regnetx_002": 224,
    "convnext_tiny": 224,
    "vit_tiny_patch16_224": 224,
    "deit3_small_patch16_224": 224,
    "swin_tiny_patch4_window7_224": 224,
    "swinv2_tiny_window8_256": 256,
    "maxvit_tiny_tf_224": 224,
    "coatnet_0_rw_224": 224,
    "mixer_s16_224": 224,
    "resmlp_12_224": 224,
    "poolformer_s12": 224,
    "levit_128": 224,
    "efficientformer_l1": 224,
    "fastvit_t8": 256,
    "ghostnet_100": 224,
    "hrnet_w18_small": 224,
    "dla34": 224,
    "cspdarknet53": 256,
    "eva02_tiny_patch14_224": 224,
    "beit_base_patch16_224": 224,
    "xcit_nano_12_p16_224": 224,
    "mobilevit_s": 256,
    "repvgg_a0": 224,
    "vgg11_bn": 224,
    "inception_next_tiny": 224,
    "edgenext_small": 256,
    "pvt_v2_b0": 224,
    "twins_svt_small": 224,
    "cait_xxs24_224": 224,
    "crossvit_9_240": 240,
    "convit_tiny": 224,
    "tnt_s_patch16_224": 224,
    "visformer_tiny": 224,
    "gmlp_s16_224": 224,
    "volo_d1_224": 224,
    "pit_ti_224": 224,
    "sequencer2d_s": 224,
    "focalnet_tiny_srf": 224,
    "davit_tiny": 224,
    "mvitv2_tiny": 224,
    "repvit_m0_9": 224,
    "tiny_vit_5m_224": 224,
    "efficientvit_b0": 224,
    "res2net50_26w_4s": 224,
    "skresnet18": 224,
    "mobileone_s0": 224,
    "hiera_tiny_224": 224,
    "botnet26t_256": 256,
    "halonet26t": 256,
    "lambda_resnet26t": 256,
    "eca_nfnet_l0": 224,
    "tf_efficientnetv2_b0": 192,
    "starnet_s1": 224,
    "swiftformer_xs": 224,
    "mambaout_femto": 224,
    "convmixer_768_32": 64,
    "nest_tiny_jx": 224,
    "hardcorenas_a": 224,
    "resnest14d": 224,
    "seresnet50": 224,
    "mobilenetv2_100": 224,
    "rexnet_100": 224,
    "selecsls42b": 224,
    "ese_vovnet19b_dw": 224,
    "gernet_s": 224,
    "dpn48b": 224,
    "lcnet_050": 224,
    "semnasnet_075": 224,
    "convnextv2_atto": 224,
    "mobilevitv2_050": 256,
    "coat_tiny": 224,
    "gcvit_xxtiny": 224,
    "efficientformerv2_s0": 224,
    "poolformerv2_s12": 224,
    "caformer_s18": 224,
    "rdnet_tiny": 224,
    "regnety_002": 224,
    "ghostnetv2_100": 224,
    "vit_relpos_small_patch16_224": 224,
    "swin_s3_tiny_224": 224,
    "xception41": 128,
    "hgnet_tiny": 224,
    "repghostnet_050": 224,
    "fasternet_t0": 224,
    "shvit_s1": 224,
}

TORCHVISION = {
    "alexnet": 224,
    "googlenet": 224,
    "inception_v3": 299,
    "mnasnet0_5": 224,
    "shufflenet_v2_x0_5": 224,
    "squeezenet1_0": 224,
    "mobilenet_v2": 224,
    "vit_b_16": 224,
    "swin_v2_t": 256,
    "wide_resnet50_2": 224,
    "segmentation.deeplabv3_resnet50": 128,
    "segmentation.lraspp_mobilenet_v3_large": 128,
    "optical_flow.raft_small": 0,
    "video.r3d_18": 0,
    "efficientnet_v2_s": 224,
    "regnet_x_400mf": 224,
    "maxvit_t": 224,
    "segmentation.fcn_resnet50": 128,
    "video.s3d": 0,
    "video.mvit_v1_b": 0,
    "video.swin3d_t": 0,
    "vgg11": 64,
    "resnext50_32x4d": 96,
    "convnext_tiny": 224,
    "mobilenet_v3_small": 224,
    "densenet121": 224,
    "swin_t": 224,
    "video.mc3_18": 0,
    "video.r2plus1d_18": 0,
    "segmentation.deeplabv3_mobilenet_v3_large": 128,
}

_TEXT: dict[str, object] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
}
_IMAGE = {key: value for key, value in _TEXT.items() if key != "vocab_size"}
TRANSFORMERS: dict[str, tuple[str, dict[str, object]]] = {
    "bert": ("BertModel BertConfig", _TEXT),
    "roberta": ("RobertaModel RobertaConfig", _TEXT),
    "electra": ("ElectraModel ElectraConfig", _TEXT),
    "deberta_v2": ("DebertaV2Model DebertaV2Config", _TEXT),
    "albert": ("AlbertModel AlbertConfig", {**_TEXT, "embedding_size": 16}),
    "distilbert": (
        "DistilBertModel DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 99},
    ),
    "mpnet": ("MPNetModel MPNetConfig", _TEXT),
    "gpt2": ("GPT2LMHeadModel GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "gpt_neox": ("GPTNeoXForCausalLM GPTNeoXConfig", _TEXT),
    "llama": ("LlamaForCausalLM LlamaConfig", {**_TEXT, "num_key_value_heads": 2}),
    "mistral": ("MistralForCausalLM MistralConfig", {**_TEXT, "num_key_value_heads": 2}),
    "qwen2": ("Qwen2ForCausalLM Qwen2Config", {**_TEXT, "num_key_value_heads": 2}),
    "gemma": ("GemmaForCausalLM GemmaConfig", {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}),
    "phi": ("PhiForCausalLM PhiConfig", _TEXT),
    "opt": (
        "OPTForCausalLM OPTConfig",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "vocab_size": 99,
            "word_embed_proj_dim": 32,
        },
    ),
    "bloom": ("BloomForCausalLM BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "t5_encoder": (
        "T5EncoderModel T5Config",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
    ),
    "mamba": ("MambaForCausalLM MambaConfig", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99}),
    "vit": (
        "ViTModel ViTConfig",
        {**_IMAGE, "image_size": 32, "patch_size": 8},
    ),
    "segformer": (
        "SegformerModel SegformerConfig",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 1, 2, 2]},
    ),
    "gpt_neo": (
        "GPTNeoForCausalLM GPTNeoConfig",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 99,
            "attention_types": [[["global", "local"], 1]],
        },
    ),
    "gptj": (
        "GPTJForCausalLM GPTJConfig",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 99},
    ),
    "falcon": ("FalconForCausalLM FalconConfig", _TEXT),
    "stablelm": ("StableLmForCausalLM StableLmConfig", {**_TEXT, "num_key_value_heads": 2}),
    "starcoder2": ("Starcoder2ForCausalLM Starcoder2Config", {**_TEXT, "num_key_value_heads": 2}),
    "phi3": ("Phi3ForCausalLM Phi3Config", {**_TEXT, "num_key_value_heads": 2, "pad_token_id": 0}),
    "olmo": ("OlmoForCausalLM OlmoConfig", {**_TEXT, "num_key_value_heads": 2}),
    "mixtral": ("MixtralForCausalLM MixtralConfig", {**_TEXT, "num_key_value_heads": 2, "num_local_experts": 2}),
    "xlm_roberta": ("XLMRobertaModel XLMRobertaConfig", _TEXT),
    "layoutlm": ("LayoutLMModel LayoutLMConfig", _TEXT),
    "convbert": ("ConvBertModel ConvBertConfig", {**_TEXT, "embedding_size": 32}),
    "squeezebert": ("SqueezeBertModel SqueezeBertConfig", {**_TEXT, "embedding_size": 32}),
    "mobilebert": (
        "MobileBertModel MobileBertConfig",
        {**_TEXT, "embedding_size": 32, "intra_bottleneck_size": 16, "num_feedforward_networks": 1},
    ),
    "fnet": ("FNetModel FNetConfig", {key: _TEXT[key] for key in _TEXT if key != "num_attention_heads"}),
    "nystromformer": ("NystromformerModel NystromformerConfig", _TEXT),
    "longformer": ("LongformerModel LongformerConfig", {**_TEXT, "attention_window": 4}),
    "funnel": (
        "FunnelModel FunnelConfig",
        {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1], "vocab_size": 99},
    ),
    "xlnet": ("XLNetModel XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 99}),
    "rwkv": ("RwkvModel RwkvConfig", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99}),
    "bart": (
        "BartModel BartConfig",
        {
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "vocab_size": 99,
        },
    ),
    "deit": ("DeiTModel DeiTConfig", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "dinov2": ("Dinov2Model Dinov2Config", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "siglip_vision": ("SiglipVisionModel SiglipVisionConfig", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "clip_vision": ("CLIPVisionModel CLIPVisionConfig", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "swin": (
        "SwinModel SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    "convnext": ("ConvNextModel ConvNextConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
    "mobilevit": (
        "MobileViTModel MobileViTConfig",
        {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64], "image_size": 64},
    ),
    "wav2vec2": (
        "Wav2Vec2Model Wav2Vec2Config",
        {
            **{key: _TEXT[key] for key in _TEXT if key != "vocab_size"},
            "conv_dim": (16, 16),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
    ),
    "ernie": ("ErnieModel ErnieConfig", _TEXT),
    "roformer": ("RoFormerModel RoFormerConfig", {**_TEXT, "embedding_size": 32}),
    "rembert": ("RemBertModel RemBertConfig", {**_TEXT, "input_embedding_size": 32}),
    "esm": ("EsmModel EsmConfig", {**_TEXT, "pad_token_id": 1}),
    "megatron_bert": ("MegatronBertModel MegatronBertConfig", _TEXT),
    "granite": ("GraniteForCausalLM GraniteConfig", {**_TEXT, "num_key_value_heads": 2}),
    "olmo2": ("Olmo2ForCausalLM Olmo2Config", {**_TEXT, "num_key_value_heads": 2}),
    "gemma2": ("Gemma2ForCausalLM Gemma2Config", {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}),
    "qwen3": ("Qwen3ForCausalLM Qwen3Config", {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}),
    "codegen": (
        "CodeGenForCausalLM CodeGenConfig",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 99},
    ),
    "beit": ("BeitModel BeitConfig", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "vit_msn": ("ViTMSNModel ViTMSNConfig", {**_IMAGE, "image_size": 32, "patch_size": 8}),
    "resnet": (
        "ResNetModel ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"},
    ),
    "poolformer": ("PoolFormerModel PoolFormerConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
    "swinv2": (
        "Swinv2Model Swinv2Config",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    "hubert": (
        "HubertModel HubertConfig",
        {
            **{key: _TEXT[key] for key in _TEXT if key != "vocab_size"},
            "conv_dim": (16, 16),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
    ),
}
_INPUTS = {
    **dict.fromkeys(("vit", "deit", "dinov2", "siglip_vision", "clip_vision", "swin"), "image(32)"),
    **dict.fromkeys(("beit", "vit_msn", "swinv2"), "image(32)"),
    **dict.fromkeys(("segformer", "convnext", "mobilevit", "resnet", "poolformer"), "image(64)"),
    **dict.fromkeys(("wav2vec2", "hubert"), "(torch.randn(1, 2000),)"),
}
"""Where they are not tokens."""
_CACHING = (*(name for name, (classes, _) in TRANSFORMERS.items() if "ForCausalLM" in classes), "gpt2", "bart", "rwkv")

_OWN = {
    "cyclegan_generator": """\
class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
        )

    def forward(self, x):
        return x + self.body(x)


class Generator(nn.Module):
    def __init__(self, width=32, blocks=6):
        super().__init__()
        layers = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), nn.InstanceNorm2d(width), nn.ReLU(True)]
        for times in (1, 2):
            layers += [nn.Conv2d(width * times, width * times * 2, 3, 2, 1), nn.InstanceNorm2d(width * times * 2), nn.ReLU(True)]
        layers += [Block(width * 4) for _ in range(blocks)]
        for times in (4, 2):
            layers += [
                nn.ConvTranspose2d(width * times, width * times // 2, 3, 2, 1, output_padding=1),
                nn.InstanceNorm2d(width * times // 2),
                nn.ReLU(True),
            ]
        layers += [nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh()]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x)


def make():
    return Generator().eval(), image(128)
""",
    "lstm_tagger": """\
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(90, 32)
        self.lstm = nn.LSTM(32, 32, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 7)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0])


def make():
    return Tagger().eval(), (tokens(),)
""",
    "transformer_encoder": """\
def make():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 3).eval(), (torch.randn(2, 10, 32),)
""",
}


def built(text: str) -> tuple[Any, tuple[Any, ...]]:
    """The model of one of the files, run once, and its inputs. Raises whatever keeps it from running here."""
    import torch

    scope: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(text, scope)
        torch.manual_seed(0)
        model, args = scope["make"]()
        with torch.no_grad():
            model(*args)
    return model, tuple(args)


def files() -> dict[str, str]:
    """The text of a file for each architecture, by name."""
    found = {f"own_{name}": _HEAD + text for name, text in _OWN.items()}
    for name, size in TIMM.items():
        made = f'def make():\n    import timm\n\n    return timm.create_model("{name}").eval(), image({size})\n'
        found[f"timm_{name}"] = _HEAD + made
    for name, size in TORCHVISION.items():
        inputs = {
            "optical_flow.raft_small": "(torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))",
            "video.r3d_18": "(torch.randn(1, 3, 4, 64, 64),)",
            "video.s3d": "(torch.randn(1, 3, 16, 224, 224),)",
            "video.mvit_v1_b": "(torch.randn(1, 3, 16, 224, 224),)",
            "video.swin3d_t": "(torch.randn(1, 3, 4, 64, 64),)",
            "video.mc3_18": "(torch.randn(1, 3, 4, 64, 64),)",
            "video.r2plus1d_18": "(torch.randn(1, 3, 4, 64, 64),)",
        }.get(name, f"image({size})")
        keywords = "weights=None"
        if name.startswith("segmentation"):
            keywords += ", weights_backbone=None"
        if name in ("googlenet", "inception_v3"):
            keywords += ", init_weights=False"
        made = f"def make():\n    from torchvision import models\n\n    return models.{name}({keywords}).eval(), {inputs}\n"
        found[f"torchvision_{name.rpartition('.')[2]}"] = _HEAD + made
    for name, (classes, settings) in TRANSFORMERS.items():
        model, config = classes.split()
        inputs = _INPUTS.get(name, "(tokens(),)")
        if name in _CACHING:
            # A cache among the outputs is captured by no route.
            settings = {**settings, "use_cache": False}
        made = (
            f"def make():\n    from transformers import {config}, {model}\n\n"
            f"    return {model}({config}(**{settings!r})).eval(), {inputs}\n"
        )
        found[f"transformers_{name}"] = _HEAD + made
    return found

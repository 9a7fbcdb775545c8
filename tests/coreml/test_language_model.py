"""Language models: prefill and decode in one package, and greedy decoding compared."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import modellint
from modellint.destinations.coreml.language_model import cached_decoder, generation
from modellint.destinations.coreml.language_model.encoder_decoder import parts_of
from modellint.destinations.coreml.language_model.generation import chunks
from modellint.destinations.coreml.language_model.layer_caches import layer_caches, written
from modellint.destinations.coreml.language_model.package_functions import Chunking, Parts
from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.mil_programs import function_names, read_package
from modellint.destinations.export_options import OptionError
from modellint.live.inputs.model_inputs import Listed
from modellint.report import language_model_export_text as report

WORDS, WIDTH, HEADS, CONTEXT = 40, 16, 2, 40


class Decoder(nn.Module):
    """A layer of attention over a cache that it keeps itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)
        self.register_buffer("keys", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS))

    def forward(self, input_ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        count = input_ids.shape[1]
        places = position + torch.arange(count)
        x = self.words(input_ids) + self.places(places)
        q, k, v = self.qkv(x).reshape(1, count, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        self.keys.copy_(written(self.keys, k, position))
        self.values.copy_(written(self.values, v, position))
        mask = torch.where(torch.arange(CONTEXT) <= places.unsqueeze(1), 0.0, -30000.0)
        y = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        return self.head(x + 3 * y.transpose(1, 2).reshape(1, count, WIDTH))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> modellint.LanguageModelResult:
    path = tmp_path_factory.mktemp("language") / "Decoder.mlpackage"
    return modellint.language_model(Decoder(), output=path, context=CONTEXT, prefill=8, precision="fp32")


def test_prefill_and_decode_share_their_weights_and_generate_what_pytorch_does(
    exported: modellint.LanguageModelResult,
) -> None:
    summary = exported.summary
    assert exported.path is not None and exported.path.is_dir()
    assert summary.ok and summary.verdict == "agrees"
    assert [name for name, _ in summary.functions] == ["prefill", "decode"]
    made = summary.generation
    # A prompt of 12 takes two parts of prefill, and the last token is not read again.
    assert (made.prompt, made.tokens, made.equal, made.first, made.repeats) == (12, 29, 29, None, True)
    assert made.single is not None and made.single < 1e-5 and made.logits > 40
    of_states, of_length = summary.notes
    assert "no multiple of 32" in of_states and "that of keys, for one, is 8" in of_states
    assert of_length == "29 tokens were decoded: the context holds no more"
    assert summary.size < 0.7 * summary.apart
    text = repr(exported)
    assert "exported, and generates what PyTorch does" in text and "29 of 29 as PyTorch's" in text


def test_the_saved_package_decodes_from_the_states_of_prefill(exported: modellint.LanguageModelResult) -> None:
    assert exported.path is not None
    program, spec = read_package(exported.path)
    assert function_names(program) == ("prefill", "decode")
    assert [state.name for state in spec.description.functions[0].state] == ["keys", "values"]
    model = Decoder().eval()
    prompt = torch.arange(5, 13, dtype=torch.int32).unsqueeze(0)
    prefill, decode = Executor(program, "prefill"), Executor(program, "decode")
    prefill({"input_ids": prompt, "position": torch.tensor([0], dtype=torch.int32)})
    decode.begin(prefill.states)
    word = torch.tensor([[7]], dtype=torch.int32)
    got = decode({"input_ids": word, "position": torch.tensor([8], dtype=torch.int32)})["logits"]
    with torch.no_grad():
        whole = model(torch.cat([prompt, word], 1), torch.tensor([0]))[:, -1:]
    assert (got - whole).abs().max() < 5e-3 * whole.abs().max()


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = Decoder().train()
    model.keys.fill_(0.5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="forward does not take 48 tokens at once"):
        modellint.language_model(model, context=64, prefill=48)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Tied(Decoder):
    """Each word twice, the second a millionth better."""

    def __init__(self) -> None:
        super().__init__()
        half = WORDS // 2
        with torch.no_grad():
            self.head.weight[half:] = self.head.weight[:half]
            self.head.bias[half:] = self.head.bias[:half] + 1e-5


def test_tokens_that_float16_cannot_tell_apart_are_written_and_told(tmp_path: Path) -> None:
    path = tmp_path / "Tied.mlpackage"
    made = modellint.language_model(Tied(), output=path, context=CONTEXT, prefill=(1, 8))
    # coremltools makes float16 of what has a range and no type.
    assert [(put.name, put.dtype) for put in made.summary.functions[0][1].inputs] == [
        ("input_ids", "int32"),
        ("position", "int32"),
    ]
    assert path.is_dir() and made.path == path
    assert made.summary.writable and not made.summary.ok and made.summary.verdict == "undecided"
    text = repr(made)
    assert "agrees with PyTorch in float32, and rounding takes another token at step 1" in text
    assert "first other" in text


def _compared(
    exported: modellint.LanguageModelResult, change: float = 0.0, precision: str = "fp32", at: int | None = None
) -> generation.Compared:
    """How the package compares with a model whose head, or the bias of one word, is another."""
    assert exported.path is not None
    program, _ = read_package(exported.path)
    model = Decoder().eval()
    prompt = torch.arange(5, 14).unsqueeze(0)
    if change:
        with torch.no_grad():
            (model.head.bias if at is None else model.head.bias[at]).add_(
                change * torch.linspace(0, 1, WORDS) if at is None else change
            )
    parts = Parts(model, CONTEXT)
    greedily = generation.greedy(model, parts, prompt, 6, (8,))
    return generation.compared(program, parts, greedily, (8,), precision)


def test_another_model_differs(exported: modellint.LanguageModelResult) -> None:
    assert _compared(exported).verdict == "agrees"
    done = _compared(exported, 5.0)
    assert done.verdict == "differs" and "computes something else" in done.reason
    done = _compared(exported, 5.0, "fp16")
    assert done.verdict == "differs" and "logits are not precise enough" in done.reason


def test_tokens_that_rounding_decides_are_undecided_and_told_with_both_margins(
    exported: modellint.LanguageModelResult,
) -> None:
    # The bias of the second-best word is raised until PyTorch hardly prefers it; the package has the old bias.
    model = Decoder().eval()
    first = generation.greedy(model, Parts(model, CONTEXT), torch.arange(5, 14).unsqueeze(0), 1, (8,))
    best, second = first.logits[0].topk(2)
    done = _compared(exported, float(best[0] - best[1]) * 1.001, "fp16", int(second[1]))
    token = done.generation.first
    assert token is not None
    assert (token.step, token.expected, token.got) == (1, int(second[1]), int(second[0]))
    assert 0 < token.margin < 0.01 < token.margin_got
    assert done.verdict in ("undecided", "differs") and done.generation.equal < done.generation.tokens


@pytest.mark.parametrize(
    ("length", "sizes", "expected"),
    [
        (5, (8,), [(0, 5, 8)]),
        (12, (8,), [(0, 8, 8), (8, 4, 8)]),
        (12, (1, 8), [(0, 8, 8), (8, 4, 4)]),
        (9, (4, 8), [(0, 8, 8), (8, 1, 4)]),
        (21, Listed([16, 4]), [(0, 16, 16), (16, 5, 16)]),
        (3, Listed([16, 4]), [(0, 3, 4)]),
    ],
)
def test_parts_of_a_prompt(length: int, sizes: tuple[int, ...], expected: list[tuple[int, int, int]]) -> None:
    assert list(chunks(length, sizes)) == expected


@pytest.mark.parametrize(
    ("length", "sizes", "chunking", "expected"),
    [
        (12, (8,), Chunking.FULL, [(0, 8, 8)]),
        (19, (8,), Chunking.FULL, [(0, 8, 8), (8, 8, 8)]),
        (19, (8,), Chunking.FIRST, [(0, 8, 8)]),
        (5, (8,), Chunking.FULL, []),
        (13, (2, 8), Chunking.FULL, [(0, 8, 8), (8, 5, 5)]),
        (9, (2, 8), Chunking.FULL, [(0, 8, 8)]),
        (23, Listed([16, 4]), Chunking.FULL, [(0, 16, 16), (16, 4, 4)]),
        (23, Listed([16, 4]), Chunking.FIRST, [(0, 16, 16)]),
    ],
)
def test_chunks_of_a_model_with_recurrences_are_full(
    length: int, sizes: tuple[int, ...], chunking: Chunking, expected: list[tuple[int, int, int]]
) -> None:
    assert list(chunks(length, sizes, chunking)) == expected


def test_writing_to_a_cache_leaves_out_what_lies_beyond_it() -> None:
    cache, new = torch.zeros(1, 1, 4, 1), torch.arange(1.0, 4.0).reshape(1, 1, 3, 1)
    assert written(cache, new, torch.tensor([2])).flatten().tolist() == [0, 0, 1, 2]
    assert written(cache, new[:, :, :1], torch.tensor([1])).flatten().tolist() == [0, 1, 0, 0]


class TwoInputs(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def test_what_is_no_language_model_is_told() -> None:
    with pytest.raises(ValueError, match="that of TwoInputs takes x, y"):
        modellint.language_model(TwoInputs())
    with pytest.raises(ValueError, match="say how many tokens the module's own cache holds"):
        modellint.language_model(Decoder())
    with pytest.raises(ValueError, match="--deployment-target iOS18 or newer"):
        modellint.language_model(Decoder(), context=CONTEXT, deployment_target="iOS17")
    with pytest.raises(ValueError, match="longer than the context"):
        modellint.language_model(Decoder(), context=CONTEXT, prefill=41)
    with pytest.raises(TypeError, match="is needed, not str"):
        modellint.language_model("model")  # type: ignore[arg-type]


def test_a_model_that_does_not_convert_raises_and_nothing_is_written(tmp_path: Path) -> None:
    class Sorted(Decoder):
        def forward(self, input_ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            logits = super().forward(input_ids, position)
            return logits + torch.linalg.qr(logits[0])[1].sum()

    with pytest.raises(modellint.LanguageModelError, match="the model does not convert") as caught:
        modellint.language_model(Sorted(), context=CONTEXT, prefill=8, output=tmp_path / "no.mlpackage")
    assert list(tmp_path.iterdir()) == []
    assert not caught.value.summary.ok and not caught.value.summary.package
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert "prefill by" in report.render(again.summary, "no.mlpackage")


SIZES = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _scaled(model: nn.Module) -> nn.Module:
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval()


def _bart(**options: object) -> nn.Module:
    return _scaled(
        transformers.BartForConditionalGeneration(
            transformers.BartConfig(**{**SIZES, "max_position_embeddings": 48, **options})
        )
    )


def _whisper() -> nn.Module:
    config = transformers.WhisperConfig(
        **SIZES, num_mel_bins=4, max_source_positions=10, max_target_positions=24, decoder_start_token_id=3
    )
    return _scaled(transformers.WhisperForConditionalGeneration(config))


RECURRENT = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "eos_token_id": None, "pad_token_id": 0}


def _mamba() -> nn.Module:
    return _scaled(transformers.MambaForCausalLM(transformers.MambaConfig(**RECURRENT, state_size=4)))


def _hybrid() -> nn.Module:
    config = transformers.Lfm2Config(
        **RECURRENT,
        intermediate_size=24,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=48,
        layer_types=["conv", "full_attention"],
    )
    return _scaled(transformers.Lfm2ForCausalLM(config))


def test_a_recurrence_beside_attention_reads_full_chunks_and_the_rest_by_decode(tmp_path: Path) -> None:
    path = tmp_path / "Hybrid.mlpackage"
    model = _hybrid()
    made = modellint.language_model(model, output=path, context=40, prefill=8, precision="fp32")
    summary = made.summary
    assert summary.ok and summary.generation.prompt == 19 and summary.generation.equal == 22
    assert any("prefill reads full chunks alone" in note for note in summary.notes)
    program, _ = read_package(path)
    prefill, decode = Executor(program, "prefill"), Executor(program, "decode")
    assert sorted(prefill.states) == ["conv_0", "keys_1", "values_1"]
    ids = torch.arange(20, 37, dtype=torch.int32).unsqueeze(0)
    with torch.no_grad():
        wanted = model(ids.long(), use_cache=False).logits[0]
    states = prefill.states
    for at, size in ((0, 8), (8, 8), (16, 1)):
        executor = prefill if size == 8 else decode
        executor.begin(states)
        position = torch.tensor([at], dtype=torch.int32)
        got = executor({"input_ids": ids[:, at : at + size], "position": position})["logits"][0]
        assert (got - wanted[at : at + size]).abs().max() < 5e-3 * wanted.abs().max()
        states = executor.states


def test_a_model_that_cannot_go_on_with_several_tokens_reads_one_chunk() -> None:
    made = modellint.language_model(_mamba(), context=32, prefill=8, precision="fp32")
    assert made.summary.ok and made.summary.generation.prompt == 12
    assert any("prefill reads the first chunk of a text alone" in note for note in made.summary.notes)
    assert "4 states" in repr(made)


def test_what_a_recurrence_keeps_is_held_against_the_states_too() -> None:
    """Of a model with small weights what is lost of its states hardly moves the logits."""
    config = transformers.JambaConfig(
        **RECURRENT,
        intermediate_size=24,
        num_attention_heads=2,
        num_key_value_heads=1,
        mamba_d_state=4,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        use_mamba_kernels=False,
    )
    parts = cached_decoder.parts_of(transformers.JambaForCausalLM(config).eval(), 16, 16)
    assert parts.chunking is Chunking.FIRST


def test_a_memory_of_another_kind_is_told() -> None:
    class Strange:
        keys = None

    with pytest.raises(OptionError, match=r"Odd keeps Strange: .* takes caches of keys and values and of recurrences"):
        layer_caches("Odd", [Strange()])
    with pytest.raises(OptionError, match="Odd keeps no keys and values"):
        layer_caches("Odd", [])


def test_an_encoder_decoder_of_tokens_becomes_three_functions(tmp_path: Path) -> None:
    path = tmp_path / "Bart.mlpackage"
    model = _bart()
    made = modellint.language_model(model, output=path, context=24, prefill=8, source=(1, 12), precision="fp32")
    summary = made.summary
    assert summary.ok and [name for name, _ in summary.functions] == ["encode", "prefill", "decode"]
    generation = summary.generation
    assert generation.equal == generation.tokens > 8 and generation.repeats
    program, _ = read_package(path)
    encode, prefill = Executor(program, "encode"), Executor(program, "prefill")
    source = torch.arange(3, 15, dtype=torch.int32).unsqueeze(0)
    length = torch.tensor([7], dtype=torch.int32)
    cross = encode({"input_ids": source, "source_length": length})
    assert [tuple(cross[name].shape) for name in ("cross_keys", "cross_values")] == [(2, 2, 12, 8)] * 2
    ids = torch.arange(20, 28, dtype=torch.int32).unsqueeze(0)
    position = torch.tensor([0], dtype=torch.int32)
    got = prefill({"input_ids": ids, "position": position, "source_length": length, **cross})["logits"]
    with torch.no_grad():
        # What lies behind the length is padding: the model is given the source without it.
        wanted = model(source[:, :7].long(), decoder_input_ids=ids.long(), use_cache=False).logits
    assert (got - wanted).abs().max() < 5e-3 * wanted.abs().max()
    text = repr(made)
    assert "4 states of float16, 24 tokens long" in text and "in 3 packages" in text


def test_whisper_reads_features_of_the_length_that_it_is_made_for() -> None:
    # In bfloat16, as checkpoints are.
    made = modellint.language_model(_whisper().bfloat16(), prefill=4)
    assert made.summary.ok and made.summary.context == 24
    assert "compared with the model in float32: that in bfloat16 is" in made.summary.notes[0]
    (encode, exported), *_ = made.summary.functions
    assert encode == "encode"
    assert [(put.name, put.shape) for put in exported.inputs] == [("input_features", "1x4x20")]


def test_sources_that_are_not_taken_are_told() -> None:
    with pytest.raises(ValueError, match="Decoder is no encoder-decoder of transformers"):
        modellint.language_model(Decoder(), context=CONTEXT, source=(1, 8))
    with pytest.raises(ValueError, match="source is a shape"):
        modellint.language_model(Decoder(), context=CONTEXT, source=(1, 0))
    with pytest.raises(OptionError, match="is made for 48 tokens at most, not 50"):
        parts_of(_bart(), None, 256, (1, 50), 0)
    with pytest.raises(OptionError, match="reads 1xN tokens, not 2x8"):
        parts_of(_bart(), None, 256, (2, 8), 0)
    with pytest.raises(OptionError, match=r"context: .* is made for 24 tokens at most, not 30"):
        parts_of(_whisper(), 30, 256, None, 0)
    with pytest.raises(OptionError, match="does not take one of 1x4x18: ValueError: Whisper expects"):
        parts_of(_whisper(), None, 256, (1, 4, 18), 0)

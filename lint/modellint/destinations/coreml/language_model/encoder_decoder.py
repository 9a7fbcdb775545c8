"""Encoder-decoder of transformers as two modules without Python state: an encoder, and a decoder that attends to its outcome."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.destinations.coreml.language_model.cached_decoder import (
    MASKED,
    SAME,
    context_of,
    first_words,
    self_attention_mask,
    vocabulary_of,
)
from modellint.destinations.coreml.language_model.layer_caches import (
    SIMPLE_LAYERS,
    LayerShape,
    cache_argument,
    cache_in,
    cache_types,
    layer_shapes,
)
from modellint.destinations.coreml.language_model.package_functions import SOURCE_LENGTH, Parts
from modellint.destinations.coreml.language_model.rotary_tables import tabulate
from modellint.destinations.export_options import OptionError

_TOKENS = "input_ids"
_FEATURES = "input_features"
_SOURCE_TOKENS = 64
"""The length of a source of tokens where nobody says else."""


class SourceEncoder(nn.Module):
    """The encoder of an encoder-decoder, with the projections of its decoder's attention to the source.

    ``forward(input_ids, source_length)``, or ``forward(input_features)`` for a model of sounds, returns keys and values, each of
    heads x length x size for each layer of the decoder, one layer behind another.

    Args:
        model: The encoder-decoder, in evaluation mode.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def projected(self, source: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys and values that the decoder attends to, of layers x heads x length x size."""
        hidden = self.model.get_encoder()(source, attention_mask=bias)[0]  # type: ignore[operator]
        library = importlib.import_module("transformers.cache_utils")
        cache = library.EncoderDecoderCache(library.DynamicCache(), library.DynamicCache())
        # The decoder projects what it attends to by itself; of the token that it is run on nothing is kept.
        self.model(
            decoder_input_ids=torch.zeros(1, 1, dtype=torch.int64),
            encoder_outputs=(hidden,),
            attention_mask=bias,
            use_cache=True,
            return_dict=False,
            **{cache_argument(self.model): cache},
        )
        layers = cache.cross_attention_cache.layers
        return torch.cat([layer.keys for layer in layers]), torch.cat([layer.values for layer in layers])


class TokenEncoder(SourceEncoder):
    """An encoder of tokens, which may be padded at the end."""

    def forward(self, input_ids: Tensor, source_length: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values for a source of 1xS tokens, of which the first ``source_length`` are meant."""
        return self.projected(input_ids, padding_mask(input_ids.shape[1], source_length))


class FeatureEncoder(SourceEncoder):
    """An encoder of features of a sound, of one length."""

    def forward(self, input_features: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values for features of 1 x bins x frames."""
        return self.projected(input_features, None)


def padding_mask(length: int, meant: Tensor) -> Tensor:
    """What is added to scores, of 1 x 1 x 1 x length, so that places from ``meant`` on are not attended to."""
    return torch.where(torch.arange(length) < meant, 0.0, MASKED).reshape(1, 1, 1, length)


class CrossDecoder(nn.Module):
    """The decoder of an encoder-decoder: tokens, a position, and keys and values of the source in; logits out.

    As ``CachedDecoder``, with ``cross_keys`` and ``cross_values`` of the encoder, and ``source_length`` where the source is tokens.

    Args:
        model: The encoder-decoder, in evaluation mode.
        context: How many tokens its own caches hold.
        layers: The shape of each layer's cache.
    """

    def __init__(self, model: nn.Module, context: int, layers: Sequence[LayerShape]) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.layers = tuple(layers)
        self.width = _width(model)
        self.cache_argument = cache_argument(model)
        for at, layer in enumerate(self.layers):
            self.register_buffer(f"keys_{at}", torch.zeros(1, layer.heads, context, layer.key))
            self.register_buffer(f"values_{at}", torch.zeros(1, layer.heads, context, layer.value))

    def decoded(self, input_ids: Tensor, position: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Logits of 1 x N x vocabulary."""
        places = position + torch.arange(input_ids.shape[1])
        types = _cross_cache_types()
        own = [
            types.layer(getattr(self, f"keys_{at}"), getattr(self, f"values_{at}"), position, None)
            for at in range(len(self.layers))
        ]
        cross = [types.fixed(keys[at : at + 1], values[at : at + 1]) for at in range(len(self.layers))]
        logits: Tensor = self.model(
            decoder_input_ids=input_ids,
            # Not read, as its projections are in the cache already; only its length is.
            encoder_outputs=(torch.zeros(1, keys.shape[2], self.width),),
            attention_mask=bias,
            decoder_attention_mask=self_attention_mask(places, self.context),
            use_cache=True,
            return_dict=False,
            **{self.cache_argument: types.both(types.cache(layers=own), types.cache(layers=cross))},
        )[0]
        return logits


class TokenCrossDecoder(CrossDecoder):
    """The decoder behind an encoder of tokens."""

    def forward(
        self, input_ids: Tensor, position: Tensor, cross_keys: Tensor, cross_values: Tensor, source_length: Tensor
    ) -> Tensor:
        """Logits of 1 x N x vocabulary, for 1xN tokens behind ``position`` others."""
        bias = padding_mask(cross_keys.shape[2], source_length)
        return self.decoded(input_ids, position, cross_keys, cross_values, bias)


class FeatureCrossDecoder(CrossDecoder):
    """The decoder behind an encoder of features."""

    def forward(self, input_ids: Tensor, position: Tensor, cross_keys: Tensor, cross_values: Tensor) -> Tensor:
        """Logits of 1 x N x vocabulary, for 1xN tokens behind ``position`` others."""
        return self.decoded(input_ids, position, cross_keys, cross_values, None)


class _CrossTypes(NamedTuple):
    layer: Any
    fixed: Any
    cache: Any
    both: Any


@functools.lru_cache(maxsize=1)
def _cross_cache_types() -> _CrossTypes:
    """Classes of caches as transformers wants them, made when a model of its is there."""
    types = cache_types()

    class FixedLayer(types.layer):  # type: ignore[name-defined, misc]
        """A layer whose keys and values are those of the source, which never change."""

        def __init__(self, keys: Tensor, values: Tensor) -> None:
            super().__init__(keys, values, torch.zeros(1, dtype=torch.int64), None)

        def update(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            """Return what is there."""
            return self.keys, self.values

        def get_seq_length(self) -> int:
            """The length of the source, by which the cache counts as filled."""
            return int(self.keys.shape[2])

    library = importlib.import_module("transformers.cache_utils")
    return _CrossTypes(types.layer, FixedLayer, types.cache, library.EncoderDecoderCache)


def parts_of(model: nn.Module, context: int | None, default: int, shape: tuple[int, ...] | None, seed: int) -> Parts:
    """An encoder-decoder as an encoder and a decoder with its cache in buffers.

    Args:
        model: The encoder-decoder of transformers, in evaluation mode.
        context: How many tokens the decoder's caches hold; None for ``default``, or as many as the model is made for.
        default: How many where nobody says.
        shape: The shape of the source: (1, tokens), or that of features; None for what the model is made for.
        seed: Where random numbers of the example start.

    Raises ``OptionError`` for what is not taken.
    """
    name = type(model).__name__
    length = context_of(model, context, default, "max_target_positions", "max_position_embeddings")
    source = source_of(model, shape, seed)
    taken = tuple(source.values())
    layers = _layers(model, source)
    own = copy.deepcopy(model)
    if (decoder := getattr(own, "get_decoder", lambda: None)()) is not None:
        tabulate(decoder, length)
    is_tokens = _TOKENS in source
    encoder = (TokenEncoder if is_tokens else FeatureEncoder)(own).eval()
    cross_decoder = (TokenCrossDecoder if is_tokens else FeatureCrossDecoder)(own, length, layers).eval()
    ids = torch.arange(min(5, length)).remainder(vocabulary_of(model)).unsqueeze(0)
    try:
        with torch.no_grad():
            expected = model(**called(source), decoder_input_ids=ids, use_cache=False, return_dict=True).logits
            cross = encoder(*taken)
            logits = cross_decoder(ids, torch.zeros(1, dtype=torch.int32), *cross, *taken[1:])
    except Exception as error:
        # Whatever the model's own code says of masks and caches that it does not take.
        raise OptionError(
            f"{name} does not take keys and values of its source by themselves: {first_words(error)}"
        ) from error
    off = float((logits - expected).abs().max() / expected.abs().max())
    # With NaN none of it is proven.
    if not off <= SAME:
        raise OptionError(f"{name} computes something else with its cache in buffers: off by {off:.1e} of the scale")
    with torch.no_grad():
        for buffer in cross_decoder.buffers(recurse=False):
            buffer.zero_()
    return Parts(cross_decoder, length, encoder, source)


def called(source: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A source as transformers' own models take it: with a mask in the place of its length."""
    if SOURCE_LENGTH not in source:
        return dict(source)
    places = torch.arange(source[_TOKENS].shape[1]).unsqueeze(0)
    return {_TOKENS: source[_TOKENS].long(), "attention_mask": (places < source[SOURCE_LENGTH]).long()}


def source_of(model: Any, shape: tuple[int, ...] | None, seed: int) -> dict[str, Tensor]:
    """The example of a source. Raises ``OptionError`` for a kind of source, or a shape of it, that is not taken."""
    name, kind = type(model).__name__, model.main_input_name
    generator = torch.Generator().manual_seed(seed + 2)
    if kind == _TOKENS:
        most = getattr(model.config, "max_source_positions", None) or getattr(
            model.config, "max_position_embeddings", None
        )
        shape = shape or (1, min(_SOURCE_TOKENS, most or _SOURCE_TOKENS))
        if len(shape) != 2 or shape[0] != 1:
            raise OptionError(f"source: {name} reads 1xN tokens, not {'x'.join(map(str, shape))}")
        if most and shape[1] > most:
            raise OptionError(f"source: {name} is made for {most} tokens at most, not {shape[1]}")
        ids = torch.randint(0, vocabulary_of(model), shape, generator=generator, dtype=torch.int32)
        return {_TOKENS: ids, SOURCE_LENGTH: torch.tensor([max(1, 3 * shape[1] // 4)], dtype=torch.int32)}
    taken = tuple(inspect.signature(model.get_encoder().forward).parameters)
    if kind != _FEATURES or taken[:1] != (_FEATURES,):
        raise OptionError(
            f"{name} reads {kind}: an encoder-decoder is taken whose encoder reads {_TOKENS} or {_FEATURES}. Export "
            "encoder and decoder on their own"
        )
    bins, frames = getattr(model.config, "num_mel_bins", None), getattr(model.config, "max_source_positions", None)
    if shape is None and bins and frames:
        # Whisper's two convolutions halve the frames.
        shape = (1, bins, 2 * frames)
    if shape is None:
        raise OptionError(f"source: say which shape the {_FEATURES} of {name} have, as in 1x80x3000")
    if shape[0] != 1:
        raise OptionError(f"source: one at a time is read, not {shape[0]}")
    return {_FEATURES: torch.randn(shape, generator=generator)}


def _layers(model: Any, source: dict[str, Tensor]) -> list[LayerShape]:
    """The shape of each layer's cache, from a run on one token. Raises ``OptionError`` where it is no cache of keys and values."""
    name = type(model).__name__
    try:
        with torch.no_grad():
            outputs = model(
                **called(source),
                decoder_input_ids=torch.zeros(1, 1, dtype=torch.int64),
                use_cache=True,
                return_dict=True,
            )
    except Exception as error:
        shape = "x".join(map(str, next(iter(source.values())).shape))
        raise OptionError(f"source: {name} does not take one of {shape}: {first_words(error)}") from error
    own = getattr(cache_in(outputs), "self_attention_cache", None)
    layers = list(getattr(own, "layers", ()))
    if not layers or {type(layer).__name__ for layer in layers} - SIMPLE_LAYERS:
        raise OptionError(f"{name} keeps no cache of keys and values of its decoder and its source")
    shapes = layer_shapes(name, layers)
    if any(shape.window is not None for shape in shapes):
        raise OptionError(f"{name} attends to a window of tokens, which is not taken behind an encoder")
    return shapes


def _width(model: Any) -> int:
    """The size of an encoder's outcome for one place."""
    config = model.config
    return int(getattr(config, "d_model", None) or config.hidden_size)

"""Cached decoder: a causal model whose cache of keys and values is buffers of a fixed size, as Core ML's states are."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.destinations.coreml.language_model.parts import ARGUMENTS, Parts
from modellint.destinations.coreml.language_model.rotary_tables import tabulate
from modellint.destinations.export_options import OptionError

MASKED = -30000.0
"""What is added to the score of a place that is not attended to: float16 holds it, and its exponential is zero."""
_OF_TRANSFORMERS = "transformers"
SIMPLE_LAYERS = frozenset({"DynamicLayer", "DynamicSlidingWindowLayer"})
"""Layers of transformers' caches that keep keys and values alone."""
SAME = 1e-4
"""The error over the scale up to which a way to give the mask computes what the model does by itself."""


class LayerShape(NamedTuple):
    """The shape of a layer's cache, but for its length."""

    heads: int
    key: int
    """The size of a head's keys."""
    value: int
    window: int | None
    """How many tokens back the layer attends to, itself included; None for all."""


class CachedDecoder(nn.Module):
    """A causal model of transformers as a module without Python state: tokens and a position in, logits out.

    ``forward(input_ids, position)`` takes 1xN tokens and how many came before them, of shape (1,), writes their keys and values into
    the buffers ``keys_0``, ``values_0``, …, each of 1 x heads x context x size, and returns logits of 1 x N x vocabulary. Positions and
    masks are made inside. Places behind the last token are never attended to, so that tokens may be padded at the end.

    Args:
        model: The causal model, in evaluation mode.
        context: How many tokens the caches hold.
        layers: The shape of each layer's cache.
        masking: How the model is given its mask: ``tensor``, ``by layer type``, or ``own`` where it makes its own of a mask of
            ones over the whole context.
    """

    def __init__(self, model: nn.Module, context: int, layers: Sequence[LayerShape], masking: str) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.layers = tuple(layers)
        self.masking = masking
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        for at, layer in enumerate(self.layers):
            self.register_buffer(f"keys_{at}", torch.zeros(1, layer.heads, context, layer.key))
            self.register_buffer(f"values_{at}", torch.zeros(1, layer.heads, context, layer.value))

    def forward(self, input_ids: Tensor, position: Tensor) -> Tensor:
        """Logits of 1 x N x vocabulary, for 1xN tokens behind ``position`` others."""
        places = position + torch.arange(input_ids.shape[1])
        types = cache_types()
        layers = [
            types.layer(getattr(self, f"keys_{at}"), getattr(self, f"values_{at}"), position, layer.window)
            for at, layer in enumerate(self.layers)
        ]
        options = {"position_ids": places.unsqueeze(0)} if self.takes_positions else {}
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=self._mask(places),
            past_key_values=types.cache(layers=layers),
            use_cache=True,
            return_dict=False,
            **options,
        )
        logits: Tensor = outputs[0]
        return logits

    def _mask(self, places: Tensor) -> Tensor | Mapping[str, Tensor]:
        if self.masking == "own":
            return torch.ones(1, self.context, dtype=torch.int64)
        back = places.unsqueeze(1) - torch.arange(self.context).unsqueeze(0)
        if self.masking == "tensor":
            return _added(back, self.layers[0].window)
        kinds = self.model.config.layer_types  # type: ignore[union-attr]
        windows = {kind: layer.window for kind, layer in zip(kinds, self.layers, strict=False)}  # type: ignore[arg-type]
        return {kind: _added(back, window) for kind, window in windows.items()}


def self_attention_mask(places: Tensor, context: int) -> Tensor:
    """What is added to the scores of tokens at some places, of 1 x 1 x N x context, so that none behind them is attended to."""
    return _added(places.unsqueeze(1) - torch.arange(context).unsqueeze(0), None)


def _added(back: Tensor, window: int | None) -> Tensor:
    """What is added to the scores, of 1 x 1 x N x context, where a place is so many tokens back."""
    seen = back >= 0
    if window is not None:
        seen = seen & (back < window)
    return torch.where(seen, 0.0, MASKED).unsqueeze(0).unsqueeze(0)


def written(cache: Tensor, new: Tensor, position: Tensor) -> Tensor:
    """A cache of 1 x heads x context x size with N new places from a position on; what lies beyond its end is left out."""
    context, count = cache.shape[2], new.shape[2]
    at = torch.arange(context) - position
    is_new = (at >= 0) & (at < count)
    if count != 1:
        # Not by clamp, which coremltools makes floats of.
        new = new.index_select(2, torch.where(is_new, at, 0))
    return torch.where(is_new.reshape(1, 1, context, 1), new, cache)


class _Types(NamedTuple):
    layer: Any
    cache: Any


@functools.lru_cache(maxsize=1)
def cache_types() -> _Types:
    """Classes of caches as transformers wants them, made when a model of its is there."""
    library = importlib.import_module("transformers.cache_utils")

    class BufferLayer(library.CacheLayerMixin):  # type: ignore[name-defined, misc]
        """A layer whose keys and values are buffers of the decoder, written in place."""

        is_compileable = True

        def __init__(self, keys: Tensor, values: Tensor, position: Tensor, window: int | None) -> None:
            super().__init__()
            self.keys = keys
            self.values = values
            self.is_initialized = True
            self.is_sliding = window is not None
            self._position = position

        def lazy_initialization(self, *_: Any, **__: Any) -> None:
            """Do nothing: the buffers are there."""

        def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            """Write new keys and values, and return all."""
            self.keys.copy_(written(self.keys, key_states, self._position))
            self.values.copy_(written(self.values, value_states, self._position))
            return self.keys, self.values

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            """The whole buffer, from its beginning."""
            return self.keys.shape[2], 0

        def get_seq_length(self) -> Any:
            """How many tokens came before, a tensor."""
            return self._position

        def get_max_length(self) -> int:
            """The length of the buffer."""
            return int(self.keys.shape[2])

    return _Types(BufferLayer, library.Cache)


def parts_of(model: nn.Module, context: int | None, default: int) -> Parts:
    """A causal model as a decoder with its cache in buffers.

    A module that takes ``input_ids`` and ``position`` by itself is a decoder already. ``context`` may be left out for a model of
    transformers: ``default`` then, or as many as it is made for. Raises ``OptionError`` for what is not taken.
    """
    if not is_of_transformers(model):
        taken = tuple(inspect.signature(model.forward).parameters)
        if taken[:2] != ARGUMENTS:
            raise OptionError(
                f"a language model is a causal model of transformers, or a module whose forward takes input_ids (1xN) and position "
                f"(1) and keeps its cache in buffers; that of {type(model).__name__} takes {', '.join(taken) or 'nothing'}"
            )
        if not context:
            raise OptionError("context: say how many tokens the module's own cache holds")
        return Parts(model, context)
    config: Any = model.config
    _check_kind(model, config)
    length = context_of(model, context, default, "max_position_embeddings")
    layers = _layers(model)
    masking = _masking(model, layers)
    own = copy.deepcopy(model)
    tabulate(own, length)
    _spread_experts(own)
    return Parts(CachedDecoder(own, length, layers, masking).eval(), length)


def context_of(model: nn.Module, context: int | None, default: int, *limits: str) -> int:
    """How many tokens the caches of a model hold: as asked for, else ``default``, or as many as it is made for.

    ``limits`` are the names by which its configuration may say that, the first that it has holds. Raises ``OptionError``.
    """
    most = next((most for limit in limits if (most := getattr(model.config, limit, None))), None)
    length = context or min(default, most or default)
    if most and length > most:
        raise OptionError(f"context: {type(model).__name__} is made for {most} tokens at most, not {length}")
    return length


def first_words(error: Exception) -> str:
    """The kind of an error, and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _spread_experts(model: Any) -> None:
    """Let experts be computed by matrix products with weights that are gathered: groups of tokens by expert do not convert."""
    if getattr(model.config, "_experts_implementation", None) is not None:
        model.set_experts_implementation("batched_mm")


def is_of_transformers(model: nn.Module) -> bool:
    """Whether a model is one of transformers, which knows how to generate."""
    return any(
        base.__module__.partition(".")[0] == _OF_TRANSFORMERS and base.__name__ == "PreTrainedModel"
        for base in type(model).__mro__
    )


def _check_kind(model: nn.Module, config: Any) -> None:
    name = type(model).__name__
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if head is None or not getattr(model, "can_generate", lambda: False)():
        raise OptionError(
            f"{name} gives no logits of a next token: take the causal model around it, as in …ForCausalLM"
        )


def _layers(model: nn.Module) -> list[LayerShape]:
    """The shape of each layer's cache, from a run on one token. Raises ``OptionError`` where it is no cache of keys and values."""
    name = type(model).__name__
    with torch.no_grad():
        outputs = model(input_ids=torch.zeros(1, 1, dtype=torch.int64), use_cache=True, return_dict=True)
    cache = getattr(outputs, "past_key_values", None)
    layers = list(getattr(cache, "layers", ()))
    strange = sorted({type(layer).__name__ for layer in layers} - SIMPLE_LAYERS)
    if not layers or strange:
        what = f"keeps {', '.join(strange)}" if strange else "keeps no keys and values"
        raise OptionError(
            f"{name} {what}: --as language-model takes caches of keys and values alone. Write a module whose forward takes input_ids "
            "and position and keeps what it needs in buffers, and export that"
        )
    return layer_shapes(name, layers)


def layer_shapes(name: str, layers: Sequence[Any]) -> list[LayerShape]:
    """The shapes of layers of a cache that has seen a token. Raises ``OptionError`` for others than 1 x heads x length x size."""
    shapes = []
    for at, layer in enumerate(layers):
        if layer.keys is None or layer.keys.dim() != 4 or layer.keys.shape[0] != 1:
            raise OptionError(f"{name}: the cache of layer {at} is not of 1 x heads x length x size")
        window = int(layer.sliding_window) if layer.is_sliding else None
        shapes.append(LayerShape(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], window))
    return shapes


def _masking(model: nn.Module, layers: Sequence[LayerShape]) -> str:
    """The first way to give the mask by which the decoder computes what the model does without a cache. Raises ``OptionError``."""
    length = min(max((layer.window or 0 for layer in layers), default=0) + 5, 64)
    ids = torch.arange(length).remainder(vocabulary_of(model)).unsqueeze(0)
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False, return_dict=True).logits
    reasons = []
    for way in _ways(model, layers):
        decoder = CachedDecoder(model, length, layers, way)
        try:
            with torch.no_grad():
                logits = decoder(ids, torch.zeros(1, dtype=torch.int32))
        except Exception as error:
            # Whatever the model's own code says of a mask that it does not take.
            reasons.append(first_words(error))
            continue
        off = float((logits - expected).abs().max() / expected.abs().max())
        if off <= SAME:
            return way
        reasons.append(f"off by {off:.1e} of the scale")
    raise OptionError(
        f"{type(model).__name__} computes something else with its cache in buffers ({'; '.join(reasons)}): write a module whose forward "
        "takes input_ids and position and keeps its cache in buffers, and export that"
    )


def _ways(model: nn.Module, layers: Sequence[LayerShape]) -> Iterator[str]:
    kinds = getattr(model.config, "layer_types", None) or ()
    if len({layer.window for layer in layers}) == 1:
        yield "tensor"
    if len(kinds) >= len(layers):
        yield "by layer type"
    yield "own"


def vocabulary_of(model: nn.Module) -> int:
    """How many tokens a model of transformers has an embedding of."""
    embedding = model.get_input_embeddings()  # type: ignore[operator]
    return int(embedding.weight.shape[0])

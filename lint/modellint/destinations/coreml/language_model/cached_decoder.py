"""Cached decoder: a causal model whose cache is buffers of a fixed size, as Core ML's states are."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from modellint.destinations.coreml.language_model.layer_caches import (
    LayerCache,
    cache_argument,
    cache_in,
    cache_types,
    layer_caches,
)
from modellint.destinations.coreml.language_model.package_functions import ARGUMENTS, Chunking, Parts
from modellint.destinations.coreml.language_model.rotary_tables import tabulate
from modellint.destinations.export_options import OptionError

MASKED = -30000.0
"""What is added to the score of a place that is not attended to: float16 holds it, and its exponential is zero."""
_OF_TRANSFORMERS = "transformers"
SAME = 1e-4
"""The error over the scale up to which a way to give the mask computes what the model does by itself."""


class CachedDecoder(nn.Module):
    """A causal model of transformers as a module without Python state: tokens and a position in, logits out.

    ``forward(input_ids, position)`` takes 1xN tokens and how many came before them, of shape (1,), writes their keys and values into
    the buffers ``keys_0``, ``values_0``, …, each of 1 x heads x context x size, and returns logits of 1 x N x vocabulary. Positions and
    masks are made inside. Places behind the last token are never attended to, so that tokens may be padded at the end. A layer with a
    recurrence, as Mamba's, keeps the last inputs of its convolution in ``conv_0``, … and its state in ``recurrent_0``, …; it takes
    padding for tokens.

    Args:
        model: The causal model, in evaluation mode.
        context: How many tokens the caches hold.
        layers: What each layer keeps.
        masking: How the model is given its mask: ``tensor``, ``by layer type``, ``own`` where it makes its own of a mask of
            ones over the whole context, or ``none``.
        continues: Whether more than one token may go on from states of recurrences; else they count as empty then.
    """

    def __init__(
        self, model: nn.Module, context: int, layers: Sequence[LayerCache], masking: str, continues: bool = True
    ) -> None:
        super().__init__()
        self.model = model
        self.context = context
        self.layers = tuple(layers)
        self.masking = masking
        self.continues = continues
        self.takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self.cache_argument = cache_argument(model)
        for at, layer in enumerate(self.layers):
            for name, shape in layer.buffers(at, context):
                self.register_buffer(name, torch.zeros(shape))

    def forward(self, input_ids: Tensor, position: Tensor) -> Tensor:
        """Logits of 1 x N x vocabulary, for 1xN tokens behind ``position`` others."""
        places = position + torch.arange(input_ids.shape[1])
        begins = input_ids.shape[1] > 1 and not self.continues
        layers = [layer.layer(self, at, position, begins) for at, layer in enumerate(self.layers)]
        options: dict[str, Any] = {"position_ids": places.unsqueeze(0)} if self.takes_positions else {}
        options[self.cache_argument] = cache_types().cache(layers=layers)
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=self._mask(places),
            use_cache=True,
            return_dict=False,
            **options,
        )
        logits: Tensor = outputs[0]
        return logits

    def _mask(self, places: Tensor) -> Tensor | Mapping[str, Tensor | None] | None:
        if self.masking == "none":
            return None
        if self.masking == "own":
            return torch.ones(1, self.context, dtype=torch.int64)
        back = places.unsqueeze(1) - torch.arange(self.context).unsqueeze(0)
        if self.masking == "tensor":
            (window,) = _windows(self.layers)
            return _added(back, window)
        kinds = self.model.config.layer_types  # type: ignore[union-attr]
        by_kind = {kind: layer.attention for kind, layer in zip(kinds, self.layers, strict=False)}  # type: ignore[arg-type]
        return {kind: None if shape is None else _added(back, shape.window) for kind, shape in by_kind.items()}


def self_attention_mask(places: Tensor, context: int) -> Tensor:
    """What is added to the scores of tokens at some places, of 1 x 1 x N x context, so that none behind them is attended to."""
    return _added(places.unsqueeze(1) - torch.arange(context).unsqueeze(0), None)


def _added(back: Tensor, window: int | None) -> Tensor:
    """What is added to the scores, of 1 x 1 x N x context, where a place is so many tokens back."""
    seen = back >= 0
    if window is not None:
        seen = seen & (back < window)
    return torch.where(seen, 0.0, MASKED).unsqueeze(0).unsqueeze(0)


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
    chunking = _chunking(model, layers, masking)
    own = copy.deepcopy(model)
    tabulate(own, length)
    _spread_experts(own)
    decoder = CachedDecoder(own, length, layers, masking, chunking is not Chunking.FIRST)
    return Parts(decoder.eval(), length, chunking=chunking)


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


def _layers(model: nn.Module) -> list[LayerCache]:
    """What each layer keeps, from a run on one token. Raises ``OptionError`` where that is not taken."""
    with torch.no_grad():
        outputs = model(input_ids=torch.zeros(1, 1, dtype=torch.int64), use_cache=True, return_dict=True)
    return layer_caches(type(model).__name__, list(getattr(cache_in(outputs), "layers", ())))


def _windows(layers: Sequence[LayerCache]) -> set[int | None]:
    """The windows of layers that attend."""
    return {layer.attention.window for layer in layers if layer.attention is not None}


def _masking(model: nn.Module, layers: Sequence[LayerCache]) -> str:
    """The first way to give the mask by which the decoder computes what the model does without a cache. Raises ``OptionError``."""
    length = min(max((window or 0 for window in _windows(layers)), default=0) + 5, 64)
    ids, expected = _sample(model, length)
    reasons = []
    for way in _ways(model, layers):
        decoder = CachedDecoder(model, length, layers, way, continues=False)
        try:
            off = _off(_read(decoder, [ids]), expected)
        except Exception as error:
            # Whatever the model's own code says of a mask that it does not take.
            reasons.append(first_words(error))
            continue
        if off <= SAME:
            return way
        reasons.append(f"off by {off:.1e} of the scale")
    raise OptionError(
        f"{type(model).__name__} computes something else with its cache in buffers ({'; '.join(reasons)}): write a module whose forward "
        "takes input_ids and position and keeps its cache in buffers, and export that"
    )


def _chunking(model: nn.Module, layers: Sequence[LayerCache], masking: str) -> Chunking:
    """How prefill may read a prompt, tried out: whether a second chunk goes on from the states of the first."""
    if not any(layer.recurrence for layer in layers):
        return Chunking.PADDED
    ids, _ = _sample(model, 8)
    whole = CachedDecoder(model, 8, layers, masking, continues=False)
    parted = CachedDecoder(model, 8, layers, masking)
    expected = _read(whole, [ids])
    try:
        logits = _read(parted, [ids[:, :5], ids[:, 5:]])
    except Exception:
        # Whatever the model's own code says of going on: it has no code for that.
        return Chunking.FIRST
    # The states too: of a model that is not trained they may hardly move the logits.
    pairs = [(logits, expected), *zip(parted.buffers(recurse=False), whole.buffers(recurse=False), strict=True)]
    return Chunking.FULL if all(_off(is_, should_be) <= SAME for is_, should_be in pairs) else Chunking.FIRST


def _sample(model: nn.Module, length: int) -> tuple[Tensor, Tensor]:
    """Tokens, and the logits that the model gives for them without a cache."""
    ids = torch.arange(length).remainder(vocabulary_of(model)).unsqueeze(0)
    with torch.no_grad():
        logits: Tensor = model(input_ids=ids, use_cache=False, return_dict=True).logits
    return ids, logits


def _read(decoder: CachedDecoder, chunks: Sequence[Tensor]) -> Tensor:
    """The logits of a decoder that reads tokens in chunks."""
    at, logits = 0, []
    with torch.no_grad():
        for ids in chunks:
            logits.append(decoder(ids, torch.tensor([at], dtype=torch.int32)))
            at += ids.shape[1]
    return torch.cat(logits, 1)


def _off(values: Tensor, expected: Tensor) -> float:
    """The error over the scale: infinite where all should be zero and are not."""
    error, scale = float((values - expected).abs().max()), float(expected.abs().max())
    return error / scale if scale else math.inf if error else 0.0


def _ways(model: nn.Module, layers: Sequence[LayerCache]) -> Iterator[str]:
    kinds = getattr(model.config, "layer_types", None) or ()
    if len(_windows(layers)) == 1:
        yield "tensor"
    if _windows(layers) and len(kinds) >= len(layers):
        yield "by layer type"
    if not _windows(layers):
        yield "none"
    yield "own"


def vocabulary_of(model: nn.Module) -> int:
    """How many tokens a model of transformers has an embedding of."""
    embedding = model.get_input_embeddings()  # type: ignore[operator]
    return int(embedding.weight.shape[0])

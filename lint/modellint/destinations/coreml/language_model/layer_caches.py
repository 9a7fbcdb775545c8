"""Layer caches: buffers in the place of what transformers keeps of a layer, keys and values or states of a recurrence."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.destinations.export_options import OptionError

SIMPLE_LAYERS = frozenset({"DynamicLayer", "DynamicSlidingWindowLayer"})
"""Layers of transformers' caches that keep keys and values alone."""
_RECURRENT_LAYERS = frozenset(
    {
        "LinearAttentionLayer",
        "LinearAttentionAndFullAttentionLayer",
        "LinearAttentionAndSlidingWindowAttentionLayer",
    }
)
"""Layers that keep the last inputs of a convolution and the state of a recurrence, as Mamba's, some beside keys and values."""
_EMPTY_LAYERS = frozenset({"DummyLayer"})
"""Layers that keep nothing."""

_CACHE_ARGUMENTS = ("cache", "past_key_values", "cache_params")
"""What models of transformers call their cache; the newest name first, as older ones go on being taken beside it."""


class LayerShape(NamedTuple):
    """The shape of a layer's keys and values, but for its length."""

    heads: int
    key: int
    """The size of a head's keys."""
    value: int
    window: int | None
    """How many tokens back the layer attends to, itself included; None for all."""


class RecurrenceShape(NamedTuple):
    """The shapes of what a layer with recurrences keeps, of each of them; None where it keeps none."""

    convolutions: tuple[tuple[int, ...] | None, ...]
    """Of the last inputs of its convolution, 1 x channels x length."""
    states: tuple[tuple[int, ...] | None, ...]


class LayerCache(NamedTuple):
    """What a layer keeps."""

    attention: LayerShape | None = None
    recurrence: RecurrenceShape | None = None

    def buffers(self, at: int, context: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the buffers of the layer at this place."""
        if self.attention is not None:
            yield f"keys_{at}", (1, self.attention.heads, context, self.attention.key)
            yield f"values_{at}", (1, self.attention.heads, context, self.attention.value)
        if self.recurrence is not None:
            for kind, shapes in (("conv", self.recurrence.convolutions), ("recurrent", self.recurrence.states)):
                for which, shape in enumerate(shapes):
                    if shape is not None:
                        yield _named(kind, at, which), shape

    def layer(self, owner: nn.Module, at: int, position: Tensor, begins: bool) -> Any:
        """A layer of transformers' kind over buffers of ``owner``; where it ``begins``, no states of recurrences went before."""
        types = cache_types()
        if self.recurrence is None:
            return types.empty() if self.attention is None else types.layer(*self._kept(owner, at, position))
        recurrences = tuple(
            [getattr(owner, _named(kind, at, which), None) for which in range(len(shapes))]
            for kind, shapes in (("conv", self.recurrence.convolutions), ("recurrent", self.recurrence.states))
        )
        if self.attention is None:
            return types.recurrent(*recurrences, begins)
        return types.both(*recurrences, begins, *self._kept(owner, at, position))

    def _kept(self, owner: nn.Module, at: int, position: Tensor) -> tuple[Tensor, Tensor, Tensor, int | None]:
        """Keys, values, position and window of a layer with attention."""
        window = None if self.attention is None else self.attention.window
        return getattr(owner, f"keys_{at}"), getattr(owner, f"values_{at}"), position, window


def _named(kind: str, at: int, which: int) -> str:
    return f"{kind}_{at}" if which == 0 else f"{kind}_{at}_{which}"


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
    recurrent: Any
    both: Any
    """Of a layer with attention and recurrences."""
    empty: Any
    cache: Any


@functools.lru_cache(maxsize=1)
def cache_types() -> _Types:
    """Classes of caches as transformers wants them, made when a model of its is there."""
    library = importlib.import_module("transformers.cache_utils")
    # An older transformers has no recurrences in its caches.
    recurrences: Any = getattr(library, "LinearAttentionLayer", library.CacheLayerMixin)

    class BufferLayer(library.CacheLayerMixin):  # type: ignore[name-defined, misc]
        """A layer whose keys and values are buffers of the decoder, written in place."""

        is_compileable = True

        def __init__(self, keys: Tensor, values: Tensor, position: Tensor, window: int | None) -> None:
            super().__init__()
            self._take(keys, values, position, window)

        def _take(self, keys: Tensor, values: Tensor, position: Tensor, window: int | None) -> None:
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

    class RecurrentLayer(recurrences):  # type: ignore[misc]
        """A layer whose recurrences keep their states in buffers of the decoder, written in place.

        Args:
            convolutions: For each recurrence the last inputs of its convolution, 1 x channels x length, or None.
            states: For each its state, or None.
            begins: Whether no states went before, whatever the buffers hold.
        """

        def __init__(self, convolutions: list[Tensor | None], states: list[Tensor | None], begins: bool) -> None:
            recurrences.__init__(self, number_of_states=len(convolutions))
            self._convolutions, self._states, self._begins = convolutions, states, begins
            for which in range(len(convolutions)):
                self.conv_states[which], self.recurrent_states[which] = convolutions[which], states[which]
                self.has_previous_state[which] = not begins

        def lazy_initialization(self, *_: Any, **__: Any) -> None:
            """Do nothing: the buffers are there."""

        def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, *_: Any, **__: Any) -> Tensor:
            """Keep the last inputs of a convolution, and return what it is to be made over."""
            buffer: Any = self._convolutions[state_idx]
            before = torch.zeros_like(buffer) if self._begins else buffer
            whole = torch.cat([before, conv_states], dim=-1)
            buffer.copy_(whole[..., -buffer.shape[-1] :])
            return conv_states if self._begins else whole

        def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, *_: Any, **__: Any) -> Tensor:
            """Keep the state of a recurrence."""
            buffer: Any = self._states[state_idx]
            buffer.copy_(recurrent_states)
            return recurrent_states

    class MixedLayer(RecurrentLayer, BufferLayer):
        """A layer with recurrences, and with keys and values."""

        def __init__(
            self,
            convolutions: list[Tensor | None],
            states: list[Tensor | None],
            begins: bool,
            keys: Tensor,
            values: Tensor,
            position: Tensor,
            window: int | None,
        ) -> None:
            RecurrentLayer.__init__(self, convolutions, states, begins)
            self._take(keys, values, position, window)

    empty = getattr(library, "DummyLayer", None)
    return _Types(BufferLayer, RecurrentLayer, MixedLayer, empty, library.Cache)


def cache_argument(model: nn.Module) -> str:
    """By which name a model of transformers takes its cache."""
    taken = inspect.signature(model.forward).parameters
    return next((name for name in _CACHE_ARGUMENTS if name in taken), "past_key_values")


def cache_in(outputs: Any) -> Any:
    """The cache among what a model of transformers returns, None where there is none."""
    caches = (getattr(outputs, name, None) for name in _CACHE_ARGUMENTS)
    return next((cache for cache in caches if cache is not None), None)


def layer_caches(name: str, layers: Sequence[Any]) -> list[LayerCache]:
    """What each layer of a cache keeps, from one that has seen a token. Raises ``OptionError`` where that is not taken."""
    strange = sorted({type(layer).__name__ for layer in layers} - SIMPLE_LAYERS - _RECURRENT_LAYERS - _EMPTY_LAYERS)
    if not layers or strange:
        what = f"keeps {', '.join(strange)}" if strange else "keeps no keys and values"
        raise OptionError(
            f"{name} {what}: --as language-model takes caches of keys and values and of recurrences. Write a module whose forward "
            "takes input_ids and position and keeps what it needs in buffers, and export that"
        )
    return [_layer_cache(name, at, layer) for at, layer in enumerate(layers)]


def _layer_cache(name: str, at: int, layer: Any) -> LayerCache:
    kind = type(layer).__name__
    attention = recurrence = None
    if kind not in _EMPTY_LAYERS and getattr(layer, "keys", None) is not None:
        (attention,) = layer_shapes(name, [layer], at)
    if kind in _RECURRENT_LAYERS:
        recurrence = RecurrenceShape(_shapes(layer.conv_states), _shapes(layer.recurrent_states))
    if kind in SIMPLE_LAYERS and attention is None:
        raise OptionError(f"{name}: the cache of layer {at} is not of 1 x heads x length x size")
    return LayerCache(attention, recurrence)


def _shapes(states: dict[int, Tensor | None]) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(None if state is None else tuple(state.shape) for state in states.values())


def layer_shapes(name: str, layers: Sequence[Any], first: int = 0) -> list[LayerShape]:
    """The shapes of layers of a cache that has seen a token. Raises ``OptionError`` for others than 1 x heads x length x size."""
    shapes = []
    for at, layer in enumerate(layers, first):
        if layer.keys is None or layer.keys.dim() != 4 or layer.keys.shape[0] != 1:
            raise OptionError(f"{name}: the cache of layer {at} is not of 1 x heads x length x size")
        window = int(layer.sliding_window) if layer.is_sliding else None
        shapes.append(LayerShape(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], window))
    return shapes

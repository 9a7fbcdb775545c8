"""Coverage of coremltools' own converters: for which arguments a decomposition leaves an operator to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from modellint.destinations.coreml.private.installed_capabilities import facts
from modellint.destinations.coreml.private.operator_tables import Var, is_boolean, is_integral, torch_type
from modellint.destinations.decompositions import (
    attention,
    convolution,
    elementwise,
    grid_sampling,
    indexing,
    normalization,
    pooling_padding_fold,
    reduction,
    shapes,
)
from modellint.destinations.decompositions.linear_algebra import linear_systems, products_distances_determinants
from modellint.destinations.decompositions.table import Function

Unless = Callable[[dict[str, Any]], bool]


def own(function: Function) -> Unless | None:
    """Tells of the arguments of a decomposition, by name and with variables for tensors, whether they are left to coremltools.

    None where they never are.
    """
    return _OWN.get(function)


def _is_real(arguments: dict[str, Any]) -> bool:
    return not is_integral(arguments["x"])


def _is_no_matter(arguments: dict[str, Any]) -> bool:
    """Whether coremltools converts the convolution itself: it does, but for output padding without padding, or in three dimensions."""
    if not arguments.get("transposed", True) or not any(arguments["output_padding"]):
        return True
    return any(arguments["padding"]) and len(arguments["weight"].shape) - 2 <= 2


def _is_unscaled(arguments: dict[str, Any]) -> bool:
    return bool(arguments["alpha"] == 1)


def _holds(arguments: dict[str, Any]) -> bool:
    """Whether a mask broadcasts to the tensor without making it larger."""
    x, mask = arguments["x"], arguments["mask"]
    rank = len(x.shape)
    if len(mask.shape) > rank:
        return False
    sizes = x.shape[rank - len(mask.shape) :]
    return all(length == size or length == 1 for length, size in zip(mask.shape, sizes, strict=True))


def _has_layer(arguments: dict[str, Any]) -> bool:
    """Whether coremltools takes the slopes: constants that are equal, or of an input of a rank that it takes."""
    x, slopes = arguments["x"], arguments["weight"].val
    if slopes is None or not x.shape or np.ndim(slopes) != 1:
        return False
    return len(x.shape) == 1 or (
        isinstance(x.shape[1], (int, np.integer))
        and (len(x.shape) in facts().prelu_ranks or bool(np.all(slopes == slopes[0])))
    )


def _is_resampled(arguments: dict[str, Any]) -> bool:
    return len(arguments["x"].shape) == 4 and arguments["interpolation_mode"] != grid_sampling.CUBIC


def _is_known(arguments: dict[str, Any]) -> bool:
    return arguments["x"].val is not None


def _is_of_one_type(arguments: dict[str, Any]) -> bool:
    return bool(arguments["x"].dtype == arguments["vec2"].dtype)


def _has_own_statistics(arguments: dict[str, Any]) -> bool:
    return arguments["use_input_stats"] or arguments["running_mean"] is None or arguments["running_var"] is None


def _pads_numbers(arguments: dict[str, Any]) -> bool:
    """Whether nothing is cropped, and numbers are padded: of truth values coremltools makes floats, and leaves them so."""
    x = arguments["x"]
    return min(arguments["pad"], default=0) >= 0 and not (isinstance(x, Var) and is_boolean(x))


def _is_plain_padding(arguments: dict[str, Any]) -> bool:
    pad, mode = arguments["pad"], arguments["mode"]
    if mode == "constant":
        return _pads_numbers(arguments)
    return min(pad, default=0) >= 0 and mode != "circular" and len(pad) <= 4


def _is_alike(arguments: dict[str, Any]) -> bool:
    """Whether the dtype that is asked for is that of the tensor."""
    return arguments["dtype"] is None or arguments["dtype"] == torch_type(arguments["x"])


def _is_known_number(arguments: dict[str, Any]) -> bool:
    """Whether the value is a number before a run, of the tensor's own type."""
    value = arguments["value"]
    known = getattr(value, "val", value)
    return known is not None and torch_type(arguments["x"]).is_floating_point


def _is_unmixed(arguments: dict[str, Any]) -> bool:
    """Whether the indices are not masks and places at once; ``None`` leaves an axis as it is."""
    kinds = {is_boolean(index) for index in arguments["indices"] if index is not None}
    return len(kinds) < 2 or arguments["accumulate"]


def _is_taken(arguments: dict[str, Any]) -> bool:
    """Whether coremltools converts it: masks, or places of one shape from the first axis on, in what holds no truth values."""
    indices = arguments["indices"]
    if any(index is not None and is_boolean(index) for index in indices):
        return True
    shapes = {None if index is None else tuple(index.shape) for index in indices}
    return None not in shapes and len(shapes) == 1 and not is_boolean(arguments["x"])


def _is_additive(arguments: dict[str, Any]) -> bool:
    """Whether the mask is added to the scores: no mask of truth values takes part."""
    return not arguments["is_causal"] and (arguments["attn_mask"] is None or not is_boolean(arguments["attn_mask"]))


def _is_of_floats(arguments: dict[str, Any]) -> bool:
    """Whether floats are wanted: coremltools makes these."""
    dtype = arguments["dtype"]
    return dtype is None or bool(dtype.is_floating_point)


def _is_summed(arguments: dict[str, Any]) -> bool:
    """Whether numbers are added in a type of floats, or in their own."""
    x, dtype = arguments["x"], arguments["dtype"]
    return not is_boolean(x) and (dtype is None or dtype.is_floating_point or is_integral(x))


def _is_averaged(arguments: dict[str, Any]) -> bool:
    x = arguments["x"]
    return arguments["dtype"] is None or not is_integral(x)


def _is_whole(arguments: dict[str, Any]) -> bool:
    """Whether a number to fill with is of floats, or has no fraction, or is not known before a run."""
    value = getattr(arguments["fill_value"], "val", arguments["fill_value"])
    kind = arguments["dtype"] or torch_type(arguments["x"])
    return value is None or kind.is_floating_point or bool(value == int(value))


def _is_gathered(arguments: dict[str, Any]) -> bool:
    """Whether coremltools gathers it: numbers, at as many places along the other axes as there are elements."""
    x, index = arguments["x"], arguments["index"]
    sizes = [
        (taken, there)
        for axis, (taken, there) in enumerate(zip(index.shape, x.shape, strict=False))
        if axis != arguments["dim"] % max(1, len(x.shape))
    ]
    return not is_boolean(x) and all(taken == there for taken, there in sizes if isinstance(taken, (int, np.integer)))


def _are_alike(arguments: dict[str, Any]) -> bool:
    x, other = arguments["x"], arguments["other"]
    return isinstance(x, Var) and isinstance(other, Var) and torch_type(x) == torch_type(other)


def _has_no_axes(arguments: dict[str, Any]) -> bool:
    return not any(getattr(arguments[end], "shape", ()) for end in ("start", "end"))


_OWN: Mapping[Function, Unless] = {
    attention.scaled_dot_product_attention: _is_additive,
    convolution.conv_transpose: _is_no_matter,
    convolution.convolution: _is_no_matter,
    elementwise.add: _is_unscaled,
    elementwise.sub: _is_unscaled,
    elementwise.rsub: _is_unscaled,
    elementwise.softplus: lambda arguments: bool(arguments["threshold"] >= 20),
    elementwise.prelu: _has_layer,
    elementwise.sqrt: _is_real,
    **dict.fromkeys(elementwise.OF_INTEGERS, _is_real),
    elementwise.masked_fill: _holds,
    grid_sampling.grid_sampler: _is_resampled,
    indexing.index_put: _is_unmixed,
    indexing.put_at_places: _is_taken,
    indexing.narrow: lambda arguments: bool(arguments["start"] >= 0),
    indexing.searchsorted: lambda arguments: len(arguments["boundaries"].shape) != 1,
    linear_systems.linalg_inv: _is_known,
    normalization.instance_norm: _has_own_statistics,
    pooling_padding_fold.constant_pad_nd: _pads_numbers,
    pooling_padding_fold.pad: _is_plain_padding,
    products_distances_determinants.linear: lambda arguments: len(arguments["weight"].shape) != 1,
    products_distances_determinants.outer: _is_of_one_type,
    **dict.fromkeys(reduction.INDEX_OF, lambda arguments: arguments["dim"] is not None),
    **dict.fromkeys((reduction.sum_of_all, reduction.sum_of_axes), _is_summed),
    **dict.fromkeys((reduction.mean_of_all, reduction.mean_of_axes), _is_averaged),
    reduction.cumsum: lambda arguments: bool(arguments["dim"] >= -1),
    shapes.linspace: _has_no_axes,
    shapes.roll: lambda arguments: bool(arguments["dims"]) and not is_boolean(arguments["x"]),
    shapes.gather: _is_gathered,
    **dict.fromkeys((shapes.eye, shapes.eye_of_rows), _is_of_floats),
    shapes.zeros_like: _is_alike,
    shapes.ones_like: _is_alike,
    shapes.full_like: lambda arguments: _is_alike(arguments) and _is_whole(arguments),
    shapes.new_full: _is_whole,
    shapes.fill: _is_known_number,
    shapes.where: _are_alike,
}

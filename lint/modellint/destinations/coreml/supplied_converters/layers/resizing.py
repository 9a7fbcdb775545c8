"""Interpolation: images resized, with a constant matrix for each axis.

A resize is linear, and each axis is resized by itself: PyTorch's own coefficients, read off the identity, make a constant matrix
for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.coreml.private.operator_tables import is_symbolic, mb
from modellint.destinations.coreml.supplied_converters.arguments import Unfit
from modellint.destinations.coreml.supplied_converters.registration import builds
from modellint.destinations.decompositions.table import within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _matrix(resize: Callable[..., Any], size: int, out: int, scale: float | None, rank: int, align: bool | None) -> Any:
    """Interpolation matrix from ``size`` elements to ``out``."""
    # Two of each other axis: of one, PyTorch cannot tell how the tensor lies in memory.
    others = [2] * (rank - 1)
    identity = torch.eye(size).reshape(1, size, size, *([1] * (rank - 1))).repeat(1, 1, 1, *others)
    aligned = () if align is None else (align,)
    rows = resize(identity, [out, *others], *aligned, scale, *([None] * (rank - 1)))
    return rows.reshape(size, out, -1)[..., 0].T.contiguous().numpy()


def _resized(
    name: str, x: Any, output_size: Sequence[int] | None, align: bool | None, scales: Sequence[float | None] | None
) -> Any:
    rank = len(x.shape) - 2
    sizes = x.shape[2:]
    if any(is_symbolic(size) for size in sizes):
        raise Unfit("a size is not known before a run")
    sizes = [int(size) for size in sizes]
    factors: list[float | None] = list(scales) if scales else [None] * rank
    if output_size:
        outs = [int(size) for size in output_size]
    else:
        outs = [math.floor(size * float(factor or 1)) for size, factor in zip(sizes, factors, strict=True)]
    resize = getattr(torch.ops.aten, name).default
    nearest = "nearest" in name
    for axis, (size, out, factor) in enumerate(zip(sizes, outs, factors, strict=True)):
        matrix = _matrix(resize, size, out, factor, rank, align)
        if nearest:
            x = mb.gather(x=x, indices=matrix.argmax(1).astype("int32"), axis=axis + 2)
        elif axis == rank - 1:
            x = mb.matmul(x=x, y=matrix, transpose_y=True)
        elif axis == rank - 2:
            x = mb.matmul(x=matrix, y=x)
        else:
            before = [int(size) for size in x.shape]
            x = mb.reshape(x=x, shape=[before[0], before[1], size, before[3] * before[4]])
            x = mb.reshape(x=mb.matmul(x=matrix, y=x), shape=[before[0], before[1], out, *before[3:]])
    return x


def _interpolating(name: str) -> Callable[..., Any]:
    def upsample(
        x: Tensor, output_size: list[int] | None, align_corners: bool, scale_factors: list[float] | None = None
    ) -> Any:
        """Interpolation along each axis, with a constant matrix for each."""
        return _resized(name, x, output_size, align_corners, scale_factors)

    return upsample


def _nearest(name: str) -> Callable[..., Any]:
    def upsample(x: Tensor, output_size: list[int] | None, scale_factors: list[float] | None = None) -> Any:
        """Nearest-neighbour interpolation along each axis."""
        return _resized(name, x, output_size, None, scale_factors)

    return upsample


def _by_scale(name: str) -> Callable[..., Any]:
    def upsample(x: Tensor, output_size: list[int] | None, scale_factors: list[float] | None = None) -> Any:
        """Nearest-neighbour interpolation by a factor, where coremltools reads the sizes alone, and these lead elsewhere."""
        factors = scale_factors or []
        is_own = not factors or any(
            is_symbolic(size) or factor is None for size, factor in zip(x.shape[2:], factors, strict=True)
        )
        if is_own or all(
            _reads_alike(int(size), float(factor)) for size, factor in zip(x.shape[2:], factors, strict=True)
        ):
            return NotImplemented
        return _resized(name, x, output_size, None, factors)

    return upsample


def _reads_alike(size: int, factor: float) -> bool:
    """Whether the places that a factor leads to are those that the sizes do."""
    out = math.floor(size * factor)
    matrix = _matrix(torch.ops.aten.upsample_nearest1d.default, size, out, factor, 1, None)
    return bool([at * size // out for at in range(out)] == matrix.argmax(1).tolist())


for _name in (
    "upsample_bicubic2d",
    "_upsample_bicubic2d_aa",
    # coremltools leaves the antialiasing out.
    "_upsample_bilinear2d_aa",
    "upsample_trilinear3d",
):
    builds(_name, ".vec", exactness=within(16))(_interpolating(_name))
for _name in (
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
):
    builds(_name, ".vec")(_nearest(_name))
for _name in ("upsample_nearest1d", "upsample_nearest2d"):
    builds(_name, ".vec")(_by_scale(_name))


@builds("upsample_nearest1d")
def upsample_nearest1d(x: Tensor, output_size: list[int], scales: float | None = None) -> Any:
    """Nearest-neighbour interpolation by a factor, as of an exported program."""
    return _by_scale("upsample_nearest1d")(x, output_size, None if scales is None else [scales])


@builds("upsample_nearest2d")
def upsample_nearest2d(
    x: Tensor, output_size: list[int], scales_h: float | None = None, scales_w: float | None = None
) -> Any:
    """Nearest-neighbour interpolation by two factors, as of an exported program."""
    return _by_scale("upsample_nearest2d")(x, output_size, None if scales_h is None else [scales_h, scales_w])


@builds("upsample_bicubic2d", exactness=within(16))
def upsample_bicubic2d(
    x: Tensor, output_size: list[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None
) -> Any:
    """Bicubic interpolation, with two constant matrices."""
    return _resized("upsample_bicubic2d", x, output_size, align_corners, [scales_h, scales_w])

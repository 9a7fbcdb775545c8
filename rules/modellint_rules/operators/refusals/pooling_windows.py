"""Windows of pooling: what rounding sizes up (``ceil_mode``) adds at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = {
    "avg": ("x", "kernel", "stride", "padding", "ceil", "counts", "divisor"),
    "max": ("x", "kernel", "stride", "padding", "dilation", "ceil"),
}


def arguments_of(kind: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a pooling by name; ``kind`` is ``avg`` or ``max``."""
    given = dict(zip(_NAMES[kind], arguments, strict=False))
    if kind == "avg":
        given |= {"counts": keywords.get("count_include_pad", given.get("counts", True))}
    return given


def ends_evenly(given: Mapping[str, Any], rank: int, sizes: Sequence[int]) -> bool:
    """Whether the last windows of a pooling end where its input and padding do, so that to round sizes up changes nothing."""
    return all(
        (count - 1) * step + (window - 1) * apart + 1 <= size + 2 * pad
        for count, step, window, apart, pad, size in _axes(given, rank, sizes)
    )


def drops_windows(given: Mapping[str, Any], rank: int, sizes: Sequence[int]) -> bool:
    """Whether PyTorch leaves out windows that would begin behind an input without padding."""
    return any(
        not pad and size <= count * step < size - (window - 1) * apart - 1 + step
        for count, step, window, apart, pad, size in _axes(given, rank, sizes)
    )


def _axes(given: Mapping[str, Any], rank: int, sizes: Sequence[int]) -> zip[tuple[int, int, int, int, int, int]]:
    """By axis the number of windows, their step and size, what lies between elements, padding, and the size of the input."""

    def of_each(value: Any) -> tuple[int, ...]:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        return values * rank if len(values) == 1 else values

    stride = of_each(given.get("stride") or given["kernel"])
    return zip(
        sizes[-rank:],
        stride,
        of_each(given["kernel"]),
        of_each(given.get("dilation", 1)),
        of_each(given.get("padding", 0)),
        given["x"].shape[-rank:],
        strict=True,
    )

"""Upstream issues about operators: converters that are requested, and those that are wrong."""

from __future__ import annotations

_ISSUES = {
    "_native_multi_head_attention": "2311",
    "_transformer_encoder_layer_fwd": "2311",
    "acosh": "2569",
    "add": "2573",
    "argmax": "pytorch/executorch#11715",
    "asinh": "2569",
    "inverse": "958",
    "linalg_inv": "958",
    "linalg_lstsq": "2084",
    "max_pool2d_with_indices": "2456",
    "max_unpool2d": "1507",
    "prelu": "2002",
    "sub": "2573",
    "unsafe_chunk": "1344",
    "upsample_bicubic2d": "1747",
    "upsample_trilinear3d": "1782",
}


def issue(operator: str) -> str | None:
    """The address of the issue about an operator, by its name without a namespace."""
    number = _ISSUES.get(operator)
    return None if number is None else address(number)


def address(cited: str) -> str:
    """The address of an issue of coremltools, cited by its number, or of another repository (``owner/name#1``)."""
    repository, _, number = cited.rpartition("#")
    return f"https://github.com/{repository or 'apple/coremltools'}/issues/{number}"

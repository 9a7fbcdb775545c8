"""Uses of PyTorch's API that coremltools refuses for a literal argument, measured with coremltools 9.0 and torch 2.13.

Tests convert every example.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.operator_table import VERSIONS
from modellint.source.operators import table_version
from modellint.source.project import External
from modellint.source.tensors import Tensor
from modellint.source.values import Const, Named, Value, alternatives
from modellint_rules.operators.issues import address

if TYPE_CHECKING:
    from modellint_rules.operators.apis import Use

_ABSENT = object()


class Literal(NamedTuple):
    """An argument, and which of its values are refused."""

    at: int
    keyword: str
    is_refused: Callable[[object], bool]
    default: object = _ABSENT
    """What counts where the argument is not given; without one it must be given."""
    form: str = "literal"
    """``literal``: the call spells its value out; ``name``: it is a name of torch's (``torch.int32``), and that is what counts;
    ``tensor``: it is a tensor, and nothing else counts."""


class Refusal(NamedTuple):
    """A use that does not convert."""

    names: tuple[str, ...]
    literals: tuple[Literal, ...]
    """All of them must be refused."""
    shown: str
    """The use as people write it."""
    kind: str
    """The operator that is captured, with ``{rank}`` for the number in the API's name; empty where the routes differ."""
    why: str
    trace: bool
    export: bool
    """Whether it converts from `torch.jit.trace`, and from `torch.export`, with core ATen decompositions if need be."""
    example: tuple[str, str, str]
    """The shapes of the inputs, the expression, and the layer that it calls."""
    issue: str | None = None
    """Of coremltools by its number, of others as they are cited."""
    lifted: str | None = None
    """The version that takes it."""
    words: frozenset[str] = frozenset()
    """One of them stands wherever this use does."""
    distinct: bool = True
    """Whether the words are seldom enough to look for them alone."""
    ios: int | None = None
    """The iOS for which it converts."""
    of_input: bool = False
    """Whether it is refused only where its tensor hangs on what the model is given."""

    @property
    def kinds(self) -> frozenset[str]:
        """The operators that are captured, of all its names."""
        return frozenset(self.kind.format(rank=name[-2:-1]) for name in self.names) - {""}

    @property
    def url(self) -> str | None:
        """The address of its issue."""
        return None if self.issue is None else address(self.issue)

    @property
    def advice(self) -> str | None:
        """What else would convert."""
        if self.ios is not None:
            return f"It converts for iOS {self.ios} and newer"
        if self.lifted is not None:
            return (
                "The next coremltools takes it"
                if self.lifted.startswith("main")
                else f"coremltools {self.lifted} takes it"
            )
        return None


def one_of(*values: object) -> Callable[[object], bool]:
    """Whether a value is one of these."""
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def other_than(*values: object) -> Callable[[object], bool]:
    """Whether a value is none of these, nor a tuple of nothing else."""
    return lambda value: (
        value not in values and not (isinstance(value, tuple) and all(part in values for part in value))
    )


def is_given(value: object) -> bool:
    """Whether there is a value at all."""
    return True


def is_type(name: object) -> bool:
    """Whether a name is that of a dtype."""
    return (
        isinstance(name, str)
        and re.fullmatch(r"torch\.(?:bool|b?float|u?int|half|double|long|short)\d*", name) is not None
    )


def has_negative(sizes: object) -> bool:
    """Whether one of several numbers is negative."""
    return isinstance(sizes, tuple | list) and any(isinstance(size, int) and size < 0 for size in sizes)


def is_implicit(equation: object) -> bool:
    """Whether an equation leaves out what its result is."""
    return isinstance(equation, str) and "->" not in equation


def has_ellipsis(equation: object) -> bool:
    """Whether an equation says `...`."""
    return isinstance(equation, str) and "..." in equation


def sums_alone(equation: object) -> bool:
    """Whether an equation sums all of one tensor."""
    if not isinstance(equation, str):
        return False
    operands, arrow, result = equation.replace(" ", "").partition("->")
    return bool(arrow) and not result and "," not in operands and "." not in operands


_F = "torch.nn.functional."
_PADS = "coremltools pads with constants, reflected or replicated values only"
_POOLS = tuple(f"{_F}max_pool{rank}d" for rank in (1, 2, 3))
_POOL_LAYERS = tuple(f"torch.nn.MaxPool{rank}d" for rank in (1, 2, 3))
_SORTS = ("torch.sort", "torch.Tensor.sort", "torch.argsort", "torch.Tensor.argsort")
_LINEAR = "coremltools has no such resampling"
_TYPES = frozenset(
    mark + name
    for mark in ".~"
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "short", "int", "long"),
        *("float16", "bfloat16", "float32", "float64", "half", "float", "double"),
    )
)


REFUSALS = (
    Refusal(
        (f"{_F}pad",),
        (Literal(2, "mode", one_of("circular")),),
        'F.pad(mode="circular")',
        "aten::pad",
        _PADS,
        trace=False,
        export=True,
        example=("2x3x4x4", 'F.pad(x, (1, 1, 1, 1), mode="circular")', ""),
        issue="pytorch/executorch#11710",
        words=frozenset({"circular"}),
    ),
    Refusal(
        tuple(f"torch.nn.Conv{rank}d" for rank in (1, 2, 3)),
        (Literal(8, "padding_mode", one_of("circular")),),
        'padding_mode="circular"',
        "aten::pad",
        _PADS,
        trace=False,
        export=True,
        example=("2x3x8x8", "self.layer(x)", 'nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")'),
        issue="pytorch/executorch#11703",
        words=frozenset({"circular"}),
    ),
    Refusal(
        tuple(f"torch.nn.CircularPad{rank}d" for rank in (1, 2, 3)),
        (),
        "nn.CircularPad",
        "aten::pad",
        _PADS,
        trace=False,
        export=True,
        example=("2x3x8x8", "self.layer(x)", "nn.CircularPad2d(1)"),
        issue="pytorch/executorch#11710",
        words=frozenset({"CircularPad1d", "CircularPad2d", "CircularPad3d"}),
    ),
    Refusal(
        (f"{_F}interpolate", f"{_F}upsample"),
        (Literal(3, "mode", one_of("bicubic")),),
        'F.interpolate(mode="bicubic")',
        "aten::upsample_bicubic2d",
        _LINEAR,
        trace=False,
        export=True,
        example=("2x3x4x4", 'F.interpolate(x, scale_factor=2, mode="bicubic")', ""),
        issue="1747",
        lifted="main-2026-08",
        words=frozenset({"bicubic"}),
    ),
    Refusal(
        ("torch.nn.Upsample",),
        (Literal(2, "mode", one_of("bicubic")),),
        'nn.Upsample(mode="bicubic")',
        "aten::upsample_bicubic2d",
        _LINEAR,
        trace=False,
        export=True,
        example=("2x3x4x4", "self.layer(x)", 'nn.Upsample(scale_factor=2, mode="bicubic")'),
        issue="1747",
        lifted="main-2026-08",
        words=frozenset({"bicubic"}),
    ),
    Refusal(
        (f"{_F}interpolate", f"{_F}upsample"),
        (Literal(3, "mode", one_of("trilinear")),),
        'F.interpolate(mode="trilinear")',
        "aten::upsample_trilinear3d",
        _LINEAR,
        trace=False,
        export=True,
        example=("1x2x4x4x4", 'F.interpolate(x, scale_factor=2, mode="trilinear")', ""),
        issue="1782",
        words=frozenset({"trilinear"}),
    ),
    Refusal(
        ("torch.nn.Upsample",),
        (Literal(2, "mode", one_of("trilinear")),),
        'nn.Upsample(mode="trilinear")',
        "aten::upsample_trilinear3d",
        _LINEAR,
        trace=False,
        export=True,
        example=("1x2x4x4x4", "self.layer(x)", 'nn.Upsample(scale_factor=2, mode="trilinear")'),
        issue="1782",
        words=frozenset({"trilinear"}),
    ),
    Refusal(
        (f"{_F}interpolate", f"{_F}upsample"),
        (Literal(3, "mode", one_of("nearest-exact")),),
        'F.interpolate(mode="nearest-exact")',
        "",
        _LINEAR,
        trace=False,
        export=True,
        example=("2x3x4x4", 'F.interpolate(x, scale_factor=2, mode="nearest-exact")', ""),
        words=frozenset({"exact"}),
    ),
    Refusal(
        ("torch.nn.Upsample",),
        (Literal(2, "mode", one_of("nearest-exact")),),
        'nn.Upsample(mode="nearest-exact")',
        "",
        _LINEAR,
        trace=False,
        export=True,
        example=("2x3x4x4", "self.layer(x)", 'nn.Upsample(scale_factor=2, mode="nearest-exact")'),
        words=frozenset({"exact"}),
    ),
    Refusal(
        (f"{_F}grid_sample",),
        (Literal(2, "mode", one_of("bicubic")),),
        'F.grid_sample(mode="bicubic")',
        "aten::grid_sampler",
        "coremltools samples with `bilinear` and `nearest` only",
        trace=False,
        export=False,
        example=("2x3x4x4 2x5x5x2", 'F.grid_sample(x, y, mode="bicubic", align_corners=True)', ""),
        words=frozenset({"bicubic"}),
    ),
    Refusal(
        _POOLS,
        (Literal(6, "return_indices", one_of(True)),),
        "F.max_pool(return_indices=True)",
        "aten::max_pool{rank}d_with_indices",
        "coremltools computes no indices",
        trace=False,
        export=True,
        example=("2x3x8x8", "F.max_pool2d(x, 2, 2, return_indices=True)[0]", ""),
        issue="2456",
        words=frozenset({"return_indices"}),
    ),
    Refusal(
        _POOL_LAYERS,
        (Literal(4, "return_indices", one_of(True)),),
        "nn.MaxPool(return_indices=True)",
        "aten::max_pool{rank}d_with_indices",
        "coremltools computes no indices",
        trace=False,
        export=True,
        example=("2x3x8x8", "self.layer(x)[0]", "nn.MaxPool2d(2, return_indices=True)"),
        issue="2456",
        words=frozenset({"return_indices"}),
    ),
    Refusal(
        _POOLS,
        (Literal(4, "dilation", other_than(1)),),
        "F.max_pool(dilation=…)",
        "aten::max_pool{rank}d",
        "coremltools pools without dilation",
        trace=False,
        export=False,
        example=("2x3x8x8", "F.max_pool2d(x, 2, dilation=2)", ""),
        issue="1665",
        words=frozenset({"max_pool1d", "max_pool2d", "max_pool3d"}),
        distinct=False,
    ),
    Refusal(
        _POOL_LAYERS,
        (Literal(3, "dilation", other_than(1)),),
        "nn.MaxPool(dilation=…)",
        "aten::max_pool{rank}d",
        "coremltools pools without dilation",
        trace=False,
        export=False,
        example=("2x3x8x8", "self.layer(x)", "nn.MaxPool2d(2, dilation=2)"),
        issue="1665",
        words=frozenset({"MaxPool1d", "MaxPool2d", "MaxPool3d"}),
        distinct=False,
    ),
    Refusal(
        (f"{_F}avg_pool2d", f"{_F}avg_pool3d"),
        (Literal(6, "divisor_override", other_than(None)),),
        "F.avg_pool(divisor_override=…)",
        "aten::avg_pool{rank}d",
        "coremltools divides by the number of elements only",
        trace=False,
        export=False,
        example=("2x3x8x8", "F.avg_pool2d(x, 2, divisor_override=3)", ""),
        issue="2745",
        words=frozenset({"divisor_override"}),
    ),
    Refusal(
        ("torch.nn.AvgPool2d", "torch.nn.AvgPool3d"),
        (Literal(5, "divisor_override", other_than(None)),),
        "nn.AvgPool(divisor_override=…)",
        "aten::avg_pool{rank}d",
        "coremltools divides by the number of elements only",
        trace=False,
        export=False,
        example=("2x3x8x8", "self.layer(x)", "nn.AvgPool2d(2, divisor_override=3)"),
        issue="2745",
        words=frozenset({"divisor_override"}),
    ),
    Refusal(
        tuple(f"torch.nn.ConvTranspose{rank}d" for rank in (1, 2, 3)),
        (
            Literal(5, "output_padding", other_than(0)),
            Literal(4, "padding", lambda value: not other_than(0)(value), default=0),
        ),
        "output_padding=… without padding",
        "",
        "coremltools' converter crashes on an output padding without a padding",
        trace=False,
        export=False,
        example=("2x3x8x8", "self.layer(x)", "nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1)"),
        words=frozenset({"output_padding"}),
    ),
    Refusal(
        ("torch.nn.ConvTranspose3d",),
        (Literal(5, "output_padding", other_than(0)),),
        "nn.ConvTranspose3d(output_padding=…)",
        "",
        "coremltools takes an output padding in one and two dimensions only",
        trace=False,
        export=False,
        example=("1x2x4x4x4", "self.layer(x)", "nn.ConvTranspose3d(2, 3, 3, stride=2, padding=1, output_padding=1)"),
        words=frozenset({"output_padding"}),
    ),
    Refusal(
        ("torch.nn.LSTM",),
        (Literal(99, "proj_size", other_than(0)),),
        "nn.LSTM(proj_size=…)",
        "aten::lstm",
        "coremltools has no projections",
        trace=False,
        export=True,
        example=("5x2x3", "self.layer(x)[0]", "nn.LSTM(3, 4, proj_size=2)"),
        words=frozenset({"proj_size"}),
    ),
    Refusal(
        ("torch.nn.RNN",),
        (Literal(99, "bidirectional", one_of(True)),),
        "nn.RNN(bidirectional=True)",
        "",
        "coremltools reads a simple RNN in one direction only",
        trace=False,
        export=True,
        example=("5x2x3", "self.layer(x)[0]", "nn.RNN(3, 4, bidirectional=True)"),
        words=frozenset({"RNN"}),
    ),
    Refusal(
        ("torch.einsum",),
        (Literal(0, "equation", is_implicit),),
        "torch.einsum without ->",
        "aten::einsum",
        "coremltools reads equations that say what the result is",
        trace=False,
        export=True,
        example=("2x3 3x4", 'torch.einsum("ij,jk", x, y)', ""),
        issue="1359",
        words=frozenset({"einsum"}),
    ),
    Refusal(
        ("torch.einsum",),
        (Literal(0, "equation", has_ellipsis),),
        "torch.einsum with ...",
        "aten::einsum",
        "coremltools takes each dot for an index",
        trace=False,
        export=True,
        example=("2x3x4 2x4x5", 'torch.einsum("...ij,...jk->...ik", x, y)', ""),
        issue="2644",
        lifted="main-2026-08",
        words=frozenset({"einsum"}),
    ),
    Refusal(
        ("torch.einsum",),
        (Literal(0, "equation", sums_alone),),
        "torch.einsum of one tensor to a number",
        "aten::einsum",
        "coremltools makes a transposition without dimensions of it",
        trace=False,
        export=True,
        example=("2x3", 'torch.einsum("ij->", x)', ""),
        words=frozenset({"einsum"}),
    ),
    Refusal(
        _SORTS[:2],
        (Literal(99, "stable", is_given),),
        "sort(stable=…)",
        "aten::sort",
        "coremltools knows sorting without that argument",
        trace=False,
        export=False,
        example=("2x5", "torch.sort(x, dim=1, stable=True)[0]", ""),
        words=frozenset({"stable"}),
    ),
    Refusal(
        _SORTS[2:],
        (Literal(99, "stable", is_given),),
        "argsort(stable=…)",
        "aten::argsort",
        "coremltools knows sorting without that argument",
        trace=False,
        export=False,
        example=("2x5", "torch.argsort(x, dim=1, stable=True)", ""),
        words=frozenset({"stable"}),
    ),
    Refusal(
        ("torch.norm", "torch.Tensor.norm"),
        (Literal(1, "p", one_of("nuc")),),
        'norm(p="nuc")',
        "aten::linalg_matrix_norm",
        "coremltools has no singular values",
        trace=False,
        export=False,
        example=("3x4", 'torch.norm(x, p="nuc")', ""),
        words=frozenset({"nuc"}),
    ),
    Refusal(
        ("torch.linalg.norm", "torch.linalg.matrix_norm"),
        (Literal(1, "ord", one_of("nuc")),),
        'torch.linalg.norm(ord="nuc")',
        "aten::linalg_matrix_norm",
        "coremltools has no singular values",
        trace=False,
        export=False,
        example=("3x4", 'torch.linalg.matrix_norm(x, ord="nuc")', ""),
        words=frozenset({"nuc"}),
    ),
    Refusal(
        ("torch.linalg.matrix_norm",),
        (Literal(1, "ord", one_of(2, -2, 2.0, -2.0)),),
        "torch.linalg.matrix_norm(ord=2)",
        "aten::linalg_matrix_norm",
        "coremltools has no singular values",
        trace=False,
        export=False,
        example=("3x4", "torch.linalg.matrix_norm(x, ord=2)", ""),
        words=frozenset({"matrix_norm"}),
    ),
    Refusal(
        (f"{_F}scaled_dot_product_attention",),
        (Literal(4, "dropout_p", other_than(0)),),
        "F.scaled_dot_product_attention(dropout_p=…)",
        "aten::scaled_dot_product_attention",
        "coremltools has no dropout",
        trace=False,
        export=True,
        example=("2x2x5x4 2x2x5x4 2x2x5x4", "F.scaled_dot_product_attention(x, y, z, dropout_p=0.5)", ""),
        words=frozenset({"dropout_p"}),
    ),
    Refusal(
        (f"{_F}scaled_dot_product_attention",),
        (Literal(99, "enable_gqa", one_of(True)),),
        "F.scaled_dot_product_attention(enable_gqa=True)",
        "aten::scaled_dot_product_attention",
        "coremltools wants as many heads of keys as of queries",
        trace=False,
        export=True,
        example=("2x4x5x4 2x2x5x4 2x2x5x4", "F.scaled_dot_product_attention(x, y, z, enable_gqa=True)", ""),
        words=frozenset({"enable_gqa"}),
    ),
    Refusal(
        ("torch.nn.Embedding",),
        (Literal(3, "max_norm", other_than(None)),),
        "nn.Embedding(max_norm=…)",
        "",
        "coremltools has no converter for what rescales the table",
        trace=False,
        export=False,
        example=("2x3i", "self.layer(x)", "nn.Embedding(5, 4, max_norm=1.0)"),
        words=frozenset({"max_norm"}),
    ),
    Refusal(
        (f"{_F}fold",),
        (Literal(3, "dilation", other_than(1)),),
        "F.fold(dilation=…)",
        "aten::col2im",
        "coremltools folds without dilation",
        trace=False,
        export=False,
        example=("2x12x16", "F.fold(x, (6, 6), 2, dilation=2)", ""),
        words=frozenset({"fold"}),
    ),
    Refusal(
        (f"{_F}fold",),
        (
            Literal(2, "kernel_size", other_than(1)),
            Literal(5, "stride", lambda value: not other_than(1)(value), default=1),
        ),
        "F.fold of blocks that overlap",
        "aten::col2im",
        "coremltools folds blocks that do not overlap",
        trace=False,
        export=False,
        example=("2x12x25", "F.fold(x, (6, 6), 2)", ""),
        words=frozenset({"fold"}),
    ),
    Refusal(
        ("torch.nn.Fold",),
        (
            Literal(1, "kernel_size", other_than(1)),
            Literal(4, "stride", lambda value: not other_than(1)(value), default=1),
        ),
        "nn.Fold of blocks that overlap",
        "aten::col2im",
        "coremltools folds blocks that do not overlap",
        trace=False,
        export=False,
        example=("2x12x25", "self.layer(x)", "nn.Fold((6, 6), 2)"),
        words=frozenset({"Fold"}),
    ),
    Refusal(
        (f"{_F}one_hot",),
        (Literal(1, "num_classes", one_of(-1), default=-1),),
        "F.one_hot without num_classes",
        "aten::one_hot",
        "the number of classes would hang on the values",
        trace=False,
        export=False,
        example=("2x3i", "F.one_hot(x).float()", ""),
        words=frozenset({"one_hot"}),
    ),
    Refusal(
        ("torch.unique", "torch.Tensor.unique"),
        (Literal(99, "dim", other_than(None)),),
        "unique(dim=…)",
        "aten::unique_dim",
        "coremltools has no converter for it",
        trace=False,
        export=False,
        example=("3x4", "torch.unique(x, dim=0)", ""),
        words=frozenset({"unique"}),
    ),
    Refusal(
        (f"{_F}pad",),
        (Literal(1, "pad", has_negative), Literal(2, "mode", one_of("constant"), default="constant")),
        "F.pad with negative sizes",
        "aten::pad",
        "coremltools pads, and does not crop",
        trace=False,
        export=False,
        example=("2x3x8x8", "F.pad(x, (-1, -1))", ""),
        words=frozenset({"pad"}),
    ),
    Refusal(
        ("torch.multinomial", "torch.Tensor.multinomial"),
        (Literal(1, "num_samples", other_than(1)), Literal(2, "replacement", one_of(False), default=False)),
        "multinomial without replacement",
        "aten::multinomial",
        "coremltools draws more than one sample with replacement only",
        trace=False,
        export=False,
        example=("2x3", "torch.multinomial(x, 2)", ""),
        words=frozenset({"multinomial"}),
    ),
    Refusal(
        ("torch.multinomial", "torch.Tensor.multinomial"),
        (),
        "torch.multinomial",
        "aten::multinomial",
        "coremltools does not find its arguments",
        trace=True,
        export=False,
        example=("2x3", "torch.multinomial(x, 2, replacement=True)", ""),
        words=frozenset({"multinomial"}),
    ),
    Refusal(
        ("torch.linalg.inv", "torch.inverse", "torch.Tensor.inverse"),
        (),
        "torch.linalg.inv of what the model computes",
        "",
        "coremltools inverts constants only",
        trace=False,
        export=False,
        example=("3x3", "torch.linalg.inv(x + torch.eye(3))", ""),
        issue="958",
        words=frozenset({"inv", "inverse"}),
        of_input=True,
    ),
    Refusal(
        ("torch.fft.fft", "torch.fft.rfft", "torch.fft.irfft", "torch.fft.ifft"),
        (Literal(3, "norm", one_of(None), default=None),),
        "torch.fft without norm",
        "",
        "coremltools wants the arguments that an export leaves out",
        trace=True,
        export=False,
        example=("8", "torch.fft.fft(x).real", ""),
        words=frozenset({"fft", "rfft", "irfft", "ifft"}),
    ),
    Refusal(
        tuple(f"torch.nn.FractionalMaxPool{rank}d" for rank in (2, 3)),
        (),
        "nn.FractionalMaxPool",
        "aten::fractional_max_pool{rank}d",
        "coremltools has no converter for it",
        trace=False,
        export=False,
        example=("2x3x8x8", "self.layer(x)", "nn.FractionalMaxPool2d(2, output_size=4)"),
        words=frozenset({"FractionalMaxPool2d", "FractionalMaxPool3d"}),
    ),
    Refusal(
        ("torch.polygamma", "torch.special.polygamma"),
        (),
        "torch.polygamma",
        "aten::polygamma",
        "coremltools has no converter for it",
        trace=False,
        export=False,
        example=("2x3", "torch.polygamma(1, x)", ""),
        words=frozenset({"polygamma"}),
    ),
    Refusal(
        ("torch.unique", "torch.Tensor.unique"),
        (Literal(99, "dim", one_of(None), default=None),),
        "torch.unique",
        "",
        "coremltools wants the arguments that an export leaves out",
        trace=True,
        export=False,
        example=("6", "torch.unique(x)", ""),
        words=frozenset({"unique"}),
    ),
    Refusal(
        (f"{_F}pad",),
        (Literal(1, "pad", has_negative), Literal(2, "mode", one_of("reflect", "replicate"))),
        "F.pad with negative sizes",
        "aten::pad",
        "coremltools pads, and does not crop",
        trace=False,
        export=True,
        example=("2x3x8", 'F.pad(x, (-1, 1), mode="reflect")', ""),
        words=frozenset({"pad"}),
    ),
    Refusal(
        ("torch.topk", "torch.Tensor.topk"),
        (Literal(4, "sorted", one_of(False)),),
        "topk(sorted=False)",
        "aten::topk",
        "coremltools always sorts before iOS 17",
        trace=False,
        export=False,
        example=("2x5", "torch.topk(x, 2, sorted=False)[0]", ""),
        words=frozenset({"topk"}),
        ios=17,
    ),
    Refusal(
        ("torch.repeat_interleave", "torch.Tensor.repeat_interleave"),
        (Literal(1, "repeats", is_given, form="tensor"),),
        "repeat_interleave with a tensor of repeats",
        "aten::repeat_interleave",
        "the size would hang on the values",
        trace=False,
        export=False,
        example=("2x3", "torch.repeat_interleave(x, torch.tensor([1, 2, 1]), dim=1)", ""),
        words=frozenset({"repeat_interleave"}),
    ),
    Refusal(
        ("torch.Tensor.view",),
        (Literal(1, "dtype", is_type, form="name"),),
        "Tensor.view(dtype)",
        "aten::view",
        "coremltools does not read memory as another type",
        trace=False,
        export=False,
        example=("2x4", "x.view(torch.int32).float()", ""),
        words=_TYPES,
    ),
    Refusal(
        ("torch.Tensor.bfloat16",),
        (),
        "Tensor.bfloat16()",
        "",
        "coremltools has no bfloat16",
        trace=False,
        export=False,
        example=("2x3", "(x.bfloat16() * 2).float()", ""),
        words=frozenset({".bfloat16"}),
    ),
    Refusal(
        ("torch.Tensor.to", "torch.Tensor.type"),
        (Literal(1, "dtype", one_of("torch.bfloat16"), form="name"),),
        "Tensor.to(torch.bfloat16)",
        "",
        "coremltools has no bfloat16",
        trace=False,
        export=False,
        example=("2x3", "x.to(torch.bfloat16).float()", ""),
        words=frozenset({".bfloat16", "~bfloat16"}),
    ),
    Refusal(
        ("torch.Tensor.to", "torch.Tensor.type"),
        (
            Literal(
                1, "dtype", one_of("torch.complex64", "torch.complex128", "torch.cfloat", "torch.cdouble"), form="name"
            ),
        ),
        "Tensor.to(torch.complex64)",
        "",
        "coremltools casts to real types only",
        trace=False,
        export=False,
        example=("2x3", "x.to(torch.complex64).real", ""),
        words=frozenset(f"{mark}{name}" for mark in ".~" for name in ("complex64", "complex128", "cfloat", "cdouble")),
    ),
    Refusal(
        ("torch.stft", "torch.Tensor.stft"),
        (Literal(8, "return_complex", one_of(False)),),
        "torch.stft(return_complex=False)",
        "aten::stft",
        "coremltools gives complex numbers only",
        trace=False,
        export=False,
        example=("64", "torch.stft(x, 16, window=torch.ones(16), return_complex=False)[..., 0]", ""),
        words=frozenset({"return_complex"}),
    ),
    Refusal(
        ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence"),
        (),
        "a packed sequence",
        "",
        "its sizes hang on the values",
        trace=True,
        export=False,
        example=("2x3x4", "nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True).data", ""),
        words=frozenset({"pack_padded_sequence", "pack_sequence"}),
    ),
    Refusal(
        ("torch.round", "torch.Tensor.round"),
        (Literal(99, "decimals", other_than(0)),),
        "round(decimals=…)",
        "aten::round",
        "coremltools rounds to whole numbers only",
        trace=False,
        export=False,
        example=("2x3", "torch.round(x, decimals=2)", ""),
        words=frozenset({"decimals"}),
    ),
    Refusal(
        ("torch.roll", "torch.Tensor.roll"),
        (Literal(2, "dims", one_of(None), default=None),),
        "torch.roll without dims",
        "aten::roll",
        "coremltools wants the arguments that an export leaves out",
        trace=True,
        export=False,
        example=("2x3", "torch.roll(x, 1)", ""),
        words=frozenset({"roll"}),
    ),
    Refusal(
        (f"{_F}embedding",),
        (Literal(3, "max_norm", other_than(None)),),
        "F.embedding(max_norm=…)",
        "aten::embedding_renorm",
        "coremltools has no converter for what rescales the table",
        trace=False,
        export=False,
        example=("2x3i", "F.embedding(x, torch.ones(5, 4), max_norm=1.0)", ""),
        words=frozenset({"max_norm"}),
    ),
)
"""Each with the words without which it cannot stand, since rules are woken by words."""


def refusal(use: Use, version: str | None, ios: int = 15) -> Refusal | None:
    """Why coremltools refuses a use for the iOS of a year, where it certainly does."""
    at = table_version(version)
    for one in _by_name().get(_public(use.name), ()):
        lifted = (one.lifted is not None and at >= VERSIONS.index(one.lifted)) or (
            one.ios is not None and ios >= one.ios
        )
        if not lifted and _holds(one, use):
            return one._replace(kind=one.kind.format(rank=use.name[-2:-1]))
    return None


@cache
def words(version: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """Sets of words of each of which code holds one where it holds a use that is refused."""
    distinct = frozenset().union(*(one.words for one in REFUSALS if one.distinct))
    others = [one for one in REFUSALS if not one.distinct]
    keywords = frozenset(literal.keyword for one in others for literal in one.literals)
    return distinct.union(*(one.words for one in others)), distinct | keywords


@cache
def _by_name() -> dict[str, tuple[Refusal, ...]]:
    found: dict[str, tuple[Refusal, ...]] = {}
    for one in REFUSALS:
        for name in one.names:
            found[name] = (*found.get(name, ()), one)
    return found


def _public(name: str) -> str:
    from modellint.source.operators import public_name

    return public_name(name)


def _holds(one: Refusal, use: Use) -> bool:
    arguments = use.arguments
    if arguments.spread or None in arguments.keywords or (one.of_input and not _hangs_on_input(use)):
        return False
    # A tensor's method has its tensor before the dot.
    shift = int(use.name.startswith("torch.Tensor."))
    for literal in one.literals:
        value = arguments.get(literal.at - shift, literal.keyword)
        if value is None:
            found = literal.default
        elif literal.form == "literal":
            found = _literal(value, use.node, literal, shift)
        else:
            found = _name(value) if literal.form == "name" else _tensor(value)
        if found is _ABSENT or not literal.is_refused(found):
            return False
    return True


def _hangs_on_input(use: Use) -> bool:
    """Whether the tensor that is used is computed from what the caller of `forward` gives."""
    given = use.receiver or use.arguments.get(0, "A") or use.arguments.get(0, "input")
    parts = alternatives(given) if given is not None else ()
    return bool(parts) and all(isinstance(part, Tensor) and part.batch is not None for part in parts)


def _name(value: Value) -> object:
    """The name of torch's that an argument is."""
    match value:
        case Named(symbol=External(name=name)):
            return name
    return _ABSENT


def _tensor(value: Value) -> object:
    """Something where an argument certainly is a tensor."""
    parts = alternatives(value)
    return True if all(isinstance(part, Tensor) and part.certain for part in parts) else _ABSENT


def _literal(value: Value, call: ast.Call, literal: Literal, shift: int) -> object:
    """The value of an argument that the call itself spells out."""
    at = literal.at - shift
    nodes = (
        [call.args[at]] if at < len(call.args) else [one.value for one in call.keywords if one.arg == literal.keyword]
    )
    try:
        written = ast.literal_eval(nodes[0])
    except (ValueError, TypeError, IndexError):
        return _ABSENT
    return written if not isinstance(value, Const) or value.value == written else _ABSENT

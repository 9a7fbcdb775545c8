"""Example inputs by specification: what ``--input`` says, and the tensors that it stands for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from modellint.live.inputs.model_inputs import Inputs

FLOATS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
INTEGERS = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1}
COMPLEX = {"complex64": 8, "complex128": 16}
SIZES = {**FLOATS, **INTEGERS, **COMPLEX, "bool": 1}
"""Types of input to the bytes that an element takes."""

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")

_ALIASES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
_FORM = re.compile(r"(?P<shape>[^:\[]+)(?::(?P<dtype>[^\[]*)(?P<range>\[.*)?)?\Z", re.DOTALL)
_RANGE = re.compile(r"\[\s*(-?[\d.e+-]+)\s*,\s*(-?[\d.e+-]+)\s*\)\Z", re.IGNORECASE)
_NAME = re.compile(r"(?P<name>[^\W\d]\w*)=(?P<rest>.*)\Z", re.DOTALL)
_DIMENSION = re.compile(r"(?P<low>\d+)(?:\.\.(?P<high>\d+))?\Z")
_LISTED = re.compile(r"\d+(?:/\d+)+\Z")
MOST_LISTED = 128
"""Shapes that Core ML takes of one input, by coremltools' guide to enumerated shapes."""


class InputError(Exception):
    """An input that cannot be understood or made; the message quotes it and says what is wrong."""


class Dimension(NamedTuple):
    """One dimension; ``high`` is above ``low`` where it is flexible, both ends included."""

    low: int
    high: int
    listed: tuple[int, ...] = ()
    """The sizes that it takes, where these are listed; the first is that of examples."""

    @property
    def size(self) -> int:
        """The size that examples have: the first that is listed, or the lowest, though not 0."""
        if self.listed:
            return self.listed[0]
        return max(self.low, min(self.high, 1))


class InputSpec(NamedTuple):
    """One ``--input``: a shape to fill with numbers, an image to decode, or a file of tensors."""

    text: str
    name: str | None
    shape: tuple[Dimension, ...] = ()
    dtype: str = "float32"
    range: tuple[float, float] | None = None
    """Of values, the end excluded; None for a normal distribution, or 0 and 1 for integers."""
    file: Path | None = None
    """Of tensors, or, where there is a shape, of an image."""

    @property
    def size(self) -> int:
        """The bytes of memory it takes."""
        return math.prod(dimension.size for dimension in self.shape) * SIZES[self.dtype]


def parse(text: str, folder: Path) -> InputSpec:
    """What one ``--input`` says; files are relative to ``folder``, and must exist. Raises ``InputError``."""
    named = _NAME.match(text)
    name, rest = (named["name"], named["rest"]) if named else (None, text)
    if not rest:
        raise _wrong(text, "nothing stands behind the =")
    if rest.startswith("@"):
        return InputSpec(text, name, file=_existing(text, folder / rest[1:]))
    file, rest = _image(text, rest, folder)
    form = _FORM.match(rest)
    if form is None:
        raise _wrong(text, f"{rest!r} is no shape, such as 1x3x224x224, and no @FILE")
    dtype = _dtype(text, form["dtype"])
    shape = tuple(_dimension(text, part) for part in form["shape"].split("x"))
    _check_listed(text, [dimension for dimension in shape if dimension.low < dimension.high])
    if file is not None:
        _check_image(text, shape, dtype)
    spec = InputSpec(text, name, shape, dtype, _range(text, dtype, form["range"]), file)
    if max((spec.size, *(dimension.high for dimension in shape))) >= 2**63:
        raise _wrong(text, "no tensor is as large as that")
    return spec


def parse_all(texts: Iterable[str], folder: Path) -> tuple[InputSpec, ...]:
    """What several say. Raises ``InputError``, also for a name that is given twice."""
    specs = tuple(parse(text, folder) for text in texts)
    names = [spec.name for spec in specs if spec.name is not None]
    for spec in specs:
        if spec.name is not None and names.count(spec.name) > 1:
            raise _wrong(spec.text, f"the input {spec.name!r} is given twice")
    lists = {len(size.listed): spec.text for spec in specs for size in spec.shape if size.listed}
    if len(lists) > 1:
        raise _wrong(
            [*lists.values()][-1], "other inputs list another number of sizes: the first of each go together, and so on"
        )
    return specs


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"--input {text}: {why}")


def _existing(text: str, path: Path) -> Path:
    if not path.is_file():
        raise _wrong(text, f"no such file: {path}")
    return path.absolute()


def _image(text: str, rest: str, folder: Path) -> tuple[Path | None, str]:
    """The file of an image, and the shape behind it."""
    match = re.match(
        rf"(?P<file>.+({'|'.join(map(re.escape, IMAGES))}))(?::(?P<shape>.*))?\Z", rest, re.IGNORECASE | re.DOTALL
    )
    if match is None:
        return None, rest
    if not match["shape"]:
        raise _wrong(text, "an image needs the shape it is to have, as in photo.png:1x3x224x224")
    return _existing(text, folder / match["file"]), match["shape"]


def _check_image(text: str, shape: Sequence[Dimension], dtype: str) -> None:
    if len(shape) not in (3, 4) or shape[-3].low not in (1, 3, 4):
        raise _wrong(
            text,
            "an image has the shape channels x height x width, with a batch before it or not, and 1, 3 or 4 channels",
        )
    if dtype not in FLOATS:
        raise _wrong(text, f"an image is scaled to 0..1, which {dtype} cannot hold")


def _check_listed(text: str, varying: Sequence[Dimension]) -> None:
    """Refuse lists of several lengths, and lists beside ranges: Core ML has one or the other of an input."""
    lengths = {len(dimension.listed) for dimension in varying}
    if len(lengths) > 1 and 0 in lengths:
        raise _wrong(text, "the sizes of an input are listed, as in 16/64, or a range, as in 16..64: not both")
    if len(lengths) > 1:
        raise _wrong(text, "its dimensions list different numbers of sizes: the first of each go together, and so on")
    if max(lengths, default=0) > MOST_LISTED:
        raise _wrong(text, f"Core ML takes at most {MOST_LISTED} listed shapes: give a range, as in 16..64")


def _listed(text: str, part: str) -> Dimension:
    sizes = tuple(int(word) for word in part.split("/"))
    if len({*sizes}) < 2 or min(sizes) < 1:
        raise _wrong(text, f"the listed sizes {part} must be at least two different ones, none of them 0")
    return Dimension(min(sizes), max(sizes), sizes)


def _dimension(text: str, part: str) -> Dimension:
    if _LISTED.match(part.strip()):
        return _listed(text, part.strip())
    match = _DIMENSION.match(part.strip())
    if match is None:
        raise _wrong(
            text,
            f"{part!r} is no dimension; a shape is written as 1x3x224x224, a flexible dimension as 1..8, listed sizes as 16/64",
        )
    low = int(match["low"])
    high = low if match["high"] is None else int(match["high"])
    if high < low or (match["high"] is not None and high == low):
        raise _wrong(text, f"the flexible dimension {part} must end above its beginning")
    return Dimension(low, high)


def _dtype(text: str, written: str | None) -> str:
    if written is None:
        return "float32"
    dtype = _ALIASES.get(written, written).removeprefix("torch.")
    if dtype not in SIZES:
        near = get_close_matches(written, SIZES, 1, 0.4)
        raise _wrong(
            text,
            f"unknown type {written!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(SIZES)}"),
        )
    return dtype


def _range(text: str, dtype: str, written: str | None) -> tuple[float, float] | None:
    if written is None:
        return None
    match = _RANGE.match(written)
    try:
        low, high = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    except ValueError:
        match = None
    if match is None:
        raise _wrong(
            text, f"the range {written!r} is not written as [0,1000), from the lowest value to below the highest"
        )
    if dtype in INTEGERS:
        if not (low.is_integer() and high.is_integer()):
            raise _wrong(text, f"the range {written} of {dtype} must have whole ends")
        bits = SIZES[dtype] * 8
        least, most = (0, 2**bits) if dtype == "uint8" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if low < least or high > most:
            raise _wrong(text, f"the range {written} is wider than {dtype}, which holds {least} to {most - 1}")
    elif dtype not in FLOATS:
        raise _wrong(text, f"{dtype} takes no range")
    if not low < high:
        raise _wrong(text, f"the range {written} is empty")
    return low, high


def total(specs: Iterable[InputSpec]) -> int:
    """The bytes of memory that the drawn inputs take together."""
    return sum(spec.size for spec in specs if spec.shape)


def flexible(specs: Sequence[InputSpec]) -> dict[str | int, dict[int, tuple[int, int]]]:
    """For each input with flexible dimensions its name, or its position, to their bounds, both ends included, or listed sizes."""
    from modellint.live.inputs.model_inputs import Listed

    limits: dict[str | int, dict[int, tuple[int, int]]] = {}
    position = 0
    for spec in specs:
        key = spec.name
        if key is None:
            key, position = str(position), position + 1
        bounds = {
            at: Listed(size.listed) if size.listed else (size.low, size.high)
            for at, size in enumerate(spec.shape)
            if size.low < size.high
        }
        if bounds:
            limits[key] = bounds
    return limits


def build(specs: Sequence[InputSpec], seed: int, device: str = "cpu") -> Inputs:
    """The inputs, positional ones in their order and named ones by name. Raises ``InputError``.

    Values are drawn on the CPU, the same for the same seed whatever else is drawn; on ``meta`` there are none.
    """
    from modellint.live.inputs.model_inputs import Inputs

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for at, spec in enumerate(specs):
        value = _loaded(spec) if spec.file is not None and not spec.shape else _tensor(spec, seed + at, device)
        value = moved(value, device)
        if spec.name is not None:
            kwargs[spec.name] = value
        elif spec.shape or not isinstance(value, (tuple, list, dict)):
            args.append(value)
        elif isinstance(value, dict):
            clash = next((key for key in value if not isinstance(key, str) or key in kwargs), None)
            if clash is not None:
                raise _wrong(spec.text, f"its key {clash!r} cannot be the name of an argument, or is given twice")
            kwargs.update(value)
        else:
            args.extend(value)
    return Inputs(tuple(args), kwargs, flexible(specs))


def moved(value: Any, device: str) -> Any:
    """The same tensors on another device, in whatever they are nested."""
    import torch
    from torch.utils import _pytree

    def move(leaf: Any) -> Any:
        return leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf

    return _pytree.tree_map(move, value)


def _loaded(spec: InputSpec) -> Any:
    import torch

    assert spec.file is not None
    try:
        return torch.load(spec.file, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise _wrong(spec.text, f"cannot be loaded with weights_only=True: {type(error).__name__}: {reason}") from None


def _tensor(spec: InputSpec, seed: int, device: str) -> torch.Tensor:
    import torch

    dtype = getattr(torch, spec.dtype)
    shape = tuple(dimension.size for dimension in spec.shape)
    if spec.file is not None:
        return _decoded(spec, shape).to(dtype)
    if device == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    draw = torch.Generator().manual_seed(seed)
    if spec.dtype == "bool":
        return torch.randint(0, 2, shape, generator=draw).to(dtype)
    if spec.dtype in INTEGERS:
        low, high = spec.range or (0, 2)
        return torch.randint(int(low), int(min(high, 2**63 - 1)), shape, generator=draw, dtype=torch.int64).to(dtype)
    if spec.range is not None:
        low, high = spec.range
        return (torch.rand(shape, generator=draw, dtype=torch.float64) * (high - low) + low).to(dtype)
    wide = dtype if spec.dtype in ("float64", *COMPLEX) else torch.float32
    return torch.randn(shape, generator=draw, dtype=wide).to(dtype)


def _decoded(spec: InputSpec, shape: Sequence[int]) -> torch.Tensor:
    import torch

    assert spec.file is not None
    try:
        from PIL import Image
    except ImportError:
        raise _wrong(spec.text, "decoding an image needs Pillow: pip install pillow") from None
    channels, height, width = shape[-3:]
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    try:
        with Image.open(spec.file) as opened:
            image = opened.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _wrong(spec.text, f"cannot be decoded: {error}") from None
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(height, width, channels)
    return pixels.permute(2, 0, 1).to(torch.float32).div(255).expand(*shape).contiguous()

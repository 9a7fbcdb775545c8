"""What an export is asked for beside the conversion itself: images, labels, states, names and metadata."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modellint.settings import Destination

LAYOUTS = {"rgb": 3, "bgr": 3, "grayscale": 1}
"""The orders of an image's channels, and how many there are."""

STATES_SINCE = 18
"""The iOS that has states first."""

SINGLE = "in-float32.mlpackage"
"""What the float32 package of a conversion is called that is kept beside the one that computes in float16."""

_IMAGE = re.compile(r"(?P<name>[^\W\d]\w*)(?::(?P<layout>\w*))?(?:,(?P<rest>.*))?\Z", re.DOTALL)
_NUMBER = re.compile(r"([+-]?[\d.]+(?:e[+-]?\d+)?)(?:/([\d.]+(?:e[+-]?\d+)?))?\Z", re.IGNORECASE)
_PER_CHANNEL = (
    "Core ML computes scale * pixel + bias, with one scale for all channels: divide by a deviation of each channel, as for ImageNet, "
    "in the model's own forward, or by one for all, as in scale=1/57.6,bias=-2.15,-2.02,-1.8"
)


class OptionError(Exception):
    """An option that cannot be understood, or that does not go with the model; the message quotes it and says why."""


class Image(NamedTuple):
    """An input that is to be an image, whose pixels, 0 to 255, reach the model as ``scale * pixel + bias``."""

    name: str
    layout: str = "rgb"
    scale: float = 1.0
    bias: tuple[float, ...] = ()
    """Of each channel; empty for none."""

    @property
    def channels(self) -> int:
        """How many channels its pixels have."""
        return LAYOUTS[self.layout]


class Metadata(NamedTuple):
    """What a package tells about itself; empty texts are left out."""

    author: str = ""
    license: str = ""
    description: str = ""
    version: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    """Descriptions of inputs by name."""
    outputs: tuple[tuple[str, str], ...] = ()


class Options(NamedTuple):
    """Everything that an export is asked for, but for its destination."""

    images: tuple[Image, ...] = ()
    labels: tuple[str, ...] = ()
    states: bool = False
    """Whether buffers that `forward` updates become states."""
    output_names: tuple[str, ...] = ()
    metadata: Metadata = Metadata()
    force: bool = False
    """Whether a package that does not agree is wanted too."""
    half_inputs: bool = False
    """Whether a package that computes in float16 takes float16 by either route; by default a trace alone, as coremltools has it."""
    keeps_single: bool = False
    """Whether the float32 package of the same conversion stays beside one that computes in float16, as ``SINGLE``."""


class LanguageModel(NamedTuple):
    """What the export of a language model is asked for, but for its destination."""

    context: int | None = None
    """How many tokens the caches hold; None for what suits the model."""
    prefill: tuple[int, ...] = (64,)
    """How many tokens prefill reads at once: one number, or several, of which the first is the example's."""
    is_range: bool = False
    """Whether two numbers of ``prefill`` are bounds, both included, and no list."""
    keeps_target: bool = False
    """Whether a deployment target without states is refused, as it was asked for, and not raised to the first that has them."""
    tokens: int = 64
    """How many tokens are decoded in the comparison."""
    source: tuple[int, ...] | None = None
    """The shape of what the encoder of an encoder-decoder reads; None for what suits the model."""
    metadata: Metadata = Metadata()


def parse_image(text: str) -> Image:
    """What one ``--image`` says: ``NAME[:LAYOUT][,scale=1/255][,bias=R,G,B]``. Raises ``OptionError``."""
    match = _IMAGE.match(text)
    if match is None:
        raise _wrong(text, "an image is written as NAME:rgb,scale=1/255,bias=0,0,0")
    values: dict[str, list[str]] = {}
    for part in (match["rest"] or "").split(",") if match["rest"] is not None else ():
        key, equals, value = part.partition("=")
        if equals:
            if key.strip() in values:
                raise _wrong(text, f"{key.strip()} is given twice")
            values[key.strip()] = [value]
        elif values:
            values[list(values)[-1]].append(part)
        else:
            raise _wrong(text, f"{part!r} is neither scale=… nor bias=…")
    settings = {key: [_number(text, number) for number in numbers] for key, numbers in values.items()}
    return image(match["name"], settings, match["layout"])


def image(name: str, settings: Mapping[str, Any], layout: str | None = None) -> Image:
    """The image input of some values: ``layout``, ``scale`` and ``bias``, each a number or several. Raises ``OptionError``."""
    values = dict(settings)
    layout = str(values.pop("layout", layout) or "rgb").lower()
    if layout not in LAYOUTS:
        raise _wrong(name, f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if "std" in values or "mean" in values:
        raise _wrong(name, _PER_CHANNEL)
    unknown = next((key for key in values if key not in ("scale", "bias")), None)
    if unknown is not None:
        raise _wrong(name, f"unknown key {unknown!r}; known: scale, bias")
    scale, bias = _numbers(values.get("scale", 1.0)), _numbers(values.get("bias", ()))
    if len(scale) != 1:
        raise _wrong(name, _PER_CHANNEL)
    if not math.isfinite(scale[0]) or scale[0] == 0:
        raise _wrong(name, f"the scale {scale[0]:g} loses the pixels")
    if len(bias) == 1:
        bias *= LAYOUTS[layout]
    if len(bias) not in (0, LAYOUTS[layout]):
        raise _wrong(
            name, f"{layout} has {LAYOUTS[layout]} channels, and {len(bias)} numbers are given for their biases"
        )
    return Image(name, layout, scale[0], tuple(bias))


def _wrong(text: str, why: str) -> OptionError:
    return OptionError(f"--image {text}: {why}")


def _number(text: str, written: str) -> float:
    match = _NUMBER.match(written.strip())
    if match is not None:
        try:
            return float(match[1]) / float(match[2] or 1)
        except (ValueError, ZeroDivisionError):
            pass
    raise _wrong(text, f"{written.strip()!r} is no number, such as 0.5 or 1/255")


def _numbers(numbers: Any) -> list[float]:
    return [float(number) for number in numbers] if isinstance(numbers, Iterable) else [float(numbers)]


def read_labels(path: Path) -> tuple[str, ...]:
    """The labels of a file, one on each line. Raises ``OptionError``."""
    try:
        if path.exists() and not path.is_file():
            raise OptionError(f"--labels {path}: it is no regular file")
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--labels {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    while lines and not lines[-1].strip():
        lines.pop()
    return checked_labels([line.strip() for line in lines], f"--labels {path}")


def checked_labels(labels: Sequence[str], name: str = "labels") -> tuple[str, ...]:
    """The labels, if Core ML can tell them apart. Raises ``OptionError``."""
    if not labels:
        raise OptionError(f"{name}: there is no label in it")
    seen: dict[str, int] = {}
    for at, label in enumerate(labels, 1):
        if not label:
            raise OptionError(f"{name}: label {at} is empty")
        if label in seen:
            raise OptionError(f"{name}: {label!r} stands there twice, as label {seen[label]} and label {at}")
        seen[label] = at
    return tuple(labels)


def parse_described(texts: Iterable[str], option: str) -> tuple[tuple[str, str], ...]:
    """What ``NAME=TEXT`` says, several times. Raises ``OptionError``."""
    descriptions: dict[str, str] = {}
    for text in texts:
        name, equals, described = text.partition("=")
        if not equals or not name:
            raise OptionError(f"{option} {text}: is written as NAME=TEXT")
        if name in descriptions:
            raise OptionError(f"{option} {text}: {name} is described twice")
        descriptions[name] = described
    return tuple(descriptions.items())


def check(options: Options, destination: Destination) -> None:
    """See that options go with each other and with the destination. Raises ``OptionError``."""
    if options.states and destination.ios < STATES_SINCE:
        raise OptionError(
            f"--state: states need iOS18, macOS15, watchOS11 or tvOS18, and the deployment target is {destination.target}: "
            "add --deployment-target iOS18"
        )
    for option, names in (
        ("--image", [image.name for image in options.images]),
        ("--output-name", list(options.output_names)),
    ):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OptionError(f"{option}: {twice} is given twice")
    bad = next((name for name in options.output_names if not name.isidentifier()), None)
    if bad is not None:
        raise OptionError(f"--output-name {bad}: a name has letters, digits and underscores, and begins with no digit")

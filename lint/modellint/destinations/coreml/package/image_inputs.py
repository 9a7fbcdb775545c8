"""Images as a package takes them: pixels, which its program scales before its network sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.coreml.private.mil_programs import Image, preprocessing
from modellint.live.inputs.input_spec import InputSpec
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.inputs.variants import Case, variants

WHITE = 255
_LABELS = {"lowest integers, false": "black", "highest integers, true": "white"}


class Scaling(NamedTuple):
    """How the model's input (…, channels, h, w) comes of an image's pixels, 0 to 255: ``pixels * scale + bias``."""

    scale: float
    bias: tuple[float, ...]
    """For all channels, or for each."""
    is_flipped: bool = False
    """Whether the program has the channels in the other order."""

    @property
    def is_plain(self) -> bool:
        """Whether the pixels are what the model is called with."""
        return self.scale == 1 and not any(self.bias)

    def values(self, pixels: Tensor) -> Tensor:
        """What the model is called with."""
        return self._turned(pixels.to(torch.float32)) * self.scale + self._offset()

    def pixels(self, values: Tensor) -> Tensor:
        """The pixels nearest to what the model is called with."""
        pixels = (values.detach().to(torch.float64) - self._offset().to(torch.float64)) / self.scale
        return self._turned(pixels.round().clamp(0, WHITE).to(torch.float32))

    def _turned(self, image: Tensor) -> Tensor:
        return image.flip(-3) if self.is_flipped else image

    def _offset(self) -> Tensor:
        return torch.tensor(self.bias, dtype=torch.float32).reshape(-1, 1, 1)

    def __str__(self) -> str:
        return f"{min(self.bias):.4g} to {max(self.bias) + WHITE * self.scale:.4g}"


def of_program(program: Any, name: str) -> Scaling:
    """Preprocessing of an image input, by the program's first operations."""
    return Scaling(*preprocessing(program, name))


def of_photo(image: Image) -> Scaling:
    """What ``--input photo.png:1x3x224x224`` stands for: red, green and blue, from 0 to 1."""
    return Scaling(1 / WHITE, (0.0,), image.layout == "BGR")


class Feed:
    """A model's arguments of which a package takes some as images.

    Args:
        inputs: The example, tensors all of them.
        specs: What it was made from.
        scalings: For each argument, by position, that is an image.
        photos: The same for what was decoded from a photo, of which the pixels are known.
    """

    def __init__(
        self,
        inputs: Inputs,
        specs: Sequence[InputSpec],
        scalings: Mapping[int, Scaling],
        photos: Mapping[int, Scaling],
    ) -> None:
        self._scalings = scalings
        self._specs = specs
        self._pixels = _changed(inputs, {at: {**scalings, **photos}[at].pixels for at in scalings}, torch.uint8)
        self.inputs = self._values(self._pixels)
        """The example, as of whole pixels."""

    def cases(self, seed: int) -> Iterator[Case]:
        """The example and others, as ``variants`` gives them: random pixels, black and white images, other sizes."""
        specs = _in_order(self._pixels, self._specs)
        for at in self._scalings:
            specs[at] = specs[at]._replace(range=(0, WHITE + 1))
        for case in variants(self._pixels, specs, seed):
            inputs = self.inputs if case.inputs is self._pixels else self._values(case.inputs)
            yield case._replace(label=_LABELS.get(case.label, case.label), inputs=inputs)

    def _values(self, pixels: Inputs) -> Inputs:
        return _changed(pixels, {at: scaling.values for at, scaling in self._scalings.items()}, torch.float32)


def photos(inputs: Inputs, specs: Sequence[InputSpec]) -> list[int]:
    """The positions of arguments that were decoded from photos."""
    return [at for at, spec in enumerate(_in_order(inputs, specs)) if spec.file is not None and spec.shape]


def _in_order(inputs: Inputs, specs: Sequence[InputSpec]) -> list[InputSpec]:
    """A specification for each argument, empty where nothing was said."""
    unnamed = [spec for spec in specs if spec.name is None]
    named = {spec.name: spec for spec in specs if spec.name is not None}
    nothing = InputSpec("", None)
    return [
        *(unnamed[at] if at < len(unnamed) else nothing for at in range(len(inputs.args))),
        *(named.get(name, nothing._replace(name=name)) for name in inputs.kwargs),
    ]


def _changed(inputs: Inputs, change: Mapping[int, Callable[[Tensor], Tensor]], dtype: torch.dtype) -> Inputs:
    values = [
        change[at](value).to(dtype) if at in change else value
        for at, value in enumerate((*inputs.args, *inputs.kwargs.values()))
    ]
    count = len(inputs.args)
    kwargs = dict(zip(inputs.kwargs, values[count:], strict=True))
    return inputs._replace(args=tuple(values[:count]), kwargs=kwargs)

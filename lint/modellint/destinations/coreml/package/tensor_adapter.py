"""A saved package as tensors in, tensors out, so that it can be compared with a model: without images, without labels."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from modellint.destinations.coreml.package.input_output_specification import argument_names, named_values
from modellint.destinations.coreml.private.entry_points import ct
from modellint.live.inputs.input_spec import InputSpec

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.export_options import Image
    from modellint.live.inputs.model_inputs import Inputs

_MODEL = Path("Data", "com.apple.CoreML", "model.mlmodel")


def as_tensors(package: Path, folder: Path) -> Path:
    """The package itself, or, where it takes images or gives labels, one in ``folder`` with the same program and weights.

    There the specification calls an image the array that its pixels reach the program as, and the probabilities are the output.
    """
    spec = ct.utils.load_spec(str(package))
    has_images = any(feature.type.WhichOneof("Type") == "imageType" for feature in spec.description.input)
    if not has_images and not spec.description.predictedFeatureName:
        return package
    for feature in spec.description.input:
        if feature.type.WhichOneof("Type") == "imageType":
            image = feature.type.imageType
            channels = 1 if "GRAYSCALE" in image.ColorSpace.Name(image.colorSpace) else 3
            height, width = image.height, image.width
            feature.type.multiArrayType.shape.extend([1, channels, height, width])
            feature.type.multiArrayType.dataType = feature.type.multiArrayType.FLOAT32
    if spec.description.predictedFeatureName:
        _without_labels(spec)
    plain = folder / "plain.mlpackage"
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(package, plain, copy_function=_linked)
    model = plain / _MODEL
    model.unlink()
    model.write_bytes(spec.SerializeToString())
    return plain


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _without_labels(spec: Any) -> None:
    for function in spec.mlProgram.functions.values():
        for block in function.block_specializations.values():
            for at, operation in enumerate(block.operations):
                if operation.type == "classify":
                    (probabilities,) = operation.inputs["probabilities"].arguments
                    results = {output.name for output in operation.outputs}
                    kept = [name for name in block.outputs if name not in results]
                    del block.outputs[:]
                    block.outputs.extend([probabilities.name, *kept])
                    del block.operations[at]
                    break
    description = spec.description
    labels = (description.predictedFeatureName, description.predictedProbabilitiesName)
    for at in reversed(range(len(description.output))):
        if description.output[at].name in labels:
            del description.output[at]
    description.predictedFeatureName = description.predictedProbabilitiesName = ""


@contextmanager
def taking_pixels(
    model: nn.Module, inputs: Inputs, images: Sequence[Image], specs: Sequence[InputSpec] = ()
) -> Iterator[tuple[Inputs, Sequence[InputSpec]]]:
    """Inside of the block the model takes pixels for its images, and scales them as its package does.

    Gives the inputs with the pixels that the example's images come nearest to, and the ranges to draw others from.
    """
    if not images:
        yield inputs, specs
        return
    names = argument_names(model, inputs)
    by_name = {image.name: image for image in images}

    def from_pixels(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        arguments = tuple(
            _scaled(value, by_name[name]) if name in by_name else value
            for name, value in zip(names, args, strict=False)
        )
        return arguments, {
            name: _scaled(value, by_name[name]) if name in by_name else value for name, value in kwargs.items()
        }

    values = {
        name: _pixels(value, by_name[name]) if name in by_name else value
        for name, value in named_values(model, inputs).items()
    }
    count = len(inputs.args)
    ordered = names[:count]
    example = inputs._replace(
        args=tuple(values[name] for name in ordered),
        kwargs={name: values[name] for name in inputs.kwargs},
    )
    ranges = {name: spec.range for name, spec in _specs_by_name(ordered, specs).items()}
    ranges.update(dict.fromkeys(by_name, (0.0, 256.0)))
    described = [
        InputSpec(name, name if name in inputs.kwargs else None, range=ranges.get(name))
        for name in (*ordered, *inputs.kwargs)
    ]
    hook = model.register_forward_pre_hook(from_pixels, prepend=True, with_kwargs=True)
    try:
        yield example, described
    finally:
        hook.remove()


def _specs_by_name(ordered: Sequence[str], specs: Sequence[InputSpec]) -> dict[str, InputSpec]:
    positions = iter(ordered)
    by_name = {}
    for spec in specs:
        name = spec.name if spec.name is not None else next(positions, None)
        if name is not None:
            by_name[name] = spec
    return by_name


def _bias(image: Image, like: Tensor) -> Tensor:
    bias = torch.tensor(image.bias or (0.0,) * image.channels, dtype=like.dtype, device=like.device)
    return bias.reshape(1, -1, 1, 1)


def _scaled(pixels: Any, image: Image) -> Any:
    return pixels * image.scale + _bias(image, pixels)


def _pixels(value: Any, image: Image) -> Any:
    return ((value - _bias(image, value)) / image.scale).round().clamp(0, 255)

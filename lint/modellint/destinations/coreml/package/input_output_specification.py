"""A package's inputs, outputs and states: what coremltools is told of them, and what a saved package says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from modellint.destinations.coreml.capture.routes import Traced, flexible_shape
from modellint.destinations.coreml.private.entry_points import ct
from modellint.destinations.coreml.private.mil_programs import declared_shape
from modellint.destinations.export_options import Image, Metadata, OptionError, Options
from modellint.live.inputs.model_inputs import Listed
from modellint.results.exported import Feature

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreml.capture import routes
    from modellint.live.inputs.model_inputs import Inputs

_ARRAYS = {"FLOAT16": "float16", "FLOAT32": "float32", "DOUBLE": "float64", "INT32": "int32", "INT8": "int8"}
_COLORS = {"rgb": "RGB", "bgr": "BGR", "grayscale": "GRAYSCALE"}


def argument_names(model: nn.Module, inputs: Inputs) -> list[str]:
    """The names of the arguments that the inputs are for, in the order of ``forward``; empty where they have none."""
    parameters = inspect.signature(model.forward).parameters
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [name for name, parameter in parameters.items() if parameter.kind in kinds]
    if len(inputs.args) > len(positional):
        return []
    filled = {*positional[: len(inputs.args)], *inputs.kwargs}
    return [*(name for name in parameters if name in filled), *(name for name in filled if name not in parameters)]


def ordered(model: nn.Module, inputs: Inputs) -> Inputs:
    """The same inputs, with keyword arguments in the order of ``forward``, which is that of a package's inputs."""
    order = {name: at for at, name in enumerate(argument_names(model, inputs))}
    names = sorted(inputs.kwargs, key=lambda name: order.get(name, len(order)))
    return inputs._replace(kwargs={name: inputs.kwargs[name] for name in names})


def check_images(model: nn.Module, inputs: Inputs, images: Sequence[Image]) -> None:
    """See that each image is an argument of the shape that Core ML gives an image. Raises ``OptionError``."""
    values = named_values(model, inputs)
    for image in images:
        if image.name not in values:
            raise OptionError(f"--image {image.name}: the model's arguments are {', '.join(values) or 'without names'}")
        value = values[image.name]
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        if len(shape) != 4 or shape[:2] != (1, image.channels):
            wanted = f"1x{image.channels}xHEIGHTxWIDTH"
            got = "x".join(map(str, shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise OptionError(
                f"--image {image.name}: a {image.layout} image is a tensor of {wanted}, and the input is {got}"
            )
        if any(which % 4 < 2 for which in _flexible(inputs, image.name, list(values).index(image.name))):
            raise OptionError(
                f"--image {image.name}: an image may be flexible in its height and width, and in nothing else"
            )


ALIGNED = 32
"""What the last dimension of a state has to be a multiple of on the Neural Engine (coremltools #2631)."""


def _flexible(inputs: Inputs, name: str, at: int) -> Mapping[int, tuple[int, int]]:
    """The bounds of an argument's dimensions, by its name or position."""
    keys: tuple[str | int, ...] = (name, at, str(at))
    return next((inputs.flexible[key] for key in keys if key in inputs.flexible), {})


def named_values(model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The inputs by the names of their arguments."""
    names = argument_names(model, inputs)
    values = dict(zip(names, inputs.args, strict=False)) if len(names) >= len(inputs.args) else {}
    return {**values, **inputs.kwargs}


def conversion_options(
    model: nn.Module, inputs: Inputs, captured: routes.Captured, options: Options, states: Mapping[str, Tensor]
) -> dict[str, Any]:
    """What `ct.convert` is given beside a captured model: types of inputs, states, outputs' names and labels."""
    keywords: dict[str, Any] = {}
    if isinstance(captured, Traced):
        names = argument_names(model, inputs)
        types = captured.types if len(names) != len(captured.types) else list(_named(captured.types, names))
        keywords["inputs"] = [_image_type(tensor_type, options.images) for tensor_type in types]
        if options.states and states:
            keywords["states"] = [
                ct.StateType(ct.TensorType(shape=tuple(value.shape), dtype=np.float16), name=name)
                for name, value in states.items()
            ]
    elif options.images or inputs.flexible or options.half_inputs:
        exported = _exported_types(captured.program, model, inputs)
        keywords["inputs"] = [_image_type(tensor_type, options.images) for tensor_type in exported]
    if options.labels:
        name = options.output_names[0] if options.output_names else None
        keywords["classifier_config"] = ct.ClassifierConfig(list(options.labels), predicted_feature_name=name)
    elif options.output_names:
        keywords["outputs"] = [ct.TensorType(name=name) for name in options.output_names]
    return keywords


def remarks_on_states(states: Mapping[str, Tensor]) -> Iterator[str]:
    """What is known of devices and states of such shapes."""
    odd = {name: value.shape[-1] for name, value in states.items() if value.dim() and value.shape[-1] % ALIGNED}
    if odd:
        name, size = next(iter(odd.items()))
        phrase = ", for one," if len(odd) > 1 else ""
        yield (
            f"the Neural Engine is reported not to run models with states whose last dimension is no multiple of {ALIGNED} (coremltools "
            f"#2631); that of {name}{phrase} is {size}: predict with compute_units=CPU_AND_GPU, or pad it"
        )


def _named(types: Sequence[Any], names: Sequence[str]) -> Iterator[Any]:
    for tensor_type, name in zip(types, names, strict=True):
        if isinstance(tensor_type, ct.TensorType):
            tensor_type.name = name
        yield tensor_type


def _exported_types(program: Any, model: nn.Module, inputs: Inputs) -> Iterator[Any]:
    """Types with the bounds that were asked for: an export's own begin at 2, as it takes a size of one for a constant."""
    taken = program.graph_signature.user_inputs
    values = named_values(model, inputs)
    names = list(values)
    # What an export holds to be of one size is so to coremltools too.
    known: dict[str, Any] = {}
    for node in program.graph.nodes:
        like = node.meta.get("val") if node.op == "placeholder" and node.name in taken else None
        if not isinstance(like, Tensor):
            continue
        flexible = _flexible(inputs, node.name, names.index(node.name)) if node.name in values else {}
        # Of what has no type coremltools makes float16 from iOS 16 on, of tokens as well, which it holds up to 2048.
        dtype = None if like.dtype.is_floating_point or like.dtype is torch.bool else np.int32
        if not flexible:
            yield ct.TensorType(name=node.name, dtype=dtype)
            continue
        bounds = {which % like.dim(): limits for which, limits in flexible.items()}
        if any(isinstance(limits, Listed) for limits in bounds.values()):
            enumerated, _ = flexible_shape(tuple(values[node.name].shape), bounds)
            yield ct.TensorType(name=node.name, shape=enumerated, dtype=dtype)
            continue
        shape: list[Any] = []
        for which, size in enumerate(like.shape):
            if isinstance(size, int) or which not in bounds:
                shape.append(size)
            else:
                low, high = bounds[which]
                default = int(values[node.name].shape[which])
                shape.append(known.setdefault(str(size), ct.RangeDim(low, high, default=default)))
        yield ct.TensorType(name=node.name, shape=tuple(shape), dtype=dtype)


def _image_type(tensor_type: Any, images: Sequence[Image]) -> Any:
    image = next((image for image in images if image.name == getattr(tensor_type, "name", None)), None)
    if image is None:
        return tensor_type
    bias: Any = list(image.bias) or None
    if bias is not None and image.channels == 1:
        (bias,) = bias
    return ct.ImageType(
        name=tensor_type.name,
        shape=tensor_type.shape,
        scale=image.scale,
        bias=bias,
        color_layout=getattr(ct.colorlayout, _COLORS[image.layout]),
    )


def check_outputs(outputs: Sequence[Tensor], options: Options) -> None:
    """See that labels and names fit what the model returns. Raises ``OptionError``."""
    if options.labels:
        if len(outputs) != 1:
            raise OptionError(f"--labels: a classifier returns one tensor, and the model returns {len(outputs)}")
        if outputs[0].numel() != len(options.labels) or not outputs[0].is_floating_point():
            raise OptionError(
                f"--labels: there are {len(options.labels)} labels, and the model returns {outputs[0].numel()} numbers "
                f"({'x'.join(map(str, outputs[0].shape))}, {str(outputs[0].dtype).removeprefix('torch.')})"
            )
    wanted = 1 if options.labels else len(outputs)
    if options.output_names and len(options.output_names) != wanted:
        of = "a classifier's label" if options.labels else "outputs"
        raise OptionError(f"--output-name: {len(options.output_names)} names for {wanted} {of}")


def about_labels(outputs: Sequence[Tensor], options: Options) -> Iterator[str]:
    """What is to be told of a classifier whose outputs are no probabilities."""
    if options.labels:
        values = outputs[0].detach().to(torch.float64)
        if bool((values < -1e-3).any()) or abs(float(values.sum()) - 1) > 1e-2:
            yield "the model's outputs are no probabilities, and neither are the package's: end the model in a softmax"


def describe(mlmodel: Any, metadata: Metadata) -> None:
    """Write metadata into a model. Raises ``OptionError`` for an input or output that it does not have."""
    for attribute, text in (
        ("author", metadata.author),
        ("license", metadata.license),
        ("short_description", metadata.description),
        ("version", metadata.version),
    ):
        if text:
            setattr(mlmodel, attribute, text)
    description = mlmodel.get_spec().description
    for option, descriptions, texts, features in (
        ("--input-description", mlmodel.input_description, metadata.inputs, description.input),
        ("--output-description", mlmodel.output_description, metadata.outputs, description.output),
    ):
        known = [feature.name for feature in features]
        for name, text in texts:
            if name not in known:
                raise OptionError(f"{option} {name}: the package has {', '.join(known)}")
            descriptions[name] = text


def features(spec: Any, program: Any) -> tuple[tuple[Feature, ...], tuple[Feature, ...], tuple[Feature, ...]]:
    """The inputs, outputs and states of a specification; its program knows the shapes that vary with the inputs'."""
    described = spec.description
    label = described.predictedFeatureName
    shapes = {output.name: declared_shape(output) for output in program.functions["main"].outputs}
    inputs, outputs, states = (
        tuple(_feature(entry, label) for entry in group)
        for group in (described.input, described.output, described.state)
    )
    outputs = tuple(
        output._replace(shape=output.shape or _known(shapes.get(output.name))) if output.kind == "tensor" else output
        for output in outputs
    )
    return inputs, outputs, states


def declared_sizes(description: Any) -> Mapping[str, tuple[str, Callable[[Sequence[int]], bool]]]:
    """The inputs whose sizes a specification limits more than its program does: the sizes in words, and whether a shape is among them.

    Core ML refuses a prediction of any other size.
    """
    limits = {}
    for entry in description.input:
        array = entry.type.multiArrayType
        if entry.type.WhichOneof("Type") == "multiArrayType" and array.WhichOneof("ShapeFlexibility"):
            limits[str(entry.name)] = _shape(array), partial(_is_taken, array)
        image = entry.type.imageType
        if entry.type.WhichOneof("Type") == "imageType" and image.WhichOneof("SizeFlexibility"):
            limits[str(entry.name)] = _image_size(image), partial(_is_taken_image, image)
    return limits


def _is_taken_image(image: Any, shape: Sequence[int]) -> bool:
    """Whether an image may have the height and width of a tensor."""
    height, width = shape[-2:]
    if image.WhichOneof("SizeFlexibility") == "enumeratedSizes":
        return any((size.height, size.width) == (height, width) for size in image.enumeratedSizes.sizes)
    spans = image.imageSizeRange
    return _is_within(spans.heightRange, height) and _is_within(spans.widthRange, width)


def _is_within(span: Any, size: int) -> bool:
    """Whether a range has a size; one without an upper bound has a negative one."""
    return bool(span.lowerBound <= size and (size <= span.upperBound or span.upperBound < 0))


def _is_taken(array: Any, shape: Sequence[int]) -> bool:
    """Whether an array may have a shape."""
    if array.WhichOneof("ShapeFlexibility") == "enumeratedShapes":
        return any(tuple(listed.shape) == tuple(shape) for listed in array.enumeratedShapes.shapes)
    ranges = array.shapeRange.sizeRanges
    return len(ranges) == len(shape) and all(map(_is_within, ranges, shape))


def _known(shape: Sequence[int | None] | None) -> str:
    return "" if shape is None else "x".join("?" if size is None else str(size) for size in shape) or "scalar"


def _feature(description: Any, label: str) -> Feature:
    name, text = description.name, description.shortDescription
    kind = description.type.WhichOneof("Type")
    match kind:
        case "multiArrayType":
            array = description.type.multiArrayType
            return Feature(name, "tensor", _dtype(array), _shape(array), text)
        case "stateType":
            array = description.type.stateType.arrayType
            return Feature(name, "state", _dtype(array), _shape(array), text)
        case "imageType":
            image = description.type.imageType
            values = image.DESCRIPTOR.enum_types_by_name["ColorSpace"].values_by_number
            return Feature(name, "image", values[image.colorSpace].name, _image_size(image), text)
        case "stringType" | "int64Type":
            return Feature(name, "label" if name == label else "tensor", kind.removesuffix("Type"), "", text)
        case "dictionaryType":
            return Feature(name, "probabilities", "float", "", text)
    return Feature(name, str(kind), "", "", text)


def _dtype(array: Any) -> str:
    name = array.DESCRIPTOR.enum_types_by_name["ArrayDataType"].values_by_number[array.dataType].name
    return _ARRAYS.get(str(name), str(name).lower())


def _shape(array: Any) -> str:
    flexible = array.WhichOneof("ShapeFlexibility")
    if flexible == "shapeRange":
        return "x".join(_span(range_.lowerBound, range_.upperBound) for range_ in array.shapeRange.sizeRanges)
    if flexible == "enumeratedShapes":
        return _listed([tuple(shape.shape) for shape in array.enumeratedShapes.shapes])
    return "x".join(map(str, array.shape))


def _image_size(image: Any) -> str:
    if image.WhichOneof("SizeFlexibility") == "imageSizeRange":
        spans = image.imageSizeRange
        return "x".join(_span(span.lowerBound, span.upperBound) for span in (spans.heightRange, spans.widthRange))
    if image.WhichOneof("SizeFlexibility") == "enumeratedSizes":
        return _listed([(size.height, size.width) for size in image.enumeratedSizes.sizes])
    return f"{image.height}x{image.width}"


def _listed(shapes: Sequence[Sequence[int]]) -> str:
    """Enumerated shapes as ``--input`` has them: ``1x16/64``."""
    columns = zip(*shapes, strict=True)
    return "x".join(str(sizes[0]) if len({*sizes}) == 1 else "/".join(map(str, sizes)) for sizes in columns)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}" if high > 0 else f"{low}.."

"""coremltools' private names for the programs it makes: types of variables, and programs read from packages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from modellint.destinations.coreml.package.file_layout import check_layout
from modellint.destinations.coreml.private.entry_points import ct
from modellint.destinations.coreml.private.pass_overhead import remembered_types
from modellint.destinations.destination import PackageError as PackageError

types = ct.converters.mil.mil.types


def dtype_name(variable: Any) -> str:
    """The name of a variable's element type, as MIL prints it: ``"fp16"``, ``"int32"``, ``"bool"``, ``"str"``.

    A state's is that of the tensor it wraps; what has no element type (a list) gives ``""``.
    """
    kind = variable.sym_type
    if types.is_state(kind):
        kind = kind.wrapped_type()
    if types.is_list(kind):
        return ""
    if types.is_tensor(kind):
        kind = kind.get_primitive()
    try:
        return str(types.builtin_to_string(kind))
    except KeyError:
        return ""


def is_state(variable: Any) -> bool:
    """Whether a variable is a state, that keeps its value from one prediction to the next."""
    return bool(types.is_state(variable.sym_type))


def updated_states(program: Any) -> set[str]:
    """The names of the states that a program writes."""
    return {name for function in program.functions.values() for name in _updated_in(function)}


def _updated_in(block: Any) -> set[str]:
    names = set()
    for operation in block.operations:
        if operation.op_type == "coreml_update_state":
            names.add(operation.state.name)
        for inner in operation.blocks:
            names |= _updated_in(inner)
    return names


def declared_shape(variable: Any) -> tuple[int | None, ...] | None:
    """A variable's sizes as its program declares them, ``None`` for a size that is not known before a run.

    ``None`` for what is no tensor, and where not even the number of axes is known.
    """
    kind = variable.sym_type
    if types.is_state(kind):
        kind = kind.wrapped_type()
    if types.is_list(kind):
        return None
    sizes = kind.get_shape() if types.is_tensor(kind) else ()
    if types.symbolic.any_variadic(sizes):
        return None
    return tuple(None if types.symbolic.is_symbolic(size) else int(size) for size in sizes)


def read_package(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The program of a saved ``.mlpackage``, and the model's specification (a protobuf message).

    Names of variables and operations are kept; where they come from in a PyTorch model is not saved.

    Raises:
        PackageError: For a path without a model, a model that is no ML Program, and a program that coremltools cannot read.
    """
    check_layout(path)
    try:
        from coremltools.models.utils import _try_get_weights_dir_path

        spec = ct.utils.load_spec(os.fspath(path))
    except Exception as error:
        # coremltools raises what its C++ reader of packages and protobuf happen to raise.
        raise PackageError(f"{os.fspath(path)} is no saved Core ML model: {_first_line(error)}") from error
    return _program_of(spec, _try_get_weights_dir_path(os.fspath(path)), os.fspath(path)), spec


def program_of(mlmodel: Any) -> Any:
    """The program of a `coremltools.models.MLModel`: the one it was converted to, or else read from its package.

    Raises:
        PackageError: For a model that is no ML Program, and a program that coremltools cannot read.
    """
    if mlmodel._mil_program is not None:
        return mlmodel._mil_program
    return _program_of(mlmodel.get_spec(), mlmodel.weights_dir, "the model")


def _program_of(spec: Any, weights: str | None, name: str) -> Any:
    kind = spec.WhichOneof("Type")
    if kind != "mlProgram":
        what = "holds no model" if kind is None else f"is of kind {kind}, and no ML Program"
        raise PackageError(f"{name} {what}")
    functions = list(spec.mlProgram.functions)
    if not functions:
        raise PackageError(f"{name} holds no function, so there is nothing to execute")
    chosen = spec.description.defaultFunctionName
    if chosen and chosen not in functions:
        raise PackageError(
            f"{name} has no function {chosen!r}, which it says to execute; it has {', '.join(functions)}"
        )
    try:
        from coremltools.converters.mil.frontend.milproto import load as milproto

        with remembered_types():
            program = milproto.load(spec, spec.specificationVersion, weights or "")
    except Exception as error:
        raise PackageError(f"coremltools cannot read the program of {name}: {_first_line(error)}") from error
    if chosen:
        program.default_function_name = chosen
    return program


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@dataclass(frozen=True, slots=True)
class Image:
    """An input that Core ML takes as an image: the program's tensor has its pixels, 0 to 255, as (1, channels, h, w).

    Args:
        layout: ``"RGB"``, ``"BGR"``, ``"GRAYSCALE"`` or ``"GRAYSCALE_FLOAT16"``, the order of the channels.
        height: In pixels, the default where sizes are flexible.
        width: In pixels.
    """

    layout: str
    height: int
    width: int


def deployment_target(spec: Any) -> str:
    """The oldest system that a specification is for, as in ``iOS16``; its version where coremltools knows none."""
    names = (target.name for target in ct.target if target.value == spec.specificationVersion)
    return next(names, str(spec.specificationVersion))


def images(spec: Any, function: str | None = None) -> dict[str, Image]:
    """The image inputs of a specification, by name; of its default function, or of the one named."""
    images_by_name = {}
    for feature in _description(spec, function).input:
        if feature.type.WhichOneof("Type") == "imageType":
            kind = feature.type.imageType
            layout = kind.DESCRIPTOR.enum_types_by_name["ColorSpace"].values_by_number[kind.colorSpace].name
            images_by_name[feature.name] = Image(layout, kind.height, kind.width)
    return images_by_name


def preprocessing(program: Any, name: str) -> tuple[float, tuple[float, ...]]:
    """What a program makes of an image's pixels before anything else: the scale, and the bias of all or of each channel.

    These are the operations that the pass `insert_image_preprocessing_ops` of a conversion puts in front.
    """
    scale = 1.0
    bias: tuple[float, ...] = (0.0,)
    for operation in program.functions["main"].operations:
        match operation.op_type, operation.outputs[0].name if operation.outputs else "":
            case "mul", name_of_output if name_of_output == f"{name}__scaled__":
                scale = float(operation.inputs["y"].val)
            case "add", name_of_output if name_of_output == f"{name}__biased__":
                bias = tuple(map(float, operation.inputs["y"].val.reshape(-1)))
    return scale, bias


def _description(spec: Any, function: str | None) -> Any:
    wanted = function or spec.description.defaultFunctionName
    for description in spec.description.functions:
        if description.name == wanted:
            return description
    return spec.description


def function_names(program: Any) -> tuple[str, ...]:
    """The names of a program's functions, the one that runs by default first."""
    default = program.default_function_name
    return tuple(sorted(program.functions, key=lambda name: name != default))


def output_names(program: Any, function: str = "main") -> tuple[str, ...]:
    """The names of a program's outputs in the order in which the model returns them; one may be there twice."""
    return tuple(variable.name for variable in program.functions[function].outputs)


def made_from(operation: Any) -> tuple[str | None, int | None]:
    """What an operation of a converted program was made from.

    For a trace that is the name of a node in coremltools' own lowered graph; for an export the number that its node has in
    ``meta["debug_handle"]``.
    """
    try:
        from coremltools.converters.mil.mil.scope import ScopeSource

        sources = ScopeSource.TORCHSCRIPT_MODULE_NAME, ScopeSource.EXIR_DEBUG_HANDLE
    except (ImportError, AttributeError):
        return None, None
    scopes = operation.scopes
    names = scopes.get(sources[0])
    handles = scopes.get(sources[1])
    handle = handles[0] if handles else None
    return (str(names[-1]) if names else None), (handle if isinstance(handle, int) else None)


def is_top_level(operation: Any, program: Any, function: str = "main") -> bool:
    """Whether an operation stands in the function itself, and not in a branch or the body of a loop."""
    return operation.enclosing_block is program.functions[function]

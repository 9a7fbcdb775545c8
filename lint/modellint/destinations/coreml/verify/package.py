"""Verification of a saved package: executed, and compared with the model that it is said to be of."""

from __future__ import annotations

import inspect
import math
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from modellint.destinations.comparison.comparison import Undecided
from modellint.destinations.comparison.reference_runs import OutputCache, copied_inputs
from modellint.destinations.comparison.tensor_difference import compare
from modellint.destinations.coreml.convert.conversion import NotConverted, captures
from modellint.destinations.coreml.mil.executor import UnknownOperations
from modellint.destinations.coreml.package import image_inputs
from modellint.destinations.coreml.package.emulated_predictor import (
    Predictor,
    computes_in_half,
    is_compressed,
    keeps_states,
)
from modellint.destinations.coreml.package.input_output_specification import declared_sizes
from modellint.destinations.coreml.private.mil_programs import Image, images, read_package
from modellint.destinations.coreml.recorded_case.recorder import Recorder, check_recordable
from modellint.destinations.coreml.verify.device_departures import on_devices
from modellint.destinations.coreml.verify.difference_location import Locator
from modellint.destinations.coreml.verify.model import BUDGET, DROPOUT, RANDOM, so_far, verification_of
from modellint.destinations.coreml.verify.program_comparison import ProgramComparison
from modellint.results.verification import DIFFERS, UNDECIDED, FirstDifference, Layer, Verification
from modellint.settings import Destination

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs

_ALIKE = 0.9
"""The distance over the norm up to which a compressed weight is taken for that of a parameter of the same shape."""


def verify_package(
    model: nn.Module,
    inputs: Inputs,
    path: str,
    project: Project,
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    with_layers: bool = False,
    budget: float = BUDGET,
    limit: float = math.inf,
    partly: Callable[[Verification], None] | None = None,
    precision: str = "",
    cache: OutputCache | None = None,
    record: Path | None = None,
) -> Verification:
    """Compare a saved package with the model that it is said to be of; the rest is as for ``verify``.

    A package that computes in float16 is run twice: with numbers that are not rounded, where it is held against what rounding
    its weights to float16 does to the model, and as it is. Compressed weights are put into the model first, so that what
    compression loses is told apart. ``precision`` is that of the conversion where it is known: a package of ``fp32`` is judged
    as one whatever the model's own types make of it; the conversion of one of ``fp16`` is not judged again. ``cache`` holds
    outputs of the model that an earlier comparison has seen. ``record`` is the folder that a case for a device is written to.

    What the package takes as an image is fed as pixels. The model is called with what the package's own scaling makes of them
    or, where it does not agree on that, with what a decoded photo is: numbers from 0 to 1.

    Raises ``PackageError`` for a package that holds no program, or not all of it.
    """
    end = time.monotonic() + limit
    comparison = ProgramComparison(model, inputs, specs, seed, budget, end=end, cache=cache)
    try:
        program, spec = read_package(path)
        taken, sizes = images(spec), declared_sizes(spec.description)
        if record is not None:
            check_recordable(spec, path)
        if not taken:
            _tell(comparison, partly)
            predictor = _predictor(program, model, inputs, sizes=sizes)
            recorder = None if record is None else Recorder(comparison, predictor, "trace")
            verification = _compared(comparison, predictor, project, with_layers, precision)
            if recorder is not None and record is not None and recorder.has_outputs:
                recorder.write(record, Path(path), spec)
            return verification
        best = None
        for feed, predictor, remarks in _fed(program, taken, model, inputs, specs, sizes):
            comparison = ProgramComparison(model, feed.inputs, specs, seed, budget, feed.cases(seed), end, cache)
            _tell(comparison, partly)
            comparison.notes += remarks
            attempt = _compared(comparison, predictor, project, with_layers, precision)
            if attempt.ok or best is None:
                best = attempt
            if attempt.ok:
                break
        assert best is not None
        return best
    except Undecided as error:
        return verification_of(comparison, UNDECIDED, str(error), "package")


def _tell(comparison: ProgramComparison, partly: Callable[[Verification], None] | None) -> None:
    if partly is not None:
        comparison.after = lambda: partly(so_far(comparison, "package"))


def _predictor(
    program: Any,
    model: nn.Module,
    inputs: Inputs,
    prepared: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
) -> Predictor:
    try:
        return Predictor(program, dict(model.named_buffers()), argument_names(model, inputs), prepared, sizes=sizes)
    except UnknownOperations as error:
        raise Undecided(f"the program cannot be executed: {error}") from None


def _fed(
    program: Any,
    taken: Mapping[str, Image],
    model: nn.Module,
    inputs: Inputs,
    specs: Sequence[InputSpec],
    sizes: Mapping[str, Any],
) -> Iterator[tuple[image_inputs.Feed, Predictor, list[str]]]:
    """The ways in which the model and the program can be given the same images, and what is to be told about each."""
    values = [*inputs.args, *inputs.kwargs.values()]
    names = _predictor(program, model, inputs).input_names
    if len(names) != len(values) or not all(isinstance(value, Tensor) for value in values):
        raise Undecided("the package takes images, and which of the model's inputs these are is not known")
    for name, value in zip(names, values, strict=True):
        channels = 1 if name in taken and taken[name].layout.startswith("GRAYSCALE") else 3
        if name in taken and (value.dim() not in (3, 4) or value.shape[-3] != channels):
            shape = "x".join(map(str, value.shape)) or "a scalar"
            raise Undecided(f"the input {name} is an image of {channels} channels, and not {shape}")
    decoded = {
        at: image_inputs.of_photo(taken[names[at]]) for at in image_inputs.photos(inputs, specs) if names[at] in taken
    }
    for is_own in (True, False):
        scalings = {
            at: image_inputs.of_program(program, name) if is_own else image_inputs.of_photo(taken[name])
            for at, name in enumerate(names)
            if name in taken
        }
        feed = image_inputs.Feed(inputs, specs, scalings, decoded)
        prepared = {names[at]: scaling.pixels for at, scaling in scalings.items()}
        yield (
            feed,
            _predictor(program, model, inputs, prepared, sizes),
            [_told_of(names[at], taken[names[at]], scaling, is_own) for at, scaling in scalings.items()],
        )


def _told_of(name: str, image: Image, scaling: image_inputs.Scaling, is_own: bool) -> str:
    if not is_own:
        called = f"with {scaling}, as a decoded photo is: with the package's own scaling it does not agree"
    elif scaling.is_plain:
        called = "with the pixels, 0 to 255, as the package does not scale them"
    else:
        called = f"with what the package makes of the pixels, {scaling}"
    return f"the package takes {name} as an image ({image.layout}); the model is called {called}"


def _compared(
    comparison: ProgramComparison, predictor: Predictor, project: Project, with_layers: bool, precision: str
) -> Verification:
    is_random = comparison.is_random()
    if is_random and comparison.reference.drops:
        raise Undecided(RANDOM)
    is_half = precision == "fp16" or (not precision and computes_in_half(predictor.program))
    halved = predictor if is_half or keeps_states(predictor.program) else None
    if halved is not None:
        predictor = predictor.unrounded()
    if is_compressed(predictor.program):
        _decompress(comparison, predictor)
    comparison.weights_rounded = is_half
    single_run = None if precision == "fp16" else predictor
    comparison.over_cases(single_run, halved, "trace")
    comparison.over_steps(single_run, halved, "trace")
    if is_half and not precision:
        comparison.notes.append(
            "the package computes in float16: the figures of float32 are those of its operations and weights without any further "
            "rounding, held against what float16 weights do to the model"
        )
    half_ok = comparison.judged_half()
    first, layers = _located(comparison, predictor, project, with_layers)
    # A failure says itself where it is: a state, the number of outputs, a program that does not run.
    if first is None and comparison.mismatch is not None and not comparison.failure:
        comparison.notes.append(
            "where they first differ is not known: the package's names are not those of a conversion"
        )
    verdict, reason, single = comparison.verdict(half_ok)
    if verdict == DIFFERS:
        reason = reason or "the package computes something else"
        if comparison.mismatch is None and not is_half:
            reason = "float16, which Core ML keeps states in, is not precise enough"
    elif is_random:
        verdict, reason, single = DIFFERS, DROPOUT, DIFFERS
    shown = tuple(layers) if with_layers else ()
    met = ChainMap(*(program.executor.departures for program in (predictor, halved) if program is not None))
    return verification_of(
        comparison,
        verdict,
        reason,
        "package",
        half_ok=half_ok,
        single=single,
        first_difference=first,
        layers=shown,
        departures=tuple(on_devices(met)),
    ).on_devices()


def _decompress(comparison: ProgramComparison, predictor: Predictor) -> None:
    """Put what compressed weights stand for into the model, and tell what compression loses. Raises ``Undecided``."""
    model = comparison.model
    own = {
        name: tensor.detach()
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
        if tensor.is_floating_point()
    }
    taken: dict[str, Tensor] = {}
    for weight in predictor.decompressed():
        near = {
            name: float(
                (tensor.float().reshape(-1) - weight.float().reshape(-1)).norm() / (tensor.float().norm() or 1.0)
            )
            for name, tensor in own.items()
            if name not in taken and _plain(tensor.shape) == _plain(weight.shape)
        }
        name = min(near, key=lambda name: near[name], default="")
        if not name or not near[name] <= _ALIKE:
            shape = "x".join(map(str, weight.shape))
            raise Undecided(
                f"a compressed weight of the package, {shape}, is that of no parameter: compare the package before it is compressed"
            )
        taken[name] = weight.reshape(own[name].shape).to(own[name].dtype)
    before = comparison.reference(comparison.inputs)
    comparison.reference.weights = taken
    after = comparison.reference(comparison.inputs)
    lost = min((compare(new, old).snr for new, old in zip(after, before, strict=True)), default=math.inf)
    far = "nothing" if lost == math.inf else f"{lost:.0f} dB of signal to noise remain"
    comparison.notes.append(
        f"{len(taken)} weights are compressed, and the package is compared with the model that has the decompressed ones; on the "
        f"example compression itself loses: {far}"
    )


def _plain(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def argument_names(model: nn.Module, inputs: Inputs) -> list[str]:
    """The arguments that the inputs are for, as far as each is one tensor."""
    names = list(inspect.signature(model.forward).parameters)
    used = [*names[: len(inputs.args)], *inputs.kwargs]
    values = [*inputs.args, *inputs.kwargs.values()]
    return used if len(used) == len(values) and all(isinstance(value, Tensor) for value in values) else []


def _located(
    comparison: ProgramComparison, predictor: Predictor, project: Project, with_layers: bool
) -> tuple[FirstDifference | None, list[Layer]]:
    """The first difference, by the names that a conversion by trace or export gives its variables."""
    best: tuple[FirstDifference | None, list[Layer]] = (None, [])
    if comparison.mismatch is None and not with_layers:
        return best
    inputs = comparison.inputs
    for route in ("trace", "export"):
        try:
            with (
                comparison.reference.restored(inputs),
                captures(comparison.model, copied_inputs(inputs), Destination(), route) as sequence,
            ):
                captured = sequence[0]
        except NotConverted:
            continue
        seen = Locator(comparison, captured, project, by_name=True).located(predictor, None, with_layers)
        if len(seen[1]) > len(best[1]):
            best = seen
    return best

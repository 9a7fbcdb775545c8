"""A saved package to the verdict on it: executed, and compared with the model that it is said to be of."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from modellint.coreml import pixels
from modellint.coreml.comparison import Comparison, Undecided
from modellint.coreml.conversion import NotConverted, captures
from modellint.coreml.locate import Locator
from modellint.coreml.mil.compare import LIMIT
from modellint.coreml.mil.executor import UnknownOperations
from modellint.coreml.predictor import Predictor, is_half_in_states_alone
from modellint.coreml.private_mil import Image, images, is_rounded, read_package
from modellint.coreml.reference import copied_inputs
from modellint.coreml.verification import AGREES, DIFFERS, UNDECIDED, FirstDifference, Layer, Verification
from modellint.coreml.verify import BUDGET, RANDOM, so_far, told
from modellint.settings import Destination

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs import InputSpec
    from modellint.live.place import Project
    from modellint.live.subject import Inputs

_HALF_ERROR = 0.03
"""The error over the scale at which a package that computes in float16, or has compressed weights, is looked at."""


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
) -> Verification:
    """Compare a saved package with the model that it is said to be of; the rest is as for ``verify``.

    What the package takes as an image is fed as pixels. The model is called with what the package's own scaling makes of them
    or, where it does not agree on that, with what a decoded photo is: numbers from 0 to 1.

    Raises ``PackageError`` for a package that holds no program, or not all of it.
    """
    end = time.monotonic() + limit
    comparison = Comparison(model, inputs, specs, seed, budget, end=end)
    try:
        program, spec = read_package(path)
        taken = images(spec)
        if not taken:
            _tell(comparison, partly)
            return _compared(comparison, _predictor(program, model, inputs), project, with_layers)
        found = None
        for feed, predictor, said in _fed(program, taken, model, inputs, specs):
            comparison = Comparison(model, feed.inputs, specs, seed, budget, feed.cases(seed), end)
            _tell(comparison, partly)
            comparison.notes += said
            one = _compared(comparison, predictor, project, with_layers)
            if one.ok or found is None:
                found = one
            if one.ok:
                break
        assert found is not None
        return found
    except Undecided as error:
        return told(comparison, UNDECIDED, str(error), "package")


def _tell(comparison: Comparison, partly: Callable[[Verification], None] | None) -> None:
    if partly is not None:
        comparison.after = lambda: partly(so_far(comparison, "package"))


def _predictor(program: Any, model: nn.Module, inputs: Inputs, prepared: Mapping[str, Any] | None = None) -> Predictor:
    try:
        return Predictor(program, dict(model.named_buffers()), _names(model, inputs), prepared)
    except UnknownOperations as error:
        raise Undecided(f"the program cannot be executed: {error}") from None


def _fed(
    program: Any, taken: Mapping[str, Image], model: nn.Module, inputs: Inputs, specs: Sequence[InputSpec]
) -> Iterator[tuple[pixels.Feed, Predictor, list[str]]]:
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
    decoded = {at: pixels.of_photo(taken[names[at]]) for at in pixels.photos(inputs, specs) if names[at] in taken}
    for is_own in (True, False):
        scalings = {
            at: pixels.of_program(program, name) if is_own else pixels.of_photo(taken[name])
            for at, name in enumerate(names)
            if name in taken
        }
        feed = pixels.Feed(inputs, specs, scalings, decoded)
        prepared = {names[at]: one.pixels for at, one in scalings.items()}
        yield (
            feed,
            _predictor(program, model, inputs, prepared),
            [_told_of(names[at], taken[names[at]], one, is_own) for at, one in scalings.items()],
        )


def _told_of(name: str, image: Image, scaling: pixels.Scaling, is_own: bool) -> str:
    if not is_own:
        called = f"with {scaling}, as a decoded photo is: with the package's own scaling it does not agree"
    elif scaling.is_plain:
        called = "with the pixels, 0 to 255, as the package does not scale them"
    else:
        called = f"with what the package makes of the pixels, {scaling}"
    return f"the package takes {name} as an image ({image.layout}); the model is called {called}"


def _compared(comparison: Comparison, predictor: Predictor, project: Project, with_layers: bool) -> Verification:
    if comparison.is_random() and comparison.reference.drops:
        raise Undecided(RANDOM)
    halved = predictor if is_rounded(predictor.program) else None
    if is_half_in_states_alone(predictor.program):
        predictor = predictor.unrounded()
    is_half = predictor is halved
    comparison.limit = _HALF_ERROR if is_half else LIMIT
    comparison.over_cases(predictor, halved, "trace")
    comparison.over_steps(predictor, halved, "trace")
    half_ok = comparison.judged_half()
    if half_ok is None and is_half and not comparison.failure:
        comparison.mismatch = None
    first, layers = _located(comparison, predictor, project, with_layers)
    if is_half:
        comparison.forget_single()
    if first is None and comparison.mismatch is not None:
        comparison.notes.append(
            "where they first differ is not known: the package's names are not those of a conversion"
        )
    verdict, reason = AGREES, ""
    if comparison.mismatch is not None or half_ok is False:
        verdict, reason = DIFFERS, comparison.failure or "the package computes something else"
        if comparison.mismatch is None and not is_half:
            reason = "float16, which Core ML keeps states in, is not precise enough"
    shown = tuple(layers) if with_layers else ()
    return told(comparison, verdict, reason, "package", half_ok=half_ok, first_difference=first, layers=shown)


def _names(model: nn.Module, inputs: Inputs) -> list[str]:
    """The arguments that the inputs are for, as far as each is one tensor."""
    names = list(inspect.signature(model.forward).parameters)
    given = [*names[: len(inputs.args)], *inputs.kwargs]
    values = [*inputs.args, *inputs.kwargs.values()]
    return given if len(given) == len(values) and all(isinstance(one, Tensor) for one in values) else []


def _located(
    comparison: Comparison, predictor: Predictor, project: Project, with_layers: bool
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
                captures(comparison.model, copied_inputs(inputs), Destination(), route) as found,
            ):
                captured = found[0]
        except NotConverted:
            continue
        seen = Locator(comparison, captured, project, by_name=True).located(predictor, None, with_layers)
        if len(seen[1]) > len(best[1]):
            best = seen
    return best

"""A saved package to the verdict on it: executed, and compared with the model that it is said to be of."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from modellint.coreml.comparison import Comparison, Undecided
from modellint.coreml.conversion import NotConverted, captures
from modellint.coreml.locate import Locator
from modellint.coreml.mil.compare import LIMIT
from modellint.coreml.mil.executor import UnknownOperations
from modellint.coreml.predictor import Predictor
from modellint.coreml.private_mil import PackageError, images, is_rounded, read_package
from modellint.coreml.reference import copied_inputs
from modellint.coreml.verification import AGREES, DIFFERS, UNDECIDED, FirstDifference, Layer, Verification
from modellint.coreml.verify import BUDGET, RANDOM, told
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
) -> Verification:
    """Compare a saved package with the model that it is said to be of; the rest is as for ``verify``."""
    comparison = Comparison(model, inputs, specs, seed, budget)
    try:
        return _compared(comparison, path, project, with_layers)
    except (Undecided, PackageError) as error:
        return told(comparison, UNDECIDED, str(error), "package")


def _compared(comparison: Comparison, path: str, project: Project, with_layers: bool) -> Verification:
    program, spec = read_package(path)
    taken = images(spec)
    if taken:
        raise Undecided(f"the package takes images ({', '.join(taken)}), whose scaling the model does not tell")
    if comparison.is_random() and comparison.reference.drops:
        raise Undecided(RANDOM)
    try:
        predictor = Predictor(
            program, dict(comparison.model.named_buffers()), _names(comparison.model, comparison.inputs)
        )
    except UnknownOperations as error:
        raise Undecided(f"the program cannot be executed: {error}") from None
    is_half = is_rounded(program)
    comparison.limit = _HALF_ERROR if is_half else LIMIT
    comparison.over_cases(predictor, predictor if is_half else None, "trace")
    comparison.over_steps(predictor, "trace")
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

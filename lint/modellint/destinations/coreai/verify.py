"""Verification for Core AI: a model converted, run by Apple's interpreter, and compared with PyTorch by the same judgement as any."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from modellint.destinations.capture.torch_export import Origin
from modellint.destinations.comparison.comparison import Comparison, Undecided
from modellint.destinations.comparison.reference_runs import copied_inputs, nudged
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.coreai.conversion import Converted, Converter, reasons
from modellint.destinations.coreai.converter_process import Died, Failed
from modellint.destinations.coreai.example_run import stopping_nodes
from modellint.destinations.coreai.interpreted_program import program_of
from modellint.destinations.coreai.routes import ROUTE
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED, UNDECIDED, FirstDifference, Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.comparison.comparison import Mismatch
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs

BUDGET = 60.0
"""Seconds after which no further inputs are begun."""
_DIFFERS = "the converted program computes something else"
_RANDOM = "the model draws random numbers in evaluation mode, so that its outputs cannot be compared"
_TOGETHER = "which operation departs first is not known: none does once its value is an output"
_OF_STATES = "states start with the values of the model's buffers here; they are not in the package"


def verify(
    model: nn.Module,
    inputs: Inputs,
    project: Project,
    converter: Converter,
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    with_layers: bool = False,
    budget: float = BUDGET,
    limit: float = math.inf,
    progress: Callable[[str], None] | None = None,
    partly: Callable[[Verification], None] | None = None,
    record: Path | None = None,
) -> Verification:
    """Convert a model, unless its converter has, and compare; the model is left as it was. Operations are not compared.

    Nothing is recorded: ``check_record`` refuses that.
    """
    report = progress or _silent
    comparison = Comparison(model, inputs, specs, seed, budget, end=time.monotonic() + limit)
    try:
        report("running")
        is_random = comparison.is_random()
        report("converting")
        with at_rest(model, inputs):
            converted = converter.converted(model, copied_inputs(inputs), project)
        if converted.interface is None:
            return _result(comparison, NOT_CONVERTED, reasons(converted.blockers))
        if is_random:
            return _result(comparison, UNDECIDED, _RANDOM)
        report("comparing")
        return compared(comparison, converter, converted, partly)
    except Undecided as error:
        return _result(comparison, UNDECIDED, str(error))


def compared(
    comparison: Comparison,
    converter: Converter,
    converted: Converted,
    partly: Callable[[Verification], None] | None = None,
) -> Verification:
    """A package held against the model of a comparison. Raises ``Undecided``."""
    program = program_of(converter.process, converted, comparison.model)
    if program.is_stateful:
        comparison.notes.append(_OF_STATES)
    if partly is not None:
        comparison.after = lambda: partly(_result(comparison, *_so_far(comparison)))
    comparison.over_cases(program, None, ROUTE)
    comparison.over_steps(program, None, ROUTE)
    verdict, reason, alone = comparison.verdict(None)
    first = None
    if comparison.mismatch is not None:
        if comparison.failure:
            first = _located_stop(comparison, comparison.mismatch, converter, converted, program.stop)
        else:
            first = _located_difference(comparison, comparison.mismatch, converter, converted)
        reason = f"{comparison.failure}, on {comparison.mismatch.label}" if comparison.failure else _DIFFERS
    return _result(comparison, verdict, reason, alone, first)


def _located_difference(
    comparison: Comparison, mismatch: Mismatch, converter: Converter, converted: Converted
) -> FirstDifference | None:
    """The first operation that departs by itself, at its line: all values are outputs of one more program."""
    if mismatch.predictions > 1 or converted.places is None:
        return None
    inputs = mismatch.case.inputs
    leaves, around = (
        [leaf for leaf in comparison.leaves(each, ROUTE) if isinstance(leaf, Tensor)]
        for each in (inputs, nudged(inputs))
    )
    try:
        departed = converter.process.departure(converted.package, leaves, around)
    except (Died, Failed) as error:
        comparison.notes.append(f"which operation departs first is not known: one more program for that {error}")
        return None
    if departed is None:
        comparison.notes.append(_TOGETHER)
        return None
    node, off, shape = departed
    place, modules = converted.places.of(Origin(node.operator, node.frames, node.module))
    how = f"differs by {off:.2g} of its scale" if math.isfinite(off) else "gives other shapes, or what is not finite"
    message = f"`{node.name}`, made of {node.operator}, {how}"
    module = modules[0] if modules else ""
    return FirstDifference(
        "operation", message, None, node.name, node.operator, place, module, off, shape, mismatch.label
    )


def _located_stop(
    comparison: Comparison, mismatch: Mismatch, converter: Converter, converted: Converted, stop: Died | Failed | None
) -> FirstDifference | None:
    """The first operation that cannot be run, or at which the process ends."""
    if mismatch.predictions > 1 or converted.places is None or stop is None:
        return None
    leaves = comparison.leaves(mismatch.case.inputs, ROUTE)
    nodes = stopping_nodes(converter.process, converted.package, stop, leaves)
    if not nodes:
        return None
    node = nodes[0]
    place, modules = converted.places.of(Origin(node.operator, node.frames, node.module))
    how = f"ends the interpreter: it {stop}" if isinstance(stop, Died) else "cannot be run"
    message = f"`{node.name}`, made of {node.operator}, {how}"
    module = modules[0] if modules else ""
    return FirstDifference("run", message, None, node.name, node.operator, place, module, math.inf, (), mismatch.label)


def _so_far(comparison: Comparison) -> tuple[str, str]:
    if comparison.mismatch is None:
        return UNDECIDED, "not everything was compared"
    return DIFFERS, comparison.failure or _DIFFERS


def _result(
    comparison: Comparison, verdict: str, reason: str, single: str = "", first: FirstDifference | None = None
) -> Verification:
    return Verification(
        verdict,
        reason if verdict != AGREES else "",
        ROUTE,
        comparison.outputs,
        single=single or verdict,
        first_difference=first,
        cases=tuple(comparison.cases),
        notes=(*comparison.notes, *comparison.remarks()),
    )


def _silent(stage: str) -> None:
    """Report no progress."""

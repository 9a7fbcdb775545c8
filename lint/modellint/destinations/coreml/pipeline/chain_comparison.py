"""Comparison of a chain: the stages' packages, executed one after another, against PyTorch's modules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.chain_module import Call, Chain, ChainError, ChainReference, StageFunction
from modellint.destinations.comparison.comparison import Undecided
from modellint.destinations.comparison.output_judgement import EXAMPLE
from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.comparison.reference_runs import copied_inputs
from modellint.destinations.comparison.rounding_tolerance import SYSTEMATIC
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.comparison.tensor_difference import SNR, compare
from modellint.destinations.coreml.mil.executor import UnknownOperations
from modellint.destinations.coreml.pipeline.stage_proxy import ExecutedStage
from modellint.destinations.coreml.verify.model import verification_of
from modellint.destinations.coreml.verify.program_comparison import ProgramComparison
from modellint.destinations.destination import PackageError, StagePackage
from modellint.live.capture.outputs import leaves_with_paths
from modellint.live.inputs.branch_boundary_sizes import Thresholds
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.inputs.variants import Case
from modellint.results.exported_pipeline import ChainComparison, Departure, StageCalls
from modellint.results.verification import DIFFERS, UNDECIDED


class _Step(NamedTuple):
    """What came of a call in a run of packages."""

    stage: str
    outputs: list[Tensor]


class _ChainProgram:
    """A chain of packages, as a comparison runs it."""

    is_stateful = False
    casts_beyond = False
    adds_in_order = False
    unreached = 0
    sides = 0
    thresholds = Thresholds()
    buffers: Mapping[str, str] = {}
    states: Mapping[str, Tensor] = {}
    updated: frozenset[str] = frozenset()

    def __init__(self, chain: Chain, stages: Mapping[str, ExecutedStage], calls: Sequence[Call]) -> None:
        self._chain = chain
        self._stages = stages
        self._calls = {name: [call for call in calls if call.stage == name] for name in stages}
        self.output_names: list[str] = []
        self.steps: list[_Step] = []
        """The calls of the last run."""

    def counted(self, leaves: Sequence[Any]) -> Mapping[Any, tuple[int, ...]]:
        """Nothing: bounds inside of stages are looked for where each is verified."""
        return {}

    def in_a_row(self, steps: Sequence[Sequence[Any]]) -> list[list[Tensor]]:
        """What the function returns, flat, with packages in the place of modules. Raises ``Misfit`` and ``RunError``."""
        return [self._run(inputs) for (inputs,) in steps]

    def _run(self, inputs: Inputs) -> list[Tensor]:
        self.steps = []
        for stage in self._stages.values():
            stage.begin()
        try:
            with at_rest(self._chain, inputs):
                returned = self._chain.called({name: self._calling(name) for name in self._stages}, inputs)
        except (Misfit, RunError):
            raise
        except ChainError as error:
            raise RunError(str(error)) from None
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            raise RunError(f"with the packages {self._chain.name} raises {type(error).__name__}: {text}") from error
        leaves = [(path, leaf) for path, leaf in leaves_with_paths(returned) if isinstance(leaf, Tensor)]
        self.output_names = [pytree.keystr(path) or self._chain.name for path, _ in leaves]
        return [leaf.detach().clone() for _, leaf in leaves]

    def _calling(self, name: str) -> StageFunction:
        count = 0

        def called(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            nonlocal count
            count += 1
            try:
                outputs = self._stages[name](Inputs(args, dict(kwargs)))
            except Misfit as error:
                raise Misfit(f"call {count} of {name}: {error}") from None
            except RunError as error:
                raise RunError(f"call {count} of {name}: {error}") from None
            known = self._calls[name]
            if not known:
                raise RunError(f"{name} is called, and was not by the chain in PyTorch")
            call = known[min(count, len(known)) - 1]
            if len(outputs) != len(call.outputs):
                raise RunError(f"{name} returns {len(call.outputs)} tensors, and its package {len(outputs)}")
            self.steps.append(_Step(name, [output.detach().clone() for output in outputs]))
            return call.returning(outputs)

        return called


class _ChainInputs(ProgramComparison):
    """A comparison whose program takes the inputs of a chain as they are."""

    def leaves(self, inputs: Inputs, route: str) -> list[Any]:
        """The inputs as the only leaf."""
        return [copied_inputs(inputs)]


def compare_chain(
    chain: Chain,
    inputs: Inputs,
    packages: Mapping[str, StagePackage],
    calls: Sequence[Call],
    returned: Sequence[Tensor],
    precision: str,
) -> ChainComparison:
    """Run a chain with packages, and compare what it returns with what it returns in PyTorch.

    Args:
        chain: With the modules as they were given.
        inputs: Of the chain, beside its stages.
        packages: Of all stages that it takes.
        calls: Those of a run in PyTorch.
        returned: What came of that run, flat.
        precision: That of the packages, ``fp16`` or ``fp32``.

    In float32 each element may be off by ten times what rounding does to the chain in PyTorch; what packages in float16 return has to
    have 30 dB. A chain that is another at each run, or that does not come to its packages, is undecided.
    """
    comparison = _ChainInputs(chain, inputs, seed=chain.seed, cases=[Case(EXAMPLE, inputs, True)])
    comparison.reference = ChainReference(chain, chain.seed)
    unused = [name for name in packages if name not in {call.stage for call in calls}]
    if unused:
        comparison.notes.append(f"{chain.name} does not call {', '.join(unused)}: what it returns says nothing of that")
    try:
        return _compared(comparison, chain, packages, calls, returned, precision)
    except Undecided as error:
        return ChainComparison(chain.name, verification_of(comparison, UNDECIDED, str(error), "package"))


def _compared(
    comparison: ProgramComparison,
    chain: Chain,
    packages: Mapping[str, StagePackage],
    calls: Sequence[Call],
    returned: Sequence[Tensor],
    precision: str,
) -> ChainComparison:
    again = comparison.reference(comparison.inputs)
    if [output.shape for output in again] != [output.shape for output in returned] or any(
        not bool(((first == second) | (first != first) & (second != second)).all())
        for first, second in zip(again, returned, strict=True)
    ):
        raise Undecided(f"{chain.name} returns something else at each run in PyTorch, whatever the seed")
    singles, halves = _executed(chain, packages, precision)
    single = _ChainProgram(chain, singles, calls)
    half = _ChainProgram(chain, halves, calls) if halves else None
    comparison.over_cases(single, half, "")
    written = half or single
    silent = {call.stage for call in calls} - {step.stage for step in written.steps}
    if silent and comparison.mismatch is None:
        raise Undecided(
            f"{chain.name} does not call {', '.join(sorted(silent))} with packages, though it does in PyTorch"
        )
    half_ok = comparison.judged_half()
    verdict, reason, alone = comparison.verdict(half_ok)
    stages = _stage_calls(calls, written.steps, halves or singles)
    first = None
    if verdict == DIFFERS:
        is_single = alone == DIFFERS
        run = single if is_single else written
        first = _departure(calls, run.steps, singles if is_single else halves or singles, is_single)
        reason = reason or "the chain of packages computes something else"
    verification = verification_of(
        comparison, verdict, reason, "package", half_ok=half_ok if half else None, single=alone
    )
    return ChainComparison(chain.name, verification, stages, first)


def _executed(
    chain: Chain, packages: Mapping[str, StagePackage], precision: str
) -> tuple[dict[str, ExecutedStage], dict[str, ExecutedStage]]:
    """The stages in float32, and as they are written where that is in float16, or keeps states so. Raises ``Undecided``."""
    singles = {name: _stage(chain, name, packages[name], packages[name].single, False) for name in chain.taken}
    if precision == "fp32" and not any(stage.keeps_states for stage in singles.values()):
        return singles, {}
    return singles, {name: _stage(chain, name, packages[name], packages[name].package, True) for name in chain.taken}


def _stage(chain: Chain, name: str, entry: StagePackage, package: Path, rounds: bool) -> ExecutedStage:
    try:
        return ExecutedStage(name, chain.stages[name], entry.example, package, rounds=rounds)
    except UnknownOperations as error:
        raise Undecided(f"the package of {name} cannot be executed: {error}") from None
    except PackageError as error:
        raise Undecided(str(error)) from None


def _alone(calls: Sequence[Call], stages: Mapping[str, ExecutedStage]) -> list[tuple[float, float]]:
    """For each call the error over the scale, and decibels, of the package on what PyTorch's module was given."""
    for stage in stages.values():
        stage.begin()
    measured = []
    for call in calls:
        try:
            measured.append(_far(stages[call.stage](call.inputs), call.outputs))
        except (Misfit, RunError):
            measured.append((math.inf, -math.inf))
    return measured


def _far(outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> tuple[float, float]:
    if len(outputs) != len(expected):
        return math.inf, -math.inf
    differences = [compare(output, right) for output, right in zip(outputs, expected, strict=True)]
    return max(each.error for each in differences), min(each.snr for each in differences)


def _together(calls: Sequence[Call], steps: Sequence[_Step]) -> list[tuple[float, float]]:
    """The same, as the chain of packages went; infinite from where it calls another stage."""
    measured = []
    for at, call in enumerate(calls):
        is_same = at < len(steps) and steps[at].stage == call.stage
        measured.append(_far(steps[at].outputs, call.outputs) if is_same else (math.inf, -math.inf))
    return measured


def _stage_calls(
    calls: Sequence[Call], steps: Sequence[_Step], stages: Mapping[str, ExecutedStage]
) -> tuple[StageCalls, ...]:
    alone, together = _alone(calls, stages), _together(calls, steps)
    names = dict.fromkeys(call.stage for call in calls)
    return tuple(
        StageCalls(
            name,
            sum(call.stage == name for call in calls),
            min(alone[at][1] for at, call in enumerate(calls) if call.stage == name),
            min(together[at][1] for at, call in enumerate(calls) if call.stage == name),
        )
        for name in names
    )


def _departure(
    calls: Sequence[Call], steps: Sequence[_Step], stages: Mapping[str, ExecutedStage], is_single: bool
) -> Departure | None:
    """The first call that departs by itself, else the first that does with what came before; None where none does."""
    for is_alone, measured in ((True, _alone(calls, stages)), (False, _together(calls, steps))):
        for at, (error, snr) in enumerate(measured):
            if (error > SYSTEMATIC) if is_single else (snr < SNR):
                name = calls[at].stage
                return Departure(
                    name,
                    sum(call.stage == name for call in calls[: at + 1]),
                    sum(call.stage == name for call in calls),
                    error,
                    snr,
                    is_alone,
                )
    return None

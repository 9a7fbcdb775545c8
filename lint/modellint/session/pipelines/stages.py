"""Export of a pipeline: each stage checked, exported and verified, and the chain of all packages compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint import destinations
from modellint.destinations.comparison.chain_module import Call, Chain, ChainError, recorded
from modellint.destinations.comparison.reference_runs import Raised, Reference
from modellint.destinations.destination import StagePackage
from modellint.destinations.export_options import SINGLE, OptionError
from modellint.results.exported_pipeline import ExportedPipeline, Stage
from modellint.session.building import Failed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from modellint.destinations.export_options import Options
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.results.diagnostic import Diagnostic
    from modellint.rule import Rule
    from modellint.session.messages import Answer
    from modellint.session.requested_actions import Session


class BuiltStage(NamedTuple):
    """A stage of a pipeline, ready to be exported."""

    name: str
    session: Session
    """Of this stage alone: its findings bear its target."""
    model: nn.Module
    inputs: Inputs | None
    """None for those of its first call in the chain."""
    rules: Mapping[str, Rule]


class _Recorded(NamedTuple):
    """A run of the chain in PyTorch."""

    chain: Chain
    calls: list[Call]
    returned: list[Tensor]


def export_pipeline(
    session: Session,
    stages: Sequence[BuiltStage],
    function: Callable[..., Any] | None,
    inputs: Inputs,
    options: Options,
    folder: Path,
) -> Answer:
    """Make a package of each stage, in a folder of its own in ``folder``, and compare the chain that a function makes of them.

    Args:
        session: Of the chain.
        stages: In their order.
        function: Takes stages by name, and returns tensors; None for no chain.
        inputs: What it takes beside them.
        options: Of all stages.
        folder: Where the packages are made, that of a stage as ``NAME/NAME.mlpackage``.

    The chain is run in PyTorch first: a stage that has no inputs takes those of its first call. It is compared where all stages
    convert.

    Raises:
        OptionError: For a function that does not fit the stages, and for a stage without inputs.
        Failed: Where the chain raises in PyTorch.
    """
    destination = session.request.destination
    run = None if function is None else _run(session, function, stages, inputs)
    diagnostics: list[Diagnostic] = []
    notes: list[str] = []
    packages: dict[str, StagePackage] = {}
    exported_stages: list[Stage] = []
    for stage, example in list(_examples(stages, run)):
        making = folder / stage.name
        making.mkdir()
        suffix = destinations.named(destination.name).suffix
        answer = stage.session.checked_export(
            stage.model,
            example,
            _options_of(stage, example, options, session.request.seed),
            making / f"{stage.name}{suffix}",
            stage.rules,
        )
        diagnostics += answer.diagnostics
        notes += answer.notes
        exported_stages.append(Stage(stage.name, answer.exported))
        if answer.exported is not None and answer.exported.converts:
            package = making / answer.exported.package
            single = making / SINGLE
            packages[stage.name] = StagePackage(example, package, single if single.is_dir() else package)
    chain = None
    if run is not None and len(packages) == len(stages):
        session.enter("comparing")
        chain = destinations.named(destination.name).compare_chain(
            run.chain, inputs, packages, run.calls, run.returned, destination.precision
        )
    session.notes += notes
    pipeline = ExportedPipeline(
        destination.target, destination.precision, tuple(exported_stages), chain, is_chained=function is not None
    )
    answer = session.answer([], pipeline=pipeline)
    return answer._replace(diagnostics=tuple(diagnostics))


def _run(session: Session, function: Callable[..., Any], stages: Sequence[BuiltStage], inputs: Inputs) -> _Recorded:
    modules = {stage.name: stage.model for stage in stages}
    session.enter("running")
    try:
        chain = Chain(function, modules, inputs, session.request.seed)
        return _Recorded(chain, *recorded(chain, inputs))
    except ChainError as error:
        raise OptionError(f"{session.request.target.text}: {error}") from None
    except Exception as error:
        raise Failed from error


def _examples(stages: Sequence[BuiltStage], run: _Recorded | None) -> Iterator[tuple[BuiltStage, Inputs]]:
    """Each stage with what it is exported with. Raises ``OptionError`` for one without."""
    for stage in stages:
        first = next((call for call in run.calls if call.stage == stage.name), None) if run is not None else None
        if stage.inputs is None and first is None:
            text = stage.session.request.target.text
            how = "the chain does not call it" if run is not None else "there is no --chain that calls it"
            raise OptionError(f"{text}: no inputs are given, and {how}: let its function return (module, inputs)")
        yield stage, stage.inputs if stage.inputs is not None else first.inputs  # type: ignore[union-attr]


def _options_of(stage: BuiltStage, example: Inputs, options: Options, seed: int) -> Options:
    """The options of one stage: states are asked of those that have any."""
    wanted = options._replace(keeps_single=True)
    if not options.states:
        return wanted
    try:
        return wanted._replace(states=bool(Reference(stage.model, seed).written(example)))
    except Raised:
        # The check will say so.
        return wanted

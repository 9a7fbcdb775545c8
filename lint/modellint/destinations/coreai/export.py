"""Export of a live model for Core AI: fixed, converted to a package, which is run and compared with the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.destinations.comparison.comparison import Comparison, Undecided
from modellint.destinations.comparison.reference_runs import Raised, Reference, copied_inputs
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.coreai.conversion import Converter, convert, reasons, shared_converter
from modellint.destinations.coreai.converter_process import Died, Failed
from modellint.destinations.coreai.routes import ROUTE
from modellint.destinations.coreai.verify import BUDGET, compared
from modellint.destinations.export_options import OptionError
from modellint.live.fix import fixed_copy
from modellint.results.exported import Attempt, Change, Exported, Feature
from modellint.results.verification import UNDECIDED, Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.export_options import Metadata, Options
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Verdict
    from modellint.settings import Destination


def check(model: nn.Module, inputs: Inputs, options: Options, seed: int = 0) -> None:
    """See that options fit Core AI and the model. Raises ``OptionError``."""
    for option, value in (
        ("--image", options.images),
        ("--labels", options.labels),
        ("--model-version", options.metadata.version),
        ("--input-description", options.metadata.inputs),
        ("--output-description", options.metadata.outputs),
    ):
        if value:
            raise OptionError(f"{option}: a package of Core AI has no such thing; leave it out, or export for Core ML")
    if options.output_names:
        try:
            outputs = len(Reference(model, seed)(inputs))
        except Raised:
            # The capture will say so.
            return
        if outputs != len(options.output_names):
            raise OptionError(
                f"--output-name: the model has {outputs} outputs, and {len(options.output_names)} names are given"
            )


def export(
    model: nn.Module,
    inputs: Inputs,
    destination: Destination,
    project: Project,
    options: Options,
    folder: Path,
    name: str,
    judge: Callable[[Subject], tuple[Verdict, ...]],
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    subject: Subject | None = None,
) -> Exported:
    """Save a package ``name`` in ``folder``, and compare it; the model is left as it was. Raises ``OptionError``.

    Of a ``subject`` of this model and these inputs the converter is shared, and what it has made.
    """
    report = progress or _silent
    check(model, inputs, options, seed)
    report("fixing")
    copy = fixed_copy(model, copied_inputs(inputs), destination, project, judge=judge)
    changes = (
        *(Change("fixed", fix.title, fix.modules, fix.exactness, fix.note, fix.code) for fix in copy.applied),
        *(Change("undone", fix.title, fix.modules, "", fix.note, fix.code) for fix in copy.undone),
    )
    path = folder / name
    shared = None if subject is None else shared_converter(subject)
    converter = Converter(None if shared is None else shared.process)
    report("converting")
    with at_rest(copy.model, inputs):
        converted = convert(
            converter.process,
            copy.model,
            copied_inputs(inputs),
            project,
            str(path),
            options.output_names,
            supplies=True,
            as_example=True,
            # That of the model as it is.
            known=None if shared is None or copy.applied or copy.left else shared.as_export,
        )
    changes = (*changes, *(Change(use.kind, use.operator, (), use.exactness) for use in converted.supplied))
    if converted.interface is None:
        stage = "capture" if converted.blockers and converted.blockers[0].kind == "capture" else "conversion"
        attempt = Attempt(ROUTE, stage, reasons(converted.blockers))
        return Exported("", "fp32", changes=changes, attempts=(attempt,), notes=copy.left, destination="coreai")
    report("comparing")
    comparison = Comparison(model, inputs, specs, seed, BUDGET)
    try:
        if comparison.is_random():
            raise Undecided("the model draws random numbers in evaluation mode")
        verification = compared(comparison, converter, converted)
    except Undecided as error:
        verification = Verification(UNDECIDED, str(error), ROUTE)
    try:
        if texts := _texts(options.metadata):
            converter.process.describe(str(path), texts)
        known = converter.process.features(str(path))
    except (Died, Failed) as error:
        verification = Verification(UNDECIDED, f"the package cannot be loaded: {error}", ROUTE)
        known = {}
    interface = converted.interface
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Exported(
        "",
        "fp32",
        ROUTE,
        changes,
        verification=verification,
        inputs=_features(known.get("inputs", {}), [taken for taken in interface.inputs if taken is not None]),
        outputs=_features(known.get("outputs", {}), interface.outputs),
        states=_features(known.get("states", {}), list(interface.states), "state"),
        size=size,
        notes=(*copy.left, *converted.notes, *_about_states(interface.states)),
        updates=tuple(interface.states.values()),
        destination="coreai",
        package=name,
    )


def _texts(metadata: Metadata) -> dict[str, str]:
    texts = {
        "author": metadata.author,
        "license": metadata.license,
        "model_description": metadata.description,
    }
    return {key: text for key, text in texts.items() if text}


def _features(
    known: Mapping[str, tuple[str, tuple[int, ...]]], names: Sequence[str], kind: str = "tensor"
) -> tuple[Feature, ...]:
    """What a package has of some names, in their order; a size below 0 may vary."""
    return tuple(
        Feature(name, kind, known[name][0], "x".join("?" if size < 0 else str(size) for size in known[name][1]))
        for name in names
        if name in known
    )


def _about_states(states: Mapping[str, str]) -> list[str]:
    buffers = [name for name in states.values() if not name.isdecimal()]
    if not buffers:
        return []
    return [
        f"the values that {', '.join(buffers)} start with are not in the package: give them with the first prediction"
    ]


def _silent(stage: str) -> None:
    """Report no progress."""

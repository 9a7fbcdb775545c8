"""Conversion of a model for Core AI: captured by ``torch.export`` here, decomposed and converted in the process of the converter."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from modellint.destinations.capture import (
    asserted_values,
    constant_scalars,
    selected_places,
    torch_export,
    unread_states,
)
from modellint.destinations.capture.blocker_places import BlockerPlaces, first_line, grouped
from modellint.destinations.capture.in_place_writes import is_written, writes_a_turned_view
from modellint.destinations.capture.preparation import apart, prepared
from modellint.destinations.capture.static_padding.program import padded
from modellint.destinations.capture.static_padding.sizes import is_of_values
from modellint.destinations.capture.torch_export import Origin
from modellint.destinations.coreai.converter_process import (
    ConverterProcess,
    Died,
    Failed,
    Frame,
    Hung,
    Interface,
    Refusal,
)
from modellint.live.analysis_cache import analysis
from modellint.results.conversion_verdict import Blocker, Supply

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject

SUFFIX = ".aimodel"
"""What the names of packages end in."""
_OF_VALUES = "some sizes depend on values: where one is 0, as nothing is chosen, Core AI's interpreter ends its process at some operators"
"""As measured: of what is computed element by element and joined or returned."""
_RAISED = (Exception, SystemExit)
"""What a model may raise while it is captured."""


class Captured(NamedTuple):
    """The program of a model, as an export converts it."""

    program: Any
    notes: tuple[str, ...] = ()
    """What was done to the model to capture it."""
    outputs: tuple[str, ...] = ()
    """The names of outputs, where the model returns them by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of outputs in a package."""
        return apart(self.outputs, self.program.graph_signature.user_inputs)


class Converted(NamedTuple):
    """A model that was converted, or why it was not."""

    package: str
    interface: Interface | None
    """None where it was not converted."""
    blockers: tuple[Blocker, ...] = ()
    complete: bool = True
    """Whether every operator was looked at."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """For the capture and the conversion."""
    supplied: tuple[Supply, ...] = ()
    """The decompositions of ours that took part."""
    notes: tuple[str, ...] = ()
    """What was done to the model to capture it."""
    places: BlockerPlaces | None = None
    """Of the model's nodes; None where it was not converted."""
    operators: frozenset[str] = frozenset()
    """Of the program that was converted, before they were decomposed."""
    as_export: Captured | None = None
    """Of a conversion ahead, where an export of the model as it is converts the same program."""


class Converter:
    """The process of the converter, and what it has made of one model; the model must not change between.

    ``supplies``: with decompositions of our own for what is missing, refused, or known to be wrong. ``ahead``: with those too, for
    the export that follows.
    """

    def __init__(self, process: ConverterProcess | None = None, supplies: bool = False, ahead: bool = False) -> None:
        self.process = process or ConverterProcess()
        self._supplies = supplies
        self._ahead = ahead
        self._converted: Converted | None = None
        if process is None:
            weakref.finalize(self, self.process.close)

    def converted(self, model: nn.Module, inputs: Inputs, project: Project) -> Converted:
        """The model converted once, as it is; it has to be at rest."""
        if self._converted is None:
            package = self.process.new_path(f"model{SUFFIX}")
            supplies, ahead = self._supplies, self._ahead
            self._converted = convert(self.process, model, inputs, project, package, supplies=supplies, ahead=ahead)
        return self._converted

    @property
    def as_export(self) -> Captured | None:
        """What an export of the model as it is converts, if it is known from a conversion ahead."""
        return None if self._converted is None else self._converted.as_export


@analysis
def shared_converter(subject: Subject) -> Converter:
    """The converter of a subject's model on its inputs, as it is."""
    return Converter(ahead=subject.is_exported)


def convert(
    process: ConverterProcess,
    model: nn.Module,
    inputs: Inputs,
    project: Project,
    package: str,
    names: Sequence[str] = (),
    supplies: bool = False,
    as_example: bool = False,
    ahead: bool = False,
    known: Captured | None = None,
) -> Converted:
    """Capture a model that is at rest, and convert it to a package; ``names`` are those of its outputs.

    ``supplies``: with decompositions of our own for what is missing, refused, or known to be wrong; ``ahead``: those are asked for
    next, and are made too if they are of the same program. ``as_example``: with the branches and numbers that the example's values
    lead to, if it cannot be captured else; such a package has to be compared. ``known``: what a capture for an export gives, if that is
    known.
    """
    import time

    places = BlockerPlaces(model, project)
    began = time.perf_counter()
    try:
        if supplies:
            found = known or captured(model, inputs, as_example)
            names = names or found.names
        else:
            found = Captured(torch_export.exported(model, inputs))
    except _RAISED as error:
        message = first_line(str(error)) or type(error).__name__
        return Converted(package, None, (Blocker("capture", None, message, places.raised(error)),), False)
    taken = time.perf_counter() - began
    program, notes, _ = found
    operators = frozenset(torch_export.operator_of(node) for node in program.graph.nodes if node.op == "call_function")
    as_export = _as_export(model, inputs, program) if ahead else None
    try:
        following = None if as_export is None else as_export.names
        prepared = process.prepare(program, package, names, supplies, following)
    except Died as error:
        nodes = () if isinstance(error, Hung) else process.crashing_nodes(package)
        return Converted(package, None, blockers_at(places, nodes, "crash", f"the converter {error}"), False)
    except Failed as error:
        return Converted(package, None, (Blocker("refused", None, str(error), places.of_model()),), False)
    blockers = tuple(grouped(_blocker(refusal, places) for refusal in prepared.refusals))
    seconds = taken, prepared.seconds
    return Converted(
        package,
        prepared.interface,
        blockers,
        prepared.complete,
        seconds,
        prepared.supplied,
        notes,
        places,
        operators,
        as_export,
    )


def _as_export(model: nn.Module, inputs: Inputs, program: Any) -> Captured | None:
    """What an export of a model captures, where it is the program of the model as it is; None where that cannot be said."""
    try:
        with prepared(model, inputs) as ready:
            is_same = ready.is_idle and all(map(_stays, program.graph.nodes))
    except _RAISED:
        return None
    return Captured(program, ready.notes, ready.outputs) if is_same else None


def _stays(node: Any) -> bool:
    """Whether what ``captured`` does to a program has nothing to do with a node."""
    if node.op == "placeholder":
        # A state, that is.
        return not is_written(node)
    if node.op == "get_attr" or node.target is torch.ops.aten.masked_select.default:
        return False
    if writes_a_turned_view(node):
        return False
    return node.target not in asserted_values.ASSERTIONS and not is_of_values(node.meta.get("val"))


def captured(model: nn.Module, inputs: Inputs, as_example: bool = False) -> Captured:
    """The program of a model in which what cannot be captured has something in its place.

    It gives tensors; they have names where the model returns them by name.
    """
    with prepared(model, inputs) as ready:
        program, asked = constant_scalars.exported(model, inputs, as_example)
    asserted_values.remove(program)
    unread = unread_states.remove(program)
    selected_places.by_tensors(program)
    program, changed = padded(program)
    of_values = (_OF_VALUES,) if constant_scalars.asks_for_values(program) else ()
    return Captured(program, (*ready.notes, *asked, *unread, *changed, *of_values), ready.outputs)


def blockers_at(places: BlockerPlaces, nodes: Sequence[Frame], kind: str, message: str) -> tuple[Blocker, ...]:
    """One reason why a model does not convert or run, at each of its nodes; of the model as a whole where none is known."""
    found: Sequence[Frame | None] = nodes or (None,)
    return tuple(grouped(_blocker(Refusal(kind, message, node), places) for node in found))


def _blocker(refusal: Refusal, places: BlockerPlaces) -> Blocker:
    node = refusal.node
    if node is None:
        return Blocker(refusal.kind, None, refusal.message, places.of_model())
    place, modules = places.of(Origin(node.operator, node.frames, node.module))
    return Blocker(refusal.kind, node.operator, refusal.message, place, modules)


def _by(blocker: Blocker) -> str:
    """What is known of the operator that ends a process, behind what that did."""
    if blocker.operator is None:
        return ""
    place = blocker.place
    where = "" if place is None or place.span is None else f" at line {place.span.row} of {PurePath(place.path).name}"
    return f" by {blocker.operator}{where}"


def reasons(blockers: Iterable[Blocker]) -> str:
    """Why a model does not convert, in a line."""
    told: dict[str, Any] = {}
    for blocker in blockers:
        what = blocker.operator if blocker.kind == "missing" and blocker.operator else blocker.message
        # What only an export converts, no finding tells the line of.
        told[what + _by(blocker) if blocker.kind == "crash" else what] = blocker.kind
    missing = [what for what, kind in told.items() if kind == "missing"]
    rest = [what for what, kind in told.items() if kind != "missing"]
    return "; ".join([*([f"no converter for {', '.join(missing)}"] if missing else []), *rest])

"""Conversion of a live model by one route, in float32 or float16, with nothing printed."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import torch

from modellint.destinations.capture import asserted_values, constant_scalars, unread_states
from modellint.destinations.capture.static_padding.program import padded
from modellint.destinations.capture.static_padding.sizes import is_of_values
from modellint.destinations.comparison.process_state_lock import TURN
from modellint.destinations.coreml.capture import (
    bfloat16_constants,
    computed_weights,
    functionalized_write_repair,
    node_name_collisions,
    raising_properties,
    routes,
    scripted_branch_folding,
)
from modellint.destinations.coreml.capture.shared_captures import SharedCaptures
from modellint.destinations.coreml.private.entry_points import ct, lowered_graph, registered, silence, specification
from modellint.destinations.coreml.private.failed_fusion import failed_fusion
from modellint.destinations.coreml.private.mil_programs import program_of
from modellint.destinations.coreml.private.pass_overhead import lean_passes
from modellint.destinations.export_options import STATES_SINCE

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreml.supplied_converters.registration import Used
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination

_TRACER_WARNING: type[Warning] = vars(torch.jit)["TracerWarning"]
ROUTES = ("trace", "export", "decomposed")
"""``decomposed`` is an export with core ATen decompositions."""


class NotConverted(Exception):
    """A model is not converted by a route; ``stage`` is ``capture`` or ``conversion``, the message says why in one line."""

    def __init__(self, route: str, stage: str, message: str) -> None:
        super().__init__(message)
        self.route = route
        self.stage = stage


class TakenNumber(NamedTuple):
    """A statement that took a number or a branch out of a tensor while the model was traced."""

    path: str
    row: int
    message: str


class Captured(NamedTuple):
    """A captured model, ready to be converted more than once."""

    route: str
    captured: routes.Captured
    taken: tuple[TakenNumber, ...] = ()
    options: Mapping[str, Any] = {}
    """What `ct.convert` is given beside it: ``inputs`` instead of the captured types, ``states``, ``outputs``, ``classifier_config``."""
    outputs: tuple[str, ...] = ()
    """The names of its outputs, where the model gives them names."""
    notes: tuple[str, ...] = ()
    """What was done to the model to capture it."""


class Converted(NamedTuple):
    """A conversion's result."""

    route: str
    precision: str
    mlmodel: Any
    """coremltools' `MLModel`, not loaded."""
    program: Any
    """Its MIL program."""
    used: tuple[Used, ...] = ()
    """The converters of ours that took part."""


@contextmanager
def captures(
    model: nn.Module,
    inputs: Inputs,
    destination: Destination,
    route: str,
    supplied: bool = False,
    shared: SharedCaptures | None = None,
) -> Iterator[Sequence[Captured]]:
    """Capture a model, which is to be in evaluation mode, by ``trace`` or ``export``, for one conversion after another.

    An export comes twice: without decompositions, and with those to core ATen operators; each is decomposed when it is asked
    for. ``supplied``: as a model that returns tensors only, and without the fast path of attention. What is among ``shared`` captures of
    the model as it is is not captured again, if it is the same. Raises ``NotConverted``.
    """
    if not supplied:
        yield _captured(model, inputs, destination, route, shared=shared)
        return
    from modellint.destinations.capture.preparation import prepared

    # Until the fast path is as it was, no other thread is to ask how it is.
    with TURN, ExitStack() as stack:
        try:
            with silence(), torch.no_grad():
                known = registered()
                ready = stack.enter_context(prepared(model, inputs, lambda name: name.lower() in known))
        except Exception as error:
            raise NotConverted(route, "capture", _said(error)) from error
        is_same = ready.is_idle and ready.is_plain and not (route == "trace" and ready.has_fast_path)
        same = shared if is_same else None
        sequence = _captured(model, inputs, destination, route, ready.outputs, ready.notes, same, True)
    yield sequence


class _Exports(Sequence[Captured]):
    """An export without decompositions, and with those to core ATen operators. Raises ``NotConverted`` where one fails.

    Where sizes are values and ours may be supplied, both once more with static ones.
    """

    def __init__(self, program: Any, outputs: tuple[str, ...], notes: tuple[str, ...], supplied: bool) -> None:
        self._programs = [(program, notes)]
        self._supplied = supplied
        self._outputs = outputs
        self._made: dict[int, Captured] = {}
        if supplied and any(is_of_values(node.meta.get("val")) for node in program.graph.nodes):
            static, changed = padded(program)
            if changed:
                self._programs.append((static, (*notes, *changed)))

    def __len__(self) -> int:
        return 2 * len(self._programs)

    @overload
    def __getitem__(self, at: int) -> Captured: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Captured]: ...
    def __getitem__(self, at: int | slice) -> Captured | Sequence[Captured]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        if at not in self._made:
            self._made[at] = self._captured(("export", "decomposed")[at % 2], bool(at % 2), *self._programs[at // 2])
        return self._made[at]

    def _captured(self, name: str, core: bool, program: Any, notes: tuple[str, ...]) -> Captured:
        try:
            with silence(), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = routes.decomposed(program, core)
                if self._supplied:
                    asserted_values.remove(exported.program)
                    bfloat16_constants.widen(exported.program)
                    functionalized_write_repair.restore(exported.program)
                    computed_weights.fold(exported.program)
                    node_name_collisions.part(exported.program)
                return Captured(name, exported, outputs=self._outputs, notes=notes)
        except Exception as error:
            raise NotConverted(name, "capture", _said(error)) from error


def _captured(
    model: nn.Module,
    inputs: Inputs,
    destination: Destination,
    route: str,
    outputs: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    shared: SharedCaptures | None = None,
    supplied: bool = False,
) -> Sequence[Captured]:
    target = specification(destination.ios)
    shared = shared or SharedCaptures()
    with silence(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if route == "trace":
                if supplied and raising_properties.are_any(model):
                    # What is shared is the capture of the model as it is.
                    shared = SharedCaptures()
                with raising_properties.left_out() if supplied else nullcontext():
                    traced, raised = shared.traced(model, inputs, target)
                    is_own = supplied and not isinstance(model, torch.jit.ScriptModule)
                    if is_own and not inputs.flexible and scripted_branch_folding.are_decided(traced.program):
                        with scripted_branch_folding.left_to_python():
                            traced, raised = SharedCaptures().traced(model, inputs, target)
                        scripted_branch_folding.fold(traced.program)
                        notes = (*notes, scripted_branch_folding.NOTE)
                if traced.problems:
                    raise NotConverted(route, "conversion", _first_line(traced.problems[0][1]))
                traced.lowered(lowered_graph(traced.program))
                return [Captured(route, traced, tuple(_taken(raised)), outputs=outputs, notes=notes)]
            if not supplied:
                return _Exports(shared.exported(model, inputs), outputs, notes, supplied)
            program, asked = constant_scalars.exported(model, inputs)
            # From iOS 18 on there are states, which other functions of a package may read.
            unread = unread_states.remove(program) if destination.ios < STATES_SINCE else ()
            return _Exports(program, outputs, (*notes, *asked, *unread), supplied)
        except NotConverted:
            raise
        except Exception as error:
            raise NotConverted(route, "capture", _said(error)) from error


def _taken(raised: Sequence[warnings.WarningMessage]) -> Iterator[TakenNumber]:
    for warning in raised:
        if issubclass(warning.category, _TRACER_WARNING):
            yield TakenNumber(warning.filename, warning.lineno, _first_line(str(warning.message)))


def convert(captured: Captured, destination: Destination, precision: str, supplied: bool = False) -> Converted:
    """Convert what was captured to ``fp32`` or ``fp16``; ``supplied``: with converters of ours. Raises ``NotConverted``."""
    if not supplied:
        return converted(captured, destination, precision)
    from modellint.destinations.coreml import supplied_converters

    with supplied_converters.supplied(destination) as ours:
        while True:
            try:
                return converted(captured, destination, precision, ours.pipeline)._replace(used=tuple(ours.used))
            except NotConverted as error:
                failed = failed_fusion(error.__cause__)
                if failed is None or ours.pipeline is None or failed not in ours.pipeline.passes:
                    raise
                ours.pipeline.remove_passes({failed})
                ours.forget()


def converted(captured: Captured, destination: Destination, precision: str, pipeline: Any = None) -> Converted:
    """Convert what was captured with the converters that coremltools has right now, and these passes. Raises ``NotConverted``."""
    compute_precision = ct.precision.FLOAT32 if precision == "fp32" else ct.precision.FLOAT16
    if isinstance(captured.captured, routes.Exported):
        captured.captured.number_nodes()
    try:
        with silence(), lean_passes(), torch.no_grad(), _own_tensors(captured.captured.program) as program:
            mlmodel = ct.convert(
                program,
                **_options(captured),
                convert_to="mlprogram",
                compute_precision=compute_precision,
                minimum_deployment_target=specification(destination.ios),
                pass_pipeline=pipeline,
                skip_model_load=True,
            )
    except Exception as error:
        raise NotConverted(captured.route, "conversion", _said(error)) from error
    return Converted(captured.route, precision, mlmodel, program_of(mlmodel))


def _options(captured: Captured) -> dict[str, Any]:
    """What `ct.convert` is given beside the program: the captured types and names, and what is wanted instead."""
    from modellint.destinations.capture.preparation import apart

    options = {"inputs": captured.captured.types, **captured.options}
    taken = {type_.name for type_ in options["inputs"] or ()}
    if isinstance(captured.captured, routes.Exported):
        taken.update(captured.captured.program.graph_signature.user_inputs)
    names = [ct.TensorType(name=name) for name in apart(captured.outputs, taken)]
    return {"outputs": names or None, **options}


@contextmanager
def _own_tensors(program: Any) -> Iterator[Any]:
    """A captured program that shares no tensor with the model.

    A pass of coremltools, `fuse_conv_bias`, negates in place what a convolution's bias absorbs: the statistics of a normalization
    behind it, in the model's own memory. The next conversion would start from those.
    """
    if isinstance(program, torch.jit.ScriptModule):
        yield copy.deepcopy(program)
        return
    tables = [program.state_dict, program.constants]
    kept = [dict(table) for table in tables]
    try:
        for table in tables:
            copies: dict[int, Any] = {}
            for name, value in table.items():
                if isinstance(value, torch.Tensor):
                    # What is tied stays tied.
                    table[name] = copies.setdefault(id(value), value.detach().clone())
        yield program
    finally:
        for table, before in zip(tables, kept, strict=True):
            table.update(before)


def _said(error: BaseException) -> str:
    text = _first_line(str(error))
    if isinstance(error, (ValueError, NotImplementedError, RuntimeError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " ".join(lines[0].split())[:300] if lines else ""

"""Dry run: whether coremltools converts a model, and everything that keeps it from doing so, without converting it."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from modellint.destinations.capture.blocker_places import BlockerPlaces, first_line, grouped
from modellint.destinations.capture.torch_export import bounds_of
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.coreml import installed_versions
from modellint.destinations.coreml.capture import routes
from modellint.destinations.coreml.capture.shared_captures import SharedCaptures
from modellint.destinations.coreml.dry_run.failing_fusion import failing_splits
from modellint.destinations.coreml.dry_run.rank_limit import wide_tensors
from modellint.destinations.coreml.private.entry_points import ct, silence, specification
from modellint.destinations.coreml.private.installed_capabilities import facts, known, lacks, limits
from modellint.destinations.coreml.private.probe_cache import remembered
from modellint.destinations.coreml.private.torch_front_end import Failure, FrontEnd
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.conversion_verdict import CAPTURES, ROUTES, Blocker, Verdict, choose
from modellint.settings import Destination

if TYPE_CHECKING:
    from modellint.destinations.coreml.convert.conversion import Captured as Conversion
    from modellint.destinations.coreml.supplied_converters.registration import Used

__all__ = ["Blocker", "Verdict", "choose", "dry_run", "supplied_run"]

_NO_OUTPUT = ("Only tensors, lists, tuples of tensors", "Tracer cannot infer type of", "Found <class")
"""How torch begins to say that it does not capture what a model returns."""
_VALUE = re.compile(r"^(Tracer cannot infer type of \w+)\(.*", re.DOTALL)
_OP = re.compile(r'\bOp "[^"]*" ')
_INPUT = re.compile(r'\b(Input \w+)="[^"]*"')
_NO_CONVERTER = re.compile(r"convert function for op '([\w.:]+)' not implemented")
_RAISED = (Exception, SystemExit)
"""What a model may raise while it is captured: a call of `sys.exit` ends no check."""


def dry_run(
    model: nn.Module,
    inputs: Inputs,
    route: str,
    destination: Destination,
    project: Project,
    captures: SharedCaptures | None = None,
) -> Verdict:
    """Judge a model by one route: everything that `ct.convert` would refuse, at the user's statements.

    Where the installed coremltools cannot be walked, `ct.convert` itself is run, which ends at the first refusal; the verdict says so.

    The model is captured in evaluation mode, on real tensors, unless it is among ``captures``, and left as it was. Nothing is
    raised, and nothing printed.
    """
    reason = _numpy_is_too_new(route)
    if reason is not None:
        return Verdict(route, None, reason=reason)
    try:
        doubts = distrusted()
        with silence(), at_rest(model, inputs):
            verdict = _Attempt(model, inputs, destination, project, doubts).judged(route, captures or SharedCaptures())
        return verdict._replace(limits=(*limits(), *filter(None, doubts.values())))
    except _RAISED as error:
        # A model may do anything, and a check of it has more to tell than this.
        return Verdict(route, None, reason=f"the dry run failed: {type(error).__name__}: {first_line(str(error))}")


def distrusted() -> Mapping[str, str]:
    """The routes whose front end cannot be walked as it is in the installed version, each with what is to be said beside `limits`.

    By these `ct.convert` itself is run. There are none where the version was measured. Where it was not, a front end has to have all the
    private names that the walk needs, and its verdicts on a few models to be those of `ct.convert`.
    """
    if known() is not None:
        return {}
    doubts: dict[str, str] = remembered(
        "distrusted", lambda: {route: text for route in ROUTES for text in _doubts(route)}
    )
    return doubts


def _doubts(route: str) -> Iterator[str]:
    """Why a front end cannot be walked: nothing, or one reason, empty where `limits` gives it."""
    if lacks(route):
        yield ""
        return
    from modellint.destinations.coreml.dry_run.self_test_models import MODELS, sample

    for build in MODELS:
        model, inputs = build().eval(), Inputs((sample(),))
        outcomes: list[bool | str | None] = []
        for asked_routes in ((), (route,)):
            attempt = _Attempt(model, inputs, Destination(), Project(Path(__file__).parent), asked_routes)
            try:
                with silence(), at_rest(model, inputs):
                    outcomes.append(attempt.judged(route, SharedCaptures()).convertible)
            except Exception as error:
                outcomes.append(type(error).__name__)
        if outcomes[0] != outcomes[1]:
            yield f"the dry run by {CAPTURES[route]} is wrong about {build.__name__}, so ct.convert is run, which ends at the first refusal"
            return


def supplied_run(
    model: nn.Module, inputs: Inputs, route: str, destination: Destination, project: Project
) -> tuple[Verdict, tuple[Used, ...]]:
    """Judge a model with all that an export supplies to coremltools: the verdict, and the supplied converters that took part.

    What only a pass of ours can tell, of tensors of more than five dimensions, is told by the conversion itself.
    """
    reason = _numpy_is_too_new(route)
    if reason is not None:
        return Verdict(route, None, reason=reason), ()
    from modellint.destinations.coreml.convert.conversion import NotConverted, captures

    outcome: tuple[Verdict, tuple[Used, ...]] = Verdict(route, False), ()
    try:
        with silence(), at_rest(model, inputs), captures(model, inputs, destination, route, supplied=True) as sequence:
            attempt = _Attempt(model, inputs, destination, project, distrusted())
            for at in range(len(sequence)):
                try:
                    outcome = attempt.supplied(sequence[at])
                except NotConverted:
                    continue
                if outcome[0].convertible:
                    break
    except _RAISED:
        # An export fails in the same way, and says why.
        return Verdict(route, False), ()
    return outcome


def _numpy_is_too_new(route: str) -> str | None:
    numpy, first = installed_versions.version("numpy"), facts().numpy_below
    if route != "trace" or numpy is None or first is None:
        return None
    if installed_versions.release(numpy) >= installed_versions.release(first):
        return f"numpy {numpy} breaks the conversion of many traced models by coremltools"
    return None


class _Attempt:
    """One dry run in progress: a model's capture, and coremltools' front end on what was captured."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        destination: Destination,
        project: Project,
        asked_routes: Container[str] = (),
    ) -> None:
        self._asked_routes = asked_routes
        self._model = model
        self._inputs = inputs
        self._destination = destination
        self._target = specification(destination.ios)
        self._half = destination.precision == "fp16"
        self._places = BlockerPlaces(model, project)

    def judged(self, route: str, captures: SharedCaptures) -> Verdict:
        """The verdict by a route; by export with core ATen decompositions where it fails without them."""
        if route == "trace":
            return self._verdict(route, lambda: captures.traced(self._model, self._inputs, self._target)[0])
        began = time.perf_counter()
        try:
            program = captures.exported(self._model, self._inputs)
        except _RAISED as error:
            return self._not_captured(route, error, (time.perf_counter() - began, 0.0))
        taken = time.perf_counter() - began, 0.0
        plain = self._verdict(route, lambda: routes.decomposed(program, core=False), taken)
        if plain.convertible:
            return plain
        core = self._verdict(route, lambda: routes.decomposed(program, core=True), plain.seconds)
        if core.convertible or (core.complete and len(core.blockers) < len(plain.blockers)):
            return core._replace(decomposed=True, undecomposed=plain.blockers)
        return plain._replace(seconds=core.seconds)

    def _verdict(
        self, route: str, capture: Any, before: tuple[float, float] = (0.0, 0.0), pipeline: Any = None
    ) -> Verdict:
        """What the front end says of one capture; ``before`` is what earlier ones took."""
        began = time.perf_counter()
        try:
            captured = capture()
        except _RAISED as error:
            return self._not_captured(route, error, (before[0] + time.perf_counter() - began, before[1]))
        ready = time.perf_counter()
        if captured.route in self._asked_routes:
            blockers = tuple(self._asked(captured, pipeline))
            seconds = before[0] + ready - began, before[1] + time.perf_counter() - ready
            return Verdict(route, not blockers, blockers, seconds=seconds, complete=not blockers)
        front_end = FrontEnd(
            captured.program, captured.types, captured, self._target, self._half and self._target >= ct.target.iOS16
        )
        for name, message in self._problems(captured):
            front_end.note("argument", None, message, name)
        program = front_end.run()
        failures = list(front_end.failures)
        if program is not None:
            failures += self._wide(program, front_end)
            # An export does without a pass that fails.
            failures += () if pipeline is not None else self._fused(program, front_end)
        seconds = before[0] + ready - began, before[1] + time.perf_counter() - ready
        blockers = tuple(grouped(self._blocker(failure, captured) for failure in failures))
        return Verdict(route, not blockers, blockers, seconds=seconds, complete=program is not None)

    def _problems(self, captured: routes.Captured) -> Sequence[tuple[str, str]]:
        """Arguments that `ct.convert` refuses; an export takes ranges for listed sizes, unless it is told of them."""
        if isinstance(captured, routes.Traced):
            return captured.problems
        values: dict[int | str, Any] = dict(enumerate(self._inputs.args))
        values.update(self._inputs.kwargs)
        return [*routes.problems_of_lists(values, bounds_of(self._inputs), self._target)]

    def supplied(self, captured: Conversion) -> tuple[Verdict, tuple[Used, ...]]:
        """The verdict on what was captured for an export, with converters of ours. Raises ``NotConverted``."""
        from modellint.destinations.coreml.convert.conversion import convert
        from modellint.destinations.coreml.supplied_converters import supplied

        with supplied(self._destination) as ours:
            verdict = self._verdict(captured.route, lambda: captured.captured, pipeline=ours.pipeline)
        if {blocker.kind for blocker in verdict.blockers} == {"rank"}:
            used = convert(captured, self._destination, "fp32", supplied=True).used
            return verdict._replace(convertible=True, blockers=()), used
        return verdict, tuple(ours.used)

    def _asked(self, captured: routes.Captured, pipeline: Any) -> Iterator[Blocker]:
        """What `ct.convert` itself stops at."""
        from modellint.destinations.coreml.convert import conversion

        if captured.problems:
            yield Blocker("argument", None, captured.problems[0][1], self._places.of_model())
            return
        try:
            conversion.converted(conversion.Captured(captured.route, captured), self._destination, "fp32", pipeline)
        except conversion.NotConverted as error:
            named = _NO_CONVERTER.search(str(error))
            origin = None if named is None else captured.made_by(named[1])
            if named is None or origin is None:
                operator = None if named is None else f"aten::{named[1]}"
                kind = "capture" if error.stage == "capture" else "missing" if named else "refused"
                yield Blocker(kind, operator, str(error), self._places.of_model())
                return
            place, modules = self._places.of(origin)
            yield Blocker("missing", origin.operator, str(error), place, modules)

    def _not_captured(self, route: str, error: BaseException, seconds: tuple[float, float]) -> Verdict:
        trouble = self._trouble()
        if trouble is not None:
            return Verdict(route, None, reason=f"the model does not run: {trouble}")
        kind = "argument" if isinstance(error, routes.Refused) else "capture"
        message = first_line(_VALUE.sub(r"\1", str(error))) or type(error).__name__
        if message.startswith(_NO_OUTPUT):
            kind = "output"
        place = self._places.raised(error, routes.__file__)
        return Verdict(route, False, (Blocker(kind, None, message, place),), seconds=seconds, complete=False)

    def _trouble(self) -> str | None:
        """Why the model does not run at all."""
        try:
            self._model(*self._inputs.args, **self._inputs.kwargs)
        except _RAISED as error:
            return f"{type(error).__name__}: {first_line(str(error))}"
        return None

    def _wide(self, program: Any, front_end: FrontEnd) -> Iterator[Failure]:
        for wide in wide_tensors(program, self._half):
            most = "dimensions; Core ML has at most five"
            if wide.operation is None:
                yield Failure("rank", None, f"the input {wide.name} has {wide.rank} {most}", wide.name)
            else:
                message = f"the result has {wide.rank} {most}, and no pass of coremltools merges them"
                yield Failure("rank", front_end.origin(wide.operation), message)

    def _fused(self, program: Any, front_end: FrontEnd) -> Iterator[Failure]:
        if not facts().fuses_any_reader:
            return
        for split, reason in failing_splits(program):
            message = f"a pass of coremltools, fuse_stack_split, fails at parts of what was stacked: {reason}"
            yield Failure("crash", front_end.origin(split), message)

    def _blocker(self, failure: Failure, captured: routes.Captured) -> Blocker:
        origin = None if failure.node is None else captured.origin(failure.node)
        message, detail = _cleaned(failure)
        if origin is None:
            place, modules = self._places.of_state(failure.value)
            return Blocker(failure.kind, None, message, place, modules, detail=detail)
        place, modules = self._places.of(origin)
        return Blocker(failure.kind, origin.operator, message, place, modules, detail=detail or origin.note)


def _cleaned(failure: Failure) -> tuple[str, str]:
    """The first line of a message without the names of nodes, and the target that it ends with."""
    message, detail = failure.message, ""
    if failure.kind == "target" and message.endswith("]"):
        message, _, detail = message[:-1].rpartition(" [")
    if failure.node is not None:
        message = message.replace(f"node {failure.node} (", "node (").replace(f"fx node {failure.node},", "fx node,")
    return first_line(_INPUT.sub(r"\1", _OP.sub("Op ", message))), detail

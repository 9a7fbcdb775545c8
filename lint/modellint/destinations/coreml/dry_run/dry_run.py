"""Dry run: whether coremltools converts a model, and everything that keeps it from doing so, without converting it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modellint.destinations.coreml import installed_versions
from modellint.destinations.coreml.capture import routes
from modellint.destinations.coreml.capture.shared_captures import SharedCaptures
from modellint.destinations.coreml.dry_run.rank_limit import wide_tensors
from modellint.destinations.coreml.private.entry_points import ct, silence, specification, unknown_version
from modellint.destinations.coreml.private.torch_front_end import Failure, FrontEnd
from modellint.live.code.class_source import place_of_attribute, place_of_class
from modellint.live.code.places import Project
from modellint.live.snapshot import Snapshot
from modellint.results.conversion_verdict import Blocker, Verdict, choose
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.destinations.coreml.convert.conversion import Captured as Conversion
    from modellint.destinations.coreml.supplied_converters import Used
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination

__all__ = ["Blocker", "Verdict", "at_rest", "choose", "dry_run", "supplied_run"]

_NO_OUTPUT = ("Only tensors, lists, tuples of tensors", "Tracer cannot infer type of", "Found <class")
"""How torch begins to say that it does not capture what a model returns."""
_VALUE = re.compile(r"^(Tracer cannot infer type of \w+)\(.*", re.DOTALL)
_OP = re.compile(r'\bOp "[^"]*" ')
_INPUT = re.compile(r'\b(Input \w+)="[^"]*"')
_RAISED = (Exception, SystemExit)
"""What a model may raise while it is captured: a call of `sys.exit` ends no check."""
SMALL = 256 * 1024**2
"""Bytes of parameters up to which their numbers are kept and restored."""


def dry_run(
    model: nn.Module,
    inputs: Inputs,
    route: str,
    destination: Destination,
    project: Project,
    captures: SharedCaptures | None = None,
) -> Verdict:
    """Judge a model by one route: everything that `ct.convert` would refuse, at the user's statements.

    The model is captured in evaluation mode, on real tensors, unless it is among ``captures``, and left as it was. Nothing is
    raised, and nothing printed.
    """
    reason = _not_judged(route)
    if reason is not None:
        return Verdict(route, None, reason=reason)
    try:
        with at_rest(model, inputs):
            return _Attempt(model, inputs, destination, project).judged(route, captures or SharedCaptures())
    except _RAISED as error:
        # A model may do anything, and a check of it has more to tell than this.
        return Verdict(route, None, reason=f"the dry run failed: {type(error).__name__}: {_first_line(str(error))}")


def supplied_run(
    model: nn.Module, inputs: Inputs, route: str, destination: Destination, project: Project
) -> tuple[Verdict, tuple[Used, ...]]:
    """Judge a model with all that an export supplies to coremltools: the verdict, and the supplied converters that took part.

    What only a pass of ours can tell, of tensors of more than five dimensions, is told by the conversion itself.
    """
    reason = _not_judged(route)
    if reason is not None:
        return Verdict(route, None, reason=reason), ()
    from modellint.destinations.coreml.convert.conversion import NotConverted, captures

    outcome: tuple[Verdict, tuple[Used, ...]] = Verdict(route, False), ()
    try:
        with at_rest(model, inputs), captures(model, inputs, destination, route, supplied=True) as sequence:
            attempt = _Attempt(model, inputs, destination, project)
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


def _not_judged(route: str) -> str | None:
    return unknown_version() or (_numpy_is_too_new() if route == "trace" else None)


def _numpy_is_too_new() -> str | None:
    numpy = installed_versions.version("numpy")
    if numpy is not None and installed_versions.release(numpy) >= (2, 4):
        return f"numpy {numpy} breaks the conversion of many traced models by coremltools"
    return None


class Rest:
    """A model's state before a run, to which it is brought back after each.

    The numbers in parameters are kept where they are small; a model that writes to its own large weights in evaluation
    mode is not known.

    Args:
        model: Of any mode.
        others: What else is restored, such as inputs that are not copied.
    """

    def __init__(self, model: nn.Module, *others: object) -> None:
        weight = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self._model = model
        self._snapshot = Snapshot(model, *others, values=weight <= SMALL)
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()] if weight > SMALL else []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """In evaluation mode, in silence, and with everything restored on leaving."""
        with ExitStack() as stack:
            stack.enter_context(silence())
            stack.enter_context(self._snapshot.restored())
            stack.callback(_restored, self._buffers)
            stack.enter_context(torch.no_grad())
            for module in self._model.modules():
                # An overridden `train` may do anything.
                vars(module)["training"] = False
            yield


@contextmanager
def at_rest(model: nn.Module, inputs: Inputs) -> Iterator[None]:
    """In evaluation mode, in silence, and with everything restored, as of ``Rest``."""
    with Rest(model, inputs).kept():
        yield


def _restored(saved: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, value in saved:
            if not torch.equal(tensor, value):
                tensor.copy_(value)


class _Attempt:
    """One dry run in progress: a model's capture, and coremltools' front end on what was captured."""

    def __init__(self, model: nn.Module, inputs: Inputs, destination: Destination, project: Project) -> None:
        self._model = model
        self._inputs = inputs
        self._destination = destination
        self._target = specification(destination.ios)
        self._half = destination.precision == "fp16"
        self._project = project
        self._paths: dict[int, list[str]] = {}
        self._modules: dict[str, nn.Module] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(module), []).append(path)
            self._modules[path] = module

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

    def _verdict(self, route: str, capture: Any, before: tuple[float, float] = (0.0, 0.0)) -> Verdict:
        """What the front end says of one capture; ``before`` is what earlier ones took."""
        began = time.perf_counter()
        try:
            captured = capture()
        except _RAISED as error:
            return self._not_captured(route, error, (before[0] + time.perf_counter() - began, before[1]))
        ready = time.perf_counter()
        front_end = FrontEnd(
            captured.program, captured.types, captured, self._target, self._half and self._target >= ct.target.iOS16
        )
        for name, message in captured.problems:
            front_end.note("argument", None, message, name)
        program = front_end.run()
        failures = list(front_end.failures)
        if program is not None:
            failures += self._wide(program, front_end)
        seconds = before[0] + ready - began, before[1] + time.perf_counter() - ready
        blockers = tuple(_grouped(self._blocker(failure, captured) for failure in failures))
        return Verdict(route, not blockers, blockers, seconds=seconds, complete=program is not None)

    def supplied(self, captured: Conversion) -> tuple[Verdict, tuple[Used, ...]]:
        """The verdict on what was captured for an export, with converters of ours. Raises ``NotConverted``."""
        from modellint.destinations.coreml.convert.conversion import convert
        from modellint.destinations.coreml.supplied_converters import supplied

        with supplied(self._destination) as ours:
            verdict = self._verdict(captured.route, lambda: captured.captured)
        if {blocker.kind for blocker in verdict.blockers} == {"rank"}:
            used = convert(captured, self._destination, "fp32", supplied=True).used
            return verdict._replace(convertible=True, blockers=()), used
        return verdict, tuple(ours.used)

    def _not_captured(self, route: str, error: BaseException, seconds: tuple[float, float]) -> Verdict:
        trouble = self._trouble()
        if trouble is not None:
            return Verdict(route, None, reason=f"the model does not run: {trouble}")
        kind = "argument" if isinstance(error, routes.Refused) else "capture"
        message = _first_line(_VALUE.sub(r"\1", str(error))) or type(error).__name__
        if message.startswith(_NO_OUTPUT):
            kind = "output"
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        place = self._project.place_of_rows(routes.since_capture(frames)) or self._class_place()
        return Verdict(route, False, (Blocker(kind, None, message, place),), seconds=seconds, complete=False)

    def _trouble(self) -> str | None:
        """Why the model does not run at all."""
        try:
            self._model(*self._inputs.args, **self._inputs.kwargs)
        except _RAISED as error:
            return f"{type(error).__name__}: {_first_line(str(error))}"
        return None

    def _wide(self, program: Any, front_end: FrontEnd) -> Iterator[Failure]:
        for wide in wide_tensors(program, self._half):
            most = "dimensions; Core ML has at most five"
            if wide.operation is None:
                yield Failure("rank", None, f"the input {wide.name} has {wide.rank} {most}", wide.name)
            else:
                message = f"the result has {wide.rank} {most}, and no pass of coremltools merges them"
                yield Failure("rank", front_end.origin(wide.operation), message)

    def _blocker(self, failure: Failure, captured: routes.Captured) -> Blocker:
        origin = None if failure.node is None else captured.origin(failure.node)
        message, detail = _cleaned(failure)
        if origin is None:
            place, modules = self._place_of_state(failure.value)
            return Blocker(failure.kind, None, message, place or self._class_place(), modules, detail=detail)
        place = self._project.place_of_rows(origin.frames)
        module = self._modules.get(origin.module)
        modules = (origin.module,) if module is None else tuple(self._paths[id(module)])
        if place is None:
            place = self._nearest_class(origin.module)
        return Blocker(failure.kind, origin.operator, message, place, modules, detail=detail or origin.note)

    def _place_of_state(self, name: str | None) -> tuple[Place | None, tuple[str, ...]]:
        """Where a parameter or buffer is bound."""
        for path, _ in (*self._model.named_parameters(), *self._model.named_buffers()) if name else ():
            if name in (path, f"p_{path.replace('.', '_')}", f"b_{path.replace('.', '_')}"):
                owner, _, attribute = path.rpartition(".")
                module = self._modules[owner]
                bound = place_of_attribute(type(module), attribute)
                return (None if bound is None else bound[1]), tuple(self._paths[id(module)])
        return None, ()

    def _nearest_class(self, path: str) -> Place | None:
        """The class line of the innermost module around ``path`` that is not torch's own."""
        parts = path.split(".") if path else []
        for end in range(len(parts), -1, -1):
            module = self._modules.get(".".join(parts[:end]))
            if module is not None and type(module).__module__.partition(".")[0] != "torch":
                return place_of_class(type(module))
        return None

    def _class_place(self) -> Place | None:
        return self._nearest_class("")


def _cleaned(failure: Failure) -> tuple[str, str]:
    """The first line of a message without the names of nodes, and the target that it ends with."""
    message, detail = failure.message, ""
    if failure.kind == "target" and message.endswith("]"):
        message, _, detail = message[:-1].rpartition(" [")
    if failure.node is not None:
        message = message.replace(f"node {failure.node} (", "node (").replace(f"fx node {failure.node},", "fx node,")
    return _first_line(_INPUT.sub(r"\1", _OP.sub("Op ", message))), detail


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " ".join(lines[0].split())[:300] if lines else ""


def _grouped(blockers: Iterator[Blocker]) -> Iterator[Blocker]:
    """Blockers of one cause at one place as one."""
    groups: dict[tuple[object, ...], Blocker] = {}
    for blocker in blockers:
        key = (blocker.kind, blocker.operator, blocker.place, blocker.message if blocker.place is None else None)
        known = groups.get(key)
        groups[key] = (
            blocker
            if known is None
            else known._replace(modules=tuple(dict.fromkeys((*known.modules, *blocker.modules))), count=known.count + 1)
        )
    return iter(groups.values())

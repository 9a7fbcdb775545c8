"""Alternatives: what else converts a model that `ct.convert` refuses, or turns into something else; tried, before it is told."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from modellint.live.conversion_analyses import verdicts
from modellint.results.conversion_alternatives_text import EXPORT
from modellint.results.conversion_verdict import NO_WAYS, ROUTES, Blocker, Supply, Verdict, Ways, choose
from modellint.settings import TARGETS

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreml.supplied_converters.registration import Used
    from modellint.destinations.destination import Fault
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.subject import Subject

_NEWEST_TRIED = 18
"""The iOS of the newest deployment target that is tried: what is newer has no more operations that a conversion needs."""
_HOPELESS = ("missing", "capture")
"""Kinds of blockers that no deployment target removes."""
_COSTS = 3.0
"""Time that one more dry run may take, as a multiple of what those before took together."""


def ways(subject: Subject, faults: Sequence[Fault] = (), end: float = math.inf) -> Ways:
    """What else converts the model of a subject.

    ``faults`` are the findings by which it converts to something else. Nothing is tried that might take longer than ``end``, by
    the clock of ``time.monotonic``.
    """
    chosen = choose(verdicts(subject), subject.destination.frontend)
    if chosen is None or chosen.convertible is None:
        return NO_WAYS
    search = _Search(subject, chosen, faults, end)
    return NO_WAYS if chosen.convertible and not search.lies(chosen.route) else search.ways()


class _Search:
    """Search for options under which one model converts."""

    def __init__(self, subject: Subject, chosen: Verdict, faults: Sequence[Fault], end: float) -> None:
        assert subject.inputs is not None and subject.judge is not None
        self._subject = subject
        self._inputs = subject.inputs
        self._judge = subject.judge
        self._chosen = chosen
        self._faults = faults
        self._end = end
        self._cost = _COSTS * sum(sum(verdict.seconds) for verdict in verdicts(subject))
        self._tried = {verdict.route: verdict for verdict in verdicts(subject)}

    def lies(self, route: str) -> bool:
        """Whether a finding says that a route leads to something else."""
        return any(route in fault.routes for fault in self._faults)

    def ways(self) -> Ways:
        """Everything that was tried and converts."""
        exported = self._exported()
        others = list(self._routes())
        if not (others and self._chosen.convertible):
            others += self._newer()
        if exported is None or (self._chosen.convertible and not exported.supplied):
            return Ways(tuple(others))
        return exported._replace(options=(EXPORT, *others))

    def _in_time(self) -> bool:
        return time.monotonic() + self._cost < self._end

    def _exported(self) -> Ways | None:
        """What an export supplies and fixes, if it converts the model then, and that answers what findings say of it."""
        from modellint.destinations.capture.single_precision import in_single_precision
        from modellint.live.inputs import constant_arguments

        with constant_arguments.bound(self._subject.model, self._inputs) as (inputs, _):
            ways = self._exported_with(inputs)
            if ways is None and self._in_time() and (single := in_single_precision(self._subject.model, inputs)):
                supplied = self._supplied(single.model, single.inputs)
                return None if supplied is None else Ways(supplied=supplied, fixed=("NUM007",))
            return ways

    def _exported_with(self, inputs: Inputs) -> Ways | None:
        from modellint.live.fix import fixed_copy

        subject = self._subject
        model = subject.model
        fixed: tuple[str, ...] = ()
        while self._in_time():
            supplied = self._supplied(model, inputs)
            if supplied is not None or fixed:
                return None if supplied is None else Ways(supplied=supplied, fixed=fixed)
            try:
                copy = fixed_copy(subject.model, inputs, subject.destination, subject.project, judge=self._judge)
            except Exception:
                # What cannot be copied, an export cannot fix either.
                return None
            model, fixed = copy.model, tuple(dict.fromkeys(change.code for change in copy.applied))
            if not fixed:
                return None
        return None

    def _supplied(self, model: nn.Module, inputs: Inputs) -> tuple[Supply, ...] | None:
        """The converters of ours that are needed by the first route that converts; None where none does."""
        from modellint.destinations.coreml.dry_run.dry_run import supplied_run

        subject = self._subject
        frontend = subject.destination.frontend
        for route in ROUTES if frontend == "auto" else (frontend,):
            verdict, used = supplied_run(model, inputs, route, subject.destination, subject.project)
            operators = {use.operator for use in used}
            left = [fault for fault in self._faults if fault.operator not in operators]
            if verdict.convertible and not any(route in fault.routes for fault in left):
                return tuple(self._needed(used))
        return None

    def _needed(self, used: Sequence[Used]) -> Iterator[Supply]:
        """What took part and is needed: not what is only more exact than coremltools' own."""
        refused = {blocker.operator for blocker in self._chosen.blockers}
        refused.update(fault.operator for fault in self._faults)
        for use in used:
            if use.kind == "supplied" or use.operator in refused:
                yield Supply(use.operator, use.exactness, use.kind)

    def _routes(self) -> Iterator[str]:
        """Other routes that convert, of which no finding says that they lie."""
        for route in ROUTES:
            if route == self._chosen.route or self.lies(route):
                continue
            if route not in self._tried and self._in_time():
                self._tried[route] = self._run(route, self._subject.destination.target)
            if route in self._tried and self._tried[route].convertible:
                yield f"--frontend {route}"

    def _newer(self) -> Iterator[str]:
        """The oldest newer deployment target for which it converts."""
        frontend = self._subject.destination.frontend
        chosen = self._chosen.route
        routes = [chosen, *(route for route in ROUTES if route != chosen and frontend == "auto")]
        for route in routes:
            if self.lies(route) or route not in self._tried:
                continue
            at = self._oldest(route, self._tried[route].blockers)
            if at is not None:
                needs_route = frontend == "auto" and route == "export" and self.lies("trace")
                yield f"--frontend {route} --deployment-target {at}" if needs_route else f"--deployment-target {at}"
                return

    def _oldest(self, route: str, blockers: Sequence[Blocker]) -> str | None:
        if not blockers or any(blocker.kind in _HOPELESS for blocker in blockers):
            return None
        targets = [blocker.detail for blocker in blockers if blocker.kind == "target"]
        needed = [TARGETS[target] for target in targets if target in TARGETS]
        newer = self._targets()
        if needed:
            first = next((target for target in newer if TARGETS[target] >= max(needed)), None)
            tries = [first] if first is not None else []
            tries += [target for target in newer[-1:] if target != first and TARGETS[target] > max(needed)]
        else:
            tries = newer[-1:]
        for at in tries:
            if not self._in_time():
                return None
            if self._run(route, at).convertible:
                if needed and at == tries[0]:
                    return at
                between = [target for target in newer if max(needed, default=0) <= TARGETS[target] < TARGETS[at]]
                older = (target for target in between if self._in_time() and self._run(route, target).convertible)
                return next(older, at)
        return None

    def _targets(self) -> list[str]:
        """Newer deployment targets of the same system, the oldest first."""
        subject = self._subject.destination
        system = re.sub(r"\d+", "", subject.target)
        return [
            name
            for name, ios in TARGETS.items()
            if re.sub(r"\d+", "", name) == system and subject.ios < ios <= _NEWEST_TRIED
        ]

    def _run(self, route: str, target: str) -> Verdict:
        from modellint.destinations.coreml.capture.shared_captures import shared_captures
        from modellint.destinations.coreml.dry_run.dry_run import dry_run

        subject = self._subject
        destination: Any = subject.destination._replace(target=target)
        return dry_run(subject.model, self._inputs, route, destination, subject.project, shared_captures(subject))

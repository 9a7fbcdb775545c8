"""Fix of a live model: a copy of it, ready to be converted, with every change proven or else undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from modellint.live.conversion_analyses import verdicts
from modellint.live.fixes import (
    buffers,
    contiguous_state,
    evaluation_mode,
    hooks,
    parametrizations,
    prelu_replacement,
    proof,
    registration,
    wrappers,
)
from modellint.live.fixes.candidate_fix import BIT_EQUAL as BIT_EQUAL
from modellint.live.fixes.candidate_fix import Applied as Applied
from modellint.live.fixes.candidate_fix import Change
from modellint.live.fixes.copying import Copier, copied
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.snapshot import remembered, unchanged
from modellint.live.subject import Subject
from modellint.live.unregistered_state import Held, reachable_state

if TYPE_CHECKING:
    from modellint.live.code.places import Project
    from modellint.results.conversion_verdict import Verdict
    from modellint.settings import Destination

Judge = Callable[[Subject], "tuple[Verdict, ...]"]
_ROUNDS = 5
_TRIED = 12
"""How many changes of a kind are tried one by one, where all of them together do not hold."""
_UNPROVEN = "example_inputs are needed to prove it"


class FixedModel(NamedTuple):
    """A copy of a model in evaluation mode, with what was done to it."""

    model: nn.Module
    applied: tuple[Applied, ...]
    undone: tuple[Applied, ...]
    """What did not hold, or could not be proven, each with why."""
    left: tuple[str, ...] = ()
    """What else is to be known: what the copy has in common with the model, where it is another function."""


def fixed_copy(
    model: nn.Module, inputs: Inputs | None, destination: Destination, project: Project, *, judge: Judge
) -> FixedModel:
    """A copy of a model in which everything is mended that can be.

    Every change is proven on the inputs, and on others made of them: equal outputs and gradients, no key of `state_dict`
    lost. ``judge`` says what the destination refuses. The model is left as it was.
    """
    with unchanged(model, inputs, values=False):
        return _Fixer(model, inputs, destination, project, judge).fixed()


class _Fixer:
    """One fix in progress: the copy of the model, the changes that hold, and those that were undone."""

    def __init__(
        self, model: nn.Module, inputs: Inputs | None, destination: Destination, project: Project, judge: Judge
    ) -> None:
        self._original = model
        self._inputs = inputs
        self._destination = destination
        self._project = project
        self._judge = judge
        self._model = model
        self._current: Subject | None = None
        """The copy as it is now, with what analyses found in it; None behind a change."""
        self._runs = False
        """Whether it can be seen what the copy computes."""
        self._proof: proof.Proof | None = None
        self._keys: set[str] = set()
        self._refuted: set[tuple[str, tuple[str, ...], str]] = set()
        self.applied: list[Applied] = []
        self.undone: list[Applied] = []
        self.left: list[str] = []

    def fixed(self) -> FixedModel:
        """Copy, mend, and prove."""
        self._take_copy()
        self.applied.extend(evaluation_mode.evaluating(self._subject()))
        self._current = None
        self._keys = _keys_of(self._model)
        for find in (registration.changes, parametrizations.changes, buffers.changes, contiguous_state.changes):
            self._work(find)
        self._free_of_hooks()
        self._replace_prelu()
        return FixedModel(self._model, tuple(self.applied), tuple(self.undone), tuple(self.left))

    def _subject(self) -> Subject:
        """The copy; analyses are shared until it changes."""
        if self._current is None:
            self._current = self._subject_of(self._model)
        return self._current

    def _subject_of(self, model: nn.Module) -> Subject:
        has_values = not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
        inputs = self._inputs
        return Subject(model, inputs, self._project.root, self._destination, has_values=has_values, judge=self._judge)

    # The copy

    def _take_copy(self) -> None:
        """Copy the model without wrappers; in shells of their names where the model asks for those."""
        before = self._subject_of(self._original)
        wrapped = evaluation_mode.by_path(before)
        unwrapped = list(wrappers.removals(wrapped, in_shells=False))
        self._take(self._copied(before, wrappers.inside))
        if self._inputs is not None and self._subject().has_values:
            expected, observed = self._ran(before), self._ran(self._subject())
            if unwrapped and observed.error:
                bare = self._model
                self._take(self._copied(before, wrappers.in_shell))
                again = self._ran(self._subject())
                if again.error:
                    self._take(bare)
                else:
                    observed, unwrapped = again, list(wrappers.removals(wrapped, in_shells=True))
            self._runs = not observed.error
            if observed.error:
                self.left.append(f"the model does not run: {observed.error}")
            elif not expected.error and not proof.is_same(expected, observed):
                self.left.append("the copy gives other outputs than the model in evaluation mode")
        self.applied.extend(unwrapped)

    def _take(self, model: nn.Module) -> None:
        self._model, self._current = model, None

    def _copied(self, before: Subject, replaced: Callable[[nn.Module], nn.Module]) -> nn.Module:
        copier = Copier(self._original, replaced)
        copy: nn.Module = copied(copier, self._original)
        for reachable in reachable_state(before):
            for each in (reachable, *reachable.others):
                if each.on_class:
                    self._take_from_class(copier, each)
        kinds = sorted({type(each).__name__ for each in copier.shared})
        self.left[:] = [f"the copy has in common with the model: {', '.join(kinds)}"] if kinds else []
        return copy

    def _take_from_class(self, copier: Copier, reachable: Held) -> None:
        """Copy a value that a class holds into the object: model and copy would share it through their class."""
        owner = copier.memo.get(id(reachable.owner))
        if owner is not None and reachable.attribute not in vars(owner):
            vars(owner)[reachable.attribute] = copier.copy(getattr(type(reachable.owner), reachable.attribute))

    def _ran(self, subject: Subject) -> proof.Observed:
        """What a run of all in evaluation mode shows, those modules among them that `eval()` does not reach."""
        assert self._inputs is not None
        with unchanged(subject.model, values=False):
            for module in evaluation_mode.by_path(subject).values():
                vars(module)["training"] = False
            return proof.run(subject.model, self._inputs)

    # Changes

    def _begin_proof(self) -> None:
        """Record the reference: the outputs and gradients before the first change."""
        assert self._inputs is not None
        values = [reachable.value for reachable in reachable_state(self._subject())]
        values += evaluation_mode.by_path(self._subject()).values()
        tensors: dict[int, Tensor] = {}
        for value in values:
            for tensor in value.parameters() if isinstance(value, nn.Module) else (value,):
                if not is_lazy(tensor):
                    tensors.setdefault(id(tensor), tensor)
        self._proof = proof.Proof(self._model, self._inputs, tensors.values())
        # An overridden `train` may have broken it.
        self._runs = not self._proof.reference[0].error

    def _work(self, find: Callable[[Subject], Iterable[Change]]) -> None:
        """Search for changes and try them, until a search gives no new one."""
        for _ in range(_ROUNDS):
            new = [change for change in find(self._subject()) if _name(change) not in self._refuted]
            if not new:
                return
            self._try(new)

    def _try(self, changes: Sequence[Change]) -> None:
        """Try changes all at once; where they do not hold together, by halves or one by one."""
        if self._runs and self._proof is None:
            self._begin_proof()
        if not self._runs:
            for change in changes:
                self._refuse(
                    change, _UNPROVEN if self._inputs is None else "the model does not run: nothing can be proven"
                )
            return
        exactness, why = self._attempt(changes)
        if exactness:
            self.applied.extend(change.applied(exactness) for change in changes)
        elif len(changes) > 1:
            middle = len(changes) // 2 if len(changes) > _TRIED else 1
            for part in (changes[:middle], changes[middle:]):
                self._try(part)
        else:
            self._refuse(changes[0], why)
            if changes[0].otherwise is not None:
                self._try([changes[0].otherwise])

    def _refuse(self, change: Change, why: str) -> None:
        self._refuted.add(_name(change))
        self.undone.append(change.applied(note=why))

    def _attempt(self, changes: Sequence[Change]) -> tuple[str, str]:
        """Make changes and prove them: how equal the model is, or an empty word and the reason, with everything restored."""
        assert self._proof is not None
        restore = remembered(self._model)
        self._current = None
        try:
            for change in changes:
                change.apply()
            gone = self._keys - _keys_of(self._model)
            if gone and all(change.keeps_keys for change in changes):
                exactness, why = "", f"`state_dict` would lose {min(gone)!r}"
            else:
                exactness, why = self._proof.exactness(self._model, rounds=any(change.rounds for change in changes))
        except Exception as error:
            exactness, why = "", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if exactness:
            self._keys = _keys_of(self._model)
        else:
            restore()
        return exactness, why

    # What coremltools says

    def _free_of_hooks(self) -> None:
        candidates = list(hooks.changes(self._subject())) if self._runs else []
        before = self._uncaptured() if candidates else set()
        if not before:
            return
        if self._proof is None:
            self._begin_proof()
        for some in [*([change] for change in candidates), candidates]:
            restore = remembered(self._model)
            exactness, why = self._attempt(some)
            if not exactness:
                for change in some if len(some) == 1 else ():
                    self._refuse(change, f"perhaps the model is not captured with them, but {why}")
            elif self._uncaptured() < before:
                self.applied.extend(change.applied(note="the model is not captured with them") for change in some)
                return
            else:
                restore()
                self._current = None

    def _uncaptured(self) -> set[str]:
        """The routes that do not even capture the model."""
        frontend = self._destination.frontend
        return {
            verdict.route
            for verdict in verdicts(self._subject())
            if frontend in ("auto", verdict.route)
            and any(blocker.kind in ("capture", "output") for blocker in verdict.blockers)
        }

    def _replace_prelu(self) -> None:
        for _ in range(_ROUNDS):
            subject = self._subject()
            if not self._runs or not prelu_replacement.candidates(subject):
                return
            refused = prelu_replacement.refused(verdicts(subject), self._destination.frontend)
            candidates = [
                change for change in prelu_replacement.changes(subject, refused) if _name(change) not in self._refuted
            ]
            if not candidates:
                return
            self._try(candidates)


def _keys_of(model: nn.Module) -> set[str]:
    try:
        return set(model.state_dict())
    except Exception:
        # A class of the user's may save itself in its own way.
        return {name for name, _ in (*model.named_parameters(), *model.named_buffers())}


def _name(change: Change) -> tuple[str, tuple[str, ...], str]:
    return change.code, change.modules, change.title

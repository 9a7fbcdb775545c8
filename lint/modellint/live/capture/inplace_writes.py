"""In-place writes of a run, and those that a model converted from a trace loses.

Values of a TorchScript graph have no aliases: after `y.add_(1)` only `y` is a new value; views of `y`, and the tensor that `y` is
a view of, keep the old one. coremltools carries an assignment to a part of a tensor (`copy_` and `fill_` after slices and
numbers) back to the whole tensor, and nothing else. The replay of a run here follows the same rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import torch

from modellint.live.analysis_cache import analysis
from modellint.live.capture.data_dependence import facts_in, is_input
from modellint.live.capture.fake_tensor_run import captured_run
from modellint.live.capture.outputs import parts_of
from modellint.live.capture.records import Operator, Run, TensorFact
from modellint.live.subject import Subject
from modellint.results.diagnostic import Place

_FORM_ONLY = frozenset(
    f"aten::{name}_"
    for name in (
        *("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "detach", "requires_grad", "resize"),
        *("rename", "resize_as", "set", "retain_grad", "as_strided"),
    )
)
"""Operators that change the shape, strides or flags of a tensor in place, but no element."""
_ASSIGNING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
"""Operators that do not read what they write to."""
_FOLLOWED = frozenset({"aten::copy_", "aten::fill_"})
_PARTS = frozenset({"aten::select", "aten::slice", "aten::alias"})
_LARGEST = 1 << 26


class Write(NamedTuple):
    """One operator of a run that changes a tensor's memory."""

    operator: Operator
    target: TensorFact


class LostWrite(NamedTuple):
    """A write that a later reader of the memory does not see in a converted model."""

    operator: Operator
    reader: Operator | None
    """Who reads; None where it is an output."""

    @property
    def place(self) -> Place | None:
        """The user's statement that writes."""
        return self.operator.place


def writes(run: Run) -> Iterator[Write]:
    """The operators that change memory, with each tensor that they change."""
    for operator in run.operators:
        for target in _targets(operator):
            yield Write(operator, target)


@analysis
def lost_writes(subject: Subject) -> tuple[LostWrite, ...]:
    """The writes of the run that a model converted from a trace drops for somebody, each once; those to the model's state left out."""
    run = captured_run(subject)
    if run is None or run.failure is not None:
        return ()
    replay = _Replay(frozenset(_state(run)))
    lost: dict[int, LostWrite] = {}
    for at, operator in enumerate(run.operators):
        for write in replay.run(at, operator):
            lost.setdefault(write, LostWrite(run.operators[write], operator))
    for fact in facts_in([part.value for part in parts_of(run.output) if part.kind == "tensor"]):
        for write in replay.unseen(fact):
            lost.setdefault(write, LostWrite(run.operators[write], None))
    # An assignment that coremltools finds no way back from is refused, which is said elsewhere.
    return tuple(lost[at] for at in sorted(lost) if at not in replay.refused)


def input_writes(subject: Subject, run: Run) -> Iterator[tuple[str, Write]]:
    """The first write to each of the model's inputs, with the name of the argument."""
    names: dict[int, str] = {}
    for operator in run.operators:
        for fact in facts_in((operator.arguments, operator.keywords)):
            if is_input(fact) and fact.storage >= 0:
                names.setdefault(fact.storage, str(fact.name).removeprefix("input:"))
    arguments = list(inspect.signature(subject.model.forward).parameters)
    for write in writes(run) if names else ():
        name = names.pop(write.target.storage, None)
        if name is not None:
            at = int(name) if name.isdecimal() else None
            yield (arguments[at] if at is not None and at < len(arguments) else name), write


def _state(run: Run) -> Iterator[int]:
    """The memories of the model's own tensors, by the number of their storage."""
    for operator in run.operators:
        for fact in facts_in((operator.arguments, operator.keywords)):
            if fact.name is not None and not is_input(fact):
                yield fact.storage


def _targets(operator: Operator) -> Iterator[TensorFact]:
    base = operator.name.rpartition("::")[2]
    if base.endswith("_") and not base.endswith("__") and operator.name not in _FORM_ONLY and operator.arguments:
        yield from facts_in(operator.arguments[0])
    if "out" in operator.overload and "out" in operator.keywords:
        yield from facts_in(operator.keywords["out"])


class _Replay:
    """Replay of a run by the rules of a trace: for each tensor the writes that its value includes."""

    def __init__(self, apart: frozenset[int]) -> None:
        self._apart = apart
        self._written: dict[int, list[tuple[int, TensorFact, bool]]] = {}
        self._known: dict[int, frozenset[int]] = {}
        self._chains: dict[int, tuple[int, ...]] = {}
        """To a part of a tensor, first, that tensor, and what lies between, as coremltools' own pass keeps it."""
        self._empty: set[int] = set()
        self.refused: set[int] = set()

    def run(self, at: int, operator: Operator) -> Iterator[int]:
        """Replay one operator; yields the writes that it should see and does not."""
        targets = [fact for fact in _targets(operator) if fact.storage >= 0]
        operands = list(facts_in((operator.arguments, operator.keywords)))
        storages = {fact.storage for fact in operands}
        views = [fact for fact in operator.outputs if fact.storage in storages]
        if targets:
            assigns = operator.name in _ASSIGNING
            read = [fact for fact in operands if not (assigns and fact in targets)]
            for fact in read:
                yield from self.unseen(fact)
            for target in targets:
                self._write(at, operator, target)
        elif not views or len(views) < len(operator.outputs):
            for fact in operands:
                yield from self.unseen(fact)
        for fact in views if not targets else ():
            self._view(operator, fact, next(operand for operand in operands if operand.storage == fact.storage))
        for fact in operator.outputs:
            if fact.storage not in storages:
                self._known[fact.tensor] = frozenset()
                if operator.name == "aten::empty":
                    self._empty.add(fact.tensor)

    def unseen(self, fact: TensorFact) -> Iterator[int]:
        """The writes to a tensor's memory that its value in a trace does not include."""
        written = self._written.get(fact.storage)
        known = self._known.get(fact.tensor)
        if not written or known is None or fact.storage in self._apart:
            return
        for position, (at, target, _) in enumerate(written):
            if at in known or not _overlap(target, fact):
                continue
            # What was overwritten since by somebody known does not matter.
            if any(
                later in known and assigns and later_target.memory == target.memory
                for later, later_target, assigns in written[position + 1 :]
            ):
                continue
            yield at

    def _write(self, at: int, operator: Operator, target: TensorFact) -> None:
        known = self._known.get(target.tensor)
        if known is None:
            # Never seen before: it is taken to be what the memory holds.
            known = frozenset(write[0] for write in self._written.get(target.storage, ()))
        self._written.setdefault(target.storage, []).append((at, target, operator.name in _ASSIGNING))
        chain = self._chains.get(target.tensor)
        if operator.name not in _FOLLOWED:
            self._known[target.tensor] = known | {at}
        elif chain:
            # From here on the whole tensor stands for its part.
            root = chain[0]
            if root in self._known:
                self._known[root] |= {at}
            if target.tensor == root:
                self._known[root] = known | {at}
        else:
            self._known[target.tensor] = known | {at}
            if target.tensor not in self._empty:
                self.refused.add(at)

    def _view(self, operator: Operator, fact: TensorFact, source: TensorFact) -> None:
        known = self._known.setdefault(
            source.tensor, frozenset(write[0] for write in self._written.get(source.storage, ()))
        )
        if fact.tensor == source.tensor:
            return
        self._known[fact.tensor] = known
        if operator.name in _PARTS:
            chain = self._chains.pop(source.tensor, None)
            self._chains[fact.tensor] = (*chain, fact.tensor) if chain else (source.tensor, fact.tensor)


def _overlap(first: TensorFact, second: TensorFact) -> bool:
    """Whether two tensors of one storage share an element."""
    if 0 in first.shape or 0 in second.shape:
        return False
    if first.memory == second.memory:
        return True
    extent, beside = _extent(first), _extent(second)
    if extent is None or beside is None or extent[1] < beside[0] or beside[1] < extent[0]:
        return False
    start, end = min(extent[0], beside[0]), max(extent[1], beside[1])
    if end - start >= _LARGEST:
        return False
    touched = torch.zeros(end - start + 1, dtype=torch.bool)
    touched.as_strided(first.shape, first.strides, first.offset - start).fill_(True)
    return bool(touched.as_strided(second.shape, second.strides, second.offset - start).any())


def _extent(fact: TensorFact) -> tuple[int, int] | None:
    if not all(type(size) is int for size in (*fact.shape, *fact.strides, fact.offset)):
        return None
    last = fact.offset + sum((size - 1) * stride for size, stride in zip(fact.shape, fact.strides, strict=True))
    return fact.offset, last

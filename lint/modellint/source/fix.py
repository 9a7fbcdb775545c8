"""Apply the fixes of findings to a text, round after round, until none is left.

A round applies all fixes that do not get in each other's way and looks at the result again. Text that no longer
parses, or that a fix has not helped, is thrown away, and so is the fix, by name.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from modellint.atomic_write import ReplaceError as ReplaceError
from modellint.atomic_write import replace_file as replace_file
from modellint.results.diagnostic import Applicability, Diagnostic, Span
from modellint.source.syntax.edits import Change, EditError, apply, changes_of, shareable
from modellint.source.syntax.parse import Unparsable, parse
from modellint.source.syntax.source_text import SourceText

ROUNDS = 10
"""After so many rounds the text is left as it then is."""

_Check = Callable[[SourceText], tuple[Diagnostic, ...]]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after fixing.

    ``applied`` counts the findings fixed, by code; ``remaining`` are those of ``text``; ``problem`` tells, a
    line each, of fixes that could not be applied.
    """

    text: str
    remaining: tuple[Diagnostic, ...]
    applied: Mapping[str, int]
    rounds: int
    problem: str | None = None


def fix_text(source: SourceText, check: _Check, unsafe: bool = False) -> Fixed:
    """Apply every safe fix (and with ``unsafe`` those too) of what ``check`` finds, to a fix point."""
    return _Run(source, check, unsafe).to_the_end()


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A finding, and its fix as changes to the text at hand."""

    finding: Diagnostic
    changes: tuple[Change, ...]


@dataclass(slots=True)
class _Run:
    source: SourceText
    check: _Check
    unsafe: bool
    found: tuple[Diagnostic, ...] = ()
    rejected: set[object] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    applied: Counter[str] = field(default_factory=Counter)

    def to_the_end(self) -> Fixed:
        self.found = self.check(self.source)
        rounds = 0
        while steps := self._choose():
            if rounds == ROUNDS:
                codes = ", ".join(sorted({step.finding.code for step in steps}))
                self.problems.append(f"stopped after {ROUNDS} rounds, with more fixes to apply ({codes})")
                break
            rounds += self._round(steps)
        problem = "\n".join(dict.fromkeys(self.problems)) or None
        applied = dict(sorted(self.applied.items()))
        # What could not be applied is not offered again.
        remaining = tuple(
            finding.with_fix(None) if self._identity(finding) in self.rejected else finding for finding in self.found
        )
        return Fixed(self.source.text, remaining, applied, rounds, problem)

    def _choose(self) -> list[_Step]:
        """The fixes of one round, in the order of the text: none in another's way."""
        wanted = (Applicability.SAFE, Applicability.UNSAFE) if self.unsafe else (Applicability.SAFE,)
        chosen: list[_Step] = []
        taken: list[Change] = []
        furthest = -1
        for finding in sorted(self.found, key=lambda finding: finding.sort_key):
            fix = finding.fix
            if fix is None or fix.applicability not in wanted or self._identity(finding) in self.rejected:
                continue
            try:
                changes = changes_of(fix, self.source)
            except EditError as error:
                self._reject(finding, str(error))
                continue
            # Most stand behind all others: that these do not meet needs no look at each.
            if all(change.start > furthest or _fits(change, taken) for change in changes):
                chosen.append(_Step(finding, changes))
                taken.extend(changes)
                furthest = max(furthest, *(change.end for change in changes), *(change.start for change in changes))
        return chosen

    def _round(self, steps: list[_Step]) -> int:
        """Apply what can be applied of ``steps``: 1 if the text has changed, else 0 and a fix rejected."""
        valid = _Validity(self.source)
        steps = self._keep_valid(steps, valid)
        while steps:
            merged = _merge(steps)
            source = self.source.with_text(apply(self.source.text, merged))
            found = self.check(source)
            if _unchecked(found) > _unchecked(self.found):
                for step in steps:
                    self._reject(step.finding, "the result could not be checked")
                return 0
            if helpless := self._helpless(steps, merged, source, found):
                for step in helpless:
                    self._reject(step.finding, "it does not remove the finding")
                steps = [step for step in steps if step not in helpless]
                continue
            self.applied.update(step.finding.code for step in steps)
            self.source, self.found = source, found
            return 1
        return 0

    def _keep_valid(self, steps: list[_Step], valid: _Validity) -> list[_Step]:
        """As many of the fixes as leave valid text together; those that do not even alone are rejected."""
        kept: list[_Step] = []

        def admit(group: list[_Step]) -> None:
            trial = sorted([*kept, *group], key=steps.index)
            problem = valid.problem(apply(self.source.text, _merge(trial)))
            if problem is None:
                kept[:] = trial
            elif len(group) > 1:
                admit(group[: len(group) // 2])
                admit(group[len(group) // 2 :])
            else:
                # One that is valid alone waits for the next round.
                alone = valid.problem(apply(self.source.text, group[0].changes)) if kept else problem
                if alone is not None:
                    self._reject(group[0].finding, alone)

        admit(steps)
        return kept

    def _helpless(
        self, steps: list[_Step], merged: Sequence[Change], source: SourceText, found: Sequence[Diagnostic]
    ) -> list[_Step]:
        """The fixes after which their own finding still stands."""
        if source.text == self.source.text:
            return steps
        before, after = Counter(map(_subject, self.found)), Counter(map(_subject, found))
        gone = Counter(_subject(step.finding) for step in steps)
        stuck = {subject for subject in gone if after[subject] > before[subject] - gone[subject]}
        return [
            step
            for step in steps
            if _subject(step.finding) in stuck and self._still_there(step.finding, merged, source, found)
        ]

    def _still_there(
        self, finding: Diagnostic, merged: Sequence[Change], source: SourceText, found: Sequence[Diagnostic]
    ) -> bool:
        """Whether one of the new findings is this one: another of the same rule may have come up elsewhere."""
        if finding.attribute is not None or finding.span is None:
            return True
        low, high = _moved(self.source.offset(finding.span.row, finding.span.column), merged)
        text = _covered(self.source, finding.span)
        for other in found:
            if _subject(other) == _subject(finding) and other.span is not None:
                at = source.offset(other.span.row, other.span.column)
                if at == low or (low < at <= high and _covered(source, other.span) == text):
                    return True
        return False

    def _identity(self, finding: Diagnostic) -> object:
        """What tells a finding from the others in every round, though its row may change."""
        line = self.source.line(finding.span.row) if finding.span else ""
        return finding.code, finding.class_name, finding.attribute, finding.message, line

    def _reject(self, finding: Diagnostic, reason: str) -> None:
        self.rejected.add(self._identity(finding))
        row = f" for row {finding.in_cell(finding.span).row}" if finding.span else ""
        cell = "" if finding.cell is None else f" of cell {finding.cell}"
        self.problems.append(f"the fix of {finding.code}{row}{cell} was not applied: {reason}")


class _Validity:
    """Whether a text is as good Python as the one it came from, and can be written to the same file."""

    __slots__ = ("_compiles", "_source", "_survives")

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._compiles = compiles(source.text)
        # Text that never was a file may declare any encoding.
        self._survives = source.why_not_writable(source.text) is None

    def problem(self, text: str) -> str | None:
        """What is wrong with a new text, or None."""
        if self._survives and (problem := self._source.why_not_writable(text)):
            return problem
        if self._compiles:
            # Stricter than parsing: ``from __future__`` must stay first.
            return None if compiles(text) else "the text would no longer parse"
        try:
            parse(text)
        except (Unparsable, RecursionError):
            return "the text would no longer parse"
        return None


def compiles(text: str) -> bool:
    """Whether a text is a module of the running Python's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<fixed>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _fits(change: Change, taken: Sequence[Change]) -> bool:
    """Whether a change can be made beside those of other fixes."""
    for other in taken:
        if change == other and shareable(change):
            return True
    return not any(_collide(change, other) for other in taken)


def _collide(a: Change, b: Change) -> bool:
    if a.start < a.end and b.start < b.end:
        return a.start < b.end and b.start < a.end
    if a.start == a.end and b.start == b.end:
        # Whole lines can follow each other; what else two fixes insert at one place has no order.
        return a.start == b.start and not (_ends_line(a) and _ends_line(b))
    return a.start <= b.end and b.start <= a.end


def _ends_line(change: Change) -> bool:
    return change.content.endswith(("\n", "\r"))


def _merge(steps: Sequence[_Step]) -> list[Change]:
    """All changes in the order of the text; equal insertions of several fixes once."""
    merged: dict[tuple[Change, int], None] = {}
    for step in steps:
        seen: Counter[Change] = Counter()
        for change in step.changes:
            # The count keeps a bracket that one fix inserts twice.
            merged[change, seen[change]] = None
            seen[change] += 1
    return sorted((change for change, _ in merged), key=lambda change: (change.start, change.end))


def _moved(offset: int, merged: Sequence[Change]) -> tuple[int, int]:
    """Where an offset is after the changes: a range, if it lies in or at one of them."""
    shift = 0
    low: int | None = None
    high = 0
    for change in merged:
        grown = len(change.content) - (change.end - change.start)
        if change.start <= offset <= change.end:
            low = change.start + shift if low is None else low
            high = change.end + shift + grown
        elif change.start > offset:
            break
        shift += grown
    return (offset + shift, offset + shift) if low is None else (low, high)


def _covered(source: SourceText, span: Span) -> str:
    return source.text[source.offset(span.row, span.column) : source.offset(span.end_row, span.end_column)]


def _subject(finding: Diagnostic) -> tuple[str, str | None, str | None]:
    return finding.code, finding.class_name, finding.attribute


def _unchecked(found: Sequence[Diagnostic]) -> int:
    """How often the check says that it could not look: a finding may then be gone for that reason only."""
    return sum(finding.code in ("LNT002", "LNT004", "LNT005") for finding in found)

"""Merge of source findings and live findings: each once, without the source findings that a run disproved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modellint import destinations
from modellint.results.conversion_verdict import Conversion, Miscompilation
from modellint.results.diagnostic import Applicability, Diagnostic, Fix

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.run import Checker, Job
    from modellint.source.syntax.source_text import SourceText
    from modellint.source.syntax.suppressions import Suppressions


class LiveResult(NamedTuple):
    """The result of one live target's check. Files are named as findings name them."""

    target: str
    """As the user wrote it: ``model.py:Net``."""
    diagnostics: tuple[Diagnostic, ...] = ()
    executed: Mapping[str, frozenset[int]] = {}
    """File to the rows that ran for every instance in the target."""
    failed: bool = False
    """Whether the check ended early, so that nothing follows from what it does not report."""
    asked: frozenset[str] = frozenset()
    """Codes of the rules whose live side was asked and answered: silence of these means something."""
    conversion: Conversion | None = None
    """Of the target; None where nobody asked."""
    undecided: Mapping[str, frozenset[str]] = {}
    """For each class that has an instance the attributes of which no instance shows whether a guess about them is right."""


def merge(source: Sequence[Diagnostic], live: Sequence[LiveResult], rules: Mapping[str, Rule]) -> list[Diagnostic]:
    """The findings of source and of live targets, each defect once for each target that shows it, sorted.

    A finding of source that a target shows too gets evidence ``both`` and the paths of the modules; place, span and fix stay
    the source's. One of a rule that ``withdraws`` is dropped where a target ran its statement for every instance, asked
    the rule, and has enough in the attribute to tell, and no target shows it. A finding stands once for each target, since what
    it says of modules, and a verdict on the target, are that target's; ``report`` shows them as one.
    """
    by_code: dict[str, list[int]] = {}
    for index, guess in enumerate(source):
        rule = rules.get(guess.code)
        for code in (guess.code, *(rule.supersedes if rule is not None else ())):
            by_code.setdefault(code, []).append(index)
    confirmed: dict[int, dict[str, list[Diagnostic]]] = {}
    findings: list[Diagnostic] = []
    for result in live:
        for seen in result.diagnostics:
            same = _worst([index for index in by_code.get(seen.code, ()) if is_same(source[index], seen)], source)
            for index in same:
                confirmed.setdefault(index, {}).setdefault(result.target, []).append(seen)
            if not same:
                # A fix without edits only says that one of source would hold.
                fix = seen.fix if seen.fix is not None and seen.fix.edits else None
                findings.append(seen._replace(target=result.target, fix=fix))
    for index, guess in enumerate(source):
        if index in confirmed:
            for target, seen_there in confirmed[index].items():
                findings.append(_both(guess, seen_there, rules)._replace(target=target))
        elif not _is_withdrawn(guess, live, rules):
            findings.append(guess)
    return sorted(_most_specific(findings, rules), key=lambda finding: (finding.sort_key, finding.target or ""))


def _worst(same: list[int], source: Sequence[Diagnostic]) -> list[int]:
    """Of several source findings about one statement, the most severe: a live finding confirms one of them."""
    if len(same) < 2 or any(source[index].attribute is not None for index in same):
        return same
    worst = max(source[index].severity for index in same)
    return [index for index in same if source[index].severity is worst]


def miscompilations(
    diagnostics: Iterable[Diagnostic], rules: Mapping[str, Rule], destination: str = "coreml"
) -> tuple[Miscompilation, ...]:
    """The findings by which a model converts to something else, each with the routes by which it does."""
    known = destinations.named(destination)
    return tuple(
        Miscompilation(finding.code, finding.path, finding.span, routes)
        for finding in diagnostics
        if finding.code in rules and (routes := known.faults(finding, rules[finding.code].silent_by(finding)))
    )


def about(findings: Iterable[Diagnostic], result: LiveResult) -> Iterator[Diagnostic]:
    """The findings that are about a live target: its own, and those of source about lines that it ran."""
    for finding in findings:
        is_of_source = finding.target is None and finding.path is not None
        ran = result.executed.get(finding.path or "", frozenset()) if is_of_source else frozenset()
        if finding.target == result.target or not ran.isdisjoint(_rows(finding)):
            yield finding


def is_same(guess: Diagnostic, seen: Diagnostic) -> bool:
    """Whether a finding of source and a live one are about the same defect, their codes aside.

    For attributes class and attribute agree, for everything else file, line and operator. The classes may differ: source
    asks a class what it inherits, a live check names the class that binds it; there the statement decides.
    """
    if seen.path is not None and seen.path != guess.path:
        return False
    if guess.attribute is not None and seen.attribute is not None:
        if guess.attribute != seen.attribute:
            return False
        if guess.class_name is not None and guess.class_name == seen.class_name:
            return True
    elif guess.operator is not None and seen.operator is not None and guess.operator != seen.operator:
        return False
    return seen.path is not None and _overlap(guess, seen)


def _overlap(guess: Diagnostic, seen: Diagnostic) -> bool:
    if guess.span is None or seen.span is None:
        return False
    # A live place is a statement, that of a call in source may be a part of one.
    return bool(set(_rows(guess)) & set(_rows(seen)))


def _rows(finding: Diagnostic) -> range:
    from modellint.source.syntax.suppressions import last_row

    span = finding.span
    return range(0) if span is None else range(span.row, max(span.row, last_row(span)) + 1)


def _both(guess: Diagnostic, seen: Sequence[Diagnostic], rules: Mapping[str, Rule]) -> Diagnostic:
    worst = max(seen, key=lambda finding: finding.severity)
    exact = guess.code in rules and rules[guess.code].withdraws
    severity = worst.severity if exact and worst.code == guess.code else max(guess.severity, worst.severity)
    finding = guess._replace(
        severity=severity,
        # What a severity rests on is said with it.
        message=guess.message if severity == guess.severity else worst.message,
        help=guess.help or worst.help,
        evidence="both",
        modules=tuple(dict.fromkeys(path for finding in seen for path in finding.modules)),
        library=tuple(dict.fromkeys(place for finding in seen for place in finding.library)),
        operator=guess.operator or worst.operator,
    )
    fix = _proven(guess, seen)
    return rules[guess.code].with_fix(finding, fix) if guess.code in rules else finding.with_fix(fix)


def _proven(guess: Diagnostic, seen: Sequence[Diagnostic]) -> Fix | None:
    """The fix of a finding of source: safe where every live one is proven, and theirs where it has none."""
    proofs = [finding.fix for finding in seen if finding.code == guess.code]
    if not proofs or any(fix is None or fix.applicability is not Applicability.SAFE for fix in proofs):
        return guess.fix
    if guess.fix is None:
        return next((fix for fix in proofs if fix is not None and fix.edits), None)
    if guess.fix.applicability is Applicability.UNSAFE:
        return guess.fix._replace(applicability=Applicability.SAFE)
    return guess.fix


def _is_withdrawn(guess: Diagnostic, live: Iterable[LiveResult], rules: Mapping[str, Rule]) -> bool:
    rule = rules.get(guess.code)
    if rule is None or not rule.withdraws or guess.path is None:
        return False
    return any(
        not result.failed
        and guess.code in result.asked
        and _decides(result, guess)
        and not result.executed.get(guess.path, frozenset()).isdisjoint(_rows(guess))
        for result in live
    )


def _decides(result: LiveResult, guess: Diagnostic) -> bool:
    """Whether a target has an instance of the class that a guess is about, with enough in the attribute to tell."""
    if guess.attribute is None or guess.class_name is None:
        return True
    undecided = result.undecided.get(guess.class_name)
    return undecided is not None and guess.attribute not in undecided


def _most_specific(findings: list[Diagnostic], rules: Mapping[str, Rule]) -> list[Diagnostic]:
    """Drop what a more specific finding of the other side says too; each side has done so for its own."""

    def subject(finding: Diagnostic, code: str) -> tuple[object, ...]:
        if finding.attribute is not None:
            return code, finding.path, finding.class_name, finding.attribute
        return code, finding.path, finding.span

    beaten = {
        subject(finding, code)
        for finding in findings
        for code in (rules[finding.code].supersedes if finding.code in rules else ())
    }
    return [finding for finding in findings if subject(finding, finding.code) not in beaten]


def settled(
    checker: Checker, files: Collection[Path], source: Sequence[Diagnostic], live: Sequence[LiveResult]
) -> list[Diagnostic]:
    """One run's findings: those of ``files`` and of live targets merged, with comments and settings obeyed by both.

    ``source`` is what the check of ``files`` gave. Whether a comment is needed is judged anew where a target ran code
    of its file: one that only a live finding needs is in use, and one for a rule that has only a live side is unused where
    the lines it stands for ran.
    """
    job = checker.job
    checked = {job.shown(path): path for path in files}
    commented = dict(_commented(job, checked, live))
    bare = [guess for guess in source if guess.path not in commented or guess.path not in checked]
    for shown, (text, _) in commented.items():
        if shown in checked:
            bare.extend(_without_comments(checker, checked[shown], shown, text))
    allowed = [
        result._replace(diagnostics=tuple(finding for finding in result.diagnostics if _is_enabled(job, finding)))
        for result in live
    ]
    merged = merge(bare, allowed, job.rules)
    kept = [finding for finding in merged if finding.path not in commented]
    for shown, (_, suppressions) in commented.items():
        here = [finding for finding in merged if finding.path == shown]
        kept.extend(suppressions.apply(here)[0])
        if shown in checked:
            # A guess that is withdrawn here needs its comment where nothing runs.
            _, used = suppressions.apply([*here, *(guess for guess in bare if guess.path == shown)])
            kept.extend(_unused(checker, suppressions, used, checked[shown], shown, live))
    return sorted(kept, key=lambda finding: (finding.sort_key, finding.target or ""))


def _commented(
    job: Job, checked: Mapping[str, Path], live: Sequence[LiveResult]
) -> Iterator[tuple[str, tuple[SourceText, Suppressions]]]:
    """The files that live checks speak of and that hold comments of ours, by name."""
    from modellint.source.syntax.parse import Unparsable, parse
    from modellint.source.syntax.source_text import SourceText, Undecodable
    from modellint.source.syntax.suppressions import Suppressions, may_hold_directives

    spoken = {finding.path for result in live for finding in result.diagnostics if finding.path is not None}
    spoken |= {shown for result in live for shown in result.executed if shown in checked}
    for shown in sorted(spoken):
        try:
            text = SourceText.decode((job.folder / shown).read_bytes())
            if may_hold_directives(text.text):
                yield shown, (text, Suppressions.of(text, parse(text.text)))
        except (OSError, Undecodable, Unparsable, RecursionError):
            continue


def _without_comments(checker: Checker, path: Path, shown: str, text: SourceText) -> Iterator[Diagnostic]:
    settings = checker.job.resolver.of_folder(path.parent)
    rules = checker.job.rules_for(path, settings)
    checked = checker.check_text(text, path, shown, rules, settings, suppress=False)
    return (finding for finding in checked.diagnostics if finding.code in rules)


def _is_enabled(job: Job, finding: Diagnostic) -> bool:
    """Whether the settings in force at a live finding's place want its rule; without a place those of the root do."""
    path = None if finding.path is None else job.folder / finding.path
    if path is None or not path.is_relative_to(job.root):
        rule = job.rules.get(finding.code)
        return rule is not None and job.resolver.top.enables(finding.code, rule.default)
    return finding.code in job.reporting_on(path, job.resolver.of_folder(path.parent))


def _unused(
    checker: Checker,
    suppressions: Suppressions,
    used: frozenset[tuple[int, str]],
    path: Path,
    shown: str,
    live: Sequence[LiveResult],
) -> Iterator[Diagnostic]:
    from modellint.source.check import asked_in_source

    rules = checker.job.rules_for(path, checker.job.resolver.of_folder(path.parent))
    ran: dict[str, frozenset[int]] = {}
    for result in live:
        if not result.failed:
            for code in result.asked & rules.keys():
                ran[code] = ran.get(code, frozenset()) | result.executed.get(shown, frozenset())
    return suppressions.unused(used, asked_in_source(rules), shown, ran)

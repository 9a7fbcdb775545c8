"""Check of one live model: its subject to the findings of all live rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from modellint.live.capture.fake_tensor_run import captured_run
from modellint.live.conversion_analyses import execution, verdicts
from modellint.results.diagnostic import Diagnostic
from modellint.rule import answers

if TYPE_CHECKING:
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Verdict
    from modellint.rule import Rule


def live_rules(rules: Mapping[str, Rule]) -> list[Rule]:
    """The rules that have a live side."""
    return [rule for rule in rules.values() if hasattr(rule, "live")]


def findings_of(rule: Rule, subject: Subject) -> Iterator[Diagnostic]:
    """What the live side of one rule says of a subject."""
    from modellint.live.model_facts import LiveModel

    yield from answers(rule.live, LiveModel(subject))  # type: ignore[attr-defined]


def needs_of(rules: Mapping[str, Rule]) -> frozenset[str]:
    """What the live sides of the rules ask of a subject."""
    return frozenset(need for rule in live_rules(rules) for need in rule.live_needs.split())


class Examined(NamedTuple):
    """What all live rules say of one subject."""

    diagnostics: list[Diagnostic]
    asked: frozenset[str]
    """Codes of the rules that were asked and answered, with all that they look at before them."""
    verdicts: tuple[Verdict, ...] = ()
    """On the model's conversion, where a rule asks about it."""


def check_subject(subject: Subject, rules: Mapping[str, Rule]) -> list[Diagnostic]:
    """The findings of all rules whose needs the subject meets, each once with all its instances, sorted.

    A rule that raises becomes a finding (LNT004).
    """
    return examine(subject, rules).diagnostics


def examine(subject: Subject, rules: Mapping[str, Rule]) -> Examined:
    """Check a subject, and name the rules whose silence means that there is nothing to find."""
    met = {"environment", "structure"}
    if subject.has_values:
        met.add("values")
    if subject.inputs is not None:
        met.add("run")
    if subject.checkpoint is not None:
        met.add("checkpoint")
    if subject.may_convert:
        met.add("conversion")
    if subject.may_execute:
        met.add("execution")
    findings: list[Diagnostic] = []
    asked: set[str] = set()
    for rule in live_rules(rules):
        needs = rule.live_needs.split()
        if not met.issuperset(needs):
            continue
        try:
            findings.extend(findings_of(rule, subject))
        except Exception as error:
            from modellint.tool_diagnostics import rule_failed

            findings.append(rule_failed(rule, None, error)._replace(evidence="live"))
            continue
        # Of a run that ended early nobody saw the rest.
        if all(_is_seen(need, subject) for need in needs):
            asked.add(rule.code)
    ordered = sorted(united(_most_specific(findings, rules)), key=lambda finding: finding.sort_key)
    judged = verdicts(subject) if "conversion" in met & needs_of(rules) else ()
    return Examined(ordered, frozenset(asked), judged)


def _is_seen(need: str, subject: Subject) -> bool:
    """Whether a rule with this need saw all that there is to see."""
    if need == "run":
        run = captured_run(subject)
        return run is not None and run.failure is None
    if need == "conversion":
        return bool(verdicts(subject)) and all(
            verdict.convertible is not None and verdict.complete for verdict in verdicts(subject)
        )
    if need == "execution":
        verification = execution(subject)
        return verification is not None and verification.verdict in ("agrees", "differs")
    return True


def same(finding: Diagnostic) -> tuple[object, ...]:
    """What two live findings share that are the same one in several instances."""
    if finding.attribute is not None:
        return finding.code, finding.path, finding.class_name, finding.attribute
    return finding.code, finding.path, finding.span, finding.operator, finding.message


def united(findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings, each once, with the paths of all modules that show it; the worst severity counts."""
    groups: dict[tuple[object, ...], Diagnostic] = {}
    for finding in findings:
        key = same(finding)
        known = groups.get(key)
        if known is None:
            groups[key] = finding
        else:
            worst = max(known, finding, key=lambda each: each.severity)
            modules, library = (
                tuple(dict.fromkeys((*first, *second)))
                for first, second in ((known.modules, finding.modules), (known.library, finding.library))
            )
            groups[key] = worst._replace(modules=modules, library=library)
    return iter(groups.values())


def _most_specific(findings: list[Diagnostic], rules: Mapping[str, Rule]) -> list[Diagnostic]:
    beaten = {
        (code, finding.class_name, finding.attribute or (finding.path, finding.span))
        for finding in findings
        for code in (rules[finding.code].supersedes if finding.code in rules else ())
    }
    return [
        finding
        for finding in findings
        if (finding.code, finding.class_name, finding.attribute or (finding.path, finding.span)) not in beaten
    ]

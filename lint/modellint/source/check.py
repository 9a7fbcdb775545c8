"""One file's text to its findings."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from modellint.results.diagnostic import Diagnostic, Severity, Span
from modellint.rule import answers, registration_of
from modellint.settings import Destination
from modellint.source.project.symbols import ClassRef, IndexedFile
from modellint.source.syntax.parse import Unparsable
from modellint.source.syntax.suppressions import may_hold_directives
from modellint.source.triggers.class_prefilter import may_matter

if TYPE_CHECKING:
    from pathlib import Path

    from modellint.rule import Feature, Rule
    from modellint.settings import Settings
    from modellint.source.engine.class_state import TooLarge
    from modellint.source.facts.calling_contexts import Context
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.project.index import Project
    from modellint.source.syntax.ast_walk import Function
    from modellint.source.syntax.source_text import SourceText
    from modellint.source.triggers.words import Wanted, Words

_CLASS = re.compile(r"\bclass\b")


class Stopped(Exception):
    """A check was ended from outside: its project ``is_stopped``."""


class Checked(NamedTuple):
    """A file's findings, and the other project files they rest on.

    ``consulted`` maps the absolute path of every file that was asked for to the hex digest of its
    content, ``None`` when there was no such file.
    """

    diagnostics: tuple[Diagnostic, ...]
    consulted: Mapping[str, str | None]


def check_source(
    source: SourceText,
    path: Path | None,
    shown: str,
    settings: Settings | None,
    project: Project,
    rules: Mapping[str, Rule],
    gated: bool = True,
    suppress: bool = True,
) -> Checked:
    """Check one decoded file with the given rules.

    With ``gated`` off every module class is read, at many times the cost and with the same result; with ``suppress`` off
    comments that suppress findings are not heeded.
    ``path`` is where the file stands, from which its imports are followed; ``shown`` is how findings name it. A rule that
    raises becomes a finding (LNT004), text that cannot be parsed another (LNT002), a class whose reading was ended a third
    (LNT005). Raises ``Stopped``.
    """
    text = source.text
    goals = settings.goals if settings is not None else (Destination(),)
    project.touched.clear()
    suppressing = suppress and may_hold_directives(text)
    if not suppressing and not _CLASS.search(text) and "torch" not in text and not _asking(rules, goals[0]).about_nodes:
        return Checked((), {})
    location = str(path) if path is not None else str(project.root) + "/" + shown
    try:
        file = project.adopt(location, source)
    except Unparsable as error:
        finding = _cannot_parse(source, shown, error)
        if path is not None:
            from modellint.source.project.unparsed_file_relevance import is_apart_from_models

            if is_apart_from_models(project, location, text):
                message = f"{finding.message}; no file with a model imports this one"
                finding = finding._replace(message=message, severity=Severity.INFO)
        consulted = project.consulted()
        consulted.pop(location, None)
        return Checked((finding,), consulted)
    found: list[Diagnostic] = []
    for goal in goals:
        asked = {code: rule for code, rule in rules.items() if rule.reads_for(goal.name)} if goals[1:] else rules
        each = [finding._replace(path=shown) for finding in _findings(file, project, asked, shown, gated, goal)]
        # What holds for both is said once.
        found += [finding for finding in each if finding not in found] if found else each
    found = _most_specific(found, rules)
    if suppressing:
        found = _suppressed(found, source, file.tree, shown, rules)
    consulted = project.consulted()
    consulted.pop(location, None)
    return Checked(tuple(sorted(found, key=lambda finding: finding.sort_key)), consulted)


def _cannot_parse(source: SourceText, shown: str, error: Unparsable) -> Diagnostic:
    from modellint.tool_diagnostics import cannot_parse

    span = None
    if error.row is not None:
        row = min(max(error.row, 1), len(source.line_starts))
        column = min(max(error.column or 1, 1), len(source.line(row)) + 1)
        span = Span(row, column, row, column)
    return cannot_parse(shown, error.message, span)


_WITHOUT_BLOCKS = frozenset({ast.Expr, ast.Assign, ast.Return, ast.AnnAssign, ast.AugAssign, ast.ImportFrom, ast.Raise})


def classes_in(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, tuple[ast.AST, ...]]]:
    """Every class statement of a file, with the functions and classes around it."""
    pending: list[tuple[list[ast.stmt], tuple[ast.AST, ...]]] = [(tree.body, ())]
    while pending:
        body, within = pending.pop()
        for node in body:
            if node.__class__ in _WITHOUT_BLOCKS:
                continue
            inner = within
            if isinstance(node, ast.ClassDef):
                yield node, within
                inner = (*within, node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner = (*within, node)
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if block:
                    pending.append((block, inner))
            pending.extend((part.body, inner) for part in getattr(node, "handlers", ()))
            pending.extend((part.body, inner) for part in getattr(node, "cases", ()))


class _Asking(NamedTuple):
    """The rules of a run, by what they ask about, and what wakes them."""

    about_classes: list[Rule]
    about_code: list[Rule]
    about_nodes: list[Rule]
    wakes_on: set[Feature | None]
    wanted: list[Wanted]
    """By those about code."""
    wanted_nodes: list[Wanted]


def _asking(rules: Mapping[str, Rule], goal: Destination) -> _Asking:
    return _sorted_by_fact(tuple(rules.values()), goal)


@lru_cache(maxsize=8)
def _sorted_by_fact(rules: tuple[Rule, ...], goal: Destination) -> _Asking:
    about: dict[str, list[Rule]] = {"ModuleClass": [], "Code": [], "CSTNode": [], "": []}
    for rule in rules:
        about[registration_of(rule).fact].append(rule)
    wanted: list[Wanted] = []
    wanted_nodes: list[Wanted] = []
    if about["Code"] or about["CSTNode"]:
        from modellint.source.triggers.words import wanted_by

        wanted = [wanted_by(rule, goal) for rule in about["Code"]]
        wanted_nodes = [wanted_by(rule, goal) for rule in about["CSTNode"]]
    wakes_on = {rule.wakes_on for rule in about["ModuleClass"]}
    return _Asking(about["ModuleClass"], about["Code"], about["CSTNode"], wakes_on, wanted, wanted_nodes)


def _findings(
    file: IndexedFile, project: Project, rules: Mapping[str, Rule], shown: str, gated: bool, goal: Destination
) -> Iterator[Diagnostic]:
    asking = _asking(rules, goal)
    about_classes, about_code = asking.about_classes, asking.about_code
    words: Words | None = None
    if about_code and gated:
        from modellint.source.triggers.words import Words

        words = Words(file, project, asking.wanted)
    seen: set[tuple[str, int, int, str | None]] = set()

    def new(found: list[Diagnostic]) -> Iterator[Diagnostic]:
        for finding in found:
            span = finding.span
            key = (finding.code, span.row, span.column, finding.attribute) if span else (finding.code, 0, 0, None)
            # A base class's statement is met again in every class that derives from it.
            if key not in seen:
                seen.add(key)
                yield finding

    for node, within in classes_in(file.tree):
        if project.is_stopped:
            raise Stopped
        if not node.bases or node.name in file.patched:
            continue
        ref = ClassRef(file, node, within)
        if not project.is_module(ref):
            continue
        asked = words.asked_in(ref) if words is not None else about_code
        asked_classes = about_classes if not gated or may_matter(ref, project, asking.wakes_on) else []
        if asked or asked_classes:
            yield from new(_read(file, ref, project, asked_classes, asked, shown, goal))
    asked = words.asked_outside() if words is not None else [rule for rule in about_code if not rule.only_modules]
    if asked:
        yield from new(_read(file, None, project, [], asked, shown, goal))
    if about_code:
        yield from new(_read_abroad(file, project, about_code, words, shown, goal))
        yield from new(_read_entered(file, project, about_code, words, shown, goal))
    if asking.about_nodes:
        from modellint.source.triggers.words import Words

        asked = Words(file, project, asking.wanted_nodes).asked_anywhere() if gated else asking.about_nodes
        if asked:
            yield from new(_node_findings(file, asked, shown, goal))


def _read(
    file: IndexedFile,
    ref: ClassRef | None,
    project: Project,
    about_class: list[Rule],
    about_code: list[Rule],
    shown: str,
    goal: Destination,
) -> list[Diagnostic]:
    """The findings of one reading: of a class, or of what stands outside of module classes."""
    from modellint.source.facts.class_analysis import Reading

    reading = Reading(project, ref, file)
    # What methods do with the values that a class is built of comes behind the questions about these.
    of_class = _class_findings(ref, project, about_class, shown, reading) if about_class and ref is not None else []
    of_code = _code_findings(file, ref, project, about_code, shown, goal, reading) if about_code else []
    reading.close()
    findings = of_code + of_class
    if any(finding.severity is not Severity.INFO or finding.fix is not None for finding in findings):
        from modellint.source.roles.inference_path.finding_severity import weighed

        return weighed(findings, file, ref, project, {rule.code: rule for rule in (*about_code, *about_class)})
    return findings


def _read_abroad(
    file: IndexedFile, project: Project, about_code: list[Rule], words: Words | None, shown: str, goal: Destination
) -> list[Diagnostic]:
    """The findings in functions of a file that modules of other files run."""
    if not file.functions:
        return []
    if words is None:
        from modellint.source.triggers.words import Words, wanted_by

        words = Words(file, project, [wanted_by(rule, goal) for rule in about_code])

    def may_be_run(function: Function) -> bool:
        project.touch_tree()
        importers = project.mentions.importers(file.path, function.name)
        return bool(importers) and not words.is_named_by_classes(function.name)

    asked = words.asked_abroad(may_be_run)
    if not asked:
        return []
    from modellint.source.facts.calling_contexts import (
        contexts_of,
        hopeful_contexts,
        may_be_run_elsewhere,
        module_that_runs,
        that_lead_to,
    )
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.roles.code_roles import stands_beside_models

    if stands_beside_models(project, file):
        return []
    functions = [function for function in asked if may_be_run_elsewhere(project, file, function)]
    woken = {rule.code for function in functions for rule in asked[function]}
    rules = [rule for rule in about_code if rule.code in woken]

    def findings(contexts: list[Context]) -> list[Diagnostic]:
        if not contexts:
            return []
        reading = Reading(project, None, file)
        of_code = _code_findings(file, None, project, rules, shown, goal, reading, contexts)
        reading.close()
        return [finding for finding in of_code if any(finding.code == rule.code for rule in rules)]

    # Who calls what in the project is asked only where there would be something to say.
    hopeful = [finding for finding in findings(hopeful_contexts(functions)) if finding.severity is not Severity.INFO]
    rules = [rule for rule in rules if any(finding.code == rule.code for finding in hopeful)]
    rows = [finding.span.row for finding in hopeful if finding.span is not None]
    contexts = contexts_of(project, file, that_lead_to(file, functions, rows)) if rows else []
    known = findings(contexts)
    # What is written in the place of a finding has to suit those callers, too, that nobody has seen.
    fixes = {(finding.code, finding.span): finding.fix for finding in hopeful}
    for at, finding in enumerate(known):
        assert finding.span is not None
        fix = finding.fix if fixes.get((finding.code, finding.span)) == finding.fix else None
        says = f"`forward` of {module_that_runs(contexts, file, finding.span.row)} runs this"
        known[at] = finding._replace(fix=fix, help=f"{finding.help}; {says}" if finding.help else says)
    if not known:
        return []
    from modellint.source.roles.inference_path.finding_severity import weighed

    # What is off the path for other reasons is nothing that `forward` is known to run.
    return [
        finding
        for finding, before in zip(
            weighed(known, file, None, project, {rule.code: rule for rule in rules}), known, strict=True
        )
        if finding.severity is before.severity
    ]


def _read_entered(
    file: IndexedFile, project: Project, about_code: list[Rule], words: Words | None, shown: str, goal: Destination
) -> list[Diagnostic]:
    """The findings in methods that other modules run beside the `forward` of a class."""

    def may_be_run(name: str) -> bool:
        project.touch_tree()
        return project.mentions.is_called_on_parts(name)

    found: list[Diagnostic] = []
    for node, within in classes_in(file.tree):
        if not node.bases or within or node.name in file.patched:
            continue
        ref = ClassRef(file, node)
        if not project.is_module(ref):
            continue
        if words is None:
            from modellint.source.triggers.words import Words, wanted_by

            words = Words(file, project, [wanted_by(rule, goal) for rule in about_code])
        asked = words.asked_of_entries(ref, may_be_run)
        if asked:
            found += _entry_findings(ref, project, asked, about_code, shown, goal)
    return found


def _entry_findings(
    ref: ClassRef,
    project: Project,
    asked: Mapping[Function, list[Rule]],
    about_code: list[Rule],
    shown: str,
    goal: Destination,
) -> list[Diagnostic]:
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.facts.cross_module_methods import (
        entries_of,
        hopeful_entries,
        may_be_entered,
        module_that_enters,
    )
    from modellint.source.roles.inference_path.finding_severity import weighed

    functions = [function for function in asked if may_be_entered(function)]
    woken = {rule.code for function in functions for rule in asked[function]}
    rules = [rule for rule in about_code if rule.code in woken]

    def findings(contexts: list[Context]) -> list[tuple[Diagnostic, str]]:
        reading = Reading(project, ref, ref.file)
        of_code = _code_findings(ref.file, ref, project, rules, shown, goal, reading, contexts) if contexts else []
        reading.close()
        inside = ((finding, module_that_enters(contexts, ref, finding.span.row)) for finding in of_code if finding.span)
        return [(finding, module) for finding, module in inside if module is not None]

    # Who holds what in the project is asked only where there would be something to say.
    hopeful = [finding for finding, _ in findings(hopeful_entries(functions)) if finding.severity is not Severity.INFO]
    rules = [rule for rule in rules if any(finding.code == rule.code for finding in hopeful)]
    if not rules:
        return []
    known = findings(entries_of(project, ref, functions))
    # What is written in the place of a finding has to suit those callers, too, that nobody has seen.
    fixes = {(finding.code, finding.span): finding.fix for finding in hopeful}
    told: list[Diagnostic] = []
    for finding, module in known:
        fix = finding.fix if fixes.get((finding.code, finding.span)) == finding.fix else None
        says = f"`forward` of {module} runs this"
        told.append(finding._replace(fix=fix, help=f"{finding.help}; {says}" if finding.help else says))
    weights = weighed(told, ref.file, ref, project, {rule.code: rule for rule in rules})
    # What is off the path for other reasons is nothing that `forward` is known to run.
    return [finding for finding, before in zip(weights, told, strict=True) if finding.severity is before.severity]


def _code_findings(
    file: IndexedFile,
    ref: ClassRef | None,
    project: Project,
    rules: list[Rule],
    shown: str,
    goal: Destination,
    reading: Reading,
    contexts: Sequence[Context] = (),
) -> list[Diagnostic]:
    from modellint.source.engine.class_state import TooLarge
    from modellint.source.facts.function_facts import Code

    # What only asks for `forward` comes first: the same is known to it whatever else runs.
    ordered = sorted(rules, key=lambda rule: not rule.only_forward)
    try:
        code = Code(project, file, ref, goal, reading, contexts)
    except TooLarge as error:
        return [_not_read(file, ref, ordered, error, shown)]
    found: list[Diagnostic] = []
    for count, rule in enumerate(ordered):
        code.reading.whole = not rule.only_forward
        known = len(found)
        if code.project.is_stopped:
            raise Stopped
        try:
            found.extend(_answers(rule, code))
        except RecursionError:
            raise
        except TooLarge as error:
            # What is known from here on is known in part.
            del found[known:]
            found.append(_not_read(file, ref, ordered[count:], error, shown))
            break
        except Exception as error:
            place = code.rewriter.span(ref.node) if ref is not None else Span(1, 1, 1, 1)
            found.append(_rule_failed(rule, shown, error, place))
    code.close()
    return found


def _class_findings(
    ref: ClassRef, project: Project, rules: list[Rule], shown: str, reading: Reading
) -> list[Diagnostic]:
    from modellint.source.engine.class_state import TooLarge
    from modellint.source.facts.class_facts import ModuleClass

    try:
        cls = ModuleClass(project, ref, reading)
    except TooLarge as error:
        return [_not_read(ref.file, ref, rules, error, shown)]
    found: list[Diagnostic] = []
    for rule in rules:
        try:
            found.extend(_answers(rule, cls))
        except RecursionError:
            raise
        except Exception as error:
            found.append(_rule_failed(rule, shown, error, cls.rewriter.span(ref.node)))
    cls.close()
    return found


def _node_findings(file: IndexedFile, rules: list[Rule], shown: str, goal: Destination) -> list[Diagnostic]:
    """The findings of rules that are asked about nodes of libcst, which is loaded for them alone."""
    import libcst

    from modellint.source.cst_facts import CstFile

    try:
        cst_file = CstFile(file.source, file.path, goal)
    except (libcst.ParserSyntaxError, libcst.CSTLogicError, libcst.CSTValidationError) as error:
        return [_rule_failed(rule, shown, error, Span(1, 1, 1, 1)) for rule in rules]
    nodes = {rule: tuple(getattr(libcst, name) for name in registration_of(rule).nodes) for rule in rules}
    diagnostics: list[Diagnostic] = []
    for node in cst_file.nodes():
        for rule in [rule for rule in nodes if isinstance(node, nodes[rule])]:
            try:
                diagnostics.extend(_answers(rule, node, cst_file))
            except RecursionError:
                raise
            except Exception as error:
                diagnostics.append(_rule_failed(rule, shown, error, cst_file.span(node)))
                del nodes[rule]
    return diagnostics


def _answers(rule: Rule, *about: object) -> Iterable[Diagnostic]:
    ask: Callable[..., Iterable[Diagnostic]] = rule.source  # type: ignore[attr-defined]
    return answers(ask, *about) if rule.plugin else ask(*about)


def _rule_failed(rule: Rule, shown: str, error: BaseException, span: Span) -> Diagnostic:
    from modellint.tool_diagnostics import rule_failed

    return rule_failed(rule, shown, error, span)


def _not_read(file: IndexedFile, ref: ClassRef | None, rules: list[Rule], error: TooLarge, shown: str) -> Diagnostic:
    from modellint.source.syntax.edit_builder import Rewriter
    from modellint.tool_diagnostics import not_read

    span = Rewriter(file).span(ref.node) if ref is not None else Span(1, 1, 1, 1)
    name = ref.node.name if ref is not None else None
    return not_read(shown, name, [rule.code for rule in rules], error.steps, span)


def _most_specific(found: list[Diagnostic], rules: Mapping[str, Rule]) -> list[Diagnostic]:
    """Drop what a more specific finding about the same attribute or statement says too."""
    beaten = {
        (
            code,
            finding.class_name,
            finding.span if rules[finding.code].at_statements else finding.attribute or finding.span,
        )
        for finding in found
        for code in (rules[finding.code].supersedes if finding.code in rules else ())
    }
    if not beaten:
        return found
    return [
        finding
        for finding in found
        if beaten.isdisjoint((finding.code, finding.class_name, one) for one in (finding.attribute, finding.span))
    ]


def _suppressed(
    found: list[Diagnostic], source: SourceText, tree: ast.Module, shown: str, rules: Mapping[str, Rule]
) -> list[Diagnostic]:
    from modellint.source.syntax.suppressions import Suppressions

    suppressions = Suppressions.of(source, tree)
    kept, used = suppressions.apply(found)
    return [*kept, *suppressions.unused(used, asked_in_source(rules), shown)]


def asked_in_source(rules: Mapping[str, Rule]) -> set[str]:
    """The codes of which a source check can say that a suppression is not needed."""
    return {code for code, rule in rules.items() if registration_of(rule).fact or code == "LNT001"}

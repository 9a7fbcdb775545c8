"""JUnit's XML, as CI servers show results of tests: a suite for each file and live target, a test for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, SystemOut, TestCase, TestSuite

from modellint.report import live_findings
from modellint.report.formats import CheckResults
from modellint.report.formats.locations import described
from modellint.report.style import visible
from modellint.results.diagnostic import Diagnostic


def render(results: CheckResults) -> str:
    """The findings that make the run fail as failures, others as tests that pass and print them; what is clean as a test."""
    names = [*results.files, *(target for target, _ in results.targets)]
    by_name: dict[str, list[Diagnostic]] = {name: [] for name in names}
    for finding in results.diagnostics:
        by_name.setdefault(finding.path or finding.target or "the model", []).append(finding)
    document = JUnitXml("modellint")
    verdicts = dict(_verdicts(results))
    for name, findings in by_name.items():
        suite = TestSuite(visible(name))
        for finding in findings:
            suite.add_testcase(_case(finding, results.failing))
        if not findings:
            suite.add_testcase(TestCase("no finding", classname=visible(name), time=0))
        if verdicts.get(name):
            suite.append(SystemOut(visible(verdicts[name])))
        document.add_testsuite(suite)
    if problems := (*results.unchecked, *results.unread):
        suite = TestSuite("not checked")
        for problem in problems:
            case = TestCase(visible(problem), classname="modellint", time=0)
            case.result = [Error(visible(problem), "not-checked")]
            suite.add_testcase(case)
        document.add_testsuite(suite)
    document.update_statistics()
    root = ElementTree.fromstring(document.tostring())
    # Jenkins' schema has it for suites alone.
    root.attrib.pop("skipped", None)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _verdicts(results: CheckResults) -> Iterator[tuple[str, str]]:
    for target, verdict in results.targets:
        here = [finding for finding in results.diagnostics if finding.target == target]
        yield target, live_findings.line_of(verdict, here)


def _case(finding: Diagnostic, failing: int) -> TestCase:
    place = "" if finding.path is None else finding.place
    name = visible(finding.path or finding.target or "the model")
    where = f"{name}:{place}" if place else name
    if modules := live_findings.modules_of(finding):
        where += f" ({modules})"
    case = TestCase(f"{finding.code} {finding.name}{f' at {place}' if place else ''}", classname=name, time=0)
    message = visible(finding.message)
    text = "\n".join([where, *map(visible, described(finding).splitlines())])
    if finding.severity >= failing:
        failure = Failure(message, finding.severity.label)
        failure.text = text
        case.result = [failure]
    else:
        case.system_out = f"{finding.severity.label}: {text}"
    return case

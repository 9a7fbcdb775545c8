"""Score the linter on labelled places in real code and on labelled small files.

    python benchmarks/labels.py CASES_DIR TREES_DIR [--rows R1,R2,R6]

CASES_DIR holds ``labels.jsonl`` (places in real code, by row), ``expected.json`` and the small files that it
describes; TREES_DIR holds the trees that the paths of ``labels.jsonl`` begin with.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import check
from modellint.results.diagnostic import Diagnostic
from modellint.source.syntax.source_text import SourceText, Undecodable

ROW_CODES = {
    "R1": {"REG001", "REG002", "REG003"},
    "R2": {"REG004", "REG005"},
    "R3": {"REG006", "REG015"},
    "R4": {"SHP002"},
    "R5": {"OPS004"},
    "R6": {"REG008"},
    "R7": {"MOD002"},
    "R8": {"FLW007"},
    "R9": {"DEV001"},
    "R10": {"FLW001", "FLW002"},
    "R11": {"NUM001", "NUM002"},
    "R12": {"SHP001"},
    "R13": {"MOD006"},
    "R14": {"OPS001", "OPS002", "OPS003"},
    "R15": {"OPS010"},
    "R16": {"MUT005", "MUT006", "MUT008"},
}
"""The codes that answer for each row of labels."""

ALSO_ACCEPTED = {"R3": {"MUT005", "MUT006"}}
"""Codes that count where they are found, and are no fault where they are not."""

UNREADABLE = "LNT002"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is compared: a code and the rows that it covers."""

    code: str
    row: int
    end_row: int
    attribute: str | None
    class_name: str | None


@dataclass(frozen=True, slots=True)
class Label:
    """One labelled place."""

    rule: str
    path: str
    line: int
    kind: str
    note: str
    span: tuple[int, int]
    sub: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, metavar="CASES_DIR")
    parser.add_argument("trees", type=Path, metavar="TREES_DIR")
    parser.add_argument("--rows", default="R1,R2,R6", help="rows to score (default: R1,R2,R6)")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="processes (default: 4)")
    arguments = parser.parse_args()
    rows = arguments.rows.split(",")
    if unknown := set(rows) - set(ROW_CODES):
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    real = _score_labels(arguments.cases / "labels.jsonl", arguments.trees.resolve(), rows, arguments.jobs)
    small = _score_cases(arguments.cases.resolve(), rows)
    return 0 if real and small else 1


def findings(root: Path, path: Path) -> list[Finding] | str:
    """What the linter says about a file; a sentence if it cannot be checked at all."""
    try:
        source = SourceText.decode(path.read_bytes())
    except (OSError, Undecodable) as error:
        return str(error)
    try:
        return [_finding(diagnostic) for diagnostic in check(root, path, source)]
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"


def _finding(diagnostic: Diagnostic) -> Finding:
    span = diagnostic.span
    rows = (span.row, span.end_row) if span else (0, 0)
    return Finding(diagnostic.code, *rows, diagnostic.attribute, diagnostic.class_name)


# -- real code -------------------------------------------------------------------------------------------


def _score_labels(file: Path, trees: Path, rows: list[str], jobs: int) -> bool:
    labels = [label for label in _labels(file) if label.rule in rows]
    paths = sorted({label.path for label in labels})
    present = [path for path in paths if (trees / path).is_file()]
    files = [trees / path for path in present]
    roots = [trees / Path(path).parts[0] for path in present]
    with ProcessPoolExecutor(jobs) as pool:
        found = dict(zip(present, pool.map(findings, roots, files), strict=True))
    sound = len(present) == len(paths)
    for path in sorted(set(paths) - set(present)):
        print(f"missing file\t{path}")
    for path, said in found.items():
        if isinstance(said, str):
            print(f"not checked\t{path}\t{said}")
            sound = False
    listed: list[str] = []
    print("row  tp found  recall  tn reported  not scored")
    for rule in rows:
        counts: Counter[tuple[str, bool]] = Counter()
        for label in labels:
            seen = found.get(label.path)
            if label.rule != rule or not isinstance(seen, list):
                continue
            hit = _answers(label, seen, trees / label.path)
            counts[label.kind, hit] += 1
            if label.kind == "tp" and not hit:
                listed.append(f"missed\t{_place(label)}")
            elif label.kind == "tn" and hit:
                listed.append(f"false\t{_place(label)}")
        caught, true = counts["tp", True], counts["tp", True] + counts["tp", False]
        reported, clean = counts["tn", True], counts["tn", False]
        recall = f"{caught / true:.3f}" if true else "-"
        unscored = counts["amb", True] + counts["amb", False]
        cells = (rule, f"{caught} of {true}", recall, f"{reported} of {reported + clean}", unscored)
        print("{:<4}{:>9}{:>8}{:>13}{:>12}".format(*cells))
    print("\n".join(listed))
    return sound and not listed


def _labels(file: Path) -> Iterator[Label]:
    for line in file.read_text(encoding="utf-8").splitlines():
        record: dict[str, Any] = json.loads(line)
        first, last = record.get("span") or (record["line"], record["line"])
        yield Label(
            record["rule"],
            record["path"],
            record["line"],
            record["kind"],
            record.get("note", ""),
            (first, last),
            record.get("sub", ""),
        )


def _answers(label: Label, found: list[Finding], path: Path) -> bool:
    """Whether a finding of the label's row stands in its span, or at the ``self.x = []`` that the span fills."""
    codes = ROW_CODES[label.rule] | ALSO_ACCEPTED.get(label.rule, set())
    first, last = label.span
    ours = [finding for finding in found if finding.code in codes]
    if any(finding.row <= last and first <= finding.end_row for finding in ours):
        return True
    if label.rule not in ("R1", "R2") or label.kind != "tp":
        return False
    text = SourceText.decode(path.read_bytes())
    filled = "\n".join(text.line(row) for row in range(first, last + 1))
    return any(
        finding.attribute and re.search(rf"\bself\.{re.escape(finding.attribute)}\b", filled) for finding in ours
    )


def _place(label: Label) -> str:
    return f"{label.rule}\t{label.path}:{label.line}\t{label.sub or '-'}\t{label.note}"


# -- small files -----------------------------------------------------------------------------------------


def _score_cases(cases: Path, rows: list[str]) -> bool:
    expected: dict[str, dict[str, Any]] = json.loads((cases / "expected.json").read_text(encoding="utf-8"))
    problems: list[str] = []
    wanted = 0
    for path in sorted(cases.glob("*.py")):
        if path.name not in expected:
            problems.append(f"not described\t{path.name}")
            continue
        said = findings(cases, path)
        if isinstance(said, str):
            said = [Finding(UNREADABLE, 0, 0, None, None)] if not said.startswith("crash") else said
        if isinstance(said, str):
            problems.append(f"not checked\t{path.name}\t{said}")
            continue
        entry = expected[path.name]
        wanted += sum(row in rows for _, row in entry["expect"])
        problems += _case_problems(path, entry, said, rows)
    print(f"{len(expected)} small files, {wanted} findings expected, {len(problems)} problems")
    print("\n".join(problems))
    return not problems


def _case_problems(path: Path, entry: dict[str, Any], said: list[Finding], rows: list[str]) -> Iterator[str]:
    name = path.name
    unreadable = any(finding.code == UNREADABLE for finding in said)
    if name.startswith("bad_") or not entry.get("parseable", True):
        if not unreadable:
            yield f"no {UNREADABLE}\t{name}"
        return
    if unreadable:
        yield f"false {UNREADABLE}\t{name}"
    for row in rows:
        if name.startswith("neg_") and not name.startswith(f"neg_{row.lower()}_"):
            continue  # it was written with one row in mind; what else is in it was not labelled
        ours = [finding for finding in said if finding.code in ROW_CODES[row]]
        if name.startswith(f"neg_{row.lower()}_") and ours:
            yield from (f"false\t{name}:{finding.row}\t{finding.code}" for finding in ours)
            continue
        expect = [line for line, rule in entry["expect"] if rule == row]
        alternative = {line for line, rule in entry["alt"] if rule == row}
        accepted = ours + [finding for finding in said if finding.code in ALSO_ACCEPTED.get(row, set())]
        on_alternative = [finding for finding in accepted if finding.row in alternative]
        for line in expect:
            hit = any(finding.row <= line <= finding.end_row for finding in accepted)
            if not hit and not any(_binds(finding, line, alternative, path) for finding in on_alternative):
                yield f"missed\t{name}:{line}\t{row}"
        for finding in ours:
            lines = set(range(finding.row, finding.end_row + 1))
            if not lines & {*expect, *alternative}:
                yield f"false\t{name}:{finding.row}\t{finding.code}"


def _binds(finding: Finding, line: int, alternative: set[int], path: Path) -> bool:
    """Whether a finding on an alternative line is about what the expected line fills."""
    text = SourceText.decode(path.read_bytes()).line(line)
    if finding.attribute and re.search(rf"\bself\.{re.escape(finding.attribute)}\b", text):
        return True
    # A local is filled, or an attribute under another name: the nearest alternative above it is meant.
    return "self." not in text and finding.row == max((row for row in alternative if row <= line), default=0)


if __name__ == "__main__":
    sys.exit(main())

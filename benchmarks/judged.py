"""Judged findings, looked at again: which of those that readers judged are still reported, and how.

    python benchmarks/judged.py judged.jsonl TREES [--of MOOT]

A row of the file is a finding or a defect: ``tree`` (or ``repo``), ``file``, ``line``, ``code`` and ``verdict``, which is TRUE, FALSE, MOOT
(true, and not on the path of inference) or MISSED. TREES holds a folder for each repository, ``owner+name``. A finding counts where code
and file are the same and the line is at most three off. ``info`` findings count as not reported, as they ask for nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def main() -> int:
    """Check the trees, and tell what has become of each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument(
        "--of", help="list the rows of one verdict that are not as they should be: TRUE, FALSE, MOOT or MISSED"
    )
    parser.add_argument("--only", default="", help="repositories whose name holds this")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.judged.read_text("utf-8").splitlines() if line]
    findings: dict[str, list[dict[str, Any]]] = {}
    counts: Counter[tuple[str, bool]] = Counter()
    told: Counter[str] = Counter()
    for row in rows:
        if options.only not in row["repo"]:
            continue
        tree = _folder(options.trees, row)
        if row["tree"] not in findings:
            findings[row["tree"]] = _checked(tree)
            told.update(finding["severity"] for finding in findings[row["tree"]])
        path = str(tree / row["file"].partition("/")[2])
        is_told = any(
            finding["code"] == row["code"]
            and finding["filename"] == path
            and abs(finding["location"]["row"] - row["line"]) <= 3
            and finding["severity"] != "info"
            and (row["verdict"] != "FALSE" or finding["message"] == row["message"])
            for finding in findings[row["tree"]]
        )
        counts[row["verdict"], is_told] += 1
        if options.of == row["verdict"] and is_told != (row["verdict"] in ("TRUE", "MISSED")):
            print(
                f"{row['file']}:{row['line']}: {row['code']} {row.get('message', '')}\n    {row['why']} {row.get('needs', '')}"
            )
    for verdict in ("TRUE", "FALSE", "MOOT", "MISSED"):
        reported, silent = counts[verdict, True], counts[verdict, False]
        print(f"{verdict:7} {reported:4} reported  {silent:4} not")
    print(", ".join(f"{number} of {severity}" for severity, number in sorted(told.items())))
    return 0


def _folder(trees: Path, row: dict[str, Any]) -> Path:
    owner, _, name = row["tree"].removeprefix("gh_").partition("__")
    return trees / f"{owner}+{name}"


def _checked(tree: Path) -> list[dict[str, Any]]:
    """The findings in a tree, as a project of its own."""
    command = [
        sys.executable,
        "-m",
        "modellint",
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        "json",
        str(tree),
    ]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tree)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tree}: {done.stderr.decode()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())

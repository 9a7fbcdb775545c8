"""The language server against the command line: the same findings in every file of a tree, and how long an edit waits for its own.

    python benchmarks/language_server.py TREE [--lines 500] [--edits 60]

Each file of TREE is opened in a server, and what that publishes is compared with `modellint check --output-format json TREE`. Then
the first lines of its longest file are edited, one edit after another, each waiting for its diagnostics; beside it stand checks of
the same text in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from editor import Editor, editing
from lsprotocol import types

import modellint

Told: TypeAlias = tuple[str, str, int, int, int, int, str]
_SEVERITIES = {1: "error", 2: "warning", 3: "info"}
_CHARACTERS = types.ClientCapabilities(
    general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf32])
)


def by_command(tree: Path) -> dict[str, list[Told]]:
    """The findings of `modellint check`, by file."""
    command = [sys.executable, "-m", "modellint", "check", "--no-cache", "--output-format", "json", str(tree)]
    findings = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    told: dict[str, list[Told]] = {}
    for finding in findings:
        start, end = finding["location"], finding["end_location"]
        place = start["row"], start["column"], end["row"], end["column"]
        told.setdefault(finding["filename"], []).append(
            (finding["code"], finding["severity"], *place, finding["message"])
        )
    return told


def by_server(editor: Editor, file: Path) -> list[Told]:
    """The findings that the server publishes when a file is opened."""
    uri = editor.open(file, file.read_bytes().decode("utf-8"))
    told = []
    for each in editor.diagnostics(uri):
        start, end = each.range.start, each.range.end
        place = start.line + 1, start.character + 1, end.line + 1, end.character + 1
        told.append((str(each.code), _SEVERITIES[int(each.severity or 0)], *place, each.message.partition("\n")[0]))
    editor.close(uri)
    return told


def compare(tree: Path) -> bool:
    """Print how many files and findings agree."""
    expected = by_command(tree)
    files = sorted(tree.rglob("*.py"))
    with editing(tree, capabilities=_CHARACTERS) as editor:
        different = [file for file in files if sorted(by_server(editor, file)) != sorted(expected.get(str(file), []))]
    print(f"{len(files)} files, {sum(map(len, expected.values()))} findings: {len(different)} files differ")
    for file in different:
        print(f"  {file}")
    return not different


def wait_for_edits(tree: Path, lines: int, edits: int) -> None:
    """Print how long edits wait for their diagnostics."""
    longest = max(tree.rglob("*.py"), key=lambda file: file.stat().st_size)
    text = "".join(longest.read_text("utf-8").splitlines(keepends=True)[:lines])
    while not _compiles(text):
        text = text.rstrip("\n").rpartition("\n")[0] + "\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "modellint.toml").write_text("", "utf-8")
        checks = []
        for number in range(edits):
            began = time.perf_counter()
            modellint.check_source(f"{text}\nx = {number}\n", str(folder / "net.py"))
            checks.append(time.perf_counter() - began)
        with editing(folder) as editor:
            uri = editor.open(folder / "net.py", text)
            editor.diagnostics(uri)

            async def edit(number: int) -> float:
                began = time.perf_counter()
                version = editor.change(uri, f"{text}\nx = {number}\n")
                while editor.published[-1].version != version:
                    await asyncio.sleep(0.001)
                return time.perf_counter() - began

            waits = [editor.run(edit(number)) for number in range(edits)]
    print(f"{text.count(chr(10))} lines of {longest.name}")
    for what, times in (("check in this process", checks), ("edit to diagnostics", waits)):
        ordered = sorted(times[3:])
        high = ordered[int(len(ordered) * 0.95)]
        print(f"{what}: median {statistics.median(ordered) * 1000:.0f} ms, 95 % below {high * 1000:.0f} ms")


def _compiles(text: str) -> bool:
    try:
        compile(text, "<text>", "exec")
    except SyntaxError:
        return False
    return True


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--edits", type=int, default=60)
    options = parser.parse_args()
    tree = options.tree.resolve()
    wait_for_edits(tree, options.lines, options.edits)
    sys.exit(not compare(tree))


if __name__ == "__main__":
    main()

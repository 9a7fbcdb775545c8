"""What users and programs read of findings."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modellint.report import as_json, concise, findings_with_source, live_findings, statistics, unified_diff
from modellint.report.formats import CheckResults, render
from modellint.report.style import visible
from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span
from modellint.run import all_rules
from modellint.source.syntax.source_text import SourceText

KEYS = {
    "code", "name", "severity", "message", "url", "filename", "location", "end_location", "noqa_row", "cell", "fix",
    "evidence", "target", "modules", "operator",
}  # fmt: skip


def finding(
    *place: int,
    code: str = "REG001",
    severity: Severity = Severity.ERROR,
    fix: Fix | None = None,
    message: str = "not registered",
    path: str | None = "net.py",
) -> Diagnostic:
    return Diagnostic(code, "module-in-list", severity, message, path, Span(*place) if place else None, fix)


def fix_of(*edits: tuple[tuple[int, int, int, int], str], how: Applicability = Applicability.SAFE) -> Fix:
    return Fix("Use a `ModuleList`", tuple(Edit(Span(*place), content) for place, content in edits), how)


def frames(text: str, *findings: Diagnostic, color: bool = False, unsafe: bool = False) -> str:
    return findings_with_source.render(findings, lambda path: SourceText(text), color, unsafe=unsafe)


def test_full_shows_the_message_the_frame_and_the_diff_of_the_fix() -> None:
    text = (
        "from torch import nn\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        self.a = [x]\n        self.b = 1\n"
    )
    fix = fix_of(((6, 18, 6, 18), "nn.ModuleList("), ((6, 21, 6, 21), ")"))
    assert frames(text, finding(6, 9, 6, 21, fix=fix)) == (
        "REG001 [*] not registered\n"
        " --> net.py:6:9 (error)\n"
        "5 |     def __init__(self):\n"
        "6 |         self.a = [x]\n"
        "  |         ^^^^^^^^^^^^\n"
        "7 |         self.b = 1\n"
        "help: Use a `ModuleList`\n"
        "  -         self.a = [x]\n"
        "6 +         self.a = nn.ModuleList([x])\n"
        "\n"
        "Found 1 error.\n"
        "[*] 1 fixable with the `--fix` option.\n"
    )


def test_full_aligns_carets_below_tabs() -> None:
    text = "class A:\n\tdef f(self):\n\t\tself.a\t= [b]  # c\n"
    assert frames(text, finding(3, 12, 3, 15)) == (
        "REG001 not registered\n"
        " --> net.py:3:12 (error)\n"
        "2 |     def f(self):\n"
        "3 |         self.a    = [b]  # c\n"
        "  |                     ^^^\n"
        "\n"
        "Found 1 error.\n"
    )


def test_full_aligns_carets_below_wide_and_combining_characters() -> None:
    text = '층 = "가나다", "e\u0301", [x]\n'
    at = text.index("[") + 1
    assert frames(text, finding(1, at, 1, at + 3)) == (
        f"REG001 not registered\n --> net.py:1:{at} (error)\n"
        '1 | 층 = "가나다", "e\u0301", [x]\n'
        "  |                     ^^^\n"
        "\n"
        "Found 1 error.\n"
    )
    assert "  |      ^^^^^^^^\n" in frames(text, finding(1, 5, 1, 10)), (
        "a run below wide characters is as wide as they are"
    )


def test_full_draws_a_finding_over_several_lines() -> None:
    text = "a = 1\nself.x = f([\n    1,\n    2,\n])\nb = 2\n"
    assert frames(text, finding(2, 1, 5, 3)).splitlines()[2:9] == [
        "1 |   a = 1",
        "2 | / self.x = f([",
        "3 | |     1,",
        "4 | |     2,",
        "5 | | ])",
        "  | |__^",
        "6 |   b = 2",
    ]
    assert frames(text, finding(2, 12, 5, 2)).splitlines()[3:9] == [
        "2 |   self.x = f([",
        "  |  ____________^",
        "3 | |     1,",
        "4 | |     2,",
        "5 | | ])",
        "  | |_^",
    ]


def test_full_leaves_out_the_middle_of_a_long_finding() -> None:
    text = "x = [\n" + "    1,\n" * 100 + "]\n"
    lines = frames(text, finding(1, 1, 102, 2)).splitlines()
    assert "    | | ..." in lines
    assert len(lines) < 20
    assert "102 | | ]" in lines


def test_full_takes_a_span_with_its_line_end_for_one_line() -> None:
    assert "1 | abc\n  | ^^^\n2 | d\n" in frames("abc\nd\n", finding(1, 1, 2, 1))


def test_full_makes_control_and_reordering_characters_visible() -> None:
    text = 'x = "\x1b[31m\x07\x7f\u202e\x0c\x85"; y\n'
    shown = frames(text, finding(1, text.index("y") + 1, 1, text.index("y") + 2, message="bad \x1b[2J\r\nname"))
    assert '1 | x = "␛[31m␇␡�␌�"; y\n  |                   ^\n' in shown
    assert "bad ␛[2J␍␊name" in shown
    assert not set(shown) & {"\x1b", "\r", "\x07", "\x0c", "\x7f", "\x85", "\u202e"}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_full_reads_every_kind_of_line_end(newline: str) -> None:
    text = newline.join(["a", "bb = 1", "ccc", ""])
    fix = fix_of(((2, 1, 2, 3), "dd"), ((1, 1, 1, 1), "import e\n"))
    shown = frames(text, finding(2, 1, 2, 3, fix=fix))
    assert "1 | a\n2 | bb = 1\n  | ^^\n3 | ccc\n" in shown
    assert "1 + import e\n  - bb = 1\n3 + dd = 1\n" in shown


def test_full_cuts_a_very_long_line_around_the_caret() -> None:
    text = f'x = "{"a" * 3000}", bad, "{"b" * 100000}"\n'
    at = text.index("bad")
    fix = fix_of(((1, at + 1, 1, at + 4), "good"))
    lines = frames(text, finding(1, at + 1, 1, at + 4, fix=fix)).splitlines()
    assert max(map(len, lines)) < 160
    row = next(index for index, line in enumerate(lines) if line.startswith("1 | "))
    begin = lines[row + 1].index("^^^")
    assert lines[row][begin : begin + 3] == "bad"
    assert lines[row][4] == lines[row][-1] == "…"
    assert any(line.startswith("  - …") and "bad" in line for line in lines)
    assert any(line.startswith("1 + …") and "good" in line for line in lines)


def test_full_never_fails_on_places_that_the_text_does_not_have() -> None:
    fix = fix_of(((50, 1, 50, 2), "x"))
    for place in [(1, 1, 1, 1), (9, 9, 9, 9), (1, 50, 1, 60), (2, 1, 900, 1), (3, 1, 3, 1)]:
        for text in ["", "x", "x\n", "x\ny\n"]:
            assert "net.py" in frames(text, finding(*place, fix=fix))


def test_full_without_text_or_place() -> None:
    findings = [finding(1, 2, 1, 3), finding(path=None, message="live"), finding(message="whole file")]
    shown = findings_with_source.render(findings, lambda path: None)
    assert " --> net.py:1:2 (error)\n" in shown
    assert "REG001 live\n --> no source (error)\n" in shown
    assert "REG001 whole file\n --> net.py (error)\n" in shown


def test_full_notes_a_fix_that_is_not_safe() -> None:
    unsafe = finding(1, 1, 1, 2, fix=fix_of(((1, 1, 1, 2), "b"), how=Applicability.UNSAFE))
    shown = frames("a\n", unsafe)
    assert "REG001 not registered\n" in shown
    assert "1 + b\nnote: This is an unsafe fix and may change runtime behavior\n" in shown
    assert shown.endswith("No fixes available (1 hidden fix can be enabled with `--unsafe-fixes`).\n")
    assert frames("a\n", unsafe, unsafe=True).startswith("REG001 [*] ")
    display = finding(1, 1, 1, 2, fix=fix_of(((1, 1, 1, 2), "b"), how=Applicability.DISPLAY))
    shown = frames("a\n", display, unsafe=True)
    assert "[*]" not in shown
    assert "never applied" in shown


def test_full_parts_changes_that_are_far_from_each_other() -> None:
    text = "".join(f"line{row}\n" for row in range(1, 31))
    fix = fix_of(((20, 1, 21, 1), ""), ((2, 1, 2, 1), "import a\n"), ((30, 7, 30, 7), "!"))
    shown = frames(text, finding(20, 1, 20, 7, fix=fix))
    assert (
        "help: Use a `ModuleList`\n"
        " 1 | line1\n"
        " 2 + import a\n"
        " 3 | line2\n"
        "   ...\n"
        "   - line20\n"
        "   ...\n"
        "29 | line29\n"
        "   - line30\n"
        "30 + line30!\n"
    ) in shown


def test_full_shows_a_body_that_several_fixes_write_once() -> None:
    body = "class A:\n    b = 1\n    c = 2\n    d = 3\n"
    text = "".join(f"line{row}\n" for row in range(1, 31))
    findings = [finding(row, 1, row, 7, fix=fix_of(((2, 1, 2, 1), body), ((row, 1, row, 1), "A."))) for row in (20, 25)]
    shown = frames(text, *findings, finding(25, 1, 25, 5, fix=findings[1].fix))
    assert shown.count("    c = 2") == 1
    assert shown.count(" 2 + class A:\n") == 2
    assert " 2 + class A:\n 3 +     … 3 more lines, as above\n" in shown
    assert shown.count("+ A.line20\n") == shown.count("+ A.line25\n") == 1
    assert "help: Use a `ModuleList` (the fix that is shown at 25:1)\n\n" in shown


def test_what_is_installed_is_told_once_in_a_run() -> None:
    rules = all_rules()
    about = finding(path=None, code="ENV002")._replace(evidence="live")
    targets = [about._replace(target=target) for target in ("m.py:A", "m.py:B")]
    alike = [finding(path=None)._replace(evidence="live", target=target) for target in ("m.py:A", "m.py:B")]
    shown = concise.render(live_findings.environment_once([*targets, *alike], rules))
    assert shown.count("the environment: ENV002") == 1
    assert shown.count("REG001") == 2


def test_what_is_installed_is_told_once_in_formats_for_people() -> None:
    about = [finding(path=None, code=code)._replace(evidence="live") for code in ("CNV001", "ENV002", "REG001")]
    names = ("m.py:A", "m.py:B")
    findings = [entry._replace(target=name) for name in names for entry in about]
    targets = [(name, None) for name in names]
    results = CheckResults(findings, Path(), Path(), lambda path: None, all_rules(), targets=targets)
    times = {name: render(name, results).count("ENV002") for name in ("concise", "grouped", "github", "json-lines")}
    assert times == {"concise": 1, "grouped": 1, "github": 1, "json-lines": 2}
    assert render("grouped", results).count("m.py:A:\n") == 1


def test_full_colours_by_severity() -> None:
    looks = [
        frames("a\n", finding(1, 1, 1, 2, severity=severity), color=True).split("REG001")[0] for severity in Severity
    ]
    assert len(set(looks)) == 3
    assert all(look.startswith("\x1b[") for look in looks)
    assert "\x1b" not in frames("a\n", finding(1, 1, 1, 2))


def test_the_summary_counts_by_severity_and_by_fix() -> None:
    safe, unsafe = fix_of(((1, 1, 1, 2), "b")), fix_of(((1, 1, 1, 2), "b"), how=Applicability.UNSAFE)
    findings = [finding(row, 1, row, 2, fix=safe) for row in (1, 2)] + [finding(3, 1, 3, 2, fix=unsafe)]
    findings.append(finding(4, 1, 4, 2, severity=Severity.WARNING))
    assert concise.render(findings).endswith(
        "Found 3 errors, 1 warning.\n"
        "[*] 2 fixable with the `--fix` option (1 hidden fix can be enabled with `--unsafe-fixes`).\n"
    )
    assert concise.render(findings, unsafe=True).endswith("[*] 3 fixable with the `--fix` option.\n")
    assert concise.render([]) == findings_with_source.render([], lambda path: None) == "All checks passed!\n"
    assert concise.render([], fixed=2) == "Found 2 problems (2 fixed, 0 remaining).\n"
    assert "Found 3 problems (2 fixed, 1 remaining: 1 warning).\n" in concise.render(findings[3:], fixed=2)


def test_concise_is_one_line_for_each_finding_in_order() -> None:
    findings = [finding(9, 1, 9, 2), finding(2, 5, 2, 6, fix=fix_of()), finding(path="a\nb.py"), finding(path=None)]
    assert concise.render(findings).splitlines()[:4] == [
        "REG001 not registered",
        "a␊b.py: REG001 not registered",
        "net.py:2:5: REG001 [*] not registered",
        "net.py:9:1: REG001 not registered",
    ]


def test_json_has_exactly_the_agreed_keys() -> None:
    fix = fix_of(((1, 1, 1, 2), "한\n"))
    rows = json.loads(as_json.render([finding(2, 3, 4, 1, fix=fix)], None, lambda path: "/home/me/" + path))
    assert set(rows[0]) == KEYS
    assert rows[0] == {
        "code": "REG001",
        "name": "module-in-list",
        "severity": "error",
        "message": "not registered",
        "url": None,
        "filename": "/home/me/net.py",
        "location": {"row": 2, "column": 3},
        "end_location": {"row": 4, "column": 1},
        "noqa_row": 3,
        "cell": None,
        "fix": {
            "applicability": "safe",
            "message": "Use a `ModuleList`",
            "edits": [
                {"content": "한\n", "location": {"row": 1, "column": 1}, "end_location": {"row": 1, "column": 2}}
            ],
        },
        "evidence": "source",
        "target": None,
        "modules": [],
        "operator": None,
    }


def test_full_names_targets_and_modules() -> None:
    live = finding(1, 1, 1, 2)._replace(evidence="live", target="m.py:Net", modules=("a.0", "a.1", "a.2", "a.3", "a.4"))
    assert frames("x = 1\n", live).startswith(
        "REG001 not registered\n --> net.py:1:1 (error)\n1 | x = 1\n  | ^\n"
        "  = found in: m.py:Net\n  = modules: a.0, a.1, a.2 … and 2 more\n\n"
    )
    shown = frames("x = 1\n", live._replace(evidence="both", modules=("",)))
    assert "  = confirmed by: m.py:Net\n\nFound 1 error.\n" in shown


def test_where_a_library_shows_it() -> None:
    rows = ("given/a.py:7", "given/b.py:8", "/home/me/other/c.py:9")
    live = finding(1, 1, 1, 2)._replace(evidence="live", target="m.py:Net", library=rows)
    other = live._replace(target="m.py:Other", library=())
    shown = frames("x = 1\n", live, other)
    assert shown.count("REG001") == 1
    assert "  = found in: m.py:Net\n  = in a library: given/a.py:7, given/b.py:8, /home/me/other/c.py:9\n" in shown
    # Other programs rely on the keys.
    assert "library" not in json.loads(as_json.render([live], None, lambda path: path))[0]


def test_live_findings_without_source_stand_at_their_target() -> None:
    live = finding(path=None)._replace(evidence="live", target="m.py:Net", modules=("a.0", ""))
    assert frames("", live).startswith(
        "REG001 not registered\n --> m.py:Net (error)\n  = modules: a.0, the model itself\n\n"
    )
    assert frames("", live._replace(target=None)).startswith("REG001 not registered\n --> the model (error)\n")
    assert concise.render([live]).startswith("m.py:Net: REG001 not registered (a.0, the model itself)\n")


def test_what_several_targets_show_is_told_once() -> None:
    one = finding(1, 1, 1, 2)._replace(evidence="both", target="m.py:A", modules=("a",))
    other = one._replace(target="m.py:B", modules=("b", "c"))
    shown = frames("x = 1\n", one, other, finding(1, 1, 1, 2), finding(1, 1, 1, 2))
    assert shown.count("REG001") == 3
    assert "  = confirmed by: m.py:A\n  = modules: a\n  = confirmed by: m.py:B\n  = modules: b, c\n" in shown
    assert "Found 3 errors." in shown
    assert concise.render([one, other]).count("REG001") == 1
    assert statistics.render([one, other]).startswith("1\tREG001")
    assert len(json.loads(as_json.render([one, other], None, lambda path: path))) == 2


def test_json_of_a_live_finding_without_source_has_no_place() -> None:
    live = finding(path=None)._replace(
        evidence="live", target="m.py:Net", modules=("a.0", "a.1"), operator="aten::fmod"
    )
    row = json.loads(as_json.render([live], "https://x.org/rules/", lambda path: path))[0]
    assert row["filename"] is row["location"] is row["end_location"] is row["noqa_row"] is None
    assert (row["target"], row["modules"], row["operator"]) == ("m.py:Net", ["a.0", "a.1"], "aten::fmod")
    assert row["url"] == "https://x.org/rules/module-in-list"


def test_json_is_the_same_bytes_in_any_order_of_findings_and_survives_any_name() -> None:
    findings = [
        finding(row, 1, row, 2, path=path, message="한글") for row in (3, 1, 2) for path in ("b.py", "a\udcff.py")
    ]
    text = as_json.render(findings, None, lambda path: path)
    assert text == as_json.render(findings[::-1], None, lambda path: path)
    assert "한글" in text
    assert json.loads(text.encode())[0]["filename"] == "a\udcff.py"
    assert as_json.render([], None, str) == "[]\n"


def test_report_wraps_the_findings() -> None:
    report = json.loads(as_json.render_report([finding(1, 1, 1, 2)], None, str, "1.2.3"))
    assert set(report) == {"version", "diagnostics", "targets"}
    assert report["version"] == "1.2.3"
    assert report["targets"] == []
    assert set(report["diagnostics"][0]) == KEYS


def test_statistics_counts_by_code() -> None:
    fixable = fix_of(((1, 1, 1, 2), "b"))
    findings = [finding(1, 1, 1, 2, code="REG002")]
    findings += [finding(row, 1, row, 2, fix=fixable) for row in range(1, 11)]
    findings += [finding(1, 1, 1, 2, code="REG004", fix=one) for one in (fixable, None)]
    assert statistics.render(findings).splitlines()[:3] == [
        "10\tREG001\t[*] module-in-list",
        " 2\tREG004\t[-] module-in-list",
        " 1\tREG002\t[ ] module-in-list",
    ]
    assert json.loads(statistics.render(findings, as_json=True))[1] == {
        "code": "REG004", "name": "module-in-list", "count": 2, "fixable": False, "fixable_count": 1,
    }  # fmt: skip
    assert statistics.render([]) == "All checks passed!\n"


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch program")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("ends", [(True, True), (True, False), (False, True), (False, False)])
def test_patch_applies_the_diff(tmp_path: Path, newline: str, ends: tuple[bool, bool]) -> None:
    lines = [f"line {row}\x0c한" for row in range(30)]
    old = newline.join(lines) + newline * ends[0]
    lines[3] = "new\rline"
    lines[20:22] = []
    new = newline.join([*lines, "last"]) + newline * ends[1]
    path = tmp_path / "net work.py"
    path.write_bytes(old.encode())
    change = unified_diff.render(path.name, old, new)
    subprocess.run(
        ["patch", "--binary", "-p0", "--quiet"], input=change.encode(), cwd=tmp_path, check=True, capture_output=True
    )
    assert path.read_bytes() == new.encode()


def test_the_diff_looks_as_usual() -> None:
    assert unified_diff.render("a.py", "x\ny\n", "x\nz") == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\\ No newline at end of file\n"
    )
    assert unified_diff.render("a.py", "x", "x") == ""


def test_the_coloured_diff_shows_odd_line_ends_only() -> None:
    steady = unified_diff.render("a.py", "x\r\ny\r\n", "x\r\nz\r\n", color=True)
    assert "^M" not in steady
    mixed = unified_diff.render("a.py", "x\r\ny\n", "x\ny\n", color=True)
    assert "x^M\x1b[0m\n" in mixed
    assert "a^Mb" in unified_diff.render("a.py", "a\rb\n", "c\n", color=True)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(), max_size=30), st.data())
def test_any_text_can_be_framed_and_encoded(text: str, data: st.DataObject) -> None:
    source = SourceText(text)
    start, end = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    place = source.span(start, end)
    fix = Fix("Change it", (Edit(place, "new\n"),))
    found = Diagnostic("REG001", "module-in-list", Severity.ERROR, text, text, place, fix)
    shown = findings_with_source.render([found], lambda path: source) + concise.render([found])
    assert all(char == "\n" or char >= " " for char in shown)
    for line in (shown, as_json.render([found], None, str)):
        line.encode()


@settings(deadline=None)
@given(st.text())
def test_visible_text_is_one_safe_line(text: str) -> None:
    assert len(visible(text).splitlines()) <= 1
    visible(text).encode()

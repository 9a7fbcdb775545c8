"""Applying fixes: what is changed, what is not, and when it stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modellint
from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span
from modellint.source.fix import Fixed, fix_text
from modellint.source.syntax.source_text import SourceText

Check = Callable[[SourceText], tuple[Diagnostic, ...]]


def finding(
    source: SourceText,
    start: int,
    end: int,
    *edits: Edit,
    code: str = "REG001",
    how: Applicability = Applicability.SAFE,
    attribute: str | None = None,
) -> Diagnostic:
    fix = Fix("Fix it", edits, how) if edits else None
    return Diagnostic(
        code, "some-rule", Severity.ERROR, "found", "a.py", source.span(start, end), fix, attribute=attribute
    )


def words(pattern: str, *replacement: str, code: str = "REG001", how: Applicability = Applicability.SAFE) -> Check:
    """A check that finds what matches; with a replacement it can be fixed."""

    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        def found() -> Iterator[Diagnostic]:
            for match in re.finditer(pattern, source.text):
                edits = [source.replace(*match.span(), match.expand(content)) for content in replacement]
                yield finding(source, *match.span(), *edits, code=code, how=how)

        return tuple(found())

    return check


def both(*checks: Check) -> Check:
    return lambda source: tuple(found for check in checks for found in check(source))


def fixed(text: str, check: Check, unsafe: bool = False) -> Fixed:
    return fix_text(SourceText(text), check, unsafe)


def test_all_fixes_that_do_not_overlap_are_applied_in_one_round() -> None:
    result = fixed("bad = 1\nx = bad\n", words("bad", "good"))
    assert result.text == "good = 1\nx = good\n"
    assert (result.applied, result.rounds, result.remaining, result.problem) == ({"REG001": 2}, 1, (), None)


def test_nothing_to_fix_changes_nothing() -> None:
    result = fixed("bad = 1\n", words("bad"))
    assert (result.text, result.applied, result.rounds, result.problem) == ("bad = 1\n", {}, 0, None)
    assert len(result.remaining) == 1


def test_unsafe_fixes_are_applied_on_request_and_displayed_ones_never() -> None:
    check = both(words("bad", "good", how=Applicability.UNSAFE), words("odd", "even", how=Applicability.DISPLAY))
    assert fixed("bad = odd\n", check).text == "bad = odd\n"
    assert fixed("bad = odd\n", check, unsafe=True).text == "good = odd\n"


def test_fixes_that_overlap_are_applied_in_later_rounds() -> None:
    result = fixed("x = f(f(1))\n", words(r"f\((.*)\)", r"(\1)"))
    assert result.text == "x = ((1))\n"
    assert result.rounds == 2


def test_the_edits_of_a_fix_are_applied_all_or_none() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        found = []
        if source.text.startswith("a, b"):
            found.append(finding(source, 0, 4, source.replace(0, 4, "c, d")))
            found.append(finding(source, 3, 9, source.replace(3, 4, "z"), source.replace(7, 8, "9"), code="REG002"))
        return tuple(found)

    assert fixed("a, b = 1, 2\n", check).text == "c, d = 1, 2\n"


def wrap(line: str = "import new\n") -> Check:
    """Finds `[…]`, wraps it, and asks for an import at the top."""

    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return tuple(
            finding(
                source,
                *match.span(),
                *([] if line in source.text else [source.insert(0, line)]),
                source.insert(match.start(), "new("),
                source.insert(match.end(), ")"),
                attribute=match[1],
            )
            for match in re.finditer(r"(?<!\()\[(\w)\]", source.text)
        )

    return check


def test_an_import_that_several_fixes_ask_for_is_written_once() -> None:
    result = fixed("x = [1]\ny = [2]\n", wrap())
    assert result.text == "import new\nx = new([1])\ny = new([2])\n"
    assert result.rounds == 1


def test_whole_lines_of_several_fixes_at_one_place_are_all_written_in_order() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        return tuple(
            finding(source, match.start(), match.end(), source.insert(0, f"import {name}\n"))
            for match in re.finditer(r"(\w)\.f", source.text)
            if f"import {(name := match[1])}\n" not in source.text
        )

    result = fixed("b.f, a.f, b.f\n", check)
    assert result.text == "import b\nimport a\nb.f, a.f, b.f\n"
    assert result.rounds == 1


def test_other_insertions_at_one_place_wait_for_the_next_round() -> None:
    first, second = words(r"^(?=x)", "ab", code="REG001"), words(r"^(?=x|abx)", "cd", code="REG002")
    result = fixed("x\n", both(first, second))
    assert result.text == "cdabx\n"
    assert result.rounds == 2


def test_a_bracket_that_two_fixes_insert_at_one_place_is_two_brackets() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        found = []
        for code, name in (("REG001", "a"), ("REG002", "b")):
            for match in re.finditer(rf"(?<!w\(){name}.*?(?=\)|\n)", source.text):
                edits = source.insert(match.start(), "w("), source.insert(match.end(), ")")
                found.append(finding(source, *match.span(), *edits, code=code))
        return tuple(found)

    assert fixed("a + b\n", check).text == "w(a + w(b))\n"


def test_a_fix_that_breaks_the_text_is_dropped_and_named_and_the_others_are_applied() -> None:
    check = both(words("bad", "good"), words("ugly", "(", code="REG002"), words("worse", "better", code="REG004"))
    result = fixed("x = bad\ny = ugly\nz = worse\n", check)
    assert result.text == "x = good\ny = ugly\nz = better\n"
    assert result.applied == {"REG001": 1, "REG004": 1}
    assert result.problem is not None
    assert "REG002" in result.problem
    assert "parse" in result.problem
    assert [found.code for found in result.remaining] == ["REG002"]
    assert result.remaining[0].fix is None, "a fix that cannot be applied is not offered again"


def test_fixes_that_only_together_break_the_text_are_applied_one_after_the_other() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        lines = list(re.finditer(r"    bad\n", source.text))
        return tuple(
            finding(source, *line.span(), source.replace(*line.span(), "" if len(lines) > 1 else "    pass\n"))
            for line in lines
        )

    result = fixed("if x:\n    bad\n    bad\n", check)
    assert (result.text, result.rounds, result.problem) == ("if x:\n    pass\n", 2, None)


def test_a_future_import_stays_first() -> None:
    check = words(r"\A(?!import)", "import torch\n")
    result = fixed("from __future__ import annotations\n", check)
    assert result.text == "from __future__ import annotations\n"
    assert result.problem is not None


def test_a_fix_that_does_not_remove_its_finding_is_thrown_away() -> None:
    helpless = words("bad", "bad + bad")
    result = fixed("x = bad\ny = worse\n", both(helpless, words("worse", "better", code="REG002")))
    assert result.text == "x = bad\ny = better\n"
    assert result.applied == {"REG002": 1}
    assert result.problem is not None
    assert "REG001" in result.problem
    same = fixed("x = bad\n", words("bad", "bad"))
    assert (same.text, same.rounds, same.applied) == ("x = bad\n", 0, {})


def test_a_finding_about_an_attribute_counts_as_the_same_wherever_it_stands() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        at = source.text.index("bad")
        edit = source.insert(0, "pass\n" * 3)
        moved = source.insert(at, "0 + ")
        return (finding(source, at, at + 3, edit, moved, attribute="layers"),)

    assert fixed("x = 1\ny = bad\n", check).text == "x = 1\ny = bad\n"


def test_a_new_finding_of_the_same_rule_elsewhere_is_not_taken_for_the_old_one() -> None:
    check = both(words("one", "uno"), words("(?<=uno = )two", "due"))
    result = fixed("one = two\n", check)
    assert result.text == "uno = due\n"
    assert result.rounds == 2


def test_fixes_that_undo_each_other_end_after_ten_rounds() -> None:
    check = both(words("black", "white"), words("white", "black", code="REG002"))
    result = fixed("black = 1\n", check)
    assert result.rounds == 10
    assert result.problem is not None
    assert "10 rounds" in result.problem


def test_a_text_that_the_check_cannot_look_at_is_thrown_away() -> None:
    def check(source: SourceText) -> tuple[Diagnostic, ...]:
        if "good" in source.text:
            return (Diagnostic("LNT004", "rule-failed", Severity.ERROR, "failed", "a.py", None),)
        return words("bad", "good")(source)

    result = fixed("bad = 1\n", check)
    assert result.text == "bad = 1\n"
    assert result.problem is not None


def test_edits_outside_the_text_or_upon_each_other_are_refused() -> None:
    wrong = [
        (Edit(Span(9, 1, 9, 2), "x"),),
        (Edit(Span(1, 1, 1, 99), "x"),),
        (Edit(Span(1, 5, 1, 2), "x"),),
        (Edit(Span(1, 1, 1, 3), "x"), Edit(Span(1, 2, 1, 4), "y")),
    ]
    for edits in wrong:
        result = fixed("bad = 1\n", lambda source, edits=edits: (finding(source, 0, 3, *edits),))  # type: ignore[misc]
        assert result.text == "bad = 1\n"
        assert result.problem is not None
        assert "REG001" in result.problem


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_new_lines_end_as_the_file_ends_them(newline: str) -> None:
    text = newline.join(["import os", "x = bad", ""])
    result = fixed(text, words("bad", "[\n    1,\n]"))
    assert result.text == newline.join(["import os", "x = [", "    1,", "]", ""])


def test_text_that_the_encoding_does_not_have_is_not_written() -> None:
    source = SourceText.decode("# -*- coding: cp949 -*-\nx = bad  # 한글\ny = worse\n".encode("cp949"))
    result = fix_text(source, both(words("bad", "'é'"), words("worse", "'나'", code="REG002")))
    assert source.encode(result.text) == "# -*- coding: cp949 -*-\nx = bad  # 한글\ny = '나'\n".encode("cp949")
    assert result.problem is not None
    assert "REG001" in result.problem
    assert "cp949" in result.problem


def test_a_coding_cookie_keeps_its_line() -> None:
    source = SourceText.decode(b"#!/usr/bin/python\n# coding: latin-1\nx = '\xe9'\n")
    result = fix_text(source, words(r"\A(?!import)", "import a\n"))
    assert result.text == source.text
    assert result.problem is not None


def test_text_in_newer_syntax_than_the_running_python_knows_is_fixed_too() -> None:
    # Parsed by Python where it can, by libcst where not; broken text is refused by both.
    text = "type A = int\nx = bad\nf'{x['a']}'\n"
    assert fixed(text, words("bad", "good")).text == text.replace("bad", "good")
    assert fixed(text, words("bad", "(")).text == text


def test_many_findings_are_fixed_in_one_round() -> None:
    text = "".join(f"x{row} = bad\n" for row in range(400))
    result = fixed(text, words("bad", "good"))
    assert (result.applied, result.rounds) == ({"REG001": 400}, 1)


PIECES = ["x = 1", "\t", "\x0c", "# 주석", "'한글'", "BAD", "pass", "", "   ", "y = 'é'", "\u2028", "# e\u0301"]


@st.composite
def files(draw: st.DrawFn) -> tuple[SourceText, bytes]:
    """A file as bytes, with BAD here and there, in many an encoding, with many a line end."""
    newlines = draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]]))
    cookie, bom = draw(st.sampled_from([("", False), ("", True), ("cp949", False), ("latin-1", False)]))
    text = f"# -*- coding: {cookie} -*-\n" if cookie else ""
    for pieces in draw(st.lists(st.lists(st.sampled_from(PIECES), max_size=4), max_size=8)):
        text += " ".join(pieces) + draw(st.sampled_from(newlines))
    text += draw(st.sampled_from(["", "BAD", "\x0c", "\t# end"]))
    data = (b"\xef\xbb\xbf" if bom else b"") + text.encode(cookie or "utf-8", "ignore")
    return SourceText.decode(data), data


@settings(deadline=None)
@given(files(), st.sampled_from(["", "good", "a\nb", "\n"]))
def test_every_byte_outside_the_edits_is_kept(file: tuple[SourceText, bytes], content: str) -> None:
    from modellint.source.syntax.edits import apply, changes_of

    source, data = file
    assert source.encode(source.text) == data
    matches = list(re.finditer("BAD", source.text))
    fix = Fix("Fix it", tuple(source.replace(*match.span(), content) for match in matches))
    new = source.encode(apply(source.text, changes_of(fix, source)))
    expected = content.replace("\n", source.newline).encode(source.encoding)
    assert new == data.replace(b"BAD", expected)


@settings(deadline=None)
@given(files())
def test_fixing_keeps_every_other_byte(file: tuple[SourceText, bytes]) -> None:
    source, data = file
    result = fix_text(source, words("BAD", "good"))
    new = source.encode(result.text)
    assert new in (data, data.replace(b"BAD", b"good"))
    assert (new == data) == (not result.applied)


NET = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = torch.add(x, y, alpha=2)  # sum", "x = x + 2 * y  # sum"),
        ("x = torch.add(  # sum\n            x, y, alpha=2)", None),
        ("x = torch.add(\n            x, y, alpha=2\n        )", "x = x + 2 * y"),
        ("x = x.cuda()  # fast", None),
    ],
)
def test_a_fix_deletes_no_comment(line: str, after: str | None) -> None:
    text = f"{NET}    def forward(self, x, y):\n        {line}\n        return x\n"
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics, unsafe=True)
    assert done.text == (text if after is None else text.replace(line, after))
    assert all(finding.fix is None for finding in done.remaining)


@pytest.mark.parametrize("start", ["", '        """Add."""\n'])
def test_a_first_statement_stands_above_the_comments_on_the_next(start: str) -> None:
    text = (
        f"{NET}    def forward(self, x):\n{start}        # One\n        # more\n        x.add_(1)\n        return x\n"
    )
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics, unsafe=True)
    assert done.text == text.replace("        # One", "        x = x.clone()\n        # One")

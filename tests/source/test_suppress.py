"""Comments that suppress findings, and those that suppress nothing."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from modellint.results.diagnostic import Diagnostic, Severity, Span
from modellint.rule import Page, Rule
from modellint.run import all_rules
from modellint.source.syntax.comments import comments_and_strings
from modellint.source.syntax.edits import apply, changes_of
from modellint.source.syntax.source_text import SourceText
from modellint.source.syntax.suppressions import Suppressions
from modellint.tool_diagnostics import CannotParse, NotRead, RuleFailed, UnusedIgnore, cannot_parse, rule_failed

RAN = ("REG001", "REG002", "LNT001")


def at(row: int, end_row: int | None = None, code: str = "REG001", end_column: int = 5) -> Diagnostic:
    span = Span(row, 1, end_row or row, end_column)
    return Diagnostic(code, "module-in-list", Severity.ERROR, "found", "net.py", span)


def read(text: str, tree: ast.Module | None = None) -> Suppressions:
    return Suppressions.of(SourceText(text), tree or ast.parse(text))


def suppressed(text: str, finding: Diagnostic) -> bool:
    kept, _ = read(text).apply([finding])
    assert len(kept) in (0, 1)
    return not kept


def unused(text: str, *findings: Diagnostic, ran: tuple[str, ...] = RAN) -> list[Diagnostic]:
    suppressions = read(text)
    _, used = suppressions.apply(findings)
    return list(suppressions.unused(used, ran, "net.py"))


def cleaned(text: str, *findings: Diagnostic) -> str:
    """The text after the fixes of all LNT001."""
    source = SourceText(text)
    changes = sorted(change for one in unused(text, *findings) if one.fix for change in changes_of(one.fix, source))
    return apply(text, changes)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# NoQA because of an old checkpoint",
        "# noqa - see above",
        "# noqa: REG001",
        "# noqa:REG001",
        "# noqa : REG001",
        "# NOQA: reg001",
        "# noqa: E501, REG001",
        "# noqa: REG001,F401",
        "# noqa: F401 REG001",
        "# noqa: F401REG001",
        "# noqa: F401,,REG001",
        "# noqa: REG001 because of an old checkpoint",
        "# type: ignore # noqa: REG001",
        "# noqa: REG001 # type: ignore",
        "## noqa: REG001",
        "# modellint: ignore[REG001]",
        "# modellint:ignore[REG001]",
        "# modellint: ignore [REG002, REG001]",
        "# modellint: ignore[REG002 reg001]",
        "# Modellint: Ignore[REG001]  an old checkpoint",
        "# modellint: ignore",
        "# modellint: ignore because of an old checkpoint",
        "# modellint: file-ignore[REG001]",
        "# modellint: file-ignore",
        "# noqa: F401 # modellint: ignore[REG001]",
    ],
)
def test_a_comment_suppresses(comment: str) -> None:
    assert suppressed(f"x = 1\ny = [z]  {comment}\n", at(2))


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: REG002",
        "# noqa: REG",
        "# noqa: REG0010",
        "# noqa: REG001x",
        "# noqa:",
        "# noqa: because of an old checkpoint",
        "# noqable",
        "# xnoqa: REG001",
        "# flake8: noqa",
        "# ruff: noqa",
        "# no qa",
        "# modellint: ignore[REG002]",
        "# modellint: ignore[]",
        "# modellint: ignore[REG001",
        "# modellint: ignore REG001",
        "# modellint: ignore: REG001",
        "# modellint: ignroe[REG001]",
        "# modellint: ignore[module-in-list]",
        "# modellint ignore[REG001]",
        "# modellint",
        "; '# noqa'",
        "; f'# noqa {z}'",
        "; '''# modellint: ignore[REG001]'''",
    ],
)
def test_a_comment_does_not_suppress(comment: str) -> None:
    assert not suppressed(f"x = 1\ny = [z]  {comment}\n", at(2))


def test_only_the_first_and_the_last_row_of_a_finding_count() -> None:
    text = "x = [\n    1,\n    2,\n]\ny = 1\n"
    lines = text.splitlines()
    for row, expected in [(1, True), (2, False), (3, False), (4, True), (5, False)]:
        marked = [line + "  # noqa: REG001" * (number == row) for number, line in enumerate(lines, 1)]
        assert suppressed("\n".join(marked), at(1, 4)) is expected, row
    assert suppressed("x = 1  # noqa\ny = 2\n", at(1, 2, end_column=1)), "a span may take its line end along"
    assert not suppressed("x = 1\ny = 2  # noqa\n", at(1, 2, end_column=1))


def test_where_no_comment_can_stand_the_next_row_that_takes_one_counts() -> None:
    assert suppressed("x = f(a, '''\n# noqa in the string\n''')  # noqa: REG001\n", at(1))
    assert suppressed("x = a + \\\n    b + \\\n    c  # noqa: REG001\n", at(1))
    assert suppressed("x = a + \\\n    '''\n''' + '''\n''' \\\n    + c  # noqa: REG001\n", at(1))
    assert not suppressed("x = f(a,\n    b)  # noqa: REG001\n", at(1))


CLASS = """
@decorated
class Net(Base):{}
    def __init__(self):{}
        self.a = [1]
        self.b = (
            2,
        )

    async def forward(
        self,
        x,{}
    ):
        return [x]

after = 1
"""


def test_an_ignore_on_a_header_holds_for_the_block() -> None:
    ignore = "  # modellint: ignore[REG001]"
    rows = range(2, 17)

    def where(*comments: str) -> list[int]:
        return [row for row in rows if suppressed(CLASS.format(*comments), at(row))]

    assert where(ignore, "", "") == list(range(2, 15))
    assert where("", ignore, "") == list(range(4, 9))
    assert where("", "", ignore) == list(range(10, 15))
    assert where("", "  # modellint: ignore", "") == list(range(4, 9))
    assert where("  # noqa: REG001", "", "") == [3], "a noqa holds for its line only"
    assert where("\n    # modellint: ignore[REG001]", "", "") == [4], "a line of its own is no header"


def test_every_block_around_a_finding_counts_and_no_other() -> None:
    # Three levels, ten times over, each with an ignore of its own, and rows between them that stand in the outer one.
    lines = ["class A:  # modellint: ignore[REG001]"]
    blocks = [(1, 1 + 10 * 6)]
    for _ in range(10):
        row = len(lines) + 1
        lines += [
            "    @d",
            "    def f(self):  # modellint: ignore[REG001]",
            "        def g():  # modellint: ignore[REG001]",
        ]
        lines += ["            return 1", "        return 2", "    x = 3"]
        blocks += [(row, row + 4), (row + 2, row + 3)]
    lines += ["y = 4", "def h():  # modellint: ignore[REG002]", "    return 5"]
    text = "\n".join(lines) + "\n"
    suppressions = read(text)
    headers = {
        row: sum(map(len, lines[: row - 1])) + row - 1 + lines[row - 1].find("#") for row in range(1, len(lines) + 1)
    }
    for row in range(1, len(lines) + 1):
        kept, used = suppressions.apply([at(row)])
        around = {headers[first + ("@" in lines[first - 1])] for first, last in blocks if first <= row <= last}
        assert {start for start, _ in used} == around and bool(kept) is (not around)


def test_an_ignore_on_the_first_statement_is_not_on_the_header() -> None:
    assert not suppressed("def f():\n    x = 1  # modellint: ignore[REG001]\n    y = 2\n", at(3))
    assert not suppressed("class A:\n    @b  # modellint: ignore[REG001]\n    def f(self): ...\n    y = 2\n", at(4))
    assert suppressed("class A: x = [\n    1,\n]  # modellint: ignore[REG001]\n", at(1, 3))
    assert suppressed("class A: x = 1  # modellint: ignore[REG001]\n", at(1))


def test_many_comments_for_the_file_are_all_of_use() -> None:
    text = "# modellint: file-ignore[REG001]\n" * 3 + "# modellint: file-ignore[REG002]\nx = 1\n"
    kept, used = read(text).apply([at(5), at(5), at(5, code="REG004")])
    assert [finding.code for finding in kept] == ["REG004"] and len(used) == 3
    assert [finding.span.row for finding in unused(text, at(5)) if finding.span] == [4]


def test_a_finding_without_a_place_obeys_the_file() -> None:
    nowhere = Diagnostic("REG001", "module-in-list", Severity.ERROR, "found", "net.py", None)
    assert suppressed("# modellint: file-ignore[REG001]\n", nowhere)
    assert not suppressed("# noqa: REG001\n", nowhere)


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_all_line_ends_are_known(newline: str) -> None:
    text = newline.join(["x = '''", "# noqa", "'''", "y = [z]  # noqa: REG001", "w = '한'  # noqa: REG002", ""])
    assert suppressed(text, at(4))
    assert not suppressed(text, at(4, code="REG002"))
    assert suppressed(text, at(5, code="REG002"))
    assert cleaned(text, at(4)) == text.replace("  # noqa: REG002", "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # noqa: REG001\n", "x = 1\n"),
        ("x = 1\t#noqa:REG001   \ny = 2\n", "x = 1\ny = 2\n"),
        ("x = 1\n    # noqa: REG001\ny = 2\n", "x = 1\ny = 2\n"),
        ("x = 1\r\n# noqa: REG001\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        ("x = 1\r# noqa: REG001\ry = 2\r", "x = 1\ry = 2\r"),
        ("x = 1\n# noqa: REG001", "x = 1\n"),
        ("# noqa: REG001", ""),
        ("x = 1  # noqa: E501, REG001\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: REG001, E501\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501 REG001 F401 a reason\n", "x = 1  # noqa: E501 F401 a reason\n"),
        ("x = 1  # noqa: REG001 REG002 F401\n", "x = 1  # noqa: F401\n"),
        ("x = 1  # noqa: REG001, REG002\n", "x = 1\n"),
        ("x = 1  # noqa: F401REG001E501\n", "x = 1  # noqa: F401E501\n"),
        ("x = 1  # noqa: REG001 because of it\n", "x = 1  # because of it\n"),
        ("x = 1  # noqa: REG001 -- because of it\n", "x = 1  # because of it\n"),
        ("x = 1  # hi  # noqa: REG001\n", "x = 1  # hi\n"),
        ("x = 1  # noqa: REG001  # type: ignore\n", "x = 1  # type: ignore\n"),
        ("x = 1  # hi # noqa: REG001 # type: ignore\n", "x = 1  # hi # type: ignore\n"),
        ("x = 1  # modellint: ignore[REG001]\n", "x = 1\n"),
        ("x = 1  # modellint: ignore[REG001, XYZ100]\n", "x = 1  # modellint: ignore[XYZ100]\n"),
        ("# modellint: file-ignore[REG001]\nx = 1\n", "x = 1\n"),
        ("def f():  # modellint: ignore[REG001]\n    pass\n", "def f():\n    pass\n"),
        ("x = '한글'  # noqa: REG001\n", "x = '한글'\n"),
    ],
)
def test_the_fix_removes_what_is_unused_and_no_more(before: str, after: str) -> None:
    assert cleaned(before) == after
    assert unused(after) == []


def test_what_is_of_use_stays() -> None:
    text = "x = [1]  # noqa: REG001, REG002\n"
    assert cleaned(text, at(1), at(1, code="REG002")) == text
    assert cleaned(text, at(1)) == "x = [1]  # noqa: REG001\n"
    twice = "# modellint: file-ignore[REG001]\nclass A:  # modellint: ignore[REG001]\n    x = [1]  # noqa: REG001\n"
    assert unused(twice, at(3)) == [], "each of them names the finding"


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# modellint: ignore",
        "# modellint: file-ignore",
        "# noqa: F401, E501",
        "# noqa: REG004",
        "# noqa: REG999",
        "# noqa: LNT001",
        "# noqa: REG001, LNT001",
        "# noqa: REG001 # noqa",
        "# noqa: because",
        "# modellint: ignore[REG004, OPS003]",
        "# modellint: ignore[REG001]  # noqa: LNT001",
        "# what modellint: says of it",
        "# modellint: a linter for models",
    ],
)
def test_what_is_none_of_our_business_is_not_reported(comment: str) -> None:
    assert unused(f"x = 1  {comment}\n") == []


def test_a_code_is_unused_only_if_its_rule_ran() -> None:
    text = "x = 1  # noqa: REG001, REG002\n"
    assert "`REG002`" in unused(text, ran=("REG002", "LNT001"))[0].message
    assert "REG001" not in unused(text, ran=("REG002", "LNT001"))[0].message
    assert unused(text, ran=("LNT001",)) == []
    assert unused(text, ran=("REG001", "REG002")) == [], "LNT001 itself was not asked for"


def test_the_finding_stands_at_the_directive() -> None:
    (finding,) = unused("'한글'; x = 1  # hi # noqa: REG001, E501 reason\n")
    assert (finding.code, finding.name, finding.severity, finding.path) == (
        "LNT001", "unused-ignore", Severity.WARNING, "net.py",
    )  # fmt: skip
    assert finding.span == Span(1, 19, 1, 39)
    assert finding.noqa_row == 1


@pytest.mark.parametrize(
    ("comment", "hint"),
    [
        ("# modellint: ignroe[REG001]", "did you mean `ignore`"),
        ("# modellint: ignore-file[REG001]", "did you mean `file-ignore`"),
        ("# modellint: fileignore", "did you mean `file-ignore`"),
        ("# modellint: disable=REG001", "use `ignore[CODE]`"),
        ("# modellint: noqa", "use `ignore[CODE]`"),
        ("# modellint: ignore[REG001", "closing bracket"),
        ("# modellint: ignore[]", "no code"),
        ("# modellint: ignore[module-in-list]", "not a list of codes"),
        ("# modellint: ignore REG001", "write `ignore[CODE]`"),
        ("# modellint: ignore: REG001", "write `ignore[CODE]`"),
    ],
)
def test_a_directive_that_nobody_understands_is_reported(comment: str, hint: str) -> None:
    (finding,) = unused(f"x = [1]  {comment}\n", at(1))
    assert finding.code == "LNT001"
    assert finding.fix is None
    assert "suppresses nothing" in finding.message
    assert hint in finding.message


def test_newer_syntax_needs_no_tokenizer() -> None:
    # The tree is what another parser might have made of it.
    text = "type A = f'''{\n  x['''a'''] # noqa: REG001\n  : >{y['#']}}#'''\nz = 1  # noqa: REG002\n"
    suppressions = read(text, ast.parse("pass"))
    kept, used = suppressions.apply([at(2), at(4, code="REG002"), at(3)])
    assert [finding.span.row for finding in kept if finding.span] == [3]
    assert {code for _, code in used} == {"REG001", "REG002"}


STRINGS = [
    r"a = '\'# no' # yes",
    r'a = "\\" # yes',
    "a = '''# no\n# no''' # yes",
    "a = r'\\' # no' # yes",
    "a = f'{b!r:>{c}}# no {{# no' # yes",
    "a = f'{d[\"#\"]}' # yes",
    "a = rf'\\{b}# no' # yes",
    "a = '\\\n# no' # yes",
    "a = ('b' # yes\n 'c#' # yes\n)",
    'a = """"# no""" # yes',
    "a = '''\\'''# no''' # yes",
    "a = b'# no' + u'# no' # yes",
    "a = f'\\N{NUMBER SIGN}# no' # yes",
    "elif_f = 1 # yes",
]


@pytest.mark.parametrize("text", STRINGS)
def test_comments_are_told_from_strings(text: str) -> None:
    comments, _ = comments_and_strings(text)
    assert [text[start:end] for start, end in comments] == ["# yes"] * text.count("# yes")


def test_comments_are_those_that_python_finds() -> None:
    for path in [Path(ast.__file__), Path(tokenize.__file__), *Path(__file__).parent.glob("*.py")]:
        text = path.read_bytes().decode()
        starts = [0, *SourceText(text).line_starts]
        tokens = tokenize.generate_tokens(io.StringIO(text, newline="").readline)
        expected = [starts[token.start[0]] + token.start[1] for token in tokens if token.type == tokenize.COMMENT]
        assert sorted(start for start, _ in comments_and_strings(text)[0]) == expected


@pytest.mark.parametrize("rule", [UnusedIgnore, CannotParse, RuleFailed, NotRead])
def test_the_pages_of_our_own_rules_are_whole(rule: type[Rule]) -> None:
    page = Page.of(rule)
    ast.parse(page.example("Good"))
    if rule is CannotParse:
        with pytest.raises(SyntaxError):
            ast.parse(page.example("Bad"))
    else:
        ast.parse(page.example("Bad"))


def test_the_bad_example_of_an_unused_suppression_is_fixed_to_the_good_one() -> None:
    page = Page.of(UnusedIgnore)
    assert cleaned(page.example("Bad")) == page.example("Good")


def test_a_file_that_cannot_be_parsed() -> None:
    finding = cannot_parse("net.py", "invalid syntax", Span(3, 4, 3, 4))
    assert (finding.code, finding.severity, finding.noqa_row) == ("LNT002", Severity.ERROR, None)
    assert cannot_parse("net.py", "binary").span == Span(1, 1, 1, 1)


def test_a_rule_that_failed_is_named_with_its_line() -> None:
    module: dict[str, object] = {"__name__": "plugin.odd"}
    source = "import ast\nclass Odd:\n    code = 'REG001'\n    def source(self):\n        ast.parse('(')\n"
    exec(compile(source, "/somewhere/plugin/odd.py", "exec"), module)
    try:
        module["Odd"]().source()  # type: ignore[operator]
    except SyntaxError as error:
        finding = rule_failed(all_rules()["REG001"], "net.py", error, Span(1, 1, 2, 1))
    assert finding.code == "LNT004"
    assert finding.message.startswith("rule REG001 failed here: SyntaxError: ")
    assert finding.message.endswith("(plugin/odd.py:5)")
    assert "\n" not in finding.message


def test_an_exception_that_cannot_even_say_what_it_is() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert rule_failed(all_rules()["REG001"], None, MuteError()).message == "rule REG001 failed here: MuteError"
    assert len(rule_failed(all_rules()["REG001"], None, ValueError("x" * 10000)).message) < 500

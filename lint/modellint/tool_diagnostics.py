"""The machine's own findings: unused suppressions, unreadable files, models that cannot be run, rules that failed."""

from __future__ import annotations

from functools import cache
from types import TracebackType

from modellint.results.diagnostic import Diagnostic, Fix, Severity, Span
from modellint.rule import Rule

_LONGEST = 300


class UnusedIgnore(Rule):
    """A comment suppresses a finding that is not there.

    ## What it does
    Reports codes in `# noqa: REG001`, `# modellint: ignore[REG001]` and `# modellint: file-ignore[REG001]` that
    suppressed nothing, although their rule ran on the file. Reports, too, a `# modellint:` comment that is not
    understood and therefore suppresses nothing.

    Only modellint's own codes are looked at. A bare `# noqa`, a bare `# modellint: ignore`, the codes of other
    tools, and codes whose rule did not run (it was not selected, or it needs a live model) are never reported.

    ## Why
    A suppression that outlives its finding hides the next one: the line can become wrong again and nobody is told.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4)])  # noqa: REG001

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    ```

    ## Fix safety
    Safe: only a comment changes. The unused codes are removed; the other codes, and whatever else the comment says,
    stay. A comment with nothing left goes, with its line if the line holds nothing else.

    ## Known limits
    A suppression that is needed only with other settings (another `select`, another deployment target) is reported
    when it is not needed with those in force. `# noqa: LNT001` on the line keeps it.

    ## References
    - Ruff's `unused-noqa` (RUF100): https://docs.astral.sh/ruff/rules/unused-noqa/
    """

    code = "LNT001"
    name = "unused-ignore"
    severity = Severity.WARNING
    fixable = "remove"


class CannotParse(Rule):
    """A file cannot be read as Python, so nothing in it was checked.

    ## What it does
    Reports a file that the system does not let be read, with a syntax error, with bytes that do not fit its declared
    encoding, with NUL bytes (a binary file, or UTF-16), or with more than 16 MB.

    ## Why
    No finding in such a file means nothing. Without this report it would look as if the file were clean.

    ## Bad
    This text is not Python.

    ```python
    from torch import nn


    class Net(nn.Module:
        pass
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        pass
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    Syntax that is newer than the running Python is read by libcst, as far as the installed version knows it. What
    only the compiler refuses, such as `return` outside a function, is not reported. No comment suppresses the
    finding: comments are read from parsed files. Exclude the file instead. Where `ignore` names the code, the file is
    told of on standard error, and a run that could read none exits with 2. It is information in a file without a model that
    no file with one imports, by the text of the project's files, such as a script of Python 2.

    ## References
    - Source encodings, PEP 263: https://peps.python.org/pep-0263/
    """

    code = "LNT002"
    name = "cannot-parse"
    severity = Severity.ERROR


class CannotRun(Rule):
    """A live target cannot be imported, built or run, so it was not checked, or not in full.

    ## What it does
    Reports a model whose code raises while its module is imported, while it is built or while its `forward` runs, whose
    lazy modules have no shape as no input is given, whose checkpoint cannot be loaded, or whose process takes longer
    than `--timeout`, more memory than `--memory` (without
    that option: than there is), or ends by itself. The finding stands at the innermost frame of the project; the help lists
    the project's frames and the last lines that were printed.

    ## Why
    No finding for such a model means nothing, and what does not run cannot be exported. A live target runs in a process of
    its own: whatever happens there, files and other targets are checked all the same.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, groups=2)

        def forward(self, x):
            return self.conv(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 3, groups=3)

        def forward(self, x):
            return self.conv(x)
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    Of a process that is killed, or ends itself with `os._exit`, nobody knows the line; the finding then stands where the
    target is defined. A `forward` that fails because shapes do not fit is reported by SHP008 instead. The worker is no
    sandbox: the model's code runs with your rights. The limit on memory is watched on Linux and macOS only.

    ## References
    - Building on the meta device: https://pytorch.org/docs/stable/meta.html
    - Loading weights only: https://pytorch.org/docs/stable/generated/torch.load.html
    """

    code = "LNT003"
    name = "cannot-run"
    severity = Severity.ERROR


class RuleFailed(Rule):
    """A rule raised an exception; the other rules went on.

    ## What it does
    Reports the rule, the exception, and the line of the rule that raised it. All other rules, and this rule in other
    places, were still asked.

    ## Why
    One defective rule, a plug-in above all, must not cost the user the whole run, and must not pass for a clean file.

    ## Bad
    The finding needs a rule that fails. In this plug-in `attribute.nmae` is misspelt: with it, every file with a
    module class that binds an attribute gets LNT004. As a file to check, the text is clean.

    ```python
    from modellint.authoring import ModuleClass, Rule, Severity


    class Misspelt(Rule):
        code, name, severity = "XYZ001", "private-attribute", Severity.INFO

        def source(self, cls: ModuleClass):
            for attribute in cls.attributes:
                if attribute.nmae.startswith("_"):
                    yield cls.finding(self, cls.node, f"`{attribute.name}` is private")
    ```

    ## Good
    ```python
    from modellint.authoring import ModuleClass, Rule, Severity


    class Correct(Rule):
        code, name, severity = "XYZ001", "private-attribute", Severity.INFO

        def source(self, cls: ModuleClass):
            for attribute in cls.attributes:
                if attribute.name.startswith("_"):
                    yield cls.finding(self, cls.node, f"`{attribute.name}` is private")
    ```

    ## Fix safety
    There is no fix. If the rule comes with modellint, please report it with the file that was checked; until then
    `--ignore` its code.

    ## Known limits
    A rule that never returns is not stopped here.

    ## References
    - Python's exceptions: https://docs.python.org/3/library/exceptions.html
    """

    code = "LNT004"
    name = "rule-failed"
    severity = Severity.ERROR


class NotRead(Rule):
    """A class takes too long to read, so rules were not asked about it.

    ## What it does
    Reports a class, at its name, or the functions of a file outside of classes, at the first line, that take too many steps to
    read: more than 400,000, or four for each character of the class and its bases where that is more. Statements and expressions
    count, as often as calls lead to them, and views that are each written to and all read later. The message names the
    rules that were not asked. Findings of rules that had been asked before are shown.

    ## Why
    No finding of these rules in such a class means nothing. Without this report it would look as if the class were clean.

    ## Bad
    The finding needs some hundred thousand expressions. The calls below are such that, with a longer `step` and more rows of
    calls, a few thousand lines are enough, as each call is followed. As a file to check, the text is clean.

    ```python
    from torch import nn


    class Net(nn.Module):
        def step(self, x):
            x = x * 2 + 1
            return x * 3 + 2

        def forward(self, x):
            x = self.step(self.step(self.step(self.step(x))))
            return self.step(self.step(self.step(self.step(x))))
    ```

    ## Good
    ```python
    from torch import nn


    class Step(nn.Module):
        def forward(self, x):
            x = x * 2 + 1
            return x * 3 + 2


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.ModuleList(Step() for _ in range(8))

        def forward(self, x):
            for step in self.steps:
                x = step(x)
            return x
    ```

    ## Fix safety
    There is no fix. Divide the class into several, each with methods of its own.

    ## Known limits
    The limit is on steps and not on seconds, so that a file gives the same findings everywhere.

    ## References
    - Registering submodules: https://pytorch.org/docs/stable/notes/modules.html
    """

    code = "LNT005"
    name = "not-read"
    severity = Severity.ERROR


@cache
def machine_rules() -> dict[str, Rule]:
    """The rules of this module, by code."""
    return {rule.code: rule() for rule in (UnusedIgnore, CannotParse, CannotRun, RuleFailed, NotRead)}


def unused_ignore(message: str, shown: str, span: Span, fix: Fix | None = None) -> Diagnostic:
    """LNT001 at a directive."""
    return _finding(UnusedIgnore, message, shown, span, fix, noqa_row=span.end_row)


def cannot_parse(shown: str, message: str, span: Span | None = None) -> Diagnostic:
    """LNT002 for a file: ``message`` says why it cannot be read, ``span`` where, if that is known."""
    return _finding(CannotParse, message, shown, span or Span(1, 1, 1, 1))


def rule_failed(rule: Rule, shown: str | None, error: BaseException, span: Span | None = None) -> Diagnostic:
    """LNT004: the rule raised ``error`` when asked about what is at ``span``."""
    origin = f" of the plug-in {rule.plugin!r}" if rule.plugin else ""
    message = f"rule {rule.code}{origin} failed here: {described(error)}"
    if where := getattr(error, "place", "") or _innermost(error, rule.code):
        message += f" ({where})"
    return _finding(RuleFailed, message, shown, span)


def not_read(shown: str | None, name: str | None, codes: list[str], steps: int, span: Span) -> Diagnostic:
    """LNT005: the class of that name, or what stands outside of classes, took more steps than may be; the rules were not asked."""
    what = f"class `{name}` takes" if name is not None else "the functions outside of classes take"
    end = "divide it into several classes" if name is not None else "divide the file"
    message = f"{what} more than {steps:,} steps to read; not asked about it: {', '.join(codes)}; {end}"
    return _finding(NotRead, message, shown, span)._replace(class_name=name)


def _finding(
    rule: type[Rule],
    message: str,
    shown: str | None,
    span: Span | None,
    fix: Fix | None = None,
    noqa_row: int | None = None,
) -> Diagnostic:
    return Diagnostic(rule.code, rule.name, rule.severity, message, shown, span, fix, noqa_row=noqa_row)


def described(error: BaseException) -> str:
    """The type and the message of an exception, in a line."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    name = type(error).__name__
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    return f"{name}: {text}" if text else name


def _innermost(error: BaseException, code: str) -> str | None:
    """File and line of the innermost frame in the rule's own module; else of the innermost outside this package."""
    frames = list(_frames(error.__traceback__))
    for ours in (True, False):
        for frame in reversed(frames):
            module = frame.tb_frame.f_globals
            name = str(module.get("__name__", ""))
            belongs = (
                any(isinstance(value, type) and vars(value).get("code") == code for value in module.values())
                if ours
                else name != "modellint" and not name.startswith("modellint.")
            )
            if belongs:
                return _place(frame)
    return _place(frames[-1]) if frames else None


def raised_at(error: BaseException) -> str:
    """File and line of the innermost frame."""
    frames = _frames(error.__traceback__)
    return _place(frames[-1]) if frames else "nowhere"


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _place(frame: TracebackType) -> str:
    """The folder and name of the file, and the line: the same on every machine."""
    parts = frame.tb_frame.f_code.co_filename.replace("\\", "/").split("/")
    return f"{'/'.join(parts[-2:])}:{frame.tb_lineno}"

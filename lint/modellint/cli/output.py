"""Output of commands: where reports go, texts of files for them, colours, and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic, Place
    from modellint.run import Job
    from modellint.source.syntax.source_text import SourceText


class Texts:
    """The texts of files by the path that findings name."""

    def __init__(self, folder: Path, stdin: SourceText | None) -> None:
        self._folder = folder
        self._stdin = stdin
        self._known: dict[str, SourceText | None] = {}

    def __call__(self, shown: str) -> SourceText | None:
        """The text of a file; None where it cannot be read."""
        from modellint.run import source_of
        from modellint.source.syntax.source_text import Undecodable, Unreadable, read_bytes

        if self._stdin is not None:
            return self._stdin
        if shown not in self._known:
            try:
                self._known[shown] = source_of(shown, read_bytes(self._folder / shown))
            except (Unreadable, Undecodable):
                self._known[shown] = None
        return self._known[shown]


def locators(job: Job, texts: Texts) -> tuple[Callable[[str], str], Callable[[Place], str]]:
    """How reports name a file by its path, and the text of the first row of a statement, empty where there is none."""

    def name(path: str) -> str:
        return job.shown(Path(path))

    def line(place: Place) -> str:
        text = texts(name(place.path))
        return "" if text is None or place.span.row > len(text.line_starts) else text.line(place.span.row)

    return name, line


def absolute(shown: str) -> str:
    """The path of a file as machines read it."""
    return shown if shown == "-" else str(Path(shown).absolute())


def expect_output(options: Mapping[str, Any]) -> None:
    """Refuse an output file that cannot be, before the work of a run is lost with it. Raises ``click.UsageError``."""
    for option, target in _files(options):
        if os.path.isdir(target):  # noqa: PTH112
            raise click.UsageError(f"{option} {target} is a folder")
        if not os.path.isdir(target.absolute().parent):  # noqa: PTH112
            raise click.UsageError(f"{option} {target}: there is no folder {target.absolute().parent}")


def expect_not_read(options: Mapping[str, Any], files: Sequence[Path], what: str) -> None:
    """Refuse to write findings into what a run reads. Raises ``click.UsageError``."""
    outputs = list(_files(options))
    if outputs:
        read = set(map(os.path.realpath, files))
        for option, target in outputs:
            if os.path.realpath(target) in read:
                raise click.UsageError(f"{option} {target} is {what}")


def _files(options: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The files that are to be written, each with its option."""
    if options["output_file"] is not None:
        yield "--output-file", options["output_file"]
    for output in options.get("outputs", ()):
        if output.file is not None:
            if options["output_file"] is not None and os.path.realpath(output.file) == os.path.realpath(
                options["output_file"]
            ):
                raise click.UsageError(f"--output-file and --output-format {output.format} both name {output.file}")
            yield f"--output-format {output.format}:", output.file


def write(text: str, options: Mapping[str, Any], err: bool) -> None:
    """Print a report, or write it where ``--output-file`` says."""
    target = options["output_file"]
    if target is not None:
        write_report(text, target)
    elif text:
        click.echo(text, nl=not text.endswith("\n"), err=err, color=True)


def write_report(text: str, target: Path) -> None:
    """Write a report into a file, all of it or nothing. Raises ``click.UsageError``."""
    from modellint.atomic_write import ReplaceError, write_file

    try:
        write_file(target, text.encode("utf-8", "backslashreplace"))
    except ReplaceError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{target}: cannot be written: {error.strerror}") from None


def colored(stream: Any) -> bool:
    """Whether to print in colour to a stream: as ``--color`` says, else where it shows colours."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


class Progress:
    """Progress of a long run: on a terminal, and in a pipe only where it is asked for, a line at a time."""

    def __init__(self, total: int, verbose: bool = False) -> None:
        self._on_terminal = total > 200 and sys.stderr.isatty()
        self._in_lines = total > 200 and verbose and not self._on_terminal
        self._total = total
        self._told = 0

    def __call__(self, done: int) -> None:
        """Show how many files are done."""
        if self._on_terminal and (done % 50 == 0 or done == self._total):
            click.echo(f"\rchecking: {done}/{self._total} files", nl=False, err=True)
        elif self._in_lines and (done - self._told >= 500 or done == self._total):
            click.echo(f"checking: {done}/{self._total} files", err=True)
            self._told = done

    def close(self) -> None:
        """Leave the line as it was."""
        if self._on_terminal:
            click.echo("\r\033[K", nl=False, err=True)


class Waiting:
    """Status line of a worker that takes long: on a terminal, and in a pipe only where it is asked for, a line for each step."""

    def __init__(self, verbose: bool = False) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._in_lines = verbose and not self._on_terminal
        self._line = ""

    def __call__(self, target: str, stage: str, seconds: float) -> None:
        """Show what is done for a target, and since when."""
        line = f"{stage} {target}" + (f": {seconds:.0f} s" if self._on_terminal else "")
        if line == self._line:
            return
        if self._on_terminal and seconds >= 2:
            click.echo(f"\r\033[K{line}", nl=False, err=True)
            self._line = line
        elif self._in_lines:
            click.echo(line, err=True)
            self._line = line

    def close(self) -> None:
        """Leave the line as it was."""
        if self._line and self._on_terminal:
            click.echo("\r\033[K", nl=False, err=True)


def findings_line(findings: Sequence[Diagnostic], target: str) -> str:
    """What the check of the model as it is has found, in a line."""
    if not findings:
        return ""
    codes = ", ".join(dict.fromkeys(finding.code for finding in sorted(findings, key=lambda finding: finding.sort_key)))
    noun = "finding" if len(findings) == 1 else "findings"
    return f"note: {len(findings)} {noun} in the model as it is ({codes}): modellint check {target}\n"

"""The command line: a group whose commands are imported when they are called."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import IO, Any

import click

from modellint.cli.options import with_color

_COMMANDS = {
    "check": "check_command",
    "clean": "adopting_commands",
    "completion": "about_commands",
    "config": "about_commands",
    "export": "export_command",
    "init": "adopting_commands",
    "new-rule": "adopting_commands",
    "ops": "about_commands",
    "report": "report_command",
    "rule": "about_commands",
    "server": "server_command",
    "shapes": "shapes_command",
    "sweep": "sweep_command",
    "verify": "verify_command",
}
"""Each command, and the module that holds it under the name ``<command>_command``, with ``_`` for ``-``."""
_UNWRITTEN = (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC)
"""With which a stream refuses what is printed."""
_BROKEN_PIPE = 13
"""The number of SIGPIPE, also where there is none."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    if arguments is None:
        # A check needs no collection, and other commands turn it on: see `get_command`.
        gc.disable()
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # Source may hold what the terminal's encoding lacks; a file name may hold surrogates.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    _obey_signals()
    status = _status(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        status = _failed(error)
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)
    if arguments is None:
        _leave(status)
    sys.exit(status)


def _status(arguments: Sequence[str] | None) -> int:
    """Run the command line, and say with which status to exit."""
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="modellint")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as error:
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    """Tell in a line what went wrong, where that can be told, and say with which status to exit."""
    if isinstance(error, _ReaderGone):
        _drop(sys.stdout)
        return 128 + _BROKEN_PIPE
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN:
        _drop(sys.stdout)
        message = f"the output cannot be written: {error.strerror}"
    elif isinstance(error, FileNotFoundError) and error.filename is None:
        message = "the folder that you are in is gone"
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{os.fsdecode(error.filename)}: {error.strerror}"
    else:
        from modellint.tool_diagnostics import described, raised_at

        what = f"{described(error)} ({raised_at(error)})"
        message = f"modellint itself failed: {what}; please report it, with what -v tells"
    with contextlib.suppress(OSError):
        if {"-v", "--verbose"} & {*sys.argv}:
            import traceback

            traceback.print_exception(error)
        click.echo(f"error: {message}", err=True)
    return 2


def _drop(stream: IO[str]) -> None:
    """Forget what is printed and not written: Python would try once more at the end, and complain, or exit with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_streams() -> None:
    """Open the null device for standard streams that were closed at the start: the next file would take their descriptors."""
    for number, name, mode in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, mode), number)
            # Nothing can be read from standard input, or written to standard output; errors nobody wants to hear.
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _obey_signals() -> None:
    """End as a user expects who ends a program from outside, but after what was started is ended, and cleared up."""
    if threading.current_thread() is not threading.main_thread():
        return

    def leave(number: int, _: object) -> None:
        for signal_name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, signal_name):
                signal.signal(getattr(signal, signal_name), signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for name, usual in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),
    ):
        # What is ignored, as below nohup, stays so.
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == usual:
            signal.signal(getattr(signal, name), leave)


def _leave(status: int) -> None:
    """End the process without Python's teardown of all objects, which costs a tenth of the check of a file."""
    if threading.active_count() > 1 and status < 128:
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        return
    os._exit(status)


class _ReaderGone(Exception):
    """The output's reader closed the pipe."""


@contextlib.contextmanager
def _ended_from_outside() -> Iterator[None]:
    """Keep click from making its own exit status, 1, of a reader that is gone, and of an interrupt."""
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGone from error
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(128 + signal.SIGINT)


class _Commands(click.Group):
    """Commands that are imported by name, so that `check` waits for no other's modules."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; `--help` prints here."""
        with _ended_from_outside():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _ended_from_outside():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the alphabet."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name != "check":
            gc.enable()
        module = import_module(f"modellint.cli.{_COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; for one that there is not, the nearest is told."""
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from modellint.cli import help_pages

            raise click.UsageError(help_pages.unknown_command(args[0], list(_COMMANDS)), ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options."""
        from modellint.cli import help_pages

        help_pages.write_commands(list(_COMMANDS), formatter)
        help_pages.write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples."""
        from modellint.cli import help_pages

        help_pages.write_epilog("", formatter)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from modellint.version import version

        click.echo(f"modellint, version {version()}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@with_color
def cli() -> None:
    """Check, fix, verify and export PyTorch models on their way to Core ML."""

"""The command line: a group whose commands are imported when they are called."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module

import click

from modellint import __version__

_COMMANDS = {
    "check": "check",
    "config": "about",
    "export": "export",
    "ops": "about",
    "rule": "about",
    "shapes": "shapes",
    "verify": "verify",
}
"""Each command, and the module that holds it under the name ``<command>_command``."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # Source may hold what the terminal's encoding lacks; a file name may hold surrogates.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="modellint")
    except BrokenPipeError:
        # The reader has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except SystemExit as ended:
        if arguments is None:
            _leave(ended.code)
        raise


def _leave(status: object) -> None:
    """End the process, if all is said: taking every object apart, as Python does, costs a tenth of the check of a file."""
    if not isinstance(status, int) or threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return
    os._exit(status)


class _Commands(click.Group):
    """Commands that are imported by name, so that `check` waits for no other's modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the alphabet."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = getattr(import_module(f"modellint.cli.{_COMMANDS[cmd_name]}"), f"{cmd_name}_command")
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="modellint")
def cli() -> None:
    """Check, fix, verify and export PyTorch models on their way to Core ML."""

"""``modellint server``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from modellint.cli.options import Command, exit_with


def _address(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8765")
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command("server", cls=Command)
@click.option("--stdio", is_flag=True, help="Talk over standard input and output (default).")
@click.option("--tcp", callback=_address, metavar="HOST:PORT", help="Wait for one connection there instead.")
def server_command(stdio: bool, tcp: tuple[str, int] | None) -> None:
    """Serve an editor: diagnostics, fixes and pages of rules, by the Language Server Protocol.

    Nothing of yours is run but for live targets that you have checked.
    """
    if stdio and tcp is not None:
        raise click.UsageError("--stdio and --tcp do not go together")
    exit_with(lambda: _serve(tcp))


def _serve(tcp: tuple[str, int] | None) -> int:
    from modellint.run import UsageError

    # The folder that an editor starts the server in is the user's: nothing is imported from there.
    here = Path.cwd()
    sys.path[:] = [name for name in sys.path if name and Path(name) != here]
    if importlib.util.find_spec("pygls") is None:
        raise UsageError("the server needs pygls: pip install 'modellint[server]'")
    from modellint.server import transport

    if tcp is None:
        return transport.serve_stdio()
    try:
        return transport.serve_tcp(*tcp)
    except OSError as error:
        raise UsageError(f"--tcp {tcp[0]}:{tcp[1]}: {error.strerror or error}") from None

"""How messages come and go: standard input and output, or one connection of a socket. The server ends with its client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, BinaryIO

from pygls.io_ import StdinAsyncReader, run_async

from modellint.server.language_server import EditorServer, make_server


def serve_stdio() -> int:
    """Serve the client at standard input and output; the exit status.

    What anything prints goes to standard error, so that it never gets between the messages.
    """
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server = make_server()

    async def serve() -> None:
        # Not a thread of asyncio's own, which it would wait for though nothing comes any more.
        reader = StdinAsyncReader(sys.stdin.buffer, ThreadPoolExecutor(1, "modellint-input"))
        server.protocol.set_writer(_PipeWriter(output))
        await _messages(server, reader)

    return _status(server, serve())


def serve_tcp(host: str, port: int) -> int:
    """Serve the first client that connects; the exit status. Raises ``OSError`` where nothing can listen there."""
    server = make_server()

    async def serve() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_taken = False

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal is_taken
            if is_taken:
                writer.close()
                return
            is_taken = True
            server.protocol.set_writer(_SocketWriter(writer))
            try:
                await _messages(server, reader)
            except BaseException as error:
                if not done.done():
                    done.set_exception(_Ended(error))
                return
            done.set_result(None)

        listening = await asyncio.start_server(connected, host, port)
        for socket in listening.sockets:
            name = socket.getsockname()
            print(f"modellint server: listening on {name[0]}:{name[1]}", file=sys.stderr, flush=True)
        async with listening:
            await done

    return _status(server, serve())


class _Ended(Exception):
    """What ended the connection's task."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _PipeWriter:
    """A pipe. That nobody reads it any more is for the end of the input to tell."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe

    def write(self, data: bytes) -> None:
        """Send data."""
        with contextlib.suppress(OSError):
            self._pipe.write(data)
            self._pipe.flush()

    def close(self) -> None:
        """Close the pipe."""
        with contextlib.suppress(OSError):
            self._pipe.close()


class _SocketWriter:
    """A socket that is written to at once, and closed without waiting."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Send data."""
        self._writer.write(data)

    def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()


async def _messages(server: EditorServer, reader: Any) -> None:
    await run_async(
        stop_event=Event(),
        reader=reader,
        protocol=server.protocol,
        error_handler=server.report_server_error,
    )


def _status(server: EditorServer, serving: Any) -> int:
    """Serve to the end; 0 where the client said that it would go, and 1 where it was just gone."""
    try:
        asyncio.run(serving)
    except _Ended as ended:
        if not isinstance(ended.error, (SystemExit, OSError)):
            raise ended.error from None
    except SystemExit as ended:
        if ended.code not in (0, 1):
            raise
    finally:
        server.end()
    return 0 if server.has_shut_down else 1

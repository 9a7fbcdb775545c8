"""An editor for tests: pygls' client, and `modellint server` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.uris import from_fs_path

T = TypeVar("T")
PATIENCE = 60.0
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""Python's name of each encoding of positions, and the bytes of a unit."""
EVERYTHING = types.ClientCapabilities(
    general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
    window=types.WindowClientCapabilities(work_done_progress=True),
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
    ),
)
BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
"""A model with one finding, REG001 in line 7, and a safe fix for it."""


def uri_of(path: Path) -> str:
    uri = from_fs_path(str(path))
    assert uri is not None
    return uri


class Editor:
    """A client with documents. What it is told is kept in lists, and waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.client = LanguageClient("test", "1")
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.published: list[types.PublishDiagnosticsParams] = []
        self.messages: list[str] = []
        self.log: list[str] = []
        self.watched: list[Any] = []
        self.progress: list[Any] = []
        self.capabilities: types.ServerCapabilities | None = None
        self.cancels_progress = False

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            self.log.append(params.message)

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def registered(params: types.RegistrationParams) -> None:
            self.watched.extend(params.registrations)

        @self.client.feature(types.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refreshed(params: None) -> None:
            self.log.append("refresh")

        @self.client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def begun(params: types.WorkDoneProgressCreateParams) -> None:
            self.progress.append(params.token)

        @self.client.feature(types.PROGRESS)
        def progressed(params: types.ProgressParams) -> None:
            self.progress.append(params.value)
            if self.cancels_progress and params.value["kind"] == "report":
                self.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(params.token))

    def run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    async def start(
        self,
        folders: Sequence[Path],
        capabilities: types.ClientCapabilities,
        command: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        await self.client.start_io(*(command or (sys.executable, "-m", "modellint", "server")), cwd=cwd)
        await self.greet(folders, capabilities)

    async def greet(self, folders: Sequence[Path], capabilities: types.ClientCapabilities) -> None:
        answer = await self.client.initialize_async(
            types.InitializeParams(
                capabilities,
                process_id=os.getpid(),
                workspace_folders=[types.WorkspaceFolder(uri_of(folder), folder.name) for folder in folders],
            )
        )
        self.capabilities = answer.capabilities
        self.client.initialized(types.InitializedParams())

    def open(self, path: Path, text: str | None = None, language: str = "python") -> str:
        return self.open_uri(uri_of(path), path.read_text("utf-8") if text is None else text, language)

    def open_uri(self, uri: str, text: str, language: str = "python") -> str:
        self.texts[uri], self.versions[uri] = text, 1
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str, edits: Sequence[types.TextDocumentContentChangeEvent] = ()) -> int:
        self.versions[uri] += 1
        self.texts[uri] = text
        document = types.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        changes = list(edits) or [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))
        return self.versions[uri]

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def save(self, uri: str) -> None:
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def until(self, is_so: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not is_so():
                await asyncio.sleep(0.01)

        self.run(wait())

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of the newest version, waited for."""
        version = self.versions[uri]

        def newest() -> list[types.PublishDiagnosticsParams]:
            return [each for each in self.published if each.uri == uri and each.version == version]

        self.until(lambda: bool(newest()))
        return list(newest()[-1].diagnostics)

    def last(self, uri: str) -> list[types.Diagnostic] | None:
        """What was published last for a document, whatever version it was of."""
        return next((list(each.diagnostics) for each in reversed(self.published) if each.uri == uri), None)

    def actions(self, uri: str, line: int, only: Sequence[str] | None = None) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext([], only=list(only) if only is not None else None)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        return list(self.run(self.client.text_document_code_action_async(params)) or ())  # type: ignore[arg-type]

    def hover(self, uri: str, line: int, character: int) -> types.Hover | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        return self.run(self.client.text_document_hover_async(params))

    def applied(self, action: types.CodeAction) -> str:
        """The text after an action's edit, which has to be of the version that the editor has."""
        assert action.edit is not None and action.edit.document_changes is not None
        (change,) = action.edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        uri = change.text_document.uri
        assert change.text_document.version == self.versions[uri]
        text = self.texts[uri]
        for edit in sorted(change.edits, key=lambda edit: (edit.range.start.line, edit.range.start.character))[::-1]:
            start, end = self.offset(text, edit.range.start), self.offset(text, edit.range.end)
            text = text[:start] + edit.new_text + text[end:]
        return text

    def offset(self, text: str, position: types.Position) -> int:
        """Where a position is in a text, in the encoding that was agreed on."""
        assert self.capabilities is not None
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
        name, width = CODECS[str(self.capabilities.position_encoding)]
        before = lines[position.line].encode(name)[: position.character * width]
        return sum(map(len, lines[: position.line])) + len(before.decode(name))

    async def leave(self) -> int:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        assert self.client._server is not None
        return await self.client._server.wait()


@contextmanager
def editing(
    *folders: Path,
    capabilities: types.ClientCapabilities = EVERYTHING,
    command: Sequence[str] = (),
    cwd: Path | None = None,
) -> Iterator[Editor]:
    """An editor with these folders; the server has to end with 0 when it is left."""
    loop = asyncio.new_event_loop()
    editor = Editor(loop)
    try:
        editor.run(editor.start(folders, capabilities, command, cwd))
        yield editor
        assert editor.run(editor.leave()) == 0
    finally:
        server = editor.client._server
        if server is not None and server.returncode is None:
            server.kill()
        loop.run_until_complete(editor.client.stop())
        loop.close()

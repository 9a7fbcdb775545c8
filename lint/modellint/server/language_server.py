"""What the server answers: the messages of the Language Server Protocol, one function each."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.uris import from_fs_path

from modellint import __version__
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.run import UsageError
from modellint.server import code_actions, live_checks
from modellint.server.check_scheduler import DELAY, Checking, Outdated, Result
from modellint.server.diagnostics import diagnostics_of, of_settings
from modellint.server.document_checks import BrokenSettings, Place, ProjectChecks, offers, place_of
from modellint.server.documents import SETTINGS_FILES, Document, path_of
from modellint.server.live_checks import LiveFindings
from modellint.server.rule_hover import hover
from modellint.tool_diagnostics import described, raised_at

_CONTENT_MODIFIED = -32801
"""The protocol's number for: ask again, the text has changed."""
_SERVER_CANCELLED = -32802
"""The protocol's number for: the server gave up, and says whether to ask again."""
_EVERY = 0.25
"""Seconds between two reports of progress."""


class _Protocol(LanguageServerProtocol):
    """The protocol with our own documents: those of pygls end lines where no client does."""

    _server: EditorServer

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take a document."""
        self._server.opened(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Change a document."""
        self._server.changed(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Drop a document."""
        self._server.closed(params.text_document.uri)


class EditorServer(LanguageServer):
    """A server for one client."""

    def __init__(self) -> None:
        super().__init__("modellint", __version__, protocol_cls=_Protocol)
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
        self.checking = Checking(self.folders, self._checked)
        self.pulls = False
        """Whether the client asks for diagnostics itself."""
        self.has_shut_down = False
        self._problems: dict[Path, BrokenSettings] = {}
        """What is wrong with the settings of projects, by their roots."""
        self._told: set[tuple[Path, object]] = set()
        self._live: dict[Path, tuple[str, tuple[Diagnostic, ...]]] = {}
        """Live findings that are shown, by file, and the text that they are of."""
        self._live_thread = ThreadPoolExecutor(1, "modellint-live")
        self._live_cancelled: Event | None = None
        """Of the live check that runs."""

    # The client

    def folders(self) -> list[Path]:
        """The client's folders."""
        uris = [folder.uri for folder in self.workspace.folders.values()]
        if not uris and self.workspace.root_uri is not None:
            uris = [self.workspace.root_uri]
        return [path for uri in uris if (path := path_of(uri)) is not None]

    def supports(self, *names: str) -> Any:
        """What the client says of a capability; None where it says nothing."""
        value: Any = self.client_capabilities
        for name in names:
            value = getattr(value, name, None)
        return value

    def show(self, message: str, kind: types.MessageType) -> None:
        """Show a message to the user."""
        self.window_show_message(types.ShowMessageParams(kind, message))

    def log(self, message: str) -> None:
        """Write a line to the client's log."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Warning, message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Tell of a mistake of our own, or of a message that is not understood, in a line of the client's log."""
        self.log(f"modellint: {described(error)}")

    # Documents

    def opened(self, item: types.TextDocumentItem) -> None:
        """A document was opened."""
        document = Document(item, str(self.workspace.position_encoding or types.PositionEncodingKind.Utf16))
        self._drop_outdated_live(document)
        self.checking.opened(document)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """A document was changed; one that was never opened is not known."""
        document = self.checking.documents.get(params.text_document.uri)
        if document is not None:
            document.change(params.text_document.version, params.content_changes)
            self._drop_outdated_live(document)
            self.checking.changed(document)

    def closed(self, uri: str) -> None:
        """A document was closed: what was shown of it goes."""
        document = self.checking.documents.get(uri)
        self.checking.closed(uri)
        if document is not None and document.is_python:
            self._live.pop(document.path or Path(), None)
            self._publish(uri, [])

    def _drop_outdated_live(self, document: Document) -> None:
        live = self._live.get(document.path or Path())
        if live is not None and live[0] != document.source.text:
            del self._live[document.path or Path()]

    def findings(self, document: Document, result: Result) -> tuple[Diagnostic, ...]:
        """What is shown of a document: with the live findings of its text, where there are any."""
        live = self._live.get(document.path or Path())
        return result.findings if live is None else live[1]

    # Diagnostics

    def diagnostics(self, document: Document, result: Result) -> list[types.Diagnostic]:
        """The diagnostics of a document."""
        return diagnostics_of(document, self.findings(document, result), result.docs_url)

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic], version: int | None = None) -> None:
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def _checked(self, document: Document, result: Result) -> None:
        """A check is done."""
        self._tell_of_settings(result)
        if result.failure is not None and (result.root, result.failure) not in self._told:
            self._told.add((result.root, result.failure))
            self.show(f"modellint itself failed: {result.failure}; please report it", types.MessageType.Error)
        if not self.pulls:
            self._publish(document.uri, self.diagnostics(document, result), document.version)

    def _tell_of_settings(self, result: Result) -> None:
        before = self._problems.pop(result.root, None)
        problem = result.problem
        if problem is not None:
            self._problems[result.root] = problem
        if result.warnings and (result.root, result.warnings) not in self._told:
            self._told.add((result.root, result.warnings))
            for warning in result.warnings:
                self.log(f"{result.root}: {warning}")
        if before is not None and problem is not None and before.message == problem.message:
            return
        if problem is not None:
            self.show(f"modellint: {problem.message}", types.MessageType.Error)
        for file in {each.file for each in (before, problem) if each is not None and each.file is not None}:
            rows = {each.message: each.row for each in self._problems.values() if each.file == file}
            self._publish_closed(file, [of_settings(row, message) for message, row in rows.items()])

    def refresh(self) -> None:
        """Show the open documents anew."""
        if self.pulls:
            self.workspace_diagnostic_refresh(None)
            return
        for document in self.checking.documents.values():
            result = self.checking.newest(document)
            if result is not None:
                self._publish(document.uri, self.diagnostics(document, result), document.version)

    def files_changed(self, paths: list[Path]) -> None:
        """Files were written that documents may rest on: settings, or what they import."""
        self.checking.files_changed()
        if self.pulls:
            self.workspace_diagnostic_refresh(None)
        for path in paths:
            # What a model ran is not what is there now.
            if path in self._live and not self._is_open(path):
                del self._live[path]
                self._publish_closed(path, [])

    def _is_open(self, path: Path) -> bool:
        return any(document.path == path for document in self.checking.documents.values())

    def _publish_closed(self, path: Path, diagnostics: list[types.Diagnostic]) -> None:
        """Show diagnostics of a file that the client names in no message."""
        uri = from_fs_path(str(path))
        if uri is not None:
            self._publish(uri, diagnostics)

    # Live checks

    async def check_live(self, path: Path, chosen: list[str]) -> list[dict[str, Any]]:
        """Run the targets that settings list, show what is found, and tell of each target."""
        if self._live_cancelled is not None:
            raise UsageError("live targets are being checked already")
        cancelled = self._live_cancelled = Event()
        place = Place(path, place_of(path, self.folders()).root)
        token = await self._begin_progress(cancelled)
        loop = asyncio.get_running_loop()
        last = -_EVERY

        def progress(target: str, stage: str, seconds: float) -> None:
            nonlocal last
            if token is not None and not last <= seconds < last + _EVERY:
                last = seconds
                report = types.WorkDoneProgressReport(message=f"{target}: {stage}, {seconds:.0f} s", cancellable=True)
                loop.call_soon_threadsafe(self.work_done_progress.report, token, report)

        try:
            checks = await self.checking.in_thread(lambda: ProjectChecks(place.root))
            asked = await self.checking.in_thread(lambda: live_checks.requests(checks, path, chosen))
            results, texts = await loop.run_in_executor(
                self._live_thread, live_checks.run, checks, asked, cancelled, progress
            )
            shown = await self.checking.in_thread(lambda: live_checks.merged(checks, asked, results, texts))
        finally:
            cancelled.set()
            self._live_cancelled = None
            if token is not None:
                self.work_done_progress.end(token, types.WorkDoneProgressEnd())
                self.work_done_progress.tokens.pop(token, None)
        self._show_live(shown, checks.settings(path).docs_url)
        return shown.targets

    async def _begin_progress(self, cancelled: Event) -> str | None:
        if not self.supports("window", "work_done_progress"):
            return None
        token = str(uuid4())
        await self.work_done_progress.create_async(token)
        self.work_done_progress.tokens[token].add_done_callback(lambda _: cancelled.set())
        begin = types.WorkDoneProgressBegin("modellint", message="starting", cancellable=True)
        self.work_done_progress.begin(token, begin)
        return token

    def _show_live(self, shown: LiveFindings, docs_url: str | None) -> None:
        old, self._live = self._live, {}
        open_documents = {document.path: document for document in self.checking.documents.values()}
        unshown = []
        for path, (text, findings) in shown.by_file.items():
            document = open_documents.get(path)
            if document is not None and document.source.text != text:
                unshown.append(path.name)
            elif document is not None or findings:
                self._live[path] = text, findings
            if document is None and findings:
                item = types.TextDocumentItem(path.as_uri(), "python", 0, text)
                closed = Document(item, str(self.workspace.position_encoding))
                self._publish_closed(path, diagnostics_of(closed, findings, docs_url))
        for path in old.keys() - self._live.keys() - open_documents.keys():
            self._publish_closed(path, [])
        self.refresh()
        if unshown:
            shown.lines.append(f"not shown, as the text is not what was run: {', '.join(unshown)}")
        self.show("\n".join(shown.lines), types.MessageType.Info)

    # The end

    def end(self) -> None:
        """End what runs."""
        if self._live_cancelled is not None:
            self._live_cancelled.set()
        self.checking.end()
        # A worker and all that it started is ended before we are.
        self._live_thread.shutdown(wait=True, cancel_futures=True)


def make_server() -> EditorServer:
    """A server that knows all of its messages."""
    server = EditorServer()
    _register_life(server)
    _register_questions(server)
    return server


def _register_life(server: EditorServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(ls: EditorServer, params: types.InitializeParams) -> None:
        # A client that cannot be told to ask again would show what was.
        ls.pulls = bool(
            ls.supports("text_document", "diagnostic") and ls.supports("workspace", "diagnostics", "refresh_support")
        )
        if ls.pulls:
            _register_pull(ls)

    @server.feature(types.INITIALIZED)
    def initialized(ls: EditorServer, params: types.InitializedParams) -> None:
        if not ls.supports("workspace", "did_change_watched_files", "dynamic_registration"):
            return
        patterns = ("**/*.py", *(f"**/{name}" for name in SETTINGS_FILES))
        options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(name) for name in patterns])
        registration = types.Registration(str(uuid4()), types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        ls.client_register_capability(types.RegistrationParams([registration]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(ls: EditorServer, params: types.DidChangeWatchedFilesParams) -> None:
        ls.files_changed([path for change in params.changes if (path := path_of(change.uri)) is not None])

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: EditorServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.files_changed([])

    @server.feature(types.SHUTDOWN)
    def shut_down(ls: EditorServer, params: None) -> None:
        ls.has_shut_down = True
        if ls._live_cancelled is not None:
            ls._live_cancelled.set()


def _register_pull(server: EditorServer) -> None:
    options = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="modellint")

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def pulled(
        ls: EditorServer, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport:
        document = ls.checking.documents.get(params.text_document.uri)
        if document is None or not document.is_python:
            return types.RelatedFullDocumentDiagnosticReport([])
        revision = document.revision
        if ls.checking.newest(document) is None:
            await asyncio.sleep(DELAY)
        try:
            if document.revision != revision:
                raise Outdated
            result = await ls.checking.result(document)
        except Outdated:
            raise JsonRpcException("the text has changed", _SERVER_CANCELLED, {"retriggerRequest": True}) from None
        return types.RelatedFullDocumentDiagnosticReport(ls.diagnostics(document, result))


def _register_questions(server: EditorServer) -> None:
    kinds = types.CodeActionOptions(code_action_kinds=list(code_actions.KINDS), resolve_provider=True)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)
    async def actions(ls: EditorServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = ls.checking.documents.get(params.text_document.uri)
        if document is None or not document.is_python:
            return []
        try:
            return await _actions(ls, document, params)
        except Outdated:
            raise _outdated() from None
        except BrokenSettings:
            return []

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolved(ls: EditorServer, params: types.CodeAction) -> types.CodeAction:
        data = params.data if isinstance(params.data, dict) else {}
        document = ls.checking.documents.get(str(data.get("uri")))
        if document is None or data.get("version") != document.version:
            raise _outdated()
        try:
            params.edit = await ls.checking.work(document, _fixing_all(ls))
        except (Outdated, BrokenSettings):
            raise _outdated() from None
        return params

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def page(ls: EditorServer, params: types.HoverParams) -> types.Hover | None:
        document = ls.checking.documents.get(params.text_document.uri)
        if document is None or not document.is_python:
            return None
        try:
            result = await ls.checking.result(document)
        except Outdated:
            return None
        formats = ls.supports("text_document", "hover", "content_format") or [types.MarkupKind.Markdown]
        markup = types.MarkupKind.Markdown if types.MarkupKind.Markdown in formats else types.MarkupKind.PlainText
        return hover(
            document, ls.findings(document, result), result.rules or ls.checking.rules, params.position, markup
        )

    @server.command(live_checks.COMMAND)
    async def check_live(ls: EditorServer, *arguments: Any) -> list[dict[str, Any]]:
        path, chosen = _asked_of_live(ls, arguments)
        try:
            return await ls.check_live(path, chosen)
        except live_checks.Cancelled:
            return []
        except (UsageError, BrokenSettings) as error:
            ls.show(f"modellint: {error}", types.MessageType.Error)
            return []
        except Exception as error:
            ls.show(f"modellint: {described(error)} ({raised_at(error)})", types.MessageType.Error)
            return []


def _asked_of_live(ls: EditorServer, arguments: tuple[Any, ...]) -> tuple[Path, list[str]]:
    """The file whose settings list the targets, by default one in the first of the client's folders; and those that are chosen."""
    first, *chosen = arguments or (None,)
    path = path_of(str(first))
    return path or place_of(None, ls.folders()).path, [str(target) for target in chosen]


async def _actions(ls: EditorServer, document: Document, params: types.CodeActionParams) -> list[types.CodeAction]:
    only = params.context.only
    wants_fixes = code_actions.is_wanted(types.CodeActionKind.QuickFix, only)
    wants_all = code_actions.is_wanted(code_actions.FIX_ALL, only)
    if not wants_fixes and not wants_all:
        return []
    result = await ls.checking.result(document)
    findings = ls.findings(document, result)
    versioned = bool(ls.supports("workspace", "workspace_edit", "document_changes"))
    actions: list[types.CodeAction] = []
    here = code_actions.on_selection(document, findings, params.range)
    if wants_fixes and here:

        def quick(checks: ProjectChecks, place: Place, snapshot: Document) -> list[types.CodeAction]:
            if not checks.may_change(place.path):
                return []
            return list(code_actions.quick_fixes(checks, place, snapshot, here, result.docs_url, versioned))

        actions += await ls.checking.work(document, quick)
    safe = [finding for finding in findings if offers(finding) and _is_safe(finding)]
    if wants_all and safe:
        action = types.CodeAction("Fix all that is safe to fix (modellint)", kind=code_actions.FIX_ALL)
        resolves = ls.supports("text_document", "code_action", "resolve_support", "properties") or ()
        if "edit" in resolves and ls.supports("text_document", "code_action", "data_support"):
            action.data = {"uri": document.uri, "version": document.version}
            actions.append(action)
        elif edit := await ls.checking.work(document, _fixing_all(ls)):
            action.edit = edit
            actions.append(action)
    return actions


def _fixing_all(ls: EditorServer) -> Any:
    versioned = bool(ls.supports("workspace", "workspace_edit", "document_changes"))
    return lambda checks, place, snapshot: code_actions.fix_all(checks, place, snapshot, versioned)


def _is_safe(finding: Diagnostic) -> bool:
    return finding.fix is not None and finding.fix.applicability is Applicability.SAFE


def _outdated() -> JsonRpcException:
    return JsonRpcException("the text has changed", _CONTENT_MODIFIED)

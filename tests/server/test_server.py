"""`modellint server`, driven by a client in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from editor import BAD, EVERYTHING, Editor, editing, uri_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol import types

import modellint
from modellint.cli import cli

FIXED = BAD.replace("[nn.Linear(4, 4)]", "nn.ModuleList([nn.Linear(4, 4)])")
UNSAFE = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[0].mul_(3)
        return y
"""
SERVER = (sys.executable, "-m", "modellint", "server")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    return tmp_path


def codes(diagnostics: list[types.Diagnostic]) -> list[object]:
    return [each.code for each in diagnostics]


def test_findings_follow_the_text(project: Path) -> None:
    (project / "modellint.toml").write_text('docs-url = "https://example.org/rules/"\n', "utf-8")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        (finding,) = editor.diagnostics(uri)
        assert finding.code == "REG001"
        assert finding.source == "modellint"
        assert finding.severity == types.DiagnosticSeverity.Error
        assert finding.range == types.Range(types.Position(6, 8), types.Position(6, 39))
        assert finding.code_description == types.CodeDescription("https://example.org/rules/module-in-list")
        editor.change(uri, FIXED)
        assert editor.diagnostics(uri) == []
        editor.change(uri, "class Net(:\n")
        assert codes(editor.diagnostics(uri)) == ["LNT002"]
        editor.change(uri, BAD)
        assert codes(editor.diagnostics(uri)) == ["REG001"]
        editor.close(uri)
        editor.until(lambda: editor.last(uri) == [])


def test_fast_typing_is_checked_when_it_ends(project: Path) -> None:
    with editing(project) as editor:
        uri = editor.open(project / "net.py", "")
        for end in range(1, len(BAD) + 1):
            place = types.Position(BAD.count("\n", 0, end - 1), end - 1 - (BAD.rfind("\n", 0, end - 1) + 1))
            letter = types.TextDocumentContentChangePartial(types.Range(place, place), BAD[end - 1])
            editor.change(uri, BAD[:end], [letter])
        assert codes(editor.diagnostics(uri)) == ["REG001"]
        versions = [each.version for each in editor.published if each.uri == uri]
        assert versions == sorted(set(versions))
        assert len(versions) < len(BAD) / 2


def test_a_check_that_nobody_waits_for_is_ended(project: Path) -> None:
    slow = "from torch import nn\n" + "".join(
        BAD.replace("Net", f"Net{number}").split("\n", 1)[1] for number in range(400)
    )
    with editing(project) as editor:
        uri = editor.open(project / "net.py", slow)
        for number in range(5):
            editor.change(uri, f"{slow}\nvalue = {number}\n")
        editor.change(uri, BAD)
        assert codes(editor.diagnostics(uri)) == ["REG001"]
        assert all(len(each.diagnostics) in (1, 400) for each in editor.published)
        assert editor.published[-1].version == editor.versions[uri]


def test_fixes_are_offered_and_hold(project: Path) -> None:
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        editor.diagnostics(uri)
        fix, ignore, everything = editor.actions(uri, 6)
        assert (fix.kind, fix.is_preferred) == (types.CodeActionKind.QuickFix, True)
        assert fix.title.startswith("REG001: ") and "unsafe" not in fix.title
        assert codes(list(fix.diagnostics or ())) == ["REG001"]
        assert editor.applied(fix) == FIXED
        assert ignore.title == "Ignore REG001 on this line"
        ignored = editor.applied(ignore)
        assert ignored == BAD.replace("4)]\n", "4)]  # modellint: ignore[REG001]\n")
        assert (everything.kind, editor.applied(everything)) == ("source.fixAll.modellint", FIXED)
        for text in (FIXED, ignored):
            editor.change(uri, text)
            assert editor.diagnostics(uri) == []
            assert editor.actions(uri, 6) == []


def test_actions_are_those_that_are_asked_for(project: Path) -> None:
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        assert [each.kind for each in editor.actions(uri, 0)] == ["source.fixAll.modellint"]
        assert [each.kind for each in editor.actions(uri, 6, ["quickfix"])] == ["quickfix", "quickfix"]
        for kind in ("source", "source.fixAll", "source.fixAll.modellint"):
            assert [each.kind for each in editor.actions(uri, 6, [kind])] == ["source.fixAll.modellint"]
        assert editor.actions(uri, 6, ["source.fixAll.other"]) == editor.actions(uri, 6, ["refactor"]) == []


def test_unsafe_fixes_say_so_and_are_not_among_all(project: Path) -> None:
    with editing(project) as editor:
        uri = editor.open(project / "net.py", UNSAFE)
        (finding,) = editor.diagnostics(uri)
        fix, ignore = editor.actions(uri, finding.range.start.line)
        assert fix.title.endswith("(unsafe)") and not fix.is_preferred
        assert ignore.title == f"Ignore {finding.code} on this line"
        editor.change(uri, editor.applied(fix))
        assert editor.diagnostics(uri) == []


def test_all_fixes_are_made_when_the_client_resolves_them(project: Path) -> None:
    resolving = types.ClientCapabilities(
        workspace=EVERYTHING.workspace,
        text_document=types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(
                data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
            )
        ),
    )
    with editing(project, capabilities=resolving) as editor:
        uri = editor.open(project / "net.py")
        (action,) = editor.actions(uri, 0, ["source.fixAll"])
        assert action.edit is None
        assert editor.applied(editor.run(editor.client.code_action_resolve_async(action))) == FIXED
        editor.change(uri, BAD + "\n")
        with pytest.raises(Exception, match="the text has changed"):
            editor.run(editor.client.code_action_resolve_async(action))


def test_edits_without_versions_for_clients_without_them(project: Path) -> None:
    with editing(project, capabilities=types.ClientCapabilities()) as editor:
        uri = editor.open(project / "net.py")
        edit = editor.actions(uri, 6)[0].edit
        assert edit is not None and edit.document_changes is None
        assert edit.changes is not None and list(edit.changes) == [uri]


def test_fixes_that_share_an_edit_go_together(project: Path) -> None:
    text = BAD.replace("from torch import nn", "from torch.nn import Linear, Module")
    text = text.replace("nn.Module", "Module").replace("nn.Linear", "Linear")
    text = text.replace("(4, 4)]\n", "(4, 4)]\n        self.more = [Linear(4, 4)]\n")
    with editing(project) as editor:
        uri = editor.open(project / "net.py", text)
        first, second = editor.diagnostics(uri)
        for finding in (first, second):
            (elsewhere,) = finding.related_information or ()
            assert (elsewhere.location.uri, elsewhere.location.range.start.line) == (uri, 1)
        (everything,) = editor.actions(uri, 0, ["source.fixAll"])
        fixed = editor.applied(everything)
        assert fixed.count("ModuleList([") == 2 and fixed.count("from torch import nn\n") == 1
        editor.change(uri, fixed)
        assert editor.diagnostics(uri) == []


def test_line_ends_stay(project: Path) -> None:
    with editing(project, command=(*SERVER, "--stdio")) as editor:
        text = BAD.replace("\n", "\r\n")
        uri = editor.open(project / "net.py", text)
        fix, ignore, everything = editor.actions(uri, 6)
        assert editor.applied(fix) == editor.applied(everything) == FIXED.replace("\n", "\r\n")
        assert editor.applied(ignore) == text.replace("4)]\r\n", "4)]  # modellint: ignore[REG001]\r\n")


def test_pages_are_shown_for_findings_and_for_codes(project: Path) -> None:
    page = CliRunner().invoke(cli, ["rule", "REG001"]).stdout.rstrip("\n")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        shown = editor.hover(uri, 6, 12)
        assert shown is not None and isinstance(shown.contents, types.MarkupContent)
        assert shown.contents.kind == types.MarkupKind.Markdown
        assert shown.contents.value.rstrip("\n") == page
        assert editor.hover(uri, 3, 0) is None
        for comment in ("# modellint: ignore[REG001]", "# noqa: REG001"):
            editor.change(uri, BAD.replace("4)]\n", f"4)]  {comment}\n"))
            column = len("        self.layers = [nn.Linear(4, 4)]  ") + comment.index("REG")
            shown = editor.hover(uri, 6, column + 3)
            assert shown is not None and isinstance(shown.contents, types.MarkupContent)
            assert shown.contents.value.rstrip("\n") == page
            assert shown.range == types.Range(types.Position(6, column), types.Position(6, column + 6))
            assert editor.hover(uri, 6, 12) is None


@pytest.mark.parametrize("encoding", list(types.PositionEncodingKind))
def test_positions_are_in_the_encoding_that_the_client_wants(project: Path, encoding: str) -> None:
    capabilities = types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind(encoding)]),
        workspace=EVERYTHING.workspace,
    )
    # What Python's `splitlines` takes for the end of a line is none for clients.
    line = '        "\U0001f40d é \x0c \u2028"; self.layers = [nn.Linear(4, 4)]\n'
    text = "\ufeff# \x0c\n" + BAD.replace("        self.layers = [nn.Linear(4, 4)]\n", line)
    with editing(project, capabilities=capabilities) as editor:
        uri = editor.open(project / "net.py", text)
        (finding,) = editor.diagnostics(uri)
        start, end = (editor.offset(text, each) for each in (finding.range.start, finding.range.end))
        assert text[start:end] == "self.layers = [nn.Linear(4, 4)]"
        fix, ignore, _ = editor.actions(uri, 7)
        assert editor.applied(fix) == text.replace("[nn.Linear(4, 4)]", "nn.ModuleList([nn.Linear(4, 4)])")
        assert "4)]  # modellint: ignore[REG001]\n" in editor.applied(ignore)
        place = types.Position(7, finding.range.start.character)
        edit = types.TextDocumentContentChangePartial(types.Range(place, place), "x = 1; ")
        editor.change(uri, text[:start] + "x = 1; " + text[start:], [edit])
        (moved,) = editor.diagnostics(uri)
        assert moved.range.start.character == finding.range.start.character + 7


def test_mistakes_in_settings_are_told_once_and_where_they_stand(project: Path) -> None:
    file = project / "modellint.toml"
    file.write_text('select = ["REG"]\nignroe = ["REG001"]\n', "utf-8")
    with editing(project) as editor:
        first, second = editor.open(project / "net.py"), editor.open(project / "other.py", BAD)
        assert editor.diagnostics(first) == editor.diagnostics(second) == []
        (message,) = editor.messages
        assert "ignroe" in message and "ignore" in message
        (mistake,) = editor.last(uri_of(file)) or ()
        assert mistake.range.start.line == 1
        file.write_text("select = [\n", "utf-8")
        saved = types.FileEvent(uri_of(file), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([saved]))
        editor.until(lambda: len(editor.messages) == 2)
        assert "TOML" in editor.messages[1]
        file.write_text("", "utf-8")
        editor.save(first)
        editor.until(lambda: editor.last(uri_of(file)) == [] and codes(editor.last(first) or []) == ["REG001"])
        assert len(editor.messages) == 2


def test_settings_are_those_of_the_nearest_file(tmp_path: Path) -> None:
    for name, text in (
        ("one", 'select = ["REG"]\n'),
        ("one/part", 'ignore = ["REG001"]\n'),
        ("two", 'per-file-ignores = { "tests/*" = ["REG001"] }\nexclude = ["generated"]\n'),
        ("two/tests", None),
        ("two/generated", None),
        ("two/.venv/site-packages", None),
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "net.py").write_text(BAD, "utf-8")
        if text is not None:
            (tmp_path / name / "modellint.toml").write_text(text, "utf-8")
    expected = {
        "one": ["REG001"],
        "one/part": [],
        "two": ["REG001"],
        "two/tests": [],
        "two/generated": [],
        "two/.venv/site-packages": [],
    }
    with editing(tmp_path / "one", tmp_path / "two") as editor:
        uris = {name: editor.open(tmp_path / name / "net.py") for name in expected}
        assert {name: codes(editor.diagnostics(uri)) for name, uri in uris.items()} == expected
        untitled = editor.open_uri("untitled:Untitled-1", BAD)
        assert codes(editor.diagnostics(untitled)) == ["REG001"]
        fix, *_ = editor.actions(untitled, 6)
        assert editor.applied(fix) == FIXED
        editor.open_uri("git:/net.py", BAD)
        editor.open(tmp_path / "one" / "notes.txt", BAD, "plaintext")
        editor.change(untitled, FIXED)
        assert editor.diagnostics(untitled) == []
        assert {each.uri for each in editor.published} == {*uris.values(), untitled}


def test_known_findings_are_not_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    command = ["check", "net.py", "--baseline", "known.json", "--write-baseline", "--no-cache"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    (project / "modellint.toml").write_text('baseline = "known.json"\n', "utf-8")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        assert editor.diagnostics(uri) == editor.actions(uri, 6) == []
        editor.change(uri, BAD + BAD.replace("Net", "Other").replace("layers", "blocks"))
        (finding,) = editor.diagnostics(uri)
        assert finding.range.start.line == 18
        everything = editor.actions(uri, 0)[0]
        assert editor.applied(everything).count("ModuleList") == 1


def test_files_that_are_imported_are_read_again_when_they_change(project: Path) -> None:
    base = project / "base.py"
    base.write_text("class Base:\n    pass\n", "utf-8")
    text = BAD.replace("nn.Module)", "Base)").replace("import nn\n", "import nn\n\nfrom base import Base\n")
    with editing(project) as editor:
        uri = editor.open(project / "net.py", text)
        assert editor.diagnostics(uri) == []
        base.write_text("from torch.nn import Module\n\n\nclass Base(Module):\n    pass\n", "utf-8")
        changed = types.FileEvent(uri_of(base), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
        editor.until(lambda: codes(editor.last(uri) or []) == ["REG001"])


def test_clients_that_ask_are_not_told(project: Path) -> None:
    pulling = types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        ),
        text_document=types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities()),
    )
    with editing(project, capabilities=pulling) as editor:
        uri = editor.open(project / "net.py")

        def asked() -> list[object]:
            params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
            answer = editor.run(editor.client.text_document_diagnostic_async(params))
            assert isinstance(answer, types.RelatedFullDocumentDiagnosticReport)
            return codes(list(answer.items))

        assert asked() == ["REG001"]
        editor.change(uri, FIXED)
        assert asked() == []
        (project / "modellint.toml").write_text('select = ["OPS"]\n', "utf-8")
        editor.change(uri, BAD)
        editor.save(uri)
        editor.until(lambda: "refresh" in editor.log)
        assert asked() == []
        assert editor.published == []


PLANTED = "from pathlib import Path\n\nPath(__file__).with_suffix('.ran').write_text('')\n"


def test_nothing_of_a_repository_is_run(project: Path) -> None:
    for name in ("plugin.py", "conftest.py", "pygls.py", "lsprotocol.py", "torch.py", "rules/one.py", "setup.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(PLANTED, "utf-8")
    (project / "net.py").write_text(PLANTED + "import plugin\nimport torch\n" + BAD, "utf-8")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "1"\n\n[project.entry-points."modellint.rules"]\nx = "plugin"\n', "utf-8"
    )
    (project / "modellint.toml").write_text(
        'plugins = ["plugin", "rules", "plugin.py"]\nextend-select = ["XYZ001"]\n\n[[models]]\ntarget = "net.py:Net"\n',
        "utf-8",
    )
    with editing(project, cwd=project) as editor:
        uri = editor.open(project / "net.py")
        assert "REG001" in codes(editor.diagnostics(uri))
        editor.open(project / "plugin.py")
        for action in editor.actions(uri, 11):
            editor.applied(action)
        editor.hover(uri, 11, 10)
        editor.save(uri)
        editor.until(lambda: len(editor.log) == 1)
        assert "plug-ins" in editor.log[0]
    assert list(project.rglob("*.ran")) == []


PLUGIN = '''"""A rule."""

from collections.abc import Iterator

from modellint.authoring import Diagnostic, ModuleClass, Rule, Severity


class Named(Rule):
    """A class of modules.

    Why: Somebody wants to know of each.

    Bad:
        ```python
        class Net(nn.Module): ...
        ```

    Good:
        ```python
        class Net: ...
        ```
    """

    code = "XYZ001"
    name = "named"
    severity = Severity.INFO

    def source(self, cls: ModuleClass) -> Iterator[Diagnostic]:
        yield cls.finding(self, cls.node, "a class of modules")
'''


def test_plug_ins_of_the_user_and_of_trusted_projects(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    (home / "modellint").mkdir()
    (home / "modellint" / "own.py").write_text(PLUGIN, "utf-8")
    own = home / "modellint" / "modellint.toml"
    own.write_text('plugins = ["./own.py"]\n', "utf-8")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        diagnostics = editor.diagnostics(uri)
        assert set(codes(diagnostics)) == {"REG001", "XYZ001"}
        place = next(each.range.start for each in diagnostics if each.code == "XYZ001")
        assert "Somebody wants to know of each" in str(editor.hover(uri, place.line, place.character))
    (project / "rules.py").write_text(PLUGIN.replace("XYZ001", "XYZ002").replace('"named"', '"other"'), "utf-8")
    (project / "modellint.toml").write_text('plugins = ["./rules.py"]\n', "utf-8")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        assert set(codes(editor.diagnostics(uri))) == {"REG001", "XYZ001"}
        editor.until(lambda: any("rules.py" in line for line in editor.log))
        own.write_text(f"plugins = ['./own.py']\n\n[trust]\npaths = ['{project}']\n", "utf-8")
        editor.change(uri, BAD + "\n")
        assert set(codes(editor.diagnostics(uri))) == {"REG001", "XYZ001", "XYZ002"}


def test_settings_of_a_repository_do_no_harm(project: Path) -> None:
    (project / "modellint.toml").write_text('docs-url = "command:workbench.action.quit?"\n', "utf-8")
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        assert [each.code_description for each in editor.diagnostics(uri)] == [None]
        for text in ("baseline = '/dev/zero'", "extend = '/dev/zero'", "exclude = ['[z-a]']", "x = " + "[" * 5000):
            told = len(editor.messages)
            (project / "modellint.toml").write_text(f"{text}\n", "utf-8")
            editor.save(uri)
            editor.until(lambda told=told: len(editor.messages) > told)
        (project / "modellint.toml").write_text("", "utf-8")
        editor.change(uri, BAD)
        assert codes(editor.diagnostics(uri)) == ["REG001"]


def test_the_end(project: Path) -> None:
    done = subprocess.run(SERVER, input=b"", capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    message = json.dumps({"jsonrpc": "2.0", "method": "exit"}).encode()
    done = subprocess.run(
        SERVER, input=b"Content-Length: %d\r\n\r\n%s" % (len(message), message), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize("how", ["vanish", "terminate"])
def test_a_client_that_is_gone_and_a_signal_end_the_server(project: Path, how: str) -> None:
    loop = asyncio.new_event_loop()
    editor = Editor(loop)
    editor.run(editor.start([project], EVERYTHING))
    editor.diagnostics(editor.open(project / "net.py"))
    process = editor.client._server
    assert process is not None and process.stdin is not None
    if how == "vanish":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    status = editor.run(process.wait())
    loop.run_until_complete(editor.client.stop())
    loop.close()
    assert status == (1 if how == "vanish" else 128 + signal.SIGTERM)


def test_mistaken_messages_are_survived(project: Path) -> None:
    with editing(project) as editor:
        editor.texts["file:///no.py"], editor.versions["file:///no.py"] = "", 1
        editor.change("file:///no.py", "never opened")
        editor.client.protocol.notify("textDocument/didOpen", {"textDocument": {"uri": 3}})
        with pytest.raises(Exception, match="not defined"):
            editor.run(editor.client.workspace_execute_command_async(types.ExecuteCommandParams("no.such")))
        uri = editor.open(project / "net.py")
        assert codes(editor.diagnostics(uri)) == ["REG001"]
        assert editor.log != []


def test_a_socket_will_do(project: Path) -> None:
    process = subprocess.Popen([*SERVER, "--tcp", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    host, _, port = process.stderr.readline().rpartition(" ")[2].strip().partition(":")
    loop = asyncio.new_event_loop()
    editor = Editor(loop)

    async def connect() -> None:
        await editor.client.start_tcp(host, int(port))
        await editor.greet([project], EVERYTHING)

    editor.run(connect())
    assert codes(editor.diagnostics(editor.open(project / "net.py"))) == ["REG001"]
    editor.run(editor.client.shutdown_async(None))
    editor.client.exit(None)
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    loop.run_until_complete(editor.client.stop())
    loop.close()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--tcp", "8765"], "HOST:PORT"),
        (["--tcp", "localhost:99999"], "HOST:PORT"),
        (["--tcp", "127.0.0.1:1", "--stdio"], "together"),
        (["--tcp", "256.256.256.256:8765"], "--tcp"),
    ],
)
def test_requests_that_cannot_be_met(arguments: list[str], word: str) -> None:
    done = subprocess.run([*SERVER, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert word in done.stderr and "Traceback" not in done.stderr


def test_without_pygls_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['pygls'] = None; from modellint.cli import main; main(['server'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the server needs pygls: pip install 'modellint[server]'\n"


WITHOUT_TORCH = (
    "import sys; sys.modules.update(dict.fromkeys(['torch', 'psutil'])); from modellint.cli import main; main()"
)


def test_without_torch_live_targets_alone_are_not_checked(project: Path) -> None:
    (project / "modellint.toml").write_text('[[models]]\ntarget = "net.py:Net"\n', "utf-8")
    with editing(project, command=(sys.executable, "-c", WITHOUT_TORCH, "server")) as editor:
        assert codes(editor.diagnostics(editor.open(project / "net.py"))) == ["REG001"]
        editor.run(editor.client.workspace_execute_command_async(types.ExecuteCommandParams("modellint.checkLive")))
        assert editor.messages == ["modellint: a live target needs PyTorch: pip install 'modellint[live]'"]
    command = [sys.executable, "-c", WITHOUT_TORCH, "check", "net.py:Net"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: a live target needs PyTorch: pip install 'modellint[live]'\n")


PIECES = st.sampled_from(
    [
        *"\n\r=x[]()# '\"\U0001f40d",
        "\r\n",
        "\x0c",
        "\u2028",
        "é",
        BAD,
        "class Net(nn.Module):\n    def __init__(self):\n        self.layers = [nn.Linear(1, 1)]\n",
        "        self.more = [nn.Linear(2, 2)]\n",
        "from torch import nn\n",
    ]
)
SEVERITIES = {1: "error", 2: "warning", 3: "info"}
EDITS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2), PIECES), min_size=1, max_size=6)


def positioned(text: str, offset: int) -> types.Position:
    """The position of an offset, in UTF-16."""
    ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", text[:offset])]
    return types.Position(len(ends), len(text[ends[-1] if ends else 0 : offset].encode("utf-16-le")) // 2)


def of_check(text: str, path: Path) -> list[tuple[str, str, int, str]]:
    findings = modellint.check_source(text, str(path)).diagnostics
    rows = [finding.span.row - 1 if finding.span else 0 for finding in findings]
    messages = ["\n".join(filter(None, (finding.message, finding.help))) for finding in findings]
    return sorted(
        (finding.code, finding.severity.label, row, message)
        for finding, row, message in zip(findings, rows, messages, strict=True)
    )


def told(each: types.Diagnostic) -> tuple[str, str, int, str]:
    return str(each.code), SEVERITIES[int(each.severity or 0)], each.range.start.line, each.message


def test_edits_leave_client_and_server_with_one_text(project: Path) -> None:
    path = project / "net.py"
    with editing(project) as editor:
        uri = editor.open(path)

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(EDITS)
        def follow(edits: list[tuple[float, float, str]]) -> None:
            text = editor.texts[uri] if len(editor.texts[uri]) < 3000 else BAD
            editor.change(uri, text)
            for where, share, piece in edits:
                start = int(where * len(text))
                end = min(len(text), start + int(share * len(text)))
                # A position between the two halves of CRLF is none.
                start -= text[start - 1 : start + 1] == "\r\n"
                end += text[end - 1 : end + 1] == "\r\n"
                place = types.Range(positioned(text, start), positioned(text, end))
                text = text[:start] + piece + text[end:]
                editor.change(uri, text, [types.TextDocumentContentChangePartial(place, piece)])
            shown = editor.diagnostics(uri)
            assert sorted(map(told, shown)) == of_check(text, path)

        follow()

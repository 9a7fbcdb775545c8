"""`modellint.checkLive`: an editor has the live targets of the settings checked, and only then are they run."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from editor import BAD, EVERYTHING, Editor, editing, uri_of
from lsprotocol import types

LIVE = """\
from pathlib import Path

import torch
from torch import nn

Path(__file__).with_suffix(".ran").write_text("")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
        keep(self.__dict__, "hidden", torch.ones(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + self.hidden


def keep(place, name, value):
    place[name] = value
"""
SETTINGS = '[[models]]\ntarget = "net.py:Net"\ninputs = ["2x4"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "modellint.toml").write_text(SETTINGS, "utf-8")
    (tmp_path / "net.py").write_text(LIVE, "utf-8")
    return tmp_path


def check_live(editor: Editor, *arguments: Any) -> Any:
    params = types.ExecuteCommandParams("modellint.checkLive", list(arguments) or None)
    return editor.run(editor.client.workspace_execute_command_async(params))


def messages(diagnostics: list[types.Diagnostic] | None) -> str:
    return "\n".join(each.message for each in diagnostics or ())


def test_what_targets_show_is_merged_until_the_text_changes(project: Path) -> None:
    with editing(project) as editor:
        uri = editor.open(project / "net.py")
        source = editor.diagnostics(uri)
        assert [each.code for each in source] == ["REG001"]
        assert not (project / "net.ran").exists()
        (target,) = check_live(editor, uri)
        assert (project / "net.ran").exists()
        assert target["target"] == "net.py:Net"
        assert target["convertible"] in (True, False)
        editor.until(lambda: "confirmed by: net.py:Net" in messages(editor.last(uri)))
        live = editor.last(uri) or []
        assert len(live) > len(source)
        assert len(live) == len({(each.code, each.range.start.line, each.message) for each in live})
        kinds = [each if isinstance(each, str) else each["kind"] for each in editor.progress]
        assert kinds[1] == "begin" and kinds[-1] == "end" and "report" in kinds
        assert any("net.py:Net" in message for message in editor.messages)
        # What one live finding needs, source does not.
        hidden = next(each for each in live if each.code != "REG001")
        ignore = next(
            each
            for each in editor.actions(uri, hidden.range.start.line)
            if each.title == f"Ignore {hidden.code} on this line"
        )
        ignored = editor.applied(ignore)
        editor.change(uri, ignored)
        assert [each.code for each in editor.diagnostics(uri)] == ["REG001"]


def test_files_that_are_not_open_and_texts_that_are_not_saved(project: Path) -> None:
    with editing(project) as editor:
        uri = uri_of(project / "net.py")
        check_live(editor)
        editor.until(lambda: "confirmed by" in messages(editor.last(uri)))
        editor.open(project / "net.py", LIVE + "\nunsaved = 1\n")
        assert "confirmed by" not in messages(editor.diagnostics(uri))
        check_live(editor, uri, "net.py:Net")
        assert "not shown, as the text is not what was run: net.py" in editor.messages[-1]
        assert "confirmed by" not in messages(editor.last(uri))


def test_what_cannot_be_checked_is_told(project: Path) -> None:
    with editing(project) as editor:
        assert check_live(editor, None, "other.py:Net") in ([], ())
        assert "other.py:Net" in editor.messages[-1]
        (project / "modellint.toml").write_text("", "utf-8")
        assert check_live(editor) in ([], ())
        assert "[[tool.modellint.models]]" in editor.messages[-1]
        (project / "modellint.toml").write_text(SETTINGS, "utf-8")
        (project / "net.py").write_text("raise ValueError('not today')\n" + BAD, "utf-8")
        (target,) = check_live(editor)
        assert target["convertible"] is None
        assert "not today" in editor.messages[-1]


def test_the_user_can_cancel(project: Path) -> None:
    (project / "net.py").write_text("import time\n\ntime.sleep(600)\n" + BAD, "utf-8")
    with editing(project) as editor:
        editor.cancels_progress = True
        assert check_live(editor) in ([], ())
        assert editor.messages == []
        assert editor.progress[-1]["kind"] == "end"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
def test_a_model_does_not_outlive_the_client(project: Path) -> None:
    (project / "net.py").write_text(
        "import os, time\nfrom pathlib import Path\n\nfile = Path(__file__).parent / 'pid'\n"
        "file.with_suffix('.part').write_text(str(os.getpid()))\nfile.with_suffix('.part').rename(file)\n"
        "time.sleep(600)\n" + BAD,
        "utf-8",
    )
    loop = asyncio.new_event_loop()
    editor = Editor(loop)
    editor.run(editor.start([project], EVERYTHING))
    editor.client.workspace_execute_command(types.ExecuteCommandParams("modellint.checkLive"))
    editor.until((project / "pid").exists)
    server = editor.client._server
    assert server is not None and server.stdin is not None
    server.stdin.close()
    assert editor.run(server.wait()) == 1
    loop.run_until_complete(editor.client.stop())
    loop.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text("utf-8")), 0)


def test_plug_ins_of_a_repository_are_not_loaded_in_the_worker(project: Path) -> None:
    (project / "modellint.toml").write_text('plugins = ["plugin.py"]\n' + SETTINGS, "utf-8")
    (project / "plugin.py").write_text(
        "from pathlib import Path\n\nPath(__file__).with_suffix('.ran').touch()\n", "utf-8"
    )
    with editing(project, cwd=project) as editor:
        (target,) = check_live(editor)
        assert target["target"] == "net.py:Net"
    assert not (project / "plugin.ran").exists()

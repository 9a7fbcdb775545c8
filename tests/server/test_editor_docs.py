"""The page on editors, and the extension for VS Code: what they name is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from editor import editing
from lsprotocol import types

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "editor.md").read_text("utf-8")
EXTENSION = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))


def test_settings_of_the_extension_are_listed() -> None:
    assert re.findall(r"(?m)^\| `(modellint\.[\w.]+)` \|", PAGE) == list(
        EXTENSION["contributes"]["configuration"]["properties"]
    )


def test_the_extension_has_what_it_names() -> None:
    source = (ROOT / "editors" / "vscode" / EXTENSION["main"]).read_text("utf-8")
    for name in set(re.findall(r'settings\.get\("(\w+)"', source)):
        assert f"modellint.{name}" in EXTENSION["contributes"]["configuration"]["properties"]
    for command in EXTENSION["contributes"]["commands"]:
        assert f'"{command["command"]}"' in source
    for package in re.findall(r'require\("([\w-]+)', source):
        assert package == "vscode" or package in EXTENSION["dependencies"]


@pytest.mark.parametrize("text", [PAGE, json.dumps(EXTENSION)], ids=["page", "extension"])
def test_the_server_knows_what_is_named(text: str, tmp_path: Path) -> None:
    with editing(tmp_path) as editor:
        server = editor.capabilities
    assert server is not None and server.execute_command_provider is not None
    assert isinstance(server.code_action_provider, types.CodeActionOptions)
    assert list(server.execute_command_provider.commands) == ["modellint.checkLive"]
    assert "modellint.checkLive" in text
    assert set(re.findall(r"source\.fixAll\.\w+", text)) <= set(server.code_action_provider.code_action_kinds or ())

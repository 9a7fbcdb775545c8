"""What a fresh interpreter imports for a task: start-up is what a check of one file costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = nn.Linear(1, 1)\n\n    def forward(self, x):\n        return x\n"
)
CLIP = """\
from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.authoring import Rule, Severity

if TYPE_CHECKING:
    import libcst as cst

    from modellint.authoring import CstFile


class Clip(Rule):
    code, name, severity = "XYZ001", "clip", Severity.WARNING
    needs = (".clip",)

    def source(self, node: cst.Call, file: CstFile):
        yield file.finding(self, node, "`clip` is `clamp`")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    return tmp_path


def printed(*lines: str) -> list[str]:
    """What a program prints in an interpreter of its own."""
    command = [sys.executable, "-c", "import sys\n" + "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def loaded(*names: str) -> str:
    """A line that prints which of these modules are loaded."""
    return f"print(sorted({set(names)} & set(sys.modules)))"


def checked(*arguments: str) -> str:
    command = ["check", "--no-cache", "--output-format", "concise", *arguments]
    return f"from modellint.cli import main\ntry:\n    main({command})\nexcept SystemExit:\n    pass"


def test_clean_check_imports_little(folder: Path) -> None:
    (folder / "net.py").write_text(CLEAN, "utf-8")
    heavy = (
        "libcst",
        "pathspec",
        "modellint.source.syntax.notebook",
        "multiprocessing",
        "torch",
        "difflib",
        "pygls",
        "lsprotocol",
        "asyncio",
        "modellint.source.engine.interpreter",
        "modellint.server",
    )
    assert printed(checked("net.py"), loaded(*heavy)) == ["All checks passed!", "[]"]


@pytest.mark.parametrize(
    ("text", "loads"), [("import torch\n", "[]"), ("import torch\n\ntorch.clip(1)\n", "['libcst']")]
)
def test_libcst_is_loaded_for_rules_about_its_nodes_alone(folder: Path, text: str, loads: str) -> None:
    (folder / "modellint.toml").write_text('plugins = ["clip.py"]\nselect = ["XYZ", "LNT"]\n', "utf-8")
    (folder / "clip.py").write_text(CLIP, "utf-8")
    (folder / "net.py").write_text(text, "utf-8")
    lines = printed(checked("net.py", "--trust-plugins"), loaded("libcst"))
    assert lines[-1] == loads
    assert ("XYZ001" in lines[0]) == ("clip" in text)


def test_the_fix_engine_is_cheap_to_import() -> None:
    assert printed("import modellint.source.fix", loaded("libcst", "tempfile", "difflib", "json")) == ["[]"]


def test_reports_load_nothing_heavy() -> None:
    assert printed(
        "from modellint.report import as_json, concise, findings_with_source, live_findings, statistics, unified_diff",
        "findings_with_source.render([], lambda path: None)",
        loaded("difflib", "unicodedata", "libcst", "tempfile", "modellint.report.frame", "modellint.source.fix"),
    ) == ["[]"]


def test_a_file_without_directives_costs_nothing() -> None:
    assert printed(
        "import ast",
        "from modellint.source.syntax.suppressions import Suppressions",
        "from modellint.source.syntax.source_text import SourceText",
        "text = 'x = 1  # a comment\\n'",
        "comments = Suppressions.of(SourceText(text), ast.parse(text))",
        "assert comments.apply(()) == ((), frozenset())",
        "assert not list(comments.unused(frozenset(), ['LNT001'], ''))",
        loaded("difflib", "modellint.source.syntax.comments", "modellint.tool_diagnostics"),
    ) == ["[]"]


def test_importing_the_authoring_interface_loads_nothing() -> None:
    names = "sorted(name for name in sys.modules if name.startswith(('modellint.', 'libcst', 'torch')))"
    assert printed("import modellint.authoring", f"print({names})") == ["['modellint.authoring']"]


def test_a_registered_buffer_that_nothing_changes_is_not_read_for(folder: Path) -> None:
    text = CLEAN.replace(
        "nn.Linear(1, 1)\n", "nn.Linear(1, 1)\n        self.register_buffer('scale', nn.Linear(1, 1).weight)\n"
    )
    (folder / "net.py").write_text(text.replace("return x", "return self.layers(x) * self.scale"), "utf-8")
    assert printed(checked("net.py"), loaded("modellint.source.facts.class_analysis")) == ["All checks passed!", "[]"]


def test_coremltools_does_not_bring_in_transformers() -> None:
    asked = loaded("transformers", "coremltools")
    lines = printed("import modellint.destinations.coreml.private.entry_points", asked, "import transformers", asked)
    assert lines[-2:] == ["['coremltools']", "['coremltools', 'transformers']"]

"""``pytest --modellint``, in a process of its own: which tests there are, what they say, and that nobody else is changed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)
CLEAN = "import torch\n"
TRAP = "raise RuntimeError('this file was imported')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    root = tmp_path / "project"
    for name, text in (
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'),
        ("src/bad.py", TRAP + BAD),
        ("src/clean.py", CLEAN),
        ("tests/test_it.py", "def test_it():\n    pass\n"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    monkeypatch.chdir(root)
    return root


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # The tests know nothing of what else is installed.
    known = {"modellint": "modellint.pytest_plugin", "xdist": "xdist.plugin"}
    installed = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
    off = [f"-pno:{name}" for name in installed - {*known}]
    on = [f"-p{module}" for name, module in known.items() if name not in installed]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *off, *on]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)


def collected(*arguments: str) -> list[str]:
    lines = run("--collect-only", *arguments).stdout.splitlines()
    return sorted(line for line in lines if "::" in line)


def test_nobody_else_is_changed(project: Path) -> None:
    assert collected() == ["tests/test_it.py::test_it"]
    (project / "pyproject.toml").write_text("[tool.modellint]\nunknown = 1\n", "utf-8")
    assert collected("tests") == ["tests/test_it.py::test_it"]
    (project / "conftest.py").write_text(
        "import sys\n\n\ndef pytest_unconfigure():\n    print('loaded', sorted(sys.modules))\n", "utf-8"
    )
    loaded = run("tests").stdout.partition("loaded")[2]
    assert "'modellint.pytest_plugin'" in loaded
    for name in ("modellint.settings", "modellint.pytest_items", "libcst", "torch", "click"):
        assert f"'{name}'" not in loaded


def test_every_file_is_a_test(project: Path) -> None:
    everything = [
        "src/bad.py::modellint",
        "src/clean.py::modellint",
        "tests/test_it.py::modellint",
        "tests/test_it.py::test_it",
    ]
    assert collected("--modellint") == everything
    assert collected("--modellint", "tests") == everything[2:]
    assert collected("--modellint", "src") == everything[:2]
    assert collected("--modellint", "-k", "bad") == everything[:1]
    assert collected("--modellint", "-m", "modellint") == everything[:3]
    (project / "modellint.toml").write_text('exclude = ["src/bad.py"]\n', "utf-8")
    assert collected("--modellint") == everything[1:]
    assert not (project / "tests" / "__pycache__" / "bad.pyc").exists()


def test_a_test_fails_with_the_findings(project: Path) -> None:
    done = run("--modellint", "--junitxml", "out.xml")
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "modellint", "check", "--no-cache", "src/bad.py"], capture_output=True, text=True
    ).stdout
    assert "REG001" in shown
    assert shown in done.stdout
    assert "Traceback" not in done.stdout
    failures = {case.get("classname"): case.find("failure") for case in ElementTree.parse("out.xml").iter("testcase")}
    failure = failures["src.bad"]
    assert failure is not None
    assert "REG001" in str(failure.text)
    (project / "modellint.toml").write_text('fail-level = "never"\n', "utf-8")
    quiet = run("--modellint", "-rP")
    assert quiet.returncode == 0
    assert "REG001" in quiet.stdout


def test_in_several_processes(project: Path) -> None:
    done = run("--modellint", "-n", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout


def test_baseline_holds(project: Path) -> None:
    (project / "modellint.toml").write_text('baseline = "known.json"\n', "utf-8")
    command = [sys.executable, "-m", "modellint", "check", "--write-baseline", "-q"]
    subprocess.run(command, check=True)
    assert run("--modellint").returncode == 0


def test_a_model_that_cannot_be_named_fails_as_a_test(project: Path) -> None:
    (project / "modellint.toml").write_text('[[models]]\ntarget = "src/gone.py:Net"\n', "utf-8")
    assert collected("--modellint", "-k", "Net") == ["modellint.toml::modellint[Net]"]
    done = run("--modellint", "-k", "Net")
    assert done.returncode == 1
    assert "src/gone.py:Net: no such file: src/gone.py" in done.stdout


def test_a_file_that_nobody_read_is_no_pass(project: Path) -> None:
    (project / "modellint.toml").write_text('ignore = ["LNT002"]\n', "utf-8")
    (project / "src" / "bad.py").write_text("class\n", "utf-8")
    done = run("--modellint", "-rs")
    assert "1 skipped" in done.stdout
    assert "not checked, though LNT002 is ignored" in done.stdout


def test_settings_that_cannot_be_used(project: Path) -> None:
    (project / "modellint.toml").write_text("unknown = 1\n", "utf-8")
    done = run("--modellint")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "modellint: " in done.stderr
    assert "unknown key 'unknown'" in done.stderr


def test_plugins_of_the_project_wait_for_trust(project: Path) -> None:
    (project / "own.py").write_text(
        "from modellint.authoring import ModuleClass, Rule, Severity\n\n\nclass Named(Rule):\n"
        '    code, name, severity = "XYZ001", "named", Severity.WARNING\n\n'
        "    def source(self, cls: ModuleClass):\n        yield cls.finding(self, cls.node, 'named')\n",
        "utf-8",
    )
    (project / "modellint.toml").write_text('plugins = ["own.py"]\nexclude = ["own.py"]\n', "utf-8")
    left_out = run("--modellint")
    assert "left out: own.py; --modellint-trust-plugins loads them" in left_out.stdout
    assert "XYZ001" in run("--modellint", "--modellint-plugin", "own.py").stdout
    assert "XYZ001" not in left_out.stdout
    assert "XYZ001" in run("--modellint", "--modellint-trust-plugins").stdout

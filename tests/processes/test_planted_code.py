"""Of a checked folder nothing runs, whatever is planted there; and every process of a run has the same plug-ins."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

NET = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "net.py").write_text(NET, "utf-8")
    return folder


TRAP = "import pathlib\npathlib.Path({where!r}, 'sprung-' + __name__.replace('.', '-')).touch()\n"


@pytest.fixture
def trapped(project: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A repository in which whatever might be imported leaves a file behind, and the folder of these files."""
    sprung = tmp_path / "sprung"
    sprung.mkdir()
    trap = TRAP.format(where=str(sprung))
    names = [
        "conftest",
        "sitecustomize",
        "usercustomize",
        "setup",
        "click",
        "pathspec",
        "tomllib",
        "typing",
        "json",
        "ast",
        "acme",
    ]
    for name in (*names, "__init__", "libcst/__init__", "modellint_rules/__init__", "modellint_rules/xyz001_trap"):
        path = project / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(trap, "utf-8")
    (project / "base.toml").write_text('plugins = ["acme", "acme.py", "modellint_rules"]\n', "utf-8")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "acme"\n[project.entry-points."modellint.rules"]\nacme = "acme"\n'
        '[tool.modellint]\nextend = "base.toml"\n',
        "utf-8",
    )
    (project / "setup.cfg").write_text("[options.entry_points]\nmodellint.rules = acme = acme\n", "utf-8")
    metadata = project / "acme.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text(
        "[modellint.rules]\nacme = acme\n[pytest11]\nmodellint-acme = acme\n[console_scripts]\nclick = acme\n", "utf-8"
    )
    (project / "nested").mkdir()
    (project / "nested" / "modellint.toml").write_text('plugins = ["evil.py"]\n', "utf-8")
    for name in ("evil.py", "net.py"):
        (project / "nested" / name).write_text(trap + NET, "utf-8")
    for number in range(30):
        (project / "nested" / f"net{number}.py").write_text(trap + NET, "utf-8")
    return project, sprung


def started(how: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """modellint in a process of its own: as its script starts it, or by ``python -m``, which puts the folder into the path."""
    command = {"script": [sys.executable, script()], "module": [sys.executable, "-m", "modellint"]}[how]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, input=NET)


def script() -> str:
    """The installed command."""
    files = importlib.metadata.distribution("modellint").files or []
    (path,) = (file for file in files if file.stem == "modellint" and file.suffix in ("", ".exe"))
    return os.path.realpath(path.locate())


@pytest.mark.parametrize("how", ["script", "module"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "--no-cache", "--jobs", "2", "--fix"),
        ("check", "--force-exclude", "net.py", "nested/net.py"),
        ("check", "-", "--stdin-filename", "net.py"),
        ("check", "--config", "base.toml"),
        ("config",),
        ("rule", "REG001"),
    ],
    ids=" ".join,
)
def test_nothing_of_a_repository_runs(trapped: tuple[Path, Path], how: str, arguments: tuple[str, ...]) -> None:
    done = started(how, *arguments)
    assert list(trapped[1].iterdir()) == [], done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("left out: acme, acme.py, modellint_rules") == 1


def test_traps_are_set(trapped: tuple[Path, Path]) -> None:
    """What the tests above rely on: who names the plug-in has it run, and it has no rule."""
    done = started("module", "check", "--plugin", "acme.py")
    assert done.returncode == 2
    assert any(path.name.startswith("sprung-modellint_plugin_acme") for path in trapped[1].iterdir())


SPAWNING = """
import multiprocessing

forking = multiprocessing.get_context
multiprocessing.get_context = lambda method=None: forking("spawn")
from modellint.cli import main

if __name__ == "__main__":
    main()
"""
RULE = """
from modellint.authoring import ModuleClass, Rule, Severity


class Named(Rule):
    code, name, severity = "XYZ001", "named", Severity.WARNING

    def source(self, cls: ModuleClass):
        yield cls.finding(self, cls.node, "named")
"""


def test_processes_that_are_no_copies(trapped: tuple[Path, Path], tmp_path: Path) -> None:
    """As on macOS and Windows: they load the plug-ins again, and nothing else."""
    if sys.version_info < (3, 11):
        return
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "named.py").write_text(RULE, "utf-8")
    # Python 3.10 cannot be told to leave the current folder out.
    names = ("multiprocessing", "threading", "concurrent", "logging") if sys.version_info >= (3, 11) else ()
    for name in names:
        (trapped[0] / f"{name}.py").write_text(TRAP.format(where=str(trapped[1])), "utf-8")
    program = tmp_path / "spawning.py"
    program.write_text(SPAWNING, "utf-8")
    command = [sys.executable, str(program), "check", "--jobs", "2", "--plugin", "../rules", "--select", "XYZ", "-q"]
    done = subprocess.run([*command, "--output-format", "concise"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("XYZ001 named") == 33
    assert list(trapped[1].iterdir()) == []

"""The hooks, as users get them: the real pre-commit, and prek, install them from a repository and run them at a commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = (".pre-commit-hooks.yaml", "LICENSE", "README.md", "lint", "pyproject.toml", "rules")

BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(2)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
FIXED = BAD.replace("[nn.Linear(4, 4) for _ in range(2)]", "nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])")


class Repository:
    """A git repository that neither the user's settings nor an enclosing hook's environment reach."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))
        }
        self.environment |= {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PRE_COMMIT_COLOR": "never",
            "PRE_COMMIT_HOME": str(home),
            "PREK_HOME": str(home),
            "PREK_COLOR": "never",
            # uv has certificates of its own, and asks the machine for its only so.
            "UV_NATIVE_TLS": "1",
            "UV_SYSTEM_CERTS": "1",
        }
        for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
            self.environment |= {f"{name}_NAME": "somebody", f"{name}_EMAIL": "somebody@example.org"}
        folder.mkdir(exist_ok=True)
        self.git("init", "--quiet")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def commit(self) -> subprocess.CompletedProcess[str]:
        self.git("add", "--all")
        return self.run("git", "commit", "--quiet", "--message", "a step")

    @property
    def commits(self) -> int:
        return int(self.git("rev-list", "--all", "--count"))


@pytest.fixture
def hooks(tmp_path: Path) -> Repository:
    """A repository that holds what this one ships, as it stands now."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    repository = Repository(folder, tmp_path / "home")
    assert repository.commit().returncode == 0
    return repository


PROGRAMS = {
    "pre-commit": (sys.executable, "-m", "pre_commit"),
    "prek": (
        shutil.which("prek", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))) or "prek",
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_commit_is_blocked_fixed_and_passes(hooks: Repository, tmp_path: Path, program: str) -> None:
    project = Repository(tmp_path / "project", tmp_path / "home")

    def use(*names: str) -> None:
        lines = [f"repos:\n- repo: {hooks.folder}\n  rev: {hooks.git('rev-parse', 'HEAD')}\n  hooks:\n"]
        lines.extend(f"  - id: {name}\n" for name in names)
        (project.folder / ".pre-commit-config.yaml").write_text("".join(lines), "utf-8")

    net = project.folder / "net.py"
    net.write_text(BAD, "utf-8")
    use("modellint")
    installed = project.run(*PROGRAMS[program], "install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout

    blocked = project.commit()
    assert blocked.returncode == 1, blocked.stdout
    assert "REG001 [*] `self.layers` keeps modules in a plain list" in blocked.stdout
    assert project.commits == 0
    assert net.read_text("utf-8") == BAD

    use("modellint-fix", "modellint")
    fixed = project.commit()
    assert fixed.returncode == 1, fixed.stdout
    assert "files were modified by this hook" in fixed.stdout
    assert project.commits == 0
    assert net.read_text("utf-8") == FIXED

    passed = project.commit()
    assert passed.returncode == 0, passed.stdout
    assert project.commits == 1
    assert project.git("show", "HEAD:net.py") == FIXED.strip()

    # Files are named to the hook one by one; `exclude` holds all the same.
    (project.folder / "modellint.toml").write_text('exclude = ["vendored"]\n', "utf-8")
    (project.folder / "vendored").mkdir()
    (project.folder / "vendored" / "net.py").write_text(BAD, "utf-8")
    excluded = project.commit()
    assert excluded.returncode == 0, excluded.stdout
    assert (project.folder / "vendored" / "net.py").read_text("utf-8") == BAD

"""What is released: wheel and sdist, built, looked into, and installed in an empty environment; and the workflow that publishes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = ("LICENSE", "README.md", "lint", "pyproject.toml", "rules")
WORKFLOWS = ("ci", "macos", "release")
BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
"""


def run(*command: str | Path, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))}
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, target: Path, *options: str) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", target, ".", folder=source)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source as it is released, in a repository whose commit has a tag."""
    folder = tmp_path_factory.mktemp("source")
    for name in (*SHIPPED, "CHANGELOG.md", "docs", "tests"):
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        else:
            shutil.copy(place, folder)
    (folder / ".gitignore").write_text("dist/\n", "utf-8")
    git = ("git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    run(*git, "init", "--quiet", folder=folder)
    run(*git, "add", ".", folder=folder)
    run(*git, "commit", "--quiet", "--no-verify", "--message", "All", folder=folder)
    run(*git, "tag", "v1.2.3", folder=folder)
    return folder


@pytest.fixture(scope="module")
def distributions(source: Path) -> Path:
    """The sdist, and the wheel that is built from it."""
    build(source, source / "dist")
    return source / "dist"


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return distributions / "modellint-1.2.3-py3-none-any.whl"


def test_version_is_that_of_the_tag(distributions: Path) -> None:
    names = {path.name for path in distributions.iterdir()}
    assert names == {"modellint-1.2.3-py3-none-any.whl", "modellint-1.2.3.tar.gz"}


def test_version_without_git(tmp_path: Path) -> None:
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+\.dev0\n", run(sys.executable, "-m", "hatchling", "version", folder=tmp_path))


def test_both_say_what_an_index_wants(distributions: Path) -> None:
    files = [str(path) for path in distributions.iterdir()]
    assert "WARN" not in run(sys.executable, "-m", "twine", "check", "--strict", *files, folder=distributions)


def test_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read("modellint-1.2.3.dist-info/METADATA").decode())
        entry_points = archive.read("modellint-1.2.3.dist-info/entry_points.txt").decode()
    assert {name.partition("/")[0] for name in names} == {"modellint", "modellint_rules", "modellint-1.2.3.dist-info"}
    assert {"modellint/py.typed", "modellint_rules/py.typed", "modellint-1.2.3.dist-info/licenses/LICENSE"} <= names
    in_source = {
        path.relative_to(ROOT / top).as_posix()
        for top, package in (("lint", "modellint"), ("rules", "modellint_rules"))
        for path in (ROOT / top / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if ".dist-info/" not in name} == in_source
    assert "modellint = modellint.cli:main" in entry_points
    required = [name for name in metadata.get_all("Requires-Dist", []) if "extra ==" not in name]
    assert {re.split(r"[<>=; ]", name)[0] for name in required} == {"click", "libcst", "pathspec", "tomli"}
    assert metadata["License-Expression"] == "MIT"


def test_sdist_leaves_out_what_only_this_repository_runs(distributions: Path) -> None:
    with tarfile.open(distributions / "modellint-1.2.3.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "lint/modellint/py.typed", "PKG-INFO"} <= names
    assert {name for name in names if name.startswith((".ci/", "dist/")) or name.endswith(".pyc")} == set()


def test_wheel_is_the_same_from_sdist_and_source(source: Path, wheel: Path, tmp_path: Path) -> None:
    build(source, tmp_path, "--wheel")
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_base_install_works_with_what_it_brings(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "environment", folder=tmp_path)
    programs = tmp_path / "environment" / ("Scripts" if os.name == "nt" else "bin")
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", wheel, folder=tmp_path)
    installed = {entry["name"].lower() for entry in json.loads(run(*pip, "list", "--format", "json", folder=tmp_path))}
    assert {"modellint", "click", "libcst", "pathspec"} <= installed
    assert installed <= {"modellint", "click", "libcst", "pathspec", "pyyaml", "tomli", "colorama", "pip", "setuptools"}
    modellint = programs / "modellint"
    assert run(modellint, "--version", folder=tmp_path) == "modellint, version 1.2.3\n"
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    command = (modellint, "check", "--isolated", "--exit-zero", "net.py")
    report = json.loads(run(*command, "--output-format", "report", folder=tmp_path))
    assert report["version"] == "1.2.3"
    assert [finding["code"] for finding in report["diagnostics"]] == ["REG001"]
    run(modellint, "check", "--isolated", "--fix", "net.py", folder=tmp_path)
    assert "nn.ModuleList([nn.Linear(4, 4)])" in (tmp_path / "net.py").read_text("utf-8")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_keeps_to_the_schema(name: str) -> None:
    file = str(ROOT / ".github" / "workflows" / f"{name}.yml")
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file, folder=ROOT)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned(name: str) -> None:
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    for action in re.findall(r"uses: (\S+)", text):
        assert action.startswith("./") or re.search(r"@v\d", action), action


def test_citation_keeps_to_the_schema() -> None:
    command = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format")
    run(*command, "CITATION.cff", folder=ROOT)


def test_steps_of_the_release_take_notes_and_compare_the_version(distributions: Path, tmp_path: Path) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    steps = {step["name"]: step["run"] for step in workflow["jobs"]["build"]["steps"] if "name" in step}
    shutil.copytree(distributions, tmp_path / "dist")
    changelog = "# Changelog\n\n## [1.2.3] - 2026-01-01\n\n### Added\n- A thing.\n\n## [1.2.2] - 2025-01-01\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog, "utf-8")

    def status(step: str, tag: str) -> int:
        environment = os.environ | {"GITHUB_REF_NAME": tag}
        return subprocess.run(["bash", "-e", "-c", steps[step]], cwd=tmp_path, env=environment).returncode

    assert status("Compare the version with the tag", "v1.2.3") == 0
    assert status("Take the notes from the changelog", "v1.2.3") == 0
    assert (tmp_path / "notes.md").read_text("utf-8") == "\n### Added\n- A thing.\n\n"
    assert status("Compare the version with the tag", "v1.2.4") == 1
    assert status("Take the notes from the changelog", "v1.2.4") == 1

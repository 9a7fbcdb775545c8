"""The site is built by Zensical and by mkdocs-material, and neither has anything to complain of; its pictures are current."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import join, normpath

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    for name in ("docs", "lint", "rules"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    subprocess.run([sys.executable, "docs/make.py", "pages"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("builder", ["zensical", "mkdocs"])
def test_site_builds_strictly(builder: str, project: Path) -> None:
    command = [sys.executable, "-m", builder, "build", "--strict"]
    done = subprocess.run(command, cwd=project, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    site = project / "site"
    for page in ("", "ko/", "tutorial/", "rules/module-in-list/", "api/", "command-line/"):
        html = (site / page / "index.html").read_text("utf-8")
        # The switch between languages, from wherever the page stands.
        switch = re.findall(r'href="?([^" ]+)"? hreflang="?(\w+)', html)
        assert {(language, normpath(join(page, link))) for link, language in switch} == {("en", "."), ("ko", "ko")}
    assert "assert_exportable" in (site / "api" / "index.html").read_text("utf-8")


def test_pictures_are_current() -> None:
    for file, text in runpy.run_path(str(ROOT / "docs" / "pictures.py"))["pictures"]().items():
        assert file.read_text("utf-8") == text, f"run `python docs/pictures.py` for {file.name}"

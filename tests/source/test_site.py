"""The site: its pages are there, its links lead somewhere, and its commands print what they say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import DOCS, ROOT, blocks, follow, source_blocks

from modellint.run import all_rules

MAKE = runpy.run_path(str(DOCS / "make.py"))
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "rules")
RUN = [
    "tutorial.md",
    "old-code.md",
    "image-classifier.md",
    "language-model.md",
    "whisper.md",
    "stable-diffusion.md",
    "flexible-sizes.md",
    "without-a-mac.md",
]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def without_code(text: str) -> str:
    return re.sub(r"^(````?).*?^\1$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", RUN)
def test_commands_that_read_source_print_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(source_blocks(page)) == {"tutorial.md": 4, "old-code.md": 4}.get(page, 0)


def test_fixed_size_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow([block for block in blocks("flexible-sizes.md") if "fixed.py" in block.title + block.text]) == 1


def test_korean_tutorial_has_the_same_files_commands_and_outputs() -> None:
    assert blocks("ko/tutorial.md") == blocks("tutorial.md")


def test_korean_home_has_the_same_commands() -> None:
    assert blocks("ko/index.md") == blocks("index.md")


@pytest.mark.parametrize("page", [*PAGES, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md"])
def test_links_lead_to_files(page: str) -> None:
    rules = {f"rules/{name}" for name in MAKE["pages"](all_rules())}
    for link in LINK.findall(without_code((DOCS / page).read_text("utf-8"))):
        if "://" not in link:
            target = ((DOCS / page).parent / link).resolve()
            assert target.exists() or target.relative_to(DOCS).as_posix() in rules, link


def test_every_rule_has_a_page_and_a_line() -> None:
    pages = MAKE["pages"](all_rules())
    assert set(pages) == {"index.md"} | {f"{rule.name}.md" for rule in all_rules().values()}
    for code, rule in all_rules().items():
        assert pages["index.md"].count(f"| {code} | [{rule.name}]({rule.name}.md) |") == 1


def entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav if isinstance(nav, list) else nav.values()) for page in entries(part)]


def test_pages_of_the_navigation_are_there() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    named = entries(settings["nav"])
    assert len(named) == len(set(named))
    assert set(named) - {"rules/index.md"} <= set(PAGES)
    assert {alternate["lang"] for alternate in settings["extra"]["alternate"]} == {"en", "ko"}

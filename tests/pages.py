"""Runs a page of the documentation as its reader would: saves the files that it names, types its commands, compares what is shown.

A block with a title is a file. A block of ``console`` has a command behind ``$``, and what it prints; ``…`` stands for what is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from modellint.cli import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_BLOCK = re.compile(r'^```(\w*)(?: title="(.+?)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+\.\d+(e[+-]\d+)?|\d+(?= (dB|kB|sets of inputs))|var_\d+")
_LIVE = re.compile(r"\S\.py:[A-Za-z]| (verify|export) |pytest")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str

    @property
    def command(self) -> str:
        """What is typed, of a block of ``console``."""
        return self.text.partition("\n")[0].removeprefix("$ ")

    @property
    def is_live(self) -> bool:
        """Whether what is typed runs a model."""
        return self.language == "console" and bool(_LIVE.search(self.command))


def blocks(page: str) -> list[Block]:
    return [Block(*match.groups("")) for match in _BLOCK.finditer((DOCS / page).read_text("utf-8"))]


def source_blocks(page: str) -> Iterator[Block]:
    """The blocks up to the first that runs a model."""
    for block in blocks(page):
        if block.is_live:
            return
        yield block


def follow(todo: Iterator[Block] | list[Block]) -> int:
    """Follow these blocks in the current folder, and tell how many commands there were."""
    count = 0
    for block in todo:
        if block.title:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.language == "console":
            program, *words = shlex.split(block.command)
            assert program == "modellint", block.command
            done = CliRunner().invoke(cli, words)
            assert done.exit_code in (0, 1), done.output
            assert matches(done.output, block.text.partition("\n")[2]), f"$ {block.command}\n{done.output}"
            count += 1
    return count


def matches(shown: str, expected: str) -> bool:
    """Whether this is shown, but for numbers that depend on the machine and what stands at ``…``."""
    pattern = ".*".join(re.escape(part) for part in _without_numbers(expected).split("…"))
    # A line of `…` alone takes whole lines.
    return re.fullmatch(pattern, _without_numbers(shown), re.DOTALL) is not None


def _without_numbers(text: str) -> str:
    return re.sub(r"[ ]{2,}", "  ", _NUMBER.sub("N", text))

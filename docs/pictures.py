"""Writes the pictures of the documentation: a terminal from a real run, and two drawings.

python docs/pictures.py            docs/pictures/*.svg

Each brings its own background, so that it can be read on a light and on a dark page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
COMMAND = "modellint check examples/stack.py examples/live/scale.py"
"""What the picture of a terminal shows."""

_COLUMNS = 92
"""How wide the terminal is: longer lines go on in the next one."""
_SIZE, _LINE, _CHARACTER, _MARGIN = 14, 20, 8.43, 18
_MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_COLORS = {
    "31": "#ff8f85",
    "32": "#7ee2a8",
    "36": "#6cd3e0",
    "91": "#ff8f85",
    "93": "#f2c879",
    "94": "#8ab4ff",
    "96": "#6cd3e0",
}
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


class Span(NamedTuple):
    """Text of one look."""

    text: str
    codes: tuple[str, ...]


def rows(output: str) -> list[list[Span]]:
    """The rows of a terminal that shows this output, each by its looks."""
    shown: list[list[Span]] = []
    codes: tuple[str, ...] = ()
    for line in output.rstrip("\n").split("\n"):
        shown.append([])
        left = _COLUMNS
        for number, piece in enumerate(_ESCAPE.split(line)):
            if number % 2:
                codes = () if piece in ("", "0") else tuple(piece.split(";"))
                continue
            while piece:
                if not left:
                    shown.append([])
                    left = _COLUMNS
                shown[-1].append(Span(piece[:left], codes))
                piece, left = piece[left:], left - len(piece[:left])
    return shown


def terminal(output: str) -> str:
    """A picture of a terminal that shows this output."""
    lines = rows(output)
    width, height = round(_COLUMNS * _CHARACTER + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(COMMAND)}</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#1b1f27" stroke="#4b5263"/>',
        *(
            f'<circle cx="{24 + 20 * i}" cy="20" r="6" fill="{c}"/>'
            for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<g font-family="{_MONOSPACE}" font-size="{_SIZE}" fill="#e6e9ef">',
    ]
    for row, line in enumerate(lines):
        column = 0
        for text, codes in line:
            # Each piece has its own place and length, whatever font the reader has.
            if visible := text.strip():
                looks = "".join(f' fill="{_COLORS[code]}"' for code in codes if code in _COLORS)
                looks += ' font-weight="bold"' if "1" in codes else ""
                x = _MARGIN + (column + len(text) - len(text.lstrip())) * _CHARACTER
                y, length = 20 + _MARGIN + (row + 1) * _LINE, len(visible) * _CHARACTER
                # Of two usual spaces in a row one is shown.
                kept = visible.replace(" ", "\N{NO-BREAK SPACE}")
                parts.append(f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{looks}>{escape(kept)}</text>')
            column += len(text)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def run() -> str:
    """What the command of the picture prints on a terminal, below the command itself."""
    words = [sys.executable, "-m", "modellint", *COMMAND.split()[1:], "--no-cache", "--color", "always"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    return f"\x1b[32m$\x1b[0m \x1b[1m{COMMAND}\x1b[0m\n{done.stdout}"


class Step(NamedTuple):
    """A box of a drawing, and what stands on the arrow that leaves it."""

    title: str
    text: str
    result: str = ""


CHECK = (
    Step("Your project", "Python files. Nothing of them is run.", "which words stand in a file?"),
    Step("Triggers", "Files and classes that could wake a rule. Most of a project ends here.", "those classes"),
    Step(
        "One reading of each class", "Bases, helpers, loops and branches are followed, also from other files.", "values"
    ),
    Step(
        "Values",
        "Tensors with rank, layout and origin; modules; containers; unknown.",
        "facts",
    ),
    Step("Rules", "Each asks for facts. Of what is unknown nothing is concluded.", "findings with fixes"),
    Step("Report", "Terminal, JSON, SARIF, JUnit, HTML …"),
)
EXPORT = (
    Step("Your model", "Built in a process of its own. It is never changed.", "a copy"),
    Step("Fix", "Proven by outputs and gradients, or taken back.", "by trace, then by torch.export"),
    Step("Convert", "coremltools, with converters supplied where it has none.", "an ML Program"),
    Step("Execute", "The program that was saved, operation by operation, on this machine.", "outputs"),
    Step("Compare", "With the model as you gave it, against PyTorch's own rounding.", "agrees, or the next route"),
    Step("Net.mlpackage", "Written whole. Where nothing agrees nothing is written, and you are told why."),
)


def drawing(title: str, steps: tuple[Step, ...]) -> str:
    """Steps below each other, with arrows between them."""
    width, box, gap = 560, 64, 44
    height = len(steps) * box + (len(steps) - 1) * gap + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#f6f7f9" stroke="#b9bfca"/>',
        '<g font-family="system-ui, sans-serif" fill="#1b1f27" text-anchor="middle">',
    ]
    middle = width / 2
    for number, step in enumerate(steps):
        y = 20 + number * (box + gap)
        parts += [
            f'<rect x="20" y="{y}" width="{width - 40}" height="{box}" rx="8" fill="#ffffff" stroke="#4051b5"/>',
            f'<text x="{middle}" y="{y + 27}" font-size="17" font-weight="bold">{escape(step.title)}</text>',
            f'<text x="{middle}" y="{y + 49}" font-size="12.5">{escape(step.text)}</text>',
        ]
        if number < len(steps) - 1:
            top = y + box
            parts += [
                f'<path d="M{middle} {top + 4}V{top + gap - 10}m-5 -6l5 6l5 -6" fill="none" stroke="#4051b5" stroke-width="2"/>',
                f'<text x="{middle + 16}" y="{top + 26}" font-size="12.5" text-anchor="start" fill="#4051b5">{escape(step.result)}</text>',
            ]
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def pictures() -> dict[Path, str]:
    """Every picture, by its file."""
    return {
        PICTURES / "terminal.svg": terminal(run()),
        PICTURES / "check.svg": drawing("How a check reads source", CHECK),
        PICTURES / "export.svg": drawing("How an export comes to a package", EXPORT),
    }


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for file, text in pictures().items():
        file.write_text(text, "utf-8")

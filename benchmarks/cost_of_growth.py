"""How cost grows with work: files, classes, layers, operators and workers, at 1, 2, 4 and 8 times a base size.

    python benchmarks/cost_of_growth.py [ROW...] [--rounds 3] [--json FILE] [--plots FOLDER] [--page FILE]
    python benchmarks/cost_of_growth.py --from FILE --plots FOLDER --page FILE

Every figure is one run of `modellint` as users type it, in a process of its own, on generated files in a temporary folder. Runs
follow one another, all sizes in turn in each round, and the least of the rounds counts: CPU seconds of the command and its
children on one thread; of the workers of a sweep, which is run in one round, the seconds that passed. Told are ratios: the time
over that at the base size, and the exponent by which it grows from there (1: proportional, 2: quadratic; the slope of a line through
the logarithms). What a command takes with no work at all, which is mostly imports, is measured too, and the exponent told of what is
above it. ``--json`` writes the figures, ``--plots`` a picture for each kind of work, ``--page`` puts table and pictures between the
marks of a page; ``--from`` measures nothing and takes the figures of a file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

FACTORS = (1, 2, 4, 8)
CLASSES = 5
"""How many classes a file has, of those that are checked together."""
TARGETS = 16
"""How many models a sweep has."""
BEGIN, END = "<!-- generated -->\n", "<!-- /generated -->"

HEAD = "import torch\nfrom torch import nn\n\n\n"
CLEAN = """\
class Block{n}(nn.Module):
    def __init__(self, width, expansion=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, expansion * width)
        self.down = nn.Linear(expansion * width, width)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        y = self.norm(x)
        if self.training:
            y = y + torch.randn_like(y)
        y = self.down(torch.relu(self.up(y)))
        return x + self.scale * y


"""
FAULTY = """\
class Net{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


"""
MODEL = """\
import torch
from torch import nn


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.Sequential(*(nn.ReLU() if n % 2 else nn.Linear(16, 16) for n in range(count)))

    def forward(self, x):
        return torch.tanh(self.layers(x))


class Operators(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        for n in range(self.count):
            x = (torch.sin, torch.sigmoid, lambda y: y * 0.9, lambda y: y + 0.1)[n % 4](x)
        return torch.tanh(x)


def layers():
    torch.manual_seed(0)
    return Layers({count}).eval(), (torch.randn(1, 16),)


def operators():
    torch.manual_seed(0)
    return Operators({count}).eval(), (torch.randn(1, 16),)
"""
ZOO = """\
import torch
from torch import nn


def models():
    for width in range(2, {end}):
        yield f"net{{width}}", lambda width=width: (nn.Sequential(nn.Linear(width, width), nn.ReLU()).eval(), (torch.ones(1, width),))
"""
WITHOUT_COREMLTOOLS = 'raise ModuleNotFoundError("left out", name="coremltools")\n'


class Run(NamedTuple):
    """A command of `modellint`, run in a folder, and what it has to print."""

    folder: Path
    arguments: tuple[str, ...]
    says: str
    before: tuple[str, ...] = ()
    """A command that is run once, and not measured."""


class Row(NamedTuple):
    """A kind of work, done in one way."""

    name: str
    title: str
    unit: str
    base: int
    make: Callable[[Path, int], Run]
    """Writes into a folder of its own what so much work needs."""
    label: str = "the command"
    """What the line is called in the picture."""
    plot: str = ""
    """The picture that the row is in, by the row that it is named after; its own where it is empty."""
    with_coremltools: bool = True
    is_parallel: bool = False
    """Whether the work stays the same, and more take part in it: the clock is what counts, and nothing is no size."""


def classes(count: int, first: int = 0) -> tuple[str, int]:
    """Text with so many classes, and how many findings are in it: one in the first of every five classes."""
    parts = [(CLEAN if n % CLASSES else FAULTY).format(n=n) for n in range(first, first + count)]
    return HEAD + "".join(parts), sum(not n % CLASSES for n in range(first, first + count))


def _said(findings: int) -> str:
    return f"Found {findings} error" if findings else "All checks passed!"


CHECK = ("check", "--isolated", "--jobs", "1", "--output-format", "concise")


def _files(folder: Path, count: int) -> Run:
    (folder / "project").mkdir()
    (folder / "project" / "nothing.py").write_text("", "utf-8")
    for n in range(count):
        (folder / "project" / f"net{n}.py").write_text(classes(CLASSES, CLASSES * n)[0], "utf-8")
    return Run(folder, (*CHECK, "--no-cache", "project"), _said(count))


def _files_again(folder: Path, count: int) -> Run:
    run = _files(folder, count)
    command = (*CHECK, "--cache-dir", "cache", "project")
    return run._replace(arguments=command, before=command)


def _classes(folder: Path, count: int) -> Run:
    text, findings = classes(count)
    (folder / "nets.py").write_text(text, "utf-8")
    return Run(folder, (*CHECK, "--no-cache", "nets.py"), _said(findings))


def _model(folder: Path, count: int) -> None:
    (folder / "net.py").write_text(MODEL.format(count=count), "utf-8")


def _layers(folder: Path, count: int) -> Run:
    _model(folder, count)
    return Run(folder, (*CHECK, "--no-cache", "net.py:layers"), "Core ML: will convert")


def _layers_alone(folder: Path, count: int) -> Run:
    return _layers(folder, count)._replace(says="Core ML: not tried")


def _operators(folder: Path, count: int) -> Run:
    _model(folder, count)
    command = ("export", "--isolated", "--precision", "fp32", "--force", "net.py:operators", "-o", "Net.mlpackage")
    return Run(folder, command, "exported, and agrees with PyTorch")


def _workers(folder: Path, count: int) -> Run:
    (folder / "zoo.py").write_text(ZOO.format(end=2 + TARGETS), "utf-8")
    command = ("sweep", "--isolated", "--workers", str(count), "zoo.py:models", "-o", "rows.sqlite")
    return Run(folder, command, f"{TARGETS} targets, {TARGETS} rows")


ROWS = {
    row.name: row
    for row in (
        Row("files", "files of a source check, no cache", "files", 50, _files, "without a cache"),
        Row(
            "files-again", "the same files again, unchanged", "files", 50, _files_again, "again, with the cache", "files"
        ),
        Row("classes", "classes in one file", "classes", 100, _classes),
        Row("layers", "layers of a live model, conversion tried", "layers", 64, _layers, "conversion tried"),
        Row(
            "layers-alone", "layers of a live model, torch alone", "layers", 64, _layers_alone, "torch alone", "layers",
            with_coremltools=False,
        ),
        Row("operators", "operators in a graph that is exported", "operators", 128, _operators),
        Row(
            "workers", f"workers of a sweep of {TARGETS} models", "workers", 1, _workers, "the sweep",
            with_coremltools=False, is_parallel=True,
        ),
    )
}  # fmt: skip
PLOTS = {
    "files": "Files of a source check",
    "classes": "Classes in one file",
    "layers": "Layers of a live model",
    "operators": "Operators in a graph that is exported",
    "workers": f"Workers of a sweep of {TARGETS} models",
}
"""The pictures, with their titles."""


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sizes(row: Row) -> tuple[int, ...]:
    """What is measured of a row: no work, where there can be none, and each size."""
    counts = tuple(factor * row.base for factor in FACTORS)
    return counts if row.is_parallel else (0, *counts)


def seconds(run: Run, row: Row, hidden: Path) -> float:
    """What a run takes. Ends the benchmark where it does not say what it should."""
    import resource

    root = Path(__file__).resolve().parent.parent
    path = [str(root / "lint"), str(root / "rules")]
    if not row.with_coremltools:
        path.insert(0, str(hidden))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "modellint", *run.arguments]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=run.folder, env=environment, capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1) or run.says not in done.stdout or "LNT00" in done.stdout:
        said = (done.stdout + done.stderr)[-600:]
        raise SystemExit(f"{' '.join(command[2:])} ended with {done.returncode}, without {run.says!r}: {said}")
    return took if row.is_parallel else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rows: Sequence[Row], rounds: int, folder: Path) -> dict[str, dict[int, float]]:
    """The least time of each row and size, taken in turns."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "coremltools.py").write_text(WITHOUT_COREMLTOOLS, "utf-8")
    runs: dict[tuple[str, int], Run] = {}
    for row in rows:
        for size in sizes(row):
            own = folder / f"{row.name} {size}"
            own.mkdir()
            run = runs[row.name, size] = row.make(own, size)
            if run.before:
                seconds(run._replace(arguments=run.before), row, hidden)
    least: dict[str, dict[int, float]] = {row.name: {} for row in rows}
    for number in range(rounds):
        for row in rows:
            if row.is_parallel and number:
                continue
            for size in sizes(row):
                (run := runs[row.name, size]).folder.joinpath("rows.sqlite").unlink(missing_ok=True)
                took = seconds(run, row, hidden)
                least[row.name][size] = min(took, least[row.name].get(size, math.inf))
                print(f"round {number + 1}: {row.name} {size}: {took:.2f} s", file=sys.stderr, flush=True)
    return least


def exponent(times: Sequence[float]) -> float | None:
    """The slope of a line through the logarithms of times at 1, 2, 4 and 8 times a size; None where one of them is nothing."""
    if min(times) <= 0:
        return None
    x, y = [math.log2(factor) for factor in FACTORS], [math.log2(time) for time in times]
    middle, high = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - high) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def figures(row: Row, least: Mapping[int, float]) -> dict[str, Any]:
    """What is told of a row."""
    times = [least[factor * row.base] for factor in FACTORS]
    nothing = least.get(0)
    above = None if nothing is None else [time - nothing for time in times]
    slope = exponent(times)
    assert slope is not None
    # What is a small part of the start is noise.
    is_told = nothing is not None and above is not None and min(above) > 0.15 * nothing
    own = exponent(above) if above is not None and is_told else None
    return {
        "name": row.name,
        "unit": row.unit,
        "sizes": [factor * row.base for factor in FACTORS],
        "clock": "passed" if row.is_parallel else "CPU",
        "seconds": [round(time, 3) for time in times],
        "nothing": None if nothing is None else round(nothing, 3),
        "ratios": [round(time / times[0], 3) for time in times],
        "exponent": round(slope, 2),
        "above": None if own is None or above is None else [round(time / above[0], 3) for time in above],
        "exponent-above": None if own is None else round(own, 2),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {name: _version(name) for name in ("torch", "coremltools")}
    return {"cores": cores(), "system": platform.system(), "python": platform.python_version(), **versions}


def table(result: Mapping[str, Any]) -> str:
    """The figures as a table of Markdown, and what they were taken on."""
    on = result["machine"]
    versions = ", ".join(f"{name} {on[name]}" for name in ("torch", "coremltools") if on[name])
    many = "1 core" if on["cores"] == 1 else f"{on['cores']} cores"
    rounds = "one round" if result["rounds"] == 1 else f"the best of {result['rounds']} rounds"
    lines = [
        f"Taken on {many}, {on['system']}, Python {on['python']}, {versions}; {rounds}, of the sweep one.",
        "",
        "| what grows | from | seconds there | 2 times | 4 times | 8 times | exponent | less the start |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        first, *others = row["ratios"]
        assert first == 1
        own = "–" if row["exponent-above"] is None else f"{row['exponent-above']:.2f}"
        cells = [
            ROWS[row["name"]].title,
            str(row["sizes"][0]),
            f"{row['seconds'][0]:.2f}",
            *(f"{ratio:.2f}" for ratio in others),
            f"{row['exponent']:.2f}".replace("-", "−"),
            own,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(text: str, result: Mapping[str, Any]) -> str:
    """A page with the table and the pictures, which are beside it in a folder, between its marks."""
    before, mark, rest = text.partition(BEGIN)
    assert mark, "the page has no mark for the table"
    shown = "".join(f"\n![{PLOTS[name]}](pictures/{file_of(name)})\n" for name in plotted(result))
    return f"{before}{BEGIN}{table(result)}{shown}{END}{rest.partition(END)[2]}"


_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 380, 64, 70, 96, 52
_PAGE, _EDGE, _TEXT, _WEAK, _COLORS = "#f6f7f9", "#b9bfca", "#1b1f27", "#57606a", ("#4051b5", "#c2570c")


def file_of(name: str) -> str:
    """The file of a picture."""
    return f"cost-{name}.svg"


def plotted(result: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of each picture of which anything was measured."""
    found = {name: [row for row in result["rows"] if name in (row["name"], ROWS[row["name"]].plot)] for name in PLOTS}
    return {name: rows for name, rows in found.items() if rows}


def plots(result: Mapping[str, Any]) -> dict[str, str]:
    """A picture for each kind of work that was measured, by file name."""
    cores = result["machine"]["cores"]
    return {file_of(name): plot(PLOTS[name], rows, cores) for name, rows in plotted(result).items()}


def plot(title: str, rows: Sequence[Mapping[str, Any]], cores: int) -> str:
    """Time over that at the base size, over the size, both axes logarithmic, beside what is proportional."""
    parallel = ROWS[rows[0]["name"]].is_parallel
    lines = []
    for row, color in zip(rows, _COLORS, strict=False):
        label = ROWS[row["name"]].label
        lines.append((label, row["ratios"], color, ""))
        if row["above"] is not None:
            lines.append((f"{label}, less the start", row["above"], color, "2 5"))
    ideal = [1 / factor if parallel else factor for factor in FACTORS]
    lines.append(("as many times faster as workers" if parallel else "proportional", ideal, _WEAK, "9 5"))
    levels = [math.log2(ratio) for _, ratios, *_ in lines for ratio in ratios]
    # A point a little outside of a line of the grid needs no further one.
    low, high = math.floor(min(levels) + 0.15), math.ceil(max(levels) - 0.15)

    def across(place: int) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * place / (len(FACTORS) - 1), 1)

    def up(ratio: float) -> float:
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - math.log2(ratio)) / (high - low), 1)

    clock = "seconds" if parallel else "CPU seconds"
    about = f"{clock} over those with {rows[0]['sizes'][0]} {rows[0]['unit'].removesuffix('s') if parallel else rows[0]['unit']}"
    about += f", on {cores} core{'s' * (cores != 1)}" if parallel else ""
    told = "; ".join(f"{label} {', '.join(f'{ratio:.2f}' for ratio in ratios)}" for label, ratios, *_ in lines[:-1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{escape(f'{title}: {told}')}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="10" fill="{_PAGE}" stroke="{_EDGE}"/>',
        f'<g font-family="system-ui, sans-serif" font-size="13" fill="{_TEXT}">',
        f'<text x="20" y="30" font-size="17" font-weight="bold">{escape(title)}</text>',
        f'<text x="20" y="50" fill="{_WEAK}">{escape(about)}</text>',
    ]
    for level in range(low, high + 1):
        y, said = up(2.0**level), str(2**level) if level >= 0 else f"1/{2**-level}"
        parts.append(f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="{_EDGE}" stroke-opacity=".6"/>')
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4.5}" text-anchor="end">{said}</text>')
    for place, size in enumerate(rows[0]["sizes"]):
        x = across(place)
        parts.append(
            f'<path d="M{x} {up(2.0**low)}V{up(2.0**high)}" stroke="{_EDGE}" stroke-opacity=".6"/>'
            f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{size}</text>'
        )
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 12}" text-anchor="middle" fill="{_WEAK}">{rows[0]["unit"]}</text>'
    )
    for _, ratios, color, dashes in (lines[-1], *lines[:-1]):
        points = " ".join(f"{across(place)},{up(ratio)}" for place, ratio in enumerate(ratios))
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>')
        if color != _WEAK:
            parts += [
                f'<circle cx="{across(n)}" cy="{up(ratio)}" r="3.5" fill="{color}"/>' for n, ratio in enumerate(ratios)
            ]
    parts += _ends([(up(ratios[-1]), f"{ratios[-1]:.2f}", color) for _, ratios, color, _ in lines[:-1]])
    parts += _legend([(label, color, dashes) for label, _, color, dashes in lines], across(0), up(2.0**low), parallel)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _ends(ends: list[tuple[float, str, str]]) -> list[str]:
    """The last value of each line beside its end, none above another."""
    parts, below = [], -math.inf
    for y, text, color in sorted(ends):
        below = max(y, below + 15)
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{below + 4.5:.1f}" fill="{color}">{text}</text>')
    return parts


def _legend(entries: list[tuple[str, str, str]], left: float, bottom: float, is_falling: bool) -> list[str]:
    """What each line is, in the corner that lines leave free."""
    parts = []
    top = bottom - 18 * len(entries) if is_falling else _TOP + 16
    for number, (label, color, dashes) in enumerate(entries):
        y = top + 18 * number
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<path d="M{left + 12} {y - 4.5}h28" stroke="{color}" stroke-width="2"{dashed}/>')
        parts.append(f'<text x="{left + 48}" y="{y}">{escape(label)}</text>')
    return parts


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("rows", nargs="*", metavar="ROW", help=f"what is measured (default: all of {', '.join(ROWS)})")
    add("--rounds", type=int, default=3, metavar="N", help="how often everything is measured (default: 3)")
    add("--part", type=int, default=1, metavar="N", help="measure an N-th of the base sizes, for a trial")
    add("--json", type=Path, metavar="FILE", help="where the figures are written to")
    add("--plots", type=Path, metavar="FOLDER", help="where the pictures are written to")
    add("--page", type=Path, metavar="FILE", help="the page of Markdown that gets the table")
    add("--from", type=Path, metavar="FILE", dest="known", help="measure nothing: take these figures")
    options = parser.parse_args(words)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    if options.known is not None:
        result = json.loads(options.known.read_text("utf-8"))
    else:
        rows = [ROWS[name]._replace(base=max(1, ROWS[name].base // options.part)) for name in options.rows or ROWS]
        with tempfile.TemporaryDirectory(prefix="cost-of-growth-") as folder:
            least = measure(rows, options.rounds, Path(folder).resolve())
        told = [figures(row, least[row.name]) for row in rows]
        result = {"machine": machine(), "rounds": options.rounds, "rows": told}
    print(table(result), end="")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
        for name, text in plots(result).items():
            (options.plots / name).write_text(text, "utf-8")
    if options.page is not None:
        options.page.write_text(page(options.page.read_text("utf-8"), result), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

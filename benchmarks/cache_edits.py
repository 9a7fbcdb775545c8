"""Whether the caches are sound: random edits of a project, and after each the same output with the cache as without.

    python benchmarks/cache_edits.py TREE... --edits 440 --live 60 --seed 1

For source, forty files of the trees are copied as one project, with settings; an edit changes, swaps, renames, removes or adds a file,
puts an earlier state back, suppresses a line, changes the settings, or keeps size and time of what it changes. For live targets, a small
model is edited that stands in several files, with inputs, a checkpoint, settings and names that another file can shadow. After each
edit `modellint check` runs three times, each time in a process of its own: with the cache, without, and with the cache again. Ends
with 1 where output or exit status differ.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path

FILES = 40
LONGEST = 40_000
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
UNDONE = (
    ("nn.ModuleList(", "list("),
    (".contiguous()", ""),
    ("self.register_buffer(", "setattr(self, "),
    ("super().__init__()", "pass"),
    ("nn.ReLU(", "nn.PReLU(8, "),
    ("nn.Linear(", "nn.AdaptiveMaxPool3d("),
    ("torch.cat(", "torch.trapezoid("),
    ("return x\n", "return x if x.sum() > 0 else -x\n"),
    (" nn.", " torch.nn."),
)
SETTINGS = (
    "",
    'ignore = ["REG001"]\n',
    'select = ["REG", "MUT", "OPS"]\n',
    'precision = "fp32"\n',
    'frontend = "export"\n',
    'coreml-version = "8.3"\n',
    'deployment-target = "iOS18"\n',
)
KEEP_TIME = "size and time kept"

Edit = Callable[[Path, random.Random], str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--edits", type=int, default=440, metavar="N", help="of source (default: 440)")
    parser.add_argument("--live", type=int, default=60, metavar="N", help="of a live target (default: 60)")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        copy(arguments.trees, source, draw)
        wrong += tried("source", source, ["."], ["--cache-dir", "../kept"], SOURCE, arguments.edits, draw)
        live = Path(folder, "live")
        planted(live, draw)
        target = ["net.py:Net", "--input", "@batch.pt", "--checkpoint", "weights.pt"]
        wrong += tried("live", live, target, ["--cache-dir", "../known", "--cache-live"], LIVE, arguments.live, draw)
    return int(wrong > 0)


def tried(
    name: str,
    project: Path,
    target: Sequence[str],
    cached: Sequence[str],
    edits: Sequence[Edit],
    count: int,
    draw: random.Random,
) -> int:
    """Edit and compare; how many edits gave another output."""
    os.chdir(project)
    command = ["check", *target, "--output-format", "json"]
    kinds: Counter[str] = Counter()
    wrong = changed = 0
    last = ran([*command, *cached])
    for at in range(count):
        kind = draw.choice(edits)(project, draw)
        kinds[kind] += 1
        first, plain, again = ran([*command, *cached]), ran([*command, "--no-cache"]), ran([*command, *cached])
        changed += plain != last
        last = plain
        if not first == plain == again:
            wrong += 1
            print(f"{name}, edit {at}, {kind}: {first[0]}, {plain[0]}, {again[0]}, {difference(first[1], plain[1])}")
        if sys.stderr.isatty():
            print(f"\r{name}: {at + 1} of {count}", end="", file=sys.stderr)
    print(f"{name}: {count} edits, {changed} changed the output, {wrong} gave another with the cache")
    print("  " + ", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    return wrong


def difference(left: str, right: str) -> str:
    """The first lines that differ."""
    pairs = zip(left.splitlines(), right.splitlines(), strict=False)
    return next((f"{a!r} and {b!r}" for a, b in pairs if a != b), "one is longer")


def ran(command: Sequence[str]) -> tuple[int, str]:
    """Exit status and standard output of a command, run in a process of its own that has the command line imported."""
    here, there = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_run, args=(command, there))
    process.start()
    there.close()
    answer: tuple[int, str] = here.recv()
    process.join()
    return answer


def _run(command: Sequence[str], there: object) -> None:
    from multiprocessing.connection import Connection

    from click.testing import CliRunner

    from modellint.cli import cli

    assert isinstance(there, Connection)
    done = CliRunner().invoke(cli, list(command))
    there.send((done.exit_code, done.stdout))


# A project of source.


def copy(trees: Sequence[Path], project: Path, draw: random.Random) -> None:
    """Forty drawn files that have something to do with modules, and settings."""
    every = [path for tree in trees for path in sorted(tree.rglob("*.py")) if path.stat().st_size < LONGEST]
    draw.shuffle(every)
    (project / "net").mkdir(parents=True)
    taken = 0
    for path in every:
        text = path.read_bytes()
        if b"nn.Module" in text or b"import torch" in text:
            place = project / "net" / path.name
            taken += not place.exists()
            place.write_bytes(text)
        if taken == FILES:
            break
    (project / "net" / "__init__.py").touch()
    (project / "modellint.toml").touch()


def _files(project: Path) -> list[Path]:
    return sorted(path for path in project.rglob("*.py") if path.stat().st_size)


def _lines(project: Path, draw: random.Random) -> tuple[Path, list[str]]:
    path = draw.choice(_files(project))
    return path, path.read_text("utf-8", "surrogateescape").splitlines(keepends=True)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(lines) or "\n", "utf-8", "surrogateescape")


def drop_line(project: Path, draw: random.Random) -> str:
    """Remove a line, whatever becomes of the file."""
    path, lines = _lines(project, draw)
    del lines[draw.randrange(len(lines))]
    _write(path, lines)
    return "line removed"


def double_line(project: Path, draw: random.Random) -> str:
    """Write a line twice."""
    path, lines = _lines(project, draw)
    at = draw.randrange(len(lines))
    lines.insert(at, lines[at])
    _write(path, lines)
    return "line doubled"


def number(project: Path, draw: random.Random) -> str:
    """Another number of as many digits, with the file's time as it was."""
    path = draw.choice(_files(project))
    text, times = path.read_text("utf-8", "surrogateescape"), path.stat()
    places = list(NUMBER.finditer(text))
    if places:
        place = draw.choice(places)
        digits = "".join(str(draw.randrange(10)) for _ in place[0])
        path.write_text(text[: place.start()] + digits + text[place.end() :], "utf-8", "surrogateescape")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return KEEP_TIME


def undo(project: Path, draw: random.Random) -> str:
    """Undo what is right: a finding is to come."""
    before, after = draw.choice(UNDONE)
    holding = [path for path in _files(project) if before in path.read_text("utf-8", "surrogateescape")]
    if holding:
        path = draw.choice(holding)
        path.write_text(
            path.read_text("utf-8", "surrogateescape").replace(before, after, 1), "utf-8", "surrogateescape"
        )
    return "undone"


def swap(project: Path, draw: random.Random) -> str:
    """Exchange what two files hold."""
    files = _files(project)
    if len(files) > 1:
        one, other = draw.sample(files, 2)
        left, right = one.read_bytes(), other.read_bytes()
        one.write_bytes(right)
        other.write_bytes(left)
    return "two exchanged"


def rename(project: Path, draw: random.Random) -> str:
    """Give a file another name: what imports it finds nothing, or the other file."""
    path = draw.choice(_files(project))
    path.rename(path.with_name(f"moved_{draw.randrange(100)}.py"))
    return "renamed"


def remove(project: Path, draw: random.Random) -> str:
    """Remove a file, and keep it beside the project."""
    path = draw.choice(_files(project))
    away = project.parent / "removed"
    away.mkdir(exist_ok=True)
    path.rename(away / path.name)
    return "removed"


def restore(project: Path, draw: random.Random) -> str:
    """Put a removed file back, or write another one of its kind."""
    away = sorted((project.parent / "removed").glob("*.py"))
    if away:
        path = draw.choice(away)
        path.rename(project / "net" / path.name)
        return "put back"
    path = draw.choice(_files(project))
    (path.parent / f"added_{draw.randrange(100)}.py").write_bytes(path.read_bytes())
    return "added"


def suppress(project: Path, draw: random.Random) -> str:
    """A `noqa` at the end of a line."""
    path, lines = _lines(project, draw)
    at = draw.randrange(len(lines))
    lines[at] = lines[at].rstrip("\n") + "  # noqa\n"
    _write(path, lines)
    return "suppressed"


def settings(project: Path, draw: random.Random) -> str:
    """Other settings."""
    (project / "modellint.toml").write_text(draw.choice(SETTINGS), "utf-8")
    return "settings"


SOURCE: tuple[Edit, ...] = (
    drop_line, double_line, number, undo, undo, undo, undo, undo, swap, rename, remove, restore, restore, suppress, settings,
)  # fmt: skip


# A live target in several files.

NET = """\
import torch
from torch import nn

from parts import Block
try:
    from quick import scale
except ImportError:
    from slow import scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(4, 4)
        self.rest = {rest}([Block(4, 4), Block(4, 4)])

    def forward(self, x):
        x = self.first(x)
        for block in self.rest:
            x = block(x)
        return scale(x) {end}
"""
PARTS = """\
from torch import nn


class Block(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(nn.Linear(a, b), {layer})
"""
SHAPES = (("weight", (4, 4)), ("bias", (4,)))
LAYERS = ("nn.ReLU()", "nn.PReLU(4)", "nn.Dropout(0.5)", "nn.Identity()", "nn.Hardshrink()", "nn.GELU()")
ENDS = ("", "+ 1.0", "* x.max().item()", "+ torch.ones(4).cumsum(0)", "if x.sum() > 0 else x")
SCALES = ("return x * 2", "return x / 3", "return x.fmod(2)", "return x.double().float()")


def planted(project: Path, draw: random.Random) -> None:
    """The files of the model, its inputs and its checkpoint."""
    project.mkdir()
    (project / "modellint.toml").touch()
    for edit in (net, parts, slow, batch, weights):
        edit(project, draw)


def net(project: Path, draw: random.Random) -> str:
    """Another module."""
    text = NET.format(rest=draw.choice(("nn.ModuleList", "list", "nn.Sequential")), end=draw.choice(ENDS))
    (project / "net.py").write_text(
        text.replace("nn.Sequential([Block(4, 4), Block(4, 4)])", "nn.Sequential(Block(4, 4))")
    )
    return "the model's file"


def parts(project: Path, draw: random.Random) -> str:
    """Another module that it imports."""
    (project / "parts.py").write_text(PARTS.format(layer=draw.choice(LAYERS)))
    return "a file that it imports"


def slow(project: Path, draw: random.Random) -> str:
    """Another function that it imports if nothing else is there."""
    (project / "slow.py").write_text(f"def scale(x):\n    {draw.choice(SCALES)}\n")
    return "a file that it may import"


def quick(project: Path, draw: random.Random) -> str:
    """The file that comes first, if it is there: a module, or a package."""
    place, folder = project / "quick.py", project / "quick"
    if place.exists():
        place.unlink()
    elif folder.exists():
        # Python may have left its compiled files there.
        shutil.rmtree(folder)
    else:
        if draw.random() < 0.5:
            folder.mkdir()
            place = folder / "__init__.py"
        place.write_text(f"def scale(x):\n    {draw.choice(SCALES)}\n")
    return "a file that comes first"


def batch(project: Path, draw: random.Random) -> str:
    """Other inputs."""
    import torch

    torch.save(torch.randn(draw.choice((1, 2, 3)), 4), project / "batch.pt")
    return "inputs"


def weights(project: Path, draw: random.Random) -> str:
    """Another checkpoint: of the module with three layers, or one that does not fit."""
    import torch

    layers = ("first.0", "rest.0.0", "rest.1.0")[: draw.choice((1, 2, 3, 3, 3))]
    size = draw.choice((1.0, 1.0, 1e9))
    made = {f"{layer}.{name}": size * torch.randn(shape) for layer in layers for name, shape in SHAPES}
    torch.save(made, project / "weights.pt")
    return "checkpoint"


def same_size(project: Path, draw: random.Random) -> str:
    """Another number of as many digits in the inner file, with its time as it was."""
    path = project / "slow.py"
    text, times = path.read_text(), path.stat()
    path.write_text(re.sub(r"\d", lambda _: str(draw.randrange(1, 10)), text))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return KEEP_TIME


def nothing(project: Path, draw: random.Random) -> str:
    """The same bytes, written again."""
    path = project / "net.py"
    path.write_bytes(path.read_bytes())
    return "nothing"


LIVE: tuple[Edit, ...] = (net, parts, slow, quick, quick, batch, weights, same_size, settings, nothing)


if __name__ == "__main__":
    sys.exit(main())

"""Broken and odd files through the source check: no crash, no rule that fails, no hang.

    python benchmarks/fuzz.py TREE... [--texts N] [--grammar N] [--seconds S] [--seed N] [--jobs N] [--keep DIR]

Files of the trees are drawn at random and changed in one to six places: tokens, lines, blocks and bytes are taken out, doubled,
exchanged or moved, names and numbers replaced, indentation shifted, brackets left open, pieces of other files put in. ``--grammar``
texts are written by hypothesmith from Python's grammar, where that is installed, and given as they are and as the body of a
``forward``. Each text is given to ``modellint.check_source`` in
a worker process. Said of a text is what went wrong: an exception other than what the interface names, LNT004 (a rule
that raised), or more than ``--seconds``. Such texts are kept in ``--keep``. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import random
import signal
import sys
import textwrap
import time
import tokenize
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

BATCH = 50
"""Texts of one run of hypothesmith."""
HEAD = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
LONGEST = 20_000
"""Characters of a file that is changed."""
NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "64",
    "400",
    "10**7",
    "-10**7",
    "1e999",
    "0.0",
    "None",
    "True",
    "...",
    "()",
    "[]",
    "''",
    "1j",
    "-0",
)
WORDS = (
    "self", "x", "super", "lambda", "yield", "await", "del", "global x", "nonlocal x", "*", "**", "@", ":=", "->", "is not",
    "torch", "nn.Module", "super().__init__()", "torch.zeros(3)", "x.view(-1)", "x[0].add_(1)", "self.a = []", "return", "async",
    "match x:", "case _:", "try:", "else:", "f'{x!r:>{y}}'", "b'\\xff'", "\\\n", "\f", "\t", "\r", "\x00", "\ufeff", "é", "ª", "𝔘",
)  # fmt: skip


class TooLong(BaseException):
    """A text took longer than it may."""


Change = Callable[[str, str, random.Random], str]


def _place(text: str, draw: random.Random) -> int:
    return draw.randrange(len(text) + 1)


def _tokens(text: str) -> list[tuple[int, int]]:
    """Where the tokens of a text begin and end."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            first, last = (starts[row - 1] + column for row, column in (token.start, token.end))
            if first < last <= len(text):
                found.append((first, last))
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass
    return found or [(0, len(text))]


def drop_tokens(text: str, other: str, draw: random.Random) -> str:
    tokens = _tokens(text)
    at = draw.randrange(len(tokens))
    first, last = tokens[at][0], tokens[min(len(tokens) - 1, at + draw.choice((0, 0, 0, 1, 5)))][1]
    return text[:first] + text[last:]


def double_token(text: str, other: str, draw: random.Random) -> str:
    first, last = draw.choice(_tokens(text))
    return text[:last] + draw.choice(("", " ")) + text[first:last] * draw.choice((1, 1, 2, 20)) + text[last:]


def exchange_tokens(text: str, other: str, draw: random.Random) -> str:
    tokens = _tokens(text)
    (a, b), (c, d) = sorted((draw.choice(tokens), draw.choice(tokens)))
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:] if b <= c else text


def replace_token(text: str, other: str, draw: random.Random) -> str:
    tokens = _tokens(text)
    first, last = draw.choice(tokens)
    a, b = draw.choice(tokens)
    return text[:first] + draw.choice((draw.choice(NUMBERS), draw.choice(WORDS), text[a:b])) + text[last:]


def replace_numbers(text: str, other: str, draw: random.Random) -> str:
    number = draw.choice(NUMBERS)
    places = [(a, b) for a, b in _tokens(text) if text[a].isdigit()]
    for first, last in reversed(draw.sample(places, min(len(places), 3))):
        text = text[:first] + number + text[last:]
    return text


def replace_name(text: str, other: str, draw: random.Random) -> str:
    """One name in the place of another everywhere: things get to be called as others are."""
    names = sorted({text[a:b] for a, b in _tokens(text) if text[a:b].isidentifier()})
    if len(names) < 2:
        return text
    one, another = draw.sample(names, 2)
    for first, last in reversed(_tokens(text)):
        if text[first:last] == one:
            text = text[:first] + another + text[last:]
    return text


def drop_lines(text: str, other: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = draw.randrange(len(lines) + 1)
    del lines[at : at + draw.choice((1, 1, 2, 10))]
    return "".join(lines)


def double_lines(text: str, other: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at, many = draw.randrange(len(lines) + 1), draw.choice((1, 2, 10))
    lines[at:at] = lines[at : at + many] * draw.choice((1, 1, 5))
    return "".join(lines)


def move_lines(text: str, other: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at, many = draw.randrange(len(lines) + 1), draw.choice((1, 1, 3, 10))
    moved = lines[at : at + many]
    del lines[at : at + many]
    to = draw.randrange(len(lines) + 1)
    lines[to:to] = moved
    return "".join(lines)


def borrow_lines(text: str, other: str, draw: random.Random) -> str:
    lines, others = text.splitlines(keepends=True), other.splitlines(keepends=True)
    at, source = draw.randrange(len(lines) + 1), draw.randrange(len(others) + 1)
    lines[at:at] = others[source : source + draw.choice((1, 3, 10, 40))]
    return "".join(lines)


def shift_lines(text: str, other: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at, many, by = draw.randrange(len(lines) + 1), draw.choice((1, 3, 20)), draw.choice((-4, 4, 4, 1, -1))
    for index in range(at, min(len(lines), at + many)):
        lines[index] = " " * by + lines[index] if by > 0 else lines[index].removeprefix(" " * -by)
    return "".join(lines)


def change_characters(text: str, other: str, draw: random.Random) -> str:
    for _ in range(draw.choice((1, 1, 3))):
        at = _place(text, draw)
        text = (
            text[:at]
            + draw.choice(("", chr(draw.randrange(1, 128)), chr(draw.randrange(128, 0x3000))))
            + text[at + 1 :]
        )
    return text


def flip_bytes(text: str, other: str, draw: random.Random) -> str:
    data = bytearray(text.encode())
    for _ in range(draw.choice((1, 3))):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return data.decode(errors="replace")


def insert_word(text: str, other: str, draw: random.Random) -> str:
    at = draw.choice(_tokens(text))[1]
    return (
        text[:at]
        + draw.choice(("", " ", "\n"))
        + draw.choice(WORDS + NUMBERS)
        + draw.choice(("", " ", "\n"))
        + text[at:]
    )


def cut(text: str, other: str, draw: random.Random) -> str:
    at = _place(text, draw)
    return draw.choice((text[:at], text[at:], text[:at] + other[_place(other, draw) :]))


def nest(text: str, other: str, draw: random.Random) -> str:
    opened, closed = draw.choice(
        (("(", ")"), ("[", "]"), ("{", "}"), ("-", ""), ("not ", ""), ("lambda: ", ""), ("[*", "]"))
    )
    first, last = draw.choice(_tokens(text))
    many = draw.choice((1, 3, 60))
    return text[:first] + opened * many + text[first:last] + closed * many + text[last:]


CHANGES: tuple[Change, ...] = (
    drop_tokens,
    double_token,
    exchange_tokens,
    replace_token,
    replace_token,
    replace_numbers,
    replace_name,
    drop_lines,
    double_lines,
    move_lines,
    borrow_lines,
    shift_lines,
    change_characters,
    flip_bytes,
    insert_word,
    cut,
    nest,
)


def changed(paths: list[Path], seed: int, number: int) -> str:
    """The text with a number: a file of the trees, changed."""
    draw = random.Random(seed * 1_000_003 + number)
    text, other = (path.read_text(encoding="utf-8", errors="replace") for path in draw.choices(paths, k=2))
    # Most of what keeps a file parsable keeps it read.
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 6))):
        if text:
            text = draw.choice(CHANGES)(text, other, draw)
    return text


def grammar_texts(count: int, seed: int) -> list[str]:
    """Different texts that hypothesmith writes from the grammar, in short runs: its time for a text grows with those before."""
    import hypothesmith
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    warnings.simplefilter("ignore")
    found: dict[str, None] = {}
    fixed = settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        # The second draws longer texts from those of the first.
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    for batch in range(count):
        if len(found) >= count:
            break
        seeded(seed * 1_000_003 + batch)(
            fixed(given(hypothesmith.from_grammar())(lambda text: found.setdefault(text)))
        )()
    return list(found)[:count]


def in_forward(text: str) -> str:
    """A module class whose ``forward`` is that text."""
    return HEAD + textwrap.indent(text, "        ") + "\n        return x\n"


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


def judge(text: str, seconds: float) -> tuple[str, float, bool]:
    """What went wrong with a text, how long it took, and whether it could be parsed."""
    import modellint

    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 20 * seconds)
    start = time.process_time()
    wrong, parsed = "", True
    try:
        found = modellint.check_source(text).diagnostics
        failed = [f"{one.code}: {one.message}" for one in found if one.code in ("LNT004", "LNT005")]
        parsed = not any(one.code == "LNT002" for one in found)
        wrong = failed[0] if failed else ""
    except TooLong:
        wrong = "hangs"
    except BaseException as error:
        places = traceback.extract_tb(error.__traceback__)
        wrong = f"{type(error).__name__}: {str(error)[:100]} ({places[-1].filename}:{places[-1].lineno})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - start
    return wrong or (f"slow: {took:.1f} s" if took > seconds else ""), took, parsed


def _job(given: tuple[str, list[Path], int, int, float]) -> tuple[str, str, float, bool]:
    text, paths, seed, number, seconds = given
    text = text if number < 0 else changed(paths, seed, number)
    return (text, *judge(text, seconds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("trees", metavar="TREE", nargs="+", help="a folder of Python files")
    add("--texts", type=int, default=29_000, metavar="N", help="changed files (default: 29000)")
    add("--grammar", type=int, default=0, metavar="N", help="texts by hypothesmith (default: none)")
    add("--seconds", type=float, default=5.0, metavar="S", help="CPU time that a text may take (default: 5)")
    add("--seed", type=int, default=0, help="of the draws (default: 0)")
    add("--jobs", type=int, default=1, metavar="N", help="worker processes (default: 1)")
    add("--keep", type=Path, metavar="DIR", help="where to put the texts with which something went wrong")
    arguments = parser.parse_args()
    paths = sorted(path for tree in arguments.trees for path in Path(tree).rglob("*.py"))
    paths = [path for path in paths if 200 < path.stat().st_size <= LONGEST]
    if not paths:
        sys.exit("no Python file of a fitting size in the trees")
    grammar = grammar_texts(arguments.grammar, arguments.seed) if arguments.grammar else []
    jobs = [("", paths, arguments.seed, number, arguments.seconds) for number in range(arguments.texts)]
    jobs += [(text, paths, arguments.seed, -1, arguments.seconds) for one in grammar for text in (one, in_forward(one))]
    said: Counter[str] = Counter()
    parsed, longest = 0, 0.0
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, maxtasksperchild=2000) as pool:
        for wrong, text, took in _results(pool.imap_unordered(_job, jobs, chunksize=20), len(jobs)):
            parsed += wrong != "unparsable"
            longest = max(longest, took)
            if wrong and wrong != "unparsable":
                said[wrong] += 1
                if said[wrong] == 1:
                    print(wrong, flush=True)
                if arguments.keep is not None:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    (arguments.keep / f"{sum(said.values()):05}.py").write_text(
                        text, encoding="utf-8", errors="replace"
                    )
    print(
        f"{arguments.texts} changed files and {len(grammar)} texts by grammar, twice each; {parsed} read, the longest in {longest:.1f} s"
    )
    for wrong, count in said.most_common():
        print(f"{count:6} {wrong}")
    return 1 if said else 0


def _results(rows: Iterator[tuple[str, str, float, bool]], total: int) -> Iterator[tuple[str, str, float]]:
    for count, (text, wrong, took, parsed) in enumerate(rows, 1):
        if count % 1000 == 0:
            print(f"{count} of {total}", file=sys.stderr, flush=True)
        yield wrong or ("" if parsed else "unparsable"), text, took


if __name__ == "__main__":
    sys.exit(main())

"""Drop `.contiguous()` before a `.view(...)` and count what SHP002 finds again, over all sites and those where the view raises.

    python benchmarks/contiguous.py TREE... [--build-python PYTHON] [--ran FILE] [--misses FILE]

With ``--build-python`` the trees' classes are built with guessed arguments and called with guessed inputs by that
interpreter, which needs torch and what the trees import; at each call of `contiguous` the view that follows is tried on the
tensor as it was before. What was seen is kept in ``--ran`` and taken from there the next time.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORKERS = 2
SECONDS_PER_CLASS = 12
CLASSES_PER_FILE = 5

Place = tuple[str, int, int]
"""A call of `contiguous`: path, and the row and column where it ends, as Python counts them for its frames."""


@dataclass(slots=True)
class Site:
    """One `contiguous` whose result is viewed, with the rows of the views."""

    path: str
    end_row: int
    end_column: int
    row: int
    view_rows: list[int]
    class_name: str | None
    removed: tuple[int, int] = (0, 0)
    found: bool = False
    excluded: bool = False

    @property
    def place(self) -> Place:
        return self.path, self.end_row, self.end_column


@dataclass(slots=True)
class Ran:
    """What execution showed of the sites."""

    executed: set[Place] = field(default_factory=set)
    raised: set[Place] = field(default_factory=set)
    failed: Counter[str] = field(default_factory=Counter)


# -- sites -----------------------------------------------------------------------------------------------


def sites_of(path: Path, text: str) -> Iterator[Site]:
    """Every `X.contiguous().view(...)`, and `x = X.contiguous()` with `x.view(...)` behind it in the same block."""
    tree = ast.parse(text)
    starts = _line_starts(text)
    for owner, block in _blocks(tree, None):
        for index, statement in enumerate(block):
            for node in _own_expressions(statement):
                inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
                if _is_view(node) and isinstance(inner, ast.Call) and _is_contiguous(inner):
                    yield _site(path, text, starts, inner, [node], owner)
            if isinstance(statement, ast.Assign) and _is_contiguous(statement.value):
                views = list(_views_behind(statement, block[index + 1 :]))
                if views:
                    yield _site(path, text, starts, statement.value, views, owner)


def _blocks(node: ast.AST, owner: str | None) -> Iterator[tuple[str | None, list[ast.stmt]]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield owner, block
            for statement in block:
                inner = owner
                if isinstance(statement, ast.ClassDef):
                    inner = f"{owner}.{statement.name}" if owner else statement.name
                yield from _blocks(statement, inner)
    for handler in getattr(node, "handlers", ()):
        yield from _blocks(handler, owner)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement that are in no statement inside of it."""
    pending: list[ast.AST] = [part for part in ast.iter_child_nodes(statement) if not isinstance(part, ast.stmt)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt))


def _is_contiguous(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "contiguous"
        and not node.args
        and not node.keywords
    )


def _is_view(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view"):
        return False
    return not any(
        isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "torch"
        for part in node.args
    )


def _views_behind(statement: ast.Assign, rest: Iterable[ast.stmt]) -> Iterator[ast.Call]:
    (target, *others) = statement.targets
    if others or not isinstance(target, ast.Name):
        return
    for following in rest:
        for node in ast.walk(following):
            if isinstance(node, ast.Call) and _is_view(node) and isinstance(node.func, ast.Attribute):
                receiver = node.func.value
                if isinstance(receiver, ast.Name) and receiver.id == target.id:
                    yield node
        stored = (
            node for node in ast.walk(following) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        if any(node.id == target.id for node in stored):
            return


def _site(path: Path, text: str, starts: list[int], call: ast.expr, views: list[Any], owner: str | None) -> Site:
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    dot = _offset(text, starts, call.func.value.end_lineno or 0, call.func.value.end_col_offset or 0)
    while text[dot] != ".":
        dot += 1
    end_row, end_column = call.end_lineno or 0, call.end_col_offset or 0
    end = _offset(text, starts, end_row, end_column)
    rows = [view.func.end_lineno for view in views]
    return Site(str(path), end_row, end_column, call.func.end_lineno or 0, rows, owner, (dot, end))


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _offset(text: str, starts: list[int], row: int, column: int) -> int:
    line = text[starts[row - 1] : starts[row]]
    return starts[row - 1] + len(line.encode()[:column].decode())


def without(site: Site, text: str) -> str:
    """The text with the site's `.contiguous()` dropped."""
    start, end = site.removed
    return text[:start] + text[end:]


# -- what the linter finds -------------------------------------------------------------------------------


def judge(root: Path, paths: list[Path]) -> list[Site]:
    """The sites of some files, each looked for in the text without it."""
    from modellint.rule_index import load_rules
    from modellint.source.check import check_source
    from modellint.source.project.index import Project
    from modellint.source.syntax.source_text import SourceText, Undecodable

    rules = {"SHP002": load_rules()["SHP002"]}
    project = Project(root)

    def rows(text: str, path: Path) -> set[int]:
        checked = check_source(SourceText(text), path, str(path), None, project, rules)
        spans = [one.span for one in checked.diagnostics if one.code == "SHP002" and one.span is not None]
        return {row for span in spans for row in range(span.row, span.end_row + 1)}

    judged: list[Site] = []
    for path in paths:
        try:
            text = SourceText.decode(path.read_bytes()).text
            sites = list(sites_of(path, text))
        except (Undecodable, SyntaxError, RecursionError):
            continue
        before = rows(text, path) if sites else set()
        for site in sites:
            dropped = without(site, text)
            with contextlib.suppress(SyntaxError):
                ast.parse(dropped)
                shift = text.count("\n") - dropped.count("\n")
                site.excluded = any(row in before for row in site.view_rows)
                after = rows(dropped, path)
                site.found = any(row - shift * (row >= site.row) in after for row in site.view_rows)
                judged.append(site)
    return judged


# -- what execution shows --------------------------------------------------------------------------------


def execute(python: str | None, roots: list[Path], sites: list[Site], kept: Path | None) -> Ran:
    """Build what is in the files of the sites, run it, and note where a view raises without its `contiguous`."""
    known: dict[str, dict[str, Any]] = {}
    if kept is not None and kept.exists():
        known = {record["path"]: record for record in map(json.loads, kept.read_text("utf-8").splitlines())}
    places = [list(site.place) for site in sites]
    files: dict[str, list[str]] = defaultdict(list)
    for site in sites:
        files[site.path].append(site.class_name or "")
    jobs = [
        {
            "roots": [str(root) for root in roots],
            "path": path,
            "module": _module(path, roots),
            "classes": sorted({*names}),
        }
        for path, names in files.items()
    ]
    jobs = [job for job in jobs if job["path"] not in known] if python else []
    with ThreadPoolExecutor(WORKERS) as pool, (kept or Path(os.devnull)).open("a", encoding="utf-8") as stream:
        for record in pool.map(lambda job: _ask(str(python), {**job, "places": places}), jobs):
            known[record["path"]] = record
            print(json.dumps(record), file=stream, flush=True)
    ran = Ran()
    for record in known.values():
        ran.executed.update((path, row, column) for path, row, column in record["executed"])
        ran.raised.update((path, row, column) for path, row, column in record["raised"])
        ran.failed.update(record["failed"])
    return ran


def _module(path: str, roots: list[Path]) -> str:
    root = next(root for root in roots if Path(path).is_relative_to(root))
    parts = list(Path(path).relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _ask(python: str, job: dict[str, Any]) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [python, "-W", "ignore", __file__, "--run-job"]
    found: dict[str, Any] = {"path": job["path"], "executed": [], "raised": [], "failed": []}
    try:
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=300, env=environment
        )
    except subprocess.TimeoutExpired:
        found["failed"].append("time-out")
        return found
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError):
            for key, values in json.loads(line).items():
                found[key].extend(values)
    return found


def run_job() -> None:
    """In the process of one file: import it, and fork for every class."""
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print is none of ours
    sys.path[:0] = job["roots"]
    import torch

    import build

    torch.set_num_threads(1)
    build._declare_torchvision_operators()

    def answer(record: dict[str, Any]) -> None:
        print(json.dumps(record), file=out, flush=True)

    try:
        module = importlib.import_module(job["module"])
    except BaseException as error:
        answer({"failed": [f"import: {type(error).__name__}: {error}"[:120]]})
        return
    wanted = {tuple(place) for place in job["places"]}
    for name in _classes(module, job["classes"]):
        child = os.fork()
        if child == 0:
            answer(_run_class(module, name, wanted))
            os._exit(0)
        os.waitpid(child, 0)


def _classes(module: Any, names: list[str]) -> list[str]:
    """The classes that hold sites; where some are in plain functions, the file's other modules too."""
    import torch

    found = [name for name in names if name]
    if "" in names or any(not _is_torch_module(module, name) for name in found):
        others = [
            value.__qualname__
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
        ]
        found += [name for name in others if name not in found]
    return found[:CLASSES_PER_FILE]


def _is_torch_module(module: Any, name: str) -> bool:
    import torch

    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _run_class(module: Any, name: str, wanted: set[Any]) -> dict[str, Any]:
    import torch

    import guess

    spy = _Spy(wanted)

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS_PER_CLASS)
    failed: list[str] = []
    try:
        model, chosen = guess.build(module, name, None)
        model.eval()
        with spy, torch.no_grad():
            try:
                guess.run(model, chosen, None)
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                _run_by_width(model)
    except BaseException as error:
        failed.append(f"{'built' if spy.entered else 'build'}: {type(error).__name__}: {error}"[:120])
    signal.alarm(0)
    return {"executed": sorted(spy.executed), "raised": sorted(spy.raised), "failed": failed}


def _run_by_width(model: Any) -> None:
    """Call a module with inputs as wide as its first layers, where the guess from its arguments did not fit."""
    import inspect

    import torch

    import guess

    widths = [part.in_features for part in model.modules() if isinstance(part, torch.nn.Linear)]
    widths += [part.in_channels for part in model.modules() if isinstance(part, torch.nn.Conv2d)]
    parameters = inspect.signature(model.forward).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    tuples = {name: (8, 8) for name in names if name.endswith(("dimensions", "size", "resolution", "shape", "hw"))}
    first: Exception | None = None
    for width in dict.fromkeys(widths[:6]):
        for shape in ((2, 8, width), (2, 64, width), (8, 2, width), (2, width, 8, 8), (2, 8, 8, width), (2, width)):
            try:
                model(**{name: guess._tensor_for(name, shape) for name in names} | tuples)
            except Exception as error:
                first = first or error
            else:
                return
    raise first or ValueError("no inputs")


class _Spy:
    """While it is entered, `contiguous` remembers what it was given, and `view` tries itself on that."""

    def __init__(self, wanted: set[Any]) -> None:
        self.wanted = wanted
        self.executed: set[Any] = set()
        self.raised: set[Any] = set()
        self.entered = False

    def __enter__(self) -> None:
        import torch

        self.entered = True
        self.real = torch.Tensor.contiguous, torch.Tensor.view
        contiguous, view = self.real

        def spied_contiguous(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            made = contiguous(tensor, *args, **kwargs)
            frame = sys._getframe(1)
            _, row, _, column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
            place = os.path.realpath(frame.f_code.co_filename), row, column
            if place in self.wanted:
                self.executed.add(place)
                if made is not tensor:
                    made._before_contiguous = (place, tensor)
            return made

        def spied_view(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            made = view(tensor, *args, **kwargs)
            place, before = getattr(tensor, "_before_contiguous", (None, None))
            if place is not None:
                try:
                    view(before, *args, **kwargs)
                except RuntimeError:
                    self.raised.add(place)
            return made

        torch.Tensor.contiguous, torch.Tensor.view = spied_contiguous, spied_view  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        import torch

        torch.Tensor.contiguous, torch.Tensor.view = self.real  # type: ignore[method-assign]


# -- the table -------------------------------------------------------------------------------------------


def main() -> int:
    """Print one line for each tree, and one for all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("trees", metavar="TREE", nargs="+", type=Path)
    parser.add_argument("--build-python", help="an interpreter with torch and what the trees import")
    parser.add_argument("--ran", type=Path, help="keep, and take, what execution showed here")
    parser.add_argument(
        "--misses", type=Path, help="write the sites that were not found here, with what is known of them"
    )
    options = parser.parse_args()
    roots = [tree.resolve() for tree in options.trees]
    judged: dict[Path, list[Site]] = {}
    with ProcessPoolExecutor(WORKERS) as pool:
        for root in roots:
            files = sorted(path for path in root.rglob("*.py") if b".contiguous()" in path.read_bytes())
            parts = [files[at : at + 8] for at in range(0, len(files), 8)]
            sites = [site for part in pool.map(judge, [root] * len(parts), parts) for site in part]
            judged[root] = [site for site in sites if not site.excluded]
    every = [site for sites in judged.values() for site in sites]
    ran = execute(options.build_python, roots, every, options.ran)
    print(
        f"{'tree':32} {'sites':>5} {'found':>5} {'share':>6} {'executed':>8} {'raise':>5} {'found':>5} {'recall':>6}  no raise, found"
    )
    for root, sites in [*((root.name, sites) for root, sites in judged.items()), ("all", every)]:
        found = [site for site in sites if site.found]
        executed = [site for site in sites if site.place in ran.executed]
        raised = [site for site in sites if site.place in ran.raised]
        again = sum(site.found for site in raised)
        quiet = sum(site.found for site in executed if site.place not in ran.raised)
        print(
            f"{root:32} {len(sites):5} {len(found):5} {_share(len(found), len(sites))} {len(executed):8} {len(raised):5}"
            f" {again:5} {_share(again, len(raised))}  {quiet}"
        )
    for why, count in ran.failed.most_common(8):
        print(f"not run: {count:4} {why}", file=sys.stderr)
    if options.misses:
        lines = []
        for sites in judged.values():
            for site in sites:
                state = (
                    "raises" if site.place in ran.raised else "runs" if site.place in ran.executed else "not executed"
                )
                if not site.found or state == "runs":
                    lines.append(
                        f"{'found' if site.found else 'missed'}\t{state}\t{site.path}:{site.row}\t{site.class_name}"
                    )
        options.misses.write_text("\n".join(sorted(lines)) + "\n", "utf-8")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:6.3f}" if whole else f"{'–':>6}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--run-job"]:
        run_job()
    else:
        raise SystemExit(main())

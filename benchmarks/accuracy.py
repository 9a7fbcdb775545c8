"""Un-fix and re-find: undo correct registrations of real source one at a time, and see whether they are found.

    python benchmarks/accuracy.py TREE... [--fix] [--build] [--misses FILE] [--json FILE]

The trees are read, never written. With ``--build``, and only then, their code is executed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import build
import unfix
import unfix_flow
import unfix_numbers
import unfix_state
from classes import FileFacts, Tree, collect_names, parse, read_facts, read_source
from generated import generate
from modellint.source.syntax.source_text import SourceText
from refind import Referee, Result
from unfix import Site, find_sites

KINDS = (*unfix.KINDS, *unfix_state.KINDS, *unfix_flow.KINDS, *unfix_numbers.KINDS)
WANTED_RECALL = 0.95
ENOUGH_SITES = 30
GENERATED_KINDS = ("ParameterList", "ParameterDict")
SITES_PER_TASK = 12


@dataclass(frozen=True, slots=True)
class Options:
    """What the workers need to know."""

    fix: bool
    kinds: tuple[str, ...]


@dataclass(slots=True)
class Found:
    """The sites of one file of one tree."""

    tree: str
    root: Path | None
    facts: FileFacts
    text: str | None
    """The text of a generated file; ``None`` for a file on disk."""
    sites: list[Site]
    excluded: Counter[tuple[str, str]] = field(default_factory=Counter)


def main() -> int:
    arguments = _arguments()
    options = Options(arguments.fix or arguments.build, tuple(arguments.kinds))
    started = time.perf_counter()
    found: list[Found] = []
    for root in arguments.trees:
        found += collect(root.resolve(), options, arguments.jobs)
        _say(f"{root.name}: {sum(len(file.sites) for file in found if file.tree == root.name)} sites")
    if arguments.limit:
        _sample(found, arguments.limit, arguments.seed)
    for kind in GENERATED_KINDS:
        if kind in options.kinds:
            found += _generated(kind, arguments.generated, arguments.seed)
    to_build = _choose_builds(found, arguments.build_limit, arguments.seed) if arguments.build else set()
    results = list(_check(found, options, to_build, arguments.jobs))
    if arguments.build:
        _build(results, found, arguments)
    _report(results, found, arguments)
    _say(f"{time.perf_counter() - started:.0f} s")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("trees", metavar="TREE", nargs="*", type=Path, help="a folder of Python source")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what to undo (default: everything)")
    add(
        "--limit",
        type=int,
        default=300,
        metavar="N",
        help="at most N sites of each kind and tree (0: all)",
    )
    add("--generated", type=int, default=220, metavar="N", help="so many generated classes for each rare kind")
    add("--seed", type=int, default=0, help="of the draws and the generator (default: 0)")
    add("--jobs", type=int, default=4, metavar="N", help="processes (default: 4)")
    add("--fix", action="store_true", help="also fix each site and examine the fixed text")
    add("--build", action="store_true", help="also build the classes, executing the trees' code (implies --fix)")
    add("--build-limit", type=int, default=150, metavar="N", help="at most N sites of each kind and tree are built")
    add(
        "--build-python",
        default=sys.executable,
        metavar="PYTHON",
        help="an interpreter with torch and what the trees import",
    )
    add("--misses", type=Path, metavar="FILE", help="write what was not found, or not fixed well, one line each")
    add("--json", type=Path, metavar="FILE", help="write every result")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- finding sites ---------------------------------------------------------------------------------------

_tree: Tree


def _use_tree(tree: Tree) -> None:
    global _tree
    _tree = tree


def _facts_of(where: tuple[Path, Path]) -> FileFacts | None:
    return read_facts(*where)


def _sites_of(facts: FileFacts) -> tuple[list[Site], Counter[tuple[str, str]]]:
    source = read_source(facts.path)
    tree = parse(source.text) if source else None
    if source is None or tree is None:
        return [], Counter()
    found = find_sites(source, tree, facts, _tree)
    state = unfix_state.find_sites(source, tree, facts, _tree)
    flow = unfix_flow.find_sites(source, tree, facts, _tree)
    numbers = unfix_numbers.find_sites(source, tree, facts, _tree)
    every = (found, state, flow, numbers)
    return [site for one in every for site in one.sites], sum((one.excluded for one in every), Counter())


def collect(root: Path, options: Options, jobs: int) -> list[Found]:
    paths = sorted(path for path in root.rglob("*.py") if path.is_file())
    with ProcessPoolExecutor(jobs) as pool:
        every = pool.map(_facts_of, [(path, root) for path in paths], chunksize=16)
        facts = [file for file in every if file is not None]
    with ProcessPoolExecutor(jobs, initializer=_use_tree, initargs=(Tree(facts),)) as pool:
        return [
            Found(root.name, root, file, None, [site for site in sites if site.kind in options.kinds], excluded)
            for file, (sites, excluded) in zip(facts, pool.map(_sites_of, facts, chunksize=8), strict=True)
            if sites or excluded
        ]


def _generated(kind: str, count: int, seed: int) -> Iterator[Found]:
    for made in generate(kind, count, seed):
        tree = ast.parse(made.text)
        facts = FileFacts(Path(made.name).absolute(), made.name.removesuffix(".py"), False)
        collect_names(tree, facts)
        sites = find_sites(SourceText(made.text), tree, facts, Tree([facts])).sites
        sites = [replace(site, form=made.form) for site in sites if site.kind == kind]
        yield Found("generated", None, facts, made.text, sites)


def _sample(found: list[Found], limit: int, seed: int) -> None:
    """Keep at most ``limit`` sites of each tree and kind."""
    groups: defaultdict[tuple[str, str], list[tuple[Found, Site]]] = defaultdict(list)
    for file in found:
        for site in file.sites:
            groups[file.tree, site.kind].append((file, site))
        file.sites = []
    for key, members in groups.items():
        chance = random.Random(f"{key} {seed}")
        for file, site in chance.sample(members, min(limit, len(members))):
            file.sites.append(site)


def _choose_builds(found: list[Found], limit: int, seed: int) -> set[tuple[Path, int]]:
    groups: defaultdict[tuple[str, str], list[tuple[Path, int]]] = defaultdict(list)
    for file in found:
        for site in file.sites:
            if site.qualname:
                groups[file.tree, site.kind].append((file.facts.path, site.start))
    chosen: set[tuple[Path, int]] = set()
    for key, members in groups.items():
        chosen.update(random.Random(f"build {key} {seed}").sample(members, min(limit, len(members))))
    return chosen


# -- checking --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    tree: str
    root: Path
    path: Path
    text: str | None
    sites: tuple[Site, ...]
    keep: frozenset[int]
    """Starts of the sites whose fixed text is wanted."""
    fix: bool


def _run_task(task: _Task) -> list[Result]:
    source = SourceText(task.text) if task.text is not None else read_source(task.path)
    assert source is not None
    referee = Referee(source, task.path, task.tree, task.root)
    return [referee.result(site, task.fix, site.start in task.keep) for site in task.sites]


def _check(found: list[Found], options: Options, to_build: set[tuple[Path, int]], jobs: int) -> Iterator[Result]:
    tasks = []
    for file in found:
        path = file.facts.path
        for at in range(0, len(file.sites), SITES_PER_TASK):
            sites = tuple(file.sites[at : at + SITES_PER_TASK])
            keep = frozenset(site.start for site in sites if (path, site.start) in to_build)
            tasks.append(_Task(file.tree, file.root or Path.cwd(), path, file.text, sites, keep, options.fix))
    total, done, said = sum(len(task.sites) for task in tasks), 0, time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        for results in pool.map(_run_task, tasks, chunksize=2):
            yield from results
            done += len(results)
            if time.perf_counter() - said > 15:
                said = time.perf_counter()
                _say(f"{done} of {total} sites")


def _build(results: list[Result], found: list[Found], arguments: argparse.Namespace) -> None:
    """Add the outcomes of the executed comparison to the results that have a fixed text."""
    files = {file.facts.path: file for file in found}
    roots = [tree.resolve() for tree in arguments.trees]
    groups: defaultdict[tuple[str, Path], list[Result]] = defaultdict(list)
    for result in results:
        if result.fixed is not None:
            groups[result.tree, Path(result.path)].append(result)
    batches = _batches(groups)
    _say(f"building {sum(len(members) for members in groups.values())} sites of {len(groups)} files")

    def run(batch: list[list[Result]]) -> None:
        jobs: list[build.FileJob] = []
        members: list[Result] = []
        for group in batch:
            file = files[Path(group[0].path)]
            source = _source(file)
            cases = [_case(number, result, source.text) for number, result in enumerate(group, len(members))]
            members += group
            jobs.append(build.FileJob(file.facts.module, str(file.facts.path), cases))
        own = files[Path(batch[0][0].path)].root
        ordered = sorted(roots, key=lambda root: root != own)
        for outcome in build.compare(arguments.build_python, ordered, jobs):
            members[outcome.ident].built = outcome

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, _ in enumerate(pool.map(run, batches), 1):
            if number % 10 == 0:
                _say(f"{number} of {len(batches)} batches built")


def _case(number: int, result: Result, text: str) -> build.Case:
    site = result.site
    buffers = [binding.attribute for binding in site.bindings] if site.kind == unfix_state.BUFFER else []
    return build.Case(number, site.qualname, site.restore(text), site.undo(text), result.fixed or "", buffers)


def _source(file: Found) -> SourceText:
    source = SourceText(file.text) if file.text is not None else read_source(file.facts.path)
    assert source is not None
    return source


def _batches(groups: dict[tuple[str, Path], list[Result]], size: int = 24) -> list[list[list[Result]]]:
    """Files of one tree together, up to about ``size`` sites: they share a process and its imports."""
    batches: list[list[list[Result]]] = []
    room: Counter[str] = Counter()
    for (tree, _), members in sorted(groups.items()):
        if room[tree] <= 0:
            batches.append([])
            room[tree] = size
        batches[-1].append(members)
        room[tree] -= len(members)
        if room[tree] <= 0:
            room[tree] = 0
    return batches


# -- reporting -------------------------------------------------------------------------------------------


def _report(results: list[Result], found: list[Found], arguments: argparse.Namespace) -> None:
    counted = [result for result in results if not result.excluded]
    trees = list(dict.fromkeys(result.tree for result in results))
    rows = []
    for tree in [*(tree for tree in trees if tree != "generated"), "all trees", "generated"]:
        for kind in KINDS:
            members = [
                result
                for result in counted
                if result.site.kind == kind
                and (result.tree == tree or (tree == "all trees" and result.tree != "generated"))
            ]
            if members:
                rows.append(_recall_row(tree, kind, members))
    _table("Recall", ("tree", "kind", "n", "found", "recall"), rows)
    forms: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in counted:
        if result.tree != "generated":
            forms[result.site.kind, result.site.form].append(result)
    _table(
        "Recall by form, all trees",
        ("kind", "form", "n", "found", "recall"),
        [_recall_row(*key, members) for key, members in sorted(forms.items())],
    )
    if rows := [_recall_row(kind, label, members) for kind, label, members in _by_marks(counted)]:
        _table("Recall by property, all trees", ("kind", "sites", "n", "found", "recall"), rows)
    if arguments.fix or arguments.build:
        _report_fixes(counted)
    if arguments.build:
        _report_builds([result for result in counted if result.built is not None])
    _report_excluded(results, found, arguments.kinds)
    _verdict(counted)
    if arguments.misses:
        arguments.misses.write_text("".join(_misses(counted)), encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(
            json.dumps([_json(result) for result in results], indent=1, default=str), encoding="utf-8"
        )


def _recall_row(first: str, second: str, members: list[Result]) -> tuple[object, ...]:
    hits = sum(result.found for result in members)
    return first, second, len(members), hits, f"{hits / len(members):.3f}"


def _by_marks(counted: list[Result]) -> Iterator[tuple[str, str, list[Result]]]:
    """All sites of a kind, those with each property, and those with every one, side by side."""
    for kind, marks in unfix_state.MARKS.items():
        members = [result for result in counted if result.site.kind == kind and result.tree != "generated"]
        for wanted in ((), *((mark,) for mark in marks), marks):
            having = [result for result in members if set(wanted) <= set(result.site.marks)]
            if having:
                yield kind, ", ".join(wanted) or "all", having


def _report_fixes(counted: list[Result]) -> None:
    rows = []
    for kind in KINDS:
        for generated in (False, True):
            members = [r for r in counted if r.site.kind == kind and (r.tree == "generated") is generated]
            fixed = [result for result in members if result.applicability]
            if members:
                rows.append(
                    (
                        kind + (" (generated)" if generated else ""),
                        len(members),
                        sum(result.applicability == "safe" for result in fixed),
                        sum(result.applicability == "unsafe" for result in fixed),
                        sum(result.parses for result in fixed),
                        sum(result.stable for result in fixed),
                        sum(result.outside_identical for result in fixed),
                        sum(result.gone for result in fixed),
                        sum(result.same_structure for result in fixed),
                    )
                )
    head = ("kind", "n", "safe fix", "unsafe fix", "parses", "stable", "rest identical", "finding gone", "as original")
    _table("Fixes", head, rows)


def _report_builds(tried: list[Result]) -> None:
    rows = []
    for kind in KINDS:
        outcomes = [result.built for result in tried if result.site.kind == kind and result.built is not None]
        built = [outcome for outcome in outcomes if outcome.built]
        if outcomes:
            row: list[object] = [kind, len(outcomes), len(built)]
            for name in (
                "keys_equal",
                "keys_equal_but_constants",
                "keys_cover_unfixed",
                "unfixed_lost_keys",
                "outputs_equal",
                "outputs_equal_with_equal_weights",
            ):
                values = [getattr(outcome, name) for outcome in built if getattr(outcome, name) is not None]
                row.append(f"{sum(values)} of {len(values)}")
            rows.append(tuple(row))
    head = ("kind", "tried", "built", "keys as original", "but for constants", "cover un-fixed", "un-fixed lost keys")
    _table("Built classes", (*head, "outputs equal", "with equal weights"), rows)
    why = Counter(result.built.why.partition(":")[0] for result in tried if result.built and not result.built.built)
    _table("Not built", ("why", "n"), why.most_common())


def _report_excluded(results: list[Result], found: list[Found], kinds: list[str]) -> None:
    reasons: Counter[tuple[str, str]] = Counter()
    for file in found:
        reasons += Counter({key: n for key, n in file.excluded.items() if key[0] in kinds})
    for result in results:
        if result.excluded:
            reasons[result.site.kind, result.excluded] += 1
    _table("Left out", ("kind", "why", "n"), [(*key, n) for key, n in sorted(reasons.items())])


def _verdict(counted: list[Result]) -> None:
    real = [result for result in counted if result.tree != "generated"]
    print(f"{len(real)} sites in real source, {len(counted) - len(real)} generated.")
    for where, results in (("real", real), ("generated", [r for r in counted if r.tree == "generated"])):
        for kind in KINDS:
            members = [result for result in results if result.site.kind == kind]
            if not members or (where == "real" and len(members) < ENOUGH_SITES):
                continue
            _answer(f"{where} {kind}", members)
    for kind, label, members in _by_marks(counted):
        if label != "all":
            _answer(f"real {kind} ({label})", members)


def _answer(label: str, members: list[Result]) -> None:
    recall = sum(result.found for result in members) / len(members)
    answer = "yes" if recall >= WANTED_RECALL else "no"
    print(f"{label}, n = {len(members)}: recall {recall:.3f}, at least {WANTED_RECALL} wanted: {answer}")


def _misses(counted: list[Result]) -> Iterator[str]:
    for result in counted:
        place = f"{result.path}:{result.site.row}"
        label = ", ".join([result.site.kind, result.site.form, *result.site.marks])
        if not result.found:
            seen = f" (new: {', '.join(result.new)})" if result.new else ""
            yield f"missed\t{place}\t{label}\t{result.line.strip()}{seen}\n"
        for flag in ("parses", "stable", "outside_identical", "gone"):
            if result.applicability and not getattr(result, flag):
                yield f"fix not {flag}\t{place}\t{label}\t{result.line.strip()}\t{result.problem}\n"
        if result.found and result.tried_fix and not result.applicability:
            yield f"no fix\t{place}\t{label}\t{result.line.strip()}\t{result.problem}\n"
        outcome = result.built
        if outcome is not None and outcome.built:
            wrong = [
                name
                for name in ("keys_equal_but_constants", "keys_cover_unfixed", "outputs_equal_with_equal_weights")
                if getattr(outcome, name) is False
            ]
            if wrong:
                yield f"built: not {', '.join(wrong)}\t{place}\t{label}\t{result.line.strip()}\t{outcome.details}\n"


def _json(result: Result) -> dict[str, object]:
    record = {name: getattr(result, name) for name in Result.__slots__ if name not in ("fixed", "site", "built")}
    return {**record, "site": asdict(result.site), "built": asdict(result.built) if result.built else None}


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    lines = [head, *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    numeric = [all(line[column][:1].isdigit() for line in lines[1:]) for column in range(len(head))]
    print(f"## {title}\n")
    for line in lines:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())
    print()


if __name__ == "__main__":
    sys.exit(main())

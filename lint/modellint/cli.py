"""The command line: parse, call, print, exit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from modellint import __version__
from modellint.settings import FRONTENDS, PRECISIONS, TARGETS

if TYPE_CHECKING:
    from modellint.coreml.verification import Verification
    from modellint.diagnostic import Diagnostic
    from modellint.live.place import Place
    from modellint.live_run import Wanted
    from modellint.rule import Rule
    from modellint.run import Job, Outcome
    from modellint.settings import Resolver
    from modellint.source.text import SourceText

_MAY_BE_LIVE = re.compile(r".+:[^\W\d][\w.]*\Z", re.DOTALL)
_LIVE_ONLY = {
    "inputs": "--input",
    "checkpoint": "--checkpoint",
    "timeout": "--timeout",
    "memory": "--memory",
    "seed": "--seed",
    "frontend": "--frontend",
    "precision": "--precision",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # Source may hold what the terminal's encoding lacks; a file name may hold surrogates.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="modellint")
    except BrokenPipeError:
        # The reader has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="modellint")
def cli() -> None:
    """Check PyTorch model source before it is exported to Core ML."""


def _codes(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    words = tuple(word.strip() for item in value for word in item.split(",") if word.strip())
    return words if value else None


_OPTIONS = (
    click.option("--select", multiple=True, callback=_codes, metavar="CODES", help="Run only these rules."),
    click.option("--ignore", multiple=True, callback=_codes, metavar="CODES", help="Do not run these rules."),
    click.option("--extend-select", multiple=True, callback=_codes, metavar="CODES", help="Run these rules too."),
    click.option("--plugin", multiple=True, metavar="MODULE", help="Take rules from this module or folder too."),
    click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Take the settings from this file."),
    click.option("--isolated", is_flag=True, help="Read no settings file."),
    click.option(
        "--fail-level",
        type=click.Choice(["info", "warning", "error", "never"]),
        help="The least severity that makes the exit status 1 (default: warning).",
    ),
    click.option(
        "--output-format",
        type=click.Choice(["full", "concise", "json", "report"]),
        help="How findings are printed (default: full).",
    ),
    click.option(
        "--deployment-target",
        type=click.Choice(list(TARGETS)),
        metavar="TARGET",
        help="The oldest system that has to run the model: iOS15 to iOS26, macOS12 … (default: iOS15).",
    ),
    click.option(
        "--coreml-version",
        metavar="VERSION",
        help="The version of coremltools that converts (default: the newest known).",
    ),
)


def _with_options(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_INPUT_OPTIONS = (
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="SPEC",
        help="Call the model with this: [NAME=]1x3x224x224[:float32].",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="Seconds for a live target (default: 120).",
    ),
    click.option(
        "--memory", type=click.IntRange(min=1), metavar="MB", help="Memory for a live target (default: what there is)."
    ),
    click.option("--seed", type=int, metavar="N", help="Where random numbers of a live target start (default: 0)."),
)


def _with_inputs(function: Any) -> Any:
    for option in reversed(_INPUT_OPTIONS):
        function = option(function)
    return function


@cli.command()
@click.argument("targets", nargs=-1, metavar="[TARGETS]...")
@_with_options
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply unsafe fixes too.")
@click.option("--diff", "show_diff", is_flag=True, help="Print what fixes would change, and write nothing.")
@click.option("--output-file", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the findings there.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if anything was fixed.")
@_with_inputs
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), metavar="FILE", help="Compare the model with these weights."
)
@click.option(
    "--frontend",
    type=click.Choice(list(FRONTENDS)),
    help="How a live target is captured for Core ML (default: auto: trace, then export).",
)
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    help="What a live target computes in on Core ML (default: fp16).",
)
@click.option("--models", is_flag=True, help="Check the live targets that the settings list.")
@click.option("--stdin-filename", type=click.Path(path_type=Path), metavar="FILE", help="The name of what stdin holds.")
@click.option("--force-exclude", is_flag=True, help="Exclude files that are named on the command line too.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="How many processes to use.")
@click.option("--no-cache", "-n", is_flag=True, help="Neither read nor write the cache.")
@click.option("--cache-dir", type=click.Path(path_type=Path), metavar="FOLDER", help="Where the cache is.")
@click.option("--quiet", "-q", is_flag=True, help="Print findings only, no summary.")
@click.option("--verbose", "-v", is_flag=True, help="Tell on stderr what is read.")
def check(targets: tuple[str, ...], **options: Any) -> None:
    """Check files and folders (default: the current folder); - is standard input.

    FILE:NAME or MODULE:NAME is a live target: an nn.Module class, an instance or a function. It is built and run in a process
    of its own.
    """
    _exit_with(lambda: _check(targets or (".",), options))


def _exit_with(work: Callable[[], int]) -> NoReturn:
    """Exit with the status that a command's work ends in: 2, with one line, for what the user can mend; 130 when interrupted."""
    from modellint.discover import NoSuchTarget
    from modellint.rule import RuleError
    from modellint.run import UsageError
    from modellint.settings import SettingsError

    try:
        status = work()
    except (NoSuchTarget, SettingsError, UsageError, RuleError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(status)


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(2)


def _overrides(options: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for key in (
        "select",
        "ignore",
        "extend-select",
        "fail-level",
        "output-format",
        "deployment-target",
        "coreml-version",
        "frontend",
        "precision",
    ):
        value = options.get(key.replace("-", "_"))
        if value is not None:
            found[key] = (value, f"--{key}")
    if options.get("plugin"):
        found["plugins"] = (tuple(options["plugin"]), "--plugin")
    return found


def _resolve(target: Path, options: Mapping[str, Any]) -> tuple[Path, Resolver, dict[str, Rule]]:
    """The root of the run, its settings, and all rules with the plug-ins of the root's settings."""
    from modellint.run import all_rules, load_plugins
    from modellint.settings import Resolver, SettingsError, check_codes, check_version, find_root

    root = find_root(target.absolute())
    config = options.get("config")
    if config is not None and not config.is_file():
        raise SettingsError(f"{config}: no such settings file")
    overrides = _overrides(options)
    if options.get("coreml_version") is not None:
        check_version(options["coreml_version"], "--coreml-version")
    resolver = Resolver(root, config and config.absolute(), bool(options.get("isolated")), overrides, None)
    rules = all_rules(load_plugins(resolver.top.plugins, Path.cwd() if options.get("plugin") else root))
    for key in ("select", "ignore", "extend-select"):
        if key in overrides:
            check_codes(overrides[key][0], rules, overrides[key][1])
    resolver.use_codes(rules)
    return root, resolver, rules


def _check(targets: Sequence[str], options: Mapping[str, Any]) -> int:
    from modellint.run import Job

    from_stdin = "-" in targets
    if from_stdin and (len(targets) > 1 or options["models"]):
        raise click.UsageError("- (standard input) goes with no other target")
    first = (options["stdin_filename"] or Path("stdin.py")) if from_stdin else Path(_file_of(targets[0]))
    root, resolver, rules = _resolve(first, options)
    cache = None if options["no_cache"] or from_stdin else _cache(root, resolver, options)
    job = Job(root, resolver, rules, cache, Path.cwd())
    files, live = _live_targets(job, targets, options)
    if from_stdin:
        return _check_stdin(job, first.absolute(), options)
    return _check_files(job, files, live, options)


def _may_be_live(target: str) -> bool:
    return _MAY_BE_LIVE.match(target) is not None and not Path(target).exists()


def _file_of(target: str) -> str:
    """The part of a target that may be a path."""
    if not _may_be_live(target):
        return target
    place = target.rpartition(":")[0]
    return place if Path(place).exists() else "."


def _live_targets(job: Job, targets: Sequence[str], options: Mapping[str, Any]) -> tuple[list[Path], list[Wanted]]:
    """The targets as files to check, those of live targets too, and live targets."""
    live: list[Wanted] = []
    files = list(targets)
    if any(map(_may_be_live, targets)):
        from modellint import live_run

        files, named = live_run.split(targets)
        live = [
            live_run.wanted(target, job.root, job.folder, options["inputs"], options["checkpoint"]) for target in named
        ]
    if not live:
        for key, option in _LIVE_ONLY.items():
            if options[key] and not (options["models"] and key not in ("inputs", "checkpoint")):
                raise click.UsageError(f"{option} needs a live target (FILE:NAME)")
    if options["models"]:
        from modellint import live_run

        top = job.resolver.top
        if top.config is None or not top.models:
            raise click.UsageError(f"--models: {top.config or job.root} lists no [[tool.modellint.models]]")
        live += live_run.wanted_by_settings(top.models, job.root, top.config)
    paths = [*map(Path, files), *(one.location.file for one in live if one.location.file is not None)]
    return paths, live


def _cache(root: Path, resolver: Resolver, options: Mapping[str, Any]) -> Any:
    from modellint.cache import FOLDER, Cache, rules_digest

    folder = (options["cache_dir"] or root / FOLDER).absolute()
    if options["cache_dir"] is None and not os.access(root, os.W_OK):
        return None
    extra = [path for name in resolver.top.plugins if (path := root / name).exists()]
    return Cache(folder, rules_digest(extra))


def _check_files(job: Job, targets: list[Path], live: list[Wanted], options: Mapping[str, Any]) -> int:
    from modellint.discover import Exclusion, find_files
    from modellint.run import Checker, Outcome, check_files, processors

    top = job.resolver.top
    files = find_files(targets, Exclusion(top.base, top.exclude), options["force_exclude"])
    # Every settings file is read before the first finding, so that a mistake in one is told at once.
    for folder in dict.fromkeys(path.parent for path in files):
        job.resolver.of_folder(folder)
    for warning in job.resolver.warnings:
        click.echo(f"warning: {warning}", err=True)
    if options["verbose"]:
        click.echo(f"root: {job.root}\nsettings: {top.config or 'defaults'}\nfiles: {len(files)}", err=True)
    outcome = Outcome(files=len(files))
    progress = _Progress(len(files))
    if options["fix"] or (options["unsafe_fixes"] and options["show_diff"]) or options["show_diff"]:
        checker = Checker(job)
        for count, path in enumerate(files, 1):
            checker.fix(path, options["unsafe_fixes"], not options["show_diff"], outcome)
            progress(count)
    else:
        jobs = options["jobs"] or processors()
        outcome.diagnostics = check_files(job, files, jobs, progress)
    progress.close()
    if not files and not live:
        click.echo("warning: no Python files found", err=True)
    # A model's code may change or delete its own file: what it was is what the findings show.
    texts = _Texts(job.folder, None)
    if live and not options["show_diff"]:
        for one in live:
            if one.location.file is not None:
                texts(job.shown(one.location.file))
        _check_live(job, files, live, outcome, options)
    return _finish(job, outcome, options, None, texts=texts)


def _limits(options: Mapping[str, Any]) -> Any:
    from modellint.live.worker import Limits

    memory = options["memory"]
    return Limits(options["timeout"] or Limits().timeout, None if memory is None else memory * 1024**2)


def _check_live(job: Job, files: list[Path], live: list[Wanted], outcome: Outcome, options: Mapping[str, Any]) -> None:
    """Run the live targets, and put what they show together with what source says."""
    from modellint import live_run
    from modellint.merge import settled
    from modellint.run import Checker

    limits = _limits(options)
    base = Path.cwd() if options["plugin"] else job.root
    waiting = _Waiting()
    results = []
    for checked in live_run.check(job, live, limits, options["seed"] or 0, base, waiting):
        waiting.close()
        for note in checked.notes:
            click.echo(f"note: {note}", err=True)
        if options["verbose"]:
            told = f"{checked.result.target}: {checked.seconds:.1f} s; it printed"
            click.echo(f"{told}\n{checked.output}" if checked.output else f"{told} nothing", err=True)
        if checked.result.failed and not job.resolver.top.enables("LNT003"):
            click.echo(
                f"warning: {checked.result.target} was not checked: {checked.result.diagnostics[0].message}", err=True
            )
        results.append(checked.result)
    outcome.targets = [(result.target, result.verdict) for result in results]
    outcome.diagnostics = settled(Checker(job), files, outcome.diagnostics, results)


def _check_stdin(job: Job, path: Path, options: Mapping[str, Any]) -> int:
    from modellint.discover import Exclusion
    from modellint.run import Checker, Outcome
    from modellint.source.text import SourceText, Undecodable

    top = job.resolver.of_folder(path.parent)
    shown = str(options["stdin_filename"] or "-")
    data = sys.stdin.buffer.read()
    outcome = Outcome(files=1)
    rules = job.rules_for(path, top)
    checker = Checker(job)
    if options["force_exclude"] and Exclusion(top.base, top.exclude).covers(str(path)):
        if options["fix"]:
            sys.stdout.buffer.write(data)
            return 0
        return _finish(job, outcome, options, None)
    try:
        source = SourceText.decode(data)
    except Undecodable as error:
        from modellint.own_rules import cannot_parse

        outcome.diagnostics = [cannot_parse(shown, str(error))]
        return _finish(job, outcome, options, None)

    def found(text: SourceText) -> tuple[Diagnostic, ...]:
        checked = checker.check_text(text, path, shown, rules, top)
        return tuple(finding for finding in checked.diagnostics if finding.code in rules)

    if not (options["fix"] or options["show_diff"]):
        outcome.diagnostics = list(found(source))
        return _finish(job, outcome, options, source)
    from modellint.report import diff
    from modellint.source.fix import fix_text

    fixed = fix_text(source, found, options["unsafe_fixes"])
    outcome.diagnostics = list(fixed.remaining)
    outcome.fixed.update(fixed.applied)
    if fixed.problem:
        outcome.problems.extend(fixed.problem.splitlines())
    if options["show_diff"]:
        outcome.diffs.append(diff.render(shown, source.text, fixed.text))
        return _finish(job, outcome, options, source)
    sys.stdout.buffer.write(source.encode(fixed.text))
    sys.stdout.buffer.flush()
    # The fixed text is the result here; what is left to say goes to stderr.
    return _finish(job, outcome, options, SourceText(fixed.text), err=True)


def _finish(
    job: Job,
    outcome: Outcome,
    options: Mapping[str, Any],
    stdin: SourceText | None,
    err: bool = False,
    texts: _Texts | None = None,
) -> int:
    """Print what was found, and say with which status to exit."""
    top = job.resolver.top
    for problem in outcome.problems:
        click.echo(f"warning: {problem}", err=True)
    if options["show_diff"]:
        diffs = [text for text in outcome.diffs if text]
        _write("".join(diffs), options, err)
        if diffs and not options["quiet"]:
            click.echo(f"Would fix {sum(outcome.fixed.values())} findings in {len(diffs)} files.", err=True)
        return 0 if options["exit_zero"] or not diffs else 1
    _write(_rendered(job, outcome, options, texts or _Texts(job.folder, stdin), err), options, err)
    if options["exit_zero"]:
        return 0
    if options["exit_non_zero_on_fix"] and outcome.fixed:
        return 1
    level = {"info": 0, "warning": 1, "error": 2, "never": 3}[top.fail_level]
    return int(any(finding.severity >= level for finding in outcome.diagnostics))


def _rendered(job: Job, outcome: Outcome, options: Mapping[str, Any], texts: _Texts, err: bool) -> str:
    top = job.resolver.top
    found = sorted(outcome.diagnostics, key=lambda finding: finding.sort_key)
    fixed = sum(outcome.fixed.values())
    color = options["output_file"] is None and _colored(sys.stderr if err else sys.stdout)
    if options["statistics"]:
        from modellint.report import statistics

        as_json = top.output_format in ("json", "report")
        return statistics.render(found, color, as_json, unsafe=options["unsafe_fixes"])
    match top.output_format:
        case "json" | "report":
            from modellint.report import as_json as json_format

            if top.output_format == "report":
                from modellint.report import targets

                verdicts = [targets.verdict_of(target, verdict, found) for target, verdict in outcome.targets]
                return json_format.render_report(found, top.docs_url, _absolute, __version__, verdicts)
            return json_format.render(found, top.docs_url, _absolute)
        case "concise":
            from modellint.report import concise

            text = concise.render(found, color, unsafe=options["unsafe_fixes"], fixed=fixed)
        case _:
            if not found:
                # The common case is not worth importing the frames for.
                from modellint.report import summary

                text = summary.render(found, color, options["unsafe_fixes"], fixed)
            else:
                from modellint.report import full

                text = full.render(found, texts, color, unsafe=options["unsafe_fixes"], fixed=fixed)
    return "" if options["quiet"] and not found else text + ("" if options["quiet"] else _verdicts(outcome))


def _verdicts(outcome: Outcome) -> str:
    """Below all findings, a line for each live target."""
    if not outcome.targets:
        return ""
    from modellint.report import targets

    lines = []
    for target, verdict in outcome.targets:
        here = [one for one in outcome.diagnostics if one.target == target]
        lines.append(targets.line_of(verdict, here, target if len(outcome.targets) > 1 else None))
    return "".join(f"{line}\n" for line in lines if line)


class _Texts:
    """The texts of files by the path that findings name."""

    def __init__(self, folder: Path, stdin: SourceText | None) -> None:
        self._folder = folder
        self._stdin = stdin
        self._known: dict[str, SourceText | None] = {}

    def __call__(self, shown: str) -> SourceText | None:
        from modellint.source.text import SourceText, Undecodable

        if self._stdin is not None:
            return self._stdin
        if shown not in self._known:
            try:
                self._known[shown] = SourceText.decode((self._folder / shown).read_bytes())
            except (OSError, Undecodable):
                self._known[shown] = None
        return self._known[shown]


def _absolute(shown: str) -> str:
    return shown if shown == "-" else str(Path(shown).absolute())


def _write(text: str, options: Mapping[str, Any], err: bool) -> None:
    target = options["output_file"]
    if target is not None:
        try:
            target.write_text(text, "utf-8", "backslashreplace")
        except OSError as error:
            raise click.UsageError(f"{target}: cannot be written: {error.strerror}") from None
    elif text:
        click.echo(text, nl=not text.endswith("\n"), err=err, color=True)


def _colored(stream: Any) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


class _Progress:
    """How far a long run has come, on a terminal only."""

    def __init__(self, total: int) -> None:
        self._shown = total > 200 and sys.stderr.isatty()
        self._total = total

    def __call__(self, done: int) -> None:
        if self._shown and (done % 50 == 0 or done == self._total):
            click.echo(f"\rchecking: {done}/{self._total} files", nl=False, err=True)

    def close(self) -> None:
        """Leave the line as it was."""
        if self._shown:
            click.echo("\r\033[K", nl=False, err=True)


class _Waiting:
    """What a worker does that takes long, on a terminal only."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._line = ""

    def __call__(self, target: str, stage: str, seconds: float) -> None:
        if not self._shown or seconds < 2:
            return
        line = f"{stage} {target}: {seconds:.0f} s"
        if line != self._line:
            click.echo(f"\r\033[K{line}", nl=False, err=True)
            self._line = line

    def close(self) -> None:
        """Leave the line as it was."""
        if self._line:
            click.echo("\r\033[K", nl=False, err=True)


@cli.command("shapes")
@click.argument("target")
@_with_inputs
@click.option(
    "--depth", type=click.IntRange(min=0), metavar="N", help="Show modules down to this depth (default: all)."
)
@click.option("--flat/--nested", default=True, help="Every layer with its path (default), or below what is around it.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How the table is printed (default: text).",
)
@click.option("--output-file", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the table there.")
def shapes_command(target: str, **options: Any) -> None:
    """Show what every layer of a live target takes and gives, its parameters and its memory; no tensor is allocated."""
    _exit_with(lambda: _shapes(target, options))


def _shapes(text: str, options: Mapping[str, Any]) -> int:
    from modellint import live_run
    from modellint.live.target import parse
    from modellint.report import shapes as report
    from modellint.run import Job

    target = parse(text)
    if target is None:
        raise click.UsageError(f"{text}: not a live target, such as model.py:Net")
    root, resolver, rules = _resolve(Path(_file_of(text)), options)
    job = Job(root, resolver, rules, None, Path.cwd())
    one = live_run.wanted(target, job.root, job.folder, options["inputs"])
    waiting = _Waiting()
    try:
        answer = live_run.shapes(job, one, _limits(options), options["seed"] or 0, job.root, waiting)
    finally:
        waiting.close()
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    found = answer.diagnostics
    nested = not options["flat"]
    if options["output_format"] == "json":
        from modellint.report import as_json

        entries = as_json.objects(found, resolver.top.docs_url, _absolute)
        shown = report.to_json(answer.table, text, entries, nested=nested, depth=options["depth"]) + "\n"
    else:
        color = options["output_file"] is None and _colored(sys.stdout)
        shown = ""
        if answer.table is not None:
            table, depth = answer.table, options["depth"]
            shown = report.render(table, color, nested=nested, depth=depth, shown=lambda path: job.shown(Path(path)))
        if found:
            from modellint.report import full

            shown += "\n" + full.render(found, _Texts(job.folder, None), color)
    _write(shown, options, False)
    return int(bool(found))


@cli.command("verify")
@click.argument("target")
@_with_inputs
@click.option("--reference", metavar="TARGET", help="Compare a saved .mlpackage with this live target.")
@click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FILE", help="Load these weights first.")
@click.option(
    "--frontend",
    type=click.Choice(list(FRONTENDS)),
    help="How the model is captured for Core ML (default: auto: trace, then export).",
)
@click.option(
    "--precision",
    type=click.Choice(list(PRECISIONS)),
    help="What the model computes in on Core ML (default: fp16; float32 is compared in any case).",
)
@click.option(
    "--deployment-target",
    type=click.Choice(list(TARGETS)),
    metavar="TARGET",
    help="The oldest system that has to run the model: iOS15 to iOS26, macOS12 … (default: iOS15).",
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Take the settings from this file.")
@click.option("--isolated", is_flag=True, help="Read no settings file.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    help="How the comparison is printed (default: text).",
)
@click.option("--output-file", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the report there.")
def verify_command(target: str, **options: Any) -> None:
    """Convert a live target, execute the converted program here, and compare it with PyTorch.

    With --reference the target is a saved .mlpackage. Exits with 1 where the model does not convert or does not agree.
    """
    _exit_with(lambda: _verify(target, options))


def _verify(text: str, options: Mapping[str, Any]) -> int:
    from modellint import live_run
    from modellint.live.target import parse
    from modellint.run import Job

    package = None
    live = text
    if options["reference"] is not None:
        package, live = Path(text).absolute(), options["reference"]
        if not package.exists():
            raise click.UsageError(f"{text}: no such package")
        given = [name for name in ("frontend", "precision", "deployment_target") if options[name] is not None]
        if given:
            raise click.UsageError(
                f"--{given[0].replace('_', '-')} does not go with --reference: the package is converted"
            )
    target = parse(live)
    if target is None:
        if package is None and text.rstrip("/").endswith((".mlpackage", ".mlmodel")):
            raise click.UsageError(
                f"{text}: name the PyTorch model that it is to be compared with: --reference model.py:Net"
            )
        raise click.UsageError(f"{live}: not a live target, such as model.py:Net")
    shown_format = options["output_format"]
    root, resolver, rules = _resolve(Path(_file_of(live)), {**options, "output_format": None})
    job = Job(root, resolver, rules, None, Path.cwd())
    one = live_run.wanted(target, job.root, job.folder, options["inputs"], options["checkpoint"])
    detail = "outputs" if shown_format == "text" else "layers"
    waiting = _Waiting()
    try:
        answer = live_run.verify(job, one, _limits(options), options["seed"] or 0, detail, package, waiting)
    finally:
        waiting.close()
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    found, findings = answer.verification, answer.diagnostics
    _write(_verification(job, text, found, findings, options), options, False)
    return 0 if found is not None and found.ok else 1


def _verification(
    job: Job, target: str, found: Verification | None, findings: Sequence[Diagnostic], options: Mapping[str, Any]
) -> str:
    from modellint.report import as_json, full, verification, verification_html

    def name(path: str) -> str:
        return job.shown(Path(path))

    if options["output_format"] == "json":
        from modellint.coreml.verification import NOT_CONVERTED, Verification

        entries = as_json.objects(findings, job.resolver.top.docs_url, _absolute)
        shown = found or Verification(NOT_CONVERTED, findings[0].message if findings else "")
        return verification.render_json(shown, target, __version__, entries) + "\n"
    if options["output_format"] == "html" and found is not None:
        return verification_html.page(found, target, name)
    color = options["output_file"] is None and _colored(sys.stdout)
    texts = _Texts(job.folder, None)

    def line(place: Place) -> str:
        text = texts(name(place.path))
        return "" if text is None or place.span.row > len(text.line_starts) else text.line(place.span.row)

    shown_text = full.render(findings, texts, color) + "\n" if findings else ""
    if found is None:
        return shown_text
    return shown_text + verification.render(found, color, target=target, shown=name, line=line)


@cli.command("rule")
@click.argument("code", required=False)
@click.option("--all", "everything", is_flag=True, help="Print the page of every rule.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def rule_command(code: str | None, everything: bool, output_format: str) -> None:
    """Print the page of a rule."""
    from modellint.run import all_rules
    from modellint.settings import SettingsError, check_codes

    rules = all_rules()
    if everything == (code is not None):
        raise click.UsageError("name one rule, or give --all")
    chosen = list(rules.values())
    if code is not None:
        if code.upper() not in rules:
            try:
                check_codes([code.upper()], [*rules, code.upper()[:0] or "-"], "rule")
            except SettingsError as error:
                _fail(str(error))
            _fail(f"rule: {code!r} is a family, not a rule")
        chosen = [rules[code.upper()]]
    _write(_pages(chosen, output_format, everything), {"output_file": None}, False)


def _pages(rules: Sequence[Rule], output_format: str, everything: bool) -> str:
    from modellint.rule import Page

    pages = [(rule, Page.of(type(rule))) for rule in rules]
    if output_format == "json":
        import json

        entries = [
            {
                "code": rule.code,
                "name": rule.name,
                "severity": rule.severity.label,
                "summary": page.summary,
                "fix": rule.fixable or None,
                "sections": page.sections,
            }
            for rule, page in pages
        ]
        return json.dumps(entries if everything else entries[0], indent=2, ensure_ascii=False)
    texts = []
    for rule, page in pages:
        parts = [f"# {rule.name} ({rule.code}, {rule.severity.label})", page.summary]
        parts.extend(f"## {title}\n{body}" for title, body in page.sections.items())
        texts.append("\n\n".join(parts) + "\n")
    return "\n\n".join(texts)


@cli.command("ops")
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option(
    "--coreml-version", metavar="VERSION", help="The version of coremltools to ask about (default: the newest known)."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def ops_command(names: tuple[str, ...], coreml_version: str | None, output_format: str) -> None:
    """Tell which operators convert: by which route, since which coremltools, for which target (default: all operators).

    A name is an operator (aten::fmod, fmod), or a function, method or layer (torch.fmod, Tensor.fmod, nn.Hardshrink).
    """
    from modellint import ops
    from modellint.report import ops as report
    from modellint.run import all_rules
    from modellint.settings import SettingsError, check_version

    rules = all_rules().values()
    try:
        if coreml_version is not None:
            check_version(coreml_version, "--coreml-version")
        if names:
            found = [ops.support(name, coreml_version, rules) for name in dict.fromkeys(names)]
        else:
            found = list(ops.everything(coreml_version, rules))
    except (ops.Unknown, SettingsError) as error:
        _fail(str(error))
    if output_format == "json":
        shown = report.render_json(found, coreml_version)
    else:
        shown = report.render(found, coreml_version, _colored(sys.stdout))
    _write(shown, {"output_file": None}, False)


@cli.command("config")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@_with_options
def config_command(path: Path | None, **options: Any) -> None:
    """Print the settings in force for a file or folder (default: the current one), and where each comes from."""
    from modellint.rule import RuleError
    from modellint.run import UsageError
    from modellint.settings import KEYS, SettingsError

    target = (path or Path()).absolute()
    try:
        if not target.exists():
            raise UsageError(f"{path}: no such file or folder")
        root, resolver, rules = _resolve(target, options)
        settings = resolver.of_folder(target if target.is_dir() else target.parent)
    except (SettingsError, UsageError, RuleError) as error:
        _fail(str(error))
        return
    click.echo(f"root = {root}")
    click.echo(f"settings = {settings.config or 'none'}")
    for key in KEYS:
        value = settings.value(key)
        if key == "per-file-ignores":
            value = {pattern: list(codes) for pattern, codes in value}
        elif key == "models":
            value = [model.target for model in value]
        elif isinstance(value, tuple):
            value = list(value)
        elif value is None:
            words = {"select": "(the default rules)", "coreml-version": "(the newest known)"}
            value = words.get(key, "(none)")
        click.echo(f"{key} = {value}  # {settings.origins.get(key, 'default')}")
    enabled = [code for code, rule in rules.items() if settings.enables(code, rule.default)]
    click.echo(f"rules in force = {' '.join(enabled)}")

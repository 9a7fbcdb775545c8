"""``modellint check``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.cli.options import (
    Command,
    NamedPath,
    exit_with,
    fail,
    file_of,
    may_be_live,
    output_format,
    resolve,
    with_capture,
    with_color,
    with_constants,
    with_inputs,
    with_options,
    with_random_inputs,
)
from modellint.cli.output import Progress, Texts, colored, expect_not_read, expect_output, write, write_report

if TYPE_CHECKING:
    from modellint.cache import Cache
    from modellint.discover import Found
    from modellint.results.diagnostic import Diagnostic
    from modellint.run import Job, Outcome
    from modellint.session.messages import Request
    from modellint.settings import Resolver
    from modellint.source.syntax.source_text import SourceText

_LIVE_ONLY = {
    "inputs": "--input",
    "constants": "--constant",
    "random_inputs": "--random-inputs",
    "checkpoint": "--checkpoint",
    "timeout": "--timeout",
    "memory": "--memory",
    "seed": "--seed",
    "frontend": "--frontend",
    "precision": "--precision",
    "cache_live": "--cache-live",
}
_FOR_PEOPLE = ("full", "concise", "grouped")
"""Formats of which nothing but the findings, and what options say of colours, decides about the text."""
_NOT_TOGETHER = {
    "add_ignore": ("fix", "unsafe_fixes", "show_files"),
    "show_files": ("fix", "show_diff", "models", "statistics"),
    "watch": ("fix", "add_ignore", "write_baseline", "show_files"),
    "cache_live": ("no_cache",),
    "write_baseline": ("add_ignore", "show_diff", "show_files"),
}


@click.command("check", cls=Command)
@click.argument("targets", nargs=-1, metavar="[TARGETS]...", type=click.Path(readable=False))
@with_options
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply unsafe fixes too.")
@click.option("--diff", "show_diff", is_flag=True, help="Print what fixes would change, and write nothing.")
@click.option(
    "--baseline", type=NamedPath(), metavar="FILE", help="Do not report the findings that stand in this file."
)
@click.option("--write-baseline", is_flag=True, help="Write all that is found to the baseline, and report none of it.")
@click.option("--add-ignore", is_flag=True, help="Write a comment at every finding that suppresses it.")
@output_format
@click.option("--output-file", "-o", type=NamedPath(path_type=Path), metavar="FILE", help="Write the findings there.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if anything was fixed.")
@with_inputs
@with_constants
@with_random_inputs
@with_capture(
    checkpoint="Compare the model with these weights.",
    frontend="How a live target is captured for Core ML (default: auto: trace, then export).",
    precision="What a live target computes in on Core ML (default: fp16).",
)
@click.option("--models", is_flag=True, help="Check the live targets that the settings list.")
@click.option("--stdin-filename", type=NamedPath(path_type=Path), metavar="FILE", help="The name of what stdin holds.")
@click.option("--show-files", is_flag=True, help="Print the files that would be checked, and check none.")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes.")
@click.option("--force-exclude", is_flag=True, help="Exclude files that are named on the command line too.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="How many processes to use.")
@click.option("--no-cache", "-n", is_flag=True, help="Neither read nor write the cache.")
@click.option("--cache-dir", type=NamedPath(path_type=Path), metavar="FOLDER", help="Where the cache is.")
@click.option(
    "--cache-live",
    is_flag=True,
    help="Keep results of live targets too, as long as code, inputs, versions and settings are the same.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print findings only, no summary.")
@click.option("--verbose", "-v", is_flag=True, help="Tell on stderr what is read.")
@with_color
def check_command(targets: tuple[str, ...], **options: Any) -> None:
    """Check files and folders (default: the current folder); - is standard input.

    FILE:NAME or MODULE:NAME is a live target: an nn.Module class, an instance or a function. It is built and run in a process
    of its own.
    """
    chosen = targets or (".",)
    if not options["watch"]:
        exit_with(lambda: _check(chosen, options))
    _refuse_together(options, "-" in chosen)
    from modellint.cli import watching

    exit_with(lambda: watching.watch(chosen, options, lambda: _check(chosen, options)))


def _check(targets: Sequence[str], options: Mapping[str, Any]) -> int:
    expect_output(options)
    from_stdin = "-" in targets
    if from_stdin and (len(targets) > 1 or options["models"]):
        raise click.UsageError("- (standard input) goes with no other target")
    if options["stdin_filename"] is not None and not from_stdin:
        raise click.UsageError("--stdin-filename needs the target - (standard input)")
    if "" in targets:
        raise click.UsageError("a target is empty: the folder that you are in is .")
    _refuse_together(options, from_stdin)
    first = (options["stdin_filename"] or Path("stdin.py")) if from_stdin else Path(file_of(targets[0]))
    job = resolve(first, options)
    resolver = job.resolver
    _expect_formats(resolver, options)
    if not options["no_cache"] and not from_stdin:
        job = job._replace(cache=_cache(job, options))
    if resolver.top.baseline is not None:
        from modellint.cli import known_findings

        baseline = known_findings.baseline_of(resolver.top, job.folder, options["write_baseline"])
        expect_not_read(options, [baseline.file], "the baseline, which --write-baseline writes")
        job = job._replace(baseline=baseline)
    elif options["write_baseline"]:
        raise click.UsageError("--write-baseline needs --baseline FILE, or the setting `baseline`")
    files, live = _live_targets(job, targets, options)
    if from_stdin:
        return _check_stdin(job, first.absolute(), options)
    return _check_files(job, files, live, options)


def _refuse_together(options: Mapping[str, Any], from_stdin: bool) -> None:
    """Refuse what contradicts itself. Raises ``click.UsageError``."""
    for name, others in _NOT_TOGETHER.items():
        if options[name] and from_stdin:
            raise click.UsageError(f"{_flag(name)} does not go with standard input")
        for excluded in others:
            if options[name] and options[excluded]:
                raise click.UsageError(f"{_flag(name)} and {_flag(excluded)} do not go together")


def _flag(name: str) -> str:
    return "--diff" if name == "show_diff" else f"--{name.replace('_', '-')}"


def _live_targets(job: Job, targets: Sequence[str], options: Mapping[str, Any]) -> tuple[list[Path], list[Request]]:
    """The targets as files to check, those of live targets too, and live targets."""
    live: list[Request] = []
    seed = options["seed"] or 0
    files = list(targets)
    if any(map(may_be_live, targets)):
        from modellint.session import request_dispatch

        files, named = request_dispatch.split(targets)
        live = [
            request_dispatch.request_for(
                job,
                target,
                options["inputs"],
                options["checkpoint"],
                seed=seed,
                constants=options["constants"],
                random_inputs=options["random_inputs"],
            )
            for target in named
        ]
    if not live:
        for key, option in _LIVE_ONLY.items():
            if options[key] and not (
                options["models"] and key not in ("inputs", "constants", "random_inputs", "checkpoint")
            ):
                raise click.UsageError(f"{option} needs a live target (FILE:NAME)")
    if options["models"]:
        from modellint.session import request_dispatch

        top = job.resolver.top
        if top.config is None or not top.models:
            raise click.UsageError(f"--models: {top.config or job.root} lists no [[tool.modellint.models]]")
        live += request_dispatch.requests_of_settings(job, top.models, Path(top.origins["models"]), seed=seed)
    paths = [*map(Path, files), *(request.location.file for request in live if request.location.file is not None)]
    return paths, live


def _cache(job: Job, options: Mapping[str, Any]) -> Cache | None:
    from modellint.cache import FOLDER, Cache, rules_digest

    folder = (options["cache_dir"] or job.root / FOLDER).absolute()
    if options["cache_dir"] is None and not os.access(job.root, os.W_OK):
        return None
    if not job.plugins:
        return Cache(folder, rules_digest())
    from modellint.plugins import files

    return Cache(folder, rules_digest(files(job.plugins)))


def _check_files(job: Job, targets: list[Path], live: list[Request], options: Mapping[str, Any]) -> int:
    from modellint.discover import Exclusion, find_files
    from modellint.run import Checker, Outcome, check_files, processors

    top = job.resolver.top
    discovered = find_files(targets, Exclusion(top.base_of("exclude"), top.exclude), options["force_exclude"])
    _refuse_other_languages(targets, discovered)
    files = discovered.files
    expect_not_read(options, files, "one of the files that are checked")
    if options["show_files"]:
        return _show_files(discovered, options)
    if not files and not live:
        return _nothing(job, targets, discovered, options)
    # Every settings file is read before the first finding, so that a mistake in one is told at once.
    for path in files:
        job.resolver.of_file(path)
    for warning in job.resolver.warnings:
        click.echo(f"warning: {warning}", err=True)
    if options["verbose"]:
        click.echo(f"root: {job.root}\nsettings: {top.config or 'defaults'}\nfiles: {len(files)}", err=True)
    outcome = Outcome(files=len(files))
    outcome.unchecked = discovered.problems
    progress = Progress(0 if options["quiet"] else len(files), options["verbose"])
    shows_fixes = options["show_diff"] and not options["add_ignore"]
    if (options["fix"] or shows_fixes) and not (live and options["show_diff"]):
        checker = Checker(job)
        for count, path in enumerate(files, 1):
            checker.fix(path, options["unsafe_fixes"], not options["show_diff"], outcome)
            progress(count)
        outcome.unread = checker.unread
    else:
        jobs = options["jobs"] or processors()
        look = None if live or outcome.unchecked else _look(job, options)
        check_files(job, files, jobs, outcome, progress, look)
    progress.close()
    if outcome.report is not None:
        write(outcome.report.text, options, False)
        return outcome.report.status
    # A model's code may change or delete its own file: what it was is what the findings show.
    texts = Texts(job.folder, None)
    if live:
        for request in live:
            if request.location.file is not None:
                texts(job.shown(request.location.file))
        from modellint.cli import live_target_checks

        live_target_checks.check(job, files, live, outcome, options)
        if shows_fixes:
            live_target_checks.show_fixes(job, files, outcome, options["unsafe_fixes"])
        elif options["fix"] and live_target_checks.fix_proven(job, files, live, outcome, options):
            texts = Texts(job.folder, None)
    if job.baseline is not None or options["add_ignore"]:
        from modellint.cli import known_findings

        if job.baseline is not None:
            known_findings.apply(job, job.baseline, files, outcome, options, texts)
        if options["add_ignore"]:
            known_findings.add_ignores(job, outcome, options)
            texts = Texts(job.folder, None)
    return _finish(job, outcome, options, texts, [*map(job.shown, files)], live)


def _look(job: Job, options: Mapping[str, Any]) -> str | None:
    """All that decides about what is printed but the findings and their source; None where more than that is printed or written."""
    top = job.resolver.top
    into_files = any(output.file is not None for output in options["outputs"])
    if into_files or job.baseline is not None or options["add_ignore"] or options["statistics"]:
        return None
    if top.output_format not in _FOR_PEOPLE:
        return None
    color = options["output_file"] is None and colored(sys.stdout)
    flags = (color, options["unsafe_fixes"], options["quiet"], options["exit_zero"], _level(job))
    return "\n".join((top.output_format, str(flags), str(job.root), str(job.folder), top.docs_url or ""))


def _refuse_other_languages(targets: Sequence[Path], discovered: Found) -> None:
    """Leave out notebooks that are named and are not of Python: nothing of them would be checked."""
    notebooks = {Path(os.path.abspath(target)) for target in targets if target.suffix == ".ipynb"}  # noqa: PTH100
    for path in notebooks.intersection(discovered.files):
        from modellint.source.syntax.notebook import other_language

        if language := other_language(path.read_bytes()):
            discovered.files.remove(path)
            discovered.problems.append(
                f"{os.path.relpath(path)}: not checked: the cells of this notebook are in {language}"
            )


def _show_files(discovered: Found, options: Mapping[str, Any]) -> int:
    """Print the files that a run would check, each in a line."""
    write("".join(f"{path}\n" for path in discovered.files), options, False)
    for problem in discovered.problems:
        click.echo(f"error: {problem}", err=True)
    if not discovered.files and not discovered.problems:
        click.echo("warning: there is nothing to check", err=True)
    return 2 if discovered.problems else 0


def _nothing(job: Job, targets: Sequence[Path], discovered: Found, options: Mapping[str, Any]) -> int:
    """Say that there is nothing to check, and why; a failure, unless somebody wanted it so."""
    if discovered.problems:
        for problem in discovered.problems:
            click.echo(f"error: {problem}", err=True)
        return 2
    if options["force_exclude"] and discovered.excluded:
        return _left_out(job, options)
    reason = f"there are no Python files or notebooks in {', '.join(map(str, targets))}"
    if discovered.excluded or discovered.ignored:
        reason += " but what `exclude` or .gitignore names"
    click.echo(f"error: nothing was checked: {reason}", err=True)
    return 2


def _left_out(job: Job, options: Mapping[str, Any]) -> int:
    """Say that ``--force-exclude`` left nothing to check, which a hook wants to be no failure."""
    from modellint.run import Outcome

    click.echo("warning: nothing was checked: `exclude` names all of it", err=True)
    if not options["show_diff"]:
        from modellint.report.formats import WITHOUT_DOCUMENT

        counted = options["statistics"] and job.resolver.top.output_format not in WITHOUT_DOCUMENT
        quietly = {**options, "quiet": True, "statistics": counted}
        _write_outputs(job, Outcome(), quietly, Texts(job.folder, None))
    return 0


def _read_stdin(shown: str) -> bytes:
    """What standard input holds, as far as it is read. Raises ``UsageError`` where it cannot be read."""
    from modellint.run import UsageError
    from modellint.source.syntax.source_text import largest_of

    if sys.stdin is None:
        raise UsageError("standard input is closed")
    try:
        return sys.stdin.buffer.read(largest_of(shown) + 1)
    except OSError as error:
        raise UsageError(f"standard input cannot be read: {error.strerror}") from None


def _check_stdin(job: Job, path: Path, options: Mapping[str, Any]) -> int:
    from modellint.discover import Exclusion
    from modellint.run import Checker, Outcome, source_of
    from modellint.source.syntax.source_text import Undecodable, largest_of, too_large

    top = job.resolver.of_folder(path.parent)
    shown = str(options["stdin_filename"] or "-")
    data = _read_stdin(shown)
    outcome = Outcome(files=1)
    rules = job.rules_for(path, top)
    checker = Checker(job)
    if options["force_exclude"] and Exclusion(top.base_of("exclude"), top.exclude).covers(str(path)):
        if options["fix"]:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return _left_out(job, {**options, "show_diff": options["show_diff"] or options["fix"]})
    try:
        if len(data) > largest_of(shown):
            raise Undecodable(too_large(len(data), largest_of(shown)))
        source = source_of(shown, data)
    except Undecodable as error:
        from modellint.tool_diagnostics import cannot_parse

        outcome.diagnostics = checker.kept([cannot_parse(shown, str(error))], rules)
        outcome.unread = checker.unread
        return _finish(job, outcome, options, Texts(job.folder, None), [shown])

    def findings_of(text: SourceText) -> tuple[Diagnostic, ...]:
        checker.unread.clear()
        checked = checker.check_text(text, path, shown, rules, top)
        outcome.unread = checker.unread
        diagnostics = checker.kept(checked.diagnostics, rules)
        if job.baseline is not None:
            known = job.baseline.is_known(diagnostics, lambda _: text)
            return tuple(finding for finding, old in zip(diagnostics, known, strict=True) if not old)
        return tuple(diagnostics)

    if not (options["fix"] or options["show_diff"]):
        outcome.diagnostics = list(findings_of(source))
        return _finish(job, outcome, options, Texts(job.folder, source), [shown])
    from modellint.run import changes_to
    from modellint.source.fix import fix_text

    fixed = fix_text(source, findings_of, options["unsafe_fixes"])
    outcome.diagnostics = list(fixed.remaining)
    outcome.fixed.update(fixed.applied)
    if fixed.problem:
        outcome.problems.extend(fixed.problem.splitlines())
    if options["show_diff"]:
        outcome.changes.extend(changes_to(shown, source, fixed.text))
        return _finish(job, outcome, options, Texts(job.folder, source), [shown])
    sys.stdout.buffer.write(source.encode(fixed.text))
    sys.stdout.buffer.flush()
    # The fixed text is the result here; what is left to say goes to stderr.
    return _finish(job, outcome, options, Texts(job.folder, source.with_text(fixed.text)), [shown], err=True)


def _expect_formats(resolver: Resolver, options: Mapping[str, Any]) -> None:
    """Refuse formats that cannot be had, or do not go with other options, before the work of a run is lost with them."""
    from modellint.report import formats

    named = [output for output in options["outputs"] if output.file is not None]
    for name in ("show_diff", "show_files"):
        if options[name] and named:
            output = f"--output-format {named[0].format}={named[0].file}"
            raise click.UsageError(f"{_flag(name)} shows no findings: leave out {output}")
    printed = resolver.top.output_format
    formats.expect_available([printed, *(output.format for output in named)])
    if options["statistics"] and printed not in ("full", "concise", "json", "report"):
        raise click.UsageError(f"--statistics are printed as text or JSON, and not as {printed}")


def _finish(
    job: Job,
    outcome: Outcome,
    options: Mapping[str, Any],
    texts: Texts,
    files: Sequence[str],
    live: Sequence[Request] = (),
    err: bool = False,
) -> int:
    """Print what was found, and say with which status to exit."""
    for problem in outcome.problems:
        click.echo(f"warning: {problem}", err=True)
    changes = [change for change in outcome.changes if change.before != change.after]
    status = _status(job, outcome, options, bool(changes))
    if options["show_diff"]:
        from modellint.report import summary, unified_diff

        color = options["output_file"] is None and colored(sys.stderr if err else sys.stdout)
        write("".join(unified_diff.render(*change[:3], color, cell=change.cell) for change in changes), options, err)
        if changes and not options["quiet"] and not options["add_ignore"]:
            number = len({change.shown for change in changes})
            fixed = summary.counted(sum(outcome.fixed.values()), "finding")
            click.echo(f"Would fix {fixed} in {summary.counted(number, 'file')}.", err=True)
    else:
        _write_outputs(job, outcome, options, texts, files, live, status, err)
    for line in outcome.unread:
        click.echo(f"warning: not checked, though LNT002 is ignored: {line}", err=True)
    for problem in outcome.unchecked:
        click.echo(f"error: {problem}", err=True)
    if not outcome.unchecked and _is_nothing_read(outcome):
        fail("nothing was checked: no file can be read")
    return status


def _is_nothing_read(outcome: Outcome) -> bool:
    return len(outcome.unread) == outcome.files and not outcome.targets


def _level(job: Job) -> int:
    """The least severity that makes the exit status 1."""
    return {"info": 0, "warning": 1, "error": 2, "never": 3}[job.resolver.top.fail_level]


def _status(job: Job, outcome: Outcome, options: Mapping[str, Any], has_changes: bool) -> int:
    if outcome.unchecked or _is_nothing_read(outcome):
        return 2
    if options["exit_zero"]:
        return 0
    if options["show_diff"]:
        return int(has_changes)
    if options["exit_non_zero_on_fix"] and outcome.fixed:
        return 1
    return int(any(finding.severity >= _level(job) for finding in outcome.diagnostics))


def _write_outputs(
    job: Job,
    outcome: Outcome,
    options: Mapping[str, Any],
    texts: Texts,
    files: Sequence[str] = (),
    live: Sequence[Request] = (),
    status: int = 0,
    err: bool = False,
) -> None:
    """Print the findings, and write them into the files that options name."""
    from modellint.report import formats

    top = job.resolver.top
    into_files = [output for output in options["outputs"] if output.file is not None]
    names = {top.output_format, *(output.format for output in into_files)}
    results = formats.CheckResults(
        sorted(outcome.diagnostics, key=lambda finding: finding.sort_key),
        job.root,
        job.folder,
        texts,
        job.rules,
        files=files,
        targets=outcome.targets,
        target_files={
            request.target.text: job.shown(request.location.file) for request in live if request.location.file
        },
        unchecked=outcome.unchecked,
        unread=outcome.unread,
        warnings=outcome.problems,
        docs_url=top.docs_url,
        failing=_level(job),
        status=status,
        fixed=sum(outcome.fixed.values()),
        unsafe=options["unsafe_fixes"],
        quiet=options["quiet"],
        color=options["output_file"] is None and colored(sys.stderr if err else sys.stdout),
    )
    if live and formats.details_models(names):
        from modellint.cli import live_target_checks

        results = results._replace(models=live_target_checks.model_reports(job, live, outcome, options))
    if options["statistics"]:
        from modellint.report import statistics
        from modellint.report.live_findings import environment_once

        as_json = top.output_format in ("json", "report")
        findings = environment_once(results.diagnostics, job.rules)
        text = statistics.render(findings, results.color, as_json, unsafe=results.unsafe)
    else:
        text = formats.render(top.output_format, results)
    write(text, options, err)
    if outcome.keep_report is not None and not (outcome.unread or outcome.unchecked or outcome.problems):
        from modellint.cache.bundle import KeptReport

        outcome.keep_report(KeptReport(text, status))
    for output in into_files:
        write_report(formats.render(output.format, results._replace(color=False)), output.file)

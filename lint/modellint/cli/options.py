"""Options that several commands have, and what they stand for."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from modellint.settings import DESTINATIONS, FORMATS, FRONTENDS, OF_COREAI, OF_COREML, PRECISIONS, TARGETS

if TYPE_CHECKING:
    from modellint.run import Job

Decorator = Callable[[Any], Any]
_FORMATS = f"One of {', '.join(FORMATS)}."
_ITEM = re.compile(r"\[[^\[\]]+\]\Z")
_MAY_BE_LIVE = re.compile(r".+:[^\W\d][\w.]*(?:\[[^\[\]]+\])?\Z", re.DOTALL)


def _codes(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    codes = tuple(word.strip().upper() for item in value for word in item.split(",") if word.strip())
    if value and not codes and parameter.name == "select":
        raise click.BadParameter("no rule is named")
    return codes if value else None


def _number(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no time")
    return value


def _patterns(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    words = tuple(word.strip() for item in value for word in item.split(",") if word.strip())
    return words if value else None


def _color(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.color = {"always": True, "never": False}.get(value)


def _complete_codes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from modellint.run import all_rules

    done, comma, word = incomplete.rpartition(",")
    codes = [*dict.fromkeys(code[:3] for code in all_rules()), *all_rules(), "ALL"]
    return [done + comma + code for code in codes if code.startswith(word.upper())]


class Command(click.Command):
    """A command whose help has its options in groups, examples and exit statuses, loaded for those who ask for it."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by what they are for."""
        from modellint.cli import help_pages

        help_pages.write_options(self, ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:
        """What it does, in a line, as lists of commands have it."""
        from modellint.cli import help_pages

        return help_pages.SUMMARIES.get(self.name or "", "")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit statuses."""
        from modellint.cli import help_pages

        help_pages.write_epilog(self.name or "", formatter)


with_color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    callback=_color,
    expose_value=False,
    help="Whether to print in colour (default: auto: on a terminal, unless NO_COLOR is set).",
)


class Output(NamedTuple):
    """One ``--output-format``: the format, and the file that it is written into; None for standard output."""

    format: str
    file: Path | None = None


def _outputs(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[Output, ...]:
    outputs: list[Output] = []
    for text in value:
        name, with_file, file = text.partition("=")
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}.")
        if with_file and not file:
            raise click.BadParameter(f"{text}: an empty name")
        output = Output(name, Path(file) if file else None)
        for earlier in outputs:
            if output.file is None and earlier.file is None:
                raise click.BadParameter(
                    f"{earlier.format} and {name} cannot both be printed: write one into a file, as in {name}=FILE"
                )
            if output.file is not None and earlier.file is not None and _is_same(output.file, earlier.file):
                raise click.BadParameter(f"{earlier.format} and {name} cannot both be written into {file}")
        outputs.append(output)
    return tuple(outputs)


def _is_same(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _complete_formats(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


class NamedPath(click.Path):
    """A path; an empty name, as of a variable that is not set, is none, and not the folder that one is in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or a usage error."""
        if value == "":
            self.fail("an empty name", param, ctx)
        return super().convert(value, param, ctx)


_SETTINGS = (
    click.option("--config", type=NamedPath(path_type=Path), metavar="FILE", help="Take the settings from this file."),
    click.option("--isolated", is_flag=True, help="Read no settings file."),
)
_PLUGINS = (
    click.option(
        "--plugin",
        "plugin",
        multiple=True,
        metavar="NAME",
        help="Take rules from this plug-in too: an installed one, a folder or a file.",
    ),
    click.option("--trust-plugins", is_flag=True, help="Load the plug-ins that the settings of the project name."),
)
deployment_target = click.option(
    "--deployment-target",
    type=click.Choice(list(TARGETS)),
    metavar="TARGET",
    help="The oldest system that has to run the model: iOS15 to iOS26, macOS12 … (default: iOS15).",
)

destination = click.option(
    "--destination",
    type=click.Choice(list(DESTINATIONS)),
    help="What is to run the model: Core ML, Core AI, or both (default: coreml).",
)

_OPTIONS = (
    *(
        click.option(name, multiple=True, callback=_codes, shell_complete=_complete_codes, metavar="CODES", help=text)
        for name, text in (
            ("--select", "Run only these rules: codes or their beginnings, as in REG,OPS004."),
            ("--ignore", "Do not run these rules."),
            ("--extend-select", "Run these rules too."),
        )
    ),
    *_PLUGINS,
    *_SETTINGS,
    click.option(
        "--fail-level",
        type=click.Choice(["info", "warning", "error", "never"]),
        help="The least severity that makes the exit status 1 (default: warning).",
    ),
    click.option(
        "--exclude",
        multiple=True,
        callback=_patterns,
        metavar="PATTERNS",
        help="Leave these files and folders out, instead of those that the settings name.",
    ),
    destination,
    deployment_target,
    click.option(
        "--coreml-version",
        metavar="VERSION",
        help="The version of coremltools that converts (default: the newest known).",
    ),
    click.option(
        "--coreai-version",
        metavar="VERSION",
        help="The version of coreai-torch that converts (default: the newest known).",
    ),
)


output_format = click.option(
    "--output-format",
    "outputs",
    multiple=True,
    callback=_outputs,
    shell_complete=_complete_formats,
    metavar="FORMAT[=FILE]",
    help=f"How findings are printed (default: full), or written into FILE; may be given several times. {_FORMATS}",
)


def _all(options: Sequence[Decorator]) -> Decorator:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


with_options = _all(_OPTIONS)
"""Give a command the options that stand for settings."""
with_plugins = _all(_PLUGINS)
"""Give a command the options that say which plug-ins are loaded."""
with_settings = _all(_SETTINGS)
"""Give a command the options that say where its settings are."""


def with_capture(*, checkpoint: str, frontend: str, precision: str) -> Decorator:
    """Give a command the options of what captures a live target, with these helps."""
    return _all(
        (
            click.option("--checkpoint", type=NamedPath(path_type=Path), metavar="FILE", help=checkpoint),
            click.option("--frontend", type=click.Choice(list(FRONTENDS)), help=frontend),
            click.option("--precision", type=click.Choice(list(PRECISIONS)), help=precision),
        )
    )


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
        callback=_number,
        metavar="S",
        help="Seconds for a live target (default: 120).",
    ),
    click.option(
        "--memory",
        type=click.IntRange(1, 2**40),
        metavar="MB",
        help="Memory for a live target (default: what there is).",
    ),
    click.option(
        "--seed",
        type=click.IntRange(-(2**63), 2**63 - 1),
        metavar="N",
        help="Where random numbers of a live target start (default: 0).",
    ),
)


with_constants = click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME",
    help="This input of the model is always what it is in the example.",
)
"""Give a command the option for inputs that become constants of a package."""

with_random_inputs = click.option(
    "--random-inputs",
    is_flag=True,
    help="Random numbers that the model draws are inputs.",
)
"""Give a command the option for random numbers that become inputs of a package."""


with_inputs = _all(_INPUT_OPTIONS)
"""Give a command the options of what runs a live target."""


def fail(message: str) -> NoReturn:
    """Exit with 2 and one line: the user can mend it."""
    click.echo(f"error: {message}", err=True)
    sys.exit(2)


def _overrides(options: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    overrides: dict[str, tuple[Any, str]] = {}
    for key in (
        "select",
        "ignore",
        "extend-select",
        "fail-level",
        "destination",
        "deployment-target",
        "coreml-version",
        "coreai-version",
        "frontend",
        "precision",
        "exclude",
        "baseline",
    ):
        value = options.get(key.replace("-", "_"))
        if value is not None:
            overrides[key] = (value, f"--{key}")
    for output in options.get("outputs", ()):
        if output.file is None:
            overrides["output-format"] = (output.format, "--output-format")
    return overrides


def resolve(target: Path, options: Mapping[str, Any]) -> Job:
    """Read the settings for a target, and load the rules with the plug-ins that may run; others are told of."""
    from modellint.run import job_for
    from modellint.settings import Resolver, SettingsError, check_codes, check_coreai_version, check_version, find_root

    root = find_root(target.absolute())
    config = options.get("config")
    if config is not None and not config.is_file():
        raise SettingsError(f"{config}: no such settings file")
    overrides = _overrides(options)
    if options.get("coreml_version") is not None:
        check_version(options["coreml_version"], "--coreml-version")
    if options.get("coreai_version") is not None:
        check_coreai_version(options["coreai_version"], "--coreai-version")
    isolated = bool(options.get("isolated"))
    resolver = Resolver(root, config and config.absolute(), isolated, overrides, None)
    for key in OF_COREML:
        if key in overrides and resolver.top.destination == "coreai":
            raise SettingsError(f"--{key} is about Core ML alone: leave it out, or give --destination coreml or all")
    for key in OF_COREAI:
        if key in overrides and resolver.top.destination == "coreml":
            raise SettingsError(f"--{key} is about Core AI alone: leave it out, or give --destination coreai or all")
    job = job_for(
        resolver,
        lambda warning: click.echo(f"warning: {warning}", err=True),
        named=options.get("plugin", ()),
        trusts=bool(options.get("trust_plugins")),
        isolated=isolated,
    )
    for key in ("select", "ignore", "extend-select"):
        if key in overrides:
            try:
                check_codes(overrides[key][0], job.rules, overrides[key][1])
            except SettingsError as error:
                loaded = {plugin.name for plugin in job.plugins}
                left_out = [name for name in resolver.top.plugins if name not in loaded]
                hint = f"; plug-ins that are left out: {', '.join(left_out)} (--plugin or --trust-plugins loads them)"
                raise SettingsError(f"{error}{hint if left_out else ''}") from None
    resolver.use_codes(job.rules)
    return job


def may_be_live(target: str) -> bool:
    """Whether a target reads as a live one, such as `model.py:Net`."""
    return _MAY_BE_LIVE.match(target) is not None and not os.path.exists(target)  # noqa: PTH110


def file_of(target: str) -> str:
    """The part of a target that may be a path."""
    if not may_be_live(target):
        return target
    place = _ITEM.sub("", target).rpartition(":")[0]
    return place if os.path.exists(place) else "."  # noqa: PTH110


def limits(options: Mapping[str, Any]) -> Any:
    """What the worker of a live target may use, as `Limits` of a session."""
    from modellint.session.messages import Limits

    memory = options["memory"]
    return Limits(options["timeout"] or Limits().timeout, None if memory is None else memory * 1024**2)


def exit_with(work: Callable[[], int]) -> NoReturn:
    """Exit with the status that a command's work ends in: 2, with one line, for what the user can mend."""
    from modellint.rule import RuleError
    from modellint.run import UsageError
    from modellint.settings import SettingsError

    try:
        status = work()
    except (SettingsError, UsageError, RuleError) as error:
        fail(str(error))
    sys.exit(status)

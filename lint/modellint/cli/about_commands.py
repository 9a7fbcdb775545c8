"""``modellint rule``, ``ops``, ``config`` and ``completion``: pages of rules, operator support, settings, and shells."""

from __future__ import annotations

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
    resolve,
    with_color,
    with_options,
    with_plugins,
    with_settings,
)
from modellint.cli.output import colored, write
from modellint.settings import RUNTIMES

if TYPE_CHECKING:
    from modellint.rule import Rule

_text_or_json = click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", help="How to print it (default: text)."
)


def _complete_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from modellint.run import all_rules

    words = [word for code, rule in all_rules().items() for word in (code, rule.name)]
    return [word for word in words if word.lower().startswith(incomplete.lower())]


@click.command("rule", cls=Command)
@click.argument("code", required=False, shell_complete=_complete_rules)
@click.option("--all", "everything", is_flag=True, help="Print the page of every rule.")
@_text_or_json
@with_plugins
@with_settings
@with_color
def rule_command(code: str | None, everything: bool, output_format: str, **options: Any) -> None:
    """Print the page of a rule, which is named by its code or its name; without one, list all rules.

    Rules of plug-ins are among them where a check of the current folder would ask them.
    """
    if everything and code is not None:
        raise click.UsageError("name one rule, or give --all")
    exit_with(lambda: _rule(code, everything, output_format, options))


def _rule(code: str | None, everything: bool, output_format: str, options: Mapping[str, Any]) -> int:
    from modellint.settings import SettingsError

    try:
        rules = resolve(Path(), options).rules
    except SettingsError as error:
        # Who reads a page need not have settings that can be read.
        click.echo(f"warning: {error}; settings are left out", err=True)
        rules = resolve(Path(), {**options, "isolated": True, "config": None}).rules
    if everything or code is not None:
        chosen = list(rules.values()) if code is None else [_named_rule(code, rules)]
        shown = _pages(chosen, output_format, everything)
    else:
        from modellint.report import rule_list

        render = rule_list.render_json if output_format == "json" else rule_list.render
        shown = render(list(rules.values()), colored(sys.stdout))
    write(shown, {"output_file": None}, False)
    return 0


def _named_rule(word: str, rules: Mapping[str, Rule]) -> Rule:
    """The rule of a code or a name, in any case; ends the program, with the nearest one, where there is none."""
    from difflib import get_close_matches

    by_word = {word: rule for code, rule in rules.items() for word in (code.lower(), rule.name)}
    asked = word.strip().lower()
    if asked in by_word:
        return by_word[asked]
    family = [code for code in rules if asked and code.lower().startswith(asked)]
    if family:
        fail(f"rule: {word!r} is a family, not a rule: {', '.join(family)}")
    nearest = get_close_matches(asked, by_word, 1, 0.5)
    rule = by_word[nearest[0]] if nearest else None
    hint = f"did you mean {rule.code} ({rule.name})?" if rule else "modellint rule lists all"
    if len(asked) == 6 and not any(code.lower().startswith(asked[:3]) for code in rules):
        hint = "the code may be of a plug-in: --plugin NAME loads it"
    return fail(f"rule: there is no rule {word!r}; {hint}")


def _pages(rules: Sequence[Rule], output_format: str, everything: bool) -> str:
    from modellint.report import rule_list

    if output_format == "json":
        entries = rule_list.entries(rules, with_sections=True)
        return rule_list.dump(entries if everything else entries[0])
    return "\n\n".join(map(rule_list.page, rules))


@click.command("ops", cls=Command)
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option(
    "--coreml-version", metavar="VERSION", help="The version of coremltools to ask about (default: the newest known)."
)
@click.option(
    "--coreai-version", metavar="VERSION", help="The version of coreai-torch to ask about (default: the newest known)."
)
@click.option(
    "--destination",
    type=click.Choice(list(RUNTIMES)),
    default="coreml",
    help="Where models are to go (default: coreml).",
)
@_text_or_json
@with_color
def ops_command(
    names: tuple[str, ...],
    coreml_version: str | None,
    coreai_version: str | None,
    destination: str,
    output_format: str,
) -> None:
    """Tell which operators convert: by which route, since which coremltools, for which target (default: all operators).

    A name is an operator (aten::fmod, fmod), or a function, method or layer (torch.fmod, Tensor.fmod, nn.Hardshrink).
    """
    from modellint import destinations
    from modellint.destinations.destination import UnknownOperator
    from modellint.report import operators
    from modellint.run import all_rules
    from modellint.settings import SettingsError, check_coreai_version, check_version

    rules = all_rules().values()
    try:
        version, other = (coreml_version, coreai_version)[:: 1 if destination == "coreml" else -1]
        if other is not None:
            wrong = "coreai" if destination == "coreml" else "coreml"
            raise SettingsError(f"--{wrong}-version says nothing of --destination {destination}: leave it out")
        if version is not None:
            check = check_version if destination == "coreml" else check_coreai_version
            check(version, f"--{destination}-version")
        supports = destinations.named(destination).operators(
            list(dict.fromkeys(names)),
            version,
            lambda operator: [hint for rule in rules for hint in rule.hints(operator)],
        )
    except (UnknownOperator, SettingsError) as error:
        fail(str(error))
    is_json = output_format == "json"
    shown = operators.render_json(supports) if is_json else operators.render(supports, colored(sys.stdout))
    write(shown, {"output_file": None}, False)


@click.command("config", cls=Command)
@click.argument("path", required=False, type=NamedPath(path_type=Path))
@with_options
@_text_or_json
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the settings instead.")
def config_command(path: Path | None, output_format: str, schema: bool, **options: Any) -> None:
    """Print the settings in force for a file or folder (default: the current one), and where each comes from."""
    if schema:
        from modellint import settings_json_schema

        write(settings_json_schema.text(), {"output_file": None}, False)
        return
    exit_with(lambda: _config((path or Path()).absolute(), output_format == "json", options))


def _config(target: Path, as_json: bool, options: Mapping[str, Any]) -> int:
    from modellint import plugins
    from modellint.run import UsageError
    from modellint.settings import KEYS

    if not target.exists():
        raise UsageError(f"{target}: no such file or folder")
    root, resolver, rules, *_ = job = resolve(target, options)
    settings = resolver.of_folder(target if target.is_dir() else target.parent)
    loaded = {plugin.name for plugin in job.plugins}
    left_out = [name for name in resolver.top.plugins if name not in loaded]
    enabled = [code for code, rule in rules.items() if settings.enables(code, rule.default)]
    values = {key: _plain(key, settings.value(key), as_json) for key in KEYS}
    origins = {key: settings.origins.get(key, "default") for key in KEYS}
    if as_json:
        import json

        told = {
            "root": str(root),
            "settings": None if settings.config is None else str(settings.config),
            "values": {key: {"value": values[key], "origin": origins[key]} for key in KEYS},
            "rules": enabled,
            "plugins": {
                "loaded": [
                    {
                        "name": plugin.name,
                        "origin": plugin.origin,
                        "rules": [code for code, rule in rules.items() if rule.plugin == plugin.name],
                    }
                    for plugin in job.plugins
                ],
                "left_out": left_out,
                "installed": [offer._asdict() for offer in plugins.installed((root, Path.cwd()))],
            },
        }
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    click.echo(f"root = {root}")
    click.echo(f"settings = {settings.config or 'none'}")
    for key, value in values.items():
        click.echo(f"{key} = {value}  # {origins[key]}")
    click.echo(f"rules in force = {' '.join(enabled)}")
    for plugin in job.plugins:
        codes = " ".join(code for code, rule in rules.items() if rule.plugin == plugin.name)
        click.echo(f"plug-in {plugin.name} = {codes}  # {plugin.origin}")
    for name in left_out:
        click.echo(f"plug-in {name} = (left out)  # {resolver.top.origins['plugins']}")
    for offer in plugins.installed((root, Path.cwd())):
        click.echo(f"installed plug-in {offer.name} = {offer.module}  # {offer.package}")
    return 0


def _plain(key: str, value: Any, as_json: bool) -> Any:
    """A setting as lists and words; in JSON with null for none, in text with a word for it."""
    if key == "per-file-ignores":
        return {pattern: list(codes) for pattern, codes in value}
    if key == "models":
        return [{**model._asdict(), "inputs": list(model.inputs)} if as_json else model.target for model in value]
    if isinstance(value, tuple):
        return list(value)
    if value is None and not as_json:
        return {
            "select": "(the default rules)",
            "coreml-version": "(the newest known)",
            "coreai-version": "(the newest known)",
        }.get(key, "(none)")
    return value


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script by which a shell completes modellint's commands, options and codes."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.get_current_context().find_root().command, {}, "modellint", "_MODELLINT_COMPLETE").source())

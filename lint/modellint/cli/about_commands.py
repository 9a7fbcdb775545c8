"""``modellint rule``, ``ops`` and ``config``: pages of rules, operator support, and the settings in force."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.cli.options import NamedPath, fail, resolve, with_options
from modellint.cli.output import colored, write

if TYPE_CHECKING:
    from modellint.rule import Rule


@click.command("rule")
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
                fail(str(error))
            fail(f"rule: {code!r} is a family, not a rule")
        chosen = [rules[code.upper()]]
    write(_pages(chosen, output_format, everything), {"output_file": None}, False)


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


@click.command("ops")
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option(
    "--coreml-version", metavar="VERSION", help="The version of coremltools to ask about (default: the newest known)."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def ops_command(names: tuple[str, ...], coreml_version: str | None, output_format: str) -> None:
    """Tell which operators convert: by which route, since which coremltools, for which target (default: all operators).

    A name is an operator (aten::fmod, fmod), or a function, method or layer (torch.fmod, Tensor.fmod, nn.Hardshrink).
    """
    from modellint import destinations
    from modellint.destinations.destination import UnknownOperator
    from modellint.report import operators
    from modellint.run import all_rules
    from modellint.settings import SettingsError, check_version

    rules = all_rules().values()
    try:
        if coreml_version is not None:
            check_version(coreml_version, "--coreml-version")
        supports = destinations.named("coreml").operators(
            list(dict.fromkeys(names)),
            coreml_version,
            lambda operator: [hint for rule in rules for hint in rule.hints(operator)],
        )
    except (UnknownOperator, SettingsError) as error:
        fail(str(error))
    is_json = output_format == "json"
    shown = operators.render_json(supports) if is_json else operators.render(supports, colored(sys.stdout))
    write(shown, {"output_file": None}, False)


@click.command("config")
@click.argument("path", required=False, type=NamedPath(path_type=Path))
@with_options
def config_command(path: Path | None, **options: Any) -> None:
    """Print the settings in force for a file or folder (default: the current one), and where each comes from."""
    from modellint.rule import RuleError
    from modellint.run import UsageError
    from modellint.settings import KEYS, SettingsError

    target = (path or Path()).absolute()
    try:
        if not target.exists():
            raise UsageError(f"{path}: no such file or folder")
        root, resolver, rules = resolve(target, options)
        settings = resolver.of_folder(target if target.is_dir() else target.parent)
    except (SettingsError, UsageError, RuleError) as error:
        fail(str(error))
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

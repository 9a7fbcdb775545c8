"""What ``--help`` shows: options in groups, examples, exit codes; and what is told of a command that there is not."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click import Context, HelpFormatter

SUMMARIES = {
    "check": "Find mistakes in files and in models, and fix them.",
    "clean": "Remove the cache.",
    "completion": "Print the script that completes commands in a shell.",
    "config": "Tell which settings are in force, and where each comes from.",
    "export": "Fix a copy of a model, convert it, and write what agrees.",
    "init": "Set modellint up in a project: settings, hook, workflow.",
    "new-rule": "Write a rule of your own, with its page and test.",
    "ops": "Tell which operators convert, and what to write instead.",
    "report": "Show a sweep as a static site, and what changed since another.",
    "rule": "List the rules, or explain one.",
    "server": "Serve an editor: findings and fixes as you type.",
    "shapes": "Show what every layer of a model takes and gives.",
    "sweep": "Check, verify or export many models; a row for each in one file.",
    "verify": "Convert a model, execute the result, compare it with PyTorch.",
}
"""Each command in a line."""

GROUPS = {
    "Rules": "select ignore extend_select plugin trust_plugins everything",
    "Fixes": "fix unsafe_fixes show_diff",
    "Old code": "baseline write_baseline add_ignore",
    "Files": "exclude force_exclude show_files stdin_filename",
    "Model": (
        "catalogues actions inputs constants random_inputs image images state states labels checkpoint models reference record recorded "
        "seed timeout memory"
    ),
    "Core ML": "destination deployment_target coreml_version coreai_version frontend precision",
    "Package": (
        "output force output_names author license description model_version input_description output_description"
    ),
    "Language model": "form context",
    "Pipeline": "chain",
    "Table": "depth flat",
    "Setup": "parts requirement yes rule_name kind",
    "Output": "against title outputs output_format output_file schema statistics color quiet verbose",
    "Exit status": "fail_level exit_zero exit_non_zero_on_fix",
    "Settings, cache and processes": "config isolated no_cache cache_live cache_dir jobs workers scheduler resume watch",
    "Help": "version",
}
"""The parameters of commands by what they are for."""

_FEW = 8
_LIVE = "model.py:Net --input 1x3x224x224"
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("modellint check", "look for mistakes below the current folder"),
        ("modellint check --fix model.py", "fix what is safe to fix"),
        (f"modellint check {_LIVE}", "look at a model itself"),
        (f"modellint export {_LIVE} -o Net.mlpackage", "write what agrees with PyTorch"),
    ),
    "check": (
        ("modellint check", "everything below the current folder"),
        ("modellint check --diff src model.py", "what fixes would change"),
        (f"modellint check {_LIVE}", "a model, built and run"),
        ("modellint check --select REG,OPS004 --statistics", "how often these rules fire"),
        ("modellint check --baseline known.json", "only what is new since known.json"),
        ("modellint check --output-format full --output-format sarif=found.sarif", "for people, and for programs"),
    ),
    "clean": (("modellint clean", "the caches below the current folder"),),
    "completion": (
        ('eval "$(modellint completion bash)"', "in ~/.bashrc"),
        ('eval "$(modellint completion zsh)"', "in ~/.zshrc, below compinit"),
        ("modellint completion fish | source", "in ~/.config/fish/config.fish"),
    ),
    "config": (
        ("modellint config src/model.py", "for this file"),
        ("modellint config --output-format json", "for programs"),
    ),
    "export": (
        (f"modellint export {_LIVE} -o Net.mlpackage", "fixed sizes"),
        ("modellint export model.py:Net --input 1..8x3x224x224 -o Net.mlpackage", "a flexible batch"),
        ("modellint export model.py:make --as language-model -o Net.mlpackage", "prefill and decode"),
        ("modellint export sd.py:denoiser sd.py:decoder --chain sd.py:run -o packages", "a pipeline, end to end"),
    ),
    "init": (
        ("modellint init", "ask before each file"),
        ("modellint init --yes --only settings --only hook", "without asking"),
    ),
    "new-rule": (
        ("modellint new-rule ABC001 --plugin my_rules --name no-todo", "into the folder my_rules"),
        ("modellint new-rule ABC002 --plugin my_rules --about node", "one that is written with libcst"),
    ),
    "ops": (
        ("modellint ops fmod nn.Hardshrink", "two of them"),
        ("modellint ops --output-format json", "all, for programs"),
    ),
    "rule": (
        ("modellint rule", "all rules, a line each"),
        ("modellint rule REG001", "the page of a rule, by its code"),
        ("modellint rule module-in-list", "or by its name"),
    ),
    "report": (
        ("modellint report sweep.sqlite -o site", "a site, to be opened at site/index.html"),
        ("modellint report new.sqlite --against old.sqlite", "what changed; 1 where something is lost"),
    ),
    "server": (
        ("modellint server", "as editors start it"),
        ("modellint server --tcp 127.0.0.1:8765", "for one that connects"),
    ),
    "shapes": (("modellint shapes model.py:Net --input 1..4x3x224x224", "a flexible batch stays a symbol"),),
    "sweep": (
        ("modellint sweep zoo.py:models --do export -o sweep.sqlite", "all models that a function yields"),
        ("modellint sweep --catalogue timm --do check,export -o timm.sqlite", "a package's models, in small"),
        ("modellint sweep zoo.py:models -o sweep.sqlite --resume", "go on where it was"),
    ),
    "verify": (
        (f"modellint verify {_LIVE}", "a model"),
        (f"modellint verify Net.mlpackage --reference {_LIVE}", "a saved package"),
        (
            "modellint verify Net.mlpackage --reference model.py:Net --input 1x3x224x224 --record case",
            "a case for a Mac",
        ),
        ("modellint verify Net.mlpackage --recorded case", "what the Mac predicted"),
    ),
}
STATUSES = {
    "check": (
        ("0", "nothing found at or above --fail-level (default: warning)"),
        ("1", "something found; with --diff, something to fix"),
        ("2", "a wrong request or wrong settings, or something named was not checked"),
    ),
    "export": (("0", "written"), ("1", "it does not convert, or does not agree"), ("2", "a wrong request")),
    "server": (("0", "the editor ended it"), ("1", "the editor was gone"), ("2", "a wrong request")),
    "report": (
        ("0", "told; with --against, nothing is lost"),
        ("1", "with --against, something is lost"),
        ("2", "a wrong request"),
    ),
    "shapes": (("0", "every layer has its shapes"), ("1", "something stands in the way"), ("2", "a wrong request")),
    "sweep": (("0", "every target has its rows"), ("2", "a wrong request, or targets that cannot be listed")),
    "verify": (("0", "agrees"), ("1", "does not convert, differs or is undecided"), ("2", "a wrong request")),
}
_RANGE = re.compile(r"\s*\[[^\[\]]*x[<>][^\[\]]*\]\Z|\s*\[[^\[\]]*[<>]=?x[^\[\]]*\]\Z")


def write_options(command: click.Command, context: Context, formatter: HelpFormatter) -> None:
    """The options of a command, by what they are for."""
    for group, records in _grouped(command, context).items():
        with formatter.section(group):
            formatter.write_dl(records)


def _grouped(command: click.Command, context: Context) -> dict[str, list[tuple[str, str]]]:
    """The options of a command with their help, by what they are for; a few of them all together."""
    group_of = {name: group for group, names in GROUPS.items() for name in names.split()}
    records: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "Other")}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None and parameter.name is not None:
            # What a number may be is told where it is not.
            entry = (record[0], _RANGE.sub("", record[1]))
            # The name of the parameter is click's own matter.
            is_help = not {*parameter.opts}.isdisjoint(context.help_option_names)
            records["Help" if is_help else group_of.get(parameter.name, "Other")].append(entry)
    if sum(map(len, records.values())) < _FEW:
        return {"Options": [entry for entries in records.values() for entry in entries]}
    return {group: entries for group, entries in records.items() if entries}


def reference(commands: click.Group) -> str:
    """Every command with its options, examples and exit codes, as a page of documentation."""
    context = click.Context(commands, info_name="modellint", **commands.context_settings)
    parts: list[str] = []
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        usage = " ".join(command.collect_usage_pieces(inner))
        text = inspect.cleandoc(command.help or "")
        parts.append(f"## modellint {name}\n\n```\nmodellint {name} {usage}\n```\n\n{text}\n")
        for group, records in _grouped(command, inner).items():
            rows = "".join(f"| `{_cell(option)}` | {_plain(_cell(what))} |\n" for option, what in records)
            parts.append(f"| {group} | |\n|---|---|\n{rows}")
        examples = "".join(f"{line}  # {what}\n" for line, what in EXAMPLES[name])
        parts.append(f"```sh\n{examples}```\n")
        if name in STATUSES:
            parts.append("".join(f"- exit code {code}: {what}\n" for code, what in STATUSES[name]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    """The text without what Markdown takes for a link."""
    return text.replace("[", "\\[")


def write_commands(names: Sequence[str], formatter: HelpFormatter) -> None:
    """The commands, a line each; none is imported."""
    with formatter.section("Commands"):
        formatter.write_dl([(name, SUMMARIES[name]) for name in names])


def write_epilog(name: str, formatter: HelpFormatter) -> None:
    """Examples and exit codes of a command; of all for the empty name."""
    with formatter.section("Examples"):
        for line, what in EXAMPLES[name]:
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n{'':>{formatter.current_indent + 4}}{what}\n")
    if name in STATUSES:
        with formatter.section("Exit codes"):
            formatter.write_dl(STATUSES[name])


def unknown_command(name: str, names: Sequence[str]) -> str:
    """What is said of a command that there is not."""
    from difflib import get_close_matches

    if close := get_close_matches(name.lower(), names, 1, 0.5):
        return f"there is no command {name!r}; did you mean {close[0]!r}?"
    if os.path.exists(name.rpartition(":")[0] or name) or os.path.exists(name):  # noqa: PTH110
        return f"there is no command {name!r}; what is to be checked comes after `check`: modellint check {name}"
    return f"there is no command {name!r}; the commands are {', '.join(names)}"

"""Writes what is generated from the rules: the table in the README, and the pages of the site.

python docs/make.py table [--check]    the README's table, or fail if it is not current
python docs/make.py pages [PLUGIN...]  docs/rules/*.md, which are not committed; with the rules of these plug-ins
python docs/make.py examples           the fixed twins in examples/fixed
python docs/make.py settings           the JSON Schema of the settings, and the tables of docs/settings.md and docs/command-line.md
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from modellint import settings_schema
from modellint.cli import cli, help_pages
from modellint.plugins import choose
from modellint.rule import Page
from modellint.run import all_rules
from modellint.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
_BEGIN, _END = "<!-- generated -->\n", "<!-- /generated -->"
_TABLE = re.compile(r"(<!-- rules -->\n).*?(<!-- /rules -->)", re.DOTALL)


def table() -> str:
    """The README's table: a line a rule."""
    lines = ["| code | name | severity | fix | what it finds |", "|---|---|---|---|---|"]
    for code, rule in all_rules().items():
        summary = Page.of(type(rule)).summary.replace("\n", " ").rstrip(".")
        lines.append(f"| {code} | {rule.name} | {rule.severity.label} | {rule.fixable or '–'} | {summary} |")
    return "\n".join(lines) + "\n"


def readme() -> str:
    """The README's text with a current table."""
    text = (ROOT / "README.md").read_text("utf-8")
    return _TABLE.sub(lambda match: match[1] + table() + match[2], text)


def write_pages(plugins: list[str], folder: Path = ROOT / "docs" / "rules") -> None:
    """A page for each rule, for the site."""
    folder.mkdir(exist_ok=True)
    chosen = choose(Settings(ROOT), ROOT, plugins, isolated=True)
    for code, rule in all_rules(chosen.plugins).items():
        page = Page.of(type(rule))
        parts = [f"# {rule.name} ({code})", page.summary]
        parts.extend(f"## {title}\n\n{body}" for title, body in page.sections.items())
        (folder / f"{code.lower()}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def write_examples() -> None:
    """What ``modellint check --fix`` makes of each example."""
    for source in sorted((ROOT / "examples").glob("*.py")):
        command = [sys.executable, "-m", "modellint", "check", "--isolated", "--fix", "--exit-zero"]
        done = subprocess.run(
            [*command, "-", "--stdin-filename", str(source)], input=source.read_bytes(), capture_output=True, check=True
        )
        (ROOT / "examples" / "fixed" / source.name).write_bytes(done.stdout)


def settings_table() -> str:
    """A line a setting."""
    lines = ["| setting | what it means | default |", "|---|---|---|"]
    for key, description in settings_schema.SETTINGS.items():
        choices = settings_schema.CHOICES.get(key, ())
        default = f"`{description.default}`" if description.default in choices else description.default
        words = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
        lines.append(f"| `{key}` | {description.meaning}{words} | {default} |")
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """What is generated from the settings and the commands, by file."""
    texts = {settings_schema.FILE: settings_schema.generate(all_rules())}
    for name, content in (("settings.md", settings_table()), ("command-line.md", help_pages.reference(cli))):
        path = ROOT / "docs" / name
        before, _, rest = path.read_text("utf-8").partition(_BEGIN)
        texts[path] = f"{before}{_BEGIN}{content}{_END}{rest.partition(_END)[2]}"
    return texts


def main() -> int:
    """Run one of the commands."""
    match sys.argv[1:]:
        case ["table"]:
            (ROOT / "README.md").write_text(readme(), "utf-8")
        case ["table", "--check"]:
            if (ROOT / "README.md").read_text("utf-8") != readme():
                print("README.md: the table of rules is not current: run `python docs/make.py table`", file=sys.stderr)
                return 1
        case ["pages", *plugins]:
            write_pages(plugins)
        case ["settings"]:
            for path, text in generated().items():
                path.write_text(text, "utf-8")
        case ["examples"]:
            write_examples()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

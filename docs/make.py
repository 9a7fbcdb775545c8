"""Writes what is generated from the code: the pages of the rules, and parts of other pages.

python docs/make.py pages [PLUGIN...]  docs/rules/*.md, which are not committed: the site needs them; with the rules of these plug-ins
python docs/make.py examples           the fixed twins in examples/fixed
python docs/make.py settings           the JSON Schema of the settings, and the tables of docs/settings.md and docs/command-line.md
python docs/make.py faults             the tables of docs/coremltools-faults.md, docs/coremltools-reports.md and docs/coreai-faults.md
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from modellint import settings_json_schema
from modellint.cli import cli, help_pages
from modellint.measure import coreai_fault_page, fault_pages
from modellint.plugins import choose
from modellint.rule import Page, Rule
from modellint.run import all_rules
from modellint.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
_BEGIN, _END = "<!-- generated -->\n", "<!-- /generated -->"
RULES = ROOT / "docs" / "rules"
_FAMILIES = {
    "REG": "Registration: state that PyTorch does not see",
    "MUT": "Mutation: writes that a conversion loses",
    "OPS": "Operators: what Core ML lacks or reads otherwise",
    "SHP": "Shapes",
    "FLW": "Flow: what a trace freezes",
    "NUM": "Numbers: what float16 and int32 cannot hold",
    "MOD": "Mode: what is on in evaluation too",
    "DEV": "Devices",
    "SIG": "Signatures: what a model takes and returns",
    "ENV": "The environment",
    "LNT": "The check itself",
}
"""What the rules of a family are about, by the beginning of their codes."""


def _shown(page: Page) -> str:
    return page.summary.replace("\n", " ")


def index(rules: Mapping[str, Rule]) -> str:
    """The page that lists rules."""
    parts = [
        "# Rules",
        f"{len(rules)} rules. The fix is what `--fix` puts in, or `--unsafe-fixes` where it may change what the code"
        " does; the page of a rule says which. `modellint rule CODE` prints a page, `modellint rule` lists all.",
    ]
    for family in [*_FAMILIES, *sorted({code[:3] for code in rules} - set(_FAMILIES))]:
        lines = ["| code | name | severity | fix | what it finds |", "|---|---|---|---|---|"]
        for code, rule in rules.items():
            if code.startswith(family):
                summary, link = _shown(Page.of(rule.__class__)).rstrip("."), f"[{rule.name}]({rule.name}.md)"
                lines.append(f"| {code} | {link} | {rule.severity.label} | {rule.fixable or '–'} | {summary} |")
        parts += [f"## {_title(family)}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _title(code: str) -> str:
    return _FAMILIES.get(code[:3], f"{code[:3]}: rules of a plug-in")


def pages(rules: Mapping[str, Rule]) -> dict[str, str]:
    """The page of each rule and that which lists them, by file name. A rule's page is called as the setting `docs-url` wants it."""
    texts = {"index.md": index(rules)}
    for code, rule in rules.items():
        page = Page.of(rule.__class__)
        scope = rule.scope or "for every destination"
        about = f"[{_title(code)}](index.md) · {rule.severity.label} · fix: {rule.fixable or 'none'} · {scope}"
        parts = [f"# {rule.name} ({code})", page.summary, about]
        parts.extend(f"## {title}\n\n{body}" for title, body in page.sections.items())
        texts[f"{rule.name}.md"] = "\n\n".join(parts) + "\n"
    return texts


def write_pages(rules: Mapping[str, Rule], folder: Path = RULES) -> None:
    """The pages of rules, and none of others."""
    folder.mkdir(exist_ok=True)
    texts = pages(rules)
    for file in folder.glob("*.md"):
        if file.name not in texts:
            file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")


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
    for key, description in settings_json_schema.SETTINGS.items():
        choices = settings_json_schema.CHOICES.get(key, ())
        default = f"`{description.default}`" if description.default in choices else description.default
        words = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
        lines.append(f"| `{key}` | {description.meaning}{words} | {default} |")
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """What is generated from the settings and the commands, by file."""
    texts = {settings_json_schema.FILE: settings_json_schema.generate(all_rules())}
    for name, content in (("settings.md", settings_table()), ("command-line.md", help_pages.reference(cli))):
        path = ROOT / "docs" / name
        before, _, rest = path.read_text("utf-8").partition(_BEGIN)
        texts[path] = f"{before}{_BEGIN}{content}{_END}{rest.partition(_END)[2]}"
    return texts


def faults() -> dict[Path, str]:
    """The pages of the converters' faults, by file: the tables of one, between markers with their names, and all of the others."""
    path = ROOT / "docs" / "coremltools-faults.md"
    text = path.read_text("utf-8")
    for name, content in fault_pages.tables().items():
        before, begin, rest = text.partition(f"<!-- generated: {name} -->\n")
        text = f"{before}{begin}{content}{_END}{rest.partition(_END)[2]}"
    return {
        path: text,
        ROOT / "docs" / "coremltools-reports.md": fault_pages.reports(),
        ROOT / "docs" / "coreai-faults.md": coreai_fault_page.page(),
    }


def main() -> int:
    """Run one of the commands."""
    match sys.argv[1:]:
        case ["pages", *plugins]:
            chosen = choose(Settings(ROOT), ROOT, plugins, isolated=True)
            write_pages(all_rules(chosen.plugins))
        case ["settings"]:
            for path, text in generated().items():
                path.write_text(text, "utf-8")
        case ["faults"]:
            for path, text in faults().items():
                path.write_text(text, "utf-8")
        case ["examples"]:
            write_examples()
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

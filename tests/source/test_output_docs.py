"""The pages on outputs and CI: every command in them prints what they say, every example is one that its reader takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from modellint.cli import cli
from modellint.settings import FORMATS

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUTS = (ROOT / "docs" / "outputs.md").read_text("utf-8")
CI = (ROOT / "docs" / "ci.md").read_text("utf-8")
RUNS = re.findall(r"```console\n\$ modellint ([^\n]+)\n(.*?)```", OUTPUTS, re.DOTALL)
EXAMPLES = re.findall(r"```yaml\n(.*?)```", CI, re.DOTALL)


@pytest.mark.parametrize(("command", "expected"), RUNS, ids=[command.split()[-1] for command, _ in RUNS])
def test_commands_print_what_the_page_says(command: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    done = CliRunner().invoke(cli, [*command.split(), "--no-cache"])
    # `json-lines` names files absolutely, as JSON does.
    assert done.stdout.replace(f"{ROOT}/", "/home/me/project/") == expected


def test_every_format_is_listed() -> None:
    assert re.findall(r"(?m)^\| `([\w-]+)` \|", OUTPUTS) == list(FORMATS)


def test_inputs_of_the_action_are_listed() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    listed = re.findall(r"(?m)^\| `([\w-]+)` \| (?:`(.+?)`)? ?\|", CI)
    assert dict(listed) == {name: spec["default"] for name, spec in action["inputs"].items()}
    for example in EXAMPLES:
        for step in (yaml.safe_load(example).get("jobs") or {}).get("modellint", {}).get("steps", ()):
            if step.get("uses", "").startswith("REPOSITORY"):
                assert set(step["with"]) <= set(action["inputs"])


def test_examples_keep_to_the_schemas_of_who_reads_them(tmp_path: Path) -> None:
    schemas = ["github-workflows", "github-workflows", "gitlab-ci", None]
    assert len(EXAMPLES) == len(schemas)
    for schema, example in zip(schemas, EXAMPLES, strict=True):
        file = tmp_path / "example.yml"
        file.write_text(
            example.replace("REPOSITORY@", "owner/modellint@").replace("REPOSITORY", "example.org"), "utf-8"
        )
        if schema is None:
            (hooks,) = yaml.safe_load(example)["repos"]
            known = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
            assert {hook["id"] for hook in hooks["hooks"]} <= known
            continue
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout

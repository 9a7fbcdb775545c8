"""What the command line says of itself, and how settings are put together."""

from __future__ import annotations

import difflib
import json
import os
import runpy
import stat
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner, Result

from modellint import settings_json_schema
from modellint.adoption import project_files
from modellint.cli import cli
from modellint.run import all_rules
from modellint.settings import KEYS

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = cli.list_commands(click.Context(cli))
BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    return tmp_path


def run(*arguments: str, stdin: str | None = None, color: bool = False) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin, color=color)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_every_option_in_a_group_and_examples(command: str) -> None:
    shown = run(*filter(None, [command]), "--help").stdout
    assert "\nExamples:\n" in shown
    assert "\nOther:\n" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_examples_of_help_are_accepted_options() -> None:
    from modellint.cli.help_pages import EXAMPLES

    for examples in EXAMPLES.values():
        for line, _ in examples:
            words = line.removeprefix('eval "$(').split()
            command = cli.get_command(click.Context(cli), words[1].rstrip(')"'))
            assert command is not None, line
            known = {name for parameter in command.params for name in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chek"], "did you mean 'check'?"),
        (["net.py"], "modellint check net.py"),
        (["net.py:Net"], "modellint check net.py:Net"),
        (["check", "--slect", "REG"], "--select"),
        (["check", "--select", "reg0001"], "did you mean 'REG001'?"),
        (["rule", "module-in-lst"], "did you mean REG001 (module-in-list)?"),
        (["rule", "reg"], "is a family"),
    ],
)
def test_nearest_is_told(project: Path, arguments: list[str], told: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_codes_in_any_case_and_rules_by_name(project: Path) -> None:
    assert run("check", "--select", "reg001").exit_code == 1
    assert run("check", "--ignore", "rEg").exit_code == 0
    (project / "pyproject.toml").write_text('[tool.modellint]\nignore = ["reg001"]\n', "utf-8")
    assert run("check").exit_code == 0
    assert run("rule", "Module-In-List").stdout == run("rule", "reg001").stdout == run("rule", "REG001").stdout


def test_rule_lists_all() -> None:
    lines = run("rule").stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(all_rules())
    listed = json.loads(run("rule", "--output-format", "json").stdout)
    assert [entry["code"] for entry in listed] == list(all_rules())
    assert run("rule", "REG001", "--all").exit_code == 2


def test_color(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for arguments in (["check"], ["check", "--diff"], ["rule"]):
        assert "\x1b[" not in run(*arguments).stdout
        assert "\x1b[" in run(*arguments, "--color", "always").stdout
        assert "\x1b[" in run("--color", "always", *arguments).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("check", "--color", "auto").stdout
    assert "\x1b[" not in run("check", "--color", "never").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", "--diff").stdout
    assert "\x1b[" not in run("check", "--color", "always", "--output-file", "out.txt").stdout
    assert "\x1b[" not in (project / "out.txt").read_text("utf-8")


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="there is no bash")
def test_completion_in_bash(tmp_path: Path) -> None:
    program = tmp_path / "modellint"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m modellint "$@"\n', "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = (
        'eval "$(modellint completion bash)"\n'
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _modellint_completion modellint; echo "${COMPREPLY[*]}"; }\n'
        "try modellint che\ntry modellint check --select REG00\ntry modellint rule module-in-l\ntry modellint check --color n\n"
        "try modellint check --output-format js\n"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True)
    codes = " ".join(f"REG00{number}" for number in range(1, 10))
    assert done.stdout.splitlines() == ["check", codes, "module-in-list", "never", "json json-lines"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_MODELLINT_COMPLETE" in run("completion", shell).stdout


def test_files_and_exclude(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "other.py").write_text("", "utf-8")
    both = [str(project / "net.py"), str(project / "sub" / "other.py")]
    assert run("check", "--show-files").stdout.splitlines() == both
    assert run("check", "--show-files", "--exclude", "sub, nothing").stdout.splitlines() == both[:1]
    (project / "pyproject.toml").write_text('[tool.modellint]\nexclude = ["sub"]\n', "utf-8")
    assert run("check", "--show-files").stdout.splitlines() == both[:1]
    assert run("check", "--show-files", "--exclude", "net.py").stdout.splitlines() == both[1:]
    assert run("check", "--show-files", "nowhere").exit_code == 2
    assert run("check", "--show-files", "--fix").exit_code == 2


def test_extend(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared" / "more.toml").write_text('ignore = ["SHP"]\nfail-level = "error"\n', "utf-8")
    (project / "shared" / "base.toml").write_text(
        'extend = "more.toml"\nignore = ["REG002"]\nprecision = "fp32"\nper-file-ignores = { "sub/*" = ["MUT"] }\n',
        "utf-8",
    )
    own = project / "pyproject.toml"
    own.write_text('[tool.modellint]\nextend = "shared/base.toml"\nignore = ["reg001"]\nprecision = "fp16"\n', "utf-8")
    values = json.loads(run("config", "--output-format", "json").stdout)["values"]
    assert values["ignore"]["value"] == ["SHP", "REG002", "REG001"]
    assert values["precision"] == {"value": "fp16", "origin": str(own)}
    assert values["fail-level"] == {"value": "error", "origin": str(project / "shared" / "more.toml")}
    assert values.keys() == {*KEYS}
    assert run("check").exit_code == 0
    own.write_text('[tool.modellint]\nextend = "shared/base.toml"\nselect = ["REG"]\n', "utf-8")
    assert json.loads(run("config", "--output-format", "json").stdout)["values"]["ignore"]["value"] == []
    # Patterns are relative to the file they stand in.
    (project / "shared" / "sub").mkdir()
    (project / "shared" / "sub" / "net.py").write_text(BAD, "utf-8")
    (project / "shared" / "more.toml").write_text('per-file-ignores = { "sub/*" = ["REG"] }\n', "utf-8")
    (project / "shared" / "base.toml").write_text('extend = "more.toml"\n', "utf-8")
    assert run("check", "shared/sub/net.py").exit_code == 0
    assert run("check", "net.py").exit_code == 1


@pytest.mark.parametrize("name", ["a circle", "nowhere.toml"])
def test_extend_that_leads_nowhere(project: Path, name: str) -> None:
    (project / "a.toml").write_text('extend = "pyproject.toml"\n', "utf-8")
    file = "a.toml" if name == "a circle" else name
    (project / "pyproject.toml").write_text(f'[tool.modellint]\nextend = "{file}"\n', "utf-8")
    done = run("check")
    assert done.exit_code == 2
    assert name in done.stderr


def test_schema() -> None:
    schema = json.loads(run("config", "--schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["properties"].keys() == {*KEYS}
    validator = jsonschema.Draft7Validator(schema)
    good = {
        "select": ["ALL", "reg", "REG001", "XYZ900"],
        "per-file-ignores": {"tests/**": ["REG"]},
        "deployment-target": "iOS17",
        "baseline": "known.json",
        "models": [{"target": "net.py:Net", "inputs": ["1x3"]}],
    }
    assert list(validator.iter_errors(good)) == []
    for wrong in (
        {"slect": []},
        {"select": "REG"},
        {"precision": "fp8"},
        {"models": [{"inputs": []}]},
        {"ignore": ["a-b"]},
    ):
        assert list(validator.iter_errors(wrong)), wrong


def test_generated_files_are_current() -> None:
    make = runpy.run_path(str(ROOT / "docs" / "make.py"))
    for path, text in make["generated"]().items():
        assert path.read_text("utf-8") == text, f"run `python docs/make.py settings` for {path.name}"


def test_every_setting_is_described() -> None:
    assert settings_json_schema.SETTINGS.keys() == {*KEYS}


def test_init_adds_and_changes_nothing(project: Path) -> None:
    pyproject, hooks = project / "pyproject.toml", project / ".pre-commit-config.yaml"
    pyproject.write_bytes(b'[project]\r\nname = "x"  # \xc3\xa9')
    hooks.write_text(
        "# top\nrepos:\n  - repo: local\n    hooks:\n      - {id: a, name: a, entry: 'true', language: system}\n\n# ci\nci: {}\n",
        "utf-8",
    )
    before = {path: path.read_bytes() for path in (pyproject, hooks)}
    assert run("init", "--yes").exit_code == 0
    assert pyproject.read_bytes().startswith(before[pyproject] + b"\r\n\r\n[tool.modellint]\r\n")
    changes = difflib.ndiff(before[hooks].decode().splitlines(), hooks.read_text("utf-8").splitlines())
    assert not [line for line in changes if line.startswith("- ")]
    assert [entry["hooks"][0]["id"] for entry in yaml.safe_load(hooks.read_text("utf-8"))["repos"]] == [
        "a",
        "modellint",
    ]
    assert run("check", "net.py").exit_code == 1
    after = {path: path.read_bytes() for path in (pyproject, hooks)}
    assert run("init", "--yes").exit_code == 0
    assert {path: path.read_bytes() for path in after} == after


def test_init_asks(project: Path) -> None:
    assert run("init", "--only", "settings", stdin="n\n").exit_code == 0
    assert (project / "pyproject.toml").read_bytes() == b""
    nobody = run("init", "--only", "settings", stdin="")
    assert nobody.exit_code == 2
    assert "--yes" in nobody.stderr
    assert run("init", "--only", "settings", stdin="y\n").exit_code == 0
    assert "[tool.modellint]" in (project / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize(
    "text", ["repos: []\n", "repos: [{repo: meta, hooks: []}]\n", "- a\n", "repos:\n", "a: |\n  repos:\n"]
)
def test_init_leaves_alone_what_it_does_not_understand(project: Path, text: str) -> None:
    hooks = project / ".pre-commit-config.yaml"
    hooks.write_text(text, "utf-8")
    done = run("init", "--yes", "--only", "hook")
    assert hooks.read_text("utf-8") == text
    assert "add this to it" in done.stdout


@pytest.mark.parametrize("text", ["[tool]\nmodellint = 1\n", "tool = { x = 1 }\n", "[tool\n"])
def test_init_leaves_settings_alone(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text, "utf-8")
    run("init", "--yes", "--only", "settings")
    assert (project / "pyproject.toml").read_text("utf-8") == text


def test_init_writes_a_workflow_that_installs_what_can_be_installed(project: Path) -> None:
    assert project_files.workflow(project, None).after is None
    assert (
        run("init", "--yes", "--only", "workflow", "--requirement", "modellint @ git+https://example.org/m's").exit_code
        == 0
    )
    written = yaml.safe_load((project / ".github" / "workflows" / "modellint.yml").read_text("utf-8"))
    steps = [step["run"] for step in written["jobs"]["modellint"]["steps"] if "run" in step]
    install = subprocess.run(
        ["sh", "-c", f"pip() {{ printf '%s' \"$2\"; }}; {steps[0]}"], capture_output=True, text=True
    )
    assert install.stdout == "modellint @ git+https://example.org/m's"
    assert steps[1].startswith("modellint check")


@pytest.mark.parametrize(
    ("note", "requirement"),
    [
        (None, "modellint==9.8.7"),
        ({"url": "file:///src/modellint", "dir_info": {"editable": True}}, None),
        ({"url": "file:///src/modellint-1.whl", "archive_info": {}}, None),
        ({"url": "https://me:secret@example.org/m.whl", "archive_info": {}}, "modellint @ https://example.org/m.whl"),
        (
            {"url": "https://me@example.org/m.git", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}},
            "modellint @ git+https://example.org/m.git@0123abc",
        ),
    ],
)
def test_where_modellint_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: object, requirement: str | None
) -> None:
    folder = tmp_path / "modellint-9.8.7.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: modellint\nVersion: 9.8.7\n", "utf-8")
    if note is not None:
        (folder / "direct_url.json").write_text(json.dumps(note), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert project_files.installed_from().requirement == requirement


def test_hook_of_a_repository(project: Path) -> None:
    source = project_files.Source("modellint", "https://example.org/m", "0123abc")
    (entry,) = yaml.safe_load(project_files.hook(project, source).added)["repos"]
    assert (entry["repo"], entry["rev"]) == ("https://example.org/m", "0123abc")
    declared = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert {hook["id"] for hook in entry["hooks"]} <= {hook["id"] for hook in declared}


def test_clean_removes_caches_and_nothing_else(project: Path) -> None:
    run("check")
    cache = project / ".modellint_cache"
    assert cache.is_dir()
    (project / "sub").mkdir()
    (project / "sub" / "pyproject.toml").write_text("", "utf-8")
    (project / "sub" / "net.py").write_text(BAD, "utf-8")
    run("check", "sub")
    other = project / "sub" / ".modellint_cache"
    (other / "mine").write_text("", "utf-8")
    (project / "link").mkdir()
    (project / "link" / ".modellint_cache").symlink_to(project / "sub")
    assert run("clean").exit_code == 0
    assert not cache.exists()
    assert [path.name for path in other.iterdir()] == ["mine"]
    assert (project / "sub" / "net.py").exists()
    assert "There is no cache" in run("clean", "link").stdout

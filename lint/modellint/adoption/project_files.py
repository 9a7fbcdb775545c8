"""What ``modellint init`` adds to a project: a settings table, a hook, a workflow; nothing that is there is changed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

from modellint.settings import SettingsError

PARTS = ("settings", "hook", "workflow")
_TABLE = """\
# `modellint config` lists all settings with what is in force; `modellint rule` lists the rules.
ignore = []
exclude = []
deployment-target = "iOS15"
"""
_LOCAL_HOOK = """\
# Runs the modellint that is installed where you commit.
- repo: local
  hooks:
    - id: modellint
      name: modellint
      entry: modellint check --force-exclude
      language: system
      types_or: [python, jupyter]
      require_serial: true
"""
_HOOK = """\
- repo: {url}
  rev: {revision}
  hooks:
    - id: modellint
"""
_WORKFLOW = """\
name: modellint
on: [push, pull_request]
permissions:
  contents: read
jobs:
  modellint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: {install}
      - run: modellint check --output-format github
"""
_REPOS = re.compile(r"repos:[ \t]*(#.*)?\r?\n?\Z")
_ITEM = re.compile(r"( *)-(\s|\Z)")


class Addition(NamedTuple):
    """A file as it is, and as it would be with more text in it."""

    part: str
    path: Path
    before: bytes | None = None
    """None where there is no such file."""
    after: bytes | None = None
    """None where nothing is to be written."""
    added: str = ""
    why_not: str = ""
    """Why nothing is to be written, and what to do."""


class Source(NamedTuple):
    """Where a program can install modellint from: what pip takes, and the repository and revision, if it is one."""

    requirement: str | None
    url: str | None = None
    revision: str | None = None


def installed_from() -> Source:
    """Where the modellint that runs was installed from, as pip noted it (PEP 610); a folder of this machine is of no use to others."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit, urlunsplit

    try:
        installed = distribution("modellint")
        note = installed.read_text("direct_url.json")
    except PackageNotFoundError:
        return Source(None)
    if note is None:
        return Source(f"modellint=={installed.version}")
    told: dict[str, Any] = json.loads(note)
    parts = urlsplit(str(told.get("url", "")))
    if parts.scheme not in ("http", "https", "ssh"):
        return Source(None)
    # Who installs with a password does not want to publish it.
    host = parts.netloc.rpartition("@")[2] if parts.scheme != "ssh" else parts.netloc
    url = urlunsplit((parts.scheme, host, parts.path, "", ""))
    git = told.get("vcs_info", {})
    if git.get("vcs") == "git":
        return Source(f"modellint @ git+{url}@{git['commit_id']}", url, str(git["commit_id"]))
    return Source(f"modellint @ {url}")


def settings(root: Path) -> Addition:
    """A settings table in pyproject.toml, or modellint.toml where there is none. Raises ``SettingsError``."""
    own, shared = root / "modellint.toml", root / "pyproject.toml"
    if own.exists():
        return Addition("settings", own, why_not="it is there already")
    before = _bytes(shared)
    if before is None:
        return Addition("settings", own, None, _TABLE.encode(), _TABLE)
    known = _toml(shared, before)
    if "modellint" in known.get("tool", {}):
        return Addition("settings", shared, why_not="[tool.modellint] is there already")
    added = f"[tool.modellint]\n{_TABLE}"
    after = _appended(before, added, gap=True)
    try:
        grown = _toml(shared, after)
        grown.get("tool", {}).pop("modellint")
    except (SettingsError, KeyError):
        grown = {}
    if "tool" not in known and grown.get("tool") == {}:
        del grown["tool"]
    if grown != known:
        return Addition("settings", shared, why_not=f"a table cannot be added at its end; add this yourself:\n{added}")
    return Addition("settings", shared, before, after, added)


def hook(root: Path, source: Source) -> Addition:
    """A hook in pre-commit's settings."""
    path = root / ".pre-commit-config.yaml"
    before = _bytes(path)
    entry = _LOCAL_HOOK
    if source.url is not None and source.revision is not None:
        entry = _HOOK.format(url=source.url, revision=source.revision)
    if before is None:
        added = "repos:\n" + _indented(entry, "  ")
        return Addition("hook", path, None, added.encode(), added)
    text = before.decode("utf-8", "surrogateescape")
    if any("modellint" in line.partition("#")[0] for line in text.splitlines()):
        return Addition("hook", path, why_not="it names modellint already")
    place = _end_of_repos(text)
    if place is None:
        return Addition("hook", path, why_not=f"its list of `repos` is not understood; add this to it:\n{entry}")
    at, indent = place
    added = _indented(entry, indent)
    new = added.replace("\n", "\r\n") if "\r\n" in text else added
    gap = "" if at == 0 or text[at - 1] == "\n" else "\r\n" if "\r\n" in text else "\n"
    after = text[:at] + gap + new + text[at:]
    if not _adds_one(text, after):
        return Addition("hook", path, why_not=f"its list of `repos` is not understood; add this to it:\n{entry}")
    return Addition("hook", path, before, after.encode("utf-8", "surrogateescape"), added)


def workflow(root: Path, requirement: str | None) -> Addition:
    """A workflow of GitHub; without a requirement that can be installed there, none."""
    folder = root / ".github" / "workflows"
    path = folder / "modellint.yml"
    if path.exists():
        return Addition("workflow", path, why_not="it is there already")
    others = sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")]) if folder.is_dir() else []
    for existing in others:
        if b"modellint check" in (_bytes(existing) or b""):
            return Addition("workflow", existing, why_not="it runs modellint already")
    if requirement is None:
        why_not = (
            "this modellint was installed from a folder, which no other machine can reach; say what pip is to install there: "
            "modellint init --only workflow --requirement 'modellint @ git+https://…'"
        )
        return Addition("workflow", path, why_not=why_not)
    # JSON's strings are YAML's, too.
    added = _WORKFLOW.format(install=json.dumps(f"pip install {shlex.quote(requirement)}"))
    return Addition("workflow", path, None, added.encode(), added)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None


def _toml(path: Path, data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        # tomli, which is not there to be read by the type checker from Python 3.11 on, has no types then.
        settings: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None
    return settings


def _appended(before: bytes, added: str, gap: bool) -> bytes:
    """Text at the end of a file, in its way of ending lines."""
    end = b"\r\n" if b"\r\n" in before else b"\n"
    head = b"" if not before or before.endswith(b"\n") else end
    return before + head + (end if gap and before.strip() else b"") + added.encode().replace(b"\n", end)


def _indented(text: str, indent: str) -> str:
    return "".join(indent + line for line in text.splitlines(keepends=True))


def _end_of_repos(text: str) -> tuple[int, str] | None:
    """Where one more entry of ``repos`` goes, and its indent; None where the list is written in a way that is not understood."""
    lines = text.splitlines(keepends=True)
    heads = [index for index, line in enumerate(lines) if line.startswith("repos")]
    if len(heads) != 1 or not _REPOS.match(lines[heads[0]]):
        return None
    end = heads[0] + 1
    indent: str | None = None
    for index in range(end, len(lines)):
        line = lines[index]
        item = _ITEM.match(line)
        depth = len(line) - len(line.lstrip(" "))
        if item and indent is None:
            indent = item[1]
        if indent is None and line.strip() and not line.lstrip().startswith("#"):
            break
        if not line.strip():
            continue
        if line.lstrip().startswith("#") and depth <= len(indent or ""):
            # It may speak of what comes next.
            continue
        if indent is not None and depth <= len(indent) and not (item and item[1] == indent):
            break
        end = index + 1
    return None if indent is None else (sum(map(len, lines[:end])), indent)


def _adds_one(before: str, after: str) -> bool:
    """Whether the new text has one entry of ``repos`` more and nothing else changed, as far as there is a YAML parser to ask."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        return True
    try:
        old, new = yaml.safe_load(before), yaml.safe_load(after)
        *rest, _ = new["repos"]
        return bool({**new, "repos": rest} == old)
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return False

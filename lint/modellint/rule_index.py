"""Index of modellint's own rules: what is asked of all of them in every check, so that a rule is imported when it is woken.

``python -m modellint.rule_index`` writes it. What it says of a file that is another by now, or that others beside it shape, counts
for nothing: that file is imported.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.results.diagnostic import Severity
from modellint.rule import RULE_FILE, Feature, Registration, Rule, admit, module_files, registration_of, rules_in

if TYPE_CHECKING:
    from modellint.settings import Destination

_FILE = "index.json"
_WORDS = ("code", "name", "fixable")
_TRUTHS = ("default", "only_modules", "only_forward", "only_inference", "at_statements")
_TUPLES = ("supersedes", "only_for", "reads_only_for")
_RESTING = frozenset({"__dict__", "plugin", "holds_for", "reads_for", "needs_for"})
"""What rests on the index alone."""


class SleepingRule(Rule):
    """A rule whose module is not imported yet: it becomes what it stands for when more is asked of it than the index tells."""

    registration: Registration

    def __init__(self, module: str, kind: str, told: dict[str, Any]) -> None:
        self.__dict__.update(told, module=module, kind=kind)

    def __getattribute__(self, name: str) -> Any:
        """What the index tells, or else what the rule itself does."""
        if name in _RESTING or name in object.__getattribute__(self, "__dict__"):
            return object.__getattribute__(self, name)
        return getattr(woken(self), name)

    def needs_for(self, destination: Destination) -> tuple[str | Set[str], ...]:
        """``needs``, which some rules compute."""
        return self.needs if "needs" in self.__dict__ else woken(self).needs_for(destination)


def woken(rule: Rule) -> Rule:
    """A rule that is what it stands for, the same object."""
    if type(rule) is SleepingRule:
        told = rule.__dict__
        rule.__class__ = getattr(importlib.import_module(told["module"]), told["kind"])
    return rule


@cache
def shipped_rules() -> dict[str, Rule]:
    """The rules of ``modellint_rules``, found once in a process: rules hold nothing of what they are asked about."""
    rules: dict[str, Rule] = {}
    index = _read()
    for module, digest in _digests().items():
        entry = index.get(module)
        if entry is None or entry["digest"] != digest or any(told["code"] in rules for told in entry["rules"].values()):
            for kind in rules_in(importlib.import_module(module)):
                admit(kind, rules)
            continue
        for name, told in entry["rules"].items():
            rules[told["code"]] = SleepingRule(module, name, _decoded(told))
    return rules


def load_rules() -> dict[str, Rule]:
    """Every rule of ``modellint_rules``, imported, by code, in the order of codes.

    Raises ``RuleError`` for a malformed or doubled code, and for a rule that nothing would ever be asked of.
    """
    return {code: woken(rule) for code, rule in sorted(shipped_rules().items())}


def _digests() -> dict[str, str]:
    """The modules of rules, each with the digest of its file and of those beside it that hold no rules."""
    shared: dict[str, bytes] = {}
    own: dict[str, bytes] = {}
    for module, path in module_files(importlib.import_module("modellint_rules")):
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read()
        folder, _, name = module.rpartition(".")
        if RULE_FILE.match(name):
            own[module] = text
        else:
            shared[folder] = shared.get(folder, b"") + text
    return {module: _digest(text, shared.get(module.rpartition(".")[0], b"")) for module, text in own.items()}


def _digest(*texts: bytes) -> str:
    # Of text as it is in all checkouts.
    return hashlib.sha256(b"\0".join(texts).replace(b"\r\n", b"\n")).hexdigest()[:16]


def _read() -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(_place().read_bytes())
    except (OSError, ValueError):
        return {}
    return read


def _place() -> Path:
    return Path(importlib.import_module("modellint_rules").__path__[0], _FILE)


def _encoded(rule: Rule) -> dict[str, Any]:
    kind = rule.__class__
    told: dict[str, Any] = {name: getattr(rule, name) for name in (*_WORDS, *_TRUTHS, *_TUPLES)}
    told.update(severity=rule.severity, wakes_on=rule.wakes_on and rule.wakes_on.name)
    told.update(registration=registration_of(rule))
    if kind.needs_for is Rule.needs_for:
        told.update(needs=[need if isinstance(need, str) else sorted(need) for need in rule.needs])
    return told


def _decoded(told: dict[str, Any]) -> dict[str, Any]:
    fact, nodes = told["registration"]
    told.update({name: tuple(told[name]) for name in _TUPLES}, registration=Registration(fact, tuple(nodes)))
    told.update(severity=Severity(told["severity"]), wakes_on=told["wakes_on"] and Feature[told["wakes_on"]])
    if "needs" in told:
        told.update(needs=tuple(need if isinstance(need, str) else frozenset(need) for need in told["needs"]))
    return told


def written(rules: Iterable[Rule]) -> str:
    """The index of rules, a file in a line."""
    entries: dict[str, Any] = {module: {"digest": digest, "rules": {}} for module, digest in _digests().items()}
    for rule in rules:
        entries[rule.__class__.__module__]["rules"][rule.__class__.__name__] = _encoded(rule)
    lines = (f"{json.dumps(module)}: {json.dumps(entry)}" for module, entry in sorted(entries.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    _place().write_text(written(load_rules().values()), "utf-8")

"""The pages of all rules with a live side: Bad gives exactly its code when it is run, Good nothing."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from modellint.destinations.coreml import installed_versions as installed
from modellint.live.check import check_subject, live_rules
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.rule import Page, Rule
from modellint.rule_index import load_rules
from modellint.session.destination_verdicts import execute, judge
from modellint.settings import Destination

LIVE = {rule.code: rule for rule in live_rules(load_rules())}
ABOUT_ENVIRONMENT = {code: rule for code, rule in LIVE.items() if rule.live_needs == "environment"}
REMAINING = {"MOD006": {"MOD005"}}
"""What Good still gives: a hook of the right kind is a hook that is left on all the same."""
ABOUT_MODELS = {code: rule for code, rule in LIVE.items() if code not in ABOUT_ENVIRONMENT}


@contextmanager
def executed(text: str, folder: Path) -> Iterator[dict[str, Any]]:
    """What a block of Python binds, run as a file that findings can point into."""
    path = folder / "block.py"
    path.write_text(text, "utf-8")
    module = ModuleType("modellint_page_block")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, str(path), "exec"), vars(module))
            yield vars(module)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        del sys.modules[module.__name__]


def subject_of(made: dict[str, Any], folder: Path, *, executes: bool) -> Subject:
    """The ``model`` that the block binds, or else what its last module class builds, in evaluation mode."""
    model = made.get("model")
    if model is None:
        classes = [value for value in made.values() if isinstance(value, type) and issubclass(value, nn.Module)]
        model = [cls for cls in classes if cls.__module__ == made["__name__"]][-1]().eval()
    inputs = made.get("inputs")
    example = None if inputs is None else Inputs.of(inputs)._replace(flexible=made.get("flexible", {}))
    destination = Destination(frontend=made.get("frontend", "auto"))
    checkpoint = made.get("checkpoint")
    # To convert every page's model for rules that are off by default would take minutes.
    return Subject(
        model, example, folder, destination, checkpoint=checkpoint, judge=judge, execute=execute if executes else None
    )


def codes(rule: Rule, title: str, folder: Path) -> set[str]:
    with executed(Page.of(type(rule)).example(title), folder) as made:
        subject = subject_of(made, folder, executes="execution" in rule.live_needs)
        others = {code: one for code, one in ABOUT_MODELS.items() if one.default and one.holds_for("coreml")}
        found = check_subject(subject, {**others, rule.code: rule})
    assert all(finding.path == str(folder / "block.py") for finding in found)
    return {finding.code for finding in found}


@pytest.mark.parametrize("code", list(ABOUT_MODELS))
def test_bad_gives_exactly_its_code(code: str, tmp_path: Path) -> None:
    assert codes(ABOUT_MODELS[code], "Bad", tmp_path) == {code}


@pytest.mark.parametrize("code", list(ABOUT_MODELS))
def test_good_gives_nothing(code: str, tmp_path: Path) -> None:
    assert codes(ABOUT_MODELS[code], "Good", tmp_path) == REMAINING.get(code, set())


def codes_with(rule: Rule, title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The findings about the environment if what the section lists were installed."""
    listed = dict(re.findall(r"^([\w-]+)==(\S+)$", Page.of(type(rule)).sections[title], re.MULTILINE))
    assert listed
    monkeypatch.setattr(installed, "version", listed.get)
    return {
        finding.code
        for finding in check_subject(Subject(nn.Identity(), None, folder, Destination()), ABOUT_ENVIRONMENT)
    }


@pytest.mark.parametrize("code", list(ABOUT_ENVIRONMENT))
def test_bad_requirements_give_exactly_their_code(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes_with(ABOUT_ENVIRONMENT[code], "Bad", tmp_path, monkeypatch) == {code}


@pytest.mark.parametrize("code", list(ABOUT_ENVIRONMENT))
def test_good_requirements_give_nothing(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes_with(ABOUT_ENVIRONMENT[code], "Good", tmp_path, monkeypatch) == set()

"""The one module that rules import: how much it offers, that all of it is documented, and that nothing else is reached."""

from __future__ import annotations

import ast
import importlib
from itertools import pairwise
from pathlib import Path

import pytest

from modellint import authoring

ROOT = Path(__file__).resolve().parent.parent.parent


def imports_of(path: Path) -> list[ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]


def documented(path: Path) -> set[str]:
    """The names of a module that a docstring stands in or behind."""
    body = ast.parse(path.read_text("utf-8")).body
    names = {
        node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    }
    for node, behind in pairwise(body):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(behind, ast.Expr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(behind.value, ast.Constant) and isinstance(behind.value.value, str):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def test_it_offers_at_most_seventy_names() -> None:
    assert len(set(authoring.__all__)) == len(authoring.__all__) <= 70


def test_every_name_is_documented_where_it_is_defined() -> None:
    missing = []
    for module, names in authoring._HOMES.items():
        path = ROOT / "lint" / "modellint" / (module.replace(".", "/") + ".py")
        missing += [name for name in names.split() if name.partition("=")[0] not in documented(path)]
    assert missing == []


def test_what_it_loads_is_what_type_checkers_see() -> None:
    seen = {}
    for node in imports_of(ROOT / "lint" / "modellint" / "authoring.py"):
        seen.update({alias.asname or alias.name: f"{node.module}" for alias in node.names})
    loaded = {
        name.partition("=")[0]: f"modellint.{module}"
        for module, names in authoring._HOMES.items()
        for name in names.split()
        if "=" not in name
    }
    assert loaded.items() <= seen.items()
    assert {name.partition("=")[2] or name for names in authoring._HOMES.values() for name in names.split()} == set(
        authoring.__all__
    )


@pytest.mark.parametrize("name", [name for name in authoring.__all__ if name in ("Rule", "Code", "Tensor", "CstFile")])
def test_names_are_those_of_their_modules(name: str) -> None:
    value = getattr(authoring, name)
    assert getattr(importlib.import_module(value.__module__), name) is value


def test_another_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match=r"has no 'Coed'; it has .*Code"):
        _ = authoring.Coed


def test_rules_import_nothing_else_of_the_machine() -> None:
    others = []
    rules = ROOT / "rules" / "modellint_rules"
    for path in rules.rglob("*.py"):
        family = f"modellint_rules.{path.relative_to(rules).parts[0]}"
        for node in imports_of(path):
            module = node.module or ""
            if module.startswith("modellint") and module != "modellint.authoring" and not module.startswith(family):
                others.append(f"{path.name}: {module}")
    assert others == []


def test_values_print_what_is_known_of_them() -> None:
    assert repr(authoring.UNKNOWN) == "UNKNOWN"
    assert repr(authoring.Const(0.5)) == "Const(value=0.5)"
    assert repr(authoring.Instance("module", None, "torch.nn.ReLU")) == "Instance(kind='module', name='torch.nn.ReLU')"

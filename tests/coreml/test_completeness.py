"""Every operator that coremltools stops at is found in one run, at its line, however many there are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")

OPERATORS = {
    "fmod": "x = torch.fmod(x, 2.0)",
    "hypot": "x = x + torch.hypot(x, torch.ones_like(x))",
    "digamma": "x = torch.digamma(x.abs() + 1)",
    "erfinv": "x = x.sigmoid().erfinv()",
    "trunc": "x = torch.trunc(x * 4)",
    "lgamma": "x = torch.lgamma(x.abs() + 1)",
    "copysign": "x = torch.copysign(x, x + 1)",
    "i0": "x = torch.i0(x)",
}
"""None of them has a converter for what either route captures, nor for its core ATen decompositions."""
MODULES = {"net": ("fmod", "hypot"), "first": ("digamma", "erfinv", "trunc"), "second": ("lgamma", "copysign", "i0")}
CLASS = """\
import torch
from torch import nn
{imports}

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
{parts}
    def forward(self, x):
        x = self.linear(x)
{body}
        return {result}
"""


class Package:
    """A model in three files; its root calls each of two submodules twice."""

    def __init__(self, folder: Path, name: str, kept: tuple[str, ...]) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        (self.folder / "__init__.py").write_text("")
        self.lines: dict[tuple[str, str], int] = {}
        for module, operators in MODULES.items():
            body = [OPERATORS[one] if one in kept else "x = x * 1.5" for one in operators]
            root = module == "net"
            text = CLASS.format(
                imports="".join(f"from {name}.{part} import {part.title()}\n" for part in ("first", "second") if root),
                name=module.title(),
                parts="".join(f"        self.{part} = {part.title()}()\n" for part in ("first", "second") if root),
                body="\n".join(f"        {line}" for line in body),
                result="self.second(self.first(self.second(self.first(x))))" if root else "x",
            )
            (self.folder / f"{module}.py").write_text(text)
            for one in kept:
                if one in operators:
                    row = text.splitlines().index(f"        {OPERATORS[one]}") + 1
                    self.lines[f"{module}.py", f"aten::{one}"] = row

    def model(self) -> Any:
        """Build it."""
        torch.manual_seed(0)
        return importlib.import_module(f"{self.folder.name}.net").Net().eval()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("eight_"):
            del sys.modules[name]


def found(package: Package, route: str) -> tuple[dict[tuple[str, str], int], modellint.Report]:
    report = modellint.check_model(
        package.model(), example_inputs=(torch.rand(2, 4),), frontend=route, root=package.folder.parent, select="OPS"
    )
    places = {}
    for one in report.diagnostics:
        assert one.code == "OPS001"
        assert one.severity.label == "error"
        assert one.path is not None
        assert one.span is not None
        assert one.operator is not None
        module = Path(one.path).stem
        assert one.modules == ("" if module == "net" else module,)
        assert (Path(one.path).name, one.operator) not in places
        places[Path(one.path).name, one.operator] = one.span.row
    return places, report


@pytest.mark.parametrize("route", ["trace", "export"])
def test_all_at_once_and_never_another(route: str, folder: Path) -> None:
    left = tuple(OPERATORS)
    while True:
        package = Package(folder, f"eight_{route}_{len(left)}", left)
        places, report = found(package, route)
        assert places == package.lines
        assert len(places) == len(left)
        assert report.convertible is (not left)
        if not left:
            break
        # From both ends, so that neither the first nor the last of a file stays.
        left = left[1:] if len(left) % 2 else left[:-1]

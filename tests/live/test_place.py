"""Where attributes, classes and frames stand in the source."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from written import HEAD, Load

import modellint
from modellint.live.code.class_source import place_of_attribute, place_of_class
from modellint.live.code.places import Project, statement_at
from modellint.live.subject import Subject
from modellint.results.diagnostic import Place
from modellint.settings import Destination


def text_at(place: Place | None) -> str:
    assert place is not None
    lines = Path(place.path).read_text("utf-8").split("\n")
    row, column, end_row, end_column = place.span
    if row == end_row:
        return lines[row - 1][column - 1 : end_column - 1]
    return "\n".join((lines[row - 1][column - 1 :], *lines[row : end_row - 1], lines[end_row - 1][: end_column - 1]))


def bound(cls: type, name: str, value: object = None) -> str:
    found = place_of_attribute(cls, name, value)
    assert found is not None
    return text_at(found[1])


def with_init(*statements: str) -> str:
    body = "\n".join(textwrap.indent(statement, "        ") for statement in statements)
    return f"class Net(nn.Module):\n    def __init__(self, n=1):\n        super().__init__()\n{body}\n"


@pytest.mark.parametrize(
    ("statements", "value", "expected"),
    [
        (["self.x = [1]"], [1], "self.x = [1]"),
        (["self.x: list = [1]"], [1], "self.x: list = [1]"),
        (["self.x, self.y = [1], 2"], [1], "self.x, self.y = [1], 2"),
        (["[self.y, *self.x] = 1, 2"], [2], "[self.y, *self.x] = 1, 2"),
        (["self.x = self.y = [1]"], [1], "self.x = self.y = [1]"),
        (["setattr(self, 'x', [1])"], [1], "setattr(self, 'x', [1])"),
        (["object.__setattr__(self, 'x', [1])"], [1], "object.__setattr__(self, 'x', [1])"),
        (["super().__setattr__('x', [1])"], [1], "super().__setattr__('x', [1])"),
        (["self.__dict__['x'] = [1]"], [1], "self.__dict__['x'] = [1]"),
        (["vars(self)['x'] = [1]"], [1], "vars(self)['x'] = [1]"),
        (["self.register_buffer('x', torch.ones(1))"], None, "self.register_buffer('x', torch.ones(1))"),
        (["self.register_buffer(name='x', tensor=None)"], None, "self.register_buffer(name='x', tensor=None)"),
        (["for self.x in [1]:", "    pass"], 1, "for self.x in [1]:"),
        (["with torch.no_grad() as self.x:", "    pass"], None, "with torch.no_grad() as self.x:"),
        (["if n:", "    self.x = [", "        1,", "    ]"], [1], "self.x = [\n                1,\n            ]"),
        (["self.x = None", "self.x = [1]"], [1], "self.x = [1]"),
        (["self.x = [1]", "self.x = None"], [1], "self.x = [1]"),
        (["self.x = []", "self.x += [1]"], [1], "self.x += [1]"),
        (["self.x = n", "self.x = [1]", "self.x = n"], [1], "self.x = [1]"),
        (["self.x = n", "self.x = (1,)", "self.x = list(n)", "self.x = n"], [1], "self.x = list(n)"),
        (["self.x = []", "self.x = torch.stack(self.x)"], torch.ones(1), "self.x = torch.stack(self.x)"),
        (["for i in range(2): setattr(self, f'x{i}', 1)"], 1, None),
    ],
)
def test_the_statement_that_binds_an_attribute(
    load: Load, statements: list[str], value: object, expected: str | None
) -> None:
    cls = load(with_init(*statements)).Net
    if expected is None:
        assert place_of_attribute(cls, "x", value) is None
    else:
        assert bound(cls, "x", value) == expected


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("setattr(self, f'layer{n}', n)", "layer7"),
        ("self.add_module('conv%d' % n, nn.ReLU())", "conv12"),
        ("self.add_module('norm' + str(n), nn.ReLU())", "norm2"),
        ("self.register_module('{}_act'.format(n), nn.ReLU())", "main_act"),
    ],
)
def test_names_that_are_put_together(load: Load, statement: str, name: str) -> None:
    cls = load(with_init("self.layer = 3", statement)).Net
    assert bound(cls, name) == statement
    assert place_of_attribute(cls, "other") is None


def test_a_name_of_nothing_but_a_variable_is_no_place(load: Load) -> None:
    assert place_of_attribute(load(with_init("setattr(self, f'{n}', 1)")).Net, "x") is None


def test_attributes_of_the_class_come_last(load: Load) -> None:
    module = load("""
        class Base(nn.Module):
            x = [1]
            y = [2]

        class Net(Base):
            z = None

            def __init__(self):
                super().__init__()
                self.y = [3]

            def build(self):
                self.z = [4]
    """)
    assert bound(module.Net, "x") == "x = [1]"
    assert bound(module.Net, "y") == "self.y = [3]"
    assert bound(module.Net, "z") == "self.z = [4]"
    found = place_of_attribute(module.Net, "x")
    assert found is not None
    assert found[0] is module.Base


def test_inherited_attributes_name_the_class_that_binds_them(load: Load) -> None:
    text = with_init("self.x = [1]") + "\n\nclass More(Net):\n    def __init__(self):\n        super().__init__()\n"
    module = load(text)
    subject = Subject(module.More(), None, Path.cwd(), Destination())
    class_name, place = subject.attribute_place(subject.model, "x")
    assert (class_name, text_at(place)) == ("Net", "self.x = [1]")
    class_name, place = subject.attribute_place(subject.model, "unknown")
    assert (class_name, text_at(place)) == ("More", "class More(Net):")


def test_fields_of_a_dataclass(load: Load) -> None:
    module = load("""
        @dataclasses.dataclass(eq=False)
        class Net(nn.Module):
            x: list
            y: dict = dataclasses.field(default_factory=dict)
    """)
    assert bound(module.Net, "x") == "x: list"
    assert bound(module.Net, "y") == "y: dict = dataclasses.field(default_factory=dict)"


def test_classes_of_one_name(load: Load) -> None:
    module = load("""
        def make(kind):
            if kind:
                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.x = ["first"]
            else:
                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.x = ["second"]
            return Net


        class Outer:
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.x = ["inner"]


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.x = ["last"]
    """)
    assert bound(module.make(True), "x") == 'self.x = ["first"]'
    assert bound(module.make(False), "x") == 'self.x = ["second"]'
    assert bound(module.Outer.Net, "x") == 'self.x = ["inner"]'
    assert bound(module.Net, "x") == 'self.x = ["last"]'


def test_classes_without_a_file() -> None:
    made: dict[str, Any] = {"__name__": "nowhere"}
    text = HEAD + with_init("self.x = [1]")
    exec(text, made)
    assert place_of_class(made["Net"]) is None
    assert place_of_attribute(made["Net"], "x") is None
    # The cells of a notebook have names that are no files.
    exec(compile(text, "<ipython-input-2>", "exec"), made)
    assert place_of_attribute(made["Net"], "x") is None
    assert statement_at("<ipython-input-2>", 3) is None
    assert place_of_class(type("Made", (nn.Module,), {})) is None


def test_a_class_that_only_has_the_name_of_another() -> None:
    class Fake(nn.Module):
        def forward(self) -> None: ...

    made: dict[str, Any] = {"__name__": __name__}
    exec("from torch import nn\nclass Load(nn.Module):\n    def forward(self): ...", made)
    assert place_of_class(made["Load"]) is None
    assert text_at(place_of_class(Fake)) == "class Fake(nn.Module):"


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "changes.py"
    path.write_text("x = 1\n", "utf-8")
    assert text_at(statement_at(str(path), 1)) == "x = 1"
    path.write_text("longer = 1\n", "utf-8")
    assert text_at(statement_at(str(path), 1)) == "longer = 1"


def test_columns_are_characters(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_bytes("# coding: latin-1\r\nif 1: 'ä'; y = 'ö'\r\n".encode("latin-1"))
    place = statement_at(str(path), 2)
    assert place is not None
    assert place.span[1::2] == (12, 19)


def test_what_belongs_to_the_user(tmp_path: Path) -> None:
    root = tmp_path / "site-packages" / "project"
    (root / "lib" / "site-packages").mkdir(parents=True)
    for inside in ("a.py", "lib/site-packages/b.py"):
        (root / inside).touch()
    project = Project(root)
    assert project.owns(str(root / "a.py"))
    assert not project.owns(str(root / "lib" / "site-packages" / "b.py"))
    assert not project.owns(str(root / "gone.py"))
    assert not project.owns(str(tmp_path / "a.py"))


LIBRARY = """\
from torch import nn


class Given(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x if x.mean() > 0 else -x
"""
USING = """\
from given.layers import Given
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Given(), Given()

    def forward(self, x):
        return self.second(self.first(x))
"""


def test_findings_name_the_code_of_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "site-packages" / "given"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "layers.py").write_text(LIBRARY, "utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    (tmp_path / "using.py").write_text(USING, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = importlib.import_module("using").Net().eval()
    report = modellint.check_model(model, (torch.ones(2, 3),), root=tmp_path)
    (branch,) = (finding for finding in report.diagnostics if finding.code == "FLW001")
    assert branch.span is not None
    assert (branch.path, branch.span.row) == (str(tmp_path / "using.py"), 11)
    assert branch.modules == ("first", "second")
    assert branch.library == ("given/layers.py:6", "given/layers.py:8")
    statement = statement_at(str(tmp_path / "using.py"), 11)
    assert statement is not None
    assert {statement, statement._replace(library="given/layers.py:6")} == {statement}

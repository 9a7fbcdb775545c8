"""The registration rules on the situations that they must tell apart."""

from __future__ import annotations

import textwrap
from pathlib import Path

import nets
import pytest
from click.testing import CliRunner

import modellint
from modellint.cli import cli

HEAD = "import torch\nfrom torch import nn\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(init: str, forward: str = "return x", arguments: str = "", extra: str = "") -> str:
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, x):\n{body}\n{extra}"
    )


def found(text: str) -> list[tuple[str, int]]:
    """Code and row of the findings about what is registered, and of suppressions that suppress nothing."""
    findings = modellint.check_source(text).diagnostics
    return [
        (finding.code, finding.span.row if finding.span else 0)
        for finding in findings
        if finding.code.startswith(("REG", "LNT"))
    ]


CLEAN = {
    "attributes": "self.a = nn.Linear(2, 2)\nself.b = nn.Linear(2, 2)",
    "list and add_module": (
        "self.xs = [nn.Linear(2, 2) for _ in range(2)]\nfor i, x in enumerate(self.xs):\n    self.add_module(f'x{i}', x)"
    ),
    "ModuleList": "self.xs = nn.ModuleList([nn.Linear(2, 2)])",
    "ModuleDict": "self.xs = nn.ModuleDict({'a': nn.Linear(2, 2)})",
    "parameter": "self.w = nn.Parameter(torch.ones(2))",
    "wrapped in Sequential later": "self.xs = []\nself.xs.append(nn.Linear(2, 2))\nself.net = nn.Sequential(*self.xs)",
    "rebound": "self.xs = [nn.Linear(2, 2)]\nself.xs = nn.Sequential(*self.xs)",
    "other attribute": "self.xs = [nn.ReLU()]\nself.ys = nn.ModuleList(self.xs)",
    "setattr in a loop": "self.xs = []\nfor i in range(2):\n    m = nn.Linear(2, 2)\n    setattr(self, f'm{i}', m)\n    self.xs.append(m)",
    "alias of registered": "self.a = nn.Linear(2, 2)\nself.b = nn.Linear(2, 2)\nself.xs = [self.a, self.b]",
    "classes, not modules": "self.kinds = [nn.ReLU, nn.GELU]",
    "numbers": "self.sizes = [1, 2, 3]",
    "unknown": "self.xs = [build(i) for i in range(2)]",
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert found(net(CLEAN[name])) == []


def test_reference_to_an_argument_is_clean() -> None:
    assert found(net("self._ref = [discriminator]", "return self._ref[0](x)", ", discriminator")) == []


def test_shared_module_called_twice_is_clean() -> None:
    assert found(net("self.a = nn.Linear(2, 2)", "return self.a(self.a(x))")) == []


DEFECTS = {
    "literal": ("self.xs = [nn.Linear(2, 2)]", "REG001", 8),
    "filled": ("self.xs = []\nself.xs.append(nn.Linear(2, 2))", "REG001", 8),
    "local": ("xs = []\nxs.append(nn.Linear(2, 2))\nself.xs = xs", "REG001", 10),
    "set": ("self.xs = {nn.Linear(2, 2)}", "REG001", 8),
    "nested": ("self.xs = [[nn.Linear(2, 2)] for _ in range(2)]", "REG001", 8),
    "repeated": ("m = nn.Linear(2, 2)\nself.xs = [m] * 3", "REG001", 9),
    "overwritten each turn": (
        "self.xs = []\nfor _ in range(2):\n    self.m = nn.Linear(2, 2)\n    self.xs.append(self.m)",
        "REG001",
        8,
    ),
    "dict": ("self.d = {'a': nn.Linear(2, 2)}", "REG002", 8),
    "dict item": ("self.d = {}\nself.d['a'] = nn.Linear(2, 2)", "REG002", 8),
    "parameters": ("self.ws = [nn.Parameter(torch.ones(2))]", "REG004", 8),
    "parameter dict": ("self.ws = {'a': nn.Parameter(torch.ones(2))}", "REG005", 8),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defect(name: str) -> None:
    init, code, row = DEFECTS[name]
    assert found(net(init)) == [(code, row)]


def test_stray_comma() -> None:
    assert found(net("self.c = nn.Linear(2, 2),", "return self.c(x)")) == [("REG003", 8)]
    assert found(net("self.c = nn.Linear(2, 2),", "return self.c[0](x)")) == [("REG001", 8)]


def test_no_fix_where_only_a_list_will_do() -> None:
    report = modellint.check_source(net("self.xs = [nn.Linear(2, 2)]", "self.xs.remove(x)\nreturn x"))
    assert [(d.code, d.fix) for d in report.diagnostics] == [("REG001", None)]


SEVERAL = {
    "branches": "if big:\n    self.xs = @[nn.Linear(2, 2)]$\nelse:\n    self.xs = @[nn.Linear(4, 2), nn.ReLU()]$",
    "either": "self.xs = @[nn.Linear(2, 2)]$ if big else @[nn.Linear(4, 2)]$",
    "a slice of itself": "self.xs = @[nn.Linear(2, 2), nn.Linear(2, 2)]$\nif big:\n    self.xs = self.xs[:1]",
    "one is registered": "self.ys = nn.ModuleList([nn.ReLU()])\nself.xs = self.ys\nif big:\n    self.xs = @[nn.Linear(4, 2)]$",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_an_attribute_is_fixed_wherever_it_is_bound(name: str) -> None:
    text = net(SEVERAL[name].replace("@", "").replace("$", ""), "return self.xs[0](x)", ", big")
    Path("net.py").write_text(text)
    assert CliRunner().invoke(cli, ["check", "--fix", "net.py"]).exit_code == 0
    wanted = net(SEVERAL[name].replace("@", "nn.ModuleList(").replace("$", ")"), "return self.xs[0](x)", ", big")
    assert Path("net.py").read_text() == wanted


def test_no_fix_where_it_is_bound_to_a_list_and_to_a_set() -> None:
    text = net("if big:\n    self.xs = [nn.Linear(2, 2)]\nelse:\n    self.xs = {nn.Linear(2, 2)}", arguments=", big")
    assert [(d.code, d.fix) for d in modellint.check_source(text).diagnostics] == [("REG001", None)]


def test_paramless_is_a_warning() -> None:
    (finding,) = modellint.check_source(net("self.xs = [nn.ReLU()]")).diagnostics
    assert finding.severity.label == "warning"
    assert finding.message.endswith("`children()`, `modules()` and `apply()` do not see them")


def test_items_from_a_helper() -> None:
    helper = "\n    def _items(self, n):\n        return [nn.Linear(2, 2) for _ in range(n)]\n"
    assert found(net("self.xs = list(self._items(2))", extra=helper)) == [("REG001", 8)]


def test_suppressed_and_the_suppression_counts_as_used() -> None:
    assert found(net("self._ref = [nn.Linear(2, 2)]  # noqa: REG001")) == []
    assert found(net("self.a = nn.Linear(2, 2)  # noqa: REG001")) == [("LNT001", 8)]


def test_super_init() -> None:
    body = "class A(nn.Module):\n    def __init__(self):\n        self.n = 1\n        {}self.f = nn.Linear(1, 1)\n"
    assert found(HEAD + body.format("")) == [("REG008", 8)]
    assert found(HEAD + body.format("super().__init__()\n        ")) == []
    late = (
        "class A(nn.Module):\n    def __init__(self):\n        self.f = nn.Linear(1, 1)\n        super().__init__()\n"
    )
    assert found(HEAD + late) == [("REG008", 7)]


@pytest.mark.parametrize(
    ("init", "kept", "extra", "severity"),
    [
        ("pass", "out", "", "INFO"),
        ("self.count = 0", "out[0].detach()", "", "INFO"),
        ("self.layer = layer", "out", "", "ERROR"),
        ("pass", "layer", "", "ERROR"),
        ("pass", "wrap(out)", "", "ERROR"),
        ("pass", "out", "    def forward(self, x):\n        return x\n", "ERROR"),
        ("pass", "out", "    def put(self, layer):\n        self.layer = layer\n", "ERROR"),
        ("self.layer = nn.Linear(2, 2)", "out", "", "ERROR"),
    ],
)
def test_a_hook_that_only_keeps_outputs(init: str, kept: str, extra: str, severity: str) -> None:
    text = (
        f"{HEAD}class Keep(nn.Module):\n    def __init__(self, layer):\n        {init}\n"
        "        self.handle = layer.register_forward_hook(self.keep)\n\n"
        f"    def keep(self, layer, given, out):\n        self.kept = {kept}\n\n{extra}"
    )
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "REG008"]
    assert [finding.severity.name for finding in findings] == [severity]


@pytest.mark.parametrize(
    "imports",
    [
        "import torch.nn as n\nBase, Lin = n.Module, n.Linear\n",
        "from torch.nn import Module as Base, Linear as Lin\n",
        "import torch as th\nBase = th.nn.Module\nLin = th.nn.Linear\n",
    ],
)
def test_import_aliases(imports: str) -> None:
    text = (
        f"{imports}class A(Base):\n    def __init__(self):\n        super().__init__()\n        self.xs = [Lin(1, 1)]\n"
    )
    assert [code for code, _ in found(text)] == ["REG001"]


def test_star_import() -> None:
    body = "    def __init__(self):\n        super().__init__()\n        self.xs = [Linear(1, 1)]\n"
    text = "from torch.nn import *\nclass A(Module):\n" + body
    assert [code for code, _ in found(text)] == ["REG001"]


def test_module_three_files_away(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (package / "__init__.py").write_text("from .c import Base\n", "utf-8")
    (package / "a.py").write_text("from torch import nn\nclass Root(nn.Module):\n    pass\n", "utf-8")
    (package / "b.py").write_text("from .a import *\nclass Mid(Root):\n    pass\n", "utf-8")
    (package / "c.py").write_text("from pkg.b import Mid as Base\n", "utf-8")
    model = package / "model.py"
    text = (
        "from . import Base\n\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = [Base() for _ in range(2)]\n"
    )
    model.write_text(text, "utf-8")
    report = modellint.check_source(text, filename=str(model))
    assert [(d.code, d.attribute) for d in report.diagnostics] == [("REG001", "parts")]


def test_a_function_that_a_star_brings_in_before_the_module_of_its_name(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (package / "__init__.py").write_text("from .layers import *\nfrom .others import *\n", "utf-8")
    (package / "layers.py").write_text("from torch import nn\n\n\ndef layers():\n    return [nn.ReLU()]\n", "utf-8")
    (package / "others.py").write_text("", "utf-8")
    (package / "parts.py").write_text("from torch import nn\n\n\nclass Part(nn.Module):\n    pass\n", "utf-8")
    text = (
        "from pkg import layers, parts\n\n\nclass Net(parts.Part):\n    def __init__(self):\n        super().__init__()\n"
        "        self.made = layers()\n        self.parts = [parts.Part()]\n"
    )
    model = tmp_path / "model.py"
    model.write_text(text, "utf-8")
    report = modellint.check_source(text, filename=str(model))
    assert [(d.code, d.attribute) for d in report.diagnostics] == [("REG001", "made"), ("REG001", "parts")]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("layer = nn.Linear(2, 2)", 1),
        ("layer = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU())", 1),
        ("layer: nn.Module = nn.Dropout(0.5)", 1),
        ("layer = nn.ReLU()", 0),
        ("layer = nn.Linear", 0),
        ("other = nn.Linear(2, 2)", 0),
    ],
)
def test_a_module_that_the_body_of_a_class_makes(body: str, count: int) -> None:
    text = f"from torch import nn\n\n\nclass Net(nn.Module):\n    {body}\n\n    def forward(self, x):\n        return self.layer(x)\n"
    assert nets.codes(text, "REG001") == ["REG001"] * count


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        ("for name, part in box.named_children():\n        self.add_module(name, part)", 0),
        ("for i, part in enumerate(box.children()):\n        self.add_module(str(i), part)", 0),
        ("for i, part in enumerate(box):\n        setattr(self, f'part{i}', part)", 0),
        ("for name, part in box.named_children():\n        print(name, part)", 1),
        ("for part in box.modules():\n        nn.init.ones_(part.weight)", 1),
    ],
)
def test_the_children_of_what_a_list_holds_are_registered(loop: str, count: int) -> None:
    boxes = (
        "a = nn.Sequential(nn.Linear(2, 2))\nb = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\nfor box in [a, b]:\n    "
    )
    init = f"{boxes}{loop}\nself.boxes = [a, b]"
    assert nets.codes(net(init, "return [box(x) for box in self.boxes]"), "REG001") == ["REG001"] * count


def test_the_children_of_one_of_two_do_not_register_the_other() -> None:
    init = (
        "a = nn.Sequential(nn.Linear(2, 2))\nb = nn.Sequential(nn.Linear(2, 2))\n"
        "for name, part in a.named_children():\n    self.add_module(name, part)\nself.boxes = [a, b]"
    )
    assert nets.codes(net(init), "REG001") == ["REG001"]


@pytest.mark.parametrize(
    ("base", "count"), [("", 0), ("(object)", 0), ("(dict)", 0), ("(nn.Module)", 1), ("(Unknown)", 1)]
)
def test_objects_of_plain_classes_are_no_modules(base: str, count: int) -> None:
    text = (
        f"from elsewhere import Unknown\nfrom torch import nn\n\n\nclass Down{base}:\n    def __call__(self, x):\n        return x\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.parts = [Down() for _ in range(2)]\n\n"
        "    def forward(self, x):\n        return [part(x) for part in self.parts]\n"
    )
    assert len([finding for finding in modellint.check_source(text).diagnostics if finding.code == "REG001"]) == count


CRITERIA = """
class {name}(nn.Module):
    def __init__(self, {argument}):
        super().__init__()
        self.parts = {value}

    def forward(self, prediction, {target}):
        return sum(part(prediction, target) for part in self.parts)
"""


@pytest.mark.parametrize(
    ("name", "argument", "value", "target", "severity"),
    [
        ("Criteria", "parts: list[nn.Module]", "list(parts)", "target", "INFO"),
        ("TotalLoss", "n", "[nn.L1Loss(), FarLoss()]", "target", "INFO"),
        ("TotalLoss", "n", "[nn.Conv2d(3, 3, 3), nn.L1Loss()]", "target", "ERROR"),
        ("TotalLoss", "parts: list[nn.Module]", "list(parts)", "target=None", "ERROR"),
        ("Total", "parts: list[nn.Module]", "list(parts)", "target", "ERROR"),
    ],
)
def test_criteria_that_a_loss_compares_by(name: str, argument: str, value: str, target: str, severity: str) -> None:
    far = "class FarLoss(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.w = nn.Parameter(torch.ones(1))\n\n"
    text = HEAD + far + CRITERIA.format(name=name, argument=argument, value=value, target=target)
    findings = [finding for finding in modellint.check_source(text).diagnostics if finding.code == "REG001"]
    assert [finding.severity.name for finding in findings] == [severity]


WORDS = """
def make(kind):
    if kind.startswith("deep"):
        return [nn.Linear(2, 2), nn.Linear(2, 2)]
    elif kind == "pair":
        return [nn.Linear(2, 2)]
    return nn.Linear(2, 2)


class Net(nn.Module):
    def __init__(self, kind="plain", deep=False):
        super().__init__()
        {}
        self.kind = kind
        self.body = make({})

    def forward(self, x):
        return x
"""


@pytest.mark.parametrize(
    ("asserted", "argument", "codes"),
    [
        ("assert kind in ['plain', 'wide']", "kind", []),
        ("assert kind == 'plain', kind", "kind", []),
        ("if kind not in ('plain', 'wide'):\n            raise ValueError(kind)", "kind", []),
        ("pass", "'plain'", []),
        ("pass", "'deeper'", ["REG001"]),
        ("pass", "kind", ["REG001"]),
        ("assert kind in ['plain', 'pair']", "kind", ["REG001"]),
        ("assert kind not in ['pair', 'deep']", "kind", ["REG001"]),
        ("if deep:\n            assert kind in ['plain', 'wide']", "kind", ["REG001"]),
        ("assert deep or kind == 'plain'", "kind", ["REG001"]),
        ("if kind not in ('plain', 'wide'):\n            kind = 'pair'", "kind", ["REG001"]),
        ("assert kind in ['plain', 'wide']\n        kind = 'x'.join(str(deep))", "kind", ["REG001"]),
    ],
)
def test_asserted_words_decide_what_a_function_builds(asserted: str, argument: str, codes: list[str]) -> None:
    assert [code for code, _ in found(HEAD + WORDS.format(asserted, argument))] == codes


# REG001: modules in functions and in plain objects


@pytest.mark.parametrize(
    ("init", "row"),
    [
        ("layer = nn.Linear(2, 2)\nself.run = lambda x: layer(x)", 9),
        ("layer = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\nself.run = lambda x: layer(x)", 9),
        ("layer = nn.Linear(2, 2)\ndef twice(x):\n    return layer(layer(x))\nself.run = twice", 11),
        ("self.run = Keeper()", 8),
        ("self.run = Given(nn.Linear(2, 2))", 8),
        ("self.run = Given(layer=nn.Linear(2, 2))", 8),
    ],
)
def test_module_in_a_function_or_object(init: str, row: int) -> None:
    text = net(init, "return self.run(x)") + KEEPERS
    assert found(text) == [("REG001", row)]


@pytest.mark.parametrize(
    "init",
    [
        "layer = nn.ReLU()\nself.run = lambda x: layer(x)",
        "layer = nn.Linear(2, 2)\nself.layer = layer\nself.run = lambda x: layer(x)",
        "layer = nn.Linear(2, 2)\nself.run = lambda x: layer(x)\nself.add_module('layer', layer)",
        "layer = make()\nself.run = lambda x: layer(x)",
        "layer = nn.Linear(2, 2)\nself.run = wrap(lambda x: layer(x))",
        "layer = nn.Linear(2, 2)\nself.run = lambda x: keep(layer, x)",
        "self.run = Keeper()\nself.layer = self.run.layer",
        "self.run = Keeper()\nregister(self, self.run)",
        "self.run = Mover()",
        "layer = nn.Linear(2, 2)\nself.layer = layer\nself.run = Given(layer)",
        "self.run = Given(nn.ReLU())",
        "self.run = KeeperLoss()",
    ],
)
def test_module_that_is_registered_or_not_seen(init: str) -> None:
    assert found(net(init, "return self.run(x)") + KEEPERS) == []


KEEPERS = """

class Keeper:
    def __init__(self):
        self.layer = nn.Linear(2, 2)

    def __call__(self, x):
        return self.layer(x)


class Given:
    def __init__(self, layer):
        self.layer = layer

    def __call__(self, x):
        return self.layer(x)


class Mover:
    def __init__(self):
        self.layer = nn.Linear(2, 2)

    def to(self, device):
        self.layer.to(device)

    def __call__(self, x):
        return self.layer(x)


class KeeperLoss:
    def __init__(self):
        self.layer = nn.Linear(2, 2)

    def __call__(self, x):
        return self.layer(x)
"""

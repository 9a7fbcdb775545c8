"""What live rules say of the state that a model forgets, and where; each model is written to a file and imported from there."""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from written import HEAD, Load

from modellint.live.check import check_subject
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.rule_index import load_rules
from modellint.settings import Destination

RULES = {code: rule for code, rule in load_rules().items() if code.startswith("REG") and hasattr(rule, "live")}


def check(model: nn.Module, *inputs: Any) -> list[Diagnostic]:
    given = Inputs(inputs) if inputs else None
    return check_subject(Subject(model.eval(), given, Path(__file__).parent, Destination()), RULES)


def line(finding: Diagnostic) -> str:
    """The first line of the statement that a finding stands at."""
    assert finding.path is not None
    assert finding.span is not None
    return linecache.getline(finding.path, finding.span.row).strip()


def net(init: str, forward: str = "return x", more: str = "") -> str:
    """A module class `Net`, the statements of its `__init__` and of `forward` given."""
    return "\n".join(
        (
            textwrap.dedent(more),
            "class Net(nn.Module):",
            "    def __init__(self, given=None):",
            "        super().__init__()",
            textwrap.indent(textwrap.dedent(init), "        "),
            "    def forward(self, x):",
            textwrap.indent(textwrap.dedent(forward), "        "),
        )
    )


@pytest.mark.parametrize(
    ("init", "code", "severity", "kind"),
    [
        ("self.a = [nn.Linear(2, 2)]", "REG001", Severity.ERROR, "a plain list"),
        ("self.a = [nn.ReLU(), nn.Flatten()]", "REG001", Severity.WARNING, "a plain list"),
        ("self.a = [nn.Dropout(0.5)]", "REG001", Severity.ERROR, "a plain list"),
        ("self.a = (nn.Linear(2, 2), nn.ReLU())", "REG001", Severity.ERROR, "a plain tuple"),
        ("self.a = {nn.Linear(2, 2)}", "REG001", Severity.ERROR, "a plain set"),
        ("self.a = [[nn.Linear(2, 2)], {'b': nn.ReLU()}]", "REG001", Severity.ERROR, "a plain list"),
        ("self.a = {'b': [nn.Linear(2, 2)]}", "REG002", Severity.ERROR, "a plain dict"),
        ("self.a = collections.OrderedDict(b=nn.Linear(2, 2))", "REG002", Severity.ERROR, "an `OrderedDict`"),
        ("self.a = types.MappingProxyType({1: nn.ReLU()})", "REG002", Severity.WARNING, "a `mappingproxy`"),
        ("self.a = collections.deque([nn.Linear(2, 2)])", "REG001", Severity.ERROR, "a `deque`"),
        ("self.a = Parts(nn.Linear(2, 2))", "REG002", Severity.ERROR, "a `Parts`"),
        ("self.a = Pair(1, nn.Linear(2, 2))", "REG001", Severity.ERROR, "a `Pair`"),
        ("self.a = functools.partial(print, nn.Linear(2, 2))", "REG001", Severity.ERROR, "a `partial`"),
        ("self.a = types.SimpleNamespace(b=nn.Linear(2, 2))", "REG002", Severity.ERROR, "a `SimpleNamespace`"),
        ("self.a = Teacher(nn.Linear(2, 2))", "REG002", Severity.WARNING, "a `Teacher`"),
        ("b = nn.Linear(2, 2)\nself.a = lambda x: b(x)", "REG002", Severity.WARNING, "a function"),
        ("self.a = [nn.Parameter(torch.ones(2))]", "REG004", Severity.ERROR, "a plain list"),
        ("self.a = {'b': {'c': nn.Parameter(torch.ones(2))}}", "REG005", Severity.ERROR, "a plain dict"),
        ("object.__setattr__(self, 'a', nn.Linear(2, 2))", "REG001", Severity.WARNING, "past `nn.Module.__setattr__`"),
        (
            "self.__dict__['a'] = nn.Parameter(torch.ones(2))",
            "REG004",
            Severity.WARNING,
            "past `nn.Module.__setattr__`",
        ),
    ],
)
def test_each_container(load: Load, init: str, code: str, severity: Severity, kind: str) -> None:
    more = """
    @dataclasses.dataclass
    class Parts:
        layer: Any

    class Pair(NamedTuple):
        size: int
        layer: Any

    class Teacher:
        def __init__(self, layer):
            self.layer = layer
    """
    (finding,) = check(load(net(init, more=more)).Net())
    assert (finding.code, finding.severity, finding.evidence) == (code, severity, "live")
    assert (finding.class_name, finding.attribute, finding.modules) == ("Net", "a", ("",))
    assert kind in finding.message
    assert line(finding) == init.splitlines()[-1]


@pytest.mark.parametrize(
    "init",
    [
        "self.b = nn.Linear(2, 2)\nself.a = [self.b]",
        "self.a = [given]",
        "self.a = (given,)",
        "self.a = [self]",
        "self.a = nn.ModuleList([nn.Linear(2, 2)])",
        "self.a = [nn.Linear(2, 2)]\nself.a = nn.Sequential(*self.a)",
        "self.b = [nn.Linear(2, 2)]\nself.c = nn.Sequential(*self.b)",
        "self.a = [nn.Linear, nn.ReLU]",
        "self.a = lambda: nn.Linear(2, 2)",
        "self.w = nn.Parameter(torch.ones(2))\nself.a = [self.w]",
    ],
)
def test_clean(load: Load, init: str) -> None:
    assert check(load(net(init)).Net(nn.Linear(2, 2))) == []


def test_a_list_of_one_local_that_is_only_indexed_is_a_reference(load: Load) -> None:
    init = "inner = nn.Linear(2, 2)\nself.a = [inner]"
    assert check(load(net(init, "return self.a[0](x)")).Net()) == []
    assert [f.code for f in check(load(net(init, "for a in self.a:\n    x = a(x)\nreturn x")).Net())] == ["REG001"]


def test_a_stray_comma_beats_the_tuple(load: Load) -> None:
    (finding,) = check(load(net("self.a = nn.Linear(2, 2),", "return self.a(x)")).Net())
    assert (finding.code, line(finding)) == ("REG003", "self.a = nn.Linear(2, 2),")
    (finding,) = check(load(net("self.a = nn.Linear(2, 2),", "return self.a[0](x)")).Net())
    assert finding.code == "REG001"


def test_twelve_blocks_are_one_finding(load: Load) -> None:
    net_class = load(net("self.a = [nn.Linear(2, 2)]")).Net
    block = net_class()
    model = nn.ModuleDict({"own": nn.ModuleList([net_class() for _ in range(10)]), "x": block, "y": block})
    (finding,) = check(model)
    assert finding.modules == (*(f"own.{index}" for index in range(10)), "x", "y")


def test_blocks_that_hide_one_layer_are_all_named(load: Load) -> None:
    module = load(net("self.a = [nn.Identity(), given]"))
    shared = nn.Linear(2, 2)
    (finding,) = check(nn.ModuleList([module.Net(shared) for _ in range(3)]))
    assert (finding.severity, finding.modules) == (Severity.ERROR, ("0", "1", "2"))


def test_hidden_in_the_hidden(load: Load) -> None:
    module = load(net("self.a = [nn.Linear(2, 2)]") + net("self.inner = [Net()]").replace("Net(nn", "Outer(nn"))
    inner, outer = check(nn.Sequential(module.Outer()))
    assert (outer.class_name, outer.modules) == ("Outer", ("0",))
    assert (inner.class_name, inner.modules) == ("Net", ("0.inner[0]",))


# Tensors.


@pytest.mark.parametrize("is_run", [True, False])
@pytest.mark.parametrize(
    ("init", "forward", "code"),
    [
        ("self.t = torch.ones(2)", "return x + self.t", "REG006"),
        ("self.t = [torch.ones(2), torch.ones(2)]", "return x + self.t[1]", "REG006"),
        ("self.t = {'a': torch.ones(2)}", "return x + self.t['a']", "REG006"),
        ("self.t = torch.ones(2)", "return self.helper(x)", "REG006"),
        ("self.t = torch.ones(2)", "return outside(self, x)", "REG006"),
        ("self.t = torch.ones(2)", "self.t = self.t * 0.9\nreturn x + self.t", "REG006"),
        ("self.t = torch.ones(2)", "return x + self.t if x.dim() == 7 else x", "REG006"),
        ("self.t = torch.ones(2)", "return x", None),
        ("self.t = torch.tensor([])", "return x + self.t if x.dim() == 7 else x", None),
        ("self.t = [torch.ones(2)]", "self.t[0] = x\nreturn self.t[0] + 1", None),
        ("self.t = [torch.ones(2)]", "self.t.append(x)\nreturn self.t[1] + 1", None),
        ("self.t = torch.ones(2)", "return x + self.t.shape[0]", None),
        ("self.t = None", "self.t = x * 2\nreturn self.t + 1", None),
        ("self.register_buffer('t', torch.ones(2))", "return x + self.t", None),
        ("self.t = torch.ones(2, requires_grad=True)", "return x + self.t", "REG015"),
        ("self.w = nn.Parameter(torch.ones(2))\nself.t = self.w * 2", "return x + self.t", None),
        ("self.t = [torch.ones(2)]", "self.t = [t.to(x.device) for t in self.t]\nreturn x + self.t[0]", None),
        ("self.register_buffer('b', torch.ones(2))\nself.t = [self.b]", "return x + self.t[0]", "REG009"),
        ("self.register_buffer('b', torch.ones(2))\nself.t = [self.b]", "return x + self.b", None),
        ("self.register_buffer('b', torch.ones(2))\nself.t = {'c': self.b}", "return x + self.t['c']", "REG009"),
    ],
)
def test_tensors(load: Load, init: str, forward: str, code: str | None, is_run: bool) -> None:
    more = "def outside(model, x):\n    return x + model.t"
    text = net(init, forward, more) + "\n    def helper(self, x):\n        return x + self.t\n"
    found = check(load(text).Net(), *((torch.ones(3, 2),) if is_run else ()))
    assert [finding.code for finding in found] == ([] if code is None else [code])
    if found:
        assert (found[0].attribute, found[0].severity) == ("t", Severity.WARNING)
        assert line(found[0]) == init.splitlines()[-1]


def test_a_tensor_that_another_module_reads_takes_a_run(load: Load) -> None:
    text = net("self.t = torch.ones(2)").replace("Net", "Table") + net(
        "self.table = Table()", "return x + self.table.t"
    )
    model = load(text).Net()
    assert check(model) == []
    (finding,) = check(model, torch.ones(2))
    assert (finding.code, finding.class_name, finding.modules) == ("REG006", "Table", ("table",))


def test_a_run_that_fails_leaves_it_to_the_source(load: Load) -> None:
    (finding,) = check(load(net("self.t = torch.ones(2)", "raise ValueError\nreturn x + self.t")).Net(), torch.ones(2))
    assert finding.code == "REG006"


# Modules built on the way.


@pytest.mark.parametrize(
    ("forward", "is_found"),
    [
        ("return nn.Linear(2, 2)(x)", True),
        ("layer = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))\nreturn layer(x)", True),
        ("for _ in range(2):\n    x = nn.BatchNorm1d(2).eval()(x)\nreturn x", True),
        ("return Inner()(x)", True),
        ("return nn.ReLU()(x)", False),
        ("return nn.Sequential(nn.ReLU(), nn.Flatten())(x)", False),
        ("if self.later is None:\n    self.later = nn.Linear(2, 2)\nreturn self.later(x)", False),
        ("if not self.box:\n    self.box.append(nn.Linear(2, 2))\nreturn self.box[0](x)", False),
        ("return OUTSIDE(x)", False),
    ],
)
def test_modules_built_in_forward(load: Load, forward: str, is_found: bool) -> None:
    more = """
    OUTSIDE = nn.Linear(2, 2)

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x)
    """
    model = load(net("self.later = None\nself.box = []", forward, more)).Net()
    found = check(nn.Sequential(model), torch.ones(3, 2))
    assert [(finding.code, finding.modules) for finding in found] == ([("REG010", ("0",))] if is_found else [])
    if found:
        assert line(found[0]) == next(
            part.strip() for part in forward.splitlines() if "(" in part and "range" not in part
        )
    # What the run kept is gone again.
    assert (model.later, model.box) == (None, [])


# Memory.


@pytest.mark.parametrize(
    ("init", "how"),
    [
        ("self.t = nn.Parameter(torch.ones(4, 1).expand(4, 4))", "expanded"),
        ("self.t = nn.Parameter(torch.ones(4, 4)[:, :2])", "strided"),
        ("self.t = nn.Parameter(torch.ones(4, 2).t())", "strided"),
        ("self.register_buffer('t', torch.ones(4, 2).t())", "strided"),
        ("self.register_buffer('t', torch.ones(4, 1).expand(4, 4), persistent=False)", None),
        ("self.t = nn.Parameter(torch.ones(4, 4)[:2])", None),
        ("self.t = nn.Parameter(torch.ones(1, 4).expand(1, 4))", None),
        ("self.t = nn.Parameter(torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last))", None),
        ("self.t = nn.LazyLinear(2)", None),
    ],
)
def test_strides(load: Load, init: str, how: str | None) -> None:
    found = check(load(net(init)).Net())
    assert [finding.code for finding in found] == ([] if how is None else ["REG011"])
    if found:
        assert how is not None
        assert how in found[0].message
        assert line(found[0]) == init


def test_channels_last_models_are_clean() -> None:
    assert check(nn.Sequential(nn.Conv2d(3, 4, 3)).to(memory_format=torch.channels_last)) == []


@pytest.mark.parametrize(
    ("init", "severity"),
    [
        ("self.t = nn.Parameter(torch.ones(4))\nself.u = nn.Parameter(self.t)", Severity.WARNING),
        ("self.t = nn.Parameter(torch.ones(4))\nself.register_buffer('u', self.t.detach())", Severity.WARNING),
        ("self.t = nn.Parameter(torch.ones(4, 4))\nself.u = nn.Parameter(self.t[1:3])", Severity.WARNING),
        ("w = torch.ones(4, 4)\nself.t = nn.Parameter(w[:2])\nself.u = nn.Parameter(w[2:])", None),
        ("self.t = nn.Parameter(torch.ones(4))\nself.u = nn.Parameter(self.t.clone())", None),
        ("self.t = nn.Parameter(torch.ones(4))\nself.register_buffer('u', self.t.detach(), persistent=False)", None),
        ("self.t = nn.Parameter(torch.ones(4))\nself.u = self.t", None),
        ("self.t = nn.Linear(2, 2)\nself.u = self.t", None),
        ("self.t = nn.Linear(2, 2)\nself.u = nn.Linear(2, 2)\nself.u.weight = self.t.weight", Severity.INFO),
        (
            "self._tied_weights_keys = ['u']\nself.t = nn.Linear(2, 2)\nself.u = nn.Linear(2, 2)\nself.u.weight = self.t.weight",
            None,
        ),
    ],
)
def test_shared_memory(load: Load, init: str, severity: Severity | None) -> None:
    found = check(load(net(init)).Net())
    assert [(finding.code, finding.severity) for finding in found] == (
        [] if severity is None else [("REG012", severity)]
    )
    if found:
        assert found[0].attribute == "u"
        assert line(found[0]) == next(part for part in init.splitlines() if "self.u =" in part or "'u'" in part)


def test_interleaved_views_share_no_element(load: Load) -> None:
    init = "w = torch.ones(4, 4)\nself.t = nn.Parameter(w[:, :2])\nself.u = nn.Parameter(w[:, 2:])"
    assert {finding.code for finding in check(load(net(init)).Net())} == {"REG011"}


# What a run leaves alone.


@pytest.mark.parametrize(
    ("init", "forward", "attributes"),
    [
        ("self.a = nn.Linear(2, 2)\nself.b = nn.Linear(2, 2)", "return self.a(x)", ["b"]),
        ("self.a = nn.Linear(2, 2)\nself.b = nn.Dropout()", "return self.a(x)", []),
        ("self.a = nn.Linear(2, 2)", "return nn.functional.linear(x, self.a.weight)", []),
        ("self.a = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])", "return self.a[0](x)", ["a"]),
        ("self.a = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))", "for a in self.a:\n    x = a(x)\nreturn x", []),
        ("self.a = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))", "return x", ["a"]),
        ("self.a = nn.Linear(2, 2)", "return self.a(x) if self.training else x", []),
        ("self.a = nn.MultiheadAttention(2, 1)", "return self.a(x, x, x)[0]", []),
        ("self.a = nn.LSTM(2, 2)", "return self.a(x)[0]", []),
        ("self.a = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))", "return self.a(x)", []),
        ("self.a = nn.TransformerEncoderLayer(2, 1, batch_first=True)", "return self.a(x[None])", []),
        ("self.a = nn.Linear(2, 2)", "raise ValueError", []),
        ("self.a = nn.Linear(2, 2)\nself.b = nn.Linear(2, 2)\nself.b.weight = self.a.weight\nself.b.bias = self.a.bias",
         "return self.a(x)", []),
    ],
)  # fmt: skip
def test_unused_modules(load: Load, init: str, forward: str, attributes: list[str]) -> None:
    found = [finding for finding in check(load(net(init, forward)).Net(), torch.ones(3, 2)) if finding.code == "REG014"]
    assert [finding.attribute for finding in found] == attributes
    for finding in found:
        assert line(finding).startswith(f"self.{finding.attribute} =")


def test_of_unused_modules_the_topmost_is_named(load: Load) -> None:
    model = load(
        net("self.a = nn.ModuleList([nn.Sequential(nn.Linear(2, 2)) for _ in range(4)])", "return self.a[2](x)")
    ).Net()
    (finding,) = check(model, torch.ones(2))
    assert finding.modules == ("a.0", "a.1", "a.3")


def test_models_without_values(load: Load) -> None:
    init = """
    self.a = [nn.Linear(2, 2)]
    self.t = torch.ones(2)
    self.s = nn.Parameter(torch.ones(4, 4)[:, :2])
    self.u = nn.Parameter(self.s[0])
    """
    with torch.device("meta"):
        model = load(net(init, "return x + self.t")).Net()
    found = check_subject(Subject(model, None, Path.cwd(), Destination(), has_values=False), RULES)
    assert sorted((finding.code, finding.attribute) for finding in found) == [
        ("REG001", "a"), ("REG006", "t"), ("REG011", "s"), ("REG012", "u"),
    ]  # fmt: skip


def test_a_list_that_another_module_fills(load: Load) -> None:
    more = """
    class Part(nn.Module):
        def __init__(self, found):
            super().__init__()
            self.found = found

        def forward(self, x):
            self.found[0] = x
            return x
    """
    text = net("self.found = [torch.rand(1)]\nself.part = Part(self.found)", "self.part(x)\nreturn self.found[0]", more)
    assert check(load(text).Net(), torch.ones(2)) == []


def test_classes_without_source() -> None:
    made: dict[str, Any] = {"__name__": "typed_in"}
    exec(HEAD + net("self.a = [nn.Linear(2, 2)]\nself.t = torch.ones(2)", "return self.a[0](x) + self.t"), made)
    found = check(made["Net"]())
    assert [(finding.code, finding.attribute, finding.path) for finding in found] == [
        ("REG001", "a", None),
        ("REG006", "t", None),
    ]


def test_overlap_names_both_modules(load: Load) -> None:
    init = "self.a = nn.Linear(4, 4)\nself.b = nn.Linear(4, 2)\nself.b.weight = nn.Parameter(self.a.weight.data[:2])"
    (finding,) = check(load(net(init)).Net())
    assert (finding.code, finding.modules) == ("REG012", ("b", "a"))


def test_tensor_that_building_and_forward_both_make(load: Load) -> None:
    model = load(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.masks_for(4)

            def masks_for(self, size):
                self.masks = torch.ones(size)

            def forward(self, x):
                if len(x) > len(self.masks):
                    self.masks = torch.ones(len(x), device=x.device)
                return x * self.masks[: len(x)]
        """
    ).Net()
    assert [(one.code, one.attribute) for one in check(model, torch.ones(2))] == [("REG006", "masks")]
    assert [(one.code, one.attribute) for one in check(model)] == [("REG006", "masks")]


def test_tensor_that_forward_alone_makes(load: Load) -> None:
    model = load(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.masks = None

            def masks_for(self, x):
                self.masks = torch.ones_like(x)

            def forward(self, x):
                self.masks_for(x)
                return x * self.masks
        """
    ).Net()
    model(torch.ones(2))
    assert check(model) == []

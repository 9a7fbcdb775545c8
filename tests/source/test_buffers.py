"""Rules about tensors that a module keeps as plain attributes."""

from __future__ import annotations

import textwrap
from pathlib import Path

import nets
import pytest

import modellint
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nimport torch.nn as nn\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(init: str, forward: str, extra: str = "") -> str:
    def indented(text: str) -> str:
        return textwrap.indent(textwrap.dedent(text).strip(), " " * 8)

    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, n=3, given=None):\n        super().__init__()\n{indented(init)}\n\n"
        f"    def forward(self, x):\n{indented(forward)}\n{extra}"
    )


def codes(text: str, *wanted: str) -> list[str]:
    return nets.codes(text, *wanted or ["REG"])


def fixed(text: str, *, unsafe: bool = False) -> str:
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics, unsafe=unsafe)
    assert done.problem is None
    return done.text


@pytest.mark.parametrize(
    "value",
    [
        "torch.arange(8)",
        "torch.zeros(n, 2)",
        "1 - torch.eye(n)",
        "2 * torch.linspace(0, 1, n).unsqueeze(0)",
        "torch.tensor([1.0, 2.0]).view(1, -1).float()",
        "torch.FloatTensor([n])",
        "torch.stack([torch.ones(n), torch.zeros(n)])",
        "torch.tensor(given) if given else None",
        "torch.tril(torch.ones(n, n)) == 0",
        "torch.autograd.Variable(anchors_of(n), requires_grad=False)",
    ],
)
def test_a_table_that_forward_reads_becomes_a_buffer_that_is_not_saved(value: str) -> None:
    text = net(f"self.table = {value}", "return x + self.table")
    assert codes(text) == ["REG006"]
    done = fixed(text)
    assert f'self.register_buffer("table", {value}, persistent=False)' in done
    assert codes(done, "REG006") == []


def test_a_running_average_becomes_a_buffer_that_is_saved() -> None:
    text = net(
        "self.mean = torch.zeros(n)", "self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()\nreturn x - self.mean"
    )
    assert "REG006" in codes(text)
    assert 'self.register_buffer("mean", torch.zeros(n))' in fixed(text)


def test_what_forward_updates_through_a_method_is_saved_whatever_its_name() -> None:
    text = net("self.mean = torch.zeros(n)", "self.set_mean(x)\nreturn x - self.mean")
    text += "\n    def set_mean(self, x):\n        self.mean.mul_(0.9).add_(0.1 * x.mean(0).detach())\n"
    assert 'self.register_buffer("mean", torch.zeros(n))' in fixed(text)


def test_a_constant_that_is_filled_in_when_the_module_is_reset_is_not_saved() -> None:
    text = net("self.table = torch.empty(n)\nself.reset_parameters()", "return x + self.table")
    text += (
        "\n    def reset_parameters(self):\n        self.table.copy_(torch.arange(3.0))\n        self.table[0] = 1\n"
    )
    assert 'self.register_buffer("table", torch.empty(n), persistent=False)' in fixed(text)


def test_a_move_in_forward_changes_nothing_about_the_constant() -> None:
    text = net("self.table = torch.arange(8.0)", "self.table = self.table.to(x.device)\nreturn x + self.table")
    assert 'register_buffer("table", torch.arange(8.0), persistent=False)' in fixed(text)


def test_a_helper_of_the_class_makes_the_tensor() -> None:
    helper = (
        "\n    def _table(self, n):\n        table = torch.zeros(n, n)\n        table[0] = 1\n        return table\n"
    )
    assert codes(net("self.table = self._table(n)", "return x @ self.table", helper)) == ["REG006"]


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        ("self.register_buffer('table', torch.arange(8))", "return x + self.table"),
        ("self.table = nn.Parameter(torch.zeros(n))", "return x + self.table"),
        ("self.table = torch.arange(8)", "return x"),  # nothing reads it
        ("self.table = torch.arange(8).tolist()", "return x + self.table[0]"),
        ("self.size = torch.zeros(3).shape", "return x.view(self.size)"),
        ("self.scale = torch.tensor(3.0).item()", "return x * self.scale"),
        ("self.table = given", "return x + self.table"),  # may be a parameter
        ("self.table = torch.zeros(n)\nself.table = nn.Parameter(self.table)", "return x + self.table"),
        ("self.loss = nn.CrossEntropyLoss(weight=torch.ones(n))", "return self.loss(x, x)"),
        ("self.make = lambda: torch.zeros(n)", "return x + self.make()"),
        # Filled in when it is needed.
        ("self.grid = [torch.zeros(1)] * n", "self.grid[0] = x.new_zeros(3)\nreturn x + self.grid[0]"),
        ("self.cache = {}", "self.cache['x'] = torch.zeros(3)\nreturn x + self.cache['x']"),
        # A log that forward fills and never looks at.
        ("self.log = torch.zeros(100)", "self.log[: x.shape[0]] = x\nreturn x"),
        (
            "if n:\n    self.register_buffer('m', torch.ones(n))\nelse:\n    self.m = torch.Tensor()",
            "return x + self.m",
        ),
    ],
)
def test_what_is_no_plain_tensor_is_clean(init: str, forward: str) -> None:
    assert not {"REG006", "REG015"} & set(codes(net(init, forward)))


@pytest.mark.parametrize(
    ("given", "forward", "expected"),
    [
        ("given: torch.Tensor = None", "self.table = self.table.to(x.device)\nreturn x + self.table", ["REG006"]),
        (
            "given: torch.Tensor | None = None",
            "self.table = self.table.to(x) if self.table is not None else None\nreturn x + self.table",
            ["REG006"],
        ),
        # It may be a module, a parameter, or never be moved at all.
        ("given=None", "self.table = self.table.to(x.device)\nreturn x + self.table", []),
        ("given: torch.Tensor = None", "self.table = self.table\nreturn x + self.table", []),
        ("given: torch.Tensor = None", "return x + self.table.to(x.device)", []),
    ],
)
def test_a_tensor_that_the_constructor_is_given_and_a_method_moves(
    given: str, forward: str, expected: list[str]
) -> None:
    text = net("self.table = given", forward).replace("given=None", given)
    assert codes(text, "REG") == expected


def test_the_place_is_where_the_tensor_is_made_not_where_it_is_moved() -> None:
    text = net("self.mask = 1 - torch.eye(n)\nif given:\n    self.mask = self.mask.cuda()", "return x * self.mask")
    (finding,) = modellint.check_source(text).diagnostics
    assert (finding.code, finding.span.row if finding.span else 0) == ("REG006", 8)
    assert finding.fix is None


def test_a_list_of_tensors_is_reported_and_not_fixed() -> None:
    text = net("self.tables = [torch.zeros(n) for _ in range(3)]", "return sum(t + x for t in self.tables)")
    (finding,) = modellint.check_source(text).diagnostics
    assert (finding.code, finding.fix) == ("REG006", None)


def test_the_fix_is_held_back_for_complex_numbers_and_for_what_may_be_no_tensor() -> None:
    rope = net(
        "self.f = torch.polar(torch.ones(n), torch.arange(n).float())", "return torch.view_as_complex(x) * self.f"
    )
    state = net("self.h = torch.zeros(n)", "y = x + self.h\nself.h = given_by(x)\nreturn y")
    for text in (rope, state):
        assert codes(text) == ["REG006"]
        assert fixed(text) == text
        assert "register_buffer" in fixed(text, unsafe=True)


def test_no_fix_before_the_constructor_of_the_base_runs() -> None:
    text = (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        self.t = torch.zeros(3)\n        super().__init__()\n\n"
        "    def forward(self, x):\n        return x + self.t\n"
    )
    assert "register_buffer" not in fixed(text)


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        (
            "for i in range(n):\n    setattr(self, f'table{i}', torch.zeros(3))",
            "return x + getattr(self, f'table{x.ndim}')",
        ),
        ("for i in range(n):\n    setattr(self, 'table%d' % i, torch.zeros(3))", "return x + self.table1"),
        (
            "for i in range(n):\n    setattr(self, 'table' + str(i), torch.zeros(3))",
            "return x + getattr(self, 'table{}'.format(0))",
        ),
        ("self.fill(n)", "return x + getattr(self, f'{x.ndim}_table', None).to(x.device)"),
    ],
)
def test_a_tensor_under_a_computed_name(init: str, forward: str) -> None:
    fill = "\n    def fill(self, n):\n        for i in range(n):\n            setattr(self, f'{i}_table', torch.zeros(3))\n"
    text = net(init, forward) + fill
    assert codes(text) == ["REG006"]
    assert fixed(text) == text


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        ("setattr(self, f'table{n}', torch.zeros(3))", "return x"),
        ("setattr(self, f'table{n}', torch.zeros(3))", "return x + getattr(self, f'other{n}')"),
        ("setattr(self, f'table{n}', torch.zeros(3))", "return x + self.table_of_it"),
        ("setattr(self, f'table{n}', nn.Parameter(torch.zeros(3)))", "return x + getattr(self, f'table{0}')"),
        ("setattr(self, f'table{n}', given)", "return x + getattr(self, f'table{0}')"),
        ("setattr(self, f'{n}', torch.zeros(3))", "return x + getattr(self, f'{0}')"),
        # A buffer stays one.
        (
            "self.register_buffer(f'table{n}', None)\nsetattr(self, f'table{n}', torch.zeros(3))",
            "return x + getattr(self, f'table{0}')",
        ),
        (
            "self.register_buffer('table1', None)\nsetattr(self, f'table{n}', torch.zeros(3))",
            "return x + self.table1",
        ),
    ],
)
def test_what_is_no_plain_tensor_under_a_computed_name(init: str, forward: str) -> None:
    assert "REG006" not in codes(net(init, forward))


@pytest.mark.parametrize(
    "value",
    [
        "torch.zeros(n, requires_grad=True)",
        "torch.randn(n).requires_grad_()",
        "torch.autograd.Variable(torch.zeros(n), requires_grad=True)",
        "torch.tensor(n, requires_grad=True).float().to(place)",
        "torch.zeros(n, requires_grad=True).cuda()",
    ],
)
def test_a_tensor_that_wants_gradients_becomes_a_parameter(value: str) -> None:
    text = net(f"self.w = {value}", "return x * self.w")
    assert codes(text) == ["REG015"]
    done = fixed(text)
    assert f"self.w = nn.Parameter({value})" in done
    assert codes(done, "REG015") == []


@pytest.mark.parametrize("value", ["(self.p * 2).float()", "self.p.to(place)", "nn.Linear(n, n).weight.float()"])
def test_what_is_moved_or_cast_from_a_parameter_is_none_that_was_forgotten(value: str) -> None:
    assert "REG015" not in codes(net(f"self.p = nn.Parameter(torch.ones(n))\nself.w = {value}", "return x * self.w"))


def test_a_parameter_in_the_other_branch_does_not_hide_the_tensor() -> None:
    text = net(
        "if n:\n    self.w = nn.Parameter(torch.ones(n))\nelse:\n    self.w = torch.ones(3)", "return x * self.w"
    )
    assert codes(text) == ["REG006"]
    assert 'self.register_buffer("w", torch.ones(3), persistent=False)' in fixed(text)


def test_the_device_of_a_tensor_that_stays_behind_is_a_reading() -> None:
    text = net("self.at = torch.zeros(1)", "return x + torch.ones(3, device=self.at.device)")
    assert codes(text) == ["REG006"]
    assert codes(text.replace(".device)", ".shape[0])").replace("device=", "*[").replace("[0])", "])"), "REG006") == []


def test_the_last_of_overloaded_methods_counts() -> None:
    text = net("self.t = torch.zeros(1)", "return x + self.t")
    text = text.replace(
        "    def forward(self, x):",
        "    @overload\n    def forward(self, x):\n        pass\n\n    def forward(self, x):",
    )
    assert codes(text) == ["REG006"]


def test_what_forward_does_with_a_tensor_changes_nothing_about_what_it_is() -> None:
    text = net("self.t = torch.zeros(1)", "g.data['id'] = self.t\nx.t().view(6)\nreturn x")
    assert "REG006" in codes(text)


def test_a_tensor_that_wants_no_gradients_is_a_buffer() -> None:
    assert codes(net("self.w = torch.zeros(n).requires_grad_(False)", "return x * self.w")) == ["REG006"]


def parts(init: str, methods: str, extra: str = "") -> str:
    """A module without `forward`."""
    body = textwrap.indent(textwrap.dedent(methods).strip(), " " * 4)
    made = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    return (
        f"{HEAD}import torch.nn.functional as F\n\n\nclass Part(nn.Module):\n    def __init__(self, n=3):\n"
        f"        super().__init__()\n        self.layer = nn.Linear(n, n)\n        self.scale = nn.Parameter(torch.ones(n))\n{made}\n\n"
        f"{body}\n{textwrap.dedent(extra)}"
    )


@pytest.mark.parametrize(
    "methods",
    [
        "def encode(self, x: torch.Tensor):\n    return x - self.t",
        "def encode(self, x):\n    return x.float() * self.t",
        "def encode(self, x):\n    return x @ self.t.t()",
        "def encode(self, x):\n    return F.embedding(x.long(), self.t)",
        "def encode(self, x):\n    t = self.t.unsqueeze(0)\n    y = x.exp()\n    return torch.cat([y, t])",
        "def encode(self, x: torch.Tensor):\n    return self.t[x]",
        "def encode(self, x: torch.Tensor):\n    return x.index_select(0, self.t.to(torch.long))",
        "def decode(self, z):\n    return self.layer(z) * self.t",
        "def penalty(self):\n    return (self.scale * self.t).sum()",
        "def __call__(self, x):\n    return self.t * x.unsqueeze(-1)",
        "def encode(self, x: torch.Tensor):\n    return self._less(x, self.t)\n\n"
        "def _less(self, one, other):\n    return one - other",
        "def encode(self, x: torch.Tensor):\n    return x + self.t\n\ndef reset(self):\n    self.t = torch.zeros(3)",
    ],
)
def test_a_tensor_that_meets_others_outside_of_forward(methods: str) -> None:
    text = parts("self.t = torch.zeros(n)", methods)
    assert codes(text) == ["REG006"]
    done = fixed(text)
    assert 'self.register_buffer("t", torch.zeros(n), persistent=False)' in done
    assert codes(done, "REG006") == []


@pytest.mark.parametrize(
    "methods",
    [
        "def encode(self, x: torch.Tensor):\n    return x - self.t.to(x.device)",
        "def encode(self, x: torch.Tensor):\n    t = self.t\n    t = t.to(x)\n    return x - t",
        "def place(self, device):\n    self.t = self.t.to(device)\n\ndef encode(self, x: torch.Tensor):\n    return x - self.t",
        "def encode(self, x: torch.Tensor):\n    self.t = x * 2\n    return x + self.t",
        "def row(self, i: int):\n    return self.t[i] * i",
        "def row(self, i):\n    return self.t[i]",
        "def pick(self, x: torch.Tensor):\n    return x[self.t]",  # an index may stay on the CPU
        "def encode(self, x: torch.Tensor):\n    return x.view(*self.t.shape)",
        "def encode(self, x: torch.Tensor):\n    return x * self.t.item()",
        "def debug(self, x: torch.Tensor):\n    print(x - self.t)",
        "def reset_parameters(self):\n    self.scale.data.copy_(self.scale * self.t)",
        "def __repr__(self):\n    return str(self.t * self.scale)",
        "def load(self, x: torch.Tensor):\n    self.t.copy_(x)",
        "def encode(self, x: torch.Tensor):\n    return x",
    ],
)
def test_a_tensor_that_meets_none_outside_of_forward_is_clean(methods: str) -> None:
    assert codes(parts("self.t = torch.zeros(n)", methods), "REG006") == []


def test_what_only_the_constructor_runs_is_no_computation() -> None:
    text = parts(
        "self.t = torch.zeros(n)\nself.prepare()",
        "def prepare(self):\n    self.norm = (self.t * self.scale).sum().item()",
    )
    assert codes(text, "REG006") == []


def test_a_method_that_forward_mentions_is_one_that_it_runs() -> None:
    text = net("self.t = torch.zeros(n)", "return {'less': self.less}['less'](x)")
    assert codes(text + "\n    def less(self, x):\n        return self.t - x['logits']\n") == ["REG006"]


@pytest.mark.parametrize(
    "reader",
    [
        """

        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()

            def forward(self, x):
                return self.part.t[x.long()]
        """,
        """

        def combine(part: Part, x: torch.Tensor):
            return torch.cat((part.scale, part.t))
        """,
        """

        class Processor:
            def __call__(self, part: "Part", x: torch.Tensor):
                return x - part.t
        """,
    ],
)
def test_a_tensor_that_others_of_the_file_read_of_an_object_of_the_class(reader: str) -> None:
    own = "def forward(self, x):\n    return self.layer(x)"
    assert codes(parts("self.t = torch.zeros(n)", own, reader)) == ["REG006"]
    other = reader.replace("Part()", "Other()").replace("part: Part", "part").replace('part: "Part"', "part")
    assert codes(parts("self.t = torch.zeros(n)", own, other), "REG006") == []


def test_a_forward_that_another_file_gives(tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\n\n\n"
    (tmp_path / "base.py").write_text(
        f"{head}class Base(nn.Module):\n    def forward(self, x):\n        return self.shift(x)\n\n"
        "    def shift(self, x):\n        return x + self.t\n"
    )
    text = (
        "import torch\n\nfrom base import Base\n\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
        "        self.t = torch.zeros(3)\n        self.unread = torch.zeros(3)\n"
    )
    path = tmp_path / "net.py"
    path.write_text(text)
    found = modellint.check_source(text, path).diagnostics
    assert [(finding.code, finding.attribute) for finding in found] == [("REG006", "t")]


def test_a_helper_that_makes_a_tensor_like_its_argument() -> None:
    text = net("self.t = table(given)", "return x + self.t")
    helper = "\n\ndef table(values):\n    return 2 * torch.ones_like(values)\n"
    assert codes(text + helper) == ["REG006"]


@pytest.mark.parametrize("second", ["self.values", "self.keys"])
def test_a_function_that_writes_to_what_it_is_handed(second: str) -> None:
    init = 'self.register_buffer("keys", torch.zeros(4, 3))\nself.register_buffer("values", torch.zeros(4, 3))'
    forward = f"k = put(self.keys[:2], x)\nv = put({second}[:2], x * 2)\nreturn k + v"
    head = "\ndef put(cache, new):\n    cache.copy_(new)\n    return cache\n"
    findings = [
        (finding.attribute, finding.span.row)
        for finding in modellint.check_source(nets.net(forward, init, head=head)).diagnostics
        if finding.code == "MUT005" and finding.span is not None
    ]
    names = [name for name, _ in findings]
    assert names == (["keys", "values"] if second == "self.values" else ["keys"])


@pytest.mark.parametrize(
    ("method", "is_moved"),
    [
        ("def to(self, device):\n        self.table = self.table.to(device)\n        return super().to(device)", True),
        (
            "def cuda(self):\n        super().cuda()\n        if self.table is not None:\n            self.table = self.table.cuda()",
            True,
        ),
        ("def cuda(self):\n        super().cuda()\n        self.table = torch.ones(3)", False),
        ("def move(self, device):\n        self.table = self.table.to(device)", False),
        ("def to(self, device):\n        self.other = self.table.to(device)", False),
    ],
)
def test_a_tensor_that_the_class_moves_itself_is_missed_by_what_holds_the_class(method: str, is_moved: bool) -> None:
    text = net("self.table = torch.arange(n)", "return x + self.table", f"\n    {method}\n")
    messages = [one.message for one in modellint.check_source(text).diagnostics if one.code == "REG006"]
    assert [("of a module that holds this one" in message) for message in messages] == [is_moved]


@pytest.mark.parametrize(
    ("built", "count"), [("Net(4)", 0), ("Net(4, None)", 0), ("Net(4, mask)", 1), ("Net(4, mask=mask)", 1), ("", 1)]
)
def test_a_tensor_that_nobody_gives_is_none(built: str, count: int) -> None:
    text = (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self, n, mask: torch.Tensor = None):\n        super().__init__()\n"
        "        self.mask = mask\n\n    def forward(self, x):\n"
        "        self.mask = self.mask.to(x.device) if self.mask is not None else None\n"
        "        return x if self.mask is None else x + self.mask\n\n\n"
    )
    if built:
        text += f"class Outer(nn.Module):\n    def __init__(self, mask):\n        super().__init__()\n        self.net = {built}\n\n"
        text += "    def forward(self, x):\n        return self.net(x)\n"
    assert len(codes(text, "REG006")) == count


@pytest.mark.parametrize(
    ("value", "forward", "severity"),
    [
        ("torch.eye(n)", "return x @ self.table.type_as(x)", "INFO"),
        ("torch.eye(n)", "return x @ self.table[:2].to(x)", "INFO"),
        ("torch.eye(n)\nself.table = self.table * 2", "return x @ self.table.to(x) * self.table.shape[0]", "INFO"),
        ("torch.eye(n)", "table = self.table.to(x.device, x.dtype)\nreturn x @ table", "INFO"),
        ("torch.eye(n)", "return x @ self.table.to(device=x.device, dtype=x.dtype)", "INFO"),
        ("torch.eye(n)", "y = x @ self.table.type_as(x)\nreturn y + self.table", "WARNING"),
        ("torch.eye(n)", "return x @ self.table.to(x.device)", "WARNING"),
        ("torch.eye(n)", "return x @ self.table.to(self.place)", "WARNING"),
        ("torch.eye(n)", "self.table = 2 * self.table.type_as(x)\nreturn x @ self.table.type_as(x)", "WARNING"),
        ("torch.randn(n, n)", "return x @ self.table.type_as(x)", "WARNING"),
        ("torch.eye(n)", "self.table = self.table.to(x)\nreturn x @ self.table", "INFO"),
        ("torch.eye(n)", "y = x * 2\nself.table = self.table.type_as(y)\nreturn y @ self.table + self.table", "INFO"),
        ("torch.eye(n)", "y = x @ self.table\nself.table = self.table.to(x)\nreturn y @ self.table", "WARNING"),
        ("torch.eye(n)", "if x.ndim > 2:\n    self.table = self.table.to(x)\nreturn x @ self.table", "WARNING"),
        ("torch.eye(n)", "self.table = self.table.to(x.device)\nreturn x @ self.table", "WARNING"),
        ("torch.randn(n, n)", "self.table = self.table.to(x)\nreturn x @ self.table", "WARNING"),
        *(
            (
                "torch.eye(n)",
                f"if len(x) > self.table.size(0):\n    self.table = {made}\n{moved}\nreturn x @ self.table",
                severity,
            )
            for made, moved, severity in (
                ("torch.eye(len(x))", "self.table = self.table.to(x)", "INFO"),
                ("x.mean(0)", "self.table = self.table.to(x)", "WARNING"),
                ("torch.rand(len(x))", "self.table = self.table.to(x)", "WARNING"),
                ("torch.eye(len(x)) * x", "self.table = self.table.to(x)", "WARNING"),
                ("torch.eye(len(x))", "x = x * 2", "WARNING"),
            )
        ),
    ],
)
def test_a_constant_that_goes_where_the_input_is(value: str, forward: str, severity: str) -> None:
    text = net(f"self.table = {value}", forward)
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "REG006"]
    assert [finding.severity.name for finding in findings] == [severity]


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("torch.outer(torch.ones(n), torch.ones(n))", "INFO"),
        ("scaled(torch.eye(n))", "INFO"),
        ("torch.rand(n, n)", "WARNING"),
        ("torch.eye(n) + start(n)", "WARNING"),
    ],
)
def test_a_constant_that_functions_of_the_file_make(made: str, severity: str) -> None:
    functions = "def kernel(n):\n    return {}\n\n\ndef scaled(x):\n    return x / x.sum()\n\n\n"
    functions += "def start(n):\n    return torch.rand(n)\n\n\n"
    text = net("self.table = kernel(n) * 2", "return x @ self.table.type_as(x)")
    text = text.replace("class Net", functions.format(made) + "class Net")
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "REG006"]
    assert [finding.severity.name for finding in findings] == [severity]


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ('f"level{n}"', "INFO"),
        ('"scale"', "INFO"),
        ('f"tab{n}"', "WARNING"),
        ('"table"', "WARNING"),
        ("n", "WARNING"),
        ('f"{n}"', "WARNING"),
    ],
)
def test_a_constant_that_another_class_may_read_by_its_name(name: str, severity: str) -> None:
    text = net("self.table = torch.eye(n)", "return x @ self.table.type_as(x)")
    text += f"\n\ndef other(part, n):\n    return getattr(part, {name})\n"
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "REG006"]
    assert [finding.severity.name for finding in findings] == [severity]

"""The operator table, the rules that read it, and the settings that say where a model goes."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import nets
import pytest
from click.testing import CliRunner, Result

import modellint
from modellint.cli import cli
from modellint.data.coreml_operators import EXPORT_SINCE, OPERATORS, SINCE, VERSIONS
from modellint.data.operator_conversion import NEWEST, UnknownVersion, operator, public_name, table_version
from modellint.settings import TARGETS

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(forward: str, init: str = "self.lin = nn.Linear(2, 2)", extra: str = "") -> str:
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, x, y, w):\n{body}\n{extra}"
    )


def found(text: str) -> list[tuple[str, str, str | None]]:
    report = modellint.check_source(text)
    return [(d.code, d.severity.label, d.operator) for d in report.diagnostics if d.code in ("OPS001", "OPS003")]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


LACKING = {
    "function": ("return torch.cdist(x, y)", "aten::cdist", "error"),
    "functional": ("return F.celu(x)", "aten::celu", "warning"),
    "method": ("return x.median()", "aten::median", "error"),
    "method of what was computed": ("return (x * 2).fmod(3)", "aten::fmod", "error"),
    "in place": ("x = x * 2\nx.fmod_(3)\nreturn x", "aten::fmod", "error"),
    "by keyword": ("return torch.bucketize(input=x, boundaries=y)", "aten::bucketize", "error"),
    "inside an expression": ("return x[torch.masked_select(y, y > 0).argmax()] * 2", "aten::masked_select", "error"),
    "layer built where it is called": ("return nn.Hardshrink()(x)", "aten::hardshrink", "warning"),
    "named first": ("value = torch.slogdet(x)\nreturn value[1]", "aten::slogdet", "error"),
    "either branch": ("return torch.cdist(x, y) if w is None else x", "aten::cdist", "error"),
}


@pytest.mark.parametrize("name", LACKING)
def test_lacking(name: str) -> None:
    forward, kind, severity = LACKING[name]
    assert [(code, level) for code, level, _ in found(net(forward))] == [("OPS001", severity)]
    assert found(net(forward))[0][2] == kind


LAYERS = {
    "attribute": "self.act = nn.Hardshrink()",
    "sequence": "self.act = nn.Sequential(nn.Linear(2, 2), nn.Hardshrink())",
    "either": "self.act = nn.Hardshrink() if torch.cuda.is_available() else nn.CELU()",
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_found_where_they_are_called(name: str) -> None:
    text = net("return self.act(x)", LAYERS[name])
    (finding,) = modellint.check_source(text).diagnostics
    assert finding.code == "OPS001"
    assert finding.span is not None
    assert text.splitlines()[finding.span.row - 1].strip() == "return self.act(x)"


def test_functions_that_forward_calls_are_read() -> None:
    assert found(net("return self.more(x)", extra="\n    def more(self, x):\n        return torch.cdist(x, x)\n"))
    assert found(net("return more(x)", extra="\n\ndef more(x):\n    return torch.cdist(x, x)\n"))


CLEAN = {
    "converts": "return torch.matmul(x, y).relu() + F.grid_sample(x, y)",
    "registered since": "return torch.searchsorted(x, y) + torch.unique(x)",
    "number for Python": "return x * float(torch.fmod(y, 2).sum())",
    "item": "scale = torch.empty(1).uniform_(0, 1).item()\nreturn x * scale",
    "condition": "high = x.median()\nif high > 0:\n    x = x * 2\nreturn x",
    "own method of that name": "return self.median(x)",
    "unknown object": "return w.stft.inverse(y)",
    "what a module gives": "return self.lin.decode(x).cdf(y)",
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    extra = "\n    def median(self, x):\n        return x\n"
    assert found(net(CLEAN[name], extra=extra if "own" in name else "")) == []


@pytest.mark.parametrize(
    "end", ["return (x, side) if self.training else x", "return x if not self.training else (x, side)"]
)
def test_what_only_training_gives_back_is_no_part_of_an_export(end: str) -> None:
    assert found(net(f"side = torch.cdist(x, y)\n{end}")) == []
    assert found(net("side = torch.cdist(x, y)\nreturn x if self.training else (x, side)")) != []


def test_training_only_is_for_information() -> None:
    assert found(net("if self.training:\n    x = torch.cdist(x, y)\nreturn x")) == [("OPS001", "info", "aten::cdist")]
    text = net("if not self.training:\n    return x\nreturn F.pixel_unshuffle(x, 2)")
    assert found(text) == [("OPS003", "info", "aten::pixel_unshuffle")]


def test_losses_are_not_exported() -> None:
    kind = "aten::cross_entropy_loss"
    assert found(net("if w is None:\n    return x\nreturn F.cross_entropy(x, y)")) == [("OPS001", "info", kind)]
    assert not found(
        net("labels = w\nif labels is not None and y is not None:\n    x = F.cross_entropy(x, y)\nreturn x")
    )
    assert not found(net("if start_positions is not None:\n    x = F.cross_entropy(x, y)\nreturn x"))
    assert not found(net("if return_loss:\n    x = F.cross_entropy(x, y)\nreturn x"))
    assert not found(net("return F.cross_entropy(x, y)").replace("class Net", "class NetLoss"))
    assert not found(net("return ctc_loss(x)", extra="\n\ndef ctc_loss(x):\n    return torch.cdist(x, x)\n"))


def test_a_layer_is_reported_where_it_is_called() -> None:
    text = net("layer = nn.CrossEntropyLoss()\nreturn layer(x, y)")
    (finding,) = modellint.check_source(text).diagnostics
    assert finding.span is not None
    assert text.splitlines()[finding.span.row - 1].strip() == "return layer(x, y)"
    assert len(found(net("return nn.CrossEntropyLoss()(x, y)"))) == 1


def test_a_branch_for_a_tensor_that_is_not_given_is_not_read() -> None:
    extra = (
        "\n\ndef made():\n    return torch.diag(torch.ones(4))\n"
        "\n\ndef scaled(x, kernel=None):\n    if kernel is None:\n        kernel = made()\n    return x * kernel\n"
    )
    assert not found(net("return scaled(x, kernel=self.kernel)", "self.kernel = nn.Buffer(made())", extra=extra))
    assert found(net("return scaled(x)", "self.kernel = nn.Buffer(made())", extra=extra))
    assert found(net("return scaled(x, kernel=w)", "self.kernel = nn.Buffer(made())", extra=extra))


def test_tensors_of_other_packages_are_not_torchs() -> None:
    text = net("return x.abs() * torch.exp(1j * x.angle())")
    assert found(text)
    assert not found(text.replace("x, y", "x: ComplexTensor, y"))
    assert found(text.replace("x, y", "x: torch.Tensor | ComplexTensor, y"))


def test_one_finding_for_an_operator_in_a_line() -> None:
    assert len(found(net("return x.unfold(1, 2, 2).unfold(2, 2, 2)"))) == 1
    assert len(found(net("return x.unfold(1, 2, 2) + torch.cdist(x, y)"))) == 2


def test_code_that_forward_does_not_reach_is_clean() -> None:
    assert not found(net("return x", extra="\n    def loss(self, x):\n        return torch.cdist(x, x)\n"))
    assert not found(net("return x", extra="\n\ndef loss(x):\n    return torch.cdist(x, x)\n"))
    assert not found(net("return x", "self.w = nn.Parameter(torch.fmod(torch.ones(2), 2))"))


def test_help_names_a_rewrite_or_what_comes() -> None:
    (lerp,) = modellint.check_source(net("return torch.lerp(x, y, w)")).diagnostics
    assert lerp.help == "Write `x + z * (y - x)` for `torch.lerp(x, y, z)`; it may round differently"
    (select,) = modellint.check_source(net("return torch.masked_scatter(x, x > 0, y)")).diagnostics
    assert select.help == "coremltools 9.1.dev1 has a converter"
    (prod,) = modellint.check_source(net("return x.prod()")).diagnostics
    assert prod.help == (
        "Write `torch.cumprod(x, 1)[:, -1]` for `torch.prod(x, dim=1)`; it may round differently. "
        "The next coremltools has a converter"
    )


LATER = {
    "asinh": ("return torch.asinh(x)", "OPS001", ("9.0",)),
    "prod": ("return x.prod()", "OPS001", ("9.0", "9.1.dev1")),
    "or": ("return (x > 0) | (y > 0)", "OPS001", ("9.0",)),
    "or in place": ("m = x > 0\nm |= y > 0\nreturn m", "OPS001", ("9.0", "9.1.dev1")),
    "and in place": ("m = x > 0\nm &= y > 0\nreturn m", "OPS001", ("9.0", "9.1.dev1")),
    "dots": ("return torch.einsum('...ij,...jk->...ik', x, y)", "OPS002", ("9.0",)),
    "bicubic": ("return F.interpolate(x, scale_factor=2, mode='bicubic')", "OPS002", ("9.0", "9.1.dev1")),
    "alpha": ("return torch.add(x, y, alpha=3)", "OPS007", ("9.0",)),
    "lowest": ("return x.masked_fill(y > 0, torch.finfo(torch.float32).min)", "NUM001", ("9.0",)),
    "low": ("return x.masked_fill(y > 0, -1e9)", "NUM001", ("9.0", "9.1.dev1", "main-e0e2f42")),
}


@pytest.mark.parametrize("version", ["9.0", "9.1.dev1", "main-e0e2f42"])
@pytest.mark.parametrize("name", LATER)
def test_findings_follow_the_version(name: str, version: str) -> None:
    body, code, reported = LATER[name]
    Path("modellint.toml").write_text(f"coreml-version = '{version}'\n", "utf-8")
    codes = [finding.code for finding in modellint.check_source(net(body)).diagnostics]
    assert (code in codes) == (version in reported)


@pytest.mark.parametrize("version", ["9.0", "9.1.dev1", "main-e0e2f42"])
def test_operators_of_packages_follow_the_version(version: str) -> None:
    Path("modellint.toml").write_text(f"coreml-version = '{version}'\n", "utf-8")
    text = "from torchvision import ops\n" + net("return ops.roi_align(x, y, 3), ops.roi_pool(x, y, 3)")
    operators = [finding.operator for finding in modellint.check_source(text).diagnostics if finding.code == "OPS001"]
    assert operators == [*["torchvision::roi_align"] * (version == "9.0"), "torchvision::roi_pool"]


SIGNS = {
    "or": ("return (x > 0) | (y > 0)", "aten::__or__"),
    "or of masks": ("mask = torch.isnan(x)\nreturn w | mask", "aten::__or__"),
    "or in place": ("mask = x > 0\nmask |= y > 0\nreturn mask", "aten::__ior__"),
    "xor": ("return x ^ y", "aten::__xor__"),
    "shift": ("return (x.long() + 1) >> 2", "aten::__rshift__"),
    "shift by a number": ("return x << 2", "aten::__lshift__"),
}


@pytest.mark.parametrize("name", SIGNS)
def test_signs_between_tensors(name: str) -> None:
    forward, kind = SIGNS[name]
    text = net(forward).replace("x, y, w", "x: torch.Tensor, y: torch.Tensor, w: torch.Tensor")
    assert found(text) == [("OPS001", "error", kind)]


def test_and_in_place_converts_by_one_route() -> None:
    assert found(net("mask = x > 0\nmask &= y > 0\nreturn mask")) == [("OPS001", "warning", "aten::__iand__")]


OTHER_SIGNS = {
    "and": "return (x > 0) & (y > 0)",
    "numbers": "n = x.shape[0] >> 1\nreturn x * (1 << n)",
    "sets": "names = {1} | {2}\nreturn x * len(names)",
    "dicts": "extra = dict(w) | {'a': 1}\nreturn x * len(extra)",
    "unknown": "return self.lin.mask(x) | 1",
    "condition": "if ((x > 0) | (y > 0)).any():\n    return x\nreturn y",
    "functions": "return torch.logical_or(x > 0, y > 0)",
}


@pytest.mark.parametrize("name", OTHER_SIGNS)
def test_other_signs(name: str) -> None:
    assert found(net(OTHER_SIGNS[name])) == []


FLAGS = {
    "argument": ("wide: bool = False", "", "if wide:\n    return torch.cdist(x, x)\nreturn x"),
    "none": ("wide: int | None = None", "", "if wide is not None:\n    return torch.cdist(x, x)\nreturn x"),
    "word": ("mode='near'", "", "if mode == 'far':\n    x = torch.cdist(x, x)\nreturn x"),
    "number": ("count: int = 0", "", "return torch.cdist(x, x) if count else x"),
    "exit": ("wide=False", "", "if not wide:\n    return x\nreturn torch.cdist(x, x)"),
    "both": ("wide=False, y=None", "", "if wide and y is not None:\n    return torch.cdist(x, x)\nreturn x"),
    "else": ("plain=True", "", "if plain:\n    x = x * 2\nelse:\n    x = torch.cdist(x, x)\nreturn x"),
    "method": ("wide=False", "", "return self.more(x) if wide else x"),
    "option of the class": ("", "wide=False", "if self.wide:\n    return torch.cdist(x, x)\nreturn x"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_what_no_default_asks_for_is_for_information(name: str) -> None:
    given, option, forward = FLAGS[name]
    extra = "\n    def more(self, x):\n        return torch.cdist(x, x)\n"
    text = net(forward, "self.wide = wide" if option else "pass", extra=extra)
    text = text.replace("x, y, w", f"x, {given}").replace("__init__(self)", f"__init__(self, {option})")
    assert found(text) == [("OPS001", "info", "aten::cdist")]
    usual = text.replace("=False", "=True").replace("bool = False", "bool = True").replace("'near'", "'far'")
    usual = usual.replace("plain=True", "plain=False").replace("int = 0", "int = 1")
    if name not in ("none", "both"):
        assert found(usual) == [("OPS001", "error", "aten::cdist")]


def test_a_tensor_that_need_not_be_given_is_no_flag() -> None:
    text = net("if y is not None:\n    x = torch.cdist(x, y)\nreturn x").replace("x, y, w", "x, y=None")
    assert found(text) == [("OPS001", "error", "aten::cdist")]


def test_deployment_target() -> None:
    text = net("return F.pixel_unshuffle(x, 2)")
    assert found(text) == [("OPS003", "error", "aten::pixel_unshuffle")]
    assert run("check", "-", "--deployment-target", "iOS16", stdin=text).exit_code == 0
    assert run("check", "-", "--deployment-target", "watchOS9", stdin=text).exit_code == 0
    assert run("check", "-", "--deployment-target", "macOS12", stdin=text).exit_code == 1
    assert run("check", "-", "--deployment-target", "iOS14", stdin=text).exit_code == 2
    Path("modellint.toml").write_text("deployment-target = 'tvOS18'\n", "utf-8")
    assert found(text) == []
    assert "deployment-target = tvOS18" in run("config").stdout
    Path("modellint.toml").write_text("deployment-target = 'iPhone'\n", "utf-8")
    assert run("check", "-", stdin=text).exit_code == 2


def test_version() -> None:
    text = net("return torch.clamp_max(x, 2)")
    assert found(text) == []
    done = run("check", "-", "--coreml-version", "8.0", "--output-format", "concise", stdin=text)
    assert done.exit_code == 1
    assert "coremltools 8.0 has no converter for `aten::clamp_max`" in done.stdout
    assert run("check", "-", "--coreml-version", "8.1", stdin=text).exit_code == 0
    assert run("check", "-", "--coreml-version", "8.3.0", stdin=text).exit_code == 0
    for wrong in ("5.2", "99.0", "new", "main-1234567", "9.x"):
        done = run("check", "-", "--coreml-version", wrong, stdin=text)
        assert done.exit_code == 2
        assert "--coreml-version" in done.stderr
    Path("modellint.toml").write_text("coreml-version = '7.2'\n", "utf-8")
    assert found(text) == [("OPS001", "error", "aten::clamp_max")]
    Path("modellint.toml").write_text("coreml-version = '1'\n", "utf-8")
    assert "coremltools 1 is not in the operator table; it knows 6.0, " in run("check", "-", stdin=text).stderr


def test_cache_knows_where_the_model_goes(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(net("return F.pixel_unshuffle(torch.clamp_max(x, 2), 2)"), "utf-8")
    for _ in range(2):
        assert run("check", "net.py", "--statistics").stdout.count("OPS") == 1
        assert run("check", "net.py", "--statistics", "--deployment-target", "iOS17").stdout.count("OPS") == 0
        assert run("check", "net.py", "--statistics", "--coreml-version", "7.0").stdout.count("OPS") == 2
        assert '"aten::pixel_unshuffle"' in run("check", "net.py", "--output-format", "json").stdout


def test_table_is_in_order() -> None:
    assert table_version(None) == table_version("9.0") == table_version("9.0.1") == NEWEST
    assert table_version("9.1.dev1") == table_version("9.1") == table_version("9.1.3") == NEWEST + 1
    assert table_version("main-e0e2f42") == NEWEST + 2
    assert table_version("7.1") == VERSIONS.index("7.0")
    with pytest.raises(UnknownVersion):
        table_version("9.2")
    assert OPERATORS.keys() == SINCE.keys()
    assert all(OPERATORS.values())
    for since in SINCE.values():
        assert all(0 <= at <= len(VERSIONS) for at in (since.trace, since.export, since.core))
        assert since.ios in set(TARGETS.values())


def test_names_are_those_of_the_public_api() -> None:
    assert public_name("torch.nn.modules.activation.Hardshrink") == "torch.nn.Hardshrink"
    assert public_name("torch.functional.cdist") == "torch.cdist"
    assert operator("torch.relu") is None
    row = operator("torch.functional.cdist")
    assert row is not None
    assert (row.trace, row.exported, row.kind) == (False, False, "aten::cdist")
    # There was no front end for `torch.export` before 7.2.
    older = operator("torch.nn.functional.celu", VERSIONS[EXPORT_SINCE - 1])
    assert older is not None
    assert not older.converts


def test_a_name_of_the_module_that_stands_for_an_operator_wakes_the_rule() -> None:
    head = "import torch\nfrom torch import nn\n\nr2c = torch.view_as_complex\n\n\n"
    text = head + "class Net(nn.Module):\n    def forward(self, x):\n        return r2c(x)\n"
    assert [finding.code for finding in modellint.check_source(text).diagnostics] == ["OPS001"]


@pytest.mark.parametrize(
    ("body", "findings"),
    [
        ("return x @ x.mT", ["WARNING"]),
        ("y = F.softmax(x @ x.mH, -1)\nreturn y", ["WARNING"]),
        ("return x @ x.transpose(-2, -1)", []),
        ("if self.training:\n    return x.mT\nreturn x", ["INFO"]),
        ("print(x.mT.shape[0])\nreturn x @ self.names.mT", []),
    ],
)
def test_transposed_matrices_are_operators_of_their_own_to_a_trace(body: str, findings: list[str]) -> None:
    said = modellint.check_source(nets.net(body, init="self.names = n")).diagnostics
    assert [finding.severity.name for finding in said if finding.code == "OPS001"] == findings


@pytest.mark.parametrize(
    ("body", "findings"),
    [
        ("if not torch.jit.is_tracing():\n    x = torch.special.i0(x)\nreturn x", []),
        ("if not torch.jit.is_tracing():\n    x |= y\nreturn x", []),
        ("if torch.jit.is_scripting():\n    x = x.mT\nreturn x", []),
        ("if torch.jit.is_tracing():\n    x = torch.special.i0(x)\nreturn x", [("OPS001", "error", "aten::i0")]),
    ],
)
def test_what_no_capture_runs_is_clean(body: str, findings: list[tuple[str, str, str]]) -> None:
    assert found(net(body)) == findings


@pytest.mark.parametrize(
    ("init", "body", "kind"),
    [
        ("pass", "return torchvision.ops.deform_conv2d(x, y, w)", "torchvision::deform_conv2d"),
        ("self.roi = torchvision.ops.RoIAlign(7, 1.0, 2)", "return self.roi(x, y)", "torchvision::roi_align"),
        ("self.conv = DeformConv2d(3, 3, 3)", "return self.conv(x, y)", "torchvision::deform_conv2d"),
        ("pass", "return torchvision.ops.nms(x, y, 0.5)", None),
    ],
)
def test_operators_of_torchvision(init: str, body: str, kind: str | None) -> None:
    head = "import torchvision\nfrom torchvision.ops.deform_conv import DeformConv2d\n"
    assert found(head + net(body, init)) == ([("OPS001", "error", kind)] if kind else [])


@pytest.mark.parametrize(
    "body",
    [
        "return flex_attention(x, x, x)",
        "mask = flexible.create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 8, 8)\nreturn x",
    ],
)
def test_flexible_attention_converts_by_no_route(body: str) -> None:
    head = "from torch.nn.attention import flex_attention as flexible\nfrom torch.nn.attention.flex_attention import flex_attention\n"
    assert found(head + net(body)) == [("OPS001", "error", "flex_attention")]


@pytest.mark.parametrize(
    ("start", "step", "count"),
    [
        ("done = x > 9", "done = done | (x < y)", 1),
        ("done = None", "done = x < y if done is None else done | (x < y)", 1),
        (
            "done = torch.zeros(4, dtype=torch.bool) if self.limit else None",
            "if done is not None:\n        done = done | self.limit(x)",
            1,
        ),
        ("done = None", "done = done | self.limit(x)", 0),
        ("done = 0", "done = done | self.limit", 0),
    ],
)
def test_what_a_loop_carries_is_no_none_to_a_sign(start: str, step: str, count: int) -> None:
    text = net(f"{start}\nfor _ in range(3):\n    x = x * 2\n    {step}\nreturn done", "self.limit = limit")
    text = text.replace("def __init__(self", "def __init__(self, limit", 1)
    assert found(text) == [("OPS001", "error", "aten::__or__")] * count


def test_a_function_is_shown_with_its_whole_name() -> None:
    (finding,) = modellint.check_source(net("return x + torch.special.i0(x)")).diagnostics
    assert finding.span is not None and finding.span.column == 20


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        ("m = x > 0\nm[:, :2] = False\nm[:, 2:] = True\nreturn m", ["error"]),
        ("m = torch.isnan(x)\nm[0] = True\nreturn m", ["warning"]),
        ("m = torch.zeros(4, 4, dtype=torch.bool)\nm[1:] = x[1:] > 1\nreturn m", ["warning"]),
        ("border(x > 0, 2)\nreturn x", ["error"]),
        ("m = einops.rearrange(x > 0, 'b (h w) -> b h w', h=2)\nborder(m, 2)\nreturn m", ["error"]),
        ("m = x * 1\nm[:, :2] = 0\nreturn m", []),
        ("m = (x > 0).float()\nm[:, :2] = 0\nreturn m", []),
        ("m = y & w\nm[:, :2] = 0\nreturn m", []),
        ("m = x > 0\nm[y] = False\nreturn m", []),
        ("m = x > 0\nif torch.jit.is_scripting():\n    m[:, :2] = False\nreturn m", []),
        ("m = x > 0\nif self.training:\n    m[:, :2] = False\nreturn m", ["info"]),
    ],
)
def test_slices_of_truth_values_are_assigned_to(body: str, severities: list[str]) -> None:
    text = "import einops\n" + net(body, extra="\n\ndef border(m, width):\n    m[:, :width] = False\n")
    assert [d.severity.label for d in modellint.check_source(text).diagnostics if d.code == "OPS002"] == severities


@pytest.mark.parametrize(
    ("made", "first"),
    [
        ("torch.ones_like(x, dtype=torch.bool)", 16),
        ("torch.ones_like(x, dtype=torch.bool).reshape(-1, 4)", 16),
        ("torch.zeros_like(x, dtype=torch.bool)", 18),
        ("torch.full_like(x, True, dtype=torch.bool)", 18),
    ],
)
def test_the_first_target_for_which_truth_values_are_assigned(tmp_path: Path, made: str, first: int) -> None:
    (tmp_path / "net.py").write_text(net(f"m = {made}\nm[:, :2] = False\nreturn torch.where(m, x, -x)"))
    for target in (15, 16, 17, 18):
        arguments = [
            "check",
            "--output-format",
            "json",
            "--isolated",
            "--no-cache",
            "--select",
            "OPS002",
            str(tmp_path),
        ]
        arguments += ["--deployment-target", f"iOS{target}"]
        found = json.loads(CliRunner().invoke(cli, arguments).stdout)
        assert [f"before iOS {first}:" in one["message"] for one in found] == [True] * (target < first)


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        ("i = (x > 0).sum(1) - 1\nreturn x.gather(1, i.unsqueeze(-1))", ["error"]),
        ("return x.gather(1, y.long().clamp(min=0))", ["error"]),
        ("return x.gather(1, y.long().clamp(0, 3))", []),
        ("return x.gather(1, ((x > 0).sum(1) - 1).long().unsqueeze(-1))", []),
        ("return x.gather(1, y.long())", []),
        ("i = (y & w).sum(1) - 1\nreturn x.gather(1, i.unsqueeze(-1))", []),
    ],
)
def test_indices_that_become_floats(body: str, severities: list[str]) -> None:
    findings = modellint.check_source(net(body)).diagnostics
    assert [finding.severity.label for finding in findings if finding.code == "OPS002"] == severities


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("return torch.distributions.Normal(x, y).rsample()", ["OPS010"]),
        ("return self.distribution.sample()", []),
    ],
)
def test_samples_of_distributions(body: str, codes: list[str]) -> None:
    assert [finding.code for finding in modellint.check_source(net(body)).diagnostics] == codes


_ONLY_CORE = "converts at most from `torch.export` with core ATen decompositions"
_ONLY_ONE = "converts at most where it leaves one element of each channel, and from `torch.export` with core ATen decompositions"


@pytest.mark.parametrize(
    ("size", "severity", "claim"),
    [
        ("1", "warning", _ONLY_CORE),
        ("(1, 1, 1)", "warning", _ONLY_CORE),
        ("(2 // 2, 1, 1)", "warning", _ONLY_CORE),
        ("2", "error", "does not convert"),
        ("(8 // 2, 1, 1)", "error", "does not convert"),
        ("(None, 2, 2)", "error", "does not convert"),
        ("(None, 1, 1)", "warning", _ONLY_ONE),
        ("(count, 1, 1)", "warning", _ONLY_ONE),
        ("count", "warning", _ONLY_ONE),
        ("(count, 2, 2)", "error", "does not convert"),
    ],
)
def test_pooling_to_one_element_is_a_mean(size: str, severity: str, claim: str) -> None:
    def said(text: str) -> list[tuple[str, str]]:
        findings = [d for d in modellint.check_source(text).diagnostics if d.operator == "aten::adaptive_avg_pool3d"]
        return [(d.severity.label, d.message.partition(":")[0].partition("` ")[2]) for d in findings]

    lacking = [(severity, claim)]
    assert said(net(f"count = x.shape[2]\nreturn F.adaptive_avg_pool3d(x, output_size={size})")) == lacking
    layer = net("return self.pool(x)", f"self.pool = nn.AdaptiveAvgPool3d({size})")
    assert said(layer.replace("__init__(self)", "__init__(self, count)")) == lacking


@pytest.mark.parametrize(
    ("body", "severity", "claim"),
    [
        ("return torch.lerp(x, y, x.sigmoid().reshape(4, 4))", "warning", "converts at most from"),
        ("return torch.lerp(x, y, 0.3)", "error", "does not convert"),
        ("return x.lerp(y, 0.3)", "error", "does not convert"),
        ("x = x * 2\nx.lerp_(y, weight=0.3)\nreturn x", "error", "does not convert"),
        (
            "return x.lerp(y, w)",
            "warning",
            "converts at most with a tensor of one dimension or more for its weight, and from",
        ),
        ("return torch.linalg.matrix_power(x, 3)", "warning", "converts at most from"),
        ("return torch.matrix_power(x, -1)", "error", "does not convert"),
        ("return x.matrix_power(w)", "warning", "converts at most for an exponent that is not negative, and from"),
        ("return torch.diag(x)", "warning", "converts at most from"),
        ("return torch.diag(x.reshape(4, 4), 1)", "error", "does not convert"),
        ("return torch.diag(x.reshape(4), 1)", "warning", "converts at most from"),
        ("return x.diag(1)", "warning", "converts at most for the main diagonal or a vector, and from"),
    ],
)
def test_which_uses_convert_with_decompositions(body: str, severity: str, claim: str) -> None:
    findings = [d for d in modellint.check_source(net(body)).diagnostics if d.code == "OPS001"]
    assert [d.severity.label for d in findings] == [severity]
    assert f"` {claim}" in findings[0].message


def refusals(text: str) -> list[str]:
    return [
        f"{d.severity.label[0]} {d.message.split('`')[1]}"
        for d in modellint.check_source(text).diagnostics
        if d.code == "OPS002"
    ]


@pytest.mark.parametrize(
    ("forward", "layer", "told"),
    [
        ("return F.threshold(-x, -1, 0)", "", ["w F.threshold with an integer threshold"]),
        ("return F.threshold(x, -1.0, 0)", "", []),
        ("return F.threshold(x, value=0, threshold=1)", "", ["w F.threshold with an integer threshold"]),
        ("return F.threshold(x, w, 0)", "", []),
        ("return F.hardtanh_(x, 0, 6)", "", ["e F.hardtanh with an integer min_val"]),
        ("return F.hardtanh(x, 0.0, 6.0)", "", []),
        ("return F.hardtanh(x)", "", []),
        ("return self.act(x)", "nn.Hardtanh(0.0, 6)", ["e nn.Hardtanh with an integer max_val"]),
        ("return self.act(x)", "nn.LeakyReLU(1, inplace=True)", ["e nn.LeakyReLU with an integer negative_slope"]),
        ("return self.act(x)", "nn.LeakyReLU(0.2)", []),
        ("return self.act(x)", "nn.LeakyReLU(negative_slope=0)", ["e nn.LeakyReLU with an integer negative_slope"]),
        ("return F.leaky_relu(x.view(2, 2), 1)", "", ["e F.leaky_relu with an integer negative_slope"]),
        ("return F.relu(x.sum(1, True))", "", []),
        ("return F.elu(x, alpha=2)", "", ["e F.elu with an integer alpha"]),
        ("return self.act(x)", "nn.ELU(1.0, True)", []),
        ("return torch.sigmoid(x).clamp_min(0)", "", ["w clamp_min of floats with an integer"]),
        ("return x.clamp_min(0)", "", []),  # may be a tensor of integers, which convert
        ("return torch.sigmoid(x).clamp_min(0.0)", "", []),
        ("return torch.addmm(x, y, w, beta=0)", "", ["e addmm with an integer beta"]),
        ("return torch.addmm(x, y, w, beta=1)", "", []),
        ("return torch.zeros(3, 4).scatter_(1, y, 1) * x", "", ["e scatter of an integer into floats"]),
        ("return torch.zeros(3, 4, dtype=w).scatter_(1, y, 1) * x", "", []),
        ("return torch.zeros(3, 4).long().scatter_(1, y, 1) * x", "", []),
        ("return x.scatter(1, y, 1)", "", []),
        ("return x.scatter(1, y, 1.0)", "", []),
        ("return x.scatter(1, y, True)", "", ["e scatter of a truth value"]),
        ("return x.scatter(1, y, w)", "", []),
    ],
)
def test_integers_where_floats_are_wanted(forward: str, layer: str, told: list[str]) -> None:
    assert refusals(net(forward, f"self.act = {layer or 'nn.Identity()'}")) == told


WRAPPER = """

class Wrapper(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.inner = inner
        self.width = width

    def forward(self, x, flag=False):
        BODY
"""


@pytest.mark.parametrize(
    ("body", "layer", "told"),
    [
        ("return self.inner(x)", "nn.Hardtanh(0, 6.0)", True),
        ("return self.inner(x)", "nn.Sequential(nn.Linear(2, 2), nn.Hardtanh(0, 6.0))", True),
        ("return self.inner(x)", "Wrapper(2, inner=nn.Hardtanh(0, 6.0))", True),
        ("for part in self.inner:\n    x = part(x)\nreturn x", "nn.Sequential(nn.ReLU(), nn.Hardtanh(0, 6.0))", True),
        ("with torch.no_grad():\n    return self.inner(x) * 2", "nn.Hardtanh(0, 6.0)", True),
        ("return self.inner(x)", "nn.Hardtanh(0.0, 6.0)", False),
        ("return self.inner(x) if flag else x", "nn.Hardtanh(0, 6.0)", False),
        ("if flag:\n    return x\nreturn self.inner(x)", "nn.Hardtanh(0, 6.0)", False),
        (
            "for part in self.inner:\n    if flag:\n        x = part(x)\nreturn x",
            "nn.Sequential(nn.Hardtanh(0, 6.0))",
            False,
        ),
        ("return x * len(self.inner)", "nn.Sequential(nn.Hardtanh(0, 6.0))", False),
        ("self.inner = nn.ReLU()\nreturn self.inner(x)", "nn.Hardtanh(0, 6.0)", False),
    ],
)
def test_layer_that_another_module_is_built_with(body: str, layer: str, told: bool) -> None:
    text = net("return self.act(x)", f"self.act = Wrapper(4, {layer})")
    text += WRAPPER.replace("BODY", textwrap.indent(body, " " * 8).strip())
    assert refusals(text) == ["e nn.Hardtanh with an integer min_val"] * told


@pytest.mark.parametrize(
    ("kept", "given", "told"),
    [
        ("inner or nn.ReLU()", "nn.Hardtanh(0, 6.0)", True),
        ("inner if inner is not None else nn.ReLU()", "nn.Hardtanh(0, 6.0)", True),
        ("nn.ReLU() if inner is None else inner", "nn.Hardtanh(0, 6.0)", True),
        ("nn.Sequential(nn.Linear(2, 2), inner)", "nn.Hardtanh(0, 6.0)", True),
        ("nn.ReLU() or inner", "nn.Hardtanh(0, 6.0)", False),
        ("inner if width > 2 else nn.ReLU()", "nn.Hardtanh(0, 6.0)", False),
        ("nn.ModuleList([inner])", "nn.Hardtanh(0, 6.0)", False),
        ("wrap(inner)", "nn.Hardtanh(0, 6.0)", False),
    ],
)
def test_layer_that_another_module_keeps_in_another_form(kept: str, given: str, told: bool) -> None:
    text = net("return self.act(x)", f"self.act = Wrapper(4, {given})")
    text += WRAPPER.replace("BODY", "return self.inner(x)").replace("self.inner = inner", f"self.inner = {kept}")
    assert refusals(text) == ["e nn.Hardtanh with an integer min_val"] * told


@pytest.mark.parametrize(
    ("kept", "given", "told"),
    [
        ("inner()", "nn.CELU", True),
        ("inner(inplace=True)", "nn.CELU", True),
        ("nn.Sequential(nn.Linear(2, 2), inner())", "nn.CELU", True),
        ("inner()", "nn.ReLU", False),
        ("inner(width)", "nn.CELU", False),
        ("inner", "nn.CELU", False),
        ("inner() if width > 2 else nn.ReLU()", "nn.CELU", False),
    ],
)
def test_class_of_layers_that_another_module_is_built_with(kept: str, given: str, told: bool) -> None:
    text = net("return self.act(x)", f"self.act = Wrapper(4, {given})")
    text += WRAPPER.replace("BODY", "return self.inner(x)").replace("self.inner = inner", f"self.inner = {kept}")
    assert ("OPS001" in nets.codes(text, "OPS001")) is told


@pytest.mark.parametrize(
    ("layers", "body", "told"),
    [
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "return self.parts[1](x)", True),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "return self.parts[-1](x)", True),
        ("nn.Sequential(nn.ReLU(), nn.Hardtanh(0, 6.0))", "return self.parts[1](x)", True),
        ('nn.ModuleDict({"a": nn.ReLU(), "b": nn.Hardtanh(0, 6.0)})', 'return self.parts["b"](x)', True),
        (
            "nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])",
            "for i in range(len(self.parts)):\n    x = self.parts[i](x)",
            True,
        ),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "return self.parts[0](x)", False),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "return self.parts[2](x)", False),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "return self.parts[y](x)", False),
        ('nn.ModuleDict({"a": nn.ReLU(), "b": nn.Hardtanh(0, 6.0)})', 'return self.parts["a"](x)', False),
        ('nn.ModuleDict({"a": nn.ReLU(), "b": nn.Hardtanh(0, 6.0)})', "return self.parts[y](x)", False),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])", "for i in range(y):\n    x = self.parts[i](x)", False),
        (
            "nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])",
            "for i in range(len(self.parts)):\n    if y:\n        x = self.parts[i](x)",
            False,
        ),
        (
            "nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])\nself.parts[1] = nn.ReLU()",
            "return self.parts[1](x)",
            False,
        ),
        ("nn.ModuleList([nn.ReLU(), nn.Hardtanh(0, 6.0)])\nself.parts = nn.ReLU()", "return self.parts[1](x)", False),
    ],
)
def test_layer_picked_out_of_a_row(layers: str, body: str, told: bool) -> None:
    assert refusals(net(body, f"self.parts = {layers}")) == ["e nn.Hardtanh with an integer min_val"] * told


@pytest.mark.parametrize(
    ("layers", "body", "told"),
    [
        ("nn.Sequential(nn.Linear(2, 2), nn.Hardtanh(0, 6.0))", "x = part(x)", True),
        ("nn.ModuleList([nn.Linear(2, 2), nn.Hardtanh(0, 6.0)])", "x = part(x)", True),
        ("nn.ModuleList([nn.Linear(2, 2), nn.Hardtanh(0, 6.0)] * y)", "x = part(x)", False),
        ("nn.ModuleList([nn.Linear(2, 2), nn.Hardtanh(0, 6.0)])", "if y:\n    x = part(x)", False),
        ("nn.ModuleList([nn.Linear(2, 2), nn.Hardtanh(0, 6.0)])", "if y:\n    continue\nx = part(x)", False),
        ("nn.ModuleList([nn.Linear(2, 2), nn.Hardtanh(0, 6.0)])", "x = part(x) if y else x", False),
    ],
)
def test_each_layer_of_a_row(layers: str, body: str, told: bool) -> None:
    loop = "for part in self.parts:\n" + textwrap.indent(body, " " * 4) + "\nreturn x"
    assert refusals(net(loop, f"self.parts = {layers}")) == ["e nn.Hardtanh with an integer min_val"] * told


@pytest.mark.parametrize("other", ["None", "nn.Identity()"])
def test_layer_or_none(other: str) -> None:
    text = net("return self.act(x)", f"self.act = nn.Hardtanh(0, 6.0) if torch.cuda.is_available() else {other}")
    assert refusals(text) == ["e nn.Hardtanh with an integer min_val"] * (other == "None")


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        (
            "t = torch.arange(x.shape[1], dtype=torch.float32)\nreturn x + torch.sin(t)",
            ["e sin of arange with a float dtype"],
        ),
        (
            "t = torch.arange(0, len(x), 2, dtype=torch.float)\nreturn (t * 2).unsqueeze(0).exp()",
            ["e exp of arange with a float dtype"],
        ),
        (
            "t = torch.arange(x.shape[1], dtype=torch.float32)\nreturn torch.outer(t, self.f)",
            ["w outer of arange with a float dtype"],
        ),
        ("t = torch.arange(x.shape[1], dtype=torch.float32)\nreturn t[:, None] @ self.f[None]", ["e arange"]),
        ("t = torch.arange(int(w), dtype=torch.float32)\nreturn x @ t[:, None]", []),  # x may hold integers
        ("t = torch.arange(int(w), dtype=torch.float32)\nreturn x.exp() @ t[:, None]", ["e arange"]),
        ("t = torch.arange(int(w), dtype=torch.float32)\nreturn x / (1 / (t + 1))", ["e arange"]),
        ("t = torch.arange(x.shape[1], dtype=torch.float32)\nreturn t[:, None] @ x.exp()", []),
        ("t = torch.arange(x.shape[1], dtype=torch.float32)\nreturn t[:, None] * self.f", []),
        ("t = torch.arange(x.shape[1]).float()\nreturn torch.outer(t.sin(), self.f)", []),
        ("t = torch.arange(float(x.shape[1]), dtype=torch.float32)\nreturn t.sin()", []),
        ("t = torch.arange(w, dtype=torch.float32)\nreturn t.sin()", []),  # w may be a float
        ("t = torch.arange(x.shape[1], dtype=torch.float32) / 2\nreturn t.sin()", []),
        ("t = torch.arange(x.shape[1], dtype=torch.float32)\nt.mul_(0.5)\nreturn t.sin()", []),
        ("t = torch.arange(x.shape[1], dtype=torch.float32).to(x)\nreturn t.sin()", []),
        ("t = torch.arange(8, dtype=torch.float32)\ng = math.log(10000) / (8 - 1)\nreturn torch.exp(t * -g)", []),
        ("t = torch.arange(8, dtype=torch.float32)\nreturn torch.exp(t * (x.shape[1] / 2))", []),
        ("t = torch.arange(x.shape[1] / 2, dtype=torch.float32)\nreturn torch.exp(t)", []),
        ("n = w // 2\nt = torch.arange(n, dtype=torch.float32)\nreturn t.sin()", []),
        ("return x + self.t.sin()", []),
    ],
)
def test_floats_that_are_held_as_integers(forward: str, told: list[str]) -> None:
    init = 'self.register_buffer("f", 1 / (2.0 ** torch.rand(8)))\nself.register_buffer("t", torch.arange(8, dtype=torch.float32))'
    assert refusals(f"import math\n{net(forward, init)}") == told


DEFAULTS = {
    "a class": ("act=nn.CELU", "self.act = act()", "return self.act(x)", "OPS001"),
    "a function": ("act=F.celu", "self.act = act", "return self.act(x)", "OPS001"),
    "a mode": (
        'mode="bicubic"',
        "self.mode = mode",
        "return F.interpolate(x, scale_factor=2, mode=self.mode)",
        "OPS002",
    ),
    "a mode of a layer": ('mode="trilinear"', "self.up = nn.Upsample(None, 2, mode)", "return self.up(x)", "OPS002"),
    "a number": (
        "rate=0.1",
        "self.rate = rate",
        "return F.scaled_dot_product_attention(x, x, x, dropout_p=self.rate)",
        "OPS002",
    ),
}


def with_default(argument: str, init: str, forward: str, extra: str = "") -> str:
    return (
        f"{HEAD}class Part(nn.Module):\n    def __init__(self, {argument}):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        {forward}\n{extra}"
    )


def told(text: str) -> list[str]:
    return [d.code for d in modellint.check_source(text).diagnostics if d.code in ("OPS001", "OPS002")]


BUILT = "\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part({})\n"


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_a_constructor_has_by_default(kind: str) -> None:
    *parts, code = DEFAULTS[kind]
    assert told(with_default(*parts)) == [code]
    assert told(with_default(*parts, BUILT.format(""))) == [code]
    for given in ("other", "None", "*parts", "**parts"):
        assert told(with_default(*parts, BUILT.format(given))) == [], given


def test_what_a_constructor_has_by_default_is_changed() -> None:
    *parts, _ = DEFAULTS["a mode"]
    assert told(with_default(*parts, '\n    def soften(self):\n        self.mode = "bilinear"\n')) == []
    assert told(with_default(*parts, '\n\ndef soften(net):\n    net.mode = "bilinear"\n')) == []


def test_a_number_that_is_a_state() -> None:
    init, forward = "self.slope = 1", "return x if self.slope == 1 else F.leaky_relu(x, self.slope)"
    assert told(with_default("n=4", init, forward)) == []


def test_a_function_that_is_kept() -> None:
    assert told(net("return self.act(x)", "self.act = F.celu")) == ["OPS001"]


HANDED_ON = {
    "only to unread code": ("return self.mix(x, starts=w.prod(1).cumsum(0)[:-1])", "info"),
    "by a variable, and further functions": (
        "s = torch.cat((w[:1], w.prod(1)))\nreturn self.mix(x, y, s) + self.mix(x, s=s)",
        "info",
    ),
    "as the input of a layer": ("return self.mix(w.prod(1))", "error"),
    "to a layer of torch": ("return self.mix(x, self.lin(w.prod(1)))", "info"),
    "into what is returned, too": ("s = w.prod(1)\nreturn self.mix(x, s), s", "error"),
    "into an operation, too": ("s = w.prod(1)\nreturn self.mix(x, s) + s", "error"),
    "under a star": ("return self.mix(x, **{'s': w.prod(1)})", "error"),
    "to a function of the project": ("return self.mix(x) + own(x, w.prod(1))", "error"),
    "into what changes in place": ("y = y * 1\ny.add_(w.prod(1))\nreturn self.mix(y)", "error"),
    "by a variable that is added to": ("s = w.prod(1)\ns += 1\nreturn self.mix(x, s)", "error"),
    "round in a circle": ("s = w.prod(1)\nfor _ in range(3):\n    s = s * 2\nreturn self.mix(x, s)", "error"),
    "nowhere": ("s = w.prod(1)\nt = s * 2\nreturn self.mix(x)", None),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_only_unread_code_takes(name: str) -> None:
    forward, severity = HANDED_ON[name]
    own = "\n\ndef own(x, s):\n    return x * s\n"
    text = f"from blocks.ops import Mixer\n{net(forward, 'self.mix = Mixer(4)' + chr(10) + 'self.lin = nn.Linear(2, 2)', own)}"
    assert [weight for _, weight, _ in found(text)] == ([severity] if severity else [])


def test_unread_code_is_named() -> None:
    text = f"from blocks.ops import Mixer\n{net('return self.mix(x, s=w.prod(1))', 'self.mix = Mixer(4)')}"
    (told,) = [d.message for d in modellint.check_source(text).diagnostics if d.code == "OPS001"]
    assert told.endswith("; its result is only handed to `self.mix`, which was not read")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("h = torch.zeros_like(x)\nnn.init.trunc_normal_(h, std=0.1)\nreturn x + h", ["nn.init.trunc_normal_"]),
        ("return x + torch.nn.init.xavier_uniform_(torch.empty_like(x))", ["nn.init.xavier_uniform_"]),
        ("h = torch.zeros_like(x)\nnn.init.ones_(h)\nreturn x + h", []),
        ("if self.training:\n    nn.init.normal_(x)\nreturn x", []),
    ],
)
def test_functions_that_fill_a_tensor_at_random(body: str, names: list[str]) -> None:
    text = net(body, init="nn.init.normal_(nn.Linear(2, 2).weight)")
    told = [one for one in modellint.check_source(text).diagnostics if one.code == "OPS001"]
    assert [one.message.split("`")[1] for one in told if one.severity.label != "info"] == names

"""Rules about single calls: mode, hooks, direct calls of forward, loading, and modules without a forward."""

from __future__ import annotations

import textwrap
from pathlib import Path

import nets
import pytest

import modellint
from modellint.source.fix import fix_text
from modellint.source.syntax.source_text import SourceText

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net(forward: str, init: str = "pass", extra: str = "") -> str:
    lines = textwrap.indent(textwrap.dedent(init).strip(), " " * 8)
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}\n\n"
        f"    def forward(self, x):\n{body}\n{extra}"
    )


OURS = ("DEV002", "FLW", "MOD", "SIG005")


def codes(text: str, *wanted: str) -> list[str]:
    return nets.codes(text, *wanted or OURS)


def fixed(text: str) -> str:
    done = fix_text(SourceText(text), lambda source: modellint.check_source(source.text).diagnostics, unsafe=True)
    assert done.problem is None
    return done.text


@pytest.mark.parametrize(
    "body",
    [
        "return F.dropout(x, 0.5, training=self.training)",
        "return F.dropout(x, 0.5, self.training)",
        "return F.dropout(x, p=0.1, training=False)",
        "on = self.training\nreturn F.dropout(x, 0.1, on)",
        "if self.training:\n    x = F.dropout(x)\nreturn x",
        "if not self.training:\n    return x\nreturn F.dropout(x)",
        "if self.training and x.size(0) > 1:\n    x = F.dropout(x)\nreturn x",
        "return F.dropout(x) if self.training else x",
        "return self.noisy(x) if self.training else x",
        "return F.dropout(x, 0.0)",
        "return F.dropout(x, *self.options)",
        "return F.alpha_dropout(x, 0.5)",
        "return F.batch_norm(x, None, None, training=True)",
        "rate = 0.1 if self.training else 0.0\nreturn F.dropout(x, rate)",
        "return self.drop(x)",
    ],
)
def test_dropout_that_obeys_is_clean(body: str) -> None:
    extra = "\n    def noisy(self, x):\n        return F.dropout(x, 0.5)\n" if "noisy" in body else ""
    assert codes(net(body, "self.drop = nn.Dropout(0.1)\nself.options = (0.1, False)", extra), "MOD006") == []


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return F.dropout(x)", "return F.dropout(x, training=self.training)"),
        ("return F.dropout2d(x, 0.5,)", "return F.dropout2d(x, 0.5, training=self.training,)"),
        (
            "return F.dropout(\n    (x)  # all\n)",
            "return F.dropout(\n            (x), training=self.training  # all\n        )",
        ),
        ("return F.alpha_dropout(x, 0.5, True)", "return F.alpha_dropout(x, 0.5, self.training)"),
        ("return F.rrelu(x, training=True)", "return F.rrelu(x, training=self.training)"),
        ("if not self.training:\n    x = F.dropout(x)\nreturn x", "x = F.dropout(x, training=self.training)"),
    ],
)
def test_dropout_always_on(body: str, after: str) -> None:
    text = net(body)
    assert codes(text) == ["MOD002"]
    assert after in fixed(text)


def test_dropout_in_a_helper_is_reported_once() -> None:
    text = net("return noisy(x) + noisy(x)") + "\n\ndef noisy(x):\n    return F.dropout(x, 0.5)\n"
    assert codes(text) == ["MOD002"]


def test_hooks() -> None:
    text = net(
        "return self.a(x)",
        "self.a = nn.Linear(2, 2)\nself.a.register_forward_hook(print)\nself.a.register_full_backward_hook(print)\n"
        "handles = []\nhandles.append(self.a.register_backward_hook(print))",
    )
    assert codes(text) == ["MOD006"]
    assert "handles.append(self.a.register_full_backward_hook(print))" in fixed(text)


def test_hook_outside_of_modules() -> None:
    text = f"{HEAD}class Watcher:\n    def watch(self, layer):\n        layer.register_backward_hook(print)\n"
    assert codes(text) == ["MOD006"]


HOOK = """
class Watcher:
    def watch(self, layer):
        layer.register_backward_hook({hook})

    def keep(self, module, inputs, outputs):
        {body}
"""


@pytest.mark.parametrize(
    ("hook", "body", "severity"),
    [
        ("self.keep", "self.kept = outputs[0]", "INFO"),
        ("self.keep", "self.kept = inputs[0]", "WARNING"),
        ("self.keep", "return (outputs[0],)", "WARNING"),
        ("keep", "self.kept = outputs[0]", "WARNING"),
        ("print", "pass", "WARNING"),
    ],
)
def test_hook_that_reads_the_gradients_of_outputs_alone(hook: str, body: str, severity: str) -> None:
    findings = modellint.check_source(HEAD + HOOK.format(hook=hook, body=body)).diagnostics
    assert [(finding.code, finding.severity.name) for finding in findings] == [("MOD006", severity)]


@pytest.mark.parametrize(
    ("hook", "before", "severity"),
    [
        ("lambda module, inputs, outputs: kept.append(outputs[0])", "", "INFO"),
        ("lambda module, inputs, outputs: kept.append(inputs[0])", "", "WARNING"),
        ("lambda module, inputs, outputs: outputs", "", "WARNING"),
        ("keep", "def keep(module, inputs, outputs):\n    kept.append(outputs[0])", "INFO"),
        ("keep", "def keep(module, inputs, outputs):\n    kept.append(inputs[0])", "WARNING"),
        ("keep", "def keep(module, inputs, outputs):\n    kept.append(outputs[0])\nkeep = print", "WARNING"),
        ("keep", "def keep(*gradients):\n    kept.append(gradients)", "WARNING"),
        (
            "made(3)",
            "def made(n):\n    def keep(module, inputs, outputs):\n        kept.append(outputs[0])\n    return keep",
            "INFO",
        ),
        (
            "made(3)",
            "def made(n):\n    def keep(module, inputs, outputs):\n        kept.append(inputs[0])\n    return keep",
            "WARNING",
        ),
        ("made(3)", "def made(n):\n    return lambda m, inputs, outputs: kept.append(outputs[0])", "INFO"),
        ("made(3)", "def made(n):\n    return print", "WARNING"),
    ],
)
def test_hook_that_stands_in_a_function(hook: str, before: str, severity: str) -> None:
    lines = textwrap.indent(before, "    ")
    text = f"{HEAD}def watch(layer, kept):\n{lines}\n    layer.register_backward_hook({hook})\n"
    text += (
        "\n\ndef other(layer):\n    def keep(module, inputs, outputs):\n        return inputs\n\n    layer.go(keep)\n"
    )
    findings = modellint.check_source(text).diagnostics
    assert [(finding.code, finding.severity.name) for finding in findings] == [("MOD006", severity)]


def test_forward_by_name() -> None:
    init = "self.fc = nn.Linear(2, 2)\nself.many = nn.ModuleList([nn.Linear(2, 2)])"
    text = net(
        "x = self.fc.forward(x)\nfor m in self.many:\n    x = m.forward(x)\nreturn self.many[0].forward(x)", init
    )
    assert codes(text) == ["FLW007"] * 3
    assert ".forward(" not in fixed(text).partition("def forward")[2]


def test_forward_by_name_of_what_only_its_use_shows_to_be_a_module() -> None:
    text = net("y = self.part.forward(x)\nreturn self.tool.forward(y)", "self.part = made()\nself.tool = made()")
    text += "\n    def freeze(self):\n        for p in self.part.parameters():\n            p.requires_grad = False\n"
    assert codes(text) == ["FLW007"]
    assert "y = self.part(x)" in fixed(text)


def test_forward_of_others_is_clean() -> None:
    text = (
        f"{HEAD}class Base(nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
        "class Net(Base):\n    def forward(self, x, cursor):\n        cursor.forward(1)\n        kept = self.forward\n"
        "        return super().forward(x) + Base.forward(self, x) + kept(x)\n"
    )
    assert codes(text, "FLW007") == []


def test_wrapped_submodule() -> None:
    text = net("return self.a(x)", "self.a = nn.DataParallel(nn.Linear(2, 2))")
    assert codes(text) == ["FLW006"]
    assert "self.a = nn.Linear(2, 2)\n" in fixed(text)


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("torch.cuda.device_count() > 1", "info"),
        ("len(self.device_ids) > 1", "info"),
        ("distributed", "info"),
        ("wrap", "warning"),
        ("len(self.widths) > 1", "warning"),
    ],
)
def test_wrapping_for_several_devices_is_information(test: str, severity: str) -> None:
    init = f"self.a = nn.Linear(2, 2)\nif {test}:\n    self.a = nn.DataParallel(self.a)"
    findings = modellint.check_source(net("return self.a(x)", init)).diagnostics
    assert [finding.severity.label for finding in findings if finding.code == "FLW006"] == [severity]
    compiled = modellint.check_source(
        net("return self.a(x)", init.replace("nn.DataParallel", "torch.compile"))
    ).diagnostics
    assert [finding.severity.label for finding in compiled if finding.code == "FLW006"] == ["warning"]


def test_wrapping_for_training_is_clean() -> None:
    text = f"{HEAD}def train(model):\n    model = nn.DataParallel(model)\n    return torch.compile(model)\n"
    assert codes(text, "FLW006") == []


@pytest.mark.parametrize(
    "call", ["torch.load(p, 'cpu')", "torch.load(p, map_location=d)", "torch.load(p, **k)", "json.load(p)"]
)
def test_load_that_says_where_is_clean(call: str) -> None:
    assert (
        codes(f"import json\nimport torch\n\n\nclass A:\n    def f(self, p, d, k):\n        return {call}\n", "DEV002")
        == []
    )


def test_load() -> None:
    text = "import torch\n\n\nclass A:\n    def f(self, p):\n        self.model = torch.load(p, weights_only=False)\n"
    assert codes(text) == ["DEV002"]
    assert 'torch.load(p, weights_only=False, map_location="cpu")' in fixed(text)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("net.load_state_dict(torch.load(p))", True),
        ("held = torch.load(p)\n    net.load_state_dict(held['net'])", True),
        ("return torch.load(p)['state_dict']", True),
        ("checkpoint = torch.load(p, weights_only=True)\n    return checkpoint", True),
        ("images, labels = torch.load(p)\n    return images", False),
        ("return torch.load(os.path.join(p, 'graph.pt'), weights_only=True)", False),
        ("model = torch.load(io.BytesIO(p))\n    return model", False),
        ("net.load_state_dict(torch.load(p, 'cpu'))", False),
    ],
)
def test_only_the_load_of_a_checkpoint_counts(body: str, found: bool) -> None:
    text = f"import io\nimport os\n\nimport torch\n\n\ndef restore(net, p):\n    {body}\n"
    assert ("DEV002" in codes(text)) is found


@pytest.mark.parametrize(
    ("saved", "path", "found"),
    [
        ("net.cpu().state_dict()", "'%s_net.pth' % step", False),
        ("net.module.cpu().state_dict()", "'%s_net.pth' % step", False),
        ("net.state_dict()", "'%s_net.pth' % step", True),
        ("net.cpu().state_dict()", "'%s_other.pth' % step", True),
        ("net.cpu().state_dict()", "step", False),
        ("net.state_dict()", "step", True),
    ],
)
def test_files_that_the_source_saves_from_the_cpu(saved: str, path: str, found: bool) -> None:
    wanted = "'%s_net.pth' % step" if "pth" in path else "step"
    text = (
        f"import os\n\nimport torch\n\n\ndef keep(net, step, root):\n    name = {path}\n    place = os.path.join(root, name)\n"
        f"    torch.save({saved}, place)\n\n\ndef restore(net, step, root):\n    name = {wanted}\n"
        "    weights = torch.load(os.path.join(root, name))\n    net.load_state_dict(weights)\n"
    )
    assert ("DEV002" in codes(text)) is found
    again = text + "\n\ndef also(net, step):\n    torch.save(net.state_dict(), '%s_net.pth' % step)\n"
    assert "DEV002" in codes(again)


@pytest.mark.parametrize(
    ("made", "found"),
    [("torch.zeros(4, 3)", False), ("torch.zeros(4, 3, device=device)", True), ("net.state_dict()", True)],
)
def test_a_cache_that_the_function_writes_itself(made: str, found: bool) -> None:
    text = (
        "import os\n\nimport torch\n\n\ndef restore(net, p, device):\n    if os.path.isfile(p + '.pth'):\n"
        "        weights = torch.load(p + '.pth')\n        return weights\n"
        f"    weights = {made}\n    torch.save(weights, p + '.pth')\n    return weights\n"
    )
    assert ("DEV002" in codes(text)) is found


@pytest.mark.parametrize(
    ("place", "again", "found"),
    [
        ("os.path.join(root, 'best_model.pth')", "", False),
        ("os.path.join(root, 'last_model.pth')", "", True),
        ("os.path.join(root, 'best_model.pth')", "    place = root\n", True),
    ],
)
def test_a_file_that_the_function_has_saved_by_another_name(place: str, again: str, found: bool) -> None:
    text = (
        "import os\n\nimport torch\n\n\ndef run(net, root, best):\n    if best:\n        path = os.path.join(root, 'qat_model.pth')\n"
        "    else:\n        path = os.path.join(root, 'best_model.pth')\n    torch.save(net, path)\n"
        f"    place = {place}\n{again}    net.load_state_dict(torch.load(place).state_dict())\n"
    )
    assert ("DEV002" in codes(text)) is found


def test_module_without_forward() -> None:
    inner = f"{HEAD}class Inner(nn.Module):\n    def forwrad(self, x):\n        return x\n\n\n"
    text = inner + net("return self.inner(x)", "self.inner = Inner()").removeprefix(HEAD)
    findings = modellint.check_source(text).diagnostics
    assert [finding.code for finding in findings] == ["SIG005"]
    assert "forwrad" in findings[0].message


@pytest.mark.parametrize(
    "inner",
    [
        "class Inner(nn.Module):\n    def __call__(self, x):\n        return x\n",
        "class Inner(Unknown):\n    pass\n",
        "class Inner(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.forward = print\n",
        "class Inner(nn.Module):\n    def __getattr__(self, name):\n        return print\n",
        "class Base(nn.Module):\n    def forward(self, x):\n        return x\n\n\nclass Inner(Base):\n    pass\n",
        "class Inner(nn.ReLU):\n    pass\n",
    ],
)
def test_module_that_may_have_a_forward_is_clean(inner: str) -> None:
    assert (
        codes(f"{HEAD}{inner}\n\n" + net("return self.inner(x)", "self.inner = Inner()").removeprefix(HEAD), "SIG005")
        == []
    )


def test_the_fix_of_load_says_nothing_of_what_else_may_be_loaded() -> None:
    text = "import torch\n\n\nclass A:\n    def f(self, p):\n        self.model = torch.load(p)\n"
    assert 'self.model = torch.load(p, map_location="cpu")\n' in fixed(text)


@pytest.mark.parametrize(
    ("forward", "severities"),
    [
        ("return F.dropout(x, 0.5, training=True)", ["WARNING"]),
        ("return F.dropout(x, 0.5, True)", ["WARNING"]),
        ("if noisy:\n    x = F.dropout(x, 0.5, training=True)\nreturn x", []),
        ("if self.training:\n    x = F.dropout(x, 0.5, training=True)\nreturn x", []),
        ("return F.dropout(x, 0.0, training=True)", []),
        ("return F.dropout(x, 0.5, training=self.training)", []),
    ],
)
def test_a_dropout_that_is_told_to_be_on(forward: str, severities: list[str]) -> None:
    text = nets.net(forward, arguments="x, noisy=False")
    assert [f.severity.name for f in modellint.check_source(text).diagnostics if f.code == "MOD002"] == severities


@pytest.mark.parametrize(
    ("forward", "severities"),
    [
        ("if random.random() < 0.5:\n    x = x + 1\nreturn x", ["WARNING"]),
        ("if self.training and random.random() < 0.5:\n    x = x + 1\nreturn x", []),
        ("if self.training:\n    if random.random() < 0.5:\n        x = x + 1\nreturn x", []),
        ("if x is None:\n    return x\nif random.random() < 0.5:\n    x = x + 1\nreturn x", ["INFO"]),
    ],
)
def test_a_branch_on_chance(forward: str, severities: list[str]) -> None:
    text = nets.net(forward, head="import random")
    assert [f.severity.name for f in modellint.check_source(text).diagnostics if f.code == "OPS010"] == severities


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return nn.Dropout(0.3)(x)", 1),
        ("drop = nn.Dropout2d(0.3)\nreturn drop(x)", 1),
        ("return nn.Dropout(0.3).eval()(x)", 0),
        ("drop = nn.Dropout(0.3)\ndrop.train(self.training)\nreturn drop(x)", 0),
        ("return nn.Dropout(0.3 if self.training else 0.0)(x)", 0),
        ("return nn.Dropout(0)(x)", 0),
        ("if self.training:\n    x = nn.Dropout(0.3)(x)\nreturn x", 0),
        ("return self.drop(x)", 0),
    ],
)
def test_a_dropout_that_forward_builds_is_always_on(body: str, count: int) -> None:
    assert len(nets.said(nets.net(body, "self.drop = nn.Dropout(0.3)"), "MOD002")) == count


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        ("net = net.cuda()", "", "info"),
        ("net.to('cuda:0').eval()", "", "info"),
        ("", "net.cuda()", "warning"),
        ("if not fast:\n        net.cuda()", "", "warning"),
        ("if fast:\n        net.cuda()", "", "warning"),
        ("net = net.cuda() if fast else net", "", "warning"),
        ("net.to(fast)", "", "warning"),
        ("torch.cuda.synchronize()", "", "warning"),
        ("def later():\n        net.cuda()", "", "warning"),
    ],
)
def test_a_load_in_what_needs_a_gpu_anyway(before: str, after: str, severity: str) -> None:
    load = "state = torch.load('model.pth')"
    head = f"import torch\n\n\ndef restore(net, fast):\n    {before or 'pass'}\n"
    text = f"{head}    {load}\n    net.load_state_dict(state)\n    {after or 'pass'}\n"
    assert _severities(text) == [severity]
    tried = text.replace(f"    {load}\n", f"    try:\n        {load}\n    except RuntimeError:\n        return None\n")
    assert _severities(tried) == ["warning"]


def _severities(text: str) -> list[str]:
    return [one.severity.name.lower() for one in modellint.check_source(text).diagnostics if one.code == "DEV002"]


@pytest.mark.parametrize(
    ("test", "first", "second", "found"),
    [
        ("torch.cuda.is_available()", "torch.load(p)", "torch.load(p, map_location='cpu')", False),
        ("not torch.cuda.is_available()", "torch.load(p, 'cpu')", "torch.load(p)", False),
        ("torch.cuda.is_available()", "torch.load(p)", "torch.load(q, map_location='cpu')", True),
        ("torch.cuda.is_available()", "torch.load(p)", "None", True),
        ("not torch.cuda.is_available()", "torch.load(p)", "torch.load(p, map_location='cpu')", True),
        ("fast", "torch.load(p)", "torch.load(p, map_location='cpu')", True),
        ("net.device.type == 'cuda'", "torch.load(p)", "torch.load(p, map_location='cpu')", False),
        ("q != 'cpu'", "torch.load(p)", "torch.load(p, map_location='cpu')", False),
        ("'cuda:0' == q", "torch.load(p)", "None", True),
        ("q == 'cpu'", "torch.load(p)", "torch.load(p, map_location='cpu')", True),
        ("q == 'fast'", "torch.load(p)", "torch.load(p, map_location='cpu')", True),
    ],
)
def test_a_load_with_a_gpu_beside_one_without(test: str, first: str, second: str, found: bool) -> None:
    head, end = "import torch\n\n\ndef restore(net, p, q, fast):\n", "    net.load_state_dict(state)\n"
    branches = f"    if {test}:\n        state = {first}\n    else:\n        state = {second}\n"
    choice = f"    state = {first} if {test} else {second}\n"
    assert ("DEV002" in codes(head + branches + end)) is found
    assert ("DEV002" in codes(head + choice + end)) is found


@pytest.mark.parametrize(
    ("after", "other", "found"),
    [
        ("net.cuda()", "torch.load(p, map_location='cpu')", False),
        ("net = net.to('cuda')", "torch.load(p, 'cpu')", False),
        ("net.eval()", "torch.load(p, map_location='cpu')", True),
        ("net.cuda()", "torch.load(p)", True),
        ("if fast:\n            net.cuda()", "torch.load(p, map_location='cpu')", True),
    ],
)
def test_a_load_in_a_branch_that_goes_on_to_a_gpu(after: str, other: str, found: bool) -> None:
    head = "import torch\n\n\ndef restore(net, p, at, fast):\n    if at >= 0:\n        net.load_state_dict(torch.load(p))\n"
    assert ("DEV002" in codes(f"{head}        {after}\n    else:\n        net.load_state_dict({other})\n")) is found


HELPER = """
def attend(x, rate=None):
    return F.dropout(x, rate)


class Net(nn.Module):
    def __init__(self, rate={default}):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        {call}
"""


@pytest.mark.parametrize(
    ("default", "call", "told"),
    [
        ("0.1", "return attend(x, self.rate)", True),
        ("0.0", "return attend(x, 0.2)", True),
        ("0.0", "return attend(x, self.rate)", False),
        ("None", "return attend(x, self.rate)", False),
        ("0.1", "return attend(x, self.rate if self.training else 0.0)", False),
        ("0.1", "return attend(x, self.rate) if self.training else attend(x, 0)", False),
    ],
)
def test_dropout_in_a_helper_by_the_rate_of_its_callers(default: str, call: str, told: bool) -> None:
    text = "import torch.nn.functional as F\nfrom torch import nn\n" + HELPER.format(default=default, call=call)
    findings = modellint.check_source(text).diagnostics
    assert [finding.code for finding in findings if finding.code == "MOD002"] == ["MOD002"] * told


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("os.path.join(root, 'resnet50-19c8e357.pth')", False),
        ("WEIGHTS", False),
        ("os.path.expanduser('~/.cache/torch/hub/checkpoints/' + name)", False),
        ("os.path.join(root, 'resnet50-best.pth')", True),
        ("OWN", True),
    ],
)
def test_a_file_that_was_published_is_loaded_without_a_gpu(path: str, found: bool) -> None:
    text = (
        "import os\n\nimport torch\n\nWEIGHTS = os.path.join('weights', 'vgg16-397923af.pth')\nOWN = 'runs/checkpoint.pth'\n\n\n"
        f"def build(net, root, name):\n    net.load_state_dict(torch.load({path}))\n"
    )
    assert ("DEV002" in codes(text)) is found


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("ckpt = torch.load(path)\nself.optimizer.load_state_dict(ckpt)", "info"),
        ("ckpt = torch.load(path)\nfor optim in self.optims:\n    optim.load_state_dict(ckpt['optim'])", "info"),
        (
            "ckpt = 1\nself.net.load_state_dict(ckpt)\nckpt = torch.load(path)\nself.scheduler.load_state_dict(ckpt)",
            "info",
        ),
        ("ckpt = torch.load(path)\nself.optimizer.load_state_dict(ckpt)\nself.net.load_state_dict(ckpt)", "warning"),
        ("ckpt = torch.load(path)\nself.optimizer.load_state_dict(ckpt)\nreturn ckpt", "warning"),
        (
            "for path in path:\n    if self.net:\n        self.net.load_state_dict(ckpt)\n"
            "    ckpt = torch.load(path)\n    self.optimizer.load_state_dict(ckpt)",
            "warning",
        ),
        ("self.ckpt = torch.load(path)\nself.optimizer.load_state_dict(self.ckpt)", "warning"),
        ("ckpt = torch.load(path)", "warning"),
    ],
)
def test_a_checkpoint_that_only_an_optimizer_is_given(lines: str, severity: str) -> None:
    body = textwrap.indent(lines, " " * 8)
    text = f"import torch\n\n\nclass Runs:\n    def load(self, path, ckpt=None):\n{body}\n"
    findings = modellint.check_source(text).diagnostics
    assert [finding.severity.name.lower() for finding in findings if finding.code == "DEV002"] == [severity]

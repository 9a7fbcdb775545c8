"""Objects that the project runs aside of its models: in augmentation, by a loss, in a script that trains, or beside another runtime."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import modellint
from modellint.cli import cli

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def severities(folder: Path, target: str, code: str, **files: str) -> list[str]:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text), "utf-8")
    arguments = ["check", "--output-format", "json", "--select", code, str(folder / f"{target}.py")]
    return [finding["severity"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


CHOOSE = """
class Choose(nn.Module):
    def __init__(self):
        super().__init__()
        {held}

    def forward(self, x, y):
        return torch.cdist(x, y)
"""
BESIDE = """
import {runtime}
from choose import Choose


def choose(x, y):
    chooser = Choose()
    {body}
"""


@pytest.mark.parametrize(
    ("runtime", "held", "body", "severity"),
    [
        ("onnxruntime", "self.rate = 2", "return chooser(x, y)", "info"),
        ("onnxruntime", "self.rate = 2", "chooser = chooser.eval()\n    return chooser(x, y)", "info"),
        ("onnxruntime", "self.rate = 2", "chooser.eval()\n    return chooser(x, y), torch.onnx.export", "info"),
        ("onnxruntime", "self.rate = 2", "torch.onnx.export(chooser, (x, y), 'a.onnx')", "error"),
        ("onnxruntime", "self.rate = 2", "return chooser", "error"),
        ("onnxruntime", "self.rate = 2", "other = chooser.eval()\n    torch.onnx.export(other, (x, y), 'a')", "error"),
        ("onnxruntime", "self.lin = nn.Linear(4, 4)", "return chooser(x, y)  # torch.onnx.export", "error"),
        ("numpy", "self.rate = 2", "return chooser(x, y)", "error"),
    ],
)
def test_what_is_only_run_beside_another_runtime(
    tmp_path: Path, runtime: str, held: str, body: str, severity: str
) -> None:
    use = (
        BESIDE.format(runtime=runtime, body=body)
        + "\n\ndef write(net, x):\n    torch.onnx.export(net, x, 'net.onnx')\n"
    )
    assert severities(tmp_path, "choose", "OPS001", choose=CHOOSE.format(held=held), use=use) == [severity]


JITTER = """
import random

import numpy as np


class Jitter(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        chosen = {drawn}
        return torch.cdist(x, x) * chosen
"""


@pytest.mark.parametrize(
    ("drawn", "use", "severity"),
    [
        ("np.random.choice([0, 1])", "return nn.Sequential(Jitter(0.5))(images)", "info"),
        ("random.random()", "jitter = Jitter(0.5).to(images.device)\n    return jitter(images)", "info"),
        ("random.random()", "return Jitter(0.5)", "error"),
        ("random.random()", "return nn.Sequential(Jitter(0.5), nn.ReLU())", "error"),
        ("random.random() if self.training else 1", "return Jitter(0.5)(images)", "error"),
        ("self.rate", "return Jitter(0.5)(images)", "error"),
    ],
)
def test_what_changes_images_by_chance(tmp_path: Path, drawn: str, use: str, severity: str) -> None:
    augment = f"from jitter import Jitter\n\n\ndef augment(images):\n    {use}\n"
    files = {"jitter": JITTER.format(drawn=drawn), "loader": augment}
    assert severities(tmp_path, "jitter", "OPS001", **files) == [severity]


def test_what_draws_and_stands_alone_is_a_model(tmp_path: Path) -> None:
    assert severities(tmp_path, "jitter", "OPS001", jitter=JITTER.format(drawn="random.random()")) == ["error"]


SHRINK = """
class Shrink(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.kernel = torch.ones(1, 1, size, size)

    def forward(self, x):
        return F.conv2d(x, self.kernel)
"""


@pytest.mark.parametrize(
    ("script", "severity"),
    [
        ("shrink = Shrink(4)\nstep = torch.optim.Adam([image])\nshrink(image).sum().backward()\n", "info"),
        ("shrink = Shrink(4)\nprint(shrink(image))\n", "warning"),
        ("SHRINKS = {'small': Shrink}\nloss.backward()\n", "warning"),
        ("shrink = Shrink(4)\n\ndef train(loss):\n    loss.backward()\n", "warning"),
    ],
)
def test_what_a_script_that_trains_builds(tmp_path: Path, script: str, severity: str) -> None:
    files = {"shrink": SHRINK, "fit": f"from shrink import Shrink\n\n{script}"}
    assert severities(tmp_path, "shrink", "REG006", **files) == [severity]


def test_a_model_whose_layers_a_program_finds_by_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    net = HEAD.replace("\n\n\n", "\n\nfrom parts.layers import Wide\n\n\n") + (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.wide = Wide()\n"
        "\n    def forward(self, x):\n        return torch.cdist(self.wide(x), x)\n"
    )
    wide = (
        "class Wide(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.lin = nn.Linear(4, 4)\n"
        "\n    def forward(self, x):\n        return self.lin(x)\n"
    )
    script = "from parts.net import Net\n\nmodel = Net()\nloss = model(3).sum()\nloss.backward()\n"
    for name, text in {"parts/net.py": net, "parts/layers.py": HEAD + wide, "train.py": script}.items():
        (tmp_path / "soft" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "soft" / name).write_text(text, "utf-8")
    arguments = ["check", "--output-format", "json", "--no-cache", "--select", "OPS001", str(tmp_path)]
    found = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert [finding["severity"] for finding in found] == ["error"]


SPREAD = """
def spread(x, eps=1e-12):
    return x.pow(2).sum(dim=1).clamp(min=eps).sqrt()


class Near(nn.Module):
    def forward(self, x, y):
        loss = spread(x - y).mean()
        return loss


class Net(nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.mark.parametrize(
    ("other", "severity"),
    [
        ("import librosa\n\n\ndef show(x):\n    return librosa.spread(x)\n", "info"),
        ("import tensorflow as tf\n\n\ndef show(x):\n    return tf.audio.spread(x)\n", "info"),
        ("import near_package\n\n\ndef show(x):\n    return near_package.spread(x)\n", "warning"),
        ("import librosa\n\n\ndef show(x):\n    return x.spread(x)\n", "warning"),
    ],
)
def test_a_function_of_a_library_is_another(tmp_path: Path, other: str, severity: str) -> None:
    assert severities(tmp_path, "near", "NUM002", near=SPREAD, show=other) == [severity]


BANDS = """
class Bands(nn.Module):
    def __init__(self, size, layers=None):
        super().__init__()
        if layers is not None:
            self.layers = layers
        else:
            self.layers = [nn.Linear(size, size)]

    def forward(self, x):
        return self.layers[0](x)
"""
WHOLE = """
from bands import Bands


class Whole(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.bands = {made}

    def forward(self, x):
        return {{"Bands": self.bands(x)}}["Bands"]
"""


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("Bands(4, [self.lin])", "info"),
        ("Bands(layers=[self.lin], **options)", "info"),
        ("nn.ModuleList([Bands(4, layers=[self.lin]), Bands(4, (self.lin,))])[0]", "info"),
        ("nn.ModuleList([Bands(4, layers=[self.lin]), Bands(4)])[0]", "error"),
        ("Bands(4, layers=options.get('layers'))", "error"),
        ("{'Bands': Bands}['Bands'](4)", "error"),
    ],
)
def test_a_branch_for_an_argument_that_everybody_gives(tmp_path: Path, made: str, severity: str) -> None:
    found = severities(tmp_path, "bands", "REG001", bands=BANDS, whole=WHOLE.format(made=made))
    assert found[-1:] == [severity]


UNUSED = """
class Base(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)


class Derived(Base):
    pass


class Dropped(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5)


class Used(nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.mark.parametrize(
    ("use", "beside", "severity"),
    [
        ("", {}, "info"),
        ("", {"CLAUDE.md": "The layers are Derived and Dropped."}, "info"),
        ("", {"README.md": "The layers are Derived and Dropped."}, "error"),
        ("print(helper.make_graph([], 'Derived', [], 'Dropped'))", {}, "info"),
        ("print(build('Derived', 'Dropped'))", {}, "error"),
        ("print(Derived(), Dropped())", {}, "error"),
    ],
)
def test_a_class_that_nothing_names_but_what_is_unused(
    tmp_path: Path, use: str, beside: dict[str, str], severity: str
) -> None:
    for name, text in beside.items():
        (tmp_path / name).write_text(text, "utf-8")
    taken = ", ".join(["Used", *(name for name in ("Derived", "Dropped") if f"{name}()" in use)])
    net = f"from onnx import helper\nfrom layers import {taken}\n\nprint(Used())\n{use}\n"
    files = {"layers": UNUSED, "net": net}
    assert severities(tmp_path, "layers", "OPS001", **files) == [severity]
    assert severities(tmp_path, "layers", "MOD002", **files) == [severity]


def test_others_may_build_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("", "utf-8")
    files = {"layers": UNUSED, "net": "from layers import Used\n\nprint(Used())\n"}
    assert severities(tmp_path, "layers", "MOD002", **files) == ["error"]


ASKED = """
from far import Far


class Net(nn.Module):
    def __init__(self, far=None):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.far = Far() if far is None else far

    def forward(self, x, turned=False):
        x = self.lin(x)
        {test}
            x = self.far(x)
        return x


def run(x):
    net = Net()
    return net({given})
"""


@pytest.mark.parametrize(
    ("test", "given", "severity"),
    [
        ("if turned:", "x", "info"),
        ("if turned:", "x, turned=True", "error"),
        ("if not turned:", "x", "error"),
        ("if x.ndim > 2:", "x", "error"),
    ],
)
def test_a_part_that_runs_with_an_argument_that_no_call_gives(
    tmp_path: Path, test: str, given: str, severity: str
) -> None:
    far = "class Far(nn.Module):\n    def forward(self, x):\n        return torch.cdist(x, x)\n"
    assert severities(tmp_path, "far", "OPS001", far=far, net=ASKED.format(test=test, given=given)) == [severity]


HOOK = """
def hook_of(layer):
    def hook(module, grad_input, grad_output):
        layer.seen = {seen}

    return {given}


def watch(layer):
    layer.register_backward_hook(hook_of(layer))
"""


@pytest.mark.parametrize(
    ("seen", "given", "severity"),
    [
        ("grad_output[0]", "hook", "info"),
        ("grad_input[0]", "hook", "warning"),
        ("grad_output[0]", "hook if layer else print", "warning"),
        ("grad_output[0]", "print", "warning"),
    ],
)
def test_a_backward_hook_that_a_function_makes(seen: str, given: str, severity: str) -> None:
    findings = modellint.check_source(HEAD + HOOK.format(seen=seen, given=given)).diagnostics
    assert [finding.severity.label for finding in findings if finding.code == "MOD006"] == [severity]

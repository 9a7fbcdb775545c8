"""Rules about what a model returns, sizes that are written down, and layers left in a state for training."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner
from nets import codes, fixed, net, said

import modellint
from modellint.cli import cli


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# SIG001


@pytest.mark.parametrize(
    "body",
    [
        'return {"scores": self.fc(x)}',
        "return dict(scores=self.fc(x))",
        'out = {}\nout["scores"] = self.fc(x)\nreturn out',
        "return {k: layer(x) for k, layer in self.layers.items()}",
        'y = self.fc(x)\nif y is None:\n    raise ValueError\nreturn {"scores": y}',
    ],
)
def test_dict(body: str) -> None:
    assert said(net(body, "self.fc = nn.Linear(4, 4)"), "SIG001") == [f"W{body.count(chr(10)) + 1}"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('return {"scores": self.fc(x), "mask": None}', "with None in it: neither route converts it"),
        ('return {"scores": self.fc(x), "steps": 3}', "with a `int` in it: neither route converts it"),
        ('return {"scores": self.fc(x), "mask": mask}', "with None in it: neither route converts it"),
        (
            'out = {"mask": None}\nout["mask"] = self.fc(x)\nreturn out',
            "what converts from `torch.export` has no keys",
        ),
        ('return {"scores": self.fc(x), "mask": x if flag else None}', "what converts from `torch.export`"),
    ],
)
def test_dict_with_what_is_no_tensor(body: str, message: str) -> None:
    text = net(f"mask = None\n{body}", "self.fc = nn.Linear(4, 4)", arguments="x, flag")
    findings = [one for one in modellint.check_source(text).diagnostics if one.code == "SIG001"]
    assert [message in finding.message for finding in findings] == [True]


@pytest.mark.parametrize(
    "body",
    [
        "return self.fc(x)",
        'out = {"scores": self.fc(x)}\nreturn out["scores"]',
        'if self.training:\n    return {"loss": self.fc(x)}\nreturn self.fc(x)',
        'if return_dict:\n    return {"scores": self.fc(x)}\nreturn self.fc(x)',
        'if not return_dict:\n    return (self.fc(x),)\nreturn {"scores": self.fc(x)}',
        'if not self.training:\n    return self.fc(x)\nreturn {"scores": self.fc(x)}',
    ],
)
def test_no_dict(body: str) -> None:
    text = net(body, "self.fc = nn.Linear(4, 4)", arguments="x, return_dict=True")
    assert said(text, "SIG001") == []


@pytest.mark.parametrize(
    "name", ["SegmentationHead", "Backbone", "_Inner", "DetectionLoss", "BaseDetector", "ResBlock"]
)
def test_parts_of_a_model_may_return_anything(name: str) -> None:
    assert said(net('return {"scores": x * 2}', name=name), "SIG001") == []
    assert said(net("return x * 2, None", name=name), "SIG002") == []


def test_part_by_use() -> None:
    text = net('return {"scores": x * 2}') + (
        "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
        '    def forward(self, x):\n        return self.net(x)["scores"]\n'
    )
    assert said(text, "SIG001") == []


# SIG002


PAIR = """class Pair:
    def __init__(self, first):
        self.first = first


"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("pairs = []\nfor row in range(2):\n    pairs.append(Pair(x + row))\nreturn pairs", True),
        ("pairs = []\nfor row in range(2):\n    pair = Pair(x + row)\n    pairs.append(pair)\nreturn x, pairs", True),
        ("states = []\nfor layer in self.layers:\n    x = layer(x)\n    states.append(None)\nreturn x, states", True),
        ("states = []\nfor layer in self.layers:\n    x = layer(x)\n    states.append(x)\nreturn x, states", False),
        ("states = [None] * 2\nfor row in range(2):\n    states[row] = x + row\nreturn x, states", False),
        ("states = []\nfor row in range(2):\n    states.append(x if row else None)\nreturn x, states", False),
        ("states = []\nif flag:\n    states.append(x)\nreturn x, states", False),
        ("states = [None]\nself.fill(states)\nreturn x, states", False),
    ],
)
def test_lists_that_are_filled(body: str, told: bool) -> None:
    init = "self.layers = nn.ModuleList([nn.Linear(4, 4)])\nself.fill = make()"
    text = net(body, init, arguments="x, flag=False", head=PAIR)
    assert bool(said(text, "SIG002")) == told


@pytest.mark.parametrize(
    "body",
    [
        "return x * 2, None",
        'return x * 2, "scores"',
        "return x * 2, 1",
        "return x.sum().item()",
        "hidden = None\nreturn x * 2, hidden",
        "return [x * 2, (x, None)]",
        'return f"{x}"',
    ],
)
def test_no_tensor(body: str) -> None:
    assert said(net(body), "SIG002") == [f"E{body.count(chr(10)) + 1}"]


@pytest.mark.parametrize(
    "body",
    [
        "return x * 2, x",
        "return self.other(x)",
        "return x * 2, x.shape[0]",
        "return x * 2, hidden",
        "if hidden is None:\n    return x * 2, None\nreturn x * 2, hidden",
        "if flag:\n    return x, hidden\nreturn x, None",
        "hidden = None\nif flag:\n    hidden = x * 3\nreturn x * 2, hidden",
        "if self.training:\n    return x, None\nreturn x",
        "raise NotImplementedError",
    ],
)
def test_tensors_or_what_is_not_known(body: str) -> None:
    assert said(net(body, arguments="x, hidden=None, flag=False"), "SIG002") == []


RESULTS = """

@dataclass
class Result:
    scores: torch.Tensor


@dataclass(frozen=True)
class Wider(Result):
    boxes: torch.Tensor = None


class Holder:
    def __init__(self, scores):
        self.scores = scores


class Pair(NamedTuple):
    scores: torch.Tensor


@dataclass
class Output(ModelOutput):
    scores: torch.Tensor = None


@dataclass
class Known:
    scores: torch.Tensor


torch.export.register_dataclass(Known)


@registered
class Odd:
    pass
"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return Result(x * 2)", "a `Result`:"),
        ("result = Wider(scores=x, boxes=x)\nreturn result", "a `Wider`:"),
        ("return x, Result(x * 2)", "a `Result` beside tensors:"),
        ("return Holder(x)", "a `Holder`:"),
        ("return Result(x * 2).scores", None),
        ("return Pair(x * 2)", None),
        ("return Output(scores=x)", None),
        ("return Known(x)", None),
        ("return Odd()", None),
        ("return Elsewhere(x)", None),
        ("return Result(x) if flag else x", None),
    ],
)
def test_objects(body: str, kind: str | None) -> None:
    head = (
        "from dataclasses import dataclass\nfrom typing import NamedTuple\nfrom transformers.utils import ModelOutput\n"
    )
    text = head + net(body, arguments="x, flag=False") + RESULTS
    told = [d.message for d in modellint.check_source(text).diagnostics if d.code == "SIG002"]
    prefix = "the model returns "
    assert [message.startswith(f"{prefix}{kind}") for message in told] == ([] if kind is None else [True])


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("torch.export.register_dataclass(Result, serialized_type_name='Result')", 0),
        ("torch.utils._pytree.register_pytree_node(Result, flatten, unflatten)", 0),
        ("torch.export.register_dataclass(Other)", 1),
        ("print(Result)", 1),
    ],
)
def test_objects_that_a_script_registers(tmp_path: Path, script: str, wanted: int) -> None:
    head = (
        "from dataclasses import dataclass\nfrom typing import NamedTuple\nfrom transformers.utils import ModelOutput\n"
    )
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "model.py").write_text(head + net("return Result(x * 2)", arguments="x") + RESULTS)
    (tmp_path / "convert.py").write_text(f"import torch\nfrom model import Net, Result\n\n{script}\n")
    result = CliRunner().invoke(cli, ["check", "--select", "SIG002", "--output-format", "concise", str(tmp_path)])
    assert result.stdout.count("SIG002") == wanted


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("steps = 0\nfor part in self.parts:\n    x = part(x)\n    steps += 1\nreturn x, steps", True),
        ("steps = 0\nfor part in self.parts:\n    steps = steps + 2\nreturn x, steps", True),
        ("steps = 0\nfor part in self.parts:\n    steps += part(x)\nreturn x, steps", False),
        ("steps = 0\nfor steps in x:\n    steps += 1\nreturn x, steps", False),
        ("steps = 0\nsteps += x.shape[0]\nreturn x, steps", False),
        ("steps, x = 0, x\nsteps += 1\nreturn x, steps + x", False),
        ("flag += 1\nreturn x, flag", False),
    ],
)
def test_number_that_is_counted(body: str, told: bool) -> None:
    assert (
        len(said(net(body, "self.parts = nn.ModuleList([nn.Linear(4, 4)])", arguments="x, flag=0"), "SIG002")) == told
    )


@pytest.mark.parametrize(
    ("encode", "after", "kind"),
    [
        ("return Holder(x)", "", "a `Holder` beside tensors:"),
        ("code = Holder(x)\nreturn code", "if flag:\n    x = code.scores", "a `Holder` beside tensors:"),
        ("return Holder(x).scores", "", None),
        ("return Pair(x)", "", None),
        ("if self.training:\n    return Holder(x)\nreturn x", "", None),
    ],
)
def test_object_that_a_method_makes(encode: str, after: str, kind: str | None) -> None:
    head = (
        "from dataclasses import dataclass\nfrom typing import NamedTuple\nfrom transformers.utils import ModelOutput\n"
    )
    method = "\n    def encode(self, x):\n" + textwrap.indent(encode, " " * 8) + "\n"
    text = (
        head + net(f"code = self.encode(x)\n{after}\nreturn x * 2, code", arguments="x, flag=True") + method + RESULTS
    )
    told = [d.message for d in modellint.check_source(text).diagnostics if d.code == "SIG002"]
    assert [message.startswith(f"the model returns {kind}") for message in told] == ([] if kind is None else [True])


# SHP004


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return self.conv(x).view(1, 8, 196)", "self.conv(x).view(-1, 8, 196)"),
        ("return torch.reshape(self.conv(x), (4, 8, 196))", "torch.reshape(self.conv(x), (-1, 8, 196))"),
        ("return F.relu(self.conv(x)).reshape((2, 8, 14, 14))", "reshape((-1, 8, 14, 14))"),
    ],
)
def test_sizes_that_are_all_written_down(body: str, after: str) -> None:
    text = net(body, "self.conv = nn.Conv2d(3, 8, 1)")
    assert said(text, "SHP004") == ["W1"]
    assert after in fixed(text, "SHP004")


@pytest.mark.parametrize(
    "body",
    [
        "return self.conv(x).view(-1, 8 * 196)",
        "return self.conv(x).view(x.shape[0], 8, 196)",
        "return self.conv(x).flatten(1)",
        "return self.conv(x)[0].view(8, 196)",
        "return x + self.w.view(1, 4, 1)",
        "return self.conv(x).view(1, -1)",
        "return torch.ones(16).view(4, 4)",
        "if self.training:\n    return self.conv(x).view(1, 8, 196)\nreturn x",
    ],
)
def test_sizes_of_the_input(body: str) -> None:
    assert said(net(body, "self.conv = nn.Conv2d(3, 8, 1)\nself.w = nn.Parameter(torch.ones(4))"), "SHP004") == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return F.conv2d(x, self.make(x).reshape(8, 3, 3, 3))", 0),
        ("w = self.make(x).view(3, 8, 3, 3)\nreturn F.conv_transpose2d(x, bias=None, weight=w)", 0),
        ("return F.conv2d(self.make(x).reshape(8, 3, 3, 3), self.w)", 1),
        ("return F.linear(x, self.make(x).reshape(8, 3))", 1),
    ],
)
def test_sizes_of_the_weight_of_a_convolution(body: str, count: int) -> None:
    init = "self.make = nn.Linear(4, 216)\nself.w = nn.Parameter(torch.ones(8, 3, 3, 3))"
    assert len(said(net(body, init), "SHP004")) == count


# SHP006


@pytest.mark.parametrize(
    "body",
    [
        "return F.interpolate(x, size=(64, 64))",
        "return F.interpolate(self.conv(x), 64)",
        "return F.upsample(x, size=64)",
        "return F.interpolate(x, size=self.size)",
    ],
)
def test_size_of_a_resampling(body: str) -> None:
    assert said(net(body, "self.conv = nn.Conv2d(3, 8, 1)\nself.size = (32, 32)"), "SHP006") == ["W1"]


def test_size_of_a_resampling_layer() -> None:
    assert len(said(net("return self.up(x)", "self.up = nn.Upsample(size=(64, 64))"), "SHP006")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "return F.interpolate(x, scale_factor=2)",
        "return F.interpolate(x, size=x.shape[-2:])",
        "return F.interpolate(x, size=self.n)",
        "return self.up(x)",
        "return x + F.interpolate(self.table, size=(64, 64))",
        "if self.training:\n    x = F.interpolate(x, 64)\nreturn x",
    ],
)
def test_size_that_is_not_written_down(body: str) -> None:
    init = "self.up = nn.Upsample(scale_factor=2)\nself.table = nn.Parameter(torch.ones(1, 1, 8, 8))\nself.n = n"
    assert said(net(body, init), "SHP006") == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("y = self.conv(x.flatten(2).reshape(1, 8, 16, 16))\nreturn F.interpolate(y * 2, (64, 64))", 0),
        ("x = x.reshape(-1, 8, 16, 16)\nreturn F.interpolate(x.relu(), (64, 64))", 0),
        ("x = x.reshape(1, 8, 16, 16).permute(0, 2, 3, 1).permute(0, 3, 1, 2)\nreturn F.interpolate(x, (64, 64))", 0),
        ("y = torch.cat([self.conv(x), self.grid + x[:, :1, :1, :1]], dim=1)\nreturn F.interpolate(y, (64, 64))", 0),
        (
            "parts = []\nfor i in range(2):\n    y = x.flatten(2)\n    y = y.reshape(1, 8, 16, 16)\n    parts.append(self.conv(y))\n"
            "return F.interpolate(parts[0] + parts[1], (64, 64))",
            0,
        ),
        ("y = F.adaptive_avg_pool2d(x, (8, 8))\nreturn F.interpolate(self.conv(y), (64, 64))", 0),
        ("x = x.reshape(x.shape[0], 8, -1, 16)\nreturn F.interpolate(x, (64, 64))", 1),
        ("x = x.reshape(-1, 8, 16, 16).permute(2, 1, 0, 3)\nreturn F.interpolate(x, (64, 64))", 1),
        ("y = x.reshape(1, 8, 16, 16)\nif self.k:\n    y = x\nreturn F.interpolate(y * 2, (64, 64))", 1),
        (
            "y = x.reshape(1, 8, 16, 16)\nfor i in range(2):\n    z = F.interpolate(y * 2, (64, 64))\n    y = x + z.mean()\nreturn z",
            1,
        ),
        ("y = x.reshape(1, 8, 16, 16)\nreturn F.interpolate(torch.cat([y, x], 2), (64, 64))", 1),
        ("y = x.reshape(1, 8, 16, 16)\nreturn F.interpolate(y.view(x.shape[2], 8, -1, 16), (64, 64))", 1),
        ("return F.interpolate(self.conv(x[:, :, :, :8]), (64, 64))", 1),
    ],
)
def test_what_is_resampled_has_one_size_where_it_descends_from_numbers(body: str, count: int) -> None:
    init = "self.k = 1\nself.conv = nn.Conv2d(8, 8, 1)\nself.register_buffer('grid', torch.zeros(1, 2, 16, 16))"
    assert len(said(net(body, init), "SHP006")) == count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("x = x.view(x.size(0), x.size(1), 33, 37)\nreturn self.up(x)", 0),
        ("return self.up(x.reshape(1, 8, 16, 16)) + self.up(x.reshape(1, 8, 8, 32))", 0),
        ("return self.up(x.reshape(1, 8, 16, 16)) + self.up(x)", 1),
        ("y = self.up(x.reshape(1, 8, 16, 16))\nlayers = [self.up]\nreturn layers[0](y)", 1),
        ("x = self.up(x.reshape(1, 8, 16, 16))\nfor layer in self.children():\n    x = layer(x)\nreturn x", 1),
        ("x = self.up(x.reshape(1, 8, 16, 16))\nreturn getattr(self, 'up')(x)", 1),
        ("return x", 1),
    ],
)
def test_a_layer_that_resamples_what_has_one_size(body: str, count: int) -> None:
    for layer in ("nn.Upsample(size=(64, 64))", "nn.Sequential(nn.Conv2d(8, 8, 3), nn.Upsample(size=64))"):
        assert len(said(net(body, f"self.up = {layer}"), "SHP006")) == count
    assert len(said(net(body, f"self.up = {layer}\nself.all = nn.Sequential(self.up)"), "SHP006")) == 1


# MOD003


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("self.norm = nn.BatchNorm2d(8, track_running_stats=False)", 1),
        ("self.norm = nn.BatchNorm1d(8, 1e-5, 0.1, True, False)", 1),
        ("self.norm = nn.Sequential(nn.BatchNorm2d(8, track_running_stats=False))", 1),
        ("self.norm = nn.BatchNorm2d(8)", 0),
        ("self.norm = nn.BatchNorm2d(8, track_running_stats=n)", 0),
        ("self.norm = nn.InstanceNorm2d(8, track_running_stats=False)", 0),
    ],
)
def test_batch_norm_without_statistics(made: str, count: int) -> None:
    assert len(said(net("return self.norm(x)", made), "MOD003")) == count


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("return F.batch_norm(x, None, None, training=True)", 1),
        ("return F.batch_norm(self.conv(x), None, None, self.weight, None, True)", 1),
        ("return F.batch_norm(x, None, None, training=self.training)", 0),
        ("return F.batch_norm(x.view(1, -1, 4, 4), None, None, training=True)", 0),
        ("return F.batch_norm(x, self.mean, self.var, training=True)", 0),
        ("w = F.batch_norm(self.weight.reshape(1, 4, -1), None, None, training=True)\nreturn x * w", 0),
    ],
)
def test_batch_norm_as_a_function_without_statistics(forward: str, count: int) -> None:
    init = "self.conv = nn.Conv2d(4, 4, 3)\nself.weight = nn.Parameter(torch.ones(4))"
    assert len(said(net(forward, init), "MOD003")) == count


# MOD004


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("self.c = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))", "weight_norm(nn.Conv1d(4, 4, 3))\n"),
        ("self.c = nn.utils.spectral_norm(nn.Linear(4, 4), n_power_iterations=2)", "n_power_iterations=2)\n"),
        ("self.c = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))", "self.c = nn.Linear(4, 4)\n"),
        ("c = nn.Linear(4, 4)\nself.c = nn.utils.parametrizations.weight_norm(c)", "weight_norm(c)"),
    ],
)
def test_parametrization(made: str, after: str) -> None:
    text = net("return self.c(x)", made)
    assert len(said(text, "MOD004")) == 1
    assert after in fixed(text, "MOD004")


def test_what_uses_the_norm_of_a_weight_gets_no_fix() -> None:
    text = net(
        "return self.c(x)",
        "self.c = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))\nself.c.parametrizations.weight",
    )
    assert len(said(text, "MOD004")) == 1
    assert fixed(text, "MOD004") == text


def test_parametrization_that_is_taken_off_or_chosen() -> None:
    made = "self.c = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))"
    removed = net("return self.c(x)", made) + "\n    def strip(self):\n        nn.utils.remove_weight_norm(self.c)\n"
    assert said(removed, "MOD004") == []
    chosen = "self.c = nn.Conv1d(4, 4, 3)\nif n:\n    self.c = nn.utils.weight_norm(self.c)"
    assert said(net("return self.c(x)", chosen), "MOD004") == []
    assert said(net("return self.c(x)", made, name="Discriminator"), "MOD004") == []


@pytest.mark.parametrize(
    ("forward", "rows"),
    [
        ("y = x * 2\nloss = None\nif targets is not None:\n    loss = F.mse_loss(y, targets)\nreturn y, loss", ["E5"]),
        (
            "y = x * 2\nif targets is None:\n    loss = None\nelse:\n    loss = F.mse_loss(y, targets)\nreturn y, loss",
            ["E6"],
        ),
        ("y = x * 2\nif targets is None:\n    return y\nloss = F.mse_loss(y, targets)\nreturn y, loss", []),
        ("y = x * 2\nmore = None\nif wide:\n    more = y + 1\nreturn y, more", []),
    ],
)
def test_what_is_none_where_no_targets_are_given(forward: str, rows: list[str]) -> None:
    assert said(net(forward, arguments="x, targets=None, wide=True"), "SIG002") == rows


# SIG002: None that what is called gives


@pytest.mark.parametrize(
    "body",
    [
        "y, weights = self.attention(x, x, x, need_weights=False)\nreturn y, weights",
        "return self.attention(x, x, x, need_weights=False)",
        "return x, self.attention(x, x, x, need_weights=False)[1]",
        "y, w = self.part(x)\nreturn y, w",
        "y, w = halves(x)\nreturn y, w",
        "y, w = halves(x, wanted=False)\nreturn y, w",
        "y, w = self.of_both(x)\nreturn y, w",
        "y, w = self.part(x)\nif self.training:\n    w = x\nreturn y, w",
    ],
)
def test_none_out_of_a_call(body: str) -> None:
    assert [told[0] for told in said(_calling(body), "SIG002")] == ["E"]


@pytest.mark.parametrize(
    "body",
    [
        "y, weights = self.attention(x, x, x)\nreturn y, weights",
        "y, weights = self.attention(x, x, x, need_weights=flag)\nreturn y, weights",
        "y, weights = self.attention(x, x, x, need_weights=False)\nreturn y",
        "y, w = self.part(x)\nreturn y",
        "w, y = self.part(x)\nreturn w, x",
        "y, w = halves(x, wanted=True)\nreturn y, w",
        "y, w = halves(x, flag)\nreturn y, w",
        "y, w = self.part(x)\nw = y\nreturn y, w",
        "y, w = self.other(x)\nreturn y, w",
        "y, w = self.twice(x)\nreturn y, w",
        "y, w = self.part(x)\nif w is None:\n    w = y\nreturn y, w",
    ],
)
def test_tensors_out_of_a_call(body: str) -> None:
    assert said(_calling(body), "SIG002") == []


def _calling(body: str) -> str:
    head = """
    def halves(x, wanted=False):
        if wanted:
            return x, x * 2
        return x, None


    class PartBlock(nn.Module):
        def forward(self, x):
            weights = None
            return x * 2, weights


    class OtherBlock(nn.Module):
        def forward(self, x):
            if x.shape[0] > 1:
                return x, None
            return x, x
    """
    init = """
    self.attention = nn.MultiheadAttention(4, 2)
    self.part = PartBlock()
    self.other = OtherBlock()
    self.twice = PartBlock()
    self.twice = OtherBlock()
    """
    text = net(body, init, arguments="x, flag=None", head=textwrap.dedent(head))
    return text + "\n    def of_both(self, x):\n        return self.part(x)\n"


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ("model = Net()\nmodel(x)", 1),
        ("model = Net(n=True)\nmodel(x)", 0),
        ("model = Net(n=flag)\nmodel(x)", 0),
        ("model = Net()\nmodel(x, wanted=True)", 0),
        ("", 0),
    ],
)
@pytest.mark.parametrize(
    "forward",
    [
        "y = self.fc(x)\nextra = self.fc(y) if FLAG else None\nreturn y, extra",
        "y = self.fc(x)\nextra = None\nif FLAG:\n    extra = self.fc(y)\nreturn y, extra",
    ],
)
@pytest.mark.parametrize("flag", ["self.flag", "wanted"])
def test_none_by_a_flag_that_nobody_sets(tmp_path: Path, flag: str, forward: str, calls: str, wanted: int) -> None:
    init = "self.fc = nn.Linear(4, 4)\nself.flag = n"
    text = net(forward.replace("FLAG", flag), init, arguments="x, wanted=False").replace("n=4", "n=False")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "run.py").write_text(f"from model import Net\n\n{calls}\n")
    result = CliRunner().invoke(cli, ["check", "--select", "SIG002", "--output-format", "concise", str(tmp_path)])
    other = "n=" in calls if flag == "wanted" else "wanted=" in calls
    assert result.output.count("SIG002") == (1 if other else wanted), result.output


_COARSE = """
import torch
from torch import nn


class Coarse(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x, quick):
        coarse = None
        if not quick:
            coarse = x.mean(1)
        return coarse, self.conv(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.coarse = Coarse()

    def forward(self, x, quick{default}):
        coarse, x = self.coarse(x, {handed})
        return coarse, x * 2
"""


@pytest.mark.parametrize("default", ["", "=False", "=True"])
@pytest.mark.parametrize(
    ("handed", "script", "wanted"),
    [
        ("quick", "torch.jit.trace(net, (torch.rand(1, 3, 8, 8), True))", 1),
        ("quick", "torch.jit.trace(net, (torch.rand(1, 3, 8, 8), False))", 0),
        ("quick", "torch.jit.trace(net, torch.rand(1, 3, 8, 8))", 0),
        ("quick", "torch.jit.trace(net, (torch.rand(1, 3, 8, 8), flag))", 0),
        ("not quick", "torch.jit.trace(net, (torch.rand(1, 3, 8, 8), True))", 0),
        ("quick", "net(torch.rand(1, 3, 8, 8), True)", 0),
        (
            "quick",
            "torch.jit.trace(net, (torch.rand(1, 3, 8, 8), True)), torch.jit.trace(net, (torch.rand(1, 3, 8, 8), False))",
            0,
        ),
    ],
)
def test_none_by_a_flag_that_exports_give(tmp_path: Path, default: str, handed: str, script: str, wanted: int) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "net.py").write_text(_COARSE.format(default=default, handed=handed), "utf-8")
    (tmp_path / "script.py").write_text(
        f"import torch\nfrom net import Net\n\nnet = Net().eval()\nout = {script}\n", "utf-8"
    )
    found = modellint.check_source((tmp_path / "net.py").read_text("utf-8"), str(tmp_path / "net.py")).diagnostics
    assert sum(one.code == "SIG002" for one in found) == wanted


_TEXT = """
import clip
import torch
from torch import nn
from transformers import AutoTokenizer


class Encoder(nn.Module):
    def __init__(self, name, tokenizer=None):
        super().__init__()
        self.tok = AutoTokenizer.from_pretrained(name)
        self.tokenizer = tokenizer
        self.rows = nn.Embedding(100, 4)

    def forward(self, text, mask=None):
        {body}
        return self.rows(ids)

    def ids_of(self, text):
        return self.tok(text, return_tensors="pt")["input_ids"]
"""


@pytest.mark.parametrize(
    "body",
    [
        'ids = self.tok(text, padding=True, return_tensors="pt")["input_ids"]',
        "ids = torch.tensor(self.tok.encode(text))",
        "ids = clip.tokenize(text).to(self.rows.weight.device)",
        'ids = self.tokenizer(text, return_tensors="pt")["input_ids"]',
        "with torch.no_grad():\n            ids = self.ids_of(text)",
    ],
)
def test_text_that_is_tokenized(body: str) -> None:
    assert codes(_TEXT.format(body=body), "SIG006") == ["SIG006"]


@pytest.mark.parametrize(
    "body",
    [
        # Text that is the same in every call, or that may be ids.
        'ids = text + self.tok("a photo", return_tensors="pt")["input_ids"]',
        "ids = self.ids_of(text) if isinstance(text, str) else text",
        "if mask is None:\n            text = self.ids_of(text)\n        ids = text",
        "ids = self.tokenizer(text)",
        "ids = text[:, 1:]\n        print(self.tok.decode(ids))",
    ],
)
def test_text_that_is_none_of_the_inputs(body: str) -> None:
    assert codes(_TEXT.format(body=body), "SIG006") == []

"""Unreachable code: findings in branches that constants, callers or constructors rule out are information."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import modellint
from modellint.cli import cli

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def of_text(text: str, code: str = "MUT001") -> list[str]:
    findings = modellint.check_source(HEAD + textwrap.dedent(text)).diagnostics
    return [finding.severity.label for finding in findings if finding.code == code]


def of_project(folder: Path, text: str, code: str = "MUT001", **others: str) -> list[str]:
    (folder / ".git").mkdir()
    for name, content in {"net": text, **others}.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(content), "utf-8")
    arguments = ["check", "--output-format", "json", "--select", code, str(folder / "net.py")]
    return [finding["severity"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


LOOP = """
class Net(nn.Module):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        sizes = [1, 2, 3]
        flips = [None, 3, None]
        {before}
        for {target} in {values}:
            if {test}:
                x[..., 0] = 1
        return x
"""


@pytest.mark.parametrize(
    ("before", "target", "values", "test", "severity"),
    [
        ("", "size, flip", "zip(sizes, flips)", "flip == 2", "info"),
        ("", "size, flip", "zip(sizes, flips)", "flip == 3", "error"),
        ("", "at, (size, flip)", "enumerate(zip(sizes, flips))", "flip in (1, 2)", "info"),
        ("", "size, flip", "zip(sizes, flips)", "size == 2", "error"),
        ("", "at, flip", "enumerate(flips)", "at == 2", "error"),
        ("", "flip", "(False, None, 0)", "flip", "info"),
        ("", "flip", "(1, 2)", "not flip", "info"),
        ("", "flip", "flips", "flip == 2", "info"),
        ("flips.append(2)", "flip", "flips", "flip == 2", "error"),
        ("flips = self.flips", "flip", "flips", "flip == 2", "error"),
        ("flip = x.ndim", "size, flip", "zip(sizes, flips)", "flip == 2", "error"),
        ("flip = 2", "size, flip", "zip(sizes, flips)", "flip == 2", "error"),
        ("flip = 1", "size, flip", "zip(sizes, flips)", "flip == 2", "info"),
    ],
)
def test_a_branch_that_no_constant_of_a_variable_takes(
    before: str, target: str, values: str, test: str, severity: str
) -> None:
    assert of_text(LOOP.format(before=before, target=target, values=values, test=test)) == [severity]


@pytest.mark.parametrize(("last", "severity"), [("None", "info"), ("2", "error")])
def test_what_the_branches_before_leave_of_a_variable(last: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def forward(self, x):
            x = x.permute(0, 2, 3, 1)
            for at, flip in enumerate((3, {last})):
                if flip == 3:
                    x = x.flip(1)
                elif flip is None:
                    x = -x
                elif flip == 2 and x.ndim == 2:
                    x = x + 1
                else:
                    x[..., 0] = 1
            return x
    """
    assert of_text(text) == [severity]


DRAWS = """
def drawn(x, sample=True, places=1):
    if {test}:
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
    return x


class Net(nn.Module):
    def forward(self, x):
        {call}
        return x
"""


@pytest.mark.parametrize(
    ("test", "call", "severity"),
    [
        ("not sample", "x = drawn(x, sample=True)", "info"),
        ("not sample", "x = drawn(x)", "info"),
        ("not sample", "x = drawn(x, False)", "error"),
        ("not sample", "x = drawn(drawn(x, sample=False))", "error"),
        ("not sample", "x = drawn(x, self.training)", "error"),
        ("not sample", "x = drawn(*[x])", "error"),
        ("not sample", "draw = drawn; x = draw(x)", "error"),
        ("not sample", "pass", "error"),
        ("places > 1", "x = drawn(x, True, 1)", "info"),
        ("places > 1", "x = drawn(x, True, 2)", "error"),
        ("places > 1", "x = [drawn(x, places=n) for n in (0, 1)][0]", "info"),
        ("places > 1", "x = [drawn(x, places=n) for n in (1, 2)][0]", "error"),
    ],
)
def test_a_constant_that_all_calls_give(tmp_path: Path, test: str, call: str, severity: str) -> None:
    # A function that nobody calls is no finding of a module's.
    found = of_project(tmp_path, DRAWS.format(test=test, call=call))
    assert found == [severity] or (call == "pass" and not found)


@pytest.mark.parametrize(("around", "severity"), [("", "error"), ("class Draw:\n    ", "info")])
def test_a_function_that_others_than_methods_call_has_its_own_defaults(
    tmp_path: Path, around: str, severity: str
) -> None:
    user = f"from net import drawn\n\n\n{around}def draw(self, x):\n    {'    ' * bool(around)}return drawn(x)\n"
    text = DRAWS.format(test="not sample", call="x = drawn(x)")
    assert of_project(tmp_path, text, user=user) == [severity]


SHRINKS = """
class Net(nn.Module):
    def forward(self, x):
        for stride in {strides}:
            x = self.shrink(x, stride)
        return x

    def shrink(self, x, stride=1):
        if stride > 1:
            x = x.permute(0, 2, 3, 1)
            x[..., 0] = 1
        return x
"""


@pytest.mark.parametrize(("strides", "severity"), [("[1]", "info"), ("[1, 2]", "error"), ("self.strides", "error")])
def test_a_constant_that_a_method_is_given(tmp_path: Path, strides: str, severity: str) -> None:
    assert of_project(tmp_path, SHRINKS.format(strides=strides)) == [severity]


TURNED = """
class Turn(nn.Module):
    def __init__(self, deep=False):
        super().__init__()
        self.deep = deep

    def forward(self, x):
        if not self.deep:
            x = x.permute(0, 2, 3, 1)
            x[..., 0] = 1
        return x


class Net(nn.Module):
    def __init__(self, deep=False):
        super().__init__()
        self.turn = Turn(deep=deep)
        {then}

    def forward(self, x):
        return self.turn(x)


net = Net(True)
"""


@pytest.mark.parametrize(
    ("then", "severity"),
    [
        ("if not deep:\n            raise NotImplementedError", "info"),
        ("if deep:\n            self.a = 1\n        else:\n            raise ValueError(deep)", "info"),
        ("assert deep", "info"),
        ("if deep:\n            raise NotImplementedError", "error"),
        ("if not deep:\n            print(deep)", "error"),
        ("assert deep\n        self.last = Turn()", "error"),
        # What is built as it is by default is what anybody may build.
        ("pass", "error"),
    ],
)
def test_a_flag_without_which_a_constructor_raises(tmp_path: Path, then: str, severity: str) -> None:
    assert of_project(tmp_path, TURNED.format(then=then)) == [severity]


BUILT = """
class Part(nn.Module):
    def __init__(self, size, deep=False, *, wide=False):
        super().__init__()

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {first}

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return self.part(x)
"""


@pytest.mark.parametrize(
    ("first", "severity"),
    [
        ("self.part = Part(4, tall=True)", "info"),
        ("self.part = Part()", "info"),
        ("self.part = Part(4, True, True)", "info"),
        ("self.part = Part(4, size=4)", "info"),
        ("self.part = Part(4, True, wide=True)", "error"),
        ("self.part = Part(*sizes)", "info"),
        ("self.part = Part(*[4])", "error"),
        ("self.part = Part(4)\n        if self.training:\n            Part()", "error"),
        ("self.part = Part(depth)", "info"),
        ("self.part = Part(len([torch]))", "error"),
    ],
)
def test_what_a_class_that_cannot_be_built_holds(tmp_path: Path, first: str, severity: str) -> None:
    assert of_project(tmp_path, BUILT.format(first=first), user="from net import Net\n\nnet = Net()\n") == [
        severity,
        severity,
    ]


CODER = """
class Coder(nn.Module):
    def encode(self, x, scale):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x * scale

    def _blur(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x

    def forward(self, x):
        x = self.encode({given})
        return self._blur(x)
"""


@pytest.mark.parametrize(
    ("given", "user", "severity"),
    [
        ("x", "def code(coder, x):\n    return coder.encode(x, 2)\n", ["error", "info"]),
        ("x, 2", "def code(coder, x):\n    return coder.encode(x, 2)\n", ["error", "error"]),
        (
            "x",
            "from net import Coder\n\n\nclass Plain(Coder):\n    def encode(self, x):\n        return x\n",
            ["error", "error"],
        ),
    ],
)
def test_what_a_forward_runs_behind_a_call_that_raises(
    tmp_path: Path, given: str, user: str, severity: list[str]
) -> None:
    assert of_project(tmp_path, CODER.format(given=given), user=user) == severity


LOSS = """
class WeightLoss(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.ones(size)
        self.fill(size)

    def fill(self, size):
        self.grid = torch.ones(size)

    def forward(self, x):
        {first}
        return (x * self.weight * self.grid).mean()


class Net(nn.Module):
    def forward(self, x):
        return x

    def loss(self, x):
        return WeightLoss(4)(x)
"""


@pytest.mark.parametrize(
    ("first", "severity"),
    [
        ("self.weight = self.weight.to(x.device)", ["info", "info"]),
        ("self.weight = self.weight.cuda() * 2", ["warning", "info"]),
        ("self.fill(4)", ["info", "warning"]),
    ],
)
def test_a_tensor_of_a_loss_that_is_only_moved_is_no_state(tmp_path: Path, first: str, severity: list[str]) -> None:
    found = of_project(tmp_path, LOSS.format(first=first), code="REG006")
    assert sorted(found) == sorted(severity)


LEARNS = """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("learn", {value})

    def forward(self, x):
        if self.learn:
            x = x.permute(0, 2, 3, 1)
            x[..., 0] = 1
        return x
"""


@pytest.mark.parametrize(
    ("value", "user", "severity"),
    [
        ("torch.zeros(1)", "", "info"),
        ("torch.ones(1)", "", "error"),
        ("torch.zeros(1)", "def begin(norm):\n    norm.learn.fill_(1)\n", "error"),
        ("torch.zeros(1)", "def begin(norm):\n    norm.learn[0] = 1\n", "error"),
        ("torch.zeros(1)", "def begin(norm):\n    setattr(norm, 'learn', True)\n", "error"),
        ("torch.zeros(1)", "def begin(norm):\n    return 1 if norm.learn else 0\n", "info"),
    ],
)
def test_a_buffer_of_zeros_that_is_only_asked_for(tmp_path: Path, value: str, user: str, severity: str) -> None:
    assert of_project(tmp_path, LEARNS.format(value=value), user=user) == [severity]


SCALED = """
from torchvision import transforms


class Scale(nn.Module):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x
"""


@pytest.mark.parametrize(
    ("use", "severity"),
    [
        ("return transforms.Compose([Scale(), len])", "info"),
        ("parts = [len]\n    parts += [Scale()]\n    return transforms.Compose(parts)", "info"),
        ("parts = [len]\n    parts.append(Scale())\n    return transforms.Compose(parts)", "info"),
        ("parts = [len]\n    parts.append(Scale())\n    return nn.Sequential(*parts)", "error"),
        ("parts = Scale()\n    return parts, transforms.Compose([len])", "error"),
        ("image.data = Scale()(image)", "info"),
        ("image.blurred = Scale()(image)", "error"),
    ],
)
def test_a_module_that_no_model_holds(tmp_path: Path, use: str, severity: str) -> None:
    assert of_project(tmp_path, f"{SCALED}\n\ndef use(image):\n    {use}\n") == [severity]


UNITS = """
class Scale(nn.Module):
    def __init__(self, {arguments}):
        super().__init__()

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return x


class Used(nn.Module):
    pass
"""


@pytest.mark.parametrize(
    ("arguments", "found_by", "severity"),
    [
        ("width, depth, heads", "eval(kind)(8, 8)", "info"),
        ("width, depth, heads", "eval('self.{}'.format(kind))(8)", "info"),
        ("width, depth, heads=2", "eval(kind)(8, 8)", "error"),
        ("width, depth, heads", "eval(kind)", "error"),
        ("width, depth, heads", "globals()[kind](8, 8)", "error"),
    ],
)
def test_a_class_that_no_evaluation_of_a_name_may_build(
    tmp_path: Path, arguments: str, found_by: str, severity: str
) -> None:
    text = f"""
    from net import *


    class Model(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.used = Used()
            self.unit = {found_by}
    """
    assert of_project(tmp_path, UNITS.format(arguments=arguments), model=text) == [severity]


MIXED = """
class Mix(nn.Module):
    def __init__(self, size, weight=None):
        super().__init__()
        {binds}

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        if {test}:
            x[..., 0] = 1
        return x * self.weight


class Wide(Mix):
    def forward(self, x):
        return super().forward(x)


class Net(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.mix = {built}

    def forward(self, x):
        return self.mix(x)
"""
REPLACED = "self.weight = weight\n        if self.weight is None:\n            self.weight = torch.zeros({sizes})"


@pytest.mark.parametrize(
    ("binds", "test", "built", "severity"),
    [
        (REPLACED.format(sizes="1"), "self.weight.dim() > 1", "Mix(8)", "info"),
        (REPLACED.format(sizes="1"), "self.weight.dim() > 1", "Wide(8)", "info"),
        (REPLACED.format(sizes="1"), "self.weight.ndim == 2", "Mix(8, None)", "info"),
        (REPLACED.format(sizes="(3, 1)"), "len(self.weight.shape) < 2", "Mix(8)", "info"),
        ("self.weight = torch.ones(1) if weight is None else weight", "self.weight.dim() > 1", "Mix(8)", "info"),
        ("self.weight = weight if weight is not None else torch.ones(1)", "self.weight.dim() > 1", "Mix(8)", "info"),
        (REPLACED.format(sizes="1"), "self.weight.dim() > 0", "Mix(8)", "error"),
        (REPLACED.format(sizes="1"), "self.weight.dim() > 1", "Mix(8, weight)", "error"),
        (REPLACED.format(sizes="1"), "self.weight.dim() > 1", "Wide(8, weight)", "error"),
        (REPLACED.format(sizes="1"), "self.weight.dim() > 1", "nn.Identity()", "error"),
        (REPLACED.format(sizes="size"), "self.weight.dim() > 1", "Mix(8)", "error"),
        (
            REPLACED.format(sizes="1") + "\n        self.weight = self.weight.expand(4, 4)",
            "self.weight.dim() > 1",
            "Mix(8)",
            "error",
        ),
        (
            "weight = torch.ones(1) if size else weight\n        self.weight = weight",
            "self.weight.dim() > 1",
            "Mix(8)",
            "error",
        ),
    ],
)
def test_the_rank_of_what_stands_for_an_argument_that_nobody_gives(
    tmp_path: Path, binds: str, test: str, built: str, severity: str
) -> None:
    assert of_project(tmp_path, MIXED.format(binds=binds, test=test, built=built)) == [severity]


def test_the_rank_of_an_attribute_that_others_write(tmp_path: Path) -> None:
    text = MIXED.format(binds=REPLACED.format(sizes="1"), test="self.weight.dim() > 1", built="Mix(8)")
    written = "from net import Net\n\nmodel = Net(None)\nmodel.mix.weight = torch.ones(2, 2)\n"
    assert of_project(tmp_path, text, other=written) == ["error"]


GATHERED = """
import torch.distributed as dist


@torch.no_grad()
def gathered(x):
    parts = [torch.ones_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def reduced(x):
    if not dist.is_initialized():
        return x
    dist.all_reduce(x)
    return x


def chosen(x):
    return dist.all_reduce(x) if dist.is_initialized() else x


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(x)
        return x


class Net(nn.Module):
    @torch.no_grad()
    def join(self, x, join=True, whole=False):
        if join:
            x = gathered(x)
        if whole:
            return self.share(x)
        return torch.cdist(x, x)

    def share(self, x):
        return gathered(x)

    def forward(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("x = gathered(x)\n        return torch.cdist(x, x)", "info"),
        ("x = self.share(x)\n        return torch.cdist(x, x)", "info"),
        ("x = Gather.apply(x)\n        return torch.cdist(x, x)", "info"),
        ("with torch.no_grad():\n            y = self.share(x)\n        return torch.cdist(x, y)", "info"),
        ("y = torch.cdist(x, x)\n        return y, gathered(x)", "info"),
        ("return self.join(x)", "info"),
        ("return self.join(x, join=False)", "error"),
        ("return self.join(x, join=len(x) > 2)", "error"),
        ("x = reduced(x)\n        return torch.cdist(x, x)", "error"),
        ("x = chosen(x)\n        return torch.cdist(x, x)", "error"),
        ("if len(x) > 2:\n            x = self.share(x)\n        return torch.cdist(x, x)", "error"),
    ],
)
def test_what_comes_with_a_function_that_exchanges_tensors(tmp_path: Path, body: str, severity: str) -> None:
    text = GATHERED.format(body=body)
    if "join(" not in body:
        text = text.replace("return torch.cdist(x, x)\n\n    def share", "return x\n\n    def share")
    assert of_project(tmp_path, text, "OPS001") == [severity]


@pytest.mark.parametrize(("method", "severity"), [("share", "error"), ("other", "info")])
def test_a_class_that_derives_may_exchange_nothing(tmp_path: Path, method: str, severity: str) -> None:
    text = GATHERED.format(body="x = self.share(x)\n        return torch.cdist(x, x)")
    text = text.replace("return torch.cdist(x, x)\n\n    def share", "return x\n\n    def share")
    text += f"\n\nclass Alone(Net):\n    def {method}(self, x):\n        return x\n"
    assert of_project(tmp_path, text, "OPS001") == [severity]


PARTS = """
class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x[..., 0] = 1
        return self.lstm(x)

    def train_on(self, x):
        return self.lstm(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.predictor = Predictor()

    def forward(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "other", "severity"),
    [
        ("return self.predictor.lstm(x)", "", "info"),
        ("return self.predictor.train_on(x)", "", "info"),
        ("return self.predictor.lstm(x)", "def run(net, x):\n    return net.predictor.lstm(x)\n", "info"),
        ("return self.predictor.lstm(x)", "KEYS = ['predictor']\n", "info"),
        ("return self.predictor.lstm(x)", "def run(net, x):\n    return net.predictor(x)\n", "error"),
        ("return self.predictor.lstm(x)", "def run(net, x):\n    return net.predictor.forward(x)\n", "error"),
        ("return self.predictor.lstm(x)", "def run(net, x):\n    return getattr(net, 'predictor')(x)\n", "error"),
        ("return self.predictor.lstm(x)", "from net import Predictor\n\nmodel = Predictor()\n", "error"),
        ("return self.predictor(self.predictor.lstm(x))", "", "error"),
        ("return [part(x) for part in self.children()]", "", "error"),
        ("return x", "", "error"),
    ],
)
def test_a_module_whose_parts_alone_are_run(tmp_path: Path, body: str, other: str, severity: str) -> None:
    assert of_project(tmp_path, PARTS.format(body=body), other=other) == [severity]


LOADED = """
def loaded(path, deep=False):
{body}


known = 3
"""


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("    net = depths.Net()\n    net.load_state_dict(torch.load(path))\n    return net", "info"),
        (
            "    if deep:\n        net = depths.Net()\n        return net, deep.load_state_dict(torch.load(path))\n    return deep",
            "info",
        ),
        ("    if deep:\n        net = depths.Net()\n    return deep.load_state_dict(torch.load(path))", "warning"),
        ("    if depths.ready:\n        return deep.load_state_dict(torch.load(path))\n    return deep", "info"),
        (
            "    if deep and depths.ready:\n        return deep.load_state_dict(torch.load(path))\n    return deep",
            "warning",
        ),
        (
            "    try:\n        print(depths)\n    except NameError:\n        return deep.load_state_dict(torch.load(path))",
            "warning",
        ),
        ("    state = deep.load_state_dict(torch.load(path))\n    return depths.Net(state)", "warning"),
        ("    print(known)\n    return deep.load_state_dict(torch.load(path))", "warning"),
        ("    print(given)\n    return deep.load_state_dict(torch.load(path))", "warning"),
    ],
)
def test_what_a_function_runs_behind_a_name_that_nothing_binds(tmp_path: Path, body: str, severity: str) -> None:
    other = "import net\n\nnet.given = 3\nprint(net.loaded(input()))\n\n\nclass Other:\n    def __init__(self):\n        self.depths = 2\n"
    assert of_project(tmp_path, LOADED.format(body=body), "DEV002", other=other) == [severity]


MODES = """
class Net(nn.Module):
    def forward(self, x):
        {flag}
        if {test}:
            return x
        return {{"x": x, "aux": x * 2}}
"""


@pytest.mark.parametrize(
    ("flag", "test", "is_told"),
    [
        ("test_mode = not self.training", "test_mode", False),
        ("test_mode = not self.training and x is not None", "not test_mode", True),
        ("trained = self.training", "not trained", False),
        ("trained = self.training", "trained", True),
        ("test_mode = not self.training\n        test_mode = x.ndim > 2", "test_mode", True),
        ("test_mode = x.shape[0]", "test_mode > 3", True),
        ("pass", "True", False),
        ("pass", "False", True),
        ("pass", "0", True),
    ],
)
def test_a_mode_that_a_variable_holds(flag: str, test: str, is_told: bool) -> None:
    assert bool(of_text(MODES.format(flag=flag, test=test), "SIG001")) == is_told


RANKS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(3, 4)

    def forward(self, x, y):
        x = {made}
        if {test}:
            x = x.view(-1, 1, 1)
        return x
"""


@pytest.mark.parametrize(
    ("made", "test", "is_told"),
    [
        ("self.table(x).transpose(1, 2)", "x.ndim == 1", False),
        ("self.table(x).transpose(1, 2)", "x.dim() < 3", False),
        ("x.permute(0, 2, 1)", "len(x.shape) == 3", True),
        ("x.transpose(1, 2)", "x.dim() == 2", False),
        ("x.t()", "x.dim() == 1", False),
        ("x.permute(0, 2, 1)", "y.dim() == 1", True),
    ],
)
def test_a_rank_that_what_was_done_before_rules_out(made: str, test: str, is_told: bool) -> None:
    assert bool(of_text(RANKS.format(made=made, test=test), "SHP002")) == is_told


UNREAD = """
def both(x):
    y = torch.exp(x)
    w = y * 2
    {computed}
    return y, w


def first(x):
    return {used}


class Net(nn.Module):
    def forward(self, x):
        return first(x)
"""


@pytest.mark.parametrize(
    ("computed", "used", "severities"),
    [
        ("w = torch.fmax(torch.zeros_like(w), w)", "both(x)[0]", []),
        ("w = torch.fmax(torch.zeros_like(w), w)", "both(x)[1]", ["error"]),
        ("w = torch.fmax(torch.zeros_like(w), w)", "both(x)", ["error"]),
        ("y = w = torch.fmax(w, y)", "both(x)[0]", ["error"]),
        ("w = torch.fmax(w, y)\n    y = y + w", "both(x)[0]", ["error"]),
        ("w = torch.fmax(w, y)\n    print(w)", "both(x)[0]", ["error"]),
        ("w = torch.fmod(w, y)\n    v = w\n    w = v + w", "both(x)[0]", []),
    ],
)
def test_an_element_of_a_result_that_no_caller_reads(
    tmp_path: Path, computed: str, used: str, severities: list[str]
) -> None:
    assert of_project(tmp_path, UNREAD.format(computed=computed, used=used), "OPS001") == severities


FLOW = """
class Flow(nn.Module):
    def forward(self, x, w=None, reverse=False):
        if not reverse:
            {before}
            return F.logsigmoid(x), w
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = Flow()

    def forward(self, x, y):
        return self.flow(x, y)

    def {answers}(self, x):
        return {used}
"""


@pytest.mark.parametrize(
    ("before", "answers", "used", "severity"),
    [
        ("pass", "infer", "self.flow(x, reverse=True)", "info"),
        ("pass", "infer", "self.flow(x)", "warning"),
        ("assert w is not None", "infer", "self.flow(x)", "info"),
        ("assert w is not None", "infer", "self.flow(x, x)", "warning"),
        ("pass", "encode", "self.flow(x, reverse=True)", "warning"),
    ],
)
def test_a_branch_that_only_training_takes(tmp_path: Path, before: str, answers: str, used: str, severity: str) -> None:
    text = FLOW.format(before=before, answers=answers, used=used)
    assert of_project(tmp_path, text, "OPS001") == [severity]

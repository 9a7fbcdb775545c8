"""The path of inference: findings about what only training, evaluation or tests run are information."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import modellint
from modellint.cli import cli

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
DISTANCE = """
class Distance(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)
"""
DRAWING = """
class Thin(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.rate = rate

    def forward(self, x):
        {test}
            return x
        return self.lin(x) * torch.empty_like(x).bernoulli_(1 - self.rate)
"""


def project(folder: Path, **files: str) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(HEAD + textwrap.dedent(text), "utf-8")


def severities(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: str = "OPS001") -> list[str]:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, ["check", "--output-format", "json", "--select", code, target])
    return [finding["severity"] for finding in json.loads(result.stdout)]


def of_text(text: str, code: str = "OPS001") -> list[str]:
    findings = modellint.check_source(HEAD + textwrap.dedent(text)).diagnostics
    return [finding.severity.label for finding in findings if finding.code == code]


USERS = {
    "nobody": ("", "error"),
    "a model": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.far = Distance()\n\n"
        "    def forward(self, x):\n        return self.far(x, x)\n",
        "error",
    ),
    "a loss": (
        "class PairLoss(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.far = Distance()\n\n"
        "    def forward(self, x, y):\n        return self.far(x, y).mean()\n",
        "info",
    ),
    "a head, for training": (
        "class Head(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.far = Distance()\n\n"
        "    def forward(self, x, y):\n        if self.training:\n            return self.score(x, y)\n        return x\n\n"
        "    def score(self, x, y):\n        return self.far(x, y).mean()\n",
        "info",
    ),
    "a head, always": (
        "class Head(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.far = Distance()\n\n"
        "    def forward(self, x, y):\n        if self.training:\n            return self.score(x, y)\n        return self.far(x, y)\n\n"
        "    def score(self, x, y):\n        return self.far(x, y).mean()\n",
        "error",
    ),
    "a loop that trains": (
        "def train(net, batches):\n    far = Distance()\n    for x, y in batches:\n        far(net(x), y).mean().backward()\n",
        "info",
    ),
    "a script": ("def main(x):\n    print(Distance()(x, x))\n\n\nmain(torch.ones(2, 2))\n", "error"),
    "a table": ("LAYERS = {'far': Distance}\n", "error"),
    "a name in a string": ("def build(config):\n    return getattr(config, 'Distance')()\n", "error"),
}


@pytest.mark.parametrize("user", USERS)
def test_who_uses_a_class_in_another_file_says_what_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    text, severity = USERS[user]
    project(tmp_path, layers=DISTANCE, user=("from layers import Distance\n\n\n" + text if text else ""))
    assert severities(tmp_path, monkeypatch, "layers.py") == [severity]
    assert severities(tmp_path, monkeypatch, ".") == [severity]


def test_one_user_on_the_path_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, model = (f"from layers import Distance\n\n\n{USERS[user][0]}" for user in ("a loss", "a model"))
    project(tmp_path, layers=DISTANCE, losses=loss)
    assert severities(tmp_path, monkeypatch, "layers.py") == ["info"]
    project(tmp_path, model=model)
    # What was kept of the file counts no longer.
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error"]


def test_another_class_of_the_name_is_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = "from layers import Distance\n\n\n" + USERS["a loss"][0]
    project(tmp_path, layers=DISTANCE, losses=loss, other=DISTANCE.replace("cdist", "add") + "\n\nfar = Distance()\n")
    assert severities(tmp_path, monkeypatch, "layers.py") == ["info"]


def test_what_only_tests_use_may_be_for_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, layers=DISTANCE, tests__test_layers="from layers import Distance\n\nDistance()\n")
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error"]


def test_functions_have_the_role_of_those_who_call_them() -> None:
    helper = "def far(x, y):\n    return torch.cdist(x, y)\n"
    loss = "class PairLoss(nn.Module):\n    def forward(self, x, y):\n        return far(x, y).mean()\n"
    assert of_text(f"{helper}\n\n{loss}") in ([], ["info"])
    assert of_text(f"{helper}\n\n{loss}\n\n{loss.replace('PairLoss', 'Net')}") == ["error"]


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("if self.rate == 0.0 or not self.training:", "info"),
        ("if not (self.training and self.rate > 0.0):", "info"),
        ("if self.rate == 0.0 and not self.training:", "error"),
        ("if self.rate == 0.0:", "error"),
    ],
)
def test_what_is_left_before_runs_in_training_only(test: str, severity: str) -> None:
    assert of_text(DRAWING.format(test=test)) == [severity]


def test_models_are_captured_on_the_cpu() -> None:
    text = """
    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            if TEST:
                y[..., 0] = 1
            return y + 1
    """
    assert of_text(text.replace("TEST", "x.device.type == 'mps'"), "MUT001") == []
    assert of_text(text.replace("TEST", "x.is_cuda"), "MUT001") == []
    assert of_text(text.replace("TEST", "x.device.type == 'cpu'"), "MUT001") == ["error"]


def test_pytorchs_losses_compare_with_answers() -> None:
    assert of_text("class Net(nn.Module):\n    def forward(self, x, y):\n        return F.kl_div(x, y)\n") == ["info"]


def test_a_forward_that_is_given_a_model_explains_or_attacks_it() -> None:
    text = "class Seeker(nn.Module):\n    def forward(self, model: nn.Module, x, y):\n        return torch.cdist(model(x), y)\n"
    assert of_text(text) == ["info"]
    assert of_text(text.replace("model: nn.Module, ", "").replace("model(x)", "x")) == ["error"]


def test_sampling_without_gradients_is_what_a_wrapper_with_a_loss_is_for() -> None:
    text = """
    class Diffusion(nn.Module):
        def near(self, x):
            return torch.add(x, 1e-20).log()

        def noise(self, x):
            return torch.add(x, 1e-20).log()

        def forward(self, x):
            loss = self.noise(x) + self.near(x)
            return loss

        {mark}
        def sample(self, x):
            return self.near(x)
    """
    assert of_text(text.format(mark="@torch.no_grad()"), "NUM002") == ["warning", "info"]
    assert of_text(text.format(mark=""), "NUM002") == ["info", "info"]


def test_a_part_is_not_judged_by_what_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = """
    class Stages(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return {"one": self.lin(x)}
    """
    net = """
    from stages import Stages


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = Stages()

        def forward(self, x):
            return self.stages(x)["one"]
    """
    project(tmp_path, stages=stages)
    assert severities(tmp_path, monkeypatch, "stages.py", "SIG001") == ["warning"]
    project(tmp_path, net=net)
    assert severities(tmp_path, monkeypatch, "stages.py", "SIG001") == ["info"]
    project(tmp_path, export="from stages import Stages\n\nmodel = Stages()\n")
    assert severities(tmp_path, monkeypatch, "stages.py", "SIG001") == ["warning"]


FACTORY = """
from stages import Stages


def make(kind):
    if kind:
        return Stages()
    return nn.Identity()
"""
USER = """
from factory import make


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = make(1)

    def forward(self, x):
        return {result}
"""


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        ({}, "warning"),
        ({"net": USER.format(result='self.stages(x)["one"]')}, "info"),
        ({"net": USER.format(result="x")}, "warning"),
        (
            {
                "net": USER.format(result="self.stages(x)")
                + "\n    def training_step(self, batch, index):\n        return 0\n"
            },
            "warning",
        ),
        (
            {"net": USER.format(result="self.stages(x)"), "export": "from factory import make\n\nmodel = make(1)\n"},
            "warning",
        ),
        ({"net": "from factory import make\n\n\ndef build():\n    model = make(1)\n    return model\n"}, "warning"),
        (
            {
                "outer": "from factory import make\n\n\ndef build():\n    model = make(1)\n    return model\n",
                "net": USER.format(result="self.stages(x)").replace("make", "build").replace("factory", "outer"),
            },
            "info",
        ),
    ],
)
def test_a_part_that_a_function_builds_for_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], severity: str
) -> None:
    stages = """
    class Stages(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return {"one": self.lin(x)}
    """
    project(tmp_path, stages=stages, factory=FACTORY, **files)
    assert severities(tmp_path, monkeypatch, "stages.py", "SIG001") == [severity]


def test_rules_about_the_module_itself_hold_wherever_it_is_trained() -> None:
    loss = """
    class PairLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [nn.Linear(4, 4)]

        def forward(self, x, y):
            return sum(part(x - y) for part in self.parts)
    """
    assert of_text(loss, "REG001") == ["error"]


SEARCH = """
class Seeker(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.masks = {}

    def forward(self, x):
        self.masks = {"x": nn.Parameter(torch.zeros(4))}
        optimizer = torch.optim.Adam(GIVEN)
        for _ in range(9):
            self.net(x * self.masks["x"]).sum().backward()
            optimizer.step()
        return self.masks["x"]
"""


def test_tensors_that_a_class_itself_optimizes_are_no_parameters() -> None:
    by_hand = of_text(SEARCH.replace("GIVEN", "list(self.masks.values())"), "REG005")
    by_parameters = of_text(SEARCH.replace("GIVEN", "self.parameters()"), "REG005")
    assert set(by_hand) == {"info"}
    assert "info" not in by_parameters
    assert len(by_parameters) == len(by_hand)


RESTORE = "model.load_state_dict(torch.load(path))"
SAVE = "torch.save(model.state_dict(), path)"
LOADS = {
    "plain": (f"def restore(model, path):\n    {RESTORE}\n", ["warning"]),
    "in a hook": (f"class Task(nn.Module):\n    def on_train_start(self, model, path):\n        {RESTORE}\n", ["info"]),
    "saved before": (f"def again(model, path):\n    {SAVE}\n    {RESTORE}\n", []),
    "saved behind": (f"def again(model, path):\n    {RESTORE}\n    {SAVE}\n", ["warning"]),
    "removed": (f"import os\n\n\ndef moved(model, path):\n    {RESTORE}\n    os.remove(path)\n", []),
    "an engine": (
        f"def engine(path):\n    from torch2trt import TRTModule\n\n    model = TRTModule()\n    {RESTORE}\n    return model\n",
        [],
    ),
    "for several devices": (
        "from fabric.strategies import Sharded\n\n\ndef restore(model, fabric, path):\n"
        f"    if isinstance(fabric.strategy, Sharded):\n        {RESTORE}\n",
        [],
    ),
}


@pytest.mark.parametrize("place", LOADS)
def test_loads_that_need_no_other_device(place: str) -> None:
    text, expected = LOADS[place]
    assert of_text(text, "DEV002") == expected


def test_loads_in_tests_are_information(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, tests__test_it=LOADS["plain"][0], it=LOADS["plain"][0])
    assert severities(tmp_path, monkeypatch, "tests", "DEV002") == ["info"]
    assert severities(tmp_path, monkeypatch, "it.py", "DEV002") == ["warning"]


CACHE = """
class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 3))

    def forward(self, x):
        self.keys[:1] = x
        self.keys[1:2] = x * 2
        return self.keys.sum(0)
"""


@pytest.mark.parametrize(
    ("name", "severity"), [('"keys"', "info"), ('"model.keys"', "info"), ('"values"', "warning"), ("", "warning")]
)
def test_a_buffer_that_the_project_names_to_a_state_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, severity: str
) -> None:
    convert = f"import coremltools as ct\n\n\ndef states(keys):\n    return [ct.StateType(keys, name={name})]\n"
    project(tmp_path, cache=CACHE, convert=convert if name else "# keys StateType\n")
    assert severities(tmp_path, monkeypatch, "cache.py", "MUT005") == [severity]
    assert severities(tmp_path, monkeypatch, ".", "MUT005") == [severity]


@pytest.mark.parametrize(("package", "severity"), [("onnxruntime", "info"), ("scipy", "error")])
def test_a_wrapper_of_another_runtime_is_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, severity: str
) -> None:
    wrapper = f"""
    class Backend(nn.Module):
        def __init__(self, path):
            super().__init__()
            import {package}
            self.session = {package}.load(path)

        def forward(self, x):
            return self.session.run(torch.cdist(x, x))
    """
    project(tmp_path, wrapper=wrapper)
    assert severities(tmp_path, monkeypatch, "wrapper.py") == [severity]


def test_what_training_has_saved_is_loaded_on_the_same_device() -> None:
    text = "import torch\n\n\ndef run(net, batches, path):\n    for loss in batches:\n{loop}    net.load_state_dict(torch.load(path))\n"
    for body, codes in (("        loss.backward()\n", []), ("        print(loss)\n", ["DEV002"])):
        assert [finding.code for finding in modellint.check_source(text.format(loop=body)).diagnostics] == codes


FLAGGED = """
class Head(nn.Module):
    deploy_mode = False

    def forward(self, x):
        if self.{flag}:
            return x
        return [float(row.sum()) for row in x], x.max().item()
"""


@pytest.mark.parametrize(("flag", "severity"), [("deploy_mode", "info"), ("ready", "error")])
def test_what_stands_behind_a_flag_for_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, severity: str
) -> None:
    project(tmp_path, head=FLAGGED.format(flag=flag))
    assert set(severities(tmp_path, monkeypatch, "head.py", "FLW002")) == {severity}


KEPT = """
class Layer(nn.Module):
    def forward(self, x):
        self.stats = {{}}
        self.stats["mean"] = float(x.mean())
        return {returned}
"""


@pytest.mark.parametrize(("returned", "severity"), [("x * 2", "info"), ('x * self.stats["mean"]', "error")])
def test_a_number_that_is_only_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str, severity: str
) -> None:
    project(tmp_path, layer=KEPT.format(returned=returned))
    assert severities(tmp_path, monkeypatch, "layer.py", "FLW002") == [severity]


METER = """
class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(()))

    def forward(self, x):
        self.running += x.mean()
        return self.running

    def {method}(self):
        self.running.zero_()
"""


def test_a_buffer_that_is_set_to_zero_by_reset_is_a_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, meter=METER.format(method="clear"), statistic=METER.format(method="start"))
    assert severities(tmp_path, monkeypatch, "meter.py", "MUT005,MUT008") == ["info"]
    assert severities(tmp_path, monkeypatch, "statistic.py", "MUT005,MUT008") == ["warning"]


def test_an_argument_of_a_part_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = "class Part(nn.Module):\n    def forward(self, x, cache):\n        cache.mul_(x)\n        return cache\n"
    whole = (
        "from part import Part\n\n\nclass Whole(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.part = Part()\n\n    def forward(self, x):\n        return self.part(x, torch.zeros(4, 3))\n"
    )
    project(tmp_path, part=part)
    assert severities(tmp_path, monkeypatch, "part.py", "MUT007") == ["warning"]
    project(tmp_path, whole=whole)
    assert severities(tmp_path, monkeypatch, "part.py", "MUT007") == ["info"]


PACKED = """
class Detector(nn.Module):
    def forward(self, x):
        result = {{}}
        result["boxes"] = x.exp().cpu().numpy(){more}
        return result
"""


@pytest.mark.parametrize(("more", "severity"), [("", "info"), (".sum()", "error")])
def test_an_array_that_is_packed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, severity: str
) -> None:
    project(tmp_path, detector=PACKED.format(more=more))
    assert severities(tmp_path, monkeypatch, "detector.py", "FLW002") == [severity]


LAYERS = DISTANCE + DISTANCE.replace("Distance", "Other")
NET = """
from layers import Other


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.far = Other()
"""


def test_dead_code_of_a_shared_file_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, layers=LAYERS)
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error", "error"]
    project(tmp_path, net=NET)
    assert severities(tmp_path, monkeypatch, "layers.py") == ["info", "error"]
    assert severities(tmp_path, monkeypatch, ".") == ["info", "error"]


@pytest.mark.parametrize(
    "use",
    [
        "import layers\n\nkinds = vars(layers)\n",
        "import layers\n\n\ndef build(name):\n    return getattr(layers, name)()\n",
        "from layers import *\n\nLAYERS = [Distance]\n",
        "KIND = 'layers.Distance'\n",
        "from layers import Distance as Far\n\nprint(Far)\n",
    ],
)
def test_a_class_that_is_found_in_another_way_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    project(tmp_path, layers=LAYERS, net=NET, use=use)
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error", "error"]


@pytest.mark.parametrize("name", ["config.yaml", "README.md"])
def test_a_class_that_is_configured_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    project(tmp_path, layers=LAYERS, net=NET)
    (tmp_path / name).write_text("model: Distance\n", "utf-8")
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error", "error"]


def test_dead_code_is_judged_as_a_module_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "\n\nclass Hidden(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.parts = [nn.Linear(4, 4)]\n"
    hidden += "\n    def forward(self, x):\n        return self.parts[0](x)\n"
    project(tmp_path, layers=LAYERS + hidden, net=NET)
    assert severities(tmp_path, monkeypatch, "layers.py", "REG001") == ["error"]


SAMPLED = """
class Net(nn.Module):
    def forward(self, x, y):
        loss = self.far(x, y).mean()
        return {returned}

    def far(self, x, y):
        return torch.cdist(x, y)

    def predict(self, x):
        return {predicted}
"""


@pytest.mark.parametrize(
    ("returned", "predicted", "severity"),
    [
        ('{"loss": loss}', "x", "info"),
        ('{"loss": loss}', "self.far(x, x)", "error"),
        ('{"distance": loss}', "x", "error"),
    ],
)
def test_a_forward_that_gives_a_dict_of_losses(returned: str, predicted: str, severity: str) -> None:
    assert of_text(SAMPLED.replace("{returned}", returned).replace("{predicted}", predicted)) == [severity]


def test_a_loss_that_may_be_none_is_for_training_only() -> None:
    text = """
    class Net(nn.Module):
        def forward(self, x, labels=None):
            loss = None
            if labels is not None:
                loss = F.mse_loss(x, labels)
            return loss, torch.cdist(x, x)
    """
    assert of_text(text) == ["error"]
    assert of_text(text.replace("loss = None\n            if labels is not None:\n                ", "")) == ["info"]


FORCED = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, {argument}):
        return torch.cdist(self.lin(x), x)

    def {method}(self, x):
        return self.lin(x)
"""


@pytest.mark.parametrize(
    ("argument", "method", "severity"),
    [("targets", "inference", "info"), ("targets", "reset", "error"), ("memory", "generate", "error")],
)
def test_a_forward_that_is_told_the_answers(argument: str, method: str, severity: str) -> None:
    assert of_text(FORCED.format(argument=argument, method=method)) == [severity]


@pytest.mark.parametrize(("test", "severity"), [('self.mode == "train"', "info"), ('self.mode == "wide"', "error")])
def test_a_mode_in_which_a_model_is_trained(test: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self, mode):
            super().__init__()
            self.mode = mode

        def forward(self, x):
            if {test}:
                return self._far(x)
            return x

        def _far(self, x):
            return torch.cdist(x, x)
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(("name", "severity"), [("ssim", "info"), ("similarity", "error")])
def test_functions_that_measure_what_a_model_is_trained_by(name: str, severity: str) -> None:
    text = f"""
    def {name}(x, y):
        return torch.cdist(x, y)


    class Net(nn.Module):
        def forward(self, x):
            return {name}(x, x)
    """
    assert of_text(text) == [severity]


def test_a_vector_lined_up_with_channels_pins_no_size() -> None:
    text = "class Net(nn.Module):\n    def forward(self, x, style):\n        return x * style.view(SIZES)\n"
    assert of_text(text.replace("SIZES", "1, 3, 1, 1"), "SHP004") == []
    assert of_text(text.replace("SIZES", "1, 3, 8"), "SHP004") != []


def test_a_list_remade_part_by_part_is_no_tensor() -> None:
    text = """
    class Net(nn.Module):
        def forward(self, x: torch.Tensor):
            x = [part * 2 for part in x]
            return torch.cat(x)
    """
    assert of_text(text, "FLW004") == []
    assert of_text(text.replace("x = [", "y = [").replace("cat(x)", "cat(y)"), "FLW004") != []


@pytest.mark.parametrize(
    ("function", "returned", "found"),
    [("build", "net, Loss()", ["warning"]), ("build", "Loss(net)", []), ("wrap", "net, Loss()", [])],
)
def test_a_model_that_a_function_gives_back_first(function: str, returned: str, found: list[str]) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            return {{"logits": self.lin(x)}}


    def {function}():
        net = Net()
        return {returned}
    """
    assert of_text(text, "SIG001") == found


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("if x.numel() == 0:", []),
        ("if x.size(0) == 0:", []),
        ("if x.shape[0] <= 0:", []),
        ("if x.numel() == 1:", ["error"]),
        ("if x.shape[0] > 0:", ["error"]),
    ],
)
def test_no_sample_input_is_empty(test: str, severity: list[str]) -> None:
    text = f"""
    class Net(nn.Module):
        def forward(self, x):
            {test}
                return torch.cdist(x, x)
            return x
    """
    assert of_text(text) == severity


@pytest.mark.parametrize(
    ("ending", "severity"),
    [
        ("if self.training is True:\n    return far, x\nelse:\n    return x", []),
        ("if not self.training:\n    return x\nelse:\n    return far, x", []),
        ("if self.training and self.deep:\n    x = x + far.sum()\nreturn x", []),
        ("if not self.training:\n    return far\nreturn x", ["error"]),
        ("if self.training:\n    x = far\nreturn x, far", ["error"]),
    ],
)
def test_what_training_alone_gives_back(ending: str, severity: list[str]) -> None:
    body = textwrap.indent(ending, " " * 8)
    text = f"class Net(nn.Module):\n    def forward(self, x):\n        far = torch.cdist(x, x)\n{body}\n"
    assert of_text(text) == severity


@pytest.mark.parametrize(
    ("infer", "severity"),
    [
        ("return self.flow(x)", "info"),
        ("return self.forward(x)", "error"),
        ("return self(x)", "error"),
        ("return x.numpy()", "error"),
    ],
)
def test_forward_beside_infer_trains(infer: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.flow = nn.Linear(4, 4)

        def forward(self, x):
            return torch.cdist(self.flow(x), x)

        def infer(self, x):
            {infer}
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(("name", "severity"), [("train_net", "info"), ("serve", "warning")])
def test_what_a_training_script_loads(
    name: str, severity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    class Run:
        def __init__(self, net, path):
            self.net = net
            self.net.load_state_dict(torch.load(path))

        def step(self, x):
            self.net(x).sum().backward()
    """
    project(tmp_path, **{name: text})
    assert severities(tmp_path, monkeypatch, f"{name}.py", "DEV002") == [severity]


MEASURES = """
class Range(nn.Module):
    def __init__(self, rate=0.1, measure=False):
        super().__init__()
        self.rate = rate
        self.measure = measure

    def forward(self, x):
        if {test}:
            x = x * x.max().item()
        return x * 2


"""
BUILDS = """
class Net(nn.Module):
    def __init__(self, {arguments}):
        super().__init__()
        self.range = {call}

    def forward(self, x):
        return self.range(x)


"""


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("self.measure", "info"),
        ("self.training or self.measure", "info"),
        ("self.measure is True", "info"),
        ("self.measure and x.ndim > 2", "info"),
        ("not self.measure", "error"),
        ("self.measure or x.ndim > 2", "error"),
        ("self.rate", "error"),
    ],
)
def test_a_flag_of_the_constructor_that_nothing_switches_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, severity: str
) -> None:
    project(tmp_path, layers=MEASURES.format(test=test) + BUILDS.format(arguments="n=4", call="Range(0.2)"))
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW002") == [severity]


@pytest.mark.parametrize(
    ("arguments", "call", "severity"),
    [
        ("n=4", "Range(measure=False)", "info"),
        ("n=4, seen=False", "Range(0.2, seen)", "info"),
        ("n=4", "Range(0.2, True)", "error"),
        ("n=4", "Range(measure=True)", "error"),
        ("n", "Range(0.2, n)", "error"),
        ("n=4, seen=True", "Range(0.2, seen)", "error"),
        ("*given", "Range(*given)", "error"),
        ("n=4, **given", "Range(**given)", "info"),
        ("given", "Range(**given)", "error"),
        ("kind=Range", "kind(0.2)", "error"),
    ],
)
def test_what_a_constructor_is_given_for_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, call: str, severity: str
) -> None:
    project(tmp_path, layers=MEASURES.format(test="self.measure") + BUILDS.format(arguments=arguments, call=call))
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW002") == [severity]


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("", "info"),
        ("def measure(net):\n    net.range.measure = True\n", "error"),
        ("def measure(net):\n    setattr(net.range, 'measure', True)\n", "error"),
        ("class Wide(Range):\n    def __init__(self):\n        super().__init__(0.2, True)\n", "error"),
        ("class Wide(Range):\n    def __init__(self):\n        super().__init__(0.2)\n", "info"),
        ("class Wide(Range):\n    pass\n\n\nwide = Wide(measure=True)\n", "error"),
        ("class Wide(Range):\n    def look(self):\n        self.measure = True\n", "error"),
        ("class Other(nn.Module):\n    def look(self):\n        self.measure = True\n", "info"),
        ("KINDS = {'range': Range}\n", "error"),
    ],
)
def test_what_else_may_switch_a_flag_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, severity: str
) -> None:
    head = "from layers import Range\n\n\n"
    user = head + BUILDS.format(arguments="n=4", call="Range(0.2)")
    project(tmp_path, layers=MEASURES.format(test="self.measure"), user=user, more=head + more if more else "")
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW002") == [severity]


def test_a_class_that_nothing_builds_may_be_built_with_any_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MEASURES.format(test="self.measure")
    project(tmp_path, layers=text)
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW002") == ["error"]
    project(tmp_path, layers=text, tests__test_layers="from layers import Range\n\nRange(0.2)\n")
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW002") == ["error"]


@pytest.mark.parametrize(
    ("arguments", "test", "found"),
    [
        ("n, momentum=0.2", "self.training or not self.track_running_stats", []),
        ("n, 1e-5, 0.1, True, **more", "self.training or not self.track_running_stats", ["error"]),
        ("n, track_running_stats=False", "self.training or not self.track_running_stats", ["error"]),
        ("n, momentum=0.2", "self.training or self.track_running_stats", ["error"]),
    ],
)
def test_batch_normalization_tracks_unless_told_otherwise(arguments: str, test: str, found: list[str]) -> None:
    text = f"""
    class Split(nn.BatchNorm2d):
        def __init__(self, n, **more):
            super().__init__({arguments})

        def forward(self, x):
            if {test}:
                return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True)
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)
    """
    assert of_text(text, "MOD002") == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("self.score(y.bfloat16(), x)", []),
        ("F.cross_entropy(y.bfloat16(), x)", []),
        ("nn.MSELoss()(y.bfloat16(), x)", []),
        ("self.lossless(y.bfloat16(), x)", ["error"]),
        ("self.score(y, x) + y.bfloat16()", ["error"]),
    ],
)
def test_what_is_given_to_a_loss(call: str, found: list[str]) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 4)

        def forward(self, x, y=None):
            return self.net(x), {call.replace("self.score", "self.loss_fct")}
    """
    assert of_text(text, "OPS002") == found


@pytest.mark.parametrize(
    ("returned", "severity"),
    [
        ('{"loss_near": x, "loss_far": x * 2}', "info"),
        ('{"loss_near": x, "scores": x}', "error"),
        ('{"lossless": x}', "error"),
    ],
)
def test_a_dict_of_nothing_but_losses(returned: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 4)

        def forward(self, x):
            x = torch.cdist(self.net(x), x)
            return {returned}
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(("folder", "severity"), [("losses", "info"), ("layers", "warning")])
def test_a_statistic_of_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, severity: str) -> None:
    text = """
    class Balanced(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean
    """
    project(tmp_path, **{f"{folder}__balanced": text})
    assert severities(tmp_path, monkeypatch, ".", "MUT008") == [severity]


@pytest.mark.parametrize(
    ("arguments", "severity"),
    [
        ("pred_places, true_places", "info"),
        ("pred_boxes, target_boxes, scale=1", "info"),
        ("pred_boxes, true_places", "error"),
        ("pred_boxes, true_boxes=None", "error"),
    ],
)
def test_a_method_that_is_given_the_truth(arguments: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 4)

        def near(self, {arguments}):
            return torch.cdist({arguments.partition(",")[0]}, self.net.weight)

        def forward(self, x):
            return self.near(self.net(x), x)
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(("value", "found"), [("np.mean(x.tolist())", []), ("x.mean()", ["warning"])])
def test_a_dict_of_numbers_that_numpy_computes(value: str, found: list[str]) -> None:
    text = f"""
    import numpy as np

    class Net(nn.Module):
        def forward(self, x):
            return {{"mean": {value}}}
    """
    assert of_text(text, "SIG001") == found


@pytest.mark.parametrize(("ending", "severity"), [("print(x)", "info"), ("return None", "info"), ("return x", "error")])
def test_a_forward_that_gives_nothing_in_evaluation(ending: str, severity: str) -> None:
    text = f"""
    class Judge(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 4)

        def forward(self, x):
            if self.training:
                return self.net(x)
            x = torch.cdist(self.net(x), x)
            {ending}
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("if size() == 1:\n        return x\n    x = torch.cdist(x, x)\n    dist.all_reduce(x)\n    return x", "info"),
        ("dist.all_reduce(x)\n    x = torch.cdist(x, x)\n    return x", "info"),
        ("if size() > 1:\n        dist.all_reduce(x)\n    return torch.cdist(x, x)", "error"),
        ("x = torch.cdist(x, x)\n    if size() == 1:\n        return x\n    dist.all_reduce(x)\n    return x", "error"),
        ("dist.get_rank()\n    return torch.cdist(x, x)", "error"),
    ],
)
def test_what_comes_with_a_collective(body: str, severity: str) -> None:
    text = f"""
import torch.distributed as dist


def size():
    return dist.get_world_size() if dist.is_initialized() else 1


def shared(x):
    {body}


class Net(nn.Module):
    def forward(self, x):
        return shared(x)
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(
    ("backward", "severity"), [("dist.all_reduce(y)\n        return y", "info"), ("return y * 2", "warning")]
)
def test_an_autograd_function_between_processes(backward: str, severity: str) -> None:
    text = f"""
import torch.distributed as dist


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, y):
        {backward}


class Net(nn.Module):
    def forward(self, x):
        return Copy.apply(x)
    """
    assert of_text(text, "OPS009") == [severity]


def test_a_tensor_that_an_owner_moves_is_no_more_than_information(tmp_path: Path) -> None:
    head = (
        "import torch\nfrom torch import nn\n\n\nclass Head(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.stride = torch.tensor([8.0, 16.0])\n\n    def forward(self, x):\n        return x * self.stride[0]\n"
    )
    owner = (
        "from head import Head\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.head = Head()\n\n    def forward(self, x):\n        return self.head(x)\n\n"
        "    def _apply(self, fn):\n        super()._apply(fn)\n        {moves}\n        return self\n"
    )
    (tmp_path / "head.py").write_text(head, "utf-8")
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    for moves, severity in (
        ("self.head.stride = fn(self.head.stride)", "info"),
        ("self.head.other = fn(self.head.weight)", "warning"),
    ):
        (tmp_path / "model.py").write_text(owner.format(moves=moves), "utf-8")
        done = CliRunner().invoke(cli, ["check", "--no-cache", "--output-format", "json", str(tmp_path)])
        findings = [finding for finding in json.loads(done.stdout) if finding["code"] == "REG006"]
        assert [finding["severity"] for finding in findings] == [severity]


ATTENTION = """
class Attention(nn.Module):
    def forward(self, x, y, mask=None):
        if {test}:
            x = x * torch.cdist(mask, y)
        return x


def exists(value):
    return value is not None


"""
BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = {built}

    def forward(self, x, {arguments}):
        return {call}
"""


@pytest.mark.parametrize(
    ("built", "arguments", "call", "severity"),
    [
        ("Attention()", "mask=None", "self.attend(x, x)", "info"),
        ("Attention()", "mask=None", "self.attend(x, x, None) + self.attend(x, y=x, mask=None)", "info"),
        ("Attention()", "mask=None", "self.attend(x, x, mask)", "error"),
        ("Attention()", "mask=None", "self.attend(x, x) + self.attend(x, x, x)", "error"),
        ("Attention()", "**kwargs", "self.attend(x, x, **kwargs)", "error"),
        ("Attention()", "*rest", "self.attend(*rest)", "error"),
        ("Attention()", "mask=None", "x.run(self.attend)", "error"),
        ("nn.ModuleList([Attention()])", "mask=None", "self.attend[0](x, x)", "error"),
    ],
)
def test_an_argument_that_no_call_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: str, arguments: str, call: str, severity: str
) -> None:
    block = BLOCK.format(built=built, arguments=arguments, call=call)
    for test in ("mask is not None", "exists(mask)", "not (mask is None)"):
        project(tmp_path, layers=ATTENTION.format(test=test), blocks="from layers import Attention\n" + block)
        assert severities(tmp_path, monkeypatch, "layers.py") == [severity]


@pytest.mark.parametrize("test", ["mask is None", "x is not None", "mask is not None or y is None"])
def test_other_conditions_than_one_for_the_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    block = BLOCK.format(built="Attention()", arguments="y", call="self.attend(x, y)")
    project(tmp_path, layers=ATTENTION.format(test=test), blocks="from layers import Attention\n" + block)
    assert severities(tmp_path, monkeypatch, "layers.py") == ["error"]


@pytest.mark.parametrize(
    ("call", "severity"),
    [("block(x)", "info"), ("block(x, mask=None)", "info"), ("block(x, m)", "error"), ("x", "error")],
)
def test_an_argument_that_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, severity: str
) -> None:
    block = BLOCK.format(built="Attention()", arguments="mask=None", call="self.attend(x, x, mask)")
    main = f"def main(x, m):\n    block = Block()\n    block = block.to('cpu')\n    block.eval()\n    return {call}\n"
    project(
        tmp_path,
        layers=ATTENTION.format(test="mask is not None"),
        blocks="from layers import Attention\n" + block,
        main="from blocks import Block\n\n\n" + main,
    )
    assert severities(tmp_path, monkeypatch, "layers.py") == [severity]


@pytest.mark.parametrize(
    ("caller", "severity"), [("training_step", "info"), ("validation_step", "info"), ("predict", "error")]
)
def test_an_argument_that_only_training_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: str, severity: str
) -> None:
    net = "import pytorch_lightning as pl\n\n\nclass Net(pl.LightningModule):\n    def __init__(self):\n        super().__init__()\n"
    net += "        self.lin = nn.Linear(4, 4)\n\n    def forward(self, x, boxes=None):\n        x = self.lin(x)\n"
    net += "        if boxes is not None:\n            x = torch.cdist(x, boxes)\n        return x\n\n"
    net += f"    def {caller}(self, batch):\n        return self(batch[0], batch[1])\n"
    main = "from net import Net\n\n\ndef main(path, x, trainer):\n    net = Net.load_from_checkpoint(path)\n    {}\n"
    project(tmp_path, net=net, main=main.format("return net(x)"))
    assert severities(tmp_path, monkeypatch, "net.py") == [severity]
    project(tmp_path, net=net, main=main.format("trainer.fit(net)"))
    assert severities(tmp_path, monkeypatch, "net.py") == ["error"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("self.head([a, a * 2])", []),
        ("self.head(x=[part * 2 for part in (a, a)])", []),
        ("self.head(rows)", []),
        ("self.head(a)", ["MUT007", "FLW004"]),
        ("self.head([a]) + self.head(a)", ["MUT007", "FLW004"]),
    ],
)
def test_a_list_that_all_callers_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, found: list[str]
) -> None:
    head = "class Head(nn.Module):\n    def forward(self, x):\n        size = x.shape\n"
    head += "        for i in range(2):\n            x[i] = x[i] * 2\n"
    head += "        return torch.stack([part.sum(1) for part in x])\n"
    user = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.head = Head()\n\n"
    user += "    def forward(self, a):\n"
    user += f"        rows = []\n        rows.append(a)\n        return {call}\n"
    project(tmp_path, head=head, net="from head import Head\n\n\n" + user)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["check", "--output-format", "json", "--select", "FLW004,MUT007", "head.py"])
    told = [(each["code"], each["severity"]) for each in json.loads(result.stdout)]
    assert sorted(code for code, _ in told) == sorted(found)


ARRAYS = """
class Cut(nn.Module):
    def forward(self, x, boxes: np.ndarray):
        return torch.cdist(x, torch.tensor(boxes))
"""


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        ({}, "info"),
        ({"tests__test_cut": "from cut import Cut\n\n\ndef test_cut():\n    assert Cut()(1, 2)\n"}, "info"),
        ({"net": "from cut import Cut\n\n\ndef build():\n    return Cut()\n"}, "error"),
    ],
)
def test_a_layer_that_is_given_arrays_and_that_no_module_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], severity: str
) -> None:
    project(tmp_path, cut="import numpy as np\n" + ARRAYS, **files)
    assert severities(tmp_path, monkeypatch, "cut.py") == [severity]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("for k, p in model.named_parameters():\n            self.count += 1", "info"),
        ("self.count += len(model)", "error"),
    ],
)
def test_a_forward_that_is_given_a_model(body: str, severity: str) -> None:
    text = f"""
class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, model):
        {body}
        return self.count
"""
    assert set(of_text(text, "MUT005")) == {severity}


TARGETS = """
class Targets(nn.Module):
    def __init__(self):
        super().__init__()
        self.anchors = torch.ones(4)

    def forward(self, x):
        return x - self.anchors


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.targets = Targets()

    def forward(self, x):
        if self.training:
            return self.targets(x)
        return {result}
"""


@pytest.mark.parametrize(("result", "severity"), [("self.lin(x)", "info"), ("self.targets(self.lin(x))", "warning")])
def test_a_tensor_of_a_layer_that_only_training_runs(result: str, severity: str) -> None:
    assert of_text(TARGETS.format(result=result), "REG006") == [severity]


def test_forward_by_name_in_training_or_in_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        {test}
        return self.lin.forward(x)
"""
    assert of_text(text.format(test="pass"), "FLW007") == ["warning"]
    in_training = text.format(test="if self.training:\n            return self.lin.forward(x)").rsplit("return", 1)[0]
    assert of_text(in_training + "return self.lin(x)", "FLW007") == ["info"]
    project(tmp_path, tests__util=text.format(test="pass"))
    assert severities(tmp_path, monkeypatch, "tests/util.py", "FLW007") == ["info"]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("first = labels[:, 0]", "info"),
        ("first = labels[:, 0] if labels is not None else x", "error"),
        ("first = F.relu(x)", "error"),
    ],
)
def test_labels_that_a_forward_cannot_do_without(line: str, severity: str) -> None:
    text = f"""
class Net(nn.Module):
    def forward(self, x, labels=None):
        {line}
        if x.sum() > 0:
            return x
        return first
"""
    assert of_text(text, "FLW001") == [severity]


STATISTIC = """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - {value}
"""


@pytest.mark.parametrize(("value", "severity"), [("self.mean", "warning"), ("x.mean(0)", "info")])
def test_a_statistic_that_nothing_reads(value: str, severity: str) -> None:
    assert of_text(STATISTIC.format(value=value), "MUT008") == [severity]


@pytest.mark.parametrize(
    ("taker", "severity"), [("optimizer", "info"), ("self.G.optim", "info"), ("self.net", "warning")]
)
def test_states_of_optimizers_are_loaded_for_training(taker: str, severity: str) -> None:
    text = f"def resume(self, optimizer, path):\n    {taker}.load_state_dict(torch.load(path))\n"
    assert of_text(text, "DEV002") == [severity]


GUARDED = """
from kinds import {guard}


class Net(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        if {guard}(x):
            for part in x:
                y = y + part
        return y
"""


def test_type_guards_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(
        "def is_list(data):\n    return isinstance(data, (list, tuple))\n\n\ndef is_long(data):\n    return len(data) > 3\n",
        "utf-8",
    )
    for guard, codes in (("is_list", set()), ("is_long", {"FLW004"})):
        (tmp_path / "model.py").write_text(
            f"import torch\nfrom torch import nn\n{GUARDED.format(guard=guard)}", "utf-8"
        )
        done = CliRunner().invoke(cli, ["check", "--no-cache", "--output-format", "json", str(tmp_path)])
        assert {finding["code"] for finding in json.loads(done.stdout)} & {"FLW004"} == codes


VERIFIED = """
class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net{layer}

    def forward(self, x):
        return torch.cdist(self.net(x), x)


def answers(net, x):
    return net.generate(x)


def check(first, second, x):
    answers(first, x)
    left, right = first(x), second.forward(x)
    {compared}


def main(net, x):
    {used}
"""


@pytest.mark.parametrize(
    ("used", "compared", "layer", "severity"),
    [
        ("check(Wrapper(net), net, x)", "assert torch.allclose(left, right)", "", "info"),
        ("check(x=x, first=Wrapper(net).eval(), second=net)", "assert torch.allclose(left, right)", "", "error"),
        ("wrapper = Wrapper(net)\n    check(wrapper, net, x)", "torch.testing.assert_close(left, right)", "", "info"),
        ("check(Wrapper(net), net, x)", "print(left, right)", "", "error"),
        ("check(Wrapper(net), net, x)", "torch.allclose(left, right)\n    return first", "", "error"),
        (
            "wrapper = Wrapper(net)\n    check(wrapper, net, x)\n    return wrapper",
            "torch.allclose(left, right)",
            "",
            "error",
        ),
        ("check(Wrapper(net), net, x)", "torch.allclose(left, right)", "\n        self.lin = nn.Linear(4, 4)", "error"),
        ("torch.jit.trace(Wrapper(net), x)", "torch.allclose(left, right)", "", "error"),
    ],
)
def test_a_wrapper_that_is_only_compared(used: str, compared: str, layer: str, severity: str) -> None:
    assert of_text(VERIFIED.format(used=used, compared=compared, layer=layer)) == [severity]


DERIVED = """
class Far(nn.Module):
    def forward(self, x, y):
        return torch.cdist(self.start(x), y)


class {first}(Far):
    def start(self, x):
        return x


class {second}(Far):
    def start(self, x):
        return x + 1
"""


@pytest.mark.parametrize(
    ("first", "second", "severity"), [("NearLoss", "FarLoss", "info"), ("NearLoss", "FarLayer", "error")]
)
def test_a_base_is_what_derives_from_it(first: str, second: str, severity: str) -> None:
    assert of_text(DERIVED.format(first=first, second=second)) == [severity]


CONSTANT = """
class {name}(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.scale = torch.tensor([1.0, 2.0, 4.0])
        self.pools = [nn.AvgPool2d(2), nn.AvgPool2d(4)]
        {layer}

    def forward(self, x, target):
        {body}
        return (self.scale * (self.pools[0](x) - self.net(target))).mean()
"""


@pytest.mark.parametrize(
    ("name", "layer", "body", "severity"),
    [
        ("ScaleLoss", "pass", "pass", "info"),
        ("Scale", "pass", "pass", "warning"),
        ("ScaleLoss", "self.lin = nn.Linear(4, 4)", "pass", "info"),
        ("ScaleLoss", "pass", "self.scale = self.scale * 2", "warning"),
        ("ScaleLoss", "pass", "self.scale[0] += 1", "warning"),
        ("ScaleLoss", "pass", "self.scale.mul_(2)", "warning"),
    ],
)
def test_a_constant_tensor_of_a_loss(name: str, layer: str, body: str, severity: str) -> None:
    assert of_text(CONSTANT.format(name=name, layer=layer, body=body), "REG006") == [severity]


@pytest.mark.parametrize(("layer", "severity"), [("pass", "info"), ("self.lin = nn.Linear(4, 4)", "warning")])
def test_layers_that_a_loss_without_state_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str, severity: str
) -> None:
    project(tmp_path, losses=CONSTANT.format(name="Scale", layer=layer, body="pass"))
    assert severities(tmp_path, monkeypatch, "losses.py", "REG001") == [severity]


def test_a_tensor_of_a_module_in_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONSTANT.format(name="Scale", layer="pass", body="pass")
    project(tmp_path, tests__util=text, net=text)
    assert severities(tmp_path, monkeypatch, "tests/util.py", "REG006") == ["info"]
    assert severities(tmp_path, monkeypatch, "net.py", "REG006") == ["warning"]


@pytest.mark.parametrize(
    ("held", "returned", "severity"),
    [
        ("nn.L1Loss()", "return first, {}", "info"),
        ("nn.L1Loss()", "return first", "info"),
        ("nn.Identity()", "return first, {}", "error"),
        ("nn.L1Loss()", "return x, first", "error"),
        ("nn.L1Loss()", "if x.dim() > 2:\n            return x\n        return first", "error"),
    ],
)
def test_a_forward_that_gives_what_a_criterion_gives(held: str, returned: str, severity: str) -> None:
    text = f"""
    class Objective(nn.Module):
        def __init__(self):
            super().__init__()
            self.fn = {held}

        def forward(self, x, mask):
            first = self.fn(x.masked_select(mask), x)
            {returned.replace(chr(10), chr(10) + "    ")}
    """
    assert of_text(text)[-1] == severity


def test_forward_by_name_of_what_gives_a_loss() -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        {name} = self.lin.forward(x)
        return {name}
"""
    assert of_text(text.format(name="loss"), "FLW007") == ["info"]
    assert of_text(text.format(name="y"), "FLW007") == ["warning"]


def test_forward_by_name_in_a_module_that_nothing_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.lin.forward(torch.cdist(x, x))
"""
    project(
        tmp_path,
        layers=text.format(name="Old") + "\n" + text.format(name="New"),
        net="from layers import New\n\n\nnet = New()",
    )
    assert severities(tmp_path, monkeypatch, "layers.py") == ["info", "error"]
    assert severities(tmp_path, monkeypatch, "layers.py", "FLW007") == ["warning", "warning"]


HELPER = """
class Net(nn.Module):
    def forward(self, x, y, far=False):
        return {call}

    def run(self, x, y, far=False{more}):
        x = x * 2
        if far:
            x[..., 0] = y[..., 0] - x[..., 0]
        return x


{outside}
"""


@pytest.mark.parametrize(
    ("call", "more", "outside", "severity"),
    [
        ("self.run(x, y)", "", "", "info"),
        ("self.run(x, y, False)", "", "", "info"),
        ("self.run(x, y, far=False)", ", near=None", "", "info"),
        ("self.run(x, y) + self.run(x, y, True)", "", "", "error"),
        ("self.run(x, y, far=far)", "", "", "error"),
        ("self.run(x, y, **far)", "", "", "error"),
        ("self.run(x, y) + call(self.run, x, y)", "", "", "error"),
        ("self.run(x, y)", "", "def main(net, x):\n    return net.run(x, x, x)", "error"),
        ("self.run(x, y)", "", "def main(net, x):\n    return getattr(net, 'run')(x, x, True)", "error"),
    ],
)
def test_an_argument_of_a_method_that_no_call_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, more: str, outside: str, severity: str
) -> None:
    project(tmp_path, net=HELPER.format(call=call, more=more, outside=outside))
    assert severities(tmp_path, monkeypatch, "net.py", "MUT001") == [severity]


@pytest.mark.parametrize(("call", "severity"), [("self.far(x, x)", "info"), ("self.far(x, x, True)", "error")])
@pytest.mark.parametrize("test", ["far", "far and x.dim() > 2"])
def test_a_switch_of_a_forward_that_no_call_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, call: str, severity: str
) -> None:
    text = f"""
class Far(nn.Module):
    def forward(self, x, y, far=False):
        x = x * 2
        if {test}:
            x[..., 0] = y[..., 0] - x[..., 0]
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.far = Far()

    def forward(self, x):
        return {call}
"""
    project(tmp_path, net=text)
    assert severities(tmp_path, monkeypatch, "net.py", "MUT001") == [severity]


AVERAGE = """
class Map(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x, update={default}):
        x = self.lin(x)
        if update:
            self.average.copy_(x.mean(0).lerp(self.average, 0.99))
        return x - self.average


def run(net, x, update=False):
    return {call}
"""


@pytest.mark.parametrize(
    ("default", "call", "severity"),
    [
        ("False", "net(x, update=update)", "info"),
        ("False", "net(x, update=False)", "info"),
        ("True", "net(x, update=update)", "error"),
        ("False", "net(x, update=x.dim() > 2)", "error"),
        ("False", "net(x, True)", "error"),
        ("False", "net(x, **{'update': True})", "error"),
    ],
)
def test_a_buffer_that_only_a_switch_that_nobody_names_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: str, call: str, severity: str
) -> None:
    project(tmp_path, net=AVERAGE.format(default=default, call=call))
    assert severities(tmp_path, monkeypatch, "net.py", "MUT005") == [severity]


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        ("for batch in batches:\n            self.step(batch)", "info"),
        ("self.score(batches)", "error"),
        ("if self.training:\n            self.step(batches)\n        self.score(batches)", "error"),
    ],
)
def test_a_forward_that_is_the_loop_of_a_trainer(forward: str, severity: str) -> None:
    text = f"""
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(1))

    def score(self, x):
        return self.lin(x).mean()

    def step(self, x):
        self.score(x).backward()

    def forward(self, batches):
        self.steps += 1
        {forward}
        return self.steps
"""
    assert of_text(text, "MUT005") == [severity]


WRAPPED = """
KNOWN = {{}}
SEEN = set()


def note(thing):
    {note}


def wrapped(cls):
    class Wrapper(cls):
        pass

    {kept}
    return Wrapper


{decorator}
class Distance(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)


class PairLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.far = Distance()

    def forward(self, x, y):
        return self.far(x, y).mean()
"""


@pytest.mark.parametrize(
    ("decorator", "kept", "note", "severity"),
    [
        ("@wrapped", "SEEN.add(Wrapper)", "pass", "info"),
        ("@wrapped", "note(cls)", "assert isinstance(thing, type)", "info"),
        ("@wrapped", "KNOWN[cls.__name__] = Wrapper", "pass", "error"),
        ("@wrapped", "note(cls)", "KNOWN[thing.__name__] = thing", "error"),
        ("@wrapped", "KNOWN.setdefault('far', Wrapper)", "pass", "error"),
        ("@KNOWN.get('far')", "pass", "pass", "error"),
    ],
)
def test_a_class_decorator_that_keeps_no_class(decorator: str, kept: str, note: str, severity: str) -> None:
    assert of_text(WRAPPED.format(decorator=decorator, kept=kept, note=note)) == [severity]


UNBUILT = """
{head}


class Net(nn.Module):
    def fill(self, count):
        rows = [0]
        {inside}
        return rows

    def __init__(self):
        super().__init__()
        {first}

    def forward(self, x, y):
        return torch.cdist(x, y)
"""


@pytest.mark.parametrize(
    ("head", "inside", "first", "severity"),
    [
        ("", "for row in xrange(count):\n            rows.append(row)", "self.rows = len(self.fill(3))", "info"),
        ("", "pass", "self.rows = [*map(int, xrange(3))]", "info"),
        ("", "pass", "self.rows = [*map(int, somewhere(3))]", "error"),
        ("xrange = range", "pass", "self.rows = [*map(int, xrange(3))]", "error"),
        ("from six.moves import *", "pass", "self.rows = [*map(int, xrange(3))]", "error"),
        ("", "pass", "if self.fill(3):\n            xrange(3)", "error"),
        ("", "pass", "self.rows = self.fill(3) or xrange(3)", "error"),
        ("", "pass", "try:\n            xrange(3)\n        except NameError:\n            pass", "error"),
        ("", "return xrange(3)", "self.rows = 3", "error"),
    ],
)
def test_a_class_that_cannot_be_built(head: str, inside: str, first: str, severity: str) -> None:
    assert of_text(UNBUILT.format(head=head, inside=inside, first=first)) == [severity]


UNRUN = """
import torch
from torch import nn


class Net(nn.Module):
    def rows(self, n):
        return range(n / 2)

    def forward(self, x, y):
        {first}
        return torch.cdist(x, y)
"""


@pytest.mark.parametrize(
    ("first", "severity"),
    [
        ("for i in range(x.size(1) / 4):\n            x = x + i", "info"),
        ("for i in range(0, 12 / 4):\n            x = x + i", "info"),
        ("y = y + sum(self.rows(4))", "info"),
        ("for i in xrange(3):\n            x = x + i", "info"),
        ("for i in range(x.size(1) // 4):\n            x = x + i", "error"),
        ("for i in range(int(x.size(1) / 4)):\n            x = x + i", "error"),
        ("if y is None:\n            return range(x.size(1) / 4)", "error"),
    ],
)
def test_a_forward_that_always_raises(first: str, severity: str) -> None:
    report = modellint.check_source(UNRUN.format(first=first))
    assert [part.severity.label for part in report.diagnostics if part.code == "OPS001"] == [severity]


POOLED = """
import torch
from torch import nn

{table}


class Pool(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)


{shown}
"""


@pytest.mark.parametrize(
    ("table", "shown", "severity"),
    [
        ("SIZES = {}", 'if __name__ == "__main__":\n    print(Pool())', "info"),
        ("SIZES = {'Pool': [1, 2]}", "", "info"),
        ("SIZES = {'Pool': [1, 2]}", "def make(name):\n    return globals()[name]()", "error"),
        ("SIZES = {1: 'Pool'}", "", "error"),
        ("SIZES = {}", "print(Pool())", "error"),
    ],
)
def test_what_shows_a_class_or_is_called_like_it_is_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, shown: str, severity: str
) -> None:
    user = "from pools import Pool\n\n\ndef depth_loss(x, y):\n    return Pool()(x, y).mean()\n"
    project(tmp_path, pools=POOLED.format(table=table, shown=shown), user=user)
    assert severities(tmp_path, monkeypatch, "pools.py") == [severity]


PROGRAM = """
import sys


class Near(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)


class Far(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y) + 1


{start}
"""


@pytest.mark.parametrize(
    ("start", "other", "found"),
    [
        ("print(Far(), sys.argv[1])", "", ["info", "error"]),
        ("if __name__ == '__main__':\n    print(Far(), sys.argv[1])", "", ["info", "error"]),
        ("print(Far())", "", ["error", "error"]),
        ("def main():\n    print(Far(), sys.argv[1])", "", ["error", "error"]),
        ("print(Far(), globals()[sys.argv[1]])", "", ["error", "error"]),
        ("print(Far(), sys.argv[1])", "import program\n\n\nnet = getattr(program, 'Ne' + 'ar')", ["error", "error"]),
    ],
)
def test_what_a_program_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, other: str, found: list[str]
) -> None:
    project(tmp_path, program=PROGRAM.format(start=start), other=other)
    assert severities(tmp_path, monkeypatch, "program.py") == found


OPTIONS = "import argparse\n\n\ndef options():\n    return argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("start", "user", "found"),
    [
        ("print(Far(), options())", "", ["info", "error"]),
        ("def main():\n    print(Far(), options())\n\nif __name__ == '__main__':\n    main()", "", ["info", "error"]),
        ("def main():\n    print(Far(), options())", "", ["error", "error"]),
        ("def main():\n    print(Far())\n\nif __name__ == '__main__':\n    main()", "", ["error", "error"]),
        (
            "if __name__ == '__main__':\n    print(Far(), options())",
            "from program import Near\n\nNear()",
            ["error", "info"],
        ),
    ],
)
def test_a_program_that_has_a_function_read_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, user: str, found: list[str]
) -> None:
    text = "from shared import options\n" + PROGRAM.format(start=start)
    project(tmp_path, program=text, shared=OPTIONS, user=user)
    assert severities(tmp_path, monkeypatch, "program.py") == found


SCRIPT = """
def first(net, path):
    net.load_state_dict(torch.load(path))


def second(net, path):
    net.load_state_dict(torch.load(path))


def main():
    # first(nn.Linear(2, 2), "first.pth")
    for restore in [second]:
        restore(nn.Linear(2, 2), "second.pth")


{start}
"""


@pytest.mark.parametrize(
    ("start", "files", "found"),
    [
        ("if __name__ == '__main__':\n    main()", {"other": ""}, ["info", "warning"]),
        ("main()", {"other": ""}, ["warning", "warning"]),
        ("", {"other": ""}, ["warning", "warning"]),
        ("if __name__ == '__main__':\n    print(main)", {"other": ""}, ["warning", "warning"]),
        ("if __name__ == '__main__':\n    main()", {}, ["warning", "warning"]),
        (
            "if __name__ == '__main__':\n    main()",
            {"other": "from script import first\nfirst()"},
            ["warning", "warning"],
        ),
        ("if __name__ == '__main__':\n    main()", {"setup": "import setuptools"}, ["warning", "warning"]),
        ("if __name__ == '__main__':\n    main()", {"__init__": ""}, ["warning", "warning"]),
        ("if __name__ == '__main__':\n    getattr(nn, 'x')\n    main()", {"other": ""}, ["warning", "warning"]),
    ],
)
def test_a_function_that_a_script_no_longer_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, files: dict[str, str], found: list[str]
) -> None:
    project(
        tmp_path, script=SCRIPT.format(start=start), **{name: f"import sys\n{text}" for name, text in files.items()}
    )
    if "__init__" in files:
        (tmp_path / "__init__.py").write_text("", "utf-8")
    assert severities(tmp_path, monkeypatch, "script.py", "DEV002") == found


TWIN = """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x, y):
        return torch.cdist(x, y)

    def fit(self, {arguments}):
        pass
"""


@pytest.mark.parametrize(
    ("old", "new", "use", "severity"),
    [
        ("data", "data, steps", "Net(8).fit([], 3)", "info"),
        ("data", "data, steps=3", "net = Net(8)\nnet.fit([], steps=4)", "info"),
        ("data, steps=3", "data, steps", "Net(8).fit([], 3)", "error"),
        ("data", "data, steps", "Net(8).fit([])", "error"),
        ("data", "data, steps", "import old\n\nold.Net(8)\nNet(8).fit([], 3)", "error"),
        ("data", "data, steps", "print(Net)\nfit = print\nfit([], 3)", "error"),
    ],
)
def test_a_class_that_another_has_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, use: str, severity: str
) -> None:
    files = {"old": TWIN.format(arguments=old), "new": TWIN.format(arguments=new)}
    project(tmp_path, **files, train=f"from new import Net\n\n{use}\n")
    assert severities(tmp_path, monkeypatch, "old.py") == [severity]
    assert severities(tmp_path, monkeypatch, "new.py") == ["error"]


@pytest.mark.parametrize(
    ("old", "severity"),
    [
        ("class Near(object):\n    pass\n\nprint 'old'\n", "info"),
        ("from program import Near\n\nprint 'old'\n", "error"),
        ("from program import *\n\nclass Near(Near):\n    pass\n\nprint Near\n", "error"),
    ],
)
def test_a_file_of_python_2_that_has_a_class_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, severity: str
) -> None:
    project(tmp_path, program=PROGRAM.format(start="print(Far(), sys.argv[1])"))
    (tmp_path / "old.py").write_text(old, "utf-8")
    assert severities(tmp_path, monkeypatch, "program.py") == [severity, "error"]


@pytest.mark.parametrize(
    ("name", "severity"), [("kl_loss", "info"), ("loss", "info"), ("lossless", "warning"), ("scores", "warning")]
)
def test_an_epsilon_in_what_is_called_a_loss(name: str, severity: str) -> None:
    text = f"""
    class Quantizer(nn.Module):
        def forward(self, x):
            {name} = torch.log(x + 1e-10).mean()
            return x * 2, {name}
    """
    assert of_text(text, "NUM002") == [severity]


@pytest.mark.parametrize(
    ("arguments", "severity"),
    [("pred, label", "info"), ("preds, targets", "info"), ("label, scale", "error"), ("pred, label, x", "error")],
)
def test_a_helper_that_is_given_a_prediction_and_a_label(arguments: str, severity: str) -> None:
    text = f"""
    class Net(nn.Module):
        def accuracy(self, {arguments}):
            return torch.cdist({", ".join(arguments.split(", ")[:2])})

        def forward(self, x, y):
            return self.accuracy({", ".join("xyx"[: arguments.count(",") + 1])})
    """
    assert of_text(text) == [severity]


DROPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
        self.shift = torch.ones(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return F.dropout(x + self.shift, 0.2)
"""


@pytest.mark.parametrize("code", ["MOD002", "REG001", "REG006"])
def test_no_rule_says_more_than_information_of_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    project(tmp_path, tests__net=DROPS, net_test=DROPS, test_net=DROPS, net=DROPS, contest=DROPS)
    for name in ("tests/net", "net_test", "test_net"):
        assert severities(tmp_path, monkeypatch, f"{name}.py", code) == ["info"]
    for name in ("net", "contest"):
        assert severities(tmp_path, monkeypatch, f"{name}.py", code) in (["error"], ["warning"])


LEARNED = """
class Norm(nn.Module):
    def __init__(self, size, learned=True):
        super().__init__()
        if learned:
            self.gain = nn.Parameter(torch.ones(size))
        else:
            self.gain = torch.ones(size)

    def forward(self, x):
        return x * self.gain
"""


@pytest.mark.parametrize(
    "files, severity",
    [
        ({"net": "from norm import Norm\n\nnorm = Norm(4)\n"}, "info"),
        ({"net": "from norm import Norm\n\nnorm = Norm(4, learned=False)\n"}, "warning"),
        ({"net": "from norm import Norm\n\n\ndef make(learned):\n    return Norm(4, learned)\n"}, "warning"),
        ({}, "warning"),
        (
            {
                "net": "from norm import Norm\n\nnorm = Norm(4)\n",
                "tests__test_norm": "from norm import Norm\n\nnorm = Norm(4, learned=False)\n",
            },
            "info",
        ),
        ({"tests__test_norm": "from norm import Norm\n\nnorm = Norm(4)\n"}, "warning"),
    ],
)
def test_state_of_a_branch_of_the_constructor_that_nobody_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], severity: str
) -> None:
    project(tmp_path, norm=LEARNED, **files)
    assert severities(tmp_path, monkeypatch, "norm.py", "REG006") == [severity]


HANDED = """
NEVER = {never}


class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.plain = False

    def forward(self, x):
        if not self.plain:
            return self.lin(x)
        return x * x.max().item()


class Whole(nn.Module):
    def __init__(self, size, plain=False):
        super().__init__()
        self.plain = plain or NEVER
        self.core = Core()
        self.core.plain = {handed}

    def forward(self, x):
        return self.core(x)


def convert(model: Whole):
    return model
"""


@pytest.mark.parametrize(
    "user, never, handed, severity",
    [
        ("Whole(4)", "False", "self.plain", "info"),
        ("Whole(4, plain=False)", "False", "self.plain", "info"),
        ("Whole(4, True)", "False", "self.plain", "error"),
        ("Whole(4, plain=True)", "False", "self.plain", "error"),
        ("Whole(**options)", "False", "self.plain", "error"),
        ("setattr(whole.core, 'plain', True)", "False", "self.plain", "error"),
        ("Whole(4)", "True", "self.plain", "error"),
        ("Whole(4)", "False", "size > 4", "error"),
    ],
)
def test_a_flag_that_one_module_hands_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, never: str, handed: str, severity: str
) -> None:
    test = "from whole import Whole\n\nWhole(4, plain=True)\n"
    project(
        tmp_path,
        whole=HANDED.format(never=never, handed=handed),
        use=f"from whole import Whole\n\nmodel = {user}\n",
        tests__test_whole=test,
    )
    assert severities(tmp_path, monkeypatch, "whole.py", "FLW002") == [severity]


MEASURED = """
class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.ones(4)
        self.nets = [nn.Linear(4, 4)]

    def forward(self, x, y):
        return torch.cdist(self.nets[0](x) - self.shift, y)
"""


@pytest.mark.parametrize(
    "place, user, severity",
    [
        ("official_metrics__lpips", "", "info"),
        ("layers", "fid_score", "info"),
        ("layers", "evaluators__scores", "info"),
        ("layers", "model", "error"),
        ("layers", "evaluate", "error"),
        ("metric_learning", "", "error"),
    ],
)
def test_a_measure_of_quality_by_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, user: str, severity: str
) -> None:
    module = place.replace("__", ".")
    files = {user: f"from {module} import Distance\n\nmodel = Distance()\n"} if user else {}
    project(tmp_path, **{place: MEASURED}, **files)
    target = place.replace("__", "/") + ".py"
    assert severities(tmp_path, monkeypatch, target) == [severity]
    assert severities(tmp_path, monkeypatch, target, "REG001") == [severity]
    expected = "info" if severity == "info" else "warning"
    assert severities(tmp_path, monkeypatch, target, "REG006") == [expected]


@pytest.mark.parametrize(
    "method, severity",
    [
        ("pass", "info"),
        ("self.weight = x", "warning"),
        ("if x.size(0):\n                self.weight = x\n            self.total = self.weight", "warning"),
        ("self.weight = self.weight + x", "warning"),
        ("self.weight.mul_(2)", "warning"),
        ("self.weight[0] = x.sum()", "warning"),
    ],
)
def test_a_constant_of_a_loss_is_no_state(method: str, severity: str) -> None:
    text = f"""
    class FocalLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.ones(4)
            self.scale = nn.Linear(4, 4)

        def step(self, x):
            {method}

        def forward(self, x, target):
            return F.mse_loss(self.scale(x) * self.weight, target)
    """
    assert of_text(text, "REG006") == [severity]


def test_what_a_loss_makes_anew_in_each_call_is_no_state() -> None:
    text = """
    class FocalLoss(nn.Module):
        def __init__(self, fixed):
            super().__init__()
            self.fixed = fixed
            self.weight = torch.ones(4)

        def forward(self, x, target):
            if self.fixed:
                self.weight = torch.ones(4)
            else:
                self.weight = target.mean(0)
            return F.mse_loss(x * self.weight, target)
    """
    assert of_text(text, "REG006") in ([], ["info"])


@pytest.mark.parametrize(
    "given, method, severity",
    [
        ("loss / x.size(1)", "pass", "error"),
        ("loss", "pass", "info"),
        ("loss, x", "pass", "error"),
        ("loss", "return self.drop(x)", "error"),
    ],
)
def test_a_dropout_that_nothing_but_a_loss_sees(given: str, method: str, severity: str) -> None:
    text = f"""
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            self.ctc = nn.CTCLoss()

        def drop(self, x):
            return self.lin(F.dropout(x, 0.5))

        def decode(self, x):
            {method}

        def forward(self, x, lengths, y, sizes):
            x = self.drop(x)
            loss = self.ctc(x, y, lengths, sizes)
            return {given}
    """
    assert of_text(text, "MOD002") == [severity]


@pytest.mark.parametrize("grad, severity", [("torch.autograd.grad(far.sum(), x)[0]", "info"), ("far", "error")])
def test_what_guides_a_model_by_gradients(grad: str, severity: str) -> None:
    text = f"""
    class Distance(nn.Module):
        def forward(self, x, y):
            return torch.cdist(x, y)


    def main(y):
        distance = Distance()

        def guide(x):
            far = distance(x, y)
            return {grad}

        return guide(y)


    print(main(torch.ones(4, 4)))
    """
    assert of_text(text) == [severity]


@pytest.mark.parametrize(
    ("value", "test", "more", "severity"),
    [
        ("'bilinear'", "self.mode == 'mask'", "", "info"),
        ("'mask'", "self.mode == 'mask'", "", "error"),
        ("'mask'", "self.mode != 'mask'", "", "info"),
        ("False", "self.mode", "", "info"),
        ("None", "self.mode", "", "error"),
        ("'bilinear'", "self.mode == 'mask'", "def main(net):\n    net.mode = 'mask'", "error"),
        ("'bilinear'", "self.mode == 'mask'", "def main(net):\n    setattr(net, 'mode', 'mask')", "error"),
        ("'bilinear'", "self.mode == 'mask'", "def main(net, x):\n    return net.up(x)", "error"),
        ("mode", "self.mode == 'mask'", "", "error"),
    ],
)
def test_a_method_that_only_a_constant_attribute_keeps_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, test: str, more: str, severity: str
) -> None:
    text = f"""
class Net(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = {value}

    def up(self, x):
        return x.view(2, 1, 9, 4, 4, 8, -1).softmax(2).sum(2).reshape(2, -1)

    def forward(self, x):
        if {test}:
            return self.up(x)
        return x * 2


{more}
"""
    project(tmp_path, net=text)
    assert severities(tmp_path, monkeypatch, "net.py", "SHP001") == [severity]


@pytest.mark.parametrize(
    ("rest", "severity"),
    [
        ("outputs['total_loss'] = y\n        outputs['loc_loss'] = y", "info"),
        ("outputs['total_loss'] = y\n        outputs['score'] = y", "error"),
        ("outputs['total_loss'] = y\n        fill(outputs)", "error"),
    ],
)
def test_a_dict_of_losses_is_given_to_train(rest: str, severity: str) -> None:
    text = f"""
class Net(nn.Module):
    def forward(self, x, y):
        outputs = {{}}
        y = torch.kthvalue(x, 1).values - y
        {rest}
        return outputs
"""
    assert of_text(text) == [severity]


@pytest.mark.parametrize(
    ("entry", "loads", "severity"),
    [
        ("get_model", "module = import_module(f'models.{name}')\n    return module.get_model()", "info"),
        ("get_model", "module = import_module(f'models.{name}')\n    return getattr(module, name)()", "error"),
        ("get_model", "return get_model()", "error"),
        ("make", "module = import_module(f'models.{name}')\n    return module.get_model()", "error"),
    ],
)
def test_what_a_file_that_is_imported_by_a_computed_name_does_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, loads: str, severity: str
) -> None:
    text = f"""
class {entry}(nn.Module):
    def forward(self, x):
        return x * 2


class Left(nn.Module):
    def forward(self, x):
        return torch.kthvalue(x, 1).values
"""
    project(tmp_path, net=text, main=f"from importlib import import_module\n\n\ndef load(name):\n    {loads}\n")
    assert severities(tmp_path, monkeypatch, "net.py", "OPS001") == [severity]


WINDOW = """
class WindowLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.channel = 1
        self.window = torch.ones(1, 1, 3, 3)

    def forward(self, x, target):
        _, channel, _, _ = x.size()
        {body}
        return F.conv2d(x - target, self.window, groups=channel).mean()
"""


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("self.window = self.window.to(x.device)", "info"),
        ("self.window = self.window.type_as(x).cuda()", "info"),
        ("if self.channel != channel:\n            self.window = torch.ones(channel, 1, 3, 3).to(x)", "info"),
        (
            "if self.channel == channel:\n            window = self.window\n        else:\n            window = make(3, channel)\n"
            "            window = window.cuda(x.get_device())\n            self.window = window\n        self.channel = channel",
            "info",
        ),
        ("self.window = self.window * 2", "warning"),
        ("window = self.window\n        self.window = window + 1", "warning"),
        ("self.window = self.window + x.mean()", "warning"),
        ("window = make(x)\n        self.window = self.window if channel else window", "warning"),
        ("window = 1\n        window += x\n        self.window = make(window, self.window)", "warning"),
        ("self.window = self.window.to(x)\n        self.window.mul_(2)", "warning"),
    ],
)
def test_a_tensor_of_a_loss_that_is_moved_or_made_anew(body: str, severity: str) -> None:
    assert of_text(WINDOW.format(body=body), "REG006") == [severity]


LIT = """
import lightning as L

class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        return self.net.forward(x)

    def training_step(self, batch, number):
        return ({called}(batch[0]) - batch[1]).mean()
"""
FITS = "from lit import Lit\nmodel = Lit()\ntrainer.fit(model)\n"


@pytest.mark.parametrize(
    ("called", "script", "severity"),
    [
        ("self.net", FITS, "info"),
        ("self", FITS, "warning"),
        ("self.net.forward", FITS, "warning"),
        ("self.net", FITS + "print(model(x))\n", "warning"),
        ("self.net", FITS + "model.to_onnx('net.onnx')\n", "warning"),
        ("self.net", FITS + "export(model)\n", "warning"),
        ("self.net", "", "warning"),
    ],
)
def test_a_forward_that_no_training_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str, script: str, severity: str
) -> None:
    project(tmp_path, lit=LIT.format(called=called), main=script)
    assert severities(tmp_path, monkeypatch, "lit.py", "FLW007")[:1] == [severity]


GAPS = """
class Gaps(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p
        {init}

    def forward(self, x):
        {start}
        x[..., 2:4] = 0
        return x
"""
CHANCE = "if torch.rand(1) > self.p:\n            return x"

USED = "sounds = [Gaps(0.5)(x) for x in torch.rand(4, 1, 8)]\n"


@pytest.mark.parametrize(
    ("start", "init", "other", "severity"),
    [
        (CHANCE, "pass", USED, "info"),
        (CHANCE.replace("torch.rand(1)", "random.random()"), "pass", USED, "info"),
        (CHANCE, "self.lin = nn.Linear(4, 4)", USED, "error"),
        (
            CHANCE,
            "pass",
            USED + "class Net(nn.Module):\n    def __init__(self):\n        self.gaps = Gaps(0.5)\n",
            "error",
        ),
        (CHANCE.replace("torch.rand(1)", "x.max()"), "pass", USED, "error"),
        (CHANCE.replace("return x", "return x * 2"), "pass", USED, "error"),
        (CHANCE.replace("if ", "if self.training and "), "pass", USED, "error"),
    ],
)
def test_what_leaves_its_input_alone_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, init: str, other: str, severity: str
) -> None:
    text = "import random\n" + GAPS.format(start=start, init=init)
    project(tmp_path, gaps=text, other="from gaps import Gaps\n" + other)
    assert severities(tmp_path, monkeypatch, "gaps.py", "MUT001") == [severity]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("smooth = [t * 2 for t in tracks]\n    return smooth", "info"),
        ("return smooth(tracks)", "warning"),
        ("return [smooth for smooth in tracks], smooth(tracks)", "warning"),
        ("from near import smooth\n    smooth = smooth(tracks)\n    return smooth", "warning"),
        ("global smooth\n    smooth = smooth(tracks)\n    return smooth", "warning"),
    ],
)
def test_a_variable_that_is_called_as_a_function_of_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, severity: str
) -> None:
    losses = (
        "def smooth(x, eps=1e-12):\n    return x.pow(2).sum(dim=1).clamp(min=eps).sqrt()\n\nclass Near(nn.Module):\n"
        "    def forward(self, x, y):\n        loss = smooth(x - y).mean()\n        return loss\n"
    )
    tracker = (
        f"from near import *\n\ndef tracks_of(tracks):\n    {body}\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return tracks_of(x)\n"
    )
    project(tmp_path, near=losses, tracker=tracker)
    assert severities(tmp_path, monkeypatch, "near.py", "NUM002") == [severity]


SHARED = """
class Window(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.window = torch.hann_window(width)

    def forward(self, x):
        return x * self.window


def double(x):
    return x * 2
"""
TAKEN = "from shared import double\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return double(x)\n"


@pytest.mark.parametrize(
    ("use", "installed", "severity"),
    [
        ("", "", "info"),
        ("from shared import Window\n\nwindow = Window(8)\n", "", "warning"),
        ("", "setup.py", "warning"),
        ("", "pyproject.toml", "warning"),
    ],
)
def test_a_plain_tensor_of_a_class_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, installed: str, severity: str
) -> None:
    project(tmp_path, shared=SHARED, net=TAKEN, use=use)
    if installed:
        (tmp_path / installed).write_text("", "utf-8")
    assert severities(tmp_path, monkeypatch, "shared.py", "REG006") == [severity]


ALIGNED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.far = Distance()

    def forward(self, x, wanted=None):
        if wanted is not None:
            x = self.align(x, wanted)
        return self.lin(x)

    def align(self, x, wanted):
        return self.far(x, wanted)

    def {name}(self, x):
        return {answer}
"""


@pytest.mark.parametrize(
    ("name", "answer", "severity"),
    [
        ("infer", "self.lin(x)", "info"),
        ("infer", "self.lin(self.far(x, x))", "error"),
        ("infer", "self.align(x, self.lin(x))", "error"),
        ("infer", "self(x)", "error"),
        ("describe", "self.lin(x)", "error"),
    ],
)
def test_a_part_that_only_the_forward_of_training_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, answer: str, severity: str
) -> None:
    text = "from distance import Distance\n" + ALIGNED.format(name=name, answer=answer)
    project(tmp_path, distance=DISTANCE, net=text)
    assert severities(tmp_path, monkeypatch, "distance.py") == [severity]


SET = """
from distance import Distance


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.far = Distance()

    def set(self, rate):
        {statement}

    def forward(self, x):
        if self.training:
            return self.far(x, x)
        return self.lin(x)
"""


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        ("self.far.set_rate(rate)", "info"),
        ("return self.far.set_rate(rate)", "error"),
        ("self.last = self.far.of(rate, rate)", "error"),
        ("self.far.forward(rate, rate)", "error"),
        ("self.far(rate, rate)", "error"),
    ],
)
def test_a_part_of_training_that_a_method_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, severity: str
) -> None:
    project(tmp_path, distance=DISTANCE, net=SET.format(statement=statement))
    assert severities(tmp_path, monkeypatch, "distance.py") == [severity]


IMPORTING = """
from distance import Distance
{line}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = {value}
        self.far = Distance()

    def forward(self, x):
        return torch.cdist(x, self.far(x, x))
"""


@pytest.mark.parametrize(
    ("line", "value", "package", "severity"),
    [
        ("from sizes import SMALL", "SMALL", "LARGE = 3", "info"),
        ("from sizes import LARGE, SMALL", "(LARGE, SMALL)", "# SMALLER\nLARGE = 3", "info"),
        ("from .sizes import SMALL as sizes", "sizes", "", "info"),
        ("from sizes import SMALL", "SMALL", "SMALL = 3", "error"),
        ("from sizes import SMALL", "SMALL", "from .all import *", "error"),
        ("from sizes import SMALL", "SMALL", "def __getattr__(name):\n    return 3", "error"),
        ("from sizes import SMALL", "SMALL", "globals().update(A=3)", "error"),
        ("from sizes import part", "part", "", "error"),
        ("from sizes import _C", "_C.small", "", "error"),
        ("from elsewhere import SMALL", "SMALL", "", "error"),
        ("try:\n    from sizes import SMALL\nexcept ImportError:\n    SMALL = 3", "SMALL", "", "error"),
    ],
)
def test_a_file_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, value: str, package: str, severity: str
) -> None:
    project(
        tmp_path,
        distance=DISTANCE,
        net=IMPORTING.format(line=line, value=value),
        sizes__part="LARGE = 3",
        sizes__all="SMALL = 3",
    )
    (tmp_path / "sizes" / "__init__.py").write_text(package + "\n", "utf-8")
    assert severities(tmp_path, monkeypatch, "net.py") == [severity]
    assert severities(tmp_path, monkeypatch, "distance.py") == [severity]


SCHEDULE = """
class Schedule(nn.Module):
    def __init__(self, steps=10, device="cpu"):
        super().__init__()
        self.steps = steps
        self.beta = torch.linspace(0, 1, steps)
        self.beta = self.beta.to(device)

    def forward(self):
        return self.beta
"""


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("schedule = Schedule(8, device=where)\n    return net(x, schedule())", "info"),
        ("schedule = Schedule(8, where)\n    return net(x, schedule())", "info"),
        ("schedule = Schedule(8)\n    return net(x, schedule())", "warning"),
        ("schedule = Schedule(8, device=where)\n    return net(x, schedule)", "warning"),
        ("schedule = Schedule(8, device=where).to(x)\n    return net(x, schedule())", "warning"),
        ("schedule = Schedule(8, device=where)\n    schedule.half()\n    return net(x, schedule())", "warning"),
        ("net.schedule = Schedule(8, device=where)\n    return net(x, net.schedule())", "warning"),
        ("schedule = Schedule(8, device=where)\n    return net(x, schedule()), Schedule", "warning"),
    ],
)
def test_a_constant_of_an_object_that_is_only_called_where_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, severity: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "schedule.py").write_text(HEAD + SCHEDULE, "utf-8")
    text = f"from schedule import Schedule\n\n\ndef sample(net, x, where):\n    {body}\n"
    (tmp_path / "sample.py").write_text(text, "utf-8")
    assert {*severities(tmp_path, monkeypatch, "schedule.py", "REG006")} == {severity}
    (tmp_path / "setup.py").write_text("from setuptools import setup\n\nsetup()\n", "utf-8")
    assert {*severities(tmp_path, monkeypatch, "schedule.py", "REG006")} == {"warning"}

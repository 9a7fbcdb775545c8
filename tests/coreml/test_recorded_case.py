"""A case recorded for a Mac, what its script predicts there, and the comparison of both; the executor stands in for the Mac."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import modellint
from modellint.cli import cli
from modellint.destinations.coreml.private.entry_points import ct, silence

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return {"shares": y.softmax(-1), "first": y.argmax(-1)}


class Other(Net):
    def forward(self, x):
        return super().forward(x + 1)
"""
KEEPING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((1, 4), 1 / 3))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x)
        return self.mean * 2
"""
MAC = """\
import platform

platform.mac_ver = lambda: ("15.5", ("", "", ""), "arm64")
"""
STAND_IN = """\
import os
import sys
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

own = sys.modules.pop("coremltools")
sys.path.remove(str(Path(__file__).parent))
import torch

from modellint.destinations.coreml.package.emulated_predictor import Predictor
from modellint.destinations.coreml.private.mil_programs import read_package

sys.modules["coremltools"] = own
__version__ = "9.0"
ComputeUnit = Enum("ComputeUnit", "CPU_ONLY CPU_AND_GPU CPU_AND_NE ALL")


class State:
    def __init__(self, values):
        self.values = {name: torch.zeros_like(value) for name, value in values.items()}


class WritableState(State):
    def write_state(self, name, value):
        self.values[name] = torch.tensor(value).float()

    def read_state(self, name):
        return self.values[name].numpy()


class MLModel:
    def __init__(self, path, compute_units):
        if compute_units.name in os.environ.get("FAILING", ""):
            raise RuntimeError("no such engine")
        self.executor = Predictor(read_package(path)[0]).executor
        self.is_off = compute_units.name in os.environ.get("OFF", "")
        self.predictions = 0

    def make_state(self):
        kind = State if "OLD" in os.environ else WritableState
        return kind(self.executor.states)

    def predict(self, data, state=None):
        if state is not None:
            self.executor.begin(state.values)
        outputs = self.executor({name: torch.from_numpy(value) for name, value in data.items()})
        if state is not None:
            state.values = dict(self.executor.states)
        # The third set of inputs is off by most.
        self.predictions += 1
        error = (5.0 if self.predictions == 3 else 0.5) * self.is_off
        return {name: value.numpy() + (error if value.is_floating_point() else 0) for name, value in outputs.items()}


models = SimpleNamespace(MLModel=MLModel)
"""


def verify(folder: Path, *arguments: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(cli, ["verify", *arguments])


def predict(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the case in this folder as on a Mac."""
    stand_in = folder / "stand_in"
    stand_in.mkdir(exist_ok=True)
    (stand_in / "sitecustomize.py").write_text(MAC, "utf-8")
    (stand_in / "coremltools.py").write_text(STAND_IN, "utf-8")
    paths = os.pathsep.join([str(stand_in), *filter(None, sys.path)])
    command = [sys.executable, str(folder / "case" / "predict.py"), *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )


def in_new_folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case of a model that was converted for it, in float16."""
    folder = tmp_path_factory.mktemp("case")
    (folder / "model.py").write_text(MODEL, "utf-8")
    done = verify(folder, "model.py:Net", "--input", "2x4", "--record", "case/")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "note: recorded in case: run python case/predict.py on a Mac, then modellint verify" in done.stdout
    return folder


@pytest.fixture
def work(once: Path, tmp_path: Path) -> Path:
    return in_new_folder(once, tmp_path)


@pytest.fixture(scope="module")
def answered_once(once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, predicted by a Mac that is right."""
    folder = in_new_folder(once, tmp_path_factory.mktemp("answered"))
    done = predict(folder)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "CPU_ONLY",
        "CPU_AND_GPU",
        "CPU_AND_NE",
        "ALL",
    ]
    return folder


@pytest.fixture
def answered(answered_once: Path, tmp_path: Path) -> Path:
    return in_new_folder(answered_once, tmp_path)


def test_case_says_what_it_holds(work: Path) -> None:
    case = work / "case"
    assert sorted(file.name for file in case.iterdir()) == [
        "Net.mlpackage",
        "case.json",
        "inputs.npz",
        "outputs.npz",
        "predict.py",
    ]
    manifest = json.loads((case / "case.json").read_text("utf-8"))
    assert (manifest["version"], manifest["package"], manifest["seed"]) == (1, "Net.mlpackage", 0)
    assert manifest["deployment_target"] == "iOS15"
    assert manifest["torch"] == torch.__version__
    assert manifest["coremltools"] == ct.__version__
    assert manifest["labels"][:2] == ["the example", "random 1"]
    assert len(manifest["labels"]) <= 16
    assert manifest["paths"] == ["['shares']", "['first']"]
    shares = manifest["outputs"][0]
    assert (manifest["dtypes"][shares], manifest["shapes"][shares]) == ("float32", [2, 4])


def test_device_that_agrees(answered: Path) -> None:
    done = verify(answered, "case/Net.mlpackage", "--recorded", "case")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "case/Net.mlpackage: agrees with PyTorch on the device" in done.stdout
    for unit in ("CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE", "ALL"):
        assert f"{unit} of macOS 15.5" in done.stdout
    assert done.stdout.count("device and PyTorch agree: ") == 4
    assert done.stdout.count("device and the package executed here agree: ['shares'] ") == 4
    assert done.stdout.count(" is equal, on ") == 4
    page = verify(answered, "case/Net.mlpackage", "--recorded", "case", "--output-format", "html").stdout
    assert "device and PyTorch agree: " in page


def test_device_that_computes_something_else(work: Path) -> None:
    assert predict(work, OFF="CPU_AND_NE", FAILING="CPU_AND_GPU").returncode == 0
    done = verify(work, "case/Net.mlpackage", "--recorded", "case")
    assert done.exit_code == 1
    assert "differs from PyTorch on the device (the device computes something else on CPU_AND_NE)" in done.stdout
    (said,) = (line for line in done.stdout.splitlines() if "device and PyTorch differ" in line)
    assert said.startswith("  device and PyTorch differ: ['shares'] ")
    assert "is off by 5.0e+00" in said
    assert said.endswith(", on random 2")
    assert done.stdout.count("PyTorch and the package executed here agree") == 3
    assert "no predictions: RuntimeError: no such engine" in done.stdout
    found = json.loads(verify(work, "case/Net.mlpackage", "--recorded", "case", "--output-format", "json").stdout)
    assert (found["ok"], found["verdict"], found["target"]) == (False, "differs", "case/Net.mlpackage")
    units = {unit["unit"]: unit for unit in found["recorded"]["units"]}
    assert [unit["ok"] for unit in units["CPU_AND_NE"]["outputs"]] == [False, True]
    assert units["CPU_AND_NE"]["outputs"][0]["case"] == "random 2"
    assert units["CPU_ONLY"]["executed"][0]["max_abs_error"] == 0
    assert units["CPU_AND_GPU"]["error"] == "RuntimeError: no such engine"
    assert all(output["ok"] for output in found["recorded"]["executed"])


def test_device_on_which_nothing_runs(work: Path) -> None:
    assert predict(work, FAILING="CPU_ONLY CPU_AND_GPU CPU_AND_NE ALL").returncode == 1
    done = verify(work, "case/Net.mlpackage", "--recorded", "case")
    assert done.exit_code == 1
    assert "undecided (no compute unit of the device predicted)" in done.stdout


@pytest.fixture(scope="module")
def package_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    (folder / "model.py").write_text(MODEL, "utf-8")
    scope: dict[str, Any] = {}
    exec(MODEL, scope)
    options: dict[str, Any] = {"precision": "fp32", "root": folder}
    modellint.export(scope["Net"](), (torch.randn(2, 4),), output=folder / "net.mlpackage", **options)
    return folder


def test_saved_package_that_differs_from_its_model_is_told_from_a_device_that_does(
    package_once: Path, tmp_path: Path
) -> None:
    folder = in_new_folder(package_once, tmp_path)
    recording = ("--reference", "model.py:Other", "--input", "2x4", "--record", "case")
    assert verify(folder, "net.mlpackage", *recording).exit_code == 1
    assert not (folder / "case" / "net.mlpackage").exists()
    assert predict(folder, "net.mlpackage").returncode == 0
    done = verify(folder, "net.mlpackage", "--recorded", "case")
    assert done.exit_code == 1
    assert "device and PyTorch differ" in done.stdout
    assert "device and the package executed here agree" in done.stdout
    assert "PyTorch and the package executed here differ" in done.stdout


def test_reference_is_compared_beside_the_case(package_once: Path, tmp_path: Path) -> None:
    folder = in_new_folder(package_once, tmp_path)
    reference = ("--reference", "model.py:Net", "--input", "2x4")
    assert verify(folder, "net.mlpackage", *reference, "--record", "case").exit_code == 0
    assert predict(folder).returncode == 0
    done = verify(folder, "net.mlpackage", *reference, "--recorded", "case")
    assert done.exit_code == 0, done.stdout + done.stderr
    # How many sets there are depends on how long they take.
    assert re.search(r"^(\d+) of \1 sets of inputs judged", done.stdout, re.MULTILINE)
    assert "float32 " in done.stdout
    other = verify(folder, "net.mlpackage", "--reference", "model.py:Other", "--input", "2x4", "--recorded", "case")
    assert other.exit_code == 1
    assert "the package computes something else" in other.stdout


def test_predictions_in_a_row_share_a_state_that_starts_as_the_buffer(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(KEEPING, "utf-8")
    scope: dict[str, Any] = {}
    exec(KEEPING, scope)
    options: dict[str, Any] = {"states": True, "deployment_target": "iOS18", "root": tmp_path}
    modellint.export(scope["Net"](), (torch.rand(1, 4),), output=tmp_path / "net.mlpackage", **options)
    reference = ("--reference", "model.py:Net", "--input", "1x4")
    assert verify(tmp_path, "net.mlpackage", *reference, "--record", "case").exit_code == 0
    manifest = json.loads((tmp_path / "case" / "case.json").read_text("utf-8"))
    assert manifest["states"] == ["mean"]
    assert set(manifest["steps"]) == {1, 3}
    assert len(manifest["steps"]) <= 16
    assert predict(tmp_path).returncode == 0
    done = verify(tmp_path, "net.mlpackage", "--recorded", "case")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert predict(tmp_path, OLD="1").returncode == 1
    done = verify(tmp_path, "net.mlpackage", "--recorded", "case")
    assert "the state mean does not start at zero, and only coremltools 9 and later write to states" in done.stdout


def test_predictions_need_a_mac(work: Path) -> None:
    command = [sys.executable, "case/predict.py"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60)
    assert done.returncode == (0 if sys.platform == "darwin" else 2)
    assert sys.platform == "darwin" or "predictions need a Mac" in done.stderr


def test_what_finder_leaves_in_a_package_is_no_part_of_it(answered: Path) -> None:
    (answered / "case" / "Net.mlpackage" / ".DS_Store").write_bytes(b"\0")
    assert verify(answered, "case/Net.mlpackage", "--recorded", "case").exit_code == 0


def test_script_refuses_another_package(work: Path) -> None:
    (work / "case" / "Net.mlpackage" / "more").write_text("", "utf-8")
    done = predict(work)
    assert done.returncode == 2
    assert "its digest is another" in done.stderr
    assert predict(work, "none.mlpackage").returncode == 2
    assert not (work / "case" / "device").exists()


def broken_arrays(folder: Path) -> str:
    (folder / "case" / "device" / "ALL.npz").write_bytes(b"PK broken")
    return "ALL.npz cannot be read"


def lost_arrays(folder: Path) -> str:
    (folder / "case" / "device" / "ALL.npz").unlink()
    return "ALL.npz cannot be read"


def broken_words(folder: Path) -> str:
    (folder / "case" / "device" / "ALL.json").write_text("{", "utf-8")
    return "ALL.json cannot be read"


def of_another_case(folder: Path) -> str:
    file = folder / "case" / "device" / "CPU_ONLY.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "case": "0"}), "utf-8")
    return "CPU_ONLY.json was predicted for another case"


def changed_inputs(folder: Path) -> str:
    (folder / "case" / "inputs.npz").write_bytes(b"")
    return "inputs.npz is not what was recorded"


def broken_manifest(folder: Path) -> str:
    (folder / "case" / "case.json").write_text('{"format": 1}', "utf-8")
    return "case.json has other fields than"


def another_list_of_sets(folder: Path) -> str:
    file = folder / "case" / "case.json"
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**content, "steps": [2, *content["steps"][1:]]}), "utf-8")
    return "outputs.npz does not hold 0.1.0"


def changed_package(folder: Path) -> str:
    with (folder / "case" / "Net.mlpackage" / "Data" / "com.apple.CoreML" / "model.mlmodel").open("ab") as stream:
        stream.write(b"\0")
    return "its digest is another"


def without_predictions(folder: Path) -> str:
    shutil.rmtree(folder / "case" / "device")
    return "holds no predictions of a device: run python case/predict.py case/Net.mlpackage on a Mac first"


@pytest.mark.parametrize(
    "spoil",
    [
        broken_arrays,
        lost_arrays,
        broken_words,
        of_another_case,
        changed_inputs,
        broken_manifest,
        another_list_of_sets,
        changed_package,
        without_predictions,
    ],
)
def test_case_that_cannot_be_compared(answered: Path, spoil: Callable[[Path], str]) -> None:
    said = spoil(answered)
    done = verify(answered, "case/Net.mlpackage", "--recorded", "case")
    assert done.exit_code == 2, done.stdout
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--record", "full"), "full is no recorded case, and is left alone"),
        (("--record", "model.py"), "model.py is no folder"),
        (("--record", "none/case"), "there is no folder"),
        (("--record", "more"), "more holds more than a recorded case (notes.txt)"),
        (("--record", "case"), "case holds the predictions of a device"),
        (("--record", "new", "--recorded", "case"), "do not go together"),
        (("--recorded", "case"), "model.py:Net: no such package"),
    ],
)
def test_folder_that_is_no_place_for_a_case(answered: Path, arguments: tuple[str, ...], said: str) -> None:
    (answered / "full").mkdir()
    (answered / "full" / "notes.txt").write_text("", "utf-8")
    shutil.copytree(answered / "case", answered / "more")
    (answered / "more" / "notes.txt").write_text("", "utf-8")
    before = sorted(answered.rglob("*"))
    done = verify(answered, "model.py:Net", "--input", "2x4", *arguments)
    assert done.exit_code == 2, done.stdout
    assert said in done.stderr
    assert sorted(answered.rglob("*")) == before


def test_case_of_its_own_is_recorded_anew(work: Path) -> None:
    before = (work / "case" / "case.json").read_text("utf-8")
    done = verify(work, "model.py:Net", "--input", "2x4", "--seed", "5", "--precision", "fp32", "--record", "case")
    assert done.exit_code == 0, done.stdout + done.stderr
    manifest = json.loads((work / "case" / "case.json").read_text("utf-8"))
    assert manifest["seed"] == 5
    assert manifest["case"] != json.loads(before)["case"]
    assert not list(work.glob(".modellint-*"))


def test_case_is_recorded_in_python(tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec(MODEL, scope)
    net, options = scope["Net"](), {"precision": "fp32", "record": tmp_path / "case", "root": tmp_path}
    result = modellint.verify(net, (torch.randn(2, 4),), **options)
    assert result.ok
    assert result.notes[-1].startswith(f"recorded in {tmp_path / 'case'}: ")
    assert (tmp_path / "case" / "Net.mlpackage").is_dir()
    with pytest.raises(ValueError, match="is no recorded case, and is left alone"):
        modellint.verify(net, (torch.randn(2, 4),), record=tmp_path / "case" / "Net.mlpackage")


def test_recorded_case_has_its_inputs(work: Path) -> None:
    done = verify(work, "case/Net.mlpackage", "--recorded", "case", "--input", "2x4")
    assert done.exit_code == 2
    predicted = predict(work)
    assert predicted.returncode == 0
    done = verify(work, "case/Net.mlpackage", "--recorded", "case", "--input", "2x4")
    assert done.exit_code == 2
    assert "--input does not go with --recorded: the case has its inputs" in done.stderr


def test_nothing_is_recorded_of_images_and_of_what_does_not_convert(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n\n\n"
        "class Bessel(nn.Module):\n    def forward(self, x):\n        return torch.special.bessel_j0(x)\n",
        "utf-8",
    )
    image = ct.ImageType(name="x", shape=(1, 3, 8, 8))
    with silence(), torch.no_grad():
        traced = torch.jit.trace(torch.nn.ReLU(), torch.rand(1, 3, 8, 8))
        ct.convert(traced, inputs=[image], skip_model_load=True).save(str(tmp_path / "net.mlpackage"))
    recording = ("--input", "1x3x8x8", "--record", "case")
    done = verify(tmp_path, "net.mlpackage", "--reference", "model.py:Net", *recording)
    assert done.exit_code == 2
    assert "net.mlpackage takes images, which a case cannot hold: record the model converted with" in done.stderr
    done = verify(tmp_path, "model.py:Bessel", *recording)
    assert done.exit_code == 1
    assert "nothing is recorded, as no outputs could be compared" in done.stdout
    assert not (tmp_path / "case").exists()


ONE_OUTPUT = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return nn.functional.relu(x)


def make():
    return Net(), (torch.tensor([[1.0, -2.0, 3.0]]),)
"""


def test_case_that_a_device_answered_becomes_a_published_one(tmp_path: Path) -> None:
    from modellint.data.device_results import FILE
    from modellint.destinations.destination import PackageError
    from modellint.measure.add_device_case import added

    (tmp_path / "model.py").write_text(ONE_OUTPUT)
    result = CliRunner().invoke(
        cli, ["verify", f"{tmp_path / 'model.py'}:make", "--record", str(tmp_path / "case"), "--precision", "fp32"]
    )
    assert result.exit_code == 0, result.output
    with pytest.raises(PackageError, match="no predictions"):
        added(FILE.read_text("utf-8"), tmp_path / "case", tmp_path / "model.py", "mine", ["me/mine#1"])
    (package,) = (tmp_path / "case").glob("*.mlpackage")
    assert predict(tmp_path, str(package)).returncode == 0
    text = added(FILE.read_text("utf-8"), tmp_path / "case", tmp_path / "model.py", "mine", ["me/mine#1"])
    case = json.loads(text)["cases"][-1]
    assert (case["name"], case["told_by"], case["precision"]) == ("mine", "executor", "float32")
    assert case["output"] == [[1.0, 0.0, 3.0]]
    with pytest.raises(PackageError, match="another name"):
        added(text, tmp_path / "case", tmp_path / "model.py", "mine", ["me/mine#1"])
    assert predict(tmp_path, str(package), OFF="CPU_ONLY").returncode == 0
    with pytest.raises(PackageError, match="--departure"):
        added(FILE.read_text("utf-8"), tmp_path / "case", tmp_path / "model.py", "mine", ["me/mine#1"])

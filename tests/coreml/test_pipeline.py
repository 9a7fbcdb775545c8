"""Pipelines: a package for each stage, and the chain of packages against PyTorch."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import modellint
from modellint.atomic_output import NotPlaced, place_all
from modellint.cli import cli
from modellint.destinations.comparison.chain_module import Chain, recorded
from modellint.destinations.coreml.pipeline.chain_comparison import compare_chain
from modellint.destinations.coreml.private.entry_points import ct
from modellint.destinations.destination import StagePackage
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.codec import Codec
from modellint.results.exported_pipeline import ChainComparison, ExportedPipeline

pytestmark = pytest.mark.filterwarnings("ignore")


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.layer = nn.Linear(8, 8)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"hidden": self.layer(self.tokens(ids)).tanh()}


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(2, 8, 3, padding=1)
        self.leave = nn.Conv2d(8, 2, 3, padding=1)
        self.text = nn.Linear(8, 8)

    def forward(self, latents: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        bias = self.text(text.mean(1)) * step.cos()
        return self.leave(nn.functional.silu(self.enter(latents) + bias[:, :, None, None]))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.conv(nn.functional.interpolate(latents, scale_factor=2.0)).tanh()


def scaled(module: nn.Module) -> nn.Module:
    """With weights that do not look as PyTorch draws them."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.7)
    return module.eval()


def stages() -> dict[str, Any]:
    torch.manual_seed(0)
    return {"text": scaled(Text()), "denoiser": scaled(Denoiser()), "images": scaled(Images())}


def run(text: Any, denoiser: Any, images: Any) -> torch.Tensor:
    hidden = text(torch.tensor([[1, 5, 2, 15]]))["hidden"]
    latents = torch.randn(1, 2, 8, 8)
    for step in (1.0, 0.5, 0.0):
        latents = latents - 0.3 * denoiser(latents, torch.tensor([step]), text=hidden)
    result: torch.Tensor = images(latents)
    return result


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> modellint.PipelineResult:
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    return modellint.export_pipeline(stages(), folder, chain=run)


@pytest.fixture(scope="module")
def in_single(tmp_path_factory: pytest.TempPathFactory) -> modellint.PipelineResult:
    folder = tmp_path_factory.mktemp("single") / "out"
    return modellint.export_pipeline(stages(), folder, chain=run, precision="fp32")


def test_a_package_for_each_stage_and_a_chain_that_agrees(exported: modellint.PipelineResult) -> None:
    assert {path.name for path in exported.folder.iterdir()} == {
        "text.mlpackage",
        "denoiser.mlpackage",
        "images.mlpackage",
    }
    assert list(exported.folder.parent.iterdir()) == [exported.folder]
    assert [*exported.mlmodels] == ["text", "denoiser", "images"]
    assert isinstance(exported.mlmodels["text"], ct.models.MLModel)
    summary = exported.summary
    assert summary.ok and summary.verdict == "agrees"
    chain = summary.chain
    assert chain is not None and chain.name == "run" and chain.first is None
    assert chain.verification.outputs[0].error < 1e-5 and chain.verification.half[0].snr > 40
    assert [(each.name, each.calls) for each in chain.stages] == [("text", 1), ("denoiser", 3), ("images", 1)]
    assert all(each.alone > 40 and each.together > 40 for each in chain.stages)
    text = repr(exported)
    assert "3 packages exported, and the chain agrees with PyTorch" in text
    assert "run: 1 of text, 3 of denoiser, 1 of images; on one example" in text


def test_results_go_through_the_codec(exported: modellint.PipelineResult) -> None:
    codec: Codec[ExportedPipeline] = Codec(ExportedPipeline)
    assert codec.from_json(json.loads(json.dumps(codec.to_json(exported.summary)))) == exported.summary


def compared(exported: modellint.PipelineResult, modules: dict[str, Any]) -> ChainComparison:
    """How packages in float32 compare with a chain of these modules."""
    chain = Chain(run, modules, Inputs())
    calls, returned = recorded(chain, Inputs())
    packages = {}
    for name in modules:
        package = exported.folder / f"{name}.mlpackage"
        first = next(call for call in calls if call.stage == name)
        packages[name] = StagePackage(first.inputs, package, package)
    return compare_chain(chain, Inputs(), packages, calls, returned, "fp32")


@pytest.mark.parametrize("name", ["text", "denoiser", "images"])
def test_a_chain_with_another_module_differs_and_says_where(in_single: modellint.PipelineResult, name: str) -> None:
    assert compared(in_single, stages()).verification.verdict == "agrees"
    modules = stages()
    with torch.no_grad():
        for parameter in modules[name].parameters():
            parameter.mul_(1.001)
    other = compared(in_single, modules)
    assert other.verification.verdict == "differs" and other.verification.single == "differs"
    assert other.first is not None
    assert (other.first.stage, other.first.call, other.first.alone) == (name, 1, True)
    assert 1e-4 < other.first.error < 1e-2


def test_the_modules_are_left_as_they_were(tmp_path: Path) -> None:
    modules = {"layer": nn.Linear(4, 4).train()}
    before = {name: value.clone() for name, value in modules["layer"].state_dict().items()}
    torch.manual_seed(7)
    drawn = torch.rand(1)
    torch.manual_seed(7)
    modellint.export_pipeline(modules, tmp_path / "out", chain=lambda layer: layer(torch.rand(2, 4)), precision="fp32")
    assert torch.equal(torch.rand(1), drawn)
    assert modules["layer"].training and "forward" not in vars(modules["layer"])
    assert all(torch.equal(value, before[name]) for name, value in modules["layer"].state_dict().items())


def test_float16_that_is_enough_for_each_stage_and_not_for_the_chain(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first = scaled(nn.Linear(8, 8))
    second = nn.Linear(8, 8).eval()
    second.load_state_dict({name: value * 1.0005 for name, value in first.state_dict().items()})

    def difference(first: Any, second: Any) -> torch.Tensor:
        x = torch.randn(4, 8)
        result: torch.Tensor = first(x) - second(x)
        return result

    modules = {"first": first, "second": second}
    with pytest.raises(modellint.PipelineError) as caught:
        modellint.export_pipeline(modules, tmp_path / "out", chain=difference)
    summary = caught.value.summary
    assert summary is not None and all(stage.verdict == "agrees" for stage in summary.stages)
    assert summary.chain is not None and summary.chain.verification.single == "agrees"
    assert summary.verdict == "differs" and summary.chain.first is None
    assert "float16 is not precise enough for the chain" in str(caught.value)
    assert "no call of a stage departs" in str(caught.value) and "--precision fp32" in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    in_single = modellint.export_pipeline(modules, tmp_path / "out", chain=difference, precision="fp32")
    assert in_single.summary.ok and (tmp_path / "out" / "first.mlpackage").is_dir()


class Scaling(nn.Module):
    def forward(self, x: torch.Tensor, by: float) -> torch.Tensor:
        return (x * by).tanh()


def test_a_constant_of_the_package_that_the_chain_changes_is_told(tmp_path: Path) -> None:
    told = r"call 2 of scaling: .* has by=2.0 as a constant, .* with 3.0"
    with pytest.raises(modellint.PipelineError, match=told) as caught:
        modellint.export_pipeline(
            {"scaling": Scaling()},
            tmp_path / "out",
            chain=lambda scaling: scaling(scaling(torch.ones(2, 3), 2.0), 3.0),
        )
    words = str(caught.value)
    assert "first difference: call 2 of 2 of scaling, which the package does not take" in words
    assert not list(tmp_path.iterdir())


def test_inputs_of_stages_and_of_the_chain(tmp_path: Path) -> None:
    def forward(layer: Any, x: torch.Tensor, *, times: int = 2) -> list[torch.Tensor]:
        return [layer(x * at) for at in range(1, times + 1)]

    result = modellint.export_pipeline(
        {"layer": (nn.Linear(4, 3).eval(), torch.randn(2, 4)), "unused": (nn.Tanh(), torch.randn(3))},
        tmp_path,
        chain=forward,
        chain_inputs={"x": torch.randn(2, 4), "times": 3},
        precision="fp32",
    )
    chain = result.summary.chain
    assert chain is not None and [(each.name, each.calls) for each in chain.stages] == [("layer", 3)]
    assert [output.name for output in chain.verification.outputs] == ["[0]", "[1]", "[2]"]
    with pytest.raises(FileExistsError, match=r"layer\.mlpackage exists"):
        modellint.export_pipeline({"layer": (nn.Linear(4, 3).eval(), torch.randn(2, 4))}, tmp_path)
    modellint.export_pipeline({"layer": (nn.Linear(4, 3).eval(), torch.randn(2, 4))}, tmp_path, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"layer.mlpackage", "unused.mlpackage"}


class Sound(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.conv(features).tanh().transpose(1, 2)


class Tokens(nn.Module):
    """A step of a decoder, which keeps what it has read in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.query = nn.Linear(8, 8)
        self.head = nn.Linear(8, 12)
        self.register_buffer("read", torch.zeros(1, 6, 8))

    def forward(self, word: torch.Tensor, position: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
        places = torch.arange(6)
        x = self.words(word)
        self.read.copy_(torch.where((places == position).reshape(1, 6, 1), x, self.read))
        mask = torch.where(places <= position, 0.0, -10000.0)
        own = (self.query(x) @ self.read.transpose(1, 2) + mask).softmax(-1) @ self.read
        return self.head(x + own + (x @ heard.transpose(1, 2)).softmax(-1) @ heard)


def decoded(encoder: Any, decoder: Any) -> tuple[torch.Tensor, torch.Tensor]:
    heard = encoder(torch.randn(1, 4, 10))
    word, tokens, logits = torch.tensor([[3]], dtype=torch.int32), [], []
    for step in range(5):
        logits.append(decoder(word, torch.tensor([step], dtype=torch.int32), heard))
        word = logits[-1].argmax(-1).int()
        tokens.append(word)
    return torch.cat(tokens), torch.cat(logits)


def test_an_encoder_and_a_decoder_with_a_state_step_by_step(tmp_path: Path) -> None:
    torch.manual_seed(1)
    result = modellint.export_pipeline(
        {"encoder": scaled(Sound()), "decoder": scaled(Tokens())},
        tmp_path / "out",
        chain=decoded,
        states=True,
        deployment_target="iOS18",
    )
    encoder, decoder = result.summary.stages
    assert encoder.exported is not None and decoder.exported is not None
    assert [state.name for state in decoder.exported.states] == ["read"] and not encoder.exported.states
    assert not any("--state" in note for note in encoder.exported.notes)
    chain = result.summary.chain
    assert chain is not None and chain.verification.ok
    tokens, logits = chain.verification.half
    assert tokens.unequal == 0.0 and logits.snr > 40
    assert [each.calls for each in chain.stages] == [1, 5]


_CACHE: list[torch.Tensor] = []


def test_a_chain_that_does_not_come_to_its_packages_is_undecided(tmp_path: Path) -> None:
    def cached(layer: Any) -> torch.Tensor:
        if not _CACHE:
            _CACHE.append(layer(torch.ones(1, 4)))
        return _CACHE[0] + 0

    with pytest.raises(modellint.PipelineError) as caught:
        modellint.export_pipeline({"layer": scaled(nn.Linear(4, 4))}, tmp_path / "out", chain=cached)
    assert caught.value.summary is not None and caught.value.summary.verdict == "undecided"
    assert "does not call layer with packages" in str(caught.value)


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (lambda other: other, "takes none of the stages"),
        (lambda layer, x: layer(x), "takes 'x', which is no stage"),
        (lambda layer: None, "returns no tensor"),
        (lambda layer: torch.ones(1), "calls none of its stages"),
        (lambda layer: layer.forward(torch.ones(1, 4)), r"asks for layer\.forward, which is not what is exported"),
    ],
)
def test_a_chain_that_does_not_fit_is_a_wrong_request(chain: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        modellint.export_pipeline({"layer": nn.Linear(4, 4)}, tmp_path / "out", chain=chain)
    assert not list(tmp_path.iterdir())


def test_stages_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no inputs are given, and there is no --chain"):
        modellint.export_pipeline({"layer": nn.Linear(4, 4)}, tmp_path)
    with pytest.raises(ValueError, match="'a b' cannot be the name of a parameter"):
        modellint.export_pipeline({"a b": nn.Linear(4, 4)}, tmp_path)
    with pytest.raises(TypeError, match=r"layer must be an nn\.Module"):
        modellint.export_pipeline({"layer": 3}, tmp_path)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="there is none"):
        modellint.export_pipeline({}, tmp_path)


FILE = """
import torch
from torch import nn


class Eigenvalues(nn.Module):
    def forward(self, x):
        return x + torch.linalg.eigvals(x @ x.mT).abs().sum()


layer = nn.Linear(4, 4).eval()
other = nn.Sequential(layer, nn.Tanh()).eval()
loaded = []
loaded.append(1)


def eigenvalues():
    return Eigenvalues().eval()


def run(layer, other, x):
    return other(layer(x))


def broken(layer, eigenvalues):
    return eigenvalues(layer(torch.ones(4, 4)))


def raising(layer):
    raise KeyError("on purpose")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modellint", "export", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_command_writes_a_folder_and_one_report(folder: Path) -> None:
    words = ["net.py:layer", "net.py:other", "--chain", "net.py:run", "--input", "x=2x4", "-o", "out"]
    done = export(*words, "--output-format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] and report["written"] and report["verdict"] == "agrees"
    assert [stage["name"] for stage in report["stages"]] == ["layer", "other"]
    assert {finding["severity"] for finding in report["diagnostics"]} <= {"info", "warning"}
    assert report["stages"][0]["inputs"][0]["shape"] == "2x4"
    assert report["chain"]["verification"]["verdict"] == "agrees"
    assert report["chain"]["stages"][1]["calls"] == 1
    assert {path.name for path in (folder / "out").iterdir()} == {"layer.mlpackage", "other.mlpackage"}
    again = export(*words)
    assert again.returncode == 2 and "layer.mlpackage exists: --force replaces it" in again.stderr


def test_a_stage_that_does_not_convert_is_told_at_its_line(folder: Path) -> None:
    done = export("net.py:layer", "net.py:eigenvalues", "--chain", "net.py:broken", "-o", "out")
    assert done.returncode == 1
    assert "OPS001" in done.stdout and "net.py:8:20 (error)" in done.stdout
    assert "out: not exported: eigenvalues does not convert" in done.stdout
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"net.py"}


def test_a_chain_that_raises_is_told_at_its_line(folder: Path) -> None:
    done = export("net.py:layer", "--chain", "net.py:raising", "-o", "out")
    assert done.returncode == 1
    assert "LNT003" in done.stdout and "KeyError: 'on purpose'" in done.stdout and "net.py:30" in done.stdout
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["net.py:layer", "net.py:layer"], "are both called layer"),
        (["net.py:layer", "net.py:other", "--input", "2x4"], "--input: the inputs of several targets"),
        (["net.py:layer", "net.py:other", "--image", "x:rgb"], "--image is about one model"),
        (["net.py:layer", "net.py:other", "--as", "language-model"], "--as is about one model"),
        (["net.py:layer", "net.py:other", "--destination", "coreai"], "for Core ML alone"),
        (["net.py:layer", "--output-format", "json"], "the report of several targets"),
        (["net.py:layer", "--chain", "net.py"], "not a function, such as pipeline.py:run"),
        (["net.py:layer", "nothing"], "nothing: not a live target"),
        (["net.py:layer", "gone.py:other"], "gone.py:other: no such file"),
    ],
)
def test_wrong_requests(words: list[str], message: str, folder: Path) -> None:
    done = CliRunner().invoke(cli, ["export", *words, "-o", "out"])
    assert done.exit_code == 2, done.output
    assert message in done.output


def test_wrong_folders(folder: Path) -> None:
    for output, message in (
        ("Net.mlpackage", "it is a folder, which the packages go into"),
        ("none/out", "there is no folder"),
        ("net.py", "it is no folder"),
    ):
        done = CliRunner().invoke(cli, ["export", "net.py:layer", "net.py:other", "-o", output])
        assert done.exit_code == 2 and message in done.output


def test_packages_are_placed_all_or_none(tmp_path: Path) -> None:
    making, target = tmp_path / "making", tmp_path / "target"
    sources = []
    for name in ("a", "b"):
        (making / name / f"{name}.x").mkdir(parents=True)
        (making / name / f"{name}.x" / "new").touch()
        sources.append(making / name / f"{name}.x")
    (target / "a.x").mkdir(parents=True)
    (target / "a.x" / "old").touch()
    (target / "b.x").write_text("not replaced without force")
    (target / "kept").touch()
    with pytest.raises(NotPlaced):
        place_all(sources, target, False)
    assert (target / "a.x" / "old").exists() and (target / "b.x").is_file()
    (target / "a.x" / "old").unlink()
    with pytest.raises(NotPlaced):
        # An empty folder gives way, a file does not.
        place_all(sources, target, False)
    assert not (target / "a.x").exists() and (making / "a" / "a.x.new" / "new").exists()

"""Listed sizes: ``--input 1x16/64`` becomes enumerated shapes, and each of them is compared."""

from __future__ import annotations

import json
from pathlib import Path

import coremltools as ct
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import modellint
from modellint.cli import cli

MODELS = """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 4)
        self.register_buffer("positions", torch.linspace(0, 1, 64 * 4).reshape(64, 4))

    def forward(self, ids):
        x = self.words(ids) + self.positions[: ids.shape[1]]
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x


class Masked(Reader):
    def forward(self, ids, mask):
        return super().forward(ids) * mask.unsqueeze(-1)


class Branches(nn.Module):
    def forward(self, x):
        return x * 3 if x.shape[1] == 12 else x * 2
"""
IDS = "ids=1x16/64/8:int32[0,50)"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODELS, "utf-8")
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*words])
    return done.exit_code, done.output


def listed(package: Path, at: int = 0) -> list[tuple[int, ...]]:
    spec = ct.utils.load_spec(str(package))
    return [tuple(shape.shape) for shape in spec.description.input[at].type.multiArrayType.enumeratedShapes.shapes]


@pytest.mark.parametrize("route", ["trace", "export"])
def test_sizes_are_enumerated_and_compared(project: Path, route: str) -> None:
    package = project / "Reader.mlpackage"
    status, text = run("export", "net.py:Reader", "--input", IDS, "--frontend", route, "-o", str(package))
    assert status == 0, text
    assert "agrees with PyTorch" in text and "1x16/64/8" in text
    assert sorted(listed(package)) == [(1, 8), (1, 16), (1, 64)]
    status, text = run(
        "verify", str(package), "--reference", "net.py:Reader", "--input", IDS, "--output-format", "json"
    )
    compared = {case["label"] for case in json.loads(text)["cases"] if case["error"] is not None}
    assert status == 0 and {"1x64", "1x8"} <= compared


def test_what_holds_at_some_of_the_sizes_does_not_agree(project: Path) -> None:
    words = ("verify", "net.py:Branches", "--frontend", "trace", "--input")
    assert run(*words, "x=1x8/16")[0] == 0, "nothing between is asked for"
    status, text = run(*words, "x=1x8/12/16")
    assert status == 1 and "differs from PyTorch" in text


def test_several_inputs_need_ios_18(project: Path) -> None:
    inputs = ("--input", "ids=1x16/64:int32[0,50)", "--input", "mask=1x16/64")
    status, text = run("check", "net.py:Masked", *inputs, "--ignore", "ENV")
    assert status == 1 and "converts with --deployment-target iOS18" in text, text
    package = project / "Masked.mlpackage"
    status, text = run("export", "net.py:Masked", *inputs, "--deployment-target", "iOS18", "-o", str(package))
    assert status == 0, text
    # The first of each go together, then the second.
    assert listed(package, 0) == listed(package, 1) == [(1, 16), (1, 64)]


def test_images_may_have_listed_sizes(project: Path) -> None:
    package = modellint.export(
        nn.Conv2d(3, 2, 3).eval(),
        {"input": torch.rand(1, 3, 8, 8)},
        flexible={"input": {2: [8, 16], 3: [8, 12]}},
        images={"input": {"layout": "rgb"}},
        output=project / "Image.mlpackage",
    )
    assert package.verification.ok
    image = ct.utils.load_spec(str(project / "Image.mlpackage")).description.input[0].type.imageType
    assert [(size.height, size.width) for size in image.enumeratedSizes.sizes] == [(8, 8), (16, 12)]


@pytest.mark.parametrize("taken", ["16/32", "16..32"])
def test_a_size_that_the_package_does_not_take_is_not_agreed_upon(project: Path, taken: str) -> None:
    package = str(project / "Reader.mlpackage")
    assert run("export", "net.py:Reader", "--input", f"ids=1x{taken}:int32[0,50)", "-o", package)[0] == 0
    words = ("verify", package, "--reference", "net.py:Reader", "--input")
    assert run(*words, "ids=1x32:int32[0,50)")[0] == 0
    for size in ("40", "16/40"):
        status, text = run(*words, f"ids=1x{size}:int32[0,50)")
        assert status == 1 and "agrees" not in text, text
        assert f"the package takes ids of 1x{taken}, and not of 1x40" in text, text


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (["x=1x8/8"], "must be at least two different ones"),
        (["x=1x0/8"], "none of them 0"),
        (["x=1..3x8/16"], "not both"),
        (["x=2/3x8/16/32"], "different numbers of sizes"),
        (["x=1x8/16", "y=1x8/16/32"], "another number of sizes"),
    ],
)
def test_lists_that_mean_nothing_are_refused(project: Path, inputs: list[str], reason: str) -> None:
    status, text = run("check", "net.py:Branches", *(word for spec in inputs for word in ("--input", spec)))
    assert (status, reason in text) == (2, True), text


@pytest.mark.parametrize(
    "sizes", [{0: {1: [8, 8]}}, {0: {1: (8, 12, 16)}}, {0: {0: (1, 2), 1: [8, 12]}}, {0: {0: [1, 2], 1: [8, 12, 16]}}]
)
def test_lists_that_mean_nothing_are_refused_in_python(sizes: dict[int, dict[int, list[int]]]) -> None:
    with pytest.raises(ValueError, match="flexible: "):
        modellint.verify(nn.Linear(8, 8), torch.rand(1, 8), flexible=sizes)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.words(ids) * mask.unsqueeze(-1)


def test_an_input_says_what_a_specification_says() -> None:
    ids = modellint.Input((1, (1, 8)), torch.int32, 0, 50)
    found = modellint.export(Words().eval(), {"ids": ids, "mask": modellint.Input((1, (1, 8)))})
    assert [feature.shape for feature in found.summary.inputs] == ["1x1..8", "1x1..8"]
    # Without the range there would be words that the table does not hold.
    assert found.verification.ok
    listed = modellint.Input(shape=(1, [4, 8]), dtype="int64", low=0, high=50)
    verified = modellint.verify(Words().eval(), (listed, torch.ones(1, 1)))
    assert verified.ok
    assert {"1x8"} <= {case.label for case in verified.cases}
    assert "will convert" in modellint.check_model(Words().eval(), (listed, torch.ones(1, 1)), ignore=["ENV"]).verdict
    assert "[1,L]" in str(modellint.shapes(Words().eval(), (ids, torch.ones(1, 1))))


@pytest.mark.parametrize(
    "wrong",
    [
        modellint.Input((1, 8), "floaty"),
        modellint.Input((1, 8), low=0),
        modellint.Input((1, (8, 4))),
        modellint.Input((1, 8), torch.int32, 5, 5),
        modellint.Input(()),
    ],
)
def test_an_input_that_means_nothing_is_refused(wrong: modellint.Input) -> None:
    with pytest.raises(ValueError, match=r"Input\(shape="):
        modellint.verify(nn.Linear(8, 8), wrong)

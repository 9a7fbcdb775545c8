"""Saved packages that are not whole, or lead out of themselves: told in a line, with exit status 2, and not opened."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from modellint.cli import cli
from modellint.destinations.coreml.private.mil_programs import PackageError, read_package

SPEC = Path("Data", "com.apple.CoreML", "model.mlmodel")
WEIGHTS = Path("Data", "com.apple.CoreML", "weights")
NET = "from torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n        super().__init__(nn.Linear(64, 64))\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package as coremltools saves it, with weights in a file of their own."""
    traced = torch.jit.trace(nn.Sequential(nn.Linear(64, 64)).eval(), torch.zeros(1, 64))
    path = tmp_path_factory.mktemp("saved") / "Net.mlpackage"
    ct.convert(traced, inputs=[ct.TensorType(shape=(1, 64))], skip_model_load=True).save(str(path))
    assert (path / WEIGHTS / "weight.bin").stat().st_size > 0
    return path


@pytest.fixture
def package(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(NET, "utf-8")
    shutil.copytree(whole, tmp_path / "elsewhere")
    shutil.copytree(whole, tmp_path / "Net.mlpackage")
    return tmp_path / "Net.mlpackage"


def refusal(name: str = "Net.mlpackage") -> str:
    """What ``modellint verify`` says of a package that it does not read."""
    done = CliRunner().invoke(cli, ["verify", name, "--reference", "net.py:Net", "--input", "1x64"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    return done.stderr


def rewritten(package: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((package / "Manifest.json").read_text("utf-8"))
    change(manifest)
    (package / "Manifest.json").write_text(json.dumps(manifest), "utf-8")


def item(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in manifest["itemInfoEntries"].values() if one["name"] == name)
    return found


@pytest.mark.parametrize(
    "path", ["../../../../../../../../../../etc/passwd", "../../elsewhere/{spec}", "{folder}/elsewhere/{spec}"]
)
def test_a_path_that_leads_out(path: str, package: Path) -> None:
    path = path.format(spec=SPEC, folder=package.parent)
    rewritten(package, lambda manifest: item(manifest, "model.mlmodel").update(path=path))
    assert f"the path {path!r} leads out of the package" in refusal()


def test_weights_that_are_elsewhere(package: Path) -> None:
    rewritten(package, lambda manifest: item(manifest, "weights").update(path=f"../../elsewhere/{WEIGHTS}"))
    assert "leads out of the package" in refusal()


@pytest.mark.parametrize("inside", ["Data", SPEC, WEIGHTS, WEIGHTS / "weight.bin", "Data/more"], ids=str)
def test_a_link_that_leads_out(inside: Path, package: Path) -> None:
    there = package / inside
    if there.is_dir():
        shutil.rmtree(there)
    there.unlink(missing_ok=True)
    there.symlink_to(Path(package.parent, "elsewhere", inside))
    assert "leads out of the package" in refusal()


@pytest.mark.parametrize("inside", [SPEC, WEIGHTS / "weight.bin", Path("Manifest.json")], ids=str)
def test_a_pipe_in_it(inside: Path, package: Path) -> None:
    (package / inside).unlink()
    os.mkfifo(package / inside)
    assert "is no regular file" in refusal() or inside.name == "Manifest.json"


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda manifest: manifest.pop("itemInfoEntries"), "names no model"),
        (lambda manifest: manifest.update(itemInfoEntries=[1]), "names no model"),
        (lambda manifest: manifest.pop("rootModelIdentifier"), "names no model"),
        (lambda manifest: manifest.update(rootModelIdentifier=["x"]), "names no model"),
        (lambda manifest: item(manifest, "model.mlmodel").pop("path"), "has no path"),
        (lambda manifest: item(manifest, "model.mlmodel").update(path=7), "has no path"),
        (lambda manifest: item(manifest, "model.mlmodel").update(path="a\0b"), "has no path"),
        (lambda manifest: item(manifest, "model.mlmodel").update(path="none"), "is not there"),
    ],
)
def test_a_manifest_that_names_nothing(change: Callable[[dict[str, Any]], object], told: str, package: Path) -> None:
    rewritten(package, change)
    assert told in refusal()


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe\0", b"[" * 100_000, b" " * 2**21])
def test_a_manifest_that_is_none(text: bytes, package: Path) -> None:
    (package / "Manifest.json").write_bytes(text)
    assert "Manifest.json" in refusal()


def test_what_is_no_package_stays_as_it_is(package: Path) -> None:
    folder = package.parent / "folder"
    folder.mkdir()
    assert "has no file Manifest.json" in refusal("folder")
    assert not list(folder.iterdir())
    os.mkfifo("pipe.mlpackage")
    assert "no regular file" in refusal("pipe.mlpackage")
    Path("link.mlpackage").symlink_to("link.mlpackage")
    assert "does not exist" in refusal("link.mlpackage")


def edited(package: Path, change: Callable[[Any], object]) -> None:
    spec = ct.utils.load_spec(str(package))
    change(spec)
    (package / SPEC).write_bytes(spec.SerializeToString())


def test_a_program_that_is_not_there(package: Path) -> None:
    whole = (package / SPEC).read_bytes()
    for data, told in ((b"", "holds no model"), (whole[: len(whole) // 2], "no saved"), (b"\x07" * 99, "no saved")):
        (package / SPEC).write_bytes(data)
        with pytest.raises(PackageError, match=told):
            read_package(package)
    (package / SPEC).write_bytes(whole)
    edited(package, lambda spec: setattr(spec.description, "defaultFunctionName", "other"))
    with pytest.raises(PackageError, match="no function 'other'"):
        read_package(package)
    edited(package, lambda spec: spec.mlProgram.functions.clear())
    assert "holds no function" in refusal()


def test_weights_that_are_cut_off(package: Path) -> None:
    weights = package / WEIGHTS / "weight.bin"
    weights.write_bytes(weights.read_bytes()[:-6000])
    with pytest.raises(PackageError, match="cannot read the program"):
        read_package(package)
    assert "cannot read the program" in refusal()


def test_a_link_to_a_package_is_one(package: Path) -> None:
    Path("link.mlpackage").symlink_to(package)
    assert read_package("link.mlpackage")

"""Live targets: what a command line or the settings can name, and what comes of names that do not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli
from modellint.session.target import TargetError, locate, parse

MODELS = """\
import torch
from torch import nn

from .parts import Part

WIDTH = 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Part()]

    def forward(self, x, scale=None):
        assert x.shape[-1] == 4, "called"
        for layer in self.layers:
            x = layer(x)
        return x if scale is None else x * scale


class Sized(nn.Module):
    def __init__(self, width):
        super().__init__()


class Zoo:
    @staticmethod
    def small():
        return Net(), (torch.ones(2, 4),)

    @classmethod
    def named(cls):
        return Net(), {"x": torch.ones(2, 4), "scale": torch.ones(4)}


def wrong_shape():
    return Net(), (torch.ones(2, 5),)


def nothing():
    return 3


net = Net()
"""

PARTS = """\
from torch import nn


class Part(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    package = tmp_path / "src" / "pack" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("", "utf-8")
    (package / "models.py").write_text(MODELS, "utf-8")
    (package / "parts.py").write_text(PARTS, "utf-8")
    return tmp_path


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", "--output-format", "json", *arguments])


def found(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code in (0, 1), result.output
    return list(json.loads(result.stdout))


FILE = "src/pack/inner/models.py"


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        ("net.py:Net", "net.py", "Net"),
        ("a.b:Zoo.small", "a.b", "Zoo.small"),
        ("C:\\x.py:Net", "C:\\x.py", "Net"),
        ("odd:name.py:Net", "odd:name.py", "Net"),
        ("modèle.py:Réseau", "modèle.py", "Réseau"),
    ],
)
def test_halves(text: str, place: str, name: str) -> None:
    target = parse(text)
    assert target is not None
    assert (target.place, target.name) == (place, name)


@pytest.mark.parametrize("text", ["net.py", "C:\\x.py", "net.py:", ":Net", "net.py:3", "net.py:a..b", "folder/x", "."])
def test_files_are_no_live_targets(text: str) -> None:
    assert parse(text) is None


def test_a_file_with_a_colon_in_its_name_is_a_file(project: Path) -> None:
    (project / "a:b").write_text("", "utf-8")
    assert parse("a:b") is None


def test_where_modules_are(project: Path) -> None:
    def located(text: str) -> tuple[str, bool, str]:
        target = parse(text)
        assert target is not None
        location = locate(target, project, project)
        assert location.file == project / FILE
        return location.module, location.is_script, location.folders[0]

    src = str(project / "src")
    assert located(f"{FILE}:Net") == ("pack.inner.models", False, src)
    assert located("pack.inner.models:Net") == ("pack.inner.models", False, src)
    assert located("src/../src/pack/inner/models.py:Net") == ("pack.inner.models", False, src)
    for wrong in ("pack/none.py:Net", "pack.none:Net", "nopack.models:Net", "pack.inner.models.deeper:Net"):
        target = parse(wrong)
        assert target is not None
        with pytest.raises(TargetError, match=r"no such file|no module named"):
            locate(target, project, project)


def test_installed_modules_are_found_but_not_imported(project: Path) -> None:
    target = parse("torch.nn.modules.linear:Linear")
    assert target is not None
    assert locate(target, project, project).file is not None


def test_class_instance_function_and_files_together(project: Path) -> None:
    (project / "other.py").write_text(
        "from torch import nn\n\n\nclass A(nn.Module):\n    def __init__(self):\n        self.a = nn.ReLU()\n"
    )
    targets = (f"{FILE}:Net", "pack.inner.models:net", "pack.inner.models:Zoo.small", "pack.inner.models:Zoo.named")
    findings = found(check(*targets, FILE, "other.py"))
    assert {one["code"] for one in findings if (one["filename"] or "").endswith("other.py")} == {"REG008"}
    live = [one for one in findings if one["code"] == "REG001"]
    assert {one["target"] for one in live} == set(targets)
    assert {one["evidence"] for one in live} == {"both"}
    assert not any(one["code"] == "LNT003" for one in findings)


def test_example_inputs_of_a_function_and_what_overrides_them(project: Path) -> None:
    (failure,) = [
        one for one in found(check("pack.inner.models:wrong_shape", "--select", "LNT")) if one["code"] == "LNT003"
    ]
    assert failure["message"] == "running forward of `pack.inner.models:wrong_shape` raised AssertionError: called"
    assert failure["location"]["row"] == MODELS.splitlines().index('        assert x.shape[-1] == 4, "called"') + 1
    assert found(check("pack.inner.models:wrong_shape", "--select", "LNT", "--input", "2x4")) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Nte", "no 'Nte' in pack.inner.models; did you mean 'Net'"),
        ("Zoo.smal", "no 'smal' in Zoo; did you mean 'small'"),
        ("WIDTH", "WIDTH is of type int; a target is an nn.Module class"),
        ("Zoo", "Zoo is a class that is no nn.Module"),
        ("nothing", "nothing() returned a value of type int"),
    ],
)
def test_wrong_names_are_usage_errors(project: Path, name: str, why: str) -> None:
    done = check(f"pack.inner.models:{name}")
    assert done.exit_code == 2
    assert why in done.stderr
    assert done.stdout == ""


def test_class_that_needs_arguments(project: Path) -> None:
    (failure,) = [one for one in found(check("pack.inner.models:Sized")) if one["code"] == "LNT003"]
    assert "missing 1 required positional argument: 'width'" in failure["message"]
    shown = CliRunner().invoke(cli, ["check", "pack.inner.models:Sized"]).stdout
    assert "help: write a function without arguments that returns `Sized(...)`" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "1x4"),
        ("--checkpoint", "w.pt"),
        ("--timeout", "5"),
        ("--memory", "5"),
        ("--seed", "5"),
        ("--models",),
        ("pack.inner.models:Net", "--input", "1y4"),
        ("pack.inner.models:Net", "--checkpoint", "nowhere.pt"),
        ("pack.inner.models:Net", "--timeout", "0"),
        ("nowhere.py:Net",),
        ("-", "--models"),
    ],
)
def test_usage_errors(project: Path, arguments: tuple[str, ...]) -> None:
    assert check(*arguments).exit_code == 2


def test_models_of_the_settings(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        f"[[tool.modellint.models]]\ntarget = '{FILE}:Net'\ninputs = ['2x5']\n\n"
        "[[tool.modellint.models]]\ntarget = 'pack.inner.models:Zoo.small'\n",
        "utf-8",
    )
    assert {one["target"] for one in found(check())} == {None}
    findings = found(check("--models"))
    assert {one["target"] for one in findings if one["code"] == "REG001"} == {
        f"{FILE}:Net",
        "pack.inner.models:Zoo.small",
    }
    assert [one["target"] for one in findings if one["code"] == "LNT003"] == [f"{FILE}:Net"]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("inputs = ['1x2']", "has no target"),
        ("target = 3", "target must be a string"),
        ("target = 'm.py:Net'\ninput = '1x2'", "unknown key 'input'; did you mean 'inputs'"),
        ("target = 'm.py:Net'\ninputs = '1x2'", "inputs must be a list of strings"),
        ("target = 'm.py:Net'\ncheckpoint = 1", "checkpoint must be a string"),
        ("target = 'm.py'", "is no live target"),
        ("target = 'm.py:Net'", "no such file"),
    ],
)
def test_wrong_models_of_the_settings(project: Path, table: str, why: str) -> None:
    (project / "pyproject.toml").write_text(f"[[tool.modellint.models]]\n{table}\n", "utf-8")
    done = check("--models")
    assert done.exit_code == 2
    assert why in done.stderr
    assert "pyproject.toml" in done.stderr


def test_without_torch(project: Path) -> None:
    code = (
        "import importlib.util, sys\nold = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'torch' else old(name, *rest)\n"
        f"from modellint.cli import main\nmain(['check', '{FILE}:Net'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'modellint[live]'" in done.stderr


def test_source_checks_import_nothing_of_this(project: Path) -> None:
    code = (
        "import sys\nfrom modellint.cli import main\ntry:\n    main(['check', '--no-cache', '-q', '.'])\nexcept SystemExit:\n    pass\n"
        "print([n for n in sys.modules if n.startswith(('modellint.live', 'torch')) or n == 'modellint.session.merge'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

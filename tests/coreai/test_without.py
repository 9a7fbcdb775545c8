"""Core AI without coreai-torch, and what needs neither it nor torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import modellint
from modellint import destinations
from modellint.cli import cli


def test_it_is_found_without_its_converter_or_torch() -> None:
    code = (
        "import sys; from modellint import destinations; coreai = destinations.named('coreai'); coreai.version(); "
        "assert not {'torch', 'coreai_torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_live_target_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(destinations.named("coreai")), "is_installed", False)
    (tmp_path / "model.py").write_text("from torch import nn\n\n\ndef make():\n    return nn.ReLU()\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    for words in (["check"], ["verify"], ["export", "-o", "net.aimodel"]):
        done = CliRunner().invoke(cli, [*words, "model.py:make", "--input", "3", "--destination", "coreai"])
        assert done.exit_code == 2
        assert done.stderr.startswith("error: --destination coreai needs coreai-torch")
        assert "pip install 'modellint[coreai]'" in done.stderr
        assert done.stderr.count("\n") == 1


def test_rules_about_coremltools_alone_read_nothing_for_core_ai(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        return torch.add(torch.fmod(x, 3.0), x, alpha=2)\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)

    def codes(destination: str) -> set[str]:
        words = ["check", "model.py", "--output-format", "concise", "--destination", destination]
        text = CliRunner().invoke(cli, words).stdout
        return {code for code in ("OPS001", "OPS007") if code in text}

    assert codes("coreml") == codes("all") == {"OPS001", "OPS007"}
    assert codes("coreai") == {"OPS007"}


def test_options_of_core_ml_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text("x = 1\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    for words in (["--frontend", "trace"], ["--precision", "fp16"], ["--deployment-target", "iOS17"]):
        done = CliRunner().invoke(cli, ["check", "model.py", "--destination", "coreai", *words])
        assert done.exit_code == 2
        assert f"{words[0]} is about Core ML alone" in done.stderr
    assert CliRunner().invoke(cli, ["check", "model.py", "--destination", "all", *words]).exit_code == 0
    with pytest.raises(ValueError, match="precision is about Core ML alone"):
        modellint.verify(nn.ReLU(), torch.ones(2), destination="coreai", precision="fp16")


def test_settings_name_the_destination_of_an_export(tmp_path: Path) -> None:
    (tmp_path / "modellint.toml").write_text('destination = "coreai"\n', "utf-8")
    model, x = nn.ReLU(), torch.ones(2)
    with pytest.raises(ValueError, match=r"must end in \.aimodel"):
        modellint.export(model, x, output=tmp_path / "net.mlpackage", root=tmp_path)
    with pytest.raises(ValueError, match=r"output must name the \.aimodel"):
        modellint.export(model, x, root=tmp_path)
    with pytest.raises(ValueError, match=r"must end in \.mlpackage"):
        modellint.export(model, x, output=tmp_path / "net.aimodel", root=tmp_path, destination="coreml")


def test_operators_are_told_without_it() -> None:
    done = CliRunner().invoke(cli, ["ops", "cumprod", "--destination", "coreai"])
    assert done.exit_code == 0
    assert "aten::cumprod  no converter  no converter" in done.stdout

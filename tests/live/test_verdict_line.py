"""The line under the findings: what converts, with what, and what computes something else; JSON says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from written import Load

import modellint
from modellint.cli import cli

NOT_COMPARED = "not compared: modellint verify"


def line(load: Load, *body: str, example: Any = None, init: str = "", **options: Any) -> str:
    """The line for a module whose ``forward`` consists of these lines."""
    made = "\n        ".join(("super().__init__()", *filter(None, [init])))
    text = "\n        ".join(body)
    module = load(
        f"class Net(nn.Module):\n    def __init__(self):\n        {made}\n\n    def forward(self, x):\n        {text}\n"
    )
    given = torch.rand(2, 3) if example is None else example
    return modellint.check_model(module.Net().eval(), given, ignore=["ENV"], **options).verdict


def test_what_an_export_supplies_is_named_with_its_exactness(load: Load) -> None:
    assert line(load, "return torch.i0(x)") == (
        "Core ML: converts with modellint export (supplies aten::i0, ≤ 32 ulps) · ct.convert refuses 1 operator at 1 place"
    )


def test_what_an_export_mends_is_told_apart(load: Load) -> None:
    found = line(load, "return torch.add(x, x * x, alpha=3.0)", frontend="trace")
    assert found.startswith("Core ML: converts with modellint export (mends aten::add, ≤ 1 ulps) · ct.convert refuses")
    assert "converts with --frontend export, and computes something else: OPS007 at " in found


def test_tensors_of_six_dimensions_are_converted_before_it_is_said(load: Load) -> None:
    body = "return torch.relu(x.reshape(1, 2, 3, 2, 3, 2) * 2).permute(5, 4, 3, 2, 1, 0).reshape(-1)"
    found = line(load, body, example=torch.rand(72))
    assert "converts with modellint export (supplies more than five axes, bit-equal)" in found


def test_what_nothing_converts_is_told_bare(load: Load) -> None:
    # A product that the model rounds to bfloat16, for which there is no type: the widened constants would compute another.
    body = "return x * (self.w * x.bfloat16())"
    found = line(load, body, init="self.w = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))")
    assert found.startswith("Core ML: will not convert · ")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (("if x.sum() > 0:", "    return x * 2", "return x * 3"), "FLW001"),
        (("return x * x.mean().item()",), "FLW002"),
        (("y = x * 1", "y.view(-1).add_(1)", "return y * 2"), "MUT001"),
        (("return x.long() + 2**40",), "NUM006"),
    ],
)
def test_errors_say_that_the_program_is_another(load: Load, body: tuple[str, ...], code: str) -> None:
    found = line(load, *body)
    assert found.startswith(f"Core ML: converts, and computes something else: {code} at ")
    assert "will convert" not in found


def test_another_route_of_which_nothing_is_known_is_named(load: Load) -> None:
    body = ("y = x * 1", "y.view(-1).add_(1)", "return y * 2")
    assert line(load, *body).endswith(" · converts with --frontend export")
    branch = ("if x.sum() > 0:", "    return x * 2", "return x * 3")
    found = line(load, *branch, frontend="export")
    assert found.startswith("Core ML: will not convert · ")
    assert " · converts with --frontend trace, and computes something else: FLW001 at " in found


def test_errors_of_another_route_are_not_passed_over(load: Load) -> None:
    found = line(load, "return x * x.mean().item()", frontend="export")
    assert found.startswith(
        f"Core ML: will convert · --frontend export · {NOT_COMPARED} · by trace it computes something else: "
    )


def test_what_an_export_mends_is_told_where_a_conversion_is_wrong(load: Load) -> None:
    found = line(load, "return torch.argmax(x)")
    assert found.startswith("Core ML: converts, and computes something else: OPS006 at ")
    assert found.endswith(" · modellint export mends aten::argmax, bit-equal")


def test_a_newer_target_that_converts_is_named(load: Load) -> None:
    shuffled = line(load, "return F.pixel_unshuffle(x, 2)", example=torch.rand(1, 3, 4, 4), frontend="trace")
    assert "converts with --deployment-target iOS16" in shuffled
    counter = 'self.register_buffer("seen", torch.zeros(1))'
    found = line(load, "self.seen.add_(1)", "return x * self.seen", init=counter)
    assert found.startswith("Core ML: converts, and computes something else: MUT005 at ")
    assert found.endswith(" · converts with --frontend export --deployment-target iOS18")


def test_targets_of_other_systems_are_named_by_their_names(load: Load) -> None:
    found = line(
        load,
        "return F.pixel_unshuffle(x, 2)",
        example=torch.rand(1, 3, 4, 4),
        frontend="trace",
        deployment_target="macOS12",
    )
    assert "converts with --deployment-target macOS13" in found


def test_a_model_without_errors_is_not_called_right(load: Load) -> None:
    assert line(load, "return torch.relu(x)") == f"Core ML: will convert · --frontend trace · {NOT_COMPARED}"


def test_an_excused_error_is_not_named(load: Load) -> None:
    found = line(load, "if x.sum() > 0:  # noqa: FLW001", "    return x * 2", "return x * 3")
    assert "FLW001" not in found


def test_a_model_that_does_not_run_is_not_tried(load: Load) -> None:
    assert line(load, "return x @ x") == "Core ML: not tried · the model does not run: SHP008"


def test_weights_that_a_trace_takes_for_constants_are_traced_to_their_list(load: Load) -> None:
    module = load(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(3, 3)]
                self.parts = {"scale": nn.Parameter(torch.ones(3))}

            def forward(self, x):
                return self.layers[0](x) * self.parts["scale"]
        """
    )
    report = modellint.check_model(module.Net().eval(), torch.rand(2, 3), select=["REG", "OPS"], frontend="trace")
    (refused,) = [one for one in report.diagnostics if one.code == "OPS002"]
    assert refused.message.endswith("it is hidden in `self.layers` (REG001), `self.parts` (REG005)")
    assert {"REG001", "REG005"} <= {one.code for one in report.diagnostics}


def test_exports_tell_whether_plain_conversion_is_enough(load: Load) -> None:
    module = load("class Net(nn.Module):\n    def forward(self, x):\n        return torch.fmod(x, 2.0)\n")
    result = modellint.export(module.Net().eval(), torch.rand(2, 3))
    checked = modellint.check_model(module.Net().eval(), torch.rand(2, 3))
    assert result.report.convertible is checked.convertible is False
    assert result.report.verdict == (
        "Core ML: converts with modellint export (supplies aten::fmod, ≤ 4 ulps) by trace · agrees"
    )
    verified = modellint.verify(module.Net(), torch.rand(2, 3))
    assert verified.verdict == "not converted"
    assert "converts with modellint export (supplies aten::fmod, ≤ 4 ulps)" in verified.notes


TWO = """
class Branch(nn.Module):
    def forward(self, x, mask):
        if x.sum() > 0:
            return x * 2
        return x * mask


class First(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def chain():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
"""


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments))


def test_only_the_target_that_runs_a_line_is_blamed_for_it(load: Load, tmp_path: Path) -> None:
    load(TWO)
    target = f"{tmp_path / 'model.py'}:"
    arguments = ["check", "--no-cache", "--ignore", "ENV", "--input", "2x3", "--output-format", "report"]
    (right,) = json.loads(run(*arguments, f"{target}First").stdout)["targets"]
    assert (right["wrong"], right["convertible"], right["supplied"]) == ([], True, [])
    (found,) = json.loads(run(*arguments, "--input", "mask=2x3", f"{target}Branch").stdout)["targets"]
    assert [(one["code"], one["location"]["row"]) for one in found["wrong"]] == [("FLW001", 11)]
    assert found["wrong"][0]["filename"] == str(tmp_path / "model.py")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Branch", "--input x=SHAPE --input mask=SHAPE, SHAPE as in 1x3x224x224 or 1x8:int64[0,100)"),
        ("chain", "--input 1x3x64x64, or of another size"),
    ],
)
def test_inputs_that_are_missing_are_named(load: Load, tmp_path: Path, name: str, wanted: str) -> None:
    load(TWO)
    target = f"{tmp_path / 'model.py'}:{name}"
    checked = run("check", "--no-cache", "--output-format", "concise", target)
    assert checked.stdout.splitlines()[-1] == f"Core ML: not tried · give its inputs: {wanted}"
    verified = run("verify", target)
    assert verified.exit_code == 2
    assert f"give its inputs: {wanted}" in verified.stderr


def test_verify_shows_errors_that_its_inputs_do_not(load: Load, tmp_path: Path) -> None:
    load("class Net(nn.Module):\n    def forward(self, x):\n        return x * 2 if x.sum() > -1e9 else x * 3\n")
    done = run("verify", f"{tmp_path / 'model.py'}:Net", "--input", "2x3", "--precision", "fp32")
    assert "FLW001" in done.stdout


def test_a_plain_model_has_the_same_line_from_python() -> None:
    report = modellint.check_model(nn.Sequential(nn.Linear(3, 2)).eval(), torch.rand(2, 3), ignore=["ENV"])
    assert report.verdict == f"Core ML: will convert · --frontend trace · {NOT_COMPARED}"

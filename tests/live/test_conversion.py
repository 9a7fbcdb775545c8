"""What coremltools will refuse of a live model, in one run and at the user's lines; what a report says of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn
from written import Load

import modellint
from modellint.authoring import coreml
from modellint.cli import cli
from modellint.destinations.coreml import installed_versions as installed
from modellint.results.diagnostic import Diagnostic, Severity

ROUTES = ("trace", "export")
SELECTED = ["OPS", "SHP001"]


def forward(*lines: str) -> str:
    """A module whose ``forward`` consists of these lines."""
    body = "\n".join(f"        {line}" for line in lines)
    return f"class Net(nn.Module):\n    def forward(self, x):\n{body}\n"


def checked(module: ModuleType, example: Any, **options: Any) -> modellint.Report:
    return modellint.check_model(module.Net().eval(), example, select=SELECTED, **options)


def told(report: modellint.Report) -> list[tuple[str, str | None, str]]:
    """Codes, operators, and the source of the first line."""
    return [(one.code, one.operator, line_of(one)) for one in report.diagnostics]


def line_of(one: Diagnostic) -> str:
    assert one.path is not None
    assert one.span is not None
    return Path(one.path).read_text("utf-8").splitlines()[one.span.row - 1].strip()


@pytest.mark.parametrize("route", ROUTES)
def test_operators_without_converter_stand_at_their_lines(load: Load, route: str) -> None:
    module = load(forward("x = torch.fmod(x, 2.0)", "x = torch.hypot(x, x)", "return torch.fmod(x, 3.0)"))
    report = checked(module, torch.rand(2, 3), frontend=route)
    assert told(report) == [
        ("OPS001", "aten::fmod", "x = torch.fmod(x, 2.0)"),
        ("OPS001", "aten::hypot", "x = torch.hypot(x, x)"),
        ("OPS001", "aten::fmod", "return torch.fmod(x, 3.0)"),
    ]
    assert report.convertible is False
    assert report.verdict.endswith(" · ct.convert refuses 2 operators at 3 places")


@pytest.mark.parametrize("route", ROUTES)
def test_one_finding_for_all_instances_of_a_layer(load: Load, route: str) -> None:
    block = load(
        """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return torch.hypot(self.linear(x), x)
        """,
        "block",
    )
    module = load(
        f"""
        from {block.__name__} import Block


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = Block()
                self.rest = nn.Sequential(Block(), Block())

            def forward(self, x):
                return self.first(torch.fmod(self.rest(self.first(x)), 2.0))
        """
    )
    report = checked(module, torch.rand(2, 4), frontend=route)
    places = {(one.operator, Path(one.path or "").name): one.modules for one in report.diagnostics}
    assert places == {
        ("aten::hypot", "block.py"): ("first", "rest.0", "rest.1"),
        ("aten::fmod", Path(module.__file__ or "").name): ("",),
    }


def test_operators_that_a_decomposition_makes_are_at_the_users_line(load: Load) -> None:
    module = load(forward("x = torch.hypot(x, x)", "return F.adaptive_max_pool3d(x, 1)"))
    found = told(checked(module, torch.rand(1, 2, 4, 4, 4), frontend="export"))
    assert ("OPS001", "aten::hypot", "x = torch.hypot(x, x)") in found
    assert {line for _, _, line in found[1:]} == {"return F.adaptive_max_pool3d(x, 1)"}


CASES: dict[str, tuple[str, Any, str, tuple[str, str | None, str]]] = {
    "a mode that is not known": (
        forward("return F.pad(x, (1, 1, 1, 1), mode='circular')"),
        torch.rand(1, 1, 4, 4),
        "trace",
        ("OPS002", "aten::pad", "return F.pad(x, (1, 1, 1, 1), mode='circular')"),
    ),
    "a matrix that is no constant": (
        forward("return torch.linalg.inv(x)"),
        torch.eye(4),
        "export",
        ("OPS002", "aten::linalg_inv", "return torch.linalg.inv(x)"),
    ),
    "an output that the converter does not make": (
        forward("_, indices = F.max_pool2d(x, 2, return_indices=True)", "return indices"),
        torch.rand(1, 1, 4, 4),
        "trace",
        (
            "OPS002",
            "aten::max_pool2d_with_indices",
            "_, indices = F.max_pool2d(x, 2, return_indices=True)",
        ),
    ),
    "a copy into a tensor that is no slice": (
        forward("y = x * 1", "y.copy_(x + 1)", "return y"),
        torch.rand(2, 3),
        "trace",
        ("OPS002", "aten::copy_", "y.copy_(x + 1)"),
    ),
    "an operator of newer systems": (
        forward("return F.pixel_unshuffle(x, 2)"),
        torch.rand(1, 1, 4, 4),
        "trace",
        ("OPS003", "aten::pixel_unshuffle", "return F.pixel_unshuffle(x, 2)"),
    ),
    "six dimensions": (
        forward("y = x.reshape(1, 2, 1, 2, 1, 2)", "y = y * 2", "return y.sum(3)"),
        torch.rand(2, 4),
        "trace",
        ("SHP001", "aten::reshape", "y = x.reshape(1, 2, 1, 2, 1, 2)"),
    ),
    "a script": (
        "@torch.jit.script\ndef cut(x):\n    if bool(x.sum() > 0):\n        x = torch.fmod(x, 2.0)\n    return x\n\n\n"
        + forward("return cut(x)"),
        torch.rand(2, 3),
        "trace",
        ("OPS001", "aten::fmod", "x = torch.fmod(x, 2.0)"),
    ),
    "a complex result": (
        forward("return torch.fft.fft(x)"),
        torch.rand(2, 8),
        "trace",
        ("OPS002", "aten::fft_fft", "return torch.fft.fft(x)"),
    ),
    "an input that is written to": (
        forward("x.add_(1)", "return x * 2"),
        torch.rand(2, 3),
        "export",
        ("OPS002", "aten::add", "x.add_(1)"),
    ),
    "half precision on old systems": (
        forward("return x * 2"),
        torch.rand(2, 3).half(),
        "trace",
        ("OPS002", None, "class Net(nn.Module):"),
    ),
    "a number as an input": (
        forward("return x * 2"),
        torch.tensor(1.0),
        "trace",
        ("OPS002", None, "class Net(nn.Module):"),
    ),
    "a dict of tensors as an input": (
        forward('return x["a"] * 2'),
        ({"a": torch.rand(2)},),
        "trace",
        ("OPS002", None, "class Net(nn.Module):"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refusals(load: Load, name: str) -> None:
    text, example, route, expected = CASES[name]
    report = checked(load(text), example, frontend=route)
    assert told(report) == [expected]
    assert report.convertible is False
    assert report.diagnostics[0].severity is Severity.ERROR


STATE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(1)
        return x + self.seen
"""


def test_states_need_a_newer_target(load: Load) -> None:
    module = load(STATE)
    old = checked(module, torch.rand(2, 3), frontend="export")
    assert [(one.code, line_of(one)) for one in old.diagnostics] == [("OPS003", "self.seen.add_(1)")]
    new = checked(module, torch.rand(2, 3), frontend="export", deployment_target="iOS18")
    assert new.convertible is True
    assert not new.diagnostics


def test_constants_that_pytorch_knows_stand_in(load: Load) -> None:
    module = load(
        forward(
            "window = torch.hamming_window(8)",
            "return torch.stft(x, 8, window=window, return_complex=True).real",
        )
    )
    assert told(checked(module, torch.rand(1, 64), frontend="trace")) == [
        ("OPS001", "aten::hamming_window", "window = torch.hamming_window(8)")
    ]


def test_what_only_follows_is_not_told(load: Load) -> None:
    module = load(
        forward(
            "sizes = torch.nonzero(torch.fmod(x, 2.0) > 9).numel()",
            "halves = torch.tensor_split(x, 2, 1)",
            "y = torch.cat([halves[1], halves[0]], 1)",
            "return y.reshape(-1, 2) * sizes",
        )
    )
    found = checked(module, torch.rand(2, 4), frontend="trace")
    assert {one.operator for one in found.diagnostics} <= {"aten::fmod", "aten::tensor_split", "aten::nonzero"}
    is_missing = not coreml.has_converter("tensor_split", coreml.here())
    assert ("aten::tensor_split" in {one.operator for one in found.diagnostics}) == is_missing


def test_fast_path_and_autograd_function_have_codes_of_their_own(load: Load) -> None:
    module = load(
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

            def forward(self, x):
                x = self.layer(x)
                return Double.apply(x) + 1
        """
    )
    report = checked(module, torch.rand(1, 4, 8), frontend="trace")
    assert told(report) == [
        ("OPS005", "aten::_transformer_encoder_layer_fwd", "x = self.layer(x)"),
        ("OPS009", "prim::PythonOp", "return Double.apply(x) + 1"),
    ]
    assert "`Double`" in report.diagnostics[1].message
    assert report.verdict.endswith("converts with --frontend export")
    automatic = checked(module, torch.rand(1, 4, 8))
    assert automatic.convertible is True
    assert automatic.verdict == "Core ML: will convert · --frontend export · not compared: modellint verify"
    assert automatic.ok


PRELU = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.PReLU(3)
        self.slopes = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))
        nn.init.uniform_(self.act.weight)

    def forward(self, x):
        {}
"""


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_slopes_are_told_of_where_the_route_refuses_them(load: Load, rank: int) -> None:
    module = load(PRELU.format("return self.act(x) + 1"))
    x = torch.rand(2, 3, 4, 4, 4)[(..., *[0] * (5 - rank))]
    is_taken = rank in coreml.prelu_ranks(coreml.here())
    for frontend in ("auto", "export"):
        report = checked(module, x, frontend=frontend)
        assert not report.diagnostics
        route = "trace" if is_taken and frontend == "auto" else "export"
        assert report.verdict == f"Core ML: will convert · --frontend {route} · not compared: modellint verify"
    traced = checked(module, x, frontend="trace")
    if is_taken:
        assert not traced.diagnostics
        assert traced.convertible is True
        return
    assert told(traced) == [("OPS004", None, "self.act = nn.PReLU(3)")]
    assert traced.convertible is False
    assert traced.verdict.endswith("converts with --frontend export")


def test_slopes_are_no_matter_for_a_route_that_fails_elsewhere(load: Load) -> None:
    module = load(PRELU.format("return torch.nanmedian(self.act(x))"))
    report = checked(module, torch.rand(2, 3, 4))
    assert told(report) == [("OPS001", "aten::nanmedian", "return torch.nanmedian(self.act(x))")]
    assert report.verdict.endswith(" · ct.convert refuses 1 operator at 1 place")


def test_slopes_beside_torchs_functions(load: Load) -> None:
    line = "return torch.ops.aten.prelu(x, self.slopes) if x.sum() > -99 else x"
    report = checked(load(PRELU.format(line)), torch.rand(2, 3, 4, 4, 4), frontend="trace")
    assert told(report) == [("OPS004", None, line)]
    assert report.convertible is False


def test_flexible_dimensions_are_kept(load: Load, tmp_path: Path) -> None:
    load(forward("y = torch.hypot(x, x)", "return y.reshape(x.shape[0], 2, 2) + torch.ones(x.shape[0], 1, 1)"))
    found = run(tmp_path, "--input", "1..8x4", "--frontend", "trace")
    assert [one["operator"] for one in found["diagnostics"]] == ["aten::hypot"]


@pytest.mark.parametrize(
    "inputs", [["3x4", "2..8x4"], ["x=3x4", "y=2..8x4"], ["y=2..8x4", "x=3x4"], ["3x4", "y=2..8x4"]]
)
def test_what_converts_at_fixed_sizes_only_is_refused(load: Load, tmp_path: Path, inputs: list[str]) -> None:
    load(
        """
        class Net(nn.Module):
            def forward(self, x, y):
                x = torch.fft.fft(x, dim=0)
                y = torch.fft.fft(y, dim=0)
                return x.real, y.real
        """
    )
    fixed = [word.replace("2..8", "2") for word in inputs]

    def refused(words: list[str]) -> list[tuple[str, int]]:
        options = [part for word in words for part in ("--input", word)]
        found = run(tmp_path, *options, "--frontend", "trace")["diagnostics"]
        return [(one["operator"], one["location"]["row"]) for one in found]

    assert refused(fixed) == []
    assert refused(inputs) == [("aten::fft_fft", 12)]


def test_complex_numbers_that_lead_to_no_output_are_no_trouble(load: Load) -> None:
    # The pass that drops operations runs before the one that lowers those on complex numbers.
    module = load(forward("y = torch.fft.fft(x)", "return y.real * y.shape[0]"))
    assert checked(module, torch.rand(2, 4), frontend="trace").convertible is True


@pytest.mark.parametrize("inputs", [["3x4", "2..8x4"], ["y=2..8x4", "x=3x4"], ["3x4", "y=2..8x4"]])
def test_sizes_that_the_code_fixes_are_no_flexible_ones_for_export(
    load: Load, tmp_path: Path, inputs: list[str]
) -> None:
    load(
        """
        class Net(nn.Module):
            def forward(self, x, y):
                return x.reshape(3, -1), y.reshape(y.shape[0] if FREE else 2, -1)


        FREE = True
        """
    )
    options = [part for word in inputs for part in ("--input", word)]
    path = tmp_path / "model.py"
    for free in (True, False):
        path.write_text(path.read_text("utf-8").replace("FREE = True", f"FREE = {free}"), "utf-8")
        (target,) = run(tmp_path, *options, "--frontend", "export")["targets"]
        assert target["convertible"] is free


def test_leaving_while_captured_ends_no_check(load: Load) -> None:
    module = load(forward("if torch.jit.is_tracing():", "    raise SystemExit(3)", "return torch.fmod(x, 2.0)"))
    report = checked(module, torch.rand(2, 3), frontend="trace")
    assert report.convertible is False
    assert told(report) == [("OPS002", None, "raise SystemExit(3)")]


def test_everything_is_left_as_it_was(load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    net = load(STATE).Net()
    x = torch.rand(2, 3)
    before, seed = x.clone(), torch.get_rng_state()
    for route in ROUTES:
        modellint.check_model(net, x, select=SELECTED, frontend=route)
    assert torch.equal(net.seen, torch.zeros(3))
    assert net.training
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), seed)
    assert capfd.readouterr() == ("", "")


def test_a_model_that_does_not_run_is_not_judged(load: Load) -> None:
    report = checked(load(forward('raise RuntimeError("no")')), torch.rand(2, 3))
    assert report.convertible is None


def test_without_inputs_nothing_is_tried(load: Load) -> None:
    report = checked(load(forward("return torch.fmod(x, 2.0)")), None)
    assert report.convertible is None
    assert report.verdict == "Core ML: not tried · give example_inputs"


@pytest.fixture
def plain(load: Load) -> ModuleType:
    return load(forward("return torch.fmod(x, 2.0)"))


def test_absent_coremltools_is_told(plain: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "coremltools" else find(name, *rest)
    )
    report = checked(plain, torch.rand(2, 3))
    assert report.convertible is None
    assert report.verdict.startswith("Core ML: not tried · coremltools is not installed")


def test_new_numpy_is_blamed_first_where_it_breaks(plain: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks = coreml.numpy_below(coreml.here()) is not None
    version = installed.version
    monkeypatch.setattr(installed, "version", lambda name: "2.4.0" if name == "numpy" else version(name))
    traced = modellint.check_model(plain.Net(), torch.rand(2, 3), select=["OPS", "ENV001"], frontend="trace")
    assert {one.code for one in traced.diagnostics} == {"ENV001" if breaks else "OPS001"}
    assert traced.convertible is (None if breaks else False)
    exported = modellint.check_model(plain.Net(), torch.rand(2, 3), select=["OPS", "ENV001"])
    assert {one.code for one in exported.diagnostics} == {*["ENV001"] * breaks, "OPS001"}
    assert exported.convertible is False


def test_excused_errors_leave_no_verdict(load: Load) -> None:
    module = load(forward("return torch.fmod(x, 2.0)  # noqa: OPS001"))
    report = checked(module, torch.rand(2, 3))
    assert not report.diagnostics
    assert report.convertible is None


def test_unknown_words_are_errors() -> None:
    for option in ({"frontend": "onnx"}, {"deployment_target": "iOS3"}, {"precision": "int8"}):
        with pytest.raises(ValueError, match="must be one of"):
            modellint.check_model(nn.ReLU(), torch.rand(1), **option)


def invoke(folder: Path, *options: str) -> Result:
    target = f"{folder / 'model.py'}:Net"
    return CliRunner().invoke(cli, ["check", "--no-cache", "--select", "OPS,SHP001", *options, target])


def run(folder: Path, *options: str) -> Any:
    return json.loads(invoke(folder, "--output-format", "report", *options).stdout)


def test_report_of_the_command_line(load: Load, tmp_path: Path) -> None:
    load(forward("x = torch.fmod(x, 2.0)", "return F.celu(x)"))
    found = run(tmp_path, "--input", "2x3", "--frontend", "trace")
    (verdict,) = found["targets"]
    assert set(verdict) == {"target", "convertible", "frontend", "routes", "supplied", "wrong", "converts_with"}
    assert (verdict["convertible"], verdict["frontend"]) == (False, "trace")
    assert [one["operator"] for one in verdict["routes"]["trace"]["blockers"]] == ["aten::fmod", "aten::celu"]
    assert [one["evidence"] for one in found["diagnostics"]] == ["both", "both"]
    text = invoke(tmp_path, "--input", "2x3", "--frontend", "trace").stdout
    assert text.splitlines()[-1] == (
        "Core ML: converts with modellint export (supplies aten::fmod, ≤ 4 ulps; aten::celu, ≤ 8 ulps) "
        "· ct.convert refuses 2 operators at 2 places"
    )


def test_guesses_of_source_are_withdrawn_where_the_route_converts(load: Load, tmp_path: Path) -> None:
    load(forward("return F.celu(x)"))
    source = CliRunner().invoke(cli, ["check", "--no-cache", "--select", "OPS", str(tmp_path / "model.py")])
    assert "OPS001" in source.stdout
    live = invoke(tmp_path, "--input", "2x3")
    assert "OPS001" not in live.stdout
    assert live.stdout.splitlines()[-1] == (
        "Core ML: will convert · --frontend export · not compared: modellint verify"
    )
    assert live.exit_code == 0


def test_options_need_a_live_target(load: Load, tmp_path: Path) -> None:
    load(forward("return x"))
    for option in (("--frontend", "trace"), ("--precision", "fp32")):
        found = CliRunner().invoke(cli, ["check", "--no-cache", *option, str(tmp_path / "model.py")])
        assert found.exit_code == 2
        assert "needs a live target" in found.stderr


def test_settings_choose_the_route(load: Load, tmp_path: Path) -> None:
    load(forward("return torch.fmod(x, 2.0)"))
    (tmp_path / "modellint.toml").write_text('frontend = "export"\nprecision = "fp32"\n')
    (verdict,) = run(tmp_path, "--input", "2x3")["targets"]
    assert verdict["frontend"] == "export"
    (tmp_path / "modellint.toml").write_text('frontend = "onnx"\n')
    assert invoke(tmp_path, "--input", "2x3").exit_code == 2

"""What Python programs, notebooks and tests get of a live model."""

from __future__ import annotations

import copy
import html.parser
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import modellint
from modellint.report.notebook_displays import findings
from modellint.results.diagnostic import Severity
from modellint.testing import assert_exportable


class Clean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x)
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [nn.Linear(4, 4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.parts[0](x)
        return out


class Ignored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [nn.Linear(4, 4)]  # noqa: REG001


class Counting(nn.Module):
    """Changes everything that a run can change."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout()
        self.calls = 0
        self.seen: list[int] = []
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.last = x
        self.total += x.sum(0)
        out: torch.Tensor = self.drop(self.norm(x)) + torch.rand(4) + random.random()
        return out


def stack() -> nn.Sequential:
    return nn.Sequential(Block(), Block()).eval()


def test_clean_model() -> None:
    report = modellint.check_model(Clean().eval(), torch.randn(1, 4), select="REG")
    assert report.ok
    assert report.convertible is None
    assert report.diagnostics == ()
    assert repr(report) == "All checks passed!"
    report.raise_if_failed("info")


@pytest.mark.parametrize("inputs", [None, torch.randn(1, 4), (torch.randn(1, 4),), {"input": torch.randn(1, 4)}])
def test_finding_has_its_place_and_all_paths(inputs: Any) -> None:
    report = modellint.check_model(stack(), inputs, select="REG001")
    (found,) = report.diagnostics
    line = next(
        row for row, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if "self.parts" in text
    )
    assert not report.ok
    assert found.path is not None
    assert Path(found.path).resolve() == Path(__file__).resolve()
    assert found.span is not None
    assert found.span.row == line
    assert (found.evidence, found.target, found.modules) == ("live", None, ("0", "1"))
    assert repr(report).startswith(f"{found.path}:{line}:9: REG001 `self.parts`")


def test_path_is_relative_to_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    (found,) = modellint.check_model(stack(), select=["REG001"]).diagnostics
    assert found.path == Path(__file__).name


def test_comments_and_settings_hold(tmp_path: Path) -> None:
    assert modellint.check_model(Ignored().eval(), select="REG").ok
    (tmp_path / "modellint.toml").write_text('ignore = ["REG001"]', "utf-8")
    assert modellint.check_model(stack(), root=tmp_path).ok
    assert not modellint.check_model(stack(), root=tmp_path, select="REG001", ignore=()).ok
    assert modellint.check_model(stack(), ignore="REG001, MOD").ok


def test_checkpoint(tmp_path: Path) -> None:
    model = Clean().eval()
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save(state, tmp_path / "net.pt")
    for given in (state, tmp_path / "net.pt", str(tmp_path / "net.pt")):
        (found,) = modellint.check_model(model, checkpoint=given, select="REG").diagnostics
        assert found.code == "REG013"
    assert modellint.check_model(model, checkpoint=model.state_dict(), select="REG").ok


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"model": Clean}, TypeError, r"the model must be built first: check_model\(Clean\(\.\.\.\), \.\.\.\)"),
        ({"model": "net"}, TypeError, "the model must be a torch.nn.Module, not a value of type str"),
        ({"example_inputs": (1, 3, 224, 224)}, TypeError, "must hold the tensors that the model is called with"),
        ({"example_inputs": {1: torch.ones(1)}}, TypeError, "its keys must be the names of arguments"),
        ({"select": "REG999"}, ValueError, "select: unknown rule code 'REG999'; did you mean 'REG009'"),
        ({"ignore": ["RGE"]}, ValueError, "ignore: unknown rule code 'RGE'"),
        ({"select": [1]}, TypeError, "select and ignore take codes"),
        ({"checkpoint": 3}, TypeError, "checkpoint must be a file or a dict of tensors"),
        ({"checkpoint": "none.pt"}, FileNotFoundError, "none.pt"),
        ({"checkpoint": __file__}, ValueError, "it is no checkpoint of plain tensors"),
        ({"root": __file__}, ValueError, "root must be a folder"),
        ({"route": "trace"}, TypeError, "route"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        modellint.check_model(**{"model": Clean(), **wrong})


def test_forward_that_raises_is_a_finding() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise LookupError("no such thing")

    (found,) = modellint.check_model(Broken().eval(), torch.ones(1), select=["LNT", "REG"]).diagnostics
    assert (found.code, found.severity, found.target) == ("LNT003", Severity.ERROR, None)
    assert "running forward of `Broken` raised LookupError: no such thing" in found.message


@pytest.mark.parametrize("mode", [True, False])
def test_model_is_left_as_it_was(mode: bool) -> None:
    model = Counting().train(mode)
    model(torch.randn(3, 4)).sum().backward()
    before = copy.deepcopy({key: value for key, value in vars(model).items() if key != "last"})
    state = copy.deepcopy(model.state_dict())
    grads = [None if one.grad is None else one.grad.clone() for one in model.parameters()]
    last, rng, python = model.last, torch.get_rng_state(), random.getstate()
    modellint.check_model(model, torch.randn(3, 4), checkpoint={})
    assert model.last is last
    assert (model.calls, model.seen) == (before["calls"], before["seen"])
    assert list(vars(model)) == [*before, "last"]
    assert [one.training for one in model.modules()] == [mode] * 3
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(a, b.grad) for a, b in zip(grads, model.parameters(), strict=True) if a is not None)
    # The inputs are made outside of the check.
    torch.set_rng_state(rng)
    modellint.check_model(model, last)
    assert torch.equal(rng, torch.get_rng_state())
    assert python == random.getstate()


def test_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = stack()
    (found,) = modellint.check_model(model, torch.empty(1, 4, device="meta"), select="REG001").diagnostics
    assert found.modules == ("0", "1")


def test_raise_if_failed() -> None:
    report = modellint.check_model(stack(), select="REG001")
    with pytest.raises(modellint.CheckFailed) as caught:
        report.raise_if_failed()
    assert str(caught.value) == repr(report)
    assert caught.value.report is report
    assert isinstance(caught.value, AssertionError)
    assert pickle.loads(pickle.dumps(caught.value)).report == report
    with pytest.raises(ValueError, match="level must be one of info, warning, error, not 'fatal'"):
        report.raise_if_failed("fatal")
    warned = modellint.Report((report.diagnostics[0]._replace(severity=Severity.WARNING),))
    warned.raise_if_failed("error")
    with pytest.raises(modellint.CheckFailed):
        warned.raise_if_failed("info")


def test_assert_exportable() -> None:
    assert assert_exportable(Clean().eval(), torch.randn(1, 4), select="REG").ok
    assert_exportable(stack(), ignore=["REG001", "MOD"])
    with pytest.raises(modellint.CheckFailed, match=r"REG001 `self\.parts`"):
        assert_exportable(stack(), torch.randn(1, 4), level="error")


def test_pytest_shows_the_line_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_net.py").write_text(
        "import torch\nfrom torch import nn\nfrom modellint.testing import assert_exportable\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.parts = [nn.Linear(4, 4)]\n\n\n"
        "def test_net_stays_exportable():\n    assert_exportable(Net())\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_net.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "test_net.py:13: CheckFailed" in done.stdout
    assert "test_net.py:9:9: REG001 `self.parts`" in done.stdout
    assert "testing.py" not in done.stdout


class _Tags(html.parser.HTMLParser):
    """Opens and closes its tags in order, and keeps the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "br":
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.cells and "td" in self.open:
            self.cells[-1] += data


def test_notebook_shows_a_table() -> None:
    report = modellint.check_model(stack(), select="REG001")
    (found,) = report.diagnostics
    assert found.span is not None
    shown = _Tags(report._repr_html_())
    place = f"{found.path}:{found.span.row}"
    assert shown.cells == ["error", "REG001", f"{found.message}{found.help}", place, "0, 1"]


def test_notebook_is_safe_and_needs_nothing_else() -> None:
    (found,) = modellint.check_model(stack(), select="REG001").diagnostics
    wild = found._replace(
        message="<script>alert('x')</script> & \"y\"", path="<a>.py", modules=("a<b", "c"), help="<i>"
    )
    text = findings.fragment([wild, found._replace(path=None, span=None, severity=Severity.INFO)])
    assert not re.search(r"<script|<a>|<i>|https?:|src=|url\(", text)
    assert _Tags(text).cells[7].startswith("<script>alert('x')</script> & \"y\"")
    assert "All checks passed!" in findings.fragment([])


def test_importing_modellint_imports_neither_torch_nor_the_rest() -> None:
    code = (
        "import sys, modellint; modellint.check_model; modellint.CheckFailed; modellint.testing.assert_exportable; "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'coremltools', 'libcst', 'numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_table_of_shapes_and_its_hostile_names() -> None:
    class Wild(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("<script>alert(1)</script>", nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.get_submodule("<script>alert(1)</script>")(x)
            return out

    text = modellint.shapes(Wild(), torch.zeros(1, 4))._repr_html_()  # type: ignore[attr-defined]
    assert not re.search(r"<script|https?:|src=|url\(", text)
    shown = _Tags(text)
    assert "[1,4]" in shown.cells
    assert '<th scope="col">layer</th>' in text and "<caption>Shapes of Wild</caption>" in text
    assert "prefers-color-scheme: dark" in text and 'data-jp-theme-light="false"' in text


def test_progress_is_told() -> None:
    told: list[modellint.Progress] = []
    modellint.check_model(Clean(), torch.zeros(1, 4), progress=told.append)
    assert [progress.stage for progress in told][:2] == ["running forward of", "checking"]
    assert {progress.model for progress in told} == {"Clean"}
    assert str(told[1]) == "checking Clean"
    assert all(progress.seconds >= 0 for progress in told)


def test_progress_that_fails_is_raised_when_the_work_is_done() -> None:
    told: list[str] = []

    def refuse(progress: modellint.Progress) -> None:
        told.append(progress.stage)
        raise KeyError(progress.stage)

    model = Clean()
    with pytest.raises(KeyError):
        modellint.fix_model(model, torch.zeros(1, 4), progress=refuse)
    assert told == ["fixing"]
    assert model.training
    with pytest.raises(TypeError, match="progress must be"):
        modellint.check_model(model, progress="yes")  # type: ignore[arg-type]


def test_progress_without_tqdm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    modellint.check_model(Clean(), torch.zeros(1, 4), progress=True)
    assert "checking Clean\n" in capsys.readouterr().err
    modellint.check_model(Clean(), torch.zeros(1, 4))
    assert "checking" not in capsys.readouterr().err

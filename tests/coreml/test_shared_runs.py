"""Runs and captures of a model that nothing repeats: see ``live/analysis.py`` and ``coreml/capture/shared_captures.py``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

import modellint
from modellint.live.analysis_cache import analysis
from modellint.live.capture.fake_tensor_run import capture, captured_run
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.settings import Destination

X = torch.linspace(-1, 1, 16).reshape(2, 8)


class Net(nn.Module):
    """Counts its runs by their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, FakeTensor):
            RUNS[tuple(x.detach().flatten().tolist())] += 1
        return torch.relu(self.inner(x))


class Refused(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fmod(x, 2.0)


RUNS: Counter[tuple[float, ...]] = Counter()


def subject_of(model: nn.Module) -> Subject:
    return Subject(model.eval(), Inputs((X,)), Path.cwd(), Destination())


def test_an_analysis_is_computed_once_for_each_subject() -> None:
    asked = []

    @analysis
    def parameters(subject: Subject) -> int:
        asked.append(subject)
        return sum(state.tensor.numel() for state in subject.state)

    first, second = subject_of(nn.Linear(8, 8)), subject_of(nn.Linear(8, 1))
    assert [parameters(first), parameters(second), parameters(first)] == [72, 9, 72]
    assert asked == [first, second]


def test_a_result_that_is_supplied_is_not_computed() -> None:
    subject = subject_of(nn.Linear(8, 8))
    run = capture(subject)
    captured_run.supply(subject, run)
    assert captured_run(subject) is run


def test_an_export_runs_the_model_once_on_each_set_of_inputs_but_the_example() -> None:
    RUNS.clear()
    torch.manual_seed(0)
    assert modellint.export(Net().eval(), X).summary.ok
    RUNS.pop(tuple(X.flatten().tolist()))
    assert len(RUNS) > 5
    assert set(RUNS.values()) == {1}


def test_a_verification_and_the_dry_run_behind_it_share_their_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    export = torch.export.export

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", counted)
    verification = modellint.verify(Refused().eval(), X)
    assert verification.verdict == "not converted"
    assert any("modellint export" in note for note in verification.notes)
    assert len(calls) == 1

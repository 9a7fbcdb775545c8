"""The shipped operator table is what the installed coremltools and torch say.

All of it is made anew by ``python -m modellint.coreml.operator_table measure FOLDER``, which takes an hour, and ``… write FOLDER``;
here that is done for some names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from modellint.coreml.operator_table import NEWEST, measure_all, names_of, read, rows
from modellint.coreml.private import ct, registered, silence
from modellint.coreml.probes import apis
from modellint.source.operator_table import ROWS
from modellint_rules.operators.rewrites import REWRITES

pytestmark = pytest.mark.filterwarnings("ignore")

SOME = (
    "torch.Tensor.trunc_",
    "torch.asinh",
    "torch.nn.Hardshrink",
    "torch.nn.ReLU",
    "torch.nn.functional.celu",
    "torch.nn.functional.grid_sample",
    "torch.nn.functional.pixel_unshuffle",
    "torch.slogdet",
    "torch.trunc",
)


def test_names_of_converters() -> None:
    assert registered() == names_of(NEWEST)


def test_rows_are_what_is_measured(tmp_path: Path) -> None:
    known = apis()
    measure_all([known[name] for name in SOME], tmp_path / "measured-0.jsonl", lambda line: None)
    assert rows(read(tmp_path)) == {name: ROWS[name] for name in SOME if name in ROWS}


X, Y, Z = torch.randn(3, 4), torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 0.5
EXAMPLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "addcdiv": (torch.addcdiv(X, Y, Z, value=0.5), {"x": X, "a": Y, "b": Z, "value": 0.5}),
    "addcmul": (torch.addcmul(X, Y, Z, value=0.5), {"x": X, "a": Y, "b": Z, "value": 0.5}),
    "celu": (torch.celu(X, 2.0), {"x": X, "alpha": 2.0}),
    "diff": (torch.diff(X), {"x": X}),
    "fmod": (torch.fmod(X, Y), {"x": X, "y": Y}),
    "hypot": (torch.hypot(X, Y), {"x": X, "y": Y}),
    "lerp": (torch.lerp(X, Y, Z), {"x": X, "y": Y, "weight": Z}),
    "log_sigmoid": (torch.nn.functional.logsigmoid(X), {"x": X}),
    "outer": (torch.outer(X[0], Y[0]), {"x": X[0], "y": Y[0]}),
    "channel_shuffle": (
        torch.nn.functional.channel_shuffle(torch.arange(16.0).view(1, 4, 2, 2), 2),
        {"x": torch.arange(16.0).view(1, 4, 2, 2), "groups": 2, "b": 1, "h": 2, "w": 2},
    ),
    "take_along_dim": (
        torch.take_along_dim(X, torch.tensor([[0], [1], [2]]), 1),
        {"x": X, "dim": 1, "indices": torch.tensor([[0], [1], [2]])},
    ),
}


def test_rewrites_have_examples() -> None:
    assert {kind for kind, text in REWRITES.items() if "…" not in text} == set(EXAMPLES)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_rewrites_convert_and_agree(kind: str) -> None:
    expression = REWRITES[kind].removeprefix("Write `").removesuffix("`")
    expected, given = EXAMPLES[kind]
    tensors = [name for name, value in given.items() if isinstance(value, torch.Tensor) and value.is_floating_point()]
    fixed = {name: value for name, value in given.items() if name not in tensors}
    scope = {"torch": torch, "F": torch.nn.functional, **fixed}

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *values: Any) -> Any:
            return eval(expression, scope, dict(zip(tensors, values, strict=True)))

    values = tuple(given[name] for name in tensors)
    assert torch.allclose(Net()(*values), expected, atol=1e-6)
    program = torch.jit.trace(Net().eval(), values, check_trace=False)
    with silence():
        ct.convert(program, inputs=[ct.TensorType(shape=value.shape) for value in values], skip_model_load=True)

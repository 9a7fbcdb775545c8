"""MOD007: a `train` or `eval` of a module's own."""

from __future__ import annotations

import textwrap

import nets
import pytest

import modellint


def _said(methods: str, base: str = "nn.Module", forward: bool = True) -> list[str]:
    body = textwrap.indent(textwrap.dedent(methods).strip(), " " * 4)
    run = "\n\n    def forward(self, x):\n        return x" if forward else ""
    text = f"{nets.HEAD}\nclass Net({base}):\n{body}{run}\n"
    found = modellint.check_source(text).diagnostics
    return [f"{each.severity.name} {each.message}" for each in found if each.code == "MOD007"]


@pytest.mark.parametrize(
    "signature",
    ["self", "self, *, mode=True", "self, data, steps", "self, mode, *, deep"],
)
def test_train_that_takes_no_mode(signature: str) -> None:
    (said,) = _said(f"def train({signature}):\n    super().train(True)\n    return self")
    assert said.startswith("ERROR `Net.train` cannot be called with `mode` alone: `eval()` calls")


def test_train_without_mode_beside_an_eval() -> None:
    methods = "def train(self):\n    return super().train(True)\n\ndef eval(self):\n    return super().train(False)"
    (said,) = _said(methods)
    assert "a module that holds this one calls `train(False)`" in said
    assert _said(methods, forward=False)[0].startswith("INFO")


@pytest.mark.parametrize(
    "method",
    [
        "def train(self, mode=True):\n    return super().train(mode)",
        "def train(self, mode: bool = True):\n    super().train(mode)\n    self.a = 1\n    return self",
        "def train(self, flag):\n    return super().train(flag)",
        "def train(self, *modes):\n    return super().train(*modes)",
        "def train(self, mode=True):\n    raise NotImplementedError",
        "@staticmethod\ndef train():\n    return 1",
        "@staged\ndef train(self):\n    return 1",
        "def train(self, epochs=10):\n    for epoch in range(epochs):\n        self(epoch)",
        "def eval(self):\n    if self.a:\n        return super().eval()\n    return self",
    ],
)
def test_train_and_eval_that_stand_in(method: str) -> None:
    assert _said(method) == []


def test_result_that_is_none() -> None:
    (said,) = _said("def eval(self):\n    super().eval()\n    self.mode = 'eval'")
    assert said == "WARNING `Net.eval` gives back None, not the module, as in `model = model.eval()`"
    (said,) = _said("def train(self, mode=True):\n    nn.Module.train(self, mode)\n    def inner():\n        return 1")
    assert said.startswith("INFO `Net.train` gives back None, not the module: so does `eval()`")


def test_no_module() -> None:
    assert _said("def train(self):\n    pass", base="object") == []

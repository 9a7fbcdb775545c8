"""What the executor holds while it runs: a value until its last reader is done."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch
from programs import mb, program

from modellint.destinations.coreml.mil.executor import Executor


def test_a_value_is_freed_after_its_last_use() -> None:
    def build(x: Any) -> Any:
        first = mb.exp(x=x, name="first")
        second = mb.sin(x=first, name="second")
        third = mb.add(x=first, y=second, name="third")
        return mb.cos(x=mb.tanh(x=third, name="fourth"), name="fifth")

    alive: dict[str, weakref.ref[torch.Tensor]] = {}
    seen: dict[str, set[str]] = {}

    def observe(operation: Any, variable: Any, value: torch.Tensor) -> None:
        seen[variable.name] = {name for name, one in alive.items() if one() is not None}
        alive[variable.name] = weakref.ref(value)

    x = np.ones((2, 3), np.float32)
    Executor(program(build, 15, x=x))({"x": torch.from_numpy(x)}, observe)
    assert seen["third"] == {"first", "second"}
    assert seen["fourth"] == {"third"}
    assert seen["fifth"] == {"fourth"}

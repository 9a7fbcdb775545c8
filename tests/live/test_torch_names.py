"""The table of torch's names that source checks read is what the installed torch says."""

from __future__ import annotations

import subprocess
import sys

from modellint.data import torch_names


def test_table_is_what_torch_says() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "modellint.measure.torch_names"],
        capture_output=True,
        text=True,
        check=True,
    )
    made: dict[str, object] = {}
    exec(compile(done.stdout, "torch_names", "exec"), made)
    for name in ("MODULES", "STATELESS", "MODULE_DICT_ATTRIBUTES", "PARAMETER_DICT_ATTRIBUTES"):
        assert made[name] == getattr(torch_names, name)

"""For which destinations rules hold: what they call wrong is right for Core AI where they are not asked about it."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest
from judging import judged
from torch import nn

from modellint.destinations.coreai.converter_process import ConverterProcess
from modellint.results.verification import AGREES
from modellint.rule_index import load_rules

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

BAD = re.compile(r"## Bad\n```python\n(.*?)```", re.DOTALL)
OF_DEVICES = {"NUM005"}
"""What Core ML's devices were reported for: Core AI has faults of its own (its `log1p` is a logarithm of `1 + x`)."""
ELSEWHERE = {
    code: match[1]
    for code, rule in load_rules().items()
    if not rule.holds_for("coreai")
    and code not in OF_DEVICES
    and (match := BAD.search(inspect.cleandoc(type(rule).__doc__ or "")))
    and "\ninputs = " in match[1]
}


def test_rules_about_coremltools_alone_are_few() -> None:
    assert 10 < len(ELSEWHERE) < 25


@pytest.mark.parametrize("code", ELSEWHERE)
def test_bad_is_right_for_core_ai(code: str, process: ConverterProcess, tmp_path: Path) -> None:
    file = tmp_path / f"bad_{code.lower()}.py"
    file.write_text(ELSEWHERE[code], "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == file.stem]
        model = [value for value in own if inspect.isclass(value) and issubclass(value, nn.Module)][-1]()
        verification, _ = judged(process, model, module.inputs, tmp_path)
    finally:
        del sys.modules[file.stem]
    assert verification.verdict == AGREES

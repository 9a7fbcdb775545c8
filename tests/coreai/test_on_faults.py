"""Core AI's known faults: what is kept of them against the converter that is installed, and the texts to be posted."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from modellint.data.coreai_faults import Fault, read
from modellint.destinations.coreai.converter_process import ConverterProcess
from modellint.measure import coreai_fault_page

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

if metadata.version("coreai-torch") != read().version:
    pytest.skip(f"the faults are of coreai-torch {read().version}", allow_module_level=True)


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.id) for fault in read().faults])
def test_results_are_as_they_were_measured(process: ConverterProcess, fault: Fault) -> None:
    from modellint.measure.coreai_faults import outcome

    assert outcome(fault, process, supplies=False)[:2] == (fault.result, fault.expected)
    assert outcome(fault, process, supplies=True)[0] == fault.exported


@pytest.mark.parametrize("number", [0, 9])
def test_texts_to_be_posted_run_as_they_stand(tmp_path: Path, number: int) -> None:
    texts = coreai_fault_page.reports().split("### ")[1:]
    (program,) = re.findall(r"```python\n(.*?)```", texts[number], re.DOTALL)
    (tmp_path / "fault.py").write_text(program, "utf-8")
    done = subprocess.run([sys.executable, "fault.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    expected, obtained = (eval(found) for found in re.findall(r"above:\n\n```\n(.*?)\n```", texts[number], re.DOTALL))
    numbers = [
        float(each) for each in re.findall(r"-?\d+\.?\d*(?=[,.\]])", done.stdout.splitlines()[-1].replace(" ", ","))
    ]
    assert numbers == [*map(float, expected), *map(float, obtained)]

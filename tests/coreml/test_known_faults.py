"""Known faults of coremltools: their programs, the stored results, and the pages that are made of both."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
import torch

from modellint.data.coreml_faults import BUILD, PRECISIONS, ROUTES, Results, results, text
from modellint.destinations.coreml.private.installed_capabilities import front_end_digest
from modellint.measure import coreml_faults, fault_pages
from modellint.measure.coreml_faults import Job, faults, jobs, run

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parent.parent.parent
EVERY = 5


def stored() -> Results | None:
    """What was found beside the installed version."""
    torch_version = torch.__version__.partition("+")[0]
    for found in results():
        if (found.digest, found.torch) == (front_end_digest(), torch_version):
            return found
    return None


def test_generated_pages_are_current() -> None:
    make = runpy.run_path(str(ROOT / "docs" / "make.py"))
    for path, content in make["faults"]().items():
        assert path.read_text("utf-8") == content, f"run `python docs/make.py faults` for {path.name}"


@pytest.mark.parametrize("job", [*jobs(EVERY)], ids=lambda job: f"{faults()[job[0]].id}-{job[1]}-{job[2]}")
def test_a_run_gives_what_is_stored(job: Job) -> None:
    found = stored()
    if found is None:
        pytest.skip("nothing is stored for this version")
    fault = faults()[job[0]]
    kept = found.outcomes[fault.id][fault.programs[job[1]].name]
    for key, outcome in run(job).items():
        assert outcome.result == kept[key].result, (key, outcome)


def test_every_program_was_run_beside_every_version() -> None:
    for found in results():
        for position, number, route in jobs():
            fault = faults()[position]
            outcomes = found.outcomes[fault.id][fault.programs[number].name]
            wanted = {BUILD} if route == BUILD else {f"{route} {each}" for each in PRECISIONS}
            assert wanted <= outcomes.keys()
        assert found.outcomes.keys() == {fault.id for fault in faults()}


def test_files_of_results_are_written_as_they_are_read() -> None:
    for found in results():
        path = coreml_faults.place(found.name)
        assert path.read_text("utf-8") == text(found)


def test_every_fault_is_wrong_beside_some_version() -> None:
    for fault in faults():
        seen = {
            outcome.result
            for found in results()
            for outcomes in found.outcomes[fault.id].values()
            for outcome in outcomes.values()
        }
        assert "wrong" in seen, fault.id


def test_names_tell_faults_and_programs_apart() -> None:
    assert max(Counter(fault.id for fault in faults()).values()) == 1
    assert max(Counter(fault.title for fault in faults()).values()) == 1
    for fault in faults():
        assert len({program.name for program in fault.programs}) == len(fault.programs) > 0


def test_every_report_holds_a_whole_program() -> None:
    page = fault_pages.reports()
    sections = page.split("\n## ")[1:]
    assert len(sections) > 20
    for section in sections:
        (program,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        compile(program, section.partition("\n")[0], "exec")
        assert all(f"**{part}" in section for part in ("Versions", "Minimal program", "Expected", "Obtained"))


def test_a_job_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coreml_faults, "SECONDS", 0)
    worker = coreml_faults.Worker()
    outcomes = worker.ask((0, 0, ROUTES[0]))
    worker.close()
    assert {outcome.result for outcome in outcomes.values()} == {"not run"}

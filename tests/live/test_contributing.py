"""The live rule of the contributing guide works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

GUIDE = (Path(__file__).resolve().parent.parent.parent / "CONTRIBUTING.md").read_text("utf-8")


@pytest.mark.parametrize(("section", "findings"), [("Bad", 1), ("Good", 0)])
def test_live_rule_of_the_contributing_guide_works(
    section: str, findings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (rule,) = (text for text in re.findall(r"````python\n(.*?)````", GUIDE, re.DOTALL) if "NUM900" in text)
    Path("rule.py").write_text(rule.replace("NUM900", "XYZ001"), "utf-8")
    example = re.search(rf"## {section}\n    ```python\n(.*?)    ```", rule, re.DOTALL)
    assert example is not None
    Path("net.py").write_text(re.sub(r"(?m)^    ", "", example[1]), "utf-8")
    command = ["check", "--plugin", "rule.py", "--select", "XYZ,LNT", "--output-format", "concise", "net.py:Net"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == findings, done.output
    assert done.output.count("XYZ001 the parameter `scale` holds NaN or infinity") == findings

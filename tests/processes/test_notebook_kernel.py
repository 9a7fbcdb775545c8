"""A notebook in a real kernel: it runs after a fix, and the extension checks cells in it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from modellint.cli import cli

IMPORTS = "import torch\nfrom torch.nn import Linear, Module\nhere = %pwd\n!true"
NET = """class Net(Module):
    def __init__(self):
        super().__init__()
        self.layers = [Linear(4, 4)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


net = Net()
len(list(net.parameters()))"""


def executed(notebook: nbformat.NotebookNode, allow_errors: bool = False) -> nbformat.NotebookNode:
    return NotebookClient(notebook, kernel_name="python3", timeout=120, allow_errors=allow_errors).execute()


def shown(cell: nbformat.NotebookNode) -> str:
    return "\n".join(str(output.get("data", output.get("text", output.get("ename")))) for output in cell.outputs)


def test_a_fixed_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    notebook = executed(new_notebook(cells=[new_markdown_cell("# Net"), new_code_cell(IMPORTS), new_code_cell(NET)]))
    assert "'0'" in shown(notebook.cells[2])
    nbformat.write(notebook, tmp_path / "net.ipynb")
    before = (tmp_path / "net.ipynb").read_text("utf-8").splitlines()
    assert CliRunner().invoke(cli, ["check", "net.ipynb", "--fix"]).exit_code == 0
    after = (tmp_path / "net.ipynb").read_text("utf-8").splitlines()
    assert [line for line in after if line not in before] == [
        '    "        self.layers = torch.nn.ModuleList([Linear(4, 4)])\\n",'
    ]
    fixed = nbformat.read(tmp_path / "net.ipynb", as_version=4)
    nbformat.validate(fixed)
    assert fixed.cells[2].outputs == notebook.cells[2].outputs
    assert "'2'" in shown(executed(fixed).cells[2])


def test_the_extension_checks_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [
        "%load_ext modellint",
        IMPORTS,
        f"%%modellint\n{NET}",
        "%%modellint --quiet\nsum([1, 2])",
        "%%modellint --no-run\nunknown()",
        "%%modellint --select XYZ\n1",
        "%%modellint -q\n1 / 0",
        f"%%modellint --stop error\n{NET}\nran = True",
        "ran",
        "%modellint Net(), torch.randn(1, 4)",
    ]
    done = executed(new_notebook(cells=list(map(new_code_cell, cells))), allow_errors=True).cells
    assert "cell:5:9: REG001" in shown(done[2]) and "text/html" in shown(done[2]) and "'0'" in shown(done[2])
    assert shown(done[3]) == "{'text/plain': '3'}"
    assert "All checks passed!" in shown(done[4])
    assert "unknown rule code 'XYZ'" in shown(done[5])
    assert shown(done[6]).splitlines() == ["ZeroDivisionError"] * 2
    assert "cell:5:9: REG001" in shown(done[7])
    assert "NameError" in shown(done[8])
    assert "REG001" in shown(done[9])

"""Notebooks: read as one program, told and fixed by cell, and nothing of the file changes but the lines that a fix changes."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import modellint
from modellint.cli import cli

NET = """class Net(Module):
    def __init__(self):
        super().__init__()
        self.layers = [Linear(4, 4)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x"""
IMPORTS = "%matplotlib inline\nimport os\nfrom torch.nn import Linear, Module\nfiles = !ls *.pt"


def code(source: str, **more: Any) -> dict[str, Any]:
    outputs = [{"name": "stdout", "output_type": "stream", "text": ["ein Ä", "1e5"]}]
    lines = source.splitlines(keepends=True)
    return {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {"b": 1.50, "a": 2},
        "outputs": outputs,
        "source": lines,
    } | more


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def notebook(*cells: dict[str, Any] | str, language: str = "python") -> dict[str, Any]:
    return {
        "cells": [code(cell) if isinstance(cell, str) else cell for cell in cells],
        "metadata": {"language_info": {"name": language}, "kernelspec": {"name": "k", "language": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    return tmp_path


def save(project: Path, document: dict[str, Any], name: str = "nb.ipynb", **how: Any) -> Path:
    path = project / name
    path.write_text(json.dumps(document, **({"indent": 1, "ensure_ascii": False} | how)) + "\n", "utf-8")
    return path


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def findings(*arguments: str) -> list[dict[str, Any]]:
    return list(json.loads(run("check", *arguments, "--output-format", "json").stdout))


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def test_cells_are_one_program_and_findings_stand_in_cells(project: Path) -> None:
    save(project, notebook(markdown("# Title"), IMPORTS, markdown("text"), f"%%time\n# read\n{NET}\nnet = Net()\nnet?"))
    (finding,) = findings("nb.ipynb")
    assert (finding["code"], finding["cell"]) == ("REG001", 4)
    assert finding["location"] == {"row": 6, "column": 9}
    assert finding["filename"] == str(project / "nb.ipynb")
    assert {edit["cell"] for edit in finding["fix"]["edits"]} == {2, 4}
    assert run("check", "nb.ipynb", "--output-format", "concise").stdout.startswith("nb.ipynb:cell 4:6:9: REG001 [*] ")
    shown = run("check").stdout
    assert " --> nb.ipynb:cell 4:6:9 (error)" in shown
    assert "6 |         self.layers = [Linear(4, 4)]" in shown
    assert "4 + from torch import nn" in shown


def test_a_file_of_source_has_no_cell(project: Path) -> None:
    (project / "net.py").write_text("from torch.nn import Linear, Module\n\n\n" + NET, "utf-8")
    (finding,) = findings("net.py")
    assert finding["cell"] is None
    assert "cell" not in finding["fix"]["edits"][0]


@pytest.mark.parametrize(
    "cell",
    [
        "!pip install 'x",
        "!pip install \\\n  torch \\\n  'x",
        "%load_ext autoreload\n%autoreload 2",
        "?print\nprint?\nprint??",
        "pip install torch\nls -la\nrun = 1\nrun -1\ncat = run if run else 2",
        "x = !ls\ny, z = %who_ls",
        "if True:\n    !ls\n    %cd ..",
        '%%bash\nfor x in *; do echo "$x; done',
        "%%writefile net.py\nclass Net(:",
        "# note\n%%html\n<b>'</b>",
        "await thing()\nasync with thing() as x:\n    pass",
        "x = (1\n     % 2)\ny = '''\n%time\n!ls\n'''\nz = 5 \\\n    % 3",
        "print('a');",
        "    x = 1\n    if x:\n        y = 2\nz = 3",
    ],
)
def test_what_ipython_reads_and_python_does_not(project: Path, cell: str) -> None:
    save(project, notebook(IMPORTS, cell, NET))
    (finding,) = findings("nb.ipynb")
    assert (finding["code"], finding["cell"], finding["location"]["row"]) == ("REG001", 3, 4)
    before = (project / "nb.ipynb").read_text("utf-8")
    assert run("check", "nb.ipynb", "--fix").exit_code == 0
    lines = changed(before, (project / "nb.ipynb").read_text("utf-8"))
    assert [line for line in lines if "layers" not in line and "import nn" not in line and "ls *.pt" not in line] == []


def test_a_cell_that_is_no_python_is_one_finding(project: Path) -> None:
    save(project, notebook(IMPORTS, "x = 1\ndef broken(:\n    pass", NET, "y ="))
    places = [(finding["code"], finding["cell"], finding["location"]["row"]) for finding in findings()]
    assert places == [("LNT002", 2, 2), ("REG001", 3, 4), ("LNT002", 4, 1)]


@pytest.mark.parametrize("how", [{}, {"indent": 4}, {"indent": None}, {"ensure_ascii": True}, {"indent": "\t"}])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_fix_changes_its_lines_alone(project: Path, how: dict[str, Any], as_text: bool) -> None:
    net = NET.replace("class Net", "# Ä\nclass Net")
    document = notebook(code(IMPORTS), code(net) | ({"source": net} if as_text else {}))
    path = save(project, document, **how)
    before = path.read_text("utf-8")
    done = run("check", "nb.ipynb", "--fix")
    assert (done.exit_code, "1 fixed" in done.stdout) == (0, True), done.stdout
    after = path.read_text("utf-8")
    for cell, new in ((0, "from torch import nn\n"), (1, "nn.ModuleList([Linear(4, 4)])")):
        source = "".join(json.loads(after)["cells"][cell].pop("source"))
        assert new in source
        document["cells"][cell]["source"] = source if as_text and cell else source.splitlines(keepends=True)
    assert after == json.dumps(document, **({"indent": 1, "ensure_ascii": False} | how)) + "\n"
    if how == {} and not as_text:
        assert len(changed(before, after)) == 3


def test_bytes_that_a_writer_would_change_stay(project: Path) -> None:
    text = json.dumps(notebook(IMPORTS, NET), indent=1).replace("1.5", "1.50E0").replace('"text"', '"te\\u0078t"')
    path = project / "nb.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    before = path.read_bytes()
    assert run("check", "nb.ipynb", "--fix").exit_code == 0
    after = path.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf{\r\n")
    assert b"1.50E0" in after and b'"te\\u0078t"' in after
    assert len(changed(before.decode(), after.decode())) == 3


def test_diff_is_by_cell(project: Path) -> None:
    path = save(project, notebook(markdown("x"), "%matplotlib inline\n" + IMPORTS, NET))
    before = path.read_bytes()
    done = run("check", "--diff")
    assert done.exit_code == 1
    assert "--- nb.ipynb:cell 2" in done.stdout and "+++ nb.ipynb:cell 3" in done.stdout
    assert " %matplotlib inline\n" in done.stdout or "from torch import nn" in done.stdout
    assert "Would fix 1 finding in 1 file." in done.stderr
    assert path.read_bytes() == before


def test_stdin(project: Path) -> None:
    text = json.dumps(notebook(IMPORTS, NET), indent=1)
    done = run("check", "-", "--stdin-filename", "nb.ipynb", "--output-format", "concise", stdin=text)
    assert done.stdout.startswith("nb.ipynb:cell 2:4:9: REG001")
    fixed = run("check", "-", "--stdin-filename", "nb.ipynb", "--fix", stdin=text).stdout
    assert len(changed(text, fixed)) == 3
    assert "cell 2:4:9: REG001" in repr(modellint.check_source(text, "nb.ipynb"))


def test_comments_suppress_and_are_written(project: Path) -> None:
    path = save(project, notebook(IMPORTS, NET))
    before = path.read_text("utf-8")
    assert run("check", "--add-ignore").exit_code == 0
    lines = changed(before, path.read_text("utf-8"))
    assert [line[0] for line in lines] == ["-", "+"]
    assert "# modellint: ignore[REG001]" in lines[1]
    assert run("check").exit_code == 0
    save(project, notebook("# modellint: file-ignore[REG001]", IMPORTS, NET))
    assert run("check").exit_code == 0


def test_settings_baseline_and_cache(project: Path) -> None:
    save(project, notebook(IMPORTS, NET))
    assert run("check").stdout == run("check").stdout
    assert run("check", "--baseline", "known.json", "--write-baseline").exit_code == 0
    save(project, notebook("1 + 1", IMPORTS, markdown("more"), "\n\n" + NET))
    assert run("check", "--baseline", "known.json").exit_code == 0
    (project / "pyproject.toml").write_text('[tool.modellint.per-file-ignores]\n"*.ipynb" = ["REG"]\n', "utf-8")
    assert run("check").exit_code == 0
    (project / "pyproject.toml").write_text("[tool.modellint]\nexclude = ['*.ipynb']\n", "utf-8")
    done = run("check")
    assert (done.exit_code, "nothing was checked" in done.stderr) == (2, True)
    assert run("check", "nb.ipynb").exit_code == 1


@pytest.mark.parametrize("form", ["github", "gitlab", "pylint", "sarif"])
def test_formats_without_cells_name_the_line_of_the_file(project: Path, form: str) -> None:
    path = save(project, notebook(IMPORTS, NET))
    line = next(
        number for number, line in enumerate(path.read_text("utf-8").split("\n"), 1) if "self.layers = [" in line
    )
    shown = run("check", "--output-format", form).stdout
    assert "cell 2:4:9: `self.layers` keeps" in shown
    place = {
        "github": f",line={line},endLine={line},",
        "gitlab": f'"begin": {line},',
        "pylint": f"nb.ipynb:{line}:0:",
        "sarif": f'"startLine": {line}',
    }
    assert place[form] in shown
    # The edits are of the cell's text, which the file spells in another way.
    assert "insertedContent" not in shown


@pytest.mark.parametrize("form", ["grouped", "junit", "html"])
def test_formats_with_cells(project: Path, form: str) -> None:
    save(project, notebook(IMPORTS, NET))
    assert "cell 2:4:9" in run("check", "--output-format", form).stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not a notebook: Expecting value"),
        ("[]", "not a notebook: it has no `nbformat`"),
        ('{"nbformat": 4}', "no list of `cells`"),
        ('{"nbformat": 4, "cells": [1]}', "cell 1 has no `source`"),
        ('{"nbformat": 3, "worksheets": []}', "nbconvert --to notebook"),
        ('{"nbformat": 4, "cells": [], "x": ' + "[" * 100_000, "not a notebook"),
    ],
)
def test_what_is_no_notebook(project: Path, text: str, told: str) -> None:
    (project / "nb.ipynb").write_text(text, "utf-8")
    (finding,) = findings()
    assert finding["code"] == "LNT002"
    assert told in finding["message"]


def test_another_language(project: Path) -> None:
    save(project, notebook("x <- c(1", language="R"))
    done = run("check", "nb.ipynb")
    assert (done.exit_code, "in R" in done.stderr) == (2, True)
    (project / "net.py").write_text("import torch\n", "utf-8")
    assert run("check").exit_code == 0
    save(project, notebook(IMPORTS, code("const x = ;", metadata={"vscode": {"languageId": "javascript"}}), NET))
    assert [finding["cell"] for finding in findings("nb.ipynb")] == [3]


def test_what_is_yet_to_be_written(project: Path) -> None:
    save(project, notebook(IMPORTS, "class Net(Module):\n    def forward(self, x):\n        return ..."))
    assert findings("nb.ipynb") == []


def test_what_several_cells_bind_is_not_known(project: Path) -> None:
    uses = "class Net(nn.Module):\n    def forward(self, x):\n        return x * scale"
    head = "import torch\nfrom torch import nn\nscale = 1e9"
    save(project, notebook(head, uses))
    assert [finding["code"] for finding in findings("nb.ipynb")] == ["NUM001"]
    save(project, notebook(head, uses, "scale = 2.0"))
    assert findings("nb.ipynb") == []
    # Imports that say the same twice are no doubt.
    save(project, notebook(head, "import torch\nfrom torch import nn", uses))
    assert [finding["code"] for finding in findings("nb.ipynb")] == ["NUM001"]


@pytest.mark.parametrize(
    "patch",
    [
        "def init(self): ...\nNet.__init__ = init",
        "setattr(Net, 'forward', print)",
        "@add_to_class(Net)\ndef forward(self, x): ...",
        "@patch\ndef forward(self: Net, x): ...",
    ],
)
def test_a_class_that_is_patched_is_not_understood(project: Path, patch: str) -> None:
    save(project, notebook(IMPORTS, NET, patch))
    assert findings("nb.ipynb") == []

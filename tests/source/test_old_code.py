"""Beginning in a project that has findings already: a baseline, comments that suppress."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cli import cli
from modellint.rule import Page
from modellint.run import all_rules

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
NET = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n        self.heads = {'a': nn.Linear(1, 1)}\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.modellint]\nbaseline = 'known.json'\n", "utf-8")
    (tmp_path / "net.py").write_text(HEAD + NET, "utf-8")
    assert run("--write-baseline").exit_code == 0
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", "--output-format", "concise", *arguments], input=stdin)


def codes(result: Result) -> list[str]:
    return [line.split()[1] for line in result.stdout.splitlines() if ".py:" in line]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + NET,
        HEAD + "\n\n# moved\n\n" + NET,
        HEAD + "class Other(nn.Module):\n    pass\n\n\n" + NET.replace("Net", "Net2"),
        HEAD + NET.replace("[nn.Linear(1, 1)]", "[  # a comment\n            nn.Linear( 1,1 ),\n        ]"),
    ],
    ids=["the same", "moved", "neighbours", "formatted"],
)
def test_known_findings_are_not_reported(project: Path, text: str) -> None:
    (project / "net.py").write_text(text, "utf-8")
    done = run()
    assert (done.exit_code, done.stdout) == (0, "All checks passed!\n")
    assert "not shown: 2 findings that stand in known.json" in done.stderr
    assert "no longer" not in done.stderr
    assert run("-q").stderr == ""


def test_what_is_new_is_reported(project: Path) -> None:
    net = project / "net.py"
    net.write_text(HEAD + NET + "        self.more = [nn.Linear(1, 1)]\n", "utf-8")
    assert codes(run()) == ["REG001"]
    # Of two that are equal one is known.
    net.write_text(HEAD + NET + "\n\n" + NET.replace("Net", "Net2"), "utf-8")
    done = run()
    assert codes(done) == ["REG001", "REG002"]
    assert "net.py:16:9" in done.stdout
    net.rename(project / "other.py")
    assert len(codes(run("other.py"))) == 4
    assert codes(run("-", "--stdin-filename", "net.py", stdin=HEAD + NET)) == []


def test_what_is_gone_is_told_and_taken_out(project: Path) -> None:
    (project / "net.py").write_text(HEAD + NET.replace("[nn.Linear(1, 1)]", "nn.ModuleList()"), "utf-8")
    (project / "clean.py").write_text("", "utf-8")
    done = run()
    assert done.exit_code == 0
    assert "1 finding is no longer there" in done.stderr
    assert "net.py: REG001 `self.layers`" in done.stderr
    # Neither a run of another file nor one of other rules can tell.
    assert "no longer" not in run("clean.py").stderr + run("--select", "REG002").stderr
    assert "2 findings, 0 new, 0 no longer there" in run("--write-baseline", "clean.py").stderr
    assert "2 findings, 0 new, 0 no longer there" in run("--write-baseline", "--select", "REG002").stderr
    assert "1 finding, 0 new, 1 no longer there" in run("--write-baseline").stderr
    (project / "net.py").unlink()
    assert "net.py: REG002" in run("clean.py").stderr


def test_known_findings_are_not_fixed(project: Path) -> None:
    (project / "net.py").write_text(HEAD + NET + "        self.more = [nn.Linear(1, 1)]\n", "utf-8")
    assert run("--fix").exit_code == 0
    assert (project / "net.py").read_text(
        "utf-8"
    ) == HEAD + NET + "        self.more = nn.ModuleList([nn.Linear(1, 1)])\n"


def test_what_was_not_checked_is_never_known(project: Path) -> None:
    (project / "broken.py").write_text("class Net(:\n", "utf-8")
    assert codes(run("--write-baseline")) == ["LNT002"]
    assert {entry["code"] for entry in json.loads((project / "known.json").read_text("utf-8"))["findings"]} == {
        "REG001",
        "REG002",
    }


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2, "findings": []}', '{"version": 1, "findings": [{}]}'])
def test_wrong_baseline(project: Path, text: str) -> None:
    (project / "known.json").write_text(text, "utf-8")
    done = run()
    assert done.exit_code == 2
    assert "known.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_baseline_that_is_not_there(project: Path) -> None:
    assert run("--baseline", "nowhere.json").exit_code == 2
    assert run("--isolated", "--write-baseline").exit_code == 2
    assert run("--write-baseline", "--diff").exit_code == 2
    assert run("--baseline", "nowhere/x.json", "--write-baseline").exit_code == 2


@pytest.mark.parametrize("option", [["-o", "known.json"], ["--output-format", "json=known.json"]])
def test_findings_are_never_written_into_the_baseline(project: Path, option: list[str]) -> None:
    assert run("--write-baseline").exit_code == 0
    before = (project / "known.json").read_bytes()
    done = run(*option)
    assert done.exit_code == 2
    assert "the baseline" in done.stderr
    assert (project / "known.json").read_bytes() == before


TEXTS = {
    "single": ("        self.a = [nn.Linear(1, 1)]", "        self.a = [nn.Linear(1, 1)]  # modellint: ignore[REG001]"),
    "reason": ("        self.a = [nn.Linear(1, 1)]  # why", "        self.a = [nn.Linear(1, 1)]  # why  # modellint: ignore[REG001]"),
    "known": (
        "        self.a = [nn.Linear(1, 1)]  # modellint: ignore[OPS001] why",
        "        self.a = [nn.Linear(1, 1)]  # modellint: ignore[OPS001, REG001] why",
    ),
    "lines": (
        '        self.a = [\n            nn.Linear(1, 1), """\n  # no comment\n""",\n        ]',
        '        self.a = [\n            nn.Linear(1, 1), """\n  # no comment\n""",\n        ]  # modellint: ignore[REG001]',
    ),
    "string": (
        '        self.a = [nn.Linear(1, 1)]; x = """\na\n"""',
        '        self.a = [nn.Linear(1, 1)]; x = """\na\n"""  # modellint: ignore[REG001]',
    ),
    "backslash": (
        "        self.a = [nn.Linear(1, 1)]; x = 1 + \\\n            2",
        "        self.a = [nn.Linear(1, 1)]; x = 1 + \\\n            2  # modellint: ignore[REG001]",
    ),
    "two": (
        "        self.a, self.b = [nn.Linear(1, 1)], {'a': nn.Linear(1, 1)}",
        "        self.a, self.b = [nn.Linear(1, 1)], {'a': nn.Linear(1, 1)}  # modellint: ignore[REG001, REG002]",
    ),
    "header": (
        "    def forward(self, x): return F.dropout(x, 0.1)",
        "    def forward(self, x): return F.dropout(x, 0.1)  # noqa: MOD002",
    ),
}  # fmt: skip


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("name", TEXTS)
def test_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: bool, newline: str) -> None:
    monkeypatch.chdir(tmp_path)
    head = HEAD.replace("import torch\n", "# coding: latin-1\nimport torch\n", 1) + "é = 1\n\n\n"
    head += "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    before, after = ((head + text + "\n" * end).replace("\n", newline).encode("latin-1") for text in TEXTS[name])
    net = tmp_path / "net.py"
    net.write_bytes(before)
    shown = run("--add-ignore", "--diff", "--select", "REG,MOD")
    assert "ignore[" in shown.stdout or "noqa" in shown.stdout
    assert net.read_bytes() == before
    done = run("--add-ignore", "--select", "REG,MOD")
    assert net.read_bytes() == after
    assert (done.exit_code, done.stdout) == (0, "All checks passed!\n")
    assert "Suppressed 0 findings" in run("--add-ignore", "--select", "REG,MOD").stderr
    assert net.read_bytes() == after


def test_comments_at_the_findings_of_all_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = all_rules()
    texts = {
        f"{code.lower()}.py": Page.of(rule.__class__).example("Bad")
        for code, rule in rules.items()
        if code[:3] not in ("ENV", "LNT")
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    before = codes(run("--select", "ALL"))
    assert len({*before}) > 40
    assert run("--select", "ALL", "--add-ignore").exit_code == 0
    assert codes(run("--select", "ALL")) == []
    for name, text in texts.items():
        assert ast.dump(ast.parse((tmp_path / name).read_text("utf-8"))) == ast.dump(ast.parse(text))


def test_comments_are_refused_where_they_do_not_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "net.py").write_text(HEAD + NET, "utf-8")
    done = run("--add-ignore", "site-packages")
    assert done.exit_code == 1
    assert "no comment written" in done.stderr
    assert (folder / "net.py").read_text("utf-8") == HEAD + NET
    assert run("--add-ignore", "--fix").exit_code == 2
    assert run("--add-ignore", "-", stdin="").exit_code == 2

"""The command line: what it prints, where, and with which status it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modellint.cache import Store
from modellint.cli import cli
from modellint.run import Checker

BAD = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(1, 1)]\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(BAD, "utf-8")
    return tmp_path


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def test_formats(project: Path) -> None:
    concise = run("check", "--output-format", "concise")
    assert concise.exit_code == 1
    assert concise.stdout.startswith("net.py:7:9: REG001 [*] `self.layers` keeps modules in a plain list")
    (entry,) = json.loads(run("check", "--output-format", "json").stdout)
    assert entry["filename"] == str(project / "net.py")
    assert (entry["code"], entry["severity"], entry["url"]) == ("REG001", "error", None)
    assert entry["location"] == {"row": 7, "column": 9}
    assert entry["fix"]["applicability"] == "safe"
    assert (entry["evidence"], entry["target"], entry["modules"], entry["operator"]) == ("source", None, [], None)
    report = json.loads(run("check", "--output-format", "report").stdout)
    assert set(report) == {"version", "diagnostics", "targets"}


def test_exit_statuses(project: Path) -> None:
    assert run("check", "--exit-zero").exit_code == 0
    assert run("check", "--fail-level", "never").exit_code == 0
    assert run("check", "--ignore", "REG").exit_code == 0
    assert run("check", "nowhere.py").exit_code == 2
    assert run("check", "--select", "REG901").exit_code == 2
    assert run("check", "--frontend", "trace").exit_code == 2
    assert run("check", "net.py", "--input", "1x3").exit_code == 2


def test_fix_and_diff(project: Path) -> None:
    diff = run("check", "--diff")
    assert diff.exit_code == 1
    assert "+        self.layers = nn.ModuleList([nn.Linear(1, 1)])" in diff.stdout
    assert (project / "net.py").read_text("utf-8") == BAD
    assert run("check", "--fix").exit_code == 0
    assert "nn.ModuleList([nn.Linear(1, 1)])" in (project / "net.py").read_text("utf-8")
    assert run("check").exit_code == 0
    assert run("check", "--diff").exit_code == 0


def test_exit_non_zero_on_fix(project: Path) -> None:
    assert run("check", "--fix", "--exit-non-zero-on-fix").exit_code == 1


def test_stdin(project: Path) -> None:
    assert run("check", "-", "--output-format", "concise", stdin=BAD).exit_code == 1
    fixed = run("check", "-", "--fix", "--stdin-filename", "other.py", stdin=BAD)
    assert "nn.ModuleList(" in fixed.stdout
    assert fixed.exit_code == 0


def test_nearest_name_is_told(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.modellint]\nselct = ['REG']\n", "utf-8")
    done = run("check")
    assert done.exit_code == 2
    assert "unknown key 'selct'; did you mean 'select'?" in done.stderr


def test_settings_file(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.modellint]\nper-file-ignores = { 'net.py' = ['REG001'] }\n", "utf-8")
    assert run("check").exit_code == 0
    assert run("check", "--isolated").exit_code == 1
    (project / "modellint.toml").write_text("exclude = ['net.py']\n", "utf-8")
    assert run("check").exit_code == 2
    assert run("check", "net.py").exit_code == 1
    assert run("check", "--force-exclude", "net.py").exit_code == 0
    assert "exclude = ['net.py']" in run("config").stdout


def test_gitignore(project: Path) -> None:
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("net.py\n", "utf-8")
    (project / "model.py").write_text("", "utf-8")
    assert run("check").exit_code == 0
    (project / "model.py").unlink()
    done = run("check")
    assert done.exit_code == 2
    assert "nothing was checked: there are no Python files or notebooks in ." in done.stderr


def test_never_fixes_site_packages(project: Path) -> None:
    folder = project / "site-packages"
    folder.mkdir()
    (folder / "net.py").write_text(BAD, "utf-8")
    done = run("check", "--fix", "site-packages/net.py")
    assert done.exit_code == 1
    assert (folder / "net.py").read_text("utf-8") == BAD


def test_rule_pages() -> None:
    assert "## Fix safety" in run("rule", "REG001").stdout
    assert run("rule", "REG099").exit_code == 2
    assert len(json.loads(run("rule", "--all", "--output-format", "json").stdout)) >= 9


@pytest.mark.parametrize(
    "data", [b"print 'x'\nclass A: pass\n", b"class A: pass\n\0", b"# coding: nope\nclass A: pass\n"]
)
def test_unreadable_files(project: Path, data: bytes) -> None:
    (project / "net.py").write_bytes(data)
    done = run("check", "--output-format", "concise")
    assert done.exit_code == 1
    assert "LNT002" in done.stdout
    assert "Traceback" not in done.output


def test_deep_expression(project: Path) -> None:
    sum_ = " + ".join(["1"] * 3000)
    (project / "net.py").write_text(BAD + f"        self.n = {sum_}\n", "utf-8")
    assert "REG001" in run("check", "--output-format", "concise").stdout


def test_newlines_and_encodings_are_kept(project: Path) -> None:
    for newline in ("\r\n", "\r"):
        text = BAD.replace("\n", newline) + "# 층" + newline
        data = b"\xef\xbb\xbf" + text.encode()
        (project / "net.py").write_bytes(data)
        assert run("check", "--fix").exit_code == 0
        wanted = text.replace("[nn.Linear(1, 1)]", "nn.ModuleList([nn.Linear(1, 1)])")
        assert (project / "net.py").read_bytes() == b"\xef\xbb\xbf" + wanted.encode()


def test_cache_follows_other_files(project: Path) -> None:
    (project / "base.py").write_text("class Base:\n    pass\n", "utf-8")
    (project / "net.py").write_text("from base import Base\n" + BAD.replace("nn.Module", "Base"), "utf-8")
    assert run("check").exit_code == 0
    (project / "base.py").write_text("from torch import nn\nclass Base(nn.Module):\n    pass\n", "utf-8")
    assert run("check").exit_code == 1


def test_cache_of_many_files_is_kept_together(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "base.py").write_text("from torch import nn\nclass Base(nn.Module):\n    pass\n", "utf-8")
    for number in range(30):
        clean = BAD.replace("[nn.Linear(1, 1)]", "nn.Linear(1, 1)")
        text = clean if number % 6 else "from base import Base\n" + BAD.replace("nn.Module", "Base")
        (project / f"net{number}.py").write_text(text, "utf-8")

    def opened(*arguments: str) -> int:
        """How many entries a check reads; it prints what one without the cache does."""
        names: list[str] = []
        with monkeypatch.context() as patch:
            load = Store.load
            patch.setattr(Store, "load", lambda store, name: names.append(name) or load(store, name))
            cached = run("check", "--jobs", "1", *arguments)
        plain = run("check", "--no-cache", "--jobs", "2", *arguments)
        assert (cached.exit_code, cached.stdout) == (plain.exit_code, plain.stdout)
        return len(names)

    assert opened() > 30
    assert opened() == 1
    (project / "net1.py").write_text(BAD, "utf-8")
    assert 1 < opened() < 20
    (project / "base.py").write_text("class Base:\n    pass\n", "utf-8")
    assert 1 < opened() < 20
    assert opened("--select", "REG") > 30
    for bundle in (project / ".modellint_cache").rglob("*.json"):
        if "rows" in (text := bundle.read_text("utf-8")):
            bundle.write_text(text.replace("rows", "lines"), "utf-8")
    assert opened() > 30
    assert run("check", "--jobs", "2").stdout == run("check", "--no-cache").stdout
    assert opened() == 1


LOOKS = [
    ("--output-format", "full"),
    ("--output-format", "concise"),
    ("--output-format", "grouped"),
    ("--output-format", "json"),
    ("--quiet",),
    ("--exit-zero",),
    ("--fail-level", "never"),
    ("--unsafe-fixes",),
    ("--color", "always"),
    ("--statistics",),
]


def test_what_a_run_printed_is_kept_while_nothing_changes(project: Path) -> None:
    base = project / "base.py"
    texts = [f"from torch import nn\nclass Base({name}):\n    pass\n" for name in ("nn.Module", "object", "nn.Module")]
    for number in range(30):
        (project / f"net{number}.py").write_text("from base import Base\n" + BAD.replace("nn.Module", "Base"), "utf-8")
    findings: list[str] = []
    for text in texts:
        # No finding is in this file, and all rest on it.
        base.write_text(text, "utf-8")
        for look in LOOKS:
            plain = run("check", "--no-cache", *look)
            for _ in range(2):
                cached = run("check", *look)
                assert (cached.exit_code, cached.stdout, cached.stderr) == (plain.exit_code, plain.stdout, plain.stderr)
        findings.append(run("check").stdout)
    assert findings[0] == findings[2] != findings[1]


def test_a_report_that_was_kept_shows_the_files_of_today(project: Path) -> None:
    for number in range(30):
        (project / f"net{number}.py").write_text(BAD, "utf-8")
    before = run("check")
    assert run("check").stdout == before.stdout
    (project / "net7.py").write_text(BAD.replace("layers", "blocks"), "utf-8")
    for _ in range(3):
        after = run("check")
        assert after.stdout == run("check", "--no-cache").stdout != before.stdout
    (project / "net7.py").unlink()
    assert run("check").stdout == run("check", "--no-cache").stdout
    settings = project / "pyproject.toml"
    settings.write_text('[tool.modellint]\nignore = ["REG"]\n', "utf-8")
    for _ in range(2):
        assert run("check").stdout == run("check", "--no-cache").stdout


GOOD = BAD.replace("[nn.Linear(1, 1)]", "nn.ModuleList([nn.Linear(1, 1)])")


def many(project: Path, text: str) -> None:
    for number in range(30):
        (project / f"net{number}.py").write_text(text, "utf-8")
    (project / "net.py").write_text(text, "utf-8")


def test_no_report_is_kept_of_files_that_change_while_they_are_checked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(project, GOOD)
    assert run("check", "--jobs", "1").exit_code == 0
    many(project, BAD)
    check = Checker.check

    def checked(checker: Checker, path: Path) -> object:
        findings = check(checker, path)
        path.write_text(GOOD, "utf-8")
        return findings

    with monkeypatch.context() as patch:
        patch.setattr(Checker, "check", checked)
        assert run("check", "--jobs", "1").exit_code == 1
    for _ in range(2):
        assert run("check", "--jobs", "1").stdout == run("check", "--no-cache").stdout == "All checks passed!\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text", "\x1b]0;title\x07\x1b[2JAll checks passed!\n"),
        ("text", "\u202eAll checks passed!\n"),
        ("text", ["a"]),
        ("status", float("inf")),
        ("status", 10**40),
        ("status", True),
        ("folders", {"/": [1, "a"]}),
        ("names", None),
    ],
)
def test_a_report_that_was_not_kept_by_a_run_is_not_shown(project: Path, key: str, value: object) -> None:
    many(project, BAD)
    plain = run("check", "--no-cache")
    assert run("check").stdout == plain.stdout
    for kept in (project / ".modellint_cache").rglob("*.json"):
        entry = json.loads(kept.read_text("utf-8"))
        if "text" in entry:
            kept.write_text(json.dumps({**entry, key: value}), "utf-8")
    again = run("check")
    assert (again.exit_code, again.stdout, again.exception is None) == (1, plain.stdout, plain.exception is None)


def test_fixes_of_a_warm_cache_are_those_of_a_cold_one(project: Path) -> None:
    base = BAD.replace("Net", "Base") + "\n    def forward(self, x):\n        return self.layers[0](x)\n"
    net = BAD.replace("[nn.Linear(1, 1)]", "nn.Linear(1, 1)").replace("nn.Module", "Base").replace("layers", "other")
    net = "from a_base import Base\n" + net + "        self.more = {'a': self.layers[0]}\n"
    outcomes = []
    for warm in (False, True):
        (project / "a_base.py").write_text(base, "utf-8")
        (project / "net.py").write_text(net, "utf-8")
        if warm:
            run("check")
        done = run("check", "--fix")
        outcomes.append(
            (done.stdout, (project / "a_base.py").read_text("utf-8"), (project / "net.py").read_text("utf-8"))
        )
    assert outcomes[0] == outcomes[1]
    assert "nn.ModuleList" in outcomes[0][1]


def test_traps_are_not_run(project: Path) -> None:
    trap = f"open({str(project / 'sprung')!r}, 'w').close()\n"
    for name in ("conftest.py", "sitecustomize.py", "setup.py", "__init__.py"):
        (project / name).write_text(trap, "utf-8")
    (project / "net.py").write_text(trap + BAD, "utf-8")
    nested = project / "nested"
    nested.mkdir()
    (nested / "pyproject.toml").write_text("[tool.modellint]\nplugins = ['evil']\n", "utf-8")
    (nested / "evil.py").write_text(trap + BAD, "utf-8")
    done = run("check")
    assert done.exit_code == 1
    assert "plugins count only in the settings of" in done.stderr
    assert not (project / "sprung").exists()

"""Rules by others: which are loaded, what is told of those that are not, and that nothing of a checked folder runs."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import modellint
from modellint import plugins
from modellint.cli import cli
from modellint.testing import assert_page, rule_codes

RULE = '''\
from modellint.authoring import ModuleClass, Rule, Severity


class Named(Rule):
    """Every class, for a test."""

    code, name, severity = "{code}", "{name}", Severity.WARNING

    def source(self, cls: ModuleClass):
        yield cls.finding(self, cls.node, "seen by {name}")
'''
NET = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n"


def rule(code: str = "XYZ001", name: str = "named") -> str:
    return RULE.format(code=code, name=name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "modellint"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "net.py").write_text(NET, "utf-8")
    (folder / "pyproject.toml").write_text("", "utf-8")
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, which is no folder of this Python's own."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("acme_rules", "other_rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def install(folder: Path, module: str, text: str, entry: str = "acme", package: str = "acme-rules") -> None:
    (folder / f"{module}.py").write_text(text, "utf-8")
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text(f"[modellint.rules]\n{entry} = {module}\n", "utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def check(*options: str) -> Result:
    return run("check", "--no-cache", "--select", "ALL", "--output-format", "concise", *options)


def test_plugins_of_a_repository_are_left_out_with_a_word(project: Path, home: Path) -> None:
    (project / "rules").mkdir()
    (project / "rules" / "named.py").write_text(rule(), "utf-8")
    (project / "pyproject.toml").write_text('[tool.modellint]\nplugins = ["rules"]\nselect = ["XYZ", "REG"]\n', "utf-8")
    left_out = run("check", "--no-cache")
    assert left_out.exit_code == 0
    assert left_out.stderr.count("left out: rules; --trust-plugins loads them") == 1
    assert str(project / "pyproject.toml") in left_out.stderr
    trusted = run("check", "--no-cache", "--trust-plugins", "--output-format", "concise")
    assert "net.py:4:1: XYZ001 seen by named" in trusted.stdout
    assert trusted.stderr == ""
    for paths in (str(project), f"{project.parent}/*"):
        (home / "modellint.toml").write_text(f"[trust]\npaths = [{paths!r}]\n", "utf-8")
        assert "XYZ001" in run("check", "--no-cache", "--output-format", "concise").stdout
    for paths in (str(project.parent), f"{project}/net.py", f"{project.parent}/proj*"):
        (home / "modellint.toml").write_text(f"[trust]\npaths = [{paths!r}]\n", "utf-8")
        assert "left out: rules" in run("check", "--no-cache").stderr


def test_codes_that_nobody_can_know_are_told_all_the_same(project: Path) -> None:
    (project / "modellint.toml").write_text('plugins = ["rules"]\nselect = ["XYZ", "REG0001"]\n', "utf-8")
    assert "did you mean 'REG001'?" in run("check").stderr
    (project / "modellint.toml").write_text('plugins = ["rules"]\n', "utf-8")
    said = run("check", "--select", "XYZ").stderr
    assert "unknown rule code 'XYZ'" in said
    assert "plug-ins that are left out: rules (--plugin or --trust-plugins loads them)" in said
    assert "--plugin NAME loads it" in run("rule", "XYZ001").stderr


def test_plugins_of_the_user(project: Path, home: Path) -> None:
    (home / "own.py").write_text(rule(), "utf-8")
    (home / "modellint.toml").write_text('plugins = ["own.py"]\n', "utf-8")
    assert "seen by named" in check().stdout
    assert "seen by named" not in check("--isolated").stdout
    assert {finding.code for finding in modellint.check_source(NET).diagnostics} == {"XYZ001"}
    listed = run("config").stdout
    assert f"plug-in own.py = XYZ001  # {home / 'modellint.toml'}" in listed


def test_settings_in_the_project_are_nobodys_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "modellint"
    folder.mkdir()
    (folder / "own.py").write_text(rule(), "utf-8")
    (folder / "modellint.toml").write_text('plugins = ["own.py"]\n', "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project))
    done = check("net.py")
    assert "XYZ001" not in done.stdout
    assert "is nobody's own; ignored" in done.stderr
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    assert "XYZ001" not in check("net.py").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select = ['REG']", "'select' has no place here"),
        ("plugins = 'own.py'", "plugins must be a list of strings"),
        ("[trust]\npaths = ['work']", "'work' is not absolute"),
        ("[trust]\npath = []", "[trust] must be a table with the key `paths`"),
        ("plugins = ['gone.py']", "gone.py"),
        ("[", "not valid TOML"),
    ],
)
def test_mistakes_in_the_settings_of_the_user(home: Path, text: str, said: str) -> None:
    (home / "modellint.toml").write_text(text, "utf-8")
    done = run("check")
    assert done.exit_code == 2
    assert said in done.stderr
    assert str(home / "modellint.toml") in done.stderr


def test_installed_plugins_load_by_name_alone(project: Path, site: Path) -> None:
    install(site, "acme_rules", rule())
    assert "XYZ001" not in check().stdout
    assert "seen by named" in check("--plugin", "acme").stdout
    assert "seen by named" in check("--plugin", "acme_rules").stdout
    # A folder of that name is not what was meant.
    (project / "acme").mkdir()
    (project / "acme" / "trap.py").write_text("open('sprung', 'w')\n", "utf-8")
    (project / "acme_rules.py").write_text("open('sprung', 'w')\n", "utf-8")
    for name in ("acme", "acme_rules"):
        assert "seen by named" in check("--plugin", name).stdout
    assert not (project / "sprung").exists()
    told = json.loads(run("config", "--output-format", "json", "--plugin", "acme").stdout)["plugins"]
    assert told["loaded"] == [{"name": "acme", "origin": "--plugin", "rules": ["XYZ001"]}]
    assert {"name": "acme", "module": "acme_rules", "package": "acme-rules 1.0", "source": ""} in told["installed"]
    assert run("rule", "XYZ001").exit_code == 2
    assert "XYZ001  named" in run("rule", "--plugin", "acme").stdout


def test_what_lies_in_the_project_is_not_installed(project: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(project, "acme_rules", "open('sprung', 'w')\n")
    monkeypatch.syspath_prepend(str(project))
    for name in ("acme", "acme_rules"):
        done = check("--plugin", name)
        assert done.exit_code == 2
        assert "nothing installed is called so" in done.stderr
    assert "acme" not in run("config").stdout
    assert not (project / "sprung").exists()


def test_packages_of_an_environment_in_the_project_are_installed(
    project: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = project / ".venv" / "site-packages"
    packages.mkdir(parents=True)
    install(packages, "acme_rules", rule())
    monkeypatch.syspath_prepend(str(packages))
    paths = sysconfig.get_paths()
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {**paths, "purelib": str(packages)})
    plugins._python_folders.cache_clear()
    try:
        assert "seen by named" in check("--plugin", "acme").stdout
    finally:
        plugins._python_folders.cache_clear()


def test_a_package_that_is_a_link_is_used_while_it_is_checked(
    project: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "acme_rules", rule())
    (site / "acme_rules.py").rename(project / "acme_rules.py")
    monkeypatch.syspath_prepend(str(project))
    assert "no folder or Python file" not in check("--plugin", "acme_rules.py").stderr
    assert "No module named 'acme_rules'" in check("--plugin", "acme").stderr
    told = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (site / "acme_rules-1.0.dist-info" / "direct_url.json").write_text(json.dumps(told), "utf-8")
    assert "seen by named" in check("--plugin", "acme").stdout
    monkeypatch.delitem(sys.modules, "acme_rules")
    # A link to somewhere else says nothing of what is checked.
    told["url"] = (project.parent / "elsewhere").as_uri()
    (site / "acme_rules-1.0.dist-info" / "direct_url.json").write_text(json.dumps(told), "utf-8")
    assert "No module named 'acme_rules'" in check("--plugin", "acme").stderr


def test_two_packages_that_offer_one_name(site: Path) -> None:
    install(site, "acme_rules", rule())
    install(site, "other_rules", rule(), package="other-rules")
    done = check("--plugin", "acme")
    assert done.exit_code == 2
    assert "acme-rules 1.0 and other-rules 1.0 both offer it" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import nothing_of_that_name",
            "ModuleNotFoundError: No module named 'nothing_of_that_name' (project/odd.py:1)",
        ),
        ("class", "odd.py:1: invalid syntax"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (project/odd.py:2)"),
        ("x = 1", "has no rule"),
        (rule("REG001"), "the code REG001 is that of another rule, in "),
        (rule("LNT001"), "the code LNT001 is that of another rule, in "),
        (rule(name="module-in-list"), "the name module-in-list is that of another rule, in "),
        (rule("XY1"), "odd.py:4: Named: 'XY1' is no code"),
        (rule().replace(", Severity.WARNING", ", 'warning'"), "it needs a `severity`"),
        (rule().replace("cls: ModuleClass", "cls: 'ModuleClas'"), "odd.py:9: XYZ001 (Named) would never be asked"),
        (rule().replace("def source", "def sauce"), "it has neither `source` nor `live`"),
        (
            rule().replace("    def source", "    live_needs = 'value'\n\n    def source"),
            "`live_needs`: value is none of",
        ),
        (rule().replace("def source(self, cls: ModuleClass)", "def __init__(self)"), "neither `source` nor `live`"),
        (rule() + "\n    def __init__(self):\n        raise OSError('no')\n", "OSError: no (project/odd.py:"),
    ],
)
def test_plugin_that_cannot_be_used(project: Path, text: str, said: str) -> None:
    (project / "odd.py").write_text(text, "utf-8")
    done = check("--plugin", "odd.py")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: plug-in 'odd.py' (--plugin)")
    assert said in done.stderr
    assert "odd.py" in done.stderr
    assert done.stderr.count("\n") == 1


def test_clash_of_two_plugins(project: Path) -> None:
    for name in ("first.py", "second.py"):
        (project / name).write_text(rule(name=name[:-3]), "utf-8")
    done = check("--plugin", "first.py", "--plugin", "second.py")
    assert done.exit_code == 2
    assert "first.py" in done.stderr
    assert "second.py" in done.stderr
    # What is named twice is one.
    assert check("--plugin", "first.py", "--plugin", "./first.py").stdout.count("XYZ001") == 1


def test_rule_that_raises_is_told_with_its_plugin(project: Path) -> None:
    (project / "odd.py").write_text(rule().replace("cls.finding", "cls.findling"), "utf-8")
    (project / "net.py").write_text(NET.replace("pass", "x = 1  # noqa: REG001"), "utf-8")
    done = check("--plugin", "odd.py", "net.py")
    assert "LNT004 rule XYZ001 of the plug-in 'odd.py' failed here: AttributeError" in done.stdout
    # The others went on.
    assert "LNT001" in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("return 5", "NoFinding: `source` returns int; a rule yields its findings (project/odd.py:9)"),
        (
            "return cls.finding(self, cls.node, 'x')",
            "NoFinding: `source` returns a finding; a rule yields its findings (pro",
        ),
        (
            "yield 5",
            "NoFinding: a rule yields findings, made by what it is asked about, and not int (project/odd.py:9)",
        ),
        ("exit(0)", "RuntimeError: SystemExit (project/odd.py:"),
    ],
)
def test_rule_that_does_what_no_rule_may(project: Path, line: str, said: str) -> None:
    (project / "odd.py").write_text(rule().replace('yield cls.finding(self, cls.node, "seen by named")', line), "utf-8")
    done = check("--plugin", "odd.py", "net.py")
    assert f"LNT004 rule XYZ001 of the plug-in 'odd.py' failed here: {said}" in done.stdout
    assert done.exit_code == 1


def test_folder_is_a_package_whose_tests_are_left_out(project: Path) -> None:
    folder = project / "rules"
    (folder / "inner").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "shared.py").write_text("MESSAGE = 'shared'\n", "utf-8")
    text = rule().replace('"seen by named"', "MESSAGE")
    (folder / "inner" / "named.py").write_text("from ..shared import MESSAGE\n" + text, "utf-8")
    for name in ("test_named.py", "conftest.py", "setup.py", "tests/anything.py"):
        (folder / name).write_text("raise OSError\n", "utf-8")
    assert "XYZ001 shared" in check("--plugin", "rules").stdout


def test_cache_follows_the_text_of_a_plugin(project: Path) -> None:
    (project / "odd.py").write_text(rule(), "utf-8")
    command = ["check", "--plugin", "odd.py", "--output-format", "concise", "net.py"]
    assert "seen by named" in run(*command).stdout
    (project / "odd.py").write_text(rule().replace("seen by", "looked at by"), "utf-8")
    assert "looked at by named" in run(*command).stdout
    assert "XYZ001" not in run("check", "net.py").stdout


def test_python_is_warned_of_plugins_that_are_left_out(project: Path) -> None:
    (project / "modellint.toml").write_text('plugins = ["gone"]\n', "utf-8")
    with pytest.warns(UserWarning, match="left out: gone"):
        assert modellint.check_source(NET).ok
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="left out: gone"):
            modellint.check_source(NET)


PAGE = '''\
"""XYZ001."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Fix, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import ModuleClass


class Marked(Rule):
    """A class with a mark.

    ## What it does
    Finds the mark.

    ## Why
    It is a test.

    ## Bad
    ```python
    from torch import nn


    class Marked(nn.Module):
        pass
    ```

    ## Good
    ```python
    from torch import nn


    class Plain(nn.Module):
        pass
    ```

    ## Fix safety
    Unsafe.

    ## Known limits
    None.

    ## References
    - <https://pytorch.org>
    """

    code, name, severity, fixable = "XYZ001", "marked", Severity.WARNING, "`Plain`"

    def source(self, cls: ModuleClass):
        if cls.node.name == "Marked":
            text = cls.rewriter.of(cls.node).replace("Marked", "Plain")
            edit = cls.rewriter.replace(cls.node, text)
            yield cls.finding(self, cls.node, "marked", fix=Fix("Unmark", (edit,), Applicability.UNSAFE))
'''


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("## Why", "## Because", "must have the sections"),
        ("A class with a mark.", "A class with a mark", "must end with a full stop"),
        ("https://pytorch.org", "pytorch.org", "must name a page"),
        ("class Marked(nn.Module)", "class Unmarked(nn.Module)", "Bad must give XYZ001 alone, and gives nothing"),
        ("    class Plain", "    class Marked", "Good must give nothing, and gives XYZ001"),
        (
            "        pass\n    ```\n\n    ## Good",
            "        x = 1  # noqa: REG001\n    ```\n\n    ## Good",
            "gives LNT001, XYZ001",
        ),
        (
            "cls.rewriter.of",
            "cls.rewriter.off",
            "XYZ001: Bad: rule XYZ001 of the plug-in 'rules' failed here: AttributeError",
        ),
        ("'`Plain`'", "''", "`fixable` must say"),
        ('"Plain")', '"Other")', "the fix makes something else of Bad than Good"),
    ],
)
def test_page_of_a_rule_by_others_is_tested(project: Path, old: str, new: str, said: str) -> None:
    text = PAGE.replace('"`Plain`"', "'`Plain`'").replace(old, new)
    (project / "rules").mkdir()
    (project / "rules" / "marked.py").write_text(text, "utf-8")
    assert rule_codes("rules") == ["XYZ001"]
    if not said:
        assert_page("rules", "XYZ001")
        (project / "rules" / "named.py").write_text(rule("XYZ002"), "utf-8")
        with pytest.raises(AssertionError, match="Bad must give XYZ001 alone, and gives XYZ001, XYZ002"):
            assert_page("rules", "XYZ001")
        (project / "rules" / "named.py").unlink()
        assert_page(project / "rules", "XYZ001")
        return
    with pytest.raises(AssertionError, match=re.escape(said)):
        assert_page("rules", "XYZ001")


@pytest.mark.parametrize("kind", ["class", "code", "node"])
def test_new_rule_works_as_it_is(project: Path, kind: str) -> None:
    written = run("new-rule", "abc001", "--plugin", "own", "--name", "no-todo", "--about", kind)
    assert written.exit_code == 0, written.output
    assert [str(path) for path in sorted(Path("own").rglob("*.py"))] == [
        "own/abc001_no_todo.py",
        "own/tests/test_abc001.py",
    ]
    assert_page("own", "ABC001")
    (project / "net.py").write_text("from own import x", "utf-8")
    assert run("check", "--plugin", "own", "--select", "ABC").exit_code == 0
    page = run("rule", "no-todo", "--plugin", "own").stdout
    assert page.startswith("# no-todo (ABC001, warning, from the plug-in own)")
    text = Path("own/abc001_no_todo.py").read_text("utf-8")
    again = run("new-rule", "ABC001", "--plugin", "own")
    assert again.exit_code == 2
    assert "nothing is overwritten: own/abc001_no_todo.py is there already" in again.stderr
    assert Path("own/abc001_no_todo.py").read_text("utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["AB1"], "'AB1' is no code"),
        (["REG900"], "REG is a family of modellint's own rules"),
        (["ABC001", "--name", "No Todo"], "words in small letters"),
        (["ABC001", "--name", "module-in-list"], "is the name of REG001"),
        (["ABC001", "--plugin", "net.py"], "name a folder"),
        (["ABC001", "--plugin", "acme"], "is no package"),
    ],
)
def test_new_rule_that_cannot_be(site: Path, arguments: list[str], said: str) -> None:
    install(site, "acme_rules", rule())
    done = run("new-rule", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


GUIDE = (Path(__file__).resolve().parent.parent.parent / "docs" / "rules-of-your-own.md").read_text("utf-8")


def test_rules_of_the_guide_work(project: Path) -> None:
    (project / "own").mkdir()
    wholes = re.findall(r"(?ms)^```python\n(from __future__.*?)^```$", GUIDE)
    for number, text in enumerate(wholes):
        (project / "own" / f"rule{number}.py").write_text(text, "utf-8")
    assert rule_codes("own") == ["ABC001", "ABC002", "ABC003", "ABC004"]
    assert_page("own", "ABC001")
    text = (
        "import torch\nimport torch.nn.functional as F\n\nP = 0.95\n\n\ndef f(x):\n    x = F.dropout(F.dropout(x))\n"
        "    x = F.dropout(x, p=P)\n    F.dropout(x, None)\n    return torch.concat([x])\n"
    )
    (project / "net.py").write_text(text, "utf-8")
    layers = (
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.low = nn.Dropout(0.1)\n        self.high = nn.Dropout(p=0.95)\n\n"
        "    def forward(self, x):\n        x = self.low(x)\n        return self.high(x)\n"
    )
    (project / "layers.py").write_text(layers, "utf-8")
    done = run("check", "--no-cache", "--plugin", "own", "--fix", "--output-format", "concise")
    assert [line for line in done.stdout.splitlines() if line.startswith(("net.py:", "layers.py:"))] == [
        "layers.py:12:16: ABC004 drops nearly everything",
        "net.py:9:9: ABC003 drops nearly everything",
    ]
    assert (project / "net.py").read_text("utf-8") == text.replace("concat", "cat")


def test_parts_of_the_guide_are_those_of_the_templates(project: Path) -> None:
    """What the guide shows in part, the templates have whole, where it is tested."""
    for kind, method in (("code", "source"), ("live", "live")):
        assert run("new-rule", "ABC001", "--plugin", kind, "--about", kind).exit_code == 0
        whole = (project / kind / "abc001_rule.py").read_text("utf-8")
        (part,) = re.findall(rf"(?ms)^```python\n[^`]*?^(def {method}\(.*?)^```$", GUIDE)
        body = part.partition("\n")[2]
        assert "".join(f"    {line}" if line.strip() else line for line in body.splitlines(True)).strip() in whole

"""What other programs read of a check: every format, several at once, by the rules of those who read them."""

from __future__ import annotations

import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result
from junitparser import JUnitXml

from modellint.cli import cli
from modellint.report.formats import RENDERERS
from modellint.settings import FORMATS

BAD = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.층 = "𝔸𝔸"; self.layers = [nn.Linear(1, 1)]
        self.pool = nn.MaxPool2d(2),

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.pool(x)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "a project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "pyproject.toml").write_text("", "utf-8")
    (folder / "net.py").write_text(BAD, "utf-8")
    return folder


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", "--no-cache", *arguments])


def printed(name: str, *arguments: str) -> str:
    done = check("--output-format", name, *arguments)
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def sarif(*arguments: str) -> dict[str, Any]:
    log = json.loads(printed("sarif", *arguments))
    (run,) = log["runs"]
    assert (log["version"], set(log)) == ("2.1.0", {"$schema", "version", "runs"})
    found: dict[str, Any] = run
    return found


# Several at once


def test_every_format_has_a_renderer() -> None:
    assert set(RENDERERS) == set(FORMATS)


def test_one_format_is_printed_and_others_are_written(project: Path) -> None:
    done = check("--output-format", "concise", "--output-format", "json=a.json", "--output-format", "sarif=b.sarif")
    assert done.exit_code == 1
    assert done.stdout.startswith("net.py:7:")
    assert {entry["code"] for entry in json.loads(Path("a.json").read_text("utf-8"))} == {"REG001", "REG003"}
    assert len(json.loads(Path("b.sarif").read_text("utf-8"))["runs"][0]["results"]) == 2
    assert [path.name for path in project.iterdir() if path.name.startswith(".")] == []


def test_the_usual_format_is_printed_beside_a_file(project: Path) -> None:
    done = check("--output-format", "json=a.json")
    assert "--> net.py:7:" in done.stdout
    assert check("--output-format", "json=b.json", "-q").stdout == check("-q").stdout


def test_a_written_file_keeps_its_mode_and_is_new_as_umask_says(project: Path) -> None:
    Path("old.json").write_text("old", "utf-8")
    Path("old.json").chmod(0o640)
    before = os.umask(0o027)
    try:
        check("--output-format", "json=old.json", "--output-format", "json-lines=new.json")
    finally:
        os.umask(before)
    assert len(json.loads(Path("old.json").read_text("utf-8"))) == 2
    if os.name == "posix":
        assert [Path(name).stat().st_mode & 0o777 for name in ("old.json", "new.json")] == [0o640, 0o640]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output-format", "xml"], "'xml' is not one of full, concise,"),
        (["--output-format", "sarif="], "an empty name"),
        (["--output-format", "sarif", "--output-format", "json"], "cannot both be printed"),
        (["--output-format", "sarif=a", "--output-format", "json=./a"], "cannot both be written into"),
        (["--output-format", "sarif=a", "--output-file", "a"], "both name a"),
        (["--output-format", "sarif=nowhere/a"], "there is no folder"),
        (["--output-format", "sarif=."], "is a folder"),
        (["--output-format", "sarif=net.py"], "is one of the files that are checked"),
        (["--output-format", "sarif=a", "--diff"], "leave out --output-format sarif=a"),
        (["--output-format", "sarif=a", "--show-files"], "--show-files shows no findings"),
        (["--output-format", "sarif", "--statistics"], "not as sarif"),
    ],
)
def test_what_cannot_be_written_is_refused_first(project: Path, arguments: list[str], message: str) -> None:
    done = check(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert Path("net.py").read_text("utf-8") == BAD
    assert not Path("a").exists()


def test_what_a_baseline_holds_is_in_no_output(project: Path) -> None:
    known = ["--baseline", "known.json"]
    assert check(*known, "--write-baseline", "--output-format", "json-lines=all").exit_code == 0
    assert check(*known, "--output-format", "json-lines=old", "--output-format", "github=notes").exit_code == 0
    (project / "new.py").write_text(BAD, "utf-8")
    places = [result["locations"][0]["physicalLocation"] for result in sarif(*known)["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"new.py"}
    assert check(*known, "--output-format", "json-lines=new").exit_code == 1
    texts = [(project / name).read_text("utf-8") for name in ("all", "old", "notes", "new")]
    assert texts[:3] == ["", "", ""]
    assert {Path(json.loads(line)["filename"]).name for line in texts[3].splitlines()} == {"new.py"}


def test_a_format_without_its_package_is_refused_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "junitparser", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = check("--output-format", "junit=a.xml")
    assert done.exit_code == 2
    assert done.stderr == "error: --output-format junit needs junitparser: pip install 'modellint[junit]'\n"


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_is_valid_too(project: Path, name: str) -> None:
    Path("net.py").write_text("x = 1\n", "utf-8")
    text = printed(name)
    match name:
        case "json" | "gitlab":
            assert json.loads(text) == []
        case "json-lines" | "pylint" | "github":
            assert text == ""
        case "sarif":
            assert json.loads(text)["runs"][0]["results"] == []
        case "junit":
            assert "<failure" not in text
        case "html":
            assert "Nothing was found." in text


# Lines


def test_json_lines_are_the_objects_of_json(project: Path) -> None:
    lines = printed("json-lines").splitlines()
    assert [json.loads(line) for line in lines] == json.loads(printed("json"))


def test_grouped_names_each_file_once(project: Path) -> None:
    (project / "other.py").write_text(BAD, "utf-8")
    text = printed("grouped")
    assert re.findall(r"(?m)^\S+\.py:$", text) == ["net.py:", "other.py:"]
    assert re.search(r"(?m)^  7:24  REG001 \[\*\] `self.layers`", text)
    assert text.endswith("fixable with the `--fix` option.\n")


def test_pylint_counts_columns_from_zero(project: Path) -> None:
    first, second = printed("pylint").splitlines()
    assert re.fullmatch(r"net\.py:7:23: REG001: .+ \(module-in-list\)", first)
    assert second.startswith("net.py:8:8: REG003: ")


def unescaped(text: str, **more: str) -> str:
    for escape, char in {**more, "%0D": "\r", "%0A": "\n", "%25": "%"}.items():
        text = text.replace(escape, char)
    return text


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands, read as GitHub's runner reads them."""
    found = []
    for line in text.splitlines():
        head, _, message = line.removeprefix("::").partition("::")
        name, _, listed = head.partition(" ")
        pairs = (pair.partition("=") for pair in listed.split(","))
        properties = {key: unescaped(value, **{"%3A": ":", "%2C": ","}) for key, _, value in pairs}
        found.append((name, properties, unescaped(message)))
    return found


def test_github_commands_are_read_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a,b:c%25 d.py"
    (project / "net.py").rename(project / name)
    (first, *_) = commands(printed("github"))
    assert first[0] == "error"
    assert first[1] == {
        "title": "modellint REG001 (module-in-list)", "file": name, "line": "7", "endLine": "7", "col": "24",
        "endColumn": "55",
    }  # fmt: skip
    assert first[2].startswith("`self.layers` keeps modules in a plain list")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    assert commands(printed("github"))[0][1]["file"] == f"a project/{name}"


def test_github_takes_columns_within_a_line_only(project: Path) -> None:
    Path("net.py").write_text(BAD.replace("[nn.Linear(1, 1)]", "[\n    nn.Linear(1, 1),\n]"), "utf-8")
    (_, properties, _), *_ = commands(printed("github"))
    assert (properties["line"], properties["endLine"]) == ("7", "9")
    assert not {"col", "endColumn"} & set(properties)


def test_github_tells_what_is_not_checked(project: Path) -> None:
    Path("net.py").write_text("x = 1\n", "utf-8")
    done = check("net.py", "nowhere.py", "--output-format", "github")
    assert done.exit_code == 2
    ((name, properties, message),) = commands(done.stdout)
    assert (name, properties) == ("error", {"title": "modellint: not checked"})
    assert message.startswith("nowhere.py")


# GitLab


def test_gitlab_report(project: Path) -> None:
    entries = json.loads(printed("gitlab"))
    for entry in entries:
        # What GitLab's own schema asks for.
        assert all(isinstance(entry[key], str) for key in ("description", "fingerprint", "severity", "check_name"))
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["path"] == "net.py"
    assert [entry["location"]["lines"] for entry in entries] == [{"begin": 7, "end": 7}, {"begin": 8, "end": 8}]
    assert [entry["check_name"] for entry in entries] == ["REG001", "REG003"]


def fingerprints() -> list[str]:
    found = [entry["fingerprint"] for entry in json.loads(printed("gitlab"))]
    assert len(set(found)) == len(found)
    assert [entry["partialFingerprints"]["modellint/v1"] for entry in sarif()["results"]] == found
    return found


def test_fingerprints_survive_moved_lines_and_are_unique(project: Path) -> None:
    before = fingerprints()
    Path("net.py").write_text("import math\n\n" + BAD.replace("class Net", "\n\nclass Net"), "utf-8")
    assert fingerprints() == before
    Path("net.py").write_text(BAD + BAD.replace("class Net", "class Other"), "utf-8")
    assert len(fingerprints()) == 4
    Path("net.py").write_text(BAD + BAD.replace("from torch import nn\n", ""), "utf-8")
    assert set(before) <= set(fingerprints())


# JUnit


def test_junit_counts_what_fails(project: Path) -> None:
    (project / "clean.py").write_text("x = 1\n", "utf-8")
    Path("a.xml").write_text(printed("junit"), "utf-8")
    document = JUnitXml.fromfile("a.xml")
    assert (document.tests, document.failures, document.errors) == (3, 2, 0)
    assert {suite.name: suite.failures for suite in document} == {"clean.py": 0, "net.py": 2}
    case = next(iter(next(suite for suite in document if suite.name == "net.py")))
    assert (case.classname, case.name) == ("net.py", "REG001 module-in-list at 7:24")
    assert case.result[0].text.startswith("net.py:7:24\n")
    # What makes no failure of the run is none here.
    passing = JUnitXml.fromstring(printed("junit", "--fail-level", "never").encode())
    assert (passing.tests, passing.failures) == (3, 0)


def test_junit_tells_what_is_not_checked(project: Path) -> None:
    done = check("net.py", "nowhere.py", "--output-format", "junit")
    document = JUnitXml.fromstring(done.stdout.encode())
    assert (document.errors, document.failures) == (1, 2)


# SARIF


KEYS = {
    "run": {"tool", "invocations", "originalUriBaseIds", "columnKind", "artifacts", "results"},
    "driver": {"name", "version", "rules"},
    "rule": {
        "id", "name", "defaultConfiguration", "properties", "shortDescription", "fullDescription", "help", "helpUri",
    },
    "result": {
        "ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties",
        "relatedLocations", "fixes",
    },
    "location": {"id", "physicalLocation", "logicalLocations", "message"},
    "physicalLocation": {"artifactLocation", "region"},
    "artifactLocation": {"uri", "uriBaseId", "index"},
    "region": {"startLine", "startColumn", "endLine", "endColumn"},
    "notification": {"level", "message", "locations", "associatedRule"},
    "invocation": {"executionSuccessful", "exitCode", "toolExecutionNotifications"},
}  # fmt: skip
"""Of the keys that SARIF 2.1.0 has for an object, those that are written."""


def physical(run: dict[str, Any], place: dict[str, Any]) -> None:
    assert set(place) <= KEYS["physicalLocation"]
    artifact = place["artifactLocation"]
    assert set(artifact) <= KEYS["artifactLocation"]
    assert re.fullmatch(r"[A-Za-z0-9_.~%/:-]+", artifact["uri"])
    assert run["artifacts"][artifact["index"]]["location"]["uri"] == artifact["uri"]
    assert artifact.get("uriBaseId", "SRCROOT") in run["originalUriBaseIds"]
    if "region" in place:
        region(place["region"])


def region(place: dict[str, int]) -> None:
    assert set(place) <= KEYS["region"]
    assert all(isinstance(number, int) and number >= 1 for number in place.values())
    assert (place["startLine"], place.get("startColumn", 1)) <= (place["endLine"], place.get("endColumn", 1 << 31))


def conforms(run: dict[str, Any]) -> None:
    """Assert the structure that SARIF 2.1.0 asks for, of all that is written."""
    assert set(run) == KEYS["run"]
    driver = run["tool"]["driver"]
    assert set(driver) == KEYS["driver"]
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= KEYS["rule"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
        assert rule["help"]["markdown"].startswith("# ")
    assert all(
        base["uri"].startswith("file:///") and base["uri"].endswith("/") for base in run["originalUriBaseIds"].values()
    )
    for result in run["results"]:
        assert set(result) <= KEYS["result"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        for place in (*result["locations"], *result.get("relatedLocations", ())):
            assert set(place) <= KEYS["location"]
            if "physicalLocation" in place:
                physical(run, place["physicalLocation"])
        for fix in result.get("fixes", ()):
            assert set(fix) == {"description", "artifactChanges"}
            for change in fix["artifactChanges"]:
                assert set(change) == {"artifactLocation", "replacements"}
                assert change["replacements"]
                for replacement in change["replacements"]:
                    assert set(replacement) == {"deletedRegion", "insertedContent"}
                    region(replacement["deletedRegion"])
    (invocation,) = run["invocations"]
    assert set(invocation) == KEYS["invocation"]
    for notification in invocation["toolExecutionNotifications"]:
        assert set(notification) <= KEYS["notification"]
        assert notification["message"]["text"]


def test_sarif_conforms(project: Path) -> None:
    run = sarif()
    conforms(run)
    assert [result["ruleId"] for result in run["results"]] == ["REG001", "REG003"]
    assert run["invocations"][0]["exitCode"] == 1
    assert run["columnKind"] == "utf16CodeUnits"
    assert [rule["name"] for rule in run["tool"]["driver"]["rules"]] == ["ModuleInList", "ModuleInStrayTuple"]
    assert not any("helpUri" in rule for rule in run["tool"]["driver"]["rules"])


def test_sarif_columns_are_utf16_and_its_fixes_are_ours(project: Path) -> None:
    run = sarif()
    place = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    # Each of the two mathematical letters takes two code units.
    assert place["startColumn"] == 24 + 2
    lines = [line.encode("utf-16-le") for line in BAD.splitlines(keepends=True)]

    def offset(row: int, column: int) -> int:
        return sum(map(len, lines[: row - 1])) + 2 * (column - 1)

    edits = {
        (
            offset(deleted["startLine"], deleted["startColumn"]),
            offset(deleted["endLine"], deleted["endColumn"]),
            replacement["insertedContent"]["text"],
        )
        for result in run["results"]
        for replacement in result["fixes"][0]["artifactChanges"][0]["replacements"]
        for deleted in (replacement["deletedRegion"],)
    }
    data = b"".join(lines)
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode("utf-16-le") + data[end:]
    assert check("--fix").exit_code == 0
    assert data.decode("utf-16-le") == Path("net.py").read_text("utf-8")


def test_sarif_names_files_relative_to_the_repository(project: Path) -> None:
    (project / ".git").mkdir()
    inner = project / "in ner"
    inner.mkdir()
    (project / "net.py").rename(inner / "1:é#.py")
    outside = project.parent / "else.py"
    outside.write_text(BAD, "utf-8")
    run = sarif("in ner", str(outside))
    conforms(run)
    uris = [artifact["location"] for artifact in run["artifacts"]]
    assert {"uri": "in%20ner/1%3A%C3%A9%23.py", "uriBaseId": "SRCROOT"} in uris
    (other,) = [location for location in uris if "uriBaseId" not in location]
    assert unquote(other["uri"]) == f"file://{outside}"
    assert unquote(run["originalUriBaseIds"]["SRCROOT"]["uri"]) == f"file://{project}/"


def test_sarif_tells_what_is_not_checked(project: Path) -> None:
    (project / "broken.py").write_text("class :\n", "utf-8")
    done = check("net.py", "broken.py", "nowhere.py", "--output-format", "sarif")
    (run,) = json.loads(done.stdout)["runs"]
    conforms(run)
    (invocation,) = run["invocations"]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (2, False)
    rules = [note.get("associatedRule", {}).get("id") for note in invocation["toolExecutionNotifications"]]
    assert rules == [None, "LNT002"]


def test_sarif_of_a_rule_by_somebody_else(project: Path) -> None:
    (project / "plugin.py").write_text(
        "from modellint.authoring import ModuleClass, Rule, Severity\n\n\nclass Named(Rule):\n"
        '    code, name, severity = "XYZ001", "named", Severity.INFO\n\n'
        "    def source(self, cls: ModuleClass):\n        yield cls.finding(self, cls.node, 'named')\n",
        "utf-8",
    )
    run = sarif("net.py", "--plugin", "plugin.py", "--select", "XYZ")
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [("XYZ001", "note")]


# HTML


class Reader(HTMLParser):
    """The parts of a page that say whether it is whole and needs nothing else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += filter(None, [values.get("id")])
        self.links += [value for key in ("href", "src", "action") if (value := values.get(key))]
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def test_html_is_whole_and_needs_nothing_else(project: Path) -> None:
    page = Reader(printed("html"))
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert page.links
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not {"img", "link", "iframe", "object"} & set(page.tags)
    assert page.links[0] == "#findings"
    assert "self.layers = [nn.Linear(1, 1)]" in page.text
    assert "nn.ModuleList([nn.Linear(1, 1)])" in page.text


def test_html_shows_hostile_text_as_text(project: Path) -> None:
    name = "<img src=x onerror=alert(1)> '\"&.py"
    (project / "net.py").rename(project / name)
    Path(name).write_text(BAD.replace('"𝔸𝔸"', '"</pre><script>alert(1)</script>\x1b[31m\u202e"'), "utf-8")
    text = printed("html")
    page = Reader(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert name in page.text
    assert "</pre><script>alert(1)</script>␛[31m�" in page.text
    assert not {"\x1b", "\u202e"} & set(text)

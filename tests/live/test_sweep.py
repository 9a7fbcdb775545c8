"""`modellint sweep` and `modellint report`: rows of many targets in one file, kept whatever happens, and shown as a site."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import modellint
from modellint.results.sweep_row import SweepRow
from modellint.run import UsageError
from modellint.sweep import ledger

ZOO = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Lacking(nn.Module):
    def forward(self, x):
        return torch.special.i0(x)


class Misfit(nn.Module):
    def forward(self, x):
        return x.view(7)


def models():
    yield "small", lambda: (Net(2).eval(), torch.ones(1, 2))
    yield "lacking", lambda: (Lacking().eval(), torch.ones(1, 2))
    yield "misfit", lambda: (Misfit().eval(), torch.ones(1, 2))


def twice():
    yield "same", lambda: Net(2)
    yield "same", lambda: Net(3)


def numbers():
    yield 3


def broken():
    yield "small", lambda: (Net(2).eval(), torch.ones(1, 2))
    raise RuntimeError("no more")
"""


DEADLY = """\
def __deepcopy__(self, memo):
        import os

        os._exit(3)

    def forward"""
"""An export copies a model to fix it; a check does not."""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modellint", *arguments], cwd=folder, capture_output=True, text=True, timeout=300
    )


def told(rows: tuple[SweepRow, ...]) -> dict[tuple[str, str], str]:
    return {(row.name, row.route): row.status for row in rows}


def without_costs(rows: tuple[SweepRow, ...]) -> list[SweepRow]:
    return [row._replace(seconds=0.0, cpu=0.0, memory=0) for row in rows]


def project(folder: Path, zoo: str = ZOO) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "modellint.toml").write_text("")
    (folder / "zoo.py").write_text(zoo)
    return folder


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose three models were checked into ``sweep.sqlite``."""
    folder = project(tmp_path_factory.mktemp("swept"))
    done = run(folder, "sweep", "zoo.py:models", "-o", "sweep.sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 targets, 4 rows in sweep.sqlite\n")
    yield folder


@pytest.fixture
def copied(swept: Path, tmp_path: Path) -> Path:
    """A copy of that project, with paths in its rows as they would be there."""
    folder = tmp_path / "copied"
    shutil.copytree(swept, folder)
    with closing(sqlite3.connect(folder / "sweep.sqlite")) as connection, connection:
        connection.execute("UPDATE rows SET files = replace(files, ?, ?)", (str(swept), str(folder)))
    return folder


def test_rows_of_a_check(swept: Path) -> None:
    rows = ledger.read(swept / "sweep.sqlite")
    assert told(rows) == {
        ("small", "trace"): "converts",
        ("lacking", "trace"): "does not convert",
        ("lacking", "export"): "does not convert",
        ("misfit", ""): "does not run",
    }
    small, lacking = (next(row for row in rows if row.name == name) for name in ("small", "lacking"))
    assert (small.target, small.library, small.family) == ("zoo.py:models[small]", "project", "zoo")
    assert (small.model, small.parameters, small.size) == ("zoo.Net", 6, 24)
    assert small.cpu > 0 and small.memory > 10**7 and small.seconds > 0
    assert {Path(path).name for path in small.files} == {"zoo.py", swept.name} and "torch" in small.versions
    assert [blocker.place and blocker.place.span.row for blocker in lacking.blockers] == [16]
    assert {finding.code for finding in lacking.findings} == {"OPS001"}


def test_a_sweep_is_resumed_where_something_changed(copied: Path) -> None:
    assert "exists: --resume" in run(copied, "sweep", "zoo.py:models", "-o", "sweep.sqlite").stderr
    before = ledger.read(copied / "sweep.sqlite")
    done = run(copied, "sweep", "zoo.py:models", "-o", "sweep.sqlite", "--resume", "-v")
    assert done.stderr == "listing zoo.py:models\n"
    assert ledger.read(copied / "sweep.sqlite") == before
    (copied / "zoo.py").write_text(ZOO.replace("x.view(7)", "x.view(2)"))
    done = run(copied, "sweep", "zoo.py:models[misfit]", "-o", "sweep.sqlite", "--resume", "-v")
    assert done.stderr == "zoo.py:models[misfit]: check by trace: converts\n"
    after = ledger.read(copied / "sweep.sqlite")
    assert len(after) == 4
    assert [row for row in after if "misfit" not in row.target] == [row for row in before if "misfit" not in row.target]


def test_a_row_holds_for_its_settings_and_time_only(copied: Path) -> None:
    again = ("sweep", "zoo.py:models[small]", "-o", "sweep.sqlite", "--resume", "-v")
    assert "small" not in run(copied, *again).stderr
    assert "small" in run(copied, *again, "--deployment-target", "iOS18").stderr
    assert "small" not in run(copied, *again, "--deployment-target", "iOS18").stderr
    short = run(copied, *again, "--deployment-target", "iOS17", "--timeout", "0.3")
    assert "not run: " in short.stderr and "time-out of 0.3 s" in short.stderr
    assert "small" not in run(copied, *again, "--deployment-target", "iOS17", "--timeout", "0.2").stderr
    assert "check by trace: converts" in run(copied, *again, "--deployment-target", "iOS17").stderr


def test_comparisons_have_a_row_for_each_route(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    done = run(folder, "sweep", "zoo.py:models[small]", "--do", "verify,export", "-o", "all.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    rows = ledger.read(folder / "all.parquet")
    assert {(row.action, row.frontend, row.status) for row in rows} == {
        ("verify", "trace", "agrees"),
        ("verify", "export", "agrees"),
        ("export", "auto", "agrees"),
    }
    assert all(row.error is not None and row.error < 1e-5 and row.cases > 5 for row in rows)
    (exported,) = (row for row in rows if row.action == "export")
    assert exported.package > 1000
    assert not (folder / "all.parquet.journal").exists()
    assert not list(folder.glob("*.mlpackage"))
    done = run(folder, "sweep", "zoo.py:models[small]", "--do", "verify,export", "-o", "all.parquet", "--resume", "-v")
    assert (done.returncode, done.stderr) == (0, "")
    assert ledger.read(folder / "all.parquet") == rows


def test_an_export_gives_the_rows_of_the_check_as_well(swept: Path, copied: Path) -> None:
    done = run(copied, "sweep", "zoo.py:models", "--do", "check,export", "-o", "both.sqlite", "-v")
    assert (done.returncode, done.stderr.count("\n")) == (0, 8)
    both = ledger.read(copied / "both.sqlite")
    alone = ledger.read(swept / "sweep.sqlite")
    # More is imported for an export.
    checked = [row._replace(versions={}) for row in without_costs(both) if row.action == "check"]
    expected = repr([row._replace(versions={}) for row in without_costs(alone)])
    assert repr(checked) == expected.replace(str(swept), str(copied))
    assert {row.name: row.status for row in both if row.action == "export"} == {
        "small": "agrees",
        "lacking": "agrees",
        "misfit": "does not run",
    }
    # Where a row of the one is there, the other is served alone.
    with closing(sqlite3.connect(copied / "both.sqlite")) as connection, connection:
        connection.execute("DELETE FROM rows WHERE action = 'check' AND name = 'small'")
    done = run(copied, "sweep", "zoo.py:models", "--do", "check,export", "-o", "both.sqlite", "--resume", "-v")
    assert done.stderr == "listing zoo.py:models\nsmall: check by trace: converts\n"


def test_a_check_outlives_an_export_that_kills_its_process(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", ZOO.replace("def forward", DEADLY, 1))
    done = run(folder, "sweep", "zoo.py:models[small]", "--do", "check,export", "-o", "both.sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    rows = ledger.read(folder / "both.sqlite")
    assert {row.action: row.status for row in rows} == {"check": "converts", "export": "not run"}


def test_an_export_tells_the_option_that_leads_to_a_package(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", ZOO.replace("torch.relu(", "torch.rand_like(x) * torch.relu(", 1))
    run(folder, "sweep", "zoo.py:models[small]", "--do", "export", "-o", "all.sqlite")
    (row,) = ledger.read(folder / "all.sqlite")
    assert row.status == "undecided"
    assert row.reason.startswith("go on with --random-inputs, if the caller can draw them: tried, it agrees; ")


def test_dask_workers_give_the_same_rows(swept: Path, copied: Path) -> None:
    done = run(copied, "sweep", "zoo.py:models", "--workers", "1", "-o", "dask.sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [row._replace(files={}) for row in ledger.read(copied / "dask.sqlite")]
    alone = [row._replace(files={}) for row in ledger.read(swept / "sweep.sqlite")]
    assert str(without_costs(tuple(rows))).replace(str(copied), "") == str(without_costs(tuple(alone))).replace(
        str(swept), ""
    )


LOST = """\
import os
import signal
import time

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x + 1


def slow():
    time.sleep(60)
    return Net(), torch.ones(2)


def deadly():
    # The process that watches over this one.
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def models():
    yield "first", lambda: (Net().eval(), torch.ones(2))
    yield "deadly", deadly
    yield "last", lambda: (Net().eval(), torch.ones(2))


def late():
    time.sleep(6)
    return Net().eval(), torch.ones(2)


def neighbours():
    yield "deadly", deadly
    yield "late", late


def waiting():
    yield "first", lambda: (Net().eval(), torch.ones(2))
    yield "slow", slow
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes end with their parents on Linux only")
@pytest.mark.parametrize(
    ("name", "jobs", "others"), [("models", "1", ["first", "last"]), ("neighbours", "2", ["late"])]
)
def test_a_lost_process_costs_its_own_target_only(tmp_path: Path, name: str, jobs: str, others: list[str]) -> None:
    folder = project(tmp_path / "project", LOST)
    done = run(folder, "sweep", f"zoo.py:{name}", "-o", "sweep.sqlite", "--jobs", jobs)
    assert (done.returncode, done.stderr) == (0, "")
    rows = ledger.read(folder / "sweep.sqlite")
    assert {row.name: row.status for row in rows} == {"deadly": "not run", **dict.fromkeys(others, "converts")}
    assert [row.reason for row in rows if row.name == "deadly"] == ["the process that ran it was lost 3 times"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_sweep_leaves_what_was_done_and_no_process(tmp_path: Path, ending: signal.Signals) -> None:
    import psutil

    folder = project(tmp_path / "project", LOST)
    command = [sys.executable, "-m", "modellint", "sweep", "zoo.py:waiting", "-o", "sweep.sqlite", "--jobs", "1", "-v"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "first: check" not in (line := process.stderr.readline()):
            assert line
        deadline = time.monotonic() + 60
        while not (started := _of_folder(folder, process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(process.pid, ending)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[ending]
    if ending != signal.SIGKILL:
        assert "sweep.sqlite has what was done: --resume goes on with it" in rest
        assert "Traceback" not in rest
    assert not psutil.wait_procs(started, timeout=20)[1]
    assert {row.name for row in ledger.read(folder / "sweep.sqlite")} == {"first"}
    (folder / "zoo.py").write_text(LOST.replace("time.sleep(60)", "pass"))
    done = run(folder, "sweep", "zoo.py:waiting", "-o", "sweep.sqlite", "--resume")
    assert done.returncode == 0
    assert sorted(row.name for row in ledger.read(folder / "sweep.sqlite")) == ["first", "slow"]


def _of_folder(folder: Path, parent: int) -> list[object]:
    """The processes below a sweep, once there is one that runs a target."""
    import psutil

    below = psutil.Process(parent).children(recursive=True)
    return list(below) if len(below) > 2 else []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("zoo.py:twice",), "zoo.py:twice yields 'same' 2 times: give each model a name of its own"),
        (("zoo.py:numbers",), "numbers yields a value of type int, and not a pair of a name and a function"),
        (("zoo.py:broken",), "raised RuntimeError: no more"),
        (("zoo.py:none",), "no 'none' in zoo.py"),
        (("zoo.py",), "zoo.py: not a live target, such as model.py:Net"),
        ((), "no target: name some, such as zoo.py:models"),
        (("zoo.py:models", "--do", "guess"), "'guess' is not one of check, verify, export."),
        (("zoo.py:models", "--catalogue", "keras"), "'keras' is not one of transformers, timm"),
        (("zoo.py:models", "--scheduler", "tcp://10.1.2.3:8786"), "is spoken to over TLS: give tls://"),
        (("zoo.py:models", "--scheduler", "there"), "not the address of a scheduler"),
        (("zoo.py:models", "--workers", "1", "--scheduler", "tls://here:1"), "name two places to run on"),
        (("zoo.py:models", "--workers", "1", "--jobs", "2"), "--jobs is about processes without dask"),
        (("--catalogue", "timm", "--input", "1x3x8x8"), "--input goes with targets that are named"),
    ],
)
def test_wrong_requests(swept: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(swept, "sweep", *arguments, "-o", str(tmp_path / "new.sqlite"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sweep.txt", "the name of a sweep ends in .parquet, .sqlite, .sqlite3 or .db"),
        ("no/sweep.sqlite", "there is no folder"),
    ],
)
def test_wrong_files(swept: Path, name: str, message: str) -> None:
    done = run(swept, "sweep", "zoo.py:models", "-o", name)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize("suffix", [".sqlite", ".parquet"])
@pytest.mark.parametrize("content", [b"", b"text that is no ledger, and long enough for a header " * 40])
def test_what_is_no_sweep_is_not_touched(swept: Path, tmp_path: Path, suffix: str, content: bytes) -> None:
    file = tmp_path / f"other{suffix}"
    file.write_bytes(content)
    commands = [("report", str(file)), ("sweep", "zoo.py:models", "-o", str(file), "--resume")]
    # An empty file is where SQLite begins.
    for command in commands[: 1 if suffix == ".sqlite" and not content else 2]:
        done = run(swept, *command)
        assert done.returncode == 2 and "Traceback" not in done.stderr, command
        assert "not the file of a sweep" in done.stderr
    assert file.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_two_sweeps_do_not_share_a_file(copied: Path) -> None:
    path = copied / "sweep.sqlite"
    with ledger.opened(path, True) as book:
        assert len(book.rows()) == 4
        with pytest.raises(UsageError, match="another sweep is writing it"), ledger.opened(path, True):
            pass
        assert len(ledger.read(path)) == 4, "what is there can be read on the way"
    with ledger.opened(path, True) as book:
        assert len(book.rows()) == 4


def test_a_sweep_that_was_killed_holds_no_file(copied: Path) -> None:
    path = copied / "sweep.sqlite"
    code = (
        "import os, sys; from pathlib import Path; from modellint.sweep import ledger\n"
        "with ledger.opened(Path(sys.argv[1]), True): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)
    with ledger.opened(path, True) as book:
        assert len(book.rows()) == 4


def test_one_model_of_a_collection(swept: Path) -> None:
    done = run(swept, "check", "zoo.py:models[lacking]", "--output-format", "concise")
    assert "zoo.py:16" in done.stdout and "OPS001" in done.stdout
    done = run(swept, "shapes", "zoo.py:models[smal]")
    assert done.returncode == 2 and "models yields no 'smal'; did you mean 'small'?" in done.stderr
    done = run(swept, "verify", "zoo.py:models")
    assert done.returncode == 2 and "yields several models: name one, as in 'zoo.py:models[NAME]'" in done.stderr
    done = run(swept, "shapes", "zoo.py:Net[small]")
    assert done.returncode == 2 and "Net yields no models" in done.stderr


def test_report(swept: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for _ in range(2):
        done = run(swept, "report", "sweep.sqlite", "-o", str(site), "--title", "Zoo <1>")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(f"{site / 'index.html'}\n")
    names = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert {"index.html", "obstacles.html", "rows.csv", "badge.svg", "models/zoo.py-models-small.html"} <= names
    index = (site / "index.html").read_text("utf-8")
    assert "Zoo &lt;1&gt;" in index and "check, Core ML" in index
    assert "aten::i0" in (site / "obstacles.html").read_text("utf-8")
    assert "zoo.py:16" in (site / "models/zoo.py-models-lacking.html").read_text("utf-8")
    with (site / "rows.csv").open(newline="", encoding="utf-8") as file:
        entries = list(csv.DictReader(file))
    assert [entry["name"] for entry in entries] == ["lacking", "lacking", "misfit", "small"]
    assert "1 of 2" in (site / "badge.svg").read_text("utf-8")


def test_a_report_replaces_nothing_but_a_report(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/text").write_text("mine")
    done = run(swept, "report", "sweep.sqlite", "-o", str(tmp_path / "mine"))
    assert done.returncode == 2 and "is no report of modellint" in done.stderr
    assert (tmp_path / "mine/text").read_text() == "mine"


def test_changes_between_sweeps(copied: Path) -> None:
    shutil.copy(copied / "sweep.sqlite", copied / "old.sqlite")
    done = run(copied, "report", "sweep.sqlite", "--against", "old.sqlite")
    assert done.returncode == 0
    with closing(sqlite3.connect(copied / "sweep.sqlite")) as connection, connection:
        connection.execute("UPDATE rows SET status = 'does not convert', reason = 'why' WHERE name = 'small'")
        connection.execute("UPDATE rows SET status = 'converts' WHERE name = 'misfit'")
    done = run(copied, "report", "sweep.sqlite", "--against", "old.sqlite", "-o", "site")
    assert done.returncode == 1
    assert "lost: zoo.py:models[small] (check, Core ML): converts → does not convert: why\n" in done.stdout
    assert "gained: zoo.py:models[misfit] (check, Core ML): does not run → converts" in done.stdout
    assert "Changes since old.sqlite" in (copied / "site/changes.html").read_text("utf-8")


def test_targets_of_the_settings(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    (folder / "modellint.toml").write_text('[[models]]\ntarget = "zoo.py:models[small]"\n')
    done = run(folder, "sweep", "-o", "sweep.sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    assert told(ledger.read(folder / "sweep.sqlite")) == {("zoo.py:models[small]", "trace"): "converts"}


def test_without_pyarrow(swept: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['pyarrow'] = None; from modellint.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "sweep", "zoo.py:models", "-o", str(tmp_path / "new.parquet")],
        cwd=swept,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "pip install 'modellint[parquet]', or name a .sqlite file" in done.stderr
    assert modellint.__file__ not in done.stderr

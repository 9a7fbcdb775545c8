"""Whatever a model's code does, its check ends in time, as a finding, and nothing that it started is left."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from modellint.results.codec import Codec
from modellint.results.diagnostic import Diagnostic
from modellint.run import all_rules
from modellint.session.messages import Answer, Limits, Request
from modellint.session.parent import check_target
from modellint.session.target import locate, parse

wire = Codec[Diagnostic](Diagnostic)
HEAD = "import os, signal, subprocess, sys, threading, time\nimport torch\nfrom torch import nn\n"


def text_of(top: str, init: str, forward: str) -> str:
    return (
        f"{HEAD}{top}\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"        self.layers = [nn.Linear(4, 4)]\n\n    def forward(self, x):\n        {forward}\n"
        "        return self.layers[0](x)\n"
    )


def checked(folder: Path, top: str = "", init: str = "", forward: str = "", **options: Any) -> Answer:
    (folder / "net.py").write_text(text_of(top, init, forward), "utf-8")
    target = parse(f"{folder / 'net.py'}:Net")
    assert target is not None
    limits = Limits(options.pop("timeout", 60.0), options.pop("memory", None))
    rules = [code for code in all_rules() if code in ("REG001", "LNT003")]
    request = Request(target, locate(target, folder, folder), folder, folder, rules, inputs=("2x4",), **options)
    return check_target(request, limits)


def failure(answer: Answer, row: str) -> str:
    """What the one LNT003 says after the target, which must stand at a line of that text."""
    (finding,) = [one for one in answer.diagnostics if one.code == "LNT003"]
    assert finding.path is not None
    assert finding.span is not None
    assert row in Path(finding.path).read_text("utf-8").splitlines()[finding.span.row - 1]
    stage, _, what = finding.message.partition("`")
    return stage + what.partition("` ")[2]


@pytest.mark.parametrize(
    ("where", "code", "what"),
    [
        ("top", "raise ValueError('a\\nb')", "importing raised ValueError: a b"),
        ("init", "sys.exit(0)", "building raised SystemExit: 0"),
        ("forward", "raise KeyError(3)", "running forward of raised KeyError: 3"),
        ("init", "input()", "building raised EOFError: EOF when reading a line"),
        ("init", "os.abort()", "building was killed by SIGABRT"),
    ],
)
def test_the_users_line_is_shown(tmp_path: Path, where: str, code: str, what: str) -> None:
    assert failure(checked(tmp_path, **{where: code}), code) == what


def test_endings_without_a_line(tmp_path: Path) -> None:
    assert (
        failure(checked(tmp_path, init="os._exit(0)"), "class Net") == "building ended the process with exit status 0"
    )
    killed = failure(checked(tmp_path, top="os.kill(os.getpid(), signal.SIGKILL)"), "class Net")
    assert killed.startswith("importing was killed by SIGKILL")


@pytest.mark.parametrize("code", ["while True: pass", "time.sleep(1000)"])
def test_time_out(tmp_path: Path, code: str) -> None:
    began = time.monotonic()
    answer = checked(tmp_path, top=code, timeout=6)
    assert time.monotonic() - began < 8
    assert failure(answer, code) == "importing took longer than the time-out of 6 s"
    assert answer.failed


def test_memory(tmp_path: Path) -> None:
    # In children too, and in pieces, each of which is to be had.
    code = "os.fork(); self.held = [bytearray(b'x' * 2**27) for _ in range(800)]"
    answer = checked(tmp_path, init=code, memory=1200 * 2**20)
    assert failure(answer, "self.held") == "building used more than 1200 MB of memory"


def test_one_huge_allocation_is_refused_where_it_is_made(tmp_path: Path) -> None:
    code = "self.held = bytearray(100 * 10**9)"
    assert failure(checked(tmp_path, init=code, memory=2000 * 2**20), code) == "building raised MemoryError"


def left(folder: Path) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink() == folder:
                found.append(place.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "code",
    [
        "[os.fork() for _ in range(3)]",
        "subprocess.Popen(['sleep', '986'], start_new_session=True, env={})",
        "subprocess.run(['sh', '-c', 'setsid sleep 986 & setsid sleep 986 &'])",
    ],
)
def test_nothing_is_left(tmp_path: Path, code: str) -> None:
    answer = checked(tmp_path, top=f"os.chdir({str(tmp_path)!r})", init=code)
    assert {one.code for one in answer.diagnostics} == {"REG001"}
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("top", "init"),
    [
        ("print('x' * 10**6)", "sys.stderr.write('y' * 10**6)"),
        ("sys.stdout.close(); os.close(2); os.chdir('/')", "threading.Thread(target=time.sleep, args=(999,)).start()"),
        ("os.remove(__file__)", "torch.manual_seed(3)"),
        ("import json; json.dumps = os._exit = None; nn.Module.__init__.__defaults__", "sys.stdout = None"),
        ("open(os.path.join(os.path.dirname(__file__), 'json.py'), 'w').write('1/0')", ""),
    ],
)
def test_checked_all_the_same(tmp_path: Path, top: str, init: str) -> None:
    answer = checked(tmp_path, top=top, init=init)
    assert [one.code for one in answer.diagnostics] == ["REG001"]
    assert not answer.failed
    assert len(answer.output) < 600_000


def test_what_was_printed_is_told_with_a_failure(tmp_path: Path) -> None:
    answer = checked(tmp_path, top="print('first')\nprint('last \\x1b[31m words')\n1 / 0")
    assert "last \x1b[31m words" in answer.output
    assert "last" in (answer.diagnostics[0].help or "")


def test_rubbish_in_the_pipe(tmp_path: Path) -> None:
    spoil = "def spoil(n):\n    try: os.write(n, b'[1]\\n')\n    except OSError: pass\n"
    answer = checked(tmp_path, top=spoil, init="[spoil(n) for n in range(3, 64)]")
    assert failure(answer, "class Net") == "building sent a result that cannot be read"


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_malicious_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung"), 2))
    top = f"open({str(tmp_path / 'imported')!r}, 'w')"
    answer = checked(tmp_path, top=top, checkpoint=tmp_path / "weights.pt")
    assert failure(answer, "class Net").startswith("loading the checkpoint of raised CheckpointError")
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "imported").exists()


def test_building_that_cannot_be_repeated(tmp_path: Path) -> None:
    """The attempt on the meta device must not be what the second one fails for."""
    top = "built = []\n\ndef once():\n    assert not built, 'built twice'\n    built.append(1)\n"
    target_init = "once(); self.w = nn.Parameter(torch.ones(3)); float(self.w[0].detach())"
    answer = checked(tmp_path, top=top, init=target_init)
    assert [one.code for one in answer.diagnostics] == ["REG001"]


def test_rows_that_ran_for_every_instance(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Block(nn.Module):\n    def __init__(self, wide):\n        super().__init__()\n"
        "        if wide:\n            self.a = 1\n        else:\n            self.a = 2\n        self.b = [\n            1,\n        ]\n\n"
        "    def forward(self, x):\n        if self.a == 1:\n            return x\n        return x + 1\n\n"
        "    def unused(self):\n        return 0\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.blocks = nn.ModuleList(Block(n > 0) for n in range(2))\n\n    def forward(self, x):\n"
        "        for block in self.blocks:\n            x = block(x)\n        return x\n"
    )
    (tmp_path / "net.py").write_text(text, "utf-8")
    target = parse(f"{tmp_path / 'net.py'}:Net")
    assert target is not None
    request = Request(target, locate(target, tmp_path, tmp_path), tmp_path, tmp_path, ["LNT003"], inputs=("2x4",))
    rows = check_target(request).executed[str(tmp_path / "net.py")]
    lines = text.splitlines()
    ran = {line.strip() for row, line in enumerate(lines, 1) if row in rows}
    assert {"if wide:", "self.b = [", "if self.a == 1:", "x = block(x)", "super().__init__()"} <= ran
    assert not ran & {"self.a = 1", "self.a = 2", "return x + 1", "return 0"}


def test_findings_survive_the_pipe() -> None:
    from modellint import check_source

    found = check_source(text_of("", "", "return x")).diagnostics
    assert found[0].fix is not None
    for finding in found:
        assert wire.from_json(wire.to_json(finding)) == finding

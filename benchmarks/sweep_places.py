"""The same sweep in every place where one can run, and through what goes wrong there: equal rows, nothing lost, nothing twice.

    python benchmarks/sweep_places.py FOLDER [--models 60] [--only PLACE...]

Sixty small models, among them some that raise, some that plain coremltools refuses and one that ends its process, go through check
and export: alone, two at once, on one and on two dask workers, and on a scheduler with two workers in another network namespace, reached
over TLS with certificates made for this. Then two sweeps that are disturbed: one is killed with SIGKILL after a third and resumed; of the
other a worker is killed, and later the scheduler and its workers, which are begun again. Rows are compared with those of the first, but for
times, memory, and the number of inputs compared, which seconds bound. Needs Linux, root, ip and openssl for the namespace; without them
those places are left out and said to be. FOLDER keeps the files of rows. Ends with 1 where rows differ.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MODELS = """\
import os

import torch
from torch import nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.second(F.gelu(self.first(x))) + x


class Convolutions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.PReLU(width), nn.MaxPool2d(2))

    def forward(self, x):
        return self.layers(x.view(1, 3, 4, -1)).flatten(1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.queries = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.queries(x)[None].chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)


class Recurrence(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        return self.layer(x[None])[0]


class Special(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return torch.special.log_ndtr(torch.special.airy_ai(self.layer(x)))


class Hidden(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = [nn.Linear(width, width)]

    def forward(self, x):
        return self.layers[0](x)


class Raises(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width + 1, width)

    def forward(self, x):
        return self.layer(x)


class Ends(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        os._exit(3)


KINDS = (Perceptron, Convolutions, Attention, Recurrence, Special, Hidden, Raises)


def build(kind, width):
    torch.manual_seed(width)
    return kind(width).eval(), torch.randn(3 if kind is not Convolutions else 12, width)


def models():
    count = int(os.environ["COUNT"])
    for number in range(count - 1):
        kind, width = KINDS[number % len(KINDS)], 4 * (1 + number // len(KINDS))
        yield f"{kind.__name__.lower()}{width}", lambda kind=kind, width=width: build(kind, width)
    yield "ends", lambda: build(Ends, 4)
"""
LEFT_OUT = {"seconds", "cpu", "memory", "cases", "versions", "timeout"}
NAMESPACE, HERE, THERE = "modellint-sweep", "10.213.7.1", "10.213.7.2"


class Sweep:
    """One sweep into a file of its own; ``rows`` counts what is there while it runs."""

    def __init__(self, folder: Path, name: str, *options: str, environment: dict[str, str]) -> None:
        self.file = folder / f"{name}.sqlite"
        self._command = [
            *(sys.executable, "-m", "modellint", "sweep", "zoo.py:models", "--do", "check,export"),
            *("--isolated", "-o", str(self.file), *options),
        ]
        self._folder, self._environment = folder, environment
        self.seconds, self.status = 0.0, 0

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        if "--resume" not in options:
            for file in self.file.parent.glob(f"{self.file.name}*"):
                file.unlink()
        return subprocess.Popen(
            [*self._command, *options],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.file.with_suffix(".log")).open("ab"),
            start_new_session=True,
        )

    def run(self, *options: str, meanwhile: Callable[[Sweep], None] | None = None) -> None:
        began = time.monotonic()
        process = self.start(*options)
        if meanwhile is not None:
            meanwhile(self)
        self.status = process.wait()
        self.seconds += time.monotonic() - began

    def await_rows(self, count: int, patience: float = 900.0) -> None:
        deadline = time.monotonic() + patience
        while len(self.rows()) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.file}: {count} rows were not there within {patience:g} s")
            time.sleep(0.2)

    def rows(self) -> dict[tuple[str, ...], dict[str, object]]:
        if not self.file.exists():
            return {}
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            try:
                told = [dict(row) for row in connection.execute("SELECT * FROM rows")]
            except sqlite3.OperationalError:
                return {}
        keys = ("target", "action", "destination", "frontend", "route")
        return {tuple(row[key] for key in keys): {k: v for k, v in row.items() if k not in LEFT_OUT} for row in told}


def differences(told: Sweep, expected: Sweep) -> list[str]:
    mine, others = told.rows(), expected.rows()
    lines = [f"{' '.join(key)}: only in one of them" for key in sorted(mine.keys() ^ others.keys())]
    for key in sorted(mine.keys() & others.keys()):
        lines += [
            f"{' '.join(key)}: {column}: {value!r} and {others[key][column]!r}"
            for column, value in mine[key].items()
            if value != others[key][column]
        ]
    return lines


class Cluster:
    """A scheduler and two workers in a network namespace of their own, reached over TLS."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self.address = f"tls://{THERE}:8786"

    def start(self) -> None:
        scheduler = [
            *("dask", "scheduler", "--host", THERE, "--port", "8786", "--protocol", "tls"),
            *("--no-dashboard",),
        ]
        self._begin(scheduler)
        for _ in range(2):
            self.add_worker()

    def add_worker(self) -> None:
        worker = [
            *("dask", "worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny"),
            *("--memory-limit", "0", "--host", THERE, "--protocol", "tls", "--death-timeout", "300"),
        ]
        self._begin(worker)

    def _begin(self, command: list[str]) -> None:
        log = (self._folder / "cluster.log").open("ab")
        inside = ["ip", "netns", "exec", NAMESPACE, sys.executable, "-m", *command]
        self._processes.append(
            subprocess.Popen(
                inside, cwd=self._folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        )

    def kill_worker(self) -> None:
        self._kill(self._processes.pop())

    def kill(self) -> None:
        while self._processes:
            self._kill(self._processes.pop())

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def certify(folder: Path) -> dict[str, str]:
    """An authority and a certificate made for this, and the settings by which dask uses them."""
    names = f"subjectAltName=IP:{HERE},IP:{THERE}"
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=sweep")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    subprocess.run([*make, "-keyout", key, "-out", certificate, "-addext", names], check=True, capture_output=True)
    settings = {
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": certificate,
    }
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = key
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = certificate
    return settings


@contextlib.contextmanager
def namespace() -> Iterator[None]:
    """Another network namespace, and a link to it. Raises ``CalledProcessError`` where there may be none."""

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True)

    ip("netns", "del", NAMESPACE, check=False)
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", "sweep-here", "type", "veth", "peer", "name", "sweep-there", "netns", NAMESPACE)
        ip("addr", "add", f"{HERE}/30", "dev", "sweep-here")
        ip("link", "set", "sweep-here", "up")
        ip("-n", NAMESPACE, "addr", "add", f"{THERE}/30", "dev", "sweep-there")
        ip("-n", NAMESPACE, "link", "set", "sweep-there", "up")
        ip("-n", NAMESPACE, "link", "set", "lo", "up")
        yield
    finally:
        ip("link", "del", "sweep-here", check=False)
        ip("netns", "del", NAMESPACE, check=False)


class Places:
    def __init__(self, folder: Path, models: int, only: list[str]) -> None:
        self.folder, self.models, self.only = folder, models, only
        self.environment = {**os.environ, "COUNT": str(models)}
        self.first = Sweep(folder, "alone", "--jobs", "1", environment=self.environment)
        self.failed = False

    def tell(self, name: str, sweep: Sweep) -> None:
        rows = sweep.rows()
        lines = [] if sweep is self.first else differences(sweep, self.first)
        equal = "the rows that the others are compared with" if sweep is self.first else "equal rows"
        self.failed |= bool(lines) or sweep.status != 0 or not rows
        verdict = equal if not lines else f"{len(lines)} DIFFERENCES"
        targets = len({key[0] for key in rows})
        print(
            f"{name:44} {targets:3} targets {len(rows):4} rows {sweep.seconds:7.1f} s  exit {sweep.status}  {verdict}",
            flush=True,
        )
        for line in lines[:20]:
            print(f"    {line}")

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def place(self, name: str, label: str, *options: str) -> None:
        if self.wants(name):
            sweep = Sweep(self.folder, name, *options, environment=self.environment)
            sweep.run()
            self.tell(label, sweep)

    def run(self) -> None:
        if not self.first.rows() or self.wants("alone"):
            self.first.run()
        self.tell("alone", self.first)
        self.place("two", "two at once", "--jobs", "2")
        self.place("worker1", "one dask worker", "--workers", "1")
        self.place("worker2", "two dask workers", "--workers", "2")
        if self.wants("killed"):
            self.killed()
        if not (shutil.which("ip") and shutil.which("openssl") and os.geteuid() == 0):
            print("another network namespace: left out, it needs root, ip and openssl")
            return
        if self.wants("tls") or self.wants("lost"):
            with namespace():
                self.elsewhere()

    def killed(self) -> None:
        sweep = Sweep(self.folder, "killed", "--jobs", "2", environment=self.environment)

        def kill_after_a_third(running: Sweep) -> None:
            running.await_rows(len(self.first.rows()) // 3)
            subprocess.run(["pkill", "-KILL", "-f", f"modellint sweep .*{running.file}"], check=False)

        sweep.run(meanwhile=kill_after_a_third)
        kept = len(sweep.rows())
        sweep.run("--resume")
        self.tell(f"killed after {kept} rows, and resumed", sweep)

    def elsewhere(self) -> None:
        settings = {**self.environment, **certify(self.folder)}
        cluster = Cluster(self.folder, settings)
        cluster.start()
        options = ("--scheduler", cluster.address)
        try:
            if self.wants("tls"):
                sweep = Sweep(self.folder, "tls", *options, environment=settings)
                sweep.run()
                self.tell("a scheduler over TLS, two workers", sweep)
            if self.wants("lost"):
                sweep = Sweep(self.folder, "lost", *options, environment=settings)
                rows = len(self.first.rows())

                def lose(running: Sweep) -> None:
                    running.await_rows(rows // 4)
                    cluster.kill_worker()
                    running.await_rows(rows // 2)
                    cluster.kill()
                    time.sleep(3)
                    cluster.start()

                sweep.run(meanwhile=lose)
                self.tell("a worker killed, the scheduler begun again", sweep)
        finally:
            cluster.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="PLACE", help="alone two worker1 worker2 killed tls lost"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zoo.py").write_text(MODELS)
    places = Places(folder, arguments.models, arguments.only)
    places.run()
    return int(places.failed)


if __name__ == "__main__":
    raise SystemExit(main())

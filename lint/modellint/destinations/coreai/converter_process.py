"""Converter and runtime of Core AI in a process of their own: they abort on some models and inputs, and hang after a fork.

The process is started afresh, never forked, imports coreai-torch, and writes nothing to the terminal. It is asked by lines of JSON;
programs, packages and tensors pass as files of a folder that both know.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_structure

from modellint.destinations.capture import torch_export
from modellint.destinations.coreai.intermediate_values import first_that
from modellint.destinations.coreai.worker import captured_program
from modellint.results.conversion_verdict import Supply

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from modellint.destinations.coreai.worker.service import main; main()"
)
_LIBRARIES = ("torchvision", "torchaudio", "transformers.integrations.moe")
"""What registers operators of its own, in a namespace that is named as the package."""
_OF_TORCH = frozenset({"", "aten", "prims", "prim", "higher_order"})
"""Namespaces of PyTorch's own operators in a program; of what has none, too."""
TO_CONVERT = 600.0
"""Seconds after which a conversion counts as one that hangs."""
TO_RUN = 120.0
"""The same for a prediction."""
_TO_PLACE = 240.0
"""Seconds for the search of what ends the process."""
_KEPT = 2
"""How many saved programs are kept: of a model as it is, and as an export converts it."""


class Died(Exception):
    """The process ended, or was ended as it hung; the message says how."""


class Hung(Died):
    """The process was ended as it gave no answer in time."""


class Failed(Exception):
    """What was asked for raises an exception of the converter's or the runtime's; the message has its type and its words."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}" if message else error)


class Frame(NamedTuple):
    """A node of the program, as the user's code gave rise to it."""

    name: str
    operator: str
    frames: tuple[tuple[str, int], ...]
    module: str


class Refusal(NamedTuple):
    """A reason why the converter refuses a program: of a node, or of none in particular."""

    kind: str
    """``missing``, ``refused`` or ``crash``."""
    message: str
    node: Frame | None


class Interface(NamedTuple):
    """What a converted program takes and gives, in the order of the model's own."""

    inputs: tuple[str | None, ...]
    """The program's input for each tensor that the model takes; None where that is a state."""
    outputs: tuple[str, ...]
    states: Mapping[str, str]
    """By the name of a state the model's buffer, or the position of the input as a number."""


class Departed(NamedTuple):
    """A node whose value the runtime computes otherwise than PyTorch, where those before it are the same."""

    node: Frame
    error: float
    """Over PyTorch's scale."""
    shape: tuple[int, ...]


class Prepared(NamedTuple):
    """What the converter says of an exported program."""

    refusals: tuple[Refusal, ...]
    interface: Interface | None
    complete: bool
    """Whether all operators were looked at."""
    seconds: float
    supplied: tuple[Supply, ...] = ()
    """The decompositions of ours that took part."""


class _Ahead(NamedTuple):
    """A program that was converted with decompositions of our own, before that was asked for."""

    program: Any
    names: tuple[str, ...]
    """Of its outputs."""
    package: str
    prepared: Prepared
    saved: dict[str, Any]
    """As what its parts may be asked for."""


class ConverterProcess:
    """One process of the converter, started when it is first asked, and again after it died."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="modellint-coreai-"))
        """The files that both sides write."""
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._opened: str | None = None
        self._count = 0
        self._ahead: _Ahead | None = None
        self._saved: dict[str, dict[str, Any]] = {}
        """The programs that were saved last, as parts of them are asked for, by the packages that they were to become."""

    def close(self) -> None:
        """End the process, and remove the folder."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> ConverterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def path(self, name: str) -> str:
        """A file in the folder."""
        return str(self.folder / name)

    def new_path(self, name: str) -> str:
        """A file in the folder that is not there yet."""
        self._count += 1
        return self.path(f"{self._count}-{name}")

    def prepare(
        self,
        program: Any,
        package: str,
        names: Sequence[str] = (),
        supplies: bool = False,
        ahead: Sequence[str] | None = None,
    ) -> Prepared:
        """Decompose an exported program and convert it to a package; all that the converter refuses. Raises ``Died`` and ``Failed``.

        ``supplies``: with decompositions of our own for what is missing, refused, or known to be wrong. ``ahead``: with those too,
        as that will be asked for next, with these names of outputs: once for both where none of them takes part.
        """
        _flatten_outputs(program)
        known = self._taken(program, package, tuple(names)) if supplies else None
        self._ahead = None
        if known is not None:
            return known
        file = self.new_path("program.pt2")
        try:
            captured_program.save(program, file)
        except Exception as error:
            # Tensors that a transform such as `vmap` left in the program have no memory of their own.
            raise Failed("the program cannot be saved", " ".join(str(error).split())) from error
        spaces = {getattr(node.target, "namespace", "") for node in program.graph.nodes}
        libraries = [name for name in _LIBRARIES if name in sys.modules and name.partition(".")[0] in spaces]
        supplied = "" if ahead is None else self.new_path(f"supplied{Path(package).suffix}")
        request = {"program": file, "names": list(names), "libraries": libraries, "supplies": supplies}
        self._keep(package, {"program": file, "libraries": libraries, "supplies": supplies})
        try:
            answer = self._ask(
                TO_CONVERT, do="prepare", package=package, ahead=supplied, ahead_names=[*(ahead or ())], **request
            )
        except Died:
            if ahead is None:
                raise
            # It may be one of those that it dies of.
            return self.prepare(program, package, names, supplies)
        except Failed:
            # It knows the operators of PyTorch and of those libraries, and cannot read a program with others.
            if not (unknown := _of_others(program, spaces - {name.partition(".")[0] for name in libraries})):
                raise
            return Prepared(unknown, None, False, 0.0)
        prepared = _prepared(answer)
        if ahead is not None and answer["is_ahead"]:
            first = answer["ahead"]
            made = (supplied, _prepared(first)) if first else (package, prepared)
            self._ahead = _Ahead(program, tuple(ahead), *made, {**self._saved[package], "supplies": True})
        return prepared

    def _keep(self, package: str, saved: dict[str, Any]) -> None:
        left = [self._saved.pop(package, None)]
        self._saved[package] = saved
        left += [self._saved.pop(older) for older in list(self._saved)[:-_KEPT]]
        for entry in left:
            if entry is not None and all(entry["program"] != each["program"] for each in self._saved.values()):
                self._remove(entry["program"])

    def _remove(self, file: str) -> None:
        """Remove a file or package, and what was written beside it by names that begin with its own."""
        for left in self.folder.glob(f"{Path(file).stem}*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def _taken(self, program: Any, package: str, names: tuple[str, ...]) -> Prepared | None:
        """What came of the same program before it was asked for, its package where it is to be; None where there is none."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.names != names:
            return None
        if ahead.program is not program and not torch_export.is_same(ahead.program, program):
            return None
        if ahead.prepared.interface is not None:
            try:
                self._ask(TO_RUN, do="copy", package=ahead.package, to=package)
            except (Died, Failed):
                return None
            self._keep(package, ahead.saved)
        return ahead.prepared

    def departure(self, package: str, inputs: Sequence[Tensor], nudged: Sequence[Tensor]) -> Departed | None:
        """The first node of a package's program that departs on inputs; None where none does by itself.

        ``nudged`` are the inputs changed by rounding. Raises ``Died`` and ``Failed``.
        """
        given = self.new_path("departure.in")
        torch.save({"inputs": list(inputs), "nudged": list(nudged)}, given)
        self._opened = None
        written = self.new_path("departure.aimodel")
        answer = self._ask(TO_CONVERT, do="departure", of=package, inputs=given, package=written)
        node = answer["node"]
        return None if node is None else Departed(_frame(node), answer["off"], tuple(answer["shape"]))

    def failing_nodes(self, package: str, inputs: Sequence[Tensor]) -> tuple[Frame, ...]:
        """The first node of a package's program that the runtime cannot run, and its like; none where it runs all.

        Raises ``Died`` and ``Failed``.
        """
        given = self.new_path("failing.in")
        torch.save(list(inputs), given)
        self._opened = None
        written = self.new_path("failing.aimodel")
        answer = self._ask(TO_CONVERT, do="failing_nodes", of=package, inputs=given, package=written)
        return tuple(map(_frame, answer["nodes"]))

    def crashing_nodes(self, package: str, inputs: Sequence[Tensor] | None = None) -> tuple[Frame, ...]:
        """The first node of a program whose conversion ends the process, or its run on ``inputs``, and its like.

        It was to become ``package``. None where that cannot be told within some minutes, as where fewer nodes never end it.
        """
        saved = self._saved.get(package)
        if saved is None:
            return ()
        given = None
        if inputs is not None:
            given = self.new_path("ending.in")
            torch.save(list(inputs), given)
        self._opened = None
        until = time.monotonic() + _TO_PLACE

        def ends(first: int) -> bool:
            if time.monotonic() > until:
                raise Hung("took too long")
            part = self.new_path(f"ending{Path(package).suffix}")
            try:
                self._ask(_TO_PLACE, do="part", first=first, inputs=given, package=part, **saved)
            except Hung:
                raise
            except Died:
                return True
            except Failed:
                return False
            finally:
                self._remove(part)
            return False

        try:
            count = self._ask(_TO_PLACE, do="parts", last=None, **saved)["count"]
            last = first_that(count, ends)
            nodes = [] if last is None else self._ask(_TO_PLACE, do="parts", last=last, **saved)["nodes"]
        except (Died, Failed):
            return ()
        finally:
            if given is not None:
                self._remove(given)
        return tuple(map(_frame, nodes))

    def describe(self, package: str, texts: Mapping[str, str]) -> None:
        """Write texts into a package. Raises ``Died`` and ``Failed``."""
        self._ask(TO_RUN, do="describe", package=package, texts=dict(texts))

    def features(self, package: str) -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
        """The types and shapes of a package's ``inputs``, ``outputs`` and ``states``. Raises ``Died`` and ``Failed``."""
        self._open(package)
        answer = self._ask(TO_RUN, do="features")
        return {
            kind: {name: (dtype, tuple(shape)) for name, (dtype, shape) in entries.items()}
            for kind, entries in answer.items()
        }

    def _open(self, package: str) -> None:
        if self._opened != package:
            self._ask(TO_RUN, do="open", package=package)
            self._opened = package

    def predict(
        self, package: str, inputs: Mapping[str, Tensor], states: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The outputs of a package, and the states after it. Raises ``Died`` and ``Failed``."""
        self._count += 1
        taken, returned = self.path(f"{self._count}.in"), self.path(f"{self._count}.out")
        torch.save({"inputs": dict(inputs), "states": dict(states)}, taken)
        try:
            self._open(package)
            self._ask(TO_RUN, do="predict", inputs=taken, outputs=returned)
            results = torch.load(returned, weights_only=True)
        finally:
            for file in (taken, returned):
                with contextlib.suppress(OSError):
                    Path(file).unlink()
        return results["outputs"], results["states"]

    def _ask(self, seconds: float, **request: Any) -> Any:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError:
            raise Died(self._how()) from None
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self._end()
            raise Hung(f"hung: no answer within {seconds:g} s") from None
        if line is None:
            raise Died(self._how())
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"], answer["message"])
        return answer

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            paths = [str(Path(path).absolute()) for path in sys.path if path]
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(paths)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                text=True,
                encoding="utf-8",
                env={**os.environ, "TMPDIR": str(self.folder), "TMP": str(self.folder), "TEMP": str(self.folder)},
            )
            self._answers = queue.Queue()
            assert self._process.stdout is not None
            threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process

    def _how(self) -> str:
        """How the process ended."""
        assert self._process is not None
        status = self._process.wait()
        self._end()
        if status < 0:
            try:
                return f"was killed by {signal.Signals(-status).name}"
            except ValueError:
                return f"was killed by signal {-status}"
        return f"ended with exit status {status}"

    def _end(self) -> None:
        process, self._process, self._opened, self._ahead = self._process, None, None, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        deadline = time.monotonic() + 2.0
        while process.poll() is None and time.monotonic() < deadline and not self._answers.empty():
            time.sleep(0.01)
        process.kill()
        process.wait()


def _prepared(answer: Any) -> Prepared:
    refusals = tuple(
        Refusal(entry["kind"], entry["message"], None if entry["node"] is None else _frame(entry["node"]))
        for entry in answer["refusals"]
    )
    interface = answer["interface"]
    return Prepared(
        refusals,
        None
        if interface is None
        else Interface(tuple(interface["inputs"]), tuple(interface["outputs"]), interface["states"]),
        answer["complete"],
        answer["seconds"],
        tuple(Supply(*entry) for entry in answer["supplied"]),
    )


def _of_others(program: Any, spaces: Set[str]) -> tuple[Refusal, ...]:
    """Refusals of the operators of these namespaces but PyTorch's own."""
    found = []
    for node in program.graph.nodes:
        if getattr(node.target, "namespace", "") in spaces - _OF_TORCH:
            name, frames, module, _ = torch_export.origin_of(node)
            found.append(
                Refusal("missing", f"coreai-torch has no converter for {name}", Frame(node.name, name, frames, module))
            )
    return tuple(found)


def _flatten_outputs(program: Any) -> None:
    """Let an exported program give a tuple: the other process does not know the classes that a model registers for its outputs."""
    signature = program.module_call_graph[0].signature
    signature.out_spec = tree_structure(tuple(range(signature.out_spec.num_leaves)))


def _read(stream: IO[str], answers: queue.Queue[str | None]) -> None:
    with stream:
        for line in stream:
            answers.put(line)
    answers.put(None)


def _frame(entry: Any) -> Frame:
    return Frame(entry["name"], entry["operator"], tuple((path, row) for path, row in entry["frames"]), entry["module"])

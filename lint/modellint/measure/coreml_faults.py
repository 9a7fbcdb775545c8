"""Runs of the programs of known faults: writes the results beside the installed coremltools below ``data/coreml``.

``python -m modellint.measure.coreml_faults [--name NAME] [--every N | --fault ID]``, in an environment that has the version, and
torch. Every program is converted by both routes, in single and in half precision, and executed; the numbers are compared with
PyTorch's. A state between two versions is named by its commit, ``--name main-1234567``. ``--every 5`` runs every fifth fault, and
prints what it finds; ``--fault ID`` runs one, and leaves what is written of the others.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import re
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from modellint.data.coreml_faults import (
    BUILD,
    PRECISIONS,
    ROUTES,
    Fault,
    FaultProgram,
    Outcome,
    Results,
    constants,
    conversions,
    place,
    results,
    text,
)
from modellint.destinations.comparison.tensor_difference import LIMIT, compare
from modellint.destinations.coreml.mil.executor import ExecutionError, Executor, UnknownOperations
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint.destinations.coreml.private.installed_capabilities import front_end_digest
from modellint.destinations.coreml.private.mil_programs import program_of

LIMITS = {"float32": LIMIT, "float16": 1e-2}
"""The largest error over the output's scale that is taken for rounding."""
SECONDS = 180
"""After which a program is given up."""
_MOST = 40
"""Numbers of a tensor that are written down."""

Job = tuple[int, int, str]
"""The position of a fault and of a program, and the route, or ``BUILD``."""


class _Refused(Exception):
    """A capture or a conversion that is refused."""


def faults() -> tuple[Fault, ...]:
    """All faults: those of conversions, then those of constants."""
    return conversions() + constants()


def jobs(every: int = 1, only: str = "") -> Iterator[Job]:
    """What is to be run, of every n-th fault, or of the one that ``only`` names."""
    for position, fault in enumerate(faults()):
        if position % every or (only and fault.id != only):
            continue
        for number, program in enumerate(fault.programs):
            if fault in constants():
                yield position, number, BUILD
                continue
            for route in ROUTES:
                if not (program.core_aten and route == "trace"):
                    yield position, number, route


def run(job: Job) -> dict[str, Outcome]:
    """What one program gives by one route, by route and precision."""
    position, number, route = job
    program = faults()[position].programs[number]
    if route == BUILD:
        return {BUILD: built(program)}
    (single, error), (half, _) = (_converted(program, route, precision) for precision in PRECISIONS)
    if half.result == "right" and LIMITS["float32"] < error <= LIMITS["float16"]:
        half = Outcome("not told", "within half precision's rounding")
    return {f"{route} float32": single, f"{route} float16": half}


def namespace(program: FaultProgram) -> dict[str, Any]:
    """What a program defines."""
    names: dict[str, Any] = {}
    exec(program.text, names)
    return names


def _converted(program: FaultProgram, route: str, precision: str) -> tuple[Outcome, float]:
    """What a program gives, and the error over the output's scale."""
    names = namespace(program)
    model, *calls = names["make"]()
    model.eval()
    reference = copy.deepcopy(names["reference"]() if "reference" in names else model)
    before = copy.deepcopy(model.state_dict())
    try:
        with silence(), torch.no_grad():
            wanted = [_outputs(reference, call) for call in calls]
            captured = _captured(model, calls[0], route, program)
            if program.writes:
                _restored(model, before)
            mlmodel = _model(captured, calls[0], route, precision, program)
            if "finish" in names:
                mlmodel = names["finish"](mlmodel)
            if program.compares == "model":
                return judged([_outputs(model, call) for call in calls], wanted, precision), math.inf
            execute = Executor(program_of(mlmodel))
            given = [[*execute(dict(zip(execute.inputs, call, strict=True))).values()] for call in calls]
            outcome = judged(given, wanted, precision)
            if outcome.result == "wrong" and _is_wrong_before(captured, model, before, calls, wanted):
                outcome = outcome._replace(captured="wrong")
            return outcome, max(map(_error, given, wanted))
    except _Refused as error:
        return Outcome("refused", str(error)), math.inf
    except UnknownOperations as error:
        return Outcome("not run", f"no meaning is known for {', '.join(error.names)}"), math.inf
    except ExecutionError as error:
        message = f"a program that does not run: {_first_line(error)}"
        return Outcome("wrong", expected=_listed(wanted), obtained=message), math.inf


def _captured(model: nn.Module, inputs: tuple[Tensor, ...], route: str, program: FaultProgram) -> Any:
    try:
        if route == "trace":
            trace: Any = torch.jit.trace
            return trace(model, inputs, check_trace=False)
        sizes = tuple(dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in program.flexible) or None
        exported = torch.export.export(model, inputs, dynamic_shapes=sizes)
        return exported.run_decompositions() if program.core_aten else exported.run_decompositions({})
    except Exception as error:
        raise _Refused(f"torch.{'jit.trace' if route == 'trace' else 'export'}: {type(error).__name__}") from error


def _model(captured: Any, inputs: tuple[Tensor, ...], route: str, precision: str, program: FaultProgram) -> Any:
    options: dict[str, Any] = {"skip_model_load": True, "convert_to": "mlprogram"}
    options["compute_precision"] = ct.precision.FLOAT32 if precision == "float32" else ct.precision.FLOAT16
    if program.target:
        options["minimum_deployment_target"] = ct.target[program.target]
    if route == "trace":
        options["inputs"] = [
            ct.TensorType(shape=_sizes(value, program.flexible[at : at + 1]), dtype=_element_type(value))
            for at, value in enumerate(inputs)
        ]
    try:
        return ct.convert(captured, **options)
    except Exception as error:
        raise _Refused(f"coremltools: {_first_line(error)}") from error


def _sizes(value: Tensor, flexible: Sequence[Sequence[int]]) -> tuple[Any, ...]:
    axes = flexible[0] if flexible else ()
    return tuple(ct.RangeDim(1, 4 * size) if axis in axes else size for axis, size in enumerate(value.shape))


def _element_type(value: Tensor) -> Any:
    return {torch.float32: np.float32, torch.bool: np.bool_}.get(value.dtype, np.int32)


def _outputs(model: Any, call: tuple[Tensor, ...]) -> list[Tensor]:
    torch.manual_seed(1)
    given = model(*(value.clone() for value in call))
    outputs = [given] if isinstance(given, Tensor) else [*given]
    return [output.detach().clone() for output in outputs]


def _restored(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Undo what a run has written."""
    model.load_state_dict(copy.deepcopy(state))


def _is_wrong_before(
    captured: Any,
    model: nn.Module,
    state: dict[str, Tensor],
    calls: Sequence[tuple[Tensor, ...]],
    wanted: Sequence[Sequence[Tensor]],
) -> bool:
    _restored(model, state)
    runnable = captured if isinstance(captured, torch.jit.ScriptModule) else captured.module()
    try:
        given = [_outputs(runnable, call) for call in calls]
    except Exception:
        return False
    return judged(given, wanted, "float32").result == "wrong"


def judged(given: Sequence[Sequence[Tensor]], wanted: Sequence[Sequence[Tensor]], precision: str) -> Outcome:
    """What the outputs of all calls say, the first that differs with its numbers."""
    for values, references in zip(given, wanted, strict=True):
        if _error(values, references) > LIMITS[precision]:
            return Outcome("wrong", expected=_listed([references]), obtained=_listed([values]))
    return Outcome("right")


def _error(values: Sequence[Tensor], references: Sequence[Tensor]) -> float:
    """The largest error over an output's scale."""
    if len(values) != len(references):
        return math.inf
    return max(compare(value, reference).error for value, reference in zip(values, references, strict=True))


def built(program: FaultProgram) -> Outcome:
    """What is computed while a program is built, against what is meant."""
    make = namespace(program)["make"]
    with silence():
        try:
            made, wanted = make()
        except Exception as error:
            return Outcome(
                "wrong", expected=_intended(program), obtained=f"{type(error).__name__}: {_first_line(error)}"
            )
    (variable,) = made.functions["main"].outputs
    meant = torch.from_numpy(np.array(wanted))
    if variable.val is None:
        return Outcome("wrong", expected=_written(meant), obtained="no value")
    value = torch.from_numpy(np.array(variable.val))
    shape = tuple(variable.shape)
    difference = compare(value, meant)
    exact = difference.max_rel_error <= LIMIT and tuple(value.shape) == tuple(meant.shape)
    if exact and difference.agrees() and shape == tuple(meant.shape):
        return Outcome("right")
    declared = "" if shape == tuple(value.shape) else f", declared as {shape}"
    return Outcome("wrong", expected=_written(meant), obtained=f"{_written(value)}{declared}")


def _intended(program: FaultProgram) -> str:
    """What is meant where nothing is built: the program says it behind what raises."""
    expression = program.text.rpartition("return program, ")[2].strip()
    return _written(torch.from_numpy(np.array(eval(expression, {"np": np}))))


def _listed(calls: Sequence[Sequence[Tensor]]) -> str:
    return "; ".join(", ".join(map(_written, outputs)) for outputs in calls)


def _written(value: Tensor) -> str:
    if value.numel() > _MOST or not value.numel():
        return f"a tensor of shape {tuple(value.shape)}"
    return _numbers(value.tolist())


def _numbers(nested: Any) -> str:
    if isinstance(nested, list):
        return f"[{', '.join(map(_numbers, nested))}]"
    return f"{nested:.6g}" if isinstance(nested, float) else str(nested)


def _first_line(error: BaseException) -> str:
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    # What differs from run to run, or from machine to machine, is no part of it.
    return re.sub(r"0x[0-9a-f]+|(?:/[\w.-]+){2,}", "…", lines[0])[:120] if lines else type(error).__name__


class Worker:
    """A process that runs one job after another, and is replaced where it ends or takes too long."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # Nothing that a crash or an earlier conversion left is to be inherited.
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def ask(self, job: Job) -> dict[str, Outcome]:
        """What a job gives; ``not run`` for what ends the process, or takes too long."""
        why = "the process ended"
        try:
            self._pipe.send(job)
            if self._pipe.poll(SECONDS):
                outcomes: dict[str, Outcome] = self._pipe.recv()
                return outcomes
            why = f"more than {SECONDS} s"
        except (EOFError, OSError):
            pass
        self._process.kill()
        self.close()
        self._start()
        keys = [BUILD] if job[2] == BUILD else [f"{job[2]} {precision}" for precision in PRECISIONS]
        return {key: Outcome("not run", why) for key in keys}

    def close(self) -> None:
        """End the process, which waits for jobs no longer."""
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection) -> None:
    torch.set_num_threads(1)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(run(job))


def measured(name: str = "", every: int = 1, only: str = "") -> Results:
    """What is found beside the installed version, of every n-th fault, or of one."""
    outcomes: dict[str, dict[str, dict[str, Outcome]]] = {}
    worker = Worker()
    try:
        for job in jobs(every, only):
            fault = faults()[job[0]]
            of_program = outcomes.setdefault(fault.id, {}).setdefault(fault.programs[job[1]].name, {})
            of_program.update(worker.ask(job))
    finally:
        worker.close()
    version = ct.__version__
    return Results(name or version, version, front_end_digest(), torch.__version__.partition("+")[0], outcomes)


def main() -> int:
    """Write the file of a version, or print a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="", help="default: the version")
    parser.add_argument("--every", type=int, default=1, help="run every n-th fault, and write nothing")
    parser.add_argument(
        "--fault", default="", choices=[fault.id for fault in faults()], metavar="ID", help="run one fault"
    )
    given = parser.parse_args()
    found = measured(given.name, given.every, given.fault)
    if given.fault:
        kept = next((each for each in results() if (each.name, each.digest) == (found.name, found.digest)), None)
        if kept is None or kept.torch != found.torch:
            parser.error(f"nothing is written of {found.name} beside torch {found.torch}: run it without --fault")
        found = found._replace(outcomes={**kept.outcomes, **found.outcomes})
    if given.every > 1:
        sys.stdout.write(text(found))
    else:
        place(found.name).write_text(text(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What `ct.convert` says of one model and its inputs, by each route, and what the dry run said before."""

from __future__ import annotations

import contextlib
import io
import logging
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

with contextlib.redirect_stderr(io.StringIO()):
    import coremltools as ct

ROUTES = ("trace", "export")
Bounds = dict[int, dict[int, tuple[int, int]]]
"""Least and largest size of each flexible dimension of an input, by the input's position."""
NONE_FLEXIBLE: Bounds = {}


class Conditions(NamedTuple):
    """What is asked for beside the model and its inputs."""

    target: str | None = None
    precision: str = "fp16"
    flexible: int | None = None
    """The dimension of every input, from the front or from the end, whose size may vary from the example's upwards."""

    def bounds(self, args: tuple[Any, ...]) -> Bounds:
        """The flexible dimensions by the position of their input."""
        found: Bounds = {}
        for at, value in enumerate(args):
            rank = value.dim() if isinstance(value, torch.Tensor) else 0
            if self.flexible is not None and -rank <= self.flexible < rank:
                size = value.shape[self.flexible]
                found[at] = {self.flexible % rank: (size, size + SPAN)}
        return found


SPAN = 6
"""How far a flexible dimension goes."""


class TooSlow(BaseException):
    """A capture, conversion or dry run took too long; no `except Exception` is to catch it."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise ``TooSlow`` when the block takes longer."""

    def too_slow(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing on the terminal, gradients off."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(torch.no_grad())
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def tensor_types(values: Any, bounds: Bounds = NONE_FLEXIBLE) -> list[Any]:
    """The inputs as a user tells them to `ct.convert`."""

    def made(value: Any, flexible: dict[int, tuple[int, int]]) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(made(part, {}) for part in value)
        kinds = {torch.float16: np.float16, torch.bool: np.bool_}
        whole = not (value.is_floating_point() or value.is_complex())
        dtype = kinds.get(value.dtype, np.int32 if whole else np.float32)
        shape = [
            ct.RangeDim(*flexible[at], default=size) if at in flexible else size for at, size in enumerate(value.shape)
        ]
        return ct.TensorType(shape=tuple(shape), dtype=dtype)

    return [made(value, bounds.get(at, {})) for at, value in enumerate(values)]


def first_line(error: BaseException) -> str:
    """An exception as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def traced(model: nn.Module, args: tuple[Any, ...]) -> Any:
    """The model as a trace."""
    trace: Any = torch.jit.trace
    return trace(model, args, check_trace=False, strict=False)


def exported(model: nn.Module, args: tuple[Any, ...], bounds: Bounds = NONE_FLEXIBLE) -> Any:
    """The model as an exported program, not decomposed yet."""
    if not bounds:
        return torch.export.export(model, args)
    # A size of one is always taken for a constant.
    wide = list(args)
    for at, dimensions in bounds.items():
        for dimension in dimensions:
            if wide[at].shape[dimension] == 1:
                wide[at] = torch.cat([wide[at], wide[at]], dimension)
    dynamic = tuple(
        {which: torch.export.Dim.DYNAMIC(min=low, max=high) for which, (low, high) in bounds.get(at, {}).items()}
        or None
        for at in range(len(args))
    )
    return torch.export.export(model, tuple(wide), dynamic_shapes=dynamic)


def convert(program: Any, conditions: Conditions, types: list[Any] | None) -> Any:
    """The full conversion."""
    options: dict[str, Any] = {} if types is None else {"inputs": types}
    if conditions.target is not None:
        options["minimum_deployment_target"] = ct.target[conditions.target]
    if conditions.precision == "fp32":
        options["compute_precision"] = ct.precision.FLOAT32
    return ct.convert(program, skip_model_load=True, **options)


def truth(
    model: nn.Module, args: tuple[Any, ...], route: str, conditions: Conditions, seconds: int = 600
) -> dict[str, Any]:
    """Whether a route captures and converts the model, with what is said where it does not, and the seconds of both."""
    row: dict[str, Any] = {"captured": False, "converts": False}
    bounds = conditions.bounds(args)
    start = time.perf_counter()
    try:
        with quiet(), limited(seconds):
            if route == "trace":
                program, types = traced(model, args), tensor_types(args, bounds)
            else:
                whole = exported(model, args, bounds)
                program, types = whole.run_decompositions({}), None
    except (Exception, TooSlow) as error:
        return {**row, "message": first_line(error), "seconds": [time.perf_counter() - start, 0.0]}
    row["captured"] = True
    captured = time.perf_counter() - start
    row.update(_converted(program, conditions, types, seconds))
    row["seconds"] = [captured, row["seconds"]]
    if route == "export" and not row["converts"]:
        start = time.perf_counter()
        try:
            with quiet(), limited(seconds):
                program = whole.run_decompositions()
        except (Exception, TooSlow) as error:
            return {**row, "core": first_line(error)}
        captured += time.perf_counter() - start
        core = _converted(program, conditions, None, seconds)
        if core["converts"]:
            # What the decompositions mend is no failure of the route.
            return {**row, **core, "decomposed": True, "seconds": [captured, core["seconds"]], "plain": row["message"]}
        row["core"] = core["message"]
    return row


def _converted(program: Any, conditions: Conditions, types: list[Any] | None, seconds: int) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        with quiet(), limited(seconds):
            convert(program, conditions, types)
    except (Exception, TooSlow) as error:
        return {"converts": False, "message": first_line(error), "seconds": time.perf_counter() - start}
    return {"converts": True, "seconds": time.perf_counter() - start}


def predicted(
    model: nn.Module, args: tuple[Any, ...], route: str, conditions: Conditions, seconds: int = 600
) -> dict[str, Any]:
    """The dry run's verdict, with the seconds that it took in all, and for capture and front end."""
    from modellint.destinations.coreml.dry_run.dry_run import dry_run

    destination = Destination(conditions.target or "iOS15", precision=conditions.precision)
    inputs = Inputs(args, {}, conditions.bounds(args))
    start = time.perf_counter()
    try:
        with limited(seconds):
            verdict = dry_run(model, inputs, route, destination, Project(Path.cwd()))
    except (Exception, TooSlow) as error:
        where = traceback.format_exc()[-1500:]
        return {"raised": first_line(error), "traceback": where, "took": time.perf_counter() - start}
    return {
        "convertible": verdict.convertible,
        "reason": verdict.reason,
        "decomposed": verdict.decomposed,
        "blockers": [[one.kind, one.operator, one.message[:300], one.count] for one in verdict.blockers],
        "seconds": list(verdict.seconds),
        "took": time.perf_counter() - start,
    }


def judged(
    model: nn.Module, args: tuple[Any, ...], conditions: Conditions, known: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Verdict and truth by each route; of ``known``, an earlier result, the truth is taken.

    The verdict comes first: it must not need what the conversion leaves behind.
    """
    model.eval()
    found: dict[str, Any] = {}
    for route in ROUTES:
        said = predicted(model, args, route, conditions)
        true = truth(model, args, route, conditions) if known is None or route not in known else known[route]["truth"]
        found[route] = {"dry": said, "truth": true}
    return found

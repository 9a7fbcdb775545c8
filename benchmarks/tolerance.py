"""What a model gives, element by element, and how far a program may be from it.

The model in float64 tells the value. It is run in float32 several times, each time with other roundings: each operation that
rounds gives the number above or below at random, and in some runs inputs and weights are moved by a rounding too. Ten times
the largest distance of those runs from float64 is allowed at an element, or 1e-6 of it. Integers and truth values must be
equal, unless one of the runs gives another: then what makes them is a tie within rounding.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from further_inputs import Further
from random_sources import Model, built

TIMES = 10.0
RELATIVE = 1e-6
SCALE = 1e-5
"""Of an output's largest element, allowed where the model does not run in float64."""
TINY = 2e-38
"""Below this, numbers may be flushed to zero."""
RUNS = 5
MANY = 40
"""Where an element departs: a few runs may be lucky ones, all of which are close."""
NUDGED = 2
"""Of `RUNS`, those in which inputs and weights are moved; of more runs the same share."""
LEAP = 1e-3
"""Of the scale: what moving exact inputs by a rounding changes by more is a choice, and none of rounding's doing."""

EQUAL = "the order of equal numbers"
_TIED = {"aten::topk", "aten::sort", "aten::kthvalue", "aten::median", "aten::nanmedian", "aten::argsort", "aten::mode"}


class Rounding(TorchDispatchMode):
    """Gives, where an operation rounds, one of the numbers beside the result at random, and orders what is equal at random.

    ``notes`` says what else is left open on these inputs: which of several ``writes to one place`` holds, the order of equal numbers, and
    casts and integers ``beyond int32``.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._draw = torch.Generator().manual_seed(seed)
        self.notes: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name, kwargs or {}
        flat = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        given = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
        if _meets(name, given):
            self.notes.add("writes to one place")
        if name in _TIED and "dim" in {one.name for one in func._schema.arguments} and not given.get("stable"):
            return self._ordered(func, given)
        exact = None
        if any(one.dtype == torch.float32 for one in flat):
            try:
                wide, named = pytree.tree_map_only(Tensor, _widened, (args, kwargs))
                exact = [one for one in pytree.tree_leaves(func(*wide, **named)) if isinstance(one, Tensor)]
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                exact = None
        result = func(*args, **kwargs)
        if _leaves_the_range(name, args, result):
            self.notes.add("casts beyond the range of integers")
        made = [one for one in pytree.tree_leaves(result) if isinstance(one, Tensor)]
        for at, one in enumerate(made):
            if one.dtype == torch.float32 and exact is not None and exact[at].dtype == torch.float64:
                off = exact[at] != one.double()
                if bool(off.any()):
                    one.copy_(torch.where(off, _beside(one, self._draw), one))
            elif one.dtype == torch.int64 and one.numel() and int(one.abs().max()) >= 2**31:
                self.notes.add("beyond int32")
        return result

    def _ordered(self, func: Any, given: dict[str, Any]) -> Any:
        """What sorts, run on its elements in another order: which of two that are equal comes first is not said."""
        value, which = given["self"], given.get("dim", -1)
        if not value.dim():
            return func(**given)
        if bool((value.sort(which)[0].diff(dim=which) == 0).any()):
            self.notes.add(EQUAL)
        order = torch.randperm(value.shape[which], generator=self._draw)
        found = func(**{**given, "self": value.index_select(which, order)})
        if isinstance(found, Tensor):
            return order[found]
        values, places = found
        return values, order[places]


def _leaves_the_range(name: str, args: Any, result: Any) -> bool:
    """Whether floats are cast to integers of a type that does not hold them, which C leaves undefined."""
    at = {"aten::_to_copy": 0, "aten::copy_": 1}.get(name)
    if at is None or not isinstance(result, Tensor) or result.dtype not in (torch.int32, torch.int64):
        return False
    value = args[at]
    # What a program has in the place of int64 is int32.
    return value.is_floating_point() and value.numel() > 0 and not bool((value.double().abs() < 2.0**31).all())


def _meets(name: str, given: dict[str, Any]) -> bool:
    """Whether different values are written to one place."""
    match name:
        case "aten::scatter" | "aten::scatter_" if isinstance(given.get("src"), Tensor) and given["index"].dim():
            places = given["index"].sort(given["dim"])[0]
            return bool((places.diff(dim=given["dim"]) == 0).any())
        case "aten::index_copy" | "aten::index_copy_":
            return bool(given["index"].unique().numel() < given["index"].numel())
        case "aten::index_put" | "aten::index_put_" | "aten::_index_put_impl_" if not given.get("accumulate"):
            held = [one for one in given["indices"] if isinstance(one, Tensor)]
            if given["values"].numel() < 2 or any(one.dtype == torch.bool for one in held):
                return False
            rows = torch.stack([one.flatten() for one in torch.broadcast_tensors(*held)], 1)
            return rows.unique(dim=0).shape[0] < rows.shape[0]
    return False


def _widened(value: Tensor) -> Tensor:
    return value.double() if value.dtype == torch.float32 else value.clone()


class Expected(NamedTuple):
    """What a model gives on one prediction."""

    outputs: list[Any]
    exact: list[Any] | None
    """Of the model in float64; None where it does not run so."""
    runs: list[list[Any]]
    """With other roundings."""
    moved: list[list[Any]]
    """With inputs and weights moved too."""
    notes: frozenset[str]


class Raises(Exception):
    """PyTorch itself raises on these inputs."""


class Reference:
    """A model, ready to be run many times."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._single = model.build()
        self._has_buffers = any(True for _ in self._single.buffers())
        self._double: nn.Module | None = _double(model)

    def buffers(self) -> list[str]:
        """The names of the buffers."""
        return [name for name, _ in self._single.named_buffers()]

    def buffer(self, name: str) -> Any:
        """What one starts with."""
        return self._single.get_buffer(name).numpy().copy()

    def __call__(self, further: Further, several: int = RUNS) -> list[Expected]:
        """One for each prediction, with so many runs that round at random. Raises ``Raises``."""
        try:
            outputs = self._run(self._single, further)
        except Exception as error:
            raise Raises(f"{type(error).__name__}: {error}"[:200]) from None
        exact = None
        if self._double is not None:
            try:
                exact = self._run(self._double, _doubled(further), wide=True)
            except Exception:
                exact = None
        runs, moved, notes = [], [], set()
        for at in range(several):
            mode = Rounding(self._model.seed * 31 + at)
            is_moved = at >= several - several * NUDGED // RUNS
            model = _nudged_model(self._single, at) if is_moved else self._single
            given = _nudged(further, at) if is_moved else further
            try:
                with mode:
                    found = self._run(model, given)
            except Exception:
                if not is_moved:
                    notes.add("rounding decides whether PyTorch raises")
                continue
            notes |= mode.notes
            (moved if is_moved else runs).append(found)
        return [
            Expected(
                outputs[step],
                None if exact is None else exact[step],
                [one[step] for one in runs],
                [one[step] for one in moved],
                frozenset(notes),
            )
            for step in range(len(outputs))
        ]

    def _run(self, model: nn.Module, further: Further, *, wide: bool = False) -> list[list[Any]]:
        """The outputs of each prediction, and, of a model with states, the buffers after it."""
        model = copy.deepcopy(model) if self._has_buffers else model
        found = []
        torch.set_default_dtype(torch.float64 if wide else torch.float32)
        try:
            with torch.no_grad():
                for step in further.steps:
                    outputs = pytree.tree_leaves(model(*[one.clone() for one in step]))
                    held = [one.clone() for one in model.buffers()] if self._model.states else []
                    found.append([one.numpy().copy() for one in (*outputs, *held)])
        finally:
            torch.set_default_dtype(torch.float32)
        return found


def _double(model: Model) -> nn.Module | None:
    kept = model.text.replace("finfo(torch.float32)", "finfo(torch.single)")
    text = re.sub(r"\.float\(\)", ".double()", kept.replace("torch.float32", "torch.float64"))
    # Weights are drawn in single precision in both.
    head, forward = text.split("    def forward", 1)
    try:
        return built(head.replace("torch.float64", "torch.float32") + "    def forward" + forward).double()
    except Exception:
        return None


def _doubled(further: Further) -> Further:
    steps = tuple(tuple(one.double() if one.dtype == torch.float32 else one for one in step) for step in further.steps)
    return further._replace(steps=steps)


def _moved(value: Tensor, draw: torch.Generator) -> Tensor:
    return torch.where(value == 0, value, _beside(value, draw))


def _beside(value: Tensor, draw: torch.Generator) -> Tensor:
    """The next number above or below."""
    sides = torch.randint(0, 2, value.shape, generator=draw) * 2.0 - 1
    return torch.nextafter(value, sides * torch.inf)


def _nudged(further: Further, seed: int) -> Further:
    draw = torch.Generator().manual_seed(seed)
    steps = tuple(
        tuple(_moved(one, draw) if one.dtype == torch.float32 else one for one in step) for step in further.steps
    )
    return further._replace(steps=steps)


def _nudged_model(model: nn.Module, seed: int) -> nn.Module:
    draw = torch.Generator().manual_seed(seed + 100)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for one in (*moved.parameters(), *moved.buffers()):
            if one.dtype == torch.float32:
                one.copy_(_moved(one, draw))
    return moved


class Departure(NamedTuple):
    """Where a program is wrong."""

    output: int
    why: str
    got: float
    expected: float
    allowed: float
    count: int
    """Elements."""
    apart: str = ""
    """What PyTorch leaves open there; empty where it does not."""


def departures(got: Sequence[Any], expected: Expected, is_exact: bool) -> list[Departure]:
    """Where outputs are further from a model than it is from itself."""
    found = []
    if len(got) != len(expected.outputs):
        return [Departure(-1, f"{len(got)} outputs for {len(expected.outputs)}", 0, 0, 0, 1)]
    for at, (one, wanted) in enumerate(zip(got, expected.outputs, strict=True)):
        value = np.asarray(one)
        if value.shape != wanted.shape:
            if value.size != wanted.size or wanted.ndim or value.shape != (1,):
                found.append(Departure(at, f"shape {value.shape} for {wanted.shape}", 0, 0, 0, 1))
                continue
            value = value.reshape(())
        exact = None if expected.exact is None else expected.exact[at]
        runs, moved = [run[at] for run in expected.runs], [run[at] for run in expected.moved]
        if any(np.shape(run) != wanted.shape for run in (*runs, *moved, *([] if exact is None else [exact]))):
            # Rounding decides the size.
            continue
        judge = _floats if wanted.dtype.kind == "f" else _discrete
        bad, allowed, why = judge(value, wanted, exact, runs, moved, is_exact)
        if bad.any():
            first = np.argmax(bad)
            # Of equal numbers only the order is open, which shows in where they were, and from run to run.
            is_open = why == "not equal" and any((run != wanted).any() for run in runs)
            apart = ", ".join(sorted(expected.notes - (set() if is_open else {EQUAL})))
            values = (float(np.ravel(part)[first]) for part in (value, wanted, allowed))
            found.append(Departure(at, why, *values, int(bad.sum()), apart))
    return found


def _discrete(
    value: Any, wanted: Any, exact: Any, runs: list[Any], moved: list[Any], is_exact: bool
) -> tuple[Any, Any, str]:
    bad = value.astype(np.float64) != wanted.astype(np.float64)
    others = [*runs, *([] if exact is None else [exact]), *([] if is_exact else moved)]
    for other in others:
        bad &= other == wanted
    return bad, np.zeros_like(wanted, np.float64), "not equal"


def _floats(
    value: Any, wanted: Any, exact: Any, runs: list[Any], moved: list[Any], is_exact: bool
) -> tuple[Any, Any, str]:
    value, single = value.astype(np.float64), wanted.astype(np.float64)
    true = single if exact is None else exact.astype(np.float64)
    finite = np.isfinite(single)
    for other in (*runs, *moved, true):
        finite &= np.isfinite(other)
    settled = ~np.isfinite(single)
    for other in (*runs, *moved, true):
        settled &= ~np.isfinite(other) & (np.isnan(other) == np.isnan(single)) & ((other == single) | np.isnan(single))
    same = np.where(np.isnan(single), np.isnan(value), value == single)
    lost = settled & ~same
    with np.errstate(all="ignore"):
        error = np.abs(single - true)
        for run in runs:
            error = np.maximum(error, np.abs(run - true))
        scale = np.abs(true[np.isfinite(true)]).max(initial=0.0)
        for run in moved:
            off = np.abs(run - true)
            error = np.maximum(error, np.where(is_exact & (off > LEAP * scale), 0, off))
        allowed = np.maximum(TIMES * error, RELATIVE * np.abs(true)) + TINY
        if exact is None:
            allowed = np.maximum(allowed, SCALE * scale)
        far = finite & ~(np.abs(value - true) <= allowed)
    return lost | far, allowed, "not finite in the same places" if lost.any() else "too far"


def snr(got: Sequence[Any], expected: Expected) -> float:
    """In decibels, the least of all float outputs; nan without any."""
    found = [float("nan")]
    for one, wanted in zip(got, expected.outputs, strict=False):
        value = np.asarray(one, np.float64)
        if wanted.dtype.kind == "f" and value.size == wanted.size and np.isfinite(wanted).all() and wanted.any():
            noise = float(((value.reshape(wanted.shape) - wanted) ** 2).sum())
            if noise:
                found.append(10 * float(np.log10((wanted.astype(np.float64) ** 2).sum() / noise)))
            else:
                found.append(200.0)
    return float(np.nanmin(found)) if len(found) > 1 else float("nan")

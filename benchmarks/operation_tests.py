"""A pytest plug-in that holds the executor of ML Programs against coremltools' own tests of its operations.

    python -m pytest -p operation_tests --operations FILE --pyargs coremltools.converters.mil.mil.ops.tests

A test builds a program, converts it, and compares a prediction with what numpy, PyTorch, TensorFlow or a table says. The
prediction is ours instead, twice: of the program as the test builds it, and of the program as converted. What a test cannot
do elsewhere but on a Mac is done here. ``execution.py operations`` starts this.
"""

from __future__ import annotations

import copy
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.models import MLModel

from ledger import Ledger
from modellint.destinations.coreml.mil.executor import Executor, UnknownOperations
from modellint.destinations.coreml.private.mil_programs import dtype_name, is_state
from truth import TooSlow, first_line, limited

BACKENDS = ("neuralnetwork",)
"""Left out: the same programs, converted to what is no ML Program."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("operation_tests")
    group.addoption("--operations", type=Path, help="the file for results, lines of JSON")
    group.addoption("--built", action="store_true", help="convert nothing: run programs only as tests build them")
    group.addoption("--every", type=int, default=1, help="run one in so many tests")
    group.addoption("--tests", nargs="*", default=[], help="parts of names of tests")


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    config.pluginmanager.register(OperationTests(config), "operation-tests")


class OperationTests:
    """Stands in the place of Core ML."""

    def __init__(self, config: pytest.Config) -> None:
        from coremltools.converters.mil import testing_utils as shared
        from coremltools.converters.mil.mil.ops.tests import testing_utils as own

        self._ledger = Ledger(config.getoption("--operations"))
        self._unconverted = config.getoption("--built")
        self._only = config.getoption("--tests")
        self._every = config.getoption("--every")
        self._test = ""
        self._cases: list[dict[str, Any]] = []
        self._built: dict[int, Any] = {}
        self._running: dict[int, Any] = {}
        self._predicted = False
        self._convert = shared.ct_convert
        for module in (shared, own):
            module.ct_convert = self._converted
            module.compare_backend = self._compare
        # Tests ask which system they run on, and leave out what Core ML itself does wrong.
        ct.utils._macos_version = lambda: (26, 0)
        platform.machine = lambda: "any"
        pytest.xfail = lambda reason="": None
        skip = pytest.skip
        pytest.skip = lambda reason="", **options: None if "rdar" in reason else skip(reason, **options)
        MLModel.make_state = _made_state
        for kind in (MLModel, _Unconverted):
            kind.predict = lambda model, data, state=None: self._predict(model, data)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out neural networks, and what is run already."""
        chosen = [
            item
            for item in items
            if "neuralnetwork" not in str(_parameters(item).get("backend"))
            and (not self._only or any(part in _name(item) for part in self._only))
        ]
        items[:] = [item for item in chosen[:: self._every] if _name(item) not in self._ledger.begun]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Write down a test's row once it is over."""
        self._test = _name(item)
        self._cases, self._predicted = [], False
        self._built.clear()
        self._running.clear()
        self._ledger.begin(self._test)
        np.random.seed(1984)
        torch.manual_seed(0)
        self._report = SimpleNamespace(outcome="", text="")
        result = yield
        row = {"name": self._test, "set": "operations", "cases": self._cases}
        if self._predicted:
            program = "built" if self._unconverted else "converted"
            agrees = self._report.outcome.startswith("passed")
            row["cases"] = [*self._cases, {"program": program, "own": True, "loose": agrees}]
        self._ledger.finish({**row, "outcome": self._report.outcome, "said": self._report.text})
        return result

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep how a test ends."""
        if report.when == "call" or report.outcome != "passed":
            where = getattr(report.longrepr, "reprcrash", None)
            text = where.message if where is not None else str(report.longrepr) if report.longrepr else ""
            xfailed = " (expected)" if hasattr(report, "wasxfail") else ""
            self._report = SimpleNamespace(outcome=report.outcome + xfailed, text=text[:300])

    def _converted(self, program: Any, *args: Any, **options: Any) -> Any:
        """Convert as the tests do, and keep what runs the program as it was."""
        if self._unconverted:
            model: Any = _Unconverted(program)
            self._built[id(model)] = model, _executor(program)
            return model
        # Passes change what the program holds.
        built = _executor(copy.deepcopy(program))
        model = self._convert(program, *args, **options)
        if hasattr(model, "get_spec"):
            self._built[id(model)] = model, built
        return model

    def _executed(self, model: Any) -> Any:
        """What runs a converted model, the same one for each step of its states."""
        if id(model) not in self._running:
            self._running[id(model)] = _executor(model._mil_program)
        return self._running[id(model)]

    def _predict(self, model: Any, data: Mapping[str, Any]) -> dict[str, Any]:
        self._predicted = True
        run, _ = self._executed(model)
        if isinstance(run, Exception):
            raise run
        outputs = _run(run, data)
        return {name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()}

    def _compare(
        self,
        mlmodel: Any,
        input_key_values: Mapping[str, Any] | None,
        expected_outputs: Mapping[str, Any] | None,
        dtype: str = "fp32",
        atol: float = 1e-04,
        rtol: float = 1e-05,
        also_compare_shapes: bool = True,
        state: Any = None,
        allow_mismatch_ratio: float = 0.0,
    ) -> None:
        """Run both programs and note how far each is from what the test expects."""
        if expected_outputs is None:
            return
        _, built = self._built.get(id(mlmodel), (None, None))
        programs = [("built", built)] if built is not None else []
        if not isinstance(mlmodel, _Unconverted):
            programs.append(("converted", self._executed(mlmodel)))
        for program, run in programs:
            run, holds_half = run
            case: dict[str, Any] = {"program": program, "precision": dtype, "half": holds_half}
            self._cases.append(case)
            half = holds_half or (program == "converted" and dtype == "fp16")
            limits = (max(atol * 100, 0.5), max(rtol * 100, 0.05)) if half else (atol, rtol)
            if isinstance(run, UnknownOperations):
                case["unknown"] = list(run.names)
                continue
            try:
                if isinstance(run, Exception):
                    raise run
                with limited(120):
                    outputs = _run(run, input_key_values or {})
                case.update(_compared(list(outputs.values()), list(expected_outputs.values()), limits))
            except (Exception, TooSlow) as error:
                case["raised"] = first_line(error)


class _Unconverted:
    """Stands for the model that a program was not converted to."""

    def __init__(self, program: Any) -> None:
        self._mil_program = program

    def _is_stateful(self) -> bool:
        return any(map(is_state, self._mil_program.functions["main"].inputs.values()))

    def make_state(self) -> object:
        return object()


def _name(item: pytest.Item) -> str:
    return f"{item.path.parent.name}/{item.path.stem}::{item.nodeid.partition('::')[2]}"


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return dict(getattr(item, "callspec", SimpleNamespace(params={})).params)


def _made_state(model: Any) -> object:
    return object()


def _executor(program: Any) -> tuple[Any, bool]:
    """What runs a program, or the exception that says why none does; and whether the program holds half precision."""
    half = any(
        _holds_half(function) or any(dtype_name(variable) == "fp16" for variable in function.inputs.values())
        for function in program.functions.values()
    )
    try:
        return Executor(program), half
    except Exception as error:
        return error, half


def _holds_half(block: Any) -> bool:
    return any(
        any(dtype_name(variable) == "fp16" for variable in one.outputs) or any(map(_holds_half, one.blocks))
        for one in block.operations
    )


def _run(run: Executor, data: Mapping[str, Any]) -> dict[str, Any]:
    """Predict with arrays, scalars and images, as Core ML takes them."""
    inputs = {}
    for name, declared in run.inputs.items():
        value = data[name]
        if hasattr(value, "getbands"):
            pixels = np.asarray(value, dtype=np.float32)
            value = pixels[None, None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)[None]
        tensor = torch.from_numpy(np.array(value))
        if declared.shape is not None and tensor.dim() != len(declared.shape) and tensor.numel() == 1:
            tensor = tensor.reshape([1] * len(declared.shape))
        inputs[name] = tensor
    return run(inputs)


def _compared(outputs: list[Any], expected: list[Any], limits: tuple[float, float]) -> dict[str, Any]:
    """Whether all outputs agree within the test's limits, and the worst error over an output's scale."""
    loose, worst, said = True, 0.0, ""
    if len(outputs) != len(expected):
        return {"loose": False, "error": None, "said": f"{len(outputs)} outputs for {len(expected)}"}
    for at, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if isinstance(wanted, (dict, str)) or not isinstance(got, torch.Tensor):
            same = bool(np.all(np.asarray(got) == np.asarray(wanted)))
            loose, worst = loose and same, worst if same else float("inf")
            continue
        ours, theirs = got.numpy(), np.asarray(wanted)
        if ours.shape != theirs.shape and not (ours.size == 1 and theirs.size == 1):
            loose, worst, said = False, float("inf"), f"output {at}: shape {ours.shape} for {theirs.shape}"
            continue
        if not ours.size:
            continue
        ours, theirs = ours.astype(np.float64).reshape(theirs.shape), theirs.astype(np.float64)
        if not np.allclose(ours, theirs, atol=limits[0], rtol=limits[1], equal_nan=True):
            loose = False
            said = said or f"output {at}: {ours.ravel()[:6].tolist()} for {theirs.ravel()[:6].tolist()}"
        worst = max(worst, relative(ours, theirs))
    return {"loose": loose, "error": worst, "said": said}


def relative(ours: Any, theirs: Any) -> float:
    """The largest difference over the largest finite number expected; infinite where what is not finite differs."""
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if same.all():
        return 0.0
    if not (np.isfinite(ours[~same]).all() and np.isfinite(theirs[~same]).all()):
        return float("inf")
    finite = np.abs(theirs[np.isfinite(theirs)])
    scale = float(finite.max()) if finite.size else 0.0
    return float(np.abs(ours - theirs)[~same].max()) / (scale or 1.0)

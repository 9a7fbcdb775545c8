"""A pytest plug-in that takes every model with its inputs out of the tests that coremltools ships, and judges it there.

    python -m pytest -p harvest --harvest FILE --pyargs coremltools.converters.mil.frontend.torch.test.test_torch_ops

The tests run as they are up to the conversion, which is replaced. Of the variants of a test that differ only in how they
convert, one is run; the tests take turns, so that few of them give all pairs. ``agreement.py`` starts this.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ledger import Ledger
from truth import Conditions, judged

_CONVERSION = ("backend", "compute_unit", "frontend", "minimum_deployment_target")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("harvest")
    group.addoption("--harvest", type=Path, help="the file for results, lines of JSON")
    group.addoption("--pairs", type=int, default=2000, help="how many pairs to judge")
    group.addoption("--truth", type=Path, help="results of an earlier run, for what the conversion says")
    group.addoption("--coreai", action="store_true", help="judge what is told of Core AI")
    group.addoption("--executed", action="store_true", help="convert, execute and compare, instead of judging")
    group.addoption("--precisions", nargs="*", default=["fp32", "fp16"], help="of what is executed")
    group.addoption("--sample-seed", type=int, default=0, help="of the choice of tests")


def pytest_configure(config: pytest.Config) -> None:
    from coremltools.converters.mil.frontend.torch.test import testing_utils

    torch.set_num_threads(1)
    config.pluginmanager.register(Harvest(config, testing_utils), "harvest-pairs")


class Harvest:
    """Stands in the place of what captures and converts."""

    def __init__(self, config: pytest.Config, testing_utils: Any) -> None:
        self._config = config
        self._ledger = Ledger(config.getoption("--harvest"))
        earlier = config.getoption("--truth")
        self._known = {} if earlier is None else Ledger(earlier).rows
        self._models: dict[int, tuple[nn.Module, Any]] = {}
        self._test = ""
        self._judge: Any = None
        self._count = 0
        testing_utils.export_torch_model_to_frontend = self._export
        testing_utils.convert_to_mlmodel = self._convert

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """One variant of each conversion, every test in its turn."""
        groups: dict[tuple[str, str], list[pytest.Item]] = {}
        for item in items:
            parameters = dict(getattr(item, "callspec", SimpleNamespace(params={})).params)
            if "neuralnetwork" in str(parameters.get("backend")):
                continue
            own = repr(sorted((key, str(value)) for key, value in parameters.items() if key not in _CONVERSION))
            groups.setdefault((item.nodeid.partition("[")[0], own), []).append(item)
        chance = random.Random(self._config.getoption("--sample-seed"))
        tests: dict[str, list[pytest.Item]] = {}
        for (test, _), variants in groups.items():
            tests.setdefault(test, []).append(chance.choice(variants))
        for variants in tests.values():
            chance.shuffle(variants)
        turns = max((len(variants) for variants in tests.values()), default=0)
        items[:] = [variants[turn] for turn in range(turns) for variants in tests.values() if turn < len(variants)]

    def pytest_sessionfinish(self) -> None:
        if self._judge is not None:
            self._judge.__exit__(None, None, None)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave out what was judged before, and stop when there are enough."""
        if sum("lost" not in row for row in self._ledger.rows.values()) >= self._config.getoption("--pairs"):
            pytest.exit("enough pairs", 0)
        self._test = f"{item.path.stem}::{item.nodeid.partition('::')[2]}"
        self._count = 0
        self._models.clear()
        if f"{self._test} #1" in self._ledger.begun:
            pytest.skip("judged before")
        torch.manual_seed(0)

    def _export(self, model: Any, input_data: Any, frontend: Any, **options: Any) -> Any:
        """Give back the model itself instead of a capture."""
        if isinstance(model, nn.Module):
            self._models[id(model)] = model, input_data
        return model

    def _convert(self, model_spec: Any, tensor_inputs: Any, **options: Any) -> Any:
        """Judge a pair instead of converting it."""
        known = self._models.get(id(model_spec))
        if known is None:
            pytest.skip("no module of PyTorch")
        given = known[1]
        args = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        target = options.get("minimum_deployment_target")
        self._count += 1
        name = f"{self._test} #{self._count}"
        self._ledger.begin(name)
        row = {"name": name, "set": "harvest", "target": None if target is None else target.name}
        if self._config.getoption("--coreai"):
            self._ledger.finish({**row, **self._by_coreai(model_spec, args)})
        elif self._config.getoption("--executed"):
            self._ledger.finish({**row, "set": "corpora", "of": "harvest", **self._executed(model_spec, args, row)})
        else:
            self._ledger.finish({**row, **judged(model_spec, args, Conditions(row["target"]), self._known.get(name))})
        # What the tests look at afterwards is not there.
        return SimpleNamespace(input_description=(), is_package=True)

    def _by_coreai(self, model: nn.Module, args: tuple[Any, ...]) -> dict[str, Any]:
        from coreai_verdicts import Judge

        if self._judge is None:
            self._judge = Judge().__enter__()
        try:
            with torch.no_grad():
                model.eval()(*args)
            told = self._judge.told(model, args)
        except Exception as error:
            return {"skipped": f"{type(error).__name__}: {error}"[:300]}
        return {**told, "truth": self._judge.truth.of_model(model, args)}

    def _executed(self, model: nn.Module, args: tuple[Any, ...], row: dict[str, Any]) -> dict[str, Any]:
        from corpora import executed

        precisions = tuple(self._config.getoption("--precisions"))
        try:
            with torch.no_grad():
                return executed(model.eval(), args, row["target"], precisions, self._known.get(row["name"]))
        except Exception as error:
            return {"skipped": f"{type(error).__name__}: {error}"[:300]}

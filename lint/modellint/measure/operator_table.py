"""Measurement of the operator table: which operators PyTorch's API consists of, and which of them coremltools converts.

``python -m modellint.measure.operator_table measure FOLDER [SHARE [NAME …]]`` captures and converts samples of every API, or of those
named, which takes an hour; two processes share the work with ``0/2`` and ``1/2``. ``… write FOLDER`` writes
``data/coreml_operators.json``: what the installed version converts is since that version, or since an older one by the names of its
converters; names without a measurement in the folder keep their rows. It needs expecttest beside coremltools and torch; what is measured
already is not measured again.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from modellint.data.coreml_operators import OPERATORS, SINCE, Since
from modellint.data.operator_conversion import NEWEST
from modellint.destinations.coreml.private.entry_points import (
    ct,
    exported_operators,
    registered,
    silence,
    traced_operators,
)
from modellint.destinations.coreml.private.installed_capabilities import facts
from modellint.measure.operator_probes import Api, Probe, Sample, apis

TARGETS = {"iOS15": ct.target.iOS15, "iOS16": ct.target.iOS16, "iOS17": ct.target.iOS17, "iOS18": ct.target.iOS18}
ROUTES = ("trace", "export", "core")
"""`torch.jit.trace`; `torch.export` with `run_decompositions({})`; the same with core ATen decompositions."""
EXPORT_SINCE = "7.2"
_BROKEN = re.compile("has no attribute|(?:not enough|too many) values to unpack")
"""What Python says of a converter that calls an operation that does not exist (`asinh`), or expects arguments that a route does not give:
`rand` five, of which `torch.export` gives one."""
_PLUMBING = {"clone", "constant", "getitem", "listconstruct", "ne", "tupleconstruct", "tupleunpack"}
_SECONDS = 90
"""How long one API may take by one route."""


@dataclass
class Measured:
    """What was found about one API by one route."""

    captured: int = 0
    operators: list[list[str]] = field(default_factory=list)
    """The sets of operators that the samples were captured as."""
    target: str | None = None
    """The oldest deployment target for which a sample converts."""
    refused: list[str] = field(default_factory=list)
    """What coremltools said of the samples that do not convert, once each."""
    like: str | None = None
    """The API from which this was taken, since the captured operators are the same."""


def versions() -> tuple[list[str], dict[str, str], dict[str, str]]:
    """coremltools' versions, each name of a converter with the first that has it, and with the first that lost it."""
    data = json.loads(resources.files("modellint.data").joinpath("coreml_converters.json").read_text("utf-8"))
    return data["versions"], data["since"], data["until"]


def names_of(version: str) -> frozenset[str]:
    """The names that a version of coremltools has converters for."""
    order, since, until = versions()
    at = order.index(version)
    return frozenset(
        name
        for name, first in since.items()
        if order.index(first) <= at and not (name in until and order.index(until[name]) <= at)
    )


class TooSlow(Exception):
    """A capture or conversion that took too long."""


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _tensor_types(probe: Probe) -> list[Any]:
    import numpy as np

    kinds = {torch.float32: np.float32, torch.float16: np.float16}
    return [
        ct.TensorType(shape=tuple(tensor.shape), dtype=kinds.get(tensor.dtype, np.int32)) for tensor in probe.inputs
    ]


class Captured:
    """One sample as coremltools would get it by one route."""

    def __init__(self, probe: Probe, route: str) -> None:
        self.inputs = _tensor_types(probe) if route == "trace" else None
        example = tuple(probe.inputs)
        with silence(), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            if route == "trace":
                trace: Any = torch.jit.trace
                self.program: Any = trace(probe, example, check_trace=False, strict=False)
                self.operators = traced_operators(self.program, self.inputs or ())
            else:
                exported = torch.export.export(probe, example)
                self.program = exported.run_decompositions({} if route == "export" else None)
                self.operators = exported_operators(self.program)

    def refusal(self, target: str) -> str | None:
        """Convert; why it failed, or None."""
        options: dict[str, Any] = {} if self.inputs is None else {"inputs": self.inputs}
        try:
            with silence(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ct.convert(self.program, minimum_deployment_target=TARGETS[target], skip_model_load=True, **options)
        except TooSlow:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {str(error).strip()}".replace("\n", " ")[:160]
        return None


def _captures(api: Api, route: str, most: int | None = None) -> Iterator[tuple[Sample, Captured]]:
    done = 0
    inplace = api.name.endswith("_")
    # Capture by export takes a quarter of a second.
    for sample in api.samples(12 if route == "trace" else 6):
        try:
            probe = Probe(sample, inplace=inplace, only_first=False).eval()
            if any(0 in tensor.shape for tensor in probe.inputs):
                continue
            torch.manual_seed(0)
            with torch.no_grad():
                if any(0 in tensor.shape for tensor in probe(*probe.inputs)):
                    continue
            captured = Captured(probe, route)
        except TooSlow:
            raise
        except Exception:
            continue
        yield sample, captured
        done += 1
        if done == most:
            return


def measure(api: Api, route: str, names: frozenset[str], oldest: frozenset[str]) -> Measured:
    """Capture and convert samples until one converts for the oldest target and was captured as the oldest operators."""
    measured = Measured()
    sets: dict[frozenset[str], bool] = {}
    late: list[Captured] = []
    for sample, captured in _captures(api, route):
        measured.captured += 1
        operators = captured.operators
        known = operators <= names
        if measured.target != "iOS15" and (known or operators not in sets):
            reason = captured.refusal("iOS15")
            if reason is None:
                measured.target = "iOS15"
            elif known:
                late.append(captured)
                with_constants = _with_constants(api, sample, route)
                if with_constants is not None:
                    if with_constants.refusal("iOS15") is None:
                        measured.target = "iOS15"
                    late.append(with_constants)
            if reason is not None and reason not in measured.refused and len(measured.refused) < 6:
                measured.refused.append(reason)
        sets[operators] = known
        if measured.target == "iOS15" and any(operators <= oldest for operators in sets):
            break
    measured.operators = sorted(sorted(operators) for operators in sets)
    if measured.target is None:
        for target in ("iOS18", "iOS17", "iOS16"):
            late = [captured for captured in late if captured.refusal(target) is None]
            if not late:
                break
            measured.target = target
    return measured


def _with_constants(api: Api, sample: Sample, route: str) -> Captured | None:
    """The same sample with all tensors but the first as constants, which some converters insist on."""
    probe = Probe(sample, inplace=api.name.endswith("_"), only_first=True).eval()
    if len(Probe(sample, inplace=False, only_first=False).inputs) < 2:
        return None
    try:
        return Captured(probe, route)
    except TooSlow:
        raise
    except Exception:
        return None


def _twin(api: Api, route: str, done: dict[str, Any]) -> Measured | None:
    """The finding about the function that a method stands for, where both are captured alike."""
    twin = done.get(api.twin or "", {}).get(route)
    if twin is None or not twin["operators"]:
        return None
    known = {frozenset(operators) for operators in twin["operators"]}
    alike = [captured for _, captured in _captures(api, route, 2)]
    if not alike or any(
        captured.operators not in known and captured.operators - {"clone"} not in known for captured in alike
    ):
        return None
    # A claim that something does not convert rests on a conversion of its own.
    if twin["target"] is None and any(captured.refusal("iOS18") is None for captured in alike):
        return None
    return Measured(**{**twin, "like": api.twin})


def _timed(work: Callable[[], Measured | None]) -> Measured | None:
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(_SECONDS)
    try:
        return work()
    except TooSlow:
        return Measured(refused=["took too long"])
    finally:
        signal.alarm(0)


def measure_all(wanted: Iterable[Api], place: Path, say: Callable[[str], None]) -> None:
    """Measure APIs one after another; each is kept as a line of JSON in ``place``; what its folder holds is left out."""
    torch.set_num_threads(1)
    names = registered()
    order, _, _ = versions()
    done: dict[str, Any] = {entry["name"]: entry for entry in read(place.parent)}
    with place.open("a", encoding="utf-8") as stream:
        for api in wanted:
            if api.name in done:
                continue
            entry: dict[str, Any] = {"name": api.name}
            for route in ROUTES:
                if route == "core" and entry["export"]["target"] is not None:
                    continue
                first = order[0] if route == "trace" else EXPORT_SINCE
                oldest = names_of(first)

                def work(route: str = route, oldest: frozenset[str] = oldest, api: Api = api) -> Measured | None:
                    return _twin(api, route, done) or measure(api, route, names, oldest)

                measured = _timed(work)
                if measured is not None:
                    entry[route] = asdict(measured)
            done[api.name] = entry
            stream.write(json.dumps(entry) + "\n")
            stream.flush()
            say(f"{api.name} " + " ".join(f"{route}:{entry[route]['target']}" for route in ROUTES if route in entry))


def _shard(by_name: dict[str, Api], number: int, count: int) -> list[Api]:
    """A share of the APIs; a function and its methods stay together."""
    heads = sorted({api.twin or api.name for api in by_name.values()})
    mine = set(heads[number::count])
    return [api for api in by_name.values() if (api.twin or api.name) in mine]


def rows(measured: Iterable[dict[str, Any]]) -> dict[str, tuple[str, Since]]:
    """What measurements beside the installed version say: the operator, by each route the first version that converts, the iOS.

    A route that refuses every sample, though each operator has a converter, is taken to convert: something that was not tried may. It is
    not where the converter itself fails at what that route hands it, whatever the arguments are (``_BROKEN``).
    """
    order, _, _ = versions()
    known = [names_of(version) for version in order]
    here = order.index(facts().name)
    found: dict[str, tuple[str, Since]] = {}

    def first(route: dict[str, Any]) -> int:
        if not route["captured"]:
            return 0 if route["refused"] else len(order)
        if route["refused"] and not route["target"] and all(map(_BROKEN.search, route["refused"])):
            return len(order)
        since = len(order)
        for operators in map(frozenset, route["operators"]):
            at = len(order)
            while at and operators <= known[at - 1]:
                at -= 1
            since = min(since, at)
        if since > here and route["target"] is not None:
            raise AssertionError(f"converts without converters: {route}")
        return since

    for entry in measured:
        routes = {name: entry[name] for name in ROUTES if name in entry}
        if not routes["trace"]["captured"]:
            continue
        since = {name: first(route) for name, route in routes.items()}
        since.setdefault("core", since["export"])
        if routes.get("core", {}).get("target"):
            # Without the decompositions no sample converts, whatever is registered.
            since["export"] = len(order)
        targets = [int(routes[name]["target"][3:]) for name in ("trace", "export") if routes[name]["target"]]
        if not targets and routes.get("core", {}).get("target"):
            targets = [int(routes["core"]["target"][3:])]
        ios = min(targets, default=15)
        exports = min(since["export"], since["core"])
        lacking = "export" if since["trace"] <= here < exports or not (since["trace"] or ios > 15) else "trace"
        kind = _lacking(routes[lacking]["operators"], known[here if since[lacking] > here else 0])
        found[entry["name"]] = kind, Since(since["trace"], since["export"], since["core"], ios)
    return dict(sorted(found.items()))


def with_rows(found: Mapping[str, tuple[str, Since]]) -> dict[str, tuple[str, Since]]:
    """The rows of the table, with what was measured beside the installed version. What limits nothing is no row."""
    order, _, _ = versions()
    at, export_since = order.index(facts().name), order.index(EXPORT_SINCE)
    told = {name: (operator, SINCE[name]) for name, operator in OPERATORS.items()}
    for name, (kind, since) in found.items():
        if name in told:
            kind, before = told[name]
            if at != NEWEST:
                since = since._replace(
                    ios=before.ios if min(before[:3]) <= NEWEST or min(since[:3]) > at else since.ios
                )
            since = Since(
                _since(before.trace, since.trace, at),
                _since(before.export, since.export, at),
                _since(before.core, since.core, at),
                since.ios,
            )
        told[name] = kind, since
    return {
        name: (kind, since)
        for name, (kind, since) in told.items()
        if kind and (since.trace or min(since.export, since.core) > export_since or since.ios > 15)
    }


def _since(before: int, found: int, at: int) -> int:
    """Since when a route converts, by the table and by a measurement beside the version at a place."""
    if found > at:
        # What was measured beside a later version stays.
        return before if before > at else found
    return found if at == NEWEST else min(before, at)


def _lacking(sets: Iterable[Iterable[str]], known: frozenset[str]) -> str:
    """The operator without a converter, in the sample that has the fewest of them."""
    lists = [sorted(set(operators) - known) for operators in sets]
    if not any(lists):
        # Registered all the same, or held back by its target only.
        lists = [sorted(set(operators) - _PLUMBING) for operators in sets]
    return min(filter(None, lists), key=lambda operators: (len(operators), operators), default=[""])[0]


def table(rows_by_name: Mapping[str, tuple[str, Since]]) -> str:
    """The text of ``coreml_operators.json``."""
    order, _, _ = versions()
    places = [*order, None]
    groups: dict[Since, dict[str, str]] = {}
    for name, (kind, since) in sorted(rows_by_name.items()):
        groups.setdefault(since, {})[name] = kind
    data = {
        "torch": torch.__version__.partition("+")[0],
        "versions": order,
        "export_since": EXPORT_SINCE,
        "groups": [
            {
                **{route: places[at] for route, at in zip(ROUTES, since, strict=False)},
                "ios": since.ios,
                "operators": operators,
            }
            for since, operators in sorted(groups.items())
        ],
    }
    return json.dumps(data, indent=1) + "\n"


def read(folder: Path) -> list[dict[str, Any]]:
    """All measurements of a folder."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("measured-*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure or write."""
    what, folder, *rest = arguments
    place = Path(folder)
    if what == "write":
        written = Path(str(resources.files("modellint.data").joinpath("coreml_operators.json")))
        written.write_text(table(with_rows(rows(read(place)))), "utf-8")
    if what == "measure":
        number, count = (int(part) for part in (rest[0] if rest else "0/1").split("/"))
        by_name = {name: api for name, api in apis().items() if name in rest[1:] or not rest[1:]}
        measure_all(
            _shard(by_name, number, count), place / f"measured-{number}.jsonl", lambda line: print(line, flush=True)
        )


if __name__ == "__main__":
    main(sys.argv[1:])

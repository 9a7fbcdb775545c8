"""Measurement of Core AI's operators: which of PyTorch's API coreai-torch converts, and what Apple's interpreter makes of it.

``python -m modellint.measure.coreai_operators measure FOLDER [SHARE [NAME …]]`` captures samples of every API, or of those named, has
them converted and run, and compares; two processes share the work with ``0/2`` and ``1/2``. ``… further FOLDER`` looks at more samples
of what lacks converters, and ``… supplied FOLDER`` tries that once more as an export does; ``… list FOLDER`` writes the names of the
installed version's converters there, in an environment for each version, and ``… older FOLDER`` which names of the table lack converters
beside an older one; ``… write FOLDER`` writes ``data/coreai_operators.json`` of all that, where what a folder has nothing of stays as it
is. It needs coreai-torch, torch and expecttest; what is measured already is not measured again.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata, resources
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.coreai.converter_process import ConverterProcess, Died, Failed
from modellint.destinations.coreai.interpreted_program import CoreAIProgram
from modellint.measure.operator_probes import Api, Probe, apis

_MOST = 5
"""How many samples of an API are tried at most, of each source of samples and each number type."""
_CLOSE = 1e-4
"""How far off, as a share of the largest number, what is run may be."""
_MISSING = "coreai-torch has no converter for "


def measure(api: Api, process: ConverterProcess, supplies: bool = False) -> list[dict[str, Any]]:
    """What became of samples, until one is right, or three in a row end the process.

    ``wrong``, ``missing``, ``refused``, ``fails`` (when run), or ``dies``.

    ``supplies``: converted as an export does.
    """
    told: list[dict[str, Any]] = []
    inplace = api.name.endswith("_")
    for sample in api.samples(_MOST):
        try:
            probe = Probe(sample, inplace=inplace, only_first=False).eval()
            if not probe.takes_inputs and any(True for _ in probe.buffers(recurse=False)):
                # Numbers alone: nothing of it depends on an input.
                continue
            with torch.no_grad():
                torch.manual_seed(0)
                expected = probe(*(tensor.clone() for tensor in probe.inputs))
                if any(0 in tensor.shape for tensor in (*probe.inputs, *expected)):
                    continue
                program = torch.export.export(probe, tuple(probe.inputs))
        except Exception:
            continue
        told.append(_outcome(process, probe, program, expected, supplies))
        if told[-1]["is"] == "right" or [one["is"] for one in told[-3:]] == ["dies"] * 3:
            break
    return told


_FURTHER = 12
"""How many samples of the first number type are looked at before it is said that all lack a converter: what was converted, and more."""


def may_convert(api: Api) -> bool:
    """Whether some sample of what lacks converters in those that were tried has all of them: that one may convert."""
    from coreai_torch import get_decomp_table

    known = set(registered())
    for sample in islice(api.samples(_FURTHER), _MOST, _FURTHER):
        try:
            probe = Probe(sample, inplace=api.name.endswith("_"), only_first=False).eval()
            if not probe.takes_inputs and any(True for _ in probe.buffers(recurse=False)):
                continue
            program = torch.export.export(probe, tuple(probe.inputs)).run_decompositions(get_decomp_table())
        except Exception:
            continue
        called = [node.target for node in program.graph.nodes if node.op == "call_function"]
        names = [str(target).partition(".")[2] for target in called if isinstance(target, torch._ops.OpOverload)]
        if all(name in known or name.partition(".")[0] in known for name in names):
            return True
    return False


def lacking(api: Api) -> list[str]:
    """The operators without a converter beside the installed version, of the sample with the fewest; none where a sample has all."""
    from coreai_torch import get_decomp_table

    known = set(registered())
    fewest: list[str] = []
    for sample in islice(api.samples(_MOST), _FURTHER):
        try:
            probe = Probe(sample, inplace=api.name.endswith("_"), only_first=False).eval()
            program = torch.export.export(probe, tuple(probe.inputs)).run_decompositions(get_decomp_table())
        except Exception:
            continue
        called = {str(node.target) for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
        # Assertions are taken out before a conversion.
        lacks = sorted(
            name for name in called if not known & {name.partition(".")[2], name.split(".")[1]} and "assert" not in name
        )
        if not lacks:
            return []
        fewest = min(fewest or lacks, lacks, key=lambda names: (len(names), names))
    return fewest


def _outcome(
    process: ConverterProcess, probe: Probe, program: Any, expected: Sequence[Tensor], supplies: bool
) -> dict[str, Any]:
    package = process.new_path("probe.aimodel")
    try:
        prepared = process.prepare(program, package, supplies=supplies)
    except (Died, Failed) as error:
        return {"is": "dies" if isinstance(error, Died) else "refused", "says": [str(error)]}
    except Exception as error:
        return {"is": "refused", "says": [f"{type(error).__name__}: {error}"[:300]]}
    if prepared.interface is None:
        missing = [refusal.message for refusal in prepared.refusals if refusal.kind == "missing"]
        if missing:
            return {"is": "missing", "says": sorted({message.removeprefix(_MISSING) for message in missing})}
        return {"is": "refused", "says": sorted({refusal.message for refusal in prepared.refusals})}
    run = CoreAIProgram(process, package, prepared.interface, dict(probe.named_buffers()))
    try:
        (outputs,) = run.in_a_row([probe.inputs])
    except (RunError, Misfit) as error:
        kind = "dies" if "killed by" in str(error) or "hung" in str(error) else "fails"
        return {"is": kind, "says": [str(error)]}
    off = max(map(_off, outputs, expected), default=0.0)
    return {"is": "right" if off <= _CLOSE else "wrong", "off": off}


def _off(found: Tensor, expected: Tensor) -> float:
    """How far apart two tensors are, as a share of the largest finite number; infinite where they are of other kinds."""
    if found.numel() != expected.numel():
        return float("inf")
    found, expected = found.double().reshape(-1), expected.double().reshape(-1)
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(
        found[~finite].nan_to_num(), expected[~finite].nan_to_num()
    ):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(expected[finite].abs().max()) or 1.0
    return float((found[finite] - expected[finite]).abs().max()) / scale


def measure_all(wanted: Iterable[Api], place: Path, supplies: bool = False) -> Iterator[str]:
    """Measure APIs one after another; each is kept as a line of JSON in ``place``; what its folder holds is left out."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    done = {entry["name"] for entry in read(place.parent, place.stem.partition("-")[0])}
    with place.open("a", encoding="utf-8") as stream, ConverterProcess() as process:
        for api in wanted:
            if api.name not in done:
                samples = measure(api, process, supplies)
                stream.write(json.dumps({"name": api.name, "samples": samples}) + "\n")
                stream.flush()
                yield f"{api.name} {' '.join(sample['is'] for sample in samples)}"


def read(folder: Path, kind: str = "measured") -> list[dict[str, Any]]:
    """All measurements of a folder: ``measured`` by the converter alone, ``supplied`` as an export does."""
    return [
        json.loads(line)
        for path in sorted(folder.glob(f"{kind}-*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]


def _grouped(missing: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Names by the operators that they lack."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, operators in sorted(missing.items()):
        groups.setdefault(tuple(operators), []).append(name)
    return [{"operators": list(operators), "names": names} for operators, names in sorted(groups.items())]


def before(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By version: the names that lack converters beside all older ones that were looked at (``older-0.4.0.json``)."""
    older = {path.stem.partition("-")[2]: path for path in folder.glob("older-*.json")}
    lacks = {version: json.loads(older[version].read_text("utf-8")) for version in sorted(older, key=_order)}
    first: dict[str, dict[str, Sequence[str]]] = {}
    for name in sorted({name for names in lacks.values() for name in names}):
        known = [
            version for version in [*lacks, metadata.version("coreai-torch")] if name not in lacks.get(version, {})
        ]
        first.setdefault(known[0], {})[name] = next(names[name] for names in lacks.values() if name in names)
    return {version: _grouped(names) for version, names in sorted(first.items(), key=lambda item: _order(item[0]))}


def table(
    measured: Iterable[Mapping[str, Any]],
    supplied: Iterable[Mapping[str, Any]],
    further: Iterable[Mapping[str, Any]],
    converters: Mapping[str, Sequence[str]],
    older: Mapping[str, Any],
) -> dict[str, Any]:
    """What ``coreai_operators.json`` holds; ``converters`` are names by the first version that has them, ``older`` those that lacked some.

    What lacks converters in the samples that were converted, and not in all of ``further`` ones, is left out, as is what is refused
    without a word that the use itself is not supported: of both another use may convert.

    A name ``converts`` if a sample of it converts, runs, and is right. Of the others ``missing`` tells the operators that the sample with
    the fewest of them lacks, ``refused`` what is said of one that has all, ``fails`` what the interpreter says where it can run none;
    ``wrong`` is one that runs, and is wrong in every sample. ``supplied`` are those of these of which a sample is right by an export.
    """
    may = {entry["name"] for entry in further if entry["may"]}
    by_export = {entry["name"] for entry in supplied if any(sample["is"] == "right" for sample in entry["samples"])}
    converts: list[str] = []
    missing: dict[str, Sequence[str]] = {}
    refused: dict[str, str] = {}
    fails: dict[str, str] = {}
    wrong: dict[str, float] = {}
    for entry in sorted(measured, key=lambda entry: entry["name"]):
        name = entry["name"]
        samples = [sample for sample in entry["samples"] if not _is_ours(sample)]
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for sample in samples:
            by_kind.setdefault(sample["is"], []).append(sample)
        if "right" in by_kind:
            converts.append(name)
        elif "wrong" in by_kind:
            if len(by_kind) == 1:
                wrong[name] = min(sample["off"] for sample in samples)
        elif "fails" in by_kind:
            fails[name] = _words(by_kind["fails"][0])
        elif set(by_kind) == {"refused"} and all("supported" in _words(sample) for sample in samples):
            refused[name] = _words(samples[0])
        elif set(by_kind) == {"missing"} and name not in may:
            fewest = min((sample["says"] for sample in samples), key=lambda says: (len(says), says))
            missing[name] = fewest
    return {
        "version": metadata.version("coreai-torch"),
        "torch": torch.__version__.partition("+")[0],
        "converters": dict(converters),
        "converts": converts,
        "missing": _grouped(missing),
        "refused": refused,
        "fails": fails,
        "supplied": sorted(by_export - set(converts)),
        "before": dict(older),
        "wrong": {name: off if off < float("inf") else None for name, off in wrong.items()},
    }


_OURS = (
    *("SerializeError", "RuntimeError: We ran into an error when deserializing", "UnsupportedOperatorException"),
    *("RuntimeError: Found a custom (non-ATen) operator", "RuntimeError: Attempted to set the storage"),
)
"""What begins the words of failures before the converter: a program that torch cannot save, or not decompose."""


def _is_ours(sample: Mapping[str, Any]) -> bool:
    return sample["is"] == "refused" and str(sample["says"][0]).startswith(_OURS)


def _words(sample: Mapping[str, Any]) -> str:
    """What was said, without the places of the machine that it was said on."""
    said = str(sample["says"][0]).removeprefix("Core AI's interpreter raises ")
    return ("the converter " if sample["is"] == "dies" else "") + said.partition(" at #debuginfo")[0][:160]


def registered() -> list[str]:
    """The operators that the installed coreai-torch has a converter for, by its private table."""
    from importlib import import_module

    return sorted(import_module("coreai_torch._aten_to_core")._aten_to_core_resolver)


def converters_by_version(folder: Path) -> dict[str, list[str]]:
    """Names of converters by the first version that has them, of the lists of a folder (``converters-0.4.0.json``)."""
    listed = {path.stem.partition("-")[2]: path for path in folder.glob("converters-*.json")}
    since: dict[str, list[str]] = {}
    seen: set[str] = set()
    for version in sorted(listed, key=_order):
        names = set(json.loads(listed[version].read_text("utf-8")))
        since[version] = sorted(names - seen)
        seen |= names
    return since


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _written(place: Path, now: Mapping[str, Any]) -> dict[str, Any]:
    """What the file is to hold: of what was not measured in a folder, what it holds now."""
    found = table(
        read(place), read(place, "supplied"), read(place, "further"), converters_by_version(place), before(place)
    )
    wanted = {"supplied": "supplied-*", "converters": "converters-*", "before": "older-*"}
    held = {key for key in found if any(place.glob(wanted.get(key, "measured-*")))}
    known = {key: found[key] if key in held else now[key] for key in found}
    if "supplied" in held and "converts" not in held:
        # Names that were not tried again are as they were.
        tried = {entry["name"] for entry in read(place, "supplied")}
        known["supplied"] = sorted({*found["supplied"], *(name for name in now["supplied"] if name not in tried)})
    return known


def main(arguments: Sequence[str]) -> None:
    """Measure, list or write."""
    what, folder, *rest = arguments
    place = Path(folder)
    if what == "write":
        written = Path(str(resources.files("modellint.data").joinpath("coreai_operators.json")))
        now = json.loads(written.read_text("utf-8"))
        written.write_text(json.dumps(_written(place, now), indent=1) + "\n", "utf-8")
    if what == "older":
        from modellint.data.coreai_operators import table as known

        lacks = {name: found for name in sorted(known().converts) if (found := lacking(apis()[name]))}
        (place / f"older-{metadata.version('coreai-torch')}.json").write_text(json.dumps(lacks), "utf-8")
    if what == "further":
        with (place / "further-0.jsonl").open("a", encoding="utf-8") as stream:
            done = {entry["name"] for entry in read(place, "further")}
            refused = {
                entry["name"] for entry in read(place) if {sample["is"] for sample in entry["samples"]} == {"missing"}
            }
            for name in sorted(refused - done):
                stream.write(json.dumps({"name": name, "may": may_convert(apis()[name])}) + "\n")
                stream.flush()
    if what == "supplied":
        alone = {
            entry["name"] for entry in read(place) if not any(sample["is"] == "right" for sample in entry["samples"])
        }
        for line in measure_all(
            [api for name, api in apis().items() if name in alone], place / "supplied-0.jsonl", True
        ):
            print(line, flush=True)
    if what == "list":
        (place / f"converters-{metadata.version('coreai-torch')}.json").write_text(json.dumps(registered()), "utf-8")
    if what == "measure":
        number, count = (int(part) for part in (rest[0] if rest else "0/1").split("/"))
        wanted = [api for name, api in apis().items() if name in rest[1:] or not rest[1:]]
        for line in measure_all(wanted[number::count], place / f"measured-{number}.jsonl"):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

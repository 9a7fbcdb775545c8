"""Predictions of a recorded case on a Mac: its package, on each compute unit, with all inputs.

    python predict.py [PACKAGE]

It needs coremltools and numpy. What comes out is written to the folder `device` beside this file, a compute unit at a time, and
`modellint verify PACKAGE --recorded CASE` compares it with PyTorch. Exits with 0 where a compute unit predicted, 1 where none did,
2 where nothing could be tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

UNITS = ("CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE", "ALL")
"""As `coremltools.ComputeUnit` calls them."""
FORMAT = "modellint device predictions"
VERSION = 1
MANIFEST = "case.json"
INPUTS = "inputs.npz"
DEVICE = "device"
_CUT_SHORT = "the process ended while this compute unit predicted"


class Refused(Exception):
    """Nothing can be predicted; the message says why."""


def main(arguments: list[str]) -> int:
    """Predict on every compute unit."""
    try:
        return 0 if _predicted(Path(__file__).resolve().parent, arguments) else 1
    except Refused as error:
        print(f"predict.py: {error}", file=sys.stderr)
        return 2


def _predicted(case: Path, arguments: list[str]) -> bool:
    """Whether a compute unit predicted."""
    if not platform.mac_ver()[0]:
        raise Refused(f"predictions need a Mac: Core ML is a part of macOS, and this is {platform.system() or 'not'}")
    manifest = _manifest(case / MANIFEST)
    package = _package(case, manifest, arguments)
    arrays = _arrays(case / INPUTS)
    (case / DEVICE).mkdir(exist_ok=True)
    predicted = [_unit(case, manifest, package, arrays, unit) for unit in UNITS]
    return any(predicted)


def _manifest(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{file} cannot be read: {error}") from None


def _package(case: Path, manifest: Mapping[str, Any], arguments: list[str]) -> Path:
    """The package that the case is of: the one that is named, or else in the case, or beside it."""
    name = manifest["package"]
    places = [Path(text) for text in arguments] or [case / name, case.parent / name, Path(name)]
    package = next((place for place in places if place.exists()), None)
    if package is None:
        raise Refused(f"there is no {places[0]}: name the package, as in python predict.py {name}")
    if digest(package) != manifest["package_sha256"]:
        raise Refused(f"{package} is not the package that the case was recorded of: its digest is another")
    return package


def digest(package: Path) -> str:
    """The SHA-256 digest of a package: of the names and the bytes of all its files, in the order of their names."""
    files = [Path(folder, name) for folder, _, names in os.walk(package) for name in names] or [package]
    whole = hashlib.sha256()
    for name, file in sorted((file.relative_to(package).as_posix(), file) for file in files):
        # macOS puts `.DS_Store` and `._*` into folders and archives.
        if file.name.startswith("."):
            continue
        whole.update(f"{name}\0{digest_of_file(file)}\n".encode())
    return whole.hexdigest()


def digest_of_file(file: Path) -> str:
    """The SHA-256 digest of a file's bytes."""
    whole = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(2**20):
            whole.update(block)
    return whole.hexdigest()


def _arrays(file: Path) -> dict[str, Any]:
    try:
        import numpy as np
    except ImportError as error:
        raise Refused(f"numpy cannot be imported: {error}") from None
    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise Refused(f"{file} cannot be read: {error}") from None


def _unit(case: Path, manifest: Mapping[str, Any], package: Path, arrays: Mapping[str, Any], unit: str) -> bool:
    """Predict on one compute unit, and write what came out, or the error."""
    results, words = case / DEVICE / f"{unit}.npz", case / DEVICE / f"{unit}.json"
    results.unlink(missing_ok=True)
    about = _about(manifest["case"], unit)
    # What ends the process while it predicts is known of afterwards.
    _write(words, {**about, "error": _CUT_SHORT})
    error = _saved(results, manifest, package, arrays, unit)
    _write(words, {**about, "error": error})
    count = len(manifest["labels"])
    print(f"{unit}: {error or f'{count} sets of inputs'}")
    return not error


def _about(case: str, unit: str) -> dict[str, Any]:
    """What is told of predictions on a compute unit, but for the error."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "case": case,
        "unit": unit,
        "macos": platform.mac_ver()[0],
        "machine": _machine(),
        "coremltools": _coremltools().__version__,
    }


def _coremltools() -> Any:
    try:
        import coremltools
    except ImportError as error:
        raise Refused(f"coremltools cannot be imported: pip install coremltools ({error})") from None
    return coremltools


def _saved(results: Path, manifest: Mapping[str, Any], package: Path, arrays: Mapping[str, Any], unit: str) -> str:
    """Predict, and write the outputs; the error where that fails."""
    import numpy as np

    ct = _coremltools()
    try:
        model = ct.models.MLModel(str(package), compute_units=getattr(ct.ComputeUnit, unit))
        outputs = {f"{key}.{name}": value for key, name, value in _outputs(model, manifest, arrays)}
        with results.open("wb") as stream:
            np.savez(stream, **outputs)
    except Exception as error:
        # Whatever the system's compiler and runtime say.
        return f"{type(error).__name__}: {error}"
    return ""


def _outputs(model: Any, manifest: Mapping[str, Any], arrays: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """What the model predicts, by set of inputs and prediction, and by name."""
    import numpy as np

    for number, steps in enumerate(manifest["steps"]):
        # Predictions in a row share a state; each set of inputs begins with a new one.
        state = _state(model, manifest, arrays) if manifest["states"] else None
        for step in range(steps):
            key = f"{number}.{step}"
            inputs = {name: arrays[f"{key}.{name}"] for name in manifest["inputs"]}
            predicted = model.predict(inputs) if state is None else model.predict(inputs, state)
            for name in dict.fromkeys(manifest["outputs"]):
                yield key, name, np.asarray(predicted[name])


def _state(model: Any, manifest: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """A new state, with the values that the model's buffers had; Core ML's own start at zero."""
    state = model.make_state()
    for name in manifest["states"]:
        start = arrays[f"state.{name}"]
        if start.any():
            _begin(state, name, start)
    return state


def _begin(state: Any, name: str, start: Any) -> None:
    if not hasattr(state, "write_state"):
        raise RuntimeError(f"the state {name} does not start at zero, and only coremltools 9 and later write to states")
    for kind in ("float16", "float32"):
        state.write_state(name, start.astype(kind))
        if (state.read_state(name) == start).all():
            return
    raise RuntimeError(f"the state {name} does not take the value that it starts with")


def _machine() -> str:
    """The model of the Mac, as in `Mac14,2`, and its architecture."""
    command = ["/usr/sbin/sysctl", "-n", "hw.model"]
    try:
        model = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return platform.machine()
    return f"{model} {platform.machine()}"


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file of JSON that is whole at any time."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    part.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

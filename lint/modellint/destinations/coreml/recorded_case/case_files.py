"""Files of a recorded case: a manifest, arrays, the script for a Mac, and what came back; each is looked at before it is believed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from modellint.destinations.coreml.package.file_layout import check_layout
from modellint.destinations.coreml.recorded_case import predict
from modellint.destinations.destination import PackageError
from modellint.results.codec import Codec, Malformed

FORMAT = "modellint recorded case"
VERSION = 1
OUTPUTS = "outputs.npz"
SCRIPT = "predict.py"
_LARGEST_TEXT = 2**20


class CaseError(PackageError):
    """A folder that is no case of a package, or that a case cannot be written to; the message says why."""


class Manifest(NamedTuple):
    """What a case holds.

    The arrays of the set of inputs ``n`` and its prediction ``k`` are called ``n.k.NAME`` in the inputs and in what a device
    predicts, and ``n.k.POSITION`` in PyTorch's outputs; ``state.NAME`` is what a state starts with.
    """

    format: str
    version: int
    case: str
    """A digest of all that is recorded, by which a device's predictions are known to be of it."""
    package: str
    """The name of its folder."""
    package_sha256: str
    files: Mapping[str, str]
    """The digests of the files with arrays, by name."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """The names that the program has for them, in the order of what the model returns."""
    paths: tuple[str, ...]
    """Where each output is in what the model returns."""
    states: tuple[str, ...]
    dtypes: Mapping[str, str]
    """Of inputs, states, and PyTorch's outputs."""
    shapes: Mapping[str, tuple[int, ...]]
    """The same, on the first set of inputs."""
    labels: tuple[str, ...]
    """Of the sets of inputs."""
    steps: tuple[int, ...]
    """How many predictions in a row each set stands for."""
    usual: tuple[bool, ...]
    """Whether the values of a set are of the example's kind, so that float16 may be judged on it."""
    seed: int
    torch: str
    coremltools: str
    deployment_target: str


class Predictions(NamedTuple):
    """What a device says of its predictions on one compute unit."""

    format: str
    version: int
    case: str
    unit: str
    error: str
    """Why there are none; empty where there are some."""
    macos: str
    machine: str
    coremltools: str


_MANIFEST: Codec[Manifest] = Codec(Manifest)
_PREDICTIONS: Codec[Predictions] = Codec(Predictions)


def check_place(folder: Path) -> None:
    """Raise ``CaseError`` where a case cannot be written: over anything but a case that no device has answered."""
    if not folder.absolute().parent.is_dir():
        raise CaseError(f"{folder}: there is no folder {folder.absolute().parent}")
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise CaseError(f"{folder} is no folder")
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return
    if predict.MANIFEST not in names:
        raise CaseError(f"{folder} is no recorded case, and is left alone: name a folder that is not there")
    manifest = read_manifest(folder)
    foreign = sorted(names - {".DS_Store", predict.MANIFEST, predict.DEVICE, SCRIPT, manifest.package, *manifest.files})
    if foreign:
        raise CaseError(f"{folder} holds more than a recorded case ({foreign[0]}), and is left alone")
    if any((folder / predict.DEVICE).glob("*")):
        raise CaseError(f"{folder} holds the predictions of a device: remove it first, or name another folder")


def write(folder: Path, manifest: Manifest, arrays: Mapping[str, Mapping[str, Any]], package: Path) -> None:
    """Write a case to a new folder: the manifest with all digests, ``arrays`` by file, and the script."""
    import numpy as np

    folder.mkdir(exist_ok=True)
    for name, values in arrays.items():
        with (folder / name).open("wb") as stream:
            np.savez(stream, **values)
    digests = {name: predict.digest_of_file(folder / name) for name in arrays}
    whole = manifest._replace(package=package.name, package_sha256=predict.digest(package), files=digests)
    whole = whole._replace(case=_identity(whole))
    (folder / predict.MANIFEST).write_text(_text(whole, _MANIFEST), "utf-8")
    (folder / SCRIPT).write_bytes(Path(predict.__file__).read_bytes())


def _identity(manifest: Manifest) -> str:
    """A digest of the digests."""
    import hashlib

    parts = (manifest.package_sha256, *(manifest.files[name] for name in sorted(manifest.files)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a case. Raises ``CaseError`` for what is none, and for a format that is not known."""
    file = folder / predict.MANIFEST
    if not file.is_file():
        raise CaseError(f"{folder} is no recorded case: it has no file {predict.MANIFEST}")
    manifest: Manifest = _record(file, Manifest, _MANIFEST)
    if manifest.format != FORMAT or manifest.version != VERSION:
        raise CaseError(f"{file} is of format {manifest.format!r} {manifest.version}, and not {FORMAT!r} {VERSION}")
    counts = {len(manifest.labels), len(manifest.steps), len(manifest.usual)}
    if len(counts) != 1 or len(manifest.outputs) != len(manifest.paths):
        raise CaseError(f"{file} does not hold together: its lists are of different lengths")
    return manifest


def check(package: Path, folder: Path) -> Manifest:
    """The manifest of a case that is one of this package, with a device's predictions. Raises ``PackageError`` for others."""
    check_layout(package)
    manifest = read_manifest(folder)
    if predict.digest(package) != manifest.package_sha256:
        raise CaseError(
            f"{package} is not the package that {folder} was recorded of ({manifest.package}): its digest is another"
        )
    for name, known in manifest.files.items():
        if not (folder / name).is_file() or predict.digest_of_file(folder / name) != known:
            raise CaseError(f"{folder / name} is not what was recorded: record the case again")
    if not _units(folder):
        script = folder / SCRIPT
        raise CaseError(f"{folder} holds no predictions of a device: run python {script} {package} on a Mac first")
    return manifest


def predictions(folder: Path, manifest: Manifest) -> list[Predictions]:
    """What a device says of each compute unit, in the order in which they are tried. Raises ``CaseError``."""
    per_unit = []
    for file in _units(folder):
        told: Predictions = _record(file, Predictions, _PREDICTIONS)
        if told.format != predict.FORMAT or told.version != predict.VERSION or told.unit != file.stem:
            raise CaseError(f"{file} is not of the format {predict.FORMAT!r} {predict.VERSION}")
        if told.case != manifest.case:
            raise CaseError(f"{file} was predicted for another case: run {SCRIPT} on a Mac again")
        per_unit.append(told)
    return per_unit


def _units(folder: Path) -> list[Path]:
    files = (folder / predict.DEVICE / f"{unit}.json" for unit in predict.UNITS)
    return [file for file in files if file.is_file()]


def arrays(file: Path) -> dict[str, Any]:
    """All arrays of a file, by name. Raises ``CaseError``."""
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise CaseError(f"{file} cannot be read: {error}") from None


def _text(record: Any, codec: Codec[Any]) -> str:
    """A record as an object of JSON, a name for each field."""
    return json.dumps(dict(zip(record._fields, codec.to_json(record), strict=True)), indent=2) + "\n"


def _record(file: Path, kind: Any, codec: Codec[Any]) -> Any:
    """The record that a file holds as an object of JSON. Raises ``CaseError``."""
    try:
        if file.stat().st_size > _LARGEST_TEXT:
            raise CaseError(f"{file} is too large")
        content = json.loads(file.read_bytes())
        if not isinstance(content, dict) or set(content) != set(kind._fields):
            raise CaseError(f"{file} has other fields than {', '.join(kind._fields)}")
        return codec.from_json([content[name] for name in kind._fields])
    except (OSError, Malformed, ValueError, RecursionError) as error:
        raise CaseError(f"{file} cannot be read: {error}") from None

"""Checkpoint files, read without running anything they hold, and the model's weights in what was read."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

_LONGEST_HEADER = 100_000_000
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and says why."""


def load(path: Path, values: bool = False) -> Mapping[str, Any]:
    """What a checkpoint file holds, with tensors that take no memory before they are read.

    ``.safetensors`` gives tensors on the meta device, names, shapes and dtypes, unless ``values`` are wanted. Everything else is
    read by ``torch.load`` with ``weights_only``, so that code in a pickle is refused and not run. Raises ``CheckpointError``, or
    ``OSError`` where the file cannot be opened.
    """
    with path.open("rb"):
        pass
    if values and path.suffix == ".safetensors":
        return _safetensors_with_values(path)
    content = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{path} holds a {type(content).__name__}, not a dict of tensors: save `model.state_dict()`"
        )
    return content


def _safetensors_with_values(path: Path) -> Mapping[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise CheckpointError(f"reading {path} needs safetensors: pip install safetensors") from None
    try:
        tensors: Mapping[str, Any] = load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return tensors


def _pickled(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError as error:
                # The format before torch 1.6 has no place for a map of memory.
                if "mmap can only be used" not in str(error):
                    raise
                return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it holds `{name[1]}`" if name is not None else "it is no checkpoint of plain tensors"
        raise CheckpointError(
            f"{path} is refused, and nothing in it was run: {reason}; save `model.state_dict()` alone"
        ) from None
    except Exception as error:
        if "TorchScript" in str(error):
            raise CheckpointError(
                f"{path} is a TorchScript archive, not a dict of tensors: save `model.state_dict()`"
            ) from None
        raise CheckpointError(f"{path} is no checkpoint that PyTorch reads ({type(error).__name__})") from None


def _safetensors(path: Path) -> dict[str, Any]:
    # A length, a table in JSON, the numbers: the table is all that is wanted, and needs no package.
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LONGEST_HEADER, path.stat().st_size - 8):
            raise CheckpointError(f"{path} is not a safetensors file: its header does not fit")
        try:
            table = json.loads(file.read(length))
            return {
                name: torch.empty(entry["shape"], dtype=_DTYPES.get(entry["dtype"], torch.uint8), device="meta")
                for name, entry in table.items()
                if name != "__metadata__"
            }
        except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError):
            raise CheckpointError(f"{path} is not a safetensors file: its header is not a table of tensors") from None


def weights(checkpoint: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dict of tensors in a checkpoint: itself, or what stands in it under a name such as ``state_dict``.

    Of several the one that shares most keys with ``known`` counts, then the largest, then the first.
    """
    candidates = list(_candidates(checkpoint, 0))
    if not candidates:
        return checkpoint
    plain = {without_wrappers(key) for key in known}

    def fitness(candidate: Mapping[str, Any]) -> tuple[int, int]:
        keys = {without_wrappers(key) for key in candidate}
        common = len(keys & plain) or len({_tail(key) for key in keys} & {_tail(key) for key in plain})
        return common, sum(isinstance(value, torch.Tensor) for value in candidate.values())

    return max(candidates, key=fitness)


def _candidates(mapping: Mapping[Any, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    if any(isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in mapping.items()):
        yield mapping
    if depth < 3:
        for value in mapping.values():
            if isinstance(value, Mapping):
                yield from _candidates(value, depth + 1)


def _tail(key: str) -> str:
    return key.partition(".")[2]


WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""What wrappers put into the names of the module within: ``DataParallel`` at the start, the others anywhere."""


def without_wrappers(key: str) -> str:
    """A key as the module within a wrapper names it."""
    for part in WRAPPERS[1:]:
        key = key.replace(part, "")
    return key.removeprefix(WRAPPERS[0])

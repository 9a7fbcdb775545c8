"""Build a class from three versions of its file — as written, undone, fixed — and compare what comes out.

``python build.py`` reads one JSON job on standard input and writes one JSON line for each case. Every file has a forked
process, where the real module of the real package is imported first, for its dependencies; then every version runs in
a fork of that, where its text takes the place of that one module. Only this script executes the code of the trees.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

VERSIONS = ("original", "unfixed", "fixed")
SECONDS_PER_VERSION = 25
MEMORY = 12 << 30


@dataclass(slots=True)
class Case:
    """One site: the class and the three texts of its file."""

    ident: int
    qualname: str
    original: str
    unfixed: str
    fixed: str


@dataclass(slots=True)
class Outcome:
    """What the comparison of one case found; ``None`` where there was nothing to compare."""

    ident: int
    built: bool = False
    why: str = ""
    keys_equal: bool | None = None
    keys_cover_unfixed: bool | None = None
    unfixed_lost_keys: bool | None = None
    outputs_equal: bool | None = None
    outputs_equal_with_equal_weights: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class FileJob:
    """The cases of one file."""

    module: str
    path: str
    cases: list[Case]


def compare(python: str, roots: list[Path], files: list[FileJob]) -> list[Outcome]:
    """Run the cases of some files in one process of their own; what it does not answer counts as not built."""
    cases = [case for file in files for case in file.cases]
    job = {"roots": [str(root) for root in roots], "files": [asdict(file) for file in files]}
    seconds = 120 + SECONDS_PER_VERSION * len(VERSIONS) * len(cases)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [python, "-W", "ignore", __file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=seconds, env=environment
        )
        lines, error = done.stdout, done.stderr.strip().splitlines()[-1:] or ["no answer"]
    except subprocess.TimeoutExpired as expired:
        lines = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout or ""
        error = ["time-out of the file"]
    answers = {}
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            answers[record["ident"]] = Outcome(**record)
    return [answers.get(case.ident) or Outcome(case.ident, why=error[0][:200]) for case in cases]


# -- in the job's process --------------------------------------------------------------------------------


def main() -> None:
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print is none of ours
    sys.path[:0] = job["roots"]
    import torch

    torch.set_num_threads(1)
    _declare_torchvision_operators(job["roots"])
    for record in job["files"]:
        file = FileJob(record["module"], record["path"], [Case(**case) for case in record["cases"]])
        child = os.fork()
        if child == 0:
            try:
                _run_file(file, out)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _run_file(file: FileJob, out: TextIO) -> None:
    def answer(outcome: Outcome) -> None:
        print(json.dumps(asdict(outcome)), file=out, flush=True)

    try:
        importlib.import_module(file.module)
    except BaseException as error:
        for case in file.cases:
            answer(Outcome(case.ident, why=f"cannot import {file.module}: {type(error).__name__}: {error}"[:200]))
        return
    originals: dict[str, dict[str, Any]] = {}
    for case in file.cases:
        if case.qualname not in originals:
            originals[case.qualname] = _forked(file, case.qualname, case.original, None)
        original = originals[case.qualname]
        outcome = Outcome(case.ident, built="keys" in original, why=original.get("error", ""))
        if outcome.built:
            plan = original["plan"]
            unfixed = _forked(file, case.qualname, case.unfixed, plan)
            fixed = _forked(file, case.qualname, case.fixed, plan)
            _judge(outcome, original, unfixed, fixed)
        answer(outcome)


def _judge(outcome: Outcome, original: dict[str, Any], unfixed: dict[str, Any], fixed: dict[str, Any]) -> None:
    before, after = set(original["keys"]), set(fixed.get("keys", ()))
    outcome.keys_equal = "keys" in fixed and before == after
    if not outcome.keys_equal:
        outcome.details = {
            "error": fixed.get("error", ""),
            "missing": sorted(before - after)[:3],
            "added": sorted(after - before)[:3],
        }
    if "keys" in unfixed:
        outcome.keys_cover_unfixed = after >= set(unfixed["keys"])
        outcome.unfixed_lost_keys = set(unfixed["keys"]) < before
    if original.get("outputs"):
        outcome.outputs_equal = original["outputs"] == fixed.get("outputs")
        outcome.outputs_equal_with_equal_weights = original["seeded"] == fixed.get("seeded")
        if not outcome.outputs_equal_with_equal_weights:
            outcome.details.setdefault("forward", fixed.get("forward_error", "outputs differ"))


def _declare_torchvision_operators(roots: list[str]) -> None:
    """Let torchvision be imported without its compiled operators, which may not match the installed torch."""
    import torch

    folder = next((Path(root, "torchvision") for root in roots if Path(root, "torchvision").is_dir()), None)
    if folder is None:
        return
    library = torch.library.Library("torchvision", "DEF")
    globals()["_library"] = library  # it lives as long as it is referred to
    names = {name for path in folder.rglob("*.py") for name in re.findall(r"torchvision::(\w+)", path.read_text())}
    for name in sorted(names):
        library.define(f"{name}(Tensor x) -> Tensor")


def _forked(file: FileJob, qualname: str, text: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    """The facts about a class of one version, found in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS_PER_VERSION)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            facts = _facts(file, qualname, text, plan)
        except BaseException as error:
            facts = {"error": f"{type(error).__name__}: {error}"[:200]}
        with os.fdopen(write, "w") as stream:
            json.dump(facts, stream)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        received = stream.read()
    os.waitpid(child, 0)
    return json.loads(received) if received else {"error": "time-out or killed"}


def _facts(file: FileJob, qualname: str, text: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    """Build, list the keys, run. Without a plan the way to build and to call is searched; with one it is repeated."""
    import torch

    module = _substitute(file.module, Path(file.path), text)
    model, chosen = _build(module, qualname, plan)
    facts: dict[str, Any] = {"keys": list(model.state_dict()), "plan": chosen}
    model.eval()
    with torch.no_grad():
        try:
            facts["outputs"], chosen["inputs"] = _run(model, chosen, plan)
            _equal_weights(model)
            facts["seeded"], _ = _run(model, chosen, chosen)
        except Exception as error:
            facts["forward_error"] = f"{type(error).__name__}: {error}"[:200]
    return facts


def _substitute(name: str, path: Path, text: str) -> ModuleType:
    """The module ``name`` made anew from ``text``, in the place of the imported one."""
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


# -- guessing how to build -------------------------------------------------------------------------------

SIZES = (8, 32, 64, 4)
SMALL_CONFIG = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "image_size": 32, "patch_size": 8, "max_position_embeddings": 64, "num_local_experts": 2, "num_experts": 4,
    "n_routed_experts": 4, "moe_intermediate_size": 32, "num_layers": 2, "n_layer": 2, "n_head": 4, "n_embd": 32,
    "embed_dim": 32, "hidden_dim": 32, "ffn_dim": 64, "num_queries": 5, "depth": 2, "num_heads": 4,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SHRINK = {"depth": 2, "num_layers": 2, "n_layers": 2, "num_blocks": 2, "img_size": 32, "image_size": 32}


def _build(module: ModuleType, qualname: str, plan: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """An instance of the class, or of one of its subclasses in the file, and how it was made."""
    import torch

    if plan is not None:
        cls = _find(module, plan["class"])
        _seed(0)
        return cls(**_arguments(cls, module, plan["size"], plan["shrink"])), {**plan}
    target = _find(module, qualname)
    subclasses = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, target) and value is not target
    ]
    first: Exception | None = None
    for cls, size, shrink in itertools.product([target, *subclasses[:3]], SIZES, (True, False)):
        try:
            _seed(0)
            model = cls(**_arguments(cls, module, size, shrink))
        except Exception as error:
            first = first or error
            continue
        if isinstance(model, torch.nn.Module):
            return model, {"class": cls.__qualname__, "size": size, "shrink": shrink}
    raise first or TypeError("no instance of nn.Module")


def _find(module: ModuleType, qualname: str) -> Any:
    value: Any = module
    for part in qualname.split("."):
        value = getattr(value, part)
    return value


def _seed(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _arguments(cls: type, module: ModuleType, size: int, shrink: bool) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:  # type: ignore[misc]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            if shrink and name in SHRINK and type(parameter.default) is int and parameter.default > SHRINK[name]:
                given[name] = SHRINK[name]
            continue
        given[name] = _guess(name, parameter.annotation, cls, module, size, shrink)
    return given


def _guess(name: str, annotation: Any, cls: type, module: ModuleType, size: int, shrink: bool) -> Any:
    import torch
    from torch import nn

    said = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if config := _config_class(name, annotation, said, cls, module):
        return _small_config(config, shrink)
    words = set(name.lower().split("_"))
    if said in ("bool",):
        return False
    if said in ("float",) or words & {"dropout", "drop", "p", "prob", "eps", "alpha", "ratio", "scale", "rate"}:
        return 1e-5 if "eps" in words else 0.0 if words & {"dropout", "drop", "rate", "p", "prob"} else 2.0
    if "str" in said.split(" ")[0] or words & {"act", "activation", "mode"}:
        return "relu"
    number = _number(words, name, size)
    text = str(annotation)
    if any(mark in text for mark in ("list", "List", "Sequence", "tuple", "Tuple")) and "int" in text:
        return [number, number]
    if (
        words & {"channels", "dims", "depths", "widths", "sizes", "blocks", "layers"}
        and said == "_empty"
        and name.endswith("s")
    ):
        if name in (
            "in_channels",
            "out_channels",
            "num_channels",
            "num_layers",
            "num_blocks",
            "channels",
            "hidden_channels",
        ):
            return number
        return [number, number]
    if "Module" in text or words & {"module", "model", "backbone", "encoder", "decoder", "layer", "block", "net"}:
        if "type" in text.lower() or "callable" in text.lower():
            return nn.LayerNorm if "norm" in words else nn.ReLU
        return nn.Identity()
    if "norm" in words:
        return nn.BatchNorm2d
    if annotation is torch.Tensor:
        return torch.randn(size, size)
    return number


def _number(words: set[str], name: str, size: int) -> int:
    if words & {"kernel", "k"}:
        return 3
    if words & {"stride", "dilation", "groups"}:
        return 1
    if words & {"padding", "idx", "index", "pad"}:
        return 0 if "idx" in words or "index" in words else 1
    if words & {"heads", "nhead", "depth", "layers", "blocks", "repeats", "num", "n", "experts", "spatial"} and not words & {
        "channels", "features", "dim", "filters", "classes"
    }:  # fmt: skip
        return 2
    if words & {"resolution", "image", "img", "height", "width"}:
        return 16
    if words & {"window", "patch"}:
        return 4
    return size


def _config_class(name: str, annotation: Any, said: str, cls: type, module: ModuleType) -> Any:
    """The configuration class that an argument wants, if it wants one that can be made without arguments."""
    candidate = annotation if isinstance(annotation, type) else vars(module).get(said.split("|")[0].strip())
    if isinstance(candidate, type) and (said.endswith("Config") or hasattr(candidate, "to_dict")):
        return candidate
    if "config" not in name.split("_"):
        return None
    if isinstance(own := getattr(cls, "config_class", None), type):
        return own
    configs = [value for key, value in vars(module).items() if key.endswith("Config") and isinstance(value, type)]
    configs = [value for value in configs if value.__name__ not in ("PretrainedConfig", "PreTrainedConfig")]
    return max(configs, key=lambda config: len(os.path.commonprefix([config.__name__, cls.__name__])), default=None)


def _small_config(config: Any, shrink: bool) -> Any:
    known = inspect.signature(config.__init__).parameters
    made = None
    if shrink:
        with contextlib.suppress(Exception):
            made = config(**{name: value for name, value in SMALL_CONFIG.items() if name in known})
    if made is None:
        made = config()
        _shrink_config(made)
    for part in (made, *(value for value in vars(made).values() if hasattr(value, "to_dict"))):
        with contextlib.suppress(Exception):
            part._attn_implementation = "eager"
    for value in list(vars(made).values()):
        if hasattr(value, "to_dict"):
            _shrink_config(value)
    return made


def _shrink_config(config: Any) -> None:
    for name, value in SMALL_CONFIG.items():
        if type(getattr(config, name, None)) is int and getattr(config, name) > value:
            with contextlib.suppress(Exception):
                setattr(config, name, value)


# -- guessing how to call --------------------------------------------------------------------------------


def _run(model: Any, chosen: dict[str, Any], plan: dict[str, Any] | None) -> tuple[list[int], int]:
    """Checksums of the outputs for the first guess of inputs that the model accepts, and its number."""
    if plan is not None and "inputs" not in plan:
        raise ValueError("the original could not be called")
    first: Exception | None = None
    for number, inputs in enumerate(_inputs(model, chosen["size"])):
        if plan is not None and number != plan["inputs"]:
            continue
        try:
            _seed(2)
            sums = [zlib.crc32(tensor.detach().contiguous().numpy().tobytes()) for tensor in _tensors(model(**inputs))]
        except Exception as error:
            first = first or error
            continue
        if sums:
            return sums, number
    raise first or ValueError("no outputs")


def _inputs(model: Any, size: int) -> Iterator[dict[str, Any]]:
    import torch

    parameters = inspect.signature(model.forward).parameters.values()
    required = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    names = {p.name for p in parameters}
    config = getattr(model, "config", None)
    if "input_ids" in names and "input_ids" not in required:
        yield {"input_ids": torch.randint(3, 90, (2, 8))}
    if "pixel_values" in names and "pixel_values" not in required:
        yield {"pixel_values": _noise(2, 3, 32, 32)}
    width = getattr(config, "hidden_size", None) or getattr(config, "d_model", None) or size
    channels = dict.fromkeys([width if isinstance(width, int) else size, size, 3, 1])
    for c in channels:
        for shape in ((2, c, 16, 16), (2, 8, c), (2, c), (2, c, 32, 32), (2, c, 16), (2, c, 8, 8, 8), (2, 16, 16, c)):
            yield {name: _tensor_for(name, shape) for name in required}
    for shape in ((2, 3, 64, 64), (2, 3, 224, 224)):
        yield {name: _tensor_for(name, shape) for name in required}


def _tensor_for(name: str, shape: tuple[int, ...]) -> Any:
    import torch

    if name.endswith("ids") or name in ("tokens", "indices"):
        return torch.randint(3, 8, (shape[0], 8))
    if "mask" in name:
        return None
    if name in ("timestep", "timesteps", "t"):
        return torch.tensor([1.0] * shape[0])
    return _noise(*shape)


def _noise(*shape: int) -> Any:
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _equal_weights(model: Any) -> None:
    """Weights that depend on the key only, so that the order of construction does not matter."""
    import torch

    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            scale = 0.05 if tensor.dim() > 1 else 0.01
            tensor.copy_(torch.randn(tensor.shape, generator=noise).to(tensor.dtype) * scale + (tensor.dim() == 1))


if __name__ == "__main__":
    main()

"""Guess how to build a module class with few small arguments, and what to call the module with.

Every guess is deterministic: what was chosen for the original is repeated for the other versions.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import random
import sys
import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

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

SMALL_NAMES = ("atto", "femto", "pico", "nano", "micro", "tiny", "mini", "_s", "small", "18", "_b0", "_t", "_0")
"""What the names of a catalogue's small models hold."""
MODEL_BASES = ("PreTrained", "Pretrained")

MODULE_WORDS = {"module", "model", "backbone", "encoder", "decoder", "layer", "block", "net"}
COUNTS = {"heads", "nhead", "depth", "layers", "blocks", "repeats", "num", "n", "experts", "spatial"}
WIDTHS = {"channels", "features", "dim", "filters", "classes"}


def build(module: ModuleType, qualname: str, plan: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """An instance of the class, of a subclass, or of a model of the file with one inside; and how it was made."""
    import torch

    if plan is not None:
        _seed(0)
        return _make(module, plan), {**plan}
    target = _find(module, qualname)
    first: Exception | None = None
    for chosen in _plans(module, target):
        try:
            _seed(0)
            model = _make(module, chosen)
        except Exception as error:
            first = first or error
            continue
        if isinstance(model, torch.nn.Module) and any(isinstance(part, target) for part in model.modules()):
            return model, chosen
    raise first or TypeError("no instance of nn.Module")


def _make(module: ModuleType, plan: dict[str, Any]) -> Any:
    if "function" in plan:
        return getattr(module, plan["function"])()
    cls = _find(module, plan["class"])
    return cls(**_arguments(cls, module, plan["size"], plan["shrink"]))


def _plans(module: ModuleType, target: type) -> Iterator[dict[str, Any]]:
    """Ways to make an instance: directly, then as a part of another class, then by a function without arguments."""
    import torch

    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    classes = [value for value in own if isinstance(value, type) and value is not target]
    subclasses = [cls for cls in classes if issubclass(cls, target)]
    for cls, size, shrink in itertools.product([target, *subclasses[:3]], SIZES, (True, False)):
        yield {"class": cls.__qualname__, "size": size, "shrink": shrink}
    others = [cls for cls in classes if issubclass(cls, torch.nn.Module) and cls not in subclasses]
    others.sort(key=lambda cls: (cls.__name__.startswith(MODEL_BASES), "Model" not in cls.__name__))
    for cls, size in itertools.product(others[:6], SIZES[:2]):
        yield {"class": cls.__qualname__, "size": size, "shrink": True}
    functions = [value.__name__ for value in own if inspect.isfunction(value) and _takes_nothing(value)]
    functions.sort(key=lambda name: not any(word in name for word in SMALL_NAMES))
    for name in functions[:6]:
        yield {"function": name, "size": 3}


def _takes_nothing(function: Any) -> bool:
    """Whether a function looks like the builder of a model of a catalogue, which needs no arguments."""
    parameters = inspect.signature(function).parameters
    return bool(parameters.keys() & {"pretrained", "weights"}) and all(
        p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values()
    )


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
    if said == "bool":
        return False
    if said == "float" or words & {"dropout", "drop", "p", "prob", "eps", "alpha", "ratio", "scale", "rate"}:
        return 1e-5 if "eps" in words else 0.0 if words & {"dropout", "drop", "rate", "p", "prob"} else 2.0
    if said.startswith("str") or (said == "_empty" and words & {"act", "activation", "mode"}):
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
    kind_of_layer = "type" in text.lower() or "callable" in text.lower()
    if "Module" in text or kind_of_layer or name.split("_")[-1] in MODULE_WORDS:
        if kind_of_layer:
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
    if words & COUNTS and not words & WIDTHS:
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
    return max(configs, key=lambda config: _alike(config.__name__, cls.__name__), default=None)


def _alike(one: str, other: str) -> int:
    """How many characters two names have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


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


def run(model: Any, chosen: dict[str, Any], plan: dict[str, Any] | None) -> tuple[list[int], int]:
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


def equal_weights(model: Any, but: list[str]) -> None:
    """Weights that depend on the key only, so that the order of construction does not matter.

    Attributes named in ``but`` keep what they hold: not every version has them in its `state_dict`.
    """
    import torch

    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and name.rpartition(".")[2] not in but:
            noise = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            scale = 0.05 if tensor.dim() > 1 else 0.01
            tensor.copy_(torch.randn(tensor.shape, generator=noise).to(tensor.dtype) * scale + (tensor.dim() == 1))

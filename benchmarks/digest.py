"""All that a model shows of itself, as digests by path: written apart from modellint, to find what a check changed."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import torch
from torch import nn


def _tensor(tensor: torch.Tensor) -> str:
    if tensor.device.type == "meta":
        return f"meta {tensor.dtype} {tuple(tensor.shape)}"
    data = tensor.detach()
    if data.layout is torch.strided:
        data = data.contiguous().view(-1).view(torch.uint8) if data.numel() and not data.is_conj() else data.reshape(-1)
    digest = hashlib.sha256(bytes(data.cpu().numpy().tobytes())).hexdigest()
    return f"{digest} {tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {tensor.requires_grad} {id(tensor)} {tensor._version}"


def _value(value: Any, path: str, found: dict[str, str], seen: set[int]) -> None:
    found[f"{path} type"] = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, torch.Tensor):
        found[path] = _tensor(value)
        found[f"{path} grad"] = "none" if value.grad is None else _tensor(value.grad)
        return
    if isinstance(value, (int, float, str, bytes, bool, complex, type(None), torch.dtype, torch.device, type)):
        found[path] = repr(value)
        return
    if id(value) in seen:
        found[path] = f"again {id(value)}"
        return
    seen.add(id(value))
    found[f"{path} id"] = str(id(value))
    if isinstance(value, dict):
        found[f"{path} keys"] = repr([key if isinstance(key, (str, int)) else id(key) for key in value])
        for key, part in dict.items(value):
            _value(part, f"{path}[{key if isinstance(key, (str, int)) else id(key)!r}]", found, seen)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            _value(part, f"{path}[{index}]", found, seen)
    elif isinstance(value, nn.Module) or (hasattr(value, "__dict__") and not callable(value)):
        _value(vars(value), path, found, seen)


def digest(model: nn.Module, inputs: Any) -> dict[str, str]:
    """A digest for every attribute, tensor, gradient, hook and mode that can be reached, the inputs, and the global state."""
    found: dict[str, str] = {}
    seen: set[int] = set()
    _value(model, "model", found, seen)
    _value(inputs, "inputs", found, seen)
    for name, tensor in model.state_dict(keep_vars=True).items():
        found[f"state_dict {name}"] = _tensor(tensor)
    found["state_dict keys"] = repr(list(model.state_dict()))
    found["modes"] = repr([module.training for module in model.modules()])
    found["random torch"] = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
    found["random python"] = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()
    found["random numpy"] = _numpy()
    found["grad mode"] = repr((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
    found["defaults"] = repr((torch.get_default_dtype(), torch.get_num_threads(), torch.is_autocast_enabled("cpu")))
    found["global hooks"] = repr(
        [
            len(value)
            for name, value in sorted(vars(torch.nn.modules.module).items())
            if name.startswith("_global") and hasattr(value, "__len__")
        ]
    )
    return found


def _numpy() -> str:
    import numpy

    return hashlib.sha256(repr(numpy.random.get_state()).encode()).hexdigest()

"""Asks the installed torch for its modules and the attributes of its classes, and writes the table that source checks read.

``python -m modellint.measure.torch_class_attributes`` writes ``data/torch_names.json`` anew.
"""

from __future__ import annotations

import inspect
import json
from importlib import resources
from pathlib import Path

import torch
from torch import nn

_GUESSES: tuple[tuple[object, ...], ...] = ((), (2,), (2, 2), (2, 2, 2), (0, 1), ((2, 2),), (1, 4, 2), ([3, 7], 2))


def _built(cls: type[nn.Module]) -> nn.Module | None:
    for arguments in _GUESSES:
        try:
            return cls(*arguments)
        except Exception:
            continue
    return None


def _is_stateless(cls: type[nn.Module]) -> bool:
    """No parameter, no buffer, and nothing that ``eval()`` changes: hiding such a module loses nothing yet."""
    module = _built(cls)
    if module is None or "module" in inspect.signature(cls).parameters:
        return False
    # An entry that is None (`InstanceNorm2d`, `NLLLoss`) is filled by other arguments than those tried here.
    if any(part._parameters or part._buffers for part in module.modules()):
        return False
    forwards = [vars(base)["forward"] for base in cls.__mro__ if "forward" in vars(base)]
    return not any("self.training" in inspect.getsource(forward) for forward in forwards)


def modules() -> dict[str, bool]:
    """Public name of every ``nn.Module`` of ``torch.nn`` to whether it is stateless."""
    containers = {"Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}
    stateless: dict[str, bool] = {}
    for name, value in sorted(vars(nn).items()):
        if inspect.isclass(value) and issubclass(value, nn.Module):
            stateless[name] = name not in containers and _is_stateless(value)
    return stateless


def _is_of_torch(owner: object, name: str) -> bool:
    """Not what another package put on ``nn.Module``: transformers adds ``smart_apply`` when it loads its first model."""
    module = getattr(getattr(owner, name), "__module__", None)
    return module is None or module.partition(".")[0] in {"torch", "collections", "typing"}


def refused_keys(container: nn.Module) -> list[str]:
    """The names that a ``ModuleDict`` or ``ParameterDict`` has as attributes, and so refuses as keys."""
    return sorted(name for name in dir(container) if not name.startswith("__") and _is_of_torch(container, name))


def tensor_attributes() -> list[str]:
    """The public attributes of ``torch.Tensor``."""
    return sorted(name for name in dir(torch.Tensor) if not name.startswith("_") and _is_of_torch(torch.Tensor, name))


def table() -> str:
    """The text of ``torch_names.json``."""
    stateless_by_name = modules()
    data = {
        "torch": torch.__version__.partition("+")[0],
        "modules": sorted(stateless_by_name),
        "stateless": sorted(name for name, stateless in stateless_by_name.items() if stateless),
        "module_dict_attributes": refused_keys(nn.ModuleDict()),
        "parameter_dict_attributes": refused_keys(nn.ParameterDict()),
        "tensor_attributes": tensor_attributes(),
    }
    return json.dumps(data, indent=1) + "\n"


if __name__ == "__main__":
    Path(str(resources.files("modellint.data").joinpath("torch_names.json"))).write_text(table(), "utf-8")

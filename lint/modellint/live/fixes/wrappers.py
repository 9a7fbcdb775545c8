"""Wrapper fix: modules are taken out of what does not convert: DataParallel and what `torch.compile` makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from modellint.live.fixes.candidate_fix import BIT_EQUAL, Applied

_OPTIMIZED = "torch._dynamo.eval_frame.OptimizedModule"


class Shell(nn.Module):
    """Calls the module that it holds under the name that a wrapper gave it, and has that module's attributes."""

    def __init__(self, name: str, module: nn.Module) -> None:
        super().__init__()
        self._held = name
        self.add_module(name, module)
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._modules[self._held](*args, **kwargs)  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name in modules:
            return modules[name]
        if self.__dict__.get("_held") not in modules:
            raise AttributeError(name)
        return getattr(modules[self._held], name)


def held_by(module: nn.Module) -> tuple[str, nn.Module] | None:
    """The attribute and the module in a wrapper; None for any other module."""
    # `torch.compile` comes with a package that takes long to import.
    if any(f"{cls.__module__}.{cls.__qualname__}" == _OPTIMIZED for cls in type(module).__mro__):
        name = "_orig_mod"
    elif isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        name = "module"
    else:
        return None
    inner = module._modules.get(name)
    return None if inner is None else (name, inner)


def inside(module: nn.Module) -> nn.Module:
    """What a wrapper holds, or the module itself."""
    wrapped = held_by(module)
    return module if wrapped is None else wrapped[1]


def in_shell(module: nn.Module) -> nn.Module:
    """The same under the name that the wrapper gave it."""
    wrapped = held_by(module)
    return module if wrapped is None else Shell(*wrapped)


def wrappers_in(modules: dict[str, nn.Module]) -> Iterator[tuple[str, nn.Module, str]]:
    """The wrappers among modules, with their paths and what they are; modules that are compiled in place among them."""
    for path, module in modules.items():
        if held_by(module) is not None:
            yield path, module, "torch.compile" if "_orig_mod" in module._modules else type(module).__name__
        elif module.__dict__.get("_compiled_call_impl") is not None or any(
            hasattr(value, "_torchdynamo_orig_callable") for value in vars(module).values() if callable(value)
        ):
            yield path, module, "torch.compile"


def removals(modules: dict[str, nn.Module], *, in_shells: bool) -> Iterator[Applied]:
    """The removed wrappers, as a report lists them."""
    kinds: dict[str, list[str]] = {}
    for path, _, kind in wrappers_in(modules):
        kinds.setdefault(kind, []).append(path)
    for kind, paths in kinds.items():
        keys = "`state_dict` keys stay, since the model asks for the wrapper's attribute" if in_shells else ""
        if not in_shells and any(held_by(modules[path]) is not None for path in paths):
            keys = f"`state_dict` keys lose `{'_orig_mod' if kind == 'torch.compile' else 'module'}.`"
        yield Applied("FLW006", f"took away `{kind}`", tuple(paths), BIT_EQUAL, keys)

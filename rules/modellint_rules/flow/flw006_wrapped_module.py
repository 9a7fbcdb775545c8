"""FLW006: a module that keeps another inside DataParallel, DistributedDataParallel or torch.compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Instance, Rule, Severity, alternatives, once

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Call, Code, LiveModel, Value

_WRAPPERS = {
    "torch.nn.DataParallel": "DataParallel",
    "torch.nn.parallel.DataParallel": "DataParallel",
    "torch.nn.parallel.DistributedDataParallel": "DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "DistributedDataParallel",
    "torch.compile": "torch.compile",
}
_OF_SEVERAL = frozenset({"DataParallel", "DistributedDataParallel"})
_SEVERAL = re.compile(
    r"(?:device_count\(\)|n_?gpus?|num_gpus?|gpu_count|world_size|len\([\w.]*(?:gpus?|devices?|device_ids|gpu_ids)\)) > 1\b"
    r"|\b(?:is_)?distributed\b|\b(?:multi|multiple)_?gpus?\b"
)
"""What asks whether there are several devices or processes."""
_OPTIMIZED = "torch._dynamo.eval_frame.OptimizedModule"


def _is_module(value: Value | None) -> bool:
    return value is not None and all(
        isinstance(part, Instance) and part.kind == "module" for part in alternatives(value)
    )


class WrappedModule(Rule):
    """A submodule that is wrapped in `DataParallel`, `DistributedDataParallel` or `torch.compile`.

    ## What it does
    Finds attributes of a module that are bound to `nn.DataParallel(...)`, `DistributedDataParallel(...)` or `torch.compile(...)`;
    in a live model, modules that are wrapped so, the model itself among them, or compiled in place. There it is an error.

    ## Why
    Tracing and `torch.export` refuse the wrappers, or follow them into code that copies the model to every GPU. They also put
    `module.` or `_orig_mod.` before each key of the checkpoint.

    ## Bad
    ```python
    from torch import nn


    class Trunk(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.DataParallel(nn.Linear(8, 4))

        def forward(self, x):
            return self.layers(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Trunk(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Linear(8, 4)

        def forward(self, x):
            return self.layers(x)
    ```

    ## Fix safety
    The fix is unsafe: it takes the wrapper away, so that keys of `state_dict` lose `module.`, and the model runs on one device.

    ## Known limits
    In source, only what `__init__` builds and wraps is reported: wrapping a finished model for training is ordinary. It is
    information where a condition asks for several devices or processes (`torch.cuda.device_count() > 1`): nobody exports there.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html>
    - <https://github.com/apple/coremltools/issues/1891>
    """

    code = "FLW006"
    name = "wrapped-module"
    severity = Severity.WARNING
    needs = (frozenset({"~DataParallel", "~DistributedDataParallel", "~compile"}),)
    fixable = "keep the module itself"
    advice = "Export the module inside: `.module`, or `._orig_mod` of a compiled one"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every wrapper that is bound to an attribute."""
        if code.ref is None:
            return
        bound = {id(binding.expression): binding for binding in code.bindings if binding.file is code.file}
        for readings in code.calls:
            call = readings[0]
            wrapper = _WRAPPERS.get(call.name)
            binding = bound.get(id(call.node))
            if wrapper is None or binding is None or binding.form not in ("assign", "annotated"):
                continue
            if binding.method != "__init__" or not _is_module(call.arguments.get(0, "module")):
                continue
            inner = call.node.args[0] if call.node.args else None
            fix = None
            if isinstance(inner, ast.expr) and not isinstance(inner, ast.Starred):
                edit = code.rewriter.replace(call.node, code.rewriter.of(inner))
                fix = Fix("Keep the module itself; keys of `state_dict` change", (edit,), Applicability.UNSAFE)
            yield code.finding(
                self,
                binding.statement,
                f"`self.{binding.attribute}` is wrapped in `{wrapper}`, which cannot be traced",
                attribute=binding.attribute,
                severity=Severity.INFO if wrapper in _OF_SEVERAL and _is_for_several(code, call) else self.severity,
                fix=fix,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every module what it is."""
        for entry in subject.modules:
            wrapper, inner = _wrapping(entry.module)
            if wrapper:
                yield subject.finding(
                    self,
                    f"the module is wrapped in `{wrapper}`, which cannot be traced",
                    severity=Severity.ERROR,
                    modules=entry.paths,
                    advice=f"export what is inside, `{inner}`" if inner else "export a model that is not compiled",
                    **subject.binding(entry.path).keywords(),
                )


def _is_for_several(code: Code, call: Call) -> bool:
    """Whether a module is wrapped only where there are several devices or processes: `if torch.cuda.device_count() > 1:`."""
    tests = (once(test, "_text", ast.unparse) for test in code.conditions(call.node, call.function))
    return any(_SEVERAL.search(test) for test in tests)


def _wrapping(module: nn.Module) -> tuple[str, str]:
    """What a module is wrapped in, and the attribute of the wrapper that is the module itself."""
    from torch import nn

    match module:
        case nn.DataParallel():
            return "DataParallel", ".module"
        case nn.parallel.DistributedDataParallel():
            return "DistributedDataParallel", ".module"
    # `torch.compile` comes with a package that takes long to import.
    if any(f"{cls.__module__}.{cls.__qualname__}" == _OPTIMIZED for cls in type(module).__mro__):
        return "torch.compile", "._orig_mod"
    return ("torch.compile", "") if module._compiled_call_impl is not None else ("", "")

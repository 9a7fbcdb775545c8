"""FLW006: a module that keeps another inside DataParallel, DistributedDataParallel or torch.compile."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Applicability, Diagnostic, Fix, Severity
from modellint.rule import Rule
from modellint.source.values import Instance, alternatives

if TYPE_CHECKING:
    from modellint.source.code import Code
    from modellint.source.values import Value

_WRAPPERS = {
    "torch.nn.DataParallel": "DataParallel",
    "torch.nn.parallel.DataParallel": "DataParallel",
    "torch.nn.parallel.DistributedDataParallel": "DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "DistributedDataParallel",
    "torch.compile": "torch.compile",
}


def _is_module(value: Value | None) -> bool:
    return value is not None and all(
        isinstance(part, Instance) and part.kind == "module" for part in alternatives(value)
    )


class WrappedModule(Rule):
    """A submodule that is wrapped in `DataParallel`, `DistributedDataParallel` or `torch.compile`.

    ## What it does
    Finds attributes of a module that are bound to `nn.DataParallel(...)`, `DistributedDataParallel(...)` or `torch.compile(...)`.

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
    Only what `__init__` builds and wraps is reported: wrapping a finished model for training is ordinary.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html>
    - <https://github.com/apple/coremltools/issues/1891>
    """

    code = "FLW006"
    name = "wrapped-module"
    severity = Severity.WARNING
    needs = (frozenset({"~DataParallel", "~DistributedDataParallel", "~compile"}),)
    fixable = "keep the module itself"

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
                fix=fix,
            )

"""DEV002: `torch.load` that needs the device on which the checkpoint was saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code

_CHECKPOINT = r"(?i)state_?dict|checkpoint|ck?pt|chkpt|weights(?!_only)|pretrain|model|\.pth\b"


class LoadWithoutMapLocation(Rule):
    """A checkpoint that is loaded onto the device from which it was saved.

    ## What it does
    Finds `torch.load` without `map_location`, of what is a checkpoint by the names around it: in the statement, or in a
    `load_state_dict` that takes the result.

    ## Why
    A checkpoint saved on a GPU raises "Attempting to deserialize object on a CUDA device" on a machine without one, and exports to
    Core ML run on such machines.

    ## Bad
    ```python
    import torch


    def restore(model, path):
        model.load_state_dict(torch.load(path))
        return model
    ```

    ## Good
    ```python
    import torch


    def restore(model, path):
        model.load_state_dict(torch.load(path, map_location="cpu"))
        return model
    ```

    ## Fix safety
    The fix is unsafe: the tensors come back on the CPU, and code may count on the device they were saved from. It leaves
    `weights_only` as it is: from torch 2.6 on its default is True, and a checkpoint that holds other objects is refused by it.

    ## Known limits
    A call with `**keywords` or a starred argument is left alone, and so is a file that nothing shows to be a checkpoint: data sets
    and caches are saved from the CPU.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.load.html>
    """

    code = "DEV002"
    name = "load-without-map-location"
    severity = Severity.WARNING
    needs = ("~load",)
    fixable = '`map_location="cpu"`'

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every `torch.load`."""
        for readings in code.calls:
            call = readings[0]
            if call.name == "torch.load" and not call.has(1, "map_location") and _is_checkpoint(call):
                edit = code.rewriter.add_argument(call.node, 'map_location="cpu"')
                yield code.finding(
                    self,
                    call.node,
                    "`torch.load` without `map_location` needs the device that the checkpoint was saved from",
                    fix=Fix("Load onto the CPU", (edit,), Applicability.UNSAFE),
                    statement=call.statement,
                )


def _is_checkpoint(call: Call) -> bool:
    names = {part.id for part in walk(call.statement) if isinstance(part, ast.Name)}
    if "BytesIO" in names or any(
        isinstance(part, ast.Attribute) and part.attr == "BytesIO" for part in walk(call.statement)
    ):
        return False
    simple = isinstance(call.statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return))
    if re.search(_CHECKPOINT, ast.unparse(call.statement if simple else call.node)):
        return True
    targets = {
        part.id for part in walk(call.statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and "load" in part.func.attr
        and "state_dict" in part.func.attr
        and any(isinstance(name, ast.Name) and name.id in targets for argument in part.args for name in walk(argument))
        for part in walk(call.function or call.statement)
    )

"""SHP006: resampling to a size that is written down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Container, Diagnostic, Rule, Severity, Tensor, Value, alternatives, of_kind, parents_in

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class InterpolateFixedSize(Rule):
    """Resampling of a tensor to a size that is written down.

    ## What it does
    Finds `F.interpolate` and `F.upsample` in what `forward` runs, and `nn.Upsample` layers, whose `size` is a number or a tuple of
    numbers.

    ## Why
    coremltools computes the factor from the sizes of the input. With a flexible input (`ct.RangeDim`) there is none, and the
    conversion fails: "Cannot convert expression to float". With `scale_factor` it converts.

    ## Bad
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Double(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)

        def forward(self, x):
            return F.interpolate(self.conv(x), size=(64, 64), mode="bilinear")


    inputs = (torch.randn(1, 3, 32, 32),)
    flexible = {0: {2: (16, 64), 3: (16, 64)}}
    ```

    ## Good
    ```python
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Double(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)

        def forward(self, x):
            return F.interpolate(self.conv(x), scale_factor=2.0, mode="bilinear")


    inputs = (torch.randn(1, 3, 32, 32),)
    flexible = {0: {2: (16, 64), 3: (16, 64)}}
    ```

    ## Fix safety
    There is no fix: the factor depends on the size of the input that the author had in mind, and the size of another tensor in its
    place (`size=y.shape[-2:]`) does not convert with a flexible input either.

    ## Known limits
    With an input of one size a size that is written down is right. A size that an attribute or the caller says is left alone,
    and so is what is resampled where no input is flexible: parameters, constants, and what descends from a reshaping to
    numbers (`x.reshape(1, 8, 32, 32)`), by a function or by a layer.

    ## References
    - <https://github.com/apple/coremltools/issues/951>
    - <https://apple.github.io/coremltools/docs-guides/source/flexible-inputs.html>
    """

    code = "SHP006"
    name = "interpolate-fixed-size"
    severity = Severity.WARNING
    only_inference = True
    live_needs = "run"
    supersedes = ("OPS002",)
    needs = ("forward", frozenset({"interpolate", "upsample", "Upsample"}))
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every resampling for its size."""
        if code.is_never_exported:
            return
        for readings in code.calls:
            call = readings[0]
            runs = all(_is_running(code, reading) for reading in readings)
            if (runs or all(map(_is_layer, readings))) and not (
                runs and call.function is not None and code.is_for_loss_only(call.node, call.function)
            ):
                if _is_of_one_size(code, call) if runs else _is_given_one_size(code, call):
                    continue
                yield code.finding(
                    self,
                    call.node,
                    f"`{call.method}` to a size that is written down: with a flexible input the conversion fails",
                    statement=call.statement,
                    advice="Write `scale_factor`, if the input is flexible",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every resampling of what has a flexible size for its own size."""
        for call in subject.flexible_calls(_FUNCTIONS):
            size = call.arguments[1] if len(call.arguments) > 1 else call.keywords.get("size")
            if size is not None:
                name = call.name.rpartition(".")[2]
                yield subject.finding(
                    self,
                    f"`{name}` to a size that is written down: with a flexible input the conversion fails",
                    at=call.place,
                    modules=[call.module],
                    advice="Write `scale_factor`, if the input is flexible",
                )


_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}" for name in ("interpolate", "upsample", "upsample_bilinear", "upsample_nearest")
)


def _is_running(code: Code, call: Call) -> bool:
    if call.name not in _FUNCTIONS or call.training or not call.exported or call.building or call.arguments.spread:
        return False
    tensor = call.arguments.get(0, "input")
    data = tensor is not None and all(
        isinstance(part, Tensor) and part.batch is not None for part in alternatives(tensor)
    )
    return data and call.function in code.in_forward and _is_literal(call.arguments.get(1, "size"))


def _is_of_one_size(code: Code, call: Call) -> bool:
    """Whether what is resampled has the same size whatever the input."""
    words = [word.value for word in call.node.keywords if word.arg == "input"]
    return any(code.has_static_size(node, call.function) for node in (*call.node.args[:1], *words))


def _is_given_one_size(code: Code, call: Call) -> bool:
    """Whether a layer, or the sequence that it is built for, is called with what has the same size whatever the input, and only called."""
    match call.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=attribute)]):
            pass
        case _:
            return False
    calls = 0
    for function in code.own_functions:
        names = {part.attr for part in of_kind(function, ast.Attribute)} | {
            part.func.id for part in of_kind(function, ast.Call) if isinstance(part.func, ast.Name)
        }
        if names & _HANDS_OUT:
            return False
        parents = parents_in(function)
        for read in of_kind(function, ast.Attribute):
            if read.attr != attribute or not isinstance(read.ctx, ast.Load):
                continue
            match parents.get(read):
                case ast.Call(func=called, args=[node]) if called is read and code.has_static_size(node, function):
                    calls += 1
                case _:
                    return False
    return calls > 0


_HANDS_OUT = frozenset(
    {"children", "modules", "named_children", "named_modules", "_modules", "getattr", "get_submodule"}
)
"""What gives a layer without its name."""


def _is_layer(call: Call) -> bool:
    return call.name == "torch.nn.Upsample" and call.building and _is_literal(call.arguments.get(0, "size"))


def _is_literal(size: Value | None) -> bool:
    parts = alternatives(size) if size is not None else ()
    items = [item for part in parts for item in (part.items if isinstance(part, Container) and part.exact else [part])]
    return bool(items) and all(item.integer is not None and not isinstance(item, Tensor) for item in items)

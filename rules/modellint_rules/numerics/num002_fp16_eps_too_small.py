"""NUM002: an epsilon below the smallest number of float16."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import (
    Applicability,
    ClassValue,
    Diagnostic,
    External,
    Fix,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    coreml,
    tensors_in,
)
from modellint_rules.numerics.conversion_precision import is_converted_in_float32
from modellint_rules.numerics.number_literals import FLOOR, TERM, depends_on_data, name_of_number, number_uses
from modellint_rules.numerics.weighted_logarithms import is_weighted

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, ScalarOperand


class Fp16EpsTooSmall(Rule):
    """An epsilon that float16 cannot hold.

    ## What it does
    Finds positive numbers below 6e-8 that are added to a tensor which depends on what the caller gives, to which such a
    tensor is clamped from below, also by `torch.maximum(x, torch.tensor(1e-12))`, or which are the `eps` of a layer of the
    class or of a function (`LayerNorm`, `normalize`, …).

    ## Why
    A model is converted to float16 unless `--precision fp32` is set. Its smallest positive number is 6e-8, and coremltools
    writes that for every smaller one: `log(x + 1e-12)` of 0 is then -16.6 instead of -27.6. In an entropy, `p * log(p + 1e-12)`,
    that makes no difference, as `p` is 0 there: executed by `modellint verify`, not on a device that takes such small numbers for 0.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Decibels(nn.Module):
        def forward(self, p):
            return 10 * (p + 1e-12).log10()


    inputs = (torch.rand(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Decibels(nn.Module):
        def forward(self, p):
            return 10 * (p + 1e-07).log10()


    inputs = (torch.rand(2, 4),)
    ```

    ## Fix safety
    The fix writes 1e-07. It is unsafe: the outputs of the PyTorch model change where they depend on the epsilon.

    ## Known limits
    An `eps` that is not written down but the default of a function, or that the caller of the constructor may set, is left
    alone, and so is that of batch normalization, which mostly becomes a part of the weights before they are rounded. With
    `--precision fp32` nothing is said, and what the file itself converts with `compute_precision=ct.precision.FLOAT32`, or
    what a variable called a loss is bound to, is information. An epsilon with a name is told of once in a function. The logarithm of
    an entropy is left alone.

    ## References
    - <https://apple.github.io/coremltools/docs-guides/source/typed-execution.html>
    - <https://github.com/apple/coremltools/issues/2506>
    """

    code = "NUM002"
    name = "fp16-eps-too-small"
    severity = Severity.WARNING
    only_for = ("coreml",)
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.BELOW_FLOAT16)
    only_modules = True
    only_forward = True
    fixable = "`1e-07`"
    advice = "Write 1e-7, or more"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every number that is added, or is called an epsilon, for its size."""
        if code.destination.precision == "fp32" or code.is_training_only or not code.shows(Trigger.BELOW_FLOAT16):
            return
        named: set[object] = set()
        for use in number_uses(code):
            others = [value for value in use.met() if value not in use.numbers]
            guards = use.how in (TERM, FLOOR) and not _subtracts(use.node)
            if guards and _are_tiny(use.known()) and any(map(depends_on_data, others)):
                if is_weighted(code, use.node, use.written):
                    continue
                name = name_of_number(code, use)
                if name is not None and name in named:
                    continue
                named.add(name)
                yield self._said(code, use.node, use.statement, use.written, _shown(use.known()))
        yield from self._floors(code)
        for readings in code.calls:
            call = readings[0]
            at = _AT.get(_layer(code, call) or call.name, 99)
            values = [reading.arguments.get(at, "eps") for reading in readings]
            if None in values or not all(_takes_eps(code, reading) for reading in readings):
                continue
            numbers = [part.number for value in values if value is not None for part in alternatives(value)]
            known = [number for number in numbers if number is not None]
            if len(known) == len(numbers) and _are_tiny(known):
                written = next((word.value for word in call.node.keywords if word.arg == "eps"), None)
                yield self._said(code, call.node, call.statement, written, _shown(known))

    def _floors(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every `torch.maximum` whether one side is a tensor of one number: `torch.maximum(x, torch.tensor(1e-12))`."""
        for readings in code.calls:
            call = readings[0]
            if call.name not in _LARGER or not all(_runs(code, reading) for reading in readings):
                continue
            for node in call.node.args:
                makers = code.readings(node)
                values = [part.arguments.get(0, "data") for part in makers if part.name == "torch.tensor"]
                numbers = [value.number if value is not None else None for value in values]
                known = [number for number in numbers if number is not None]
                others = [part for part in _operands(readings) if part.node is not node]
                if known and len(known) == len(makers) and _are_tiny(known) and any(map(depends_on_data, others)):
                    yield self._said(
                        code, call.node, call.statement, next(iter(makers[0].node.args), None), _shown(known)
                    )

    def _said(
        self, code: Code, node: ast.expr | ast.stmt, statement: ast.stmt, written: ast.expr | None, shown: str
    ) -> Diagnostic:
        fix = None
        in_float32 = is_converted_in_float32(code)
        if isinstance(written, ast.Constant) and not in_float32:
            edit = code.rewriter.replace(written, "1e-07")
            fix = Fix("Write 1e-07; outputs change where they depend on it", (edit,), Applicability.UNSAFE)
        return code.finding(
            self,
            node,
            f"{shown} is less than the smallest number of float16: it becomes 6e-08 in Core ML",
            statement=statement,
            severity=Severity.INFO if in_float32 or code.is_a_loss(statement) else None,
            fix=fix,
        )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every number that is added in the run, or is an epsilon, for its size."""
        from modellint.authoring import Reach

        run = subject.run
        if run is None or subject.destination.precision == "fp32":
            return
        data = Reach.of_values(run)
        for met in subject.scalar_operands:
            guards = met.how in ("eps", FLOOR) or (met.how == TERM and not met.subtracts)
            if (
                guards
                and 0 < met.number < coreml.float16.smallest
                and "float" in met.dtype
                and subject.depends_on(met, data)
                and not subject.is_weighted_logarithm(met)
            ):
                yield subject.finding(
                    self,
                    f"{met.number:g} is less than the smallest number of float16: it becomes 6e-08 in Core ML",
                    modules=[met.call.module],
                    **(_place_of(subject, met) if met.how == "eps" else {"at": met.call.place}),
                )


def _place_of(subject: LiveModel, met: ScalarOperand) -> dict[str, Any]:
    """Where the layer is made whose epsilon a function was given, or else where the function is called."""
    module = next((entry.module for entry in subject.modules if met.call.module in entry.paths), None)
    if module is None or type(module).__module__.partition(".")[0] != "torch" or not hasattr(module, "eps"):
        return {"at": met.call.place}
    return subject.binding(met.call.module).keywords()


_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in ("layer_norm", "group_norm", "instance_norm", "normalize", "rms_norm", "cosine_similarity")
)
_AT = {"torch.nn.functional.normalize": 3, "torch.nn.functional.layer_norm": 4, "torch.nn.LayerNorm": 1}
"""Where the epsilon stands, if not behind its name."""
_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in ("LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
)


_LARGER = frozenset({"torch.maximum", "torch.max", "torch.fmax", "torch.Tensor.maximum", "torch.Tensor.max"})


def _runs(code: Code, call: Call) -> bool:
    return not call.training and call.exported and not call.building and call.function in code.in_forward


def _operands(readings: Iterable[Call]) -> Iterator[Tensor]:
    """The tensors that calls are given, their own included."""
    for call in readings:
        yield from tensors_in([*([] if call.receiver is None else [call.receiver]), *call.arguments.everything()])


def _takes_eps(code: Code, call: Call) -> bool:
    if _layer(code, call):
        return call.building
    return call.name in _FUNCTIONS and _runs(code, call)


def _layer(code: Code, call: Call) -> str:
    """The layer that a call builds: torch's own, or a class that is one and takes the same arguments."""
    if call.name in _LAYERS or not isinstance(call.callee, ClassValue):
        return call.name if call.name in _LAYERS else ""
    lineage = code.project.lineage(call.callee.ref)
    if any("__init__" in ref.file.members(ref.node) for ref in lineage):
        return ""
    bases = (base for ref in lineage for base in code.project.bases(ref))
    return next((base.name for base in bases if isinstance(base, External) and base.name in _LAYERS), "")


def _are_tiny(numbers: list[int | float] | None) -> bool:
    return bool(numbers) and all(0 < number < coreml.float16.smallest for number in numbers or ())


def _shown(numbers: list[int | float] | None) -> str:
    return f"{numbers[0]:g}" if numbers else ""


def _subtracts(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Sub()) | ast.AugAssign(op=ast.Sub()):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.startswith("sub")
    return False

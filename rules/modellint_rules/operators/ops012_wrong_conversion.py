"""OPS012: a use of an operator that coremltools converts to something else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, Trigger, coreml, of_kind

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel
    from modellint_rules.operators.api_calls import Kind, Use


class WrongConversion(Rule):
    """A use of an operator that coremltools converts to something else.

    ## What it does
    Asks every operator of the run whether its operands, their types and their sizes are among those whose conversion was measured to be
    wrong: `x % 1`, a pooling in ceil mode whose last windows are cut off, `antialias=True`, a variance without `dim`, running
    statistics of an instance norm, a triangle of infinity, powers of 2, a map resized by 1.7, the mean of integers, `1 / x`, and
    others of coremltools' known faults. In source it finds what literals show: `x % 1` and `x // 1` of floats, a number that is
    divided by a tensor (`1 / x`), and `nn.InstanceNorm2d(…, track_running_stats=True)`.

    ## Why
    The conversion succeeds, and the package computes something else: `x % 1` gives zeros, and `1 / x` gives `1 / (x + 1e-4)`, which is
    a hundredth off where `x` is 0.01. Each is shown with a program, and with what
    comes out beside each version of coremltools, in the list of its known faults. Where a version converts it right, there is no
    finding.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Phase(nn.Module):
        def forward(self, x):
            turns = torch.sigmoid(x) * 8.0
            whole = turns // 1
            return torch.sin(turns - whole)


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Phase(nn.Module):
        def forward(self, x):
            turns = torch.sigmoid(x) * 8.0
            whole = turns.floor()
            return torch.sin(turns - whole)


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix of `x % 1` is safe: what it writes gives the same numbers. That of `x // 1` is unsafe: of infinity a rounded quotient is
    not a number, and `x.floor()` is infinity. So is that of `1 / x`: PyTorch divides there in two steps, and rounds otherwise. Other uses
    have none: `modellint export` puts other operators in their place, and says
    which.

    ## Known limits
    It knows the uses that can be told by types, sizes and numbers that are written down. What depends on the values, such as a
    logarithm of zero, is `modellint verify`'s. Where the values decide how far off it is (`1 / x`, `atan2`, `nn.RMSNorm`, `any` of
    floats), it is a warning, and so is a variance of more than 64 elements; of more than 2048 half precision cannot tell, and it is
    information. In source it finds what is computed from the arguments of `forward` alone, but `1 / x` of any tensor: coremltools
    computes the same of constants. It says nothing of `1 / (1 + x)`, as half precision is coarser than 1e-4 of one.

    ## References
    - <https://github.com/apple/coremltools/issues/2836>
    - <https://github.com/apple/coremltools/issues/2761>
    """

    code = "OPS012"
    name = "wrong-conversion"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    silent = ("trace", "export")
    live_needs = "run"
    needs = ("forward", frozenset({Trigger.DIVIDES_BY_ONE, Trigger.INVERTS, "reciprocal", "track_running_stats"}))
    only_modules = True
    fixable = "`x - x.floor()`, `torch.div(1, x)`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Look for floats divided by one and rounded, numbers over tensors, and layers with running statistics that are not read."""
        from modellint_rules.operators.api_calls import (
            calls_in_forward,
            found_at,
            inverted_in_forward,
            rounded_by_one_in_forward,
        )
        from modellint_rules.operators.refusals.lookup import wrong_by_coremltools

        version = code.destination.coremltools
        if coreml.has_fault(_OF_ONE, version):
            for node, parent, aside in rounded_by_one_in_forward(code):
                is_remainder = isinstance(node.op, ast.Mod)
                yield code.finding(
                    self,
                    node,
                    _REMAINDER if is_remainder else _QUOTIENT,
                    severity=Severity.INFO if aside else self.severity,
                    fix=_fix(code, node, parent),
                    advice="Write `x - x.floor()`" if is_remainder else "Write `x.floor()`",
                    operator="aten::remainder" if is_remainder else "aten::floor_divide",
                )
        if coreml.has_fault(_OF_INVERSE, version):
            for node, aside in inverted_in_forward(code):
                yield code.finding(
                    self,
                    node,
                    _INVERSE,
                    severity=Severity.INFO if aside else Severity.WARNING,
                    fix=_division(code, node),
                    advice=f"Write `torch.div({ast.unparse(node.left)}, …)`",
                    operator="aten::reciprocal",
                )
            for call, known, aside in calls_in_forward(code, _reciprocal):
                severity = Severity.INFO if aside else Severity.WARNING
                yield from found_at(self, code, call, _INVERSE, severity, known[0].kind, "Write `torch.div(1, …)`")
        if not coreml.has_fault(_OF_STATISTICS, version):
            return
        for call, wrong, aside in calls_in_forward(code, wrong_by_coremltools):
            claim = f"`{wrong[0].shown}`: {wrong[0].why}"
            yield from found_at(
                self, code, call, claim, Severity.INFO if aside else self.severity, wrong[0].kind, _ADVICE
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every operator of the run for what is known to come out wrong."""
        from modellint_rules.operators.refusals.coremltools_faults import found

        here = coreml.here()
        for use, fault in found(subject):
            if coreml.has_fault(fault.id, here):
                yield subject.finding(
                    self,
                    fault.message,
                    at=use.place,
                    modules=[use.module],
                    operator=fault.operator,
                    advice=_ADVICE,
                    severity=fault.severity,
                )

    def silent_by(self, finding: Diagnostic) -> tuple[str, ...]:
        """The routes by which the use converts to something else: for some it is one only."""
        from modellint_rules.operators.refusals.coremltools_faults import routes_of

        return routes_of(finding.message) if finding.severity is Severity.ERROR else ()


_OF_ONE = "quotient-of-one"
_OF_INVERSE = "reciprocal"
_INVERSE = "a number over a tensor converts to that over the tensor plus 1e-4: far off where the tensor is small"
_RECIPROCALS = frozenset(f"torch.{owner}reciprocal{ending}" for owner in ("", "Tensor.") for ending in ("", "_"))
_OF_STATISTICS = "instance-norm-running-statistics"
_REMAINDER = "`x % 1` of floats converts to zeros: coremltools leaves the rounding of a quotient by one out"
_QUOTIENT = "`x // 1` of floats converts to `x`, unless it is an output: coremltools takes it for no operation"
_ADVICE = "`modellint export` writes it in other operators, and tells whether they agree"


def _reciprocal(use: Use) -> Kind | None:
    from modellint_rules.operators.api_calls import Kind

    return Kind("aten::reciprocal") if use.name in _RECIPROCALS else None


def _is_bound(tree: ast.Module) -> bool:
    """Whether `torch` is what it says all over a file: imported at the top, and bound to nothing else."""
    imported = any(
        isinstance(part, ast.Import) and any(alias.name == "torch" and alias.asname is None for alias in part.names)
        for part in tree.body
    )
    stored = any(part.id == "torch" and not isinstance(part.ctx, ast.Load) for part in of_kind(tree, ast.Name))
    taken = any(part.arg == "torch" for part in of_kind(tree, ast.arg))
    named = any(part.asname == "torch" for part in of_kind(tree, ast.alias))
    return imported and not (stored or taken or named)


def _division(code: Code, node: ast.BinOp) -> Fix | None:
    if not _is_bound(code.file.tree):
        return None
    call = f"torch.div({code.rewriter.of(node.left)}, {code.rewriter.of(node.right)})"
    edit = code.rewriter.replace_with_call(node, call)
    return Fix("Divide by a call; outputs change in their last digit", (edit,), Applicability.UNSAFE)


def _fix(code: Code, node: ast.BinOp, parent: ast.AST | None) -> Fix | None:
    if not isinstance(node.left, (ast.Name, ast.Attribute)):
        return None
    text = code.rewriter.of(node.left)
    if isinstance(node.op, ast.FloorDiv):
        return Fix(
            "Round it down; outputs change where it is infinite",
            (code.rewriter.replace(node, f"{text}.floor()"),),
            Applicability.UNSAFE,
        )
    whole = f"{text} - {text}.floor()"
    is_operand = isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Attribute, ast.Starred, ast.Subscript))
    return Fix("Take what is whole off", (code.rewriter.replace(node, f"({whole})" if is_operand else whole),))

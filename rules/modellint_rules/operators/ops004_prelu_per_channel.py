"""OPS004: `nn.PReLU` with a slope for each channel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Const,
    Diagnostic,
    Imported,
    Instance,
    Rule,
    Severity,
    Tensor,
    Value,
    alternatives,
    coreml,
    operators,
    walk,
)

if TYPE_CHECKING:
    import torch

    from modellint.authoring import Blocker, Call, Code, LiveCall, LiveModel


class PReLUPerChannel(Rule):
    """A `PReLU` with a slope for each channel, on an input that is not of rank 4.

    ## What it does
    Finds `nn.PReLU(n)`. It is an error where its input is known to have another rank than 4: next to `Linear`, `Conv1d`,
    `BatchNorm1d` or `Conv3d` in a `Sequential` or a list of layers, or by what `forward` gives it. Where the rank is 4 or not
    known, it is a remark. `nn.PReLU()`, with one slope for all, is left alone. A live check looks at the slopes and at the rank
    that the layer, or `F.prelu`, is given in the run: it is an error where slopes differ and coremltools does not take the rank
    by the route that counts (by `torch.export` with core ATen decompositions it takes all), and what was said of the source is
    taken back where the layer converts.

    ## Why
    coremltools takes slopes that differ at rank 4 only, up to 9.1.dev1; in its repository at 2 and 3, too, since August 2026
    (`coreml-version = "main-e0e2f42"`; live checks ask the installed one). A model converts before it is trained, while all
    slopes are 0.25, and no longer afterwards: "rank 3 or rank 5 input is only supported when all the values of alpha are same".

    ## Bad
    ```python
    import torch
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv1d(8, 16, 1), nn.PReLU(16))
            nn.init.uniform_(self.layers[1].weight)

        def forward(self, x):
            return self.layers(x)


    inputs = (torch.randn(2, 8, 5),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class CustomPReLU(nn.PReLU):
        \"""`nn.PReLU` in operators that Core ML has for inputs of rank 2 to 5, whatever the slopes.\"""

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            rank = input.dim()
            # The slopes belong to dimension 1; for autocast they are of the input's type.
            slopes = self.weight.to(input.dtype).reshape([-1] + [1] * (rank - 2) if rank > 1 else [1] * rank)
            positive = input > 0
            # The inner `where` keeps inf out of the slopes' gradients: 0 * inf is NaN.
            return torch.where(positive, input, slopes * torch.where(positive, 0.0, input))


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv1d(8, 16, 1), CustomPReLU(16))
            nn.init.uniform_(self.layers[1].weight)

        def forward(self, x):
            return self.layers(x)


    inputs = (torch.randn(2, 8, 5),)
    frontend = "trace"
    ```

    ## Fix safety
    The fix calls `CustomPReLU`, which gives the same bits at every rank, the same gradients (the slopes' to the rounding of
    their sum), has the same arguments and the same `state_dict`, and is an `nn.PReLU`. Its class is written below the
    file's imports, or imported from where the setting `prelu-import` says. It is unsafe where the rank is not known: it may
    not be needed; `check --fix` on a live target applies it where the slopes of the model are refused. There is no fix where
    the rank is 4, or where the other layers of the class, or else of the file, all take rank 4, nor where the file uses the
    name `CustomPReLU` for something else, or imports torch only on some condition. Under autocast an input that is not yet of
    the lower precision is not cast to it, as `nn.PReLU` does.

    ## Known limits
    In source, calls by another name (`activation = nn.PReLU`), `F.prelu` and layers that the top of a file builds are not seen.
    Next to `Linear` the channels are taken to be its features, so the rank to be 2. `torch.export` with core ATen
    decompositions converts the layer at every rank; with `--frontend export` a live check says nothing of it.

    ## References
    - <https://github.com/apple/coremltools/issues/2002>
    - <https://github.com/apple/coremltools/issues/1070>
    - <https://pytorch.org/docs/stable/generated/torch.nn.PReLU.html>
    """

    code = "OPS004"
    name = "prelu-per-channel"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    needs = ("PReLU",)
    fixable = "`CustomPReLU`"
    live_needs = "run values"
    withdraws = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call of `nn.PReLU` for its slopes, and for the rank of its input."""
        from modellint_rules.operators.prelu_replacement import custom_prelu

        for readings in code.calls:
            call = readings[0]
            if not all(_is_per_channel(reading) for reading in readings) or not _is_named(code, call.node.func):
                continue
            taken = coreml.prelu_ranks(code.destination.coremltools)
            ranks = _rank_beside(call, code) or _rank_in_forward(call, code)
            if ranks is not None and ranks <= taken - {4}:
                continue
            text = code.rewriter.of(call.node)
            shown = f"`{text}`" if len(text) < 60 and "\n" not in text else "this `PReLU`"
            if ranks is not None and taken.isdisjoint(ranks):
                severity, applicability = Severity.ERROR, Applicability.SAFE
                rank = " or ".join(map(str, sorted(ranks)))
                message = f"the input of {shown} has rank {rank}: once slopes differ, coremltools takes rank {_either(taken)} only"
                message += ", unless core ATen decompositions take it apart"
            else:
                severity, applicability = Severity.INFO, Applicability.UNSAFE
                message = f"once the slopes of {shown} differ, coremltools takes an input of rank {_either(taken)} only"
            # Where the rank always is one of these, nothing has to change.
            is_taken = (ranks is not None and ranks <= taken) or (ranks is None and _is_of_images(code))
            fix = None if is_taken else custom_prelu(code, call, applicability)
            yield code.finding(self, call.node, message, severity=severity, fix=fix, statement=call.statement)

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every call of `prelu` for its slopes, and for the rank of its input."""
        run = subject.run
        if run is None:
            return
        refused = _refused(subject)
        if refused is not None and not refused:
            return
        version = coreml.here()
        ranks = coreml.prelu_ranks(version)
        slopes = {name: state.tensor for state in subject.state for name in state.names}
        reported = set()
        for call in run.calls:
            if call.name not in _FUNCTIONS or len(call.arguments) != 2:
                continue
            tensor, weight = call.arguments
            if tensor.rank in ranks or not _differ(slopes.get(weight.name), call, refused or ()):
                continue
            reported.update({call.place, call.module})
            is_layer = weight.name in [f"{path}.weight" for path in _layers_at(subject, call.module)]
            yield subject.finding(
                self,
                f"the slopes of `PReLU` differ and its input has rank {tensor.rank}: coremltools {version} takes rank "
                f"{_either(ranks)} only",
                modules=[call.module],
                advice=_ADVICE,
                **(subject.binding(call.module).keywords() if is_layer else {"at": call.place}),
            )
        for blocker in refused or ():
            # A call that the run did not come to, or that goes past torch's functions.
            if reported.isdisjoint({blocker.place, *blocker.modules}):
                yield subject.finding(
                    self,
                    f"the slopes of `PReLU` differ: {blocker.message}",
                    at=blocker.place,
                    modules=blocker.modules,
                    advice=_ADVICE,
                )


_ADVICE = "`CustomPReLU` converts at every rank; so does `torch.export` with core ATen decompositions"
_FUNCTIONS = frozenset({"torch.nn.functional.prelu", "torch.prelu", "torch.Tensor.prelu"})


def _either(ranks: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(ranks)))


def _refused(subject: LiveModel) -> tuple[Blocker, ...] | None:
    """Where the route that counts refuses slopes; None where no route has been tried as far as there."""
    verdict = subject.verdict
    if verdict is None or verdict.convertible is None:
        return None
    blockers = tuple(blocker for blocker in verdict.blockers if blocker.refuses_slopes)
    # What cannot be exported otherwise could be with slopes that differ.
    return blockers if blockers or verdict.complete or verdict.route == "export" else None


def _differ(slopes: torch.Tensor | None, call: LiveCall, refused: Iterable[Blocker]) -> bool:
    """Whether the slopes of a call are not all the same; of computed ones coremltools knows."""
    if slopes is not None:
        return bool((slopes != slopes.flatten()[0]).any())
    return any(blocker.place == call.place for blocker in refused)


def _layers_at(subject: LiveModel, path: str) -> tuple[str, ...]:
    """All paths of the `nn.PReLU` that is registered at one; none for anything else."""
    from torch import nn

    return next((e.paths for e in subject.modules if path in e.paths and isinstance(e.module, nn.PReLU)), ())


_PRELU = frozenset({"torch.nn.PReLU", "torch.nn.modules.PReLU", "torch.nn.modules.activation.PReLU"})
_OF_DIMENSIONS = r"(?:Conv|ConvTranspose|Norm|Pool)([123])d\b"
_RANKED = r"(?:Lazy)?(Conv|ConvTranspose|BatchNorm|InstanceNorm|(?:Adaptive)?(?:Max|Avg)Pool|LPPool|MaxUnpool)([123])d"
_KEEPING: frozenset[str] = operators.activations | {
    "Identity",
    "Dropout",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "LayerNorm",
    "GroupNorm",
}
"""Layers that take any rank, and give the one that they take."""


def _is_per_channel(call: Call) -> bool:
    """Whether a call makes a `PReLU` of more slopes than one."""
    arguments = call.arguments
    if call.name not in _PRELU or arguments.spread or None in arguments.keywords:
        return False
    count = arguments.get(0, "num_parameters")
    return count is not None and not any(
        isinstance(part, Const) and not (type(part.value) is int and part.value > 1) for part in alternatives(count)
    )


def _is_named(code: Code, function: ast.expr) -> bool:
    """Whether an expression says `PReLU`, not a name that stands for it."""
    if isinstance(function, ast.Name):
        bound = code.file.names.get(function.id)
        if bound is None:
            return function.id == "PReLU"
        return all(isinstance(binding, Imported) and binding.name == "PReLU" for binding in bound)
    return isinstance(function, ast.Attribute) and function.attr == "PReLU"


# The rank by the layers beside it


def _rank_beside(call: Call, code: Code) -> frozenset[int] | None:
    """The ranks that the layer before it in a row of layers can give, or else those that the one behind it can take."""
    row = _row_of_layers(call, code)
    at = next((index for index, layer in enumerate(row) if layer is call.node), None)
    if at is None:
        return None
    return _first_rank(row[:at][::-1], code) or _first_rank(row[at + 1 :], code)


def _first_rank(row: Sequence[ast.expr], code: Code) -> frozenset[int] | None:
    names = (_layer(node, code) for node in row)
    return _rank_of(next((name for name in names if name not in _KEEPING), ""))


def _rank_of(name: str) -> frozenset[int] | None:
    """The rank that a layer of torch has to do with, if there is but one."""
    if name in ("Linear", "LazyLinear"):
        return frozenset({2})
    match = re.fullmatch(_RANKED, name)
    if match is None:
        return None
    rank = int(match[2]) + 2
    return frozenset({2, 3}) if match[1] == "BatchNorm" and rank == 3 else frozenset({rank})


def _is_of_images(code: Code) -> bool:
    """Whether all layers of a rank that a class makes take inputs of rank 4; where it makes none, all that the file names."""
    names = {readings[0].name for readings in code.calls}
    ranks = {_rank_of(name.rpartition(".")[2]) for name in names if name.startswith("torch.nn.")} - {None}
    return ranks == {frozenset({4})} or (not ranks and set(re.findall(_OF_DIMENSIONS, code.file.source.text)) == {"2"})


def _layer(node: ast.expr, code: Code) -> str:
    """The name of the layer of torch that a call makes, in every reading of it; empty for anything else."""
    layers = {
        part.name if isinstance(part, Instance) and part.kind == "module" else ""
        for reading in code.readings(node)
        for part in alternatives(reading.result)
    }
    name = layers.pop() if len(layers) == 1 else ""
    return name.rpartition(".")[2] if name.startswith("torch.nn.") else ""


def _row_of_layers(call: Call, code: Code) -> list[ast.expr]:
    """The layers that run one after another, as far as they stand in one expression or in neighbouring statements."""
    elsewhere: set[ast.expr] = set()
    for node in walk(call.statement):
        match node:
            case ast.Call(args=arguments):
                if _layer(node, code) == "Sequential":
                    if call.node in arguments:
                        return arguments
                elif _called(node) not in ("OrderedDict", "extend"):
                    # What other calls make of a list is not known.
                    elsewhere.update(arguments)
            case ast.List(elts=elements) if node not in elsewhere:
                row = [_behind_its_name(element) for element in elements]
                if call.node in row:
                    return row
            case _:
                pass
    return _appended(call)


def _behind_its_name(node: ast.expr) -> ast.expr:
    return node.elts[1] if isinstance(node, ast.Tuple) and len(node.elts) == 2 else node


def _appended(call: Call) -> list[ast.expr]:
    """What neighbouring statements put into the same container, one by one."""
    if call.function is None:
        return []
    for node in walk(call.function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and call.statement in block:
                at = block.index(call.statement)
                into, _ = _addition(call.statement)
                first, last = at, at + 1
                while first and into and _addition(block[first - 1])[0] == into:
                    first -= 1
                while last < len(block) and into and _addition(block[last])[0] == into:
                    last += 1
                return [value for statement in block[first:last] if (value := _addition(statement)[1]) is not None]
    return []


def _addition(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """`layers.append(layer)`, `self.add_module(name, layer)`: what is added to, and what is added."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append" | "add_module"), args=[*_, layer])):
            return ast.dump(owner), layer
    return "", None


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


# The rank by what `forward` gives it


def _rank_in_forward(call: Call, code: Code) -> frozenset[int] | None:
    """The ranks of everything that the layer is called with; None if not all are known, or others may call it too."""
    if call.function not in code.own_functions:
        return None
    ranks: set[int] = set()
    for readings in code.calls:
        for reading in readings:
            if any(isinstance(part, Instance) and part.node is call.node for part in alternatives(reading.callee)):
                of_call = _rank_of_value(reading.arguments.get(0, "input"))
                if of_call is None:
                    return None
                ranks |= of_call
    return frozenset(ranks) or None


def _rank_of_value(value: Value | None) -> frozenset[int] | None:
    ranks: set[int] = set()
    for part in alternatives(value) if value is not None else ():
        if not isinstance(part, Tensor):
            return None
        of_part = frozenset({part.rank}) if part.rank is not None else _rank_of(part.made_by)
        if of_part is None:
            return None
        ranks |= of_part
    return frozenset(ranks) or None

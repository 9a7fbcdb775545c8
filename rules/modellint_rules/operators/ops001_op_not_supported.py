"""OPS001: an operator that coremltools has no converter for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import (
    Container,
    Diagnostic,
    Hint,
    Number,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    coreml,
)
from modellint_rules.operators.api_calls import (
    calls_in_forward,
    found_at,
    shown,
    signs_in_forward,
    transposed_in_forward,
)
from modellint_rules.operators.converter_lookup import (
    FAST_PATH,
    OF_INITIALISERS,
    OF_PACKAGES,
    OF_TORCH,
    OTHER_FORM,
    PYTHON,
    converter,
    of_package,
)

if TYPE_CHECKING:
    from modellint.authoring import Code, Destination, LiveModel, OperatorSupport, Value
    from modellint_rules.operators.api_calls import Use


class OpNotSupported(Rule):
    """An operator that coremltools has no converter for.

    ## What it does
    Finds calls in `forward`, and in what it runs, of functions, methods and layers of PyTorch that no capture turns into
    operators with converters, the signs `|`, `^`, `<<`, `>>` and `&=` between tensors, and `x.mT` and `x.mH`, which a trace
    keeps, operators of torchvision such as `deform_conv2d` and `roi_align`, and `flex_attention`.
    It is an error where neither `torch.jit.trace`
    nor `torch.export` leads to a program that converts, a warning where one of them does, possibly with core ATen
    decompositions only. In code that runs in training only, or only where a flag of `forward` or of the class has another
    value than its default, it is for information; in a loss (`class …Loss`, `def …_loss`, `if labels is not None`), and where no
    model is captured (`if not torch.jit.is_tracing():`), nothing is said. The table of operators was made by capturing and
    converting each of them; the setting `coreml-version` says which version of coremltools to ask it about. Where
    `modellint export` supplies a converter of its own, the message says so, and how exact that is; it is a finding all the
    same, as `ct.convert` by itself refuses the operator.

    "At most" says that no other route converts any use, and that this one converts some. Where it is known which, the message
    says so, and a use that certainly is none of these is an error: a pooling in three dimensions to more than one element,
    `lerp` with a number for its weight, a negative power of a matrix, `diag` beside the main diagonal of a matrix.

    A result that only goes, as an argument beside the first, to code from outside the project is for information, and the
    message names that code; an operator whose result nothing reads is left out, as a capture drops it.

    A function or layer that the constructor has by default (`act=F.celu`) counts where nobody in the project gives another.

    Of a live model it reports every operator that the installed coremltools has no converter for, in one run, each at the
    statement that makes it; operators that layers and decompositions of torch run included. They are those of the route
    that counts: with `--frontend auto` nothing is said of `torch.jit.trace` where `torch.export` converts.

    For Core AI, to which `torch.export` is the one route, calls are looked up in a table of what coreai-torch converts, made in
    the same way, and signs, operators of packages and conditions are left out: they were not measured.

    ## Why
    The conversion stops at the first operator without a converter, and names it without a line.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Wrap(nn.Module):
        def forward(self, x):
            return torch.fmod(x, 3.0)


    inputs = (torch.randn(2, 3),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Wrap(nn.Module):
        def forward(self, x):
            return x - 3.0 * torch.sign(x) * torch.floor(torch.abs(x / 3.0))


    inputs = (torch.randn(2, 3),)
    ```

    ## Fix safety
    There is no fix here: most rewrites round differently. Where one is known, the help names it.

    ## Known limits
    A name is reported only if no sample of PyTorch's own test-suite converts: one that converts for some arguments is not.
    Converters that a project registers itself (`register_torch_op`) are not seen. What becomes a Python number is left out,
    since a trace keeps the number: another rule's business.

    ## References
    - <https://github.com/apple/coremltools/issues/2137>
    - <https://github.com/apple/coremltools/issues/1344>
    """

    code = "OPS001"
    name = "op-not-supported"
    severity = Severity.ERROR
    advice = "Write it in operators that convert: `modellint ops NAME` tells whether one does"
    only_inference = True
    live_needs = "conversion"
    withdraws = True
    only_modules = True
    only_forward = True

    def needs_for(self, destination: Destination) -> tuple[frozenset[str], ...]:
        """Names of what does not convert."""
        words = destination.words_of_missing
        if destination.name != "coreml":
            return (words,)
        packages = {name.rpartition(".")[2] for name in (*OF_PACKAGES, *OF_TORCH, *OF_INITIALISERS)}
        return (words | {mark + name for name in packages for mark in ".~"} | {Trigger.BIT_OPERATOR, ".mT", ".mH"},)

    def hints(self, operator: str) -> Iterator[Hint]:
        """What to write instead of it, and where it was asked for."""
        from modellint_rules.operators.rewrites import advice
        from modellint_rules.operators.upstream_issues import issue

        request = issue(operator.removeprefix("aten::").rstrip("_"))
        rewrite = advice(operator)
        if rewrite is not None:
            yield Hint("rewrite", rewrite, request)
        elif request is not None:
            yield Hint("issue", "", request)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Look up every call that `forward` makes."""
        from modellint.authoring import OperatorSupport

        if code.destination.name != "coreml":
            yield from self._by_one_route(code)
            return

        version = code.destination.coremltools

        def lacking(use: Use) -> _Lack | None:
            kind = of_package(use.name)
            if kind is not None and coreml.has_converter(kind, version):
                return None
            if kind is not None:
                return _Lack(OperatorSupport(use.name, kind, False, False, False, None, 15))
            row = coreml.operator(OF_INITIALISERS.get(use.name, use.name), version)
            if row is not None and use.name in OF_INITIALISERS:
                row = row._replace(name=use.name)
            if row is None or (row.trace and row.exported):
                return None
            last = row.name.rpartition(".")[2].rstrip("_")
            if row.kind == "aten::adaptive_avg_pool3d":
                mean, leaves_one = coreml.operator(_MEAN, version), _leaves_one(use)
                row = row._replace(core=mean is not None and mean.core and leaves_one is not False)
                return _Lack(row, "" if leaves_one else _ONE, leaves_one is not False)
            if last in _CONDITIONS and not (row.trace or row.export):
                fulfils, where = _CONDITIONS[last]
                answer = fulfils(use)
                return _Lack(row if answer is not False else row._replace(core=False), "" if answer else where)
            return _Lack(row, _BY_INDEX if last in _INDEXED else "")

        for call, lacks, aside in calls_in_forward(code, lacking):
            lack = min(lacks, key=lambda lack: (not lack.row.converts, not lack.where))
            row = lack.row
            severity = Severity.INFO if aside else Severity.WARNING if row.converts else Severity.ERROR
            claim = (
                f"`{shown(row.name)}` {_failure(row, lack.where)}: coremltools {coreml.shown(version)} has no converter for "
                f"`{row.kind}`{_supplied(row.kind)}"
            )
            advice = _MEAN_ADVICE if lack.is_mean else _advice(row)
            yield from found_at(self, code, call, claim, severity, row.kind, advice)
        yield from self._transposed(code)
        for node, sign, aside in signs_in_forward(code):
            like = coreml.operator(sign.function, version)
            in_place = sign.text.endswith("=")
            if like is None or (
                like.converts and (not in_place or coreml.has_converter(sign.kind.strip("_"), version))
            ):
                continue
            # A trace keeps an operator in place, whatever it is; an export does not.
            route, worst = (" from `torch.jit.trace`", Severity.WARNING) if like.converts else ("", Severity.ERROR)
            yield code.finding(
                self,
                node,
                f"`{sign.text}` of tensors does not convert{route}: coremltools {coreml.shown(version)} has no converter for "
                f"`aten::{sign.kind}`{_supplied(f'aten::{sign.kind}')}",
                severity=Severity.INFO if aside else worst,
                advice=_advice(like._replace(kind=f"aten::{sign.kind}")),
                operator=f"aten::{sign.kind}",
            )

    def _by_one_route(self, code: Code) -> Iterator[Diagnostic]:
        """Calls of what the one route to another destination than Core ML has no converter for."""
        destination = code.destination

        def lacking(use: Use) -> _Missing | None:
            operators = destination.missing_operators(use.name)
            if operators == ("aten._adaptive_avg_pool3d.default",) and _leaves_one(use) is not False:
                # A capture makes a mean of one that leaves one element.
                return None
            return _Missing(use.name, operators) if operators else None

        for call, lacks, aside in calls_in_forward(code, lacking):
            lack = lacks[0]
            names = ", ".join(f"`{name}`" for name in lack.operators)
            severity = Severity.INFO if aside else Severity.ERROR
            ours = "; `modellint export` decomposes it" if destination.is_supplied(lack.name) else ""
            claim = f"`{shown(lack.name)}` does not convert: {destination.converter} has no converter for {names}{ours}"
            yield from found_at(self, code, call, claim, severity, lack.kind, OTHER_FORM)

    def _transposed(self, code: Code) -> Iterator[Diagnostic]:
        """`x.mT` and `x.mH`: operators of their own to a trace, of which an export makes transpositions."""
        version = code.destination.coremltools
        row = coreml.operator("torch.adjoint", version)
        if row is None or (row.trace and row.exported):
            return
        for node, aside in transposed_in_forward(code):
            kind = f"aten::{node.attr.lower()}"
            yield code.finding(
                self,
                node,
                f"`Tensor.{node.attr}` {_failure(row)}: coremltools {coreml.shown(version)} has no converter for `{kind}`",
                severity=Severity.INFO if aside else Severity.WARNING if row.converts else Severity.ERROR,
                advice="Write `transpose(-2, -1)`" if node.attr == "mT" else "Write `transpose(-2, -1).conj()`",
                operator=kind,
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the dry run for operators without a converter."""
        is_coreml = subject.destination.name == "coreml"
        for blocker, capture in subject.blockers("missing"):
            if blocker.operator is None or blocker.operator == PYTHON or blocker.operator in FAST_PATH:
                continue
            yield subject.finding(
                self,
                f"`{blocker.operator}` does not convert from `{capture}`: {converter(subject.destination)} has no converter "
                f"for it{_supplied(blocker.operator) if is_coreml else ''}",
                at=blocker.place,
                modules=blocker.modules,
                operator=blocker.operator,
                advice=_rewrite(blocker.operator) if is_coreml else OTHER_FORM,
            )


class _Lack(NamedTuple):
    """A use that some route has no converter for."""

    row: OperatorSupport
    where: str = ""
    """Which of its uses convert with core ATen decompositions, where not all do that look like it."""
    is_mean: bool = False
    """Whether it is a pooling that may be a mean."""

    @property
    def kind(self) -> str:
        """The operator that the front end looks up."""
        return self.row.kind


class _Missing(NamedTuple):
    """A use that a destination's one route has no converters for."""

    name: str
    """Of a function, method or layer."""
    operators: tuple[str, ...]
    """As the converter names them: ``aten.cumprod.default``."""

    @property
    def kind(self) -> str:
        """The first operator (``aten::cumprod``)."""
        namespace, name, *_ = self.operators[0].split(".")
        return f"{namespace}::{name}"


def _failure(row: OperatorSupport, where: str = "") -> str:
    if not row.converts:
        return "does not convert"
    if row.trace:
        return "does not convert from `torch.export`"
    if row.export:
        return "does not convert from `torch.jit.trace`"
    return f"converts at most{where and f' {where}, and'} from `torch.export` with core ATen decompositions"


_INDEXED = frozenset({"index_copy", "index_fill", "index_add"})
"""What is decomposed to an assignment by a tensor of indices: of another dimension coremltools refuses it, but for a single index."""
_BY_INDEX = "for the first dimension or a single index"
_MEAN = "torch.nn.functional.adaptive_avg_pool3d"
"""What core ATen decompositions make a mean of where it leaves one element, as it did where the table was measured, and else keep."""
_ONE = "where it leaves one element of each channel"
_MEAN_ADVICE = (
    "Write a mean over the dimensions of which one element is left: `x.mean((-3, -2, -1), keepdim=True)` for a size of 1, "
    "`x.mean((-2, -1), keepdim=True)` for `(None, 1, 1)`; it may round differently"
)
"""Both converted by each route, with coremltools 9.0."""


def _leaves_one(use: Use) -> bool | None:
    """Whether a pooling leaves one element of each channel, as far as its sizes are written; None stands for the size of the input."""
    size = use.arguments.get(0 if use.name.rpartition(".")[2][:1].isupper() else 1, "output_size")
    sizes = size.items if isinstance(size, Container) and size.exact else [size]
    numbers = [None if part is None else part.integer for part in sizes]
    if any(number is not None and number != 1 for number in numbers):
        return False
    return None if None in numbers else True


def _argument(use: Use, place: int, name: str) -> Value | None:
    """An argument of a function, which a tensor's method has one place before."""
    return use.arguments.get(place - use.name.startswith("torch.Tensor."), name)


def _is_weighed_by_a_tensor(use: Use) -> bool | None:
    """Whether the weight of a `lerp` is a tensor with a dimension; no number, which the decompositions make one without."""
    value = _argument(use, 2, "weight")
    if value is None:
        return None
    parts = alternatives(value)
    if all(isinstance(part, Tensor) and part.rank for part in parts):
        return True
    numbers = all(
        isinstance(part, Number) or part.number is not None or (isinstance(part, Tensor) and part.rank == 0)
        for part in parts
    )
    return False if numbers else None


def _is_not_inverted(use: Use) -> bool | None:
    """Whether the exponent of a matrix is not negative: of others the decompositions make an inverse."""
    value = _argument(use, 1, "n")
    exponent = value.integer if value is not None else None
    return None if exponent is None else exponent >= 0


def _is_main_diagonal(use: Use) -> bool | None:
    """Whether `diag` is asked for the main diagonal, or is given a vector."""
    if use.arguments.spread or None in use.arguments.keywords:
        return None
    value = _argument(use, 1, "diagonal")
    ranks = (
        {part.rank if isinstance(part, Tensor) else None for part in alternatives(use.source)} if use.source else {None}
    )
    if value is None or value.integer == 0 or ranks == {1}:
        return True
    return None if value.integer is None or None in ranks or 1 in ranks else False


_CONDITIONS: dict[str, tuple[Callable[[Use], bool | None], str]] = {
    "lerp": (_is_weighed_by_a_tensor, "with a tensor of one dimension or more for its weight"),
    "matrix_power": (_is_not_inverted, "for an exponent that is not negative"),
    "diag": (_is_main_diagonal, "for the main diagonal or a vector"),
}
"""Whether a use converts with core ATen decompositions, as far as that is written, and which do: converted with coremltools 9.0."""


def _supplied(operator: str) -> str:
    """What an export does about it."""
    exact = coreml.supplied_exactness(operator)
    return "" if exact is None else f"; `modellint export` supplies one ({exact})"


def _rewrite(operator: str) -> str | None:
    from modellint_rules.operators.rewrites import advice

    return advice(operator)


def _advice(row: OperatorSupport) -> str | None:
    parts = (_rewrite(row.kind), row.coming and f"{row.coming} has a converter")
    return ". ".join(part for part in parts if part) or None

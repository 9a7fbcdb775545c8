"""OPS002: an operator, an input or an output that coremltools refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Hint, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import Blocker, Code, Destination, LiveModel
    from modellint_rules.operators.api_calls import Use
    from modellint_rules.operators.refusals.conditions import Refusal


class OpRefused(Rule):
    """A use of an operator, or of the model, that coremltools refuses.

    ## What it does
    Runs coremltools' own front end on the captured model, and goes on past each failure. It reports what a converter exists for
    and refuses in this use — a padding mode, an argument, a matrix that is no constant — at the statement that asks for it,
    in coremltools' own words. In source it looks for literals that are known to be refused: modes of padding and resampling,
    forms of `einsum`, pooling with indices or dilation, projections of an LSTM and others; and for assignments to slices of
    tensors of truth values, `mask[:, :2] = False`; it is an error where neither
    `torch.jit.trace` nor `torch.export` leads to a program, a warning where one does, and for information in code that runs in
    training only, or only where a flag of `forward` or of the class has another value than its default, and of an operator whose
    result only goes, as an argument beside the first, to code from outside the project that was not read. What no other rule
    names is told here too: inputs and outputs that `ct.convert` refuses, a model that cannot be captured, and a converter that
    crashes.

    For Core AI source is looked through for functions and layers that coreai-torch refused in every use that was tried. Of a live
    model it tells also what converts and Apple's interpreter cannot run, such as a product of truth values.

    ## Why
    The conversion stops there, and names a scope without a line.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="circular")

        def forward(self, x):
            return self.conv(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Blur(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")

        def forward(self, x):
            return self.conv(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix: what to write instead depends on what is refused.

    ## Known limits
    In source an argument counts only where the call spells it out, or where it is an argument of the constructor whose default
    nobody in the project changes. Live it is the use with the example inputs that is judged,
    for the deployment target and by the route that is set.

    ## References
    - <https://github.com/apple/coremltools/issues/1747>
    - <https://github.com/apple/coremltools/issues/2340>
    - <https://github.com/apple/coremltools/issues/2576>
    """

    code = "OPS002"
    name = "op-refused"
    severity = Severity.ERROR
    advice = "Write it in another form; the page of the rule lists what is refused"
    only_inference = True
    supersedes = ("OPS001", "MUT004")
    live_needs = "conversion"
    withdraws = True
    only_modules = True

    def needs_for(self, destination: Destination) -> tuple[frozenset[str], ...]:
        """Words of uses that are refused."""
        if destination.name != "coreml":
            return (destination.words_of_refused,)
        from modellint_rules.operators.refusals.table import words

        return words()

    def hints(self, operator: str) -> Iterator[Hint]:
        """Its uses that are refused."""
        from modellint_rules.operators.refusals.table import refusals

        for use in refusals():
            if operator in use.kinds or operator in use.names:
                shown = use.shown.replace("{rank}d", "")
                yield Hint("refused", f"`{shown}` {_where(use)}: {use.why}", use.url)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Look up the literals of every call that `forward` makes, and those that its layers were built with."""
        from modellint_rules.operators.api_calls import calls_in_forward, found_at
        from modellint_rules.operators.float_arange_products import keeps_state
        from modellint_rules.operators.refusals.lookup import refusal
        from modellint_rules.operators.rewrites import advice

        goal = code.destination
        if goal.name != "coreml":
            yield from self._by_one_route(code)
            return
        for call, refused, aside in calls_in_forward(code, lambda use: refusal(use, goal.coremltools, goal.ios)):
            use = next((entry for entry in refused if entry.trace or entry.export), refused[0])
            if use.is_counted and keeps_state(code, call.function):
                continue
            severity = Severity.WARNING if use.trace or use.export else Severity.ERROR
            claim = f"`{use.shown}` {_where(use)}: {use.why}"
            severity = Severity.INFO if aside else severity
            yield from found_at(self, code, call, claim, severity, use.kind, use.advice or advice(use.kind))

        yield from self._written(code)
        yield from self._multiplied(code)

    def _by_one_route(self, code: Code) -> Iterator[Diagnostic]:
        """Calls of what the one route to another destination than Core ML refused in every use that was tried."""
        from modellint_rules.operators.api_calls import Kind, calls_in_forward, found_at, shown
        from modellint_rules.operators.converter_lookup import OTHER_FORM

        destination = code.destination

        def refusal(use: Use) -> Kind | None:
            return Kind(use.name) if destination.refusal(use.name) else None

        for call, refused, aside in calls_in_forward(code, refusal):
            name = refused[0].kind
            ours = "; `modellint export` decomposes it" if destination.is_supplied(name) else ""
            said = f"{destination.converter} refuses every use that was tried: {destination.refusal(name)}{ours}"
            severity, claim = Severity.INFO if aside else Severity.ERROR, f"`{shown(name)}` does not convert: {said}"
            yield from found_at(self, code, call, claim, severity, "", OTHER_FORM)

    def _multiplied(self, code: Code) -> Iterator[Diagnostic]:
        """Products and quotients of floats that coremltools holds as integers."""
        from modellint_rules.operators.float_arange_products import ADVICE, counted_products

        for node, statement, shown, aside in counted_products(code):
            yield code.finding(
                self,
                node,
                f"{shown} `arange` of integers with a float `dtype` does not convert: coremltools takes it for integers all the same",
                severity=Severity.INFO if aside else Severity.ERROR,
                statement=statement,
                advice=ADVICE,
            )

    def _written(self, code: Code) -> Iterator[Diagnostic]:
        """Assignments to parts of tensors of truth values."""
        from modellint_rules.operators.boolean_tensor_writes import truth_writes

        for write, first, exported, aside in truth_writes(code):
            severity = Severity.WARNING if exported else Severity.ERROR
            yield code.finding(
                self,
                write.statement,
                f"An assignment to a part of a tensor of truth values does not convert{' from `torch.jit.trace`' * exported} "
                f"for targets before iOS {first}: coremltools assigns to numbers only",
                severity=Severity.INFO if aside else severity,
                statement=write.statement,
                advice="Write `torch.where`, or make a tensor of integers and compare it afterwards",
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Tell what was refused, in coremltools' words."""
        run = subject.run
        name = "coremltools" if subject.destination.name == "coreml" else "coreai-torch"
        odd = run is not None and any(part.kind == "other" for part in subject.outputs)
        for blocker, capture in subject.blockers("refused", "argument", "output", "crash", "capture", "run"):
            if blocker.refuses_slopes:
                # OPS004 says so at the statement that makes the layer.
                continue
            is_output = blocker.kind == "output" and blocker.operator is None
            if is_output and odd:
                # SIG002 says which part of the output is no tensor.
                continue
            yield subject.finding(
                self,
                f"{_said(blocker, capture, name)}: {blocker.message}{_cause(subject, blocker)}",
                at=subject.returning(lambda value: True) if is_output else blocker.place,
                modules=blocker.modules,
                operator=blocker.operator,
            )


def _cause(subject: LiveModel, blocker: Blocker) -> str:
    """What PyTorch does not see, and a trace therefore takes for constants."""
    if "requires grad as a constant" not in blocker.message:
        return ""
    from torch import Tensor

    holders = []
    for group in subject.held_attributes(*_HIDDEN):
        values = [part.value for part in group.parts]
        weights = (part for value in values for part in ((value,) if isinstance(value, Tensor) else value.parameters()))
        if any(weight.requires_grad for weight in weights):
            holders.append(f"`self.{group.attribute}` ({_HIDDEN[group.parts[0].kind][group.is_keyed]})")
    return f"; it is hidden in {', '.join(dict.fromkeys(holders))}" if holders else ""


_HIDDEN = {"module": ("REG001", "REG002"), "parameter": ("REG004", "REG005"), "tensor": ("REG015", "REG015")}
"""Codes of the rules that report what hides something, by position and by name."""


def _where(use: Refusal) -> str:
    """From which route it converts, or does not."""
    if use.ios is not None:
        return f"does not convert for targets before iOS {use.ios}"
    if use.core_only:
        return "converts at most from `torch.export` with core ATen decompositions"
    if use.export:
        return "does not convert from `torch.jit.trace`"
    return "does not convert from `torch.export`" if use.trace else "does not convert"


def _said(blocker: Blocker, capture: str, name: str) -> str:
    operator = blocker.operator
    match blocker.kind:
        case "capture":
            return f"`{capture}` cannot capture the model"
        case "argument":
            return f"{name} refuses an input, parameter or buffer"
        case "output":
            return f"{name} refuses what the model returns"
        case "run":
            made = f"`{operator}`" if operator else "the model"
            return f"what {name} makes of {made} cannot be run by Apple's interpreter"
        case "crash" if operator is None:
            return f"{name} fails on what `{capture}` captures"
        case "crash":
            return f"{name}'{'' if name.endswith('s') else 's'} converter of `{operator}` crashes"
    return f"{name} refuses this use of `{operator}`" if operator else f"{name} refuses the model"

"""MUT005: a buffer that changes while the model runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import (
    Const,
    Diagnostic,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    operators,
    parents_in,
    tensors_in,
    walk,
)
from modellint_rules.mutation.running_statistics import buffers, named, updates, written_buffer
from modellint_rules.mutation.shared_memory import changes, is_filled_once
from modellint_rules.mutation.sized_tables import is_made_of_sizes

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Write


class BufferMutatedWithoutState(Rule):
    """A buffer that `forward` changes in evaluation too: a counter, a cache, a recurrent state.

    ## What it does
    Finds buffers that `forward` writes to, or puts another tensor in the place of, without asking `self.training`. Where
    the new value depends on neither the old one nor the data, it is a warning. It is for information where the new value is made of
    numbers, constants and sizes alone, as a table of positions that a longer input has computed anew; where the buffer is filled
    at the first call only, where it keeps a loss, in what is trained as a rule, and where the project gives its name to a
    `ct.StateType`. A buffer is reported once for a class, but for changes in the two branches of an `if`, which no run makes both.

    ## Why
    A converted model without states has nothing that changes: the buffer becomes a constant, with the value that it has
    after tracing's own calls, and nobody says so. `torch.export` makes it a state, which coremltools takes from iOS 18 on.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Smoothed(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(8))

        def forward(self, x):
            y = x + self.last
            self.last.add_(x[0].detach())
            return y


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Smoothed(nn.Module):
        def forward(self, x, last):
            y = x + last
            return y, last + x[0]


    inputs = (torch.randn(2, 8), torch.randn(8))
    ```

    ## Fix safety
    There is no fix. Either the state is handed in and out, as above; or the update is in place, the model goes to iOS 18 or
    later, and `ct.convert` is given `states=[ct.StateType(…)]` with the buffer's name.

    ## Known limits
    Running statistics are MUT008's. Buffers that a base class in another file registers are not known. What a function of
    another file changes is reported where it is called. Moving a buffer to another device or type is no change.

    ## References
    - <https://github.com/apple/coremltools/issues/1726>
    - <https://github.com/apple/coremltools/issues/2639>
    - <https://apple.github.io/coremltools/docs-guides/source/stateful-models.html>
    """

    code = "MUT005"
    name = "buffer-mutated-without-state"
    severity = Severity.ERROR
    only_for = ("coreml",)
    advice = "Convert it as a state: `modellint export --state`, from iOS 18 on; or take the value as an input and return the new one"
    only_inference = True
    answered_by = "StateType"
    silent = ("trace",)
    live_needs = "run"
    withdraws = True
    needs = (frozenset({"register_buffer", "Buffer"}), "forward", Trigger.CHANGES_STATE_ANYWHERE)
    only_modules = True
    only_forward = True
    supersedes = ("MUT006",)
    at_statements = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every write whether it is to a buffer."""
        if code.is_never_exported:
            return
        names: dict[int, str] | None = None
        statistics = {id(update.write.statement) for update in updates(code)}
        changes_of: dict[tuple[str | None, bool], list[_Change]] = {}
        for readings in code.writes:
            write = readings[0]
            if write.function not in code.in_forward:
                continue
            if names is None:
                names = buffers(code)
            for change in self._of_write(code, readings, names):
                key = (change.finding.attribute, id(write.statement) in statistics)
                _keep(changes_of.setdefault(key, []), change)
        names = buffers(code) if names is None else names
        for buffer, call in _handed_elsewhere(code, names) if names else ():
            severity = Severity.INFO if is_filled_once(code, call, buffer) else self.severity
            severity = code.severity_at(severity, call.node, call.function)
            key = (buffer, False)
            _keep(changes_of.setdefault(key, []), self._change(code, buffer, call, severity))
        for changes_kept in changes_of.values():
            yield from (change.finding for change in changes_kept)

    def _of_write(self, code: Code, readings: Sequence[Write], names: dict[int, str]) -> Iterator[_Change]:
        write = readings[0]
        attributes = {_attribute(reading, names) for reading in readings}
        if len(attributes) > 1 and None not in attributes:
            # A function that is handed one buffer and then another: its calls say which.
            for buffer, call in _handed(code, write, names):
                severity = code.severity_at(self.severity, call.node, call.function)
                yield self._change(code, buffer, call, severity)
        elif len(attributes) == 1 and (name := attributes.pop()) is not None:
            lasting = all(_depends(reading, name) for reading in readings)
            usual = Severity.ERROR if lasting else Severity.WARNING
            is_table = not lasting and write.how == "attribute" and is_made_of_sizes(code, write)
            if is_table or is_filled_once(code, write, name) or re.search(_LOGGED, name):
                usual = Severity.INFO
            yield self._change(code, name, write, code.severity_at(usual, write.node, write.function), is_table)

    def _change(self, code: Code, name: str, at: Write | Call, severity: Severity, is_table: bool = False) -> _Change:
        finding = code.finding(
            self,
            at.statement,
            f"The buffer `{name}` {_TABLE if is_table else _CHANGES}",
            attribute=name,
            severity=severity,
            statement=at.statement,
        )
        return _Change(finding, _branches(at.statement, at.function))

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run which buffers it changes, and later runs whether that matters."""
        for change in subject.state_changes:
            lasts = change.of_data or change.of_old
            # A buffer that is moved or made anew, to no effect, is one that the program may hold as it is.
            if change.kind == "attribute" or not (change.in_place or (lasts and change.matters is not False)):
                continue
            yield subject.finding(
                self,
                f"The {change.kind} `{change.attribute}` changes while the model runs: converted without a state it is a constant",
                at=change.place,
                modules=change.paths,
                severity=Severity.ERROR if lasts and change.matters is not False else Severity.WARNING,
                class_name=subject.class_of(change.module, change.attribute),
                attribute=change.attribute,
            )


class _Change(NamedTuple):
    """A finding about a buffer, and the branches that it stands in: of each `if` around it, whether that is its body."""

    finding: Diagnostic
    branches: dict[ast.If, bool]

    def excludes(self, change: _Change) -> bool:
        """Whether no run makes both changes: they stand in the two branches of one `if`."""
        return any(change.branches.get(site, branch) is not branch for site, branch in self.branches.items())


def _keep(kept: list[_Change], change: _Change) -> None:
    """Keep the weightiest of the changes that one run may make, and the first of those that weigh the same."""
    rivals = [earlier for earlier in kept if not earlier.excludes(change)]
    weight = _WEIGHTS[change.finding.severity]
    if all(weight > _WEIGHTS[rival.finding.severity] for rival in rivals):
        kept[:] = [earlier for earlier in kept if earlier not in rivals] + [change]


def _branches(statement: ast.AST, function: ast.AST | None) -> dict[ast.If, bool]:
    """The `if` statements around a statement, and whether it stands in the body of each."""
    branches: dict[ast.If, bool] = {}
    parents = parents_in(function) if function is not None else {}
    while (parent := parents.get(statement)) is not None:
        if isinstance(parent, ast.If):
            branches[parent] = statement in parent.body
        statement = parent
    return branches


_CHANGES = "changes while the model runs: converted without a state it is a constant"
_TABLE = "is made anew for other sizes: a trace keeps that of the sample input, and what `torch.export` captures of it does not convert"
_WEIGHTS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_LOGGED = r"loss|perplex|metric|accura|(?:^|_)(?:num_batches|global_step)"
"""Names of buffers that no output hangs on."""


def _handed(code: Code, write: Write, names: dict[int, str]) -> Iterator[tuple[str, Call]]:
    """The calls of the function that a write stands in, with the buffers that they hand it."""
    for readings in code.calls:
        call = readings[0]
        if call.function not in code.in_forward or call.training or not call.exported:
            continue
        called = call.node.func.id if isinstance(call.node.func, ast.Name) else ""
        if called and code.top_functions().get(called) is write.function:
            for name in dict.fromkeys(named(value, names) for value in call.arguments.everything()):
                if name is not None and not re.search(_LOGGED, name):
                    yield name, call


def _handed_elsewhere(code: Code, names: dict[int, str]) -> Iterator[tuple[str, Call]]:
    """The calls that have functions of other files change a buffer, with its name."""
    for readings in code.calls:
        call = readings[0]
        if call.function not in code.in_forward or any(each.training or not each.exported for each in readings):
            continue
        if any(named(value, names) is not None for value in call.arguments.everything()):
            for name in dict.fromkeys(named(value, names) for value in code.changed_elsewhere(call)):
                if name is not None and not re.search(_LOGGED, name):
                    yield name, call


def _attribute(write: Write, names: dict[int, str]) -> str | None:
    """The one buffer that a write changes."""
    if write.training or not write.exported:
        return None
    if write.how == "attribute":
        if write.attribute not in names.values() or _is_moved(write, names) or _is_cleared(write):
            return None
        return write.attribute
    if write.how != "data" and not changes(write):
        return None
    return written_buffer(write, names)


def _is_cleared(write: Write) -> bool:
    return all(isinstance(part, Const) for part in alternatives(write.value))


def _is_moved(write: Write, names: dict[int, str]) -> bool:
    """Whether the new value is the old one on another device, or of another type: `self.b = self.b.to(x.device)`."""
    tensors = [value for value in alternatives(write.value) if isinstance(value, Tensor)]
    sources = [part for tensor in tensors for part in _same(tensor)]
    if sources and all(names.get(id(part)) == write.attribute for part in sources):
        return True
    value = getattr(write.statement, "value", None)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVING:
        value = value.func.value
    return isinstance(value, ast.Attribute) and value.attr == write.attribute


def _same(tensor: Tensor) -> Iterator[Tensor]:
    """What a tensor was before it was moved or cast."""
    while tensor.base is not None and tensor.made_by in operators.casts:
        tensor = tensor.base
    yield tensor


_MOVING = frozenset(
    {"to", "type", "type_as", "cuda", "cpu", "float", "half", "double", "long", "int", "bool", "contiguous", "detach"}
)


def _depends(write: Write, name: str) -> bool:
    """Whether the new value depends on the old one or on the data."""
    if write.how == "augmented" or any(part.is_data for part in tensors_in([write.value])):
        return True
    if write.how == "method" and not getattr(write.node, "args", None):
        return True
    return any(isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
               for node in walk(getattr(write.statement, "value", None) or write.statement)) and write.how != "item"  # fmt: skip

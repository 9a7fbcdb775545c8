"""State changes: what a run in evaluation mode changes of a model, and whether later runs give something else for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from modellint.live.analysis_cache import analysis
from modellint.live.capture.data_dependence import Reach, facts_in, is_input
from modellint.live.capture.fake_tensor_run import captured_run
from modellint.live.capture.inplace_writes import Write, writes
from modellint.live.capture.jit_trace import agree, in_evaluation, is_affordable, outputs_of
from modellint.live.capture.records import Run
from modellint.live.code.anchor_statements import changing
from modellint.live.inputs.variants import variants
from modellint.live.subject import Subject
from modellint.results.diagnostic import Place

_ASSIGNING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
_REDUCING = frozenset({"mean", "sum", "var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "bincount"})
_MOVING = frozenset(
    {"cat", "stack", "roll", "index_put", "index_put_", "scatter", "scatter_", "where", "constant_pad_nd", "mm", "bmm"}
    | {"addmm", "baddbmm", "convolution", "index_copy", "index_copy_", "slice_scatter", "select_scatter"}
)
"""Operators through which no running average goes."""


class Change(NamedTuple):
    """An attribute of a module that a run changes."""

    module: str
    """The path of its first owner."""
    attribute: str
    kind: str
    """``buffer``, ``parameter`` or ``attribute``."""
    paths: tuple[str, ...]
    place: Place | None
    """The statement that changes it."""
    of_data: bool
    """Whether the new value depends on the values of the inputs."""
    of_old: bool
    """Whether it depends on the value that it had before."""
    is_statistic: bool
    """Whether the new value mixes the old one with something that was summed up of the inputs."""
    in_place: bool
    matters: bool | None = None
    """Whether the model gives something else on the same inputs once it has seen others; None where nobody could try."""


@analysis
def state_changes(subject: Subject) -> tuple[Change, ...]:
    """What the run, in evaluation mode, changes of the model's state, each attribute once."""
    run = captured_run(subject)
    if run is None or run.failure is not None:
        return ()
    changes = {(change.module, change.attribute): change for change in (*_written(subject, run), *_bound(subject, run))}
    return tuple(_tried(subject, list(changes.values()))) if changes else ()


def _written(subject: Subject, run: Run) -> Iterator[Change]:
    """State whose memory operators write to."""
    names: dict[int, str] = {}
    for operator in run.operators:
        for fact in facts_in((operator.arguments, operator.keywords)):
            if fact.name is not None and fact.storage >= 0 and not is_input(fact):
                names.setdefault(fact.storage, fact.name)
    by_name: dict[str, list[Write]] = {}
    for write in writes(run):
        name = names.get(write.target.storage)
        if name is not None:
            by_name.setdefault(name, []).append(write)
    states = {name: state for state in subject.state for name in state.names}
    for name, written in by_name.items():
        state = states.get(name)
        if state is None:
            # Held in an attribute, in a container or in an object there.
            path, _, attribute = name.removeprefix("hidden:").rpartition(".")
            kind = "attribute"
            paths: tuple[str, ...] = (path,)
        else:
            path, attribute, kind = state.name.rpartition(".")[0], state.attribute, state.kind
            paths = subject.paths_of(state.owner)
        origins = _Origins(run, frozenset(state.names) if state is not None else frozenset({name}))
        operands = [
            (write, [fact for fact in facts_in(write.operator.arguments[1:]) if fact.storage != write.target.storage])
            for write in written
        ]
        values = [fact for _, facts in operands for fact in facts]
        keeps = any(write.operator.name not in _ASSIGNING for write in written)
        yield Change(
            path,
            attribute,
            kind,
            paths,
            next((write.operator.place for write in written if write.operator.place is not None), None),
            any(fact in origins.data for fact in values),
            keeps or any(fact in origins.old for fact in values),
            (keeps and any(fact in origins.summed for fact in values))
            or any(fact in origins.summed and fact in origins.mixed for fact in values),
            True,
        )


def _bound(subject: Subject, run: Run) -> Iterator[Change]:
    """Attributes that hold another object."""
    entries = {entry.path: entry for entry in subject.modules}
    for assigned in run.assigned:
        entry = entries[assigned.module]
        name = f"{assigned.module}.{assigned.attribute}" if assigned.module else assigned.attribute
        origins = _Origins(run, frozenset({name, f"hidden:{name}"}))
        facts = list(facts_in(assigned.value))
        plain = not facts and isinstance(assigned.value, (int, float, complex))
        yield Change(
            assigned.module,
            assigned.attribute,
            assigned.kind,
            entry.paths,
            assigned.place or changing(type(entry.module), assigned.attribute),
            any(fact in origins.data for fact in facts),
            plain or any(fact in origins.old for fact in facts),
            any(fact in origins.summed and fact in origins.mixed for fact in facts),
            False,
        )


class _Origins:
    """Dependences of a run's values: on the inputs, on the old state, and on sums of the inputs."""

    def __init__(self, run: Run, names: frozenset[str]) -> None:
        self.data = Reach.of_values(run)
        self.old = Reach(run, lambda fact: fact.name in names)
        self.mixed = Reach(
            run, lambda fact: fact.name in names, lambda operator: operator.rpartition("::")[2] in _MOVING
        )
        sums = {
            fact.tensor
            for operator in run.operators
            if operator.name.rpartition("::")[2] in _REDUCING
            and any(operand in self.data for operand in facts_in(operator.arguments))
            for fact in operator.outputs
        }
        self.summed = Reach(run, lambda fact: fact.tensor in sums)


def _tried(subject: Subject, changes: Sequence[Change]) -> Iterator[Change]:
    """The changes, each with what it does to later outputs."""
    inputs = subject.inputs
    assert inputs is not None
    if not is_affordable(subject):
        yield from changes
        return
    try:
        with in_evaluation(subject):
            fresh = outputs_of(subject.model, inputs)
    except (Exception, SystemExit):
        yield from changes
        return
    varied = list(variants(inputs))[1].inputs
    try:
        with in_evaluation(subject):
            matter = not agree(fresh, _after(subject, (), varied))
    except (Exception, SystemExit):
        yield from changes
        return
    for change in changes:
        if len(changes) == 1 or not matter:
            yield change._replace(matters=matter)
            continue
        try:
            with in_evaluation(subject):
                after = _after(subject, [undone for undone in changes if undone is not change], varied)
        except (Exception, SystemExit):
            yield change
            continue
        yield change._replace(matters=not agree(fresh, after))


def _after(subject: Subject, undone: Sequence[Change], varied: Any) -> list[Tensor]:
    """The outputs on the example behind a run on other inputs, some of whose changes are undone."""
    inputs = subject.inputs
    assert inputs is not None
    tables = [(change, *_held(subject.model, change)) for change in undone]
    before = [
        (change, table, table.get(change.attribute, _NOTHING), _copied(table.get(change.attribute)))
        for change, table in tables
    ]
    try:
        outputs_of(subject.model, varied)
    except Exception:
        # Integers may stand for something that has a range of its own.
        outputs_of(subject.model, inputs)
    for change, table, value, items in before:
        if value is _NOTHING:
            table.pop(change.attribute, None)
            continue
        table[change.attribute] = value
        if isinstance(value, Tensor) and not value.requires_grad:
            value.copy_(items)
        elif type(value) is list:
            value[:] = items
        elif type(value) is dict:
            value.clear()
            value.update(items)
    return outputs_of(subject.model, inputs)


_NOTHING = object()


def _held(model: nn.Module, change: Change) -> tuple[dict[str, Any]]:
    module = model
    for name in change.module.split(".") if change.module else ():
        module = module._modules.get(name) or module
    own = vars(module)
    return ({"buffer": own["_buffers"], "parameter": own["_parameters"]}.get(change.kind, own),)


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return value.copy() if type(value) in (list, dict) else value

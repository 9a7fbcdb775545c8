"""Control flow: branches, loops, exceptions and returns, and the join of the states that meet behind them.

Branches join. A loop body is read twice, so that an attribute which every turn overwrites is seen to keep the last
value only. The last binding wins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from modellint.source.engine.abstract_values import UNKNOWN, Const, Instance, Value
from modellint.source.engine.class_state import Frame, State, join_attributes, join_locals
from modellint.source.engine.layered_map import apart, copied, layered
from modellint.source.engine.mode_conditions import is_quiet

if TYPE_CHECKING:
    from modellint.source.engine.function_inlining import Inliner

_TRY: tuple[type[ast.stmt], ...] = tuple(kind for kind in (ast.Try, getattr(ast, "TryStar", None)) if kind is not None)


def _state(reader: Inliner, frame: Frame) -> State:
    reader.attributes = layered(reader.attributes)
    return reader.copied_locals(frame), copied(reader.attributes)


def _restore(reader: Inliner, state: State, frame: Frame) -> None:
    frame.locals, reader.attributes = copied(state[0]), copied(state[1])


def _join(reader: Inliner, states: list[State], frame: Frame) -> bool:
    if not states:
        return False
    frame.locals = join_locals([state[0] for state in states])
    reader.attributes = join_attributes([state[1] for state in states])
    return True


def _if(reader: Inliner, node: ast.If, frame: Frame) -> bool:
    modes = reader.modes
    reader.ask(node, node.test, frame)
    decided = (
        modes.decided(node.test, frame, reader.value)
        if reader.reading
        else modes.decided_by_words(node.test, frame, reader.value)
    )
    condition = modes.condition(node.test, frame, reader.value)
    before = _state(reader, frame)
    after: list[State] = []
    modes.branches += decided is None
    modes.enter(condition)
    modes.narrow(node.test, True, frame)
    if decided is not False and reader.block(node.body, frame):
        after.append((frame.locals, reader.attributes))
    leaves_early = not after and decided is not False
    reached = len(after)
    _restore(reader, before, frame)
    modes.narrow(node.test, False, frame)
    modes.turn(condition)
    if decided is not True and reader.block(node.orelse, frame):
        after.append((frame.locals, reader.attributes))
    modes.leave(condition, early=leaves_early and not node.orelse)
    modes.branches -= decided is None
    if leaves_early and not node.orelse and isinstance(node.body[-1], ast.Raise):
        reader.allow(node, False, frame)
        reader.assume(node.test, False, frame)
    if reader.reading and condition.captured is not None and 0 < reached < len(after):
        # What follows runs behind the branch that an export takes: `loss` is None where it is given no targets.
        after = after[:1] if condition.captured else after[1:]
    return _join(reader, after, frame)


def _for(reader: Inliner, node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
    value = reader.value(node.iter, frame)
    reader.recorder.looped(reader, node.iter, value, frame)
    _loop(reader, node.body, node.orelse, frame, node.target, reader.element_of(value))
    return True


def _while(reader: Inliner, node: ast.While, frame: Frame) -> bool:
    reader.ask(node, node.test, frame)
    _loop(reader, node.body, node.orelse, frame, None, UNKNOWN)
    return True


def _loop(
    reader: Inliner, body: list[ast.stmt], orelse: list[ast.stmt], frame: Frame, target: ast.expr | None, element: Value
) -> None:
    before = _state(reader, frame)
    outer_breaks, frame.breaks = frame.breaks, []
    frame.loops += 1
    reader.modes.branches += 1
    ends: list[State] = []
    # Reading every body twice is exponential in the nesting; the third level is read once.
    for _ in range(2 if frame.loops <= 2 else 1):
        if target is not None:
            reader.bind(target, element, frame)
        reader.continues.append([])
        reached = reader.block(body, frame)
        ends = reader.continues.pop()
        if reached:
            ends.append((frame.locals, reader.attributes))
        if not ends:
            break
        _join(reader, ends, frame)
    frame.loops -= 1
    reader.modes.branches -= 1
    after = [*ends[:0], *frame.breaks]
    if ends:
        after.insert(0, (frame.locals, reader.attributes))
    frame.breaks = outer_breaks
    if not after:
        after = [before]
    _join(reader, after, frame)
    for name, value in apart(frame.locals, before[0]):
        frame.locals.setdefault(name, value)
    reader.block(orelse, frame)


def _break(reader: Inliner, node: ast.Break, frame: Frame) -> bool:
    frame.breaks.append(_state(reader, frame))
    return False


def _continue(reader: Inliner, node: ast.Continue, frame: Frame) -> bool:
    if reader.continues:
        reader.continues[-1].append(_state(reader, frame))
    return False


def _return(reader: Inliner, node: ast.Return, frame: Frame) -> bool:
    frame.returned.append(reader.value(node.value, frame) if node.value is not None else Const(None))
    reader.exits[-1].append(reader.attributes)
    reader.attributes = copied(reader.attributes)
    if reader.reading and len(reader.modes.functions) == 1:
        reader.recorder.returned(node, frame.returned[-1], reader.modes.is_plain)
    return False


def _raise(reader: Inliner, node: ast.Raise, frame: Frame) -> bool:
    return False


def _try(reader: Inliner, node: ast.Try, frame: Frame) -> bool:
    before = _state(reader, frame)
    after: list[State] = []
    reader.modes.branches += 1
    reached = reader.block(node.body, frame)
    middle = _state(reader, frame)
    if reached and reader.block(node.orelse, frame):
        after.append((frame.locals, reader.attributes))
    for handler in node.handlers:
        _join(reader, [before, middle], frame)
        frame.locals, reader.attributes = copied(frame.locals), copied(reader.attributes)
        if reader.block(handler.body, frame):
            after.append((frame.locals, reader.attributes))
    reader.modes.branches -= 1
    if not after:
        _restore(reader, middle, frame)
        reader.block(node.finalbody, frame)
        return False
    _join(reader, after, frame)
    return reader.block(node.finalbody, frame)


def _with(reader: Inliner, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
    quiet = sum(is_quiet(item.context_expr) for item in node.items)
    reader.modes.quiet += quiet
    try:
        for item in node.items:
            value = reader.value(item.context_expr, frame)
            if item.optional_vars is not None:
                reader.bind(item.optional_vars, UNKNOWN if isinstance(value, Instance) else value, frame)
        return reader.block(node.body, frame)
    finally:
        reader.modes.quiet -= quiet


def _match(reader: Inliner, node: ast.Match, frame: Frame) -> bool:
    reader.value(node.subject, frame)
    before = _state(reader, frame)
    after: list[State] = []
    complete = False
    reader.modes.branches += 1
    for case in node.cases:
        _restore(reader, before, frame)
        if case.guard is not None:
            reader.value(case.guard, frame)
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
            complete = True
        if reader.block(case.body, frame):
            after.append((frame.locals, reader.attributes))
    reader.modes.branches -= 1
    if not complete:
        after.append(before)
    return _join(reader, after, frame)


CONTROL_FLOW: Mapping[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]] = {
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Match: _match,
    **dict.fromkeys(_TRY, _try),
}
"""What runs each kind of statement that does not simply lead to the next; it says whether the end is reached."""

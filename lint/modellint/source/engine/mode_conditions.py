"""Control flow: what runs in training only, without gradients, when the caller sets a flag, or never in what is exported."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.source.engine.abstract_values import (
    Argument,
    Const,
    Method,
    Number,
    Value,
    VersionTruth,
    alternatives,
    union,
)
from modellint.source.engine.asserted_conditions import asserted_truth, connected
from modellint.source.engine.version_conditions import version_truth
from modellint.source.project.symbols import FunctionRef
from modellint.source.syntax.ast_walk import of_kind, once
from modellint.source.syntax.rank_conditions import tensor_of_rank

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Function
    from modellint.source.engine.class_state import Frame
    from modellint.source.project.index import Project

    Reads = Callable[[ast.expr, Frame], Value]


_QUIET = ("no_grad", "inference_mode")
_CAPTURING = frozenset(
    {
        "is_tracing",
        "_is_tracing",
        "is_exporting",
        "is_compiling",
        "is_torchdynamo_compiling",
        "is_dynamo_compiling",
        "is_fx_tracing",
    }
    | {"is_torch_fx_proxy", "is_export_mode", "is_exportable"}
)
"""What asks whether a model is being captured."""
_OTHERWISE = frozenset({"is_scripting", "is_in_onnx_export"})
"""What asks for a way of capturing that leads elsewhere."""
_LABELS = re.compile(
    r"(?:gt|ground_truth|true|class|start|end|next|mc|lm|mask|answer|decoder|target|train)?_?(?:labels?|targets?|gts?|gt_\w+|ground_truths?|(?:start|end)_positions?)"
)
"""Names of what a model is given in training only."""


class Condition(NamedTuple):
    """What a condition asks for.

    ``guard``: True where it holds in training only, False where it holds in evaluation only. ``captured``: what it is while a model is
    captured. ``usual``: what it is where every flag has its default. ``body`` and ``other``: whether what runs where it holds, and where it
    does not, depends on a flag that the caller sets.
    """

    guard: bool | None
    captured: bool | None
    usual: bool | None
    body: bool = False
    other: bool = False
    otherwise: bool | None = None
    """As ``guard``, of where it does not hold."""


class Modes:
    """In which mode, and behind which flags, a reading stands."""

    def __init__(self, tensor: type[Value], opaque: Callable[[], Value], project: Project) -> None:
        self._tensor = tensor
        self._project = project
        self._opaque = opaque
        """What makes a value that nothing is known of."""
        self.decides_flags = False
        """Whether the caller is known, so that a flag is what it is here."""
        self.training = 0
        self.quiet = 0
        """More than 0 where no graph is recorded."""
        self.switches = 0
        self.unusual = 0
        self.unexported = 0
        self.branches = 0
        """How many branches and loops, which need not be run, are around what is read, in all functions that call each other."""
        self.functions: list[ast.AST] = []
        """Those that call each other, the innermost last."""
        self.decorated: tuple[Function, ...] = ()
        """Those of them that have decorators, or that TorchScript was given."""
        self.words: dict[Value, frozenset[str]] = {}
        """The arguments that assertions let be certain words alone."""
        self.blocks: list[tuple[int, int, int, int] | None] = []
        """By how much statements of each block that leave early changed the first four but ``quiet``."""

    @property
    def function(self) -> ast.AST | None:
        """The function that is read."""
        return self.functions[-1] if self.functions else None

    @property
    def is_aside(self) -> bool:
        """Whether it is reached in training only, or is kept out of what is exported."""
        return self.training > 0 or self.unexported > 0

    @property
    def is_plain(self) -> bool:
        """Whether an exported model gets there whatever flags are set."""
        return not (self.training or self.unexported or self.switches)

    def condition(self, test: ast.expr, frame: Frame, value: Reads, statement: bool = True) -> Condition:
        """What a condition asks for; only a statement makes what follows depend on flags."""
        guard, otherwise = self.guard(test, frame), self.guard(test, frame, holds=False)
        captured = self.captured(test)
        switch = statement and guard is None and self._is_switch(test, frame, value)
        usual = self._by_default(test, frame, value)
        # What runs in evaluation only is meant to.
        return Condition(
            guard,
            captured,
            usual,
            switch or (statement and guard is False),
            switch or (statement and (guard is True or otherwise is False)),
            otherwise,
        )

    def enter(self, condition: Condition) -> None:
        """Go where a condition holds."""
        self.switches += condition.body
        self.training += condition.guard is True
        self.unusual += condition.usual is False
        self.unexported += condition.captured is False

    def turn(self, condition: Condition) -> None:
        """Go on to where it does not hold."""
        self.switches += condition.other - condition.body
        self.training += (condition.otherwise is True) - (condition.guard is True)
        self.unusual += (condition.usual is True) - (condition.usual is False)
        self.unexported += (condition.captured is True) - (condition.captured is False)

    def leave(self, condition: Condition, early: bool = False) -> None:
        """Go on to what follows; where it holds, something left ``early``, so that what follows runs where it does not hold."""
        switch = condition.body and condition.other
        self.switches -= condition.other
        self.training -= condition.otherwise is True
        self.unusual -= condition.usual is True
        self.unexported -= condition.captured is True
        if early:
            # `if not self.training: return x`: what follows runs in training only.
            change = (condition.otherwise is True, condition.usual is True, switch, condition.captured is True)
            self._shift(change, 1)
            before = self.blocks[-1] or (0, 0, 0, 0)
            self.blocks[-1] = before[0] + change[0], before[1] + change[1], before[2] + change[2], before[3] + change[3]

    def _shift(self, change: Sequence[int], sign: int) -> None:
        training, unusual, switches, unexported = change
        self.training += sign * training
        self.unusual += sign * unusual
        self.switches += sign * switches
        self.unexported += sign * unexported

    def leave_block(self) -> None:
        """A block of statements ends, and with it what statements in it that left early changed."""
        change = self.blocks.pop()
        if change is not None:
            self._shift(change, -1)

    def narrow(self, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note that a condition says of a variable that it is no tensor."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.narrow(operand, not held, frame)
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is held:
                for value in values:
                    self.narrow(value, held, frame)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kinds]):
                others = [is_tensor_class(part) for part in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])]
                if not (any(others) if held else not all(others)):
                    self._forget_tensor(name, frame)
            case ast.Call(
                func=ast.Name(id="is_seq_of" | "is_list_of" | "is_tuple_of"), args=[ast.Name(id=name), *_]
            ) if held:
                self._forget_tensor(name, frame)
            case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]) if not held:
                self._forget_tensor(name, frame)
            case ast.Compare(
                left=ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]),
                ops=[ast.Eq() | ast.Is() | ast.NotEq() | ast.IsNot() as op],
                comparators=[kind],
            ):
                is_of_kind = isinstance(op, (ast.Eq, ast.Is)) is held
                if is_of_kind is not is_tensor_class(kind):
                    self._forget_tensor(name, frame)
            case ast.Call(func=ast.Name(id=guard), args=[ast.Name(id=name)], keywords=[]) if held:
                function = self._guard_function(guard, name, frame)
                if function is not None and _denies_tensors(function):
                    self._forget_tensor(name, frame)
            case ast.Call(func=ast.Name(id=guard), args=[ast.Name(id=name)], keywords=[]):
                function = self._guard_function(guard, name, frame)
                if function is not None and _tells_tensors(function):
                    self._forget_tensor(name, frame)
            case _:
                pass

    def _guard_function(self, guard: str, name: str, frame: Frame) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function, of this file or another, that is asked about a local variable that may hold a tensor."""
        if guard in frame.locals:
            return None
        if (function := frame.file.functions.get(guard)) is not None:
            return function
        if not guard.startswith("is") or name not in frame.locals:
            return None
        if not any(isinstance(part, self._tensor) for part in alternatives(frame.locals[name])):
            return None
        symbol = self._project.resolve(frame.file, guard, frame.within)
        return symbol.node if isinstance(symbol, FunctionRef) else None

    def _forget_tensor(self, name: str, frame: Frame) -> None:
        """Nothing is known of a local variable any more but that it is no tensor."""
        if name in frame.locals:
            tensor = self._tensor
            parts = alternatives(frame.locals[name])
            kept = [part for part in parts if not isinstance(part, tensor)]
            # What only may have been a tensor is something else then.
            if not kept or any(isinstance(part, tensor) and not part.is_made for part in parts):
                kept.append(self._opaque())
            frame.locals[name] = union(kept)

    def decided(self, test: ast.expr, frame: Frame, read: Reads) -> bool | None:
        """What a condition certainly is: a local variable that holds a tensor which the code itself makes is not None."""
        if self.decides_flags and not frame.loops and (truth := _truth(test, frame)) is not None:
            return truth
        if (truth := connected(test, lambda part: _is_always_true(part, frame))) is not None:
            return truth
        if (truth := _by_constants_of_the_file(test, frame)) is not None:
            return truth
        if self.functions and (truth := _by_flags_of_the_function(test, self.functions[-1])) is not None:
            return truth
        if (truth := connected(test, lambda part: self._by_version(part, frame, read))) is not None:
            return truth
        if self.functions and (truth := asserted_truth(test, self.functions[-1], frame.file.tree)) is not None:
            return truth
        if (truth := connected(test, lambda part: _by_rank(part, frame))) is not None:
            return truth
        match test:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ):
                held = frame.locals.get(name)
                if held is not None and all(part.is_made for part in alternatives(held)):
                    return isinstance(op, ast.IsNot)
                if held is not None and not frame.loops and isinstance(held, Const) and held.value is None:
                    return isinstance(op, ast.Is)
        return None

    def _by_version(self, test: ast.expr, frame: Frame, read: Reads) -> bool | None:
        """What a condition is by PyTorch's version, which it asks, or which a variable or an attribute of the object was told."""
        match test:
            case ast.Name(id=name) if name in frame.locals:
                value = frame.locals[name]
            case ast.Attribute(value=ast.Name(id="self")):
                value = read(test, frame)
            case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id=name), _]) if name in frame.locals:
                value = read(test, frame)
            case _:
                return version_truth(test, self._project, frame.file)
        truths = {part.truth if isinstance(part, VersionTruth) else None for part in alternatives(value)}
        return truths.pop() if len(truths) == 1 else None

    def allow(self, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note that an assertion says which words an argument may be."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.allow(operand, not held, frame)
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is held:
                for value in values:
                    self.allow(value, held, frame)
            case ast.Compare(left=ast.Name(id=name), ops=[ast.In() | ast.NotIn() | ast.Eq() | ast.NotEq() as op]):
                words = _words(test.comparators[0], isinstance(op, (ast.In, ast.NotIn)))
                if isinstance(op, (ast.In, ast.Eq)) is held and words is not None:
                    for part in alternatives(frame.locals[name]) if name in frame.locals else ():
                        if isinstance(part, Argument) and not part.element:
                            self.words[part] = self.words.get(part, words) & words

    def decided_by_words(self, test: ast.expr, frame: Frame, read: Reads) -> bool | None:
        """What a condition certainly is by the words that it asks a variable for."""
        if frame.loops:
            return None

        def truth_of(part: ast.expr) -> bool | None:
            match part:
                case ast.Compare(left=ast.Name() | ast.Attribute(value=ast.Name(id="self")) as asked, ops=[op]):
                    compare = _WORD_COMPARISONS.get(type(op))
                    other = part.comparators[0]
                    wanted: object = other.value if isinstance(other, ast.Constant) else _words(other, True)
                case ast.Call(
                    func=ast.Attribute(value=ast.Name() as asked, attr="startswith" | "endswith" as name),
                    args=[ast.Constant(value=str() as wanted)],
                    keywords=[],
                ):
                    compare = _AFFIXES[name]
                case _:
                    return None
            if compare is None or not isinstance(wanted, (str, frozenset)):
                return None
            words = self._words_of(read(asked, frame))
            truths = {compare(word, wanted) for word in words or ()}
            return truths.pop() if len(truths) == 1 else None

        return connected(test, truth_of)

    def _words_of(self, value: Value) -> set[str] | None:
        """The words that a value may be; None where it may be anything else."""
        words: set[str] = set()
        for part in alternatives(value):
            if isinstance(part, Const) and isinstance(part.value, str):
                words.add(part.value)
            elif part in self.words:
                words |= self.words[part]
            else:
                return None
        return words

    def _by_default(self, test: ast.expr, frame: Frame, read: Reads) -> bool | None:
        """What a condition is where every flag that it asks has its default, as far as it asks nothing else."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._by_default(operand, frame, read)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                # One that is false makes `and` false, whatever the others are.
                ends = isinstance(op, ast.Or)
                found = {self._by_default(value, frame, read) for value in values}
                return ends if ends in found else None if None in found else not ends
            case ast.Compare(
                left=left,
                ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None | bool() | int() | str() as wanted)],
            ):
                held = self._defaults(left, frame, read)
                alike = {type(one) is type(wanted) and one == wanted for one in held}
                return next(iter(alike)) != isinstance(op, (ast.NotEq, ast.IsNot)) if len(alike) == 1 else None
            case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
                truths = {bool(one) for one in self._defaults(test, frame, read)}
                return next(iter(truths)) if len(truths) == 1 else None
        return None

    def _defaults(self, node: ast.expr, frame: Frame, read: Reads) -> list[object]:
        """The defaults of what a caller may set, where an expression is nothing else; empty where it may be anything."""
        parts = alternatives(read(node, frame))
        if not all(isinstance(part, Const) or (isinstance(part, Argument) and not part.element) for part in parts):
            return []
        return [part.value for part in parts if isinstance(part, Const)]

    def _is_switch(self, test: ast.expr, frame: Frame, read: Reads) -> bool:
        """Whether a condition asks a flag, or for a mode by its name: what runs then, only the caller knows."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._is_switch(operand, frame, read)
            case ast.BoolOp(values=values):
                return any(self._is_switch(value, frame, read) for value in values)
            case ast.Compare(comparators=[ast.Constant(value=wanted)]):
                return isinstance(wanted, (str, bool))
            case ast.Name():
                value = read(test, frame)
                return not all(isinstance(part, (self._tensor, Const, Number)) for part in alternatives(value))
            case ast.Attribute(value=ast.Name()):
                parts = (*alternatives(read(test, frame)), *alternatives(read(test.value, frame)))
                return not any(isinstance(part, self._tensor) for part in parts)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))):
                return True
        return False

    def captured(self, test: ast.expr) -> bool | None:
        """What a condition is while a model is captured for export, where it asks for that."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.captured(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                found = {self.captured(value) for value in values}
                first, other = (False, True) if isinstance(op, ast.And) else (True, False)
                return first if first in found else other if found == {other} else None
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                return True if name in _CAPTURING else False if name in _OTHERWISE else None
            case ast.Compare(
                left=ast.Name(id=name) | ast.Attribute(attr=name),
                ops=[ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None)],
            ) if _LABELS.fullmatch(name):
                # Nobody exports a model that is given what it should answer.
                return isinstance(op, ast.Is)
            case ast.Compare(
                left=ast.Attribute(attr="type"),
                ops=[ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value="cuda" | "mps" | "xpu")],
            ):
                # Models are captured for Core ML on the CPU.
                return isinstance(op, ast.NotEq)
            case ast.Attribute(attr="is_cuda" | "is_mps" | "is_xpu"):
                return False
            case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=0)]) if _counts_elements(left):
                # No sample input is empty.
                return {ast.Eq: False, ast.LtE: False, ast.NotEq: True, ast.Gt: True}.get(type(op))
        return None

    def guard(self, test: ast.expr, frame: Frame, holds: bool = True) -> bool | None:
        """True where a condition holds (or, with ``holds`` off, does not) in training only, False where in evaluation only."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.guard(operand, frame, not holds)
            case ast.BoolOp(op=op, values=values):
                modes = {self.guard(value, frame, holds) for value in values}
                if isinstance(op, ast.And) is holds:
                    # All parts are as they are asked to be: one is enough.
                    return True if True in modes else False if False in modes else None
                return modes.pop() if len(modes) == 1 else None
        mode = self._mode(test, frame)
        return mode if holds or mode is None else not mode

    def _mode(self, test: ast.expr, frame: Frame) -> bool | None:
        """The same of a condition that is not put together of others."""
        match test:
            case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool() as wanted)]):
                inner = self.guard(left, frame)
                return inner if wanted or inner is None else not inner
            case ast.Attribute(attr="requires_grad"):
                return True
            case ast.Attribute(attr=attribute):
                return True if attribute.lstrip("_") in ("training", "is_training", "is_train") else None
            case ast.Name(id=name):
                if name in ("training", "is_training", "train", "is_train"):
                    return True
                value = frame.locals.get(name)
                if isinstance(value, Method) and value.name == "training":
                    return True
                asked = self._modes_of_the_function().get(name)
                return self.guard(asked, frame) if asked is not None else None
            case ast.Call(func=ast.Attribute(attr="is_grad_enabled")):
                return True
        return None

    def _modes_of_the_function(self) -> dict[str, ast.expr]:
        """The variables that one statement of the function alone binds, to what asks for the mode: `test = not self.training`."""
        return once(self.functions[-1], "_modes_bound_once", _modes_bound_once) if self.functions else {}


_UNTOLD = object()
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
"""What Python compares numbers by."""


_WORD_COMPARISONS: dict[type[ast.cmpop], Callable[[str, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda word, wanted: word in wanted,
    ast.NotIn: lambda word, wanted: word not in wanted,
}
_AFFIXES: dict[str, Callable[[str, Any], bool]] = {"startswith": str.startswith, "endswith": str.endswith}


def _words(node: ast.expr, several: bool) -> frozenset[str] | None:
    """The words that an expression writes down: a list of them where there may be ``several``, else one."""
    parts = node.elts if several and isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [] if several else [node]
    words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return frozenset(words) if words and len(words) == len(parts) else None


def _is_always_true(test: ast.expr, frame: Frame) -> bool | None:
    """What a condition is by a variable that holds what Python takes for true: `if device:` where the caller gives `x.device`."""
    match test:
        case ast.Name(id=name):
            held = frame.locals.get(name)
            return True if held is not None and all(part.is_always_true for part in alternatives(held)) else None
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
        ):
            held = frame.locals.get(name)
            is_true = held is not None and all(part.is_always_true for part in alternatives(held))
            return isinstance(op, ast.IsNot) if is_true else None
    return None


def _by_constants_of_the_file(test: ast.expr, frame: Frame) -> bool | None:
    """What a condition is by constants: those that it writes out, and names that one statement at the file's top alone binds to one."""

    def constant(part: ast.expr) -> bool | None:
        if isinstance(part, ast.Constant) and isinstance(part.value, (bool, int)):
            return bool(part.value)
        if not isinstance(part, ast.Name) or part.id in frame.locals or part.id in (frame.closure or ()):
            return None
        match frame.file.names.get(part.id):
            case [ast.Constant(value=bool() as truth)] if part.id not in once(frame.file.tree, "_globals", _globals):
                return truth
        return None

    return connected(test, constant)


def _by_rank(test: ast.expr, frame: Frame) -> bool | None:
    """What a condition is by the rank of a tensor that the code itself makes: `if x.dim() == 2:`."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as number)]):
            tensor, compare = tensor_of_rank(left), COMPARISONS.get(type(op))
        case _:
            return None
    if not isinstance(tensor, ast.Name) or tensor.id not in frame.locals or frame.loops or compare is None:
        return None
    parts = alternatives(frame.locals[tensor.id])
    truths = {bool(compare(rank, number)) for part in parts for rank in part.ranks}
    return truths.pop() if len(truths) == 1 and all(part.ranks for part in parts) else None


def _by_flags_of_the_function(test: ast.expr, function: ast.AST) -> bool | None:
    """What a condition is by variables of the function that one statement alone binds, to False or True: `merge = False`."""
    flags = once(function, "_flags_bound_once", _flags_bound_once)
    return connected(test, lambda part: flags.get(part.id) if isinstance(part, ast.Name) else None) if flags else None


def _flags_bound_once(function: ast.AST) -> dict[str, bool]:
    flags: dict[str, bool] = {}
    for statement in _statements_of(function):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=bool() as value)):
                flags[name] = value
    once_bound = _bound_once(function, flags) if flags else ()
    return {name: flags[name] for name in once_bound}


def _modes_bound_once(function: ast.AST) -> dict[str, ast.expr]:
    modes: dict[str, ast.expr] = {}
    for statement in _statements_of(function):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _asks_for_the_mode(value):
                modes[name] = value
    once_bound = _bound_once(function, modes) if modes else ()
    return {name: modes[name] for name in once_bound}


def _asks_for_the_mode(node: ast.expr) -> bool:
    """Whether an expression is `self.training`, its negation, or either and something else."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _asks_for_the_mode(operand)
        case ast.BoolOp(values=values):
            return any(map(_asks_for_the_mode, values))
        case ast.Attribute(value=ast.Name(id="self"), attr="training"):
            return True
    return False


def _statements_of(function: ast.AST) -> list[ast.stmt]:
    """The statements of a function that stand in no other; a lambda has none."""
    return [] if isinstance(function, ast.Lambda) else getattr(function, "body", [])


def _bound_once(function: ast.AST, names: Collection[str]) -> list[str]:
    """Those of some variables that a function binds at one place alone."""
    bound = [part.id for part in of_kind(function, ast.Name) if not isinstance(part.ctx, ast.Load)]
    bound += [part.arg for part in of_kind(function, ast.arg)]
    bound += [name for part in of_kind(function, ast.Global) for name in part.names * 2]
    bound += [name for part in of_kind(function, ast.Nonlocal) for name in part.names * 2]
    return [name for name in names if bound.count(name) == 1]


def _globals(tree: ast.AST) -> frozenset[str]:
    """The names of a file that its functions bind."""
    return frozenset(name for node in of_kind(tree, ast.Global) for name in node.names)


def _truth(test: ast.expr, frame: Frame) -> bool | None:
    """What a condition is by the constants that local variables hold."""
    return connected(test, lambda part: _truth_by_locals(part, frame))


def _truth_by_locals(test: ast.expr, frame: Frame) -> bool | None:
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            held = frame.locals.get(left.id) if isinstance(left, ast.Name) else None
            if held is None or not (isinstance(held, Const) or held.is_data or held.is_made):
                return None
            return (isinstance(held, Const) and held.value is None) == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            first, second = _constant(left, frame), _constant(right, frame)
            compare = COMPARISONS.get(type(op))
            if first is _UNTOLD or second is _UNTOLD or compare is None:
                return None
            try:
                return bool(compare(first, second))
            except TypeError:
                return None
    constant = _constant(test, frame)
    return None if constant is _UNTOLD else bool(constant)


def _constant(node: ast.expr, frame: Frame) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    held = frame.locals.get(node.id) if isinstance(node, ast.Name) else None
    return held.value if isinstance(held, Const) else _UNTOLD


def _counts_elements(node: ast.expr) -> bool:
    """Whether an expression is the number of elements of a variable, or of its rows. A buffer may be empty until it is filled."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="numel" | "nelement"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant(value=0)):
            return True
    return False


def _denies_tensors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a type guard: it is true only of what `isinstance` says to be no tensor."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    if len(parameters) != 1:
        return False
    returns = list(of_kind(function, ast.Return))
    tests: list[ast.expr] = []
    for statement in function.body:
        match statement:
            case ast.If(test=test, body=[ast.Return(value=ast.expr()) as inside], orelse=[]):
                tests.append(test)
                returns.remove(inside)
            case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and not value.value):
                tests.append(value)
                returns.remove(statement)
            case _:
                pass
    falsy = all(
        node.value is None or (isinstance(node.value, ast.Constant) and not node.value.value) for node in returns
    )
    return bool(tests) and falsy and all(_is_of_another_class(test, parameters[0].arg) for test in tests)


def _tells_tensors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a type guard that is true of every tensor."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    match function.body[-1]:
        case ast.Return(value=ast.expr() as told) if (
            len(parameters) == 1 and len(list(of_kind(function, ast.Return))) == 1
        ):
            name = parameters[0].arg
        case _:
            return False
    match told:
        case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=asked)]):
            return asked == name
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=asked), kinds]):
            parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            return asked == name and any(map(is_tensor_class, parts))
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=asked)]),
            ops=[ast.Eq() | ast.Is()],
            comparators=[kind],
        ):
            return asked == name and is_tensor_class(kind)
    return False


def _is_of_another_class(test: ast.expr, name: str) -> bool:
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_of_another_class(value, name) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(_is_of_another_class(value, name) for value in values)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=asked), kinds]):
            parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            return asked == name and not any(map(is_tensor_class, parts))
    return False


def is_tensor_class(node: ast.expr) -> bool:
    """Whether an expression names a class of tensors."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name.endswith("Tensor") or name == "Parameter"


def is_quiet(node: ast.expr) -> bool:
    """Whether an expression is `torch.no_grad()` or the like."""
    if isinstance(node, ast.Call):
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "set_grad_enabled":
            return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is False
        node = node.func
    return getattr(node, "attr", getattr(node, "id", "")) in _QUIET

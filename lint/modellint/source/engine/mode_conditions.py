"""Control flow: what runs in training only, without gradients, when the caller sets a flag, or never in what is exported."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source.domains.tensors import Opaque, Tensor
from modellint.source.engine.abstract_values import (
    NUMBER,
    UNKNOWN,
    Argument,
    Const,
    Method,
    Number,
    Value,
    alternatives,
    union,
)
from modellint.source.engine.class_state import Frame, State
from modellint.source.engine.statements import Interpreter

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile


_QUIET = ("no_grad", "inference_mode")
_CAPTURING = frozenset(
    {"is_tracing", "is_exporting", "is_compiling", "is_torchdynamo_compiling", "is_dynamo_compiling", "is_fx_tracing"}
    | {"is_torch_fx_proxy", "is_export_mode", "is_exportable"}
)
"""What asks whether a model is being captured."""
_OTHERWISE = frozenset({"is_scripting", "is_in_onnx_export"})
"""What asks for a way of capturing that leads elsewhere."""
_LABELS = re.compile(
    r"(?:gt|ground_truth|true|class|start|end|next|mc|lm|mask|answer|decoder|target|train)?_?(?:labels?|targets?|gts?|gt_\w+|ground_truths?|(?:start|end)_positions?)"
)
"""Names of what a model is given in training only."""


class Modes(Interpreter):
    """A reading that knows in which mode, and behind which flags, it stands."""

    readers: ClassVar[dict[type[ast.expr], Callable[[Any, Any, Frame], Value]]] = {}
    runners: ClassVar[dict[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]]] = {}

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        super().__init__(project, cls, file)
        self.reading = False
        """Whether it is at what methods do with the object, which is built."""
        self.returns: list[tuple[ast.AST, Value]] = []
        self.plain_returns: dict[ast.Return, list[bool]] = {}
        """Of every `return`, reading by reading, whether an exported model runs it whatever flags are set."""
        self._training = 0
        self._quiet = 0
        self._functions: list[ast.AST] = []
        self._early_exits: list[int] = []
        self._switches = 0
        self._switches_left: list[int] = []
        self._unusual = 0
        self._usual_exits: list[int] = []
        self._unexported = 0
        self._unexported_left: list[int] = []

    def _is_quiet(self) -> bool:
        return self._quiet > 0

    def _if(self, node: ast.If, frame: Frame) -> bool:
        self._ask(node, node.test, frame)
        decided = self._decided(node.test, frame)
        guard = self._guard(node.test, frame)
        captured = self._captured(node.test)
        switch = guard is None and self._is_switch(node.test, frame)
        usual = self._by_default(node.test, frame)
        before = self._state(frame)
        after: list[State] = []
        # What runs in evaluation only is meant to.
        self._switches += switch or guard is False
        self._training += guard is True
        self._unusual += usual is False
        self._unexported += captured is False
        self._narrow(node.test, True, frame)
        if decided is not False and self._block(node.body, frame):
            after.append((frame.locals, self.attributes))
        self._training -= guard is True
        self._unusual += (usual is True) - (usual is False)
        self._unexported += (captured is True) - (captured is False)
        self._switches += (guard is True) - (guard is False)
        leaves_early = not after and decided is not False
        self._restore(before, frame)
        self._narrow(node.test, False, frame)
        self._training += guard is False
        if decided is not True and self._block(node.orelse, frame):
            after.append((frame.locals, self.attributes))
        self._training -= guard is False
        self._unusual -= usual is True
        self._unexported -= captured is True
        if captured is True and leaves_early and not node.orelse:
            self._unexported_left[-1] += 1
            self._unexported += 1
        self._switches -= switch or guard is True
        if switch and leaves_early and not node.orelse:
            self._switches_left[-1] += 1
            self._switches += 1
        if guard is False and leaves_early and not node.orelse:
            # `if not self.training: return x`: what follows runs in training only.
            self._early_exits[-1] += 1
            self._training += 1
        if usual is True and leaves_early and not node.orelse:
            self._usual_exits[-1] += 1
            self._unusual += 1
        return self._join(after, frame)

    def _narrow(self, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note that a condition says of a variable that it is no tensor."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._narrow(operand, not held, frame)
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is held:
                for value in values:
                    self._narrow(value, held, frame)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kinds]):
                others = [_is_tensor_class(part) for part in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds])]
                if not (any(others) if held else not all(others)):
                    _forget_tensor(name, frame)
            case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]) if not held:
                _forget_tensor(name, frame)
            case _:
                pass

    def _decided(self, test: ast.expr, frame: Frame) -> bool | None:
        """What a condition certainly is: a local variable that holds a tensor which the code itself makes is not None."""
        match test:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ) if self.reading:
                held = frame.locals.get(name)
                if held is not None and all(map(_is_made, alternatives(held))):
                    return isinstance(op, ast.IsNot)
                if held is not None and not frame.loops and isinstance(held, Const) and held.value is None:
                    return isinstance(op, ast.Is)
        return None

    def _by_default(self, test: ast.expr, frame: Frame) -> bool | None:
        """What a condition is where every flag that it asks has its default, as far as it asks nothing else."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._by_default(operand, frame)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                # One that is false makes `and` false, whatever the others are.
                ends = isinstance(op, ast.Or)
                found = {self._by_default(value, frame) for value in values}
                return ends if ends in found else None if None in found else not ends
            case ast.Compare(
                left=left,
                ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None | bool() | int() | str() as wanted)],
            ):
                held = self._defaults(left, frame)
                alike = {type(one) is type(wanted) and one == wanted for one in held}
                return next(iter(alike)) != isinstance(op, (ast.NotEq, ast.IsNot)) if len(alike) == 1 else None
            case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
                truths = {bool(one) for one in self._defaults(test, frame)}
                return next(iter(truths)) if len(truths) == 1 else None
        return None

    def _defaults(self, node: ast.expr, frame: Frame) -> list[object]:
        """The defaults of what a caller may set, where an expression is nothing else; empty where it may be anything."""
        parts = alternatives(self.value(node, frame))
        if not all(isinstance(part, Const) or (isinstance(part, Argument) and not part.element) for part in parts):
            return []
        return [part.value for part in parts if isinstance(part, Const)]

    def _block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        self._early_exits.append(0)
        self._usual_exits.append(0)
        self._switches_left.append(0)
        self._unexported_left.append(0)
        try:
            return super()._block(statements, frame)
        finally:
            self._training -= self._early_exits.pop()
            self._unusual -= self._usual_exits.pop()
            self._switches -= self._switches_left.pop()
            self._unexported -= self._unexported_left.pop()

    def _is_switch(self, test: ast.expr, frame: Frame) -> bool:
        """Whether a condition asks a flag, or for a mode by its name: what runs then, only the caller knows."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._is_switch(operand, frame)
            case ast.BoolOp(values=values):
                return any(self._is_switch(value, frame) for value in values)
            case ast.Compare(comparators=[ast.Constant(value=wanted)]):
                return isinstance(wanted, (str, bool))
            case ast.Name():
                value = self.value(test, frame)
                return not all(isinstance(part, (Tensor, Const, Number)) for part in alternatives(value))
            case ast.Attribute(value=ast.Name()):
                parts = (*alternatives(self.value(test, frame)), *alternatives(self.value(test.value, frame)))
                return not any(isinstance(part, Tensor) for part in parts)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))):
                return True
        return False

    def _conditional(self, node: ast.IfExp, frame: Frame) -> Value:
        self._ask(node, node.test, frame)
        guard, usual = self._guard(node.test, frame), self._by_default(node.test, frame)
        captured = self._captured(node.test)
        self._training += guard is True
        self._unusual += usual is False
        self._unexported += captured is False
        body = self.value(node.body, frame)
        self._training += (guard is False) - (guard is True)
        self._unusual += (usual is True) - (usual is False)
        self._unexported += (captured is True) - (captured is False)
        other = self.value(node.orelse, frame)
        self._training -= guard is False
        self._unusual -= usual is True
        self._unexported -= captured is True
        return union((body, other))

    def _while(self, node: ast.While, frame: Frame) -> bool:
        self._ask(node, node.test, frame)
        self._loop(node.body, node.orelse, frame, None, UNKNOWN)
        return True

    def _boolean(self, node: ast.BoolOp, frame: Frame, site: ast.AST | None = None) -> Value:
        found: list[Value] = []
        guarded = captured = 0
        for part in node.values:
            # Python asks all but the last for their truth.
            asked = site is not None or part is not node.values[-1]
            found.append(self._ask(site or node, part, frame) if asked else self.value(part, frame))
            if self._guard(part, frame) is isinstance(node.op, ast.And):
                guarded += 1
                self._training += 1
            if self._captured(part) is isinstance(node.op, ast.Or):
                captured += 1
                self._unexported += 1
        self._training -= guarded
        self._unexported -= captured
        return union(found)

    def _ask(self, site: ast.AST, test: ast.expr, frame: Frame) -> Value:
        """The value of an expression that Python asks for its truth, at ``site``."""
        match test:
            case ast.BoolOp():
                return self._boolean(test, frame, site)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._ask(site, operand, frame)
                return NUMBER
        value = self.value(test, frame)
        self.asked(site, test, value, frame)
        return value

    def asked(self, site: ast.AST, test: ast.expr, value: Value, frame: Frame) -> None:
        """Note that Python asks a value for its truth."""

    def _captured(self, test: ast.expr) -> bool | None:
        """What a condition is while a model is captured for export, where it asks for that."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._captured(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                found = {self._captured(value) for value in values}
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
        return None

    def _guard(self, test: ast.expr, frame: Frame) -> bool | None:
        """True where a condition holds in training only, False where it holds in evaluation only."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._guard(operand, frame)
                return None if inner is None else not inner
            case ast.BoolOp(op=ast.And(), values=values):
                found = {self._guard(value, frame) for value in values}
                return True if True in found else False if False in found else None
            case ast.BoolOp(op=ast.Or(), values=values):
                found = {self._guard(value, frame) for value in values}
                return next(iter(found)) if len(found) == 1 else None
            case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool() as wanted)]):
                inner = self._guard(left, frame)
                return inner if wanted or inner is None else not inner
            case ast.Attribute(attr="requires_grad"):
                return True
            case ast.Attribute(attr=attribute):
                return True if attribute.lstrip("_") in ("training", "is_training", "is_train") else None
            case ast.Name(id=name):
                if name in ("training", "is_training", "train", "is_train"):
                    return True
                value = frame.locals.get(name)
                return True if isinstance(value, Method) and value.name == "training" else None
            case ast.Call(func=ast.Attribute(attr="is_grad_enabled")):
                return True
        return None

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        quiet = sum(is_quiet(item.context_expr) for item in node.items)
        self._quiet += quiet
        try:
            return super()._with(node, frame)
        finally:
            self._quiet -= quiet

    def _return(self, node: ast.Return, frame: Frame) -> bool:
        reached = super()._return(node, frame)
        if self.reading and len(self._functions) == 1 and frame.returned:
            self.returns.append((node, frame.returned[-1]))
            plain = not (self._training or self._unexported or self._switches)
            self.plain_returns.setdefault(node, []).append(plain)
        return reached


def _is_made(value: Value) -> bool:
    """Whether a value certainly is a tensor, whatever the caller gives."""
    return isinstance(value, Tensor) and value.certain and value.origin not in ("argument", "unseen")


def _is_tensor_class(node: ast.expr) -> bool:
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name.endswith("Tensor") or name == "Parameter"


def _forget_tensor(name: str, frame: Frame) -> None:
    """Nothing is known of a local variable any more but that it is no tensor."""
    if name in frame.locals:
        kept = [part for part in alternatives(frame.locals[name]) if not isinstance(part, Tensor)]
        frame.locals[name] = union(kept) if kept else Opaque()


def is_quiet(node: ast.expr) -> bool:
    """Whether an expression is `torch.no_grad()` or the like."""
    if isinstance(node, ast.Call):
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "set_grad_enabled":
            return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is False
        node = node.func
    return getattr(node, "attr", getattr(node, "id", "")) in _QUIET


Modes.readers = {**Interpreter.readers, ast.IfExp: Modes._conditional, ast.BoolOp: Modes._boolean}
Modes.runners = {
    **Interpreter.runners,
    ast.If: Modes._if,
    ast.While: Modes._while,
    ast.Return: Modes._return,
    ast.With: Modes._with,
    ast.AsyncWith: Modes._with,
}

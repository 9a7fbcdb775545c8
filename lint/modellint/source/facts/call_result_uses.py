"""Where the value of a call goes: into tensors, into Python, where a capture loses it, into what training gives back, or to unread code."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Instance, Named, alternatives
from modellint.source.project.symbols import ClassRef
from modellint.source.roles.forward_call_sites.unused_results import Place
from modellint.source.syntax.ast_walk import once, parents_in, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from modellint.source.facts.recorded_operations import Call

_LABELS = re.compile(r"(?:^|_)(?:labels?|targets?|gt|ground_truth|(?:start|end)_positions?)(?:_|$)")
_LOSS = re.compile(r"(?:^|_)loss(?:es)?(?:_|$)")
_LOSS_CALLS = re.compile(r"(?:\w+_)?loss(?:_\w+)?|criterion|(?:binary_)?cross_entropy\w*|kl_div|[A-Z]\w*Loss")
_TO_PYTHON = frozenset({"item", "tolist", "numpy", "size", "dim", "numel", "shape", "dtype", "device", "ndim"})
_BUILTINS = frozenset({"float", "int", "bool", "len", "str", "print", "repr", "isinstance"})


def ends_in_python(node: ast.expr, function: ast.AST) -> bool:
    """Whether the value of an expression in a function certainly becomes a number, a condition or a text, and no tensor.

    A trace keeps such a number as a constant and drops what it was computed by. It drops, too, what only training reads or returns:
    `if self.training: return x, auxiliary`, or `return (x, auxiliary) if self.training else x`.
    """
    end = _end(node, parents_in(function))
    return end in once(function, "_fates", _fates) if isinstance(end, str) else end


def compared_with(node: ast.expr, function: ast.AST) -> list[ast.expr]:
    """What the value of an expression in a function is compared with, where nothing else comes of it; empty where something may."""
    return _compared(node, function, 0) or []


def _compared(node: ast.expr, function: ast.AST, depth: int) -> list[ast.expr] | None:
    parents = parents_in(function)
    child: ast.AST = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.Attribute(attr=attribute) if attribute in _KEEPING:
                child = parent
            case ast.Call(func=func) | ast.Subscript(value=func) if func is child:
                child = parent
            case ast.Compare(left=left, comparators=[right]):
                return [right if left is child else left]
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is child and depth < _DEEPEST:
                return _compared_later(name, parent, function, depth + 1)
            case _:
                return None
    return None


def _compared_later(name: str, statement: ast.Assign, function: ast.AST, depth: int) -> list[ast.expr] | None:
    """The same of what a variable is bound to by a statement that runs once, and is the only one to bind it."""
    parents = parents_in(function)
    around: ast.AST | None = statement
    while around is not None and around is not function:
        if isinstance(around, (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.Lambda)):
            return None
        around = parents.get(around)
    inside = {id(part) for part in walk(statement)}
    named = [
        part for part in walk(function) if isinstance(part, ast.Name) and part.id == name and id(part) not in inside
    ]
    compared: list[ast.expr] = []
    for part in named:
        if isinstance(part.ctx, ast.Store):
            return None
        if part.lineno > (statement.end_lineno or statement.lineno):
            operands = _compared(part, function, depth)
            if operands is None:
                return None
            compared += operands
    return compared


_KEEPING = frozenset({"to", "type", "type_as", "float", "half", "clone", "detach", "contiguous", "view", "reshape"})
_KEEPING |= {"unsqueeze", "squeeze", "expand", "expand_as", "flatten", "permute", "transpose", "cpu", "cuda"}
"""Methods whose result holds the same numbers."""
_DEEPEST = 4


def only_for_a_loss(node: ast.expr, function: ast.AST) -> bool:
    """Whether an expression is for a loss: under `if labels is not None`, in a function called a loss, or given to one."""
    if _LOSS.search(getattr(function, "name", "")):
        return True
    parents = parents_in(function)
    child: ast.AST = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.If(test=test, body=body) if child in body and _asks_for_labels(test):
                return True
            case ast.IfExp(test=test, body=body) if child is body and _asks_for_labels(test):
                return True
            case ast.Call(func=called) if child is not called and _is_loss(called):
                return True
            case _:
                child = parent
    return False


def _is_loss(called: ast.expr) -> bool:
    """Whether what is called is a loss: `F.cross_entropy`, `self.loss`, `nn.MSELoss()`."""
    while isinstance(called, ast.Call):
        called = called.func
    return _LOSS_CALLS.fullmatch(getattr(called, "attr", getattr(called, "id", ""))) is not None


def _asks_for_labels(test: ast.expr) -> bool:
    match test:
        case ast.Compare(
            left=ast.Name(id=name) | ast.Attribute(attr=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
        ):
            return _LABELS.search(name) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _LOSS.search(name) is not None
        case ast.BoolOp(op=ast.And(), values=values):
            return any(map(_asks_for_labels, values))
    return False


def _end(node: ast.AST, parents: dict[ast.AST, ast.AST], in_evaluation: bool = False) -> bool | str:
    """Whether the value of an expression ends in Python in its own statement; else the one variable that is bound to it.

    With ``in_evaluation`` it ends, too, where a statement runs in training only.
    """
    child = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.Attribute(attr=attribute) if attribute in _TO_PYTHON:
                return True
            case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS and child is not parent.func:
                return True
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test) if (
                test is child
            ):
                return True
            case ast.Assert() | ast.Raise() | ast.FormattedValue():
                return True
            case ast.IfExp(test=test, body=body) if in_evaluation and _asks_for_training(test) is (child is body):
                return True
            case ast.stmt() if in_evaluation and _is_for_training(parent, parents):
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is child:
                return name
            case ast.stmt():
                return False
            case _:
                child = parent
    return False


def _is_for_training(statement: ast.stmt, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a statement runs in training only: under `if self.training:`, or in the other branch of `if not self.training:`."""
    child: ast.AST = statement
    while (parent := parents.get(child)) is not None:
        if isinstance(parent, ast.If):
            held = _asks_for_training(parent.test)
            if held is not None and child in (parent.body if held else parent.orelse):
                return True
        child = parent
    return False


def _asks_for_training(test: ast.expr) -> bool | None:
    """Whether a condition holds in training only; False where what is contrary to it does."""
    match test:
        case ast.Attribute(value=ast.Name(id="self"), attr="training"):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return False if _asks_for_training(operand) else None
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool() as wanted)]):
            return wanted if _asks_for_training(left) else None
        case ast.BoolOp(op=ast.And(), values=values) if any(map(_asks_for_training, values)):
            return True
    return None


def _fates(function: ast.AST) -> frozenset[str]:
    """The variables of a function that are bound once, and of which all that is read ends in Python."""
    parents = parents_in(function)
    reads: dict[str, list[ast.Name]] = {}
    bound: Counter[str] = Counter()
    for part in walk(function):
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Load):
                reads.setdefault(part.id, []).append(part)
            bound[part.id] += isinstance(part.ctx, ast.Store)
    # What is bound to a variable ends where that does; what goes round in a circle ends nowhere.
    open_reads: dict[str, int] = {}
    bound_to: dict[str, list[str]] = {}
    for name, several in reads.items():
        if bound[name] == 1:
            ends = [_end(read, parents, True) for read in several]
            if False not in ends:
                open_reads[name] = sum(isinstance(end, str) for end in ends)
                for end in ends:
                    if isinstance(end, str):
                        bound_to.setdefault(end, []).append(name)
    found = [name for name, count in open_reads.items() if not count]
    for name in found:
        for other in bound_to.get(name, ()):
            open_reads[other] -= 1
            if not open_reads[other]:
                found.append(other)
    return frozenset(found)


_KNOWN = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "timm", "numpy", "einops", "builtins"}
_MOST_NAMES = 16
"""How many variables it goes through, one after the other."""
_HIGHEST = 64
"""How many expressions around each other it goes through."""
_Names = dict[str, list[ast.Name]]


class HandedOn:
    """The calls of one class's code, or of a file's functions, that only carry a value on, and what they carry it to."""

    def __init__(self, readings: Callable[[ast.AST], Sequence[Call]]) -> None:
        self._readings = readings
        self._of_names: dict[tuple[ast.AST, str], list[ast.Call] | None] = {}
        self._returned: dict[tuple[ast.AST, str], frozenset[Place] | None] = {}

    def of(self, node: ast.expr, function: ast.AST, depth: int = 0) -> list[ast.Call] | None:
        """The calls of unread code that take what comes of an expression in a function; None where it goes elsewhere, too.

        What a layer is called with first is its input, which it reads whoever wrote it. Where a value goes nowhere, the list is empty.
        """
        parents = parents_in(function)
        child: ast.AST = node
        for _ in range(_HIGHEST):
            parent = parents.get(child)
            match parent:
                case ast.Call():
                    if child is not parent.func and self._is_unread(parent):
                        return [parent] if child not in parent.args[:1] else None
                    if not self._computes(parent):
                        return None
                case ast.Attribute():
                    above = parents.get(parent)
                    if not (isinstance(above, ast.Call) and above.func is parent):
                        return None
                case ast.Subscript(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()):
                    pass
                case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Slice():
                    pass
                case ast.keyword(arg=name) if name not in (None, "out"):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is child:
                    return self._of_name(name, function, depth + 1) if depth < _MOST_NAMES else None
                case _:
                    return None
            child = parent
        return None

    def _of_name(self, name: str, function: ast.AST, depth: int) -> list[ast.Call] | None:
        """The same of all that is read of a variable, whatever it is bound to."""
        key = (function, name)
        if key not in self._of_names:
            # What goes round in a circle may go anywhere.
            self._of_names[key] = None
            reads = once(function, "_plain_reads", _plain_reads).get(name, [])
            ends = [self.of(read, function, depth) for read in reads]
            calls = dict.fromkeys(call for end in ends for call in end or ())
            self._of_names[key] = None if None in ends else [*calls]
        return self._of_names[key]

    def returned(self, node: ast.expr, function: ast.AST) -> frozenset[Place] | None:
        """The elements of the returned tuple that an expression alone reaches, by what only computes; None where it goes elsewhere, too."""
        end = self._end_of(node, function)
        return self._name_returned(end, function) if isinstance(end, str) else end and frozenset({end})

    def _end_of(self, node: ast.expr, function: ast.AST) -> Place | str | None:
        """The element of the returned tuple, or the variable, that the value of an expression goes to; None where it goes elsewhere."""
        parents = parents_in(function)
        child: ast.AST = node
        for _ in range(_HIGHEST):
            parent = parents.get(child)
            match parent:
                case ast.Call() if self._computes(parent):
                    pass
                case ast.Attribute() if isinstance(above := parents.get(parent), ast.Call) and above.func is parent:
                    pass
                case ast.Tuple(elts=elts, ctx=ast.Load()) if isinstance(parents.get(parent), ast.Return):
                    starred = any(isinstance(part, ast.Starred) for part in elts)
                    at = next(at for at, part in enumerate(elts) if part is child)
                    return None if starred else Place(at, len(elts))
                case ast.Subscript(ctx=ast.Load()) | ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()):
                    pass
                case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Slice():
                    pass
                case ast.keyword(arg=name) if name not in (None, "out"):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is child:
                    return name
                case _:
                    return None
            child = parent
        return None

    def _name_returned(self, name: str, function: ast.AST) -> frozenset[Place] | None:
        """The same of all that is read of a variable, whatever it is bound to, and of the variables that this is bound to."""
        key = (function, name)
        if key not in self._returned:
            reads = once(function, "_plain_reads", _plain_reads)
            names = {name: None}
            pending = [name]
            ends: list[Place | str | None] = []
            for variable in pending:
                more = [self._end_of(read, function) for read in reads.get(variable, [])]
                ends += more
                pending += [end for end in dict.fromkeys(more) if isinstance(end, str) and end not in names]
                names.update(dict.fromkeys(pending))
            is_told = None not in ends and len(names) <= _MOST_NAMES
            self._returned[key] = frozenset(end for end in ends if isinstance(end, Place)) if is_told else None
        return self._returned[key]

    def _is_unread(self, call: ast.Call) -> bool:
        """Whether a call runs what comes from outside the project, and is no function or layer that is known."""
        readings = self._readings(call)
        return bool(readings) and all(_is_foreign(reading) for reading in readings)

    def _computes(self, call: ast.Call) -> bool:
        """Whether a call is one of torch's functions, methods or layers, and changes nothing in place."""
        readings = self._readings(call)
        return bool(readings) and all(
            _is_of_torch(reading) and not reading.method.endswith("_") for reading in readings
        )


def _is_foreign(reading: Call) -> bool:
    parts = alternatives(reading.callee)
    return all(
        isinstance(part, (Instance, Named))
        and "." in (name := _name(part))
        and name.partition(".")[0] not in _KNOWN
        and (isinstance(part, Named) or part.kind == "unresolved")
        for part in parts
    )


def _name(part: Instance | Named) -> str:
    return (part.external_name or "") if isinstance(part, Named) else part.name


def _is_of_torch(reading: Call) -> bool:
    if reading.name:
        return reading.name.startswith("torch.")
    parts = alternatives(reading.callee)
    return all(
        isinstance(part, Instance)
        and part.kind == "module"
        and not isinstance(part.callee, ClassRef)
        and part.name.startswith("torch.nn.")
        for part in parts
    )


def _plain_reads(function: ast.AST) -> _Names:
    """Where the variables of a function are read, or changed in place by a sign."""
    reads: _Names = {}
    for part in walk(function):
        match part:
            case ast.Name(id=name, ctx=ast.Load()):
                reads.setdefault(name, []).append(part)
            case ast.AugAssign(target=ast.Name(id=name) as target):
                reads.setdefault(name, []).append(target)
            case _:
                pass
    return reads

"""Def-use: to which calls of code that was not read the value of an expression goes, where it goes nowhere else."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Instance, Named, alternatives
from modellint.source.project.symbols import ClassRef
from modellint.source.syntax.ast_walk import once, parents_in, walk

if TYPE_CHECKING:
    from modellint.source.facts.function_facts import Code
    from modellint.source.facts.recorded_operations import Call

_KNOWN = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "timm", "numpy", "einops", "builtins"}
_DEEPEST = 16
"""How many variables it goes through, one after the other."""
_HIGHEST = 64
"""How many expressions around each other it goes through."""
_Names = dict[str, list[ast.Name]]


class HandedOn:
    """The calls of one class's code, or of a file's functions, that only carry a value on."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._of_names: dict[tuple[ast.AST, str], list[ast.Call] | None] = {}

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
                    return self._of_name(name, function, depth + 1) if depth < _DEEPEST else None
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

    def _is_unread(self, call: ast.Call) -> bool:
        """Whether a call runs what comes from outside the project, and is no function or layer that is known."""
        readings = self._code.readings(call)
        return bool(readings) and all(_is_foreign(reading) for reading in readings)

    def _computes(self, call: ast.Call) -> bool:
        """Whether a call is one of torch's functions, methods or layers, and changes nothing in place."""
        readings = self._code.readings(call)
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

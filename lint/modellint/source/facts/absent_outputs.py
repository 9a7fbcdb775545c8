"""Absent outputs: the places of a returned tuple that hold None whatever the input is.

A summary of each function says how many values it gives, and which of them are None; it is made of the summaries of the functions and
modules that it calls. Conditions on arguments are decided by the constants that the call gives, or else by the defaults, and those on
flags of the constructor by what the project builds. Nothing is told of what has another form.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.symbols import ClassRef, External, FunctionRef, dotted_name
from modellint.source.roles.constructor_flags.flag_conditions import flag_truth
from modellint.source.roles.forward_call_sites.call_arguments import leaves_out
from modellint.source.roles.unexported_branches import exported_flag
from modellint.source.syntax.ast_walk import given_to, of_kind, once, parents_in
from modellint.source.syntax.path_conditions import conditions_at

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Constants: TypeAlias = "dict[str, object]"
_DEEPEST = 3
"""How many calls are followed into each other."""
_MOST = 16
"""A variable that more statements bind, or a function that returns in more places, is not followed."""
_WIDEST = 64
"""A tuple of more parts is not looked at."""
_NONE_IF_UNWANTED = {
    "torch.nn.MultiheadAttention": "need_weights",
    "torch.nn.modules.activation.MultiheadAttention": "need_weights",
}
"""Layers of torch that give a tensor and None where an argument is False."""


class Outputs(NamedTuple):
    """How many values a call gives, and the places of those that are None."""

    number: int
    absent: frozenset[int]


def absent_outputs(project: Project, ref: ClassRef, forward: ast.FunctionDef, statement: ast.Return) -> frozenset[int]:
    """The places of a tuple that `forward` returns, at a `return` that always runs, where it holds None that is not written there."""
    scope = _Scope(project, ref.file, ref, forward, None, 0)
    value = statement.value
    absent: frozenset[int] = frozenset()
    if isinstance(value, ast.Tuple) and len(value.elts) <= _WIDEST:
        absent = frozenset(at for at, part in enumerate(value.elts) if scope.is_none(part) and not _is_written(part))
    elif isinstance(value, ast.Call):
        outputs = scope.outputs(value)
        absent = outputs.absent if outputs is not None else absent
    project.touch_tree()
    return absent


def _is_written(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant)


class _Scope:
    """A function as one call runs it. ``constants``: what is known of its arguments; None for `forward` as anyone may call it."""

    def __init__(
        self,
        project: Project,
        file: IndexedFile,
        ref: ClassRef | None,
        function: _Function,
        constants: _Constants | None,
        depth: int,
    ) -> None:
        self.project = project
        self.file = file
        self.ref = ref
        self.function = function
        self.constants = constants
        self.depth = depth
        self._known: dict[str, bool] = {}
        self._open = 0

    def is_none(self, value: ast.expr) -> bool:
        """Whether an expression certainly is None."""
        match value:
            case ast.Constant(value=constant):
                return constant is None
            case ast.IfExp(test=test, body=body, orelse=other):
                truth = self._truth(test)
                taken = body if truth else other
                return truth is not None and not isinstance(taken, ast.IfExp) and self.is_none(taken)
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(at))):
                outputs = self.outputs(call)
                return outputs is not None and at % outputs.number in outputs.absent
            case ast.Name(id=name):
                return self._is_none_variable(name)
        return False

    def _is_none_variable(self, name: str) -> bool:
        """Whether all that may be bound to a variable is None, what is reached by another flag only left out."""
        if name not in self._known and self._open < _MOST:
            # What it is bound to may lead back to it.
            self._known[name] = False
            self._open += 1
            self._known[name] = self._look_up(name)
            self._open -= 1
        return self._known.get(name, False)

    def _look_up(self, name: str) -> bool:
        function = self.function
        if name in _arguments(function) or any(
            True for kind in (ast.Nonlocal, ast.Global) for _ in of_kind(function, kind)
        ):
            return False
        stores = _stores(function).get(name, [])
        if not stores or len(stores) > _MOST:
            return False
        parents = parents_in(function)
        absent = 0
        for store in stores:
            if self._is_bound_to_none(store, parents):
                absent += 1
            elif not self._is_left_out(store.lineno):
                return False
        return absent > 0

    def _is_bound_to_none(self, store: ast.Name, parents: dict[ast.AST, ast.AST]) -> bool:
        match parents.get(store):
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return self.is_none(value)
            case ast.Tuple(elts=elts) as target if not any(isinstance(part, ast.Starred) for part in elts):
                match parents.get(target):
                    case ast.Assign(value=ast.Call() as call):
                        outputs = self.outputs(call)
                        at = next(at for at, part in enumerate(elts) if part is store)
                        return outputs is not None and outputs.number == len(elts) and at in outputs.absent
        return False

    def _is_left_out(self, row: int) -> bool:
        return any(self._truth(test) is (not holds) for test, holds in conditions_at(self.function.body, row))

    def _truth(self, test: ast.expr) -> bool | None:
        """What a condition is by default; None where that is not known."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._truth(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                ends = isinstance(op, ast.Or)
                truths = [self._truth(value) for value in values]
                return ends if ends in truths else None if None in truths else not ends
        if self.constants is not None:
            match test:
                case ast.Name(id=name) if self._is_constant(name):
                    return bool(self.constants[name])
                case ast.Compare(
                    left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as asks], comparators=[ast.Constant(value=None)]
                ) if self._is_constant(name):
                    return (self.constants[name] is None) is isinstance(asks, ast.Is)
        elif self.ref is not None:
            if leaves_out(self.project, self.ref, self.function, test):
                return False
            flag = self._exported_flag(test)
            if flag is not None:
                return flag
        return flag_truth(self.project, self.ref, test) if self.ref is not None else None

    def _exported_flag(self, value: ast.expr) -> bool | None:
        """What the project's own exports give for an argument of the `forward` that anyone may call."""
        if self.constants is not None or self.ref is None or not isinstance(value, ast.Name):
            return None
        return exported_flag(self.project, self.ref, self.function, value.id)

    def _handed_on(self, value: ast.expr) -> ast.expr:
        """The constant that an argument of a call is, where it is an argument of the function itself; else what is written."""
        if not isinstance(value, ast.Name):
            return value
        known = self.constants if self._is_constant(value.id) else None
        match self._exported_flag(value) if known is None else known[value.id]:
            case None if known is None:
                return value
            case bool() | int() | float() | str() | None as constant:
                return ast.Constant(constant)
        return value

    def _is_constant(self, name: str) -> bool:
        return self.constants is not None and name in self.constants and name not in _stores(self.function)

    def outputs(self, call: ast.Call) -> Outputs | None:
        """What is known of the values that a call gives; None where that is nothing."""
        if self.depth >= _DEEPEST or any(isinstance(part, ast.Starred) for part in call.args):
            return None
        if any(word.arg is None for word in call.keywords):
            return None
        ref = self.ref
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if ref is not None:
                method = next(
                    (part for part in self.project.lineage(ref) if name in part.file.members(part.node)), None
                )
                if method is not None:
                    return self._summary(method.file, method, method.file.members(method.node)[name], call, ref)
                return self._of_module(ref, name, call)
            case ast.Name() | ast.Attribute():
                dotted = dotted_name(call.func)
                symbol = self.project.resolve(self.file, dotted) if dotted is not None else None
                if (
                    isinstance(symbol, FunctionRef)
                    and dotted is not None
                    and dotted.partition(".")[0] not in _stores(self.function)
                ):
                    return self._summary(symbol.file, None, symbol.node, call, None)
        return None

    def _of_module(self, ref: ClassRef, attribute: str, call: ast.Call) -> Outputs | None:
        """What a module gives that one statement binds an attribute to."""
        makers = [
            (part.file, assign)
            for part in self.project.lineage(ref)
            for assign in once(part.node, "_attribute_makers", _makers).get(attribute, ())
        ]
        if len(makers) != 1:
            return None
        file, maker = makers[0]
        dotted = dotted_name(maker.func) if isinstance(maker, ast.Call) else None
        symbol = self.project.resolve(file, dotted) if dotted is not None else None
        match symbol:
            case External(name=name) if name in _NONE_IF_UNWANTED:
                wanted = next((word.value for word in call.keywords if word.arg == _NONE_IF_UNWANTED[name]), None)
                if isinstance(wanted, ast.Constant) and wanted.value is False:
                    return Outputs(2, frozenset({1}))
            case ClassRef() if self.project.is_module(symbol):
                for part in self.project.lineage(symbol):
                    forward = part.file.members(part.node).get("forward")
                    if forward is not None:
                        return self._summary(part.file, part, forward, call, symbol)
        return None

    def _summary(
        self, file: IndexedFile, owner: ClassRef | None, node: ast.AST, call: ast.Call, ref: ClassRef | None
    ) -> Outputs | None:
        if not isinstance(node, ast.FunctionDef) or not all(map(_is_quiet, node.decorator_list)):
            return None
        given = _given(node, call, owner is not None)
        if given is None:
            return None
        # A default is none of the arguments of this function.
        parts = {name: self._handed_on(part) if part in given_to(call) else part for name, part in given.items()}
        constants: _Constants = {name: part.value for name, part in parts.items() if isinstance(part, ast.Constant)}
        inner = _Scope(self.project, file, ref, node, constants, self.depth + 1)
        return inner.given_back()

    def given_back(self) -> Outputs | None:
        """How many values the function gives, and which of them are None."""
        function = self.function
        returns = [node for node in of_kind(function, ast.Return) if not self._is_left_out(node.lineno)]
        if not returns or len(returns) > _MOST or any(True for kind in _OTHERWISE for _ in of_kind(function, kind)):
            return None
        count, absent = 0, frozenset[int]()
        for node in returns:
            match node.value:
                case ast.Tuple(elts=parts) if len(parts) <= _WIDEST and not any(
                    isinstance(part, ast.Starred) for part in parts
                ):
                    outputs = Outputs(len(parts), frozenset(at for at, part in enumerate(parts) if self.is_none(part)))
                case ast.Call() as call if (inner := self.outputs(call)) is not None:
                    outputs = inner
                case _:
                    return None
            if count and outputs.number != count:
                return None
            absent = outputs.absent if not count else absent & outputs.absent
            count = outputs.number
            if not absent:
                return None
        return Outputs(count, absent)


_OTHERWISE = (ast.Yield, ast.YieldFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
"""What makes a function give something else than its own `return` says, or holds a `return` that is not its own."""


def _is_quiet(decorator: ast.expr) -> bool:
    """Whether a decorator leaves what a function gives as it is."""
    name = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
    return name.rpartition(".")[2] in ("no_grad", "override", "staticmethod", "inference_mode")


def _arguments(function: _Function) -> list[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def _stores(function: _Function) -> dict[str, list[ast.Name]]:
    """The places where variables are bound, by their names."""
    return once(function, "_stores_by_name", _by_name)


def _by_name(function: _Function) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in of_kind(function, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _makers(node: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """What statements of a class bind attributes of `self` to; None for what is bound in another way."""
    found: dict[str, list[ast.expr | None]] = {}
    made = {
        target: assign.value
        for assign in of_kind(node, ast.Assign)
        if len(assign.targets) == 1
        for target in assign.targets
    }
    for attribute in of_kind(node, ast.Attribute):
        if not isinstance(attribute.ctx, ast.Load):
            found.setdefault(attribute.attr, []).append(made.get(attribute))
    return found


def _given(function: ast.FunctionDef, call: ast.Call, is_bound: bool) -> dict[str, ast.expr] | None:
    """What a call gives for the arguments of a function, or leaves as it is by default; None where it cannot be matched."""
    arguments = function.args
    static = any(getattr(part, "id", "") == "staticmethod" for part in function.decorator_list)
    placed = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaults: dict[str, ast.expr] = dict(
        zip(placed[len(placed) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[argument.arg] = default
    if is_bound and not static:
        placed = placed[1:]
    if len(call.args) > len(placed):
        return None
    given: dict[str, ast.expr] = {**defaults, **dict(zip(placed, call.args, strict=False))}
    given.update((word.arg, word.value) for word in call.keywords if word.arg is not None)
    return given

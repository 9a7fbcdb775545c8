"""Training parts of a class: hooks that a trainer calls, and attributes that `forward` reaches in training only."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from modellint.source.syntax.ast_walk import of_kind, once, walk

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_HOOKS = re.compile(
    r"(?:training|validation|test)_step(?:_end)?|configure_optimizers|forward_train|(?:train|val)_step"
    r"|on_(?:fit|train|validation|test)_(?:batch_|epoch_)?(?:start|end)|(?:train|training|validation|test)_epoch_end"
)
"""Methods that a trainer calls, and no `forward`."""
_MODES = frozenset({"train", "training", "loss"})
"""What a mode is called in which a model is trained: ``if self.mode == "train":``."""


class _Method(Protocol):
    @property
    def node(self) -> _Function:
        """Its statement."""


def is_training_hook(function: ast.AST) -> bool:
    """Whether a method is one that Lightning's trainer and the like call, and nobody else."""
    return _HOOKS.fullmatch(getattr(function, "name", "")) is not None


def runs_without_gradients(methods: Iterable[_Method]) -> set[str]:
    """The names of methods that are marked to run without gradients and are not run by `forward`, and of those that these run: `sample`."""
    functions: dict[str, _Function] = {}
    for method in methods:
        functions.setdefault(method.node.name, method.node)
    of_forward = _closure(["forward"], functions)
    marked = [
        name
        for name, function in functions.items()
        if name not in of_forward
        and not is_training_hook(function)
        and any(re.search(r"no_grad|inference_mode", ast.unparse(one)) for one in function.decorator_list)
    ]
    return _closure(marked, functions)


def _closure(names: list[str], functions: dict[str, _Function]) -> set[str]:
    """Methods, and all that they mention, by name."""
    reached: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name in functions and name not in reached:
            reached.add(name)
            pending += _read_by(functions[name])
    return reached


def attributes_of_training(methods: Iterable[_Method]) -> set[str]:
    """The attributes of `self` that nothing reads but what `forward` runs in training only: a loss that a head holds."""
    functions: dict[str, _Function] = {}
    for method in methods:
        functions.setdefault(method.node.name, method.node)
    forward = functions.get("forward")
    if forward is None:
        return set()
    inference, training = _reached("forward", functions, set())
    others = set().union(
        *(
            _used_by(function)
            for name, function in functions.items()
            if name not in inference and name not in training and name != "__init__" and not is_training_hook(function)
        )
    )
    return training - inference - others


def methods_of_training(methods: Iterable[_Method], trains: Callable[[_Function], bool]) -> set[str]:
    """The names of methods that nothing in the class runs but hooks of a trainer, what ``trains``, and what runs in training only."""
    functions: dict[str, _Function] = {}
    for method in methods:
        functions.setdefault(method.node.name, method.node)
    called = set().union(*(_read_by(function) - {name} for name, function in functions.items()))
    aside = {name for name, function in functions.items() if is_training_hook(function) or trains(function)}
    pending = ["forward", *(name for name in functions if name not in called and name not in aside)]
    run: set[str] = set()
    while pending:
        name = pending.pop()
        if name in functions and name not in run:
            run.add(name)
            pending += _read_apart(functions[name])[0] - aside
    return functions.keys() - run


def methods_of_forward(methods: Iterable[_Method]) -> set[str]:
    """``forward``, and the names of methods that nothing in the class runs but what it runs."""
    functions: dict[str, _Function] = {}
    for method in methods:
        functions.setdefault(method.node.name, method.node)
    of_forward = _closure(["forward"], functions)
    others = [name for name in functions if name not in of_forward and name != "__init__"]
    return of_forward - _closure(others, functions)


def attributes_of_forward(methods: Iterable[_Method]) -> set[str]:
    """The attributes of `self` that nothing but `forward`, and what it alone runs, reads."""
    methods = [*methods]
    own = methods_of_forward(methods)
    read: tuple[set[str], set[str]] = (set(), set())
    for method in methods:
        if method.node.name != "__init__":
            read[method.node.name in own].update(_read_by(method.node))
    return read[True] - read[False]


def methods_run_by(first: str, functions: dict[str, _Function], inside: bool = True) -> set[str]:
    """A method, and those of a class that it calls on `self` in evaluation too, and so on; or else what they call so that is no method."""
    run: set[str] = set()
    others: set[str] = set()
    pending = [first]
    while pending:
        name = pending.pop()
        if name in functions and name not in run:
            run.add(name)
            called = once(functions[name], "_called_on_self", _called_on_self)
            pending += called
            others |= called
    return run if inside else others - functions.keys()


def _called_on_self(function: _Function) -> frozenset[str]:
    return frozenset(
        part.func.attr
        for node in _split(function.body)[0]
        for part in walk(node)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == "self"
    )


def _reached(first: str, functions: dict[str, _Function], seen: set[str]) -> tuple[set[str], set[str]]:
    """The attributes that a method and what it calls read in evaluation, and those that they read in training only."""
    inference: set[str] = {first}
    aside: set[str] = set()
    pending = [first]
    while pending:
        name = pending.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        plain, trained = _read_apart(functions[name])
        inference |= plain
        pending += plain
        aside |= trained
    training: set[str] = set(aside)
    pending = [*aside]
    while pending:
        name = pending.pop()
        if name in functions and name not in seen:
            seen.add(name)
            names = _read_by(functions[name])
            training |= names
            pending += names
    return inference, training


def runs_in_evaluation(function: _Function) -> list[ast.AST]:
    """The statements of a function that evaluation may reach, and the heads of those that hold others."""
    return _split(function.body)[0]


def _split(body: list[ast.stmt]) -> tuple[list[ast.AST], list[ast.AST]]:
    """What of statements runs in evaluation too, and what in training only."""
    plain: list[ast.AST] = []
    trained: list[ast.AST] = []
    for at, statement in enumerate(body):
        match statement:
            case ast.If(test=test, body=inner, orelse=other):
                for block, mode in ((inner, _mode(test, True)), (other, _mode(test, False))):
                    if mode is True:
                        trained += block
                    else:
                        below = _split(block)
                        plain += below[0]
                        trained += below[1]
                plain.append(test)
                if (
                    not other
                    and _mode(test, False) is True
                    and inner
                    and isinstance(inner[-1], (ast.Return, ast.Raise))
                ):
                    trained += body[at + 1 :]
                    break
            case ast.For() | ast.While() | ast.With() | ast.Try():
                below = _split(
                    [*statement.body, *getattr(statement, "orelse", ()), *getattr(statement, "finalbody", ())]
                )
                plain += below[0]
                trained += below[1]
                plain += [part for part in ast.iter_child_nodes(statement) if not isinstance(part, ast.stmt)]
            case _:
                plain.append(statement)
    return plain, trained


def _mode(test: ast.expr, holds: bool) -> bool | None:
    """True where a condition holds, or does not, in training only; False where in evaluation only."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _mode(operand, not holds)
        case ast.BoolOp(op=op, values=values):
            modes = {_mode(value, holds) for value in values}
            if isinstance(op, ast.And) is holds:
                return True if True in modes else False if False in modes else None
            return modes.pop() if len(modes) == 1 else None
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as op], comparators=[ast.Constant(value=str() as wanted)]):
            return holds is isinstance(op, ast.Eq) if wanted.lower() in _MODES else None
        case ast.Attribute(attr="training") | ast.Name(id="training" | "return_loss"):
            return holds
    return None


def _read_by(function: _Function) -> frozenset[str]:
    """The attributes that a method reads, of `self` or of something else."""
    return once(function, "_read_by", lambda node: _attributes(node.body))


def _used_by(function: _Function) -> frozenset[str]:
    """The attributes that a method reads, but for those of which it drops what a method gives: `self.head.set_rate(rate)`."""
    return once(function, "_used_by", _used)


def _used(function: _Function) -> frozenset[str]:
    told = {
        call.func.value
        for call in (part.value for part in of_kind(function, ast.Expr))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr != "forward"
    }
    return frozenset(
        part.attr for part in of_kind(function, ast.Attribute) if isinstance(part.ctx, ast.Load) and part not in told
    )


def _read_apart(function: _Function) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes that a method reads in evaluation too, and those that it reads in training only."""
    return once(function, "_read_apart", _apart)


def _apart(function: _Function) -> tuple[frozenset[str], frozenset[str]]:
    plain, trained = _split(function.body)
    return _attributes(plain), _attributes(trained)


def _attributes(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(
        part.attr
        for node in nodes
        for part in walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
    )

"""Assertions and guards: what `assert`, or `if …: raise`, in front of a statement, and the branch that it stands in, say of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from modellint.source.syntax.ast_walk import of_kind, once, parents_in, walk

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.IsNot: ast.Is, ast.NotEq: ast.Eq, ast.NotIn: ast.In}
_Assertions = dict[str, list[tuple[ast.stmt, bool]]]
"""By the text of a condition: the statements behind which it is true, or false."""


def connected(test: ast.expr, truth_of: Callable[[ast.expr], bool | None]) -> bool | None:
    """Three-valued logic: the truth of `not`, `and` and `or` by that of their operands, None where it is not known."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = connected(operand, truth_of)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            ends = isinstance(op, ast.Or)
            truths = {connected(value, truth_of) for value in values}
            return ends if ends in truths else None if None in truths else not ends
    return truth_of(test)


def asserted_truth(test: ast.expr, function: ast.AST, tree: ast.AST) -> bool | None:
    """What a condition in a function is by the assertions that dominate it, where nothing binds anew what they ask; else None."""
    assertions = once(function, "_assertions", _assertions)
    if not assertions:
        return None

    def truth_of(part: ast.expr) -> bool | None:
        for atom, truth in _atoms(part, True):
            for statement, asserted in assertions.get(ast.dump(atom), ()):
                if _dominates(statement, part, function) and not _may_change(atom, statement, function, tree):
                    return asserted is truth
        return None

    return connected(test, truth_of)


def tested_classes(expression: ast.expr, place: ast.AST, function: ast.AST) -> list[ast.expr]:
    """The classes of one of which `isinstance` says that an expression is, in the branch that a place stands in; none where it does not."""
    parents, text = parents_in(function), ""
    child: ast.AST = place
    while (parent := parents.get(child)) is not None:
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            tests = list(_guards(parent.test, child in body))
            text = text or (ast.dump(expression) if tests else "")
            for test in tests:
                if ast.dump(test.args[0]) == text:
                    return test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
        child = parent
    return []


def _guards(test: ast.expr, truth: bool) -> Iterator[ast.Call]:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _guards(operand, not truth)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is truth:
            for value in values:
                yield from _guards(value, truth)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, _]) if truth:
            yield test
        case _:
            pass


def _assertions(function: ast.AST) -> _Assertions:
    by_text: _Assertions = {}
    conditions: list[tuple[ast.stmt, ast.expr, bool]] = [
        (node, node.test, True) for node in of_kind(function, ast.Assert)
    ]
    conditions += (
        (node, node.test, False)
        for node in of_kind(function, ast.If)
        if not node.orelse and isinstance(node.body[-1], ast.Raise)
    )
    for statement, test, held in conditions:
        for atom, truth in _atoms(test, held):
            by_text.setdefault(ast.dump(atom), []).append((statement, truth))
    return by_text


def _atoms(test: ast.expr, truth: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions without negation that are certainly true, or false, where a condition is."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _atoms(operand, not truth)
        case ast.BoolOp(op=op, values=values):
            for value in values if isinstance(op, ast.And) is truth else ():
                yield from _atoms(value, truth)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant() as right]) if _is_variable(left):
            plain = _NEGATED.get(type(op))
            yield (
                (test, truth)
                if plain is None
                else (ast.Compare(left=left, ops=[plain()], comparators=[right]), not truth)
            )
        case _ if _is_variable(test):
            yield test, truth


def _is_variable(node: ast.expr) -> bool:
    """Whether an expression is a variable, or an attribute of the object itself."""
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _dominates(statement: ast.stmt, node: ast.AST, function: ast.AST) -> bool:
    """Whether a statement stands in front of a node, in its block or in one around it."""
    parents = parents_in(function)
    above = parents.get(statement, function)
    part, around = node, parents.get(node, function)
    while around is not above:
        if around is function:
            return False
        part, around = around, parents.get(around, function)
    blocks = (getattr(above, name, None) for name in ("body", "orelse", "finalbody"))
    return part is not statement and any(
        isinstance(block, list) and statement in block and part in block[block.index(statement) :] for block in blocks
    )


def _may_change(atom: ast.expr, statement: ast.stmt, function: ast.AST, tree: ast.AST) -> bool:
    """Whether what an assertion asks may be another between it and a later condition: it is bound anew, or is a container that changes."""
    variable = atom.left if isinstance(atom, ast.Compare) else atom
    if isinstance(variable, ast.Name):
        own = [part for part in of_kind(function, ast.Name) if part.id == variable.id]
        if any(not isinstance(part.ctx, ast.Load) and part.lineno > statement.lineno for part in own):
            return True
        return variable is atom and _is_used_as_container(variable, function)
    name = getattr(variable, "attr", "")
    return name in once(tree, "_rebound", _rebound) or (variable is atom and _is_used_as_container(variable, function))


def _rebound(tree: ast.AST) -> frozenset[str]:
    """The attributes that a file binds outside of `__init__`."""
    inits = {
        id(part)
        for node in of_kind(tree, ast.FunctionDef)
        if node.name == "__init__"
        for part in of_kind(node, ast.Attribute)
    }
    return frozenset(
        part.attr
        for part in of_kind(tree, ast.Attribute)
        if not isinstance(part.ctx, ast.Load) and id(part) not in inits
    )


def _is_used_as_container(variable: ast.expr, function: ast.AST) -> bool:
    """Whether a function asks a variable for an attribute or an item, so that its truth may change without the variable."""
    text = ast.dump(variable)
    return any(
        isinstance(part, (ast.Attribute, ast.Subscript)) and part.value is not variable and ast.dump(part.value) == text
        for part in walk(function)
    )

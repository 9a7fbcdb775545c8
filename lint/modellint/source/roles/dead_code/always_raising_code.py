"""Always-raising code: classes, methods and rows that cannot be run, as what leads to them always raises an exception."""

from __future__ import annotations

import ast
import builtins
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.external_name_facts import MODULE_ATTRIBUTES, MODULE_CLASSES
from modellint.source.project.mentions import blocks, mentions_in
from modellint.source.project.symbols import ClassRef, External, IndexedFile
from modellint.source.roles.eval_callees import LOOKED_UP
from modellint.source.roles.files.failing_imports import cannot_be_imported
from modellint.source.roles.training_parts import methods_of_forward
from modellint.source.syntax.ast_walk import always_run, children, functions_in, of_kind, once
from modellint.source.syntax.call_signature_mismatch import misfits

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_GONE = frozenset(
    {"apply", "basestring", "cmp", "coerce", "execfile", "file", "intern", "long", "raw_input", "reduce", "reload"}
    | {"unichr", "unicode", "xrange"}
)
"""Builtins of Python 2 that Python 3 has not."""
_PUT_IN = frozenset({"_", "profile", "display", "get_ipython", "reveal_type"})
"""Names that tools put among the builtins."""
_DEEPEST_METHOD = 3
"""How many methods call each other."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp)
"""Expressions of which a part may not be run."""
_HEADS = ("value", "test", "iter", "exc")
"""What a statement runs before its blocks."""


def cannot_be_run(project: Project, ref: ClassRef) -> bool:
    """Whether the own constructor or `forward` of a class always fails, or the import of its file.

    It asks for `xrange`, a `NameError` where the file binds that nowhere, for `range(n / 2)`, a `TypeError`, or, in a project that is
    read as a whole, for another name that nothing binds; or it builds a class of the project with arguments that this does not take.
    """
    if cannot_be_imported(project, ref.file):
        return True
    if vars(ref.node).get("_fails_by_tree"):
        project.touch_tree()
    return once(ref.node, "_cannot_be_run", lambda _: _fails(project, ref))


def _fails(project: Project, ref: ClassRef) -> bool:
    methods = {function.name: function for function in functions_in([ref.node])}
    run = [methods[name] for name in ("__init__", "forward") if name in methods]
    if not run or ref.within or any(alias.name == "*" for alias in of_kind(ref.file.tree, ast.alias)):
        return False
    place = _Place(project, ref, methods)
    if any(_always_asks(function, place, 0) for function in run):
        return True
    init = methods.get("__init__")
    return init is not None and _asks_itself_in_vain(project, ref, init)


def _asks_itself_in_vain(project: Project, ref: ClassRef, init: _Function) -> bool:
    """Whether a constructor always asks its object for an attribute that nothing sets: an `AttributeError`.

    The class is a part of a project of which nothing derives from it, and has no base but `nn.Module`.
    """
    asked = {
        part.attr
        for expression in _always_run(init)
        for part in _always_run_parts(expression)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and _is_self(part.value, init)
    }
    unset = {name for name in asked - MODULE_ATTRIBUTES if not name.startswith("_")}
    unset -= once(ref.node, "_set_here", _set_here) if unset else frozenset()
    if not unset or init.decorator_list or ref.node.decorator_list or ref.node.keywords:
        return False
    bases = project.bases(ref)
    if len(bases) != 1 or not isinstance(bases[0], External) or bases[0].name not in MODULE_CLASSES:
        return False
    if any(word in part.attr for part in of_kind(ref.node, ast.Attribute) for word in ("__dict__", "__setattr__")):
        return False
    if any(part.id in ("setattr", "vars", "locals") for part in of_kind(ref.node, ast.Name)):
        return False
    if not _MAKES_ATTRIBUTES.isdisjoint(once(ref.node, "_set_here", _set_here)):
        return False
    vars(ref.node)["_fails_by_tree"] = True
    project.touch_tree()
    mentions = project.mentions
    others = mentions.naming("import")
    if not mentions.is_whole or ref.file.path not in others or len(others) <= 1 or _is_derived_from(project, ref):
        return False
    return any(not _is_set_outside(project, ref, name) for name in sorted(unset))


_MAKES_ATTRIBUTES = frozenset({"__getattr__", "__getattribute__", "__new__", "__init_subclass__"})
"""What a class may have attributes by that nothing sets."""


def _is_self(node: ast.expr, function: _Function) -> bool:
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return isinstance(node, ast.Name) and [part.arg for part in first] == [node.id]


def _set_here(node: ast.ClassDef) -> frozenset[str]:
    """What a class binds anywhere, as an attribute or in its body, or says in a string."""
    names = {part.attr for part in of_kind(node, ast.Attribute) if not isinstance(part.ctx, ast.Load)}
    names |= {part.id for part in of_kind(node, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names |= {
        part.name for part in node.body if isinstance(part, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }
    names |= {(alias.asname or alias.name).partition(".")[0] for alias in of_kind(node, ast.alias)}
    names |= {part.value for part in of_kind(node, ast.Constant) if isinstance(part.value, str)}
    return frozenset(names)


def _is_set_outside(project: Project, ref: ClassRef, name: str) -> bool:
    """Whether code outside a class may set an attribute of it: `Net.width = 8`."""
    sets = re.compile(rb"(?<!\bself)(?<!\bcls)\." + re.escape(name.encode()) + rb"\s*=(?!=)|\bsetattr\(")
    return any(project.mentions.matches(path, sets) for path in project.mentions.naming(ref.node.name))


def fails_before(project: Project, ref: ClassRef, function: _Function) -> bool:
    """Whether a `forward` always calls a method of its own class with arguments that this does not take, and nothing else runs a method.

    ``def encode(self, x, scale)`` and ``self.encode(x)``, a `TypeError`, unless a class that derives from it may have another method.
    """
    methods = {method.name: method for method in functions_in([ref.node])}
    forward = methods.get("forward")
    if forward is None or ref.within or not once(forward, "_misfits", lambda _: _calls_wrongly(forward, methods)):
        return False
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or _is_derived_from(project, ref):
        return False
    if function is forward:
        return True
    return function.name in methods_of_forward(_Method(method) for method in methods.values()) and set(
        mentions.naming(function.name)
    ) <= {ref.file.path}


class _Method(NamedTuple):
    node: _Function


def _calls_wrongly(forward: _Function, methods: dict[str, _Function]) -> bool:
    bound = {
        part.attr
        for method in methods.values()
        for part in of_kind(method, ast.Attribute)
        if not isinstance(part.ctx, ast.Load)
    }
    for expression in _always_run(forward):
        for part in _always_run_parts(expression):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name not in bound:
                    called = methods.get(name)
                    if called is not None and not called.decorator_list and misfits(called, part):
                        return True
    return False


def _is_derived_from(project: Project, ref: ClassRef) -> bool:
    """Whether a class of the project may derive from another."""
    name = ref.node.name
    for path in dict.fromkeys((ref.file.path, *project.mentions.naming(name))):
        file = ref.file if path == ref.file.path else None if path.endswith(".ipynb") else project.file(path)
        if file is None or any(
            isinstance(mention.statement, ast.ClassDef) and mention.node in mention.statement.bases
            for mention in mentions_in(file, name)
        ):
            return True
    return False


class _Place(NamedTuple):
    """A class, and its methods by name."""

    project: Project
    ref: ClassRef
    methods: dict[str, _Function]


def _always_asks(function: _Function, place: _Place, depth: int) -> bool:
    """Whether all that runs a function asks for a name that nothing binds, or for what always raises."""
    file, methods = place.ref.file, place.methods
    for expression in _always_run(function):
        for part in _always_run_parts(expression):
            match part:
                case ast.Name(id=name, ctx=ast.Load()):
                    if name not in once(file.tree, "_bound_names", _bound_names):
                        vars(place.ref.node)["_fails_by_tree"] = True
                        if _is_unbound(place.project, file, name):
                            return True
                case ast.Call(func=ast.Name(id="range"), args=arguments) if any(map(_is_quotient, arguments)):
                    if "range" not in once(file.tree, "_bound_names", _bound_names):
                        return True
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if depth < _DEEPEST_METHOD:
                    called = methods.get(name)
                    if (
                        isinstance(called, ast.FunctionDef)
                        and not called.decorator_list
                        and called is not function
                        and _always_asks(called, place, depth + 1)
                    ):
                        return True
                case ast.Call(func=ast.Name(id=name)) if name in file.names and _builds_wrongly(function, place, part):
                    return True
    return False


def _is_unbound(project: Project, file: IndexedFile, name: str) -> bool:
    """Whether a name that a file does not bind is bound nowhere: the file is part of a project, and no text that is run as it is."""
    if name in _GONE:
        return True
    if hasattr(builtins, name) or name in _PUT_IN or name.startswith("__"):
        return False
    if once(file.tree, "_may_bind_unseen", lambda _: _may_bind_unseen(file)):
        return False
    project.touch_tree()
    # A text alone may be a part of one that binds the name.
    mentions = project.mentions
    others = mentions.naming("import")
    if not mentions.is_whole or file.path not in others or len(others) <= 1:
        return False
    sets = re.compile(rb"(?<!\bself)(?<!\bcls)\." + re.escape(name.encode()) + rb"\s*=(?!=)")
    return not any(mentions.matches(path, sets) for path in mentions.naming(name) if path != file.path)


def asks_in_vain_before(project: Project, file: IndexedFile, function: _Function, row: int) -> bool:
    """Whether all that leads to a row of a function asks for a name before that nothing binds, so that the row is never run."""
    unknown = once(file.tree, "_unknown_names", _unknown_names)
    if not unknown:
        return False
    key = "never run", file.path, function.lineno, function.col_offset
    never = project.remembered(key, lambda: sorted(_never_run(project, file, function.body)))
    at = bisect_right(never, (row, _ENDLESS))
    return at > 0 and row <= never[at - 1][1]


def _unknown_names(tree: ast.Module) -> frozenset[str]:
    """The names that a file asks for, and neither it nor Python binds."""
    if any(alias.name == "*" for alias in of_kind(tree, ast.alias)):
        return frozenset()
    asked = {part.id for part in of_kind(tree, ast.Name) if isinstance(part.ctx, ast.Load)}
    return frozenset(name for name in asked - once(tree, "_bound_names", _bound_names) if not hasattr(builtins, name))


def _never_run(project: Project, file: IndexedFile, body: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """The first and last of the rows that stand, in a block, behind a statement that asks for a name which nothing binds."""
    for statement in body:
        inner = [block for block in blocks(statement) if block]
        heads = (getattr(statement, field, None) for field in _HEADS) if isinstance(statement, _PLAIN) else ()
        if any(_asks_in_vain(project, file, head) for head in heads if isinstance(head, ast.expr)):
            last = inner[0][0].lineno - 1 if inner else statement.end_lineno or statement.lineno
            yield last + 1, body[-1].end_lineno or last
            return
        for block in inner:
            yield from _never_run(project, file, block)


_PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.While)
"""Statements that run their heads first."""
_ENDLESS = 1 << 40
"""More rows than a file has."""


def _asks_in_vain(project: Project, file: IndexedFile, expression: ast.expr) -> bool:
    unknown = once(file.tree, "_unknown_names", _unknown_names)
    names = {part.id for part in _always_run_parts(expression) if isinstance(part, ast.Name) and part.id in unknown}
    return any(
        project.remembered(("unbound", file.path, name), partial(_is_unbound, project, file, name))
        for name in sorted(names)
    )


def _may_bind_unseen(file: IndexedFile) -> bool:
    """Whether a file may bind names by strings, or is a notebook, whose names others bind."""
    text = file.source.text
    return bool(file.path.endswith(".ipynb") or "setattr(" in text or "builtins" in text or LOOKED_UP.search(text))


def _builds_wrongly(function: _Function, place: _Place, call: ast.Call) -> bool:
    """Whether a call builds a class of the project with arguments that its constructor does not take."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    project, file = place.project, place.ref.file
    if len(file.names[name]) != 1 or any(part.arg == name for part in of_kind(function, ast.arg)):
        return False
    if any(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(function, ast.Name)):
        return False
    symbol = project.resolve(file, name)
    if not isinstance(symbol, ClassRef) or project.is_module(symbol) is not True:
        return False
    init: _Function | None = None
    for ref in project.lineage(symbol):
        members = {member.name: member for member in functions_in([ref.node])}
        if "__new__" in members or ref.node.decorator_list or ref.node.keywords or len(ref.node.bases) != 1:
            return False
        init = init or members.get("__init__")
    return init is not None and not init.decorator_list and misfits(init, call)


def _is_quotient(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _always_run(function: _Function) -> Iterator[ast.expr]:
    """The expressions that a function runs whenever it is called."""
    for statement in always_run(function, to_yield=True):
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.For, ast.If)):
            yield from (part for field in _HEADS if isinstance(part := getattr(statement, field, None), ast.expr))
        elif not isinstance(statement, (ast.Assert, ast.Pass, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return


def _always_run_parts(expression: ast.expr) -> Iterator[ast.expr]:
    """An expression and what it always runs, in no order."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        if not isinstance(part, _LATER):
            below = (child.value if isinstance(child, ast.keyword) else child for child in children(part))
            pending += (child for child in below if isinstance(child, ast.expr))


def _bound_names(tree: ast.Module) -> set[str]:
    """All names that a file binds somewhere, in whatever scope, but for those that only a pattern binds."""
    names = {part.id for part in of_kind(tree, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names |= {part.arg for part in of_kind(tree, ast.arg)}
    names |= {(alias.asname or alias.name).partition(".")[0] for alias in of_kind(tree, ast.alias)}
    names |= {part.name for part in of_kind(tree, ast.FunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.AsyncFunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.ExceptHandler) if part.name is not None}
    return names | {part.name for part in of_kind(tree, ast.ClassDef)}

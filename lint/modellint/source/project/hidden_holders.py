"""Hidden holders: functions and plain objects that a module keeps, and that hold a module which nothing registers.

It is told only where the module is made on the spot and can be seen to go nowhere else: a variable of the constructor that closures
call and nothing else reads, or an attribute that the constructor of a class with no bases makes.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.project.symbols import ClassRef, External, dotted_name
from modellint.source.syntax.ast_walk import of_kind, once, parents_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

    IsStateful = Callable[[IndexedFile, ast.Call], bool]


class Holder(NamedTuple):
    """An attribute that hides a module, the statement that binds it, what it keeps the module in, in words, and the class of that."""

    attribute: str
    statement: ast.stmt
    kind: str
    made_by: str = ""


def may_hold(ref: ClassRef, project: Project) -> bool:
    """Whether the constructor of a class may bind an attribute to a function that it makes, or an object with layers."""
    init = _constructor(ref.node)
    if init is None:
        return False
    if any(True for kind in (ast.Lambda, ast.FunctionDef) for _ in of_kind(init, kind)):
        return bool(_closed_over(init))
    return any(True for _ in _objects(ref, init, project, None))


def hidden_holders(ref: ClassRef, project: Project, is_stateful: IsStateful) -> Iterator[Holder]:
    """The attributes of a class that keep a module out of PyTorch's sight in a function or in an object of a plain class."""
    init = _constructor(ref.node)
    if init is None:
        return
    for name, (call, statements) in _closed_over(init).items():
        if is_stateful(ref.file, call):
            for attribute, statement in statements:
                yield Holder(attribute, statement, f"a function that closes over `{name}`")
    yield from _objects(ref, init, project, is_stateful)


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)


def _closed_over(init: ast.FunctionDef) -> dict[str, tuple[ast.Call, list[tuple[str, ast.stmt]]]]:
    """The variables of a constructor that a call makes and closures alone call, with the attributes that the closures are bound to."""
    inner: list[ast.Lambda | ast.FunctionDef] = [*of_kind(init, ast.Lambda), *of_kind(init, ast.FunctionDef)]
    if not inner:
        return {}
    parents = parents_in(init)
    names: dict[str, list[ast.Name]] = {}
    for node in of_kind(init, ast.Name):
        names.setdefault(node.id, []).append(node)
    found: dict[str, tuple[ast.Call, list[tuple[str, ast.stmt]]]] = {}
    arguments = {argument.arg for argument in of_kind(init, ast.arg)}
    for statement in init.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Call() as call) if name not in arguments:
                others = [node for node in names[name] if node is not target]
                bound = [_bound_closure(node, parents, init, names) for node in others]
                if bound and None not in bound:
                    found[name] = call, list(dict.fromkeys(part for part in bound if part is not None))
    return found


def _bound_closure(
    node: ast.Name, parents: dict[ast.AST, ast.AST], init: ast.FunctionDef, names: dict[str, list[ast.Name]]
) -> tuple[str, ast.stmt] | None:
    """The attribute that the closure is bound to in which a variable is called; None where it is used in another way."""
    around = parents.get(node)
    if not (isinstance(around, ast.Call) and around.func is node):
        return None
    while around is not None and not isinstance(around, (ast.Lambda, ast.FunctionDef)):
        around = parents.get(around)
    match around:
        case ast.Lambda():
            return _attribute_bound_to(parents.get(around), around)
        case ast.FunctionDef(name=name, decorator_list=[]) if around not in parents:
            uses = names.get(name, ())
            return _attribute_bound_to(parents.get(uses[0], uses[0]), uses[0]) if len(uses) == 1 else None
    return None


def _attribute_bound_to(statement: ast.AST | None, value: ast.expr) -> tuple[str, ast.stmt] | None:
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)]) if statement.value is value:
            return attribute, statement
    return None


def _objects(
    ref: ClassRef, init: ast.FunctionDef, project: Project, is_stateful: IsStateful | None
) -> Iterator[Holder]:
    """The attributes bound to objects of plain classes that make modules; without ``is_stateful`` whatever these may be."""
    for statement in init.body:
        match statement:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                value=ast.Call(func=ast.Name() | ast.Attribute() as maker) as made,
            ):
                pass
            case _:
                continue
        dotted = dotted_name(maker) or ""
        if not dotted.rpartition(".")[2][:1].isupper() or dotted.startswith("self."):
            continue
        if dotted.partition(".")[0] not in ref.file.names or dotted.startswith(("nn.", "torch.")):
            continue
        symbol = project.resolve(ref.file, dotted)
        if not isinstance(symbol, ClassRef) or not _is_plain(project, symbol):
            continue
        if any(
            is_stateful is None or is_stateful(file, call) for file, call in _layers_of(symbol, attribute, ref, made)
        ):
            yield Holder(attribute, statement, f"a `{symbol.node.name}`, which is no module", symbol.node.name)


def _is_plain(project: Project, ref: ClassRef) -> bool:
    """Whether a class has no bases and nothing that makes it act like a module, or registers what it holds."""
    if ref.node.keywords or ref.node.decorator_list:
        return False
    if any(not (isinstance(base, External) and base.name == "builtins.object") for base in project.bases(ref)):
        return False
    return _BY_HAND.isdisjoint(ref.file.members(ref.node))


_BY_HAND = frozenset(
    {
        "parameters",
        "named_parameters",
        "state_dict",
        "load_state_dict",
        "to",
        "cuda",
        "eval",
        "train",
        "modules",
        "children",
    }
    | {"__getattr__", "__getattribute__", "__setattr__", "__iter__", "__new__", "register", "half", "float"}
)
"""Methods by which an object does for its modules what PyTorch would, or by which something else comes to them."""


def _layers_of(ref: ClassRef, holder: str, owner: ClassRef, made: ast.Call) -> Iterator[tuple[IndexedFile, ast.Call]]:
    """The calls that make the attributes which an object calls itself and nobody else reaches for, with their files."""
    init = _constructor(ref.node)
    outside = once(owner.node, "_reaches", _reaches)
    if init is None or holder in outside.passed or len(init.body) > _LONGEST:
        return
    uses = once(ref.node, "_uses_of_attributes", _uses_of_attributes)
    placed = [argument.arg for argument in (*init.args.posonlyargs, *init.args.args)][1:]
    plain = not any(isinstance(part, ast.Starred) for part in made.args)
    given = dict(zip(placed, made.args, strict=False)) if plain else {}
    given.update((word.arg, word.value) for word in made.keywords if word.arg is not None)
    for statement in init.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value) if (
                uses.get(attribute, False) and (holder, attribute) not in outside.read
            ):
                file = ref.file
                if isinstance(value, ast.Name) and once(init, "_name_counts", _name_counts)[value.id] == 1:
                    # It goes nowhere else in the constructor.
                    value, file = given.get(value.id, value), owner.file
                if isinstance(value, ast.Call):
                    yield file, value


_LONGEST = 128
"""A constructor of more statements is not gone through for each object that is made."""


def _name_counts(function: ast.FunctionDef) -> Counter[str]:
    return Counter(part.id for part in of_kind(function, ast.Name))


def _uses_of_attributes(node: ast.ClassDef) -> dict[str, bool]:
    """The attributes that one statement of a class binds: whether all other uses call them, and there are some."""
    called = {call.func for call in of_kind(node, ast.Call)}
    stored: dict[str, int] = {}
    uses: dict[str, bool] = {}
    for part in of_kind(node, ast.Attribute):
        if not (isinstance(part.value, ast.Name) and part.value.id == "self"):
            continue
        if isinstance(part.ctx, ast.Load):
            uses[part.attr] = uses.get(part.attr, True) and part in called
        else:
            stored[part.attr] = stored.get(part.attr, 0) + 1
    return {name: is_called and stored.get(name) == 1 for name, is_called in uses.items()}


class _Reaches(NamedTuple):
    """What a class does with its attributes: those used otherwise than by a call or by an attribute of theirs, and these attributes."""

    passed: frozenset[str]
    read: frozenset[tuple[str, str]]


def _reaches(node: ast.ClassDef) -> _Reaches:
    called: set[ast.AST] = set()
    for call in of_kind(node, ast.Call):
        called.add(call.func)
    within = {part.value: part for part in of_kind(node, ast.Attribute)}
    passed: set[str] = set()
    read: set[tuple[str, str]] = set()
    for part in of_kind(node, ast.Attribute):
        if not (isinstance(part.value, ast.Name) and part.value.id == "self") or not isinstance(part.ctx, ast.Load):
            continue
        around = within.get(part)
        if around is not None:
            if around not in called:
                read.add((part.attr, around.attr))
        elif part not in called:
            passed.add(part.attr)
    return _Reaches(frozenset(passed), frozenset(read))

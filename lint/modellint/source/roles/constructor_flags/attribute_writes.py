"""Writes of attributes: what the project binds an attribute of a module's objects to, and who else may write it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.symbols import ClassRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.constructor_flags.argument_values import MOST_FILES, own_init, parameter_of, renames, takes
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class _Places(NamedTuple):
    """Of one name in a file: the constructors that it is a switch of, with its place, and whether another's attribute is set."""

    switches: list[tuple[ast.ClassDef | None, _Function, int | None]]
    is_put_on_another: bool


def is_handed_down(project: Project, ref: ClassRef, attribute: str) -> bool:
    """Whether an attribute is False in all the project but its tests: its name is given nothing but its default, and itself.

    That holds by induction where one module hands it to another: ``self.model.slow = self.slow``, and ``self.slow = slow`` of an
    argument that is False by default, which all who build that module leave out.
    """
    init = own_init(ref)
    if init is None or not any(_is_off(ref.file, value, attribute) for value in bindings_of(ref.node, attribute)):
        return False
    project.touch_tree()
    mentions = project.mentions
    paths = [path for path in mentions.naming(attribute) if not is_path_of_tests(project, path)]
    if not mentions.is_whole or len(paths) > MOST_FILES or mentions.is_in_configuration(attribute):
        return False
    switches: list[tuple[IndexedFile, ast.ClassDef | None, _Function, int | None]] = []
    is_put_on_another = False
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        places = _places_in(file, attribute) if file is not None else None
        if file is None or places is None:
            return False
        switches += [(file, *switch) for switch in places.switches]
        is_put_on_another = is_put_on_another or places.is_put_on_another
    return is_put_on_another and bool(switches) and all(_is_left_out_of(project, *switch) for switch in switches)


def _is_off(file: IndexedFile, value: ast.expr | None, name: str) -> bool:
    """Whether a value is False where whatever has a name is: ``name or NEVER``."""
    match value:
        case ast.Constant(value=False):
            return True
        case ast.Name(id=other) | ast.Attribute(attr=other) if other == name:
            return True
        case ast.Name(id=other):
            bindings = file.names.get(other, ())
            return len(bindings) == 1 and isinstance(bindings[0], ast.Constant) and bindings[0].value is False
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.Or) else any)(_is_off(file, part, name) for part in values)
    return False


def _places_in(file: IndexedFile, name: str) -> _Places | None:
    return once(file.tree, f"_handed_{name}", lambda _: _places(file, name))


def _places(file: IndexedFile, name: str) -> _Places | None:
    """Where a file has a name for a switch; None where it gives it anything but False, or what has its name."""
    tree = file.tree
    if any(part.value == name for part in of_kind(tree, ast.Constant)):
        return None
    if any(part.arg == name and not _is_off(file, part.value, name) for part in of_kind(tree, ast.keyword)):
        return None
    plain: set[ast.expr] = set()
    put = False
    for part in of_kind(tree, ast.Assign):
        for target in part.targets:
            if isinstance(target, ast.Attribute) and target.attr == name:
                if not _is_off(file, part.value, name):
                    return None
                plain.add(target)
                put = put or not (isinstance(target.value, ast.Name) and target.value.id == "self")
    stores = [part for part in of_kind(tree, ast.Attribute) if part.attr == name and not isinstance(part.ctx, ast.Load)]
    names = [part for part in of_kind(tree, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Load)]
    if names or any(part not in plain for part in stores):
        return None
    owners = {function: cls for cls in of_kind(tree, ast.ClassDef) for function in functions_in([cls])}
    switches: list[tuple[ast.ClassDef | None, _Function, int | None]] = []
    functions: list[_Function] = [*of_kind(tree, ast.FunctionDef), *of_kind(tree, ast.AsyncFunctionDef)]
    for function in functions:
        if takes(function, name):
            parameter = parameter_of(function, name)
            if parameter is None or parameter.default is not False:
                return None
            switches.append((owners.get(function), function, parameter.place))
    return _Places(switches, put)


def _is_left_out_of(
    project: Project, file: IndexedFile, owner: ast.ClassDef | None, function: _Function, place: int | None
) -> bool:
    """Whether some who are no tests build the class of a constructor, and none gives it the argument at a place but False."""
    if owner is None or function.name != "__init__" or owner not in file.tree.body:
        return False
    mentions = project.mentions
    paths = [path for path in mentions.naming(owner.name) if not is_path_of_tests(project, path)]
    if len(paths) > MOST_FILES:
        return False
    is_built = False
    for path in paths:
        other = None if path.endswith(".ipynb") else project.file(path)
        if other is None or renames(other, owner.name):
            return False
        for call in of_kind(other.tree, ast.Call):
            name = called_name(call)
            if name not in (owner.name, "__init__", "cls", "super"):
                continue
            placed = call.args[place : place + 1] if place is not None else []
            spread = any(isinstance(part, ast.Starred) for part in call.args) or any(
                word.arg is None for word in call.keywords
            )
            if name == owner.name and spread:
                return False
            if any(not (isinstance(part, ast.Constant) and part.value is False) for part in placed):
                return False
            is_built = is_built or name == owner.name
    return is_built


def is_written(project: Project, ref: ClassRef, attribute: str, lineage: list[ClassRef]) -> bool:
    """Whether something in the project but the constructor may write an attribute of an object."""
    project.touch_tree()
    paths = project.mentions.naming(attribute)
    if not project.mentions.is_whole or len(paths) > MOST_FILES:
        return True
    keys = {ref.key for ref in lineage}
    own = ref.file
    for path in dict.fromkeys((own.path, *paths)):
        file = own if path == own.path else project.file(path) if not path.endswith(".ipynb") else None
        if file is None:
            return True
        if any(_may_be_of(project, ref, owner, file, keys) for owner in _writers(file, attribute)):
            return True
    return False


def is_only_asked(project: Project, attribute: str) -> bool:
    """Whether all that the project does with attributes of a name is to ask whether they are true."""
    project.touch_tree()
    mentions = project.mentions
    paths = mentions.naming(attribute)
    if not mentions.is_whole or len(paths) > MOST_FILES or mentions.is_in_configuration(attribute):
        return False
    files = [None if path.endswith(".ipynb") else project.file(path) for path in paths]
    return all(file is not None and _only_asks(file, attribute) for file in files)


def _may_be_of(
    project: Project, another: ClassRef, owner: ast.ClassDef | None, file: IndexedFile, keys: set[tuple[str, int, int]]
) -> bool:
    """Whether what a class writes to `self` may be written to an object of another: a subclass of it, as the rest is known."""
    if owner is None:
        return True
    ref = ClassRef(file, owner)
    return ref.key not in keys and another.key in {other.key for other in project.lineage(ref)}


def _writers(file: IndexedFile, attribute: str) -> Iterator[ast.ClassDef | None]:
    """The classes that write an attribute of `self`; None where it is written to something else."""
    owners = {id(node): cls for cls in of_kind(file.tree, ast.ClassDef) for node in of_kind(cls, ast.Attribute)}
    for node in of_kind(file.tree, ast.Attribute):
        if node.attr == attribute and not isinstance(node.ctx, ast.Load):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield owners.get(id(node)) if is_own else None
    for call in of_kind(file.tree, ast.Call):
        match call:
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=name), _]) if name == attribute:
                yield None


def bindings_of(node: ast.ClassDef, attribute: str) -> Iterator[ast.expr | None]:
    """What a class binds an attribute of its objects to; None where that is no plain assignment in its constructor."""
    for function in functions_in([node]):
        for part in of_kind(function, ast.Attribute):
            if part.attr != attribute or isinstance(part.ctx, ast.Load):
                continue
            plain = (
                *(each.value for each in of_kind(function, ast.Assign) if each.targets == [part]),
                *(each.value for each in of_kind(function, ast.AnnAssign) if each.target is part),
            )
            yield plain[0] if plain and function.name == "__init__" else None


def is_zero_buffer(node: ast.ClassDef, name: str) -> bool:
    """Whether a class registers a buffer of zeros: ``self.register_buffer("learn", torch.zeros(1))``."""
    return any(
        called_name(call) == "register_buffer"
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == name
        and isinstance(call.args[1], ast.Call)
        and dotted_name(call.args[1].func) == "torch.zeros"
        for call in of_kind(node, ast.Call)
        if len(call.args) > 1
    )


def _only_asks(file: IndexedFile, attribute: str) -> bool:
    """Whether a file asks attributes of a name for their truth alone, and has the name in no strings but for the buffers themselves."""
    named = sum(part.value == attribute for part in of_kind(file.tree, ast.Constant))
    tests = [part.test for part in of_kind(file.tree, ast.If)] + [part.test for part in of_kind(file.tree, ast.IfExp)]
    asked = {id(part) for test in tests for part in _parts_of(test)}
    return named == sum(is_zero_buffer(cls, attribute) for cls in of_kind(file.tree, ast.ClassDef)) and all(
        id(part) in asked for part in of_kind(file.tree, ast.Attribute) if part.attr == attribute
    )


def _parts_of(test: ast.expr) -> Iterator[ast.expr]:
    """A condition, and what it joins or turns round."""
    yield test
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts_of(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts_of(operand)

"""Scalar arguments: arguments of a `forward` for which all calls in the project give numbers of Python, whatever the annotation says.

A call counts by the name of what is called: an attribute or a variable that an object of the class is bound to. Those of other objects
of that name have to give numbers, too, and nothing is told where an object goes elsewhere, to a tracer for example.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.mentions import mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, dotted_name
from modellint.source.roles.code_roles import is_in_tests
from modellint.source.syntax.ast_walk import called_name, of_kind, once, parents_in, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.mentions import Mention
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Call: TypeAlias = tuple[ast.Call, _Function | ast.Module]
"""A call, and the function or file that it stands in."""
_MOST_FILES = 24
"""What more files than these name is not followed."""
_DEEPEST = 3
"""Attributes whose numbers are computed from each other."""
_RUNNING = frozenset({"forward", "__call__", "to_onnx", "to_torchscript", "predict"})
_COUNTING = frozenset({"len", "int", "float", "bool", "round"})
_MEASURING = frozenset({"size", "dim", "numel", "item", "ndimension"})


def is_given_scalars(project: Project, ref: ClassRef, function: _Function, name: str) -> bool:
    """Whether all calls of a `forward` in the project, and there are some, give a number of Python for an argument."""
    arguments = function.args
    placed = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if function.name != "forward" or function.decorator_list or name not in placed[1:]:
        return False
    if ref.within or ref.node.decorator_list:
        return False
    place = placed.index(name) - 1
    key = "given numbers", *ref.key, name
    return project.remembered(key, lambda: _all_give_numbers(project, ref, function, name, place))


def _all_give_numbers(project: Project, ref: ClassRef, function: _Function, name: str, place: int) -> bool:
    project.touch_tree()
    if any(part.id == name for part in _stores(function)):
        return False
    calls = _calls_of(project, ref)
    return bool(calls) and all(
        (value := _value_of(call, name, place)) is not None and _is_number(project, value, scope, _DEEPEST)
        for call, scope in calls or ()
    )


def _value_of(call: ast.Call, name: str, place: int) -> ast.expr | None:
    if any(isinstance(part, ast.Starred) for part in call.args) or any(word.arg is None for word in call.keywords):
        return None
    word = next((word.value for word in call.keywords if word.arg == name), None)
    return call.args[place] if word is None and len(call.args) > place else word


def _files(project: Project, name: str) -> list[IndexedFile] | None:
    """The files that name something, but for tests; None where they are too many, or one cannot be read."""
    paths = project.mentions.naming(name)
    if not project.mentions.is_whole or len(paths) > _MOST_FILES:
        return None
    found = [None if path.endswith(".ipynb") else project.file(path) for path in paths]
    files = [file for file in found if file is not None and not is_in_tests(project, file)]
    return files if None not in found else None


def _calls_of(project: Project, ref: ClassRef) -> list[_Call] | None:
    """The calls of all that objects of a class are bound to; None where one may be called by another name."""
    name = ref.node.name
    files = _files(project, name)
    if files is None or project.mentions.is_in_configuration(name):
        return None
    attributes: set[str] = set()
    calls: list[_Call] = []
    for file in files:
        if any(alias.name == name and alias.asname not in (None, name) for alias in of_kind(file.tree, ast.alias)):
            return None
        for mention in mentions_in(file, name):
            if _is_of_another(project, mention, file, ref) or _is_for_super(mention):
                continue
            match mention.statement:
                case ast.Assign(targets=[ast.Attribute(attr=attribute)], value=ast.Call(func=made)) if (
                    made is mention.node
                ):
                    attributes.add(attribute)
                case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=made)) if (
                    made is mention.node and mention.cls is None
                ):
                    own = _of_variable(mention.function or file.tree, variable)
                    if own is None:
                        return None
                    calls += own
                case _:
                    return None
    for attribute in attributes:
        found = _of_attribute(project, attribute)
        if found is None:
            return None
        calls += found
    return calls


def _is_of_another(project: Project, mention: Mention, place: IndexedFile, ref: ClassRef) -> bool:
    dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
    symbol = project.resolve(place, dotted) if dotted is not None else None
    if not isinstance(symbol, (ClassRef, FunctionRef)):
        return False
    return (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)


def _is_for_super(mention: Mention) -> bool:
    return any(
        called_name(call) == "super" and mention.node in call.args for call in of_kind(mention.statement, ast.Call)
    )


def _of_attribute(project: Project, attribute: str) -> list[_Call] | None:
    """The calls of whatever attributes of a name hold; None where one is handed on."""
    files = _files(project, attribute)
    if files is None:
        return None
    calls: list[_Call] = []
    for file in files:
        if any(part.value == attribute for part in of_kind(file.tree, ast.Constant)):
            # `getattr(model, "decoder")`
            return None
        for scope in _scopes(file.tree):
            parents = _parents(scope)
            for part in of_kind(scope, ast.Attribute):
                if part.attr != attribute or not isinstance(part.ctx, ast.Load) or part not in parents:
                    continue
                found = _of_use(part, scope, parents)
                if found is None:
                    return None
                calls += found
    return calls


def _scopes(tree: ast.Module) -> Iterator[_Function | ast.Module]:
    """The functions of a file that stand in no other, and the file itself, for what stands in none."""
    yield tree
    yield from once(tree, "_outer_functions", _outer_functions)


def _outer_functions(tree: ast.Module) -> list[_Function]:
    found: list[_Function] = []
    pending: list[ast.AST] = [*tree.body]
    for node in pending:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node)
        elif isinstance(node, ast.stmt):
            pending += ast.iter_child_nodes(node)
    return found


def _parents(scope: _Function | ast.Module) -> dict[ast.AST, ast.AST]:
    """What the nodes of a scope stand in; of a file those that stand in no function."""
    if not isinstance(scope, ast.Module):
        return parents_in(scope)
    return once(scope, "_parents_outside", _parents_outside)


def _parents_outside(tree: ast.Module) -> dict[ast.AST, ast.AST]:
    parents: dict[ast.AST, ast.AST] = {}
    pending: list[ast.AST] = [tree]
    for node in pending:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                parents[child] = node
                pending.append(child)
    return parents


def _of_use(
    part: ast.expr, scope: _Function | ast.Module, parents: dict[ast.AST, ast.AST], *, follow: bool = True
) -> list[_Call] | None:
    """The call that a use of an object is, or those of the variable that it is bound to; None where it may be called elsewhere."""
    around = parents.get(part)
    match around:
        case ast.Call(func=called) if called is part:
            return [(around, scope)]
        case ast.Call() if _traces_others(around, part):
            return []
        case ast.Attribute(attr=name) if name in _RUNNING:
            call = parents.get(around)
            return [(call, scope)] if isinstance(call, ast.Call) and call.func is around else None
        case ast.Attribute():
            return []
        case ast.Assign(targets=[ast.Name(id=variable)]) if follow:
            return _of_variable(scope, variable)
    return None


def _of_variable(scope: _Function | ast.Module, name: str) -> list[_Call] | None:
    """The calls of whatever a variable holds; None where it is handed on, or read by functions of its file."""
    if isinstance(scope, ast.Module) and any(
        part.id == name for function in _outer_functions(scope) for part in of_kind(function, ast.Name)
    ):
        return None
    parents = _parents(scope)
    calls: list[_Call] = []
    for part in of_kind(scope, ast.Name):
        if part.id != name or not isinstance(part.ctx, ast.Load):
            continue
        found = _of_use(part, scope, parents, follow=False)
        if found is None:
            return None
        calls += found
    return calls


def _traces_others(call: ast.Call, part: ast.expr) -> bool:
    """Whether a call captures methods of an object, and not its `forward`: ``trace_module(net, {"encode": x})``."""
    match call:
        case ast.Call(args=[first, ast.Dict(keys=keys), *_]) if called_name(call) == "trace_module" and first is part:
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            return all(isinstance(name, str) and name not in _RUNNING for name in names)
    return False


def _stores(scope: ast.AST) -> Iterator[ast.Name]:
    return (part for part in of_kind(scope, ast.Name) if not isinstance(part.ctx, ast.Load))


def _is_number(project: Project, value: ast.expr, scope: _Function | ast.Module, depth: int) -> bool:
    """Whether an expression certainly gives a number of Python, or a size, which a trace takes for one."""
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_number(project, operand, scope, depth)
        case ast.BinOp(left=left, right=right):
            return _is_number(project, left, scope, depth) and _is_number(project, right, scope, depth)
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            return not isinstance(index, ast.Slice)
        case ast.Attribute(attr="ndim"):
            return True
        case ast.Call(func=ast.Name(id=called)):
            return called in _COUNTING
        case ast.Call(func=ast.Attribute(attr="size"), args=args):
            return bool(args)
        case ast.Call(func=ast.Attribute(attr=called)):
            return called in _MEASURING
        case ast.Name(id=name):
            return not isinstance(scope, ast.Module) and _holds_number(project, scope, name, depth)
        case ast.Attribute(attr=name):
            return depth > 0 and _only_holds_numbers(project, name, depth)
    return False


def _holds_number(project: Project, function: _Function, name: str, depth: int) -> bool:
    """Whether everything that binds a variable of a function binds it to a number."""
    stores = [*_stores(function)] if depth > 0 else []
    stores = [part for part in stores if part.id == name]
    parents = parents_in(function)
    if not stores or name in {argument.arg for argument in of_kind(function, ast.arg)}:
        return False
    for store in stores:
        match parents.get(store):
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                if not _is_number(project, value, function, depth - 1):
                    return False
            case ast.Tuple() as several:
                match parents.get(several):
                    case ast.Assign(value=ast.Attribute(attr="shape")):
                        pass
                    case _:
                        return False
            case _:
                return False
    return True


def _only_holds_numbers(project: Project, attribute: str, depth: int) -> bool:
    """Whether all that the project binds to attributes of a name are numbers."""
    key = "only numbers", attribute, depth
    return project.remembered(key, lambda: _look_up_numbers(project, attribute, depth))


def _look_up_numbers(project: Project, attribute: str, depth: int) -> bool:
    project.touch_tree()
    files = _files(project, attribute)
    is_bound = False
    for file in files or ():
        if any(part.value == attribute for part in of_kind(file.tree, ast.Constant)):
            return False
        if any(_defines(node, attribute) for node in of_kind(file.tree, ast.ClassDef)):
            return False
        for scope in _scopes(file.tree):
            parents = _parents(scope)
            for part in of_kind(scope, ast.Attribute):
                if part.attr != attribute or isinstance(part.ctx, ast.Load) or part not in parents:
                    continue
                match parents.get(part):
                    case ast.Assign(value=value) | ast.AugAssign(value=value):
                        if not _is_number(project, value, scope, depth - 1):
                            return False
                        is_bound = True
                    case _:
                        return False
    return is_bound


def _defines(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has a method, a property or a variable of a name of its own."""
    return any(
        getattr(statement, "name", None) == name
        or (
            isinstance(statement, (ast.Assign, ast.AnnAssign))
            and any(isinstance(part, ast.Name) and part.id == name for part in walk(statement))
        )
        for statement in node.body
    )

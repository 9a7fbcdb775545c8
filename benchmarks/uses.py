"""How a class uses an attribute, and whether what it holds is registered in another way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

CONTAINERS = {"ModuleList": "list", "ModuleDict": "dict", "ParameterList": "list", "ParameterDict": "dict"}
FILLS = {"append", "extend", "insert", "update", "setdefault"}
REGISTER_CALLS = {"add_module", "register_module", "register_parameter", "setattr", "__setattr__"}
REGISTERING = {*CONTAINERS, "Sequential"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Excluded(Exception):
    """Not a site; the message is the reason."""


class Uses:
    """How a class uses the attribute, and the locals that become it."""

    def __init__(
        self, parents: dict[ast.AST, ast.AST], torch_nn: Callable[[ast.AST], str | None], functions: list[ast.AST]
    ) -> None:
        self.parents = parents
        self.torch_nn = torch_nn
        self.functions = functions
        self.classes: list[ast.ClassDef] = []

    def refuse(self, cls: ast.ClassDef, binding: ast.stmt, argument: ast.expr | None, call: ast.Call) -> None:
        """Raise when the value, or what it is made of, is registered in another way as well."""
        self.classes.append(cls)
        attributes = set(attributes_of(binding))
        sources = {argument.id} if isinstance(argument, ast.Name) else set()
        method = next((node for node in ancestors(call, self.parents) if isinstance(node, Function)), None)
        for node in ast.walk(cls):
            if _takes_in(node, attributes):
                raise Excluded("item of another container")
            if isinstance(node, ast.Call) and node is not call and self._registers(node):
                mentioned = list(_mentioned(node))
                if attributes.intersection(_self_attributes(mentioned)):
                    raise Excluded("registered again under another name")
                inside = method is not None and method in ancestors(node, self.parents)
                if inside and sources.intersection(_plain_names(mentioned)):
                    raise Excluded("registered again under another name")
            elif isinstance(node, ast.For) and attributes.intersection(_self_attributes(ast.walk(node.iter))):
                if any(
                    isinstance(inner, ast.Call) and last_name(inner.func) in REGISTER_CALLS for inner in ast.walk(node)
                ):
                    raise Excluded("registered again under another name")
            elif (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Attribute)
                and attributes_of(node)
                and attributes.intersection(_self_attributes([node.value]))
            ):
                raise Excluded("bound to a second attribute")
        self._refuse_rebinding(binding, attributes)

    def _registers(self, node: ast.Call) -> bool:
        return self.torch_nn(node.func) in REGISTERING or last_name(node.func) in REGISTER_CALLS

    def _refuse_rebinding(self, binding: ast.stmt, attributes: set[str]) -> None:
        """A later statement of the same block, or of one around it, that binds the attribute anew."""
        parents = self.parents
        node: ast.AST = binding
        while not isinstance(node, Function) and node in parents:
            parent = parents[node]
            for block in ("body", "orelse", "finalbody"):
                statements = getattr(parent, block, None)
                if not isinstance(statements, list) or node not in statements:
                    continue
                for later in statements[statements.index(node) + 1 :]:
                    for inner in ast.walk(later):
                        if getattr(inner, "value", None) and attributes.intersection(attributes_of(inner)):
                            raise Excluded("bound anew later in the method")
            node = parent

    def parameters(self) -> set[str]:
        """Arguments of the constructors of the classes."""
        names = set()
        for cls in self.classes:
            for item in cls.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    arguments = item.args
                    names |= {
                        argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                    }
        return names

    def fills(self, attributes: list[tuple[ast.ClassDef, ast.stmt]]) -> Iterator[ast.expr]:
        """The expressions that go into the container after it is made."""
        names = {name for _, binding in attributes for name in attributes_of(binding)}
        aliases = {
            value.id for _, binding in attributes if isinstance(value := getattr(binding, "value", None), ast.Name)
        }
        scopes: list[ast.AST] = [*self.classes, *self.functions]
        seen: set[int] = set()
        for scope in scopes:
            for node in ast.walk(scope):
                if id(node) in seen:
                    continue
                seen.add(id(node))
                yield from _filled(node, names, aliases | self._returned_names())

    def _returned_names(self) -> set[str]:
        return {
            node.value.id
            for function in self.functions
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
        }

    def registered(self, item: ast.expr) -> bool:
        """Whether an item is an attribute of ``self`` already, or becomes one."""
        match item:
            case ast.Attribute(value=ast.Name(id="self")):
                return True
            case ast.Attribute(value=inner):
                return self.registered(inner)
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="self"), *_]):
                return True
            case ast.Subscript():
                return self.registered(item.value)
            case ast.ListComp() | ast.GeneratorExp():
                return self.registered(item.elt)
            case ast.Name(id=name):
                return any(self._bound_elsewhere(cls, name) for cls in self.classes)
        return False

    def _bound_elsewhere(self, cls: ast.ClassDef, name: str) -> bool:
        def named(nodes: Iterable[ast.AST]) -> bool:
            return any(isinstance(node, ast.Name) and node.id == name for node in nodes)

        for node in ast.walk(cls):
            if isinstance(node, ast.Assign) and attributes_of(node) and named([node.value, *node.targets]):
                return True
            if isinstance(node, ast.Call) and last_name(node.func) in REGISTER_CALLS and named(node.args):
                return True
        return False

    def locals_named(self, name: str) -> Iterator[ast.expr]:
        """What a local of the classes' methods stands for, or is filled with."""
        for cls in self.classes:
            for node in ast.walk(cls):
                match node:
                    case ast.Assign(targets=targets, value=value):
                        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                            yield value
                    case ast.For(target=ast.Name(id=bound), iter=values) if bound == name:
                        yield from items_of(values)
                    case ast.comprehension(target=ast.Name(id=bound), iter=values) if bound == name:
                        yield from items_of(values)
                yield from _filled(node, set(), {name})


# -- small questions about nodes -------------------------------------------------------------------------


def _filled(node: ast.AST, attributes: set[str], aliases: set[str]) -> Iterator[ast.expr]:
    def ours(value: ast.AST) -> bool:
        if isinstance(value, ast.Subscript):
            value = value.value
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            return value.attr in attributes
        return isinstance(value, ast.Name) and value.id in aliases

    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=name), args=[*_, last]) if name in FILLS and ours(target):
            yield from items_of(last) if name in ("extend", "update") else [last]
        case ast.AugAssign(target=target, value=value) if ours(target):
            yield from items_of(value)
        case ast.Assign(targets=[ast.Subscript(value=target)], value=value) if ours(target):
            yield value


def items_of(node: ast.expr) -> list[ast.expr]:
    """The item expressions of a literal or a comprehension; any other expression stands for itself."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return [item.value if isinstance(item, ast.Starred) else item for item in node.elts]
        case ast.Dict():
            return list(node.values)
        case ast.ListComp() | ast.GeneratorExp():
            return [node.elt]
        case ast.DictComp():
            return [node.value]
        case ast.Call(func=ast.Name(id="dict"), keywords=[*keywords]) if keywords:
            return [keyword.value for keyword in keywords]
        case ast.Call(func=ast.Name(id="list" | "tuple" | "dict"), args=[only]):
            return items_of(only)
        case ast.BinOp(left=left, op=ast.Mult()):
            return items_of(left)
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            return [*items_of(left), *items_of(right)]
    return [node]


def _takes_in(node: ast.AST, attributes: set[str]) -> bool:
    """Whether a statement puts the attribute's value into another container: ``self.all.append(self.X)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=name), args=[*_, last]) if name in FILLS:
            inside = last
        case ast.Assign(targets=[ast.Subscript(value=target)], value=inside):
            pass
        case _:
            return False
    return bool(attributes & _self_attributes([inside])) and not attributes & _self_attributes([target])


def targets_of(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def attributes_of(statement: ast.AST) -> list[str]:
    """The attributes of ``self`` that a statement assigns."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    return [
        target.attr
        for target in targets_of(statement)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    ]


def _self_attributes(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def _plain_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _mentioned(call: ast.Call) -> Iterator[ast.AST]:
    """What a registering call takes in whole: ``f(x)``, ``f(*x)``, ``f([*x])``; not what stands in a deeper call."""
    pending: list[ast.AST] = [*call.args, *(keyword.value for keyword in call.keywords)]
    while pending:
        node = pending.pop()
        match node:
            case ast.Starred(value=value):
                pending.append(value)
            case ast.List() | ast.Tuple():
                pending += node.elts
            case ast.Call(func=ast.Name(id="list" | "tuple" | "reversed"), args=[*inner]):
                pending += inner
            case ast.Subscript(value=value):
                pending.append(value)
            case ast.BinOp(left=left, right=right):
                pending += [left, right]
            case ast.Dict():
                pending += node.values
            case _:
                yield node


def ancestors(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node


def last_name(node: ast.AST) -> str:
    """The last name of a call's function."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""

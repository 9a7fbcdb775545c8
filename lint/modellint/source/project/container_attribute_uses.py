"""How the methods of a class use an attribute: what only a list can do, and whether its items are called."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modellint.source.project import external_name_facts
from modellint.source.syntax.ast_walk import walk

_TRANSPARENT = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter", "sorted", "cast"})
_HARMLESS = _TRANSPARENT | {
    "len",
    "range",
    "print",
    "bool",
    "any",
    "all",
    "map",
    "filter",
    "next",
    "str",
    "repr",
    "hasattr",
}

LIST_ONLY = frozenset({"index", "count", "remove", "copy", "clear", "reverse", "sort"})
"""Methods of a list that ``nn.ModuleList`` does not have."""
DICT_ONLY = frozenset({"get", "setdefault", "copy", "popitem"})
"""Methods of a dict that ``nn.ModuleDict`` does not have."""


class Uses:
    """Every use of one attribute of ``self`` in some methods."""

    __slots__ = (
        "called",
        "foreign_calls",
        "indexed",
        "item_attributes",
        "item_calls",
        "iterated",
        "left_additions",
        "methods",
        "operators",
        "slice_assigned",
        "type_tests",
    )

    def __init__(self) -> None:
        self.methods: set[str] = set()
        self.called = False
        self.indexed = False
        self.iterated = False
        self.slice_assigned = False
        self.type_tests: set[str] = set()
        self.operators: set[str] = set()
        self.left_additions = False
        self.foreign_calls = False
        self.item_calls: list[tuple[str, ast.Call]] = []
        """Calls of an item, with the name of the method in which they stand."""
        self.item_attributes: set[str] = set()

    def needs_plain(self, lacks: frozenset[str]) -> bool:
        """Whether it is used as only a plain list or dict can be; ``lacks`` are the methods that PyTorch's container has not."""
        if self.methods & lacks or self.slice_assigned or self.left_additions:
            return True
        return bool(
            self.operators & {"Mult", "Compare"} or self.type_tests & {"list", "tuple", "dict", "Sequence", "Mapping"}
        )

    def merge(self, other: Uses) -> None:
        """Add the uses that other methods make."""
        self.methods |= other.methods
        self.called |= other.called
        self.indexed |= other.indexed
        self.iterated |= other.iterated
        self.slice_assigned |= other.slice_assigned
        self.type_tests |= other.type_tests
        self.operators |= other.operators
        self.left_additions |= other.left_additions
        self.foreign_calls |= other.foreign_calls
        self.item_calls.extend(other.item_calls)
        self.item_attributes |= other.item_attributes


class ClassUses:
    """Uses of all attributes in the methods that one class defines itself, collected in one walk of each."""

    __slots__ = ("_table",)

    def __init__(self, node: ast.ClassDef) -> None:
        self._table: dict[str, Uses] = {}
        for function in class_functions(node):
            self._read(function)

    def get(self, attribute: str) -> Uses | None:
        """The uses of one attribute, if there are any."""
        return self._table.get(attribute)

    def of(self, attribute: str) -> Uses:
        """The uses of one attribute, to be added to."""
        return self._table.setdefault(attribute, Uses())

    def _read(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        names = [*function.args.posonlyargs, *function.args.args]
        if not names:
            return
        parents: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = []
        for parent in walk(function):
            nodes.append(parent)
            for child in ast.iter_child_nodes(parent):
                parents[child] = parent
        reader = _Reader(self, function.name, names[0].arg, parents)
        reader.aliases(nodes)
        for node in nodes:
            attribute = reader.attribute(node)
            if attribute is not None:
                reader.use(node, self.of(attribute), attribute)
        reader.items(nodes)


class _Reader:
    def __init__(self, table: ClassUses, method: str, self_name: str, parents: dict[ast.AST, ast.AST]) -> None:
        self.table = table
        self.method = method
        self.self_name = self_name
        self.parents = parents
        self.containers: dict[str, str] = {}
        self.item_names: dict[str, set[str]] = {}

    def aliases(self, nodes: list[ast.AST]) -> None:
        """Locals that are just another name for an attribute, or that go through its items."""
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                attribute = self.attribute(node.value)
                if attribute is not None:
                    self.containers[node.targets[0].id] = attribute
        for node in nodes:
            match node:
                case ast.For() | ast.comprehension():
                    self._pair(node.target, node.iter)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=receiver)):
                    attribute = self.attribute(receiver)
                    if attribute is not None:
                        self.item_names.setdefault(name, set()).add(attribute)
                case _:
                    pass

    def _pair(self, target: ast.AST, source: ast.expr) -> None:
        """Match the target of a loop with what it goes through, into ``enumerate`` and ``zip``."""
        if isinstance(source, ast.Call):
            name = source.func.attr if isinstance(source.func, ast.Attribute) else getattr(source.func, "id", "")
            if name == "enumerate" and source.args and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                self._pair(target.elts[1], source.args[0])
            elif name == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(source.args):
                for element, argument in zip(target.elts, source.args, strict=True):
                    self._pair(element, argument)
            elif name in ("reversed", "list", "tuple", "iter", "sorted") and source.args:
                self._pair(target, source.args[0])
            elif isinstance(source.func, ast.Attribute) and name == "values":
                self._pair(target, source.func.value)
            elif isinstance(source.func, ast.Attribute) and name == "items":
                value = target.elts[-1] if isinstance(target, ast.Tuple) else target
                self._pair(value, source.func.value)
            return
        if isinstance(source, ast.Subscript):
            source = source.value
        attribute = self.attribute(source)
        if attribute is not None and isinstance(target, ast.Name):
            self.item_names.setdefault(target.id, set()).add(attribute)

    def attribute(self, node: ast.AST) -> str | None:
        """The attribute of ``self`` that an expression reads, by its name or a local alias."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self.self_name:
                return attribute
            case ast.Name(id=name, ctx=ast.Load()):
                return self.containers.get(name)
        return None

    def use(self, node: ast.AST, uses: Uses, attribute: str) -> None:
        """Note what is done with the attribute at one place."""
        parent = self.parents.get(node)
        match parent:
            case ast.Attribute():
                if isinstance(self.parents.get(parent), ast.Call):
                    uses.methods.add(parent.attr)
            case ast.Subscript() if parent.value is node:
                self._indexed(parent, uses)
            case ast.For() | ast.comprehension() if parent.iter is node:
                uses.iterated = True
            case ast.Call() if parent.func is node:
                uses.called = True
            case ast.Call():
                self._argument(parent, node, uses)
            case ast.BinOp():
                symbol = type(parent.op).__name__
                uses.operators.add(symbol)
                if symbol == "Add" and parent.right is node:
                    uses.left_additions = True
            case ast.Compare():
                uses.operators.add("Compare")
            case ast.Starred():
                uses.iterated = True
            case ast.Return() | ast.Yield():
                uses.foreign_calls = True
            case _:
                pass

    def _argument(self, call: ast.Call, node: ast.AST, uses: Uses) -> None:
        name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
        if name == "isinstance" and len(call.args) == 2 and call.args[0] is node:
            uses.type_tests.update(sub.id for sub in walk(call.args[1]) if isinstance(sub, ast.Name))
        elif name in _TRANSPARENT:
            uses.iterated = True
        elif name not in _HARMLESS and name not in ("ModuleList", "Sequential", "ModuleDict"):
            uses.foreign_calls = True

    def _indexed(self, node: ast.Subscript, uses: Uses) -> None:
        uses.indexed = True
        if isinstance(node.slice, ast.Slice):
            if not isinstance(node.ctx, ast.Load):
                uses.slice_assigned = True
            return
        parent = self.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            uses.item_calls.append((self.method, parent))
        elif isinstance(parent, ast.Attribute):
            uses.item_attributes.add(parent.attr)

    def items(self, nodes: list[ast.AST]) -> None:
        """Note what is done with the items of the attributes."""
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    for attribute in self.item_names.get(name, ()):
                        self.table.of(attribute).item_calls.append((self.method, node))
                case ast.Attribute(value=ast.Name(id=name), attr=attr):
                    for attribute in self.item_names.get(name, ()):
                        self.table.of(attribute).item_attributes.add(attr)
                case _:
                    pass


def uses_in(classes: Iterable[ClassUses], attribute: str) -> Uses:
    """How the methods of several classes use an attribute."""
    found = Uses()
    for one in classes:
        part = one.get(attribute)
        if part is not None:
            found.merge(part)
    return found


def shows_modules(uses: Uses) -> bool:
    """Whether the items are used as only modules are: by their own attributes, or called on something in a method."""
    if uses.item_attributes & external_name_facts.MODULE_ONLY:
        return True
    return any(method != "__init__" and (call.args or call.keywords) for method, call in uses.item_calls)


def class_functions(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The methods that a class defines itself."""
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement

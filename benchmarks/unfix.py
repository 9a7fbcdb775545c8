"""Correct registrations in real source, and the text with one of them undone.

A site is one expression or statement of an ``nn.Module`` class whose replacement hides modules or parameters
from the class: a container call that becomes the bare list or dict, or a ``super().__init__()`` that becomes
``pass``. What looks like a site and would be no registration defect is left out, with the reason counted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from classes import FileFacts, Tree, dotted
from modellint.source.syntax.source_text import SourceText
from uses import (
    CONTAINERS,
    FILLS,
    REGISTER_CALLS,
    REGISTERING,
    Excluded,
    Function,
    Uses,
    ancestors,
    attributes_of,
    items_of,
    last_name,
    targets_of,
)

SUPER_INIT = "super-init"
KINDS = (*CONTAINERS, SUPER_INIT)

_ARGUMENT_NAMES = {"modules", "values", "parameters"}
_BARE_NOQA = re.compile(r"#\s*noqa\b(?!\s*:)|#\s*modellint:", re.IGNORECASE)


Replacement = tuple[int, int, str]
"""Start, end and the new text."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A statement that makes the value an attribute: ``self.X = …`` in a class; rows are the statement's."""

    class_name: str
    attribute: str
    row: int
    end_row: int


@dataclass(frozen=True, slots=True)
class Site:
    """One registration that can be undone by putting ``replacement`` for the text from ``start`` to ``end``."""

    kind: str
    form: str
    class_name: str
    qualname: str
    """Dotted from the module's level; empty for a class inside a function."""
    class_row: int
    class_end_row: int
    row: int
    start: int
    end: int
    replacement: str
    bindings: tuple[Binding, ...] = ()
    more: tuple[Replacement, ...] = ()
    """What else has to be replaced, so that nothing else still does what is undone."""
    marks: tuple[str, ...] = ()
    """Properties of the site by which the recall is told apart."""
    restored: tuple[Replacement, ...] = ()
    """What a right fix makes of the original; empty: the original itself."""

    def undo(self, text: str) -> str:
        return _replace(text, ((self.start, self.end, self.replacement), *self.more))

    def restore(self, text: str) -> str:
        """The text that a right fix gives."""
        return _replace(text, self.restored)


def _replace(text: str, edits: Iterable[Replacement]) -> str:
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


@dataclass(slots=True)
class Sites:
    """What one file holds."""

    sites: list[Site]
    excluded: Counter[tuple[str, str]]


def find_sites(source: SourceText, tree: ast.Module, facts: FileFacts, project: Tree) -> Sites:
    """Every site of a file, and why the other candidates are none."""
    return _Registrations(source, tree, facts, project).run()


class Finder:
    """What a search for sites of any kind asks about a file."""

    def __init__(self, source: SourceText, tree: ast.Module, facts: FileFacts, project: Tree) -> None:
        self.source = source
        self.tree = tree
        self.facts = facts
        self.project = project
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self.module_rows = project.module_rows(facts)
        self.reason: Counter[tuple[str, str]] = Counter()

    # -- names ---------------------------------------------------------------------------------------

    def resolved(self, node: ast.AST) -> str:
        name = dotted(node)
        return self.project.resolve(self.facts, name) if name else ""

    def torch_nn(self, node: ast.AST) -> str | None:
        """The last part of a name of ``torch.nn``."""
        full = self.resolved(node)
        return full.rpartition(".")[2] if full.startswith("torch.nn.") else None

    # -- where nodes stand ---------------------------------------------------------------------------

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        while (node := self.parents.get(node)) is not None:  # type: ignore[assignment]
            if isinstance(node, kinds):
                return node
        return None

    def qualname(self, cls: ast.ClassDef) -> str:
        around = [node for node in ancestors(cls, self.parents) if isinstance(node, ast.ClassDef | Function)]
        if any(isinstance(node, Function) for node in around):
            return ""
        return ".".join([*(node.name for node in reversed(around)), cls.name])

    def home(self, node: ast.AST) -> tuple[ast.ClassDef, Function]:
        """The module class and the method that a node stands in."""
        cls = self.enclosing(node, ast.ClassDef)
        function: ast.AST | None = node
        method: ast.AST | None = None
        while function is not None and function is not cls:
            if isinstance(function, Function):
                method = function
            function = self.parents.get(function)
        if not isinstance(cls, ast.ClassDef) or not isinstance(method, Function):
            raise Excluded("outside a method of a class")
        if cls.lineno not in self.module_rows:
            raise Excluded("in a class not known to be a module")
        return cls, method

    def flows_into(self, node: ast.expr) -> tuple[ast.AST, ast.AST]:
        """The statement or expression that takes the value over, looking through ``a if b else c``, and its child."""
        child: ast.AST = node
        parent = self.parents[node]
        while isinstance(parent, ast.IfExp) and child is not parent.test:
            child, parent = parent, self.parents[parent]
        return parent, child

    def offsets(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self.source.byte_offset(node.lineno, node.col_offset),
            self.source.byte_offset(node.end_lineno, node.end_col_offset),
        )

    def has_noqa(self, *nodes: ast.stmt) -> bool:
        rows = {row for node in nodes for row in (node.lineno, node.end_lineno or node.lineno)}
        return any(_BARE_NOQA.search(self.source.line(row)) for row in rows)


class _Registrations(Finder):
    def run(self) -> Sites:
        sites = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (kind := self.container(node.func)):
                try:
                    sites.append(self.container_site(node, kind))
                except Excluded as why:
                    self.reason[kind, str(why)] += 1
            elif isinstance(node, ast.ClassDef) and node.lineno in self.module_rows:
                try:
                    if site := self.super_site(node):
                        sites.append(site)
                except Excluded as why:
                    self.reason[SUPER_INIT, str(why)] += 1
        sites.sort(key=lambda site: site.start)
        return Sites(sites, self.reason)

    # -- containers ----------------------------------------------------------------------------------

    def container(self, node: ast.AST) -> str | None:
        name = self.torch_nn(node)
        return name if name in CONTAINERS else None

    def container_site(self, call: ast.Call, kind: str) -> Site:
        argument = self.only_argument(call)
        parent, child = self.flows_into(call)
        if isinstance(parent, ast.Return):
            homes, attributes = self.returned(parent, call)
        elif isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr) and child is parent.value:
            homes, attributes = self.assigned(parent)
        else:
            raise Excluded(self.why_not_bound(parent, call))
        uses = Uses(self.parents, self.torch_nn, homes)
        for cls, binding in attributes:
            uses.refuse(cls, binding, argument, call)
        form = self.form(argument, uses, attributes)
        self.refuse_items(argument, kind, uses, attributes)
        start, end = self.offsets(call)
        cls = attributes[0][0]
        if self.has_noqa(*(binding for _, binding in attributes)):
            raise Excluded("the line carries a noqa comment")
        return Site(
            kind,
            form,
            cls.name,
            self.qualname(cls),
            cls.lineno,
            cls.end_lineno or cls.lineno,
            call.lineno,
            start,
            end,
            self.bare(call, argument, CONTAINERS[kind]),
            tuple(_binding(cls, statement) for cls, statement in attributes),
        )

    def only_argument(self, call: ast.Call) -> ast.expr | None:
        values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in _ARGUMENT_NAMES)]
        if len(values) != len(call.args) + len(call.keywords) or len(values) > 1:
            raise Excluded("arguments not understood")
        if values and isinstance(values[0], ast.Starred):
            raise Excluded("arguments not understood")
        return values[0] if values else None

    def bare(self, call: ast.Call, argument: ast.expr | None, builtin: str) -> str:
        """The plain list or dict in the place of the call."""
        if argument is None:
            return "[]" if builtin == "list" else "{}"
        start, end = self.offsets(argument)
        text = self.source.text[start:end]
        if isinstance(argument, ast.GeneratorExp):
            text = text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
            return f"{builtin}({text})"
        own = (ast.List, ast.ListComp) if builtin == "list" else (ast.Dict, ast.DictComp)
        if isinstance(argument, own):
            return text
        if isinstance(argument, ast.Call) and dotted(argument.func) == builtin:
            return text
        return f"{builtin}({text})"

    def assigned(
        self, statement: ast.Assign | ast.AnnAssign | ast.NamedExpr
    ) -> tuple[list[ast.AST], list[tuple[ast.ClassDef, ast.stmt]]]:
        """Bindings of a value that a statement assigns: an attribute at once, or a local that becomes one."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if isinstance(statement, ast.NamedExpr):
            raise Excluded("assigned inside an expression")
        function = self.enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef)
        found: list[tuple[ast.ClassDef, ast.stmt]] = []
        locals_: list[str] = []
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                cls, method = self.home(statement)
                if target.value.id != self_name(method):
                    raise Excluded("bound on another object")
                found.append((cls, statement))
            elif isinstance(target, ast.Name):
                locals_.append(target.id)
            elif isinstance(target, ast.Subscript):
                raise Excluded("item of another container")
            else:
                raise Excluded("bound on another object")
        if locals_ and function is None:
            raise Excluded("outside a method of a class")
        for name in locals_:
            assert isinstance(function, Function)
            found += self.local(function, name, statement)
        if not found:
            raise Excluded("a local that is not bound to self")
        return [function] if function and locals_ else [], found

    def local(self, function: Function, name: str, statement: ast.stmt) -> list[tuple[ast.ClassDef, ast.stmt]]:
        """Where a local of ``function`` becomes an attribute."""
        found: list[tuple[ast.ClassDef, ast.stmt]] = []
        for node in ast.walk(function):
            if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
                continue
            parent, child = self.flows_into(node)
            if isinstance(parent, ast.Assign | ast.AnnAssign) and child is parent.value:
                cls, _ = self.home(parent)
                if attributes_of(parent):
                    found.append((cls, parent))
                elif any(isinstance(target, ast.Subscript) for target in targets_of(parent)):
                    raise Excluded("item of another container")
            elif isinstance(parent, ast.Return):
                found += self.returned(parent, node)[1]
            elif isinstance(parent, ast.Tuple) and isinstance(self.parents[parent], ast.Return):
                raise Excluded("returned among others")
            elif isinstance(parent, ast.Call) and child in parent.args:
                why = self.why_not_bound(parent, node)
                if why != "passed to another call":
                    raise Excluded(why)
        return found

    def returned(
        self, statement: ast.Return, value: ast.expr
    ) -> tuple[list[ast.AST], list[tuple[ast.ClassDef, ast.stmt]]]:
        """Bindings of what a helper returns: ``self.X = self.helper()`` or ``self.X = helper()`` in this file."""
        function = self.enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(function, Function):
            raise Excluded("outside a method of a class")
        owner = self.parents[function]
        found: list[tuple[ast.ClassDef, ast.stmt]] = []
        scope: ast.AST = owner if isinstance(owner, ast.ClassDef) else self.tree
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(owner, ast.ClassDef):
                matches = (
                    isinstance(called, ast.Attribute)
                    and called.attr == function.name
                    and isinstance(called.value, ast.Name)
                )
            else:
                matches = isinstance(called, ast.Name) and called.id == function.name
            if not matches:
                continue
            parent, child = self.flows_into(node)
            if isinstance(parent, ast.Assign | ast.AnnAssign) and child is parent.value and attributes_of(parent):
                found.append((self.home(parent)[0], parent))
            else:
                raise Excluded("returned, and used otherwise")
        if not found:
            raise Excluded("returned, and not bound in this file")
        return [function], found

    def why_not_bound(self, parent: ast.AST, value: ast.expr) -> str:
        node: ast.AST | None = parent
        while node is not None and not isinstance(node, ast.stmt):
            if isinstance(node, ast.Call) and value is not node.func:
                name = last_name(node.func)
                if self.torch_nn(node.func) in REGISTERING or name in REGISTER_CALLS:
                    return "inside another registering call"
                if name == "__init__":
                    return "passed to super().__init__"
                if name in FILLS:
                    return "item of another container"
            node = self.parents.get(node)
        if isinstance(parent, ast.Call):
            return "passed to another call"
        return "used inside an expression"

    # -- is it a defect ------------------------------------------------------------------------------

    def form(self, argument: ast.expr | None, uses: Uses, attributes: list[tuple[ast.ClassDef, ast.stmt]]) -> str:
        if argument is None or (isinstance(argument, ast.List | ast.Dict | ast.Tuple) and not items_of(argument)):
            fills = list(uses.fills(attributes))
            if not fills:
                raise Excluded("left empty in this class")
            return "empty, filled later"
        match argument:
            case ast.List() | ast.Tuple() | ast.Dict():
                return "literal"
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
                return "comprehension"
            case ast.Name(id=name):
                if name in uses.parameters():
                    return "argument"
                return "variable"
            case ast.Call(func=ast.Name(id="list" | "dict" | "tuple")):
                return "literal"
            case ast.Call():
                return "call"
            case ast.BinOp():
                return "arithmetic"
        return "other"

    def refuse_items(
        self, argument: ast.expr | None, kind: str, uses: Uses, attributes: list[tuple[ast.ClassDef, ast.stmt]]
    ) -> None:
        """Leave out what hides nothing: constants, tensors, and items that are registered otherwise."""
        items = [] if argument is None else items_of(argument)
        filled = list(uses.fills(attributes))
        everything = [*items, *filled]
        if everything and all(isinstance(item, ast.Constant) for item in everything):
            raise Excluded("holds constants only")
        if everything and all(uses.registered(item) for item in everything):
            raise Excluded("the items are registered as attributes too")
        if any(isinstance(item, ast.Name) and uses.registered(item) for item in everything):
            raise Excluded("the items are registered as attributes too")
        if (
            isinstance(argument, ast.List)
            and len(items) == 1
            and isinstance(items[0], ast.Name)
            and items[0].id in uses.parameters()
            and not filled
        ):
            raise Excluded("one constructor argument in a list: a reference")
        if kind.startswith("Parameter") and any(
            isinstance(item, ast.Call) and self.container(item.func) for item in everything
        ):
            raise Excluded("the items are containers of parameters")
        if kind.startswith("Parameter") and not all(self.is_parameter(item, uses) for item in everything):
            raise Excluded("items not known to be parameters, or tensors that the container makes parameters")

    def is_parameter(self, item: ast.expr, uses: Uses, depth: int = 0) -> bool:
        """Whether an item of a parameter container is, or holds, a parameter before it goes in."""
        if depth > 6:
            return False
        match item:
            case ast.Call():
                if self.torch_nn(item.func) in (
                    "Parameter",
                    "UninitializedParameter",
                    "ParameterList",
                    "ParameterDict",
                ):
                    return True
                returned = self.returned_by(item)
                return any(self.is_parameter(value, uses, depth + 1) for value in returned)
            case ast.Name(id=name):
                return any(self.is_parameter(value, uses, depth + 1) for value in uses.locals_named(name))
            case ast.IfExp():
                return self.is_parameter(item.body, uses, depth + 1) or self.is_parameter(item.orelse, uses, depth + 1)
        inner = items_of(item)
        return inner != [item] and any(self.is_parameter(value, uses, depth + 1) for value in inner)

    def returned_by(self, call: ast.Call) -> list[ast.expr]:
        """What the methods or functions of this file with the name of the called one return."""
        name = last_name(call.func)
        return [
            inner.value
            for node in ast.walk(self.tree)
            if isinstance(node, Function) and node.name == name
            for inner in ast.walk(node)
            if isinstance(inner, ast.Return) and inner.value is not None
        ]

    # -- super().__init__() --------------------------------------------------------------------------

    def super_site(self, cls: ast.ClassDef) -> Site | None:
        init = next((item for item in cls.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
        if init is None:
            return None
        calls = [node for node in ast.walk(init) if isinstance(node, ast.Call) and _is_init_call(node)]
        if not calls:
            raise Excluded("no call of the base's __init__")
        if len(calls) > 1:
            raise Excluded("several calls of a base's __init__")
        statement = self.parents[calls[0]]
        if not isinstance(statement, ast.Expr):
            raise Excluded("the call is no statement")
        if self.parents[statement] is not init:
            raise Excluded("the call is conditional")
        rest = [item for item in init.body if item is not statement and not _is_docstring(item)]
        if rest and all(isinstance(item, ast.Raise | ast.Return | ast.Pass) for item in rest):
            raise Excluded("an __init__ that does nothing else")
        if self.has_noqa(statement, init):
            raise Excluded("the line carries a noqa comment")
        direct = any(self.resolved(base) == "torch.nn.Module" for base in cls.bases)
        form = "base is nn.Module" if direct else "base is another module"
        start, end = self.offsets(statement)
        return Site(
            SUPER_INIT,
            form if rest else "nothing else in __init__",
            cls.name,
            self.qualname(cls),
            min([cls.lineno, *(node.lineno for node in cls.decorator_list)]),
            cls.end_lineno or cls.lineno,
            statement.lineno,
            start,
            end,
            "pass",
        )


def _binding(cls: ast.ClassDef, statement: ast.stmt) -> Binding:
    names = attributes_of(statement)
    return Binding(cls.name, names[0] if names else "", statement.lineno, statement.end_lineno or statement.lineno)


def self_name(method: Function) -> str:
    arguments = [*method.args.posonlyargs, *method.args.args]
    return arguments[0].arg if arguments else "self"


def _is_init_call(call: ast.Call) -> bool:
    """``super().__init__(…)``, ``super(C, self).__init__(…)`` or ``Base.__init__(self, …)``."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"):
        return False
    owner = call.func.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    takes_self = bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id == "self"
    return dotted(owner) is not None and takes_self


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
